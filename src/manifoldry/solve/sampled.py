"""UMAP's layout: attraction along affinities and repulsion by chance, every point moving itself among the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry.run import Run
from manifoldry.solve.descent import Phase, descend
from manifoldry.solve.order import renumbered
from manifoldry.values import FloatArray, IntArray, Trace

ROWS = 2048
SWEEPS = 2
"""Sweeps per epoch: an edge that pulls both its ends once from either side is visited twice."""
SOFT = 1e-3
"""Added to squared distances where points repel, so that no force is infinite."""
DRAWS = 16
"""Random partners of each point in the estimate of the objective."""

Tables = tuple[FloatArray, FloatArray]


def _lines(s: FloatArray, values: FloatArray) -> FloatArray:
    slope = np.diff(values) / np.diff(s)
    return np.column_stack([values[:-1] - slope * s[:-1], slope]).astype(np.float32)


def visit_rates(weights: FloatArray, strongest: FloatArray | float) -> FloatArray:
    """Return weights as shares of the strongest, in units of 2^-32."""
    shares = np.asarray(weights, dtype=np.float64) / strongest
    return np.minimum(np.floor(shares * 2.0**32), 2.0**32 - 1).astype(np.uint32)


@dataclass(frozen=True)
class Forces:
    r"""What moves a layout.

    Parameters
    ----------
    a, b : float
        Of the layout's kernel :math:`q = 1 / (1 + a s^b)`, s the squared distance.
    n_random : int
        Random partners for each time that an edge is visited from its own end.
    repulsion : float
        Factor of their push.
    learning_rate : float
        The first step length; it falls to 0 in ``n_epochs``.
    n_epochs : int
        Number of steps.
    """

    a: float
    b: float
    n_random: int
    repulsion: float
    learning_rate: float
    n_epochs: int

    def tables(self) -> Tables:
        r"""Return the lines, for the kernels, of pull and push as factors of a difference of two places.

        They are :math:`-\frac{d}{ds} 2 \ln q = \frac{2ab s^{b-1}}{1 + a s^b}` and
        :math:`\frac{d}{ds} 2 \ln(1 - q) = \frac{2b}{s (1 + a s^b)}`, there s + 0.001 for s.
        """
        from manifoldry.compiled.sampling import knots

        s = knots()
        power = self.a * s**self.b
        pull = 2 * self.b * power / (s * (1 + power))
        push = 2 * self.repulsion * self.b / ((SOFT + s) * (1 + power))
        return _lines(s, pull), _lines(s, push)


@dataclass
class Sampler:
    r"""Moves a layout by sampled forces; one step is one epoch.

    The expected moves descend on

    .. math:: -\sum_{ij} r_{ij} \ln q_{ij} - \frac{m}{n} \sum_i \Big(\sum_j r_{ij}\Big) \gamma \sum_k \ln(1 - q_{ik}) ,

    with the affinities as shares r of the strongest, m random partners per visit of an edge and repulsion
    :math:`\gamma`. All points move at once, from where all were; random numbers depend on the point and the sweep only.

    Parameters
    ----------
    affinities : csr_array of shape (n, n)
        Symmetric, positive.
    forces : Forces
        What moves it.
    run : Run
        Seed and threads.

    Notes
    -----
    References: mcinnes2018, damrich2021.
    """

    affinities: csr_array
    forces: Forces
    run: Run
    _rows: tuple[IntArray, IntArray, FloatArray] = field(init=False, repr=False)
    _tables: Tables = field(init=False, repr=False)
    _seeds: IntArray = field(init=False, repr=False)
    _buffer: FloatArray | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        rates = visit_rates(self.affinities.data, float(self.affinities.data.max()))
        self._rows = self.affinities.indptr.astype(np.int64), self.affinities.indices.astype(np.int32), rates
        self._tables = self.forces.tables()
        rng = self.run.rng("layout")
        self._tick = int(rng.integers(2**32))
        self._seeds = rng.integers(2**64, size=(self.forces.n_epochs, SWEEPS), dtype=np.uint64)

    def advance(self, Y: FloatArray, step: int) -> None:
        """Move ``Y`` (float32) by one epoch."""
        if self._buffer is None:
            self._buffer = np.empty_like(Y)
        sweep = _sweep(Y.shape[1])
        length = np.float32(self.forces.learning_rate * (1.0 - step / self.forces.n_epochs))
        there = self._buffer
        for turn in range(SWEEPS):
            tick = np.uint32((self._tick + SWEEPS * step + turn) % 2**32)
            chance = tick, self._seeds[step, turn]
            self.run.map(
                lambda lo, hi, here=Y, there=there, chance=chance: sweep(
                    *self._rows, here, there, self._tables, self.forces.n_random, length, *chance, lo, hi
                ),
                self.run.ranges(len(Y), ROWS),
            )
            Y, there = there, Y

    def objective(self, Y: FloatArray) -> float:
        """Return the objective per point, its sum over all pairs estimated from a few random partners of each."""
        indptr, indices, rates = self._rows
        n = len(Y)
        partners = self.run.rng("objective").integers(n - 1, size=(n, DRAWS))
        partners += partners >= np.arange(n)[:, None]

        def block(lo: int, hi: int) -> float:
            ends = indptr[lo : hi + 1]
            shares = rates[ends[0] : ends[-1]] / 2.0**32
            rows = np.repeat(np.arange(lo, hi), np.diff(ends))
            joined = np.log1p(self._power(Y[rows] - Y[indices[ends[0] : ends[-1]]]))
            power = self._power(Y[lo:hi, None] - Y[partners[lo:hi]])
            apart = np.log1p(power) - np.log(power + SOFT)
            visits = np.bincount(rows - lo, shares, minlength=hi - lo)
            return float(shares @ joined + self.forces.repulsion * self.forces.n_random * (visits @ apart.mean(axis=1)))

        return float(sum(self.run.map(block, self.run.ranges(n, ROWS), blas=True)) / n)

    def _power(self, differences: FloatArray) -> FloatArray:
        power: FloatArray = self.forces.a * np.square(differences, dtype=np.float64).sum(axis=-1) ** self.forces.b
        return power


def _sweep(n_dims: int) -> Any:
    """Return the kernel for layouts of so many dimensions; only that is compiled."""
    if n_dims == 2:
        from manifoldry.compiled.layout import move_rows_2d

        return move_rows_2d
    from manifoldry.compiled.placing import move_rows

    return move_rows


def sampled_layout(start: FloatArray, affinities: csr_array, forces: Forces, run: Run) -> tuple[FloatArray, Trace]:
    """Return where the forces lead ``start`` (n, d), in float32, and the trace.

    Affinities so weak that they would not be visited once are left out. Points are renumbered, those with about as many
    visits together and then along the start, so that rows that are moved abreast take equally long. Chance sees
    these numbers too: permuted points are moved alike.
    """
    kept = affinities.copy()
    kept.data[kept.data < affinities.data.max() / max(1, forces.n_epochs)] = 0
    kept.eliminate_zeros()
    visits = np.asarray(kept.sum(axis=1)).reshape(-1) / affinities.data.max()
    order = np.lexsort((*start.T[::-1], np.round(2 * visits)))
    with run.stage("layout"):
        kept = renumbered(kept, order)
        kept.sort_indices()
        sampler = Sampler(kept, forces, run)
        places = np.ascontiguousarray(start[order], dtype=np.float32)
        trace = descend(places, [Phase("layout", sampler, forces.n_epochs)], run)
    layout = np.empty_like(places)
    layout[order] = places
    return layout, trace
