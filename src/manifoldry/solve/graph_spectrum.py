"""Eigenpairs of graph Laplacians and of random walks on graphs, and the gap among their eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse

from manifoldry import check
from manifoldry.geometry.affinity import Affinity
from manifoldry.geometry.laplacian import LaplacianKind, laplacian
from manifoldry.neighbors.graph import components
from manifoldry.run import Run
from manifoldry.solve.eigen import largest, smallest
from manifoldry.solve.spectrum import Suggestion, gap
from manifoldry.values import FloatArray, NeighborGraph, Spectrum


def laplacian_eigenpairs(W: Any, count: int, kind: LaplacianKind, run: Run) -> Spectrum:
    r"""Return the lowest eigenpairs, after the null vector, of a Laplacian of the edge weights W of a connected graph.

    Those of the random-walk Laplacian come from :math:`L v = \lambda D v`.
    """
    if kind == "random_walk":
        L = laplacian(W)
        return smallest(L.matrix, count, B=L.degrees, null=L.null, run=run)
    L = laplacian(W, kind)
    return smallest(L.matrix, count, null=L.null, run=run)


def walk_eigenpairs(walk: Affinity, count: int, run: Run) -> Spectrum:
    r"""Return the leading eigenpairs of P after the constant, with :math:`\sum_i \pi_i \psi(i)^2 = 1`.

    They are those of :math:`D^{-1/2} W D^{-1/2}`; a sparse one is turned over, :math:`I - D^{-1/2} W D^{-1/2}`, for
    sparse solvers are made for the low end of a Laplacian.
    """
    A, roots = walk.symmetric, np.sqrt(walk.stationary)
    if issparse(A):
        flipped = smallest(diags_array(np.ones(len(roots))) - A, count, null=roots, run=run)
        found = replace(flipped, values=1.0 - flipped.values, order="largest", dropped=1.0 - flipped.dropped)
    else:
        found = largest(A, count, known=roots, run=run)
    return replace(found, vectors=found.vectors / roots[:, None])


def within_largest(graph: NeighborGraph, W: Any) -> Any:
    """Return the edge weights within the largest component of a graph."""
    if graph.n_edges == 0:
        raise ValueError("A graph without edges has no spectrum; raise n_neighbors or radius.")
    parts = components(graph)
    return W if len(parts) == 1 else W[parts[0]][:, parts[0]]


def eigengap(
    eigenvalues: Callable[[int], FloatArray], n_points: int, max_components: int, otherwise: Suggestion | None
) -> Suggestion:
    """Return the number of eigenvalues before a clear gap, else ``otherwise``; ``eigenvalues(count)`` computes them."""
    most = min(check.integer("max_components", max_components, 1), max(1, n_points - 2))
    return gap(eigenvalues(min(most + 1, n_points - 1)), "eigenvalue", otherwise)
