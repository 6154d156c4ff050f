"""The start of a descent: flat surfaces start unrolled by patches, as in IPA; other data as requested."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, NeighborGraph
from manifoldry._numerics.descent.initialization import Start, default_init, given_layout, initial_layout, unit_layout
from manifoldry._numerics.elbow import unexplained
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import dense_rows
from manifoldry._numerics.patches.advice import MAX_FOLDED_VARIANCE
from manifoldry._numerics.patches.atlas import MAX_DISTORTION_RATIO, MIN_PATCHES, Atlas, ChartOptions, voronoi_atlas
from manifoldry._numerics.patches.layout import PatchLayout, PatchMap, lay_out
from manifoldry._numerics.ranks import trustworthiness
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_START_SAMPLE = 5000
"""Points from which patches are estimated, a quarter of IPA's: the test for a surface takes less than a second."""
N_START_NEIGHBORS, START_OVERLAP = 6, 0.3
"""Neighbors in the graph of the sample, and overlap of the patches, as in IPA."""
START_DISTORTION = 0.02
"""Root mean square change of edge lengths with enough patches, ten times that of IPA: the descent changes the layout
anyway. A roll needs about 20 patches, a double spiral 64."""
MAX_START_PATCHES = 128
"""Most patches tried: surfaces that are not flat would take most of the time, and do not use the result."""
MIN_SURFACE_POINTS = 300
"""Fewest points of a surface: with fewer, neighbors cross the sheets of a roll, and its dimension is unknown."""
MAX_DIMENSION_ERROR = 0.5
"""Largest difference between the measured dimension and n_components: 1.9 to 2.1 on surfaces, 1.0 on curves, 3 to 20 on
measurements and images."""
N_TORN_ROWS = 2000
"""Rows whose affinities are examined."""
N_TRUSTED_POINTS, MIN_START_TRUST = 1000, 0.98
"""Sampled points, and the least trustworthiness of a start: above 0.999 on rolls of 300 or more points, below 0.9 where
sheets lie on each other."""


def find_start(
    init: Any,
    X: Any,
    affinities: csr_array,
    n_components: int,
    run: Run,
    *,
    metric: Any = "euclidean",
    otherwise: str | None = None,
) -> Start:
    """Return the start that ``init`` specifies.

    "auto" is "ipa" where ``X`` holds rows of a flat surface in the Euclidean metric, else ``otherwise``; if that is
    None, "pca" for rows and distances and "spectral" for graphs.
    """
    if not isinstance(init, str):
        return Start("given", given_layout(init, run))
    pairwise = isinstance(metric, str) and metric in ("precomputed", "affinity")
    layout = None
    if init == "ipa":
        layout = surface_layout(dense_rows(X, run), n_components, run)
    elif init == "auto":
        euclidean = isinstance(metric, str) and metric == "euclidean"
        if euclidean and not issparse(X) and not isinstance(X, NeighborGraph):
            layout = surface_layout(X, n_components, run, only_surfaces=True)
        init = otherwise or default_init(X, pairwise)
    if layout is not None:
        return Start("ipa", unit_layout(layout, run))
    return Start(init, initial_layout(init, X, affinities, n_components, run, pairwise=pairwise))


