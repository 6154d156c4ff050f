"""The look at every result after its fit: what makes a layout useless is said in sentences, and warned of once.

The rank measures come from a sample of bounded size, so the look takes some hundredths of a second whatever the data.
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
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._core.warnings import take_collected
from manifoldry._numerics.geometry.principal import leading_scores
from manifoldry._numerics.plot_checks import RuledAxis, crowding, ruled_axes
from manifoldry._numerics.ranks import nearness, ranks_of, share_kept
from manifoldry.graph._metrics import row_map
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._pairwise import distance_rows, distances_to_others, nearest
from manifoldry.methods._base._advice import report

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


def keep_advice(model: Any, X: Any, run: Run) -> None:
    """Add to ``diagnostics_["advice"]`` what is wrong with the fitted layout and what is proven, and warn once.

    A certificate's sentence is always among the advice; it is not a reason for a warning unless it proves nothing.

    Parameters
    ----------
    model : estimator
        Fitted, with ``embedding_`` and ``diagnostics_``.
    X : rows, distances, affinities or a graph
        What it was fitted to, as its ``metric`` says.
    run : Run
        For the sample and the seconds.
    """
    with run.stage("look"), one_blas_thread():
        look = look_at(X, model.embedding_, model, run)
    if look.figures:
        model.diagnostics_["figures"] = look.figures
    model.diagnostics_["seconds"]["look"] = run.seconds["look"]
    model.diagnostics_["remarks"] = (*model.diagnostics_.get("remarks", ()), *look.remarks)
    report(model, X, take_collected(model), look.causes, look.symptoms)


@dataclass(frozen=True)
class Look:
    """What a look at a layout found: defects of the input and of the layout, and how many neighbors it keeps.

    The figures are ``trustworthiness``, ``continuity`` and ``knn_kept``, as in `metrics.score` but among a sample of
    ``n_among`` points, at ``n_compared`` of them; ``pca`` has those of as many principal components. Without distances
    to compare with there are none.
    """

    causes: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)


def look_at(X: Any, Y: Array, model: Any, run: Run) -> Look:
    """Return what there is to say about a layout of ``X``."""
    placed = np.flatnonzero(np.isfinite(Y).all(axis=1))
    if len(placed) < len(Y):  # components of the graph that were left out
        X, Y = _some(X, placed, model), Y[placed]
    if len(Y) < MIN_LOOKED_AT:
        return Look()
    Y = np.asarray(Y, dtype=float)
    plotted = Y[:, : 3 if Y.shape[1] == 3 else 2]
    compared = _compare_neighbors(X, Y, model, run)
    causes = tuple(_rounded_rows(X, model))
    random = () if compared is None else _at_random(compared, model)
    lost = () if compared is None else _worse_than_pca(compared, len(Y), model)
    axes = ruled_axes(plotted)
    # Directions of independent sources or of projection pursuit are those in which few points stand out.
    drawn = is_for_pictures(type(model)) or hasattr(model, "explained_variance_ratio_")
    too_far = [each for each in axes if drawn and each.share > TOO_DOMINATED_SHARE]
    far = [
        each for each in axes if each.share > MAX_DOMINATED_SHARE and not (drawn and each.share > TOO_DOMINATED_SHARE)
    ]
    crowds = tuple(_crowds(X, plotted, model, run))
    crowded = is_for_pictures(type(model)) and crowding(plotted).share > TOO_CROWDED_SHARE
    return Look(
        causes,
        (*random, *_flat_axes(plotted), *_dominated(too_far, len(Y), model), *(crowds if crowded else ()), *lost),
        (*_dominated(far, len(Y), model), *(() if crowded else crowds)),
        {} if compared is None else compared.figures,
    )


def findings(X: Any, Y: Array, model: Any, run: Run) -> tuple[str, ...]:
    """Return a sentence about everything that makes a layout of ``X`` useless."""
    look = look_at(X, Y, model, run)
    return (*look.causes, *look.symptoms, *look.remarks)


def _some(X: Any, rows: IntArray, model: Any) -> Any:
    """Return the input of some points, as rows or distances; of a graph all of it."""
    square = getattr(model, "metric", "euclidean") in ("precomputed", "gram", "affinity")
    if isinstance(X, NeighborGraph) or (issparse(X) and square):
        return X
    return X[np.ix_(rows, rows)] if square else X[rows]


def _rounded_rows(X: Any, model: Any) -> Iterator[str]:
    if not isinstance(X, NeighborGraph) and getattr(model, "metric", "") not in ("precomputed", "gram", "affinity"):
        sentence = check.rounded_away(X, check.column_spread(X))
        if sentence:
            yield sentence


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


def _crowds(X: Any, Y: FloatArray, model: Any, run: Run) -> Iterator[str]:
    found = crowding(Y)
    if found.share <= MAX_CROWDED_SHARE or _mostly_identical(X, found.points, run):
        return
    spots = "one spot" if found.n_places == 1 else f"{found.n_places} spots"
    more = "a larger n_neighbors or " if hasattr(model, "n_neighbors") else ""
    instead = f"try {more}another method"
    if getattr(model, "densmap", False):
        instead = "try a lower dens_lambda, or zoom in: densMAP draws outliers far away"
    yield (
        f"{found.share:.0%} of the points lie in {spots} of the plot, a hundredth of its width"
        f"{'' if found.n_places == 1 else ' each'}, and what is inside cannot be seen: {instead}."
    )


def _mostly_identical(X: Any, points: IntArray, run: Run) -> bool:
    """Tell whether most of the points are copies of each other, so that they have to coincide."""
    if isinstance(X, NeighborGraph):
        return False
    some = run.rng("look at crowds").permutation(points)[:MAX_CROWD_SAMPLE]
    return 2 * len(distinct_rows(X[some])[0]) < len(some)


def _dominated(found: Sequence[RuledAxis], n: int, model: Any) -> Iterator[str]:
    """Yield which points dominate these axes."""
    if not found:
        return
    rows = list(dict.fromkeys(int(row) for each in found for row in each.points[:N_AXIS_ROWS]))
    count = len(found[0].points)
    named = f"row{'' if count == 1 else 's'} {', '.join(map(str, rows))}{', ...' if count > len(rows) else ''}"
    axes = f"axis {found[0].axis + 1}" if len(found) == 1 else f"axes {_listed(each.axis + 1 for each in found)}"
    more = ", a larger n_neighbors" if hasattr(model, "n_neighbors") else ""
    hold, these, are = (
        ("holds", "this row", "it is an outlier") if count == 1 else ("hold", "these rows", "they are outliers")
    )
    yield (
        f"{count} of {n:,} points ({named}) {hold} "
        f"{min(each.share for each in found):.0%} of the variance of {axes}, so the others lie close together there: "
        f"inspect {these}, and try RobustScaler{more} or a robust method if {are}."
    )


def _compare_neighbors(X: Any, Y: FloatArray, model: Any, run: Run) -> _Comparison | None:
    """Return how neighbors are kept at as many points as it takes to decide whether that is well enough."""
    metric = getattr(model, "metric", "euclidean")
    if isinstance(X, NeighborGraph) or callable(metric) or metric in ("gram", "affinity"):
        return None  # no distances to compare with, or only by a slow function
    if metric == "precomputed" and issparse(X):
        return None
    points = _population(X, Y, run)
    principal = None
    linear = hasattr(model, "explained_variance_ratio_")  # those of a sample would be another plane than its own
    if metric != "precomputed" and not linear and Y.shape[1] < min(len(points), X.shape[1]):
        principal = leading_scores(X[points], Y.shape[1], run.rng("look at components"))
    for n_compared in COMPARED:
        rows = np.arange(min(len(points), n_compared))
        away = _distances(X, points, rows, model)
        seen = _compare(away, Y[points], rows, principal, len(Y))
        if seen.harmless or seen.harmful:
            break
    return replace(seen, figures=_figures(away, Y[points], rows, principal))


def _at_random(seen: _Comparison, model: Any) -> Iterator[str]:
    """Yield whether neighbors are kept no better than at random; units that a method ignores are in the distances."""
    if seen.no_better_than_chance and not getattr(model, "_ignores_units", False):
        yield (
            f"Neighbors in the layout are hardly more often neighbors in the data than at random (trustworthiness "
            f"{seen.trust:.2f}; 0.5 is chance, 1 is best): {_instead(model)}."
        )


def _worse_than_pca(seen: _Comparison, n: int, model: Any) -> Iterator[str]:
    """Yield whether a method for pictures keeps neighbors less well than principal components."""
    if seen.harmful and is_for_pictures(type(model)):
        yield (
            f"Neighbors are kept less well than by PCA (trustworthiness {seen.trust:.2f}, PCA "
            f"{seen.trust + seen.lost:.2f}{_of_sample(seen.figures['n_compared'], n)}): {_instead(model)}."
        )


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
    away: FloatArray, Y: FloatArray, rows: IntArray, principal: FloatArray | None, n_points: int
) -> _Comparison:
    """Compare the neighbors of ``rows`` in the data, ``away`` from each other, in the layout and in the components."""
    trust = _trust(away, Y, rows)
    if principal is None:
        return _Comparison(float(trust.mean()), -np.inf, 0.0)
    lost = _trust(away, principal, rows) - trust
    unseen = 1.0 - len(rows) / n_points
    return _Comparison(float(trust.mean()), float(lost.mean()), float(lost.std() * np.sqrt(unseen / len(rows))))


def _of_sample(m: int, n: int) -> str:
    """Say that figures are those of some points, which differ from those of all."""
    return "" if m >= n else f", of {m:,} points"


def _instead(model: Any) -> str:
    others = [name for name in ("TSNE", "UMAP") if name != type(model).__name__]
    return f"for a picture try {' or '.join(others)}, or other parameters"


def _population(X: Any, Y: FloatArray, run: Run) -> IntArray:
    """Return the points among which neighbors are compared, in random order."""
    width = X.nnz // X.shape[0] + 1 if issparse(X) else X.shape[1]
    most = max(10 * N_COMPARED_NEIGHBORS, MAX_POPULATION_ENTRIES // width)
    return run.rng("look").permutation(len(Y))[: min(MAX_POPULATION, most)]


def _distances(X: Any, points: IntArray, rows: IntArray, model: Any) -> FloatArray:
    """Return the distances in the data of the points at ``rows`` to all ``points``, infinite to themselves."""
    metric, parameters = getattr(model, "metric", "euclidean"), getattr(model, "metric_params", None)
    if metric == "precomputed":
        return distances_to_others(lambda some: X[np.ix_(points[some], points)].astype(float), rows)
    population, mapped = X[points].astype(float), row_map(metric, parameters, X)
    if mapped is not None:
        population, metric, parameters = mapped(population), "euclidean", None
    return distances_to_others(distance_rows(population, metric, parameters), rows)


def _trust(away: FloatArray, Y: FloatArray, rows: IntArray) -> FloatArray:
    """Return the trustworthiness of each of the first points among all, shape (len(rows),)."""
    n = len(Y)
    return nearness(n, ranks_of(away, nearest(distances_to_others(distance_rows(Y), rows), _n_compared_neighbors(n))))


def _n_compared_neighbors(n: int) -> int:
    return min(N_COMPARED_NEIGHBORS, n // 10)


def _figures(away: FloatArray, Y: FloatArray, rows: IntArray, principal: FloatArray | None) -> dict[str, Any]:
    """Return the figures of a layout and of principal components at ``rows``; see `Look`."""
    n, k = len(Y), _n_compared_neighbors(len(Y))
    near = nearest(away, k)

    def of(layout: FloatArray) -> dict[str, float]:
        apart = distances_to_others(distance_rows(layout), rows)
        there = ranks_of(apart, near)
        return {
            "trustworthiness": float(nearness(n, ranks_of(away, nearest(apart, k))).mean()),
            "continuity": float(nearness(n, there).mean()),
            "knn_kept": float(share_kept(there).mean()),
        }

    pca = {} if principal is None else {"pca": of(principal)}
    return {"n_neighbors": k, "n_compared": len(rows), "n_among": n, **of(Y), **pca}
