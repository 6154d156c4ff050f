"""UMAP's layout: attraction along sampled edges and repulsion by negative samples; every point moves only itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._numerics.descent.initialization import (
    Start,
    best_scale,
    initial_layout,
    rounded_layout,
    unit_layout,
)
from manifoldry._numerics.descent.optimizer import Descent, Phase, descend, renumbered
from manifoldry._numerics.eigen.pencil import product
from manifoldry.graph._operations import symmetrize

if TYPE_CHECKING:
    from manifoldry._numerics.gpu.umap_layout import DeviceRows

LAYOUT_ROWS_PER_TASK = 2048
ROWS_PER_BLOCK = 256
"""Rows of a block of a sweep, some 30 us: at the end of a sweep of 70,000 rows 16 threads wait for 3 % of it."""
EPOCH_EDGES_PER_CALL = 2**25  # edges times epochs in a compiled call, some tenths of a second: Ctrl-C waits for its end
DEVICE_EDGES_PER_CALL = 2**31  # the same on a GPU, about a tenth of a second
REPULSION_OFFSET = 1e-3  # added to squared distances in the repulsion, so that no gradient is infinite
N_PARTNERS = 16  # Random partners of each point in the estimate of the objective
N_OBJECTIVE_BLOCKS, N_SCALE_BLOCKS = 16, 4
"""Blocks of points at which the objective is estimated, and at which it is in the search for a scale."""


def _lines(s: FloatArray, values: FloatArray) -> FloatArray:
    slope = np.diff(values) / np.diff(s)
    return np.column_stack([values[:-1] - slope * s[:-1], slope]).astype(np.float32)


def sampling_rates(weights: FloatArray, strongest: FloatArray | float) -> FloatArray:
    """Return weights as shares of the strongest, one over UMAP's epochs per sample, in units of 2^-32."""
    shares = np.multiply(weights, 2.0**32, dtype=np.float64)
    shares /= strongest
    return np.minimum(shares, 2.0**32 - 1, out=shares).astype(np.uint32)  # rounded down


@dataclass(frozen=True)
class LayoutParameters:
    """The parameters of a layout by negative sampling, with UMAP's names and kernel :math:`q = 1 / (1 + a s^b)`."""

    a: float
    b: float
    negative_sample_rate: int
    repulsion_strength: float
    learning_rate: float
    n_epochs: int

    def sweeps(self, run: Run) -> tuple[int, FloatArray, IntArray]:
        """Return the number of the first sweep, and the step and the seed of each, two in an epoch."""
        rng = run.rng("layout")
        first, steps = int(rng.integers(2**32)), self.learning_rate * (1.0 - np.arange(self.n_epochs) / self.n_epochs)
        return (
            first,
            np.repeat(steps, 2).astype(np.float32),
            rng.integers(2**64, size=2 * self.n_epochs, dtype=np.uint64),
        )

    def forces(self) -> tuple[float, ...]:
        """Return the numbers from which loops of the GPU compute what the tables hold."""
        return self.negative_sample_rate, self.a, self.b, self.repulsion_strength, REPULSION_OFFSET

    def tables(self) -> tuple[FloatArray, FloatArray]:
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


