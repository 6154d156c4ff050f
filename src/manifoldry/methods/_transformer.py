"""The neighbor search as a scikit-learn transformer: rows to a sparse graph of distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from manifoldry._core import check
from manifoldry._core.arrays import check_not_iterator, on_host
from manifoldry._core.parameters import PositiveInt, check_parameters
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.graph._search import NeighborIndex, NeighborRule
from manifoldry.methods._base._estimator import Estimator


@dataclass(eq=False, repr=False, kw_only=True)
class KNeighborsTransformer(TransformerMixin, BaseEstimator):
    """Rows to the graph of their nearest neighbors, as `sklearn.neighbors.KNeighborsTransformer` in mode "distance".

    Its searches are those of all methods here: k-d tree, all pairs or NN-descent, by size. The graph goes into
    any estimator with ``metric="precomputed"``, of this library or of scikit-learn, and into scanpy
    (``sc.pp.neighbors(adata, n_neighbors=15, transformer=KNeighborsTransformer(n_neighbors=15))``: the connectivities
    are then those of scanpy's own exact search).

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbors, not counting the point itself.
    metric : str or callable, default="euclidean"
        Name of a metric of scikit-learn, or a function of two rows.
    metric_params : dict or None, default=None
        Further parameters of the metric by name.
    search : {"auto", "exact", "approximate"}, default="auto"
        Type of neighbor search; an approximate search reports its recall in ``diagnostics_``.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed of an approximate search.
    n_jobs : int or None, default=None
        Number of threads; None uses all available CPU cores. The result does not depend on it.

    Attributes
    ----------
    n_samples_fit_ : int
        Number of fitted rows.
    diagnostics_ : dict
        The search used, and the recall of an approximate one.

    Notes
    -----
    As in scikit-learn every row lists ``n_neighbors + 1`` points in ascending order of distance: a fitted one itself
    first, with a stored zero; a new one has one more neighbor, so that estimators may count the point itself or not.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import KNeighborsTransformer
    >>> graph = KNeighborsTransformer(n_neighbors=1).fit_transform(np.array([[0.0], [1.0], [3.0]]))
    >>> graph.toarray().tolist(), graph.nnz
    ([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], 6)
    """

    n_neighbors: PositiveInt = 5
    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: Literal["auto", "exact", "approximate"] = "auto"
    random_state: Any = 0
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Build the index of the rows of ``X``."""
        self._fit_rows(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:  # noqa: ARG002
        """Return the graph of the rows of ``X`` among themselves."""
        rows, run = self._fit_rows(X)
        graph = self._index.graph(rows, run)
        n, k = graph.n_points, self.n_neighbors
        indices = np.column_stack([np.arange(n), graph.indices.reshape(n, k)])
        return _sparse(indices, np.column_stack([np.zeros(n), graph.lengths.reshape(n, k)]), n)

    def transform(self, X: Any) -> csr_matrix:
        """Return the graph from the rows of ``X`` to the fitted ones, shape (n_new, n_samples)."""
        check_is_fitted(self, "n_samples_fit_")
        check_not_iterator(X, "X")
        rows = validate_data(self, on_host(X), reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        width = min(self.n_neighbors + 1, self.n_samples_fit_)
        indices, distances = self._index.widened(width).query(rows, Run(self.random_state, self.n_jobs))
        return _sparse(indices, distances, self.n_samples_fit_)

    save = Estimator.save

    def _fit_rows(self, X: Any) -> tuple[Any, Run]:
        check_parameters(self)
        check.metric(self.metric, ())
        check_not_iterator(X, "X")
        kinds = [np.float64, np.float32]
        rows = validate_data(self, on_host(X), accept_sparse="csr", dtype=kinds, ensure_min_samples=2, copy=True)
        check.check_integer_precision(X, rows)
        rule = NeighborRule(self.n_neighbors, None, self.metric, self.metric_params, self.search)
        run = Run(self.random_state, self.n_jobs)
        self._index = NeighborIndex(rows, rule.resolve(rows.shape[0]), run)
        self.n_samples_fit_: int = rows.shape[0]
        self.diagnostics_: dict[str, Any] = self._index.notes
        return rows, run

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return names of the columns: one for each fitted row."""
        check_is_fitted(self, "n_samples_fit_")
        return np.array([f"kneighborstransformer{i}" for i in range(self.n_samples_fit_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _sparse(indices: IntArray, distances: FloatArray, n_fitted: int) -> csr_matrix:
    m, width = indices.shape
    # A matrix, not an array: scanpy and older estimators multiply with *.
    ends = np.arange(0, m * width + 1, width)
    return csr_matrix((distances.reshape(-1), indices.reshape(-1), ends), shape=(m, n_fitted))
