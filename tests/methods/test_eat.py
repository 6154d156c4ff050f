"""Embedding by affine transformations: exact truths, and slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from helpers import problems, rigid_error
from manifoldry import EAT, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.extension.distances import pairwise
from manifoldry._numerics.semidefinite.interior import unfold_gram


def lengths(X):
    return pairwise(X, X, "euclidean", None, Run(0))


def cloud(n, columns, seed):
    return np.random.default_rng(seed).standard_normal((n, columns))


def posed(D, k):
    """Kept pairs, rows of differences with the first point at the origin, and the form of all other pairs."""
    n = len(D)
    near = np.argsort(D, axis=1)[:, 1 : k + 1]
    kept = np.zeros((n, n), dtype=bool)
    kept[np.arange(n)[:, None], near] = True
    kept |= kept.T
    i, j = np.nonzero(np.triu(kept))
    a, b = np.nonzero(np.triu(~kept, 1))
    eye = np.eye(n)[:, 1:]
    B = (eye[i] - eye[j]) / D[i, j][:, None]
    O = (eye[a] - eye[b]) / D[a, b][:, None]  # noqa: E741
    return np.column_stack([i, j]), B, O.T @ O / len(a)


def most_stretch(W, B, low, high):
    """Return the maximum of tr(W A), A psd, with b A b' between low and high, by a general solver."""
    clarabel = pytest.importorskip("clarabel")
    m = len(W)
    rows, columns = zip(*[(a, b) for b in range(m) for a in range(b + 1)], strict=True)
    twice = np.where(np.equal(rows, columns), 1.0, np.sqrt(2.0))
    squares = B[:, rows] * B[:, columns] * twice
    whole = sp.csc_matrix(sp.vstack([sp.csc_matrix(np.vstack([squares, -squares])), -sp.eye(len(rows))]))
    right = np.concatenate([high, -low, np.zeros(len(rows))])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * len(B)), clarabel.PSDTriangleConeT(m)]
    nothing = sp.csc_matrix((len(rows), len(rows)))
    return -clarabel.DefaultSolver(nothing, -W[rows, columns] * twice, whole, right, cones, settings).solve().obj_val


@pytest.mark.parametrize("seed", range(20))
def test_identity_kernel_is_weighted_mvu(seed):
    X = cloud(10, 4, seed)
    D = lengths(X)
    pairs, B, W = posed(D, 5)  # connected: two sides of a cut would need six points each
    eat = EAT(kernel="precomputed", distances=D, keep=pairs, slack=1e-3, tol=1e-7).fit(np.eye(10))
    ends = np.full(len(B), 1.0)
    best = most_stretch(W, B, ends - 1e-3, ends + 1e-3)
    # Both solvers stop at relative gaps of 1e-7 to 1e-8; 1e-5 is what the method claims.
    assert eat.stretch_ == pytest.approx(best, rel=1e-5)
    assert -eat.certificate_.bound >= best * (1 - 1e-7)
    assert eat.error_ <= 1.0001e-6


def test_certificate_holds_the_truth_and_the_points_themselves():
    # The points keep all distances, so the best stretch is at least their own: 1.
    eat = EAT(n_neighbors=5).fit(datasets.s_curve(80).X)
    assert eat.stretch_ > 1
    assert eat.trace_.stop is Stop.CONVERGED
    assert eat.certificate_.gap <= eat.tol
    assert eat.certificate_.optimal
    assert eat.error_certificate_.optimal
    assert eat.certificate_.violation <= 1.001e-4


@pytest.mark.parametrize("gamma", [11.0, 1.0, 0.25, "auto"])
def test_full_rank_kernels_give_one_embedding(gamma):
    X = datasets.s_curve(50, random_state=3).X
    narrow = EAT(gamma=100.0, n_neighbors=5).fit(X)
    other = EAT(gamma=gamma, n_neighbors=5).fit(X)
    assert narrow.rank_ratio_ == other.rank_ratio_ == 1
    assert np.array_equal(narrow.embedding_, other.embedding_)


def test_the_basis_does_not_matter():
    _, B, W = posed(lengths(cloud(16, 4, 1)), 6)
    mixed = cloud(15, 15, 2)
    settings = {"slack": 1e-3, "tol": 1e-6, "fits": True}
    plain = unfold_gram(W, B, Run(0), **settings)
    turned = unfold_gram(mixed.T @ W @ mixed, B @ mixed, Run(0), **settings)
    sparse = unfold_gram(W, sp.csr_array(B), Run(0), **settings)
    # Each is within its gap of the same optimum.
    assert turned.stretch == pytest.approx(plain.stretch, rel=2e-6)
    assert sparse.stretch == pytest.approx(plain.stretch, rel=2e-6)


