"""Preservation of density: whether points that are crowded in the data are crowded in the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.neighbors.pairwise import as_pair, nearest_of, sample_rows
from manifoldry.quality.correlation import EQUAL_SHARE, correlation
from manifoldry.run import Run
from manifoldry.values import FloatArray


def density_preservation(
    X: Any,
    Y: Any,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the correlation of the logarithms of local radii in the data and in the embedding; 1 is best.

    .. math:: \operatorname{corr}_i(\log R_X(i), \log R_Y(i)), \qquad
              R_X(i) = \frac{1}{k} \sum_{j \in N_X(i)} |x_i - x_j|^2

    The local radius is the mean squared distance to the k nearest points, found in each space on its own; the density
    is a power of it. 0 is chance, and the value of an embedding that draws all points equally dense. Neither the scale
    of Y nor the unit of X matters.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding, compared by Euclidean distance.
    n_neighbors : int
        Number of neighbors k, below n.
    metric, sample, random_state, n_jobs
        As in `rank_measures`; a sample needs at least 3 points.

    Notes
    -----
    densMAP and den-SNE weigh the squared distances by the fuzzy memberships of UMAP or the probabilities of t-SNE; here
    the weights are equal, so that the measure favors neither. A radius of 0 (all k neighbors coincide) counts as the
    least positive radius of its space.

    References: narayan2021

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(density_preservation(X, 2 * X, n_neighbors=5), 12)
    1.0
    """
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    check.enough_points(n, 3)
    k = check.integer("n_neighbors", n_neighbors, 1, n - 1, f" for {n} points (a point is not its own neighbor)")
    rows = sample_rows(n, None if sample is None else check.integer("sample", sample, 3), random_state)
    run = Run(n_jobs=n_jobs)
    spaces = (nearest_of(X, rows, k, run, metric), nearest_of(Y, rows, k, run))
    return density_correlation(*(squared_radii(lengths) for _, lengths in spaces))


def squared_radii(lengths: FloatArray) -> FloatArray:
    """Return the mean squared distance (b,) to the nearest points, from the distances (b, k)."""
    return np.mean(lengths**2, axis=1)


def log_radii(radii: FloatArray) -> FloatArray:
    """Return the logarithms of local radii; those of radius 0 count as the least positive one."""
    positive = radii > 0
    if not positive.any():
        return np.zeros_like(radii)
    return np.log(np.where(positive, radii, radii[positive].min()))


def density_correlation(radii_x: FloatArray, radii_y: FloatArray) -> float:
    """Return the correlation of the logarithms of local radii; 0 if all are equal in Y, refused if they are in X."""
    in_x, in_y = log_radii(radii_x), log_radii(radii_y)
    if np.ptp(in_x) <= EQUAL_SHARE:
        raise ValueError(
            f"All {len(radii_x)} points have the same local radius in X, so there is no density to keep; take another "
            "n_neighbors."
        )
    return correlation(in_x, in_y) if np.ptp(in_y) > EQUAL_SHARE else 0.0
