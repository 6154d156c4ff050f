"""Atlases: a cover of the sample by patches, their charts and overlaps, and how many patches are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp

from manifoldry._core import check
from manifoldry._core.chunks import merge_levels
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.patches.charts import Charts, CurvedCharts, fit_charts
from manifoldry._numerics.patches.cover import (
    MIN_SWEPT_ROWS,
    CellSearch,
    Cover,
    ListedCover,
    Membership,
    VoronoiCells,
    VoronoiCover,
    cells_around,
    expanded,
    use_loops,
)
from manifoldry._numerics.patches.overlaps import Overlaps, find_overlaps, merged_overlaps, patch_components
from manifoldry._numerics.patches.restarts import Trial
from manifoldry.graph._operations import components, edge_ratios
from manifoldry.graph._search import NeighborIndex

OVERLAP_GROWTH, MAX_GROWTHS = 1.5, 4
"""Factor by which the overlap is widened, and how often at least, while the patch graph has too many components."""
MAX_GROWN_OVERLAP = 1.5
"""Overlap up to which a small one is widened more often: patches then reach to the centers around them."""
MAX_LOOSE_SHARE = 0.1
"""Largest share of a component's points in badly connected patches that are merged into their neighbors."""
MIN_PATCHES = 16  # First number of patches tried
DISTORTION_TOL = 2e-3  # Root mean square distortion of edges in the charts below which more patches are not needed
MAX_DISTORTION_RATIO = 0.8
"""More patches have to reduce the distortion to this share of the best so far; with noise they do not."""
IGNORED_TORN_SHARE = 1e-3  # share of torn edges that is ignored: some at the corners of holes always are torn
MAX_FAILED_TRIALS = 2  # most trials in a row without enough reduction
MAX_SURFACE_RESIDUAL = 0.3
"""Largest median residual of the charts of a surface: 0.07 on a noisy roll, 0.31 on olive oil, 0.6 to 1 on images."""
MAX_CHART_CHANGE, MAX_CHANGE_RATIO = 0.03, 7.0
"""Largest 99 % quantile of changes from chart to layout where patches agree; and over that from data to chart."""
INCONSISTENT_QUANTILE = 0.99
EDGES_AT_ONCE = 2**14  # edges per task, some milliseconds
OVERLAPS_AT_ONCE = 5000  # points per task whose patches are compared, a third of a millisecond: few parts to merge
History = list[tuple[int, float]]
"""Numbers of patches tried, and the distortion of edges with each."""


@dataclass(frozen=True)
class ChartOptions:
    """Largest dimension and kind of the charts, share of variance to leave, overlap of patches, equal weights."""

    width: int
    kind: str
    share: float | None
    overlap: float
    even: bool

    @property
    def min_points(self) -> int:
        """Minimum mean number of points per patch: enough for its chart and for overlaps with several neighbors."""
        return 3 * (self.width + 1)


@dataclass(frozen=True)
class Atlas:
    """A cover of the sample by patches, their charts, and the coordinates (M, r) of the members in their charts.

    ``distortions`` are the relative changes of the edges (i < j), each in the chart of its heaviest common patch: NaN
    where no patch contains both ends but their patches overlap, 1 where they do not (the edge is torn).
    """

    cover: Cover
    members: Membership
    charts: Charts
    coordinates: FloatArray
    overlaps: Overlaps
    distortions: FloatArray

    @property
    def no_surface(self) -> bool:
        """Whether the patches have more dimensions than their charts."""
        return float(np.median(self.charts.residuals)) > MAX_SURFACE_RESIDUAL

    @cached_property
    def distortion(self) -> float:
        """Root mean square of the distortions; torn edges count as 1, except for a share of `IGNORED_TORN_SHARE`."""
        finite = _chosen(self.distortions, np.isfinite(self.distortions))
        if not len(finite):
            return 0.0
        intact = _chosen(finite, finite < 1)
        torn = max(0.0, 1 - len(intact) / len(finite) - IGNORED_TORN_SHARE)
        return float(np.sqrt((np.square(intact).mean() if len(intact) else 0.0) + torn))

    @cached_property
    def components(self) -> IntArray:
        """The component of each patch (c,) in the graph of well-conditioned overlaps."""
        sizes = self.charts.sizes
        return patch_components(self.overlaps[self.overlaps.well_conditioned(sizes)], self.charts.n_patches)

    def agrees_with(self, graph: NeighborGraph, Y: FloatArray, run: Run) -> bool:
        """Return whether the layout Y keeps the lengths that the edges of the sample's ``graph`` have in the charts."""
        intact = np.abs(self.distortions) < 1  # not NaN either
        if not intact.any():
            return True
        distortions, ratios = self.distortions[intact], edge_ratios(graph, Y, run, once=True)[intact]
        limit = max(MAX_CHART_CHANGE, MAX_CHANGE_RATIO * float(np.sqrt(np.square(distortions).mean())))
        return bool((np.abs(ratios / (1 + distortions) - 1) <= limit).mean() >= INCONSISTENT_QUANTILE)


