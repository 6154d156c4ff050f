"""Options of the graph, targets and rows that come later do not lose each other."""

import numpy as np
import pytest

import manifoldry
from helpers import bent_sheet

OPTIONS = [{"edge_lengths": "hellinger"}, {"edge_lengths": "local_linearity"}, {"remove_short_circuits": "detours"}]


@pytest.mark.parametrize("options", OPTIONS)
def test_targets_lengthen_the_edges_that_the_options_left(options):
    X = bent_sheet(80)
    y = (X[:, 2] > np.median(X[:, 2])).astype(int)
    plain = manifoldry.Isomap(n_neighbors=8, **options).fit(X)
    steered = manifoldry.Isomap(n_neighbors=8, target_weight=0.5, **options).fit(X, y)
    before, after = plain.graph_.to_sparse(), steered.graph_.to_sparse()
    assert set(zip(*before.nonzero(), strict=True)) == set(zip(*after.nonzero(), strict=True))
    i, j = before.nonzero()
    # Half the weight puts classes as far apart as neighbors are in the median: d becomes the root of d^2 + h^2.
    distance = np.where(y[i] != y[j], steered.diagnostics_["target_distance"], 0.0)
    np.testing.assert_allclose(after[i, j], np.hypot(before[i, j], distance), rtol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("method", [manifoldry.Isomap, manifoldry.LLE])
def test_rows_that_come_later_are_embedded_with_the_options_of_the_graph(method, options):
    if method is manifoldry.LLE and options.get("edge_lengths") == "local_linearity":
        pytest.skip("refused: locally linear embedding takes no lengths")
    X = bent_sheet(120)
    grown = method(n_neighbors=8, **options).partial_fit(X[:70]).partial_fit(X[70:])
    whole = method(n_neighbors=8, **options).fit(X)
    assert np.array_equal(grown.graph_.indices, whole.graph_.indices)
    np.testing.assert_allclose(grown.graph_.lengths, whole.graph_.lengths, rtol=1e-12)
    scale = np.abs(whole.embedding_).max()
    np.testing.assert_allclose(grown.embedding_, whole.embedding_, rtol=0, atol=1e-6 * scale)
