"""Maximum variance unfolding against what is known on paper and against an interior-point solver."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from helpers import graph_of, problems, rigid_error, sample_of
from manifoldry import MVU, ColoredMVU, FastMVU, LandmarkMVU, TesseraMap, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.semidefinite.pairs import PairDistances
from manifoldry.methods.unfolding import _mvu as mvu_module
from manifoldry.methods.unfolding._fast_mvu import _best_layout
from twins import least

TWIN_TOL = 1e-6
"""Relative error of the twin's optimum: its own tolerances of 1e-9, magnified by the condition of small programs."""


def spread(x):
    return float(np.square(x - x.mean(axis=0)).sum())


def reference(pairs, low, high):
    """Return the largest variance of points with squared relative lengths between these, by a general solver."""
    n = pairs.n_points
    # Nothing sees where the points are together: the first is at the origin.
    return -least(1 / n - np.eye(n - 1), pairs.matrix().toarray()[:, 1:], low, high)[0]


def least_errors(pairs):
    """Return the least mean squared error of squared relative lengths, and the lengths, by a general solver."""
    n, B = pairs.n_points, pairs.matrix().toarray()[:, 1:]
    error, A = least(np.zeros((n - 1, n - 1)), B, -np.inf, np.inf, squared=1.0)
    return 2 / len(pairs) * error, np.einsum("em,mn,en->e", B, A, B)


@pytest.mark.parametrize("constraints", ["equal", "at most"])
def test_a_chain_becomes_straight(constraints):
    """Nothing holds the angles, so the largest variance is that of points on a line at the summed lengths."""
    lengths = np.random.default_rng(0).uniform(0.5, 2.0, 14)
    chain = graph_of(15, [(k, k + 1, d) for k, d in enumerate(lengths)])
    mvu = MVU(n_components=1, constraints=constraints, slack=1e-6, tol=1e-8).fit(chain)
    straight = np.concatenate([[0.0], np.cumsum(lengths)])
    # The stretch is known to the gap and, where bands have a width, to that width.
    assert mvu.stretch_ == pytest.approx(spread(straight), rel=3e-6)
    assert np.abs(np.diff(mvu.embedding_[:, 0])) == pytest.approx(lengths, rel=1e-4)
    assert mvu.certificate_.gap < 3e-6
    assert int(mvu.suggest_n_components()) == 1


@pytest.mark.parametrize("constraints", ["equal", "at most"])
@pytest.mark.parametrize("n_arms", [3, 4])
def test_arms_of_a_star_go_to_the_corners_of_a_simplex(n_arms, constraints):
    """Sum |y - mean|^2 = (sum of squares from the hub) - |sum|^2 / n is largest where the sum of the arms is zero.

    Equal straight arms reach that: three in the plane at 120 degrees, four in the directions of a tetrahedron.
    """
    per_arm = 3
    edges = []
    for arm in range(n_arms):
        first = 1 + arm * per_arm
        edges += [(0, first, 1.0)] + [(first + k, first + k + 1, 1.0) for k in range(per_arm - 1)]
    n = 1 + n_arms * per_arm
    mvu = MVU(n_components=n_arms - 1, constraints=constraints, slack=1e-6, tol=1e-8).fit(graph_of(n, edges))
    assert mvu.stretch_ == pytest.approx(n_arms * sum(k**2 for k in range(1, per_arm + 1)), rel=3e-6)
    if n_arms == 3:  # four arms may also balance in pairs of opposite ones, or anywhere between
        tips = mvu.embedding_[[3, 6, 9]] - mvu.embedding_[0]
        cosines = tips @ tips.T / 9
        # An angle off by t costs t^2 of the stretch, so angles are good to the root of its precision.
        assert cosines == pytest.approx(1.5 * np.eye(3) - 0.5, abs=5e-3)


def test_a_square_grid_without_diagonals_is_sheared_to_a_line_but_with_them_stays():
    """Unit squares alone are hinged: all edges along one line stretch most. Braced, the grid is its own optimum."""
    side = 4
    x, y = np.divmod(np.arange(side**2), side)
    grid = np.column_stack([x, y]).astype(float)
    along = [(a, b, 1.0) for a in range(side**2) for b in (a + 1, a + side) if b < side**2 and (b - a > 1 or b % side)]
    hinged = MVU(n_components=1, constraints="at most", tol=1e-8).fit(graph_of(side**2, along))
    assert hinged.stretch_ == pytest.approx(spread(x + y), rel=1e-6)
    diagonals = [
        (a, b, np.sqrt(2.0)) for a in range(side**2) for b in range(a) if np.square(grid[a] - grid[b]).sum() == 2.0
    ]
    for constraints in ("equal", "at most"):
        braced = MVU(n_components=2, constraints=constraints, slack=1e-6, tol=1e-8).fit(
            graph_of(side**2, along + diagonals)
        )
        assert braced.stretch_ == pytest.approx(spread(grid), rel=1e-5)
        assert rigid_error(braced.embedding_, grid) < 1e-2


