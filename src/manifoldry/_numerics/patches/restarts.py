"""Restarts: several layouts of the same points, without short circuits, and the one that contradicts them least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np
from scipy.spatial.distance import pdist

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.supervised import supervised_lists
from manifoldry.graph._operations import join_small_components, symmetrize
from manifoldry.graph._sample import Sample, Targets
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import short_circuits

MAX_RESTARTED_POINTS = 5000
"""Maximum number of points with which "auto" allows restarts: rolls of 600 points hardly need them, and each restart
costs as much as the fit."""

N_AUTO_INIT = 16
"""Maximum number of fits with "auto": most rolls of 300 points are unfolded by the second, without short circuits."""

MAX_CONTRADICTION = 0.01
"""Contradiction up to which a layout passes for unfolded: on rolls of 300 points it is 0.003 to 0.02 where they are,
torn short circuits included, and 0.03 to 0.4 where they are folded."""

MAX_COMPRESSION = 0.0045
"""Compression (see `Contradiction.compression`) up to which a layout passes for unfolded. On surfaces with known flat
coordinates, noisy ones too, layouts with a rigid error up to 0.05 have at most 0.0032. Those above 0.1 have 0.0058 and
more: rolls of which a few points, or one, lie on the next sheet, and sectors of cones. No restart is chosen by it: of
many layouts, one would be found that is wrong elsewhere and passes."""

MAX_CONTRADICTION_RATIO = 0.5
"""A layout that is contradicted too replaces the first only if it is so by at most this share: restarts of surfaces
that cannot be laid flat (spheres, tubes, twin peaks) reach 0.75 to 0.9 of it and do not keep neighbors better."""

N_HOPELESS_INIT = 7
"""Fits, the first and two on each kind of graph, after which no more are made if none of them is less contradicted than
the first by that share."""

MAX_EDGE_STRETCH = 2.0
"""Edges longer than this in a layout, times their length, may be short circuits that the graph does not show."""

N_THINNED_NEIGHBORS = 4
"""Neighbors of each point in a graph that has fewer: short circuits among the nearest three are rare even with 300
points of a roll."""

N_CONTRADICTION_POINTS = 1000
"""Points whose pairwise distances are compared."""

SCALES = (1.0, 0.8, 1.25, 0.65, 1.5)
"""Numbers of patches of the restarts, relative to the first; beyond, with other random streams."""

SCORE_DIGITS = 6
"""Decimals of the scores that are kept: contradictions that matter are of some thousandths."""

T = TypeVar("T")


@dataclass(frozen=True)
class Trial:
    """One fit: its number, 0 the first, which names its random stream; its graph; and the scale of n_patches."""

    number: int
    graph: NeighborGraph
    scale: float = 1.0


@dataclass(frozen=True)
class Chosen(Generic[T]):
    """The layout chosen, the graph it was made on, its contradiction, and those of all layouts tried, in order.

    ``agreed`` is whether its patches agree with each other, ``compression`` that of its points.
    """

    layout: T
    graph: NeighborGraph
    score: float
    scores: tuple[float, ...] = ()
    agreed: bool = True
    compression: float = 0.0

    @property
    def unfolded(self) -> bool:
        """Whether the layout passes for unfolded."""
        return self.agreed and self.score <= MAX_CONTRADICTION


def resolve_n_init(n_init: int | Literal["auto"], n_points: int) -> int:
    """Return the maximum number of fits."""
    if isinstance(n_init, str):
        return N_AUTO_INIT if n_points <= MAX_RESTARTED_POINTS else 1
    return n_init


def least_contradicted(  # noqa: PLR0913 -- two questions about a layout
    first: T,
    make: Callable[[Trial], T],
    coordinates: Callable[[T], FloatArray],
    X: Array,
    graph: NeighborGraph,
    n_init: int,
    run: Run,
    agrees: Callable[[T, NeighborGraph], bool] = lambda *_: True,
) -> Chosen[T]:
    """Return the first of at most ``n_init`` layouts that the points do not contradict, or the least contradicted.

    The ``first`` was made on the ``graph`` as it is. The others are without its short circuits, in turn also without
    the edges that the best layout so far tears, or with fewer neighbors. ``coordinates`` are those of a layout, and
    ``agrees`` tells whether its patches agree with each other: if not, it is contradicted, however little.
    """
    whole = short_circuits(graph, run).removed_from(graph) if n_init > 1 else graph
    measure = Contradiction.of(X, whole, run)

    def rated(layout: T, cut: NeighborGraph) -> Chosen[T]:
        Y = coordinates(layout)
        agreed, compression = agrees(layout, cut), measure.compression(Y)
        return Chosen(layout, cut, measure(Y), agreed=agreed, compression=compression)

    original = best = rated(first, graph)
    scores = [best.score]
    wanted = MAX_CONTRADICTION_RATIO * scores[0]
    if n_init == 1 or best.unfolded:
        return _listing(best, scores)
    with run.stage("restarts"), run.stoppable():
        while not best.unfolded and len(scores) < n_init and run.step(len(scores), n_init):
            if len(scores) == N_HOPELESS_INIT and best.score > wanted:
                break
            number = len(scores)
            cut = _graph_of(number, whole, coordinates(best.layout))
            found = rated(make(Trial(number, cut, SCALES[(number - 1) % len(SCALES)])), cut)
            scores.append(found.score)
            if found.score < best.score:
                best = found
    if best.score > wanted and not best.unfolded:
        best = original
    return _listing(best, scores)


def _graph_of(number: int, whole: NeighborGraph, Y: FloatArray) -> NeighborGraph:
    """Return the graph of a restart: the whole one, that without the edges torn in Y, or that of fewer neighbors."""
    if number % 3 == 1:
        return whole
    return without_torn(whole, Y) if number % 3 == 2 else thinned(whole)


def _listing(chosen: Chosen[T], scores: list[float]) -> Chosen[T]:
    """Return the choice with the scores of all, without the digits that are rounding."""
    return replace(chosen, scores=tuple(round(score, SCORE_DIGITS) for score in scores))


def without_torn(graph: NeighborGraph, Y: FloatArray) -> NeighborGraph:
    """Return the graph without edges longer than `MAX_EDGE_STRETCH` in Y, but for those that hold it together."""
    return _held_together(graph, edge_ratios(graph, Y) <= MAX_EDGE_STRETCH)


def thinned(graph: NeighborGraph) -> NeighborGraph:
    """Return the graph with only the `N_THINNED_NEIGHBORS` nearest of each point, and edges that hold it together."""
    n, rows, columns = graph.n_points, graph.rows().astype(np.int64), graph.indices.astype(np.int64)
    nearest = np.lexsort((graph.lengths, rows))
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[nearest] = np.arange(len(rows)) - graph.indptr[rows[nearest]]
    near = ranks < N_THINNED_NEIGHBORS
    return _held_together(graph, near | np.isin(rows * n + columns, (columns * n + rows)[near]))


def _held_together(graph: NeighborGraph, kept: Array) -> NeighborGraph:
    _, part = connected_components(graph.with_only(kept).to_sparse(), directed=False)
    return graph.with_only(kept | (part[graph.rows()] != part[graph.indices]))


def edge_ratios(graph: NeighborGraph, Y: FloatArray) -> FloatArray:
    """Return every edge's length in Y over its own, 1 for edges between coincident points."""
    spans = np.linalg.norm(Y[graph.rows()] - Y[graph.indices], axis=1)
    return np.divide(spans, graph.lengths, out=np.ones_like(spans), where=graph.lengths > 0)


