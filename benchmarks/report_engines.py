"""The scatter engine of the report beside others that could be inlined into a page: bytes, and CPU time per frame.

    python benchmarks/report_engines.py [--npm FOLDER] [--bokeh PYTHON] [--sizes 10000 100000 500000]

``--npm`` is a folder in which ``npm install regl-scatterplot regl pub-sub-es deck.gl plotly.js-dist-min esbuild`` was
run; ``--bokeh`` is a Python that has bokeh. What is not given is left out. Each engine draws the same ten clusters on
800 x 600 pixels in a headless Chromium and is moved by a real mouse: drag, wheel, hover, brush. The time is that of
all processes of the browser, drawing included, because this machine has no graphics card: what takes a card a
millisecond takes a processor here a hundred. Compare the rows of the table with each other, not with a screen.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

import manifoldry
from tables import Table

WIDTH, HEIGHT = 800, 600
HERE = Path(__file__).resolve().parent
ASSETS = Path(manifoldry.__file__).parent / "report" / "assets"
ENGINE = ("camera", "rows", "look", "fallback", "painter", "picking", "overlay", "gestures", "scatter")
ARGUMENTS = (
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--no-first-run",
)
STEPS = 6
"""Frames per measurement: enough to tell them from the idle processes, few enough for the slowest engine."""

QUIET = 30.0
"""CPU milliseconds in a quarter of a second below which a browser has drawn what it was asked for."""

PATIENCE = 60.0
"""Seconds after which the measurements of an engine that are still to come are left out."""

KINDS = ("first", "pan", "zoom", "hover", "recolor", "brush")
BY_HAND = ("pan", "zoom", "hover", "brush")
"""Kinds whose script is started by the mouse; the browser does not count script that this program starts."""

SIDES = {"manifoldry": "yes", "regl-scatterplot": "no", "deck.gl": "yes", "Bokeh": "no", "plotly.js": "yes"}
"""Whether the same engine draws three dimensions."""

BOKEH_PAGE = """
from bokeh.embed import file_html
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure
from bokeh.resources import INLINE
source = ColumnDataSource({"x": [0.0], "y": [0.0], "color": ["#000000"]}, name="source")
plot = figure(width=800, height=600, name="figure", output_backend="webgl", toolbar_location=None, min_border=0,
    tools="pan,wheel_zoom,box_select,hover", active_scroll="wheel_zoom", x_range=(-1.3, 1.3), y_range=(-1, 1))
plot.scatter("x", "y", color="color", size=2, alpha=0.5, source=source)
print(file_html(plot, INLINE, "b"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npm", type=Path, help="folder with node_modules")
    parser.add_argument("--bokeh", help="Python that has bokeh")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 500_000])
    options = parser.parse_args()
    whole = (
        "Scatter engines in one HTML page: kilobytes of code in the page, and CPU milliseconds of all browser "
        "processes with OpenGL in software (no graphics card): until the first picture, and per frame (mean of "
        f"{STEPS}) of a drag, a wheel step, a pointer's move over the points, and a change of all colors; brush: a "
        "rectangle (regl-scatterplot: a lasso) over half of the picture, from press to told rows. Empty: the engine "
        "has no brush, or took too long."
    )
    part = "Of these, milliseconds of JavaScript on the page's own thread, which a graphics card does not take over."
    columns = {"points": ",d", "engine": ""}
    head = {**columns, "code kB": ".0f", "3-D": ""}
    table = Table("report_engines", whole, {**head, **dict.fromkeys(KINDS, ".0f")}, ("playwright",))
    scripts = Table("report_engines_script", part, {**columns, **dict.fromkeys(BY_HAND, ".1f")}, ("playwright",))
    pages = engine_pages(options.npm, options.bokeh)
    with sync_playwright() as playwright:
        for count, (name, source) in itertools.product(options.sizes, pages.items()):
            browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
            times = measure(browser, name, source, count)
            browser.close()
            row = {"points": count, "engine": name}
            code = {"code_kB": len(source) / 1000, "3-D": SIDES[name]}
            table.add(**row, **code, **{kind: spent[0] for kind, spent in times.items()})
            scripts.add(**row, **{kind: spent[1] for kind, spent in times.items() if kind in BY_HAND})


