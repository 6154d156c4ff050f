"use strict";
/* One embedding: its drawing, its words, its keys. */

class Panel {
  /* `page` gets `select(mask, settled)`, `hovered(panel, index, x, y)` and `mode(name)`. */
  constructor(panel, n, page) {
    this.panel = panel;
    this.page = page;
    const { make } = Dom;
    this.legend = make("div", { class: "legend", hidden: true });
    const keys = panel.dimension === 3 ? "Arrow keys rotate it" : "Arrow keys move it";
    this.canvas = make("canvas", {
      tabindex: "0", role: "application", "aria-roledescription": "scatter plot",
      "aria-label": `${panel.name}: ${n.toLocaleString("en")} rows in ${panel.dimension} dimensions. `
        + `${keys}, plus and minus zoom, 0 resets, P, B and L choose pan, brush and lasso, Escape clears the selection.`,
      onkeydown: (event) => this.key(event),
      // a wheel over a panel zooms once the panel was clicked; before, it scrolls the page
      onfocus: () => { this.scatter.options.wheel = "zoom"; },
      onblur: () => { this.scatter.options.wheel = "ctrl"; },
    });
    this.view = make("div", { class: "view" }, this.canvas);
    this.enlarge = make("button", { type: "button", class: "quiet", "aria-label": `Enlarge: ${panel.name}`, text: "Enlarge", onclick: () => this.toggle() });
    const reset = make("button", { type: "button", class: "quiet", "aria-label": `Reset view: ${panel.name}`, text: "Reset view", onclick: () => this.scatter.resetView() });
    this.element = make("figure", { class: "panel" },
      make("div", { class: "panel-head" },
        make("h2", { text: panel.name }), panel.dimension === 3 && make("span", { class: "badge", text: "3-D" }),
        make("span", { class: "spread" }), reset, this.enlarge),
      this.view, this.legend, this.words());
  }

  /* Caption, how far the picture can be believed, advice and settings. */
  words() {
    const { make } = Dom, { caption, reading, sentences, parameters } = this.panel;
    const settings = Object.entries(parameters);
    return make("figcaption", {},
      caption && make("p", { class: "caption", text: caption }),
      reading.length > 0 && make("ul", { class: "reading" }, ...reading.map((text) => make("li", { text }))),
      sentences.length > 0 && make("details", { class: "advice-fold" },
        make("summary", { text: `Messages of the method (${sentences.length})` }),
        make("ul", {}, ...sentences.map((text) => make("li", { text })))),
      settings.length > 0 && make("details", {},
        make("summary", { text: "Settings" }),
        make("dl", { class: "settings" }, ...settings.flatMap(([name, value]) => [
          make("dt", { text: name }),
          make("dd", { text: typeof value === "string" ? value : JSON.stringify(value) })]))));
  }

  /* Begin to draw; the element must be in the page, so that it has a size. */
  start(options) {
    this.scatter = new Scatter(this.canvas, { points: this.panel.points, dimension: this.panel.dimension, ...options });
    this.scatter.onSelect = (mask, event, settled) => this.page.select(mask, settled);
    this.scatter.onHover = (index, x, y) => {
      const box = this.canvas.getBoundingClientRect();
      this.page.hovered(this, index, box.left + x, box.top + y);
    };
    this.scatter.onNotice = (text) => this.caption(text);
  }

  caption(text) {
    this.element.querySelector("figcaption").prepend(Dom.make("p", { class: "caption", text }));
  }

  toggle(large = !this.element.classList.contains("enlarged")) {
    this.element.classList.toggle("enlarged", large);
    this.enlarge.textContent = large ? "Make smaller" : "Enlarge";
    this.enlarge.setAttribute("aria-label", `${this.enlarge.textContent}: ${this.panel.name}`);
    if (large) this.element.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const faster = event.shiftKey ? 4 : 1;
    const move = (dx, dy) => (this.panel.dimension === 3
      ? this.scatter.rotate(0.08 * faster * dx, 0.08 * faster * dy) // radians
      : this.scatter.pan(24 * faster * dx, 24 * faster * dy)); // pixels
    const actions = {
      ArrowLeft: () => move(-1, 0), ArrowRight: () => move(1, 0),
      ArrowUp: () => move(0, -1), ArrowDown: () => move(0, 1),
      "+": () => this.scatter.zoom(1.25), "=": () => this.scatter.zoom(1.25), "-": () => this.scatter.zoom(0.8),
      0: () => this.scatter.resetView(),
      p: () => this.page.mode("pan"), b: () => this.page.mode("brush"), l: () => this.page.mode("lasso"),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    action();
    event.preventDefault();
  }

  destroy() {
    this.scatter.destroy();
    this.element.remove();
  }
}
