"""The descent of t-SNE on a GPU: the phases, schedule and objective of `minimize_divergence`, without leaving the GPU.

Points are renumbered along a curve through the layout now and then, so that neighbors are near in memory: a pass over
the affinities fetches the positions of their points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from manifoldry._core.device import view
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, Trace
from manifoldry._numerics.descent.divergence import (
    CHECK_MESH_EVERY,
    Divergence,
    ExaggerationPhase,
)
from manifoldry._numerics.descent.initialization import best_scale
from manifoldry._numerics.descent.optimizer import MIN_GAIN, Momentum, descend
from manifoldry._numerics.gpu.kernels import joint_descent as loops
from manifoldry._numerics.gpu.mesh import DeviceMesh
from manifoldry._numerics.kernels.mesh import fit_mesh
from manifoldry._numerics.repulsion.fft import (
    ERROR_SLACK,
    FAINT_SHARE,
    MIN_POINTS_PER_FAINT,
    exact_sample,
)
from manifoldry._numerics.repulsion.sums import morton_codes

RENUMBER_EVERY = 50  # steps between two orders of the points: clusters form in the first ones
MAX_DEVICE_NODES = 2**26  # maximum number of nodes of the doubled mesh: 2 GB for its transforms
MIN_THREADS, MIN_POINTS_PER_THREAD, MAX_PARTS = 8, 16, 2048
"""Of sums over all points: the fewest threads of a block, points of a thread, and the most blocks."""
MARGIN = 1.1
"""Length of a new mesh in units of the layout. Layouts grow, and a new mesh costs as much as some iterations."""
INDEX_BITS = 31  # of the keys of points on the curve; the others are those of the cells


class DeviceLayout:
    """A layout on a GPU: affinities in rows, and for each point what moves it, in the order of a curve.

    Names are those of `manifoldry._numerics.kernels.joint_descent.Layout`.
    """

    def __init__(self, divergence: Divergence, start: FloatArray) -> None:
        self.divergence = divergence
        gpu: Any = divergence.run.gpu
        repulsion: Any = divergence.repulsion
        self.gpu, self.repulsion = gpu, repulsion
        self.dof = divergence.kernel.compiled[1]
        self.mesh: DeviceMesh | None = None
        self.recorded: tuple[Any, ...] = (None,) * 4
        self.reason, self.sides = loops.GO, (0.0, 0.0)
        joint: Any = divergence.joint
        xp, n = gpu.xp, len(start)
        gpu.require("the descent", 16 * len(joint.data) + 200 * n)
        self.n, self.xp = n, xp
        blocks = -(-n // loops.SUM_THREADS)
        self.fold_threads = min(loops.MAX_FOLD_THREADS, max(loops.N_SUMS, blocks))
        self.arrays: Any = SimpleNamespace(
            indptr=gpu.array(joint.indptr, np.int64),
            indices=gpu.array(joint.indices, np.int32),
            affinities=gpu.array(joint.data, np.float32),
            order=xp.arange(n),
            Y=xp.empty((n, 2)),
            velocity=xp.zeros((n, 2)),
            gains=xp.ones((n, 2)),
            rates=xp.ones(n),
            positions=xp.empty((n, 2), np.float32),
            charges=xp.ones(n, np.float32),
            pull=xp.empty((n, 2), np.float32),
            push=xp.empty((n, 2), np.float32),
            potential=xp.empty(n),
            logs=xp.empty(n),
            moved=xp.empty((blocks, loops.N_SUMS)),
            forces=xp.empty((blocks, 3)),
            sample=xp.asarray(exact_sample(n)),
            exact=xp.empty((len(exact_sample(n)), 3)),
            n_faint=xp.zeros(1, np.int64),
            place=xp.zeros(3),
            state=xp.zeros(loops.N_STATE),
        )
        self._rename()
        self.put(start)

    def _rename(self) -> None:
        """Prepare the arrays as arguments of loops, after some have been replaced."""
        self.views: Any = SimpleNamespace(**{name: view(array) for name, array in vars(self.arrays).items()})
        self.views.packed = view(self.arrays.positions.view(np.int64)[:, 0])

    def put(self, Y: FloatArray) -> None:
        """Set the coordinates."""
        arrays = self.arrays
        self.set("Y", Y)
        arrays.moved[:, :4], arrays.moved[:, 4:] = 0.0, -np.inf
        for c in range(2):
            column = arrays.Y[:, c]
            arrays.moved[0, c::2] = self.xp.stack([column.sum(), (column**2).sum(), -column.min(), column.max()])
        self.look(0.0)

    def set(self, name: str, values: Any) -> None:
        """Set an array with an entry per point from the host."""
        getattr(self.arrays, name)[...] = self.xp.asarray(values)[self.arrays.order]

    def get(self, name: str) -> FloatArray:
        """Return an array with an entry per point on the host, the coordinates centered."""
        values = getattr(self.arrays, name)
        ordered = self.xp.empty_like(values)
        means = self.arrays.state[loops.MEAN : loops.MEAN + 2]
        ordered[self.arrays.order] = values - means if name == "Y" else values
        host: FloatArray = ordered if self.gpu.simulated else ordered.get()
        return host

    def renumber(self) -> None:
        """Order the points along a Z-curve through the layout."""
        xp, arrays, n = self.xp, self.arrays, self.n
        unit = xp.zeros((3, n))
        columns = xp.ascontiguousarray(arrays.Y.T)  # the GPU finds the minimum of a row a hundred times faster
        unit[:2] = (columns - columns.min(axis=1)[:, None]) / max(*self.sides, np.finfo(float).tiny)
        cells = morton_codes(xp.minimum(unit, 1.0)) >> INDEX_BITS
        order = xp.sort((cells << INDEX_BITS) | xp.arange(n)) & (2**INDEX_BITS - 1)
        rank = xp.empty(n, np.int32)
        rank[order] = xp.arange(n, dtype=np.int32)
        ends = xp.zeros(n + 1, np.int64)
        ends[1:] = xp.cumsum(xp.diff(arrays.indptr)[order])
        indices, affinities = xp.empty_like(arrays.indices), xp.empty_like(arrays.affinities)
        rows = arrays.indptr, arrays.indices, arrays.affinities, order, rank, ends, indices, affinities
        loops.renumber.over(n * loops.LANES, *rows)
        arrays.indptr, arrays.indices, arrays.affinities = ends, indices, affinities
        for name in ("order", "Y", "velocity", "gains", "rates"):
            setattr(arrays, name, xp.ascontiguousarray(getattr(arrays, name)[order]))
        self._rename()

    def fit_mesh(self) -> bool:
        """Choose the mesh of the layout; return False if it would have too many nodes."""
        spacing, *halves = fit_mesh(*self.sides, self.repulsion.spacing, self.repulsion.min_cells)
        if self.reason == loops.UNSUITED or 4 * math.prod(halves) > MAX_DEVICE_NODES:
            return False
        if self.mesh is None or not self._serves(self.mesh, spacing, halves):
            halves = fit_mesh(*(MARGIN * side for side in self.sides), spacing, 0)[1:]
            self.mesh = None  # gives back its memory first
            self.mesh = DeviceMesh(self.divergence.kernel, spacing, (halves[0], halves[1]), self.gpu)
            self.arrays.place[2] = 1.0 / spacing
        return True

    @staticmethod
    def _serves(mesh: DeviceMesh, spacing: float, halves: Sequence[int]) -> bool:
        """Return whether a mesh is wide enough, and not too wide, for a layout that needs these half lengths."""
        pairs = zip(halves, mesh.halves, strict=True)
        return mesh.spacing == spacing and all(need <= have <= loops.MAX_SHRINKAGE * need for need, have in pairs)

    def find_forces(
        self, min_width: float, exaggeration: float, checking: bool, careful: bool, measuring: bool
    ) -> None:
        """Start the loops of an iteration up to the decision whether to move."""
        v, n, mesh = self.views, self.n, self.mesh
        self._begin(min_width)
        loops.center.over(n, v.Y, v.state, v.positions)
        assert mesh is not None
        mesh.solve(v.positions, v.charges, v.place, v.state)
        rows = v.indptr, v.indices, v.affinities, v.packed
        loops.attract.over(n * loops.LANES, *rows, self.dof, measuring, v.state, v.pull, v.logs)
        self.arrays.n_faint[0] = 0
        potential = mesh.offset * n, mesh.factor, FAINT_SHARE
        nodes = v.place, mesh.views["nodes"], mesh.views["peak"]
        loops.repel.over(n, v.positions, *nodes, *potential, v.state, v.push, v.potential, v.n_faint)
        if careful:
            self._repair_faint(mesh)
        if checking:
            self._sum_exactly(v.sample, self.arrays.exact)
        blocks, threads = len(self.arrays.forces), loops.SUM_THREADS
        loops.sum_forces(blocks, threads, v.velocity, v.pull, v.push, v.potential, v.state, v.forces)
        error = ERROR_SLACK * self.repulsion.error
        checks = v.sample, v.exact, v.push, checking, error
        loops.decide(1, self.fold_threads, v.forces, v.n_faint, *checks, exaggeration, v.state)

    def repeat(self, iterate: Callable[[], None], times: int, settings: tuple[Any, ...]) -> None:
        """Do iterations with these settings, from their record if arrays, mesh and settings are the same."""
        *recorded_with, record = self.recorded
        if not (recorded_with[0] is self.views and recorded_with[1] is self.mesh and recorded_with[2] == settings):
            record = None
        self.recorded = self.views, self.mesh, settings, self.gpu.repeat(iterate, times, record)

    def _begin(self, min_width: float) -> None:
        v, halves = self.views, (0, 0) if self.mesh is None else self.mesh.halves
        mesh = self.repulsion.spacing, self.repulsion.min_cells, *halves
        loops.begin(1, self.fold_threads, v.moved, self.n, min_width, *mesh, v.place, v.state)

    def look(self, min_width: float) -> tuple[int, float]:
        """Wait for the loops; note why they halted, and return the number of steps and the sum of the potentials."""
        self._begin(min_width)
        state = self.arrays.state.tolist()
        self.reason, self.sides = int(state[loops.HALT]), (state[loops.SIDES], state[loops.SIDES + 1])
        self.arrays.state[: loops.STEPS + 1] = 0.0
        return int(state[loops.STEPS]), 2.0 / (state[loops.WEIGHT] or 1.0)

    def _sum_exactly(self, points: Any, sums: Any) -> None:
        threads = max(MIN_THREADS, min(loops.SUM_THREADS, self.n // MIN_POINTS_PER_THREAD))
        n_points = len(points)
        n_parts = max(1, min(MAX_PARTS // n_points, self.n // (threads * MIN_POINTS_PER_THREAD)))
        parts = self.xp.empty((n_points, n_parts, 3))
        loops.sum_exactly(n_points * n_parts, threads, points, self.views.positions, self.dof, parts)
        parts.sum(axis=1, out=sums)

    def _repair_faint(self, mesh: DeviceMesh) -> None:
        """Sum the repulsion of points with a faint potential exactly, unless there are too many of them."""
        arrays, xp = self.arrays, self.xp
        faint = FAINT_SHARE * (mesh.offset * self.n + mesh.factor * mesh.peak[0].astype(np.float64))
        points = xp.flatnonzero(arrays.potential < faint)
        if len(points) * MIN_POINTS_PER_FAINT > self.n:
            arrays.state[loops.HALT] = loops.UNSUITED
        elif len(points):
            sums = xp.empty((len(points), 3))
            self._sum_exactly(points, sums)
            arrays.potential[points], arrays.push[points] = sums[:, 0], sums[:, 1:].astype(np.float32)
        arrays.n_faint[0] = 0

    def value(self) -> float:
        """Return the divergence; by a tree on the host if no mesh suits the layout."""
        if self.fit_mesh():
            self.find_forces(0.0, 1.0, checking=True, careful=True, measuring=True)
            steps, normalizer = self.look(0.0)
            if steps == 1:
                return self.divergence.information - float(self.arrays.logs.sum()) + math.log(normalizer)
        return self.divergence.value(self.get("Y"))


@dataclass
class DeviceMomentum:
    """`MeshMomentum` on a GPU, for one phase. A layout that does not suit a mesh moves by ``single`` on the host."""

    single: Momentum
    phase: ExaggerationPhase
    collapsed: bool = False
    suited: bool = True
    careful: bool = False

    def objective(self, layout: Any) -> float:
        return float(layout.value())

    def stop(self, layout: Any) -> bool:  # noqa: ARG002
        """Return whether the layout has collapsed."""
        return self.collapsed

    def advance(self, layout: Any, step: int, limit: int) -> int:
        if step == 0:
            layout.arrays.velocity[...], layout.arrays.gains[...] = 0.0, 1.0
            layout.set("rates", np.broadcast_to(np.ravel(self.single.learning_rate), layout.n))
        if step % RENUMBER_EVERY == 0:
            layout.renumber()
        if step % CHECK_MESH_EVERY == 0:
            self.suited, self.careful = True, False
        limit = min(limit, CHECK_MESH_EVERY - step % CHECK_MESH_EVERY)
        taken = 0
        if self.suited and layout.fit_mesh():
            taken = self._advance_on_mesh(layout, step, limit)
            if taken == 0 and layout.reason == loops.FAINT:
                self.careful = True
                taken = self._advance_on_mesh(layout, step, limit)
        self.suited = taken > 0
        return taken if self.suited else self._advance_on_host(layout)

    def _advance_on_mesh(self, layout: DeviceLayout, step: int, limit: int) -> int:
        """Start the loops of all steps, and return how many were done."""
        phase, single = self.phase, self.single
        per_point, v = single.restart == "per_point", layout.views
        numbers = phase.exaggeration, single.momentum, single.max_move, MIN_GAIN, per_point

        def iterate(checking: bool = False) -> None:
            layout.find_forces(phase.min_width, phase.exaggeration, checking, self.careful, False)
            points = v.Y, v.velocity, v.gains, v.rates, v.pull, v.push
            loops.move(len(layout.arrays.moved), loops.SUM_THREADS, *points, *numbers, v.state, v.moved)

        checking = step % CHECK_MESH_EVERY == 0
        if checking:
            iterate(checking)
        if self.careful:  # which waits for the host
            for _ in range(limit - checking):
                iterate()
        else:
            layout.repeat(iterate, limit - checking, (phase.min_width, *numbers))
        taken, _ = layout.look(phase.min_width)
        self.collapsed = layout.reason == loops.COLLAPSED
        return taken

    def _advance_on_host(self, layout: DeviceLayout) -> int:
        Y, single = layout.get("Y"), self.single
        single.velocity, single.gains = layout.get("velocity"), layout.get("gains")
        single.advance(Y, 0, 1)
        layout.put(Y)
        layout.set("velocity", single.velocity)
        layout.set("gains", single.gains)
        self.collapsed = bool(Y.std(axis=0).max() < self.phase.min_width)
        return 1


def minimize_divergence(
    divergence: Divergence,
    start: FloatArray,
    phases: Sequence[ExaggerationPhase],
    learning_rate: float | Literal["auto"],
    run: Run,
    rescale: bool,
) -> tuple[FloatArray, Trace]:
    """Return the layout after the phases, and the trace."""
    with run.stage("descent"):
        layout: Any = DeviceLayout(divergence, start)
        if rescale:

            def at(scale: float) -> float:
                layout.put(scale * start)
                return float(layout.value())

            layout.put(best_scale(at) * start)
        steps = []
        for phase in phases:
            if phase.max_iter > 0:
                on_host = phase.optimizing(divergence, learning_rate)
                single: Any = getattr(on_host.optimizer, "single", on_host.optimizer)
                moving = DeviceMomentum(single, phase)
                steps.append(replace(on_host, optimizer=moving, stop_when=moving.stop))
        trace = descend(layout, steps, run)
        return layout.get("Y"), trace
