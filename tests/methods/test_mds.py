"""The scalings against answers known on paper and against independent computations."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.stats import spearmanr
from sklearn.decomposition import PCA, KernelPCA
from sklearn.manifold import smacof

from helpers import up_to_sign
from manifoldry import MDS, ClassicalMDS, NonmetricMDS, Stop, datasets, metrics


@pytest.fixture
def cloud():
    return np.random.default_rng(0).standard_normal((70, 6)) * [5, 4, 3, 2, 1, 0.5]


@pytest.mark.parametrize("given", ["points", "distances", "gram", "other way"])
def test_classical_scaling_gives_the_scores_of_pca(cloud, given):
    """MDS of Euclidean distances = PCA scores = linear kernel PCA, for old and for new points."""
    Q = np.random.default_rng(1).standard_normal((9, 6))
    inputs = {
        "points": ({}, cloud, Q),
        "distances": ({"metric": "precomputed"}, cdist(cloud, cloud), cdist(Q, cloud)),
        "gram": ({"metric": "gram"}, cloud @ cloud.T, Q @ cloud.T),
        "other way": ({"metric": "minkowski", "metric_params": {"p": 2}}, cloud, Q),
    }
    settings, X, new = inputs[given]
    pca = PCA(n_components=3).fit(cloud)
    model = ClassicalMDS(n_components=3, **settings).fit(X)
    scores = pca.transform(cloud)
    assert up_to_sign(model.embedding_, scores) < 1e-10
    np.testing.assert_allclose(model.spectrum_.values, 69 * pca.explained_variance_, rtol=1e-10)
    signs = np.sign((model.embedding_ * scores).sum(axis=0))
    np.testing.assert_allclose(model.transform(new), pca.transform(Q) * signs, atol=1e-9)


def test_classical_scaling_of_a_kernel_is_kernel_pca(cloud):
    K = np.exp(-(cdist(cloud, cloud) ** 2) / 50)
    theirs = KernelPCA(n_components=3, kernel="precomputed", eigen_solver="dense").fit_transform(K)
    assert up_to_sign(ClassicalMDS(n_components=3, metric="gram").fit_transform(K), theirs) < 1e-9


def test_exact_distances_are_reproduced(cloud):
    D = cdist(cloud, cloud)
    Y = ClassicalMDS(n_components=6, metric="precomputed").fit_transform(D)
    np.testing.assert_allclose(cdist(Y, Y), D, atol=1e-10 * D.max())


def test_more_features_than_points():
    X = np.random.default_rng(2).standard_normal((12, 40))
    Y = ClassicalMDS(n_components=11).fit_transform(X)
    np.testing.assert_allclose(cdist(Y, Y), cdist(X, X), atol=1e-10)


def test_dimensions_that_the_data_do_not_have_are_zero():
    X = np.outer(np.arange(10.0), [1.0, 1.0, 0.0])
    model = ClassicalMDS(n_components=3).fit(X)
    assert np.ptp(model.embedding_[:, 0]) == pytest.approx(9 * np.sqrt(2))
    assert np.abs(model.embedding_[:, 1:]).max() < 1e-7
    assert np.isfinite(model.transform(X + 1.0)).all()


def test_four_points_around_a_fifth():
    """A star of four unit legs (a tree metric): one negative eigenvalue whose size is known.

    D = 2 between leaves, 1 to the center. Leaves span three directions with eigenvalue 2; along the vector that
    separates the center from the leaves B has the eigenvalue -1/5 (trace of B = 29/5, three of them 2).
    """
    D = 2.0 * (1 - np.eye(5))
    D[0, 1:] = D[1:, 0] = 1.0
    model = ClassicalMDS(n_components=3, metric="precomputed").fit(D)
    B = -0.5 * (np.eye(5) - 0.2) @ D**2 @ (np.eye(5) - 0.2)
    rest = np.trace(B) - 6
    np.testing.assert_allclose(model.spectrum_.values, 2.0, rtol=1e-12)
    negative = model.diagnostics_["negative"]
    assert rest < 0
    assert negative["lowest"] == pytest.approx(rest)
    assert negative["share"] == pytest.approx(-rest / (6 - rest))


def test_euclidean_distances_have_no_negative_part(cloud):
    model = ClassicalMDS(n_components=2, metric="precomputed").fit(cdist(cloud, cloud))
    assert model.diagnostics_["negative"]["share"] < 1e-12


def test_negative_part_of_a_large_problem():
    X = datasets.swiss_roll(1100).X
    model = ClassicalMDS(n_components=2, metric="cityblock").fit(X)
    H = np.eye(1100) - 1 / 1100
    B = -0.5 * H @ cdist(X, X, "cityblock") ** 2 @ H
    negative = model.diagnostics_["negative"]
    assert negative["share"] is None
    assert negative["lowest"] == pytest.approx(np.linalg.eigvalsh(B)[0], rel=1e-6)


def test_metric_scaling_recovers_a_plane_exactly():
    Z = np.random.default_rng(3).uniform(size=(50, 2))
    model = MDS(metric="precomputed", init="random", n_init=4, tol=1e-12, max_iter=2000).fit(cdist(Z, Z))
    assert metrics.procrustes(model.embedding_, Z).error < 1e-8
    assert model.trace_.stop is Stop.CONVERGED


def test_three_equidistant_points_on_a_line():
    """Distances 1, 1, 1 on a line: minimize over positions. The best layout spreads them at -2/3, 0, 2/3.

    With ordered points at -a, 0, a the stress is 2 (1 - a)^2 + (1 - 2a)^2, least at a = 2/3 with value 1/3.
    """
    D = 1.0 - np.eye(3)
    model = MDS(
        n_components=1, metric="precomputed", init=np.array([[-1.0], [0.1], [1.0]]), tol=1e-14, max_iter=500
    ).fit(D)
    np.testing.assert_allclose(np.sort(model.embedding_[:, 0]), [-2 / 3, 0, 2 / 3], atol=1e-6)
    assert model.diagnostics_["stress"] == pytest.approx(1 / 3)
    assert model.diagnostics_["normalized_stress"] == pytest.approx(1 / 3)


def test_stress_never_rises_and_is_the_stress(cloud):
    model = MDS(n_components=2).fit(cloud)
    objective = model.trace_.objective
    assert (np.diff(objective) <= 0).all()
    expected = ((pdist(model.embedding_) - pdist(cloud)) ** 2).sum()
    assert objective[-1] == pytest.approx(expected)
    assert model.n_iter_ == len(objective) - 1


@pytest.mark.parametrize("name", ["sphere", "swiss_roll", "gaussian_clusters"])
def test_stress_is_at_most_scikit_learns(name):
    X = datasets.GENERATORS[name](150).X
    D = cdist(X, X)
    ours = MDS(metric="precomputed", n_init=4).fit(D).diagnostics_["stress"]
    _, theirs = smacof(D, n_init=4, max_iter=300, random_state=0, normalized_stress=False, init=None)
    assert ours <= theirs * (1 + 1e-3)


def test_more_starts_are_never_worse(cloud):
    stresses = [
        MDS(n_components=1, init="random", n_init=starts).fit(cloud).diagnostics_["stress"] for starts in (1, 3, 6)
    ]
    assert stresses[0] >= stresses[1] >= stresses[2]


def test_zero_weights_leave_pairs_free():
    """A third of a plane's distances are garbage with weight 0; the rest determine it."""
    rng = np.random.default_rng(4)
    Z = rng.uniform(size=(40, 2))
    D = cdist(Z, Z)
    unknown = np.triu(rng.random((40, 40)) < 0.33, 1)
    D[unknown | unknown.T] = 7.0
    np.fill_diagonal(D, 0)
    W = 1.0 - (unknown | unknown.T)
    model = MDS(metric="precomputed", weights=W, init="random", n_init=8, tol=1e-12, max_iter=3000).fit(D)
    assert metrics.procrustes(model.embedding_, Z).error < 1e-6


