"""Overlaps of patches: moments of the shared points in both charts, and the quadratic form of the matching error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Certificate, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.semidefinite.certificate import PLACEMENT_CLAIM, PLACEMENT_TOL
from manifoldry._numerics.semidefinite.staircase import Placement, place

MIN_TIGHTNESS = 1e-3
"""Least tightness of a well-conditioned overlap: smallest singular value relative to a typical overlap's."""
MIN_HINGE_TIGHTNESS = 1e-5
"""Least tightness of an overlap that connects patches if no better one does: 0.3 % of a typical width."""


@dataclass(frozen=True)
class Overlaps:
    """Pairs of patches that share points, first < second, and the numbers of these."""

    first: IntArray
    second: IntArray
    counts: IntArray
    means: FloatArray  # of the coordinates in both charts, (E, 2, r)
    moments: FloatArray  # mean products of these coordinates, (E, 2 r, 2 r)

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, chosen: Array) -> Overlaps:
        return Overlaps(
            self.first[chosen], self.second[chosen], self.counts[chosen], self.means[chosen], self.moments[chosen]
        )

    def tightness(self, sizes: IntArray) -> FloatArray:
        """Return the condition of each overlap, between 0 (a hinge) and about 1.

        It is the smallest singular value of the cross-covariance of the shared points (Theorem 1: it must have full
        rank), relative to the largest of a typical overlap.
        """
        r = self.means.shape[2]
        cross = self.moments[:, :r, r:] - self.means[:, 0, :, None] * self.means[:, 1, None, :]
        rank = np.minimum(sizes[self.first], sizes[self.second])
        values = np.linalg.svd(cross, compute_uv=False)
        values = np.concatenate([values, np.zeros((len(self), 1))], axis=1)
        least = np.where(rank > 0, values[np.arange(len(self)), np.maximum(rank, 1) - 1], np.inf)
        typical = np.median(values[:, 0]) if len(self) else 1.0
        return np.where(self.counts > rank, least / (typical or 1.0), 0.0)

    def well_conditioned(self, sizes: IntArray) -> Array:
        """Return which overlaps are well conditioned."""
        return self.tightness(sizes) >= MIN_TIGHTNESS

    def active(self, sizes: IntArray) -> tuple[Array, Array]:
        """Return which overlaps connect the patches, and which are well conditioned: others only where needed."""
        tightness = self.tightness(sizes)
        well_conditioned = tightness >= MIN_TIGHTNESS
        labels = patch_components(self[well_conditioned], len(sizes))
        needed = (tightness >= MIN_HINGE_TIGHTNESS) & (labels[self.first] != labels[self.second])
        return well_conditioned | needed, well_conditioned


