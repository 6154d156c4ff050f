"""The start of a descent: flat surfaces start unrolled by patches, as in IPA; other data as requested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, NeighborGraph
from manifoldry._numerics.descent.initialization import Start, default_init, given_layout, initial_layout, unit_layout
from manifoldry._numerics.elbow import unexplained
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighbor_affinity import JointRows
from manifoldry._numerics.geometry.neighborhoods import dense_rows
from manifoldry._numerics.patches.advice import MAX_FOLDED_VARIANCE
from manifoldry._numerics.patches.atlas import MAX_DISTORTION_RATIO, MIN_PATCHES, Atlas, ChartOptions, voronoi_atlas
from manifoldry._numerics.patches.layout import PatchLayout, PatchMap, lay_out
from manifoldry._numerics.ranks import trustworthiness
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_START_SAMPLE = 5000
"""Points from which patches are estimated, a quarter of IPA's: the test for a surface takes less than a second."""
N_START_NEIGHBORS, START_OVERLAP = 6, 0.3  # neighbors in the graph of the sample, and overlap of the patches, as in IPA
START_DISTORTION = 0.02
"""Root mean square change of edge lengths with enough patches, ten times that of IPA: the descent changes it."""
MAX_START_PATCHES = 128
"""Most patches tried: surfaces that are not flat would take most of the time, and do not use the result."""
MIN_SURFACE_POINTS = 300
"""Fewest points of a surface: with fewer, neighbors cross the sheets of a roll, and its dimension is unknown."""
MAX_DIMENSION_ERROR = 0.5
"""Largest difference between the measured dimension and n_components: 1.9 to 2.1 on surfaces, 3 to 20 on images."""
N_TORN_ROWS = 2000  # rows whose affinities are examined
N_TRUSTED_POINTS, MIN_START_TRUST = 1000, 0.98
"""Sampled points, and the least trustworthiness of a start: above 0.999 on rolls, below 0.9 where sheets overlap."""


def find_start(
    init: Any,
    X: Any,
    W: csr_array | JointRows,
    n_components: int,
    run: Run,
    metric: Any = "euclidean",
    otherwise: str | Callable[[], Start] = "",
) -> Start:
    """Return the start that ``init`` specifies; "auto" is "ipa" for rows of a flat surface, else ``otherwise``."""
    if not isinstance(init, str):
        return Start("given", given_layout(init, run))
    pairwise = isinstance(metric, str) and metric in ("precomputed", "affinity")
    layout = None
    if init == "ipa":
        layout, _ = surface_layout(dense_rows(X, run), n_components, run)
    elif init == "auto":
        euclidean = isinstance(metric, str) and metric == "euclidean"
        if euclidean and not issparse(X) and not isinstance(X, NeighborGraph):
            layout, _ = surface_layout(X, n_components, run, only_surfaces=True)
        if layout is None and callable(otherwise):
            return otherwise()
        init = otherwise or default_init(X, pairwise)
    if layout is not None:
        return Start("ipa", unit_layout(layout, run))
    return Start(init, initial_layout(init, X, W, n_components, run, pairwise=pairwise))


def torn_share(X: Array, layout: FloatArray, affinities: csr_array) -> float:
    """Return the share of affinities between rows that the layout moves more than twice as far apart as usual."""
    rows = np.arange(0, len(X), -(-len(X) // N_TORN_ROWS))
    edges = affinities[rows].tocoo()
    i, j = rows[edges.row], edges.col
    before = np.linalg.norm(np.asarray(X[i] - X[j], dtype=float), axis=1)
    after = np.linalg.norm(layout[i] - layout[j], axis=1)
    distinct = before > 0
    ratios = after[distinct] / before[distinct]
    torn = ratios > 2 * np.median(ratios) if len(ratios) else ratios > 0
    return float(edges.data[distinct][torn].sum() / max(edges.data.sum(), np.finfo(float).tiny))


def surface_layout(
    X: Array, n_components: int, run: Run, only_surfaces: bool = False
) -> tuple[FloatArray | None, bool]:
    """Return all rows laid out by the patches of a sample, and whether the patches agree with each other.

    The layout is None if ``only_surfaces`` and the data has another dimension, or its patches are not flat, not
    connected or do not fit together in n_components dimensions.
    """
    with run.stage("patches"):
        sample = np.arange(len(X))
        if len(X) > MAX_START_SAMPLE:
            sample = np.sort(run.rng("patch sample").choice(len(X), MAX_START_SAMPLE, replace=False))
        rows = np.asarray(X[sample], dtype=float)
        if only_surfaces and not _has_dimension(rows, n_components):
            return None, True
        graph, atlases = _rough_atlases(rows, n_components, run)
    for atlas in atlases:
        if only_surfaces and (atlas.no_surface or atlas.components.any()):
            continue
        # One dimension more than needed shows whether the patches fit together without it.
        layout = lay_out(atlas, n_components, run, max_rank=n_components + 1)
        if only_surfaces and not _fits(rows, layout, n_components, run):
            continue
        agreed = layout.agrees_with(graph, run)
        if len(rows) == len(X):
            return layout.unfolded.coordinates, agreed
        with run.stage("unfolding"):
            return PatchMap(atlas.cover, atlas.charts, layout.unfolded.stitched)(X, run), agreed
    return None, True


def _has_dimension(rows: FloatArray, n_components: int) -> bool:
    if len(rows) < MIN_SURFACE_POINTS or rows.shape[1] < n_components:
        return False
    return abs(intrinsic_dimension(rows).value - n_components) <= MAX_DIMENSION_ERROR


def _rough_atlases(rows: FloatArray, n_components: int, run: Run) -> tuple[NeighborGraph, list[Atlas]]:
    """Return the graph, the atlas of the fewest patches that distort little and, if tried, that of twice as many."""
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
    return graph, tried[best : best + 2]  # smaller patches separate sheets that noise connects


def _fits(rows: FloatArray, layout: PatchLayout, n_components: int, run: Run) -> bool:
    """Return whether the patches fit together in n_components dimensions and preserve the sample's neighbors."""
    residual = unexplained(layout.unfolded.spectrum.values)
    if len(residual) >= n_components and residual[n_components - 1] > MAX_FOLDED_VARIANCE:
        return False
    n_points = min(N_TRUSTED_POINTS, len(rows))
    trust = trustworthiness(rows, layout.unfolded.coordinates, sample=n_points, n_jobs=run.n_jobs)
    return float(trust) >= MIN_START_TRUST
