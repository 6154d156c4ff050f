"""The repulsion of a layout by FFT on a particle mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

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
# Compiled phases do all of it (`kernels.mesh`), for one potential or inside a descent (`kernels.joint_descent`).

MAX_BANDS = 64  # of rows of the mesh, whose points are spread by one thread


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
        from manifoldry._numerics.kernels.mesh import fit_mesh

        corner, sides = bounding_box(plane)
        width = float(sides.max())
        corner, sides = corner - margin * width, sides + 2 * margin * width
        h, *halves = fit_mesh(*sides, spacing, min_cells)
        return cls((float(corner[0]), float(corner[1])), h, (halves[0], halves[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes along both axes."""
        from manifoldry._numerics.kernels.mesh import N_GUARD_NODES

        return self.halves[0] - N_GUARD_NODES, self.halves[1] - N_GUARD_NODES

    @property
    def place(self) -> FloatArray:
        """The corner and the nodes per unit of length."""
        return np.array([*self.corner, 1.0 / self.spacing, 1.0])

    def positions(self, plane: FloatArray) -> FloatArray:
        """Return columns (2, n) in units of cells from the corner."""
        return (plane - np.array(self.corner)[:, None]) * (1.0 / self.spacing)


@dataclass(frozen=True)
class KernelTransform:
    """The Fourier transform of a kernel on a mesh, divided by that of the splines.

    It is that of (w - mean) / span, where w is the kernel, mean its mean over the mesh and span = 1 - mean, so that
    float32 resolves it on any mesh. ``values`` are the ``factor`` of `MeshArrays`.
    """

    values: FloatArray
    axes: tuple[Any, Any]
    mean: float
    span: float

    @classmethod
    def of(cls, kernel: LayoutKernel, spacing: float, halves: tuple[int, int]) -> KernelTransform:
        """Return the transform of ``kernel`` for a mesh of this spacing and size."""
        from manifoldry._numerics.kernels.fourier import LANES, plan

        r, c = (np.arange(half) * spacing for half in halves)
        drop = kernel.value_minus_one(r[:, None] ** 2 + c**2)
        mean = float(drop.mean())
        sampled = scipy.fft.dctn(1 - drop / mean, type=3, overwrite_x=True)
        axes, orders = [], []
        for axis, half in enumerate(halves):
            angle = np.pi * (np.arange(half) + 0.5) / half
            # The spline at the nodes is (1, 26, 66, 26, 1) / 120.
            spline = (66 + 52 * np.cos(angle) + 2 * np.cos(2 * angle)) / 120
            sampled /= np.expand_dims(spline**2, 1 - axis)
            lines, frequencies = plan(half)
            axes.append(lines)
            orders.append(frequencies)
        # Shifted frequency 2 m, and beyond the middle its mirror image.
        rows, columns = (np.minimum(2 * k, 2 * half - 1 - 2 * k) for k, half in zip(orders, halves, strict=True))
        values = (sampled / (2 * math.prod(halves))).astype(np.float32)[np.ix_(rows, columns)]
        values = np.ascontiguousarray(values.reshape(-1, LANES, halves[1]).transpose(0, 2, 1))
        return cls(values, (axes[0], axes[1]), 1 + mean, -mean)


