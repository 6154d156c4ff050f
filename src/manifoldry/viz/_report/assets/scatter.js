// A scatter panel: the rows of one embedding, in 2-D or 3-D, on a canvas.
//
//   const panel = new Scatter(canvas, {points, dimension, background, ink, pointSize, projection, wheel, onNotice});
//   panel.setColors(rgba); panel.setSelection(mask); panel.onSelect = (mask, event, final) => ...
//
// Nothing is drawn until something has changed, and then once per animation frame. No frame runs JavaScript over the
// rows: coordinates go to the graphics card once, colors and selection when they change.
"use strict";

const SCATTER_LIVE = 50000; // rows up to which a brush selects while it is drawn, in all panels of a page
const SCATTER_RATIO = 2; // device pixels per CSS pixel at most: more costs frames and shows nothing on a phone
const SCATTER_RING = 9; // CSS pixels from the middle of the hovered row to the outside of its ring

class Scatter {
  constructor(canvas, options) {
    this.canvas = canvas;
    this.options = { background: "#ffffff", ink: "#1b1f24", wheel: "zoom", touch: "scroll", ...options };
    this.context = canvas.getContext("2d", { alpha: false });
    this.onSelect = this.onHover = this.onClick = this.onView = null;
    this.onNotice = this.options.onNotice ?? null;
    this.mode = "pan";
    this.hovered = -1; // the row with the ring
    this.pointed = -1; // the row below this panel's own pointer
    this.movedAt = -Infinity;
    this.labels = null;
    this.version = 0; // counts changes of the camera, the rows and what is hidden: what the index depends on
    this.visible = true;
    this.painter = (this.options.webgl !== false && ScatterGlPainter.shared()) || new ScatterPlainPainter();
    this.painter.add(this);
    this.setTheme(this.options);
    this.setPoints(this.options.points, this.options.dimension);
    if (!canvas.hasAttribute("tabindex")) canvas.tabIndex = 0;
    this.gestures = new ScatterGestures(this);
    this.setMode("pan");
    this.watch();
    this.resize();
  }

  // ---- what is shown

  setPoints(points, dimension = this.options.dimension) {
    if (dimension !== 2 && dimension !== 3) throw new RangeError(`dimension must be 2 or 3, got ${dimension}.`);
    if (points.length % dimension) throw new RangeError(`${points.length} numbers are not rows of ${dimension}.`);
    this.options.dimension = dimension;
    const { width, height } = this.camera ?? {};
    this.rows = new ScatterRows(points, dimension);
    this.camera = new ScatterCamera(this.options.frame ?? points, dimension, this.options.projection);
    if (this.options.frame) this.camera.replace(points);
    if (width) this.camera.resize(width, height);
    this.stale = { points: true, colors: true, selection: true };
    this.moved();
    this.noticeLimit();
  }

  // Other coordinates of the same rows, in the same view.
  movePoints(points) {
    this.rows.points = this.camera.points = points;
    this.stale.points = true;
    this.moved();
  }

  noticeLimit() {
    const [shown, all] = [this.painter.pointLimit, this.rows.order.length];
    if (shown >= all) return;
    const count = (value) => value.toLocaleString("en-US");
    this.notice(`This browser does not support WebGL2: a random sample of ${count(shown)} of ${count(all)} points is drawn.`);
  }

  usePainter(painter) {
    this.painter = painter;
    painter.add(this);
    this.noticeLimit();
    this.redraw();
  }

  // RGBA bytes per row; a row with A = 0 is hidden: not drawn, not hovered, not selected by a brush.
  setColors(colors) {
    this.checkLength(colors, 4, "colors");
    this.rows.colors = colors;
    this.stale.colors = true;
    this.version++;
    this.redraw();
  }

  // One byte per row, nonzero = selected; null ends the selection.
  setSelection(mask) {
    if (mask) this.checkLength(mask, 1, "mask");
    this.rows.select(mask);
    this.stale.selection = true;
    this.redraw();
  }

  checkLength(array, each, name) {
    const needed = each * this.rows.count;
    if (array.length !== needed) throw new RangeError(`${name} must have ${needed} entries, got ${array.length}.`);
  }

  // Names over groups, {text, row, count, radius} for each (see scatterMiddles); null or none for no names.
  setLabels(entries) {
    this.labels = entries?.length ? new ScatterLabels(entries) : null;
    this.redraw();
  }

  setTheme({ background = this.options.background, ink = this.options.ink }) {
    Object.assign(this.options, { background, ink });
    this.redraw();
  }

  // Diameter in CSS pixels; 0 or undefined lets it follow from the number of rows and the zoom.
  setPointSize(size) {
    this.options.pointSize = size;
    this.redraw();
  }

  // A ring around a row, as if it were hovered; -1 for none.
  setHighlight(row) {
    if (row === this.hovered) return;
    this.hovered = row;
    this.redrawOverlay();
  }

  // ---- the camera

  setMode(mode) {
    if (!["pan", "brush", "lasso"].includes(mode)) throw new RangeError(`mode must be pan, brush or lasso, got ${mode}.`);
    this.mode = mode;
    this.canvas.style.cursor = mode === "pan" ? "grab" : "crosshair";
    // On a phone one finger up or down scrolls the page past a panel, unless a brush is in hand.
    this.canvas.style.touchAction = mode === "pan" && this.options.touch === "scroll" ? "pan-y" : "none";
  }

  resetView() {
    this.camera.reset();
    this.moved();
  }

  // Zoom about a place in CSS pixels, by default the middle.
  zoom(factor, x = this.camera.width / 2, y = this.camera.height / 2) {
    this.camera.zoomAt(factor, x, y);
    this.moved();
  }

