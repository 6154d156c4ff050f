"""What is maximized: a positive semidefinite form of the points' coordinates, their stretch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from manifoldry.values import FloatArray


class Stretch(Protocol):
    """A form W on the rows of V; the stretch of V is <V, W V>."""

    @property
    def matrix(self) -> sp.csr_array:
        """A sparse matrix equal to W, on centered V at least."""
        ...

    @property
    def centered(self) -> bool:
        """Whether the matrix equals W on centered V only, as the identity does for the variance."""
        ...

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        ...

    def total(self, V: FloatArray) -> float:
        """Return the stretch <V, W V>."""
        ...


@dataclass(frozen=True)
class Variance:
    """The total variance of n points: W = I - 11'/n, kept as I because steps are centered.

    Parameters
    ----------
    n_points : int
        n.

    Notes
    -----
    References: weinberger2006
    """

    n_points: int
    centered = True

    @property
    def matrix(self) -> sp.csr_array:
        """The identity."""
        return sp.eye_array(self.n_points, format="csr")

    def times(self, V: FloatArray) -> FloatArray:
        """Return V about its mean."""
        return V - V.mean(axis=0)

    def total(self, V: FloatArray) -> float:
        """Return the sum of squared distances from the mean."""
        return float(np.vdot(V, self.times(V)))


@dataclass(frozen=True)
class PairStretch:
    """A weighted sum of squared distances of pairs, or any other form that does not change with shifts.

    Parameters
    ----------
    matrix : csr_array of shape (m, m)
        W, symmetric positive semidefinite.
    """

    matrix: sp.csr_array
    centered = False

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        return np.asarray(self.matrix @ V)

    def total(self, V: FloatArray) -> float:
        """Return the stretch <V, W V>."""
        return float(np.vdot(V, self.times(V)))
