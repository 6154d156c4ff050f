"""What a placement is judged by: a quadratic form, and distances that pairs of points have to keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.semidefinite.tangent import pulled
from manifoldry.values import Array, FloatArray

TOLERANCE = 1e-6
"""Relative error of squared distances that is as good as none."""


@dataclass(frozen=True)
class Distances:
    r"""Wanted squared distances :math:`|b_e V|^2 = s_e`, or :math:`\le s_e`, or :math:`\ge s_e`.

    Parameters
    ----------
    differences : sparse array of shape (E, n_rows)
        Row e gives the difference of two points as a combination of the rows of V.
    squares : ndarray of shape (E,)
        What its square shall be.
    upper : ndarray of bool of shape (E,)
        Whether that is only an upper bound.
    lower : ndarray of bool of shape (E,), optional
        Whether that is only a lower bound; of none, if left out.
    tol : float
        The largest error of a square, relative to its unit, that may be left. Where it is larger than usual, larger
        gradients and an uncertain optimum do as well: a start for something else.
    """

    differences: sp.csr_array
    squares: FloatArray
    upper: Array
    lower: Array | None = None
    tol: float = TOLERANCE

    @property
    def rough(self) -> bool:
        """Whether larger errors than usual may be left."""
        return self.tol > TOLERANCE

    @cached_property
    def least(self) -> FloatArray:
        """The smallest multiplier of each: an upper bound only pulls."""
        return np.where(self.upper, 0.0, -np.inf)

    @cached_property
    def most(self) -> FloatArray:
        """The largest multiplier of each: a lower bound only pushes."""
        return np.full(len(self.squares), np.inf) if self.lower is None else np.where(self.lower, 0.0, np.inf)

    @cached_property
    def units(self) -> FloatArray:
        """What an error counts relative to: the wanted square, or the typical one where that is zero."""
        positive = self.squares[self.squares > 0]
        return np.where(self.squares > 0, self.squares, np.median(positive) if len(positive) else 1.0)

    def errors(self, V: FloatArray) -> FloatArray:
        """Return by how much each square is missed, relative to its unit; negative if too short."""
        lengths = np.square(self.differences @ V).sum(axis=1)
        return (lengths - self.squares) / self.units

    def violation(self, V: FloatArray) -> float:
        """Return the largest relative error of a squared distance."""
        return float(np.abs(self.misses(V)).max(initial=0.0))

    def misses(self, V: FloatArray) -> FloatArray:
        """Return the errors without those that a bound allows."""
        return np.clip(self.errors(V), self.least, self.most)

    def active(self, forces: FloatArray) -> Array:
        """Return which of the forces follow the errors: those that no bound has cut off."""
        return (self.least < forces) & (forces < self.most)


@dataclass(frozen=True)
class Energy:
    r"""The augmented Lagrangian :math:`\langle V, Q V\rangle + \sum_e \psi_e(h_e)`.

    With relative errors :math:`h_e` of the squares, multipliers :math:`\lambda_e` and a penalty :math:`\mu`,
    :math:`\psi = (f^2 - \lambda^2)/2\mu` with the force :math:`f = \lambda + \mu h`, cut off at zero where a bound is
    not reached. Without distances it is the quadratic form alone.

    Parameters
    ----------
    quadratic : sparse array of shape (n_rows, n_rows)
        Q, symmetric.
    distances : Distances, optional
        The pairs to hold.
    multipliers : ndarray of shape (E,)
        One per distance.
    penalty : float
        The weight of a squared relative error.
    """

    quadratic: sp.csr_array
    distances: Distances | None = None
    multipliers: FloatArray = field(default_factory=lambda: np.empty(0))
    penalty: float = 1.0

    def value(self, V: FloatArray) -> float:
        """Return the energy of V."""
        plain = float(np.vdot(V, self.quadratic @ V))
        if self.distances is None:
            return plain
        forces = self.forces(V)
        return plain + float((forces - self.multipliers) @ (forces + self.multipliers)) / (2 * self.penalty)

    def forces(self, V: FloatArray) -> FloatArray:
        """Return the multipliers that V asks for: one step of the method of multipliers."""
        if self.distances is None:
            return np.empty(0)
        forces = self.multipliers + self.penalty * self.distances.errors(V)
        return np.clip(forces, self.distances.least, self.distances.most)

    def stiffness(self, forces: FloatArray) -> sp.csr_array:
        """Return the matrix A with half the gradient equal to A V: Q and the pull of the distances."""
        if self.distances is None:
            return self.quadratic
        active = forces != 0
        B = self.distances.differences[active]
        pull = (forces / self.distances.units)[active]
        return sp.csr_array(self.quadratic + B.T @ sp.diags_array(pull) @ B)

    def stretching(self, V: FloatArray, forces: FloatArray, basis: sp.csr_array) -> sp.csc_array | None:
        """Return what the penalty adds to half the second derivative, in a basis of moves."""
        if self.distances is None:
            return None
        active = self.distances.active(forces)
        B = self.distances.differences[active]
        return pulled(B, B @ V, 2 * self.penalty / self.distances.units[active] ** 2, basis)

    def stretched(self, V: FloatArray, forces: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
        """Return what the penalty adds to half the second derivative as a function of a move."""
        if self.distances is None:
            return None
        active = self.distances.active(forces)
        B = self.distances.differences[active]
        back, ends = sp.csr_array(B.T), B @ V
        pulls = (2 * self.penalty / self.distances.units[active] ** 2)[:, None] * ends
        return lambda Z: back @ (np.einsum("ep,ep->e", ends, B @ Z)[:, None] * pulls)

    def model(self, V: FloatArray) -> sp.csr_array:
        """Return a positive matrix for one column of V that bends about as the energy does, for a preconditioner."""
        if self.distances is None:
            return self.quadratic
        forces = self.forces(V)
        active = self.distances.active(forces)
        B, units = self.distances.differences[active], self.distances.units[active]
        squares = np.square(B @ V).sum(axis=1) / V.shape[1]
        weights = np.maximum(forces[active], 0) / units + 2 * self.penalty * squares / units**2
        return sp.csr_array(self.quadratic + B.T @ sp.diags_array(weights) @ B)

    @property
    def filled(self) -> float:
        """The share of entries of Q, and of the pull of the distances, that are not zero."""
        pattern = self.quadratic
        if self.distances is not None:
            B = abs(self.distances.differences)
            pattern = abs(pattern) + B.T @ B
        return float(pattern.nnz) / self.quadratic.shape[0] ** 2

    def pressed(self, multipliers: FloatArray, penalty: float) -> Energy:
        """Return the energy with other multipliers and penalty."""
        return replace(self, multipliers=multipliers, penalty=penalty)
