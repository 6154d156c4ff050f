"""What each sampled point adds to the metrics of a score, and the metrics that follow, with their standard errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.stats import rankdata

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.ranks import nearness, preserved_share, ranks_of, relative_error
from manifoldry.evaluation._metrics._coranking import auc_rows, sorted_ranks, worst_ranks
from manifoldry.evaluation._metrics._distances import (
    pilot_scale,
    scale_and_deviation,
    squared_ratios,
    stress_of_sums,
    sums_of_pairs,
)
from manifoldry.evaluation._metrics._distortion import LocalDistortion, log_radii, squared_radii
from manifoldry.evaluation._metrics._shepard import (
    correlation,
    correlation_of_sums,
    correlation_sums,
    jackknife_error,
    pair_columns,
    triplet_sums,
)
from manifoldry.evaluation._metrics._truth import FITS, Labeled, label_rows, procrustes
from manifoldry.graph._pairwise import (
    DistanceRows,
    chunk_rows,
    distance_rows,
    distances_without_self,
    draw_triplets,
    nearest,
    sample_rows,
)

RANK_METRICS = frozenset({"trustworthiness", "continuity", "knn_kept", "lcmc", "mrre_x", "mrre_y"})
RATIO_METRICS = frozenset({"scale", "distance_deviation", "distance_error"})
SUM_METRICS = frozenset({"pearson", "scaled_stress", "scaled_sammon_stress"})
DISTORTION_METRICS = frozenset({"conformality", "area_deviation", "local_residual"})
LABEL_METRICS = ("neighborhood_hit", "label_accuracy", "silhouette")
TRUTH_METRICS = {f"procrustes_{kind}": kind for kind in FITS}

N_RANKED_PAIRS = 100_000  # pairs, about, that are ranked together: the rank correlation is known to 0.003
N_ROW_TRIPLETS = 50  # triplets drawn per point, as in `triplet_accuracy`

Estimates = dict[str, tuple[float, float]]  # value and standard error by name


@dataclass(frozen=True)
class ScoreTask:
    """The data (None if not in memory), the sampled points ``rows``, labels, truth, and the ``metrics`` to compute."""

    X: Any
    n_points: int
    metric: str
    rows: IntArray
    n_neighbors: int
    truth: FloatArray | None
    labels: Labeled | None
    metrics: frozenset[str]
    run: Run

    def needs(self, names: Iterable[str]) -> bool:
        """Whether one of these metrics is to be computed."""
        return not self.metrics.isdisjoint(names)


@dataclass(frozen=True)
class Statistics:
    """Arrays with one row per sampled point, of the data or of one layout; None where they are not needed.

    ``lengths`` are distances to the nearest of the same space, ``x_in_y`` and ``y_in_x`` ranks in the other. Layouts
    that are not in memory have ``neighbor_distances`` (to the neighbors in the data) and ``label_columns`` (of
    `label_rows`).
    """

    lengths: FloatArray
    pair_distances: FloatArray
    neighbors: IntArray | None = None
    x_in_y: IntArray | None = None
    y_in_x: IntArray | None = None
    areas: FloatArray | None = None
    sums: FloatArray | None = None
    products: FloatArray | None = None
    triplets: FloatArray | None = None
    neighbor_distances: FloatArray | None = None
    label_columns: FloatArray | None = None

    @classmethod
    def join(cls, parts: Sequence[Statistics]) -> Statistics:
        """Return the statistics of consecutive points as one."""
        columns: dict[str, Any] = {}
        for field in fields(cls):
            arrays = [getattr(part, field.name) for part in parts]
            columns[field.name] = None if arrays[0] is None else np.concatenate(arrays)
        return cls(**columns)


def row_statistics(task: ScoreTask, layouts: Sequence[FloatArray]) -> list[Statistics]:
    """Return the statistics of the data and of each layout, by one pass over the sampled points."""
    n, rows, run = task.n_points, task.rows, task.run
    columns: IntArray = np.zeros((len(rows), 0), dtype=np.int64)
    triplets: IntArray = columns[:, :, None]
    if "spearman" in task.metrics:
        columns = pair_columns(n, rows, -(-N_RANKED_PAIRS // len(rows)), run.rng("pairs"))
    if "triplet_accuracy" in task.metrics:
        triplets = draw_triplets(n, rows, N_ROW_TRIPLETS, run.rng("triplets"))
    in_x, in_y = distance_rows(task.X, task.metric), [distance_rows(Y) for Y in layouts]
    scales = [_scales(in_x, space, rows[:1]) for space in in_y]
    grain = chunk_rows(n)

    def part(from_x: FloatArray, lo: int, hi: int) -> list[Statistics]:
        x = _Neighbors.of(from_x, task)
        drawn = columns[lo:hi], triplets[lo:hi]
        data = Statistics(x.lengths, np.take_along_axis(from_x, drawn[0], axis=1), x.nearest)
        others = (distances_without_self(space, rows[lo:hi]) for space in in_y)
        layouts = (_layout_statistics(task, x, y, *drawn, *scale) for y, scale in zip(others, scales, strict=True))
        return [data, *layouts]

    def block(lo: int, hi: int) -> list[list[Statistics]]:
        from_x = distances_without_self(in_x, rows[lo:hi])
        # The rest is done on few rows at a time, which stay in the processor's cache.
        return [part(from_x[a:b], lo + a, lo + b) for a, b in run.ranges(hi - lo, grain)]

    blocks = run.map(block, run.ranges(len(rows), chunk_rows(n, task.X.shape[1])), blas=True)
    return [Statistics.join(parts) for parts in zip(*(part for parts in blocks for part in parts), strict=True)]


def _scales(in_x: DistanceRows, in_y: DistanceRows, row: IntArray) -> tuple[float, tuple[float, float]]:
    """Return the scale of a layout and mean distances, from one point: sums about these lose no digits."""
    x, y = in_x(row), in_y(row)
    others = x.size - 1
    return pilot_scale(in_x, in_y, int(row[0])), (float(x.sum() / others), float(y.sum() / others))


def _layout_statistics(
    task: ScoreTask,
    x: _Neighbors,
    from_y: FloatArray,
    columns: IntArray,
    triplets: IntArray,
    pilot: float,
    about: tuple[float, float],
) -> Statistics:
    y = _Neighbors.of(from_y, task)
    ranked, sums = task.needs(RANK_METRICS), None
    if task.needs(SUM_METRICS):
        sums = sums_of_pairs(x.distances, from_y, pilot, about)
    return Statistics(
        y.lengths,
        np.take_along_axis(from_y, columns, axis=1),
        x_in_y=y.ranks(x.nearest) if ranked else None,
        y_in_x=x.ranks(y.nearest) if ranked else None,
        areas=auc_rows(worst_ranks(x.order, y.ranking), from_y.shape[1]) if "r_nx_auc" in task.metrics else None,
        sums=None if sums is None else sums[0],
        products=None if sums is None else sums[1],
        triplets=triplet_sums(x.distances, from_y, triplets) if "triplet_accuracy" in task.metrics else None,
    )


@dataclass(frozen=True)
class _Neighbors:
    """Distances of some points to all others in one space, and the nearest; all ranks if R_NX needs them."""

    distances: FloatArray
    nearest: IntArray
    lengths: FloatArray
    order: IntArray
    ranking: IntArray

    @classmethod
    def of(cls, distances: FloatArray, task: ScoreTask) -> _Neighbors:
        """Find the nearest points."""
        sort = "r_nx_auc" in task.metrics
        order, ranking = sorted_ranks(distances) if sort else (np.empty((len(distances), 0), dtype=np.int64),) * 2
        # A copy: a view would keep the whole order, and those of all rows are as large as all distances.
        near = order[:, : task.n_neighbors].copy() if sort else nearest(distances, task.n_neighbors)
        return cls(distances, near, np.take_along_axis(distances, near, axis=1), order, ranking)

    def ranks(self, points: IntArray) -> IntArray:
        """Return the ranks of some points (b, k) in this space."""
        if self.order.size:
            return np.take_along_axis(self.ranking, points, axis=1)
        return ranks_of(self.distances, points)


def baseline_pca(X: Any, n_components: int) -> tuple[Any, int]:
    """Return scikit-learn's PCA, not fitted, for dense or sparse rows, and how many components it lacks."""
    from sklearn.decomposition import PCA

    count = min(n_components, min(X.shape) - issparse(X))
    return PCA(count, svd_solver="arpack" if issparse(X) else "auto", random_state=0), n_components - count


