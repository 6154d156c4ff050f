"""Linear projections against answers known on paper and against slow computations that share no code with them."""

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import kneighbors_graph

import manifoldry
from helpers import bandwidths, up_to_sign
from manifoldry import DPP, LPP, LTSA, NPP, ONPP, KernelLPP, LinearLTSA, NeighborGraph
from manifoldry.methods.linear._npp import spanning_tree

LINEAR = (LPP, NPP, ONPP, LinearLTSA, DPP)
UNIT = (LPP, NPP, LinearLTSA)
each_linear = pytest.mark.parametrize("method", LINEAR, ids=lambda method: method.__name__)
each_unit = pytest.mark.parametrize("method", UNIT, ids=lambda method: method.__name__)

SHIFT = np.array([50.0, 0.0, 0.0, 0.0, 0.0])
ROUNDING = 1e-9
"""Dense twins solve the generalized problem of matrices with conditions up to 1e4, whose square times 1e-16 is 1e-8 at
the very worst; seen are 1e-12."""


def bent(n=120, columns=5, seed=0):
    """A bent sheet in general position: all features matter, no eigenvalue is repeated."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(0, 3, n), rng.uniform(0, 1, n)
    sheet = np.column_stack([np.cos(t), np.sin(t), h, 0.3 * t * h, 0.2 * h * h])[:, :columns]
    return sheet + 0.02 * rng.standard_normal(sheet.shape)


def noisy_sheet(n=400, noise=1e-3, seed=0):
    """A flat sheet of sides 2 and 1 in ten dimensions, off the origin, with noise in all of them."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0, 1, (n, 2)) * [2.0, 1.0]
    axes = np.linalg.qr(rng.standard_normal((10, 2)))[0]
    return truth @ axes.T + 3.0 + noise * rng.standard_normal((n, 10)), truth


