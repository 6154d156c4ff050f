"""Probabilities of neighbors on a GPU: a thread per row."""

from __future__ import annotations

from numba import cuda

from manifoldry._core.device import device_kernel, on_device
from manifoldry._numerics.kernels import entropic

_perplexity_row = on_device(entropic.perplexity_row)


@device_kernel("void(int64[::1], float32[::1], float64, float64, float32[::1], float64[::1], uint8[::1])")
def perplexity_rows(indptr, lengths, log_perplexity, tol, p, precision, reached):  # type: ignore[no-untyped-def]
    """For each row write probabilities of a perplexity, their precision and whether they have it."""
    i = cuda.grid(1)
    if i < len(precision):
        a, b = indptr[i], indptr[i + 1]
        precision[i], reached[i] = _perplexity_row(lengths[a:b], log_perplexity, tol, p[a:b])


@device_kernel("void(int64[::1], float32[::1], float64[::1])")
def row_sums(indptr, values, sums):  # type: ignore[no-untyped-def]
    """Write the sum of each compressed row."""
    i = cuda.grid(1)
    if i < len(sums):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += values[e]
        sums[i] = total