@pytest.mark.parametrize("constraints", ["equal", "at most"])
def test_small_problems_agree_with_an_interior_point_solver(constraints):
    for seed in range(4):
        n = 9
        X = np.random.default_rng(seed).standard_normal((n, 5))
        settings = {"constraints": constraints, "slack": 1e-6, "tol": 1e-8, "max_rank": n - 1}
        mvu = MVU(n_components=3, n_neighbors=3, disconnected="raise", **settings)
        pairs = PairDistances.of_graph(mvu.fit(X).graph_)
        best = reference(pairs, 1.0 if constraints == "equal" else -np.inf, 1.0)
        # Bands of 1e-6 let kept distances, and the stretch, differ by about that.
        assert mvu.stretch_ == pytest.approx(best, rel=1e-5)
        assert mvu.certificate_.gap < 1e-5


@pytest.mark.parametrize("max_rank", [None, 10])
@pytest.mark.parametrize("constraints", ["equal", "at most"])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_between_value_and_bound(seed, constraints, max_rank):
    X = datasets.swiss_roll(34, random_state=seed).X
    mvu = MVU(n_components=2, n_neighbors=4, constraints=constraints, max_rank=max_rank, tol=1e-5).fit(X)
    held = mvu.slack if constraints == "equal" else 0.0
    best = reference(PairDistances.of_graph(mvu.graph_), 1 - held if held else -np.inf, 1 + held)
    assert mvu.stretch_ <= best * (1 + TWIN_TOL)
    assert -mvu.certificate_.bound >= best * (1 - TWIN_TOL)
    # 34 points of a roll need fewer than ten dimensions.
    assert mvu.certificate_.optimal
    assert mvu.certificate_.violation == 0
    assert mvu.error_certificate_.objective == 0
    assert mvu.error_certificate_.optimal


def contradicting(seed, n=26):
    """Return distances of random points with errors of a tenth: no points have them."""
    rng = np.random.default_rng(seed)
    X, noise = rng.standard_normal((n, 3)), rng.standard_normal((n, n))
    return np.linalg.norm(X[:, None] - X, axis=2) * np.exp(0.1 * (noise + noise.T))


@pytest.mark.parametrize("seed", range(3))
def test_contradicting_distances_are_kept_as_well_as_can_be(seed):
    """Both stages against a general solver: the least error, then the largest variance near its lengths."""
    mvu = MVU(n_components=2, n_neighbors=9, metric="precomputed").fit(contradicting(seed))
    pairs = PairDistances.of_graph(mvu.graph_)
    error, lengths = least_errors(pairs)
    certificate = mvu.error_certificate_
    assert error > 100 * certificate.noise  # they do contradict each other
    assert certificate.bound <= error * (1 + TWIN_TOL) + certificate.noise
    assert certificate.objective >= error * (1 - TWIN_TOL) - certificate.noise
    assert certificate.optimal
    center = np.where(np.abs(lengths - 1) < mvu.slack, 1.0, lengths)
    # The lengths of the least error are found to a thousandth of the slack, so the bands are between these.
    narrow, wide = 0.999 * mvu.slack, 1.001 * mvu.slack
    assert -mvu.certificate_.bound >= reference(pairs, center - narrow, center + narrow) * (1 - TWIN_TOL)
    assert mvu.stretch_ <= reference(pairs, center - wide, center + wide) * (1 + TWIN_TOL)
    assert mvu.certificate_.optimal


