"""The choice among several layouts of the same points, by the neighbors that they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.quality.neighborhoods import trustworthiness
from manifoldry.run import Run
from manifoldry.values import FloatArray

N_COMPARED_POINTS, MAX_COMPARED_NEIGHBORS = 1000, 15
"""Points on which layouts are compared, and how many neighbors of each, as in `quality.score`; fewer of few points."""

MIN_TRUST_GAIN = 0.005
"""By how much another layout has to keep neighbors better than the first, on those points."""


def most_trusted(
    X: Any, layouts: Sequence[FloatArray], run: Run, *, pairwise: bool = False, gain: float = MIN_TRUST_GAIN
) -> int:
    """Return which layout keeps the neighbors of some rows best: the first, unless another does clearly better.

    Parameters
    ----------
    X : array of shape (n, p), or of shape (n, n) if ``pairwise``
        Rows, or the distances between all points.
    layouts : sequence of ndarray of shape (n, d)
        The one to prefer, and others.
    run : Run
        For the sample and the threads.
    pairwise : bool
        Whether ``X`` holds distances.
    gain : float
        How much better it has to be.
    """
    some = np.sort(run.rng("compared layouts").permutation(X.shape[0])[:N_COMPARED_POINTS])
    k = min(MAX_COMPARED_NEIGHBORS, len(some) // 2 - 1)
    if k < 1:
        return 0
    points = X[np.ix_(some, some)] if pairwise else X[some]
    points = points if issparse(points) else np.asarray(points, dtype=float)
    metric = "precomputed" if pairwise else "euclidean"
    kept = [float(trustworthiness(points, Y[some], n_neighbors=k, metric=metric, n_jobs=run.n_jobs)) for Y in layouts]
    best = int(np.argmax(kept))
    return best if kept[best] >= kept[0] + gain else 0
