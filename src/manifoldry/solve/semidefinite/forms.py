"""What is maximized: a positive semidefinite form W of the rows of V, their stretch <V, W V>."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manifoldry.values import FloatArray


@dataclass(frozen=True)
class Variance:
    """The total variance of n points (weinberger2006): W = I - 11'/n, kept as I because steps are centered."""

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
    """A weighted sum of squared distances of pairs, or any other form W >= 0 that does not change with shifts."""

    matrix: sp.csr_array
    centered = False

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        return np.asarray(self.matrix @ V)

    def total(self, V: FloatArray) -> float:
        """Return the stretch <V, W V>."""
        return float(np.vdot(V, self.times(V)))


Stretch = Variance | PairStretch
"""A form with a sparse ``matrix`` that equals W: on all V, or on V whose mean is zero where it is ``centered``."""
