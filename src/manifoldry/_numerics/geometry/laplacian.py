"""Graph Laplacians: unnormalized, symmetric and random walk, with their null vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import cg

from manifoldry._core.csgraph import connected_components
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._sample import Targets

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


# Harmonic functions on a graph: what is known at some points, spread to the others as smoothly as it can be.

HARMONIC_TOL, MAX_HARMONIC_STEPS = 1e-10, 2_000
"""Relative residual of the linear system at which conjugate gradients end, and steps after which they do anyway."""


def harmonic(W: Any, values: FloatArray, known: Array) -> tuple[FloatArray, Array]:
    r"""Return values (n, m) with the unknown ones set to :math:`\arg\min \sum_{ij} w_{ij} |f_i - f_j|^2`.

    Each is then the mean of its neighbors', weighted by W; also returned is which points have a value: all that a path
    joins with a known one.

    Notes
    -----
    References: zhu2003.

    Examples
    --------
    >>> path = diags_array([1.0, 1.0, 1.0, 1.0], offsets=1, shape=(5, 5))
    >>> ends = np.array([True, False, False, False, True])
    >>> harmonic(csr_array(path + path.T), np.array([[0.0], [0], [0], [0], [8]]), ends)[0].T.round(6)
    array([[0., 2., 4., 6., 8.]])
    """
    W = csr_array(W)
    _, part = connected_components(W, directed=False)
    reached = np.isin(part, np.unique(part[known]))
    asked, told = np.flatnonzero(reached & ~known), np.flatnonzero(known)
    degrees = np.asarray(W.sum(axis=1)).reshape(-1)[asked]
    rows = W[asked]
    laplacian = csr_array(diags_array(degrees) - rows[:, asked])
    jacobi = diags_array(1.0 / degrees) if len(asked) else None
    sources = rows[:, told] @ values[told]
    found = np.array(values, dtype=np.float64)
    for column in range(values.shape[1]):
        solution = cg(laplacian, sources[:, column], rtol=HARMONIC_TOL, maxiter=MAX_HARMONIC_STEPS, M=jacobi)
        found[asked, column] = solution[0]
    return found, reached


def with_unknown_filled(targets: Targets, W: Any) -> Targets:
    """Return targets whose unknown ones are those of the harmonic function on a graph of affinities.

    Classes become shares of each class, in columns; with a weight of 1, which knows no shares, the largest.
    """
    if not targets.categorical:
        values, reached = harmonic(W, targets.values, targets.known)
        return replace(targets, values=values, known=reached)
    labels = targets.values[:, 0]
    members = (labels[:, None] == np.arange(labels.max() + 1)) & targets.known[:, None]
    shares, reached = harmonic(W, members.astype(np.float64), targets.known)
    if targets.weight == 1:
        return replace(targets, values=np.argmax(shares, axis=1)[:, None], known=reached)
    return replace(targets, values=shares / np.sqrt(2.0), known=reached, categorical=False)


def weakened(W: Any, targets: Targets) -> csr_array:
    r"""Return affinities with the factor :math:`e^{-(w / (1 - w))^2 \Lambda}` of targets of weight w.

    It is what lengths would have become under the automatic bandwidth, for which :math:`2 s^2 = h^2`. Unknown targets
    are those of the harmonic function on the affinities.
    """
    affinities = csr_array(W, dtype=np.float64, copy=True)
    if not targets.known.all():
        targets = with_unknown_filled(targets, affinities)
    rows = np.repeat(np.arange(affinities.shape[0]), np.diff(affinities.indptr))
    squares = targets.squares(rows, affinities.indices)
    ratio = targets.weight / (1.0 - targets.weight) if targets.weight < 1 else np.inf
    affinities.data *= np.exp(-(ratio**2) * squares, out=np.ones_like(squares), where=squares > 0)
    affinities.eliminate_zeros()
    return affinities
