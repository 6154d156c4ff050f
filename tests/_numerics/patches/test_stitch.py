"""Stitching: pieces of a flat figure return to their places, components stay apart, images are blended by weight."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Certificate
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.patches.overlaps import blend, find_overlaps, joint_certificate, stitch
from manifoldry._numerics.semidefinite.staircase import place


def figure_in_pieces(seed, c=6, r=2, n=120, groups=1):
    """Return a random figure, overlapping pieces of it along its first axis, and each in a chart of its own."""
    rng = np.random.default_rng(seed)
    figure = rng.uniform(0, 1, (n, r))
    figure[:, 0] *= c
    middles = np.arange(c) + 0.5
    belongs = np.abs(figure[:, :1] - middles) < 0.8
    group = np.minimum((figure[:, 0] * groups / c).astype(int), groups - 1)
    belongs &= group[:, None] == np.arange(c) * groups // c
    members = Membership.of_matrix(sp.csr_array(belongs.astype(float)))
    turns = np.stack([np.linalg.qr(rng.normal(size=(r, r)))[0] for _ in range(c)])
    origins = rng.normal(size=(c, r))
    away = figure[members.points] - origins[members.patches]
    return figure, members, np.einsum("ma,mab->mb", away, turns[members.patches])


@pytest.mark.parametrize("r", [1, 2, 3])
def test_pieces_of_a_figure_return_to_their_places(r):
    figure, members, f = figure_in_pieces(r, r=r)
    stitched = stitch(find_overlaps(members, f, 6), np.full(6, r), Run(0, 1))
    images = stitched.images(members.patches, f)
    mean, disagreement = blend(members, images)
    assert disagreement.max() < 1e-9
    # All distances, whatever the position of the whole.
    expected = np.linalg.norm(figure[:, None] - figure, axis=2)
    np.testing.assert_allclose(np.linalg.norm(mean[:, None] - mean, axis=2), expected, atol=1e-9)
    assert stitched.n_components == 1
    assert stitched.certificate.optimal
    assert stitched.certificate.rank == r


def test_components_are_solved_one_by_one():
    _, members, f = figure_in_pieces(4, c=7, groups=2)
    f = f + 0.1 * np.random.default_rng(4).normal(size=f.shape)
    overlaps = find_overlaps(members, f, 7)
    sizes = np.full(7, 2)
    together = stitch(overlaps, sizes, Run(0, 1))
    assert together.n_components == 2
    alone = []
    for part in range(2):
        patches = np.flatnonzero(together.components == part)
        mine = np.isin(members.patches, patches)
        numbers = np.searchsorted(patches, members.patches[mine])
        points = np.unique(members.points[mine], return_inverse=True)[1]
        small = Membership(points, numbers, members.weights[mine], int(points.max()) + 1)
        alone.append(stitch(find_overlaps(small, f[mine], len(patches)), sizes[patches], Run(0, 1)))
        here = together.images(members.patches[mine], f[mine])
        there = alone[-1].images(numbers, f[mine])
        # The same optimum twice, reached to a gradient of 1e-11.
        np.testing.assert_allclose(
            np.linalg.norm(here[:, None] - here, axis=2), np.linalg.norm(there[:, None] - there, axis=2), atol=1e-7
        )
    assert together.certificate.objective == pytest.approx(sum(part.certificate.objective for part in alone), rel=1e-9)


def test_a_lone_patch_is_a_component():
    members = Membership(np.arange(10), np.repeat([0, 1], 5), np.ones(10), 10)
    f = np.random.default_rng(5).normal(size=(10, 2))
    stitched = stitch(find_overlaps(members, f, 2), np.array([2, 1]), Run(0, 1))
    assert stitched.components.tolist() == [0, 1]
    assert stitched.frames.shape == (2, 2, 2)
    np.testing.assert_array_equal(stitched.frames[0], np.eye(2))
    np.testing.assert_array_equal(stitched.frames[1], [[1, 0], [0, 0]])
    assert stitched.certificate.optimal


def test_images_are_frames_and_shifts():
    _, members, f = figure_in_pieces(6)
    stitched = stitch(find_overlaps(members, f, 6), np.full(6, 2), Run(0, 1))
    images = stitched.images(members.patches, f)
    for entry in range(0, len(f), 17):
        patch = members.patches[entry]
        expected = f[entry] @ stitched.frames[patch] + stitched.shifts[patch]
        np.testing.assert_allclose(images[entry], expected, atol=1e-13)


def test_blends_are_weighted_means_and_disagreement_their_spread():
    rng = np.random.default_rng(7)
    belongs = (rng.random((20, 5)) < 0.5) * rng.uniform(0.1, 1, (20, 5))
    belongs[np.arange(20), rng.integers(5, size=20)] = 1.0
    members = Membership.of_matrix(sp.csr_array(belongs))
    images = rng.normal(size=(len(members.points), 3))
    mean, disagreement = blend(members, images)
    for point in range(20):
        mine = members.points == point
        weights = members.weights[mine] / members.weights[mine].sum()
        expected = weights @ images[mine]
        np.testing.assert_allclose(mean[point], expected, atol=1e-14)
        squares = np.square(images[mine] - expected).sum(axis=1)
        assert disagreement[point] == pytest.approx(np.sqrt(weights @ squares), rel=1e-12, abs=1e-14)


def test_a_joint_certificate_adds_up_and_keeps_the_worst():
    placed = place(sp.csr_array(np.array([[1.0, -1.0], [-1.0, 1.0]])), [0, 0], Run(0, 1))
    parts = [
        Certificate(3.0, 2.0, 2, "a sum", 1e-8, 0.25, 1e-7, -1e-3),
        Certificate(1.0, 1.0, 3, "a sum", 1e-8, 0.5, 0.0, 0.0),
    ]
    joint = joint_certificate([replace(placed, certificate=part) for part in parts])
    assert joint == Certificate(4.0, 3.0, 3, "a sum", 1e-8, 0.75, 1e-7, -1e-3)
    assert joint.gap == pytest.approx(1 / 4)
