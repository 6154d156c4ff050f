"""Affine subspaces, one per cluster: the principal subspace through its mean, by local PCA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from manifoldry._core.values import FloatArray, IntArray, OneLine
from manifoldry._numerics.geometry.principal import descending_eigh

MAX_STACKED_COLUMNS = 32
"""Number of columns up to which the scatter matrices of all clusters are decomposed in one call."""
MIN_LANCZOS_SIDE, MIN_SIDE_PER_PAIR = 200, 10
"""Order of a matrix from which Lanczos is faster than LAPACK (375: 1.7 against 4.6 ms for 10 pairs), if the order is
at least so many times the number of pairs."""


@dataclass(frozen=True, repr=False)
class AffineSubspaces(OneLine):
    r"""The affine subspaces :math:`\{b_\ell + U_\ell y\}` of c clusters.

    Parameters
    ----------
    means : ndarray of shape (c, d)
        The means :math:`b_\ell` of the clusters.
    bases : ndarray of shape (c, d, r)
        Orthonormal columns :math:`U_\ell`, the direction of largest variance first.
    variances : ndarray of shape (c, r)
        Mean square of the cluster's coordinates along each direction; 0 where the cluster has no more dimensions
        and the basis was completed.
    """

    means: FloatArray
    bases: FloatArray
    variances: FloatArray

    def __post_init__(self) -> None:
        c, d, r = self.bases.shape
        if self.means.shape != (c, d) or self.variances.shape != (c, r):
            raise ValueError(
                f"{c} subspaces of {r} dimensions in {d} need means of shape ({c}, {d}) and variances of shape "
                f"({c}, {r}); got {self.means.shape} and {self.variances.shape}."
            )

    @classmethod
    def of_clusters(cls, X: FloatArray, labels: IntArray, n_clusters: int, n_components: int) -> AffineSubspaces:
        """Return the PCA of each cluster of ``X`` (n, d); every label must occur, ``n_components`` not exceed d."""
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=n_clusters)
        ends = np.cumsum(sizes)
        points = X[order]
        means = np.add.reduceat(points, ends - sizes, axis=0) / sizes[:, None]
        points -= means[labels[order]]
        clusters = np.split(points, ends[:-1])
        if X.shape[1] <= MAX_STACKED_COLUMNS:
            values, vectors = descending_eigh(np.stack([cluster.T @ cluster for cluster in clusters]))
            bases = np.ascontiguousarray(vectors[:, :, :n_components])
            return cls(means, bases, _positive(values)[:, :n_components] / sizes[:, None])
        directions = [_leading_directions(cluster, n_components) for cluster in clusters]
        return cls(means, *(np.stack(parts) for parts in zip(*directions, strict=True)))

    def __len__(self) -> int:
        return len(self.means)

    @property
    def n_components(self) -> int:
        """Dimension of the subspaces."""
        return self.bases.shape[2]

    def squared_distances(self, X: FloatArray) -> FloatArray:
        r"""Return the squared distance of every point to every subspace, shape (n, c).

        .. math:: e_{i\ell}^2 = |x_i - b_\ell|^2 - |U_\ell^T (x_i - b_\ell)|^2

        by one matrix product; exact to about :math:`10^{-15}` of the squared spread of the data.
        """
        c, d, r = self.bases.shape
        center = self.means.mean(axis=0)
        points, means = X - center, self.means - center
        directions = np.concatenate([means, self.bases.transpose(2, 0, 1).reshape(r * c, d)])
        # Rows of products belong to clusters, so that all loops below run along the points.
        products = directions @ points.T
        inside = products[c:].reshape(r, c, -1)
        inside -= np.einsum("cd,cdr->rc", means, self.bases)[:, :, None]
        squares = np.einsum("nd,nd->n", points, points) + np.einsum("cd,cd->c", means, means)[:, None]
        squares -= 2.0 * products[:c]
        for along in inside:
            squares -= np.square(along, out=along)
        return np.maximum(squares, 0.0, out=squares).T

    def coordinates(self, X: FloatArray, labels: IntArray) -> FloatArray:
        r"""Return each point's coordinates :math:`U_\ell^T (x_i - b_\ell)` in the subspace of its label, (n, r)."""
        coordinates = np.empty((len(X), self.n_components))
        for rows, mean, basis in zip(grouped(labels, len(self)), self.means, self.bases, strict=True):
            coordinates[rows] = (X[rows] - mean) @ basis
        return coordinates

    def project(self, X: FloatArray, labels: IntArray) -> FloatArray:
        """Return each point's projection onto the subspace of its label, shape (n, d)."""
        projected = np.empty((len(X), self.means.shape[1]))
        for rows, mean, basis in zip(grouped(labels, len(self)), self.means, self.bases, strict=True):
            projected[rows] = mean + ((X[rows] - mean) @ basis) @ basis.T
        return projected

    def errors(self, X: FloatArray, labels: IntArray) -> FloatArray:
        """Return each point's squared distance to the subspace of its label, shape (n,), without cancellation."""
        left = X - self.project(X, labels)
        return np.einsum("nd,nd->n", left, left)

    def take(self, which: IntArray) -> AffineSubspaces:
        """Return the subspaces ``which``, in that order."""
        return AffineSubspaces(self.means[which], self.bases[which], self.variances[which])


def squared_distances(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the squared distances of all rows of ``A`` to all of ``B``, exact to 1e-15 of their squared spread."""
    center = A.mean(axis=0)
    A, B = A - center, B - center
    squares = np.einsum("nd,nd->n", A, A)[:, None] + np.einsum("nd,nd->n", B, B) - 2.0 * A @ B.T
    return np.maximum(squares, 0.0, out=squares)


def grouped(labels: IntArray, n_clusters: int) -> list[IntArray]:
    """Return the members of each cluster, ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=n_clusters))[:-1])


def _positive(values: FloatArray) -> FloatArray:
    """Return descending eigenvalues (..., k) with 0 for those that are rounding."""
    return np.where(values > values.shape[-1] * np.finfo(float).eps * values[..., :1], values, 0.0)


def _largest(matrix: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the ``k`` largest eigenvalues, ascending, and their vectors."""
    # Not by `_numerics.eigen`, whose checks make thousands of small problems 1.2 to 5 times slower.
    side = len(matrix)
    if side >= MIN_LANCZOS_SIDE and k * MIN_SIDE_PER_PAIR <= side and matrix.any():
        try:
            return eigsh(matrix, k, which="LA", v0=np.random.default_rng(side).standard_normal(side))
        except ArpackNoConvergence:
            pass  # the dense solver below always answers
    return eigh(matrix, subset_by_index=(side - k, side - 1), check_finite=False)


def _leading_directions(centered: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Return basis (d, r) and variances (r,) of centered points (m, d), from the smaller of scatter and Gram matrix."""
    m, d = centered.shape
    side = min(m, d)
    small = centered.T @ centered if d <= m else centered @ centered.T
    rank = min(n_components, side)
    values, vectors = _largest(small, rank)
    values, vectors = values[::-1], vectors[:, ::-1]
    variances = np.zeros(n_components)
    variances[:rank] = _positive(values) / m
    if d <= m:
        return vectors, variances
    # The images of the Gram matrix's vectors are orthogonal; the factorization gives them unit length, and
    # completes the basis where the points span fewer dimensions.
    images = np.zeros((d, n_components))
    images[:, :rank] = centered.T @ vectors
    return np.linalg.qr(images)[0], variances
