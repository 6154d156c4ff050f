"""Fuzzy simplicial sets on a GPU: memberships of listed neighbors, and the union of both directions of each edge."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.device import Device
from manifoldry._core.values import NeighborGraph

UNION_BYTES = 120  # of a listed edge in the union, most of it the sorted keys of both directions


def fuzzy_simplicial_set(graph: NeighborGraph, gpu: Device, local_connectivity: float, mix: float) -> csr_array:
    """Return the union of the memberships of a graph's lists, as on the CPU."""
    gpu.require("the fuzzy simplicial set", UNION_BYTES * graph.n_edges)
    indptr, lengths = gpu.array(graph.indptr, np.int64), gpu.array(graph.lengths, np.float64)
    rows = numbered_rows(indptr, len(lengths), gpu)
    if bool(((lengths[1:] < lengths[:-1]) & (rows[1:] == rows[:-1])).any()):  # lists that are not in ascending order
        return fuzzy_simplicial_set(NeighborGraph.from_sparse(graph.to_sparse()), gpu, local_connectivity, mix)
    mean = float(lengths.sum()) / (graph.n_edges + graph.n_points)
    values = memberships(indptr, lengths, local_connectivity, mean, gpu)
    return _union(rows, gpu.array(graph.indices, np.int32), values, graph.n_points, mix, gpu)


def memberships(indptr: Any, lengths: Any, local_connectivity: float, mean: float, gpu: Device) -> Any:
    """Return the memberships of ascending lists of distances (float64); ``mean`` is their mean with the points."""
    from manifoldry._numerics.gpu.kernels.rows import membership_rows
    from manifoldry._numerics.kernels.fuzzy import MIN_SIGMA_SHARE

    n, values = len(indptr) - 1, gpu.xp.empty(len(lengths), dtype=np.float32)
    rho, sigma = gpu.xp.empty((2, n))
    membership_rows.over(n, indptr, lengths, local_connectivity, MIN_SIGMA_SHARE, mean, values, rho, sigma)
    return values


def fuzzy_union(A: csr_array, gpu: Device, mix: float) -> csr_array:
    """Return the union of a fuzzy set and its transpose, as on the CPU."""
    rows = numbered_rows(gpu.array(A.indptr, np.int64), A.nnz, gpu)
    return _union(rows, gpu.array(A.indices, np.int32), gpu.array(A.data, np.float32), A.shape[0], mix, gpu)


def numbered_rows(indptr: Any, n_entries: int, gpu: Device) -> Any:
    """Return the row of each entry of compressed rows."""
    from manifoldry._numerics.gpu.kernels.rows import number_rows

    rows = gpu.xp.empty(n_entries, dtype=np.int32)
    number_rows.over(len(indptr) - 1, indptr, rows)
    return rows


def _union(rows: Any, columns: Any, values: Any, n: int, mix: float, gpu: Device) -> csr_array:
    """Return the union from both directions of each pair, which sorting makes follow each other."""
    xp = gpu.xp
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    keys = xp.concatenate([(rows << 32) | columns, (columns << 32) | rows])
    order = xp.argsort(keys)
    keys, one = keys[order], xp.concatenate([values, values])[order]
    twice = keys[1:] == keys[:-1]
    other = xp.zeros_like(one)
    other[:-1] = xp.where(twice, one[1:], np.float32(0))
    # The formula is symmetric in the two directions, so their order does not matter.
    union = np.float32(mix) * (one + other) + np.float32(1.0 - 2.0 * mix) * (one * other)
    used = union != 0
    used[1:] &= ~twice
    used = xp.flatnonzero(used)
    keys, union = keys[used], union[used]
    ends = xp.searchsorted(keys, xp.arange(n + 1, dtype=np.int64) << 32)
    # Clusterings of other libraries need 32-bit row ends.
    index = np.int32 if len(keys) < 2**31 else np.int64
    columns = (keys & 0xFFFFFFFF).astype(index)
    parts = (gpu.host(part) for part in (union, columns, ends.astype(index)))
    return csr_array(tuple(parts), shape=(n, n))
