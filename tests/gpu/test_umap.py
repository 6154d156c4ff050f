"""UMAP on the GPU: each stage against that of the CPU, and the same bits for any number of threads in a block."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from manifoldry import UMAP, datasets, metrics
from manifoldry._core import device
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.descent import negative_sampling
from manifoldry._numerics.descent.initialization import _spectral, rounded_layout, unit_layout
from manifoldry._numerics.descent.negative_sampling import LayoutParameters, NegativeSampling
from manifoldry._numerics.descent.optimizer import renumbered
from manifoldry._numerics.geometry.neighbor_affinity import fuzzy_simplicial_set, fuzzy_union
from manifoldry._numerics.gpu import spectral
from manifoldry._numerics.gpu.umap_layout import DeviceRows
from manifoldry.graph._search import NeighborRule, neighbor_graph

N = 96
EPS = float(np.finfo(np.float32).eps)


def lists(n=N, k=7, seed=0):
    """Lists of neighbors with copies of a point, so that some distances are 0."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    X[1] = X[0]
    return neighbor_graph(X, NeighborRule(k).resolve(n), Run(0, 1))[0]


def fuzzy(n=N, seed=0):
    return fuzzy_simplicial_set(lists(n, seed=seed), Run(0, 1))


def cycle(n):
    rows = np.repeat(np.arange(n), 2)
    columns = (rows + np.tile([1, -1], n)) % n
    graph = csr_array((np.ones(2 * n, dtype=np.float32), (rows, columns)), shape=(n, n))
    graph.sort_indices()
    return graph


@pytest.mark.parametrize(("connectivity", "mix"), [(1.0, 1.0), (2.5, 0.3), (0.0, 0.0)])
def test_the_fuzzy_set_is_that_of_the_cpu(run, connectivity, mix):
    graph = lists()
    expected = fuzzy_simplicial_set(graph, Run(0, 1), connectivity, mix)
    fuzzy_set = fuzzy_simplicial_set(graph, run, connectivity, mix)
    assert [part.dtype for part in (fuzzy_set.indptr, fuzzy_set.indices, fuzzy_set.data)] == [
        part.dtype for part in (expected.indptr, expected.indices, expected.data)
    ]
    np.testing.assert_array_equal(fuzzy_set.indptr, expected.indptr)
    np.testing.assert_array_equal(fuzzy_set.indices, expected.indices)
    np.testing.assert_allclose(fuzzy_set.data, expected.data, rtol=8 * EPS)  # a sum and two products of rounded numbers
    assert run.gpu.array(fuzzy_set.data) is run.gpu.array(fuzzy_set.data)  # and it is still on the GPU


def test_lists_in_any_order_have_the_same_fuzzy_set(run):
    graph = lists()
    rows = graph.to_sparse()
    backward = [np.arange(b - 1, a - 1, -1) for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]
    order = np.concatenate(backward)
    shuffled = NeighborGraph(graph.indptr, rows.indices[order], rows.data[order])
    np.testing.assert_array_equal(
        fuzzy_simplicial_set(shuffled, run).toarray(), fuzzy_simplicial_set(graph, run).toarray()
    )


def test_the_union_of_a_fuzzy_set_is_that_of_the_cpu_in_every_bit(run):
    A = fuzzy()
    A.data *= np.random.default_rng(1).uniform(size=A.nnz).astype(np.float32)
    for mix in (1.0, 0.4, 0.0):
        expected, union = fuzzy_union(A, Run(0, 1), mix), fuzzy_union(A, run, mix)
        np.testing.assert_array_equal(union.indices, expected.indices)
        np.testing.assert_array_equal(union.data, expected.data)


def test_aggregates_cover_all_rows_around_centers_that_are_far_from_each_other(run):
    weights = fuzzy(seed=2)
    graph = spectral.Levels(weights, run.gpu).graphs[0]
    label, count = graph.aggregates()
    label = run.gpu.host(label)
    np.testing.assert_array_equal(np.unique(label), np.arange(count))
    assert 1 < count < N / 4  # a center has more than four rows within two edges
    # An aggregate is connected, within two edges of its center.
    for each in range(count):
        members = np.flatnonzero(label == each)
        assert connected_components(weights[members][:, members])[0] == 1
    np.testing.assert_array_equal(label, run.gpu.host(graph.aggregates()[0]))
    coarse = graph.joined(run.gpu.array(label), count).on_host().toarray()
    P = np.eye(count)[label]
    expected = P.T @ (weights.toarray() / weights.data.max()) @ P
    # Every weight is rounded to a part of 2^-30 of the largest, and the sum to single precision.
    np.testing.assert_allclose(coarse, expected, rtol=4 * EPS, atol=weights.nnz * 2.0**-30)


