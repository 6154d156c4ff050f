"""The nouns check themselves, and their forms can be turned into each other without loss."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

import manifoldry
from helpers import bent_sheet, edges_of
from manifoldry import PCA, dimension, metrics
from manifoldry._core.values import Certificate, Embedding, NeighborGraph, Spectrum, Stop, Trace


def random_sparse(seed, n=30, density=0.2, dtype=np.float64):
    """Return lengths on a small lattice, so that many are equal and some are stored zeros, with a diagonal."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((n, n)) < density)
    return csr_array((rng.integers(0, 4, len(rows)).astype(dtype), (rows, columns)), shape=(n, n))


def stored(matrix):
    """Return the stored entries off the diagonal, zeros among them."""
    entries = coo_array(matrix)
    triples = zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True)
    return sorted((i, j, length) for i, j, length in triples if i != j)


def one_sentence(error):
    text = str(error.value)
    return text.endswith(".") and ". " not in text and "\n" not in text


@pytest.mark.parametrize(
    ("indptr", "indices", "lengths"),
    [
        ([0, 1, 2], [1, 0], [1.0]),
        ([0, 1, 2], [1], [1.0, 1.0]),
        ([0, 1, 3], [1, 0], [1.0, 1.0]),
        ([0, 1, 2], [1, 2], [1.0, 1.0]),
        ([0, 1, 2], [1, -1], [1.0, 1.0]),
        ([0, 1, 2], [1, 0], [1.0, -1e-300]),
        ([0, 1, 2], [1, 0], [1.0, np.nan]),
        ([0, 1, 2], [1, 0], [np.inf, 1.0]),
        ([1, 1, 2], [1, 0], [1.0, 1.0]),
        ([0, 2, 1, 2], [1, 2], [1.0, 1.0]),
        ([], [], []),
        ([0, 1, 2], [0, 0], [1.0, 1.0]),
    ],
)
def test_a_graph_that_is_none_is_refused(indptr, indices, lengths):
    with pytest.raises(ValueError, match="neighbor") as error:
        NeighborGraph(np.array(indptr, dtype=int), np.array(indices, dtype=int), np.array(lengths))
    assert one_sentence(error)


def test_points_without_neighbors_are_welcome():
    graph = NeighborGraph(np.array([0, 0, 1, 1]), np.array([2]), np.array([0.0]))
    assert (graph.n_points, graph.n_edges, graph.degrees.tolist()) == (3, 1, [0, 1, 0])
    lonely = NeighborGraph(np.zeros(5, dtype=int), np.empty(0, dtype=int), np.empty(0))
    assert (lonely.n_points, lonely.n_edges, lonely.rows().tolist()) == (4, 0, [])


