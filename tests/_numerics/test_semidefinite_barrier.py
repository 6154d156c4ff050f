"""Stretching with distances held: against derivatives, an interior-point solver, and where paper knows the answer."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.semidefinite.barrier_path import StretchOptions, stretch_out
from manifoldry._numerics.semidefinite.certificate import certify_basis, certify_stretch
from manifoldry._numerics.semidefinite.frames import Bands, Barrier, FrameLayout, Misfit, Stretch
from manifoldry._numerics.semidefinite.newton import LengthProblem, NewtonStep
from manifoldry.methods.unfolding._fast_mvu import _SmoothProblem, smooth_stretch
from twins import identity_lengths, least

GAP, SLACK = 1e-6, 1e-3


def points(n):
    return FrameLayout(np.zeros(n, dtype=int))


def differences(pairs, lengths, n):
    """Return rows (e_i - e_j) / length."""
    B = np.zeros((len(pairs), n))
    for row, (i, j), length in zip(B, pairs, lengths, strict=True):
        row[i], row[j] = 1 / length, -1 / length
    return sp.csr_array(B)


def bands(B, kept):
    E = B.shape[0]
    if kept:
        return Bands(B, np.full(E, 1 - SLACK), np.full(E, 1 + SLACK))
    return Bands(B, np.full(E, -np.inf), np.ones(E))


def cloud(seed, n=7, space=3, k=2):
    """Return random points and the pairs of a ring joined with those of nearest neighbors: connected."""
    X = np.random.default_rng(seed).normal(size=(n, space))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    near = {(min(i, j), max(i, j)) for i in range(n) for j in np.argsort(D[i])[1 : k + 1]}
    pairs = sorted(near | {(i, i + 1) for i in range(n - 1)} | {(0, n - 1)})
    return X - X.mean(axis=0), differences(pairs, [D[pair] for pair in pairs], n)


def laplacian(seed, n):
    """Return the form of randomly weighted squared distances of all pairs."""
    weights = np.triu(np.random.default_rng([seed, 7]).exponential(size=(n, n)), 1)
    weights += weights.T
    return np.diag(weights.sum(axis=0)) - weights


def hinged(seed, sizes=(2, 2, 2), space=3):
    """Return rigid pieces of a figure: layout, placement, links between their points, and what is stretched.

    A piece's points are known in its own frame; a link holds the distance of a point of one piece to a point of
    another. Stretched are the distances between the pieces' origins.
    """
    rng = np.random.default_rng(seed)
    layout, c = FrameLayout(np.array(sizes)), len(sizes)
    frames = [np.linalg.qr(rng.normal(size=(space, size)))[0].T for size in sizes]
    V = np.vstack([*frames, 2 * rng.normal(size=(c, space))])

    def point(i):
        row = np.zeros(layout.n_rows)
        row[layout.offsets[i] : layout.offsets[i + 1]] = rng.normal(size=sizes[i])
        row[layout.n_frame_rows + i] = 1
        return row

    links = [point(i) - point((i + 1) % c) for i in range(c) for _ in range(3)]
    B = np.array([link / np.linalg.norm(link @ V) for link in links])
    W = np.zeros((layout.n_rows, layout.n_rows))
    W[layout.n_frame_rows :, layout.n_frame_rows :] = laplacian(seed, c)
    return layout, V, sp.csr_array(B), W


def reference(W, given, layout):
    """Return max tr(W A), A positive semidefinite with identity blocks for frames and lengths in the bands.

    Shifts are taken about their mean, which nothing sees; clarabel's triangle has off-diagonals times sqrt 2.
    """
    clarabel = pytest.importorskip("clarabel")
    k, c = layout.n_frame_rows, layout.n_patches
    centered = np.linalg.svd(np.eye(c) - 1 / c)[0][:, : c - 1]
    T = np.block([[np.eye(k), np.zeros((k, c - 1))], [np.zeros((c, k)), centered]])
    W, B = T.T @ W @ T, given.differences @ T
    column, row = np.tril_indices(len(W))
    factor = np.where(row == column, 1.0, np.sqrt(2))
    piece = np.concatenate([np.repeat(np.arange(c), layout.sizes), c + np.arange(c - 1)])
    fixed = np.flatnonzero((piece[row] == piece[column]) & (column < k))
    squared = factor * B[:, row] * B[:, column]
    held = np.isfinite(given.lower)
    A = np.vstack([np.eye(len(row))[fixed], squared, -squared[held], -np.eye(len(row))])
    b = np.concatenate([(row == column)[fixed], given.upper, -given.lower[held], np.zeros(len(row))])
    cones = [clarabel.ZeroConeT(len(fixed))] if k else []
    cones += [clarabel.NonnegativeConeT(len(held) + int(held.sum())), clarabel.PSDTriangleConeT(len(W))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-7
    nothing = sp.csc_matrix((len(row), len(row)))
    cost = -factor * W[row, column]
    solution = clarabel.DefaultSolver(nothing, cost, sp.csc_matrix(A), b, cones, settings).solve()
    assert str(solution.status) == "Solved"
    return -solution.obj_val


def agrees(found, best, given):
    """The stretch is within the proven gap of the best, and no bound is below it."""
    stretch, bound = -found.certificate.objective, -found.certificate.bound
    # The barrier stops at a gap of 1e-6 and the reference at 1e-7.
    assert stretch == pytest.approx(best, rel=1e-5)
    assert found.certificate.gap < 1e-5
    assert stretch <= best * (1 + 1e-6)
    assert bound >= best * (1 - 1e-6)
    lengths = given.lengths(found.V)
    assert ((given.lower < lengths) & (lengths < given.upper)).all()


SEEDS = range(10)


@pytest.mark.parametrize("kept", [False, True], ids=["at most", "kept"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_variance_of_points_is_that_of_an_interior_point_solver(seed, kept):
    X, B = cloud(seed)
    n = len(X)
    given = bands(B, kept)
    found = stretch_out(Stretch.variance(n), given, points(n), X, StretchOptions(GAP, SLACK, n - 1, 300), Run(0))
    agrees(found, reference(np.eye(n) - 1 / n, given, points(n)), given)


@pytest.mark.parametrize("kept", [False, True], ids=["at most", "kept"])
@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_pairs_are_stretched_as_by_an_interior_point_solver(seed, kept):
    X, B = cloud(seed)
    n = len(X)
    given, W = bands(B, kept), laplacian(seed, n)
    found = stretch_out(Stretch(sp.csr_array(W)), given, points(n), X, StretchOptions(GAP, SLACK, n - 1, 300), Run(0))
    agrees(found, reference(W, given, points(n)), given)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 2, 2)], ids=["two", "three"])
@pytest.mark.parametrize("seed", range(10))
def test_rigid_pieces_are_stretched_as_by_an_interior_point_solver(seed, sizes):
    layout, V, B, W = hinged(seed, sizes)
    given = bands(B, True)
    found = stretch_out(
        Stretch(sp.csr_array(W)), given, layout, V, StretchOptions(GAP, SLACK, layout.n_rows, 300), Run(0)
    )
    agrees(found, reference(W, given, layout), given)
    for _, rows in layout.groups:
        frames = found.V[rows]
        # A polar factor is orthonormal to rounding.
        unit = np.broadcast_to(np.eye(2), (len(rows), 2, 2))
        np.testing.assert_allclose(frames @ frames.transpose(0, 2, 1), unit, atol=1e-13)


def objective(kind, framed, seed):
    """Return a function, its layout and a place where it is smooth."""
    if framed:
        layout, V, B, W = hinged(seed)
        stretch = Stretch(sp.csr_array(W))
    else:
        V, B = cloud(seed)
        layout, stretch = points(len(V)), Stretch.variance(len(V))
    if kind == "misfit":
        # Longer than wanted everywhere: there the misfit's form is its whole second derivative.
        return Misfit(bands(sp.csr_array(1.3 * B), True)), layout, V
    wide = np.full(B.shape[0], 0.3)
    lower = np.full(B.shape[0], -np.inf) if kind == "at most" else 1 - wide
    return Barrier(stretch, Bands(B, lower, 1 + wide), 0.5), layout, V


@pytest.mark.parametrize("framed", [False, True], ids=["points", "frames"])
@pytest.mark.parametrize("kind", ["at most", "kept", "misfit"])
def test_newtons_equation_is_that_of_differences_along_curves(kind, framed):
    function, layout, V = objective(kind, framed, 3)
    system = LengthProblem(function, layout).system(V)
    rng = np.random.default_rng(4)
    for _ in range(5):
        # The variance's matrix holds for moves about the mean only.
        move = layout.tangent(V, rng.normal(size=V.shape))
        move[layout.n_frame_rows :] -= move[layout.n_frame_rows :].mean(axis=0)
        move /= np.linalg.norm(move)
        step = system.basis.T @ move.ravel()
        np.testing.assert_allclose(system.basis @ step, move.ravel(), atol=1e-14)

        def along(t, move=move):
            return function.value(layout.orthonormal(V + t * move))

        # Central differences of fourth order: h^4 times high derivatives, and rounding 1e-15 |f| / h^2 = 1e-9.
        h = 2e-3
        ahead, behind, far, back, here = along(h), along(-h), along(2 * h), along(-2 * h), along(0.0)
        first = (8 * (ahead - behind) - (far - back)) / (12 * h)
        second = (16 * (ahead + behind) - (far + back) - 30 * here) / (12 * h * h)
        scale = float(abs(system.matrix).max())
        assert 2 * (system.basis.T @ system.slope.ravel()) @ step == pytest.approx(first, abs=1e-6 * scale)
        assert 2 * step @ (system.matrix @ step) == pytest.approx(second, abs=1e-6 * scale)


def test_short_lengths_only_stiffen_the_misfit():
    V, B = cloud(5)
    misfit = Misfit(bands(sp.csr_array(B / 2), True))
    system = LengthProblem(misfit, points(len(V))).system(V)
    errors = misfit.bands.lengths(V) - 1
    assert errors.max() < 0
    true = (misfit.bands.differences.T @ sp.diags_array(errors) @ misfit.bands.differences).toarray()
    lowest = np.linalg.eigvalsh(system.matrix.toarray())[0]
    assert lowest > -1e-13 * float(abs(system.matrix).max())
    assert np.linalg.eigvalsh(true)[-1] < 1e-13


@pytest.mark.parametrize("kind", ["at most", "kept"])
def test_a_bent_step_keeps_lengths_on_their_linear_course(kind):
    function, layout, V = objective(kind, True, 6) if kind == "kept" else objective(kind, False, 6)
    system = LengthProblem(function, layout).system(V)
    factor = system.solve(10.0).factor
    move = layout.tangent(V, np.random.default_rng(7).normal(size=V.shape))
    move[layout.n_frame_rows :] -= move[layout.n_frame_rows :].mean(axis=0)

    def off_course(bent, t):
        there = layout.orthonormal(V + t * move + t * t * bent)
        B = function.bands.differences
        linear = function.bands.lengths(V) + 2 * t * ((B @ V) * (B @ move)).sum(axis=1)
        return function.bands.lengths(there) - linear

    weights = function.derivatives(V).weights
    bent = system.correction(NewtonStep(1e-3 * move, 0.0, factor)) / 1e-6
    # The bend lowers a weighted sum of squares, by less the more it is damped.
    t = 1e-3
    assert weights @ off_course(bent, t) ** 2 < 0.9 * (weights @ off_course(np.zeros_like(V), t) ** 2)


@pytest.mark.parametrize("kept", [False, True], ids=["at most", "kept"])
def test_a_chain_becomes_straight(kept):
    n = 12
    angles = np.linspace(0, 4, n)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    X -= X.mean(axis=0)
    lengths = np.linspace(0.5, 1.5, n - 1)
    given = bands(differences([(i, i + 1) for i in range(n - 1)], lengths, n), kept)
    found = stretch_out(Stretch.variance(n), given, points(n), X, StretchOptions(GAP, SLACK, 4), Run(0))
    ruler = np.concatenate([[0], np.cumsum(lengths * np.sqrt(given.upper))])
    most = float(np.square(ruler - ruler.mean()).sum())
    assert -found.certificate.objective == pytest.approx(most, rel=1e-5)
    assert found.certificate.gap < 1e-5
    sizes = np.linalg.svd(found.V, compute_uv=False)
    # A point within gap * most of the optimum in squares has other axes of its root at the most.
    assert sizes[1] < np.sqrt(1e-5 * most)


def test_the_forces_of_a_chain_are_those_of_a_pulled_rope():
    """At the optimum W V = B' F B V: the pull on a link is the sum of the points beyond it."""
    n = 8
    given = bands(differences([(i, i + 1) for i in range(n - 1)], np.ones(n - 1), n), False)
    X = np.random.default_rng(8).normal(size=(n, 2))
    found = stretch_out(Stretch.variance(n), given, points(n), X, StretchOptions(1e-8, SLACK, 3), Run(0))
    places = np.arange(n) - (n - 1) / 2
    np.testing.assert_allclose(found.multipliers, -np.cumsum(places)[:-1], rtol=1e-6)


