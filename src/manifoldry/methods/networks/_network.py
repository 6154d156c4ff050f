"""A small multilayer net: its parameters in one vector, the way forward, and the way back of a gradient.

Written with what numpy and torch have in common, so that one text serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.eigen.linear_span import FeatureRows, principal_span
from manifoldry._numerics.geometry.neighborhoods import dense

Activation = Literal["tanh", "relu", "identity"]
BackendName = Literal["numpy", "torch"]

NETWORK_ROWS_PER_TASK = 1024
"""Rows that one thread leads through a net at a time: enough for the products of matrices to be fast."""


@dataclass(frozen=True)
class Layers:
    """The matrices of a net, as views of its vector of parameters."""

    linear: Any
    shift: Any
    hidden: list[tuple[Any, Any]]
    last: Any


@dataclass(frozen=True)
class Network:
    r"""A multilayer net with a linear connection past its hidden layers.

    .. math:: f(x) = V^T x + c + W^T h_L, \qquad h_l = \varphi(W_l^T h_{l-1} + b_l), \quad h_0 = x .

    With W = 0 it is linear, and so it starts; without hidden layers it stays so.

    Parameters
    ----------
    sizes : tuple of int
        Inputs, hidden layers, outputs.
    activation : {"tanh", "relu", "identity"}
        The function :math:`\varphi`.
    parameters : ndarray or tensor of shape (n_parameters,)
        V, c, the pairs of :math:`W_l` and :math:`b_l`, W.
    """

    sizes: tuple[int, ...]
    activation: str
    parameters: Any

    def _check_loaded(self) -> None:
        """Refuse another number of parameters than the layers have."""
        counted = len(self.sizes) > 1 and all(type(size) is int and size > 0 for size in self.sizes)
        if not counted or self.activation not in get_args(Activation) or len(self.parameters) != self.n_parameters:
            raise ValueError(f"A net of layers {self.sizes} does not have {len(self.parameters)} parameters.")

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parameters, in their order."""
        first, *hidden, outputs = self.sizes
        pairs = zip([first, *hidden], hidden, strict=False)
        between = [shape for low, high in pairs for shape in ((low, high), (high,))]
        return [(first, outputs), (outputs,), *between, *([(hidden[-1], outputs)] if hidden else [])]

    @property
    def n_parameters(self) -> int:
        """Length of the vector of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def layers(self, vector: Any = None) -> Layers:
        """Return views of the parameters, or of another vector of their length, as matrices."""
        vector = self.parameters if vector is None else vector
        views, lo = [], 0
        for shape in self.shapes:
            hi = lo + int(np.prod(shape))
            views.append(vector[lo:hi].reshape(shape))
            lo = hi
        middle = views[2:-1]
        return Layers(views[0], views[1], list(zip(middle[::2], middle[1::2], strict=True)), (views[2:] or [None])[-1])

    def forward(self, X: Any) -> tuple[Any, list[Any]]:
        """Return the outputs (n, outputs) of rows, and the rows and activations that `backward` needs."""
        layers, kept = self.layers(), [X]
        for weights, bias in layers.hidden:
            kept.append(_activate(kept[-1] @ weights + bias, self.activation))
        Y = X @ layers.linear + layers.shift
        return (Y + kept[-1] @ layers.last if layers.hidden else Y), kept

    def backward(self, kept: list[Any], G: Any, into: Any, *, inputs: bool = False) -> Any:
        """Write ``into`` a vector the gradient by the parameters of a sum over rows, by that by the outputs, ``G``.

        Returns that by the inputs, the product of G with the Jacobian, if asked for.
        """
        xp, layers, by = array_module(G), self.layers(), self.layers(into)
        xp.matmul(kept[0].T, G, out=by.linear)
        by.shift[:] = G.sum(0)
        back = G @ layers.linear.T if inputs else None
        if not layers.hidden:
            return back
        xp.matmul(kept[-1].T, G, out=by.last)
        D = _times_slope(G @ layers.last.T, kept[-1], self.activation)
        for level in range(len(layers.hidden) - 1, -1, -1):
            xp.matmul(kept[level].T, D, out=by.hidden[level][0])
            by.hidden[level][1][:] = D.sum(0)
            if level > 0:
                D = _times_slope(D @ layers.hidden[level][0].T, kept[level], self.activation)
        if inputs and back is not None:
            back += D @ layers.hidden[0][0].T
        return back

    def decay(self, strength: float, into: Any = None) -> float:
        """Return ``strength`` times the sum of squares of the weights but V, and add its gradient to a vector."""
        total = 0.0
        for weights, slope in zip(self._bent(), self._bent(into), strict=True):
            total += strength * float((weights * weights).sum())
            if into is not None:
                slope += 2 * strength * weights
        return total

    def _bent(self, vector: Any = None) -> list[Any]:
        """Return the weights of the hidden layers, and W."""
        layers = self.layers(vector)
        return [*(weights for weights, _ in layers.hidden), *([layers.last] if layers.hidden else [])]

    def after(self, matrix: FloatArray, origin: FloatArray | float = 0.0) -> Network:
        """Return the net of rows that ``(row - origin) @ matrix`` turns into this net's inputs."""
        layers = self.layers()
        start = np.broadcast_to(origin, len(matrix)) @ matrix
        parts = [matrix @ layers.linear, layers.shift - start @ layers.linear]
        for level, (weights, bias) in enumerate(layers.hidden):
            parts += [weights, bias] if level else [matrix @ weights, bias - start @ weights]
        parts += [layers.last] if layers.hidden else []
        return replace(self, sizes=(len(matrix), *self.sizes[1:]), parameters=joined(parts))

    def before(self, matrix: FloatArray) -> Network:
        """Return the net whose outputs are this net's times ``matrix`` (outputs, features)."""
        layers = self.layers()
        parts = [layers.linear @ matrix, layers.shift @ matrix]
        parts += [part for pair in layers.hidden for part in pair]
        parts += [layers.last @ matrix] if layers.hidden else []
        return replace(self, sizes=(*self.sizes[:-1], matrix.shape[1]), parameters=joined(parts))

    def stirred(self, size: float, rng: np.random.Generator) -> Network:
        """Return the net with random numbers, over the root of the width, in place of W: a little off linear."""
        parameters = self.parameters + 0
        if (last := self.layers(parameters).last) is not None:
            last[:] = size / np.sqrt(len(last)) * rng.standard_normal(last.shape)
        return replace(self, parameters=parameters)

    def shifted(self, by: FloatArray) -> Network:
        """Return the net whose outputs are this net's plus ``by``."""
        parameters = self.parameters + 0
        self.layers(parameters).shift[:] += by
        return replace(self, parameters=parameters)

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the outputs of rows, on several threads."""
        with_rows = run.map(
            lambda lo, hi: self.forward(X[lo:hi])[0], run.ranges(len(X), NETWORK_ROWS_PER_TASK), blas=True
        )
        return np.concatenate([np.empty((0, self.sizes[-1])), *with_rows])


def joined(parts: Sequence[Any]) -> Any:
    """Return arrays one after the other in one vector."""
    return np.concatenate([np.ravel(part) for part in parts])


def array_module(values: Any) -> Any:
    """Return the library of an array: numpy, or torch."""
    if isinstance(values, np.ndarray):
        return np
    import torch

    return torch


def linear_network(
    linear: FloatArray, hidden: Sequence[int], activation: str, spread: float, rng: np.random.Generator
) -> Network:
    """Return a net that is the linear map x -> x @ linear: W is 0, what comes before it random.

    ``spread`` is the root of the inputs' sum of variances: arguments of the first layer begin with unit variance. So do
    the others' if activations have about half of that.
    """
    sizes = (linear.shape[0], *hidden, linear.shape[1])
    network = Network(sizes, activation, np.empty(0))
    parameters = np.zeros(network.n_parameters)
    layers = network.layers(parameters)
    layers.linear[:] = linear
    for level, (weights, bias) in enumerate(layers.hidden):
        weights[:] = rng.standard_normal(weights.shape) / (spread if level == 0 else np.sqrt(weights.shape[0] / 2))
        bias[:] = rng.uniform(-1.0, 1.0, bias.shape)
    return replace(network, parameters=parameters)


def _activate(A: Any, activation: str) -> Any:
    if activation == "identity":
        return A
    xp = array_module(A)
    return xp.tanh(A, out=A) if activation == "tanh" else xp.clip(A, 0.0, None, out=A)


def _times_slope(D: Any, H: Any, activation: str) -> Any:
    """Return ``D`` times the slopes of the activation, by its values ``H``."""
    if activation == "tanh":
        D -= D * (H * H)
    elif activation == "relu":
        D *= H > 0
    return D


# A trained net as a map: rows to places, or places to rows.

MAX_NETWORK_INPUTS = 1024
"""Principal components that a net is given at most, the leading ones. Of wider rows the others have little variance,
and the net's first layer stays small enough to train."""

