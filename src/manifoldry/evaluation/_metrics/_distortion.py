"""Local distortion: by how much an embedding stretches, shears and bends the neighborhood of each point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, Stack, gather, grams_from_distances
from manifoldry._numerics.geometry.principal import gram_scores, principal_scores
from manifoldry._numerics.geometry.tangent import TANGENT_RANK_TOL
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.evaluation._metrics._shepard import EQUAL_SHARE, correlation
from manifoldry.graph._pairwise import as_pair, nearest_points, sample_rows


@dataclass(frozen=True, repr=False)
class LocalDistortion:
    """The local distortion of an embedding at each of m points.

    Parameters
    ----------
    points : ndarray of int of shape (m,)
        The points.
    stretches : ndarray of shape (m, q)
        Singular values of the local Jacobian, descending: the factors by which lengths change along q orthogonal
        directions of the tangent space. NaN where the neighbors span fewer than q dimensions, for example because they
        are duplicates.
    residuals : ndarray of shape (m,)
        Share of the neighborhood's variance in the embedding that is not a linear image of the tangent space, 0 to 1:
        what is torn or folded there, or lies along directions that the tangent space leaves out.
    """

    points: IntArray
    stretches: FloatArray
    residuals: FloatArray

    @property
    def longest(self) -> FloatArray:
        """The largest factor by which lengths change, in units of the embedding per unit of the data."""
        return self.stretches[:, 0]

    @property
    def shortest(self) -> FloatArray:
        """The smallest factor by which lengths change."""
        return self.stretches[:, -1]

    @property
    def areas(self) -> FloatArray:
        """The factor by which the area (in q dimensions: the volume) changes: the product of the stretches."""
        return np.prod(self.stretches, axis=1)

    @property
    def conformality(self) -> FloatArray:
        """Smallest stretch divided by the largest: 1 if angles are kept, 0 if a direction is lost."""
        return self.shortest / np.where(self.longest == 0, np.inf, self.longest)

    def __repr__(self) -> str:
        length, area, angle = (np.nanmedian(part) for part in (self.stretches, self.areas, self.conformality))
        return (
            f"Medians over {len(self.points):,} points: lengths grow {length:.4g} times (stretches), areas {area:.4g} "
            f"times (areas), the least stretch is {angle:.2f} of the largest (conformality; 1: angles are kept), and "
            f"{np.nanmedian(self.residuals):.0%} of a neighborhood is torn or folded (residuals)."
        )


@documented(SHARED_TEXTS)
def local_distortion(
    X: Any,
    Y: Any,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> LocalDistortion:
    r"""Return the singular values of the local Jacobian of the map from the data to the embedding, point by point.

    The neighborhood of a point (itself and its nearest neighbors in X) has the coordinates T (k + 1, q) in the tangent
    space, its first q principal components, q the dimension p of Y (or of X, if that is less). The Jacobian is the
    least-squares map onto the centered neighbors in Y,

    .. math:: J = \arg\min_J |T J - Y_c|^2 = T^+ Y_c ,

    and its singular values are the local stretches: both 1 for an isometry, equal for a map that keeps angles,
    with product 1 for one that keeps areas. They are the axes of Tissot's indicatrix.

    Parameters
    ----------
    Y : array-like of shape (n, p)
        The embedding.
    n_neighbors : int
        Number of neighbors, above p and below n. Few are noisy, many see the curvature of the data.
    metric : {"euclidean", "precomputed"}
        Tangent spaces need rows, or distances between all points.

    Returns
    -------
    LocalDistortion
        Per point the stretches and the residual; as properties ``longest``, ``shortest``, ``areas``, ``conformality``.

    Notes
    -----
    Where the data is not p-dimensional (noise, or more dimensions than the embedding has), neighborhoods are flattened
    before the map is fitted, and the residual is large: stretches then mean little.

    References: tissot1881

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> local = local_distortion(X, X * [3.0, 0.5], n_neighbors=5)
    >>> bool(np.allclose(local.stretches, [3.0, 0.5])), bool(np.allclose(local.areas, 1.5))
    (True, True)
    """
    check.choice("metric", metric, ("euclidean", "precomputed"))
    X, Y = as_pair(X, Y, metric)
    n, p = Y.shape
    q = tangent_dimension(X, p, metric)
    because = f" for {n} points and tangent spaces of dimension {q}"
    k = check.integer("n_neighbors", n_neighbors, q + 1, n - 1, because)
    rows, run = sample_rows(n, sample, random_state), Run(n_jobs=n_jobs)
    near, _ = nearest_points(X, rows, k, run, metric)
    distortion = distortions_of(X, [Y], rows, near, metric, run)[0]
    if np.isnan(distortion.residuals).all():
        raise ValueError(f"No point has {k} neighbors that span {q} dimensions; use more neighbors or drop duplicates.")
    return distortion


def tangent_dimension(X: Any, n_components: int, metric: str) -> int:
    """Return the dimension of the tangent spaces: that of the embedding, or of the data if that is less."""
    return n_components if metric == "precomputed" else min(n_components, X.shape[1])


def distortions_of(
    X: Any, layouts: Sequence[FloatArray], rows: IntArray, near: IntArray, metric: str, run: Run
) -> list[LocalDistortion]:
    """Return distortions of layouts at ``rows`` with neighbors ``near`` (m, k); NaN where these span too little."""
    members = np.column_stack([rows, near])
    q = tangent_dimension(X, layouts[0].shape[1], metric)
    width = members.shape[1] if metric == "precomputed" else X.shape[1]

    def jacobians(lo: int, hi: int) -> list[tuple[FloatArray, FloatArray]]:
        part = members[lo:hi]
        if metric == "precomputed":
            grams = grams_from_distances(X, Stack(rows[lo:hi], part), about_center=False)
            values, coordinates = gram_scores(grams, q)
        else:
            values, coordinates = principal_scores(_centered(gather(X, part)), q)
        return [_jacobians(values[:, :q], coordinates, _centered(Y[part])) for Y in layouts]

    grain = max(1, MAX_STACK_ENTRIES // (members.shape[1] * max(width, members.shape[1])))
    blocks = run.map(jacobians, run.ranges(len(rows), grain), blas=True)
    parts = (zip(*(block[i] for block in blocks), strict=True) for i in range(len(layouts)))
    return [LocalDistortion(rows, *(np.concatenate(column) for column in part)) for part in parts]


def _jacobians(values: FloatArray, coordinates: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return stretches (m, q) and residuals (m,) from tangent coordinates (m, s, q) and their images (m, s, p)."""
    spans = (values[:, -1] > TANGENT_RANK_TOL * values[:, 0]) & (values[:, 0] > 0)
    lengths = np.sqrt(np.where(spans[:, None], values, 1.0))
    basis = coordinates / lengths[:, None, :]
    products = basis.transpose(0, 2, 1) @ moved
    stretches = np.linalg.svd(products / lengths[:, :, None], compute_uv=False)[:, : values.shape[1]]
    left = moved - basis @ products
    total = np.einsum("isp,isp->i", moved, moved)
    residuals = np.einsum("isp,isp->i", left, left) / np.where(total > 0, total, 1.0)
    return np.where(spans[:, None], stretches, np.nan), np.where(spans, residuals, np.nan)


