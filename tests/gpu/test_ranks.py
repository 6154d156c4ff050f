"""Ranks among all points, counted on a GPU: the same integers as on the CPU."""

from dataclasses import fields

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.gpu import ranks as stage
from manifoldry._numerics.gpu.ranks import ranks_in_both
from manifoldry._numerics.ranks import neighbor_ranks, trustworthiness


@pytest.mark.parametrize("tied", [False, True])
def test_ranks_are_those_of_the_cpu(monkeypatch, tied):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(70, 4)), rng.normal(size=(70, 2))
    if tied:
        X, Y = np.round(X), np.round(Y)  # duplicates and equal distances: small integers are exact in any order
    rows = np.array([0, 3, 17, 40, 69])
    monkeypatch.setattr(stage, "MAX_DISTANCES", 2 * 70)  # blocks of two points
    expected = neighbor_ranks(X, Y, rows, 6, metric="euclidean", n_jobs=1)
    counted = neighbor_ranks(X, Y, rows, 6, metric="euclidean", n_jobs=1, device="cuda")
    for field in fields(expected):
        compare = np.testing.assert_allclose if field.name == "x_lengths" else np.testing.assert_array_equal
        compare(getattr(counted, field.name), getattr(expected, field.name))


def test_trustworthiness_is_that_of_the_cpu():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    settings = {"n_neighbors": 4, "sample": 8}
    assert trustworthiness(X, Y, **settings, device="cuda") == trustworthiness(X, Y, **settings)
    with pytest.raises(ValueError, match="device"):
        trustworthiness(X, Y, device="gpu")


def test_other_metrics_are_counted_on_the_cpu(monkeypatch):
    X = np.abs(np.random.default_rng(2).normal(size=(30, 3)))
    monkeypatch.setattr(stage, "ranks_in_both", None)
    settings = {"n_neighbors": 4, "metric": "cityblock"}
    assert trustworthiness(X, X[:, :2], **settings, device="cuda") == trustworthiness(X, X[:, :2], **settings)


def test_ranks_have_the_same_bits_for_another_number_of_threads(monkeypatch):
    rng = np.random.default_rng(3)
    X, Y, rows = rng.normal(size=(150, 3)), rng.normal(size=(150, 2)), np.array([5, 90])
    gpu = Run(0, 1, device="cuda").gpu
    first = ranks_in_both(X, Y, rows, 3, gpu)
    monkeypatch.setattr(stage, "N_THREADS", 1)
    for one, other in zip(first, ranks_in_both(X, Y, rows, 3, gpu), strict=True):
        np.testing.assert_array_equal(one, other)
