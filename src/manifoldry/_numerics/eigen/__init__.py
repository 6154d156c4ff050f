"""Eigenpairs by intent: `smallest` or `largest` of a symmetric matrix or pencil, dense, sparse or matrix-free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from manifoldry._core import check
from manifoldry._core.csgraph import breadth_first_order, connected_components
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Array, FloatArray, IntArray, Spectrum
from manifoldry._core.warnings import warn
from manifoldry._numerics.eigen.davidson import Tolerance
from manifoldry._numerics.eigen.fronts import Quotient
from manifoldry._numerics.eigen.pencil import GramMatrix, Pencil, product
from manifoldry._numerics.eigen.solvers import MAX_LAPACK_SIZE, lowest, will_dissect

__all__ = ["GramMatrix", "column_signs", "fix_signs", "largest", "smallest"]
SIGN_TIE_TOL = 1e-6
"""Entries this close to the largest magnitude count as equal, so that rounding does not decide the sign."""
SMALL_RESIDUAL, SMALL_SKEW = 1e-12, 1e-13  # maximum residual relative to the norm, and inner product of two vectors
KNOWN_VECTOR_TOL = 1e-6  # maximum residual of a known eigenvector, relative to the norm


def smallest(
    A: Any,
    k: int,
    *,
    B: Array | None = None,
    null: Array | None = None,
    tol: float | None = None,
    tolerable: float = 0.0,
    run: Run,
) -> Spectrum:
    r"""Return the k algebraically smallest eigenpairs of A, or of the pencil (A, B), ascending.

    .. math:: A v = \lambda B v, \qquad v_i^\top B v_j = \delta_{ij}.

    A is an array, sparse matrix, LinearOperator or `GramMatrix`, and may be singular; B is a vector of masses, the
    diagonal of a matrix, or None for the identity. A may also be a `Pencil` with B and ``null``, of which a later call
    for more pairs begins where an earlier one ended. ``null`` are known eigenvectors (n,) or (n, m): they are not
    returned, and their Rayleigh quotients are in ``dropped``. ``tol`` is the maximum residual, relative to the norm of
    the (mass-scaled) matrix; by default 1e-12 is required and about 1e-14 aimed at. Residuals up to ``tolerable`` cause
    a warning, others a `numpy.linalg.LinAlgError`. The result depends on neither the seed nor the threads of ``run``.

    References: parlett1998, davidson1975, morgan1986
    """
    small = B is None and null is None and tol is None and _is_small(A, k)
    if small and (spectrum := _small_spectrum(A, k, "smallest", run)) is not None:
        return spectrum
    pencil = A if isinstance(A, Pencil) else Pencil.of(A, B, 1.0, null, run)
    return _spectrum(pencil, k, null, replace(Tolerance.of(tol, pencil.eps), tolerable=tolerable), run)


def largest(
    A: Any,
    k: int,
    *,
    known: Array | None = None,
    tol: float | None = None,
    run: Run,
) -> Spectrum:
    """Return the k algebraically largest eigenpairs of A, values descending; ``known`` is ``null`` of `smallest`."""
    small = known is None and tol is None and _is_small(A, k)
    if small and (spectrum := _small_spectrum(A, k, "largest", run)) is not None:
        return spectrum
    pencil = Pencil.of(A, None, -1.0, known, run)
    return _spectrum(pencil, k, known, Tolerance.of(tol, pencil.eps), run)


def fix_signs(vectors: FloatArray) -> FloatArray:
    """Return the columns with signs such that the first entry of largest magnitude is positive."""
    return vectors * column_signs(vectors)


def column_signs(vectors: FloatArray) -> FloatArray:
    """Return the signs by which `fix_signs` multiplies the columns, shape (m,)."""
    size = np.abs(vectors.T, order="C")  # along the columns of a tall array numpy is far slower
    first = np.argmax(size >= (1 - SIGN_TIE_TOL) * size.max(axis=1, keepdims=True), axis=1)
    return np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _is_small(A: Any, k: int) -> bool:
    """Return whether LAPACK takes no longer than an iteration."""
    square = isinstance(A, np.ndarray) and A.ndim == 2 and A.shape[0] == A.shape[1]
    return square and A.dtype in (np.float32, np.float64) and 1 <= k <= len(A) <= MAX_LAPACK_SIZE


def _small_spectrum(A: Array, k: int, order: str, run: Run) -> Spectrum | None:
    """Return eigenpairs by LAPACK; None if its inverse iteration fails: vectors of close values missing or skew."""
    with run.stage("eigenproblem"), one_blas_thread():
        run.step(0, k)
        matrix, n = np.asarray(A, dtype=np.float64), len(A)
        check.symmetric_form(matrix, float(np.abs(matrix).max()) * n**0.5, float(np.finfo(A.dtype).eps))
        matrix = (matrix + matrix.T) / 2
        # LAPACK guards its pivots by absolute numbers, so the norm is scaled to about 1, exactly, by a power of two.
        norm = float(np.linalg.norm(matrix))
        unit = 2.0 ** np.frexp(norm)[1]
        ends = (0, k - 1) if order == "smallest" else (n - k, n - 1)
        try:
            values, vectors = scipy.linalg.eigh(matrix / unit, subset_by_index=ends, check_finite=False)
        except np.linalg.LinAlgError:
            values = np.empty(0)
        if len(values) < k:
            return None
        step = 1 if order == "smallest" else -1
        values, vectors = unit * values[::step] + 0.0, fix_signs(vectors[:, ::step])  # no negative zeros
        residuals = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
        skew = np.abs(vectors.T @ vectors - np.eye(k)).max()
        accurate = residuals.max() <= SMALL_RESIDUAL * norm and skew <= SMALL_SKEW
        return Spectrum(values, vectors, residuals, order, "lapack") if accurate else None


def _spectrum(pencil: Pencil, k: int, known: Array | None, tolerance: Tolerance, run: Run) -> Spectrum:
    room = pencil.n - pencil.known.shape[1]
    if not 1 <= k <= room:
        raise ValueError(f"Between 1 and {room} eigenpairs can be found here; got k = {k}.")
    with run.stage("eigenproblem"):
        groups = _groups(pencil, tolerance)
        if len(groups) == 1:
            ritz, solver = lowest(pencil, k, tolerance, run)
            values, vectors, norm = ritz.values[:k], ritz.vectors[:, :k] / pencil.root, ritz.norm
        else:
            values, vectors, norm, solver = _by_components(pencil, groups, k, tolerance, run)
        _check_known_vectors(pencil, norm)
        vectors, values = fix_signs(vectors), pencil.sign * values + 0.0  # no negative zeros
        defects = product(pencil.A, vectors, pencil.run) - pencil.root * (pencil.root * vectors) * values
        residuals = np.linalg.norm(defects, axis=0)
        worst = float((residuals / max(norm, np.finfo(float).tiny)).max())
        if tolerance.tolerable and worst > 10 * tolerance.accept:
            warn(
                f"The eigenvectors are approximate: no solver that fits here got below a relative residual of "
                f"{worst:.0e}. Fewer points or neighbors make the problem easier."
            )
        order = "smallest" if pencil.sign > 0 else "largest"
        return Spectrum(values, vectors, residuals, order, solver, _quotients(pencil, known))


def _by_components(
    pencil: Pencil, groups: list[IntArray], k: int, tolerance: Tolerance, run: Run
) -> tuple[FloatArray, FloatArray, float, str]:
    """Return the k lowest values, their vectors, the norm and the solvers of a pencil with several components."""
    known = pencil.known / pencil.root
    blocks = [pencil.part(members, known[members]) for members in groups]
    values, columns = _leftover(known, blocks, groups, k)
    norm, solvers = 0.0, set()
    for block, members in zip(blocks, groups, strict=True):
        n_pairs = min(k, block.n - block.known.shape[1])
        if n_pairs == 0:
            continue
        ritz, solver = lowest(block, n_pairs, tolerance, run)
        norm = max(norm, ritz.norm)
        solvers.add(solver)
        values.extend(ritz.values[:n_pairs])
        columns.extend([(members, column)] for column in (ritz.vectors[:, :n_pairs] / block.root).T)
    order = np.argsort(values, kind="stable")[:k]
    vectors = np.zeros((pencil.n, len(order)))
    for j, pair in enumerate(order):
        for members, column in columns[pair]:
            vectors[members, j] = column
    return np.array(values)[order], vectors, norm, " + ".join(sorted(solvers))


def _groups(pencil: Pencil, tolerance: Tolerance) -> list[IntArray]:
    """Return the connected components of a sparse pencil, small ones grouped for LAPACK."""
    if not pencil.sparse:
        return [np.arange(pencil.n)]
    if will_dissect(pencil, tolerance):
        pencil.recalled.groups = pencil.recalled.groups or Quotient.of(pencil.A, pencil.run)
        if pencil.recalled.groups.connected:
            return [np.arange(pencil.n)]
    pattern = pencil.pattern()
    # The pattern is symmetric. Taken as directed, it is not transposed, which takes longer than the search.
    if len(breadth_first_order(pattern, 0, return_predecessors=False)) == pencil.n:
        return [np.arange(pencil.n)]
    count, labels = connected_components(pattern, directed=False)
    sizes = np.bincount(labels)
    half = MAX_LAPACK_SIZE // 2
    small = sizes <= half
    bundle = np.empty(count, dtype=np.int64)
    bundle[small] = np.cumsum(sizes[small]) // half
    bundle[~small] = count + np.arange(np.count_nonzero(~small))
    owner = np.unique(bundle, return_inverse=True)[1][labels]
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner))[:-1])


def _leftover(
    known: FloatArray, blocks: list[Pencil], groups: list[IntArray], k: int
) -> tuple[list[float], list[list[tuple[IntArray, FloatArray]]]]:
    """Return the k lowest pairs in the span of the known vectors cut to blocks, without the known vectors."""
    within = np.vstack(
        [block.known.T @ (block.root * known[members]) for block, members in zip(blocks, groups, strict=True)]
    )
    rest = np.linalg.qr(within, mode="complete")[0][:, known.shape[1] :]
    if rest.shape[1] == 0:
        return [], []
    form = scipy.linalg.block_diag(*[block.known.T @ block.apply(block.known) for block in blocks])
    values, mix = np.linalg.eigh(rest.T @ form @ rest)
    parts = np.split(rest @ mix[:, :k], np.cumsum([block.known.shape[1] for block in blocks])[:-1])
    spread = [(block.known @ part) / block.root for block, part in zip(blocks, parts, strict=True)]
    columns = [
        [(members, entries[:, j]) for members, entries in zip(groups, spread, strict=True)]
        for j in range(len(values[:k]))
    ]
    return list(values[:k]), columns


def _check_known_vectors(pencil: Pencil, norm: float) -> None:
    image = pencil.apply(pencil.known)
    norm = max(norm, float(np.linalg.norm(image)))
    defect = float(np.linalg.norm(image - pencil.known @ (pencil.known.T @ image)))
    if defect > KNOWN_VECTOR_TOL * norm:
        raise ValueError(
            f"The known vectors are not eigenvectors: their images under A leave their span by {defect / norm:.1e} of "
            "the norm; drop or correct them."
        )


def _quotients(pencil: Pencil, known: Array | None) -> FloatArray:
    """Return v'Av / v'Bv of each known vector."""
    if known is None:
        return np.empty(0)
    V = np.asarray(known, dtype=np.float64).reshape(pencil.n, -1)
    return np.einsum("ij,ij->j", V, product(pencil.A, V, pencil.run)) / np.einsum(
        "ij,ij->j", V, pencil.root * (pencil.root * V)
    )
