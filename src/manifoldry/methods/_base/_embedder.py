"""The base class of the methods that embed. A method adds its parameters and ``_embed``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.arrays import returned_like, validated_coordinates
from manifoldry._core.chunks import ChunkedData, ChunkSample
from manifoldry._core.parameters import Described, PositiveInt, check_parameters, parameter
from manifoldry._core.registry import announce_fit
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Certificate, Embedding, FloatArray, IntArray, NeighborGraph, Spectrum, Trace
from manifoldry.methods._base._chunks import MAP_PARAMETERS
from manifoldry.methods._base._estimator import (
    ClassNamePrefixFeaturesOutMixin,
    Estimator,
    TransformerMixin,
    as_chunked,
    available_if,
    count_points,
    estimator,
    fitted,
)

if TYPE_CHECKING:
    from manifoldry._numerics.elbow import Suggestion

__all__ = ["Embedder", "Metric", "Seed", "count_points"]

Seed = int | Annotated[Any, Described("a numpy Generator or RandomState")] | None
Metric = str | Callable[..., Any]


class TransformMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Base of the methods that embed, computed here or by scikit-learn."""

    embedding_: FloatArray

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Embed the rows of ``X`` and return their coordinates, shape (n_samples, n_components)."""
        chunks = as_chunked(X)
        if chunks is not None:
            self._check_output_form()
            return self.fit(chunks, y).transform(chunks)
        return returned_like(self.fit(X, y).embedding_, X)

    def transform(self, X: Any) -> FloatArray:
        """Embed new points with the fitted map; individually or in a batch they get the same coordinates.

        Parameters
        ----------
        X : array, sparse matrix or chunked data, of shape (n_new, n_features)
            New points; with precomputed distances, their distances to the fitted points in columns.

        Returns
        -------
        ndarray of shape (n_new, n_components)
            For chunked data and Dask collections the same kind: nothing is computed until they are read.
        """
        check_is_fitted(self)
        chunks = as_chunked(X)
        if chunks is not None:
            return self._map_chunks("transform", chunks)
        return returned_like(self._map_rows(self._validated(X, reset=False)), X)

    @abstractmethod
    def _map_rows(self, rows: Any) -> FloatArray:
        """Return the coordinates of validated rows."""

    def explore(self, X: Any = None, labels: Any = None, color: Any = None) -> Any:
        """Show the embedding in a notebook, as linked panels with a selection that Python can read and set.

        Needs the extra ``notebook``.

        Parameters
        ----------
        X : array, data frame or sparse matrix, optional
            The rows of the fit, or others, which are embedded with ``transform``. Needed to color by reliability or by
            a column, and to fit other methods.
        labels : array-like of shape (n_samples,), optional
            Classes or numbers of the rows, which color the points at first.
        color : str or array-like of shape (n_samples,), optional
            What else the points are colored by at first: "reliability", the name of a column of X, or an entry per row.

        Returns
        -------
        EmbeddingWidget
            Its attributes ``selection``, ``color`` and ``method`` can be read, set and observed.

        Examples
        --------
        >>> from manifoldry import PCA, datasets
        >>> roll = datasets.swiss_roll(300)
        >>> widget = PCA().fit(roll.X).explore(roll.X)
        >>> widget.selection = [5, 2]
        >>> widget.selection
        array([2, 5])
        """
        check_is_fitted(self, "embedding_")
        # The layers above are not imported here, only loaded on request.
        return import_module("manifoldry.viz._widget").EmbeddingWidget(self, X, labels, color)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension of the data, measured from distances to neighbors, and why.

        It does not depend on the ``n_components`` asked for.
        """
        check_is_fitted(self, "diagnostics_")
        if (suggestion := self._measured()) is None:
            raise ValueError("Affinities have no distances to measure a dimension from; fit rows or distances.")
        return suggestion

    def _measured(self) -> Suggestion | None:
        """Return the measured dimension as a suggestion, for a method whose own criterion does not decide."""
        from manifoldry.methods._base._checks import by_dimension

        measured = self.diagnostics_["dimension"]
        return None if measured is None else by_dimension(measured)


@estimator
class RunMixin(Estimator):
    """Parameters of everything that is computed here: seed, threads and progress."""

    random_state: Seed = parameter(
        "Seed or random generator; the same seed gives bit-identical results. Ignored if nothing is random.", default=0
    )
    n_jobs: int | None = parameter(
        "Number of threads; None uses all available CPU cores. The result does not depend on it.", default=None
    )
    verbose: bool | int = parameter(
        "Whether to report stages and progress on the standard error stream.", default=False
    )
    callback: Callable[..., Any] | None = parameter(
        "Function called with a `Progress` object during the fit; if it returns True, the fit stops as soon as it "
        "has a usable result.",
        default=None,
    )

    def _run(self) -> Run:
        return Run(self.random_state, self.n_jobs, self.verbose, self.callback)

    def _keep_results(self, result: Any, names: Iterable[str], run: Run) -> None:
        """Set the named results and ``diagnostics_``, instead of those of an earlier fit."""
        for name in (*(f"{name}_" for name in names), *getattr(self, "_fitted", ())):
            self.__dict__.pop(name, None)
        self._fitted = tuple(result.fitted)
        given = {f"{name}_": getattr(result, name) for name in names}
        vars(self).update({name: value for name, value in given.items() if value is not None} | dict(result.fitted))
        self.diagnostics_ = {
            "seconds": dict(run.seconds),
            "memory": dict(run.memory),
            "stopped": run.stopped,
            **({"device": run.device} if hasattr(self, "device") else {}),
            **result.notes,
        }


