"""Surfaces from inside: borders counted by geometry, sides, and edges along or across."""

import numpy as np
import pytest

from helpers import knn_lists
from manifoldry import datasets
from manifoldry._core.run import Run
from manifoldry.evaluation.diagnosis._shape import MAX_CLOSED_BORDER, N_AROUND, Sheet, along_surface
from surfaces import moebius, tube


def sheet_of(X, d=2):
    lists = knn_lists(X, N_AROUND)
    shape = (len(X), N_AROUND)
    return Sheet(X, lists.indices.reshape(shape), lists.lengths.reshape(shape), d, Run(0, 1))


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_has_as_many_border_points_as_the_formula_says(seed):
    rng = np.random.default_rng(seed)
    radius, angle = np.sqrt(rng.uniform(size=2000)), rng.uniform(0, 2 * np.pi, 2000)
    found = sheet_of(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]))
    # Neighbors near the border reach farther than the formula's r, and random gaps add to the angle: within a third.
    assert found.border_share == pytest.approx(1.0, rel=1 / 3)
    depth = 1 - radius[found.border]
    assert np.quantile(depth, 0.9) < np.sqrt(N_AROUND / 2000)
    assert found.n_borders == 1


@pytest.mark.parametrize("make", [datasets.sphere, datasets.torus])
def test_closed_surfaces_have_no_border(make):
    assert sheet_of(make(1200, random_state=5).X).border_share < MAX_CLOSED_BORDER


def test_a_tube_has_two_borders_and_two_sides_and_a_moebius_strip_one_of_each():
    round_tube, strip = sheet_of(tube(1200, 3.0, 0)), sheet_of(moebius(1200, 0))
    assert (round_tube.n_borders, round_tube.one_sided) == (2, False)
    assert (strip.n_borders, strip.one_sided) == (1, True)


def test_points_of_a_plane_are_on_their_tangent_plane_and_noise_is_measured():
    rng = np.random.default_rng(0)
    flat = np.column_stack([rng.uniform(size=(600, 2)), np.zeros(600)])
    assert sheet_of(flat).off_plane.max() < 1e-7  # the root of rounding, as squares are summed
    noisy = flat + np.array([0, 0, 1]) * rng.normal(scale=0.01, size=(600, 1))
    # A plane fitted to 21 points takes 3 of their 21 degrees of freedom.
    assert np.sqrt(np.mean(sheet_of(noisy).off_plane ** 2)) == pytest.approx(0.01 * np.sqrt(18 / 21), rel=0.1)


def test_edges_along_a_plane_and_across_two_sheets():
    rng = np.random.default_rng(0)
    lower = np.column_stack([rng.uniform(size=(300, 2)), np.zeros(300)])
    X = np.vstack([lower, lower + np.array([0, 0, 0.3])])
    lists = knn_lists(X, 20)
    neighbors = lists.indices.reshape(len(X), 20)
    across = np.column_stack([np.arange(50), np.arange(300, 350)])
    along = np.column_stack([np.arange(50), neighbors[np.arange(50), 1]])
    flat = (neighbors[along] % 300 == neighbors[along]).all(axis=(1, 2))  # no neighbor of either end is above
    assert flat.sum() > 30
    assert along_surface(X, neighbors, across, 2)[flat].max() < 0.1
    assert along_surface(X, neighbors, along[flat], 2).min() > 1 - 1e-6
