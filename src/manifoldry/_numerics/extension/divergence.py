"""New points in a layout of SNE or its kin: each minimizes its own divergence against the frozen layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.descent.divergence import MIN_POTENTIAL
from manifoldry._numerics.descent.leave_one_out import JointLeftOut
from manifoldry._numerics.descent.optimizer import descend_rows
from manifoldry._numerics.geometry.entropic import NEIGHBORS_PER_PERPLEXITY, probability_rows
from manifoldry._numerics.repulsion import LayoutKernel, Potential, choose_repulsion
from manifoldry.graph._search import NeighborIndex

PAIRS_PER_BLOCK = 1_000_000
"""Pairs of listed neighbors that are held together."""


@dataclass(frozen=True)
class DivergencePlacement:
    r"""The place y of least divergence :math:`-\sum_j p_j \ln w(\|y - y_j\|^2) + \ln \phi(y)` for each new point.

    p are its conditional probabilities over the fitted points, of the given perplexity, w is the kernel and
    :math:`\phi` the potential of the layout, which new points do not change: so a batch gives what its points give one
    by one (policar2023). A new point that coincides with a fitted one takes its place. ``joint`` tells whether the
    layout was fitted to joint probabilities.
    """

    index: NeighborIndex
    layout: FloatArray
    kernel: LayoutKernel
    potential: Potential
    perplexity: float
    joint: bool = True

    @classmethod
    def of(
        cls,
        index: NeighborIndex,
        layout: FloatArray,
        kernel: LayoutKernel,
        perplexity: float,
        run: Run,
        joint: bool = True,
    ) -> DivergencePlacement:
        """Return the placement in a finished layout."""
        potential = choose_repulsion(kernel, *layout.shape).potential(layout, None, run)
        index = index.narrowed(int(np.ceil(NEIGHBORS_PER_PERPLEXITY * perplexity)))
        return cls(index, layout, kernel, potential, perplexity, joint)

    def _check_loaded(self) -> None:
        """Refuse a potential in another dimension than the layout: compiled loops check no index."""
        exact = getattr(self.potential, "layout", self.potential)
        if hasattr(exact, "columns") and len(exact.columns) != self.layout.shape[1]:
            raise ValueError(f"A layout of {self.layout.shape[1]} dimensions has no potential in {len(exact.columns)}.")

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        neighbors, distances = self.index.query(X, run)
        p = self._probabilities(neighbors, distances, run)
        Y = np.empty((len(p), self.layout.shape[1]))

        def block(lo: int, hi: int) -> None:
            Y[lo:hi] = self._minimize(self.layout[np.maximum(neighbors[lo:hi], 0)], p[lo:hi])

        run.map(block, run.ranges(len(p), max(1, min(512, PAIRS_PER_BLOCK // p.shape[1] ** 2))), blas=True)
        known = np.flatnonzero(distances.min(axis=1) == 0)
        Y[known] = self.layout[neighbors[known, np.argmin(distances[known], axis=1)]]
        return Y

    def left_out(self, run: Run) -> JointLeftOut | None:
        """Return the loss of a fitted point left out of the frozen layout; None of conditional probabilities."""
        return JointLeftOut.of(self.layout, self.kernel, self.potential, run) if self.joint else None

    def _probabilities(self, neighbors: IntArray, distances: FloatArray, run: Run) -> FloatArray:
        """Return the probabilities of the listed neighbors, of shape (m, k); 0 where none is listed."""
        listed = neighbors >= 0
        ends = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
        p = np.zeros(neighbors.shape)
        p[listed] = probability_rows(ends, distances[listed], self.perplexity, run)[0]
        return p

    def _minimize(self, near: FloatArray, p: FloatArray) -> FloatArray:
        """Return the places of points whose neighbors at ``near`` (m, k, d) have probabilities ``p`` (m, k)."""
        single = Run(0, 1)
        Y = self._start(near, p, single)

        def half_gradient(places: FloatArray, rows: IntArray) -> FloatArray:
            return self._half_gradient(places, near[rows], p[rows], single)

        # Lengths are in units of the kernel's width.
        descend_rows(Y, half_gradient, learning_rate=0.5, momentum=0.6, max_move=1.0, max_iter=250, tol=1e-5)
        return Y

    def _start(self, near: FloatArray, p: FloatArray, run: Run) -> FloatArray:
        """Return the best of the neighbors' places: the mean of several clusters' would be between them."""
        m, k, d = near.shape
        logs = -np.einsum("ij,ilj->il", p, np.log(self.kernel.value(_squares(near[:, :, None] - near[:, None]))))
        potential, _ = self.potential(near.reshape(m * k, d), run)
        value = logs + np.log(np.maximum(potential, MIN_POTENTIAL)).reshape(m, k)
        return near[np.arange(m), np.argmin(np.where(p > 0, value, np.inf), axis=1)].copy()

    def _half_gradient(self, Y: FloatArray, near: FloatArray, p: FloatArray, run: Run) -> FloatArray:
        away = Y[:, None, :] - near
        potential, gradient = self.potential(Y, run)
        attraction = np.einsum("ij,ijc->ic", p * self.kernel.attraction(_squares(away)), away)
        return attraction + 0.5 * gradient / np.maximum(potential, MIN_POTENTIAL)[:, None]


def _squares(differences: FloatArray) -> FloatArray:
    return np.einsum("...c,...c->...", differences, differences)
