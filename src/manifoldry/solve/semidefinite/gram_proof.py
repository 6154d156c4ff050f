"""The bound that multipliers of lengths prove for all Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.solve.dense import product
from manifoldry.solve.semidefinite.gram_newton import GramOperator
from manifoldry.solve.semidefinite.length_terms import LengthTerm
from manifoldry.values import FloatArray

ROUNDING_FACTOR = 10.0
"""Multiple of the root of the number of terms that rounding of a sum of products stays below (higham2019)."""

RAISE_FACTOR, MAX_RAISES = 4.0, 60


@dataclass(frozen=True)
class GramProof:
    """A proven bound of the program, or infinity; a lower bound of the dual matrix's eigenvalues; the root used."""

    bound: float
    smallest: float | None
    root: FloatArray


def prove_bound(operator: GramOperator, term: LengthTerm, multipliers: FloatArray, root: FloatArray) -> GramProof:
    r"""Return the bound of multipliers u, raised evenly until :math:`\sum_e u_e b_e^\top b_e - W` is proven definite.

    Shown for :math:`S = T^\top (\sum_e u_e b_e^\top b_e - W) T` in the coordinates of a root T of full rank, where it is
    well scaled: its lowest eigenvalue must exceed the rounding of its entries and of the eigenvalues, for which
    :math:`\sum_e |u_e| |b_e T|^2 + \sum_{ij} |W_{ij}| |t_i| |t_j|` is the unit.
    """
    ends = operator.ends(root)
    lengths, rounding = np.square(ends).sum(axis=1), operator.absolute_lengths(root)
    size = np.linalg.norm(root, axis=1)
    of_stretch = float(size @ np.abs(operator.stretch) @ size)
    form = root.T @ (operator.stretch @ root)
    share = ROUNDING_FACTOR * np.finfo(float).eps
    raised, step = multipliers, 0.0
    for _ in range(MAX_RAISES):
        S = product(ends.T, raised[:, None] * ends, operator.run) - form
        lowest = float(np.linalg.eigvalsh((S + S.T) / 2)[0])
        unit = np.sqrt(len(ends)) * (float(np.abs(raised) @ lengths) + of_stretch)
        margin = share * (unit + float(np.abs(raised) @ np.sqrt(lengths * rounding)))
        if lowest > margin:
            return GramProof(term.bound(raised), lowest - margin, root)
        # Enough if equal multipliers raised all eigenvalues alike; they raise their sum by that of the lengths.
        step = max(RAISE_FACTOR * step, (margin - lowest) * len(S) / float(lengths.sum()))
        raised = multipliers + step
    return GramProof(np.inf, None, root)