@pytest.mark.filterwarnings("ignore::manifoldry._core.warnings.EmbeddingWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_rank", [2, 4, 8])
def test_errors_in_few_dimensions_are_bracketed(seed, max_rank):
    """In few dimensions the error may be larger than it has to be; its certificate tells by how much at the most."""
    mvu = MVU(n_components=2, n_neighbors=9, metric="precomputed", max_rank=max_rank, slack=1e-3)
    mvu.fit(contradicting(seed))
    error, _ = least_errors(PairDistances.of_graph(mvu.graph_))
    certificate = mvu.error_certificate_
    assert certificate.bound <= error * (1 + TWIN_TOL)
    assert certificate.objective >= error * (1 - TWIN_TOL)
    assert certificate.optimal == (certificate.gap <= mvu.tol)
    if max_rank == 2:  # far too few: nothing is proven, and said so
        assert certificate.verdict == "bound only"
    if max_rank == 8:  # as many as the least error needs; Newton's method ends within a thousandth of it
        assert certificate.objective == pytest.approx(error, rel=1e-3)
        assert certificate.gap < 0.1


def test_both_paths_prove_300_points(monkeypatch):
    X = datasets.swiss_roll(300, hole=True).X
    whole = MVU(n_neighbors=6).fit(X)
    assert whole.certificate_.optimal
    assert whole.certificate_.violation == 0
    monkeypatch.setattr(mvu_module, "MAX_GRAM_PAIRS", 0)
    flat = MVU(n_neighbors=6).fit(X)
    # Four dimensions are a part of the whole program; its bound and that of the whole hold for both values.
    assert max(whole.stretch_, flat.stretch_) <= -max(whole.certificate_.bound, flat.certificate_.bound) * (1 + 1e-9)
    assert flat.stretch_ > whole.stretch_ * (1 - 1e-3)
    upper = MVU(n_neighbors=6, constraints="at most").fit(X)
    assert upper.certificate_.optimal
    # Bands let squared lengths, and so the variance, grow by the slack at the most.
    assert whole.stretch_ <= -upper.certificate_.bound * (1 + whole.slack)


def test_the_input_itself_is_never_stretched_more_than_the_answer():
    X = datasets.swiss_roll(120).X
    mvu = MVU(n_components=2, n_neighbors=6, slack=1e-3).fit(X)
    assert mvu.stretch_ > spread(X)
    assert mvu.certificate_.violation < 1.01e-3
    held = PairDistances.of_graph(mvu.graph_)
    # tr G <= n^3 tau^2 / 2, tau the longest edge: no two points are more than n - 1 edges apart.
    assert mvu.stretch_ < 120**3 * held.lengths.max() ** 2 / 2


def test_a_flat_sheet_stays_flat():
    flat = np.random.default_rng(1).uniform(size=(80, 2)) * [3.0, 1.0]
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)))[0]
    mvu = MVU(n_components=2, n_neighbors=8, slack=1e-4, common_neighbors=True).fit(flat @ turn[:2])
    values = mvu.spectrum_.values
    # Bands of width s let a braced sheet grow by s in square, and buckle by its root.
    assert values[2:].sum() < 1e-3 * values.sum()
    assert rigid_error(mvu.embedding_, flat) < 5e-3


def test_common_neighbors_hold_angles():
    """A bent chain whose second neighbors are held too cannot become straight."""
    angle = np.linspace(0, np.pi, 10)
    arc = np.column_stack([np.cos(angle), np.sin(angle)])
    free = MVU(n_components=1, n_neighbors=2, slack=1e-5, tol=1e-7).fit(arc)
    held = MVU(n_components=1, n_neighbors=2, slack=1e-5, tol=1e-7, common_neighbors=True).fit(arc)
    assert held.diagnostics_["n_constraints"] > free.diagnostics_["n_constraints"]
    assert held.stretch_ < free.stretch_ * (1 - 1e-2)
    distances = np.sqrt(np.square(arc[:, None] - arc).sum(axis=2))
    given = MVU(n_components=1, n_neighbors=2, slack=1e-5, tol=1e-7, common_neighbors=True, metric="precomputed").fit(
        distances
    )
    assert given.stretch_ == pytest.approx(held.stretch_, rel=1e-4)


def test_noise_never_fails():
    rng = np.random.default_rng(3)
    X = datasets.s_curve(100).X + 0.2 * rng.standard_normal((100, 3))
    noisy = MVU(n_components=2, n_neighbors=8).fit(X)
    assert noisy.certificate_.optimal
    assert noisy.error_certificate_.objective == 0  # noisy points are points: their distances fit
    pairs = PairDistances.of_graph(noisy.graph_)
    assert noisy.error_ <= noisy.slack**2
    assert spread(X) <= noisy.stretch_ <= spread(noisy.embedding_) / (1 - noisy.slack) * 2
    assert np.square(pairs.of_points(noisy.embedding_)).sum(axis=1).max() <= 1 + noisy.slack


