import tracemalloc

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from manifoldry._core.run import Run
from manifoldry._numerics.eigen import fix_signs, largest, smallest

pytestmark = pytest.mark.usefixtures("one_blas_thread")

ENDS = {"smallest": smallest, "largest": largest}
# A value errs by at most its residual, and 1e-12 of the norm is what the solvers accepts.
ACCEPTED = 1e-12


def _path(n):
    ends = np.r_[1.0, np.full(n - 2, 2.0), 1.0]
    off = -np.ones(n - 1)
    return sp.diags_array([ends, off, off], offsets=[0, 1, -1]).tocsr()


def _path_values(n):
    return 2 - 2 * np.cos(np.pi * np.arange(n) / n)


def _ring(n):
    i = np.arange(n)
    W = sp.csr_array((np.ones(2 * n), (np.r_[i, i], np.r_[(i + 1) % n, (i - 1) % n])), shape=(n, n))
    return sp.csr_array(2 * sp.eye_array(n) - W)


def _ring_values(n):
    return np.sort(2 - 2 * np.cos(2 * np.pi * np.arange(n) / n))


def _grid(rows, columns):
    return sp.csr_array(sp.kron(_path(rows), sp.eye_array(columns)) + sp.kron(sp.eye_array(rows), _path(columns)))


def _star(n):
    hub = np.zeros(n - 1, dtype=int)
    leaves = np.arange(1, n)
    W = sp.csr_array((np.ones(2 * n - 2), (np.r_[hub, leaves], np.r_[leaves, hub])), shape=(n, n))
    return sp.csr_array(sp.diags_array(np.r_[n - 1.0, np.ones(n - 1)]) - W)


def _banded(n, seed, shift=0.0):
    """A random symmetric matrix of five diagonals; positive definite for a shift above 4."""
    rng = np.random.default_rng(seed)
    bands = [rng.uniform(-1, 1, n - abs(o)) for o in (1, 2)]
    main = rng.uniform(-1, 1, n) + shift
    return sp.diags_array([main, *bands, *bands], offsets=[0, 1, 2, -1, -2]).tocsr()


FORMS = {"dense": sp.csr_array.toarray, "sparse": sp.csr_array, "operator": aslinearoperator}


@pytest.mark.parametrize(("end", "mass"), [("smallest", False), ("smallest", True), ("largest", False)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [60, 500])
def test_every_form_of_the_problem_agrees_with_lapack(end, form, mass, n):
    A, k = _banded(n, 1), 4
    full = np.diag(np.linspace(1, 3, n)) if mass else np.eye(n)
    found = ENDS[end](FORMS[form](A), k, run=Run(), **({"B": np.linspace(1, 3, n)} if mass else {}))
    values = scipy.linalg.eigvalsh(A.toarray(), full)
    # |A| <= 5, B >= 1, and the residuals of the pencil are relative to C^-1 A C^-T, smaller than |A|.
    np.testing.assert_allclose(found.values, values[:k] if end == "smallest" else values[::-1][:k], atol=5 * ACCEPTED)
    np.testing.assert_allclose(found.vectors.T @ full @ found.vectors, np.eye(k), atol=1e-13)
    defects = A @ found.vectors - full @ found.vectors * found.values
    np.testing.assert_allclose(found.residuals, np.linalg.norm(defects, axis=0), atol=1e-13)
    # |C| <= sqrt(3) turns the residual of the ordinary problem into that of the pencil.
    assert found.residuals.max() < 3**0.5 * 5 * ACCEPTED


@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_ring_has_all_its_double_values(n, form):
    A = FORMS[form](_ring(n))
    found = smallest(A, 7, run=Run())
    np.testing.assert_allclose(found.values, _ring_values(n)[:7], atol=4 * ACCEPTED)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(7), atol=1e-13)
    np.testing.assert_allclose(largest(A, 5, run=Run()).values, _ring_values(n)[::-1][:5], atol=4 * ACCEPTED)


