"""Maps fitted to the points as a kernel sees them, against the pseudo-inverse and least squares."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._numerics.extension.kernel import AUTO_REGULARIZATIONS, Kernel, fit_kernel_map, left_out_errors


def centered_kernel(A, X, width):
    """Return kernel values (m, n) centered with the means of X."""
    K, k = (np.exp(-(cdist(rows, X) ** 2) / (2 * width**2)) for rows in (X, A))
    return k - k.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()


def test_with_all_points_and_no_regularization_the_map_is_that_of_the_pseudo_inverse():
    rng = np.random.default_rng(8)
    X, Y, Q = rng.uniform(size=(40, 3)), rng.standard_normal((40, 2)), rng.uniform(size=(9, 3))
    projection, missed, _ = fit_kernel_map(X, Y, Kernel("rbf", 0.5 / 0.2**2), X, 0.0, Run(0, 1))
    inverse = np.linalg.pinv(centered_kernel(X, X, 0.2), rcond=1e-12, hermitian=True)
    expected = centered_kernel(Q, X, 0.2) @ inverse @ (Y - Y.mean(axis=0)) + Y.mean(axis=0)
    # Rounding times the condition of the kernel, about 1e3 at this width.
    np.testing.assert_allclose(projection(Q, Run(0, 1)), expected, atol=1e-9)
    assert missed < 1e-10


def test_a_kernel_of_low_rank_projects_the_places():
    rng = np.random.default_rng(9)
    X, Y = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    projection, missed, _ = fit_kernel_map(X, Y, Kernel("linear"), X, 0.0, Run(0, 1))
    design = np.column_stack([np.ones(50), X])
    expected = design @ np.linalg.lstsq(design, Y, rcond=None)[0]
    np.testing.assert_allclose(projection(X, Run(0, 1)), expected, atol=1e-10)
    assert missed == pytest.approx(np.linalg.norm(expected - Y) / np.linalg.norm(Y - Y.mean(axis=0)), rel=1e-8)


def test_regularization_shrinks_the_map():
    rng = np.random.default_rng(10)
    X, Y = rng.uniform(size=(40, 2)), rng.standard_normal((40, 1))
    sizes = [
        np.linalg.norm(fit_kernel_map(X, Y, Kernel("rbf", 0.5 / 0.2**2), X[::2], reg, Run(0, 1))[0].weights)
        for reg in (0.0, 1e-3, 1e-1)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def centered_design(K, targets):
    """Return the scores of centered columns in the eigenvectors of their Gram matrix, its eigenvalues and products."""
    features = K - K.mean(axis=0)
    values, vectors = np.linalg.eigh(features.T @ features)
    kept = values > 1e-13 * values[-1]
    scores = features @ vectors[:, kept]
    return scores, values[kept], scores.T @ (targets - targets.mean(axis=0))


@pytest.mark.parametrize("columns", [8, 30])
def test_errors_of_points_left_out_are_those_of_fits_without_them(columns):
    """The closed form against one ridge regression with an intercept per point, also with as many columns as points."""
    rng = np.random.default_rng(11)
    K, Y = rng.standard_normal((30, columns)), rng.standard_normal((30, 2))
    scores, values, targets = centered_design(K, Y)
    found = left_out_errors(scores, values, targets, Y - Y.mean(axis=0), len(Y))
    for reg, error in zip(AUTO_REGULARIZATIONS, found, strict=True):
        expected = 0.0
        for out in range(len(Y)):
            kept = np.arange(len(Y)) != out
            mean, center = K[kept].mean(axis=0), Y[kept].mean(axis=0)
            # Ridge regression as least squares with one more row per column.
            rows = np.vstack([K[kept] - mean, np.sqrt(reg * values[-1]) * np.eye(columns)])
            wanted = np.vstack([Y[kept] - center, np.zeros((columns, 2))])
            weights = np.linalg.lstsq(rows, wanted, rcond=None)[0]
            expected += np.square((K[out] - mean) @ weights + center - Y[out]).sum()
        # Where all points are interpolated, 1 - H is as small as reg, and rounding is as large relative to it.
        assert error == pytest.approx(expected, rel=1e-4)


def test_an_automatic_regularization_averages_noise_and_follows_a_smooth_map():
    rng = np.random.default_rng(12)
    X, Q = rng.uniform(size=(200, 2)), rng.uniform(size=(200, 2))
    noise = 0.3 * rng.standard_normal((200, 1))

    def smooth(points):
        return np.sin(4 * points[:, :1]) + points[:, 1:] ** 2

    def missed(Y, reg):
        projection, _, used = fit_kernel_map(X, Y, Kernel("rbf", 10.0), X, reg, Run(0, 1))
        return np.linalg.norm(projection(Q, Run(0, 1)) - smooth(Q)), used

    clean, noisy = missed(smooth(X), None), missed(smooth(X) + noise, None)
    assert clean[1] < 1e-6 < 1e-4 < noisy[1]
    assert clean[0] < 0.01 * missed(smooth(X), noisy[1])[0]
    assert noisy[0] < 0.5 * missed(smooth(X) + noise, clean[1])[0]
