"""What IPA and ManifoldCharting have in common, and updates of IPA's patches by new rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.dimension import IntrinsicDimension, intrinsic_dimension
from manifoldry._numerics.patches.atlas import Atlas, ChartOptions, History, PatchRule, charted_atlas
from manifoldry._numerics.patches.charts import CurvedCharts, fit_curved_charts
from manifoldry._numerics.patches.cover import MAX_VOLUME_POWER, VoronoiCover, cell_borders, find_cells, nearest_center
from manifoldry._numerics.patches.layout import PatchLayout, lay_out
from manifoldry._numerics.patches.overlaps import Overlaps, Stitched
from manifoldry._numerics.patches.restarts import SCORE_DIGITS, InconsistencyScore, SelectedLayout
from manifoldry.graph._operations import label_components, local_scale
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._texts import RADIUS_TEXT

N_PATCH_NEIGHBORS = 6
"""Fewer neighbors than elsewhere, and so fewer short circuits: the graph only says what is connected."""
MAX_RAISE, MIN_RAISED_CONTRADICTION = 2.0, 1e-3
"""Factor by which the contradiction of an updated layout may rise, and where that begins to count: on rolls it falls
from 9e-4 to 2e-4; where two arms around a hole were not yet connected it rose to 2e-3 and 4e-3."""


@estimator
class PatchEmbedder(Embedder):
    """Base of the methods that align patches of a sample: their common parameters and fitted attributes.

    Attributes
    ----------
    patches_ : Atlas
        Cover, charts and overlaps, of the rows about ``mean_``.
    mean_ : ndarray of shape (n_features,)
        Mean of the rows that patches were fitted to.
    n_patches_ : int
        Number of patches.
    sample_ : ndarray
        Rows of ``embedding_`` from which patches and charts were estimated; for chunked data all of them, and
        ``sampled_rows_`` are their numbers among all rows.
    residuals_ : ndarray of shape (n_patches,)
        Root mean square distance of each patch's points from its chart, relative to the patch's spread.
    disagreement_ : ndarray of shape (n_samples,)
        Root mean square distance of a point's images in its patches from their mean, in the units of the embedding.
    graph_ : NeighborGraph
        The graph of the points ``sample_``, without the edges that restarts removed.
    """

    n_patches: PositiveInt | Literal["auto"] = parameter(
        'Number of patches; "auto" doubles it until the charts keep the distances between neighbors. Patches that are '
        "not connected in the neighbor graph are divided, so there may be more.",
        default="auto",
    )
    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(
        'Number of neighbors of each point in the graph; "auto" is 6, unless a radius is given.', default="auto"
    )
    radius: Positive | None = parameter(RADIUS_TEXT, default=None)
    disconnected: Literal["apart", "raise"] = parameter(
        "Components of the patch graph are laid out side by side, or raise an error.", default="apart"
    )

    patches_: Atlas = fitted()
    mean_: FloatArray = fitted()
    n_patches_: int = fitted()
    sample_: IntArray = fitted()
    residuals_: FloatArray = fitted()
    disagreement_: FloatArray = fitted()

    _invertible = True

    @property
    def _patch_rule(self) -> PatchRule:
        return PatchRule(self.n_patches)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._neighbor_rule(n_points)
        self._patch_rule.check_n_patches(self.n_components, n_points)

    def _neighbor_rule(self, n_points: int) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius).resolve(n_points, N_PATCH_NEIGHBORS)


# Updates: rows near old patches enter their overlaps, rows far from all get new cells. Old charts stay as they are, and
# old patches keep their numbers; the overlaps are sums over all rows.


@dataclass(frozen=True)
class PatchGrowth:
    """What ``partial_fit`` stores: all rows so far (n, d), the first radii (c,) of the cells, and the parameters."""

    rows: FloatArray
    radii: FloatArray
    settings: dict[str, Any]


@dataclass(frozen=True)
class PatchSearch:
    """The layout of a sample about its ``origin`` that its points contradict least, and their measured dimension."""

    graph: NeighborGraph
    dimension: IntrinsicDimension
    chosen: SelectedLayout[tuple[PatchLayout, History]]
    origin: FloatArray

    @property
    def layout(self) -> PatchLayout:
        """The layout chosen."""
        return self.chosen.layout[0]

    @property
    def atlas(self) -> Atlas:
        """Its patches."""
        return self.layout.atlas

    def stitched_by(self, overlaps: Overlaps | None, n_components: int, run: Run) -> PatchSearch:
        """Return the same patches, stitched by overlaps of more points than the sample's."""
        layout = lay_out(self.atlas, n_components, run, overlaps=overlaps)
        return replace(self, chosen=replace(self.chosen, layout=(layout, self.chosen.layout[1])))


def can_update(atlas: Atlas, options: ChartOptions) -> bool:
    """Return whether an atlas takes new cells: around centers, in flat or curved charts of a surface."""
    cells = isinstance(atlas.cover, VoronoiCover) and isinstance(atlas.charts, CurvedCharts)
    return cells and atlas.charts.width == options.width and not atlas.no_surface


