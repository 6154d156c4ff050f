"""Subspaces, medoids and labels, each improved while the others are fixed: Algorithm 4 of khajehpour2013.

The one loop behind LDLC, VQPCA, geodesic k-medoids and GPCA; numbers in brackets are equations of the source. At the
end k-means, which is scikit-learn's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from manifoldry._core.parameters import NonNegative, PositiveInt, parameter
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Stop, Trace
from manifoldry.graph._operations import label_components
from manifoldry.graph._search import NeighborIndex
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import DECREASE_TEXT, N_CLUSTERS_TEXT, STARTS_TEXT, STEPS_TEXT
from manifoldry.methods.clusters._geodesics import Geodesics
from manifoldry.methods.clusters._subspaces import AffineSubspaces, squared_distances

T = TypeVar("T")

MAX_CONNECTED = 10
"""Maximum number of rounds that connect the clusters and descend again; 270 starts on Frey faces used at most 5."""


@dataclass(frozen=True)
class Problem:
    r"""The objective (4.9) :math:`\psi = \sum_i (1 - \rho)\, e_{i \ell_i}^2 + \rho\, d_G^2(x_i, m_{\ell_i})`.

    At ``rho`` 1 no subspaces are computed, at 0 no geodesics are needed. With ``graph`` clusters are connected last.
    """

    X: FloatArray
    n_components: int
    rho: float
    geodesics: Geodesics | None
    max_iter: int
    tol: float
    graph: NeighborGraph | None = None

    def seeds(self, n_clusters: int, rng: np.random.Generator) -> IntArray:
        """Return ``n_clusters`` random points, one in each component first."""
        order = rng.permutation(len(self.X))
        if self.geodesics is None:
            return order[:n_clusters]
        _, first = np.unique(self.geodesics.component[order], return_index=True)
        return np.concatenate([order[np.sort(first)], np.delete(order, first)])[:n_clusters]


@dataclass(frozen=True)
class Outcome:
    """The end of one start: labels 0 to c - 1, medoids, trace; ``joined`` points changed cluster to connect all."""

    labels: IntArray
    medoids: IntArray
    trace: Trace
    joined: int = 0

    @property
    def objective(self) -> float:
        """The objective reached."""
        return float(self.trace.objective[-1])


def finished_starts(
    start: Callable[..., T], tasks: Sequence[tuple[Any, ...]], run: Run, stage: str = "clusters"
) -> list[T]:
    """Return the results of all starts, or of those before a callback stopped the fit, one at least."""
    with run.stage(stage), run.stoppable():
        done = run.map(start, tasks, blas=True, stoppable=True)
        return [result for result in done if result is not None] or [start(*tasks[0])]


def best_of(problem: Problem, n_clusters: int, n_init: int, run: Run) -> tuple[Outcome, FloatArray]:
    """Return the best outcome of ``n_init`` random starts (the first, of equals) and the objectives of all."""
    tasks = [(problem, problem.seeds(n_clusters, run.rng(f"start {number}"))) for number in range(n_init)]
    done = finished_starts(alternate, tasks, run)
    objectives = np.array([outcome.objective for outcome in done])
    return done[int(np.argmin(objectives))], objectives


def alternate(problem: Problem, seeds: IntArray, labels: IntArray | None = None) -> Outcome:
    """Run Algorithm 4 from the medoids ``seeds``, or from ``labels`` that all occur; no half-step raises the objective.

    With ``problem.graph`` torn clusters are then connected, and the descent goes on while connected ones improve.
    """
    state = _State(problem, seeds, labels)
    best = _descend(state)
    if problem.graph is None:
        return best
    state, best = _connect(state, best, problem.graph)
    for _ in range(MAX_CONNECTED):
        if best.joined == 0:
            break
        state, connected = _connect(state, _descend(state), problem.graph)
        if connected.objective >= best.objective:
            break
        best = connected
    return best


def _connect(state: _State, reached: Outcome, graph: NeighborGraph) -> tuple[_State, Outcome]:
    """Return the state with connected clusters and their best subspaces and medoids; the same if they are connected."""
    labels = connected_labels(reached.labels, state.all_costs(), graph)
    joined = int(np.count_nonzero(labels != reached.labels))
    if joined == 0:
        return state, reached
    search = state.search  # knows the sums of the former clusters, of which few points change
    state = _State(state.problem, reached.medoids, labels, state.history)
    state.search = search
    state.move_medoids()
    return state, state.outcome(reached.trace.stop, joined)


def _descend(state: _State) -> Outcome:
    for _ in range(state.problem.max_iter):
        before, psi = state.labels, state.history[-1]
        state.update_medoids_and_labels()
        if np.array_equal(state.labels, before):
            return state.outcome(Stop.CONVERGED)
        state.fit_subspaces()
        if psi - state.history[-1] <= state.problem.tol * psi:
            return state.outcome(Stop.CONVERGED)
    return state.outcome(Stop.LIMIT)


def connected_labels(labels: IntArray, costs: FloatArray, graph: NeighborGraph) -> IntArray:
    """Return labels of which each is connected inside each component of the graph.

    A label keeps its largest part; others go, one by one, to the settled label they touch of least ``costs`` (c, n).
    """
    part, owners = label_components(labels, graph)
    if len(owners) == len(costs):  # every label is in one part: the usual case, and a descent ends here each time
        return labels
    component = np.empty_like(owners)
    component[part] = label_components(np.zeros_like(labels), graph)[0]
    order = np.lexsort((-np.bincount(part), component, owners))  # stable: the first, of equals
    _, first = np.unique((owners * (component.max() + 1) + component)[order], return_index=True)
    settled = np.zeros(len(owners), dtype=bool)
    settled[order[first]] = True
    given = owners.copy()
    ends = part[graph.rows()], part[graph.indices]
    keys = np.unique(np.concatenate(ends) * len(owners) + np.concatenate(ends[::-1]))  # pairs as single numbers
    touching = np.column_stack(np.divmod(keys, len(owners)))
    while not settled.all():
        for loose in np.flatnonzero(~settled):
            neighbors = touching[touching[:, 0] == loose, 1]
            choices = np.unique(given[neighbors[settled[neighbors]]])
            if len(choices):
                given[loose] = choices[np.argmin(costs[choices][:, part == loose].sum(axis=1))]
                settled[loose] = True
    return given[part]


class _State:
    """One start: labels, medoids, and matrices (c, n) of what each point would cost in each cluster.

    ``residuals`` include the weight 1 - rho, ``geodesics`` not rho; ``stale`` clusters changed since the medoid search.
    """

    def __init__(
        self, problem: Problem, seeds: IntArray, labels: IntArray | None = None, history: Sequence[float] = ()
    ) -> None:
        self.problem = problem
        self.points = np.arange(len(problem.X))
        self.medoids = seeds.copy()
        self.search = None if problem.geodesics is None else problem.geodesics.search()
        self.geodesics = None if problem.geodesics is None else problem.geodesics.rows(seeds)
        self.residuals: FloatArray | None = None
        first = self.geodesics if self.geodesics is not None else squared_distances(problem.X[seeds], problem.X)
        self.labels: IntArray = np.argmin(first, axis=0) if labels is None else labels.copy()  # (4.13)
        self.stale = np.ones(len(seeds), dtype=bool)
        self._fill_empty(first)
        self.history = list(history)
        self.fit_subspaces()

    def outcome(self, stop: Stop, joined: int = 0) -> Outcome:
        return Outcome(self.labels, self.medoids, Trace(np.array(self.history), stop), joined)

    def all_costs(self) -> FloatArray:
        """Return the costs with all distances to the medoids, of which a medoid search may leave some out."""
        if self.problem.geodesics is not None:
            self.geodesics = self.problem.geodesics.rows(self.medoids)
        return self._costs()

    def fit_subspaces(self) -> None:
        """Line 3: the principal subspace of each cluster (4.14)."""
        if self.problem.rho < 1:
            X, r = self.problem.X, self.problem.n_components
            subspaces = AffineSubspaces.of_clusters(X, self.labels, len(self.medoids), r)
            self.residuals = (1.0 - self.problem.rho) * subspaces.squared_distances(X).T
        self._record(self._costs())

    def update_medoids_and_labels(self) -> None:
        """Lines 4 to 6: medoids and labels in turn, until no label changes."""
        while True:
            psi, costs = self.history[-1], self.move_medoids()
            labels = np.argmin(costs, axis=0)  # (4.17)
            moved = labels != self.labels
            self.stale = np.zeros(len(self.medoids), dtype=bool)
            self.stale[labels[moved]] = self.stale[self.labels[moved]] = True
            self.labels = labels
            self._record(self._costs() if self._fill_empty(costs) else costs)
            if not moved.any() or self.history[-1] >= psi:
                return

    def _costs(self) -> FloatArray:
        parts = [] if self.residuals is None else [self.residuals]
        if self.geodesics is not None:
            parts.append(self.problem.rho * self.geodesics)
        return sum(parts[1:], parts[0])

    def _record(self, costs: FloatArray) -> None:
        self.history.append(float(costs[self.labels, self.points].sum()))

    def move_medoids(self) -> FloatArray:
        """Line 4: the best member of each changed cluster (4.16), or the present medoid where that is better."""
        if self.search is not None and self.geodesics is not None:
            other = np.zeros(len(self.points))
            if self.residuals is not None:
                other = self.residuals[self.labels, self.points] / self.problem.rho
            self.medoids, self.geodesics = self.search(self.labels, self.medoids, self.geodesics, self.stale, other)
        costs = self._costs()
        self._record(costs)
        return costs

    def _fill_empty(self, costs: FloatArray) -> bool:
        """Restart each empty cluster at the point that costs most, or drop it; return whether there was one."""
        sizes = np.bincount(self.labels, minlength=len(self.medoids))
        if sizes.all():
            return False
        paid = costs[self.labels, self.points]
        for empty in np.flatnonzero(sizes == 0):
            movable = np.where(sizes[self.labels] > 1, paid, 0.0)
            point = int(np.argmax(movable))
            if movable[point] <= 0:
                break
            sizes[self.labels[point]] -= 1
            sizes[empty], paid[point] = 1, 0.0
            self.stale[[empty, self.labels[point]]] = True
            self.labels[point], self.medoids[empty] = empty, point
            if self.geodesics is not None and self.problem.geodesics is not None:
                self.geodesics[empty] = self.problem.geodesics.rows(self.medoids[[empty]])[0]
            if self.residuals is not None:
                # Until the next subspaces this cluster is a point, and no other point can join it.
                self.residuals[empty] = np.inf
                self.residuals[empty, point] = 0.0
        used = sizes > 0
        if not used.all():
            self.labels = (np.cumsum(used) - 1)[self.labels]
            self.search = None if self.problem.geodesics is None else self.problem.geodesics.search()
            self.medoids, self.stale = self.medoids[used], self.stale[used]
            self.geodesics = None if self.geodesics is None else self.geodesics[used]
            self.residuals = None if self.residuals is None else self.residuals[used]
        return True


def compact(X: FloatArray) -> FloatArray:
    """Return the centered points, rotated into n dimensions where they have more."""
    centered = X - X.mean(axis=0)
    n, d = X.shape
    return centered if d <= n else np.ascontiguousarray(np.asarray(np.linalg.qr(centered.T, mode="r")).T)


# From the best start to a clustering: affine subspaces in the space of the data, and the cluster of new points.


@dataclass(frozen=True)
class GeodesicsToMedoids:
    """Geodesic distances from new points to the medoids through neighbors; ``lengths`` (n, c) are those of all rows."""

    index: NeighborIndex
    lengths: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the geodesic distances from new points to the medoids, shape (n_new, c)."""
        neighbors, offsets = self.index.query(X, run)
        shortest = np.full((len(X), self.lengths.shape[1]), np.inf)
        for neighbor, offset in zip(neighbors.T, offsets.T, strict=True):
            np.minimum(shortest, offset[:, None] + self.lengths[neighbor], out=shortest)
        return shortest


