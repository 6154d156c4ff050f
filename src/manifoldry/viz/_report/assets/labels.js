// Names over groups of rows: one size at any zoom, none over another, each at its group or tied to it by a line.
"use strict";

const SCATTER_MOST_LABELS = 30;
const SCATTER_LABEL_FONTS = [11, 17]; // CSS pixels for small and large groups
const SCATTER_LABEL_FEW = 12; // names that have space in the largest font
const SCATTER_LABEL_LINE = 18; // characters; a name has at most three lines
const SCATTER_LABEL_MARGIN = 3; // CSS pixels around a name
const SCATTER_LABEL_SIDES = 16; // directions in which a free position is searched
const SCATTER_LABEL_ROWS = 5000; // rows of a group that decide about its middle: more change it by 2 % of its radius
const SCATTER_MEAN_SHIFTS = 10;

class ScatterLabels {
  // Entries {text, row, count, radius}: the name of a group, a row in its middle, how many rows it has, and the median of
  // their distances to the middle. The largest groups come first.
  constructor(entries) {
    const shown = [...entries].sort((a, b) => b.count - a.count).slice(0, SCATTER_MOST_LABELS);
    const [least, widest] = SCATTER_LABEL_FONTS;
    const most = Math.max(least, widest * Math.min(1, Math.sqrt(SCATTER_LABEL_FEW / shown.length)));
    const context = document.createElement("canvas").getContext("2d");
    this.entries = shown.map(({ text, row, count, radius }) => {
      const size = least + (most - least) * Math.sqrt(count / shown[0].count);
      const lines = scatterWrap(text);
      context.font = scatterLabelFont(size);
      const width = Math.max(...lines.map((line) => context.measureText(line).width));
      return { row, radius, size, lines, half: [width / 2 + SCATTER_LABEL_MARGIN, 0.58 * size * lines.length + SCATTER_LABEL_MARGIN] };
    });
  }

  // The names that have a free position in this view: {lines, size, anchor, center, half, tied}.
  place(camera) {
    const at = this.entries.map(({ row }) => camera.project(row, [0, 0, 0, 0]).slice(0, 2));
    const pixels = camera.scale / camera.extent;
    const seen = this.entries.map((entry, k) => ({ ...entry, anchor: at[k], hidden: 1.5 * entry.radius * pixels < entry.half[1] }))
      .filter(({ anchor: [x, y] }) => x >= 0 && y >= 0 && x <= camera.width && y <= camera.height);
    const placed = [];
    for (const label of seen) {
      const center = scatterFreePlace(label, placed, seen, camera);
      if (center) placed.push({ ...label, center, tied: !scatterHolds(center, label.half, label.anchor) });
    }
    return placed;
  }

  draw(context, camera, ratio, { ink, background }) {
    const placed = this.place(camera);
    context.save();
    context.scale(ratio, ratio);
    Object.assign(context, { textAlign: "center", textBaseline: "middle", lineJoin: "round" });
    for (const { anchor, center, half } of placed.filter(({ tied }) => tied)) {
      const end = anchor.map((value, d) => Math.min(Math.max(value, center[d] - half[d]), center[d] + half[d]));
      for (const [color, width] of [[background, 3.5], [ink, 1]]) {
        Object.assign(context, { strokeStyle: color, fillStyle: color, lineWidth: width });
        context.beginPath();
        context.moveTo(...anchor);
        context.lineTo(...end);
        context.stroke();
        context.beginPath();
        context.arc(...anchor, 1 + width / 2, 0, 2 * Math.PI);
        context.fill();
      }
    }
    Object.assign(context, { strokeStyle: background, fillStyle: ink, lineWidth: 4 });
    for (const { lines, size, center: [x, y] } of placed) {
      context.font = scatterLabelFont(size);
      for (const write of ["strokeText", "fillText"]) {
        lines.forEach((line, k) => context[write](line, x, y + 1.16 * size * (k - (lines.length - 1) / 2)));
      }
    }
    context.restore();
  }
}