@estimator
class DeviceMixin(RunMixin):
    """The parameter ``device`` of methods whose stages have loops for a GPU."""

    device: Literal["cpu", "cuda", "auto"] = parameter(
        'Where the fit and ``transform`` are computed: "cuda" is an NVIDIA GPU, which needs the extra ``gpu``; "auto" '
        'is the GPU if one can be used, otherwise the CPU, and ``diagnostics_["device"]`` says which.',
        default="cpu",
    )

    def _run(self) -> Run:
        return Run(self.random_state, self.n_jobs, self.verbose, self.callback, device=self.device)


def _has_map(model: Any) -> bool:
    """Tell whether ``transform`` exists: a fitted estimator has it if its fit left a map for new points."""
    if hasattr(model, "embedding_") and model._extension is None:
        raise AttributeError(f"{type(model).__name__} has no map for new points of a graph: fit rows or distances.")
    return True


def _has_inverse(model: Any) -> bool:
    """Tell whether ``inverse_transform`` exists: a fitted estimator knows, before that its class."""
    return model._inverse is not None if hasattr(model, "embedding_") else model._invertible


@estimator
class Embedder(TransformMixin, RunMixin):
    """Base of the methods that embed: coordinates, and maps of new points to coordinates and back.

    A subclass declares its parameters under `estimator`, checks them against the data in ``_check_parameters``, and
    computes an `Embedding` in ``_embed``, which is pure: it changes neither the estimator nor its arguments.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates of the fitted points; for chunked data those of the sample.
    graph_ : NeighborGraph
        The neighbor graph.
    spectrum_ : Spectrum
        Eigenvalues, eigenvectors and their residuals.
    trace_ : Trace
        The objective after each iteration, and why the iteration ended.
    certificate_ : Certificate
        The objective, a proven bound, and the gap between them.
    n_iter_ : int
        Number of iterations.
    sampled_rows_ : ndarray
        For chunked data: the numbers of the rows in ``embedding_``.
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, values chosen by "auto".
    """

    n_components: PositiveInt = parameter("Dimension of the embedding.", default=2, kw_only=False)

    # Of the methods that have them:
    graph_: NeighborGraph = fitted()
    spectrum_: Spectrum = fitted()
    trace_: Trace = fitted()
    certificate_: Certificate = fitted()
    n_iter_: int = fitted()
    sampled_rows_: IntArray = fitted()

    _accepts_graphs: ClassVar[bool] = False
    _accepts_sparse: ClassVar[bool] = True
    _extra_metrics: ClassVar[tuple[str, ...]] = ()
    _invertible: ClassVar[bool] = False
    _local_inverse: ClassVar[bool] = False
    """Whether neighbors in the embedding define the inverse transform, unless the method has its own."""
    _of_columns: ClassVar[bool] = False
    """Whether the result is tied to the columns: it follows their order, signs and shifts, but not a rotation."""
    _keeps_rows: ClassVar[bool] = True
    """Whether a fitted model, or its maps, refer to the rows of the fit, which then are a copy of the caller's."""
    _admits_missing: ClassVar[bool] = False
    """Whether rows may have missing entries, NaN, which the method's model covers."""

    def _check_declared(self) -> None:
        check_parameters(self)
        check.metric(self._metric, ("precomputed", *self._extra_metrics))
        check.metric_params(self._metric, getattr(self, "metric_params", None))

    def _fit_points(self, points: Any, y: Any, run: Run) -> Self:
        announce_fit(type(self).__name__, count_points(points), run)
        with one_blas_thread(openmp=False):  # `blas_threads_for` gives large matrices all threads
            self._finish(points, self._embed_with(points, y, run), run)
        return self

    def _fit_chunked(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> None:
        with one_blas_thread(openmp=False):
            self._finish(sample.rows, self._embed_chunks(chunks, sample, run), run)

    def _finish(self, points: Any, embedding: Embedding, run: Run) -> None:
        """Keep the embedding of validated input, and check it."""
        if self._local_inverse and embedding.inverse is None and self._has_rows(points):
            from manifoldry._numerics.extension.local import LocalInverse

            embedding = replace(embedding, inverse=LocalInverse(points, embedding.coordinates))
        if run.interrupted and embedding.trace is not None:
            embedding = replace(embedding, trace=embedding.trace.interrupted())
        self._keep(embedding, run, getattr(points, "dtype", np.dtype(float)))
        points = self._complete(points)
        if "dimension" not in self._notes:
            from manifoldry.methods._base._checks import dimension_later

            parameters = getattr(self, "metric_params", None)
            self._notes["dimension"] = dimension_later(points, self._metric, parameters)
        self._check_layout(points, run)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def _map_rows(self, rows: Any) -> FloatArray:
        run = self._run()
        with run.on_gpu():
            return np.asarray(self._extension(rows, run), dtype=self.embedding_.dtype)

    @available_if(_has_inverse)
    def inverse_transform(self, Y: Any) -> FloatArray:
        """Map coordinates back to points.

        Parameters
        ----------
        Y : array of shape (n_new, n_components)
            Coordinates in the embedding.

        Returns
        -------
        ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self, "embedding_")
        chunks = as_chunked(Y)
        if chunks is not None:
            return self._map_chunks("inverse_transform", chunks)
        coordinates, run = validated_coordinates(Y, self.embedding_.shape[1]), self._run()
        with run.on_gpu():
            points: FloatArray = self._inverse(coordinates, run).astype(self.embedding_.dtype, copy=False)
        return returned_like(points, Y)

    def _complete(self, points: Any) -> Any:
        """Return validated input with nothing missing, as it is measured and compared after the fit."""
        return points

    @abstractmethod
    def _embed(self, X: Any, run: Run) -> Embedding:
        """Embed validated input."""

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:  # noqa: ARG002
        """Embed validated input, with the targets ``y`` where a method has a use for them."""
        return self._embed(X, run)

    def _embed_chunks(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> Embedding:
        """Embed the sampled rows from statistics of all rows, if ``_chunk_support.kind`` is "whole"."""
        raise NotImplementedError

    def _strip_for_transform(self, method: str) -> Self:
        """Return a fitted estimator with nothing but the map that a method needs."""
        used = "_extension" if method == "transform" else "_inverse"
        maps = {"_extension": None, "_inverse": None, used: getattr(self, used)}
        names = (used, "n_features_in_", *MAP_PARAMETERS)
        return self._stripped(names, embedding_=self.embedding_[:0], random_state=self._run().seed, **maps)

    def _check_parameters(self, n_points: int) -> None:
        """Check the parameters against the data; their declared limits are checked before."""
        check.n_components(self.n_components, n_points)

    def _has_rows(self, points: Any) -> bool:
        """Tell whether validated input is rows of features, and not distances, affinities or a graph."""
        return not (self._pairwise or isinstance(points, NeighborGraph))

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Return ``X`` checked: finite numbers in two dimensions, square where it must be, not all the same."""
        if isinstance(X, NeighborGraph):
            if not self._accepts_graphs:
                raise ValueError(f"{type(self).__name__} needs points or distances; got a neighbor graph.")
            check.representable_scale(X.lengths, what="the graph's lengths")
            self.n_features_in_ = X.n_points
            return X
        # n x n distances are copied only where a model keeps them.
        own = reset and self._keeps_rows and not self._pairwise
        X = self._validated_rows(X, reset=reset, sparse=self._accepts_sparse, own=own, missing=self._admits_missing)
        if reset:
            self._check_degenerate(X)
            self._check_representable(X)
        return X

    def _check_representable(self, X: Any) -> None:
        if self._pairwise or issparse(X):
            spread = None if self._pairwise else check.column_spread(X)
            check.representable_scale(X, spread=spread, squares=self._pairwise and self._metric != "precomputed")
        else:
            extent = check.extent(X, self.n_jobs)
            check.representable_scale(X, spread=extent.spread, size=extent.size)

    def _check_degenerate(self, X: Any) -> None:
        if self._pairwise:
            check.pairwise(type(self).__name__, X, self._metric, graphs=self._accepts_graphs)
        else:
            check.distinct_points(X)

    def _keep(self, embedding: Embedding, run: Run, dtype: np.dtype[Any]) -> None:
        precision: Any = dtype if dtype == np.float32 else np.float64
        owned = np.asarray if embedding.unshared else np.array
        self.embedding_: FloatArray = owned(embedding.coordinates, dtype=precision, order="C")
        self._extension: Any = embedding.extension
        self._inverse: Any = embedding.inverse
        self._keep_results(embedding, ("graph", "spectrum", "trace", "certificate"), run)
        if embedding.trace is not None:
            self.n_iter_ = embedding.trace.n_iter
        self._n_features_out = self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = self._pairwise
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.allow_nan = self._admits_missing
        return tags


# scikit-learn wraps ``transform`` for set_output when the class is made, and what it wraps is always available.
Embedder.transform = available_if(_has_map)(Embedder.transform)  # type: ignore[method-assign]
