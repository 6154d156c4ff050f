"""Hermite polynomials of several variables, orthonormal under the normal distribution, and Gauss-Hermite nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from manifoldry.values import FloatArray, IntArray


@dataclass(frozen=True)
class HermiteBasis:
    r"""Products of normalized Hermite polynomials of total degree 1 to ``degree`` in ``d`` variables.

    .. math:: \phi_\alpha(f) = \prod_i \frac{He_{\alpha_i}(f_i)}{\sqrt{\alpha_i!}}, \qquad
              E\, \phi_\alpha(f) \phi_\beta(f) = \delta_{\alpha \beta}, \quad E\, \phi_\alpha(f) = 0
              \qquad \text{for } f \sim N(0, I)

    Those of degree 1 come first and are the variables themselves. Their span does not change if f is rotated.
    """

    d: int
    degree: int

    @property
    def powers(self) -> IntArray:
        """The exponents of every polynomial, shape (number, d)."""
        return _powers(self.d, self.degree)

    def __len__(self) -> int:
        return len(self.powers)

    def values(self, f: FloatArray) -> FloatArray:
        """Return the polynomials at places f (..., d), shape (..., number)."""
        return self._product(self._single(f), {})

    def slopes(self, f: FloatArray) -> FloatArray:
        """Return the first derivatives, shape (..., number, d)."""
        single = self._single(f)
        return np.stack([self._product(single, {i: 1}) for i in range(self.d)], axis=-1)

    def bends(self, f: FloatArray) -> FloatArray:
        """Return the second derivatives, shape (..., number, d, d)."""
        single = self._single(f)
        found = np.empty((*f.shape[:-1], len(self), self.d, self.d))
        for i in range(self.d):
            for j in range(i + 1):
                found[..., i, j] = self._product(single, {i: 2} if i == j else {i: 1, j: 1})
                found[..., j, i] = found[..., i, j]
        return found

    def after(self, shift: FloatArray, turn: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return c and T with :math:`\phi(m + A f) = c + T \phi(f)`, by quadrature that is exact for polynomials."""
        nodes, weights = gauss_hermite(self.d, self.degree + 1)
        moved, here = self.values(shift + nodes @ turn.T), self.values(nodes)
        return weights @ moved, (weights[:, None] * moved).T @ here

    def _single(self, f: FloatArray) -> FloatArray:
        r"""Return the normalized polynomials of each variable alone, shape (degree + 1, ..., d).

        :math:`\sqrt{k} h_k = f h_{k-1} - \sqrt{k-1} h_{k-2}`.
        """
        found = np.empty((self.degree + 1, *f.shape))
        found[0] = 1.0
        for k in range(1, self.degree + 1):
            found[k] = f * found[k - 1]
            if k > 1:
                found[k] = (found[k] - np.sqrt(k - 1) * found[k - 2]) / np.sqrt(k)
        return found

    def _product(self, single: FloatArray, orders: dict[int, int]) -> FloatArray:
        r"""Return the products over variables, differentiated as often as ``orders`` says: :math:`h_k' = \sqrt{k} h_{k-1}`."""
        found = np.empty((*single.shape[1:-1], len(self)))
        for m, exponents in enumerate(self.powers):
            column: FloatArray | float = 1.0
            for i, k in enumerate(exponents):
                order = orders.get(i, 0)
                if k < order:
                    column = 0.0
                    break
                if k > 0:
                    column = column * (np.sqrt(np.prod(np.arange(k - order + 1, k + 1))) * single[k - order, ..., i])
            found[..., m] = column
        return found


@cache
def _powers(d: int, degree: int) -> IntArray:
    every = [powers for powers in product(range(degree + 1), repeat=d) if 1 <= sum(powers) <= degree]
    return np.array(sorted(every, key=lambda powers: (sum(powers), [-k for k in powers])))


@cache
def gauss_hermite(d: int, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes (n_nodes^d, d) and weights for means over N(0, I), exact for degrees up to 2 n_nodes - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    nodes = (nodes - nodes[::-1]) / 2  # exactly symmetric
    places = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    shares = np.stack(np.meshgrid(*[weights / weights.sum()] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return places, shares.prod(axis=1)
