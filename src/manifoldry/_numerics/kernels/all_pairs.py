"""The potential of a layout and its gradient, summed over all pairs."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._numerics.kernels.layout_kernels import FAST, kernel_and_slope

POINTS_PER_PASS = 512
"""Points summed at a time: their squared distances, kernel values and slopes stay in the first-level cache."""


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], int64[::1], boolean, float64, float64[::1], float64[:, ::1], "
    "int64, int64)",
    **FAST,
)
def sum_all_pairs(positions, columns, charges, excluded, gaussian, dof, phi, grad, lo, hi):  # type: ignore[no-untyped-def]
    """For positions lo..hi write ``phi = sum_j c_j w(s)`` and ``grad = sum_j 2 c_j w'(s) (y - y_j)``.

    ``columns`` (d, n) are the layout's coordinates, one row per dimension so that the loops over j access memory in
    order. Position i ignores point ``excluded[i]`` of the layout, or none if that is negative.
    """
    n_dims, n = columns.shape
    squares, values, slopes = np.empty(POINTS_PER_PASS), np.empty(POINTS_PER_PASS), np.empty(POINTS_PER_PASS)
    for i in range(lo, hi):
        phi[i] = 0.0
        for c in range(n_dims):
            grad[i, c] = 0.0
        for start in range(0, n, POINTS_PER_PASS):
            end = min(start + POINTS_PER_PASS, n)
            # Indices into slices need no test for negative ones.
            square, value, slope = squares[: end - start], values[: end - start], slopes[: end - start]
            for j in range(len(square)):
                square[j] = 0.0
            for c in range(n_dims):
                x, xs = positions[i, c], columns[c, start:end]
                for j in range(len(square)):
                    step = x - xs[j]
                    square[j] += step * step
            kernel_and_slope(square, charges[start:end], gaussian, dof, value, slope)
            if start <= excluded[i] < end:
                value[excluded[i] - start] = 0.0
            total = 0.0
            for j in range(len(value)):
                total += value[j]
            phi[i] += total
            for c in range(n_dims):
                x, xs = positions[i, c], columns[c, start:end]
                total = 0.0
                for j in range(len(value)):
                    total += slope[j] * (x - xs[j])
                grad[i, c] += total