def test_few_columns_are_not_called_optimal():
    X, B = cloud(9, n=12, space=6, k=4)
    given = bands(B, True)
    narrow = stretch_out(Stretch.variance(12), given, points(12), X[:, :1], StretchOptions(GAP, SLACK, 1), Run(0))
    best = reference(np.eye(12) - 1 / 12, given, points(12))
    assert narrow.certificate.gap > 1e-2
    assert narrow.error > 1e-3
    free = stretch_out(Stretch.variance(12), given, points(12), X, StretchOptions(GAP, SLACK, 11, 300), Run(0))
    agrees(free, best, given)
    rank = free.certificate.rank
    assert rank > 2
    cut = stretch_out(Stretch.variance(12), given, points(12), X[:, :2], StretchOptions(GAP, SLACK, 2), Run(0))
    assert cut.certificate.rank <= 2
    assert max(cut.certificate.gap, cut.error) > 1e-3


def test_sides_that_make_no_triangle_come_as_near_as_a_line_can():
    """Sides 1, 1, 3: the nearest squared lengths are of a flat triangle x, x, 2x, as the third may be twice at most.

    The least of 2 (x^2 - 1)^2 + (4 x^2 / 9 - 1)^2 is at x^2 = (2 + 4/9) / (2 + 16/81).
    """
    given = bands(differences([(0, 1), (1, 2), (0, 2)], [1, 1, 3], 3), True)
    start = np.random.default_rng(10).normal(size=(3, 2))
    found = stretch_out(Stretch.variance(3), given, points(3), start, StretchOptions(GAP, 1e-5, 2), Run(0))
    square = (2 + 4 / 9) / (2 + 16 / 81)
    lengths = given.lengths(found.V)
    # Lengths may leave the least by the half-width 1e-5 of their bands, and the least is found to its square root.
    np.testing.assert_allclose(lengths, [square, square, 4 * square / 9], atol=1e-3)
    errors = np.array([square - 1, square - 1, 4 * square / 9 - 1])
    assert found.error == pytest.approx(np.mean(errors**2), abs=1e-3)
    assert found.certificate.violation == 0.0  # inside the bands about the least errors


