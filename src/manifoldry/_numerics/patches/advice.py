"""Findings about an atlas and its embedding, each with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import connected_components, dijkstra
from manifoldry._core.values import FloatArray, NeighborGraph, Spectrum
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE
from manifoldry._numerics.geometry.dimension import IntrinsicDimension
from manifoldry._numerics.geometry.tangent import MAX_LENGTH_ERROR, MAX_SCALE_MISFIT
from manifoldry._numerics.patches.affine import AlignedCharts
from manifoldry._numerics.patches.atlas import MAX_SURFACE_RESIDUAL, Atlas
from manifoldry._numerics.patches.charts import MAX_WHOLE_POINTS, Charts, GeodesicCharts, layout_kind
from manifoldry._numerics.patches.layout import PatchLayout
from manifoldry._numerics.patches.overlaps import MIN_TIGHTNESS
from manifoldry._numerics.patches.restarts import MAX_COMPRESSION, Chosen, edge_ratios
from manifoldry._numerics.patches.tessellation import Tessellation

MAX_CHART_RESIDUAL = 0.1
"""Largest residual of a chart, relative to the spread of its patch, without a finding."""
MAX_TORN_SHARE = 0.02
"""Largest share of edges that no patch contains, or that grow by half, without a finding. Shortened edges do not count:
noise across the surface shortens 6 % of them by half."""
MIN_PRINTED_SHARE = 0.005
"""Smallest share of torn edges that does not print as 0 %."""
MIN_FOLDED_INCONSISTENCY = 0.018
"""Inconsistency from which a surface counts as folded or torn. IPA has up to 0.01 on eleven unfolded surfaces and at
least 0.03 on folded rolls; ManifoldCharting up to 0.01 without noise and at least 0.018 where it is wrong."""
MAX_FOLDED_VARIANCE = 0.01
"""Largest share of the variance outside the plane without a finding: below 5e-4 on rolls, 0.02 on a Moebius strip, 0.05
on a torus, a third on a sphere."""
MAX_ROUGH_SHARE = 0.05
"""Largest share of rough patches at which the others show whether the surface is closed."""
MAX_LOOP_DIMENSION = 4
"""Largest measured dimension of a loop: 72 views of a turning object have between 2 and 4."""
MIN_LOOP_SHARE = 0.1
"""Smallest share of the points in each half of a loop."""


CLOSED_LOOP = (
    "The points form a closed loop, which a flat layout cannot represent: use TSNE or UMAP for a picture, or cut the "
    "loop by leaving out a few neighboring points."
)

AS_PCA = (
    "Several patches do not preserve neighbors better than one patch of all points, so the layout is that of PCA: use "
    "TSNE or UMAP for a picture, Isomap for distances along the data."
)

AS_ISOMAP = (
    "Patches preserve neighbors less well than geodesic distances between all points, so the layout is that of Isomap "
    f"(of at most {MAX_WHOLE_POINTS:,} points, from which others are reconstructed): use TSNE or UMAP for a picture."
)

LAID_FLAT = (
    "The layout was solved in n_components dimensions and is not proven: stretch_, certificate_ and error_certificate_ "
    "describe the program in all dimensions, whose solution is less consistent with the points."
)

PATCHES_DISAGREE = (
    "The patches do not agree with each other, so distances in the layout differ from those along the surface: it is "
    "curved in every direction, or neighbors are connected across a gap. Use fewer neighbors, or more points."
)


def advice(
    layout: PatchLayout,
    n_components: int,
    dimension: IntrinsicDimension | None = None,
    chosen: Chosen[Any] | None = None,
    changes: FloatArray | None = None,
) -> tuple[str, ...]:
    """Return the findings about unfolded patches that are worth a warning, none if all is well.

    The measured ``dimension`` distinguishes data of more than n_components dimensions from closed and from badly
    covered surfaces. The ``chosen`` layout is needed to detect loops, and surfaces that are not unfolded although the
    alignment is proven. The relative ``changes`` of edge lengths give the share of torn edges.
    """
    charts, spectrum = layout.atlas.charts, layout.unfolded.spectrum
    findings = [*_isolated_patches(layout), *_components_finding(layout.unfolded.stitched.n_components)]
    fallback = _fallback_finding(charts)
    isomap = layout_kind(charts) == "Isomap"
    if dimension is not None and (isomap or _no_surface(charts.residuals, charts.width, spectrum, n_components)):
        shape = _shape_finding(n_components, dimension, None if chosen is None else chosen.graph)
        if shape or isomap:
            return (*shape, *fallback, *findings)
    # The shape of the data explains nothing: report what is wrong with the patches.
    torn_edges = _torn_finding(layout.atlas)
    findings += [*_curved_finding(charts.residuals), *torn_edges]
    misfit = _misfit_finding(layout.atlas, spectrum, n_components, dimension)
    explained = misfit or torn_edges or layout.unfolded.stitched.n_components > 1 or charts.n_patches == 1
    if explained or chosen is None:
        return (*fallback, *findings, *misfit)
    if _is_folded(chosen, MIN_FOLDED_INCONSISTENCY):
        misfit = (_folded_finding(layout.unfolded.stitched.certificate.optimal, changes),)
    elif not chosen.agreed:
        misfit = (PATCHES_DISAGREE,)
    return (*fallback, *findings, *misfit)


def flatness_remarks(residuals: FloatArray) -> tuple[str, ...]:
    """Return how many patches are not flat. Noise explains it too, so it is recorded and not warned of."""
    return () if _curved_finding(residuals) else tuple(_rough_finding(residuals))


def chart_remarks(charts: Charts) -> tuple[str, ...]:
    """Return remarks about charts: that they are not flat, or that Isomap's graph was disconnected."""
    if isinstance(charts, GeodesicCharts) and charts.joined:
        message = (
            f"The graph of Isomap has {charts.joined} connected components, joined by their shortest edges: distances "
            "between components mean little."
        )
        return (message,) if charts.joined > 1 else ()
    return flatness_remarks(charts.residuals)


