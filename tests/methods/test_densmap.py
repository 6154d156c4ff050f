"""densMAP's term of UMAP: radii and correlation by a plain twin, the gradient by differences, and its effect."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry import UMAP, NeighborGraph, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.descent.negative_sampling import MIN_LAYOUT_RADIUS, DensityGoal, DensityTerm, log_local_radii
from manifoldry.methods._base._checks import findings

A, B = 1.577, 0.895
STEP = 2.0**-10
"""Of finite differences: sums of it and single precision numbers near 1 are exact."""


def term(n=12, shift=0.1, seed=0):
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(size=(n, n)) < 0.4, 1).astype(float)
    W[np.arange(n - 1), np.arange(1, n)] = 1.0
    goal = DensityGoal(rng.normal(size=n), 2.0, 0.3, shift)
    return DensityTerm(csr_array(W + W.T), A, B, goal, Run(0, 1))


def layout(n=12, columns=2, seed=1):
    """Places whose sums with STEP are exact in single precision."""
    return (np.round(np.random.default_rng(seed).normal(size=(n, columns)) / STEP) * STEP).astype(np.float32)


def twin(term, Y):
    Y = Y.astype(float)
    s = np.square(Y[:, None] - Y).sum(axis=2)
    q = term.edges.toarray() / (1 + A * s**B)
    logs = np.log(MIN_LAYOUT_RADIUS + (q * s).sum(axis=1) / q.sum(axis=1))
    data = term.goal.log_radii
    return np.cov(data, logs, bias=True)[0, 1] / (data.std() * np.sqrt(logs.var() + term.goal.var_shift))


def uneven_blobs(n=100):
    rng = np.random.default_rng(0)
    widths = np.array([0.3, 1.0, 3.0])
    X = np.concatenate([w * rng.normal(size=(n, 5)) + 40 * i for i, w in enumerate(widths)])
    return X, np.repeat(np.arange(3), n)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("shift", [1e-6, 0.1])
def test_the_gradient_is_that_of_the_correlation(columns, shift):
    density, Y = term(shift=shift), layout(columns=columns)
    assert density.correlation(Y) == pytest.approx(twin(density, Y), abs=1e-12)
    found, gradient = density.derivatives(Y)[0], np.empty(Y.shape)
    for place in np.ndindex(*Y.shape):
        up, down = Y.copy(), Y.copy()
        up[place] += STEP
        down[place] -= STEP
        gradient[place] = (twin(density, up) - twin(density, down)) / (2 * STEP)
    # Central differences err by h^2 f''' / 6, and derivatives grow by a factor of at most ten with each order here.
    assert np.abs(found - gradient).max() <= 1e3 / 6 * STEP**2 * np.abs(gradient).max()


def test_no_point_moves_by_more_than_half_its_radius():
    density, Y = term(), layout()
    s = np.square(Y[:, None].astype(float) - Y).sum(axis=2)
    q = density.edges.toarray() / (1 + A * s**B)
    radius = np.sqrt((q * s).sum(axis=1) / q.sum(axis=1))
    assert np.allclose(density.moves(Y, 1e-3), 1e-3 * density.derivatives(Y)[0], rtol=1e-6)
    far = density.moves(Y, 1e9)
    assert np.allclose(np.linalg.norm(far, axis=1), radius / 2, rtol=1e-6)
    assert np.allclose(_directions(far), _directions(density.derivatives(Y)[0]), atol=1e-6)


def _directions(moves):
    return moves / np.linalg.norm(moves, axis=1)[:, None]


def test_radii_are_weighted_means_of_squared_distances_in_any_unit():
    graph = NeighborGraph.from_rows(np.array([[1], [0], [0]]), np.array([[1.0], [1.0], [3.0]]))
    w = csr_array(np.array([[0, 0.5, 0.25], [0.5, 0, 0], [0.25, 0, 0]]))
    expected = np.log([(0.5 + 0.25 * 9) / 0.75, 1.0, 9.0])
    assert np.allclose(log_local_radii(graph, w), expected, atol=1e-7)  # 1e-8 of the mean is added
    larger = NeighborGraph(graph.indptr, graph.indices, 1e80 * graph.lengths)
    assert np.allclose(log_local_radii(larger, w) - log_local_radii(graph, w), 2 * np.log(1e80), rtol=1e-12)


def test_without_weight_the_layout_is_that_of_umap_to_the_bit():
    X, _ = uneven_blobs(40)
    plain = UMAP(n_epochs=30).fit(X)
    without = UMAP(n_epochs=30, densmap=True, dens_lambda=0.0).fit(X)
    assert np.array_equal(plain.embedding_, without.embedding_)
    assert not hasattr(plain, "rad_orig_")
    assert not np.array_equal(plain.embedding_, UMAP(n_epochs=30, densmap=True).fit(X).embedding_)
    frozen = UMAP(n_epochs=30, densmap=True, dens_frac=0.0).fit(X)
    assert np.array_equal(plain.embedding_, frozen.embedding_)


def test_radii_of_the_layout_go_with_those_of_the_data():
    X, group = uneven_blobs()
    plain, dense = (UMAP(n_epochs=200, densmap=True, dens_lambda=weight).fit(X) for weight in (0.0, 2.0))
    before, after = (np.corrcoef(model.rad_orig_, model.rad_emb_)[0, 1] for model in (plain, dense))
    assert before < 0.5 < 0.8 < after
    assert metrics.density_preservation(X, dense.embedding_) > metrics.density_preservation(X, plain.embedding_) + 0.3
    widths = [np.median(dense.rad_emb_[group == label]) for label in range(3)]
    assert widths == sorted(widths)
    assert dense.trace_.objective[-1] < dense.trace_.objective[0]


def test_threads_do_not_change_a_bit(small_tasks):
    X, _ = uneven_blobs(60)
    one, two = (UMAP(n_epochs=40, densmap=True, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert small_tasks.shared
    assert np.array_equal(one.embedding_, two.embedding_)
    assert np.array_equal(one.rad_emb_, two.rad_emb_)


def test_copies_have_finite_radii_and_share_them_if_unique():
    X, _ = uneven_blobs(30)
    X = np.concatenate([X, X[:20], np.repeat(X[:1], 10, axis=0)])
    model = UMAP(n_epochs=30, densmap=True, n_neighbors=8).fit(X)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.rad_orig_).all()
    assert np.isfinite(model.rad_emb_).all()
    shared = UMAP(n_epochs=30, densmap=True, n_neighbors=8, unique=True).fit(X)
    assert np.array_equal(shared.rad_orig_[:20], shared.rad_orig_[90:110])
    assert shared.transform(X[:3]).shape == (3, 2)


def test_a_crowded_picture_names_the_weight_of_densities():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(300, 5)), rng.normal(size=(300, 2))
    Y[:6] *= 1000
    plain, dense = (findings(X, Y, UMAP(densmap=given), Run(0, 1)) for given in (False, True))
    assert any("cannot be seen: try a larger n_neighbors" in sentence for sentence in plain)
    assert any("cannot be seen: try a lower dens_lambda, or zoom in" in sentence for sentence in dense)
