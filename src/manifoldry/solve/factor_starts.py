"""Where nonlinear factor analysis starts: projections whose polynomials explain the rows best by least squares."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from manifoldry.geometry.principal import GRAM_RANK_TOL, principal_directions
from manifoldry.run import Run
from manifoldry.solve.eigen import column_signs
from manifoldry.solve.hermite import HermiteBasis
from manifoldry.values import FloatArray

N_PROJECTIONS = 60
"""Random projections per start, of which the best are improved."""
MAX_PROJECTION_AXES = 12
"""Principal axes that are projected: as many as polynomials, of few factors."""
MAX_START_STEPS = 40
"""Steps of an improvement; the maximization of the likelihood does the rest."""


def projected_starts(rows: FloatArray, basis: HermiteBasis, n_starts: int, run: Run) -> list[FloatArray]:
    """Return factors (n, d) as projections of the leading principal components, those that explain most first.

    Where polynomials are no more than columns and the noise is small, the factors are such projections: rows are
    linear images of the polynomials, of which those of degree 1 are the factors.
    """
    values, directions = principal_directions(rows)
    real = int(np.count_nonzero(values > GRAM_RANK_TOL * values[0]))
    size = min(len(basis), real, MAX_PROJECTION_AXES)
    if size <= basis.d or n_starts < 1:
        return []
    scores = rows @ directions[:, :size] / np.sqrt(values[:size] / len(rows))
    scores *= column_signs(scores)
    drawn = run.rng("projections").standard_normal((N_PROJECTIONS * n_starts, size, basis.d))
    frames = np.linalg.qr(drawn)[0]
    errors = [unexplained(frame, scores, rows, basis)[0] for frame in frames]
    found = []
    for frame in frames[np.argsort(errors, kind="stable")[:n_starts]]:
        found.append(_improved(frame, scores, rows, basis))
        if run.stopped:
            break
    return [scores @ np.linalg.qr(frame)[0] for _, frame in sorted(found, key=lambda pair: pair[0])]


def unexplained(
    frame: FloatArray, scores: FloatArray, rows: FloatArray, basis: HermiteBasis
) -> tuple[float, FloatArray]:
    r"""Return the share of rows left by a regression on the polynomials of ``scores @ frame``, and its gradient.

    At the best coefficients their own derivatives vanish, so that the gradient is that of given coefficients.
    """
    factors = scores @ frame
    phi, derived = basis.derivatives(factors, 1)
    design = np.column_stack([np.ones(len(rows)), phi])
    solved = np.linalg.lstsq(design, rows, rcond=None)[0]
    left = rows - design @ solved
    total = (rows**2).sum()
    slopes = np.einsum("nm,nmi->ni", left @ solved[1:].T, derived)
    return float((left**2).sum() / total), np.asarray(-2 / total * scores.T @ slopes)


def _improved(frame: FloatArray, scores: FloatArray, rows: FloatArray, basis: HermiteBasis) -> tuple[float, FloatArray]:
    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        error, gradient = unexplained(flat.reshape(frame.shape), scores, rows, basis)
        return error, gradient.ravel()

    settings = {"maxiter": MAX_START_STEPS}
    found = minimize(objective, frame.ravel(), jac=True, method="L-BFGS-B", options=settings)
    return float(found.fun), np.asarray(found.x).reshape(frame.shape)
