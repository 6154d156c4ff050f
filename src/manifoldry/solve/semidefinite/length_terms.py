"""How squared lengths enter a program over Gram matrices: as errors to minimize, or within bands with slacks.

The multiplier u of a length is the slope of the term there. Hard lengths are equalities: their multipliers are free.
"""

from __future__ import annotations

import numpy as np

from manifoldry.values import Array, Certificate, FloatArray

SLACK_START_POWER = 0.5
"""Slacks start at this power of the bands' half-width: between the width, from which steps are short, and the error of
lengths at the start, from which the way is long."""

MAX_BAND_SHARE, MAX_OUTSIDE = 0.1, Certificate.MAX_VIOLATION / 2
"""By how much lengths may be outside of their bands: a share of the half-width, and half of what certificates allow."""

BAND_ACCURACY = 1e-2
"""Rounding of lengths, as a share of the bands' half-width, that calls for better coordinates."""


class SquaredErrors:
    """Half the sum of squared errors of the soft lengths, whose multipliers are their errors; hard ones are 1."""

    n_bounds, equal_steps = 0, True

    def __init__(self, soft: Array, accuracy: float) -> None:
        self.center, self._soft, self.accuracy = np.ones(len(soft)), soft.astype(float), accuracy

    def start(self, multipliers: FloatArray, mu: float) -> None:
        """Have no slacks to start with."""

    def complementarity(self) -> float:
        """Return the sum of products of slacks and duals."""
        return 0.0

    def linearize(self, lengths: FloatArray, multipliers: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return the diagonal that the errors add to the Schur complement, and their part of the right side."""
        return self._soft, self.residuals(lengths, multipliers)

    def set_direction(self, change: FloatArray) -> None:
        """Have no slacks to move."""

    def max_steps(self) -> tuple[float, float]:
        """Return how far slacks and duals can follow their steps."""
        return np.inf, np.inf

    def advance(self, primal: float, dual: float) -> None:
        """Have no slacks to move."""

    def bound(self, multipliers: FloatArray) -> float:
        r"""Return minus the dual value: :math:`\tfrac12 (l - 1)^2 \ge u l - u - \tfrac12 u^2` for soft lengths."""
        return float(multipliers.sum() + self._soft @ multipliers**2 / 2)

    def gap(self, multipliers: FloatArray, complementarity: float, stretch: float) -> float:  # noqa: ARG002
        """Return by how much the value exceeds the bound where the multipliers are the errors."""
        return complementarity

    def value(self, lengths: FloatArray) -> float:
        """Return half the sum of squared errors."""
        return float(self._soft @ (lengths - 1) ** 2) / 2

    def violation(self, lengths: FloatArray) -> FloatArray:
        """Return by how much each hard length is missed."""
        return np.where(self._soft, 0.0, np.abs(lengths - 1))

    def fulfilled(self, lengths: FloatArray, multipliers: FloatArray, noise: float) -> bool:  # noqa: ARG002
        """Tell whether the multipliers are the errors, to the accuracy wanted of the lengths."""
        return float(np.linalg.norm(self.residuals(lengths, multipliers))) <= self.accuracy

    def residuals(self, lengths: FloatArray, multipliers: FloatArray) -> FloatArray:
        """Return what a full step would make zero."""
        return lengths - 1 - self._soft * multipliers


class LengthBands:
    """Soft lengths within a half-width of their centers: slacks to both bounds, each with a dual.

    The multiplier is the difference of the duals. Hard lengths equal their centers and have no slacks.
    """

    equal_steps = False

    def __init__(self, center: FloatArray, slack: float, soft: Array) -> None:
        self.center, self.slack, self.accuracy = center, slack, BAND_ACCURACY * slack
        self._soft = np.flatnonzero(soft)
        self._width = np.where(soft, slack, 0.0)
        self.n_bounds = 2 * len(self._soft)

    def start(self, multipliers: FloatArray, mu: float) -> None:
        """Start slacks and duals whose products are about mu."""
        shape, begin = (2, len(self._soft)), self.slack**SLACK_START_POWER
        self._slacks = np.full(shape, begin)
        self._duals = np.full(shape, mu / begin)
        self._duals[0] += multipliers[self._soft]
        self._steps: tuple[FloatArray, FloatArray] = (np.zeros(shape), np.zeros(shape))

    def complementarity(self) -> float:
        """Return the sum of products of slacks and duals."""
        return float(np.vdot(self._slacks, self._duals))

    def linearize(self, lengths: FloatArray, multipliers: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
        """Return the diagonal that the slacks add to the Schur complement, and their part of the right side."""
        diagonal, right = np.zeros_like(lengths), lengths - self.center
        self._left = self._slack_residuals(right[self._soft])
        # The affine step, zero at first, is Mehrotra's second-order term.
        self._target = mu - self._steps[0] * self._steps[1]
        alone = (self._target - self._duals * self._left) / self._slacks - self._duals
        diagonal[self._soft] = 1 / (self._duals / self._slacks).sum(axis=0)
        drift = multipliers[self._soft] - (self._duals[0] - self._duals[1])
        right[self._soft] = diagonal[self._soft] * (alone[0] - alone[1] - drift)
        return diagonal, right

    def set_direction(self, change: FloatArray) -> None:
        """Set the steps of slacks and duals for a change of the lengths."""
        slacks = self._left + np.stack([-change[self._soft], change[self._soft]])
        duals = (self._target - self._duals * slacks) / self._slacks - self._duals
        self._steps = slacks, duals

    def max_steps(self) -> tuple[float, float]:
        """Return how far slacks and duals can follow their steps."""
        return _until_zero(self._slacks, self._steps[0]), _until_zero(self._duals, self._steps[1])

    def advance(self, primal: float, dual: float) -> None:
        """Take these shares of the steps."""
        self._slacks = self._slacks + primal * self._steps[0]
        self._duals = self._duals + dual * self._steps[1]
        self._steps = np.zeros_like(self._slacks), np.zeros_like(self._duals)

    def bound(self, multipliers: FloatArray) -> float:
        """Return the largest sum of multipliers times lengths within the bands."""
        return float(self.center @ multipliers + self._width @ np.abs(multipliers))

    def gap(self, multipliers: FloatArray, complementarity: float, stretch: float) -> float:  # noqa: ARG002
        """Return by how much the bound exceeds the stretch."""
        return self.bound(multipliers) - stretch

    def violation(self, lengths: FloatArray) -> FloatArray:
        """Return by how much each length is outside of its band."""
        return np.maximum(np.abs(lengths - self.center) - self._width, 0.0)

    def residuals(self, lengths: FloatArray, multipliers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return what a full step would make zero."""
        away = lengths - self.center
        return np.concatenate([self._slack_residuals(away[self._soft]).ravel(), away[self._width == 0]])

    def fulfilled(self, lengths: FloatArray, multipliers: FloatArray, noise: float) -> bool:
        """Tell whether the lengths are inside of their bands, but for what changes the stretch by the noise only."""
        outside = self.violation(lengths)
        allowed = min(MAX_BAND_SHARE * self.slack, MAX_OUTSIDE)
        return bool(outside.max(initial=0.0) <= allowed and np.abs(multipliers) @ outside <= noise)

    def _slack_residuals(self, away: FloatArray) -> FloatArray:
        return np.stack([self.slack - away, self.slack + away]) - self._slacks


LengthTerm = SquaredErrors | LengthBands


def _until_zero(now: FloatArray, step: FloatArray) -> float:
    return float(np.divide(-now, step, out=np.full_like(now, np.inf), where=step < 0).min(initial=np.inf))
