"""The page in a real browser, offline: what a person sees and does, against the same computed by NumPy."""

import base64
import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from browser import Pages
from manifoldry.viz._report import page as pages_module
from manifoldry.viz._report.contents import Report, ReportPanel
from report_samples import KINDS, sample

NASTY = "</script><img src=x onerror='window.hacked=1'><b>bold</b>"


@pytest.fixture(scope="module")
def sample_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "sample.html"
    sample().save(path)
    return path


def ready(page):
    page.evaluate("Report.ready")
    settle(page)
    return page


def settle(page):
    """Wait until what changed has been drawn."""
    frame = "new Promise((done) => requestAnimationFrame(() => done()))"
    page.evaluate(f"{frame}.then(() => {frame})")


@pytest.fixture(scope="module")
def shared(chromium, sample_file):
    opened = Pages(chromium)
    yield ready(opened.open(sample_file, width=1000, height=600)), opened.problems
    opened.close()


@pytest.fixture
def page(shared):
    """The sample as it is at first; opening it for each test would take most of the time."""
    page, problems = shared
    page.mouse.move(1, 1)
    page.evaluate("""() => {
      Report.select(null); Report.mode("pan"); Report.colorBy("column:kind"); Report.names.use(""); scrollTo(0, 0);
      for (const panel of Report.panels) { panel.toggle(false); panel.scatter.resetView(); }
      document.activeElement.blur();
    }""")
    settle(page)
    yield page
    assert problems == []


def picture(page, k=0):
    """The pixels of a panel."""
    settle(page)
    address = page.evaluate(f"document.querySelectorAll('.view canvas')[{k}].toDataURL()")
    with Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def places(page, k, coordinates):
    """Where rows are drawn in a flat panel: by the affine map through three of them."""
    three = [0, 1, 2]
    seen = np.array(page.evaluate(f"{three}.map((i) => Report.panels[{k}].scatter.positionOf(i))"))
    known = np.c_[coordinates[three], np.ones(3)]
    return np.c_[coordinates, np.ones(len(coordinates))] @ np.linalg.solve(known, seen)


def box_of(page, k):
    """Where a panel is in the window, once it has been scrolled to."""
    page.evaluate(f"document.querySelectorAll('.view')[{k}].scrollIntoView({{ block: 'center' }})")
    return page.locator(".view canvas").nth(k).bounding_box()


def drag(page, k, start, end, modifier=None):
    box = box_of(page, k)
    start, end = [float(value) for value in start], [float(value) for value in end]
    page.mouse.move(box["x"] + start[0], box["y"] + start[1])
    if modifier:
        page.keyboard.down(modifier)
    page.mouse.down()
    page.mouse.move(box["x"] + (start[0] + end[0]) / 2, box["y"] + (start[1] + end[1]) / 2)
    page.mouse.move(box["x"] + end[0], box["y"] + end[1])
    page.mouse.up()
    if modifier:
        page.keyboard.up(modifier)
    settle(page)


def selected(page):
    return set(page.evaluate("Report.selectedIds()"))


def within(at, start, end):
    return np.all((at > start) & (at < end), axis=1)


def alone(at, radius=14):
    """Rows with no other row near their place on the screen."""
    apart = np.linalg.norm(at[:, None] - at[None], axis=2) + 1e9 * np.eye(len(at))
    return apart.min(axis=1) > radius


def test_it_draws_what_it_holds(page):
    assert page.title() == "A sample"
    assert page.evaluate("Report.panels[0].scatter.painter.constructor.name") == "ScatterGlPainter"  # not the fallback
    assert page.locator(".panel h2").all_inner_texts() == ["first", "second", "solid"]
    for k in range(3):
        colored = np.ptp(picture(page, k), axis=2) > 60
        assert 0.002 < colored.mean() < 0.5
    assert page.locator("#charts svg.plot").count() == 4  # lines, two facets of dots, bars
    for name in ("Curves", "Pairs: first", "Pairs: second", "Spectrum"):
        assert page.locator(f"svg.plot:has(title:text-is('{name}'))").count() == 1
    legend = page.locator("#legend button").all_inner_texts()
    assert [text.split()[:2] for text in legend] == [
        ["apple", "60"],
        ["cherry", "60"],
        ["damson", "60"],
        ["unknown", "60"],
    ]
    assert page.locator(".caption").all_inner_texts() == ["a caption"]


