"""Neighborhoods in stacks of equal size, so that LAPACK works on many small matrices at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from manifoldry._core.arrays import joined
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._operations import reversed_lists
from manifoldry.graph._sample import NeighborhoodData

MAX_STACK_ENTRIES = 4_000_000  # most entries of a temporary array: about 30 MB

MAX_STACKED = 500_000  # most entries of a stack of neighborhoods: as fast as larger ones, and more tasks for threads
MIN_COMPILED_POINTS = 20_000  # points from which sums of small matrices are compiled, which takes four seconds once
MAX_LOOP_COLUMNS = 8
"""Columns up to which compiled loops do the algebra of many neighborhoods: BLAS and LAPACK take a lock for the memory
of every call, for which threads would wait."""
MIN_SHARED_ROWS = 4096  # minimum number of rows of a task that sums them


@dataclass(frozen=True)
class Stack:
    """Neighborhoods of one size: their centers (m,) and members (m, s), in the order of the lists."""

    centers: IntArray
    members: IntArray


def stacks(
    neighbors: NeighborGraph, width: int, *, with_center: bool, points: IntArray | None = None
) -> Iterator[Stack]:
    """Group the lists of ``neighbors`` into stacks of equal length, each point first in its list if ``with_center``.

    ``points`` are those whose lists are meant, in order, by default all.
    """
    points = np.arange(neighbors.n_points) if points is None else points
    degrees = neighbors.degrees[points]
    for degree in np.flatnonzero(np.bincount(degrees)):
        if degree == 0 and not with_center:
            continue
        centers = points[degrees == degree]
        size = int(degree) + with_center
        step = max(1, MAX_STACKED // (size * max(size, width)))
        for lo in range(0, len(centers), step):
            chosen = centers[lo : lo + step]
            first = neighbors.indptr[chosen]
            if chosen[-1] - chosen[0] == len(chosen) - 1:  # lists that follow each other are not copied
                members = neighbors.indices[first[0] : first[-1] + degree].reshape(len(chosen), degree)
            else:
                members = neighbors.indices[first[:, None] + np.arange(degree)]
            yield Stack(chosen, np.column_stack([chosen, members]) if with_center else members)


def use_loops(sample: NeighborhoodData) -> bool:
    """Return whether compiled loops do the algebra of the neighborhoods of a sample: many points of few columns."""
    rows = not (sample.X is None or sample.pairwise or issparse(sample.X))
    return rows and sample.n_points >= MIN_COMPILED_POINTS and bool(sample.X.shape[1] <= MAX_LOOP_COLUMNS)


def local_grams(sample: NeighborhoodData, stack: Stack, *, about_center: bool) -> FloatArray:
    """Return the inner products of each neighborhood's members (m, s, s), about the center point or their mean."""
    if sample.pairwise:
        return grams_from_distances(sample.X, stack, about_center=about_center)
    rows = gather(sample.X, stack.members)
    rows -= gather(sample.X, stack.centers)[:, None] if about_center else rows.mean(axis=1, keepdims=True)
    return rows @ rows.transpose(0, 2, 1)


def gather(X: Any, members: IntArray) -> FloatArray:
    """Return the rows ``members`` of ``X``, dense in float64: the shape of ``members`` and one more axis."""
    if not issparse(X):
        return np.asarray(X[members], dtype=np.float64)
    rows = X[members.reshape(-1)].astype(np.float64)
    return rows.toarray().reshape(*members.shape, rows.shape[1])


def dense(X: Any) -> FloatArray:
    """Return rows as a dense array of float64."""
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def dense_rows(X: Any, run: Run) -> Any:
    """Return ``X`` if it is dense, else as a dense array whose size is announced."""
    if not issparse(X):
        return X
    run.announce("dense rows", 8 * X.shape[0] * X.shape[1])
    return X.toarray()


def map_rows(
    work: Callable[[int, int], Array], shape: tuple[int, int], grain: int, run: Run, *, blas: bool = False
) -> FloatArray:
    """Return an array whose rows ``lo`` to ``hi`` are ``work(lo, hi)``, computed in parallel, ``grain`` at a time."""
    rows = np.empty(shape)

    def block(lo: int, hi: int) -> None:
        rows[lo:hi] = work(lo, hi)

    run.map(block, run.ranges(shape[0], max(1, grain)), blas=blas)
    return rows


def row_width(sample: NeighborhoodData) -> int:
    """Return the number of columns gathered per member of a neighborhood: 1 where distances are given."""
    require_points(sample)
    return 1 if sample.pairwise else int(sample.X.shape[1])


def require_points(sample: NeighborhoodData) -> None:
    """Raise an error for a sample that is only a graph."""
    if sample.X is None:
        raise ValueError("Local geometry needs points or all pairwise distances; got only a graph.")


def grams_from_distances(D: FloatArray, stack: Stack, *, about_center: bool) -> FloatArray:
    """Return the inner products of `local_grams` from all pairwise distances."""
    between = D[stack.members[:, :, None], stack.members[:, None, :]].astype(np.float64) ** 2
    if about_center:
        squares = D[stack.centers[:, None], stack.members].astype(np.float64) ** 2
        return 0.5 * (squares[:, :, None] + squares[:, None, :] - between)
    means = between.mean(axis=2)
    centered = between - means[:, :, None] - means[:, None, :] + means.mean(axis=1)[:, None, None]
    return -0.5 * centered


def sum_outer(
    parts: list[tuple[IntArray, FloatArray]], n_points: int, run: Run, *, complement: bool = False
) -> csr_array:
    """Return the n x n sum of F F' (``complement``: I - F F') of matrices F (m, s, r) at the rows of members (m, s)."""
    if not parts:  # all points are duplicates
        return csr_array((n_points, n_points))
    if n_points < MIN_COMPILED_POINTS:
        products = [F @ F.transpose(0, 2, 1) for _, F in parts]
        data = np.concatenate([(np.eye(P.shape[1]) - P if complement else P).ravel() for P in products])
        rows = np.concatenate([np.repeat(members, members.shape[1], axis=1).ravel() for members, _ in parts])
        columns = np.concatenate([np.tile(members, (1, members.shape[1])).ravel() for members, _ in parts])
        return coo_array((data, (rows, columns)), shape=(n_points, n_points)).tocsr()
    from manifoldry._numerics.kernels.assembly import sum_rows

    ends, origins = (_ends([array.shape for array in arrays]) for arrays in zip(*parts, strict=True))
    members, values = joined(
        ([array.ravel() for array in arrays] for arrays in zip(*parts, strict=True)), run, np.int32
    )
    start, block, place = reversed_lists(ends, members, n_points, run)
    state = (ends, members, origins, values, start, block, place, complement)
    sums = run.map(sum_rows, [(*state, lo, hi) for lo, hi in run.shares(n_points, MIN_SHARED_ROWS)])
    counts, indices, data = joined(zip(*sums, strict=True), run)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # scipy would copy the indices into the wider type of the two
    total = csr_array((data, indices, indptr), shape=(n_points, n_points))
    total.has_sorted_indices = True  # as they are, which scipy would look for
    return total


def _ends(shapes: list[tuple[int, ...]]) -> IntArray:
    """Return where the parts of stacks of arrays end if all are stored one after the other; the first entry is 0."""
    sizes = np.concatenate([np.full(shape[0], np.prod(shape[1:], dtype=np.int64)) for shape in shapes])
    return np.concatenate([[0], np.cumsum(sizes)])
