"""Compiled loops over dense fronts, with the BLAS of scipy called by address and without the interpreter's lock.

A front t has the columns ``fronts[t, 0]`` to ``fronts[t, 1]``, the children ``fronts[t, 2:]`` (-1 for none) and the
border ``rows[start[t]:stop[t]]``. Its part of the factor L, all rows of its columns, is stored by columns from
``offset[t]`` on; its update S of the border is a matrix stored by columns, of which the lower triangle is used.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.core.cgutils import ir
from numba.extending import get_cython_function_address, intrinsic

from manifoldry._core.kernel import kernel, part

BLAS = np.array([get_cython_function_address("scipy.linalg.cython_blas", name) for name in ("dgemm", "dtrsm")])
"""Addresses of the functions, which differ between processes: compiled code on disk must not contain them."""
BLOCK = 32  # columns of a diagonal block that is factored without BLAS
TILE = 128  # rows or columns of a task of a large front

_tree = "int64[:, ::1], int64[::1], int64[::1], int32[::1], int64[::1]"
_matrix = "int64[::1], int32[::1], float64[::1], float64[::1], int32[::1], int32[::1]"


@intrinsic
def _call(_typing, _address, arguments):  # type: ignore[no-untyped-def]
    """Call a function at an address with a tuple of addresses."""

    def generate(context, builder, _signature, values):  # type: ignore[no-untyped-def]
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer] * len(arguments))
        given = [builder.inttoptr(builder.extract_value(values[1], i), pointer) for i in range(len(arguments))]
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), generate


@part
def _subtract(blas, left, right, m, n, k, a, lda, b, ldb, c, ldc):  # type: ignore[no-untyped-def]
    """C -= A B at addresses, of shapes (m, k) and (k, n); with ``left`` or ``right`` that factor is transposed."""
    letters, sizes, scales = np.empty(2, np.uint8), np.empty(6, np.int32), np.empty(2)
    letters[0], letters[1] = 84 if left else 78, 84 if right else 78
    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5] = m, n, k, lda, ldb, ldc
    scales[0], scales[1] = -1.0, 1.0
    at, size, scale = letters.ctypes.data, sizes.ctypes.data, scales.ctypes.data
    if m and n and k:
        _call(
            blas[0], (at, at + 1, size, size + 4, size + 8, scale, a, size + 12, b, size + 16, scale + 8, c, size + 20)
        )
    letters[0] = sizes[0] = scales[0] = 0  # the arrays must outlive the call


@part
def _divide(blas, right, transposed, m, n, a, lda, b, ldb):  # type: ignore[no-untyped-def]
    """B := L^-1 B, or B L^-1 with ``right``, at addresses; B is (m, n), L is lower triangular or ``transposed``."""
    letters, sizes, scales = np.empty(4, np.uint8), np.empty(4, np.int32), np.ones(1)
    letters[0], letters[1], letters[2], letters[3] = 82 if right else 76, 76, 84 if transposed else 78, 78
    sizes[0], sizes[1], sizes[2], sizes[3] = m, n, lda, ldb
    at, size = letters.ctypes.data, sizes.ctypes.data
    if m and n:
        _call(blas[1], (at, at + 1, at + 2, at + 3, size, size + 4, scales.ctypes.data, a, size + 8, b, size + 12))
    letters[0] = sizes[0] = scales[0] = 0


@part
def _entries(  # type: ignore[no-untyped-def]
    indptr, indices, data, diagonal, order, place, fronts, start, stop, rows, offset, L, t
):
    """Add the entries of the matrix in the columns of a front to L, which is zero."""
    lo, hi = fronts[t, 0], fronts[t, 1]
    own, border = hi - lo, rows[start[t] : stop[t]]
    size = own + len(border)
    for p in range(lo, hi):
        column = offset[t] + (p - lo) * size
        for e in range(indptr[order[p]], indptr[order[p] + 1]):
            v = place[indices[e]]
            if v >= p:
                L[column + (v - lo if v < hi else own + np.searchsorted(border, v))] = data[e]
        L[column + p - lo] += diagonal[order[p]]


@part
def _spots(fronts, start, stop, rows, t, child):  # type: ignore[no-untyped-def]
    """Return the places of a child's border among the columns and the border of a front."""
    lo, hi = fronts[t, 0], fronts[t, 1]
    border, q = rows[start[child] : stop[child]], start[t]
    spots = np.empty(len(border), np.uint32)
    for i in range(len(border)):
        if border[i] < hi:
            spots[i] = border[i] - lo
        else:
            while rows[q] != border[i]:
                q += 1
            spots[i] = hi - lo + q - start[t]
    return spots


@part
def _clear(border, S, at, lo, hi):  # type: ignore[no-untyped-def]
    """Write zeros to columns ``lo`` to ``hi`` of S (at ``at``)."""
    for j in range(lo, hi):
        S[at + j * border + j : at + (j + 1) * border] = 0.0