@pytest.mark.parametrize("form", FORMS)
def test_path_has_cosines(form):
    n = 500
    found = smallest(FORMS[form](_path(n)), 3, null=np.ones(n), run=Run())
    np.testing.assert_allclose(found.values, _path_values(n)[1:4], atol=4 * ACCEPTED)
    cosines = np.cos(np.pi * np.outer(np.arange(n) + 0.5, [1, 2, 3]) / n) * np.sqrt(2 / n)
    # Residual / gap = 4e-12 / 3.9e-5.
    np.testing.assert_allclose(found.vectors, fix_signs(cosines), atol=1.1e-7)


@pytest.mark.parametrize(("rows", "columns"), [(25, 25), (20, 33)])
def test_grid_values_are_sums_of_path_values(rows, columns):
    exact = np.sort((_path_values(rows)[:, None] + _path_values(columns)).ravel())
    found = smallest(_grid(rows, columns), 8, run=Run())
    np.testing.assert_allclose(found.values, exact[:8], atol=8 * ACCEPTED)


@pytest.mark.parametrize("n", [50, 1500])
def test_star_and_complete_graph(n):
    star = smallest(_star(n), 5, null=np.ones(n), run=Run())
    np.testing.assert_allclose(star.values, 1, atol=n * ACCEPTED)
    np.testing.assert_allclose(largest(_star(n), 2, run=Run()).values, [n, 1], atol=n * ACCEPTED)
    complete = n * np.eye(n) - np.ones((n, n))
    np.testing.assert_allclose(smallest(complete, 3, run=Run()).values, [0, n, n], atol=n * ACCEPTED)
    np.testing.assert_allclose(smallest(complete, 3, null=np.ones(n), run=Run()).values, n, atol=n * ACCEPTED)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, aslinearoperator])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("n", "level"), [(30, 1.0), (900, 1.0), (30, 0.0), (900, 0.0)])
def test_multiples_of_the_identity(convert, end, n, level):
    found = ENDS[end](convert(level * np.eye(n)), 5, run=Run())
    np.testing.assert_allclose(found.values, level, atol=ACCEPTED)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-13)


@pytest.mark.parametrize(("length", "copies"), [(40, 5), (40, 60), (700, 3)])
@pytest.mark.parametrize("end", ENDS)
def test_copies_of_a_path_give_multiplicities(length, copies, end):
    A = sp.block_diag([_path(length)] * copies, format="csr")
    exact = np.sort(np.repeat(_path_values(length), copies))
    found = ENDS[end](A, 7, run=Run())
    np.testing.assert_allclose(found.values, exact[:7] if end == "smallest" else exact[::-1][:7], atol=4 * ACCEPTED)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(7), atol=1e-13)


def test_multiplicities_are_found_without_a_pattern_too():
    A = sp.block_diag([_ring(170)] * 3, format="csr").toarray()
    exact = np.sort(np.repeat(_ring_values(170), 3))
    np.testing.assert_allclose(smallest(A, 12, run=Run()).values, exact[:12], atol=4 * ACCEPTED)


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize("end", ENDS)
def test_vectors_that_lapack_does_not_find_are_found(end, kept, monkeypatch):
    """Its inverse iteration returns fewer vectors than asked for on some processors, of equidistant points none."""
    eigh = scipy.linalg.eigh

    def incomplete(*args, **kwargs):
        values, vectors = eigh(*args, **kwargs)
        return (values[:kept], vectors[:, :kept]) if "subset_by_index" in kwargs else (values, vectors)

    monkeypatch.setattr(scipy.linalg, "eigh", incomplete)
    found = ENDS[end](np.eye(60) - 1 / 60, 3, run=Run())
    np.testing.assert_allclose(found.values, [0, 1, 1] if end == "smallest" else 1, atol=60 * ACCEPTED)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("end", ENDS)
def test_small_multiple_values_in_every_order_of_rows(end):
    """LAPACK's inverse iteration returns one vector twice for some of these orders."""
    A = scipy.linalg.block_diag(*[m * np.eye(m) - np.ones((m, m)) for m in (5, 5, 2, 2)])
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(14)
        found = ENDS[end](A[order][:, order], 3, run=Run())
        np.testing.assert_allclose(found.values, 0 if end == "smallest" else 5, atol=5 * ACCEPTED)
        np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("length", [30, 600])
