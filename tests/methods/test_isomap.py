"""Isomap against answers known on paper and against independent computations."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from sklearn.decomposition import PCA, KernelPCA
from sklearn.manifold import Isomap as SklearnIsomap
from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

from helpers import up_to_sign
from manifoldry import (
    ConformalIsomap,
    DisconnectedWarning,
    Isomap,
    KernelIsomap,
    LandmarkIsomap,
    NeighborGraph,
    datasets,
    metrics,
)


def geodesics(X, k):
    graph = kneighbors_graph(X, k, mode="distance")
    return shortest_path(graph, directed=False)


@pytest.mark.parametrize(("k", "below"), [(6, 0.03), (10, 0.006), (20, 0.002)])
def test_rigid_error_on_the_swiss_roll(k, below):
    """Reference: 0.014 at k = 6, 0.003 at k = 10, 0.0003 at k = 20 (one draw each; we allow about twice)."""
    roll = datasets.swiss_roll(1000)
    Y = Isomap(n_neighbors=k).fit_transform(roll.X)
    assert metrics.procrustes(Y, roll.truth).error < below


def test_short_circuits_ruin_the_swiss_roll_and_are_named():
    roll = datasets.swiss_roll(1000)
    model = Isomap(n_neighbors=30).fit(roll.X)
    assert metrics.procrustes(model.embedding_, roll.truth).error > 0.3
    suspects = model.diagnostics_["short_circuits"]
    crossing = np.abs(roll.truth[suspects.pairs[:, 0], 0] - roll.truth[suspects.pairs[:, 1], 0])
    assert len(suspects) >= 5
    assert np.median(crossing) > 20  # the layers are about 2 pi apart, tens of units along the roll


def test_equals_kernel_pca_of_squared_geodesics():
    X = datasets.s_curve(300).X
    squares = geodesics(X, 8) ** 2
    kpca = KernelPCA(n_components=2, kernel="precomputed", eigen_solver="dense").fit_transform(-0.5 * squares)
    assert up_to_sign(Isomap(n_neighbors=8).fit_transform(X), kpca) < 1e-8


def test_equals_scikit_learn():
    X = datasets.swiss_roll(600, hole=True).X
    theirs = SklearnIsomap(n_neighbors=10, eigen_solver="dense").fit_transform(X)
    assert up_to_sign(Isomap(n_neighbors=10).fit_transform(X), theirs) < 1e-8


def test_complete_graph_is_pca():
    X = np.random.default_rng(0).standard_normal((80, 5))
    Y = Isomap(n_components=3, n_neighbors=79).fit_transform(X)
    assert up_to_sign(Y, PCA(n_components=3).fit_transform(X)) < 1e-8


def test_columns_are_centered_orthogonal_with_the_eigenvalues_as_squared_norms():
    model = Isomap(n_components=3, n_neighbors=8).fit(datasets.torus(400).X)
    Y = model.embedding_
    top = model.spectrum_.values[0]
    np.testing.assert_allclose(Y.sum(axis=0), 0, atol=1e-9 * np.sqrt(top * len(Y)))
    np.testing.assert_allclose(Y.T @ Y, np.diag(model.spectrum_.values), atol=1e-9 * top)


def test_straight_line_is_recovered_exactly():
    """On a line the geodesics are the distances whatever the graph."""
    t = np.sort(np.random.default_rng(1).uniform(0, 1, 50))
    X = np.outer(t, [1.0, 2.0, 2.0])  # unit speed is 3
    Y = Isomap(n_components=1, n_neighbors=4).fit_transform(X)
    assert metrics.procrustes(Y, 3 * t[:, None]).error < 1e-20


def test_ring_opens_to_a_circle():
    """Geodesics on a ring of equal steps are circulant: the top pair of eigenvalues is double, the layout a circle."""
    angle = 2 * np.pi * np.arange(60) / 60
    model = Isomap(n_components=2, n_neighbors=2).fit(np.column_stack([np.cos(angle), np.sin(angle)]))
    radii = np.linalg.norm(model.embedding_, axis=1)
    np.testing.assert_allclose(radii, radii[0], rtol=1e-9)
    np.testing.assert_allclose(model.spectrum_.values[0], model.spectrum_.values[1], rtol=1e-9)


def test_radius_rule_includes_the_boundary():
    """Steps of exactly 1: radius 1 connects neighbors, anything below disconnects them all."""
    X = np.arange(12.0)[:, None]
    Y = Isomap(n_components=1, n_neighbors=None, radius=1.0).fit_transform(X)
    np.testing.assert_allclose(np.abs(np.diff(Y[:, 0])), 1.0, rtol=1e-12)
    with pytest.raises(ValueError, match="12 components"):
        Isomap(n_components=1, n_neighbors=None, radius=1 - 1e-9, disconnected="raise").fit(X)


def test_radius_graph_equals_scikit_learn_graph():
    X = datasets.s_curve(400).X
    graph = radius_neighbors_graph(X, 0.6, mode="distance")
    squares = shortest_path(graph, directed=False) ** 2
    kpca = KernelPCA(n_components=2, kernel="precomputed", eigen_solver="dense").fit_transform(-0.5 * squares)
    assert up_to_sign(Isomap(n_neighbors=None, radius=0.6).fit_transform(X), kpca) < 1e-8


def test_precomputed_graph_and_ready_graph_equal_points():
    X = datasets.s_curve(200).X
    direct = Isomap(n_neighbors=8).fit(X)
    sparse = kneighbors_graph(X, 8, mode="distance")
    given = Isomap(metric="precomputed").fit(sparse)
    assert up_to_sign(given.embedding_, direct.embedding_) < 1e-10
    ready = Isomap().fit(NeighborGraph.from_sparse(sparse))
    assert up_to_sign(ready.embedding_, direct.embedding_) < 1e-10
    # New points bring their edges to the old ones.
    Q = datasets.s_curve(7, random_state=5).X
    D = np.sqrt(((Q[:, None] - X) ** 2).sum(-1))
    D[D > np.partition(D, 7, axis=1)[:, 7:8]] = 0
    for model in (given, ready):
        np.testing.assert_allclose(model.transform(csr_array(D)), direct.transform(Q), atol=1e-9)
    with pytest.raises(ValueError, match="sparse"):
        ready.transform(D)


def test_new_points_land_on_the_sheet():
    roll = datasets.swiss_roll(1500)
    fresh = datasets.swiss_roll(200, random_state=9)
    model = Isomap(n_neighbors=12).fit(roll.X)
    fit = metrics.procrustes(model.embedding_, roll.truth)
    placed = (model.transform(fresh.X) @ fit.matrix) * fit.scale + fit.shift
    error = np.linalg.norm(placed - fresh.truth, axis=1)
    old = np.linalg.norm(fit.aligned - roll.truth, axis=1)
    assert np.median(error) < 1.5 * np.median(old)


def test_transform_equals_kernel_pca_projection():
    """The Nystrom rule is kernel PCA's projection with the new point's geodesic row."""
    X = datasets.s_curve(150).X
    Q = datasets.s_curve(5, random_state=3).X
    D = geodesics(X, 6)
    kpca = KernelPCA(n_components=2, kernel="precomputed", eigen_solver="dense").fit(-0.5 * D**2)
    to_old = np.sqrt(((Q[:, None] - X) ** 2).sum(-1))
    nearest = np.argsort(to_old, axis=1)[:, :6]
    rows = np.array([(to_old[q, nearest[q]][:, None] + D[nearest[q]]).min(axis=0) for q in range(len(Q))])
    theirs = kpca.transform(-0.5 * rows**2)
    model = Isomap(n_neighbors=6).fit(X)
    signs = np.sign((kpca.transform(-0.5 * D**2) * model.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.transform(Q), theirs * signs, atol=1e-9)


def test_residual_variance_bends_at_two():
    """Reference for n = 1000, k = 10: 0.0150, 0.0007, 0.0008, 0.0008."""
    model = Isomap(n_neighbors=10).fit(datasets.swiss_roll(1000).X)
    variances = model.residual_variances(5)
    assert 0.005 < variances[0] < 0.05
    assert (variances[1:] < 0.002).all()
    suggestion = model.suggest_n_components(5)
    assert suggestion.n_components == 2
    assert "residual variance" in suggestion.why
    # The sampled curve estimates the same numbers; a sample of 300 landmarks moves them by less than half.
    np.testing.assert_allclose(model.residual_variances(2, sample=300), variances[:2], rtol=0.5)


def test_residual_variance_of_exact_distances_reaches_zero():
    X = np.random.default_rng(0).standard_normal((60, 3))
    variances = Isomap(n_neighbors=59).fit(X).residual_variances(4)
    assert variances[2] < 1e-12
    assert variances[1] > 0.01


def test_all_points_as_landmarks_is_isomap():
    X = datasets.s_curve(250).X
    whole = Isomap(n_neighbors=8).fit_transform(X)
    assert up_to_sign(LandmarkIsomap(n_landmarks=250, n_neighbors=8).fit_transform(X), whole) < 1e-8


def test_landmarks_sit_at_their_own_scaling():
    X = datasets.s_curve(250).X
    landmarks = np.arange(0, 250, 5)
    model = LandmarkIsomap(landmarks=landmarks, n_neighbors=8).fit(X)
    np.testing.assert_allclose(
        model.embedding_[landmarks], model.spectrum_.scaled(0.5), atol=1e-9 * np.abs(model.embedding_).max()
    )
    assert np.array_equal(model.diagnostics_["landmarks"], landmarks)


def test_landmarks_need_no_square_matrix():
    model = LandmarkIsomap(n_landmarks=700, n_neighbors=8).fit(datasets.swiss_roll(3000).X)
    assert max(model.diagnostics_["memory"].values()) <= 8 * 700 * 3000


def test_landmark_isomap_on_the_roll():
    roll = datasets.swiss_roll(4000)
    Y = LandmarkIsomap(n_landmarks=100, n_neighbors=10).fit_transform(roll.X)
    assert metrics.procrustes(Y, roll.truth).error < 0.01


def test_conformal_isomap_equals_isomap_on_an_even_sheet():
    """With all M(i) equal (a ring's equal steps) the edges are divided by one number."""
    angle = 2 * np.pi * np.arange(50) / 50
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    step = 2 * np.sin(np.pi / 50)
    plain, conformal = (cls(n_components=2, n_neighbors=2).fit_transform(X) for cls in (Isomap, ConformalIsomap))
    assert np.sqrt(metrics.procrustes(conformal * step, plain).error) < 1e-7


def test_conformal_isomap_recovers_the_fishbowl():
    bowl = datasets.fishbowl(1500)
    plain, conformal = (
        metrics.procrustes(cls(n_neighbors=12).fit_transform(bowl.X), bowl.parameters, kind="similarity").error
        for cls in (Isomap, ConformalIsomap)
    )
    assert conformal < 0.01
    assert conformal < plain / 3


def test_kernel_isomap_has_a_positive_kernel_and_isomap_has_not():
    X = datasets.swiss_roll(200, noise=0.3).X
    D = geodesics(X, 8)
    model = KernelIsomap(n_components=5, n_neighbors=8).fit(X)
    c = model.diagnostics_["additive_constant"]
    H = np.eye(200) - 1 / 200

    def lowest(shift):
        return np.linalg.eigvalsh(-0.5 * H @ (D + shift * (1 - np.eye(200))) ** 2 @ H)[0]

    scale = np.abs(D**2).max() * 200
    assert lowest(0.0) < -1e-3
    assert lowest(0.95 * c) < -1e-6 * scale
    assert lowest(c) > -1e-12 * scale
    shifted = -0.5 * (D + c * (1 - np.eye(200))) ** 2
    kpca = KernelPCA(n_components=5, kernel="precomputed", eigen_solver="dense").fit_transform(shifted)
    assert up_to_sign(model.embedding_, kpca) < 1e-7


def test_kernel_isomap_of_euclidean_geodesics_is_isomap():
    X = np.random.default_rng(3).standard_normal((60, 4))
    plain, kernel = (cls(n_components=2, n_neighbors=59).fit(X) for cls in (Isomap, KernelIsomap))
    assert kernel.diagnostics_["additive_constant"] < 1e-4 * np.ptp(X)
    assert up_to_sign(kernel.embedding_, plain.embedding_) < 1e-4


@pytest.fixture
def two_sheets():
    """Two flat patches far apart, 60 and 40 points."""
    rng = np.random.default_rng(7)
    first, second = rng.uniform(0, 1, (60, 2)), rng.uniform(0, 1, (40, 2)) + np.array([10, 0])
    return np.concatenate([first, second])


def test_two_components_bridged(two_sheets):
    with pytest.warns(DisconnectedWarning, match="2 connected components, .* a shortest edge .* joins them"):
        model = Isomap(n_neighbors=6).fit(two_sheets)
    (i, j, length), *rest = model.diagnostics_["bridges"]
    assert not rest
    between = np.sqrt(((two_sheets[:60, None] - two_sheets[None, 60:]) ** 2).sum(-1))
    assert length == pytest.approx(between.min(), rel=1e-12)
    assert between[int(i), int(j) - 60] == between.min()
    assert model.diagnostics_["components"] == 2
    assert np.isfinite(model.embedding_).all()


def test_two_components_apart(two_sheets):
    model = Isomap(n_neighbors=6, disconnected="apart").fit(two_sheets)
    Y = model.embedding_
    assert Y[:60, 0].max() < Y[60:, 0].min()
    for part in (slice(0, 60), slice(60, 100)):
        alone = Isomap(n_neighbors=6).fit_transform(two_sheets[part])
        assert np.sqrt(metrics.procrustes(Y[part], alone).error) < 1e-7
    np.testing.assert_allclose(model.transform(two_sheets), Y, atol=1e-9)
    D = np.sqrt(((two_sheets[:, None] - two_sheets) ** 2).sum(-1))
    given = Isomap(n_neighbors=6, disconnected="apart", metric="precomputed").fit(D)
    np.testing.assert_allclose(given.embedding_, Y, atol=1e-9)
    np.testing.assert_allclose(given.transform(D), Y, atol=1e-9)


def test_two_components_largest(two_sheets):
    with pytest.warns(DisconnectedWarning, match="40 points outside the largest"):
        model = Isomap(n_neighbors=6, disconnected="largest").fit(two_sheets)
    assert np.isfinite(model.embedding_[:60]).all()
    assert np.isnan(model.embedding_[60:]).all()
    assert model.diagnostics_["left_out"] == 40
    np.testing.assert_allclose(model.transform(two_sheets[:60]), model.embedding_[:60], atol=1e-9)


def test_two_components_refused(two_sheets):
    with pytest.raises(ValueError, match=r"2 components \(60, 40 points\)"):
        Isomap(n_neighbors=6, disconnected="raise").fit(two_sheets)


def test_given_graph_in_pieces_cannot_be_bridged(two_sheets):
    graph = kneighbors_graph(two_sheets, 6, mode="distance")
    with pytest.raises(ValueError, match="no distances between them"):
        Isomap(metric="precomputed").fit(graph)
    model = Isomap(metric="precomputed", disconnected="apart").fit(graph)
    assert np.isfinite(model.embedding_).all()


def test_component_of_one_point_and_of_two():
    rng = np.random.default_rng(8)
    X = np.concatenate([rng.uniform(0, 1, (30, 2)), [[9.0, 9.0]], [[20.0, 0.0], [20.1, 0.0]]])
    graph = kneighbors_graph(X[:30], 5, mode="distance").tolil()
    whole = csr_array((33, 33)).tolil()
    whole[:30, :30] = graph
    whole[31, 32] = 0.1
    model = Isomap(metric="precomputed", disconnected="apart").fit(whole.tocsr())
    Y = model.embedding_
    assert np.isfinite(Y).all()
    assert np.linalg.norm(Y[31] - Y[32]) == pytest.approx(0.1)
    assert len(np.unique(Y.round(9), axis=0)) == 33


def test_mutual_neighbors_are_fewer():
    X = datasets.swiss_roll(400).X
    union, mutual = (Isomap(n_neighbors=10, symmetry=rule).fit(X).graph_ for rule in ("or", "and"))
    assert (union.degrees >= 10).all()
    assert (mutual.degrees <= 10 + 1).all()  # a bridge may add one
    assert mutual.n_edges < union.n_edges


def test_stopping_leaves_landmarks():
    """Stopped early, the geodesics found so far serve as landmarks: still a good picture."""
    roll = datasets.swiss_roll(3000)
    calls = []

    def enough(progress):
        calls.append(progress)
        return progress.stage == "geodesics" and progress.done >= 10

    model = Isomap(n_neighbors=10, callback=enough, n_jobs=1).fit(roll.X)
    assert model.diagnostics_["stopped"]
    assert 32 <= len(model.diagnostics_["landmarks"]) < 3000
    assert metrics.procrustes(model.embedding_, roll.truth).error < 0.02
    assert {progress.stage for progress in calls} >= {"geodesics"}
