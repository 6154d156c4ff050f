"""SciPy's graph algorithms accept every type of index, with the results of 32-bit indices."""

import numpy as np
import pytest
from scipy.sparse import csgraph, csr_array, issparse

import manifoldry._core.csgraph as ours

NAMES = ["breadth_first_order", "connected_components", "dijkstra", "minimum_spanning_tree"]


def weighted_graph(index_type):
    """Return a connected graph of 40 points with distinct weights and indices of a given type."""
    rng = np.random.default_rng(7)
    weights = np.triu(rng.permutation(1600).reshape(40, 40) + 1.0, 1)
    weights[rng.random((40, 40)) < 0.7] = 0.0
    weights[np.arange(39), np.arange(1, 40)] = 5000.0 + np.arange(39)
    narrow = csr_array(weights + weights.T)
    return csr_array((narrow.data, narrow.indices, narrow.indptr), shape=narrow.shape), _with_type(narrow, index_type)


def _with_type(matrix, index_type):
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(index_type), wide.indptr.astype(index_type)
    return wide


def _arrays(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [part.toarray() if issparse(part) else np.asarray(part) for part in parts]


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("name", NAMES)
def test_the_result_does_not_depend_on_the_type_of_the_indices(name, index_type):
    narrow, wide = weighted_graph(index_type)
    assert wide.indices.dtype == index_type
    arguments = (0,) if name == "breadth_first_order" else ()
    result = getattr(ours, name)(wide, *arguments)
    expected = getattr(csgraph, name)(narrow, *arguments)
    for mine, theirs in zip(_arrays(result), _arrays(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert wide.indices.dtype == index_type  # the input is not changed


def test_a_graph_beyond_32_bits_is_refused():
    wide = csr_array((1, 2**31 + 5), dtype=float)
    with pytest.raises(ValueError, match=r"at most 2,147,483,647 of each are supported: use fewer"):
        ours.with_int32_indices(wide)
