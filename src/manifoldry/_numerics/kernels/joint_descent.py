"""Many iterations of gradient descent with momentum on a joint divergence, in phases for a team of threads.

An iteration begins with a centered layout on a mesh. Sums over all points are taken in blocks and added in their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import FAILED, draw, finish, ready
from manifoldry._numerics.kernels.all_pairs import FAST, sum_all_pairs
from manifoldry._numerics.kernels.attraction import attraction_rows
from manifoldry._numerics.kernels.mesh import (
    MESH,
    N_MESH_PHASES,
    block_rows,
    count_points,
    fit_mesh,
    gather,
    mesh_blocks,
    run_mesh_phase,
)

STEPS, ENDING, COLLAPSED, MEAN, WEIGHT, RESTART, N_STATE = 0, 1, 2, 3, 5, 6, 7
"""Entries of the state: iterations done, whether the mesh must change or the layout has collapsed, two means, the
factor of the repulsion, and whether the momentum leads uphill."""
TOTAL, SQUARE, LOW, HIGH, POTENTIAL, PULLED, PUSHED, FAINT, N_SUMS = 0, 2, 4, 6, 8, 9, 10, 11, 12
"""Sums of a block: of coordinates and their squares, extremes, potentials, products of the velocity with both forces,
and the number of faint points; the first four have a column for each axis."""


class Settings(NamedTuple):
    """The numbers of a descent: kernel, phase, mesh, and how the mesh is checked."""

    gaussian: bool
    dof: float
    exaggeration: float
    momentum: float
    max_move: float
    min_gain: float
    per_point: bool  # remove momentum that leads uphill from each point, not from all
    min_width: float  # the standard deviation below which a layout has collapsed
    spacing: float
    min_cells: int
    offset: float  # the potential is offset + factor * spline
    factor: float
    faint_share: float
    points_per_faint: int
    error: float  # relative error allowed to the sample
    check_every: int
    first_step: int
    n_steps: int


class Layout(NamedTuple):
    """The arrays of a descent: affinities in rows, and for each point what moves it."""

    indptr: Any
    indices: Any
    affinities: Any
    Y: Any
    positions: Any  # (n, 2), in float32
    velocity: Any
    gains: Any
    rates: Any  # (n,)
    pull: Any  # (n, 2), in float32
    push: Any
    potential: Any  # (n,)
    sums: Any  # (blocks, N_SUMS)
    sample: Any  # points whose repulsion is summed exactly
    exact: Any  # its result
    state: Any


_f8, _f4, _i8, _flag = nb.float64, nb.float32, nb.int64, nb.boolean
SETTINGS = nb.types.NamedTuple([_flag, *5 * [_f8], _flag, _f8, _f8, _i8, *3 * [_f8], _i8, _f8, *3 * [_i8]], Settings)
LAYOUT = nb.types.NamedTuple(
    [
        *(_i8[::1], nb.int32[::1], _f4[::1], _f8[:, ::1], _f4[:, ::1], _f8[:, ::1], _f8[:, ::1], _f8[::1]),
        *(_f4[:, ::1], _f4[:, ::1], _f8[::1], _f8[:, ::1], _i8[::1], _f8[:, ::1], _f8[::1]),
    ],
    Layout,
)


@nb.njit(inline="always")
def _begin(step, mesh, layout, settings):  # type: ignore[no-untyped-def]
    """Find mean and corner of the layout, and whether it has collapsed or needs another mesh."""
    state, n, n_dims = layout.state, len(layout.Y), layout.Y.shape[1]
    sides, widest = np.zeros(2), 0.0
    for c in range(n_dims):
        total, square, low, high = 0.0, 0.0, np.inf, -np.inf
        for block in range(len(layout.sums)):
            sums = layout.sums[block]
            total, square = total + sums[TOTAL + c], square + sums[SQUARE + c]
            low, high = min(low, sums[LOW + c]), max(high, sums[HIGH + c])
        mean = total / n
        widest = max(widest, square / n - mean * mean)
        state[MEAN + c] = mean
        mesh.place[c] = np.float32(low - mean)
        sides[c] = np.float32(high - mean) - mesh.place[c]
    state[STEPS] = step
    state[COLLAPSED] = widest < settings.min_width**2
    if not np.isfinite(sides[0] + sides[1]):
        state[ENDING] = 1.0
        return
    spacing, half, other_half = fit_mesh(sides[0], sides[1], settings.spacing, settings.min_cells)
    fits = 1.0 / spacing == mesh.place[2] and half == len(mesh.waves) and other_half == mesh.factor.shape[1]
    state[ENDING] = state[COLLAPSED] != 0.0 or not fits


@nb.njit(inline="always")
def _center(block, mesh, layout):  # type: ignore[no-untyped-def]
    """Center the points of a block, round them to float32 and count them in the bands of the mesh."""
    Y, positions, columns = layout.Y, layout.positions, mesh.columns
    lo, hi = block_rows(block, len(Y))
    for c in range(Y.shape[1]):
        mean = layout.state[MEAN + c]
        for i in range(lo, hi):
            Y[i, c] -= mean
            positions[i, c] = Y[i, c]
            columns[c, i] = positions[i, c]
    if layout.state[ENDING] == 0.0:
        count_points(block, mesh)


@nb.njit(forceinline=True)
def _least_potential(mesh, settings):  # type: ignore[no-untyped-def]
    """Return the potential below which a point is faint."""
    peak = mesh.peaks[0]
    for k in range(1, len(mesh.peaks)):
        peak = max(peak, mesh.peaks[k])
    return settings.faint_share * (settings.offset + settings.factor * peak)


@nb.njit(forceinline=True, **FAST)
def _find_forces(block, mesh, layout, settings):  # type: ignore[no-untyped-def]
    """Write attraction, repulsion and potential of the points of a block, and count its faint points."""
    lo, hi = block_rows(block, len(layout.Y))
    attraction_rows(
        *(layout.indptr, layout.indices, layout.affinities, layout.positions, settings.gaussian, settings.dof),
        *(layout.pull, lo, hi),
    )
    columns, nodes, charges, push, potential = mesh.columns, mesh.nodes, mesh.charges, layout.push, layout.potential
    top, left, scale = mesh.place[0], mesh.place[1], mesh.place[2]
    slope = np.float32(settings.factor * scale)
    least = _least_potential(mesh, settings)
    n_faint = 0
    for i in range(lo, hi):
        value, u, v = gather((columns[0, i] - top) * scale, (columns[1, i] - left) * scale, nodes)
        push[i, 0], push[i, 1] = slope * u, slope * v
        potential[i] = settings.offset + settings.factor * value - charges[i]
        n_faint += potential[i] < least
    layout.sums[block, FAINT] = n_faint


@nb.njit(inline="always")
def _sum_exactly(point, excluded, mesh, settings):  # type: ignore[no-untyped-def]
    """Return the potential at a point and its gradient, summed over all points but ``excluded`` (-1: over all)."""
    position, phi, grad, without = np.empty((1, 2)), np.empty(1), np.empty((1, 2)), np.empty(1, np.int64)
    position[0, 0], position[0, 1], without[0] = mesh.columns[0, point], mesh.columns[1, point], excluded
    sum_all_pairs(position, mesh.columns, mesh.charges, without, settings.gaussian, settings.dof, phi, grad, 0, 1)
    return phi[0], grad[0, 0], grad[0, 1]


@nb.njit(inline="always")
def _repair_faint(lo, hi, mesh, layout, settings):  # type: ignore[no-untyped-def]
    """Sum the repulsion of faint points exactly, unless there are too many of them."""
    n_faint, least = 0.0, _least_potential(mesh, settings)
    for block in range(len(layout.sums)):
        n_faint += layout.sums[block, FAINT]
    if n_faint * settings.points_per_faint > len(layout.Y):
        return
    for i in range(lo, hi):
        if layout.potential[i] < least:
            layout.potential[i], layout.push[i, 0], layout.push[i, 1] = _sum_exactly(i, i, mesh, settings)


@nb.njit(forceinline=True)
def _sum_forces(block, step, mesh, layout, settings):  # type: ignore[no-untyped-def]
    """Sum potentials and products with the velocity over a block; blocks after all points are those of the sample."""
    sums, velocity = layout.sums, layout.velocity
    if block >= len(sums):
        if (settings.first_step + step) % settings.check_every == 0:
            k = block - len(sums)
            _, layout.exact[k, 0], layout.exact[k, 1] = _sum_exactly(layout.sample[k], -1, mesh, settings)
        return
    lo, hi = block_rows(block, len(layout.Y))
    if sums[block, FAINT] > 0:
        _repair_faint(lo, hi, mesh, layout, settings)
    potentials, pull, push = layout.potential, layout.pull, layout.push
    potential, pulled, pushed = 0.0, 0.0, 0.0
    for i in range(lo, hi):
        potential += potentials[i]
        for c in range(velocity.shape[1]):
            pulled += velocity[i, c] * pull[i, c]
            pushed += velocity[i, c] * push[i, c]
    sums[block, POTENTIAL], sums[block, PULLED], sums[block, PUSHED] = potential, pulled, pushed


@nb.njit(inline="always")
def _decide(step, layout, settings):  # type: ignore[no-untyped-def]
    """Find the factor of the repulsion and whether to restart; return whether the mesh is good enough."""
    state, sums, n_dims = layout.state, layout.sums, layout.Y.shape[1]
    potential, pulled, pushed, n_faint = 0.0, 0.0, 0.0, 0.0
    for block in range(len(sums)):
        potential, n_faint = potential + sums[block, POTENTIAL], n_faint + sums[block, FAINT]
        pulled, pushed = pulled + sums[block, PULLED], pushed + sums[block, PUSHED]
    state[WEIGHT] = 2.0 / potential
    state[RESTART] = 4.0 * settings.exaggeration * pulled + state[WEIGHT] * pushed > 0
    if (settings.first_step + step) % settings.check_every == 0:
        wrong, right = 0.0, 0.0
        for k in range(len(layout.sample)):
            for c in range(n_dims):
                exact = layout.exact[k, c]
                wrong, right = wrong + (layout.push[layout.sample[k], c] - exact) ** 2, right + exact**2
        if wrong > settings.error**2 * right:
            return False
    return n_faint * settings.points_per_faint <= len(layout.Y)


@nb.njit(forceinline=True, **FAST)
def _move(block, layout, settings):  # type: ignore[no-untyped-def]
    """Move the points of a block, and sum what the next iteration needs to know."""
    Y, velocity, gains = layout.Y, layout.velocity, layout.gains
    rates, pull, push = layout.rates, layout.pull, layout.push
    pull_weight, push_weight, sums = 4.0 * settings.exaggeration, layout.state[WEIGHT], layout.sums[block]
    momentum, max_move, min_gain = settings.momentum, settings.max_move, settings.min_gain
    restart = not settings.per_point and layout.state[RESTART] != 0.0
    lo, hi = block_rows(block, len(Y))
    gradient, n_dims = np.empty((hi - lo, Y.shape[1])), Y.shape[1]
    kept = np.empty(hi - lo)
    for i in range(lo, hi):
        rise = 0.0
        for c in range(n_dims):
            gradient[i - lo, c] = pull_weight * pull[i, c] + push_weight * push[i, c]
            rise += velocity[i, c] * gradient[i - lo, c]
        kept[i - lo] = 0.0 if restart else 0.5 if settings.per_point and rise > 0 else 1.0
    for c in range(n_dims):
        total, square, low, high = 0.0, 0.0, np.inf, -np.inf
        for i in range(lo, hi):
            slope = gradient[i - lo, c]
            downhill = not restart and velocity[i, c] * slope < 0
            gain = max(gains[i, c] + 0.2 if downhill else gains[i, c] * 0.8, min_gain)
            speed = momentum * kept[i - lo] * velocity[i, c] - rates[i] * gain * slope
            speed = min(max(speed, -max_move), max_move)
            y = Y[i, c] + speed
            gains[i, c], velocity[i, c], Y[i, c] = gain, speed, y
            total, square, low, high = total + y, square + y * y, min(low, y), max(high, y)
        sums[TOTAL + c], sums[SQUARE + c], sums[LOW + c], sums[HIGH + c] = total, square, low, high


N_PHASES = N_MESH_PHASES + 5
"""Begin, center and count; the other phases of the mesh; forces, their sums, the decision, and the move."""


@nb.njit(inline="always")
def _phase_blocks(phase, mesh, layout):  # type: ignore[no-untyped-def]
    if phase in (0, N_PHASES - 2):
        return 1
    if 2 <= phase <= N_MESH_PHASES:
        return mesh_blocks(phase - 1, mesh)
    return len(layout.sums) + (len(layout.sample) if phase == N_PHASES - 3 else 0)


@nb.njit(inline="always")
def _run_phase(phase, block, step, mesh, layout, settings):  # type: ignore[no-untyped-def]
    """Run a block of a phase; return whether the descent goes on."""
    if phase == 0:
        _begin(step, mesh, layout, settings)
    elif phase == 1:
        _center(block, mesh, layout)
    elif phase <= N_MESH_PHASES:
        if phase == 2 and layout.state[ENDING] != 0.0:
            return False
        run_mesh_phase(phase - 1, block, mesh)
    elif phase == N_PHASES - 4:
        _find_forces(block, mesh, layout, settings)
    elif phase == N_PHASES - 3:
        _sum_forces(block, step, mesh, layout, settings)
    elif phase == N_PHASES - 2:
        return _decide(step, layout, settings)
    else:
        _move(block, layout, settings)
    return True


@kernel(nb.void(nb.int64[::1], MESH, LAYOUT, SETTINGS))
def descend_jointly(tickets, mesh, layout, settings):  # type: ignore[no-untyped-def]
    """Run iterations, and center the last layout: the loop of a team. It ends early as the state says."""
    starts = np.zeros(N_PHASES + 1, np.int64)
    for phase in range(N_PHASES):
        starts[phase + 1] = starts[phase] + _phase_blocks(phase, mesh, layout)
    n_blocks = starts[N_PHASES]
    while True:
        number = draw(tickets)
        step, rest = number // n_blocks, number % n_blocks
        phase = 0
        while rest >= starts[phase + 1]:
            phase += 1
        if step > settings.n_steps or (step == settings.n_steps and phase > 1):
            return
        if not ready(tickets, step * n_blocks + starts[phase]):
            return
        if not _run_phase(phase, rest - starts[phase], step, mesh, layout, settings):
            tickets[FAILED] = 1  # all blocks drawn later wait for this one
            return
        finish(tickets)
