"""What an autoassociative net minimizes: the squared error of its reconstruction through a bottleneck."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.network import NETWORK_ROWS_PER_TASK, Network, array_module
from manifoldry.solve.training import Backend, added


@dataclass(frozen=True)
class Autoassociation:
    r"""The share of the variance that is lost on the way through encoder and decoder, and what large weights cost.

    .. math:: \frac{1}{n \sigma^2} \sum_i \|x_i - g(f(x_i))\|^2 + \alpha \sum_l \|W_l\|^2

    Parameters
    ----------
    encoder, decoder : Network
        Their shapes; the parameters of both come in one vector.
    inputs : array of shape (n, p)
        The rows, of numpy or torch.
    variance : float
        The sum of variances :math:`\sigma^2`.
    weight_decay : float
        The factor :math:`\alpha`.
    """

    encoder: Network
    decoder: Network
    inputs: Any
    variance: float
    weight_decay: float
    backend: Backend
    run: Run

    def split(self, parameters: Any) -> tuple[Network, Network]:
        """Return encoder and decoder with these parameters."""
        cut = self.encoder.n_parameters
        return replace(self.encoder, parameters=parameters[:cut]), replace(self.decoder, parameters=parameters[cut:])

    def __call__(self, parameters: Any, rows: Any) -> tuple[float, Any]:
        """Return the objective of some rows, and its gradient by the parameters."""
        encoder, decoder = self.split(parameters)
        factor = 1.0 / (len(rows) * self.variance)
        cut = encoder.n_parameters

        def task(lo: int, hi: int) -> tuple[float, Any]:
            X = self.inputs[self.backend.index(rows[lo:hi])]
            code, kept = encoder.forward(X)
            error, decoded = decoder.forward(code)
            error -= X
            value = factor * float((error * error).sum())
            error *= 2 * factor
            gradient = array_module(parameters).empty_like(parameters)
            encoder.backward(kept, decoder.backward(decoded, error, gradient[cut:], inputs=True), gradient[:cut])
            return value, gradient

        value, gradient = added(self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True))
        if self.weight_decay > 0:
            value += encoder.decay(self.weight_decay, gradient[:cut])
            value += decoder.decay(self.weight_decay, gradient[cut:])
        return value, gradient

    def value(self, parameters: Any, rows: Any) -> float:
        """Return the objective of some rows."""
        return self.lost(parameters, rows) + sum(net.decay(self.weight_decay) for net in self.split(parameters))

    def lost(self, parameters: Any, rows: Any) -> float:
        """Return the share of the variance that is lost of some rows, without the cost of weights."""
        encoder, decoder = self.split(parameters)

        def task(lo: int, hi: int) -> float:
            X = self.inputs[self.backend.index(rows[lo:hi])]
            error = decoder.forward(encoder.forward(X)[0])[0] - X
            return float((error * error).sum())

        squares = self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True)
        return float(np.sum(squares)) / (len(rows) * self.variance)