@pytest.mark.parametrize("max_rank", [None, 2])
def test_sides_that_make_no_triangle_lie_on_a_line(max_rank):
    """Sides 1, 1, 5 and a tail: the nearest squared lengths are of a flat triangle x, x, 2x, as in the solver's test.

    The least of 2 (x^2 - 1)^2 + (4 x^2 / 25 - 1)^2 is at x^2 = (2 + 4/25) / (2 + 16/625); the tail keeps its length.
    """
    graph = graph_of(4, [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 5.0), (2, 3, 1.0)])
    broken = MVU(n_components=1, slack=1e-4, max_rank=max_rank).fit(graph)
    square = (2 + 4 / 25) / (2 + 16 / 625)
    errors = np.array([square - 1, square - 1, 4 * square / 25 - 1, 0.0])
    least = float(errors @ errors) / 4
    assert broken.error_certificate_.optimal
    assert broken.error_certificate_.bound <= least * (1 + 1e-9)
    # The bands let lengths differ by 1e-4, and their squared errors, of 1 at the most, by twice that.
    assert broken.error_certificate_.objective == pytest.approx(least, abs=2e-4)
    assert broken.error_ == pytest.approx(least, abs=2e-4)
    assert broken.certificate_.optimal
    # All on a line: 0, x, 2x and the tail beyond.
    assert spread(np.sqrt(square) * np.array([0, 1, 2, 2 + 1 / np.sqrt(square)])) == pytest.approx(
        broken.stretch_, rel=1e-2
    )


@pytest.mark.parametrize("method", [FastMVU, LandmarkMVU])
@pytest.mark.parametrize("n", [600, 2000])
def test_rolls_open_at_their_true_scale(method, n):
    """However many points there are to a landmark or an eigenvector."""
    roll = datasets.swiss_roll(n)
    model = method(n_components=2, n_neighbors=6).fit(roll.X)
    # Chords of a roll are shorter than its arcs: h^2 / 24 r^2 at a spacing of 1.5 and radii from 5 up, half a per cent;
    # six neighbors do not brace the gaps between points, which a largest variance opens: 2 % at 600 points.
    assert rigid_error(model.embedding_, roll.truth) < 0.03
    assert model.error_ < 1e-3
    assert model.diagnostics_["layout"] == "refined"
    assert model.stretch_ == pytest.approx(spread(roll.truth), rel=0.04)
    assert model.certificate_.optimal


@pytest.mark.parametrize("method", [FastMVU(n_basis=12), LandmarkMVU(n_landmarks=13)])
def test_the_certificate_of_a_basis_is_of_the_layout_before_the_refinement(method):
    """Spectrum and certificate are those of the convex program, so the layout without refinement has its errors."""
    X = datasets.swiss_roll(300).X
    model = clone(method).set_params(max_iter=0).fit(X)
    assert model.diagnostics_["layout"] == "smooth"
    values = model.spectrum_.values
    assert model.stretch_ == pytest.approx(values[:2].sum(), rel=1e-9)
    refined = clone(method).fit(X)
    assert refined.certificate_ == model.certificate_
    np.testing.assert_allclose(refined.spectrum_.values, values)


def test_landmarks_of_a_flat_sheet_find_it():
    x, y = np.divmod(np.arange(90), 9)
    flat = np.column_stack([x, y]) + 0.1 * np.random.default_rng(7).standard_normal((90, 2))
    landmark = LandmarkMVU(n_components=2, n_neighbors=8, n_landmarks=15).fit(flat)
    assert len(np.unique(landmark.landmarks_)) == 15
    assert landmark.certificate_.optimal
    # Weights that reconstruct points of the plane from neighbors reproduce it from landmarks: the program contains the
    # sheet, which has no penalty, and its best value is at least the variance of the sheet.
    unrefined = LandmarkMVU(n_components=2, n_neighbors=8, n_landmarks=15, reg=1e-9, max_iter=0).fit(flat)
    assert -unrefined.certificate_.objective > spread(flat) * (1 - 1e-6)
    # The variance lengthens squared distances by a tenth on the whole, the long direction by more than the short one.
    assert unrefined.stretch_ == pytest.approx(1.1 * spread(flat), rel=5e-2)
    # The last pull lengthens squared distances by a thousandth.
    assert landmark.stretch_ == pytest.approx(1.001 * spread(flat), rel=1e-3)
    assert rigid_error(landmark.embedding_, flat) < 2e-3


