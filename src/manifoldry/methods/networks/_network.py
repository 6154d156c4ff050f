"""A small multilayer network: its parameters in one vector, the forward and the backward pass, maps, and training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.eigen.linear_span import FeatureRows, principal_span
from manifoldry._numerics.geometry.neighborhoods import dense

Activation = Literal["tanh", "relu", "identity"]
NETWORK_ROWS_PER_TASK = 1024  # rows that a thread processes at a time: enough for fast products of matrices


@dataclass(frozen=True)
class Layers:
    """The matrices of a network, as views of its vector of parameters."""

    linear: FloatArray
    shift: FloatArray
    hidden: list[tuple[FloatArray, FloatArray]]
    last: FloatArray | None

    @property
    def penalized(self) -> list[FloatArray]:
        """The weights of the hidden layers, and W."""
        return [] if self.last is None else [*(weights for weights, _ in self.hidden), self.last]


@dataclass(frozen=True)
class Network:
    r"""A multilayer network with a linear connection past its hidden layers.

    .. math:: f(x) = V^T x + c + W^T h_L, \qquad h_l = \varphi(W_l^T h_{l-1} + b_l), \quad h_0 = x .

    It starts linear, with W = 0. ``sizes`` are those of inputs, hidden layers and outputs; ``parameters`` hold V, c,
    the pairs of :math:`W_l` and :math:`b_l`, and W.
    """

    sizes: tuple[int, ...]
    activation: str
    parameters: FloatArray

    def _check_loaded(self) -> None:
        """Raise an error for another number of parameters than the layers have."""
        counted = len(self.sizes) > 1 and all(type(size) is int and size > 0 for size in self.sizes)
        if not counted or self.activation not in get_args(Activation) or len(self.parameters) != self.n_parameters:
            raise ValueError(f"A network of layers {self.sizes} does not have {len(self.parameters)} parameters.")

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
        return sum(math.prod(shape) for shape in self.shapes)

    def layers(self, vector: FloatArray | None = None) -> Layers:
        """Return views of the parameters, or of another vector of their length, as matrices."""
        vector = self.parameters if vector is None else vector
        views, lo = [], 0
        for shape in self.shapes:
            hi = lo + math.prod(shape)
            views.append(vector[lo:hi].reshape(shape))
            lo = hi
        middle = views[2:-1]
        hidden = list(zip(middle[::2], middle[1::2], strict=True))
        return Layers(views[0], views[1], hidden, views[-1] if hidden else None)

    def forward(self, X: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return the outputs (n, outputs) of rows, and the rows and activations that `backward` needs."""
        layers, activations = self.layers(), [X]
        for weights, bias in layers.hidden:
            activations.append(_activate(activations[-1] @ weights + bias, self.activation))
        Y = X @ layers.linear + layers.shift
        return Y if layers.last is None else Y + activations[-1] @ layers.last, activations

    def backward(self, activations: list[FloatArray], G: FloatArray, into: FloatArray) -> Callable[[], FloatArray]:
        """Write ``into`` the gradient by the parameters, given ``G`` by the outputs; return that by inputs lazily."""
        layers, slopes = self.layers(), self.layers(into)
        np.matmul(activations[0].T, G, out=slopes.linear)
        slopes.shift[:] = G.sum(0)
        if layers.last is None or slopes.last is None:
            return lambda: G @ layers.linear.T
        np.matmul(activations[-1].T, G, out=slopes.last)
        D = _times_slope(G @ layers.last.T, activations[-1], self.activation)
        for level in range(len(layers.hidden) - 1, -1, -1):
            np.matmul(activations[level].T, D, out=slopes.hidden[level][0])
            slopes.hidden[level][1][:] = D.sum(0)
            if level > 0:
                D = _times_slope(D @ layers.hidden[level][0].T, activations[level], self.activation)
        return lambda: G @ layers.linear.T + D @ layers.hidden[0][0].T

    def decay(self, strength: float, into: FloatArray | None = None) -> float:
        """Return ``strength`` times the sum of squares of the weights but V, and add its gradient to a vector."""
        total = 0.0
        for weights, slope in zip(self.layers().penalized, self.layers(into).penalized, strict=True):
            total += strength * float((weights * weights).sum())
            if into is not None:
                slope += 2 * strength * weights
        return total

    def after(self, matrix: FloatArray, origin: FloatArray | float = 0.0) -> Network:
        """Return the network of rows that ``(row - origin) @ matrix`` turns into this network's inputs."""
        layers = self.layers()
        start = np.broadcast_to(origin, len(matrix)) @ matrix
        parts = [matrix @ layers.linear, layers.shift - start @ layers.linear]
        for level, (weights, bias) in enumerate(layers.hidden):
            parts += [weights, bias] if level else [matrix @ weights, bias - start @ weights]
        return self._joined((len(matrix), *self.sizes[1:]), parts, layers.last)

    def before(self, matrix: FloatArray) -> Network:
        """Return the network whose outputs are this network's times ``matrix`` (outputs, features)."""
        layers = self.layers()
        parts = [layers.linear @ matrix, layers.shift @ matrix, *(part for pair in layers.hidden for part in pair)]
        last = None if layers.last is None else layers.last @ matrix
        return self._joined((*self.sizes[:-1], matrix.shape[1]), parts, last)

    def _joined(self, sizes: tuple[int, ...], parts: list[FloatArray], last: FloatArray | None) -> Network:
        vectors = [np.ravel(part) for part in (parts if last is None else [*parts, last])]
        return replace(self, sizes=sizes, parameters=np.concatenate(vectors))

    def perturbed(self, size: float, rng: np.random.Generator) -> Network:
        """Return the network with random numbers, over the root of the width, in place of W."""
        parameters = self.parameters.copy()
        if (last := self.layers(parameters).last) is not None:
            last[:] = size / np.sqrt(len(last)) * rng.standard_normal(last.shape)
        return replace(self, parameters=parameters)

    def shifted(self, by: FloatArray) -> Network:
        """Return the network whose outputs are this network's plus ``by``."""
        parameters = self.parameters.copy()
        self.layers(parameters).shift[:] += by
        return replace(self, parameters=parameters)

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the outputs of rows, on several threads."""
        ranges = run.ranges(len(X), NETWORK_ROWS_PER_TASK)
        outputs = run.map(lambda lo, hi: self.forward(X[lo:hi])[0], ranges, blas=True)
        return np.concatenate([np.empty((0, self.sizes[-1])), *outputs])


def linear_network(
    linear: FloatArray, hidden: Sequence[int], activation: str, spread: float, rng: np.random.Generator
) -> Network:
    """Return a network that is the linear map x -> x @ linear: W is 0, the other layers are random.

    ``spread`` is the root of the inputs' sum of variances: arguments of the first layer begin with unit variance, and
    those of the others too if activations have about half of that.
    """
    network = Network((linear.shape[0], *hidden, linear.shape[1]), activation, np.empty(0))
    parameters = np.zeros(network.n_parameters)
    layers = network.layers(parameters)
    layers.linear[:] = linear
    for level, (weights, bias) in enumerate(layers.hidden):
        weights[:] = rng.standard_normal(weights.shape) / (spread if level == 0 else np.sqrt(weights.shape[0] / 2))
        bias[:] = rng.uniform(-1.0, 1.0, bias.shape)
    return replace(network, parameters=parameters)


def _activate(A: FloatArray, activation: str) -> FloatArray:
    if activation == "identity":
        return A
    return np.tanh(A, out=A) if activation == "tanh" else np.clip(A, 0.0, None, out=A)


def _times_slope(D: FloatArray, H: FloatArray, activation: str) -> FloatArray:
    """Return ``D`` times the slopes of the activation, by its values ``H``."""
    if activation == "tanh":
        D -= D * (H * H)
    elif activation == "relu":
        D *= H > 0
    return D


MAX_NETWORK_INPUTS = 1024
"""Maximum number of principal components that a network gets: the first layer stays small enough to train."""
N_ORDERING_COMPONENTS = 3  # leading components by which rows are ordered: the first may be equal for many rows


@dataclass(frozen=True)
class NetworkMap:
    """The map ``network(row - mean)``: its size does not depend on the number of rows it was trained on."""

    mean: FloatArray
    network: Network

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        return self.network(dense(X) - self.mean, run)


@dataclass(frozen=True)
class NetworkInverse:
    """The map ``mean + network(coordinates)``."""

    mean: FloatArray
    network: Network

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points of given coordinates."""
        points: FloatArray = self.mean + self.network(np.asarray(Y, dtype=np.float64), run)
        return points


