"""What the ways of unfolding single points share: pairs to hold, smooth directions, refinement."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.factor import definite_factor
from manifoldry.solve.scaling import principal_axes
from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.solve.semidefinite.barrier_path import Goal, stretch_out
from manifoldry.solve.semidefinite.forms import Pairs
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.smooth import penalty
from manifoldry.values import Certificate, FloatArray, IntArray, NeighborGraph, Stop, Trace

SHORTEST = 1e-3
"""Held distances, as a share of the median, below which they count as that: duplicates have no relative error."""

JOINING, ROUNDS, EXCEEDED = 200, 30, 1e-4
"""Pairs that join at a time, how often, and by what excess of their squared length."""

THIN = 1e-2
"""Columns thinner than this share of the widest are left out where a round begins: they come back if they help."""

SETTLED = 1e-9
"""Fall of one step of the refinement, as a share of the pull, at which it ends."""


@dataclass(frozen=True)
class HeldPairs:
    """Pairs of points and the distances between them: to be held, or those that stretch is relative to.

    Parameters
    ----------
    i, j : ndarray of shape (E,)
        The ends.
    lengths : ndarray of shape (E,)
        The distances, positive.
    n_points : int
        Number of points.
    """

    i: IntArray
    j: IntArray
    lengths: FloatArray
    n_points: int

    @classmethod
    def of(cls, i: IntArray, j: IntArray, lengths: FloatArray, n_points: int) -> HeldPairs:
        """Build from distances that may be zero."""
        lengths = np.asarray(lengths, dtype=np.float64)
        usual = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
        return cls(i, j, np.maximum(lengths, SHORTEST * usual), n_points)

    @classmethod
    def of_graph(cls, graph: NeighborGraph) -> HeldPairs:
        """Build from the edges of a symmetric graph."""
        rows = graph.rows()
        once = rows < graph.indices
        return cls.of(rows[once], graph.indices[once], graph.lengths[once], graph.n_points)

    def __len__(self) -> int:
        return len(self.lengths)

    def of_points(self, Q: FloatArray) -> FloatArray:
        """Return the differences of the rows of Q, relative to the distances."""
        return (Q[self.i] - Q[self.j]) / self.lengths[:, None]

    def matrix(self, images: sp.csr_array | None = None) -> sp.csr_array:
        """Return the sparse matrix that takes V to the relative differences of the points ``images @ V``, or V."""
        images = sp.eye_array(self.n_points, format="csr") if images is None else images
        return sp.csr_array(sp.diags_array(1 / self.lengths) @ (images[self.i] - images[self.j]))

    def bands(self, slack: float | None, images: sp.csr_array | None = None) -> Bands:
        """Return squared relative lengths kept within ``slack`` of 1; without a slack only not exceeded."""
        ones = np.ones(len(self))
        if slack is None:
            return Bands(self.matrix(images), -np.inf * ones, ones)
        return Bands(self.matrix(images), (1 - slack) * ones, (1 + slack) * ones)


def certify_directions(differences: FloatArray, P: FloatArray) -> Certificate:
    r"""Return how far P can be from the largest trace less penalty over orthonormal directions.

    The forces :math:`u = \kappa (l - 1) / E` of the errors are raised by equal ones until
    :math:`\sum_e u_e q_e q_e^\top \succeq I`. Then trace less penalty is nowhere more than
    :math:`\sum_e u_e + \frac{E}{2 \kappa} \sum_e u_e^2`.

    Parameters
    ----------
    differences : ndarray of shape (E, m)
        As in `smooth_stretch`, with distances kept.
    P : ndarray of shape (m, m)
        What it found.
    """
    count, m = differences.shape
    kappa = penalty(differences, np.eye(m)) / count
    errors = np.einsum("em,em->e", differences @ P, differences) - 1
    lacking = np.eye(m) - (differences.T * (kappa * errors)) @ differences
    even = differences.T @ differences
    forces = kappa * errors + max(0.0, float(scipy.linalg.eigh(lacking, even, eigvals_only=True)[-1]))
    stretch = float(np.trace(P))
    objective = kappa / 2 * float(errors @ errors) - stretch
    bound = -float(forces.sum()) - float(forces @ forces) / (2 * kappa)
    rank = int(np.linalg.matrix_rank(P, rtol=1e-3, hermitian=True))
    return Certificate(objective, bound, stretch, 0.0, rank)


def cut_stretch(
    differences: FloatArray, form: FloatArray, start: FloatArray, first: IntArray, goal: Goal, run: Run
) -> tuple[FloatArray, Certificate, Trace]:
    """Return rows V of the largest stretch with no length above 1, the certificate, and minus the stretch by rounds.

    Only the ``first`` pairs are looked at to begin with; the longest of those that exceed 1 join them, until none does.
    The forces of a part of the pairs prove a bound for all.

    Parameters
    ----------
    differences : ndarray of shape (E, m)
        Differences of pairs of points as combinations of the rows, divided by the distances.
    form : ndarray of shape (m, m)
        What is stretched, blind to shifts.
    start : ndarray of shape (m, p)
        Where to begin.
    first : ndarray
        The pairs to begin with.
    goal : Goal
        How far to go.
    run : Run
        Progress.
    """
    layout, stretch = Layout(np.zeros(len(form), dtype=np.int64)), Pairs(sp.csr_array(form))
    joined = np.zeros(len(differences), dtype=bool)
    joined[first] = True
    reached, stop = [-float(np.vdot(start, stretch.times(start)))], Stop.LIMIT
    for _ in range(ROUNDS):
        count = int(joined.sum())
        bands = Bands(sp.csr_array(differences[joined]), np.full(count, -np.inf), np.ones(count))
        found = stretch_out(stretch, bands, layout, start, goal, run)
        reached.append(found.certificate.objective)
        lengths = np.square(differences @ found.V).sum(axis=1)
        longest = np.argsort(-lengths, kind="stable")[:JOINING]
        longest = longest[lengths[longest] > 1 + EXCEEDED]
        if run.stopped or len(longest) == 0:
            stop = Stop.ASKED if run.stopped else found.trace.stop
            break
        joined[longest] = True
        turned, spectrum = principal_axes(found.V, found.V.shape[1])
        start = turned[:, spectrum.values > THIN**2 * spectrum.values[0]]
    shrunk = 1 / max(1.0, float(lengths.max()))
    certificate = replace(found.certificate, objective=shrunk * found.certificate.objective)
    return np.sqrt(shrunk) * found.V, certificate, Trace(np.array(reached), stop)


def refine(pairs: HeldPairs, Y: FloatArray, pull: float, max_iter: int, run: Run) -> tuple[FloatArray, Trace]:
    r"""Return points moved until they keep their distances, while a weak force pulls them apart.

    Minimizes :math:`\tfrac12 \sum_e (l_e - 1)^2 - \nu \sum_i |y_i - \bar y|^2` by conjugate gradients
    (Polak-Ribière). The form of equal springs on all pairs bounds the curvature, and its factor keeps the number of
    steps from growing with the number of points. Along a line the function is a quartic, whose least value is
    found exactly.

    Parameters
    ----------
    pairs : HeldPairs
        The distances.
    Y : ndarray of shape (n, d)
        Where to begin.
    pull : float
        By how much the force apart lengthens squared distances on the whole, relative.
    max_iter : int
        Most steps.
    run : Run
        Progress.
    """
    B = pairs.matrix()
    springs = sp.csc_array(B.T @ B)
    factor, _ = definite_factor(springs, float(springs.diagonal().mean()), 1e-10, 10.0)
    Y = Y - Y.mean(axis=0)
    nu = pull * len(pairs) / max(float(np.vdot(Y, Y)), np.finfo(float).tiny)
    ends = B @ Y
    energy = [_energy(ends, Y, nu)]
    before = move = np.zeros_like(Y)
    weight, stop = 0.0, Stop.LIMIT
    for iteration in range(max_iter):
        if not run.step(iteration, max_iter):
            stop = Stop.ASKED
            break
        slope = B.T @ ((np.square(ends).sum(axis=1) - 1)[:, None] * ends) - nu * Y
        steep = factor.solve(slope)
        new = float(np.vdot(slope, steep))
        share = max(0.0, (new - float(np.vdot(before, steep))) / weight) if weight else 0.0
        move, before, weight = share * move - steep, slope, new
        move -= move.mean(axis=0)
        along = B @ move
        length = _least_on_line(ends, along, Y, move, nu)
        Y, ends = Y + length * move, ends + length * along
        energy.append(_energy(ends, Y, nu))
        if energy[-2] - energy[-1] <= SETTLED * pull * len(pairs):
            stop = Stop.CONVERGED
            break
    return Y, Trace(np.array(energy), stop)


def _energy(ends: FloatArray, Y: FloatArray, nu: float) -> float:
    return float(np.square(np.square(ends).sum(axis=1) - 1).sum()) / 2 - nu * float(np.vdot(Y, Y))


def _least_on_line(ends: FloatArray, along: FloatArray, Y: FloatArray, move: FloatArray, nu: float) -> float:
    """Return the t that makes the energy of Y + t move least."""
    e0 = np.square(ends).sum(axis=1) - 1
    e1 = 2 * np.einsum("ed,ed->e", ends, along)
    e2 = np.square(along).sum(axis=1)
    quartic = np.array(
        [
            e2 @ e2 / 2,
            e1 @ e2,
            e1 @ e1 / 2 + e0 @ e2 - nu * np.vdot(move, move),
            e0 @ e1 - 2 * nu * np.vdot(Y, move),
            0.0,
        ]
    )
    turns = np.roots(np.polyder(quartic))
    turns = np.append(turns[np.abs(turns.imag) <= 1e-6 * np.abs(turns)].real, 0.0)
    return float(turns[np.argmin(np.polyval(quartic, turns))])