def test_all_points_as_landmarks_and_all_eigenvectors_span_the_same():
    X = datasets.s_curve(25).X
    landmark = LandmarkMVU(n_components=2, n_neighbors=5, n_landmarks=25, tol=1e-7).fit(X)
    fast = FastMVU(n_components=2, n_neighbors=5, n_basis=24, tol=1e-7).fit(X)
    # The weight of the penalty comes from a program solved to a hundredth.
    assert landmark.certificate_.objective == pytest.approx(fast.certificate_.objective, rel=1e-3)
    assert rigid_error(landmark.embedding_, fast.embedding_) < 1e-3


@pytest.mark.parametrize("method", [FastMVU, LandmarkMVU])
def test_distances_that_do_not_fit_are_not_forced_into_the_plane(method):
    """A cloud of ten dimensions: its neighbors' distances in a plane would push far points together."""
    X = np.random.default_rng(10).standard_normal((300, 10)) * np.linspace(3.0, 0.3, 10)
    model = method(n_components=2).fit(X)
    refined = method(n_components=10).fit(X)
    assert model.diagnostics_["layout"] != "refined"
    assert refined.diagnostics_["layout"] == "refined"
    assert refined.error_ < 0.02
    assert "need" in model.diagnostics_["advice"][0]


def test_of_several_layouts_the_one_that_keeps_neighbors_is_taken():
    rng = np.random.default_rng(11)
    plane = rng.uniform(size=(200, 2))
    sample = sample_of(plane, 6)
    torn, ruled = rng.permutation(plane), plane.copy()
    ruled[0] = [100.0, 0.0]
    slightly = plane + 1e-3 * rng.standard_normal(plane.shape)
    assert _best_layout(sample, [torn, slightly, plane], Run(0)) == 2
    # The refined layout is the first, and stays unless another is clearly better.
    assert _best_layout(sample, [slightly, torn, plane], Run(0)) == 0
    # One point that holds an axis leaves neighbors as they are and the picture useless.
    assert _best_layout(sample, [torn, slightly, ruled], Run(0)) == 1
    assert _best_layout(sample, [torn, ruled, ruled], Run(0)) == 0
    assert _best_layout(replace(sample, X=None), [torn, plane, plane], Run(0)) == 0
    away = np.linalg.norm(plane[:, None] - plane, axis=2)
    assert _best_layout(replace(sample, X=away, pairwise=True), [torn, plane, torn], Run(0)) == 1


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        (MVU, {"constraints": "less"}, "constraints must be one of"),
        (MVU, {"slack": 0.0}, "slack must be a number above 0"),
        (MVU, {"slack": 1.0}, "slack must be a number above 0 and below 1"),
        (MVU, {"tol": -1.0}, "tol must be a number above 0"),
        (MVU, {"max_rank": 1}, "max_rank must be at least 2"),
        (MVU, {"common_neighbors": True, "metric": "manhattan"}, "common_neighbors needs"),
        (FastMVU, {"n_basis": 1}, "n_basis must be at least 2"),
        (FastMVU, {"tol": 0.0}, "tol must be a number above 0"),
        (FastMVU, {"max_iter": -1}, "max_iter must be an integer of at least 0"),
        (LandmarkMVU, {"n_landmarks": 2}, "n_landmarks must be at least 3"),
        (LandmarkMVU, {"reg": -1.0}, "reg must be a number of at least 0"),
        (LandmarkMVU, {"tol": 0.0}, "tol must be a number above 0"),
    ],
)
def test_bad_words_are_refused(method, settings, words):
    with pytest.raises(ValueError, match=words):
        method(n_components=2, **settings).fit(np.random.default_rng(8).standard_normal((30, 3)))


@pytest.mark.parametrize("method", [MVU(n_components=2, common_neighbors=True), LandmarkMVU(n_components=2)])
def test_what_a_graph_cannot_tell_is_asked_for(method):
    chain = graph_of(6, [(k, k + 1, 1.0) for k in range(5)])
    with pytest.raises(ValueError, match="needs points or all pairwise distances"):
        method.fit(chain)


def chains(*sizes):
    """Return the graph of separate chains with edges of length 1."""
    ends = np.cumsum(sizes)
    steps = [(k, k + 1, 1.0) for k in range(int(ends[-1]) - 1) if k + 1 not in ends]
    return graph_of(int(ends[-1]), steps)


