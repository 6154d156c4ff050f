"""Operations on the neighbor graph: symmetrization, connected components, bridges between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.arrays import joined
from manifoldry._core.csgraph import breadth_first_order, connected_components, minimum_spanning_tree, row_range
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._core.warnings import DisconnectedWarning, remark, warn
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph

MAX_SMALL_COMPONENT = 64

MAX_SMALL_SHARE = 0.01
"""Share of the points up to which a component can be an artifact of the neighbor search: 8 of 50,000 random points on a
sheet may have all their 6 nearest neighbors among themselves."""

MAX_GAP_RATIO = 3.0
"""Maximum distance to the rest, relative to the distances between neighbors there: 1.6 for those 8 points."""


MIN_COMPILED_GRAPH = 20_000  # points of a graph from which compiled loops number its components
MIN_COPIED_ENTRIES = 2**16  # entries of a graph that one task copies
MIN_MERGED_ROWS = 4096  # rows of a graph that one task merges with their reverse


def symmetrize(graph: NeighborGraph, rule: str = "or", run: Run | None = None) -> NeighborGraph:
    """Return the undirected graph of pairs listed by either end ("or") or both ("and"), rows sorted by index."""
    if graph.symmetric:
        return graph
    run = run or Run(0, 1)
    tiny = np.finfo(graph.lengths.dtype).tiny
    # Sparse algebra drops zeros, so the smallest normal number replaces length 0 meanwhile.
    lengths = np.maximum(graph.lengths, tiny)
    one_way = csr_array((lengths, graph.indices.astype(np.int32), graph.indptr), shape=(graph.n_points,) * 2)
    other_way = _reversed(one_way, run)
    if graph.n_points < MIN_COMPILED_GRAPH:
        one_way = _reversed(other_way, run)  # with rows in order, in a third of the time of a sort

    def merged(lo: int, hi: int) -> tuple[IntArray, IntArray, FloatArray]:
        own, reverse = row_range(one_way, lo, hi), row_range(other_way, lo, hi)
        own.sort_indices()  # rows in order are merged three times as fast
        both = csr_array(own.maximum(reverse) if rule == "or" else own.minimum(reverse))
        both.sort_indices()
        return np.diff(both.indptr), both.indices, np.where(both.data <= tiny, 0.0, both.data)

    parts = run.map(merged, run.shares(graph.n_points, MIN_MERGED_ROWS) or [(0, 0)])
    counts, indices, lengths = joined(zip(*parts, strict=True), run)
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return NeighborGraph.checked(indptr, indices, lengths, symmetric=True)


def _reversed(one_way: csr_array, run: Run) -> csr_array:
    """Return the transpose of a square csr_array."""
    n = one_way.shape[0]
    if n < MIN_COMPILED_GRAPH or one_way.nnz > np.iinfo(np.int32).max:
        return csr_array(one_way.T.tocsr())
    ends = one_way.indptr.astype(np.int64, copy=False)
    start, lists, places = reversed_lists(ends, one_way.indices.astype(np.int32, copy=False), n, run)
    data = np.empty_like(one_way.data)

    def values(lo: int, hi: int) -> None:
        data[lo:hi] = one_way.data[ends[lists[lo:hi]] + places[lo:hi]]

    run.map(values, run.shares(len(data), MIN_COPIED_ENTRIES))
    return csr_array((data, lists, start), shape=one_way.shape)


def reversed_lists(ends: IntArray, members: IntArray, n_points: int, run: Run) -> tuple[IntArray, IntArray, IntArray]:
    """Return where the lists of each point begin, the lists that contain it, in order, and its places there.

    The list b is ``members[ends[b]:ends[b + 1]]``.
    """
    from manifoldry.graph._kernels.reversal import count_lists, reverse_lists

    # Each thread looks at all members once, for the points that are its share.
    shares = run.ranges(n_points, max(MIN_MERGED_ROWS, -(-n_points // run.n_jobs)))
    degrees, (lists, places) = np.empty(n_points, dtype=np.int64), np.empty((2, len(members)), dtype=np.int32)
    run.map(count_lists, [(members, degrees, lo, hi) for lo, hi in shares])
    start = np.concatenate([[0], np.cumsum(degrees)])
    run.map(reverse_lists, [(ends, members, start, lists, places, lo, hi) for lo, hi in shares])
    return start, lists, places


def components(graph: NeighborGraph) -> list[IntArray]:
    """Return the members of each connected component, the largest first (ties: the one with the lower index)."""
    if graph.connected:
        return [np.arange(graph.n_points)]
    n, labels = connected_components(graph.to_sparse(), directed=False)
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(labels, minlength=n))[:-1])
    return sorted(groups, key=lambda members: (-len(members), members[0]))


def label_components(labels: IntArray, graph: NeighborGraph, run: Run | None = None) -> tuple[IntArray, IntArray]:
    """Return the connected component of each point within its label (n,), and the label of each component.

    Paths go through points of one label, in both directions; components are numbered in the order of first points.
    """
    if graph.symmetric and graph.n_points >= MIN_COMPILED_GRAPH:
        from manifoldry.graph._kernels.paths import label_parts

        numbers = [np.ascontiguousarray(each, dtype=np.int64) for each in (graph.indptr, graph.indices, labels)]
        first, run = np.full(len(labels), -1, dtype=np.int64), run or Run(0, 1)
        run.map(lambda lo, hi: label_parts(*numbers, lo, hi, first), run.shares(int(labels.max()) + 1, 1))
        points = np.flatnonzero(first == np.arange(len(first)))
        parts = np.empty_like(first)
        parts[points] = np.arange(len(points))
        return parts[first], labels[points]
    inside = graph.with_edges_where(labels[graph.rows()] == labels[graph.indices])
    count, components = connected_components(inside.to_sparse(), directed=False)
    component_labels = np.empty(count, dtype=labels.dtype)
    component_labels[components] = labels
    return components.astype(np.int64), component_labels


def edge_ratios(graph: NeighborGraph, Y: FloatArray, run: Run | None = None, *, once: bool = False) -> FloatArray:
    """Return every edge's length in Y over its own, 1 between coincident points; ``once``: if not, and i < j."""
    columns, degrees = np.ascontiguousarray(Y.T), graph.degrees  # along the rows of a narrow array it takes far longer

    def of_rows(lo: int, hi: int) -> FloatArray:
        edges = slice(graph.indptr[lo], graph.indptr[hi])
        indices, lengths = graph.indices[edges], graph.lengths[edges]
        rows, apart = np.repeat(np.arange(lo, hi), degrees[lo:hi]), lengths > 0
        spans = np.sqrt(sum((np.square(column[rows] - column[indices]) for column in columns), np.zeros(len(rows))))
        ratios = np.divide(spans, lengths, out=np.ones(len(lengths)), where=apart)
        return ratios[apart & (rows < indices)] if once else ratios

    run = run or Run(0, 1)
    return joined([run.map(of_rows, run.shares(graph.n_points, MIN_MERGED_ROWS))], run)[0]


