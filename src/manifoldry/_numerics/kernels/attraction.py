"""The attractive term of a divergence, and the likelihood of affinities under a layout."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel

_rows = "int64[::1], int32[::1], {real}[::1], {real}[:, ::1], boolean, float64"


@kernel(
    [f"void({_rows}, {{real}}[:, ::1], int64, int64)".format(real=real) for real in ("float64", "float32")],
    error_model="numpy",
    fastmath={"reassoc", "contract", "nsz", "arcp"},
)
def attraction_rows(indptr, indices, affinities, Y, gaussian, dof, out, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``sum_j p_ij g(s_ij) (y_i - y_j)``, g = -d ln w / ds of the kernel, s squared distances."""
    n_dims = Y.shape[1]
    one = Y.dtype.type(1.0)
    per_dof = Y.dtype.type(0.0 if gaussian else 1.0 / dof)
    factor = Y.dtype.type(1.0 if gaussian else (dof + 1.0) / (2.0 * dof))
    if n_dims == 2:
        for i in range(lo, hi):
            x, y = Y[i, 0], Y[i, 1]
            sum_x, sum_y = Y.dtype.type(0.0), Y.dtype.type(0.0)
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                dx, dy = x - Y[j, 0], y - Y[j, 1]
                f = affinities[e] / (one + per_dof * (dx * dx + dy * dy))
                sum_x += f * dx
                sum_y += f * dy
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


@kernel(
    [f"void({_rows}, float64[::1], int64, int64)".format(real=real) for real in ("float64", "float32")],
    error_model="numpy",
)
def log_kernel_rows(indptr, indices, affinities, Y, gaussian, dof, out, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``sum_j p_ij ln w(s_ij)``."""
    n_dims = Y.shape[1]
    for i in range(lo, hi):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            s = 0.0
            for c in range(n_dims):
                step = np.float64(Y[i, c]) - np.float64(Y[j, c])
                s += step * step
            total -= affinities[e] * (s if gaussian else 0.5 * (dof + 1.0) * np.log1p(s / dof))
        out[i] = total
