"use strict";
/* The controls above the panels. They only tell the page what was chosen. */

class Toolbar {
  constructor(page) {
    this.page = page;
    const find = (id) => document.getElementById(id);
    this.color = find("color");
    this.palette = find("palette");
    this.modes = [...document.querySelectorAll("#modes button")];
    this.only = find("only");
    this.search = find("search");
    this.forSelection = [find("clear"), find("download"), this.only];
    const listen = (id, kind, act) => find(id).addEventListener(kind, act);
    listen("color", "change", () => page.colorBy(this.color.value));
    listen("palette", "change", () => page.usePalette(this.palette.value));
    listen("size", "input", (event) => page.pointSize(Number(event.target.value)));
    listen("theme", "change", (event) => page.theme(event.target.value));
    listen("clear", "click", () => page.select(null));
    listen("only", "change", () => page.showOnly(this.only.checked));
    listen("download", "click", () => page.download());
    listen("searching", "submit", (event) => { event.preventDefault(); page.search(this.search.value); });
    for (const button of this.modes) button.addEventListener("click", () => page.mode(button.value));
  }

  /* Offer the columns, and what each panel knows of the rows itself. */
  offerColors(data, chosen) {
    const { make } = Dom;
    const option = (value, text) => make("option", { value, text });
    const columns = data.columns.filter((column) => column.kind !== "text");
    const own = [...new Set(data.panels.flatMap((panel) => panel.colors.filter((c) => c.kind !== "text").map((c) => c.name)))];
    this.color.replaceChildren(
      option("", "one color"),
      ...(columns.length ? [make("optgroup", { label: "columns" }, ...columns.map((c) => option(`column:${c.name}`, c.name)))] : []),
      ...(own.length ? [make("optgroup", { label: "per panel" }, ...own.map((name) => option(`panel:${name}`, name)))] : []));
    this.color.value = chosen;
    this.search.placeholder = data.ids.name;
  }

  /* Palettes of this kind of color: "number", "diverging", or others, which have one only. */
  offerPalettes(kind, chosen) {
    const names = { number: Palettes.sequential, diverging: Palettes.diverging }[kind] || [];
    this.palette.replaceChildren(...names.map((name) => Dom.make("option", { value: name, text: name })));
    this.palette.closest(".field").hidden = !names.length;
    if (names.length) this.palette.value = chosen;
  }

  showMode(name) {
    for (const button of this.modes) button.setAttribute("aria-pressed", String(button.value === name));
  }

  showSelection(count) {
    for (const control of this.forSelection) control.disabled = !count;
    if (!count) this.only.checked = false;
  }
}
