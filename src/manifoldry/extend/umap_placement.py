"""New points in UMAP's layout: each is moved by negative sampling among the fitted points, which stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.geometry.fuzzy import mean_length, membership_strengths
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.solve.leave_one_out import SampledLeftOut
from manifoldry.solve.negative_sampling import LayoutParameters, sampling_rates
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

NEW_ROWS_PER_TASK = 512
N_SWEEPS, LEARNING_RATE_SHARE = 30, 0.25
"""Sweeps of a new point, and the share of the learning rate with which they begin."""
MAX_SAMPLE_RATE = 10_000
"""Negative samples per edge in a model file; 5 are usual, and with these a point takes about a second."""
MAX_EXTENT = 1e15
"""Coordinates of a loaded layout: the squares of their differences are finite in single precision."""


@dataclass(frozen=True)
class UMAPPlacement:
    """A new point begins at the mean of its neighbors, weighted by membership, and moves as the fitted ones did.

    The fitted points do not move, and random numbers are the same for every new one: the place of a point depends
    neither on the others of its batch nor on its index among them. A new point that coincides with a fitted one takes
    its place (mcinnes2018).

    ``parameters`` are those of the layout, with the learning rate of new points; ``local_connectivity`` and ``mean``
    those of the fitted points' `membership_strengths`. The nearest neighbor of a fitted point has membership 1, that of
    a new point need not, so one less is taken. ``first_sweep`` is the number of the first sweep; each has its own seed.
    """

    index: NeighborIndex
    layout: FloatArray
    parameters: LayoutParameters
    local_connectivity: float
    mean: float
    first_sweep: int
    seeds: IntArray

    @classmethod
    def of(
        cls,
        index: NeighborIndex,
        layout: FloatArray,
        parameters: LayoutParameters,
        local_connectivity: float,
        graph: NeighborGraph,
        run: Run,
    ) -> UMAPPlacement:
        """Return the placement in a finished layout of the points of ``graph``."""
        rng = run.rng("new points")
        parameters = replace(parameters, learning_rate=LEARNING_RATE_SHARE * parameters.learning_rate)
        mean = mean_length(graph.indptr, graph.lengths)
        first_sweep, seeds = int(rng.integers(2**32)), rng.integers(2**64, size=N_SWEEPS, dtype=np.uint64)
        return cls(index, layout, parameters, local_connectivity, mean, first_sweep, seeds)

    def _check_loaded(self) -> None:
        """Refuse numbers for which compiled loops, which check no index, would read beyond their tables."""
        tables = np.concatenate([np.ravel(table) for table in self.parameters.tables()])
        extent = float(np.abs(self.layout).max(initial=0.0))
        steps = (self.parameters.learning_rate, self.parameters.negative_sample_rate, self.mean)
        counts = 0 <= self.first_sweep < 2**32 and self.parameters.negative_sample_rate <= MAX_SAMPLE_RATE
        sound = counts and all(0 <= step < MAX_EXTENT for step in steps)
        if not (sound and np.isfinite(tables).all() and extent < MAX_EXTENT):
            raise ValueError("A layout of UMAP has finite places and parameters; got others.")

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        from manifoldry.compiled.umap_layout import place_rows

        near, away = self.index.query(X, run)
        order = np.argsort(away, axis=1, kind="stable")
        near, away = np.take_along_axis(near, order, 1), np.take_along_axis(away, order, 1)
        listed = np.isfinite(away)
        indptr = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
        certain = max(0.0, self.local_connectivity - 1.0)
        weights = np.zeros(away.shape)
        weights[listed] = membership_strengths(indptr, away[listed], run, certain, self.mean).values
        where = self.layout[np.maximum(near, 0)]
        placed = (np.einsum("ij,ijc->ic", weights, where) / weights.sum(axis=1)[:, None]).astype(np.float32)
        rates = sampling_rates(weights[listed], np.repeat(weights.max(axis=1), listed.sum(axis=1)))
        edges = indptr, near[listed].astype(np.int32), rates
        p = self.parameters
        how = p.tables(), p.negative_sample_rate, np.float32(p.learning_rate), np.uint32(self.first_sweep)
        # Compiled for arrays that may be written, which those of a memory-mapped pickle may not.
        layout, seeds = np.require(self.layout, requirements="W"), np.require(self.seeds, requirements="W")
        run.map(
            lambda lo, hi: place_rows(*edges, layout, placed, *how, seeds, lo, hi),
            run.ranges(len(placed), NEW_ROWS_PER_TASK),
        )
        known = away[:, 0] == 0
        placed[known] = self.layout[near[known, 0]]
        return placed

    def left_out(self, run: Run) -> SampledLeftOut:
        """Return the loss of a fitted point left out of the frozen layout."""
        return SampledLeftOut.of(self.layout, self.parameters, run)
