// How each engine is told to draw the same points: begin(points, colors) and recolor(colors).
"use strict";

const WIDTH = 800;
const HEIGHT = 600;
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));

// Ten round clusters in [-1, 1], the same numbers in every run.
function clusters(count) {
  let state = 12345;
  const uniform = () => ((state = (state * 48271) % 2147483647) / 2147483647);
  const middles = Array.from({ length: 10 }, () => [1.4 * uniform() - 0.7, 1.4 * uniform() - 0.7]);
  const points = new Float32Array(2 * count);
  const labels = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    labels[i] = i % 10;
    const radius = 0.12 * Math.sqrt(-2 * Math.log(uniform()));
    const angle = 2 * Math.PI * uniform();
    points[2 * i] = middles[i % 10][0] + radius * Math.cos(angle);
    points[2 * i + 1] = middles[i % 10][1] + radius * Math.sin(angle);
  }
  return { points, labels };
}

const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#785ef0", "#a0a0a0", "#8c564b"];

function rgba(labels, shift) {
  const colors = new Uint8Array(4 * labels.length);
  const bytes = PALETTE.map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
  for (let i = 0; i < labels.length; i++) colors.set([...bytes[(labels[i] + shift) % 10], 255], 4 * i);
  return colors;
}

function column(points, from) {
  return Float32Array.from({ length: points.length / 2 }, (_, i) => points[2 * i + from]);
}

function canvas() {
  const element = document.createElement("canvas");
  Object.assign(element.style, { width: `${WIDTH}px`, height: `${HEIGHT}px`, display: "block" });
  [element.width, element.height] = [WIDTH, HEIGHT];
  document.body.append(element);
  return element;
}

const ENGINES = {
  manifoldry: {
    begin({ points, labels }) {
      this.panel = new Scatter(canvas(), { points, dimension: 2 });
      this.recolor(labels, 0);
      this.panel.onSelect = (mask) => (window.count = mask ? mask.reduce((a, b) => a + b, 0) : 0);
    },
    recolor(labels, shift) {
      this.panel.setColors(rgba(labels, shift));
    },
    brushing(on) {
      this.panel.setMode(on ? "brush" : "pan");
    },
  },
  "regl-scatterplot": {
    async begin({ points, labels }) {
      this.plot = ReglScatterplot.default({ canvas: canvas(), width: WIDTH, height: HEIGHT, pointSize: 2, opacity: 0.5 });
      this.plot.set({ colorBy: "valueA", pointColor: PALETTE });
      this.plot.subscribe("select", ({ points: chosen }) => (window.count = chosen.length));
      this.given = { x: column(points, 0), y: column(points, 1) };
      await this.recolor(labels, 0);
    },
    recolor(labels, shift) {
      return this.plot.draw({ ...this.given, z: Array.from(labels, (label) => (label + shift) % 10) });
    },
    brushing(on) {
      this.plot.set({ mouseMode: on ? "lasso" : "panZoom" });
    },
  },
  "deck.gl": {
    begin({ points, labels }) {
      this.count = labels.length;
      this.points = points;
      this.deck = new deck.Deck({
        canvas: canvas(), width: WIDTH, height: HEIGHT, controller: true,
        views: new deck.OrthographicView({ flipY: false }),
        initialViewState: { target: [0, 0, 0], zoom: Math.log2(HEIGHT / 2) },
        onHover: ({ index }) => (window.hovered = index),
      });
      this.recolor(labels, 0);
    },
    recolor(labels, shift) {
      const attributes = {
        getPosition: { value: this.points, size: 2 },
        getFillColor: { value: rgba(labels, shift), size: 4 },
      };
      const layer = new deck.ScatterplotLayer({
        id: "points", data: { length: this.count, attributes }, getRadius: 1, radiusUnits: "pixels", opacity: 0.5, pickable: true,
      });
      this.deck.setProps({ layers: [layer] });
    },
  },
  Bokeh: {
    begin({ points, labels }) {
      const model = (name) => Bokeh.documents[0].get_model_by_name(name);
      Object.assign(this, { source: model("source"), figure: model("figure") });
      this.given = { x: column(points, 0), y: column(points, 1) };
      this.recolor(labels, 0);
      this.source.selected.change.connect(() => (window.count = this.source.selected.indices.length));
    },
    recolor(labels, shift) {
      this.source.data = { ...this.given, color: Array.from(labels, (label) => PALETTE[(label + shift) % 10]) };
    },
    brushing(on) {
      this.figure.toolbar.active_drag = this.figure.toolbar.tools.find((tool) => tool.type === (on ? "BoxSelectTool" : "PanTool"));
    },
  },
  "plotly.js": {
    async begin({ points, labels }) {
      this.place = document.createElement("div");
      document.body.append(this.place);
      const trace = { type: "scattergl", mode: "markers", x: column(points, 0), y: column(points, 1) };
      trace.marker = { size: 2, opacity: 0.5, colorscale: PALETTE.map((color, k) => [k / 9, color]), cmin: 0, cmax: 9 };
      trace.marker.color = Array.from(labels);
      const layout = { width: WIDTH, height: HEIGHT, dragmode: "pan", hovermode: "closest", margin: { l: 0, r: 0, t: 0, b: 0 } };
      await Plotly.newPlot(this.place, [trace], layout, { scrollZoom: true });
      this.place.on("plotly_selected", (event) => (window.count = event?.points.length ?? 0));
    },
    recolor(labels, shift) {
      return Plotly.restyle(this.place, { "marker.color": [Array.from(labels, (label) => (label + shift) % 10)] });
    },
    brushing(on) {
      return Plotly.relayout(this.place, { dragmode: on ? "select" : "pan" });
    },
  },
};
