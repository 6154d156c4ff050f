"""Metrics against scipy's distances of all pairs, on one thread and on many, and those that are mapped to Euclidean."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from helpers import bytes_of
from manifoldry import MDS, UMAP, ClassicalMDS
from manifoldry._core.run import Run
from manifoldry.graph._pairwise import row_map
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 10))
MIX = RNG.normal(size=(10, 10))
V = MIX @ MIX.T + np.eye(10)
WEIGHTS = RNG.random(10) + 0.1
SLACK = 1e-9
"""Both sides sum ten products of numbers of size 1, whose condition V makes at most 1e4 times worse."""


def hellinger(a, b):
    return np.sqrt(np.maximum(0.0, 1 - np.sqrt(a * b).sum() / np.sqrt(a.sum() * b.sum())))


CASES = {
    "mahalanobis V": (X, "mahalanobis", {"V": V}, {"VI": np.linalg.inv(V)}),
    "mahalanobis VI": (X, "mahalanobis", {"VI": np.linalg.inv(V)}, {"VI": np.linalg.inv(V)}),
    "mahalanobis": (X, "mahalanobis", None, {"VI": np.linalg.inv(np.cov(X.T))}),
    "seuclidean": (X, "seuclidean", None, {"V": X.var(axis=0, ddof=1)}),
    "seuclidean V": (X, "seuclidean", {"V": np.diag(V)}, {"V": np.diag(V)}),
    "minkowski w": (X, "minkowski", {"p": 3, "w": WEIGHTS}, {"p": 3, "w": WEIGHTS}),
    "canberra": (X, "canberra", None, {}),
    "braycurtis": (np.exp(X[:, :3]), "braycurtis", None, {}),  # of which a ball tree misses neighbors
    "dice": (X > 0.3, "dice", None, {}),
    "jaccard": (X > 0.3, "jaccard", None, {}),
    "cosine": (X, "cosine", None, {}),
    "correlation": (X, "correlation", None, {}),
    "hamming": (X.round(), "hamming", None, {}),
    "chebyshev": (X, "chebyshev", None, {}),
    "hellinger": (np.exp(X), "hellinger", None, {}),
}


def truth(name, rows):
    points, metric, _, params = CASES[name]
    return cdist(points[rows], points, hellinger if metric == "hellinger" else metric, **params)


@pytest.mark.parametrize("name", CASES)
def test_every_metric_finds_what_sorting_all_of_scipys_distances_finds(name):
    points, metric, params, _ = CASES[name]
    points = points.astype(float)
    rows = np.arange(0, len(points), 7 if metric == "hellinger" else 1)
    rule = NeighborRule(12, metric=metric, metric_params=params, search="exact").resolve(len(points))
    answers = [neighbor_graph(points, rule, Run(0, n_jobs))[0] for n_jobs in (1, 8, 8)]
    expected = np.sort(truth(name, rows), axis=1)[:, 1:13]
    for graph in answers:
        found = graph.lengths.reshape(len(points), 12)[rows]
        # Near 0 a Hellinger distance by its formula is the root of a difference of numbers near 1.
        np.testing.assert_allclose(found, expected, rtol=SLACK, atol=1e-7 if metric == "hellinger" else SLACK)
        np.testing.assert_allclose(graph.lengths, answers[0].lengths, rtol=0, atol=1e-15)


@pytest.mark.parametrize("metric", ["mahalanobis", "seuclidean", "hellinger"])
def test_mapped_rows_are_the_same_bits_alone_and_on_any_number_of_threads(metric):
    points = np.abs(X)
    rule = NeighborRule(7, metric=metric, search="exact").resolve(len(points))
    one, many = (neighbor_graph(points, rule, Run(0, n_jobs)) for n_jobs in (1, 8))
    assert bytes_of(one[0]) == bytes_of(many[0])
    indices, lengths = one[1].query(points[40:50], Run(0))
    np.testing.assert_array_equal(indices[:, 0], np.arange(40, 50))
    np.testing.assert_array_equal(lengths[:, 0], 0.0)
    for i in range(10):
        alone = one[1].query(points[40 + i : 41 + i], Run(0))
        np.testing.assert_array_equal(alone[1][0], lengths[i])


def test_a_radius_is_in_units_of_the_metric():
    D = cdist(X, X, "mahalanobis", VI=np.linalg.inv(V))
    radius = float(np.quantile(D, 0.02))
    rule = NeighborRule(None, radius, metric="mahalanobis", metric_params={"V": V}).resolve(len(X))
    graph, _ = neighbor_graph(X, rule, Run(0))
    np.testing.assert_array_equal(graph.degrees, (D <= radius).sum(axis=1) - 1)
    cosines = cdist(X, X, "cosine")
    graph, _ = neighbor_graph(X, NeighborRule(None, 0.1, metric="cosine").resolve(len(X)), Run(0))
    np.testing.assert_array_equal(graph.degrees, (cosines <= 0.1).sum(axis=1) - 1)


def test_sparse_rows_are_mapped_as_dense_ones():
    points = np.where(np.abs(X) > 1, np.abs(X), 0.0)
    points[3] = points[8] = 0.0
    for metric in ("mahalanobis", "seuclidean", "hellinger"):
        dense, sparse = (
            neighbor_graph(rows, NeighborRule(5, metric=metric).resolve(len(X)), Run(0))[0]
            for rows in (points, csr_array(points))
        )
        np.testing.assert_allclose(sparse.lengths, dense.lengths, rtol=1e-12, atol=1e-15)


def test_a_row_of_zeros_is_one_from_all_others_by_hellinger():
    rows = row_map("hellinger", None, None)(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 3.0], [2.0, 0.0]]))
    np.testing.assert_allclose(cdist(rows, rows)[0], [0, 0, 1, 1], atol=1e-15)


@pytest.mark.parametrize(
    ("metric", "params", "points", "words"),
    [
        ("hellinger", None, X, "needs non-negative entries; got -"),
        ("seuclidean", None, np.column_stack([X, np.ones(700)]), "positive variance V .* drop constant columns"),
        (
            "mahalanobis",
            None,
            np.column_stack([X, X[:, 0]]),
            "with positive eigenvalues; they are .* drop columns",
        ),
        ("mahalanobis", {"V": np.eye(3)}, X, r"a finite V of shape \(10, 10\); got shape \(3, 3\)"),
        ("mahalanobis", {"VI": -V}, X, "needs a VI with positive eigenvalues"),
    ],
)
def test_what_no_metric_can_use_is_refused(metric, params, points, words):
    with pytest.raises(ValueError, match=words):
        NeighborIndex(points, NeighborRule(3, metric=metric, metric_params=params).resolve(len(points)), Run(0))


def test_a_function_need_not_be_a_metric_nor_defined_between_the_rows():
    table = cdist(X[:60], X[:60], "sqeuclidean")

    def looked_up(a, b):
        assert a[0] == int(a[0])  # the center of a ball would be none of the rows
        assert b[0] == int(b[0])
        return table[int(a[0]), int(b[0])]

    graph, _ = neighbor_graph(np.arange(60.0)[:, None], NeighborRule(5, metric=looked_up).resolve(60), Run(0))
    np.testing.assert_array_equal(graph.lengths.reshape(60, 5), np.sort(table, axis=1)[:, 1:6])


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_a_fitted_row_is_at_itself_by_cosine(kind):
    points = np.where(np.abs(X) > 0.7, X, 0.0)[:300] + 0.01 * (np.arange(10) == 4)
    index = NeighborIndex(kind(points), NeighborRule(5, metric="cosine").resolve(300), Run(0))
    indices, lengths = index.query(kind(points[50:70]), Run(0))
    np.testing.assert_array_equal(indices[:, 0], np.arange(50, 70))
    np.testing.assert_array_equal(lengths[:, 0], 0.0)


def test_scaling_knows_mahalanobis_by_its_covariance():
    """The distances of whitened rows are Mahalanobis distances, so the scalings agree."""
    few = X[:120]
    inverse = np.linalg.inv(np.cov(few.T))
    whitened = few @ np.linalg.cholesky(inverse)
    for params in (None, {"V": np.cov(few.T)}, {"VI": inverse}):
        model = ClassicalMDS(metric="mahalanobis", metric_params=params).fit(few)
        expected = ClassicalMDS().fit(whitened)
        np.testing.assert_allclose(model.spectrum_.values, expected.spectrum_.values, rtol=1e-9)
        np.testing.assert_allclose(model.transform(few[:5]), model.embedding_[:5], atol=1e-8)
    wanted = MDS(metric="mahalanobis", max_iter=2).fit(few).dissimilarity_matrix_
    np.testing.assert_allclose(wanted, cdist(whitened, whitened), rtol=1e-9, atol=1e-12)


def test_umap_by_mahalanobis_is_umap_of_whitened_rows():
    few = X[:150]
    graph = UMAP(metric="mahalanobis", metric_params={"V": V}, n_epochs=1, init="random").fit(few).graph_
    whitened = few @ np.linalg.cholesky(np.linalg.inv(V))
    np.testing.assert_allclose(graph.lengths, UMAP(n_epochs=1, init="random").fit(whitened).graph_.lengths, rtol=SLACK)
