"""Tables as data frames, where pandas is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any


def as_frame(rows: Sequence[Mapping[str, Any]], index: str) -> Any:
    """Return rows as a pandas DataFrame with one of their entries as the index."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        raise ImportError(
            "to_frame() needs pandas, which is not installed; the fields of the object hold the same."
        ) from None
    return pandas.DataFrame(list(rows)).set_index(index)