N_ORDERING_COMPONENTS = 3
"""Leading components by which rows are ordered: more than one, for the first may be the same of many rows."""


@dataclass(frozen=True)
class NetworkMap:
    """The map ``network(row - mean)``: its size does not depend on the number of rows it was trained on."""

    mean: FloatArray
    network: Network

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        return self.network(dense(X) - self.mean, run)


@dataclass(frozen=True)
class NetworkInverse:
    """The map ``mean + network(place)``."""

    mean: FloatArray
    network: Network

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points of given coordinates."""
        points: FloatArray = self.mean + self.network(np.asarray(Y, dtype=np.float64), run)
        return points


@dataclass(frozen=True)
class NetworkInputs:
    """Rows in the form in which a net is trained: principal components, divided by the largest standard deviation.

    So a rotation, a shift or another unit of the data changes nothing. ``order`` sorts the rows by their components:
    in that order the same rows make the same minibatches, however they came. ``lost`` is the share of the variance that
    is in none of the components, ``origin`` what remains of the mean where it was rounded.
    """

    mean: FloatArray
    origin: FloatArray
    directions: FloatArray
    unit: float
    rows: FloatArray
    order: Array
    lost: float

    @classmethod
    def of(cls, X: Any, run: Run, most: int = MAX_NETWORK_INPUTS) -> NetworkInputs:
        """Return the inputs of rows: at most so many components."""
        table = dense(X)
        mean = table.mean(axis=0)
        span = principal_span(FeatureRows(table - mean), run)  # of rows far from zero the mean is rounded: see `origin`
        kept = slice(0, min(span.rank, most))
        signs = column_signs(span.coordinates[:, kept])
        unit = float(span.singular_values[0] / np.sqrt(len(table)))
        scores = span.coordinates[:, kept] * (signs / unit)
        lost = float((span.singular_values[kept.stop :] ** 2).sum() / (span.singular_values**2).sum())
        order = np.lexsort(scores.T[:N_ORDERING_COMPONENTS][::-1])
        return cls(mean, span.mean, span.directions[:, kept] * signs, unit, scores, order, lost)

    @property
    def variance(self) -> float:
        """The sum of the variances of the inputs."""
        return float((self.rows**2).sum() / len(self.rows))

    def of_all(self, lost: float) -> float:
        """Return the share of the rows' variance that is lost, by that of the inputs'."""
        return self.lost + (1.0 - self.lost) * lost

    def encoder(self, network: Network, unit: float = 1.0, center: FloatArray | None = None) -> NetworkMap:
        """Return the map of rows that a net of these inputs makes, its outputs in a unit about a center."""
        outer = network.after(self.directions / self.unit, self.origin).before(unit * np.eye(network.sizes[-1]))
        return NetworkMap(self.mean, outer if center is None else outer.shifted(center))

    def decoder(self, network: Network) -> NetworkInverse:
        """Return the way back to rows that a net from coordinates, in the unit of the rows, to these inputs makes."""
        from_unit = network.after(np.eye(network.sizes[0]) / self.unit)
        return NetworkInverse(self.mean + self.origin, from_unit.before(self.unit * self.directions.T))
