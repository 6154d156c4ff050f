"""Solvers for the lowest pairs of a pencil, tried in turn until the residuals are small enough."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from manifoldry._core.csgraph import breadth_first_order
from manifoldry._core.memory import available_memory
from manifoldry._core.run import Run
from manifoldry._core.threads import blas_threads_for, one_blas_thread
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.eigen.davidson import Ritz, Tolerance, davidson, polynomial, rayleigh_ritz
from manifoldry._numerics.eigen.pencil import SYMMETRIC_MODE, BlockOperator, Pencil

Solver = Callable[[Pencil, Ritz, int, Tolerance, Run], Ritz | None]
"""Improves the best Ritz pairs so far; returns None if it does not apply to the pencil."""

MAX_LAPACK_SIZE = 400
"""Maximum order at which LAPACK, which cannot fail, is tried first. Milliseconds for 4 pairs of a dense matrix, LAPACK
and Krylov: n = 300 6, 5; 450 10, 7; 1,000 83, 12; 2,000 323, 43. For 3 pairs of a graph Laplacian, LAPACK and the other
solvers: n = 300 6, 11; 450 16, 13; 1,000 96, 18; 2,000 363, 28."""

MAX_LAPACK_RATIO = 50
"""LAPACK is also used if the order is at most this many times k: a Krylov basis would be as large."""

N_GUARD_VECTORS = 2
"""Additional vectors in the block; the last of a block converges slowest."""

MIN_DENSE_BLOCK = 8
"""Minimum block size for a dense A: a product costs 8 columns little more than 4 (n = 10,000: 47 and 41 ms)."""

RELATIVE_SHIFT = 1e-15
"""Distance of the shift from the spectrum, relative to the norm: just above rounding, below the lowest eigenvalues.
Alignment matrices of a roll have their second value at 4e-9 |A| (n = 2,000) and 5e-13 |A| (n = 50,000).
Shifts from 2e-16 to 1e-14 gave the same vectors there in as many steps."""

MAX_LEVEL_WIDTH = 6000
"""Maximum width of a breadth-first level for a sparse factorization. Among wide graphs, factoring took about
2 w^3 / 6e9 s for a widest level of w points (w = 1,240: 0.5 s; 1,600: 1.5 s; 2,200: 0.9 s), so this is a minute."""

MAX_SPARSE_FILL, MAX_DENSE_SHIFT_INVERT_SIZE = 0.6, 10_000
"""A sparse matrix whose predicted factor has a larger share of nonzeros is factored as dense, up to this order.
Seconds, sparse and dense: 50-D neighbors, n = 4,000, 83 % predicted: 0.9, 0.5; their neighbors in 5-D,
n = 4,000, 65 %: 0.8, 0.5; in 4-D, n = 8,000, 44 %: 2.7, 4.0."""

N_NEAR_NULL = 3
"""Maximum number of known vectors given to multigrid as near-nullspace candidates."""

BYTES_PER_ENTRY = 24
"""Memory of an entry of L and of its transpose in U: two numbers and two row indices."""

FIRST_KRYLOV_STEPS, FIRST_KRYLOV_STEPS_SPARSE, LAST_KRYLOV_STEPS = 60, 4, 1000
"""Maximum number of block Lanczos steps: before anything is factored, the same for the low end of a sparse matrix
(where it mostly serves to estimate the norm), and as the last iterative solver."""

MAX_SHIFT_INVERT_STEPS, MAX_MULTIGRID_STEPS = 40, 250
"""Maximum number of steps with an approximate inverse. Measured needs: 3 to 12 with a factor on manifolds, 25 on
random data in 50-D; 24 to 140 with multigrid."""

MULTIGRID_FIRST_TOL = 1e-6
"""Tolerance above which multigrid is tried before a factorization: a few of its steps cost less. Seconds at 1e-2,
affinities of 10,000 digits: 0.3 and 11."""

FACTOR_OPERATIONS_PER_SECOND = 3e9
"""Speed for the w^3 operations of a sparse factor with a widest level of w points, as above."""

MAX_FACTOR_HOURS = 1.0
"""Longest predicted factorization that is started by a method that cannot do without it."""

MAX_SHIFTS = 3
"""Maximum number of factorizations, each with a shift nearer to the spectrum."""


def lowest(pencil: Pencil, k: int, tolerance: Tolerance, run: Run, guess: FloatArray | None = None) -> tuple[Ritz, str]:
    """Return the k lowest pairs of a pencil and the name of the solver that found them.

    The solvers are tried in turn, each from the best block so far. Acceptable residuals end the search if the iteration
    converged; otherwise the next solvers may still improve them. ``guess`` (n, m) holds approximate eigenvectors to
    start with, times C' of the mass matrix.
    """
    min_width = 1 if pencil.sparse else MIN_DENSE_BLOCK
    width = min(max(k + N_GUARD_VECTORS, min_width), pencil.n - pencil.known.shape[1])
    start = np.random.Generator(np.random.Philox(key=0)).standard_normal((pencil.n, width))
    if guess is not None:
        start[:, : guess.shape[1]] = guess[:, :width]
    best = Ritz(np.zeros(width), start, np.full(width, np.inf), 0.0)
    name, tried = "", []
    # Blocks of a few columns are small for BLAS however many rows they have; only LAPACK may get more threads.
    with one_blas_thread():
        for title, solver in _solver_sequence(pencil, k, tolerance):
            ritz = solver(pencil, best, k, tolerance, run)
            if ritz is None:
                continue
            tried.append(title)
            if ritz.error(k) < best.error(k) or not name:
                best, name = ritz, title
            if best.settled and best.error(k) <= tolerance.accept:
                return best, name
    if best.error(k) <= max(tolerance.accept, tolerance.tolerable):
        return best, name
    raise np.linalg.LinAlgError(
        f"No eigenpairs with relative residuals below {tolerance.accept:.0e} were found by "
        f"{', '.join(tried)}; the best had {best.error(k):.1e}: raise tol to that, or ask for fewer pairs."
    )


def _solver_sequence(pencil: Pencil, k: int, tolerance: Tolerance) -> list[tuple[str, Solver]]:
    """Return the solvers that apply to a pencil, cheapest first."""
    dense: list[tuple[str, Solver]] = [("lapack", _lapack)] if 24 * pencil.n**2 <= available_memory() / 2 else []
    if dense and pencil.n <= max(MAX_LAPACK_SIZE, MAX_LAPACK_RATIO * k):
        return dense
    first = FIRST_KRYLOV_STEPS_SPARSE if pencil.sparse and pencil.sign > 0 else FIRST_KRYLOV_STEPS
    inverses: list[tuple[str, Solver]] = [
        ("shift-invert", _shift_invert),
        ("polynomial", polynomial),
        ("multigrid", _multigrid),
    ]
    return [
        ("krylov", partial(_krylov, steps=first)),
        *(inverses[::-1] if tolerance.aim >= MULTIGRID_FIRST_TOL else inverses),
        ("krylov", partial(_krylov, steps=LAST_KRYLOV_STEPS)),
        *dense,
    ]


def _krylov(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run, *, steps: int) -> Ritz:
    """Block Lanczos: products with A only."""
    return davidson(pencil, best, k, lambda R: R, steps, tolerance, run)


def _shift_invert(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Block Lanczos on the inverse of A - sigma B, with sigma just below the spectrum."""
    factor = _factor(pencil, run)
    if factor is None:
        return None
    sigma = _shift(best)
    for _ in range(MAX_SHIFTS):
        inverse = _inverse(pencil, sigma, best.norm, factor)
        if inverse is None:
            return None
        best = davidson(pencil, best, k, inverse, MAX_SHIFT_INVERT_STEPS, tolerance, run)
        closer = float(best.values[0] - best.residuals[0]) - RELATIVE_SHIFT * best.norm
        if best.settled or best.values[k - 1] - closer > 0.5 * (best.values[k - 1] - sigma):
            break
        sigma = closer
    return best


