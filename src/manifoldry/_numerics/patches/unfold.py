"""The embedding of stitched patches in n_components dimensions, and its maps for new points and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, Spectrum
from manifoldry._numerics.extension.components import side_by_side
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.patches.charts import Charts
from manifoldry._numerics.patches.cover import ListedCover, Membership, VoronoiCover, padded_lists
from manifoldry._numerics.patches.overlaps import Overlaps, PlacedPatches, Stitched, blend
from manifoldry._numerics.scaling import principal_turn, turned_spectrum

MAX_PLACED_ROWS = 200_000
"""New points placed at a time, which bounds the memory."""

MAX_DENSE_ENTRIES = 8_000_000
"""Entries of sparse rows that are made dense at a time."""


@dataclass(frozen=True)
class UnfoldedPatches:
    """The embedding of points: coordinates (n, r), and the patches in their axes.

    The spectrum is that of the unfolded points in all dimensions that the patches used, ``disagreement`` (n,) the root
    mean square distance of a point's images in its patches from their mean.
    """

    coordinates: FloatArray
    stitched: Stitched
    spectrum: Spectrum
    disagreement: FloatArray


def unfold(members: Membership, f: FloatArray, stitched: Stitched, n_components: int) -> UnfoldedPatches:
    """Average the images of each point and rotate every component to its principal axes (5.14)."""
    members, entries = at_home(members, stitched)
    wide, disagreement = blend(members, stitched.images(members.patches, f[entries]))
    home = np.zeros(members.n_points, dtype=np.int64)
    home[members.points] = stitched.components[members.patches]
    frames, shifts = stitched.frames.copy(), stitched.shifts.copy()
    for part in range(stitched.n_components):
        mine, patches = home == part, stitched.components == part
        if not mine.any():
            continue
        wide[mine], axes, mean = principal_turn(wide[mine])
        frames[patches], shifts[patches] = frames[patches] @ axes, (shifts[patches] - mean) @ axes
    spectrum = turned_spectrum(wide)
    p = wide.shape[1]
    if p < n_components:
        wide = np.pad(wide, ((0, 0), (0, n_components - p)))
        frames = np.pad(frames, ((0, 0), (0, 0), (0, n_components - p)))
        shifts = np.pad(shifts, ((0, 0), (0, n_components - p)))
    wide, frames, shifts = wide[:, :n_components], frames[:, :, :n_components], shifts[:, :n_components]
    if stitched.n_components > 1:
        present = np.unique(home)
        moved = side_by_side([wide[home == part] for part in present])
        for part, (rows, shift) in zip(present, moved, strict=True):
            wide[home == part] = rows
            shifts[stitched.components == part] += shift
    return UnfoldedPatches(wide, replace(stitched, frames=frames, shifts=shifts), spectrum, disagreement)


def place_members(members: Membership, f: FloatArray, stitched: PlacedPatches) -> tuple[FloatArray, FloatArray]:
    """Return the places (n, r) of points by their coordinates f in the patches, and the images' disagreement (n,)."""
    members, entries = at_home(members, stitched)
    return blend(members, stitched.images(members.patches, f[entries]))


def at_home(members: Membership, stitched: PlacedPatches) -> tuple[Membership, Array]:
    """Return the entries in the same component of patches as their point's heaviest patch, and which they are."""
    if stitched.n_components == 1:
        return members, np.arange(len(members.points))
    kept = members.at_home(stitched.components)
    return members[kept], kept


@dataclass(frozen=True)
class PatchMap:
    """New points to coordinates: the weighted mean of their images in their patches."""

    cover: VoronoiCover | ListedCover
    charts: Charts
    stitched: PlacedPatches

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place the rows of X."""
        n, columns = X.shape
        placed = np.empty((n, self.stitched.shifts.shape[1]))
        many = max(1, MAX_DENSE_ENTRIES // columns) if issparse(X) else MAX_PLACED_ROWS
        for lo, hi in run.ranges(n, min(many, MAX_PLACED_ROWS)):
            rows = dense(X[lo:hi])
            members, _ = at_home(self.cover.members(rows, run), self.stitched)
            f = self.charts.coordinates(rows, members, run)
            placed[lo:hi], _ = blend(members, self.stitched.images(members.patches, f))
        return placed


@dataclass(frozen=True)
class PatchInverse:
    """Coordinates back to points: the weighted mean of the points of the nearby charts at these coordinates."""

    cover: VoronoiCover
    charts: Charts
    stitched: PlacedPatches
    back: FloatArray

    @classmethod
    def of(cls, charts: Charts, stitched: PlacedPatches, overlaps: Overlaps, overlap: float) -> PatchInverse:
        """Build from stitched patches."""
        n = charts.n_patches
        i, j = np.r_[overlaps.first, overlaps.second], np.r_[overlaps.second, overlaps.first]
        adjacency = sp.csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
        cover = VoronoiCover(stitched.shifts, padded_lists(adjacency), overlap)
        return cls(cover, charts, stitched, np.asarray(np.linalg.pinv(stitched.frames), dtype=np.float64))

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points at the places Y."""
        found = np.empty((len(Y), self.charts.means.shape[1]))
        for lo, hi in run.ranges(len(Y), MAX_PLACED_ROWS):
            places = np.asarray(Y[lo:hi], dtype=float)
            members, _ = at_home(self.cover.members(places, run), self.stitched)
            away = places[members.points] - self.stitched.shifts[members.patches]
            f = np.einsum("mp,mpr->mr", away, self.back[members.patches])
            found[lo:hi], _ = blend(members, self.charts.points(members.patches, f, run))
        return found


@dataclass(frozen=True)
class CenteredPatchMap:
    """New points to coordinates by patches about an ``origin``: rows far from zero are rounded before, not after."""

    origin: FloatArray
    place: PatchMap

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place the rows of X."""
        n, columns = X.shape
        placed = np.empty((n, self.place.stitched.shifts.shape[1]))
        for lo, hi in run.ranges(n, max(1, MAX_DENSE_ENTRIES // columns)):
            placed[lo:hi] = self.place(dense(X[lo:hi]) - self.origin, run)
        return placed


@dataclass(frozen=True)
class CenteredPatchInverse:
    """Coordinates back to points by patches about an ``origin``."""

    origin: FloatArray
    lead: PatchInverse

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points at the places Y."""
        return self.lead(Y, run) + self.origin
