"""The look at every result after its fit: what makes a layout useless is said in sentences, and warned of once.

The rank measures come from a sample of bounded size, so the look takes some hundredths of a second whatever the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry import check
from manifoldry.base.advice import report
from manifoldry.blas import one_blas_thread
from manifoldry.geometry.principal import leading_scores
from manifoldry.neighbors.lists import distinct_rows
from manifoldry.neighbors.metrics import row_map
from manifoldry.neighbors.pairwise import distance_rows, distances_to_others, nearest
from manifoldry.quality.layout import crowding, ruled_axes
from manifoldry.quality.ranks import nearness, ranks_of, share_kept
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.warnings import take_collected

MIN_LOOKED_AT = 30
"""Least number of points of which anything is said: fewer are seen one by one."""

MAX_POPULATION = 3000
"""Maximum number of points among which neighbors are compared."""

COMPARED = (100, 500, 2000)
"""Numbers of points whose neighbors are compared: most layouts pass with the first, most others fall with the second,
and the third tells 0.005 apart."""

MAX_POPULATION_ENTRIES = 10_000_000
"""Maximum number of entries (rows times columns) of the compared population: 80 MB."""

N_COMPARED_NEIGHBORS = 15
"""Number of neighbors compared, as in `quality.score`; of few points a tenth, as more are no neighborhood.

Among 15 of the 72 views of a turning object are opposite sides, and PCA's crossed loop would be the best layout."""

MAX_CROWD_SAMPLE = 500
"""Maximum number of crowded points whose rows are compared with each other."""

MAX_CROWDED_SHARE = 0.2
"""Maximum share of the points on crowded places without a finding."""

MAX_RULED_SHARE = 0.5
"""Maximum share of an axis's variance that a handful of points may hold without a finding."""

MIN_AXIS_EXTENT = 1e-6
"""Least extent of an axis relative to the longest without a finding: below, nothing can be seen along it."""

MIN_TRUST = 0.55
"""Least trustworthiness without a finding: points laid out at random have 0.5, and a little more if they are few."""

MIN_DIFFERENCE = 0.005
"""Least difference in trustworthiness that is worth a sentence."""

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
    report(model, X, take_collected(model), look.causes, look.symptoms)


@dataclass(frozen=True)
class Look:
    """What a look at a layout found: defects of the input and of the layout, and how many neighbors it keeps.

    The figures are ``trustworthiness``, ``continuity`` and ``knn_kept``, as in `quality.score` but among a sample of
    ``n_among`` points, at ``n_compared`` of them; ``pca`` has those of as many principal components. Without distances
    to compare with there are none.
    """

    causes: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)


def look_at(X: Any, Y: Array, model: Any, run: Run) -> Look:
    """Return what there is to say about a layout of ``X``."""
    placed = np.flatnonzero(np.isfinite(Y).all(axis=1))
    if len(placed) < len(Y):  # pieces of the graph that were left out
        X, Y = _some(X, placed, model), Y[placed]
    if len(Y) < MIN_LOOKED_AT:
        return Look()
    Y = np.asarray(Y, dtype=float)
    compared = _compare_neighbors(X, Y, model, run)
    rulers = _rulers(Y, graph=hasattr(model, "n_neighbors"))
    causes, found = tuple(_rounded_rows(X, model)), (*_flat_axes(Y), *_crowds(X, Y, model, run), *rulers)
    if compared is None:
        return Look(causes, found)
    return Look(causes, (*found, *_lost_neighbors(compared, len(Y), model)), compared.figures)


def findings(X: Any, Y: Array, model: Any, run: Run) -> tuple[str, ...]:
    """Return a sentence about everything that makes a layout of ``X`` useless."""
    look = look_at(X, Y, model, run)
    return (*look.causes, *look.symptoms)


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
        axes = ", ".join(str(axis + 1) for axis in flat)
        yield (
            f"Axis {axes} of the layout is constant, so there is nothing to see along it: lower n_components, or check "
            "whether the data has so many dimensions."
        )


def _crowds(X: Any, Y: FloatArray, model: Any, run: Run) -> Iterator[str]:
    found = crowding(Y)
    if found.share <= MAX_CROWDED_SHARE or _mostly_identical(X, found.points, run):
        return
    places = "one place" if found.n_places == 1 else f"{found.n_places} places"
    more = "more neighbors, " if hasattr(model, "n_neighbors") else ""
    instead = f"Try {more}scaled columns, or another method."
    if getattr(model, "densmap", False):
        instead = "Try a lower dens_lambda, leave outliers out, which densMAP draws far away, or plot without them."
    yield (
        f"{found.share:.0%} of the points fall on {places} of the plot, each a hundredth of its width: what is inside "
        f"cannot be seen. {instead}"
    )


def _mostly_identical(X: Any, points: IntArray, run: Run) -> bool:
    """Tell whether most of the points are copies of each other, so that they have to coincide."""
    if isinstance(X, NeighborGraph):
        return False
    some = run.rng("look at crowds").permutation(points)[:MAX_CROWD_SAMPLE]
    return 2 * len(distinct_rows(X[some])[0]) < len(some)


def _rulers(Y: FloatArray, *, graph: bool) -> Iterator[str]:
    ruled = [found for found in ruled_axes(Y) if found.share > MAX_RULED_SHARE]
    if not ruled:
        return
    axes = " and ".join(str(found.axis + 1) for found in ruled)
    rows = ", ".join(map(str, dict.fromkeys(int(row) for found in ruled for row in found.points[:3])))
    yield (
        f"{len(ruled[0].points)} of {len(Y):,} points (rows {rows}, ...) hold "
        f"{min(found.share for found in ruled):.0%} of the variance of axis {axes}: they are outliers"
        f"{' or hardly attached to the rest. Leave them out, or raise n_neighbors' if graph else '. Leave them out'}."
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


def _lost_neighbors(seen: _Comparison, n: int, model: Any) -> Iterator[str]:
    """Yield whether neighbors are kept no better than at random, or less well than by principal components."""
    if seen.harmless:
        return
    if seen.no_better_than_chance:
        yield (
            f"Neighbors in the layout are hardly more often neighbors in the data than at random (trustworthiness "
            f"{seen.trust:.2f}; 0.5 is chance, 1 is best): {_instead(model)}."
        )
    if seen.lost > MIN_DIFFERENCE:
        yield (
            f"Neighbors are kept less well than by PCA (trustworthiness {seen.trust:.3f}, PCA "
            f"{seen.trust + seen.lost:.3f}{_of_sample(seen.figures['n_compared'], n)}): {_instead(model)}."
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
        """Whether comparing more points would hardly change what is found."""
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
