"""Stitching: rigid motions of all patches that minimize the matching error of shared points, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.patches.cover import Membership
from manifoldry.patches.overlaps import Overlaps, matching_form, patch_components
from manifoldry.run import Run
from manifoldry.solve.semidefinite import Placement, place
from manifoldry.solve.semidefinite.certificate import PLACEMENT_CLAIM, PLACEMENT_TOL
from manifoldry.values import Certificate, FloatArray, IntArray, Stop, Trace


@dataclass(frozen=True)
class PlacedPatches:
    """Affine maps of all patches: coordinates f in patch i go to ``f @ frames[i] + shifts[i]``.

    ``frames`` have the shape (c, r, p), ``shifts`` (c, p), ``components`` of the patch graph (c,).
    """

    frames: FloatArray
    shifts: FloatArray
    components: IntArray

    @property
    def n_components(self) -> int:
        """Number of components of the patch graph."""
        return int(self.components.max()) + 1

    def images(self, patches: IntArray, f: FloatArray) -> FloatArray:
        """Return the images of points given by patch and coordinates, shape (M, p)."""
        placed = np.array(self.shifts[patches])
        for a in range(f.shape[1]):
            placed += f[:, a, None] * self.frames[patches, a]
        return placed


@dataclass(frozen=True)
class Stitched(PlacedPatches):
    """Rigid motions of all patches; the certificate is of all components together, the trace of the largest."""

    certificate: Certificate
    trace: Trace


def stitch(
    overlaps: Overlaps, sizes: IntArray, run: Run, max_rank: int | None = None, start: FloatArray | None = None
) -> Stitched:
    """Minimize the matching error of overlapping patches, each component of the patch graph by itself.

    A ``max_rank`` limits the dimensions used; None is as many as the smallest error needs. ``start`` holds frames and
    shifts of all patches to begin with (`FrameLayout`); several components begin with eigenvectors.
    """
    components = patch_components(overlaps, len(sizes))
    counts = np.bincount(components)
    placements: dict[int, Placement] = {}
    for number in np.argsort(-counts, kind="stable"):
        patches = np.flatnonzero(components == number)
        inside = overlaps[components[overlaps.first] == number]
        first, second = np.searchsorted(patches, inside.first), np.searchsorted(patches, inside.second)
        renumbered = replace(inside, first=first, second=second)
        begin = start if len(counts) == 1 else None
        placements[int(number)] = _place_component(renumbered, sizes[patches], run, max_rank, begin)
    return joined(components, placements, overlaps.means.shape[2])


def joined(components: IntArray, placements: dict[int, Placement], width: int) -> Stitched:
    """Return the placements of all components, by their numbers and the largest first, as one."""
    parts, c = list(placements.values()), len(components)
    p = max(part.shifts.shape[1] for part in parts)
    frames, shifts = np.zeros((c, width, p)), np.zeros((c, p))
    for number, part in placements.items():
        mine = np.flatnonzero(components == number)
        _, r, columns = part.frames.shape
        frames[mine, :r, :columns], shifts[mine, :columns] = part.frames, part.shifts
    return Stitched(frames, shifts, components, joint_certificate(parts), parts[0].trace)


def _place_component(
    overlaps: Overlaps, sizes: IntArray, run: Run, max_rank: int | None, start: FloatArray | None
) -> Placement:
    if len(sizes) > 1:
        unit = _unit(overlaps)
        same = replace(overlaps, means=overlaps.means / unit, moments=overlaps.moments / unit**2)
        if start is not None:
            start = np.concatenate([start[: -len(sizes)], start[-len(sizes) :] / unit])
        found = place(matching_form(same, sizes), sizes, run, max_rank=max_rank, start=start)
        return replace(found, shifts=found.shifts * unit, certificate=_rescaled(found.certificate, unit**2))
    width = int(sizes[0])
    certain = Certificate(0.0, 0.0, width, PLACEMENT_CLAIM, PLACEMENT_TOL, smallest=0.0)
    return Placement(np.eye(width)[None], np.zeros((1, width)), certain, Trace(np.zeros(1), Stop.CONVERGED))


def _rescaled(certificate: Certificate, factor: float) -> Certificate:
    return replace(
        certificate,
        objective=certificate.objective * factor,
        bound=certificate.bound * factor,
        noise=certificate.noise * factor,
        smallest=None if certificate.smallest is None else certificate.smallest * factor,
    )


def _unit(overlaps: Overlaps) -> float:
    """Return the root mean square coordinate of shared points: frames have no unit, shifts have that of the data."""
    squares = np.einsum("ejj->e", overlaps.moments)
    largest = float(squares.max(initial=0.0))
    return float(np.sqrt(np.mean(squares / largest)) * np.sqrt(largest)) if largest > 0 else 1.0


def joint_certificate(placements: list[Placement]) -> Certificate:
    """Return the certificate of independent problems solved side by side."""
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
    """Return the weighted mean of each point's images, shape (n, p), and their disagreement, shape (n,).

    Disagreement is the root of the weighted mean squared distance of the images from their mean.
    """
    n = members.n_points
    total = np.bincount(members.points, members.weights, n)
    share = members.weights / total[members.points]
    mean: FloatArray = np.stack([np.bincount(members.points, share * column, n) for column in images.T], axis=1)
    squares = np.square(images - mean[members.points]).sum(axis=1)
    apart: FloatArray = np.sqrt(np.bincount(members.points, share * squares, n))
    return mean, apart
