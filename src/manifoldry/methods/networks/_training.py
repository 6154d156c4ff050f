"""The training of a net: Adam by minibatches, or L-BFGS by all rows, with the best parameters kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, Stop, Trace
from manifoldry.methods.networks._network import BackendName, array_module


class Loss(Protocol):
    """A mean over rows that the training of a net lowers."""

    def __call__(self, parameters: Any, rows: IntArray) -> tuple[float, Any]:
        """Return the mean over rows of these numbers, and its gradient by the parameters."""

    def value(self, parameters: Any, rows: IntArray) -> float:
        """Return the mean alone."""


def added(parts: list[tuple[float, Any]]) -> tuple[float, Any]:
    """Return the sums of values and gradients, in the order of the tasks."""
    value, gradient = parts[0]
    for more, slope in parts[1:]:
        value += more
        gradient += slope
    return value, gradient


FIRST_MOMENT, SECOND_MOMENT, ADAM_OFFSET = 0.9, 0.999, 1e-8
"""Decay of the running means, and what is added to the root: those of kingma2015."""


@dataclass
class Adam:
    r"""Steps along a running mean of the gradient, each coordinate over the root of that of its squares.

    References: kingma2015.
    """

    learning_rate: float
    _mean: Any = field(default=None, init=False, repr=False)
    _square: Any = field(default=None, init=False, repr=False)
    _steps: int = field(default=0, init=False)

    def move(self, parameters: Any, gradient: Any, share: float) -> None:
        """Move ``parameters``, in place, by one step with this share of the learning rate."""
        xp = array_module(parameters)
        if self._mean is None:
            self._mean, self._square = xp.zeros_like(parameters), xp.zeros_like(parameters)
        self._steps += 1
        self._mean *= FIRST_MOMENT
        self._mean += (1 - FIRST_MOMENT) * gradient
        self._square *= SECOND_MOMENT
        gradient *= gradient
        gradient *= 1 - SECOND_MOMENT
        self._square += gradient
        xp.sqrt(self._square, out=gradient)
        gradient += ADAM_OFFSET * (1 - SECOND_MOMENT**self._steps) ** 0.5
        xp.divide(self._mean, gradient, out=gradient)
        length = (1 - SECOND_MOMENT**self._steps) ** 0.5 / (1 - FIRST_MOMENT**self._steps)
        gradient *= share * self.learning_rate * length
        parameters -= gradient


@dataclass(frozen=True)
class Schedule:
    """How a net is trained: epochs of Adam, or iterations of L-BFGS, which has converged at derivatives below ``tol``.

    With a judge, ``patience`` epochs without a better judgment end the training.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    patience: int = 10
    tol: float = 0.0


@dataclass
class Followed:
    """A training as it goes: the losses, and the parameters judged best, or the last where nobody judges."""

    judge: Callable[[Any], float] | None
    schedule: Schedule
    run: Run
    losses: list[float] = field(default_factory=list)
    parameters: Any = None
    stop: Stop = Stop.LIMIT
    _best: float = np.inf
    _since: int = 0

    def goes_on(self, parameters: Any, loss: float) -> bool:
        """Take note of the parameters after an epoch; tell whether another one is to follow."""
        self.losses.append(loss)
        value = -float(len(self.losses)) if self.judge is None else self.judge(parameters)
        self._since += 1
        if value < self._best or self.parameters is None:
            self._best, self.parameters, self._since = value, parameters + 0, 0
        epoch = len(self.losses) - 1
        if epoch and not self.run.step(epoch, self.schedule.n_epochs, f"loss {loss:.4g}"):
            self.stop = Stop.ASKED
        elif self._since >= self.schedule.patience:
            self.stop = Stop.CONVERGED
        return self.stop is Stop.LIMIT

    @property
    def trace(self) -> Trace:
        """The losses, and why they end."""
        return Trace(np.array(self.losses), self.stop)


def train(
    parameters: Any,
    loss: Loss,
    rows: IntArray,
    schedule: Schedule,
    run: Run,
    judge: Callable[[Any], float] | None = None,
) -> tuple[Any, Trace]:
    """Return what Adam by ``rows`` makes of ``parameters``, and the mean loss in each epoch.

    Minibatches are drawn anew in every epoch, from a stream of their own. The learning rate falls linearly to 0.
    """
    parameters = parameters + 0
    followed = Followed(judge, schedule, run)
    adam, rng = Adam(schedule.learning_rate), run.rng("minibatches")
    n_batches = max(1, round(len(rows) / schedule.batch_size))
    with run.stage("training"), run.stoppable():
        followed.goes_on(parameters, loss.value(parameters, rows))
        for epoch in range(schedule.n_epochs):
            total = 0.0
            for b, batch in enumerate(np.array_split(rng.permutation(rows), n_batches)):
                value, gradient = loss(parameters, batch)
                adam.move(parameters, gradient, 1.0 - (epoch + b / n_batches) / schedule.n_epochs)
                total += value * len(batch) / len(rows)
            if not followed.goes_on(parameters, total):
                break
    return followed.parameters, followed.trace


def minimize_loss(
    parameters: FloatArray,
    loss: Loss,
    rows: IntArray,
    schedule: Schedule,
    run: Run,
    judge: Callable[[Any], float] | None = None,
) -> tuple[FloatArray, Trace]:
    """Return what L-BFGS by all ``rows`` makes of ``parameters``, and the loss after each iteration."""
    from scipy.optimize import minimize

    followed = Followed(judge, schedule, run)

    def of_all(here: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(here, rows)
        return value, np.asarray(gradient, dtype=np.float64)

    def follow(intermediate_result: Any) -> None:
        if not followed.goes_on(intermediate_result.x, float(intermediate_result.fun)):
            raise StopIteration

    start = np.asarray(parameters, dtype=np.float64)
    most = {"maxiter": schedule.n_epochs, "maxfun": 20 * schedule.n_epochs + 20}
    with run.stage("training"), run.stoppable():
        followed.goes_on(start, loss.value(start, rows))
        options = {**most, "gtol": schedule.tol, "ftol": 0.0}
        found = minimize(of_all, start, jac=True, method="L-BFGS-B", callback=follow, options=options)
    if followed.stop is Stop.LIMIT and found.status != 1:
        followed.stop = Stop.CONVERGED
    return followed.parameters, followed.trace


@dataclass(frozen=True)
class Backend:
    """Where a net is trained: numpy, or torch on its fastest device."""

    name: BackendName

    def require(self) -> None:
        """Refuse torch where it is not installed."""
        if self.name == "torch":
            require_torch()

    def array(self, values: Any) -> Any:
        """Return values as an array of this library."""
        if self.name == "numpy":
            return values
        torch = require_torch()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.tensor(np.ascontiguousarray(values), device=device)

    def index(self, rows: IntArray) -> Any:
        """Return numbers of rows as an array of this library."""
        return rows if self.name == "numpy" else self.array(rows)

    def host(self, values: Any) -> FloatArray:
        """Return an array of this library as one of numpy."""
        return np.asarray(values if self.name == "numpy" else values.cpu())


def require_torch() -> Any:
    """Return torch, or say how to get it."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            "backend='torch' needs torch, which is not installed: run pip install 'manifoldry[torch]', or use "
            "backend='numpy'."
        ) from None
    return torch
