"""The repulsion of a layout summed over all pairs: exact, in any dimension, O(n^2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray

# The kernel of a layout: how the similarity of two points falls with their distance, Student's t or the Gaussian.


@dataclass(frozen=True)
class LayoutKernel:
    r"""The kernel w(s) of two points at squared distance s, with w(0) = 1.

    .. math:: w(s) = (1 + s / \nu)^{-(\nu + 1) / 2} \quad\text{(Student)}, \qquad w(s) = e^{-s} \quad\text{(Gaussian)}.

    Parameters
    ----------
    dof : float, optional
        The degrees of freedom :math:`\nu` of Student's t: 1 is t-SNE's kernel, fewer have heavier tails. None is the
        Gaussian.

    Examples
    --------
    >>> float(LayoutKernel.student_t().value(np.float64(3.0)))
    0.25
    """

    dof: float | None = 1.0

    def __post_init__(self) -> None:
        if self.dof is not None:
            object.__setattr__(self, "dof", check.number("dof", self.dof, 0.0, open_low=True))

    @classmethod
    def student_t(cls, dof: float = 1.0) -> LayoutKernel:
        """Return Student's t with ``dof`` degrees of freedom."""
        return cls(dof)

    @classmethod
    def gaussian(cls) -> LayoutKernel:
        """Return the Gaussian."""
        return cls(None)

    @property
    def compiled(self) -> tuple[bool, float]:
        """The kernel as the arguments ``gaussian, dof`` of compiled loops."""
        return self.dof is None, 1.0 if self.dof is None else self.dof

    @property
    def length_scale(self) -> float:
        """The distance over which the kernel varies, as far as approximate sums go: measured, 1 for t-SNE's."""
        return 0.8 if self.dof is None else float(min(self.dof, 8.0)) ** 0.35

    def value(self, s: FloatArray) -> FloatArray:
        """Return w at squared distances ``s``."""
        if self.dof is None:
            return np.exp(-s)
        return 1 / (1 + s) if self.dof == 1 else (1 + s / self.dof) ** (-(self.dof + 1) / 2)

    def attraction(self, s: FloatArray) -> FloatArray:
        """Return -d ln w / ds at squared distances ``s``, the factor of the attraction between two points."""
        if self.dof is None:
            return np.ones_like(s)
        return (self.dof + 1) / (2 * self.dof) / (1 + s / self.dof)

    def attraction_slope(self, s: FloatArray) -> FloatArray:
        """Return the derivative of `attraction` at squared distances ``s``."""
        return np.zeros_like(s) if self.dof is None else -self.attraction(s) / (self.dof + s)

    def value_minus_one(self, s: FloatArray) -> FloatArray:
        """Return w(s) - 1 with full relative accuracy, however small ``s``."""
        if self.dof is None:
            return np.expm1(-s)
        return -s / (1 + s) if self.dof == 1 else np.expm1(-(self.dof + 1) / 2 * np.log1p(s / self.dof))


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
        from manifoldry._numerics.kernels.all_pairs import sum_all_pairs

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