@dataclass(frozen=True)
class LeastCost:
    r"""New points to the cluster where :math:`(1 - \rho)\, e^2 + \rho\, d_G^2` is least; at rho 0 without geodesics."""

    rho: float
    subspaces: AffineSubspaces
    geodesics: GeodesicsToMedoids | None

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        costs = np.zeros((len(X), len(self.subspaces)))
        if self.rho < 1:
            costs += (1.0 - self.rho) * self.subspaces.squared_distances(X)
        if self.geodesics is not None:
            costs += self.rho * np.square(self.geodesics(X, run))
        return np.argmin(costs, axis=1)


@estimator
class AlternatingClusterer(Clusterer):
    """Clusterings by alternation from several starts: their parameters, and the way from a start to a clustering."""

    n_components: PositiveInt = parameter("Dimension of the affine subspaces of the clusters.", default=2)
    n_clusters: PositiveInt = parameter(N_CLUSTERS_TEXT, default=8, kw_only=False)
    n_init: PositiveInt = parameter(STARTS_TEXT, default=10)
    max_iter: PositiveInt = parameter(STEPS_TEXT, default=100)
    tol: NonNegative = parameter(DECREASE_TEXT, default=0.0)

    def _problem(self, X: FloatArray, rho: float, geodesics: Geodesics | None = None) -> Problem:
        return Problem(compact(X), min(self.n_components, *X.shape), rho, geodesics, self.max_iter, self.tol)

    def _best_clustering(
        self, X: FloatArray, problem: Problem, run: Run, index: NeighborIndex | None = None
    ) -> Clustering:
        """Return the clustering by the best of all starts; new points need the neighbor ``index`` for geodesics."""
        outcome, objectives = best_of(problem, self.n_clusters, self.n_init, run)
        return self._to_clustering(X, problem, outcome, objectives, index)

    def _to_clustering(
        self,
        X: FloatArray,
        problem: Problem,
        outcome: Outcome,
        objectives: FloatArray,
        index: NeighborIndex | None = None,
    ) -> Clustering:
        subspaces = AffineSubspaces.of_clusters(X, outcome.labels, len(outcome.medoids), self._rank(X))
        geodesics, medoids = None, None
        if index is not None and problem.geodesics is not None:
            medoids = outcome.medoids
            geodesics = GeodesicsToMedoids(index, np.sqrt(problem.geodesics.rows(medoids)).T.copy())
        return Clustering(
            outcome.labels,
            subspaces,
            LeastCost(problem.rho, subspaces, geodesics),
            outcome.objective,
            objectives,
            outcome.trace,
            medoids,
            notes={} if problem.graph is None else {"joined": outcome.joined},
        )


