"""The check of every layout after its fit: what makes it useless is reported in ``diagnostics_``, with one warning.

Neighbors are compared in a sample of bounded size, so the check takes a few hundredths of a second for any data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.registry import is_for_pictures
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.principal import leading_scores
from manifoldry._numerics.plot_checks import RuledAxis, crowding, ruled_axes
from manifoldry._numerics.ranks import nearness, ranks_of, share_kept
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._pairwise import distance_rows, distances_to_others, nearest, row_map

MIN_LOOKED_AT = 30
"""Least number of points of which anything is said: fewer are seen one by one."""

MAX_POPULATION = 3000
"""Maximum number of points among which neighbors are compared."""

COMPARED = (100, 500, 2000)
"""Numbers of points whose neighbors are compared, until it is decided whether the layout is worse than PCA."""

MAX_POPULATION_ENTRIES = 10_000_000
"""Maximum number of entries (rows times columns) of the compared population: 80 MB."""

N_COMPARED_NEIGHBORS = 15
"""Number of neighbors compared, as in `metrics.score`; of few points a tenth, as more are no neighborhood.

Among 15 of the 72 views of a turning object are opposite sides, and PCA's crossed loop would be the best layout."""

MAX_CROWD_SAMPLE = 500
"""Maximum number of crowded points whose rows are compared with each other."""

MAX_CROWDED_SHARE = 0.2
"""Maximum share of the points in crowded cells of a plot without a remark; of a method for pictures more than
`TOO_CROWDED_SHARE` are worth a warning."""

TOO_CROWDED_SHARE = 0.3

MAX_DOMINATED_SHARE = 0.5
"""Maximum share of an axis's variance that a handful of points may hold without a remark. Rare kinds of cells,
which are not outliers, hold 57 %."""

TOO_DOMINATED_SHARE = 0.8
"""The same without a warning: beyond, the other points cannot be distinguished along that axis."""

