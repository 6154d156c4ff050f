"""Maximum likelihood of independent sources: extended Infomax, by relative quasi-Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.run import Run
from manifoldry.values import FloatArray, Stop, Trace

LOG_SHARP = 0.619540461179252
"""Log of the integral of exp(-y^2 / 2) / cosh y, by quadrature: the sharp (super-Gaussian) density."""
LOG_FLAT = 0.5 * np.log(2 * np.pi) + 0.5
"""Log of the integral of exp(-y^2 / 2) cosh y: the flat (sub-Gaussian) one, half of each N(-1, 1) and N(1, 1)."""
MIN_CURVATURE = 1e-2
"""Least eigenvalue of the approximate Hessian: where the likelihood is not concave, steps are as for this one."""
RISE_TOL = 1e-13
"""Share by which rounding may lower the log-likelihood in a step that is accepted nevertheless."""
MAX_HALVINGS = 12
"""Halvings of a step that does not raise the likelihood, after which there is none."""


@dataclass(frozen=True)
class Sources:
    """Where a matrix leads whitened rows: the sources (n, k), their kinds, and the mean log-likelihood of a row.

    Kinds are 1 for sharp (super-Gaussian) sources and -1 for flat (sub-Gaussian) ones.
    """

    unmixing: FloatArray
    rows: FloatArray
    kinds: FloatArray
    height: float

    @classmethod
    def of(cls, Z: FloatArray, unmixing: FloatArray, kinds: FloatArray | None = None) -> Sources:
        """Return the sources of a matrix, with given kinds or those that make its solution a stable one."""
        y = Z @ unmixing.T
        kinds = stable_kinds(y) if kinds is None else kinds
        size = np.abs(y)
        log_cosh = size + np.log1p(np.exp(-2 * size)) - np.log(2)
        constants = np.where(kinds > 0, LOG_SHARP, LOG_FLAT)
        densities = -(y**2).mean(axis=0) / 2 - kinds * log_cosh.mean(axis=0) - constants
        return cls(unmixing, y, kinds, float(np.linalg.slogdet(unmixing)[1] + densities.sum()))

    def gradient(self) -> FloatArray:
        r"""Return :math:`I - E\, \varphi(y) y^T`, the relative gradient; :math:`\varphi(y) = y + \kappa \tanh y`."""
        slopes = self.rows + self.kinds * np.tanh(self.rows)
        return np.asarray(np.eye(len(self.kinds)) - slopes.T @ self.rows / len(self.rows))

    def newton(self, gradient: FloatArray) -> FloatArray:
        r"""Return the step for the Hessian of independent sources, which couples entries ij and ji only.

        Its blocks are :math:`a_{ij} = E \varphi_i'(y_i) E y_j^2` on the diagonal and 1 beside it.
        """
        bends = 1 + self.kinds * (1 - np.tanh(self.rows) ** 2)
        squares = self.rows**2
        a = np.outer(bends.mean(axis=0), squares.mean(axis=0))
        np.fill_diagonal(a, (bends * squares).mean(axis=0))
        least = (a + a.T - np.sqrt((a - a.T) ** 2 + 4)) / 2  # the lower eigenvalue of a block
        a = a + np.maximum(0.0, MIN_CURVATURE - least)
        step = (a.T * gradient - gradient.T) / (a * a.T - 1)
        np.fill_diagonal(step, np.diag(gradient) / (1 + np.maximum(np.diag(a), 0.0)))
        return np.asarray(step)


def stable_kinds(y: FloatArray) -> FloatArray:
    r"""Return 1 where :math:`E \operatorname{sech}^2 y\, E y^2 \geq E\, y \tanh y` (equal of a Gaussian), else -1."""
    slopes = np.tanh(y)
    excess = (1 - slopes**2).mean(axis=0) * (y**2).mean(axis=0) - (y * slopes).mean(axis=0)
    return np.where(excess < 0, -1.0, 1.0)


def maximize_likelihood(Z: FloatArray, max_iter: int, tol: float, run: Run) -> tuple[Sources, Trace]:
    """Return the sources of largest likelihood from the whitened rows themselves on, and the trace.

    Kinds follow the sources during the first half of the iterations. With kinds given no step lowers the likelihood.
    The iteration stops when no entry of the relative gradient exceeds ``tol``.
    """
    found = Sources.of(Z, np.eye(Z.shape[1]))
    heights, stop = [found.height], Stop.LIMIT
    for step in range(1, max_iter + 1):
        gradient = found.gradient()
        if np.abs(gradient).max(initial=0.0) <= tol:
            stop = Stop.CONVERGED
            break
        if not run.step(step, max_iter, f"log-likelihood {found.height:.6g}"):
            stop = Stop.ASKED
            break
        risen = _climbed(Z, found, (found.newton(gradient), gradient))
        if risen is None:
            stop = Stop.CONVERGED
            break
        kinds = stable_kinds(risen.rows)
        changed = step <= max_iter // 2 and not np.array_equal(kinds, risen.kinds)
        found = Sources.of(Z, risen.unmixing, kinds) if changed else risen
        heights.append(found.height)
    return found, Trace(np.array(heights), stop)


def _climbed(Z: FloatArray, found: Sources, ways: tuple[FloatArray, ...]) -> Sources | None:
    """Return the sources after the longest step that raises the likelihood, along the first way that has one."""
    identity = np.eye(len(found.kinds))
    for way in ways:
        for halvings in range(MAX_HALVINGS):
            trial = Sources.of(Z, (identity + 0.5**halvings * way) @ found.unmixing, found.kinds)
            if trial.height >= found.height - RISE_TOL * max(1.0, abs(found.height)):
                return trial
    return None
