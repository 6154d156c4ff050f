"""What a source says and what we ask of our own number: a rule has both, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

AS_GOOD = 0.03
"""A number of ours that misses the source's figure by this share of it is as good."""

LEVEL = 0.01
"""Two numbers that differ by this share of the larger rank level."""


class Rule(NamedTuple):
    """What a source says, in its own figure or words; what that asks of our value, in ours; and whether it is met."""

    source: str
    target: str
    holds: Callable[[Any], bool]


def at_least(figure: float, said: str = "", within: float | None = None) -> Rule:
    """Ask for a number or more.

    Parameters
    ----------
    figure : float
        The source's figure; where the source has words and no figure, our reading of them.
    said : str
        The words of a source without a figure.
    within : float, optional
        Share of the figure by which less is still as good; 0.03, and 0 where the figure is our own.
    """
    limit = figure - _slack(said, within) * abs(figure)
    return Rule(said or shown(figure), f"at least {shown(limit)}", lambda ours: ours >= limit)


def at_most(figure: float, said: str = "", within: float | None = None) -> Rule:
    """Ask for a number or less, as `at_least` asks for more."""
    limit = figure + _slack(said, within) * abs(figure)
    return Rule(said or shown(figure), f"at most {shown(limit)}", lambda ours: ours <= limit)


def no_less(limit: float) -> Rule:
    """Ask for a limit of our own or more."""
    return at_least(limit, within=0.0)


def no_more(limit: float) -> Rule:
    """Ask for a limit of our own or less."""
    return at_most(limit, within=0.0)


def about(figure: float, said: str = "", within: float = AS_GOOD) -> Rule:
    """Ask for a number, missed by a share ``within`` at most in either direction."""
    low, high = figure - within * abs(figure), figure + within * abs(figure)
    return Rule(said or shown(figure), f"{shown(low)} to {shown(high)}", lambda ours: low <= ours <= high)


def equals(figure: Any, said: str = "") -> Rule:
    """Ask for exactly this."""
    return Rule(said or shown(figure), f"exactly {shown(figure)}", lambda ours: ours == figure)


def in_order(figures: Mapping[str, float]) -> Rule:
    """Ask that methods rank as in the source; ours maps the same names to numbers.

    Two numbers that differ by a share `LEVEL` or less rank level, in the source and here.
    """
    names = sorted(figures, key=lambda name: figures[name])
    if not any(_clearly_below(figures[a], figures[b]) for a, b in combinations(names, 2)):
        raise ValueError(f"All of {shown(figures)} rank level: no order of ours could fail.")

    def holds(ours: Mapping[str, float]) -> bool:
        _require_names(figures, ours)
        return not any(
            _clearly_below(figures[a], figures[b]) and _clearly_below(ours[b], ours[a])
            for a, b in combinations(names, 2)
        )

    return Rule(shown(figures), f"the same order, level within {LEVEL:.0%}", holds)


def least(name: str, said: str) -> Rule:
    """Ask that the method ``name`` has the smallest number of all; ours maps names to numbers."""
    return Rule(said, f"{name} is smallest", lambda ours: all(ours[name] <= value for value in ours.values()))


def greatest(name: str, said: str) -> Rule:
    """Ask that the method ``name`` has the largest number of all, as `least`."""
    return Rule(said, f"{name} is largest", lambda ours: all(ours[name] >= value for value in ours.values()))


def falling(said: str = "falls") -> Rule:
    """Ask for a sequence that never rises."""
    return Rule(said, "never rises", lambda ours: all(b <= a for a, b in pairwise(ours)))


def rising(said: str = "rises") -> Rule:
    """Ask for a sequence that never falls."""
    return Rule(said, "never falls", lambda ours: all(a <= b for a, b in pairwise(ours)))


def shown(value: Any) -> str:
    """Return a fraction with four figures, a mapping by name in rising order, a sequence item by item."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(value[name])}" for name in sorted(value, key=lambda name: value[name]))
    if isinstance(value, (str, Integral)):
        return str(value)
    if isinstance(value, (Sequence, np.ndarray)):
        return " ".join(map(shown, value))
    return f"{value:.4g}"


def _slack(said: str, within: float | None) -> float:
    if within is None:
        return 0.0 if said else AS_GOOD
    return within


def _clearly_below(a: float, b: float) -> bool:
    return b - a > LEVEL * max(abs(a), abs(b))


def _require_names(figures: Mapping[str, float], ours: Mapping[str, float]) -> None:
    if set(ours) != set(figures):
        raise ValueError(f"The source ranks {', '.join(figures)}; got numbers of {', '.join(ours)}.")