def updated_layout(
    model: Any, growth: PatchGrowth, rows: FloatArray, graph: NeighborGraph, options: ChartOptions, run: Run
) -> tuple[PatchSearch, FloatArray] | None:
    """Return the patches of all rows about the fitted mean and the radii, None if points contradict them more."""
    with run.stage("patches"):
        dimension = intrinsic_dimension(rows)
        atlas, radii = updated_atlas(model.patches_, growth, rows, graph, options, run)
    start = placement_start(model._extension.place.stitched, atlas.overlaps, atlas.charts.sizes)
    layout = lay_out(atlas, model.n_components, run, start=start)
    score, compression = InconsistencyScore.of(rows, graph, run).both(layout.unfolded.coordinates)
    if score > max(MIN_RAISED_CONTRADICTION, MAX_RAISE * min(model.diagnostics_["contradictions"])):
        return None
    history = [*model.diagnostics_["edge_changes"], (atlas.charts.n_patches, atlas.distortion)]
    agreed = layout.agrees_with(graph, run)
    chosen = SelectedLayout((layout, history), graph, score, (round(score, SCORE_DIGITS),), agreed, compression)
    return PatchSearch(graph, dimension, chosen, model.mean_), radii


def cell_radii(rows: FloatArray, centers: FloatArray, run: Run) -> FloatArray:
    """Return the distance of the farthest row of each cell from its center, shape (c,)."""
    labels = nearest_center(rows, centers, run)
    radii = np.zeros(len(centers))
    np.maximum.at(radii, labels, np.linalg.norm(rows - centers[labels], axis=1))
    return radii


def updated_atlas(
    atlas: Atlas, growth: PatchGrowth, rows: FloatArray, graph: NeighborGraph, options: ChartOptions, run: Run
) -> tuple[Atlas, FloatArray]:
    """Return the atlas of all rows, those of ``growth`` first, and the radii; enough far rows get new cells."""
    cover, charts, radii = cast(VoronoiCover, atlas.cover), cast(CurvedCharts, atlas.charts), growth.radii
    # Rows in no old patch: beyond the radius of the nearest cell, or on another sheet.
    labels = nearest_center(rows, cover.centers, Run(0, 1))
    beyond = np.linalg.norm(rows - cover.centers[labels], axis=1) > radii[labels]
    parts, _ = label_components(labels, graph)
    old = np.zeros(int(parts.max()) + 1, dtype=bool)
    old[parts[: len(growth.rows)][~beyond[: len(growth.rows)]]] = True
    far = np.flatnonzero(beyond | ~old[parts])
    centers = _new_centers(rows, far, graph, cover.n_patches, options, run)
    if not len(centers):
        return charted_atlas(rows, graph, cover, cover.members(rows, run), charts, run), radii
    radii = np.concatenate([radii, cell_radii(rows[far], centers, run)])
    all_centers = np.concatenate([cover.centers, centers])
    borders = cell_borders(nearest_center(rows, all_centers, run), graph, len(all_centers), run)
    cover = replace(cover, centers=all_centers, neighbors=borders)
    members = cover.members(rows, run)
    first, curved = charts.n_patches, options.kind == "curved"
    new = members[members.patches >= first]
    new = replace(new, patches=new.patches - first)
    added = fit_curved_charts(rows, new, len(centers), options.width, run, curved=curved, share=options.share)
    names = ("means", "frames", "sizes", "second_forms", "offsets", "spread", "residuals")
    all_charts = CurvedCharts(*(np.concatenate([getattr(charts, name), getattr(added, name)]) for name in names))
    return charted_atlas(rows, graph, cover, members, all_charts, run), radii


def _new_centers(
    rows: FloatArray, far: IntArray, graph: NeighborGraph, n_cells: int, options: ChartOptions, run: Run
) -> FloatArray:
    """Return the centers of connected cells of the far rows, as large as the old ones, if a chart can be fitted."""
    none = np.empty((0, rows.shape[1]))
    if len(far) < options.min_points:
        return none
    volume = local_scale(graph) ** min(options.width, MAX_VOLUME_POWER)
    elsewhere = max(float(volume.sum() - volume[far].sum()), float(np.finfo(float).tiny))
    share = np.rint(float(volume[far].sum()) / elsewhere * n_cells)  # infinite where all other rows are equal
    count = int(np.clip(share, 1, len(far) // options.min_points))
    around = graph.subset(far)
    cells, _ = label_components(find_cells(rows[far], around, count, options.width, run, n_cells).labels, around)
    large = np.flatnonzero(np.bincount(cells) >= options.min_points)
    return np.array([rows[far[cells == cell]].mean(axis=0) for cell in large]) if len(large) else none


def placement_start(stitched: Stitched, overlaps: Overlaps, sizes: IntArray) -> FloatArray | None:
    r"""Return frames and shifts of all patches to start an alignment from, or None if they are not connected.

    A new patch is matched to the placed one with which it shares the most points: with C the covariance of their
    coordinates in both charts, its frame is the polar factor of :math:`C^\top R`.
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
        here = int(placed[ends[1]])  # which end is placed
        (i, mean_i), (j, mean_j) = ((ends[k], overlaps.means[e, k]) for k in (here, 1 - here))
        moments = overlaps.moments[e, :width, width:] - np.outer(overlaps.means[e, 0], overlaps.means[e, 1])
        cross = moments if here == 1 else moments.T  # of j with i
        left, _, right = np.linalg.svd(cross @ frames[i], full_matrices=False)
        frames[j] = left @ right
        shifts[j] = mean_i @ frames[i] + shifts[i] - mean_j @ frames[j]
        placed[j] = True
    rows = np.concatenate([frames[patch, : sizes[patch]] for patch in range(total)])
    return np.concatenate([rows, shifts])
