"""The contract of a clustering: labels, affine subspaces, errors, connectedness. A method adds ``_cluster``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import PositiveInt, check_parameters
from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._core.warnings import EmbeddingWarning, collects, take_collected, warn
from manifoldry.data._chunked import RowBlocks, as_blocks
from manifoldry.data._models import save_estimator
from manifoldry.graph._operations import label_pieces, symmetrize
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.methods._base._advice import report, repr_with_advice
from manifoldry.methods._base._chunks import MAP_PARAMETERS, BlockFit, bare, draw_sample, keep_sample, map_blocks
from manifoldry.methods._base._embedder import Seed
from manifoldry.methods._base._estimator import BaseEstimator, ClusterMixin, estimator, fitted, validated_rows
from manifoldry.methods._base._notebook import clustering_html
from manifoldry.methods.clusters._subspaces import AffineSubspaces

Assign = Callable[[FloatArray, Run], IntArray]
"""New points (n_new, n_features) to labels (n_new,); picklable."""


@dataclass(frozen=True)
class Clustering:
    """The result of a method: labels, and what goes into fitted attributes.

    Every label from 0 to c - 1 occurs, c the number of subspaces; ``assign`` gives those of new points. The less the
    ``objective`` the better; ``objectives`` are those of all starts, the ``trace`` that of the best start (``n_iter``
    where there is none). ``medoids`` and the undirected ``graph`` are there if the method made them. ``notes`` go into
    ``diagnostics_``, ``fitted`` holds further attributes by name.
    """

    labels: IntArray
    subspaces: AffineSubspaces
    assign: Assign
    objective: float
    objectives: FloatArray | None = None
    trace: Trace | None = None
    medoids: IntArray | None = None
    graph: NeighborGraph | None = None
    n_iter: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    fitted: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = np.bincount(self.labels, minlength=len(self.subspaces))
        if len(counts) != len(self.subspaces) or counts.min() == 0:
            raise ValueError(
                f"A clustering needs points in each of its {len(self.subspaces)} clusters and in no other; "
                f"got the sizes {counts.tolist()}."
            )


@estimator
class Clusterer(ClusterMixin, BaseEstimator, ABC):
    """Base of all clusterings: checks, one run per fit, fitted attributes, labels of new points.

    A subclass declares its parameters under `estimator` and computes a `Clustering` in ``_cluster``, which is pure: it
    changes neither the estimator nor its arguments.
    """

    n_components: PositiveInt = 2
    n_neighbors: PositiveInt | Literal["auto"] = "auto"
    random_state: Seed = 0
    n_jobs: int | None = None
    verbose: bool | int = False
    callback: Callable[..., Any] | None = None

    # Of the methods that have them:
    trace_: Trace = fitted()
    medoids_: IntArray = fitted()
    n_iter_: int = fitted()
    sampled_rows_: IntArray = fitted()
    """Of a fit to rows in blocks: the numbers of the rows that have a label in ``labels_``."""

    _blockwise: ClassVar[BlockFit] = BlockFit()

    @collects
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Divide the rows of ``X`` into clusters.

        Parameters
        ----------
        X : array, data frame or rows in blocks, of shape (n_samples, n_features)
            One point per row. Of rows in blocks a sample is divided, and ``predict`` labels all.
        y : ignored
            For pipelines.

        Returns
        -------
        self : estimator
            With ``labels_``, ``subspaces_``, ``localized_``, ``diagnostics_`` and what else the method has.
        """
        run = self._run()
        check_parameters(self)
        self._check_metric()
        blocks = as_blocks(X)
        if blocks is not None:
            return self._fit_blocks(blocks, run)
        self.__dict__.pop("sampled_rows_", None)  # of an earlier fit
        points = self._validated(X, reset=True)
        check.distinct_points(points)
        spread = check.column_spread(points)
        check.representable_scale(points, spread=spread)
        if getattr(self, "metric", "") not in ("precomputed", "gram", "affinity"):
            rounded = check.rounded_away(points, spread)
            if rounded:
                warn(rounded, EmbeddingWarning)
        self._check_parameters(len(points))
        with one_blas_thread(openmp=False):
            clustering = self._cluster(points, run)
        if run.interrupted and clustering.trace is not None:
            clustering = replace(clustering, trace=clustering.trace.interrupted())
        graph = self._graph(points, run)[0] if clustering.graph is None else clustering.graph
        self._keep(points, clustering, graph, run)
        report(self, points, take_collected(self))
        return self

    def _fit_blocks(self, blocks: RowBlocks, run: Run) -> Self:
        """Divide a sample of rows in blocks into clusters."""
        sample = draw_sample(self, blocks, self._blockwise.n_rows, run)
        self.fit(sample.rows)
        keep_sample(self, blocks, sample)
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:  # noqa: ARG002
        """Divide the rows of ``X`` into clusters and return their labels; of rows in blocks those of all, in blocks."""
        blocks = as_blocks(X)
        labels = self.fit(X).labels_ if blocks is None else self.fit(blocks).predict(blocks)
        return cast(NDArray[np.int64], labels)

    def predict(self, X: Any) -> IntArray:
        """Return the clusters of new points, each by itself.

        Parameters
        ----------
        X : array or rows in blocks, of shape (n_new, n_features)
            New points.

        Returns
        -------
        ndarray of shape (n_new,)
            Of rows in blocks, and of Dask collections, the same kind: nothing is computed until they are read.
        """
        check_is_fitted(self, "labels_")
        blocks = as_blocks(X)
        if blocks is not None:
            return map_blocks(self, "predict", blocks)
        points = self._new_points(X)
        return self._assign(points, self._run())

    save = save_estimator

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        """Return columns (0 of one number a row), type and name of what a method makes of rows."""
        if method != "predict":
            raise ValueError(f"{type(self).__name__}.{method} takes rows in memory; got rows in blocks.")
        return 0, np.dtype(np.int64), "cluster"

    def _map_alone(self, method: str) -> Self:  # noqa: ARG002
        """Return a fitted clustering with nothing but what labels new points."""
        alone: Self = bare(
            self, ("_assign", "n_features_in_", *MAP_PARAMETERS), labels_=self.labels_[:0], random_state=0
        )
        return alone

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr_with_advice(super().__repr__(N_CHAR_MAX), self)

    def _html_repr(self) -> str:
        """Return what scikit-learn's ``_repr_html_`` and ``_repr_mimebundle_`` show in a notebook."""
        return clustering_html(self) if hasattr(self, "diagnostics_") else super()._html_repr()

    def _new_points(self, X: Any) -> FloatArray:
        """Return points for a fitted clustering, validated and in double precision."""
        check_is_fitted(self, "labels_")
        return self._validated(X, reset=False)

    def _run(self) -> Run:
        return Run(self.random_state, self.n_jobs, self.verbose, self.callback)

    def _validated(self, X: Any, *, reset: bool) -> FloatArray:
        rows: FloatArray = validated_rows(self, X, reset=reset, sparse=False, own=reset)
        return rows.astype(np.float64, copy=False)

    @abstractmethod
    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        """Divide validated points (n, d), in double precision, into clusters."""

    def _rank(self, X: FloatArray) -> int:
        """Return the dimension of the subspaces: no more than the space has."""
        return min(self.n_components, X.shape[1])

    def _neighbor_rule(self) -> NeighborRule:
        return NeighborRule(self.n_neighbors, metric=self._metric)

    def _graph(self, X: FloatArray, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
        """Return the undirected neighbor graph of the points, and the index for new ones."""
        neighbors, index = neighbor_graph(X, self._neighbor_rule().resolve(len(X)), run)
        return symmetrize(neighbors), index

    def _check_parameters(self, n_points: int) -> None:
        """Refuse parameters that do not fit the data; their declared limits are checked before."""
        self._neighbor_rule().resolve(n_points)
        n_clusters = getattr(self, "n_clusters", "auto")
        if n_clusters != "auto":
            check.integer("n_clusters", n_clusters, 1, n_points, f" for {n_points} points")

    @property
    def _metric(self) -> Any:
        return getattr(self, "metric", "euclidean")

    def _check_metric(self) -> None:
        if self._metric in ("precomputed", "gram"):
            raise ValueError(
                f"{type(self).__name__} needs points, because clusters have subspaces; got metric={self._metric!r}: "
                "embed the distances first (ClassicalMDS)."
            )
        check.metric(self._metric, ())

    def _keep(self, X: FloatArray, clustering: Clustering, graph: NeighborGraph, run: Run) -> None:
        self.labels_: IntArray = clustering.labels.astype(np.int64, copy=False)
        self.n_clusters_ = len(clustering.subspaces)
        self.subspaces_: AffineSubspaces = clustering.subspaces
        self.graph_: NeighborGraph = graph
        self.objective_ = float(clustering.objective)
        starts = clustering.objectives
        self.objectives_: FloatArray = np.array([self.objective_]) if starts is None else starts
        self.reconstruction_errors_: FloatArray = clustering.subspaces.errors(X, clustering.labels)
        self.reconstruction_error_ = float(self.reconstruction_errors_.sum())
        self.localized_: Any = np.bincount(label_pieces(clustering.labels, graph)[1]) == 1
        self.n_nonlocalized_ = int(np.count_nonzero(~self.localized_))
        self._assign: Assign = clustering.assign
        for name in ("trace", "medoids"):
            value = getattr(clustering, name)
            if value is not None:
                setattr(self, f"{name}_", value)
            elif hasattr(self, f"{name}_"):
                delattr(self, f"{name}_")  # of an earlier fit
        for name, value in clustering.fitted.items():
            setattr(self, name, value)
        n_iter = clustering.n_iter if clustering.trace is None else clustering.trace.n_iter
        if n_iter is not None:
            self.n_iter_ = n_iter
        self.diagnostics_: dict[str, Any] = {
            "seconds": dict(run.seconds),
            "memory": dict(run.memory),
            "stopped": run.stopped,
            **clustering.notes,
        }
