"use strict";
/* What the page shows, unpacked: blocks of base64 become typed arrays, columns answer for a row. */

const PageData = (() => {
  const TYPES = {
    uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
    int16: Int16Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
  };

  /* The payload that is written into the page itself. Its text is removed: the arrays replace it. */
  function embedded() {
    const meta = JSON.parse(document.getElementById("meta").textContent);
    const blocks = [];
    for (let i = 0, element; (element = document.getElementById(`b${i}`)); i++) {
      blocks.push(element.textContent);
      element.remove();
    }
    return { meta, blocks };
  }

  function bytesOf(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  async function unpack(base64, reference) {
    const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
    const response = new Response(stream);
    if (reference.dtype === "text") return response.json();
    // every processor that runs a browser today is little-endian, as the blocks are
    return new TYPES[reference.dtype](await response.arrayBuffer());
  }

  /* A function that unpacks a block once, whoever asks. */
  function unpacker(blocks) {
    const found = new Map();
    return (reference) => {
      if (!found.has(reference.block)) {
        found.set(reference.block, unpack(blocks[reference.block], reference));
        blocks[reference.block] = null;
      }
      return found.get(reference.block);
    };
  }

  /* A number to read: four digits, and no digit before the point is lost. */
  function number(value) {
    if (value === null || Number.isNaN(value)) return "";
    if (Number.isInteger(value)) return String(value);
    return String(Math.abs(value) >= 1000 ? Math.round(value * 10) / 10 : Number(value.toPrecision(4)));
  }

  /* A column with its values; `text(i)` for people, `exact(i)` for files. */
  async function column(entry, get) {
    const values = await get(entry.data);
    const texts = {
      number: (i) => number(values[i]),
      category: (i) => (values[i] ? entry.categories[values[i] - 1] : ""),
      text: (i) => values[i],
    };
    const exact = entry.kind === "number" ? (i) => (Number.isNaN(values[i]) ? "" : shortest(values, i)) : texts[entry.kind];
    return { ...entry, values, text: texts[entry.kind], exact };
  }

  /* A number of single precision in the fewest digits that name it: 0.1, not 0.10000000149. */
  function shortest(values, i) {
    if (!(values instanceof Float32Array)) return String(values[i]);
    for (let digits = 6; digits < 9; digits++) {
      const short = Number(values[i].toPrecision(digits));
      if (Math.fround(short) === values[i]) return String(short);
    }
    return String(values[i]);
  }

  async function identifiers(ids, get) {
    if (ids.kind === "range") return { name: ids.name, text: (i) => String(ids.start + i) };
    const values = await get(ids.data);
    return { name: ids.name, text: (i) => String(values[i]) };
  }

  async function read(payload) {
    const { meta, blocks } = payload;
    const get = unpacker(blocks);
    const panels = [];
    for (const panel of meta.panels) {
      const colors = await Promise.all(panel.colors.map((entry) => column(entry, get)));
      panels.push({ ...panel, points: await get(panel.data), colors });
    }
    const data = {
      meta,
      n: meta.n,
      panels,
      columns: await Promise.all(meta.columns.map((entry) => column(entry, get))),
      ids: await identifiers(meta.ids, get),
      thumbnails: null,
    };
    // pictures may be most of the file, and nobody sees one before the first hover
    if (meta.thumbnails) {
      get(meta.thumbnails.data).then((pixels) => { data.thumbnails = { ...meta.thumbnails, pixels }; });
    }
    return data;
  }

  return { embedded, read, column, number, TYPES };
})();
