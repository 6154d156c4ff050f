/* The controls of the live page: choose a method, embed again, stop, remove panels, save the selected rows. */

const POLL_MILLISECONDS = 300;
const FIRST_FIELDS = ["n_neighbors", "perplexity"]; // the most used parameters; the others are folded

class LiveControls {
  constructor(slot, choices) {
    this.choices = new Map(choices.map((choice) => [choice.name, choice]));
    this.version = null;
    this.fields = new Map();
    this.method = Dom.make("select", { id: "live-method" });
    for (const [family, methods] of LiveControls.byFamily(choices)) {
      const group = Dom.make("optgroup", { label: family });
      for (const each of methods) group.append(Dom.make("option", { value: each.name, text: each.name, title: each.use_when }));
      this.method.append(group);
    }
    this.dimension = Dom.make("select", { id: "live-dimension" }, ...["2", "3"].map((d) => Dom.make("option", { value: d, text: d })));
    this.common = Dom.make("span", { class: "toolbar" });
    this.more = Dom.make("div", { class: "toolbar" });
    this.folded = Dom.make("details", {}, Dom.make("summary", { text: "More parameters" }), this.more);
    this.advice = Dom.make("p", { class: "meaning" });
    this.start = Dom.make("button", { type: "submit", class: "primary", text: "Embed" });
    this.halt = Dom.make("button", { type: "button", text: "Stop", disabled: true, title: "Stop with the current result" });
    this.save = Dom.make("button", { type: "button", text: "Save selected rows", disabled: true });
    this.bar = Dom.make("progress", { max: 1, hidden: true });
    this.told = Dom.make("output", { id: "live-told" });
    this.panels = Dom.make("div", { class: "toolbar" });
    this.form = Dom.make("form", {},
      Dom.make("div", { class: "toolbar" },
        this.field("Method", this.method), this.field("Dimensions", this.dimension), this.common, this.start, this.halt, this.save),
      this.advice, this.folded, Dom.make("div", { class: "toolbar" }, this.bar, this.told), this.panels);
    slot.replaceChildren(this.form);
    slot.hidden = false;
    this.listen();
    this.method.value = this.choices.has("UMAP") ? "UMAP" : choices[0].name;
    this.showParameters();
  }

  static byFamily(choices) {
    const families = new Map();
    for (const each of choices) families.set(each.family, [...(families.get(each.family) ?? []), each]);
    return families;
  }

  field(label, control, title = "") {
    return Dom.make("label", { class: "field", title }, document.createTextNode(`${label} `), control);
  }

  listen() {
    this.method.addEventListener("change", () => this.showParameters());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.embed(); });
    this.halt.addEventListener("click", () => this.ask("stop", {}));
    this.save.addEventListener("click", () => this.saveSelected());
    window.Report.onSelection = (mask, count) => {
      this.mask = mask;
      this.save.disabled = !count;
    };
  }

  showParameters() {
    const choice = this.choices.get(this.method.value);
    this.fields.clear();
    const drawn = choice.parameters.map((each) => [each.name, this.parameterField(each)]);
    const first = new Set(FIRST_FIELDS);
    this.common.replaceChildren(...drawn.filter(([name]) => first.has(name)).map(([, field]) => field));
    this.more.replaceChildren(...drawn.filter(([name]) => !first.has(name)).map(([, field]) => field));
    this.folded.hidden = !this.more.children.length;
    this.advice.textContent = `${choice.name}: use when ${choice.use_when}`;
  }

  parameterField(parameter) {
    const control = parameter.choices.length
      ? Dom.make("select", {}, ...parameter.choices.map((value) => Dom.make("option", { value, text: value })))
      : Dom.make("input", { type: "text", size: 8, placeholder: parameter.default, autocomplete: "off" });
    if (parameter.choices.length) control.value = parameter.default;
    control.id = `live-${parameter.name}`;
    this.fields.set(parameter.name, control);
    return this.field(parameter.name, control, `${parameter.text} (${parameter.allowed}; default: ${parameter.default})`);
  }

  async embed() {
    const parameters = {};
    for (const [name, control] of this.fields) if (control.value.trim()) parameters[name] = control.value.trim();
    const body = { method: this.method.value, n_components: Number(this.dimension.value), parameters };
    if (await this.ask("embed", body)) this.follow();
  }

  async saveSelected() {
    const rows = [];
    this.mask?.forEach((selected, row) => { if (selected) rows.push(row); });
    const saved = await this.ask("save", { rows });
    if (saved) this.tell(`${saved.rows.toLocaleString("en")} rows saved to ${saved.path}.`);
  }

  /* Send a request; show an error and return null if it fails. */
  async ask(what, body) {
    try {
      const answer = await fetch(what, body === undefined
        ? {}
        : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      const value = await answer.json();
      if (answer.ok) return value;
      this.tell(value.error);
    } catch {
      this.tell("The server of this page has stopped; start manifoldry explore again.");
    }
    return null;
  }

  tell(sentence) {
    this.told.textContent = sentence;
    window.Report.say(sentence);
  }

  /* Poll the progress until the embedding is done, then show it. */
  async follow() {
    for (;;) {
      const now = await this.ask("progress");
      if (now === null) { this.rest(); return; }
      this.show(now);
      if (now.version !== this.version) await this.reload();
      if (!now.running) { this.ended(now); return; }
      await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
    }
  }

  show(now) {
    this.start.disabled = now.running;
    this.halt.disabled = !now.running;
    this.bar.hidden = !now.running;
    if (!now.running) return;
    if (now.total) {
      this.bar.value = now.done / now.total;
      const left = now.done ? `, about ${Math.ceil(this.secondsLeft(now))} s left in this stage` : "";
      this.told.textContent = `${now.stage}: ${now.done.toLocaleString("en")} of ${now.total.toLocaleString("en")}${left}`;
    } else {
      this.bar.removeAttribute("value");
      this.told.textContent = `${now.stage} (${now.seconds.toFixed(0)} s)`;
    }
  }

  secondsLeft(now) {
    if (this.stage !== now.stage || now.done < this.stageFrom.done) {
      this.stage = now.stage;
      this.stageFrom = { done: now.done, seconds: now.seconds };
    }
    const done = now.done - this.stageFrom.done;
    return done > 0 ? (now.seconds - this.stageFrom.seconds) / done * (now.total - now.done) : 0;
  }

  ended(now) {
    this.rest();
    if (now.error) this.tell(`${now.name}: ${now.error}`);
    else if (now.name) this.tell([`${now.name} done in ${now.seconds.toFixed(1)} s.`, ...now.remarks].join(" "));
    // PCA is always shown for comparison
    const others = now.panels.filter((name) => name !== "PCA");
    this.panels.replaceChildren(...others.map((name) => this.removal(name, now.panels.length)));
  }

  removal(name, count) {
    const remove = async () => { if (await this.ask("remove", { panel: name })) this.follow(); };
    return Dom.make("button", { type: "button", class: "quiet", text: `Remove ${name}`, disabled: count < 2, onclick: remove });
  }

  rest() {
    this.start.disabled = false;
    this.halt.disabled = true;
    this.bar.hidden = true;
  }

  async reload() {
    const payload = await this.ask("payload");
    if (payload === null) return;
    this.version = payload.version;
    await window.Report.load(payload);
  }
}

window.Report.ready.then(() => {
  document.querySelector("footer p").textContent = "Made with manifoldry. This page communicates only with its server on this machine.";
  const live = new LiveControls(document.getElementById("live"), LIVE_CHOICES);
  live.version = LIVE_VERSION;
  live.follow();
});
