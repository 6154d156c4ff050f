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
        single = self._single(f)
        return _multiplied([self._of_variable(single, i, 0) for i in range(self.d)])

    def slopes(self, f: FloatArray) -> FloatArray:
        """Return the first derivatives, shape (..., number, d)."""
        return self.derivatives(f, 1)[1]

    def derivatives(self, f: FloatArray, order: int = 2) -> list[FloatArray]:
        """Return values, first derivatives (..., number, d) and, for order 2, second ones (..., number, d, d)."""
        single, d = self._single(f), self.d
        parts = [[self._of_variable(single, i, k) for i in range(d)] for k in range(order + 1)]
        plain = parts[0]
        found = [_multiplied(plain)]
        found.append(np.stack([_multiplied([*plain[:i], parts[1][i], *plain[i + 1 :]]) for i in range(d)], axis=-1))
        if order > 1:
            bends = np.empty((*found[1].shape, d))
            for i in range(d):
                for j in range(i + 1):
                    mixed = [*plain]
                    mixed[i], mixed[j] = (parts[2][i],) * 2 if i == j else (parts[1][i], parts[1][j])
                    bends[..., i, j] = bends[..., j, i] = _multiplied(mixed)
            found.append(bends)
        return found

    def after(self, shift: FloatArray, turn: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return c and T with :math:`\phi(m + A f) = c + T \phi(f)`, by quadrature that is exact for polynomials."""
        nodes, weights = gauss_hermite(self.d, self.degree + 1)
        moved, here = self.values(shift + nodes @ turn.T), self.values(nodes)
        return weights @ moved, (weights[:, None] * moved).T @ here

    def _single(self, f: FloatArray) -> FloatArray:
        r"""Return the normalized polynomials of each variable alone, shape (..., d, degree + 1).

        :math:`\sqrt{k} h_k = f h_{k-1} - \sqrt{k-1} h_{k-2}`.
        """
        found = np.empty((*f.shape, self.degree + 1))
        found[..., 0] = 1.0
        found[..., 1] = f
        for k in range(2, self.degree + 1):
            found[..., k] = (f * found[..., k - 1] - np.sqrt(k - 1) * found[..., k - 2]) / np.sqrt(k)
        return found

    def _of_variable(self, single: FloatArray, i: int, order: int) -> FloatArray:
        r"""Return what variable i has in every polynomial, differentiated: :math:`h_k' = \sqrt{k} h_{k-1}`."""
        indices, factors = _derivative(self.d, self.degree, i, order)
        part = single[..., i, indices]
        return part if order == 0 else part * factors


def _multiplied(parts: list[FloatArray]) -> FloatArray:
    found = parts[0]
    for part in parts[1:]:
        found = found * part
    return found


@cache
def _derivative(d: int, degree: int, i: int, order: int) -> tuple[IntArray, FloatArray]:
    """Return which polynomial of variable i is in each derivative, and its factor, 0 where the degree is too low."""
    powers = _powers(d, degree)[:, i]
    factors = np.ones(len(powers))
    for k in range(order):
        factors = factors * np.maximum(powers - k, 0)
    return np.maximum(powers - order, 0), np.sqrt(factors)


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
