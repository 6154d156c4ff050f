// How the rows of a panel look: sizes and opacities from how crowded they are, colors from the theme.
"use strict";

const SCATTER_SIZES = [1.5, 10]; // CSS pixels: a smaller disc is a faint dot, a larger one hides its neighbors
const SCATTER_CHOSEN = 4.5; // CSS pixels to which a few selected rows grow among many

// Sizes, opacities and colors of a frame. The fewer rows are selected, the larger and more solid they are drawn: ten
// of half a million must be found.
function scatterLook(panel, ratio = panel.ratio, theme = panel.options) {
  const solid = panel.camera.dimension === 3;
  const background = scatterColor(theme.background);
  const ink = scatterColor(theme.ink);
  const plain = scatterDisc(panel, 1);
  return {
    ratio, background, ink, plain,
    faded: { ...plain, alpha: solid ? 1 : 0.6 * plain.alpha, rim: 0 },
    chosen: panel.rows.selection ? scatterChosenDisc(panel, plain) : plain,
    veil: background.map((value, c) => 0.84 * value + 0.16 * ink[c]),
    veilStrength: 0.85,
    fog: solid ? 0.35 : 0, // depth must show, and a far point keep the color of its class
  };
}

function scatterChosenDisc(panel, plain) {
  const { order, selectedCount } = panel.rows;
  const disc = scatterDisc(panel, order.length / Math.max(selectedCount, 1));
  return { ...disc, size: Math.min(disc.size, Math.max(1.15 * plain.size, SCATTER_CHOSEN)) };
}

// Diameter, opacity and rim of the discs where one row of so many is drawn.
function scatterDisc({ camera, options }, thinning) {
  const [least, most] = SCATTER_SIZES;
  // CSS pixels between neighbors where a typical row lies
  const spacing = camera.scale * Math.sqrt(thinning / camera.crowding);
  const automatic = Math.min(Math.max(2.1 * spacing ** 0.42, least), most);
  const size = options.pointSize ? options.pointSize * thinning ** 0.1 : automatic;
  const overlap = (0.8 * size * size) / (spacing * spacing); // discs over a typical pixel
  const clear = Math.min(Math.max(0.95 * Math.max(overlap, 1) ** -0.4, 0.28), 0.92);
  // A rim of background (CSS pixels) around larger discs separates neighbors.
  return { size, alpha: camera.dimension === 3 ? 1 : clear, rim: Math.min(Math.max(0.3 * (size - 3), 0), 0.6) };
}

const scatterKnownColors = new Map();

// [r, g, b] in 0..1 of any CSS color; the browser's own parser reads it.
function scatterColor(text) {
  if (!scatterKnownColors.has(text)) {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    scatterKnownColors.set(text, Array.from(context.getImageData(0, 0, 1, 1).data.subarray(0, 3), (value) => value / 255));
  }
  return scatterKnownColors.get(text);
}
