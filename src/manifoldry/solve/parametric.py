r"""What the encoder of a parametric neighbor embedding is trained by: a layout to come near to, or the loss of layouts.

A loss of layouts is one of all places at once. A minibatch moves its own points, the others stay where the net last
placed them, in a table of all places: so one pass of the rows through the net serves all edges, from both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from manifoldry.run import Run
from manifoldry.solve.divergence import Divergence
from manifoldry.solve.negative_sampling import REPULSION_OFFSET, LayoutParameters
from manifoldry.solve.network import NETWORK_ROWS_PER_TASK, Network, array_module
from manifoldry.solve.training import Backend, added
from manifoldry.values import FloatArray, IntArray

N_REPELLED = 64
"""Random points from which each point is repelled in a step, in place of all: the mean over so many is good to an
eighth of its spread, for about the time that a point's edges take."""


class LayoutLoss(Protocol):
    """A loss of a layout, as a mean over its points."""

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss of ``Y``, as far as ``rows`` know it, and n times its gradient by their places (m, d)."""

    def value(self, Y: FloatArray) -> float:
        """Return the loss."""


@dataclass
class FuzzyCrossEntropy:
    r"""UMAP's loss, as its negative sampling has it (`negative_sampling.NegativeSampling`), over n.

    .. math:: \frac1n \sum_{ij} r_{ij} \ln (1 + a s_{ij}^b) - \frac{m \gamma}{n (n - 1)} \sum_i \Big(\sum_j r_{ij}\Big)
        \sum_{k \ne i} \ln \frac{a s_{ik}^b}{1 + a s_{ik}^b}

    with s a squared distance plus 0.001, so that no slope is infinite. The sum over k is that over random points.

    Parameters
    ----------
    weights : csr_array of shape (n, n)
        Symmetric weights of the edges; r are their shares of the largest.
    parameters : LayoutParameters
        The kernel, m and :math:`\gamma`.
    order : ndarray of shape (n,)
        The points in the order in which random numbers choose among them.
    rng : Generator
        The source of these numbers.

    References: mcinnes2018, damrich2021, sainburg2021.
    """

    weights: csr_array
    parameters: LayoutParameters
    order: IntArray
    rng: np.random.Generator
    degrees: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.weights = self.weights / self.weights.data.max()
        self.degrees = np.asarray(self.weights.sum(axis=1)).reshape(-1)

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss by the pairs of ``rows``, and n times its gradient by their places."""
        a, b = self.parameters.a, self.parameters.b
        near = self.weights[rows]
        i = np.repeat(np.arange(len(rows)), np.diff(near.indptr))
        gaps = Y[rows[i]] - Y[near.indices]
        s = (gaps * gaps).sum(axis=1) + REPULSION_OFFSET
        power = a * s**b
        value = float(near.data @ np.log1p(power))
        pull = near.data * 2 * b * power / (s * (1 + power))
        # Each pair is in the sum twice, from both ends.
        attraction = [np.bincount(i, pull * gap, minlength=len(rows)) for gap in gaps.T]
        slopes: FloatArray = 2.0 * np.stack(attraction, axis=1).astype(np.float64)
        others, share = self._others(rows)
        gaps = Y[rows][:, None] - Y[others]
        s = (gaps * gaps).sum(axis=2) + REPULSION_OFFSET
        power = a * s**b
        factor = self.parameters.negative_sample_rate * self.parameters.repulsion_strength * share
        value += float(self.degrees[rows] @ (factor * np.log1p(1 / power)).sum(axis=1))
        push = factor * (self.degrees[rows][:, None] + self.degrees[others]) * 2 * b / (s * (1 + power))
        slopes -= (push[:, :, None] * gaps).sum(axis=1)
        return value / len(rows), slopes

    def value(self, Y: FloatArray) -> float:
        """Return the loss."""
        parts = np.array_split(self.order, max(1, len(Y) // NETWORK_ROWS_PER_TASK))
        return float(sum(len(rows) * self.slopes(Y, rows)[0] for rows in parts) / len(Y))

    def _others(self, rows: IntArray) -> tuple[IntArray, float | FloatArray]:
        """Return points that repel the rows, (m, k), and the share of each in the mean over all."""
        n = len(self.order)
        if n - 1 <= N_REPELLED:
            everyone: IntArray = np.broadcast_to(np.arange(n), (len(rows), n))
            return everyone, (everyone != rows[:, None]) / (n - 1)
        others: IntArray = self.order[self.rng.integers(n, size=(len(rows), N_REPELLED))]
        apart = others != rows[:, None]
        return others, apart / np.maximum(apart.sum(axis=1, keepdims=True), 1)


@dataclass
class DivergenceLoss:
    """t-SNE's loss, its divergence, by its own sums over all pairs: exact, by Barnes-Hut or by FFT.

    The value that `slopes` tells is computed once for as many rows as there are.

    References: vandermaaten2009b.
    """

    divergence: Divergence
    _told: float = field(default=np.nan, init=False)
    _rows: int = field(default=0, init=False)

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss when it was last computed, and n times its gradient by the places of ``rows``."""
        if self._rows <= 0:
            self._told, self._rows = self.value(Y), len(Y)
        self._rows -= len(rows)
        return self._told, len(Y) * self.divergence.gradient(Y)[rows]

    def value(self, Y: FloatArray) -> float:
        """Return the divergence."""
        return self.divergence.value(Y)


@dataclass(frozen=True)
class NoisyRows:
    """Rows of which a training sees others near by at every step, so that the net does not learn them by heart.

    The losses below are means over the noise, each value a sample of them.

    Parameters
    ----------
    rows : ndarray or tensor of shape (n, p)
        The rows as they are.
    lengths : ndarray of shape (n,)
        Root of the mean squared length of the Gaussian noise of each.
    rng : Generator
        Its source.
    backend : Backend
        The library of the rows.

    References: bishop1995.
    """

    rows: Any
    lengths: FloatArray
    rng: np.random.Generator
    backend: Backend

    def draw(self, chosen: IntArray) -> Any:
        """Return rows with new noise."""
        exact = self.rows[self.backend.index(chosen)]
        if not self.lengths.any():
            return exact
        # In single precision for both: the same numbers, and half the time.
        noise = self.rng.standard_normal(tuple(exact.shape), dtype=np.float32)
        noise *= (self.lengths[chosen] / np.sqrt(exact.shape[1])).astype(np.float32)[:, None]
        return exact + self.backend.array(noise)


@dataclass
class EncoderLoss:
    r"""The loss of the layout that an encoder makes, and what large weights cost.

    Outputs of the net are places in a ``unit`` about a ``center``. ``table`` (n, d) holds the places of all points as
    the net last made them.
    """

    encoder: Network
    inputs: NoisyRows
    layout: LayoutLoss
    table: FloatArray
    center: FloatArray
    unit: float
    weight_decay: float
    backend: Backend

    def __call__(self, parameters: Any, rows: IntArray) -> tuple[float, Any]:
        """Return the objective, as far as the rows know it, and its gradient by the parameters."""
        encoder = replace(self.encoder, parameters=parameters)
        outputs, kept = encoder.forward(self.inputs.draw(rows))
        self.table[rows] = self.center + self.unit * self.backend.host(outputs)
        value, slopes = self.layout.slopes(self.table, rows)
        gradient = array_module(parameters).empty_like(parameters)
        by_outputs = (self.unit / len(rows) * slopes).astype(self.backend.host(outputs).dtype)
        encoder.backward(kept, self.backend.array(by_outputs), gradient)
        return value + encoder.decay(self.weight_decay, gradient), gradient

    def value(self, parameters: Any, rows: IntArray) -> float:
        """Return the objective of all points; those of ``rows`` are placed anew for it."""
        encoder = replace(self.encoder, parameters=parameters)
        for lo in range(0, len(rows), NETWORK_ROWS_PER_TASK):
            part = rows[lo : lo + NETWORK_ROWS_PER_TASK]
            outputs, _ = encoder.forward(self.inputs.draw(part))
            self.table[part] = self.center + self.unit * self.backend.host(outputs)
        return self.layout.value(self.table) + encoder.decay(self.weight_decay)


@dataclass(frozen=True)
class TargetLoss:
    """The mean squared distance of a net's outputs to ``targets`` (n, d), and what large weights cost."""

    encoder: Network
    inputs: NoisyRows
    targets: Any
    weight_decay: float
    backend: Backend
    run: Run

    def __call__(self, parameters: Any, rows: IntArray) -> tuple[float, Any]:
        """Return the objective of some rows, and its gradient by the parameters."""
        encoder = replace(self.encoder, parameters=parameters)
        seen = self.inputs.draw(rows)

        def task(lo: int, hi: int) -> tuple[float, Any]:
            outputs, kept = encoder.forward(seen[lo:hi])
            outputs -= self.targets[self.backend.index(rows[lo:hi])]
            value = float((outputs * outputs).sum()) / len(rows)
            outputs *= 2.0 / len(rows)
            gradient = array_module(parameters).empty_like(parameters)
            encoder.backward(kept, outputs, gradient)
            return value, gradient

        value, gradient = added(self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True))
        return value + encoder.decay(self.weight_decay, gradient), gradient

    def value(self, parameters: Any, rows: IntArray) -> float:
        """Return the objective of some rows."""
        encoder = replace(self.encoder, parameters=parameters)
        total = 0.0
        for lo, hi in self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK):
            part = rows[lo:hi]
            gaps = encoder.forward(self.inputs.draw(part))[0] - self.targets[self.backend.index(part)]
            total += float((gaps * gaps).sum())
        return total / len(rows) + encoder.decay(self.weight_decay)
