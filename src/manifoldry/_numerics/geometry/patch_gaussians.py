"""Distances between neighborhoods: divergences of the Gaussians of a point and its neighbors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, gather

PatchDivergence = Literal["kl", "bhattacharyya", "hellinger"]
DIVERGENCES: tuple[str, ...] = get_args(PatchDivergence)

MAX_PATCH_NEIGHBORS = 30
"""Most neighbors of a patch: hundreds, as a radius may list, carry no more information."""
PATCH_SHRINKAGE = 0.1
"""Variance added in every direction, relative to that of the patches. From 0.01 to 10 labels of neighbors agree about
as often on six real sets; 0.1 is best or nearly so on each."""
DIVERGENCE_ROUNDING = 200 * float(np.finfo(float).eps)
"""Divergences below this share of their terms are rounding and count as 0."""


@dataclass(frozen=True)
class Patches:
    """Points with their neighbors: ``members`` (m, p), the point itself first, and ``weights`` that sum to 1.

    Weights of 0 pad short lists. ``own`` are the rows of new points, or their distances to all fitted ones, which
    replace the first member; None if it is a fitted point.
    """

    members: IntArray
    weights: FloatArray
    own: Any = None

    @classmethod
    def of_lists(cls, neighbors: IntArray, centers: IntArray, own: Any = None) -> Patches:
        """Return the patches of lists (m, width) of neighbors, padded with -1."""
        nearest = neighbors[:, :MAX_PATCH_NEIGHBORS]
        listed = np.column_stack([np.ones(len(nearest), dtype=bool), nearest >= 0])
        members = np.column_stack([centers, np.where(nearest >= 0, nearest, centers[:, None])])
        return cls(members, listed / listed.sum(axis=1, keepdims=True), own)

    @classmethod
    def of_graph(cls, lists: NeighborGraph) -> Patches:
        """Return the patches of a directed graph whose rows are in ascending order of distance."""
        width = min(int(lists.degrees.max(initial=0)), MAX_PATCH_NEIGHBORS)
        slots = np.arange(width)
        listed = slots < lists.degrees[:, None]
        nearest = np.where(listed, lists.indices[np.where(listed, lists.indptr[:-1, None] + slots, 0)], -1)
        return cls.of_lists(nearest, np.arange(lists.n_points))

    def taken(self, rows: IntArray) -> Patches:
        """Return some of the patches."""
        return Patches(self.members[rows], self.weights[rows], None if self.own is None else self.own[rows])


@dataclass(frozen=True)
class LocalGaussians:
    r"""The Gaussian :math:`N(\mu_i, C_i + \sigma^2 I)` of every patch (levada2023, tipping1999).

    :math:`\sigma^2`, the ``noise`` of all patches, is their median of :math:`\mathrm{tr}\, C_i^2 / \mathrm{tr}\, C_i`,
    the mean of their variances weighted by these, times ``shrinkage``. So a divergence depends on the span of two
    patches alone, however many features there are, and is computed from the inner products of their members by
    Woodbury's formula and the determinant lemma, from rows or distances.

    ``X`` (n, D) may be sparse; if ``pairwise`` it has the distances (n, n). ``axes`` (n, p, r) and ``variances`` (n, r)
    are the eigenvectors and eigenvalues of the inner products of the weighted members of every patch.
    """

    X: Any
    patches: Patches
    noise: float
    axes: FloatArray
    variances: FloatArray
    pairwise: bool = False

    @classmethod
    def of(
        cls, X: Any, lists: NeighborGraph, run: Run, pairwise: bool = False, shrinkage: float = PATCH_SHRINKAGE
    ) -> LocalGaussians:
        """Return the Gaussians of a directed graph of nearest neighbors."""
        model = cls(X, Patches.of_graph(lists), 1.0, np.empty((0, 0, 0)), np.empty((0, 0)), pairwise)
        with run.stage("local Gaussians"):
            axes, variances = model.principal(model.patches)
        total = variances.sum(axis=1)
        positive = total > 0
        size = np.square(variances[positive]).sum(axis=1) / total[positive]
        # If all neighbors are copies, any variance gives lengths that are distances.
        noise = shrinkage * float(np.median(size)) if positive.any() else 1.0
        return replace(model, noise=noise, axes=axes, variances=variances)

    def lengths(self, pairs: IntArray, kind: PatchDivergence) -> FloatArray:
        """Return the lengths between the patches of fitted points, given by their indices (m, 2)."""
        i, j = pairs.T
        return self._lengths(self.patches, i, self.axes, self.variances, j, kind)

    def lengths_of_new(self, Q: Any, neighbors: IntArray, coincident: IntArray, kind: PatchDivergence) -> FloatArray:
        """Return the lengths (m, width) from new points, with their neighbors as patches, to these neighbors.

        A new point that coincides with a fitted one has the patch of that one, given by ``coincident``, else -1.
        """
        m, width = neighbors.shape
        lengths = np.full((m, width), np.inf)
        new = np.flatnonzero(coincident < 0)
        n_near = self.patches.members.shape[1] - 1
        patches = Patches.of_lists(neighbors[new][:, :n_near], neighbors[new, 0], Q[new])
        row, column = np.nonzero(neighbors[new] >= 0)
        axes, variances = self.principal(patches)
        lengths[new[row], column] = self._lengths(patches, row, axes, variances, neighbors[new][row, column], kind)
        copies = np.flatnonzero(coincident >= 0)
        row, column = np.nonzero(neighbors[copies] >= 0)
        pairs = np.column_stack([coincident[copies][row], neighbors[copies][row, column]])
        lengths[copies[row], column] = self.lengths(pairs, kind)
        return lengths

    def principal(self, patches: Patches) -> tuple[FloatArray, FloatArray]:
        """Return eigenvectors (m, p, r) and eigenvalues (m, r) of the inner products of the patches' members."""
        m, p = patches.members.shape
        rank = p - 1 if self.pairwise else min(p - 1, self.X.shape[1])
        axes, variances = np.empty((m, p, rank)), np.empty((m, rank))
        for block in self._blocks(m, p):
            grams = self._between(patches.taken(block), patches.taken(block))[0]
            values, vectors = np.linalg.eigh(grams)
            axes[block], variances[block] = vectors[:, :, p - rank :], np.maximum(values[:, p - rank :], 0.0)
        return axes, variances

    def _blocks(self, m: int, p: int) -> list[IntArray]:
        step = max(1, MAX_STACK_ENTRIES // (2 * p * max(p, 1 if self.pairwise else self.X.shape[1])))
        return [np.arange(lo, min(lo + step, m)) for lo in range(0, m, step)]

    def _lengths(
        self, patches: Patches, i: IntArray, axes: FloatArray, variances: FloatArray, j: IntArray, kind: PatchDivergence
    ) -> FloatArray:
        lengths = np.empty(len(i))
        for block in self._blocks(len(i), patches.members.shape[1]):
            a, b = i[block], j[block]
            cross, toward_a, toward_b, gap = self._between(patches.taken(a), self.patches.taken(b))
            U, V = axes[a], self.axes[b]
            # In the principal axes B = A' U of both patches, scaled by their standard deviations.
            shared = U.transpose(0, 2, 1) @ cross @ V
            along = (np.einsum("epr,ep->er", U, toward_a), np.einsum("epr,ep->er", V, toward_b))
            pair = PatchPair(variances[a], self.variances[b], shared, *along, gap, self.noise)
            lengths[block] = pair.length(kind)
        return lengths

    def _between(self, first: Patches, second: Patches) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return inner products (m, p, p) of the weighted members of two patches each, about their means.

        Then those with the difference of the means, (m, p) for either, and the squared difference (m,).
        """
        if self.pairwise:
            return _between_by_distances(self.X, first, second)
        rows, means = [], []
        for patches in (first, second):
            members = gather(self.X, patches.members)
            if patches.own is not None:
                members[:, 0] = gather(patches.own, np.arange(patches.own.shape[0]))
            mean = np.einsum("ep,epd->ed", patches.weights, members)
            rows.append(np.sqrt(patches.weights)[:, :, None] * (members - mean[:, None]))
            means.append(mean)
        difference = means[1] - means[0]
        along = [np.einsum("epd,ed->ep", centered, difference) for centered in rows]
        return rows[0] @ rows[1].transpose(0, 2, 1), along[0], along[1], np.square(difference).sum(axis=1)


def _between_by_distances(
    D: Any, first: Patches, second: Patches
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the results of `LocalGaussians._between` from distances alone."""
    across, inside, outside = (
        -0.5 * _squares(D, *ends) for ends in ((first, second), (first, first), (second, second))
    )
    w, v = first.weights, second.weights
    rows, columns = np.einsum("epq,eq->ep", across, v), np.einsum("epq,ep->eq", across, w)
    mean = np.einsum("ep,ep->e", rows, w)
    cross = across - rows[:, :, None] - columns[:, None, :] + mean[:, None, None]
    toward_first = rows - np.einsum("epq,eq->ep", inside, w)
    toward_second = np.einsum("epq,eq->ep", outside, v) - columns
    toward_first -= np.einsum("ep,ep->e", toward_first, w)[:, None]
    toward_second -= np.einsum("ep,ep->e", toward_second, v)[:, None]
    own = np.einsum("epq,ep,eq->e", inside, w, w) + np.einsum("epq,ep,eq->e", outside, v, v)
    p, q = np.sqrt(w), np.sqrt(v)
    return p[:, :, None] * cross * q[:, None, :], p * toward_first, q * toward_second, np.maximum(own - 2 * mean, 0.0)


def _squares(D: Any, first: Patches, second: Patches) -> FloatArray:
    """Return the squared distances between the members of two patches each; new points have their own."""
    between: Array = np.asarray(D[first.members[:, :, None], second.members[:, None, :]], dtype=np.float64)
    for patches, others, view in ((first, second, between), (second, first, between.transpose(0, 2, 1))):
        if patches.own is not None:
            view[:, 0] = np.take_along_axis(np.asarray(patches.own), others.members, axis=1)
    if first.own is not None and second.own is not None:
        between[:, 0, 0] = 0.0
    return between**2


@dataclass(frozen=True)
class PatchPair:
    r"""Pairs of Gaussians :math:`N(\mu, B B^T + \sigma^2 I)` by the terms of their divergences.

    ``mine`` and ``theirs`` (m, r) are squared lengths of the orthogonal columns of :math:`B_i` and :math:`B_j`,
    ``shared`` (m, r, r) is :math:`B_i^T B_j`, ``along_mine`` and ``along_theirs`` (m, r) are :math:`B_i^T (\mu_j -
    \mu_i)` and :math:`B_j^T (\mu_j - \mu_i)`, ``gap`` (m,) is :math:`\|\mu_j - \mu_i\|^2`, ``noise`` is
    :math:`\sigma^2`.
    """

    mine: FloatArray
    theirs: FloatArray
    shared: FloatArray
    along_mine: FloatArray
    along_theirs: FloatArray
    gap: FloatArray
    noise: float

    def length(self, kind: PatchDivergence) -> FloatArray:
        r"""Return lengths, whose squares are divergences, as the squares of distances are.

        "kl" is :math:`\sqrt{KL(i \| j) + KL(j \| i)}`, "bhattacharyya" :math:`\sqrt{B}` and "hellinger"
        :math:`\sqrt{1 - e^{-B}}`. With equal covariances S the first is Mahalanobis' distance
        :math:`\sqrt{\Delta\mu^T S^{-1} \Delta\mu}`, and the second that over :math:`\sqrt 8`.
        """
        squares = self.symmetric_kl() if kind == "kl" else self.bhattacharyya()
        terms = (self.mine.sum(axis=1) + self.theirs.sum(axis=1) + self.gap) / self.noise
        squares = np.where(squares > DIVERGENCE_ROUNDING * (1.0 + terms), squares, 0.0)
        return np.sqrt(-np.expm1(-squares) if kind == "hellinger" else squares)

    def symmetric_kl(self) -> FloatArray:
        r"""Return :math:`KL(i \| j) + KL(j \| i)`; the determinants cancel.

        By Woodbury :math:`(B B^T + \sigma^2 I)^{-1} = \sigma^{-2} (I - B (\sigma^2 + B^T B)^{-1} B^T)`.
        """
        s = self.noise
        a, b = 1.0 / (self.mine + s), 1.0 / (self.theirs + s)
        squares = np.square(self.shared)
        traces = (self.mine.sum(axis=1) - np.einsum("es,ers->e", b, squares)) / s - (self.theirs * b).sum(axis=1)
        traces += (self.theirs.sum(axis=1) - np.einsum("er,ers->e", a, squares)) / s - (self.mine * a).sum(axis=1)
        inside = (a * self.along_mine**2).sum(axis=1) + (b * self.along_theirs**2).sum(axis=1)
        return 0.5 * (traces + (2 * self.gap - inside) / s)

    def bhattacharyya(self) -> FloatArray:
        r"""Return :math:`B = \frac18 \Delta\mu^T S^{-1} \Delta\mu + \frac12 \ln \frac{|S|}{\sqrt{|S_i| |S_j|}}`.

        :math:`S = (S_i + S_j) / 2 = \sigma^2 I + W W^T` with the columns of both, :math:`W = (B_i, B_j) / \sqrt 2`, so
        :math:`|S| = \sigma^{2D} |I + W^T W / \sigma^2|`.
        """
        m, r = self.mine.shape
        K = np.empty((m, 2 * r, 2 * r))
        K[:, :r, :r] = self.mine[:, :, None] * np.eye(r)
        K[:, r:, r:] = self.theirs[:, :, None] * np.eye(r)
        K[:, :r, r:], K[:, r:, :r] = self.shared, self.shared.transpose(0, 2, 1)
        K = K / (2 * self.noise) + np.eye(2 * r)
        along = np.concatenate([self.along_mine, self.along_theirs], axis=1) / np.sqrt(2.0)
        inside = (along * np.linalg.solve(K, along[:, :, None])[:, :, 0]).sum(axis=1) / self.noise
        own = np.log1p(self.mine / self.noise).sum(axis=1) + np.log1p(self.theirs / self.noise).sum(axis=1)
        return (self.gap - inside) / (8 * self.noise) + 0.5 * (np.linalg.slogdet(K)[1] - 0.5 * own)
