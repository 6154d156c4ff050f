"""Rigid patches, wanted distances and bounds: figures known beforehand, a general solver, and refusals."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry import align_patches
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.patches.overlaps import find_overlaps, matching_form
from manifoldry._numerics.patches.rigid import PairConstraints, RigidPatches
from manifoldry._numerics.procrustes import rigid_fit
from manifoldry._numerics.semidefinite import newton
from manifoldry._numerics.semidefinite.frames import tangent_basis
from manifoldry._numerics.semidefinite.newton import AugmentedLagrangian, LagrangianProblem
from manifoldry._numerics.semidefinite.staircase import place
from manifoldry.methods.unfolding._align_patches import N_MEAN_POINTS, _stretched


def moved(rng, points):
    """Return the points turned, perhaps over, and shifted."""
    turn = np.linalg.qr(rng.standard_normal((points.shape[1],) * 2))[0]
    return points @ turn + rng.standard_normal(points.shape[1])


def turned(rng, points):
    """Return the points turned but not over, and shifted."""
    turn = np.linalg.qr(rng.standard_normal((points.shape[1],) * 2))[0]
    turn[:, 0] *= np.linalg.det(turn)
    return points @ turn + rng.standard_normal(points.shape[1])


def error(found, truth):
    return np.abs(rigid_fit(found, truth)(found) - truth).max()


def lengths(Y, pairs):
    return np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)


def local_maps(rng, X, k, noise=0.0):
    """Return each point with its k nearest as a map of its own."""
    near = np.argsort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, : k + 1]
    return [(members, moved(rng, X[members]) + noise * rng.standard_normal((k + 1, X.shape[1]))) for members in near]


def chain(m):
    return [([i, i + 1], [[0.0], [1.0]]) for i in range(m)]


def noisy_pieces(seed):
    """Return five pieces of a plane figure of twelve points that fit badly, and the figure."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 2))
    listed = [np.arange(start, start + 6) % 12 for start in (0, 3, 5, 7, 9)]
    return [(members, moved(rng, X[members]) + 0.2 * rng.standard_normal((6, 2))) for members in listed], X


# Known figures


def test_three_pieces_give_back_their_figure():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 2))
    listed = [np.arange(0, 7), np.arange(4, 11), np.arange(8, 15)]
    patches = [(members, moved(rng, X[members])) for members in listed]
    found = align_patches(patches)
    assert found.certificate.optimal
    assert error(found.coordinates, X) < 1e-9
    # The solver ends at a relative gradient of 1e-11, and figures are of size one.
    assert max(found.disagreement.max(), found.residuals.max()) < 1e-9
    for (members, f), frame, shift in zip(patches, found.frames, found.shifts, strict=True):
        np.testing.assert_allclose(f @ frame + shift, found.coordinates[members], atol=1e-9)
        np.testing.assert_allclose(frame @ frame.T, np.eye(2), atol=1e-12)


def test_patches_of_one_two_and_three_dimensions_hold_a_solid_together():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((10, 3))
    flat = X[[0, 1, 2]] - X[0]
    plane = np.linalg.svd(flat)[2][:2].T
    patches = [
        (np.arange(6), moved(rng, X[:6])),
        ([2, 3, 4, 5, 6, 7, 8], moved(rng, X[2:9])),
        ([0, 1, 2], flat @ plane),  # as wide as it is
        ([6, 7, 8], X[6:9]),  # a triangle given in space
        ([4, 9], [[0.0], [np.linalg.norm(X[4] - X[9])]]),
        ([8, 9], [[0.0], [np.linalg.norm(X[8] - X[9])]]),
        ([0, 9], [[0.0], [np.linalg.norm(X[0] - X[9])]]),
        ([7, 9], [[0.0], [np.linalg.norm(X[7] - X[9])]]),
        ([9], np.empty((1, 0))),
    ]
    found = align_patches(patches)
    assert found.coordinates.shape == (10, 3)
    # Point 9 hangs on bars alone: the dual is exact to roots of rounding, 1.5e-8, times norm 20 and 14 frame rows.
    assert found.certificate.objective - found.certificate.bound < 1e-5
    assert error(found.coordinates[:9], X[:9]) < 1e-9
    # The error of a bar is of second order in the place of its end.
    assert error(found.coordinates, X) < 1e-4
    for (members, f), frame, shift in zip(patches, found.frames, found.shifts, strict=True):
        g = np.pad(np.asarray(f, dtype=float), ((0, 0), (0, 3 - np.shape(f)[1])))
        np.testing.assert_allclose(g @ frame + shift, found.coordinates[members], atol=1e-4)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_sensor_network_comes_from_its_local_maps(noise):
    rng = np.random.default_rng(2)
    X = rng.random((60, 2))
    found = align_patches(local_maps(rng, X, 8, noise), 2)
    assert found.certificate.optimal
    if noise == 0:
        assert error(found.coordinates, X) < 1e-6
        assert found.spectrum.values[2:].sum() < 1e-12 * found.spectrum.values.sum()
    else:
        # 60 maps of 9 places average the noise of each; a map alone is off by this much.
        assert 0 < error(found.coordinates, X) < 10 * noise
    # Whatever the relaxed program did, patches end rigid.
    products = found.frames @ found.frames.transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(2), products.shape), atol=1e-10)


