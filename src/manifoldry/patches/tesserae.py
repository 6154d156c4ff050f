"""Tesserae: clusters as rigid patches, the pairs of points that hold them together and those to be stretched apart."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manifoldry.csgraph import connected_components
from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.neighbors.graph import label_pieces
from manifoldry.patches.cells import find_cells
from manifoldry.patches.charts import Charts, fit_charts
from manifoldry.patches.cover import Membership
from manifoldry.patches.overlaps import find_overlaps
from manifoldry.patches.rigid import RigidPatches
from manifoldry.patches.stitch import stitch
from manifoldry.run import Run
from manifoldry.solve.scaling import landmark_scaling, place_columns
from manifoldry.solve.semidefinite import FrameLayout, PairDistances
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

N_TESSERA_LANDMARKS = 30
"""Landmarks of the Isomap initialization, which need not be accurate."""

MAX_WIDE_ROWS = 72
"""Maximum number of tesserae times their unknown rows, where they have the data's own dimension: digits in 9
tesserae of 7 dimensions take 3 s, in 21 they take 19 s."""


def root_mean_square(X: FloatArray) -> float:
    """Return the root mean square distance of rows from their mean, the unit in which translations are sought.

    Rotations have no unit, so that a program for both depends on that of the data.
    """
    away = X - X.mean(axis=0)
    largest = float(np.abs(away).max(initial=0.0))
    return largest * float(np.sqrt(np.square(away / largest).sum(axis=1).mean())) if largest > 0 else 1.0


def held_together(cut: NeighborGraph, graph: NeighborGraph) -> NeighborGraph:
    """Return a part of the graph, with the graph's edges between components of the part if it has several."""
    n, (count, part) = graph.n_points, connected_components(cut.to_sparse(), directed=False)
    if count == 1:
        return cut
    kept = np.isin(graph.rows() * n + graph.indices, cut.rows() * n + cut.indices)
    return graph.with_only(kept | (part[graph.rows()] != part[graph.indices]))


def whole_tesserae(labels: IntArray, graph: NeighborGraph, least: int) -> IntArray:
    """Return labels of which every one is connected on the graph.

    Disconnected clusters are divided; a component of fewer than ``least`` points joins the tessera across its shortest
    edge.
    """
    pieces, _ = label_pieces(labels, graph)
    small = np.bincount(pieces) < least
    by_length = np.argsort(graph.lengths, kind="stable")
    rows, columns = graph.rows()[by_length], graph.indices[by_length]
    while True:
        out = small[pieces[rows]] & ~small[pieces[columns]]
        joining, shortest = np.unique(pieces[rows[out]], return_index=True)
        if not len(joining):
            return np.unique(pieces, return_inverse=True)[1].astype(np.int64)
        new = np.arange(len(small))
        new[joining] = pieces[columns[out][shortest]]
        pieces = new[pieces]


def wide_labels(X: FloatArray, graph: NeighborGraph, width: int, run: Run) -> IntArray:
    """Return labels of few tesserae, each with points enough for ``width`` dimensions."""
    count = max(1, min(MAX_WIDE_ROWS // (width + 1), len(X) // (3 * (width + 1))))
    return whole_tesserae(find_cells(X, graph, count, width, run).labels, graph, width + 2)


def lay_tesserae(X: Array, labels: IntArray, width: int, kind: str, run: Run) -> tuple[RigidPatches, Charts]:
    r"""Return every tessera in local coordinates :math:`P_\ell`, at most ``width`` of them, and the charts.

    The homogeneous coordinates of all points are the rows of ``RigidPatches.images``, U' of (3.9). The tesserae are
    labeled 0 to c - 1; the ``kind`` of chart is one of `fit_charts`.
    """
    n, c = len(X), int(labels.max()) + 1
    members = Membership(np.arange(n), labels, np.ones(n), n)
    charts = fit_charts(X, members, c, min(width, X.shape[1]), run, kind=kind)
    f = charts.coordinates(X, members, run)
    axes = np.zeros((c, 0, f.shape[1]))
    return RigidPatches(members, f, FrameLayout(charts.sizes), axes, np.zeros((c, 0))), charts


def border_pairs(X: Array, graph: NeighborGraph, labels: IntArray, most: int) -> PairDistances:
    """Return edges between each two tesserae (3.16): the shortest, and up to ``most`` spread out along the border.

    With more, tesserae could not rotate about their border, and if all were close together they would rotate about that
    place instead. Coincident points count as a thousandth of the usual distance apart.
    """
    rows, columns = graph.rows(), graph.indices.astype(np.int64)
    across = np.flatnonzero(labels[rows] < labels[columns])
    couple = labels[rows[across]] * (int(labels.max()) + 1) + labels[columns[across]]
    order = np.lexsort((graph.lengths[across], couple))
    edges, couple = across[order], np.unique(couple[order], return_inverse=True)[1]
    i, j = rows[edges], columns[edges]
    chosen = _spread_out((X[i] + X[j]) / 2, couple, most)
    return PairDistances.of(i[chosen], j[chosen], graph.lengths[edges[chosen]], len(X))


def _spread_out(places: FloatArray, groups: IntArray, most: int) -> IntArray:
    """Return up to ``most`` places of each group, ascending: the first, then farthest point sampling."""
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(groups) > 0))
    away = np.full(len(groups), np.inf)
    taken = np.zeros(len(groups), dtype=bool)
    picks = starts
    for _ in range(most):
        taken[picks] = True
        latest = starts.copy()
        latest[groups[picks]] = picks
        away = np.minimum(away, np.linalg.norm(places - places[latest[groups]], axis=1))
        away[taken] = -1.0
        farthest = np.flatnonzero((away == np.maximum.reduceat(away, starts)[groups]) & ~taken)
        picks = farthest[np.unique(groups[farthest], return_index=True)[1]]
    return np.flatnonzero(taken)


