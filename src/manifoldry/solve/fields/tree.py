"""The field of a layout by a tree of cells: far cells act as a whole, to second order in their size.

After barnes1986. The weights have a flat top, so a cell much smaller than that acts as a whole also on its own points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.fields.pairs import extent, ready
from manifoldry.solve.fields.profile import Profile
from manifoldry.values import FloatArray, IntArray

LEAF = 16
GROUPS = 64
CELLS = 1024
"""Points of a cell that is not divided further; then cuts of the work."""
SPREADING = (
    (32, 0x1F00000000FFFF),
    (16, 0x1F0000FF0000FF),
    (8, 0x100F00F00F00F00F),
    (4, 0x10C30C30C30C30C3),
    (2, 0x1249249249249249),
)
"""Shifts and masks that draw 21 bits apart, to every third place."""


@dataclass(frozen=True)
class TreeLandscape:
    """A layout in a tree of cells, and its field anywhere.

    Parameters
    ----------
    profile : Profile
        The weight.
    angle : float
        Size over distance up to which a cell acts as a whole.
    points : ndarray of shape (4, n)
        Coordinates and charges, in the order of the tree.
    order : ndarray of shape (n,)
        Which point is where.
    cells : ndarray of shape (n_cells, 3)
        First point, end, and the cell after all parts of this one.
    moments : ndarray of shape (n_cells, 11)
        Center, charge, second moments and squared size.
    """

    profile: Profile
    angle: float
    points: FloatArray
    order: IntArray
    cells: IntArray
    moments: FloatArray

    @classmethod
    def of(cls, profile: Profile, angle: float, Y: FloatArray, charges: FloatArray | None, run: Run) -> TreeLandscape:
        """Return the tree of ``charges`` (None: ones) at the rows of ``Y`` (n, d), d <= 3."""
        from manifoldry.compiled.tree import divide, measure

        n = len(Y)
        points = np.vstack([*in_space(Y).T, np.ones(n) if charges is None else charges])
        corner, sides = extent(points[:3])
        codes = morton((points[:3] - corner[:, None]) / (sides.max() or 1.0))
        order = np.argsort(codes, kind="stable")
        points = np.ascontiguousarray(points[:, order])
        cells = np.empty((2 * n, 3), np.int64)
        cells = cells[: divide(codes[order], LEAF, cells)].copy()
        moments = np.empty((len(cells), 11))
        run.map(lambda lo, hi: measure(points, cells, moments, lo, hi), run.ranges(len(cells), CELLS))
        return cls(profile, angle, points, order, cells, moments)

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d)."""
        return parted(self._walk(in_space(places), np.arange(len(places) + 1), False, run), places)

    def at_points(self, Y: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at the rows of the layout ``Y`` itself, each without its own term."""
        leaves = self.cells[:, 2] == np.arange(1, len(self.cells) + 1)
        groups = np.append(self.cells[leaves, 0], len(Y))
        answers = np.empty((len(Y), 4))
        answers[self.order] = self._walk(np.ascontiguousarray(self.points[:3].T), groups, True, run)
        return parted(answers, Y)

    def _walk(self, places: FloatArray, groups: IntArray, own: bool, run: Run) -> FloatArray:
        from manifoldry.compiled.walk import walk

        answers = np.empty((len(places), 4))
        what = (ready(self.points), ready(self.cells), ready(self.moments), LEAF, places, groups, own)
        how = (self.profile.kind, self.profile.dof, min(self.profile.scale**2, 1.0), self.angle**-2)
        run.map(lambda lo, hi: walk(*what, *how, answers, lo, hi), run.ranges(len(groups) - 1, GROUPS))
        return answers


def parted(answers: FloatArray, places: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return potential and gradient in the precision and dimension of the places."""
    return answers[:, 0].astype(places.dtype), answers[:, 1 : 1 + places.shape[1]].astype(places.dtype, order="C")


def in_space(places: FloatArray) -> FloatArray:
    """Return places (m, 3), the missing coordinates zero."""
    space = np.zeros((len(places), 3))
    space[:, : places.shape[1]] = places
    return space


def morton(unit: FloatArray) -> IntArray:
    """Return the codes of columns (3, n) in the unit cube: the first 21 bits of the coordinates, interleaved."""
    bits = (unit * (2**21 - 1)).astype(np.int64)
    for shift, mask in SPREADING:
        bits = (bits | (bits << shift)) & mask
    return bits[0] | (bits[1] << 1) | (bits[2] << 2)


@dataclass(frozen=True)
class Tree:
    """The field of layouts in up to three dimensions, by a tree.

    Parameters
    ----------
    profile : Profile
        The weight.
    error : float
        Relative error of the gradient (norm of the difference over the norm) to stay below.
    """

    profile: Profile
    error: float = 1e-2
    name = "tree"
    exact = False

    @property
    def angle(self) -> float:
        """Size over distance up to which a cell acts as a whole: measured, for errors from 1e-2 to 1e-5."""
        return 0.48 * (self.error / 1e-2) ** 0.26

    def landscape(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> TreeLandscape:
        """Return the field of ``charges`` (None: ones) at the rows of ``Y``, to be asked at any place."""
        return TreeLandscape.of(self.profile, self.angle, Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
        return self.landscape(Y, charges, run).at_points(Y, run)
