"""Pairs of points and their distances, and points refined until they keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph, Spectrum, Stop, Trace
from manifoldry._numerics.linalg import definite_factor
from manifoldry._numerics.semidefinite.barrier import Bands
from manifoldry._numerics.semidefinite.barrier_path import Stretched
from manifoldry._numerics.semidefinite.interior import unfold_gram

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


# The largest variance of points over all their Gram matrices, in any number of dimensions.

MAX_GRAM_PAIRS = 9000
"""Kept distances up to which the program is solved over all Gram matrices, in some 20 steps of a dense factorization of
that order each: 2,400 points of a surface with 6 neighbors, in minutes. In low rank 178 wines reached half the variance
that is possible, and nothing was proven."""

MIN_DIMENSION_SHARE = 1e-6
"""Dimensions with less than this share of the largest variance do not count in the rank: the central path leaves every
dimension some variance, in proportion to the gap."""


def unfold_points(
    pairs: PairDistances,
    run: Run,
    *,
    slack: float,
    tol: float,
    fits: bool,
    form: FloatArray | None = None,
    at_most: bool = False,
) -> Stretched:
    r"""Maximize the variance of points with their distances as well kept as they can be, in any rank.

    Nothing sees where the points are together, so the first is put at the origin. The others' Gram matrix A is then
    free to be any of order n - 1, each squared length is :math:`b_e A b_e^\top` for a row b_e of full column rank
    together, and the variance is :math:`\operatorname{tr} A - 1^\top A 1 / n`: a program for `unfold_gram`, of n - 1
    dimensions and a multiplier for every pair.

    Parameters
    ----------
    pairs : PairDistances
        The distances to keep, of a connected graph.
    run : Run
        Progress; a callback that asks to stop gets what is reached.
    slack, tol : float
        Half-width of the bands of squared relative lengths, and the relative gap at which to stop.
    fits : bool
        Whether points with these distances are known to exist.
    form : ndarray of shape (n, n), optional
        What to maximize instead of the variance: W of :math:`\operatorname{tr}(W A)`, with rows that sum to zero.
    at_most : bool
        Whether distances are only not to be exceeded: squared relative lengths from 0 to 1, in place of the slack.
    """
    n = pairs.n_points
    run.announce(f"multipliers of {len(pairs)} pairs", 24 * len(pairs) ** 2, "fit a sample and transform the rest")
    away = sp.eye_array(n, format="csr")[:, 1:]
    form = np.eye(n) - 1 / n if form is None else form
    settings: Any = {"slack": slack, "tol": tol, "fits": fits, "at_most": at_most}
    found = unfold_gram(form, pairs.matrix(), run, basis=away, **settings)
    values = np.linalg.eigvalsh(found.root.T @ found.root)
    rank = int((values > MIN_DIMENSION_SHARE * values[-1]).sum())
    return Stretched(
        found.root,
        found.certificate(rank, tol),
        Trace(found.objective, found.stop),
        found.multipliers,
        float(np.mean(np.square(np.maximum(found.lengths - 1, 0.0) if at_most else found.lengths - 1))),
        found.error_certificate(rank, tol, slack),
    )