@pytest.mark.parametrize("kept", [False, True], ids=["at most", "kept"])
@pytest.mark.parametrize("steps", [1, 5, 30])
def test_a_stopped_stretch_is_inside_its_bands(kept, steps):
    X, B = cloud(11)
    seen = []

    def stop(progress):
        seen.append(progress)
        return len(seen) >= steps

    given = bands(B, kept)
    found = stretch_out(
        Stretch.variance(7), given, points(7), X, StretchOptions(1e-10, SLACK, 6), Run(0, callback=stop)
    )
    assert found.trace.stop is Stop.ASKED
    assert len(seen) <= steps + 5
    lengths = given.lengths(found.V)
    assert np.isfinite(found.V).all()
    assert lengths.max() < (2.0 if kept else 1.0)
    best = reference(np.eye(7) - 1 / 7, given, points(7))
    assert -found.certificate.bound >= best * (1 - 1e-6)


def test_upper_bounds_alone_are_refused_for_pieces_with_frames():
    layout, V, B, W = hinged(12)
    with pytest.raises(ValueError, match="individual points"):
        stretch_out(Stretch(sp.csr_array(W)), bands(B, False), layout, V, StretchOptions(), Run(0))


@pytest.mark.parametrize("framed", [False, True], ids=["points", "frames"])
def test_the_bound_is_the_least_dual_value_that_eigenvalues_allow(framed):
    """Twin: raise eta until A + Lambda + eta (B'B + I on frames) - W has no negative eigenvalue, by bisection."""
    function, layout, V = objective("kept", framed, 13)
    certificate = certify_stretch(function, layout, V, 0.0)
    B, W = function.bands.differences.toarray(), np.eye(layout.n_rows) - 1 / layout.n_rows
    if framed:
        W = function.stretch.matrix.toarray()
    above, below = function.multipliers(V)
    of_pairs = B.T @ np.diag(above - below) @ B
    frames = layout.multipliers(V, W @ V - of_pairs @ V).toarray()
    value = above @ function.bands.upper - below @ function.bands.lower + np.trace(frames)
    cost = function.bands.upper.sum() + layout.n_frame_rows
    on_frames = np.diag((np.arange(layout.n_rows) < layout.n_frame_rows).astype(float))

    def lowest(eta):
        return np.linalg.eigvalsh(of_pairs + frames + eta * (B.T @ B + on_frames) - W)[0]

    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if lowest(middle) > -1e-9 else (middle, high)
    dual = value + high * cost
    assert high * cost > 0.01 * value  # something is left to be raised
    assert -certificate.bound >= dual * (1 - 1e-6)
    assert -certificate.bound >= reference(W, function.bands, layout) * (1 - 1e-6)
    # The ladder of strengths has rungs a factor of sqrt 10 apart.
    assert -certificate.bound <= value + np.sqrt(10) * high * cost * (1 + 1e-6)


