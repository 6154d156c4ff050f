"""The figures of a score from what each sampled point adds to them, with their standard errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from scipy.stats import rankdata

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.ranks import nearness, relative_error, share_kept
from manifoldry.evaluation.metrics._distances import scale_and_deviation, squared_ratios
from manifoldry.evaluation.metrics._distortion import LocalDistortion, log_radii, squared_radii
from manifoldry.evaluation.metrics._labels import Labeled, label_rows
from manifoldry.evaluation.metrics._procrustes import FITS, procrustes
from manifoldry.evaluation.metrics._shepard import correlation, correlation_of_sums, correlation_sums, jackknife_error
from manifoldry.evaluation.metrics._stress import stress_of_sums
from manifoldry.evaluation.score._row_pass import Needs, Statistics
from manifoldry.graph._pairwise import block_rows, distance_rows, sample_rows

Figures = dict[str, tuple[float, float]]
"""Value and standard error by name."""

RANK_FIGURES = frozenset({"trustworthiness", "continuity", "knn_kept", "lcmc", "mrre_x", "mrre_y"})
RATIO_FIGURES = frozenset({"scale", "distance_deviation", "distance_error"})
SUM_FIGURES = frozenset({"pearson", "scaled_stress", "scaled_sammon_stress"})
DISTORTION_FIGURES = frozenset({"conformality", "area_deviation", "local_residual"})
LABEL_FIGURES = ("neighborhood_hit", "label_accuracy", "silhouette")
TRUTH_FIGURES = {f"procrustes_{kind}": kind for kind in FITS}


@dataclass(frozen=True)
class Task:
    """What is scored: the data, where it is sampled, what is known of it, and which figures are wanted.

    ``X`` is None where the data is not in memory; ``n_points`` is how many points there are.
    """

    X: Any
    n_points: int
    metric: str
    rows: IntArray
    n_neighbors: int
    truth: FloatArray | None
    known: Labeled | None
    wanted: frozenset[str]
    run: Run

    @property
    def needs(self) -> Needs:
        """What the pass over the rows has to find out."""
        return Needs(
            ranks=bool(self.wanted & RANK_FIGURES),
            curves="r_nx_auc" in self.wanted,
            sums=bool(self.wanted & SUM_FIGURES),
            pairs="spearman" in self.wanted,
            triplets="triplet_accuracy" in self.wanted,
        )


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
class Layout:
    """One layout of the data and what the pass found out about it; without ``errors`` they are not computed.

    ``Y`` is not needed where ``found`` holds the lengths of the data's neighbors in the layout ("stretched") and the
    columns of `label_rows` ("labels"): those of rows that are not in memory.
    """

    task: Task
    Y: FloatArray
    data: Statistics
    found: Statistics
    geodesics: PathLengths | None
    distortion: LocalDistortion | None
    errors: bool

    @property
    def n(self) -> int:
        """Number of points from which the rows were drawn, or of the rows where no errors are wanted."""
        return self.task.n_points if self.errors else len(self.task.rows)

    def figures(self) -> Figures:
        """Return all figures that are wanted."""
        wanted = self.task.wanted
        parts: list[tuple[Any, Callable[[], Figures]]] = [
            (RANK_FIGURES, self._ranks),
            ({"r_nx_auc"}, lambda: {"r_nx_auc": self._mean(self.found["areas"])}),
            (SUM_FIGURES, self._sums),
            (
                {"spearman"},
                lambda: {"spearman": spearman(self.data["before"], self.found["after"], self.task.n_points)},
            ),
            ({"geodesic_correlation"}, self._geodesic),
            ({"triplet_accuracy"}, self._triplets),
            ({"density_preservation"}, self._density),
            (RATIO_FIGURES, self._ratios),
            (DISTORTION_FIGURES, self._distortion),
            (LABEL_FIGURES, self._labels),
            (TRUTH_FIGURES, self._truth),
        ]
        found: Figures = {}
        for names, part in parts:
            if wanted.intersection(names):
                found |= part()
        return {name: figure for name, figure in found.items() if name in wanted}

    def _ranks(self) -> Figures:
        n, x_in_y, y_in_x = self.task.n_points, self.found["x_in_y"], self.found["y_in_x"]
        kept = share_kept(x_in_y)
        columns = {
            "trustworthiness": nearness(n, y_in_x),
            "continuity": nearness(n, x_in_y),
            "knn_kept": kept,
            "lcmc": kept - self.task.n_neighbors / (n - 1),
            "mrre_x": relative_error(n, x_in_y),
            "mrre_y": relative_error(n, y_in_x),
        }
        return {name: self._mean(column) for name, column in columns.items()}

    def _sums(self) -> Figures:
        sums = self.found["sums"]
        return {
            "pearson": self._of_sums(correlation_of_sums, self.found["products"]),
            "scaled_stress": self._of_sums(partial(stress_of_sums, "scaled_normalized_stress"), sums),
            "scaled_sammon_stress": self._of_sums(partial(stress_of_sums, "scaled_sammon_stress"), sums),
        }

    def _geodesic(self) -> Figures:
        assert self.geodesics is not None
        sources, lengths = self.geodesics.sources, self.geodesics.lengths
        in_y, run = distance_rows(self.Y), self.task.run
        finite = lengths[0][np.isfinite(lengths[0])]
        about = float(finite.mean()), float(in_y(sources[:1]).mean())

        def block(lo: int, hi: int) -> FloatArray:
            paths = lengths[lo:hi].astype(np.float64)
            paths[np.arange(hi - lo), sources[lo:hi]] = np.inf  # a point and itself are no pair
            return correlation_sums(paths, in_y(sources[lo:hi]), about)

        sums = np.concatenate(run.map(block, run.ranges(len(sources), block_rows(len(self.Y))), blas=True))
        return {"geodesic_correlation": self._of_sums(correlation_of_sums, sums)}

    def _triplets(self) -> Figures:
        sums = self.found["triplets"]
        value, between = self._of_sums(_ratio, sums)
        # Of all points too, only some triplets were drawn.
        kept, decided = sums.T
        shares = np.divide(kept, decided, out=np.zeros_like(kept), where=decided > 0)
        within = float(shares @ (1.0 - shares)) / max(float(decided.sum()), 1.0) / len(sums)
        return {"triplet_accuracy": (value, float(np.hypot(between, np.sqrt(within * len(sums) / self.task.n_points))))}

    def _density(self) -> Figures:
        logs = [log_radii(squared_radii(part["lengths"]))[:, None] for part in (self.data, self.found)]
        return {"density_preservation": self._of_sums(correlation_of_sums, correlation_sums(logs[0], logs[1]))}

    def _ratios(self) -> Figures:
        """Return the figures of the ratios of distances to neighbors, NaN if all of them are duplicates."""
        lengths = self.data["lengths"]
        if "stretched" in self.found:
            squares = self.found["stretched"] ** 2 / np.where(lengths > 0, lengths**2, np.nan)
        else:
            squares = squared_ratios(self.Y, self.task.rows[:, None], self.data["neighbors"], lengths)

        def medians(kept: IntArray) -> FloatArray:
            some = squares[kept]
            some = some[~np.isnan(some)]
            return np.array(scale_and_deviation(some) if some.size else (np.nan, np.nan))

        misses = np.column_stack([np.nansum((squares - 1.0) ** 2, axis=1), np.sum(~np.isnan(squares), axis=1)])
        return {
            **self._of_rows(("scale", "distance_deviation"), medians),
            "distance_error": self._of_sums(_ratio, misses),
        }

    def _distortion(self) -> Figures:
        found = self.distortion
        assert found is not None
        columns = np.column_stack([found.conformality, found.areas, found.residuals])
        columns = columns[~np.isnan(found.residuals)]
        names = "conformality", "area_deviation", "local_residual"
        if not len(columns):
            return dict.fromkeys(names, (float("nan"), 0.0))

        def medians(kept: IntArray) -> FloatArray:
            angle, area, residual = np.median(columns[kept], axis=0)
            return np.array([angle, np.median(np.abs(columns[kept, 1] / area - 1.0)) if area > 0 else 1.0, residual])

        return self._of_rows(names, medians, len(columns))

    def _labels(self) -> Figures:
        known, run = self.task.known, self.task.run
        assert known is not None
        rows, n = self.task.rows, len(known.points)
        if n < self.task.n_points:
            rows = sample_rows(n, len(rows), run.rng("labeled rows"))
        if "labels" in self.found:
            found = self.found["labels"]
        else:
            found = label_rows(self.Y[known.points], known, rows, min(self.task.n_neighbors, n - 1), run.n_jobs)
        n = n if self.errors else len(rows)
        return {name: _of_means(column, n) for name, column in zip(LABEL_FIGURES, found.T, strict=True)}

    def _truth(self) -> Figures:
        wanted = {name: kind for name, kind in TRUTH_FIGURES.items() if name in self.task.wanted}
        return {name: (procrustes(self.Y, self.task.truth, kind=kind).error, 0.0) for name, kind in wanted.items()}

    def _mean(self, column: FloatArray) -> tuple[float, float]:
        return _of_means(column, self.n)

    def _of_sums(self, figure: Callable[[FloatArray], FloatArray], sums: FloatArray) -> tuple[float, float]:
        n = self.task.n_points if self.errors else len(sums)
        return float(figure(sums.sum(axis=0))), jackknife_error(figure, sums, n)

    def _of_rows(self, names: Any, figures: Callable[[IntArray], FloatArray], m: int | None = None) -> Figures:
        m = len(self.task.rows) if m is None else m
        values = figures(np.arange(m))
        n = self.task.n_points * m // len(self.task.rows) if self.errors else m
        errors = group_jackknife_errors(figures, m, n, self.task.run.rng("jackknife groups"))
        return {name: (float(a), float(b)) for name, a, b in zip(names, values, errors, strict=True)}


def _of_means(column: FloatArray, n: int) -> tuple[float, float]:
    sums = np.column_stack([column, np.ones(len(column))])
    return float(np.mean(column)), jackknife_error(_ratio, sums, n)


def _ratio(sums: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


# Standard errors of figures of a sample that are no smooth functions of means: medians and rank correlations.

MAX_JACKKNIFE_GROUPS = 50
"""Maximum number of groups of points left out in turn: of g groups, the error is known to 1 / sqrt(2 g) of itself."""


def group_jackknife_errors(
    figures: Callable[[IntArray], FloatArray], m: int, n: int, rng: np.random.Generator
) -> FloatArray:
    """Return the standard errors of figures that are not smooth, such as medians: groups of points are left out.

    For a median, leaving out one point at a time is inconsistent; groups must grow faster than their number. Here about
    sqrt(m) groups of sqrt(m) points, at the most 50.

    Parameters
    ----------
    figures : callable
        Maps the indices of the rows kept, of ``range(m)``, to an array of figures.
    m, n : int
        Sampled points, all points.
    rng : numpy Generator
        Draws the groups: rows in the order of the data may be in the order of its classes.

    Notes
    -----
    References: shao1989
    """
    whole = figures(np.arange(m))
    if m < 2 or m >= n:
        return np.full(len(whole), 0.0 if m >= n else np.nan)
    n_groups = min(max(2, isqrt(m)), MAX_JACKKNIFE_GROUPS)
    groups = np.array_split(rng.permutation(m), n_groups)
    left = np.array([figures(np.delete(np.arange(m), group)) for group in groups])
    return _spread(left, m, n)


def _spread(figures: FloatArray, m: int, n: int) -> Any:
    g = len(figures)
    squares = np.square(figures - figures.mean(axis=0)).sum(axis=0)
    return np.sqrt((1.0 - m / n) * (g - 1) / g * squares)


# Spearman's correlation of distances in two spaces, over pairs drawn in two stages, with its standard error.


def spearman(before: FloatArray, after: FloatArray, n: int) -> tuple[float, float]:
    r"""Return the rank correlation over pairs, c of the n - 1 pairs of each of m of n points, and its standard error.

    With u and v the ranks divided by their number, a pair (x, y) moves the correlation
    :math:`12\, E[(u - \frac12)(v - \frac12)]` by

    .. math:: 12 \big( (u - \tfrac12)(v - \tfrac12) + E[1_{x \le x'} (v' - \tfrac12)]
              + E[1_{y \le y'} (u' - \tfrac12)] \big) + \text{const} ,

    so that the error is that of a mean over points of means over their pairs, with s^2 the variances
    between the points and among the pairs of a point:

    .. math:: \Big(1 - \frac{m}{n}\Big) \frac{s_b^2}{m} + \frac{m}{n} \Big(1 - \frac{c}{n - 1}\Big) \frac{s_w^2}{m c}

    NaN if all distances before are equal, 0 if those after are.

    Parameters
    ----------
    before, after : ndarray of shape (m, c)
        The distances of the pairs.
    n : int
        Number of all points.
    """
    ranks = rankdata(before.ravel()), rankdata(after.ravel())
    value = correlation(*ranks)
    u, v = ((rank - 0.5) / before.size - 0.5 for rank in ranks)
    # A constant list has no influence, and its correlation no error.
    if np.ptp(u) == 0 or np.ptp(v) == 0:
        return value, float("nan") if np.isnan(value) else 0.0
    moved = 12.0 * (u * v + _above(u, v) + _above(v, u))
    return value, two_stage_error(moved.reshape(before.shape), n, n - 1)


def two_stage_error(moved: FloatArray, n: int, n_pairs: int) -> float:
    """Return the standard error of the mean of ``moved`` (m, c): c of ``n_pairs`` pairs of each of m of n points."""
    m, c = moved.shape
    if m < 2 < n:
        return float("nan")
    between = float(np.var(moved.mean(axis=1), ddof=1))
    within = float(np.mean(np.var(moved, axis=1, ddof=1))) if c > 1 else 0.0
    return float(np.sqrt((1 - m / n) * between / m + (m / n) * (1 - c / n_pairs) * within / (m * c)))


def _above(place: FloatArray, value: FloatArray) -> FloatArray:
    """Return for every pair the sum of ``value`` over the pairs that do not come before it in ``place``, per pair."""
    order = np.argsort(place, kind="stable")
    found = np.empty_like(value)
    found[order] = np.cumsum(value[order][::-1])[::-1] / len(value)
    return found
