"""Rigid tiles, the distances held between them and those stretched, against loops and an interior-point solver."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist

from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.patches.tessellation import (
    TessellationOptions,
    align_tesserae,
    border_pairs,
    connected_tesserae,
    far_pairs,
    frame_rows,
    geodesic_start,
    lay_tesserae,
    reconnected_graph,
    tessellate,
    tessellate_in_low_rank,
)
from manifoldry._numerics.semidefinite.barrier_path import StretchOptions
from manifoldry._numerics.semidefinite.interior import unfold_gram
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph


def neighbors(X, k):
    return symmetrize(neighbor_graph(X, NeighborRule(k).resolve(len(X)), Run(0, 1))[0], "or")


def strips(X, count):
    """Label points by equal strips of their first coordinate."""
    order = np.argsort(np.argsort(X[:, 0]))
    return order * count // len(X)


def pairs_of(ties):
    return set(zip(ties.i.tolist(), ties.j.tolist(), strict=True))


def test_borders_are_held_at_their_shortest_edge_and_at_edges_far_from_each_other():
    X = np.random.default_rng(0).uniform(size=(60, 2))
    graph, labels = neighbors(X, 6), np.random.default_rng(1).integers(5, size=60)
    found = border_pairs(X, graph, labels, 3)
    dense = graph.to_sparse().toarray()
    expected = set()
    for a, b in itertools.combinations(range(5), 2):
        mine, theirs = np.flatnonzero(labels == a), np.flatnonzero(labels == b)
        edges = sorted((i, j) for i in mine for j in theirs if dense[i, j] > 0)
        middle = {(i, j): (X[i] + X[j]) / 2 for i, j in edges}
        chosen = [min(edges, key=lambda edge: dense[edge])]
        while len(chosen) < min(3, len(edges)):
            left = [edge for edge in edges if edge not in chosen]
            chosen.append(max(left, key=lambda e: min(np.linalg.norm(middle[e] - middle[c]) for c in chosen)))
        expected |= set(chosen)
    assert pairs_of(found) == expected
    np.testing.assert_allclose(found.lengths, np.linalg.norm(X[found.i] - X[found.j], axis=1), rtol=1e-12)


def test_coincident_points_of_two_tesserae_are_held_at_a_thousandth_of_the_usual():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [3.0]])
    found = border_pairs(X, neighbors(X, 2), np.array([0, 0, 1, 1, 2]), 9)
    zero = (found.i == 1) & (found.j == 2)
    assert found.lengths[zero] == pytest.approx(1e-3 * np.median(np.linalg.norm(X[found.i] - X[found.j], axis=1)))


def test_pairs_to_stretch_are_all_that_are_apart():
    X = np.random.default_rng(2).uniform(size=(30, 2))
    graph, labels = neighbors(X, 4), strips(X, 4)
    found = far_pairs(X, graph, labels, 10_000, Run(0, 1))
    dense = graph.to_sparse().toarray()
    expected = {(i, j) for i, j in itertools.combinations(range(30), 2) if labels[i] != labels[j] and dense[i, j] == 0}
    assert pairs_of(found) == expected
    few = far_pairs(X, graph, labels, 100, Run(0, 1))
    assert pairs_of(few) < expected
    assert len(pairs_of(few)) == len(few)
    assert pairs_of(few) != pairs_of(far_pairs(X, graph, labels, 100, Run(1, 1)))


def test_where_all_are_neighbors_all_pairs_of_different_tesserae_are_stretched():
    X = np.random.default_rng(3).uniform(size=(6, 2))
    found = far_pairs(X, neighbors(X, 5), np.array([0, 0, 1, 1, 2, 2]), 100, Run(0, 1))
    assert len(found) == 15 - 3


def test_a_cluster_in_two_pieces_is_divided_and_crumbs_join_their_nearest():
    lengths = np.array([1.0, 1, 1, 1, 5, 2, 1, 1, 1, 1])
    path = sp.diags_array(lengths, offsets=1, shape=(11, 11))
    graph = NeighborGraph.from_sparse(sp.csr_array(path + path.T))
    # Label 0 has two pieces of four; point 5 is a crumb whose shorter edge leads to the right.
    labels = np.array([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    found = connected_tesserae(labels, graph, 2)
    assert found.tolist() == [0] * 5 + [1] * 6


def test_every_tessera_is_connected():
    X = np.random.default_rng(4).uniform(size=(200, 2))
    graph, labels = neighbors(X, 6), np.random.default_rng(5).integers(4, size=200)
    found = connected_tesserae(labels, graph, 3)
    adjacent = graph.to_sparse()
    for label in range(found.max() + 1):
        mine = np.flatnonzero(found == label)
        assert len(mine) >= 3
        assert connected_components(adjacent[mine][:, mine])[0] == 1


def test_tiles_of_flat_points_have_their_distances_however_they_are_placed():
    rng = np.random.default_rng(6)
    flat = rng.uniform(size=(60, 2))
    X = flat @ np.linalg.qr(rng.standard_normal((5, 5)))[0][:2]
    labels = strips(flat, 4)
    pieces, charts = lay_tesserae(X, labels, 2, "flat", Run(0, 1))
    V = pieces.layout.orthonormal(rng.standard_normal((pieces.layout.n_rows, 3)))
    Y = pieces.images @ V
    for label in range(4):
        np.testing.assert_allclose(pdist(Y[labels == label]), pdist(X[labels == label]), rtol=1e-10)
    assert charts.residuals.max() < 1e-7


class Twin:
    """The Gram matrix of frames and shifts as the unknown of a general solver; the last shift is zero."""

    def __init__(self, borders, pieces):
        self.clarabel = pytest.importorskip("clarabel")
        n, sizes = pieces.layout.n_rows - 1, pieces.layout.sizes
        column, row = np.tril_indices(n)
        self.n, self.row, self.column = n, row, column
        self.factor = np.where(row == column, 1.0, np.sqrt(2))
        block = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.arange(n) + len(sizes)])
        fixed = np.flatnonzero((block[row] == block[column]) & (column < sizes.sum()))
        self.frames = sp.csc_matrix((np.ones(len(fixed)), (np.arange(len(fixed)), fixed)), shape=(len(fixed), len(row)))
        self.wanted = (row == column)[fixed].astype(float)
        differences = borders.matrix(pieces.images).toarray()[:, :-1]
        self.squares = sp.csc_matrix(self.factor * differences[:, row] * differences[:, column])

    def solve(self, P, q, rows, right, cones):
        settings = self.clarabel.DefaultSettings()
        settings.verbose = False
        solution = self.clarabel.DefaultSolver(
            sp.csc_matrix(P), q, sp.csc_matrix(rows), right, [*cones, self.clarabel.PSDTriangleConeT(self.n)], settings
        ).solve()
        assert "Solved" in str(solution.status)
        return solution.obj_val

    def most_stretch(self, form, lower, upper):
        """Solve (3.18) with every length between two bounds."""
        k, (e, f) = len(self.row), (self.squares.shape[0], len(self.wanted))
        form = form[:-1, :-1]
        rows = sp.vstack([self.frames, self.squares, -self.squares, -sp.eye(k)])
        right = np.concatenate([self.wanted, upper, -lower, np.zeros(k)])
        cones = [self.clarabel.ZeroConeT(f), self.clarabel.NonnegativeConeT(2 * e)]
        return -self.solve(sp.csc_matrix((k, k)), -self.factor * form[self.row, self.column], rows, right, cones)

    def least_error(self):
        """Return the least mean squared error of the lengths; the errors are unknowns too."""
        k, (e, f) = len(self.row), (self.squares.shape[0], len(self.wanted))
        equal = sp.vstack([sp.hstack([self.frames, sp.csc_matrix((f, e))]), sp.hstack([self.squares, -sp.eye(e)])])
        rows = sp.vstack([equal, sp.hstack([-sp.eye(k), sp.csc_matrix((k, e))])])
        right = np.concatenate([self.wanted, np.ones(e), np.zeros(k)])
        P = sp.block_diag([sp.csc_matrix((k, k)), sp.eye(e)])
        return 2 / e * self.solve(P, np.zeros(k + e), rows, right, [self.clarabel.ZeroConeT(f + e)])


def sheet(seed):
    """Return the tesserae of a sheet, whose border distances can be kept, the pairs and a start."""
    X = np.random.default_rng(seed).uniform(size=(24, 2)) * [4.0, 1.0]
    graph, labels = neighbors(X, 5), strips(X, 4)
    pieces, _ = lay_tesserae(X, labels, 2, "flat", Run(0, 1))
    borders, far = border_pairs(X, graph, labels, 2), far_pairs(X, graph, labels, 10_000, Run(0, 1))
    return pieces, borders, far, geodesic_start(pieces, graph, 2, Run(0, 1))


def cloud(seed):
    """Return flat tesserae of a Gaussian cloud of five dimensions, whose border distances contradict each other."""
    X = np.random.default_rng(seed).normal(size=(60, 5))
    graph, labels = neighbors(X, 8), strips(X, 5)
    pieces, _ = lay_tesserae(X, labels, 2, "flat", Run(0, 1))
    borders, far = border_pairs(X, graph, labels, 8), far_pairs(X, graph, labels, 10_000, Run(0, 1))
    return pieces, borders, far, geodesic_start(pieces, graph, 2, Run(0, 1))


def mean_ratio(pieces, far, V):
    Y = pieces.images @ V
    return np.mean((np.linalg.norm(Y[far.i] - Y[far.j], axis=1) / far.lengths) ** 2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_interior_point_solver_stretches_no_further(seed):
    pieces, borders, far, start = sheet(seed)
    apart, ones = far.matrix(pieces.images).toarray(), np.ones(len(borders))
    expected = Twin(borders, pieces).most_stretch(apart.T @ apart / len(far), ones - 1e-2, ones + 1e-2)
    low = tessellate_in_low_rank(pieces, borders, far, start, StretchOptions(1e-7, 1e-2, 8), Run(0, 1))
    assert -low.certificate.objective == pytest.approx(mean_ratio(pieces, far, low.V), rel=1e-12)
    # Clarabel stops at 1e-8; the barrier at 1e-7 of the stretch times the few digits that small problems lose.
    assert -low.certificate.objective == pytest.approx(expected, rel=1e-5)
    assert -low.certificate.bound >= expected * (1 - 1e-6)
    tol = 1e-4
    found = tessellate(pieces, borders, far, StretchOptions(tol, 1e-2, 4), Run(0, 1))
    assert found.certificate.optimal
    assert found.certificate.gap <= tol
    assert expected * (1 - tol) <= -found.certificate.objective <= expected * (1 + 1e-6)
    assert expected * (1 - 1e-6) <= -found.certificate.bound <= expected * (1 + tol)
    # The dimensions left out have less than 1e-4 of the variance each, and frames are made orthonormal without them.
    assert mean_ratio(pieces, far, found.V) == pytest.approx(expected, rel=1e-3)


def test_the_least_error_of_a_cloud_is_that_of_a_general_solver():
    pieces, borders, far, start = cloud(0)
    expected = Twin(borders, pieces).least_error()
    assert expected > 1e-3
    found = tessellate(pieces, borders, far, StretchOptions(1e-3, 1e-2, 4), Run(0, 1))
    # Stage one ends at a gap of half the square of a thousandth of the slack.
    assert found.error_certificate.objective == pytest.approx(expected, rel=1e-5)
    assert found.error_certificate.bound <= expected * (1 + 1e-6)
    assert found.error_certificate.optimal
    # In low rank columns are added until the dual is positive: three dimensions are not enough here.
    narrow, wide = (
        tessellate_in_low_rank(pieces, borders, far, start, StretchOptions(1e-3, 1e-2, rank), Run(0, 1))
        for rank in (3, pieces.layout.n_rows)
    )
    assert narrow.error_certificate.objective > 1.01 * expected
    assert not narrow.error_certificate.optimal
    assert wide.error_certificate.objective == pytest.approx(expected, rel=1e-4)


def test_the_stretch_about_the_least_error_is_that_of_a_general_solver():
    pieces, borders, far, _ = cloud(0)
    tol, slack = 1e-3, 1e-2
    found = tessellate(pieces, borders, far, StretchOptions(tol, slack, 4), Run(0, 1))
    apart, twin = far.matrix(pieces.images).toarray(), Twin(borders, pieces)
    # The lengths of least error are unique; those within the slack of 1 may be anywhere within the slack of 1.
    rows = sp.csr_array(sp.vstack([borders.matrix(pieces.images), frame_rows(pieces.layout)]))
    hard = np.arange(rows.shape[0]) >= len(borders)
    basis = sp.eye_array(rows.shape[1], format="csr")[:, :-1]
    W = apart.T @ apart / len(far)
    center = unfold_gram(W, rows, Run(0, 1), slack=slack, tol=tol, hard=hard, basis=basis).center[: len(borders)]
    expected = twin.most_stretch(W, center - slack, center + slack)
    # Centers of least errors found twice differ by a thousandth of the slack at the most.
    assert -found.certificate.bound >= expected * (1 - tol)
    assert -found.certificate.objective == pytest.approx(expected, rel=2 * tol)


def test_rows_of_frames_have_length_one_just_for_orthonormal_frames():
    rng = np.random.default_rng(0)
    pieces, *_ = sheet(0)
    V = rng.standard_normal((pieces.layout.n_rows, 5))
    rows = frame_rows(pieces.layout)
    assert rows.shape[0] == int((pieces.layout.sizes * (pieces.layout.sizes + 1) // 2).sum())
    np.testing.assert_allclose(np.square(rows @ pieces.layout.orthonormal(V)).sum(axis=1), 1.0, rtol=1e-12)
    frames = [V[mine].T for _, group in pieces.layout.groups for mine in group]
    grams = np.concatenate([(R.T @ R)[np.tril_indices(R.shape[1])] for R in frames])
    squares = np.square(rows @ V).sum(axis=1)
    squared = [np.square(R).sum(axis=0) for R in frames]
    norms = np.concatenate([np.add.outer(mine, mine)[np.tril_indices(len(mine))] for mine in squared])
    diagonal = np.concatenate([np.equal(*np.tril_indices(R.shape[1])) for R in frames])
    np.testing.assert_allclose(squares, np.where(diagonal, grams, norms / 2 + grams), rtol=1e-12)


def test_one_tessera_stays_as_it_is():
    X = np.random.default_rng(7).uniform(size=(12, 2))
    options = TessellationOptions(2, 2, "flat", 4, 100, 1e-2, 1e-3, None)
    found = align_tesserae(X, neighbors(X, 4), np.zeros(12, dtype=np.int64), options, Run(0, 1))
    assert found.stretched.certificate.gap == 0
    np.testing.assert_allclose(pdist(found.images(2)), pdist(X), rtol=1e-10)


def test_a_cut_graph_is_held_together_by_the_edges_between_its_parts():
    path = sp.diags_array(np.ones(5), offsets=1, shape=(6, 6))
    graph = NeighborGraph.from_sparse(sp.csr_array(path + path.T), symmetric=True)
    ends = np.sort(np.column_stack([graph.rows(), graph.indices]), axis=1)
    cut = graph.with_edges_where(ends[:, 0] != 2)
    assert reconnected_graph(cut, graph).n_edges == graph.n_edges
    np.testing.assert_array_equal(reconnected_graph(graph, graph).indices, graph.indices)
