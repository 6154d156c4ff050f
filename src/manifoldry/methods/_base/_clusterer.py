"""The contract of a clustering: labels, affine subspaces, errors, connectedness. A method adds ``_cluster``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import PositiveInt, check_parameters, parameter
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._core.warnings import EmbeddingWarning, warn
from manifoldry.graph._operations import label_components, symmetrize
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.methods._base._chunks import MAP_PARAMETERS
from manifoldry.methods._base._embedder import RunMixin
from manifoldry.methods._base._estimator import ClusterMixin, as_chunked, estimator, fitted
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
class Clusterer(ClusterMixin, RunMixin):
    """Base of all clusterings: labels, affine subspaces, and labels of new points.

    A subclass declares its parameters under `estimator` and computes a `Clustering` in ``_cluster``, which is pure: it
    changes neither the estimator nor its arguments.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point.
    n_clusters_ : int
        Number of clusters.
    subspaces_ : AffineSubspaces
        Means, bases and variances of the affine subspaces of the clusters.
    reconstruction_errors_ : ndarray of shape (n_samples,)
        Squared distance of each point to its subspace.
    reconstruction_error_ : float
        Sum of these squared distances.
    objective_ : float
        The objective for the start that was kept.
    objectives_ : ndarray of shape (n_init,)
        The objectives of all starts.
    trace_ : Trace
        The objective after every step of the start that was kept.
    medoids_ : ndarray of shape (n_clusters,)
        Indices of the medoids.
    localized_ : ndarray of shape (n_clusters,)
        Whether each cluster is connected in the neighbor graph.
    n_nonlocalized_ : int
        Number of clusters that are not connected.
    graph_ : NeighborGraph
        The undirected neighbor graph.
    n_iter_ : int
        Number of iterations.
    sampled_rows_ : ndarray
        For chunked data: the numbers of the rows in ``labels_``.
    diagnostics_ : dict
        Seconds and memory.
    """

    n_components: PositiveInt = parameter("Dimension of the affine subspaces in ``subspaces_``.", default=2)
    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of neighbors in the graph in which ``localized_`` tests clusters; "auto" is 10.', default="auto"
    )

    # Of the methods that have them:
    trace_: Trace = fitted()
    medoids_: IntArray = fitted()
    n_iter_: int = fitted()
    sampled_rows_: IntArray = fitted()

    def _check_declared(self) -> None:
        check_parameters(self)
        self._check_metric()

    def _fit_points(self, points: FloatArray, y: Any, run: Run) -> Self:  # noqa: ARG002
        rounded = check.rounding_message(points, run.n_jobs)
        if rounded:
            warn(rounded, EmbeddingWarning)
        with one_blas_thread(openmp=False):
            clustering = self._cluster(points, run)
        if run.interrupted and clustering.trace is not None:
            clustering = replace(clustering, trace=clustering.trace.interrupted())
        graph = self._graph(points, run)[0] if clustering.graph is None else clustering.graph
        self._keep(points, clustering, graph, run)
        self._report(points)
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:  # noqa: ARG002
        """Divide the rows of ``X`` into clusters and return their labels; for chunked data those of all rows."""
        chunks = as_chunked(X)
        labels = self.fit(X).labels_ if chunks is None else self.fit(chunks).predict(chunks)
        return cast(NDArray[np.int64], labels)

    def predict(self, X: Any) -> IntArray:
        """Return the clusters of new points, each point on its own.

        Parameters
        ----------
        X : array or chunked data, of shape (n_new, n_features)
            New points.

        Returns
        -------
        ndarray of shape (n_new,)
            For chunked data and Dask collections the same kind: nothing is computed until they are read.
        """
        check_is_fitted(self, "labels_")
        chunks = as_chunked(X)
        if chunks is not None:
            labels: IntArray = self._map_chunks("predict", chunks)
            return labels
        return self._assign(self._new_points(X), self._run())

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        """Return columns (0 for one number per row), type and name of the output of a method."""
        if method != "predict":
            raise ValueError(f"{type(self).__name__}.{method} takes rows in memory; got chunked data.")
        return 0, np.dtype(np.int64), "cluster"

    def _strip_for_transform(self, method: str) -> Self:  # noqa: ARG002
        """Return a fitted clustering with nothing but what labels new points."""
        names = ("_assign", "n_features_in_", *MAP_PARAMETERS)
        return self._stripped(names, labels_=self.labels_[:0], random_state=0)

    def _new_points(self, X: Any) -> FloatArray:
        """Return points for a fitted clustering, validated and in double precision."""
        check_is_fitted(self, "labels_")
        return self._validated(X, reset=False)

    def _validated(self, X: Any, *, reset: bool) -> FloatArray:
        rows: FloatArray = self._validated_rows(X, reset=reset, sparse=False, own=reset)
        points = rows.astype(np.float64, copy=False)
        if reset:
            check.distinct_points(points)
            check.representable_scale(points, spread=check.column_spread(points))
        return points

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
        """Check the parameters against the data; their declared limits are checked before."""
        self._neighbor_rule().resolve(n_points)
        n_clusters = getattr(self, "n_clusters", "auto")
        if n_clusters != "auto":
            check.integer("n_clusters", n_clusters, 1, n_points, f" for {n_points} points")

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
        self.localized_: Any = np.bincount(label_components(clustering.labels, graph)[1]) == 1
        self.n_nonlocalized_ = int(np.count_nonzero(~self.localized_))
        self._assign: Assign = clustering.assign
        self._keep_results(clustering, ("trace", "medoids"), run)
        n_iter = clustering.n_iter if clustering.trace is None else clustering.trace.n_iter
        if n_iter is not None:
            self.n_iter_ = n_iter
