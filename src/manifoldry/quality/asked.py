"""What is asked of a score."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from manifoldry import check

MAX_WHOLE_SCORE = 3000
"""Points up to which a score uses all of them by default: a second or two."""

N_SCORED_POINTS = 1000
"""Points sampled beyond: each is compared with all others, and a share comes with a standard error below 0.016."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a score, by the names of the arguments of `score`."""

    labels: Any = None
    truth: Any = None
    n_neighbors: int | Literal["auto"] = "auto"
    metric: str = "euclidean"
    sample: int | str | None = "auto"
    figures: Collection[str] | None = None


def scored_size(sample: int | str | None, n: int) -> int | None:
    """Return how many of n points are scored, None for all."""
    if sample is None or not isinstance(sample, str):
        return sample
    check.choice("sample", sample, ("auto",))
    return N_SCORED_POINTS if n > MAX_WHOLE_SCORE else None