def test_values_cannot_be_changed():
    graph = NeighborGraph.from_rows(np.array([[1], [0]]), np.array([[2.0], [2.0]]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.symmetric = True
    with pytest.raises(dataclasses.FrozenInstanceError):
        Trace(np.ones(2), Stop.LIMIT).stop = Stop.CONVERGED


def test_rows_of_a_search_become_rows_of_the_graph():
    rng = np.random.default_rng(1)
    indices = np.array([[(i + j) % 9 for j in (3, 1, 5)] for i in range(9)])
    distances = np.sort(rng.random((9, 3)), axis=1)
    graph = NeighborGraph.from_rows(indices, distances)
    assert (graph.n_points, graph.n_edges, graph.symmetric) == (9, 27, False)
    assert graph.degrees.tolist() == [3] * 9
    for i in range(9):
        np.testing.assert_array_equal(graph.row(i)[0], indices[i])
        np.testing.assert_array_equal(graph.row(i)[1], distances[i])
    np.testing.assert_array_equal(graph.rows(), np.repeat(np.arange(9), 3))


@pytest.mark.parametrize("seed", range(5))
def test_sparse_and_back_keeps_stored_zeros_and_drops_the_diagonal(seed):
    matrix = random_sparse(seed)
    graph = NeighborGraph.from_sparse(matrix)
    assert edges_of(graph) == stored(matrix)
    assert 0.0 in graph.lengths
    assert stored(graph.to_sparse()) == stored(matrix)
    again = NeighborGraph.from_sparse(graph.to_sparse())
    np.testing.assert_array_equal(again.indptr, graph.indptr)
    np.testing.assert_array_equal(again.indices, graph.indices)
    np.testing.assert_array_equal(again.lengths, graph.lengths)


def test_rows_from_a_sparse_matrix_ascend_in_length_then_index():
    graph = NeighborGraph.from_sparse(random_sparse(7))
    for i in range(graph.n_points):
        row = list(zip(graph.row(i)[1].tolist(), graph.row(i)[0].tolist(), strict=True))
        assert row == sorted(row)


def test_any_sparse_format_and_kind_of_number_gives_the_same_graph():
    matrix = random_sparse(8)
    expected = edges_of(NeighborGraph.from_sparse(matrix))
    for other in (csr_matrix(matrix), matrix.tocsc(), matrix.tocoo(), matrix.astype(np.int64), matrix.astype(np.int8)):
        graph = NeighborGraph.from_sparse(other)
        assert edges_of(graph) == expected
        assert graph.lengths.dtype.kind == "f"
    assert NeighborGraph.from_sparse(matrix.astype(np.float32)).lengths.dtype == np.float32
    assert NeighborGraph.from_sparse(matrix, symmetric=True).symmetric


def test_a_subset_is_the_submatrix_with_its_zeros():
    matrix = random_sparse(9)
    graph = NeighborGraph.from_sparse(matrix, symmetric=True)
    members = np.sort(np.random.default_rng(9).choice(30, 12, replace=False))
    place = {int(old): new for new, old in enumerate(members)}
    expected = sorted((place[i], place[j], d) for i, j, d in stored(matrix) if i in place and j in place)
    part = graph.subset(members)
    assert edges_of(part) == expected
    assert part.symmetric
    assert part.n_points == 12
    assert edges_of(graph.subset(np.arange(30))) == edges_of(graph)
    assert graph.subset(np.array([4])).n_edges == 0


def spectrum(values, order="largest", n=6):
    values = np.asarray(values, dtype=float)
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0][:, : len(values)]
    return Spectrum(values, vectors, np.zeros(len(values)), order)


def test_a_spectrum_must_be_in_order():
    assert len(spectrum([3.0, 1.0, -2.0])) == 3
    assert len(spectrum([-2.0, 1.0, 3.0], "smallest")) == 3
    assert len(spectrum([2.0, 2.0, 2.0 + 1e-10])) == 3  # rounding among equal values
    for values, order in [([1.0, 2.0], "largest"), ([2.0, 1.0], "smallest"), ([5.0, 1.0, 1.1], "largest")]:
        with pytest.raises(ValueError, match=f"in order, {order} first") as error:
            spectrum(values, order)
        assert one_sentence(error)


def test_a_spectrum_needs_a_vector_and_a_residual_for_every_value():
    for n_vectors, n_residuals in [(1, 2), (2, 1), (3, 2)]:
        with pytest.raises(ValueError, match="one vector and one residual per value") as error:
            Spectrum(np.array([2.0, 1.0]), np.ones((4, n_vectors)), np.zeros(n_residuals))
        assert one_sentence(error)


def test_scaled_vectors_reproduce_the_matrix():
    pairs = spectrum([4.0, 1.0, 0.25])
    Y = pairs.scaled(0.5)
    # Y Y' = V diag(values) V'; entries below 4, sums of three products: 3 x 4 x eps is 3e-15.
    np.testing.assert_allclose(Y @ Y.T, (pairs.vectors * pairs.values) @ pairs.vectors.T, atol=3e-15)
    np.testing.assert_array_equal(pairs.scaled(0.0), pairs.vectors)
    np.testing.assert_array_equal(spectrum([4.0, -1.0]).scaled(0.5)[:, 1], np.zeros(6))


def test_gaps_and_head():
    pairs = spectrum([4.0, 1.0, 0.25])
    np.testing.assert_array_equal(pairs.gaps, [3.0, 0.75])
    np.testing.assert_array_equal(spectrum([0.25, 1.0, 4.0], "smallest").gaps, [0.75, 3.0])
    head = pairs.head(2)
    assert len(head) == 2
    np.testing.assert_array_equal(head.vectors, pairs.vectors[:, :2])
    np.testing.assert_array_equal(head.values, [4.0, 1.0])
    assert (head.order, head.solver) == (pairs.order, pairs.solver)


def test_a_trace_counts_its_steps_and_stops_are_sentences():
    assert Trace(np.array([3.0, 2.0, 1.5]), Stop.CONVERGED).n_iter == 2
    assert all(stop.value.endswith(".") for stop in Stop)


def test_embeddings_do_not_share_their_notes():
    one, two = Embedding(np.zeros((2, 1))), Embedding(np.zeros((2, 1)))
    one.notes["seen"] = True
    assert two.notes == {}


def certificate(objective, bound, **settings):
    return Certificate(
        **{"objective": objective, "bound": bound, "rank": 2, "claim": "the sum", "tol": 1e-6, **settings}
    )


@pytest.mark.parametrize(
    ("objective", "bound", "settings", "verdict"),
    [
        (1.0, 1.0, {}, "proven optimal"),
        (-2.0, -2.0 - 1e-6, {}, "proven optimal"),
        (-2.0, -2.0 - 4e-6, {}, "within 2e-06"),
        (-2.0, -2.0 - 4e-6, {"tol": 1e-5}, "proven optimal"),
        (1e-9, 0.0, {}, "bound only"),  # a trivial bound proves nothing of a small value
        (1e-9, 0.0, {"noise": 1e-8}, "proven optimal"),  # unless the value is rounding
        (1e-9, -1e-7, {"noise": 1e-8}, "bound only"),
        (1.0, -np.inf, {}, "bound only"),
        (1.0, 1.0, {"violation": 2e-5}, "bound only"),
        (1.0, 5.0, {"violation": 1e-9}, "bound only"),
        (1.0, 1.0 + 1e-7, {"violation": 1e-7}, "proven optimal"),
    ],
)
def test_a_verdict_follows_the_gap_relative_to_the_value(objective, bound, settings, verdict):
    found = certificate(objective, bound, **settings)
    assert found.verdict == verdict
    assert found.optimal == (verdict == "proven optimal")
    assert found.sentence.startswith("Proven optimal") == found.optimal
    assert "the sum" in found.sentence


def test_a_value_below_its_bound_is_refused():
    with pytest.raises(ValueError, match="below its bound"):
        certificate(1.0, 5.0)
    assert certificate(1.0, 1.0 + 1e-9, noise=1e-8).gap == 0.0


def test_values_are_represented_in_one_short_line():
    graph = NeighborGraph.from_rows(np.array([[1], [0]]), np.ones((2, 1)))
    spectrum = Spectrum(np.ones(3), np.ones((300, 3)), np.zeros(3))
    trace = Trace(np.arange(500.0), Stop.COMPLETED)
    certificate = Certificate(1.0, 1.0, 2, "the claim", 1e-3)
    embedding = Embedding(np.zeros((1000, 2)), graph, spectrum, trace, certificate, notes={"a": np.ones(1000)})
    for value in (graph, spectrum, trace, certificate, embedding):
        assert repr(value).startswith(f"{type(value).__name__}(")
        assert "\n" not in repr(value)
        assert "array" not in repr(value)
    assert repr(trace) == "Trace(objective=<float64 500>, stop=Stop.COMPLETED)"
    assert "coordinates=<float64 1000 x 2>" in repr(embedding)


QUESTIONS = {
    "Agreement": lambda X, Y: metrics.agreement(X[:, :2], Y),
    "Comparison": lambda X, _: manifoldry.compare(X, "see clusters", None, methods=["PCA"]),
    "Consensus": lambda X, _: dimension.consensus(X),
    "Dataset": lambda *_: manifoldry.datasets.swiss_roll(50),
    "Diagnosis": lambda X, _: manifoldry.diagnose(X),
    "DimensionByScale": lambda X, _: dimension.by_scale(X),
    "DimensionEstimate": lambda X, _: dimension.two_nn(X),
    "LocalDimension": lambda X, _: dimension.local(X),
    "LocalDistortion": lambda X, Y: metrics.local_distortion(X, Y),
    "MapContinuity": lambda X, _: metrics.map_continuity(PCA(2).fit(X), X),
    "NeighborSuggestion": lambda X, _: manifoldry.suggest_neighbors(X),
    "NullComparison": lambda X, _: metrics.null_comparison(PCA(2), X),
    "Procrustes": lambda X, Y: metrics.procrustes(X[:, :2], Y),
    "Reliability": lambda X, Y: metrics.reliability(X, Y),
    "Score": lambda X, Y: manifoldry.score(X, Y),
    "Shepard": lambda X, Y: metrics.shepard_diagram(X, Y),
    "Stability": lambda X, _: metrics.stability(PCA(2), X, n_refits=2),
    "Suggestion": lambda X, _: manifoldry.suggest_n_components(X),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_results_are_represented_in_one_line(name):
    X = np.vstack([bent_sheet(60), bent_sheet(60, seed=1) + 20])
    found = QUESTIONS[name](X, PCA(2).fit_transform(X))
    assert type(found).__name__ == name
    assert 0 < len(repr(found))
    assert "\n" not in repr(found)
