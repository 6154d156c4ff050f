"""Chunked data: what a fit takes account of, and the task that maps chunks with a fitted estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array

MAP_PARAMETERS = ("n_components", "metric", "metric_params", "verbose", "device")
"""Parameters that an estimator needs to map new rows; others may be as large as the data."""
MAX_SAMPLE_ENTRIES = 2**27
"""Maximum number of entries (rows times columns) of the sample of a fit: a gigabyte, three while it is drawn."""


@dataclass(frozen=True)
class ChunkSupport:
    """What an estimator does with chunked data.

    ``kind`` is "whole" if a fit takes account of every row, "sample" if it uses a sample of ``n_rows`` and only maps
    the others, "no" if that makes no sense; then ``instead`` recommends an alternative. A fit to ``n_rows`` takes up to
    a minute of two cores and less than two gigabytes. ``sums`` states whether a fit to all rows needs a second pass.
    """

    kind: Literal["whole", "sample", "no"] = "sample"
    n_rows: int = 20_000
    instead: str = ""
    sums: bool = True

    def __str__(self) -> str:
        return {"whole": "all rows", "sample": f"a sample of {self.n_rows:,}", "no": f"no: {self.instead}"}[self.kind]


def bounded_size(size: int, n_features: int) -> int:
    """Return the rows of a sample: ``size``, or as many as `MAX_SAMPLE_ENTRIES` allows."""
    return min(size, MAX_SAMPLE_ENTRIES // n_features)


def seen_size(n_sampled: int, n_rows: int) -> int:
    """Return how many rows a group needs so that a sample has one of them, but for one sample in a hundred."""
    return int(np.ceil(np.log(0.01) / np.log1p(-n_sampled / n_rows)))


@dataclass(frozen=True)
class PortableMap:
    """A method of a fitted estimator that holds only what it needs to map new rows: picklable, and small."""

    model: Any
    method: str
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        """What the tasks of this map are called."""
        return f"{type(self.model).__name__}.{self.method}"

    def __call__(self, rows: Array, run: Run) -> Array:
        """Map a chunk of rows to a dense array of the type that the fit announced."""
        if hasattr(self.model, "n_jobs"):
            self.model.n_jobs = run.n_jobs
        output = getattr(self.model, self.method)(rows)
        return np.asarray(output.toarray() if issparse(output) else output, dtype=self.dtype)


def contiguous(value: Any) -> Any:
    """Return a strided array as another process would get it: the bits of products depend on the memory layout."""
    strided = isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous)
    return np.ascontiguousarray(value) if strided else value
