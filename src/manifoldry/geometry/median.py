"""The spatial median: the point with the least sum of distances to the rows, which few far rows cannot move far."""

from __future__ import annotations

import numpy as np

from manifoldry.values import FloatArray

MEDIAN_TOL = 1e-13
"""Length of a step, as a share of the rows' mean distance, at which the iteration has converged."""
MAX_MEDIAN_STEPS = 1000
"""Steps at most: some dozens are usual, hundreds where rows crowd around the median."""


def spatial_median(rows: FloatArray) -> FloatArray:
    r"""Return :math:`\arg\min_m \sum_i \|x_i - m\|` of rows (n, p), by reweighted means.

    At a row the sum has no gradient: it is the median there if the pull of the others does not exceed its own weight,
    and else the step is shortened by that weight. Reference: vardi2000

    Examples
    --------
    >>> import numpy as np
    >>> spatial_median(np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])) + 0.0
    array([0., 0.])
    """
    center = rows.mean(axis=0)
    for _ in range(MAX_MEDIAN_STEPS):
        away = rows - center
        lengths = np.sqrt((away**2).sum(axis=1))
        apart = lengths > MEDIAN_TOL * lengths.mean()
        weights = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=apart)
        pull = weights @ away
        size = np.sqrt((pull**2).sum())
        step = pull / weights.sum() * max(0.0, 1.0 - np.count_nonzero(~apart) / size) if size > 0 else 0.0 * pull
        center = center + step
        if np.sqrt((step**2).sum()) <= MEDIAN_TOL * lengths.mean():
            break
    return np.asarray(center)
