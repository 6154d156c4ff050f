"""The attractive term of a divergence, and the likelihood of affinities under a layout."""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._numerics.kernels.all_pairs import FAST, log_above_one

EDGES_PER_PASS = 256
"""Edges fetched at a time: coordinates are fetched one by one, and then the rest is computed with vectors."""

_rows = "int64[::1], int32[::1], {real}[::1], {real}[:, ::1], boolean, float64"


@nb.njit(forceinline=True, **FAST)
def attraction_2d(i, indptr, indices, affinities, Y, per_dof, across, down):  # type: ignore[no-untyped-def]
    """Return ``sum_j p_ij (y_i - y_j) / (1 + s_ij / dof)`` in the plane; the last two arguments are buffers."""
    x, y, one = Y[i, 0], Y[i, 1], Y.dtype.type(1.0)
    sum_x, sum_y = Y.dtype.type(0.0), Y.dtype.type(0.0)
    for start in range(indptr[i], indptr[i + 1], EDGES_PER_PASS):
        end = min(start + EDGES_PER_PASS, indptr[i + 1])
        # Indices into slices need no test for negative ones.
        near, p, dx, dy = indices[start:end], affinities[start:end], across[: end - start], down[: end - start]
        for e in range(len(near)):
            other = Y[near[e]]
            dx[e], dy[e] = x - other[0], y - other[1]
        for e in range(len(near)):
            f = p[e] / (one + per_dof * (dx[e] * dx[e] + dy[e] * dy[e]))
            sum_x += f * dx[e]
            sum_y += f * dy[e]
    return sum_x, sum_y


@kernel(
    [f"void({_rows}, {{real}}[:, ::1], int64, int64)".format(real=real) for real in ("float64", "float32")],
    forceinline=True,
    **FAST,
)
def attraction_rows(indptr, indices, affinities, Y, gaussian, dof, out, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``sum_j p_ij g(s_ij) (y_i - y_j)``, g = -d ln w / ds of the kernel, s squared distances."""
    n_dims = Y.shape[1]
    one = Y.dtype.type(1.0)
    per_dof = Y.dtype.type(0.0 if gaussian else 1.0 / dof)
    factor = Y.dtype.type(1.0 if gaussian else (dof + 1.0) / (2.0 * dof))
    if n_dims == 2:
        across, down = np.empty(EDGES_PER_PASS, Y.dtype), np.empty(EDGES_PER_PASS, Y.dtype)
        for i in range(lo, hi):
            sum_x, sum_y = attraction_2d(i, indptr, indices, affinities, Y, per_dof, across, down)
            out[i, 0], out[i, 1] = factor * sum_x, factor * sum_y
        return
    for i in range(lo, hi):
        for c in range(n_dims):
            out[i, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            s = Y.dtype.type(0.0)
            for c in range(n_dims):
                step = Y[i, c] - Y[j, c]
                s += step * step
            f = factor * affinities[e] / (one + per_dof * s)
            for c in range(n_dims):
                out[i, c] += f * (Y[i, c] - Y[j, c])


@kernel([f"void({_rows}, float64[::1], int64, int64)".format(real=real) for real in ("float64", "float32")], **FAST)
def log_kernel_rows(indptr, indices, affinities, Y, gaussian, dof, out, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``sum_j p_ij ln w(s_ij)``."""
    n_dims, squares = Y.shape[1], np.empty(EDGES_PER_PASS)
    for i in range(lo, hi):
        total = 0.0
        for start in range(indptr[i], indptr[i + 1], EDGES_PER_PASS):
            end = min(start + EDGES_PER_PASS, indptr[i + 1])
            near, p, square = indices[start:end], affinities[start:end], squares[: end - start]
            for e in range(len(near)):
                other, s = Y[near[e]], 0.0
                for c in range(n_dims):
                    step = np.float64(Y[i, c]) - np.float64(other[c])
                    s += step * step
                square[e] = s
            if gaussian:
                for e in range(len(near)):
                    total -= p[e] * square[e]
            else:
                for e in range(len(near)):
                    total -= p[e] * 0.5 * (dof + 1.0) * log_above_one(1.0 + square[e] / dof)
        out[i] = total
