"""Entries of single rows in lists that have one for every row: targets, labels, colors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manifoldry.values import Array, IntArray


def listed_entries(values: Any, numbers: IntArray, n_rows: int, name: str) -> Array:
    """Return the entries of some rows of a list of one for each row; of a collection only these leave the workers."""
    lazy = hasattr(values, "__dask_graph__")
    if lazy:
        values = _counted(values)
    if tuple(np.shape(values)[:1]) != (n_rows,):
        raise ValueError(f"{name} must have one entry for each of the {n_rows:,} rows; got shape {np.shape(values)}.")
    return np.asarray(values[numbers] if lazy else np.asarray(values)[numbers])


def _counted(values: Any) -> Any:
    """Return a Dask array or series as an array whose length is known."""
    if hasattr(values, "to_dask_array"):
        return values.to_dask_array(lengths=True)
    if any(math.isnan(size) for size in values.shape):
        return values.copy().compute_chunk_sizes()
    return values
