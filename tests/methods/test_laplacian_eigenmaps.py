"""Laplacian eigenmaps against closed forms and independent computations."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import csr_array, diags_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.manifold import SpectralEmbedding

from helpers import bandwidths, up_to_sign
from manifoldry import DisconnectedWarning, LaplacianEigenmaps, datasets


def path(n):
    return csr_array(diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1]))


def ring(n):
    W = path(n).toarray()
    W[0, -1] = W[-1, 0] = 1.0
    return W


def heat(X, k, s=None):
    """Affinities of the union of k-nearest-neighbor lists, by sorting whole rows."""
    D = cdist(X, X)
    nearest = np.argsort(D, axis=1)[:, 1 : k + 1]
    edges = np.zeros_like(D, dtype=bool)
    edges[np.arange(len(X))[:, None], nearest] = True
    edges |= edges.T
    own = np.full(len(X), s) if s is not None else bandwidths(D, k)
    return np.where(edges, np.exp(-(D**2) / (2 * np.maximum.outer(own, own) ** 2)), 0.0), own.min()


def test_path_vibrates_in_cosines():
    """v_j(i) = cos(pi j i / (n - 1)), lambda_j = 1 - cos(pi j / (n - 1)); a path is bipartite, so the last is 2."""
    n = 12
    model = LaplacianEigenmaps(n_components=n - 1, metric="affinity").fit(path(n))
    i, j = np.arange(n), np.arange(1, n)
    np.testing.assert_allclose(model.spectrum_.values, 1 - np.cos(np.pi * j / (n - 1)), atol=1e-13)
    waves = np.cos(np.pi * np.outer(i, j) / (n - 1))
    degrees = np.where((i == 0) | (i == n - 1), 1.0, 2.0)
    waves /= np.sqrt(degrees @ waves**2)
    assert up_to_sign(model.embedding_, waves) < 1e-12
    assert model.spectrum_.values[-1] == pytest.approx(2.0, abs=1e-13)


def test_ring_is_a_circle():
    n = 30
    model = LaplacianEigenmaps(n_components=2, metric="affinity").fit(ring(n))
    np.testing.assert_allclose(model.spectrum_.values, 1 - np.cos(2 * np.pi / n), rtol=1e-11)
    radii = np.linalg.norm(model.embedding_, axis=1)
    np.testing.assert_allclose(radii, 1 / np.sqrt(n), rtol=1e-10)  # two unit columns, degrees 2: sum r^2 = 2 / 2
    steps = np.linalg.norm(np.roll(model.embedding_, 1, axis=0) - model.embedding_, axis=1)
    np.testing.assert_allclose(steps, 2 * np.sin(np.pi / n) / np.sqrt(n), rtol=1e-9)


@pytest.mark.parametrize("weights", ["heat", "binary"])
@pytest.mark.parametrize("bandwidth", ["auto", 0.3])
def test_equals_the_dense_pencil(weights, bandwidth):
    X = datasets.s_curve(150).X
    W, s = heat(X, 7, None if bandwidth == "auto" else bandwidth)
    if weights == "binary":
        W = (W > 0).astype(float)
    D = np.diag(W.sum(axis=1))
    values, vectors = scipy.linalg.eigh(D - W, D)
    model = LaplacianEigenmaps(n_components=4, n_neighbors=7, weights=weights, bandwidth=bandwidth).fit(X)
    np.testing.assert_allclose(model.spectrum_.values, values[1:5], atol=1e-12)
    assert up_to_sign(model.embedding_, vectors[:, 1:5]) < 1e-8  # rounding over the smallest gap, about 1e-3
    assert model.diagnostics_["bandwidth"] == pytest.approx(np.inf if weights == "binary" else s, rel=1e-12)
    Y, objective = model.embedding_, 0.0
    for i, j in zip(*np.nonzero(W), strict=True):
        objective += 0.5 * W[i, j] * ((Y[i] - Y[j]) ** 2).sum()
    assert objective == pytest.approx(model.spectrum_.values.sum(), rel=1e-9)
    np.testing.assert_allclose(Y.T @ D @ Y, np.eye(4), atol=1e-11)
    np.testing.assert_allclose(np.diag(D) @ Y, 0, atol=1e-11)
    assert model.spectrum_.dropped == pytest.approx(0.0, abs=1e-14)


def test_equals_scikit_learn():
    X = datasets.swiss_roll(300).X
    W, _ = heat(X, 8)
    theirs = SpectralEmbedding(2, affinity="precomputed", eigen_solver="lobpcg", random_state=0).fit_transform(W)
    ours = LaplacianEigenmaps(n_components=2, n_neighbors=8).fit_transform(X)
    assert up_to_sign(ours, theirs) < 1e-3  # their solver stops at a residual of about 1e-5 of a gap of 1e-2


def test_three_laplacians_are_one_problem_or_another():
    X = datasets.s_curve(120).X
    W, _ = heat(X, 6)
    degrees = W.sum(axis=1)
    walk, symmetric, plain = (
        LaplacianEigenmaps(n_components=3, n_neighbors=6, laplacian=kind).fit(X)
        for kind in ("random_walk", "symmetric", "unnormalized")
    )
    np.testing.assert_allclose(walk.spectrum_.values, symmetric.spectrum_.values, atol=1e-13)
    assert up_to_sign(np.sqrt(degrees)[:, None] * walk.embedding_, symmetric.embedding_) < 1e-9
    np.testing.assert_allclose(symmetric.embedding_.T @ symmetric.embedding_, np.eye(3), atol=1e-12)
    values, vectors = np.linalg.eigh(np.diag(degrees) - W)
    np.testing.assert_allclose(plain.spectrum_.values, values[1:4], atol=1e-12)
    assert up_to_sign(plain.embedding_, vectors[:, 1:4]) < 1e-8
    np.testing.assert_allclose(plain.embedding_.sum(axis=0), 0, atol=1e-11)


def test_fiedler_vector_parts_two_clusters():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.standard_normal((30, 2)), rng.standard_normal((20, 2)) + np.array([7.0, 0.0])])
    model = LaplacianEigenmaps(n_components=1, n_neighbors=5, disconnected="bridge").fit(X)
    assert "2 connected components" in " ".join(model.diagnostics_["remarks"])
    side = model.embedding_[:, 0] > 0
    assert side[:30].all() != side[30:].all()
    assert len(set(side[:30])) == len(set(side[30:])) == 1
    assert model.suggest_n_components(6).n_components == 1


def test_components_stand_apart_and_keep_their_shape():
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.uniform(size=(40, 2)), rng.uniform(size=(25, 2)) + 9.0])
    model = LaplacianEigenmaps(n_components=2, n_neighbors=5).fit(X)
    assert model.diagnostics_["components"] == 2
    for part in (slice(0, 40), slice(40, 65)):
        alone = LaplacianEigenmaps(n_components=2, n_neighbors=5).fit_transform(X[part])
        moved = model.embedding_[part] - model.embedding_[part].mean(axis=0)
        np.testing.assert_allclose(moved, alone - alone.mean(axis=0), atol=1e-9)
    assert model.embedding_[:40, 0].max() < model.embedding_[40:, 0].min()
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)


def test_copies_of_one_point_stay_together():
    """Eight copies are each other's five neighbors: a component without a shape."""
    X = np.concatenate([np.random.default_rng(6).uniform(size=(30, 2)), np.full((8, 2), 5.0)])
    Y = LaplacianEigenmaps(n_components=2, n_neighbors=5).fit_transform(X)
    assert np.ptp(Y[30:], axis=0).max() == 0
    assert len(np.unique(Y[:30], axis=0)) == 30


