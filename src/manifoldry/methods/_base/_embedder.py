"""The estimator contract: scikit-learn's, kept to the letter. A method adds its parameters and ``_embed``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import Described, PositiveInt, check_parameters
from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import Certificate, Embedding, FloatArray, IntArray, NeighborGraph, Spectrum, Trace
from manifoldry._core.warnings import collects
from manifoldry._numerics.elbow import Suggestion
from manifoldry._numerics.extension.local import LocalInverse
from manifoldry._numerics.geometry.dimension import IntrinsicDimension, intrinsic_dimension
from manifoldry.data._chunked import BlockSample, RowBlocks, as_blocks
from manifoldry.data._models import save_estimator
from manifoldry.methods._base._advice import by_dimension, repr_with_advice
from manifoldry.methods._base._checks import keep_advice
from manifoldry.methods._base._chunks import (
    MAP_PARAMETERS,
    BlockFit,
    bare,
    draw_sample,
    keep_sample,
    map_blocks,
    refuse_output,
    sampled_targets,
)
from manifoldry.methods._base._estimator import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    available_if,
    estimator,
    fitted,
    validated_places,
    validated_rows,
)
from manifoldry.methods._base._notebook import embedding_html

Seed = int | Annotated[Any, Described("a numpy Generator or RandomState")] | None
Metric = str | Callable[..., Any]


def _has_map(model: Any) -> bool:
    """Tell whether ``transform`` exists: a fitted estimator has it if its fit left a map for new points."""
    if hasattr(model, "embedding_") and model._extension is None:
        raise AttributeError(f"{type(model).__name__} has no map for new points of a graph: fit rows or distances.")
    return True


def _has_inverse(model: Any) -> bool:
    """Tell whether ``inverse_transform`` exists: of a fitted estimator by its fit, before by its class."""
    return model._inverse is not None if hasattr(model, "embedding_") else model._invertible


@estimator
class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of all methods: checks, one run per fit, fitted attributes, new points.

    A subclass declares its parameters under `estimator`, refuses in ``_check_parameters`` what depends on the data, and
    computes an `Embedding` in ``_embed``, which is pure: it changes neither the estimator nor its arguments.
    """

    n_components: PositiveInt = field(default=2, kw_only=False)
    random_state: Seed = 0
    n_jobs: int | None = None
    verbose: bool | int = False
    callback: Callable[..., Any] | None = None

    # Of the methods that have them:
    graph_: NeighborGraph = fitted()
    spectrum_: Spectrum = fitted()
    trace_: Trace = fitted()
    certificate_: Certificate = fitted()
    n_iter_: int = fitted()
    sampled_rows_: IntArray = fitted()
    """Of a fit to rows in blocks: the numbers of the rows that have a place in ``embedding_``."""

    _takes_graphs: ClassVar[bool] = False
    _takes_sparse: ClassVar[bool] = True
    _extra_metrics: ClassVar[tuple[str, ...]] = ()
    _invertible: ClassVar[bool] = False
    _local_inverse: ClassVar[bool] = False
    """Whether a place is led back to the rows by its neighbors in the embedding, unless the method knows better."""
    _of_columns: ClassVar[bool] = False
    """Whether the result is tied to the columns: it follows their order, signs and shifts, but not a rotation."""
    _admits_missing: ClassVar[bool] = False
    """Whether rows may have missing entries, NaN, which the method's model then has a place for."""
    _blockwise: ClassVar[BlockFit] = BlockFit()

    @collects
    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the rows of ``X``.

        Parameters
        ----------
        X : array, data frame, sparse matrix or rows in blocks, of shape (n_samples, n_features)
            One point per row; or what ``metric`` says: pairwise distances or a graph. Of rows in blocks (`row_blocks`,
            Dask collections) ``embedding_`` has those of ``sampled_rows_``, and ``transform`` places all.
        y : array of shape (n_samples,), optional
            Targets, used by methods that have a ``target_weight`` above 0; else ignored, for pipelines.

        Returns
        -------
        self : estimator
            With ``embedding_``, ``diagnostics_`` and what else the method has.
        """
        run = self._run()
        check_parameters(self)
        check.metric(self._metric, ("precomputed", *self._extra_metrics))
        check.metric_params(self._metric, getattr(self, "metric_params", None))
        blocks = as_blocks(X)
        if blocks is not None:
            return self._fit_blocks(blocks, y, run)
        points = self._validated(X, reset=True)
        self._check_parameters(count_points(points))
        self.__dict__.pop("sampled_rows_", None)  # of an earlier fit
        return self._fit_points(points, run, lambda: self._embed_with(points, y, run))

    def _fit_blocks(self, blocks: RowBlocks, y: Any, run: Run) -> Self:
        """Fit to rows in blocks: to all of them where the method can, else to a sample."""
        sample = draw_sample(self, blocks, self._sample_size(), run)
        points, targets = self._validated(sample.rows, reset=True), sampled_targets(y, sample)
        self._check_parameters(count_points(points))
        if sample.whole or self._blockwise.kind == "sample":
            self._fit_points(points, run, lambda: self._embed_with(points, targets, run))
        else:
            self._fit_points(
                points, run, lambda: self._embed_blocks(blocks, replace(sample, rows=points, targets=targets), run)
            )
        keep_sample(self, blocks, sample)
        return self

    def _fit_points(self, points: Any, run: Run, embed: Callable[[], Embedding]) -> Self:
        """Embed validated input, and keep the result with what there is to say about it."""
        with one_blas_thread(openmp=False):  # `blas_threads_for` gives large matrices all threads
            embedding = embed()
            if self._local_inverse and embedding.inverse is None and self._has_rows(points):
                embedding = replace(embedding, inverse=LocalInverse(points, embedding.coordinates))
            if run.interrupted and embedding.trace is not None:
                embedding = replace(embedding, trace=embedding.trace.interrupted())
            self._keep(embedding, run, getattr(points, "dtype", np.dtype(float)))
            points = self._complete(points)
            if "dimension" not in self.diagnostics_:
                self.diagnostics_["dimension"] = self._dimension(points)
            keep_advice(self, points, run)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Embed the rows of ``X`` and return their coordinates, shape (n_samples, n_components)."""
        blocks = as_blocks(X)
        if blocks is not None:
            refuse_output(self)
            return self.fit(blocks, y).transform(blocks)
        return self.fit(X, y).embedding_

    def transform(self, X: Any) -> FloatArray:
        """Place new points in the embedding found by ``fit``; one by one or in a batch gives the same.

        Parameters
        ----------
        X : array, sparse matrix or rows in blocks, of shape (n_new, n_features)
            New points; with precomputed distances, their distances to the fitted points in columns.

        Returns
        -------
        ndarray of shape (n_new, n_components)
            Of rows in blocks, and of Dask collections, the same kind: nothing is computed until they are read.
        """
        check_is_fitted(self, "embedding_")
        blocks = as_blocks(X)
        if blocks is not None:
            return map_blocks(self, "transform", blocks)
        points = self._validated(X, reset=False)
        return np.asarray(self._extension(points, self._run()), dtype=self.embedding_.dtype)

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
        blocks = as_blocks(Y)
        if blocks is not None:
            return map_blocks(self, "inverse_transform", blocks)
        places = validated_places(Y, self.embedding_.shape[1])
        points: FloatArray = self._inverse(places, self._run())
        return points.astype(self.embedding_.dtype, copy=False)

    save = save_estimator

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension of the data, measured from distances to neighbors, and why.

        It does not depend on the ``n_components`` asked for.
        """
        check_is_fitted(self, "embedding_")
        if (found := self._measured()) is None:
            raise ValueError("Affinities have no distances to measure a dimension from; fit rows or distances.")
        return found

    def _complete(self, points: Any) -> Any:
        """Return validated input with nothing missing, as it is measured and compared after the fit."""
        return points

    def _dimension(self, points: Any) -> IntrinsicDimension | None:
        """Return the measured dimension of validated input; affinities and sparse inner products have no distances."""
        if self._metric == "affinity" or (self._metric == "gram" and issparse(points)):
            return None
        return intrinsic_dimension(points, self._metric, getattr(self, "metric_params", None))

    def _measured(self) -> Suggestion | None:
        """Return the measured dimension as a suggestion, for a method whose own criterion does not decide."""
        measured = self.diagnostics_["dimension"]
        return None if measured is None else by_dimension(measured)

    @abstractmethod
    def _embed(self, X: Any, run: Run) -> Embedding:
        """Embed validated input."""

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:  # noqa: ARG002
        """Embed validated input, with the targets ``y`` where a method has a use for them."""
        return self._embed(X, run)

    def _embed_blocks(self, blocks: RowBlocks, sample: BlockSample, run: Run) -> Embedding:
        """Embed the sampled rows, with account taken of all rows: of methods whose ``_blockwise`` says "whole"."""
        raise NotImplementedError

    def _sample_size(self) -> int:
        """Return how many of the rows in blocks a fit samples at most."""
        return self._blockwise.n_rows

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        """Return columns, type and names of what a method makes of rows."""
        if method == "transform":
            return self.embedding_.shape[1], self.embedding_.dtype, list(self.get_feature_names_out())
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return self.n_features_in_, self.embedding_.dtype, list(names)

    def _map_alone(self, method: str) -> Self:
        """Return a fitted estimator with nothing but the map that a method needs."""
        own = ("_extension" if method == "transform" else "_inverse", "n_features_in_", *MAP_PARAMETERS)
        maps = {"_extension": None, "_inverse": None, own[0]: getattr(self, own[0])}
        alone: Self = bare(self, own, embedding_=self.embedding_[:0], random_state=self._run().seed, **maps)
        return alone

    def _check_parameters(self, n_points: int) -> None:
        """Refuse parameters that do not fit the data; their declared limits are checked before."""
        check.n_components(self.n_components, n_points)

    def _run(self) -> Run:
        return Run(self.random_state, self.n_jobs, self.verbose, self.callback)

    @property
    def _metric(self) -> Any:
        return getattr(self, "metric", "euclidean")

    @property
    def _pairwise(self) -> bool:
        """Whether ``X`` holds distances, inner products or affinities instead of rows of features."""
        return isinstance(self._metric, str) and self._metric in ("precomputed", "gram", "affinity")

    def _has_rows(self, points: Any) -> bool:
        """Tell whether validated input is rows of features, and not distances, affinities or a graph."""
        return not (self._pairwise or isinstance(points, NeighborGraph))

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Return ``X`` checked: finite numbers in two dimensions, square where it must be, not all the same."""
        if isinstance(X, NeighborGraph):
            if not self._takes_graphs:
                raise ValueError(f"{type(self).__name__} needs points or distances; got a neighbor graph.")
            check.representable_scale(X.lengths, what="the graph's lengths")
            self.n_features_in_ = X.n_points
            return X
        own = reset and not self._pairwise  # n x n distances are copied only where a model keeps them
        X = validated_rows(self, X, reset=reset, sparse=self._takes_sparse, own=own, missing=self._admits_missing)
        if reset:
            self._refuse_degenerate(X)
            self._refuse_unrepresentable(X)
        return X

    def _refuse_unrepresentable(self, X: Any) -> None:
        spread = None if self._pairwise else check.column_spread(X)
        check.representable_scale(X, spread=spread, squares=self._pairwise and self._metric != "precomputed")

    def _refuse_degenerate(self, X: Any) -> None:
        if self._pairwise:
            check.pairwise(type(self).__name__, X, self._metric, graphs=self._takes_graphs)
        else:
            check.distinct_points(X)

    def _keep(self, embedding: Embedding, run: Run, dtype: np.dtype[Any]) -> None:
        kept: Any = dtype if dtype == np.float32 else np.float64
        self.embedding_: FloatArray = np.array(embedding.coordinates, dtype=kept, order="C")
        self._extension: Any = embedding.extension
        self._inverse: Any = embedding.inverse
        for name in ("graph", "spectrum", "trace", "certificate"):
            value = getattr(embedding, name)
            if value is not None:
                setattr(self, f"{name}_", value)
            elif hasattr(self, f"{name}_"):
                delattr(self, f"{name}_")  # of an earlier fit
        for name in getattr(self, "_fitted", ()):
            self.__dict__.pop(name, None)  # of an earlier fit
        self._fitted = tuple(embedding.fitted)
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

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr_with_advice(super().__repr__(N_CHAR_MAX), self)

    def _html_repr(self) -> str:
        """Return what scikit-learn's ``_repr_html_`` and ``_repr_mimebundle_`` show in a notebook."""
        return embedding_html(self) if hasattr(self, "diagnostics_") else super()._html_repr()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.pairwise = self._pairwise
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.allow_nan = self._admits_missing
        return tags


# scikit-learn wraps ``transform`` for set_output when the class is made, and what it wraps is always available.
Embedder.transform = available_if(_has_map)(Embedder.transform)  # type: ignore[method-assign]


def count_points(X: Any) -> int:
    """Return the number of points of validated input, rows or a graph."""
    return int(X.n_points if isinstance(X, NeighborGraph) else X.shape[0])
