"""The start of a descent: a flat surface begins unrolled, by patches as in IPA, anything else where it was told to."""

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
from manifoldry._numerics.patches.layout import PatchLayout, lay_out
from manifoldry._numerics.patches.overlaps import patch_components
from manifoldry._numerics.patches.unfold import PatchMap
from manifoldry._numerics.ranks import trustworthiness
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_START_SAMPLE = 5000
"""Points from which the patches of a start are estimated, a quarter of IPA's: so it takes less than a second to find
out whether the data is a surface."""

N_START_NEIGHBORS = 6
"""Neighbors in the graph of the sample, as few as IPA's."""

START_OVERLAP = 0.3
"""Overlap of the patches, as IPA's."""

START_DISTORTION = 0.02
"""Root mean square change of edge lengths at which a start has patches enough, ten times that of IPA: the descent
bends it anyway. A roll needs about 20 patches for it, a double spiral 64."""

MAX_START_PATCHES = 128
"""More patches than that are not tried; surfaces that are not flat, which a start is not for, would take most time."""

MIN_SURFACE_POINTS = 300
"""Minimum number of points of a surface: with fewer, neighbors are across the sheets of a roll, and nothing is known of
its dimension."""

MAX_DIMENSION_ERROR = 0.5
"""Maximum difference between the measured dimension of the data and n_components: 1.9 to 2.1 on surfaces, 1.0 on
curves, 3 to 20 on measurements and images."""

N_TORN_ROWS = 2000
"""Rows whose affinities are looked at."""

N_TRUSTED_POINTS = 1000
MIN_START_TRUST = 0.98
"""Minimum trustworthiness of a start at so many points: above 0.999 on rolls of 300 points and more, clean or noisy,
below 0.9 where sheets are laid on each other."""


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
    """Return the start that ``init`` asks for.

    "auto" is "ipa" where ``X`` holds rows of a flat surface in the Euclidean metric (`surface_layout`), else
    ``otherwise``; if that is None, "pca" for rows and distances and "spectral" for graphs.
    """
    if not isinstance(init, str):
        return Start("given", given_layout(init, run))
    pairwise = isinstance(metric, str) and metric in ("precomputed", "affinity")
    places = None
    if init == "ipa":
        places = patch_places(dense_rows(X, run), n_components, run)
    elif init == "auto":
        euclidean = isinstance(metric, str) and metric == "euclidean"
        if euclidean and not issparse(X) and not isinstance(X, NeighborGraph):
            places = patch_places(X, n_components, run, only_surfaces=True)
        init = otherwise or default_init(X, pairwise)
    if places is not None:
        return Start("ipa", unit_layout(places, run))
    return Start(init, initial_layout(init, X, affinities, n_components, run, pairwise=pairwise))


def torn_share(X: Array, places: FloatArray, affinities: csr_array) -> float:
    """Return the share of the affinities between rows that ``places`` take more than twice as far apart as usual.

    That is where lists of neighbors reach across the sheets of a roll. A few thousand rows tell.
    """
    rows = np.arange(0, len(X), -(-len(X) // N_TORN_ROWS))
    held = affinities[rows].tocoo()
    i, j = rows[held.row], held.col
    before = np.linalg.norm(np.asarray(X[i] - X[j], dtype=float), axis=1)
    after = np.linalg.norm(places[i] - places[j], axis=1)
    known = before > 0
    ratios = after[known] / before[known]
    torn = ratios > 2 * np.median(ratios) if len(ratios) else ratios > 0
    return float(held.data[known][torn].sum() / max(held.data.sum(), np.finfo(float).tiny))


def patch_places(X: Array, n_components: int, run: Run, only_surfaces: bool = False) -> FloatArray | None:
    """Return all rows laid out by the patches of a sample; with ``only_surfaces`` None where that is no flat surface.

    A flat surface has n_components dimensions, as measured; its patches have charts of so many dimensions and are
    connected; they fit together in n_components dimensions, and points laid next to each other are neighbors.
    """
    found = agreed_places(X, n_components, run, only_surfaces)
    return None if found is None else found[0]


def agreed_places(X: Array, n_components: int, run: Run, only_surfaces: bool = False) -> tuple[FloatArray, bool] | None:
    """Return what `patch_places` does, and whether the patches agree with each other."""
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
    """Return the graph, and the atlas of as few patches as distort little, or not clearly more than twice as many do.

    That of twice as many, if it was tried, comes second: smaller patches keep sheets apart that noise brings together.
    """
    options = ChartOptions(min(n_components, rows.shape[1]), "curved", None, START_OVERLAP, False)
    rule = NeighborRule(N_START_NEIGHBORS).resolve(len(rows))
    graph = symmetrize(neighbor_graph(rows, rule, run)[0])
    most = max(1, min(MAX_START_PATCHES, len(rows) // options.min_points))
    n_cells, best = min(MIN_PATCHES, most), 0
    tried = [voronoi_atlas(rows, graph, n_cells, options, run)]
    while tried[best].distortion > START_DISTORTION and 2 * n_cells <= most and run.step(n_cells, most):
        n_cells *= 2
        tried.append(voronoi_atlas(rows, graph, n_cells, options, run))
        best = len(tried) - 1 if tried[-1].distortion <= MAX_DISTORTION_RATIO * tried[best].distortion else best
    return graph, tried[best : best + 2]


def _is_sheet(atlas: Atlas) -> bool:
    """Tell whether the patches have no more dimensions than their charts and are connected."""
    firm = atlas.overlaps[atlas.overlaps.firm(atlas.charts.sizes)]
    return not atlas.no_surface and int(patch_components(firm, atlas.charts.n_patches).max()) == 0


def _fits(rows: FloatArray, layout: PatchLayout, n_components: int, run: Run) -> bool:
    """Tell whether the patches fit together in n_components dimensions and the sample's neighbors are kept."""
    left = unexplained(layout.unfolded.spectrum.values)
    if len(left) >= n_components and left[n_components - 1] > MAX_FOLDED_VARIANCE:
        return False
    many = min(N_TRUSTED_POINTS, len(rows))
    trust = trustworthiness(rows, layout.unfolded.coordinates, sample=many, n_jobs=run.n_jobs)
    return float(trust) >= MIN_START_TRUST
