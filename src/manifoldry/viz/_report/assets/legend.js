"use strict";
/* What the colors mean: buttons for categories, a bar with its ends for numbers. */

const Legend = (() => {
  const { make } = Dom;
  const MAX_ENTRIES = 21; // as many as there are colors, and one for the rest

  function note(text) {
    return make("span", { class: "legend-note", text });
  }

  function numbers(name, scale, palette, dark, meaning) {
    const ramp = Palettes.ramp(palette, dark), stops = [];
    for (let i = 0; i < 256; i += 15) stops.push(`rgb(${ramp[3 * i]} ${ramp[3 * i + 1]} ${ramp[3 * i + 2]})`);
    const bar = make("span", { class: "bar", role: "img", "aria-label": `colors from ${PageData.number(scale.low)} to ${PageData.number(scale.high)}` });
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const middle = scale.middle === null || scale.middle === undefined ? null : make("span", { class: "tick", text: short(scale.middle) });
    const ends = make("span", { class: "scale" },
      make("span", { class: "tick", text: short(scale.low) }), bar, make("span", { class: "tick", text: short(scale.high) }));
    let said = "";
    if (scale.empty) said = "no values";
    else if (scale.quantiles) said = "2 % to 98 % quantiles; values beyond are clipped";
    else if (scale.cut) said = "values beyond are clipped";
    return [
      make("span", { class: "legend-name", text: name }), ends,
      middle && make("span", { class: "legend-note" }, "middle: ", middle),
      said && note(said), meaning && note(meaning), scale.unknown > 0 && unknownEntry(scale.unknown, dark),
    ];
  }

  function unknownEntry(count, dark) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = Palettes.UNKNOWN[dark ? "dark" : "light"];
    return make("span", { class: "entry" }, swatch, "unknown", make("small", { text: count.toLocaleString("en") }));
  }

  function short(value) {
    return String(Number(value.toPrecision(3)));
  }

  /* `pick(codes, event)` selects the rows of these categories. */
  function categories(column, assigned, dark, meaning, pick) {
    const count = Colors.counts(column);
    const codeOf = new Map(column.categories.map((name, k) => [name, k + 1]));
    const present = assigned.order.filter((name) => codeOf.has(name));
    const own = assigned.many ? present.slice(0, Palettes.size) : present;
    const rest = present.slice(own.length);
    const entries = own.slice(0, MAX_ENTRIES).map((name) => entry(
      name, assigned.colors.get(name), count[codeOf.get(name)], (event) => pick([codeOf.get(name)], event)));
    if (rest.length) {
      const codes = rest.map((name) => codeOf.get(name));
      const total = codes.reduce((sum, code) => sum + count[code], 0);
      entries.push(entry(`${rest.length} other categories`, Palettes.REST, total, (event) => pick(codes, event)));
    }
    if (count[0]) {
      const unknown = Palettes.UNKNOWN[dark ? "dark" : "light"];
      entries.push(entry("unknown", unknown, count[0], (event) => pick([0], event)));
    }
    const said = rest.length ? note(`only the ${own.length} most frequent have their own colors`) : null;
    return [make("span", { class: "legend-name", text: column.name }), ...entries, said, meaning && note(meaning)];
  }

  function entry(name, color, count, onclick) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = color;
    const title = "Select these rows (Shift: add, Alt: remove)";
    return make("button", { type: "button", class: "entry", title, "aria-label": `${name}: ${count.toLocaleString("en")} rows`, onclick }, swatch, name,
      make("small", { text: count.toLocaleString("en") }));
  }

  /* Fill an element with entries; empty if there are none. */
  function show(element, children) {
    element.replaceChildren(...children.filter(Boolean));
    element.hidden = !element.childElementCount;
  }

  return { numbers, categories, show, note };
})();
