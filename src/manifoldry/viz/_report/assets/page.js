"use strict";
/* The page: what is shown, colored and selected, in all panels alike. `window.Report` is the way in for programs. */

class ReportPage {
  constructor() {
    this.data = null;
    this.panels = [];
    this.state = { color: null, palettes: { number: "viridis", diverging: "blue–orange" }, size: 0, mode: "pan", mask: null, only: false };
    this.onSelection = null;
    this.toolbar = new Toolbar(this);
    this.names = new PointNames(this);
    this.find = (id) => document.getElementById(id);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    document.addEventListener("keydown", (event) => {
      // a panel does this itself, and gives a brush up first
      const own = event.target instanceof HTMLInputElement || event.target instanceof HTMLCanvasElement;
      if (event.key === "Escape" && !own) this.select(null);
    });
    addEventListener("scroll", () => { this.find("card").hidden = true; }, { passive: true });
    addEventListener("beforeprint", () => this.beforePrint());
    addEventListener("afterprint", () => this.afterPrint());
    this.find("record-download").addEventListener("click", () => Dom.download("record.json", this.recordText(), "application/json"));
  }

  get meta() {
    return this.data.meta;
  }

  // ---- what is shown

  /* Show a payload in place of everything; color and settings stay, the selection where ids match. */
  async load(payload) {
    const kept = new Set(this.selectedIds());
    const data = await PageData.read(payload);
    this.panels.forEach((panel) => panel.destroy());
    this.data = data;
    this.words();
    this.steps = data.meta.steps ? new Steps(this, data) : null;
    this.panels = data.panels.map((panel) => new Panel(panel, data.n, this));
    this.find("panels").replaceChildren(...this.panels.map((panel) => panel.element));
    this.find("panels").dataset.count = this.panels.length;
    for (const panel of this.panels) panel.start({ ...this.surface(), pointSize: this.state.size, wheel: "ctrl", ...this.steps?.options });
    this.mode(this.state.mode);
    this.colorBy(this.startColor());
    this.names.start();
    let mask = null;
    if (kept.size) {
      mask = new Uint8Array(data.n);
      for (let i = 0; i < data.n; i++) mask[i] = kept.has(data.ids.text(i)) ? 1 : 0;
    }
    this.select(mask);
  }

  /* Texts around the panels. The HTML of sections was written, and escaped, by Python. */
  words() {
    const { meta } = this.data;
    for (const [name, html] of Object.entries(meta.sections || {})) this.find(name).innerHTML = html;
    document.title = meta.title || "Report";
    Charts.show(this.find("charts"), meta.charts, meta.panels.map((panel) => panel.name));
    this.find("record").hidden = !Object.keys(meta.record).length;
    this.find("record-text").textContent = this.recordText();
  }

  recordText() {
    return JSON.stringify(this.data.meta.record, null, 2);
  }

  // ---- colors

  startColor() {
    const { columns, panels, meta } = this.data;
    const known = new Set(["", ...columns.map((c) => `column:${c.name}`), ...panels.flatMap((p) => p.colors.map((c) => `panel:${c.name}`))]);
    if (this.state.color !== null && known.has(this.state.color)) return this.state.color;
    const first = columns.find((c) => c.name === meta.label && c.kind !== "text") || columns.find((c) => c.kind !== "text");
    if (first) return `column:${first.name}`;
    const own = panels.flatMap((panel) => panel.colors)[0];
    return own ? `panel:${own.name}` : "";
  }

  colorBy(key) {
    this.state.color = key;
    this.toolbar.offerColors(this.data, key);
    this.paint();
  }

  usePalette(name) {
    if (!(this.shown.kind in this.state.palettes)) return;
    this.state.palettes[this.shown.kind] = name;
    this.paint();
  }

  /* The chosen column of each panel, or undefined where a panel does not know it. */
  chosenColumns(key = this.state.color) {
    const [where, ...rest] = key.split(":"), name = rest.join(":");
    const shared = where === "column" ? this.data.columns.find((column) => column.name === name) : null;
    return this.data.panels.map((panel) => shared || (where === "panel" ? panel.colors.find((c) => c.name === name) : undefined));
  }