def test_the_affinity_matrix_holds_the_weights_of_the_edges():
    X = datasets.s_curve(120).X
    W, _ = heat(X, 6)
    model = LaplacianEigenmaps(n_components=2, n_neighbors=6).fit(X)
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), W, atol=1e-14)
    given = LaplacianEigenmaps(n_components=2, metric="affinity").fit(3.0 * W)
    np.testing.assert_allclose(given.affinity_matrix_.toarray(), 3.0 * W, rtol=1e-12)
    np.testing.assert_array_equal(given.fit(W).transform(W), clone(given).fit(W).transform(W))  # no memory of 3 W


@pytest.mark.parametrize("disconnected", ["apart", "largest"])
def test_the_affinity_matrix_of_a_graph_in_pieces_has_a_row_per_point(disconnected):
    X = datasets.s_curve(80).X
    mixed = np.random.default_rng(8).permutation(100)
    points = np.concatenate([X, X[:20] * 0.3 + 50.0])[mixed]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedWarning)
        model = LaplacianEigenmaps(n_components=2, n_neighbors=6, disconnected=disconnected).fit(points)
    expected = np.zeros((100, 100))
    for members in (np.flatnonzero(mixed < 80), np.flatnonzero(mixed >= 80)):
        if disconnected == "apart" or len(members) == 80:
            expected[np.ix_(members, members)] = heat(points[members], 6)[0]  # each with its own bandwidth
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), expected, atol=1e-12)
    assert model.suggest_n_components().n_components >= 1