def of_smooth_directions(differences, kappa):
    """Return the matrix of most trace less ``kappa`` / 2 times the mean squared error of the lengths."""
    m = differences.shape[1]
    return _SmoothProblem(differences).follow(np.eye(m) / np.square(differences).mean() / m, kappa, 1e-7, Run(0))


def test_all_smooth_directions_give_the_whole_problem():
    _, B = cloud(14, n=8)
    Q = np.linalg.svd(np.eye(8) - 1 / 8)[0][:, :7]
    best = reference(
        np.eye(8) - 1 / 8, Bands(B, np.full(B.shape[0], 1 - 1e-6), np.full(B.shape[0], 1 + 1e-6)), points(8)
    )
    # A penalty's stretch is above the best by half the squared multipliers over its weight, its errors by their
    # whole: both fall as the weight grows.
    tight, loose = (of_smooth_directions(B @ Q, weight * best) for weight in (1e4, 1e3))
    lengths = np.einsum("em,mn,en->e", B @ Q, tight, B @ Q)
    assert np.linalg.eigvalsh(tight)[0] > 0
    assert np.trace(tight) == pytest.approx(best, rel=2e-2)
    assert abs(np.trace(tight) - best) < 0.2 * abs(np.trace(loose) - best)
    assert np.abs(lengths - 1).max() < 0.05


