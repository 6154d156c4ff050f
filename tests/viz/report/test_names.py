"""Names over the points of a report: their positions in a real browser, and the control that selects them."""

import numpy as np
import pytest

from browser import Pages
from manifoldry.viz._report.contents import Report, ReportPanel
from manifoldry.viz.plot._labels import central_point
from scatter_panels import Panel, encoded, page_source

PLACES = "p.labels.place(p.camera)"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "panels.html"
    path.write_text(page_source(), encoding="utf-8")
    return path


@pytest.fixture
def page(pages, source):
    page = pages.open(source, width=900, height=700)
    page.evaluate("clean()")
    return page


def groups(n=1200, count=12, seed=0):
    """Return points around random centers, and a code from 1 for each."""
    rng = np.random.default_rng(seed)
    codes = np.sort(rng.integers(0, count, n)) + 1
    return (rng.uniform(-8, 8, (count, 2))[codes - 1] + rng.normal(size=(n, 2))).astype(np.float32), codes


def named(panel, codes, names):
    panel.run(
        "(() => { const m = scatterMiddles(p.rows.points, 2, decode(a[0]), a[1].length);"
        "p.setLabels(a[1].map((text, k) => ({text, ...m[k]}))); })()",
        [encoded(np.asarray(codes, dtype=np.uint8)), names],
    )
    panel.settle()


def placed(panel):
    """Return names, anchors, centers, half sizes, and which have a line to their anchor."""
    found = panel.run(PLACES)
    parts = [np.array([one[key] for one in found], dtype=float) for key in ("anchor", "center", "half")]
    return [" ".join(one["lines"]) for one in found], *parts, np.array([one["tied"] for one in found])


def check_no_overlaps(centers, half):
    apart = np.abs(centers[:, None] - centers) >= half[:, None] + half - 1e-6
    assert (apart.any(axis=2) | np.eye(len(centers), dtype=bool)).all()


def test_the_middles_are_those_of_the_plots(page):
    points, codes = groups()
    panel = Panel(page, points)
    found = panel.run("scatterMiddles(p.rows.points, 2, decode(a), 13)", encoded(codes.astype(np.uint8)))
    assert found[12] == {"count": 0, "row": -1, "radius": 0}
    for code in range(1, 13):
        rows = np.flatnonzero(codes == code)
        row, radius = central_point(points[rows].astype(float))
        assert found[code - 1]["row"] == rows[row]
        assert found[code - 1]["count"] == len(rows)
        assert found[code - 1]["radius"] == pytest.approx(radius)


def test_names_do_not_overlap_and_are_at_their_groups_at_every_zoom(page):
    points, codes = groups()
    panel = Panel(page, points)
    names = [f"a group with the name {k}" for k in range(12)]
    named(panel, codes, names)
    for least in (10, 4, 1):  # groups leave the view, and those at its rim may have no space
        shown, anchors, centers, half, tied = placed(panel)
        check_no_overlaps(centers, half)
        assert (centers - half >= 0).all()
        assert (centers + half <= [400, 300]).all()
        inside = np.all(np.abs(centers - anchors) <= half, axis=1)
        np.testing.assert_array_equal(tied, ~inside)
        nearest = np.linalg.norm(centers[:, None] - anchors, axis=2).argmin(axis=1)
        assert (nearest[inside] == np.flatnonzero(inside)).all()
        assert set(shown) <= set(names)
        assert len(shown) >= least
        panel.run("p.zoom(1.6)")


def test_names_follow_the_camera_and_leave_with_their_group(page):
    points = np.repeat([[-5, 0], [5, 0]], 50, axis=0) + np.random.default_rng(0).normal(size=(100, 2))
    panel = Panel(page, points)
    named(panel, np.repeat([1, 2], 50), ["left", "right"])
    shown, _, before, _, _ = placed(panel)
    assert shown == ["left", "right"]
    panel.run("p.pan(10, -20)")
    np.testing.assert_allclose(placed(panel)[2], before + np.array([10, -20]), atol=1e-6)
    panel.run("p.pan(-260, 0)")
    assert placed(panel)[0] == ["right"]


