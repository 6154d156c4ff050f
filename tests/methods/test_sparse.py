"""Sparse rows are never made dense as a whole."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry import LandmarkIsomap, LaplacianEigenmaps


def documents(n, words=50_000, entries=80, topics=10):
    """Rows of about ``entries`` weights: half of them of the words of a topic, half of words that all rows share."""
    rng = np.random.default_rng(0)
    own = rng.integers(topics, size=n)[:, None] * 500 + rng.integers(500, size=(n, entries))
    shared = words - 1 - rng.integers(3000, size=(n, entries))
    columns = np.where(rng.random((n, entries)) < 0.5, own, shared)
    place = np.repeat(np.arange(n), entries), columns.reshape(-1)
    return csr_array((rng.random(n * entries), place), shape=(n, words))


@pytest.mark.parametrize("method", [LaplacianEigenmaps, LandmarkIsomap])
@pytest.mark.filterwarnings("ignore::manifoldry.DisconnectedWarning")
def test_wide_sparse_rows_are_embedded_in_little_memory(method):
    X = documents(4000)
    model = method(n_components=2, metric="cosine", n_jobs=1)
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e8  # dense rows would take 1.6 GB; a block of distances takes 128 MB and its sparse product as much
    assert np.isfinite(model.transform(X[:5])).all()
