"""Re-ranking: candidates sorted by exact distance."""

from __future__ import annotations

import numpy as np

from manifoldry.compiled.kernel import kernel


@kernel(
    [
        f"void(float64[:, ::1], {real}[:, ::1], int32[:, ::1], float64[:, ::1], int64[:, ::1])"
        for real in ("float64", "float32")
    ],
    fastmath={"reassoc", "contract", "nsz"},
)
def rank(Q, X, candidates, distances, indices):  # type: ignore[no-untyped-def]
    """Write the nearest of each row's candidates (-1: none) by distance, then index; infinity and -1 where too few."""
    k = distances.shape[1]
    for i in range(len(Q)):
        for j in range(k):
            distances[i, j], indices[i, j] = np.inf, -1
        for j in range(candidates.shape[1]):
            p = candidates[i, j]
            if p < 0:
                continue
            total = 0.0
            for c in range(Q.shape[1]):
                step = Q[i, c] - X[p, c]
                total += step * step
            last = distances[i, k - 1]
            if total > last or (total == last and p > indices[i, k - 1] >= 0):
                continue
            place = k - 1
            while place > 0 and (
                distances[i, place - 1] > total or (distances[i, place - 1] == total and indices[i, place - 1] > p)
            ):
                distances[i, place], indices[i, place] = distances[i, place - 1], indices[i, place - 1]
                place -= 1
            distances[i, place], indices[i, place] = total, p
        for j in range(k):
            distances[i, j] = np.sqrt(distances[i, j])
