"""A page with scatter panels for the tests of the engine: made by script, without a report around them."""

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

import manifoldry

ASSETS = Path(manifoldry.__file__).parent / "viz" / "_report" / "assets"
ENGINE = ("camera", "rows", "look", "fallback", "painter", "picking", "labels", "overlay", "gestures", "scatter")
"""Files of the engine in the order in which a page needs them."""

SCRIPT = """
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const frames = (count = 2) => new Promise((done) => {
  const next = () => (count-- > 0 ? requestAnimationFrame(next) : done());
  next();
});
const rest = () => new Promise((done) => setTimeout(done, 180));
function make(width, height, points, options) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas.style, {width: width + "px", height: height + "px", outline: "none"});
  document.body.append(canvas);
  const panel = new Scatter(canvas, {points: new Float32Array(decode(points).buffer), ...options});
  panel.onSelect = (mask, event, final) => {
    window.selected = {rows: mask && Array.from(mask.keys()).filter((i) => mask[i]), final};
  };
  panel.onHover = (...hovered) => (window.hovered = hovered);
  return panel;
}
function clean() {
  for (const panel of window.panels ?? []) panel.destroy();
  document.body.replaceChildren();
  window.selected = window.hovered = undefined;
  window.panels = [];
}
"""


def page_source():
    """Return a page with the engine and the functions above."""
    code = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in ENGINE)
    style = "body {margin: 0} canvas {display: block}"
    return f"<!doctype html><style>{style}</style><body></body><script>{code}\n{SCRIPT}</script>"


class Panel:
    """One scatter panel in a browser's page, asked and moved by its methods; the first of a test is at (0, 0)."""

    def __init__(self, page, points, *, size=(400, 300), colors=None, **options):
        self.page = page
        self.points = np.ascontiguousarray(points, dtype=np.float32)
        self.size = size
        options = {"dimension": self.points.shape[1], **options}
        self.number = page.evaluate(
            "([w, h, points, options]) => panels.push(make(w, h, points, options)) - 1",
            [*size, encoded(self.points), options],
        )
        if colors is not None:
            self.set_colors(colors)
        page.evaluate("frames()")

    def run(self, code, argument=None):
        """Evaluate an expression of ``p`` (the panel) and ``a`` (the argument)."""
        return self.page.evaluate(f"([k, a]) => {{ const p = panels[k]; return {code}; }}", [self.number, argument])

    def settle(self):
        """Wait until what was asked for has been drawn and the pointer is listened to again."""
        self.page.evaluate("frames().then(rest)")

    def set_colors(self, colors):
        self.run("p.setColors(decode(a))", encoded(np.asarray(colors, dtype=np.uint8)))

    def select(self, rows):
        mask = np.zeros(len(self.points), dtype=np.uint8)
        mask[rows] = 1
        self.run("p.setSelection(decode(a))", encoded(mask))

    def positions(self):
        return np.array(self.run("Array.from({length: p.rows.count}, (_, i) => p.positionOf(i))"), dtype=float)

    def picture(self):
        """Return the pixels of the printed picture at one pixel per CSS pixel."""
        return decoded(self.run("p.toDataURL({scale: 1})"))

    def seen(self):
        """Return the pixels on the panel's own canvas."""
        return decoded(self.run("p.canvas.toDataURL()"))

    def drag(self, path, keys=()):
        """Move the mouse along a path with the button down, keys held."""
        mouse = self.page.mouse
        for key in keys:
            self.page.keyboard.down(key)
        mouse.move(*path[0])
        mouse.down()
        for place in path[1:]:
            mouse.move(*place)
        mouse.up()
        for key in keys:
            self.page.keyboard.up(key)

    def selected(self):
        """Return the rows of the last selection that the panel told, or None."""
        return self.page.evaluate("window.selected.rows")


def encoded(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def decoded(url):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")).astype(int)
