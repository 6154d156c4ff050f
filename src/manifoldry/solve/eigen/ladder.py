"""The ladder: ways to the lowest pairs of a pencil, tried in turn until the residuals are good."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import splu

from manifoldry.run import Run, physical_memory
from manifoldry.solve.eigen.davidson import Ritz, Tolerance, davidson, rayleigh_ritz
from manifoldry.solve.eigen.pencil import SYMMETRIC_MODE, Block, Pencil
from manifoldry.values import FloatArray, IntArray

Rung = Callable[[Pencil, Ritz, int, Tolerance, Run], Ritz | None]
"""Improve the Ritz pairs reached so far; None when the rung is not for this pencil."""

LAPACK_SIZE = 400
"""Up to this order LAPACK, which cannot fail, costs nothing. Milliseconds for 4 pairs of a dense matrix,
LAPACK and Krylov: n = 300 6, 5; 450 10, 7; 1,000 83, 12; 2,000 323, 43. For 3 pairs of a graph Laplacian,
LAPACK and the rest of the ladder: n = 300 6, 11; 450 16, 13; 1,000 96, 18; 2,000 363, 28."""

LAPACK_SHARE = 50
"""LAPACK also when more than one pair in this many is wanted: a search basis would be as large."""

SERIAL_SIZE = 1500
"""Up to this order BLAS is held to one thread, and so is every search in a sparse matrix, where BLAS is not what
takes the time. Two threads save 2 of 12 ms at n = 1,000, but on a busy machine their waiting for each other made
small problems a hundred times slower."""

GUARDS = 2
"""Pairs searched for beyond the wanted ones; the last of a block converges slowest."""

NARROWEST = 8
"""Smallest block for a dense A: a pass over it costs 8 columns little more than 4 (n = 10,000: 47 and 41 ms)."""

SHIFT = 1e-15
"""Distance of the shift from zero, relative to the norm: just above rounding, below the values wanted.
Alignment matrices of a roll have their second value at 4e-9 |A| (n = 2,000) and 5e-13 |A| (n = 50,000).
Shifts from 2e-16 to 1e-14 gave the same vectors there in as many steps."""

WIDEST_LEVEL = 6000
"""Widest breadth-first level a sparse factor is tried for. Among wide graphs, factoring took about
2 w^3 / 6e9 s for a widest level of w points (w = 1,240: 0.5 s; 1,600: 1.5 s; 2,200: 0.9 s), so this is a minute."""

FULL_FACTOR, FULL_FACTOR_SIZE = 0.6, 10_000
"""A sparse matrix whose predicted factor is fuller than this is factored as a dense one, up to this order.
Seconds, sparse and dense: 50-D neighbors, n = 4,000, 83 % predicted: 0.9, 0.5; their neighbors in 5-D,
n = 4,000, 65 %: 0.8, 0.5; in 4-D, n = 8,000, 44 %: 2.7, 4.0."""

NEAR_NULL = 3
"""Known vectors given to multigrid as what it must represent exactly."""

BYTES_PER_ENTRY = 24
"""Memory of an entry of L and its mirror in U: two numbers and two row indices."""

FIRST_STEPS, FIRST_STEPS_GRAPH, LAST_STEPS = 60, 4, 1000
"""Steps of the plain Krylov search: before anything is factored, the same for the low end of a sparse matrix
(where it mostly serves to learn the norm), and when nothing else is left."""

INVERSE_STEPS, MULTIGRID_STEPS = 40, 250
"""Steps with an inverse. Measured needs: 3 to 12 with a factor on manifolds, 25 on random data in 50-D; 24 to 140
with multigrid."""

ROUGH = 1e-6
"""Tolerances from which multigrid comes first: a few of its steps cost less than a factor. Seconds for a start at
1e-2, ties of 10,000 digits: 0.3 and 11."""

SHARPER_SHIFTS = 3
"""How often a matrix is factored anew because a shift nearer to its spectrum became known."""


def lowest(pencil: Pencil, k: int, tolerance: Tolerance, run: Run) -> tuple[Ritz, str]:
    """Return the k lowest pairs of a pencil and the name of the rung that gave them."""
    task = (pencil, k, tolerance, run)
    return run.map(_climb, [task], blas=True)[0] if pencil.n <= SERIAL_SIZE else _climb(*task)


def _climb(pencil: Pencil, k: int, tolerance: Tolerance, run: Run) -> tuple[Ritz, str]:
    """Try the rungs in turn.

    Every rung starts from the best block so far. An answer whose residuals are accepted ends the climb at
    once if its iteration settled by itself; otherwise the rungs above may still improve it.
    """
    narrowest = 1 if pencil.sparse else NARROWEST
    width = min(max(k + GUARDS, narrowest), pencil.n - pencil.known.shape[1])
    start = np.random.Generator(np.random.Philox(key=0)).standard_normal((pencil.n, width))
    best = Ritz(np.zeros(width), start, np.full(width, np.inf), 0.0)
    name, tried = "", []
    for title, rung in _order(pencil, k, tolerance):
        found = rung(pencil, best, k, tolerance, run)
        if found is None:
            continue
        tried.append(title)
        if found.error(k) < best.error(k) or not name:
            best, name = found, title
        if best.settled and best.error(k) <= tolerance.accept:
            return best, name
    if best.error(k) <= max(tolerance.accept, tolerance.tolerable):
        return best, name
    raise np.linalg.LinAlgError(
        f"No eigenpairs with relative residuals below {tolerance.accept:.0e} were found by "
        f"{', '.join(tried)}; the best had {best.error(k):.1e}: raise tol to that, or ask for fewer pairs."
    )


def _order(pencil: Pencil, k: int, tolerance: Tolerance) -> list[tuple[str, Rung]]:
    """Return the rungs for a pencil, cheapest first."""
    dense: list[tuple[str, Rung]] = [("lapack", _lapack)] if 24 * pencil.n**2 <= physical_memory() / 2 else []
    if dense and pencil.n <= max(LAPACK_SIZE, LAPACK_SHARE * k):
        return dense
    first = FIRST_STEPS_GRAPH if pencil.sparse and pencil.sign > 0 else FIRST_STEPS
    inverses: list[tuple[str, Rung]] = [("shift-invert", _shift_invert), ("multigrid", _multigrid)]
    return [
        ("krylov", partial(_krylov, steps=first)),
        *(inverses[::-1] if tolerance.aim >= ROUGH else inverses),
        ("krylov", partial(_krylov, steps=LAST_STEPS)),
        *dense,
    ]


def _search(
    pencil: Pencil, best: Ritz, k: int, precondition: Block, steps: int, tolerance: Tolerance, run: Run
) -> Ritz:
    task = (pencil, best, k, precondition, steps, tolerance, run)
    return run.map(davidson, [task], blas=True)[0] if pencil.sparse else davidson(*task)


def _krylov(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run, *, steps: int) -> Ritz:
    """Block Lanczos: products with A only."""
    return _search(pencil, best, k, lambda R: R, steps, tolerance, run)


def _shift_invert(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Block Lanczos on the inverse of A - sigma B, with sigma just below the spectrum."""
    factor = _factor(pencil, run)
    if factor is None:
        return None
    sigma = _shift(best)
    for _ in range(SHARPER_SHIFTS):
        inverse = _inverse(pencil, sigma, best.norm, factor)
        if inverse is None:
            return None
        best = _search(pencil, best, k, inverse, INVERSE_STEPS, tolerance, run)
        closer = float(best.values[0] - best.residuals[0]) - SHIFT * best.norm
        if best.settled or best.values[k - 1] - closer > 0.5 * (best.values[k - 1] - sigma):
            break
        sigma = closer
    return best


