"""Diffusion maps against their definition, closed forms and independent computations."""

import itertools

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph

from helpers import bandwidths, pair_bandwidths
from manifoldry import DiffusionMaps, LaplacianEigenmaps, NeighborGraph, datasets


def blob(n=60, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 3)) * np.array([3.0, 1.0, 0.5])


def edges(X, k):
    D = cdist(X, X)
    listed = np.zeros_like(D, dtype=bool)
    listed[np.arange(len(X))[:, None], np.argsort(D, axis=1)[:, 1 : k + 1]] = True
    return listed | listed.T, D


def kernel(X, k, *, sparse=False, bandwidth="auto"):
    """The Gaussian by its definition, with loops."""
    near, D = edges(X, k)
    own = bandwidths(D, k)
    reach = np.sort(D, axis=1)[:, k]
    s2 = np.maximum.outer(own, own) ** 2 if sparse else pair_bandwidths(D, own, reach, own, reach) ** 2
    if bandwidth == "variable":
        local = np.array([D[i, near[i]].mean() for i in range(len(X))]) / np.sqrt(2)
        s2 = np.outer(local, local)
    elif bandwidth != "auto":
        s2 = np.full_like(D, bandwidth**2)
    return np.exp(-(D**2) / (2 * s2)) * (near | np.eye(len(X), dtype=bool) if sparse else 1.0)


def walk(W, alpha=0.0):
    q = W.sum(axis=1)
    W = W / np.outer(q, q) ** alpha
    d = W.sum(axis=1)
    return W / d[:, None], d / d.sum()


def distances_by_definition(P, pi, t):
    """Differences of the rows of P^t, one pair at a time."""
    rows = np.linalg.matrix_power(P, t)
    return np.array([[np.sqrt(((a - b) ** 2 / pi).sum()) for b in rows] for a in rows])


KINDS = [
    {},
    {"alpha": 0.5},
    {"alpha": 1.0, "t": 3},
    {"bandwidth": "variable"},
    {"bandwidth": 1.5, "t": 2},
    {"kernel": "sparse"},
    {"kernel": "sparse", "alpha": 1.0, "t": 2},
    {"kernel": "sparse", "bandwidth": "variable"},
]


def independent(X, settings, k=8):
    W = kernel(X, k, sparse=settings.get("kernel") == "sparse", bandwidth=settings.get("bandwidth", "auto"))
    return walk(W, settings.get("alpha", 0.0))


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_eigenpairs_of_the_walk(settings):
    X = blob()
    P, pi = independent(X, settings)
    model = DiffusionMaps(n_components=3, n_neighbors=8, **settings).fit(X)
    psi, values = model.spectrum_.vectors, model.spectrum_.values
    np.testing.assert_allclose(model.diagnostics_["stationary"], pi, rtol=1e-11)
    np.testing.assert_allclose(P @ psi, psi * values, atol=1e-10)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(P).real)[::-1][1:4], values, atol=1e-9)
    np.testing.assert_allclose(psi.T @ (pi[:, None] * psi), np.eye(3), atol=1e-11)
    np.testing.assert_allclose(pi @ psi, 0, atol=1e-11)  # orthogonal to psi_0 = 1
    assert model.spectrum_.dropped == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(model.embedding_, psi * values ** settings.get("t", 1), rtol=1e-12)


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_distances_are_those_of_the_walk(settings):
    X = blob(40)
    t = settings.get("t", 1)
    P, pi = independent(X, settings)
    expected = distances_by_definition(P, pi, t)
    model = DiffusionMaps(n_components=2, n_neighbors=8, **settings).fit(X)
    # Rounding of the eigenvectors over the roots of pi, at least 1e-3.
    np.testing.assert_allclose(model.diffusion_distances(), expected, atol=1e-11)
    np.testing.assert_allclose(model.diffusion_distances(t=4), distances_by_definition(P, pi, 4), atol=1e-11)


def test_all_coordinates_have_the_diffusion_distances():
    X = blob(30)
    model = DiffusionMaps(n_components=29, n_neighbors=6, t=2).fit(X)
    np.testing.assert_allclose(cdist(model.embedding_, model.embedding_), model.diffusion_distances(), atol=1e-11)


