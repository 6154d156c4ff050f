"""New points in a layout of SNE's kin: each finds its own place among points that stay where they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.geometry.entropic import REACH, choice_rows
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.solve.fields import Landscape, Profile, choose_field
from manifoldry.values import Array, FloatArray, IntArray

STEPS, RATE, MOMENTUM, LONGEST = 250, 0.5, 0.6, 1.0
ARRIVED = 1e-5
"""A step this short, in units of the kernel's width, is the last."""
PAIRS = 1_000_000
"""Pairs of listed neighbors looked at together."""
TINY = 1e-30
"""Potentials below count as that: so far out nothing repels."""


@dataclass(frozen=True)
class MatchedPlacement:
    r"""The place y of least divergence :math:`-\sum_j p_j \ln w(\|y - y_j\|^2) + \ln \phi(y)` for each new point.

    p are its probabilities of choosing old neighbors and :math:`\phi` is the potential of the old layout, which the
    new points do not change: so a batch gives what its points give one by one. A new point that coincides with an old
    one takes its place.

    Parameters
    ----------
    index : NeighborIndex
        Finds the old neighbors.
    layout : ndarray of shape (n, d)
        Where the old points are.
    profile : Profile
        The kernel w.
    landscape : Landscape
        The potential and its gradient anywhere.
    perplexity : float
        Of p.

    Notes
    -----
    References: policar2023.
    """

    index: NeighborIndex
    layout: FloatArray
    profile: Profile
    landscape: Landscape
    perplexity: float

    @classmethod
    def of(
        cls, index: NeighborIndex, layout: FloatArray, profile: Profile, perplexity: float, run: Run
    ) -> MatchedPlacement:
        """Return the rule for a finished layout."""
        landscape = choose_field(profile, len(layout), layout.shape[1]).landscape(layout, None, run)
        return cls(index.narrowed(int(np.ceil(REACH * perplexity))), layout, profile, landscape, perplexity)

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        neighbors, distances = self.index.query(X, run)
        p = self._choices(neighbors, distances, run)
        Y = np.empty((len(p), self.layout.shape[1]))

        def block(lo: int, hi: int) -> None:
            Y[lo:hi] = self._descend(self.layout[np.maximum(neighbors[lo:hi], 0)], p[lo:hi])

        run.map(block, run.ranges(len(p), max(1, min(512, PAIRS // p.shape[1] ** 2))), blas=True)
        known = np.flatnonzero(distances.min(axis=1) == 0)
        Y[known] = self.layout[neighbors[known, np.argmin(distances[known], axis=1)]]
        return Y

    def _choices(self, neighbors: IntArray, distances: FloatArray, run: Run) -> FloatArray:
        """Return the probabilities of the listed neighbors, of shape (m, k); 0 where none is listed."""
        listed = neighbors >= 0
        ends = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
        p = np.zeros(neighbors.shape)
        p[listed] = choice_rows(ends, distances[listed], self.perplexity, run)[0]
        return p

    def _descend(self, near: FloatArray, p: FloatArray) -> FloatArray:
        """Return the places of points that choose ``near`` (m, k, d) with probabilities ``p`` (m, k)."""
        alone = Run(0, 1)
        Y = self._start(near, p, alone)
        moving, velocity = np.arange(len(Y)), np.zeros_like(Y)
        for _ in range(STEPS):
            slope = self._slope(Y[moving], near[moving], p[moving], alone)
            velocity = np.clip(MOMENTUM * velocity - RATE * slope, -LONGEST, LONGEST)
            Y[moving] += velocity
            on = np.abs(velocity).max(axis=1) > ARRIVED
            moving, velocity = moving[on], velocity[on]
            if len(moving) == 0:
                break
        return Y

    def _start(self, near: FloatArray, p: FloatArray, run: Run) -> FloatArray:
        """Return the best of the neighbors' places: the mean of several clusters' is nowhere."""
        m, k, d = near.shape
        logs = -np.einsum("ij,ilj->il", p, np.log(self.profile.weight(_squares(near[:, :, None] - near[:, None]))))
        potential, _ = self.landscape(near.reshape(m * k, d), run)
        value = logs + np.log(np.maximum(potential, TINY)).reshape(m, k)
        return near[np.arange(m), np.argmin(np.where(p > 0, value, np.inf), axis=1)].copy()

    def _slope(self, Y: FloatArray, near: FloatArray, p: FloatArray, run: Run) -> FloatArray:
        """Return half the gradient."""
        away = Y[:, None, :] - near
        potential, slope = self.landscape(Y, run)
        pull = np.einsum("ij,ijc->ic", p * self.profile.pull(_squares(away)), away)
        return pull + 0.5 * slope / np.maximum(potential, TINY)[:, None]


def _squares(differences: FloatArray) -> FloatArray:
    return np.einsum("...c,...c->...", differences, differences)
