"""K-means on the GPU, against scikit-learn from the same seeds."""

import numpy as np
import pytest
from sklearn.cluster import KMeans as Reference
from sklearn.cluster import kmeans_plusplus

from manifoldry import KMeans
from manifoldry._numerics.gpu import kmeans


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 3))[rng.integers(5, size=150)] * 3 + rng.normal(size=(150, 3)) + 10


@pytest.mark.parametrize("tol", [0.0, 1e-2])
@pytest.mark.parametrize("entries", [2**27, 200])
def test_means_are_those_of_scikit_learn(rows, run, tol, entries, monkeypatch):
    monkeypatch.setattr(kmeans, "CHUNK_ENTRIES", entries)
    centers, _ = kmeans_plusplus(rows, 5, random_state=3)
    expected = Reference(5, init=centers, n_init=1, tol=tol, max_iter=40).fit(rows)
    means = kmeans.lloyd(rows, centers, 40, tol, run)
    # Labels are the same, so that centers differ by the rounding of sums of 150 numbers.
    np.testing.assert_allclose(means.cluster_centers_, expected.cluster_centers_, rtol=1e-12)
    assert means.inertia_ == pytest.approx(expected.inertia_, rel=1e-12)
    assert means.n_iter_ == expected.n_iter_


def test_an_empty_cluster_is_left_to_the_cpu(rows, run):
    far = np.vstack([rows[:2], [[1e3, 1e3, 1e3]]])
    assert kmeans.lloyd(rows, far, 10, 1e-4, run) is None


def test_clusters_are_those_of_the_cpu_and_repeat(rows):
    cpu = KMeans(n_clusters=5, n_init=3, n_jobs=1).fit(rows)
    one, other = (KMeans(n_clusters=5, n_init=3, device="cuda").fit(rows) for _ in range(2))
    np.testing.assert_array_equal(one.labels_, cpu.labels_)
    np.testing.assert_allclose(one.objectives_, cpu.objectives_, rtol=1e-9)
    np.testing.assert_array_equal(one.objectives_, other.objectives_)
    assert one.diagnostics_["device"].startswith("cuda")