def find_overlaps(members: Membership, f: FloatArray, n_patches: int) -> Overlaps:
    """Return all pairs of patches that share points; f (M, r) are the coordinates of the entries in their charts."""
    one, other = shared_entries(members)
    lower = members.patches[one] < members.patches[other]
    one, other = np.where(lower, one, other), np.where(lower, other, one)
    key = members.patches[one] * n_patches + members.patches[other]
    if n_patches**2 <= len(key):  # counting takes less time than sorting
        counts = np.bincount(key, minlength=n_patches**2)
        keys = np.flatnonzero(counts)
        pair, counts = (np.cumsum(counts > 0) - 1)[key], counts[keys]
    else:
        keys, pair, counts = np.unique(key, return_inverse=True, return_counts=True)
    # First and second moments are all that the matching error needs of the shared points.
    both = [column[entries] for entries in (one, other) for column in np.ascontiguousarray(f.T)]
    width, E = len(both), len(keys)

    def mean(values: FloatArray) -> FloatArray:
        return np.bincount(pair, values, E) / counts

    means = np.stack([mean(column) for column in both], axis=1) if width else np.zeros((E, 0))
    moments = np.empty((E, width, width))
    for a in range(width):
        for b in range(a + 1):
            moments[:, a, b] = moments[:, b, a] = mean(both[a] * both[b])
    return Overlaps(keys // n_patches, keys % n_patches, counts, means.reshape(E, 2, width // 2), moments)


def merged_overlaps(one: Overlaps, other: Overlaps) -> Overlaps:
    """Return the overlaps by two sets of points together: counts are added, means weighted by them."""
    if np.array_equal(one.first, other.first) and np.array_equal(one.second, other.second):
        counts = one.counts + other.counts
        share, rest = ((part.counts / counts)[:, None, None] for part in (one, other))
        means, moments = (share * a + rest * b for a, b in ((one.means, other.means), (one.moments, other.moments)))
        return Overlaps(one.first, one.second, counts, means, moments)
    n_patches = 1 + int(max(one.second.max(initial=0), other.second.max(initial=0)))
    keys, pair = np.unique(
        np.concatenate([part.first * n_patches + part.second for part in (one, other)]), return_inverse=True
    )
    slots, other_slots = pair[: len(one)], pair[len(one) :]
    counts = np.zeros(len(keys), dtype=np.int64)
    counts[slots] += one.counts
    counts[other_slots] += other.counts
    means, moments = np.zeros((len(keys), *one.means.shape[1:])), np.zeros((len(keys), *one.moments.shape[1:]))
    for part, where in ((one, slots), (other, other_slots)):
        share = part.counts / counts[where]
        means[where] += share[:, None, None] * part.means
        moments[where] += share[:, None, None] * part.moments
    return Overlaps(keys // n_patches, keys % n_patches, counts, means, moments)


def shared_entries(members: Membership) -> tuple[IntArray, IntArray]:
    """Return all pairs of entries of a membership that belong to one point."""
    counts = np.bincount(members.points, minlength=members.n_points)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    ones, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for count in range(2, int(counts.max(initial=0)) + 1):
        begin = starts[counts == count]
        a, b = np.triu_indices(count, 1)
        ones.append((begin[:, None] + a).ravel())
        others.append((begin[:, None] + b).ravel())
    return np.concatenate(ones), np.concatenate(others)


def patch_components(overlaps: Overlaps, n_patches: int) -> IntArray:
    """Return the connected component of the patch graph that each patch is in."""
    adjacency = sp.csr_array((np.ones(len(overlaps)), (overlaps.first, overlaps.second)), shape=(n_patches, n_patches))
    return np.asarray(connected_components(adjacency, directed=False)[1], dtype=np.int64)


def matching_form(overlaps: Overlaps, sizes: IntArray) -> sp.csr_array:
    """Return the matrix of the matching error (5.2) over frames and shifts: blocks L_X, Z and L_G of (5.7)."""
    r = overlaps.means.shape[2]
    E, c = len(overlaps), len(sizes)
    signs = np.concatenate([np.ones(r), -np.ones(r)])
    ends = np.array([1.0, -1.0])
    blocks = np.empty((E, 2 * r + 2, 2 * r + 2))
    blocks[:, : 2 * r, : 2 * r] = overlaps.moments * signs[:, None] * signs
    means = overlaps.means.reshape(E, -1) * signs
    blocks[:, : 2 * r, 2 * r :] = means[:, :, None] * ends
    blocks[:, 2 * r :, : 2 * r] = blocks[:, : 2 * r, 2 * r :].transpose(0, 2, 1)
    blocks[:, 2 * r :, 2 * r :] = ends[:, None] * ends
    steps = np.arange(r)
    first, second = overlaps.first[:, None], overlaps.second[:, None]
    rows = np.concatenate([first * r + steps, second * r + steps, r * c + first, r * c + second], axis=1)
    where = (np.repeat(rows, 2 * r + 2, axis=1).ravel(), np.tile(rows, (1, 2 * r + 2)).ravel())
    n_rows = (r + 1) * c
    form = sp.csr_array(sp.coo_array((blocks.ravel(), where), shape=(n_rows, n_rows)))
    # Patches of fewer dimensions have no rows for the others.
    present = np.concatenate([(steps < sizes[:, None]).ravel(), np.ones(c, dtype=bool)])
    return form if present.all() else sp.csr_array(form[present][:, present])


def check_connected_patches(n_components: int, disconnected: str) -> None:
    """Raise an error for a disconnected patch graph, unless components may be drawn side by side."""
    if n_components > 1 and disconnected == "raise":
        raise ValueError(
            f"The patch graph has {n_components} connected components; raise n_neighbors or overlap, or set "
            "disconnected='apart'."
        )


@dataclass(frozen=True)
class AlignedPatches:
    """Affine maps ``f @ frames[i] + shifts[i]`` of the coordinates f in patch i, and the component of each patch."""

    frames: FloatArray
    shifts: FloatArray
    components: IntArray

    @property
    def n_components(self) -> int:
        """Number of components of the patch graph."""
        return int(self.components.max()) + 1

    def images(self, patches: IntArray, f: FloatArray) -> FloatArray:
        """Return the images of points given by patch and coordinates, shape (M, p)."""
        images = np.array(self.shifts[patches])
        for a in range(f.shape[1]):
            images += f[:, a, None] * self.frames[patches, a]
        return images


@dataclass(frozen=True)
class Stitched(AlignedPatches):
    """Rigid motions of all patches; the certificate covers all components, the trace the largest."""

    certificate: Certificate
    trace: Trace


def stitch(
    overlaps: Overlaps, sizes: IntArray, run: Run, max_rank: int | None = None, start: FloatArray | None = None
) -> Stitched:
    """Minimize the matching error of overlapping patches, each component of the patch graph by itself.

    None as ``max_rank`` allows the dimensions that the smallest error needs. ``start``: frames and shifts if connected.
    """
    components = patch_components(overlaps, len(sizes))
    counts = np.bincount(components)
    placements: dict[int, Placement] = {}
    for number in np.argsort(-counts, kind="stable"):
        patches = np.flatnonzero(components == number)
        pairs = overlaps[components[overlaps.first] == number]
        first, second = np.searchsorted(patches, pairs.first), np.searchsorted(patches, pairs.second)
        renumbered = replace(pairs, first=first, second=second)
        initial = start if len(counts) == 1 else None
        placements[int(number)] = _place_component(renumbered, sizes[patches], run, max_rank, initial)
    return joined(components, placements, overlaps.means.shape[2])


def joined(components: IntArray, placements: dict[int, Placement], width: int) -> Stitched:
    """Return the alignments of all components, by their numbers and the largest first, as one."""
    parts, c = list(placements.values()), len(components)
    p = max(part.shifts.shape[1] for part in parts)
    frames, shifts = np.zeros((c, width, p)), np.zeros((c, p))
    for number, part in placements.items():
        patches = np.flatnonzero(components == number)
        _, r, columns = part.frames.shape
        frames[patches, :r, :columns], shifts[patches, :columns] = part.frames, part.shifts
    return Stitched(frames, shifts, components, joint_certificate(parts), parts[0].trace)


def _place_component(
    overlaps: Overlaps, sizes: IntArray, run: Run, max_rank: int | None, start: FloatArray | None
) -> Placement:
    if len(sizes) > 1:
        unit = _unit(overlaps)  # so that the result does not depend on the unit of the data
        scaled = replace(overlaps, means=overlaps.means / unit, moments=overlaps.moments / unit**2)
        if start is not None:
            start = np.concatenate([start[: -len(sizes)], start[-len(sizes) :] / unit])
        placement = place(matching_form(scaled, sizes), sizes, run, max_rank=max_rank, start=start)
        certificate, square = placement.certificate, unit**2
        certificate = replace(
            certificate,
            objective=certificate.objective * square,
            bound=certificate.bound * square,
            noise=certificate.noise * square,
            smallest=None if certificate.smallest is None else certificate.smallest * square,
        )
        return replace(placement, shifts=placement.shifts * unit, certificate=certificate)
    width = int(sizes[0])
    trivial = Certificate(0.0, 0.0, width, PLACEMENT_CLAIM, PLACEMENT_TOL, smallest=0.0)
    return Placement(np.eye(width)[None], np.zeros((1, width)), trivial, Trace(np.zeros(1), Stop.CONVERGED))


def _unit(overlaps: Overlaps) -> float:
    """Return the root mean square coordinate of shared points: shifts have the unit of the data, frames have none."""
    squares = np.einsum("ejj->e", overlaps.moments)
    largest = float(squares.max(initial=0.0))
    return float(np.sqrt(np.mean(squares / largest)) * np.sqrt(largest)) if largest > 0 else 1.0


def joint_certificate(placements: list[Placement]) -> Certificate:
    """Return the certificate of independent problems solved together."""
    parts = [placement.certificate for placement in placements]
    smallest = [part.smallest for part in parts if part.smallest is not None]
    return replace(
        parts[0],
        objective=sum(part.objective for part in parts),
        bound=sum(part.bound for part in parts),
        rank=max(part.rank for part in parts),
        noise=sum(part.noise for part in parts),
        violation=max(part.violation for part in parts),
        smallest=min(smallest) if len(smallest) == len(parts) else None,
    )


def blend(members: Membership, images: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean (n, p) of each point's images, and their root mean square distance (n,) from it."""
    n = members.n_points
    total = np.bincount(members.points, members.weights, n)
    share = members.weights / total[members.points]
    mean: FloatArray = np.stack([np.bincount(members.points, share * column, n) for column in images.T], axis=1)
    squares = np.square(images - mean[members.points]).sum(axis=1)
    disagreement: FloatArray = np.sqrt(np.bincount(members.points, share * squares, n))
    return mean, disagreement
