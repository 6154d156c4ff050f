"""A regular mesh in the plane: charges spread on it, convolved with a kernel in free space, and gathered again.

As in smooth particle mesh Ewald (essmann1995), but not periodic: the kernel, sampled on a mesh twice as wide, is
divided by the splines' transform once for spreading and once for gathering, which makes the answer the spline
that interpolates the kernel in both of its arguments. Its gradient comes with it, so one scalar convolution does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import DTypeLike

from manifoldry.run import Run
from manifoldry.solve.repulsion.exact import bounding_box
from manifoldry.solve.repulsion.layout_kernel import LayoutKernel
from manifoldry.values import Array, FloatArray, IntArray

SPLINE_DEGREE = 5
"""Of the B-splines, which is the number of nodes beyond its own that a point touches along each axis."""
N_GUARD_NODES = 8
"""More nodes per axis: the splines' inverse decays by 0.43 per node, and the kernel has a kink where the mesh ends."""
MIN_WIDTH, MAX_NODES_PER_SIDE = 1e-150, 2**30
"""A width whose square is still a number, and a number of nodes that is refused anyway."""
POINTS_PER_TASK, LINES_PER_TASK, N_BANDS = 8192, 32, 16
"""Of gathering, of a transform, and of spreading."""


class Workspace:
    """Arrays to write into, kept from call to call: fresh memory would cost a third of the time."""

    def __init__(self) -> None:
        self._kept: dict[str, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array of that shape with anything in it, valid until the same name is asked for again."""
        size = math.prod(shape)
        if name not in self._kept or len(self._kept[name]) < size:
            self._kept[name] = np.empty(size + size // 8, dtype)
        return self._kept[name][:size].reshape(shape)


@dataclass(frozen=True)
class Mesh:
    """Place of node (0, 0), spacing and size of a regular mesh in the plane.

    ``halves`` are half the lengths of the transforms along both axes: fast lengths, so that few sizes serve a growing
    layout.
    """

    corner: tuple[float, float]
    spacing: float
    halves: tuple[int, int]

    @classmethod
    def around(cls, plane: FloatArray, spacing: float, min_cells: int, margin: float = 0.0) -> Mesh:
        """Return a mesh over columns (2, n), at least ``min_cells`` wide, with a margin in units of its width."""
        corner, sides = bounding_box(plane)
        width = float(sides.max())
        h = min(spacing, width / min_cells) if width > MIN_WIDTH else spacing
        corner, sides = corner - margin * width, sides + 2 * margin * width
        nodes = np.minimum(np.floor(sides / h), MAX_NODES_PER_SIDE).astype(int) + 1 + SPLINE_DEGREE
        halves = [int(scipy.fft.next_fast_len(int(k) + N_GUARD_NODES, real=True)) for k in nodes]
        return cls((float(corner[0]), float(corner[1])), h, (halves[0], halves[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes along both axes."""
        return self.halves[0] - N_GUARD_NODES, self.halves[1] - N_GUARD_NODES

    @property
    def size(self) -> int:
        """Nodes of the doubled mesh."""
        return 4 * self.halves[0] * self.halves[1]

    def positions(self, plane: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return columns (2, n) in units of cells from the corner."""
        moved = np.subtract(plane, np.array(self.corner)[:, None], out=out)
        return np.divide(moved, self.spacing, out=moved)


@dataclass(frozen=True)
class KernelTransform:
    """The Fourier transform of a kernel on a mesh, divided by that of the splines.

    Of (w - far) / span, where w is the kernel, far its value at the farthest corner and span = 1 - far: so that float32
    has its digits where the kernel varies, however small the mesh. Even, so a quarter (half + 1, half + 1) is all.
    """

    values: FloatArray
    far: float
    span: float

    @classmethod
    def of(cls, kernel: LayoutKernel, mesh: Mesh) -> KernelTransform:
        """Return the transform of ``kernel`` for the spacing and size of ``mesh``."""
        r, c = (np.arange(half + 1) * mesh.spacing for half in mesh.halves)
        drop = kernel.value_minus_one(r[:, None] ** 2 + c**2)
        lowest = float(drop[-1, -1])
        sampled = scipy.fft.dctn(1 - drop / lowest, type=1, overwrite_x=True)
        for axis, half in enumerate(mesh.halves):
            angle = np.pi * np.arange(half + 1) / half
            # The spline at the nodes is (1, 26, 66, 26, 1) / 120.
            spline = (66 + 52 * np.cos(angle) + 2 * np.cos(2 * angle)) / 120
            sampled /= np.expand_dims(spline**2, 1 - axis)
        return cls(sampled.astype(np.float32), 1 + lowest, -lowest)


@dataclass(frozen=True)
class SortedPoints:
    """Points in the order of their rows of cells.

    ``order`` (n,) says which point is where, ``first`` where each row of cells begins; ``cell`` and ``part`` (n, 2) are
    the cell of each and its place in it.
    """

    order: IntArray
    first: IntArray
    cell: IntArray
    part: FloatArray

    @classmethod
    def of(cls, positions: FloatArray, n_rows: int, workspace: Workspace) -> SortedPoints:
        """Sort ``positions`` (2, n), in units of cells."""
        from manifoldry.compiled.mesh import sort_by_row

        n = positions.shape[1]
        order, first = workspace("order", (n,), np.int64), np.empty(n_rows + 1, np.int64)
        cell, part = workspace("cell", (n, 2), np.int32), workspace("part", (n, 2), np.float32)
        sort_by_row(positions, first, order, cell, part)
        return cls(order, first, cell, part)

    def spread(self, charges: FloatArray, grid: FloatArray, run: Run) -> None:
        """Overwrite ``grid`` with the charges spread over its nodes, in float64: a node may sum those of all points.

        Every other band of rows, then those between: a band writes a few rows of the next one only, so that no
        two bands at work meet, and every node sums in the same order for any number of threads.
        """
        from manifoldry.compiled.mesh import spread_charges

        grid[:] = 0
        rows = len(self.first) - 1
        bands = run.ranges(rows, max(SPLINE_DEGREE + 1, -(-rows // N_BANDS)))
        tasks = [(self.first[lo], self.first[hi]) for lo, hi in bands]
        for turn in (tasks[::2], tasks[1::2]):
            run.map(lambda lo, hi: spread_charges(self.cell, self.part, charges, self.order, grid, lo, hi), turn)

    def gather(self, grid: FloatArray, run: Run, workspace: Workspace) -> FloatArray:
        """Return the spline's value and its two slopes per cell at the points, shape (n, 3), in their own order."""
        from manifoldry.compiled.mesh import gather_values

        out = workspace("values", (len(self.order), 3), np.float32)
        run.map(
            lambda lo, hi: gather_values(self.cell, self.part, self.order, grid, out, lo, hi),
            run.ranges(len(out), POINTS_PER_TASK),
        )
        return out


def convolve(grid: FloatArray, transform: KernelTransform, mesh: Mesh, run: Run, workspace: Workspace) -> FloatArray:
    """Return the charges on the nodes convolved with the kernel, in free space.

    Half of the doubled mesh is zero on the way in and not wanted on the way out, so those rows are left out.
    The cuts are ours and not the transform's, so that the bits cannot depend on the number of threads.
    """
    (n_rows, _), (tall, wide) = grid.shape, (2 * half for half in mesh.halves)
    waves = workspace("waves", (n_rows, wide // 2 + 1), np.complex64)
    result = workspace("result", (n_rows, wide), np.float32)
    factor = transform.values

    def along_rows(lo: int, hi: int) -> None:
        waves[lo:hi] = scipy.fft.rfft(grid[lo:hi].astype(np.float32), wide, axis=1)

    def along_columns(lo: int, hi: int) -> None:
        block = scipy.fft.fft(waves[:, lo:hi], tall, axis=0)
        half = tall // 2
        block[: half + 1] *= factor[:, lo:hi]
        block[half + 1 :] *= factor[half - 1 : 0 : -1, lo:hi]
        waves[:, lo:hi] = scipy.fft.ifft(block, axis=0, overwrite_x=True)[:n_rows]

    def back(lo: int, hi: int) -> None:
        result[lo:hi] = scipy.fft.irfft(waves[lo:hi], wide, axis=1)

    rows = run.ranges(n_rows, LINES_PER_TASK)
    run.map(along_rows, rows)
    run.map(along_columns, run.ranges(waves.shape[1], LINES_PER_TASK))
    run.map(back, rows)
    return result