def affine_error(Y, truth):
    """Share of the variance of ``truth`` that the best affine map of Y leaves."""
    design = np.column_stack([Y, np.ones(len(Y))])
    left = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    return (left**2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum()


def affinities(X, k, *, binary=False):
    """Heat weights of the neighbor graph, of the automatic bandwidths."""
    D = kneighbors_graph(X, k, mode="distance").toarray()
    s = bandwidths(cdist(X, X), k)
    D = np.maximum(D, D.T)
    return np.where(D > 0, 1.0 if binary else np.exp(-(D**2) / (2 * np.maximum.outer(s, s) ** 2)), 0.0)


def lle_matrix(X, k, reg=1e-3):
    """(I - W)'(I - W), one point after another."""
    n = len(X)
    nearest = kneighbors_graph(X, k).toarray() > 0
    misfit = np.eye(n)
    for i in range(n):
        near = np.flatnonzero(nearest[i])
        gram = (X[near] - X[i]) @ (X[near] - X[i]).T
        w = np.linalg.solve(gram + reg * np.trace(gram) * np.eye(k), np.ones(k))
        misfit[i, near] -= w / w.sum()
    return misfit.T @ misfit


def ltsa_matrix(X, k, d):
    """The sum of I - G G', one neighborhood after another."""
    n = len(X)
    nearest = kneighbors_graph(X, k).toarray() > 0
    B = np.zeros((n, n))
    for i in range(n):
        members = np.append(np.flatnonzero(nearest[i]), i)
        centered = X[members] - X[members].mean(axis=0)
        V = np.linalg.svd(centered, full_matrices=False)[0][:, :d]
        G = np.column_stack([np.full(k + 1, (k + 1) ** -0.5), V])
        B[np.ix_(members, members)] += np.eye(k + 1) - G @ G.T
    return B


def pencil(X, form, mass):
    """Values and coordinates of X'MX a = lambda X'DX a, data centered at the mean weighted by D."""
    centered = X - mass @ X / mass.sum()
    values, A = scipy.linalg.eigh(centered.T @ form @ centered, centered.T @ (mass[:, None] * centered))
    return values, centered @ A


# Locality preserving projections


@pytest.mark.parametrize("binary", [False, True])
def test_lpp_solves_its_problem(binary):
    X = bent()
    W = affinities(X, 6, binary=binary)
    degrees = W.sum(axis=1)
    L = np.diag(degrees) - W
    model = LPP(n_components=3, n_neighbors=6, weights="binary" if binary else "heat").fit(X)
    Y = model.embedding_
    np.testing.assert_allclose(Y.T @ (degrees[:, None] * Y), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(Y.T @ L @ Y, np.diag(model.spectrum_.values[:3]), atol=1e-12)
    np.testing.assert_allclose(degrees @ Y, 0, atol=1e-10 * degrees.sum() * np.abs(Y).max())
    values, coordinates = pencil(X, L, degrees)
    np.testing.assert_allclose(model.spectrum_.values, values, rtol=ROUNDING)
    assert up_to_sign(Y, coordinates[:, :3]) < ROUNDING


def test_lpp_eigenvalues_are_not_below_those_of_laplacian_eigenmaps():
    """Linear maps are some of all maps: the j-th value is at least the (j + 1)-th with the constant counted."""
    X = bent()
    W = affinities(X, 6)
    free = scipy.linalg.eigh(np.diag(W.sum(axis=1)) - W, np.diag(W.sum(axis=1)), eigvals_only=True)
    values = LPP(n_neighbors=6).fit(X).spectrum_.values
    assert len(values) == 5
    assert (values >= free[1:6] - 1e-12).all()
    assert (values > 1.01 * free[1:6]).any()


def test_lpp_with_more_features_than_points_is_laplacian_eigenmaps():
    """Then every centered function of the points is linear."""
    X = np.random.default_rng(1).standard_normal((30, 50))
    W = affinities(X, 5)
    values, vectors = scipy.linalg.eigh(np.diag(W.sum(axis=1)) - W, np.diag(W.sum(axis=1)))
    model = LPP(n_components=3, n_neighbors=5).fit(X)
    np.testing.assert_allclose(model.spectrum_.values[:3], values[1:4], rtol=ROUNDING)
    assert up_to_sign(model.embedding_, vectors[:, 1:4]) < ROUNDING
    assert model.diagnostics_["rank"] == 29


@each_linear
def test_a_shift_of_the_data_changes_nothing(method):
    """Rounding of data near 50 is 1e-14, of their thin directions 1e-12."""
    X = bent()
    assert up_to_sign(method().fit(X + SHIFT).embedding_, method().fit(X).embedding_) < ROUNDING


def test_without_centering_a_shift_would_rule():
    """The spurious direction that centering avoids: nearly constant, with nearly no variation."""
    X = bent() + SHIFT
    W = affinities(X, 10)
    degrees = W.sum(axis=1)
    uncentered = scipy.linalg.eigh(X.T @ (np.diag(degrees) - W) @ X, X.T @ (degrees[:, None] * X), eigvals_only=True)
    assert uncentered[0] < 0.01 * LPP().fit(X).spectrum_.values[0]


# With a kernel


def test_linear_kernel_is_lpp():
    X, Q = bent(), bent(20, seed=1)
    plain, kernel = (
        LPP(n_components=3, n_neighbors=6).fit(X),
        KernelLPP(n_components=3, n_neighbors=6, kernel="linear").fit(X),
    )
    np.testing.assert_allclose(kernel.spectrum_.values, plain.spectrum_.values, rtol=ROUNDING)
    assert up_to_sign(kernel.embedding_, plain.embedding_) < ROUNDING
    assert up_to_sign(kernel.transform(Q), plain.transform(Q)) < ROUNDING


def test_invertible_kernel_is_laplacian_eigenmaps():
    X = bent(80)
    spacing = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
    width = 0.5 * np.sort(spacing, axis=1)[:, 1].mean()
    assert np.linalg.cond(np.exp(-(spacing**2) / (2 * width**2))) < 1e3
    W = affinities(X, 6)
    values, vectors = scipy.linalg.eigh(np.diag(W.sum(axis=1)) - W, np.diag(W.sum(axis=1)))
    model = KernelLPP(n_components=3, n_neighbors=6, gamma=0.5 / width**2).fit(X)
    np.testing.assert_allclose(model.spectrum_.values, values[1:11], rtol=ROUNDING)
    assert up_to_sign(model.embedding_, vectors[:, 1:4]) < ROUNDING
    assert (
        up_to_sign(model.embedding_, manifoldry.LaplacianEigenmaps(n_components=3, n_neighbors=6).fit_transform(X))
        < ROUNDING
    )


def test_polynomial_kernel_is_lpp_of_the_monomials():
    """(x'y + 1)^2 is the inner product of 1, sqrt(2) x_i, x_i^2 and sqrt(2) x_i x_j, i < j."""
    X = bent(columns=3)
    centered = X - X.mean(axis=0)
    i, j = np.triu_indices(3, 1)
    monomials = np.column_stack([np.sqrt(2) * centered, centered**2, np.sqrt(2) * centered[:, i] * centered[:, j]])
    W = affinities(X, 6)
    values, coordinates = pencil(monomials, np.diag(W.sum(axis=1)) - W, W.sum(axis=1))
    model = KernelLPP(n_components=2, n_neighbors=6, kernel="poly", degree=2).fit(X)
    assert model.diagnostics_["rank"] == 9
    np.testing.assert_allclose(model.spectrum_.values, values, rtol=1e-7)
    assert up_to_sign(model.embedding_, coordinates[:, :2]) < 1e-7


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [("rbf", {"gamma": 0.1}), ("poly", {"gamma": 0.3, "degree": 2}), ("sigmoid", {"gamma": 0.01}), ("cosine", {})],
)
def test_a_kernel_function_equals_the_named_kernel_about_the_mean_and_that_of_distances(kernel, parameters):
    X, Q = bent(60), bent(7, seed=2)
    mean = X.mean(axis=0)

    def function(A, B):
        return pairwise_kernels(A - mean, B - mean, metric=kernel, **{"coef0": 1.0, **parameters}, filter_params=True)

    named = KernelLPP(n_neighbors=6, kernel=kernel, **parameters).fit(X)
    called = KernelLPP(n_neighbors=6, kernel=function).fit(X)
    given = KernelLPP(n_neighbors=6, kernel=kernel, metric="precomputed", **parameters).fit(pairwise_distances(X))
    for other, new in ((called, Q), (given, pairwise_distances(Q, X))):
        # The range of a kernel ends at 1e-6 of its largest eigenvalue, which magnifies rounding as much.
        assert up_to_sign(other.embedding_, named.embedding_) < 1e-6
        assert up_to_sign(other.transform(new), named.transform(Q)) < 1e-6
    with pytest.raises(ValueError, match="function needs points"):
        KernelLPP(kernel=function, metric="precomputed").fit(pairwise_distances(X))


def test_precomputed_kernel_equals_the_computed_one():
    X, Q = bent(), bent(15, seed=2)
    direct = KernelLPP(n_components=2, n_neighbors=6, kernel="linear").fit(X)
    # Inner products about another origin: the map must not see it.
    given = KernelLPP(n_components=2, n_neighbors=6, kernel="precomputed").fit((X - 2.0) @ (X - 2.0).T)
    assert up_to_sign(given.embedding_, direct.embedding_) < ROUNDING
    assert up_to_sign(given.transform((Q - 2.0) @ (X - 2.0).T), direct.transform(Q)) < ROUNDING


def test_the_kernel_unrolls_what_a_linear_map_cannot():
    """The position along the arc is no linear function of the plane, but nearly one of kernel rows."""
    t = np.sort(np.random.default_rng(3).uniform(0, 1.7 * np.pi, 300))
    X = np.column_stack([np.cos(t), np.sin(t)])

    def order(Y):
        return abs(np.corrcoef(np.argsort(np.argsort(Y[:, 0])), np.arange(300))[0, 1])

    assert order(LPP(n_components=1).fit_transform(X)) < 0.9
    assert order(KernelLPP(n_components=1).fit_transform(X)) > 0.999


def test_the_way_back_from_the_kernel_is_near():
    """The regression is over 13 of 300 points on 1.7 pi of a circle: no worse than the sagitta of their chord."""
    t = np.sort(np.random.default_rng(13).uniform(0, 1.7 * np.pi, 300))
    X = np.column_stack([np.cos(t), np.sin(t)])
    model = KernelLPP(n_components=1).fit(X)
    error = np.linalg.norm(model.inverse_transform(model.embedding_) - X, axis=1)
    assert np.median(error) < (13 * 1.7 * np.pi / 300) ** 2 / 8


# Neighborhood preserving projections


def test_npp_solves_its_problem():
    X = bent()
    values, coordinates = pencil(X, lle_matrix(X, 6), np.ones(len(X)))
    model = NPP(n_components=3, n_neighbors=6).fit(X)
    np.testing.assert_allclose(model.spectrum_.values, values, rtol=1e-7)  # of 1e-5, by solving with the weights
    Y = model.embedding_
    assert up_to_sign(Y, coordinates[:, :3] * np.sqrt(len(X))) < 1e-7
    np.testing.assert_allclose(Y.T @ Y, len(X) * np.eye(3), atol=1e-10 * len(X))
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-12)


