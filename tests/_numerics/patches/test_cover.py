"""Covers: every point belongs somewhere, weights fade out where a patch ends, and blocks do not matter."""

from dataclasses import replace

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.patches.cover import ListedCover, Membership, VoronoiCover, expanded
from manifoldry._numerics.patches.layout import at_home
from manifoldry._numerics.patches.overlaps import AlignedPatches
from manifoldry.graph._search import NeighborIndex, NeighborRule


def everyone(c):
    """Return neighbor lists of c cells that all border on each other."""
    return np.array([[j for j in range(c) if j != i] for i in range(c)])


def weights_of(members, n_patches):
    dense = np.zeros((members.n_points, n_patches))
    dense[members.points, members.patches] = members.weights
    return dense


def slow_weights(cover, X):
    """Return the weights by the docstring's formula, point by point and cell by cell."""
    found = np.zeros((len(X), cover.n_patches))
    for row, x in enumerate(X):
        squares = [float(((x - center) ** 2).sum()) for center in cover.centers]
        near = int(np.argmin(squares))
        found[row, near] = 1.0
        for i in {int(j) for j in cover.neighbors[near]} - {near}:
            others = {int(j) for j in cover.neighbors[i]} - {i}
            spacing = np.mean([((cover.centers[i] - cover.centers[j]) ** 2).sum() for j in others])
            share = (squares[i] - squares[near]) / (cover.overlap * spacing)
            if share < 1:
                found[row, i] = 1.0 if cover.even else (1 - share) ** 2
    return found


@pytest.mark.parametrize("columns", [2, 12])
@pytest.mark.parametrize("even", [False, True])
def test_weights_are_those_of_the_formula(columns, even):
    rng = np.random.default_rng(columns)
    centers = rng.normal(size=(7, columns))
    # A ring with a chord: short lists are filled up with the cell's own number.
    ring = np.array([[(i - 1) % 7, (i + 1) % 7, i] for i in range(7)])
    ring[0, 2], ring[3, 2] = 3, 0
    cover = VoronoiCover(centers, ring, 0.7, even)
    X = rng.normal(size=(200, columns))
    members = cover.members(X, Run(0, 1))
    expected = slow_weights(cover, X)
    assert (np.count_nonzero(expected, axis=1) > 1).any()
    np.testing.assert_allclose(weights_of(members, 7), expected, atol=1e-12)


def test_every_point_has_a_patch_and_points_come_in_order():
    rng = np.random.default_rng(3)
    cover = VoronoiCover(rng.normal(size=(9, 3)), everyone(9), 0.2)
    members = cover.members(10 * rng.normal(size=(500, 3)), Run(0, 1))
    assert np.array_equal(np.unique(members.points), np.arange(500))
    assert (np.diff(members.points) >= 0).all()
    assert (members.weights > 0).all()
    assert len(np.unique(members.points * 9 + members.patches)) == len(members.points)


@pytest.mark.parametrize("columns", [2, 10])
def test_weights_are_continuous(columns):
    """Along a path the change of the weights falls in proportion to the step, across borders and patches' ends."""
    rng = np.random.default_rng(4)
    cover = VoronoiCover(rng.normal(size=(8, columns)), everyone(8), 0.4)
    ends = rng.normal(size=(2, columns))

    def largest_change(steps):
        along = ends[0] + np.linspace(0, 1, steps)[:, None] * (ends[1] - ends[0])
        return np.abs(np.diff(weights_of(cover.members(along, Run(0, 1)), 8), axis=0)).max()

    coarse, fine = largest_change(2001), largest_change(20_001)
    assert coarse < 0.1
    assert 5 < coarse / fine < 20


@pytest.mark.parametrize("columns", [3, 12])
def test_blocks_threads_and_single_points_give_the_same_members(columns, monkeypatch):
    rng = np.random.default_rng(5)
    cover = VoronoiCover(rng.normal(size=(6, columns)), everyone(6), 0.5)
    X = rng.normal(size=(70, columns))
    whole = weights_of(cover.members(X, Run(0, 1)), 6)
    alone = np.concatenate([weights_of(cover.members(x[None], Run(0, 1)), 6) for x in X])
    np.testing.assert_allclose(alone, whole, atol=1e-12)
    monkeypatch.setattr("manifoldry._numerics.patches.cover.MAX_STACK_ENTRIES", 100)
    for n_jobs in (1, 2):
        np.testing.assert_allclose(weights_of(cover.members(X, Run(0, n_jobs)), 6), whole, atol=1e-12)


