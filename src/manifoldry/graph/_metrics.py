"""Metrics that are Euclidean distances between mapped rows: Mahalanobis, standardized Euclidean, Hellinger.

Mapped once, such rows are searched by every Euclidean engine, exactly and on any number of threads; scikit-learn's ball
tree shares one buffer between threads that compute Mahalanobis distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray

RowMap = Callable[[Any], Any]
"""Rows to rows whose Euclidean distances are those of the metric; an image depends on its own row alone, to the bit."""


@dataclass(frozen=True)
class LinearRows:
    """Rows times a matrix, given by its transpose."""

    transposed: FloatArray

    def __call__(self, rows: Any) -> FloatArray:
        """Map rows."""
        if issparse(rows):
            return np.asarray(rows @ np.ascontiguousarray(self.transposed.T))
        # einsum, not a matrix product, whose rounding would depend on how many rows are mapped together.
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        return np.stack([np.einsum("ij,j->i", rows, column) for column in self.transposed], axis=1)


@dataclass(frozen=True)
class ScaledColumns:
    """Columns times factors."""

    factors: FloatArray

    def __call__(self, rows: Any) -> Any:
        """Map rows."""
        return csr_array(rows.multiply(self.factors[None, :])) if issparse(rows) else rows * self.factors


class RootProportions:
    r"""Roots of a row's proportions over :math:`\sqrt2`; a row of zeros gets a place of its own, 1 from all others."""

    def __call__(self, rows: Any) -> Any:
        """Map rows, which have one column more afterwards."""
        entries = rows.data if issparse(rows) else rows
        if entries.size and entries.min() < 0:
            raise ValueError(f"metric='hellinger' needs non-negative entries; got {entries.min():g} among them.")
        if not issparse(rows):
            rows = np.ascontiguousarray(rows, dtype=np.float64)
        sums = np.asarray(rows.sum(axis=1), dtype=np.float64).reshape(-1, 1)
        empty, factors = (sums == 0) * np.sqrt(0.5), 1.0 / np.where(sums > 0, 2.0 * sums, 1.0)
        if issparse(rows):
            return csr_array(hstack([csr_array(rows.multiply(factors)).sqrt(), csr_array(empty)]))
        return np.column_stack([np.sqrt(rows * factors), empty])


def row_map(metric: Any, metric_params: dict[str, Any] | None, X: Any) -> RowMap | None:
    """Return the map that makes the metric Euclidean, or None where there is no such map.

    Without ``V``, variances and covariances are those of the fitted rows ``X``, as in scipy.
    """
    params = metric_params or {}
    if not isinstance(metric, str):
        return None
    if metric == "hellinger":
        return RootProportions()
    if metric == "seuclidean":
        return ScaledColumns(1.0 / np.sqrt(_variances(params.get("V"), X)))
    if metric == "mahalanobis":
        return LinearRows(_whitening(params, X).T.copy())
    return None


def _variances(given: Any, X: Any) -> FloatArray:
    if given is None:
        dense = X.toarray() if issparse(X) else X
        given = np.var(dense, axis=0, ddof=1, dtype=np.float64)
    variances = np.asarray(given, dtype=np.float64)
    if variances.shape != (X.shape[1],) or not np.isfinite(variances).all() or variances.min() <= 0:
        raise ValueError(
            f"metric='seuclidean' needs a positive variance V for each of the {X.shape[1]} columns; got shape "
            f"{variances.shape} with {np.count_nonzero(~(variances > 0))} not positive: drop constant columns."
        )
    return variances


def _whitening(params: dict[str, Any], X: Any) -> FloatArray:
    """Return M with M M^T = VI, the inverse of the covariance V."""
    size, name = X.shape[1], "VI" if params.get("VI") is not None else "V"
    given = params.get(name)
    if given is None:
        given = np.cov(X.toarray() if issparse(X) else X, rowvar=False)
    matrix = np.atleast_2d(np.asarray(given, dtype=np.float64))
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise ValueError(
            f"metric='mahalanobis' needs a finite {name} of shape ({size}, {size}); got shape {matrix.shape}."
        )
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    rounding = size * np.finfo(np.float64).eps * float(np.abs(values).max())
    if values[0] < -rounding or (name == "V" and values[0] <= rounding):
        raise ValueError(
            f"metric='mahalanobis' needs a {name} with positive eigenvalues; they are {values[0]:.3g} to "
            f"{values[-1]:.3g}: leave out columns that follow from others, or pass VI."
        )
    roots = np.sqrt(np.maximum(values, 0.0))
    return vectors * (roots if name == "VI" else 1.0 / roots)


class MappedSearch:
    """Search by a metric that is Euclidean between mapped rows, through an engine over those."""

    def __init__(self, rows: RowMap, engine: Any) -> None:
        self.rows, self.engine, self.name = rows, engine, engine.name
        if hasattr(engine, "recall"):
            self.recall = engine.recall

    def nearest(self, Q: Any, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return the k nearest fitted points of each row of Q."""
        found: tuple[FloatArray, IntArray] = self.engine.nearest(self.rows(Q), k, run, own)
        return found

    def within(self, Q: Any, radius: float, run: Run) -> tuple[IntArray, IntArray, FloatArray]:
        """Return all pairs at most ``radius`` apart."""
        found: tuple[IntArray, IntArray, FloatArray] = self.engine.within(self.rows(Q), radius, run)
        return found


def like(rows: Any, fitted: Any) -> Any:
    """Return rows dense or sparse as the fitted ones are."""
    if issparse(rows) == issparse(fitted):
        return rows
    return csr_array(rows) if issparse(fitted) else rows.toarray()


def without_rounding(distances: FloatArray, A: Any, B: Any, metric: Any) -> FloatArray:
    """Set distances computed from inner products that their rounding explains to 0, so that equal rows are 0 apart."""
    eps = np.finfo(np.float64).eps
    if not isinstance(metric, str) or metric not in ("euclidean", "cosine", "correlation"):
        return distances
    terms = int(np.diff(B.indptr).max()) if issparse(B) else B.shape[1]
    if metric != "euclidean":
        distances[distances <= (terms + 4) * eps] = 0.0
        return distances
    sums = np.add.outer(*(np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1) for rows in (A, B)))
    distances[distances**2 <= 2.0 * (terms + 4) * eps * sums] = 0.0
    return distances
