"""Gaussian clusters: groups instead of a manifold."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.datasets.dataset import Dataset
from manifoldry.datasets.sampling import ManifoldSampler, require_count, require_positive


def gaussian_clusters(
    n: int = 1000,
    *,
    n_clusters: int = 6,
    n_features: int = 10,
    separation: float = 10.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of spherical Gaussian clusters of unit variance, labeled by cluster.

    The centers are drawn from :math:`N(0, \frac{a^2}{2D} I_D)`: the squared distance of two of them is
    :math:`a^2` on average. Neither truth nor parameters exist; the intrinsic dimension is D.

    Parameters
    ----------
    n : int
        Number of points.
    n_clusters : int
        Number of clusters, equally likely unless uneven.
    n_features : int
        Dimension D of the space.
    separation : float
        Root mean square distance a between centers, in standard deviations of a cluster.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`; the halves are halves of the list of clusters.

    Returns
    -------
    Dataset
        X of shape (n, n_features), labels of shape (n,).

    Examples
    --------
    >>> gaussian_clusters(300, n_clusters=3).labels.max()
    np.int64(2)
    """
    require_positive("separation", separation)
    for word, count in (("n_clusters", n_clusters), ("n_features", n_features)):
        require_count(word, count)
    sampler = ManifoldSampler("gaussian_clusters", n, noise, unevenness, random_state)
    labels = np.minimum((n_clusters * sampler.unit(1)[0]).astype(np.int64), n_clusters - 1)
    scale = separation / np.sqrt(2.0 * n_features)
    # The word seeds the draws: spelled as when the results were measured.
    centers = scale * sampler.rng("centres").standard_normal((n_features, n_clusters))
    columns = centers[:, labels] + sampler.rng("clusters").standard_normal((n_features, sampler.n))
    return sampler.dataset(tuple(columns), intrinsic_dim=int(n_features), labels=labels)
