"""The measured dimension: the paper's law for known manifolds, freedom from scale and metric, duplicates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry import datasets
from manifoldry._numerics.geometry.dimension import dimension_of_lengths, intrinsic_dimension, local_dimensions

RNG = np.random.default_rng(0)


def poisson_lengths(n: int, k: int, d: int) -> np.ndarray:
    """Distances to the first k points of a Poisson process in d dimensions: volumes are sums of exponentials."""
    return np.cumsum(RNG.exponential(size=(n, k)), axis=1) ** (1 / d)


@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_points_of_a_poisson_process_have_their_dimension_on_average(d):
    n, k = 4000, 20
    lengths = poisson_lengths(n, k, d)
    # The sum of logarithms is gamma(k - 1, rate d): the local estimate has mean d and deviation d / sqrt(k - 3), the
    # joint one is off by d / sqrt(n (k - 1)); four deviations.
    assert abs(local_dimensions(lengths).mean() - d) < 4 * d / np.sqrt(n * (k - 3))
    assert abs(dimension_of_lengths(lengths).value - d) < 4 * d / np.sqrt(n * (k - 1)) + d / (n * k)
    assert dimension_of_lengths(lengths).low < d < dimension_of_lengths(lengths).high


def test_the_joint_estimate_does_not_depend_on_the_number_of_neighbors():
    lengths = poisson_lengths(4000, 20, 3)
    for k in (3, 6, 20):
        assert abs(dimension_of_lengths(lengths[:, :k]).value - 3) < 4 * 3 / np.sqrt(4000 * (k - 1))


SURFACES = {
    "line": (np.column_stack([np.linspace(0, 1, 400)] * 5), 1),
    "spiral": (datasets.swiss_roll(1000).X[:, [0, 2]], 1),
    "roll": (datasets.swiss_roll(1000).X, 2),
    "holed roll": (datasets.swiss_roll(1000, hole=True).X, 2),
    "noisy roll": (datasets.swiss_roll(2000).X + RNG.normal(0, 0.3, (2000, 3)), 2),
    "sphere": ((lambda t: t / np.linalg.norm(t, axis=1, keepdims=True))(RNG.normal(size=(1000, 3))), 2),
    "3-sphere": ((lambda t: t / np.linalg.norm(t, axis=1, keepdims=True))(RNG.normal(size=(2000, 4))), 3),
    "cube": (RNG.uniform(size=(2000, 3)), 3),
}


@pytest.mark.parametrize("name", SURFACES)
def test_known_surfaces(name):
    X, d = SURFACES[name]
    assert int(intrinsic_dimension(X)) == d


@pytest.mark.parametrize("d", [5, 10])
def test_cubes_of_many_dimensions_fall_short_by_the_border_alone(d):
    X = RNG.uniform(size=(2000, d))
    on_torus = np.abs(X[:500, None] - X)
    on_torus = np.sqrt(np.square(np.minimum(on_torus, 1 - on_torus)).sum(axis=2))
    torus = dimension_of_lengths(np.sort(on_torus, axis=1)[:, 1:21]).value
    cube = intrinsic_dimension(X).value
    assert 0.75 * d < cube < 0.95 * d
    # Without a border the volume law fails only once balls meet themselves around the torus.
    assert cube < torus < 1.05 * d


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e9, 1e100])
def test_no_dependence_on_the_unit(scale):
    X = datasets.swiss_roll(500).X
    assert np.isclose(intrinsic_dimension(scale * X).value, intrinsic_dimension(X).value, rtol=1e-9)


def test_ambient_dimensions_do_not_count():
    X = RNG.uniform(size=(800, 2))
    turned = np.linalg.qr(RNG.normal(size=(200, 200)))[0][:2]
    assert np.isclose(intrinsic_dimension(X @ turned).value, intrinsic_dimension(X).value, rtol=1e-6)


def test_duplicates_are_left_out():
    lengths = poisson_lengths(100, 20, 4)
    doubled = np.concatenate([np.zeros((100, 3)), 1e-9 * lengths[:, :1], lengths], axis=1)
    assert np.allclose(local_dimensions(doubled), local_dimensions(lengths), rtol=1e-12)
    padded = np.concatenate([lengths, np.full((100, 2), np.inf)], axis=1)
    assert np.allclose(local_dimensions(padded), local_dimensions(lengths), rtol=1e-12)
    X = np.repeat(RNG.uniform(size=(300, 2)), 4, axis=0)
    assert int(intrinsic_dimension(X)) == 2


def test_where_nothing_can_be_said():
    assert np.isnan(local_dimensions(np.zeros((3, 20)))).all()
    assert np.isnan(local_dimensions(np.ones((3, 20)))).all()
    assert int(dimension_of_lengths(np.zeros((3, 20)))) == 1
    assert int(intrinsic_dimension(np.repeat(np.eye(2), 30, axis=0))) == 1
    assert int(intrinsic_dimension(np.eye(3))) >= 1


def test_sparse_rows_and_large_samples():
    X = RNG.uniform(size=(600, 3))
    assert np.isclose(intrinsic_dimension(sp.csr_array(X)).value, intrinsic_dimension(X).value)
    assert int(intrinsic_dimension(RNG.uniform(size=(25_000, 2)))) == 2
