"""The kernels of layouts in a form that can be vectorized, and the potential of a layout summed over all pairs."""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

MANTISSA_BITS = 52
EXPONENT_BIAS = 1023  # the lowest exponent bit of a float64, and the bias of its exponent
FAST = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy"}
"""Sums may be reordered and divisions are not checked for zero: loops are not vectorized otherwise."""
POINTS_PER_PASS = 512
"""Points summed at a time: their squared distances, kernel values and slopes stay in the first-level cache."""
MAX_EXPONENT = 708.0  # below exp(-708) a float64 is no longer normal; such a value counts as 0


@nb.njit(forceinline=True, **FAST)
def exp_minus(x):  # type: ignore[no-untyped-def]
    """Return exp(-x) for x >= 0 to about 1e-16 x: a power of two times a polynomial on |r| <= ln(2) / 2."""
    clipped = min(x, MAX_EXPONENT)
    k = np.floor(clipped * 1.4426950408889634 + 0.5)
    r = k * 0.6931471805599453 - clipped
    p = r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r / 479001600))))
    p = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + p)))))))
    power = np.int64((np.int64(EXPONENT_BIAS) - np.int64(k)) << MANTISSA_BITS).view(np.float64)
    return p * power if x < MAX_EXPONENT else 0.0


@nb.njit(forceinline=True, **FAST)
def log_above_one(x):  # type: ignore[no-untyped-def]
    """Return ln(x) for x >= 1: the exponent, and 2 artanh(f) of the rest, |f| <= 0.172."""
    bits = np.float64(x * 0.7071067811865476).view(np.int64)
    exponent = (bits >> MANTISSA_BITS) - np.int64(EXPONENT_BIAS) + 1
    rest = x * np.int64((np.int64(EXPONENT_BIAS) - exponent) << MANTISSA_BITS).view(np.float64)
    f = (rest - 1.0) / (rest + 1.0)
    q = f * f
    tail = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q / 21)))))
    return exponent * 0.6931471805599453 + 2.0 * f * (1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * tail))))


@nb.njit(forceinline=True, **FAST)
def student_t(s, dof):  # type: ignore[no-untyped-def]
    """Return (1 + s / dof) ** (-(dof + 1) / 2)."""
    return exp_minus(0.5 * (dof + 1.0) * log_above_one(1.0 + s / dof))


@nb.njit(forceinline=True, **FAST)
def kernel_and_slope(square, charge, gaussian, dof, value, slope):  # type: ignore[no-untyped-def]
    """Write c w(s) and 2 c w'(s) of squared distances and charges, into other arrays."""
    if gaussian:
        for j in range(len(square)):
            w = charge[j] * exp_minus(square[j])
            value[j], slope[j] = w, -2.0 * w
    elif dof == 1.0:
        for j in range(len(square)):
            inverse = 1.0 / (1.0 + square[j])
            w = charge[j] * inverse
            value[j], slope[j] = w, -2.0 * w * inverse
    else:
        for j in range(len(square)):
            s = square[j]
            w = charge[j] * student_t(s, dof)
            value[j], slope[j] = w, -(dof + 1.0) * w / (dof + s)


@nb.njit(forceinline=True, **FAST)
def _sum_in_plane(x, y, xs, ys, charges):  # type: ignore[no-untyped-def]
    """Return the potential of t-SNE's kernel at a position in the plane, and the two parts of its gradient.

    One loop without buffers, four times as fast as the general one.
    """
    phi, across, down = 0.0, 0.0, 0.0
    for j in range(len(xs)):
        dx, dy = x - xs[j], y - ys[j]
        inverse = 1.0 / (1.0 + (dx * dx + dy * dy))
        w = charges[j] * inverse
        phi += w
        across += w * inverse * dx
        down += w * inverse * dy
    return phi, -2.0 * across, -2.0 * down


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], int64[::1], boolean, float64, float64[::1], float64[:, ::1], "
    "int64, int64)",
    forceinline=True,
    **FAST,
)
def sum_all_pairs(positions, columns, charges, excluded, gaussian, dof, phi, grad, lo, hi):  # type: ignore[no-untyped-def]
    """For positions lo..hi write ``phi = sum_j c_j w(s)`` and ``grad = sum_j 2 c_j w'(s) (y - y_j)``.

    ``columns`` (d, n) are the layout's coordinates. Position i ignores point ``excluded[i]`` unless that is negative.
    """
    n_dims, n = columns.shape
    if n_dims == 2 and not gaussian and dof == 1.0:
        for i in range(lo, hi):
            x, y, own = positions[i, 0], positions[i, 1], excluded[i] if excluded[i] >= 0 else n
            phi[i], grad[i, 0], grad[i, 1] = _sum_in_plane(x, y, columns[0, :own], columns[1, :own], charges[:own])
            after = _sum_in_plane(x, y, columns[0, own + 1 :], columns[1, own + 1 :], charges[own + 1 :])
            phi[i], grad[i, 0], grad[i, 1] = phi[i] + after[0], grad[i, 0] + after[1], grad[i, 1] + after[2]
        return
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
