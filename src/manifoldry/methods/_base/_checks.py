"""The check of every layout after its fit, and the order of all findings of a fit.

Neighbors are compared in a sample of bounded size, so the check takes a few hundredths of a second for any data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from manifoldry._core import check
from manifoldry._core.arrays import sample_of, taken
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._core.warnings import DisconnectedWarning, EmbeddingWarning
from manifoldry._numerics.geometry.principal import leading_scores
from manifoldry._numerics.geometry.scales import (
    AxisMoments,
    axis_moments,
    column_labels,
    crowding,
    dominated_axes,
)
from manifoldry._numerics.ranks import nearness, preserved_share, ranks_of
from manifoldry.graph._engines import exact_engine, without_self
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._pairwise import (
    MAX_DIFFERENCE_COLUMNS,
    DistanceRows,
    chunk_rows,
    distance_rows,
    distances_without_self,
    nearest,
    row_map,
)

if TYPE_CHECKING:
    from manifoldry._numerics.elbow import Suggestion
    from manifoldry._numerics.geometry.dimension import IntrinsicDimension
    from manifoldry._numerics.geometry.scales import DominatedAxis, DominatingColumns

MIN_CHECKED_POINTS = 30  # Least number of points of which anything is said: fewer are seen one by one
MAX_CHECKED_POINTS = 1_000_000  # most points of a layout that are checked; of more, a random sample
MAX_POPULATION = 3000  # maximum number of points among which neighbors are compared
COMPARED = (100, 500, 2000)
"""Numbers of points whose neighbors are compared, until it is decided whether the layout is worse than PCA."""
COMPARED_OF_FEW, MAX_FEW = (100, 200), 5000
"""The same for up to that many points, whose fits take milliseconds; more rows decide differences of 0.01 only."""
MIN_GROWTH = 1.2
"""Least factor by which the number of points grows, and reserve of one that is expected to find a loss harmless."""
N_COMPARED_ALONE = 25
"""The first number without principal components to compare with, where only chance has to be excluded."""
MAX_POPULATION_ENTRIES = 10_000_000  # maximum number of entries (rows times columns) of the compared population: 80 MB
N_COMPARED_NEIGHBORS = 15
"""Number of neighbors compared, as in `metrics.score`; of few points a tenth, as more are no neighborhood."""
MAX_CROWD_SAMPLE = 500  # maximum number of crowded points whose rows are compared with each other
MAX_CROWDED_SHARE = 0.2  # maximum share of the points in crowded cells of a plot without a remark
TOO_CROWDED_SHARE = 0.3  # the same without a warning, of a method for pictures
MAX_DOMINATED_SHARE = 0.5
"""Maximum share of an axis's variance that a handful of points may hold without a remark; rare cells hold 57 %."""
TOO_DOMINATED_SHARE = 0.8
"""The same without a warning: beyond, the other points cannot be distinguished along that axis."""
N_AXIS_ROWS = 3  # rows of each axis that a sentence names: enough to find them
MIN_AXIS_EXTENT = 1e-6
"""Least extent of an axis relative to the longest without a finding: below, nothing can be seen along it."""
MIN_TRUST = 0.55
"""Least trustworthiness without a finding: points laid out at random have 0.5, and a little more if they are few."""
MIN_DIFFERENCE = 0.02
"""Least difference in trustworthiness that is worth a sentence: smaller ones cannot be seen in a picture."""
STANDARD_ERRORS = 2.5
"""Standard errors by which trustworthiness must differ to be decided: wrong by chance in one fit of 160."""


@dataclass(frozen=True)
class LayoutReport:
    """The result of the check of a layout: defects of the input and of the layout, and scores of kept neighbors.

    ``figures``, a dict or what computes it, are those of `metrics.score` among ``n_among`` points, at ``n_compared`` of
    them; ``pca`` has those of as many principal components. Without distances to compare with they are None.
    """

    causes: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    figures: Any = None


