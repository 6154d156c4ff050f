"""The rank measures as functions; `rank_measures` computes all of them in one pass."""

from __future__ import annotations

from typing import Any

from manifoldry.neighbors.pairwise import as_points
from manifoldry.quality.ranks import Measure, Sizes, rank_measures, require_below_half


def trustworthiness(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the trustworthiness: 1 if all neighbors in Y are neighbors in X.

    With k neighbors, n points and r_X(i, j) the rank of j as a neighbor of i in X,

    .. math:: 1 - \frac{2}{n k (2n - 3k - 1)} \sum_i \sum_{j \in N_Y(i)} \max(0, r_X(i, j) - k)

    Parameters are those of `rank_measures`, with ``n_neighbors < n / 2``, for which the worst order gives 0.

    References: venna2001

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> trustworthiness(X, 2 * X, n_neighbors=5)
    1.0
    """
    require_below_half(n_neighbors, len(as_points("Y", Y)))
    measures = rank_measures(
        X, Y, n_neighbors=n_neighbors, metric=metric, sample=sample, random_state=random_state, n_jobs=n_jobs
    )
    return measures.trustworthiness


def continuity(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the continuity: 1 if all neighbors in X are neighbors in Y.

    With k neighbors, n points and r_Y(i, j) the rank of j as a neighbor of i in Y,

    .. math:: 1 - \frac{2}{n k (2n - 3k - 1)} \sum_i \sum_{j \in N_X(i)} \max(0, r_Y(i, j) - k)

    Parameters are those of `rank_measures`, with ``n_neighbors < n / 2``, for which the worst order gives 0.

    References: venna2001

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> continuity(X, 2 * X, n_neighbors=5)
    1.0
    """
    require_below_half(n_neighbors, len(as_points("Y", Y)))
    measures = rank_measures(
        X, Y, n_neighbors=n_neighbors, metric=metric, sample=sample, random_state=random_state, n_jobs=n_jobs
    )
    return measures.continuity


def knn_kept(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the mean share of the nearest neighbors in X that are nearest neighbors in Y.

    .. math:: \frac{1}{k n} \sum_i |N_X(i) \cap N_Y(i)|

    Parameters are those of `rank_measures`.

    References: chen2009

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> knn_kept(X, 2 * X, n_neighbors=5)
    1.0
    """
    measures = rank_measures(
        X, Y, n_neighbors=n_neighbors, metric=metric, sample=sample, random_state=random_state, n_jobs=n_jobs
    )
    return measures.knn_kept


def knn_error(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the mean share of the nearest neighbors in X that are not nearest neighbors in Y.

    .. math:: \psi_{KNN} = 1 - \frac{1}{k n} \sum_i |N_X(i) \cap N_Y(i)|

    Parameters are those of `rank_measures`.

    References: khajehpour2013 (equation 5.21), chen2009

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> knn_error(X, 2 * X, n_neighbors=5)
    0.0
    """
    measures = rank_measures(
        X, Y, n_neighbors=n_neighbors, metric=metric, sample=sample, random_state=random_state, n_jobs=n_jobs
    )
    return measures.knn_error


def mrre(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> tuple[Measure, Measure]:
    r"""Return the mean relative rank errors over the neighbors in X and over those in Y; 0 is best.

    .. math::
        \frac{1}{\beta} \sum_i \sum_{j \in N_X(i)} \frac{|r_X(i, j) - r_Y(i, j)|}{r_X(i, j)}, \qquad
        \frac{1}{\beta} \sum_i \sum_{j \in N_Y(i)} \frac{|r_Y(i, j) - r_X(i, j)|}{r_Y(i, j)}, \qquad
        \beta = n \sum_{a=1}^k \frac{|n + 1 - 2a|}{a}

    Ranks count from 1 without the point itself. For k <= n / 2 the worst orders, the reversed ones, give
    a little less than 1.

    Parameters are those of `rank_measures`.

    References: khajehpour2013 (equations 5.22 and 5.23), lee2007

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> mrre(X, 2 * X, n_neighbors=5)
    (0.0, 0.0)
    """
    measures = rank_measures(
        X, Y, n_neighbors=n_neighbors, metric=metric, sample=sample, random_state=random_state, n_jobs=n_jobs
    )
    return measures.mrre_x, measures.mrre_y