def test_npp_with_more_features_than_points_is_locally_linear_embedding():
    X = np.random.default_rng(4).standard_normal((30, 50))
    values = np.linalg.eigvalsh(lle_matrix(X, 5))
    np.testing.assert_allclose(NPP(n_components=3, n_neighbors=5).fit(X).spectrum_.values[:3], values[1:4], rtol=1e-8)


@pytest.mark.parametrize("skip", [True, False])
def test_onpp_is_orthogonal_and_its_error_is_the_sum_of_its_eigenvalues(skip):
    X = bent()
    M = lle_matrix(X, 6)
    centered = X - X.mean(axis=0)
    values, V = np.linalg.eigh(centered.T @ M @ centered)
    model = ONPP(n_components=2, n_neighbors=6, skip_first=skip).fit(X)
    chosen = slice(1, 3) if skip else slice(0, 2)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-13)
    np.testing.assert_allclose(model.spectrum_.values[:2], values[chosen], rtol=1e-8)
    np.testing.assert_allclose(model.spectrum_.dropped, values[:1] if skip else [], rtol=1e-8)
    Y = model.embedding_
    np.testing.assert_allclose(np.trace(Y.T @ M @ Y), values[chosen].sum(), rtol=1e-8)
    assert up_to_sign(Y, centered @ V[:, chosen]) < 1e-6  # vectors of values that are a few parts in ten apart


