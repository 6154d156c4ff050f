"""Tesserae placed with the largest stretch: over all Gram matrices where there are few, in low rank where many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import Array, Certificate, FloatArray, IntArray, NeighborGraph, Stop, Trace
from manifoldry._numerics.patches.atlas import MAX_SURFACE_RESIDUAL
from manifoldry._numerics.patches.charts import Charts, fit_charts, layout_kind
from manifoldry._numerics.patches.cover import Membership, find_cells
from manifoldry._numerics.patches.layout import MAX_PATCH_DIMENSION, MIN_ISOMAP_GAIN
from manifoldry._numerics.patches.overlaps import find_overlaps, stitch
from manifoldry._numerics.patches.restarts import Contradiction
from manifoldry._numerics.patches.rigid import RigidPatches
from manifoldry._numerics.ranks import most_trusted
from manifoldry._numerics.scaling import landmark_scaling, place_columns, principal_turn
from manifoldry._numerics.semidefinite import FrameLayout, PairDistances, PairStretch, StretchOptions, stretch_out
from manifoldry._numerics.semidefinite.barrier_path import Stretched
from manifoldry._numerics.semidefinite.certificate import ERROR_CLAIM, STRETCH_CLAIM, STRETCH_NOISE
from manifoldry._numerics.semidefinite.interior import GramSolution, unfold_gram
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import label_pieces

BORDER_PAIR_FACTOR = 3
"""Distances kept between two tesserae, as a multiple of r squared. With r squared of them tesserae are hinges: the
stretch opens a sector of a cone, with rigid errors of 0.03 to 0.19 instead of 0.01."""

MAX_BORDER_PAIRS = 1500
"""Maximum number of border distances with the default number of each border: 12 of each of 100 tesserae would be 3,000
and take ten times as long. Fewer hold tesserae as hinges do, which matters less where they are many."""

MAX_GRAM_LENGTHS = 3000
"""Border distances and entries of frames up to which all Gram matrices are searched: the work of a step is a dense
factorization of that order. 100 tesserae of a surface have 1,300."""

WIDE_CLAIM = "the stretch in all dimensions (not the layout, which was laid flat after it)"
WIDE_ERROR_CLAIM = "the squared error of the kept distances in all dimensions (not of the layout, which was laid flat)"

SURFACE_SLACK, OTHER_SLACK = 1e-3, 1e-2
"""Half-width of the bands of border distances: of a surface, which 1e-2 lets open as few distances do, and of other
data, whose distances contradict each other: with 1e-3 trustworthiness on Frey faces is 0.83 instead of 0.88."""

INNER_SLACK_SHARE = 0.998
"""Share of the slack that the program is solved with: when frames are made orthonormal to rounding every border
distance is then still within the whole slack, for which the bound is."""

INNER_TOL_SHARE = 0.5
"""Share of the tolerance at which the program ends; the rest is for the smaller slack."""

N_EXTRA_DIMENSIONS = 2
"""Dimensions beyond those of the tesserae in which more of them are placed at the most, where `max_rank` says nothing:
84 tesserae of cities take 7 s in one more, 9 in two and 17 in three. Fewer are used where the dual asks for no more."""

MAX_FLAT_ERROR_RATIO = 5.0
"""Maximum error of the border distances of tesserae laid flat, relative to that in all dimensions: 2 to 4 on noisy
rolls that are unfolded, 100 and more on a cone where the descent in two dimensions ends at a wrong layout."""

MIN_FLAT_CONTRADICTION = 0.005
"""Contradiction (see `patches.restarts`) from which on tesserae are laid flat: up to 0.004 on rolls and S-curves of 300
to 1,000 points with little noise or none, none of which became better; 0.01 and more on noisy ones that did."""

MIN_VARIANCE_USED = 1e-4
"""Share of the variance from which on a dimension counts in the rank: the central path leaves every one a little, in
proportion to the gap."""


@dataclass(frozen=True)
class Tessellation:
    """Tesserae of given labels and charts, placed by ``stretched``; and how many pairs were kept and stretched.

    The ``graph`` is that whose edges across borders were kept. ``flat`` has frames and shifts in n_components
    dimensions, which replace those of ``stretched`` if there are any: see `laid_flat`.
    """

    graph: NeighborGraph
    labels: IntArray
    tesserae: RigidPatches
    charts: Charts
    stretched: Stretched
    n_border_pairs: int
    n_far_pairs: int
    flat: Stretched | None = None

    @property
    def residuals(self) -> FloatArray:
        """Distance of each tessera's points from its chart, relative to its spread."""
        return self.charts.residuals

    @property
    def placed(self) -> Stretched:
        """The tesserae as they are returned: laid flat, or in all dimensions of the largest stretch."""
        return self.flat or self.stretched

    @property
    def notes(self) -> dict[str, Any]:
        """What a fit notes of it."""
        return {
            "border_pairs": self.n_border_pairs,
            "pairs": self.n_far_pairs,
            "residuals": self.residuals,
            "patch_components": self.tesserae.f.shape[1],
            "flattened": self.flat is not None,
            "layout": layout_kind(self.charts),
        }

    def images(self, n_components: int) -> FloatArray:
        """Return the points in all dimensions used, and at least so many."""
        placed = np.asarray(self.tesserae.images @ self.placed.V)
        return np.pad(placed, ((0, 0), (0, max(n_components - placed.shape[1], 0))))

    def coordinates(self, n_components: int) -> FloatArray:
        """Return the points in their first principal axes."""
        return principal_turn(self.images(n_components))[0][:, :n_components]


