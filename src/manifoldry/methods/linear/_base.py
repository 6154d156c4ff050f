"""What the linear methods share: the attributes of an explicit map, projections of graphs, and densities of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import PositiveShare, parameter
from manifoldry._core.values import Embedding, FloatArray, Trace
from manifoldry._numerics.extension.linear import LinearInverse, LinearMap
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry.data._chunked import as_chunked
from manifoldry.methods._base import Embedder, Metric, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, VARIANCE_TEXT


@estimator
class LinearMixin(Embedder):
    """Attributes of an explicit linear map.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map: ``transform(X)`` is ``(X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        The mean of the rows.
    """

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True


def linear_embedding(
    scores: FloatArray,
    mean: FloatArray,
    components: FloatArray,
    trace: Trace,
    notes: dict[str, Any],
    *,
    inverse: FloatArray | None = None,
    **attributes: Any,
) -> Embedding:
    """Return the embedding by a linear map; ``inverse`` are directions of the inverse map if they are others."""
    return Embedding(
        scores,
        trace=trace,
        extension=LinearMap(mean, components),
        inverse=LinearInverse(mean, components if inverse is None else inverse),
        notes=notes,
        fitted={"components_": components, "mean_": mean, **attributes},
    )


@estimator
class GraphProjectionMixin(Embedder):
    """Parameters of the projections that keep something of a neighbor graph.

    Attributes
    ----------
    spectrum_ : Spectrum
        Eigenvalues, ascending; the vectors are the projected points.
    diagnostics_ : dict
        Seconds, memory, components, bridges and the ``rank`` of the data.
    """

    metric: Metric = parameter(
        f"{DISTANCES_METRIC_TEXT} The map is then one of the Euclidean points that have these distances.",
        default="euclidean",
    )
    variance: PositiveShare = parameter(VARIANCE_TEXT, default=1.0)

    _invertible = True
    _chunk_support = ChunkSupport(n_rows=50_000)


@estimator
class DensityMixin(LinearMixin):
    """Likelihoods of rows and random rows, of a method whose model is a density."""

    @abstractmethod
    def _log_densities(self, rows: FloatArray) -> FloatArray:
        """Return the log-density of each row."""

    @abstractmethod
    def _random_points(self, latent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the points of latent coordinates, and the standard deviations of the noise of the columns."""

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log-density of each row, shape (n,).

        Parameters
        ----------
        X : array or chunked data of shape (n, n_features)
            Rows.
        """
        check_is_fitted(self, "embedding_")
        chunks = as_chunked(X)
        if chunks is not None:
            mapped: FloatArray = self._map_chunks("score_samples", chunks)
            return mapped
        return self._log_densities(dense(self._validated(X, reset=False)))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of rows in memory."""
        return float(self.score_samples(self._validated(X, reset=False)).mean())

    def sample(self, n_samples: int = 1) -> FloatArray:
        """Return random rows of the fitted density, shape (n_samples, n_features)."""
        check_is_fitted(self, "embedding_")
        count, rng = check.integer("n_samples", n_samples, 1), self._run().rng("sample")
        points, deviations = self._random_points(rng.standard_normal((count, self.embedding_.shape[1])))
        return points + deviations * rng.standard_normal(points.shape)

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        return (0, np.dtype(np.float64), "log_density") if method == "score_samples" else super()._output_of(method)

    def _strip_for_transform(self, method: str) -> Self:
        return super()._strip_for_transform("transform" if method == "score_samples" else method)
