"""The estimator contract: scikit-learn's, kept to the letter. A method adds a docstring, its words and a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from manifoldry import check
from manifoldry.extend.local import backward
from manifoldry.run import Run
from manifoldry.values import Embedding, FloatArray, NeighborGraph

C = TypeVar("C", bound=type)
PAIRWISE = ("precomputed", "gram")


@dataclass_transform(eq_default=False, kw_only_default=True)
def stores(cls: C) -> C:
    """Make the annotated names of an estimator class its constructor's parameters, which it stores and nothing else.

    A dataclass, in other words, so that a method declares a parameter once. All but ``n_components`` are keywords.
    """
    return cast(C, dataclass(eq=False, repr=False, kw_only=True)(cls))


@stores
class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of all methods: checks, one run per fit, fitted attributes, new points.

    A subclass declares its parameters under `stores`, refuses bad ones in ``_check_parameters`` and computes an
    `Embedding` in ``_embed``, which is pure: it changes neither the estimator nor its arguments.
    """

    n_components: int = field(default=2, kw_only=False)
    random_state: Any = 0
    n_jobs: int | None = None
    verbose: bool = False
    callback: Any = None

    metric = "euclidean"

    _takes_graphs = False
    _least_points = 2
    _invertible = False
    _local_inverse = False
    """Whether the way back is the local rule: a place is led to where its neighbours in the embedding came from."""
    _metrics_beside: ClassVar[tuple[str, ...]] = ()

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Embed the rows of ``X``.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            One point per row; or what ``metric`` says: pairwise distances or a graph.
        y : ignored
            For pipelines.

        Returns
        -------
        self : estimator
            With ``embedding_``, ``diagnostics_`` and what else the method has.
        """
        run = self._run()
        self._check_metric()
        points = self._validated(X, reset=True)
        self._check_parameters(_n_points(points))
        embedding = self._embed(points, run)
        if self._local_inverse and embedding.inverse is None and self._rows(points):
            embedding = replace(embedding, inverse=backward(points, embedding.coordinates, run))
        self._keep(embedding, run, getattr(points, "dtype", np.dtype(float)))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Embed the rows of ``X`` and return their coordinates, shape (n_samples, n_components)."""
        return self.fit(X, y).embedding_

    def transform(self, X: Any) -> FloatArray:
        """Place new points in the embedding found by ``fit``; one by one or in a batch gives the same.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_new, n_features)
            New points; with precomputed distances, their distances to the fitted points in columns.

        Returns
        -------
        ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self, "embedding_")
        points = self._validated(X, reset=False)
        run = self._run()
        placed: FloatArray = self._extension(points, run)
        return placed.astype(self.embedding_.dtype, copy=False)

    def _rows(self, points: Any) -> bool:
        """Tell whether validated input is rows of features, and not distances, ties or a graph."""
        return not (self._pairwise or isinstance(points, NeighborGraph) or self.metric in self._metrics_beside)

    def _has_inverse(self) -> bool:
        """Tell whether ``inverse_transform`` exists: of a fitted estimator by its fit, before by its card."""
        if hasattr(self, "embedding_"):
            return self._inverse is not None
        return self._invertible

    @available_if(_has_inverse)
    def inverse_transform(self, Y: Any) -> FloatArray:
        """Lead coordinates back to points.

        Parameters
        ----------
        Y : array of shape (n_new, n_components)
            Places in the embedding.

        Returns
        -------
        ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self, "embedding_")
        places = check_array(Y, dtype=[np.float64, np.float32])
        if places.shape[1] != self.embedding_.shape[1]:
            raise ValueError(
                f"Coordinates need the embedding's {self.embedding_.shape[1]} columns; got {places.shape[1]}."
            )
        points: FloatArray = self._inverse(places, self._run())
        return points.astype(self.embedding_.dtype, copy=False)

    @abstractmethod
    def _embed(self, X: Any, run: Run) -> Embedding:
        """Embed validated input."""

    def _check_parameters(self, n_points: int) -> None:
        check.n_components(self.n_components, n_points)

    def _check_metric(self) -> None:
        if isinstance(self.metric, str):
            check.metric(self.metric, ("precomputed", *self._metrics_beside))
        elif not callable(self.metric):
            raise ValueError(f"metric must be a name or a function of two rows; got {self.metric!r}.")

    def _run(self) -> Run:
        return Run(self.random_state, self.n_jobs, self.verbose, self.callback)

    def _keep(self, embedding: Embedding, run: Run, dtype: np.dtype[Any]) -> None:
        kept = dtype if dtype == np.float32 else np.dtype(np.float64)
        self.embedding_: FloatArray = np.ascontiguousarray(embedding.coordinates, dtype=kept)
        self._extension: Any = embedding.extension
        self._inverse: Any = embedding.inverse
        for name in ("graph", "spectrum", "trace", "certificate"):
            value = getattr(embedding, name)
            if value is not None:
                setattr(self, f"{name}_", value)
            elif hasattr(self, f"{name}_"):
                delattr(self, f"{name}_")  # of an earlier fit
        if embedding.trace is not None:
            self.n_iter_ = embedding.trace.n_iter
        self._n_features_out = self.embedding_.shape[1]
        self.diagnostics_: dict[str, Any] = {
            "seconds": dict(run.seconds),
            "memory": dict(run.memory),
            "stopped": run.stopped,
            **embedding.notes,
        }

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.metric, str) and self.metric in PAIRWISE

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Return ``X`` checked: finite numbers in two dimensions, square where it must be, not all the same."""
        if isinstance(X, NeighborGraph):
            if not self._takes_graphs:
                raise ValueError(f"{type(self).__name__} needs points or distances; got a neighbour graph.")
            self.n_features_in_ = X.n_points
            return X
        _refuse_shapes_and_text(X)
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=self._least_points if reset else 1,
            )
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise ValueError(f"X must hold numbers; {error}: encode or drop such columns.") from None
        entries = X.data if issparse(X) else X
        bad = entries.size - int(np.count_nonzero(np.isfinite(entries)))
        if bad:
            raise ValueError(
                f"X contains NaN or infinity in {bad} of its entries; {type(self).__name__} needs finite numbers: "
                "drop or impute those rows."
            )
        if reset:
            self._refuse_degenerate(X)
        return X

    def _refuse_degenerate(self, X: Any) -> None:
        if not self._pairwise:
            check.distinct_points(X)
        elif issparse(X):
            if not self._takes_graphs:
                raise ValueError(
                    f"{type(self).__name__} needs all pairwise distances; got a sparse graph: pass X.toarray() only "
                    "if every distance is stored."
                )
            check.square_graph(X)
        elif self.metric == "precomputed":
            check.square_distances(X)
        else:
            check.square_gram(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _n_points(X: Any) -> int:
    return int(X.n_points if isinstance(X, NeighborGraph) else X.shape[0])


def _refuse_shapes_and_text(X: Any) -> None:
    if issparse(X):
        return
    array = X if hasattr(X, "ndim") and hasattr(X, "shape") else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"X must be two-dimensional, one row per point; got shape {tuple(array.shape)}. "
            "Reshape your data with X.reshape(-1, 1) for one column or X.reshape(1, -1) for one row."
        )
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers; pass real and imaginary columns.")
    if kind and kind in "USmM":
        raise ValueError(f"X must hold numbers; got entries of type {array.dtype}: encode them first.")
