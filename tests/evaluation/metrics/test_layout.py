"""Places of a plot and points that rule an axis, on layouts counted by hand."""

import numpy as np
import pytest

from manifoldry._numerics.plot_checks import crowding, distinct_places, ruled_axes


def test_evenly_spread_points_take_as_many_places_as_expected():
    n, cells = 2000, 100**2
    expected = cells * (1 - (1 - 1 / cells) ** n)
    # The number of occupied cells has a variance below n^2 / (2 cells) = 200 (birthday collisions are nearly Poisson).
    places = distinct_places(np.random.default_rng(0).uniform(size=(n, 2)))
    assert abs(places - expected) < 4 * np.sqrt(n**2 / (2 * cells))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_places_do_not_depend_on_the_unit(scale):
    Y = np.random.default_rng(1).normal(size=(300, 2))
    assert distinct_places(scale * Y) == distinct_places(Y)


def test_a_single_axis_has_a_thousand_places():
    assert distinct_places(np.linspace(0, 1, 5000)[:, None]) == 1000


def test_constant_coordinates_are_one_place():
    assert distinct_places(np.ones((50, 2))) == 1


def test_crowds_are_counted_with_their_points():
    spread = np.random.default_rng(2).uniform(size=(60, 2))
    Y = np.r_[np.tile([0.205, 0.205], (20, 1)), spread, np.tile([0.705, 0.705], (20, 1))]
    found = crowding(Y)
    assert found.n_places == 2
    assert {*range(20), *range(80, 100)} <= {*found.points}
    assert found.share == len(found.points) / 100


def test_nine_points_at_one_place_are_no_crowd():
    Y = np.r_[np.zeros((9, 2)), 1 + np.random.default_rng(3).uniform(size=(40, 2))]
    assert crowding(Y).n_places == 0


def test_the_farthest_points_of_each_axis_and_their_share():
    Y = np.zeros((200, 2))
    Y[:, 0] = np.tile([1.0, -1.0], 100)
    Y[[5, 9], 1] = 3.0, -3.0
    first, second = ruled_axes(Y)
    assert first.share == pytest.approx(5 / 200)
    assert {*second.points[:2]} == {5, 9}
    assert second.share == pytest.approx(1.0)
