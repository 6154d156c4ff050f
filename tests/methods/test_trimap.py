"""TriMap against its definition: triplets, weights, gradients, steps, and new points."""

import numpy as np
import pytest

from manifoldry import PaCMAP, TriMap, datasets
from manifoldry._core.run import Run
from manifoldry.methods.neighbor._trimap import Triplets, farther_points, tempered, triplet_descent


def triplets_of(n, seed=0):
    """Near triplets of four points with three farther ones each, and two random triplets, with any weights."""
    rng = np.random.default_rng(seed)
    others = np.array([rng.permutation(np.delete(np.arange(n), i))[:16] for i in range(n)], dtype=np.int32)
    pairs = np.array([rng.permutation(np.delete(np.arange(n), i))[:4] for i in range(n)], dtype=np.int32)
    weights = (rng.uniform(size=(n, m, q)).astype(np.float32) for m, q in ((4, 3), (2, 1)))
    lists = others.reshape(n, 4, 4), pairs.reshape(n, 2, 2)
    return [Triplets(*each) for each in zip(lists, weights, strict=True)]


def cost(Y, kinds):
    """The cost of all triplets, one by one."""
    total = 0.0
    for triplets in kinds:
        for (i, a, b), weight in np.ndenumerate(triplets.weights):
            j, k = triplets.partners[i, a, 0], triplets.partners[i, a, b + 1]
            near, far = (1 + ((Y[i] - Y[other]) ** 2).sum() for other in (j, k))
            total += weight * near / (near + far)
    return total


def gradient(Y, kinds):
    """The gradient of the cost, from central differences."""
    h, slopes = 1e-4, np.zeros_like(Y)
    for place in np.ndindex(*Y.shape):
        step = np.zeros_like(Y)
        step[place] = h
        slopes[place] = (cost(Y + step, kinds) - cost(Y - step, kinds)) / (2 * h)
    return slopes


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_first_step_is_half_the_gradient_times_a_gain(d):
    """A gain is at first 1 and, as there is no velocity that could point downhill, grows to 1.2."""
    kinds = triplets_of(20)
    Y = np.random.default_rng(1).normal(size=(20, d)).astype(np.float32)
    before = Y.astype(np.float64)
    optimizer = triplet_descent(*kinds, 0.1, 400, Run(0, 1)).optimizer
    assert optimizer.objective(Y) == pytest.approx(cost(before, kinds) / 20, rel=1e-6)  # single precision
    assert optimizer.advance(Y, 0, 1) == 1
    slopes = gradient(before, kinds)
    # Central differences err by h^2 times a third derivative, single precision by 1e-7 of some ten terms.
    np.testing.assert_allclose(Y - before, -0.1 * 1.2 * slopes / 2, atol=1e-5 * np.abs(slopes).max())


def test_steps_follow_the_gradient_ahead_with_momentum_and_gains():
    """Six steps, four of them with the first momentum, against their definition."""
    kinds = triplets_of(20)
    Y = np.random.default_rng(2).normal(size=(20, 2)).astype(np.float32)
    slow, velocity, gains = Y.astype(np.float64), np.zeros((20, 2)), np.ones((20, 2))
    descent = triplet_descent(*kinds, 0.1, 6, Run(0, 1))
    descent.optimizer.advance(Y, 0, 6)
    for momentum in [0.5] * 4 + [0.8] * 2:
        force = gradient(slow + momentum * velocity, kinds) / 2
        gains = np.where(np.sign(velocity) != np.sign(force), gains + 0.2, np.maximum(0.8 * gains, 0.01))
        velocity = momentum * velocity - 0.1 * gains * force
        slow += velocity
    np.testing.assert_allclose(Y, slow, atol=1e-5 * np.abs(slow).max())  # six steps of the accuracy of one


