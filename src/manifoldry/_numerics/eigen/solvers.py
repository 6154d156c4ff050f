"""Solvers for the lowest pairs of a pencil, tried in turn until the residuals are small enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from manifoldry._core.csgraph import breadth_first_order
from manifoldry._core.memory import available_memory
from manifoldry._core.run import Run, blas_threads_for, one_blas_thread
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.eigen.davidson import (
    Ritz,
    Tolerance,
    davidson,
    polynomial,
    rayleigh_ritz,
    subtract_projection,
    thin_q,
)
from manifoldry._numerics.eigen.fronts import Factor, Fronts
from manifoldry._numerics.eigen.pencil import SYMMETRIC_MODE, BlockOperator, Pencil
from manifoldry._numerics.eigen.two_level import two_level

Solver = Callable[[Pencil, Ritz, int, Tolerance, Run], Ritz | None]
"""Improves the best Ritz pairs so far; returns None if it does not apply to the pencil."""
MAX_LAPACK_SIZE = 400
"""Maximum order at which LAPACK, which cannot fail, is tried first: 450 takes 10 ms, as long as a Krylov method."""
MAX_LAPACK_RATIO = 50  # LAPACK is also used if the order is at most this many times k: a Krylov basis would be as large
N_GUARD_VECTORS = 2  # additional vectors in the block; the last of a block converges slowest
MIN_DENSE_BLOCK = 8
"""Minimum block size for a dense A: a product costs 8 columns little more than 4 (n = 10,000: 47 and 41 ms)."""
RELATIVE_SHIFT = 1e-15
"""Distance of the shift from the spectrum, relative to the norm: just above rounding. The second eigenvalue of the
alignment matrix of a roll is 5e-13 of the norm (n = 50,000)."""
MAX_LEVEL_WIDTH = 6000
"""Maximum width w of a breadth-first level for a sparse factorization, which takes about 2 w^3 / 6e9 s: a minute."""
MIN_FRONTS_SIZE, ALWAYS_FRONTS_SIZE, NARROW_LEVEL_WIDTH = 10_000, 50_000, 1000
"""Order from which a definite sparse matrix is factored by fronts, which threads share. They compile for 17 s at their
first use, so that up to the second order one with narrow levels is left to SuperLU, which takes less than a second."""
TWO_LEVEL_OPERATIONS, POLYNOMIAL_OPERATIONS = 10_000, 120_000
"""Operations of a factorization, 2e10 a second, in the time that other solvers take per entry: two levels a third of a
microsecond to one for Laplacians, and the polynomial 1 to 9 for alignment matrices (10,000 to 40,000 images of 50
columns, and points of a cube)."""
POLYNOMIAL_FIRST_OPERATIONS = 30_000
"""Predicted operations per entry from which the polynomial is tried before a factorization: 5,000 images in 50 columns
take LLE 0.4 instead of 1.5 s, LTSA 0.1 instead of 1.7 s; points of a cube have narrower levels."""
SUPERLU_OPERATIONS = 20_000  # the same for SuperLU and Laplacians, of w^3 operations for levels of w points
MAX_RAISED_PIVOTS = 16  # more pivots at or below rounding mean that the matrix is not definite
MAX_SPARSE_FILL, MAX_DENSE_SHIFT_INVERT_SIZE = 0.6, 10_000
"""A sparse matrix whose predicted factor has a larger share of nonzeros is factored as dense, up to this order."""
BYTES_PER_ENTRY = 24  # Memory of an entry of L and of its transpose in U: two numbers and two row indices
FIRST_KRYLOV_STEPS, FIRST_KRYLOV_STEPS_SPARSE, LAST_KRYLOV_STEPS = 60, 4, 1000
"""Maximum block Lanczos steps: first, first at the low end of a sparse matrix (to estimate the norm), and last."""
MAX_SHIFT_INVERT_STEPS = 40  # maximum number of steps with a factor; up to 25 were needed
TWO_LEVEL_FIRST_TOL = 1e-6
"""Tolerance from which two levels are tried first (70,000 images: 0.2 instead of 1.3 s by algebraic multigrid)."""
FACTOR_OPERATIONS_PER_SECOND = 3e9
"""Speed for the w^3 operations of a sparse factor with a widest level of w points, as above."""
MAX_FACTOR_HOURS = 1.0  # longest predicted factorization that is started by a method that cannot do without it
N_FIRST_SOLVES = 6  # of a random block; each saves a step, which takes twice its time
RANDOM_ROWS = 16_384  # rows of a random block that a task draws
MAX_SHIFTS = 3  # maximum number of factorizations, each with a shift nearer to the spectrum


def lowest(pencil: Pencil, k: int, tolerance: Tolerance, run: Run) -> tuple[Ritz, str]:
    """Return the k lowest pairs by solvers tried in turn, each from the best block so far, and the last one's name."""
    sequence = _solver_sequence(pencil, k, tolerance)
    best = _NOTHING if sequence[0][1] is _lapack else _random_start(pencil, k, tolerance, run)
    name, tried = "", []
    # Blocks of a few columns are small for BLAS however many rows they have; only LAPACK may get more threads.
    with one_blas_thread():
        for title, solver in sequence:
            ritz = solver(pencil, best, k, tolerance, run)
            if ritz is None:
                continue
            tried.append(title)
            done = ritz.settled and ritz.error(k) <= tolerance.accept
            if done or ritz.error(k) < best.error(k) or not name:
                best, name = ritz, title
                pencil.recalled.block = best.vectors
            if done:
                return best, name
    if best.error(k) <= max(tolerance.accept, tolerance.tolerable):
        return best, name
    raise np.linalg.LinAlgError(
        f"No eigenpairs with relative residuals below {tolerance.accept:.0e} were found by "
        f"{', '.join(tried)}; the best had {best.error(k):.1e}: raise tol to that, or ask for fewer pairs."
    )


