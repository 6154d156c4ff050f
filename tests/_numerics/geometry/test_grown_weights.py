"""Weights of a grown sample: those of a fit, computed only where lists changed."""

from dataclasses import replace

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.geometry.weights import grown_reconstruction, reconstruction
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborRule, neighbor_graph


def sample_of(X, k=6):
    lists, index = neighbor_graph(X, NeighborRule(k).resolve(len(X)), Run(0, 1))
    return Sample(X, lists, symmetrize(lists), index)


@pytest.mark.parametrize("n_new", [1, 30])
def test_only_points_with_other_neighbors_get_new_weights(n_new):
    X = np.random.default_rng(1).standard_normal((200 + n_new, 4))
    before, after = sample_of(X[:200]), sample_of(X)
    W = reconstruction(before, 1e-3, Run(0, 1))
    grown, computed = grown_reconstruction(after, 1e-3, Run(0, 1), W, before.neighbors)
    whole = reconstruction(after, 1e-3, Run(0, 1))
    np.testing.assert_array_equal(grown.indices, whole.indices)
    np.testing.assert_allclose(grown.data, whole.data, rtol=1e-9, atol=1e-12)
    lists = [after.neighbors.row(i)[0].tolist() != before.neighbors.row(i)[0].tolist() for i in range(200)]
    np.testing.assert_array_equal(computed, [*np.flatnonzero(lists), *range(200, 200 + n_new)])


def test_lists_of_other_lengths_are_told_apart():
    """Duplicates are left out of the lists, so that these differ in length."""
    X = np.random.default_rng(1).standard_normal((90, 3))
    X[80:85] = X[3]
    before, after = sample_of(X[:80]), sample_of(X)
    before, after = (replace(s, neighbors=s.neighbors.without_duplicates()) for s in (before, after))
    W = reconstruction(before, 1e-3, Run(0, 1))
    grown, _ = grown_reconstruction(after, 1e-3, Run(0, 1), W, before.neighbors)
    np.testing.assert_allclose(grown.toarray(), reconstruction(after, 1e-3, Run(0, 1)).toarray(), rtol=1e-9, atol=1e-12)
