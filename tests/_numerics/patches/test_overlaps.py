"""What patches share, against sums point by point, and the matching error's matrix against the printed formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.patches.overlaps import find_overlaps, matching_form, patch_components, shared_entries


def random_patches(seed, n=40, c=6, r=2, chance=0.4):
    """Return a random membership of n points, and unrelated random coordinates."""
    rng = np.random.default_rng(seed)
    belongs = rng.random((n, c)) < chance
    belongs[np.arange(n), rng.integers(c, size=n)] = True
    members = Membership.of_matrix(sp.csr_array(belongs * rng.uniform(0.1, 1, (n, c))))
    return members, rng.normal(size=(len(members.points), r))


def sampled_entries(members):
    """Return for every patch the entry of each of its points."""
    found = {}
    for entry, (point, patch) in enumerate(zip(members.points.tolist(), members.patches.tolist(), strict=True)):
        found.setdefault(patch, {})[point] = entry
    return found


def shared(members, f):
    """Return for every pair of patches that share points their coordinates in both charts."""
    held = sampled_entries(members)
    pairs = {}
    for i in held:
        for j in held:
            common = sorted(held[i].keys() & held[j].keys())
            if i < j and common:
                pairs[i, j] = f[[held[i][x] for x in common]], f[[held[j][x] for x in common]]
    return pairs


def test_pairs_of_entries_are_all_pairs_of_a_point():
    members, _ = random_patches(1)
    one, other = shared_entries(members)
    found = sorted(tuple(sorted(pair)) for pair in zip(one.tolist(), other.tolist(), strict=True))
    count = len(members.points)
    expected = [(a, b) for a in range(count) for b in range(a + 1, count) if members.points[a] == members.points[b]]
    assert found == sorted(expected)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_overlaps_are_sums_over_shared_points(r):
    members, f = random_patches(2, r=r)
    overlaps = find_overlaps(members, f, 6)
    pairs = shared(members, f)
    assert list(zip(overlaps.first.tolist(), overlaps.second.tolist(), strict=True)) == sorted(pairs)
    for number, pair in enumerate(sorted(pairs)):
        here, there = pairs[pair]
        assert overlaps.counts[number] == len(here)
        np.testing.assert_allclose(overlaps.means[number], [here.mean(axis=0), there.mean(axis=0)], atol=1e-14)
        both = np.hstack([here, there])
        np.testing.assert_allclose(overlaps.moments[number], both.T @ both / len(here), atol=1e-14)


def test_patches_without_shared_points_have_no_overlaps():
    members = Membership(np.arange(6), np.repeat([0, 1], 3), np.ones(6), 6)
    overlaps = find_overlaps(members, np.ones((6, 2)), 2)
    assert len(overlaps) == 0
    assert patch_components(overlaps, 2).tolist() == [0, 1]
    assert overlaps.well_conditioned(np.array([2, 2])).shape == (0,)


@pytest.mark.parametrize("sizes", [[2] * 6, [2, 1, 0, 2, 1, 2]])
def test_the_form_is_the_matching_error_point_by_point(sizes):
    """Equation (5.2), for frames and shifts that are nowhere near a solution."""
    sizes = np.array(sizes)
    members, f = random_patches(3)
    f *= np.arange(2) < sizes[members.patches][:, None]  # no coordinates beyond a patch's dimension
    rng = np.random.default_rng(4)
    frames, shifts = rng.normal(size=(6, 2, 3)), rng.normal(size=(6, 3))
    error = 0.0
    for (i, j), (here, there) in shared(members, f).items():
        for a, b in zip(here, there, strict=True):
            away = a @ frames[i] + shifts[i] - b @ frames[j] - shifts[j]
            error += float(away @ away) / len(here)
    V = np.vstack([*(frame[:size] for frame, size in zip(frames, sizes, strict=True)), shifts])
    Q = matching_form(find_overlaps(members, f, 6), sizes)
    assert Q.shape == (sizes.sum() + 6, sizes.sum() + 6)
    # A sum of a few hundred squares, each good to some roundings.
    assert float(np.vdot(V, Q @ V)) == pytest.approx(error, rel=1e-12)


def test_the_form_holds_the_printed_matrices():
    """Equations (5.7), (5.10) and (5.11), with the selection matrices E_i and e_i written out."""
    members, f = random_patches(5)
    r, c = 2, 6
    E = np.eye(r * c).reshape(r * c, c, r).transpose(1, 0, 2)
    e = np.eye(c)
    L_X, L_G, Z = np.zeros((r * c, r * c)), np.zeros((c, c)), np.zeros((r * c, c))
    for (i, j), (here, there) in shared(members, f).items():
        apart = E[i] @ here.T - E[j] @ there.T
        L_X += apart @ apart.T / len(here)
        L_G += np.outer(e[i] - e[j], e[i] - e[j])
        Z += np.outer(E[i] @ here.mean(axis=0) - E[j] @ there.mean(axis=0), e[i] - e[j])
    Q = matching_form(find_overlaps(members, f, c), np.full(c, r)).toarray()
    k = r * c
    np.testing.assert_allclose(Q[:k, :k], L_X, atol=1e-13)
    np.testing.assert_allclose(Q[:k, k:], Z, atol=1e-13)
    np.testing.assert_allclose(Q[k:, k:], L_G, atol=1e-13)
    np.testing.assert_allclose(Q[k:].sum(axis=0), 0, atol=1e-13)
    pseudo = L_G.T @ np.linalg.inv(L_G @ L_G.T + 1)
    K = L_X - Z @ pseudo @ Z.T
    reduced = Q[:k, :k] - Q[:k, k + 1 :] @ np.linalg.solve(Q[k + 1 :, k + 1 :], Q[k + 1 :, :k])
    np.testing.assert_allclose(reduced, K, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-12


def two_patches(points, turn):
    """Return the overlaps of two patches that hold the same points, the second chart turned."""
    n = len(points)
    members = Membership(np.repeat(np.arange(n), 2), np.tile([0, 1], n), np.ones(2 * n), n)
    f = np.stack([points, points @ turn + 1.0], axis=1).reshape(2 * n, -1)
    return find_overlaps(members, f, 2)


def test_tightness_tells_hinges_from_sheets():
    rng = np.random.default_rng(6)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    sheet = rng.normal(size=(30, 2))
    sheet = (sheet - sheet.mean(axis=0)) @ np.diag([1.0, 0.3])
    values = np.linalg.svd(sheet.T @ sheet / 30, compute_uv=False)
    sizes = np.array([2, 2])
    overlaps = two_patches(sheet, turn)
    # The singular values of a covariance do not change if one chart is turned.
    np.testing.assert_allclose(overlaps.tightness(sizes), values[1] / values[0], rtol=1e-10)
    assert overlaps.well_conditioned(sizes).all()
    hinge = np.outer(rng.normal(size=30), [1.0, 2.0])
    assert not two_patches(hinge, turn).well_conditioned(sizes).any()
    assert two_patches(hinge, turn).well_conditioned(np.array([1, 2])).all()  # a curve needs no more
    assert not two_patches(sheet[:2], turn).well_conditioned(sizes).any()  # fewer than r + 1 points
    assert two_patches(sheet[:1], turn).well_conditioned(np.array([0, 2])).all()  # a single point is where it is


def test_thin_overlaps_hold_what_no_firm_one_does():
    rng = np.random.default_rng(6)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    strip = rng.normal(size=(300, 2)) @ np.diag([1.0, 0.01])  # tightness 1e-4
    sizes = np.array([2, 2])
    thin = two_patches(strip, turn)
    assert not thin.well_conditioned(sizes).any()
    assert thin.active(sizes)[0].all()
    hinge = two_patches(strip * [1.0, 0.1], turn)  # tightness 1e-6: a line, as far as charts can tell
    assert not hinge.active(sizes)[0].any()
    # Three patches in a row are held by two firm overlaps; a thin one between the ends adds nothing.
    shared = [rng.normal(size=(300, 2)), rng.normal(size=(300, 2)), strip]
    pairs = [(0, 1), (1, 2), (0, 2)]
    n = 900
    patches = np.concatenate([np.tile(pair, 300) for pair in pairs])
    members = Membership(np.repeat(np.arange(n), 2), patches, np.ones(2 * n), n)
    all_three = find_overlaps(members, np.repeat(np.concatenate(shared), 2, axis=0), 3)
    assert list(zip(all_three.first, all_three.second, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert all_three.active(np.array([2, 2, 2]))[0].tolist() == [True, False, True]
    assert all_three[np.array([True, True, False])].active(np.array([2, 2, 2]))[0].all()


def test_components_follow_shared_points():
    belongs = np.zeros((4, 5))
    belongs[0, [0, 3]] = belongs[1, [3, 4]] = belongs[2, 1] = belongs[3, [2, 1]] = 1
    members = Membership.of_matrix(sp.csr_array(belongs))
    overlaps = find_overlaps(members, np.ones((len(members.points), 1)), 5)
    assert patch_components(overlaps, 5).tolist() == [0, 1, 1, 0, 0]