@dataclass(frozen=True)
class PathLengths:
    """Lengths of paths (s, n) from some of the points."""

    sources: IntArray
    lengths: FloatArray

    @property
    def joined(self) -> float:
        """Share of the pairs that a path joins."""
        s, n = self.lengths.shape
        return float((np.count_nonzero(np.isfinite(self.lengths)) - s) / (s * (n - 1)))


@dataclass(frozen=True)
class LayoutMetrics:
    """The metrics of one layout, which is empty if not in memory; without ``errors`` the rows are all points."""

    task: ScoreTask
    Y: FloatArray
    data: Statistics
    layout: Statistics
    paths: PathLengths | None
    distortion: LocalDistortion | None
    errors: bool

    def estimates(self) -> Estimates:
        """Return all metrics of the task."""
        pairs = self.data.pair_distances, self.layout.pair_distances
        parts: list[tuple[Iterable[str], Callable[[], Estimates]]] = [
            (RANK_METRICS, self._ranks),
            ({"r_nx_auc"}, lambda: {"r_nx_auc": self._mean(_known(self.layout.areas))}),
            (SUM_METRICS, self._sums),
            ({"spearman"}, lambda: {"spearman": spearman(*pairs, self.task.n_points)}),
            ({"geodesic_correlation"}, self._geodesic),
            ({"triplet_accuracy"}, self._triplets),
            ({"density_preservation"}, self._density),
            (RATIO_METRICS, self._ratios),
            (DISTORTION_METRICS, self._distortion),
            (LABEL_METRICS, self._labels),
            (TRUTH_METRICS, self._truth),
        ]
        estimates: Estimates = {}
        for names, compute in parts:
            if self.task.needs(names):
                estimates |= compute()
        return {name: estimate for name, estimate in estimates.items() if name in self.task.metrics}

    def _ranks(self) -> Estimates:
        n, x_in_y, y_in_x = self.task.n_points, _known(self.layout.x_in_y), _known(self.layout.y_in_x)
        kept = preserved_share(x_in_y)
        columns = {
            "trustworthiness": nearness(n, y_in_x),
            "continuity": nearness(n, x_in_y),
            "knn_kept": kept,
            "lcmc": kept - self.task.n_neighbors / (n - 1),
            "mrre_x": relative_error(n, x_in_y),
            "mrre_y": relative_error(n, y_in_x),
        }
        return {name: self._mean(column) for name, column in columns.items()}

    def _sums(self) -> Estimates:
        sums = _known(self.layout.sums)
        return {
            "pearson": self._of_sums(correlation_of_sums, _known(self.layout.products)),
            "scaled_stress": self._of_sums(partial(stress_of_sums, "scaled_normalized_stress"), sums),
            "scaled_sammon_stress": self._of_sums(partial(stress_of_sums, "scaled_sammon_stress"), sums),
        }

    def _geodesic(self) -> Estimates:
        assert self.paths is not None
        sources, lengths = self.paths.sources, self.paths.lengths
        in_y, run = distance_rows(self.Y), self.task.run
        finite = lengths[0][np.isfinite(lengths[0])]
        about = float(finite.mean()), float(in_y(sources[:1]).mean())

        def block(lo: int, hi: int) -> FloatArray:
            paths = lengths[lo:hi].astype(np.float64)
            paths[np.arange(hi - lo), sources[lo:hi]] = np.inf  # a point and itself are not a pair
            return correlation_sums(paths, in_y(sources[lo:hi]), about)

        sums = np.concatenate(run.map(block, run.ranges(len(sources), chunk_rows(len(self.Y))), blas=True))
        return {"geodesic_correlation": self._of_sums(correlation_of_sums, sums)}

    def _triplets(self) -> Estimates:
        sums = _known(self.layout.triplets)
        value, between = self._of_sums(_ratio, sums)
        # Even if all points are used, only some of their triplets were drawn.
        kept, decided = sums.T
        shares = np.divide(kept, decided, out=np.zeros_like(kept), where=decided > 0)
        within = float(shares @ (1.0 - shares)) / max(float(decided.sum()), 1.0) / len(sums)
        return {"triplet_accuracy": (value, float(np.hypot(between, np.sqrt(within * len(sums) / self.task.n_points))))}

    def _density(self) -> Estimates:
        logs = [log_radii(squared_radii(part.lengths))[:, None] for part in (self.data, self.layout)]
        return {"density_preservation": self._of_sums(correlation_of_sums, correlation_sums(logs[0], logs[1]))}

    def _ratios(self) -> Estimates:
        """Return the metrics of the ratios of distances to neighbors, NaN if all neighbors are duplicates."""
        lengths = self.data.lengths
        if self.layout.neighbor_distances is not None:
            squares = self.layout.neighbor_distances**2 / np.where(lengths > 0, lengths**2, np.nan)
        else:
            squares = squared_ratios(self.Y, self.task.rows[:, None], _known(self.data.neighbors), lengths)

        def medians(rows: IntArray) -> FloatArray:
            ratios = squares[rows]
            ratios = ratios[~np.isnan(ratios)]
            return np.array(scale_and_deviation(ratios) if ratios.size else (np.nan, np.nan))

        misses = np.column_stack([np.nansum((squares - 1.0) ** 2, axis=1), np.sum(~np.isnan(squares), axis=1)])
        errors = self._of_sums(_ratio, misses)
        return {**self._of_rows(("scale", "distance_deviation"), medians), "distance_error": errors}

    def _distortion(self) -> Estimates:
        assert self.distortion is not None
        local = self.distortion
        columns = np.column_stack([local.conformality, local.areas, local.residuals])
        columns = columns[~np.isnan(local.residuals)]
        names = "conformality", "area_deviation", "local_residual"
        if not len(columns):
            return dict.fromkeys(names, (float("nan"), 0.0))

        def medians(rows: IntArray) -> FloatArray:
            angle, area, residual = np.median(columns[rows], axis=0)
            return np.array([angle, np.median(np.abs(columns[rows, 1] / area - 1.0)) if area > 0 else 1.0, residual])

        return self._of_rows(names, medians, len(columns))

    def _labels(self) -> Estimates:
        labels, run = self.task.labels, self.task.run
        assert labels is not None
        rows, n = self.task.rows, len(labels.points)
        if n < self.task.n_points:
            rows = sample_rows(n, len(rows), run.rng("labeled rows"))
        columns = self.layout.label_columns
        if columns is None:
            columns = label_rows(self.Y[labels.points], labels, rows, min(self.task.n_neighbors, n - 1), run.n_jobs)
        n = n if self.errors else len(rows)
        return {name: _of_means(column, n) for name, column in zip(LABEL_METRICS, columns.T, strict=True)}

    def _truth(self) -> Estimates:
        kinds = {name: kind for name, kind in TRUTH_METRICS.items() if name in self.task.metrics}
        return {name: (procrustes(self.Y, self.task.truth, kind=kind).error, 0.0) for name, kind in kinds.items()}

    def _mean(self, column: FloatArray) -> tuple[float, float]:
        return _of_means(column, self.task.n_points if self.errors else len(self.task.rows))

    def _of_sums(self, metric: Callable[[FloatArray], FloatArray], sums: FloatArray) -> tuple[float, float]:
        n = self.task.n_points if self.errors else len(sums)
        return float(metric(sums.sum(axis=0))), jackknife_error(metric, sums, n)

    def _of_rows(self, names: Any, metrics: Callable[[IntArray], FloatArray], m: int | None = None) -> Estimates:
        m = len(self.task.rows) if m is None else m
        values = metrics(np.arange(m))
        n = self.task.n_points * m // len(self.task.rows) if self.errors else m
        errors = group_jackknife_errors(metrics, m, n, self.task.run.rng("jackknife groups"))
        return {name: (float(a), float(b)) for name, a, b in zip(names, values, errors, strict=True)}