def test_pieces_that_share_nothing_stand_side_by_side():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((9, 2))
    patches = [(np.arange(4), X[:4]), (np.arange(1, 6), X[1:6]), ([6, 7, 8], X[6:])]
    found = align_patches(patches)
    assert found.certificate.optimal
    assert found.components.tolist() == [0, 0, 1]
    assert error(found.coordinates[:6], X[:6]) < 1e-9
    assert error(found.coordinates[6:], X[6:]) < 1e-9
    assert found.coordinates[:6, 0].max() < found.coordinates[6:, 0].min()
    inside = align_patches(patches, upper_bounds=([[6, 8]], [100.0]))
    assert inside.multipliers.tolist() == [0.0]


# Distances and bounds


@pytest.mark.parametrize("share", [1.0, 0.8, 0.3])
def test_the_ends_of_a_chain_are_as_far_apart_as_told(share):
    found = align_patches(chain(6), 2, distances=([[0, 6]], [6 * share]))
    assert found.certificate.optimal
    assert abs(found.violations[0]) < 1e-6
    steps_along = np.diff(found.coordinates, axis=0)
    # A square may be off by 1e-6 of 36, and a straight chain gives way only by its joints: a sixth of it each.
    np.testing.assert_allclose(np.linalg.norm(steps_along, axis=1), 1.0, atol=1e-5)
    if share == 1:
        # Off the line by an angle whose square is of the order of the error.
        assert found.spectrum.values[1:].sum() < 1e-5 * found.spectrum.values[0]


def test_a_stretch_straightens_a_free_chain_and_joints_close_again():
    found = align_patches(chain(6), 2, stretch=0.01)
    assert found.certificate.optimal
    straight = np.arange(7.0)[:, None] - 3
    assert error(found.coordinates, np.pad(straight, ((0, 0), (0, 1)))) < 1e-8
    open_joints = align_patches(chain(6), 2, stretch=0.01, refine=False)
    assert open_joints.disagreement[1:-1].min() > 1e-4
    # The variance of seven points a distance 1 apart is 4, and pulling them apart gains more.
    assert open_joints.certificate.objective < -0.01 * 4


@pytest.mark.parametrize("n", [N_MEAN_POINTS, 40])
def test_the_stretch_is_the_variance_or_the_spread_about_a_sample_mean(n):
    rng = np.random.default_rng(22)
    X = rng.random((n, 2))
    rigid = RigidPatches.read(local_maps(rng, X, 5))
    form = matching_form(find_overlaps(rigid.members, rigid.f, n), rigid.layout.sizes)
    V = rng.standard_normal((rigid.layout.n_rows, 3))
    Y = rigid.positions @ V
    gained = np.vdot(V, (form - _stretched(rigid, form, 0.01, Run(0))) @ V) / 0.01
    variance = np.square(Y - Y.mean(axis=0)).sum() / n
    if n == N_MEAN_POINTS:
        assert gained == pytest.approx(variance, rel=1e-9)
    else:
        # About any other middle the mean square is larger by the square of its distance, here of twelve of the points.
        assert variance < gained < 2 * variance