def test_components_without_the_overall_constant_leave_their_contrasts(length):
    """Three paths, the constant known: two more null vectors remain, constant on every path."""
    A = sp.block_diag([_path(length)] * 3, format="csr")
    found = smallest(A, 3, null=np.ones(3 * length), run=Run())
    np.testing.assert_allclose(found.values, [0, 0, _path_values(length)[1]], atol=4 * ACCEPTED)
    pieces = found.vectors[:, :2].reshape(3, length, 2)
    np.testing.assert_allclose(pieces, pieces[:, :1] * np.ones((1, length, 1)), atol=1e-12)
    np.testing.assert_allclose(found.vectors.sum(axis=0), 0, atol=1e-11)


def test_components_with_a_mass_and_all_null_vectors_known():
    lengths = (500, 50, 8, 1)
    A = sp.block_diag([_path(m) if m > 1 else sp.csr_array((1, 1)) for m in lengths], format="csr")
    n, labels = sum(lengths), np.repeat(np.arange(4), lengths)
    order = np.random.default_rng(1).permutation(n)
    A, null = A[order][:, order], np.eye(4)[labels[order]]
    weights = np.random.default_rng(0).uniform(1, 2, n)
    found = smallest(A, 6, B=weights, null=null, run=Run())
    exact = scipy.linalg.eigvalsh(A.toarray(), np.diag(weights))[4:10]
    np.testing.assert_allclose(found.values, exact, atol=4 * ACCEPTED)
    np.testing.assert_allclose(null.T @ np.diag(weights) @ found.vectors, 0, atol=1e-11)
    assert len(found.dropped) == 4
    np.testing.assert_allclose(found.dropped, 0, atol=4 * ACCEPTED)


def test_known_vectors_are_never_returned_at_the_upper_end():
    A = _banded(500, 3)
    top = largest(A, 5, run=Run())
    rest = largest(A, 3, known=top.vectors[:, :2], run=Run())
    np.testing.assert_allclose(rest.values, top.values[2:], atol=5 * ACCEPTED)
    np.testing.assert_allclose(rest.dropped, top.values[:2], atol=5 * ACCEPTED)


def test_signs_follow_the_largest_entry():
    vectors = np.random.default_rng(0).standard_normal((40, 6))
    fixed = fix_signs(vectors)
    assert np.array_equal(np.abs(fixed), np.abs(vectors))
    assert (np.take_along_axis(fixed, np.abs(fixed).argmax(axis=0)[None], axis=0) > 0).all()
    assert np.array_equal(fix_signs(-vectors), fixed)


def test_signs_of_ties_do_not_hang_on_rounding():
    antisymmetric = np.r_[0.3, 1.0, -1.0, -0.3][:, None]
    for nudge in (-1e-9, 0.0, 1e-9):
        wobbly = antisymmetric * np.array([1, 1 + nudge, 1 - nudge, 1])[:, None]
        assert fix_signs(wobbly)[1, 0] > 0
        assert fix_signs(-wobbly)[1, 0] > 0


def test_a_zero_column_keeps_its_zeros():
    assert np.array_equal(fix_signs(np.zeros((3, 2))), np.zeros((3, 2)))


@pytest.mark.parametrize("form", FORMS)
def test_same_bits_for_every_seed_and_number_of_threads(form):
    A = FORMS[form](_grid(24, 31))
    first = smallest(A, 4, run=Run(seed=0, n_jobs=1))
    again = smallest(A, 4, run=Run(seed=5, n_jobs=2))
    assert np.array_equal(first.values, again.values)
    assert np.array_equal(first.vectors, again.vectors)


def test_permuted_rows_permute_the_vectors():
    A = _grid(20, 33)
    order = np.random.default_rng(0).permutation(A.shape[0])
    plain = smallest(A, 3, null=np.ones(660), run=Run())
    mixed = smallest(A[order][:, order], 3, null=np.ones(660), run=Run())
    overlap = np.abs(np.sum(plain.vectors[order] * mixed.vectors, axis=0))
    # 1 - cos of an angle of residual / gap = 8e-12 / 3e-3, far below rounding.
    np.testing.assert_allclose(overlap, 1, atol=1e-12)


