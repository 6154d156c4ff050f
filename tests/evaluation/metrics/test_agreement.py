"""Two embeddings side by side: the same up to similarity agrees, what was shuffled is found."""

import numpy as np
import pytest
from scipy.spatial import procrustes as scipy_procrustes
from scipy.stats import hypergeom

from manifoldry import metrics


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_the_same_up_to_similarity_agrees_in_full(scale):
    Y = np.random.default_rng(0).normal(size=(300, 2))
    moved = scale * (Y @ turn(0.7) * [1.0, -1.0] + [3.0, -8.0])
    found = metrics.agreement(Y, moved)
    assert found.correlation == pytest.approx(1.0, abs=1e-12)
    assert found.displacements.max() < 1e-9
    assert (found.common == 1.0).all()
    assert not found.disagree.any()
    np.testing.assert_allclose(found.distortion.stretches, 1.0, atol=1e-9)
    assert "Every point shares more of its neighbors than by chance." in str(found)


def test_the_correlation_is_that_of_procrustes_and_the_alignment_has_least_displacements():
    rng = np.random.default_rng(1)
    Y1 = rng.normal(size=(150, 2)) * [2.0, 1.0]
    Y2 = Y1 @ turn(1.0) + 0.5 * rng.normal(size=(150, 2))
    found = metrics.agreement(Y1, Y2)
    # scipy's disparity is 1 - r^2 of configurations of norm 1.
    assert 1.0 - found.correlation**2 == pytest.approx(scipy_procrustes(Y1, Y2)[2], rel=1e-9)
    np.testing.assert_allclose(found.displacements, np.linalg.norm(found.first - found.second, axis=1), rtol=1e-12)
    least = found.displacements.sum()
    for angle, shift in [(1e-2, 0.0), (-1e-2, 0.0), (0.0, [1e-2, 0.0]), (0.0, [0.0, 1e-2]), (0.0, [-1e-2, 0.0])]:
        moved = found.second @ turn(angle) + shift
        assert np.linalg.norm(found.first - moved, axis=1).sum() > least * (1 - 1e-5)
    radii = [np.sqrt(np.mean(np.sum((Y - Y.mean(axis=0)) ** 2, axis=1))) for Y in (found.first, found.second)]
    assert radii[0] * radii[1] == pytest.approx(1.0, rel=1e-12)  # the unit is their spread


def test_common_neighbors_by_a_loop_and_their_chance():
    rng = np.random.default_rng(2)
    Y1 = rng.normal(size=(80, 2))
    Y2 = Y1 + 0.4 * rng.normal(size=(80, 2))
    found = metrics.agreement(Y1, Y2, n_neighbors=6)
    for i in range(80):
        near = [set(np.argsort(np.linalg.norm(Y - Y[i], axis=1))[1:7]) for Y in (Y1, Y2)]
        common = len(near[0] & near[1])
        assert found.common[i] == common / 6
        chance = sum(hypergeom.pmf(c, 79, 6, 6) for c in range(common, 7))
        assert found.p_values[i] == pytest.approx(chance, rel=1e-9)
    assert found.chance == 6 / 79
    assert found.common.mean() == pytest.approx(metrics.q_nx(Y1, Y2, n_neighbors=6), abs=1e-12)


def test_exchanging_the_two_changes_nothing():
    rng = np.random.default_rng(3)
    Y1, Y2 = rng.normal(size=(90, 2)), rng.normal(size=(90, 3))
    Y2[:, :2] += 2.0 * Y1
    one, other = metrics.agreement(Y1, Y2), metrics.agreement(Y2, Y1, n_jobs=1)
    assert one.correlation == pytest.approx(other.correlation, rel=1e-12)
    np.testing.assert_allclose(one.displacements, other.displacements, rtol=1e-9)
    np.testing.assert_array_equal(one.common, other.common)
    np.testing.assert_array_equal(one.p_values, other.p_values)
    assert one.first.shape == one.second.shape == other.first.shape == (90, 3)


def test_shuffled_points_are_found():
    """Half of the points change places among themselves: by chance 1 in 20 of them keeps enough neighbors."""
    rng = np.random.default_rng(4)
    n = 1000
    Y = rng.uniform(size=(n, 2))
    half = rng.permutation(n)[: n // 2]
    shuffled = Y.copy()
    shuffled[half] = Y[rng.permutation(half)]
    found = metrics.agreement(Y, shuffled)
    moved = np.zeros(n, dtype=bool)
    moved[half] = True
    assert found.disagree[moved].mean() > 0.95
    # The others keep a binomial number of their 15 neighbors, of which 2 are more than chance (p = 0.02): about all.
    assert found.disagree[~moved].mean() < 0.01
    assert np.median(found.displacements[moved]) > 5 * np.median(found.displacements[~moved])
    assert f"{found.disagree.sum():,} points" in str(found)


def test_unrelated_embeddings_agree_nowhere():
    rng = np.random.default_rng(5)
    found = metrics.agreement(rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)))
    assert found.disagree.mean() > 0.94  # a level of 5 %, and what 2,000 points scatter about it
    assert found.common.mean() == pytest.approx(found.chance, abs=0.002)
    assert found.correlation < 0.1


def test_a_cluster_moved_as_a_whole_keeps_its_neighbors():
    rng = np.random.default_rng(6)
    centers = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0], [16.0, 0.0]], 80, axis=0)
    Y1 = centers + rng.normal(size=(400, 2))
    Y2 = Y1.copy()
    Y2[:80] += [30.0, 30.0]
    found = metrics.agreement(Y1, Y2)
    assert not found.disagree.any()
    # The median ratio of distances, by which they are scaled, is 1: nearly two thirds of the pairs stayed. What is
    # below a hundredth of the spread weighs the same, so that the moved points pull by that much at the most.
    assert found.displacements[80:].max() < 0.01
    assert found.displacements[:80].min() > 1.0
    assert metrics.agreement(Y2, Y1).displacements[80:].max() < 0.01


def test_local_distortion_between_them():
    rng = np.random.default_rng(7)
    Y = rng.uniform(size=(500, 2))
    bent = np.column_stack([Y[:, 0] ** 2, Y[:, 1]])
    found = metrics.agreement(Y, bent, n_neighbors=10)
    slope = 2.0 * Y[:, 0]
    units = [Z.var(axis=0).sum() for Z in (Y, bent, found.first, found.second)]
    areas = found.distortion.areas * units[2] / units[0] * units[1] / units[3]
    inner = np.all(np.abs(Y - 0.5) < 0.4, axis=1)
    assert np.median(np.abs(areas[inner] / slope[inner] - 1.0)) < 0.05
    assert metrics.agreement(Y, bent, n_neighbors=2).distortion is None


def test_bad_input_is_refused_in_a_sentence():
    Y = np.random.default_rng(8).normal(size=(30, 2))
    with pytest.raises(ValueError, match="got 30 and 29 rows"):
        metrics.agreement(Y, Y[:-1])
    with pytest.raises(ValueError, match="All 30 points of Y2 coincide"):
        metrics.agreement(Y, np.ones((30, 2)))
    with pytest.raises(ValueError, match="Y1 must be finite"):
        metrics.agreement(np.full((30, 2), np.nan), Y)
    with pytest.raises(ValueError, match="between 1 and 29 for 30 points"):
        metrics.agreement(Y, Y, n_neighbors=30)
    with pytest.raises(ValueError, match="At least 3"):
        metrics.agreement(Y[:2], Y[:2], n_neighbors=1)
    twice = np.repeat(Y, 2, axis=0)
    assert np.isfinite(metrics.agreement(twice, twice).displacements).all()