def test_fewer_directions_stretch_less():
    _, B = cloud(15, n=10)
    Q = np.linalg.svd(np.eye(10) - 1 / 10)[0][:, :9]
    values = []
    for m in (2, 4, 6, 9):
        P = of_smooth_directions(B @ Q[:, :m], 1e3)
        values.append(certify_basis(B @ Q[:, :m], P, 1e3, 1e-7).objective)
    assert (np.diff(values) < 1e-6 * abs(values[-1])).all()
    assert values[-1] < values[0]


def test_the_variance_lengthens_squared_distances_by_a_tenth():
    """Scaled by s, trace less penalty is s T - kappa / 2 mean (s l - 1)^2: at l = 1 largest where s = 1 + T / kappa."""
    line = np.full((12, 1), 0.5)
    P, kappa = smooth_stretch(line, Run(0), 1e-9)
    assert kappa == pytest.approx(4 / 0.1, rel=1e-6)
    assert P[0, 0] == pytest.approx(4 * 1.1, rel=1e-6)


def test_newton_steps_of_smooth_directions_are_those_of_finite_differences():
    rng = np.random.default_rng(21)
    problem, root = _SmoothProblem(rng.normal(size=(60, 5))), rng.normal(size=(5, 5))
    P = root @ root.T + np.eye(5)
    move, decrease = problem._newton(P, 0.3, 7.0)
    before, at, after = (problem._value(P + t * move, 0.3, 7.0) for t in (-1e-4, 0.0, 1e-4))
    # Along Newton's direction the first derivative is minus the second.
    assert (after - before) / 2e-4 == pytest.approx(-decrease, rel=1e-6)
    assert (after - 2 * at + before) / 1e-8 == pytest.approx(decrease, rel=1e-3)


