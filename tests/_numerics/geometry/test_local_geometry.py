"""Weights, tangents and stacks against definitions written out point by point."""

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_array

from helpers import sample_of
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry import neighborhoods, tangent
from manifoldry._numerics.geometry.neighborhoods import (
    MIN_SHARED_ROWS,
    Stack,
    gather,
    local_grams,
    stacks,
    sum_outer,
)
from manifoldry._numerics.geometry.tangent import affine_basis, hessian_basis, tangents, true_scale
from manifoldry._numerics.geometry.weights import alignment, barycentric, convex, reconstruction
from manifoldry.graph._sample import NeighborhoodData


def points(n=80, columns=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, columns))


def with_distances(sample):
    X = sample.X
    D = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
    return NeighborhoodData(D, sample.neighbors, sample.graph, sample.index, pairwise=True)


def test_stacks_hold_every_list_once():
    sample = sample_of(points(), radius=1.8)
    seen = {}
    for stack in stacks(sample.neighbors, 5, with_center=True):
        for center, members in zip(stack.centers, stack.members, strict=True):
            assert members[0] == center
            seen[int(center)] = set(members[1:].tolist())
    assert seen == {i: set(sample.neighbors.row(i)[0].tolist()) for i in range(80)}


@pytest.mark.parametrize("about_center", [True, False])
def test_local_inner_products_from_rows_and_from_distances(about_center):
    sample = sample_of(points(), 7)
    (stack,) = stacks(sample.neighbors, 5, with_center=not about_center)
    rows, given = (local_grams(s, stack, about_center=about_center) for s in (sample, with_distances(sample)))
    np.testing.assert_allclose(rows, given, atol=1e-12)
    members = sample.X[stack.members[3]]
    centered = members - (sample.X[stack.centers[3]] if about_center else members.mean(axis=0))
    np.testing.assert_allclose(rows[3], centered @ centered.T, atol=1e-12)


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("n", [9, 2 * MIN_SHARED_ROWS])
def test_products_are_added_at_their_places(n, complement, monkeypatch):
    """By numpy and compiled, in stacks of several sizes, with a point in most of them."""
    monkeypatch.setattr(neighborhoods, "MIN_COMPILED_POINTS", MIN_SHARED_ROWS)
    rng = np.random.default_rng(1)
    parts = []
    for size, width in ((4, 3), (6, 1)):
        steps = rng.integers(1, n // size + 1, (n, size)).cumsum(axis=1)  # different modulo n
        members = rng.permuted((rng.integers(n, size=(n, 1)) + steps) % n, axis=1)
        members[np.arange(n)[(members != 0).all(axis=1)], 0] = 0
        parts.append((members, rng.standard_normal((n, size, width))))
    entries, places = [], []
    for members, factors in parts:
        for chosen, F in zip(members, factors, strict=True):
            entries.append((np.eye(len(F)) - F @ F.T if complement else F @ F.T).ravel())
            places.append([each.ravel() for each in np.meshgrid(chosen, chosen, indexing="ij")])
    slow = csr_array((np.concatenate(entries), np.hstack(places)), shape=(n, n))
    found = sum_outer(parts, n, Run(0), complement=complement)
    assert abs(found - slow).max() < 1e-9
    assert found.has_canonical_format
    for n_jobs in (2, 3, 7, 16):
        again = sum_outer(parts, n, Run(0, n_jobs), complement=complement)
        assert np.array_equal(again.data, found.data)
        assert np.array_equal(again.indices, found.indices)


def test_weights_are_the_regularised_least_squares():
    """(C + alpha I) w = lambda 1 with sum w = 1, alpha = reg trace C."""
    sample = sample_of(points(), 8)
    W = reconstruction(sample, 1e-3, Run(0)).toarray()
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-12)
    for i in (0, 17, 79):
        near = sample.neighbors.row(i)[0]
        Z = sample.X[near] - sample.X[i]
        C = Z @ Z.T
        w = np.linalg.solve(C + 1e-3 * np.trace(C) * np.eye(8), np.ones(8))
        np.testing.assert_allclose(W[i, near], w / w.sum(), atol=1e-10)
        assert np.count_nonzero(W[i]) == 8


