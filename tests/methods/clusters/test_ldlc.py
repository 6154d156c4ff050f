"""LDLC, VQPCA and geodesic k-medoids on data whose clusters are known."""

import itertools

import numpy as np
import pytest
from scipy.sparse import block_diag, diags_array
from scipy.sparse.csgraph import dijkstra

import manifoldry
from helpers import subspace_error
from manifoldry import LDLC, VQPCA, GeodesicKMedoids, datasets
from manifoldry._core.values import NeighborGraph, Stop
from manifoldry.methods.clusters import _alternation as alternation
from manifoldry.methods.clusters import _geodesics as geodesics
from manifoldry.methods.clusters._alternation import connected_labels


def crossing_lines(n=120, seed=0):
    rng = np.random.default_rng(seed)
    along = rng.uniform(-1, 1, n)
    rising = np.arange(n) < n // 2
    return np.column_stack([along, np.where(rising, along, -along)]), rising.astype(int)


def roof(n=40):
    """Three planks of a zigzag, each exactly flat, that meet at edges in the air."""
    u, v = (grid.ravel() for grid in np.meshgrid(np.linspace(0.0, 3.0, n), np.linspace(0.0, 0.5, 6)))
    height = np.abs((u + 1.0) % 2.0 - 1.0)
    return np.column_stack([u, height, v]), np.minimum(u.astype(int), 2), u


def agreement(a, b):
    """Share of points told apart alike, under the best matching of labels."""
    table = np.array([[np.sum((a == i) & (b == j)) for j in np.unique(b)] for i in np.unique(a)])
    best = max(
        sum(table[i, j] for i, j in zip(range(len(table)), order, strict=False))
        for order in itertools.permutations(range(table.shape[1]))
    )
    return best / len(a)


def test_vqpca_tells_two_crossing_lines_apart():
    X, truth = crossing_lines()
    model = VQPCA(n_clusters=2, n_components=1).fit(X)
    # 120 squares of zero, each to a few roundings of coordinates below 1.5.
    assert model.objective_ <= 1e-13
    assert agreement(model.labels_, truth) == 1.0
    assert model.reconstruction_error_ <= 1e-28


def test_flat_pieces_are_recovered():
    X, truth, u = roof()
    away = np.abs(u - np.round(u)) > 0.05  # points on an edge belong to both planks
    model = LDLC(n_clusters=3, rho=0.001, n_init=20).fit(X)
    assert agreement(model.labels_[away], truth[away]) == 1.0
    assert model.n_nonlocalized_ == 0
    assert model.reconstruction_error_ <= 1e-3
    assert np.array_equal(model.labels_[model.medoids_], np.arange(3))


def test_the_limits_of_the_weight_are_vqpca_and_geodesic_k_medoids():
    X = datasets.swiss_roll(300, random_state=1).X
    flat, zero = VQPCA(n_clusters=6).fit(X), LDLC(n_clusters=6, rho=0.0).fit(X)
    assert np.array_equal(flat.objectives_, zero.objectives_)
    assert np.array_equal(flat.labels_, zero.labels_)
    assert not hasattr(zero, "medoids_")
    near, one = GeodesicKMedoids(n_clusters=6).fit(X), LDLC(n_clusters=6, rho=1).fit(X)
    assert np.array_equal(near.objectives_, one.objectives_)
    assert np.array_equal(near.medoids_, one.medoids_)


def test_points_of_a_line_are_divided_evenly():
    """On a line in space, subspaces of one dimension leave no error: the objective is the geodesic term alone."""
    line = np.linspace(0, 1, 50)[:, None] * [1.0, 2.0, 2.0]
    model = LDLC(n_clusters=5, n_components=1, rho=0.5).fit(line)
    # Ten points each, spaced 3 / 49: the least sum of squares about the best member is 85 spacings squared.
    assert model.objective_ == pytest.approx(0.5 * 5 * 85 * (3 / 49) ** 2, rel=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.02, 1.0])
