from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.sparse.linalg import aslinearoperator, splu
from scipy.spatial import KDTree

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._numerics.eigen import GramMatrix, largest, smallest, solvers
from manifoldry._numerics.eigen import two_level as two_levels
from manifoldry._numerics.eigen.davidson import (
    BLOCK_ROWS_PER_TASK,
    ChebyshevInverse,
    Ritz,
    Tolerance,
    davidson,
    orthonormal,
    polynomial,
    upper_bound,
)
from manifoldry._numerics.eigen.kernels.aggregates import add_coarse, aggregate, find_nearest
from manifoldry._numerics.eigen.localized import _restricted
from manifoldry._numerics.eigen.pencil import SYMMETRIC_MODE, Pencil, column_space
from manifoldry._numerics.eigen.solvers import level_widths, predicted_fill
from manifoldry._numerics.eigen.two_level import two_level

pytestmark = pytest.mark.usefixtures("one_blas_thread")

TOLERANCE = Tolerance.of(None, np.finfo(float).eps)


def _grid_weights(rows, columns, seed):
    """Random weights in (1, 2) between neighbors of a grid, so that no two eigenvalues coincide."""
    rng = np.random.default_rng(seed)
    index = np.arange(rows * columns).reshape(rows, columns)
    i = np.r_[index[:-1].ravel(), index[:, :-1].ravel()]
    j = np.r_[index[1:].ravel(), index[:, 1:].ravel()]
    W = sp.csr_array((rng.uniform(1, 2, len(i)), (i, j)), shape=(index.size, index.size))
    return sp.csr_array(W + W.T)


def _grid_laplacian(rows, columns, seed=0):
    W = _grid_weights(rows, columns, seed)
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)


def _expander(n, seed, partners=5):
    """The Laplacian of a union of random rings: connected, and every separator is large."""
    rng = np.random.default_rng(seed)
    rings = [rng.permutation(n) for _ in range(partners)]
    i, j = np.concatenate(rings), np.concatenate([np.roll(ring, 1) for ring in rings])
    W = sp.csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
    W = W + W.T
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)


def _start(pencil, width):
    vectors = np.random.default_rng(0).standard_normal((pencil.n, width))
    return Ritz(np.zeros(width), vectors, np.full(width, np.inf), 0.0)


def _krylov(*task):
    return solvers._krylov(*task, steps=500)


@pytest.mark.parametrize("solver", [_krylov, solvers._shift_invert, polynomial, two_level, solvers._lapack])
@pytest.mark.parametrize("mass", [False, True])
def test_every_solver_alone_gives_the_same_pairs(solver, mass):
    A = _grid_laplacian(16, 29)
    n = A.shape[0]
    B = np.linspace(1, 2, n) if mass else None
    full = np.diag(B) if mass else np.eye(n)
    pencil = Pencil.of(A, B, 1.0, np.ones(n), Run())
    rough = davidson(pencil, _start(pencil, 5), 3, lambda R: R, 5, TOLERANCE, Run())
    found = solver(pencil, rough, 3, TOLERANCE, Run())
    exact = scipy.linalg.eigvalsh(A.toarray(), full)
    # A value errs by at most its residual; those accepted are 1e-12 of a norm of at most 16.
    assert found.error(3) < TOLERANCE.accept
    np.testing.assert_allclose(found.values[:3], exact[1:4], atol=16e-12)


@pytest.mark.parametrize("solver", [solvers._shift_invert, solvers._lapack])
def test_dense_solvers_at_the_upper_end(solver):
    X = np.random.default_rng(0).standard_normal((300, 300))
    pencil = Pencil.of(X + X.T, None, -1.0, None, Run())
    rough = davidson(pencil, _start(pencil, 8), 3, lambda R: R, 3, TOLERANCE, Run())
    found = solver(pencil, rough, 3, TOLERANCE, Run())
    np.testing.assert_allclose(-found.values[:3], np.linalg.eigvalsh(X + X.T)[::-1][:3], rtol=1e-11)


