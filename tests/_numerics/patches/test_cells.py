"""Voronoi cells: in one piece on the graph, neighbors where the graph says so, the same for any order of the points."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from helpers import knn_graph
from manifoldry._core.run import Run
from manifoldry._numerics.patches.cover import find_cells, nearest_center, padded_lists


def sheets(gap, side=15):
    """Return two parallel sheets of unit size, and on which of them each point is."""
    steps = np.linspace(0, 1, side)
    square = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    heights = np.repeat([0.0, gap], len(square))
    return np.column_stack([np.tile(square, (2, 1)), heights]), heights > 0


@pytest.mark.parametrize("columns", [3, 11])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_nearest_center_is_the_nearest(columns, n_jobs, monkeypatch):
    monkeypatch.setattr("manifoldry._numerics.patches.cover.MAX_STACK_ENTRIES", 60)
    rng = np.random.default_rng(columns)
    X, centers = rng.normal(size=(80, columns)), rng.normal(size=(9, columns))
    expected = np.linalg.norm(X[:, None] - centers, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest_center(X, centers, Run(0, n_jobs)), expected)


@pytest.mark.parametrize("n_cells", [1, 4, 9])
def test_a_cell_that_holds_two_sheets_is_divided(n_cells):
    """The sheets are a third of a unit apart: k-means with few centers does not tell them apart, the graph does."""
    X, upper = sheets(0.3)
    cells = find_cells(X, knn_graph(X, 8), n_cells, 2, Run(0, 1))
    assert len(cells.centers) >= 2
    mixed = sum(len(np.unique(upper[cells.labels == cell])) > 1 for cell in range(len(cells.centers)))
    assert mixed == 0
    on_upper = cells.centers[:, 2] > 0.15
    for cell, others in enumerate(cells.borders):
        assert (on_upper[others] == on_upper[cell]).all()


@pytest.mark.parametrize("seed", range(3))
def test_cells_are_connected_and_labels_are_nearest_centers(seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(1.5 * np.pi, 4.5 * np.pi, 800)
    X = np.column_stack([angle * np.cos(angle), angle * np.sin(angle), rng.uniform(0, 20, 800)])
    graph = knn_graph(X, 8)
    cells = find_cells(X, graph, 10, 2, Run(seed, 1))
    np.testing.assert_array_equal(cells.labels, np.linalg.norm(X[:, None] - cells.centers, axis=2).argmin(axis=1))
    assert np.array_equal(np.unique(cells.labels), np.arange(len(cells.centers)))
    for cell in range(len(cells.centers)):
        mine = np.flatnonzero(cells.labels == cell)
        _, pieces = connected_components(graph.subset(mine).to_sparse(), directed=False)
        # But for corners cut off by the border, a twentieth of the mean cell each.
        assert np.bincount(pieces).max() >= 0.8 * len(mine)


def test_borders_are_the_cells_that_edges_lead_to():
    X = np.random.default_rng(4).uniform(size=(600, 2))
    graph = knn_graph(X, 8)
    cells = find_cells(X, graph, 12, 2, Run(0, 1))
    expected = {cell: {cell} for cell in range(len(cells.centers))}
    for i, j in zip(graph.rows().tolist(), graph.indices.tolist(), strict=True):
        expected[int(cells.labels[i])].add(int(cells.labels[j]))
    for cell, others in enumerate(cells.borders):
        # Edges between corners cut off do not count, so borders are among those that edges lead to.
        assert set(others.tolist()) | {cell} <= expected[cell]
        for other in others:
            assert cell == other or cell in cells.borders[other]
    assert (cells.borders != np.arange(len(cells.centers))[:, None]).any(axis=1).all()


def test_the_order_of_points_and_a_turn_of_space_do_not_matter():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    order = rng.permutation(300)
    cells = find_cells(X, knn_graph(X, 8), 8, 2, Run(0, 1))
    moved = find_cells(X[order] @ turn, knn_graph(X[order] @ turn, 8), 8, 2, Run(0, 1))
    a, b = cells.centers @ turn, moved.centers
    np.testing.assert_allclose(a[np.lexsort(a.T)], b[np.lexsort(b.T)], atol=1e-9)


def test_dense_regions_do_not_attract_more_cells_than_their_area():
    """Half of the square holds nine points in ten: by area its cells are half of all, by number nine in ten."""
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.uniform([0, 0], [0.5, 1], (1800, 2)), rng.uniform([0.5, 0], [1, 1], (200, 2))])
    cells = find_cells(X, knn_graph(X, 8), 40, 2, Run(0, 1))
    share = float((cells.centers[:, 0] < 0.5).mean())
    assert share == pytest.approx(0.5, abs=0.2)


def test_padded_lists_hold_every_tie():
    dense = np.random.default_rng(7).random((7, 7)) < 0.3
    np.fill_diagonal(dense, False)
    lists = padded_lists(sp.csr_array(dense.astype(float)))
    for row, listed in enumerate(lists):
        assert set(listed.tolist()) - {row} == set(np.flatnonzero(dense[row]).tolist())
    assert padded_lists(sp.csr_array((3, 3))).tolist() == [[0], [1], [2]]
