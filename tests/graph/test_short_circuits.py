"""Short circuits: planted ones, those of rolls that are known from the truth, and none where there are none."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from helpers import bytes_of, distances_by_differences, knn_lists
from manifoldry import ConformalIsomap, Isomap, KernelIsomap, LandmarkIsomap, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry.graph import _short_circuits as module
from manifoldry.graph._operations import bridge, symmetrize
from manifoldry.graph._short_circuits import MIN_AFFECTED_SHARE, detour_lengths, short_circuits

LAYER = 12.0
"""Along a Swiss roll, two points of one layer that are neighbors are nearer than this; those of two layers are not."""


def with_edges(graph, pairs, X):
    i, j = np.array(pairs).T
    rows, columns = np.concatenate([graph.rows(), i, j]), np.concatenate([graph.indices, j, i])
    lengths = np.linalg.norm(X[rows] - X[columns], axis=1)
    n = graph.n_points
    return NeighborGraph.from_sparse(csr_array((lengths, (rows, columns)), shape=(n, n)), symmetric=True)


def across_layers(roll, count):
    """Pairs of points on neighboring layers, close in space and far apart on the sheet, no two near each other."""
    D = distances_by_differences(roll.X)
    D[np.abs(roll.truth[:, :1] - roll.truth[:, 0]) < 15] = np.inf
    pairs = []
    while len(pairs) < count:
        i, j = map(int, np.unravel_index(D.argmin(), D.shape))
        pairs.append((min(i, j), max(i, j)))
        near = np.linalg.norm(roll.truth - roll.truth[i], axis=1) < 8
        near |= np.linalg.norm(roll.truth - roll.truth[j], axis=1) < 8
        D[near], D[:, near] = np.inf, np.inf
    return pairs


@pytest.mark.parametrize("seed", range(3))
def test_planted_short_circuits_are_on_top_and_nearly_alone(seed):
    roll = datasets.swiss_roll(1000, random_state=seed)
    graph = symmetrize(knn_lists(roll.X, 10))
    clean = short_circuits(graph, Run(0, 1))
    assert len(clean) <= 2
    planted = across_layers(roll, 5)
    found = short_circuits(with_edges(graph, planted, roll.X), Run(0, 1))
    assert sorted(map(tuple, found.pairs[:5].tolist())) == sorted(planted)
    assert len(found) <= 5 + 2
    np.testing.assert_allclose(
        found.lengths, np.linalg.norm(roll.X[found.pairs[:, 0]] - roll.X[found.pairs[:, 1]], axis=1), rtol=1e-15
    )
    ratio = found.detours / found.lengths
    assert (np.diff(ratio) <= 0).all()
    # Without the planted edges the way along the sheet is at least as long as the sheet between them.
    apart = np.linalg.norm(roll.truth[found.pairs[:5, 0]] - roll.truth[found.pairs[:5, 1]], axis=1)
    assert (found.detours[:5] > 0.95 * apart).all()


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("k", [10, 15])
def test_uniform_points_raise_no_alarm(columns, k):
    X = np.random.default_rng(columns).uniform(size=(1000, columns))
    found = short_circuits(symmetrize(knn_lists(X, k)), Run(0, 1))
    assert len(found) <= 2  # of some 7,000 edges
    assert (found.detours < 6 * found.lengths).all()  # and these just above the limit of 4


def test_an_edge_that_alone_holds_regions_together_is_no_short_circuit():
    rng = np.random.default_rng(11)
    X = np.concatenate([rng.uniform(size=(300, 2)), rng.uniform(size=(300, 2)) + np.array([3.0, 0.0])])
    joined, bridges = bridge(symmetrize(knn_lists(X, 10)), X, "euclidean")
    assert len(bridges) == 1
    assert len(short_circuits(joined, Run(0, 1))) == 0
    path = np.arange(300.0)[:, None]
    assert len(short_circuits(symmetrize(knn_lists(path, 2)), Run(0, 1))) == 0


def test_the_search_for_short_circuits_changes_no_bit_with_threads_nor_its_graph():
    roll = datasets.swiss_roll(1000)
    graph = with_edges(symmetrize(knn_lists(roll.X, 10)), across_layers(roll, 3), roll.X)
    before = bytes_of(graph)
    one, two = (short_circuits(graph, Run(0, n_jobs)) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.pairs, two.pairs)
    np.testing.assert_array_equal(one.detours, two.detours)
    assert bytes_of(graph) == before


@pytest.mark.parametrize("engine", ["scipy", "compiled"])
def test_detours_are_dijkstras_up_to_their_limits(engine, monkeypatch):
    monkeypatch.setattr(module, "MAX_SCIPY_LENGTHS", np.inf if engine == "scipy" else 0)
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(300, 3))
    X[:20] = X[20:40]  # edges of length zero
    X[-30:] += 9.0  # another component
    graph = symmetrize(knn_lists(X, 6))
    expected = dijkstra(graph.to_sparse(), directed=False)
    pairs = rng.integers(300, size=(2000, 2))
    lengths = expected[tuple(pairs.T)]
    limits = np.where(rng.uniform(size=2000) < 0.5, 0.7, 1.3) * np.where(np.isfinite(lengths), lengths, 1.0)
    for n_jobs in (1, 2, 3, 7, 16):
        detours = detour_lengths(graph, pairs, limits, Run(0, n_jobs))
        np.testing.assert_array_equal(detours, np.where(lengths <= limits, lengths, np.inf))


@pytest.mark.parametrize("seed", range(2))
def test_short_circuits_do_not_depend_on_the_search(seed, monkeypatch):
    graph = symmetrize(knn_lists(datasets.swiss_roll(400, random_state=seed).X, 10))
    found = []
    for limit in (np.inf, 0):
        monkeypatch.setattr(module, "MAX_SCIPY_LENGTHS", limit)
        found.append(short_circuits(graph, Run(0, 1)))
    assert len(found[0]) >= 3
    for name in ("pairs", "lengths", "detours", "affected", "n_neighbors"):
        np.testing.assert_array_equal(*(getattr(each, name) for each in found))


def crossing(roll, graph):
    """The edges between layers of a roll, by the truth, each once."""
    rows = graph.rows()
    jumps = np.abs(roll.truth[rows, 0] - roll.truth[graph.indices, 0]) > LAYER
    once = jumps & (rows < graph.indices)
    return set(zip(rows[once].tolist(), graph.indices[once].tolist(), strict=True))


def told(model):
    return [sentence for sentence in model.diagnostics_["advice"] if "short circuits" in sentence]


@pytest.mark.parametrize("n", [300, 400])
@pytest.mark.parametrize("seed", range(5))
def test_all_edges_between_layers_of_a_thin_roll_are_found_and_no_others(n, seed):
    roll = datasets.swiss_roll(n, random_state=seed)
    graph = symmetrize(knn_lists(roll.X, 10))
    found = short_circuits(graph, Run(0, 1))
    assert set(map(tuple, found.pairs.tolist())) == crossing(roll, graph)
    assert len(found) >= 3
    assert found.affected > MIN_AFFECTED_SHARE
    fewer = symmetrize(knn_lists(roll.X, found.n_neighbors))
    assert not crossing(roll, fewer)
    assert crossing(roll, symmetrize(knn_lists(roll.X, found.n_neighbors + 1)))


@pytest.mark.parametrize("seed", range(4))
def test_without_its_short_circuits_isomap_unfolds_the_thin_roll(seed):
    roll = datasets.swiss_roll(300, random_state=seed)
    model = Isomap().fit(roll.X)
    assert metrics.procrustes(model.embedding_, roll.truth).error > 0.5
    found = model.diagnostics_["short_circuits"]
    cleaned = Isomap().fit(found.removed_from(model.graph_))
    assert metrics.procrustes(cleaned.embedding_, roll.truth).error < 0.02
    assert len(short_circuits(cleaned.graph_, Run(0, 1))) == 0
    assert not told(cleaned)
    assert int(model.suggest_n_components()) == 2  # as it is without them


def test_affected_is_the_share_of_longer_paths():
    """A path of 200 points with one edge between its ends: ways around the ring against ways along the path."""
    n = 200
    steps = np.arange(n - 1)
    near = [(i, i + s) for s in (1, 2, 3, 4, 5, 6) for i in steps[: n - s]]
    length = {pair: abs(pair[0] - pair[1]) * 1.0 for pair in near} | {(0, n - 1): 4.0}
    i, j = np.array(list(length)).T
    both = csr_array((list(length.values()), (i, j)), shape=(n, n))
    found = short_circuits(NeighborGraph.from_sparse(both + both.T, symmetric=True), Run(0, 1))
    assert found.pairs.tolist() == [[0, n - 1]]
    assert found.detours.tolist() == [n - 1.0]
    gap = np.abs(np.arange(n)[:, None] - np.arange(n))
    ring = np.minimum(gap, n - 1 - gap + 4)
    share = float(np.mean(gap[ring > 0] > 1.25 * ring[ring > 0]))
    # 32 of 200 points are sources: the share of a point's own lies between 0.3 and 0.5, its deviation below 0.1.
    assert found.affected == pytest.approx(share, abs=4 * 0.1 / np.sqrt(32))


@pytest.mark.parametrize("method", [Isomap, LandmarkIsomap, ConformalIsomap, KernelIsomap])
def test_geodesic_methods_say_what_to_do(method):
    thin, dense = datasets.swiss_roll(300), datasets.swiss_roll(1000)
    (sentence,) = told(method().fit(thin.X))
    for words in ("40 of its", "short circuits", "n_neighbors=4", "remove_short_circuits=True"):
        assert words in sentence
    assert not told(method().fit(dense.X))


@pytest.mark.parametrize(
    "X",
    [
        np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), -1).reshape(-1, 2),
        datasets.swiss_roll(1000, hole=True).X,
        datasets.s_curve(800).X,
        np.random.default_rng(0).normal(size=(1000, 10)),
    ],
    ids=["grid", "holed roll", "s-curve", "gaussian"],
)
@pytest.mark.parametrize("k", [8, 10, 15])
def test_clean_data_raise_no_alarm(X, k):
    assert len(short_circuits(symmetrize(knn_lists(X, k)), Run(0, 1))) == 0


def test_nothing_depends_on_the_unit():
    X = datasets.swiss_roll(300).X
    one, other = (short_circuits(symmetrize(knn_lists(X * unit, 10)), Run(0, 1)) for unit in (1.0, 2.0**-40))
    np.testing.assert_array_equal(one.pairs, other.pairs)
    np.testing.assert_array_equal(one.detours * 2.0**-40, other.detours)
    assert one.affected == other.affected


def test_those_of_a_component_are_not_taken_for_those_of_the_whole():
    X = datasets.swiss_roll(300).X
    two = np.concatenate([X, X + 1000.0])
    model = Isomap(disconnected="apart").fit(two)
    found = model.diagnostics_["short_circuits"]
    assert found.n_points == 300
    with pytest.raises(ValueError, match="one component with 300 points; got a graph with 600"):
        found.removed_from(model.graph_)
    assert int(model.suggest_n_components()) == 2