def test_a_brush_selects_the_same_rows_in_every_panel(page):
    report = sample()
    first, second = (report.panels[k].coordinates for k in (0, 1))
    before = picture(page, 1)
    page.click("#modes button[value=brush]")
    start, end = np.array([90, 60]), np.array([260, 230])
    drag(page, 0, start, end)
    inside = within(places(page, 0, first), start, end)
    assert 5 < inside.sum() < 150
    assert selected(page) == set(report.ids[inside])
    assert page.inner_text("#count") == f"{inside.sum()} selected"
    assert page.inner_text("#status") == f"{inside.sum()} of 240 rows selected."
    at, after = places(page, 1, second), picture(page, 1)
    kept, faded = (
        alone(at) & inside & (report.columns["kind"] != ""),
        alone(at) & ~inside & (report.columns["kind"] != ""),
    )
    assert kept.any()
    assert faded.any()

    def saturation(image, rows):
        x, y = at[rows].astype(int).T
        return np.ptp(image[y, x], axis=1).mean()

    assert saturation(after, kept) > 0.8 * saturation(before, kept)
    assert saturation(after, faded) < 0.5 * saturation(before, faded)
    rows = page.locator("#selected-table tbody tr")
    assert rows.locator("th").all_inner_texts() == report.ids[inside].tolist()

    more_start, more_end = np.array([20, 240]), np.array([200, 330])
    drag(page, 1, more_start, more_end, "Shift")
    more = within(at, more_start, more_end)
    assert selected(page) == set(report.ids[inside | more])
    drag(page, 1, more_start, more_end, "Alt")
    assert selected(page) == set(report.ids[inside & ~more])
    page.click("#clear")
    assert selected(page) == set()
    assert page.locator("#selected").is_hidden()


def test_the_downloaded_rows_are_the_selected_rows(page):
    report = sample()
    page.locator("#legend button").nth(1).click()
    chosen = np.flatnonzero(report.columns["kind"] == "cherry")
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "selected.csv"
    text = waiting.value.path().read_bytes().decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["name"] for row in rows] == report.ids[chosen].tolist()
    for name in ("kind", "said"):
        assert [row[name] for row in rows] == report.columns[name][chosen].tolist()
    amounts = np.array([float(row["amount"] or "nan") for row in rows])
    assert np.array_equal(amounts, report.columns["amount"][chosen], equal_nan=True)
    for panel in report.panels:
        values = np.array(
            [[float(row[f"{panel.name} {d + 1}"]) for d in range(panel.coordinates.shape[1])] for row in rows]
        )
        np.testing.assert_allclose(values, panel.coordinates[chosen], atol=2e-5)
    stretch = np.array([float(row["first stretch"]) for row in rows])
    assert np.array_equal(stretch, report.panels[0].colors["stretch"][chosen])


def test_colors_follow_the_choice_and_the_legend_says_how(page):
    by_kind = picture(page)
    assert page.locator("#palette").is_hidden()
    page.select_option("#color", "column:amount")
    by_amount = picture(page)
    assert np.abs(by_kind - by_amount).max() > 60
    amounts = sample().columns["amount"]
    low, high = np.nanquantile(amounts, [0.02, 0.98], method="nearest")
    ticks = [float(text) for text in page.locator("#legend .tick").all_inner_texts()]
    np.testing.assert_allclose(ticks, [low, high], rtol=0.01)
    assert "2 % to 98 % quantiles" in page.inner_text("#legend")
    page.select_option("#palette", "cividis")
    assert np.abs(picture(page) - by_amount).max() > 60
    page.select_option("#color", "panel:stretch")
    assert "below 0 squeezed, above 0 stretched" in page.inner_text("#legend")
    assert page.locator(".panel .legend:visible").all_inner_texts() == ["unknown for this panel"]
    assert page.input_value("#palette") == "blue–orange"
    page.select_option("#color", "panel:cluster")
    assert page.locator("#legend").is_hidden()
    assert len(page.locator(".panel").nth(1).locator(".legend button").all()) == 3
    page.locator(".panel").nth(1).locator(".legend button").nth(2).click()
    assert selected(page) == set(sample().ids[np.arange(240) % 3 == 2])