def test_equalities_and_bounds_hold_and_idle_bounds_cost_nothing():
    patches, _ = noisy_pieces(4)
    loose = align_patches(patches).coordinates
    exact, above, below, idle = np.array([[0, 6], [2, 9], [1, 7], [3, 11]])[:, None]
    wanted = {
        "distances": (exact, 1.1 * lengths(loose, exact)),
        "upper_bounds": (np.vstack([above, idle]), np.append(0.8 * lengths(loose, above), 50.0)),
        "lower_bounds": (np.vstack([below, idle]), np.append(1.3 * lengths(loose, below), 0.01)),
    }
    found = align_patches(patches, **wanted)
    assert found.certificate.optimal
    assert found.certificate.violation < 1e-5
    assert np.abs(found.violations).max() < 1e-5
    pulled, up, idle_up, down, idle_down = found.multipliers
    assert pulled != 0
    assert up > 0
    assert down < 0
    assert idle_up == idle_down == 0
    held = [*wanted["distances"][1], wanted["upper_bounds"][1][0], wanted["lower_bounds"][1][0]]
    np.testing.assert_allclose(lengths(found.coordinates, np.vstack([exact, above, below])), held, rtol=1e-5)
    assert found.certificate.objective > align_patches(patches).certificate.objective


def test_distances_that_contradict_the_patches_are_told_and_not_forced():
    bar = [([0, 1], [[0.0], [1.0]]), ([1, 2], [[0.0], [1.0]])]
    found = align_patches(bar, 2, distances=([[0, 2]], [3.0]), upper_bounds=([[0, 2]], [1.0]))
    assert not found.certificate.optimal
    assert found.trace.stop is Stop.LIMIT
    assert np.abs(found.violations).max() > 0.1
    assert np.isfinite(found.coordinates).all()


