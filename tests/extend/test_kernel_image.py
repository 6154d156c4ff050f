"""Maps fitted to the points as a kernel sees them, against the pseudo-inverse and least squares."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from manifoldry.extend.kernel_image import fit_kernel_map
from manifoldry.extend.kernel_projection import Kernel
from manifoldry.run import Run


def centered_kernel(A, X, width):
    """Return kernel values (m, n) centered with the means of X."""
    K, k = (np.exp(-(cdist(rows, X) ** 2) / (2 * width**2)) for rows in (X, A))
    return k - k.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()


def test_with_all_points_and_no_regularization_the_map_is_that_of_the_pseudo_inverse():
    rng = np.random.default_rng(8)
    X, Y, Q = rng.uniform(size=(40, 3)), rng.standard_normal((40, 2)), rng.uniform(size=(9, 3))
    projection, missed = fit_kernel_map(X, Y, Kernel("rbf", 0.5 / 0.2**2), X, 0.0, Run(0, 1))
    inverse = np.linalg.pinv(centered_kernel(X, X, 0.2), rcond=1e-12, hermitian=True)
    expected = centered_kernel(Q, X, 0.2) @ inverse @ (Y - Y.mean(axis=0)) + Y.mean(axis=0)
    # Rounding times the condition of the kernel, about 1e3 at this width.
    np.testing.assert_allclose(projection(Q, Run(0, 1)), expected, atol=1e-9)
    assert missed < 1e-10


def test_a_kernel_of_low_rank_projects_the_places():
    rng = np.random.default_rng(9)
    X, Y = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    projection, missed = fit_kernel_map(X, Y, Kernel("linear"), X, 0.0, Run(0, 1))
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