def test_a_bad_preconditioner_costs_steps_not_accuracy():
    A = _grid_laplacian(12, 20)
    pencil = Pencil.of(A, None, 1.0, np.ones(240), Run())
    odd = np.random.default_rng(1).uniform(0.2, 5, (240, 1))
    found = davidson(pencil, _start(pencil, 6), 3, lambda R: odd * R, 600, TOLERANCE, Run())
    assert found.settled
    np.testing.assert_allclose(found.values[:3], np.linalg.eigvalsh(A.toarray())[1:4], atol=16e-12)


def test_a_singular_factor_is_not_the_end(monkeypatch):
    def singular(*_, **__):
        raise RuntimeError("Factor is exactly singular")

    A = _grid_laplacian(20, 31)
    exact = np.linalg.eigvalsh(A.toarray())[1:4]
    monkeypatch.setattr(solvers, "splu", singular)
    found = smallest(A, 3, null=np.ones(620), run=Run())
    assert found.solver == "two-level"  # the next for a Laplacian
    np.testing.assert_allclose(found.values, exact, atol=16e-12)


def test_a_preconditioner_that_breaks_down_is_left_for_the_next_solver(monkeypatch):
    monkeypatch.setattr(solvers, "_inverse", lambda *_: lambda R: np.full_like(R, np.nan))
    A = _grid_laplacian(20, 31)
    found = smallest(A, 2, null=np.ones(620), run=Run())
    assert found.solver != "shift-invert"
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A.toarray())[1:3], atol=16e-12)


def test_without_memory_for_a_factor_the_search_goes_on(monkeypatch):
    monkeypatch.setattr(solvers, "available_memory", lambda: 1000)
    A = _grid_laplacian(20, 31)
    found = smallest(A, 2, null=np.ones(620), run=Run())
    assert found.solver in ("polynomial", "two-level", "krylov")
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A.toarray())[1:3], atol=16e-12)


def test_the_lower_end_of_an_indefinite_sparse_matrix():
    A = -_grid_laplacian(20, 31)
    exact = np.linalg.eigvalsh(A.toarray())
    np.testing.assert_allclose(smallest(A, 3, run=Run()).values, exact[:3], atol=16e-12)
    np.testing.assert_allclose(largest(A, 3, run=Run()).values, exact[::-1][:3], atol=16e-12)


def test_a_crowded_bottom_far_above_the_known_zero():
    A = _expander(900, 0)
    found = smallest(A, 3, null=np.ones(900), run=Run())
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A.toarray())[1:4], atol=20e-12)


def test_level_widths_of_graphs_known_on_paper():
    path = sp.diags_array([np.ones(9), np.ones(9)], offsets=[1, -1]).tocsr()
    widths, last = level_widths(path, 0)
    assert np.array_equal(widths, np.ones(10))
    assert last == 9
    assert np.array_equal(level_widths(path, 5)[0], [1, 2, 2, 2, 2, 1])
    grid = _grid_weights(4, 6, 0)
    assert np.array_equal(level_widths(grid, 0)[0], [1, 2, 3, 4, 4, 4, 3, 2, 1])
    star = np.zeros((8, 8))
    star[0, 1:] = star[1:, 0] = 1
    assert np.array_equal(level_widths(sp.csr_array(star), 0)[0], [1, 7])


@pytest.mark.parametrize(
    "make", [lambda: _grid_laplacian(40, 40), lambda: _grid_laplacian(5, 400), lambda: _expander(900, 1)]
)
def test_predicted_fill_is_a_guess_from_above(make):
    A = make()
    lu = splu(sp.csc_array(A + sp.eye_array(A.shape[0])), **SYMMETRIC_MODE)
    entries, _ = predicted_fill(A)
    # Measured between 1.4 and 3.7 on neighbor graphs; a guess, so twice that range is allowed.
    assert lu.L.nnz <= entries <= 8 * lu.L.nnz


