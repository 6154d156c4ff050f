"""Rigid patches and distance constraints given by the user: checked, and as linear maps of frames and shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.arrays import check_in_memory, on_host
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.semidefinite.frames import FrameLayout
from manifoldry._numerics.semidefinite.newton import DistanceConstraints

PATCH_RANK_TOL = 1e-7  # singular values of a patch below this share of the largest do not count as dimensions
ArrayPair = tuple[Any, Any]
"""Members and coordinates of a patch, or pairs of points and their lengths."""


@dataclass(frozen=True)
class RigidPatches:
    """Patches with their own coordinates f (M, r): centered, in the dimensions that the patch fills, zero beyond."""

    members: Membership
    f: FloatArray
    layout: FrameLayout
    axes: FloatArray  # (c, w, r): f = (g - middles) @ axes of the given coordinates g (M, w)
    middles: FloatArray  # (c, w)

    @classmethod
    def read(cls, patches: Sequence[ArrayPair]) -> RigidPatches:
        """Check the patches and rotate each to its own axes."""
        ids, given = _checked(patches)
        points = np.concatenate(ids)
        n, missing = int(points.max()) + 1, np.flatnonzero(np.bincount(points) == 0)
        if len(missing):
            raise ValueError(
                f"{len(missing)} of {n} points are in no patch, the first is {missing[0]}; list every point, or "
                "renumber those that are."
            )
        rotated = [_own_axes(coordinates) for coordinates in given]
        sizes = np.array([axes.shape[1] for _, axes, _ in rotated])
        if sizes.max() == 0:
            raise ValueError(
                f"All {len(ids)} patches have coincident points only, so there is no shape; use larger ones."
            )
        r, w = int(sizes.max()), max(coordinates.shape[1] for coordinates in given)
        f_rows = np.concatenate([np.pad(f, ((0, 0), (0, r - f.shape[1]))) for f, _, _ in rotated])
        axes = np.stack([np.pad(a, ((0, w - a.shape[0]), (0, r - a.shape[1]))) for _, a, _ in rotated])
        middles = np.stack([np.pad(middle, (0, w - len(middle))) for _, _, middle in rotated])
        owners = np.repeat(np.arange(len(ids)), [len(indices) for indices in ids])
        order = np.lexsort((owners, points))
        members = Membership(points[order], owners[order], np.ones(len(order)), n)
        return cls(members, f_rows[order], FrameLayout(sizes), axes, middles)

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return self.layout.n_patches

    @cached_property
    def images(self) -> sp.csr_array:
        """The image of each entry as a combination of the rows of the unknowns, shape (M, n_rows)."""
        layout, patches = self.layout, self.members.patches
        entry, axis = np.nonzero(np.arange(self.f.shape[1]) < layout.sizes[patches][:, None])
        every = np.arange(len(patches))
        rows = np.concatenate([entry, every])
        columns = np.concatenate([layout.offsets[patches[entry]] + axis, layout.n_frame_rows + patches])
        values = np.concatenate([self.f[entry, axis], np.ones(len(patches))])
        return sp.csr_array((values, (rows, columns)), shape=(len(patches), layout.n_rows))

    @cached_property
    def positions(self) -> sp.csr_array:
        """Each point, the mean of its images (5.3), as a combination of the rows of the unknowns, (n, n_rows)."""
        points, n = self.members.points, self.members.n_points
        share = 1 / np.bincount(points, minlength=n)
        mean = sp.csr_array((share[points], (points, np.arange(len(points)))), shape=(n, len(points)))
        return sp.csr_array(mean @ self.images)

    def fitted(self, Y: FloatArray, proper: bool) -> FloatArray:
        """Return frames and shifts that bring patches closest to points Y (n, p); without reflections if ``proper``."""
        c, p = self.n_patches, Y.shape[1]
        patches, targets = self.members.patches, Y[self.members.points]
        count = np.bincount(patches, minlength=c)
        collect = sp.csr_array((np.ones(len(patches)), (patches, np.arange(len(patches)))), shape=(c, len(patches)))
        cross = (collect @ (self.f[:, :, None] * targets[:, None, :]).reshape(len(targets), -1)).reshape(c, -1, p)
        V = np.zeros((self.layout.n_rows, p))
        for group, rows in self.layout.groups:
            # Orthogonal Procrustes for all patches of one dimension at once.
            left, _, right = np.linalg.svd(cross[group][:, : rows.shape[1]], full_matrices=False)
            if proper and rows.shape[1] == p:
                left[:, :, -1] *= np.sign(np.linalg.det(left @ right))[:, None]
            V[rows] = left @ right
        V[self.layout.n_frame_rows :] = (collect @ targets) / count[:, None]
        return V

    def mirrored(self, frames: FloatArray) -> Array:
        """Return which patches are full-dimensional and reflected."""
        reflected = np.zeros(self.n_patches, dtype=bool)
        full = self.layout.sizes == frames.shape[2]
        if full.any():
            reflected[full] = np.linalg.det(frames[full]) < 0
        return reflected

    def part(self, patches: IntArray) -> tuple[RigidPatches, IntArray]:
        """Return a subset of the patches, and the points they have."""
        members, points, mask = self.members.part(patches)
        sizes = self.layout.sizes[patches]
        width = int(sizes.max())
        axes = self.axes[patches][:, :, :width]
        return RigidPatches(members, self.f[mask][:, :width], FrameLayout(sizes), axes, self.middles[patches]), points


@dataclass(frozen=True)
class PairConstraints:
    """Distances between pairs of points: exact where ``sense`` is 0, upper bounds where 1, lower bounds where -1."""

    ends: IntArray
    lengths: FloatArray
    sense: IntArray

    @classmethod
    def read(
        cls, exact: ArrayPair | None, upper: ArrayPair | None, lower: ArrayPair | None, n_points: int
    ) -> PairConstraints:
        """Check the given constraints: exact distances first, then upper and lower bounds."""
        named = (("distances", exact, 0), ("upper_bounds", upper, 1), ("lower_bounds", lower, -1))
        read = [(*_checked_pairs(name, given, n_points), sense) for name, given, sense in named if given is not None]
        if not read:
            return cls(np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64))
        sense = np.repeat([kind for _, _, kind in read], [len(lengths) for _, lengths, _ in read])
        return cls(np.concatenate([ends for ends, _, _ in read]), np.concatenate([at for _, at, _ in read]), sense)

    def among(self, chosen: Array, points: IntArray) -> PairConstraints:
        """Return chosen pairs, whose ends are all in ``points`` (sorted), renumbered in their order."""
        return PairConstraints(np.searchsorted(points, self.ends[chosen]), self.lengths[chosen], self.sense[chosen])

    def distances(self, positions: sp.csr_array) -> DistanceConstraints | None:
        """Return them as constraints on the unknowns."""
        if not len(self.lengths):
            return None
        differences = sp.csr_array(positions[self.ends[:, 0]] - positions[self.ends[:, 1]])
        return DistanceConstraints(differences, self.lengths**2, self.sense > 0, self.sense < 0)

    def violations(self, Y: FloatArray) -> FloatArray:
        """Return the relative errors of the lengths in Y, zero where a bound holds; absolute ones for zero lengths."""
        error = np.linalg.norm(Y[self.ends[:, 0]] - Y[self.ends[:, 1]], axis=1) - self.lengths
        error = np.where(self.sense > 0, np.maximum(error, 0), np.where(self.sense < 0, np.minimum(error, 0), error))
        return error / np.where(self.lengths > 0, self.lengths, 1.0)


def _checked(patches: Sequence[ArrayPair]) -> tuple[list[IntArray], list[FloatArray]]:
    if not len(patches):
        raise ValueError("At least one patch is needed; got none.")
    ids: list[IntArray] = []
    given: list[FloatArray] = []
    for number, patch in enumerate(patches):
        check_in_memory(patch, "A patch")
        if len(patch) != 2:
            raise ValueError(f"A patch is a pair (members, coordinates); patch {number} has {len(patch)} parts.")
        members, coordinates = np.asarray(patch[0]), np.asarray(on_host(patch[1], "A patch"), dtype=float)
        if members.ndim != 1 or not len(members) or members.dtype.kind not in "iu" or members.min() < 0:
            raise ValueError(f"Members of a patch are numbers of points, from 0 on; those of patch {number} are not.")
        if len(np.unique(members)) < len(members):
            raise ValueError(f"Patch {number} lists a point twice; list each member once.")
        if coordinates.ndim != 2 or len(coordinates) != len(members):
            raise ValueError(
                f"Patch {number} has {len(members)} members and coordinates of shape {coordinates.shape}; "
                "give one row per member."
            )
        if not np.isfinite(coordinates).all():
            raise ValueError(f"Coordinates of patch {number} are not finite; leave out members without coordinates.")
        ids.append(members.astype(np.int64))
        given.append(coordinates)
    return ids, given


def _own_axes(coordinates: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return centered coordinates in the dimensions that the patch fills, the axes and the center."""
    middle = coordinates.mean(axis=0)
    centered = coordinates - middle
    _, spread, right = np.linalg.svd(centered, full_matrices=False)
    rank = int((spread > PATCH_RANK_TOL * spread.max(initial=0.0)).sum())
    # A patch that fills its coordinates keeps them, and with them its handedness.
    axes = np.eye(len(middle)) if rank == len(middle) else right[:rank].T
    return centered @ axes, axes, middle


def _checked_pairs(name: str, given: ArrayPair, n_points: int) -> tuple[IntArray, FloatArray]:
    if len(given) != 2:
        raise ValueError(f"{name} must be (pairs, lengths); got {len(given)} parts.")
    ends, lengths = np.asarray(given[0]), np.asarray(given[1], dtype=float)
    if ends.shape != (len(lengths), 2) or lengths.ndim != 1 or (len(ends) and ends.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} needs pairs of numbers of shape (E, 2) and E lengths; got {ends.shape} and {lengths.shape}."
        )
    if len(ends) and (ends.min() < 0 or ends.max() >= n_points):
        raise ValueError(f"{name} names points from {ends.min()} to {ends.max()}; there are 0 to {n_points - 1}.")
    if not np.isfinite(lengths).all() or (len(lengths) and lengths.min() < 0):
        raise ValueError(f"{name} must have finite lengths of at least 0; leave out pairs of unknown length.")
    if (ends[:, 0] == ends[:, 1]).any():
        raise ValueError(f"{name} has a pair of a point with itself; leave such pairs out.")
    return ends.astype(np.int64), lengths
