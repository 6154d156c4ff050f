"""LLE, LTSA and Hessian eigenmaps against answers known on paper and against scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.manifold import LocallyLinearEmbedding

from helpers import sample_of
from manifoldry import LLE, LTSA, HessianEigenmaps, ModifiedLLE, NonnegativeLLE, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.eigen import solvers
from manifoldry._numerics.geometry import neighborhoods
from manifoldry._numerics.geometry.neighborhoods import sum_outer
from manifoldry._numerics.geometry.tangent import affine_basis, assemble, hessian_basis, tangents
from manifoldry._numerics.geometry.weights import alignment, modified_misfits, reconstruction

ALL = (LLE, NonnegativeLLE, ModifiedLLE, LTSA, HessianEigenmaps)


def flat_sheet(n=300, columns=10, seed=0):
    """A rectangle in the plane, laid isometrically into space: (points, true coordinates)."""
    rng = np.random.default_rng(seed)
    plane = rng.uniform(size=(n, 2)) * [3.0, 1.0]
    frame, _ = np.linalg.qr(rng.standard_normal((columns, 2)))
    return plane @ frame.T + rng.standard_normal(columns), plane


@pytest.mark.parametrize("model", [LLE(reg=1e-12), ModifiedLLE(reg=1e-12), LTSA(), HessianEigenmaps()])
def test_a_flat_sheet_is_recovered_up_to_an_affine_map(model):
    X, plane = flat_sheet()
    Y = model.set_params(n_neighbors=10).fit_transform(X)
    assert metrics.procrustes(Y, plane, kind="affine").error < 1e-12  # squared: 1e-6 in the coordinates


@pytest.mark.parametrize("model", [LTSA(n_neighbors=10), HessianEigenmaps(n_neighbors=10)])
def test_a_flat_sheet_is_recovered_at_true_scale(model):
    X, plane = flat_sheet()
    fitted = model.fit(X)
    assert metrics.procrustes(fitted.embedding_, plane).error < 1e-12
    assert fitted.diagnostics_["isometric"]
    assert fitted.diagnostics_["misfit"] < 1e-6
    assert (np.abs(fitted.spectrum_.values) < 1e-12).all()


def test_the_null_space_of_a_flat_sheet_has_dimension_three():
    X, _ = flat_sheet()
    for basis, complement in ((affine_basis, True), (hessian_basis, False)):
        planes = tangents(sample_of(X, 10), 2, Run(0))
        B = assemble(planes, basis, len(X), Run(0), complement=complement).toarray()
        values = np.linalg.eigvalsh(B)
        assert np.abs(values[:3]).max() < 1e-12
        assert values[3] > 1e-5
        assert np.abs(B.sum(axis=1)).max() < 1e-12
        np.testing.assert_allclose(B, B.T, atol=1e-14)


@pytest.mark.parametrize("cls", [LTSA, HessianEigenmaps])
def test_the_holed_roll(cls):
    """n = 2000, k = 10: affine residual at most 1e-4, rigid error below 5e-4 (scikit-learn's is 0.28)."""
    roll = datasets.swiss_roll(2000, hole=True)
    Y = cls(n_neighbors=10).fit_transform(roll.X)
    assert metrics.procrustes(Y, roll.truth, kind="affine").error < 1e-4
    assert metrics.procrustes(Y, roll.truth).error < 5e-4


@pytest.mark.parametrize("cls", [LTSA, HessianEigenmaps])
def test_the_affine_form_on_request(cls):
    roll = datasets.swiss_roll(500)
    model = cls(n_neighbors=10, isometric=False).fit(roll.X)
    np.testing.assert_allclose(model.embedding_.T @ model.embedding_, 500 * np.eye(2), atol=1e-8)
    assert model.diagnostics_["isometric"] is False


@pytest.mark.parametrize(("cls", "method"), [(LLE, "standard"), (ModifiedLLE, "modified"), (LTSA, "ltsa")])
def test_equals_scikit_learn_where_the_mathematics_is_the_same(cls, method):
    """scikit-learn leaves a point out of its own LTSA neighborhood, which changes the result a little."""
    X = datasets.s_curve(400).X
    theirs = LocallyLinearEmbedding(
        n_neighbors=10, n_components=2, method=method, eigen_solver="dense", random_state=0
    ).fit_transform(X)
    Y = cls(n_neighbors=10).fit_transform(X)
    error = metrics.procrustes(Y, theirs, kind="affine").error
    assert error < (1e-4 if method != "standard" else 1e-8)


@pytest.mark.parametrize("cls", [LLE, NonnegativeLLE, ModifiedLLE])
def test_coordinates_are_centered_and_white_and_their_cost_is_the_spectrum(cls):
    X = datasets.s_curve(300).X
    model = cls(n_components=3, n_neighbors=9).fit(X)
    Y = model.embedding_
    np.testing.assert_allclose(Y.T @ Y, 300 * np.eye(3), atol=1e-8)
    np.testing.assert_allclose(Y.sum(axis=0), 0, atol=1e-8)
    sample = sample_of(X, 9)
    if cls is ModifiedLLE:
        cost = np.trace(Y.T @ (sum_outer(modified_misfits(sample, 3, 1e-3, Run(0)), 300, Run(0)) @ Y))
    else:
        W = reconstruction(sample, 1e-3, Run(0), nonnegative=cls is NonnegativeLLE)
        cost = ((Y - W @ Y) ** 2).sum()
    np.testing.assert_allclose(cost, 300 * model.spectrum_.values.sum(), rtol=1e-6)


def test_lle_is_kernel_pca_of_the_flipped_matrix():
    """K = lambda_max I - M: its top centered eigenvectors are LLE's coordinates."""
    X = datasets.s_curve(200).X
    M = alignment(reconstruction(sample_of(X, 8), 1e-3, Run(0)), Run(0)).toarray()
    K = np.linalg.eigvalsh(M)[-1] * np.eye(200) - M
    H = np.eye(200) - 1 / 200
    _, vectors = np.linalg.eigh(H @ K @ H)
    Y = LLE(n_neighbors=8).fit_transform(X)
    overlap = np.abs((Y / np.sqrt(200)).T @ vectors[:, ::-1][:, :2])
    np.testing.assert_allclose(overlap, np.eye(2), atol=1e-5)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("name", ["digits", "digits twice", "iris", "far blobs"])
def test_real_data_and_stress_cases_have_an_answer(cls, name):
    """scikit-learn's LTSA and Hessian LLE die on digits; its LLE collapses each blob to a point."""
    rng = np.random.default_rng(0)
    X = {
        "digits": lambda: load_digits().data,
        "digits twice": lambda: np.concatenate([load_digits().data[:500]] * 2),
        "iris": lambda: load_iris().data,
        "far blobs": lambda: np.concatenate([rng.standard_normal((150, 4)) + far for far in (0, 1000, -1000)]),
    }[name]()
    model = cls(n_neighbors=12).fit(X)
    Y = model.embedding_
    assert np.isfinite(Y).all()
    different = len(np.unique(X, axis=0))
    assert len(np.unique((Y / np.abs(Y).max()).round(9), axis=0)) >= different
    if name == "digits twice":
        assert np.abs(Y[:500] - Y[500:]).max() < 0.05 * np.abs(Y).max()
    if name == "far blobs":
        for lo in range(0, 450, 150):  # each blob keeps its shape: its own embedding, not a point
            assert np.std(Y[lo : lo + 150], axis=0).min() > 0.02 * np.ptp(Y[lo : lo + 150])
            assert metrics.trustworthiness(X[lo : lo + 150], Y[lo : lo + 150], n_neighbors=10) > 0.7


def test_three_blobs_stand_side_by_side_as_if_embedded_alone():
    rng = np.random.default_rng(1)
    blobs = [rng.uniform(size=(80, 2)) @ rng.standard_normal((2, 4)) + far for far in (0, 50, 100)]
    Y = LTSA(n_neighbors=8).fit_transform(np.concatenate(blobs))
    for number, blob in enumerate(blobs):
        alone = LTSA(n_neighbors=8).fit_transform(blob)
        assert metrics.procrustes(Y[80 * number : 80 * (number + 1)], alone).error < 1e-10


@pytest.mark.parametrize("cls", ALL)
def test_new_points_and_the_way_back(cls):
    roll = datasets.swiss_roll(1500)
    fresh = datasets.swiss_roll(200, random_state=5)
    model = cls(n_neighbors=12).fit(roll.X)
    assert np.array_equal(model.transform(roll.X[:100]), model.embedding_[:100])
    # The local rule is linear: a new point lies among its neighbors' images as it lies among them.
    fit = metrics.procrustes(model.embedding_, roll.truth, kind="affine")
    placed = (model.transform(fresh.X) @ fit.matrix) * fit.scale + fit.shift
    old = np.sqrt(np.median(((fit.aligned - roll.truth) ** 2).sum(axis=1)))
    new = np.sqrt(np.median(((placed - fresh.truth) ** 2).sum(axis=1)))
    assert new < 1.5 * old + 0.1
    # Back: onto the roll, within the sagitta of a neighborhood (spacing about 1.1, radius of curvature at least 4.7).
    back = model.inverse_transform(model.transform(fresh.X))
    assert np.median(np.linalg.norm(back - fresh.X, axis=1)) < 0.5
    np.testing.assert_allclose(model.inverse_transform(model.embedding_[:20]), roll.X[:20], atol=1e-9)


def test_too_few_neighbors_are_raised_with_a_word():
    X, plane = flat_sheet()
    with pytest.warns(UserWarning, match="needs 6 neighbors for 2 dimensions; n_neighbors=3 was raised"):
        model = HessianEigenmaps(n_neighbors=3).fit(X)
    assert model.diagnostics_["n_neighbors"] == 6
    assert metrics.procrustes(model.embedding_, plane, kind="affine").error < 1e-6


def test_a_component_too_small_for_local_geometry_is_laid_out_by_its_principal_coordinates():
    rng = np.random.default_rng(3)
    X = np.concatenate([flat_sheet(100, 3)[0], 50 + rng.standard_normal((4, 3))])
    Y = HessianEigenmaps(n_neighbors=7, disconnected="apart").fit_transform(np.vstack([X]))
    assert np.isfinite(Y).all()
    assert len(np.unique(Y.round(9), axis=0)) == 104


def test_suggests_the_dimension_of_the_sheet():
    for X, d in [(flat_sheet()[0], 2), (datasets.swiss_roll(1500).X, 2), (datasets.helix(800).X, 1)]:
        suggestion = LTSA(n_components=1, n_neighbors=10).fit(X).suggest_n_components()
        assert suggestion.n_components == d
        assert "neighbors" in suggestion.why  # measured by their distances, no longer by local variances


def test_a_graph_alone_is_not_enough():
    X, _ = flat_sheet(60)
    from sklearn.neighbors import kneighbors_graph

    with pytest.raises(ValueError, match="Local geometry needs points or all pairwise distances; got only a graph"):
        LTSA(metric="precomputed").fit(kneighbors_graph(X, 8, mode="distance"))


def test_true_scale_is_claimed_only_where_lengths_agree():
    """Where half of the neighborhoods collapse, one affine map may explain the rest: no scale is claimed."""
    roll = datasets.swiss_roll(1000)
    model = LTSA().fit(roll.X)
    assert model.diagnostics_["isometric"]
    graph, Y = model.graph_, model.embedding_
    ratio = np.linalg.norm(Y[graph.rows()] - Y[graph.indices], axis=1) / graph.lengths
    assert model.diagnostics_["length_error"] == pytest.approx(np.quantile(np.abs(ratio - 1), 0.75), rel=1e-9)
    assert model.reconstruction_error_ == pytest.approx(model.spectrum_.values.sum())
    # A globe has no flat map: some neighborhoods are magnified many times.
    globe = np.random.default_rng(0).normal(size=(1000, 3))
    closed = LTSA().fit(globe / np.linalg.norm(globe, axis=1, keepdims=True))
    assert not closed.diagnostics_["isometric"]
    assert closed.diagnostics_["length_error"] > 0.15


@pytest.mark.parametrize("cls", [LLE, LTSA])
def test_large_fits_do_not_depend_on_the_threads(cls, monkeypatch):
    """By the compiled assembly and a factor by fronts, which larger fits have."""
    monkeypatch.setattr(neighborhoods, "MIN_COMPILED_POINTS", 0)
    monkeypatch.setattr(solvers, "ALWAYS_FRONTS_SIZE", 0)
    X = datasets.swiss_roll(12_000, random_state=0).X
    first = cls(n_jobs=1).fit(X)
    assert first.spectrum_.solver == "shift-invert"
    for n_jobs in (2, 3, 7, 16):
        again = cls(n_jobs=n_jobs).fit(X)
        assert np.array_equal(again.embedding_, first.embedding_)
        assert np.array_equal(again.spectrum_.values, first.spectrum_.values)