@part
def _extend(  # type: ignore[no-untyped-def]
    fronts, start, stop, rows, offset, L, t, S, at, child, update, shift, first, last
):
    """Add the columns ``first`` to ``last`` of a child's update (from ``shift`` on) to L and S of a front."""
    spots = _spots(fronts, start, stop, rows, t, child)
    own, count, border = fronts[t, 1] - fronts[t, 0], len(spots), stop[t] - start[t]
    size = own + border
    for j in range(first, last):
        source, place = update[shift + j * count : shift + (j + 1) * count], spots[j]
        if place < own:
            target = L[offset[t] + place * size : offset[t] + (place + 1) * size]
            for i in range(j, count):
                target[spots[i]] += source[i]
        else:
            target = S[at + (place - own) * border : at + (place - own + 1) * border]
            for i in range(j, count):
                target[spots[i] - own] += source[i]


@kernel(f"int64(int64[::1], {_tree}, float64[::1], int64, float64)")
def factor_diagonal(blas, fronts, start, stop, _rows, offset, L, t, floor):  # type: ignore[no-untyped-def]
    """Factor the diagonal block of a front; return the number of pivots below ``floor``, which are raised to it."""
    own, raised = fronts[t, 1] - fronts[t, 0], 0
    size = own + stop[t] - start[t]
    for lo in range(0, own, BLOCK):
        hi = min(lo + BLOCK, own)
        for j in range(lo, hi):
            column = offset[t] + j * size
            if not L[column + j] > floor:
                L[column + j] = floor
                raised += 1
            root = np.sqrt(L[column + j])
            L[column + j] = root
            below = L[column + j + 1 : column + hi]
            for i in range(len(below)):
                below[i] /= root
            for k in range(len(below)):
                other, factor = L[column + (k + 1) * size + j + 1 : column + (k + 1) * size + hi], below[k]
                for i in range(k, len(below)):
                    other[i] -= factor * below[i]
        panel = L.ctypes.data + 8 * (offset[t] + lo * size)
        _divide(blas, 1, 1, own - hi, hi - lo, panel + 8 * lo, size, panel + 8 * hi, size)
        for k in range(hi, own, BLOCK):
            target = L.ctypes.data + 8 * (offset[t] + k * size + k)
            _subtract(
                blas,
                0,
                1,
                own - k,
                min(BLOCK, own - k),
                hi - lo,
                panel + 8 * k,
                size,
                panel + 8 * k,
                size,
                target,
                size,
            )
    return raised


@kernel(f"void(int64[::1], {_tree}, float64[::1], int64, int64, int64)")
def factor_rows(blas, fronts, start, stop, _rows, offset, L, t, lo, hi):  # type: ignore[no-untyped-def]
    """Rows ``lo`` to ``hi`` of the border in the factor of a front."""
    own = fronts[t, 1] - fronts[t, 0]
    size, base = own + stop[t] - start[t], L.ctypes.data + 8 * offset[t]
    _divide(blas, 1, 1, hi - lo, own, base, size, base + 8 * (own + lo), size)


@kernel(f"void(int64[::1], {_tree}, float64[::1], int64, float64[::1], int64, int64, int64)")
def update_columns(blas, fronts, start, stop, _rows, offset, L, t, S, at, lo, hi):  # type: ignore[no-untyped-def]
    """Columns ``lo`` to ``hi`` of the update of a front."""
    own, border = fronts[t, 1] - fronts[t, 0], stop[t] - start[t]
    size, base = own + border, L.ctypes.data + 8 * (offset[t] + own + lo)
    target = S.ctypes.data + 8 * (at + lo * border + lo)
    _subtract(blas, 0, 1, border - lo, hi - lo, own, base, size, base, size, target, border)


@kernel(f"void({_matrix}, {_tree}, float64[::1], int64)")
def add_entries(  # type: ignore[no-untyped-def]
    indptr, indices, data, diagonal, order, place, fronts, start, stop, rows, offset, L, t
):
    """Write the entries of the matrix in the columns of a front."""
    _entries(indptr, indices, data, diagonal, order, place, fronts, start, stop, rows, offset, L, t)


@kernel(f"void({_tree}, int64, float64[::1], int64, int64)")
def clear_columns(_fronts, start, stop, _rows, _offset, t, S, lo, hi):  # type: ignore[no-untyped-def]
    """Write zeros to columns of the update of a front."""
    _clear(stop[t] - start[t], S, 0, lo, hi)


@kernel(f"void({_tree}, float64[::1], int64, float64[::1], int64, float64[::1], int64, int64)")
def extend_columns(  # type: ignore[no-untyped-def]
    fronts, start, stop, rows, offset, L, t, S, child, update, lo, hi
):
    """Add columns of the update of a child to a front."""
    _extend(fronts, start, stop, rows, offset, L, t, S, 0, child, update, 0, lo, hi)


