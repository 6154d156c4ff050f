"""The largest variance of points over all their Gram matrices, in any number of dimensions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.semidefinite.barrier_path import Stretched
from manifoldry.solve.semidefinite.interior import unfold_gram
from manifoldry.solve.semidefinite.pairs import PairDistances
from manifoldry.values import Trace

MIN_DIMENSION_SHARE = 1e-6
"""Dimensions with less than this share of the largest variance do not count in the rank: the central path leaves every
dimension some variance, in proportion to the gap."""


def unfold_points(pairs: PairDistances, run: Run, *, slack: float, tol: float, fits: bool) -> Stretched:
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
    """
    n = pairs.n_points
    run.announce(f"multipliers of {len(pairs)} pairs", 24 * len(pairs) ** 2, "fit a sample and transform the rest")
    away = sp.eye_array(n, format="csr")[:, 1:]
    found = unfold_gram(np.eye(n) - 1 / n, pairs.matrix(), run, slack=slack, tol=tol, fits=fits, basis=away)
    values = np.linalg.eigvalsh(found.root.T @ found.root)
    rank = int((values > MIN_DIMENSION_SHARE * values[-1]).sum())
    return Stretched(
        found.root,
        found.certificate(rank, tol),
        Trace(found.objective, found.stop),
        found.multipliers,
        float(np.mean((found.lengths - 1) ** 2)),
        found.error_certificate(rank, tol, slack),
    )
