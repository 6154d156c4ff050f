"""Kernel PCA against closed forms, explicit feature maps and independent computations."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.metrics.pairwise import pairwise_kernels

from helpers import up_to_sign
from manifoldry import KernelPCA, datasets, metrics

ROUNDING = 1e-9
"""Eigenpairs come with residuals of 1e-12 of the norm at most; gaps of a few percent and the division by the root of
an eigenvalue magnify that by less than a thousand in the data below."""


def cloud(n=80, columns=4, seed=0):
    """Gaussian points with well separated variances, off the origin."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, columns)) * np.geomspace(2.0, 0.4, columns) + 0.7


def monomials(X, c):
    """The feature map of (x'y + c)^2."""
    i, j = np.triu_indices(X.shape[1], 1)
    ones = np.full((len(X), 1), c)
    return np.hstack([X**2, np.sqrt(2) * X[:, i] * X[:, j], np.sqrt(2 * c) * X, ones])


@pytest.mark.parametrize("n_landmarks", [None, 40])
def test_the_linear_kernel_is_pca_for_old_and_new_points_and_back(n_landmarks):
    X, Q = cloud(), cloud(20, seed=1)
    ours = KernelPCA(n_components=3, kernel="linear", n_landmarks=n_landmarks).fit(X)
    pca = PCA(n_components=3).fit(X)
    assert up_to_sign(ours.embedding_, pca.transform(X)) < ROUNDING
    assert up_to_sign(ours.transform(Q), pca.transform(Q)) < ROUNDING
    back = ours.inverse_transform(ours.transform(Q))
    np.testing.assert_allclose(back, pca.inverse_transform(pca.transform(Q)), atol=ROUNDING * np.abs(X).max())
    np.testing.assert_allclose(ours.spectrum_.values, (len(X) - 1) * pca.explained_variance_, rtol=1e-10)


def test_a_quadratic_kernel_is_pca_of_the_monomials():
    X, Q = cloud(), cloud(20, seed=1)
    ours = KernelPCA(n_components=4, kernel="poly", degree=2, coef0=1.5).fit(X)
    pca = PCA(n_components=4).fit(monomials(X, 1.5))
    assert up_to_sign(ours.embedding_, pca.transform(monomials(X, 1.5))) < ROUNDING
    assert up_to_sign(ours.transform(Q), pca.transform(monomials(Q, 1.5))) < ROUNDING


