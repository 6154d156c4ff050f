"""Warnings: once per fit, at the line of the user's code, however deep they arise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

DOCUMENTATION = "https://manifoldry.readthedocs.io/en/stable/"
"""Where the documentation is: the address "Documentation" of pyproject.toml."""
EXPLAINED: dict[str, tuple[str, ...]] = {
    "dominating-columns": ("squared distances between rows",),
    "rounded-distances": ("so that distances are rounded",),
    "disconnected-graph": ("The neighbor graph has",),
    "disconnected-patches": ("The patch graph has", "too little with any other"),
    "short-circuits": ("joins parts that are far apart",),
    "dense-graph": ("of all pairs are neighbors",),
    "n-neighbors-raised": ("was raised to that",),
    "more-dimensions": ("-dimensional, so an embedding with", "The unfolded patches need", "The unfolded points need"),
    "loops-and-closed-surfaces": ("form a closed loop", "its patches fit together in"),
    "not-unfolded": (
        "surface is not unfolded",
        "do not agree with each other",
        "The patches do not fit together",
        "coordinates are not unrolled",
        "neighbor pairs are torn apart",
        "not flat enough",
    ),
    "distorted-distances": (
        "changes the distances along the data",
        "points do not lie flat",
        "does not keep the distances between neighbors",
    ),
    "no-common-scale": ("coordinates have unit variance",),
    "layout-of-another-method": ("so the layout is that of",),
    "nearly-linear": ("it is hardly bent", "of the variance of held-out points", "raise the likelihood by less than"),
    "neighbors-at-random": ("more often neighbors in the data than at random",),
    "worse-than-pca": ("less well than by PCA",),
    "constant-axes": ("so there is nothing to see along",),
    "dominated-axes": ("of the variance of ax",),
    "crowded-points": ("what is inside cannot be seen",),
    "localized-eigenvectors": ("carried by less than",),
    "inaccurate-eigenvectors": ("The eigenvectors are approximate",),
    "alternating-walk": ("The walk has an eigenvalue",),
    "kernels": ("The kernel between neighbors is", "The kernel has", "The kernel is indefinite"),
    "unproven-certificates": ("Not proven, because",),
    "not-converged": ("before the tolerance", "had not converged"),
    "interrupted": ("Interrupted in the stage",),
    "neural-networks": ("The network misses", "too few to hold any out"),
    "targets": ("No target is known", "targets are all the same", "different numbers, which count as"),
    "unit-of-the-data": ("with absolute numbers",),
    "uncertain-recovery": ("low-rank part need not be", "The largest entry is"),
    "gaussian-sources": ("from a Gaussian's",),
    "noise-at-its-bound": ("noise of all columns is at its lower bound",),
    "empty-rows": ("have no known entry",),
    "number-of-clusters": ("Say how many clusters you want",),
    "partial-fit-begins-anew": ("so partial_fit begins anew",),
    "no-cache-for-compiled-code": ("Compiled code cannot be cached",),
}
"""By anchor of the page reference/warnings, words of the warnings that it explains."""
INSIDE = ("manifoldry.", "sklearn.", "concurrent.", "contextlib", "importlib.")
"""Packages whose frames are between a warning and the user's code."""


class EmbeddingWarning(UserWarning):
    """The fitted layout shows less than it seems to; ``diagnostics_["advice"]`` holds the findings."""


class DisconnectedWarning(EmbeddingWarning):
    """The neighbor graph has several components, and they were joined or left out."""


@dataclass
class Collected:
    """Warnings and remarks of the steps of one fit so far, to be ranked and reported when it ends."""

    model: Any
    warnings: list[tuple[str, type[Warning]]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


_collected: ContextVar[Collected | None] = ContextVar("collected", default=None)


@contextmanager
def collecting(model: Any) -> Iterator[Collected]:
    """Collect the warnings and remarks of a fit; those not reported by its end are issued one by one."""
    outer = _collected.get()
    if outer is not None and outer.model is model:  # a fit that calls itself, with a sample of the rows
        yield outer
        return
    collected = Collected(model)
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
        for message, category in collected.warnings:
            issue(message, category)


def pop_collected(model: Any) -> Collected:
    """Return what the fit of this model has collected so far, and clear it."""
    collected = _collected.get()
    if collected is None or collected.model is not model:
        return Collected(model)
    taken = Collected(model, collected.warnings[:], collected.remarks[:])
    collected.warnings.clear()
    collected.remarks.clear()
    return taken


def warn(message: str, category: type[Warning] = EmbeddingWarning, *, now: bool = False) -> None:
    """Issue a warning: during a fit as one of its findings when it ends, unless ``now``."""
    collected = _collected.get()
    if collected is None or now:
        issue(message, category)
    else:
        collected.warnings.append((message, category))


def remark(message: str) -> None:
    """Add a message to the diagnostics of the current fit, if there is one, without a warning."""
    collected = _collected.get()
    if collected is not None:
        collected.remarks.append(message)


def issue(message: str, category: type[Warning]) -> None:
    """Issue a warning at the innermost line outside this package and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{message}{pointer(message)}", category, stacklevel=level)


def pointer(message: str) -> str:
    """Return where the documentation explains a warning."""
    anchor = next((f"#{kind}" for kind, words in EXPLAINED.items() if any(each in message for each in words)), "")
    return f" [see {DOCUMENTATION}reference/warnings.html{anchor}]"
