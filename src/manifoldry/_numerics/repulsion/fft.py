"""The repulsion of a layout by FFT on a particle mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import scipy.fft
from numpy.typing import DTypeLike

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.repulsion.sums import (
    BarnesHutPotential,
    BarnesHutRepulsion,
    ExactPotential,
    ExactRepulsion,
    LayoutKernel,
    bounding_box,
    compiled_array,
)

# Charges are spread on a regular mesh in the plane, convolved with a kernel in free space, and gathered again.
#
# As in smooth particle mesh Ewald (essmann1995), but not periodic: the kernel, sampled on a mesh twice as wide, is
# divided by the splines' transform once for spreading and once for gathering. The result is the spline that
# interpolates the kernel in both of its arguments. Its gradient is a by-product, so one scalar convolution is enough.

SPLINE_DEGREE = 5  # degree of the B-splines: the number of further nodes that a point touches along each axis
N_GUARD_NODES = 8  # extra nodes per axis: the splines' inverse decays by 0.43 per node
MIN_WIDTH, MAX_NODES_PER_SIDE = 1e-150, 2**30
"""A width whose square does not underflow, and a number of nodes that is always too large."""
POINTS_PER_TASK, LINES_PER_TASK, N_BANDS = 8192, 32, 16  # for gathering, for a transform, and for spreading


class Workspace:
    """Work arrays that are reused between calls: allocating them would cost a third of the time."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an uninitialized array, valid until the same name is requested again."""
        size = math.prod(shape)
        if name not in self._arrays or len(self._arrays[name]) < size:
            self._arrays[name] = np.empty(size + size // 8, dtype)
        return self._arrays[name][:size].reshape(shape)


@dataclass(frozen=True)
class Mesh:
    """Position of node (0, 0), spacing, and half the lengths of the transforms of a regular mesh in the plane."""

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

    def positions(self, plane: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return columns (2, n) in units of cells from the corner."""
        moved = np.subtract(plane, np.array(self.corner)[:, None], out=out)
        return np.divide(moved, self.spacing, out=moved)


@dataclass(frozen=True)
class KernelTransform:
    """The Fourier transform of a kernel on a mesh, divided by that of the splines.

    It is that of (w - far) / span, where w is the kernel, far its value at the farthest corner and span = 1 - far, so
    that float32 resolves it on any mesh. It is even, so a quarter (half + 1, half + 1) is stored.
    """

    values: FloatArray
    far: float
    span: float

    @classmethod
    def of(cls, kernel: LayoutKernel, spacing: float, halves: tuple[int, int]) -> KernelTransform:
        """Return the transform of ``kernel`` for a mesh of this spacing and size."""
        r, c = (np.arange(half + 1) * spacing for half in halves)
        drop = kernel.value_minus_one(r[:, None] ** 2 + c**2)
        lowest = float(drop[-1, -1])
        sampled = scipy.fft.dctn(1 - drop / lowest, type=1, overwrite_x=True)
        for axis, half in enumerate(halves):
            angle = np.pi * np.arange(half + 1) / half
            # The spline at the nodes is (1, 26, 66, 26, 1) / 120.
            spline = (66 + 52 * np.cos(angle) + 2 * np.cos(2 * angle)) / 120
            sampled /= np.expand_dims(spline**2, 1 - axis)
        return cls(sampled.astype(np.float32), 1 + lowest, -lowest)


@dataclass(frozen=True)
class SortedPoints:
    """Points in the order of their rows of cells: indices, the first of each row, cells and fractions of cells."""

    order: IntArray
    first: IntArray
    cell: IntArray
    part: FloatArray

    @classmethod
    def of(cls, positions: FloatArray, n_rows: int, workspace: Workspace) -> SortedPoints:
        """Sort ``positions`` (2, n), in units of cells."""
        from manifoldry._numerics.kernels.mesh import sort_by_row

        n = positions.shape[1]
        order, first = workspace("order", (n,), np.int64), np.empty(n_rows + 1, np.int64)
        cell, part = workspace("cell", (n, 2), np.int32), workspace("part", (n, 2), np.float32)
        sort_by_row(positions, first, order, cell, part)
        return cls(order, first, cell, part)

    def spread(self, charges: FloatArray, grid: FloatArray, run: Run) -> None:
        """Overwrite ``grid`` with the charges spread over its nodes, in float64: a node may sum those of all points."""
        from manifoldry._numerics.kernels.mesh import spread_charges

        grid[:] = 0
        rows = len(self.first) - 1
        bands = run.ranges(rows, max(SPLINE_DEGREE + 1, -(-rows // N_BANDS)))
        tasks = [(self.first[lo], self.first[hi]) for lo, hi in bands]
        # A band writes a few rows of the next: every other one first, so that nodes always sum in the same order.
        for half in (tasks[::2], tasks[1::2]):
            run.map(lambda lo, hi: spread_charges(self.cell, self.part, charges, self.order, grid, lo, hi), half)

    def gather(self, grid: FloatArray, run: Run, workspace: Workspace) -> FloatArray:
        """Return the spline's value and its two slopes per cell at the points, shape (n, 3), in their own order."""
        from manifoldry._numerics.kernels.mesh import gather_values

        out = workspace("values", (len(self.order), 3), np.float32)
        run.map(
            lambda lo, hi: gather_values(self.cell, self.part, self.order, grid, out, lo, hi),
            run.ranges(len(out), POINTS_PER_TASK),
        )
        return out


def convolve(grid: FloatArray, transform: KernelTransform, mesh: Mesh, run: Run, workspace: Workspace) -> FloatArray:
    """Return the charges on the nodes convolved with the kernel, in free space."""
    (n_rows, _), (tall, wide) = grid.shape, (2 * half for half in mesh.halves)
    waves = workspace("waves", (n_rows, wide // 2 + 1), np.complex64)
    result = workspace("result", (n_rows, wide), np.float32)
    factor = transform.values

    # Half of the doubled mesh is zero before and unused after. Rows are split here, the same for any number of threads.
    def along_rows(lo: int, hi: int) -> None:
        waves[lo:hi] = scipy.fft.rfft(grid[lo:hi].astype(np.float32), wide, axis=1)

    def along_columns(lo: int, hi: int) -> None:
        block = scipy.fft.fft(waves[:, lo:hi], tall, axis=0)
        half = tall // 2
        block[: half + 1] *= factor[:, lo:hi]
        block[half + 1 :] *= factor[half - 1 : 0 : -1, lo:hi]
        waves[:, lo:hi] = scipy.fft.ifft(block, axis=0, overwrite_x=True)[:n_rows]

    def inverse_rows(lo: int, hi: int) -> None:
        result[lo:hi] = scipy.fft.irfft(waves[lo:hi], wide, axis=1)

    rows = run.ranges(n_rows, LINES_PER_TASK)
    run.map(along_rows, rows)
    run.map(along_columns, run.ranges(waves.shape[1], LINES_PER_TASK))
    run.map(inverse_rows, rows)
    return result


MAX_NODES = 2**24  # maximum number of nodes of the doubled mesh: three arrays of float32 of this size take 200 MB
MIN_NODE_LIMIT, NODES_PER_POINT = 2**16, 100
"""Nodes at which a mesh costs as much as a tree: 8 ns per node and 60 ns per point, compared with 1 us per point."""
N_CHECKED, ERROR_SLACK = 8, 2.0
"""Points summed exactly as a check, and the factor by which their error may exceed the overall error."""
FAINT_SHARE = 1e-3
"""Share of the largest potential below which potentials are summed exactly: the error of the mesh would dominate."""
MARGIN_SHARE = 0.1  # margin for new points around a fixed layout, in units of its width


@dataclass(frozen=True)
class FFTPotential:
    """The potential offset + factor * spline of ``nodes``; outside the mesh and below ``faint``, the exact sum."""

    mesh: Mesh
    nodes: FloatArray
    offset: float
    factor: float
    faint: float
    layout: ExactPotential

    def _check_loaded(self) -> None:
        """Check that there are enough nodes: compiled loops check no index."""
        if any(self.nodes.shape[axis] < length for axis, length in enumerate(self.mesh.shape)):
            raise ValueError(f"A mesh of {self.mesh.shape} nodes needs as many; got {self.nodes.shape}.")

    def __call__(self, positions: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        cell_positions = self.mesh.positions(in_plane(positions.T.astype(np.float64)))
        cells = np.array(self.mesh.shape) - SPLINE_DEGREE
        inside_mesh = np.flatnonzero(((cell_positions >= 0) & (cell_positions < cells[:, None])).all(axis=0))
        phi, grad = np.full(len(positions), -np.inf, positions.dtype), np.empty(positions.shape, positions.dtype)
        workspace = Workspace()
        points = SortedPoints.of(np.ascontiguousarray(cell_positions[:, inside_mesh]), cells[0], workspace)
        phi[inside_mesh], grad[inside_mesh] = self.gathered(points, run, workspace)
        exact = np.flatnonzero(phi < self.faint)
        if len(exact):
            phi[exact], grad[exact] = self.layout(positions[exact], run)
        return phi, grad

    def gathered(self, points: SortedPoints, run: Run, workspace: Workspace) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at points inside of the mesh."""
        values = points.gather(compiled_array(self.nodes), run, workspace)
        d = len(self.layout.columns)
        return (
            self.offset + self.factor * values[:, 0].astype(np.float64),
            values[:, 1 : d + 1] * (self.factor / self.mesh.spacing),
        )


def in_plane(columns: FloatArray) -> FloatArray:
    """Return columns (2, n) of the plane: points on a line get a second coordinate, zero."""
    return columns if len(columns) == 2 else np.vstack([columns, np.zeros_like(columns)])


class FFTRepulsion:
    """The repulsion of layouts on a line or in the plane, by FFT on a particle mesh, to a relative ``error``.

    A few points are summed exactly as a check. If they disagree (many points lie within a fraction of a cell), or if a
    mesh would be slower than a tree, Barnes-Hut is used; ``n_barnes_hut`` counts those calls. These decisions depend
    only on the layout, so results do not depend on earlier calls.
    """

    name = "fft"
    exact = False

    def __init__(self, kernel: LayoutKernel, error: float = 1e-2) -> None:
        self.kernel = kernel
        self.error = error
        self.barnes_hut = BarnesHutRepulsion(kernel, error)
        # Measured on layouts from 0.01 to 200 units wide, for errors from 1e-2 to 1e-4.
        self.spacing = 0.38 * kernel.length_scale * (error / 1e-2) ** 0.17
        self.min_cells = 24 if error > 1e-3 else 40
        self.nodes_per_point = NODES_PER_POINT * (error / 1e-2) ** -0.3
        self.n_barnes_hut = 0
        self._transform = lru_cache(maxsize=1)(partial(KernelTransform.of, kernel))
        self._workspace = Workspace()

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> FFTPotential | BarnesHutPotential:
        layout = ExactPotential.of(self.kernel, Y, charges)
        solved = self._solve(layout, MARGIN_SHARE, run)
        if solved is not None:
            points, frozen = solved
            if self._agrees(layout, frozen.gathered(points, run, self._workspace)[1], run):
                return replace(frozen, nodes=frozen.nodes[:, : frozen.mesh.shape[1]].copy())
        self.n_barnes_hut += 1
        return self.barnes_hut.potential(Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        layout = ExactPotential.of(self.kernel, Y, charges)
        solved = self._solve(layout, 0.0, run)
        if solved is not None:
            points, frozen = solved
            phi, grad = frozen.gathered(points, run, self._workspace)
            phi -= layout.charges
            faint = np.flatnonzero(phi < frozen.faint)
            if len(faint) <= len(Y) // 100 and self._agrees(layout, grad, run):
                if len(faint):
                    phi[faint], grad[faint] = layout.without(faint, layout.columns[:, faint].T, run)
                return phi.astype(Y.dtype, copy=False), grad.astype(Y.dtype, copy=False)
        self.n_barnes_hut += 1
        return self.barnes_hut.at_points(Y, charges, run)

    def _agrees(self, layout: ExactPotential, grad: FloatArray, run: Run) -> bool:
        n = len(grad)
        sample = np.arange(n // (2 * N_CHECKED), n, max(1, n // N_CHECKED))
        exact = layout(np.ascontiguousarray(layout.columns[:, sample].T), run)[1]
        return bool(np.linalg.norm(grad[sample] - exact) <= ERROR_SLACK * self.error * np.linalg.norm(exact))

    def _solve(self, layout: ExactPotential, margin: float, run: Run) -> tuple[SortedPoints, FFTPotential] | None:
        plane, charges = in_plane(layout.columns), layout.charges
        mesh = Mesh.around(plane, self.spacing, self.min_cells, margin)
        if 4 * math.prod(mesh.halves) > min(MAX_NODES, MIN_NODE_LIMIT + self.nodes_per_point * len(charges)):
            return None
        workspace = self._workspace
        positions = mesh.positions(plane, workspace("positions", plane.shape, np.float64))
        points = SortedPoints.of(positions, mesh.shape[0] - SPLINE_DEGREE, workspace)
        largest = float(np.abs(charges).max()) or 1.0
        grid = workspace("grid", mesh.shape, np.float64)
        points.spread((charges / largest).astype(np.float32), grid, run)
        transform = self._transform(mesh.spacing, mesh.halves)
        nodes = convolve(grid, transform, mesh, run, workspace)
        offset, factor = transform.far * float(charges.sum()), transform.span * largest
        faint = FAINT_SHARE * (offset + factor * float(nodes.max()))
        return points, FFTPotential(mesh, nodes, offset, factor, faint, layout)


Potential = ExactPotential | BarnesHutPotential | FFTPotential
"""The potential of a fixed layout at any position; picklable."""
Repulsion = ExactRepulsion | BarnesHutRepulsion | FFTRepulsion
"""A way to sum the potential of layouts and its gradient."""
