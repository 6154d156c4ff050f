// Which row is below the pointer, and which rows lie inside a rectangle or a lasso: all on the screen, so that one
// piece of code serves 2-D and 3-D.
//
// The index is a uniform grid over the positions of the rows on the screen. It is built when a pointer first asks after
// the camera has come to rest (about 20 ms for 500,000 rows) and is shared by all panels of the page: only one of
// them is below the pointer.
"use strict";

const SCATTER_CELL = 12; // CSS pixels per cell: a question of 12 pixels around looks at no more than 9 cells

class ScatterIndex {
  static shared() {
    this.instance ??= new ScatterIndex();
    return this.instance;
  }

  // Make the grid hold the rows of this panel as its camera sees them now.
  build(panel) {
    const { camera, rows } = panel;
    if (this.panel === panel && this.version === panel.version) return;
    this.panel = panel;
    this.version = panel.version;
    if (!this.screen || this.screen.length !== 2 * rows.count) {
      this.screen = new Float32Array(2 * rows.count);
      this.depths = new Float32Array(rows.count);
      this.members = new Uint32Array(rows.count);
      this.cells = new Int32Array(rows.count);
    }
    camera.projectAll(this.screen, this.depths);
    this.columns = Math.ceil(camera.width / SCATTER_CELL) + 1;
    this.lines = Math.ceil(camera.height / SCATTER_CELL) + 1;
    this.fill(rows);
  }

  forget(panel) {
    if (this.panel === panel) this.panel = this.screen = this.depths = this.members = this.cells = null;
  }

  // A counting sort of the rows on the screen by cell.
  fill(rows) {
    const { screen, cells, columns, lines } = this;
    const starts = new Uint32Array(columns * lines + 2);
    for (let row = 0; row < rows.count; row++) {
      const column = Math.floor(screen[2 * row] / SCATTER_CELL);
      const line = Math.floor(screen[2 * row + 1] / SCATTER_CELL);
      const inside = column >= 0 && line >= 0 && column < columns && line < lines && rows.colors[4 * row + 3] !== 0;
      cells[row] = inside ? line * columns + column : -1;
      if (inside) starts[cells[row] + 2]++;
    }
    for (let c = 2; c < starts.length; c++) starts[c] += starts[c - 1];
    for (let row = 0; row < rows.count; row++) {
      if (cells[row] >= 0) this.members[starts[cells[row] + 1]++] = row;
    }
    this.starts = starts;
  }

  // The row nearest to a place within reach (CSS pixels), or -1. In 3-D, of the rows whose disc covers the place, the
  // one in front: it is the one that is seen.
  nearest(x, y, reach, disc) {
    let best = -1;
    let bestAway = reach * reach;
    let bestDepth = -Infinity;
    const flat = this.panel.camera.dimension === 2;
    this.around(x, y, reach, (row) => {
      const away = (this.screen[2 * row] - x) ** 2 + (this.screen[2 * row + 1] - y) ** 2;
      if (!flat && away <= disc * disc) {
        if (this.depths[row] > bestDepth) [best, bestDepth, bestAway] = [row, this.depths[row], 0];
      } else if (away < bestAway) [best, bestAway] = [row, away];
    });
    return best;
  }

  around(x, y, reach, visit) {
    const { columns, lines, starts, members } = this;
    const clamp = (value, most) => Math.min(Math.max(Math.floor(value / SCATTER_CELL), 0), most - 1);
    const [left, right] = [clamp(x - reach, columns), clamp(x + reach, columns)];
    for (let line = clamp(y - reach, lines); line <= clamp(y + reach, lines); line++) {
      for (let k = starts[line * columns + left]; k < starts[line * columns + right + 1]; k++) visit(members[k]);
    }
  }
}

// Mask of the shown rows inside a polygon of [x, y] in CSS pixels (even-odd rule).
function scatterInside(panel, polygon) {
  const { camera, rows } = panel;
  const mask = new Uint8Array(rows.count);
  const screen = new Float64Array(2 * rows.count);
  camera.projectAll(screen, new Float32Array(rows.count));
  const strips = new ScatterStrips(polygon);
  for (let row = 0; row < rows.count; row++) {
    if (rows.colors[4 * row + 3] !== 0 && strips.contains(screen[2 * row], screen[2 * row + 1])) mask[row] = 1;
  }
  return mask;
}

// A polygon cut into horizontal strips that know the edges crossing them: a test looks at a few edges, not at all.
class ScatterStrips {
  constructor(polygon) {
    const xs = polygon.map((corner) => corner[0]);
    const ys = polygon.map((corner) => corner[1]);
    [this.left, this.right] = [Math.min(...xs), Math.max(...xs)];
    [this.top, this.bottom] = [Math.min(...ys), Math.max(...ys)];
    this.strips = Array.from({ length: Math.ceil(this.bottom - this.top) + 1 }, () => []);
    polygon.forEach((from, k) => {
      const to = polygon[(k + 1) % polygon.length];
      const last = Math.floor(Math.max(from[1], to[1]) - this.top);
      for (let s = Math.floor(Math.min(from[1], to[1]) - this.top); s <= last; s++) this.strips[s].push([...from, ...to]);
    });
  }

  contains(x, y) {
    if (!(x >= this.left && x <= this.right && y >= this.top && y <= this.bottom)) return false;
    let inside = false;
    for (const [ax, ay, bx, by] of this.strips[Math.floor(y - this.top)]) {
      if (ay > y !== by > y && x < ax + ((y - ay) * (bx - ax)) / (by - ay)) inside = !inside;
    }
    return inside;
  }
}

function scatterRectangle([ax, ay], [bx, by]) {
  return [[ax, ay], [bx, ay], [bx, by], [ax, by]];
}
