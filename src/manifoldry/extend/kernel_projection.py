"""Mercer kernels in scikit-learn's words, the projection onto kernel components, and pre-images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from scipy.spatial import cKDTree

from manifoldry import check
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray

KernelName = Literal["rbf", "poly", "linear", "sigmoid", "cosine", "precomputed"]
KernelFunction = Callable[[Any, Any], Array]
"""Arrays (m, p) and (n, p) of rows to kernel values (m, n)."""
KERNEL_BLOCK = 1_000_000
"""Kernel values computed by one task."""
PREIMAGE_NEIGHBORS = 10
"""Neighbors per local regression beyond three per coordinate: enough to average noise, few enough to stay local."""
PREIMAGE_REG = 1e-6
"""Share of the local variance added to each local direction, so that fewer distinct neighbors than directions do."""


@dataclass(frozen=True)
class Kernel:
    r"""A kernel of two sets of rows, as in `sklearn.metrics.pairwise`.

    "rbf" :math:`\exp(-\gamma \|x - y\|^2)`, a Gaussian of standard deviation :math:`1/\sqrt{2\gamma}`; "poly"
    :math:`(\gamma x^T y + c)^p`; "linear" :math:`x^T y`; "sigmoid" :math:`\tanh(\gamma x^T y + c)`, which is not
    positive semidefinite; "cosine" :math:`x^T y / \|x\| \|y\|`; "precomputed": the rows are kernel values already; or
    a function.

    Parameters
    ----------
    rule : str or callable
        A `KernelName`, or a function of arrays (m, p) and (n, p) that returns the kernel values (m, n).
    gamma : float
        :math:`\gamma`.
    degree : int
        p.
    coef0 : float
        c.
    """

    rule: KernelName | KernelFunction
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    @property
    def makes_its_own(self) -> bool:
        """Whether the returned array belongs to the caller; precomputed values and a function's may not."""
        return isinstance(self.rule, str) and self.rule != "precomputed"

    def __call__(self, A: Any, B: Any, run: Run) -> FloatArray:
        """Return the kernel between the rows of A and those of B, shape (m, n)."""
        if self.rule == "precomputed":
            return np.asarray(A, dtype=np.float64)
        if not isinstance(self.rule, str):
            return self._called(A, B)
        A, B = self._prepared(A, B)
        values = np.empty((A.shape[0], B.shape[0]))

        def block(lo: int, hi: int) -> None:
            values[lo:hi] = self._rows(A[lo:hi], B)

        run.map(block, run.ranges(A.shape[0], max(1, KERNEL_BLOCK // B.shape[0])), blas=True)
        return values

    def _called(self, A: Any, B: Any) -> FloatArray:
        values = np.asarray(self.rule(A, B))  # type: ignore[operator]
        values = values.astype(np.float64) if values.dtype.kind in "fiub" else np.full(values.shape, np.nan)
        if values.shape != (A.shape[0], B.shape[0]) or not np.isfinite(values).all():
            raise ValueError(
                f"A kernel function must turn {A.shape[0]} and {B.shape[0]} rows into finite values of shape "
                f"({A.shape[0]}, {B.shape[0]}); got shape {values.shape}: wrap a function of two single rows in "
                "sklearn.metrics.pairwise.pairwise_kernels."
            )
        if A is B and np.abs(values - values.T).max() > check.ASYMMETRY * np.abs(values).max():
            raise ValueError(
                "A kernel function must be symmetric: k(x, y) = k(y, x) for all pairs; got one that is not."
            )
        return values

    def _prepared(self, A: Any, B: Any) -> tuple[Any, Any]:
        if issparse(A) or issparse(B):
            A, B = (rows.astype(np.float64) for rows in (A, B))
        else:
            A, B = (np.asarray(rows, dtype=np.float64) for rows in (A, B))
            if self.rule == "rbf":
                # Distances from inner products lose the digits of a common shift; without it they lose none.
                origin = B.mean(axis=0)
                A, B = A - origin, B - origin
        if self.rule == "cosine":
            A, B = (_unit_rows(rows) for rows in (A, B))
        return A, B

    def _rows(self, A: Any, B: Any) -> FloatArray:
        inner = A @ B.T
        values: FloatArray = inner.toarray() if issparse(inner) else np.asarray(inner)
        if self.rule in ("poly", "sigmoid"):
            return self.of_products(values)
        if self.rule == "rbf":
            values *= -2.0
            values += _squared_norms(A)[:, None]
            values += _squared_norms(B)
            np.maximum(values, 0.0, out=values)
            values *= -self.gamma
            np.exp(values, out=values)
        return values

    def of_products(self, inner: FloatArray) -> FloatArray:
        """Return the polynomial or sigmoid kernel of given inner products."""
        affine = self.gamma * inner + self.coef0
        return affine**self.degree if self.rule == "poly" else np.tanh(affine)


def _squared_norms(rows: Any) -> FloatArray:
    if issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def _unit_rows(rows: Any) -> Any:
    norms = np.sqrt(_squared_norms(rows))
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return rows.multiply(inverse[:, None]).tocsr() if issparse(rows) else rows * inverse[:, None]


@dataclass(frozen=True)
class KernelProjection:
    r"""Kernel values to the anchors, projected: :math:`y = W^T k(x) - b`.

    For kernel PCA the columns of W sum to zero. The centered kernel row
    :math:`k(x, x_i) - \overline{k(x, \cdot)} - \overline{k(\cdot, x_i)} + \overline{k}` then differs from the plain
    one, under W, only by the training means :math:`\overline{k(\cdot, x_i)}`: they make b.
    """

    anchors: Any
    kernel: Kernel
    weights: FloatArray
    shift: FloatArray

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        cuts = run.ranges(X.shape[0], max(1, 10 * KERNEL_BLOCK // len(self.weights)))
        placed = [self.kernel(X[lo:hi], self.anchors, run) @ self.weights - self.shift for lo, hi in cuts]
        return np.concatenate([np.empty((0, self.weights.shape[1])), *placed])


@dataclass(frozen=True)
class LocalPreimage:
    """A weighted linear regression of the points on their scores, near each place that is asked for.

    The ``n_neighbors`` fitted scores nearest to a place take part, with weights :math:`(1 - r^2)^2` that fall to
    zero at the first score beyond them.
    """

    scores: FloatArray
    X: FloatArray
    n_neighbors: int

    @classmethod
    def of(cls, scores: FloatArray, X: FloatArray) -> LocalPreimage:
        """Return the regression with a number of neighbors that suits the number of scores."""
        return cls(scores, X, PREIMAGE_NEIGHBORS + 3 * scores.shape[1])

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points of given coordinates."""
        tree = cKDTree(self.scores)
        places = np.asarray(Y, dtype=np.float64)
        k = min(self.n_neighbors + 1, len(self.scores))
        distances, near = tree.query(places, k=k)
        back = np.empty((len(places), self.X.shape[1]))

        def block(lo: int, hi: int) -> None:
            back[lo:hi] = self._regress(places[lo:hi], near[lo:hi], distances[lo:hi])

        run.map(block, run.ranges(len(places), max(1, KERNEL_BLOCK // (k * self.X.shape[1]))), blas=True)
        return back

    def _regress(self, places: FloatArray, near: Array, distances: FloatArray) -> FloatArray:
        reach = distances[:, -1:]
        ratio = np.divide(distances, reach, out=np.zeros_like(distances), where=reach > 0)
        weight = (1.0 - ratio**2) ** 2
        weight[~weight.any(axis=1)] = 1.0  # a place so far away that all are equally far
        weight /= weight.sum(axis=1, keepdims=True)
        offsets = self.scores[near] - places[:, None]
        targets = self.X[near].astype(np.float64)
        middle = np.einsum("mk,mkd->md", weight, offsets)
        mean = np.einsum("mk,mkp->mp", weight, targets)
        offsets -= middle[:, None]
        weighted = weight[:, :, None] * offsets
        spread = np.einsum("mkd,mke->mde", weighted, offsets)
        d = spread.shape[1]
        size = np.trace(spread, axis1=1, axis2=2)
        spread[:, np.arange(d), np.arange(d)] += np.where(size > 0, PREIMAGE_REG * size, 1.0)[:, None]
        slopes = np.linalg.solve(spread, np.einsum("mkd,mkp->mdp", weighted, targets - mean[:, None]))
        return mean - np.einsum("md,mdp->mp", middle, slopes)
