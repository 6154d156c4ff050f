"""What is known of some points beside their rows, as distances that are added to theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph


@dataclass(frozen=True)
class Targets:
    r"""Targets as more coordinates: pairs are :math:`\sqrt{d_{ij}^2 + p^2 \Lambda_{ij}}` apart.

    Of two known classes :math:`\Lambda` is 0 if they are the same, else 1; of numbers in columns it is their squared
    distance. A pair with an unknown end has 0.

    Parameters
    ----------
    values : ndarray of shape (n, m)
        Classes 0, 1, ... in one column, or columns of numbers: numeric targets, scaled to a mean squared distance of 1
        of known pairs, or shares of classes, over the root of 2.
    known : ndarray of shape (n,)
        Which are known.
    categorical : bool
        Whether they are classes.
    weight : float
        From 0, without, to 1: different classes are infinitely far apart.
    distance : float
        The distance p, set by `scaled_to`.

    Notes
    -----
    References: deridder2003.
    """

    values: Array
    known: Array
    categorical: bool
    weight: float
    distance: float = np.inf

    def scaled_to(self, lists: NeighborGraph) -> Targets:
        """Return the same with p = h w / (1 - w) for the weight w and the median length h of neighbor lists."""
        if self.weight == 1:
            return self
        lengths = lists.lengths[lists.lengths > 0]
        usual = float(np.median(lengths)) if len(lengths) else 1.0
        return replace(self, distance=usual * self.weight / (1.0 - self.weight))

    def squares(self, i: IntArray, j: IntArray) -> FloatArray:
        r"""Return :math:`\Lambda` of pairs."""
        both = self.known[i] & self.known[j]
        if self.categorical:
            return np.where(both & (self.values[i, 0] != self.values[j, 0]), 1.0, 0.0)
        return np.where(both, np.square(self.values[i] - self.values[j]).sum(axis=-1), 0.0)

    def lengths(self, i: IntArray, j: IntArray, lengths: FloatArray) -> FloatArray:
        """Return the distances of pairs with their targets; those of pairs without any keep all their bits."""
        squares = self.squares(i, j)
        apart = squares > 0
        longer = np.hypot(lengths, np.sqrt(squares, out=squares) * np.where(apart, self.distance, 1.0))
        return np.where(apart, longer, lengths)

    def part(self, members: IntArray) -> Targets:
        """Return the targets of some of the points."""
        return replace(self, values=self.values[members], known=self.known[members])