@dataclass(frozen=True)
class NetworkInputs:
    """Rows as a network is trained on them: principal components, divided by the largest standard deviation.

    So rotation, shift and unit of the data change nothing. ``order`` sorts the rows by their components, so that
    minibatches do not depend on the given order. ``lost`` is the share of the variance in none of the components,
    ``origin`` what remains of the mean where it was rounded.
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
        span = principal_span(FeatureRows(table - mean), run)  # far from zero the mean is rounded: see `origin`
        leading = slice(0, min(span.rank, most))
        signs = column_signs(span.coordinates[:, leading])
        unit = float(span.singular_values[0] / np.sqrt(len(table)))
        scores = span.coordinates[:, leading] * (signs / unit)
        lost = float((span.singular_values[leading.stop :] ** 2).sum() / (span.singular_values**2).sum())
        order = np.lexsort(scores.T[:N_ORDERING_COMPONENTS][::-1])
        return cls(mean, span.mean, span.directions[:, leading] * signs, unit, scores, order, lost)

    @property
    def variance(self) -> float:
        """The sum of the variances of the inputs."""
        return float((self.rows**2).sum() / len(self.rows))

    def of_all(self, lost: float) -> float:
        """Return the share of the rows' variance that is lost, by that of the inputs'."""
        return self.lost + (1.0 - self.lost) * lost

    def encoder(self, network: Network, unit: float = 1.0, center: FloatArray | None = None) -> NetworkMap:
        """Return the map of rows by a network of these inputs, its outputs in a unit about a center."""
        outer = network.after(self.directions / self.unit, self.origin).before(unit * np.eye(network.sizes[-1]))
        return NetworkMap(self.mean, outer if center is None else outer.shifted(center))

    def decoder(self, network: Network) -> NetworkInverse:
        """Return the inverse map to rows by a network from coordinates, in the unit of the rows, to these inputs."""
        from_unit = network.after(np.eye(network.sizes[0]) / self.unit)
        return NetworkInverse(self.mean + self.origin, from_unit.before(self.unit * self.directions.T))


# Training: Adam on minibatches, or L-BFGS on all rows; the best parameters are returned.

Validation = Callable[[FloatArray], float] | None
"""Parameters to the error by which the best are chosen; None chooses the last."""
FIRST_MOMENT, SECOND_MOMENT, ADAM_OFFSET = 0.9, 0.999, 1e-8
"""Decay of the running means, and what is added to the root: those of kingma2015."""


class Loss(Protocol):
    """A mean over rows that the training of a network lowers."""

    def __call__(self, parameters: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the mean over rows of these numbers, and its gradient by the parameters."""

    def value(self, parameters: FloatArray, rows: IntArray) -> float:
        """Return the mean alone."""


