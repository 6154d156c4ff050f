"""Subspaces, medoids and labels, each improved while the others are fixed: Algorithm 4 of khajehpour2013.

The one loop behind LDLC, VQPCA and geodesic k-medoids; numbers in brackets are equations of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph, Stop, Trace
from manifoldry.graph._operations import label_pieces
from manifoldry.graph._search import NeighborIndex
from manifoldry.methods._base._clusterer import Clustering
from manifoldry.methods.clusters._geodesics import Geodesics
from manifoldry.methods.clusters._subspaces import AffineSubspaces, squared_distances

MAX_CONNECTED = 10
"""Most rounds of connecting the clusters and descending again; of 270 starts on Frey faces none used more than 5."""


@dataclass(frozen=True)
class Problem:
    r"""The objective, equation (4.9) of the source, and when its descent ends.

    .. math:: \psi = \sum_i (1 - \rho)\, e_{i \ell_i}^2 + \rho\, d_G^2(x_i, m_{\ell_i})

    At ``rho`` 1 no subspaces are computed, at 0 no geodesics are needed; each component of these gets a medoid. The
    iteration ends after ``max_iter`` fits of the subspaces, or when psi falls by no more than the share ``tol`` of it.
    With ``graph``, the undirected graph that the geodesics run along, clusters are connected in the end.
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
    """Where one start converged to: labels, of which each of 0 to c - 1 occurs, medoids, objective per half-step.

    The medoids (c,) are the seeds where ``rho`` is 0. Each of ``joined`` points was given to another cluster last,
    so that all clusters are connected.
    """

    labels: IntArray
    medoids: IntArray
    trace: Trace
    joined: int = 0

    @property
    def objective(self) -> float:
        """The objective reached."""
        return float(self.trace.objective[-1])


def best_of(problem: Problem, n_clusters: int, n_init: int, run: Run) -> tuple[Outcome, FloatArray]:
    """Return the best outcome of ``n_init`` random starts (the first, of equals) and the objectives of all."""
    seeds = [problem.seeds(n_clusters, run.rng(f"start {number}")) for number in range(n_init)]
    with run.stage("clusters"), run.stoppable():
        done = [
            outcome
            for outcome in run.map(alternate, [(problem, medoids) for medoids in seeds], blas=True, stoppable=True)
            if outcome is not None
        ] or [alternate(problem, seeds[0])]
    objectives = np.array([outcome.objective for outcome in done])
    return done[int(np.argmin(objectives))], objectives


def alternate(problem: Problem, seeds: IntArray, labels: IntArray | None = None) -> Outcome:
    """Run Algorithm 4 from the medoids ``seeds``, or from ``labels`` that all occur; no half-step raises the objective.

    Without geodesics the seeds only begin the labels, and name the clusters. With ``problem.graph`` torn clusters are
    connected, which raises the objective, and the descent goes on from there. Of the connected clusterings met, the
    best is returned: the search ends with the first that is not better than the one before.
    """
    state = _State(problem, seeds, labels)
    best = _descend(state)
    if problem.graph is None:
        return best
    state, best = _connect(state, best, problem.graph)
    for _ in range(MAX_CONNECTED):
        if best.joined == 0:
            break
        state, found = _connect(state, _descend(state), problem.graph)
        if found.objective >= best.objective:
            break
        best = found
    return best


