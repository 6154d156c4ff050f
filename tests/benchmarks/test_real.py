"""The benchmark on real data judges an embedding by what is known about made ones."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import manifoldry

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in ("tables", "real", "real_sets", "contact_sheet"):
        sys.modules.pop(name, None)


@pytest.fixture
def real(load):
    return load("real")


@pytest.fixture
def clusters(load):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    return load("real_sets").RealSet(10.0 * np.eye(3)[labels] + rng.normal(size=(90, 3)), labels)


def test_places_are_counted_relative_to_uniform_points(real):
    rng = np.random.default_rng(0)
    uniform = rng.uniform(size=(20_000, 2))
    # 10,000 cells, 20,000 points: the number of empty cells is about Poisson, mean 1353, standard deviation below 37.
    assert real.share_of_places(uniform) == pytest.approx(1, abs=5 * 37 / 8647)
    assert real.share_of_places([5, 1e-9] * uniform) == real.share_of_places(uniform)
    line = np.linspace(0, 1, 100)[:, np.newaxis]
    assert real.share_of_places(line) == pytest.approx(100 / (100 * (1 - 0.99**100)))


def test_two_dots_and_one_far_point_are_few_places(real):
    dots = np.repeat([[0.0, 0.0], [1.0, 1.0]], 500, axis=0)
    expected = 10_000 * (1 - (1 - 1e-4) ** 1000)
    assert real.share_of_places(dots) == pytest.approx(2 / expected)
    cloud = np.random.default_rng(0).normal(size=(1000, 2))
    cloud[0] = 1e6
    assert real.share_of_places(cloud) == pytest.approx(2 / expected)
    assert real.share_of_places(np.zeros((1000, 2))) == pytest.approx(1 / expected)


def test_labels_and_numbers_are_predicted_from_places_that_hold_them(load, real, clusters):
    assert real.predicted(clusters.X[:, :2], clusters) == 1
    assert real.predicted(1e-200 * clusters.X[:, :2], clusters) == 1
    rng = np.random.default_rng(0)
    turn = rng.uniform(0, 2 * np.pi, 500)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    data = load("real_sets").RealSet(circle, targets=circle)
    # The mean of 5 neighbors errs by their spacing, about 5 times 2 pi / 400: R² above 0.99.
    assert real.predicted(circle, data) > 0.99
    # A mean of 5 unrelated targets has 1/5 of their variance, which adds to the whole: 1 - 1.2, give or take 0.1.
    assert real.predicted(rng.normal(size=(500, 2)), data) == pytest.approx(-0.2, abs=0.1)
    assert real.predicted(circle, load("real_sets").RealSet(circle)) is None


def test_a_row_says_whether_it_is_below_pca_and_whether_that_was_said(real, clusters):
    good = manifoldry.PCA(n_components=2).fit_transform(clusters.X)
    bad = np.random.default_rng(1).normal(size=(90, 2))
    assert real.judge(clusters, good, ["Beware."])["below PCA"] == ""
    assert real.judge(clusters, bad, ["Beware."])["below PCA"] == "silent"
    row = real.judge(clusters, bad, ["Neighbors are kept worse than by PCA."])
    assert row["below PCA"] == "said"
    assert real.marked(row) == f"{row['trust']:.3f}↓!"
    assert real.marked({"error": "ValueError"}) == "–"


def test_samples_are_the_same_at_every_run_and_come_back_from_the_archive(load, clusters, tmp_path):
    part = clusters.sample(30)
    assert len(part.X) == 30
    assert np.array_equal(part.X, clusters.sample(30).X)
    assert np.array_equal(clusters.sample(1000).labels, clusters.labels)
    part.save(tmp_path / "part.npz")
    found = load("real_sets").RealSet.read(tmp_path / "part.npz")
    assert np.array_equal(found.X, part.X)
    assert np.array_equal(found.labels, part.labels)
    assert found.targets is None


def test_sets_whose_file_is_missing_are_left_out_with_a_word(real, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("MANIFOLDRY_DATA", raising=False)
    assert real.prepare(["iris", "frey"], tmp_path) == {"iris": 150}
    assert "frey is left out" in capsys.readouterr().out


def test_a_fit_leaves_its_row_or_what_went_wrong(real, clusters, tmp_path, monkeypatch):
    monkeypatch.setattr(real.resource, "setrlimit", lambda *_: None)  # the limit is for a process of its own
    clusters.save(tmp_path / "made.npz")
    real.run_cell(("made", "PCA", 60), tmp_path, 60)
    row = json.loads((tmp_path / "made-PCA-60.json").read_text(encoding="utf-8"))
    assert row["trust"] == row["PCA"]
    assert np.load(tmp_path / "made-PCA-60.npy").shape == (60, 2)
    real.run_cell(("made", "NMF", 60), tmp_path, 60)
    assert "ValueError" in json.loads((tmp_path / "made-NMF-60.json").read_text(encoding="utf-8"))["error"]


def test_slow_methods_get_fewer_rows_and_unknown_names_are_refused(real):
    sizes = {"digits": 1797, "fashion_20000": 20_000}
    assert real.cells(sizes, ["PCA", "EAT"]) == [
        ("digits", "PCA", 1797),
        ("digits", "EAT", real.MAX_ROWS["EAT"]),
        ("fashion_20000", "PCA", 20_000),
    ]
    assert set(real.MAX_ROWS) < set(manifoldry._core.registry.METHODS)
    assert real.chosen("TSNE,PCA", ["PCA", "UMAP", "TSNE"]) == ["PCA", "TSNE"]
    with pytest.raises(SystemExit, match="tsne"):
        real.chosen("tsne", ["TSNE"])


def test_a_sheet_is_drawn_with_the_methods_that_failed(load, clusters, tmp_path):
    panel = load("contact_sheet").Panel
    panels = [
        panel("a", clusters.X[:, :2], clusters.color),
        panel("b", clusters.X[:, :1], clusters.X[:, 0]),
        panel("c", None, clusters.color, "not finished"),
    ]
    load("contact_sheet").draw(panels, tmp_path / "sheet.png", "made")
    assert (tmp_path / "sheet.png").stat().st_size > 1000
