"""The objective of a placement: a quadratic form, and the augmented Lagrangian of distances that have to be kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.semidefinite.tangent import reduced_outer_products
from manifoldry.values import Array, FloatArray

DISTANCE_TOL = 1e-6
"""Relative error of squared distances that counts as none."""


@dataclass(frozen=True)
class DistanceConstraints:
    r"""Wanted squared distances :math:`|b_e V|^2 = s_e`, or :math:`\le s_e`, or :math:`\ge s_e`.

    Row :math:`b_e` of ``differences`` gives the difference of two points as a combination of the rows of V; ``upper``
    and ``lower`` (default: none) tell where :math:`s_e` is only such a bound. ``tol`` is the largest error of a squared
    distance, relative to its unit; above the default it also loosens those of gradient and optimality: for a start of
    another problem.
    """

    differences: sp.csr_array
    squares: FloatArray
    upper: Array
    lower: Array | None = None
    tol: float = DISTANCE_TOL

    @property
    def loose(self) -> bool:
        """Whether the tolerance is above the default."""
        return self.tol > DISTANCE_TOL

    @cached_property
    def min_multipliers(self) -> FloatArray:
        """Zero for upper bounds, minus infinity for others."""
        return np.where(self.upper, 0.0, -np.inf)

    @cached_property
    def max_multipliers(self) -> FloatArray:
        """Zero for lower bounds, infinity for others."""
        return np.full(len(self.squares), np.inf) if self.lower is None else np.where(self.lower, 0.0, np.inf)

    @cached_property
    def units(self) -> FloatArray:
        """What an error is relative to: the wanted square, or the median one where that is zero."""
        positive = self.squares[self.squares > 0]
        return np.where(self.squares > 0, self.squares, np.median(positive) if len(positive) else 1.0)

    def errors(self, V: FloatArray) -> FloatArray:
        """Return the relative errors of the squares; negative if too short."""
        lengths = np.square(self.differences @ V).sum(axis=1)
        return (lengths - self.squares) / self.units

    def violation(self, V: FloatArray) -> float:
        """Return the largest relative error of a square that its bound does not allow."""
        return float(np.abs(np.clip(self.errors(V), self.min_multipliers, self.max_multipliers)).max(initial=0.0))

    def active(self, multipliers: FloatArray) -> Array:
        """Return the active set: the multipliers that are not at a bound."""
        return (self.min_multipliers < multipliers) & (multipliers < self.max_multipliers)


@dataclass(frozen=True)
class AugmentedLagrangian:
    r"""The augmented Lagrangian :math:`\langle V, Q V\rangle + \sum_e \psi_e(h_e)`, Q symmetric.

    With relative errors :math:`h_e` of the squares, multipliers :math:`\lambda_e` and a penalty :math:`\mu`,
    :math:`\psi = (\lambda_+^2 - \lambda^2)/2\mu` with the next multiplier :math:`\lambda_+ = \lambda + \mu h`, clipped
    at zero on the side that a bound excludes. Without distances it is the quadratic form alone.
    """

    quadratic: sp.csr_array
    distances: DistanceConstraints | None = None
    multipliers: FloatArray = field(default_factory=lambda: np.empty(0))
    penalty: float = 1.0

    def objective(self, V: FloatArray) -> float:
        """Return the quadratic form alone."""
        return float(np.vdot(V, self.quadratic @ V))

    def value(self, V: FloatArray) -> float:
        """Return the augmented Lagrangian at V."""
        plain = self.objective(V)
        if self.distances is None:
            return plain
        after = self.next_multipliers(V)
        return plain + float((after - self.multipliers) @ (after + self.multipliers)) / (2 * self.penalty)

    def next_multipliers(self, V: FloatArray) -> FloatArray:
        """Return the multipliers after a step of the method of multipliers from V."""
        if self.distances is None:
            return np.empty(0)
        after = self.multipliers + self.penalty * self.distances.errors(V)
        return np.clip(after, self.distances.min_multipliers, self.distances.max_multipliers)

    def matrix(self, multipliers: FloatArray) -> sp.csr_array:
        """Return the matrix A of the Lagrangian: half the gradient is A V for the next multipliers of V."""
        if self.distances is None:
            return self.quadratic
        nonzero = multipliers != 0
        B = self.distances.differences[nonzero]
        weights = (multipliers / self.distances.units)[nonzero]
        return sp.csr_array(self.quadratic + B.T @ sp.diags_array(weights) @ B)

    def penalty_hessian(self, V: FloatArray, multipliers: FloatArray, basis: sp.csr_array) -> sp.csc_array | None:
        """Return what the penalty adds to half the Hessian, in a basis of the tangent space."""
        if self.distances is None:
            return None
        B, ends, weights = self._curvature(V, multipliers, self.distances)
        return reduced_outer_products(B, ends, weights, basis)

    def penalty_product(self, V: FloatArray, multipliers: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
        """Return the product with what the penalty adds to half the Hessian."""
        if self.distances is None:
            return None
        B, ends, weights = self._curvature(V, multipliers, self.distances)
        transposed, weighted = sp.csr_array(B.T), weights[:, None] * ends
        return lambda Z: transposed @ (np.einsum("ep,ep->e", ends, B @ Z)[:, None] * weighted)

    def _curvature(
        self, V: FloatArray, multipliers: FloatArray, distances: DistanceConstraints
    ) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """Return the differences of the active set, their values at V, and the weights of their outer products."""
        active = distances.active(multipliers)
        B = distances.differences[active]
        return B, B @ V, 2 * self.penalty / distances.units[active] ** 2

    def model(self, V: FloatArray) -> sp.csr_array:
        """Return a positive semidefinite model of the Hessian, the same for every column of V: a preconditioner."""
        if self.distances is None:
            return self.quadratic
        multipliers = self.next_multipliers(V)
        active = self.distances.active(multipliers)
        B, units = self.distances.differences[active], self.distances.units[active]
        squares = np.square(B @ V).sum(axis=1) / V.shape[1]
        weights = np.maximum(multipliers[active], 0) / units + 2 * self.penalty * squares / units**2
        return sp.csr_array(self.quadratic + B.T @ sp.diags_array(weights) @ B)

    @property
    def density(self) -> float:
        """Share of nonzero entries of the matrix."""
        pattern = self.quadratic
        if self.distances is not None:
            B = abs(self.distances.differences)
            pattern = abs(pattern) + B.T @ B
        return float(pattern.nnz) / self.quadratic.shape[0] ** 2
