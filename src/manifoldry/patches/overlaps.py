"""Overlaps of patches: moments of the shared points in both charts, and the quadratic form of the matching error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manifoldry.csgraph import connected_components
from manifoldry.patches.cover import Membership
from manifoldry.values import Array, FloatArray, IntArray

MIN_TIGHTNESS = 1e-3
"""Minimum tightness of a well-conditioned overlap: least singular value relative to a typical overlap's."""

MIN_HINGE_TIGHTNESS = 1e-5
"""Minimum tightness of an overlap by which patches are held if nothing firm does: it is 0.3 % as wide as a typical one
is long, which tells the two sides of a hinge apart in charts of that accuracy."""


@dataclass(frozen=True)
class Overlaps:
    """Pairs of patches that share points, first < second, with the counts of these.

    ``means`` (E, 2, r) are those of the shared points in both charts, ``moments`` (E, 2 r, 2 r) the mean products of
    their coordinates in both charts, about the origin.
    """

    first: IntArray
    second: IntArray
    counts: IntArray
    means: FloatArray
    moments: FloatArray

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, chosen: Array) -> Overlaps:
        return Overlaps(
            self.first[chosen], self.second[chosen], self.counts[chosen], self.means[chosen], self.moments[chosen]
        )

    def tightness(self, sizes: IntArray) -> FloatArray:
        """Return the condition of each overlap, between 0 (a hinge) and about 1.

        The least singular value of the cross-covariance of the shared points, which must have full rank for two
        patches to lie in one affine subspace (Theorem 1), relative to the largest of a typical overlap.
        """
        r = self.means.shape[2]
        cross = self.moments[:, :r, r:] - self.means[:, 0, :, None] * self.means[:, 1, None, :]
        rank = np.minimum(sizes[self.first], sizes[self.second])
        values = np.linalg.svd(cross, compute_uv=False)
        values = np.concatenate([values, np.zeros((len(self), 1))], axis=1)
        least = np.where(rank > 0, values[np.arange(len(self)), np.maximum(rank, 1) - 1], np.inf)
        typical = np.median(values[:, 0]) if len(self) else 1.0
        return np.where(self.counts > rank, least / (typical or 1.0), 0.0)

    def firm(self, sizes: IntArray) -> Array:
        """Return which overlaps are well conditioned."""
        return self.tightness(sizes) >= MIN_TIGHTNESS

    def holding(self, sizes: IntArray) -> Array:
        """Return which overlaps hold the patches: the firm ones, and thin ones where these leave patches apart."""
        tightness = self.tightness(sizes)
        firm = tightness >= MIN_TIGHTNESS
        part = patch_components(self[firm], len(sizes))
        return firm | ((tightness >= MIN_HINGE_TIGHTNESS) & (part[self.first] != part[self.second]))


def find_overlaps(members: Membership, f: FloatArray, n_patches: int) -> Overlaps:
    """Return all pairs of patches that share points; f (M, r) are the coordinates of the entries in their charts."""
    one, other = shared_entries(members)
    lower = members.patches[one] < members.patches[other]
    one, other = np.where(lower, one, other), np.where(lower, other, one)
    key = members.patches[one] * n_patches + members.patches[other]
    keys, pair, counts = np.unique(key, return_inverse=True, return_counts=True)
    both = np.concatenate([f[one], f[other]], axis=1)
    width, E = both.shape[1], len(keys)

    def mean(values: FloatArray) -> FloatArray:
        return np.bincount(pair, values, E) / counts

    means = np.stack([mean(both[:, a]) for a in range(width)], axis=1) if width else np.zeros((E, 0))
    moments = np.empty((E, width, width))
    for a in range(width):
        for b in range(a + 1):
            moments[:, a, b] = moments[:, b, a] = mean(both[:, a] * both[:, b])
    return Overlaps(keys // n_patches, keys % n_patches, counts, means.reshape(E, 2, width // 2), moments)


def merged_overlaps(one: Overlaps, other: Overlaps) -> Overlaps:
    """Return the overlaps by two sets of points together: counts are added, and means weighted by them."""
    n_patches = 1 + int(max(one.second.max(initial=0), other.second.max(initial=0)))
    keys, pair = np.unique(
        np.concatenate([part.first * n_patches + part.second for part in (one, other)]), return_inverse=True
    )
    mine, theirs = pair[: len(one)], pair[len(one) :]
    counts = np.zeros(len(keys), dtype=np.int64)
    counts[mine] += one.counts
    counts[theirs] += other.counts
    means, moments = np.zeros((len(keys), *one.means.shape[1:])), np.zeros((len(keys), *one.moments.shape[1:]))
    for part, where in ((one, mine), (other, theirs)):
        share = part.counts / counts[where]
        means[where] += share[:, None, None] * part.means
        moments[where] += share[:, None, None] * part.moments
    return Overlaps(keys // n_patches, keys % n_patches, counts, means, moments)


def shared_entries(members: Membership) -> tuple[IntArray, IntArray]:
    """Return all pairs of entries of a membership that belong to one point."""
    counts = np.bincount(members.points, minlength=members.n_points)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    ones, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for many in range(2, int(counts.max(initial=0)) + 1):
        begin = starts[counts == many]
        a, b = np.triu_indices(many, 1)
        ones.append((begin[:, None] + a).ravel())
        others.append((begin[:, None] + b).ravel())
    return np.concatenate(ones), np.concatenate(others)


def patch_components(overlaps: Overlaps, n_patches: int) -> IntArray:
    """Return the connected component of the patch graph that each patch is in."""
    adjacency = sp.csr_array((np.ones(len(overlaps)), (overlaps.first, overlaps.second)), shape=(n_patches, n_patches))
    return np.asarray(connected_components(adjacency, directed=False)[1], dtype=np.int64)


def matching_form(overlaps: Overlaps, sizes: IntArray) -> sp.csr_array:
    r"""Return the matrix of the matching error (5.2) over frames and shifts: blocks L_X, Z and L_G of (5.7).

    :math:`e^2 = \sum_{ij} \frac1{n_{ij}} \sum_x |R_i f_i(x) + t_i - R_j f_j(x) - t_j|^2`.
    """
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
    rows = np.concatenate(
        [
            overlaps.first[:, None] * r + steps,
            overlaps.second[:, None] * r + steps,
            r * c + overlaps.first[:, None],
            r * c + overlaps.second[:, None],
        ],
        axis=1,
    )
    where = (np.repeat(rows, 2 * r + 2, axis=1).ravel(), np.tile(rows, (1, 2 * r + 2)).ravel())
    n_rows = (r + 1) * c
    form = sp.csr_array(sp.coo_array((blocks.ravel(), where), shape=(n_rows, n_rows)))
    present = np.concatenate([(steps < sizes[:, None]).ravel(), np.ones(c, dtype=bool)])
    return form if present.all() else sp.csr_array(form[present][:, present])


def refuse_apart(n_pieces: int, disconnected: str) -> None:
    """Refuse a patch graph in several pieces, where these are not to be laid side by side."""
    if n_pieces > 1 and disconnected == "raise":
        raise ValueError(
            f"The patch graph is in {n_pieces} pieces; raise n_neighbors or overlap, or set disconnected='apart'."
        )
