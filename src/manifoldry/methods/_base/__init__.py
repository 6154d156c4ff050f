"""The base classes of the methods: what every estimator is, and what those share that begin with a neighbor graph."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manifoldry.methods._base._embedder import Embedder, Metric, count_points
    from manifoldry.methods._base._estimator import estimator, fitted
    from manifoldry.methods._base._graph import GraphEmbedder

__all__ = ["Embedder", "GraphEmbedder", "Metric", "count_points", "estimator", "fitted"]
_MODULES = {"Embedder": "_embedder", "GraphEmbedder": "_graph", "Metric": "_embedder", "count_points": "_estimator"}
"""Where the names live that are not in `_estimator`: a method loads only the base class it has."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, '_estimator')}"), name)
