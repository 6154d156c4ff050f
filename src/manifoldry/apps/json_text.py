"""Values as JSON: one encoder for what the command line prints and what the records hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def json_text(value: Any) -> str:
    """Return a value as one JSON document.

    Examples
    --------
    >>> print(json_text({"figure": float("nan"), "shape": (3, 2)}))
    {
      "figure": null,
      "shape": [
        3,
        2
      ]
    }
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value in what JSON has: numpy's arrays and numbers as lists and numbers, numbers not finite as None.

    Dataclasses become their fields, sets sorted lists; what else there is, estimators for instance, its text.
    """
    if isinstance(value, (str, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (Set, Path)):
        return str(value) if isinstance(value, Path) else sorted(map(plain, value), key=str)
    if hasattr(value, "tolist"):  # numpy's arrays and numbers, without an import of numpy
        return plain(value.tolist())
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)