@pytest.mark.parametrize("steps", [0, 3, 8])
def test_unfinished_answers_are_consistent_and_bounded(steps, monkeypatch):
    monkeypatch.setattr("manifoldry._numerics.semidefinite.interior.MAX_INTERIOR_STEPS", steps)
    _, B, W = posed(lengths(cloud(12, 4, 3)), 5)
    found = unfold_gram(W, B, Run(0), slack=1e-3, tol=1e-6, fits=True)
    assert found.stop is Stop.LIMIT
    assert len(found.objective) == steps + 1
    assert np.vdot(W, found.root @ found.root.T) == pytest.approx(found.stretch, rel=1e-12)
    np.testing.assert_allclose(np.square(B @ found.root).sum(axis=1), found.lengths, rtol=1e-12)
    ends = np.ones(len(B))
    assert found.bound >= most_stretch(W, B, ends - 1e-3, ends + 1e-3) * (1 - 1e-7)


def test_linear_kernel_gives_a_linear_map():
    X = cloud(30, 4, 5)
    eat = EAT(n_components=2, kernel="linear").fit(X)
    Xc = X - X.mean(axis=0)
    image = Xc @ np.linalg.lstsq(Xc, eat.embedding_, rcond=None)[0]
    # Rounding times the condition of the kernel, which is about 10 here.
    np.testing.assert_allclose(image, eat.embedding_, atol=1e-10)
    new = cloud(7, 4, 6)
    mixed = 0.25 * new[:1] + 0.75 * new[1:2]
    np.testing.assert_allclose(eat.transform(mixed), [0.25, 0.75] @ eat.transform(new[:2])[None], atol=1e-10)


def folded(n, seed, half_angle=0.6):
    """Two flat sheets that meet in a line with points on it; also the sheet's flat coordinates."""
    rng = np.random.default_rng(seed)
    s = np.concatenate([np.zeros(4), rng.uniform(0.2, 2, n), -rng.uniform(0.2, 2, n)])
    h = rng.uniform(0, 2, len(s))
    return np.column_stack([s * np.cos(half_angle), np.abs(s) * np.sin(half_angle), h]), np.column_stack([s, h])


def test_folded_sheets_lie_flat_and_the_third_coordinate_vanishes():
    X, flat = folded(12, 0)
    one, other = np.arange(16), np.r_[:4, 16:28]
    pairs = np.concatenate([np.array([(a, b) for a in side for b in side if a < b]) for side in (one, other)])
    slack = 1e-6
    eat = EAT(n_components=3, kernel="linear", keep=pairs, slack=slack, tol=1e-6).fit(X)
    # At slack 0 the answer is flat; within the slack the third dimension gets a share of variance of that order.
    assert eat.spectrum_.values[2] < 100 * slack * eat.spectrum_.values[0]
    # Coordinates are the root of that.
    assert metrics.procrustes(eat.embedding_[:, :2], flat).error < 100 * slack
    new, where = folded(30, 1)
    shift = flat.mean(axis=0)
    both = np.vstack([eat.embedding_[:, :2], eat.transform(new)[:, :2]])
    assert metrics.procrustes(both, np.vstack([flat, where]) - shift).error < 100 * slack


def test_least_error_where_distances_contradict_the_kernel():
    X = cloud(25, 2, 8)
    D = lengths(X * [1.0, 0.3]) + 0.2 * (1 - np.eye(25))
    i, j = np.triu_indices(25, 1)
    pairs = np.column_stack([i, j])[::3]
    B = (X[pairs[:, 0]] - X[pairs[:, 1]]) / D[pairs[:, 0], pairs[:, 1]][:, None]

    def error(entries):
        root = entries.reshape(2, 2)
        return np.mean((np.square(B @ root).sum(axis=1) - 1) ** 2)

    least = min(minimize(error, start, tol=1e-14).fun for start in cloud(5, 4, 9))
    eat = EAT(n_components=1, kernel="linear", distances=D, keep=pairs, slack=1e-6).fit(X)
    assert least > 0.01
    # Lengths may leave the best ones by the slack, at which the error has no slope along the cone.
    assert eat.error_ == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"kernel": "poly", "degree": 2}, {"kernel": "rbf"}])
