"""Structure preserving embedding: graphs read off the points again, and answers known on paper."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry import SPE, NeighborGraph, datasets
from manifoldry._core.run import Run
from manifoldry.methods.unfolding._spe import connectivity
from manifoldry.methods.unfolding._spe_program import Comparisons, GraphStructure, preserve_structure


def graph_from(A, length=1.0):
    return NeighborGraph.from_sparse(sp.csr_array(length * np.asarray(A, dtype=float)), symmetric=True)


def ring(n):
    A = np.roll(np.eye(n), 1, axis=1)
    return A + A.T


def random_graph(n, seed, degree=3):
    """A ring with random chords: connected."""
    A = ring(n)
    A[np.random.default_rng(seed).random((n, n)) < (degree - 2) / n] = 1
    A = np.maximum(A, A.T)
    np.fill_diagonal(A, 0)
    return A


def squares(Y):
    D = np.square(Y[:, None] - Y).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    return D


def read_off(Y, A):
    """Return the graph in which every point is joined to as many nearest ones as it has neighbors in A."""
    found = np.zeros_like(A)
    order = np.argsort(squares(Y), axis=1)
    for i, degree in enumerate(A.sum(axis=1).astype(int)):
        found[i, order[i, :degree]] = 1
    return found


@pytest.mark.parametrize("n", [5, 8, 13])
def test_a_ring_becomes_a_regular_polygon(n):
    """Leading eigenvectors of a ring are cosine and sine, with value 2 cos(2 pi / n); nearest on a circle are next."""
    spe = SPE(tol=1e-6).fit(graph_from(ring(n)))
    assert spe.alignment_ == pytest.approx(2 * np.cos(2 * np.pi / n), abs=1e-4)
    assert np.linalg.norm(spe.embedding_, axis=1) == pytest.approx(np.ones(n), abs=1e-2)
    next_ones = np.linalg.norm(np.diff(spe.embedding_, axis=0), axis=1)
    assert next_ones == pytest.approx(np.full(n - 1, 2 * np.sin(np.pi / n)), abs=1e-2)
    assert spe.kept_ == 1.0
    assert spe.certificate_.optimal


def test_a_path_of_three_is_evenly_spaced_on_a_line():
    """Of centered vectors (1, 0, -1) has x'Ax = 0 and (1, -2, 1) / sqrt(6) has -4/3: the first, of trace 3, is best."""
    A = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    spe = SPE(n_components=1, tol=1e-7).fit(graph_from(A))
    assert np.abs(spe.embedding_[:, 0]) == pytest.approx([np.sqrt(1.5), 0, np.sqrt(1.5)], abs=1e-3)
    assert spe.alignment_ == pytest.approx(0, abs=1e-5)
    assert -spe.certificate_.objective == pytest.approx(3 * 4 / 3, rel=1e-5)


def test_all_joined_to_all_is_a_simplex():
    spe = SPE(n_components=4).fit(graph_from(1 - np.eye(5)))
    D = squares(spe.embedding_)
    assert D[~np.eye(5, dtype=bool)] == pytest.approx(np.full(20, 2.5), rel=1e-9)  # n (n - 1) D = 2 n tr K
    assert spe.certificate_.gap == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_graph_is_read_off_the_points(seed):
    """Without slack, nearest points in all dimensions used are the neighbors in the graph: all of them, no others."""
    A = random_graph(24, seed)
    spe = SPE(n_components=23, tol=1e-4).fit(graph_from(A))
    assert np.array_equal(read_off(spe.embedding_, A), A)
    assert spe.xi_ == 0
    assert spe.kept_ == 1
    assert spe.certificate_.optimal
    assert np.square(spe.embedding_).sum() == pytest.approx(24)


@pytest.mark.parametrize("seed", range(2))
def test_one_radius_tells_the_graph_from_the_rest(seed):
    A = random_graph(16, seed)
    spe = SPE(n_components=15, structure="radius", tol=1e-4).fit(graph_from(A))
    D = squares(spe.embedding_)
    assert D[A > 0].max() < D[(A == 0) & np.isfinite(D)].min()
    assert spe.certificate_.optimal


def test_neighbors_of_rows_are_kept_whatever_their_distances():
    X = datasets.swiss_roll(40).X
    spe = SPE(n_components=39, n_neighbors=4).fit(X)
    A = connectivity(spe.graph_)
    assert np.array_equal(read_off(spe.embedding_, A), A)
    longer = graph_from(A, 7.0)
    one, other = (SPE(n_components=39).fit(graph).embedding_ for graph in (longer, graph_from(A)))
    assert np.array_equal(one, other)


def test_the_order_of_the_points_does_not_matter():
    """Strictly: the interior-point method takes the same steps but for rounding, whatever comparisons come first."""
    A, order = random_graph(20, 7), np.random.default_rng(0).permutation(20)
    one, other = (SPE(n_components=19).fit(graph_from(B)).embedding_ for B in (A, A[np.ix_(order, order)]))
    D = np.square(one[:, None] - one).sum(axis=2)
    assert np.square(other[:, None] - other).sum(axis=2) == pytest.approx(D[np.ix_(order, order)], abs=1e-5)


