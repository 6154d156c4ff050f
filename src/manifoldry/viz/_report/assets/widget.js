"use strict";
/* The panels in a notebook. The model holds the state, which the kernel and all views of the widget share. */

const WIDGET_PATIENCE = 5000; // milliseconds after which a request without an answer is reported
const WIDGET_MODES = { pan: "Drag to move or rotate (P)", brush: "Drag a rectangle to select rows (B)", lasso: "Draw around rows to select them (L)" };
const WIDGET_PALETTES = { number: "viridis", diverging: "blue–orange" };

class EmbeddingView {
  constructor(model, el) {
    this.model = model;
    this.panels = [];
    this.mask = null;
    this.coloring = { name: "", own: false, meaning: "", columns: [] };
    this.build(el);
    this.watch();
    this.load();
  }

  // ---- elements, in a shadow tree: neither the styles of the notebook nor those of the widget reach the other

  build(el) {
    const { make } = Dom;
    this.color = make("select", { onchange: () => this.requestColor() });
    this.modes = Object.entries(WIDGET_MODES).map(([value, title]) => make("button", {
      type: "button", value, title, text: value[0].toUpperCase() + value.slice(1), onclick: () => this.mode(value),
    }));
    this.count = make("output", { class: "count" });
    this.clear = make("button", { type: "button", text: "Clear", title: "Escape", disabled: true, onclick: () => this.select(null) });
    this.legend = make("div", { class: "legend", role: "group", "aria-label": "Legend", hidden: true });
    this.status = make("p", { class: "meaning", role: "status", hidden: true });
    this.grid = make("div", { class: "panels" });
    this.card = make("div", { class: "card", "aria-hidden": "true", hidden: true });
    this.root = make("div", { class: "embedding-widget" },
      make("div", { class: "toolbar" },
        make("label", { class: "field" }, "Color by ", this.color),
        make("span", { class: "modes", role: "group", "aria-label": "What dragging does" }, ...this.modes),
        make("span", { class: "spread" }), this.count, this.clear),
      this.legend, this.status, this.grid, this.card);
    // Keys in a panel are not commands of JupyterLab.
    this.host = make("div", { "data-lm-suppress-shortcuts": "true" });
    this.host.attachShadow({ mode: "open" }).append(make("style", { text: WIDGET_STYLE }), this.root);
    el.append(this.host);
  }

  watch() {
    const listeners = {
      "change:_panels": () => this.load(),
      "change:_coloring": () => this.recolor(),
      "change:_colors": () => this.offerColors(),
      "change:selection": () => this.receive(),
      "msg:custom": (message) => this.say(message.problem),
    };
    for (const [event, act] of Object.entries(listeners)) this.model.on(event, act);
    const themes = new MutationObserver(() => requestAnimationFrame(() => this.followTheme()));
    for (const element of [document.documentElement, document.body]) themes.observe(element, { attributes: true });
    const sizes = new ResizeObserver(() => this.followTheme()); // the first one comes when the notebook shows the widget
    sizes.observe(this.root);
    this.unwatch = () => {
      for (const [event, act] of Object.entries(listeners)) this.model.off(event, act);
      themes.disconnect();
      sizes.disconnect();
    };
  }

  destroy() {
    clearTimeout(this.waiting);
    this.unwatch();
    for (const panel of this.panels) panel.destroy();
    this.panels = [];
    this.host.remove();
    // Browsers allow few contexts of WebGL: one without panels can be collected.
    if (!ScatterGlPainter.instance?.panels.size) ScatterGlPainter.instance = undefined;
  }

  // ---- what is shown

  load() {
    const { n, panels, data } = this.model.get("_panels");
    for (const panel of this.panels) panel.destroy();
    this.n = n;
    this.panels = panels.map((panel) => new Panel({ ...panel, points: widgetArray(data, panel.data), colors: [] }, n, this));
    this.grid.replaceChildren(...this.panels.map((panel) => panel.element));
    this.grid.dataset.count = this.panels.length;
    this.followTheme();
    for (const panel of this.panels) panel.start({ ...this.surface(), pointSize: 0, wheel: "ctrl" });
    this.mode(this.dragging ?? "pan");
    this.show(widgetMask(this.model.get("selection"), n));
    this.recolor();
  }

  mode(name) {
    this.dragging = name;
    for (const panel of this.panels) panel.scatter.setMode(name);
    for (const button of this.modes) button.setAttribute("aria-pressed", String(button.value === name));
  }

  hovered(from, index, x, y) {
    for (const panel of this.panels) if (panel !== from) panel.scatter.setHighlight(index);
    if (index < 0) { this.card.hidden = true; return; }
    const { own, columns } = this.coloring;
    const data = { n: this.n, ids: { name: "row", text: String }, columns: own ? [] : columns, thumbnails: null };
    Rows.card(this.card, data, from.panel, index, x, y);
    const frame = this.root.getBoundingClientRect(), { width } = this.card.getBoundingClientRect(), gap = 14;
    const left = x - frame.left + gap;
    const fitting = left + width > frame.width ? left - width - 2 * gap : left;
    this.card.style.transform = `translate(${Math.max(4, fitting)}px, ${y - frame.top + gap}px)`;
  }

  say(text) {
    clearTimeout(this.waiting);
    this.status.textContent = text;
    this.status.hidden = !text;
  }

  // ---- colors