def test_names_are_on_the_canvas_and_in_the_printed_picture(page):
    points = np.random.default_rng(0).normal(size=(60, 2))
    panel = Panel(page, points, colors=np.tile([255, 255, 255, 255], (60, 1)))
    assert panel.seen().min() > 200
    named(panel, np.ones(60), ["a name"])
    for picture in (panel.seen(), panel.picture()):
        dark = np.argwhere(picture.max(axis=2) < 80)
        _, _, (center,), (half,), _ = placed(panel)
        assert len(dark) > 50
        assert (np.abs(dark[:, ::-1] - center) <= half).all()
    panel.run("p.setLabels(null)")
    panel.settle()
    assert panel.seen().min() > 200


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("memory T cells of the blood", ["memory T cells of", "the blood"]),
        ("x" * 40, ["x" * 18, "x" * 18, "xxxx"]),
        ("one two three four five six seven eight nine ten eleven twelve", None),
    ],
)
def test_long_names_are_wrapped_and_cut(page, text, lines):
    found = page.evaluate("scatterWrap", text)
    assert len(found) <= 3
    assert max(map(len, found)) <= 18
    if lines is None:
        assert found[2].endswith("…")
    else:
        assert found == lines


@pytest.fixture(scope="module")
def kinds():
    """A report with a label column of four kinds, one of many, and the clusters of one panel."""
    points, codes = groups(400, count=4, seed=3)
    names = np.array(["ant", "bee", "cat", "dog"])[codes - 1]
    clusters = (codes > 2).astype(str)
    panels = [ReportPanel("one", points, colors={"cluster": clusters}), ReportPanel("two", points[:, ::-1])]
    columns = {"kind": names, "half": np.where(codes > 2, "upper", "lower"), "many": np.arange(400).astype(str)}
    return Report("", panels, np.arange(400), columns=columns, label="kind")


@pytest.fixture(scope="module")
def report(chromium, kinds, tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "report.html"
    kinds.save(path)
    opened = Pages(chromium)
    page = opened.open(path, width=1000, height=800)
    page.evaluate("Report.ready")
    yield page
    opened.close()


def shown(page, k=0):
    """Return the names on a panel of a report."""
    script = f"Report.panels[{k}].scatter.labels?.entries.map((entry) => entry.lines.join(' ')) ?? []"
    return sorted(page.evaluate(script))


def test_the_label_column_is_named_first_and_other_columns_of_few_kinds_can_be(report):
    options = report.locator("#names option").all_inner_texts()
    assert options == ["none", "kind", "half", "clusters"]
    assert report.locator("#names").input_value() == "column:kind"
    assert shown(report) == shown(report, 1) == ["ant", "bee", "cat", "dog"]
    report.select_option("#names", "column:half")
    assert shown(report) == ["lower", "upper"]
    report.select_option("#names", "panel:cluster")
    assert shown(report) == ["False", "True"]
    assert shown(report, 1) == []  # this panel has no clusters
    report.select_option("#names", "")
    assert shown(report) == []


def test_only_rows_that_are_shown_are_named(report):
    report.evaluate("Report.names.use('column:kind')")
    report.click("#legend button:has-text('bee')")
    assert len(shown(report)) == 4
    report.check("#only")
    assert shown(report) == ["bee"]
    report.click("#clear")
    assert len(shown(report)) == 4


def test_many_labels_are_not_written(pages, tmp_path, kinds):
    report = Report("", kinds.panels[1:], kinds.ids, columns={"many": kinds.columns["many"]}, label="many")
    report.save(tmp_path / "many.html")
    page = pages.open(tmp_path / "many.html")
    page.evaluate("Report.ready")
    assert shown(page) == []
    assert not page.locator("#names").is_visible()
