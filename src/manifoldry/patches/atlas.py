"""A trial of patches on a sample: how well they keep its distances, and how many are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.neighbors.graph import components
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.patches.cells import find_cells
from manifoldry.patches.charts import Charts, fit_charts
from manifoldry.patches.cover import ListedCover, Membership, VoronoiCover, expanded
from manifoldry.patches.overlaps import Overlaps, find_overlaps, patch_components
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph

GROWTH = 1.5
GROWTHS = 4
"""How often the overlap is widened while patches that should hold together do not."""

FIRST_CELLS = 16

ENOUGH = 2e-3
"""Root mean square relative change of the sample's edges in the charts below which more patches are not needed.
On the holed roll 32, 64, 128 patches change edges by 7e-3, 2e-3, 7e-4, and the whole by 1.2e-3, 2.8e-4, 7.7e-5."""

PAYS = 0.8
"""More patches have to bring the change of edges down to this share of the best so far; with noise they do not."""

TEARS = 1e-3
"""Share of edges that may be torn before it counts: some at the corners of holes always are."""

TRIES = 2
"""Trials in a row that may not pay before the search ends."""


History = list[tuple[int, float]]
"""Numbers of patches tried, and the change of edges with each."""


@dataclass(frozen=True)
class Charting:
    """How patches are charted: largest dimension, kind of chart, share of variance to leave, overlap, even blend."""

    width: int
    kind: str
    share: float | None
    overlap: float
    even: bool

    @property
    def least_points(self) -> int:
        """Points a patch should have on average: enough for its chart and for overlaps with several neighbors."""
        return 3 * (self.width + 1)


@dataclass(frozen=True)
class Survey:
    """Patches of a sample.

    Parameters
    ----------
    cover : VoronoiCover or ListedCover
        Who belongs to which patch.
    members : Membership
        Of the sample.
    charts : Charts
        Fitted to the sample.
    coordinates : ndarray of shape (M, r)
        Of the members.
    overlaps : Overlaps
        Of the sample.
    changes : ndarray of shape (n_edges,)
        Relative change of the length of each edge of the sample's graph in the chart of its heaviest common patch.
        NaN where no patch holds both ends but their patches overlap; 1 where not even that: the edge is torn.
    """

    cover: VoronoiCover | ListedCover
    members: Membership
    charts: Charts
    coordinates: FloatArray
    overlaps: Overlaps
    changes: FloatArray

    @property
    def change(self) -> float:
        """Root mean square of the changes; torn edges count as doubled, but for a few at corners (`TEARS`)."""
        known = self.changes[np.isfinite(self.changes)]
        if not len(known):
            return 0.0
        held = known[known < 1]
        torn = max(0.0, 1 - len(held) / len(known) - TEARS)
        return float(np.sqrt((np.square(held).mean() if len(held) else 0.0) + torn))


def try_cells(X: FloatArray, graph: NeighborGraph, n_cells: int, how: Charting, run: Run) -> Survey:
    """Return the survey of about ``n_cells`` patches around k-means centers."""
    cover = find_cells(X, graph, n_cells, how.width, run).cover(how.overlap, even=how.even)
    pieces = len(components(graph))
    for growth in range(GROWTHS + 1):
        found = chart(X, graph, cover.grown(GROWTH**growth), how, run)
        if _holds_together(found, pieces):
            break
    return found


def try_labels(
    X: FloatArray, graph: NeighborGraph, labels: IntArray, index: NeighborIndex, how: Charting, run: Run
) -> Survey:
    """Return the survey of given clusters, grown over their borders along the graph."""
    pieces = len(components(graph))
    for rings in range(1, GROWTHS + 1):
        weights = expanded(labels, graph, rings)
        if how.even:
            weights.data[:] = 1.0
        found = chart(X, graph, ListedCover(weights, index), how, run)
        if _holds_together(found, pieces):
            break
    return found


def choose_cells(
    X: FloatArray, graph: NeighborGraph, how: Charting, run: Run
) -> tuple[Survey, list[tuple[int, float]]]:
    """Return the survey of as many patches as are worth having, and the changes of edges met on the way.

    The number is doubled until the charts keep the edges of the sample (`ENOUGH`), until doubling no longer
    pays, or until patches would get too small.
    """
    most = max(1, len(X) // how.least_points)
    n_cells = min(FIRST_CELLS, most)
    best = try_cells(X, graph, n_cells, how, run)
    history = [(best.charts.n_patches, best.change)]
    failed = 0
    while best.change > ENOUGH and 2 * n_cells <= most and failed < TRIES and run.step(n_cells, most):
        n_cells *= 2
        found = try_cells(X, graph, n_cells, how, run)
        history.append((found.charts.n_patches, found.change))
        pays = found.change <= PAYS * best.change
        best, failed = (found, 0) if pays else (best, failed + 1)
    return best, history


def chart(X: FloatArray, graph: NeighborGraph, cover: VoronoiCover | ListedCover, how: Charting, run: Run) -> Survey:
    """Return the survey of a given cover."""
    members = cover.members(X, run)
    charts = fit_charts(X, members, cover.n_patches, how.width, run, kind=how.kind, share=how.share)
    f = charts.coordinates(X, members, run)
    overlaps = find_overlaps(members, f, cover.n_patches)
    return Survey(cover, members, charts, f, overlaps, edge_changes(graph, members, f, overlaps, cover.n_patches))


def edge_changes(
    graph: NeighborGraph, members: Membership, f: FloatArray, overlaps: Overlaps, n_patches: int
) -> FloatArray:
    """Return the relative change of every edge (i < j, in the graph's order) in the heaviest patch that holds it."""
    rows = graph.rows()
    up = (rows < graph.indices) & (graph.lengths > 0)
    i, j, lengths = rows[up], graph.indices[up].astype(np.int64), graph.lengths[up]
    edge, entry, other = _held_edges(members, i, j, n_patches)
    weight = members.weights[entry] * members.weights[other]
    order = np.lexsort((weight, edge))
    chosen = order[np.append(np.diff(edge[order]) > 0, True)] if len(edge) else order
    heaviest = members.heaviest()
    a, b = heaviest[i], heaviest[j]
    near = np.isin(np.minimum(a, b) * n_patches + np.maximum(a, b), overlaps.first * n_patches + overlaps.second)
    changes = np.where(near, np.nan, 1.0)
    spans = np.linalg.norm(f[entry[chosen]] - f[other[chosen]], axis=1)
    changes[edge[chosen]] = spans / lengths[edge[chosen]] - 1
    return changes


def _held_edges(members: Membership, i: IntArray, j: IntArray, n_patches: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return all (edge, entry of i, entry of j) in which both ends of an edge belong to the same patch."""
    key = members.points.astype(np.int64) * n_patches + members.patches
    order = np.argsort(key, kind="stable")
    counts = np.bincount(members.points, minlength=members.n_points)
    starts = np.concatenate([[0], np.cumsum(counts)])
    many = counts[i]
    edge = np.repeat(np.arange(len(i)), many)
    entry = np.repeat(starts[i] - (np.cumsum(many) - many), many) + np.arange(int(many.sum()))
    wanted = j[edge] * n_patches + members.patches[entry]
    other = order[np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)]
    common = key[other] == wanted
    return edge[common], entry[common], other[common]


def _holds_together(survey: Survey, pieces: int) -> bool:
    firm = survey.overlaps.firm(survey.charts.sizes)
    parts = patch_components(survey.overlaps[firm], survey.charts.n_patches)
    return int(parts.max()) + 1 <= pieces
