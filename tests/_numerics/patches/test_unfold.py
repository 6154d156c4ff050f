"""Unfolding: flat pieces whole again, pieces without a tie side by side, and the ways in and out for new points."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.patches.atlas import ChartOptions, voronoi_atlas
from manifoldry._numerics.patches.layout import PatchInverse, PatchMap, unfold
from manifoldry._numerics.patches.overlaps import stitch
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph


def unfolded(X, n_components=2, n_cells=9, kind="curved", width=2):
    """Return atlas, unfolding, and the maps in and out."""
    graph = symmetrize(neighbor_graph(X, NeighborRule(8).resolve(len(X)), Run(0, 1))[0])
    atlas = voronoi_atlas(X, graph, n_cells, ChartOptions(width, kind, None, 0.3, False), Run(0, 1))
    overlaps = atlas.overlaps[atlas.overlaps.well_conditioned(atlas.charts.sizes)]
    stitched = stitch(overlaps, atlas.charts.sizes, Run(0, 1))
    found = unfold(atlas.members, atlas.coordinates, stitched, n_components, Run(0, 1))
    inward = PatchMap(atlas.cover, atlas.charts, found.stitched)
    outward = PatchInverse.of(atlas.charts, found.stitched, overlaps, 0.3)
    return atlas, found, inward, outward


def plane(seed, n=500, columns=6, noise=0.0):
    rng = np.random.default_rng(seed)
    flat = rng.uniform(size=(n, 2)) * [2.0, 1.0]
    X = flat @ np.linalg.qr(rng.normal(size=(columns, 2)))[0].T + 1.0
    return flat, X + noise * rng.normal(size=X.shape)


def distances(Y):
    return np.linalg.norm(Y[:, None] - Y, axis=2)


def test_a_plane_in_pieces_is_whole_again():
    flat, X = plane(1)
    _, found, _, _ = unfolded(X)
    np.testing.assert_allclose(distances(found.coordinates), distances(flat), atol=1e-8)
    assert found.disagreement.max() < 1e-8
    # The axes are principal: uncorrelated, the longest first, and the spectrum is that of the points.
    centered = found.coordinates
    np.testing.assert_allclose(centered.mean(axis=0), 0, atol=1e-10)
    gram = centered.T @ centered
    np.testing.assert_allclose(np.diag(gram), found.spectrum.values[:2], rtol=1e-9)
    assert abs(gram[0, 1]) < 1e-9 * gram[0, 0]
    np.testing.assert_allclose(found.spectrum.values[2:], 0, atol=1e-12 * gram[0, 0])


def test_the_axes_do_not_depend_on_how_the_patches_were_placed():
    _, X = plane(2, noise=0.01)
    atlas, found, _, _ = unfolded(X)
    rng = np.random.default_rng(3)
    p = found.stitched.shifts.shape[1]
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
    moved = replace(
        found.stitched, frames=found.stitched.frames @ turn, shifts=found.stitched.shifts @ turn + rng.normal(size=p)
    )
    again = unfold(atlas.members, atlas.coordinates, moved, 2, Run(0, 1))
    np.testing.assert_allclose(again.coordinates, found.coordinates, atol=1e-9)
    np.testing.assert_allclose(again.stitched.shifts, found.stitched.shifts, atol=1e-9)


@pytest.mark.parametrize("kind", ["curved", "flat", "geodesic"])
def test_old_points_are_placed_where_they_are_and_new_ones_one_by_one(kind, monkeypatch):
    _, X = plane(4, noise=0.01)
    _, found, inward, _ = unfolded(X, kind=kind)
    np.testing.assert_allclose(inward(X, Run(0, 1)), found.coordinates, atol=1e-9)
    new = plane(5, 60)[1]
    together = inward(new, Run(0, 2))
    np.testing.assert_allclose(np.concatenate([inward(x[None], Run(0, 1)) for x in new]), together, atol=1e-10)
    monkeypatch.setattr("manifoldry._numerics.patches.layout.MAX_PLACED_ROWS", 7)
    np.testing.assert_allclose(inward(new, Run(0, 1)), together, atol=1e-10)
    kept = pickle.loads(pickle.dumps(inward))
    np.testing.assert_array_equal(kept(new, Run(0, 1)), inward(new, Run(0, 1)))


def test_there_and_back_leaves_out_what_the_charts_leave_out():
    """On a noisy plane the way back gives the plane: what is missing is the noise normal to it, four of six columns."""
    _, X = plane(6, 2000, noise=0.02)
    atlas, found, _, outward = unfolded(X, kind="flat")
    back = outward(found.coordinates, Run(0, 1))
    missing = np.sqrt(np.square(back - X).sum(axis=1).mean())
    spread = np.sqrt(atlas.charts.spread[:, :2].sum(axis=1))
    residual = np.sqrt(np.mean(np.square(atlas.charts.residuals * spread)))
    # Patches hold different numbers of points, and the last few at their borders count in two of them.
    assert missing == pytest.approx(residual, rel=0.05)
    assert missing == pytest.approx(0.02 * np.sqrt(4), rel=0.05)


@pytest.mark.parametrize("kind", ["curved", "flat", "geodesic"])
def test_a_plane_is_led_back_to_itself(kind):
    _, X = plane(7)
    _, found, _, outward = unfolded(X, kind=kind)
    back = outward(found.coordinates, Run(0, 1))
    # Paths zigzag, and patches disagree by it: by a hundredth of the plane; the other charts are exact.
    assert np.sqrt(np.square(back - X).sum(axis=1).mean()) < (2e-2 if kind == "geodesic" else 1e-8)
    kept = pickle.loads(pickle.dumps(outward))
    np.testing.assert_array_equal(kept(found.coordinates, Run(0, 2)), back)


def test_pieces_without_a_tie_lie_side_by_side():
    (one, X), (other, Z) = plane(8, 300), plane(8, 300)
    Z = Z + 50.0
    atlas, found, inward, outward = unfolded(np.concatenate([X, Z]))
    assert found.stitched.n_components == 2
    here, there = found.coordinates[:300], found.coordinates[300:]
    np.testing.assert_allclose(distances(here), distances(one), atol=1e-8)
    np.testing.assert_allclose(distances(there), distances(other), atol=1e-8)
    left, right = sorted((here, there), key=lambda piece: piece[0, 0])
    assert left[:, 0].max() < right[:, 0].min()
    assert np.abs(left[:, 1]).max() == pytest.approx(np.abs(right[:, 1]).max(), rel=1e-6)
    np.testing.assert_allclose(inward(np.concatenate([X, Z]), Run(0, 1)), found.coordinates, atol=1e-9)
    np.testing.assert_allclose(outward(found.coordinates, Run(0, 1)), np.concatenate([X, Z]), atol=1e-7)
    assert atlas.charts.n_patches >= 2


def test_fewer_dimensions_than_asked_for_are_filled_with_zeros():
    rng = np.random.default_rng(9)
    X = np.outer(np.sort(rng.uniform(size=200)), [1.0, 2.0, 2.0])
    _, found, inward, outward = unfolded(X, n_components=3, n_cells=5, width=3)
    assert found.coordinates.shape == (200, 3)
    assert np.abs(found.coordinates[:, 1:]).max() < 1e-9
    np.testing.assert_allclose(inward(X, Run(0, 1)), found.coordinates, atol=1e-10)
    np.testing.assert_allclose(outward(found.coordinates, Run(0, 1)), X, atol=1e-9)
