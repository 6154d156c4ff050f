"""Clusters seen in a picture, and the leakage of their borders, against loops and worked cases."""

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry.evaluation.reliability._null_comparison import null_data
from manifoldry.evaluation.reliability._picture_clusters import (
    border_step,
    cut,
    join_noise,
    leakage,
    least_size,
    picture_clusters,
    spread_dimension,
)
from manifoldry.graph._search import NeighborRule, neighbor_graph

EPS = np.finfo(float).eps


def blobs(n=60, apart=30.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    return rng.normal(size=(n, 2)) + apart * labels[:, None], labels


def nearest(X, k):
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def test_two_heaps_are_two_clusters_and_the_unit_does_not_matter():
    Y, labels = blobs()
    found = picture_clusters(Y)
    assert len(set(zip(found.tolist(), labels.tolist(), strict=True))) == 2
    assert (picture_clusters(2.0**40 * Y) == found).all()


@pytest.mark.parametrize(("n", "least"), [(10, 15), (900, 15), (1000, 16), (10_000, 50), (70_000, 133)])
def test_least_size_is_half_the_root(n, least):
    assert least_size(n) == least


def test_fewer_points_than_two_clusters_take_show_none():
    Y, _ = blobs(28)
    assert (picture_clusters(Y) == -1).all()


def test_noise_joins_the_cluster_of_the_nearest_point_that_has_one():
    Y, labels = blobs()
    known = np.where(np.arange(len(Y)) % 3 == 0, labels, -1)
    joined = join_noise(Y, known)
    for i in range(len(Y)):
        away = [np.linalg.norm(Y[i] - Y[j]) if known[j] >= 0 else np.inf for j in range(len(Y))]
        assert joined[i] == known[int(np.argmin(away))]
    assert (join_noise(Y, np.full(len(Y), -1)) == -1).all()


def test_noise_stays_noise_if_asked():
    Y, _ = blobs(200)
    Y[0] = [15.0, -40.0]
    assert picture_clusters(Y, assign=False)[0] == -1
    assert picture_clusters(Y)[0] >= 0


def test_a_cut_halves_across_the_longest_extent():
    rng = np.random.default_rng(0)
    strip = rng.random((41, 2)) * [100.0, 1.0]
    pieces = cut(strip, 2)
    order = np.argsort(strip[:, 0])
    assert sorted(np.bincount(pieces)) == [10, 10, 10, 11]
    assert np.sum(np.diff(pieces[order]) != 0) == 3


@pytest.mark.parametrize("seed", range(3))
def test_leakage_counts_pairs_as_loops_do(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    Y = X[:, :2]
    labels = np.minimum(rng.integers(0, 8, size=80), 3)  # the last cluster has more than half of all points
    neighbors = nearest(X, 6)
    leaks, leaving = leakage(neighbors, Y, labels, 5)
    for name in range(4):
        inside = labels == name
        border = sum(inside[i] != inside[j] for i in range(80) for j in neighbors[i])
        smaller = inside if 2 * inside.sum() <= 80 else ~inside
        quarter = dict(zip(np.flatnonzero(smaller), cut(Y[smaller], 2), strict=True))
        crossing = sum(quarter[i] != quarter[j] for i in quarter for j in neighbors[i] if j in quarter)
        assert leaks[name] == pytest.approx((1 + border / 2) / (1 + crossing), rel=4 * EPS)
        out = sum(not inside[j] for i in np.flatnonzero(inside) for j in neighbors[i])
        assert leaving[name] == pytest.approx(out / (6 * inside.sum()), rel=4 * EPS)
    assert (leaks[4], leaving[4]) == (1, 0)  # no points


def test_heaps_far_apart_leak_nothing_and_halves_of_one_heap_as_much_as_any_cut():
    Y, labels = blobs(100)
    leaks, leaving = leakage(nearest(Y, 5), Y, labels, 2)
    assert (leaving == 0).all()
    # No pair is separated by the border, and of the 250 pairs in each heap the quarters separate some.
    crossing = 1 / leaks - 1
    assert crossing == pytest.approx(np.round(crossing), abs=1e-9)
    assert ((crossing > 25) & (crossing < 125)).all()
    square = np.random.default_rng(0).random((1600, 2))
    halves = (square[:, 0] > 0.5).astype(int)
    # Pairs across a line are as many as it is long: 1 for the border, of which half counts, 3 x 1/2 for the quarters of
    # a half. Of some 200 pairs on each line, about 5 of each point's in the same place, a sixth is chance.
    assert leakage(nearest(square, 5), square, halves, 2)[0] == pytest.approx([1 / 3, 1 / 3], rel=0.3)


def test_a_gaussian_null_has_exactly_the_covariance_as_its_factor():
    X = np.random.default_rng(0).normal(size=(50, 4)) @ np.diag([1.0, 2.0, 3.0, 1e-3])
    drawn = np.random.default_rng(5).normal(size=(50, 4))
    factor = np.linalg.lstsq(drawn, null_data(X, "gaussian", np.random.default_rng(5)) - X.mean(axis=0))[0]
    # The factor is solved from well conditioned normal numbers: some hundred roundings of its largest entry.
    assert factor.T @ factor == pytest.approx(np.cov(X.T), abs=1000 * EPS * np.cov(X.T).max())


def test_a_gaussian_null_of_wide_rows_lies_in_their_span_with_their_variance():
    X = np.random.default_rng(0).normal(size=(40, 90))
    null = null_data(X, "gaussian", np.random.default_rng(1)) - X.mean(axis=0)
    basis = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:39]
    assert np.abs(null - null @ basis.T @ basis).max() < 1e-12
    # 39 x 40 squares of normal numbers, nearly equally weighted: the relative error of their sum is about 0.036.
    assert np.square(null).sum() / np.square(X - X.mean(axis=0)).sum() == pytest.approx(1, abs=5 * 0.05)


def test_a_uniform_null_has_the_dimension_of_the_surface_and_the_variance_of_the_data():
    rng = np.random.default_rng(0)
    plane = rng.random((800, 2)) @ rng.normal(size=(2, 7))
    null = null_data(plane, "uniform", rng) - plane.mean(axis=0)
    values = np.linalg.svd(null, compute_uv=False)
    assert values[1] > 0.9 * values[0]
    assert values[2] < 1e-12 * values[0]
    # Squares of uniform numbers have relative standard deviation 0.9: 0.022 in the mean of 1,600.
    assert np.square(null).mean() / np.var(plane, axis=0).mean() == pytest.approx(1, abs=5 * 0.022)


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="kind must be one of"):
        null_data(np.eye(3), "sparse", np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"Y .*NaN"):
        picture_clusters([[np.nan, 0.0], [1.0, 2.0]])


