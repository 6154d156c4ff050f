"""The repulsion of a layout by Barnes-Hut: far cells of a tree act as a whole, to second order in their size.

After barnes1986. The kernels have a flat top, so a cell much smaller than that acts as a whole also on its own points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.repulsion.exact import LayoutKernel, bounding_box, compiled_array

MAX_LEAF_POINTS = 16
"""Points of a cell that is not divided further."""
GROUPS_PER_TASK, CELLS_PER_TASK = 64, 1024
MORTON_SPREADS = (
    (32, 0x1F00000000FFFF),
    (16, 0x1F0000FF0000FF),
    (8, 0x100F00F00F00F00F),
    (4, 0x10C30C30C30C30C3),
    (2, 0x1249249249249249),
)
"""Shifts and masks that spread 21 bits to every third place."""


@dataclass(frozen=True)
class BarnesHutPotential:
    """A frozen layout in a tree of cells, and its potential at any place.

    ``points`` (4, n) are coordinates and charges in the order of the tree, ``order`` their indices in the layout. A row
    of ``cells`` has the first point, the end, and the cell after all parts of this one; ``moments`` (n_cells, 11) the
    center, charge, second moments and squared size. Cells of a size up to ``angle`` times their distance act as a
    whole.
    """

    kernel: LayoutKernel
    angle: float
    points: FloatArray
    order: IntArray
    cells: IntArray
    moments: FloatArray

    @classmethod
    def of(
        cls, kernel: LayoutKernel, angle: float, Y: FloatArray, charges: FloatArray | None, run: Run
    ) -> BarnesHutPotential:
        """Return the tree of ``charges`` (None: ones) at the rows of ``Y`` (n, d), d <= 3."""
        from manifoldry._numerics.kernels.barnes_hut import build_cells, cell_moments

        n = len(Y)
        points = np.vstack([*in_space(Y).T, np.ones(n) if charges is None else charges])
        corner, sides = bounding_box(points[:3])
        codes = morton_codes((points[:3] - corner[:, None]) / (sides.max() or 1.0))
        order = np.argsort(codes, kind="stable")
        points = np.ascontiguousarray(points[:, order])
        cells = np.empty((2 * n, 3), np.int64)
        cells = cells[: build_cells(codes[order], MAX_LEAF_POINTS, cells)].copy()
        moments = np.empty((len(cells), 11))
        run.map(lambda lo, hi: cell_moments(points, cells, moments, lo, hi), run.ranges(len(cells), CELLS_PER_TASK))
        return cls(kernel, angle, points, order, cells, moments)

    def __getstate__(self) -> dict[str, Any]:
        layout = np.empty((self.points.shape[1], 4))
        layout[self.order] = self.points.T
        return {"kernel": self.kernel, "angle": self.angle, "layout": layout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Built again: compiled loops follow the cells of a tree without checking that there are such points.
        places, charges = state["layout"][:, :3], state["layout"][:, 3]
        self.__dict__.update(vars(BarnesHutPotential.of(state["kernel"], state["angle"], places, charges, Run(0))))

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d)."""
        return _split(self._traverse(in_space(places), np.arange(len(places) + 1), False, run), places)

    def at_points(self, Y: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at the rows of the layout ``Y`` itself, each without its own term."""
        leaves = self.cells[:, 2] == np.arange(1, len(self.cells) + 1)
        groups = np.append(self.cells[leaves, 0], len(Y))
        sums = np.empty((len(Y), 4))
        sums[self.order] = self._traverse(np.ascontiguousarray(self.points[:3].T), groups, True, run)
        return _split(sums, Y)

    def _traverse(self, places: FloatArray, groups: IntArray, own: bool, run: Run) -> FloatArray:
        from manifoldry._numerics.kernels.barnes_hut import traverse

        sums = np.empty((len(places), 4))
        tree = compiled_array(self.points), compiled_array(self.cells), compiled_array(self.moments), MAX_LEAF_POINTS
        how = *self.kernel.compiled, min(self.kernel.length_scale**2, 1.0), self.angle**-2
        run.map(
            lambda lo, hi: traverse(*tree, places, groups, own, *how, sums, lo, hi),
            run.ranges(len(groups) - 1, GROUPS_PER_TASK),
        )
        return sums


def _split(sums: FloatArray, places: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return potential and gradient in the precision and dimension of the places."""
    return sums[:, 0].astype(places.dtype), sums[:, 1 : 1 + places.shape[1]].astype(places.dtype, order="C")


def in_space(places: FloatArray) -> FloatArray:
    """Return places (m, 3), the missing coordinates zero."""
    space = np.zeros((len(places), 3))
    space[:, : places.shape[1]] = places
    return space


def morton_codes(unit: FloatArray) -> IntArray:
    """Return the codes of columns (3, n) in the unit cube: the first 21 bits of the coordinates, interleaved."""
    bits = (unit * (2**21 - 1)).astype(np.int64)
    for shift, mask in MORTON_SPREADS:
        bits = (bits | (bits << shift)) & mask
    return bits[0] | (bits[1] << 1) | (bits[2] << 2)


@dataclass(frozen=True)
class BarnesHutRepulsion:
    """The repulsion of layouts in up to three dimensions, by Barnes-Hut.

    ``error`` is the relative error of the gradient (norm of the difference over the norm) to stay below.
    """

    kernel: LayoutKernel
    error: float = 1e-2
    name = "barnes_hut"
    exact = False

    @property
    def angle(self) -> float:
        """Size over distance up to which a cell acts as a whole: measured, for errors from 1e-2 to 1e-5."""
        return 0.48 * (self.error / 1e-2) ** 0.26

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> BarnesHutPotential:
        """Return the potential of ``charges`` (None: ones) at the rows of ``Y``, for any place."""
        return BarnesHutPotential.of(self.kernel, self.angle, Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
        return self.potential(Y, charges, run).at_points(Y, run)
