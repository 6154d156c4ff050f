// Draws a panel without WebGL2: the same picture with the plain 2-D canvas, for a bounded number of rows.
"use strict";

const SCATTER_PLAIN_LIMIT = 50000; // rows that the plain canvas draws in about a tenth of a second

class ScatterPlainPainter {
  constructor() {
    this.pointLimit = SCATTER_PLAIN_LIMIT;
  }

  add() {}

  remove() {}

  draw(panel, context, look) {
    const { width, height } = context.canvas;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = scatterCss(look.background);
    context.fillRect(0, 0, width, height);
    const { selection } = panel.rows;
    const shown = this.shownRows(panel);
    const { plain, faded, chosen } = look;
    for (const disc of selection ? [faded, chosen] : [plain]) {
      context.globalAlpha = disc.alpha;
      for (const row of shown) {
        if (disc === plain || Boolean(selection[row]) === (disc === chosen)) this.drawRow(panel, context, look, disc, row);
      }
    }
    context.globalAlpha = 1;
    return true;
  }

  // The first rows of the drawing order, a random sample of all; in 3-D from back to front.
  shownRows(panel) {
    const rows = Array.from(panel.rows.order.subarray(0, this.pointLimit));
    if (panel.camera.dimension === 2) return rows;
    const place = [0, 0, 0, 0];
    const depth = new Map(rows.map((row) => [row, panel.camera.project(row, place)[2]]));
    return rows.sort((a, b) => depth.get(a) - depth.get(b));
  }

  drawRow(panel, context, look, disc, row) {
    const { colors } = panel.rows;
    if (colors[4 * row + 3] === 0) return;
    const [x, y, depth, w] = panel.camera.project(row, [0, 0, 0, 0]);
    const away = Math.min(Math.max((0.8 - depth) / 1.6, 0), 1);
    const fog = look.fog * away * away * (3 - 2 * away);
    const channel = (c) => {
      const own = colors[4 * row + c] / 255;
      const seen = disc === look.faded ? own + (look.veil[c] - own) * look.veilStrength : own;
      return seen + (look.background[c] - seen) * fog;
    };
    context.fillStyle = scatterCss([channel(0), channel(1), channel(2)]);
    context.beginPath();
    context.arc(x * look.ratio, y * look.ratio, (0.5 * disc.size * look.ratio) / w, 0, 2 * Math.PI);
    context.fill();
  }
}

function scatterCss(rgb) {
  return `rgb(${rgb.map((value) => Math.round(255 * value)).join(",")})`;
}