def test_the_factor_fits_the_graph():
    def chosen(A):
        return solvers._factor(Pencil.of(A, None, 1.0, None, Run()), Run())

    assert chosen(_grid_laplacian(40, 40)) == "sparse"
    assert chosen(_expander(1200, 0)) == "dense"
    assert chosen(np.eye(500)) == "dense"
    assert chosen(aslinearoperator(np.eye(500))) is None


@pytest.mark.parametrize("n", [200, 2 * BLOCK_ROWS_PER_TASK + 3])
def test_orthonormal_replaces_dependent_columns(n):
    rng = np.random.default_rng(0)
    base = np.linalg.qr(rng.standard_normal((n, 6)))[0]
    fresh = rng.standard_normal((n, 2))
    block = np.c_[fresh, fresh.sum(axis=1), base @ np.ones(6), np.zeros(n)]
    Q = orthonormal(block, Run(0, 1), base)
    assert Q.shape == (n, 5)
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-14)
    np.testing.assert_allclose(base.T @ Q, 0, atol=1e-14)
    part = fresh - base @ (base.T @ fresh)
    np.testing.assert_allclose(Q @ (Q.T @ part), part, atol=1e-12)
    for threads in (2, 3, 7, 16):
        np.testing.assert_array_equal(orthonormal(block, Run(0, threads), base), Q)


def test_column_space_drops_what_depends_and_what_is_rounding():
    X = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 3)))[0]
    noise = 1e-17 * np.random.default_rng(1).standard_normal(50)
    Q = column_space(np.c_[X, X @ np.ones(3), np.zeros(50), noise])
    assert Q.shape == (50, 3)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(Q @ (Q.T @ X), X, atol=1e-13)


def _neighbor_laplacian(X, k):
    n = len(X)
    near = KDTree(X).query(X, k + 1)[1][:, 1:]
    W = sp.csr_array((np.ones(n * k), (np.repeat(np.arange(n), k), near.ravel())), shape=(n, n))
    W = W.maximum(W.T)
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W), W.sum(axis=1)


def test_aggregates_are_connected_and_cover_all_rows():
    A, _ = _neighbor_laplacian(np.random.default_rng(0).uniform(size=(500, 2)), 6)
    rows = A.indptr.astype(np.int64), A.indices.astype(np.uint32), A.data.astype(np.float32)
    label = np.full(500, -1)
    count = aggregate(*rows, label)
    assert np.array_equal(np.unique(label), np.arange(count))
    within = A.tocoo()
    same = label[within.row] == label[within.col]
    inside = sp.csr_array((np.ones(same.sum()), (within.row[same], within.col[same])), shape=A.shape)
    assert connected_components(inside, directed=False)[0] == count
    weights = np.random.default_rng(1).uniform(0.5, 1, 500)
    P = sp.csr_array((weights, label, np.arange(501)), shape=(500, count))
    coarse = np.zeros((count, count))
    add_coarse(*rows[:2], A.data, weights, label, coarse)
    np.testing.assert_allclose(coarse, (P.T @ A @ P).toarray(), atol=1e-12)


