"""The objective never rises, medoids are the best there are, and both agree with slow twins."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import floyd_warshall

from helpers import knn_graph, subspace_error
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph, Stop
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import label_components
from manifoldry.methods.clusters import _geodesics as geodesics
from manifoldry.methods.clusters._alternation import Problem, _State, alternate, best_of, compact, connected_labels
from manifoldry.methods.clusters._geodesics import GeodesicsOnDemand, PrecomputedGeodesics, graph_geodesics
from manifoldry.methods.clusters._subspaces import AffineSubspaces

EPS = np.finfo(float).eps


def clouds(seed):
    """Random data of several kinds: Gaussian, on a grid (ties), with duplicates, in far pieces."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 60)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d))
    kind = seed % 4
    if kind == 1:
        X = np.round(X)
    if kind == 2:
        X = X[rng.integers(0, n // 3, n)]
    if kind == 3:
        X[: n // 2] += 50.0
    return X


def lengths_of(graph):
    """All shortest paths by another algorithm; sparse zeros are pairs of length zero."""
    dense = np.full((graph.n_points, graph.n_points), np.inf)
    np.fill_diagonal(dense, 0.0)
    dense[graph.rows(), graph.indices] = graph.lengths
    for through in range(graph.n_points):
        dense = np.minimum(dense, dense[:, [through]] + dense[through])
    return dense


@pytest.mark.filterwarnings("ignore::manifoldry.DisconnectedWarning")
@pytest.mark.parametrize("on_demand", [False, True], ids=["precomputed", "on demand"])
def test_connecting_costs_no_more_than_giving_the_parts_away(on_demand, monkeypatch):
    """The clusters of Algorithm 4 with the smaller parts given away are met, and only better ones take their place."""
    if on_demand:
        monkeypatch.setattr(geodesics, "MAX_PRECOMPUTED_POINTS", 0)
    torn = 0
    for seed in range(48):
        X = clouds(seed)
        rng = np.random.default_rng(100 + seed)
        c, graph = int(rng.integers(1, 9)), knn_graph(X, 4)
        problem = problem_of(X, 1e-3, c)
        seeds = problem.seeds(c, rng)
        alone, connected = alternate(problem, seeds), alternate(replace(problem, graph=graph), seeds)
        subspaces = AffineSubspaces.of_clusters(problem.X, alone.labels, len(alone.medoids), 1)
        costs = (1 - 1e-3) * subspaces.squared_distances(problem.X).T + 1e-3 * problem.geodesics.rows(alone.medoids)
        given = connected_labels(alone.labels, costs, graph)
        limit = costs[given, np.arange(len(X))].sum()
        assert connected.objective <= limit + 1e-12 * np.square(problem.X).sum()
        component = label_components(np.zeros(len(X), dtype=int), graph)[0]
        n_parts = len(label_components(connected.labels, graph)[1])
        assert n_parts == len(np.unique(np.column_stack([connected.labels, component]), axis=0))
        assert connected.trace.objective[-1] == connected.objective
        if np.array_equal(given, alone.labels):
            assert np.array_equal(connected.labels, alone.labels)
            assert connected.joined == 0
        else:
            torn += 1
    assert torn >= 10


def problem_of(X, rho, n_clusters, r=1, max_iter=100, tol=0.0):
    found = graph_geodesics(X, knn_graph(X, 4), n_clusters, "euclidean", Run(0, 1))[0] if rho > 0 else None
    return Problem(compact(X), r, rho, found, max_iter, tol)


@pytest.mark.filterwarnings("ignore::manifoldry.DisconnectedWarning")
@pytest.mark.parametrize("on_demand", [False, True], ids=["precomputed", "on demand"])
@pytest.mark.parametrize("rho", [0.0, 0.01, 0.4, 1.0])
def test_no_half_step_raises_the_objective(rho, on_demand, monkeypatch):
    if on_demand:
        monkeypatch.setattr(geodesics, "MAX_PRECOMPUTED_POINTS", 0)
    for seed in range(24):
        X = clouds(seed)
        rng = np.random.default_rng(100 + seed)
        c = int(rng.integers(1, 9))
        problem = problem_of(X, rho, c)
        outcome = alternate(problem, problem.seeds(c, rng))
        psi = outcome.trace.objective
        # Each value is a sum of n costs, each with the roundings of squared distances up to the squared spread.
        slack = 100 * EPS * len(X) * max(float(np.square(problem.X).sum(axis=1).max()), psi[0])
        assert np.diff(psi).max(initial=0.0) <= slack, seed
        assert outcome.trace.stop is Stop.CONVERGED, seed
        assert np.array_equal(np.unique(outcome.labels), np.arange(len(outcome.medoids))), seed


@pytest.mark.filterwarnings("ignore::manifoldry.DisconnectedWarning")
@pytest.mark.parametrize("rho", [0.0, 0.05, 1.0])
def test_the_objective_is_the_sum_of_its_two_terms(rho):
    for seed in (0, 4, 8):  # connected clouds
        X = clouds(seed)
        c = 4
        problem = problem_of(X, rho, c)
        outcome = alternate(problem, problem.seeds(c, np.random.default_rng(seed)))
        flat = subspace_error(X, outcome.labels, 1) if rho < 1 else 0.0
        own = lengths_of(knn_graph(X, 4))[outcome.medoids[outcome.labels], np.arange(len(X))]
        geodesic = np.square(own).sum() if rho > 0 else 0.0
        assert outcome.objective == pytest.approx((1 - rho) * flat + rho * geodesic, rel=1e-10)


def test_shortest_paths_of_the_twin_are_shortest_paths():
    graph = knn_graph(clouds(0), 4)
    expected = floyd_warshall(graph.to_sparse(), directed=False)
    np.testing.assert_allclose(lengths_of(graph), expected, rtol=1e-12)


def test_when_no_label_changes_every_point_is_where_it_costs_least():
    X = clouds(0)
    problem = problem_of(X, 0.1, 5)
    outcome = alternate(problem, problem.seeds(5, np.random.default_rng(0)))
    squares = np.square(lengths_of(knn_graph(X, 4)))
    costs = np.empty((len(X), 5))
    for label in range(5):
        members = X[outcome.labels == label]
        direction = np.linalg.svd(members - members.mean(axis=0))[2][0]
        offsets = X - members.mean(axis=0)
        left = np.square(offsets).sum(axis=1) - (offsets @ direction) ** 2
        costs[:, label] = 0.9 * left + 0.1 * squares[outcome.medoids[label]]
        candidates = np.append(np.flatnonzero(outcome.labels == label), outcome.medoids[label])
        sums = squares[np.ix_(candidates, outcome.labels == label)].sum(axis=1)
        assert sums[-1] <= sums.min() * (1 + 1e-12)  # the medoid, of all members the best
    own = costs[np.arange(len(X)), outcome.labels]
    assert (own <= costs.min(axis=1) + 1e-12 * costs.max()).all()


@pytest.mark.parametrize("seed", [0, 4, 8])
@pytest.mark.parametrize("kind", ["precomputed", "on demand"])
def test_better_medoids_are_the_best_there_are(kind, seed):
    X = clouds(seed)
    n = len(X)
    graph = knn_graph(X, 4)
    squares = np.square(lengths_of(graph))
    component = np.zeros(n, dtype=int)
    precomputed, on_demand = PrecomputedGeodesics(squares, component), GeodesicsOnDemand(graph, component, 1)
    source = precomputed if kind == "precomputed" else on_demand
    search = source.search()
    rng = np.random.default_rng(1)
    medoids = rng.choice(n, 3, replace=False)
    labels = rng.integers(0, 3, n)
    for _ in range(6):  # the sums are carried along as points move
        labels = np.where(rng.random(n) < rng.choice([0.02, 0.2]), rng.integers(0, 3, n), labels)
        found, rows = search(labels, medoids, source.rows(medoids), np.array([True, True, False]))
        for label in range(2):
            candidates = np.append(np.flatnonzero(labels == label), medoids[label])
            sums = squares[np.ix_(candidates, labels == label)].sum(axis=1)
            assert found[label] == candidates[np.argmin(sums)]
        assert found[2] == medoids[2]  # was not asked for
        np.testing.assert_allclose(rows, squares[found], rtol=1e-12)


def on_a_line(places, kind):
    """Geodesics between places of a line, each joined to the next."""
    places = np.asarray(places, dtype=float)
    n = len(places)
    i = np.concatenate([np.arange(n - 1), np.arange(1, n)])
    j = np.concatenate([np.arange(1, n), np.arange(n - 1)])
    steps = csr_array((np.abs(places[i] - places[j]), (i, j)), shape=(n, n))
    component = np.zeros(n, dtype=int)
    if kind == "on demand":
        return GeodesicsOnDemand(NeighborGraph.from_sparse(steps, symmetric=True), component, 1)
    return PrecomputedGeodesics(np.square(places[:, None] - places), component)


@pytest.mark.parametrize("kind", ["precomputed", "on demand"])
def test_a_medoid_that_left_its_cluster_stays_while_no_member_is_better(kind):
    source = on_a_line([-1.0, 0.0, 1.0], kind)
    labels, medoids = np.array([0, 1, 0]), np.array([1, 1])
    found, _ = source.search()(labels, medoids, source.rows(medoids), np.array([True, True]))
    assert found.tolist() == [1, 1]  # 1 + 1 against 0 + 4


@pytest.mark.parametrize("kind", ["precomputed", "on demand"])
def test_a_medoid_at_one_end_is_found_from_the_middle(kind):
    source = on_a_line([0.0] * 10 + [5.0, 10.0], kind)
    labels, medoids = np.array([0] * 10 + [1, 0]), np.array([10, 10])
    found, rows = source.search()(labels, medoids, source.rows(medoids), np.array([True, False]))
    assert found[0] < 10  # 100 against 11 x 25, though the farthest member is twice as far from there
    assert rows[0].tolist() == [0.0] * 10 + [25.0, 100.0]


def test_the_only_point_of_a_cluster_is_not_taken_to_fill_another():
    source = on_a_line(np.arange(6.0), "precomputed")
    problem = Problem(np.arange(6.0)[:, None], 1, 1.0, source, 10, 0.0)
    state = _State(problem, np.array([0, 3, 5]))
    state.labels = np.array([0, 0, 0, 0, 0, 1])
    costs = np.zeros((3, 6))
    costs[1, 5], costs[0, 4] = 9.0, 4.0
    assert state._fill_empty(costs)
    assert state.labels.tolist() == [0, 0, 0, 0, 2, 1]
    assert state.medoids[2] == 4


def test_bounds_of_sums_are_below_the_sums_and_leave_few_members_to_try():
    """As clusters change, what is kept of the sums stays below them; on a sheet most members are not searched from."""
    X = np.random.default_rng(5).uniform(size=(900, 2))
    graph = knn_graph(X, 8)
    squares = np.square(geodesic_lengths(graph, Run(0, 1))[0])
    search = GeodesicsOnDemand(graph, np.zeros(900, dtype=int), 1).search()
    medoids = np.random.default_rng(6).choice(900, 6, replace=False)
    rows = squares[medoids].copy()
    for _ in range(8):
        labels = np.argmin(rows, axis=0)
        medoids, rows = search(labels, medoids, rows, np.ones(6, dtype=bool), np.zeros(900))
        sums = np.array([squares[i, labels == labels[i]].sum() for i in range(900)])
        # Rounding of sums of 150 squares that cancel in part.
        assert (search.low <= sums * (1 + 1e-12) + 1e-12).all()
        for label in range(6):
            assert sums[medoids[label]] == pytest.approx(sums[labels == label].min(), rel=1e-12)
    assert search.counts[0] < 0.25 * 8 * 900


def test_rows_without_what_cannot_matter_lead_to_the_same_labels():
    """On demand, distances end where they alone cost more; labels, medoids and objectives are as with all distances."""
    X = np.random.default_rng(7).uniform(size=(600, 2)) * [4.0, 1.0]
    X = np.column_stack([X, np.sin(2 * X[:, 0])])
    graph = knn_graph(X, 6)
    squares, component = np.square(geodesic_lengths(graph, Run(0, 1))[0]), np.zeros(600, dtype=int)
    for rho in (0.02, 0.3, 1.0):
        for seed in range(3):
            outcomes = []
            for source in (PrecomputedGeodesics(squares, component), GeodesicsOnDemand(graph, component, 1)):
                problem = Problem(X, 1, rho, source, 100, 0.0)
                outcomes.append(alternate(problem, problem.seeds(9, np.random.default_rng(seed))))
            assert np.array_equal(outcomes[0].labels, outcomes[1].labels)
            assert np.array_equal(outcomes[0].medoids, outcomes[1].medoids)
            np.testing.assert_allclose(outcomes[0].trace.objective, outcomes[1].trace.objective, rtol=1e-12)
            assert np.diff(outcomes[1].trace.objective).max() <= 1e-12 * outcomes[1].trace.objective[0]


def test_an_empty_cluster_begins_anew_where_the_cost_is_largest():
    line = np.concatenate([np.zeros(5), np.arange(1.0, 11.0)])[:, None]
    squares = np.square(line - line.T)
    problem = Problem(line, 1, 1.0, PrecomputedGeodesics(squares, np.zeros(15, dtype=int)), 100, 0.0)
    outcome = alternate(problem, np.array([0, 1, 2]))  # three seeds at one place: two of them get nobody
    assert len(outcome.medoids) == 3
    assert np.diff(outcome.trace.objective).max() <= 0
    # All 15 places in three intervals: the best division costs no more than a thirtieth of one cluster's cost.
    assert outcome.objective <= 0.2 * squares.sum(axis=1).min()


def test_clusters_without_any_error_left_are_dropped():
    places = np.repeat([[0.0, 0.0], [5.0, 1.0]], 6, axis=0)
    problem = Problem(places, 1, 0.0, None, 100, 0.0)
    outcome = alternate(problem, np.arange(0, 12, 3))
    assert len(outcome.medoids) == 2
    assert outcome.objective == pytest.approx(0.0, abs=1e-28)


def test_every_component_gets_a_seed():
    component = np.array([0] * 50 + [1] * 2 + [2])
    problem = Problem(np.zeros((53, 1)), 1, 1.0, PrecomputedGeodesics(np.zeros((53, 53)), component), 1, 0.0)
    for seed in range(20):
        chosen = problem.seeds(4, np.random.default_rng(seed))
        assert len(set(chosen)) == 4
        assert set(component[chosen]) == {0, 1, 2}


def test_points_of_more_columns_than_rows_are_turned_without_stretching():
    X = np.random.default_rng(0).standard_normal((12, 40)) + 7.0
    small = compact(X)
    assert small.shape == (12, 12)
    between = lambda A: np.sqrt(np.square(A[:, None] - A).sum(axis=-1))  # noqa: E731
    # Householder reflections keep lengths to a few eps times the columns.
    np.testing.assert_allclose(between(small), between(X), rtol=1e-12, atol=1e-12)
    assert np.array_equal(compact(X[:, :3]), X[:, :3] - X[:, :3].mean(axis=0))


def test_the_best_of_several_starts_is_returned_and_a_limit_is_told():
    X = clouds(0)
    problem = problem_of(X, 0.1, 5)
    best, objectives = best_of(problem, 5, 6, Run(0, 2))
    assert len(objectives) == 6
    assert best.objective == objectives.min()
    hasty = problem_of(X, 0.1, 5, max_iter=1)
    stops = {alternate(hasty, hasty.seeds(5, np.random.default_rng(seed))).trace.stop for seed in range(6)}
    assert Stop.LIMIT in stops


def test_a_tolerance_ends_the_rounds_earlier():
    X = np.random.default_rng(3).standard_normal((300, 3))
    exact, loose = (problem_of(X, 0.0, 8, tol=tol) for tol in (0.0, 0.05))
    seeds = exact.seeds(8, np.random.default_rng(0))
    assert alternate(loose, seeds).trace.n_iter < alternate(exact, seeds).trace.n_iter
    assert alternate(loose, seeds).trace.stop is Stop.CONVERGED


def test_geodesics_between_components_are_infinite_or_bridged():
    X = np.concatenate([np.arange(6.0), 100 + np.arange(6.0)])[:, None]
    rows = [(i, j) for i in range(12) for j in (i - 1, i + 1) if 0 <= j < 12 and (i < 6) == (j < 6)]
    indptr = np.concatenate([[0], np.cumsum(np.bincount([i for i, _ in rows]))])
    graph = NeighborGraph(indptr, np.array([j for _, j in rows]), np.ones(len(rows)), symmetric=True)
    apart, notes = graph_geodesics(X, graph, 2, "euclidean", Run(0, 1))
    assert np.isinf(apart.rows(np.array([0]))[0, 6:]).all()
    assert apart.rows(np.array([0]))[0, 5] == 25.0
    assert notes == {"components": 2}
    with pytest.warns(match=r"2 connected components, .* n_clusters \(now 1\)"):
        joined, notes = graph_geodesics(X, graph, 1, "euclidean", Run(0, 1))
    assert joined.rows(np.array([0]))[0, 6] == 100.0**2
    assert notes["bridges"].tolist() == [[5.0, 6.0, 95.0]]