def tessera_remarks(tessellation: Tessellation) -> tuple[str, ...]:
    """Return remarks about a tessellation: whether the proof covers the layout, and flatness."""
    return (*((LAID_FLAT,) if tessellation.flat is not None else ()), *chart_remarks(tessellation.charts))


def tessera_advice(
    tessellation: Tessellation,
    graph: NeighborGraph,
    n_components: int,
    dimension: IntrinsicDimension,
    spectrum: Spectrum,
) -> tuple[str, ...]:
    """Return the findings about a tessellation that are worth a warning, none if all is well."""
    fallback, isomap = _fallback_finding(tessellation.charts), layout_kind(tessellation.charts) == "Isomap"
    shape: tuple[str, ...] = ()
    if isomap or _no_surface(tessellation.residuals, tessellation.tesserae.f.shape[1], spectrum, n_components):
        shape = _shape_finding(n_components, dimension, graph)
    if shape or isomap:
        return (*shape, *fallback)
    too_wide = _lost(spectrum, n_components) > MAX_LOST_VARIANCE
    return (
        *fallback,
        *_curved_finding(tessellation.residuals),
        *((_too_wide_finding(spectrum, n_components),) if too_wide else ()),
    )


def charting_advice(chosen: Chosen[AlignedCharts], dimension: IntrinsicDimension) -> tuple[str, ...]:
    """Return the findings about aligned charts that are worth a warning, none if all is well."""
    aligned, graph = chosen.layout, chosen.graph
    atlas, n_components = aligned.atlas, aligned.coordinates.shape[1]
    findings = [*aligned.notes.get("advice", ()), *_components_finding(aligned.placed.n_components)]
    shape = _shape_finding(n_components, dimension, graph) if atlas.no_surface else ()
    if shape:
        return (*shape, *_scale_finding(aligned.notes, surface=False), *findings)
    findings += _scale_finding(aligned.notes, surface=True)
    findings += [*_curved_finding(atlas.charts.residuals), *_torn_finding(atlas)]
    if not findings and _is_folded(chosen, MIN_FOLDED_INCONSISTENCY):
        findings.append(_folded_finding(False, edge_ratios(graph, aligned.scaled) - 1))
    return tuple(findings)


def _scale_finding(notes: Mapping[str, Any], *, surface: bool) -> tuple[str, ...]:
    """Return why coordinates have unit variance, if the charts do not determine a common scale."""
    if notes["isometric"]:
        return ()
    if notes.get("misfit", 0.0) > MAX_SCALE_MISFIT:
        cause = ": the surface may be closed, curved in every direction, or folded; IPA detects which."
        return (f"The charts agree on no common scale, so coordinates have unit variance{cause if surface else '.'}",)
    if notes.get("length_error", 0.0) > MAX_LENGTH_ERROR:
        return (
            f"At the scale of the charts one edge in four would be off by {notes['length_error']:.0%} or more, so "
            "coordinates have unit variance: width and height of the picture cannot be compared.",
        )
    return ()


