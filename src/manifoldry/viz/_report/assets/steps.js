"use strict";
/* The panels of a report as steps in one panel: a slider, buttons, and smooth moves of the rows that steps share. */

const STEPS_MOVE = 900; // milliseconds of a move from one step to another
const STEPS_PAUSE = 700; // milliseconds between two moves while playing

class Steps {
  /* Keep the panels of the data as steps, and leave it one panel, in which a row that a step lacks is hidden. */
  constructor(page, data) {
    this.page = page;
    this.steps = data.panels;
    this.index = 0;
    const { dimension } = this.steps[0];
    this.points = this.steps.map(({ points, center, scale }) => points.map((value, i) => value * scale + center[i % dimension]));
    this.frame = new Float32Array(this.points.length * this.points[0].length);
    this.points.forEach((points, k) => this.frame.set(points, k * points.length));
    this.present = this.points.map((points) => Float32Array.from({ length: data.n }, (_, i) => (scatterIsFinite(points, i * dimension, dimension) ? 1 : 0)));
    this.fill();
    this.now = { points: this.points[0].slice(), shown: this.present[0].slice() };
    this.panel = { ...this.steps[0], name: data.meta.steps, points: this.now.points };
    data.panels = [this.panel];
    this.controls();
  }

  /* A row waits at its position in the last step that has it, or before the first one at its position there. */
  fill() {
    const order = [...this.points.keys()];
    const copy = (to, from) => {
      for (let i = 0; i < this.points[to].length; i++) {
        if (!Number.isFinite(this.points[to][i])) this.points[to][i] = this.points[from][i];
      }
    };
    order.slice(1).forEach((k) => copy(k, k - 1));
    order.reverse().slice(1).forEach((k) => copy(k, k + 1));
  }

  controls() {
    const { make } = Dom, last = this.steps.length - 1;
    const button = (label, text, act) => make("button", { type: "button", "aria-label": label, text, onclick: act });
    this.slider = make("input", { type: "range", min: 0, max: last, step: 1, value: 0, "aria-label": "Step", autocomplete: "off", oninput: () => this.choose(Number(this.slider.value)) });
    this.previous = button("Previous step", "◀", () => this.choose(this.index - 1));
    this.next = button("Next step", "▶", () => this.choose(this.index + 1));
    this.playing = make("button", { type: "button", text: "Play", onclick: () => this.play(!this.timer) });
    this.label = make("output", { class: "count" });
    document.getElementById("steps")?.remove();
    const row = make("div", { id: "steps", class: "toolbar", role: "group", "aria-label": "Steps" }, this.previous, this.slider, this.next, this.playing, this.label);
    document.getElementById("toolbar").after(row);
    this.tell();
  }

  /* Options of the scatter plot: one view for all steps. */
  get options() {
    return { frame: this.frame };
  }

  choose(index) {
    this.play(false);
    this.go(index);
  }

  play(on) {
    clearTimeout(this.timer);
    this.timer = 0;
    this.playing.textContent = on ? "Pause" : "Play";
    if (!on) return;
    this.go(this.index === this.steps.length - 1 ? 0 : this.index + 1);
    this.timer = setTimeout(() => (this.index === this.steps.length - 1 ? this.play(false) : this.play(true)), STEPS_MOVE + STEPS_PAUSE);
  }

  go(index) {
    if (index < 0 || index >= this.steps.length || index === this.index) return;
    this.index = index;
    this.panel.colors = this.steps[index].colors;
    this.panel.caption = this.steps[index].caption;
    const [shown] = this.page.panels;
    shown.element.querySelector("figcaption").replaceWith(shown.words());
    this.tell();
    this.page.say(this.label.textContent);
    this.from = { points: this.now.points.slice(), shown: this.now.shown.slice() };
    this.began = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    cancelAnimationFrame(this.pending);
    this.page.paint();
    this.move(still ? Infinity : this.began);
  }

  move(time) {
    const share = Math.min(Math.max((time - this.began) / STEPS_MOVE, 0), 1), eased = share * share * (3 - 2 * share);
    for (const kind of ["points", "shown"]) {
      const [from, to, now] = [this.from[kind], (kind === "points" ? this.points : this.present)[this.index], this.now[kind]];
      for (let i = 0; i < now.length; i++) now[i] = from[i] + eased * (to[i] - from[i]);
    }
    this.page.panels[0].scatter.movePoints(this.now.points);
    this.page.applyColors();
    if (share === 1) this.page.names.write(); // over the rows that this step has
    this.pending = share < 1 ? requestAnimationFrame((next) => this.move(next)) : 0;
  }

  /* Colors in which rows that the step lacks are transparent. */
  veil(rgba) {
    const veiled = rgba.slice();
    this.now.shown.forEach((share, i) => { veiled[4 * i + 3] *= share; });
    return veiled;
  }

  tell() {
    const { name } = this.steps[this.index], count = this.present[this.index].reduce((sum, one) => sum + one, 0);
    this.label.textContent = `${this.index + 1} of ${this.steps.length}: ${name}, ${count.toLocaleString("en")} rows`;
    this.slider.value = this.index;
    this.slider.setAttribute("aria-valuetext", this.label.textContent);
    this.previous.disabled = this.index === 0;
    this.next.disabled = this.index === this.steps.length - 1;
  }
}
