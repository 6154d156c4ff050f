"""New points in UMAP's layout: each is led among points that stay where they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.geometry.fuzzy import strengths
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.solve.sampled import Forces, visit_rates
from manifoldry.values import Array, FloatArray, IntArray

ROWS = 512


@dataclass(frozen=True)
class SampledPlacement:
    """A new point begins at the mean of its neighbors, weighted by their strengths, and goes on as the old ones did.

    The old points do not move, and chance is the same for every new one: the place of a point depends neither on the
    others of its batch nor on its number among them. A new point that coincides with an old one takes its place.

    Parameters
    ----------
    index : NeighborIndex
        Finds the old neighbors.
    layout : ndarray of shape (n, d) of float32
        Where the old points are.
    forces : Forces
        What moves the new ones.
    local_connectivity, typical
        As of the old points' `strengths`; the nearest neighbor of an old point is certain to it, that of a new point
        need not be, so one less is taken as certain.
    tick : int
        When the visits of affinities begin to be counted.
    seeds : ndarray of uint64
        Chance, for each sweep.

    Notes
    -----
    References: mcinnes2018.
    """

    index: NeighborIndex
    layout: FloatArray
    forces: Forces
    local_connectivity: float
    typical: float
    tick: int
    seeds: IntArray

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        from manifoldry.compiled.placing import place_rows

        near, away = self.index.query(X, run)
        order = np.argsort(away, axis=1, kind="stable")
        near, away = np.take_along_axis(near, order, 1), np.take_along_axis(away, order, 1)
        listed = np.isfinite(away)
        indptr = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
        certain = max(0.0, self.local_connectivity - 1.0)
        weights = np.zeros(away.shape)
        weights[listed] = strengths(indptr, away[listed], run, certain, self.typical).values
        where = self.layout[np.maximum(near, 0)]
        placed = (np.einsum("ij,ijc->ic", weights, where) / weights.sum(axis=1)[:, None]).astype(np.float32)
        rates = visit_rates(weights[listed], np.repeat(weights.max(axis=1), listed.sum(axis=1)))
        affinities = indptr, near[listed].astype(np.int32), rates
        forces = self.forces.tables(), self.forces.n_random, np.float32(self.forces.learning_rate), np.uint32(self.tick)
        # Compiled for arrays that may be written, which those of a memory-mapped pickle may not.
        layout, seeds = np.require(self.layout, requirements="W"), np.require(self.seeds, requirements="W")
        run.map(
            lambda lo, hi: place_rows(*affinities, layout, placed, *forces, seeds, lo, hi),
            run.ranges(len(placed), ROWS),
        )
        known = away[:, 0] == 0
        placed[known] = self.layout[near[known, 0]]
        return placed