def by_clarabel(Q, sizes, wanted):
    """Return the optimum over the Gram matrix of frames and shifts, the first shift at the origin."""
    clarabel = pytest.importorskip("clarabel")
    kept = np.delete(np.arange(len(Q)), sizes.sum())
    Q, B = Q[np.ix_(kept, kept)], wanted.differences.toarray()[:, kept]
    column, row = np.tril_indices(len(Q))
    weight = np.where(row == column, 1.0, np.sqrt(2))
    block = np.append(np.repeat(np.arange(len(sizes)), sizes), -1 - np.arange(len(sizes) - 1))
    fixed = np.flatnonzero(block[row] == block[column])
    fixed = fixed[block[row[fixed]] >= 0]
    eye = np.eye(len(row))
    squares = weight * B[:, row] * B[:, column]
    equal = ~wanted.upper & ~wanted.lower
    sign = np.where(wanted.upper, 1.0, -1.0)[~equal]
    rows = [eye[fixed], squares[equal], sign[:, None] * squares[~equal], -eye]
    right = [(row == column)[fixed], wanted.squares[equal], sign * wanted.squares[~equal], np.zeros(len(row))]
    cones = [clarabel.ZeroConeT(len(fixed) + int(equal.sum())), clarabel.NonnegativeConeT(int((~equal).sum()))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solution = clarabel.DefaultSolver(
        sp.csc_matrix((len(row), len(row))),
        weight * Q[row, column],
        sp.csc_matrix(np.vstack(rows)),
        np.concatenate(right).astype(float),
        [*cones, clarabel.PSDTriangleConeT(len(Q))],
        settings,
    ).solve()
    assert str(solution.status) == "Solved"
    return solution.obj_val


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_a_general_solver_finds_the_same_optimum(seed):
    patches, _ = noisy_pieces(seed)
    loose = align_patches(patches).coordinates
    pairs = np.array([[0, 6], [2, 9], [1, 7], [3, 11], [0, 4]])
    at = lengths(loose, pairs)
    exact, upper, lower = (pairs[:1], 1.2 * at[:1]), (pairs[1:3], 0.7 * at[1:3]), (pairs[3:], 1.3 * at[3:])
    found = align_patches(patches, distances=exact, upper_bounds=upper, lower_bounds=lower)
    assert found.certificate.optimal
    rigid = RigidPatches.read(patches)
    form = matching_form(find_overlaps(rigid.members, rigid.f, 5), rigid.layout.sizes)
    wanted = PairConstraints.read(exact, upper, lower, 12).distances(rigid.positions)
    best = by_clarabel(form.toarray(), rigid.layout.sizes, wanted)
    assert found.certificate.objective == pytest.approx(best, rel=1e-5)


def test_conjugate_gradients_and_factors_find_the_same_place(monkeypatch):
    rng = np.random.default_rng(8)
    X = rng.random((14, 2))
    patches = local_maps(rng, X, 5, noise=0.05)
    pairs = np.array([[i, (i + 5) % 14] for i in range(14)])
    bounds = (pairs, 0.9 * lengths(X, pairs))
    by_factor = align_patches(patches, upper_bounds=bounds)
    monkeypatch.setattr(newton, "MAX_FACTORED_ROW", 0)
    by_gradients = align_patches(patches, upper_bounds=bounds)
    assert by_factor.certificate.optimal
    assert by_gradients.certificate.optimal
    # Two placements of gap 1e-8 each.
    close = 20 * by_factor.certificate.noise
    assert abs(by_factor.certificate.objective - by_gradients.certificate.objective) < close


def constrained(seed, columns):
    """Return a Lagrangian with pairs of all kinds, some not active, its layout and a place."""
    rng = np.random.default_rng(seed)
    patches, _ = noisy_pieces(seed)
    rigid = RigidPatches.read(patches)
    pairs = np.array([[0, 6], [2, 9], [1, 7], [3, 11], [0, 4]])
    wanted = PairConstraints.read((pairs[:1], [2.0]), (pairs[1:3], [0.5, 9.0]), (pairs[3:], [9.0, 0.1]), 12)
    form = matching_form(find_overlaps(rigid.members, rigid.f, 5), rigid.layout.sizes)
    lagrangian = AugmentedLagrangian(form, wanted.distances(rigid.positions), rng.uniform(-0.1, 0.1, 5), 2.0)
    V = rigid.layout.orthonormal(rng.standard_normal((rigid.layout.n_rows, columns)))
    return lagrangian, rigid.layout, V, rng


def test_the_derivatives_of_the_lagrangian_are_those_of_differences(monkeypatch):
    lagrangian, layout, V, rng = constrained(9, 3)
    Z = rng.standard_normal(V.shape)
    h = 1e-5
    multipliers = lagrangian.next_multipliers(V)
    assert (multipliers != 0).any()
    assert (multipliers == 0).any()
    slope = 2 * np.vdot(lagrangian.matrix(multipliers) @ V, Z)
    # Central differences err by h squared times third derivatives, and rounding by 1e-16 / h.
    assert slope == pytest.approx((lagrangian.value(V + h * Z) - lagrangian.value(V - h * Z)) / (2 * h), rel=1e-6)

    def gradient(U):
        return lagrangian.matrix(lagrangian.next_multipliers(U)) @ U

    factored = LagrangianProblem(lagrangian, layout, V).system(V)
    monkeypatch.setattr(newton, "MAX_FACTORED_ROW", 0)
    iterative = LagrangianProblem(lagrangian, layout, V).system(V)
    hessian = iterative.product(Z) + layout.multipliers(V, gradient(V)) @ Z
    np.testing.assert_allclose(hessian, (gradient(V + h * Z) - gradient(V - h * Z)) / (2 * h), rtol=1e-5, atol=1e-6)
    basis = tangent_basis(layout, V)
    applied = basis.T @ iterative.product((basis @ np.ones(basis.shape[1])).reshape(V.shape)).ravel()
    np.testing.assert_allclose(factored.matrix @ np.ones(basis.shape[1]), applied, atol=1e-12)


# Left and right


def solid(seed):
    """Return a solid in four overlapping pieces, each turned but not over."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((14, 3))
    listed = [np.arange(start, start + 8) % 14 for start in (0, 3, 6, 9)]
    return [(members, turned(rng, X[members])) for members in listed], X


@pytest.mark.parametrize("seed", range(10, 16))
def test_right_handed_patches_give_the_right_hand(seed):
    patches, X = solid(seed)
    found = align_patches(patches, chiral=True)
    assert error(found.coordinates, X) < 1e-9
    assert np.linalg.det(rigid_fit(found.coordinates, X).matrix) > 0
    assert not found.mirrored.any()


def test_a_patch_of_the_wrong_hand_is_told():
    patches, _ = solid(16)
    patches[2] = (patches[2][0], patches[2][1] * [1, 1, -1])
    free = align_patches(patches)
    assert free.residuals.max() < 1e-9
    assert free.mirrored.tolist() in ([False, False, True, False], [True, True, False, True])


def test_a_patch_that_may_not_turn_over_stays_apart():
    patches, _ = solid(17)
    patches[2] = (patches[2][0], patches[2][1] * [1, 1, -1])
    found = align_patches(patches, chiral=True)
    assert not found.mirrored.any()
    assert (np.linalg.det(found.frames) > 0).all()
    assert found.residuals.max() > 0.01
    # The relaxed program turns it over through a fourth dimension at no cost.
    assert found.certificate.objective <= found.certificate.noise


# Ways in


def test_a_start_is_kept_to_without_relaxation():
    rng = np.random.default_rng(18)
    X = rng.random((30, 2))
    patches = local_maps(rng, X, 6)
    near = X + 0.001 * rng.standard_normal(X.shape)
    kept, before = near.copy(), [f.copy() for _, f in patches]
    found = align_patches(patches, 2, start=near, relax=False)
    assert found.certificate.optimal
    assert error(found.coordinates, X) < 1e-8
    assert np.array_equal(near, kept)
    assert all(np.array_equal(f, g) for (_, f), g in zip(patches, before, strict=True))


def test_a_callback_stops_with_what_there_is():
    patches, _ = noisy_pieces(19)
    bounds = ([[0, 6]], [0.1])
    found = align_patches(patches, upper_bounds=bounds, callback=lambda progress: progress.done >= 1)
    assert found.trace.stop is Stop.ASKED
    assert np.isfinite(found.coordinates).all()


def test_a_rough_tolerance_ends_earlier_and_refines_all_the_same():
    rng = np.random.default_rng(20)
    X = rng.random((15, 2))
    patches = local_maps(rng, X, 4, noise=0.1)
    pairs = np.array([[i, (i + 6) % 15] for i in range(15)])
    bounds = (pairs, 0.8 * lengths(X, pairs))
    rough = align_patches(patches, 2, upper_bounds=bounds, tol=0.03)
    fine = align_patches(patches, 2, upper_bounds=bounds)
    assert rough.certificate.violation <= 0.03
    assert rough.trace.n_iter < fine.trace.n_iter
    assert max(rough.violations.max(), fine.violations.max()) < 1e-6


TRIANGLE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
PAIR = [([0, 1, 2], TRIANGLE), ([1, 2, 3], TRIANGLE)]


@pytest.mark.parametrize(
    ("patches", "words", "said"),
    [
        ([], {}, "At least one patch"),
        ([([0, 1, 2],)], {}, "pair .members, coordinates"),
        ([([], np.empty((0, 2)))], {}, "numbers of points"),
        ([([0.5, 1.5, 2.5], TRIANGLE)], {}, "numbers of points"),
        ([([0, 1, 1], TRIANGLE)], {}, "lists a point twice"),
        ([([0], [[1.0, 2.0]]), ([0, 1], [[1.0], [1.0]])], {}, "All 2 patches have coincident points only"),
        ([([0, 1], TRIANGLE)], {}, "one row per member"),
        ([([0, 1, 2], [[0, 0], [1, 0], [0, np.nan]])], {}, "not finite"),
        ([([0, 1, 3], TRIANGLE)], {}, "1 of 4 points are in no patch, the first is 2"),
        (PAIR, {"n_components": 1}, "because a patch fills 2 dimensions"),
        (PAIR, {"stretch": -1.0}, "stretch"),
        (PAIR, {"stretch": 1e3}, "try a tenth"),
        (PAIR, {"tol": 0.0}, "tol"),
        (PAIR, {"distances": ([[0, 4]], [1.0])}, "distances names points from 0 to 4; there are 0 to 3"),
        (PAIR, {"distances": ([[0, 3]], [-1.0])}, "at least 0"),
        (PAIR, {"upper_bounds": ([[0, 3]], [np.nan])}, "finite lengths"),
        (PAIR, {"lower_bounds": ([[0, 3]], [1.0, 2.0])}, "E lengths"),
        (PAIR, {"distances": ([[3, 3]], [1.0])}, "with itself"),
        (PAIR, {"distances": [[[0, 3]]]}, "pairs, lengths"),
        (PAIR, {"start": np.zeros((3, 2))}, "start must have 4 rows"),
        (PAIR, {"start": np.zeros((4, 3)), "relax": False}, "exactly 2 columns"),
        (PAIR, {"start": np.full((4, 2), np.nan)}, "start must be finite"),
        ([PAIR[0], ([3, 4, 5], TRIANGLE)], {"distances": ([[0, 3]], [1.0])}, "share no points"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(patches, words, said):
    with pytest.raises(ValueError, match=said):
        align_patches(patches, **words)


def test_a_single_patch_lies_as_it_is():
    found = align_patches([([0, 1, 2], TRIANGLE)], chiral=True)
    assert found.certificate.optimal
    assert error(found.coordinates, np.array(TRIANGLE)) < 1e-12


def test_placing_without_distances_has_no_forces():
    patches, _ = noisy_pieces(21)
    rigid = RigidPatches.read(patches)
    form = matching_form(find_overlaps(rigid.members, rigid.f, 5), rigid.layout.sizes)
    assert len(place(form, rigid.layout.sizes, Run(0)).multipliers) == 0