def test_new_points_go_where_they_cost_least(rho):
    X, Q = datasets.swiss_roll(400, random_state=2).X, datasets.swiss_roll(30, random_state=3).X
    model = LDLC(n_clusters=8, rho=rho, n_neighbors=6).fit(X)
    costs = (1 - rho) * model.subspaces_.squared_distances(Q)
    if rho:
        lengths = dijkstra(model.graph_.to_sparse(), indices=model.medoids_)
        for number, point in enumerate(Q):
            gaps = np.linalg.norm(X - point, axis=1)
            close = np.argsort(gaps)[:6]
            costs[number] += rho * np.min(gaps[close] + lengths[:, close], axis=1) ** 2
    assert np.array_equal(model.predict(Q), costs.argmin(axis=1))
    assert np.array_equal(model.predict(X), model.labels_)


def two_sheets(far=50.0):
    X = np.random.default_rng(5).uniform(size=(60, 2)) * [4.0, 1.0]
    return np.concatenate([X, X[:40] + far])


@pytest.mark.parametrize("cls", [LDLC, GeodesicKMedoids])
def test_every_component_has_a_medoid_where_there_are_enough(cls):
    X = two_sheets()
    model = cls(n_clusters=3, n_components=1, n_neighbors=5, n_init=5).fit(X)
    assert model.diagnostics_["components"] == 2
    assert "bridges" not in model.diagnostics_
    assert np.isfinite(model.objectives_).all()
    assert {int(medoid) < 60 for medoid in model.medoids_} == {True, False}
    squares = np.square(dijkstra(model.graph_.to_sparse()))
    for label, medoid in enumerate(model.medoids_):
        members = np.flatnonzero(model.labels_ == label)
        assert len({i < 60 for i in members}) == 1
        assert squares[medoid, members].sum() <= squares[np.ix_(members, members)].sum(axis=1).min() * (1 + 1e-12)
    assert np.array_equal(model.predict(X), model.labels_)


def test_fewer_clusters_than_components_are_bridged():
    X = np.concatenate([two_sheets(), two_sheets()[:30] + 200.0])
    with pytest.warns(manifoldry.DisconnectedWarning, match=r"3 connected components, .* n_clusters \(now 2\)"):
        model = LDLC(n_clusters=2, n_components=1, n_neighbors=5).fit(X)
    assert len(model.diagnostics_["bridges"]) == 2
    assert model.n_clusters_ == 2
    assert model.n_nonlocalized_ == 1  # judged on the graph as it was found
    with pytest.warns(manifoldry.DisconnectedWarning):
        split = LDLC(n_clusters=2, n_components=1, n_neighbors=5, split=True).fit(X)
    assert split.n_clusters_ == 3
    assert split.localized_.all()
    assert split.diagnostics_["split"] == 1


def test_split_clusters_share_a_subspace_and_lower_the_objective(monkeypatch):
    X = datasets.swiss_roll(400, random_state=4).X
    monkeypatch.setattr(alternation, "connected_labels", lambda labels, *_: labels)
    whole = LDLC(n_clusters=8, rho=1e-4, n_init=3).fit(X)
    parts = LDLC(n_clusters=8, rho=1e-4, n_init=3, split=True).fit(X)
    assert whole.n_nonlocalized_ > 0
    assert parts.localized_.all()
    assert parts.n_clusters_ > 8
    assert parts.diagnostics_["split"] == whole.n_nonlocalized_
    assert parts.objective_ < whole.objective_
    assert parts.reconstruction_error_ == pytest.approx(whole.reconstruction_error_, rel=1e-12)
    for label in range(parts.n_clusters_):
        parent = np.unique(whole.labels_[parts.labels_ == label])
        assert len(parent) == 1
        assert np.array_equal(parts.subspaces_.means[label], whole.subspaces_.means[parent[0]])
        members = np.flatnonzero(parts.labels_ == label)
        squares = np.square(dijkstra(parts.graph_.to_sparse(), indices=members)[:, members]).sum(axis=1)
        if whole.localized_[parent[0]]:
            assert parts.medoids_[label] == whole.medoids_[parent[0]]
        else:
            assert parts.medoids_[label] == members[np.argmin(squares)]


