"""The dimension around each point, of the charts of an atlas, and as a function of the scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.dimension import (
    MIN_DISTANCE_SHARE,
    N_DIMENSION_NEIGHBORS,
    local_dimensions,
    log_ratios,
)
from manifoldry._numerics.patches.atlas import MIN_PATCHES
from manifoldry._numerics.patches.charts import fit_charts
from manifoldry._numerics.patches.cover import VoronoiCover, find_cells
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation._input import random_rows
from manifoldry.evaluation.dimension._likelihood import ball_curve, on_curve
from manifoldry.evaluation.dimension._space import (
    DimensionEstimate,
    Measured,
    UndecidedError,
    as_space,
    effective_count,
    gamma_interval,
    mean_of,
    measure,
    neighbor_count,
)
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_UNIFORM_SPREAD = 1.6  # ratio of the 95 % and 5 % quantiles of one dimension: 1.2 to 1.5 on flat sets, 2.5 on MNIST
MIN_UNIFORM_DIFFERENCE = 0.9  # and the difference of those quantiles, because parts have integer dimensions
MIN_NAMED_SHARE = 0.1  # least share of the points that is reported as a part with its own dimension


@dataclass(frozen=True, repr=False)
class LocalDimension:
    """The dimension around each point.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Smoothed over each point and its neighbors, NaN where it cannot be estimated.
    own : ndarray of shape (n,)
        Not smoothed: each point's neighbors alone, off by about a quarter with 20 neighbors.
    varies : bool
        Whether parts of the data have different dimensions.
    pieces : mapping of int to ndarray
        Where it varies, the points whose value rounds to each integer, if they are a tenth of all or more.
    why : str
        The same as text.
    """

    values: FloatArray
    own: FloatArray
    varies: bool
    pieces: Mapping[int, IntArray]
    why: str

    def __repr__(self) -> str:
        low, high = np.nanquantile(self.values, [0.05, 0.95])
        return f"LocalDimension({low:.1f} to {high:.1f}, {'varies' if self.varies else 'the same everywhere'})"


@documented(DATA_TEXTS)
def local(
    X: Any,
    *,
    n_neighbors: int | None = None,
    metric: Any = "euclidean",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> LocalDimension:
    r"""Return the dimension around each point by maximum likelihood, smoothed over its neighbors.

    .. math:: \frac1{\hat d_i} = \text{mean of } \log \frac{T_{lk}}{T_{lj}} \text{ over } j < k \text{ and } l \in
              \{i\} \cup N(i)

    Like those of `maximum_likelihood`, values are too low near borders and in high dimensions: use them to compare
    points with each other.

    Notes
    -----
    References: levina2004, mackay2005

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> line = np.column_stack([rng.uniform(-1, 0, 300), np.zeros((300, 2))])
    >>> cube = rng.uniform(size=(600, 3))
    >>> result = local(np.vstack([line, cube]))
    >>> result.varies, sorted(result.pieces)
    (True, [1, 3])
    """
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_DIMENSION_NEIGHBORS, space.n_points, least=3)
    if space.kind == "graph" and n_neighbors is None:
        k = min(k, int(np.median(space.points.degrees)))
    measured = measure(space, k, None, random_state, n_jobs)
    n = space.n_points
    sums, counts = np.zeros(n), np.zeros(n)
    sums[measured.points], counts[measured.points] = log_ratios(measured.lengths)
    members = np.column_stack([measured.points, measured.neighbors])
    totals, numbers = sums[members].sum(axis=1), counts[members].sum(axis=1)
    values, own = np.full(n, np.nan), np.full(n, np.nan)
    mask = (totals > 0) & (numbers >= 2)
    if not mask.any():
        raise UndecidedError(
            f"The {k} nearest of every point are at one distance (ties or duplicates), which does not determine the "
            "dimension; raise n_neighbors, or undo the rounding of X."
        )
    values[measured.points[mask]] = numbers[mask] / totals[mask]
    own[measured.points] = local_dimensions(measured.lengths)
    return _described(values, own)


def _described(values: FloatArray, own: FloatArray) -> LocalDimension:
    finite = values[np.isfinite(values)]
    low, middle, high = np.quantile(finite, [0.05, 0.5, 0.95])
    varies = bool(high > MAX_UNIFORM_SPREAD * low and high - low > MIN_UNIFORM_DIFFERENCE)
    if not varies:
        why = (
            f"The dimension is much the same everywhere: {middle:.1f}, nine tenths of the points between {low:.1f} "
            f"and {high:.1f}."
        )
        return LocalDimension(values, own, varies, {}, why)
    rounded = np.maximum(np.round(np.where(np.isfinite(values), values, 0.0)), 0.0).astype(np.int64)
    shares = np.bincount(rounded) / len(finite)
    pieces = {d: np.flatnonzero(rounded == d) for d in range(1, len(shares)) if shares[d] >= MIN_NAMED_SHARE}
    shares_text = ", ".join(f"{shares[d]:.0%} of the points around {d}" for d in pieces)
    why = f"The dimension varies, from {low:.1f} to {high:.1f} for nine tenths of the points" + (
        f": {shares_text}." if shares_text else "."
    )
    return LocalDimension(values, own, varies, pieces, why)


MAX_ATLAS_POINTS = 3000  # points that are covered by patches
MAX_CHART_WIDTH = 30  # largest dimension of a chart
CHART_NEIGHBORS = 10  # neighbors in the graph whose components the patches follow
CHART_VARIANCE_LEFT = 0.05  # share of a patch's variance that its chart may leave out
CHART_OVERLAP = 0.3  # how far patches reach into their neighbors, as in IPA
POINTS_PER_DIMENSION = 6  # points of a patch for each dimension of its chart


@documented(DATA_TEXTS)
def charts(
    X: Any, *, n_patches: int | None = None, share: float = CHART_VARIANCE_LEFT, random_state: Any = 0
) -> DimensionEstimate:
    """Return the mean dimension of flat charts of an atlas, each of which leaves out a share of its patch's variance.

    Patches are the Voronoi cells of centers with overlaps, as `IPA` covers the data: larger than neighborhoods of 40
    points, so that the result is for the parts of which a layout would be made. Where they are curved, a chart needs
    more dimensions than the surface has.

    Parameters
    ----------
    X : array-like of shape (n, D)
        Dense rows, of which at most 3,000 are used.
    n_patches : int, optional
        Number of patches; None for 60 points each, at least 16 patches, or fewer for few points.
    share : float
        Share of a patch's variance that its chart may leave out.

    Returns
    -------
    DimensionEstimate
        The mean over points of the dimension of their patch; ``local`` is that at the sampled points.

    Notes
    -----
    References: fukunaga1971

    Examples
    --------
    >>> from manifoldry import datasets
    >>> round(charts(datasets.swiss_roll(2000, random_state=0).X).value)
    2
    """
    space, run = as_space(X), Run(random_state)
    if space.kind != "rows" or not isinstance(space.points, np.ndarray):
        raise UndecidedError("Charts are fitted to dense rows; got a graph, distances or sparse rows.")
    check.number("share", share, 0.0, open_low=True)
    rows = random_rows(space.n_points, MAX_ATLAS_POINTS, run.rng("charts"))
    points = space.points[rows]
    width = int(max(1, min(MAX_CHART_WIDTH, points.shape[1], len(points) // POINTS_PER_DIMENSION)))
    if n_patches is None:
        n_patches = max(1, min(len(points) // (POINTS_PER_DIMENSION * 10), len(points) // 12))
        n_patches = max(n_patches, min(MIN_PATCHES, len(points) // (3 * (width + 1))))
    check.integer("n_patches", n_patches, 1, len(points) // 3)
    k = min(CHART_NEIGHBORS, len(points) - 1)
    graph = symmetrize(neighbor_graph(points, NeighborRule(k).resolve(len(points)), run)[0])
    cells = find_cells(points, graph, n_patches, width, run)
    cover = VoronoiCover(cells.centers, cells.borders, CHART_OVERLAP, False)
    members = cover.members(points, run)
    sizes = fit_charts(points, members, cover.n_patches, width, run, kind="flat", share=share).sizes
    local = sizes[members.heaviest()].astype(float)
    value = float(local.mean())
    mean, low, high = mean_of(sizes.astype(float))
    settings = {"n_patches": cover.n_patches, "share": share, "width": width}
    # Charts of the maximum width might need more dimensions.
    unbounded = (sizes == width).mean() > 0.5 and width < points.shape[1]
    low, high = value + low - mean, np.inf if unbounded else value + high - mean
    return DimensionEstimate("charts", value, low, high, local, rows, "points", settings)


MAX_SCALE_NEIGHBORS = 2048  # neighbors of the largest scale
LARGEST_SCALE_SHARE = 0.25  # share of the points in the largest neighborhoods
MAX_PLATEAU_CHANGE = 0.1  # change of the dimension, relative to the mean, over a plateau
MIN_PLATEAU_SCALES = 3  # doublings of the number of neighbors that make a plateau


@dataclass(frozen=True, repr=False)
class DimensionByScale:
    """The dimension at each scale, from the neighbors of ranks a + 1 to b = 2 a.

    Parameters
    ----------
    n_neighbors : ndarray of shape (s,)
        The last rank b of each scale.
    radius : ndarray of shape (s,)
        Median distance to the neighbor of that rank, in the units of the data.
    values, low, high : ndarray of shape (s,)
        Maximum likelihood and its interval.
    corrected : ndarray of shape (s,)
        The dimension of the ball that would give the same value at this scale.
    plateau : tuple of two ints, optional
        The first and the last scale of the longest range over which the corrected dimension stays the same.
    value : float
        The mean of the corrected dimension over the plateau, or the median over all scales where there is none.
    why : tuple of str
        What happens below, on and above the plateau.
    """

    n_neighbors: IntArray
    radius: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    corrected: FloatArray
    plateau: tuple[int, int] | None
    value: float
    why: tuple[str, ...]

    def __repr__(self) -> str:
        if self.plateau is None:
            return f"DimensionByScale({self.value:.1f}, no plateau over {len(self.values)} scales)"
        first, last = self.radius[list(self.plateau)]
        return f"DimensionByScale({self.value:.1f} from radius {first:.3g} to {last:.3g})"

    def __str__(self) -> str:
        rows = ["neighbors    radius  dimension  corrected"]
        inside = range(self.plateau[0], self.plateau[1] + 1) if self.plateau else range(0)
        for i in range(len(self.values)):
            mark = "  plateau" if i in inside else ""
            rows.append(
                f"{self.n_neighbors[i]:9d} {self.radius[i]:9.3g} {self.values[i]:10.2f} {self.corrected[i]:10.2f}{mark}"
            )
        return "\n".join([*rows, *self.why])


@documented(DATA_TEXTS)
def by_scale(
    X: Any, *, metric: Any = "euclidean", sample: int = 1000, random_state: Any = 0, n_jobs: int | None = None
) -> DimensionByScale:
    r"""Return the dimension at neighborhoods of 2, 4, 8, ... points, and the range of scales over which it is constant.

    Where the density is constant the spacings :math:`j \log(T_{j+1}/T_j)` of the distances to neighbors are independent
    exponential variables of rate d, so that the ranks a to b have a dimension of their own,

    .. math:: \frac1{\hat d_{ab}} = \frac{1}{m (b - a)} \sum_i \sum_{j=a}^{b-1} j \log \frac{T_{i,j+1}}{T_{ij}} .

    The first scale is TwoNN's. Corrected values are the dimensions of the balls with these expected values, so that a
    border alone does not end a plateau. At small scales noise raises the dimension to that of the
    columns, at large ones curvature raises and the extent of the data lowers it.

    Parameters
    ----------
    sample : int
        Number of points at which it is measured.

    Notes
    -----
    References: levina2004, denti2022

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sheet = np.column_stack([rng.uniform(size=(4000, 2)), np.zeros((4000, 8))]) + rng.normal(0, 0.01, (4000, 10))
    >>> result = by_scale(sheet)
    >>> bool(result.values[0] > 4), round(result.value)  # noise at the smallest scale
    (True, 2)
    """
    space = as_space(X, metric)
    most = int(min(MAX_SCALE_NEIGHBORS, LARGEST_SCALE_SHARE * space.n_points))
    if space.kind == "graph":
        most = int(min(most, np.median(space.points.degrees)))
    ends: IntArray = 2 ** np.arange(1, int(np.log2(max(most, 2))) + 1)
    measured = measure(space, int(ends[-1]), sample, random_state, n_jobs)
    ends, values, low, high, radius = _bands(measured, ends)
    corrected = np.array(
        [_of_ball(float(v), int(b) // 2, int(b), measured.n_points) for v, b in zip(values, ends, strict=True)]
    )
    plateau = _longest_plateau(corrected)
    value = float(np.median(corrected) if plateau is None else corrected[plateau[0] : plateau[1] + 1].mean())
    why = _describe(corrected, radius, plateau, value)
    return DimensionByScale(ends, radius, values, low, high, corrected, plateau, value, why)


def _bands(measured: Measured, ends: IntArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the usable bands of ranks b / 2 to b: b, dimension, its interval, the median radius at b."""
    lengths = measured.lengths
    proper = lengths[lengths[:, 0] > MIN_DISTANCE_SHARE * lengths[:, -1]]
    m = len(proper)
    if not m:
        raise UndecidedError("Every point has a duplicate, so the smallest scale is empty; drop the duplicates.")
    spacings = (np.arange(1, lengths.shape[1]) * np.diff(np.log(proper), axis=1)).sum(axis=0)
    # Entry j - 1 belongs to ranks j and j + 1.
    sums = np.array([spacings[b // 2 - 1 : b - 1].sum() for b in ends])
    if not (sums > 0).any():
        raise UndecidedError(
            "At every scale the neighbors of all points are at one distance (ties), which does not determine "
            "the dimension; undo the rounding of X."
        )
    ends, sums = ends[sums > 0], sums[sums > 0]  # on a grid the first neighbors of all points are at one distance
    values = m * (ends // 2) / sums
    counts = [effective_count(m * (b // 2), m, measured.n_points) for b in ends]
    low, high = np.array([gamma_interval(v, count) for v, count in zip(values, counts, strict=True)]).T
    return ends, values, low, high, np.median(proper[:, ends - 1], axis=0)


def _of_ball(value: float, a: int, b: int, n: int) -> float:
    """Return the dimension of the ball whose ranks a to b of n points have the expected estimate ``value``."""
    dimensions, upper = ball_curve(b / n)
    lower = (a - 1) / ball_curve(a / n)[1] if a > 1 else 0.0
    return float(on_curve(value, dimensions, (b - a) / ((b - 1) / upper - lower)))


def _longest_plateau(values: FloatArray) -> tuple[int, int] | None:
    """Return the longest run of scales whose values stay within a tenth of their mean, the first of equals."""
    best: tuple[int, int] | None = None
    for first in range(len(values)):
        for last in range(first + MIN_PLATEAU_SCALES - 1, len(values)):
            run = values[first : last + 1]
            same = np.abs(run - run.mean()).max() <= MAX_PLATEAU_CHANGE * run.mean()
            if same and (best is None or last - first > best[1] - best[0]):
                best = first, last
    return best


def _describe(values: FloatArray, radius: FloatArray, plateau: tuple[int, int] | None, value: float) -> tuple[str, ...]:
    if plateau is None:
        trend = "falls" if values[-1] < values[0] else "rises"
        return (
            f"There is no range of scales with one dimension: it {trend} from {values[0]:.1f} at radius "
            f"{radius[0]:.3g} to {values[-1]:.1f} at {radius[-1]:.3g}.",
        )
    first, last = plateau
    sentences = [f"The dimension is {value:.1f} from radius {radius[first]:.3g} to {radius[last]:.3g}."]
    below = values[:first].mean() / value if first else 1.0
    above = values[last + 1 :].mean() / value if last + 1 < len(values) else 1.0
    if below > 1:
        sentences.insert(
            0, f"Below radius {radius[first]:.3g} it rises to {values[0]:.1f}: noise or rounding raises it."
        )
    elif below < 1:
        sentences.append(
            f"Below, at {radius[0]:.3g}, it is {values[0]:.1f}: if larger neighborhoods are curved or reach other "
            "sheets, this is the dimension of the data."
        )
    if not 1 - MAX_PLATEAU_CHANGE <= above <= 1 + MAX_PLATEAU_CHANGE:
        cause = "curved, or reach other sheets" if above > 1 else "as wide as the data"
        sentences.append(f"Above it goes to {values[-1]:.1f} at {radius[-1]:.3g}: neighborhoods are {cause}.")
    return tuple(sentences)