def test_hover_shows_the_row_its_picture_and_its_places(page):
    report = sample()
    at = places(page, 0, report.panels[0].coordinates)
    row = int(np.flatnonzero(alone(at, 16) & (np.arange(240) % 7 > 0))[0])
    box = box_of(page, 0)
    page.mouse.move(box["x"] + at[row, 0] + 2, box["y"] + at[row, 1] - 1)
    page.wait_for_selector("#card", state="visible")
    text = page.inner_text("#card")
    assert f"name {report.ids[row]}" in text
    assert f"{report.columns['amount'][row]:.4g}" in text
    assert "stretch" in text
    assert "cluster" not in text
    shown = page.evaluate("[...document.querySelector('#card canvas').getContext('2d').getImageData(0, 0, 5, 6).data]")
    assert np.array_equal(np.array(shown).reshape(6, 5, 4)[:, :, 0], report.thumbnails[row])
    assert page.evaluate("Report.panels.map((panel) => panel.scatter.hovered)") == [row] * 3
    page.mouse.move(box["x"] + box["width"] + 8, box["y"] - 8)
    page.wait_for_selector("#card", state="hidden")


def test_only_the_selected_rows_and_rows_by_name(page):
    report = sample()
    page.fill("#search", "R0018")
    page.press("#search", "Enter")
    assert selected(page) == {"r0018"}
    full = (np.ptp(picture(page), axis=2) > 12).sum()
    page.check("#only")
    assert 0 < (np.ptp(picture(page), axis=2) > 12).sum() < 0.1 * full
    page.fill("#search", "r001")
    page.press("#search", "Enter")
    assert selected(page) == set(report.ids[10:20])
    page.fill("#search", "nobody")
    page.press("#search", "Enter")
    assert page.inner_text("#status") == "No name contains “nobody”."
    page.locator("#search").blur()
    page.keyboard.press("Escape")
    assert selected(page) == set()
    assert not page.is_checked("#only")


def test_everything_is_done_by_keys(pages, sample_file):
    page = ready(pages.open(sample_file, width=800, height=500))

    def focused():
        return page.evaluate("document.activeElement.id || document.activeElement.tagName")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(focused())
        if reached.count("CANVAS") == 3:
            break
    assert {"theme", "color", "search", "size"} <= set(reached)
    assert reached.count("CANVAS") == 3
    page.locator(".view canvas").nth(0).focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for k, keys in ((0, ["ArrowLeft", "+", "-"]), (2, ["ArrowLeft", "ArrowUp"])):
        page.locator(".view canvas").nth(k).focus()
        view = f"JSON.stringify(Report.panels[{k}].scatter.getView())"
        start = page.evaluate(view)
        for key in keys:
            before = page.evaluate(view)
            page.keyboard.press(key)
            assert page.evaluate(view) != before, key
        page.keyboard.press("0")
        assert page.evaluate(view) == start
    for key, mode in (("b", "brush"), ("l", "lasso"), ("p", "pan")):
        page.keyboard.press(key)
        assert page.locator("#modes button[aria-pressed=true]").get_attribute("value") == mode
    page.locator("#legend button").nth(0).focus()
    page.keyboard.press("Enter")
    assert len(selected(page)) == 60
    page.locator(".view canvas").nth(1).focus()
    page.keyboard.press("Escape")
    assert selected(page) == set()


def test_verdicts_have_colors_that_mean_something(page):
    column = "{ categories: ['dubious', 'undecided', 'trustworthy'], values: [1, 2, 3] }"
    found = page.evaluate(
        f"(() => {{ const a = Colors.assign([{column}], false); return [a.order, [...a.colors]]; }})()"
    )
    assert found[0] == ["trustworthy", "undecided", "dubious"]
    assert dict(found[1]) == {"trustworthy": "#0072b2", "undecided": "#e69f00", "dubious": "#cc303c"}


def test_a_column_named_like_a_color_of_the_panels_keeps_its_own_scale(chromium, tmp_path):
    values = np.linspace(0, 1000, 240)
    sample(columns={"stretch": values}, label=None).save(tmp_path / "named.html")
    opened = Pages(chromium)
    page = ready(opened.open(tmp_path / "named.html"))
    said = []
    for color in ("column:stretch", "panel:stretch"):
        page.select_option("#color", color)
        settle(page)
        said.append(page.inner_text("#legend"))
    assert "squeezed" not in said[0]
    assert "979" in said[0]
    assert "squeezed" in said[1]
    opened.close()


