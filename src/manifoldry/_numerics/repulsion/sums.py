"""The kernel of a layout, and its repulsion summed over all pairs or by Barnes-Hut over a tree of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray


@dataclass(frozen=True)
class LayoutKernel:
    r"""The kernel w(s) of two points at squared distance s, with w(0) = 1.

    .. math:: w(s) = (1 + s / \nu)^{-(\nu + 1) / 2} \quad\text{(Student)}, \qquad w(s) = e^{-s} \quad\text{(Gaussian)}.

    ``dof`` are the degrees of freedom :math:`\nu`: 1 is t-SNE's kernel, fewer have heavier tails; None is the Gaussian.
    """

    dof: float | None = 1.0

    def __post_init__(self) -> None:
        if self.dof is not None:
            object.__setattr__(self, "dof", check.number("dof", self.dof, 0.0, open_low=True))

    @property
    def compiled(self) -> tuple[bool, float]:
        """The kernel as the arguments ``gaussian, dof`` of compiled loops."""
        return self.dof is None, 1.0 if self.dof is None else self.dof

    @property
    def length_scale(self) -> float:
        """The distance over which the kernel varies, for approximate sums: measured, 1 for t-SNE's kernel."""
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


PAIRS_PER_TASK = 500_000  # about half a millisecond of work


