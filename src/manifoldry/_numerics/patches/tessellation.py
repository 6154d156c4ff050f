"""Tesserae aligned with the largest stretch: over all Gram matrices if there are few, in low rank if many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Array, Certificate, FloatArray, IntArray, NeighborGraph, Stop, Trace
from manifoldry._numerics.extension.components import padded
from manifoldry._numerics.patches.atlas import MAX_SURFACE_RESIDUAL
from manifoldry._numerics.patches.charts import Charts, fit_charts, layout_kind
from manifoldry._numerics.patches.cover import Membership, find_cells
from manifoldry._numerics.patches.layout import MAX_PATCH_DIMENSION, MIN_ISOMAP_GAIN
from manifoldry._numerics.patches.overlaps import find_overlaps, stitch
from manifoldry._numerics.patches.restarts import InconsistencyScore, reconnected
from manifoldry._numerics.patches.rigid import RigidPatches
from manifoldry._numerics.ranks import most_trustworthy
from manifoldry._numerics.scaling import embed_from_landmarks, landmark_scaling, principal_rotation
from manifoldry._numerics.semidefinite.barrier_path import Stretched, StretchOptions, stretch_out
from manifoldry._numerics.semidefinite.certificate import ERROR_CLAIM, STRETCH_CLAIM, STRETCH_NOISE
from manifoldry._numerics.semidefinite.frames import FrameLayout, Stretch
from manifoldry._numerics.semidefinite.interior import GramSolution, unfold_gram
from manifoldry._numerics.semidefinite.pairs import PairDistances
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import label_components

BORDER_PAIR_FACTOR = 3
"""Distances kept between two tesserae, as a multiple of r squared: with fewer, tesserae are hinges."""
MAX_BORDER_PAIRS = 1500
"""Most border distances with the default number per border; hinges matter less where tesserae are many."""
MAX_GRAM_LENGTHS = 3000
"""Border distances and frame entries up to which all Gram matrices are searched: the order of dense systems."""
WIDE_CLAIM = "the stretch in all dimensions (not the layout, which was laid flat after it)"
WIDE_ERROR_CLAIM = "the squared error of the kept distances in all dimensions (not of the layout, which was laid flat)"
SURFACE_SLACK, OTHER_SLACK = 1e-3, 1e-2
"""Half-width of the bands of border distances, for a surface and for other data, whose distances conflict."""
INNER_SLACK_SHARE = 0.998
"""Share of the slack that the program uses, so that orthonormalizing the frames leaves distances within the slack."""
INNER_TOL_SHARE = 0.5  # share of the tolerance at which the program ends; the rest covers the smaller slack
N_EXTRA_DIMENSIONS = 2
"""Most dimensions beyond those of the tesserae, unless `max_rank` is given; fewer where the dual needs no more."""
MAX_FLAT_ERROR_RATIO = 5.0
"""Largest error of the border distances of flat tesserae, relative to that in all dimensions: 2 to 4 if unfolded."""
MIN_FLAT_INCONSISTENCY = 0.005  # Inconsistency from which tesserae are laid flat: surfaces below it did not improve
MIN_VARIANCE_USED = 1e-4
"""Share of the variance from which a dimension counts in the rank: the central path leaves a little in all."""


@dataclass(frozen=True)
class Tessellation:
    """Tesserae of given labels and charts, aligned by ``stretched``, with the pairs at borders and far pairs."""

    graph: NeighborGraph  # its edges across borders were kept
    labels: IntArray
    tesserae: RigidPatches
    charts: Charts
    stretched: Stretched
    borders: PairDistances
    far: PairDistances
    flat: Stretched | None = None  # replaces ``stretched``: see `laid_flat`

    @property
    def solution(self) -> Stretched:
        """The tesserae of the layout: laid flat, or in all dimensions of the largest stretch."""
        return self.flat or self.stretched

    @property
    def notes(self) -> dict[str, Any]:
        """The notes of a fit."""
        return {
            "border_pairs": len(self.borders),
            "pairs": len(self.far),
            "residuals": self.charts.residuals,
            "patch_components": self.tesserae.f.shape[1],
            "flattened": self.flat is not None,
            "layout": layout_kind(self.charts),
        }

    def images(self, n_components: int) -> FloatArray:
        """Return the points in all dimensions used, and at least n_components."""
        return padded(np.asarray(self.tesserae.images @ self.solution.V), n_components)

    def coordinates(self, n_components: int) -> FloatArray:
        """Return the points in their first principal axes."""
        return principal_rotation(self.images(n_components))[0][:, :n_components]


@dataclass(frozen=True)
class TessellationOptions:
    """Dimensions, charts, numbers of pairs and limits of a tessellation."""

    n_components: int
    width: int  # largest dimension of the charts
    chart: str  # their kind
    n_border_pairs: int | None  # pairs kept per border
    n_pairs: int  # pairs stretched
    slack: float | None  # half-width of the bands of kept distances
    tol: float  # relative gap at which to stop
    max_rank: int | None  # largest dimension before the projection

    def slack_of(self, charts: Charts) -> float:
        """Return the half-width of the bands of the border distances."""
        return self.slack if self.slack is not None else SURFACE_SLACK if _of_surface(charts) else OTHER_SLACK

    def pairs_per_border(self, graph: NeighborGraph, labels: IntArray, charts: Charts) -> int:
        """Return the most distances kept between two tesserae; without a surface more would conflict."""
        if self.n_border_pairs is not None:
            return self.n_border_pairs
        if not _of_surface(charts):
            return self.n_components**2
        i, j = labels[graph.rows()], labels[graph.indices]
        borders = len(np.unique((i * len(labels) + j)[i < j]))
        least = self.n_components**2
        return max(least, min(BORDER_PAIR_FACTOR * least, MAX_BORDER_PAIRS // max(borders, 1)))


def align_tesserae(
    X: FloatArray, graph: NeighborGraph, labels: IntArray, options: TessellationOptions, run: Run
) -> Tessellation:
    """Return the tesserae of given labels, aligned with the largest stretch."""
    tesserae, charts = lay_tesserae(X, labels, options.width, options.chart, run)
    borders = border_pairs(X, graph, labels, options.pairs_per_border(graph, labels, charts))
    far = far_pairs(X, graph, labels, options.n_pairs, run)
    rank = max(options.n_components, tesserae.f.shape[1])
    sizes = tesserae.layout.sizes
    n_lengths = len(borders) + int((sizes * (sizes + 1) // 2).sum())  # of borders, and of all frames' Gram matrices
    few = n_lengths <= MAX_GRAM_LENGTHS and options.max_rank is None
    limits = StretchOptions(options.tol, options.slack_of(charts), options.max_rank or rank + N_EXTRA_DIMENSIONS)
    with run.stoppable():
        if not len(borders):
            stretched = unstretched(tesserae, geodesic_start(tesserae, graph, rank, run), options.tol)
        elif few:
            stretched = tessellate(tesserae, borders, far, limits, run)
        # Rounding may end an interior-point method before it has an answer.
        if len(borders) and not run.stopped and (not few or stretched.certificate.verdict == "bound only"):
            start = geodesic_start(tesserae, graph, rank, run)
            stretched = tessellate_in_low_rank(tesserae, borders, far, start, limits, run)
    return Tessellation(graph, labels, tesserae, charts, stretched, borders, far)


def wider_tessellation(
    X: FloatArray, graph: NeighborGraph, dimension: int, options: TessellationOptions, run: Run
) -> Tessellation:
    """Return tesserae of the data's dimension, or one of all points (PCA or Isomap): what preserves neighbors best."""
    r, n = options.n_components, len(X)
    width = min(max(dimension, r), MAX_PATCH_DIMENSION, X.shape[1], n - 1)
    wide = replace(options, width=width, chart="flat")
    one = np.zeros(n, dtype=np.int64)
    count = max(1, min(MAX_WIDE_ROWS // (width + 1), n // (3 * (width + 1))))
    labels = connected_tesserae(find_cells(X, graph, count, width, run).labels, graph, width + 2)
    kinds = (one, wide), (labels, wide), (one, replace(options, chart="isomap"))
    *candidates, isomap = (align_tesserae(X, graph, labels, tessellation, run) for labels, tessellation in kinds)
    best = candidates[most_trustworthy(X, [tessellation.coordinates(r) for tessellation in candidates], run)]
    pair = [best.coordinates(r), isomap.coordinates(r)]
    return (best, isomap)[most_trustworthy(X, pair, run, gain=MIN_ISOMAP_GAIN)]


def laid_flat(
    X: FloatArray, tessellation: Tessellation, options: TessellationOptions, measure: InconsistencyScore, run: Run
) -> Tessellation:
    """Return the tessellation in n_components dimensions, if it uses more and is more consistent when laid flat.

    In more dimensions tilted tesserae keep conflicting distances better, but their projection is too short.
    """
    r, slack = options.n_components, options.slack_of(tessellation.charts)
    surface = tessellation.tesserae.f.shape[1] <= r and _of_surface(tessellation.charts)
    if not surface or options.max_rank is not None or tessellation.stretched.certificate.rank <= r or run.stopped:
        return tessellation
    score = measure(tessellation.coordinates(r))
    if score < MIN_FLAT_INCONSISTENCY:
        return tessellation
    tesserae, borders, far = tessellation.tesserae, tessellation.borders, tessellation.far
    start = _stitched_start(X, tesserae, tessellation.charts, tessellation.graph, r, run)
    if start is None:
        return tessellation
    limits = StretchOptions(options.tol, slack, r, near_optimum=True)
    with run.stoppable():
        flat = replace(tessellation, flat=tessellate_in_low_rank(tesserae, borders, far, start, limits, run))
    fits = flat.solution.error <= max(MAX_FLAT_ERROR_RATIO * tessellation.stretched.error, slack**2)
    if not fits or measure(flat.coordinates(r)) >= score:
        return tessellation
    wide = tessellation.stretched
    stretch = replace(wide.certificate, claim=WIDE_CLAIM)
    error = replace(wide.error_certificate, claim=WIDE_ERROR_CLAIM)
    return replace(flat, stretched=replace(wide, certificate=stretch, error_certificate=error))


def _of_surface(charts: Charts) -> bool:
    """Return whether tesserae of several points are flat enough to count as a surface."""
    return bool(charts.sizes.any() and np.median(charts.residuals) <= MAX_SURFACE_RESIDUAL)


def tessellate(
    tesserae: RigidPatches, borders: PairDistances, far: PairDistances, options: StretchOptions, run: Run
) -> Stretched:
    r"""Return the tessellation of maximal variance with border distances kept as well as possible (3.18), in any rank.

    Maximizes the mean of :math:`|y_i - y_j|^2/\tau_{ij}^2` over the ``far`` pairs, with the same numbers of the
    ``borders`` at one, over the Gram matrix B (3.12) of all frames and shifts; :math:`R_\ell^\top R_\ell = I` are
    lengths too (`frame_rows`). The first tessera is fixed, because all may move together.
    """
    layout, images, slack = tesserae.layout, tesserae.images, INNER_SLACK_SHARE * options.slack
    frames, across = frame_rows(layout), borders.matrix(images)
    rows = sp.csr_array(sp.vstack([across, frames]))
    run.announce(f"multipliers of {rows.shape[0]} lengths", 24 * rows.shape[0] ** 2, "use fewer patches")
    hard = np.arange(rows.shape[0]) >= len(borders)
    unknowns = np.delete(np.arange(layout.n_rows), layout.n_frame_rows)
    W, tol = _mean_stretch(tesserae, far).matrix.toarray(), INNER_TOL_SHARE * options.tol
    basis = sp.eye_array(layout.n_rows, format="csr")[:, unknowns]
    solution = unfold_gram(W, rows, run, slack=slack, tol=tol, hard=hard, basis=basis)
    rotated, rank = _principal(solution.root, images)
    V = layout.orthonormal(rotated)
    lengths = np.square(across @ V).sum(axis=1)
    used = max(rank, layout.max_size)
    return Stretched(
        layout.orthonormal(rotated[:, :used]),
        _certificate(solution, V, W, lengths, rank, options),
        Trace(solution.objective, solution.stop),
        solution.multipliers[: len(borders)],
        float(np.mean((lengths - 1) ** 2)),
        solution.error_certificate(rank, options.tol, slack),
    )


def tessellate_in_low_rank(
    tesserae: RigidPatches, borders: PairDistances, far: PairDistances, V: FloatArray, options: StretchOptions, run: Run
) -> Stretched:
    """Return the same for many tesserae, from V, in as many dimensions as the dual needs, up to a maximum."""
    with one_blas_thread():
        bands = borders.bands(options.slack, tesserae.images)
        return stretch_out(_mean_stretch(tesserae, far), bands, tesserae.layout, V, options, run)


def unstretched(tesserae: RigidPatches, start: FloatArray, tol: float) -> Stretched:
    """Return a single tessera, or several without borders, at their initial positions."""
    rank = tesserae.layout.max_size
    stretch, error = (Certificate(0.0, 0.0, rank, claim, tol) for claim in (STRETCH_CLAIM, ERROR_CLAIM))
    return Stretched(start, stretch, Trace(np.zeros(1), Stop.CONVERGED), np.zeros(0), 0.0, error)


def frame_rows(layout: FrameLayout) -> sp.csr_array:
    r"""Return the rows :math:`e_a` and :math:`(e_a + e_b)/\sqrt2` of V, all of length 1 if frames are orthonormal."""
    first, second = [], []
    for _, rows in layout.groups:
        a, b = np.tril_indices(rows.shape[1])
        first.append(rows[:, a].ravel())
        second.append(rows[:, b].ravel())
    i, j = (np.concatenate(part) if part else np.empty(0, dtype=np.int64) for part in (first, second))
    order = np.arange(len(i))
    share = np.where(i == j, 0.5, np.sqrt(0.5))
    entries = (np.concatenate([share, share]), (np.concatenate([order, order]), np.concatenate([i, j])))
    return sp.csr_array(entries, shape=(len(i), layout.n_rows))


def _mean_stretch(tesserae: RigidPatches, far: PairDistances) -> Stretch:
    differences = far.matrix(tesserae.images)
    return Stretch(sp.csr_array(differences.T @ differences / len(far)))


def _principal(root: FloatArray, images: sp.csr_array) -> tuple[FloatArray, int]:
    """Return frames and shifts in the principal axes of the points, the longest first, and the number of used axes."""
    mean = np.asarray(images.sum(axis=0)) @ root / images.shape[0]
    scatter = root.T @ ((images.T @ images) @ root) / images.shape[0] - np.outer(mean, mean)
    values, axes = np.linalg.eigh(scatter)
    return np.asarray(root @ axes[:, ::-1]), max(1, int((values > MIN_VARIANCE_USED * values.sum()).sum()))


def _certificate(
    solution: GramSolution, V: FloatArray, W: FloatArray, lengths: FloatArray, rank: int, options: StretchOptions
) -> Certificate:
    """Return the certificate of orthonormal frames, with the bound for the full slack."""
    count, stretch = len(lengths), float(np.vdot(V, W @ V))
    added = (1 - INNER_SLACK_SHARE) * options.slack
    bound = solution.bound + added * float(np.abs(solution.multipliers[:count]).sum())
    beyond = np.abs(lengths - solution.center[:count]) - options.slack
    violation = max(float(beyond.max()), 0.0)
    return Certificate(-stretch, -bound, rank, STRETCH_CLAIM, options.tol, STRETCH_NOISE * stretch, violation)


N_TESSERA_LANDMARKS = 30  # landmarks of the Isomap initialization, which need not be accurate
MAX_WIDE_ROWS = 72
"""Most tesserae times their unknown rows: on digits, 9 tesserae of 7 dimensions take 3 s, 21 take 19 s."""


def root_mean_square(X: FloatArray) -> float:
    """Return the root mean square distance of rows from their mean, the unit of translations."""
    centered = X - X.mean(axis=0)
    largest = float(np.abs(centered).max(initial=0.0))
    return largest * float(np.sqrt(np.square(centered / largest).sum(axis=1).mean())) if largest > 0 else 1.0


def reconnected_graph(cut: NeighborGraph, graph: NeighborGraph) -> NeighborGraph:
    """Return the subgraph ``cut``, with the graph's edges between its components if it has several."""
    n = graph.n_points
    return reconnected(graph, np.isin(graph.rows() * n + graph.indices, cut.rows() * n + cut.indices))


def connected_tesserae(labels: IntArray, graph: NeighborGraph, least: int) -> IntArray:
    """Return labels that are all connected on the graph; components of fewer than ``least`` points join a neighbor."""
    components, _ = label_components(labels, graph)
    small = np.bincount(components) < least
    by_length = np.argsort(graph.lengths, kind="stable")
    rows, columns = graph.rows()[by_length], graph.indices[by_length]
    while True:
        leaving = small[components[rows]] & ~small[components[columns]]
        joining, shortest = np.unique(components[rows[leaving]], return_index=True)
        if not len(joining):
            return np.unique(components, return_inverse=True)[1].astype(np.int64)
        new = np.arange(len(small))
        new[joining] = components[columns[leaving][shortest]]
        components = new[components]


def lay_tesserae(X: Array, labels: IntArray, width: int, kind: str, run: Run) -> tuple[RigidPatches, Charts]:
    """Return the tesserae in at most ``width`` local coordinates, and the charts, of a ``kind`` of `fit_charts`."""
    n, c = len(X), int(labels.max()) + 1
    members = Membership(np.arange(n), labels, np.ones(n), n)
    charts = fit_charts(X, members, c, min(width, X.shape[1]), run, kind=kind)
    f = charts.coordinates(X, members, run)
    axes = np.zeros((c, 0, f.shape[1]))
    return RigidPatches(members, f, FrameLayout(charts.sizes), axes, np.zeros((c, 0))), charts


def border_pairs(X: Array, graph: NeighborGraph, labels: IntArray, most: int) -> PairDistances:
    """Return edges between each two tesserae (3.16): the shortest, and up to ``most`` spread out along the border."""
    rows, columns = graph.rows(), graph.indices.astype(np.int64)
    across = np.flatnonzero(labels[rows] < labels[columns])
    couple = labels[rows[across]] * (int(labels.max()) + 1) + labels[columns[across]]
    order = np.lexsort((graph.lengths[across], couple))
    edges, couple = across[order], np.unique(couple[order], return_inverse=True)[1]
    i, j = rows[edges], columns[edges]
    chosen = _spread_out((X[i] + X[j]) / 2, couple, most)
    return PairDistances.of(i[chosen], j[chosen], graph.lengths[edges[chosen]], len(X))


def _spread_out(positions: FloatArray, groups: IntArray, most: int) -> IntArray:
    """Return up to ``most`` positions of each group, ascending: the first, then farthest point sampling."""
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(groups) > 0))
    distances = np.full(len(groups), np.inf)
    taken = np.zeros(len(groups), dtype=bool)
    picks = starts
    for _ in range(most):
        taken[picks] = True
        # Groups without a new pick repeat their first one, which changes no distance.
        latest = starts.copy()
        latest[groups[picks]] = picks
        distances = np.minimum(distances, np.linalg.norm(positions - positions[latest[groups]], axis=1))
        distances[taken] = -1.0
        farthest = np.flatnonzero((distances == np.maximum.reduceat(distances, starts)[groups]) & ~taken)
        picks = farthest[np.unique(groups[farthest], return_index=True)[1]]
    return np.flatnonzero(taken)


