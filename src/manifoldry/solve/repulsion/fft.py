"""The repulsion of a layout by FFT on a particle mesh, where that is accurate and faster than Barnes-Hut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.repulsion.barnes_hut import BarnesHutPotential, BarnesHutRepulsion
from manifoldry.solve.repulsion.exact import ExactPotential, compiled_array
from manifoldry.solve.repulsion.layout_kernel import LayoutKernel
from manifoldry.solve.repulsion.mesh import SPLINE_DEGREE, KernelTransform, Mesh, SortedPoints, Workspace, convolve
from manifoldry.values import FloatArray

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
