"""Neighbors by points and targets together, against all pairs."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._numerics.geometry.affinity import harmonic
from manifoldry._numerics.geometry.supervised import lengthened, supervised_lists, with_targets
from manifoldry.graph._operations import components, symmetrize
from manifoldry.graph._sample import NeighborhoodData, Targets
from manifoldry.graph._search import NeighborRule, neighbor_graph

N, K = 60, 5


def labeled(seed, unknown=0.3, n_classes=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 3))
    labels = rng.integers(n_classes, size=N)
    labels[0] = n_classes  # a class of one point
    return X, labels, rng.random(N) >= unknown


def sample_of(X, **rule):
    run = Run(0, 1)
    lists, index = neighbor_graph(X, NeighborRule(**rule).resolve(X.shape[0]), run)
    pairwise = rule.get("metric") == "precomputed"
    return NeighborhoodData(X, lists, symmetrize(lists), index, pairwise)


def nearest_of_all(D, k):
    """Return each row's k nearest others, by sorting all of them."""
    D = D + np.diag(np.full(len(D), np.inf))
    return [set(row[:k][np.isfinite(D[i, row[:k]])]) for i, row in enumerate(np.argsort(D, axis=1, kind="stable"))]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "precomputed"])
@pytest.mark.parametrize("weight", [0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_lists_are_those_of_all_pairs(metric, weight, unknown):
    X, labels, known = labeled(0, unknown)
    D = cdist(X, X, "cityblock" if metric == "manhattan" else "euclidean")
    sample = sample_of(D if metric == "precomputed" else X, n_neighbors=K, metric=metric)
    targets, lists = supervised_lists(sample, Targets(labels[:, None], known, True, weight), Run(0, 1))
    h = np.median(np.sort(D, axis=1)[:, 1 : K + 1])
    p = np.inf if weight == 1 else h * weight / (1 - weight)
    assert targets.distance == pytest.approx(p)
    told = D**2 + p**2 * squares_of(targets) if weight < 1 else np.where(squares_of(targets) > 0, np.inf, D**2)
    told = np.sqrt(told)
    assert np.allclose(squares_of(targets)[known][:, known], (labels[:, None] != labels)[known][:, known])
    assert [set(lists.row(i)[0]) for i in range(N)] == nearest_of_all(told, K)
    assert np.allclose(lists.lengths, D[lists.rows(), lists.indices])
    longer = lengthened(lists, targets)
    assert np.allclose(longer.lengths, told[longer.rows(), longer.indices])
    assert all((np.diff(longer.row(i)[1]) >= 0).all() for i in range(N))


def squares_of(targets):
    """Return the squared distances of all pairs of targets, 1 between pure classes."""
    values = targets.values.astype(float)
    if not targets.categorical:
        return cdist(values, values) ** 2
    return (values != values.T).astype(float)


def test_unknown_targets_are_means_of_their_neighbors():
    rng = np.random.default_rng(0)
    W = rng.random((30, 30)) * (rng.random((30, 30)) < 0.2)
    W = np.triu(W, 1) + np.triu(W, 1).T
    W[25:, :25] = W[:25, 25:] = 0  # points that nobody known is joined with
    known = np.arange(30) < 6
    values = rng.standard_normal((30, 2))
    found, reached = harmonic(csr_array(W), values, known)
    assert not reached[25:].any()
    assert np.array_equal(found[known], values[known])
    asked = reached & ~known
    means = (W @ found) / W.sum(axis=1, keepdims=True).clip(1e-12)
    assert asked.sum() > 15
    assert np.allclose(found[asked], means[asked], atol=1e-8)


def test_what_is_not_reached_stays_unknown():
    X, labels, _ = labeled(6)
    X[30:] += 100.0
    known = np.arange(N) < 20
    sample = sample_of(X, n_neighbors=K)
    told = with_targets(sample, Targets(labels[:, None], known, True, 0.7), "or", False, Run(0, 1))
    assert told.targets.known.tolist() == [True] * 30 + [False] * 30
    assert np.array_equal(told.neighbors.indices[30 * K :], sample.neighbors.indices[30 * K :])
    assert np.array_equal(told.neighbors.lengths[30 * K :], sample.neighbors.lengths[30 * K :])


def test_lists_of_sparse_rows_are_those_of_dense_ones():
    X, labels, known = labeled(1)
    targets = Targets(labels[:, None], known, True, 0.4)
    lists = [with_targets(sample_of(rows, n_neighbors=K), targets, "or", True, Run(0, 1)) for rows in (X, csr_array(X))]
    assert np.array_equal(lists[0].neighbors.indices, lists[1].neighbors.indices)
    assert np.allclose(lists[0].neighbors.lengths, lists[1].neighbors.lengths)


def test_numbers_are_more_coordinates():
    X, _, known = labeled(2, unknown=0.0)
    t = np.random.default_rng(3).standard_normal((N, 2))
    sample = sample_of(X, n_neighbors=K)
    targets, lists = supervised_lists(sample, Targets(t, known, False, 0.6), Run(0, 1))
    told = cdist(X, X) ** 2 + targets.distance**2 * cdist(t, t) ** 2
    assert [set(lists.row(i)[0]) for i in range(N)] == nearest_of_all(np.sqrt(told), K)
    assert np.allclose(lists.lengths, cdist(X, X)[lists.rows(), lists.indices])


def test_radius_bounds_the_length_with_the_targets():
    X, labels, known = labeled(4, unknown=0.0)
    sample = sample_of(X, n_neighbors=None, radius=1.5)
    targets = Targets(labels[:, None], known, True, 0.5)
    told = with_targets(sample, targets, "or", False, Run(0, 1))
    D = np.sqrt(cdist(X, X) ** 2 + told.targets.distance**2 * (labels[:, None] != labels))
    near = (D <= 1.5) & ~np.eye(N, dtype=bool)
    assert np.array_equal(told.neighbors.to_sparse().toarray() > 0, near)


def test_a_graph_keeps_its_edges_and_changes_their_lengths():
    X, labels, known = labeled(5, unknown=0.0)
    given = sample_of(X, n_neighbors=K).graph
    sample = NeighborhoodData(None, given, given, sample_of(X, n_neighbors=K).index)
    told = with_targets(sample, Targets(labels[:, None], known, True, 0.5), "or", True, Run(0, 1))
    assert np.array_equal(told.graph.to_sparse().toarray() > 0, given.to_sparse().toarray() > 0)
    across = labels[:, None] != labels
    p = np.median(given.lengths)
    expected = np.sqrt(given.to_sparse().toarray() ** 2 + p**2 * (across & (given.to_sparse().toarray() > 0)))
    assert np.allclose(told.graph.to_sparse().toarray(), expected)


def test_classes_that_come_apart_are_joined_by_the_edges_they_had():
    X = np.column_stack([np.arange(40.0), np.zeros(40)])
    labels = np.repeat([0, 1], 20)
    sample = sample_of(X, n_neighbors=2)
    targets = Targets(labels[:, None], np.ones(40, dtype=bool), True, 0.9)
    apart = with_targets(sample, targets, "or", False, Run(0, 1))
    joined = with_targets(sample, targets, "or", True, Run(0, 1))
    assert [len(components(found.graph)) for found in (apart, joined)] == [2, 1]
    # Of the plain graph 19-20 alone, or 18-20 and 19-21 too, go across: all are of length sqrt(d^2 + 9^2).
    rows, lengths = joined.graph.rows(), joined.graph.lengths
    across = labels[rows] != labels[joined.graph.indices]
    d = np.abs(rows - joined.graph.indices)[across]
    assert across.any()
    assert np.allclose(lengths[across], np.sqrt(d**2 + 81.0))
