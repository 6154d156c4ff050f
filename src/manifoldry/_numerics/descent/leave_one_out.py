r"""The loss of one point of a finished layout as a function of its position, with all others fixed: t-SNE and UMAP.

In both a pair at squared distance s adds f(s), so its gradient is :math:`2 f'(s)\,(y - y_j)` and its Hessian
:math:`2 f'(s) I + 4 f''(s) (y - y_j)(y - y_j)^T`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.descent.negative_sampling import REPULSION_OFFSET, LayoutParameters
from manifoldry._numerics.descent.optimizer import descend_rows
from manifoldry._numerics.repulsion import LayoutKernel, Potential

MAX_REPELLING_POINTS = 2048
"""Maximum number of points whose repulsion is summed in UMAP's loss; from more, a random sample is used."""

N_STARTS = 8
"""Neighbors of greatest affinity whose positions are tried as starts."""


@dataclass(frozen=True)
class LeftOut:
    """Points left out of a layout: indices ``own`` (m,), neighbors ``near`` and affinities ``weights`` (m, k).

    Shorter rows are padded with weights of 0.
    """

    own: IntArray
    near: IntArray
    weights: FloatArray

    def __getitem__(self, rows: Array) -> LeftOut:
        return LeftOut(self.own[rows], self.near[rows], self.weights[rows])

    def __len__(self) -> int:
        return len(self.own)


