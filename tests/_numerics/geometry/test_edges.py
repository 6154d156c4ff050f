"""Options of the graph: the roll unfolds without its short circuits, and new points are treated as the fitted ones."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import manifoldry
from helpers import bent_sheet
from manifoldry import LLE, DiffusionMaps, Isomap, LaplacianEigenmaps, NeighborGraph, datasets, metrics
from manifoldry import neighborhood_graph as build_graph
from manifoldry._core.run import Run
from manifoldry._numerics.geometry.edges import MIN_PLANARITY, linearity_lengths
from manifoldry.graph._search import NeighborRule, neighbor_graph

ROLL = datasets.swiss_roll(300, random_state=1)
RUN = Run(0, 1)


def error(model, X):
    return metrics.procrustes(model.fit(X).embedding_, ROLL.truth).error


def test_the_roll_with_short_circuits_unfolds_without_them():
    assert error(Isomap(n_neighbors=12), ROLL.X) > 0.5
    model = Isomap(n_neighbors=12, remove_short_circuits=True)
    assert error(model, ROLL.X) < 0.02
    assert model.diagnostics_["removed_short_circuits"] > 40
    across = np.abs(ROLL.truth[model.graph_.rows()] - ROLL.truth[model.graph_.indices])[:, 0]
    assert across.max() < 15  # a turn of the roll is 30 and more
    assert error(Isomap(), build_graph(ROLL.X, n_neighbors=12, edge_lengths="local_linearity")) < 0.1
    assert error(Isomap(), build_graph(ROLL.X, n_neighbors=12, remove_short_circuits=True)) < 0.02
    given = Isomap(remove_short_circuits=True)
    assert error(given, build_graph(ROLL.X, n_neighbors=12)) < 0.02
    assert isinstance(given.graph_, NeighborGraph)


@pytest.mark.parametrize("method", [Isomap, LaplacianEigenmaps, LLE])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fitted_rows_keep_their_coordinates(method):
    X = ROLL.X[:150]
    two = np.concatenate([X[:70], X[:70] + 200])
    for rows, disconnected in ((X, "bridge"), (two, "apart"), (two, "bridge")):
        model = method(n_neighbors=10, disconnected=disconnected, remove_short_circuits=True).fit(rows)
        size = np.abs(model.embedding_).max()
        np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=1e-8 * size)
        assert model.diagnostics_["n_neighbors"] == 10


@pytest.mark.parametrize("lengths", ["means", "kl"])
def test_distances_serve_as_rows_do(lengths):
    X = np.random.default_rng(0).normal(size=(120, 6))  # no two of these have the same neighborhood
    rows = build_graph(X, n_neighbors=8, edge_lengths=lengths)
    distances = build_graph(cdist(X, X), metric="precomputed", n_neighbors=8, edge_lengths=lengths)
    by_rows, by_distances = (np.sort(graph.lengths.reshape(120, 8), axis=1) for graph in (rows, distances))
    np.testing.assert_allclose(by_distances, by_rows, atol=1e-6)  # means may coincide: roots of rounding


def test_means_are_those_of_points_and_their_neighbors():
    X = ROLL.X[:90]
    near = build_graph(X, n_neighbors=6).indices.reshape(-1, 6)
    expected = build_graph((X + X[near].sum(axis=1)) / 7, n_neighbors=6)
    for rows in (X, csr_array(X)):
        graph = build_graph(rows, n_neighbors=6, edge_lengths="means")
        np.testing.assert_allclose(graph.lengths, expected.lengths, atol=1e-6)


def test_new_points_beside_short_circuits_stay_on_their_sheet():
    new = datasets.swiss_roll(400, random_state=7)
    model = Isomap(n_neighbors=12, remove_short_circuits=True).fit(ROLL.X)
    neighbors, _ = model._extension.index.query(new.X, RUN)
    across = np.abs(new.truth[:, None, 0] - ROLL.truth[neighbors, 0])
    assert np.where(neighbors >= 0, across, 0).max() < 15
    plain, _ = Isomap(n_neighbors=12).fit(ROLL.X)._extension.index.query(new.X, RUN)
    assert np.abs(new.truth[:, None, 0] - ROLL.truth[plain, 0]).max() > 30


def test_a_fit_without_short_circuits_is_saved_and_loaded(tmp_path):
    model = Isomap(n_neighbors=8, remove_short_circuits=True).fit(ROLL.X[:100])
    model.save(tmp_path / "model.mfy")
    loaded = manifoldry.load(tmp_path / "model.mfy")
    np.testing.assert_array_equal(loaded.transform(ROLL.X[100:120]), model.transform(ROLL.X[100:120]))


def test_targets_lengthen_the_edges_that_remain():
    X = bent_sheet(80)
    y = (X[:, 2] > np.median(X[:, 2])).astype(int)
    plain = Isomap(n_neighbors=8, remove_short_circuits=True).fit(X)
    steered = Isomap(n_neighbors=8, remove_short_circuits=True, target_weight=0.5).fit(X, y)
    before, after = plain.graph_.to_sparse(), steered.graph_.to_sparse()
    assert set(zip(*before.nonzero(), strict=True)) == set(zip(*after.nonzero(), strict=True))
    i, j = before.nonzero()
    # Half the weight puts classes as far apart as neighbors are in the median: d becomes the root of d^2 + h^2.
    distance = np.where(y[i] != y[j], steered.diagnostics_["target_distance"], 0.0)
    np.testing.assert_allclose(after[i, j], np.hypot(before[i, j], distance), rtol=1e-12)


def test_copies_of_a_point_stay_together():
    X = np.concatenate([ROLL.X[:80], ROLL.X[:5]])
    for lengths in ("kl", "local_linearity"):
        Y = Isomap().fit_transform(build_graph(X, n_neighbors=8, edge_lengths=lengths))
        np.testing.assert_allclose(Y[80:], Y[:5], atol=1e-9 * np.abs(Y).max())


def test_points_with_the_same_neighborhood_keep_their_shape():
    X = ROLL.X[:25]  # all others are neighbors: the plain graph in another unit
    graphs = (build_graph(X, n_neighbors=24, edge_lengths=lengths) for lengths in ("distance", "kl"))
    plain, kl = (Isomap().fit_transform(graph) for graph in graphs)
    np.testing.assert_allclose(kl * (np.ptp(plain) / np.ptp(kl)), plain, atol=1e-9 * np.ptp(plain))


@pytest.mark.parametrize("lengths", ["kl", "bhattacharyya"])
def test_lengths_know_no_unit(lengths):
    one, other = (build_graph(unit * ROLL.X[:90], n_neighbors=8, edge_lengths=lengths) for unit in (1.0, 2.0**30))
    np.testing.assert_array_equal(other.indices, one.indices)
    np.testing.assert_allclose(other.lengths, one.lengths, atol=1e-9 * np.abs(one.lengths).max())


def test_what_cannot_be_measured_is_an_error():
    X = ROLL.X[:40]
    D = cdist(X, X)
    with pytest.raises(ValueError, match="needs rows of features; got distances"):
        build_graph(D, metric="precomputed", edge_lengths="local_linearity")
    with pytest.raises(ValueError, match="affinity"):
        LaplacianEigenmaps(metric="affinity", remove_short_circuits=True).fit(np.exp(-D))
    with pytest.raises(ValueError, match="sparse"):
        DiffusionMaps(kernel="complete", remove_short_circuits=True).fit(X)


def test_on_a_plane_lengths_are_distances_and_an_upright_edge_counts_a_hundredfold():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 10, size=(200, 2)), np.zeros(200)])
    X[100:, 2] = 8.0  # two sheets
    X[100, :2] = X[0, :2]
    lists, _ = neighbor_graph(X, NeighborRule(8).resolve(200), RUN)
    np.testing.assert_allclose(linearity_lengths(X, lists, 2, RUN), lists.lengths, rtol=1e-12)
    edges = np.append(lists.rows(), 0), np.append(lists.indices, 100), np.append(lists.lengths, 8.0)
    joined = NeighborGraph.from_pairs(*edges, 200)
    upright = (joined.rows() == 0) & (joined.indices == 100)
    np.testing.assert_allclose(linearity_lengths(X, joined, 2, RUN)[upright], 8.0 / MIN_PLANARITY)


def test_an_edge_at_an_angle_is_divided_by_the_fourth_powers_of_its_cosines():
    line = np.column_stack([np.arange(30.0), np.zeros(30)])
    X = np.concatenate([line, line + np.array([0.5, 1.0]), [[10.0, 0.5]]])
    rows, columns = np.nonzero((cdist(X[:60], X[:60]) < 4.1) & (X[:60, 1:] == X[:60, 1]) & ~np.eye(60, dtype=bool))
    lengths = np.linalg.norm(X[rows] - X[columns], axis=1)
    slope = np.array([1.5, 1.0])
    lists = NeighborGraph.from_pairs(np.append(rows, 10), np.append(columns, 41), np.append(lengths, 100.0), 61)
    steep = (lists.rows() == 10) & (lists.indices == 41)
    cosine = slope[0] / np.linalg.norm(slope)
    np.testing.assert_allclose(linearity_lengths(X, lists, 1, RUN)[steep], 100.0 / cosine**8)