def _no_surface(residuals: FloatArray, width: int, spectrum: Spectrum, n_components: int) -> bool:
    """Return whether the charts miss the points, or whether wider charts were cut to n_components dimensions."""
    cut = width > n_components and _lost(spectrum, n_components) > MAX_LOST_VARIANCE
    return bool(np.median(residuals) > MAX_SURFACE_RESIDUAL) or cut


def _shape_finding(n_components: int, dimension: IntrinsicDimension, graph: NeighborGraph | None) -> tuple[str, ...]:
    """Return what data that is not a surface looks like, if that is known."""
    if graph is not None and int(dimension) <= MAX_LOOP_DIMENSION and is_loop(graph):
        return (CLOSED_LOOP,)
    if dimension.value <= n_components + 0.5:
        return ()
    d = int(dimension)
    return (
        f"The data is about {d}-dimensional, so an embedding with n_components={n_components} cannot preserve "
        f"distances: use TSNE or UMAP for a picture, or n_components={d} for features.",
    )


def _misfit_finding(
    atlas: Atlas, spectrum: Spectrum, n_components: int, dimension: IntrinsicDimension | None
) -> tuple[str, ...]:
    """Return why the patches do not fit together in n_components dimensions, if they do not."""
    width, residuals = atlas.charts.width, atlas.charts.residuals
    if dimension is not None and dimension.value <= n_components + 0.5:
        if _lost(spectrum, max(width, n_components)) <= MAX_FOLDED_VARIANCE:
            return ()
        lost, d = _lost(spectrum, n_components), _dimensions(spectrum, MAX_FOLDED_VARIANCE)
        if np.mean(residuals > MAX_CHART_RESIDUAL) > MAX_ROUGH_SHARE:
            return (
                f"The patches do not fit together in {n_components} dimensions, although the data is about "
                f"{int(dimension)}-dimensional: neighbors may be connected across sheets. Use fewer neighbors, or "
                "more points.",
            )
        shape = (
            "curve is a closed loop"
            if n_components == 1
            else "surface is closed (like a sphere, a torus or a tube) or curved in every direction"
        )
        return (
            f"The {shape}: its patches fit together in {d} dimensions and not in {n_components}, which lose "
            f"{lost:.0%} of the variance. Use n_components={d} to embed it without a cut.",
        )
    return (_too_wide_finding(spectrum, n_components),) if _lost(spectrum, n_components) > MAX_LOST_VARIANCE else ()


def _is_folded(chosen: Chosen[Any], min_score: float) -> bool:
    """Return whether a layout is that inconsistent with the points, or compresses them."""
    return chosen.score >= min_score or chosen.compression > MAX_COMPRESSION


def _folded_finding(proven: bool, changes: FloatArray | None) -> str:
    share = float((changes > 0.5).mean()) if changes is not None and len(changes) else 0.0
    tear = f" and {share:.0%} of the neighbor pairs are torn apart" if share >= MIN_PRINTED_SHARE else ""
    return (
        f"{'The placement of these patches is proven, but the' if proven else 'The'} surface is not unfolded: points "
        f"lie closer together than in the data{tear}. Use more points, fewer neighbors, or a larger n_init."
    )


def is_loop(graph: NeighborGraph) -> bool:
    """Return whether the points lie around one loop: there are two ways from an outermost point to the farthest.

    The points halfway form two large components of the graph; those nearer and those farther form one each.
    """
    lengths = csr_array((graph.lengths, graph.indices, graph.indptr), shape=(graph.n_points, graph.n_points))
    distances = dijkstra(lengths, directed=False, indices=0)
    outermost = int(np.argmax(np.where(np.isfinite(distances), distances, -1.0)))
    distances = dijkstra(lengths, directed=False, indices=outermost)
    reached = np.isfinite(distances)
    thirds = np.where(
        reached, np.minimum(3 * distances / max(distances[reached].max(), np.finfo(float).tiny), 2.99), -1
    ).astype(int)
    n_large = []
    for third in range(3):
        members = np.flatnonzero(thirds == third)
        sizes = np.bincount(connected_components(lengths[members][:, members], directed=False)[1], minlength=1)
        n_large.append(int((sizes >= MIN_LOOP_SHARE * graph.n_points).sum()))
    return n_large[1] == 2 and n_large[0] == n_large[2] == 1