def test_unit_weights_change_nothing(cloud):
    plain, weighted = MDS().fit(cloud), MDS(weights=np.ones((70, 70))).fit(cloud)
    assert weighted.diagnostics_["stress"] == pytest.approx(plain.diagnostics_["stress"], rel=1e-5)


def test_new_points_are_placed_at_their_distances():
    """Points whose distances fit in the plane exactly are placed exactly."""
    rng = np.random.default_rng(5)
    Z, Q = rng.uniform(size=(60, 2)), rng.uniform(size=(8, 2))
    model = MDS(metric="precomputed", tol=1e-13, max_iter=2000).fit(cdist(Z, Z))
    placed = model.transform(cdist(Q, Z))
    np.testing.assert_allclose(cdist(placed, model.embedding_), cdist(Q, Z), atol=1e-4)


def test_nonmetric_scaling_sees_only_the_order():
    X = np.random.default_rng(6).uniform(size=(40, 2))
    D = cdist(X, X)
    start = X + 0.1
    straight = NonmetricMDS(metric="precomputed", init=start).fit(D)
    bent = NonmetricMDS(metric="precomputed", init=start).fit(np.expm1(3 * D))
    assert np.array_equal(straight.embedding_, bent.embedding_)


def test_nonmetric_scaling_recovers_a_plane_from_ranks():
    """Ranks of many distances fix a layout nearly up to similarity."""
    Z = np.random.default_rng(7).uniform(size=(60, 2))
    ranks = squareform(pdist(Z).argsort().argsort() + 1.0)
    model = NonmetricMDS(metric="precomputed", max_iter=1000, tol=1e-9).fit(ranks)
    assert model.diagnostics_["stress"] < 0.01
    assert spearmanr(pdist(model.embedding_), pdist(Z)).statistic > 0.9995
    assert metrics.procrustes(model.embedding_, Z, kind="similarity").error < 1e-3