class LeftOutLoss(Protocol):
    """The loss of points left out, at any positions (m, d)."""

    layout: FloatArray

    def value(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the loss (m,), up to a constant."""

    def half_gradient(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return a fixed multiple of the gradient (m, d), with an attraction of size 1."""

    def hessian(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the second derivatives (m, d, d)."""


@dataclass(frozen=True)
class JointLeftOut:
    r"""n times the divergence of t-SNE and symmetric SNE as a function of one position.

    .. math:: L_i(y) = -2 n \sum_j p_{ij} \ln w(\|y - y_j\|^2)
        + n \ln \Big( Z_i + 2 \sum_{j \ne i} w(\|y - y_j\|^2) \Big) ,

    where :math:`Z_i` is the sum of w over the ordered pairs of the other points. ``potential`` is the sum of w over all
    points of the layout, ``others`` holds the :math:`Z_i`.

    References: liu2025.
    """

    layout: FloatArray
    kernel: LayoutKernel
    potential: Potential
    others: FloatArray

    @classmethod
    def of(cls, layout: FloatArray, kernel: LayoutKernel, potential: Potential, run: Run) -> JointLeftOut:
        """Return the loss in a finished layout."""
        at_points = potential(layout, run)[0] - 1.0  # w(0) = 1 is the point's own
        return cls(layout, kernel, potential, at_points.sum() - 2.0 * at_points)

    def value(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the loss."""
        logs = np.log(self.kernel.value(_squares(Y[:, None] - self.layout[points.near])))
        total, _ = self._normalizer(Y, points.own)
        return len(self.layout) * (np.log(total) - 2.0 * np.einsum("ij,ij->i", points.weights, logs))

    def half_gradient(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return a quarter of the gradient."""
        differences = Y[:, None] - self.layout[points.near]
        pull = np.einsum("ij,ijc->ic", points.weights * self.kernel.attraction(_squares(differences)), differences)
        total, gradient = self._normalizer(Y, points.own)
        return len(self.layout) * (pull + 0.5 * gradient / total[:, None])

    def hessian(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the second derivatives, the repulsion summed over all pairs."""
        n, kernel = len(self.layout), self.kernel
        differences = Y[:, None] - self.layout[points.near]
        s = _squares(differences)
        pull = _pairs_hessian(
            points.weights * kernel.attraction(s), points.weights * kernel.attraction_slope(s), differences
        )
        differences, s = _to_others(Y, self.layout, points.own)
        w, g = kernel.value(s), kernel.attraction(s)
        w[np.arange(len(Y)), points.own] = 0.0
        total = self.others[points.own] + 2.0 * w.sum(axis=1)
        slope = -2.0 * np.einsum("ij,ijc->ic", w * g, differences)
        push = _pairs_hessian(-w * g, w * (g**2 - kernel.attraction_slope(s)), differences)
        share = slope / total[:, None]
        return 2.0 * n * (pull + push / total[:, None, None] - 2.0 * share[:, :, None] * share[:, None, :])

    def _normalizer(self, Y: FloatArray, indices: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the sum of w over all pairs with each point at its position, and the gradient of its potential."""
        potential, gradient = self.potential(Y, Run(0, 1))
        differences = Y - self.layout[indices]
        s = _squares(differences)
        w = self.kernel.value(s)
        total = self.others[indices] + 2.0 * np.maximum(potential - w, 0.0)
        return total, gradient + (2.0 * w * self.kernel.attraction(s))[:, None] * differences


@dataclass(frozen=True)
class SampledLeftOut:
    r"""The loss that a point of UMAP's layout descends on average, per unit of attraction.

    .. math:: L_i(y) = -\sum_j \frac{v_{ij}}{\sum_l v_{il}} \ln q(\|y - y_j\|^2)
        - \frac{m \gamma}{n} \sum_{j \ne i} \ln (1 - q(\|y - y_j\|^2)), \qquad q(s) = \frac{1}{1 + a (s + 0.001)^b} ,

    with the affinities v, m negative samples and repulsion strength :math:`\gamma`. ``repelling`` are the points whose
    repulsion is summed.

    References: mcinnes2018, damrich2021, liu2025.
    """

    layout: FloatArray
    parameters: LayoutParameters
    repelling: IntArray

    @classmethod
    def of(cls, layout: FloatArray, parameters: LayoutParameters, run: Run) -> SampledLeftOut:
        """Return the loss in a finished layout."""
        n = len(layout)
        drawn = run.rng("repelling points").permutation(n)[:MAX_REPELLING_POINTS]
        return cls(layout.astype(np.float64), parameters, np.sort(drawn))

    def value(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the loss."""
        pull, _, _ = self._attraction(_squares(Y[:, None] - self.layout[points.near]))
        _, s, counts = self._to_repelling(Y, points.own)
        push, _, _ = self._repulsion(s)
        return np.einsum("ij,ij->i", _shares(points), pull) + np.einsum("ij,ij->i", counts, push)

    def half_gradient(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return half of the gradient."""
        differences = Y[:, None] - self.layout[points.near]
        pull = np.einsum("ij,ijc->ic", _shares(points) * self._attraction(_squares(differences))[1], differences)
        differences, s, counts = self._to_repelling(Y, points.own)
        return pull + np.einsum("ij,ijc->ic", counts * self._repulsion(s)[1], differences)

    def hessian(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the second derivatives."""
        differences = Y[:, None] - self.layout[points.near]
        _, first, second = self._attraction(_squares(differences))
        shares = _shares(points)
        pull = _pairs_hessian(shares * first, shares * second, differences)
        differences, s, counts = self._to_repelling(Y, points.own)
        _, first, second = self._repulsion(s)
        return pull + _pairs_hessian(counts * first, counts * second, differences)

    def _attraction(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return -ln q and its first two derivatives."""
        a, b = self.parameters.a, self.parameters.b
        t = s + REPULSION_OFFSET
        power = a * t**b
        first = b * power / (t * (1.0 + power))
        return np.log1p(power), first, first * (b / (1.0 + power) - 1.0) / t

    def _repulsion(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return -ln(1 - q) and its first two derivatives."""
        a, b = self.parameters.a, self.parameters.b
        t = s + REPULSION_OFFSET
        power = a * t**b
        first = -b / (t * (1.0 + power))
        return np.log1p(1.0 / power), first, -first * (1.0 + b * power / (1.0 + power)) / t

    def _to_repelling(self, Y: FloatArray, indices: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return differences to the repelling points, their squares, and how much each of them counts."""
        n, p = len(self.layout), self.parameters
        differences = Y[:, None] - self.layout[self.repelling]
        different = self.repelling != indices[:, None]
        strength = p.negative_sample_rate * p.repulsion_strength * (n - 1) / n
        return differences, _squares(differences), strength * different / different.sum(axis=1, keepdims=True)


def place_left_out(loss: LeftOutLoss, points: LeftOut, start: FloatArray, *, anywhere: bool = True) -> FloatArray:
    """Return the position to which each point left out descends from its ``start``.

    With ``anywhere`` it also descends from the best of its neighbors' positions; the lower of the two losses counts.
    """
    positions = _descended(loss, points, start)
    if anywhere:
        alternative = _descended(loss, points, _best_neighbor(loss, points))
        better = loss.value(alternative, points) < loss.value(positions, points)
        positions = np.where(better[:, None], alternative, positions)
    return positions


def _descended(loss: LeftOutLoss, points: LeftOut, start: FloatArray) -> FloatArray:
    positions = np.array(start, dtype=np.float64)
    # Lengths are in units of the kernel's width; a layout is tens of them wide, so 0.01 is accurate enough for a score.
    descend_rows(
        positions,
        lambda Y, rows: loss.half_gradient(Y, points[rows]),
        learning_rate=0.5,
        momentum=0.8,
        max_move=1.0,
        max_iter=250,
        tol=1e-3,
    )
    return positions


def _best_neighbor(loss: LeftOutLoss, points: LeftOut) -> FloatArray:
    """Return the position with the lowest loss among those of the neighbors with the greatest affinities."""
    first = np.argsort(-points.weights, axis=1, kind="stable")[:, :N_STARTS]
    best = loss.layout[points.near[np.arange(len(points)), first[:, 0]]]
    least = np.full(len(points), np.inf)
    for column in first.T:
        position = loss.layout[points.near[np.arange(len(points)), column]]
        value = loss.value(position, points)
        best = np.where((value < least)[:, None], position, best)
        least = np.minimum(least, value)
    return best


def _shares(points: LeftOut) -> FloatArray:
    return points.weights / points.weights.sum(axis=1, keepdims=True)


def _to_others(Y: FloatArray, layout: FloatArray, indices: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the differences to all points of the layout, 0 for the point itself, and their squares."""
    differences = Y[:, None] - layout
    differences[np.arange(len(Y)), indices] = 0.0
    return differences, _squares(differences)


def _pairs_hessian(first: FloatArray, second: FloatArray, differences: FloatArray) -> FloatArray:
    """Return the sum over pairs of 2 f' I + 4 f'' d d'."""
    d = differences.shape[-1]
    return 2.0 * first.sum(axis=1)[:, None, None] * np.eye(d) + 4.0 * np.einsum(
        "ij,ija,ijb->iab", second, differences, differences
    )


def _squares(differences: FloatArray) -> FloatArray:
    return np.einsum("...c,...c->...", differences, differences)
