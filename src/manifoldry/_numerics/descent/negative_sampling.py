"""UMAP's layout: attraction along sampled edges and repulsion by negative samples; every point moves only itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._numerics.descent.initialization import best_scale
from manifoldry._numerics.descent.optimizer import Optimizer, Phase, descend, renumbered
from manifoldry.graph._operations import symmetrize

LAYOUT_ROWS_PER_TASK = 2048
REPULSION_OFFSET = 1e-3
"""Added to squared distances in the repulsion, so that no gradient is infinite."""
N_PARTNERS = 16
"""Random partners of each point in the estimate of the objective."""
N_SCALE_BLOCKS = 4
"""Blocks of points at which the objective is estimated in the search for a scale."""

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
        r"""Return tables for the compiled loops: attraction and repulsion as factors of the difference of two points.

        They are :math:`-\frac{d}{ds} 2 \ln q = \frac{2ab s^{b-1}}{1 + a s^b}` and
        :math:`\frac{d}{ds} 2 \ln(1 - q) = \frac{2b}{s (1 + a s^b)}`, there s + 0.001 for s.
        """
        from manifoldry._numerics.kernels.negative_sampling import knots

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
        arguments = self._tables, p.negative_sample_rate, length, sweep, self._seeds[epoch, half]
        self.run.map(
            lambda lo, hi: move(*self._rows, before, after, *arguments, lo, hi),
            self.run.ranges(len(before), LAYOUT_ROWS_PER_TASK),
        )

    def objective(self, Y: FloatArray, n_blocks: int | None = None) -> float:
        """Return the objective per point, its sum over all pairs estimated from a few random partners of each.

        It may be that of at most ``n_blocks`` blocks of points.
        """
        indptr, indices, rates = self._rows
        blocks = self.run.ranges(len(Y), LAYOUT_ROWS_PER_TASK)
        blocks = blocks[:: -(-len(blocks) // (n_blocks or len(blocks)))]
        points = np.concatenate([np.arange(lo, hi) for lo, hi in blocks])
        partners = self.run.rng("objective").integers(len(Y) - 1, size=(len(points), N_PARTNERS))
        partners += partners >= points[:, None]
        factor = self.parameters.repulsion_strength * self.parameters.negative_sample_rate

        def block(lo: int, hi: int) -> float:
            ends = indptr[lo : hi + 1]
            shares = rates[ends[0] : ends[-1]] / 2.0**32
            rows = np.repeat(np.arange(lo, hi), np.diff(ends))
            attraction = np.log1p(self._power(Y[rows] - Y[indices[ends[0] : ends[-1]]]))
            first = int(np.searchsorted(points, lo))
            power = self._power(Y[lo:hi, None] - Y[partners[first : first + hi - lo]])
            repulsion = np.log1p(power) - np.log(power + REPULSION_OFFSET)
            degrees = np.bincount(rows - lo, shares, minlength=hi - lo)
            return float(shares @ attraction + factor * (degrees @ repulsion.mean(axis=1)))

        return float(sum(self.run.map(block, blocks, blas=True)) / len(points))

    def _power(self, differences: FloatArray) -> FloatArray:
        a, b = self.parameters.a, self.parameters.b
        return a * np.square(differences, dtype=np.float64).sum(axis=-1) ** b


def _compiled_sweep(n_dims: int) -> Any:
    """Return the compiled loop for layouts in ``n_dims`` dimensions; only this one is compiled."""
    if n_dims == 2:
        from manifoldry._numerics.kernels.umap_layout_2d import move_rows_2d

        return move_rows_2d
    from manifoldry._numerics.kernels.umap_layout import move_rows

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
    """Return the layout (n, d), in float32, after negative sampling from ``start``, and the trace.

    Edges too weak to be sampled once are dropped. Points are renumbered by their number of samples and then along the
    start, so that rows that are moved together take equally long. Random numbers use these indices, too, so permuted
    points give the same layout. With ``rescale`` the start is first scaled so that its objective is minimal.
    ``density`` adds densMAP's term.
    """
    strongest = weights.data.max()
    edges = weights.copy()
    edges.data[edges.data < strongest / max(1, parameters.n_epochs)] = 0
    edges.eliminate_zeros()
    samples = np.asarray(edges.sum(axis=1)).reshape(-1) / strongest
    order = np.lexsort((*start.T[::-1], np.round(2 * samples)))
    with run.stage("layout"):
        edges = renumbered(edges, order)
        edges.sort_indices()
        positions: Any = np.ascontiguousarray(start[order], dtype=np.float32)
        optimizer = NegativeSampling(edges, parameters, run)
        if rescale:
            positions *= np.float32(best_scale(lambda scale: optimizer.objective(scale * positions, N_SCALE_BLOCKS)))
        combined: Optimizer = optimizer
        if density is not None and density.strength > 0:
            term = DensityTerm(edges, parameters.a, parameters.b, density.reordered(order), run)
            combined = DensitySampling(optimizer, term)
        trace = descend(positions, [Phase("layout", combined, parameters.n_epochs)], run)
    layout = np.empty_like(positions)
    layout[order] = positions
    return layout, trace


# densMAP's term: local radii of the layout that are correlated with those of the data.

DENSITY_ROWS_PER_TASK = 2048
MIN_LAYOUT_RADIUS = 1e-8
"""Added to squared radii in the layout, so that points that coincide have a logarithm."""
MIN_RADIUS_SHARE = 1e-8
"""The same for radii in the data, as a share of their mean."""
MAX_RADIUS_SHARE = 0.5
"""Longest move of a point in one epoch, in units of its radius in the layout: the term is steepest where points are
dense, and a move across many of them is noise (digits: trustworthiness 0.967, and 0.951 at 2; radii 0.86 and 0.89)."""


def log_local_radii(graph: NeighborGraph, weights: csr_array) -> FloatArray:
    r"""Return :math:`\ln \sum_j w_{ij} d_{ij}^2 / \sum_j w_{ij}` over the edges of a fuzzy set, shape (n,).

    The lengths d are those of the undirected ``graph``; the squared radius of copies counts as 1e-8 of the mean one.

    References: narayan2021.
    """
    squares = symmetrize(graph).to_sparse().astype(np.float64)
    unit = float(squares.data.max(initial=0.0)) or 1.0
    squares.data = np.square(squares.data / unit)
    totals = np.asarray(weights.sum(axis=1), dtype=np.float64).reshape(-1)
    moments = np.asarray(weights.multiply(squares).sum(axis=1), dtype=np.float64).reshape(-1)
    radii = moments / np.where(totals > 0, totals, 1.0)
    mean = float(radii.mean())
    return np.log(radii + (MIN_RADIUS_SHARE * mean if mean > 0 else 1.0)) + 2.0 * np.log(unit)


@dataclass(frozen=True)
class DensityGoal:
    r"""Log radii of the data (n,), and how much they count.

    ``strength`` is densMAP's :math:`\lambda`, ``share`` that of the epochs, the last ones, and ``var_shift`` is added
    to the variance of the layout's log radii.
    """

    log_radii: FloatArray
    strength: float
    share: float
    var_shift: float

    def reordered(self, order: IntArray) -> DensityGoal:
        """Return the goal of the points in another order."""
        return DensityGoal(self.log_radii[order], self.strength, self.share, self.var_shift)


@dataclass
class DensityTerm:
    r"""The correlation of log radii in the data and in a layout.

    .. math:: C = \frac{\mathrm{cov}(r^{data}, r)}{\mathrm{sd}(r^{data}) \sqrt{\mathrm{var}(r) + v}}, \qquad
        r_i = \ln \frac{\sum_j q_{ij} s_{ij}}{\sum_j q_{ij}}, \quad q = \frac{1}{1 + a s^b} ,

    over the edges of a symmetric graph, s squared distances in the layout.

    References: narayan2021.
    """

    edges: csr_array
    a: float
    b: float
    goal: DensityGoal
    run: Run
    _rows: tuple[IntArray, IntArray] = field(init=False, repr=False)
    _target_radii: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._rows = self.edges.indptr.astype(np.int64), self.edges.indices.astype(np.int32)
        centered = self.goal.log_radii - self.goal.log_radii.mean()
        width = float(centered.std())
        self._target_radii = centered / width if width > 0 else centered

    def correlation(self, Y: FloatArray) -> float:
        """Return C of a layout (n, d), in float32."""
        return self._correlated(self._radii(Y)[0])[0]

    def gradient(self, Y: FloatArray) -> FloatArray:
        """Return the derivatives of C by the coordinates, shape (n, d)."""
        return self._derivatives(Y)[0]

    def moves(self, Y: FloatArray, factor: float) -> FloatArray:
        """Return moves along the gradient times ``factor``, at most half the radius of each point."""
        gradient, radii = self._derivatives(Y)
        moves = factor * gradient
        lengths = np.sqrt(np.square(moves).sum(axis=1))
        longest = MAX_RADIUS_SHARE * np.sqrt(radii)
        shares = np.divide(longest, lengths, out=np.ones_like(lengths), where=lengths > longest)
        return (moves * shares[:, None]).astype(np.float32)

    def _derivatives(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of C, and the squared radii."""
        from manifoldry._numerics.kernels.density import differentiate_rows

        radii, totals, kernel = self._radii(Y)
        slopes = self._correlated(radii)[1] / (radii + MIN_LAYOUT_RADIUS)
        pairs = np.column_stack([slopes / np.where(totals > 0, totals, 1.0), radii])
        gradient = np.empty(Y.shape)
        rows = *self._rows, Y, self.b, kernel, pairs, gradient
        self._map(lambda lo, hi: differentiate_rows(*rows, lo, hi))
        return gradient, radii

    def _radii(self, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return squared radii and sums of q of all points, and q of all edges."""
        from manifoldry._numerics.kernels.density import sum_rows

        kernel, sums = np.empty(len(self._rows[1])), np.empty((len(Y), 2))
        rows = *self._rows, Y, self.a, self.b, kernel, sums
        self._map(lambda lo, hi: sum_rows(*rows, lo, hi))
        totals = sums[:, 1].copy()
        return sums[:, 0] / np.where(totals > 0, totals, 1.0), totals, kernel

    def _correlated(self, radii: FloatArray) -> tuple[float, FloatArray]:
        """Return C and its derivatives by the log radii."""
        logs = np.log(radii + MIN_LAYOUT_RADIUS)
        centered = logs - logs.mean()
        n = len(logs)
        width = float(np.sqrt(centered @ centered / n + self.goal.var_shift))
        covariance = float(self._target_radii @ centered / n)
        return covariance / width, (self._target_radii - covariance * centered / width**2) / (n * width)

    def _map(self, work: Any) -> None:
        self.run.map(work, self.run.ranges(self.edges.shape[0], DENSITY_ROWS_PER_TASK))


@dataclass
class DensitySampling:
    r"""UMAP's optimizer with densMAP's term: :math:`\lambda \sum_{ij} r_{ij}\, C` is taken from the objective.

    In the last epochs a step along the full gradient of the term follows the sweeps.
    """

    sampling: NegativeSampling
    term: DensityTerm

    @property
    def _factor(self) -> float:
        weights = self.sampling.weights.data
        return self.term.goal.strength * float(weights.sum(dtype=np.float64) / weights.max())

    def advance(self, Y: FloatArray, step: int) -> None:
        """Move ``Y`` (float32) by one epoch."""
        self.sampling.advance(Y, step)
        p = self.sampling.parameters
        if step + 1 > (1.0 - self.term.goal.share) * p.n_epochs:
            Y += self.term.moves(Y, self._factor * p.learning_rate * (1.0 - step / p.n_epochs))

    def objective(self, Y: FloatArray) -> float:
        """Return the objective per point, its sum over pairs estimated."""
        return self.sampling.objective(Y) - self._factor * self.term.correlation(Y) / len(Y)
