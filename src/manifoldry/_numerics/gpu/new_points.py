"""New points of t-SNE on a GPU, against the fixed layout and the potential of its mesh."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.neighbor_affinity import ENTROPY_TOL
from manifoldry._numerics.gpu.kernels.affinities import perplexity_rows
from manifoldry._numerics.gpu.kernels.new_points import LEAVES, descend_new
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry._numerics.repulsion.fft import FFTPotential

NEW_POINTS_PER_PASS = 4_000_000  # new points whose lists are on the GPU at a time


def embed_new_points(
    lists: tuple[IntArray, FloatArray],
    perplexity: float,
    fitted: tuple[FloatArray, LayoutKernel, FFTPotential],
    rule: tuple[float, float, float, float, int],
    run: Run,
) -> tuple[FloatArray, IntArray]:
    """Return the positions of new points and the rows whose positions the mesh does not cover: these are undefined.

    ``lists`` are their neighbors and the distances to them, ``fitted`` the layout, its kernel and its potential,
    ``rule`` the learning rate, momentum, longest move, tolerance and maximum number of steps.
    """
    gpu: Any = run.gpu
    xp, (layout, kernel, potential), (neighbors, distances) = gpu.xp, fitted, lists
    m, k = neighbors.shape
    Y, ends = np.empty((m, 2)), np.empty(m, np.uint8)
    nodes = gpu.array(potential.nodes, np.float32)
    numbers = xp.asarray(np.array([potential.offset, potential.factor, potential.faint]))
    frozen = gpu.array(layout, np.float64), kernel.compiled[1], xp.asarray(potential.mesh.place), numbers, nodes
    for lo, hi in run.ranges(m, NEW_POINTS_PER_PASS):
        gpu.require("new points", (hi - lo) * (24 * k + 64))
        near = gpu.array(neighbors[lo:hi], np.int32)
        lengths = gpu.array(distances[lo:hi], np.float32)
        p, precision, reached = xp.empty((hi - lo) * k, np.float32), xp.empty(hi - lo), xp.empty(hi - lo, np.uint8)
        rows = xp.arange(hi - lo + 1) * k, lengths.reshape(-1), math.log(perplexity), ENTROPY_TOL
        perplexity_rows.over(hi - lo, *rows, p, precision, reached)
        places, how = xp.empty((hi - lo, 2)), xp.empty(hi - lo, np.uint8)
        lists_of_rows = near, lengths, p.reshape(hi - lo, k)
        descend_new.over(hi - lo, *lists_of_rows, *frozen, xp.asarray(np.array(rule[:4])), rule[4], places, how)
        Y[lo:hi], ends[lo:hi] = gpu.host(places), gpu.host(how)
    return Y, np.flatnonzero(ends == LEAVES)