def far_pairs(X: Array, graph: NeighborGraph, labels: IntArray, most: int, run: Run) -> PairDistances:
    """Return pairs of different tesserae whose distances are maximized: no neighbors, or about ``most`` random ones.

    Where all points are neighbors, all pairs of different tesserae are taken.
    """
    n = len(X)
    if n * (n - 1) // 2 <= most:
        pairs = np.column_stack(np.triu_indices(n, 1))
    else:
        drawn = np.sort(run.rng("pairs to stretch").integers(n, size=(most, 2)), axis=1)
        pairs = np.unique(drawn, axis=0)
    i, j = pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]].T
    edges = np.sort(graph.rows() * n + graph.indices)
    beside = edges[np.minimum(np.searchsorted(edges, i * n + j), len(edges) - 1)] == i * n + j
    if not beside.all():
        i, j = i[~beside], j[~beside]
    lengths = np.linalg.norm(X[i] - X[j], axis=1)
    return PairDistances.of(i, j, lengths, n)


def geodesic_start(pieces: RigidPatches, graph: NeighborGraph, n_components: int, run: Run) -> FloatArray:
    """Return frames and shifts that bring the tesserae closest to Isomap's coordinates by landmarks."""
    n = graph.n_points
    drawn = np.sort(run.rng("landmarks of the start").permutation(n)[: max(N_TESSERA_LANDMARKS, n_components + 2)])
    lengths, landmarks = geodesic_lengths(graph, run, drawn, at_least=n_components + 2)
    scaling = landmark_scaling(lengths, landmarks, n_components, run)
    return pieces.fitted(place_columns(scaling, lengths, run), proper=False)


def stitched_start(
    X: Array, pieces: RigidPatches, charts: Charts, graph: NeighborGraph, n_components: int, run: Run
) -> FloatArray | None:
    """Return frames and shifts in n_components dimensions of tesserae that share the points at their borders.

    Each end of an edge across a border is a point of both tesserae, in both charts, and these are stitched as the
    patches of `IPA` are. None if that leaves several components.
    """
    rows, columns, labels = graph.rows(), graph.indices, pieces.members.patches
    shared = sp.csr_array((np.ones(len(rows)), (rows, labels[columns])), shape=(len(X), pieces.n_patches))
    own = sp.csr_array((np.ones(len(X)), (np.arange(len(X)), labels)), shape=shared.shape)
    members = Membership.of_matrix(shared + own)
    overlaps = find_overlaps(members, charts.coordinates(X, members, run), pieces.n_patches)
    stitched = stitch(overlaps[overlaps.holding(charts.sizes)], charts.sizes, run, max_rank=n_components)
    if stitched.n_components > 1:
        return None
    Y = stitched.images(labels, pieces.f)
    return pieces.fitted(np.pad(Y, ((0, 0), (0, max(n_components - Y.shape[1], 0)))), proper=False)