def test_steps_in_one_call_are_those_of_many():
    kinds = triplets_of(600)  # three blocks of triplets
    start = np.random.default_rng(3).normal(size=(600, 2)).astype(np.float32)
    at_once = start.copy()
    triplet_descent(*kinds, 0.1, 20, Run(0, 1)).optimizer.advance(at_once, 0, 20)
    for n_jobs in (1, 2, 5):
        Y, optimizer = start.copy(), triplet_descent(*kinds, 0.1, 20, Run(0, n_jobs)).optimizer
        for step in range(0, 20, 4):
            assert optimizer.advance(Y, step, 4) == 4
        np.testing.assert_array_equal(Y, at_once)


@pytest.mark.parametrize("n", [7, 30])
def test_farther_points_are_all_but_the_nearer_ones(n):
    near = np.array([np.random.default_rng(i).permutation(np.delete(np.arange(n), i))[:5] for i in range(n)])
    farther = farther_points(near, 500, Run(0, 1))
    for i in range(n):
        for a in range(5):  # each of at most 28 points misses 500 draws with a chance below 1e-7
            assert set(farther[i, a]) == set(range(n)) - {i, *near[i, : a + 1]}


def test_triplets_and_weights_are_those_of_the_definition():
    X = np.random.default_rng(4).normal(size=(90, 3)) * [1, 2, 5]
    D = np.linalg.norm(X[:, None] - X, axis=2)
    neighbors = np.argsort(D, axis=1, kind="stable")[:, 1:63]
    order = np.random.default_rng(5).permutation(90)
    model = TriMap()
    near, further = model._triplets(X, neighbors, np.take_along_axis(D, neighbors, 1), order, Run(0, 1))
    scales = np.array([np.sort(row)[4:7].mean() for row in D])  # the first is the point itself
    scaled = D**2 / np.outer(scales, scales)
    expected = []
    for kind, factor in ((near, 1.0), (further, 0.1)):
        i = np.broadcast_to(np.arange(90)[:, None, None], kind.weights.shape)
        j = np.broadcast_to(kind.partners[:, :, :1], kind.weights.shape)
        i, j, k = (order[points] for points in (i, j, kind.partners[:, :, 1:]))
        assert not ((i == j) | (i == k) | (j == k)).any()
        expected.append(factor * (scaled[i, k] - scaled[i, j]))
    assert near.partners.shape == (90, 12, 5)
    assert further.partners.shape == (90, 3, 2)
    assert (expected[1] >= 0).all()
    for position in range(90):
        i = order[position]
        nearest = sorted(neighbors[i], key=lambda j, i=i: scaled[i, j])[:12]
        np.testing.assert_array_equal(order[near.partners[position, :, 0]], nearest)
    least = min(each.min() for each in expected)
    for kind, weights in zip((near, further), expected, strict=True):
        np.testing.assert_allclose(kind.weights, 2 * (np.sqrt(1 + weights - least) - 1), rtol=1e-5, atol=1e-6)


def test_the_logarithm_of_weights_between_its_limits():
    weights = np.array([0.0, 0.5, 3.0, 40.0])
    np.testing.assert_allclose(tempered(weights, 0.0), weights, rtol=1e-12)
    np.testing.assert_allclose(tempered(weights, 1.0), np.log1p(weights), rtol=1e-12)
    np.testing.assert_allclose(tempered(weights, 1.0 - 1e-9), np.log1p(weights), rtol=1e-7)  # errs by 1e-9 ln^2 / 2
    np.testing.assert_allclose(tempered(weights, 2.0), weights / (1 + weights), rtol=1e-12)


