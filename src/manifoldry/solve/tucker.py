"""Projections of tensors along each of their modes, by alternation: the captured scatter never falls."""

from __future__ import annotations

import numpy as np

from manifoldry.geometry.principal import principal_directions
from manifoldry.run import Run
from manifoldry.values import FloatArray, Stop, Trace


def unfolded(tensors: FloatArray, mode: int) -> FloatArray:
    """Return the fibers along a mode of tensors (n, i_1, ..., i_M) as rows (n * others, i_mode)."""
    return np.moveaxis(tensors, mode + 1, -1).reshape(-1, tensors.shape[mode + 1])


def projected(tensors: FloatArray, bases: list[FloatArray], without: int | None = None) -> FloatArray:
    """Return the tensors multiplied by the transposed bases (i_m, r_m) along their modes, but for one of them."""
    for mode, basis in enumerate(bases):
        if mode != without:
            tensors = np.moveaxis(np.tensordot(tensors, basis, axes=(mode + 1, 0)), -1, mode + 1)
    return tensors


def mode_spectra(tensors: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Return the scatter along the principal directions of each mode, descending, and the directions."""
    return [principal_directions(unfolded(tensors, mode)) for mode in range(tensors.ndim - 1)]


def alternate_modes(
    tensors: FloatArray, bases: list[FloatArray], max_iter: int, tol: float, run: Run
) -> tuple[list[FloatArray], Trace]:
    """Return orthonormal bases of the modes that capture a largest scatter, and the captured share of it.

    Given the bases of all other modes the best of one are the leading eigenvectors of the scatter of its projected
    fibers, so the share never falls; the iteration stops when it rises by less than ``tol``.
    """
    total = float((tensors**2).sum())
    shares, stop = [float((projected(tensors, bases) ** 2).sum()) / total], Stop.LIMIT
    for step in range(1, max_iter + 1):
        for mode, basis in enumerate(bases):
            fibers = unfolded(projected(tensors, bases, without=mode), mode)
            scatter, directions = principal_directions(fibers)
            bases = [*bases[:mode], directions[:, : basis.shape[1]], *bases[mode + 1 :]]
        shares.append(float(scatter[: basis.shape[1]].sum()) / total)
        if not run.step(step, max_iter, f"{shares[-1]:.6f} of the scatter"):
            stop = Stop.ASKED
            break
        if shares[-1] - shares[-2] <= tol:
            stop = Stop.CONVERGED
            break
    return bases, Trace(np.array(shares), stop)
