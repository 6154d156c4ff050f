"""Distances between neighborhoods instead of points: divergences of the Gaussians of a point and its neighbors."""

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
"""Neighbors that a patch has at most, the nearest: of a radius that lists hundreds they tell no more."""

PATCH_SHRINKAGE = 0.1
"""Variance added in every direction, in units of the patches' own. From 0.01 to 10 the labels of neighbors agree about
as often on six real sets; a tenth is best or nearly so on each."""

DIVERGENCE_ROUNDING = 200 * float(np.finfo(float).eps)
"""Divergences up to this share of the terms they are made of are rounding, and 0, as those of equal patches."""


@dataclass(frozen=True)
class Patches:
    """Some points with their neighbors: ``members`` (m, p), the point itself first, and ``weights`` that sum up to 1.

    Weights of 0 pad short lists. ``own`` are the rows of new points, or their distances to all fitted ones, which
    stand for the first member; None where it is a fitted point.
    """

    members: IntArray
    weights: FloatArray
    own: Any = None

    @classmethod
    def of_lists(cls, neighbors: IntArray, centers: IntArray, own: Any = None) -> Patches:
        """Return the patches of lists (m, width) of neighbors, padded with -1."""
        near = neighbors[:, :MAX_PATCH_NEIGHBORS]
        listed = np.column_stack([np.ones(len(near), dtype=bool), near >= 0])
        members = np.column_stack([centers, np.where(near >= 0, near, centers[:, None])])
        return cls(members, listed / listed.sum(axis=1, keepdims=True), own)

    @classmethod
    def of_graph(cls, lists: NeighborGraph) -> Patches:
        """Return the patches of a directed graph whose rows are in ascending order of distance."""
        width = min(int(lists.degrees.max(initial=0)), MAX_PATCH_NEIGHBORS)
        slots = np.arange(width)
        listed = slots < lists.degrees[:, None]
        near = np.where(listed, lists.indices[np.where(listed, lists.indptr[:-1, None] + slots, 0)], -1)
        return cls.of_lists(near, np.arange(lists.n_points))

    def taken(self, which: IntArray) -> Patches:
        """Return some of the patches."""
        return Patches(self.members[which], self.weights[which], None if self.own is None else self.own[which])


@dataclass(frozen=True)
class LocalGaussians:
    r"""The Gaussian :math:`N(\mu_i, C_i + \sigma^2 I)` of every patch, a point and its neighbors.

    :math:`\sigma^2`, the same for all, is the median over the patches of
    :math:`\mathrm{tr}\, C_i^2 / \mathrm{tr}\, C_i`, the mean of their variances weighted by these, times ``shrinkage``.
    So a divergence depends on the span of two patches alone, however many features there are, and is computed from the
    inner products of their members by Woodbury's formula and the determinant lemma: rows or distances serve.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, D), or distances (n, n) if ``pairwise``
        The fitted points.
    patches : Patches
        One for each.
    noise : float
        The variance :math:`\sigma^2`.
    axes, variances : ndarrays of shape (n, p, r) and (n, r)
        Of every patch: eigenvectors of the inner products of its weighted members, and eigenvalues.
    pairwise : bool
        Whether ``X`` holds distances.

    Notes
    -----
    References: levada2023, tipping1999.
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
        known = cls(X, Patches.of_graph(lists), 1.0, np.empty((0, 0, 0)), np.empty((0, 0)), pairwise)
        with run.stage("local Gaussians"):
            axes, variances = known.principal(known.patches)
        total = variances.sum(axis=1)
        real = total > 0
        size = np.square(variances[real]).sum(axis=1) / total[real]
        # Where every point has as many copies as neighbors, any variance makes lengths that are distances.
        noise = shrinkage * float(np.median(size)) if real.any() else 1.0
        return replace(known, noise=noise, axes=axes, variances=variances)

    def lengths(self, pairs: IntArray, kind: PatchDivergence) -> FloatArray:
        """Return the lengths between the patches of fitted points, given by their indices (m, 2)."""
        i, j = pairs.T
        return self._lengths(self.patches, i, self.axes, self.variances, j, kind)

    def lengths_of_new(self, Q: Any, neighbors: IntArray, same: IntArray, kind: PatchDivergence) -> FloatArray:
        """Return the lengths (m, width) from new points, whose patches are they and their neighbors, to these.

        A new point that coincides with a fitted one has the patch of that one, given by ``same``, else -1.
        """
        m, width = neighbors.shape
        lengths = np.full((m, width), np.inf)
        new = np.flatnonzero(same < 0)
        n_near = self.patches.members.shape[1] - 1
        mine = Patches.of_lists(neighbors[new][:, :n_near], neighbors[new, 0], Q[new])
        place, column = np.nonzero(neighbors[new] >= 0)
        axes, variances = self.principal(mine)
        lengths[new[place], column] = self._lengths(mine, place, axes, variances, neighbors[new][place, column], kind)
        old = np.flatnonzero(same >= 0)
        place, column = np.nonzero(neighbors[old] >= 0)
        pairs = np.column_stack([same[old][place], neighbors[old][place, column]])
        lengths[old[place], column] = self.lengths(pairs, kind)
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
        self, mine: Patches, i: IntArray, axes: FloatArray, variances: FloatArray, j: IntArray, kind: PatchDivergence
    ) -> FloatArray:
        lengths = np.empty(len(i))
        for block in self._blocks(len(i), mine.members.shape[1]):
            a, b = i[block], j[block]
            cross, toward_a, toward_b, gap = self._between(mine.taken(a), self.patches.taken(b))
            U, V = axes[a], self.axes[b]
            # In the principal axes B = A' U of both patches, which are as long as their deviations.
            shared = U.transpose(0, 2, 1) @ cross @ V
            along = (np.einsum("epr,ep->er", U, toward_a), np.einsum("epr,ep->er", V, toward_b))
            pair = PatchPair(variances[a], self.variances[b], shared, *along, gap, self.noise)
            lengths[block] = pair.length(kind)
        return lengths

    def _between(self, mine: Patches, theirs: Patches) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return inner products of the weighted members of two patches each, about their means, shape (m, p, p).

        Then those with the difference of the means, (m, p) of either, and the square of that difference, (m,).
        """
        if self.pairwise:
            return _between_by_distances(self.X, mine, theirs)
        rows, means = [], []
        for patches in (mine, theirs):
            members = gather(self.X, patches.members)
            if patches.own is not None:
                members[:, 0] = gather(patches.own, np.arange(patches.own.shape[0]))
            mean = np.einsum("ep,epd->ed", patches.weights, members)
            rows.append(np.sqrt(patches.weights)[:, :, None] * (members - mean[:, None]))
            means.append(mean)
        away = means[1] - means[0]
        along = [np.einsum("epd,ed->ep", centered, away) for centered in rows]
        return rows[0] @ rows[1].transpose(0, 2, 1), along[0], along[1], np.square(away).sum(axis=1)


