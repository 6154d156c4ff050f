"""Subspaces, medoids and labels, each improved while the others are fixed: Algorithm 4 of khajehpour2013.

The one loop behind LDLC, VQPCA and geodesic k-medoids; numbers in brackets are equations of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.clusters.geodesics import Geodesics
from manifoldry.clusters.subspaces import AffineSubspaces, squared_distances
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, Stop, Trace


@dataclass(frozen=True)
class Problem:
    r"""The objective, equation (4.9) of the source, and when its descent ends.

    .. math:: \psi = \sum_i (1 - \rho)\, e_{i \ell_i}^2 + \rho\, d_G^2(x_i, m_{\ell_i})

    At ``rho`` 1 no subspaces are computed, at 0 no geodesics are needed; each component of these gets a medoid. The
    iteration ends after ``max_iter`` fits of the subspaces, or when psi falls by no more than the share ``tol`` of it.
    """

    X: FloatArray
    n_components: int
    rho: float
    geodesics: Geodesics | None
    max_iter: int
    tol: float

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

    The medoids (c,) are the seeds where ``rho`` is 0.
    """

    labels: IntArray
    medoids: IntArray
    trace: Trace

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

    Without geodesics the seeds only begin the labels, and name the clusters.
    """
    state = _State(problem, seeds, labels)
    for _ in range(problem.max_iter):
        before, psi = state.labels, state.history[-1]
        state.update_medoids_and_labels()
        if np.array_equal(state.labels, before):
            return state.outcome(Stop.CONVERGED)
        state.fit_subspaces()
        if psi - state.history[-1] <= problem.tol * psi:
            return state.outcome(Stop.CONVERGED)
    return state.outcome(Stop.LIMIT)


class _State:
    """One start: labels, medoids, and matrices (c, n) of what each point would cost in each cluster.

    ``residuals`` are squared distances to the subspaces times 1 - rho, ``geodesics`` squared geodesic distances to the
    medoids without their weight; ``stale`` clusters have changed since their medoid was sought.
    """

    def __init__(self, problem: Problem, seeds: IntArray, labels: IntArray | None = None) -> None:
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
        self.history: list[float] = []
        self.fit_subspaces()

    def outcome(self, stop: Stop) -> Outcome:
        return Outcome(self.labels, self.medoids, Trace(np.array(self.history), stop))

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
