"""k-means of weighted rows of few columns: seeds by k-means++, Lloyd's iterations, and the stage that both rest on.

Sums over all rows are taken in fixed blocks and added in their order.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import TICKETS, draw, finish, ready
from manifoldry._numerics.kernels.all_pairs import FAST

TILE = 128  # rows at a time: their coordinates fit into the cache of a core
_vector, _matrix, _labels = "float64[::1]", "float64[:, ::1]", "int64[::1]"


@kernel(f"void({_matrix}, {_vector}, {_matrix}, int64, int64, {_labels}, {_matrix})", error_model="numpy")
def assign_and_sum(rows, weights, centers, lo, hi, labels, sums):  # type: ignore[no-untyped-def]
    """Write the nearest center of ``rows[lo:hi]`` to ``labels``, and add these rows to the sums of their centers.

    ``sums`` (k, d + 2) are those of the weighted rows, of the weights and of the weighted squared distances; with no
    row of its own it is left out.
    """
    k, d = centers.shape
    x, gap, best, nearest = np.zeros((d, TILE)), np.empty(TILE), np.empty(TILE), np.zeros(TILE, np.int64)
    squares = np.zeros(k)
    for c in range(k):
        for a in range(d):
            squares[c] += centers[c, a] * centers[c, a]
    for start in range(lo, hi, TILE):
        count = min(TILE, hi - start)
        for t in range(count):
            for a in range(d):
                x[a, t] = rows[start + t, a]
        best[:] = np.inf
        for c in range(k):  # without |x|^2, the same for all centers
            for t in range(TILE):
                gap[t] = squares[c]
            for a in range(d):
                step = 2 * centers[c, a]
                for t in range(TILE):
                    gap[t] -= step * x[a, t]
            for t in range(TILE):
                nearest[t] = c if gap[t] < best[t] else nearest[t]
                best[t] = min(gap[t], best[t])
        labels[start : start + count] = nearest[:count]
        if len(sums) == 0:
            continue
        for t in range(count):
            weight, total = weights[start + t], sums[nearest[t]]
            square = best[t]
            for a in range(d):
                total[a] += weight * x[a, t]
                square += x[a, t] * x[a, t]
            total[d] += weight
            total[d + 1] += weight * max(square, 0.0)


@kernel(
    f"void({TICKETS}, {_matrix}, {_vector}, {_matrix}, int64, int64, {_labels}, float64[:, :, ::1])",
    error_model="numpy",
)
def lloyd(tickets, rows, weights, centers, size, n_steps, labels, sums):  # type: ignore[no-untyped-def]
    """Move the centers to the means of their rows ``n_steps`` times; one without rows stays where it is.

    ``sums`` (blocks, k, d + 2) are those of each block of ``size`` rows.
    """
    n_blocks, d = len(sums), rows.shape[1]
    while True:
        number = draw(tickets)
        step, block = number // (n_blocks + 1), number % (n_blocks + 1)
        if step >= n_steps or not ready(tickets, number - block if block < n_blocks else number):
            return
        if block < n_blocks:
            sums[block] = 0.0
            assign_and_sum(
                rows, weights, centers, block * size, min((block + 1) * size, len(rows)), labels, sums[block]
            )
        else:
            for other in range(1, n_blocks):
                sums[0] += sums[other]
            for c in range(len(centers)):
                if sums[0, c, d] > 0:
                    centers[c] = sums[0, c, :d] / sums[0, c, d]
        finish(tickets)


@nb.njit(forceinline=True, **FAST)
def _potential(columns, weights, center, nearest, gap):  # type: ignore[no-untyped-def]
    """Return the weighted sum of ``gap``: the least squared distances of some rows, with one more center."""
    for i in range(len(gap)):
        gap[i] = 0.0
    for a in range(len(columns)):
        column, at = columns[a], center[a]
        for i in range(len(gap)):
            gap[i] += (column[i] - at) * (column[i] - at)
    total = 0.0
    for i in range(len(gap)):
        gap[i] = gap[i] if gap[i] < nearest[i] else nearest[i]
        total += weights[i] * gap[i]
    return total


@nb.njit
def _drawn(weights, nearest, sums, size, share):  # type: ignore[no-untyped-def]
    """Return the row at which the sum of weight times squared distance exceeds a share of the sum over all."""
    left, block = share * sums.sum(), 0
    while block < len(sums) - 1 and left >= sums[block]:
        left -= sums[block]
        block += 1
    i = min(block * size, len(weights) - 1)
    while i < min((block + 1) * size, len(weights)) - 1 and left >= weights[i] * nearest[i]:
        left -= weights[i] * nearest[i]
        i += 1
    return i


@kernel(
    f"void({TICKETS}, {_matrix}, {_vector}, {_matrix}, int64, {_vector}, {_vector}, {_matrix}, {_labels}, {_matrix})"
)
def seed(tickets, columns, weights, draws, size, nearest, sums, potentials, candidates, centers):  # type: ignore[no-untyped-def]
    """Choose centers (k, d) among the rows, given by ``columns`` (d, n), by greedy k-means++.

    Of the rows that the numbers ``draws`` (k, trials) choose, in proportion to weight times squared distance from the
    nearest center, the one that lowers the sum of these most is the next center. ``nearest`` (n,) are these distances,
    one at the beginning; ``sums`` (blocks,) and ``potentials`` (blocks, trials) those sums, and with each candidate.
    """
    n, (n_blocks, n_trials) = len(weights), potentials.shape
    round_of, spare = 2 * n_blocks + 2, np.empty(size)
    while True:
        number = draw(tickets)
        c, place = number // round_of, number % round_of
        block = place - 1 if place <= n_blocks else place - n_blocks - 2
        if c >= len(centers) or not ready(tickets, number - max(block, 0) if place else number):
            return
        lo, hi = min(max(block, 0) * size, n), min((block + 1) * size, n)
        x, w, known, gap = columns[:, lo:hi], weights[lo:hi], nearest[lo:hi], spare[: hi - lo]
        if place == 0:
            for t in range(n_trials):
                candidates[t] = _drawn(weights, nearest, sums, size, draws[c, t])
            if c == 0:
                nearest[:] = np.inf
        elif place <= n_blocks:
            for t in range(n_trials):
                center = columns[:, candidates[t]]
                potentials[block, t] = _potential(x, w, center, known, gap)
        elif place == n_blocks + 1:
            totals = potentials.sum(axis=0)
            centers[c] = columns[:, candidates[np.argmin(totals)]]
        else:
            sums[block] = _potential(x, w, centers[c], known, gap)
            known[:] = gap
        finish(tickets)
