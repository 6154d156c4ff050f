"""Loops: persistence against a slow reduction of the boundary matrix, and known shapes."""

import itertools

import numpy as np
import pytest

from helpers import distances_by_differences, knn_graph
from manifoldry.evaluation.diagnosis._shape import landmarks, loops


def loops_by_boundaries(D):
    """Return births and deaths in dimension one by reducing the boundary matrix of all triangles, column by column."""
    n = len(D)
    edges = sorted(itertools.combinations(range(n), 2), key=lambda e: (D[e], e))
    place = {edge: number for number, edge in enumerate(edges)}
    length = [D[edge] for edge in edges]
    triangles = [
        tuple(sorted(place[e] for e in itertools.combinations(t, 2))) for t in itertools.combinations(range(n), 3)
    ]
    triangles.sort(key=lambda t: t[-1])
    pivots, pairs = {}, []
    for triangle in triangles:
        column = set(triangle)
        while column and max(column) in pivots:
            column ^= pivots[max(column)]
        if column:
            low = max(column)
            pivots[low] = column
            if length[triangle[-1]] > length[low]:
                pairs.append((length[low], length[triangle[-1]]))
    return sorted(pairs)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_loops_are_those_of_the_reduced_boundary_matrix(seed, columns):
    D = distances_by_differences(np.random.default_rng(seed).normal(size=(18, columns)))
    found = sorted(map(tuple, loops(D).tolist()))
    assert np.allclose(found, loops_by_boundaries(D), rtol=1e-12) if found else loops_by_boundaries(D) == []


def test_equal_lengths_are_taken_in_some_order_and_give_the_same():
    grid = np.array([(x, y) for x in range(4) for y in range(4) if (x, y) not in ((1, 1), (2, 2))], dtype=float)
    D = distances_by_differences(grid)
    assert sorted(map(tuple, loops(D).tolist())) == loops_by_boundaries(D)


@pytest.mark.parametrize("n", [12, 30])
def test_a_regular_polygon_has_one_loop_that_dies_at_the_third_of_its_circle(n):
    # The Rips complex of a circle is a circle up to the side of the inscribed triangle (n is a multiple of 3).
    angles = 2 * np.pi * np.arange(n) / n
    D = distances_by_differences(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert loops(D) == pytest.approx(np.array([[2 * np.sin(np.pi / n), np.sqrt(3)]]))


def test_a_loop_that_outlives_the_longest_edge_dies_at_infinity():
    angles = 2 * np.pi * np.arange(12) / 12
    D = distances_by_differences(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert loops(D, most=1.0).tolist() == [[pytest.approx(2 * np.sin(np.pi / 12)), np.inf]]


def test_masks_grow_with_the_loops():
    # A complete bipartite graph of unit lengths has (m - 1)^2 loops, more than one word of 64 tells apart.
    side = np.repeat([0, 1], 12)
    D = np.where(side[:, None] != side, 1.0, 2.0) * (1 - np.eye(24))
    found = loops(D)
    assert found.tolist() == [[1.0, 2.0]] * 11**2


def test_landmarks_are_each_the_farthest_from_those_before():
    X = np.random.default_rng(0).uniform(size=(80, 2))
    chosen, away = landmarks(knn_graph(X, 8), 20)
    assert len(set(chosen.tolist())) == 20
    for count in range(1, 20):
        near = away[:count].min(axis=0)
        assert near[chosen[count]] == near.max()


def test_landmarks_end_when_all_points_are_taken():
    X = np.random.default_rng(0).uniform(size=(9, 2))
    assert len(landmarks(knn_graph(X, 8), 50)[0]) == 9