def summed(task: Callable[[int, int], tuple[float, FloatArray]], rows: IntArray, run: Run) -> tuple[float, FloatArray]:
    """Return the sums of the values and gradients of ranges of rows, in their order, computed on several threads."""
    (value, gradient), *others = run.map(task, run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True)
    for more, slope in others:
        value += more
        gradient += slope
    return value, gradient


@dataclass
class Adam:
    """Steps along a running mean of the gradient, each coordinate over the root of that of its squares (kingma2015)."""

    learning_rate: float
    _mean: Any = field(default=None, init=False, repr=False)
    _square: Any = field(default=None, init=False, repr=False)
    _steps: int = field(default=0, init=False)

    def move(self, parameters: FloatArray, gradient: FloatArray, share: float) -> None:
        """Move ``parameters``, in place, by one step with this share of the learning rate."""
        if self._mean is None:
            self._mean, self._square = np.zeros_like(parameters), np.zeros_like(parameters)
        self._steps += 1
        self._mean *= FIRST_MOMENT
        self._mean += (1 - FIRST_MOMENT) * gradient
        self._square *= SECOND_MOMENT
        gradient *= gradient
        gradient *= 1 - SECOND_MOMENT
        self._square += gradient
        np.sqrt(self._square, out=gradient)
        gradient += ADAM_OFFSET * (1 - SECOND_MOMENT**self._steps) ** 0.5
        np.divide(self._mean, gradient, out=gradient)
        length = (1 - SECOND_MOMENT**self._steps) ** 0.5 / (1 - FIRST_MOMENT**self._steps)
        gradient *= share * self.learning_rate * length
        parameters -= gradient


