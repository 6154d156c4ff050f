"""Classical scaling: distances in, the same distances out, and what to do where they are not Euclidean."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._core.values import Spectrum
from manifoldry._numerics.scaling import (
    Scaling,
    additive_constant,
    center_gram,
    classical_scaling,
    embed_from_landmarks,
    landmark_scaling,
    negative_part,
    principal_axes,
    principal_rotation,
    principal_scaling,
)

EPS = np.finfo(float).eps


def cloud(seed, n=60, columns=3, scale=None):
    """Points whose directions have different spreads, so that eigenvalues are simple."""
    rng = np.random.default_rng(seed)
    spread = np.arange(columns, 0, -1.0) if scale is None else scale
    return rng.normal(size=(n, columns)) * spread + 5.0


def centering(n):
    return np.eye(n) - 1.0 / n


def kernel(D):
    H = centering(len(D))
    return -0.5 * H @ D**2 @ H


def rough(seed, n):
    """Symmetric random dissimilarities, far from Euclidean."""
    upper = np.triu(np.random.default_rng(seed).uniform(1, 2, size=(n, n)), 1)
    return upper + upper.T


def shifted(D, c):
    return D + c * (1 - np.eye(len(D)))


def bound(D):
    """Rounding of a kernel's entries and eigenvalues: n eps times the largest squared distance."""
    return len(D) * EPS * float((D**2).max())


# Classical scaling


@pytest.mark.parametrize(("n", "columns"), [(20, 1), (60, 3), (700, 4)])
def test_euclidean_distances_are_reproduced(n, columns):
    X = cloud(1, n, columns)
    D = cdist(X, X)
    scaling = classical_scaling(D, columns, Run(0))
    Y = scaling.coordinates
    # Squared distances come back with the rounding of B; roots of small ones magnify it most.
    np.testing.assert_allclose(cdist(Y, Y) ** 2, D**2, atol=40 * bound(D))
    np.testing.assert_allclose(Y.mean(axis=0), 0.0, atol=bound(D))
    np.testing.assert_allclose(Y.T @ Y, np.diag(scaling.spectrum.values), atol=40 * bound(D))


def test_coordinates_are_the_scores_of_pca():
    X = cloud(2)
    centered = X - X.mean(axis=0)
    U, s, _ = np.linalg.svd(centered, full_matrices=False)
    scaling = classical_scaling(cdist(X, X), 3, Run(0))
    np.testing.assert_allclose(scaling.spectrum.values, s**2, rtol=1e-12)
    scores = U * s
    signs = np.sign((scores * scaling.coordinates).sum(axis=0))
    np.testing.assert_allclose(scaling.coordinates, scores * signs, atol=1e-11)  # gaps of a few tens of the values
    top = scaling.coordinates[np.abs(scaling.coordinates).argmax(axis=0), np.arange(3)]
    assert (top > 0).all()


def test_the_kernel_is_doubly_centered_in_place_only_when_told():
    D = rough(3, 50)
    kept = D.copy()
    classical_scaling(D, 2, Run(0))
    np.testing.assert_array_equal(D, kept)
    scaling = classical_scaling(D, 2, Run(0), overwrite=True)
    np.testing.assert_allclose(D, kernel(kept), atol=10 * EPS * 4)  # a few sums of numbers up to 4
    np.testing.assert_allclose(D.sum(axis=0), 0.0, atol=50 * 10 * EPS * 4)
    np.testing.assert_allclose(D.sum(axis=1), 0.0, atol=50 * 10 * EPS * 4)
    np.testing.assert_allclose(scaling.mean_squares, (kept**2).mean(axis=1), rtol=1e-15 * 50)


def test_eigenpairs_are_the_largest_of_the_kernel():
    D = rough(4, 80)
    scaling = classical_scaling(D, 5, Run(0))
    np.testing.assert_allclose(scaling.spectrum.values, np.linalg.eigvalsh(kernel(D))[::-1][:5], atol=bound(D))


def test_blocks_and_threads_change_no_bit(monkeypatch):
    D = rough(5, 90)
    one, two = (classical_scaling(D, 3, Run(0, n_jobs)).coordinates for n_jobs in (1, 2))
    assert one.tobytes() == two.tobytes()
    monkeypatch.setattr("manifoldry._numerics.scaling.SCALING_BLOCK_ENTRIES", 7 * 90)
    np.testing.assert_array_equal(classical_scaling(D, 3, Run(0, 2)).coordinates, one)