MAX_NODES = 2**24  # maximum number of nodes of the doubled mesh: three arrays of float32 of this size take 200 MB
MIN_NODE_LIMIT, NODES_PER_POINT = 2**16, 100
"""Nodes beyond which a tree is used. A mesh, at 3 ns per node, is faster up to three times as many, but its error grows
with the width of a layout: 10,000 digits reach a divergence of 1.637 instead of 1.630."""
N_CHECKED, ERROR_SLACK = 8, 2.0
"""Points summed exactly as a check, and the factor by which their error may exceed the overall error."""
FAINT_SHARE = 1e-3
"""Share of the largest potential below which potentials are summed exactly: the error of the mesh would dominate."""
MIN_POINTS_PER_FAINT = 100  # a tree is used if more than one point in 100 is faint
POINTS_PER_TASK = 8192
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
        from manifoldry._numerics.kernels.mesh import SPLINE_DEGREE

        plane = in_plane(positions.T.astype(np.float64))
        cell_positions = self.mesh.positions(plane)
        cells = np.array(self.mesh.shape) - SPLINE_DEGREE
        inside_mesh = np.flatnonzero(((cell_positions >= 0) & (cell_positions < cells[:, None])).all(axis=0))
        phi, grad = np.full(len(positions), -np.inf, positions.dtype), np.empty(positions.shape, positions.dtype)
        phi[inside_mesh], grad[inside_mesh] = self.gathered(np.ascontiguousarray(plane[:, inside_mesh]), run)
        exact = np.flatnonzero(phi < self.faint)
        if len(exact):
            phi[exact], grad[exact] = self.layout(positions[exact], run)
        return phi, grad

    def gathered(self, plane: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at columns (2, m) inside of the mesh."""
        from manifoldry._numerics.kernels.mesh import gather_values

        values: Any = np.empty((plane.shape[1], 3), np.float32)
        d = len(self.layout.columns)
        arguments = plane, self.mesh.place, compiled_array(self.nodes), values
        run.map(lambda lo, hi: gather_values(*arguments, lo, hi), run.shares(len(values), POINTS_PER_TASK))
        return (
            self.offset + self.factor * values[:, 0].astype(np.float64),
            values[:, 1 : d + 1] * (self.factor / self.mesh.spacing),
        )


def in_plane(columns: FloatArray) -> FloatArray:
    """Return columns (2, n) of the plane: points on a line get a second coordinate, zero."""
    return columns if len(columns) == 2 else np.vstack([columns, np.zeros_like(columns)])


def exact_sample(n: int) -> IntArray:
    """Return the points whose repulsion is summed exactly as a check."""
    return np.arange(n // (2 * N_CHECKED), n, max(1, n // N_CHECKED))


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
        frozen = self._solve(layout, MARGIN_SHARE, run)
        if frozen is not None and self._agrees(layout, frozen, run):
            return replace(frozen, nodes=frozen.nodes[:, : frozen.mesh.shape[1]].copy())
        self.n_barnes_hut += 1
        return self.barnes_hut.potential(Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        layout = ExactPotential.of(self.kernel, Y, charges)
        frozen = self._solve(layout, 0.0, run)
        if frozen is not None:
            phi, grad = frozen.gathered(in_plane(layout.columns), run)
            phi -= layout.charges
            faint = np.flatnonzero(phi < frozen.faint)
            if len(faint) <= len(Y) // MIN_POINTS_PER_FAINT and self._agrees(layout, frozen, run):
                if len(faint):
                    phi[faint], grad[faint] = layout.without(faint, layout.columns[:, faint].T, run)
                return phi.astype(Y.dtype, copy=False), grad.astype(Y.dtype, copy=False)
        self.n_barnes_hut += 1
        return self.barnes_hut.at_points(Y, charges, run)

    def mesh(self, plane: FloatArray, margin: float = 0.0) -> Mesh | None:
        """Return the mesh over columns (2, n), None if it would be slower than a tree."""
        mesh = Mesh.around(plane, self.spacing, self.min_cells, margin)
        limit = min(MAX_NODES, MIN_NODE_LIMIT + self.nodes_per_point * plane.shape[1])
        return None if 4 * math.prod(mesh.halves) > limit else mesh

    def arrays(self, mesh: Mesh, plane: FloatArray, charges: FloatArray) -> tuple[Any, KernelTransform]:
        """Return the arguments of the phases on a mesh, valid until the next call, and the kernel's transform."""
        from manifoldry._numerics.kernels.fourier import LANES
        from manifoldry._numerics.kernels.mesh import POINTS_PER_TICKET, SPLINE_DEGREE, MeshArrays

        transform, work, n = self._transform(mesh.spacing, mesh.halves), self._workspace, len(charges)
        (rows, columns), blocks = mesh.shape, -(-n // POINTS_PER_TICKET)
        shift = max(0, math.ceil(math.log2((rows - SPLINE_DEGREE) / MAX_BANDS)))
        bands, width = -(-(rows - SPLINE_DEGREE) // 2**shift), -(-columns // LANES) * LANES
        place = mesh.place
        place[3] = 1.0 / (float(np.abs(charges).max()) or 1.0)
        arrays = MeshArrays(
            plane,
            charges,
            place,
            np.array([rows, columns, shift]),
            *transform.axes,
            transform.values,
            work("counts", (blocks, bands), np.int32),
            work("first", (bands + 1,), np.int32),
            work("order", (n,), np.int32),
            work("strips", (bands, 2**shift + SPLINE_DEGREE, width), np.float64),
            work("waves", (mesh.halves[0], 2, width), np.float32),
            work("nodes", (rows, width), np.float32),
            work("peaks", (width // LANES,), np.float32),
        )
        return arrays, transform

    def _agrees(self, layout: ExactPotential, frozen: FFTPotential, run: Run) -> bool:
        """Return whether the mesh has the gradient of a sample of the points."""
        columns = np.ascontiguousarray(layout.columns[:, exact_sample(len(layout.charges))])
        exact, grad = layout(columns.T, run)[1], frozen.gathered(in_plane(columns), run)[1]
        return bool(np.linalg.norm(grad - exact) <= ERROR_SLACK * self.error * np.linalg.norm(exact))

    def _solve(self, layout: ExactPotential, margin: float, run: Run) -> FFTPotential | None:
        from manifoldry._numerics.kernels.mesh import solve_mesh

        plane, charges = in_plane(layout.columns), layout.charges
        mesh = self.mesh(plane, margin)
        if mesh is None:
            return None
        if run.gpu is not None and margin > 0:  # at the points themselves, only for a layout that suits no mesh there
            from manifoldry._numerics.gpu.mesh import solve_mesh as solve_on_gpu

            return solve_on_gpu(layout, mesh, run)
        arrays, transform = self.arrays(mesh, plane, charges)
        run.team(solve_mesh, arrays)
        offset, factor = transform.mean * float(charges.sum()), transform.span / arrays.place[3]
        faint = FAINT_SHARE * (offset + factor * float(arrays.peaks.max()))
        return FFTPotential(mesh, arrays.nodes, offset, factor, faint, layout)


Potential = ExactPotential | BarnesHutPotential | FFTPotential
"""The potential of a fixed layout at any position; picklable."""
Repulsion = ExactRepulsion | BarnesHutRepulsion | FFTRepulsion
"""A way to sum the potential of layouts and its gradient."""