def torn_sets():
    """Sets on which Algorithm 4 alone leaves torn clusters, with their settings; the last has three components."""
    rng = np.random.default_rng(11)
    crossing = crossing_lines()[0] + 0.02 * rng.standard_normal((120, 2))
    return {
        "roll": (datasets.swiss_roll(400, random_state=4).X, {"n_clusters": 8, "rho": 1e-4}),
        "crossing lines": (crossing, {"n_clusters": 4, "n_components": 1, "rho": 1e-3}),
        "noise": (rng.standard_normal((300, 5)), {"n_clusters": 6, "n_components": 2}),
        "ties": (np.round(2 * rng.standard_normal((200, 4))), {"n_clusters": 6, "n_components": 2, "rho": 1e-3}),
        "components": (
            np.concatenate([crossing, crossing + 50.0, two_sheets()[:60] - 50.0]),
            {"n_clusters": 7, "n_components": 1, "rho": 1e-4},
        ),
    }


@pytest.mark.parametrize("on_demand", [False, True], ids=["precomputed", "on demand"])
@pytest.mark.parametrize("name", ["roll", "crossing lines", "noise", "ties", "components"])
def test_clusters_are_connected_and_the_objective_is_theirs(name, on_demand, monkeypatch):
    if on_demand:
        monkeypatch.setattr(geodesics, "MAX_PRECOMPUTED_POINTS", 0)
    X, settings = torn_sets()[name]
    models = [LDLC(n_neighbors=6, n_init=4, n_jobs=n_jobs, **settings).fit(X) for n_jobs in (1, 2)]
    model = models[0]
    assert LDLC(n_neighbors=6, n_init=4, split=True, **settings).fit(X).diagnostics_["split"] > 0
    assert model.localized_.all()
    assert model.n_clusters_ == settings["n_clusters"]
    assert np.array_equal(models[1].labels_, model.labels_)
    assert np.array_equal(models[1].objectives_, model.objectives_)
    # The objective is that of the connected clusters, and no member of a cluster is a better medoid.
    squares = np.square(dijkstra(model.graph_.to_sparse()))
    rho, everyone = model.rho_, np.arange(len(X))
    costs = (1 - rho) * model.subspaces_.squared_distances(X) + rho * squares[:, model.medoids_]
    assert model.objective_ == model.objectives_.min()
    assert model.objective_ == pytest.approx(costs[everyone, model.labels_].sum(), rel=1e-10)
    for label, medoid in enumerate(model.medoids_):
        members = np.flatnonzero(model.labels_ == label)
        assert squares[medoid, members].sum() <= squares[np.ix_(members, members)].sum(axis=1).min() * (1 + 1e-12)
    # Points that were not given to another cluster are where they cost least.
    if model.diagnostics_["joined"] == 0:
        assert np.array_equal(model.predict(X), model.labels_)


def test_torn_clusters_of_a_path_go_to_the_neighbor_of_least_cost():
    path = NeighborGraph.from_sparse(diags_array([1.0] * 8, offsets=1, shape=(9, 9)))
    labels = np.array([0, 0, 1, 2, 2, 0, 1, 1, 2])
    costs = np.ones((3, 9))
    costs[1, 5] = 0.5
    # The parts {2}, {5} and {8} are the smaller ones: 2 lies between 0 and 2, which cost the same; 5 between 2 and 1;
    # 8 touches 1 alone.
    assert connected_labels(labels, costs, path).tolist() == [0, 0, 0, 2, 2, 1, 1, 1, 1]
    apart = NeighborGraph.from_sparse(block_diag([path.to_sparse(), path.to_sparse()]).tocsr())
    # Each component keeps a part of each label that it has: a cluster cannot be connected over a gap.
    both = connected_labels(np.tile(labels, 2), np.tile(costs, 2), apart)
    assert both.tolist() == 2 * [0, 0, 0, 2, 2, 1, 1, 1, 1]


