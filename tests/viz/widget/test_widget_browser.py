"""The widget in a real browser: the state of a widget in Python, and a model as in a notebook."""

import base64

import numpy as np
import pytest
from ipywidgets.widgets.widget import _put_buffers, _remove_buffers

from browser import Pages
from manifoldry import PCA, Isomap
from scatter_panels import decoded

SCRIPT = """
const decode = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const encode = (view) => btoa(String.fromCharCode(...new Uint8Array(view.buffer)));
const frames = (count = 3) => new Promise((done) => {
  const next = () => (count-- > 0 ? requestAnimationFrame(next) : done());
  next();
});
class Model { // as anywidget gives it to a module
  constructor() { this.state = {}; this.listeners = new Map(); this.messages = []; this.saved = 0; }
  get(name) { return this.state[name]; }
  set(name, value) { this.update({ [name]: value }); }
  update(state) {
    Object.assign(this.state, state);
    for (const name of Object.keys(state)) this.emit(`change:${name}`);
  }
  emit(event, ...values) { for (const act of this.listeners.get(event) ?? []) act(...values); }
  on(event, act) { this.listeners.set(event, [...(this.listeners.get(event) ?? []), act]); }
  off(event, act) { this.listeners.set(event, (this.listeners.get(event) ?? []).filter((each) => each !== act)); }
  save_changes() { this.saved++; }
  send(content) { this.messages.push(content); }
}
const model = new Model();
function receive([state, paths, buffers]) { // a message of the kernel
  paths.forEach((path, k) => {
    const last = path[path.length - 1];
    path.slice(0, -1).reduce((value, key) => value[key], state)[last] = decode(buffers[k]);
  });
  model.update(state);
}
let drop;
async function start(source) {
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  drop = module.default.render({ model, el: document.querySelector("#output") });
}
const shadow = () => document.querySelector("#output").firstElementChild.shadowRoot;
"""
STYLE = "body {margin: 0; color: #222; background: white} body.dark {color: #ddd; background: #111}"
N = 90


class Notebook:
    """A widget of Python and its view in a page, joined as by a kernel."""

    def __init__(self, page, widget):
        self.page, self.widget = page, widget
        self.sync()
        page.evaluate("start", widget._esm)
        self.settle()

    def sync(self, *names):
        state, paths, buffers = _remove_buffers(self.widget.get_state(names or None))
        self.page.evaluate("receive", [state, paths, [base64.b64encode(each).decode() for each in buffers]])
        self.settle()

    def settle(self):
        self.page.evaluate("frames()")

    def save(self):
        """Send the selection of the browser to the widget, as bytes."""
        data = base64.b64decode(self.page.evaluate('encode(model.get("selection"))'))
        state = {"selection": None}
        _put_buffers(state, [["selection"]], [memoryview(data)])
        self.widget.set_state(state)

    def run(self, code):
        return self.page.evaluate(f"shadow().{code}")

    def canvas(self, k=0):
        return self.page.locator("#output canvas").nth(k).bounding_box()

    def colors(self, k=0):
        """Return the share of the pixels of a panel that are neither background nor gray."""
        pixels = decoded(self.run(f"querySelectorAll('canvas')[{k}].toDataURL()"))
        return float(np.mean(np.ptp(pixels, axis=2) > 60))


def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3))
    X[:, 0] += 12.0 * (np.arange(N) % 3)
    return X


@pytest.fixture
def notebook(chromium, tmp_path):
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><style>{STYLE}</style><div id=output></div><script>{SCRIPT}</script>", encoding="utf-8"
    )
    pages, X = Pages(chromium), data()
    widget = PCA().fit(X).explore(X, labels=np.array(["a", "b", "c"])[np.arange(N) % 3])
    yield Notebook(pages.open(tmp_path / "notebook.html", width=900, height=900), widget)
    pages.close()


def test_a_lasso_around_a_cluster_sets_the_selection(notebook):
    box, widget = notebook.canvas(), notebook.widget
    assert notebook.run("querySelector('.panel h2').textContent") == "PCA"
    legend = notebook.run("querySelector('.legend').textContent")
    assert legend == "labelsa30b30c30"
    notebook.page.locator("#output button[value=lasso]").click()
    # The clusters are 12 apart along the first axis, which fills 94 % of the width: the left third holds one of them.
    third = box["width"] / 3
    path = [(2, 2), (third, 2), (third, box["height"] - 2), (2, box["height"] - 2)]
    notebook.page.mouse.move(box["x"] + path[0][0], box["y"] + path[0][1])
    notebook.page.mouse.down()
    for x, y in path[1:]:
        notebook.page.mouse.move(box["x"] + x, box["y"] + y, steps=4)
    notebook.page.mouse.up()
    notebook.settle()
    notebook.save()
    first = PCA().fit(data()).embedding_[:, 0]
    cluster = np.flatnonzero(np.arange(N) % 3 == (0 if first[0] < first[2] else 2))
    assert widget.selection.tolist() == cluster.tolist()
    assert notebook.page.evaluate("model.saved") == 1
    assert notebook.run("querySelector('.count').textContent") == "30 selected"


def test_a_selection_of_python_fades_the_other_points(notebook):
    before = notebook.colors()
    notebook.widget.selection = [4, 7]
    notebook.sync("selection")
    assert notebook.run("querySelector('.count').textContent") == "2 selected"
    assert 0 < notebook.colors() < before / 5  # two of 90 points keep their color
    notebook.widget.selection = None
    notebook.sync("selection")
    assert notebook.colors() == before
    assert notebook.page.evaluate("model.saved") == 0  # nothing is sent back