def test_truncation_leaves_out_the_small_eigenvalues():
    """The mean of squared distances, weighted by pi twice, is 2 sum lambda^(2t): d coordinates keep the first d."""
    X = blob(50)
    P, pi = independent(X, {})
    values = np.sort(np.linalg.eigvals(P).real)[::-1][1:]
    model = DiffusionMaps(n_components=4, n_neighbors=8, t=2).fit(X)
    weights = np.outer(pi, pi)
    whole = (weights * model.diffusion_distances() ** 2).sum()
    kept = (weights * cdist(model.embedding_, model.embedding_) ** 2).sum()
    assert whole == pytest.approx(2 * (values**4).sum(), rel=1e-10)
    assert kept == pytest.approx(2 * (values[:4] ** 4).sum(), rel=1e-10)


def test_distances_shrink_with_time():
    model = DiffusionMaps(n_neighbors=8).fit(blob())
    curve = [model.diffusion_distances(t) for t in (1, 2, 5, 20)]
    for early, late in itertools.pairwise(curve):
        assert (late <= early + 1e-12).all()


def test_walk_and_spectrum_rebuild_the_power():
    """P^t = sum lambda^t psi phi', phi = pi psi; psi_0 = 1."""
    X = blob(30)
    P, pi = independent(X, {}, k=6)
    model = DiffusionMaps(n_components=29, n_neighbors=6, t=1).fit(X)
    psi, values = model.spectrum_.vectors, model.spectrum_.values
    rebuilt = pi + (psi * values**3) @ (psi * pi[:, None]).T
    np.testing.assert_allclose(rebuilt, np.linalg.matrix_power(P, 3), atol=1e-12)


@pytest.mark.parametrize("t", [0, 0.5, 1, 7])
def test_time_scales_the_columns(t):
    X = blob()
    still, moved = DiffusionMaps(n_components=3, t=0).fit(X), DiffusionMaps(n_components=3, t=t).fit(X)
    np.testing.assert_allclose(moved.embedding_, still.embedding_ * still.spectrum_.values**t, rtol=1e-11)


def test_at_time_zero_solves_the_problem_of_laplacian_eigenmaps():
    """lambda_P = 1 - lambda_L; Y'DY = I there, psi' diag(pi) psi = I here: apart by the root of the volume."""
    X = blob()
    W = kernel(X, 8)
    D = np.diag(W.sum(axis=1))
    values, vectors = scipy.linalg.eigh(D - W, D)
    model = DiffusionMaps(n_components=3, n_neighbors=8, t=0).fit(X)
    np.testing.assert_allclose(model.spectrum_.values, 1 - values[1:4], atol=1e-12)
    expected = vectors[:, 1:4] * np.sqrt(np.trace(D))
    signs = np.sign((expected * model.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embedding_, expected * signs, atol=1e-9)


def test_ring_beside_laplacian_eigenmaps():
    """Equal affinities, and loops as strong: eigenvalues (1 + 2 cos) / 3 against 1 - cos, circles of the same shape."""
    angle = 2 * np.pi * np.arange(20) / 20
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    diffusion = DiffusionMaps(n_components=2, kernel="sparse", n_neighbors=2, bandwidth=1e6, t=0).fit(X)
    eigenmaps = LaplacianEigenmaps(n_components=2, n_neighbors=2, weights="binary").fit(X)
    cosine = np.cos(2 * np.pi / 20)
    np.testing.assert_allclose(diffusion.spectrum_.values, (1 + 2 * cosine) / 3, rtol=1e-10)
    np.testing.assert_allclose(eigenmaps.spectrum_.values, 1 - cosine, rtol=1e-10)
    radii = np.linalg.norm(diffusion.embedding_, axis=1)
    np.testing.assert_allclose(radii, np.sqrt(2), rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(eigenmaps.embedding_, axis=1) * np.sqrt(40), radii, rtol=1e-9)


def test_density_does_not_matter_at_alpha_one():
    """A circle sampled twice as densely on one side: at alpha 1 the first two coordinates are its cosine and sine."""
    u = (np.arange(400) + 0.5) / 400
    angle = 2 * np.pi * u + 0.5 * np.sin(2 * np.pi * u)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    waves = np.column_stack([np.ones(400), np.cos(angle), np.sin(angle)])
    misfit = {}
    for alpha in (0.0, 1.0):
        Y = DiffusionMaps(n_components=2, alpha=alpha, bandwidth=0.15, t=0).fit_transform(X)
        rest = Y - waves @ np.linalg.lstsq(waves, Y, rcond=None)[0]
        misfit[alpha] = (rest**2).sum() / (Y**2).sum()
    assert misfit[1.0] < 1e-3
    assert misfit[0.0] > 10 * misfit[1.0]


def test_new_points_follow_the_walk():
    X, Q = blob(50), blob(5, seed=9)
    for alpha in (0.0, 1.0):
        model = DiffusionMaps(n_components=2, n_neighbors=8, alpha=alpha, t=2).fit(X)
        s, away = bandwidths(cdist(X, X), 8), cdist(Q, X)
        reach, nearest, near = np.sort(cdist(X, X), axis=1)[:, 8], away.argmin(axis=1), np.sort(away, axis=1)[:, :8]
        mine = np.sqrt((near**2).mean(axis=1) / 2) / 1.5
        my_reach = np.where(mine > s[nearest], near[:, -1], reach[nearest])
        q = kernel(X, 8).sum(axis=1)
        scale = pair_bandwidths(away, np.maximum(mine, s[nearest]), my_reach, s, reach)
        p = np.exp(-(away**2) / (2 * scale**2)) / q**alpha
        p /= p.sum(axis=1, keepdims=True)
        psi, values = model.spectrum_.vectors, model.spectrum_.values
        np.testing.assert_allclose(model.transform(Q), values * (p @ psi), atol=1e-11)


def test_the_rule_for_new_points_reproduces_fitted_ones():
    """With the complete kernel it is exact: a hair beside a fitted point is a hair beside its place."""
    X = blob(50)
    model = DiffusionMaps(n_components=2, n_neighbors=8, alpha=1.0).fit(X)
    size = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X + 1e-9), model.embedding_, atol=1e-7 * size)