def _known(column: Array | None) -> Array:
    """Return statistics that the task asked for."""
    assert column is not None
    return column


def _of_means(column: FloatArray, n: int) -> tuple[float, float]:
    sums = np.column_stack([column, np.ones(len(column))])
    return float(np.mean(column)), jackknife_error(_ratio, sums, n)


def _ratio(sums: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


# Standard errors of metrics that are not smooth functions of means: medians and rank correlations.

MAX_JACKKNIFE_GROUPS = 50  # groups left out in turn: with g groups the relative error is about 1 / sqrt(2 g)


def group_jackknife_errors(
    metrics: Callable[[IntArray], FloatArray], m: int, n: int, rng: np.random.Generator
) -> FloatArray:
    """Return the standard errors of metrics of m of n points that are not smooth, such as medians (shao1989).

    Leaving out one point at a time is inconsistent for a median; about sqrt(m) groups of sqrt(m) points are left out.
    """
    if m < 2 or m >= n:
        return np.full(len(metrics(np.arange(m))), 0.0 if m >= n else np.nan)
    # Drawn at random: rows in the order of the data may be in the order of its classes.
    groups = np.array_split(rng.permutation(m), min(max(2, isqrt(m)), MAX_JACKKNIFE_GROUPS))
    values = np.array([metrics(np.delete(np.arange(m), group)) for group in groups])
    g = len(values)
    squares = np.square(values - values.mean(axis=0)).sum(axis=0)
    errors: FloatArray = np.sqrt((1.0 - m / n) * (g - 1) / g * squares)
    return errors


def spearman(before: FloatArray, after: FloatArray, n: int) -> tuple[float, float]:
    r"""Return the rank correlation of distances (m, c), c of the n - 1 pairs of each of m of n points, and its error.

    With u and v the ranks divided by their number, a pair (x, y) moves the correlation by

    .. math:: 12 \big( (u - \tfrac12)(v - \tfrac12) + E[1_{x \le x'} (v' - \tfrac12)]
              + E[1_{y \le y'} (u' - \tfrac12)] \big) + \text{const} ;

    the error is that of a mean over points of means over their pairs. NaN if all distances before are equal.
    """
    ranks = rankdata(before.ravel()), rankdata(after.ravel())
    value = correlation(*ranks)
    u, v = ((rank - 0.5) / before.size - 0.5 for rank in ranks)
    # A constant list has no influence, and its correlation has no error.
    if np.ptp(u) == 0 or np.ptp(v) == 0:
        return value, float("nan") if np.isnan(value) else 0.0
    influence = (12.0 * (u * v + _sum_above(u, v) + _sum_above(v, u))).reshape(before.shape)
    m, c = influence.shape
    if m < 2 < n:
        return value, float("nan")
    between = float(np.var(influence.mean(axis=1), ddof=1))
    within = float(np.mean(np.var(influence, axis=1, ddof=1))) if c > 1 else 0.0
    return value, float(np.sqrt((1 - m / n) * between / m + (m / n) * (1 - c / (n - 1)) * within / (m * c)))


def _sum_above(key: FloatArray, value: FloatArray) -> FloatArray:
    """Return for every pair the sum of ``value`` over the pairs with no smaller ``key``, over their number."""
    order = np.argsort(key, kind="stable")
    sums = np.empty_like(value)
    sums[order] = np.cumsum(value[order][::-1])[::-1] / len(value)
    return sums
