"""Preservation of density against its definition, and on points whose density is known."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry.evaluation._metrics._distortion import log_radii
from manifoldry.graph._pairwise import sample_rows


def folded(seed, n=60, d=4):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, :2] ** 2


def slow_density(X, Y, k, rows):
    """The correlation of log mean squared distances, one point at a time; no duplicates."""
    logs = []
    for points in (X, Y):
        D = distances_by_differences(points)
        radii = []
        for i in rows:
            near = sorted(D[i, j] for j in range(len(D)) if j != i)[:k]
            radii.append(sum(d**2 for d in near) / k)
        logs.append(np.log(radii))
    return np.corrcoef(logs)[0, 1]


@pytest.mark.parametrize("k", [1, 8, 59])
def test_the_definition(k):
    X, Y = folded(1)
    assert metrics.density_preservation(X, Y, n_neighbors=k) == pytest.approx(
        slow_density(X, Y, k, range(60)), abs=1e-11
    )


def test_a_sample_is_the_correlation_over_its_rows():
    X, Y = folded(2)
    rows = sample_rows(60, 20, 4)
    assert metrics.density_preservation(X, Y, n_neighbors=6, sample=20, random_state=4) == pytest.approx(
        slow_density(X, Y, 6, rows), abs=1e-11
    )


def test_perfect_scaled_mirrored_and_random_embeddings():
    X, _ = folded(3)
    for Y in (X, 1e-6 * X[:, ::-1], 5.0 - X):
        assert metrics.density_preservation(X, Y, n_neighbors=5) == pytest.approx(1.0, abs=1e-9)
    rng = np.random.default_rng(3)
    found = [metrics.density_preservation(rng.normal(size=(60, 3)), rng.normal(size=(60, 2))) for _ in range(40)]
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(40)


def test_an_embedding_that_evens_out_the_density_is_found_out():
    """Two blobs of width 1 and 10: drawn alike, their density is lost; turned inside out, it is reversed."""
    rng = np.random.default_rng(4)
    blobs = rng.normal(size=(2, 200, 3))
    X = np.vstack([blobs[0], 10 * blobs[1] + 100])
    alike = np.vstack([blobs[0], blobs[1] + 100])
    reversed_ = np.vstack([10 * blobs[0], blobs[1] + 100])
    kept, lost, turned = (metrics.density_preservation(X, Y) for Y in (X, alike, reversed_))
    assert kept == pytest.approx(1.0, abs=1e-12)
    assert abs(lost) < 0.4 < kept
    assert turned < -0.5


def test_duplicates_count_as_the_densest_place():
    np.testing.assert_array_equal(log_radii(np.array([0.0, 4.0, 1.0])), [0.0, np.log(4.0), 0.0])
    X, Y = folded(5)
    X[:6], Y[:6] = X[0], Y[0]
    found = metrics.density_preservation(X, Y, n_neighbors=4)
    assert np.isfinite(found)
    assert metrics.density_preservation(X, X, n_neighbors=4) == pytest.approx(1.0, abs=1e-12)


def test_a_collapsed_embedding_keeps_no_density():
    X, _ = folded(6)
    assert metrics.density_preservation(X, np.zeros((60, 2))) == 0.0


def test_metrics_sparse_rows_and_threads(monkeypatch):
    X, Y = folded(7)
    X = np.where(X > 0, X, 0.0)
    plain = metrics.density_preservation(X, Y)
    D = distances_by_differences(X)
    assert metrics.density_preservation(D, Y, metric="precomputed") == pytest.approx(plain, abs=1e-11)
    wide = np.hstack([X, np.zeros((60, 40))])
    assert metrics.density_preservation(csr_array(wide), Y) == pytest.approx(plain, abs=1e-9)
    monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", 7 * len(X))
    one, two = (metrics.density_preservation(X, Y, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert one == two == plain


def test_bad_input_is_refused_in_a_sentence():
    X, Y = folded(8)
    with pytest.raises(ValueError, match=r"same local radius in X"):
        metrics.density_preservation(np.eye(60), Y, n_neighbors=5)
    with pytest.raises(ValueError, match=r"between 1 and 59 for 60 points.*got 60"):
        metrics.density_preservation(X, Y, n_neighbors=60)
    with pytest.raises(ValueError, match=r"sample must be at least 3; got 2"):
        metrics.density_preservation(X, Y, sample=2)
    with pytest.raises(ValueError, match=r"At least 3 samples are needed.*got 2"):
        metrics.density_preservation(X[:2], Y[:2], n_neighbors=1)
