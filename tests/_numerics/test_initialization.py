"""Starts of a descent: what they are, that they are centered and of one size, and what is refused."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import block_diag, csr_array
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._numerics.descent.initialization import JITTER, best_scale, check_init, given_layout, initial_layout


def affinities(n, seed=0):
    """A ring with random affinities, and chords."""
    rng = np.random.default_rng(seed)
    i = np.arange(n)
    W = csr_array((rng.uniform(0.5, 1, n), (i, (i + 1) % n)), shape=(n, n))
    W = W + csr_array((rng.uniform(0.1, 0.2, n), (i, (i + 3) % n)), shape=(n, n))
    return csr_array(W + W.T)


@pytest.mark.parametrize("init", ["pca", "spectral", "random", "auto"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_starts_are_centered_and_the_widest_column_has_deviation_one(init, d):
    X = np.random.default_rng(1).standard_normal((50, 4))  # fewer columns than dimensions asked for
    Y = initial_layout(init, X, affinities(50), d, Run(0))
    assert Y.shape == (50, d)
    np.testing.assert_allclose(Y.mean(axis=0), 0.0, atol=1e-12)
    # Exact for the slow ones up to the random part; a random column deviates by 1 / sqrt(2 n).
    assert Y.std(axis=0).max() == pytest.approx(1.0, abs=4 / np.sqrt(100) if init == "random" else 5 * JITTER)


def test_pca_start_is_the_scores():
    X = np.random.default_rng(2).standard_normal((40, 3)) * [5, 2, 1]
    Y = initial_layout("pca", X, affinities(40), 2, Run(0))
    centered = X - X.mean(axis=0)
    U, s, _ = np.linalg.svd(centered, full_matrices=False)
    scores = U[:, :2] * s[:2]
    cosines = np.abs((Y * scores).sum(axis=0) / np.linalg.norm(Y, axis=0) / np.linalg.norm(scores, axis=0))
    assert cosines.min() > 1 - 1e-12
    sparse = initial_layout("pca", csr_array(X), affinities(40), 2, Run(0))
    np.testing.assert_allclose(np.abs(sparse), np.abs(Y), atol=1e-6)
    distances = initial_layout("pca", cdist(X, X), affinities(40), 2, Run(0), pairwise=True)
    np.testing.assert_allclose(distances, Y, atol=1e-10)


def test_spectral_start_is_the_slow_eigenvectors():
    W = affinities(60)
    Y = initial_layout("spectral", W, W, 2, Run(0), pairwise=True)
    D = np.diag(W.sum(axis=1))
    _, vectors = eigh(D - W.toarray(), D)
    slow = vectors[:, 1:3] - vectors[:, 1:3].mean(axis=0)
    # The two span the same plane: a ring's pair of waves may turn in it.
    left = Y - slow @ np.linalg.lstsq(slow, Y, rcond=None)[0]
    assert np.linalg.norm(left) < 1e-2 * np.linalg.norm(Y)


def test_a_long_strip_does_not_start_as_a_curve():
    """Its two lowest eigenvectors are functions of the length alone; a further one shows the width."""
    n = 20_000
    X = np.random.default_rng(5).uniform(size=(n, 2)) * [3.0, 1.0]
    near = cKDTree(X).query(X, 11)[1][:, 1:]
    W = csr_array((np.ones(10 * n), (np.repeat(np.arange(n), 10), near.ravel())), shape=(n, n))
    Y = initial_layout("spectral", W, csr_array(W.maximum(W.T)), 2, Run(0), pairwise=True)
    short = np.abs(X[:, 0] - 0.75) < 0.02  # points of nearly one length
    assert np.abs(np.corrcoef(X[short, 1], Y[short].T)[0, 1:]).max() > 0.9


def test_a_ring_starts_as_its_pair_of_waves():
    """Its eigenvalues are as small as those of a strip, but the two lowest eigenvectors are no functions of each other.

    A further one would add 0.1 of its length, 20 times the bound.
    """
    n = 3000
    i = np.arange(n)
    W = csr_array((np.ones(n), (i, (i + 1) % n)), shape=(n, n))
    W = csr_array(W + W.T)
    Y = initial_layout("spectral", W, W, 2, Run(0), pairwise=True)
    waves = np.column_stack([np.cos(2 * np.pi * i / n), np.sin(2 * np.pi * i / n)])
    left = Y - waves @ np.linalg.lstsq(waves, Y, rcond=None)[0]
    assert np.linalg.norm(left) < 0.005 * np.linalg.norm(Y)


def test_unconnected_pieces_start_apart():
    pieces = [affinities(30, 1), affinities(20, 2), affinities(9, 3)]
    W = csr_array(block_diag(pieces))
    Y = initial_layout("auto", W, W, 2, Run(0), pairwise=True)
    parts = np.split(Y, [30, 50])
    for a in range(3):
        for b in range(a):
            gap = np.linalg.norm(parts[a].mean(axis=0) - parts[b].mean(axis=0))
            radii = [np.linalg.norm(part - part.mean(axis=0), axis=1).max() for part in (parts[a], parts[b])]
            assert gap > max(radii)
    assert all(part.std() > 0 for part in parts)


def test_copies_start_apart():
    X = np.repeat(np.eye(3), 5, axis=0)
    Y = initial_layout("pca", X, affinities(15), 2, Run(0))
    assert len(np.unique(Y, axis=0)) == 15


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 7.0, 1e4, 1e300])
def test_a_given_start_has_no_unit(unit):
    """Centered, widest column of standard deviation 1, in its own shape to 2**-14 of its width, of 3 to 4 here."""
    Y = np.random.default_rng(4).uniform(size=(60, 2)) * [3.0, 1.0]
    start = given_layout(unit * Y, Run(0))
    assert np.array_equal(start, given_layout(Y, Run(0)))
    np.testing.assert_allclose(start.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(start.std(axis=0).max(), 1, rtol=1e-12)
    np.testing.assert_allclose(start, (Y - Y.mean(axis=0)) / Y[:, 0].std(), atol=4 / 2**14)
    assert len(np.unique(given_layout(np.zeros((9, 2)), Run(0)), axis=0)) == 9


def test_same_seed_same_start():
    X = np.random.default_rng(3).standard_normal((30, 3))
    one, two, other = (initial_layout("random", X, affinities(30), 2, Run(seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("init", "graph", "sentence"),
    [
        ("pca", True, "needs rows of features or all distances"),
        ("ipa", True, "init='ipa' needs rows of features, .* use 'spectral' or 'auto'"),
        (
            np.zeros((9, 2)),
            False,
            r"for each of the 10 points and 2 columns; got shape \(9, 2\)",
        ),
        (np.full((10, 2), np.nan), False, "must be finite"),
        (np.full((10, 2), 1j), False, "real numbers .* type complex128"),
    ],
)
def test_what_cannot_be_a_start_is_refused(init, graph, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_init(init, affinities(10) if graph else np.eye(10), 2, graph)


@pytest.mark.parametrize("best", [1e-5, 0.7, 1.0, 3.0, 12345.0])
def test_the_best_scale_is_found_to_half_a_step(best):
    found = best_scale(lambda scale: np.cosh(np.log(scale / best)))
    assert abs(np.log2(found / best)) <= 1 / 16 + 1e-9  # symmetric in the logarithm: the nearest eighth power of 2


def test_a_scale_without_bound_is_bounded():
    assert 1e6 < best_scale(lambda scale: 1 / scale) < 1e8
    assert 1e-8 < best_scale(lambda scale: scale) < 1e-6
    assert best_scale(lambda scale: scale * np.nan) == 1.0
