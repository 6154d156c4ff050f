"""How the repulsion is summed: a table by size, dimension and the accuracy wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import scipy.fft
from numpy.typing import DTypeLike

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.repulsion.barnes_hut import BarnesHutPotential, BarnesHutRepulsion
from manifoldry._numerics.repulsion.exact import (
    ExactPotential,
    ExactRepulsion,
    LayoutKernel,
    bounding_box,
    compiled_array,
)

RepulsionName = Literal["auto", "exact", "barnes_hut", "fft"]
DEFAULT_ACCURACY = 1e-2
"""Relative error of the gradient (norm of the difference over the norm) allowed when nothing is said."""
MAX_ERROR, MIN_FFT_ERROR = 1e-1, 5e-5
"""The error at which hardly anything is left to save, and the one that a mesh of float32 can promise."""
MAX_POINTS_EXACT = {1: 1000, 2: 1000, 3: 1500}
"""Points up to which all pairs are summed, by dimension: in the plane 0.8 ms for 1000 points, as by FFT; 20 ms for
5000 against 2.4 ms. In space 2.2 ms for 1500 points, as by Barnes-Hut."""
MAX_DIMENSIONS = {"barnes_hut": 3, "fft": 2}


class Potential(Protocol):
    """The potential of a frozen layout at any place; picklable."""

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d), place by place."""


class Repulsion(Protocol):
    """A way to sum the potential of layouts and its gradient."""

    name: str
    exact: bool

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> Potential:
        """Return the potential of ``charges`` (None: ones; never negative) at the rows of ``Y``, for any place."""

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""


def resolve_repulsion(repulsion: str, n: int, d: int, accuracy: float | None = None) -> tuple[str, float]:
    """Return the name of the summation for ``n`` points in ``d`` dimensions and its error; refuse what none can do."""
    check.choice("repulsion", repulsion, ("auto", *MAX_DIMENSIONS, "exact"))
    error = DEFAULT_ACCURACY if accuracy is None else check.number("accuracy", accuracy, 0.0, open_low=True)
    error = min(error, MAX_ERROR)
    if repulsion == "auto":
        if n <= MAX_POINTS_EXACT.get(d, n):
            return "exact", error
        return "fft" if d <= 2 and error >= MIN_FFT_ERROR else "barnes_hut", error
    if d > MAX_DIMENSIONS.get(repulsion, d):
        raise ValueError(
            f"repulsion={repulsion!r} serves up to {MAX_DIMENSIONS[repulsion]} dimensions; got {d}: try "
            "repulsion='auto'."
        )
    if repulsion == "fft" and error < MIN_FFT_ERROR:
        raise ValueError(
            f"repulsion='fft' promises errors down to {MIN_FFT_ERROR:g}; got accuracy={error:g}: try "
            "repulsion='barnes_hut'."
        )
    return repulsion, error


def choose_repulsion(
    kernel: LayoutKernel, n: int, d: int, *, repulsion: str = "auto", accuracy: float | None = None
) -> Repulsion:
    """Return the way to sum the repulsion of ``n`` points in ``d`` dimensions.

    "auto" takes the fastest that keeps the ``accuracy``, the relative error of the gradient, by default 1e-2. What is
    returned may keep arrays between calls, but its results depend on the arguments of the call only. One thread at a
    time may call it; it takes its own threads from the run.

    Examples
    --------
    >>> import numpy as np
    >>> repulsion = choose_repulsion(LayoutKernel.student_t(), 4, 2)
    >>> potential, gradient = repulsion.at_points(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), None, Run(0))
    >>> repulsion.name, potential.round(3).tolist()
    ('exact', [1.333, 1.333, 1.333, 1.333])
    """
    name, error = resolve_repulsion(repulsion, n, d, accuracy)
    if name == "exact":
        return ExactRepulsion(kernel)
    return BarnesHutRepulsion(kernel, error) if name == "barnes_hut" else FFTRepulsion(kernel, error)


