"""Lists and geodesic distances of a growing sample are those of a search of all of it."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry.graph import _geodesics
from manifoldry.graph._geodesics import changed_edges, geodesic_lengths, grown_geodesics
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, grown_lists, neighbor_graph


def points(kind, n, rng):
    """Rows in three columns (k-d tree) or twelve (all pairs); with duplicates; in two clusters."""
    X = rng.standard_normal((n, 12 if kind == "wide" else 3))
    if kind == "duplicates":
        X[rng.permutation(n)[: n // 3]] = X[0]
    if kind == "clusters":
        X[: n // 2] += 50.0
    return X


def lists_of(X, k, n_jobs=1):
    return neighbor_graph(X, NeighborRule(k).resolve(len(X)), Run(0, n_jobs))


@pytest.mark.parametrize("kind", ["few", "wide", "clusters"])
@pytest.mark.parametrize("n_new", [1, 25, 200])
def test_grown_lists_are_those_of_a_search_of_all_rows(kind, n_new):
    X = points(kind, 150 + n_new, np.random.default_rng(3))
    rule = NeighborRule(6).resolve(150)
    grown, index = grown_lists(lists_of(X[:150], 6)[0], X, rule, Run(0, 1))
    searched, _ = lists_of(X, 6)
    np.testing.assert_array_equal(grown.indices, searched.indices)
    np.testing.assert_array_equal(grown.lengths, searched.lengths)
    assert index.n_points == len(X)


def test_lists_of_duplicates_keep_their_distances():
    X = points("duplicates", 160, np.random.default_rng(4))
    grown, _ = grown_lists(lists_of(X[:120], 5)[0], X, NeighborRule(5).resolve(160), Run(0, 1))
    np.testing.assert_array_equal(grown.lengths, lists_of(X, 5)[0].lengths)  # who of the equals is listed is free
    assert not (grown.indices == grown.rows()).any()


@pytest.mark.parametrize("rule", [NeighborRule(5, 1.0), NeighborRule(5, metric="cityblock"), NeighborRule(7)])
def test_lists_that_cannot_be_updated_are_left_to_a_search(rule):
    X = points("few", 80, np.random.default_rng(5))
    assert grown_lists(lists_of(X[:70], 5)[0], X, rule.resolve(80), Run(0, 1)) is None


@pytest.mark.parametrize("kind", ["few", "wide", "duplicates", "clusters"])
@pytest.mark.parametrize("n_new", [1, 40, 120])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_updated_geodesics_equal_those_of_a_search_to_the_last_bit(kind, n_new, n_jobs, monkeypatch):
    monkeypatch.setattr(_geodesics, "MAX_CHANGED_PATHS_OF_FEW", np.inf)
    monkeypatch.setattr(_geodesics, "UPDATED_ROWS", 17)
    X = points(kind, 120 + n_new, np.random.default_rng(n_new))
    before, after = (symmetrize(lists_of(rows, 4)[0]) for rows in (X[:120], X))
    run = Run(0, n_jobs)
    lengths = geodesic_lengths(before, run)[0]
    kept = lengths.copy()
    grown = grown_geodesics(lengths, before, after, run)
    np.testing.assert_array_equal(grown, geodesic_lengths(after, run)[0])
    np.testing.assert_array_equal(lengths, kept)


def test_lost_paths_around_a_circle_are_found_again():
    """A ring of ten equal edges loses one: the distance of its ends grows from 1 to 9; ties abound."""
    ring = csr_array((np.ones(10), (np.arange(10), (np.arange(10) + 1) % 10)), shape=(10, 10))
    before = symmetrize(NeighborGraph.from_sparse(ring))
    after = before.with_only(np.abs(before.rows() - before.indices) < 9)
    apart = np.abs(np.arange(10.0)[:, None] - np.arange(10.0))
    np.testing.assert_array_equal(geodesic_lengths(before, Run())[0], np.minimum(apart, 10 - apart))
    before_all, after_all = changed_edges(before, after)
    assert (len(before_all), len(after_all)) == (2, 0)
    grown = grown_geodesics(np.minimum(apart, 10 - apart), before, after, Run())
    np.testing.assert_array_equal(grown, apart)


def test_geodesics_are_searched_again_where_most_paths_change():
    X = points("few", 150, np.random.default_rng(0))
    before, after = (symmetrize(lists_of(rows, 4)[0]) for rows in (X[:60], X))
    assert grown_geodesics(geodesic_lengths(before, Run())[0], before, after, Run()) is None