def test_onpp_without_skipping_is_the_least_of_all_orthogonal_projections():
    X = bent()
    M = lle_matrix(X, 6)
    least = ONPP(n_components=2, n_neighbors=6, skip_first=False).fit(X).spectrum_.values[:2].sum()
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(50):
        Y = X @ np.linalg.qr(rng.standard_normal((5, 2)))[0]
        errors.append(np.trace(Y.T @ M @ Y))
    assert min(errors) > least


def test_onpp_skips_nothing_that_it_needs():
    """A plane has two directions; leaving one out would flatten it."""
    truth = np.random.default_rng(6).uniform(0, 1, (60, 2))
    Y = ONPP(n_components=2, n_neighbors=6).fit_transform(np.column_stack([truth, truth @ [1.0, 1.0]]))
    assert affine_error(Y, truth) < 1e-20


# Linear tangent space alignment


def test_linear_ltsa_solves_its_problem():
    X = bent()
    values, coordinates = pencil(X, ltsa_matrix(X, 7, 2), np.ones(len(X)))
    model = LinearLTSA(n_components=2, n_neighbors=7).fit(X)
    np.testing.assert_allclose(model.spectrum_.values, values, rtol=ROUNDING)
    assert up_to_sign(model.embedding_, coordinates[:, :2] * np.sqrt(len(X))) < ROUNDING


def test_linear_ltsa_with_more_features_than_points_is_ltsa():
    X = np.random.default_rng(7).standard_normal((30, 50))
    linear = LinearLTSA(n_components=2, n_neighbors=6).fit(X).spectrum_.values[:2]
    np.testing.assert_allclose(linear, LTSA(n_components=2, n_neighbors=6).fit(X).spectrum_.values[:2], rtol=1e-8)


# Flat data


@each_unit
def test_a_flat_sheet_is_recovered_up_to_an_affine_map(method):
    X, truth = noisy_sheet(noise=0.0)
    model = method().fit(X)
    assert model.diagnostics_["rank"] == 2
    assert affine_error(model.embedding_, truth) < 1e-20


@each_unit
def test_a_flat_sheet_is_found_under_noise(method):
    """Noise within the sheet is 2e-6 of a variance of 5/12; besides, each of the eight other directions mixes in.

    A unit coordinate s of the sheet, s'As = a, is coupled to one of noise n by n'As, which for independent n is about
    |As| over the root of the number of points, and |As|^2 <= |A| a. First-order perturbation divides by the eigenvalue
    of the noise. The norm |A| is at most 2 for the Laplacian and 11 for the sum of projectors that all have 11 points.
    """
    X, truth = noisy_sheet()
    model = method().fit(X)
    values = model.spectrum_.values
    coupling = (2 if method is LPP else 11) * values[1] / len(X)
    assert affine_error(model.embedding_, truth) < 2 * 2e-6 / (5 / 12) + 8 * coupling / values[2] ** 2
    assert model.suggest_n_components().n_components == 2


