"""Map continuity: moved affinities against fits of moved rows, maps whose answer is known, and what it must show."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from manifoldry import PCA, SNE, TSNE, UMAP, Isomap, SymmetricSNE, metrics
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry.neighbor_affinity import fixed_bandwidth_probabilities, membership_strengths
from manifoldry.evaluation.metrics import map_continuity
from manifoldry.evaluation.reliability._map_continuity import (
    Neighborhoods,
    PerturbedMemberships,
    PerturbedProbabilities,
)


def mixture(seed, n=400):
    """Two Gaussians in the plane, four deviations apart, as in an example of liu2025."""
    rng = np.random.default_rng(seed)
    side = rng.choice([-2.0, 2.0], size=n)
    return rng.normal(size=(n, 2)) + np.column_stack([side, np.zeros(n)])


def disk(n, seed=0):
    rng = np.random.default_rng(seed)
    angle, radius = 2 * np.pi * rng.uniform(size=n), np.sqrt(rng.uniform(size=n))
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def moved_graph(graph, X):
    """The lists of a graph with the lengths of other rows."""
    lengths = np.linalg.norm(X[graph.rows()] - X[graph.indices], axis=1)
    return NeighborGraph(graph.indptr, graph.indices, lengths)


def changes(X, moved, around):
    """What moving the point ``around.own[0]`` does to its squared distances."""
    i = around.own[0]
    before, after = (((rows[around.near] - rows[i]) ** 2).sum(axis=2) for rows in (X, moved))
    return after - before


def test_moved_probabilities_are_those_of_the_moved_rows():
    X = mixture(0, 120)
    model = TSNE(perplexity=8, max_iter=20).fit(X)
    perturbed = PerturbedProbabilities(model.affinity_matrix_, model.graph_, model.bandwidths_, 1.0)
    for i in (3, 77):
        around = Neighborhoods.of(model.affinity_matrix_, X, np.array([i]))
        for shift in ([0.0, 0.0], [0.2, -0.1]):
            moved = X.copy()
            moved[i] += shift
            slow = fixed_bandwidth_probabilities(moved_graph(model.graph_, moved), model.bandwidths_).joint().toarray()
            found = perturbed(around, changes(X, moved, around))
            row = np.zeros(len(X))
            row[found.neighbors[0]] = found.weights[0]
            # The fitted perplexity is met to 1e-7, and so are the probabilities.
            np.testing.assert_allclose(row, slow[i], rtol=1e-6, atol=1e-9)


def test_moved_memberships_are_those_of_the_moved_rows():
    X = mixture(1, 120)
    model = UMAP(n_neighbors=8, n_epochs=5).fit(X)
    _, rho, sigma = membership_strengths(model.graph_.indptr, model.graph_.lengths, Run())
    perturbed = PerturbedMemberships(model.affinity_matrix_, model.graph_, 1.0, Run())
    for i in (5, 60):
        around = Neighborhoods.of(model.affinity_matrix_, X, np.array([i]))
        moved = X.copy()
        moved[i] += [0.05, 0.02]
        found = perturbed(around, changes(X, moved, around))
        for j, weight in zip(found.neighbors[0], found.weights[0], strict=True):
            d = np.linalg.norm(moved[i] - moved[j])
            parts = []
            for a, b in ((i, j), (j, i)):
                strength = np.exp(-max(d - rho[a], 0) / sigma[a])
                parts.append(strength if b in model.graph_.row(a)[0] else 0.0)
            expected = parts[0] + parts[1] - parts[0] * parts[1]
            assert abs(weight - expected) < 1e-5  # the fit's memberships are in single precision


def test_principal_components_move_by_what_their_matrix_says():
    """A linear map moves a point by the length of the direction's image; along the first axis that is all of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * [5, 3, 1, 0.5, 0.1]
    model = PCA(n_components=2).fit(X)
    found = map_continuity(model, X, length=0.3, n_directions=5)
    norm = np.linalg.norm(model.components_, 2)
    assert (found.perturbation <= 0.3 * norm + 1e-12).all()
    for i in (0, 50):
        near = np.argsort(np.linalg.norm(X - X[i], axis=1))[1:31]
        directions = np.linalg.svd(X[near] - X[near].mean(axis=0))[2]
        expected = 0.3 * np.linalg.norm(directions @ model.components_.T, axis=1).max()
        np.testing.assert_allclose(found.perturbation[i], expected, rtol=1e-9)
    assert found.singularity is None
    assert "no singularity score" in repr(found)


def test_a_smooth_map_hardly_moves():
    X = np.column_stack([disk(300), np.zeros(300)])
    found = map_continuity(Isomap(n_neighbors=12).fit(X), X, length=0.02)
    assert np.median(found.perturbation) < 0.04
    assert "one in twenty" in repr(found)


