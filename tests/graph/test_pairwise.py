"""Blocks of distances and the nearest in each row."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry.graph._pairwise import (
    as_points,
    distance_rows,
    distances_to_listed,
    distances_without_self,
    nearest,
    sample_rows,
)


@pytest.mark.parametrize("levels", [3, 50, 10**6])
@pytest.mark.parametrize("k", [1, 4, 39])
def test_nearest_is_the_head_of_a_stable_sort(levels, k):
    """Few levels make ties everywhere; a stable sort orders them by column."""
    block = np.random.default_rng(levels + k).integers(0, levels, size=(30, 800)).astype(float)
    np.testing.assert_array_equal(nearest(block, k), np.argsort(block, axis=1, kind="stable")[:, :k])


def test_nearest_may_be_all_but_the_point_itself():
    block = np.random.default_rng(0).random((5, 6))
    block[np.arange(5), np.arange(5)] = np.inf
    np.testing.assert_array_equal(nearest(block, 5), np.argsort(block, axis=1, kind="stable")[:, :5])


def test_a_point_is_infinitely_far_from_itself_and_not_from_its_duplicate():
    for d in (2, 40):
        points = np.repeat(np.random.default_rng(d).normal(size=(8, d)) + 5.0, 2, axis=0)
        block = distances_without_self(distance_rows(points), np.array([3, 6]))
        assert block[0, 3] == np.inf
        assert block[1, 6] == np.inf
        assert block[0, 2] == 0.0
        assert block[1, 7] == 0.0
        assert np.count_nonzero(block == 0) == 2


def test_products_give_the_distances_of_differences():
    X = np.random.default_rng(1).normal(size=(60, 100)) + 7.0
    rows = np.array([0, 13, 59])
    expected = np.sqrt(((X[rows, None] - X) ** 2).sum(axis=2))
    # |x|^2 + |y|^2 - 2xy of 100 terms errs by less than 100 eps of the 300 it is made of, the distance itself
    # by that over twice its size (14), and a distance of exactly 0 stays 0.
    np.testing.assert_allclose(distance_rows(X)(rows), expected, rtol=0, atol=300 * 100 * 2.3e-16 / 14)
    assert distance_rows(X)(rows)[1, 13] == 0.0


def test_a_sample_as_large_as_the_data_is_the_data():
    np.testing.assert_array_equal(sample_rows(10, 10, 0), np.arange(10))
    np.testing.assert_array_equal(sample_rows(10, None, 0), np.arange(10))
    np.testing.assert_array_equal(sample_rows(100, 9, 5), sample_rows(100, 9, 5))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "seuclidean", "precomputed"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_listed_distances_are_entries_of_the_rows(metric, n_jobs, monkeypatch):
    monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", 100)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 40))
    X = X @ X.T if metric == "precomputed" else X
    rows, columns = rng.integers(40, size=7), rng.integers(40, size=(7, 9))
    expected = np.take_along_axis(distance_rows(X, metric)(rows), columns, axis=1)
    kinds = (X, csr_array(X)) if metric == "euclidean" else (X,)
    for points in kinds:
        found = distances_to_listed(points, metric, rows, columns, Run(0, n_jobs))
        # Products lose half of the digits near 0: 2 * 40 * 1e-16 of squared norms of about 80 count as zero.
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-6)


def test_entries_that_are_no_numbers_are_named():
    with pytest.raises(ValueError, match=r"X must hold numbers \(could not convert string to float: 'red'\)"):
        as_points("X", [[1.0, "red"], [2.0, "blue"]])
    with pytest.raises(ValueError, match="X must be dense here"):
        as_points("X", csr_array(np.eye(3)))