def _between_by_distances(
    D: Any, mine: Patches, theirs: Patches
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return what `LocalGaussians._between` does, from distances alone."""
    across, inside, outside = (-0.5 * _squares(D, *ends) for ends in ((mine, theirs), (mine, mine), (theirs, theirs)))
    w, v = mine.weights, theirs.weights
    rows, columns = np.einsum("epq,eq->ep", across, v), np.einsum("epq,ep->eq", across, w)
    mean = np.einsum("ep,ep->e", rows, w)
    cross = across - rows[:, :, None] - columns[:, None, :] + mean[:, None, None]
    toward_mine = rows - np.einsum("epq,eq->ep", inside, w)
    toward_theirs = np.einsum("epq,eq->ep", outside, v) - columns
    toward_mine -= np.einsum("ep,ep->e", toward_mine, w)[:, None]
    toward_theirs -= np.einsum("ep,ep->e", toward_theirs, v)[:, None]
    own = np.einsum("epq,ep,eq->e", inside, w, w) + np.einsum("epq,ep,eq->e", outside, v, v)
    p, q = np.sqrt(w), np.sqrt(v)
    return p[:, :, None] * cross * q[:, None, :], p * toward_mine, q * toward_theirs, np.maximum(own - 2 * mean, 0.0)


def _squares(D: Any, mine: Patches, theirs: Patches) -> FloatArray:
    """Return the squared distances between the members of two patches each; new points bring their own."""
    between: Array = np.asarray(D[mine.members[:, :, None], theirs.members[:, None, :]], dtype=np.float64)
    for patches, others, view in ((mine, theirs, between), (theirs, mine, between.transpose(0, 2, 1))):
        if patches.own is not None:
            view[:, 0] = np.take_along_axis(np.asarray(patches.own), others.members, axis=1)
    if mine.own is not None and theirs.own is not None:
        between[:, 0, 0] = 0.0
    return between**2


@dataclass(frozen=True)
class PatchPair:
    r"""Pairs of Gaussians :math:`N(\mu, B B^T + \sigma^2 I)` by what their divergences need.

    Parameters
    ----------
    mine, theirs : ndarrays of shape (m, r)
        Squared lengths of the orthogonal columns of :math:`B_i` and :math:`B_j`.
    shared : ndarray of shape (m, r, r)
        :math:`B_i^T B_j`.
    along_mine, along_theirs : ndarrays of shape (m, r)
        :math:`B_i^T (\mu_j - \mu_i)` and :math:`B_j^T (\mu_j - \mu_i)`.
    gap : ndarray of shape (m,)
        :math:`\|\mu_j - \mu_i\|^2`.
    noise : float
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