# K-means, for `KMeans` and for the rows of eigenvectors.


@dataclass(frozen=True)
class NearestCenter:
    """New points to the cluster whose center is nearest."""

    centers: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> IntArray:  # noqa: ARG002
        """Return labels of shape (n_new,)."""
        return np.argmin(squared_distances(self.centers, X), axis=0)


def kmeans_starts(
    X: FloatArray, n_clusters: int, n_init: int, run: Run, max_iter: int = 300, tol: float = 1e-4
) -> list[Any]:
    """Return k-means from ``n_init`` seeds of k-means++: scikit-learn's, on a GPU Lloyd's iteration."""

    def start(seed: int) -> Any:
        if run.gpu is not None:
            from manifoldry._numerics.gpu.kmeans import lloyd

            centers, _ = cluster.kmeans_plusplus(X, n_clusters, random_state=seed)
            if (means := lloyd(X, centers, max_iter, tol, run)) is not None:
                return means
        model = cluster.KMeans(n_clusters, n_init=1, max_iter=max_iter, tol=tol, random_state=seed)
        # By one thread: scikit-learn sums in the order its threads finish.
        with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
            return model.fit(X)

    seeds = [(int(run.rng(f"start {number}").integers(2**31 - 1)),) for number in range(n_init)]
    with warnings.catch_warnings():
        # Fewer distinct points than clusters: n_clusters_ says so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return finished_starts(start, seeds, run)


def nearest_used(X: FloatArray, centers: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the centers that are nearest to some point, and the nearest of those for each point."""
    used, labels = np.unique(np.argmin(squared_distances(centers, X), axis=0), return_inverse=True)
    return used, labels
