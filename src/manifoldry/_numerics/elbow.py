"""The dimension suggested by a curve that falls with the dimension: its elbow, its gap, or a remaining share."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.arrays import on_host
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.graph._pairwise import as_points, chunk_rows, distance_rows

MIN_CURVE_SHARE = 1e-6  # smaller shares count as this, so that values at rounding do not decide the elbow
ZERO_SHARE = 1e-12  # remaining share that counts as zero, up to rounding: all columns leave nothing
MIN_BEND = 2.0
"""An elbow is clear if the curve is below its chord by this factor: 3 and more for residual variances of real data."""
MIN_CLUSTER_GAP = 8.0
"""A gap of eigenvalues is clear if they grow by this factor; those of harmonics grow fourfold at most."""
REASON_WIDTH = 110  # characters in a line of a printed reason, as in a printed diagnosis
MAX_LOST_VARIANCE = 0.05  # maximum share of the variance beyond n_components that causes no advice


@dataclass(frozen=True, repr=False)
class Suggestion:
    """A dimension and the reason for it."""

    n_components: int
    why: str

    def __int__(self) -> int:
        return self.n_components

    def __repr__(self) -> str:
        return f"n_components={self.n_components}. {self.why}"

    def __str__(self) -> str:
        """Return the dimension and the reason, in lines of text."""
        return textwrap.fill(repr(self), REASON_WIDTH)


def elbow(values: FloatArray, what: str, otherwise: Suggestion | None = None) -> Suggestion:
    """Return the dimension at which the curve ``values`` (d = 1, 2, ...; 1 stands for d = 0) bends.

    On a logarithmic scale, it is the farthest point below the line from start to end. Without a clear elbow it is the
    first dimension that leaves at most 5 %, or ``otherwise`` if none does, provided that ``otherwise`` is given.
    """
    if otherwise is not None:
        values = values[: 1 + int(np.count_nonzero(values > ZERO_SHARE))]  # all columns leave nothing: not an elbow
    shares = np.minimum.accumulate(np.concatenate([[1.0], np.maximum(values, MIN_CURVE_SHARE)]))
    heights = np.log(shares)
    chord = np.linspace(heights[0], heights[-1], len(heights))
    d = max(1, int(np.argmax(chord - heights)))
    if otherwise is not None and chord[d] - heights[d] < np.log(MIN_BEND):
        if shares[-1] <= MAX_LOST_VARIANCE:
            d = int(np.argmax(shares <= MAX_LOST_VARIANCE))
            why = (
                f"The {what} has no clear elbow; it is {shares[d]:.2g} with {d} dimensions, {shares[d - 1]:.2g} before."
            )
            return Suggestion(d, why)
        why = f"The {what} has no clear elbow, and {len(values)} dimensions leave {shares[-1]:.2g}. {otherwise.why}"
        return Suggestion(otherwise.n_components, why)
    why = (
        f"The {what} is {shares[d]:.2g} with {d} dimensions, {shares[d - 1] / shares[d]:.3g} times lower than with "
        f"{d - 1}; all {len(values)} together would divide it by {shares[d] / shares[-1]:.3g} more."
    )
    return Suggestion(d, why)


def unexplained(values: FloatArray) -> FloatArray:
    """Return the share of the sum of ``values`` beyond the first d = 1, 2, ... of them."""
    return np.maximum(1 - np.cumsum(values) / (values.sum() or 1.0), 0.0)


def enough(left: FloatArray, what: str, share: float = MAX_LOST_VARIANCE) -> Suggestion:
    """Return the first dimension d = 1, 2, ... that leaves at most ``share``, or the last one."""
    left = np.asarray(left, dtype=float)
    under = np.flatnonzero(left <= share)
    d = int(under[0]) + 1 if len(under) else len(left)
    before = left[d - 2] if d > 1 else 1.0
    return Suggestion(d, f"With {d} dimensions {left[d - 1]:.2g} of the {what} is left, with {d - 1} {before:.2g}.")


def lost_variance_advice(values: FloatArray, n_components: int, stopped: bool = False) -> tuple[str, ...]:
    """Return advice if ``n_components`` of the descending variances lose over 5 %, unless the fit was ``stopped``."""
    left = unexplained(np.asarray(values, dtype=float))
    if stopped or len(left) <= n_components or left[n_components - 1] <= MAX_LOST_VARIANCE:
        return ()
    d = enough(left, "variance", MAX_LOST_VARIANCE).n_components
    # A program in few dimensions cannot show how many more the points would need.
    count = f"about {d}" if d < len(left) else f"{d} or more"
    return (
        f"The unfolded points need {count} dimensions, and {n_components} keep {1 - left[n_components - 1]:.0%} of "
        "their variance: neighbors across a fold keep it closed (lower n_neighbors), or the data is not a surface of "
        f"{n_components} dimensions (for a picture use TSNE or UMAP, for features use n_components={d}).",
    )


def gap(values: FloatArray, what: str, otherwise: Suggestion | None = None) -> Suggestion:
    """Return how many of the ascending non-negative ``values`` are before the largest gap (ratio), or ``otherwise``."""
    floor = MIN_CURVE_SHARE * float(np.max(values, initial=0.0)) or 1.0
    sizes = np.maximum(np.asarray(values, dtype=float), floor)
    if len(sizes) < 2:
        return Suggestion(1, f"There is only one {what}.")
    ratios = sizes[1:] / sizes[:-1]
    d = int(np.argmax(ratios)) + 1
    if otherwise is not None and ratios[d - 1] < MIN_CLUSTER_GAP:
        why = f"No {what} is {MIN_CLUSTER_GAP:.0f} times the one before, as between clusters. {otherwise.why}"
        return Suggestion(otherwise.n_components, why)
    return Suggestion(
        d, f"The {what} number {d + 1} is {ratios[d - 1]:.3g} times the one before; no other step is as large."
    )


def residual_variance(D: Any, Y: Any, *, rows: Any = None, n_jobs: int | None = None) -> float:
    r"""Return the residual variance: the share of the variance of D not explained by the distances of Y.

    .. math:: 1 - R^2(d_{ij}, |y_i - y_j|)

    over the unordered pairs i < j, with the correlation R; in [0, 1], and 1 if all points of Y coincide. (The zeros of
    the diagonal would increase R and are excluded.)

    Parameters
    ----------
    D : array-like of shape (n, n) or (m, n)
        Distances, for instance geodesic, between all points or from m of them to all.
    Y : array-like of shape (n, p)
        The embedding.
    rows : array-like of int of shape (m,), optional
        The distinct points of the rows of D, if D is not square. A pair of two such points is counted once, from the
        first of its rows.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Notes
    -----
    References: tenenbaum2000

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.random.default_rng(0).normal(size=(50, 2))
    >>> D = np.linalg.norm(Y[:, None] - Y, axis=2)
    >>> round(residual_variance(3 * D, Y), 12)
    0.0
    """
    D, Y = np.asarray(on_host(D, "D")), as_points("Y", Y)
    n = len(Y)
    rows = _row_points(D, n, rows)
    order = np.full(n, len(D))
    order[rows] = np.arange(len(D))
    in_y = distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> tuple[float, FloatArray, FloatArray]:
        counted = order > np.arange(lo, hi)[:, None]
        values = np.stack([D[lo:hi][counted], in_y(rows[lo:hi])[counted]])
        if not np.isfinite(values).all():
            raise ValueError("D must be finite; it holds NaN or infinity: keep one connected component.")
        mean = values.mean(axis=1) if values.size else np.zeros(2)
        values -= mean[:, None]
        return values.shape[1], mean, values @ values.T

    parts = zip(*run.map(block, run.ranges(len(D), chunk_rows(n)), blas=True), strict=True)
    counts, means, products = (np.array(part) for part in parts)
    # Sums of squares about the common mean: those about the block means plus those of the means.
    offsets = means - counts @ means / counts.sum()
    total = products.sum(axis=0) + np.einsum("b,bi,bj->ij", counts, offsets, offsets)
    if total[0, 0] == 0:
        raise ValueError("All distances in D are equal, so there is no variance to explain; check D.")
    if total[1, 1] == 0:
        return 1.0
    return float(np.clip(1.0 - total[0, 1] ** 2 / (total[0, 0] * total[1, 1]), 0.0, 1.0))


def _row_points(D: FloatArray, n: int, rows: Any) -> IntArray:
    if rows is None:
        if D.shape != (n, n):
            raise ValueError(
                f"D must be ({n}, {n}) for {n} points; got {D.shape}: pass the points of its rows as rows=..."
            )
        return np.arange(n)
    points = np.asarray(rows)
    if D.shape != (len(points), n) or not np.issubdtype(points.dtype, np.integer):
        raise ValueError(
            f"D must be ({len(points)}, {n}) for {len(points)} integer rows and {n} points; got {D.shape} "
            f"and rows of type {points.dtype}."
        )
    if len(np.unique(points)) < len(points) or points.min() < 0 or points.max() >= n:
        raise ValueError(f"rows must name distinct points between 0 and {n - 1}; drop repeated ones.")
    return points
