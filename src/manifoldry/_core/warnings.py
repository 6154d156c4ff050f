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
    warnings.warn(message, category, stacklevel=level)