  pan(dx, dy) {
    this.camera.pan(dx, dy);
    this.moved();
  }

  rotate(dx, dy) {
    this.camera.rotate(dx, dy);
    this.moved();
  }

  setProjection(projection) {
    this.options.projection = projection;
    this.camera.setProjection(projection);
    this.moved();
  }

  getView() {
    return this.camera.getView();
  }

  setView(view) {
    this.camera.setView(view);
    this.moved();
  }

  moved() {
    this.version++;
    this.movedAt = performance.now();
    this.redraw();
    this.onView?.(this);
  }

  positionOf(row) {
    return this.camera.project(row, [0, 0, 0, 0]).slice(0, 2);
  }

  // Length of one CSS pixel in units of the data (2-D; in 3-D at the depth of the middle).
  unitsPerPixel() {
    return this.camera.extent / this.camera.scale;
  }

  // ---- asking and selecting

  // The row below a place in CSS pixels, or -1.
  rowAt(x, y) {
    const index = ScatterIndex.shared();
    index.build(this);
    const radius = scatterDisc(this, 1).size / 2;
    return index.nearest(x, y, Math.max(SCATTER_REACH, radius), radius);
  }

  hover(row) {
    if (row === this.pointed) return;
    this.pointed = row;
    this.setHighlight(row);
    this.onHover?.(row, ...(row < 0 ? [0, 0] : this.positionOf(row)));
  }

  // Select the rows inside a polygon on the screen; shift adds to the selection, alt subtracts from it.
  select(polygon, event = {}, final = true) {
    if (this.before === undefined) this.before = this.rows.selection;
    const mask = scatterInside(this, polygon);
    const { before } = this;
    if (before && event.shiftKey) for (let i = 0; i < mask.length; i++) mask[i] |= before[i] ? 1 : 0;
    if (event.altKey) for (let i = 0; i < mask.length; i++) mask[i] = (before ? before[i] : 1) && !mask[i] ? 1 : 0;
    if (final) this.before = undefined;
    this.emit(mask.includes(1) ? mask : null, event, final);
  }

  selectLive(polygon, event) {
    if (this.rows.count <= SCATTER_LIVE) this.livePolygon = [polygon, event];
    this.redrawOverlay();
  }

  undoLive(event) {
    this.livePolygon = null;
    if (this.before === undefined) return;
    const { before } = this;
    this.before = undefined;
    this.emit(before, event, true);
  }

  clear(event) {
    this.emit(null, event, true);
  }

  emit(mask, event, final) {
    if (final) this.livePolygon = null;
    this.setSelection(mask);
    this.onSelect?.(mask, event, final);
  }

  notice(text) {
    queueMicrotask(() => (this.onNotice ? this.onNotice(text) : console.info(text))); // after the page has set onNotice
  }

  // ---- drawing

  watch() {
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.canvas);
    // A panel that is scrolled out of sight waits with drawing until it is seen again.
    this.sight = new IntersectionObserver((entries) => {
      this.visible = entries[entries.length - 1].isIntersecting;
      if (this.visible && this.dirty) this.redraw();
    }, { rootMargin: "200px" });
    this.sight.observe(this.canvas);
  }

  resize() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const ratio = Math.min(window.devicePixelRatio || 1, SCATTER_RATIO);
    if (width === this.camera.width && height === this.camera.height && ratio === this.ratio) return;
    this.ratio = ratio;
    this.camera.resize(width, height);
    this.canvas.width = Math.max(Math.round(width * ratio), 1);
    this.canvas.height = Math.max(Math.round(height * ratio), 1);
    this.moved();
    this.frame(); // in the same task, else the emptied canvas flashes
  }

  redraw() {
    this.dirty = true;
    this.redrawOverlay();
  }

  redrawOverlay() {
    if (this.pending || this.destroyed) return;
    this.pending = requestAnimationFrame(() => this.frame());
  }

  frame() {
    cancelAnimationFrame(this.pending);
    this.pending = 0;
    if (this.destroyed || !this.visible) return;
    if (this.livePolygon) {
      const [polygon, event] = this.livePolygon;
      this.livePolygon = null;
      this.select(polygon, event, false);
      cancelAnimationFrame(this.pending);
      this.pending = 0;
    }
    this.overlay ??= new ScatterOverlay(this);
    if (this.dirty) {
      if (!this.painter.draw(this, this.context, scatterLook(this))) return;
      this.dirty = false;
      this.overlay.forget();
    }
    this.overlay.draw();
  }

  // The panel as it is now, as a PNG on white (or another theme) with twice the pixels: for printing and saving.
  toDataURL({ scale = 2, background = "#ffffff", ink = "#1b1f24" } = {}) {
    const canvas = document.createElement("canvas");
    canvas.width = Math.min(Math.round(this.camera.width * scale), 4096);
    canvas.height = Math.min(Math.round(this.camera.height * scale), 4096);
    const look = scatterLook(this, canvas.width / this.camera.width, { background, ink });
    const context = canvas.getContext("2d", { alpha: false });
    const drawn = this.painter.draw(this, context, look);
    if (drawn) this.labels?.draw(context, this.camera, canvas.width / this.camera.width, { background, ink });
    return (drawn ? canvas : this.canvas).toDataURL("image/png");
  }

  destroy() {
    this.destroyed = true;
    cancelAnimationFrame(this.pending);
    this.gestures.destroy();
    this.sizes.disconnect();
    this.sight.disconnect();
    this.painter.remove(this);
    ScatterIndex.shared().forget(this);
  }
}