def _chosen(values: FloatArray, mask: Array) -> FloatArray:
    return values if mask.all() else values[mask]


@dataclass(frozen=True)
class PatchRule:
    """The parameters of `IPA` that define its patches."""

    n_patches: int | Literal["auto"]
    clustering: Any = "kmeans"
    patches: Any = None

    @property
    def given(self) -> bool:
        """Whether labels, lists of members, or an estimator of labels are given."""
        return self.patches is not None or not isinstance(self.clustering, str)

    @property
    def free(self) -> bool:
        """Whether neither the patches nor their number are given."""
        return not self.given and isinstance(self.n_patches, str)

    def check_n_patches(self, n_components: int, n_points: int) -> None:
        """Check that every patch can have enough points for a chart of n_components dimensions."""
        if not isinstance(self.n_patches, str):
            most = max(1, n_points // (n_components + 1))
            reason = f" (each patch needs {n_components + 1} of the {n_points} points)"
            check.integer("n_patches", self.n_patches, 1, most, reason)

    def atlas(
        self, rows: FloatArray, trial: Trial, index: NeighborIndex, dimension: float, options: ChartOptions, run: Run
    ) -> tuple[Atlas, History]:
        """Return patches and charts of the sample, and the edge distortion for the numbers of patches tried."""
        graph = trial.graph
        listed = self.patches is not None and not isinstance(self.patches, np.ndarray)
        if listed and len(self.patches) and np.ndim(self.patches[0]) == 1:  # members, not one label per point
            atlas = build_atlas(rows, graph, ListedCover(self._listed_weights(len(rows)), index), options, run)
        elif self.given:
            atlas = cluster_atlas(rows, graph, self._labels(rows), index, options, run)
        elif isinstance(self.n_patches, str):
            return choose_atlas(rows, trial, options, run, dimension)
        else:
            atlas = voronoi_atlas(rows, graph, self.n_patches, options, run, trial.number)
        return atlas, [(atlas.charts.n_patches, atlas.distortion)]

    def _labels(self, rows: FloatArray) -> IntArray:
        """Return the given labels, or those of the cluster estimator, as 0, 1, ..."""
        labels = self.clustering.fit_predict(rows) if self.patches is None else self.patches
        if (shape := np.shape(labels)) != (len(rows),):
            raise ValueError(f"patches must be {len(rows)} labels or lists of members; got an array of {shape}.")
        return np.unique(labels, return_inverse=True)[1]

    def _listed_weights(self, n_points: int) -> sp.csr_array:
        """Return listed members as weights of 1, shape (n, c)."""
        rows = np.concatenate([np.asarray(members, dtype=np.int64) for members in self.patches])
        if rows.min() < 0 or rows.max() >= n_points or len(np.unique(rows)) < n_points:
            raise ValueError(
                f"patches must list each of the {n_points} points at least once; got {len(np.unique(rows))} of them, "
                f"from {rows.min()} to {rows.max()}."
            )
        columns = np.repeat(np.arange(len(self.patches)), [len(members) for members in self.patches])
        weights = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_points, len(self.patches)))
        weights.data[:] = 1.0  # a point listed twice counts once
        return weights


def voronoi_atlas(
    X: FloatArray, graph: NeighborGraph, n_cells: int, options: ChartOptions, run: Run, trial: int = 0
) -> Atlas:
    """Return the atlas of about ``n_cells`` patches around k-means centers, which differ in every ``trial``."""
    return cell_atlas(CellSearch(X, graph, options.width, run, trial), n_cells, options)


def cell_atlas(search: CellSearch, n_cells: int, options: ChartOptions) -> Atlas:
    """Return the atlas of about ``n_cells`` cells of a search."""
    X, graph, run = search.X, search.graph, search.run
    cells, parts = search.cells(n_cells), search.connected
    atlas = _connected_atlas(X, graph, cells, len(parts), options, run)
    loose = loose_patches(atlas, cells.labels, parts)
    if loose.any():
        fewer = cells_around(X, graph, cells.centers[~loose], run)
        atlas = _connected_atlas(X, graph, fewer, len(parts), options, run)
    return atlas