def chromium() -> str | None:
    """Return the system's Chromium; None leaves the choice to Playwright."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium")


def engine_pages(npm: Path | None, bokeh: str | None) -> dict[str, str]:
    """Return the page of each engine that is at hand, its code inlined."""
    pages = {"manifoldry": script("\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in ENGINE))}
    if npm:
        modules = npm / "node_modules"
        command = [modules / ".bin" / "esbuild", modules / "regl-scatterplot" / "dist" / "regl-scatterplot.esm.js"]
        command += ["--bundle", "--minify", "--format=iife", "--global-name=ReglScatterplot"]
        bundle = subprocess.run(command, capture_output=True, text=True, check=True, cwd=npm).stdout
        pages["regl-scatterplot"] = script(bundle)
        pages["deck.gl"] = script((modules / "deck.gl" / "dist.min.js").read_text(encoding="utf-8"))
        pages["plotly.js"] = script((modules / "plotly.js-dist-min" / "plotly.min.js").read_text(encoding="utf-8"))
    if bokeh:
        done = subprocess.run([bokeh, "-c", BOKEH_PAGE], capture_output=True, text=True, check=True)
        pages["Bokeh"] = done.stdout
    return pages


def script(code: str) -> str:
    escaped = code.replace("</script", "<\\/script")
    return f"<!doctype html><body style='margin:0'></body><script>{escaped}</script>"


class Meter:
    """Measures CPU milliseconds of all processes of a browser, and milliseconds of script on a page's own thread."""

    def __init__(self, browser: Browser, page: Page) -> None:
        self.page = page
        self.whole, self.part = browser.new_browser_cdp_session(), page.context.new_cdp_session(page)
        self.part.send("Performance.enable")

    def now(self) -> np.ndarray:
        """Return both since the browser was opened."""
        processes = self.whole.send("SystemInfo.getProcessInfo")["processInfo"]
        metrics = {found["name"]: found["value"] for found in self.part.send("Performance.getMetrics")["metrics"]}
        return 1000 * np.array([sum(process["cpuTime"] for process in processes), metrics["ScriptDuration"]])

    def spent(self, work: Callable[[], object]) -> np.ndarray:
        """Return both for a piece of work and what it leaves to be drawn."""
        before = self.now()
        work()
        end, done, last = time.monotonic() + PATIENCE / 2, before, before - QUIET
        while (done - last)[0] >= QUIET and time.monotonic() < end:
            self.page.wait_for_timeout(250)
            last, done = done, self.now()
        return done - before


def measure(browser: Browser, name: str, source: str, count: int) -> dict[str, np.ndarray]:
    """Return what an engine spends by kind of frame, as far as its time allows."""
    end = time.monotonic() + PATIENCE
    page = browser.new_context(offline=True, viewport={"width": WIDTH + 20, "height": HEIGHT + 20}).new_page()
    page.set_content(source)
    page.add_script_tag(path=HERE / "report_engines.js")
    page.evaluate("(count) => { window.data = clusters(count); }", count)
    page.evaluate(f"window.engine = ENGINES[{name!r}]; 0")
    page.wait_for_timeout(500)
    spent = Meter(browser, page).spent
    moves = [(300 + 20 * k, 250 + 16 * k) for k in range(STEPS)]
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "first": lambda: spent(lambda: page.evaluate("Promise.resolve(engine.begin(data)).then(frame).then(frame)")),
        "pan": lambda: spent(lambda: held(page, moves)) / STEPS,
        "zoom": lambda: spent(lambda: wheel(page)) / STEPS,
        "hover": lambda: spent(lambda: drag(page, moves)) / STEPS,
        "recolor": lambda: spent(lambda: recolor(page)) / 2,
    }
    times = {kind: timed() for kind, timed in kinds.items() if time.monotonic() < end}
    if time.monotonic() < end and page.evaluate("Boolean(engine.brushing)"):
        page.evaluate("Promise.resolve(engine.brushing(true)).then(frame)")
        times["brush"] = spent(lambda: brush(page, name))
    return times


def held(page: Page, moves: list[tuple[int, int]]) -> None:
    page.mouse.move(*moves[0])
    page.mouse.down()
    drag(page, moves[1:])
    page.mouse.up()


def drag(page: Page, moves: list[tuple[int, int]]) -> None:
    for place in moves:
        page.mouse.move(*place)
        page.evaluate("frame()")


def wheel(page: Page) -> None:
    for k in range(STEPS):
        page.mouse.wheel(0, -60 if k % 2 else 60)
        page.evaluate("frame()")


def recolor(page: Page) -> None:
    for shift in (1, 2):
        page.evaluate("(k) => Promise.resolve(engine.recolor(data.labels, k)).then(frame).then(frame)", shift)


def brush(page: Page, name: str) -> None:
    """Draw around half of the picture: a lasso where there is no rectangle."""
    corners = [(200 + 40 * k, 150 + 30 * k) for k in range(8)]
    if name == "regl-scatterplot":
        corners = [(200, 150), (400, 150), (600, 150), (600, 300), (600, 450), (400, 450), (200, 450), (200, 160)]
    page.evaluate("window.count = 0")
    held(page, corners)
    page.wait_for_function("window.count > 0", timeout=60_000)


if __name__ == "__main__":
    main()
