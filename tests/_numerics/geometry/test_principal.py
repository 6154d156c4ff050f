"""Principal components against numpy's singular value decomposition, for tall, wide and deficient stacks."""

import numpy as np
import pytest

from manifoldry._numerics.geometry.principal import (
    centered_rows,
    gram_scores,
    n_principal,
    principal_directions,
    principal_scores,
)


def test_rows_far_from_the_origin_are_centered_to_their_own_rounding():
    rows = np.random.default_rng(0).normal(size=(1001, 3)) + 1e9
    about, mean = centered_rows(rows)
    np.testing.assert_allclose(mean, 1e9, rtol=1e-9)
    assert np.abs(about.mean(axis=0)).max() < 1e-14
    assert np.abs((rows - mean).mean(axis=0)).max() > 1e-9  # which is why


def centered(shape, seed, rank=None):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=shape)
    if rank is not None:
        rows = rng.normal(size=(*shape[:-1], rank)) @ rng.normal(size=(rank, shape[-1]))
    return rows - rows.mean(axis=-2, keepdims=True)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (3, 9, 4), (3, 4, 9), (2, 5, 5)])
def test_directions_and_scores_are_those_of_the_singular_value_decomposition(shape):
    rows = centered(shape, 1)
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    rank = min(shape[-2] - 1, shape[-1])
    values, directions = principal_directions(rows)
    # Eigenvalues of a product are good to eps of the largest.
    np.testing.assert_allclose(values, sizes**2, atol=1e-13 * sizes.max() ** 2)
    shared = np.abs(np.einsum("...dk,...kd->...k", directions[..., :rank], right[..., :rank, :]))
    np.testing.assert_allclose(shared, 1.0, atol=1e-10)
    values, scores = principal_scores(rows, rank)
    np.testing.assert_allclose(values[..., :rank], sizes[..., :rank] ** 2, rtol=1e-10)
    np.testing.assert_allclose(np.abs(scores), np.abs(left[..., :rank] * sizes[..., None, :rank]), atol=1e-10)
    np.testing.assert_allclose(np.abs(gram_scores(rows @ rows.swapaxes(-1, -2), rank)[1]), np.abs(scores), atol=1e-10)


def test_wide_rows_have_no_directions_beyond_their_rank():
    values, directions = principal_directions(centered((6, 20), 2, rank=3))
    assert (values[3:] < 1e-12 * values[0]).all()
    np.testing.assert_allclose(directions.T @ directions, np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), atol=1e-12)
    np.testing.assert_array_equal(principal_directions(np.zeros((3, 7)))[1], 0.0)


def test_dimensions_by_share_of_variance():
    assert n_principal(np.array([8.0, 1.5, 0.5]), 10.0, 3, None) == 3
    assert n_principal(np.array([8.0, 1.5, 0.5]), 10.0, 3, 0.1) == 2
    assert n_principal(np.array([8.0, 1.5, 0.5]), 10.0, 3, 0.25) == 1
    assert n_principal(np.array([8.0, 1.5, 0.5]), 10.0, 2, 0.01) == 2
    assert n_principal(np.array([8.0, 1e-12, 0.0]), 8.0, 3, None) == 1
    assert n_principal(np.zeros(3), 0.0, 3, None) == 0