@dataclass(frozen=True)
class Contradiction:
    r"""How much a layout contradicts the points as the unfolding of a flat surface.

    .. math:: \operatorname{mean}_{i<j} \max\Bigl(0, 1 - \frac{|y_i - y_j|}{|x_i - x_j|}\Bigr) +
              \operatorname{mean}_{i \sim j} \min\Bigl(1, \max\Bigl(0, \frac{|y_i - y_j|}{|x_i - x_j|} - 1\Bigr)\Bigr)

    Unfolding never brings two points closer, as the way along a surface is no shorter than the straight one, and
    keeps neighbors where they are. The first term, over pairs of a component of the graph, sees points laid on each
    other, the second torn neighbors, each at most once: short circuits have to be torn.
    """

    points: IntArray
    distances: FloatArray  # of the pairs of these points, condensed; infinite where they do not count
    graph: NeighborGraph

    @classmethod
    def of(cls, X: Array, graph: NeighborGraph, run: Run) -> Contradiction:
        """Measure at random points, or all."""
        points = np.sort(run.rng("contradictions").permutation(len(X))[:N_CONTRADICTION_POINTS])
        _, part = connected_components(graph.to_sparse(), directed=False)
        distances = pdist(np.asarray(X[points], dtype=float))
        apart = pdist(part[points, None].astype(float)) > 0
        return cls(points, np.where(apart | (distances == 0), np.nan, distances), graph)

    def __call__(self, Y: FloatArray) -> float:
        """Return the contradiction of the layout Y of all points."""
        kept = np.isfinite(self.distances)
        shrunk = np.maximum(0.0, 1 - pdist(Y[self.points])[kept] / self.distances[kept])
        stretched = np.clip(edge_ratios(self.graph, Y) - 1, 0.0, 1.0)
        return sum(float(part.mean()) for part in (shrunk, stretched) if len(part))

    def compression(self, Y: FloatArray) -> float:
        r"""Return by how much pairs are closer together in Y than in the data, as root mean squares.

        .. math:: \Bigl(\sum_{i<j} \max(0, |x_i - x_j| - |y_i - y_j|)^2 \Big/ \sum_{i<j} |y_i - y_j|^2\Bigr)^{1/2}

        Without noise, flat coordinates z have :math:`|z_i - z_j| \ge |x_i - x_j|`, so that each term is at most
        :math:`|(z_i - z_j) - (y_i - y_j)|`. The sum of the squares of these, over all pairs, is n times the squared
        rigid error: the compression is a lower bound of that error relative to the spread of the layout. A single point
        on the wrong sheet counts, as its distances to all others do.
        """
        kept = np.isfinite(self.distances)
        spans = pdist(Y[self.points])[kept]
        total = float(np.square(spans).sum())
        return float(np.sqrt(np.square(np.maximum(0.0, self.distances[kept] - spans)).sum() / total)) if total else 0.0


