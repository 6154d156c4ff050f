"""Restarts: several layouts of the same points, without short circuits, and the most consistent one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np
from scipy.spatial.distance import cdist, pdist

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.supervised import supervised_lists
from manifoldry.graph._operations import component_labels, components, edge_ratios, join_small_components, symmetrize
from manifoldry.graph._sample import NeighborhoodData, Targets
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import short_circuits

MAX_RESTARTED_POINTS = 5000
"""Points up to which "auto" restarts: rolls of 600 points rarely need it, and each restart costs a fit."""
N_AUTO_INIT = 16  # most fits with "auto": without short circuits, the second fit unfolds most rolls of 300 points
MAX_INCONSISTENCY = 0.01
"""Largest inconsistency of an unfolded layout: up to 0.02 on unfolded rolls of 300 points, from 0.03 on folded ones."""
MAX_COMPRESSION = 0.0045
"""Largest compression of an unfolded layout: 0.0032 for rigid errors up to 0.05, 0.0058 for errors above 0.1."""
MAX_INCONSISTENCY_RATIO = 0.5
"""A restart that is still inconsistent replaces the first layout only below this share of its score."""
N_HOPELESS_INIT = 7
"""Fits (the first, and two on each kind of graph) after which restarts end if none reached that share."""
MAX_EDGE_STRETCH = 2.0
"""Stretch of an edge in a layout from which it may be a short circuit that the graph does not show."""
N_THINNED_NEIGHBORS = 4
"""Neighbors in the thinned graph: short circuits among the nearest three are rare, even on small rolls."""
N_INCONSISTENCY_POINTS = 1000  # points whose pairwise distances are compared
PAIR_ROWS = 50  # of them at a time
SCALES = (1.0, 0.8, 1.25, 0.65, 1.5)  # numbers of patches of the restarts, relative to the first fit
SCORE_DIGITS = 6  # decimals of stored scores: differences below some thousandths do not matter
T = TypeVar("T")


@dataclass(frozen=True)
class Trial:
    """One fit: its number (0 for the first) names its random stream; its graph; and the scale of n_patches."""

    number: int
    graph: NeighborGraph
    scale: float = 1.0


@dataclass(frozen=True)
class SelectedLayout(Generic[T]):
    """The chosen layout, its graph and score, the scores of all, whether its patches agree, and its compression."""

    layout: T
    graph: NeighborGraph
    score: float
    scores: tuple[float, ...] = ()
    agreed: bool = True
    compression: float = 0.0

    @property
    def unfolded(self) -> bool:
        """Whether the layout counts as unfolded."""
        return self.agreed and self.score <= MAX_INCONSISTENCY


def resolve_n_init(n_init: int | Literal["auto"], n_points: int) -> int:
    """Return the maximum number of fits."""
    if isinstance(n_init, str):
        return N_AUTO_INIT if n_points <= MAX_RESTARTED_POINTS else 1
    return n_init


def best_restart(  # noqa: PLR0913 -- two questions about a layout
    first: T,
    make: Callable[[Trial], T],
    coordinates: Callable[[T], FloatArray],
    X: Array,
    graph: NeighborGraph,
    n_init: int,
    run: Run,
    agrees: Callable[[T, NeighborGraph], bool] = lambda *_: True,
) -> SelectedLayout[T]:
    """Return the first of at most ``n_init`` layouts that is consistent with the points, or the most consistent one.

    Restarts use the graph without its short circuits; in turn also without the edges that the best layout tears, or
    with fewer neighbors. A layout whose patches do not agree (``agrees``) counts as inconsistent.
    """
    pruned = short_circuits(graph, run).removed_from(graph) if n_init > 1 else graph
    measure = InconsistencyScore.of(X, pruned, run)

    def evaluated(layout: T, trial_graph: NeighborGraph) -> SelectedLayout[T]:
        Y = coordinates(layout)
        score, compression = measure.both(Y)
        return SelectedLayout(layout, trial_graph, score, agreed=agrees(layout, trial_graph), compression=compression)

    original = best = evaluated(first, graph)
    scores = [best.score]
    target = MAX_INCONSISTENCY_RATIO * scores[0]
    if n_init > 1 and not best.unfolded:
        with run.stage("restarts"), run.stoppable():
            while not best.unfolded and len(scores) < n_init and run.step(len(scores), n_init):
                number = len(scores)
                if number == N_HOPELESS_INIT and best.score > target:
                    break
                trial_graph = pruned
                if number % 3 != 1:
                    trial_graph = (
                        thinned(pruned) if number % 3 == 0 else without_torn(pruned, coordinates(best.layout), run)
                    )
                candidate = evaluated(make(Trial(number, trial_graph, SCALES[(number - 1) % len(SCALES)])), trial_graph)
                scores.append(candidate.score)
                best = candidate if candidate.score < best.score else best
        # Restarts that are hardly better are not worth another layout than n_init=1 gives.
        best = original if best.score > target and not best.unfolded else best
    return replace(best, scores=tuple(round(score, SCORE_DIGITS) for score in scores))


def without_torn(graph: NeighborGraph, Y: FloatArray, run: Run) -> NeighborGraph:
    """Return the graph without edges stretched by more than `MAX_EDGE_STRETCH` in Y, but for those that connect it."""
    return reconnected(graph, edge_ratios(graph, Y, run) <= MAX_EDGE_STRETCH)


def thinned(graph: NeighborGraph) -> NeighborGraph:
    """Return the graph with the `N_THINNED_NEIGHBORS` nearest of each point, and the edges that connect it."""
    n, rows, columns = graph.n_points, graph.rows().astype(np.int64), graph.indices.astype(np.int64)
    nearest = np.lexsort((graph.lengths, rows))
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[nearest] = np.arange(len(rows)) - graph.indptr[rows[nearest]]
    mask = ranks < N_THINNED_NEIGHBORS
    return reconnected(graph, mask | np.isin(rows * n + columns, (columns * n + rows)[mask]))


def reconnected(graph: NeighborGraph, mask: Array) -> NeighborGraph:
    """Return the graph with the edges of the mask, and those between the components that they form."""
    _, labels = connected_components(graph.with_edges_where(mask).to_sparse(), directed=False)
    return graph.with_edges_where(mask | (labels[graph.rows()] != labels[graph.indices]))


@dataclass(frozen=True)
class InconsistencyScore:
    r"""How inconsistent a layout is with the points of a flat surface.

    .. math:: \operatorname{mean}_{i<j} \max\Bigl(0, 1 - \frac{|y_i - y_j|}{|x_i - x_j|}\Bigr) +
              \operatorname{mean}_{i \sim j} \min\Bigl(1, \max\Bigl(0, \frac{|y_i - y_j|}{|x_i - x_j|} - 1\Bigr)\Bigr)

    Unfolding never brings two points of a component closer, and keeps neighbors close. A torn neighbor counts at most
    1, because short circuits have to be torn.
    """

    points: IntArray
    blocks: list[tuple[int, int]]  # of these points
    distances: list[FloatArray]  # of each block to the points from its first on; NaN where they do not count
    graph: NeighborGraph
    run: Run

    @classmethod
    def of(cls, X: Array, graph: NeighborGraph, run: Run) -> InconsistencyScore:
        """Measure at random points, or all."""
        points = np.sort(run.rng("contradictions").permutation(len(X))[:N_INCONSISTENCY_POINTS])
        parts = component_labels(components(graph))[points]
        rows, blocks = np.asarray(X[points], dtype=float), run.ranges(len(points), PAIR_ROWS)

        def counted(lo: int, hi: int) -> FloatArray:
            distances = cdist(rows[lo:hi], rows[lo:])
            distances[np.tril_indices(hi - lo, 0, len(rows) - lo)] = np.nan
            distances[(distances == 0) | (parts[lo:hi, None] != parts[lo:])] = np.nan
            return distances

        return cls(points, blocks, run.map(counted, blocks), graph, run)

    def __call__(self, Y: FloatArray) -> float:
        """Return the inconsistency of the layout Y of all points."""
        return self.both(Y)[0]

    def both(self, Y: FloatArray) -> tuple[float, float]:
        r"""Return the inconsistency and the compression of a layout, which is a lower bound of the rigid error.

        .. math:: \Bigl(\sum_{i<j} \max(0, |x_i - x_j| - |y_i - y_j|)^2 \Big/ \sum_{i<j} |y_i - y_j|^2\Bigr)^{1/2}
        """
        rows = Y[self.points]

        def of_block(lo: int, hi: int, distances: FloatArray) -> tuple[int, float, float, float]:
            spans = np.where(np.isnan(distances), np.nan, cdist(rows[lo:hi], rows[lo:]))
            short = np.fmax(distances - spans, 0.0)  # zero for NaN
            shrunk, shortfall = np.nansum(short / distances), np.square(short).sum()
            return int(np.isfinite(spans).sum()), float(shrunk), float(shortfall), float(np.nansum(np.square(spans)))

        blocks = [(lo, hi, distances) for (lo, hi), distances in zip(self.blocks, self.distances, strict=True)]
        count, shrunk, shortfall, total = np.array(self.run.map(of_block, blocks)).sum(axis=0).tolist()
        stretched = np.clip(edge_ratios(self.graph, Y, self.run) - 1, 0.0, 1.0)
        inconsistency = shrunk / max(count, 1) + (float(stretched.mean()) if len(stretched) else 0.0)
        return inconsistency, float(np.sqrt(shortfall / total)) if total else 0.0


def shrinkage(X: Array, Y: FloatArray, run: Run) -> float:
    """Return the mean share by which pairs of points are closer in Y than in the data."""
    points = np.sort(run.rng("contradictions").permutation(len(X))[:N_INCONSISTENCY_POINTS])
    distances = pdist(np.asarray(X[points], dtype=float))
    distinct = distances > 0
    shrunk = np.maximum(0.0, 1 - pdist(Y[points])[distinct] / distances[distinct])
    return float(shrunk.mean()) if len(shrunk) else 0.0


def sample_graph(
    rows: FloatArray, rule: NeighborRule, targets: Targets | None, run: Run
) -> tuple[NeighborGraph, NeighborIndex]:
    """Return the undirected graph of the rows and its index; targets decide who is a neighbor, not the lengths."""
    neighbors, index = neighbor_graph(rows, rule, run)
    if targets is None:
        return join_small_components(symmetrize(neighbors, run=run), rows, run), index
    sample = NeighborhoodData(rows, neighbors, symmetrize(neighbors, run=run), index)
    return symmetrize(supervised_lists(sample, targets, run)[1], run=run), index
