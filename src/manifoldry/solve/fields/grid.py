"""The field of a layout by a particle mesh, where that is accurate and faster than a tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.fields.mesh import REACH, Box, Response, Scratch, SortedPoints, convolved
from manifoldry.solve.fields.pairs import PairLandscape, ready
from manifoldry.solve.fields.profile import Profile
from manifoldry.solve.fields.tree import Tree, TreeLandscape
from manifoldry.values import FloatArray

LARGEST = 2**24
"""Nodes of the doubled grid at the most: three arrays of float32 that large take 200 MB."""
SMALLEST, NODES_PER_POINT = 2**16, 100
"""Nodes at which a grid costs what a tree does: 8 ns per node and 60 ns per point against 1 us per point, and 4 us for
an error of 1e-4."""
CHECKED, SLACK = 8, 2.0
"""Points summed exactly as a check, and by how much their error may exceed that wanted of all: one sample in a hundred
is off by this factor."""
FAINT = 1e-3
"""Of the largest potential: less is summed exactly, because it would have the error of the others' in it."""
MARGIN = 0.1
"""Room that a landscape leaves for new points on every side, in units of its width."""


@dataclass(frozen=True)
class GridLandscape:
    """The field of a frozen layout, gathered from a grid; outside of its box and where it is faint, the exact sum.

    Parameters
    ----------
    box : Box
        What the grid covers.
    nodes : ndarray of shape (rows, columns)
        Coefficients of the spline.
    offset, factor : float
        The potential is offset + factor times the spline.
    faint : float
        The potential below which the noise of the grid would show.
    layout : PairLandscape
        The layout itself.
    """

    box: Box
    nodes: FloatArray
    offset: float
    factor: float
    faint: float
    layout: PairLandscape

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d)."""
        positions = self.box.positions(in_plane(places.T.astype(np.float64)))
        cells = np.array(self.box.shape) - REACH
        near = np.flatnonzero(((positions >= 0) & (positions < cells[:, None])).all(axis=0))
        phi, grad = np.full(len(places), -np.inf, places.dtype), np.empty(places.shape, places.dtype)
        scratch = Scratch()
        inside = SortedPoints.of(np.ascontiguousarray(positions[:, near]), cells[0], scratch)
        phi[near], grad[near] = self.gathered(inside, run, scratch)
        rest = np.flatnonzero(phi < self.faint)
        if len(rest):
            phi[rest], grad[rest] = self.layout(places[rest], run)
        return phi, grad

    def gathered(self, points: SortedPoints, run: Run, scratch: Scratch) -> tuple[FloatArray, FloatArray]:
        """Return potential and gradient at points of the box."""
        values = points.gather(ready(self.nodes), run, scratch)
        d = len(self.layout.columns)
        return (
            self.offset + self.factor * values[:, 0].astype(np.float64),
            values[:, 1 : d + 1] * (self.factor / self.box.spacing),
        )


def in_plane(columns: FloatArray) -> FloatArray:
    """Return columns (2, n) of the plane: points on a line get a second coordinate, zero."""
    return columns if len(columns) == 2 else np.vstack([columns, np.zeros_like(columns)])


class Grid:
    """The field of layouts on a line or in the plane, by a particle mesh.

    A few points are summed exactly as a check. Where they disagree (points crowd in a place much smaller than a cell
    of the grid, which others far away make wide), and where the grid would be larger than a tree is slow, the tree
    answers. All of that is decided by the layout alone: the same arguments give the same bits whatever was asked
    before, and the transform of the kernel is kept only because a growing layout asks for it again.

    Parameters
    ----------
    profile : Profile
        The weight.
    error : float
        Relative error of the gradient (norm of the difference over the norm) to stay below.

    Attributes
    ----------
    by_tree : int
        How many answers the tree has given so far.
    """

    name = "grid"
    exact = False

    def __init__(self, profile: Profile, error: float = 1e-2) -> None:
        self.profile = profile
        self.error = error
        self.tree = Tree(profile, error)
        # Measured on layouts from 0.01 to 200 units wide, for errors from 1e-2 to 1e-4.
        self.spacing = 0.38 * profile.scale * (error / 1e-2) ** 0.17
        self.cells = 24 if error > 1e-3 else 40
        self.nodes_per_point = NODES_PER_POINT * (error / 1e-2) ** -0.3
        self.by_tree = 0
        self._asked: tuple[float, tuple[int, int]] | None = None
        self._response: Response | None = None
        self._scratch = Scratch()

    def landscape(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> GridLandscape | TreeLandscape:
        """Return the field of ``charges`` (None: ones) at the rows of ``Y``, to be asked at any place."""
        layout = PairLandscape.of(self.profile, Y, charges)
        solved = self._solve(layout, MARGIN, run)
        if solved is not None:
            points, land = solved
            if self._agrees(layout, land.gathered(points, run, self._scratch)[1], run):
                return replace(land, nodes=land.nodes[:, : land.box.shape[1]].copy())
        self.by_tree += 1
        return self.tree.landscape(Y, charges, run)

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""
        layout = PairLandscape.of(self.profile, Y, charges)
        solved = self._solve(layout, 0.0, run)
        if solved is not None:
            points, land = solved
            phi, grad = land.gathered(points, run, self._scratch)
            phi -= layout.charges
            faint = np.flatnonzero(phi < land.faint)
            if len(faint) <= len(Y) // 100 and self._agrees(layout, grad, run):
                if len(faint):
                    phi[faint], grad[faint] = layout.without(faint, layout.columns[:, faint].T, run)
                return phi.astype(Y.dtype, copy=False), grad.astype(Y.dtype, copy=False)
        self.by_tree += 1
        return self.tree.at_points(Y, charges, run)

    def _agrees(self, layout: PairLandscape, grad: FloatArray, run: Run) -> bool:
        n = len(grad)
        some = np.arange(n // (2 * CHECKED), n, max(1, n // CHECKED))
        exact = layout(np.ascontiguousarray(layout.columns[:, some].T), run)[1]
        return bool(np.linalg.norm(grad[some] - exact) <= SLACK * self.error * np.linalg.norm(exact))

    def _solve(self, layout: PairLandscape, margin: float, run: Run) -> tuple[SortedPoints, GridLandscape] | None:
        plane, charges = in_plane(layout.columns), layout.charges
        box = Box.around(plane, self.spacing, self.cells, margin)
        if box.size > min(LARGEST, SMALLEST + self.nodes_per_point * len(charges)):
            return None
        scratch = self._scratch
        positions = box.positions(plane, scratch("positions", plane.shape, np.float64))
        points = SortedPoints.of(positions, box.shape[0] - REACH, scratch)
        largest = float(np.abs(charges).max()) or 1.0
        grid = scratch("grid", box.shape, np.float64)
        points.spread((charges / largest).astype(np.float32), grid, run)
        response = self._respond(box)
        nodes = convolved(grid, response, box, run, scratch)
        offset, factor = response.far * float(charges.sum()), response.span * largest
        faint = FAINT * (offset + factor * float(nodes.max()))
        return points, GridLandscape(box, nodes, offset, factor, faint, layout)

    def _respond(self, box: Box) -> Response:
        asked = (box.spacing, box.halves)
        if self._response is None or self._asked != asked:
            self._asked, self._response = asked, Response.of(self.profile, box)
        return self._response
