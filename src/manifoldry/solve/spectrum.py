"""Reading a curve that falls with the dimension: where it bends, and why that is the dimension suggested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.values import FloatArray

FLOOR = 1e-6
"""Shares below this are as good as nothing: they must not pull the elbow to themselves."""


@dataclass(frozen=True)
class Suggestion:
    """A dimension and the reason for it."""

    n_components: int
    why: str

    def __int__(self) -> int:
        return self.n_components


def elbow(values: FloatArray, what: str) -> Suggestion:
    """Return the dimension at which the curve ``values`` (d = 1, 2, ...; 1 stands for d = 0) bends.

    On a logarithmic scale, that is the point farthest below the straight line from the curve's beginning to its end:
    before it each dimension removes a larger share of what is left than on average, behind it a smaller one.
    """
    shares = np.minimum.accumulate(np.concatenate([[1.0], np.maximum(values, FLOOR)]))
    heights = np.log(shares)
    chord = np.linspace(heights[0], heights[-1], len(heights))
    d = max(1, int(np.argmax(chord - heights)))
    fall = shares[d - 1] / shares[d]
    then = shares[d] / shares[-1]
    return Suggestion(
        d,
        f"The {what} is {shares[d]:.2g} with {d} dimensions, {fall:.3g} times lower than with {d - 1}; "
        f"all {len(values)} together would divide it by {then:.3g} more.",
    )


def unexplained(values: FloatArray) -> FloatArray:
    """Return the share of the sum of ``values`` that the first d = 1, 2, ... of them leave out."""
    return np.maximum(1 - np.cumsum(values) / (values.sum() or 1.0), 0.0)


def enough(left: FloatArray, what: str, share: float = 0.05) -> Suggestion:
    """Return the first dimension d = 1, 2, ... that leaves at most ``share`` of the whole, or the last one."""
    left = np.asarray(left, dtype=float)
    under = np.flatnonzero(left <= share)
    d = int(under[0]) + 1 if len(under) else len(left)
    before = left[d - 2] if d > 1 else 1.0
    return Suggestion(d, f"With {d} dimensions {left[d - 1]:.2g} of the {what} is left, with {d - 1} {before:.2g}.")


def gap(values: FloatArray, what: str) -> Suggestion:
    """Return how many of the ascending non-negative ``values`` stand before the widest gap: the largest ratio.

    Values below a millionth of the largest count as that, so that zeros have no gaps among themselves.
    """
    floor = FLOOR * float(np.max(values, initial=0.0)) or 1.0
    sizes = np.maximum(np.asarray(values, dtype=float), floor)
    if len(sizes) < 2:
        return Suggestion(1, f"There is only one {what}.")
    ratios = sizes[1:] / sizes[:-1]
    d = int(np.argmax(ratios)) + 1
    return Suggestion(
        d, f"The {what} number {d + 1} is {ratios[d - 1]:.3g} times the one before; no other step is as large."
    )
