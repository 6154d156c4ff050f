"""What is stretched: a positive form of the points' coordinates, as a matrix or by what it does."""

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
        """A sparse matrix that equals W on moves that leave the mean where it is."""
        ...

    @property
    def hidden(self) -> int:
        """Number of directions of the matrix that no move takes."""
        ...

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        ...


@dataclass(frozen=True)
class Variance:
    """The total variance of n points: W = I - 11'/n, kept as I because moves are centered.

    Parameters
    ----------
    n_points : int
        n.

    Notes
    -----
    References: weinberger2006
    """

    n_points: int

    @property
    def matrix(self) -> sp.csr_array:
        """The identity."""
        return sp.eye_array(self.n_points, format="csr")

    @property
    def hidden(self) -> int:
        """One: all points moved together."""
        return 1

    def times(self, V: FloatArray) -> FloatArray:
        """Return V about its mean."""
        return V - V.mean(axis=0)


@dataclass(frozen=True)
class Pairs:
    """A weighted sum of squared distances, or any other form that does not see shifts.

    Parameters
    ----------
    matrix : csr_array of shape (m, m)
        W, symmetric positive semidefinite.
    """

    matrix: sp.csr_array

    @property
    def hidden(self) -> int:
        """None."""
        return 0

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        return np.asarray(self.matrix @ V)
