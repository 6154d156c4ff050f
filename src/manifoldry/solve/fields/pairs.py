"""The field of a layout summed over all pairs: exact, in any dimension, O(n^2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from manifoldry.run import Run
from manifoldry.solve.fields.profile import Profile
from manifoldry.values import Array, FloatArray, IntArray

PAIRS_PER_TASK = 500_000
"""About half a millisecond of work."""


@dataclass(frozen=True)
class PairLandscape:
    """The exact field of a frozen layout, at any place.

    Parameters
    ----------
    profile : Profile
        The weight.
    columns : ndarray of shape (d, n)
        Where the charges are, one row per dimension.
    charges : ndarray of shape (n,)
        What they are.
    """

    profile: Profile
    columns: FloatArray
    charges: FloatArray

    @classmethod
    def of(cls, profile: Profile, Y: FloatArray, charges: FloatArray | None) -> PairLandscape:
        """Return the landscape of ``charges`` (None: ones) at the rows of ``Y``."""
        columns = np.array(Y.T, dtype=np.float64, order="C")
        return cls(profile, columns, np.ones(len(Y)) if charges is None else np.array(charges, dtype=np.float64))

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d)."""
        return self.without(np.full(len(places), -1), places, run)

    def without(self, own: IntArray, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at ``places``, of all points but ``own[i]`` at place i (-1: of all)."""
        from manifoldry.compiled.pairs import sum_pairs

        where = ready(places, np.float64)
        phi, grad = np.empty(len(where)), np.empty(where.shape)
        what = (where, ready(self.columns), ready(self.charges), own, self.profile.kind, self.profile.dof, phi, grad)
        grain = PAIRS_PER_TASK // max(1, self.columns.shape[1])
        run.map(lambda lo, hi: sum_pairs(*what, lo, hi), run.ranges(len(where), grain))
        return phi.astype(places.dtype, copy=False), grad.astype(places.dtype, copy=False)


@dataclass(frozen=True)
class Pairs:
    """The exact field.

    Parameters
    ----------
    profile : Profile
        The weight.

    Examples
    --------
    >>> Y = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> phi, grad = Pairs(Profile.student()).at_points(Y, None, Run(0))
    >>> phi.tolist(), grad[:, 0].tolist()
    ([0.5, 0.5], [0.5, -0.5])
    """

    profile: Profile
    name = "exact"
    exact = True

    def landscape(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> PairLandscape:  # noqa: ARG002
        """Return the field of ``charges`` at the rows of ``Y``, to be asked at any place."""
        return PairLandscape.of(self.profile, Y, charges)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
        return PairLandscape.of(self.profile, Y, charges).without(np.arange(len(Y)), Y, run)


def extent(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest corner and the sides of the box of columns (d, n); refuse a layout that has run away."""
    low = columns.min(axis=1)
    sides = columns.max(axis=1) - low
    if not np.isfinite(sides).all():
        raise ValueError("The layout has coordinates that are not finite numbers; try a smaller learning rate.")
    return low, sides


def ready(array: Array, dtype: DTypeLike | None = None) -> Array:
    """Return the array as kernels were compiled for: in C order and not read-only, as a memory map may be."""
    return np.require(array, dtype, ["C", "W"])
