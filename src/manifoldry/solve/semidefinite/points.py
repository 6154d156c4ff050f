"""The largest variance of points over all their Gram matrices, in any number of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.semidefinite.barrier_path import Stretched
from manifoldry.solve.semidefinite.interior import unfold_gram
from manifoldry.solve.semidefinite.pairs import PairDistances
from manifoldry.values import FloatArray, Trace

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
