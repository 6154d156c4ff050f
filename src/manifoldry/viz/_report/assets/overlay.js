// What is drawn over the rows of a panel: the brush or lasso, the ring around the hovered row, the axes of a 3-D view.
//
// A moving brush or ring must not draw half a million rows again. The picture below is kept: whole while a brush is
// drawn (one copy for the page, since one hand draws), and a small square around the ring.
"use strict";

class ScatterOverlay {
  constructor(panel) {
    this.panel = panel;
    this.patch = document.createElement("canvas"); // the pixels below the ring
    this.ring = null; // where the patch lies, in device pixels
  }

  // The rows have been drawn anew: nothing of the overlay is left on the canvas.
  forget() {
    this.ring = null;
    this.still = null;
    if (this.panel.camera.dimension === 3) this.drawAxes();
    const { labels, context, camera, ratio, options } = this.panel;
    labels?.draw(context, camera, ratio, options);
  }

  draw() {
    const { panel } = this;
    const { context } = panel;
    const { outline } = panel.gestures;
    this.liftRing();
    if (this.still) context.drawImage(this.still, 0, 0);
    if (outline) {
      if (!this.still) this.still = this.copy();
      this.drawOutline(outline);
    } else this.still = null;
    if (panel.hovered >= 0) this.drawRing();
  }

  copy() {
    const { canvas } = this.panel;
    const still = (ScatterOverlay.page ??= document.createElement("canvas"));
    [still.width, still.height] = [canvas.width, canvas.height];
    still.getContext("2d").drawImage(canvas, 0, 0);
    return still;
  }

  drawOutline(corners) {
    const { context, ratio, options } = this.panel;
    context.save();
    context.scale(ratio, ratio);
    context.beginPath();
    corners.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.fillStyle = options.ink;
    context.globalAlpha = 0.07;
    context.fill("evenodd");
    context.globalAlpha = 0.85;
    context.strokeStyle = options.ink;
    context.lineWidth = 1.25;
    context.setLineDash([5, 3]);
    context.stroke();
    context.restore();
  }

  liftRing() {
    if (!this.ring) return;
    this.panel.context.drawImage(this.patch, ...this.ring);
    this.ring = null;
  }

  drawRing() {
    const { panel, patch } = this;
    const { context, ratio, options } = panel;
    const [x, y] = panel.positionOf(panel.hovered);
    if (!Number.isFinite(x + y)) return;
    const radius = Math.max(scatterDisc(panel, 1).size / 2 + 2.5, SCATTER_RING - 3);
    const reach = Math.ceil((radius + 3) * ratio);
    this.ring = [Math.round(x * ratio) - reach, Math.round(y * ratio) - reach];
    patch.width = patch.height = 2 * reach;
    const below = patch.getContext("2d");
    below.drawImage(panel.canvas, -this.ring[0], -this.ring[1]);
    context.save();
    context.scale(ratio, ratio);
    for (const [color, width] of [[options.background, 4], [options.ink, 1.75]]) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.strokeStyle = color;
      context.lineWidth = width;
      context.stroke();
    }
    context.restore();
  }

  // Three short lines in the corner that say how the view is turned.
  drawAxes() {
    const { context, ratio, camera, options } = this.panel;
    const R = camera.rotation;
    const [x, y, length] = [30, camera.height - 30, 18];
    context.save();
    context.scale(ratio, ratio);
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.strokeStyle = context.fillStyle = options.ink;
    context.globalAlpha = 0.55;
    for (let axis = 0; axis < 3; axis++) {
      const [dx, dy] = [R[axis], -R[3 + axis]];
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x + length * dx, y + length * dy);
      context.stroke();
      context.fillText(String(axis + 1), x + (length + 7) * dx, y + (length + 7) * dy);
    }
    context.restore();
  }
}