const scatterLabelFont = (size) => `600 ${size.toFixed(2)}px system-ui, sans-serif`;

// The nearest center of a name to its anchor, on growing circles, that covers no other name. If the name covers its
// anchor, it must not hide the whole group, and no other anchor may be nearer to its center. If it does not, a line ties
// it to its anchor.
function scatterFreePlace({ anchor, half, hidden }, placed, seen, { width, height }) {
  const far = Math.hypot(width, height), step = half[1] / 2;
  for (let radius = 0; radius < far; radius += step) {
    for (let side = 0; side < (radius ? SCATTER_LABEL_SIDES : 1); side++) {
      const angle = (2 * Math.PI * side) / SCATTER_LABEL_SIDES;
      const center = [anchor[0] + radius * Math.sin(angle), anchor[1] - radius * Math.cos(angle)];
      const inside = center[0] >= half[0] && center[1] >= half[1] && center[0] <= width - half[0] && center[1] <= height - half[1];
      const clear = (other) => center.some((value, d) => Math.abs(value - other.center[d]) >= half[d] + other.half[d]);
      const nearest = (other) => Math.hypot(center[0] - other.anchor[0], center[1] - other.anchor[1]) >= radius - 1e-9;
      const own = !scatterHolds(center, half, anchor) || (!hidden && seen.every(nearest));
      if (inside && own && placed.every(clear)) return center;
    }
  }
  return null;
}

function scatterHolds(center, half, point) {
  return point.every((value, d) => Math.abs(value - center[d]) <= half[d]);
}

// The words of a name in lines; what does not fit is cut.
function scatterWrap(text) {
  const lines = [""];
  const words = String(text).trim().split(/\s+/).flatMap((word) => word.match(new RegExp(`.{1,${SCATTER_LABEL_LINE}}`, "gu")) ?? []);
  for (const word of words) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (longer.length <= SCATTER_LABEL_LINE) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.length > 3 ? [...lines.slice(0, 2), `${lines[2].slice(0, SCATTER_LABEL_LINE - 2)} …`] : lines;
}

// The {count, row, radius} of each group with a code from 1 to count; row is -1 for empty groups. The row is in the middle of
// a dense part: near the median, moved by
// mean shift: the median of a ring lies outside of it, and the mean of two parts between them, but a row does not.
function scatterMiddles(points, dimension, codes, count) {
  const groups = Array.from({ length: count }, () => []);
  for (let i = 0; i < codes.length; i++) if (codes[i] && scatterIsFinite(points, i * dimension, dimension)) groups[codes[i] - 1].push(i);
  return groups.map((rows) => ({ count: rows.length, ...(rows.length ? scatterMiddle(points, dimension, rows) : { row: -1, radius: 0 }) }));
}

function scatterMiddle(points, dimension, all) {
  const stride = Math.ceil(all.length / SCATTER_LABEL_ROWS);
  const rows = stride > 1 ? all.filter((_, k) => k % stride === 0) : all;
  const distances = new Float64Array(rows.length);
  const measure = (center) => rows.forEach((row, k) => {
    let sum = 0;
    for (let d = 0; d < dimension; d++) sum += (points[row * dimension + d] - center[d]) ** 2;
    distances[k] = Math.sqrt(sum);
  });
  const nearest = (center) => {
    measure(center);
    return rows[distances.indexOf(distances.reduce((least, value) => Math.min(least, value), Infinity))];
  };
  const median = (values) => {
    const sorted = Float64Array.from(values).sort();
    return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
  };
  const axes = [...Array(dimension).keys()];
  const start = nearest(axes.map((d) => median(rows.map((row) => points[row * dimension + d]))));
  let center = axes.map((d) => points[start * dimension + d]);
  measure(center);
  const radius = median(distances);
  for (let step = 0; step < SCATTER_MEAN_SHIFTS; step++) {
    const near = rows.filter((_, k) => distances[k] <= radius / 2);
    center = axes.map((d) => near.reduce((sum, row) => sum + points[row * dimension + d], 0) / near.length);
    measure(center);
  }
  return { row: nearest(center), radius };
}
