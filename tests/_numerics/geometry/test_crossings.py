"""Edges that jump between sheets, against graphs whose edges are known."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry import datasets
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry.edges import tangent_planes, without_off_surface_edges
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph


def edges(graph):
    return set(zip(graph.rows().tolist(), graph.indices.tolist(), strict=True))


def of_pairs(X, i, j):
    lengths = np.linalg.norm(X[i] - X[j], axis=1)
    n = len(X)
    half = sp.csr_array((lengths, (i, j)), shape=(n, n))
    return NeighborGraph.from_sparse(half + half.T, symmetric=True)


def hairpin(extra):
    """Return a strip folded over once, its grid graph, and one with ``extra`` edges between its two sheets."""
    along, across = (a.ravel() for a in np.meshgrid(np.arange(40.0), np.arange(4.0), indexing="ij"))
    turn = np.clip((along - 17) / 5 * np.pi, 0, np.pi)
    x = np.where(along <= 17, along, np.where(along < 22, 17 + 1.6 * np.sin(turn), 17 - (along - 22)))
    X = np.column_stack([x, across, 1.6 * (1 - np.cos(turn))])
    number = np.arange(160).reshape(40, 4)
    pairs = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:])]
    i, j = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    other = 39 - np.arange(40)
    rows = np.arange(3, 3 + extra)
    more_i, more_j = number[rows, 1], number[other[rows], 1]
    return X, of_pairs(X, i, j), of_pairs(X, np.r_[i, more_i], np.r_[j, more_j])


@pytest.mark.parametrize("extra", [1, 2, 6])
def test_edges_between_two_sheets_are_cut_and_no_others(extra):
    X, true, crossed = hairpin(extra)
    assert len(edges(crossed)) == len(edges(true)) + 2 * extra
    assert edges(without_off_surface_edges(X, crossed, 2, Run(0, 1))) == edges(true)


def test_the_only_way_between_two_parts_is_kept():
    X, _, crossed = hairpin(1)
    ends = np.column_stack([crossed.rows(), crossed.indices])
    bent = (ends // 4 >= 17).any(axis=1) & (ends // 4 <= 22).any(axis=1)
    parted = crossed.with_edges_where(~bent)
    assert edges(without_off_surface_edges(X, parted, 2, Run(0, 1))) == edges(parted)


def test_points_that_fill_more_dimensions_lose_no_edge():
    X = np.random.default_rng(0).normal(size=(200, 6))
    graph = symmetrize(neighbor_graph(X, NeighborRule(8).resolve(200), Run(0, 1))[0], "or")
    assert without_off_surface_edges(X, graph, 2, Run(0, 1)) is graph


def test_planes_are_those_of_a_plane():
    rng = np.random.default_rng(1)
    frame = np.linalg.qr(rng.standard_normal((5, 5)))[0][:, :2]
    X = rng.uniform(size=(50, 2)) @ frame.T
    graph = symmetrize(neighbor_graph(X, NeighborRule(7).resolve(50), Run(0, 1))[0], "or")
    planes = tangent_planes(X, graph, 2)
    np.testing.assert_allclose(planes @ planes.transpose(0, 2, 1), np.tile(frame @ frame.T, (50, 1, 1)), atol=1e-9)


def test_the_unit_and_the_origin_do_not_matter():
    X = datasets.swiss_roll(300, random_state=3).X
    graph = symmetrize(neighbor_graph(X, NeighborRule(10).resolve(300), Run(0, 1))[0], "or")
    there = NeighborGraph(graph.indptr, graph.indices, 2.0**20 * graph.lengths, symmetric=True)
    found = without_off_surface_edges(X, graph, 2, Run(0, 1))
    assert edges(found) == edges(without_off_surface_edges(2.0**20 * X, there, 2, Run(0, 1)))
    assert found.n_edges < graph.n_edges