@dataclass(frozen=True)
class Schedule:
    """Epochs of Adam, or iterations of L-BFGS until derivatives are below ``tol``; patience is that of a validation."""

    n_epochs: int
    batch_size: int
    learning_rate: float
    patience: int = 10
    tol: float = 0.0


@dataclass
class Training:
    """The state of a training: the losses, and the parameters of least validation error, or the last."""

    validation: Validation
    schedule: Schedule
    run: Run
    losses: list[float] = field(default_factory=list)
    parameters: Any = None
    stop: Stop = Stop.LIMIT
    _best: float = np.inf
    _since: int = 0

    def goes_on(self, parameters: FloatArray, loss: float) -> bool:
        """Record the parameters after an epoch; return whether another one follows."""
        self.losses.append(loss)
        value = -float(len(self.losses)) if self.validation is None else self.validation(parameters)
        self._since += 1
        if value < self._best or self.parameters is None:
            self._best, self.parameters, self._since = value, parameters.copy(), 0
        epoch = len(self.losses) - 1
        if epoch and not self.run.step(epoch, self.schedule.n_epochs, f"loss {loss:.4g}"):
            self.stop = Stop.ASKED
        elif self._since >= self.schedule.patience:
            self.stop = Stop.CONVERGED
        return self.stop is Stop.LIMIT

    @property
    def result(self) -> tuple[FloatArray, Trace]:
        """The best parameters, and the losses."""
        return self.parameters, Trace(np.array(self.losses), self.stop)


def train(
    parameters: FloatArray, loss: Loss, rows: IntArray, schedule: Schedule, run: Run, validation: Validation = None
) -> tuple[FloatArray, Trace]:
    """Return the parameters after Adam on new minibatches in each epoch, and its mean loss; the rate decreases to 0."""
    parameters = parameters.copy()
    training, adam, rng = Training(validation, schedule, run), Adam(schedule.learning_rate), run.rng("minibatches")
    n_batches = max(1, round(len(rows) / schedule.batch_size))
    with run.stage("training"), run.stoppable():
        training.goes_on(parameters, loss.value(parameters, rows))
        for epoch in range(schedule.n_epochs):
            total = 0.0
            for b, batch in enumerate(np.array_split(rng.permutation(rows), n_batches)):
                value, gradient = loss(parameters, batch)
                adam.move(parameters, gradient, 1.0 - (epoch + b / n_batches) / schedule.n_epochs)
                total += value * len(batch) / len(rows)
            if not training.goes_on(parameters, total):
                break
    return training.result


def minimize_loss(
    parameters: FloatArray, loss: Loss, rows: IntArray, schedule: Schedule, run: Run, validation: Validation = None
) -> tuple[FloatArray, Trace]:
    """Return the parameters after L-BFGS on all ``rows``, and the loss after each iteration."""
    from scipy.optimize import minimize

    training, start = Training(validation, schedule, run), np.asarray(parameters, dtype=np.float64)

    def record(intermediate_result: Any) -> None:
        if not training.goes_on(intermediate_result.x, float(intermediate_result.fun)):
            raise StopIteration

    limits = {"maxiter": schedule.n_epochs, "maxfun": 20 * schedule.n_epochs + 20}
    with run.stage("training"), run.stoppable():
        training.goes_on(start, loss.value(start, rows))
        options = {**limits, "gtol": schedule.tol, "ftol": 0.0}
        result = minimize(loss, start, (rows,), jac=True, method="L-BFGS-B", callback=record, options=options)
    if training.stop is Stop.LIMIT and result.status != 1:
        training.stop = Stop.CONVERGED
    return training.result