_NOTHING = Ritz(np.empty(0), np.empty((0, 0)), np.empty(0), 0.0)  # what LAPACK begins with


def _random_start(pencil: Pencil, k: int, tolerance: Tolerance, run: Run) -> Ritz:
    """Return the block that an iteration begins with: random, or the last one of an earlier call."""
    min_width = 1 if pencil.sparse else MIN_DENSE_BLOCK
    width = min(max(k + N_GUARD_VECTORS, min_width), pencil.n - pencil.known.shape[1])
    start = np.concatenate(run.map(partial(_random_rows, width), run.ranges(pencil.n, RANDOM_ROWS)))
    if pencil.recalled.block is not None:
        near = pencil.recalled.block[:, :width]
        start[:, : near.shape[1]] = near
    norm = 0.0 if np.isinf(tolerance.angle) else pencil.dominant_norm()  # rough vectors follow from the first steps
    start = _orthonormal(start, pencil, run) if norm else start
    return Ritz(np.zeros(width), start, np.full(width, np.inf), norm)


def _orthonormal(block: FloatArray, pencil: Pencil, run: Run) -> FloatArray:
    return thin_q(block, run, pencil.known, lambda part, _: part)[0]


def _random_rows(width: int, lo: int, hi: int) -> FloatArray:
    """Return normal numbers for the rows lo to hi, by a generator of their own."""
    return np.random.Generator(np.random.Philox(key=lo)).standard_normal((hi - lo, width))


def _solver_sequence(pencil: Pencil, k: int, tolerance: Tolerance) -> list[tuple[str, Solver]]:
    """Return the solvers that apply to a pencil, cheapest first."""
    if pencil.n <= max(MAX_LAPACK_SIZE, MAX_LAPACK_RATIO * k) and _fits_dense(pencil):
        return [("lapack", _lapack)]
    first = FIRST_KRYLOV_STEPS_SPARSE if pencil.sparse and pencil.sign > 0 else FIRST_KRYLOV_STEPS
    solvers: list[tuple[str, Solver]] = [
        ("krylov", partial(_krylov, steps=first)),
        ("shift-invert", _shift_invert),
        ("polynomial", polynomial),
        ("two-level", two_level),
    ]
    if tolerance.aim >= TWO_LEVEL_FIRST_TOL:
        solvers = [solvers[3], solvers[0], solvers[2], solvers[1]]
    elif pencil.is_laplacian:
        solvers = [*solvers[:2], solvers[3], solvers[2]]
    elif pencil.sparse and pencil.sign > 0 and pencil.n < ALWAYS_FRONTS_SIZE:
        if predicted_fill(pencil.pattern())[1] ** 3 > POLYNOMIAL_FIRST_OPERATIONS * pencil.A.nnz:
            solvers = [solvers[0], solvers[2], solvers[1], solvers[3]]
    return [*solvers, ("krylov", partial(_krylov, steps=LAST_KRYLOV_STEPS)), ("lapack", _lapack)]


def _fits_dense(pencil: Pencil) -> bool:
    return pencil.n <= MAX_LAPACK_SIZE or 24 * pencil.n**2 <= available_memory() / 2


def _krylov(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run, *, steps: int) -> Ritz | None:
    """Block Lanczos: products with A only; not to estimate a norm that is known."""
    if steps == FIRST_KRYLOV_STEPS_SPARSE and best.norm > 0:
        return None
    return davidson(pencil, best, k, lambda R: R, steps, tolerance, run)