def torn_share(X: Array, layout: FloatArray, affinities: csr_array) -> float:
    """Return the share of affinities between rows that the layout moves more than twice as far apart as usual.

    It is large where lists of neighbors reach across the sheets of a roll. A few thousand rows are enough.
    """
    rows = np.arange(0, len(X), -(-len(X) // N_TORN_ROWS))
    edges = affinities[rows].tocoo()
    i, j = rows[edges.row], edges.col
    before = np.linalg.norm(np.asarray(X[i] - X[j], dtype=float), axis=1)
    after = np.linalg.norm(layout[i] - layout[j], axis=1)
    distinct = before > 0
    ratios = after[distinct] / before[distinct]
    torn = ratios > 2 * np.median(ratios) if len(ratios) else ratios > 0
    return float(edges.data[distinct][torn].sum() / max(edges.data.sum(), np.finfo(float).tiny))


def surface_layout(X: Array, n_components: int, run: Run, only_surfaces: bool = False) -> FloatArray | None:
    """Return all rows laid out by the patches of a sample, or None if ``only_surfaces`` and they are no flat surface.

    A flat surface has the measured dimension n_components; its patches have charts of that dimension, are connected,
    and fit together in n_components dimensions without losing neighbors.
    """
    result = agreed_places(X, n_components, run, only_surfaces)
    return None if result is None else result[0]


def agreed_places(X: Array, n_components: int, run: Run, only_surfaces: bool = False) -> tuple[FloatArray, bool] | None:
    """Return the result of `surface_layout`, and whether the patches agree with each other."""
    with run.stage("patches"):
        sample = np.arange(len(X))
        if len(X) > MAX_START_SAMPLE:
            sample = np.sort(run.rng("patch sample").choice(len(X), MAX_START_SAMPLE, replace=False))
        rows = np.asarray(X[sample], dtype=float)
        if only_surfaces and not _has_dimension(rows, n_components):
            return None
        graph, atlases = _rough_atlases(rows, n_components, run)
    for atlas in atlases:
        if only_surfaces and not _is_sheet(atlas):
            continue
        # One dimension more than needed shows whether the patches fit together without it.
        layout = lay_out(atlas, n_components, run, max_rank=n_components + 1)
        if only_surfaces and not _fits(rows, layout, n_components, run):
            continue
        agreed = layout.agrees_with(graph)
        if len(rows) == len(X):
            return layout.unfolded.coordinates, agreed
        with run.stage("unfolding"):
            return PatchMap(atlas.cover, atlas.charts, layout.unfolded.stitched)(X, run), agreed
    return None


def _has_dimension(rows: FloatArray, n_components: int) -> bool:
    if len(rows) < MIN_SURFACE_POINTS or rows.shape[1] < n_components:
        return False
    return abs(intrinsic_dimension(rows).value - n_components) <= MAX_DIMENSION_ERROR


def _rough_atlases(rows: FloatArray, n_components: int, run: Run) -> tuple[NeighborGraph, list[Atlas]]:
    """Return the graph, and the atlas with the fewest patches that distort little.

    The atlas of twice as many, if it was tried, comes second: smaller patches separate sheets that noise brings
    together.
    """
    options = ChartOptions(min(n_components, rows.shape[1]), "curved", None, START_OVERLAP, False)
    rule = NeighborRule(N_START_NEIGHBORS).resolve(len(rows))
    graph = symmetrize(neighbor_graph(rows, rule, run)[0])
    max_cells = max(1, min(MAX_START_PATCHES, len(rows) // options.min_points))
    n_cells, best = min(MIN_PATCHES, max_cells), 0
    tried = [voronoi_atlas(rows, graph, n_cells, options, run)]
    while tried[best].distortion > START_DISTORTION and 2 * n_cells <= max_cells and run.step(n_cells, max_cells):
        n_cells *= 2
        tried.append(voronoi_atlas(rows, graph, n_cells, options, run))
        best = len(tried) - 1 if tried[-1].distortion <= MAX_DISTORTION_RATIO * tried[best].distortion else best
    return graph, tried[best : best + 2]


def _is_sheet(atlas: Atlas) -> bool:
    """Return whether the patches have no more dimensions than their charts, and are connected."""
    return not atlas.no_surface and int(atlas.components.max()) == 0


def _fits(rows: FloatArray, layout: PatchLayout, n_components: int, run: Run) -> bool:
    """Return whether the patches fit together in n_components dimensions and preserve the sample's neighbors."""
    residual = unexplained(layout.unfolded.spectrum.values)
    if len(residual) >= n_components and residual[n_components - 1] > MAX_FOLDED_VARIANCE:
        return False
    n_points = min(N_TRUSTED_POINTS, len(rows))
    trust = trustworthiness(rows, layout.unfolded.coordinates, sample=n_points, n_jobs=run.n_jobs)
    return float(trust) >= MIN_START_TRUST