def test_far_away_points_have_a_place():
    for settings in ({}, {"bandwidth": "variable"}, {"kernel": "sparse"}):
        model = DiffusionMaps(n_components=2, n_neighbors=8, **settings).fit(blob())
        assert np.isfinite(model.transform(np.full((1, 3), 1e6))).all()


def test_complete_kernel_joins_what_neighbors_do_not():
    X = np.concatenate([blob(30), blob(20, seed=1) + 100.0])
    together = DiffusionMaps(n_components=1, n_neighbors=5, kernel="complete").fit(X)
    side = together.embedding_[:, 0] > 0
    assert len(set(side[:30])) == len(set(side[30:])) == 1
    assert side[0] != side[-1]
    assert together.spectrum_.values[0] == pytest.approx(1.0, abs=1e-12)
    apart = DiffusionMaps(n_components=2, n_neighbors=5).fit(X)  # "auto": far pieces keep their shapes
    assert apart.diagnostics_["kernel"] == "sparse"
    assert len(np.unique(apart.embedding_.round(9), axis=0)) == 50
    assert apart.diagnostics_["components"] == 2
    with pytest.raises(ValueError, match="one connected walk"):
        apart.diffusion_distances()


def test_graphs_get_the_sparse_kernel():
    X = blob()
    lengths = kneighbors_graph(X, 8, mode="distance")
    points = DiffusionMaps(n_components=2, n_neighbors=8, kernel="sparse").fit(X)
    for model in (
        DiffusionMaps(n_components=2, metric="precomputed").fit(lengths),
        DiffusionMaps(n_components=2).fit(NeighborGraph.from_sparse(lengths)),
    ):
        assert model.diagnostics_["kernel"] == "sparse"
        np.testing.assert_allclose(model.embedding_, points.embedding_, atol=1e-9)
    with pytest.raises(ValueError, match="complete kernel needs points"):
        DiffusionMaps(n_components=2, kernel="complete", metric="precomputed").fit(lengths)


def test_complete_neighborhoods_make_the_sparse_kernel_complete():
    X = blob(40)
    complete, sparse = (
        DiffusionMaps(n_components=3, n_neighbors=39, kernel=kind).fit(X) for kind in ("complete", "sparse")
    )
    # The sparse kernel raises affinities to 1e-10.
    np.testing.assert_allclose(complete.embedding_, sparse.embedding_, atol=1e-7)


