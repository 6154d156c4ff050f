"""The bound that multipliers of lengths prove for all Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from manifoldry.solve.dense import product
from manifoldry.solve.semidefinite.gram_newton import GramOperator
from manifoldry.solve.semidefinite.length_terms import LengthTerm
from manifoldry.values import FloatArray

ROUNDING_FACTOR = 10.0
"""Multiple of the root of the number of terms that rounding of a sum of products stays below: each is as often up as
down, and ten standard deviations do not occur."""

RAISE_FACTOR, MAX_RAISES = 4.0, 40


@dataclass(frozen=True)
class GramProof:
    """A proven bound of the program, or infinity, and a lower bound of the scaled dual matrix's eigenvalues."""

    bound: float
    smallest: float | None


def prove_bound(operator: GramOperator, term: LengthTerm, multipliers: FloatArray, root: FloatArray) -> GramProof:
    r"""Return the bound of multipliers u, raised evenly until :math:`\sum_e u_e b_e^\top b_e - W` is proven definite.

    The matrix is computed in orthonormal coordinates that follow the columns of the root (m, m), largest first, and
    scaled by what rounding can make of its entries. Its lowest eigenvalue must exceed the rounding of all.
    """
    turn = scipy.linalg.qr(root, mode="economic", pivoting=True)[0]
    dual = _ScaledDual(operator, operator.on_points(np.ascontiguousarray(turn)))
    raised, step = multipliers, 0.0
    for _ in range(MAX_RAISES):
        lowest, margin, gain = dual.lowest(raised)
        if lowest > margin:
            return GramProof(term.bound(raised), lowest - margin)
        step = max(RAISE_FACTOR * step, (margin - lowest) / gain)
        raised = multipliers + step
    return GramProof(np.inf, None)


class _ScaledDual:
    """The dual matrix of given multipliers in given coordinates, scaled to unit rounding."""

    def __init__(self, operator: GramOperator, points: FloatArray) -> None:
        self._run = operator.run
        self._ends = operator.ends(points)
        self._squares = np.square(self._ends)
        # What the ends would be without cancellation, whose rounding they have.
        self._before = np.square(np.asarray(abs(operator.B) @ np.abs(points)))
        self._form = product(points.T, operator.stretch @ points, self._run)
        self._form_size = np.einsum("na,na->a", np.abs(points), np.abs(operator.stretch) @ np.abs(points))

    def lowest(self, multipliers: FloatArray) -> tuple[float, float, float]:
        """Return the lowest eigenvalue, what it must exceed, and what equal multipliers 1 would add to it at most."""
        weights = np.abs(multipliers)
        exact = np.sqrt(weights @ self._squares + self._form_size) + np.finfo(float).tiny
        before = np.sqrt(weights @ self._before + self._form_size) + np.finfo(float).tiny
        # |rounding of entry a, b| <= eps (exact_a before_b + before_a exact_b).
        scale, ratio = np.sqrt(exact * before), before / exact
        S = product(self._ends.T, multipliers[:, None] * self._ends, self._run) - self._form
        S = (S + S.T) / (2 * scale * scale[:, None])
        terms = np.sqrt(len(self._ends)) + np.sqrt(ratio.max() / ratio.min())
        margin = ROUNDING_FACTOR * np.finfo(float).eps * np.sqrt(len(S)) * float(terms)
        gain = float((self._squares.sum(axis=0) / scale**2).max())
        return float(np.linalg.eigvalsh(S)[0]), margin, gain