def _shift(best: Ritz) -> float:
    """Return a shift just below the spectrum, as estimated from the Ritz values.

    A matrix without negative Ritz values is taken to be positive semidefinite.
    """
    semidefinite = best.values[0] >= -RELATIVE_SHIFT * best.norm
    bound = 0.0 if semidefinite else float(best.values[0] - best.residuals[0])
    return bound - RELATIVE_SHIFT * best.norm


def _inverse(pencil: Pencil, sigma: float, norm: float, factor: str) -> BlockOperator | None:
    """Return the map U -> C' (A - sigma B)^-1 C U; a factorization that fails is tried with a larger shift."""
    root = pencil.root
    for wider in (0.0, 100.0, 1e4):
        K = pencil.shifted(sigma - wider * RELATIVE_SHIFT * norm)
        try:
            solve = splu(K, **SYMMETRIC_MODE).solve if factor == "sparse" else _dense_solve(K)
        except (RuntimeError, MemoryError):  # SuperLU: exactly singular, or out of memory after all
            continue
        return lambda U: root.times_t(solve(root.times(U)))
    return None


def _dense_solve(K: Any) -> BlockOperator:
    """Return the solve of a dense factorization: Cholesky, half the work, where K is numerically definite, else LU."""
    full = K.toarray() if sp.issparse(K) else K
    with blas_threads_for(len(full)):
        try:
            return partial(scipy.linalg.cho_solve, scipy.linalg.cho_factor(full, lower=True))
        except np.linalg.LinAlgError:
            return partial(scipy.linalg.lu_solve, scipy.linalg.lu_factor(full, overwrite_a=True))