def _connected_atlas(
    X: FloatArray, graph: NeighborGraph, cells: VoronoiCells, n_components: int, options: ChartOptions, run: Run
) -> Atlas:
    """Return the atlas of the cells, with an overlap that connects each component of the graph, if any does."""
    cover = VoronoiCover(cells.centers, cells.borders, options.overlap, options.even)
    growths = 0
    atlas = build_atlas(X, graph, cover, options, run, cells.labels)
    while atlas.components.max() >= n_components and (growths < MAX_GROWTHS or cover.overlap < MAX_GROWN_OVERLAP):
        cover, growths = replace(cover, overlap=cover.overlap * OVERLAP_GROWTH), growths + 1
        atlas = build_atlas(X, graph, cover, options, run, cells.labels)
    return atlas


def loose_patches(atlas: Atlas, labels: IntArray, connected: list[IntArray]) -> Array:
    """Return which patches are badly connected: to patches with at most `MAX_LOOSE_SHARE` of the component's points."""
    parts = atlas.components
    sizes = np.bincount(parts[labels])
    loose = np.zeros(atlas.charts.n_patches, dtype=bool)
    for members in connected:
        patches = np.flatnonzero(np.bincount(labels[members]))
        small = sizes[parts[patches]] <= MAX_LOOSE_SHARE * len(members)
        loose[patches] |= small & ~small.all()
    return loose


def cluster_atlas(
    X: FloatArray, graph: NeighborGraph, labels: IntArray, index: NeighborIndex, options: ChartOptions, run: Run
) -> Atlas:
    """Return the atlas of given clusters, expanded over their borders along the graph."""
    n_components = len(components(graph))
    for rings in range(1, MAX_GROWTHS + 1):
        weights = expanded(labels, graph, rings)
        if options.even:
            weights.data[:] = 1.0
        atlas = build_atlas(X, graph, ListedCover(weights, index), options, run)
        if int(atlas.components.max()) < n_components:
            break
    return atlas