def _shift(best: Ritz) -> float:
    """Return a number just below the spectrum, as far as rough Ritz values tell.

    A matrix that shows no negative Ritz value is taken to be positive semidefinite.
    """
    semidefinite = best.values[0] >= -SHIFT * best.norm
    bound = 0.0 if semidefinite else float(best.values[0] - best.residuals[0])
    return bound - SHIFT * best.norm


def _inverse(pencil: Pencil, sigma: float, norm: float, factor: str) -> Block | None:
    """Return the map U -> C' (A - sigma B)^-1 C U; a factor that breaks down is tried with a wider shift."""
    root = pencil.root
    for wider in (0.0, 100.0, 1e4):
        K = pencil.shifted(sigma - wider * SHIFT * norm)
        try:
            solve = splu(K, **SYMMETRIC_MODE).solve if factor == "sparse" else _dense_solve(K)
        except (RuntimeError, MemoryError):  # SuperLU: exactly singular, or out of memory after all
            continue
        return lambda U: root.times_t(solve(root.times(U)))
    return None


def _dense_solve(K: Any) -> Block:
    """Return the solve of a dense factor: Cholesky's, half the work, where K is definite in spite of rounding."""
    full = K.toarray() if sp.issparse(K) else K
    try:
        return partial(scipy.linalg.cho_solve, scipy.linalg.cho_factor(full, lower=True))
    except np.linalg.LinAlgError:
        return partial(scipy.linalg.lu_solve, scipy.linalg.lu_factor(full, overwrite_a=True))