def test_distance_preserving_projection_finds_the_plane_of_the_tree_and_keeps_it_to_scale():
    X, truth = noisy_sheet()
    model = DPP().fit(X)
    Y = model.embedding_
    distances = [np.linalg.norm(Z[:100, None] - Z[None, 100:200], axis=2) for Z in (Y, truth)]
    # Noise of 1e-3 in each coordinate of both ends: root two times that, six of them for ten thousand pairs.
    assert np.abs(distances[0] - distances[1]).max() < 6 * np.sqrt(2) * 1e-3
    assert model.suggest_n_components().n_components == 2


# Distance preserving projection


def test_spanning_tree_equals_kruskals():
    X = bent(60)
    graph = LPP(n_neighbors=6).fit(X).graph_
    rows = graph.rows()
    label = np.arange(60)
    expected = []
    for edge in np.argsort(graph.lengths, kind="stable"):
        i, j = rows[edge], graph.indices[edge]
        if label[i] != label[j]:
            label[label == label[i]] = label[j]
            expected.append((min(i, j), max(i, j)))
    tree = spanning_tree(graph)
    assert {tuple(edge) for edge in tree} == set(expected)
    assert len(tree) == 59


def test_spanning_tree_joins_duplicates_at_no_length():
    X = np.repeat(bent(12), 3, axis=0)
    model = DPP(n_neighbors=8).fit(X)
    tree = model.diagnostics_["tree"]
    lengths = np.linalg.norm(X[tree[:, 0]] - X[tree[:, 1]], axis=1)
    assert len(tree) == 35
    assert np.count_nonzero(lengths == 0) == 24


def test_no_orthogonal_projection_keeps_more_of_the_tree():
    X = bent()
    model = DPP(n_components=2).fit(X)
    i, j = model.diagnostics_["tree"].T
    edges = X[i] - X[j]
    squares = (edges**2).sum(axis=1)
    kept = model.spectrum_.values[:2].sum()
    Y = model.embedding_
    np.testing.assert_allclose((((Y[i] - Y[j]) ** 2).sum(axis=1) / squares).mean(), kept, rtol=1e-12)
    np.testing.assert_allclose(model.spectrum_.values.sum(), 1, rtol=1e-12)
    rng = np.random.default_rng(8)
    for _ in range(200):
        other = edges @ np.linalg.qr(rng.standard_normal((5, 2)))[0]
        assert ((other**2).sum(axis=1) / squares).mean() < kept
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-13)


def test_a_far_cluster_does_not_rule():
    """Two thin strips far apart: PCA's one axis leads across the gap, that of most steps leads along the strips."""
    rng = np.random.default_rng(9)
    strip = np.column_stack([rng.uniform(0, 10, 200), rng.uniform(0, 0.1, 200)])
    X = np.concatenate([strip, strip + np.array([0.0, 30.0])])
    model = DPP(n_components=1)
    model.fit(X)
    assert "2 connected components" in " ".join(model.diagnostics_["remarks"])
    assert len(model.diagnostics_["bridges"]) == 1
    assert abs(model.components_[0, 0]) > 0.99
    assert abs(np.linalg.svd(X - X.mean(axis=0))[2][0, 0]) < 0.1


# The explicit map


@each_linear
def test_the_map_is_the_matrix(method):
    X, Q = bent(), bent(30, seed=10)
    model = method(n_components=3).fit(X)
    assert model.components_.shape == (3, 5)
    assert model.mean_.shape == (5,)
    size = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12 * size)
    np.testing.assert_allclose(model.transform(Q), (Q - model.mean_) @ model.components_.T, atol=1e-12 * size)


@each_linear
def test_there_and_back_is_the_orthogonal_projection(method):
    X = bent()
    model = method(n_components=2).fit(X)
    back = model.inverse_transform(model.embedding_)
    rows = scipy.linalg.orth(model.components_.T)
    np.testing.assert_allclose(back, model.mean_ + (X - model.mean_) @ rows @ rows.T, atol=1e-10)
    np.testing.assert_allclose(model.transform(back), model.embedding_, atol=1e-10 * np.abs(model.embedding_).max())