def test_arguments_are_left_alone():
    A, B, null = _grid(20, 25), np.linspace(1, 2, 500), np.ones((500, 1))
    kept = A.copy(), B.copy(), null.copy()
    smallest(A, 2, B=B, null=null, run=Run())
    largest(A, 2, run=Run())
    assert np.array_equal(A.data, kept[0].data)
    assert np.array_equal(A.indices, kept[0].indices)
    assert np.array_equal(B, kept[1])
    assert np.array_equal(null, kept[2])


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_dense_matrix_is_not_copied(order):
    n = 1500
    X = np.random.default_rng(0).standard_normal((n, 5))
    A = np.asarray(X @ X.T, order=order)
    tracemalloc.start()
    found = largest(A, 3, run=Run())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < A.nbytes / 2
    np.testing.assert_allclose(found.values, np.linalg.svd(X)[1][:3] ** 2, rtol=1e-11)


def test_single_precision_is_worked_in_its_own_rounding():
    X = np.random.default_rng(0).standard_normal((700, 4))
    A = (X @ X.T).astype(np.float32)
    found = largest(A, 3, run=Run())
    # Sums of 700 products in single precision: 700 * 6e-8 at worst.
    np.testing.assert_allclose(found.values, np.linalg.svd(X)[1][:3] ** 2, rtol=4e-5)
    assert found.vectors.dtype == np.float64


def test_a_loose_tolerance_is_taken_at_its_word():
    A = _grid(30, 40)
    found = smallest(A, 3, null=np.ones(1200), tol=1e-5, run=Run())
    exact = np.sort((_path_values(30)[:, None] + _path_values(40)).ravel())[1:4]
    assert found.residuals.max() <= 8e-5
    np.testing.assert_allclose(found.values, exact, atol=8e-5)


def test_the_stage_is_timed():
    run = Run()
    smallest(_path(30), 2, run=run)
    assert run.seconds["eigenproblem"] > 0


def _returns_nan(n):
    return LinearOperator((n, n), matvec=lambda _: np.full(n, np.nan), dtype=np.float64)


@pytest.mark.parametrize("n", [50, 900])
def test_an_operator_that_returns_nan_is_reported(n):
    with pytest.raises(np.linalg.LinAlgError, match="NaN"):
        largest(_returns_nan(n), 2, run=Run())


def test_an_unreachable_tolerance_names_the_best_residual():
    with pytest.raises(np.linalg.LinAlgError, match=r"below 1e-30 .* the best had \d\.\de-1\d"):
        largest(_banded(450, 0), 2, tol=1e-30, run=Run())


@pytest.mark.parametrize("n", [50, 900])
@pytest.mark.parametrize("form", FORMS)
def test_an_unsymmetric_matrix_is_refused(n, form):
    A = _banded(n, 0).tolil()
    A[0, n - 1] = 30.0
    with pytest.raises(ValueError, match="symmetric"):
        smallest(FORMS[form](A.tocsr()), 2, run=Run())


@pytest.mark.parametrize(
    ("A", "k", "options", "word"),
    [
        (np.eye(4), 0, {}, "Between 1 and 4"),
        (np.eye(4), 4, {"null": np.ones(4)}, "Between 1 and 3"),
        (np.ones((3, 4)), 1, {}, "square"),
        (sp.csr_array(np.diag([1.0, np.inf])), 1, {}, "finite"),
        (np.eye(4), 1, {"B": np.array([1.0, 1.0, 0.0, 1.0])}, "positive definite"),
        (np.eye(4), 1, {"B": np.ones(3)}, "one mass per row of A"),
        (np.eye(4), 1, {"B": np.eye(4)}, "must be a vector"),
        (np.eye(4), 1, {"null": np.ones(3)}, "one row per row"),
        (np.eye(4), 1, {"null": np.zeros(4)}, "must not be zero"),
        (np.diag([1.0, 2.0, 3.0]), 1, {"null": np.ones(3)}, "not eigenvectors"),
        (1e-200 * np.eye(4), 1, {}, "out of range"),
        (1e200 * np.eye(500), 1, {}, "out of range"),
        (np.eye(4), 1, {"tol": 0.0}, "tol must be positive"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(A, k, options, word):
    with pytest.raises(ValueError, match=word):
        smallest(A, k, run=Run(), **options)
