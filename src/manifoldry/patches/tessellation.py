"""Tesserae placed with the largest stretch: over all Gram matrices where there are few, in low rank where many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry.blas import one_blas_thread
from manifoldry.patches.atlas import MAX_SURFACE_RESIDUAL
from manifoldry.patches.charts import Charts, layout_kind
from manifoldry.patches.layout import MAX_PATCH_DIMENSION, MIN_ISOMAP_GAIN
from manifoldry.patches.restarts import Contradiction
from manifoldry.patches.rigid import RigidPatches
from manifoldry.patches.tesserae import (
    border_pairs,
    far_pairs,
    geodesic_start,
    lay_tesserae,
    stitched_start,
    wide_labels,
)
from manifoldry.quality.comparison import most_trusted
from manifoldry.run import Run
from manifoldry.solve.scaling import principal_turn
from manifoldry.solve.semidefinite import FrameLayout, PairDistances, PairStretch, StretchOptions, stretch_out
from manifoldry.solve.semidefinite.barrier_path import Stretched
from manifoldry.solve.semidefinite.certificate import ERROR_CLAIM, STRETCH_CLAIM, STRETCH_NOISE
from manifoldry.solve.semidefinite.interior import GramSolution, unfold_gram
from manifoldry.values import Certificate, FloatArray, IntArray, NeighborGraph, Stop, Trace

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
