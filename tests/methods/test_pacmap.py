"""PaCMAP and LocalMAP against their definitions: pairs, gradients, phases, and new points."""

from itertools import pairwise

import numpy as np
import pytest

from manifoldry import LocalMAP, PaCMAP, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.extension.near_pairs import near_pairs
from manifoldry.methods.neighbor import _pacmap as pacmap
from manifoldry.methods.neighbor._pacmap import PairDescent, Pairs, both_ways, mid_near_pairs


def pairs_of(n, n_jobs=1):
    rng = np.random.default_rng(0)
    near = np.array([rng.choice(np.delete(np.arange(n), i), 4, replace=False) for i in range(n)])
    mid = np.array([rng.choice(np.delete(np.arange(n), i), 2, replace=False) for i in range(n)])
    return Pairs(near, mid.astype(np.int32), 5, Run(0, n_jobs))


def cost(Y, pairs, weights):
    """The cost of all pairs by its definition; `_fixed` lists every pair from both ends."""
    total = 0.0
    for (starts, ends), weight, kind in zip(zip(*pairs.lists, strict=True), weights, "nmf", strict=True):
        rows = np.repeat(np.arange(len(Y)), np.diff(starts))
        d = 1 + ((Y[rows] - Y[ends]) ** 2).sum(axis=1)
        total += weight * {"n": d / (10 + d), "m": d / (10_000 + d), "f": 1 / (1 + d)}[kind].sum() / 2
    return total


def test_pairs_are_listed_by_both_ends():
    partners = np.array([[1, 2], [0, 3], [3, 1], [1, 1]], dtype=np.int32)
    starts, ends = both_ways(partners)
    expected = [[] for _ in partners]
    for i, row in enumerate(partners):
        for j in row:
            expected[i].append(j)
            expected[j].append(i)
    assert [sorted(ends[lo:hi]) for lo, hi in pairwise(starts)] == [sorted(e) for e in expected]
    starts, ends = both_ways(partners[:, :0])
    assert starts.tolist() == [0] * 5
    assert len(ends) == 0


def test_near_pairs_have_the_least_scaled_distances():
    X = np.random.default_rng(1).normal(size=(40, 3))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    neighbors = np.argsort(D, axis=1)[:, 1:21]
    distances = np.take_along_axis(D, neighbors, 1)
    scales = np.array([np.sort(row)[4:7].mean() for row in D])  # the first is the point itself
    scaled = D**2 / np.outer(scales, scales)
    expected = [sorted(neighbors[i], key=lambda j, i=i: scaled[i, j])[:6] for i in range(40)]
    points, lengths = near_pairs(neighbors, distances, 6)
    np.testing.assert_array_equal(points, expected)
    np.testing.assert_allclose(lengths, np.take_along_axis(scaled, np.array(expected), 1), rtol=1e-12)


def test_a_mid_near_point_is_the_second_of_six_random_ones(monkeypatch):
    X, order = np.random.default_rng(2).normal(size=(50, 3)), np.random.default_rng(3).permutation(50)
    seen = []
    listed = pacmap.distances_to_listed

    def watched(points, metric, rows, columns, *rest):
        seen.append((rows, columns))
        return listed(points, metric, rows, columns, *rest)

    monkeypatch.setattr(pacmap, "distances_to_listed", watched)
    pairs = mid_near_pairs(X, "euclidean", None, order, 3, Run(0, 1))
    for m, (rows, columns) in enumerate(seen):
        assert columns.shape == (50, 6)
        assert not (columns == rows[:, None]).any()
        distances = np.linalg.norm(X[columns] - X[rows][:, None], axis=2)
        np.testing.assert_array_equal(order[pairs[:, m]], columns[np.arange(50), np.argsort(distances, axis=1)[:, 1]])


@pytest.mark.parametrize("n", [11, 60])
def test_further_points_are_distinct_and_not_near(n):
    pairs = pairs_of(n)
    for i, (near, far) in enumerate(zip(pairs.near, pairs._far, strict=True)):
        assert len({i, *near, *far}) == 1 + 4 + 5
    chosen = set()
    for number in range(200):  # each of at least six points misses 200 draws of five with a chance below 1e-6
        pairs.redraw(np.zeros((n, 1), dtype=np.float32), 0.0, number)
        chosen |= set(pairs._far[0])
    assert chosen == set(range(n)) - {0, *pairs.near[0]}


def test_further_points_within_a_radius_are_that_near_in_the_layout():
    Y = np.random.default_rng(4).uniform(size=(300, 2)).astype(np.float32)
    pairs = pairs_of(300)
    before = pairs._far.copy()
    pairs.redraw(Y, 0.4, 1)
    distances = np.linalg.norm(Y[pairs._far] - Y[:, None], axis=2)
    np.testing.assert_array_less(distances, 0.4 * (1 + 1e-6))
    pairs.redraw(Y, 1e-6, 2)  # no point is that near: all are kept
    assert (np.linalg.norm(Y[pairs._far] - Y[:, None], axis=2) > 1e-6).all()
    assert not (before == pairs._far).all()