def test_weights_do_not_change_with_rotation_shift_and_scale():
    X = points()
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))
    one, two = (reconstruction(sample_of(Z, 6), 1e-3, Run(0)).toarray() for Z in (X, 3 * X @ rotation + 7))
    np.testing.assert_allclose(one, two, atol=1e-9)


def test_duplicates_share_the_weight_equally():
    np.testing.assert_allclose(barycentric(np.zeros((2, 4, 4)), 1e-3), 0.25)


@pytest.mark.parametrize("seed", range(5))
def test_convex_weights_are_the_projection_onto_the_hull(seed):
    """Against non-negative least squares with the sum enforced by a heavy row."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((40, 7, 4)) + rng.standard_normal((40, 1, 4))
    grams = Z @ Z.transpose(0, 2, 1)
    weights = convex(grams, 1e-9)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-10)
    heavy = 1e4
    for z, w in zip(Z, weights, strict=True):
        slow, _ = nnls(np.vstack([z.T, np.full((1, 7), heavy)]), np.append(np.zeros(4), heavy))
        ours, theirs = np.linalg.norm(w @ z), np.linalg.norm(slow / slow.sum() @ z)
        assert ours <= theirs * (1 + 1e-4) + 1e-4


def test_alignment_annihilates_constants_and_is_the_misfit():
    W = reconstruction(sample_of(points(), 8), 1e-3, Run(0))
    M = alignment(W, Run(0)).toarray()
    Y = points(80, 2, 3)
    assert np.abs(M.sum(axis=1)).max() < 1e-12
    np.testing.assert_allclose(np.trace(Y.T @ M @ Y), ((Y - W @ Y) ** 2).sum(), rtol=1e-12)


@pytest.mark.parametrize("columns", [3, 20])
def test_tangents_are_local_principal_components(columns):
    """Fewer columns than members take one side of the decomposition, more the other."""
    sample = sample_of(points(60, columns), 7)
    (plane,) = tangents(sample, 2, Run(0))
    (given,) = tangents(with_distances(sample), 2, Run(0))
    for i in (0, 31):
        rows = sample.X[plane.stack.members[i]]
        U, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        np.testing.assert_allclose(plane.lengths[i], s[:2], rtol=1e-9)
        np.testing.assert_allclose(np.abs(np.diag(plane.basis[i].T @ U[:, :2])), 1, atol=1e-9)
        np.testing.assert_allclose(given.lengths[i], s[:2], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(plane.basis, axis=1), 1, atol=1e-12)


def _projector(Q):
    return Q @ Q.transpose(0, 2, 1)


def test_the_complement_of_the_affine_basis_is_a_projector_that_annihilates_affine_functions():
    (plane,) = tangents(sample_of(points(), 8), 2, Run(0))
    form = np.eye(9) - _projector(affine_basis(plane))
    np.testing.assert_allclose(form @ form, form, atol=1e-12)
    np.testing.assert_allclose(form, form.transpose(0, 2, 1), atol=1e-14)
    for function in (np.ones((80, 9, 1)), plane.basis):
        assert np.abs(form @ function).max() < 1e-12
    assert np.linalg.matrix_rank(form[0]) == 9 - 3


@pytest.mark.parametrize("d", [1, 2, 3])
def test_hessian_basis_sees_products_and_nothing_below(d):
    (plane,) = tangents(sample_of(points(60, 6), 12), d, Run(0))
    form = _projector(hessian_basis(plane))
    for function in (np.ones((60, 13, 1)), plane.basis):
        assert np.abs(form @ function).max() < 1e-12
    np.testing.assert_allclose(form @ form, form, atol=1e-10)
    np.testing.assert_allclose(np.einsum("ijj->i", form), d * (d + 1) / 2, atol=1e-9)
    product = (plane.basis[:, :, 0] * plane.basis[:, :, d - 1])[:, :, None]
    lower = np.concatenate([np.full((60, 13, 1), 13**-0.5), plane.basis], axis=2)
    inside = product - lower @ (lower.transpose(0, 2, 1) @ product)
    np.testing.assert_allclose(form @ inside, inside, atol=1e-10)


def test_directions_that_a_neighborhood_does_not_have_are_left_out():
    """Points on a line, two tangent dimensions asked: the second is zero, and no form invents one."""
    X = np.outer(np.arange(20.0), [1.0, 2.0, 0.0])
    for plane in tangents(sample_of(X, 5), 2, Run(0)):
        assert (plane.lengths[:, 1] == 0).all()
        assert (plane.basis[:, :, 1] == 0).all()
        np.testing.assert_allclose(np.einsum("ijj->i", _projector(hessian_basis(plane))), 1, atol=1e-9)


def test_true_scale_undoes_an_affine_map():
    rng = np.random.default_rng(4)
    plane = rng.uniform(size=(200, 2))
    A = np.array([[2.0, 0.7], [0.0, 0.3]])
    affine = plane @ A
    B, misfit = true_scale(tangents(sample_of(plane, 8), 2, Run(0)), affine, Run(0))
    M = A @ B
    np.testing.assert_allclose(M @ M.T, np.eye(2), atol=1e-9)
    assert misfit < 1e-9


def test_an_isolated_point_has_no_list():
    graph = NeighborGraph(np.array([0, 1, 2, 2]), np.array([1, 0]), np.array([1.0, 1.0]))
    assert [stack.centers.tolist() for stack in stacks(graph, 1, with_center=False)] == [[0, 1]]
    assert isinstance(next(stacks(graph, 1, with_center=True)), Stack)


def test_no_rows_of_a_sparse_matrix_keep_their_columns():
    sparse = csr_array(np.eye(4))
    assert gather(sparse, np.zeros((0, 3), dtype=int)).shape == (0, 3, 4)
    np.testing.assert_array_equal(gather(sparse, np.array([[2, 0]])), [[[0, 0, 1, 0], [1, 0, 0, 0]]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["solid", "flat", "line", "duplicates"])
def test_compiled_tangents_are_those_of_numpy(kind, dtype, monkeypatch):
    rng, rank = np.random.default_rng(5), {"solid": 4, "flat": 2, "line": 1, "duplicates": 0}[kind]
    X = (1e3 + rng.normal(size=(60, rank)) @ rng.normal(size=(rank, 4)) * [[1, 1, 1e-2, 1e-2]]).astype(dtype)
    members = np.column_stack([np.arange(60), *((np.arange(60) + step) % 60 for step in range(1, 7))])
    sample = sample_of(X, 6)
    slow = tangent._local_scores(sample, Stack(np.arange(60), members), 3)
    monkeypatch.setattr(neighborhoods, "MIN_COMPILED_POINTS", 0)
    fast = tangent._local_scores(sample, Stack(np.arange(60), members), 3)
    # Eigenvalues are rounded relative to the largest; a direction with gap g to others by that over g.
    largest = np.maximum(slow[0][:, :1], np.finfo(float).tiny)
    np.testing.assert_allclose(fast[0] / largest, slow[0] / largest, rtol=0, atol=1e-14)
    assert (np.diff(fast[0], axis=1) <= 0).all()
    for r in range(1, 4):
        gap = (slow[0][:, r - 1] - slow[0][:, r]) / largest[:, 0]
        clear = gap > 1e-3
        one, other = (scores[clear, :, :r] for _, scores in (fast, slow))
        products = [Z @ Z.swapaxes(1, 2) / largest[clear, None] for Z in (one, other)]
        np.testing.assert_allclose(*products, rtol=0, atol=1e-14 / 1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("reg", [1e-3, 1e-9])
def test_compiled_weights_are_those_of_numpy(reg, dtype, monkeypatch):
    X = points(60, 3).astype(dtype)
    X[:8] = X[0]  # duplicates, whose weights are equal
    sample = sample_of(X, 7)
    slow = reconstruction(sample, reg, Run(0))
    monkeypatch.setattr(neighborhoods, "MIN_COMPILED_POINTS", 0)
    fast = [reconstruction(sample, reg, Run(0, threads)) for threads in (1, 2, 3, 7, 16)]
    # The system has trace 1 and eigenvalues from reg on, so its solution is rounded by EPS / reg; all weights are
    # divided by their sum, and are at most some units.
    tol = 100 * np.finfo(float).eps / reg
    np.testing.assert_allclose(fast[0].data, slow.data, rtol=tol, atol=tol)
    np.testing.assert_allclose(fast[0].sum(axis=1), 1, atol=1e-14)
    for other in fast[1:]:
        np.testing.assert_array_equal(other.data, fast[0].data)