def check_layout(X: Any, Y: Array, model: object, run: Run) -> LayoutReport:
    """Return what is wrong with a layout of ``X`` that an estimator, of any library, was fitted to."""
    rows, count = None, len(Y)
    if count and not check.extent(Y, run.n_jobs).finite:  # components of the graph that were left out
        rows = np.flatnonzero(np.isfinite(Y).all(axis=1))
        count = len(rows)
    if count < MIN_CHECKED_POINTS:
        return LayoutReport()
    if count > MAX_CHECKED_POINTS:
        chosen = np.sort(run.rng("look at rows").integers(count, size=MAX_CHECKED_POINTS))
        chosen = chosen[np.diff(chosen, prepend=-1) > 0]  # as np.unique, which takes ten times as long here
        rows = chosen if rows is None else rows[chosen]
    if rows is None:
        return LayoutCheck(X, np.asarray(Y, dtype=float), model, run).report()
    return LayoutCheck(X, Y, model, run).at(rows).report()


def findings(X: Any, Y: Array, model: object, run: Run) -> tuple[str, ...]:
    """Return a text about everything that makes a layout of ``X`` useless."""
    report = check_layout(X, Y, model, run)
    return (*report.causes, *report.symptoms, *report.remarks)


@dataclass(frozen=True)
class LayoutCheck:
    """A layout with finite coordinates, what it was computed from, and the estimator whose parameters are suggested."""

    X: Any
    Y: FloatArray
    model: object
    run: Run
    numbers: IntArray | None = None  # of the points among all, unless these are all

    @property
    def metric(self) -> Any:
        """The metric of the data."""
        return getattr(self.model, "metric", "euclidean")

    @property
    def pairwise(self) -> bool:
        """Whether ``X`` holds distances, inner products or affinities."""
        return isinstance(self.metric, str) and self.metric in ("precomputed", "gram", "affinity")

    @property
    def for_pictures(self) -> bool:
        """Whether the method is meant for pictures."""
        return getattr(self.model, "_for_visualization", True)

    @property
    def linear(self) -> bool:
        """Whether the axes are principal components, by their variance."""
        return hasattr(self.model, "explained_variance_ratio_")

    def at(self, rows: IntArray) -> LayoutCheck:
        """Return the check of some points only; a graph stays whole."""
        X = self.X
        if not (isinstance(X, NeighborGraph) or (issparse(X) and self.pairwise)):
            X = X[np.ix_(rows, rows)] if self.pairwise else X[rows] if issparse(X) else taken(X, rows, self.run)
        return replace(self, X=X, Y=np.asarray(taken(self.Y, rows, self.run), dtype=float), numbers=rows)

    def report(self) -> LayoutReport:
        """Run all checks."""
        plotted = self.Y[:, : 3 if self.Y.shape[1] == 3 else 2]
        compared = self.compare_neighbors()
        random, lost = ((), ()) if compared is None else (self._at_random(compared), self._worse_than_pca(compared))
        axes = axis_moments(plotted, self.run)
        dominated = dominated_axes(plotted, axes, MAX_DOMINATED_SHARE)
        # Directions of independent sources or of projection pursuit are those in which few points stand out.
        drawn = self.for_pictures or self.linear
        far = [each for each in dominated if each.share > MAX_DOMINATED_SHARE]
        limit = TOO_DOMINATED_SHARE if drawn else np.inf
        crowded, share = self._crowds(plotted, axes)
        rows = not isinstance(self.X, NeighborGraph) and not self.pairwise
        rounded = check.rounding_message(self.X, self.run.n_jobs) if rows else None
        warned = self.for_pictures and share > TOO_CROWDED_SHARE
        return LayoutReport(
            () if rounded is None else (rounded,),
            (
                *random,
                *_flat_axes(axes),
                *self._dominated([each for each in far if each.share > limit]),
                *(crowded if warned else ()),
                *lost,
            ),
            (*self._dominated([each for each in far if each.share <= limit]), *(() if warned else crowded)),
            None if compared is None else compared.figures,
        )

    def _crowds(self, plotted: FloatArray, axes: AxisMoments) -> tuple[tuple[str, ...], float]:
        """Return the finding that points lie on top of each other, if so, and the share of those points."""
        crowd = crowding(plotted, axes, self.run)
        if crowd.share <= MAX_CROWDED_SHARE or self._mostly_identical(crowd.points):
            return (), crowd.share
        spots = "one spot" if crowd.n_places == 1 else f"{crowd.n_places} spots"
        more = "a larger n_neighbors or " if hasattr(self.model, "n_neighbors") else ""
        instead = f"try {more}another method"
        if getattr(self.model, "densmap", False):
            instead = "try a lower dens_lambda, or zoom in: densMAP draws outliers far away"
        text = (
            f"{crowd.share:.0%} of the points lie in {spots} of the plot, a hundredth of its width"
            f"{'' if crowd.n_places == 1 else ' each'}, and what is inside cannot be seen: {instead}."
        )
        return (text,), crowd.share

    def _mostly_identical(self, points: IntArray) -> bool:
        """Tell whether most of the points are copies of each other, so that they have to coincide."""
        if isinstance(self.X, NeighborGraph):
            return False
        some = self.run.rng("look at crowds").permutation(points)[:MAX_CROWD_SAMPLE]
        return 2 * len(distinct_rows(self.X[some])[0]) < len(some)

    def _dominated(self, axes: Sequence[DominatedAxis]) -> tuple[str, ...]:
        """Return which points dominate these axes."""
        if not axes:
            return ()
        rows = list(dict.fromkeys(int(row) for each in axes for row in each.points[:N_AXIS_ROWS]))
        rows = rows if self.numbers is None else self.numbers[rows].tolist()
        count = len(axes[0].points)
        named = f"row{'' if count == 1 else 's'} {', '.join(map(str, rows))}{', ...' if count > len(rows) else ''}"
        which = f"axis {axes[0].axis + 1}" if len(axes) == 1 else f"axes {_listed(each.axis + 1 for each in axes)}"
        more = ", a larger n_neighbors" if hasattr(self.model, "n_neighbors") else ""
        hold, these, are = (
            ("holds", "this row", "it is an outlier") if count == 1 else ("hold", "these rows", "they are outliers")
        )
        return (
            f"{count} of {len(self.Y):,} points ({named}) {hold} "
            f"{min(each.share for each in axes):.0%} of the variance of {which}, so the others lie close together "
            f"there: inspect {these}, and try RobustScaler{more} or a robust method if {are}.",
        )

    def compare_neighbors(self) -> _Comparison | None:
        """Compare neighbors at as many points as it takes to decide whether the layout keeps them well enough."""
        X, Y, metric = self.X, self.Y, self.metric
        if isinstance(X, NeighborGraph) or callable(metric) or metric in ("gram", "affinity"):
            return None  # no distances to compare with, or only by a slow function
        if metric == "precomputed" and issparse(X):
            return None
        width = X.nnz // X.shape[0] + 1 if issparse(X) else X.shape[1]
        most = max(10 * N_COMPARED_NEIGHBORS, MAX_POPULATION_ENTRIES // width)
        points = self.run.rng("look").choice(len(Y), min(MAX_POPULATION, most, len(Y)), replace=False)
        k = min(N_COMPARED_NEIGHBORS, len(points) // 10)
        layouts = [Y[points]]
        # Components of a sample would span another plane than the model's own.
        if metric != "precomputed" and not self.linear and Y.shape[1] < min(len(points), X.shape[1]):
            layouts.append(leading_scores(X[points], Y.shape[1], self.run.rng("look at components")))
        few = len(Y) <= MAX_FEW
        large = metric == "precomputed" or points.size * width > MAX_KEPT_ENTRIES
        numbers, run = (COMPARED_OF_FEW, Run(0, 1)) if few else (COMPARED, self.run)  # for few, one thread is as fast
        rows = _Rows(self._distance_rows(points), layouts, k, run, keep=large or not few)
        left = [*numbers] if len(layouts) > 1 else [N_COMPARED_ALONE, *numbers]
        while True:
            m = min(len(points), left.pop(0))
            comparison = _compare(rows.trust(m), len(Y))
            if comparison.harmless or comparison.harmful or m == len(points) or not left:
                break
            if m * comparison.growth < left[0]:
                left.insert(0, int(m * comparison.growth))
        if large or m > COMPARED_OF_FEW[-1]:  # much to keep until they are read, or to compute again
            return replace(comparison, n_compared=m, figures=rows.figures(m))
        later = partial(rows.figures, min(len(points), max(m, COMPARED[0])))
        return replace(comparison, n_compared=m, figures=later)

    def _distance_rows(self, points: IntArray) -> DistanceRows:
        """Return the function of positions in ``points`` to their distances in the data, or squares, to all."""
        X, metric, parameters = self.X, self.metric, getattr(self.model, "metric_params", None)
        if metric == "precomputed":
            return lambda some: X[np.ix_(points[some], points)].astype(float)
        population, mapped = X[points].astype(float), row_map(metric, parameters, X)
        if mapped is not None:
            population, metric, parameters = mapped(population), "euclidean", None
        if metric == "euclidean" and population.shape[1] <= MAX_DIFFERENCE_COLUMNS and not issparse(population):
            return lambda some: cdist(population[some], population, "sqeuclidean")  # half the time
        return distance_rows(population, metric, parameters)

    def _at_random(self, comparison: _Comparison) -> tuple[str, ...]:
        """Return a text if neighbors are kept no better than at random, unless the method ignores the units of X."""
        if comparison.trust >= MIN_TRUST or getattr(self.model, "_ignores_units", False):
            return ()
        return (
            f"Neighbors in the layout are hardly more often neighbors in the data than at random (trustworthiness "
            f"{comparison.trust:.2f}; 0.5 is chance, 1 is best): {self._alternative}.",
        )

    def _worse_than_pca(self, comparison: _Comparison) -> tuple[str, ...]:
        """Return a text if a method for pictures keeps neighbors less well than principal components."""
        if not (comparison.harmful and self.for_pictures):
            return ()
        m = comparison.n_compared
        sampled = "" if m >= len(self.Y) else f", of {m:,} points"
        return (
            f"Neighbors are kept less well than by PCA (trustworthiness {comparison.trust:.2f}, PCA "
            f"{comparison.trust + comparison.lost:.2f}{sampled}): {self._alternative}.",
        )

    @property
    def _alternative(self) -> str:
        others = [name for name in ("TSNE", "UMAP") if name != type(self.model).__name__]
        return f"for a picture try {' or '.join(others)}, or other parameters"


def _flat_axes(axes: AxisMoments) -> Iterator[str]:
    extents = axes.high - axes.low
    flat = np.flatnonzero(extents <= MIN_AXIS_EXTENT * extents.max())
    if len(flat):
        one = len(flat) == 1
        which = f"Axis {flat[0] + 1} of the layout is" if one else f"Axes {_listed(flat + 1)} of the layout are"
        yield (
            f"{which} constant, so there is nothing to see along {'it' if one else 'them'}: lower n_components, or "
            "check whether the data has as many dimensions."
        )


def _listed(numbers: Iterable[Any]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True)
class _Comparison:
    """Trustworthiness of a layout, and what it loses against principal components, with its standard error."""

    trust: float
    lost: float
    lost_error: float
    n_compared: int = 0
    figures: Any = None

    @property
    def harmful(self) -> bool:
        """Whether the loss matters, and is not one of the sample alone."""
        return self.lost - STANDARD_ERRORS * self.lost_error > MIN_DIFFERENCE

    @property
    def harmless(self) -> bool:
        """Whether comparing more points would hardly find anything."""
        return self.trust >= MIN_TRUST and self.lost + STANDARD_ERRORS * self.lost_error < MIN_DIFFERENCE

    @property
    def growth(self) -> float:
        """By what factor more points would probably find the loss harmless; infinite if it may not be."""
        if self.trust < MIN_TRUST or self.lost >= MIN_DIFFERENCE:
            return np.inf
        return MIN_GROWTH * max(1.0, STANDARD_ERRORS * self.lost_error / (MIN_DIFFERENCE - self.lost)) ** 2


class _Rows:
    """Neighbors in layouts and their ranks in the data, at the first points, as many as are asked for."""

    def __init__(self, data: DistanceRows, layouts: Sequence[FloatArray], k: int, run: Run, *, keep: bool) -> None:
        self._data, self._k, self._run = data, k, run
        self._layouts = [points / (np.abs(points).max() or 1.0) for points in layouts]  # searches take squares
        self._searches = [exact_engine(points) for points in self._layouts]
        self._trust = [np.empty(0) for _ in layouts]
        self._kept: list[FloatArray] | None = [] if keep else None  # distances in the data

    def trust(self, m: int) -> list[FloatArray]:
        """Return the trustworthiness of the first m rows of each layout."""
        first, n = len(self._trust[0]), len(self._layouts[0])
        if first == m:
            return self._trust
        rows, lists = np.arange(first, m), []
        for search, points in zip(self._searches, self._layouts, strict=True):
            lengths, columns = search.nearest(points[first:m], self._k + 1, self._run)
            lists.append(without_self(columns, lengths, rows, self._run)[0])
        near = np.hstack(lists)

        def block(lo: int, hi: int) -> tuple[IntArray, list[FloatArray]]:
            distances = distances_without_self(self._data, rows[lo:hi])
            return ranks_of(distances, near[lo:hi]), [] if self._kept is None else [distances]

        blocks = self._run.map(block, self._run.ranges(len(rows), chunk_rows(n)), blas=True)
        if self._kept is not None:
            self._kept += [distances for _, kept in blocks for distances in kept]
        parts = np.split(np.concatenate([ranks for ranks, _ in blocks]), len(self._layouts), axis=1)
        self._trust = [np.append(known, nearness(n, part)) for known, part in zip(self._trust, parts, strict=True)]
        return self._trust

    def figures(self, m: int) -> dict[str, Any]:
        """Return the scores at the first m points of the layout, and of principal components if they are compared."""
        trust, n = self.trust(m), len(self._layouts[0])
        spaces = [distance_rows(points) for points in self._layouts]
        kept = None if self._kept is None else np.concatenate(self._kept)

        def block(lo: int, hi: int) -> IntArray:
            rows = np.arange(lo, hi)
            near = nearest(distances_without_self(self._data, rows) if kept is None else kept[lo:hi], self._k)
            return np.array([ranks_of(distances_without_self(space, rows), near) for space in spaces])

        blocks = self._run.map(block, self._run.ranges(m, chunk_rows(n)), blas=True)
        scores: list[dict[str, Any]] = []
        for own, ranks in zip(trust, np.concatenate(blocks, axis=1), strict=True):
            scores.append({"trustworthiness": float(own.mean()), "continuity": float(nearness(n, ranks).mean())})
            scores[-1]["knn_kept"] = float(preserved_share(ranks).mean())
        layout, *others = scores
        named = {"n_neighbors": self._k, "n_compared": m, "n_among": n, **layout}
        return named if not others else {**named, "pca": others[0]}


def _compare(trust: Sequence[FloatArray], n_points: int) -> _Comparison:
    """Compare a layout with principal components of the data by the trustworthiness of rows."""
    layout, *principal = trust
    if not principal:
        alone = layout.mean() - STANDARD_ERRORS * layout.std() / np.sqrt(len(layout))
        decided = len(layout) >= COMPARED[0] or alone >= MIN_TRUST
        return _Comparison(float(layout.mean()), -np.inf if decided else 0.0, 0.0 if decided else np.inf)
    lost = principal[0] - layout
    unseen = 1.0 - len(layout) / n_points
    return _Comparison(float(layout.mean()), float(lost.mean()), float(lost.std() * np.sqrt(unseen / len(layout))))


# Findings of a fit, the layout's and others

Finding = tuple[str, type[Warning]]
"""A text, and the category of its warning."""
CERTIFICATES = ("certificate_", "error_certificate_")  # the attributes of a fitted estimator that prove something


def plain(texts: Iterable[str]) -> list[Finding]:
    """Return texts as findings of the general category."""
    return [(text, EmbeddingWarning) for text in texts]


def ranked(
    warnings: Iterable[Finding],
    causes: Iterable[str],
    advice: Iterable[str],
    symptoms: Iterable[str],
    unproven: Iterable[str],
) -> tuple[list[Finding], list[Finding]]:
    """Return findings on the input and the run, and those on the result, each from causes to consequences."""
    steps: dict[type[Warning], list[Finding]] = {DisconnectedWarning: [], ConvergenceWarning: [], EmbeddingWarning: []}
    for message, category in warnings:
        specific = [kind for kind in (DisconnectedWarning, ConvergenceWarning) if issubclass(category, kind)]
        steps[(specific or [EmbeddingWarning])[0]].append((message, category if specific else EmbeddingWarning))
    return [*plain(causes), *steps[EmbeddingWarning]], [
        *plain(advice),
        *steps[DisconnectedWarning],
        *plain(symptoms),
        *steps[ConvergenceWarning],
        *plain(unproven),
    ]


def scale_sentence(columns: DominatingColumns, method: str, names: Any) -> str:
    """Return the finding that few columns dominate all distances; ``names`` are those of all columns, if known."""
    text = columns.sentence(None if names is None else column_labels(names)).rstrip(".")
    return (
        f"{text}: scale the columns, as in make_pipeline(StandardScaler(), {method}()), unless all have the same unit."
    )


def certificates_of(model: object) -> list[Any]:
    """Return the certificates of a fitted estimator."""
    return [getattr(model, name) for name in CERTIFICATES if hasattr(model, name)]


def problems(model: object) -> tuple[str, ...]:
    """Return the findings of a fit that are worth a warning, the most important first: no remarks, nothing proven."""
    notes = getattr(model, "diagnostics_", {})
    proven = {each.sentence for each in certificates_of(model) if each.verdict != "bound only"}
    others = proven.union(notes.get("remarks", ()))
    return tuple(text for text in notes.get("advice", ()) if text not in others)


MAX_MEASURED_ROWS = 2000  # rows of the sample in which the data is measured
MAX_KEPT_ENTRIES = 1_000_000  # entries of a sample that is kept until it is measured: 8 MB


def measured_later(measure: Callable[..., Any], rows: Any, *args: Any) -> Any:
    """Return the function that measures a sample of the rows, or the measurement if the sample is large to keep."""
    sample = sample_of(rows, MAX_MEASURED_ROWS)
    if issparse(sample) or sample.size > MAX_KEPT_ENTRIES:
        return measure(sample, *args)
    return partial(measure, sample.copy() if sample is rows else sample, *args)


def dimension_later(points: Any, metric: Any = "euclidean", parameters: dict[str, Any] | None = None) -> Any:
    """Return what measures the dimension of validated input, its dimension, or None without distances."""
    from manifoldry._numerics.geometry.dimension import intrinsic_dimension

    if metric == "affinity" or (metric == "gram" and issparse(points)):
        return None
    if isinstance(points, NeighborGraph) or callable(metric) or metric in ("precomputed", "gram"):
        return intrinsic_dimension(points, metric, parameters)
    return measured_later(intrinsic_dimension, points, metric, parameters)


def by_dimension(measured: IntrinsicDimension) -> Suggestion:
    """Return the measured dimension as a suggestion."""
    from manifoldry._numerics.elbow import Suggestion

    if not measured.n_measured:
        return Suggestion(1, "No point has three neighbors at different distances, as more dimensions would give it.")
    return Suggestion(
        int(measured),
        f"Around its points the data have about {measured.value:.1f} dimensions (half of the points between "
        f"{measured.low:.1f} and {measured.high:.1f}), by how the number of neighbors grows with their distance.",
    )
