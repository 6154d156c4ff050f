"use strict";
/* Small charts drawn as SVG: lines, bars, dots. Each has a title and a table for those who cannot see it. */

const Charts = (() => {
  const { make, svg } = Dom;
  const MARGIN = { left: 64, right: 14, top: 12, bottom: 42 };
  const SIZES = { line: [520, 320], bar: [520, 320], dots: [300, 270] };
  const MAX_TABLE_ROWS = 60;
  const MAX_MARKED = 30; // points of a line that are marked: measured one by one, as eigenvalues are
  const DOT = 2.4, FAINT_ABOVE = 400; // dots above this number overlap: drawn thinner and lighter
  const SERIES = 8; // colors of series in the style sheet, and dashes for those who see no difference
  const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "9 2 2 2 2 2"];

  let drawn = 0; // for ids of titles

  /* `names` are the panels': a method has the same color in every chart. */
  function show(section, charts, names) {
    const known = [...names];
    for (const { series } of charts) for (const { name } of series) if (!known.includes(name)) known.push(name);
    const figures = charts.filter((chart) => chart.series.length)
      .map((chart) => figure({ ...chart, series: chart.series.map((one) => ({ ...one, rank: known.indexOf(one.name) })) }));
    section.hidden = !figures.length;
    section.querySelector(".charts").replaceChildren(...figures);
  }

  function figure(chart) {
    const frame = ranges(chart);
    const draw = (series, title) => picture({ ...chart, series }, frame, title);
    const faceted = chart.kind === "dots" && chart.series.length > 1;
    const pictures = faceted
      ? chart.series.map((one) => make("div", { class: "facet" }, make("h4", { text: named(one) }), draw([one], `${chart.title}: ${one.name}`)))
      : [draw(chart.series, chart.title)];
    return make("figure", { class: `chart ${faceted ? "faceted" : ""}` },
      make("h3", { text: chart.title }),
      make("div", { class: "pictures" }, ...pictures),
      !faceted && key(chart),
      make("figcaption", {}, chart.meaning && make("p", { class: "meaning", text: chart.meaning }), table(chart)));
  }

  const named = (series) => (series.legend ? `${series.name} (${series.legend})` : series.name);

  function key(chart) {
    return make("ul", { class: "key" }, ...chart.series.map((one) => make("li", {},
      svg("svg", { viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" },
        chart.kind === "line"
          ? svg("path", { d: "M0 4h26", class: color(one.rank), stroke: "currentColor", "stroke-width": 2.4, "stroke-dasharray": dash(one.rank) })
          : svg("rect", { x: 9, width: 8, height: 8, class: color(one.rank), fill: "currentColor" })),
      named(one))));
  }

  const color = (rank) => `series-${rank % SERIES}`;
  const dash = (rank) => DASHES[rank % DASHES.length];

  // ---- axes

  function ranges(chart) {
    const xs = chart.series.flatMap((one) => one.x).filter((v) => v !== null && (!chart.log_x || v > 0));
    const ys = chart.series.flatMap((one) => one.y).filter((v) => v !== null);
    let x = bounds(xs), y = chart.y_range || bounds(ys);
    if (chart.kind === "bar") {
      x = [x[0] - 0.6, x[1] + 0.6];
      y = [Math.min(0, y[0]), y[1]];
    } else if (!chart.y_range) {
      if (y[0] > 0 && y[0] < 0.4 * y[1]) y = [0, y[1]];
      if (chart.kind === "dots" && x[0] > 0 && x[0] < 0.4 * x[1]) x = [0, x[1]];
      y = [y[0], y[1] + 0.04 * (y[1] - y[0])];
    }
    return { x, y };
  }

  function bounds(values) {
    if (!values.length) return [0, 1];
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    return low < high ? [low, high] : [low - 0.5, high + 0.5];
  }

  /* Round numbers between two ends, about `count` of them. */
  function ticks([low, high], count) {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(10)));
    return found;
  }

  function logTicks([low, high]) {
    const wide = Math.log10(high / low) > 2, found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const m of wide ? [1] : [1, 2, 5]) {
        const value = m * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    }
    return found;
  }

  const short = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3)
    ? value.toExponential(0).replace("e+", "e") : value.toLocaleString("en", { maximumFractionDigits: 4 }));

  // ---- drawing

  function picture(chart, frame, title) {
    const [width, height] = SIZES[chart.kind], inner = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
    const along = chart.log_x ? (v) => Math.log(v / frame.x[0]) / Math.log(frame.x[1] / frame.x[0]) : (v) => (v - frame.x[0]) / (frame.x[1] - frame.x[0]);
    const place = {
      x: (v) => round(MARGIN.left + inner[0] * along(v)),
      y: (v) => round(MARGIN.top + inner[1] * (1 - (v - frame.y[0]) / (frame.y[1] - frame.y[0]))),
    };
    const id = `chart-${++drawn}`;
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": `${id}-t ${id}-d`, class: "plot" },
      svg("title", { id: `${id}-t`, text: title }),
      svg("desc", { id: `${id}-d`, text: `${chart.y_label} over ${chart.x_label}. ${chart.meaning}` }),
      axes(chart, frame, place, [width, height]),
      chart.diagonal && diagonal(frame, place),
      ...chart.series.map((one, k) => mark(chart, one, k, place)));
  }

  const round = (value) => Math.round(value * 10) / 10;

  function axes(chart, frame, place, [width, height]) {
    const group = svg("g", { class: "axes" }), bottom = height - MARGIN.bottom, right = width - MARGIN.right;
    for (const value of ticks(frame.y, 5)) {
      group.append(svg("path", { class: "grid", d: `M${MARGIN.left} ${place.y(value)}H${right}` }),
        svg("text", { x: MARGIN.left - 7, y: place.y(value) + 4, "text-anchor": "end", text: short(value) }));
    }
    const spacing = chart.kind === "dots" ? 4 : 8;
    for (const value of chart.log_x ? logTicks(frame.x) : ticks(frame.x, spacing)) {
      if (chart.kind === "bar" && !Number.isInteger(value)) continue;
      group.append(svg("path", { class: "tick", d: `M${place.x(value)} ${bottom}v4` }),
        svg("text", { x: place.x(value), y: bottom + 17, "text-anchor": "middle", text: short(value) }));
    }
    const middle = (MARGIN.top + bottom) / 2;
    group.append(svg("path", { class: "axis", d: `M${MARGIN.left} ${bottom}H${right}` }),
      svg("text", { class: "name", x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle", text: chart.x_label }),
      svg("text", { class: "name", x: 0, y: 0, transform: `translate(13 ${middle}) rotate(-90)`, "text-anchor": "middle", text: chart.y_label }));
    return group;
  }

  function diagonal(frame, place) {
    const low = Math.max(frame.x[0], frame.y[0]), high = Math.min(frame.x[1], frame.y[1]);
    return svg("path", { class: "diagonal", d: `M${place.x(low)} ${place.y(low)}L${place.x(high)} ${place.y(high)}` });
  }

  function mark(chart, series, k, place) {
    const { rank } = series;
    const points = series.x.map((x, i) => [x, series.y[i]]).filter(([x, y]) => x !== null && y !== null && (!chart.log_x || x > 0));
    if (chart.kind === "bar") return bars(chart, points, k, color(rank), place);
    if (chart.kind === "line") {
      const d = points.map(([x, y], i) => `${i ? "L" : "M"}${place.x(x)} ${place.y(y)}`).join("");
      return svg("g", { class: color(rank), fill: "none", stroke: "currentColor" },
        svg("path", { d, "stroke-width": 2, "stroke-dasharray": dash(rank), "stroke-linejoin": "round" }),
        points.length <= MAX_MARKED && svg("path", { d: dots(points, place), "stroke-width": 2.2 * DOT, "stroke-linecap": "round" }));
    }
    const many = points.length > FAINT_ABOVE;
    return svg("path", { d: dots(points, place), class: color(rank), fill: "none", stroke: "currentColor", "stroke-width": many ? DOT : 1.8 * DOT, "stroke-linecap": "round", "stroke-opacity": many ? 0.4 : 0.75 });
  }

  /* One path of dots of no length: thousands of circles would be slow. */
  const dots = (points, place) => points.map(([x, y]) => `M${place.x(x)} ${place.y(y)}h0`).join("");

  function bars(chart, points, k, name, place) {
    const step = place.x(1) - place.x(0), width = (0.78 * step) / chart.series.length;
    const d = points.map(([x, y]) => {
      const left = place.x(x) - 0.39 * step + k * width;
      return `M${round(left)} ${place.y(0)}V${place.y(y)}h${round(width)}V${place.y(0)}Z`;
    }).join("");
    return svg("path", { d, class: name, fill: "currentColor" });
  }

  // ---- the numbers

  function table(chart) {
    const body = make("tbody");
    const wanted = Math.max(1, Math.floor(MAX_TABLE_ROWS / chart.series.length));
    let thinned = false;
    for (const one of chart.series) {
      const step = Math.max(1, Math.ceil(one.x.length / wanted));
      thinned = thinned || step > 1;
      for (let i = 0; i < one.x.length; i += step) {
        body.append(make("tr", {}, make("th", { scope: "row", text: one.name }), make("td", { text: PageData.number(one.x[i]) }), make("td", { text: PageData.number(one.y[i]) })));
      }
    }
    const head = make("tr", {}, ...["series", chart.x_label, chart.y_label].map((text) => make("th", { scope: "col", text })));
    return make("details", { class: "numbers" }, make("summary", { text: thinned ? "Some of the numbers" : "The numbers" }),
      make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": `Numbers of ${chart.title}` }, make("table", {}, make("thead", {}, head), body)));
  }

  return { show };
})();
