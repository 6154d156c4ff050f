"""How a weight falls with distance: Student's t and the Gaussian, as functions of the squared distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry import check
from manifoldry.values import FloatArray

STUDENT = 0
GAUSSIAN = 1
"""The kinds by the numbers that compiled loops know them by; `compiled.profiles` repeats them."""


@dataclass(frozen=True)
class Profile:
    r"""The weight w(s) of two points at squared distance s, with w(0) = 1.

    .. math:: w(s) = (1 + s / \nu)^{-(\nu + 1) / 2} \quad\text{(Student)}, \qquad w(s) = e^{-s} \quad\text{(Gaussian)}.

    Parameters
    ----------
    kind : int
        `STUDENT` or `GAUSSIAN`.
    dof : float
        The degrees of freedom :math:`\nu` of Student's t: 1 is t-SNE's weight, fewer have heavier tails. The
        Gaussian has none.

    Examples
    --------
    >>> float(Profile.student().weight(np.float64(3.0)))
    0.25
    """

    kind: int
    dof: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in (STUDENT, GAUSSIAN):
            raise ValueError(f"The kind of a profile must be STUDENT or GAUSSIAN; got {self.kind!r}.")
        object.__setattr__(self, "dof", check.number("dof", self.dof, 0.0, open_low=True))

    @classmethod
    def student(cls, dof: float = 1.0) -> Profile:
        """Return Student's t with ``dof`` degrees of freedom."""
        return cls(STUDENT, dof)

    @classmethod
    def gaussian(cls) -> Profile:
        """Return the Gaussian."""
        return cls(GAUSSIAN)

    @property
    def scale(self) -> float:
        """The distance over which the weight varies, as far as the error of a field goes: measured, 1 for t-SNE's."""
        return 0.8 if self.kind == GAUSSIAN else float(min(self.dof, 8.0)) ** 0.35

    def weight(self, s: FloatArray) -> FloatArray:
        """Return w at squared distances ``s``."""
        if self.kind == GAUSSIAN:
            return np.exp(-s)
        return 1 / (1 + s) if self.dof == 1 else (1 + s / self.dof) ** (-(self.dof + 1) / 2)

    def pull(self, s: FloatArray) -> FloatArray:
        """Return -d ln w / ds at squared distances ``s``."""
        if self.kind == GAUSSIAN:
            return np.ones_like(s)
        return (self.dof + 1) / (2 * self.dof) / (1 + s / self.dof)

    def drop(self, s: FloatArray) -> FloatArray:
        """Return w(s) - 1 with full relative accuracy, however small ``s``."""
        if self.kind == GAUSSIAN:
            return np.expm1(-s)
        return -s / (1 + s) if self.dof == 1 else np.expm1(-(self.dof + 1) / 2 * np.log1p(s / self.dof))
