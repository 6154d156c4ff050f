"""Rigid tiles, the distances held between them and those stretched, against loops and an interior-point solver."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist

from manifoldry.neighbors.graph import symmetrize
from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.patches.tesserae import (
    border_pairs,
    far_pairs,
    geodesic_start,
    lay_tesserae,
    tessellate,
    whole_tesserae,
)
from manifoldry.run import Run
from manifoldry.solve.semidefinite import Bands, StretchOptions
from manifoldry.values import NeighborGraph


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
    found = whole_tesserae(labels, graph, 2)
    assert found.tolist() == [0] * 5 + [1] * 6


def test_every_tessera_is_connected():
    X = np.random.default_rng(4).uniform(size=(200, 2))
    graph, labels = neighbors(X, 6), np.random.default_rng(5).integers(4, size=200)
    found = whole_tesserae(labels, graph, 3)
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
    pieces, residuals = lay_tesserae(X, labels, 2, "flat", Run(0, 1))
    V = pieces.layout.orthonormal(rng.standard_normal((pieces.layout.n_rows, 3)))
    Y = pieces.images @ V
    for label in range(4):
        np.testing.assert_allclose(pdist(Y[labels == label]), pdist(X[labels == label]), rtol=1e-10)
    assert residuals.max() < 1e-7


def most_stretch(form, bands, sizes):
    """Solve (3.18) for the Gram matrix of frames and shifts by an interior-point method; the last shift is zero."""
    clarabel = pytest.importorskip("clarabel")
    form, differences, n = form[:-1, :-1], bands.differences.toarray()[:, :-1], len(form) - 1
    column, row = np.tril_indices(n)
    factor = np.where(row == column, 1.0, np.sqrt(2))
    block = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.arange(n) + len(sizes)])
    fixed = np.flatnonzero((block[row] == block[column]) & (column < sum(sizes)))
    frames = sp.csc_matrix((np.ones(len(fixed)), (np.arange(len(fixed)), fixed)), shape=(len(fixed), len(row)))
    squares = factor * differences[:, row] * differences[:, column]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(
        sp.csc_matrix((len(row), len(row))),
        -factor * form[row, column],
        sp.csc_matrix(sp.vstack([frames, squares, -squares, -sp.eye(len(row))])),
        np.concatenate([(row == column)[fixed].astype(float), bands.upper, -bands.lower, np.zeros(len(row))]),
        [
            clarabel.ZeroConeT(len(fixed)),
            clarabel.NonnegativeConeT(2 * len(squares)),
            clarabel.PSDTriangleConeT(n),
        ],
        settings,
    ).solve()
    assert "Solved" in str(solution.status)
    return -solution.obj_val


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_interior_point_solver_stretches_no_further(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(24, 2)) * [4.0, 1.0]
    graph, labels = neighbors(X, 5), strips(X, 4)
    pieces, _ = lay_tesserae(X, labels, 2, "flat", Run(0, 1))
    borders, far = border_pairs(X, graph, labels, 2), far_pairs(X, graph, labels, 10_000, Run(0, 1))
    options = StretchOptions(1e-7, 1e-2, 8)
    found = tessellate(pieces, borders, far, geodesic_start(pieces, graph, 2, Run(0, 1)), options, Run(0, 1))
    Y = pieces.images @ found.V
    ratios = (np.linalg.norm(Y[far.i] - Y[far.j], axis=1) / far.lengths) ** 2
    assert -found.certificate.objective == pytest.approx(ratios.mean(), rel=1e-12)
    apart = far.matrix(pieces.images).toarray()
    ones = np.ones(len(borders))
    held = Bands(borders.matrix(pieces.images), ones - 1e-2, ones + 1e-2)
    expected = most_stretch(apart.T @ apart / len(far), held, pieces.layout.sizes)
    # Clarabel stops at 1e-8; the barrier at 1e-7 of the stretch times the few digits that small problems lose.
    assert -found.certificate.objective == pytest.approx(expected, rel=1e-5)
    assert -found.certificate.bound >= expected * (1 - 1e-6)


def test_one_tessera_stays_as_it_is():
    X = np.random.default_rng(7).uniform(size=(12, 2))
    graph, labels = neighbors(X, 4), np.zeros(12, dtype=np.int64)
    pieces, _ = lay_tesserae(X, labels, 2, "flat", Run(0, 1))
    borders, far = border_pairs(X, graph, labels, 4), far_pairs(X, graph, labels, 100, Run(0, 1))
    start = geodesic_start(pieces, graph, 2, Run(0, 1))
    found = tessellate(pieces, borders, far, start, StretchOptions(), Run(0, 1))
    assert found.certificate.gap == 0
    np.testing.assert_allclose(pdist(pieces.images @ found.V), pdist(X), rtol=1e-10)
