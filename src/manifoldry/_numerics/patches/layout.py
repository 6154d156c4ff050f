"""The layout of an atlas: patches stitched and averaged in n_components dimensions, with maps in both directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.sparse import issparse

from manifoldry._core.chunks import TreeReduction, rows_per_chunk
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph, Spectrum
from manifoldry._numerics.extension.components import padded, side_by_side
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.patches.atlas import MIN_PATCHES, Atlas, ChartOptions, build_atlas, voronoi_atlas
from manifoldry._numerics.patches.charts import Charts, CurvedCharts
from manifoldry._numerics.patches.cover import (
    MAX_STEP_COLUMNS,
    MIN_COMPILED_POINTS,
    MIN_SWEPT_ROWS,
    Cover,
    Membership,
    VoronoiCover,
    by_number,
    nearest_center,
    padded_lists,
)
from manifoldry._numerics.patches.overlaps import (
    AlignedPatches,
    Overlaps,
    Stitched,
    blend,
    find_overlaps,
    merged_overlaps,
    stitch,
)
from manifoldry._numerics.ranks import MIN_TRUST_GAIN, most_trustworthy
from manifoldry._numerics.scaling import principal_rotation, rotated_spectrum

MAX_PLACED_ROWS = 200_000  # new points mapped at a time, which bounds the memory
MAX_DENSE_ENTRIES = 8_000_000  # entries of sparse rows made dense at a time


@dataclass(frozen=True)
class UnfoldedPatches:
    """The coordinates (n, r) of points, the stitched patches in their axes, and the spectrum in all dimensions."""

    coordinates: FloatArray
    stitched: Stitched
    spectrum: Spectrum
    disagreement: FloatArray  # root mean square distance (n,) of a point's images from their mean


def blended_entries(
    members: Membership,
    f: FloatArray,
    stitched: AlignedPatches,
    run: Run,  # noqa: ARG001
) -> tuple[FloatArray, FloatArray]:
    """Return the mean image of each point, and the root mean square distance of its images from it."""
    return blend(members, stitched.images(members.patches, f))


def sample_blend(
    members: Membership, f: FloatArray, stitched: AlignedPatches, run: Run
) -> tuple[FloatArray, FloatArray]:
    """Return the same for a large sample, by compiled loops."""
    from manifoldry._numerics.kernels.patch_rows import blend_entries

    n, turns = members.n_points, np.ascontiguousarray(stitched.frames[:, : f.shape[1]])
    entries = members.starts, members.patches, members.weights, np.ascontiguousarray(f), turns, stitched.shifts
    mean, disagreement = np.empty((n, stitched.shifts.shape[1])), np.empty(n)
    run.map(lambda lo, hi: blend_entries(*entries, lo, hi, mean, disagreement), run.shares(n, MIN_SWEPT_ROWS))
    return mean, disagreement


def unfold(members: Membership, f: FloatArray, stitched: Stitched, n_components: int, run: Run) -> UnfoldedPatches:
    """Average the images of each point and rotate every component to its principal axes (5.14)."""
    members, entries = at_home(members, stitched)
    blended = sample_blend if members.n_points >= MIN_COMPILED_POINTS else blended_entries
    wide, disagreement = blended(members, f[entries], stitched, run)
    component = np.zeros(members.n_points, dtype=np.int64)
    component[members.points] = stitched.components[members.patches]
    frames, shifts = stitched.frames.copy(), stitched.shifts.copy()
    for label in range(stitched.n_components):
        inside, patches = component == label, stitched.components == label
        if not inside.any():
            continue
        inside = slice(None) if inside.all() else inside
        wide[inside], axes, mean = principal_rotation(wide[inside])
        frames[patches], shifts[patches] = frames[patches] @ axes, (shifts[patches] - mean) @ axes
    spectrum = rotated_spectrum(wide)
    wide, frames, shifts = (padded(part, n_components)[..., :n_components] for part in (wide, frames, shifts))
    if stitched.n_components > 1:
        move_side_by_side(wide, component, shifts, stitched.components)
    return UnfoldedPatches(wide, replace(stitched, frames=frames, shifts=shifts), spectrum, disagreement)


def at_home(members: Membership, stitched: AlignedPatches) -> tuple[Membership, Any]:
    """Return the entries in the component of their point's heaviest patch, and their indices."""
    if stitched.n_components == 1:
        return members, slice(None)
    component = stitched.components[members.heaviest()]
    mask = stitched.components[members.patches] == component[members.points]
    return members[mask], mask


