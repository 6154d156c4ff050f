"""The potential of charges on a mesh of a GPU: spread, convolve with the kernel by FFT, and gather.

The splines, the meshes and the errors are those of `manifoldry._numerics.repulsion.fft`.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from manifoldry._core.device import Device, view
from manifoldry._core.run import Run
from manifoldry._numerics.gpu.kernels.mesh import CHARGE_BITS, WIDTH, spread
from manifoldry._numerics.kernels.mesh import N_GUARD_NODES
from manifoldry._numerics.repulsion.fft import FAINT_SHARE, FFTPotential, Mesh, in_plane
from manifoldry._numerics.repulsion.sums import ExactPotential, LayoutKernel

MAX_COPIES, MAX_COPIED_NODES = 1024, 2**20
"""Most copies of a mesh, to which points add in turn, and most nodes of all copies: a million points take 4.3 ms to add
to 200 nodes, which is eight times as long as their attraction."""


class DeviceMesh:
    """The arrays of a mesh of a ``spacing`` and half lengths of its transforms.

    The potential is ``offset`` times the sum of the charges plus ``factor`` times the spline of ``nodes``; ``peak``
    holds the largest node.
    """

    def __init__(self, kernel: LayoutKernel, spacing: float, halves: tuple[int, int], gpu: Device) -> None:
        xp = gpu.xp
        gpu.require("the mesh of the repulsion", 96 * halves[0] * halves[1])
        self.spacing, self.halves = spacing, halves
        self.fft: Any = importlib.import_module("scipy.fft" if gpu.simulated else "cupyx.scipy.fft")
        # As in `KernelTransform`: (w - mean) / (1 - mean), on a mesh of twice the width, so that float32 resolves it.
        r, c = (spacing * xp.minimum(xp.arange(2 * half), 2 * half - xp.arange(2 * half)) for half in halves)
        drop = kernel.value_minus_one(r[:, None] ** 2 + c**2)
        mean = float(drop.mean())
        waves = xp.fft.rfft2(1 - drop / mean).real
        for axis, half in enumerate(halves):
            angle = np.pi * xp.arange(waves.shape[axis]) / half
            spline = (66 + 52 * xp.cos(angle) + 2 * xp.cos(2 * angle)) / 120
            waves /= xp.expand_dims(spline**2, 1 - axis)
        self.offset, self.factor = 1 + mean, -mean
        self.waves = (waves * 2.0**-CHARGE_BITS).astype(np.float32)
        shape = halves[0] - N_GUARD_NODES, halves[1] - N_GUARD_NODES
        n_copies = max(1, min(MAX_COPIES, MAX_COPIED_NODES // (shape[0] * shape[1])))
        self.charges, self.nodes = xp.zeros((n_copies, *shape), np.int64), xp.zeros(shape, np.float32)
        self.padded = xp.zeros((2 * halves[0], 2 * halves[1]), np.float32)
        self.peak = xp.zeros(1, np.float32)
        self.views = {name: view(getattr(self, name)) for name in ("charges", "nodes", "peak")}

    def solve(self, positions: Any, charges: Any, place: Any, halt: Any) -> None:
        """Write the nodes and their peak for positions (n, 2) and charges (n,) of at most 1."""
        size = 2 * self.halves[0], 2 * self.halves[1]
        rows, columns = self.nodes.shape
        self.charges[...] = 0
        spread.over(WIDTH * len(positions), positions, charges, place, halt, self.views["charges"])
        self.padded[:rows, :columns] = self.charges[0] if len(self.charges) == 1 else self.charges.sum(axis=0)
        waves = self.fft.rfft2(self.padded)
        waves *= self.waves
        self.nodes[...] = self.fft.irfft2(waves, s=size, overwrite_x=True)[:rows, :columns]
        self.peak[0] = self.nodes.max()


def solve_mesh(layout: ExactPotential, mesh: Mesh, run: Run) -> FFTPotential:
    """Return the potential of a layout's charges on a mesh with a margin around it."""
    gpu: Any = run.gpu
    solver = DeviceMesh(layout.kernel, mesh.spacing, mesh.halves, gpu)
    largest = float(np.abs(layout.charges).max()) or 1.0
    positions = gpu.xp.asarray(in_plane(layout.columns).T.astype(np.float32, order="C"))
    charges = gpu.xp.asarray((layout.charges / largest).astype(np.float32))
    solver.solve(positions, charges, gpu.xp.asarray(mesh.place), gpu.xp.zeros(1))
    nodes = gpu.host(solver.nodes)
    offset, factor = solver.offset * float(layout.charges.sum()), solver.factor * largest
    faint = FAINT_SHARE * (offset + factor * float(nodes.max()))
    return FFTPotential(mesh, nodes, offset, factor, faint, layout)
