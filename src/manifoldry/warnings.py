"""What the library warns of, and how: the warning points at the user's own line, however deep it arose."""

from __future__ import annotations

import sys
import warnings

INSIDE = ("manifoldry.", "sklearn.", "concurrent.", "contextlib", "importlib.")
"""Packages whose frames lie between a warning and the line that the user wrote."""


class DisconnectedWarning(UserWarning):
    """The neighbor graph has several components, and they were joined or left out."""


class EmbeddingWarning(UserWarning):
    """The fitted layout shows less than it seems to; ``diagnostics_["advice"]`` holds the findings."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line outside this package and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
