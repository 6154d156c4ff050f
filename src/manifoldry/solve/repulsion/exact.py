"""The repulsion of a layout summed over all pairs: exact, in any dimension, O(n^2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from manifoldry.run import Run
from manifoldry.solve.repulsion.layout_kernel import LayoutKernel
from manifoldry.values import Array, FloatArray, IntArray

PAIRS_PER_TASK = 500_000
"""About half a millisecond of work."""


@dataclass(frozen=True)
class ExactPotential:
    """The exact potential of a frozen layout at any place, from its coordinates (d, n) and charges (n,)."""

    kernel: LayoutKernel
    columns: FloatArray
    charges: FloatArray

    @classmethod
    def of(cls, kernel: LayoutKernel, Y: FloatArray, charges: FloatArray | None) -> ExactPotential:
        """Return the potential of ``charges`` (None: ones) at the rows of ``Y``."""
        columns = np.array(Y.T, dtype=np.float64, order="C")
        return cls(kernel, columns, np.ones(len(Y)) if charges is None else np.array(charges, dtype=np.float64))

    def _check_loaded(self) -> None:
        """Refuse what compiled loops, which check no index, would read beyond."""
        if self.columns.ndim != 2 or self.charges.shape != self.columns.shape[1:]:
            raise ValueError(f"Charges {self.charges.shape} are not those of coordinates {self.columns.shape}.")

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d)."""
        return self.without(np.full(len(places), -1), places, run)

    def without(self, own: IntArray, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at ``places``, of all points but ``own[i]`` at place i (-1: of all)."""
        from manifoldry.compiled.all_pairs import sum_all_pairs

        where = compiled_array(places, np.float64)
        phi, grad = np.empty(len(where)), np.empty(where.shape)
        layout = compiled_array(self.columns), compiled_array(self.charges)
        grain = PAIRS_PER_TASK // max(1, self.columns.shape[1])
        run.map(
            lambda lo, hi: sum_all_pairs(where, *layout, own, *self.kernel.compiled, phi, grad, lo, hi),
            run.ranges(len(where), grain),
        )
        return phi.astype(places.dtype, copy=False), grad.astype(places.dtype, copy=False)


@dataclass(frozen=True)
class ExactRepulsion:
    """The repulsion summed over all pairs.

    Examples
    --------
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> phi, grad = ExactRepulsion(LayoutKernel.student_t()).at_points(Y, None, Run(0))
    >>> phi.tolist(), grad[:, 0].tolist()
    ([0.5, 0.5], [0.5, -0.5])
    """

    kernel: LayoutKernel
    name = "exact"
    exact = True

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> ExactPotential:  # noqa: ARG002
        """Return the potential of ``charges`` (None: ones) at the rows of ``Y``, for any place."""
        return ExactPotential.of(self.kernel, Y, charges)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
        return ExactPotential.of(self.kernel, Y, charges).without(np.arange(len(Y)), Y, run)


def bounding_box(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest corner and the sides of the box of columns (d, n); refuse a layout that has diverged."""
    low = columns.min(axis=1)
    sides = columns.max(axis=1) - low
    if not np.isfinite(sides).all():
        raise ValueError("The layout has coordinates that are not finite numbers; try a smaller learning rate.")
    return low, sides


def compiled_array(array: Array, dtype: DTypeLike | None = None) -> Array:
    """Return the array as compiled loops take it: in C order and not read-only, as a memory map may be."""
    return np.require(array, dtype, ["C", "W"])
