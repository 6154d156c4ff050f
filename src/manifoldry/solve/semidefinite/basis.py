"""Bases of few functions over a graph's points: the lowest eigenvectors of its Laplacian, combinations of landmarks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manifoldry.geometry.laplacian import laplacian
from manifoldry.neighbors.geodesic import nearest_source
from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.solve.eigen.solvers import announce_factor
from manifoldry.solve.factor import definite_factor
from manifoldry.values import FloatArray, IntArray, NeighborGraph

FACTOR_TOO_LARGE = "use IPA or LandmarkIsomap, or fit a sample and transform the rest"
"""What to do with graphs whose matrices cannot be factored: those of many points that lie on no curve or surface."""

MIN_BASIS_SHARE = 1e-8
"""Singular values of the landmarks' combinations, relative to the largest, below which a function is left out: the
constant one, and those of landmarks that coincide."""


def laplacian_basis(graph: NeighborGraph, m: int, run: Run) -> FloatArray:
    """Return the lowest eigenvectors of the unweighted graph Laplacian, except the constant."""
    n = graph.n_points
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n))
    return smallest(laplacian(adjacency).matrix, m, null=np.full(n, 1 / np.sqrt(n)), run=run).vectors


def landmark_basis(W: sp.csr_array, landmarks: IntArray, run: Run) -> FloatArray:
    """Return orthonormal centered functions that span the combinations of landmarks.

    The combinations minimize |(I - W) Q| and are the identity on the landmarks; their rows sum to one.
    """
    n = W.shape[0]
    residual = sp.csr_array(sp.eye_array(n) - W)
    form = sp.csr_array(residual.T @ residual)
    rest = np.setdiff1d(np.arange(n), landmarks)
    Q = np.zeros((n, len(landmarks)))
    Q[landmarks, np.arange(len(landmarks))] = 1.0
    if len(rest):
        among = sp.csc_array(form[rest][:, rest])
        announce_factor(sp.csr_array(among), run, FACTOR_TOO_LARGE)
        factor, _ = definite_factor(among, float(among.diagonal().mean()), 1e-12, 10.0)
        Q[rest] = -factor.solve(form[rest][:, landmarks].toarray())
    Q /= Q.sum(axis=1, keepdims=True)
    functions, sizes, _ = np.linalg.svd(Q - Q.mean(axis=0), full_matrices=False)
    return functions[:, sizes > MIN_BASIS_SHARE * sizes[0]]


def farthest_points(graph: NeighborGraph, count: int) -> IntArray:
    """Return landmarks by farthest-point sampling in geodesic distance, from the point with the longest edges."""
    edges = np.bincount(graph.rows(), graph.lengths, minlength=graph.n_points)
    chosen = [int(np.argmax(edges))]
    away, _ = nearest_source(graph, np.array(chosen))
    while len(chosen) < count and away.max() > 0:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, nearest_source(graph, np.array(chosen[-1:]))[0])
    return np.array(chosen)
