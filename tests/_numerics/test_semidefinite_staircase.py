"""Rigid pieces placed at the global optimum: against an interior-point solver, and where paper knows the answer."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.semidefinite.certificate import lowest_directions
from manifoldry._numerics.semidefinite.frames import FrameLayout, tangent_basis
from manifoldry._numerics.semidefinite.newton import AugmentedLagrangian, DistanceConstraints, LagrangianProblem
from manifoldry._numerics.semidefinite.staircase import place


def ring(c):
    return [(i, (i + 1) % c) for i in range(c)]


def charts_of_space(seed, sizes):
    """Return the turns and origins of random charts of a space with as many dimensions as the largest."""
    rng = np.random.default_rng(seed)
    space = max(sizes)
    turns = [np.linalg.qr(rng.normal(size=(space, space)))[0][:, :size] for size in sizes]
    return turns, rng.normal(size=(len(sizes), space))


def puzzle(seed, sizes, pairs, noise=0.0, shared=6):
    """Return per pair the shared points of one figure in both charts, blurred by noise of its own in each."""
    turns, origins = charts_of_space(seed, sizes)
    rng = np.random.default_rng([seed, 1])
    ties = []
    for i, j in pairs:
        figure = rng.normal(size=(shared, max(sizes))) + (origins[i] + origins[j]) / 2
        charts = [(figure - origins[k]) @ turns[k] for k in (i, j)]
        ties.append((i, j, *(chart + noise * rng.normal(size=chart.shape) for chart in charts)))
    return ties


def form(ties, sizes):
    """Return Q row by row: each shared point adds the square of its two images' difference."""
    layout = FrameLayout(np.array(sizes))
    Q = np.zeros((layout.n_rows, layout.n_rows))
    for i, j, here, there in ties:
        rows = np.zeros((len(here), layout.n_rows))
        rows[:, layout.offsets[i] : layout.offsets[i + 1]] += here
        rows[:, layout.offsets[j] : layout.offsets[j + 1]] -= there
        rows[:, layout.n_frame_rows + i] += 1
        rows[:, layout.n_frame_rows + j] -= 1
        Q += rows.T @ rows / len(here)
    return sp.csr_array(Q)


def without_shifts(Q, sizes):
    k = int(np.sum(sizes))
    dense = Q.toarray()
    return dense[:k, :k] - dense[:k, k:] @ np.linalg.pinv(dense[k:, k:]) @ dense[k:, :k]


def stacked(placement, sizes):
    """Return the unknowns V of a placement."""
    frames = [frame[:size] for frame, size in zip(placement.frames, sizes, strict=True)]
    return np.vstack([*frames, placement.shifts])


def reference(C, sizes, distances=None):
    """Return min tr(A C), A positive semidefinite with identity blocks of the sizes, by an interior-point method.

    Rows of C beyond the blocks are free. The distances are differences of A's rows.
    """
    import clarabel

    n = len(C)
    column, row = np.tril_indices(n)  # the upper triangle, column by column
    entries = len(row)
    factor = np.where(row == column, 1.0, np.sqrt(2))
    block = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.arange(n) + len(sizes)])
    fixed = np.flatnonzero((block[row] == block[column]) & (column < sum(sizes)))
    rows = [sp.csc_matrix((np.ones(len(fixed)), (np.arange(len(fixed)), fixed)), shape=(len(fixed), entries))]
    right = [(row == column)[fixed].astype(float)]
    cones = [clarabel.ZeroConeT(len(fixed))]
    if distances is not None:
        B = distances.differences.toarray()
        squared = factor * B[:, row] * B[:, column]
        equal = ~(distances.upper | distances.lower)
        for chosen, sign, cone in [
            (equal, 1, clarabel.ZeroConeT),
            (distances.upper, 1, clarabel.NonnegativeConeT),
            (distances.lower, -1, clarabel.NonnegativeConeT),
        ]:
            rows.append(sp.csc_matrix(sign * squared[chosen]))
            right.append(sign * distances.squares[chosen])
            cones.append(cone(int(chosen.sum())))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(
        sp.csc_matrix((entries, entries)),
        factor * C[row, column],
        sp.csc_matrix(sp.vstack([*rows, -sp.eye(entries)])),
        np.concatenate([*right, np.zeros(entries)]),
        [*cones, clarabel.PSDTriangleConeT(n)],
        settings,
    ).solve()
    assert "Solved" in str(solution.status)
    return solution.obj_val


