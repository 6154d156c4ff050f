"""The whole layout of an atlas, the layout of data that is not a surface, and points beyond those of an atlas."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry._core.chunks import Pairwise, rows_per_block
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.patches.atlas import MIN_PATCHES, Atlas, ChartOptions, build_atlas, voronoi_atlas
from manifoldry._numerics.patches.charts import Charts
from manifoldry._numerics.patches.cover import ListedCover, Membership, VoronoiCover
from manifoldry._numerics.patches.overlaps import Overlaps, Stitched, find_overlaps, merged_overlaps, stitch
from manifoldry._numerics.patches.unfold import UnfoldedPatches, place_members, unfold
from manifoldry._numerics.ranks import MIN_TRUST_GAIN, most_trusted

MAX_PATCH_DIMENSION = 8
"""Maximum dimension of the patches found by measurement: digits in 18 patches of 8 dimensions take 2 s, of 16
dimensions 9 s."""


MIN_ISOMAP_GAIN = 0.01
"""Gain in trustworthiness for which Isomap replaces patches or PCA, which keep the scale of the data. Five of 13
real sets gain 0.01 to 0.04 (`benchmarks/fallbacks.py`); of 60 clouds without structure 7 gain 0.01, and 15 0.005."""


@dataclass(frozen=True)
class PatchLayout:
    """An atlas of a sample, the overlaps of its patches, which of them are firm, and the sample laid out.

    ``holding`` are the overlaps by which the patches were stitched; they are those of the sample or of all points.
    """

    atlas: Atlas
    overlaps: Overlaps
    firm: Array
    holding: Array
    unfolded: UnfoldedPatches

    def agrees_with(self, graph: NeighborGraph) -> bool:
        """Tell whether edges of the sample's graph keep the lengths that they have in the charts."""
        return self.atlas.agrees_with(graph, self.unfolded.coordinates)


def lay_out(
    atlas: Atlas,
    n_components: int,
    run: Run,
    *,
    overlaps: Overlaps | None = None,
    max_rank: int | None = None,
    start: FloatArray | None = None,
) -> PatchLayout:
    """Stitch the patches of an atlas, in at most ``max_rank`` dimensions, and unfold the points that it was made of.

    ``overlaps`` of more points than these are taken instead of the atlas's own; ``start`` holds frames and shifts to
    begin with, of patches in one piece.
    """
    overlaps, sizes = atlas.overlaps if overlaps is None else overlaps, atlas.charts.sizes
    firm, holding = overlaps.firm(sizes), overlaps.holding(sizes)
    stitched = stitch(overlaps[holding], sizes, run, max_rank, start)
    with run.stage("unfolding"):
        unfolded = unfold(atlas.members, atlas.coordinates, stitched, n_components)
    return PatchLayout(atlas, overlaps, firm, holding, unfolded)


def layout_without_surface(
    rows: FloatArray,
    graph: NeighborGraph,
    dimension: int,
    found: PatchLayout,
    options: ChartOptions,
    run: Run,
    *,
    whole: bool,
) -> PatchLayout:
    """Return the layout of data that is not a surface that keeps neighbors best.

    It is the one ``found``, or that of patches of the data's own dimension, or, if the ``whole`` may be one patch, that
    of PCA, which is preferred, or of Isomap.
    """
    with run.stage("patches"):
        width = min(max(dimension, options.width), MAX_PATCH_DIMENSION, rows.shape[1])
        wide = replace(options, width=max(width, options.width))
        n_cells = min(MIN_PATCHES, max(1, len(rows) // wide.min_points))
        several = voronoi_atlas(rows, graph, n_cells, wide, run)
        one = VoronoiCover(rows.mean(axis=0, keepdims=True), np.zeros((1, 1), dtype=np.int64), options.overlap)
        # A chart of Isomap has no more dimensions than the layout, so that coordinates lead back to their points.
        kinds = (replace(wide, kind="flat"), replace(options, kind="isomap")) if whole else ()
        alone = [build_atlas(rows, graph, one, these, run) for these in kinds]
    n_components = found.unfolded.coordinates.shape[1]
    wider, *wholes = (lay_out(atlas, n_components, run) for atlas in (several, *alone))
    with run.stage("comparison"):
        best = _most_trusted(rows, [*wholes[:1], found, wider], run)
        return _most_trusted(rows, [best, *wholes[1:]], run, gain=MIN_ISOMAP_GAIN)


def _most_trusted(rows: FloatArray, layouts: list[PatchLayout], run: Run, gain: float = MIN_TRUST_GAIN) -> PatchLayout:
    return layouts[most_trusted(rows, [made.unfolded.coordinates for made in layouts], run, gain=gain)]


@dataclass(frozen=True)
class ChartedRows:
    """The patches of some rows, and the coordinates (M, r) of the entries in their charts."""

    members: Membership
    coordinates: FloatArray


@dataclass(frozen=True)
class BlockOverlaps:
    """What a pass over rows in blocks computes of one: the overlaps of patches by its rows.

    It holds no row of the sample but what a cover or charts need for themselves, so it is small where they are.
    """

    cover: VoronoiCover | ListedCover
    charts: Charts
    origin: FloatArray | float = 0.0  # of the rows that these are of

    def __call__(self, rows: Array, start: int, run: Run) -> Overlaps:  # noqa: ARG002
        """Return the overlaps by the rows of a block."""
        return self.overlaps(self.chart(rows, run))

    def chart(self, rows: Array, run: Run) -> ChartedRows:
        """Return rows in the charts of their patches."""
        rows = dense(rows) - self.origin
        members = self.cover.members(rows, run)
        return ChartedRows(members, self.charts.coordinates(rows, members, run))

    def overlaps(self, charted: ChartedRows) -> Overlaps:
        """Return the overlaps by charted rows."""
        return find_overlaps(charted.members, charted.coordinates, self.charts.n_patches)


def chart_points(X: Array, atlas: Atlas, origin: FloatArray, run: Run) -> tuple[list[ChartedRows], Overlaps]:
    """Return all points, in blocks, in the charts of an atlas of some of them about the ``origin``, and the overlaps.

    Blocks are those of `RowBlocks`, and merged in the same order: the overlaps have the bits that a stream gives.
    """
    work = BlockOverlaps(atlas.cover, atlas.charts, origin)

    def block(lo: int, hi: int) -> tuple[ChartedRows, Overlaps]:
        charted = work.chart(X[lo:hi], Run(run.seed, 1))
        return charted, work.overlaps(charted)

    found = run.map(block, run.ranges(len(X), rows_per_block(X.shape[1])), blas=True)
    total = Pairwise(merged_overlaps)
    for _, overlaps in found:
        total.add(overlaps)
    return [charted for charted, _ in found], total.total()


def place_points(charted: list[ChartedRows], stitched: Stitched, run: Run) -> tuple[FloatArray, FloatArray]:
    """Return the places (n, r) of charted points, and the disagreement (n,) of their images."""

    def place(part: ChartedRows) -> tuple[FloatArray, FloatArray]:
        return place_members(part.members, part.coordinates, stitched)

    placed = run.map(place, [(part,) for part in charted])
    return np.concatenate([places for places, _ in placed]), np.concatenate([apart for _, apart in placed])