def test_positions_of_aggregates_are_spread_to_their_rows_and_neighbors(run):
    weights = fuzzy(seed=2)
    label, count = spectral.Levels(weights, run.gpu).graphs[0].aggregates()
    label = run.gpu.host(label)
    coarse, spread = spectral.aggregated(weights, run.gpu)
    assert coarse.shape == (count, count)
    Y = np.random.default_rng(7).standard_normal((count, 2))
    W = weights.toarray().astype(float)
    expected = (Y[label] + W @ Y[label] / W.sum(axis=1)[:, None]) / 2
    np.testing.assert_allclose(spread(Y), expected, atol=np.diff(weights.indptr).max() * 4 * EPS)
    alone = csr_array((weights.data, weights.indices, np.append(weights.indptr, weights.nnz)), shape=(N + 1, N + 1))
    coarse, spread = spectral.aggregated(alone, run.gpu)
    assert np.isfinite(spread(np.ones((coarse.shape[0], 2)))).all()


def test_many_rows_start_from_their_aggregates(run, monkeypatch):
    monkeypatch.setattr(negative_sampling, "N_GROUP_EPOCHS", 2)
    monkeypatch.setattr(negative_sampling, "MAX_TOP_GROUPS", 4)
    start = negative_sampling.multilevel_start(fuzzy(seed=2), 2, LayoutParameters(1.5, 0.9, 5, 1.0, 1.0, 200), run)
    assert start.kind == "multilevel"
    assert np.isfinite(start.places).all()
    assert start.places.std(axis=0).max() == pytest.approx(1.0, abs=1e-3)  # up to the parts that separate points


@pytest.mark.parametrize("weights", [fuzzy(64, seed=2), cycle(48)], ids=["cloud", "cycle"])
def test_two_levels_have_the_lowest_eigenvectors(run, monkeypatch, weights):
    monkeypatch.setattr(spectral, "MAX_DENSE", 30)
    levels = spectral.Levels(weights, run.gpu)
    assert len(levels.graphs) == 2
    assert levels.components()[0] == 1
    vectors, values = levels.lowest(2, 4, 1e-4)
    vectors = run.gpu.host(vectors)
    W = weights.toarray().astype(float)
    root = np.sqrt(W.sum(axis=1))
    exact, axes = np.linalg.eigh(np.eye(len(W)) - W / root / root[:, None])
    np.testing.assert_allclose(values[:2], exact[1:3], atol=1e-4)  # at most the residuals
    ours = np.linalg.qr(root[:, None] * vectors[:, :2])[0]
    cosines = np.linalg.svd(axes[:, 1:3].T @ ours)[1]
    # The sine of the angle is at most the residual over the gap to the other eigenvalues.
    assert np.sqrt(1 - cosines.min() ** 2) <= 2e-4 / (exact[3] - exact[2])


def test_residuals_of_coarse_vectors_are_small_for_their_values(run):
    weights = cycle(48)
    graph = spectral.Levels(weights, run.gpu).graphs[0]
    start = run.gpu.array(np.random.default_rng(0).standard_normal((48, 4)).astype(np.float32))
    f = run.gpu.host(graph.refined(start, 2, 0.0, 0.01)[0]).astype(float)[:, :2]
    value = 1 - np.cos(2 * np.pi / 48)
    defect = f - weights @ f / weights.sum(axis=1)[:, None] - value * f
    assert (np.linalg.norm(defect, axis=0) <= 0.011 * value * np.linalg.norm(f, axis=0)).all()


def test_components_are_found_and_arranged_as_on_the_cpu(run, monkeypatch):
    A, B = fuzzy(60, seed=3).toarray(), fuzzy(24, seed=4).toarray()
    shuffled = np.random.default_rng(5).permutation(84)
    both = csr_array(np.block([[A, np.zeros((60, 24))], [np.zeros((24, 60)), B]])[shuffled][:, shuffled])
    monkeypatch.setattr(spectral, "MAX_DENSE", 10)
    count, label = spectral.Levels(both, run.gpu).components()
    assert count == 2
    np.testing.assert_array_equal(label == label[0], (shuffled < 60) == (shuffled[0] < 60))
    np.testing.assert_allclose(_spectral(both, 2, run), _spectral(both, 2, Run(0, 1)), atol=1e-12)