def _factor(pencil: Pencil, run: Run) -> str | None:
    """Return which factor of a pencil fits in memory and in about a minute: "sparse", "dense" or None."""
    if pencil.matrix_free:
        return None
    choice, needed = "dense", 16 * pencil.n**2
    if pencil.sparse:
        entries, widest = predicted_fill(pencil.pattern())
        if entries <= FULL_FACTOR * pencil.n**2 / 2:
            choice, needed = "sparse", BYTES_PER_ENTRY * entries
        if pencil.n > FULL_FACTOR_SIZE and (choice == "dense" or widest > WIDEST_LEVEL):
            return None
    if needed > physical_memory() / 2:
        return None
    run.announce("matrix factor", needed)
    return choice


def predicted_fill(pattern: Any) -> tuple[int, int]:
    """Return a guess from above of the entries of a sparse factor, and the widest breadth-first level.

    Levels of a search from a far end are separators of the graph. Eliminating them one after another
    fills at most the sum of w_i w_{i+1} + w_i^2 / 2; nested dissection fills about w^2 log2(n) / 2 for the
    widest level w, or about nnz log2(n) / 2 where the graph is long and thin. The lesser of the two guesses
    was 1.4 to 3.7 times the entries of L that SuperLU made, for neighbor graphs (10 neighbors) and
    alignment matrices (13) of cubes in 2, 3, 5 and 50 dimensions, strips, rolls and noisy curves,
    n = 2,000 to 100,000.

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
    smooth = pencil.root.solve_t(pencil.known)[:, :NEAR_NULL] if pencil.known.size else np.ones((pencil.n, 1))
    # The weighting is local because pyamg's default asks the global random generator for a vector.
    try:
        levels = smoothed_aggregation_solver(K, B=smooth, smooth=("jacobi", {"weighting": "local"}))
    except (ValueError, ArithmeticError, IndexError, RuntimeError, MemoryError):  # no hierarchy here
        return None
    cycle, root = levels.aspreconditioner(), pencil.root

    def inverse(U: FloatArray) -> FloatArray:
        return root.times_t(np.column_stack([cycle @ column for column in root.times(U).T]))

    return _search(pencil, best, k, inverse, MULTIGRID_STEPS, tolerance, run)


def _lapack(pencil: Pencil, _best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """All of H at once; the known vectors are moved to the far end of its spectrum."""
    run.announce("dense eigenproblem", 24 * pencil.n**2)
    H, N = pencil.dense(), pencil.known
    norm = float(min(np.linalg.norm(H), np.linalg.norm(H, 1)))
    if N.shape[1]:
        H -= N @ (N.T @ H)
        H -= (H @ N) @ N.T
        H += 2 * norm * (N @ N.T)
    found = None
    # For a subset LAPACK iterates inversely, fast, and may give two vectors of a multiple value as one.
    for options in ({"subset_by_index": (0, k - 1)}, {"driver": "evd"}):
        try:
            values, vectors = scipy.linalg.eigh(H, **options)
        except np.linalg.LinAlgError:
            continue
        pairs = Ritz(values[:k], vectors[:, :k], np.zeros(k), norm)
        found = rayleigh_ritz(pencil, pairs, settled=True)
        if found.error(k) <= tolerance.accept:
            break
    return found
