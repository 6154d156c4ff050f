"use strict";
/* Colors that people with every kind of color vision can tell apart. */

const Palettes = (() => {
  /* The first seven are those of Okabe and Ito. Each further one is the color farthest, in Lab, from all before it
     for normal, protan and deutan vision, among those that show on white and on black; all pairs differ by 14 or more
     for each (a test computes it). */
  const CATEGORIES = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#333333", "#3c78fc", "#b4cc78",
    "#cc303c", "#609cfc", "#a8cca8", "#24ccd8", "#00786c", "#d88448", "#30783c", "#846090", "#006ccc", "#d8c054",
  ];
  const INK = 7; // Okabe and Ito's black: the color of ink, so light on a dark page
  const INK_ON_DARK = "#e8e8e8";
  const REST = "#9a9a9a"; // categories without a color of their own
  const UNKNOWN = { light: "#d0d0d0", dark: "#4a4a4a" };
  const SINGLE = { light: "#33659e", dark: "#7fb2e8" };

  /* 17 colors at equal steps. */
  const SEQUENTIAL = {
    viridis: "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725",
    cividis: "00224e 002e6a 1a386f 32436d 434e6c 535a6d 61656f 6f7073 7d7c78 8c8878 9b9476 aba072 bcae6c cdbb63 dec958 f0d846 fee838",
    magma: "000004 0a0822 1d1147 36106b 51127c 6a1c81 832681 9c2e7f b73779 d0416f e75263 f56b5c fc8961 fea772 fec488 fde2a3 fcfdbf",
  };
  /* The middle is a gray that shows on white and on black. */
  const DIVERGING = {
    "blue–orange": "12467f 2c6db0 6f9dc8 b4b8bd d9a066 c06a14 7f3b08",
    "purple–green": "40004b 762a83 a07fb5 b8b8b8 74b37c 1b7837 00441b",
  };
  /* The last colors of a sequential palette vanish on white, the first on black. */
  const SHOWN = { light: [0, 0.94], dark: [0.14, 1] };

  function rgb(hex) {
    const value = parseInt(hex.replace("#", ""), 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
  }

  function category(rank, dark) {
    if (rank >= CATEGORIES.length) return REST;
    return rank === INK && dark ? INK_ON_DARK : CATEGORIES[rank];
  }

  /* 256 colors of a palette, as bytes. */
  function ramp(name, dark) {
    const anchors = (SEQUENTIAL[name] || DIVERGING[name]).split(" ").map(rgb);
    const [first, last] = SEQUENTIAL[name] ? SHOWN[dark ? "dark" : "light"] : [0, 1];
    const out = new Uint8Array(256 * 3);
    for (let i = 0; i < 256; i++) {
      const place = (first + ((last - first) * i) / 255) * (anchors.length - 1);
      const left = Math.min(anchors.length - 2, Math.floor(place));
      for (let c = 0; c < 3; c++) {
        out[3 * i + c] = Math.round(anchors[left][c] + (place - left) * (anchors[left + 1][c] - anchors[left][c]));
      }
    }
    return out;
  }

  return {
    category, ramp, rgb, REST, UNKNOWN, SINGLE,
    size: CATEGORIES.length,
    sequential: Object.keys(SEQUENTIAL),
    diverging: Object.keys(DIVERGING),
  };
})();
