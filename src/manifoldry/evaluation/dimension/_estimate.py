"""What every estimator of the dimension returns, how its interval is made, and what all of them together say."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.elbow import REASON_WIDTH

LEVEL = 0.95
"""Level of all intervals."""
NORMAL_QUANTILE = 1.959964
"""The normal distribution leaves (1 - LEVEL) / 2 beyond this many deviations."""
SHARED_NEIGHBOR_VARIANCE = 0.65
"""By how much the variance of a mean over all points exceeds that over independent points, because near points share
neighbors; a mean over a share of the points has this share of it. Measured on periodic cubes without border, over 300
seeds: 0.4 to 0.85 with 1, 2 and 4 dimensions, 300 and 1,000 points, 2 to 20 neighbors, without a trend; with an eighth
of the points 0.02 to 0.18 instead of 0.08."""


class UndecidedError(ValueError):
    """Data from which an estimator can tell nothing: ties, duplicates, too few points."""


@dataclass(frozen=True, repr=False)
class DimensionEstimate:
    """The dimension of the data as one method estimates it.

    Parameters
    ----------
    method : str
        Name of the function that made it.
    value, low, high : float
        The estimate, and its interval at 95 %: how far another sample of the same data would move it, not how far the
        method may be off.
    local : ndarray of shape (m,), optional
        The dimension at each measured point, NaN where it cannot be told; None where the method has no local values.
    points : ndarray of shape (m,), optional
        The measured points, rows of X.
    interval : str
        How the interval was made: "theory", "points" (spread of the local values), "jackknife", "halves" of the points,
        or "plateau" (spread over scales).
    settings : mapping
        The choices behind the estimate: number of neighbors, radii, thresholds.
    """

    method: str
    value: float
    low: float
    high: float
    local: FloatArray | None = None
    points: IntArray | None = None
    interval: str = "theory"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return max(1, round(self.value))

    def __repr__(self) -> str:
        at = "" if self.points is None else f", at {len(self.points)} points"
        return f"DimensionEstimate({self.method}: {self.value:.2f}, {self.low:.2f} to {self.high:.2f}{at})"


def gamma_interval(value: float, shape: float) -> tuple[float, float]:
    """Return the interval of a rate estimated by ``value`` from the sum of ``shape`` exponential variables.

    The sum times the rate is a gamma variable: the rate lies between ``value`` times its quantiles over its mean.
    """
    tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low, high = (value * float(gammaincinv(shape, tail)) / shape for tail in tails)
    return low, high


def effective_count(n_terms: float, n_measured: int, n_points: int) -> float:
    """Return how many independent terms a mean over measured points, which share neighbors, is worth."""
    return n_terms / (1 + SHARED_NEIGHBOR_VARIANCE * n_measured / n_points)


def median_of(local: FloatArray) -> tuple[float, float, float]:
    """Return the median of local values and its interval by order statistics, whatever their distribution."""
    known = np.sort(local[np.isfinite(local)])
    reach = NORMAL_QUANTILE * np.sqrt(len(known)) / 2
    last = len(known) - 1
    low, high = (known[int(np.clip(round(last / 2 + move), 0, last))] for move in (-reach, reach))
    return float(np.median(known)), float(low), float(high)


def mean_of(local: FloatArray) -> tuple[float, float, float]:
    """Return the mean of local values and its interval by their spread."""
    known = local[np.isfinite(local)]
    value = float(known.mean())
    reach = NORMAL_QUANTILE * float(known.std(ddof=1)) / np.sqrt(len(known)) if len(known) > 1 else 0.0
    return value, value - reach, value + reach


@dataclass(frozen=True, repr=False)
class Consensus:
    """A dimension for the data, its interval, the estimates behind it and the reasons.

    Parameters
    ----------
    value : int
        The suggestion.
    low, high : float
        Between these lie the estimates that count, with their errors.
    estimates : mapping of str to DimensionEstimate
        All that were made, also those that do not count.
    why : tuple of str
        Sentences: what decided, which agree, which were left out and for what reason.
    measured : float
        The estimate before it was rounded.
    kind : {"flat", "curved", "falling", "apart", "counts"}
        What the scales show: the same at all (flat), more at larger ones (curved), less at larger ones (falling: noise
        or elongated pieces), angles against counts (apart), or no angles known (counts).
    """

    value: int
    low: float
    high: float
    estimates: Mapping[str, DimensionEstimate]
    why: tuple[str, ...]
    measured: float
    kind: str = "flat"
    used: tuple[str, ...] = field(default=())

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"Consensus({self.value}, {self.low:.1f} to {self.high:.1f}, {self.kind})"

    def __str__(self) -> str:
        width = max(len(name) for name in self.estimates)
        rows = [f"{name:{width}} {e.value:7.2f} {e.low:7.2f} {e.high:7.2f}" for name, e in self.estimates.items()]
        marks = ["  counts" if name in self.used else "" for name in self.estimates]
        head = f"dimension {self.value} ({self.low:.1f} to {self.high:.1f})"
        names = f"{'estimate':{width}} {'value':>7} {'low':>7} {'high':>7}"
        why = [line for sentence in self.why for line in textwrap.wrap(sentence, REASON_WIDTH)]
        return "\n".join([head, names, *(row + mark for row, mark in zip(rows, marks, strict=True)), *why])
