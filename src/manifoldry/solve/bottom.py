"""Bottom eigenvectors of an alignment matrix, the layout of locally linear embedding and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.values import FloatArray, Spectrum

TOLERABLE_RESIDUAL = 1e-4
"""Relative residual with which a layout is still given, with a warning, where no solver that fits does better."""


def bottom_eigenvectors(
    matrix: Any, n_components: int, run: Run, guess: FloatArray | None = None
) -> tuple[Spectrum, FloatArray]:
    """Return the lowest eigenpairs of a matrix that annihilates the constant, without it, and coordinates Y'Y = nI.

    ``guess`` (n, m) holds approximate coordinates to begin with.
    """
    n = matrix.shape[0]
    constant = np.full(n, 1 / np.sqrt(n))
    spectrum = smallest(matrix, n_components, null=constant, tolerable=TOLERABLE_RESIDUAL, guess=guess, run=run)
    return spectrum, spectrum.vectors * np.sqrt(n)