@pytest.mark.parametrize("d", [2, 3])
def test_a_step_follows_the_gradient_of_the_cost(d):
    """The first step of Adam is the learning rate times the sign of the gradient; its first moment is a tenth of it."""
    pairs = pairs_of(40)
    Y = np.random.default_rng(5).normal(size=(40, d)).astype(np.float32)
    weights = np.array([[2.0, 1000.0, 1.0]])
    descent = PairDescent(pairs, weights, 0, 1e-3, Run(0, 1))
    before = Y.astype(np.float64)
    assert descent.objective(Y) == pytest.approx(cost(before, pairs, weights[0]) / 40, rel=1e-6)  # single precision
    descent.advance(Y, 0, 1)
    h, gradient = 1e-4, np.zeros((40, d))
    for i in range(40):
        for c in range(d):
            step = np.zeros((40, d))
            step[i, c] = h
            gradient[i, c] = (cost(before + step, pairs, weights[0]) - cost(before - step, pairs, weights[0])) / (2 * h)
    first, _ = pairs.moments(Y)
    # Central differences err by h^2 times a third derivative, single precision by 1e-7 of some ten terms.
    np.testing.assert_allclose(first / 0.1, gradient, atol=1e-5 * np.abs(gradient).max())
    np.testing.assert_allclose(Y - before, -1e-3 * np.sign(gradient), atol=1e-3 * 1e-2)


def test_steps_are_those_of_adam():
    """Ten steps against Adam by its definition, with the gradient that the first moment shows."""
    pairs, weights = pairs_of(40), np.tile([3.0, 3.0, 1.0], (10, 1))
    Y = np.random.default_rng(6).normal(size=(40, 2)).astype(np.float32)
    at_once, descent = Y.copy(), PairDescent(pairs, weights, 0, 0.1, Run(0, 1))
    assert descent.advance(at_once, 0, 10) == 10
    m, v, slow = np.zeros((40, 2)), np.zeros((40, 2)), Y.astype(np.float64)
    for t in range(1, 11):
        fresh = pairs_of(40)
        PairDescent(fresh, weights, 0, 0.1, Run(0, 1)).advance(slow.astype(np.float32), 0, 1)
        g = fresh.moments(Y)[0] / 0.1
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        slow -= 0.1 * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.999**t))
    # Adam divides by the gradient's size, so a coordinate whose gradient nearly vanishes magnifies its rounding.
    np.testing.assert_allclose(at_once, slow, atol=2e-4)


def test_the_weights_of_the_phases_are_those_of_the_paper():
    model = PaCMAP()
    phases = model._phases(pairs_of(40), Run(0, 1))
    assert [(phase.name, phase.max_iter) for phase in phases] == [("global", 100), ("middle", 100), ("local", 250)]
    ends = [phase.optimizer.weights[[0, -1]].tolist() for phase in phases]
    assert ends[0] == [[2, 1000, 1], [2, pytest.approx(0.01 * 1000 + 0.99 * 3), 1]]
    assert ends[1:] == [[[3, 3, 1]] * 2, [[1, 0, 1]] * 2]
    assert [phase.optimizer.first_step for phase in phases] == [0, 100, 200]


def test_threads_do_not_change_the_result():
    X = datasets.gaussian_clusters(400, random_state=0).X
    for cls in (PaCMAP, LocalMAP):
        one = cls(max_iter=100, n_jobs=1).fit(X).embedding_
        for n_jobs in (2, 3, 7):
            np.testing.assert_array_equal(cls(max_iter=100, n_jobs=n_jobs).fit(X).embedding_, one)


def test_localmap_differs_from_pacmap_only_in_the_last_phase():
    X = datasets.gaussian_clusters(100, random_state=0).X
    phases = [cls()._phases(pairs_of(40), Run(0, 1)) for cls in (PaCMAP, LocalMAP)]
    assert [[phase.optimizer.radius for phase in each] for each in phases] == [[0, 0, 0], [0, 0, 10]]
    for one, other in zip(*phases, strict=True):
        np.testing.assert_array_equal(one.optimizer.weights, other.optimizer.weights)
    assert not np.array_equal(PaCMAP().fit(X).embedding_, LocalMAP().fit(X).embedding_)


def test_a_new_point_lies_where_its_cost_is_least_nearby():
    data = datasets.gaussian_clusters(300, random_state=0).X
    model = PaCMAP(n_neighbors=8).fit(data[:250])
    Y = model.transform(data[250:]).astype(np.float64)
    neighbors, _ = model._extension.index.query(data[250:], Run(0, 1))
    targets = model.embedding_[neighbors]
    d = 1 + ((targets - Y[:, None]) ** 2).sum(axis=2, keepdims=True)
    slope = (20 / (10 + d) ** 2 * (Y[:, None] - targets)).sum(axis=1)
    start = targets.mean(axis=1)
    at_start = 1 + ((targets - start[:, None]) ** 2).sum(axis=2)
    assert ((d[..., 0] / (10 + d[..., 0])).sum(axis=1) <= (at_start / (10 + at_start)).sum(axis=1) + 1e-9).all()
    assert np.abs(slope).max() < 1e-2  # of at most 8 times 0.37, the largest slope of a pair
    np.testing.assert_array_equal(model.transform(data[:5]), model.embedding_[:5])


@pytest.mark.parametrize("cls", [PaCMAP, LocalMAP])
def test_distant_clusters_stay_separate(cls):
    labels = np.repeat(np.arange(5), 60)
    X = 30 * np.eye(5)[labels] + np.random.default_rng(7).normal(
        size=(300, 5)
    )  # 42 standard deviations between any two
    Y = cls().fit(X).embedding_
    D = np.linalg.norm(Y[:, None] - Y, axis=2) + np.where(np.eye(300), np.inf, 0)
    np.testing.assert_array_equal(labels[D.argmin(axis=1)], labels)
