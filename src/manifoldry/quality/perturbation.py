"""Affinities of fitted points after each has moved a little in the data, all others staying: t-SNE's and UMAP's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry.geometry.fuzzy import membership_strengths
from manifoldry.run import Run
from manifoldry.solve.leave_one_out import LeftOut
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

OFFSETS_BLOCK = 1_000_000
"""Numbers in the differences of rows that are held at a time."""


@dataclass(frozen=True)
class Neighborhoods:
    """Points with everyone they have an affinity to, padded to (m, k): ``listed`` tells which entries count.

    ``entries`` are their places in the arrays of the affinity matrix; ``squares`` (m, k) are the squared distances to
    them, and ``along`` (r, m, k) how far they lie along r given directions of each point.
    """

    own: IntArray
    near: IntArray
    listed: Array
    entries: IntArray
    squares: FloatArray
    along: FloatArray

    @classmethod
    def of(cls, affinities: csr_array, X: Array, own: IntArray, directions: FloatArray | None = None) -> Neighborhoods:
        """Gather the rows ``own`` of the affinities; ``directions`` have shape (m, r, d)."""
        first = affinities.indptr[own].astype(np.int64)
        counts = affinities.indptr[own + 1] - first
        places = np.arange(counts.max())
        listed = places < counts[:, None]
        entries = np.where(listed, first[:, None] + places, first[:, None])
        near = affinities.indices[entries]
        if directions is None:
            directions = np.zeros((len(own), 0, X.shape[1]))
        squares, along = np.empty(near.shape), np.empty((directions.shape[1], *near.shape))
        some = max(1, OFFSETS_BLOCK // (near.shape[1] * X.shape[1]))  # so that wide rows do not make the lists short
        for lo in range(0, len(own), some):
            here = slice(lo, lo + some)
            offsets = X[near[here]] - X[own[here]][:, None]
            squares[here] = np.einsum("ijc,ijc->ij", offsets, offsets)
            along[:, here] = np.einsum("ikc,irc->rik", offsets, directions[here])
        return cls(own, near, listed, entries, squares, along)


class PerturbedProbabilities:
    r"""Joint probabilities of SNE's kind for points that have moved; the bandwidths are those of the fit.

    With the move :math:`d_{ij} \to d'_{ij}`, :math:`p'_{j|i} \propto p_{j|i} e^{-(d'^2 - d^2) / 2 \sigma_i^2}` and, as
    only one member of j's row has moved, :math:`p'_{i|j} = q f / (1 - q + q f)` with :math:`q = p_{i|j}` and
    :math:`f = e^{-(d'^2 - d^2) / 2 \sigma_j^2}`.
    """

    def __init__(self, joint: csr_array, graph: NeighborGraph, bandwidths: FloatArray, factor: float) -> None:
        self.n, self.factor = joint.shape[0], factor
        self.precision = 0.5 / bandwidths**2
        rows = graph.rows()
        exponent = self.precision[rows] * graph.lengths**2
        exponent -= np.minimum.reduceat(exponent, graph.indptr[:-1])[rows]
        values = np.exp(-exponent)
        values /= np.add.reduceat(values, graph.indptr[:-1])[rows]
        self.forward, self.backward = _along(joint, graph, values)

    def __call__(self, around: Neighborhoods, change: FloatArray) -> LeftOut:
        """Return the probabilities after the squared distances have changed by ``change`` (m, k)."""
        exponent = np.where(around.listed, -self.precision[around.own][:, None] * change, -np.inf)
        ours = self.forward[around.entries] * np.exp(exponent - exponent.max(axis=1, keepdims=True))
        ours /= ours.sum(axis=1, keepdims=True)
        q = self.backward[around.entries]
        odds = q * np.exp(np.minimum(-self.precision[around.near] * change, 50.0))
        theirs = odds / (1.0 - q + odds)
        weights = self.factor * np.where(around.listed, ours + theirs, 0.0) / (2 * self.n)
        return LeftOut(around.own, around.near, weights)


class PerturbedMemberships:
    """UMAP's affinities for points that have moved: memberships by the local scales of the fit, united.

    Where the fit weakened the union (targets, a mixture with the intersection), so is the new one in proportion.
    """

    def __init__(self, fuzzy: csr_array, graph: NeighborGraph, local_connectivity: float, run: Run) -> None:
        found = membership_strengths(graph.indptr, graph.lengths, run, local_connectivity)
        self.rho, self.sigma = found.rho, found.sigma
        ones = np.ones(graph.n_edges)
        listed = _along(fuzzy, graph, ones)
        self.listed_forward, self.listed_backward = listed[0] > 0, listed[1] > 0
        self.weights = np.asarray(fuzzy.data, dtype=np.float64)

    def __call__(self, around: Neighborhoods, change: FloatArray) -> LeftOut:
        """Return the affinities after the squared distances have changed by ``change`` (m, k)."""
        before = around.squares
        unions = [self._union(around, np.sqrt(np.maximum(squares, 0.0))) for squares in (before, before + change)]
        ratio = np.divide(unions[1], unions[0], out=np.zeros_like(before), where=unions[0] > 0)
        weights = np.where(around.listed, self.weights[around.entries] * ratio, 0.0)
        return LeftOut(around.own, around.near, weights)

    def _union(self, around: Neighborhoods, lengths: FloatArray) -> FloatArray:
        ends = around.own[:, None], around.near
        ours, theirs = (np.exp(-np.maximum(lengths - self.rho[i], 0.0) / self.sigma[i]) for i in ends)
        ours = np.where(self.listed_forward[around.entries], ours, 0.0)
        theirs = np.where(self.listed_backward[around.entries], theirs, 0.0)
        return ours + theirs - ours * theirs


def _along(affinities: Any, graph: NeighborGraph, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values of a graph's edges along the entries (i, j) of an affinity matrix: of i -> j and of j -> i."""
    n = graph.n_points
    keys = graph.rows().astype(np.int64) * n + graph.indices
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(affinities.indptr))
    columns = affinities.indices.astype(np.int64)

    def found(wanted: IntArray) -> FloatArray:
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, values[places], 0.0)

    return found(rows * n + columns), found(columns * n + rows)
