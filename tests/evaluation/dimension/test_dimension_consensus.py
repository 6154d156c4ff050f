"""Local values, scales and the consensus on manifolds of known dimension."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry import NeighborGraph, datasets, dimension
from manifoldry._core.run import Run
from manifoldry._numerics.elbow import REASON_WIDTH
from manifoldry.evaluation.dimension._consensus import gather
from manifoldry.evaluation.dimension._space import as_space, measure
from manifoldry.graph._search import NeighborRule, neighbor_graph


def turned(d, columns, rng):
    return np.linalg.qr(rng.normal(size=(columns, columns)))[0][:d]


def ball(n, d, rng):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(size=(n, 1)) ** (1 / d)


def sphere(n, d, rng):
    X = rng.normal(size=(n, d + 1))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def flat_torus(n, d, rng):
    angles = rng.uniform(0, 2 * np.pi, size=(n, d))
    return np.hstack([np.cos(angles), np.sin(angles)])


def bent_sheet(n, d, rng):
    U = rng.uniform(size=(n, d))
    waves = np.sin(2 * U @ rng.normal(size=(d, 30)) / np.sqrt(d))
    return U @ turned(d, 30, rng) + 0.2 * np.sqrt(d / 30) * waves


def moebius(n, rng):
    phi, r = rng.uniform(0, 2 * np.pi, n), rng.uniform(-1, 1, n)
    width = 1 + 0.5 * r * np.cos(phi / 2)
    return np.column_stack([width * np.cos(phi), width * np.sin(phi), 0.5 * r * np.sin(phi / 2)])


MANIFOLDS = {
    "line": (1, lambda n, rng: np.outer(rng.uniform(size=n), [1.0, -2.0, 0.5])),
    "helix": (1, lambda n, rng: datasets.helix(n, random_state=int(rng.integers(99))).X),
    "roll": (2, lambda n, rng: datasets.swiss_roll(n, random_state=int(rng.integers(99))).X),
    "moebius": (2, moebius),
    "torus 2": (2, lambda n, rng: flat_torus(n, 2, rng)),
    "torus 3": (3, lambda n, rng: flat_torus(n, 3, rng)),
    "torus 5": (5, lambda n, rng: flat_torus(n, 5, rng)),
    "cube 3": (3, lambda n, rng: rng.uniform(size=(n, 3))),
    "sphere 5": (5, lambda n, rng: sphere(n, 5, rng)),
    "sheet 10": (10, lambda n, rng: rng.uniform(size=(n, 10)) @ turned(10, 50, rng)),
    "bent sheet 10": (10, lambda n, rng: bent_sheet(n, 10, rng)),
    "ball 15": (15, lambda n, rng: ball(n, 15, rng)),
    "Gaussian 20": (20, lambda n, rng: rng.normal(size=(n, 20))),
    "cube 20": (20, lambda n, rng: rng.uniform(size=(n, 20)) @ turned(20, 50, rng)),
}


@pytest.mark.parametrize("n", [1000, 3000])
@pytest.mark.parametrize("name", MANIFOLDS)
def test_consensus_finds_known_dimensions(name, n):
    d, make = MANIFOLDS[name]
    found = dimension.consensus(make(n, np.random.default_rng(11)))
    assert abs(found.value - d) <= (0 if d <= 5 else 1)
    assert found.low <= d <= found.high
    assert found.low <= found.measured <= found.high


@pytest.mark.parametrize("seed", range(4))
def test_a_sheet_of_ten_dimensions_is_found_where_plain_maximum_likelihood_falls_short(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(2000, 10)) @ turned(10, 40, rng)
    found = dimension.consensus(X)
    assert abs(found.measured - 10) < 1
    assert found.estimates["maximum_likelihood"].value < 8.6
    assert found.kind == "flat"
    assert any("reach the border" in reason for reason in found.why)


def test_kinds_and_reasons():
    rng = np.random.default_rng(3)
    curved = dimension.consensus(flat_torus(1500, 5, rng))
    assert curved.kind == "curved"
    assert "smallest scale is used" in curved.why[0]
    sheet = np.hstack([10 * rng.uniform(size=(1500, 2)), np.zeros((1500, 18))]) + rng.normal(0, 0.05, (1500, 20))
    noisy = dimension.consensus(sheet)
    assert noisy.kind == "falling"
    assert noisy.value == 2
    assert any("TwoNN" in reason for reason in noisy.why)
    digits = dimension.consensus(datasets.load("digits").X)
    assert digits.kind == "apart"
    assert 7 <= digits.value <= 10
    assert "Angles" in digits.why[0]


def test_units_order_and_threads_change_nothing():
    X = bent_sheet(400, 4, np.random.default_rng(5))
    reference = dimension.consensus(X)
    for moved in (1e6 * X, 1e-6 * X, X @ turned(30, 30, np.random.default_rng(0))):
        found = dimension.consensus(moved)
        assert np.isclose(found.measured, reference.measured, rtol=1e-5)
        assert found.kind == reference.kind
    assert dimension.consensus(X, n_jobs=1).measured == dimension.consensus(X, n_jobs=2).measured
    mixed = dimension.consensus(X[np.random.default_rng(1).permutation(400)])
    assert abs(mixed.measured - reference.measured) < 0.05 * reference.measured


def test_input_of_all_kinds():
    X = np.random.default_rng(6).uniform(size=(300, 3))
    reference = dimension.consensus(X)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    for found in (dimension.consensus(sp.csr_array(X)), dimension.consensus(D, metric="precomputed")):
        assert np.isclose(found.measured, reference.measured, rtol=1e-5)
    scaled = dimension.consensus(X * [1.0, 30.0, 900.0], metric="mahalanobis")
    assert abs(scaled.measured - reference.measured) < 0.1
    graph = neighbor_graph(X, NeighborRule(25).resolve(300), Run(0))[0]
    by_graph = dimension.consensus(graph)
    assert by_graph.kind == "counts"
    assert by_graph.value == 3
    assert any("no angles" in reason for reason in by_graph.why)
    assert isinstance(graph, NeighborGraph)


def test_duplicates_ties_and_few_points():
    X = np.random.default_rng(7).uniform(size=(400, 3))
    tripled = dimension.consensus(np.repeat(X, 3, axis=0))
    assert tripled.value == 3
    assert "800 of 1,200 points are duplicates" in tripled.why[-1]
    assert abs(tripled.measured - dimension.consensus(X).measured) < 0.1
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    assert dimension.consensus(grid).value == 2
    rounded = dimension.consensus(np.round(30 * X))
    assert rounded.value == 3
    with pytest.raises(ValueError, match="at least 20 different points"):
        dimension.consensus(X[:10])
    with pytest.raises(ValueError, match="at least 20 different points; got 2"):
        dimension.consensus(np.repeat(np.eye(2), 30, axis=0))
    with pytest.raises(ValueError, match="identical"):
        dimension.consensus(np.ones((40, 3)))
    assert 2 <= dimension.consensus(X[:30]).value <= 4


def test_a_consensus_prints_its_estimates_and_reasons():
    found = dimension.consensus(np.random.default_rng(0).uniform(size=(200, 2)))
    assert repr(found).startswith("Consensus(2, ")
    text = str(found)
    assert "maximum_likelihood" in text
    assert found.why[0] in " ".join(text.split())
    assert set(found.used) <= set(found.estimates)
    assert int(found) == found.value


def line_disk_ball(n, rng):
    line = np.column_stack([np.zeros((n, 2)), rng.uniform(-1, 0, n)])
    disk = ball(n, 2, rng)
    disk = np.column_stack([disk[:, 0], np.zeros(n), disk[:, 1] + 1])
    return np.vstack([line, disk, ball(n, 3, rng) + np.array([0, 0, 3])]), np.repeat([1, 2, 3], n)


def test_local_values_tell_a_line_from_a_disk_and_a_ball():
    X, truth = line_disk_ball(700, np.random.default_rng(8))
    found = dimension.local(X)
    assert found.varies
    assert sorted(found.pieces) == [1, 2, 3]
    assert (np.round(found.values) == truth).mean() > 0.9
    # Smoothing pays: a point's own value is off by a quarter.
    assert np.abs(found.values - truth).mean() < 0.5 * np.nanmean(np.abs(found.own - truth))
    named = [f"around {d}" in found.why for d in (1, 2, 3)]
    assert all(named)


@pytest.mark.parametrize("name", ["line", "roll", "cube 3", "sheet 10", "Gaussian 20", "sphere 5"])
def test_local_values_do_not_vary_where_the_dimension_is_one(name):
    found = dimension.local(MANIFOLDS[name][1](1500, np.random.default_rng(9)))
    assert not found.varies
    assert found.pieces == {}


def test_local_values_by_definition():
    X = np.random.default_rng(10).normal(size=(80, 3))
    found = dimension.local(X, n_neighbors=6)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    order = np.argsort(D, axis=1)[:, 1:7]
    logs = np.array([[np.log(D[i, order[i, 5]] / D[i, order[i, j]]) for j in range(5)] for i in range(80)])
    for i in (0, 33):
        members = [i, *order[i]]
        assert np.isclose(found.values[i], 1 / logs[members].mean(), rtol=1e-9)


def test_scales_by_definition():
    X = np.random.default_rng(11).normal(size=(100, 3))
    found = dimension.by_scale(X, sample=100)
    D = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, 1:]
    assert found.n_neighbors.tolist() == [2, 4, 8, 16]
    for value, b in zip(found.values, found.n_neighbors, strict=True):
        spacings = [j * np.log(D[i, j] / D[i, j - 1]) for i in range(100) for j in range(b // 2, b)]
        assert np.isclose(value, 1 / np.mean(spacings), rtol=1e-9)
    assert np.isclose(found.values[0], 1 / np.log(D[:, 1] / D[:, 0]).mean(), rtol=1e-9)


@pytest.mark.parametrize("d", [3, 8])
def test_the_plateau_of_a_ball_spans_all_scales(d):
    found = dimension.by_scale(ball(3000, d, np.random.default_rng(d)))
    assert found.plateau == (0, len(found.values) - 1)
    assert abs(found.value / d - 1) < 0.04
    # Without the correction the border lowers the largest scale by more than a plateau may change.
    assert found.values[-1] < 0.9 * found.corrected[-1]


def test_noise_below_the_plateau_and_curvature_above_it():
    X = datasets.swiss_roll(4000, noise=0.4, random_state=0).X
    found = dimension.by_scale(X)
    assert found.values[0] > 2.6
    assert round(found.value) == 2
    assert found.plateau[0] > 0
    assert "noise" in found.why[0]
    assert "curved" in found.why[-1]
    assert "plateau" in str(found)
    low, high = found.radius[list(found.plateau)]
    assert low > 0.4
    assert high < 10


def test_no_dimension_below_zero_is_shown():
    """Of many small groups the growth of the number of neighbors cannot be followed to the smallest scale."""
    rng = np.random.default_rng(0)
    groups = 3 * rng.normal(size=(40, 1, 30)) + rng.uniform(0.3, 1, size=(40, 1, 1)) * rng.normal(size=(40, 10, 30))
    rows = groups.reshape(-1, 30)
    assert gather(measure(as_space(rows), 40, 2000, 0, None), Run(0)).value("likelihood_zero_scale") < 0
    found = dimension.consensus(rows)
    assert all(estimate.value > 0 for estimate in found.estimates.values())
    assert "tends to" not in str(found)
    assert max(map(len, str(found).splitlines())) <= REASON_WIDTH