def test_given_affinities_equal_points():
    X = datasets.s_curve(120).X
    W, _ = heat(X, 6)
    points = LaplacianEigenmaps(n_components=2, n_neighbors=6).fit(X)
    for given in (3.0 * W, csr_array(3.0 * W)):
        model = LaplacianEigenmaps(n_components=2, metric="affinity").fit(given)
        # Stronger affinities make heavier degrees: Y'DY = I shrinks the columns by the root.
        assert up_to_sign(np.sqrt(3.0) * model.embedding_, points.embedding_) < 1e-8
        np.testing.assert_allclose(model.spectrum_.values, points.spectrum_.values, atol=1e-12)
        np.testing.assert_allclose(model.transform(given), model.embedding_, atol=1e-9)
    for kind in ("symmetric", "unnormalized"):
        model = LaplacianEigenmaps(n_components=2, metric="affinity", laplacian=kind).fit(W)
        np.testing.assert_allclose(model.transform(W), model.embedding_, atol=1e-9)


def test_given_affinities_in_pieces():
    W = scipy.linalg.block_diag(ring(7), ring(5))
    model = LaplacianEigenmaps(n_components=2, metric="affinity").fit(W)
    assert model.diagnostics_["components"] == 2
    np.testing.assert_allclose(model.transform(csr_array(W)), model.embedding_, atol=1e-10)


@pytest.mark.parametrize(
    ("W", "match"),
    [
        (np.ones((3, 4)), "square"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "non-negative"),
        (np.triu(np.ones((4, 4))), "same both ways"),
        (np.eye(4), "no graph"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_matrices_that_are_no_affinities(W, match, form):
    with pytest.raises(ValueError, match=match):
        LaplacianEigenmaps(n_components=1, metric="affinity").fit(form(W))
    model = LaplacianEigenmaps(n_components=1, metric="affinity").fit(ring(5))
    with pytest.raises(ValueError, match="non-negative"):
        model.transform(-np.ones((1, 5)))
    with pytest.raises(ValueError, match="has lengths"):
        model.fit(model.graph_)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"weights": "cosine"}, "weights must be one of"),
        ({"bandwidth": "wide"}, "bandwidth must be a number above 0 or 'auto'; got 'wide'"),
        ({"bandwidth": 0.0}, "bandwidth must be a number above 0 or 'auto'; got 0.0"),
        ({"laplacian": "normalized"}, "laplacian must be one of"),
    ],
)
def test_words_that_mean_nothing(settings, match):
    with pytest.raises(ValueError, match=match):
        LaplacianEigenmaps(**settings).fit(np.random.default_rng(0).standard_normal((20, 3)))