  /* How the chosen columns become colors: what all panels share. */
  scaleOf(columns) {
    const known = [...new Set(columns.filter(Boolean))];
    if (!known.length) return { kind: "single" };
    const given = this.scaleGiven(known[0].name), meaning = given ? given.meaning : "";
    if (known[0].kind === "category") return { kind: "category", meaning, assigned: Colors.assign(known, this.dark) };
    const range = { ...Colors.range(known, given), unknown: this.unknown(known) };
    const kind = range.middle === null || range.middle === undefined ? "number" : "diverging";
    return { kind, meaning, range, palette: this.state.palettes[kind] };
  }

  /* The given scale of a name; a column that only shares its name with a color of the panels has none. */
  scaleGiven(name) {
    const known = this.data.panels.some((panel) => panel.colors.some((color) => color.name === name));
    return known && this.state.color.startsWith("column:") ? undefined : this.meta.scales[name];
  }

  /* Rows of one panel without a number, at most. */
  unknown(columns) {
    return Math.max(...columns.map((column) => column.values.reduce((count, value) => count + !Number.isFinite(value), 0)));
  }

  /* Color every panel, and say what the colors mean: once, or at each panel if its rows differ. */
  paint() {
    if (!this.data) return;
    const columns = this.chosenColumns(), scale = this.scaleOf(columns), { dark } = this;
    this.shown = scale;
    this.toolbar.offerPalettes(scale.kind, scale.palette);
    const own = this.state.color.startsWith("panel:");
    let shared = null;
    this.panels.forEach((panel, k) => {
      panel.scatter.setTheme(this.surface());
      panel.rgba = this.colorsOf(columns[k], scale);
      const entries = columns[k] && scale.kind === "category" ? this.categoryLegend(columns[k], scale) : [];
      if (!columns[k] && own) Legend.show(panel.legend, [Legend.note("unknown for this panel")]);
      else Legend.show(panel.legend, own ? entries : []);
      if (!own && entries.length) shared = entries;
    });
    const numbers = scale.range && Legend.numbers(columns.find(Boolean).name, scale.range, scale.palette, dark, scale.meaning);
    const meaning = own && scale.kind === "category" && scale.meaning && [Legend.note(scale.meaning)];
    Legend.show(this.find("legend"), shared || numbers || meaning || []);
    this.applyColors();
  }

  colorsOf(column, scale) {
    const { dark } = this;
    if (!column) return Colors.single(this.data.n, dark, scale.kind === "single");
    if (scale.kind === "category") return Colors.categories(column, scale.assigned, dark);
    return Colors.numbers(column, scale.range, scale.palette, dark);
  }

  categoryLegend(column, scale) {
    const pick = (codes, event) => {
      const wanted = new Set(codes);
      this.combine(Uint8Array.from(column.values, (code) => (wanted.has(code) ? 1 : 0)), event);
    };
    const meaning = this.state.color.startsWith("panel:") ? "" : scale.meaning; // shown once, above all panels
    return Legend.categories(column, scale.assigned, this.dark, meaning, pick);
  }

  /* Give the panels their colors; rows that are not shown get none. */
  applyColors() {
    const { mask, only } = this.state;
    for (const panel of this.panels) {
      let { rgba } = panel;
      if (only && mask) {
        rgba = rgba.slice();
        for (let i = 0; i < mask.length; i++) if (!mask[i]) rgba[4 * i + 3] = 0;
      }
      panel.scatter.setColors(this.steps ? this.steps.veil(rgba) : rgba);
    }
  }

  /* Show all rows again, or only some. */
  applyRows() {
    this.applyColors();
    this.names.write();
  }

  // ---- selection

  /* Select rows; Shift adds them to those selected, Alt takes them out. */
  combine(mask, event) {
    const before = this.state.mask;
    if (before && event.shiftKey) mask = mask.map((value, i) => value | before[i]);
    if (event.altKey) mask = mask.map((value, i) => ((before ? before[i] : 1) && !value ? 1 : 0));
    this.select(mask);
  }

  /* `settled` is false while a brush is still moving: then the table waits. */
  select(mask, settled = true) {
    let count = 0;
    for (let i = 0; mask && i < mask.length; i++) count += mask[i] ? 1 : 0;
    const hiding = this.state.only;
    this.state.mask = count ? mask : null;
    if (!count) this.state.only = false;
    for (const panel of this.panels) panel.scatter.setSelection(this.state.mask);
    if (hiding) this.applyRows();
    this.toolbar.showSelection(count);
    const text = `${count.toLocaleString("en")} of ${this.data.n.toLocaleString("en")} rows selected`;
    this.find("count").textContent = count ? `${count.toLocaleString("en")} selected` : "";
    if (!settled) return;
    this.showTable(count);
    this.say(count ? `${text}.` : "No rows are selected.");
    if (this.onSelection) this.onSelection(this.state.mask, count);
  }

