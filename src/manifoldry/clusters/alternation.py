"""Flats, medoids and labels, each improved while the others rest: the one loop behind LDLC, VQPCA and k-medoids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.clusters.geodesics import Geodesics
from manifoldry.clusters.subspaces import Subspaces, squared_distances
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, Stop, Trace


@dataclass(frozen=True)
class Problem:
    r"""What is made small: equation (4.9) of the source.

    .. math:: \psi = \sum_i (1 - \rho)\, e_{i \ell_i}^2 + \rho\, d_G^2(x_i, m_{\ell_i})

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The points.
    n_components : int
        Dimension of the flats.
    rho : float
        Weight of the geodesic term; flats are not computed at 1, geodesics not needed at 0.
    geodesics : Geodesics, optional
        Needed for ``rho > 0``.
    component : ndarray of shape (n,)
        Points of different numbers are infinitely far apart, and every number gets a medoid.
    max_iter : int
        Rounds of new flats at the most.
    tol : float
        A round that lowers the objective by no more than this share of it is the last.
    """

    X: FloatArray
    n_components: int
    rho: float
    geodesics: Geodesics | None
    component: IntArray
    max_iter: int
    tol: float

    def seeds(self, n_clusters: int, rng: np.random.Generator) -> IntArray:
        """Return ``n_clusters`` random points, one in each component first."""
        order = rng.permutation(len(self.X))
        _, first = np.unique(self.component[order], return_index=True)
        return np.concatenate([order[np.sort(first)], np.delete(order, first)])[:n_clusters]


@dataclass(frozen=True)
class Outcome:
    """Where one start ended.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Every number from 0 to c - 1 occurs.
    medoids : ndarray of shape (c,)
        The last medoids; the seeds where geodesics count nothing.
    trace : Trace
        The objective after every half-step.
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
    done = [
        outcome
        for outcome in run.map(alternate, [(problem, medoids) for medoids in seeds], blas=True, stoppable=True)
        if outcome is not None
    ] or [alternate(problem, seeds[0])]
    objectives = np.array([outcome.objective for outcome in done])
    return done[int(np.argmin(objectives))], objectives


def alternate(problem: Problem, seeds: IntArray) -> Outcome:
    """Run Algorithm 4 from the medoids ``seeds``; no half-step raises the objective."""
    state = _State(problem, seeds)
    for _ in range(problem.max_iter):
        before, psi = state.labels, state.history[-1]
        state.settle()
        if np.array_equal(state.labels, before):
            return state.outcome(Stop.CONVERGED)
        state.fit_flats()
        if psi - state.history[-1] <= problem.tol * psi:
            return state.outcome(Stop.CONVERGED)
    return state.outcome(Stop.LIMIT)


class _State:
    """One start under way: labels, medoids, and tables (c, n) of what each point would cost in each cluster.

    ``flats`` are squared distances times 1 - rho, ``paths`` squared lengths without their weight.
    """

    def __init__(self, problem: Problem, seeds: IntArray) -> None:
        self.problem = problem
        self.points = np.arange(len(problem.X))
        self.medoids = seeds.copy()
        self.search = None if problem.geodesics is None else problem.geodesics.search()
        self.paths = None if problem.geodesics is None else problem.geodesics.rows(seeds)
        self.flats: FloatArray | None = None
        near = self.paths if self.paths is not None else squared_distances(problem.X[seeds], problem.X)
        self.labels: IntArray = np.argmin(near, axis=0)  # (4.13)
        self.stale = np.ones(len(seeds), dtype=bool)
        self._fill_empty(near)
        self.history: list[float] = []
        self.fit_flats()

    def outcome(self, stop: Stop) -> Outcome:
        return Outcome(self.labels, self.medoids, Trace(np.array(self.history), stop))

    def fit_flats(self) -> None:
        """Line 3: the principal flat of each cluster (4.14)."""
        if self.problem.rho < 1:
            flats = Subspaces.of_clusters(self.problem.X, self.labels, len(self.medoids), self.problem.n_components)
            self.flats = (1.0 - self.problem.rho) * flats.squared_distances(self.problem.X).T
        self._record(self._costs())

    def settle(self) -> None:
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
        parts = [] if self.flats is None else [self.flats]
        if self.paths is not None:
            parts.append(self.problem.rho * self.paths)
        return sum(parts[1:], parts[0])

    def _record(self, costs: FloatArray) -> None:
        self.history.append(float(costs[self.labels, self.points].sum()))

    def _move_medoids(self) -> None:
        """Line 4: the best member of each changed cluster (4.16), or the present medoid where that is better.

        It can be, having gone over to another cluster itself; without it the objective could rise.
        """
        if self.search is None or self.paths is None or not self.stale.any():
            return
        self.medoids, self.paths = self.search(self.labels, self.medoids, self.paths, self.stale)

    def _fill_empty(self, costs: FloatArray) -> bool:
        """Begin each empty cluster anew at the point that costs most; drop it if no point costs anything.

        Tell whether there was one.
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
            if self.paths is not None and self.problem.geodesics is not None:
                self.paths[empty] = self.problem.geodesics.rows(self.medoids[[empty]])[0]
            if self.flats is not None:
                # Until the next flats this cluster is a point, and nobody else can join it.
                self.flats[empty] = np.inf
                self.flats[empty, point] = 0.0
        self._drop(sizes == 0)
        return True

    def _drop(self, empty: Any) -> None:
        if not empty.any():
            return
        self.labels = (np.cumsum(~empty) - 1)[self.labels]
        self.search = None if self.problem.geodesics is None else self.problem.geodesics.search()
        self.medoids, self.stale = self.medoids[~empty], self.stale[~empty]
        self.paths = None if self.paths is None else self.paths[~empty]
        self.flats = None if self.flats is None else self.flats[~empty]


def compact(X: FloatArray) -> FloatArray:
    """Return the points about their mean, turned into as many dimensions as there are points where they have more."""
    centered = X - X.mean(axis=0)
    n, d = X.shape
    return centered if d <= n else np.ascontiguousarray(np.asarray(np.linalg.qr(centered.T, mode="r")).T)