def test_a_unit_layout_is_that_of_the_cpu(run):
    Y = np.random.default_rng(6).standard_normal((N, 3))
    Y[1], Y[:, 2] = Y[0], 0.5
    np.testing.assert_allclose(unit_layout(Y, run), unit_layout(Y, Run(0, 1)), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(rounded_layout(Y, True, run.gpu), rounded_layout(Y, True))


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_sweeps_are_those_of_the_cpu(run, n_components):
    weights = fuzzy()
    weights.data[::7] = 1e-3  # too weak to be sampled
    start = np.random.default_rng(7).integers(-3, 4, size=(N, n_components)) / 2.0  # many coordinates are equal
    parameters = LayoutParameters(1.6, 0.9, 5, 1.0, 0.05, 20)
    strong = weights.copy()
    strong.data[strong.data < weights.data.max() / 20] = 0
    strong.eliminate_zeros()
    samples = np.asarray(strong.sum(axis=1)).reshape(-1) / strong.data.max()
    order = np.lexsort((*start.T[::-1], np.round(2 * samples)))
    edges = renumbered(strong, order, Run(0, 1))
    edges.sort_indices()
    there = DeviceRows(start, weights, 20, run.gpu)
    np.testing.assert_array_equal(run.gpu.host(there.order), order)
    expected, sampling = NegativeSampling(edges, parameters, Run(0, 1)), NegativeSampling(there, parameters, run)
    for ours, theirs in zip(sampling._rows, expected._rows, strict=True):
        np.testing.assert_array_equal(run.gpu.host(ours), theirs)  # columns and sampling rates: whole numbers
    Y = start[order].astype(np.float32)
    Z = run.gpu.xp.asarray(Y.copy())
    assert sampling.objective(Z) == pytest.approx(expected.objective(Y), rel=1e-12)
    for epoch in range(3):
        expected._sweep(Y, epoch, 1)
        sampling._sweep(Z, epoch, 1)
    # The tables of the CPU are good to 1e-4 of a move, and six sweeps move no point by more than that of all its edges.
    moves = 0.05 * 4 * np.diff(edges.indptr).max()
    np.testing.assert_allclose(run.gpu.host(Z), Y, rtol=0, atol=1e-4 * 6 * moves)
    assert np.abs(Y - start[order]).max() > 0.1


def test_layouts_keep_neighbors_as_well_as_on_the_cpu_and_are_reproducible(monkeypatch):
    X = datasets.gaussian_clusters(120, random_state=0).X
    settings = {"n_epochs": 12, "n_neighbors": 8, "init": "pca", "learning_rate": 0.5}
    model = UMAP(device="cuda", **settings).fit(X)
    assert model.diagnostics_["device"].startswith("cuda")
    on_cpu = UMAP(**settings).fit(X)
    trust = [float(metrics.trustworthiness(X, each.embedding_, n_neighbors=8)) for each in (model, on_cpu)]
    assert trust[0] > trust[1] - 0.02
    assert model.trace_.objective[-1] == pytest.approx(on_cpu.trace_.objective[-1], rel=0.05)
    monkeypatch.setattr(device, "THREADS", 32)
    monkeypatch.setattr(device.DeviceKernel.over, "__kwdefaults__", {"n_threads": 32})
    np.testing.assert_array_equal(UMAP(device="cuda", **settings).fit(X).embedding_, model.embedding_)


@pytest.mark.parametrize("n_components", [2, 3])
def test_new_points_are_where_the_cpu_has_them(n_components):
    X = datasets.gaussian_clusters(150, random_state=0).X
    model = UMAP(n_components, n_epochs=30, n_neighbors=8, init="pca").fit(X)
    new = np.concatenate([X[:3], X[:12] + 0.05])
    expected = model.transform(new)
    positions = model.set_params(device="cuda").transform(new)
    np.testing.assert_array_equal(positions[:3], model.embedding_[:3])
    # 30 sweeps of at most eight edges with tables that are good to 1e-4, the learning rate falling from a quarter.
    np.testing.assert_allclose(positions, expected, atol=1e-4 * 30 * 8 * 4 * 0.25)
