"use strict";
/* From a column to a color per row, and to what the legend must say about it. */

const Colors = (() => {
  const LOW = 0.02, HIGH = 0.98; // quantiles at the ends of a scale, so that a few outliers do not take all colors
  const SIGNED = 0.2; // a number is signed in earnest if its lesser side reaches this share of the greater


  /* Opacity of rows with unknown values: faint if they are the majority, as with scores of a sample. */
  function unknownAlpha(known, n) {
    return known < n / 2 ? 50 : 150;
  }

  /* Ends of a color scale from all panels' values of one name: a given scale, or quantiles. */
  function range(columns, scale) {
    if (scale) return { low: scale.low, high: scale.high, middle: scale.middle, cut: columns.some((c) => beyond(c, scale)) };
    const parts = columns.map((column) => Float64Array.from(column.values).filter(Number.isFinite).sort());
    const known = parts.filter((part) => part.length);
    if (!known.length) return { low: 0, high: 1, middle: null, empty: true };
    const at = (part, share) => part[Math.round(share * (part.length - 1))];
    let low = Math.min(...known.map((part) => at(part, LOW)));
    let high = Math.max(...known.map((part) => at(part, HIGH)));
    const least = Math.min(...known.map((part) => part[0]));
    const greatest = Math.max(...known.map((part) => part[part.length - 1]));
    if (low === high) [low, high] = [least, greatest];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const signed = low < 0 && high > 0 && Math.min(-low, high) >= SIGNED * Math.max(-low, high);
    return { low, high, middle: signed ? 0 : null, quantiles: least < low || greatest > high };
  }

  function beyond(column, scale) {
    return column.values.some((value) => value < scale.low || value > scale.high);
  }

  /* Place of a value on the scale, 0 to 255; the middle of a diverging one is at 127.5 whatever its ends. */
  function placer({ low, high, middle }) {
    if (middle === null || middle === undefined) return (value) => ((value - low) / (high - low)) * 255;
    return (value) => (value < middle
      ? 127.5 * (1 - (middle - value) / Math.max(middle - low, 1e-300))
      : 127.5 * (1 + (value - middle) / Math.max(high - middle, 1e-300)));
  }

  function numbers(column, scale, palette, dark) {
    const n = column.values.length, rgba = new Uint8Array(4 * n);
    const ramp = Palettes.ramp(palette, dark), place = placer(scale);
    const unknown = Palettes.rgb(Palettes.UNKNOWN[dark ? "dark" : "light"]);
    const faint = unknownAlpha(column.values.reduce((count, value) => count + Number.isFinite(value), 0), n);
    for (let i = 0; i < n; i++) {
      const value = column.values[i];
      if (Number.isFinite(value)) {
        const at = 3 * Math.max(0, Math.min(255, Math.round(place(value))));
        rgba[4 * i] = ramp[at]; rgba[4 * i + 1] = ramp[at + 1]; rgba[4 * i + 2] = ramp[at + 2];
        rgba[4 * i + 3] = 255;
      } else {
        rgba.set(unknown, 4 * i);
        rgba[4 * i + 3] = faint;
      }
    }
    return rgba;
  }

  function counts(column) {
    const found = new Array(column.categories.length + 1).fill(0);
    for (let i = 0; i < column.values.length; i++) found[column.values[i]]++;
    return found;
  }

  /* Verdicts have colors that mean something, the same in every panel and report. */
  const VERDICTS = new Map([["trustworthy", "#0072b2"], ["undecided", "#e69f00"], ["dubious", "#cc303c"]]);

  /* Color of each category name. Up to as many names as colors in their order; of more, the most frequent. */
  function assign(columns, dark) {
    const total = new Map();
    for (const column of columns) {
      const count = counts(column);
      column.categories.forEach((name, k) => total.set(name, (total.get(name) || 0) + count[k + 1]));
    }
    const many = total.size > Palettes.size;
    const names = [...total.keys()];
    if (names.every((name) => VERDICTS.has(name))) {
      return { colors: VERDICTS, order: [...VERDICTS.keys()].filter((name) => total.has(name)), many: false };
    }
    const order = many ? names.sort((a, b) => total.get(b) - total.get(a)) : names;
    const colors = new Map(order.map((name, rank) => [name, Palettes.category(rank, dark)]));
    return { colors, order, many };
  }

  function categories(column, assigned, dark) {
    const n = column.values.length, rgba = new Uint8Array(4 * n);
    const table = [Palettes.rgb(Palettes.UNKNOWN[dark ? "dark" : "light"])];
    const faint = unknownAlpha(n - counts(column)[0], n);
    for (const name of column.categories) table.push(Palettes.rgb(assigned.colors.get(name)));
    for (let i = 0; i < n; i++) {
      rgba.set(table[column.values[i]], 4 * i);
      rgba[4 * i + 3] = column.values[i] ? 255 : faint;
    }
    return rgba;
  }

  function single(n, dark, known = true) {
    const color = (known ? Palettes.SINGLE : Palettes.UNKNOWN)[dark ? "dark" : "light"];
    const rgba = new Uint8Array(4 * n);
    const word = new Uint8Array([...Palettes.rgb(color), known ? 255 : unknownAlpha(n, n)]);
    for (let i = 0; i < n; i++) rgba.set(word, 4 * i);
    return rgba;
  }

  return { range, numbers, assign, categories, counts, single };
})();
