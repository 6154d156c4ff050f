"""Divergences of local Gaussians against closed forms, and what they do not change with."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from manifoldry._core.run import Run
from manifoldry._numerics.geometry.edges import DIVERGENCES, LocalGaussians, PatchPair
from manifoldry.graph._search import NeighborRule, neighbor_graph

RUN = Run(0, 1)


def lists_of(X, k):
    return neighbor_graph(X, NeighborRule(k).resolve(len(X)), RUN)[0]


def pairs_of(lists):
    return np.column_stack([lists.rows(), lists.indices])


def dense_length(X, lists, i, j, noise, kind):
    """Return the length by the closed form of two full covariance matrices."""
    patches = [X[np.r_[a, lists.row(a)[0]]] for a in (i, j)]
    means = [patch.mean(axis=0) for patch in patches]
    covariances = [np.cov(patch.T, bias=True) + noise * np.eye(X.shape[1]) for patch in patches]
    away = means[1] - means[0]

    def kl(S, T):
        logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
        return 0.5 * (np.trace(np.linalg.solve(T, S)) + away @ np.linalg.solve(T, away) - len(S) + logs)

    if kind == "kl":
        return np.sqrt(max(kl(*covariances) + kl(*covariances[::-1]), 0.0))
    S = sum(covariances) / 2
    logs = np.linalg.slogdet(S)[1] - 0.5 * sum(np.linalg.slogdet(C)[1] for C in covariances)
    found = max(away @ np.linalg.solve(S, away) / 8 + 0.5 * logs, 0.0)
    return np.sqrt(found if kind == "bhattacharyya" else 1 - np.exp(-found))


@pytest.mark.parametrize("kind", DIVERGENCES)
@pytest.mark.parametrize("width", [2, 5, 40])
def test_low_rank_equals_dense_from_rows_and_from_distances(width, kind):
    X = np.random.default_rng(width).normal(size=(50, width))
    lists = lists_of(X, 8)
    pairs = pairs_of(lists)[::7]
    by_rows = LocalGaussians.of(X, lists, RUN)
    by_distances = LocalGaussians.of(cdist(X, X), lists, RUN, pairwise=True)
    dense = [dense_length(X, lists, i, j, by_rows.noise, kind) for i, j in pairs]
    # Roots of rounding: equal patches have a length of 0 here, and of 1e-8 there.
    np.testing.assert_allclose(by_rows.lengths(pairs, kind), dense, rtol=1e-10, atol=1e-7)
    np.testing.assert_allclose(by_distances.lengths(pairs, kind), dense, rtol=1e-10, atol=1e-7)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_lengths_are_symmetric_and_know_no_rotation_shift_or_unit(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) * [3, 2, 1, 1, 0.5, 0.1]
    lists = lists_of(X, 7)
    pairs = pairs_of(lists)
    found = LocalGaussians.of(X, lists, RUN).lengths(pairs, kind)
    np.testing.assert_allclose(LocalGaussians.of(X, lists, RUN).lengths(pairs[:, ::-1], kind), found, rtol=1e-10)
    moved = 1000 * (X @ ortho_group.rvs(6, random_state=1)) + 50
    np.testing.assert_allclose(LocalGaussians.of(moved, lists, RUN).lengths(pairs, kind), found, rtol=1e-9)
    if kind == "hellinger":
        assert found.max() <= 1


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_equal_patches_are_at_no_distance_and_others_are(kind):
    X = np.concatenate(
        [np.random.default_rng(0).normal(size=(6, 4)), 100 + np.random.default_rng(1).normal(size=(6, 4))]
    )
    lists = lists_of(X, 5)  # each patch is the whole cluster
    found = LocalGaussians.of(X, lists, RUN)
    assert (found.lengths(pairs_of(lists), kind) == 0).all()
    apart = found.lengths(np.array([[0, 7]]), kind)
    assert apart > 0.99


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_without_regularization_no_affine_map_changes_them(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    lists = lists_of(X, 9)
    pairs = pairs_of(lists)
    affine = X @ (np.eye(3) + 0.5 * rng.normal(size=(3, 3))) - 7
    # Noise of 1e-8 of a variance: the formula loses eight digits, the limit is reached to as many.
    free, mapped = (LocalGaussians.of(rows, lists, RUN, shrinkage=1e-8).lengths(pairs, kind) for rows in (X, affine))
    assert free.max() > 0.3
    np.testing.assert_allclose(mapped, free, rtol=1e-5, atol=1e-4)
    regularized = LocalGaussians.of(affine, lists, RUN).lengths(pairs, kind)
    assert np.abs(regularized - LocalGaussians.of(X, lists, RUN).lengths(pairs, kind)).max() > 0.01


def test_two_gaussians_on_the_line():
    a, b, gap, noise = 3.0, 0.5, 4.0, 0.25  # variances without noise, squared distance of the means
    s, t = a + noise, b + noise
    pair = PatchPair(
        np.array([[a]]),
        np.array([[b]]),
        np.array([[[np.sqrt(a * b)]]]),
        np.array([[np.sqrt(a * gap)]]),
        np.array([[np.sqrt(b * gap)]]),
        np.array([gap]),
        noise,
    )
    kl = 0.5 * ((s + gap) / t + (t + gap) / s) - 1
    hellinger = 1 - np.sqrt(2 * np.sqrt(s * t) / (s + t)) * np.exp(-gap / (4 * (s + t)))
    np.testing.assert_allclose(pair.length("kl") ** 2, kl, rtol=1e-12)
    np.testing.assert_allclose(pair.length("hellinger") ** 2, hellinger, rtol=1e-12)
    np.testing.assert_allclose(pair.length("bhattacharyya") ** 2, -np.log(1 - hellinger), rtol=1e-12)