@each_linear
def test_dependent_and_constant_features_change_nothing(method):
    """An orthonormal map into more dimensions, plus constants: the same points in another frame."""
    X = bent()
    axes = np.linalg.qr(np.random.default_rng(11).standard_normal((9, 5)))[0]
    model = method(n_components=2).fit(np.column_stack([X @ axes.T, np.full(len(X), 7.0)]))
    assert model.diagnostics_["rank"] == 5
    assert up_to_sign(model.embedding_, method(n_components=2).fit_transform(X)) < 1e-8
    np.testing.assert_allclose(model.components_[:, 9], 0, atol=1e-12 * np.abs(model.components_).max())


@each_linear
def test_columns_beyond_the_rank_are_zero(method):
    X, _ = noisy_sheet(60, noise=0.0)
    model = method(n_components=4, n_neighbors=6).fit(X)
    assert (model.embedding_[:, 2:] == 0).all()
    assert (model.components_[2:] == 0).all()
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), X, atol=1e-10)


@each_linear
def test_variance_cuts_the_thin_directions(method):
    """With nine tenths of the variance the map lives in the leading principal directions (LPP: weighted ones)."""
    X = bent()
    whole, cut = method(n_components=1).fit(X), method(n_components=1, variance=0.9).fit(X)
    share = np.linalg.svd(X - X.mean(axis=0))[1] ** 2
    needed = int(np.searchsorted(np.cumsum(share) / share.sum(), 0.9)) + 1
    assert cut.diagnostics_["rank"] == needed < whole.diagnostics_["rank"]
    if method is not LPP:
        thin = np.linalg.svd(X - X.mean(axis=0))[2][needed:]
        np.testing.assert_allclose(cut.components_ @ thin.T, 0, atol=1e-10 * np.abs(cut.components_).max())


@each_linear
def test_real_data_stay_apart_and_finite(method):
    digits = load_digits().data
    model = method(n_components=2).fit(digits)
    assert np.isfinite(model.embedding_).all()
    assert len(np.unique(model.embedding_.round(12), axis=0)) == len(digits)


@pytest.mark.parametrize("method", [*LINEAR, KernelLPP], ids=lambda method: method.__name__)
def test_components_apart_have_maps_of_their_own(method):
    X = np.concatenate([bent(40), bent(30, seed=12) + 100.0])
    model = method(n_components=2, n_neighbors=5, disconnected="apart").fit(X)
    assert not hasattr(model, "components_")
    assert not hasattr(model, "inverse_transform")
    assert model.diagnostics_["components"] == 2
    size = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-8 * size)
    alone = method(n_components=2, n_neighbors=5).fit_transform(X[:40])
    assert up_to_sign(model.embedding_[:40] - model.embedding_[:40].mean(axis=0), alone - alone.mean(axis=0)) < 1e-8


@pytest.mark.parametrize("method", [*LINEAR, KernelLPP], ids=lambda method: method.__name__)
def test_a_graph_alone_is_refused(method):
    sparse = kneighbors_graph(bent(), 6, mode="distance")
    with pytest.raises(ValueError, match="got only a graph"):
        method().fit(NeighborGraph.from_sparse(sparse))


@pytest.mark.parametrize(
    ("method", "settings", "match"),
    [
        (LPP, {"variance": 0.0}, "variance must be a number above 0 and at most 1"),
        (NPP, {"variance": 1.5}, "variance must be a number above 0 and at most 1"),
        (LPP, {"weights": "heavy"}, "weights must be one of"),
        (LPP, {"bandwidth": 0.0}, "bandwidth must be a number above 0 or 'auto'"),
        (NPP, {"reg": -1.0}, "reg must be a number of at least 0"),
        (KernelLPP, {"kernel": "magic"}, "kernel must be 'rbf', .* or a function"),
        (KernelLPP, {"gamma": -1.0}, "gamma must be a number above 0"),
        (KernelLPP, {"degree": 0}, "degree must be an integer of at least 1"),
    ],
)
def test_settings_that_cannot_be(method, settings, match):
    with pytest.raises(ValueError, match=match):
        method(**settings).fit(bent())


def test_a_precomputed_kernel_has_one_map():
    X = bent()
    with pytest.raises(ValueError, match="one map for all points"):
        KernelLPP(kernel="precomputed", disconnected="apart").fit(X @ X.T)
