"""Eigenproblems of linear methods: a quadratic form restricted to the linear functions of the points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from manifoldry._core import check
from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import Extension, FloatArray, NeighborGraph, Spectrum
from manifoldry._numerics.eigen import largest, smallest
from manifoldry._numerics.elbow import Suggestion, gap
from manifoldry._numerics.geometry.affinity import Affinity, LaplacianKind, laplacian_of_parts
from manifoldry._numerics.scaling import center_gram
from manifoldry.graph._operations import components

SPAN_RANK_TOL = 1e-8  # share of the largest singular value below which a direction of the rows counts as rounding
KERNEL_RANK_TOL = 1e-6
"""Share of a kernel's largest eigenvalue below which its range ends: eigenvectors there are uncertain."""
MIN_EIGENPAIRS = 10  # minimum number of eigenpairs, so that a gap can be seen


@dataclass(frozen=True)
class FeatureRows:
    """The rows (n, f) that a linear map is applied to: the points (``features`` None), or their rows of a kernel.

    ``table @ loadings`` (None: the table) are coordinates up to a shift. Singular values below the
    share ``rank_tol`` of the largest are rounding.
    """

    table: FloatArray
    loadings: FloatArray | None = None
    features: Extension | None = None
    rank_tol: float = SPAN_RANK_TOL


def kernel_feature_rows(K: FloatArray, features: Extension, run: Run, rank_tol: float = KERNEL_RANK_TOL) -> FeatureRows:
    r"""Return kernel rows with the loadings :math:`V \Lambda^{-1/2}` of kernel PCA, in the range of H K H."""
    with run.stage("range"):
        centered = center_gram((K + K.T) / 2, run)
        with blas_threads_for(len(centered)):
            values, vectors = np.linalg.eigh(centered)
        mask = values > rank_tol * values[-1]
        return FeatureRows(K, vectors[:, mask] / np.sqrt(values[mask]), features)


@dataclass(frozen=True)
class PrincipalSpan:
    r"""Principal coordinates P, ``(rows - mean) @ directions``, with :math:`P^T D P = diag(\sigma^2)`, weights D."""

    mean: FloatArray
    directions: FloatArray
    coordinates: FloatArray
    singular_values: FloatArray
    features: Extension | None = None

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.singular_values)

    def smallest(self, form: Any, count: int, run: Run) -> tuple[Spectrum, FloatArray]:
        r"""Return the lowest eigenpairs of :math:`P^T M P` and the orthonormal vectors w."""
        return self._lowest(self.coordinates, form, count, run)

    def smallest_generalized(self, form: Any, count: int, run: Run) -> tuple[Spectrum, FloatArray]:
        r"""Return the lowest pairs of :math:`P^T M P w = \lambda P^T D P w` with :math:`w^T P^T D P w = 1`."""
        spectrum, w = self._lowest(self.coordinates / self.singular_values, form, count, run)
        return spectrum, w / self.singular_values[:, None]

    def _lowest(self, frame: FloatArray, form: Any, count: int, run: Run) -> tuple[Spectrum, FloatArray]:
        small = frame.T @ (form @ frame)
        spectrum = smallest((small + small.T) / 2, min(max(count, MIN_EIGENPAIRS), self.rank), run=run)
        return spectrum, spectrum.vectors


def principal_span(
    rows: FeatureRows, run: Run, *, weights: FloatArray | None = None, variance: float = 1.0
) -> PrincipalSpan:
    """Return the span of the leading directions with a share ``variance`` of the variance (1: all above rounding)."""
    with run.stage("span"):
        D = np.ones(len(rows.table)) if weights is None else weights
        mean = D @ rows.table / D.sum()
        centered = rows.table - mean
        inner = centered if rows.loadings is None else centered @ rows.loadings
        weighted = inner if weights is None else inner * np.sqrt(D)[:, None]
        with blas_threads_for(min(weighted.shape), max(weighted.shape)):
            _, sigma, axes = np.linalg.svd(np.linalg.qr(weighted, mode="r"), full_matrices=False)
        unexplained = 1.0 - np.cumsum(sigma**2) / (sigma**2).sum()
        remaining = np.concatenate([[1.0], unexplained[:-1]])  # what the directions before this one leave
        mask = (sigma > rows.rank_tol * sigma[0]) & ((remaining > 1.0 - variance) | (variance == 1.0))
        axes = axes[mask].T
        directions = axes if rows.loadings is None else rows.loadings @ axes
        return PrincipalSpan(mean, directions, inner @ axes, sigma[mask], rows.features)


# Eigenpairs of graph Laplacians and of random walks on graphs, and the gap among their eigenvalues.


def laplacian_eigenpairs(W: Any, count: int, kind: LaplacianKind, run: Run) -> Spectrum:
    """Return the lowest eigenpairs, after the null vector, of a Laplacian of weights W of a connected graph."""
    # Those of the random walk come from L v = lambda D v.
    walk = kind == "random_walk"
    L = laplacian_of_parts(csr_array(W), np.zeros(W.shape[0], dtype=np.int64), "unnormalized" if walk else kind)
    return smallest(L.matrix, count, B=L.degrees if walk else None, null=L.null, run=run)


def walk_eigenpairs(walk: Affinity, count: int, run: Run) -> Spectrum:
    r"""Return the leading eigenpairs of P after the constant, with :math:`\sum_i \pi_i \psi(i)^2 = 1`."""
    A, roots = walk.symmetric, np.sqrt(walk.stationary)
    if issparse(A):
        flipped = smallest(diags_array(np.ones(len(roots))) - A, count, null=roots, run=run)
        spectrum = replace(flipped, values=1.0 - flipped.values, order="largest", dropped=1.0 - flipped.dropped)
    else:
        spectrum = largest(A, count, known=roots, run=run)
    return replace(spectrum, vectors=spectrum.vectors / roots[:, None])


def within_largest(graph: NeighborGraph, W: Any) -> Any:
    """Return the edge weights within the largest component of a graph."""
    if graph.n_edges == 0:
        raise ValueError("A graph without edges has no spectrum; raise n_neighbors or radius.")
    parts = components(graph)
    return W if len(parts) == 1 else W[parts[0]][:, parts[0]]


def eigengap(
    eigenvalues: Callable[[int], FloatArray], n_points: int, max_components: int, otherwise: Suggestion | None
) -> Suggestion:
    """Return the number of eigenvalues before a clear gap, or ``otherwise``; ``eigenvalues(count)`` computes them."""
    max_count = min(check.integer("max_components", max_components, 1), max(1, n_points - 2))
    return gap(eigenvalues(min(max_count + 1, n_points - 1)), "eigenvalue", otherwise)
