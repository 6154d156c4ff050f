// The camera of a scatter panel: where a row lies on the screen, in 2-D and 3-D by the same five lines.
//
// A row p is first brought to q = (p - middle) / extent, so that all rows lie within the unit ball (3-D) or the unit
// square (2-D) and 32-bit floats on the graphics card lose no digits to a distant origin. On the screen it lies at
//     center of the canvas + scale * ((R q).xy / w - target),   w = 1 - perspective * (R q).z
// with y upward. One scale for both axes: a unit is as long in x as in y. In 2-D, R = I and perspective = 0.
"use strict";

const SCATTER_MARGIN = 0.94; // part of the canvas that the rows fill at zoom 1: discs at the edge are not cut
const SCATTER_ZOOM_RANGE = [0.2, 5000]; // beyond 5000, 32-bit coordinates would jump by more than a tenth of a pixel
const SCATTER_PERSPECTIVE = 0.28; // near rows are up to 1.8 times as large as far ones: depth without distortion
const SCATTER_CROWD_CELLS = 96; // cells per axis of the grid that measures how crowded the rows are

class ScatterCamera {
  constructor(points, dimension, projection) {
    this.points = points;
    this.dimension = dimension;
    this.width = 1;
    this.height = 1;
    this.measure();
    this.setProjection(projection);
    this.reset();
  }

  // Middle and extent of the finite rows, and their crowding: rows per unit area around a typical row.
  measure() {
    const { points, dimension } = this;
    const low = [Infinity, Infinity, Infinity].slice(0, dimension);
    const high = low.map(() => -Infinity);
    this.finite = 0;
    for (let i = 0; i < points.length; i += dimension) {
      if (!scatterIsFinite(points, i, dimension)) continue;
      this.finite++;
      for (let d = 0; d < dimension; d++) {
        const value = points[i + d];
        if (value < low[d]) low[d] = value;
        if (value > high[d]) high[d] = value;
      }
    }
    this.middle = low.map((value, d) => (this.finite ? (value + high[d]) / 2 : 0));
    const half = low.map((value, d) => (this.finite ? (high[d] - value) / 2 : 0));
    this.extent = (dimension === 3 ? Math.hypot(...half) : Math.max(...half)) || 1;
    // How far the first view goes from its middle, across and up; 3-D: measureReach.
    this.reach = half.map((value) => value / this.extent);
    this.crowding = this.measureCrowding();
  }

  // Other rows in the view of these.
  replace(points) {
    this.points = points;
    this.finite = points.length / this.dimension;
    this.crowding = this.measureCrowding();
  }

  // Half the mean number of other rows in a row's cell, per unit area, in the plane of the first two axes.
  measureCrowding() {
    const { points, dimension, middle, extent } = this;
    const side = SCATTER_CROWD_CELLS;
    const counts = new Uint32Array(side * side);
    const toCell = (side - 1) / 2 / extent;
    for (let i = 0; i < points.length; i += dimension) {
      if (!scatterIsFinite(points, i, dimension)) continue;
      const column = ((points[i] - middle[0] + extent) * toCell) | 0;
      const line = ((points[i + 1] - middle[1] + extent) * toCell) | 0;
      counts[line * side + column]++;
    }
    let pairs = 0;
    for (const count of counts) pairs += (count * (count - 1)) / 2;
    const cellArea = (2 / (side - 1)) ** 2;
    // A few pairs of few rows are chance: panels of the same rows must not differ in size for that. n / 4 is the
    // crowding of rows spread evenly over the square.
    const crowded = Math.max(pairs - 2 * Math.sqrt(pairs), 0);
    return Math.max(crowded / this.finite / cellArea || 0, this.finite / 4, 1);
  }

  reset() {
    this.zoomFactor = 1;
    this.target = [0, 0];
    this.rotation = this.dimension === 3 ? SCATTER_FIRST_VIEW : SCATTER_IDENTITY;
  }

  setProjection(projection = "perspective") {
    this.perspective = 0;
    if (this.dimension === 2) return;
    if (projection !== "orthographic") this.perspective = SCATTER_PERSPECTIVE;
    this.reach = this.measureReach(SCATTER_FIRST_VIEW);
  }

  measureReach(R) {
    const { points, middle, extent, perspective } = this;
    const reach = [0, 0];
    for (let i = 0; i < points.length; i += 3) {
      const [x, y, z] = [points[i] - middle[0], points[i + 1] - middle[1], points[i + 2] - middle[2]];
      const w = extent - perspective * (R[6] * x + R[7] * y + R[8] * z);
      const across = Math.abs(R[0] * x + R[1] * y + R[2] * z) / w;
      const up = Math.abs(R[3] * x + R[4] * y + R[5] * z) / w;
      if (across > reach[0]) reach[0] = across;
      if (up > reach[1]) reach[1] = up;
    }
    return reach;
  }