def test_legend_entries_select_and_shift_adds(notebook):
    entries = notebook.page.locator("#output .legend button")
    entries.nth(0).click()
    notebook.save()
    assert notebook.widget.selection.tolist() == list(range(0, N, 3))
    entries.nth(1).click(modifiers=["Shift"])
    notebook.save()
    assert notebook.widget.selection.tolist() == [i for i in range(N) if i % 3 < 2]
    entries.nth(0).click(modifiers=["Alt"])
    notebook.save()
    assert notebook.widget.selection.tolist() == list(range(1, N, 3))
    notebook.page.locator("#output button:text('Clear')").click()
    notebook.save()
    assert notebook.widget.selection.tolist() == []


def test_colors_and_panels_follow_python(notebook):
    widget = notebook.widget
    widget.method = [Isomap().fit(data()), "PCA"]
    widget.selection = [0]
    notebook.sync()
    assert notebook.page.locator("#output .panel h2").all_inner_texts() == ["Isomap", "PCA"]
    assert notebook.run("querySelector('.count').textContent") == "1 selected"
    widget.color = "reliability"
    notebook.sync("_coloring")
    assert notebook.run("querySelector('select').value") == "reliability"
    counts = notebook.page.locator("#output .panel .legend").all_inner_texts()
    verdicts = [widget._verdicts[name] for name in ("Isomap", "PCA")]
    for text, verdict in zip(counts, verdicts, strict=True):
        names = ("trustworthy", "undecided", "dubious")
        expected = [f"{name} {np.sum(verdict == name)}" for name in names if np.any(verdict == name)]
        assert " ".join(text.split()).removeprefix("reliability ") == " ".join(expected)
    widget.color = np.linspace(-1, 2, N)
    notebook.sync("_colors", "_coloring")
    assert "color" in notebook.run("querySelector('.legend').textContent")
    assert notebook.page.locator("#output select option").all_inner_texts() == [
        "one color",
        "labels",
        "color",
        "reliability",
    ]


def test_a_color_chosen_in_the_browser_is_requested_and_errors_are_shown(notebook):
    select = notebook.page.locator("#output select")
    select.select_option("reliability")
    assert notebook.page.evaluate("model.messages") == [{"color": "reliability"}]
    assert select.input_value() == "labels"  # what is shown, until the kernel answers
    notebook.widget._on_message(None, {"color": "reliability"}, [])
    notebook.sync("_coloring")
    assert select.input_value() == "reliability"
    assert not notebook.page.locator("#output [role=status]").is_visible()
    sent = []
    notebook.widget.send = sent.append
    notebook.widget._on_message(None, {"color": "nowhere"}, [])
    notebook.page.evaluate('(message) => model.emit("msg:custom", message)', sent[0])
    assert notebook.page.inner_text("#output [role=status]").startswith("color must be one of 'labels', 'reliability'")
    assert select.input_value() == "reliability"


def test_a_closed_kernel_loses_nothing_and_is_reported(notebook):
    notebook.page.clock.install()
    notebook.page.locator("#output select").select_option("")
    notebook.page.clock.run_for(5100)
    assert notebook.page.inner_text("#output [role=status]") == "The kernel has not answered: it is busy or closed."
    assert notebook.page.locator("#output select").input_value() == "labels"
    notebook.page.locator("#output .legend button").nth(2).click()
    assert notebook.run("querySelector('.count').textContent") == "30 selected"


def test_the_panels_are_dark_where_the_notebook_is(notebook):
    corner = """() => { const c = shadow().querySelector("canvas");
      return Array.from(c.getContext("2d").getImageData(1, 1, 1, 1).data.slice(0, 3)); }"""
    assert min(notebook.page.evaluate(corner)) == 255
    notebook.page.evaluate("document.body.className = 'dark'")
    notebook.settle()
    assert max(notebook.page.evaluate(corner)) < 60


def test_two_views_share_a_selection_and_a_removed_one_leaves_nothing(notebook):
    notebook.page.evaluate("document.body.append(Object.assign(document.createElement('div'), {id: 'second'}))")
    notebook.page.evaluate(
        """async (source) => {
        const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
        window.drop2 = module.default.render({ model, el: document.querySelector("#second") });
      }""",
        notebook.widget._esm,
    )
    notebook.page.locator("#output .legend button").nth(0).click()
    notebook.settle()
    assert notebook.page.inner_text("#second .count") == "30 selected"
    notebook.page.evaluate("drop()")
    assert notebook.page.evaluate("document.querySelector('#output').childElementCount") == 0
    notebook.page.locator("#second .legend button").nth(1).click()
    notebook.save()
    assert notebook.widget.selection.tolist() == list(range(1, N, 3))
    notebook.page.evaluate("drop2()")
    assert notebook.page.evaluate("[...model.listeners.values()].flat().length") == 0


def test_keys_in_a_panel_are_no_commands_of_the_notebook(notebook):
    notebook.page.locator("#output canvas").first.focus()
    notebook.page.keyboard.press("l")
    assert notebook.run("querySelector('button[value=lasso]').getAttribute('aria-pressed')") == "true"
    assert notebook.page.evaluate("document.activeElement.closest('[data-lm-suppress-shortcuts]') !== null")
