"""Alignment matrices: singular on purpose, the hardest customers of the eigensolver."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.spatial

from manifoldry._core.run import Run
from manifoldry._numerics.eigen import largest, smallest

pytestmark = pytest.mark.usefixtures("one_blas_thread")

# What the solvers accept of a residual, relative to the norm.
ACCEPTED = 1e-12


def _spanned_by(vectors, basis):
    """Largest distance of a unit vector of ``basis``'s span from the span of orthonormal ``vectors``."""
    Q = np.linalg.qr(basis)[0]
    return np.linalg.norm(Q - vectors @ (vectors.T @ Q), 2)


def _alignment(X, k, d, first=0):
    """LTSA's matrix: sum of projectors onto what is not affine in the d principal coordinates.

    A neighborhood begins with its own point, or for ``first=1`` with the nearest other one.
    """
    n = len(X)
    distances = scipy.spatial.distance.cdist(X, X)
    members = np.argsort(distances, axis=1, kind="stable")[:, first : first + k]
    local = X[members] - X[members].mean(axis=1, keepdims=True)
    U = np.linalg.svd(local, full_matrices=False)[0][:, :, :d]
    G = np.concatenate([np.full((n, k, 1), k**-0.5), U], axis=2)
    blocks = np.eye(k) - G @ G.transpose(0, 2, 1)
    rows, columns = np.repeat(members, k, axis=1), np.tile(members, (1, k))
    return sp.csr_array((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(n, n))


@pytest.mark.parametrize("n", [400, 900])
def test_flat_sheet_is_the_null_space_of_its_alignment_matrix(n):
    sheet = np.random.default_rng(0).random((n, 2))
    A = _alignment(sheet @ np.array([[1.0, 2.0, 0.0], [-1.0, 0.5, 1.0]]), 10, 2)
    found = smallest(A, 3, null=np.ones(n), run=Run())
    # The third value is some 1e-6 of the norm (far above rounding); the vectors err by 1e-15 / 1e-6 of it.
    assert found.values[2] > 1e4 * max(abs(found.values[1]), 1e-14)
    assert _spanned_by(found.vectors[:, :2], sheet - sheet.mean(axis=0)) < 1e-6


@pytest.mark.parametrize("first", [0, 1])
def test_alignment_matrix_of_the_digits_is_solved(first):
    """Without their own points, some are in no neighborhood: rows of zeros, an exactly singular factor."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    A = _alignment(X, 15, 2, first)
    norm = largest(A, 1, run=Run()).values[0]
    found = smallest(A, 4, null=np.ones(len(X)), run=Run())
    assert found.residuals.max() < ACCEPTED * norm
    assert found.values.min() > -ACCEPTED * norm
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-13)
    np.testing.assert_allclose(found.vectors.sum(axis=0), 0, atol=1e-11)
    exact = scipy.linalg.eigvalsh(A.toarray(), subset_by_index=(1, 4))
    np.testing.assert_allclose(found.values, exact, atol=ACCEPTED * norm)


def test_values_at_the_edge_of_rounding_are_told_apart():
    """A bent sheet's coordinates belong to values of 1e-8 of the norm; the slow twin is LAPACK's QR."""
    n = 1000
    t, height = np.random.default_rng(5).random((2, n))
    A = _alignment(np.c_[np.cos(2 * t), np.sin(2 * t), height], 10, 2)
    norm = largest(A, 1, run=Run()).values[0]
    found = smallest(A, 2, null=np.ones(n), run=Run())
    values, vectors = scipy.linalg.eigh(A.toarray(), driver="ev")
    assert values[2] < 1e-6 * norm
    # The error of LAPACK itself: a modest multiple of eps * norm; it tilts the span by error / gap.
    error = 30 * np.finfo(float).eps * norm
    np.testing.assert_allclose(found.values, values[1:3], atol=error)
    plane = np.c_[np.full(n, n**-0.5), found.vectors]
    assert _spanned_by(plane, vectors[:, :3]) < error / (values[3] - values[2])
