"""Pairs of points and their distances, and points refined until they keep them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.factor import definite_factor
from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph, Spectrum, Stop, Trace

MIN_LENGTH_SHARE = 1e-3
"""Shorter distances, as a share of the median, count as this: those of duplicates would have no relative error."""

MAX_LENGTH_RATIO = 2e6
"""Longest distance over the median up to which programs are solved: with one entry of 1e6 among 40 normal rows all
were, with 1e7 one in four had no factor, and with 1e12 values passed their bounds."""

REFINE_TOL = 1e-9
"""Decrease in one step of the refinement, relative to the variance term, at which it ends."""


@dataclass(frozen=True)
class PairDistances:
    """Pairs (i, j) of points and the positive distances between them: to be kept, or to be stretched relative to."""

    i: IntArray
    j: IntArray
    lengths: FloatArray
    n_points: int

    @classmethod
    def of(cls, i: IntArray, j: IntArray, lengths: FloatArray, n_points: int) -> PairDistances:
        """Build from distances that may be zero."""
        lengths = np.asarray(lengths, dtype=np.float64)
        usual = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
        longest = float(lengths.max(initial=0.0))
        if longest > MAX_LENGTH_RATIO * usual:
            raise ValueError(
                f"The longest of the distances to keep is {longest / usual:.0e} times their median: a program of both "
                "cannot be solved in double precision. Check X for wrong entries and for columns of different units."
            )
        return cls(i, j, np.maximum(lengths, MIN_LENGTH_SHARE * usual), n_points)

    @classmethod
    def of_graph(cls, graph: NeighborGraph) -> PairDistances:
        """Build from the edges of a symmetric graph."""
        rows = graph.rows()
        once = rows < graph.indices
        return cls.of(rows[once], graph.indices[once], graph.lengths[once], graph.n_points)

    def __len__(self) -> int:
        return len(self.lengths)

    def only(self, kept: Array) -> PairDistances:
        """Return some of the pairs."""
        return PairDistances(self.i[kept], self.j[kept], self.lengths[kept], self.n_points)

    def dimensions(self, spectrum: Spectrum, lost: float) -> int:
        """Return how many of the axes it takes that no squared relative length loses more than ``lost``."""
        axes = spectrum.vectors * np.sqrt(np.maximum(spectrum.values, 0.0))
        squares = np.square(self.of_points(axes))[:, ::-1]
        without = np.cumsum(squares, axis=1).max(axis=0, initial=0.0)[::-1]  # axis k and those after it
        return int((without > lost).sum())

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


def refine(pairs: PairDistances, Y: FloatArray, weight: float, max_iter: int, run: Run) -> tuple[FloatArray, Trace]:
    r"""Return points moved until they keep their distances, while a weak variance term pulls them apart.

    Minimizes :math:`\tfrac12 \sum_e (l_e - 1)^2 - \nu \sum_i |y_i - \bar y|^2` by conjugate gradients (Polak-Ribière).
    The preconditioner is the Laplacian of the pairs, which keeps the number of steps from growing with the number of
    points. Along a line the function is a quartic, whose minimum is found exactly. ``weight`` is by how much the
    variance term lengthens squared distances on the whole, relative.
    """
    B = pairs.matrix()
    laplacian = sp.csc_array(B.T @ B)
    factor, _ = definite_factor(laplacian, float(laplacian.diagonal().mean()), 1e-10, 10.0)
    Y = Y - Y.mean(axis=0)
    nu = weight * len(pairs) / max(float(np.vdot(Y, Y)), np.finfo(float).tiny)
    ends = B @ Y
    values = [_value(ends, Y, nu)]
    before = move = np.zeros_like(Y)
    norm, stop = 0.0, Stop.LIMIT
    for iteration in range(max_iter):
        if not run.step(iteration, max_iter):
            stop = Stop.ASKED
            break
        gradient = B.T @ ((np.square(ends).sum(axis=1) - 1)[:, None] * ends) - nu * Y
        z = factor.solve(gradient)
        new = float(np.vdot(gradient, z))
        share = max(0.0, (new - float(np.vdot(before, z))) / norm) if norm else 0.0
        move, before, norm = share * move - z, gradient, new
        move -= move.mean(axis=0)
        along = B @ move
        length = _line_minimum(ends, along, Y, move, nu)
        Y, ends = Y + length * move, ends + length * along
        values.append(_value(ends, Y, nu))
        if values[-2] - values[-1] <= REFINE_TOL * weight * len(pairs):
            stop = Stop.CONVERGED
            break
    return Y, Trace(np.array(values), stop)


def _value(ends: FloatArray, Y: FloatArray, nu: float) -> float:
    return float(np.square(np.square(ends).sum(axis=1) - 1).sum()) / 2 - nu * float(np.vdot(Y, Y))


def _line_minimum(ends: FloatArray, along: FloatArray, Y: FloatArray, move: FloatArray, nu: float) -> float:
    """Return the t at which the function is smallest on the line Y + t move."""
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