def test_float32_distances_are_scaled_to_their_own_precision():
    X = cloud(6, 50)
    D = cdist(X, X)
    single = classical_scaling(D.astype(np.float32), 3, Run(0)).coordinates
    eps32 = float(np.finfo(np.float32).eps)
    np.testing.assert_allclose(cdist(single, single) ** 2, D**2, atol=50 * eps32 * (D**2).max())


def test_a_gram_matrix_is_centered():
    X = cloud(7, 40)
    G = X @ X.T
    kept = G.copy()
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(center_gram(G, Run(0)), centered @ centered.T, atol=20 * EPS * np.abs(G).max())
    np.testing.assert_array_equal(G, kept)


# New points


def test_old_points_are_placed_where_they_are():
    X = cloud(8)
    D = cdist(X, X)
    scaling = classical_scaling(D, 3, Run(0))
    # B v / sqrt(lambda): the rounding of B's rows, divided by the smallest root.
    atol = 10 * bound(D) / np.sqrt(scaling.spectrum.values[-1])
    np.testing.assert_allclose(scaling.place(D**2), scaling.coordinates, atol=atol)
    rough_scaling = classical_scaling(rough(8, 40), 4, Run(0))
    np.testing.assert_allclose(rough_scaling.place(rough(8, 40) ** 2), rough_scaling.coordinates, atol=1e-12)


def test_new_points_keep_their_distances_in_the_span_and_are_projected_outside():
    X, Q = cloud(9), cloud(10, 15)
    D = cdist(X, X)
    scaling = classical_scaling(D, 3, Run(0))
    atol = 100 * bound(D)
    np.testing.assert_allclose(cdist(scaling.place(cdist(Q, X) ** 2), scaling.coordinates), cdist(Q, X), atol=atol)
    height = 7.0
    np.testing.assert_allclose(scaling.place(cdist(Q, X) ** 2 + height**2), scaling.place(cdist(Q, X) ** 2), atol=atol)


def test_dimensions_that_the_points_do_not_have_stay_empty():
    X, Q = cloud(11, columns=2), cloud(12, 20, columns=2)
    D = cdist(X, X)
    scaling = classical_scaling(D, 6, Run(0))
    small = np.sqrt(bound(D))  # the root of an eigenvalue that is rounding
    np.testing.assert_allclose(scaling.coordinates[:, 2:], 0.0, atol=small)
    for squares in (D**2, cdist(Q, X) ** 2, rough(12, 60)[:20] ** 2):
        np.testing.assert_allclose(scaling.place(squares)[:, 2:], 0.0, atol=small)
    np.testing.assert_allclose(cdist(scaling.place(cdist(Q, X) ** 2), scaling.coordinates), cdist(Q, X), atol=1e-6)


def test_non_positive_eigenvalues_give_columns_of_zeros():
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0][:, :3]
    scaling = Scaling(Spectrum(np.array([2.0, 0.0, -1.0]), vectors, np.zeros(3)), np.ones(5))
    np.testing.assert_array_equal(scaling.coordinates[:, 1:], np.zeros((5, 2)))
    np.testing.assert_array_equal(scaling.place(np.ones((4, 5)))[:, 1:], np.zeros((4, 2)))


# Landmarks


def test_all_points_as_landmarks_is_classical_scaling():
    D = rough(13, 60)
    run = Run(0)
    whole = classical_scaling(D, 4, run)
    by_landmarks = landmark_scaling(D, np.arange(60), 4, run)
    np.testing.assert_allclose(by_landmarks.spectrum.values, whole.spectrum.values, rtol=1e-13)
    np.testing.assert_allclose(by_landmarks.coordinates, whole.coordinates, atol=1e-12)
    np.testing.assert_allclose(embed_from_landmarks(by_landmarks, D, run), whole.coordinates, atol=1e-12)


@pytest.mark.parametrize("count", [4, 5, 20])
def test_more_landmarks_than_dimensions_place_euclidean_points_exactly(count):
    X = cloud(14, 200)
    landmarks = np.random.default_rng(14).permutation(200)[:count]
    lengths = cdist(X[landmarks], X)
    scaling = landmark_scaling(lengths, landmarks, 3, Run(0))
    Y = embed_from_landmarks(scaling, lengths, Run(0, 2))
    # The landmarks' spread in their narrowest direction divides the rounding of squared distances.
    atol = 100 * 200 * EPS * (lengths**2).max() / np.sqrt(scaling.spectrum.values[-1])
    np.testing.assert_allclose(cdist(Y, Y), cdist(X, X), atol=atol)
    np.testing.assert_allclose(Y[landmarks], scaling.coordinates, atol=atol)


