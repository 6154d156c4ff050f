"""Searches shared by several fits give what each would have found alone."""

import pickle
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry import IPA, TSNE, Isomap, LaplacianEigenmaps, datasets
from manifoldry._core.run import Run
from manifoldry.graph import _search as search_module
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph, shared_neighbors

X = datasets.s_curve(300, random_state=0).X


@pytest.fixture
def searches(monkeypatch):
    """Return the list of the rules that were searched by."""
    done = []

    class Counted(NeighborIndex):
        def __init__(self, points, rule, run):
            done.append(rule.n_neighbors)
            super().__init__(points, rule, run)

    monkeypatch.setattr(search_module, "NeighborIndex", Counted)
    return done


def graph_of(points, k, **options):
    rule = NeighborRule(k, **options).resolve(points.shape[0])
    return neighbor_graph(points, rule, Run(0))


def same(a, b):
    return all(np.array_equal(getattr(a, part), getattr(b, part)) for part in ("indptr", "indices", "lengths"))


@pytest.mark.parametrize("points", [X, X.astype(np.float32), csr_array(X)], ids=["double", "single", "sparse"])
def test_smaller_lists_are_cut_from_wider_ones_and_nothing_is_searched_twice(points, searches):
    alone = {k: graph_of(points, k)[0] for k in (3, 7, 12)}
    searches.clear()
    with shared_neighbors(n_neighbors=9):
        assert same(graph_of(points, 3)[0], alone[3])
        assert same(graph_of(points.copy(), 7)[0], alone[7])
        assert searches == [9]
        assert same(graph_of(points, 12)[0], alone[12])  # wider than any so far
        assert same(graph_of(points, 3)[0], alone[3])
        assert searches == [9, 12]
    graph_of(points, 3)
    assert searches == [9, 12, 3]


def test_other_points_and_other_kinds_of_search_are_searched_anew(searches):
    moved = X.copy()
    moved[0, 0] += 1e-9
    with shared_neighbors():
        for points, options in (
            (X, {}),
            (moved, {}),
            (X[:-1], {}),
            (X, {"metric": "cosine"}),
            (X, {"search": "exact"}),
            (X, {"radius": 1.0}),
            (X, {"radius": 1.0}),
            (X, {"metric": "minkowski", "metric_params": {"p": 3}}),
            (X, {"metric": "minkowski", "metric_params": {"p": 3}}),
        ):
            graph_of(points, 5, **options)
    assert len(searches) == 9


def test_new_points_find_as_many_neighbors_as_each_fit_asked_for():
    with shared_neighbors(n_neighbors=20):
        indices = [graph_of(X, k)[1] for k in (4, 11)]
    for index, k in zip(indices, (4, 11), strict=True):
        alone = graph_of(X, k)[1]
        assert index.rule.n_neighbors == k
        for ours, theirs in zip(index.query(X[:5] + 0.01, Run(0)), alone.query(X[:5] + 0.01, Run(0)), strict=True):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("model", [Isomap(n_neighbors=8), LaplacianEigenmaps(n_neighbors=12), IPA(), TSNE(max_iter=30)])
def test_a_fit_on_shared_neighbors_is_the_fit_alone(model):
    alone = model.fit_transform(X)
    with shared_neighbors(n_neighbors=100):
        again = model.fit(X)
    assert np.array_equal(again.embedding_, alone)
    placed = again.transform(X[:3])
    assert np.array_equal(pickle.loads(pickle.dumps(again)).transform(X[:3]), placed)


def test_a_block_within_a_block_and_other_threads_have_their_own(searches):
    with shared_neighbors():
        graph_of(X, 5)
        with shared_neighbors():
            graph_of(X, 5)
        thread = threading.Thread(target=graph_of, args=(X, 5))
        thread.start()
        thread.join()
        assert len(searches) == 3
        graph_of(X, 5)
        assert len(searches) == 3