def test_scores_are_orthogonal_and_components_have_unit_norm_in_feature_space():
    X = cloud()
    model = KernelPCA(n_components=5, gamma=0.5 / 1.7**2).fit(X)
    Y, mu = model.embedding_, model.spectrum_.values
    np.testing.assert_allclose(Y.T @ Y, np.diag(mu), atol=1e-10 * mu[0])
    np.testing.assert_allclose(Y.mean(axis=0), 0.0, atol=1e-10)
    K = pairwise_kernels(X, metric="rbf", gamma=0.5 / 1.7**2)
    H = np.eye(len(X)) - 1 / len(X)
    alpha = model.spectrum_.vectors / np.sqrt(mu)
    np.testing.assert_allclose(alpha.T @ H @ K @ H @ alpha, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(Y.var(axis=0), mu / len(X), rtol=1e-9)


KERNEL_PARAMETERS = {
    "linear": {},
    "poly": {"degree": 3, "gamma": 0.2, "coef0": 0.9},
    "rbf": {"gamma": 0.5 / 1.3**2},
    "cosine": {},
    "sigmoid": {"gamma": 0.05, "coef0": 0.3},
}


@pytest.mark.parametrize("kernel", KERNEL_PARAMETERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_equals_scikit_learn_for_every_kernel(kernel, sparse):
    X, Q = cloud(), cloud(15, seed=2)
    X[0] = 0.0  # a row without an angle
    settings = {"kernel": kernel, **KERNEL_PARAMETERS[kernel]}
    form = csr_array if sparse else np.asarray
    ours = KernelPCA(n_components=3, **settings).fit(form(X))
    dense = SklearnKernelPCA(3, eigen_solver="dense", **settings).fit(X)
    assert up_to_sign(ours.embedding_, dense.transform(X)) < ROUNDING
    assert up_to_sign(ours.transform(form(Q)), dense.transform(Q)) < ROUNDING


def test_a_function_and_a_matrix_of_values_give_the_same():
    X, Q = cloud(), cloud(15, seed=2)
    named = KernelPCA(n_components=3, gamma=0.5 / 1.5**2).fit(X)

    def kernel(A, B):
        return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / (2 * 1.5**2))

    called = KernelPCA(n_components=3, kernel=kernel).fit(X)
    given = KernelPCA(n_components=3, kernel="precomputed").fit(kernel(X, X))
    for other, new in ((called, Q), (given, kernel(Q, X))):
        assert up_to_sign(other.embedding_, named.embedding_) < ROUNDING
        assert up_to_sign(other.transform(new), named.transform(Q)) < ROUNDING
    assert hasattr(called, "inverse_transform")
    assert not hasattr(given, "inverse_transform")


def test_new_points_are_centered_with_the_means_of_the_old_ones():
    """The four terms of the centered kernel row, written out."""
    X, Q = cloud(), cloud(6, seed=3)
    model = KernelPCA(n_components=2, gamma=0.5 / 2.0**2).fit(X)
    K, row = (pairwise_kernels(A, X, metric="rbf", gamma=1 / 8) for A in (X, Q))
    centered = row - row.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
    expected = centered @ (model.spectrum_.vectors / np.sqrt(model.spectrum_.values))
    np.testing.assert_allclose(model.transform(Q), expected, atol=1e-11)


def test_n_points_have_at_most_n_minus_one_components():
    X = cloud(12)
    model = KernelPCA(n_components=11, gamma=0.5 / 1.0**2).fit(X)
    np.testing.assert_allclose(model.spectrum_.values.sum(), model.diagnostics_["variance"], rtol=1e-12)
    assert model.diagnostics_["kept"] == pytest.approx(1.0)
    flat = KernelPCA(n_components=6, kernel="linear").fit(cloud(30, columns=3))
    np.testing.assert_allclose(flat.embedding_[:, 3:], 0.0, atol=1e-6)  # the root of rounding
    assert np.array_equal(flat.transform(cloud(4, columns=3, seed=1))[:, 3:], np.zeros((4, 3)))


def test_a_small_gamma_gives_pca():
    """exp(-d^2/2b^2) = 1 - d^2/2b^2 + O((d/b)^4), whose centered part is the linear kernel over b^2."""
    X, b = cloud(), 300.0
    wide = KernelPCA(n_components=2, gamma=0.5 / b**2).fit_transform(X) * b
    size = np.ptp(X, axis=0).max()
    assert up_to_sign(wide, PCA(n_components=2).fit_transform(X)) < (size / b) ** 2


def test_all_points_as_landmarks_change_nothing():
    X, Q = cloud(), cloud(15, seed=2)
    exact, whole = (KernelPCA(n_components=3, gamma=0.5 / 1.5**2, n_landmarks=m).fit(X) for m in (None, 80))
    # Whitening cuts directions at eps of the largest eigenvalue: features are off by the root of it at most.
    assert up_to_sign(whole.embedding_, exact.embedding_) < 1e-6
    assert up_to_sign(whole.transform(Q), exact.transform(Q)) < 1e-6


def test_landmarks_approximate_a_smooth_kernel():
    X = datasets.s_curve(1200).X
    exact = KernelPCA(n_components=3, gamma=0.5 / 2.0**2).fit(X)
    few = KernelPCA(n_components=3, gamma=0.5 / 2.0**2, n_landmarks=120).fit(X)
    # A Nystrom approximation never exceeds the kernel, so neither do its eigenvalues.
    assert (few.spectrum_.values <= exact.spectrum_.values * (1 + 1e-9)).all()
    np.testing.assert_allclose(few.spectrum_.values, exact.spectrum_.values, rtol=1e-3)
    assert up_to_sign(few.embedding_, exact.embedding_) < 1e-2
    np.testing.assert_allclose(few.transform(X), few.embedding_, atol=1e-8)
    assert not any("1200 x 1200" in what for what in few.diagnostics_["memory"])


def test_the_automatic_gamma_comes_from_the_median_distance_and_scales_with_the_data():
    X = cloud()
    i, j = np.triu_indices(len(X), 1)
    model = KernelPCA(n_components=2).fit(X)
    median = np.median(np.linalg.norm(X[i] - X[j], axis=1))
    assert model.diagnostics_["gamma"] == pytest.approx(0.5 / median**2, rel=1e-12)
    assert np.array_equal(KernelPCA(n_components=2, gamma=None).fit_transform(X), model.embedding_)
    assert up_to_sign(KernelPCA(n_components=2).fit_transform(1e3 * X), model.embedding_) < ROUNDING


def test_precomputed_negative_half_squared_distances_give_classical_scaling():
    X = cloud()
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    Y = KernelPCA(n_components=4, kernel="precomputed").fit_transform(-0.5 * squares)
    np.testing.assert_allclose(((Y[:, None] - Y) ** 2).sum(axis=2), squares, atol=1e-9 * squares.max())


def test_preimages_lie_on_the_curve_that_the_points_came_from():
    """Two-dimensional scores of a noisy circle lead back to its neighborhood, with less noise than the points."""
    rng = np.random.default_rng(5)
    t = rng.uniform(0, 2 * np.pi, 800)
    noise = 0.1
    X = np.column_stack([np.cos(t), np.sin(t), np.zeros(800), np.zeros(800)]) + noise * rng.standard_normal((800, 4))
    model = KernelPCA(n_components=2, gamma=0.5 / 1.0**2).fit(X)
    back = model.inverse_transform(model.embedding_)
    # The two columns off the plane are pure noise, and about 16 neighbors with weights average it.
    assert np.sqrt((back[:, 2:] ** 2).mean()) < 0.5 * noise
    assert np.abs(np.hypot(back[:, 0], back[:, 1]) - np.hypot(X[:, 0], X[:, 1])).mean() < noise


def test_preimages_of_a_function_linear_in_the_scores_are_exact():
    """Local regression reproduces linear functions: points that are a linear image of their own scores."""
    from manifoldry._core.run import Run
    from manifoldry._numerics.extension.kernel import LocalPreimage

    scores = cloud(60, columns=2)
    linear = np.random.default_rng(7).standard_normal((2, 5))
    asked = scores.mean(axis=0) + 0.1 * cloud(9, columns=2, seed=8)
    back = LocalPreimage(scores, scores @ linear, 15)(asked, Run())
    # The ridge of 1e-6 of the spread shrinks slopes by as much times the condition of the neighborhood.
    np.testing.assert_allclose(back, asked @ linear, atol=1e-4)


def test_suggestion_finds_the_planted_rank():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 12)) + 1e-3 * rng.standard_normal((200, 12))
    found = KernelPCA(n_components=2, kernel="linear").fit(X).suggest_n_components(8)
    assert int(found) == 3
    assert "variance" in found.why
    assert int(KernelPCA(n_components=2, kernel="linear", n_landmarks=50).fit(X).suggest_n_components(8)) == 3
    given = KernelPCA(n_components=2, kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match="fit with n_components=8"):
        given.suggest_n_components(8)


