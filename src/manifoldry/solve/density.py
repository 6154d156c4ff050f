"""densMAP's term: local radii of a layout that go with those of the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry.neighbors.graph import symmetrize
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph

if TYPE_CHECKING:
    from manifoldry.solve.negative_sampling import NegativeSampling

DENSITY_ROWS_PER_TASK = 2048
MIN_LAYOUT_RADIUS = 1e-8
"""Added to squared radii in the layout, so that points that coincide have a logarithm."""
MIN_RADIUS_SHARE = 1e-8
"""The same for radii in the data, as a share of their mean."""
MAX_RADIUS_SHARE = 0.5
"""Longest move of a point in one epoch, in its own radius in the layout: the term is steepest where points are dense,
and a move across many of them is noise (digits: trustworthiness 0.967, and 0.951 at 2; radii 0.86 and 0.89)."""


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
    _wanted: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._rows = self.edges.indptr.astype(np.int64), self.edges.indices.astype(np.int32)
        centered = self.goal.log_radii - self.goal.log_radii.mean()
        width = float(centered.std())
        self._wanted = centered / width if width > 0 else centered

    def correlation(self, Y: FloatArray) -> float:
        """Return C of a layout (n, d), in float32."""
        return self._correlated(self._radii(Y)[0])[0]

    def gradient(self, Y: FloatArray) -> FloatArray:
        """Return the derivatives of C by the places, shape (n, d)."""
        return self._derivatives(Y)[0]

    def moves(self, Y: FloatArray, factor: float) -> FloatArray:
        """Return moves along the gradient times ``factor``, of each point by half its radius at most."""
        gradient, radii = self._derivatives(Y)
        moves = factor * gradient
        lengths = np.sqrt(np.square(moves).sum(axis=1))
        longest = MAX_RADIUS_SHARE * np.sqrt(radii)
        shares = np.divide(longest, lengths, out=np.ones_like(lengths), where=lengths > longest)
        return (moves * shares[:, None]).astype(np.float32)

    def _derivatives(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of C, and the squared radii."""
        from manifoldry.compiled.density import differentiate_rows

        radii, totals, kernel = self._radii(Y)
        slopes = self._correlated(radii)[1] / (radii + MIN_LAYOUT_RADIUS)
        pairs = np.column_stack([slopes / np.where(totals > 0, totals, 1.0), radii])
        gradient = np.empty(Y.shape)
        rows = *self._rows, Y, self.b, kernel, pairs, gradient
        self._map(lambda lo, hi: differentiate_rows(*rows, lo, hi))
        return gradient, radii

    def _radii(self, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return squared radii and sums of q of all points, and q of all edges."""
        from manifoldry.compiled.density import sum_rows

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
        covariance = float(self._wanted @ centered / n)
        return covariance / width, (self._wanted - covariance * centered / width**2) / (n * width)

    def _map(self, work: Any) -> None:
        self.run.map(work, self.run.ranges(self.edges.shape[0], DENSITY_ROWS_PER_TASK))


@dataclass
class DensitySampling:
    r"""UMAP's optimizer with densMAP's term: :math:`\lambda \sum_{ij} r_{ij}\, C` is taken from the objective.

    In the last epochs a step along the whole gradient of the term follows the sweeps.
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
