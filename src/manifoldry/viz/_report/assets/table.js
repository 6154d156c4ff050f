"use strict";
/* Rows in words: the card at the pointer, the table of the selected rows, and their file. */

const Rows = (() => {
  const { make } = Dom;
  const MAX_SHOWN = 200; // rows of the table; the file has all of them
  const MAX_CARD_LINES = 12;
  const PICTURE = 96, SMALL_PICTURE = 40; // CSS pixels of a thumbnail

  function picture(data, index, size) {
    const { height, width, channels, pixels } = data.thumbnails;
    const canvas = make("canvas", { width, height, class: "thumbnail" });
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    const from = index * height * width * channels;
    for (let i = 0; i < height * width; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[from + i * channels + (channels === 1 ? 0 : c)];
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    const scale = size / Math.max(width, height);
    canvas.style.width = `${Math.round(width * scale)}px`;
    canvas.style.height = `${Math.round(height * scale)}px`;
    return canvas;
  }

  function lines(data, panel, index) {
    const found = data.columns.map((column) => [column.name, column.text(index)]);
    for (const color of panel ? panel.colors : []) found.push([color.name, color.text(index)]);
    return found.filter(([, text]) => text !== "");
  }

  /* Show the card of a row beside a place in the window. */
  function card(element, data, panel, index, x, y) {
    const list = make("dl");
    const all = lines(data, panel, index);
    for (const [name, text] of all.slice(0, MAX_CARD_LINES)) list.append(make("dt", { text: name }), make("dd", { text }));
    const more = all.length > MAX_CARD_LINES ? make("p", { text: `and ${all.length - MAX_CARD_LINES} more` }) : null;
    element.replaceChildren(
      ...[data.thumbnails && picture(data, index, PICTURE),
        make("div", {}, make("p", { class: "card-id", text: `${data.ids.name} ${data.ids.text(index)}` }), list, more)].filter(Boolean));
    element.hidden = false;
    const { width, height } = element.getBoundingClientRect(), gap = 14;
    const left = x + gap + width > innerWidth ? x - gap - width : x + gap;
    const top = Math.min(y + gap, innerHeight - height - 4);
    element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  /* Indices of the selected rows, at most `limit`. */
  function chosen(mask, limit = Infinity) {
    const found = [];
    for (let i = 0; mask && i < mask.length && found.length < limit; i++) if (mask[i]) found.push(i);
    return found;
  }

  function table(element, data, mask) {
    const head = make("tr", {}, data.thumbnails && make("th", { scope: "col", text: "picture" }), make("th", { scope: "col", text: data.ids.name }),
      ...data.columns.map((column) => make("th", { scope: "col", class: column.kind, text: column.name })));
    const body = make("tbody");
    for (const i of chosen(mask, MAX_SHOWN)) {
      body.append(make("tr", {},
        data.thumbnails && make("td", {}, picture(data, i, SMALL_PICTURE)),
        make("th", { scope: "row", text: data.ids.text(i) }),
        ...data.columns.map((column) => make("td", { class: column.kind, text: column.text(i) }))));
    }
    element.replaceChildren(make("thead", {}, head), body);
  }

  /* A field of a CSV file: quoted where it must be. */
  function field(text) {
    return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  /* The selected rows with their columns, places and colors in every panel. */
  function csv(data, mask) {
    const readers = [[data.ids.name, data.ids.text], ...data.columns.map((column) => [column.name, column.exact])];
    for (const panel of data.panels) {
      for (let d = 0; d < panel.dimension; d++) {
        readers.push([`${panel.name} ${d + 1}`, (i) => place(panel, i, d)]);
      }
      for (const color of panel.colors) readers.push([`${panel.name} ${color.name}`, color.exact]);
    }
    const rows = [readers.map(([name]) => field(name)).join(",")];
    for (const i of chosen(mask)) rows.push(readers.map(([, read]) => field(read(i))).join(","));
    return `${rows.join("\r\n")}\r\n`;
  }

  /* A coordinate in the embedding's own units, to the digits that the page holds. */
  function place(panel, i, d) {
    const value = panel.points[i * panel.dimension + d] * panel.scale + panel.center[d];
    return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "";
  }

  return { card, table, csv, chosen, MAX_SHOWN };
})();