def closed_groups(graph: NeighborGraph, run: Run) -> int:
    """Return the number of strongly connected components that no edge leaves."""
    back = _reversed(graph.to_sparse(), run)
    # If all points reach one, there is one such component. The point that most others list is probably in it.
    reached = breadth_first_order(back, int(np.argmax(np.diff(back.indptr))), return_predecessors=False)
    if len(reached) == graph.n_points:
        return 1
    count, label = connected_components(graph.to_sparse(), directed=True, connection="strong")
    leaves = label[graph.rows()] != label[graph.indices]
    return count - len(np.unique(label[graph.rows()[leaves]]))


def local_scale(graph: NeighborGraph, n_neighbors: int | None = None) -> FloatArray:
    """Return each point's mean distance to its ``n_neighbors`` nearest (None: all), positive also among duplicates."""
    rows, lengths = graph.rows(), graph.lengths
    if n_neighbors is not None:
        lengths = lengths[np.lexsort((lengths, rows))]
        rank = np.arange(len(lengths)) - graph.indptr[rows]
        lengths = np.where(rank < n_neighbors, lengths, 0.0)
    count = graph.degrees if n_neighbors is None else np.minimum(graph.degrees, n_neighbors)
    scale = np.bincount(rows, lengths, minlength=graph.n_points) / np.maximum(count, 1)
    smallest = scale[scale > 0].min(initial=np.inf)
    return np.where(scale > 0, scale, smallest if np.isfinite(smallest) else 1.0)