def _factor(pencil: Pencil, run: Run) -> str | None:
    """Return which factorization fits in memory and takes at most about a minute: "sparse", "dense" or None."""
    if pencil.matrix_free:
        return None
    choice, needed = "dense", 16 * pencil.n**2
    if pencil.sparse:
        entries, widest = predicted_fill(pencil.pattern())
        if entries <= MAX_SPARSE_FILL * pencil.n**2 / 2:
            choice, needed = "sparse", BYTES_PER_ENTRY * entries
        if pencil.n > MAX_DENSE_SHIFT_INVERT_SIZE and (choice == "dense" or widest > MAX_LEVEL_WIDTH):
            return None
    if needed > available_memory() / 2:
        return None
    run.announce("matrix factor", needed)
    return choice


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
    """Return an upper estimate of the nonzeros of a sparse factor, and the widest breadth-first level.

    Levels of a search from a far end are separators of the graph. Eliminating them one after another fills at most the
    sum of w_i w_{i+1} + w_i^2 / 2; nested dissection fills about w^2 log2(n) / 2 for the widest level w, or about
    nnz log2(n) / 2 for a long and thin graph. The smaller of the two estimates was 1.4 to 3.7 times the entries of
    SuperLU's L, for neighbor graphs (10 neighbors) and alignment matrices (13) of cubes in 2, 3, 5 and 50 dimensions,
    strips, rolls and noisy curves, n = 2,000 to 100,000.

    References: george1973
    """
    widths = level_widths(pattern, level_widths(pattern, 0)[1])[0]
    widest = int(widths.max())
    by_levels = int(widths[1:] @ widths[:-1]) + int(widths @ widths) // 2
    by_dissection = int(max(widest**2, pattern.nnz) * np.log2(pattern.shape[0] + 1) / 2)
    return min(by_levels, by_dissection), widest


def level_widths(pattern: Any, start: int) -> tuple[IntArray, int]:
    """Return the number of points at each number of hops from ``start``, and the last point reached."""
    order, parent = breadth_first_order(pattern, start, directed=False)
    place = np.empty(pattern.shape[0], dtype=np.int64)
    place[order] = np.arange(len(order))
    parents = place[parent[order[1:]]]  # non-decreasing: a level ends where the next level's parents do
    ends = [0, 1]
    while ends[-1] < len(order):
        ends.append(1 + int(np.searchsorted(parents, ends[-1])))
    return np.diff(ends), int(order[-1])


def _multigrid(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Davidson with one V-cycle of smoothed aggregation as the inverse."""
    if not pencil.sparse:
        return None
    from pyamg import smoothed_aggregation_solver

    K = sp.csr_matrix(pencil.shifted(_shift(best)))
    K.indices, K.indptr = K.indices.astype(np.int32), K.indptr.astype(np.int32)
    smooth = pencil.root.solve_t(pencil.known)[:, :N_NEAR_NULL] if pencil.known.size else np.ones((pencil.n, 1))
    # The weighting is local because pyamg's default asks the global random generator for a vector.
    try:
        levels = smoothed_aggregation_solver(K, B=smooth, smooth=("jacobi", {"weighting": "local"}))
    except (ValueError, ArithmeticError, IndexError, RuntimeError, MemoryError):  # no hierarchy here
        return None
    cycle, root = levels.aspreconditioner(), pencil.root

    def inverse(U: FloatArray) -> FloatArray:
        return root.times_t(np.column_stack([cycle @ column for column in root.times(U).T]))

    return davidson(pencil, best, k, inverse, MAX_MULTIGRID_STEPS, tolerance, run)


def _lapack(pencil: Pencil, _best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """LAPACK on the dense H; the known vectors are moved to the other end of its spectrum."""
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
    # For a subset LAPACK uses inverse iteration: fast, but two vectors of a multiple eigenvalue may coincide.
    for options in ({"subset_by_index": (0, k - 1)}, {"driver": "evd"}):
        try:
            with blas_threads_for(pencil.n):
                values, vectors = scipy.linalg.eigh(H, **options)
        except np.linalg.LinAlgError:
            continue
        pairs = Ritz(unit * values[:k], vectors[:, :k], np.zeros(k), norm)
        ritz = rayleigh_ritz(pencil, pairs, settled=True)
        if ritz.error(k) <= tolerance.accept:
            break
    return ritz