@pytest.fixture(scope="module")
def on_a_disk():
    X = disk(400)
    return {p: map_continuity(TSNE(perplexity=p).fit(X), X, length=0.05) for p in (5, 50)}


def test_small_perplexities_make_fractures(on_a_disk):
    """At their edges next to nothing holds a point; a disk has no edge inside."""
    rough, smooth = on_a_disk[5], on_a_disk[50]
    for q in (0.9, 0.95, 0.99):
        assert np.quantile(rough.singularity, q) > 1.2 * np.quantile(smooth.singularity, q)
    # Moves are far more uneven where the map is torn.
    uneven = [np.quantile(found.perturbation / found.extent, 0.95) for found in (rough, smooth)]
    assert uneven[0] > 1.5 * uneven[1]


@pytest.mark.parametrize("seed", [4, 5])
def test_points_between_overlapping_clusters_are_thrown(seed):
    """Of seeds 0 to 3 the areas are 0.84 to 0.98; 0.5 would be chance."""
    X = mixture(seed)
    found = map_continuity(TSNE(perplexity=50).fit(X), X, n_directions=2)
    posterior = 1 / (1 + np.exp(-4 * X[:, 0]))
    between = np.abs(posterior - 0.5) < 0.38  # within half a deviation of where both are as likely
    assert roc_auc_score(between, found.perturbation) > 0.75


def test_some_points_as_among_all_and_any_number_of_threads():
    X = mixture(6, 200)
    model = TSNE(perplexity=15, max_iter=300).fit(X)
    all_points = map_continuity(model, X)
    some = map_continuity(model, X, points=[150, 3, 3], length=all_points.length, n_jobs=1)
    np.testing.assert_allclose(some.perturbation, all_points.perturbation[[150, 3, 3]], rtol=1e-6)
    np.testing.assert_allclose(some.singularity, all_points.singularity[[150, 3, 3]], rtol=1e-6)
    assert len(repr(all_points)) > 100


def test_units_change_nothing():
    X = mixture(7, 200)
    ours, theirs = (
        map_continuity(TSNE(perplexity=15, max_iter=300).fit(unit * X), unit * X) for unit in (1.0, 2.0**20)
    )
    assert theirs.length == 2.0**20 * ours.length
    np.testing.assert_allclose(ours.perturbation, theirs.perturbation, rtol=1e-6)


@pytest.mark.parametrize("model", [SymmetricSNE(perplexity=10, max_iter=100), UMAP(n_neighbors=10, n_epochs=50)])
def test_the_other_losses_have_both_scores(model):
    X = mixture(8, 100)
    found = map_continuity(model.fit(X), X)
    assert found.perturbation.shape == found.singularity.shape == (100,)
    assert np.isfinite(found.perturbation).all()
    assert (found.singularity > 0).all()


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        (TSNE(max_iter=10), {"X": np.zeros((100, 3))}, "rows that the model was fitted to"),
        (TSNE(max_iter=10), {"X": -2 * mixture(9, 100)}, "distances differ"),
        (TSNE(max_iter=10), {"points": [100]}, "indices"),
        (TSNE(max_iter=10), {"length": 0.0}, "length"),
        (TSNE(max_iter=10), {"n_directions": 0}, "n_directions"),
        (TSNE(max_iter=10, metric="manhattan"), {}, "Euclidean"),
        (TSNE(max_iter=10, perplexity=[5, 20]), {}, "several perplexities"),
        (SNE(max_iter=10), {}, "conditional"),
    ],
)
def test_bad_input_gets_one_sentence(model, change, words):
    X = mixture(9, 100)
    model.fit(X)
    given = {"X": X} | change
    with pytest.raises(ValueError, match=words) as caught:
        metrics.map_continuity(model, **given)
    assert "\n" not in str(caught.value)


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(ValueError, match="fitted"):
        map_continuity(TSNE(), mixture(0, 50))


def test_distances_and_sparse_rows_are_refused():
    X = np.random.default_rng(0).normal(size=(40, 3))
    away = np.linalg.norm(X[:, None] - X, axis=2)
    with pytest.raises(ValueError, match="fitted to distances"):
        map_continuity(Isomap(metric="precomputed").fit(away), away)
    with pytest.raises(ValueError, match="X must be dense here"):
        map_continuity(PCA(n_components=2).fit(X), csr_array(X))


def test_moves_are_told_beside_the_extent_of_the_map():
    found = metrics.MapContinuity(np.arange(3), np.array([1.0, 1.0, 1.0]), None, 0.5, 4.0)
    assert "in the map (25% of its extent), and one in twenty by more than 1 (25%)" in str(found)
