"""The start of layouts of many points: sums over aggregates, graphs that have none to move, and known shapes."""

import numpy as np
import pytest
from scipy.sparse import csr_array, kron

from manifoldry import UMAP, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.descent import negative_sampling
from manifoldry._numerics.descent.negative_sampling import _aggregated, _normalized, multilevel_start
from manifoldry._numerics.geometry.neighbor_affinity import fuzzy_simplicial_set
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.methods.neighbor import _umap

PARAMETERS = UMAP()._layout_parameters(20_000, shaped=False)


def fuzzy(X, k=8):
    return fuzzy_simplicial_set(neighbor_graph(X, NeighborRule(k).resolve(len(X)), Run(0))[0], Run(0))


def ring(n, reach=5):
    i, ends = np.arange(n), np.arange(1, reach + 1)
    columns = (i[:, None] + np.concatenate([ends, -ends])) % n
    W = csr_array((np.ones(columns.size, np.float32), (np.repeat(i, 2 * reach), columns.ravel())), shape=(n, n))
    W.sort_indices()
    return W


def test_weights_between_aggregates_are_sums_and_positions_are_means():
    rng = np.random.default_rng(0)
    W = fuzzy(rng.standard_normal((300, 3)))
    coarse, spread = _aggregated(W, Run(0))
    count = coarse.shape[0]
    assert 300 / 40 < count < 300 / 4  # a ball has 9 points or more, and takes in others
    label = spread(np.eye(count)).argmax(axis=1)  # half of a row comes from its own aggregate
    P = np.eye(count)[label]
    eps = float(np.finfo(np.float32).eps)
    np.testing.assert_allclose(coarse.toarray(), P.T @ W.toarray() @ P, rtol=W.nnz * eps)
    Y = rng.standard_normal((count, 2))
    means = W.toarray().astype(float) @ Y[label] / W.toarray().astype(float).sum(axis=1)[:, None]
    np.testing.assert_allclose(spread(Y), (Y[label] + means) / 2, atol=1e-12)


def test_normalized_weights_are_symmetric_and_rows_without_neighbors_stay_empty():
    W = np.array([[4.0, 2, 8, 0], [2, 0, 0, 0], [8, 0, 1, 0], [0, 0, 0, 5]], dtype=np.float32)
    expected = np.zeros((4, 4))
    expected[0, 1], expected[0, 2] = 2 / np.sqrt(10 * 2), 8 / np.sqrt(10 * 8)
    np.testing.assert_allclose(_normalized(csr_array(W)).toarray(), expected + expected.T, rtol=1e-6)


@pytest.mark.parametrize("top", [100, 5000])  # three graphs of aggregates, or one
def test_a_ring_starts_as_a_curve(monkeypatch, top):
    monkeypatch.setattr(negative_sampling, "MAX_TOP_GROUPS", top)
    start = multilevel_start(ring(3000), 2, PARAMETERS, Run(0))
    assert start.kind == "multilevel"
    np.testing.assert_allclose(start.places.mean(axis=0), 0.0, atol=1e-12)
    angles = 2 * np.pi * np.arange(3000) / 3000
    trust = metrics.trustworthiness(np.column_stack([np.cos(angles), np.sin(angles)]), start.places, n_neighbors=15)
    assert trust > 0.95  # of positions in random order 0.5


def test_aggregates_without_edges_between_them_stay_apart():
    """Every aggregate is a component: there are no edges to sample, and no fewer aggregates of aggregates."""
    W = csr_array(kron(csr_array(np.eye(30, dtype=np.float32)), np.ones((10, 10), np.float32) - np.eye(10)))
    places = multilevel_start(W, 2, PARAMETERS, Run(0)).places.reshape(30, 10, 2)
    centers, spread = places.mean(axis=1), places.std(axis=1).max()
    gaps = np.linalg.norm(centers[:, None] - centers, axis=2) + np.diag(np.full(30, np.inf))
    assert gaps.min() > 100 * spread


def test_points_without_neighbors_start_at_their_own_places():
    """An intersection of memberships leaves points whose neighbors do not list them without an edge."""
    W = fuzzy(np.random.default_rng(0).standard_normal((300, 3))).tolil()
    W[7], W[:, 7] = 0, 0
    coarse, spread = _aggregated(csr_array(W), Run(0))
    Y = np.arange(2.0 * coarse.shape[0]).reshape(-1, 2)
    assert (Y == spread(Y)[7]).all(axis=1).any()
    assert np.isfinite(multilevel_start(csr_array(W), 2, PARAMETERS, Run(0)).places).all()


def test_many_points_start_from_their_aggregates_with_the_same_bits_for_any_number_of_threads(monkeypatch):
    blobs = datasets.gaussian_clusters(700, n_features=8, random_state=0)
    assert UMAP(n_epochs=5).fit(blobs.X).diagnostics_["init"] == "spectral"
    monkeypatch.setattr(_umap, "FEW_POINTS", 600)
    models = [UMAP(n_epochs=5, n_jobs=n_jobs, random_state=0).fit(blobs.X) for n_jobs in (1, 2, 7)]
    assert {model.diagnostics_["init"] for model in models} == {"multilevel"}
    for model in models[1:]:
        np.testing.assert_array_equal(model.embedding_, models[0].embedding_)
    assert UMAP(n_epochs=5).fit(blobs.X, blobs.labels).diagnostics_["init"] == "multilevel"
    assert UMAP(n_epochs=5, init="spectral").fit(blobs.X).diagnostics_["init"] == "spectral"
    assert UMAP(n_epochs=5).fit(datasets.swiss_roll(700).X).diagnostics_["init"] == "ipa"
