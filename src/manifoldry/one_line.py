"""Representations of values in one line."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast


class OneLine:
    """Gives a dataclass (with ``repr=False``) a representation in one line: what it has, arrays by their shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry.values import Stop, Trace
    >>> Trace(np.array([3.0, 2.0, 1.5]), Stop.CONVERGED)
    Trace(objective=<float64 3>, stop=Stop.CONVERGED)
    """

    def __repr__(self) -> str:
        values = ((each.name, getattr(self, each.name)) for each in fields(cast(Any, self)))
        told = (f"{name}={_brief(value)}" for name, value in values if value is not None)
        return f"{type(self).__name__}({', '.join(told)})"


def _brief(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"<{value.dtype} {' x '.join(map(str, value.shape))}>"
    if isinstance(value, (float, enum.Enum)):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return type(value).__name__ if isinstance(value, Mapping) or callable(value) else repr(value)
