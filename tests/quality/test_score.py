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
        "distance_error",
    }
    assert figures["trustworthiness"] == figures["continuity"] == figures["knn_kept"] == 1.0
    assert figures["mrre_x"] == figures["mrre_y"] == 0.0
    assert figures["distance_error"] < 1e-28  # ratios err by a few eps, squared


def test_bad_input_is_refused_in_a_sentence():
    X = np.random.default_rng(2).normal(size=(30, 3))
    with pytest.raises(ValueError, match=r"below n / 2 = 15; got 15"):
        quality.score(X, X)
    with pytest.raises(ValueError, match=r"n_neighbors must be an integer"):
        quality.score(X, X, n_neighbors=[5])