def join_small_components(graph: NeighborGraph, X: Array, run: Run) -> NeighborGraph:
    """Return the symmetric graph with small components that are artifacts of the search joined to the nearby rest.

    Their points get an edge to the nearest point outside, within three times the local scale there.
    """
    max_size = min(MAX_SMALL_COMPONENT, int(MAX_SMALL_SHARE * graph.n_points))
    largest, *others = components(graph)
    small = [members for members in others if len(members) <= max_size]
    if not small:
        return graph
    queries = np.concatenate(small)
    outside, gap = _first_outside(
        X, NeighborRule(1, search="exact"), queries, component_labels([largest, *others]), max_size, run
    )
    close = gap <= MAX_GAP_RATIO * local_scale(graph)[outside]
    edges = np.column_stack([np.minimum(queries, outside), np.maximum(queries, outside), gap])[close]
    return with_edges(graph, np.unique(edges, axis=0))


def component_labels(parts: Sequence[IntArray]) -> IntArray:
    """Return the number of the component of each point."""
    label = np.empty(sum(map(len, parts)), dtype=np.int64)
    for number, members in enumerate(parts):
        label[members] = number
    return label


def _first_outside(
    X: Any, rule: NeighborRule, queries: IntArray, label: IntArray, max_size: int, run: Run
) -> tuple[IntArray, FloatArray]:
    """Return the nearest point outside the component of each query, whose component has at most ``max_size`` points."""
    # One of the ``max_size + 1`` nearest points lies outside.
    engine = NeighborIndex(X, rule, run).engine
    distances, indices = engine.nearest(X[queries], min(max_size + 1, X.shape[0]), run)
    first = np.arange(len(queries)), np.argmax(label[indices] != label[queries][:, None], axis=1)
    return indices[first], distances[first]


def rescaled(graph: NeighborGraph, scale: FloatArray) -> NeighborGraph:
    """Return the graph with every length divided by the root of its ends' scales."""
    lengths = graph.lengths / np.sqrt(scale[graph.rows()] * scale[graph.indices])
    return NeighborGraph(graph.indptr, graph.indices, lengths, graph.symmetric)


def bridge(
    graph: NeighborGraph, X: Any, metric: Any, metric_params: dict[str, Any] | None = None
) -> tuple[NeighborGraph, FloatArray]:
    """Join the components by their shortest bridges (Boruvka); return the graph and the bridges (i, j, length)."""
    joined, bridges = graph, np.empty((0, 3))
    parts = components(graph)
    while len(parts) > 1:
        label = component_labels(parts)
        candidates = np.array(_nearest_outside(X, metric, metric_params, parts, label))
        bridges = np.concatenate([bridges, _spanning(candidates, label, len(parts))])
        joined = with_edges(graph, bridges)
        parts = components(joined)
    return joined, bridges[np.lexsort((bridges[:, 1], bridges[:, 0]))]


def _spanning(edges: FloatArray, label: IntArray, n_parts: int) -> FloatArray:
    """Return the edges (i, j, length), i < j, without those that close a cycle (possible with equal lengths)."""
    edges = np.column_stack([np.sort(edges[:, :2], axis=1), edges[:, 2]])
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0], edges[:, 2]))]
    a, b = np.sort(label[edges[:, :2].astype(np.int64)], axis=1).T
    _, first = np.unique(a * n_parts + b, return_index=True)
    # Ranks replace the lengths: all different, and never 0, which sparse algebra drops.
    ranks = csr_array((first + 1.0, (a[first], b[first])), shape=(n_parts, n_parts))
    return edges[np.sort(minimum_spanning_tree(ranks).data.astype(np.int64) - 1)]