@pytest.mark.filterwarnings("ignore::manifoldry._core.warnings.DisconnectedWarning")
@pytest.mark.parametrize("method", [MVU(n_components=1, constraints="at most"), FastMVU(n_components=1, n_basis=4)])
@pytest.mark.parametrize(
    ("graph", "disconnected"), [(chains(9), "raise"), (chains(9, 7), "largest"), (chains(9, 7, 2), "apart")]
)
def test_a_model_of_a_given_graph_has_no_map_for_new_points(method, graph, disconnected):
    model = clone(method).set_params(disconnected=disconnected).fit(graph)
    assert not hasattr(model, "transform")
    assert not hasattr(model, "inverse_transform")
    with pytest.raises(AttributeError, match="no attribute 'transform'") as refused:
        model.transform(np.eye(3))
    assert "fit rows or distances" in str(refused.value.__cause__)


@pytest.mark.filterwarnings("ignore::manifoldry._core.warnings.DisconnectedWarning")
@pytest.mark.parametrize("method", [MVU(constraints="at most"), FastMVU(), LandmarkMVU(n_landmarks=6)])
@pytest.mark.parametrize("disconnected", ["raise", "largest", "apart"])
def test_a_model_of_rows_maps_new_points_to_their_neighbors(method, disconnected):
    sheet = np.random.default_rng(9).uniform(size=(40, 2))
    X = sheet if disconnected == "raise" else np.concatenate([sheet, sheet[:20] + 50.0])
    model = clone(method).set_params(n_neighbors=5, disconnected=disconnected).fit(X)
    # A fitted point is its own reconstruction.
    np.testing.assert_allclose(model.transform(sheet), model.embedding_[:40], atol=1e-9)
    # Once fitted on a graph, the same estimator has no map any more.
    if not isinstance(method, LandmarkMVU):
        assert not hasattr(model.set_params(n_components=1).fit(chains(9)), "transform")


@pytest.mark.parametrize("method", [MVU(constraints="at most"), FastMVU(), LandmarkMVU(n_landmarks=12)])
def test_advice_where_the_points_need_more_dimensions(method):
    rng = np.random.default_rng(3)
    cloud, sheet = rng.standard_normal((80, 8)), rng.uniform(size=(80, 2)) @ rng.standard_normal((2, 8))
    assert (
        "for a picture use TSNE or UMAP, for features use n_components"
        in (clone(method).fit(cloud).diagnostics_["advice"][0])
    )
    assert problems(clone(method).fit(sheet)) == ()


def unfolded(model):
    return model.spectrum_.vectors * np.sqrt(np.maximum(model.spectrum_.values, 0.0))


def test_what_is_certified_is_what_is_returned():
    """A pair a hundredth of the others apart needs dimensions of little variance: they are not cut."""
    line = np.concatenate([np.arange(12.0), [3.01, 7.01]])[:, None] * [[1.0, 2.0, 3.0]]
    model = MVU(n_neighbors=4).fit(line)
    graph, V = model.graph_, unfolded(model)
    squares = np.square(np.linalg.norm(V[graph.rows()] - V[graph.indices], axis=1) / graph.lengths)
    assert model.certificate_.optimal
    assert np.abs(squares - 1).max() <= model.slack + 1e-3 + model.certificate_.violation
    assert np.square(V).sum() == pytest.approx(model.stretch_, rel=1e-4)
    assert "duplicates" not in model.certificate_.claim


@pytest.mark.parametrize("method", [MVU(n_neighbors=4), ColoredMVU(n_neighbors=4)])
def test_a_certificate_with_duplicates_says_what_it_takes_them_for(method):
    X = np.random.default_rng(12).normal(size=(8, 3))
    doubled = clone(method).fit(np.concatenate([X, X[:4]]), np.arange(12) % 2)
    assert "duplicates taken as a thousandth of the median distance apart" in doubled.certificate_.sentence
    assert "duplicates" not in clone(method).fit(X, np.arange(8) % 2).certificate_.claim


@pytest.mark.parametrize(
    "method", [MVU(constraints="at most"), MVU(), ColoredMVU(constraints="at most"), TesseraMap(), FastMVU()]
)
@pytest.mark.parametrize("size", [1e8, 1e12])
def test_one_wrong_entry_is_refused_or_embedded(method, size):
    """A distance beyond all others is more than double precision can weigh against them."""
    X = np.random.default_rng(13).normal(size=(40, 4))
    X[5, 1] = size
    with pytest.raises(ValueError, match=r"^The longest of the distances .* times their median: .* Check X for wrong"):
        clone(method).set_params(n_neighbors=5).fit(X)
