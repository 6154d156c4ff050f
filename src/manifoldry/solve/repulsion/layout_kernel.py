"""The kernel of a layout: how the similarity of two points falls with their distance, Student's t or the Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry import check
from manifoldry.values import FloatArray


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