def move_side_by_side(
    coordinates: FloatArray, component: IntArray, shifts: FloatArray, patch_component: IntArray
) -> None:
    """Move the components of points side by side, and those of the patches with them, in place."""
    present = np.unique(component)
    moved = side_by_side([coordinates[component == label] for label in present])
    for label, (rows, shift) in zip(present, moved, strict=True):
        coordinates[component == label] = rows
        shifts[patch_component == label] += shift


@dataclass(frozen=True)
class PatchMap:
    """Out-of-sample map: the weighted mean of a point's images in its patches."""

    cover: Cover
    charts: Charts
    stitched: AlignedPatches

    def __call__(self, X: Array, run: Run) -> FloatArray:
        n, columns = X.shape
        Y = np.empty((n, self.stitched.shifts.shape[1]))
        n_rows = max(1, MAX_DENSE_ENTRIES // columns) if issparse(X) else MAX_PLACED_ROWS
        for lo, hi in run.ranges(n, min(n_rows, MAX_PLACED_ROWS)):
            rows = dense(X[lo:hi])
            members, _ = at_home(self.cover.members(rows, run), self.stitched)
            f = self.charts.coordinates(rows, members, run)
            Y[lo:hi], _ = blend(members, self.stitched.images(members.patches, f))
        return Y


@dataclass(frozen=True)
class PatchInverse:
    """Inverse map: the weighted mean of the points of the nearby charts at given coordinates."""

    cover: VoronoiCover
    charts: Charts
    stitched: AlignedPatches
    back: FloatArray

    @classmethod
    def of(cls, charts: Charts, stitched: AlignedPatches, overlaps: Overlaps, overlap: float) -> PatchInverse:
        """Build from stitched patches."""
        n = charts.n_patches
        i, j = np.r_[overlaps.first, overlaps.second], np.r_[overlaps.second, overlaps.first]
        adjacency = sp.csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
        cover = VoronoiCover(stitched.shifts, padded_lists(adjacency), overlap)
        return cls(cover, charts, stitched, np.asarray(np.linalg.pinv(stitched.frames), dtype=np.float64))

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        X = np.empty((len(Y), self.charts.means.shape[1]))
        for lo, hi in run.ranges(len(Y), MAX_PLACED_ROWS):
            coordinates = np.asarray(Y[lo:hi], dtype=float)
            members, _ = at_home(self.cover.members(coordinates, run), self.stitched)
            offsets = coordinates[members.points] - self.stitched.shifts[members.patches]
            f = np.einsum("mp,mpr->mr", offsets, self.back[members.patches])
            X[lo:hi], _ = blend(members, self.charts.points(members.patches, f, run))
        return X


@dataclass(frozen=True)
class CenteredPatchMap:
    """Out-of-sample map by patches about an ``origin``: rows far from zero are rounded before, not after."""

    origin: FloatArray
    place: PatchMap

    def __call__(self, X: Array, run: Run) -> FloatArray:
        if run.gpu is not None and PatchLoops.exist_for(self.place.cover, self.place.charts) and not issparse(X):
            from manifoldry._numerics.gpu.patches import DevicePatches

            loops = PatchLoops.of(self.place.cover, self.place.charts)
            return DevicePatches(loops, self.origin, run).blend(X, self.place.stitched)[0]
        n, columns = X.shape
        Y = np.empty((n, self.place.stitched.shifts.shape[1]))
        for lo, hi in run.ranges(n, max(1, MAX_DENSE_ENTRIES // columns)):
            Y[lo:hi] = self.place(dense(X[lo:hi]) - self.origin, run)
        return Y


@dataclass(frozen=True)
class CenteredPatchInverse:
    """Inverse map by patches about an ``origin``."""

    origin: FloatArray
    lead: PatchInverse

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        lead = self.lead
        if run.gpu is not None and PatchLoops.exist_for(lead.cover, lead.charts) and Y.shape[1] <= MAX_STEP_COLUMNS:
            from manifoldry._numerics.gpu.patches import invert_points

            loops, charts = PatchLoops.of(lead.cover, lead.charts), cast(CurvedCharts, lead.charts)
            return invert_points(Y, loops, charts, lead.stitched, lead.back, self.origin, run)
        return self.lead(Y, run) + self.origin


MAX_PATCH_DIMENSION = 8
"""Largest measured dimension of patches: digits in 18 patches of 8 dimensions take 2 s, of 16 dimensions 9 s."""
MIN_ISOMAP_GAIN = 0.01
"""Gain in trustworthiness at which Isomap replaces patches or PCA, which keep the scale (`benchmarks/fallbacks.py`)."""


@dataclass(frozen=True)
class PatchLayout:
    """An atlas of a sample, the overlaps of its patches (by the sample or by all points), and the sample laid out."""

    atlas: Atlas
    overlaps: Overlaps
    well_conditioned: Array  # mask of the overlaps
    active: Array  # mask of the overlaps that the patches were stitched with
    unfolded: UnfoldedPatches

    def agrees_with(self, graph: NeighborGraph, run: Run) -> bool:
        """Return whether edges of the sample's graph keep the lengths that they have in the charts."""
        return self.atlas.agrees_with(graph, self.unfolded.coordinates, run)


def lay_out(
    atlas: Atlas,
    n_components: int,
    run: Run,
    *,
    overlaps: Overlaps | None = None,
    max_rank: int | None = None,
    start: FloatArray | None = None,
) -> PatchLayout:
    """Stitch the patches of an atlas, in at most ``max_rank`` dimensions, and unfold its points.

    ``overlaps`` of more points may replace those of the atlas; ``start`` holds initial frames and shifts.
    """
    overlaps, sizes = atlas.overlaps if overlaps is None else overlaps, atlas.charts.sizes
    active, well_conditioned = overlaps.active(sizes)
    stitched = stitch(overlaps[active], sizes, run, max_rank, start)
    with run.stage("unfolding"):
        unfolded = unfold(atlas.members, atlas.coordinates, stitched, n_components, run)
    return PatchLayout(atlas, overlaps, well_conditioned, active, unfolded)


def fallback_layout(
    rows: FloatArray,
    graph: NeighborGraph,
    dimension: int,
    layout: PatchLayout,
    options: ChartOptions,
    run: Run,
    *,
    single: bool,
) -> PatchLayout:
    """Return the layout that preserves neighbors best, for data that is not a surface.

    Candidates are the ``layout``, patches of the measured dimension and, if ``single``, PCA (preferred) and Isomap.
    """
    with run.stage("patches"):
        width = min(max(dimension, options.width), MAX_PATCH_DIMENSION, rows.shape[1])
        wide = replace(options, width=max(width, options.width))
        n_cells = min(MIN_PATCHES, max(1, len(rows) // wide.min_points))
        wide_atlas = voronoi_atlas(rows, graph, n_cells, wide, run)
        single_cover = VoronoiCover(rows.mean(axis=0, keepdims=True), np.zeros((1, 1), dtype=np.int64), options.overlap)
        # A chart of Isomap has no more dimensions than the layout, so that it can be inverted.
        chart_options = (replace(wide, kind="flat"), replace(options, kind="isomap")) if single else ()
        single_atlases = [build_atlas(rows, graph, single_cover, kind, run) for kind in chart_options]
    n_components = layout.unfolded.coordinates.shape[1]
    wide_layout, *single_layouts = (lay_out(atlas, n_components, run) for atlas in (wide_atlas, *single_atlases))
    with run.stage("comparison"):
        best = _most_trusted(rows, [*single_layouts[:1], layout, wide_layout], run)
        return _most_trusted(rows, [best, *single_layouts[1:]], run, gain=MIN_ISOMAP_GAIN)


def _most_trusted(rows: FloatArray, layouts: list[PatchLayout], run: Run, gain: float = MIN_TRUST_GAIN) -> PatchLayout:
    return layouts[most_trustworthy(rows, [layout.unfolded.coordinates for layout in layouts], run, gain=gain)]


MIN_COMPILED_ROWS = 300_000
"""Fewest rows for compiled loops: they save half a microsecond a row, and take a quarter of a second to load."""


@dataclass(frozen=True)
class PatchLoops:
    """Voronoi cells and curved charts as the compiled loops read them; both loops need the cell of each row."""

    centers: FloatArray
    arrays: tuple[tuple[Any, ...], tuple[Any, ...]]  # of the cells and of the charts
    pairs: IntArray  # the overlap of two patches of a cell, by their places in its list (c, w + 1, w + 1)
    keys: IntArray  # first * c + second of each overlap
    width: int

    @staticmethod
    def exist_for(cover: Cover, charts: Charts) -> bool:
        """Return whether there are loops for such patches; rows of many columns are left to BLAS."""
        cells = isinstance(cover, VoronoiCover) and isinstance(charts, CurvedCharts)
        return cells and charts.means.shape[1] <= MAX_STEP_COLUMNS

    @classmethod
    def of(cls, cover: Cover, charts: Charts) -> PatchLoops:
        """Return the tables of a cover and its charts, for which loops `exist_for`."""
        cover, charts, c = cast(VoronoiCover, cover), cast(CurvedCharts, charts), cover.n_patches
        lists = np.column_stack([np.arange(c), cover.neighbors])
        one, other = lists[:, :, None], lists[:, None, :]
        keys, pairs = np.unique(np.minimum(one, other) * c + np.maximum(one, other), return_inverse=True)
        shape = (c, lists.shape[1], lists.shape[1])
        pairs = pairs.reshape(shape).astype(np.int32)
        return cls(cover.centers, (cover.tables, charts.tables), pairs, keys, charts.width)

    def overlaps(self, rows: FloatArray, cells: IntArray) -> Overlaps:
        """Return all pairs of patches that share some of the rows."""
        from manifoldry._numerics.kernels.patch_rows import add_overlaps

        E, width, c = len(self.keys), 2 * self.width, len(self.centers)
        counts, sums, squares = np.zeros(E, dtype=np.int64), np.zeros((E, width)), np.zeros((E, width, width))
        add_overlaps(rows, *self._by_cell(cells), *self.arrays, self.pairs, counts, sums, squares)
        shared = counts > 0
        keys, counts = self.keys[shared], counts[shared]
        means, moments = sums[shared] / counts[:, None], squares[shared] / counts[:, None, None]
        moments += np.tril(moments, -1).swapaxes(1, 2)
        return Overlaps(keys // c, keys % c, counts, means.reshape(-1, 2, width // 2), moments)

    def blend(self, rows: FloatArray, cells: IntArray, stitched: AlignedPatches) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each row's images in its patches, and their root mean square distance from it."""
        from manifoldry._numerics.kernels.patch_rows import blend_images

        mean, disagreement = np.empty((len(rows), stitched.shifts.shape[1])), np.empty(len(rows))
        turns = np.ascontiguousarray(stitched.frames[:, : self.width])
        shifts = np.ascontiguousarray(stitched.shifts)
        blend_images(rows, *self._by_cell(cells), *self.arrays, turns, shifts, stitched.components, mean, disagreement)
        return mean, disagreement

    def _by_cell(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows in the order of their cells, and where those of each cell begin."""
        c = len(self.centers)
        return by_number(cells, c), np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=c))])


PlaceRows = Callable[[Stitched], tuple[FloatArray, FloatArray]]
"""From stitched patches to the coordinates of some rows, and the disagreement of their images."""


@dataclass(frozen=True)
class ChunkOverlaps:
    """The work of a pass over chunked data: the overlaps of patches by the rows of one chunk."""

    cover: Cover
    charts: Charts
    origin: FloatArray | float = 0.0  # subtracted from the rows before
    compiled: bool = False  # whether Voronoi cells and curved charts of few columns use compiled loops

    @classmethod
    def of(cls, atlas: Atlas, origin: FloatArray, n_rows: int) -> ChunkOverlaps:
        """Return the work of a pass over ``n_rows`` rows in all, which decide whether compiling pays."""
        compiled = n_rows >= MIN_COMPILED_ROWS and PatchLoops.exist_for(atlas.cover, atlas.charts)
        return cls(atlas.cover, atlas.charts, origin, compiled)

    @cached_property
    def loops(self) -> PatchLoops:
        """The compiled loops over rows."""
        return PatchLoops.of(self.cover, self.charts)

    def __call__(self, rows: Array, start: int, run: Run) -> Overlaps:  # noqa: ARG002
        return self.chart(rows, run)[1]

    def chart(self, rows: Array, run: Run) -> tuple[PlaceRows, Overlaps]:
        """Return a function that maps these rows by stitched patches, and the overlaps."""
        rows = dense(rows) - self.origin
        if self.compiled:
            rows = np.ascontiguousarray(rows, dtype=np.float64)
            cells = nearest_center(rows, self.loops.centers, run, compiled=True)
            return partial(self.loops.blend, rows, cells), self.loops.overlaps(rows, cells)
        members = self.cover.members(rows, run)
        f = self.charts.coordinates(rows, members, run)
        return partial(_blend_members, members, f), find_overlaps(members, f, self.charts.n_patches)


def _blend_members(members: Membership, f: FloatArray, stitched: Stitched) -> tuple[FloatArray, FloatArray]:
    members, entries = at_home(members, stitched)
    return blend(members, stitched.images(members.patches, f[entries]))


def chart_points(X: Array, atlas: Atlas, origin: FloatArray, run: Run) -> tuple[list[PlaceRows], Overlaps]:
    """Return the functions that map the chunks of X by stitched patches, and the overlaps of all points.

    Chunks and the order of merging are those of chunked data, so that the overlaps are bit-identical to its.
    """
    if run.gpu is not None and PatchLoops.exist_for(atlas.cover, atlas.charts):
        from manifoldry._numerics.gpu import patches

        return patches.chart_points(X, PatchLoops.of(atlas.cover, atlas.charts), origin, run)
    work = ChunkOverlaps.of(atlas, origin, len(X))
    ranges = run.ranges(len(X), rows_per_chunk(X.shape[1]))
    blocks = run.map(lambda lo, hi: work.chart(X[lo:hi], Run(run.seed, 1)), ranges, blas=True)
    total = TreeReduction(merged_overlaps)
    for _, overlaps in blocks:
        total.add(overlaps)
    return [place for place, _ in blocks], total.total()


def map_charted_points(
    charted: list[PlaceRows], shape: tuple[int, int], stitched: Stitched, run: Run
) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates (n, r) of the charted points of a table of this shape, and their disagreement (n,)."""
    if len(charted) == 1:
        return charted[0](stitched)
    n, n_columns = shape
    coordinates, disagreement = np.empty((n, stitched.shifts.shape[1])), np.empty(n)

    def write(place: PlaceRows, lo: int, hi: int) -> None:
        coordinates[lo:hi], disagreement[lo:hi] = place(stitched)

    ranges = run.ranges(n, rows_per_chunk(n_columns))
    run.map(write, [(place, lo, hi) for place, (lo, hi) in zip(charted, ranges, strict=True)])
    return coordinates, disagreement
