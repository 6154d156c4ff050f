"""Findings about an atlas and its embedding, each with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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
from manifoldry._numerics.patches.restarts import MAX_COMPRESSION, SelectedLayout
from manifoldry._numerics.patches.tessellation import Tessellation
from manifoldry.graph._operations import edge_ratios

MAX_CHART_RESIDUAL = 0.1  # largest residual of a chart, relative to the spread of its patch, without a finding
MAX_TORN_SHARE = 0.02
"""Largest share of edges in no patch, or longer by half, without a finding; noise only shortens edges."""
MIN_PRINTED_SHARE = 0.005  # smallest share of torn edges that does not print as 0 %
MIN_FOLDED_INCONSISTENCY = 0.018
"""Inconsistency from which a surface counts as folded or torn: at most 0.01 if unfolded, at least 0.018 if wrong."""
MAX_FOLDED_VARIANCE = 0.01
"""Largest share of the variance outside the plane without a finding: 5e-4 on rolls, 0.02 on a Moebius strip."""
MAX_ROUGH_SHARE = 0.05  # largest share of rough patches at which the others show whether the surface is closed
MAX_LOOP_DIMENSION = 4  # largest measured dimension of a loop: 72 views of a turning object have between 2 and 4
MIN_LOOP_SHARE = 0.1  # smallest share of the points in each half of a loop
FALLBACKS = {
    "patches": (),
    "PCA": (
        "Several patches do not preserve neighbors better than one patch of all points, so the layout is that of PCA: "
        "use TSNE or UMAP for a picture, Isomap for distances along the data.",
    ),
    "Isomap": (
        "Patches preserve neighbors less well than geodesic distances between all points, so the layout is that of "
        f"Isomap (of at most {MAX_WHOLE_POINTS:,} points, from which others are reconstructed): use TSNE or UMAP for a "
        "picture.",
    ),
}
"""The finding that a layout is that of another method."""
LAID_FLAT = (
    "The layout was solved in n_components dimensions and is not proven: stretch_, certificate_ and error_certificate_ "
    "describe the program in all dimensions, whose solution is less consistent with the points."
)


def advice(
    layout: PatchLayout,
    n_components: int,
    dimension: IntrinsicDimension | None = None,
    chosen: SelectedLayout[Any] | None = None,
    changes: FloatArray | None = None,
) -> tuple[str, ...]:
    """Return the findings about unfolded patches that are worth a warning, none if all is well.

    Loops and surfaces that are not unfolded although the alignment is proven are detected in the ``chosen`` layout.
    """
    charts, spectrum = layout.atlas.charts, layout.unfolded.spectrum
    findings = [*_isolated_patches(layout), *_components_finding(layout.unfolded.stitched.n_components)]
    fallback, isomap = FALLBACKS[layout_kind(charts)], layout_kind(charts) == "Isomap"
    if dimension is not None and (isomap or _no_surface(charts, spectrum, n_components)):
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
        misfit = (
            "The patches do not agree with each other, so distances in the layout differ from those along the surface: "
            "it is curved in every direction, or neighbors are connected across a gap. Use fewer neighbors, or more "
            "points.",
        )
    return (*fallback, *findings, *misfit)


def chart_remarks(charts: Charts) -> tuple[str, ...]:
    """Return remarks about charts, which noise may explain: a disconnected graph of Isomap, or how many are rough."""
    if isinstance(charts, GeodesicCharts) and charts.joined:
        message = f"The graph of Isomap has {charts.joined} connected components, joined by their shortest edges: "
        return (f"{message}distances between components mean little.",) if charts.joined > 1 else ()
    return () if _curved_finding(charts.residuals) else tuple(_rough_finding(charts.residuals))


def tessera_remarks(tessellation: Tessellation) -> tuple[str, ...]:
    """Return remarks about a tessellation: whether the proof covers the layout, and flatness."""
    return (*((LAID_FLAT,) if tessellation.flat is not None else ()), *chart_remarks(tessellation.charts))


def tessera_advice(
    charts: Charts, graph: NeighborGraph, n_components: int, dimension: IntrinsicDimension, spectrum: Spectrum
) -> tuple[str, ...]:
    """Return the findings about the charts of tesserae that are worth a warning, none if all is well."""
    fallback, isomap = FALLBACKS[layout_kind(charts)], layout_kind(charts) == "Isomap"
    no_surface = isomap or _no_surface(charts, spectrum, n_components)
    shape = _shape_finding(n_components, dimension, graph) if no_surface else ()
    if shape or isomap:
        return (*shape, *fallback)
    return (*fallback, *_curved_finding(charts.residuals), *_too_wide_finding(spectrum, n_components))


def charting_advice(chosen: SelectedLayout[AlignedCharts], dimension: IntrinsicDimension) -> tuple[str, ...]:
    """Return the findings about aligned charts that are worth a warning, none if all is well."""
    aligned, graph = chosen.layout, chosen.graph
    atlas, n_components = aligned.atlas, aligned.coordinates.shape[1]
    findings = [*aligned.notes.get("advice", ()), *_components_finding(aligned.maps.n_components)]
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


def _no_surface(charts: Charts, spectrum: Spectrum, n_components: int) -> bool:
    """Return whether the charts miss the points, or whether wider charts were cut to n_components dimensions."""
    cut = charts.width > n_components and _lost(spectrum, n_components) > MAX_LOST_VARIANCE
    return bool(np.median(charts.residuals) > MAX_SURFACE_RESIDUAL) or cut


def _shape_finding(n_components: int, dimension: IntrinsicDimension, graph: NeighborGraph | None) -> tuple[str, ...]:
    """Return what data that is not a surface looks like, if that is known."""
    if graph is not None and int(dimension) <= MAX_LOOP_DIMENSION and is_loop(graph):
        return (
            "The points form a closed loop, which a flat layout cannot represent: use TSNE or UMAP for a picture, or "
            "cut the loop by leaving out a few neighboring points.",
        )
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
    return _too_wide_finding(spectrum, n_components)


def _is_folded(chosen: SelectedLayout[Any], min_score: float) -> bool:
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
    """Return whether the points lie around one loop: those halfway to the farthest point form two large components."""
    lengths = graph.to_sparse()
    distances = dijkstra(lengths, directed=False, indices=0)
    outermost = int(np.argmax(np.where(np.isfinite(distances), distances, -1.0)))
    distances = dijkstra(lengths, directed=False, indices=outermost)
    reached = np.isfinite(distances)
    longest = max(distances[reached].max(), np.finfo(float).tiny)
    thirds = np.where(reached, np.minimum(3 * distances / longest, 2.99), -1).astype(int)
    n_large = []
    for third in range(3):
        members = np.flatnonzero(thirds == third)
        sizes = np.bincount(connected_components(lengths[members][:, members], directed=False)[1], minlength=1)
        n_large.append(int((sizes >= MIN_LOOP_SHARE * graph.n_points).sum()))
    return n_large[1] == 2 and n_large[0] == n_large[2] == 1


def _too_wide_finding(spectrum: Spectrum, n_components: int) -> tuple[str, ...]:
    lost = _lost(spectrum, n_components)
    if lost <= MAX_LOST_VARIANCE:
        return ()
    return (
        f"The unfolded patches need {_dimensions(spectrum)} dimensions and {n_components} lose {lost:.0%} of their "
        "variance: the intrinsic dimension looks larger than that.",
    )


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
    overlaps, n_patches = layout.overlaps[layout.well_conditioned], layout.atlas.charts.n_patches
    loose = n_patches - len(np.union1d(overlaps.first, overlaps.second))
    if not loose or layout.well_conditioned.all() or n_patches < 2:
        return []
    return [
        f"{loose} of {n_patches} patches {'shares' if loose == 1 else 'share'} too little with any other (least spread "
        f"below {MIN_TIGHTNESS:g} of a typical overlap): raise overlap, or use fewer patches."
    ]


def _components_finding(n_components: int) -> list[str]:
    message = (
        f"The patch graph has {n_components} connected components, drawn side by side; their relative position has no "
        "meaning: raise n_neighbors or overlap if they belong together."
    )
    return [message] if n_components > 1 else []


def _torn_finding(atlas: Atlas) -> list[str]:
    distortions = atlas.distortions
    share = float((np.nan_to_num(distortions) > 0.5).mean()) if len(distortions) else 0.0
    message = f"{share:.0%} of the neighbor pairs are torn apart: use more patches, or fewer neighbors."
    return [message] if share > MAX_TORN_SHARE else []


def _lost(spectrum: Spectrum, n_components: int) -> float:
    """Return the share of the variance beyond the first n_components axes."""
    total = float(spectrum.values.sum())
    return float(spectrum.values[n_components:].sum()) / total if total > 0 else 0.0


def _dimensions(spectrum: Spectrum, lost: float = MAX_LOST_VARIANCE) -> int:
    """Return the number of dimensions that keep all but this share of the variance."""
    cumulative = np.cumsum(spectrum.values) / spectrum.values.sum()
    return int(np.argmax(cumulative >= 1 - lost)) + 1


MIN_TESSERA_INCONSISTENCY = 0.015
"""Inconsistency from which tesserae are not unfolded: at most 0.014 on unfolded surfaces, at least 0.017 on others."""


def folded_tesserae(chosen: SelectedLayout[Tessellation], n_components: int) -> tuple[str, ...]:
    """Return the finding that a tessellation of a surface is inconsistent with its points, if it is."""
    tessellation, residuals = chosen.layout, chosen.layout.charts.residuals
    several = len(residuals) > 1 and np.median(residuals) <= MAX_SURFACE_RESIDUAL
    if not several or not _is_folded(chosen, MIN_TESSERA_INCONSISTENCY):
        return ()
    changes = edge_ratios(tessellation.graph, tessellation.coordinates(n_components)) - 1
    return (_folded_finding(False, changes),)