def test_digits_are_embedded_by_likeness():
    """Neighbors are kept far better than by chance (15 of 1797, below 0.01)."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    Y = KernelPCA(n_components=10, gamma="auto").fit_transform(X)
    assert metrics.q_nx(X, Y, n_neighbors=15) > 0.4


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"kernel": "gaussian"}, "kernel must be 'rbf', .* or a function; got 'gaussian'"),
        ({"gamma": 0.0}, "gamma must be a number above 0, 'auto' or None"),
        ({"degree": 2.5}, "degree must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"coef0": np.nan}, "coef0 must be"),
        ({"n_landmarks": 2}, "n_landmarks must be"),
        ({"n_landmarks": 81}, "n_landmarks must be"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"kernel": np.vdot}, "shape"),
        ({"kernel": lambda A, B: A @ np.roll(B, 1, axis=1).T}, "symmetric"),
    ],
)
def test_bad_settings_get_one_sentence(settings, match):
    with pytest.raises(ValueError, match=match):
        KernelPCA(**settings).fit(cloud())


def test_distances_given_for_a_kernel_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    with pytest.raises(ValueError, match=r"needs kernel values.*got zeros there, as of distances"):
        KernelPCA(kernel="precomputed").fit(D)


def test_an_indefinite_kernel_is_told():
    X = np.random.default_rng(0).normal(size=(30, 2))
    Q = np.linalg.qr(X @ X.T + np.eye(30) - 1 / 30)[0]
    Q -= Q.mean(axis=0)
    Q = np.linalg.qr(Q[:, :3])[0]
    K = Q @ np.diag([4.0, 2.0, -1.0]) @ Q.T
    model = KernelPCA(kernel="precomputed").fit(K)
    assert model.diagnostics_["lowest"] == pytest.approx(-0.25, abs=2e-3)  # the residual asked for
    assert any("indefinite" in sentence for sentence in model.diagnostics_["advice"])
    assert KernelPCA(kernel="precomputed").fit(X @ X.T).diagnostics_["lowest"] == pytest.approx(0.0, abs=1e-6)
