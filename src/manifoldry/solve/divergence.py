r"""What SNE and its kin lower: the divergence between the affinities of the data and those of a layout.

With a kernel w(s) of squared distances, its pull :math:`g = -d \ln w / ds` and the potential
:math:`\phi(y) = \sum_j w(\|y - y_j\|^2)` of the layout, affinities attract along the listed pairs and the field repels:
no sum over all pairs is needed but the field's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry.run import Run
from manifoldry.solve.fields import Field, Profile
from manifoldry.values import FloatArray

ROWS = 2048
TINY = 1e-30
"""A point so far from all others that its potential underflows is held by its affinities alone."""


class Divergence(ABC):
    """A divergence from given affinities, its gradient and its value, by listed pairs and a field.

    Parameters
    ----------
    affinities : csr_array of shape (n, n)
        Joint probabilities: symmetric, with sum 1.
    information : float
        Sum of p ln p, in the scale of the divergence.
    profile : Profile
        The kernel of the layout.
    field : Field
        Gives the potential and its gradient; where it is exact all is computed in double precision.
    run : Run
        Threads.

    Attributes
    ----------
    degrees : ndarray of shape (n,)
        Sum of each point's affinities.
    """

    def __init__(self, affinities: csr_array, information: float, profile: Profile, field: Field, run: Run) -> None:
        self.information, self.profile, self.field, self.run = information, profile, field, run
        self.real = np.float64 if field.exact else np.float32
        self.degrees: FloatArray = np.asarray(affinities.sum(axis=1), dtype=np.float64).reshape(-1)
        self._rows = (
            np.ascontiguousarray(affinities.indptr, dtype=np.int64),
            np.ascontiguousarray(affinities.indices, dtype=np.int32),
            np.ascontiguousarray(affinities.data, dtype=self.real),
        )

    def gradient(self, Y: FloatArray, exaggeration: float = 1.0) -> FloatArray:
        """Return the gradient (n, d) with the affinities multiplied by ``exaggeration``."""
        from manifoldry.compiled.attraction import pull_rows

        places, pull = self._places(Y), np.empty(Y.shape, dtype=self.real)
        kernel = places, self.profile.kind, float(self.profile.dof), pull
        self.run.map(lambda lo, hi: pull_rows(*self._rows, *kernel, lo, hi), self.run.ranges(len(Y), ROWS))
        return 4.0 * exaggeration * pull.astype(np.float64) + self._repulsion(places)

    def value(self, Y: FloatArray) -> float:
        """Return the divergence: 0 where the layout makes the affinities as they are."""
        from manifoldry.compiled.attraction import log_rows

        places, logs = self._places(Y), np.empty(len(Y))
        kernel = places, self.profile.kind, float(self.profile.dof), logs
        self.run.map(lambda lo, hi: log_rows(*self._rows, *kernel, lo, hi), self.run.ranges(len(Y), ROWS))
        return self.information - float(logs.sum()) + self._log_normalizer(places)

    @abstractmethod
    def _repulsion(self, Y: FloatArray) -> FloatArray:
        """Return the gradient of the logarithm of the normalizer."""

    @abstractmethod
    def _log_normalizer(self, Y: FloatArray) -> float:
        """Return the logarithm of the normalizer, averaged over its rows if there is one for each."""

    def _places(self, Y: FloatArray) -> Any:
        return np.ascontiguousarray(Y, dtype=self.real)


class JointDivergence(Divergence):
    r"""One divergence between joint distributions: t-SNE and symmetric SNE.

    .. math:: C = \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad q_{ij} = \frac{w(s_{ij})}{Z}, \quad
        Z = \sum_{k \ne l} w(s_{kl}), \qquad
        \nabla_i C = 4 \sum_j p_{ij}\, g(s_{ij}) (y_i - y_j) + \frac{2}{Z} \nabla \phi(y_i) .

    References: vandermaaten2008.
    """

    def _repulsion(self, Y: FloatArray) -> FloatArray:
        potential, slope = self.field.at_points(Y, None, self.run)
        return (2.0 / float(potential.sum(dtype=np.float64))) * slope

    def _log_normalizer(self, Y: FloatArray) -> float:
        return float(np.log(self.field.at_points(Y, None, self.run)[0].sum(dtype=np.float64)))


class RowDivergence(Divergence):
    r"""The mean of the points' own divergences: SNE.

    .. math:: C = \frac1n \sum_i \sum_j p_{j|i} \ln \frac{p_{j|i}}{q_{j|i}}, \qquad
        q_{j|i} = \frac{w(s_{ij})}{Z_i}, \quad Z_i = \phi(y_i) - w(0) ,

    .. math:: \nabla_i C = 4 \sum_j p_{ij}\, g(s_{ij}) (y_i - y_j)
        + \frac1n \Big( \frac{\nabla \phi(y_i)}{Z_i} + \nabla \psi(y_i) \Big), \qquad
        \psi(y) = \sum_j \frac{w(\|y - y_j\|^2)}{Z_j} ,

    with :math:`p_{ij} = (p_{j|i} + p_{i|j}) / (2n)`.

    References: hinton2002.
    """

    def _repulsion(self, Y: FloatArray) -> FloatArray:
        potential, slope = self.field.at_points(Y, None, self.run)
        each = 1.0 / np.maximum(potential, TINY)
        _, back = self.field.at_points(Y, each, self.run)
        return (slope * each[:, None] + back) / len(Y)

    def _log_normalizer(self, Y: FloatArray) -> float:
        potential, _ = self.field.at_points(Y, None, self.run)
        return float(np.log(np.maximum(potential, TINY)).mean())