# A regular mesh in the plane: charges spread on it, convolved with a kernel in free space, and gathered again.
#
# As in smooth particle mesh Ewald (essmann1995), but not periodic: the kernel, sampled on a mesh twice as wide, is
# divided by the splines' transform once for spreading and once for gathering, which makes the answer the spline
# that interpolates the kernel in both of its arguments. Its gradient comes with it, so one scalar convolution does.

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
        from manifoldry._numerics.kernels.mesh import sort_by_row

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
        from manifoldry._numerics.kernels.mesh import spread_charges

        grid[:] = 0
        rows = len(self.first) - 1
        bands = run.ranges(rows, max(SPLINE_DEGREE + 1, -(-rows // N_BANDS)))
        tasks = [(self.first[lo], self.first[hi]) for lo, hi in bands]
        for turn in (tasks[::2], tasks[1::2]):
            run.map(lambda lo, hi: spread_charges(self.cell, self.part, charges, self.order, grid, lo, hi), turn)

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


# The repulsion of a layout by FFT on a particle mesh, where that is accurate and faster than Barnes-Hut.

MAX_NODES = 2**24
"""Nodes of the doubled mesh at the most: three arrays of float32 that large take 200 MB."""
MIN_NODE_LIMIT, NODES_PER_POINT = 2**16, 100
"""Nodes at which a mesh costs what a tree does: 8 ns per node and 60 ns per point against 1 us per point, and 4 us for
an error of 1e-4."""
N_CHECKED, ERROR_SLACK = 8, 2.0
"""Points summed exactly as a check, and by how much their error may exceed that wanted of all: one sample in a hundred
is off by this factor."""
FAINT_SHARE = 1e-3
"""Share of the largest potential below which one is summed exactly: it would have the error of the others' in it."""
MARGIN_SHARE = 0.1
"""Margin for new points around a frozen layout, in units of its width."""


@dataclass(frozen=True)
class FFTPotential:
    """The potential of a frozen layout, interpolated on a mesh; outside of it and where it is faint, the exact sum.

    It is offset + factor times the spline with the coefficients ``nodes``. Below ``faint`` the error of the mesh would
    show; ``layout`` has the exact sum.
    """

    mesh: Mesh
    nodes: FloatArray
    offset: float
    factor: float
    faint: float
    layout: ExactPotential

    def _check_loaded(self) -> None:
        """Refuse a mesh of more nodes than there are: compiled loops check no index."""
        if any(self.nodes.shape[axis] < length for axis, length in enumerate(self.mesh.shape)):
            raise ValueError(f"A mesh of {self.mesh.shape} nodes needs as many; got {self.nodes.shape}.")

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d)."""
        positions = self.mesh.positions(in_plane(places.T.astype(np.float64)))
        cells = np.array(self.mesh.shape) - SPLINE_DEGREE
        near = np.flatnonzero(((positions >= 0) & (positions < cells[:, None])).all(axis=0))
        phi, grad = np.full(len(places), -np.inf, places.dtype), np.empty(places.shape, places.dtype)
        workspace = Workspace()
        inside = SortedPoints.of(np.ascontiguousarray(positions[:, near]), cells[0], workspace)
        phi[near], grad[near] = self.gathered(inside, run, workspace)
        rest = np.flatnonzero(phi < self.faint)
        if len(rest):
            phi[rest], grad[rest] = self.layout(places[rest], run)
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
    """The repulsion of layouts on a line or in the plane, by FFT on a particle mesh.

    A few points are summed exactly as a check. Where they disagree (points crowd in a place much smaller than a cell of
    the mesh, which others far away make wide), and where the mesh would be larger than a tree is slow, Barnes-Hut is
    used, and ``n_barnes_hut`` counts those calls. All of that is decided by the layout alone: the same arguments give
    the same bits whatever was computed before, and the transform of the kernel is kept only because a growing layout
    needs it again. ``error`` is the relative error of the gradient (norm of the difference over the norm) to stay
    below.
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
        self._transform_of: tuple[float, tuple[int, int]] | None = None
        self._transform: KernelTransform | None = None
        self._workspace = Workspace()

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> FFTPotential | BarnesHutPotential:
        """Return the potential of ``charges`` (None: ones) at the rows of ``Y``, for any place."""
        layout = ExactPotential.of(self.kernel, Y, charges)
        solved = self._solve(layout, MARGIN_SHARE, run)
        if solved is not None:
            points, frozen = solved
            if self._agrees(layout, frozen.gathered(points, run, self._workspace)[1], run):
                return replace(frozen, nodes=frozen.nodes[:, : frozen.mesh.shape[1]].copy())
        self.n_barnes_hut += 1
        return self.barnes_hut.potential(Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
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
        some = np.arange(n // (2 * N_CHECKED), n, max(1, n // N_CHECKED))
        exact = layout(np.ascontiguousarray(layout.columns[:, some].T), run)[1]
        return bool(np.linalg.norm(grad[some] - exact) <= ERROR_SLACK * self.error * np.linalg.norm(exact))

    def _solve(self, layout: ExactPotential, margin: float, run: Run) -> tuple[SortedPoints, FFTPotential] | None:
        plane, charges = in_plane(layout.columns), layout.charges
        mesh = Mesh.around(plane, self.spacing, self.min_cells, margin)
        if mesh.size > min(MAX_NODES, MIN_NODE_LIMIT + self.nodes_per_point * len(charges)):
            return None
        workspace = self._workspace
        positions = mesh.positions(plane, workspace("positions", plane.shape, np.float64))
        points = SortedPoints.of(positions, mesh.shape[0] - SPLINE_DEGREE, workspace)
        largest = float(np.abs(charges).max()) or 1.0
        grid = workspace("grid", mesh.shape, np.float64)
        points.spread((charges / largest).astype(np.float32), grid, run)
        transform = self._kernel_transform(mesh)
        nodes = convolve(grid, transform, mesh, run, workspace)
        offset, factor = transform.far * float(charges.sum()), transform.span * largest
        faint = FAINT_SHARE * (offset + factor * float(nodes.max()))
        return points, FFTPotential(mesh, nodes, offset, factor, faint, layout)

    def _kernel_transform(self, mesh: Mesh) -> KernelTransform:
        wanted = (mesh.spacing, mesh.halves)
        if self._transform is None or self._transform_of != wanted:
            self._transform_of, self._transform = wanted, KernelTransform.of(self.kernel, mesh)
        return self._transform
