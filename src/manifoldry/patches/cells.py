"""Voronoi cells of k-means centers on a sample, divided where the sample's graph is disconnected, and their borders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from manifoldry.blas import one_blas_thread
from manifoldry.neighbors.graph import label_pieces, local_scale
from manifoldry.patches.cover import BLOCK_ENTRIES, MAX_TREE_COLUMNS
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

MAX_LLOYD_STEPS = 20
MAX_SPLITS = 10

MAX_KMEANSPP_COST = 2_000_000_000
"""Points times columns times cells up to which the first centers are chosen by k-means++, beyond at random."""

MAX_VOLUME_POWER = 2
"""Maximum power of the distance to neighbors that weights a point; with higher ones outliers would dominate."""

MIN_PIECE_SHARE = 0.05
"""Components of a cell below this share of the mean cell are corners cut off by the border, not sheets of their own."""


@dataclass(frozen=True)
class VoronoiCells:
    """Means (c, d) of a sample's cells, each point's cell, and bordering cells (c, w), padded with the own number."""

    centers: FloatArray
    labels: IntArray
    borders: IntArray


def find_cells(X: Array, graph: NeighborGraph, n_cells: int, dimension: int, run: Run, trial: int = 0) -> VoronoiCells:
    """Return about ``n_cells`` cells of the sample X, each connected on its graph.

    Points are weighted by their local volume on a manifold of that ``dimension``, so that cells have similar sizes, not
    similar numbers of points. k-means ignores the manifold: a cell that holds two sheets of a roll is divided, and
    the nearest centers are found again, until every cell is connected but for a few points at its border. Every
    ``trial`` begins with other random centers.
    """
    volume = local_scale(graph) ** min(dimension, MAX_VOLUME_POWER)
    centers = _lloyd(X, volume, n_cells, run, trial)
    for _ in range(MAX_SPLITS):
        labels = nearest_center(X, centers, run)
        pieces, _ = label_pieces(labels, graph)
        sizes = np.bincount(pieces)
        large = sizes >= max(2, MIN_PIECE_SHARE * len(X) / len(centers))
        if large.sum() <= len(centers):
            break
        kept = np.cumsum(large) - 1
        mine = large[pieces]
        centers = _group_means(X[mine], kept[pieces[mine]], int(large.sum()), volume[mine])
    labels = nearest_center(X, centers, run)
    centers, labels = _without_empty(centers, labels)
    return VoronoiCells(centers, labels, cell_borders(labels, graph, len(centers)))


def without_cells(X: Array, graph: NeighborGraph, cells: VoronoiCells, dropped: Array, run: Run) -> VoronoiCells:
    """Return the cells without those ``dropped`` (c,), whose points go to the nearest of the others."""
    centers = cells.centers[~dropped]
    centers, labels = _without_empty(centers, nearest_center(X, centers, run))
    return VoronoiCells(centers, labels, cell_borders(labels, graph, len(centers)))


def nearest_center(X: Array, centers: FloatArray, run: Run) -> IntArray:
    """Return the index of the center nearest to each row."""
    tree = cKDTree(centers) if X.shape[1] <= MAX_TREE_COLUMNS else None
    squares = np.square(centers).sum(axis=1)

    def work(lo: int, hi: int) -> IntArray:
        if tree is not None:
            return np.asarray(tree.query(X[lo:hi])[1], dtype=np.int64)
        return np.argmin(squares - 2 * (X[lo:hi] @ centers.T), axis=1)

    return np.concatenate(run.map(work, run.ranges(len(X), max(1, BLOCK_ENTRIES // len(centers))), blas=True))


def _lloyd(X: Array, volume: FloatArray, n_cells: int, run: Run, trial: int) -> FloatArray:
    """Return k-means centers by Lloyd's iteration."""
    if n_cells == 1:
        return X.mean(axis=0, keepdims=True)
    # The word seeds the draws: spelled as when the results were measured.
    rng = run.rng(f"patch centers {trial}") if trial else run.rng("patch centres")
    # Sorted by distance from the mean: the same for any order of the rows and after rotations.
    order = np.argsort(np.square(X - X.mean(axis=0)).sum(axis=1), kind="stable")
    if X.size * n_cells <= MAX_KMEANSPP_COST:
        centers = _kmeans_plusplus(X[order], volume[order], n_cells, int(rng.integers(2**31)))
    else:
        centers = X[order[rng.choice(len(X), n_cells, replace=False)]]
    labels = np.full(len(X), -1)
    for _ in range(MAX_LLOYD_STEPS):
        found = nearest_center(X, centers, run)
        if np.array_equal(found, labels):
            break
        centers, labels = _without_empty(centers, found)
        centers = _group_means(X, labels, len(centers), volume)
    return centers


def _kmeans_plusplus(X: Array, volume: FloatArray, n_cells: int, seed: int) -> FloatArray:
    """Return initial centers by k-means++."""
    from sklearn.cluster import kmeans_plusplus

    with one_blas_thread():
        return np.asarray(kmeans_plusplus(X, n_cells, sample_weight=volume, random_state=seed)[0])


def _group_means(X: Array, groups: IntArray, n_groups: int, weights: FloatArray) -> FloatArray:
    sums = sp.csr_array((weights, (groups, np.arange(len(X)))), shape=(n_groups, len(X))) @ X
    return np.asarray(sums / np.bincount(groups, weights, n_groups)[:, None], dtype=float)


def _without_empty(centers: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    used, labels = np.unique(labels, return_inverse=True)
    return centers[used], labels


def cell_borders(labels: IntArray, graph: NeighborGraph, n_cells: int) -> IntArray:
    """Return the cells whose largest components are joined by an edge of the graph, as padded lists."""
    pieces, _ = label_pieces(labels, graph)
    sizes = np.bincount(pieces)
    order = np.lexsort((sizes[pieces], labels))
    last = np.append(np.flatnonzero(np.diff(labels[order])), len(labels) - 1)
    main = np.zeros(len(sizes), dtype=bool)
    main[pieces[order[last]]] = True
    rows = graph.rows()
    joined = main[pieces[rows]] & main[pieces[graph.indices]] & (labels[rows] != labels[graph.indices])
    a, b = labels[rows[joined]], labels[graph.indices[joined]]
    adjacency = sp.csr_array((np.ones(2 * len(a)), (np.r_[a, b], np.r_[b, a])), shape=(n_cells, n_cells))
    return padded_lists(adjacency)


def padded_lists(adjacency: sp.csr_array) -> IntArray:
    """Return the column indices of each row of an adjacency matrix, padded with the row's own index."""
    degrees = np.diff(adjacency.indptr)
    n = adjacency.shape[0]
    lists = np.repeat(np.arange(n)[:, None], max(1, degrees.max(initial=1)), axis=1)
    slots = np.arange(len(adjacency.indices)) - np.repeat(adjacency.indptr[:-1], degrees)
    lists[np.repeat(np.arange(n), degrees), slots] = adjacency.indices
    return lists
