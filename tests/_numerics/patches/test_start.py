"""Starts by patches: which data is a flat surface, that it begins unrolled, and what other data begins with."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry import datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.patches.start import (
    MAX_START_SAMPLE,
    MIN_SURFACE_POINTS,
    find_start,
    surface_layout,
    torn_share,
)
from manifoldry.graph._search import NeighborRule, neighbor_graph


def error(Y, truth):
    return metrics.procrustes(Y, truth, kind="similarity").error


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("make", "settings", "n", "most"),
    [
        # Charts of 20 patches or so are off by a hundredth of a patch's width, which is a fifth of the whole; noise
        # of 0.3 in a roll 54 long and 20 wide leaves its own variance, 1e-3 of the narrow side's, and bends besides.
        (datasets.swiss_roll, {"hole": True}, 2000, 5e-3),
        (datasets.swiss_roll, {"noise": 0.3}, 2000, 2e-2),
        (datasets.s_curve, {}, 600, 5e-3),
        (datasets.swiss_roll, {}, MAX_START_SAMPLE + 1000, 5e-3),
    ],
    ids=["holed", "noisy", "few", "sampled"],
)
def test_sheets_begin_unrolled(make, settings, n, most, seed):
    sheet = make(n, random_state=seed, **settings)
    Y, _ = surface_layout(sheet.X, 2, Run(seed), only_surfaces=True)
    assert Y is not None
    assert Y.shape == (n, 2)
    assert error(Y, sheet.truth) < most


def cloud(n=600):
    return np.random.default_rng(0).standard_normal((n, 3))


def two_sheets(n=800):
    flat = np.random.default_rng(1).uniform(size=(n, 2)) * [2, 1]
    return np.column_stack([flat, np.where(np.arange(n) < n // 2, 0.0, 5.0)])


NO_SHEETS = {
    "sphere": lambda: datasets.sphere(1000).X,
    "torus": lambda: datasets.torus(1500).X,
    "curve": lambda: datasets.helix(1000).X,
    "solid": cloud,
    "clusters": lambda: datasets.gaussian_clusters(600).X,
    "two sheets": two_sheets,
    "few points": lambda: datasets.swiss_roll(MIN_SURFACE_POINTS - 1).X,
    "one column": lambda: cloud()[:, :1],
}


@pytest.mark.parametrize("name", NO_SHEETS)
def test_what_is_no_flat_surface_does_not_begin_as_one(name):
    X = NO_SHEETS[name]()
    assert surface_layout(X, 2, Run(0), only_surfaces=True)[0] is None
    assert find_start("auto", X, _affinities(X), 2, Run(0), otherwise="random").kind == "random"


def test_patches_that_are_asked_for_lay_out_anything():
    for X in (cloud(), cloud(20), two_sheets()):
        start = find_start("ipa", X, _affinities(X), 2, Run(0))
        assert start.kind == "ipa"
        assert start.places.shape == (len(X), 2)
        assert np.isfinite(start.places).all()
        np.testing.assert_allclose(start.places.mean(axis=0), 0.0, atol=1e-9)
        assert start.places.std(axis=0).max() == pytest.approx(1.0, abs=1e-3)  # jitter, if any, adds 1e-4


def test_the_unit_and_the_orientation_of_the_data_do_not_matter():
    sheet = datasets.swiss_roll(1200)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    for X in (1e-6 * sheet.X, 1e6 * sheet.X @ turn + 1e7):
        assert error(surface_layout(X, 2, Run(0), only_surfaces=True)[0], sheet.truth) < 5e-3


def _affinities(X):
    graph = neighbor_graph(X, NeighborRule(5).resolve(len(X)), Run(0))[0]
    W = csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(len(X), len(X)))
    return csr_array(W + W.T)


def test_only_dense_rows_in_the_euclidean_metric_are_looked_at():
    X = datasets.swiss_roll(800).X
    W = _affinities(X)
    assert find_start("auto", X, W, 2, Run(0)).kind == "ipa"
    assert find_start("auto", X, W, 2, Run(0), metric="cosine").kind == "pca"
    assert find_start("auto", X, W, 2, Run(0), metric=lambda a, b: abs(a - b).max()).kind == "pca"
    assert find_start("auto", csr_array(X), W, 2, Run(0)).kind == "pca"
    assert find_start("auto", cdist(X, X), W, 2, Run(0), metric="precomputed").kind == "pca"
    assert find_start("auto", W, W, 2, Run(0), metric="precomputed").kind == "spectral"
    assert find_start("auto", cdist(X, X), W, 2, Run(0), metric="precomputed", otherwise="spectral").kind == "spectral"
    graph = neighbor_graph(X, NeighborRule(5).resolve(len(X)), Run(0))[0]
    assert find_start("auto", graph, W, 2, Run(0)).kind == "spectral"


def test_of_a_given_start_the_shape_counts():
    X, given = cloud(30), np.random.default_rng(4).normal(size=(30, 2)) + 7.0
    start = find_start(given, X, _affinities(X), 2, Run(0))
    assert start.kind == "given"
    expected = given - given.mean(axis=0)
    # Rounded to 2**-14 of its width, which is below 8 standard deviations.
    np.testing.assert_allclose(start.places, expected / expected.std(axis=0).max(), atol=8 * 2.0**-14)


def test_torn_affinities_are_those_between_places_far_apart():
    X = np.arange(10.0)[:, None]
    places = np.column_stack([3 * np.where(X[:, 0] < 5, X[:, 0], X[:, 0] + 100), np.zeros(10)])
    W = np.diag(np.full(9, 2.0), 1)
    W[4, 5] = 1.0
    W = csr_array(W + W.T)
    assert torn_share(X, places, W) == pytest.approx(2 / 34)
    assert torn_share(X, 7 * X, W) == 0
    assert torn_share(np.zeros((10, 1)), places, W) == 0  # lengths of nothing say nothing
