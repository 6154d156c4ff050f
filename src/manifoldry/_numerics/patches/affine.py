"""Affine alignment of charts: the maps of all charts that agree best where charts overlap, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Spectrum
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.eigen.localized import TOLERABLE_RESIDUAL, skip_localized
from manifoldry._numerics.extension.components import side_by_side
from manifoldry._numerics.geometry.principal import descending_eigh
from manifoldry._numerics.geometry.tangent import MAX_LENGTH_ERROR, MAX_SCALE_MISFIT, common_scale, length_error
from manifoldry._numerics.patches.atlas import Atlas
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.patches.layout import PatchInverse, at_home
from manifoldry._numerics.patches.overlaps import PlacedPatches, blend, patch_components
from manifoldry._numerics.scaling import principal_turn

CHART_RANK_TOL = 1e-10
"""Weighted variance of a chart's coordinates, relative to its largest, below which a direction is not aligned: no point
of the chart determines it."""
MIN_AGREEING_SHARE = 1e-12
"""Least 1 - lambda of an eigenpair whose chart maps can be computed from the coordinates of the points."""


@dataclass(frozen=True)
class WeightedCharts:
    r"""Affine functions on every chart, orthonormal under the memberships, and their blends at the points.

    With shares :math:`p_{ik}` of point i in chart k, ``masses`` (c,) are their sums, ``means`` (c, r) the weighted
    means of the coordinates and ``axes`` (c, r, r) the directions in which these have variance 1/mass, zero where they
    have none: the functions :math:`\phi_{k0} = m_k^{-1/2}` and :math:`\phi_{ka}(u) = (u - \bar u_k)^T a_{ka}` have
    :math:`\sum_i p_{ik} \phi_{ka} \phi_{kb} = \delta_{ab}`. ``blends`` (n, columns) are
    :math:`p_{ik} \phi_{ka}(u_{ik})`, with the columns (c, r + 1) that are ``present``.
    """

    masses: FloatArray
    means: FloatArray
    axes: FloatArray
    present: Any
    blends: sp.csr_array

    @classmethod
    def of(cls, members: Membership, f: FloatArray, n_patches: int) -> WeightedCharts:
        """Return those of the entries of a membership, with coordinates f (M, r) in their charts."""
        n, r = members.n_points, f.shape[1]
        shares = members.weights / np.bincount(members.points, members.weights, n)[members.points]
        picks = sp.csr_array((shares, (members.patches, np.arange(len(shares)))), shape=(n_patches, len(shares)))
        masses = np.asarray(picks.sum(axis=1)).reshape(-1)
        positive = np.where(masses > 0, masses, 1.0)
        means = (picks @ f) / positive[:, None]
        offsets = f - means[members.patches]
        products = (picks @ (offsets[:, :, None] * offsets[:, None, :]).reshape(len(f), -1)).reshape(n_patches, r, r)
        values, vectors = descending_eigh(products)
        mask = (values > CHART_RANK_TOL * values[:, :1]) & (values > 0)
        axes = np.where(mask[:, None, :], vectors / np.sqrt(np.where(mask, values, 1.0))[:, None, :], 0.0)
        functions = np.column_stack(
            [1 / np.sqrt(positive)[members.patches], np.einsum("mr,mra->ma", offsets, axes[members.patches])]
        )
        present = np.column_stack([masses > 0, mask])
        columns = members.patches[:, None] * (r + 1) + np.arange(r + 1)
        positions = (np.repeat(members.points, r + 1), columns.ravel())
        blends = sp.csr_array(((shares[:, None] * functions).ravel(), positions), shape=(n, n_patches * (r + 1)))
        return cls(masses, means, axes, present, sp.csr_array(blends[:, np.flatnonzero(present.ravel())]))

    @property
    def constant(self) -> FloatArray:
        """The coefficients, of unit length, whose blend is constant."""
        wide = np.zeros(self.present.shape)
        wide[:, 0] = np.sqrt(self.masses / self.masses.sum())
        return np.asarray(wide[self.present])

    def alignment_matrix(self) -> sp.csr_array:
        r"""Return :math:`I - B^T B` of the blends B: the quadratic form of the disagreement of the charts.

        For functions g_k = sum_a c_ka phi_ka of the charts, c'(I - B'B)c is the sum over points of
        :math:`\sum_k p_k (g_k - \bar g)^2 = \tfrac12 \sum_{jk} p_j p_k (g_j - g_k)^2`.
        """
        gram = sp.csr_array(self.blends.T @ self.blends)
        if len(self.masses) == 1:  # one chart agrees with itself: what is left is rounding
            return sp.csr_array(gram.shape)
        return sp.csr_array(sp.eye_array(gram.shape[0]) - (gram + gram.T) * 0.5)

    def eigenpairs(self, count: int, run: Run) -> Spectrum:
        r"""Return the ``count`` blends (n, count) that charts agree on best, of unit length, without the constant.

        Values are eigenvalues :math:`\lambda` of the alignment matrix: the squared disagreement of a blend of unit
        length is :math:`\lambda / (1 - \lambda)`.
        """
        spectrum = smallest(self.alignment_matrix(), count, null=self.constant, tolerable=TOLERABLE_RESIDUAL, run=run)
        blended = self.blends @ spectrum.vectors
        lengths = np.sqrt(np.maximum(1 - spectrum.values, MIN_AGREEING_SHARE))
        return replace(spectrum, vectors=blended / lengths)

    def maps(self, spectrum: Spectrum) -> tuple[FloatArray, FloatArray]:
        """Return frames (c, r, p) and shifts (c, p) whose blends are the given eigenvectors."""
        wide = np.zeros((self.present.size, len(spectrum)))
        shares = np.maximum(1 - spectrum.values, MIN_AGREEING_SHARE)
        wide[self.present.ravel()] = (self.blends.T @ spectrum.vectors) / shares
        wide = wide.reshape(*self.present.shape, -1)
        frames = self.axes @ wide[:, 1:]
        positive = np.where(self.masses > 0, self.masses, 1.0)
        return frames, wide[:, 0] / np.sqrt(positive)[:, None] - np.einsum("cr,crp->cp", self.means, frames)


@dataclass(frozen=True)
class AlignmentOptions:
    """Dimensions of the layout, least share of points that carries a coordinate, and whether to restore true scale."""

    n_components: int
    min_participation: float
    isometric: bool


@dataclass(frozen=True)
class AlignedCharts:
    """The points (n, d) in the aligned charts, the maps of the charts, and the spectrum of the largest component.

    ``scaled`` (n, d) are the points at the scale that explains the charts best, ``disagreement`` (n,) the root mean
    square distance of a point's images from their mean. The notes describe how well one scale explains all charts.
    """

    atlas: Atlas
    coordinates: FloatArray
    placed: PlacedPatches
    spectrum: Spectrum
    scaled: FloatArray
    disagreement: FloatArray
    notes: dict[str, Any]

    def inverse(self, overlap: float) -> PatchInverse:
        """Return the inverse map: for each chart the least-squares map from its points' positions to its coordinates.

        Where charts agree it is the inverse of the chart's map. Where an alignment nearly collapses a chart, the
        inverse would magnify the disagreement of the charts, and this map does not.
        """
        members, entries = at_home(self.atlas.members, self.placed)
        f, c = self.atlas.coordinates[entries], len(self.placed.shifts)
        shares = sp.csr_array((members.weights, (members.patches, np.arange(len(f)))), shape=(c, len(f)))
        offsets = self.coordinates[members.points] - self.placed.shifts[members.patches]
        p, r = offsets.shape[1], f.shape[1]
        squares = (shares @ (offsets[:, :, None] * offsets[:, None, :]).reshape(len(f), -1)).reshape(c, p, p)
        products = (shares @ (offsets[:, :, None] * f[:, None, :]).reshape(len(f), -1)).reshape(c, p, r)
        back = np.linalg.pinv(squares, rcond=CHART_RANK_TOL, hermitian=True) @ products
        return replace(PatchInverse.of(self.atlas.charts, self.placed, self.atlas.overlaps, overlap), back=back)


def align_charts(atlas: Atlas, graph: NeighborGraph, options: AlignmentOptions, run: Run) -> AlignedCharts:
    """Return the best affine alignment of an atlas, each component by itself, drawn side by side."""
    c, r, d = atlas.charts.n_patches, atlas.charts.width, options.n_components
    active = atlas.overlaps[atlas.overlaps.holding(atlas.charts.sizes)]
    placed = PlacedPatches(np.zeros((c, r, d)), np.zeros((c, d)), patch_components(active, c))
    members, entries = at_home(atlas.members, placed)
    f, component = atlas.coordinates[entries], np.zeros(members.n_points, dtype=np.int64)
    component[members.points] = placed.components[members.patches]
    alignments, scaled = {}, np.zeros((members.n_points, d))
    for label in np.unique(component):
        local = _ChartComponent.of(
            members, f, np.flatnonzero(component == label), np.flatnonzero(placed.components == label)
        )
        aligned = local.align(graph.subset(local.points), options, run)
        placed.frames[local.patches, :, : aligned.width] = aligned.frames
        placed.shifts[local.patches, : aligned.width] = aligned.shifts
        scaled[local.points, : aligned.width] = aligned.scaled
        alignments[int(label)] = aligned
    coordinates, disagreement = blend(members, placed.images(members.patches, f))
    placed, coordinates = _side_by_side(placed, coordinates, component)
    largest = int(np.bincount(component).argmax())
    spectrum = alignments[largest].spectrum
    vectors = np.zeros((members.n_points, len(spectrum)))
    vectors[component == largest] = spectrum.vectors
    spectrum = replace(spectrum, vectors=vectors)
    return AlignedCharts(atlas, coordinates, placed, spectrum, scaled, disagreement, alignments[largest].notes)


def _side_by_side(
    placed: PlacedPatches, coordinates: FloatArray, component: IntArray
) -> tuple[PlacedPatches, FloatArray]:
    """Return maps and points with the components side by side."""
    present = np.unique(component)
    if len(present) == 1:
        return placed, coordinates
    coordinates, shifts = coordinates.copy(), placed.shifts.copy()
    moved = side_by_side([coordinates[component == label] for label in present])
    for label, (rows, shift) in zip(present, moved, strict=True):
        coordinates[component == label] = rows
        shifts[placed.components == label] += shift
    return replace(placed, shifts=shifts), coordinates


@dataclass(frozen=True)
class _AlignedComponent:
    """Frames (c, r, p) and shifts (c, p) of one component, its eigenpairs, its points at the best scale, and notes."""

    frames: FloatArray
    shifts: FloatArray
    spectrum: Spectrum
    scaled: FloatArray
    notes: dict[str, Any]

    @property
    def width(self) -> int:
        """Number p of coordinates that its charts determine."""
        return int(self.shifts.shape[1])


@dataclass(frozen=True)
class _ChartComponent:
    """One component: indices of its points and patches, and its entries, renumbered."""

    points: IntArray
    patches: IntArray
    members: Membership
    f: FloatArray

    @classmethod
    def of(cls, members: Membership, f: FloatArray, points: IntArray, patches: IntArray) -> _ChartComponent:
        mask = np.isin(members.patches, patches)
        renumbered = Membership(
            np.searchsorted(points, members.points[mask]),
            np.searchsorted(patches, members.patches[mask]),
            members.weights[mask],
            len(points),
        )
        return cls(points, patches, renumbered, f[mask])

    def align(self, graph: NeighborGraph, options: AlignmentOptions, run: Run) -> _AlignedComponent:
        """Return the alignment with Y'Y = nI, or to scale if that is requested and the charts agree on it."""
        n, charts = len(self.points), WeightedCharts.of(self.members, self.f, len(self.patches))
        most = min(int(charts.present.sum()), n) - 1
        count = min(options.n_components, most)
        if count < 1:  # coincident points
            empty = Spectrum(np.empty(0), np.empty((n, 0)), np.empty(0), "smallest")
            frames = np.zeros((len(self.patches), self.f.shape[1], 0))
            return _AlignedComponent(frames, np.zeros((len(frames), 0)), empty, np.empty((n, 0)), {"isometric": False})
        spectrum, notes = skip_localized(lambda m: charts.eigenpairs(m, run), count, most, options.min_participation)
        frames, shifts = (np.sqrt(n) * part for part in charts.maps(spectrum))
        coordinates = np.sqrt(n) * spectrum.vectors
        to_scale, scale_notes = _true_scale(frames, charts, coordinates, graph)
        isometric = options.isometric and scale_notes["isometric"]
        turn = to_scale @ principal_turn(coordinates @ to_scale)[1] if isometric else np.eye(count)
        notes = {**notes, **scale_notes, "isometric": isometric}
        return _AlignedComponent(frames @ turn, shifts @ turn, spectrum, coordinates @ to_scale, notes)


def _true_scale(
    frames: FloatArray, charts: WeightedCharts, coordinates: FloatArray, graph: NeighborGraph
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the linear map to the scale that explains the charts best, and notes on how well it does."""
    p = coordinates.shape[1]
    full_rank = charts.present[:, 1:].sum(axis=1) >= p
    if not full_rank.any():
        return np.eye(p), {"isometric": False}
    to_scale, misfit = common_scale(np.linalg.pinv(frames[full_rank], rcond=CHART_RANK_TOL))
    error = length_error(graph, coordinates @ to_scale)
    isometric = misfit <= MAX_SCALE_MISFIT and error <= MAX_LENGTH_ERROR
    return to_scale, {"isometric": isometric, "misfit": misfit, "length_error": error}