@dataclass(frozen=True)
class ExactPotential:
    """The exact potential of a fixed layout at any position, from its coordinates (d, n) and charges (n,)."""

    kernel: LayoutKernel
    columns: FloatArray
    charges: FloatArray

    @classmethod
    def of(cls, kernel: LayoutKernel, Y: FloatArray, charges: FloatArray | None) -> ExactPotential:
        """Return the potential of ``charges`` (None: ones) at the rows of ``Y``."""
        columns = np.array(Y.T, dtype=np.float64, order="C")
        return cls(kernel, columns, np.ones(len(Y)) if charges is None else np.array(charges, dtype=np.float64))

    def _check_loaded(self) -> None:
        """Check the shapes: compiled loops check no index."""
        if self.columns.ndim != 2 or self.charges.shape != self.columns.shape[1:]:
            raise ValueError(f"Charges {self.charges.shape} are not those of coordinates {self.columns.shape}.")

    def __call__(self, positions: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``positions`` (m, d)."""
        return self.without(np.full(len(positions), -1), positions, run)

    def without(self, excluded: IntArray, positions: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at ``positions``, of all points but ``excluded`` (-1: of all)."""
        from manifoldry._numerics.kernels.all_pairs import sum_all_pairs

        points = compiled_array(positions, np.float64)
        phi, grad = np.empty(len(points)), np.empty(points.shape)
        layout = compiled_array(self.columns), compiled_array(self.charges)
        grain = PAIRS_PER_TASK // max(1, self.columns.shape[1])
        run.map(
            lambda lo, hi: sum_all_pairs(points, *layout, excluded, *self.kernel.compiled, phi, grad, lo, hi),
            run.shares(len(points), grain),
        )
        return phi.astype(positions.dtype, copy=False), grad.astype(positions.dtype, copy=False)


@dataclass(frozen=True)
class ExactRepulsion:
    """The repulsion summed over all pairs."""

    kernel: LayoutKernel
    name = "exact"
    exact = True

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> ExactPotential:  # noqa: ARG002
        """Return the potential of ``charges`` (None: ones; never negative) at the rows of ``Y``."""
        return ExactPotential.of(self.kernel, Y, charges)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
        return ExactPotential.of(self.kernel, Y, charges).without(np.arange(len(Y)), Y, run)


def bounding_box(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest corner and the sides of the box of columns (d, n); raise an error for a diverged layout."""
    low = columns.min(axis=1)
    sides = columns.max(axis=1) - low
    if not np.isfinite(sides).all():
        raise ValueError("The layout has coordinates that are not finite numbers; try a smaller learning rate.")
    return low, sides


def compiled_array(array: Array, dtype: DTypeLike | None = None) -> Array:
    """Return the array in C order and writable, as compiled loops need it (a memory map may be read-only)."""
    return np.require(array, dtype, ["C", "W"])


# Barnes-Hut (barnes1986): a far cell of a tree acts as one body, to second order in its size. The kernels have a flat
# top, so a cell much smaller than that acts as one body on its own points, too.

MAX_LEAF_POINTS = 16  # maximum number of points in a leaf
GROUPS_PER_TASK, CELLS_PER_TASK = 64, 1024
MORTON_SPREADS = (
    (32, 0x1F00000000FFFF),
    (16, 0x1F0000FF0000FF),
    (8, 0x100F00F00F00F00F),
    (4, 0x10C30C30C30C30C3),
    (2, 0x1249249249249249),
)
"""Shifts and masks that spread 21 bits to every third bit."""


@dataclass(frozen=True)
class BarnesHutPotential:
    """A fixed layout in a tree of cells, and its potential at any position.

    ``points`` (4, n) are coordinates and charges in the order of the tree, ``order`` their indices in the layout. A row
    of ``cells`` has the first point, the end, and the cell after all descendants of this one; ``moments`` (n_cells, 11)
    has the center, charge, second moments and squared size. A cell with a size of at most ``angle`` times its distance
    acts as one body.
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
        run.map(lambda lo, hi: cell_moments(points, cells, moments, lo, hi), run.shares(len(cells), CELLS_PER_TASK))
        return cls(kernel, angle, points, order, cells, moments)

    def __getstate__(self) -> dict[str, Any]:
        layout = np.empty((self.points.shape[1], 4))
        layout[self.order] = self.points.T
        return {"kernel": self.kernel, "angle": self.angle, "layout": layout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Rebuilt, because compiled loops follow the cells of a tree without checking the indices.
        positions, charges = state["layout"][:, :3], state["layout"][:, 3]
        self.__dict__.update(vars(BarnesHutPotential.of(state["kernel"], state["angle"], positions, charges, Run(0))))

    def __call__(self, positions: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        return _split(self._traverse(in_space(positions), np.arange(len(positions) + 1), False, run), positions)

    def at_points(self, Y: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at the rows of the layout ``Y`` itself, each without its own term."""
        leaves = self.cells[:, 2] == np.arange(1, len(self.cells) + 1)
        groups = np.append(self.cells[leaves, 0], len(Y))
        sums = np.empty((len(Y), 4))
        sums[self.order] = self._traverse(np.ascontiguousarray(self.points[:3].T), groups, True, run)
        return _split(sums, Y)

    def _traverse(self, positions: FloatArray, groups: IntArray, at_points: bool, run: Run) -> FloatArray:
        from manifoldry._numerics.kernels.barnes_hut import traverse

        sums = np.empty((len(positions), 4))
        tree = compiled_array(self.points), compiled_array(self.cells), compiled_array(self.moments), MAX_LEAF_POINTS
        kernel = *self.kernel.compiled, min(self.kernel.length_scale**2, 1.0), self.angle**-2
        run.map(
            lambda lo, hi: traverse(*tree, positions, groups, at_points, *kernel, sums, lo, hi),
            run.shares(len(groups) - 1, GROUPS_PER_TASK),
        )
        return sums


def _split(sums: FloatArray, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return potential and gradient in the precision and dimension of the positions."""
    return sums[:, 0].astype(positions.dtype), sums[:, 1 : 1 + positions.shape[1]].astype(positions.dtype, order="C")


def in_space(positions: FloatArray) -> FloatArray:
    """Return positions (m, 3), the missing coordinates zero."""
    space = np.zeros((len(positions), 3))
    space[:, : positions.shape[1]] = positions
    return space


def morton_codes(unit: FloatArray) -> IntArray:
    """Return the codes of columns (3, n) in the unit cube: the first 21 bits of the coordinates, interleaved."""
    bits = (unit * (2**21 - 1)).astype(np.int64)
    for shift, mask in MORTON_SPREADS:
        bits = (bits | (bits << shift)) & mask
    return bits[0] | (bits[1] << 1) | (bits[2] << 2)


@dataclass(frozen=True)
class BarnesHutRepulsion:
    """The repulsion of layouts in up to three dimensions, by Barnes-Hut, to a relative ``error`` of the gradient."""

    kernel: LayoutKernel
    error: float = 1e-2
    name = "barnes_hut"
    exact = False

    @property
    def angle(self) -> float:
        """Maximum size over distance of a cell that acts as one body: measured, for errors from 1e-2 to 1e-5."""
        return 0.48 * (self.error / 1e-2) ** 0.26

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> BarnesHutPotential:
        return BarnesHutPotential.of(self.kernel, self.angle, Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        return self.potential(Y, charges, run).at_points(Y, run)
