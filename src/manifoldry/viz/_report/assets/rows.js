// The rows of a panel as the painters need them: the order of drawing, colors, selection.
"use strict";

class ScatterRows {
  constructor(points, dimension) {
    this.points = points;
    this.dimension = dimension;
    this.count = points.length / dimension;
    this.selection = null;
    this.colors = new Uint8Array(4 * this.count);
    new Uint32Array(this.colors.buffer).fill(0xffb27800); // one blue, until the page gives colors
    this.order = this.shuffled();
  }

  // Finite rows in a fixed random order. In the order of a file, the last class would be drawn over all others.
  shuffled() {
    const order = new Uint32Array(this.count);
    let kept = 0;
    for (let row = 0; row < this.count; row++) {
      if (scatterIsFinite(this.points, row * this.dimension, this.dimension)) order[kept++] = row;
    }
    let state = 0x9e3779b9;
    for (let i = kept - 1; i > 0; i--) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      const j = (state >>> 0) % (i + 1);
      const row = order[i];
      order[i] = order[j];
      order[j] = row;
    }
    return order.subarray(0, kept);
  }

  select(mask) {
    this.selection = mask;
    this.selectedCount = 0;
    if (mask) for (let row = 0; row < mask.length; row++) if (mask[row]) this.selectedCount++;
  }

  // Coordinates within the unit ball of the camera, in drawing order.
  unitPoints({ middle, extent }) {
    const { points, dimension, order } = this;
    const out = new Float32Array(order.length * dimension);
    for (let k = 0; k < order.length; k++) {
      for (let d = 0; d < dimension; d++) out[k * dimension + d] = (points[order[k] * dimension + d] - middle[d]) / extent;
    }
    return out;
  }

  orderedColors() {
    const { order } = this;
    const aligned = this.colors.byteOffset % 4 ? this.colors.slice() : this.colors;
    const colors = new Uint32Array(aligned.buffer, aligned.byteOffset, this.count);
    const out = new Uint32Array(order.length);
    for (let k = 0; k < order.length; k++) out[k] = colors[order[k]];
    return out;
  }

  // Positions in the drawing order with the selected rows moved to the end, hence on top.
  selectedLast() {
    const { order, selection } = this;
    const out = new Uint32Array(order.length);
    let unselected = 0;
    let end = order.length;
    for (let k = 0; k < order.length; k++) {
      if (selection[order[k]]) out[--end] = k;
      else out[unselected++] = k;
    }
    return { order: out, unselected };
  }
}