def test_new_points_follow_the_equation_of_the_eigenvector():
    X, Q = datasets.s_curve(120).X, datasets.s_curve(6, random_state=3).X
    own = bandwidths(cdist(X, X), 6)
    models = {
        kind: LaplacianEigenmaps(n_components=2, n_neighbors=6, laplacian=kind).fit(X)
        for kind in ("random_walk", "symmetric", "unnormalized")
    }
    placed = {kind: model.transform(Q) for kind, model in models.items()}
    for q, x in enumerate(Q):
        distance = np.linalg.norm(X - x, axis=1)
        near = np.argsort(distance)[:6]
        mine = max(own[near[0]], np.sqrt((distance[near] ** 2).mean() / 2) / 1.5)
        w = np.exp(-(distance[near] ** 2) / (2 * np.maximum(mine, own[near]) ** 2))
        d, walk, plain = w.sum(), models["random_walk"], models["unnormalized"]
        v = w @ walk.embedding_[near] / d / (1 - walk.spectrum_.values)
        np.testing.assert_allclose(placed["random_walk"][q], v, rtol=1e-9)
        np.testing.assert_allclose(np.abs(placed["symmetric"][q]), np.sqrt(d) * np.abs(v), rtol=1e-7)
        y = w @ plain.embedding_[near] / (d - plain.spectrum_.values)
        np.testing.assert_allclose(placed["unnormalized"][q], y, rtol=1e-9)


def test_new_points_land_where_a_fit_with_them_puts_them():
    """Against the joint fit: off by less than a tenth of the picture's spread, mostly far less."""
    X = datasets.s_curve(800).X
    whole = LaplacianEigenmaps(n_components=2, n_neighbors=10).fit_transform(X)
    model = LaplacianEigenmaps(n_components=2, n_neighbors=10).fit(X[:700])
    A, *_ = np.linalg.lstsq(model.embedding_, whole[:700], rcond=None)
    error = np.linalg.norm(model.transform(X[700:]) @ A - whole[700:], axis=1)
    fit = np.linalg.norm(model.embedding_ @ A - whole[:700], axis=1)
    assert np.median(error) < 2 * np.median(fit) + 0.02 * whole.std()
    assert error.max() < 0.3 * np.abs(whole).max()


def test_digits_and_iris():
    from sklearn.datasets import load_digits, load_iris

    digits, iris = load_digits().data, load_iris().data
    for X in (digits, iris):
        Y = LaplacianEigenmaps().fit_transform(X)
        assert np.isfinite(Y).all()
        assert len(np.unique(Y.round(12), axis=0)) >= 0.9 * len(np.unique(X, axis=0))


def test_suggestion_counts_clusters():
    rng = np.random.default_rng(7)
    corners = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 6.0], [9.0, 6.0]])
    X = np.concatenate([corner + rng.standard_normal((40, 2)) for corner in corners])
    model = LaplacianEigenmaps(n_components=2, n_neighbors=12, disconnected="bridge").fit(X)
    assert "connected components" in " ".join(model.diagnostics_["remarks"])
    suggestion = model.suggest_n_components(8)
    assert suggestion.n_components == 3  # four clusters: the constant and three more
    assert "eigenvalue" in suggestion.why


def test_a_long_strip_is_followed_along_and_not_across():
    """Reference for n = 1000, k = 10: 0.062 of the sheet is not an affine image of Y; all of it is the short side."""
    roll = datasets.swiss_roll(1000)
    Y = np.column_stack([LaplacianEigenmaps(n_neighbors=10).fit_transform(roll.X), np.ones(1000)])
    sheet = roll.truth - roll.truth.mean(axis=0)
    rest = sheet - Y @ np.linalg.lstsq(Y, sheet, rcond=None)[0]
    along, across = (rest**2).sum(axis=0) / (sheet**2).sum(axis=0)
    assert along < 0.03  # a cosine and its double fitted to a line leave 0.014
    assert across > 0.9
    assert (rest**2).sum() / (sheet**2).sum() < 0.12