def listed(X, k=10):
    return neighbor_graph(X, NeighborRule(k), Run(0))[0]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_curve_spreads_in_one_dimension_and_a_sheet_in_two(noise):
    rng = np.random.default_rng(0)
    turn = 4 * np.pi * rng.random(400)
    curve = np.column_stack([turn, np.cos(turn), np.sin(turn), np.zeros((400, 3))])
    sheet = np.column_stack([20 * rng.random((400, 2)), np.zeros((400, 4))])
    for X, d in ((curve, 1), (sheet, 2)):
        lists = listed(X + noise * rng.normal(size=X.shape))
        # Within a fourth: neighbors beyond the ends are missing, and zigzags are longer than what they follow.
        assert spread_dimension(lists, np.ones(400, dtype=bool), Run(0)) == pytest.approx(d, rel=0.25)


@pytest.mark.parametrize("gap", [6.0, 15.0])
def test_the_step_over_a_gap_of_a_line(gap):
    line = np.concatenate([np.arange(20.0), 19.0 + gap + np.arange(40.0)])[:, None]
    first = np.arange(60) < 20
    # The fifth neighbor inside is 3 away, at an end 5; the shortest step out is the gap itself.
    assert border_step(line, listed(line), first, "euclidean", Run(0)) == pytest.approx(gap / 3)
    assert border_step(line, listed(line), ~first, "euclidean", Run(0)) == pytest.approx(gap / 3)


def test_a_cluster_that_falls_apart_has_no_step_out():
    line = np.concatenate([np.arange(20.0), 100 + np.arange(20.0), 110 + 20 + np.arange(20.0)])[:, None]
    assert border_step(line, listed(line), np.arange(60) // 20 != 1, "euclidean", Run(0)) == 0
