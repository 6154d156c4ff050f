// Draws a panel without WebGL2: the picture of painter.js, pixel by pixel in JavaScript, for a bounded number of rows.
"use strict";

const SCATTER_PLAIN_LIMIT = 50000; // rows whose discs JavaScript fills in about 20 ms, so that a drag stays fluid

class ScatterPlainPainter {
  constructor() {
    this.pointLimit = SCATTER_PLAIN_LIMIT;
  }

  add() {}

  remove() {}

  draw(panel, context, look) {
    const { width, height } = context.canvas;
    const image = context.createImageData(width, height);
    const [red, green, blue] = look.background.map((value) => Math.round(255 * value));
    new Uint32Array(image.data.buffer).fill((0xff000000 | (blue << 16) | (green << 8) | red) >>> 0);
    const sheet = { width, height, data: image.data, depths: panel.camera.dimension === 3 ? new Float32Array(width * height) : null };
    // The drawing order is random: its first rows are a sample of all.
    const shown = panel.rows.order.subarray(0, this.pointLimit);
    const { selection } = panel.rows;
    for (const disc of selection ? [look.faded, look.chosen] : [look.plain]) {
      const wanted = (row) => !selection || Boolean(selection[row]) === (disc === look.chosen);
      sheet.depths?.fill(-Infinity); // selected rows are seen through the others
      this.drawRows(panel, sheet, look, disc, shown.filter(wanted));
    }
    context.putImageData(image, 0, 0);
    return true;
  }

  drawRows(panel, sheet, look, disc, shown) {
    const { colors } = panel.rows;
    const background = look.background.map((value) => 255 * value);
    const veil = disc === look.faded && panel.rows.selection ? look.veilStrength : 0;
    const place = [0, 0, 0, 0];
    const color = [0, 0, 0];
    for (const row of shown) {
      if (colors[4 * row + 3] === 0) continue;
      const [x, y, depth, w] = panel.camera.project(row, place);
      const away = Math.min(Math.max((0.8 - depth) / 1.6, 0), 1);
      const fog = look.fog * away * away * (3 - 2 * away);
      for (let c = 0; c < 3; c++) {
        const seen = colors[4 * row + c] * (1 - veil) + 255 * look.veil[c] * veil;
        color[c] = seen * (1 - fog) + background[c] * fog;
      }
      const rim = disc.rim * look.ratio;
      const radius = (0.5 * disc.size * look.ratio) / w + rim;
      const opacity = (disc.alpha * colors[4 * row + 3]) / 255;
      fillScatterDisc(sheet, { x: x * look.ratio, y: y * look.ratio, depth, radius, rim, opacity }, color, background);
    }
  }
}

// The fragment shader of painter.js over the square around a disc.
function fillScatterDisc({ width, height, data, depths }, { x, y, depth, radius, rim, opacity }, color, background) {
  const least = depths ? 0.4 : 0.01;
  const left = Math.max(Math.floor(x - radius - 0.5), 0);
  const right = Math.min(Math.ceil(x + radius + 0.5), width);
  const bottom = Math.min(Math.ceil(y + radius + 0.5), height);
  for (let line = Math.max(Math.floor(y - radius - 0.5), 0); line < bottom; line++) {
    for (let column = left; column < right; column++) {
      const away = Math.sqrt((column + 0.5 - x) ** 2 + (line + 0.5 - y) ** 2);
      const cover = Math.min(radius + 0.5 - away, 1);
      const at = line * width + column;
      if (cover < least || (depths && depths[at] > depth)) continue;
      if (depths) depths[at] = depth;
      const edge = rim ? Math.min(Math.max(away - radius + rim + 0.5, 0), 1) : 0;
      for (let c = 0; c < 3; c++) {
        const ink = color[c] + (background[c] - color[c]) * edge;
        data[4 * at + c] += (ink - data[4 * at + c]) * opacity * cover;
      }
    }
  }
}