  showTable(count) {
    this.find("selected").hidden = !count;
    if (!count) return;
    const shown = Math.min(count, Rows.MAX_SHOWN);
    this.find("selected-note").textContent = shown < count
      ? `The first ${shown} of ${count.toLocaleString("en")} rows; the download contains all of them.` : `${count.toLocaleString("en")} rows.`;
    Rows.table(this.find("selected-table"), this.data, this.state.mask);
  }

  selectedIds() {
    return this.data ? Rows.chosen(this.state.mask).map((i) => this.data.ids.text(i)) : [];
  }

  showOnly(only) {
    this.state.only = only;
    this.applyRows();
  }

  /* Select the row of this id; if there is none, the rows whose ids contain the text. */
  search(text) {
    const { ids, n } = this.data, wanted = text.trim().toLowerCase();
    if (!wanted) return;
    const exact = new Uint8Array(n), part = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const id = ids.text(i).toLowerCase();
      exact[i] = id === wanted ? 1 : 0;
      part[i] = id.includes(wanted) ? 1 : 0;
    }
    const found = [exact, part].find((mask) => mask.includes(1));
    if (!found) {
      this.say(`No ${ids.name} contains “${text.trim()}”.`);
      this.find("count").textContent = `no ${ids.name} contains “${text.trim()}”`;
      return;
    }
    this.select(found);
    const first = found.indexOf(1);
    for (const panel of this.panels) panel.scatter.setHighlight(first);
  }

  download() {
    Dom.download("selected.csv", Rows.csv(this.data, this.state.mask), "text/csv");
  }

  hovered(from, index, x, y) {
    for (const panel of this.panels) if (panel !== from) panel.scatter.setHighlight(index);
    if (index < 0) this.find("card").hidden = true;
    else Rows.card(this.find("card"), this.data, from.panel, index, x, y);
  }

  // ---- settings

  mode(name) {
    this.state.mode = name;
    for (const panel of this.panels) panel.scatter.setMode(name);
    this.toolbar.showMode(name);
  }

  pointSize(size) {
    this.state.size = size;
    for (const panel of this.panels) panel.scatter.setPointSize(size);
  }

  theme(name) {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    this.paint();
  }

  get dark() {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /* Colors of the ground and of lines in a panel, from the style sheet. */
  surface() {
    const style = getComputedStyle(document.documentElement);
    return { background: style.getPropertyValue("--ground").trim(), ink: style.getPropertyValue("--ink").trim() };
  }

  say(text) {
    this.find("status").textContent = text;
  }

  // ---- paper: light, with all folds open

  beforePrint() {
    this.printed = { theme: document.documentElement.dataset.theme || "auto", folds: [...document.querySelectorAll("details:not([open])")] };
    for (const fold of this.printed.folds) fold.open = true;
    this.theme("light");
    for (const panel of this.panels) {
      panel.picture = Dom.make("img", { class: "printed", alt: panel.canvas.getAttribute("aria-label"), src: panel.scatter.toDataURL() });
      panel.view.append(panel.picture);
    }
  }

  afterPrint() {
    if (!this.printed) return;
    for (const fold of this.printed.folds) fold.open = false;
    this.theme(this.printed.theme);
    this.panels.forEach((panel) => panel.picture.remove());
    this.printed = null;
  }
}

(() => {
  const start = async () => {
    const panels = document.getElementById("panels");
    if (!window.DecompressionStream) {
      panels.textContent = "This browser is too old to show the panels; use a version of 2023 or later.";
      return;
    }
    panels.textContent = "Opening…";
    document.documentElement.classList.add("ready");
    try {
      await window.Report.load(PageData.embedded());
    } catch (error) {
      panels.textContent = `The panels cannot be shown (${error.message}); the file may be incomplete or modified.`;
      throw error;
    }
  };
  window.Report = new ReportPage();
  window.Report.ready = start();
})();