def shrinkage(X: Array, Y: FloatArray, run: Run) -> float:
    """Return the mean share by which pairs of points are closer together in Y than they are: see `Contradiction`."""
    points = np.sort(run.rng("contradictions").permutation(len(X))[:N_CONTRADICTION_POINTS])
    distances = pdist(np.asarray(X[points], dtype=float))
    apart = distances > 0
    if not apart.any():
        return 0.0
    return float(np.maximum(0.0, 1 - pdist(Y[points])[apart] / distances[apart]).mean())


# The neighbor graph of a sample that patches are made on: what is connected, and what targets take apart.


def sample_graph(
    rows: FloatArray, rule: NeighborRule, targets: Targets | None, run: Run
) -> tuple[NeighborGraph, NeighborIndex]:
    """Return the undirected graph of the rows, at their distances, and the index of them.

    Targets decide who is a neighbor: cells that hold two classes without an edge between them are divided, as those of
    two sheets are, and patches do not extend from one to the other. Lengths are those of the points, as patches are.
    """
    neighbors, index = neighbor_graph(rows, rule, run)
    if targets is None:
        return join_small_components(symmetrize(neighbors), rows, run), index
    sample = Sample(rows, neighbors, symmetrize(neighbors), index)
    return symmetrize(supervised_lists(sample, targets, run)[1]), index
