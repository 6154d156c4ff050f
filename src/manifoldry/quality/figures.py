"""The figures of a score from what each sampled point adds to them, with their standard errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manifoldry.neighbors.pairwise import block_rows, distance_rows, sample_rows
from manifoldry.quality.correlation import correlation_of_sums, correlation_sums, jackknife_error
from manifoldry.quality.density import log_radii, squared_radii
from manifoldry.quality.distances import scale_and_deviation, squared_ratios
from manifoldry.quality.distortion import LocalDistortion
from manifoldry.quality.fit import FITS, procrustes
from manifoldry.quality.jackknife import group_jackknife_errors
from manifoldry.quality.labels import Labeled, label_rows
from manifoldry.quality.rank_correlation import spearman
from manifoldry.quality.ranks import nearness, relative_error, share_kept
from manifoldry.quality.row_pass import Needs, Statistics
from manifoldry.quality.stress import stress_of_sums
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray

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