class NegativeSampling:
    r"""The optimizer of UMAP for symmetric positive weights; one step is one epoch.

    The expected moves descend on

    .. math:: -\sum_{ij} r_{ij} \ln q_{ij} - \frac{m}{n} \sum_i \Big(\sum_j r_{ij}\Big) \gamma \sum_k \ln(1 - q_{ik}) ,

    with the edge weights as shares r of the strongest, m negative samples per sample of an edge and repulsion strength
    :math:`\gamma`. An epoch is two sweeps, one per end of each edge, in which all points move at once. In densMAP
    :math:`\lambda \sum_{ij} r_{ij}\, C` is subtracted, and in the last epochs a step along the gradient of C follows.

    References: mcinnes2018, damrich2021.
    """

    density: DensityTerm | None = None

    def __init__(self, weights: csr_array | DeviceRows, parameters: LayoutParameters, run: Run) -> None:
        self.parameters, self.run = parameters, run
        self._device = None if isinstance(weights, csr_array) else weights
        self._rows: tuple[Any, Any, Any]
        if isinstance(weights, csr_array):
            rates = sampling_rates(weights.data, float(weights.data.max()))
            self._rows = weights.indptr.astype(np.int64), weights.indices.astype(np.int32), rates
            self._tables = parameters.tables()
        else:
            self._rows = weights.rows
        self._first_sweep, self._steps, self._seeds = parameters.sweeps(run)
        self._samples: dict[int, list[tuple[Any, ...]]] = {}

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:
        """Move ``Y`` (float32) by one or several epochs, each also along the density term where it counts."""
        p, density = self.parameters, self.density
        # Epochs before the first with the density term, which needs the layout after each.
        free = limit if density is None else int(np.floor((1.0 - density.goal.share) * p.n_epochs)) - step
        at_once = EPOCH_EDGES_PER_CALL if self._device is None else DEVICE_EDGES_PER_CALL
        n_epochs = max(1, min(limit, free, at_once // max(1, len(self._rows[1]))))
        self._sweep(Y, step, n_epochs)
        if density is not None and free <= 0:
            Y += density.moves(Y, density.factor * p.learning_rate * (1.0 - step / p.n_epochs))
        return n_epochs

    def _sweep(self, Y: FloatArray, epoch: int, n_epochs: int) -> None:
        """Move ``Y`` by epochs of two sweeps, each from one array to another."""
        number, span = (self._first_sweep + 2 * epoch) % 2**32, slice(2 * epoch, 2 * (epoch + n_epochs))
        if self._device is not None:
            self._device.sweep(Y, self.parameters.forces(), number, self._steps[span], self._seeds[span])
            return
        if Y.shape[1] == 2:  # only the loop that is used is compiled
            from manifoldry._numerics.kernels.umap_layout_2d import sweep_2d as sweep
        else:
            from manifoldry._numerics.kernels.umap_layout import sweep_all as sweep

        how = (
            self._tables,
            self.parameters.negative_sample_rate,
            self._steps[span],
            np.uint32(number),
            self._seeds[span],
        )
        self.run.team(sweep, *self._rows, Y, np.empty_like(Y), *how, ROWS_PER_BLOCK)

    def rates(self, step: int) -> FloatArray:
        """Return the step size of an epoch for the objective times the number of points."""
        return np.full((1, 1), self.parameters.learning_rate * (1.0 - step / self.parameters.n_epochs))

    def include(self, moves: FloatArray, slopes: FloatArray) -> None:
        """Include another term: without momentum there is nothing to do."""

    def objective(self, Y: FloatArray, n_blocks: int = N_OBJECTIVE_BLOCKS) -> float:
        """Return the objective per point, estimated at up to ``n_blocks`` blocks of points from a few partners."""
        if n_blocks not in self._samples:
            self._samples[n_blocks] = self._sample(len(Y), n_blocks)
        xp = np if self._device is None else self._device.gpu.xp
        factor = self.parameters.repulsion_strength * self.parameters.negative_sample_rate

        def block(points: Any, rows: Any, columns: Any, rates: Any, degrees: Any, partners: Any) -> float:
            here = Y[points]
            attraction = xp.log1p(self._power(here[rows] - Y[columns]))
            power = self._power(here[:, None] - Y[partners])
            repulsion = xp.log1p(power) - xp.log(power + REPULSION_OFFSET)
            return float(rates @ attraction + factor * (degrees @ repulsion.mean(axis=1)))

        blocks = self._samples[n_blocks]
        value = float(sum(self.run.map(block, blocks, blas=True)) / sum(len(points) for points, *_ in blocks))
        if self.density is None:
            return value
        return value - self.density.factor * self.density.correlation(Y) / len(Y)

    def _sample(self, n: int, n_blocks: int) -> list[tuple[Any, ...]]:
        """Return the points of some blocks, their edges, degrees and random partners; for a GPU all in one block."""
        (indptr, indices, rates), xp = self._rows, np if self._device is None else self._device.gpu.xp
        blocks = self.run.ranges(n, LAYOUT_ROWS_PER_TASK)
        blocks = blocks[:: -(-len(blocks) // n_blocks)]
        chosen = np.concatenate([np.arange(lo, hi) for lo, hi in blocks])
        others = self.run.rng("objective").integers(n - 1, size=(len(chosen), N_PARTNERS))
        others += others >= chosen[:, None]

        def block(points: Any, partners: Any) -> tuple[Any, ...]:
            counts = indptr[points + 1] - indptr[points]
            ends = xp.cumsum(counts)
            entries = xp.arange(int(ends[-1]))
            rows = xp.searchsorted(ends, entries, side="right")
            edges = entries + (indptr[points] - ends + counts)[rows]
            totals = xp.cumsum(xp.concatenate([xp.zeros(1, dtype=np.uint64), rates[edges].astype(np.uint64)]))
            degrees = (totals[ends] - totals[ends - counts]) / 2.0**32
            return points, rows, indices[edges], rates[edges] / 2.0**32, degrees, partners

        if self._device is not None:
            return [block(xp.asarray(chosen), xp.asarray(others))]
        cuts = range(LAYOUT_ROWS_PER_TASK, len(chosen), LAYOUT_ROWS_PER_TASK)
        return self.run.map(block, list(zip(np.split(chosen, cuts), np.split(others, cuts), strict=True)))

    def best_scale(self, Y: FloatArray) -> np.float32:
        """Return the scale of ``Y`` at which the objective is smallest."""
        return np.float32(best_scale(lambda scale: self.objective(scale * Y, N_SCALE_BLOCKS)))

    def _power(self, differences: FloatArray) -> FloatArray:
        a, b = self.parameters.a, self.parameters.b
        return a * np.square(differences, dtype=np.float64).sum(axis=-1) ** b


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
    start, so that rows moved together take equally long and permuted points give the same layout. With ``rescale`` the
    start first gets its best scale. ``density`` adds densMAP's term.
    """
    if run.gpu is not None and density is None:
        from manifoldry._numerics.gpu.umap_layout import DeviceRows

        with run.stage("layout"):
            edges = DeviceRows(start, weights, parameters.n_epochs, run.gpu)
            positions = run.gpu.array(start, np.float32)[edges.order]
            optimizer = NegativeSampling(edges, parameters, run)
            if rescale:
                positions *= optimizer.best_scale(positions)
            trace = descend(positions, [Phase("layout", optimizer, parameters.n_epochs)], run)
            layout = run.gpu.xp.empty_like(positions)
            layout[edges.order] = positions
            return run.gpu.host(layout), trace
    with run.stage("layout"):
        return prepare_layout(start, weights, parameters, run, rescale=rescale, density=density).run(run)


def prepare_layout(
    start: FloatArray,
    weights: csr_array,
    parameters: LayoutParameters,
    run: Run,
    *,
    rescale: bool = False,
    density: DensityGoal | None = None,
) -> Descent:
    """Return the descent of `optimize_layout` before its first step."""
    strongest = weights.data.max()
    edges = weights.copy()
    edges.data[edges.data < strongest / max(1, parameters.n_epochs)] = 0
    edges.eliminate_zeros()
    samples = np.asarray(edges.sum(axis=1)).reshape(-1) / strongest
    order = np.lexsort((*start.T[::-1], np.round(2 * samples)))
    edges = renumbered(edges, order, run, ascending=True)
    positions: Any = np.ascontiguousarray(start[order], dtype=np.float32)
    optimizer = NegativeSampling(edges, parameters, run)
    if rescale:
        positions *= optimizer.best_scale(positions)
    if density is not None and density.strength > 0:
        goal = replace(density, log_radii=density.log_radii[order])
        optimizer.density = DensityTerm(edges, parameters.a, parameters.b, goal, run)
    return Descent(order, positions, [Phase("layout", optimizer, parameters.n_epochs)])


# The start of many points: the layout of their aggregates, which starts from that of aggregates of these.

MAX_TOP_GROUPS = 5000
"""Most aggregates that start from eigenvectors: a hundred epochs move these far enough."""
N_GROUP_EPOCHS = 100
"""Of the layouts of aggregates. With 50 the last layout keeps fewer neighbors, with 200 no more."""


def multilevel_start(weights: csr_array, n_components: int, parameters: LayoutParameters, run: Run) -> Start:
    """Return a start for the layout of positive weights.

    In 200 epochs a point moves only so far, so a layout of many points that starts from two eigenvectors keeps classes
    in pieces where these vectors fold them. The layout of aggregates, about thirty neighbors each, is that of a smaller
    graph, whose points need fewer moves (walshaw2003).
    """
    with run.stage("initialization"):
        Y = _layout(weights, n_components, replace(parameters, n_epochs=N_GROUP_EPOCHS), run)
        return Start("multilevel", unit_layout(Y, run))


def _layout(weights: csr_array, n_components: int, parameters: LayoutParameters, run: Run) -> FloatArray:
    """Return a layout of points from that of their aggregates."""
    coarse, spread = _aggregated(weights, run)
    edges = _normalized(coarse)
    if MAX_TOP_GROUPS < len(edges.indptr) - 1 < weights.shape[0]:
        Y = _layout(coarse, n_components, parameters, run)
    else:
        Y = rounded_layout(initial_layout("spectral", None, edges, n_components, run), stretched=True)
    if edges.nnz:
        Y, _ = optimize_layout(Y, edges, parameters, run)
    return spread(Y)


def _aggregated(weights: csr_array, run: Run) -> tuple[csr_array, Callable[[FloatArray], FloatArray]]:
    """Return the sums of weights between aggregates, and a function of their positions to those of the points.

    Sums of weights inside an aggregate are on the diagonal. A point gets the mean of its own aggregate's position and
    the mean of its neighbors' ones; without a neighbor it gets its own.
    """
    if run.gpu is not None:
        from manifoldry._numerics.gpu.spectral import aggregated

        return aggregated(weights, run.gpu)
    from manifoldry._numerics.eigen.kernels.aggregates import aggregate

    n = weights.shape[0]
    label, values = np.full(n, -1, dtype=np.int64), weights.data.astype(np.float32, copy=False)
    count = aggregate(weights.indptr.astype(np.int64), weights.indices.astype(np.uint32), values, label)
    members = csr_array((np.ones(n, np.float32), label, np.arange(n + 1)), shape=(n, count))

    def spread(Y: FloatArray) -> FloatArray:
        own = np.column_stack([Y[label], np.ones(n)])
        sums = product(weights, own, run)
        alone = sums[:, -1] <= 0  # without a neighbor
        sums[alone] = own[alone]
        return (own[:, :-1] + sums[:, :-1] / sums[:, -1:]) / 2.0

    return csr_array(members.T @ (weights @ members)), spread


def _normalized(coarse: csr_array) -> csr_array:
    """Return the weights between different aggregates, divided by the roots of the sums of both rows."""
    between = csr_array(coarse - diags_array(coarse.diagonal()))
    between.eliminate_zeros()
    degrees = np.asarray(between.sum(axis=1), dtype=np.float64).reshape(-1)
    scale = diags_array(1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0)))
    scaled = scale @ between @ scale
    return csr_array((scaled + scaled.T) / 2.0, dtype=np.float32)  # sums of the two directions are rounded differently


# densMAP's term: local radii of the layout that are correlated with those of the data.

MIN_LAYOUT_RADIUS = 1e-8  # added to squared radii in the layout, so that points that coincide have a logarithm
MIN_RADIUS_SHARE = 1e-8  # the same for radii in the data, as a share of their mean
MAX_RADIUS_SHARE = 0.5
"""Longest move of a point in one epoch, in units of its radius: a move across many dense points is noise."""


def log_local_radii(graph: NeighborGraph, weights: csr_array) -> FloatArray:
    r"""Return :math:`\ln \sum_j w_{ij} d_{ij}^2 / \sum_j w_{ij}` over the edges of a fuzzy set (narayan2021)."""
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
    r"""Log radii of the data (n,), densMAP's strength :math:`\lambda`, its share of the epochs and variance shift."""

    log_radii: FloatArray
    strength: float
    share: float
    var_shift: float


class DensityTerm:
    r"""The correlation of log radii in the data and in a layout (narayan2021).

    .. math:: C = \frac{\mathrm{cov}(r^{data}, r)}{\mathrm{sd}(r^{data}) \sqrt{\mathrm{var}(r) + v}}, \qquad
        r_i = \ln \frac{\sum_j q_{ij} s_{ij}}{\sum_j q_{ij}}, \quad q = \frac{1}{1 + a s^b} ,

    over the edges of a symmetric graph, s squared distances in the layout.
    """

    def __init__(self, edges: csr_array, a: float, b: float, goal: DensityGoal, run: Run) -> None:
        self.edges, self.a, self.b, self.goal, self.run = edges, a, b, goal, run
        self.factor = goal.strength * float(edges.data.sum(dtype=np.float64) / edges.data.max())
        self._rows = edges.indptr.astype(np.int64), edges.indices.astype(np.int32)
        centered = goal.log_radii - goal.log_radii.mean()
        width = float(centered.std())
        self._target_radii = centered / width if width > 0 else centered

    def correlation(self, Y: FloatArray) -> float:
        """Return C of a layout (n, d), in float32."""
        return self._correlated(self._radii(Y)[0])[0]

    def moves(self, Y: FloatArray, factor: float) -> FloatArray:
        """Return moves along the gradient times ``factor``, at most half the radius of each point."""
        gradient, radii = self.derivatives(Y)
        moves = factor * gradient
        lengths = np.sqrt(np.square(moves).sum(axis=1))
        longest = MAX_RADIUS_SHARE * np.sqrt(radii)
        shares = np.divide(longest, lengths, out=np.ones_like(lengths), where=lengths > longest)
        return (moves * shares[:, None]).astype(np.float32)

    def derivatives(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of C, and the squared radii."""
        from manifoldry._numerics.kernels.density import differentiate_rows

        radii, totals, kernel = self._radii(Y)
        slopes = self._correlated(radii)[1] / (radii + MIN_LAYOUT_RADIUS)
        pairs = np.column_stack([slopes / np.where(totals > 0, totals, 1.0), radii])
        gradient = np.empty(Y.shape)
        rows = *self._rows, Y, self.b, kernel, pairs, gradient
        self.run.map(lambda lo, hi: differentiate_rows(*rows, lo, hi), self.run.ranges(len(Y), LAYOUT_ROWS_PER_TASK))
        return gradient, radii

    def _radii(self, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return squared radii and sums of q of all points, and q of all edges."""
        from manifoldry._numerics.kernels.density import sum_rows

        kernel, sums = np.empty(len(self._rows[1])), np.empty((len(Y), 2))
        rows = *self._rows, Y, self.a, self.b, kernel, sums
        self.run.map(lambda lo, hi: sum_rows(*rows, lo, hi), self.run.ranges(len(Y), LAYOUT_ROWS_PER_TASK))
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