def test_kernel_is_chosen_by_size(monkeypatch):
    monkeypatch.setattr("manifoldry.methods.spectral._diffusion.MAX_COMPLETE_POINTS", 59)
    assert DiffusionMaps().fit(blob(60)).diagnostics_["kernel"] == "sparse"
    assert DiffusionMaps().fit(blob(59)).diagnostics_["kernel"] == "complete"


def test_alternating_walk_is_told():
    """Points in two rows, neighbors across only: with weak loops the walk goes to and fro."""
    n = 10
    lengths = NeighborGraph(
        np.arange(0, 2 * n * n + 1, n),
        np.concatenate([np.tile(np.arange(n, 2 * n), n), np.tile(np.arange(n), n)]),
        np.ones(2 * n * n),
        symmetric=True,
    )
    with pytest.warns(UserWarning, match=r"eigenvalue -0\.8"):
        model = DiffusionMaps(n_components=1, bandwidth=1e6).fit(lengths)
    # Affinities and loops are 1: P = (A + I) / 11, with eigenvalues 1, 1/11 (18 times) and -9/11.
    assert model.spectrum_.values[0] == pytest.approx(1 / 11, rel=1e-9)


def test_automatic_time_is_the_knee():
    model = DiffusionMaps(n_components=2, t="auto").fit(datasets.s_curve(200).X)
    t = model.diagnostics_["t"]
    assert 1 < t < 100
    full = np.concatenate([[1.0], DiffusionMaps(n_components=50).fit(datasets.s_curve(200).X).spectrum_.values])

    def entropy(time):
        p = full**time / (full**time).sum()
        return -(p * np.log(p)).sum()

    times = np.arange(1, 101)
    curve = np.array([entropy(time) for time in times])
    line = curve[0] + (curve[-1] - curve[0]) * (times - 1) / 99
    assert t == times[np.argmax(line - curve)]


def test_variable_bandwidth_is_free_of_scale():
    X = blob()
    one, ten = (DiffusionMaps(n_components=2, bandwidth="variable").fit(scale * X) for scale in (1.0, 10.0))
    np.testing.assert_allclose(one.embedding_, ten.embedding_, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"t": -1}, "t must be a number of at least 0 or 'auto'"),
        ({"t": "soon"}, "t must be a number of at least 0 or 'auto'; got 'soon'"),
        ({"alpha": 1.5}, "alpha must be a number between 0 and 1"),
        ({"alpha": -0.1}, "alpha must be a number between 0 and 1; got -0.1"),
        ({"kernel": "dense"}, "kernel must be one of"),
        ({"bandwidth": "wide"}, "bandwidth must be a number above 0, 'auto' or 'variable'"),
        ({"metric": "affinity"}, "metric must be one of"),
    ],
)
def test_words_that_mean_nothing(settings, match):
    with pytest.raises(ValueError, match=match):
        DiffusionMaps(**settings).fit(blob())


def test_digits_and_iris():
    from sklearn.datasets import load_digits, load_iris

    for X in (load_digits().data, load_iris().data):
        for kind in ("complete", "sparse"):
            assert np.isfinite(DiffusionMaps(kernel=kind).fit_transform(X)).all()


def test_suggestion_counts_clusters():
    rng = np.random.default_rng(7)
    corners = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 6.0], [9.0, 6.0]])
    X = np.concatenate([corner + rng.standard_normal((40, 2)) for corner in corners])
    # The automatic bandwidths join an isolated point to the nearest cluster beside its own: a bandwidth is given.
    model = DiffusionMaps(n_components=2, n_neighbors=12, kernel="complete", bandwidth=0.7).fit(X)
    assert model.suggest_n_components(8).n_components == 3


def test_the_affinity_matrix_is_the_symmetric_matrix_of_the_sparse_walk():
    X = blob()
    W = kernel(X, 8, sparse=True)
    q = W.sum(axis=1)
    model = DiffusionMaps(n_components=2, n_neighbors=8, kernel="sparse", alpha=1.0).fit(X)
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), W / np.outer(q, q), rtol=1e-10)
    assert not hasattr(model.set_params(kernel="complete").fit(X), "affinity_matrix_")
