"""Graph Laplacians: unnormalized, symmetric and random walk, with their null vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from manifoldry.csgraph import connected_components
from manifoldry.values import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LaplacianKind = Literal["unnormalized", "symmetric", "random_walk"]

WEIGHT_ASYMMETRY_TOL = 1e-10
"""Maximum difference of w_ij and w_ji, relative to the largest weight."""


@dataclass(frozen=True)
class Laplacian:
    """A graph Laplacian with its degrees, self-weights included, and the connected component of each vertex, from 0.

    Positive semidefinite, or for the random walk similar to a positive semidefinite matrix.
    """

    matrix: csr_array
    degrees: FloatArray
    labels: IntArray
    kind: LaplacianKind = "unnormalized"

    @property
    def n_components(self) -> int:
        """Number of connected components, which is the multiplicity of the eigenvalue 0."""
        return int(self.labels.max()) + 1

    @property
    def null(self) -> FloatArray:
        """Orthonormal null vectors, one column per component: shape (n, n_components).

        On its component a vector is constant, or proportional to the root of the degrees for the symmetric
        Laplacian; it is zero elsewhere.
        """
        entries = np.ones(len(self.labels))
        if self.kind == "symmetric":
            entries = np.where(self.degrees > 0, np.sqrt(self.degrees), 1.0)
        lengths = np.sqrt(np.bincount(self.labels, weights=entries**2))
        vectors = np.zeros((len(self.labels), self.n_components))
        vectors[np.arange(len(self.labels)), self.labels] = entries / lengths[self.labels]
        return vectors


def laplacian(W: Any, kind: LaplacianKind = "unnormalized") -> Laplacian:
    r"""Return the Laplacian of a graph with symmetric non-negative weights, sparse or dense.

    With degrees :math:`d_i = \sum_j w_{ij}` and :math:`D = \mathrm{diag}(d)`,

    .. math:: L = D - W, \qquad L_{sym} = D^{-1/2} L D^{-1/2}, \qquad L_{rw} = D^{-1} L.

    They measure how a function varies along the edges,
    :math:`f^\top L f = \tfrac12 \sum_{ij} w_{ij} (f_i - f_j)^2`, and :math:`L_{rw} v = \lambda v`,
    :math:`L v = \lambda D v` and :math:`L_{sym} u = \lambda u` with :math:`u = D^{1/2} v` are equivalent. The
    random-walk Laplacian is not symmetric; its eigenvectors come from the pencil, that is from
    ``smallest(L.matrix, k, B=L.degrees, null=L.null, run=run)`` with the unnormalized L.

    A vertex without weight has a row and a column of zeros in all three, and is a component of its own.

    References: chung1997, luxburg2007, belkin2003

    Examples
    --------
    >>> import numpy as np
    >>> laplacian(np.array([[0.0, 2.0], [2.0, 0.0]])).matrix.toarray()
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    if kind not in get_args(LaplacianKind):
        raise ValueError(f"kind must be one of {', '.join(get_args(LaplacianKind))}; got {kind!r}.")
    weights = _checked(W)
    degrees = np.asarray(weights.sum(axis=1), dtype=np.float64).reshape(-1)
    matrix = sp.csr_array(sp.diags_array(degrees) - weights)
    if kind != "unnormalized":
        scale = np.zeros_like(degrees)
        np.power(degrees, -0.5 if kind == "symmetric" else -1.0, out=scale, where=degrees > 0)
        rows = np.repeat(np.arange(len(degrees)), np.diff(matrix.indptr))
        matrix.data *= scale[rows] * scale[matrix.indices] if kind == "symmetric" else scale[rows]
    labels = connected_components(weights, directed=False)[1]
    return Laplacian(matrix, degrees, labels, kind)


def _checked(W: Any) -> csr_array:
    """Return a copy of the weights as a csr_array of floats without stored zeros."""
    weights = sp.csr_array(W, dtype=np.float64, copy=True)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] == 0:
        raise ValueError(f"Weights must form a square matrix with at least one row; got shape {weights.shape}.")
    if weights.nnz and not (np.isfinite(weights.data).all() and weights.data.min() > 0):
        raise ValueError("Weights must be finite and non-negative; turn distances into similarities first.")
    skew = abs(weights - weights.T).max() if weights.nnz else 0.0
    if skew > WEIGHT_ASYMMETRY_TOL * weights.max():
        raise ValueError(
            f"Weights must be symmetric; w_ij and w_ji differ by up to {skew:.3g}: try (W + W') / 2 "
            "or the larger of the two."
        )
    return weights