def _centered(rows: FloatArray) -> FloatArray:
    rows = rows - rows[:, :1]  # exact for near points, whose mean would carry the rounding of a far origin
    return rows - rows.mean(axis=1, keepdims=True)


@documented(SHARED_TEXTS)
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
    is a power of it. 0 is chance, and the value of an embedding in which all points are equally dense. Neither the
    scale of Y nor the unit of X matters.

    Notes
    -----
    densMAP and den-SNE weigh the squared distances by the fuzzy memberships of UMAP or the probabilities of t-SNE; here
    the weights are equal, so that the measure favors neither. A radius of 0 (all k neighbors coincide) counts as the
    least positive radius of its space. A sample needs at least 3 points.

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
    spaces = (nearest_points(X, rows, k, run, metric), nearest_points(Y, rows, k, run))
    in_x, in_y = (log_radii(squared_radii(lengths)) for _, lengths in spaces)
    if np.ptp(in_x) <= EQUAL_SHARE:
        raise ValueError(
            f"All {len(rows)} points have the same local radius in X, so there is no density to keep; use another "
            "n_neighbors."
        )
    return correlation(in_x, in_y) if np.ptp(in_y) > EQUAL_SHARE else 0.0


def squared_radii(lengths: FloatArray) -> FloatArray:
    """Return the mean squared distance (b,) to the nearest points, from the distances (b, k)."""
    return np.mean(lengths**2, axis=1)


def log_radii(radii: FloatArray) -> FloatArray:
    """Return the logarithms of local radii; those of radius 0 count as the least positive one."""
    positive = radii > 0
    if not positive.any():
        return np.zeros_like(radii)
    return np.log(np.where(positive, radii, radii[positive].min()))