def far_pairs(X: Array, graph: NeighborGraph, labels: IntArray, most: int, run: Run) -> PairDistances:
    """Return about ``most`` random pairs of tesserae to pull apart, without neighbors unless all points are."""
    n = len(X)
    if n * (n - 1) // 2 <= most:
        pairs = np.column_stack(np.triu_indices(n, 1))
    else:
        drawn = np.sort(run.rng("pairs to stretch").integers(n, size=(most, 2)), axis=1)
        pairs = np.unique(drawn, axis=0)
    i, j = pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]].T
    edges = np.sort(graph.rows() * n + graph.indices)
    neighbors = edges[np.minimum(np.searchsorted(edges, i * n + j), len(edges) - 1)] == i * n + j
    if not neighbors.all():
        i, j = i[~neighbors], j[~neighbors]
    return PairDistances.of(i, j, np.linalg.norm(X[i] - X[j], axis=1), n)


def geodesic_start(tesserae: RigidPatches, graph: NeighborGraph, n_components: int, run: Run) -> FloatArray:
    """Return frames and shifts that bring the tesserae closest to Isomap's coordinates from landmarks."""
    n = graph.n_points
    drawn = np.sort(run.rng("landmarks of the start").permutation(n)[: max(N_TESSERA_LANDMARKS, n_components + 2)])
    lengths, landmarks = geodesic_lengths(graph, run, drawn, at_least=n_components + 2)
    scaling = landmark_scaling(lengths, landmarks, n_components, run)
    return tesserae.fitted(embed_from_landmarks(scaling, lengths, run), proper=False)


def _stitched_start(
    X: Array, tesserae: RigidPatches, charts: Charts, graph: NeighborGraph, n_components: int, run: Run
) -> FloatArray | None:
    """Return frames and shifts of tesserae that share border points, stitched as in `IPA`; None if not connected."""
    rows, columns, labels = graph.rows(), graph.indices, tesserae.members.patches
    shared = sp.csr_array((np.ones(len(rows)), (rows, labels[columns])), shape=(len(X), tesserae.n_patches))
    inner = sp.csr_array((np.ones(len(X)), (np.arange(len(X)), labels)), shape=shared.shape)
    members = Membership.of_matrix(shared + inner)
    overlaps = find_overlaps(members, charts.coordinates(X, members, run), tesserae.n_patches)
    stitched = stitch(overlaps[overlaps.active(charts.sizes)[0]], charts.sizes, run, max_rank=n_components)
    if stitched.n_components > 1:
        return None
    return tesserae.fitted(padded(stitched.images(labels, tesserae.f), n_components), proper=False)