N_AXIS_ROWS = 3
"""Rows of each axis that a sentence names: enough to find them."""

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

    The scores are ``trustworthiness``, ``continuity`` and ``knn_kept``, as in `metrics.score` but among a sample of
    ``n_among`` points, at ``n_compared`` of them; ``pca`` has those of the same number of principal components.
    Without distances to compare with there are none.
    """

    causes: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)


def check_layout(X: Any, Y: Array, model: object, run: Run) -> LayoutReport:
    """Return what is wrong with a layout of ``X`` that an estimator, of any library, was fitted to."""
    embedded = np.flatnonzero(np.isfinite(Y).all(axis=1))
    if len(embedded) < MIN_LOOKED_AT:
        return LayoutReport()
    check_of = LayoutCheck(X, np.asarray(Y, dtype=float), model, run)
    if len(embedded) < len(Y):  # components of the graph that were left out
        check_of = check_of.at(embedded)
    return check_of.report()


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
        return is_for_pictures(type(self.model))

    @property
    def linear(self) -> bool:
        """Whether the axes are principal components, by their variance."""
        return hasattr(self.model, "explained_variance_ratio_")

    def at(self, rows: IntArray) -> LayoutCheck:
        """Return the check of some points only; a graph stays whole."""
        X = self.X
        if not (isinstance(X, NeighborGraph) or (issparse(X) and self.pairwise)):
            X = X[np.ix_(rows, rows)] if self.pairwise else X[rows]
        return replace(self, X=X, Y=self.Y[rows])

    def report(self) -> LayoutReport:
        """Run all checks."""
        plotted = self.Y[:, : 3 if self.Y.shape[1] == 3 else 2]
        compared = self.compare_neighbors()
        random = () if compared is None else tuple(self._at_random(compared))
        lost = () if compared is None else tuple(self._worse_than_pca(compared))
        axes = ruled_axes(plotted)
        # Directions of independent sources or of projection pursuit are those in which few points stand out.
        drawn = self.for_pictures or self.linear
        far = [each for each in axes if each.share > MAX_DOMINATED_SHARE]
        limit = TOO_DOMINATED_SHARE if drawn else np.inf
        crowded, share = self._crowds(plotted)
        warned = self.for_pictures and share > TOO_CROWDED_SHARE
        return LayoutReport(
            tuple(self._rounded_rows()),
            (
                *random,
                *_flat_axes(plotted),
                *self._dominated([each for each in far if each.share > limit]),
                *(crowded if warned else ()),
                *lost,
            ),
            (*self._dominated([each for each in far if each.share <= limit]), *(() if warned else crowded)),
            {} if compared is None else compared.figures,
        )

    def _rounded_rows(self) -> Iterator[str]:
        if not isinstance(self.X, NeighborGraph) and not self.pairwise:
            text = check.rounded_away(self.X, check.column_spread(self.X))
            if text:
                yield text

    def _crowds(self, plotted: FloatArray) -> tuple[tuple[str, ...], float]:
        """Return the finding that points lie on top of each other, if so, and the share of those points."""
        crowd = crowding(plotted)
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

    def _dominated(self, axes: Sequence[RuledAxis]) -> Iterator[str]:
        """Yield which points dominate these axes."""
        if not axes:
            return
        rows = list(dict.fromkeys(int(row) for each in axes for row in each.points[:N_AXIS_ROWS]))
        count = len(axes[0].points)
        named = f"row{'' if count == 1 else 's'} {', '.join(map(str, rows))}{', ...' if count > len(rows) else ''}"
        which = f"axis {axes[0].axis + 1}" if len(axes) == 1 else f"axes {_listed(each.axis + 1 for each in axes)}"
        more = ", a larger n_neighbors" if hasattr(self.model, "n_neighbors") else ""
        hold, these, are = (
            ("holds", "this row", "it is an outlier") if count == 1 else ("hold", "these rows", "they are outliers")
        )
        yield (
            f"{count} of {len(self.Y):,} points ({named}) {hold} "
            f"{min(each.share for each in axes):.0%} of the variance of {which}, so the others lie close together "
            f"there: inspect {these}, and try RobustScaler{more} or a robust method if {are}."
        )

    def compare_neighbors(self) -> _Comparison | None:
        """Compare neighbors at as many points as it takes to decide whether the layout keeps them well enough."""
        X, Y, metric = self.X, self.Y, self.metric
        if isinstance(X, NeighborGraph) or callable(metric) or metric in ("gram", "affinity"):
            return None  # no distances to compare with, or only by a slow function
        if metric == "precomputed" and issparse(X):
            return None
        points = self._population()
        principal = None
        # Components of a sample would span another plane than the model's own.
        if metric != "precomputed" and not self.linear and Y.shape[1] < min(len(points), X.shape[1]):
            principal = leading_scores(X[points], Y.shape[1], self.run.rng("look at components"))
        for n_compared in COMPARED:
            rows = np.arange(min(len(points), n_compared))
            distances = self._distances(points, rows)
            comparison = _compare(distances, Y[points], rows, principal, len(Y))
            if comparison.harmless or comparison.harmful:
                break
        return replace(comparison, figures=_figures(distances, Y[points], rows, principal))

    def _population(self) -> IntArray:
        """Return the points among which neighbors are compared, in random order."""
        X = self.X
        width = X.nnz // X.shape[0] + 1 if issparse(X) else X.shape[1]
        most = max(10 * N_COMPARED_NEIGHBORS, MAX_POPULATION_ENTRIES // width)
        return self.run.rng("look").permutation(len(self.Y))[: min(MAX_POPULATION, most)]

    def _distances(self, points: IntArray, rows: IntArray) -> FloatArray:
        """Return the distances in the data of the points at ``rows`` to all ``points``, infinite to themselves."""
        X, metric, parameters = self.X, self.metric, getattr(self.model, "metric_params", None)
        if metric == "precomputed":
            return distances_to_others(lambda some: X[np.ix_(points[some], points)].astype(float), rows)
        population, mapped = X[points].astype(float), row_map(metric, parameters, X)
        if mapped is not None:
            population, metric, parameters = mapped(population), "euclidean", None
        return distances_to_others(distance_rows(population, metric, parameters), rows)

    def _at_random(self, comparison: _Comparison) -> Iterator[str]:
        """Yield whether neighbors are kept no better than at random, unless the method ignores the units of X."""
        if comparison.no_better_than_chance and not getattr(self.model, "_ignores_units", False):
            yield (
                f"Neighbors in the layout are hardly more often neighbors in the data than at random (trustworthiness "
                f"{comparison.trust:.2f}; 0.5 is chance, 1 is best): {self._alternative}."
            )

    def _worse_than_pca(self, comparison: _Comparison) -> Iterator[str]:
        """Yield whether a method for pictures keeps neighbors less well than principal components."""
        if not (comparison.harmful and self.for_pictures):
            return
        m = comparison.figures["n_compared"]
        sampled = "" if m >= len(self.Y) else f", of {m:,} points"
        yield (
            f"Neighbors are kept less well than by PCA (trustworthiness {comparison.trust:.2f}, PCA "
            f"{comparison.trust + comparison.lost:.2f}{sampled}): {self._alternative}."
        )

    @property
    def _alternative(self) -> str:
        others = [name for name in ("TSNE", "UMAP") if name != type(self.model).__name__]
        return f"for a picture try {' or '.join(others)}, or other parameters"


def _flat_axes(Y: FloatArray) -> Iterator[str]:
    extents = np.ptp(Y, axis=0)
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
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def no_better_than_chance(self) -> bool:
        return self.trust < MIN_TRUST

    @property
    def harmful(self) -> bool:
        """Whether the loss matters, and is not one of the sample alone."""
        return self.lost - STANDARD_ERRORS * self.lost_error > MIN_DIFFERENCE

    @property
    def harmless(self) -> bool:
        """Whether comparing more points would hardly find anything."""
        return not self.no_better_than_chance and self.lost + STANDARD_ERRORS * self.lost_error < MIN_DIFFERENCE


def _compare(
    distances: FloatArray, Y: FloatArray, rows: IntArray, principal: FloatArray | None, n_points: int
) -> _Comparison:
    """Compare the neighbors of ``rows`` in the data, by their ``distances``, in the layout and in the components."""
    trust = _trust(distances, Y, rows)
    if principal is None:
        return _Comparison(float(trust.mean()), -np.inf, 0.0)
    lost = _trust(distances, principal, rows) - trust
    unseen = 1.0 - len(rows) / n_points
    return _Comparison(float(trust.mean()), float(lost.mean()), float(lost.std() * np.sqrt(unseen / len(rows))))


def _trust(distances: FloatArray, Y: FloatArray, rows: IntArray) -> FloatArray:
    """Return the trustworthiness of each of the first points among all, shape (len(rows),)."""
    n = len(Y)
    return nearness(
        n, ranks_of(distances, nearest(distances_to_others(distance_rows(Y), rows), _n_compared_neighbors(n)))
    )


def _n_compared_neighbors(n: int) -> int:
    return min(N_COMPARED_NEIGHBORS, n // 10)


def _figures(distances: FloatArray, Y: FloatArray, rows: IntArray, principal: FloatArray | None) -> dict[str, Any]:
    """Return the scores of a layout and of principal components at ``rows``; see `LayoutReport`."""
    n, k = len(Y), _n_compared_neighbors(len(Y))
    neighbors = nearest(distances, k)

    def of(layout: FloatArray) -> dict[str, float]:
        between = distances_to_others(distance_rows(layout), rows)
        ranks = ranks_of(between, neighbors)
        return {
            "trustworthiness": float(nearness(n, ranks_of(distances, nearest(between, k))).mean()),
            "continuity": float(nearness(n, ranks).mean()),
            "knn_kept": float(share_kept(ranks).mean()),
        }

    pca = {} if principal is None else {"pca": of(principal)}
    return {"n_neighbors": k, "n_compared": len(rows), "n_among": n, **of(Y), **pca}