def test_controls_of_different_panels_have_different_names(page):
    names = page.eval_on_selector_all(
        ".panel button.quiet", "found => found.map((one) => one.getAttribute('aria-label'))"
    )
    assert len(names) == len(set(names)) > 3


def test_a_solid_panel_turns_and_one_panel_can_be_large(page):
    before = picture(page, 2)
    page.locator(".view canvas").nth(2).focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert np.mean(np.abs(picture(page, 2) - before).max(axis=2) > 40) > 0.005
    narrow = page.locator(".view").nth(0).bounding_box()["width"]
    page.locator(".panel").nth(0).get_by_text("Enlarge").click()
    settle(page)
    assert page.locator(".view").nth(0).bounding_box()["width"] > 2 * narrow
    assert page.evaluate("document.querySelector('.view canvas').width") > 2 * narrow


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(pages, sample_file, scheme):
    page = ready(pages.open(sample_file, color_scheme=scheme, width=800, height=500))
    dark = scheme == "dark"
    assert (np.median(picture(page)) < 60) == dark
    ratios = page.evaluate("""() => {
      const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const light = (color) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
        const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
          .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const ground = (e) => {
        for (; e; e = e.parentElement) {
          const color = getComputedStyle(e).backgroundColor;
          if (!color.endsWith(", 0)")) return color;
        }
      };
      const found = {};
      const words = "h1, h2, p, th, td, td span, summary, button:not(:disabled), label, .best, .severity, .tick, small";
      for (const e of document.querySelectorAll(words)) {
        if (!e.checkVisibility()) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        found[e.tagName + "." + e.className] = Math.min(ratio, found[e.tagName + "." + e.className] ?? 99);
      }
      return found;
    }""")
    assert len(ratios) > 12
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}
    page.select_option("#theme", "light" if dark else "dark")
    assert (np.median(picture(page)) < 60) != dark


def test_a_phone_scrolls_down_only(pages, sample_file):
    page = ready(pages.open(sample_file, width=360, height=740, has_touch=True, is_mobile=True))
    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    lefts = {round(box["x"]) for box in (found.bounding_box() for found in page.locator(".panel").all())}
    assert len(lefts) == 1
    page.locator("#legend button").nth(0).tap()
    page.select_option("#color", "panel:stretch")
    for fold in page.locator("summary").all():
        fold.tap()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    long = "a_name_without_a_space_that_is_longer_than_a_phone_is_wide_" * 2
    panels = [ReportPanel(long, np.random.default_rng(0).normal(size=(240, 2)), caption=long, parameters={long: long})]
    columns = {long: np.array([long, "b"] * 120), f"{long} 2": np.arange(240.0)}
    other = sample(title=long, panels=panels, columns=columns, label=long, charts=(), id_name=long, notes=(long,))
    for color in (f"column:{long}", f"column:{long} 2"):
        page.evaluate("(payload) => Report.load(payload)", pages_module.payload(other))
        page.evaluate("(color) => Report.colorBy(color)", color)
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_on_paper_it_is_light_and_open(pages, sample_file, tmp_path):
    page = ready(pages.open(sample_file, color_scheme="dark", width=800, height=500))
    page.evaluate("""addEventListener("afterprint", () => { window.wasOpen = window.atPrint; });
      addEventListener("beforeprint", () => { window.atPrint = [document.querySelectorAll("details:not([open])").length,
        document.querySelectorAll("img.printed").length, document.documentElement.dataset.theme]; });""")
    data = page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert data.startswith(b"%PDF")
    assert data.count(b"/Subtype /Image") >= 3
    assert page.evaluate("window.wasOpen") == [0, 3, "light"]
    assert page.locator("img.printed").count() == 0
    assert page.locator("details[open]").count() == 0
    assert np.median(picture(page)) < 60


def test_text_from_files_is_inert(pages, tmp_path):
    n = 30
    texts = np.array([NASTY] * n)
    places = np.random.default_rng(0).normal(size=(n, 2))
    words = {"caption": NASTY, "reading": (NASTY,), "sentences": (NASTY,), "parameters": {NASTY: NASTY}}
    panel = ReportPanel(NASTY, places, **words, colors={NASTY: texts})
    finding = {"topic": NASTY, "sentence": NASTY, "value": 0.0, "advice": NASTY, "severity": "note"}
    report = Report(NASTY, [panel], texts, NASTY, {NASTY: texts, "x": texts}, NASTY, findings=[finding], notes=(NASTY,))
    report.save(tmp_path / "nasty.html")
    page = ready(pages.open(tmp_path / "nasty.html"))
    page.locator("#legend button").first.click()
    page.evaluate("Report.hovered(Report.panels[0], 0, 5, 5)")
    page.evaluate("(payload) => Report.load(payload)", pages_module.payload(report))
    settle(page)
    assert page.locator("h1").inner_text() == NASTY
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, #heading b, .panel b, .card b, #notes b").count() == 0
    assert selected(page) == {NASTY}