def test_the_start_is_not_modified_and_the_seed_decides_alone():
    X, B = cloud(16)
    given, kept = bands(B, True), X.copy()
    first, second = (
        stretch_out(Stretch.variance(7), given, points(7), X, StretchOptions(1e-4, SLACK, 6), Run(0)) for _ in range(2)
    )
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(first.V, second.V)


def test_frames_cost_the_bound_what_their_multipliers_are_raised_by():
    """|R_1 + R_2|^2 of two frames of two rows is 8 where they agree, and 4 at right angles.

    There the frames' multipliers are I and the dual matrix has eigenvalues of -1: raised by 1 on all four rows, the
    multipliers prove 4 + 4. A short link from shift to shift adds little of its own, so that all this is the frames'.
    """
    layout = FrameLayout(np.array([2, 2]))
    V = np.vstack([np.eye(4), np.eye(4)[:2]])
    V[4:] *= np.sqrt(0.05)
    W = np.zeros((6, 6))
    W[:4, :4] = np.kron(np.ones((2, 2)), np.eye(2))
    link = sp.csr_array([[0.0, 0, 0, 0, 1, -1]])
    given = Bands(link, np.array([0.05]), np.array([0.15]))
    barrier = Barrier(Stretch(sp.csr_array(W)), given, 1e-9)
    best = reference(W, given, layout)
    assert best == pytest.approx(8, rel=1e-6)
    certificate = certify_stretch(barrier, layout, V, GAP)
    assert -certificate.objective == pytest.approx(4)
    assert -certificate.bound >= best * (1 - 1e-6)
    # The ladder of strengths has rungs a factor of sqrt 10 apart.
    assert -certificate.bound <= 4 + np.sqrt(10) * (4 + 0.15)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_of_any_multipliers_is_above_the_best(seed):
    """Frames and bands wherever they are: the bound is loose, and never below the best of an interior-point solver."""
    layout, V, B, W = hinged(seed, sizes=(1, 2, 3, 2))
    given = Bands(B, np.full(B.shape[0], 0.7), np.full(B.shape[0], 1.3))
    best = reference(W, given, layout)
    for nu in (1e-6, 1e-2, 1.0):
        certificate = certify_stretch(Barrier(Stretch(sp.csr_array(W)), given, nu), layout, V, GAP)
        assert -certificate.bound >= best * (1 - 1e-6)
        assert certificate.smallest is None


@pytest.mark.parametrize("seed", range(8))
def test_the_least_error_of_frames_is_bracketed(seed):
    """Links of wrong lengths between rigid pieces: the least error of a general solver is between bound and value."""
    layout, V, B, W = hinged(seed)
    wrong = np.random.default_rng([seed, 1]).uniform(0.5, 2.0, size=B.shape[0])
    given = bands(sp.csr_array(sp.diags_array(wrong) @ B), True)
    options = StretchOptions(GAP, SLACK, layout.n_rows - 1, 300)
    found = stretch_out(Stretch(sp.csr_array(W)), given, layout, V, options, Run(0)).error_certificate
    hard = identity_lengths(layout.sizes, layout.n_rows - 1)
    rows = np.vstack([hard, given.differences.toarray()[:, :-1]])  # the last shift is the origin
    ends = np.concatenate([np.ones(len(hard)), np.full(len(given), np.inf)])
    low = np.where(np.isfinite(ends), ends, -np.inf)
    best, _ = least(np.zeros((layout.n_rows - 1,) * 2), rows, low, ends, squared=(~np.isfinite(ends)).astype(float))
    best *= 2 / len(given)  # the mean of the squares
    # The solver's own tolerance is 1e-9, absolute where its optimum is small.
    assert found.bound <= best * (1 + 1e-6) + 1e-9
    assert found.objective >= best * (1 - 1e-6) - 1e-9
    # The bands' centers are found to a step's predicted decrease of 1e-10.
    assert found.gap < 1e-3