def reference(A, margin, C, kind):
    """Return the largest tr(K A) - C xi over all constraints at once, by a general solver."""
    clarabel = pytest.importorskip("clarabel")
    n = len(A)
    Q = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    m = n - 1
    column, row = np.tril_indices(m)
    factor = np.where(row == column, 1.0, np.sqrt(2.0))

    def vector(G):
        return factor * (Q.T @ G @ Q)[row, column]

    def pair(i, j):
        b = np.eye(n)[i] - np.eye(n)[j]
        return np.outer(b, b)

    edges = [(i, j) for i in range(n) for j in range(n) if A[i, j]]
    others = [(i, j) for i in range(n) for j in range(n) if not A[i, j] and i != j]
    rows = [
        np.r_[-vector(pair(*far) - pair(*near)), -1.0]
        for far in others
        for near in edges
        if kind == "radius" or far[0] == near[0]
    ]
    slack = np.r_[np.zeros(len(row)), -1.0]
    held = [np.r_[vector(np.eye(n)), 0.0][None], np.array(rows), slack[None], np.eye(len(row), len(row) + 1) * -1]
    right = [[n], np.full(len(rows), -margin), [0.0], np.zeros(len(row))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(rows) + 1), clarabel.PSDTriangleConeT(m)]
    cost = np.r_[-vector(A), C]
    zero = sp.csc_matrix((len(cost), len(cost)))
    solved = clarabel.DefaultSolver(
        zero, cost, sp.csc_matrix(np.vstack(held)), np.concatenate(right), cones, settings
    ).solve()
    assert "Solved" in str(solved.status), solved.status
    return -solved.obj_val


@pytest.mark.parametrize("kind", ["neighbors", "radius"])
@pytest.mark.parametrize("C", [None, 2.0])
def test_small_graphs_agree_with_a_general_solver_given_all_constraints(kind, C):
    A = random_graph(9, 3)
    structure = GraphStructure(A, kind, 0.5)
    found = preserve_structure(structure, Run(0), C=C, tol=1e-6, max_iter=60)
    best = reference(A, structure.margin, 1e4 if C is None else C, kind) - 9 * structure.least
    assert -found.certificate.objective == pytest.approx(best, rel=2e-6)
    assert -found.certificate.bound >= best * (1 - 1e-6)
    assert found.certificate.optimal


def test_a_value_and_a_bound_hold_from_the_first_round_on():
    """The value never falls from round to round, and none passes the bound that an earlier round proved."""
    structure = GraphStructure(random_graph(24, 1, degree=4), "neighbors", 0.1)
    rounds = [preserve_structure(structure, Run(0), C=None, tol=1e-6, max_iter=k) for k in (1, 2, 3, 30)]
    values = [-fit.certificate.objective for fit in rounds]
    assert np.all(np.diff(values) >= 0)
    assert all(-fit.certificate.bound >= values[-1] * (1 - 1e-9) for fit in rounds)
    assert all(fit.xi == 0 for fit in rounds)
    assert np.all(np.diff(rounds[-1].trace.objective) <= 0)
    assert rounds[-1].certificate.optimal


def test_slack_is_worth_its_price():
    """tr(K A) - C xi is at least that without slack, and the slack falls as its price rises."""
    A = random_graph(16, 5, degree=5)
    structure = GraphStructure(A, "neighbors", 0.1)
    hard = preserve_structure(structure, Run(0), C=None, tol=1e-5, max_iter=40)
    soft = [preserve_structure(structure, Run(0), C=C, tol=1e-5, max_iter=40) for C in (1.0, 4.0, 1000.0)]
    values = [-fit.certificate.objective for fit in (*soft, hard)]
    assert np.all(np.diff(values) <= 2e-5 * values[-1])
    assert soft[0].xi > soft[1].xi >= soft[2].xi
    assert soft[2].xi < 1e-6


def test_products_of_comparisons_are_those_of_their_matrices():
    rng = np.random.default_rng(0)
    n = 7
    far, near = np.array([[0, 3], [2, 5], [0, 4], [6, 1]]), np.array([[0, 1], [2, 1], [0, 1], [6, 0]])
    compared = Comparisons.of(far, near, n)

    def matrix(c):
        b, d = (np.eye(n)[pair[0]] - np.eye(n)[pair[1]] for pair in (far[c], near[c]))
        return np.outer(b, b) - np.outer(d, d)

    K, S = ((lambda M: M @ M.T)(rng.standard_normal((n, n))) for _ in range(2))
    brute = [[np.trace(matrix(c) @ K @ matrix(d) @ S) for d in range(4)] for c in range(4)]
    assert compared.products(K, S) == pytest.approx(np.array(brute))
    assert compared.forms(K) == pytest.approx([np.vdot(matrix(c), K) for c in range(4)])
    weights = rng.random(4)
    assert compared.laplacian(weights, n) == pytest.approx(sum(w * matrix(c) for c, w in enumerate(weights)))


def test_what_a_plane_loses_is_said():
    X = np.random.default_rng(0).standard_normal((40, 6))
    spe = SPE(n_neighbors=5).fit(X)
    assert spe.kept_ < 0.95
    assert any("of the graph's neighbors" in sentence for sentence in spe.diagnostics_["advice"])


def test_a_graph_of_nearly_all_pairs_is_said_to_have_little_structure():
    X = np.random.default_rng(0).standard_normal((8, 3))
    for n_neighbors, dense in ((7, True), (2, False)):
        advice = SPE(n_neighbors=n_neighbors).fit(X).diagnostics_["advice"]
        assert any("leaves little structure" in sentence for sentence in advice) == dense


def test_equal_rows_share_a_place():
    X = datasets.swiss_roll(30).X
    twice = np.vstack([X, X[:6]])
    Y = SPE(n_neighbors=4, max_iter=3).fit(twice).embedding_
    assert np.array_equal(Y[:6], Y[30:])


def test_too_many_points_are_refused():
    with pytest.raises(ValueError, match=r"^SPE takes up to 600 points.*; got 601: fit a sample"):
        SPE().fit(np.random.default_rng(0).standard_normal((601, 3)))
