"""Options of the graph: the roll unfolds without its short circuits, and new points are treated as the fitted ones."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import manifoldry
from manifoldry import (
    LLE,
    MVU,
    DiffusionMaps,
    Isomap,
    LaplacianEigenmaps,
    NeighborGraph,
    datasets,
    metrics,
    neighborhood_graph,
)

ROLL = datasets.swiss_roll(300, random_state=1)
OPTIONS = [
    {"edge_lengths": "local_linearity"},
    {"edge_lengths": "kl"},
    {"remove_short_circuits": "detours"},
    {"remove_short_circuits": "tangents"},
    {"edge_lengths": "hellinger", "remove_short_circuits": "betweenness"},
]


def error(model):
    return metrics.procrustes(model.fit(ROLL.X).embedding_, ROLL.truth).error


def test_the_roll_with_short_circuits_unfolds_with_each_rule_and_not_without():
    assert error(Isomap(n_neighbors=12)) > 0.5
    for rule in ("detours", "tangents", "betweenness"):
        model = Isomap(n_neighbors=12, remove_short_circuits=rule)
        assert error(model) < 0.02
        assert model.diagnostics_["removed_short_circuits"] > 40
        across = np.abs(ROLL.truth[model.graph_.rows()] - ROLL.truth[model.graph_.indices])[:, 0]
        assert across.max() < 15  # a turn of the roll is 30 and more
    assert error(Isomap(n_neighbors=12, edge_lengths="local_linearity")) < 0.1


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()))
@pytest.mark.parametrize("method", [Isomap, LaplacianEigenmaps, LLE])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_fitted_rows_are_placed_where_they_are(method, options):
    if method is LLE and "local_linearity" in options.values():
        with pytest.raises(ValueError, match="who is near and not how far"):
            method(**options).fit(ROLL.X)
        return
    X = ROLL.X[:150]
    two = np.concatenate([X[:70], X[:70] + 200])
    for rows, disconnected in ((X, "bridge"), (two, "apart"), (two, "bridge")):
        model = method(n_neighbors=10, disconnected=disconnected, **options).fit(rows)
        size = np.abs(model.embedding_).max()
        np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=1e-8 * size)
        assert model.diagnostics_["n_neighbors"] == 10


@pytest.mark.parametrize("options", OPTIONS[1:3], ids=lambda options: "-".join(options.values()))
def test_distances_serve_as_rows_do(options):
    X = np.random.default_rng(0).normal(size=(120, 6))  # no two of these have the same neighborhood
    rows = Isomap(n_neighbors=8, **options).fit(X)
    distances = Isomap(n_neighbors=8, metric="precomputed", **options).fit(cdist(X, X))
    signs = np.sign((rows.embedding_ * distances.embedding_).sum(axis=0))
    np.testing.assert_allclose(distances.embedding_ * signs, rows.embedding_, atol=1e-6)
    placed = distances.transform(cdist(X[:9] + 0.01, X)) * signs
    np.testing.assert_allclose(placed, rows.transform(X[:9] + 0.01), atol=1e-6)


def test_new_points_beside_short_circuits_stay_on_their_sheet():
    new = datasets.swiss_roll(400, random_state=7)
    model = Isomap(n_neighbors=12, remove_short_circuits="detours").fit(ROLL.X)
    neighbors, _ = model._extension.index.query(new.X, manifoldry._core.run.Run(0, 1))
    across = np.abs(new.truth[:, None, 0] - ROLL.truth[neighbors, 0])
    assert np.where(neighbors >= 0, across, 0).max() < 15
    plain, _ = Isomap(n_neighbors=12).fit(ROLL.X)._extension.index.query(new.X, manifoldry._core.run.Run(0, 1))
    assert np.abs(new.truth[:, None, 0] - ROLL.truth[plain, 0]).max() > 30


def test_a_fit_with_options_is_saved_and_loaded(tmp_path):
    for number, options in enumerate(OPTIONS):
        model = Isomap(n_neighbors=6, **options).fit(ROLL.X[:60])
        model.save(tmp_path / f"{number}.mfld")
        loaded = manifoldry.load(tmp_path / f"{number}.mfld")
        np.testing.assert_array_equal(loaded.transform(ROLL.X[60:80]), model.transform(ROLL.X[60:80]))


def test_copies_of_a_point_stay_together():
    X = np.concatenate([ROLL.X[:80], ROLL.X[:5]])
    for lengths in ("kl", "local_linearity"):
        Y = Isomap(n_neighbors=8, edge_lengths=lengths).fit_transform(X)
        np.testing.assert_allclose(Y[80:], Y[:5], atol=1e-9 * np.abs(Y).max())


def test_points_with_the_same_neighborhood_keep_their_shape():
    X = ROLL.X[:25]  # all others are neighbors: the plain graph in another unit
    plain, kl = (Isomap(n_neighbors=24, edge_lengths=lengths).fit_transform(X) for lengths in ("distance", "kl"))
    np.testing.assert_allclose(kl * (np.ptp(plain) / np.ptp(kl)), plain, atol=1e-9 * np.ptp(plain))


@pytest.mark.parametrize("lengths", ["kl", "bhattacharyya"])
def test_lengths_know_no_unit(lengths):
    one, other = (Isomap(n_neighbors=8, edge_lengths=lengths).fit_transform(u * ROLL.X[:90]) for u in (1.0, 2.0**30))
    np.testing.assert_allclose(other, one, atol=1e-9 * np.abs(one).max())


def test_what_cannot_be_measured_is_refused():
    X = ROLL.X[:40]
    graph = neighborhood_graph(X, n_neighbors=5)
    for options in OPTIONS[:2]:
        with pytest.raises(ValueError, match="graph"):
            Isomap(**options).fit(graph)
    with pytest.raises(ValueError, match="rows of features"):
        Isomap(metric="precomputed", edge_lengths="local_linearity").fit(cdist(X, X))
    with pytest.raises(ValueError, match="affinity"):
        LaplacianEigenmaps(metric="affinity", edge_lengths="kl").fit(np.exp(-cdist(X, X)))
    with pytest.raises(ValueError, match="sparse"):
        DiffusionMaps(kernel="complete", edge_lengths="kl").fit(X)
    with pytest.raises(ValueError, match="common_neighbors"):
        MVU(common_neighbors=True, edge_lengths="kl").fit(X)


def test_a_given_graph_loses_its_short_circuits():
    graph = neighborhood_graph(ROLL.X, n_neighbors=12)
    for rule in ("detours", "betweenness"):
        model = Isomap(remove_short_circuits=rule).fit(graph)
        assert metrics.procrustes(model.embedding_, ROLL.truth).error < 0.02
    assert isinstance(model.graph_, NeighborGraph)