  resize(width, height) {
    this.width = Math.max(width, 1);
    this.height = Math.max(height, 1);
  }

  // CSS pixels per unit of q; per unit of the data: scale / extent.
  get scale() {
    const [across, up] = this.reach;
    const fit = Math.min(this.width / Math.max(across, 1e-3), this.height / Math.max(up, 1e-3));
    return (fit / 2) * SCATTER_MARGIN * this.zoomFactor;
  }

  zoomAt(factor, x, y) {
    const [least, most] = SCATTER_ZOOM_RANGE;
    const before = this.scale;
    this.zoomFactor = Math.min(Math.max(this.zoomFactor * factor, least), most);
    const change = 1 / before - 1 / this.scale;
    this.target = [this.target[0] + (x - this.width / 2) * change, this.target[1] - (y - this.height / 2) * change];
  }

  pan(dx, dy) {
    this.target = [this.target[0] - dx / this.scale, this.target[1] + dy / this.scale];
  }

  // Turn by angles in radians: dx about the vertical, dy about the horizontal axis of the screen.
  rotate(dx, dy) {
    if (this.dimension === 3) this.rotation = scatterTurn(this.rotation, dx, dy);
  }

  // Write the place of a row (x, y in CSS pixels, depth toward the viewer, w) into out.
  project(index, out) {
    const { points, middle, rotation: R } = this;
    const at = index * this.dimension;
    const x = (points[at] - middle[0]) / this.extent;
    const y = (points[at + 1] - middle[1]) / this.extent;
    const z = this.dimension === 3 ? (points[at + 2] - middle[2]) / this.extent : 0;
    const depth = R[6] * x + R[7] * y + R[8] * z;
    const w = 1 - this.perspective * depth;
    out[0] = this.width / 2 + this.scale * ((R[0] * x + R[1] * y + R[2] * z) / w - this.target[0]);
    out[1] = this.height / 2 - this.scale * ((R[3] * x + R[4] * y + R[5] * z) / w - this.target[1]);
    out[2] = depth;
    out[3] = w;
    return out;
  }

  // Positions of all rows at once: the same numbers as project, without a call per row. Rows that are not finite become NaN.
  projectAll(screen, depths) {
    const { points, dimension, extent, rotation: R, perspective, scale, middle } = this;
    const [mx, my, mz = 0] = middle;
    const left = this.width / 2 - scale * this.target[0];
    const top = this.height / 2 + scale * this.target[1];
    const n = points.length / dimension;
    for (let i = 0, at = 0; i < n; i++, at += dimension) {
      const x = (points[at] - mx) / extent;
      const y = (points[at + 1] - my) / extent;
      const z = dimension === 3 ? (points[at + 2] - mz) / extent : 0;
      const depth = R[6] * x + R[7] * y + R[8] * z;
      const w = 1 - perspective * depth;
      screen[2 * i] = left + (scale * (R[0] * x + R[1] * y + R[2] * z)) / w;
      screen[2 * i + 1] = top - (scale * (R[3] * x + R[4] * y + R[5] * z)) / w;
      depths[i] = depth;
    }
  }

  getView() {
    return { zoom: this.zoomFactor, target: [...this.target], rotation: [...this.rotation] };
  }

  setView({ zoom, target, rotation }) {
    this.zoomFactor = zoom;
    this.target = [...target];
    if (this.dimension === 3) this.rotation = [...rotation];
  }
}

const SCATTER_IDENTITY = [1, 0, 0, 0, 1, 0, 0, 0, 1];
const SCATTER_UPRIGHT = [1, 0, 0, 0, 0, 1, 0, -1, 0]; // x to the right, z up, y into the screen
// In 3-D the third axis points up, as in most plots of three coordinates, seen from the front and a little from above.
const SCATTER_FIRST_VIEW = scatterTurn(scatterTurn(SCATTER_UPRIGHT, -0.6, 0), 0, 0.3);

function scatterIsFinite(points, at, dimension) {
  return Number.isFinite(points[at] + points[at + 1] + (dimension === 3 ? points[at + 2] : 0));
}

// R turned about the axes of the screen: first dx about the vertical one, then dy about the horizontal one.
function scatterTurn(R, dx, dy) {
  const [cx, sx, cy, sy] = [Math.cos(dx), Math.sin(dx), Math.cos(dy), Math.sin(dy)];
  const about = [cx, 0, sx, sy * sx, cy, -sy * cx, -cy * sx, sy, cy * cx];
  const out = [];
  for (let i = 0; i < 3; i++) {
    for (let j = 0; j < 3; j++) out.push(about[3 * i] * R[j] + about[3 * i + 1] * R[3 + j] + about[3 * i + 2] * R[6 + j]);
  }
  return out;
}
