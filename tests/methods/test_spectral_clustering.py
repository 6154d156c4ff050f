"""Spectral clustering: cuts as traces, the bound by eigenvalues, graphs whose eigenvectors are known on paper."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import cluster
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from manifoldry import SpectralClustering
from manifoldry._core.run import Run
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry._numerics.geometry.affinity import laplacian
from manifoldry.methods.clusters._spectral import (
    cut_value,
    low_eigenpairs,
    pivoted_rotation,
    spectral_values,
    suggest_clusters,
)

RUN = Run(0, 1)
KINDS = ("symmetric", "random_walk", "unnormalized")
N_BLOCKS = 40
"""Vertices of the planted graph."""


def random_graph(n=14, seed=0):
    W = np.triu(np.random.default_rng(seed).uniform(size=(n, n)), 1)
    W[W < 0.4] = 0.0
    return csr_array(W + W.T)


def three_rings(n=30):
    """Three circles in the plane, far from each other, of different widths."""
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    X = np.concatenate([ring, 5 * ring, 2 * ring + [40, 0]])
    return X, np.repeat(np.arange(3), n)


def planted(inside, between):
    """Two blocks of equal size, all weights within a block equal, and all between the blocks."""
    side = np.repeat([0, 1], N_BLOCKS // 2)
    W = np.where(side[:, None] == side, inside, between)
    np.fill_diagonal(W, 0.0)
    return csr_array(W), side


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_is_a_trace_and_no_cut_is_below_the_eigenvalues(kind):
    W = random_graph()
    L = laplacian(W)
    mass = np.ones(14) if kind == "unnormalized" else L.degrees
    bounds = np.cumsum(low_eigenpairs(W, 4, kind, RUN).values)
    for seed, c in itertools.product(range(20), (2, 3, 4)):
        labels = np.concatenate([np.arange(c), np.random.default_rng(seed).integers(c, size=14 - c)])
        H = (labels[:, None] == np.arange(c)) / np.sqrt(np.bincount(labels, mass))
        # Both sum 14 x 14 products of numbers below 1 in another order.
        assert np.allclose(H.T @ (mass[:, None] * H), np.eye(c), atol=1e-13)
        assert cut_value(W, labels, kind) == pytest.approx(np.trace(H.T @ (L.matrix @ H)), rel=1e-12)
        assert cut_value(W, labels, kind) >= bounds[c - 1] - 1e-12


def test_the_kept_cut_is_near_the_best_of_all_divisions_in_two():
    W = random_graph(n=10, seed=3)
    cuts = []
    for chosen in range(1, 2**9):  # the last vertex is always in cluster 0
        labels = np.array([(chosen >> i) & 1 for i in range(10)])
        cuts.append(cut_value(W, labels, "random_walk"))
    values = low_eigenpairs(W, 2, "random_walk", RUN).values
    assert values.sum() <= min(cuts)
    sweep = low_eigenpairs(W, 2, "random_walk", RUN).vectors[:, 1]
    order = np.argsort(sweep)
    swept = [cut_value(W, (np.argsort(order) < k).astype(np.int64), "random_walk") for k in range(1, 10)]
    # Cheeger's inequality: the best sweep has conductance at most sqrt(2 lambda_2), and a cut in two is at most twice
    # the conductance.
    assert min(cuts) <= min(swept) <= 2 * np.sqrt(2 * values[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("assign_labels", ["kmeans", "cluster_qr"])
def test_components_are_the_clusters_and_the_gap_counts_them(kind, assign_labels):
    X, truth = three_rings()
    model = SpectralClustering(n_clusters=3, n_neighbors=4, laplacian=kind, assign_labels=assign_labels).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert model.objective_ == model.bound_ == 0
    found = model.suggest_n_clusters()
    assert (int(found), found.clear) == (3, True)
    assert "3 components" in found.why
    assert SpectralClustering(n_clusters="auto", n_neighbors=4, laplacian=kind).fit(X).n_clusters_ == 3


def test_a_planted_graph_has_the_eigenvectors_known_on_paper():
    inside, between, half = 1.0, 0.01, N_BLOCKS // 2
    W, side = planted(inside, between)
    degree = (half - 1) * inside + half * between
    found = low_eigenpairs(W, N_BLOCKS, "random_walk", RUN)
    # L has eigenvalues 0 (constant), 2 half b (the sides), and a half + b half for all else.
    expected = np.array([0.0, 2 * half * between, *[half * (inside + between)] * (N_BLOCKS - 2)]) / degree
    assert np.allclose(found.values, expected, atol=1e-12)
    second = found.vectors[:, 1] * np.sqrt(degree * N_BLOCKS)
    assert np.allclose(np.abs(second), 1.0, atol=1e-9)
    assert adjusted_rand_score(side, second > 0) == 1
    assert cut_value(W, side, "random_walk") == pytest.approx(found.values[:2].sum(), rel=1e-12)  # the bound is reached
    assert adjusted_rand_score(side, pivoted_rotation(found.vectors[:, :2])(found.vectors[:, :2], RUN)) == 1


def test_the_number_is_that_of_the_last_clear_gap_and_no_gap_is_said():
    W, _ = planted(1.0, 0.01)
    assert int(suggest_clusters(*spectral_values(W, 10, "random_walk", RUN))) == 2
    assert (
        int(suggest_clusters(np.array([0, 0, 1e-3, 2e-3, 0.1, 0.12]), 2)) == 4
    )  # two components, of two clusters each
    even = suggest_clusters(np.arange(8.0) ** 2 / 100, 1)  # a path: harmonics
    assert (int(even), even.clear) == (1, False)
    assert "no number of clusters stands out" in even.why
    with pytest.warns(EmbeddingWarning, match="left in one cluster: .* no number of clusters stands out"):
        model = SpectralClustering(n_clusters="auto").fit(np.random.default_rng(0).uniform(size=(300, 2)))
    assert model.n_clusters_ == 1
    assert "n_clusters" in model.diagnostics_["advice"][0]


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")
@pytest.mark.parametrize("kind", ["symmetric", "random_walk"])
@pytest.mark.parametrize("assign_labels", ["kmeans", "cluster_qr"])
def test_separated_sets_are_divided_as_by_scikit_learn_on_the_same_affinity(kind, assign_labels):
    for X, truth in (make_moons(300, noise=0.05, random_state=0), make_blobs(300, centers=4, random_state=1)):
        c = len(np.unique(truth))
        model = SpectralClustering(n_clusters=c, laplacian=kind, assign_labels=assign_labels).fit(X)
        peer = cluster.SpectralClustering(
            c, affinity="precomputed", assign_labels=assign_labels, n_init=2, random_state=0
        )
        theirs = peer.fit(model.affinity_matrix_.toarray()).labels_
        assert adjusted_rand_score(theirs, model.labels_) == 1
        assert model.bound_ <= model.objective_ + 1e-12
        assert model.objective_ == pytest.approx(cut_value(model.affinity_matrix_, model.labels_, kind), rel=1e-12)


def test_new_points_of_moons_go_to_their_moon():
    X, _ = make_moons(400, noise=0.05, random_state=0)
    Q, truth = make_moons(200, noise=0.05, random_state=7)
    for kind in KINDS:
        model = SpectralClustering(n_clusters=2, laplacian=kind).fit(X)
        assert adjusted_rand_score(truth, model.predict(Q)) == 1


def test_more_components_than_clusters_are_joined_by_bridges():
    X, truth = three_rings()
    with pytest.warns(Warning, match="3 connected components"):
        model = SpectralClustering(n_clusters=2, n_neighbors=4).fit(X)
    assert model.n_clusters_ == 2
    assert all(len(np.unique(model.labels_[truth == ring])) == 1 for ring in range(3))
    assert len(model.diagnostics_["bridges"]) == 2


def test_clumps_of_outliers_are_told_of():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), 30 + rng.normal(size=(6, 2))])
    model = SpectralClustering(n_clusters=2, n_neighbors=5).fit(X)
    assert model.diagnostics_["advice"][0].startswith("1 of 2 clusters")
