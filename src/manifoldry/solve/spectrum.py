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