def test_the_nearest_aggregate_has_the_largest_sum_of_entries():
    A, _ = _neighbor_laplacian(np.random.default_rng(0).uniform(size=(500, 2)), 6)
    A.data *= np.random.default_rng(1).uniform(0.5, 1, A.nnz)  # no two sums are equal
    rows = A.indptr.astype(np.int64), A.indices.astype(np.uint32), A.data.astype(np.float32)
    label = np.full(500, -1)
    count = aggregate(*rows, label)
    members, nearest = np.argsort(label, kind="stable"), np.empty(count, np.uint32)
    ends = np.concatenate([[0], np.cumsum(np.bincount(label))])
    for lo, hi in ((0, count // 2), (count // 2, count)):
        find_nearest(*rows, label, ends, members, nearest, lo, hi)
    P = sp.csr_array((np.ones(500), label, np.arange(501)), shape=(500, count))
    sums = (P.T @ abs(A) @ P).toarray()
    np.fill_diagonal(sums, 0.0)
    assert np.array_equal(nearest, sums.argmax(axis=1))
    assert (sums.max(axis=1) > 0).all()


@pytest.mark.parametrize("most", [1500, 40])
@pytest.mark.parametrize("shape", ["sheet", "curve", "clusters"])
def test_two_levels_find_the_lowest_vectors(shape, most, monkeypatch):
    """At once to the tolerance of a start, and by cycles to that of a result, also if aggregates are joined."""
    monkeypatch.setattr(two_levels, "MAX_AGGREGATES", most)
    rng = np.random.default_rng(0)
    t = rng.uniform(size=(1200, 2))
    curve = np.column_stack([np.cos(9 * t[:, 0]), np.sin(9 * t[:, 0]), 20 * t[:, 0] ** 2])
    clusters = rng.standard_normal((1200, 8)) + 1.2 * rng.standard_normal((5, 8))[rng.integers(5, size=1200)]
    A, masses = _neighbor_laplacian({"sheet": t, "curve": curve, "clusters": clusters}[shape], 12)
    exact_values, exact = scipy.linalg.eigh(A.toarray(), np.diag(masses), subset_by_index=(1, 2))
    rough = smallest(A, 2, B=masses, null=np.ones(1200), tol=1e-3, run=Run())
    assert rough.solver == "two-level"
    assert np.abs(np.einsum("ij,i,ij->j", rough.vectors, masses, exact)).min() > 0.98
    pencil = Pencil.of(A, masses, 1.0, np.ones(1200), Run())
    found = two_level(pencil, _start(pencil, 4), 2, TOLERANCE, Run())
    assert found.settled
    # A value errs by at most its residual; those accepted are 1e-12 of a norm of at most 2.
    np.testing.assert_allclose(found.values[:2], exact_values, atol=2e-12)


def test_two_levels_give_the_same_bits_for_any_number_of_threads():
    A, masses = _neighbor_laplacian(np.random.default_rng(0).uniform(size=(12_000, 2)), 12)
    first, *others = [
        smallest(A, 2, B=masses, null=np.ones(12_000), tol=1e-4, run=Run(seed, n_jobs=n_jobs))
        for seed, n_jobs in enumerate((1, 2, 3, 7, 16))
    ]
    assert first.solver == "two-level"
    assert all(np.array_equal(first.vectors, other.vectors) for other in others)


def test_two_levels_leave_other_matrices_to_other_solvers():
    complete = sp.csr_array(sp.diags_array(np.full(50, 50.0)) - np.ones((50, 50)))
    for A in (complete, -_grid_laplacian(20, 31)):  # one aggregate, and not semidefinite
        pencil = Pencil.of(A, None, 1.0, np.ones(A.shape[0]), Run())
        assert two_level(pencil, _start(pencil, 4), 2, TOLERANCE, Run()) is None


def test_what_is_tolerable_is_returned_with_a_warning():
    """A tolerance below rounding cannot be met: an error, or the best pairs with a word."""
    n = 500
    path = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1], format="csr")
    with pytest.raises(np.linalg.LinAlgError, match="relative residuals below"):
        smallest(path, 2, tol=1e-25, run=Run(0))
    with pytest.warns(UserWarning, match="eigenvectors are approximate"):
        found = smallest(path, 2, tol=1e-25, tolerable=1e-6, run=Run(0))
    exact = 2 - 2 * np.cos(np.pi * np.arange(1, 3) / (n + 1))
    np.testing.assert_allclose(found.values, exact, atol=1e-10)


