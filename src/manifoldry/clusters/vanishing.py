"""Polynomials that vanish on a union of hyperplanes, and the hyperplanes that their gradients give back."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from scipy.linalg import eigh

from manifoldry.values import FloatArray, IntArray

GRADIENT_SHARE = 1e-6
"""Gradients below this share of the longest have no direction: the point lies on several hyperplanes."""
SELECTION_SHIFT = 0.02
"""Added to both parts of the quotient by which points are selected, so that rounding does not decide between them."""


def n_monomials(degree: int, n_variables: int) -> int:
    """Return the number of monomials of a degree: the dimension of the Veronese map."""
    return comb(degree + n_variables - 1, degree)


@dataclass(frozen=True)
class Form:
    """A homogeneous polynomial: coefficients (M,) of the monomials with ``exponents`` (M, n_variables)."""

    coefficients: FloatArray
    exponents: IntArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return its values at points (n, n_variables)."""
        values: FloatArray = monomials(X, self.exponents) @ self.coefficients
        return values

    def gradient(self, X: FloatArray) -> FloatArray:
        """Return its gradients at points, shape (n, n_variables)."""
        columns = []
        for variable in range(self.exponents.shape[1]):
            power = self.exponents[:, variable]
            lowered = self.exponents.copy()
            lowered[:, variable] = np.maximum(power - 1, 0)
            columns.append(monomials(X, lowered) @ (self.coefficients * power))
        return np.stack(columns, axis=1)


def all_exponents(degree: int, n_variables: int) -> IntArray:
    """Return the exponents of all monomials of a degree, shape (M, n_variables).

    Examples
    --------
    >>> all_exponents(2, 2).tolist()
    [[2, 0], [1, 1], [0, 2]]
    """
    found = np.zeros((n_monomials(degree, n_variables), n_variables), dtype=np.int64)
    for row, factors in enumerate(combinations_with_replacement(range(n_variables), degree)):
        np.add.at(found[row], list(factors), 1)
    return found


def monomials(X: FloatArray, exponents: IntArray) -> FloatArray:
    """Return the monomials of points: the Veronese map (n, M)."""
    powers = X[:, :, None] ** np.arange(int(exponents.max(initial=0)) + 1)
    values = np.ones((len(X), len(exponents)))
    for variable in range(X.shape[1]):
        values *= powers[:, variable, exponents[:, variable]]
    return values


def vanishing_form(X: FloatArray, degree: int) -> tuple[Form, FloatArray]:
    r"""Return the form of unit coefficients that is least on points, and the mean squares of all such (M,), ascending.

    Points on c hyperplanes :math:`b_\ell^T x = 0` make :math:`\prod_\ell b_\ell^T x` vanish: with as many points in
    general position as monomials the form is that product, and one mean square is 0.

    References: vidal2005.
    """
    exponents = all_exponents(degree, X.shape[1])
    V = monomials(X, exponents)
    # Monomials as they come in the power of a sum have weights for which a rotation of the points changes no value.
    scale = np.sqrt(np.array([_multinomial(row) for row in exponents]))
    values, vectors = eigh((scale * V).T @ (scale * V) / len(X))
    return Form(scale * vectors[:, 0], exponents), np.maximum(values, 0.0)


def hyperplanes(X: FloatArray, n_planes: int) -> tuple[FloatArray, FloatArray]:
    r"""Return unit normals (c, n_variables) of hyperplanes through points of unit length, and the values of forms.

    The gradient of the vanishing form at a point of one hyperplane is its normal. Points are selected one by one: where
    the form is least against its gradient, far from the hyperplanes that were found before.

    References: vidal2005.
    """
    form, values = vanishing_form(X, n_planes)
    gradients = form.gradient(X)
    lengths = np.sqrt(np.square(gradients).sum(axis=1))
    usable = lengths > GRADIENT_SHARE * lengths.max()
    distances = np.where(usable, np.abs(form(X)) / np.where(usable, lengths, 1.0), np.inf)
    normals, far = np.empty((n_planes, X.shape[1])), np.ones(len(X))
    for plane in range(n_planes):
        chosen = int(np.argmin((distances + SELECTION_SHIFT) / (far + SELECTION_SHIFT)))
        normals[plane] = gradients[chosen] / lengths[chosen] if lengths[chosen] > 0 else np.eye(X.shape[1])[0]
        far = far * np.abs(np.einsum("nd,d->n", X, normals[plane]))
    return normals, values


def _multinomial(powers: IntArray) -> float:
    total, left = 1, int(powers.sum())
    for power in powers.tolist():
        total *= comb(left, power)
        left -= power
    return float(total)
