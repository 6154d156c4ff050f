"""Rows of monomials whose inner products are those of the polynomial kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from sklearn.preprocessing import PolynomialFeatures

from manifoldry.geometry.neighborhoods import dense
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray


@dataclass(frozen=True)
class MonomialFeatures:
    r"""Monomials of degree 1 to d of ``(x - mean) / unit``, with the weights of the polynomial kernel.

    .. math:: (c + x^T y)^d = c^d + \sum_{1 \leq |\alpha| \leq d} w_\alpha^2 x^\alpha y^\alpha, \qquad
              w_\alpha^2 = \frac{d!}{\alpha!\, (d - |\alpha|)!}\, c^{d - |\alpha|}
    """

    mean: FloatArray
    unit: float
    degree: int
    coef0: float

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the weighted monomials of rows, in the order of `powers`."""
        rows = (dense(X) - self.mean) / self.unit
        return np.asarray(self._monomials().fit_transform(rows) * self.weights())

    def powers(self) -> IntArray:
        """Return the exponents of every monomial, shape (number, p)."""
        return np.asarray(self._monomials().fit(np.zeros((1, len(self.mean)))).powers_)

    def weights(self) -> FloatArray:
        """Return the weight of every monomial."""
        powers = self.powers()
        free = self.degree - powers.sum(axis=1)
        counts = gammaln(self.degree + 1) - gammaln(powers + 1).sum(axis=1) - gammaln(free + 1)
        return np.sqrt(np.round(np.exp(counts)) * self.coef0**free)

    def _monomials(self) -> PolynomialFeatures:
        return PolynomialFeatures(self.degree, include_bias=False)
