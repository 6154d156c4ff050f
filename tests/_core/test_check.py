"""Good input passes unchanged; bad input is refused in one sentence that names what came."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.metrics import pairwise_distances

from manifoldry._core import check


def distances(n=5, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def changed(matrix, i, j, value):
    matrix = matrix.copy()
    matrix[i, j] = value
    return matrix


def sparse(pairs, n=4):
    rows, columns, lengths = zip(*pairs, strict=True)
    return csr_array((np.array(lengths, dtype=float), (rows, columns)), shape=(n, n))


TWO_GROUPS = np.kron(np.eye(2), np.ones((2, 2)))

REFUSALS = [
    # what is called, words of the sentence
    (lambda: check.integer("k", 2.0, 1), "k must be an integer; got 2.0"),
    (lambda: check.integer("k", "2", 1), "got '2'"),
    (lambda: check.integer("k", True, 0), "got True"),
    (lambda: check.integer("k", None, 1), "got None"),
    (lambda: check.integer("k", 0, 1), "k must be at least 1; got 0"),
    (lambda: check.integer("k", 9, 1, 8, " for 9 points"), "k must be between 1 and 8 for 9 points; got 9"),
    (lambda: check.number("r", "a", 0.0), "r must be a finite number; got 'a'"),
    (lambda: check.number("r", np.nan, 0.0), "finite number; got nan"),
    (lambda: check.number("r", np.inf, 0.0), "finite number; got inf"),
    (lambda: check.number("r", True, 0.0), "finite number; got True"),
    (lambda: check.number("r", 1j, 0.0), "finite number; got 1j"),
    (lambda: check.number("r", -0.5, 0.0), "r must be at least 0; got -0.5"),
    (lambda: check.number("r", 0, 0.0, open_low=True), "r must be above 0; got 0"),
    (lambda: check.choice("rule", "xor", ("or", "and")), "rule must be one of 'or', 'and'; got 'xor'"),
    (lambda: check.choice("rule", 1, ("or", "and")), "got 1"),
    (lambda: check.metric("euclid", ("precomputed",)), "metric must be one of .*euclidean.*; got 'euclid'"),
    (lambda: check.n_components(5, 5), "n_components must be between 1 and 4 for 5 points"),
    (lambda: check.n_components(0, 5), "n_components .* got 0"),
    (lambda: check.enough_points(1), "At least 2 samples .* got 1 sample"),
    (lambda: check.enough_points(3, 4), "At least 4 samples .* got 3 samples"),
    (lambda: check.distinct_points(np.full((6, 2), 3.5)), "All 6 points are identical"),
    (lambda: check.distinct_points(csr_array(np.full((6, 2), 3.5))), "All 6 points are identical"),
    (lambda: check.distinct_points(csr_matrix((6, 2))), "All 6 points are identical"),
    (lambda: check.square_gram(np.ones((3, 4))), r"square matrix of inner products; got shape \(3, 4\)"),
    (lambda: check.square_gram(np.ones(3)), r"got shape \(3,\)"),
    (lambda: check.square_gram(changed(np.eye(4), 0, 1, 0.1)), "needs a symmetric matrix"),
    (lambda: check.square_gram(np.ones((4, 4))), "All inner products are equal"),
    (lambda: check.square_distances(np.zeros((3, 4))), r"square matrix of pairwise distances; got shape \(3, 4\)"),
    (lambda: check.square_distances(changed(distances(), 1, 2, -1.0)), "non-negative distances; got -1"),
    (lambda: check.square_distances(changed(distances(), 1, 2, 50.0)), "symmetric distances; .* differ .* by up to"),
    (lambda: check.square_distances(distances() + np.eye(5)), "zeros on the diagonal; got 1"),
    (lambda: check.square_distances(np.zeros((4, 4))), "All distances are zero"),
    (lambda: check.square_graph(csr_array((3, 4))), r"square sparse matrix; got shape \(3, 4\)"),
    (lambda: check.square_graph(csr_array((4, 4))), "has no edges"),
    (lambda: check.square_graph(sparse([(0, 1, -2.0)])), "non-negative lengths; got -2"),
    (lambda: check.square_graph(sparse([(0, 1, 2.0), (1, 0, 2.5)])), "same length both ways; .* by up to 0.5"),
    (lambda: check.square_graph(sparse([(0, 1, 0.0), (1, 0, 2.5)])), "same length both ways; .* by up to 2.5"),
    (lambda: check.weights(np.ones((3, 3)), 4), r"weights must have shape \(4, 4\); got \(3, 3\)"),
    (lambda: check.weights(changed(np.ones((4, 4)), 0, 1, np.nan), 4), "finite, non-negative and symmetric"),
    (lambda: check.weights(changed(np.ones((4, 4)), 0, 1, -1.0), 4), "finite, non-negative and symmetric"),
    (lambda: check.weights(changed(np.ones((4, 4)), 0, 1, 2.0), 4), "finite, non-negative and symmetric"),
    (lambda: check.weights(TWO_GROUPS, 4), "points in 2 groups"),
    (lambda: check.representable_scale(np.array([[1.0, -1e70]])), "X holds values up to 1e.70, .* divide it by 1e.70"),
    (lambda: check.representable_scale(sparse([(0, 1, 1e-70)])), "differ by at most 1e-70, .* divide X by 1e-70"),
    (lambda: check.representable_scale(np.ones((2, 1)), spread=1e-61), "differ by at most 1e-61"),
    (lambda: check.representable_scale(np.full((2, 2), 1e121), squares=True, what="G"), "G holds values up to 1e.121"),
    (lambda: check.weights(np.zeros((4, 4)), 4), "points in 4 groups"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS)
def test_refusals_are_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as error:
        call()
    text = str(error.value)
    assert type(error.value) is ValueError
    assert text.endswith(".")
    assert not any(mark in text for mark in (". ", "\n", "!"))


def test_integers_and_numbers_come_back_as_python_has_them():
    for value in (3, np.int8(3), np.uint64(3)):
        assert check.integer("k", value, 3, 3) == 3
        assert type(check.integer("k", value, 1)) is int
    for value in (1, 0.5, np.float32(0.5), np.int64(2)):
        assert type(check.number("r", value, 0.0, open_low=True)) is float
        assert check.number("r", value, 0.0) == value
    assert check.number("r", 0.0, 0.0) == 0.0
    assert check.choice("rule", "or", ("or", "and")) == "or"


# All names by which scikit-learn 1.9 computes distances.
METRICS = """
    braycurtis canberra chebyshev cityblock correlation cosine dice euclidean hamming haversine jaccard l1 l2
    mahalanobis manhattan matching minkowski nan_euclidean rogerstanimoto russellrao seuclidean sokalsneath
    sqeuclidean yule