def test_parts_that_touch_loose_parts_alone_wait_for_these():
    path = NeighborGraph.from_sparse(diags_array([1.0] * 8, offsets=1, shape=(9, 9)))
    labels = np.array([0, 1, 0, 2, 2, 1, 1, 0, 0])
    # The largest part of 0 is {7, 8}; {0} touches the part {1} alone, which touches {2}, which touches the kept {3, 4}.
    assert connected_labels(labels, np.ones((3, 9)), path).tolist() == [2, 2, 2, 2, 2, 1, 1, 0, 0]


def test_the_smallest_weight_that_keeps_clusters_connected():
    X = datasets.swiss_roll(400, random_state=4).X
    model = LDLC(n_clusters=8, rho="auto", n_init=3).fit(X)
    assert model.localized_.all()
    assert 1e-3 < model.rho_ < 1
    same = LDLC(n_clusters=8, rho=model.rho_, n_init=3).fit(X)
    assert np.array_equal(same.labels_, model.labels_)
    # The other end of the last interval of the bisection does not.
    step = 1000 ** (1 / 2**6)
    assert LDLC(n_clusters=8, rho=model.rho_ / step, n_init=3, split=True).fit(X).diagnostics_["split"] > 0


def test_geodesics_on_demand_lead_to_the_same_clusters(monkeypatch):
    X = datasets.swiss_roll(400, random_state=6).X
    precomputed = LDLC(n_clusters=8, n_init=3).fit(X)
    monkeypatch.setattr(geodesics, "MAX_PRECOMPUTED_POINTS", 0)
    on_demand = LDLC(n_clusters=8, n_init=3).fit(X)
    assert np.array_equal(on_demand.predict(X), on_demand.labels_)
    assert np.diff(on_demand.trace_.objective).max() <= 1e-12 * on_demand.trace_.objective[0]
    np.testing.assert_allclose(on_demand.objectives_, precomputed.objectives_, rtol=1e-10)
    assert np.array_equal(on_demand.labels_, precomputed.labels_)


def test_more_columns_than_points():
    """Rotated into the space they span, points have the same clusters, and subspaces in the space they came from."""
    rng = np.random.default_rng(7)
    low = np.concatenate([rng.standard_normal((12, 2)), rng.standard_normal((12, 2)) + 9.0])
    frame = np.linalg.qr(rng.standard_normal((60, 2)))[0]
    high = low @ frame.T
    flat, lifted = (LDLC(n_clusters=2, n_components=1, n_neighbors=4).fit(X) for X in (low, high))
    assert np.array_equal(flat.labels_, lifted.labels_)
    assert lifted.subspaces_.bases.shape == (2, 60, 1)
    assert lifted.objective_ == pytest.approx(flat.objective_, rel=1e-10)


def test_subspaces_of_more_dimensions_than_the_data_are_the_whole_space():
    X = np.random.default_rng(8).standard_normal((40, 2))
    model = LDLC(n_clusters=3, n_components=5, rho=0.5).fit(X)
    assert model.subspaces_.n_components == 2
    assert model.reconstruction_error_ <= 1e-26


def test_trace_tells_how_it_went():
    X = datasets.swiss_roll(300, random_state=9).X
    model = LDLC(n_clusters=8, n_init=2).fit(X)
    assert model.trace_.stop is Stop.CONVERGED
    assert model.trace_.objective[-1] == model.objective_ == model.objectives_.min()
    assert model.n_iter_ == model.trace_.n_iter > 2
    assert subspace_error(X, model.labels_, 2) == pytest.approx(model.reconstruction_error_, rel=1e-10)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"rho": -0.1}, "rho must be a number between 0 and 1"),
        ({"rho": 1.5}, "rho must be a number between 0 and 1"),
        ({"rho": "best"}, "rho must be a number between 0 and 1 or 'auto'; got 'best'"),
        ({"rho": 0.0, "split": True}, "set rho above 0"),
        ({"split": "yes"}, "split must be True or False"),
        ({"n_init": 0}, "n_init must be an integer of at least 1; got 0"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1; got 0"),
        ({"tol": -1.0}, "tol must be a number of at least 0; got -1"),
    ],
    ids=str,
)
def test_bad_words_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        LDLC(n_clusters=3, **settings).fit(two_sheets())
