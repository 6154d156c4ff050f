"""Local principal components: how many directions a neighborhood extends in."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.dimension.estimate import DimensionEstimate, UndecidedError, mean_of
from manifoldry.dimension.space import Measured, as_space, measure, neighbor_count
from manifoldry.run import Run
from manifoldry.values import FloatArray

N_PCA_NEIGHBORS = 40
"""Neighbors of which principal components are taken: twice the dimension is needed to see it, so 40 see 20."""
MIN_DIRECTION_SHARE = 0.05
"""A direction counts if its variance is more than this share of the largest (Fukunaga and Olsen)."""
RULES = ("threshold", "gap", "participation")
"""What counts as a dimension."""


def local_pca(
    X: Any,
    *,
    n_neighbors: int | None = None,
    rule: str = "threshold",
    share: float = MIN_DIRECTION_SHARE,
    metric: Any = "euclidean",
    sample: int | None = 500,
    random_state: Any = 0,
) -> DimensionEstimate:
    r"""Return the mean number of principal directions of neighborhoods.

    With :math:`\lambda_1 \ge \lambda_2 \ge \dots` the variances of a point's k nearest neighbors, "threshold" counts
    those above ``share`` times the first (Fukunaga and Olsen), "gap" those before the largest ratio
    :math:`\lambda_i / \lambda_{i+1}`, and "participation" is :math:`(\sum \lambda)^2 / \sum \lambda^2`.

    A flat piece without noise is told exactly by the threshold, with any border and density, if k is at least twice its
    dimension. Curvature and noise count as soon as they reach the threshold, 0.22 of the largest deviation. The gap is
    for noise well below the surface; participation is no count, and below the dimension wherever variances differ.

    Parameters
    ----------
    X, metric, sample, random_state
        As in `maximum_likelihood`; a graph has no angles.
    n_neighbors : int, optional
        Number of neighbors k; None for 40, or half of fewer points.
    rule : {"threshold", "gap", "participation"}
        What counts.
    share : float
        Share of the largest variance that counts, for "threshold".

    Returns
    -------
    DimensionEstimate
        The mean of the local values, with the interval of a mean.

    Notes
    -----
    References: fukunaga1971

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(1000, 10)) @ np.eye(10, 30)
    >>> local_pca(X)
    DimensionEstimate(local_pca: 10.00, 10.00 to 10.00, at 500 points)
    """
    check.choice("rule", rule, RULES)
    check.number("share", share, 0.0, open_low=True)
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_PCA_NEIGHBORS, space.n_points, least=3)
    return planes_of(measure(space, k, sample, random_state), k, Run(random_state), rule=rule, share=share)


def planes_of(
    found: Measured, k: int, run: Run, *, rule: str = "threshold", share: float = MIN_DIRECTION_SHARE
) -> DimensionEstimate:
    """Return the estimate from the k nearest of measured points."""
    variances = np.maximum(np.linalg.eigvalsh(found.grams(k, run))[:, ::-1], 0.0)
    known = variances[:, 0] > 0
    if not known.any():
        raise UndecidedError(
            f"The {k} nearest of every point are its duplicates, so they have no extent; raise n_neighbors or drop the "
            "duplicates."
        )
    local = np.full(len(variances), np.nan)
    local[known] = _counted(variances[known], rule, share)
    value, low, high = mean_of(local)
    settings = {"n_neighbors": k, "rule": rule, "share": share}
    return DimensionEstimate("local_pca", value, low, high, local, found.rows, "points", settings)


def _counted(variances: FloatArray, rule: str, share: float) -> FloatArray:
    if rule == "threshold":
        return (variances > share * variances[:, :1]).sum(axis=1).astype(float)
    if rule == "participation":
        totals: FloatArray = variances.sum(axis=1) ** 2 / (variances**2).sum(axis=1)
        return totals
    # The mean takes one direction away; what is left at rounding has no gaps among itself.
    floored = np.maximum(variances[:, :-1], 1e-12 * variances[:, :1])
    return 1.0 + np.argmax(floored[:, :-1] / floored[:, 1:], axis=1)