""".split()


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore:Data was converted to boolean")
def test_every_metric_of_scikit_learn_is_known(name):
    X = np.random.default_rng(0).uniform(size=(5, 2))
    assert pairwise_distances(X, metric=name).shape == (5, 5)
    check.metric(name, ())


def test_metrics_of_a_method_are_known_to_it_alone():
    check.metric("gram", ("gram",))
    for name in ("gram", "precomputed"):
        with pytest.raises(ValueError, match=f"got '{name}'"):
            check.metric(name, ())


def test_n_points_span_n_minus_1_dimensions():
    assert check.n_components(4, 5) == 4
    assert check.n_components(1, 2) == 1
    check.enough_points(2)


def test_one_differing_entry_is_enough():
    for kind in (np.asarray, csr_array, csr_matrix):
        check.distinct_points(kind(changed(np.ones((5, 3)), 4, 2, 1 + 1e-15)))
        check.distinct_points(kind(changed(np.zeros((5, 3)), 4, 2, 1e-300)))


def test_rounding_is_forgiven_where_it_is_unavoidable():
    D = distances()
    nearly = changed(D, 1, 2, D[1, 2] * (1 + 1e-12))
    check.square_distances(nearly)
    check.square_gram(nearly)
    check.square_graph(csr_array(nearly))
    check.square_graph(sparse([(0, 1, 2.0), (2, 3, 0.0)]))  # one way only, and a stored zero


def test_blocks_of_a_large_matrix_are_all_looked_at():
    # 3,400 rows are checked in two blocks of at most 10,000,000 entries; the fault is in the second.
    D = np.ones((3400, 3400), dtype=np.float32)
    np.fill_diagonal(D, 0)
    check.square_distances(D)
    D[3300, 3200] = 1.5
    with pytest.raises(ValueError, match=r"by up to 0\.5"):
        check.square_distances(D)


def test_nothing_is_written_into_what_is_checked():
    D, G = distances(), csr_array(distances())
    before = D.copy(), G.data.copy(), G.indices.copy()
    check.square_distances(D)
    check.square_graph(G)
    check.weights(D, 5)
    check.distinct_points(G)
    np.testing.assert_array_equal(D, before[0])
    np.testing.assert_array_equal(G.data, before[1])
    np.testing.assert_array_equal(G.indices, before[2])


def test_scales_of_squares_reach_twice_as_far():
    check.representable_scale(np.full((2, 2), 1e119), squares=True)
    check.representable_scale(np.array([[1e-119]]), squares=True)
    check.representable_scale(np.zeros((2, 2)))


def test_spread_is_that_of_the_widest_column():
    X = np.array([[1.0, 5.0], [2.0, 5.0], [-3.0, 5.5]])
    assert check.column_spread(X) == 5.0
    assert check.column_spread(np.float32(3e38) * np.array([[1], [-1]], dtype=np.float32)) > 5e38
    assert check.column_spread(csr_array(np.array([[0.0, -7.0], [1.0, 0.0]]))) == 7.0


def test_rows_are_rounded_away_where_numbers_are_sparse():
    """Near 2^24 numbers in single precision are 2 apart, and near 2^53 in double precision."""
    X = np.array([[2.0**24], [2.0**24 + 100]])
    assert "double precision" in check.rounding_message(X.astype(np.float32))
    assert check.rounding_message(X) is None
    assert "subtract the offset" in check.rounding_message(X + 2.0**53)
    assert check.rounding_message(csr_array(X)) is None
    assert check.rounding_message(X.astype(np.int64)) is None
