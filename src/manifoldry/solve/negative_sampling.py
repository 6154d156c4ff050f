"""UMAP's layout: attraction along sampled edges and repulsion by negative samples, every point moving itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry.run import Run
from manifoldry.solve.density import DensityGoal, DensitySampling, DensityTerm
from manifoldry.solve.descent import Optimizer, Phase, descend
from manifoldry.solve.initialization import best_scale
from manifoldry.solve.order import renumbered
from manifoldry.values import FloatArray, IntArray, Trace

LAYOUT_ROWS_PER_TASK = 2048
REPULSION_OFFSET = 1e-3
"""Added to squared distances where points repel, so that no gradient is infinite."""
N_PARTNERS = 16
"""Random partners of each point in the estimate of the objective."""
N_SCALE_BLOCKS = 4
"""Blocks of points at which the objective is estimated when a scale is sought."""

Tables = tuple[FloatArray, FloatArray]


def _lines(s: FloatArray, values: FloatArray) -> FloatArray:
    slope = np.diff(values) / np.diff(s)
    return np.column_stack([values[:-1] - slope * s[:-1], slope]).astype(np.float32)


def sampling_rates(weights: FloatArray, strongest: FloatArray | float) -> FloatArray:
    """Return weights as shares of the strongest, one over UMAP's epochs per sample, in units of 2^-32."""
    shares = np.asarray(weights, dtype=np.float64) / strongest
    return np.minimum(np.floor(shares * 2.0**32), 2.0**32 - 1).astype(np.uint32)


@dataclass(frozen=True)
class LayoutParameters:
    """The parameters of a layout by negative sampling, with UMAP's names.

    a, b are those of the layout's kernel :math:`q = 1 / (1 + a s^b)`, s the squared distance. ``negative_sample_rate``
    is per sample of an edge from its own end; the learning rate falls linearly to 0 in ``n_epochs``.
    """

    a: float
    b: float
    negative_sample_rate: int
    repulsion_strength: float
    learning_rate: float
    n_epochs: int

    def tables(self) -> Tables:
        r"""Return the tables, for compiled loops, of attraction and repulsion as factors of a difference of two places.

        They are :math:`-\frac{d}{ds} 2 \ln q = \frac{2ab s^{b-1}}{1 + a s^b}` and
        :math:`\frac{d}{ds} 2 \ln(1 - q) = \frac{2b}{s (1 + a s^b)}`, there s + 0.001 for s.
        """
        from manifoldry.compiled.negative_sampling import knots

        s = knots()
        power = self.a * s**self.b
        attraction = 2 * self.b * power / (s * (1 + power))
        repulsion = 2 * self.repulsion_strength * self.b / ((REPULSION_OFFSET + s) * (1 + power))
        return _lines(s, attraction), _lines(s, repulsion)


