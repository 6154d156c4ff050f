"""Eigenvectors carried by few points: told, skipped, and kept from arising."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry import LTSA, CommuteTime, DiffusionMaps, HessianEigenmaps, LaplacianEigenmaps, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._core.values import Spectrum
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry._numerics.eigen.localized import aligned_eigenvectors, holding_map, participation, skip_localized


def test_participation_counts_the_points_that_carry_a_column():
    n = 400
    wave = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    few = np.zeros(n)
    few[:8] = [1, -1, 1, -1, 1, 1, -1, -1]
    # The means of cos^2 and cos^4 over whole half waves are 1/2 and 3/8.
    np.testing.assert_allclose(
        participation(np.column_stack([wave, few, 1e-200 * few])), [2 / 3, 0.02, 0.02], rtol=1e-12
    )


def test_held_points_are_means_of_the_free_ones_that_a_walk_meets():
    """A path of weights 1, 2, 3, ... held in the middle: linear in the resistance between the free ends."""
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    W = sp.csr_array(sp.diags_array([weights, weights], offsets=[-1, 1]))
    spread, free = holding_map(W, np.array([1, 2, 3]))
    assert free.tolist() == [0, 4]
    resistance = np.concatenate([[0.0], np.cumsum(1 / weights)])
    share = resistance / resistance[-1]
    np.testing.assert_allclose(spread.toarray(), np.column_stack([1 - share, share]), atol=1e-14)


def test_localized_pairs_are_skipped_while_others_are_left():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(200, 6)))[0]
    vectors[:, [0, 2]] = 0.0
    vectors[0, 0] = vectors[1, 2] = 1.0
    whole = Spectrum(np.arange(6.0), vectors, np.zeros(6), "smallest")
    found, notes = skip_localized(whole.head, 2, 6, 0.02)
    assert found.values.tolist() == [1.0, 3.0]
    assert notes["skipped_eigenvectors"] == 2
    assert "min_participation=0" in notes["remarks"][0]
    found, notes = skip_localized(whole.head, 5, 6, 0.02)  # four others: the first localized one stays
    assert found.values.tolist() == [0.0, 1.0, 3.0, 4.0, 5.0]
    assert "1 coordinate is carried" in notes["advice"][-1]
    kept, notes = skip_localized(whole.head, 2, 6, 0.0)
    assert kept.values.tolist() == [0.0, 1.0]
    assert notes == {}


def test_alignment_without_localized_vectors_is_left_alone():
    n = 100
    path = sp.csr_array(sp.diags_array([np.full(n - 1, -1.0), np.full(n - 1, -1.0)], offsets=[-1, 1]))
    L = sp.csr_array(path + sp.diags_array(-np.asarray(path.sum(axis=1)).ravel()))
    found = aligned_eigenvectors(L, lambda: -path, 2, 0.02, Run())
    assert found.notes == {}
    np.testing.assert_allclose(found.spectrum.values, 2 - 2 * np.cos(np.pi * np.array([1, 2]) / n), atol=1e-13)


@pytest.mark.parametrize("method", [LTSA, HessianEigenmaps])
def test_outliers_of_a_roll_take_no_coordinate(method):
    """Twelve points far from a roll of 1,000: held, they rule no axis; free, as in the papers, they do."""
    roll = datasets.swiss_roll(1000)
    rng = np.random.default_rng(1)
    X = np.vstack([roll.X, rng.normal(size=(12, 3)) * 300])
    model = method().fit(X)
    assert "placed at the weighted mean of their neighbors" in " ".join(model.diagnostics_["remarks"])
    assert 0 < model.diagnostics_["held_points"] <= 0.05 * len(X)
    assert participation(model.embedding_).min() > 0.02
    with pytest.warns(EmbeddingWarning):
        loose = method(min_participation=0.0).fit(X)
    assert participation(loose.embedding_).min() < 0.02  # what the source gives


@pytest.mark.parametrize("far", [10.0, 1e2, 1e6])
@pytest.mark.parametrize("method", [DiffusionMaps, CommuteTime, LaplacianEigenmaps])
def test_one_outlier_moves_the_others_by_a_few_percent(method, far):
    X = np.random.default_rng(0).normal(size=(400, 2))
    alone = method().fit_transform(X)
    beside = method().fit_transform(np.vstack([X, [[far, far]]]))[:400]
    # The outlier joins its ten neighbors to each other, a few percent of the points, by one more way.
    assert np.sqrt(metrics.procrustes(beside, alone).error) < 0.03