def with_edges(graph: NeighborGraph, edges: FloatArray) -> NeighborGraph:
    """Return the graph with the ``edges``, rows (i, j, length) that it does not have, listed both ways."""
    n = graph.n_points
    i, j, d = edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64), edges[:, 2]
    rows = np.concatenate([graph.rows(), i, j])
    indices = np.concatenate([graph.indices, j, i])
    order = np.lexsort((indices, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    lengths = np.concatenate([graph.lengths, d, d])[order]
    return NeighborGraph(indptr, indices[order], lengths, symmetric=graph.symmetric)


def _nearest_outside(
    X: Any, metric: Any, metric_params: dict[str, Any] | None, parts: list[IntArray], label: IntArray
) -> list[tuple[int, int, float]]:
    """Return the shortest pair that leaves each component, except the largest, which the others reach."""
    if isinstance(metric, str) and metric == "precomputed":
        return [_smallest_entry(X, members) for members in parts[1:]]
    rule, run = NeighborRule(1, None, metric, metric_params, "exact"), Run(0, 1)
    pairs = []
    small = [members for members in parts[1:] if len(members) <= MAX_SMALL_COMPONENT]
    if small:
        queries = np.concatenate(small)
        outside, lengths = _first_outside(X, rule, queries, label, MAX_SMALL_COMPONENT, run)
        for ends in np.split(np.arange(len(queries)), np.cumsum([len(members) for members in small])[:-1]):
            best = ends[np.argmin(lengths[ends])]
            pairs.append((int(queries[best]), int(outside[best]), float(lengths[best])))
    for members in parts[1:]:
        if len(members) > MAX_SMALL_COMPONENT:
            rest = np.flatnonzero(label != label[members[0]])
            distances, indices = NeighborIndex(X[rest], rule, run).engine.nearest(X[members], 1, run)
            best = int(np.argmin(distances[:, 0]))
            pairs.append((int(members[best]), int(rest[indices[best, 0]]), float(distances[best, 0])))
    return pairs


def _smallest_entry(D: FloatArray, members: IntArray) -> tuple[int, int, float]:
    outside = np.setdiff1d(np.arange(len(D)), members)
    block = D[np.ix_(members, outside)]
    a, b = np.unravel_index(int(np.argmin(block)), block.shape)
    return int(members[a]), int(outside[b]), float(block[a, b])


# Neighbor lists for the neighbor embeddings: one per point, and none is empty.


def distinct_rows(X: Any) -> tuple[IntArray, IntArray]:
    """Return the first occurrences of the distinct rows, ascending, and for each row its position among them."""
    if issparse(X):
        X = csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        keys = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in pairwise(X.indptr)]
    else:
        keys = [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]  # -0.0 is 0.0
    positions: dict[bytes, int] = {}
    inverse = np.array([positions.setdefault(key, len(positions)) for key in keys])
    first = np.unique(inverse, return_index=True)[1]
    return first, inverse


def group_means(Y: FloatArray, group: IntArray) -> FloatArray:
    """Return coordinates (n, d) in which the points of each group (0, 1, ...) are at their mean."""
    sums = np.stack([np.bincount(group, column) for column in Y.T], axis=1)
    return (sums / np.bincount(group)[:, None])[group]


def list_neighbors(X: Any, rule: NeighborRule, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
    """Return each point's list of neighbors (a given graph unchanged), and the index for those of new points."""
    if isinstance(X, NeighborGraph):
        graph, index = X, NeighborIndex.of_graph(X.n_points)
    else:
        graph, index = neighbor_graph(X, rule.resolve(X.shape[0]), run)
    isolated = np.flatnonzero(graph.degrees == 0)
    if len(isolated):
        raise ValueError(
            f"The given graph has {len(isolated)} points without a neighbor (the first is {isolated[0]}), so their "
            "position is undefined; add edges or drop those points."
        )
    return graph, index


# Graphs with several connected components.

MIN_SHARE_OUTSIDE = 0.05
"""Share of the points outside the largest component above which bridges cause a warning: a few points at the ends of
bridges hardly change a layout."""

Policy = Literal["bridge", "apart", "largest", "raise"]
"""Join the components by shortest bridges, embed them separately, keep only the largest, or raise an error."""


def connect(
    graph: NeighborGraph,
    X: Any,
    parts: Sequence[IntArray],
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    advice: str = "raise n_neighbors or radius",
) -> tuple[NeighborGraph, FloatArray]:
    """Return the graph joined by shortest bridges between its components, and the bridges; warn if they matter."""
    graph, bridges = bridge(graph, X, metric, metric_params)
    share = 1 - len(parts[0]) / graph.n_points
    edges = "a shortest edge" if len(bridges) == 1 else f"{len(bridges)} shortest edges"
    message = (
        f"The neighbor graph has {len(parts)} connected components, and {share:.{0 if share > 0.01 else 1}%} of the "
        f"points are outside the largest; {edges} up to a length of {bridges[:, 2].max():.3g} "
        f"{'joins' if len(bridges) == 1 else 'join'} them, and distances between components mean little: {advice}."
    )
    if share >= MIN_SHARE_OUTSIDE:
        warn(message, DisconnectedWarning)
    else:
        remark(message)
    return graph, bridges


def raise_for_components(parts: Sequence[IntArray], instead: Sequence[str], why: str = "") -> None:
    """Raise an error for a graph with several connected components."""
    sizes = ", ".join(str(len(part)) for part in parts[:5]) + (", ..." if len(parts) > 5 else "")
    others = " or ".join(filter(None, [", ".join(map(repr, instead[:-1])), repr(instead[-1])]))
    raise ValueError(
        f"The neighbor graph has {len(parts)} components ({sizes} points){why}; raise n_neighbors or radius, or set "
        f"disconnected to {others}."
    )
