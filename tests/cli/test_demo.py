import warnings

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import imread

from manifoldry import DisconnectedWarning, Isomap, datasets, metrics
from manifoldry._core.markup import GHOST
from manifoldry._core.registry import list_methods
from manifoldry.cli._commands import main
from manifoldry.cli._flow import demo

NAMES = [card.name for card in demo.shown(200)]


def cards(*names):
    return [card for card in demo.shown(200) if card.name in names]


@pytest.fixture(scope="module")
def results():
    roll = datasets.swiss_roll(200, random_state=4)
    return roll, {result.name: result for result in demo.unfold(roll, cards(*demo.REPORTED))}


def test_figures_are_those_of_the_score_and_agree_with_the_alignment(results):
    roll, found = results
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedWarning)
        Y = Isomap(n_components=2).fit_transform(roll.X)
    score = metrics.score(roll.X, Y, truth=roll.truth)
    assert found["Isomap"].scores == {name: score[name] for name in demo.SCORES.values()}
    spread = np.sum((roll.truth - roll.truth.mean(axis=0)) ** 2)
    for result in found.values():
        left = np.sum((result.aligned - roll.truth) ** 2) / spread
        # The same sum of 200 squares in another order: rounding of a few hundred additions.
        assert left == pytest.approx(result.scores["procrustes_similarity"], rel=1e-12, abs=1e-12)


def test_all_our_planar_methods_and_pca_are_shown():
    ours = {card.name for card in list_methods() if not card.wrapped and card.test_params.get("n_components") == 2}
    assert set(NAMES) == ours | {"PCA"}


def test_methods_for_few_points_are_left_out_of_many():
    for name, most in demo.MAX_POINTS.items():
        assert name in [card.name for card in demo.shown(most)]
        assert name not in [card.name for card in demo.shown(most + 1)]


def test_settings_name_methods_and_their_parameters():
    classes = {card.name: card.cls for card in list_methods()}
    for name, settings in demo.SETTINGS.items():
        assert set(settings) <= set(classes[name]().get_params())


def test_warnings_become_remarks():
    far = datasets.swiss_roll(60, random_state=0)
    apart = datasets.Dataset(np.concatenate([far.X, far.X + 1e3]), "two", truth=np.concatenate([far.truth] * 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {result.name: result for result in demo.unfold(apart, cards("Isomap", "ClassicalMDS"))}
    assert any("2 connected components" in remark for remark in found["Isomap"].remarks)
    assert found["ClassicalMDS"].remarks == ()


def test_the_command_prints_a_row_per_method_and_leaves_pictures(tmp_path, capsys):
    assert main(["demo", "--n", "50", "--out", str(tmp_path / "a" / "b")]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split(None, 1)[0] for line in lines if line.strip()]
    assert [head for head in heads if head in NAMES] == NAMES * 2
    for name in NAMES:
        rows = [line for line in lines if line.split(None, 1)[:1] == [name]]
        assert len(rows) == 2
        for row in rows:
            values = np.array(row.split()[1:], dtype=float)
            assert len(values) == 1 + len(demo.SCORES)
            assert np.isfinite(values).all()
            assert (values >= 0).all()
    tables = [line for line in lines if line.startswith("method ") or line.split(None, 1)[:1] in [[n] for n in NAMES]]
    assert len({len(line) for line in tables}) == 1
    for picture in ("swiss_roll.png", "swiss_roll_hole.png"):
        path = tmp_path / "a" / "b" / picture
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert str(path) in lines[-2]
    page = tmp_path / "a" / "b" / "report.html"
    assert str(page) in lines[-1]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_report_shows_the_chosen_methods_as_they_were_fitted(results):
    roll, found = results
    report = demo.report(roll, list(found.values()))
    assert tuple(panel.name for panel in report.panels) == demo.REPORTED
    for panel in report.panels:
        assert np.array_equal(panel.coordinates, found[panel.name].model.embedding_)
    assert np.array_equal(report.columns[report.label], roll.truth[:, 0])


@pytest.mark.parametrize(("n_results", "n_rows"), [(1, 1), (4, 2)])
def test_the_picture_has_a_panel_for_the_data_the_truth_and_each_result(tmp_path, monkeypatch, n_results, n_rows):
    roll, path, figures = datasets.swiss_roll(100, random_state=1), tmp_path / "picture.png", []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *of, **how: [figures.append(figure), save(figure, *of, **how)]
    )
    scores = dict.fromkeys(demo.SCORES.values(), 0.5)
    results = [demo.Result(f"method {i}", None, roll.truth / (i + 1), 1.0, scores, ()) for i in range(n_results)]
    demo.draw("roll", roll, results, path)
    width = demo.DPI * demo.N_COLUMNS * demo.PANEL_INCHES[0]
    assert imread(path).shape[1] <= 1.05 * width  # margins are cut to what is drawn
    first, sheet, *panels, bar = figures[0].axes
    assert (first.name, bar.get_xlabel()) == ("3d", "arc length")
    assert [panel.get_title().strip() for panel in panels] == [result.name for result in results]
    assert panels[-1].get_subplotspec().get_geometry()[0] == n_rows
    for panel, Y in zip([sheet, *panels], [roll.truth, *(result.aligned for result in results)], strict=True):
        ghost, dots = panel.collections
        assert ghost.get_facecolor()[0].tolist() == list(to_rgba(GHOST))
        assert np.array_equal(ghost.get_offsets(), roll.truth)
        assert np.array_equal(dots.get_offsets(), Y)
        assert np.array_equal(dots.get_array(), roll.truth[:, 0])
        assert panel.get_xlim() == sheet.get_xlim()


def test_the_frame_holds_the_sheet_and_nearly_all_else_and_has_the_shape_of_a_panel():
    sheet = np.array([[0.0, 0.0], [10.0, 1.0]])
    other = np.concatenate([np.tile([[2.0, -7.0], [3.0, 3.0]], (500, 1)), [[1e3, 1e3]]])
    low, high = demo._frame([sheet, other])
    every = np.concatenate([sheet, other[:-1]])
    assert (low < every.min(axis=0)).all()
    assert (high > every.max(axis=0)).all()
    assert high.max() < 100  # one stray point does not make all others small
    assert np.divide(*(high - low)) == pytest.approx(demo.PANEL_INCHES[0] / demo.PANEL_INCHES[1], rel=1e-12)


def test_data_without_a_flat_truth_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two true coordinates"):
        demo.draw("sphere", datasets.sphere(50), [], tmp_path / "no.png")