def _connect(state: _State, reached: Outcome, graph: NeighborGraph) -> tuple[_State, Outcome]:
    """Return the state with connected clusters and their best subspaces and medoids; the same if they are connected."""
    labels = connected_labels(reached.labels, state.all_costs(), graph)
    joined = int(np.count_nonzero(labels != reached.labels))
    if joined == 0:
        return state, reached
    state = _State(state.problem, reached.medoids, labels, state.history)
    state.update_medoids()
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

    A label keeps the largest of its parts in a component (the first, of equals). The others are given, one after the
    other, to the label of least cost among those whose kept parts they touch; ``costs`` (c, n) are those of each point
    with each label. A part that was given counts as kept, so that none is left over.
    """
    part, owners = label_pieces(labels, graph)
    if len(owners) == len(costs):  # every label is in one part: the usual case, and a descent ends here each time
        return labels
    component = np.empty_like(owners)
    component[part] = label_pieces(np.zeros_like(labels), graph)[0]
    order = np.lexsort((-np.bincount(part), component, owners))  # stable: the first, of equals
    _, first = np.unique((owners * (component.max() + 1) + component)[order], return_index=True)
    kept = np.zeros(len(owners), dtype=bool)
    kept[order[first]] = True
    given = owners.copy()
    ends = part[graph.rows()], part[graph.indices]
    keys = np.unique(np.concatenate(ends) * len(owners) + np.concatenate(ends[::-1]))  # pairs as single numbers
    touching = np.column_stack(np.divmod(keys, len(owners)))
    while not kept.all():
        for loose in np.flatnonzero(~kept):
            near = touching[touching[:, 0] == loose, 1]
            choices = np.unique(given[near[kept[near]]])
            if len(choices):
                given[loose] = choices[np.argmin(costs[choices][:, part == loose].sum(axis=1))]
                kept[loose] = True
    return given[part]


class _State:
    """One start: labels, medoids, and matrices (c, n) of what each point would cost in each cluster.

    ``residuals`` are squared distances to the subspaces times 1 - rho, ``geodesics`` squared geodesic distances to the
    medoids without their weight; ``stale`` clusters have changed since their medoid was sought.
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
        near = self.geodesics if self.geodesics is not None else squared_distances(problem.X[seeds], problem.X)
        self.labels: IntArray = np.argmin(near, axis=0) if labels is None else labels.copy()  # (4.13)
        self.stale = np.ones(len(seeds), dtype=bool)
        self._fill_empty(near)
        self.history = list(history)
        self.fit_subspaces()

    def outcome(self, stop: Stop, joined: int = 0) -> Outcome:
        return Outcome(self.labels, self.medoids, Trace(np.array(self.history), stop), joined)

    def all_costs(self) -> FloatArray:
        """Return the costs with all distances to the medoids, of which a medoid search may leave some out."""
        if self.problem.geodesics is not None:
            self.geodesics = self.problem.geodesics.rows(self.medoids)
        return self._costs()

    def update_medoids(self) -> None:
        """Line 4 alone: the best medoids for the labels as they are."""
        self._move_medoids()
        self._record(self._costs())

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
            psi = self.history[-1]
            self._move_medoids()
            costs = self._costs()
            self._record(costs)
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

    def _move_medoids(self) -> None:
        """Line 4: the best member of each changed cluster (4.16), or the present medoid where that is better.

        It can be, having changed cluster itself; without it the objective could rise.
        """
        if self.search is None or self.geodesics is None:
            return
        beside = np.zeros(len(self.points))
        if self.residuals is not None:
            beside = self.residuals[self.labels, self.points] / self.problem.rho
        self.medoids, self.geodesics = self.search(self.labels, self.medoids, self.geodesics, self.stale, beside)

    def _fill_empty(self, costs: FloatArray) -> bool:
        """Restart each empty cluster at the point that costs most; drop it if no point costs anything.

        Return whether there was one.
        """
        sizes = np.bincount(self.labels, minlength=len(self.medoids))
        if sizes.all():
            return False
        own = costs[self.labels, self.points]
        for empty in np.flatnonzero(sizes == 0):
            movable = np.where(sizes[self.labels] > 1, own, 0.0)
            point = int(np.argmax(movable))
            if movable[point] <= 0:
                break
            sizes[self.labels[point]] -= 1
            sizes[empty], own[point] = 1, 0.0
            self.stale[[empty, self.labels[point]]] = True
            self.labels[point], self.medoids[empty] = empty, point
            if self.geodesics is not None and self.problem.geodesics is not None:
                self.geodesics[empty] = self.problem.geodesics.rows(self.medoids[[empty]])[0]
            if self.residuals is not None:
                # Until the next subspaces this cluster is a point, and no other point can join it.
                self.residuals[empty] = np.inf
                self.residuals[empty, point] = 0.0
        self._drop(sizes == 0)
        return True

    def _drop(self, empty: Any) -> None:
        if not empty.any():
            return
        self.labels = (np.cumsum(~empty) - 1)[self.labels]
        self.search = None if self.problem.geodesics is None else self.problem.geodesics.search()
        self.medoids, self.stale = self.medoids[~empty], self.stale[~empty]
        self.geodesics = None if self.geodesics is None else self.geodesics[~empty]
        self.residuals = None if self.residuals is None else self.residuals[~empty]


def compact(X: FloatArray) -> FloatArray:
    """Return the centered points, rotated into n dimensions where they have more."""
    centered = X - X.mean(axis=0)
    n, d = X.shape
    return centered if d <= n else np.ascontiguousarray(np.asarray(np.linalg.qr(centered.T, mode="r")).T)


# From the best start to a clustering: affine subspaces in the space of the data, and the cluster of new points.


@dataclass(frozen=True)
class GeodesicsToMedoids:
    """Geodesic distances from new points to the medoids, through their neighbors among the fitted points.

    ``lengths`` (n, c) are those from every fitted point.
    """

    index: NeighborIndex
    lengths: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the geodesic distances from new points to the medoids, shape (n_new, c)."""
        neighbors, offsets = self.index.query(X, run)
        found = np.full((len(X), self.lengths.shape[1]), np.inf)
        for neighbor, offset in zip(neighbors.T, offsets.T, strict=True):
            np.minimum(found, offset[:, None] + self.lengths[neighbor], out=found)
        return found


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


def to_clustering(
    X: FloatArray,
    n_components: int,
    problem: Problem,
    outcome: Outcome,
    objectives: FloatArray,
    index: NeighborIndex | None,
) -> Clustering:
    """Return the best outcome as a clustering of ``X``; new points need the neighbor ``index`` for geodesics."""
    subspaces = AffineSubspaces.of_clusters(X, outcome.labels, len(outcome.medoids), n_components)
    geodesics, medoids = None, None
    if index is not None and problem.geodesics is not None:
        medoids = outcome.medoids
        geodesics = GeodesicsToMedoids(index, np.sqrt(problem.geodesics.rows(medoids)).T.copy())
    assign = LeastCost(problem.rho, subspaces, geodesics)
    return Clustering(outcome.labels, subspaces, assign, outcome.objective, objectives, outcome.trace, medoids)