def test_nonmetric_stress_is_kruskals():
    X = np.random.default_rng(8).standard_normal((30, 5))
    model = NonmetricMDS().fit(X)
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(pdist(X))
    d = pdist(model.embedding_)[order]
    fitted = isotonic_regression(d)
    expected = np.sqrt(((fitted - d) ** 2).sum() / (d**2).sum())
    assert model.diagnostics_["stress"] == pytest.approx(expected, rel=1e-9)
    assert (np.diff(model.trace_.objective) <= 1e-9).all()


def test_nonmetric_scaling_of_tied_ratings():
    X = np.random.default_rng(9).uniform(size=(40, 2))
    rated = np.ceil(cdist(X, X) * 4)  # five grades
    model = NonmetricMDS(metric="precomputed").fit(rated)
    assert model.diagnostics_["stress"] < 0.1
    assert metrics.procrustes(model.embedding_, X, kind="similarity").error < 0.1


def test_callback_stops_the_descent(cloud):
    model = MDS(callback=lambda progress: progress.done >= 3 and progress.stage == "majorization", tol=0.0).fit(cloud)
    assert model.trace_.stop is Stop.ASKED
    assert model.trace_.n_iter == 3
    assert model.diagnostics_["stopped"]


def test_suggests_the_rank_of_the_distances(cloud):
    flat = np.zeros((70, 6))
    flat[:, :3] = cloud[:, :3]
    noisy = flat + 1e-3 * np.random.default_rng(1).standard_normal((70, 6))
    for settings, X in [
        ({}, noisy),
        ({"metric": "precomputed"}, cdist(noisy, noisy)),
        ({"metric": "gram"}, noisy @ noisy.T),
    ]:
        model = ClassicalMDS(n_components=2, **settings).fit(X)
        assert model.suggest_n_components().n_components == 3
        assert model.embedding_.shape == (70, 2)
        shares = 1 - np.cumsum(PCA().fit(noisy).explained_variance_ratio_)[:3]
        np.testing.assert_allclose(model.diagnostics_["left_over"][:3], shares, atol=1e-9)
