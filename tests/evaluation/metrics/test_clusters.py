"""Measures of clusterings against values worked out by hand and slow twins."""

from math import log

import numpy as np
import pytest
from scipy.sparse import coo_array

from manifoldry._core.values import NeighborGraph
from manifoldry.evaluation.metrics import nmi, nonlocalized, purity, subspace_error

EPS = np.finfo(float).eps


def random_partitions(seed, n=60):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, size=n), rng.integers(0, 3, size=n)


def test_purity_by_hand():
    labels = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    classes = list("aaabbbcccc")
    assert purity(labels, classes) == pytest.approx((3 + 2 + 3) / 10, rel=EPS)


def test_nmi_by_hand():
    # two clusters of two among classes of three and one: the joint shares are 1/2, 0; 1/4, 1/4
    information = 0.5 * log(0.5 / (0.5 * 0.75)) + 0.25 * log(0.25 / (0.5 * 0.75)) + 0.25 * log(0.25 / (0.5 * 0.25))
    entropies = log(2) + (-0.75 * log(0.75) - 0.25 * log(0.25))
    # a difference of three sums of a few terms below 1, each rounded to eps
    assert nmi([0, 0, 1, 1], ["a", "a", "a", "b"]) == pytest.approx(2 * information / entropies, abs=16 * EPS)


@pytest.mark.parametrize("seed", range(5))
def test_partitions_against_loops_over_pairs_of_sets(seed):
    labels, classes = random_partitions(seed)
    n = len(labels)
    clusters = [set(np.flatnonzero(labels == name)) for name in np.unique(labels)]
    groups = [set(np.flatnonzero(classes == name)) for name in np.unique(classes)]
    assert purity(labels, classes) == pytest.approx(sum(max(len(c & g) for g in groups) for c in clusters) / n)
    information = sum(
        len(c & g) / n * log(n * len(c & g) / (len(c) * len(g))) for c in clusters for g in groups if c & g
    )
    entropies = -sum(len(part) / n * log(len(part) / n) for part in clusters + groups)
    # some thirty terms below 1, each rounded to eps, on both sides
    assert nmi(labels, classes) == pytest.approx(2 * information / entropies, abs=100 * EPS)


def test_names_of_clusters_do_not_matter_and_the_same_partition_scores_one():
    labels, classes = random_partitions(7)
    renamed = np.array(["x", "q", "m", "b", "a"])[labels]
    assert purity(renamed, classes) == purity(labels, classes)
    assert purity(renamed, labels) == 1.0
    assert nmi(renamed, labels) == pytest.approx(1.0, abs=16 * EPS)
    assert nmi(labels, classes) == pytest.approx(nmi(classes, labels), abs=16 * EPS)


def test_independent_partitions_share_no_information():
    labels, classes = np.repeat([0, 1, 2], 4), np.tile([0, 1], 6)
    assert nmi(labels, classes) == pytest.approx(0.0, abs=16 * EPS)
    assert purity(labels, classes) == 0.5
    assert nmi(np.zeros(5), [0, 1, 0, 1, 2]) == 0.0
    assert nmi(np.zeros(5), np.ones(5)) == 1.0


def test_flat_error_by_hand():
    # the corners of a rectangle 2 by 1: its long direction is kept, half of the short side is lost four times
    corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    assert subspace_error(corners, np.zeros(4), 1) == pytest.approx(4 * 0.25, rel=16 * EPS)
    assert subspace_error(corners, np.zeros(4), 1, per_point=True) == pytest.approx(0.25, rel=16 * EPS)
    assert subspace_error(corners, np.zeros(4), 0) == pytest.approx(4 * 1.25, rel=16 * EPS)
    assert subspace_error(corners, np.zeros(4), 2) == 0.0
    assert subspace_error(corners, [0, 0, 1, 1], 0) == pytest.approx(4 * 1.0, rel=16 * EPS)
    assert subspace_error(corners, range(4), 0) == 0.0


@pytest.mark.parametrize(("n", "d"), [(50, 4), (24, 40)])
def test_flat_error_against_projections_on_principal_directions(n, d):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) * np.linspace(3.0, 0.5, d)
    labels = rng.integers(0, 3, size=n)
    expected = 0.0
    for name in range(3):
        members = X[labels == name]
        scatter = np.cov(members.T, bias=True)
        directions = np.linalg.eigh(scatter)[1][:, -2:]
        centered = members - members.mean(axis=0)
        expected += sum(np.sum((row - directions @ (directions.T @ row)) ** 2) for row in centered)
    # d n products rounded to eps each way
    assert subspace_error(X, labels, 2) == pytest.approx(expected, rel=n * d * EPS)


@pytest.mark.parametrize("seed", range(4))
def test_flat_error_never_rises_with_the_dimension_or_with_finer_clusters(seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(40, 5)), rng.integers(0, 2, size=40)
    errors = [subspace_error(X, labels, r) for r in range(7)]
    assert np.all(np.diff(errors[:6]) < 0)
    assert errors[5:] == [0.0, 0.0]
    assert subspace_error(X, 2 * labels + rng.integers(0, 2, size=40), 1) <= errors[1]


def test_nonlocalized_on_a_path():
    path = coo_array((np.ones(5), (np.arange(5), np.arange(1, 6))), shape=(6, 6))
    assert nonlocalized([0, 0, 1, 1, 0, 2], path).tolist() == [0]
    assert nonlocalized([5, 3, 5, 3, 5, 3], path).tolist() == [3, 5]
    assert nonlocalized(["a", "a", "a", "b", "b", "b"], path).tolist() == []
    assert nonlocalized(np.zeros(6), path).tolist() == []


def test_pairs_of_length_zero_connect_and_direction_does_not_matter():
    lists = [[1], [], [1]]  # 0 -> 1 <- 2, all duplicates
    indptr = np.cumsum([0, *map(len, lists)])
    graph = NeighborGraph(indptr, np.concatenate(lists).astype(int), np.zeros(2))
    assert nonlocalized([4, 4, 4], graph).tolist() == []
    assert nonlocalized([4, 2, 4], graph).tolist() == [4]


@pytest.mark.parametrize("seed", range(5))
def test_nonlocalized_against_breadth_first_search(seed):
    rng = np.random.default_rng(seed)
    n = 40
    table = rng.random((n, n)) < 0.06
    np.fill_diagonal(table, False)
    labels = rng.integers(0, 6, size=n)
    either = table | table.T
    split = []
    for name in np.unique(labels):
        members = set(np.flatnonzero(labels == name).tolist())
        reached = frontier = {min(members)}
        while frontier:
            frontier = {j for i in frontier for j in members if either[i, j]} - reached
            reached = reached | frontier
        if reached != members:
            split.append(name)
    assert 0 < len(split)
    assert nonlocalized(labels, coo_array(table.astype(float))).tolist() == split


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: purity([0, 1], [0, 1, 1]), "one entry for each of classes; got 2 for 3"),
        (lambda: nmi([], []), "n > 0 labels"),
        (lambda: purity([[0, 1]], [0, 1]), r"got shape \(1, 2\)"),
        (lambda: subspace_error(np.eye(3), [0, 1], 1), "points of X; got 2 for 3"),
        (lambda: subspace_error(np.eye(3), [0, 1, 1], -1), "at least 0; got -1"),
        (lambda: subspace_error([[np.nan]], [0], 1), "must be finite"),
        (lambda: nonlocalized([0], coo_array((2, 2))), "points of the graph; got 1 for 2"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
