"""The row of figures is made of the named measures."""

import numpy as np
import pytest

from manifoldry import quality


def test_each_figure_is_the_named_measure():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(120, 2))
    X = np.column_stack([truth, truth[:, 0] ** 2])
    Y = truth + 0.1 * rng.normal(size=truth.shape)
    options = {"n_neighbors": 10, "sample": 50, "random_state": 3}
    figures = quality.score(X, Y, truth=truth, **options)
    mrre_x, mrre_y = quality.mrre(X, Y, **options)
    assert figures == {
        "trustworthiness": quality.trustworthiness(X, Y, **options),
        "continuity": quality.continuity(X, Y, **options),
        "knn_kept": quality.knn_kept(X, Y, **options),
        "mrre_x": mrre_x,
        "mrre_y": mrre_y,
        "distance_deviation": quality.distance_deviation(X, Y, **options),
        "scale": figures["scale"],
        "distance_error": quality.distance_error(X, Y, **options),
        "procrustes_rigid": quality.procrustes(Y, truth, kind="rigid").error,
        "procrustes_similarity": quality.procrustes(Y, truth, kind="similarity").error,
        "procrustes_affine": quality.procrustes(Y, truth, kind="affine").error,
    }
    assert quality.score(X, Y, truth=truth, n_jobs=1, **options) == figures
    assert all(type(value) is float for value in figures.values())


def test_without_a_truth_there_are_no_fits():
    X = np.random.default_rng(1).normal(size=(60, 3))
    figures = quality.score(X, X)
    assert set(figures) == {
        "trustworthiness",
        "continuity",
        "knn_kept",
        "mrre_x",
        "mrre_y",
        "distance_deviation",
        "scale",
        "distance_error",
    }
    assert figures["trustworthiness"] == figures["continuity"] == figures["knn_kept"] == 1.0
    assert figures["mrre_x"] == figures["mrre_y"] == 0.0
    assert figures["scale"] == pytest.approx(1.0, abs=1e-15)
    assert figures["distance_deviation"] < 1e-14  # a few eps
    assert figures["distance_error"] < 1e-28  # ratios err by a few eps, squared


def test_bad_input_is_refused_in_a_sentence():
    X = np.random.default_rng(2).normal(size=(30, 3))
    with pytest.raises(ValueError, match=r"below n / 2 = 15; got 15"):
        quality.score(X, X)
    with pytest.raises(ValueError, match=r"n_neighbors must be an integer"):
        quality.score(X, X, n_neighbors=[5])


def test_what_is_shown_first_does_not_depend_on_the_scale_and_what_does_says_so():
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(150, 2))
    X = np.column_stack([truth, np.sin(truth[:, 0])])
    one, other = (quality.score(X, unit * truth, truth=truth) for unit in (1.0, 2.0**-20))
    shown = list(one)
    first = shown[: shown.index("scale")]
    assert first == [
        "trustworthiness",
        "continuity",
        "knn_kept",
        "distance_deviation",
        "procrustes_similarity",
        "procrustes_affine",
    ]
    for name in first:
        assert one[name] == pytest.approx(other[name], rel=1e-9, abs=1e-15)
    assert one["scale"] == pytest.approx(2.0**20 * other["scale"], rel=1e-12)
    says = {line.split()[0]: line for line in str(one).splitlines()}
    for name in ("scale", "distance_error", "procrustes_rigid"):
        assert abs(one[name] - other[name]) > 0.1
        assert "in the units" in says[name]


def test_principal_components_stand_beside():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 3)) * np.array([3.0, 2.0, 0.5])
    Y = rng.normal(size=(100, 2))
    figures = quality.score(X, Y, truth=X[:, :2])
    _, _, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    scores = (X - X.mean(axis=0)) @ axes[:2].T
    assert figures.pca == pytest.approx(dict(quality.score(X, scores, truth=X[:, :2])), rel=1e-9)
    head, *lines = str(figures).splitlines()
    assert head.split() == ["this", "PCA"]
    for line, (name, value) in zip(lines, figures.items(), strict=True):
        words = line.split()
        assert words[0] == name
        assert [float(word) for word in words[1:3]] == pytest.approx([value, figures.pca[name]], abs=5e-5, rel=0.05)
    # More columns than the data have: zeros beside them.
    wide = quality.score(X, np.column_stack([X, Y]))
    assert wide.pca["trustworthiness"] == 1.0


def test_half_of_the_distances_deviate_by_less():
    """Points on a line: every second gap is stretched by a tenth, so that half of the ratios are 1 and half 1.1."""
    gaps = np.ones(200)
    X = np.concatenate([[0.0], np.cumsum(gaps * np.arange(1, 201) ** 1.5)])[:, None]  # the nearest is the one before
    stretched = np.where(np.arange(200) % 4 == 0, 1.1, 1.0) * np.diff(X[:, 0])
    Y = 7.0 * np.concatenate([[0.0], np.cumsum(stretched)])[:, None]
    assert quality.distance_deviation(X, Y, n_neighbors=1) == pytest.approx(0.0, abs=1e-12)  # three quarters are kept
    thirds = np.where(np.arange(200) % 3 == 0, 1.0, np.where(np.arange(200) % 3 == 1, 1.1, 1.3)) * np.diff(X[:, 0])
    Y = np.concatenate([[0.0], np.cumsum(thirds)])[:, None]
    # The median ratio is 1.1; the deviations are 0.1/1.1, 0 and 0.2/1.1, a third each, whose median is the first.
    assert quality.distance_deviation(X, Y, n_neighbors=1) == pytest.approx(0.1 / 1.1, rel=1e-9)
    assert quality.distance_deviation(X, np.zeros((201, 2)), n_neighbors=1) == 1.0
