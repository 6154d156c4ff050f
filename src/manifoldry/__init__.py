"""manifoldry unfolds high-dimensional data.

Every name below is imported when it is first used, so ``import manifoldry`` itself takes no time.

Examples
--------
>>> import manifoldry
>>> roll = manifoldry.datasets.swiss_roll(500)
>>> manifoldry.Isomap(n_neighbors=10).fit_transform(roll.X).shape
(500, 2)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from manifoldry.registry import METHODS, Card, methods

if TYPE_CHECKING:
    from manifoldry import datasets, quality
    from manifoldry.base import DisconnectedWarning
    from manifoldry.embedders.isomap import ConformalIsomap, Isomap, KernelIsomap, LandmarkIsomap
    from manifoldry.embedders.mds import MDS, ClassicalMDS, NonmetricMDS
    from manifoldry.run import Progress
    from manifoldry.values import Embedding, NeighborGraph, Spectrum, Stop, Trace

__version__ = "0.1.0"

_PLACES = {
    **METHODS,
    "DisconnectedWarning": "manifoldry.base",
    "Progress": "manifoldry.run",
    "Embedding": "manifoldry.values",
    "NeighborGraph": "manifoldry.values",
    "Spectrum": "manifoldry.values",
    "Stop": "manifoldry.values",
    "Trace": "manifoldry.values",
}
_MODULES = ("datasets", "quality")

__all__ = [
    "MDS",
    "Card",
    "ClassicalMDS",
    "ConformalIsomap",
    "DisconnectedWarning",
    "Embedding",
    "Isomap",
    "KernelIsomap",
    "LandmarkIsomap",
    "NeighborGraph",
    "NonmetricMDS",
    "Progress",
    "Spectrum",
    "Stop",
    "Trace",
    "datasets",
    "methods",
    "quality",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f"manifoldry.{name}")
    elif name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module 'manifoldry' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
