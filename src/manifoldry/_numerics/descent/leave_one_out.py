r"""The loss of one point of a finished layout as a function of its position: t-SNE and UMAP.

A pair at squared distance s adds f(s), with gradient :math:`2 f'(s)\,(y - y_j)` and Hessian
:math:`2 f'(s) I + 4 f''(s) (y - y_j)(y - y_j)^T`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.descent.negative_sampling import REPULSION_OFFSET, LayoutParameters
from manifoldry._numerics.descent.optimizer import descend_rows
from manifoldry._numerics.repulsion import LayoutKernel, Potential

MAX_REPELLING_POINTS = 2048
"""Maximum number of points whose repulsion is summed in UMAP's loss; from more, a random sample is used."""

N_STARTS = 8  # neighbors of greatest affinity whose positions are tried as starts


@dataclass(frozen=True)
class LeftOut:
    """Points left out of a layout: indices, neighbors and affinities, padded with 0: (m,), (m, k), (m, k)."""

    indices: IntArray
    neighbors: IntArray
    weights: FloatArray

    def __getitem__(self, rows: Array) -> LeftOut:
        return LeftOut(self.indices[rows], self.neighbors[rows], self.weights[rows])

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True)
class JointLeftOut:
    r"""n times the divergence of t-SNE and symmetric SNE as a function of one position (liu2025).

    .. math:: L_i(y) = -2 n \sum_j p_{ij} \ln w(\|y - y_j\|^2)
        + n \ln \Big( Z_i + 2 \sum_{j \ne i} w(\|y - y_j\|^2) \Big) ,

    where ``others`` holds the sums :math:`Z_i` of w over the ordered pairs of the other points, and ``potential`` is
    the sum of w over all points of the layout.
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
        """Return the loss (m,) of points at positions (m, d), up to a constant."""
        logs = np.log(self.kernel.value(_squares(Y[:, None] - self.layout[points.neighbors])))
        total, _ = self._normalizer(Y, points.indices)
        return len(self.layout) * (np.log(total) - 2.0 * np.einsum("ij,ij->i", points.weights, logs))

    def half_gradient(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return a quarter of the gradient (m, d), with an attraction of size 1."""
        differences = Y[:, None] - self.layout[points.neighbors]
        pull = np.einsum("ij,ijc->ic", points.weights * self.kernel.attraction(_squares(differences)), differences)
        total, gradient = self._normalizer(Y, points.indices)
        return len(self.layout) * (pull + 0.5 * gradient / total[:, None])

    def hessian(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        """Return the second derivatives (m, d, d), the repulsion summed over all pairs."""
        n, kernel = len(self.layout), self.kernel
        differences = Y[:, None] - self.layout[points.neighbors]
        s = _squares(differences)
        pull = _pairs_hessian(
            points.weights * kernel.attraction(s), points.weights * kernel.attraction_slope(s), differences
        )
        differences = Y[:, None] - self.layout
        differences[np.arange(len(Y)), points.indices] = 0.0
        s = _squares(differences)
        w, g = kernel.value(s), kernel.attraction(s)
        w[np.arange(len(Y)), points.indices] = 0.0
        total = self.others[points.indices] + 2.0 * w.sum(axis=1)
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

    with affinities v, m negative samples, repulsion strength :math:`\gamma`, summed over the points ``repelling``.

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
        pull, _, _ = self._attraction(_squares(Y[:, None] - self.layout[points.neighbors]))
        _, s, counts = self._to_repelling(Y, points.indices)
        push, _, _ = self._repulsion(s)
        return np.einsum("ij,ij->i", _shares(points), pull) + np.einsum("ij,ij->i", counts, push)

    def half_gradient(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        differences = Y[:, None] - self.layout[points.neighbors]
        pull = np.einsum("ij,ijc->ic", _shares(points) * self._attraction(_squares(differences))[1], differences)
        differences, s, counts = self._to_repelling(Y, points.indices)
        return pull + np.einsum("ij,ijc->ic", counts * self._repulsion(s)[1], differences)

    def hessian(self, Y: FloatArray, points: LeftOut) -> FloatArray:
        differences = Y[:, None] - self.layout[points.neighbors]
        _, first, second = self._attraction(_squares(differences))
        shares = _shares(points)
        pull = _pairs_hessian(shares * first, shares * second, differences)
        differences, s, counts = self._to_repelling(Y, points.indices)
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


LeftOutLoss = JointLeftOut | SampledLeftOut


def embed_left_out(loss: LeftOutLoss, points: LeftOut, start: FloatArray, *, anywhere: bool = True) -> FloatArray:
    """Return where points descend from their ``start`` or, with ``anywhere``, from a neighbor if that is lower."""
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
    rows = np.arange(len(points))
    starts = np.stack([loss.layout[points.neighbors[rows, column]] for column in first.T])
    return starts[np.argmin([loss.value(start, points) for start in starts], axis=0), rows]


def _shares(points: LeftOut) -> FloatArray:
    return points.weights / points.weights.sum(axis=1, keepdims=True)


def _pairs_hessian(first: FloatArray, second: FloatArray, differences: FloatArray) -> FloatArray:
    """Return the sum over pairs of 2 f' I + 4 f'' d d'."""
    d = differences.shape[-1]
    return 2.0 * first.sum(axis=1)[:, None, None] * np.eye(d) + 4.0 * np.einsum(
        "ij,ija,ijb->iab", second, differences, differences
    )


def _squares(differences: FloatArray) -> FloatArray:
    return np.einsum("...c,...c->...", differences, differences)
