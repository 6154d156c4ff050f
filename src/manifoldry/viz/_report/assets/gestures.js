// Pointers, wheel and keys of a panel: pan, orbit, pinch, brush, lasso, hover.
//
// One finger or button does what the mode says; two fingers always move and zoom. With a mouse, shift + drag draws a
// rectangle in any mode, and in 3-D the right button (or ctrl + drag) moves the picture instead of turning it.
"use strict";

const SCATTER_REACH = 12; // CSS pixels around the pointer within which a row counts as hovered
const SCATTER_CLICK = 4; // CSS pixels that a hand moves during a click
const SCATTER_REST = 140; // milliseconds without movement of the camera before a pointer asks again: longer than between
// two steps of a wheel, so that the index is built once after a zoom and not in the middle of it
const SCATTER_LASSO_STEP = 2; // CSS pixels between corners of a lasso
const SCATTER_TURN = 0.008; // radians per CSS pixel of an orbit: half a turn takes about 400 pixels

class ScatterGestures {
  constructor(panel) {
    this.panel = panel;
    this.canvas = panel.canvas;
    this.pointers = new Map();
    this.gesture = null; // {kind, start, last, corners, moved}
    this.scrolled = 0;
    this.off = [];
    this.on(this.canvas, "pointerdown", (event) => this.down(event));
    this.on(this.canvas, "pointermove", (event) => this.move(event));
    this.on(this.canvas, "pointerup", (event) => this.up(event));
    this.on(this.canvas, "pointercancel", (event) => this.drop(event));
    this.on(this.canvas, "pointerleave", (event) => this.leave(event));
    this.on(this.canvas, "wheel", (event) => this.wheel(event), { passive: false });
    this.on(this.canvas, "dblclick", () => panel.mode === "pan" && panel.resetView());
    this.on(this.canvas, "contextmenu", (event) => this.panel.camera.dimension === 3 && event.preventDefault());
    this.on(this.canvas, "keydown", (event) => this.key(event));
    this.on(window, "scroll", (event) => (this.scrolled = event.timeStamp), { passive: true, capture: true });
  }

  on(target, name, listener, options) {
    target.addEventListener(name, listener, options);
    this.off.push(() => target.removeEventListener(name, listener, options));
  }