CASES = [
    *(([r] * c, seed) for r, c, seed in [(1, 4, 1), (1, 6, 2), (1, 8, 3), (2, 4, 4), (2, 5, 5), (2, 6, 6), (2, 7, 7)]),
    *(([r] * c, seed) for r, c, seed in [(2, 8, 8), (3, 4, 9), (3, 5, 10), (3, 6, 11), (3, 8, 12)]),
    *((sizes, seed) for sizes, seed in [([1, 2, 1, 2], 13), ([3, 2, 1, 2, 3], 14), ([2, 0, 2, 1, 2, 0], 15)]),
]


@pytest.mark.parametrize(("sizes", "seed"), CASES)
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_an_interior_point_solver_finds_the_same_optimum(sizes, seed, noise):
    c = len(sizes)
    Q = form(puzzle(seed, sizes, [*ring(c), (0, c // 2)], noise), sizes)
    found = place(Q, sizes, Run(0, 1))
    expected = reference(without_shifts(Q, sizes), sizes)
    certificate = found.certificate
    V = stacked(found, sizes)
    assert np.vdot(V, Q @ V) == pytest.approx(certificate.objective, rel=1e-12)
    # The solver's own tolerance is 1e-10 on gap and feasibility, magnified by the condition of small problems.
    assert certificate.objective == pytest.approx(expected, rel=1e-6)
    assert certificate.optimal
    assert certificate.bound <= certificate.objective
    assert certificate.bound <= expected * (1 + 1e-6)
    assert found.trace.stop is Stop.CONVERGED


def rank(placement, sizes):
    values = np.linalg.svd(stacked(placement, sizes)[: sum(sizes)], compute_uv=False)
    return int((values > 1e-6 * values[0]).sum())


def pair_error(here, there):
    """Return the least matching error of two pieces alone: tr C11 + tr C22 - 2 |C12|_*, by Theorem 1's proof."""
    here, there = here - here.mean(axis=0), there - there.mean(axis=0)
    nuclear = np.linalg.svd(here.T @ there, compute_uv=False).sum()
    return (np.square(here).sum() + np.square(there).sum() - 2 * nuclear) / len(here)


@pytest.mark.parametrize(("sizes", "seed"), [([3] * 5, 0), ([2] * 6, 1), ([3] * 5, 2), ([3] * 5, 4)])
def test_noisy_rings_may_need_more_dimensions_than_their_pieces(sizes, seed):
    found = place(form(puzzle(seed, sizes, ring(len(sizes)), 1.0), sizes), sizes, Run(0, 1))
    assert found.certificate.rank == rank(found, sizes) == sizes[0] + 1


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_two_pieces_come_to_lie_in_one_flat(r, noise):
    """Theorem 1: from a start in 2 r + 1 dimensions, whatever the noise, with as few as r + 1 shared points."""
    for seed, shared in enumerate((r + 1, r + 2, 12)):
        ties = puzzle(seed + 10, [r, r], [(0, 1)], noise, shared)
        Q = form(ties, [r, r])
        start = np.random.default_rng(seed).normal(size=(2 * r + 2, 2 * r + 1))
        found = place(Q, [r, r], Run(0, 1), start=start)
        best = pair_error(*ties[0][2:])
        # A gradient of 1e-11 leaves an error of its square over the least curvature: far below 1e-12 of the scale.
        assert found.certificate.objective == pytest.approx(best, abs=100 * found.certificate.noise)
        assert found.certificate.optimal
        images = [f @ frame + shift for f, frame, shift in zip(ties[0][2:], found.frames, found.shifts, strict=True)]
        union = np.concatenate(images)
        values = np.linalg.svd(union - union.mean(axis=0), compute_uv=False)
        assert (values > 1e-7 * values[0]).sum() == r


@pytest.mark.parametrize("r", [1, 2, 3])
def test_a_tree_of_pieces_has_the_rank_of_its_pieces_and_matches_pair_by_pair(r):
    rng = np.random.default_rng(r)
    c = 9
    pairs = [(int(rng.integers(i)), i) for i in range(1, c)]
    ties = puzzle(r + 20, [r] * c, pairs, 1.0)
    found = place(form(ties, [r] * c), [r] * c, Run(0, 1))
    assert found.certificate.rank == r
    assert found.certificate.optimal
    best = sum(pair_error(here, there) for _, _, here, there in ties)
    assert found.certificate.objective == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_exact_pieces_of_a_flat_figure_go_back_to_their_places(r):
    c = 12
    turns, origins = charts_of_space(r + 30, [r] * c)
    Q = form(puzzle(r + 30, [r] * c, [*ring(c), (0, 5), (3, 9)]), [r] * c)
    found = place(Q, [r] * c, Run(0, 1))
    assert found.certificate.rank == r
    common = np.stack(turns) @ found.frames
    np.testing.assert_allclose(common, np.broadcast_to(common[0], common.shape), atol=1e-9)
    np.testing.assert_allclose(common[0] @ common[0].T, np.eye(r), atol=1e-9)
    np.testing.assert_allclose(found.shifts - found.shifts[0], (origins - origins[0]) @ common[0], atol=1e-9)
    assert found.certificate.gap <= 1e-10


def paper_ring(n, reach, spread):
    """Return a ring of n segments: neighbors share the points reach +- spread of one, -reach +- spread of the next."""
    ends = np.array([[-spread], [spread]])
    return form([(i, j, reach + ends, -reach + ends) for i, j in ring(n)], [1] * n)


@pytest.mark.parametrize("n", [3, 5, 6, 7, 11])
def test_a_ring_of_segments_becomes_a_regular_polygon(n):
    r"""With the shifts eliminated K is circulant: eigenvalue 4 a^2 for equal directions, else 4 s^2 sin^2(pi k / n).

    The least, k = 1, has two eigenvectors and the directions (cos, sin)(2 pi i / n) reach it: n 4 s^2 sin^2(pi / n).
    Neighboring origins are then a (u_i + u_j) apart: on a circle of radius a cot(pi / n).
    """
    reach, spread = 1.0, 0.4
    found = place(paper_ring(n, reach, spread), [1] * n, Run(0, 1))
    best = 4 * n * spread**2 * np.sin(np.pi / n) ** 2
    assert found.certificate.objective == pytest.approx(best, rel=1e-12)
    assert found.certificate.optimal
    assert found.certificate.bound <= best
    directions = found.frames[:, 0]
    steps = 2 * np.pi * (np.arange(n)[:, None] - np.arange(n)) / n
    np.testing.assert_allclose(directions @ directions.T, np.cos(steps), atol=1e-8)
    away = np.linalg.norm(found.shifts - found.shifts.mean(axis=0), axis=1)
    np.testing.assert_allclose(away, reach / np.tan(np.pi / n), rtol=1e-8)


def test_a_ring_of_segments_that_overlap_widely_folds_to_a_line():
    """Of the circulant's eigenvalues 4 a^2 is the least: all directions equal, n 4 a^2."""
    n, reach, spread = 5, 0.1, 1.0
    found = place(paper_ring(n, reach, spread), [1] * n, Run(0, 1))
    assert found.certificate.objective == pytest.approx(4 * n * reach**2, rel=1e-12)
    assert found.certificate.rank == 1
    assert found.certificate.optimal


@pytest.mark.parametrize("n", [5, 8, 11])
def test_a_certificate_tells_what_too_few_dimensions_cost(n):
    spread = 0.4
    best = 4 * n * spread**2 * np.sin(np.pi / n) ** 2
    flat = place(paper_ring(n, 1.0, spread), [1] * n, Run(0, 1), max_rank=1).certificate
    assert flat.rank == 1
    assert flat.objective > 1.1 * best
    assert not flat.optimal
    assert flat.bound <= best
    assert flat.gap >= (flat.objective - best) / abs(flat.objective)


def test_a_certificate_is_honest_where_the_dual_comes_from_iterations():
    """A ring of 160 segments has more unknowns than LAPACK is asked for."""
    n, spread = 160, 0.4
    Q = paper_ring(n, 1.0, spread)
    best = 4 * n * spread**2 * np.sin(np.pi / n) ** 2
    flat = place(Q, [1] * n, Run(0, 1), max_rank=1).certificate
    assert flat.objective > best
    assert flat.bound <= best
    whole = place(Q, [1] * n, Run(0, 1)).certificate
    # The gap is measured in units of the problem's scale, n (a^2 + s^2), of which the objective is 1e-5.
    assert whole.objective == pytest.approx(best, abs=1e4 * whole.noise)
    assert whole.optimal


@pytest.mark.parametrize(("rows", "frames"), [(300, 60), (0, 60), (0, 0)])
def test_lowest_directions_are_eigenvectors_with_the_shifts_at_their_best(rows, frames, monkeypatch):
    monkeypatch.setattr("manifoldry._numerics.semidefinite.certificate.MAX_LAPACK_ROWS", rows)
    monkeypatch.setattr("manifoldry._numerics.semidefinite.certificate.MAX_LAPACK_FRAME_ROWS", frames)
    sizes = [2] * 12
    Q = form(puzzle(40, sizes, [*ring(12), (0, 6)], 0.5), sizes)
    layout = FrameLayout(np.array(sizes))
    none = sp.csc_array(Q.shape)
    values, directions = lowest_directions(sp.csc_array(Q), layout, 1.0, none, 3)
    expected = np.linalg.eigvalsh(without_shifts(Q, sizes))
    np.testing.assert_allclose(values, expected[:3], atol=1e-9 * expected[-1])
    wanted = np.zeros_like(directions)
    wanted[:24] = directions[:24] * values
    # The first shift is held at the origin: what is left of its row is what holding it costs, nothing.
    np.testing.assert_allclose(Q @ directions, wanted, atol=1e-8 * expected[-1])


def held(seed, sizes, columns):
    """Return a Lagrangian with kept and bounded distances, and frames and shifts to try it at."""
    layout = FrameLayout(np.array(sizes))
    rng = np.random.default_rng(seed)
    Q = form(puzzle(seed, sizes, ring(len(sizes)), 0.5), sizes)
    B = sp.csr_array(rng.normal(size=(5, layout.n_rows)))
    V = layout.orthonormal(rng.normal(size=(layout.n_rows, columns)))
    squares = np.square(B @ V).sum(axis=1) * np.array([0.5, 1.5, 0.8, 0.7, 1.4])
    squares[1] = 0.0
    # Two bounds that press and one that does not, each far from where it would change its mind.
    distances = DistanceConstraints(B, squares, np.array([False, False, True, True, True]))
    return AugmentedLagrangian(Q, distances, np.array([0.3, -0.2, 0.4, 0.1, 0.2]), 2.0), layout, V


@pytest.mark.parametrize(("sizes", "columns"), [([2, 2, 2, 2], 3), ([1, 3, 0, 2], 4), ([1, 1, 1], 1), ([2, 2, 2], 2)])
def test_moves_are_orthonormal_complete_and_leave_frames_orthonormal(sizes, columns):
    _, layout, V = held(50, sizes, columns)
    basis = tangent_basis(layout, V).toarray()
    per_piece = [size * columns - size * (size + 1) // 2 + columns for size in sizes]
    assert basis.shape == (layout.n_rows * columns, sum(per_piece))
    np.testing.assert_allclose(basis.T @ basis, np.eye(sum(per_piece)), atol=1e-14)
    for move in basis.T.reshape(-1, *V.shape):
        np.testing.assert_allclose(layout.tangent(V, move), move, atol=1e-14)
    Z = np.random.default_rng(51).normal(size=V.shape)
    # The projection onto the moves written twice: by blocks and by the basis.
    np.testing.assert_allclose(layout.tangent(V, Z).ravel(), basis @ (basis.T @ Z.ravel()), atol=1e-13)


@pytest.mark.parametrize(("sizes", "columns"), [([2, 2, 2, 2], 3), ([1, 3, 0, 2], 4), ([2, 2, 2], 2)])
def test_slopes_and_newton_steps_are_those_of_finite_differences(sizes, columns):
    lagrangian, layout, V = held(60, sizes, columns)
    multipliers = lagrangian.next_multipliers(V)
    assert multipliers[4] == 0
    assert (multipliers[2:4] > 0).all()
    slope = layout.tangent(V, lagrangian.matrix(multipliers) @ V)
    problem = LagrangianProblem(lagrangian, layout, V)
    system, unit = problem.system(V), problem.unit
    assert system.gradient_norm == np.abs(slope).max()
    # The first damping of these that makes the matrix positive definite.
    damping = next(damping for damping in (0.1, 1.0, 10.0) if system.solve(damping) is not None)
    move, decrease, _ = system.solve(damping)

    def moved(z):
        return lagrangian.value(layout.orthonormal(V + z))

    rng = np.random.default_rng(61)
    h = 1e-4
    for _ in range(5):
        x = layout.tangent(V, rng.normal(size=V.shape))
        bound = unit * np.linalg.norm(x)
        # Central differences err by h^2 times higher derivatives, and by rounding: eps / h for first, eps / h^2 for
        # second ones, which are mixed here: along the step and along x.
        assert (moved(h * x) - moved(-h * x)) / (2 * h) == pytest.approx(2 * np.vdot(slope, x), abs=1e-5 * bound)
        bent = (moved(h * (move + x)) - moved(h * (move - x)) - moved(h * (x - move)) + moved(-h * (move + x))) / 4
        expected = -2 * np.vdot(slope, x) - 2 * damping * unit * np.vdot(move, x)
        assert bent / h**2 == pytest.approx(expected, abs=1e-4 * bound)
    assert decrease == pytest.approx(-2 * np.vdot(slope, move), rel=1e-10)
    assert decrease > 0


@pytest.mark.parametrize("seed", [3, 5, 11])
def test_steps_by_conjugate_gradients_lead_to_the_same_optimum(seed, monkeypatch):
    sizes = [2] * 7
    Q = form(puzzle(seed, sizes, [*ring(7), (0, 3)], 1.0), sizes)
    factored = place(Q, sizes, Run(0, 1)).certificate
    monkeypatch.setattr("manifoldry._numerics.semidefinite.newton.MAX_FACTORED_ROW", 0)
    iterated = place(Q, sizes, Run(0, 1)).certificate
    assert iterated.optimal
    assert iterated.objective == pytest.approx(factored.objective, rel=1e-9)


def test_the_optimum_scales_with_the_form_and_ignores_the_order_of_pieces():
    sizes = np.array([2, 1, 3, 2, 2])
    ties = puzzle(70, sizes, [*ring(5), (0, 2)], 0.7)
    once = place(form(ties, sizes), sizes, Run(0, 1)).certificate
    for factor in (1e-6, 1e6):
        scaled = place(factor * form(ties, sizes), sizes, Run(0, 1)).certificate
        assert scaled.objective == pytest.approx(factor * once.objective, rel=1e-9)
        assert scaled.optimal
    longer = [(i, j, 10 * here, 10 * there) for i, j, here, there in ties]
    assert place(form(longer, sizes), sizes, Run(0, 1)).certificate.objective == pytest.approx(
        100 * once.objective, rel=1e-9
    )
    order = np.array([3, 0, 4, 2, 1])
    place_of = np.argsort(order)
    moved = [(place_of[i], place_of[j], here, there) for i, j, here, there in ties]
    permuted = place(form(moved, sizes[order]), sizes[order], Run(0, 1)).certificate
    assert permuted.objective == pytest.approx(once.objective, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_any_start_leads_to_the_same_optimum(seed):
    sizes = [2] * 6
    Q = form(puzzle(80, sizes, [*ring(6), (1, 4)], 1.0), sizes)
    best = place(Q, sizes, Run(0, 1)).certificate
    start = np.random.default_rng(seed).normal(size=(18, 2 + seed))
    found = place(Q, sizes, Run(0, 1), start=start).certificate
    assert found.optimal
    # Both are proven to be within 1e-8 of the scale of the best.
    assert found.objective == pytest.approx(best.objective, abs=1e6 * best.noise)


@pytest.mark.parametrize("steps", [0, 2])
def test_a_placement_stopped_early_is_feasible_and_its_bound_holds(steps):
    sizes = [2] * 7
    Q = form(puzzle(90, sizes, [*ring(7), (0, 3)], 1.5), sizes)
    best = place(Q, sizes, Run(0, 1)).certificate
    found = place(Q, sizes, Run(0, 1, callback=lambda progress: progress.done >= steps))
    assert found.trace.stop is Stop.ASKED
    grams = found.frames @ found.frames.transpose(0, 2, 1)
    np.testing.assert_allclose(grams, np.broadcast_to(np.eye(2), grams.shape), atol=1e-14)
    assert found.certificate.bound <= best.objective <= found.certificate.objective
    assert found.trace.n_iter == steps


def test_the_energy_falls_from_step_to_step():
    sizes = [3] * 6
    Q = form(puzzle(91, sizes, [*ring(6), (0, 3)], 1.5), sizes)
    path = place(Q, sizes, Run(0, 1), start=np.random.default_rng(0).normal(size=(24, 3))).trace.objective
    assert len(path) > 3
    assert (np.diff(path) <= 1e-12 * path[0]).all()


def test_single_pieces_and_single_points_are_placements_too():
    alone = place(sp.csr_array((3, 3)), [2], Run(0, 1))
    np.testing.assert_allclose(alone.frames[0] @ alone.frames[0].T, np.eye(2), atol=1e-15)
    assert alone.certificate.objective == 0
    assert alone.certificate.optimal
    path = np.diff(np.eye(400), axis=0)
    for points in (1, 3, 400):
        Q = sp.csr_array(path[: points - 1, :points].T @ path[: points - 1, :points])
        together = place(Q, [0] * points, Run(0, 1))
        assert together.shifts.shape == (points, 0)  # all in one place, which needs no dimension
        assert together.certificate.objective == 0


def test_few_pieces_among_many_points():
    sizes = [2, *[0] * 320, 2]
    ties = puzzle(95, sizes, [*ring(322), (0, 321)], 0.3)
    found = place(form(ties, sizes), sizes, Run(0, 1)).certificate
    assert found.optimal
    assert found.objective == pytest.approx(reference(without_shifts(form(ties, sizes), sizes), [2, 2]), rel=1e-6)


def test_pieces_without_a_tie_are_refused_at_once():
    sizes = [2] * 4
    with pytest.raises((RuntimeError, ValueError)):
        place(form(puzzle(1, sizes, [(0, 1), (2, 3)], 0.1), sizes), sizes, Run(0, 1))


def pulled_apart(n):
    """Return minus the sum of squared distances from the mean."""
    return sp.csr_array(1 / n - np.eye(n))


@pytest.mark.parametrize("upper", [False, True])
def test_a_chain_of_points_pulled_apart_is_straight(upper):
    lengths = np.array([1.0, 2.0, 3.0, 4.0])
    links = sp.csr_array(-np.diff(np.eye(5), axis=0))
    distances = DistanceConstraints(links, lengths**2, np.full(4, upper))
    start = np.random.default_rng(1).normal(size=(5, 2))
    found = place(pulled_apart(5), [0] * 5, Run(0, 1), start=start, distances=distances)
    assert found.certificate.violation <= 1e-6
    stretched = np.concatenate([[0], np.cumsum(lengths)])
    # Squared lengths hold to 1e-6, which the whole spread inherits.
    assert found.certificate.objective == pytest.approx(-np.square(stretched - stretched.mean()).sum(), rel=2e-6)


@pytest.mark.parametrize("n", [5, 7])
def test_a_ring_of_points_pulled_apart_is_a_regular_polygon(n):
    links = sp.csr_array(np.eye(n) - np.roll(np.eye(n), 1, axis=1))
    distances = DistanceConstraints(links, np.ones(n), np.zeros(n, dtype=bool))
    start = np.random.default_rng(n).normal(size=(n, 3))
    found = place(pulled_apart(n), [0] * n, Run(0, 1), start=start, distances=distances)
    assert found.certificate.objective == pytest.approx(-n / (4 * np.sin(np.pi / n) ** 2), rel=2e-6)
    away = np.linalg.norm(found.shifts - found.shifts.mean(axis=0), axis=1)
    # The spread is flat around the polygon, so its shape is known to the root of the tolerance.
    np.testing.assert_allclose(away, 1 / (2 * np.sin(np.pi / n)), rtol=3e-3)


@pytest.mark.parametrize("upper", [False, True])
def test_rigid_pieces_on_a_string_are_pulled_straight(upper):
    """Two triangles held by a string between corners: their origins end corner + string + corner apart."""
    corners = np.array([[0.6, 0.8], [-0.5, 1.2]])
    Q = np.zeros((6, 6))
    Q[4:, 4:] = [[-1, 1], [1, -1]]
    string = sp.csr_array(np.array([[*corners[0], *(-corners[1]), 1.0, -1.0]]))
    distances = DistanceConstraints(string, np.array([2.25]), np.array([upper]))
    start = np.random.default_rng(3).normal(size=(6, 3))
    found = place(sp.csr_array(Q), [2, 2], Run(0, 1), start=start, distances=distances)
    apart = np.linalg.norm(corners, axis=1).sum() + 1.5
    assert found.certificate.objective == pytest.approx(-(apart**2), rel=2e-6)
    assert found.certificate.violation <= 1e-6
    assert found.certificate.bound <= -(apart**2) * (1 - 2e-6)
    grams = found.frames @ found.frames.transpose(0, 2, 1)
    np.testing.assert_allclose(grams, np.broadcast_to(np.eye(2), grams.shape), atol=1e-14)


@pytest.mark.parametrize(("sizes", "seed"), [([2] * 5, 5), ([1] * 6, 2), ([3] * 4, 3), ([2, 1, 0, 2, 1], 4)])
def test_an_interior_point_solver_keeps_the_same_distances(sizes, seed):
    """Points of different pieces kept at, below and above distances that the best placement does not have."""
    layout, rng = FrameLayout(np.array(sizes)), np.random.default_rng([seed, 7])
    Q = form(puzzle(seed, sizes, [*ring(len(sizes)), (0, 2)], 0.7), sizes)
    B = np.zeros((6, layout.n_rows))
    for row in B:
        for piece, sign in zip(rng.choice(len(sizes), 2, replace=False), (1, -1), strict=True):
            row[layout.offsets[piece] : layout.offsets[piece + 1]] = rng.normal(size=sizes[piece])
            row[layout.n_frame_rows + piece] = sign
    free = stacked(place(Q, sizes, Run(0, 1)), sizes)
    squares = np.square(B @ free).sum(axis=1) * [1.3, 0.8, 0.8, 1.2, 1.3, 0.8]
    upper, lower = np.array([0, 0, 1, 1, 0, 0], dtype=bool), np.array([0, 0, 0, 0, 1, 1], dtype=bool)
    found = place(
        Q, sizes, Run(0, 1), distances=DistanceConstraints(sp.csr_array(B), squares, upper, lower)
    ).certificate
    # The first shift stays at the origin, or the reference could move all pieces at no cost.
    held = np.delete(np.arange(layout.n_rows), layout.n_frame_rows)
    kept = DistanceConstraints(sp.csr_array(B[:, held]), squares, upper, lower)
    expected = reference(Q.toarray()[np.ix_(held, held)], sizes, kept)
    assert found.violation <= 1e-6
    # Errors of 1e-6 in the squares change the optimum by as much, relative to it.
    assert found.objective == pytest.approx(expected, rel=1e-5)
    assert found.bound <= expected * (1 + 1e-6)
    assert found.optimal
    free_objective = float(np.vdot(free, Q @ free))
    assert found.objective > 1.001 * free_objective


def test_distances_that_cannot_be_kept_are_reported_and_not_certified():
    """A triangle with sides 1, 1 and 3."""
    sides = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, -1.0]])
    distances = DistanceConstraints(sp.csr_array(sides), np.array([1.0, 1.0, 9.0]), np.zeros(3, dtype=bool))
    start = np.random.default_rng(1).normal(size=(3, 2))
    found = place(sp.csr_array(sides.T @ sides), [0] * 3, Run(0, 1), start=start, distances=distances)
    # With 2 sqrt(1 + e) >= 3 sqrt(1 - e) no triangle misses a square by less than e = 5 / 13, relative to it.
    assert found.certificate.violation >= 5 / 13 - 1e-12
    assert not found.certificate.optimal
    assert np.isfinite(found.shifts).all()