def test_growing_only_adds_members():
    rng = np.random.default_rng(6)
    cover = VoronoiCover(rng.normal(size=(6, 2)), everyone(6), 0.2)
    X = rng.normal(size=(300, 2))
    before = weights_of(cover.members(X, Run(0, 1)), 6)
    after = weights_of(replace(cover, overlap=0.4).members(X, Run(0, 1)), 6)
    assert (after >= before).all()
    assert np.count_nonzero(after) > np.count_nonzero(before)


def test_a_lone_cell_takes_everyone():
    cover = VoronoiCover(np.zeros((1, 2)), np.zeros((1, 1), dtype=int), 0.3)
    members = cover.members(np.random.default_rng(7).normal(size=(5, 2)), Run(0, 1))
    assert members.patches.tolist() == [0] * 5
    assert members.weights.tolist() == [1.0] * 5


def membership():
    dense = np.array([[0.5, 0.0, 0.2], [0.0, 1.0, 0.0], [0.3, 0.4, 0.9], [0.6, 0.7, 0.0]])
    points, patches = np.nonzero(dense)
    return Membership(points, patches, dense[points, patches], 4), dense


def test_joined_blocks_are_the_whole():
    whole, dense = membership()
    first, second = Membership.of_matrix(dense[:1]), Membership.of_matrix(dense[1:])
    joined = Membership.joined([first, second])
    assert joined.n_points == 4
    np.testing.assert_array_equal(weights_of(joined, 3), dense)
    np.testing.assert_array_equal(joined.points, whole.points)
    assert Membership.joined([whole]) is whole


def test_heaviest_patch_and_home():
    members, dense = membership()
    np.testing.assert_array_equal(members.heaviest(), dense.argmax(axis=1))
    home, _ = at_home(members, AlignedPatches(np.zeros((3, 0, 0)), np.zeros((3, 0)), np.array([0, 1, 0])))
    np.testing.assert_array_equal(weights_of(home, 3), [[0.5, 0, 0.2], [0, 1.0, 0], [0.3, 0, 0.9], [0, 0.7, 0]])


def line_graph(n):
    rows, columns = np.arange(n - 1), np.arange(1, n)
    i, j = np.r_[rows, columns], np.r_[columns, rows]
    order = np.lexsort((j, i))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))])
    return NeighborGraph(indptr, j[order], np.ones(2 * n - 2), symmetric=True)


def test_expanded_clusters_share_what_lies_within_so_many_steps():
    labels = np.array([0] * 10 + [1] * 10)
    for rings in (1, 2, 3):
        dense = expanded(labels, line_graph(20), rings).toarray()
        np.testing.assert_allclose(dense.sum(axis=1), 1.0, atol=1e-14)
        assert np.flatnonzero((dense > 0).all(axis=1)).tolist() == list(range(10 - rings, 10 + rings))
    once = expanded(labels, line_graph(20), 1).toarray()
    # Of point 9 and its neighbors 8 and 10 one is of the second cluster.
    np.testing.assert_allclose(once[9], [2 / 3, 1 / 3], rtol=1e-14)


def test_a_new_point_joins_the_patches_of_its_nearest_old_one():
    X = np.arange(20.0)[:, None]
    cover = ListedCover(
        expanded(np.repeat([0, 1], 10), line_graph(20), 2), NeighborIndex(X, NeighborRule(1).resolve(20), Run(0, 1))
    )
    old = weights_of(cover.members(X, Run(0, 1)), 2)
    np.testing.assert_array_equal(old, cover.matrix.toarray())
    assert cover.n_patches == 2
    new = weights_of(cover.members(np.array([[-50.0], [9.3], [10.4]]), Run(0, 1)), 2)
    np.testing.assert_array_equal(new, old[[0, 9, 10]])