def test_placement_is_the_same_in_any_blocks_and_threads(monkeypatch):
    X = cloud(15, 300)
    landmarks = np.arange(0, 300, 10)
    lengths = cdist(X[landmarks], X).astype(np.float32)
    scaling = landmark_scaling(lengths, landmarks, 3, Run(0))
    monkeypatch.setattr("manifoldry._numerics.scaling.SCALING_BLOCK_ENTRIES", 30 * 64)
    one, two = (embed_from_landmarks(scaling, lengths, Run(0, n_jobs)) for n_jobs in (1, 2))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, scaling.place(lengths.T.astype(float) ** 2), atol=1e-11)


# Points instead of distances


@pytest.mark.parametrize(("n", "columns"), [(80, 6), (12, 50), (20, 20)])
def test_principal_scaling_is_classical_scaling_of_the_distances(n, columns):
    X = cloud(16, n, columns, scale=np.linspace(9, 1, columns))
    D = cdist(X, X)
    slow = classical_scaling(D, 3, Run(0))
    fast, directions = principal_scaling(X, 3, Run(0))
    np.testing.assert_allclose(fast.spectrum.values, slow.spectrum.values, rtol=1e-11)
    np.testing.assert_allclose(fast.coordinates, slow.coordinates, atol=1e-10)  # gaps of a tenth of the values
    np.testing.assert_allclose(fast.mean_squares, slow.mean_squares, rtol=1e-12)
    np.testing.assert_allclose((X - X.mean(axis=0)) @ directions, fast.coordinates, atol=1e-11)
    np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(fast.place(D**2), fast.coordinates, atol=1e-10)
    top = fast.coordinates[np.abs(fast.coordinates).argmax(axis=0), np.arange(3)]
    assert (top > 0).all()


@pytest.mark.parametrize("wide", [False, True])
def test_directions_that_the_data_do_not_have_are_zero(wide):
    plane = cloud(17, 15, 2)
    lift = np.random.default_rng(17).normal(size=(2, 40 if wide else 8))
    X = plane @ lift
    scaling, directions = principal_scaling(X, 5, Run(0))
    np.testing.assert_array_equal(scaling.coordinates[:, 2:], np.zeros((15, 3)))
    np.testing.assert_array_equal(directions[:, 2:], 0.0)
    np.testing.assert_array_equal(scaling.spectrum.values[2:], 0.0)
    assert (scaling.spectrum.values[:2] > 0).all()
    Y = scaling.coordinates
    np.testing.assert_allclose(cdist(Y, Y), cdist(X, X), atol=1e-12 * np.abs(X).max())


def test_more_dimensions_than_columns_are_zero():
    X = cloud(18, 30, 2)
    scaling, directions = principal_scaling(X, 4, Run(0))
    assert scaling.coordinates.shape == (30, 4)
    assert directions.shape == (2, 4)
    np.testing.assert_array_equal(scaling.coordinates[:, 2:], 0.0)


def test_an_offset_or_single_precision_costs_principal_scaling_little():
    X = cloud(19, 80, 4)
    plain, _ = principal_scaling(X, 3, Run(0))
    offset, _ = principal_scaling(X + 1e6, 3, Run(0))
    # The offset rounds the columns to 1e6 eps.
    np.testing.assert_allclose(offset.coordinates, plain.coordinates, atol=100 * 1e6 * EPS)
    single, _ = principal_scaling(X.astype(np.float32), 3, Run(0))
    np.testing.assert_allclose(single.coordinates, plain.coordinates, atol=100 * 20 * 1.2e-7)
    assert single.coordinates.dtype == np.float64


def test_principal_axes_are_principal_scaling_where_every_column_counts():
    X = cloud(30, 60, 4, scale=np.array([8.0, 4.0, 2.0, 1.0])) + 5.0
    coordinates, spectrum = principal_axes(X, 3)
    expected = principal_scaling(X, 4, Run(0))[0]
    np.testing.assert_allclose(coordinates, expected.coordinates[:, :3], atol=1e-11)
    np.testing.assert_allclose(spectrum.values, expected.spectrum.values, rtol=1e-12)
    np.testing.assert_allclose(spectrum.scaled(0.5)[:, :3], coordinates, atol=1e-12)
    wider, _ = principal_axes(X, 6)
    np.testing.assert_array_equal(wider[:, :3], coordinates)
    np.testing.assert_array_equal(wider[:, 4:], 0.0)