@dataclass
class NegativeSampling:
    r"""The optimizer of UMAP for symmetric positive weights; one step is one epoch.

    The expected moves descend on

    .. math:: -\sum_{ij} r_{ij} \ln q_{ij} - \frac{m}{n} \sum_i \Big(\sum_j r_{ij}\Big) \gamma \sum_k \ln(1 - q_{ik}) ,

    with the edge weights as shares r of the strongest, m negative samples per sample of an edge and repulsion strength
    :math:`\gamma`. An epoch is two sweeps, because each edge is sampled from both ends. In a sweep all points move at
    once, from where all were; random numbers depend on the point and the sweep only.

    References: mcinnes2018, damrich2021.
    """

    weights: csr_array
    parameters: LayoutParameters
    run: Run
    _rows: tuple[IntArray, IntArray, FloatArray] = field(init=False, repr=False)
    _tables: Tables = field(init=False, repr=False)
    _seeds: IntArray = field(init=False, repr=False)
    _buffer: FloatArray | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        rates = sampling_rates(self.weights.data, float(self.weights.data.max()))
        self._rows = self.weights.indptr.astype(np.int64), self.weights.indices.astype(np.int32), rates
        self._tables = self.parameters.tables()
        rng = self.run.rng("layout")
        self._first_sweep = int(rng.integers(2**32))
        self._seeds = rng.integers(2**64, size=(self.parameters.n_epochs, 2), dtype=np.uint64)

    def advance(self, Y: FloatArray, step: int) -> None:
        """Move ``Y`` (float32) by one epoch: a sweep into the buffer, and one back."""
        if self._buffer is None:
            self._buffer = np.empty_like(Y)
        self._sweep(Y, self._buffer, step, 0)
        self._sweep(self._buffer, Y, step, 1)

    def _sweep(self, before: FloatArray, after: FloatArray, epoch: int, half: int) -> None:
        move = _compiled_sweep(before.shape[1])
        p = self.parameters
        length = np.float32(p.learning_rate * (1.0 - epoch / p.n_epochs))
        sweep = np.uint32((self._first_sweep + 2 * epoch + half) % 2**32)
        how = self._tables, p.negative_sample_rate, length, sweep, self._seeds[epoch, half]
        self.run.map(
            lambda lo, hi: move(*self._rows, before, after, *how, lo, hi),
            self.run.ranges(len(before), LAYOUT_ROWS_PER_TASK),
        )

    def objective(self, Y: FloatArray, n_blocks: int | None = None) -> float:
        """Return the objective per point, its sum over all pairs estimated from a few random partners of each.

        It may be that of at most ``n_blocks`` blocks of points.
        """
        indptr, indices, rates = self._rows
        blocks = self.run.ranges(len(Y), LAYOUT_ROWS_PER_TASK)
        blocks = blocks[:: -(-len(blocks) // (n_blocks or len(blocks)))]
        own = np.concatenate([np.arange(lo, hi) for lo, hi in blocks])
        partners = self.run.rng("objective").integers(len(Y) - 1, size=(len(own), N_PARTNERS))
        partners += partners >= own[:, None]
        factor = self.parameters.repulsion_strength * self.parameters.negative_sample_rate

        def block(lo: int, hi: int) -> float:
            ends = indptr[lo : hi + 1]
            shares = rates[ends[0] : ends[-1]] / 2.0**32
            rows = np.repeat(np.arange(lo, hi), np.diff(ends))
            attraction = np.log1p(self._power(Y[rows] - Y[indices[ends[0] : ends[-1]]]))
            first = int(np.searchsorted(own, lo))
            power = self._power(Y[lo:hi, None] - Y[partners[first : first + hi - lo]])
            repulsion = np.log1p(power) - np.log(power + REPULSION_OFFSET)
            degrees = np.bincount(rows - lo, shares, minlength=hi - lo)
            return float(shares @ attraction + factor * (degrees @ repulsion.mean(axis=1)))

        return float(sum(self.run.map(block, blocks, blas=True)) / len(own))

    def _power(self, differences: FloatArray) -> FloatArray:
        a, b = self.parameters.a, self.parameters.b
        power: FloatArray = a * np.square(differences, dtype=np.float64).sum(axis=-1) ** b
        return power


def _compiled_sweep(n_dims: int) -> Any:
    """Return the compiled loop for layouts of so many dimensions; only that is compiled."""
    if n_dims == 2:
        from manifoldry.compiled.umap_layout_2d import move_rows_2d

        return move_rows_2d
    from manifoldry.compiled.umap_layout import move_rows

    return move_rows


def optimize_layout(
    start: FloatArray,
    weights: csr_array,
    parameters: LayoutParameters,
    run: Run,
    *,
    rescale: bool = False,
    density: DensityGoal | None = None,
) -> tuple[FloatArray, Trace]:
    """Return the layout (n, d), in float32, that negative sampling leads to from ``start``, and the trace.

    Edges so weak that they would not be sampled once are left out. Points are renumbered, those with about as many
    samples together and then along the start, so that rows that are moved abreast take equally long. Random numbers see
    these indices too: permuted points are moved alike. With ``rescale`` the start is brought to the scale at which its
    objective is least, as a layout that is right but for its scale. ``density`` adds densMAP's term.
    """
    strongest = weights.data.max()
    kept = weights.copy()
    kept.data[kept.data < strongest / max(1, parameters.n_epochs)] = 0
    kept.eliminate_zeros()
    samples = np.asarray(kept.sum(axis=1)).reshape(-1) / strongest
    order = np.lexsort((*start.T[::-1], np.round(2 * samples)))
    with run.stage("layout"):
        kept = renumbered(kept, order)
        kept.sort_indices()
        places: Any = np.ascontiguousarray(start[order], dtype=np.float32)
        optimizer = NegativeSampling(kept, parameters, run)
        if rescale:
            places *= np.float32(best_scale(lambda scale: optimizer.objective(scale * places, N_SCALE_BLOCKS)))
        whole: Optimizer = optimizer
        if density is not None and density.strength > 0:
            term = DensityTerm(kept, parameters.a, parameters.b, density.reordered(order), run)
            whole = DensitySampling(optimizer, term)
        trace = descend(places, [Phase("layout", whole, parameters.n_epochs)], run)
    layout = np.empty_like(places)
    layout[order] = places
    return layout, trace