@kernel("int64[::1](int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def stack_updates(fronts, start, stop, chosen, at):  # type: ignore[no-untyped-def]
    """Write where the updates of a subtree are kept until their parent is done, on two stacks; return their sizes.

    The update of a front goes onto the stack that does not hold those of its children, which are its top.
    """
    above = np.zeros(len(chosen), np.int64)  # which stack: the parity of the height above the root
    for c in range(len(chosen) - 1, -1, -1):
        for child in fronts[chosen[c], 2:]:
            if child >= 0:
                above[child - chosen[0]] = 1 - above[c]
    ends, sizes = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for c in range(len(chosen)):
        t, stack = chosen[c], above[c]
        at[c] = ends[stack]
        ends[stack] += (stop[t] - start[t]) ** 2
        sizes[stack] = max(sizes[stack], ends[stack])
        if fronts[t, 2] >= 0:
            ends[1 - stack] = at[fronts[t, 2] - chosen[0]]
    at += np.where(above == 1, sizes[0], 0)
    return sizes


@kernel(f"int64(int64[::1], {_matrix}, {_tree}, float64[::1], int64[::1], int64[::1], float64[::1], float64)")
def factor_subtree(  # type: ignore[no-untyped-def]
    blas, indptr, indices, data, diagonal, order, place, fronts, start, stop, rows, offset, L, chosen, at, S, floor
):
    """Factor the fronts of a subtree, children first; return the number of raised pivots."""
    raised = 0
    for c in range(len(chosen)):
        t = chosen[c]
        border = stop[t] - start[t]
        _entries(indptr, indices, data, diagonal, order, place, fronts, start, stop, rows, offset, L, t)
        _clear(border, S, at[c], 0, border)
        for child in fronts[t, 2:]:
            if child >= 0:
                source, columns = at[child - chosen[0]], stop[child] - start[child]
                _extend(fronts, start, stop, rows, offset, L, t, S, at[c], child, S, source, 0, columns)
        raised += factor_diagonal(blas, fronts, start, stop, rows, offset, L, t, floor)
        factor_rows(blas, fronts, start, stop, rows, offset, L, t, 0, border)
        for lo in range(0, border, TILE):
            update_columns(blas, fronts, start, stop, rows, offset, L, t, S, at[c], lo, min(lo + TILE, border))
    return raised


@kernel(f"void(int64[::1], {_tree}, float64[::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def solve_forward(blas, fronts, start, stop, rows, offset, L, chosen, X, carried):  # type: ignore[no-untyped-def]
    """X := L^-1 X (one right-hand side per row), in the columns of chosen fronts, children first.

    ``carried`` holds, in the places of the borders in ``rows``, what a front subtracts from those.
    """
    for t in chosen:
        lo, hi = fronts[t, 0], fronts[t, 1]
        own, size = hi - lo, hi - lo + stop[t] - start[t]
        Y = np.zeros((len(X), size))
        Y[:, :own] = X[:, lo:hi]
        for child in fronts[t, 2:]:
            if child >= 0:
                spots = _spots(fronts, start, stop, rows, t, child)
                for column in range(len(X)):
                    for i in range(len(spots)):
                        Y[column, spots[i]] += carried[column, start[child] + i]
        base, right = L.ctypes.data + 8 * offset[t], Y.ctypes.data
        _divide(blas, 0, 0, own, len(X), base, size, right, size)
        _subtract(blas, 0, 0, size - own, len(X), own, base + 8 * own, size, right, size, right + 8 * own, size)
        X[:, lo:hi] = Y[:, :own]
        carried[:, start[t] : stop[t]] = Y[:, own:]


@kernel(f"void(int64[::1], {_tree}, float64[::1], int64[::1], float64[:, ::1])")
def solve_backward(blas, fronts, start, stop, rows, offset, L, chosen, X):  # type: ignore[no-untyped-def]
    """X := L^-T X, in the columns of chosen fronts, parents first."""
    for t in chosen[::-1]:
        lo, hi = fronts[t, 0], fronts[t, 1]
        own, size = hi - lo, hi - lo + stop[t] - start[t]
        Y = np.empty((len(X), size))
        Y[:, :own] = X[:, lo:hi]
        for column in range(len(X)):
            for i in range(size - own):
                Y[column, own + i] = X[column, rows[start[t] + i]]
        base, right = L.ctypes.data + 8 * offset[t], Y.ctypes.data
        _subtract(blas, 1, 0, own, len(X), size - own, base + 8 * own, size, right + 8 * own, size, right, size)
        _divide(blas, 0, 1, own, len(X), base, size, right, size)
        X[:, lo:hi] = Y[:, :own]