def test_a_triplet_alone_moves_the_near_point_closer_and_the_other_away():
    """Of three points on a line; the infimum of the cost is 0, at infinity."""
    lists = np.array([[[1, 2]], [[0, 2]], [[1, 0]]], dtype=np.int32)
    near = Triplets(lists, np.array([[[1.0]], [[0.0]], [[0.0]]], dtype=np.float32))
    none = Triplets(np.zeros((3, 0, 2), dtype=np.int32), np.zeros((3, 0, 1), dtype=np.float32))
    Y = np.array([[0.0], [1.0], [0.5]], dtype=np.float32)  # the near point begins farther
    optimizer = triplet_descent(near, none, 0.1, 400, Run(0, 1)).optimizer
    assert 3 * optimizer.objective(Y) == pytest.approx(2 / (2 + 1.25))
    optimizer.advance(Y, 0, 400)
    assert 3 * optimizer.objective(Y) < 0.01


def test_threads_and_a_callback_do_not_change_the_result():
    X = datasets.gaussian_clusters(700, random_state=0).X
    one = TriMap(max_iter=60, n_jobs=1).fit(X)
    assert one.trace_.steps.tolist() == [0, 60]
    for n_jobs in (2, 3, 7):
        np.testing.assert_array_equal(TriMap(max_iter=60, n_jobs=n_jobs).fit(X).embedding_, one.embedding_)
    watched = TriMap(max_iter=60, callback=lambda _: False).fit(X)
    np.testing.assert_array_equal(watched.embedding_, one.embedding_)


def test_a_new_point_lies_where_its_cost_is_least_nearby():
    data = datasets.gaussian_clusters(300, random_state=0).X
    model = TriMap().fit(data[:250])
    extension = model._extension
    Y = model.transform(data[250:]).astype(np.float64)
    neighbors, _ = extension.index.query(data[250:], Run(0, 1))
    assert neighbors.shape == (50, 12)
    targets, s = model.embedding_[neighbors], extension.scale
    d = 1 + ((targets - Y[:, None]) ** 2).sum(axis=2, keepdims=True)
    slope = (2 * s / (s + d) ** 2 * (Y[:, None] - targets)).sum(axis=1)
    assert np.abs(slope).max() < 1e-2 * 12 * 0.65 / np.sqrt(s + 1)  # of 12 times the largest slope of a pair
    np.testing.assert_array_equal(model.transform(data[:5]), model.embedding_[:5])


def test_distant_clusters_stay_separate():
    labels = np.repeat(np.arange(5), 60)
    X = 30 * np.eye(5)[labels] + np.random.default_rng(7).normal(
        size=(300, 5)
    )  # 42 standard deviations between any two
    Y = TriMap().fit(X).embedding_
    D = np.linalg.norm(Y[:, None] - Y, axis=2) + np.where(np.eye(300), np.inf, 0)
    np.testing.assert_array_equal(labels[D.argmin(axis=1)], labels)


def test_too_few_points_for_triplets_raise():
    X = np.random.default_rng(8).normal(size=(20, 3))
    with pytest.raises(ValueError, match="At least 3 samples are needed for triplets; got 2"):
        TriMap().fit(X[:2])
    with pytest.raises(ValueError, match=r"n_neighbors must be between 1 and 19 for 20 points.*got 20"):
        TriMap(n_neighbors=20).fit(X)
    all_near, all_but_one = (TriMap(n_neighbors=k, max_iter=20).fit(X) for k in (19, 18))
    np.testing.assert_array_equal(all_near.embedding_, all_but_one.embedding_)  # none is farther than the last
    for n in (3, 4, 5):
        assert np.isfinite(TriMap(max_iter=20).fit(X[:n]).embedding_).all()
    assert np.isfinite(TriMap(n_random=0, max_iter=20).fit(X).embedding_).all()


@pytest.mark.parametrize("cls", [PaCMAP, TriMap])
def test_clusters_a_million_times_their_width_apart_keep_their_second_axis(cls):
    X = np.random.default_rng(9).normal(size=(60, 3))
    X[30:] += 1e6
    Y = cls(max_iter=45).fit(X).embedding_
    low, high = sorted((Y[:30, 0], Y[30:, 0]), key=np.min)
    assert low.max() < high.min()
    assert np.ptp(Y[:, 1]) > 0
