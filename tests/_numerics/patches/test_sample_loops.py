"""Compiled loops over a sample: k-means, cells, memberships, charts, edges and images are those of slow references."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from helpers import knn_graph
from manifoldry import IPA, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.kernels.kmeans import assign_and_sum, lloyd, seed
from manifoldry._numerics.patches import atlas as atlases
from manifoldry._numerics.patches import cover, layout
from manifoldry._numerics.patches.atlas import ChartOptions, edge_distortions, sample_distortions, voronoi_atlas
from manifoldry._numerics.patches.cover import CellSearch, nearest_center
from manifoldry._numerics.patches.layout import blended_entries, sample_blend
from manifoldry._numerics.patches.overlaps import stitch
from manifoldry.graph import _operations as operations
from manifoldry.graph._operations import label_components

EPS = np.finfo(float).eps
THREADS = [1, 2, 3, 7, 16]


@pytest.fixture
def loops(monkeypatch):
    """Use compiled loops for samples of any size."""
    for module in (cover, layout):
        monkeypatch.setattr(module, "MIN_COMPILED_POINTS", 0)
    monkeypatch.setattr(operations, "MIN_COMPILED_GRAPH", 0)
    monkeypatch.setattr(cover, "MIN_BLOCK_ROWS", 40)


def cloud(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (130, 3, 5), (300, 8, 40), (257, 2, 300)])
def test_nearest_centers_and_sums_of_a_block(n, d, k):
    X, weights = cloud(n + 20, d)
    centers = np.random.default_rng(1).normal(size=(k, d))
    labels, sums = np.full(n + 20, -1), np.zeros((k, d + 2))
    assign_and_sum(X, weights, centers, 10, 10 + n, labels, sums)
    inside = slice(10, 10 + n)
    squares = cdist(X, centers, "sqeuclidean")[inside]
    np.testing.assert_array_equal(labels[inside], squares.argmin(axis=1))
    assert (labels[:10] == -1).all()
    assert (labels[10 + n :] == -1).all()
    expected = np.zeros((k, d + 2))
    terms = weights[inside, None] * np.column_stack([X[inside], np.ones(n), squares.min(axis=1)])
    np.add.at(expected, labels[inside], terms)
    # Sums of at most n terms, each a sum of d products.
    np.testing.assert_allclose(sums, expected, rtol=0, atol=EPS * n * (d + 2) * 100)


def swept(X, weights, k, n_jobs, size=40, n_steps=20):
    """Return seeds, and centers and labels after Lloyd's iteration, by a team of threads."""
    n, rng = len(X), np.random.default_rng(0)
    n_blocks, trials, run = -(-n // size), 2 + int(np.log(k)), Run(0, n_jobs)
    sums, centers = np.add.reduceat(weights, np.arange(0, n, size)), np.empty((k, X.shape[1]))
    draws, work = rng.random((k, trials)), (np.empty((n_blocks, trials)), np.empty(trials, dtype=np.int64))
    run.team(seed, np.ascontiguousarray(X.T), weights, draws, size, np.ones(n), sums, *work, centers)
    seeds, labels = centers.copy(), np.empty(n, dtype=np.int64)
    run.team(lloyd, X, weights, centers, size, n_steps, labels, np.empty((n_blocks, k, X.shape[1] + 2)))
    return draws, seeds, centers, labels


def greedy_seeds(X, weights, draws):
    """Return the seeds of greedy k-means++ for these draws, point by point."""
    nearest, seeds = np.ones(len(X)), []
    for shares in draws:
        ends = np.cumsum(weights * nearest)
        if not seeds:
            nearest = np.full(len(X), np.inf)
        candidates = [int(np.searchsorted(ends, share * ends[-1], side="right")) for share in shares]
        lowered = [np.minimum(nearest, np.square(X - X[i]).sum(axis=1)) for i in candidates]
        best = int(np.argmin([weights @ each for each in lowered]))
        seeds.append(X[candidates[best]])
        nearest = lowered[best]
    return np.array(seeds)


@pytest.mark.parametrize(("n", "d", "k"), [(90, 1, 2), (400, 3, 12), (395, 5, 30)])
def test_seeds_and_means_are_those_of_slow_loops(n, d, k):
    X, weights = cloud(n, d, k)
    draws, seeds, centers, labels = swept(X, weights, k, 1)
    np.testing.assert_array_equal(seeds, greedy_seeds(X, weights, draws))
    expected = seeds.copy()
    for _ in range(20):
        owner = cdist(X, expected, "sqeuclidean").argmin(axis=1)
        for cell in np.unique(owner):
            expected[cell] = np.average(X[owner == cell], axis=0, weights=weights[owner == cell])
    np.testing.assert_array_equal(labels, owner)
    np.testing.assert_allclose(centers, expected, rtol=0, atol=EPS * n * 10)  # means of at most n terms


@pytest.mark.parametrize("n_jobs", THREADS[1:])
def test_a_team_of_any_size_gives_the_same_bits(n_jobs):
    X, weights = cloud(1000, 3)
    for one, other in zip(swept(X, weights, 20, 1), swept(X, weights, 20, n_jobs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_seeds_than_different_rows_repeat_rows():
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 30, axis=0)
    _, seeds, centers, labels = swept(X, np.ones(90), 6, 1)
    assert len(np.unique(seeds[:3], axis=0)) == 3
    np.testing.assert_array_equal(centers[labels], X)


def test_cells_by_loops_are_connected_and_hold_the_rows_nearest_to_their_centers(loops):
    X = datasets.swiss_roll(900, random_state=3).X
    graph = knn_graph(X, 7)
    cells = CellSearch(X, graph, 2, Run(0, 2)).cells(12)
    np.testing.assert_array_equal(cells.labels, cdist(X, cells.centers).argmin(axis=1))
    assert np.array_equal(np.unique(cells.labels), np.arange(len(cells.centers)))
    parts, owners = label_components(cells.labels, graph)
    sizes = np.bincount(parts)
    for cell in range(len(cells.centers)):
        assert sizes[owners == cell].max() >= 0.8 * sizes[owners == cell].sum()


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_components_within_labels_are_those_of_scipy(n_jobs, monkeypatch):
    X = np.random.default_rng(6).uniform(size=(500, 2))
    graph, labels = knn_graph(X, 4), np.random.default_rng(7).integers(0, 9, 500)
    expected = label_components(labels, graph)
    monkeypatch.setattr(operations, "MIN_COMPILED_GRAPH", 0)
    for one, other in zip(label_components(labels, graph, Run(0, n_jobs)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("columns", "width", "even", "kind"), [(3, 2, False, "curved"), (8, 3, True, "flat")])
def test_lists_charts_edges_and_images_are_those_of_numpy(columns, width, even, kind):
    rng = np.random.default_rng(columns)
    u = rng.uniform(-1, 1, (700, width))
    X = np.column_stack([np.sin(u[:, 0]), np.cos(u[:, 0]), u[:, 1:], 0.1 * u[:, :1] * u])[:, :columns]
    X = np.pad(X, ((0, 0), (0, columns - X.shape[1]))) + 1e-3 * rng.normal(size=(700, columns))
    graph, run = knn_graph(X, 8), Run(0, 2)
    atlas = voronoi_atlas(X, graph, 12, ChartOptions(width, kind, None, 0.3, even), Run(0, 1))
    members = atlas.cover.sample_members(X, nearest_center(X, atlas.cover.centers, run), run)
    for name in ("points", "patches"):
        np.testing.assert_array_equal(getattr(members, name), getattr(atlas.members, name))
    # A weight is a polynomial of sums of few products, divided by a reach of about their size.
    np.testing.assert_allclose(members.weights, atlas.members.weights, rtol=0, atol=1e4 * EPS)
    f = atlas.charts.sample_coordinates(X, members, run)
    np.testing.assert_allclose(f, atlas.coordinates, rtol=0, atol=100 * EPS * (columns + width**3))
    changes = [
        distorted(graph, atlas.members, atlas.coordinates, atlas.overlaps, atlas.cover.n_patches, run)
        for distorted in (sample_distortions, edge_distortions)
    ]
    np.testing.assert_allclose(*changes, rtol=0, atol=1e3 * EPS)
    stitched = stitch(atlas.overlaps, atlas.charts.sizes, run)
    images = [blended(atlas.members, atlas.coordinates, stitched, run) for blended in (sample_blend, blended_entries)]
    size = np.abs(stitched.shifts).max() + 1
    for one, other in zip(*images, strict=True):
        # The disagreement is the root of a difference of squares.
        np.testing.assert_allclose(one, other, rtol=0, atol=size * np.sqrt(EPS) / 100)


def test_torn_edges_and_edges_between_overlapping_patches(monkeypatch):
    """Without the members' lists of neighboring patches, no patch contains an edge between cells."""
    X = datasets.swiss_roll(600, random_state=1).X
    graph, run = knn_graph(X, 6), Run(0, 1)
    atlas = voronoi_atlas(X, graph, 20, ChartOptions(2, "curved", None, 0.3, False), run)
    alone = atlas.members[atlas.members.weights == 1]
    f, none = atlas.coordinates[atlas.members.weights == 1], atlas.overlaps[np.zeros(len(atlas.overlaps), dtype=bool)]
    for overlaps in (atlas.overlaps, none):
        arguments = graph, alone, f, overlaps, atlas.cover.n_patches, run
        found, expected = sample_distortions(*arguments), edge_distortions(*arguments)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(found == 1.0, expected == 1.0)
    assert (expected == 1.0).any()


def test_a_fit_by_loops_has_the_same_bits_for_any_number_of_threads_and_unrolls(loops, monkeypatch):
    monkeypatch.setattr(cover, "MIN_SWEPT_ROWS", 64)
    monkeypatch.setattr(atlases, "MIN_SWEPT_ROWS", 64)
    roll = datasets.swiss_roll(1500, random_state=2)
    fits = [IPA(n_jobs=n_jobs).fit(roll.X) for n_jobs in THREADS]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.embedding_, fits[0].embedding_)
        np.testing.assert_array_equal(fit.distortion_, fits[0].distortion_)
    assert fits[0].diagnostics_["contradictions"][-1] < 0.01
    assert nearest_center(roll.X, roll.X[:3], Run(0, 1), compiled=True)[:3].tolist() == [0, 1, 2]
