"""Compiled loops over rows in patches: overlaps and images are those of the membership lists, for any threads."""

from dataclasses import replace

import numpy as np
import pytest

from manifoldry import IPA, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.patches import layout
from manifoldry._numerics.patches.atlas import ChartOptions, voronoi_atlas
from manifoldry._numerics.patches.layout import ChunkOverlaps, PatchLoops
from manifoldry._numerics.patches.overlaps import stitch
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.methods.unfolding import _ipa as ipa

EPS = np.finfo(float).eps


def bent_sheet(n, columns, seed=0):
    """Return rows on a bent surface in a turned space of ``columns`` dimensions."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (n, 2))
    X = np.zeros((n, max(columns, 3)))
    X[:, :3] = np.column_stack([np.sin(u[:, 0]), np.cos(u[:, 0]), u[:, 1] + 0.1 * u[:, 1] ** 2])
    X = X @ np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
    return (X[:, :columns] if columns < 3 else X) + 1e-3 * rng.standard_normal((n, columns))


def atlas_of(X, width, kind="curved", even=False, n_cells=12):
    graph = symmetrize(neighbor_graph(X, NeighborRule(8).resolve(len(X)), Run(0, 1))[0])
    return voronoi_atlas(X, graph, n_cells, ChartOptions(width, kind, None, 0.3, even), Run(0, 1))


def assert_same_passes(atlas, X, apart=False):
    """Compare the two ways of one pass over the rows X."""
    listed, compiled = (
        ChunkOverlaps(atlas.cover, atlas.charts, 0.0, compiled=compiled).chart(X, Run(0, 1))
        for compiled in (False, True)
    )
    for name in ("first", "second", "counts"):
        np.testing.assert_array_equal(getattr(compiled[1], name), getattr(listed[1], name))
    # Coordinates are sums of d products and cubic terms of these, means are sums over the shared points.
    size = np.abs(X).max() + 1.0
    bound = EPS * (listed[1].counts.max(initial=1) + 10 * X.shape[1] + 10 * atlas.charts.width**3)
    np.testing.assert_allclose(compiled[1].means, listed[1].means, rtol=0, atol=bound * size)
    np.testing.assert_allclose(compiled[1].moments, listed[1].moments, rtol=0, atol=bound * size**2)
    stitched = stitch(listed[1], atlas.charts.sizes, Run(0, 1))
    if apart:
        stitched = replace(stitched, components=np.arange(len(stitched.components)) % 2)
    (Y, spread), (expected, expected_spread) = compiled[0](stitched), listed[0](stitched)
    size += np.abs(stitched.shifts).max()
    bound = 100 * EPS * (X.shape[1] + atlas.charts.width**3)
    np.testing.assert_allclose(Y, expected, rtol=0, atol=bound * size)
    # A root of a sum of squares: an error of its terms counts with its root.
    np.testing.assert_allclose(spread, expected_spread, rtol=0, atol=10 * bound * size)


@pytest.mark.parametrize(("columns", "width"), [(1, 1), (2, 2), (3, 1), (3, 2), (5, 3), (8, 4)])
@pytest.mark.parametrize("apart", [False, True])
def test_a_pass_is_that_of_the_membership_lists(columns, width, apart):
    X = bent_sheet(900, columns)
    atlas = atlas_of(X, width)
    assert_same_passes(atlas, bent_sheet(700, columns, 1), apart)


@pytest.mark.parametrize("even", [False, True])
def test_flat_charts_and_equal_weights(even):
    X = bent_sheet(900, 3)
    assert_same_passes(atlas_of(X, 2, "flat", even), X)


def test_rows_far_from_all_patches_and_coincident_rows():
    X = np.concatenate([bent_sheet(600, 3), np.zeros((30, 3)), 50 + bent_sheet(40, 3, 2)])
    assert_same_passes(atlas_of(X, 2), 3 * X)


@pytest.mark.parametrize("make", [np.asfortranarray, np.float32])
def test_rows_in_columns_and_in_single_precision(make):
    X = bent_sheet(600, 3)
    atlas = atlas_of(X, 2)
    work = ChunkOverlaps(atlas.cover, atlas.charts, np.zeros(3), compiled=True)
    found, expected = (work(rows, 0, Run(0, 1)) for rows in (make(X), np.ascontiguousarray(make(X), dtype=float)))
    np.testing.assert_array_equal(found.moments, expected.moments)


def test_one_patch():
    X = bent_sheet(100, 3)
    assert_same_passes(atlas_of(X, 2, n_cells=1), X)


def test_there_are_loops_for_cells_and_curved_charts_of_few_columns():
    X = bent_sheet(400, 8)
    atlas = atlas_of(X, 2)
    assert PatchLoops.exist_for(atlas.cover, atlas.charts)
    wide = atlas_of(np.column_stack([X, X[:, :1]]), 2)
    assert not PatchLoops.exist_for(wide.cover, wide.charts)
    geodesic = atlas_of(X, 2, "geodesic", n_cells=4)
    assert not PatchLoops.exist_for(geodesic.cover, geodesic.charts)


def test_a_fit_has_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(ipa, "MAX_SAMPLE", 1000)
    monkeypatch.setattr(layout, "MIN_COMPILED_ROWS", 0)
    monkeypatch.setattr(layout, "rows_per_chunk", lambda _: 256)
    X = datasets.swiss_roll(3000).X
    fits = [IPA(n_patches=20, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2, 3, 7, 16)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.embedding_, fits[0].embedding_)
        np.testing.assert_array_equal(fit.disagreement_, fits[0].disagreement_)