def choose_atlas(
    X: FloatArray, trial: Trial, options: ChartOptions, run: Run, dimension: float = 0.0
) -> tuple[Atlas, History]:
    """Return the atlas with an automatic number of patches, and the numbers tried with their distortions.

    The number doubles while that reduces the distortion, unless the ``dimension`` of the data exceeds that of the
    charts and shows in them.
    """
    max_cells = max(1, len(X) // options.min_points)
    n_cells = min(round(trial.scale * MIN_PATCHES), max_cells)
    search = CellSearch(X, trial.graph, options.width, run, trial.number)
    best = cell_atlas(search, n_cells, options)
    history = [(best.charts.n_patches, best.distortion)]
    n_failed = 0
    while (
        best.distortion > DISTORTION_TOL
        and not (dimension > options.width + 0.5 and best.no_surface)
        and 2 * n_cells <= max_cells
        and n_failed < MAX_FAILED_TRIALS
        and run.step(n_cells, max_cells)
    ):
        n_cells *= 2
        candidate = cell_atlas(search, n_cells, options)
        history.append((candidate.charts.n_patches, candidate.distortion))
        reduced = candidate.distortion <= MAX_DISTORTION_RATIO * best.distortion
        best, n_failed = (candidate, 0) if reduced else (best, n_failed + 1)
    return best, history


def build_atlas(
    X: FloatArray, graph: NeighborGraph, cover: Cover, options: ChartOptions, run: Run, labels: IntArray | None = None
) -> Atlas:
    """Return the atlas of a given cover; ``labels`` are the cells of the points if they are known."""
    known = labels is not None and use_loops(X)
    members = (
        cast(VoronoiCover, cover).sample_members(X, cast(IntArray, labels), run) if known else cover.members(X, run)
    )
    charts = fit_charts(X, members, cover.n_patches, options.width, run, kind=options.kind, share=options.share)
    return charted_atlas(X, graph, cover, members, charts, run)


def charted_atlas(
    X: FloatArray, graph: NeighborGraph, cover: Cover, members: Membership, charts: Charts, run: Run
) -> Atlas:
    """Return the atlas of given charts: coordinates in them, overlaps, and distortions of the edges."""
    curved = isinstance(charts, CurvedCharts) and use_loops(X)
    f = (
        cast(CurvedCharts, charts).sample_coordinates(X, members, run)
        if curved
        else charts.coordinates(X, members, run)
    )
    overlaps = sample_overlaps(members, f, cover.n_patches, run)
    distorted = sample_distortions if use_loops(X) else edge_distortions
    distortions = distorted(graph, members, f, overlaps, cover.n_patches, run)
    return Atlas(cover, members, charts, f, overlaps, distortions)


def sample_overlaps(members: Membership, f: FloatArray, n_patches: int, run: Run) -> Overlaps:
    """Return the overlaps by all points, of blocks of points merged in a fixed order."""
    starts = members.starts

    def of_block(lo: int, hi: int) -> Overlaps:
        entries = slice(starts[lo], starts[hi])
        block = replace(members[entries], points=members.points[entries] - lo, n_points=hi - lo)
        return find_overlaps(block, f[entries], n_patches)

    return merge_levels(run.map(of_block, run.ranges(members.n_points, OVERLAPS_AT_ONCE)), merged_overlaps)


def edge_distortions(
    graph: NeighborGraph, members: Membership, f: FloatArray, overlaps: Overlaps, n_patches: int, run: Run
) -> FloatArray:
    """Return the relative change of every edge (i < j, in the graph's order) in the heaviest patch that contains it."""
    rows = graph.rows()
    up = (rows < graph.indices) & (graph.lengths > 0)
    i, j, lengths = rows[up], graph.indices[up].astype(np.int64), graph.lengths[up]
    heaviest, shared = members.heaviest(), overlaps.first * n_patches + overlaps.second
    keys = _EntryKeys.of(members, n_patches)

    def work(lo: int, hi: int) -> FloatArray:
        edge, entry, other = keys.edges_inside(i[lo:hi], j[lo:hi])
        distortions = np.full(hi - lo, np.nan)
        if len(edge):
            starts = np.flatnonzero(np.diff(edge, prepend=-1))
            weight = members.weights[entry] * members.weights[other]
            largest = np.repeat(np.maximum.reduceat(weight, starts), np.diff(starts, append=len(edge)))
            chosen = np.flatnonzero(weight == largest)
            chosen = chosen[np.diff(edge[chosen], append=hi) > 0]  # the last of equal ones
            spans = np.linalg.norm(f[entry[chosen]] - f[other[chosen]], axis=1)
            distortions[edge[chosen]] = spans / lengths[lo:hi][edge[chosen]] - 1
        outside = np.bincount(edge, minlength=hi - lo) == 0
        a, b = heaviest[i[lo:hi][outside]], heaviest[j[lo:hi][outside]]
        overlapping = np.isin(np.minimum(a, b) * n_patches + np.maximum(a, b), shared)
        distortions[outside] = np.where(overlapping, np.nan, 1.0)
        return distortions

    return np.concatenate(run.map(work, run.ranges(len(i), EDGES_AT_ONCE)) or [lengths])


def sample_distortions(
    graph: NeighborGraph, members: Membership, f: FloatArray, overlaps: Overlaps, n_patches: int, run: Run
) -> FloatArray:
    """Return the same as `edge_distortions`, by compiled loops."""
    from manifoldry._numerics.kernels.patch_rows import LOWER, OUTSIDE, edge_changes

    indptr, indices = graph.indptr.astype(np.int64, copy=False), graph.indices.astype(np.int64, copy=False)
    lengths, changes = graph.lengths.astype(np.float64, copy=False), np.empty(graph.n_edges)
    entries = members.starts, members.patches, members.weights, f

    def work(lo: int, hi: int) -> tuple[FloatArray, IntArray]:
        edge_changes(indptr, indices, lengths, *entries, lo, hi, changes)
        part = changes[indptr[lo] : indptr[hi]]
        return part[part != LOWER], indptr[lo] + np.flatnonzero(part == OUTSIDE)

    kept, outside = map(np.concatenate, zip(*run.map(work, run.shares(graph.n_points, MIN_SWEPT_ROWS)), strict=True))
    if len(outside):
        heaviest = members.heaviest()
        a, b = heaviest[np.searchsorted(indptr, outside, side="right") - 1], heaviest[indices[outside]]
        shared = np.isin(np.minimum(a, b) * n_patches + np.maximum(a, b), overlaps.first * n_patches + overlaps.second)
        kept[kept == OUTSIDE] = np.where(shared, np.nan, 1.0)
    return kept


@dataclass(frozen=True)
class _EntryKeys:
    """The entries of a membership by point and patch: sorted keys, their entries, and where each point's begin."""

    patches: IntArray
    n_patches: int
    keys: IntArray
    order: IntArray
    starts: IntArray

    @classmethod
    def of(cls, members: Membership, n_patches: int) -> _EntryKeys:
        keys = members.points.astype(np.int64) * n_patches + members.patches
        order = np.argsort(keys, kind="stable")
        return cls(members.patches, n_patches, keys[order], order, members.starts)

    def edges_inside(self, i: IntArray, j: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return all (edge, entry of i, entry of j) with both ends of the edge in the same patch, edge by edge."""
        # A join of both ends' entries on the patch: every entry of i is searched among those of j.
        counts = self.starts[i + 1] - self.starts[i]
        edge = np.repeat(np.arange(len(i)), counts)
        entry = np.repeat(self.starts[i] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        target = j[edge] * self.n_patches + self.patches[entry]
        found = np.minimum(np.searchsorted(self.keys, target), len(self.keys) - 1)
        common = self.keys[found] == target
        return edge[common], entry[common], self.order[found[common]]