  destroy() {
    clearTimeout(this.asking);
    for (const remove of this.off) remove();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left - this.canvas.clientLeft, event.clientY - box.top - this.canvas.clientTop];
  }

  down(event) {
    if (event.pointerType === "mouse" && event.button === 1) return;
    const place = this.place(event);
    this.canvas.focus({ preventScroll: true });
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch {
      // a pointer that has ended meanwhile cannot be captured, and needs not be
    }
    this.pointers.set(event.pointerId, place);
    if (this.pointers.size === 2) {
      this.cancel();
      this.gesture = { kind: "pinch" };
    } else if (this.pointers.size === 1) {
      this.gesture = { kind: this.kindOf(event), start: place, last: place, corners: [place], moved: false };
    }
    this.panel.hover(-1);
  }

  kindOf(event) {
    const { mode, camera } = this.panel;
    if (mode !== "pan") return mode;
    if (event.shiftKey && event.pointerType === "mouse") return "brush";
    if (camera.dimension === 2 || event.button === 2 || event.ctrlKey || event.metaKey) return "pan";
    return "orbit";
  }

  move(event) {
    const place = this.place(event);
    if (!this.pointers.has(event.pointerId)) {
      if (event.pointerType !== "touch") this.ask(place);
      return;
    }
    const { gesture } = this;
    if (gesture?.kind === "pinch") this.pinch(event.pointerId, place);
    else if (gesture?.kind === "lasso") for (const step of scatterSteps(event)) this.drag(this.place(step), event);
    else if (gesture) this.drag(place, event);
    this.pointers.set(event.pointerId, place);
  }

  drag(place, event) {
    const { gesture, panel } = this;
    const [dx, dy] = [place[0] - gesture.last[0], place[1] - gesture.last[1]];
    gesture.moved ||= Math.hypot(place[0] - gesture.start[0], place[1] - gesture.start[1]) > SCATTER_CLICK;
    if (!gesture.moved) return;
    if (gesture.kind === "lasso") {
      if (Math.hypot(dx, dy) < SCATTER_LASSO_STEP) return;
      gesture.corners.push(place);
    } else if (gesture.kind === "brush") gesture.corners = scatterRectangle(gesture.start, place);
    else if (gesture.kind === "pan") panel.pan(dx, dy);
    else panel.rotate(dx * SCATTER_TURN, dy * SCATTER_TURN);
    gesture.last = place;
    if (this.outline) {
      panel.redrawOverlay();
      panel.selectLive(gesture.corners, event);
    }
  }

  // Two fingers: the point of the picture between them stays between them.
  pinch(pointer, place) {
    const { panel } = this;
    const before = this.pointers.get(pointer);
    const other = [...this.pointers].find(([id]) => id !== pointer)?.[1];
    if (!other) return;
    const middle = (a) => [(a[0] + other[0]) / 2, (a[1] + other[1]) / 2];
    const spread = (a) => Math.max(Math.hypot(a[0] - other[0], a[1] - other[1]), 1);
    const [from, to] = [middle(before), middle(place)];
    panel.pan(to[0] - from[0], to[1] - from[1]);
    panel.zoom(spread(place) / spread(before), to[0], to[1]);
  }

  up(event) {
    if (!this.pointers.has(event.pointerId)) return;
    const { gesture, panel } = this;
    const place = this.place(event);
    this.pointers.delete(event.pointerId);
    if (!gesture || this.pointers.size) return;
    this.gesture = null;
    panel.redrawOverlay();
    if (gesture.kind === "pinch") return;
    if (!gesture.moved) this.click(gesture, place, event);
    else if (gesture.kind === "brush" || gesture.kind === "lasso") panel.select(gesture.corners, event, true);
  }

  // A click or tap shows the row below it; with a brush at hand it ends the selection, unless the page uses clicks.
  click(gesture, place, event) {
    const { panel } = this;
    const row = panel.rowAt(...place);
    panel.hover(row);
    if (panel.onClick) panel.onClick(row, event);
    else if (gesture.kind === "brush" || gesture.kind === "lasso") panel.clear(event);
  }

  drop(event) {
    this.pointers.delete(event.pointerId);
    this.cancel();
  }

  cancel() {
    if (!this.gesture) return false;
    const { outline } = this;
    this.gesture = null;
    this.panel.redrawOverlay();
    return Boolean(outline);
  }

  key(event) {
    if (event.key !== "Escape") return;
    if (this.cancel()) this.panel.undoLive(event);
    else this.panel.clear(event);
  }

  // Wheel and trackpad. A page that is being scrolled goes on scrolling when a panel comes below the pointer.
  wheel(event) {
    const { wheel } = this.panel.options;
    if (wheel === "none" || (wheel === "ctrl" && !event.ctrlKey && !event.metaKey)) return;
    if (!event.ctrlKey && event.timeStamp - this.scrolled < 200) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const steps = Math.max(-240, Math.min(event.deltaY * lines, 240));
    this.panel.zoom(Math.exp(-steps * (event.ctrlKey ? 0.008 : 0.0016)), ...this.place(event));
    this.ask(this.place(event));
  }

  // Look for the row below the pointer, once per frame, and not while the camera moves.
  ask(place) {
    const wait = this.panel.movedAt + SCATTER_REST - performance.now();
    const fresh = this.asked === undefined;
    this.asked = place;
    if (!fresh) return;
    this.asking = setTimeout(() => {
      const at = this.asked;
      this.asked = undefined;
      if (this.panel.movedAt + SCATTER_REST - performance.now() > 1) this.ask(at);
      else if (!this.gesture) this.panel.hover(this.panel.rowAt(...at));
    }, Math.max(wait, 0));
  }

  // A finger leaves by being lifted: what it has tapped stays shown.
  leave(event) {
    if (event.pointerType === "touch") return;
    clearTimeout(this.asking);
    this.asked = undefined;
    if (!this.gesture) this.panel.hover(-1);
  }

  // Corners of the brush or lasso being drawn, or null.
  get outline() {
    const { gesture } = this;
    return gesture?.moved && (gesture.kind === "brush" || gesture.kind === "lasso") ? gesture.corners : null;
  }
}

// The positions of a fast pointer since the last event, which the browser has joined into one event.
function scatterSteps(event) {
  const steps = event.getCoalescedEvents?.() ?? [];
  return steps.length ? steps : [event];
}
