"""Nested dissection and the multifrontal factor: solutions are those of LAPACK, for any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

from manifoldry._core.run import Run
from manifoldry._numerics.eigen import smallest, solvers
from manifoldry._numerics.eigen.fronts import Factor, Fronts, Quotient
from manifoldry._numerics.eigen.pencil import Pencil
from manifoldry._numerics.eigen.solvers import MIN_FRONTS_SIZE

THREADS = (1, 2, 3, 7, 16)


def _laplacian(points, k):
    """The Laplacian of a symmetric neighbor graph."""
    neighbors = cKDTree(points).query(points, k + 1)[1][:, 1:]
    n = len(points)
    W = sp.csr_array((np.ones(n * k), neighbors.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    W = W.maximum(W.T)
    return sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)


def _sheet(n=3000, k=8):
    return _laplacian(np.random.default_rng(0).uniform(size=(n, 2)) * [3.0, 1.0], k)


def _two_sheets():
    return sp.csr_array(sp.block_diag([_sheet(1500), _sheet(900)]))


def _star(n=500):
    hub = sp.csr_array((np.ones(n - 1), (np.zeros(n - 1, dtype=int), np.arange(1, n))), shape=(n, n))
    W = hub + hub.T
    return sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)


def _path(n=700):
    return sp.csr_array(sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]))


MATRICES = {
    "sheet": _sheet,
    "squared sheet": lambda: sp.csr_array(_sheet() @ _sheet()),
    "two sheets": _two_sheets,
    "star": _star,
    "path": _path,
    "cloud": lambda: _laplacian(np.random.default_rng(1).standard_normal((900, 8)), 10),
    "diagonal": lambda: sp.csr_array(sp.diags_array(np.arange(1.0, 300.0))),
    "dense": lambda: sp.csr_array(np.full((150, 150), -1.0) + 150 * np.eye(150)),
}


@pytest.fixture(params=MATRICES, scope="module")
def matrix(request):
    return MATRICES[request.param]()


def test_the_columns_of_the_fronts_are_all_points_once(matrix):
    fronts = Fronts.of(matrix, np.inf, Run(0))
    assert np.array_equal(np.sort(fronts.order), np.arange(matrix.shape[0]))
    assert np.array_equal(fronts.order[fronts.place], np.arange(matrix.shape[0]))
    owned = np.concatenate([np.arange(lo, hi) for lo, hi in fronts.nodes[:, :2]])
    assert np.array_equal(np.sort(owned), np.arange(matrix.shape[0]))
    assert (fronts.nodes[:, 2:] < np.arange(len(fronts.nodes))[:, None]).all()  # children come first


def test_borders_contain_the_pattern_of_the_factor(matrix):
    """The later rows of L in a front's columns; equal to it for a front whose own part of the factor is full."""
    fronts = Fronts.of(matrix, np.inf, Run(0))
    permuted = matrix[fronts.order][:, fronts.order].toarray() != 0
    filled = np.tril(permuted)
    for j in range(len(filled)):  # the slow rule: eliminating a column joins all its later rows
        rows = np.flatnonzero(filled[j + 1 :, j]) + j + 1
        filled[np.ix_(rows, rows)] = True
    for (lo, hi, *_), start, stop in zip(fronts.nodes, fronts.start, fronts.stop, strict=True):
        border = set(fronts.rows[start:stop].tolist())
        assert set((np.flatnonzero(filled[hi:, lo:hi].any(axis=1)) + hi).tolist()) <= border


def test_solutions_are_those_of_a_dense_solver(matrix):
    fronts, n = Fronts.of(matrix, np.inf, Run(0)), matrix.shape[0]
    diagonal = np.linspace(0.1, 0.3, n)
    factor = Factor.of(fronts, matrix, diagonal, 1e-15, Run(0))
    assert factor.raised == 0
    B = np.random.default_rng(2).standard_normal((n, 3))
    K = matrix.toarray() + np.diag(diagonal)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(K, B), rtol=1e-9, atol=1e-11 * np.abs(B).max())


def test_the_factor_does_not_depend_on_the_threads():
    A = sp.csr_array(_sheet(6000) @ _sheet(6000))
    B = np.random.default_rng(3).standard_normal((6000, 2))
    found = []
    for n_jobs in THREADS:
        fronts = Fronts.of(A, np.inf, Run(0, n_jobs))
        factor = Factor.of(fronts, A, np.full(6000, 1e-8), 1e-15, Run(0, n_jobs))
        found.append((fronts.order, factor.L, factor.solve(B)))
    for order, L, solution in found[1:]:
        assert np.array_equal(order, found[0][0])
        assert np.array_equal(L, found[0][1])
        assert np.array_equal(solution, found[0][2])


