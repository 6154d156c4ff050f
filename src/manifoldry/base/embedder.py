"""The estimator contract: scikit-learn's, kept to the letter. A method adds a docstring, its words and a step."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from manifoldry import check
from manifoldry.base.estimator import Estimator, stores
from manifoldry.extend.local import backward
from manifoldry.run import Run
from manifoldry.values import Embedding, FloatArray, NeighborGraph


@stores
class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Base of all methods: checks, one run per fit, fitted attributes, new points.

    A subclass declares its parameters under `stores`, refuses bad ones in ``_check_parameters`` and computes an
    `Embedding` in ``_embed``, which is pure: it changes neither the estimator nor its arguments.
    """

    n_components: int = field(default=2, kw_only=False)

    _invertible = False
    _local_inverse = False
    """Whether the way back is the local rule: a place is led to where its neighbors in the embedding came from."""

    def fit(self, X: Any, y: Any = None) -> Self:
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
        self._check_parameters(count_points(points))
        embedding = self._embed_with(points, y, run)
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
        """Tell whether validated input is rows of features, and not distances, affinities or a graph."""
        return not (self._pairwise or isinstance(points, NeighborGraph) or self.metric in self._extra_metrics)

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

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:  # noqa: ARG002
        """Embed validated input, with the targets ``y`` where a method has a use for them."""
        return self._embed(X, run)

    def _check_parameters(self, n_points: int) -> None:
        check.n_components(self.n_components, n_points)

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
        for name, value in embedding.fitted.items():
            setattr(self, name, value)
        if embedding.trace is not None:
            self.n_iter_ = embedding.trace.n_iter
        self._n_features_out = self.embedding_.shape[1]
        self.diagnostics_: dict[str, Any] = {
            "seconds": dict(run.seconds),
            "memory": dict(run.memory),
            "stopped": run.stopped,
            **embedding.notes,
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def count_points(X: Any) -> int:
    """Return the number of points of validated input, rows or a graph."""
    return int(X.n_points if isinstance(X, NeighborGraph) else X.shape[0])
