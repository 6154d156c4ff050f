"""Which way to a field: a table by size, dimension and the accuracy wanted."""

from __future__ import annotations

from typing import Protocol

from manifoldry import check
from manifoldry.run import Run
from manifoldry.solve.fields.grid import Grid
from manifoldry.solve.fields.pairs import Pairs
from manifoldry.solve.fields.profile import Profile
from manifoldry.solve.fields.tree import Tree
from manifoldry.values import FloatArray

ACCURACY = 1e-2
"""The relative error of the gradient (norm of the difference over the norm) allowed when nothing is said."""
COARSEST, FINEST_GRID = 1e-1, 5e-5
"""The error at which hardly anything is left to save, and the one that a grid of float32 can promise."""
EXACT_UP_TO = {1: 1000, 2: 1000, 3: 1500}
"""Points up to which all pairs are summed, by dimension: in the plane 0.8 ms for 1000 points, as by a grid; 20 ms for
5000 against 2.4 ms. In space 2.2 ms for 1500 points, as by a tree."""


class Landscape(Protocol):
    """The field of a frozen layout at any place; picklable."""

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d), place by place."""


class Field(Protocol):
    """A way to compute the potential of layouts and its gradient."""

    name: str
    exact: bool

    def landscape(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> Landscape:
        """Return the field of ``charges`` (None: ones; never negative) at the rows of ``Y``, for any place."""

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""


def choose_field(profile: Profile, n: int, d: int, *, forces: str = "auto", accuracy: float | None = None) -> Field:
    """Return the way to the field of ``n`` points in ``d`` dimensions.

    Parameters
    ----------
    profile : Profile
        The weight.
    n, d : int
        Points and dimensions.
    forces : {"auto", "exact", "tree", "grid"}
        Which way; "auto" takes the fastest that keeps the accuracy.
    accuracy : float, optional
        Relative error of the gradient that is allowed, by default 1e-2.

    Returns
    -------
    Field
        It may keep arrays between calls, but its answers depend on the arguments of the call only. One thread at a
        time may ask it; it takes its own threads from the run.

    Examples
    --------
    >>> import numpy as np
    >>> field = choose_field(Profile.student(), 4, 2)
    >>> potential, gradient = field.at_points(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), None, Run(0))
    >>> field.name, potential.round(3).tolist()
    ('exact', [1.333, 1.333, 1.333, 1.333])
    """
    check.choice("forces", forces, ("auto", "exact", "tree", "grid"))
    error = ACCURACY if accuracy is None else min(check.number("accuracy", accuracy, 0.0, open_low=True), COARSEST)
    if forces == "auto":
        if n <= EXACT_UP_TO.get(d, n):
            forces = "exact"
        else:
            forces = "grid" if d <= 2 and error >= FINEST_GRID else "tree"
    if forces == "exact":
        return Pairs(profile)
    most = {"tree": 3, "grid": 2}[forces]
    if d > most:
        raise ValueError(f"forces={forces!r} serves up to {most} dimensions; got {d}: try forces='auto'.")
    if forces == "tree":
        return Tree(profile, error)
    if error < FINEST_GRID:
        raise ValueError(f"A grid promises errors down to {FINEST_GRID:g}; got accuracy={error:g}: try forces='tree'.")
    return Grid(profile, error)