def test_pivots_that_are_not_positive_are_raised_and_counted():
    A = sp.csr_array(sp.diags_array(np.r_[np.ones(297), -1.0, 0.0, 1e-20]))
    factor = Factor.of(Fronts.of(A, np.inf, Run(0)), A, np.zeros(300), 1e-15, Run(0))
    assert factor.raised == 3
    np.testing.assert_allclose(factor.solve(np.ones((300, 1)))[:, 0], np.r_[np.ones(297), np.full(3, 1e15)])


def test_a_graph_without_separators_is_left_to_others():
    assert Fronts.of(_laplacian(np.random.default_rng(4).standard_normal((900, 8)), 10), 1e4, Run(0)) is None


def test_eigenpairs_by_fronts_are_those_of_the_sheet_for_any_number_of_threads(monkeypatch):
    """A long strip has the eigenvalues of its long side, times 1, 4, 9, ..., up to the noise of the sample."""
    monkeypatch.setattr(solvers, "ALWAYS_FRONTS_SIZE", 0)
    n = MIN_FRONTS_SIZE
    A = _laplacian(np.random.default_rng(5).uniform(size=(n, 2)) * [8.0, 1.0], 8)
    spectra = [smallest(A, 3, null=np.ones(n), run=Run(0, n_jobs)) for n_jobs in THREADS]
    assert spectra[0].solver == "shift-invert"
    np.testing.assert_allclose(spectra[0].values / spectra[0].values[0], [1, 4, 9], rtol=0.1)
    for spectrum in spectra[1:]:
        assert np.array_equal(spectrum.vectors, spectra[0].vectors)


def test_a_large_laplacian_without_separators_is_solved_by_two_levels():
    A = _laplacian(np.random.default_rng(5).standard_normal((MIN_FRONTS_SIZE, 8)), 10)
    spectrum = smallest(A, 3, null=np.ones(len(A.indptr) - 1), run=Run(0))
    assert spectrum.solver == "two-level"
    assert (spectrum.residuals < 1e-10).all()


@pytest.mark.parametrize("shift", [0.01, 1.0])
def test_a_large_indefinite_matrix_has_the_shifted_eigenvalues(shift, monkeypatch):
    """The factor of a matrix that turns out to be indefinite is refused, and another solver takes over."""
    monkeypatch.setattr(solvers, "ALWAYS_FRONTS_SIZE", 0)
    n = MIN_FRONTS_SIZE
    A = _laplacian(np.random.default_rng(5).uniform(size=(n, 2)) * [8.0, 1.0], 8)
    expected = smallest(A, 3, run=Run(0)).values - shift
    found = smallest(A - shift * sp.eye_array(n), 3, run=Run(0)).values
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_groups_of_neighbors_have_the_components_of_the_points():
    """Two sheets, and the same joined by one edge."""
    sheet = _sheet(300)
    apart = sp.csr_array(sp.block_diag([sheet, sheet]))
    edge = sp.csr_array((np.ones(2), ([0, 300], [300, 0])), shape=(600, 600))
    for matrix, connected in ((sheet, True), (apart, False), (sp.csr_array(apart + edge), True)):
        groups = Quotient.of(matrix, Run(0, 2))
        assert groups.connected == connected
        assert groups.size.sum() == matrix.shape[0]
        first, other, count = groups.graph
        dense = np.zeros((len(groups.size),) * 2)
        dense[np.repeat(np.arange(len(groups.size)), np.diff(first)), other] = count
        P = np.eye(len(groups.size))[groups.label]
        between = P.T @ (matrix.toarray() != 0) @ P
        assert np.array_equal(dense, between - np.diag(np.diagonal(between)))


def test_more_pairs_begin_where_fewer_ended(monkeypatch):
    """With one factorization, and the same pairs as at once."""
    n, factored, inverse = 900, [], solvers._inverse
    monkeypatch.setattr(solvers, "_inverse", lambda *task: factored.append(1) or inverse(*task))
    A = _laplacian(np.random.default_rng(6).uniform(size=(n, 2)), 8)
    pencil = Pencil.of(A, None, 1.0, np.ones(n), Run())
    few, more = (smallest(pencil, k, null=np.ones(n), run=Run()) for k in (2, 6))
    assert few.solver == more.solver == "shift-invert"
    assert len(factored) == 1
    at_once = smallest(A, 6, null=np.ones(n), run=Run())
    # Residuals of 1e-12 of the norm, 20, over the gaps, above 1e-3.
    np.testing.assert_allclose(more.values, at_once.values, rtol=0, atol=2e-11)
    np.testing.assert_allclose(np.abs(np.sum(more.vectors * at_once.vectors, axis=0)), 1.0, rtol=0, atol=1e-7)