def _shift_invert(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Block Lanczos on the inverse of A - sigma B, with sigma just below the spectrum."""
    sigma, factor, inverse = pencil.recalled.inverse or (_shift(best), _factor(pencil, run), None)
    if factor is None:
        return None
    for _ in range(MAX_SHIFTS):
        inverse = inverse or _inverse(pencil, sigma, best.norm, factor, run)
        if inverse is None:
            return None
        pencil.recalled.inverse = sigma, factor, inverse
        if np.isinf(best.residuals).all():  # random vectors: first without most of what is far from the spectrum's end
            for _ in range(N_FIRST_SOLVES):
                subtract_projection(best.vectors, pencil.known, run)
                best = replace(best, vectors=_orthonormal(inverse(best.vectors), pencil, run))
            if not np.isfinite(best.vectors).all():
                return None
        best = davidson(pencil, best, k, inverse, MAX_SHIFT_INVERT_STEPS, tolerance, run)
        closer = float(best.values[0] - best.residuals[0]) - RELATIVE_SHIFT * best.norm
        if best.settled or best.values[k - 1] - closer > 0.5 * (best.values[k - 1] - sigma):
            break
        sigma, inverse = closer, None
        pencil.recalled.inverse = None  # its memory is for the next one
    return best


def _shift(best: Ritz) -> float:
    """Return a shift just below the spectrum; a matrix without negative Ritz values is taken to be semidefinite."""
    semidefinite = best.values[0] >= -RELATIVE_SHIFT * best.norm
    bound = 0.0 if semidefinite else float(best.values[0] - best.residuals[0])
    return bound - RELATIVE_SHIFT * best.norm


def _inverse(pencil: Pencil, sigma: float, norm: float, factor: str | Fronts, run: Run) -> BlockOperator | None:
    """Return the map U -> C' (A - sigma B)^-1 C U; a factorization that fails is tried with a larger shift."""
    root = pencil.root
    for wider in (0.0, 100.0, 1e4):
        shift = sigma - wider * RELATIVE_SHIFT * norm
        try:
            if isinstance(factor, Fronts):
                solve = _front_solve(pencil, factor, shift, RELATIVE_SHIFT * norm, run)
            else:
                K = pencil.shifted(shift)
                solve = splu(K, **SYMMETRIC_MODE).solve if factor == "sparse" else _dense_solve(K)
        except (RuntimeError, MemoryError):  # SuperLU: exactly singular, or out of memory after all
            continue
        return lambda U: root * solve(root * U)
    return None


def _front_solve(pencil: Pencil, fronts: Fronts, shift: float, floor: float, run: Run) -> BlockOperator:
    """Return the solve of a factorization by fronts; raise RuntimeError if the matrix is not definite."""
    diagonal = np.full(pencil.n, -shift) if pencil.masses is None else -shift * pencil.masses
    factor = Factor.of(fronts, pencil.A, diagonal, floor, run)
    if factor.raised > MAX_RAISED_PIVOTS:
        raise RuntimeError
    return factor.solve


def _dense_solve(K: Any) -> BlockOperator:
    """Return the solve of a dense factorization: Cholesky, half the work, where K is numerically definite, else LU."""
    full = K.toarray() if sp.issparse(K) else K
    with blas_threads_for(len(full)):
        try:
            return partial(scipy.linalg.cho_solve, scipy.linalg.cho_factor(full, lower=True))
        except np.linalg.LinAlgError:
            return partial(scipy.linalg.lu_solve, scipy.linalg.lu_factor(full, overwrite_a=True))


def _factor(pencil: Pencil, run: Run) -> str | Fronts | None:
    """Return the factorization that fits in memory and time: by fronts, "sparse", "dense" or None."""
    if pencil.matrix_free:
        return None
    always = pencil.n >= ALWAYS_FRONTS_SIZE
    entries, widest = predicted_fill(pencil.pattern()) if pencil.sparse and not always else (0, 0)
    wide = widest > NARROW_LEVEL_WIDTH and pencil.n >= MIN_FRONTS_SIZE
    if pencil.is_laplacian and pencil.n < MIN_FRONTS_SIZE and widest**3 > SUPERLU_OPERATIONS * pencil.A.nnz:
        return None  # to two levels
    if pencil.sparse and pencil.sign > 0 and (wide or always):
        entries = pencil.A.nnz if pencil.factor is None else 2 * pencil.factor.nnz  # of the products of the others
        most = entries * (TWO_LEVEL_OPERATIONS if pencil.is_laplacian else POLYNOMIAL_OPERATIONS)
        fronts = Fronts.of(pencil.A, most, run, pencil.recalled.groups)
        if fronts is None or fronts.operations > most or fronts.memory > (available := available_memory()) / 2:
            return None
        run.announce("matrix factor", fronts.memory, available=available)
        return fronts
    choice, needed = "dense", 16 * pencil.n**2
    if pencil.sparse:
        if not widest:
            entries, widest = predicted_fill(pencil.pattern())
        if entries <= MAX_SPARSE_FILL * pencil.n**2 / 2:
            choice, needed = "sparse", BYTES_PER_ENTRY * entries
        if pencil.n > MAX_DENSE_SHIFT_INVERT_SIZE and (choice == "dense" or widest > MAX_LEVEL_WIDTH):
            return None
    if needed > (available := available_memory()) / 2:
        return None
    run.announce("matrix factor", needed, available=available)
    return choice


def will_dissect(pencil: Pencil, tolerance: Tolerance) -> bool:
    """Return whether a sparse pencil will be dissected, whatever its separators."""
    return pencil.n >= ALWAYS_FRONTS_SIZE and pencil.sign > 0 and tolerance.aim < TWO_LEVEL_FIRST_TOL


def announce_factor(pattern: Any, run: Run, instead: str) -> None:
    """Announce the memory of a sparse factor; raise an error if it is not available or factoring would take hours."""
    entries, widest = predicted_fill(pattern)
    run.announce("matrix factor", BYTES_PER_ENTRY * entries, instead)
    hours = widest**3 / FACTOR_OPERATIONS_PER_SECOND / 3600
    if hours > MAX_FACTOR_HOURS:
        raise ValueError(
            f"The neighbor graph of {pattern.shape[0]:,} points has no small separators (the widest ring of neighbors "
            f"about a point has {widest:,}), and factoring its matrix would take about {hours:.2g} hours: {instead}."
        )


def predicted_fill(pattern: Any) -> tuple[int, int]:
    """Return an upper estimate of the nonzeros of a sparse factor, and the widest breadth-first level w.

    Levels as separators fill at most the sum of w_i w_{i+1} + w_i^2 / 2, nested dissection (george1973) about
    w^2 log2(n) / 2; the smaller was 1.4 to 3.7 times the entries of SuperLU's L for neighbor graphs.
    """
    widths = level_widths(pattern, level_widths(pattern, 0)[1])[0]
    widest = int(widths.max())
    by_levels = int(widths[1:] @ widths[:-1]) + int(widths @ widths) // 2
    by_dissection = int(max(widest**2, pattern.nnz) * np.log2(pattern.shape[0] + 1) / 2)
    return min(by_levels, by_dissection), widest


def level_widths(pattern: Any, start: int) -> tuple[IntArray, int]:
    """Return the number of points at each number of hops from ``start``, and the last point reached."""
    order, parent = breadth_first_order(pattern, start)  # taken as directed, a symmetric pattern is not transposed
    place = np.empty(pattern.shape[0], dtype=np.int64)
    place[order] = np.arange(len(order))
    parents = place[parent[order[1:]]]  # non-decreasing: a level ends where the next level's parents do
    ends = [0, 1]
    while ends[-1] < len(order):
        ends.append(1 + int(np.searchsorted(parents, ends[-1])))
    return np.diff(ends), int(order[-1])


def _lapack(pencil: Pencil, _best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """LAPACK on the dense H; the known vectors are moved to the other end of its spectrum."""
    if not _fits_dense(pencil):
        return None
    run.step(0, k)
    if pencil.n > MAX_LAPACK_SIZE:
        run.announce("dense eigenproblem", 24 * pencil.n**2)
    H, N = pencil.dense(), pencil.known
    norm = float(min(np.linalg.norm(H), np.linalg.norm(H, 1)))
    # LAPACK guards its pivots by absolute numbers, so the norm is scaled to about 1, exactly, by a power of two.
    unit = 2.0 ** np.frexp(norm)[1]
    H /= unit
    if N.shape[1]:
        H -= N @ (N.T @ H)
        H -= (H @ N) @ N.T
        H += 2 * (norm / unit) * (N @ N.T)
    ritz = None
    # For a subset LAPACK uses inverse iteration: fast, but vectors of a multiple eigenvalue may coincide or be missing.
    for options in ({"subset_by_index": (0, k - 1)}, {"driver": "evd"}):
        try:
            with blas_threads_for(pencil.n):
                values, vectors = scipy.linalg.eigh(H, **options)
        except np.linalg.LinAlgError:
            continue
        if len(values) < k:
            continue
        pairs = Ritz(unit * values[:k], vectors[:, :k], np.zeros(k), norm)
        ritz = rayleigh_ritz(pencil, pairs, settled=True)
        if ritz.error(k) <= tolerance.accept:
            break
    return ritz
