"""Columns that dominate distances are found and lookalikes are not; crowds and dominated axes of a plot."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from manifoldry._core.run import Run
from manifoldry._numerics.geometry import scales
from manifoldry._numerics.geometry.scales import (
    MAX_SAMPLED_ENTRIES,
    DominatingColumns,
    axis_moments,
    crowding,
    dominated_axes,
    dominating_columns,
    plot_cells,
)

RNG = np.random.default_rng(7)
UNITS = RNG.normal(size=(300, 8)) * [1, 2, 1, 500, 1, 3, 1, 1]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev"])
def test_a_wide_column_is_found_with_its_share_of_the_squared_distances(metric):
    found = dominating_columns(UNITS, metric)
    D2 = np.square(UNITS[:, None] - UNITS).sum(axis=(0, 1))
    assert found.columns == (3,)
    assert found.share == pytest.approx(D2[3] / D2.sum())
    assert found.n_varying == 8


def test_real_tables():
    wine, cancer = load_wine().data, load_breast_cancer().data
    assert dominating_columns(wine).columns == (12,)
    assert dominating_columns(cancer).columns == (23, 3)
    for table in (load_iris().data, load_diabetes().data, load_digits().data):
        assert dominating_columns(table) is None
    for table in (wine, cancer):
        assert dominating_columns(table / table.std(axis=0)) is None


@pytest.mark.parametrize("metric", ["cosine", "correlation", "precomputed", "affinity", lambda a, b: abs(a - b).sum()])
def test_other_distances_do_not_depend_on_units(metric):
    assert dominating_columns(UNITS, metric) is None


def test_outliers_are_not_a_unit():
    wrong = RNG.normal(size=(300, 8))
    wrong[:3, 2] = 1e6
    assert dominating_columns(wrong) is None


def test_principal_components_have_one_unit():
    U = np.linalg.svd(UNITS - UNITS.mean(axis=0), full_matrices=False)
    scores = U[0] * U[1]
    assert dominating_columns(scores) is None
    assert dominating_columns(scores[:, ::-1]).columns == (7,)


def test_counts_and_sparse_rows_need_another_cure():
    counts = RNG.poisson(RNG.lognormal(-1, 2, size=60) * RNG.lognormal(0, 0.5, size=(300, 1))).astype(float)
    assert dominating_columns(counts) is None
    assert dominating_columns(sp.csr_array(UNITS)) is None


def test_constant_columns_missing_entries_and_many_rows():
    padded = np.column_stack([np.full(300, 4.0), UNITS])
    padded[5, 2] = np.nan
    assert dominating_columns(padded).columns == (4,)
    many = np.resize(UNITS, (MAX_SAMPLED_ENTRIES // 4, 8))
    assert dominating_columns(many).columns == (3,)
    before = UNITS.copy()
    dominating_columns(UNITS)
    assert (before == UNITS).all()


def test_sentences_are_grammatical():
    names = [f"column {name!r}" for name in pd.DataFrame(columns=list("abcde"))]
    assert DominatingColumns((1,), 0.97, 2).sentence(names) == (
        "Column 'b' holds 97.0% of the squared distances between rows, and the other column hardly counts."
    )
    assert DominatingColumns((1, 0), 0.97, 5).sentence(names).startswith("Column 'b' and column 'a' hold 97.0%")
    assert (
        DominatingColumns((0, 1, 2, 3), 0.97, 99).sentence().startswith("Column 0, column 1, column 2 and 1 more hold")
    )


def distinct_positions(Y):
    """Return the number of occupied cells of a plot."""
    return len(np.unique(plot_cells(Y, axis_moments(Y, Run(0, 1)))))


def test_evenly_spread_points_take_as_many_places_as_expected():
    n, cells = 2000, 100**2
    expected = cells * (1 - (1 - 1 / cells) ** n)
    # The number of occupied cells has a variance below n^2 / (2 cells) = 200 (birthday collisions are nearly Poisson).
    places = distinct_positions(np.random.default_rng(0).uniform(size=(n, 2)))
    assert abs(places - expected) < 4 * np.sqrt(n**2 / (2 * cells))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_places_do_not_depend_on_the_unit(scale):
    Y = np.random.default_rng(1).normal(size=(300, 2))
    assert distinct_positions(scale * Y) == distinct_positions(Y)


def test_a_single_axis_has_a_thousand_places():
    assert distinct_positions(np.linspace(0, 1, 5000)[:, None]) == 1000


def test_constant_coordinates_are_one_place():
    assert distinct_positions(np.ones((50, 2))) == 1


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
    first, second = dominated_axes(Y)
    assert first.share == pytest.approx(5 / 200)
    assert {*second.points[:2]} == {5, 9}
    assert second.share == pytest.approx(1.0)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_moments_and_crowds_of_blocks_are_those_of_all_points(n_jobs, monkeypatch):
    monkeypatch.setattr(scales, "BLOCK_POINTS", 70)
    Y = np.random.default_rng(4).normal([5.0, 0.0], size=(1000, 2))
    Y[300:450] = 1.0
    axes = axis_moments(Y, Run(0, n_jobs))
    np.testing.assert_array_equal([axes.low, axes.high], [Y.min(axis=0), Y.max(axis=0)])
    # Sums of a thousand terms of about the size of the results.
    np.testing.assert_allclose(axes.mean, Y.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(axes.scatter, 1000 * Y.var(axis=0), rtol=1e-12)
    found, expected = crowding(Y, axes, Run(0, n_jobs)), crowding(Y)
    assert found.n_places == 1
    np.testing.assert_array_equal(found.points, expected.points)


def test_axes_whose_extent_excludes_a_share_are_left_out():
    """One point in a thousand holds all of the second axis; evenly spread points do not hold half of the first."""
    Y = np.column_stack([np.linspace(-1, 1, 1000), np.r_[1.0, np.zeros(999)]])
    axes = axis_moments(Y, Run(0, 1))
    assert [each.axis for each in dominated_axes(Y, axes, 0.5)] == [1]
    assert [each.axis for each in dominated_axes(Y, axes)] == [0, 1]