def test_turned_points_are_uncorrelated_and_their_axes_and_mean_lead_back():
    X = cloud(31, 50, 3) @ np.random.default_rng(31).normal(size=(3, 3)) + 7.0
    before = X.copy()
    turned, axes, mean = principal_rotation(X)
    np.testing.assert_allclose(turned @ axes.T + mean, X, atol=1e-12 * np.abs(X).max())
    products = turned.T @ turned
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12 * products[0, 0])
    assert (np.diff(np.diag(products)) < 0).all()
    assert (turned[np.abs(turned).argmax(axis=0), np.arange(3)] > 0).all()
    np.testing.assert_array_equal(X, before)


def test_coinciding_points_have_no_axes_but_zeros():
    coordinates, spectrum = principal_axes(np.full((5, 2), 3.0), 2)
    np.testing.assert_array_equal(coordinates, 0.0)
    np.testing.assert_array_equal(spectrum.vectors, 0.0)


# Distances that are not Euclidean


def test_the_negative_part_is_read_off_the_spectrum():
    B = kernel(rough(20, 70))
    values = np.linalg.eigvalsh(B)
    found = negative_part(B, Run(0))
    assert found["lowest"] == pytest.approx(values[0], rel=1e-12)
    assert found["share"] == pytest.approx(-values[values < 0].sum() / np.abs(values).sum(), rel=1e-12)
    X = cloud(20, 70)
    assert negative_part(kernel(cdist(X, X)), Run(0))["share"] < 70 * EPS * 10


def test_beyond_a_thousand_points_only_the_lowest_is_told(monkeypatch):
    B = kernel(rough(21, 70))
    monkeypatch.setattr("manifoldry._numerics.scaling.MAX_FULL_SPECTRUM", 69)
    found = negative_part(B, Run(0))
    assert found["lowest"] == pytest.approx(np.linalg.eigvalsh(B)[0], rel=1e-10)
    assert found["share"] is None


def by_block_matrix(D):
    """Cailliez's theorem as it stands: the largest eigenvalue of the 2n x 2n matrix."""
    n, H = len(D), centering(len(D))
    block = np.block([[np.zeros((n, n)), -(H @ D**2 @ H)], [-np.eye(n), 2 * H @ D @ H]])
    return float(np.linalg.eigvals(block).real.max())


@pytest.mark.parametrize("n", [4, 8, 60])
def test_the_constant_is_the_largest_eigenvalue_of_the_theorem(n):
    D = rough(22, n)
    # Eigenvalues of a non-symmetric matrix are good to the root of eps at worst.
    assert additive_constant(D, Run(0)) == pytest.approx(by_block_matrix(D), rel=1e-8)


@pytest.mark.parametrize("n", [8, 60, 410])  # the last beyond LAPACK's share of the eigenproblems
def test_the_constant_makes_the_distances_just_euclidean(n):
    D = rough(23, n)
    c = additive_constant(D, Run(0))
    assert np.linalg.eigvalsh(kernel(shifted(D, c)))[0] >= -10 * bound(shifted(D, c))
    assert np.linalg.eigvalsh(kernel(shifted(D, 0.95 * c)))[0] < -1e3 * bound(shifted(D, c))


def test_the_constant_makes_path_lengths_on_a_ring_euclidean():
    n = 24
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    D = np.minimum(apart, n - apart) * 1.0
    c = additive_constant(D, Run(0))
    # A circulant kernel: its eigenvalues are the discrete Fourier transform of -D2/2, whose lowest must reach 0.
    waves = np.fft.fft(-0.5 * shifted(D, c)[0] ** 2).real[1:]
    assert waves.min() == pytest.approx(0.0, abs=10 * bound(shifted(D, c)))


def test_euclidean_distances_need_no_constant():
    for n in (30, 450):
        X = cloud(25, n)
        D = cdist(X, X)
        # Where a squared distance is off by its rounding e, c is off by up to the root of e.
        assert 0.0 <= additive_constant(D, Run(0)) <= np.sqrt(bound(D))


def test_a_constant_that_was_added_is_not_needed_twice():
    D = rough(26, 40)
    c = additive_constant(D, Run(0))
    again = additive_constant(shifted(D, c), Run(0))
    assert again <= 1e-6 * c
    assert additive_constant(shifted(D, c / 2), Run(0)) == pytest.approx(c / 2, rel=1e-8)
    assert additive_constant(3.0 * D, Run(0)) == pytest.approx(3.0 * c, rel=1e-8)


def test_duplicates_count_once_and_nothing_is_written():
    D = rough(27, 30)
    c = additive_constant(D, Run(0))
    copies = np.concatenate([np.arange(30), [3, 3, 17]])
    doubled = D[np.ix_(copies, copies)]
    kept = doubled.copy()
    assert additive_constant(doubled, Run(0)) == pytest.approx(c, rel=1e-12)
    np.testing.assert_array_equal(doubled, kept)
