"""Local radii of a layout along the edges of a graph, and their derivatives by the coordinates."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel

SYMMETRIC_EDGES = "int64[::1], int32[::1], float32[:, ::1]"  # edges in compressed rows, both ways, and the layout


@kernel(f"void({SYMMETRIC_EDGES}, float64, float64, float64[::1], float64[:, ::1], int64, int64)")
def sum_rows(indptr, indices, Y, a, b, kernel, sums, lo, hi):  # type: ignore[no-untyped-def]
    """Write the kernel q of the edges of rows lo..hi, and the ``sums`` of q s and of q, s the squared distance."""
    for i in range(lo, hi):
        moment, total = 0.0, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            s = 0.0
            for c in range(Y.shape[1]):
                gap = np.float64(Y[i, c]) - np.float64(Y[j, c])
                s += gap * gap
            q = 1.0 / (1.0 + a * s**b)
            kernel[e] = q
            moment += q * s
            total += q
        sums[i, 0], sums[i, 1] = moment, total


@kernel(f"void({SYMMETRIC_EDGES}, float64, float64[::1], float64[:, ::1], float64[:, ::1], int64, int64)")
def differentiate_rows(indptr, indices, Y, b, kernel, slopes, gradient, lo, hi):  # type: ignore[no-untyped-def]
    r"""Write the derivatives of a function of the radii by the coordinates of the points lo..hi.

    With :math:`R = \sum q s / \sum q`, ``slopes`` holds :math:`(f' / \sum q, R)` of every point, f' the derivative by
    R; :math:`dR/ds = (q + s q' - R q') / \sum q` and :math:`s q' = -b (1 - q) q`.
    """
    for i in range(lo, hi):
        for c in range(Y.shape[1]):
            gradient[i, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            s = 0.0
            for c in range(Y.shape[1]):
                gap = np.float64(Y[i, c]) - np.float64(Y[j, c])
                s += gap * gap
            if s == 0.0:  # coinciding points have no direction
                continue
            q = kernel[e]
            decay = b * (1.0 - q) * q
            own_slope = slopes[i, 0] * (q - decay + slopes[i, 1] * decay / s)
            other_slope = slopes[j, 0] * (q - decay + slopes[j, 1] * decay / s)
            factor = 2.0 * (own_slope + other_slope)
            for c in range(Y.shape[1]):
                gradient[i, c] += factor * (np.float64(Y[i, c]) - np.float64(Y[j, c]))