def test_a_live_page_takes_new_contents_and_keeps_what_was_chosen(page):
    page.select_option("#color", "column:amount")
    page.click("#modes button[value=lasso]")
    page.fill("#search", "r000")
    page.press("#search", "Enter")
    rng = np.random.default_rng(1)
    keep = rng.permutation(240)[:150]
    other = sample(
        title="Next",
        panels=[ReportPanel("next", rng.normal(size=(150, 2)))],
        ids=sample().ids[keep],
        columns={"amount": rng.random(150), "kind": KINDS[keep % 4]},
        thumbnails=None,
        charts=(),
        quality=(),
    )
    page.evaluate("(payload) => Report.load(payload)", json.loads(json.dumps(pages_module.payload(other))))
    settle(page)
    assert page.title() == page.inner_text("h1") == "Next"
    assert page.locator(".panel h2").all_inner_texts() == ["next"]
    assert page.input_value("#color") == "column:amount"
    assert selected(page) == set(sample().ids[:10]) & set(sample().ids[keep])
    assert page.locator("#charts").is_hidden()
    assert page.inner_text("#quality") == ""
    assert page.locator("#live").count() == 1
    assert (np.ptp(picture(page), axis=2) > 40).any()


def test_without_scripts_words_and_tables_remain(pages, sample_file):
    page = pages.open(sample_file, java_script_enabled=False)
    text = page.inner_text("body")
    for words in (
        "A sample",
        "need JavaScript, which is disabled",
        "trustworthiness",
        "One column rules.",
        "200 sampled rows",
    ):
        assert words in text


def test_a_notebook_shows_it_in_a_frame(pages, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><p>cell</p>{sample()._repr_html_()}", encoding="utf-8")
    page = pages.open(tmp_path / "notebook.html", width=700, height=500)
    frame = page.frame_locator("iframe")
    frame.locator(".view canvas").nth(2).wait_for()
    frame.locator("#legend button").first.click()
    assert frame.locator("#count").inner_text() == "60 selected"


def test_a_file_that_was_cut_says_so(pages, sample_file, tmp_path):
    text = sample_file.read_text(encoding="utf-8")
    start = text.index('id="b0">') + len('id="b0">')
    (tmp_path / "cut.html").write_text(text[:start] + text[start + 40 :], encoding="utf-8")
    page = pages.open(tmp_path / "cut.html")
    page.get_by_text("the file may be incomplete or modified").wait_for()
    assert page.locator(".quality").is_visible()
    assert pages.problems
    pages.problems.clear()


def test_half_a_million_points(pages, tmp_path):
    n = 500_000
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, n)
    Y = rng.normal(size=(30, 2))[group] * 4 + rng.normal(size=(n, 2)) * 0.5
    names = np.array([f"group {k:02d}" for k in range(30)])[group]
    report = Report(
        "Half a million",
        [ReportPanel("map", Y.astype(np.float32))],
        np.arange(n),
        columns={"group": names},
        label="group",
    )
    path = tmp_path / "large.html"
    report.save(path)
    assert path.stat().st_size < 7e6
    page = ready(pages.open(path, width=480, height=400))
    colored = np.ptp(picture(page), axis=2) > 40
    assert 0.05 < colored.mean() < 0.9
    assert "10 other categories" in page.inner_text("#legend")
    assert "the 20 most frequent" in page.inner_text("#legend")
    box = box_of(page, 0)
    start, end = (
        np.array([0.3, 0.3]) * [box["width"], box["height"]],
        np.array([0.5, 0.5]) * [box["width"], box["height"]],
    )
    drag(page, 0, start, end, "Shift")
    page.wait_for_selector("#count:not(:empty)")
    expected = within(places(page, 0, Y), start, end).sum()
    count = int(page.inner_text("#count").split()[0].replace(",", ""))
    assert count > 1000
    assert abs(count - expected) <= 5
