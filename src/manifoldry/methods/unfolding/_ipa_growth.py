"""Patches of a sample that grows: rows near old patches enter their overlaps, rows far from all get cells of their own.

Old charts stay as they are, and old patches keep their numbers; the overlaps are sums over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.dimension import IntrinsicDimension, intrinsic_dimension
from manifoldry._numerics.patches.advice import advice, chart_remarks
from manifoldry._numerics.patches.atlas import Atlas, ChartOptions, History, charted_atlas
from manifoldry._numerics.patches.charts import CurvedCharts, fit_curved_charts, layout_kind
from manifoldry._numerics.patches.cover import (
    MAX_VOLUME_POWER,
    ListedCover,
    VoronoiCover,
    cell_borders,
    find_cells,
    nearest_center,
)
from manifoldry._numerics.patches.layout import (
    CenteredPatchInverse,
    CenteredPatchMap,
    PatchInverse,
    PatchLayout,
    PatchMap,
    lay_out,
)
from manifoldry._numerics.patches.overlaps import Overlaps, Stitched
from manifoldry._numerics.patches.restarts import SCORE_DIGITS, Chosen, Contradiction, edge_ratios
from manifoldry.graph._operations import label_pieces, local_scale

MAX_RAISE, MIN_RAISED_CONTRADICTION = 2.0, 1e-3
"""Factor by which the contradiction of a grown layout may rise, and where that begins to count. On rolls that grow it
falls, from 9e-4 to 2e-4; where the two arms around a hole were not yet held together it rose to 2e-3 and 4e-3."""


@dataclass(frozen=True)
class PatchGrowth:
    """What a model that takes rows later keeps of its rows: these, and how far the cells reached when they were made.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        All rows so far, in the order they came.
    radii : ndarray of shape (c,)
        Distance of the farthest row of each cell from its center, of the rows that the chart was fitted to.
    settings : dict
        The parameters it was made with.
    """

    rows: FloatArray
    radii: FloatArray
    settings: dict[str, Any]


def can_grow(atlas: Atlas, options: ChartOptions) -> bool:
    """Tell whether an atlas takes new cells: around centers, in flat or curved charts of a surface."""
    growing = isinstance(atlas.cover, VoronoiCover) and isinstance(atlas.charts, CurvedCharts)
    return growing and atlas.charts.width == options.width and not atlas.no_surface


def grown_layout(
    model: Any, growth: PatchGrowth, rows: FloatArray, graph: NeighborGraph, options: ChartOptions, run: Run
) -> tuple[FoundLayout, FloatArray] | None:
    """Return the fitted model's patches grown by rows about its mean, and the radii of their cells.

    They are laid out from where they were. None if the points contradict the layout much more than they did before:
    patches do not hold together.
    """
    with run.stage("patches"):
        dimension = intrinsic_dimension(rows)
        atlas, radii = grown_atlas(model.patches_, growth, rows, graph, options, run)
    start = placement_start(model._extension.place.stitched, atlas.overlaps, atlas.charts.sizes)
    layout = lay_out(atlas, model.n_components, run, start=start)
    measure, Y = Contradiction.of(rows, graph, run), layout.unfolded.coordinates
    score, compression = measure(Y), measure.compression(Y)
    if score > max(MIN_RAISED_CONTRADICTION, MAX_RAISE * min(model.diagnostics_["contradictions"])):
        return None
    history = [*model.diagnostics_["edge_changes"], (atlas.charts.n_patches, atlas.distortion)]
    agreed = layout.agrees_with(graph)
    chosen = Chosen((layout, history), graph, score, (round(score, SCORE_DIGITS),), agreed, compression)
    return FoundLayout(graph, dimension, chosen, model.mean_), radii


def cell_radii(rows: FloatArray, cover: VoronoiCover | ListedCover, run: Run) -> FloatArray:
    """Return the distance of the farthest row of each cell from its center, shape (c,); of listed patches nothing."""
    return _radii(rows, cover.centers, run) if isinstance(cover, VoronoiCover) else np.empty(0)


def _radii(rows: FloatArray, centers: FloatArray, run: Run) -> FloatArray:
    labels = nearest_center(rows, centers, run)
    radii = np.zeros(len(centers))
    np.maximum.at(radii, labels, np.linalg.norm(rows - centers[labels], axis=1))
    return radii


def far_rows(rows: FloatArray, n_old: int, centers: FloatArray, radii: FloatArray, graph: NeighborGraph) -> Array:
    """Return which rows are in no old patch, shape (n,).

    A row is far if it is farther from the nearest center than any row was for which that cell's chart was made, or if
    the graph joins it to the cell only through others: it is of another sheet.
    """
    labels = nearest_center(rows, centers, Run(0, 1))
    beyond = np.linalg.norm(rows - centers[labels], axis=1) > radii[labels]
    pieces, _ = label_pieces(labels, graph)
    old = np.zeros(int(pieces.max()) + 1, dtype=bool)
    old[pieces[:n_old][~beyond[:n_old]]] = True
    return beyond | ~old[pieces]


def grown_atlas(
    atlas: Atlas, growth: PatchGrowth, rows: FloatArray, graph: NeighborGraph, options: ChartOptions, run: Run
) -> tuple[Atlas, FloatArray]:
    """Return the atlas of all rows, of which the first are those of ``growth``, and the radii of its cells.

    Rows that are far from all patches are divided into cells as large as the others on average; those too few for a
    chart stay with the nearest patch until more come.
    """
    cover, radii = atlas.cover, growth.radii
    if not isinstance(cover, VoronoiCover) or not isinstance(atlas.charts, CurvedCharts):
        raise TypeError("Only cells around centers, in flat or curved charts, can grow.")
    far = np.flatnonzero(far_rows(rows, len(growth.rows), cover.centers, radii, graph))
    centers = _new_centers(rows, far, graph, cover.n_patches, options, run)
    if len(centers):
        radii = np.concatenate([radii, _radii(rows[far], centers, run)])
        everywhere = np.concatenate([cover.centers, centers])
        labels = nearest_center(rows, everywhere, run)
        cover = replace(cover, centers=everywhere, neighbors=cell_borders(labels, graph, len(everywhere)))
    members = cover.members(rows, run)
    charts = atlas.charts
    if len(centers):
        first = charts.n_patches
        fresh = members[members.patches >= first]
        made = fit_curved_charts(
            rows,
            replace(fresh, patches=fresh.patches - first),
            len(centers),
            options.width,
            run,
            curved=options.kind == "curved",
            share=options.share,
        )
        charts = joined_charts(charts, made)
    return charted_atlas(rows, graph, cover, members, charts, run), radii


def _new_centers(
    rows: FloatArray, far: IntArray, graph: NeighborGraph, n_cells: int, options: ChartOptions, run: Run
) -> FloatArray:
    """Return the centers of cells of the far rows, of as much volume as the old ones.

    A cell is the largest of its connected pieces, and none if that has fewer rows than a chart needs: rows scattered
    along the border of what is known are no patch.
    """
    none = np.empty((0, rows.shape[1]))
    if len(far) < options.min_points:
        return none
    volume = local_scale(graph) ** min(options.width, MAX_VOLUME_POWER)
    elsewhere = max(float(volume.sum() - volume[far].sum()), float(np.finfo(float).tiny))
    wanted = np.rint(float(volume[far].sum()) / elsewhere * n_cells)  # infinite where all other rows are equal
    wanted = int(np.clip(wanted, 1, len(far) // options.min_points))
    around = graph.subset(far)
    pieces, _ = label_pieces(find_cells(rows[far], around, wanted, options.width, run, n_cells).labels, around)
    large = np.flatnonzero(np.bincount(pieces) >= options.min_points)
    return np.array([rows[far[pieces == piece]].mean(axis=0) for piece in large]) if len(large) else none


def joined_charts(one: CurvedCharts, other: CurvedCharts) -> CurvedCharts:
    """Return the charts of both, those of ``one`` first, bit for bit."""
    names = ("means", "frames", "sizes", "second_forms", "offsets", "spread", "residuals")
    return CurvedCharts(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in names))


def placement_start(stitched: Stitched, overlaps: Overlaps, sizes: IntArray) -> FloatArray | None:
    r"""Return frames and shifts of all patches to begin a placement with, rows as `FrameLayout` has them.

    Old patches are where they were. A new one is put to the placed patch with which it shares the most points, by the
    rigid motion that matches these best: with C the covariance of their coordinates in both charts, its frame is
    the polar factor of :math:`C^\top R`. None where the old patches were in several pieces, or a new one meets none.
    """
    old, total = len(stitched.shifts), len(sizes)
    width = overlaps.means.shape[2]
    if stitched.n_components > 1 or stitched.shifts.shape[1] < int(sizes.max(initial=0)):
        return None
    frames = np.zeros((total, width, stitched.frames.shape[2]))
    shifts = np.zeros((total, stitched.shifts.shape[1]))
    frames[:old, : stitched.frames.shape[1]], shifts[:old] = stitched.frames[:, :width], stitched.shifts
    placed = np.arange(total) < old
    while not placed.all():
        meet = placed[overlaps.first] != placed[overlaps.second]
        if not meet.any():
            return None
        e = int(np.argmax(np.where(meet, overlaps.counts, 0)))
        ends = [int(overlaps.first[e]), int(overlaps.second[e])]
        here = int(placed[ends[1]])  # which end has a place
        (i, mean_i), (j, mean_j) = ((ends[k], overlaps.means[e, k]) for k in (here, 1 - here))
        moments = overlaps.moments[e, :width, width:] - np.outer(overlaps.means[e, 0], overlaps.means[e, 1])
        cross = moments if here == 1 else moments.T  # of j with i
        left, _, right = np.linalg.svd(cross @ frames[i], full_matrices=False)
        frames[j] = left @ right
        shifts[j] = mean_i @ frames[i] + shifts[i] - mean_j @ frames[j]
        placed[j] = True
    rows = np.concatenate([frames[patch, : sizes[patch]] for patch in range(total)])
    return np.concatenate([rows, shifts])


# What the search for patches found, and what a fit leaves of it.


def coordinates_of(made: tuple[PatchLayout, History]) -> FloatArray:
    """Return the coordinates of a layout, made with its history."""
    return made[0].unfolded.coordinates


def agrees(made: tuple[PatchLayout, History], graph: NeighborGraph) -> bool:
    """Tell whether the patches of a layout agree with each other."""
    return made[0].agrees_with(graph)


@dataclass(frozen=True)
class FoundLayout:
    """The layout of a sample that its points contradict least, their graph and their measured dimension.

    Patches and charts are those of the rows about the ``origin``.
    """

    graph: NeighborGraph
    dimension: IntrinsicDimension
    chosen: Chosen[tuple[PatchLayout, History]]
    origin: FloatArray

    @property
    def layout(self) -> PatchLayout:
        """The layout chosen."""
        return self.chosen.layout[0]

    @property
    def atlas(self) -> Atlas:
        """Its patches."""
        return self.layout.atlas

    def stitched_by(self, overlaps: Overlaps, n_components: int, run: Run) -> FoundLayout:
        """Return the same patches, stitched by overlaps of more points than the sample's."""
        layout = lay_out(self.atlas, n_components, run, overlaps=overlaps)
        return replace(self, chosen=replace(self.chosen, layout=(layout, self.chosen.layout[1])))

    def embedding(self, sample: IntArray, n_components: int, overlap: float, tol: float) -> Embedding:
        """Return the sample's embedding, with its maps and all that is known of it; ``sample`` are its rows."""
        chosen, layout = self.chosen, self.layout
        charts, stitched, unfolded = layout.atlas.charts, layout.unfolded.stitched, layout.unfolded
        holding = layout.overlaps[layout.holding]
        changes = edge_ratios(chosen.graph, unfolded.coordinates) - 1
        return Embedding(
            unfolded.coordinates,
            graph=chosen.graph,
            spectrum=unfolded.spectrum,
            trace=stitched.trace,
            certificate=replace(stitched.certificate, tol=tol) if charts.n_patches > 1 else None,
            extension=CenteredPatchMap(self.origin, PatchMap(layout.atlas.cover, charts, stitched)),
            inverse=CenteredPatchInverse(self.origin, PatchInverse.of(charts, stitched, holding, overlap)),
            notes={
                "n_patches": charts.n_patches,
                "layout": layout_kind(charts),
                "patch_components": charts.width,
                "dimension": self.dimension,
                "components": stitched.n_components,
                "edge_changes": chosen.layout[1],
                "contradictions": chosen.scores,
                "cut_edges": (self.graph.n_edges - chosen.graph.n_edges) // 2,
                "overlaps": len(layout.overlaps),
                "thin_overlaps": int((~layout.firm).sum()),
                "advice": advice(layout, n_components, self.dimension, chosen, changes),
                "remarks": chart_remarks(charts),
            },
            fitted={
                "patches_": layout.atlas,
                "mean_": self.origin,
                "sample_": sample,
                "residuals_": charts.residuals,
                "disagreement_": unfolded.disagreement,
                "distortion_": changes,
                "n_patches_": charts.n_patches,
            },
        )
