"""Affine alignment of charts: the maps of all charts that agree best where charts overlap, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, NeighborGraph, Spectrum
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.eigen.localized import TOLERABLE_RESIDUAL, skip_localized
from manifoldry._numerics.geometry.principal import descending_eigh
from manifoldry._numerics.geometry.tangent import MAX_LENGTH_ERROR, MAX_SCALE_MISFIT, common_scale, length_error
from manifoldry._numerics.patches.atlas import Atlas
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.patches.layout import PatchInverse, at_home, move_side_by_side
from manifoldry._numerics.patches.overlaps import AlignedPatches, blend, patch_components
from manifoldry._numerics.scaling import principal_rotation

CHART_RANK_TOL = 1e-10
"""Variance of a chart's coordinates, relative to its largest, below which a direction is not aligned."""
MIN_AGREEING_SHARE = 1e-12
"""Least 1 - lambda of an eigenpair whose chart maps can be computed from the coordinates of the points."""


@dataclass(frozen=True)
class WeightedCharts:
    r"""Affine functions on every chart, orthonormal under the memberships, and their blends at the points.

    With shares :math:`p_{ik}` of point i in chart k, of which ``masses`` (c,) are the sums, the functions are
    :math:`\phi_{k0} = m_k^{-1/2}` and :math:`\phi_{ka}(u) = (u - \bar u_k)^T a_{ka}` with ``means`` (c, r) and ``axes``
    (c, r, r). ``blends`` (n, columns) are :math:`p_{ik} \phi_{ka}(u_{ik})`, with the ``present`` columns (c, r + 1).
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
        r"""Return :math:`I - B^T B` of the blends B, the form of :math:`\tfrac12 \sum_{jk} p_j p_k (g_j - g_k)^2`."""
        gram = sp.csr_array(self.blends.T @ self.blends)
        if len(self.masses) == 1:  # one chart agrees with itself: what is left is rounding
            return sp.csr_array(gram.shape)
        return sp.csr_array(sp.eye_array(gram.shape[0]) - (gram + gram.T) * 0.5)

    def eigenpairs(self, count: int, run: Run) -> Spectrum:
        """Return the ``count`` blends (n, count) of unit length that charts agree on best, without the constant."""
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
class AlignedCharts:
    """The points (n, d) in the aligned charts, the maps of the charts, and the spectrum of the largest component."""

    atlas: Atlas
    coordinates: FloatArray
    maps: AlignedPatches
    spectrum: Spectrum
    scaled: FloatArray  # the points (n, d) at the scale that explains the charts best
    disagreement: FloatArray
    notes: dict[str, Any]  # how well it does

    def inverse(self, overlap: float) -> PatchInverse:
        """Return the inverse map: for each chart the least-squares map from its points' positions to its coordinates.

        The inverse of a chart's map would magnify the disagreement where the alignment nearly collapses the chart.
        """
        members, entries = at_home(self.atlas.members, self.maps)
        f, c = self.atlas.coordinates[entries], len(self.maps.shifts)
        shares = sp.csr_array((members.weights, (members.patches, np.arange(len(f)))), shape=(c, len(f)))
        offsets = self.coordinates[members.points] - self.maps.shifts[members.patches]
        p, r = offsets.shape[1], f.shape[1]
        squares = (shares @ (offsets[:, :, None] * offsets[:, None, :]).reshape(len(f), -1)).reshape(c, p, p)
        products = (shares @ (offsets[:, :, None] * f[:, None, :]).reshape(len(f), -1)).reshape(c, p, r)
        back = np.linalg.pinv(squares, rcond=CHART_RANK_TOL, hermitian=True) @ products
        return replace(PatchInverse.of(self.atlas.charts, self.maps, self.atlas.overlaps, overlap), back=back)


def align_charts(
    atlas: Atlas, graph: NeighborGraph, d: int, run: Run, min_participation: float, isometric: bool
) -> AlignedCharts:
    """Return the best affine alignment of an atlas in d dimensions, each component by itself, drawn side by side.

    At least the share ``min_participation`` of the points carries a coordinate. ``isometric`` restores true scale.
    """
    c, r = atlas.charts.n_patches, atlas.charts.width
    active = atlas.overlaps[atlas.overlaps.active(atlas.charts.sizes)[0]]
    maps = AlignedPatches(np.zeros((c, r, d)), np.zeros((c, d)), patch_components(active, c))
    members, entries = at_home(atlas.members, maps)
    f, component = atlas.coordinates[entries], np.zeros(members.n_points, dtype=np.int64)
    component[members.points] = maps.components[members.patches]
    results, scaled = {}, np.zeros((members.n_points, d))
    for label in np.unique(component):
        patches = np.flatnonzero(maps.components == label)
        local, points, mask = members.part(patches)
        frames, shifts, rescaled, spectrum, notes = _align_component(
            WeightedCharts.of(local, f[mask], len(patches)), graph.subset(points), d, run, min_participation, isometric
        )
        width = shifts.shape[1]
        maps.frames[patches, :, :width], maps.shifts[patches, :width] = frames, shifts
        scaled[points, :width] = rescaled
        results[int(label)] = spectrum, notes
    coordinates, disagreement = blend(members, maps.images(members.patches, f))
    if len(results) > 1:
        move_side_by_side(coordinates, component, maps.shifts, maps.components)
    largest = int(np.bincount(component).argmax())
    spectrum, notes = results[largest]
    vectors = np.zeros((members.n_points, len(spectrum)))
    vectors[component == largest] = spectrum.vectors
    spectrum = replace(spectrum, vectors=vectors)
    return AlignedCharts(atlas, coordinates, maps, spectrum, scaled, disagreement, notes)


def _align_component(
    charts: WeightedCharts, graph: NeighborGraph, d: int, run: Run, min_participation: float, isometric: bool
) -> tuple[FloatArray, FloatArray, FloatArray, Spectrum, dict[str, Any]]:
    """Return frames (c, r, p) and shifts (c, p), the points at the best scale, eigenpairs, and notes.

    The layout has Y'Y = nI, or true scale if that is requested and the charts agree on it.
    """
    n, most = graph.n_points, min(int(charts.present.sum()), graph.n_points) - 1
    count = min(d, most)
    if count < 1:  # coincident points
        empty = Spectrum(np.empty(0), np.empty((n, 0)), np.empty(0), "smallest")
        c, r = charts.means.shape
        return np.zeros((c, r, 0)), np.zeros((c, 0)), np.empty((n, 0)), empty, {"isometric": False}
    spectrum, notes = skip_localized(lambda m: charts.eigenpairs(m, run), count, most, min_participation)
    frames, shifts = (np.sqrt(n) * part for part in charts.maps(spectrum))
    coordinates = np.sqrt(n) * spectrum.vectors
    to_scale, scale_notes = _true_scale(frames, charts, coordinates, graph, run)
    isometric = isometric and scale_notes["isometric"]
    turn = to_scale @ principal_rotation(coordinates @ to_scale)[1] if isometric else np.eye(count)
    notes = {**notes, **scale_notes, "isometric": isometric}
    return frames @ turn, shifts @ turn, coordinates @ to_scale, spectrum, notes


def _true_scale(
    frames: FloatArray, charts: WeightedCharts, coordinates: FloatArray, graph: NeighborGraph, run: Run
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the linear map to the scale that explains the charts best, and notes on how well it does."""
    p = coordinates.shape[1]
    full_rank = charts.present[:, 1:].sum(axis=1) >= p
    if not full_rank.any():
        return np.eye(p), {"isometric": False}
    to_scale, misfit = common_scale(np.linalg.pinv(frames[full_rank], rcond=CHART_RANK_TOL))
    error = length_error(graph, coordinates @ to_scale, run)
    isometric = misfit <= MAX_SCALE_MISFIT and error <= MAX_LENGTH_ERROR
    return to_scale, {"isometric": isometric, "misfit": misfit, "length_error": error}