def test_both_certificates_of_contradictory_distances(settings):
    """The least error is proven, and value and bound of the stretch belong to the same bands."""
    X = cloud(25, 2, 8)
    noise = np.exp(0.3 * cloud(25, 25, 9))
    D = lengths(X) * (noise + noise.T) / 2
    eat = EAT(distances=D, n_neighbors=6, **settings).fit(X)
    assert eat.error_certificate_.optimal
    assert 1e-3 < eat.error_certificate_.bound <= eat.error_certificate_.objective
    # Lengths leave those of the least error by at most the slack of 1e-4.
    assert abs(np.sqrt(eat.error_) - np.sqrt(eat.error_certificate_.objective)) <= 1.01e-4
    assert eat.certificate_.optimal
    assert eat.certificate_.bound <= eat.certificate_.objective + eat.certificate_.noise
    assert eat.certificate_.noise <= 1e-5 * eat.stretch_
    assert eat.certificate_.violation <= 5e-6


@pytest.mark.parametrize("far", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("where", [0, 7])
def test_a_point_far_away_is_no_trouble(far, where):
    X = cloud(30, 3, 10)
    X[where] = far
    eat = EAT(gamma=0.3).fit(X)
    assert eat.certificate_.optimal
    assert eat.error_certificate_.optimal
    with pytest.raises(ValueError, match=r"leave 1 directions|hardly tell"):
        EAT(kernel="linear").fit(np.vstack([X[:3], X + 1e14 * (np.arange(30) == where)[:, None]]))


def test_duplicates_coincide_and_are_certified():
    X = cloud(30, 3, 11)
    eat = EAT().fit(np.vstack([X, X[:4]]))
    assert eat.certificate_.optimal
    np.testing.assert_allclose(eat.embedding_[30:], eat.embedding_[:4], atol=1e-9)


def test_given_distances_are_reached_on_the_globe():
    globe = datasets.half_globe(60, grid=True)
    inside = np.abs(globe.parameters[:, 0]) < 1.3
    X, place = globe.X[inside], globe.parameters[inside]
    eat = EAT(n_components=2, kernel="rbf", gamma=4.0, distances=lengths(place), n_neighbors=8).fit(X)
    # Full rank: all kept distances are reached to the slack, and the map, rigid under 8 neighbors, with them.
    assert eat.rank_ratio_ == 1
    assert eat.error_ < 1.001e-8
    assert np.sqrt(metrics.procrustes(eat.embedding_, place - place.mean(axis=0)).error) < 0.02


def test_free_pairs_do_not_matter():
    X = cloud(14, 3, 11)
    D = lengths(X)
    pairs, _, _ = posed(D, 4)
    kept = {tuple(pair) for pair in pairs}
    others = np.array([pair for pair in zip(*np.triu_indices(14, 1), strict=True) if tuple(pair) not in kept])
    stretched, free = others[::2], others[1::2]
    changed = D.copy()
    changed[free[:, 0], free[:, 1]] *= 3
    changed[free[:, 1], free[:, 0]] *= 3
    settings = {"keep": pairs, "stretch": stretched}
    one = EAT(distances=D, **settings).fit(X)
    two = EAT(distances=changed, **settings).fit(X)
    assert np.array_equal(one.embedding_, two.embedding_)
    assert EAT(distances=changed, keep=pairs).fit(X).stretch_ != one.stretch_


@pytest.mark.parametrize(
    "settings", [{"kernel": "rbf"}, {"kernel": "linear"}, {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 2.0}]
)
def test_fitted_points_return_to_their_places(settings):
    X = datasets.s_curve(60, random_state=2).X
    eat = EAT(n_components=2, **settings).fit(X)
    # Eigenvalues of the kernel down to 1e-10 of the largest are divided by: 60 roundings of 1e-16 over that.
    np.testing.assert_allclose(eat.transform(X), eat.embedding_, rtol=0, atol=6e-5 * np.abs(eat.embedding_).max())


def test_an_automatic_gamma_is_that_of_the_mean_distance_of_kept_pairs():
    X = datasets.s_curve(40, random_state=4).X
    auto = EAT(kernel="rbf").fit(X)
    assert auto.diagnostics_["gamma"] == pytest.approx(auto.graph_.lengths.mean() ** -2, rel=1e-12)
    stated = EAT(kernel="rbf", gamma=auto.diagnostics_["gamma"]).fit(X)
    assert np.array_equal(auto.transform(X), stated.transform(X))


def test_a_function_and_a_matrix_are_kernels_too():
    X, new = datasets.s_curve(40, random_state=4).X, datasets.s_curve(5, random_state=5).X

    def kernel(A, B):
        return np.exp(-(pairwise(A, B, "euclidean", None, Run(0)) ** 2))

    named = EAT(kernel="rbf", gamma=1.0).fit(X)
    called = EAT(kernel=kernel).fit(X)
    given = EAT(kernel="precomputed", distances=lengths(X)).fit(kernel(X, X))
    # The same problem up to rounding of the kernel, magnified by its condition, about 1e4.
    np.testing.assert_allclose(called.transform(new), named.transform(new), atol=1e-8)
    np.testing.assert_allclose(given.transform(kernel(new, X)), named.transform(new), atol=1e-8)


def test_advice_on_kernels_too_narrow_and_too_poor():
    roll = datasets.swiss_roll(60).X
    assert "lower gamma" in EAT(gamma=4.0).fit(roll).diagnostics_["advice"][0]
    poor = EAT(kernel="linear").fit(roll)
    assert "raise gamma, degree or slack" in poor.diagnostics_["advice"][0]
    assert poor.rank_ratio_ == pytest.approx(3 / 59)


@pytest.mark.parametrize("columns", [1, 2])
def test_all_distances_kept_leave_the_points_as_they_are(columns):
    """Nothing is left to stretch, and a kernel of full rank fits: the program ends where rounding stops its steps."""
    for seed in range(4):
        X = cloud(32, columns, seed)
        model = EAT(n_components=columns, n_neighbors=31).fit(X)
        assert model.stretch_ == 0.0
        # Squared distances within the slack of 1e-4.
        assert rigid_error(model.embedding_, X) < 1e-2
        # One of the lines is so badly conditioned that a distance leaves its band, which its certificate says.
        assert set(problems(model)) <= {model.certificate_.sentence}


def test_advice_where_the_points_need_more_dimensions():
    """Twenty points at random in ten dimensions are no surface, an arc is a curve."""
    assert "for features use n_components" in " ".join(EAT().fit(cloud(20, 10, 0)).diagnostics_["advice"])
    t = np.linspace(0, 3, 30)
    arc = np.column_stack([np.cos(t), np.sin(t)])
    assert problems(EAT(n_components=1, n_neighbors=2).fit(arc)) == ()


def test_dimension_suggested_for_a_strip():
    t = np.linspace(0, 3, 30)
    circle = np.column_stack([np.cos(t), np.sin(t)])
    assert EAT(n_components=1, n_neighbors=2).fit(circle).suggest_n_components().n_components == 1


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"distances": np.zeros((6, 6))}, "All distances are zero"),
        ({"distances": np.ones((6, 6)) - np.eye(6) - np.eye(6)[::-1]}, "got 3 pairs at 0"),
        ({"distances": np.ones((5, 5))}, "shape"),
        ({"keep": [[0, 0]]}, "different points"),
        ({"keep": [[0, 7]]}, "below 6"),
        ({"stretch": [[0.5, 1]]}, "pairs of indices"),
        ({"keep": [[0, 1], [2, 3], [4, 5]]}, "2 directions of the map free"),
        ({"kernel": "gauss"}, "kernel must be 'auto', 'linear', 'poly', 'rbf', 'precomputed' or a function"),
        ({"gamma": 0.0}, "gamma must be a number above 0, 'auto' or None"),
        ({"slack": -1.0}, "slack must be"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        EAT(**{"n_neighbors": 3, **settings}).fit(cloud(6, 2, 0))


def test_pieces_are_bridged_or_refused():
    X = np.concatenate([cloud(8, 2, 1), cloud(8, 2, 2) + 50])
    with pytest.warns(UserWarning, match="a shortest edge .* joins them"):
        eat = EAT(n_neighbors=3).fit(X)
    assert eat.diagnostics_["bridges"].shape == (1, 3)
    with pytest.raises(ValueError, match="2 components"):
        EAT(n_neighbors=3, disconnected="raise").fit(X)


@pytest.mark.parametrize("n", [4, 5, 6])
def test_nothing_to_stretch_is_said_and_proven(n):
    """Six neighbors of up to seven points are all pairs: their stretch is 0, and so is the bound."""
    X = np.random.default_rng(90210).normal(size=(n, 3))
    model = EAT().fit(X)
    assert (model.certificate_.objective, model.certificate_.bound, model.certificate_.gap) == (0.0, 0.0, 0.0)
    assert model.certificate_.optimal
    assert model.stretch_ == 0
    assert any("nothing to stretch" in sentence for sentence in model.diagnostics_["remarks"])
    rest = EAT().fit(np.random.default_rng(90211).normal(size=(30, 3)))
    assert not any("nothing to stretch" in sentence for sentence in rest.diagnostics_["remarks"])