def _too_wide_finding(spectrum: Spectrum, n_components: int) -> str:
    return (
        f"The unfolded patches need {_dimensions(spectrum)} dimensions and {n_components} lose "
        f"{_lost(spectrum, n_components):.0%} of their variance: the intrinsic dimension looks larger than that."
    )


def _fallback_finding(charts: Charts) -> tuple[str, ...]:
    """Return the message that the layout is that of another method, if it is."""
    return {"patches": (), "PCA": (AS_PCA,), "Isomap": (AS_ISOMAP,)}[layout_kind(charts)]


def _rough_finding(residuals: FloatArray) -> list[str]:
    count = int((residuals > MAX_CHART_RESIDUAL).sum())
    if not count:
        return []
    return [
        f"{count} of {len(residuals)} patches {'is' if count == 1 else 'are'} not flat enough (points are up to "
        f"{residuals.max():.0%} of the patch's spread away from its chart): use more patches, or more dimensions."
    ]


def _curved_finding(residuals: FloatArray) -> list[str]:
    """Return how many patches are not flat, where most are too curved for noise to explain it."""
    return _rough_finding(residuals) if float(np.median(residuals)) > MAX_SURFACE_RESIDUAL else []


def _isolated_patches(layout: PatchLayout) -> list[str]:
    overlaps, mask, n_patches = layout.overlaps, layout.firm, layout.atlas.charts.n_patches
    if mask.all() or n_patches < 2:
        return []
    connected = np.zeros(n_patches, dtype=bool)
    connected[overlaps.first[mask]] = connected[overlaps.second[mask]] = True
    if connected.all():
        return []
    loose = int((~connected).sum())
    verb = "shares" if loose == 1 else "share"
    return [
        f"{loose} of {n_patches} patches {verb} too little with any other (least spread below "
        f"{MIN_TIGHTNESS:g} of a typical overlap): raise overlap, or use fewer patches."
    ]


def _components_finding(n_components: int) -> list[str]:
    if n_components < 2:
        return []
    return [
        f"The patch graph has {n_components} connected components, drawn side by side; their relative position has no "
        "meaning: raise n_neighbors or overlap if they belong together."
    ]


def _torn_finding(atlas: Atlas) -> list[str]:
    distortions = atlas.distortions
    share = float((np.nan_to_num(distortions) > 0.5).mean()) if len(distortions) else 0.0
    if share <= MAX_TORN_SHARE:
        return []
    return [f"{share:.0%} of the neighbor pairs are torn apart: use more patches, or fewer neighbors."]


def _lost(spectrum: Spectrum, n_components: int) -> float:
    """Return the share of the variance beyond the first n_components axes."""
    total = float(spectrum.values.sum())
    return float(spectrum.values[n_components:].sum()) / total if total > 0 else 0.0


def _dimensions(spectrum: Spectrum, lost: float = MAX_LOST_VARIANCE) -> int:
    """Return the number of dimensions that keep all but this share of the variance."""
    cumulative = np.cumsum(spectrum.values) / spectrum.values.sum()
    return int(np.argmax(cumulative >= 1 - lost)) + 1


MIN_TESSERA_CONTRADICTION = 0.015
"""Inconsistency from which tesserae count as not unfolded: up to 0.014 on eleven unfolded surfaces and a noisy S-curve,
at least 0.017 on sectors of cones that are not unfolded."""


def folded_tesserae(chosen: Chosen[Tessellation], n_components: int) -> tuple[str, ...]:
    """Return the finding that a tessellation of a surface is inconsistent with its points, if it is."""
    tessellation = chosen.layout
    several = len(tessellation.residuals) > 1 and np.median(tessellation.residuals) <= MAX_SURFACE_RESIDUAL
    if not several or not _is_folded(chosen, MIN_TESSERA_CONTRADICTION):
        return ()
    changes = edge_ratios(tessellation.graph, tessellation.coordinates(n_components)) - 1
    return (_folded_finding(False, changes),)
