"use strict";
/* Names written over the points: those of the label column at first, or of another column of few categories. */

class PointNames {
  constructor(page) {
    this.page = page;
    this.key = null; // "column:..." or "panel:cluster"; "" for no names, null before the first choice
    this.select = document.getElementById("names");
    this.select.addEventListener("change", () => this.use(this.select.value));
  }

  /* The columns with few categories, and the clusters of each panel. */
  keys() {
    const { columns, panels } = this.page.data;
    const few = columns.filter((c) => c.kind === "category" && c.categories.length && c.categories.length <= SCATTER_MOST_LABELS);
    const clusters = panels.some((panel) => panel.colors.some((c) => c.name === "cluster" && c.kind === "category"));
    return [...few.map((c) => `column:${c.name}`), ...(clusters ? ["panel:cluster"] : [])];
  }

  /* New contents: what was chosen before if it is still there, or the label column. */
  start() {
    const keys = this.keys(), label = `column:${this.page.meta.label}`;
    if (!["", ...keys].includes(this.key)) this.key = keys.includes(label) ? label : "";
    const texts = { "": "none", "panel:cluster": "clusters" };
    const option = (key) => Dom.make("option", { value: key, text: texts[key] ?? key.slice("column:".length) });
    this.select.replaceChildren(...["", ...keys].map(option));
    this.select.closest(".field").hidden = !keys.length;
    this.use(this.key);
  }

  use(key) {
    this.key = this.select.value = key;
    this.write();
  }

  /* Write the names over the rows that are shown. */
  write() {
    const { mask, only } = this.page.state, { steps } = this.page;
    const here = steps && steps.present[steps.index];
    const columns = this.page.chosenColumns(this.key);
    this.page.panels.forEach((panel, k) => {
      const { points, dimension } = panel.panel;
      const { values, categories = [] } = columns[k] ?? {};
      const some = values && ((only && mask) || here);
      const codes = some ? values.map((code, i) => ((!only || !mask || mask[i]) && (!here || here[i]) ? code : 0)) : values ?? [];
      const middles = scatterMiddles(points, dimension, codes, categories.length);
      panel.scatter.setLabels(categories.map((text, c) => ({ text, ...middles[c] })).filter(({ count }) => count));
    });
  }
}
