"""Pairs of points and their distances, and points refined until they preserve them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph, Spectrum, Stop, Trace
from manifoldry._numerics.linalg import definite_factor
from manifoldry._numerics.semidefinite.barrier_path import Stretched
from manifoldry._numerics.semidefinite.frames import Bands
from manifoldry._numerics.semidefinite.interior import unfold_gram

MIN_LENGTH_SHARE = 1e-3
"""Minimum distance, as a share of the median: distances of duplicates would have no relative error."""
MAX_LENGTH_RATIO = 2e6
"""Maximum ratio of the longest distance to the median: with 1e7, a quarter of programs of 40 rows had no factor."""
REFINE_TOL = 1e-9  # decrease in one step of the refinement, relative to the variance term, at which it ends


@dataclass(frozen=True)
class PairDistances:
    """Pairs (i, j) of points and the positive distances between them, to be preserved or stretched."""

    i: IntArray
    j: IntArray
    lengths: FloatArray
    n_points: int

    @classmethod
    def of(cls, i: IntArray, j: IntArray, lengths: FloatArray, n_points: int) -> PairDistances:
        """Build from distances that may be zero."""
        lengths = np.asarray(lengths, dtype=np.float64)
        median = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
        longest = float(lengths.max(initial=0.0))
        if longest > MAX_LENGTH_RATIO * median:
            raise ValueError(
                f"The longest of the distances to keep is {longest / median:.0e} times their median: such a program "
                "cannot be solved in double precision. Check X for wrong entries and for columns of different units."
            )
        return cls(i, j, np.maximum(lengths, MIN_LENGTH_SHARE * median), n_points)

    @classmethod
    def of_graph(cls, graph: NeighborGraph) -> PairDistances:
        """Build from the edges of a symmetric graph."""
        rows = graph.rows()
        upper = rows < graph.indices
        return cls.of(rows[upper], graph.indices[upper], graph.lengths[upper], graph.n_points)

    def __len__(self) -> int:
        return len(self.lengths)

    def only(self, mask: Array) -> PairDistances:
        """Return some of the pairs."""
        return PairDistances(self.i[mask], self.j[mask], self.lengths[mask], self.n_points)

    def dimensions(self, spectrum: Spectrum, lost: float) -> int:
        """Return the number of axes needed so that no squared relative length loses more than ``lost``."""
        axes = spectrum.vectors * np.sqrt(np.maximum(spectrum.values, 0.0))
        squares = np.square(self.of_points(axes))[:, ::-1]
        without = np.cumsum(squares, axis=1).max(axis=0, initial=0.0)[::-1]  # axis k and those after it
        return int((without > lost).sum())

    def of_points(self, Q: FloatArray) -> FloatArray:
        """Return the differences of the rows of Q, relative to the distances."""
        return (Q[self.i] - Q[self.j]) / self.lengths[:, None]

    def matrix(self, images: sp.csr_array | None = None) -> sp.csr_array:
        """Return the sparse matrix that maps V to the relative differences of the points ``images @ V``, or V."""
        images = sp.eye_array(self.n_points, format="csr") if images is None else images
        return sp.csr_array(sp.diags_array(1 / self.lengths) @ (images[self.i] - images[self.j]))

    def bands(self, slack: float | None, images: sp.csr_array | None = None) -> Bands:
        """Return bands of squared relative lengths within ``slack`` of 1; without a slack, at most 1."""
        lower, upper = (-np.inf, 1.0) if slack is None else (1 - slack, 1 + slack)
        return Bands(self.matrix(images), np.full(len(self), lower), np.full(len(self), upper))


def refine(pairs: PairDistances, Y: FloatArray, weight: float, max_iter: int, run: Run) -> tuple[FloatArray, Trace]:
    r"""Return points moved until they keep their distances, while a weak variance term pulls them apart.

    Minimizes :math:`\tfrac12 \sum_e (l_e - 1)^2 - \nu \sum_i |y_i - \bar y|^2` by conjugate gradients (Polak-Ribière),
    preconditioned by the Laplacian of the pairs, with exact line searches: along a line the function is a quartic.
    ``weight`` is the mean relative increase of squared distances by the variance term.
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
    stationary = np.roots(np.polyder(quartic))
    stationary = np.append(stationary[np.abs(stationary.imag) <= 1e-6 * np.abs(stationary)].real, 0.0)
    return float(stationary[np.argmin(np.polyval(quartic, stationary))])


# The largest variance of points over all their Gram matrices, in any number of dimensions.

MAX_GRAM_PAIRS = 9000
"""Maximum number of distances for which the program is solved over all Gram matrices, in about 20 steps with a dense
factorization of that order each: 2,400 points on a surface with 6 neighbors take minutes."""
MIN_DIMENSION_SHARE = 1e-6
"""Dimensions with less than this share of the largest variance do not count in the rank: they are due to the gap."""


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
    """Maximize the variance of points with distances preserved as well as possible, in any rank, by `unfold_gram`.

    The first point is put at the origin. ``pairs`` are the edges of a connected graph; ``slack``, ``tol``, ``fits`` and
    ``at_most`` are those of `unfold_gram`. ``form`` (n, n), with rows of sum zero, replaces the variance.
    """
    n = pairs.n_points
    run.announce(f"multipliers of {len(pairs)} pairs", 24 * len(pairs) ** 2, "fit a sample and transform the rest")
    basis = sp.eye_array(n, format="csr")[:, 1:]
    form = np.eye(n) - 1 / n if form is None else form
    solution = unfold_gram(form, pairs.matrix(), run, slack=slack, tol=tol, fits=fits, basis=basis, at_most=at_most)
    values = np.linalg.eigvalsh(solution.root.T @ solution.root)
    rank = int((values > MIN_DIMENSION_SHARE * values[-1]).sum())
    return Stretched(
        solution.root,
        solution.certificate(rank, tol),
        Trace(solution.objective, solution.stop),
        solution.multipliers,
        float(np.mean(np.square(np.maximum(solution.lengths - 1, 0.0) if at_most else solution.lengths - 1))),
        solution.error_certificate(rank, tol, slack),
    )
