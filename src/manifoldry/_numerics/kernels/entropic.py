"""Bandwidths that give each point's list of neighbors a target perplexity."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

MAX_NEWTON_STEPS = 200


@nb.njit(error_model="numpy")
def perplexity_row(lengths, log_perplexity, tol, p):  # type: ignore[no-untyped-def]
    """Write ``p = exp(-precision d^2) / sum`` of a row; return the precision, and whether the entropy is reached.

    Newton's method on the logarithm of the precision, kept inside a bracket that is halved if a step leaves it.
    """
    nearest, farthest = np.inf, 0.0
    for e in range(len(lengths)):
        length = np.float64(lengths[e])
        nearest = min(nearest, length)
        farthest = max(farthest, length)
    # Distances are in units of the farthest, and squares are relative to that of the nearest: no overflow.
    unit = farthest if farthest > 0.0 else 1.0
    floor = (nearest / unit) ** 2
    low, high = 0.0, np.inf
    beta = 1.0
    reached = 0
    for _ in range(MAX_NEWTON_STEPS):
        total, first, second = 0.0, 0.0, 0.0
        for e in range(len(lengths)):
            s = (np.float64(lengths[e]) / unit) ** 2 - floor
            w = math.exp(-beta * s)
            p[e] = w
            total += w
            first += w * s
            second += w * s * s
        mean = first / total
        entropy = math.log(total) + beta * mean
        gap = entropy - log_perplexity
        if abs(gap) <= tol:
            reached = 1
            break
        if gap > 0.0:
            low = beta
        else:
            high = beta
        # d entropy / d log(beta) = -beta^2 var(s)
        slope = -beta * beta * (second / total - mean * mean)
        step = -gap / slope if slope < 0.0 else 0.0
        beta = beta * math.exp(min(max(step, -3.0), 3.0))
        if step == 0.0 or not (low < beta < high):
            beta = 0.5 * (low + high) if high < np.inf else 10.0 * low
        if beta > 1e30 or beta < 1e-30:
            break
    total = 0.0
    for e in range(len(lengths)):
        total += p[e]
    for e in range(len(lengths)):
        p[e] /= total
    return beta / (unit * unit), reached


@kernel(
    "void(int64[::1], float64[::1], float64, float64, float64[::1], float64[::1], uint8[::1], int64, int64)",
    error_model="numpy",
)
def perplexity_rows(indptr, lengths, perplexity, tol, p, precision, reached, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``p = exp(-precision d^2) / sum`` with entropy ``log(perplexity)`` within ``tol``.

    A row that cannot have this entropy (too many equal distances, too few neighbors) gets the nearest possible.
    """
    target = np.log(perplexity)
    for i in range(lo, hi):
        a, b = indptr[i], indptr[i + 1]
        precision[i], reached[i] = perplexity_row(lengths[a:b], target, tol, p[a:b])
