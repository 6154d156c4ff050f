"""Edges of a neighbor graph: lengths other than distances, and edges that leave a surface."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy.sparse import coo_array, csr_array

from manifoldry._core.csgraph import connected_components, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, dense_rows, gather
from manifoldry._numerics.geometry.tangent import TANGENT_RANK_TOL
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import detour_lengths

EdgeLengths = Literal["distance", "means", "local_linearity", "kl", "bhattacharyya", "hellinger"]
"""The length of an edge: the distance of its ends or of the means of their neighborhoods, longer if the edge leaves the
tangent planes, or the divergence of the Gaussians of the neighborhoods."""
PatchDivergence = Literal["kl", "bhattacharyya", "hellinger"]
DIVERGENCES: tuple[str, ...] = get_args(PatchDivergence)
N_CANDIDATES = 2
"""Nearest points by the metric, per neighbor, among which those with the nearest neighborhoods are chosen: more of them
have the label of the point."""
MIN_PATCH_SHARE = 1e-3
"""Least length between neighborhoods, in distances over the deviation of the noise: points with the same neighborhood
are close to each other, but do not coincide."""


def measured_lists(
    X: Any, rule: NeighborRule, edge_lengths: EdgeLengths, dimension: int, pairwise: bool, run: Run
) -> tuple[NeighborGraph, FloatArray]:
    """Return neighbor lists by a resolved rule, and edge lengths; ``dimension`` is that of the tangent planes."""
    if edge_lengths == "local_linearity" and pairwise:
        raise ValueError("edge_lengths='local_linearity' needs rows of features; got distances.")
    candidates = rule
    if edge_lengths in DIVERGENCES and rule.n_neighbors is not None:
        candidates = replace(rule, n_neighbors=min(N_CANDIDATES * int(rule.n_neighbors), X.shape[0] - 1))
    lists, _ = neighbor_graph(X, candidates, run)
    if edge_lengths == "distance":
        return lists, lists.lengths
    if edge_lengths == "means":
        lists, _ = neighbor_graph(patch_means(X, lists, pairwise), rule, run)
        return lists, lists.lengths
    if edge_lengths == "local_linearity":
        return lists, linearity_lengths(np.asarray(dense_rows(X, run), dtype=np.float64), lists, dimension, run)
    nearest = lists.with_edges_where(_nearest_by(lists, lists.lengths, rule.n_neighbors))
    lengths = _divergence_lengths(LocalGaussians.of(X, nearest, run, pairwise), edge_lengths, lists)
    chosen = _nearest_by(lists, lengths, rule.n_neighbors)
    return lists.with_edges_where(chosen), lengths[chosen]


def patch_means(X: Any, lists: NeighborGraph, pairwise: bool) -> Any:
    """Return the means of each point and its neighbors, or the distances of the means if ``X`` has distances.

    Those follow from squared distances: :math:`(W D W^T)_{ij} - (W D W^T)_{ii} / 2 - (W D W^T)_{jj} / 2`.
    """
    n, degrees = lists.n_points, lists.degrees
    rows, columns = np.concatenate([_pairs(lists), np.column_stack([np.arange(n)] * 2)]).T
    W = csr_array((1.0 / (degrees[rows] + 1.0), (rows, columns)), shape=(n, n))
    if not pairwise:
        return W @ X
    squares = W @ (W @ np.square(np.asarray(X, dtype=np.float64))).T
    half = np.diagonal(squares) / 2
    distances = np.sqrt(np.maximum(squares - half[:, None] - half, 0.0))
    np.fill_diagonal(distances, 0.0)
    return np.minimum(distances, distances.T)


def _divergence_lengths(gaussians: LocalGaussians, kind: PatchDivergence, lists: NeighborGraph) -> FloatArray:
    """Return the lengths of listed edges, bit-identical in both directions; copies of a point have length 0."""
    pairs, inverse = np.unique(np.sort(_pairs(lists), axis=1), axis=0, return_inverse=True)
    distances = np.zeros(len(pairs))
    distances[inverse] = lists.lengths
    least = MIN_PATCH_SHARE * distances / np.sqrt(gaussians.noise)
    if kind == "hellinger":
        least = np.minimum(least, 1.0)
    lengths = np.maximum(gaussians.lengths(pairs, kind), least)
    return np.where(lists.lengths > 0, lengths[inverse], 0.0)


def _pairs(graph: NeighborGraph) -> IntArray:
    return np.column_stack([graph.rows(), graph.indices]).astype(np.int64)


def _nearest_by(lists: NeighborGraph, lengths: FloatArray, n_neighbors: int | str | None) -> Array:
    """Return which listed neighbors are the nearest of their rows; all of them for a radius."""
    if n_neighbors is None:
        return np.ones(lists.n_edges, dtype=bool)
    rows = lists.rows()
    order = np.lexsort((lists.indices, lists.lengths, lengths, rows))
    chosen = np.zeros(lists.n_edges, dtype=bool)
    chosen[order] = np.arange(lists.n_edges) - lists.indptr[rows] < int(n_neighbors)
    return chosen


# Edges weighted by local linearity: an edge that leaves the tangent planes at its ends counts longer.

N_TANGENT_ROUNDS = 3
"""Rounds of tangent planes: planes tilted by an edge to the next sheet improve once that edge counts longer."""
PLANARITY_POWER = 4
"""Power of the cosines that divides a distance. With 12 neighbors, 1 of 4 rolls of 300 points unfolds with the second
power, and all with the fourth; with the sixth, edges along the curved sheet become too long."""
MIN_PLANARITY = 0.01  # Least divisor of a distance: an edge across a gap counts at most a hundredfold


def linearity_lengths(X: Array, lists: NeighborGraph, dimension: int, run: Run) -> FloatArray:
    r"""Return lengths :math:`\|x_i - x_j\| / (\cos\theta_i \cos\theta_j)^4` of listed edges, by angles to both planes.

    Along a flat sheet they are distances; an edge perpendicular to it is nearly removed (saxena2004, carey2014).
    """
    graph = reweighted = symmetrize(lists)
    with run.stage("local linearity"):
        for _ in range(N_TANGENT_ROUNDS):
            planes = tangent_planes(X, reweighted, min(dimension, X.shape[1]))
            reweighted = replace(graph, lengths=graph.lengths / _planarity(X, graph, planes))
    return lists.lengths / _planarity(X, lists, planes)


def _planarity(X: Array, graph: NeighborGraph, planes: FloatArray) -> FloatArray:
    """Return the power of the product of both cosines of each edge."""
    squares = 1.0 - np.square(plane_sines(X, _pairs(graph), planes))
    return np.maximum(squares.prod(axis=1) ** (PLANARITY_POWER / 2), MIN_PLANARITY)


# Edges that jump from one sheet of a surface to another.

N_TANGENT_NEIGHBORS = 6
"""Nearest neighbors that span a tangent plane: with 8, more of them lie on the next sheet of sparse rolls."""
CROSSING_SINE = 0.4
"""Mean sine of an edge to the tangent planes at its ends from which it is suspect. On rolls of 300 points 99 % of the
edges along the sheet have less, and 97 % of those to the next sheet more; the others are detected in the next round, by
better planes. Of 144 such rolls 2 keep edges between sheets, and 12 lose a few along the sheet."""
MIN_CROSSING_DETOUR = 4.0
"""Detour of a suspect edge, relative to its length, from which it is removed: 5 to 14 between sheets of a roll."""

MAX_CROSSING_ROUNDS = 4
MAX_SUSPECT_SHARE = 0.2
"""Share of suspect edges beyond which the points are not a surface of that dimension, and no edge is removed."""
FARTHEST_WEIGHT = 0.05  # weight of the farthest neighbor in the tangent plane; the point itself would have 1


def without_off_surface_edges(
    X: Array, graph: NeighborGraph, dimension: int, run: Run, sine: float = CROSSING_SINE
) -> NeighborGraph:
    """Return a symmetric graph without steep edges (mean sine above ``sine``) whose detour is much longer.

    All are removed together, as a bundle hides each other, and those with a short detour, or none, are restored.
    """
    mask = np.ones(graph.n_edges, dtype=bool)
    with run.stage("crossings"):
        for _ in range(MAX_CROSSING_ROUNDS):
            planes = tangent_planes(X, graph.with_edges_where(mask), dimension)
            sines = plane_sines(X, _pairs(graph), planes).mean(axis=1)
            steep = np.where(graph.lengths > 0, sines, 0.0) > sine
            if steep.mean() > MAX_SUSPECT_SHARE:
                return graph
            updated = ~_with_long_detours(graph, steep)
            if np.array_equal(updated, mask):
                break
            mask = updated
    return graph.with_edges_where(mask)


def tangent_planes(X: Array, graph: NeighborGraph, dimension: int) -> FloatArray:
    """Return orthonormal columns (n, D, d), zero beyond the rank, of the principal planes of weighted neighbors."""
    n, width = graph.n_points, X.shape[1]
    slots = np.arange(N_TANGENT_NEIGHBORS)
    listed = slots < graph.degrees[:, None]
    nearest = np.lexsort((graph.lengths, graph.rows()))
    edges = nearest[np.where(listed, graph.indptr[:-1, None] + slots, 0)]
    lengths = np.where(listed, graph.lengths[edges], 0.0)
    farthest = np.maximum(lengths.max(axis=1, keepdims=True), np.finfo(float).tiny)
    weights = np.sqrt(np.where(listed, 1 - (1 - FARTHEST_WEIGHT) * (lengths / farthest) ** 2, 0.0))
    planes = np.zeros((n, width, dimension))
    step = max(1, MAX_STACK_ENTRIES // (N_TANGENT_NEIGHBORS * width))
    for lo in range(0, n, step):
        block = slice(lo, lo + step)
        rows = weights[block, :, None] * (X[graph.indices[edges[block]]] - X[block, None])
        _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
        significant = sizes[:, :dimension] ** 2 > TANGENT_RANK_TOL * sizes[:, :1] ** 2
        planes[block, :, : significant.shape[1]] = (axes[:, :dimension] * significant[:, :, None]).transpose(0, 2, 1)
    return planes


def plane_sines(X: Array, pairs: IntArray, planes: FloatArray) -> FloatArray:
    """Return the sines (m, 2) of edges (m, 2) to the planes at their ends; 0 for edges of length 0."""
    sines = np.zeros(pairs.shape)
    step = max(1, MAX_STACK_ENTRIES // (X.shape[1] * planes.shape[2]))
    for lo in range(0, len(pairs), step):
        block = pairs[lo : lo + step]
        differences = X[block[:, 1]] - X[block[:, 0]]
        squares = np.maximum(np.square(differences).sum(axis=1), np.finfo(float).tiny)
        for end in (0, 1):
            within = np.square(np.einsum("ed,edk->ek", differences, planes[block[:, end]])).sum(axis=1)
            sines[lo : lo + step, end] = np.sqrt(np.maximum(1 - within / squares, 0.0))
    return sines


def _with_long_detours(graph: NeighborGraph, steep: Array) -> Array:
    """Return which of the steep edges have a long detour when all of them are removed."""
    # Restoring an edge shortens the detours of others, so the test is repeated until nothing changes.
    removed = steep.copy()
    pairs = _pairs(graph)
    while removed.any():
        suspects = np.flatnonzero(removed)
        remaining = graph.with_edges_where(~removed)
        limit = MIN_CROSSING_DETOUR * graph.lengths[suspects]
        detours = detour_lengths(remaining, pairs[suspects], limit, Run(0, 1))
        _, labels = connected_components(remaining.to_sparse(), directed=False)
        restored = (detours <= limit) | _reconnecting(labels[pairs[suspects]], graph.lengths[suspects])
        if not restored.any():
            break
        removed[suspects[restored]] = False
    return removed


def _reconnecting(labels: IntArray, lengths: FloatArray) -> Array:
    """Return the shortest edges, given by the components (m, 2) of their ends, that connect all of them."""
    count, ends = int(labels.max()) + 1, np.sort(labels, axis=1)
    couples, couple = np.unique(ends[:, 0] * count + ends[:, 1], return_inverse=True)
    shortest = np.full(len(couples), np.inf)
    np.minimum.at(shortest, couple, lengths)
    different = couples // count != couples % count
    # Ranks replace lengths, because a sparse tree needs positive ones.
    ranks = np.argsort(np.argsort(shortest, kind="stable")) + 1.0
    positions = (couples[different] // count, couples[different] % count)
    tree = minimum_spanning_tree(coo_array((ranks[different], positions), shape=(count, count)).tocsr())
    return (np.isin(ranks, tree.data)[couple]) & (lengths == shortest[couple])


# Distances between neighborhoods: divergences of the Gaussians of a point and its neighbors.

MAX_PATCH_NEIGHBORS = 30  # most neighbors of a patch: hundreds, as a radius may list, carry no more information
PATCH_SHRINKAGE = 0.1
"""Variance added in every direction, relative to that of the patches. From 0.01 to 10 labels of neighbors agree about
as often on six real sets; 0.1 is best or nearly so on each."""
DIVERGENCE_ROUNDING = 200 * float(np.finfo(float).eps)
"""Divergences below this share of their terms are rounding and count as 0."""


@dataclass(frozen=True)
class LocalGaussians:
    r"""The Gaussian :math:`N(\mu_i, C_i + \sigma^2 I)` of every patch (levada2023, tipping1999).

    :math:`\sigma^2`, the ``noise`` of all patches, is their median of :math:`\mathrm{tr}\, C_i^2 / \mathrm{tr}\, C_i`,
    the mean of their variances weighted by these, times ``shrinkage``. So a divergence depends on the span of two
    patches alone, however many features there are, and is computed from the inner products of their members by
    Woodbury's formula and the determinant lemma, from rows or distances.

    ``X`` (n, D) may be sparse; if ``pairwise`` it has the distances (n, n). ``members`` (n, p) are a point and its
    neighbors; ``weights`` (n, p) sum to 1 and are 0 where they pad short lists. ``axes`` (n, p, r) and ``variances``
    (n, r) are the eigenvectors and eigenvalues of the inner products of the weighted members of every patch.
    """

    X: Any
    members: IntArray
    weights: FloatArray
    noise: float
    axes: FloatArray
    variances: FloatArray
    pairwise: bool = False

    @classmethod
    def of(
        cls, X: Any, lists: NeighborGraph, run: Run, pairwise: bool = False, shrinkage: float = PATCH_SHRINKAGE
    ) -> LocalGaussians:
        """Return the Gaussians of a directed graph whose rows are in ascending order of distance."""
        slots = np.arange(min(int(lists.degrees.max(initial=0)), MAX_PATCH_NEIGHBORS))
        centers, listed = np.arange(lists.n_points)[:, None], slots < lists.degrees[:, None]
        nearest = lists.indices[np.where(listed, lists.indptr[:-1, None] + slots, 0)]
        members = np.column_stack([centers, np.where(listed, nearest, centers)])
        listed = np.column_stack([np.ones(len(centers), dtype=bool), listed])
        weights = listed / listed.sum(axis=1, keepdims=True)
        model = cls(X, members, weights, 1.0, np.empty((0, 0, 0)), np.empty((0, 0)), pairwise)
        with run.stage("local Gaussians"):
            axes, variances = model._principal()
        total = variances.sum(axis=1)
        positive = total > 0
        size = np.square(variances[positive]).sum(axis=1) / total[positive]
        # If all neighbors are copies, any variance gives lengths that are distances.
        noise = shrinkage * float(np.median(size)) if positive.any() else 1.0
        return replace(model, noise=noise, axes=axes, variances=variances)

    def _principal(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvectors (n, p, r) and eigenvalues (n, r) of the inner products of the patches' members."""
        n, p = self.members.shape
        rank = p - 1 if self.pairwise else min(p - 1, self.X.shape[1])
        axes, variances = np.empty((n, p, rank)), np.empty((n, rank))
        for block in self._blocks(n):
            values, vectors = np.linalg.eigh(self._between(block, block)[0])
            axes[block], variances[block] = vectors[:, :, p - rank :], np.maximum(values[:, p - rank :], 0.0)
        return axes, variances

    def lengths(self, pairs: IntArray, kind: PatchDivergence) -> FloatArray:
        """Return the lengths between the patches of pairs (m, 2) of points."""
        lengths = np.empty(len(pairs))
        for block in self._blocks(len(pairs)):
            a, b = pairs[block].T
            cross, toward_a, toward_b, gap = self._between(a, b)
            U, V = self.axes[a], self.axes[b]
            # In the principal axes B = A' U of both patches, scaled by their standard deviations.
            shared = U.transpose(0, 2, 1) @ cross @ V
            along = (np.einsum("epr,ep->er", U, toward_a), np.einsum("epr,ep->er", V, toward_b))
            pair = PatchPair(self.variances[a], self.variances[b], shared, *along, gap, self.noise)
            lengths[block] = pair.length(kind)
        return lengths

    def _blocks(self, count: int) -> list[IntArray]:
        p = self.members.shape[1]
        step = max(1, MAX_STACK_ENTRIES // (2 * p * max(p, 1 if self.pairwise else self.X.shape[1])))
        return [np.arange(lo, min(lo + step, count)) for lo in range(0, count, step)]

    def _between(self, a: IntArray, b: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return inner products of two patches' members, those with the difference of their means, and its square."""
        if self.pairwise:
            return self._between_by_distances(a, b)
        rows, means = [], []
        for patches in (a, b):
            members, weights = gather(self.X, self.members[patches]), self.weights[patches]
            mean = np.einsum("ep,epd->ed", weights, members)
            rows.append(np.sqrt(weights)[:, :, None] * (members - mean[:, None]))
            means.append(mean)
        difference = means[1] - means[0]
        along = [np.einsum("epd,ed->ep", centered, difference) for centered in rows]
        return rows[0] @ rows[1].transpose(0, 2, 1), along[0], along[1], np.square(difference).sum(axis=1)

    def _between_by_distances(self, a: IntArray, b: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the results of `_between` from distances alone."""
        across, inside, outside = (
            -0.5 * np.asarray(self.X[first[:, :, None], second[:, None, :]], dtype=np.float64) ** 2
            for first, second in ((self.members[i], self.members[j]) for i, j in ((a, b), (a, a), (b, b)))
        )
        w, v = self.weights[a], self.weights[b]
        rows, columns = np.einsum("epq,eq->ep", across, v), np.einsum("epq,ep->eq", across, w)
        mean = np.einsum("ep,ep->e", rows, w)
        cross = across - rows[:, :, None] - columns[:, None, :] + mean[:, None, None]
        toward_a = rows - np.einsum("epq,eq->ep", inside, w)
        toward_b = np.einsum("epq,eq->ep", outside, v) - columns
        toward_a -= np.einsum("ep,ep->e", toward_a, w)[:, None]
        toward_b -= np.einsum("ep,ep->e", toward_b, v)[:, None]
        within = np.einsum("epq,ep,eq->e", inside, w, w) + np.einsum("epq,ep,eq->e", outside, v, v)
        p, q = np.sqrt(w), np.sqrt(v)
        return p[:, :, None] * cross * q[:, None, :], p * toward_a, q * toward_b, np.maximum(within - 2 * mean, 0.0)


@dataclass(frozen=True)
class PatchPair:
    r"""Pairs of Gaussians :math:`N(\mu, B B^T + \sigma^2 I)` by the terms of their divergences.

    ``first`` and ``second`` (m, r) are squared lengths of the orthogonal columns of :math:`B_i` and :math:`B_j`,
    ``shared`` (m, r, r) is :math:`B_i^T B_j`, ``along_first`` and ``along_second`` (m, r) are :math:`B_i^T (\mu_j -
    \mu_i)` and :math:`B_j^T (\mu_j - \mu_i)`, ``gap`` (m,) is :math:`\|\mu_j - \mu_i\|^2`, ``noise`` is
    :math:`\sigma^2`.
    """

    first: FloatArray
    second: FloatArray
    shared: FloatArray
    along_first: FloatArray
    along_second: FloatArray
    gap: FloatArray
    noise: float

    def length(self, kind: PatchDivergence) -> FloatArray:
        r"""Return lengths, whose squares are divergences, as the squares of distances are.

        "kl" is :math:`\sqrt{KL(i \| j) + KL(j \| i)}`, "bhattacharyya" :math:`\sqrt{B}` and "hellinger"
        :math:`\sqrt{1 - e^{-B}}`. With equal covariances S the first is Mahalanobis' distance
        :math:`\sqrt{\Delta\mu^T S^{-1} \Delta\mu}`, and the second that over :math:`\sqrt 8`.
        """
        squares = self.symmetric_kl() if kind == "kl" else self.bhattacharyya()
        terms = (self.first.sum(axis=1) + self.second.sum(axis=1) + self.gap) / self.noise
        squares = np.where(squares > DIVERGENCE_ROUNDING * (1.0 + terms), squares, 0.0)
        return np.sqrt(-np.expm1(-squares) if kind == "hellinger" else squares)

    def symmetric_kl(self) -> FloatArray:
        r"""Return :math:`KL(i \| j) + KL(j \| i)`, by Woodbury's formula; the determinants cancel."""
        s = self.noise
        a, b = 1.0 / (self.first + s), 1.0 / (self.second + s)
        squares = np.square(self.shared)
        traces = (self.first.sum(axis=1) - np.einsum("es,ers->e", b, squares)) / s - (self.second * b).sum(axis=1)
        traces += (self.second.sum(axis=1) - np.einsum("er,ers->e", a, squares)) / s - (self.first * a).sum(axis=1)
        explained = (a * self.along_first**2).sum(axis=1) + (b * self.along_second**2).sum(axis=1)
        return 0.5 * (traces + (2 * self.gap - explained) / s)

    def bhattacharyya(self) -> FloatArray:
        r"""Return :math:`B = \frac18 \Delta\mu^T S^{-1} \Delta\mu + \frac12 \ln \frac{|S|}{\sqrt{|S_i| |S_j|}}`.

        With :math:`W = (B_i, B_j) / \sqrt 2` it is :math:`S = \sigma^2 I + W W^T`.
        """
        m, r = self.first.shape
        K = np.empty((m, 2 * r, 2 * r))
        K[:, :r, :r] = self.first[:, :, None] * np.eye(r)
        K[:, r:, r:] = self.second[:, :, None] * np.eye(r)
        K[:, :r, r:], K[:, r:, :r] = self.shared, self.shared.transpose(0, 2, 1)
        K = K / (2 * self.noise) + np.eye(2 * r)
        along = np.concatenate([self.along_first, self.along_second], axis=1) / np.sqrt(2.0)
        explained = (along * np.linalg.solve(K, along[:, :, None])[:, :, 0]).sum(axis=1) / self.noise
        logs = np.log1p(self.first / self.noise).sum(axis=1) + np.log1p(self.second / self.noise).sum(axis=1)
        return (self.gap - explained) / (8 * self.noise) + 0.5 * (np.linalg.slogdet(K)[1] - 0.5 * logs)
