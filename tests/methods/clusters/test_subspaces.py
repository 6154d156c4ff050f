"""Affine subspaces of clusters against the singular value decomposition and explicit projectors."""

import numpy as np
import pytest

from manifoldry.methods.clusters import _subspaces as subspaces
from manifoldry.methods.clusters._subspaces import AffineSubspaces, grouped, squared_distances

EPS = np.finfo(float).eps


def sample(n, d, c, seed):
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1.0, 0.05, d)  # no two variances are close, so the subspaces are unique
    return rng.standard_normal((n, d)) * scales + 3.0, rng.permutation(np.arange(n) % c)


# Few columns at once; scatter and Gram matrices one by one; the last is large enough for Lanczos.
SHAPES = [(60, 3, 4, 2), (60, 3, 4, 3), (120, 40, 2, 3), (60, 40, 4, 3), (480, 300, 2, 4)]


@pytest.mark.parametrize(("n", "d", "c", "r"), SHAPES)
def test_subspaces_are_those_of_the_singular_value_decomposition(n, d, c, r):
    X, labels = sample(n, d, c, seed=n + d)
    found = AffineSubspaces.of_clusters(X, labels, c, r)
    assert len(found) == c
    assert found.n_components == r
    for label in range(c):
        members = X[labels == label]
        centered = members - members.mean(axis=0)
        _, singular, directions = np.linalg.svd(centered, full_matrices=False)
        np.testing.assert_allclose(found.means[label], members.mean(axis=0), rtol=0, atol=1e-14)
        np.testing.assert_allclose(found.bases[label].T @ found.bases[label], np.eye(r), rtol=0, atol=100 * EPS * d)
        # A decomposition of the squared matrix is backward stable: values to d eps of the largest, and vectors to
        # that over the gap, of which these scales leave a hundredth.
        np.testing.assert_allclose(found.variances[label], singular[:r] ** 2 / len(members), rtol=0, atol=1e-12)
        cosines = np.linalg.svd(directions[:r] @ found.bases[label], compute_uv=False)
        np.testing.assert_allclose(cosines, 1.0, rtol=0, atol=1e-9)
        assert found.errors(members, np.full(len(members), label)).sum() == pytest.approx(
            (singular[r:] ** 2).sum(), rel=1e-10, abs=1e-12
        )


@pytest.mark.parametrize(("n", "d", "c", "r"), SHAPES[:4])
def test_distances_to_all_subspaces_equal_explicit_projectors(n, d, c, r):
    X, labels = sample(n, d, c, seed=7)
    found = AffineSubspaces.of_clusters(X, labels, c, r)
    expected = np.empty((n, c))
    for label in range(c):
        outside = np.eye(d) - found.bases[label] @ found.bases[label].T
        expected[:, label] = np.square((X - found.means[label]) @ outside).sum(axis=1)
    # |x|^2 - 2 x.m + |m|^2 cancels: a few roundings of the squared spread (below 10 d) remain.
    np.testing.assert_allclose(found.squared_distances(X), expected, rtol=0, atol=100 * EPS * d)
    own = expected[np.arange(n), labels]
    np.testing.assert_allclose(found.errors(X, labels), own, rtol=0, atol=100 * EPS * d)


def test_projection_and_coordinates_divide_every_point_at_a_right_angle():
    X, labels = sample(50, 5, 3, seed=3)
    found = AffineSubspaces.of_clusters(X, labels, 3, 2)
    at, inside = found.project(X, labels), found.coordinates(X, labels)
    np.testing.assert_allclose(np.einsum("nd,nd->n", X - at, at - found.means[labels]), 0.0, atol=1e-13)
    whole = np.square(X - found.means[labels]).sum(axis=1)
    np.testing.assert_allclose(np.square(inside).sum(axis=1) + found.errors(X, labels), whole, rtol=1e-12)
    np.testing.assert_allclose(found.project(at, labels), at, atol=1e-13)
    for label in range(3):
        np.testing.assert_allclose(np.square(inside[labels == label]).mean(axis=0), found.variances[label], rtol=1e-10)


@pytest.mark.parametrize("d", [4, 50])
def test_points_that_span_less_than_the_subspace_get_a_completed_basis(d):
    rng = np.random.default_rng(d)
    one, two = rng.standard_normal((2, d))
    X = np.stack([one, one, one, two, two + 1.0, rng.standard_normal(d)])
    labels = np.array([0, 0, 0, 1, 1, 2])
    found = AffineSubspaces.of_clusters(X, labels, 3, 3)
    for basis in found.bases:
        np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-14)
    assert found.variances[0].max() <= 1e-30  # a constant cluster: the square of its mean's rounding
    assert np.array_equal(found.variances[2], np.zeros(3))  # a single point
    assert np.array_equal(found.variances[1, 1:], np.zeros(2))
    assert found.variances[1, 0] == pytest.approx(d / 4, rel=1e-12)  # (2, 2 + 1): half the distance, squared
    np.testing.assert_allclose(found.errors(X, labels), 0.0, atol=1e-28 * d * 100)


def test_lanczos_and_the_dense_solver_agree(monkeypatch):
    X, labels = sample(480, 300, 2, seed=11)
    fast = AffineSubspaces.of_clusters(X, labels, 2, 3)
    monkeypatch.setattr(subspaces, "MIN_LANCZOS_SIDE", 10**9)
    slow = AffineSubspaces.of_clusters(X, labels, 2, 3)
    np.testing.assert_allclose(fast.variances, slow.variances, rtol=1e-12)
    assert not np.array_equal(fast.bases, slow.bases)  # so two solvers were compared


def test_a_large_constant_cluster_has_no_variance():
    found = AffineSubspaces.of_clusters(np.ones((300, 250)), np.zeros(300, dtype=int), 1, 2)
    assert np.array_equal(found.variances, np.zeros((1, 2)))
    np.testing.assert_allclose(found.bases[0].T @ found.bases[0], np.eye(2), atol=1e-14)


def test_taken_subspaces_keep_their_order():
    X, labels = sample(30, 3, 3, seed=5)
    found = AffineSubspaces.of_clusters(X, labels, 3, 1)
    twice = found.take(np.array([2, 0, 2]))
    assert np.array_equal(twice.means, found.means[[2, 0, 2]])
    assert np.array_equal(twice.squared_distances(X)[:, 0], twice.squared_distances(X)[:, 2])


def test_parts_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match=r"need means of shape \(2, 3\)"):
        AffineSubspaces(np.zeros((2, 2)), np.zeros((2, 3, 1)), np.zeros((2, 1)))


def test_groups_and_distances_against_loops():
    labels = np.array([2, 0, 2, 0, 3])
    assert [members.tolist() for members in grouped(labels, 4)] == [[1, 3], [], [0, 2], [4]]
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((4, 3)) + 1e6, rng.standard_normal((5, 3)) + 1e6
    expected = [[((a - b) ** 2).sum() for b in B] for a in A]
    # The shift costs the inputs 1e6 eps each, the products nothing more because they are centered first.
    np.testing.assert_allclose(squared_distances(A, B), expected, rtol=1e-9)