@dataclass(frozen=True)
class TessellationOptions:
    """How tesserae are laid and placed.

    The dimension of the embedding and the maximum one of tesserae, the kind of their charts, how many distances between
    two of them are kept and how many in all are stretched; the half-width of the bands of those kept, the relative gap
    at which to stop and, if it is limited, the maximum dimension before the projection.
    """

    n_components: int
    width: int
    chart: str
    n_border_pairs: int | None
    n_pairs: int
    slack: float | None
    tol: float
    max_rank: int | None

    def slack_of(self, charts: Charts) -> float:
        """Return the half-width of the bands of the border distances."""
        return self.slack if self.slack is not None else SURFACE_SLACK if _of_surface(charts) else OTHER_SLACK

    def pairs_per_border(self, graph: NeighborGraph, labels: IntArray, charts: Charts) -> int:
        """Return the maximum number of distances that are kept between two tesserae.

        Of data that is not a surface more contradict each other, and lock the tesserae together.
        """
        if self.n_border_pairs is not None:
            return self.n_border_pairs
        if not _of_surface(charts):
            return self.n_components**2
        i, j = labels[graph.rows()], labels[graph.indices]
        borders = len(np.unique((i * len(labels) + j)[i < j]))
        least = self.n_components**2
        return max(least, min(BORDER_PAIR_FACTOR * least, MAX_BORDER_PAIRS // max(borders, 1)))


def place_tesserae(
    X: FloatArray, graph: NeighborGraph, labels: IntArray, options: TessellationOptions, run: Run
) -> Tessellation:
    """Return the tesserae of given labels, placed with the largest stretch."""
    tesserae, charts = lay_tesserae(X, labels, options.width, options.chart, run)
    borders = border_pairs(X, graph, labels, options.pairs_per_border(graph, labels, charts))
    far = far_pairs(X, graph, labels, options.n_pairs, run)
    rank = max(options.n_components, tesserae.f.shape[1])
    few = count_lengths(tesserae, borders) <= MAX_GRAM_LENGTHS and options.max_rank is None
    limits = StretchOptions(options.tol, options.slack_of(charts), options.max_rank or rank + N_EXTRA_DIMENSIONS)
    with run.stoppable():
        if not len(borders):
            stretched = whole(tesserae, geodesic_start(tesserae, graph, rank, run), options.tol)
        elif few:
            stretched = tessellate(tesserae, borders, far, limits, run)
        # Rounding may end an interior-point method before it has an answer.
        if len(borders) and not run.stopped and (not few or stretched.certificate.verdict == "bound only"):
            start = geodesic_start(tesserae, graph, rank, run)
            stretched = tessellate_in_low_rank(tesserae, borders, far, start, limits, run)
    return Tessellation(graph, labels, tesserae, charts, stretched, len(borders), len(far))


def wider_tessellation(
    X: FloatArray, graph: NeighborGraph, dimension: int, options: TessellationOptions, run: Run
) -> Tessellation:
    """Return tesserae of the data's own dimension, or one of all points (PCA or Isomap) if that keeps neighbors better.

    PCA is returned if it keeps them as well.
    """
    r, n = options.n_components, len(X)
    width = min(max(dimension, r), MAX_PATCH_DIMENSION, X.shape[1], n - 1)
    wide = replace(options, width=width, chart="flat")
    one = np.zeros(n, dtype=np.int64)
    kinds = (one, wide), (wide_labels(X, graph, width, run), wide), (one, replace(options, chart="isomap"))
    *found, paths = (place_tesserae(X, graph, labels, these, run) for labels, these in kinds)
    best = found[most_trusted(X, [these.coordinates(r) for these in found], run)]
    pair = [best.coordinates(r), paths.coordinates(r)]
    return (best, paths)[most_trusted(X, pair, run, gain=MIN_ISOMAP_GAIN)]


def laid_flat(
    X: FloatArray, found: Tessellation, options: TessellationOptions, measure: Contradiction, run: Run
) -> Tessellation:
    """Return the tessellation in n_components dimensions, if it uses more and is contradicted less when laid flat.

    Distances across borders contradict each other where points are noisy. In more dimensions they are kept better by
    tesserae that are tilted against each other, whose projection is too short: by a tenth to a third on noisy rolls.
    Here the same program is solved in n_components dimensions, from tesserae stitched at their borders.
    """
    r, slack = options.n_components, options.slack_of(found.charts)
    surface = found.tesserae.f.shape[1] <= r and _of_surface(found.charts)
    if not surface or options.max_rank is not None or found.stretched.certificate.rank <= r or run.stopped:
        return found
    contradiction = measure(found.coordinates(r))
    if contradiction < MIN_FLAT_CONTRADICTION:
        return found
    most = options.pairs_per_border(found.graph, found.labels, found.charts)
    borders = border_pairs(X, found.graph, found.labels, most)
    far = far_pairs(X, found.graph, found.labels, options.n_pairs, run)
    start = stitched_start(X, found.tesserae, found.charts, found.graph, r, run)
    if start is None:
        return found
    limits = StretchOptions(options.tol, slack, r, near=True)
    with run.stoppable():
        flat = replace(found, flat=tessellate_in_low_rank(found.tesserae, borders, far, start, limits, run))
    fits = flat.placed.error <= max(MAX_FLAT_ERROR_RATIO * found.stretched.error, slack**2)
    if not fits or measure(flat.coordinates(r)) >= contradiction:
        return found
    wide = found.stretched
    stretch, error = replace(wide.certificate, claim=WIDE_CLAIM), wide.error_certificate
    error = replace(error, claim=WIDE_ERROR_CLAIM)
    return replace(flat, stretched=replace(wide, certificate=stretch, error_certificate=error))


def _of_surface(charts: Charts) -> bool:
    """Tell whether tesserae of more than single points are flat enough to pass for a surface."""
    return bool(charts.sizes.any() and np.median(charts.residuals) <= MAX_SURFACE_RESIDUAL)


def count_lengths(pieces: RigidPatches, borders: PairDistances) -> int:
    """Return the number of border distances and of entries of all frames' Gram matrices."""
    sizes = pieces.layout.sizes
    return len(borders) + int((sizes * (sizes + 1) // 2).sum())


def tessellate(
    pieces: RigidPatches, borders: PairDistances, far: PairDistances, options: StretchOptions, run: Run
) -> Stretched:
    r"""Return the tessellation of maximal variance with border distances kept as well as possible (3.18), in any rank.

    Maximizes the mean of :math:`|y_i - y_j|^2/\tau_{ij}^2` over the ``far`` pairs, with the same numbers of the
    ``borders`` at one: first with the least error, then the most stretch. The Gram matrix B (3.12) of all frames and
    shifts is the unknown of `unfold_gram`. Its blocks :math:`R_\ell^\top R_\ell = I` are lengths too, of the rows
    :math:`e_a` and :math:`(e_a + e_b)/\sqrt2`, which have to be 1. All tesserae may move together, so that the first
    stays where it is. The certificate is of orthonormal frames in all dimensions; those returned are the nearest in the
    dimensions that count.
    """
    layout, images, slack = pieces.layout, pieces.images, INNER_SLACK_SHARE * options.slack
    frames, across = frame_rows(layout), borders.matrix(images)
    rows = sp.csr_array(sp.vstack([across, frames]))
    run.announce(f"multipliers of {rows.shape[0]} lengths", 24 * rows.shape[0] ** 2, "use fewer patches")
    hard = np.arange(rows.shape[0]) >= len(borders)
    placed = np.delete(np.arange(layout.n_rows), layout.n_frame_rows)
    W, tol = _mean_stretch(pieces, far).matrix.toarray(), INNER_TOL_SHARE * options.tol
    basis = sp.eye_array(layout.n_rows, format="csr")[:, placed]
    found = unfold_gram(W, rows, run, slack=slack, tol=tol, hard=hard, basis=basis)
    turned, rank = _principal(found.root, images)
    V = layout.orthonormal(turned)
    lengths = np.square(across @ V).sum(axis=1)
    used = max(rank, layout.max_size)
    return Stretched(
        layout.orthonormal(turned[:, :used]),
        _certificate(found, V, W, lengths, rank, options),
        Trace(found.objective, found.stop),
        found.multipliers[: len(borders)],
        float(np.mean((lengths - 1) ** 2)),
        found.error_certificate(rank, options.tol, slack),
    )


def tessellate_in_low_rank(
    pieces: RigidPatches,
    borders: PairDistances,
    far: PairDistances,
    start: FloatArray,
    options: StretchOptions,
    run: Run,
) -> Stretched:
    """Return the same of many tesserae, in as many dimensions as the dual asks for, up to a maximum."""
    with one_blas_thread():
        bands = borders.bands(options.slack, pieces.images)
        return stretch_out(_mean_stretch(pieces, far), bands, pieces.layout, start, options, run)


def whole(pieces: RigidPatches, start: FloatArray, tol: float) -> Stretched:
    """Return a single tessera, or several without borders, where they are."""
    rank = pieces.layout.max_size
    stretch, error = (Certificate(0.0, 0.0, rank, claim, tol) for claim in (STRETCH_CLAIM, ERROR_CLAIM))
    return Stretched(start, stretch, Trace(np.zeros(1), Stop.CONVERGED), np.zeros(0), 0.0, error)


def frame_rows(layout: FrameLayout) -> sp.csr_array:
    r"""Return rows of V whose squared lengths are all 1 just where all frames are orthonormal.

    The a-th of a frame, and :math:`(e_a + e_b)/\sqrt2` of two.
    """
    first, second = [], []
    for _, rows in layout.groups:
        a, b = np.tril_indices(rows.shape[1])
        first.append(rows[:, a].ravel())
        second.append(rows[:, b].ravel())
    i, j = (np.concatenate(these) if these else np.empty(0, dtype=np.int64) for these in (first, second))
    order = np.arange(len(i))
    share = np.where(i == j, 0.5, np.sqrt(0.5))
    entries = (np.concatenate([share, share]), (np.concatenate([order, order]), np.concatenate([i, j])))
    return sp.csr_array(entries, shape=(len(i), layout.n_rows))


def _mean_stretch(pieces: RigidPatches, far: PairDistances) -> PairStretch:
    apart = far.matrix(pieces.images)
    return PairStretch(sp.csr_array(apart.T @ apart / len(far)))


def _principal(root: FloatArray, images: sp.csr_array) -> tuple[FloatArray, int]:
    """Return frames and shifts in the principal axes of the points, the longest first, and how many axes count."""
    mean = np.asarray(images.sum(axis=0)) @ root / images.shape[0]
    scatter = root.T @ ((images.T @ images) @ root) / images.shape[0] - np.outer(mean, mean)
    values, axes = np.linalg.eigh(scatter)
    return np.asarray(root @ axes[:, ::-1]), max(1, int((values > MIN_VARIANCE_USED * values.sum()).sum()))


def _certificate(
    found: GramSolution, V: FloatArray, W: FloatArray, lengths: FloatArray, rank: int, options: StretchOptions
) -> Certificate:
    """Return the certificate of orthonormal frames, with the bound of the whole slack."""
    count, stretch = len(lengths), float(np.vdot(V, W @ V))
    added = (1 - INNER_SLACK_SHARE) * options.slack
    bound = found.bound + added * float(np.abs(found.multipliers[:count]).sum())
    beyond = np.abs(lengths - found.center[:count]) - options.slack
    violation = max(float(beyond.max()), 0.0)
    return Certificate(-stretch, -bound, rank, STRETCH_CLAIM, options.tol, STRETCH_NOISE * stretch, violation)


# Tesserae: clusters as rigid patches, the pairs of points that hold them together and those to be stretched apart.

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