def _reconstruction_misfit(n, seed):
    """I - W for weights that reconstruct points of a curved sheet in 12-D from 10 neighbors, as in LLE."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (n, 2))
    X = np.column_stack([u, np.sin(3 * u), 0.1 * rng.standard_normal((n, 8))])
    _, near = KDTree(X).query(X, 11)
    offsets = X[near[:, 1:]] - X[:, None]
    G = offsets @ offsets.transpose(0, 2, 1)
    G += 1e-3 * np.trace(G, axis1=1, axis2=2)[:, None, None] * np.eye(10)
    w = np.linalg.solve(G, np.ones((n, 10, 1)))[:, :, 0]
    w /= w.sum(axis=1, keepdims=True)
    W = sp.csr_array((w.ravel(), (np.repeat(np.arange(n), 10), near[:, 1:].ravel())), shape=(n, n))
    return sp.csr_array(sp.eye_array(n) - W)


@pytest.mark.parametrize("factored", [False, True])
def test_the_polynomial_solver_on_the_matrix_of_reconstructions(factored):
    """Its condition is beyond 1e6; LAPACK is the twin."""
    n = 800
    R = _reconstruction_misfit(n, 0)
    A = sp.csr_array(R.T @ R)
    exact = np.linalg.eigvalsh(A.toarray())
    assert exact[-1] / exact[1] > 1e6
    pencil = Pencil.of(GramMatrix(A, R) if factored else A, None, 1.0, np.ones(n), Run())
    found = polynomial(pencil, _start(pencil, 5), 3, TOLERANCE, Run())
    assert found.settled
    vectors, values, most = found.vectors[:, :3], found.values[:3], TOLERANCE.accept * exact[-1]
    # The norm that the solver measures by is an estimate; the known vector is projected out of its residuals.
    assert np.linalg.norm(A @ vectors - vectors * values, axis=0).max() < 2 * most
    np.testing.assert_allclose(values, exact[1:4], atol=2 * most)  # a Ritz value errs by at most its residual


def test_the_chebyshev_map_is_nearly_the_inverse_above_its_lower_end_and_bounded_below():
    values = np.geomspace(1e-5, 10.0, 64)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    H = sp.csr_array(Q * values @ Q.T)
    inverse = replace(ChebyshevInverse.of(H, None, 10.0, Run()), degree=60)
    gained = values * np.einsum("ij,ij->j", Q, inverse(Q))
    flat = values >= 10.0 * (3.0 / 60) ** 2
    # 1 - T(x) / T(0) for the Chebyshev polynomial of degree 60: 1 / T(0) is about 2 exp(-2 * 60 * 3 / 60).
    assert np.abs(gained[flat] - 1).max() < 2.1 * np.exp(-6)
    assert (gained[~flat] > 0).all()
    assert (gained[~flat] < 1 + 1e-4).all()


def test_the_map_is_the_same_by_a_factor_square_or_not():
    R = _reconstruction_misfit(400, 1)
    E = sp.csr_array(np.eye(400)[:, :390] + 0.1 * np.eye(400, 390, -10))
    block = np.random.default_rng(2).standard_normal((390, 11))
    gram = _restricted(GramMatrix(sp.csr_array(R.T @ R), R), E)
    upper = upper_bound(gram.matrix)
    by_matrix, by_factor = (ChebyshevInverse.of(gram.matrix, factor, upper, Run()) for factor in (None, gram.factor))
    # Single precision, some 40 steps of a recurrence whose amplification the degree bounds.
    np.testing.assert_allclose(by_factor(block), by_matrix(block), atol=1e-3 * np.abs(by_matrix(block)).max())


@pytest.mark.parametrize("seed", range(5))
def test_the_upper_bound_is_above_the_spectrum_and_near_it(seed):
    A = _expander(800, seed)
    largest_value = np.linalg.eigvalsh(A.toarray())[-1]
    assert largest_value <= upper_bound(A) <= 1.5 * largest_value