  offerColors() {
    const options = [["", "one color"], ...this.model.get("_colors").map((name) => [name, name])];
    this.color.replaceChildren(...options.map(([value, text]) => Dom.make("option", { value, text })));
    this.color.value = this.coloring.name;
  }

  /* The kernel computes colors. Until they arrive, the list names those that are shown. */
  requestColor() {
    const wanted = this.color.value;
    this.color.value = this.coloring.name;
    if (wanted === this.coloring.name) return;
    this.say(`Coloring by ${wanted || "one color"} …`);
    this.waiting = setTimeout(() => this.say("The kernel has not answered: it is busy or closed."), WIDGET_PATIENCE);
    try {
      this.model.send({ color: wanted });
    } catch (error) {
      this.say(`The kernel cannot be reached (${error.message}); the colors stay as they are.`);
    }
  }

  async recolor() {
    const coloring = this.model.get("_coloring");
    const get = (reference) => widgetArray(coloring.data, reference);
    const columns = await Promise.all(coloring.columns.map((entry) => PageData.column(entry, get)));
    if (coloring !== this.model.get("_coloring")) return; // a later one has arrived
    this.coloring = { ...coloring, columns };
    this.say("");
    this.offerColors();
    this.paint();
  }

  paint() {
    const { own, columns, meaning } = this.coloring, { dark } = this;
    const scale = this.scaleOf(columns);
    this.panels.forEach((panel, k) => {
      const column = columns[own ? k : 0];
      panel.panel.colors = own && column ? [column] : [];
      panel.scatter.setTheme(this.surface());
      panel.scatter.setColors(this.colorsOf(column, scale));
      Legend.show(panel.legend, own && column ? this.entries(column, scale, "") : []);
    });
    const shared = own ? [Legend.note(meaning)] : columns.length ? this.entries(columns[0], scale, meaning) : [];
    Legend.show(this.legend, shared);
  }

  scaleOf(columns) {
    if (!columns.length) return {};
    if (columns[0].kind === "category") return { assigned: Colors.assign(columns, this.dark) };
    const range = Colors.range(columns, null);
    range.unknown = columns[0].values.reduce((count, value) => count + !Number.isFinite(value), 0);
    return { range, palette: WIDGET_PALETTES[range.middle === 0 ? "diverging" : "number"] };
  }

  colorsOf(column, { assigned, range, palette }) {
    if (!column) return Colors.single(this.n, this.dark);
    return assigned ? Colors.categories(column, assigned, this.dark) : Colors.numbers(column, range, palette, this.dark);
  }

  entries(column, { assigned, range, palette }, meaning) {
    if (!assigned) return Legend.numbers(column.name, range, palette, this.dark, meaning);
    return Legend.categories(column, assigned, this.dark, meaning, (codes, event) => {
      const wanted = new Set(codes), { mask: before } = this;
      const mask = Uint8Array.from(column.values, (code, i) => {
        if (event.altKey) return (before ? before[i] : 1) && !wanted.has(code);
        return wanted.has(code) || (event.shiftKey && before?.[i]);
      });
      this.select(mask);
    });
  }

  // ---- selection

  /* Select rows by hand: the kernel and other views learn of it when the brush has come to rest. */
  select(mask, settled = true) {
    this.show(mask);
    if (!settled) return;
    this.sent = widgetBits(this.mask);
    this.model.set("selection", this.sent);
    this.model.save_changes();
  }

  receive() {
    const bits = this.model.get("selection");
    if (bits !== this.sent) this.show(widgetMask(bits, this.n));
  }

  show(mask) {
    let count = 0;
    for (let i = 0; mask && i < mask.length; i++) count += mask[i] ? 1 : 0;
    this.mask = count ? mask : null;
    for (const panel of this.panels) panel.scatter.setSelection(this.mask);
    this.count.textContent = count ? `${count.toLocaleString("en")} selected` : "";
    this.clear.disabled = !count;
  }

  // ---- theme: dark where the notebook writes in a light color

  followTheme() {
    const [red, green, blue] = scatterColor(getComputedStyle(this.host).color);
    const dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5;
    if (dark === this.dark) return;
    this.dark = dark;
    this.root.dataset.theme = dark ? "dark" : "light";
    if (this.panels[0]?.scatter) this.paint();
  }

  surface() {
    const style = getComputedStyle(this.root);
    return { background: style.getPropertyValue("--ground").trim() || "#ffffff", ink: style.getPropertyValue("--ink").trim() || "#1b1f24" };
  }
}

/* A typed array from the buffers of a message, which need not be aligned. */
function widgetArray(buffers, { block, dtype }) {
  const { buffer, byteOffset, byteLength } = buffers[block];
  return new PageData.TYPES[dtype](buffer.slice(byteOffset, byteOffset + byteLength));
}

/* A selection on the wire: one bit per row, the lowest of a byte first; no bytes if nothing is selected. */
function widgetBits(mask) {
  const bytes = new Uint8Array(mask ? Math.ceil(mask.length / 8) : 0);
  if (mask) for (let i = 0; i < mask.length; i++) if (mask[i]) bytes[i >> 3] |= 1 << (i & 7);
  return new DataView(bytes.buffer);
}

function widgetMask(bits, n) {
  if (!bits?.byteLength) return null;
  const mask = new Uint8Array(n);
  for (let i = 0; i < n; i++) mask[i] = (bits.getUint8(i >> 3) >> (i & 7)) & 1;
  return mask;
}

export default {
  render({ model, el }) {
    const view = new EmbeddingView(model, el);
    return () => view.destroy();
  },
};
