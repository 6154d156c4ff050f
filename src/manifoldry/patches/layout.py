"""The whole layout of an atlas, and wider atlases for data that is no surface."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.patches.atlas import MIN_PATCHES, Atlas, ChartOptions, build_atlas, voronoi_atlas
from manifoldry.patches.cover import Membership, VoronoiCover
from manifoldry.patches.overlaps import Overlaps, find_overlaps
from manifoldry.patches.stitch import stitch
from manifoldry.patches.unfold import UnfoldedPatches, unfold
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, NeighborGraph

MAX_PATCH_DIMENSION = 8
"""Maximum dimension of the patches found by measurement: digits in 18 patches of 8 dimensions take 2 s, of 16
dimensions 9 s."""


@dataclass(frozen=True)
class PatchLayout:
    """An atlas of the sample, the overlaps of its patches over all points, which are firm, and all points laid out.

    ``holding`` are the overlaps by which the patches were stitched.
    """

    atlas: Atlas
    overlaps: Overlaps
    firm: Array
    holding: Array
    unfolded: UnfoldedPatches


def lay_out(X: Array, atlas: Atlas, n_components: int, run: Run, max_rank: int | None = None) -> PatchLayout:
    """Chart all points by an atlas of a sample, stitch its patches, in at most ``max_rank`` dimensions, and unfold."""
    with run.stage("charts"):
        members, coordinates, overlaps = _chart_points(X, atlas, run)
        firm, holding = overlaps.firm(atlas.charts.sizes), overlaps.holding(atlas.charts.sizes)
    stitched = stitch(overlaps[holding], atlas.charts.sizes, run, max_rank)
    with run.stage("unfolding"):
        return PatchLayout(atlas, overlaps, firm, holding, unfold(members, coordinates, stitched, n_components))


def wider_atlases(
    rows: FloatArray, graph: NeighborGraph, dimension: int, options: ChartOptions, run: Run
) -> tuple[Atlas, Atlas]:
    """Return patches of the data's own dimension, and one patch of all points."""
    width = min(max(dimension, options.width), MAX_PATCH_DIMENSION, rows.shape[1])
    wide = replace(options, width=max(width, options.width))
    whole = VoronoiCover(rows.mean(axis=0, keepdims=True), np.zeros((1, 1), dtype=np.int64), options.overlap)
    single = build_atlas(rows, graph, whole, replace(wide, kind="flat"), run)
    n_cells = min(MIN_PATCHES, max(1, len(rows) // wide.min_points))
    return voronoi_atlas(rows, graph, n_cells, wide, run), single


def _chart_points(X: Array, atlas: Atlas, run: Run) -> tuple[Membership, FloatArray, Overlaps]:
    """Return the patches of all points, their coordinates and the overlaps, in charts estimated from a sample."""
    if atlas.members.n_points == len(X):
        return atlas.members, atlas.coordinates, atlas.overlaps
    members = atlas.cover.members(X, run)
    coordinates = atlas.charts.coordinates(X, members, run)
    return members, coordinates, find_overlaps(members, coordinates, atlas.charts.n_patches)
