"""The report of a sequence: its contents, and its steps in a real browser, by mouse and keys."""

from itertools import pairwise

import numpy as np
import pytest

from browser import Pages
from manifoldry import UMAP, AlignedEmbedding, build_report, metrics

NAMES = ["first", "second", "third"]


def sequence():
    """Three data sets of 40 rows, each with 30 rows of the one before, and the model."""
    base = np.random.default_rng(0).normal(size=(60, 4))
    sets = [base[10 * t : 10 * t + 40] + 0.05 * t for t in range(3)]
    model = AlignedEmbedding(UMAP(n_epochs=30), alignment_weight=1.0)
    return sets, model.fit(sets, relations=[{i: i - 10 for i in range(10, 40)}] * 2)


@pytest.fixture(scope="module")
def report():
    sets, model = sequence()
    kinds = [np.array(["old", "new"])[(np.arange(40) + 10 * t >= 40).astype(int)] for t in range(3)]
    ids = [[f"r{i}" for i in range(10 * t, 10 * t + 40)] for t in range(3)]
    steps = dict(zip(NAMES, sets, strict=True))
    return model, build_report(steps, model, ids=ids, label=kinds, columns={"step": [np.full(40, t) for t in range(3)]})


def test_the_panels_are_the_layouts_of_all_different_rows(report):
    model, made = report
    assert [panel.name for panel in made.panels] == NAMES
    assert made.steps == "UMAP"
    assert made.ids.tolist() == [f"r{i}" for i in range(60)]
    for t, panel in enumerate(made.panels):
        np.testing.assert_array_equal(panel.coordinates[10 * t : 10 * t + 40], model.embeddings_[t])
        assert np.isnan(panel.coordinates).all(axis=1).sum() == 20
    assert made.columns["step"].tolist() == [0] * 10 + [1] * 10 + [2] * 40  # that of the last data set with the row
    moved = np.linalg.norm(model.embeddings_[1][:30] - model.embeddings_[0][10:], axis=1)
    np.testing.assert_allclose(made.panels[1].colors["distance moved"][10:40], moved)
    trust = metrics.trustworthiness(sequence()[0][2], model.embeddings_[2])
    assert made.charts[0].series["UMAP"][1][2] == pytest.approx(float(trust))


def test_lists_of_another_length_are_errors(report):
    sets, model = sequence()
    with pytest.raises(ValueError, match=r"data sets of the fit, with \[40, 40, 40\] rows"):
        build_report(sets[:2], model)
    with pytest.raises(ValueError, match="'label' needs a list with one entry for each row of each data set"):
        build_report(sets, model, label=[np.zeros(40), np.zeros(40), np.zeros(39)])


@pytest.fixture
def page(chromium, report, tmp_path):
    report[1].save(tmp_path / "steps.html")
    pages = Pages(chromium)
    page = pages.open(tmp_path / "steps.html", width=1000, height=800)
    page.evaluate("Report.ready")
    yield page
    pages.close()


def settled(page):
    """Wait until the rows have arrived."""
    page.evaluate("""async () => {
      while (Report.steps.pending) await new Promise((done) => requestAnimationFrame(done));
    }""")


def state(page):
    """The label, and where the rows are and whether they are drawn."""
    points = np.array(page.evaluate("Array.from(Report.panels[0].scatter.rows.points)")).reshape(-1, 2)
    alpha = np.array(page.evaluate("Array.from(Report.panels[0].scatter.rows.colors)")).reshape(-1, 4)[:, 3]
    return page.locator("#steps output").inner_text(), points, alpha


def test_keys_and_buttons_choose_a_step_and_rows_move_there(page, report):
    model, _ = report
    extent = np.ptp(np.concatenate(model.embeddings_), axis=0).max()
    view = page.evaluate("Report.panels[0].scatter.getView()")
    for t, act in enumerate(
        [
            lambda: None,
            lambda: (page.locator("#steps input").focus(), page.keyboard.press("ArrowRight")),
            lambda: page.get_by_role("button", name="Next step").click(),
        ]
    ):
        act()
        settled(page)
        label, points, alpha = state(page)
        assert label == f"{t + 1} of 3: {NAMES[t]}, 40 rows"
        # Coordinates are rounded to 2**-20 of half a panel, and kept in single precision.
        np.testing.assert_allclose(points[10 * t : 10 * t + 40], model.embeddings_[t], atol=4e-6 * extent)
        assert (alpha > 0).nonzero()[0].tolist() == [*range(10 * t, 10 * t + 40)]
    assert page.evaluate("Report.panels[0].scatter.getView()") == view
    assert page.get_by_role("button", name="Next step").is_disabled()
    page.get_by_role("button", name="Play").click()  # from the last step to the first
    assert page.locator("#steps output").inner_text().startswith("1 of 3")
    page.get_by_role("button", name="Pause").click()
    settled(page)
    assert page.locator("#steps input").get_attribute("aria-valuetext") == "1 of 3: first, 40 rows"


def test_rows_pass_through_positions_in_between(page, report):
    settled(page)
    seen = page.evaluate("""async () => {
      const rows = Report.panels[0].scatter.rows, steps = Report.steps, seen = [];
      steps.go(2);
      const [from, to] = [steps.from.points.slice(), steps.points[2]];
      const ways = Array.from(to, (value, i) => Math.abs(value - from[i]));
      const far = ways.indexOf(Math.max(...ways));
      while (steps.pending) {
        seen.push((rows.points[far] - from[far]) / (to[far] - from[far]));
        await new Promise((done) => requestAnimationFrame(done));
      }
      return seen;
    }""")
    assert all(0 <= before <= after <= 1 for before, after in pairwise(seen))
    assert any(0.05 < share < 0.95 for share in seen)


def test_the_selection_and_the_color_by_distance_follow_the_steps(page, report):
    page.evaluate("Report.search('r35')")
    page.evaluate("Report.colorBy('panel:distance moved')")
    page.get_by_role("button", name="Next step").click()
    settled(page)
    assert page.evaluate("Report.selectedIds()") == ["r35"]
    moved = page.evaluate("Array.from(Report.data.panels[0].colors[0].values)")
    expected = report[1].panels[1].colors["distance moved"]
    np.testing.assert_allclose(moved[10:40], expected[10:40], rtol=1e-6)


def test_names_are_those_of_the_groups_in_a_step(page):
    names = "Report.panels[0].scatter.labels.entries.map(({ lines, row }) => [lines.join(' '), row])"
    for t, expected in enumerate([{"old"}, {"old", "new"}, {"old", "new"}]):
        page.evaluate(f"Report.steps.go({t})")
        settled(page)
        shown = page.evaluate(names)
        assert {name for name, _ in shown} == expected
        assert all(10 * t <= row < 10 * t + 40 for _, row in shown)


def test_no_motion_for_people_who_prefer_none(chromium, report, tmp_path):
    report[1].save(tmp_path / "steps.html")
    pages = Pages(chromium)
    page = pages.open(tmp_path / "steps.html", reduced_motion="reduce")
    page.evaluate("Report.ready")
    page.evaluate("Report.steps.go(1)")
    assert page.evaluate("Report.steps.now.points.every((v, i) => v === Report.steps.points[1][i])")
    pages.close()
