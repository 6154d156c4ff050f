"""Diagnosis of an atlas and its embedding: findings in sentences, each with what to do."""

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
"""Maximum residual of a chart, relative to the patch's spread, without a finding."""

MAX_TORN_SHARE = 0.02
"""Maximum share of edges that no patch holds, or that become half longer, without a finding. Edges that become shorter
do not count: noise across the surface shortens 6 % of them by half, and the surface is unfolded all the same."""

MIN_TOLD_SHARE = 0.005
"""Share of torn edges that does not read as 0 %."""

MIN_FOLDED_CONTRADICTION = 0.018
"""Contradiction (see `patches.restarts`) from which a surface passes for folded or torn. IPA has up to 0.01 on eleven
unfolded surfaces, noisy ones too, and 0.03 and more where rolls are folded; ManifoldCharting up to 0.01 on surfaces
without noise and 0.018 and more where it is wrong."""

MAX_FOLDED_VARIANCE = 0.01
"""Maximum share of the variance that patches of a surface leave their plane by, without a finding: below 5e-4 on rolls,
holed and noisy ones too, 0.02 on a Moebius strip, 0.05 on a torus, a third on a sphere."""

MAX_ROUGH_SHARE = 0.05
"""Maximum share of patches that are not flat enough with which the others can be said to close."""

MAX_LOOP_DIMENSION = 4
"""Maximum measured dimension of a loop: 72 views of a turning object have between 2 and 4, as the loop wavers."""

MIN_LOOP_SHARE = 0.1
"""Minimum share of the points that each of the two ways around a loop has."""


CLOSED_LOOP = (
    "The points form a closed loop, which no surface laid flat can hold open: for a picture use TSNE or UMAP, or cut "
    "the loop by leaving out the points of one place."
)

AS_PCA = (
    "No patches keep neighbors better than one patch of all points does, so the layout is that of PCA: for a picture "
    "use TSNE or UMAP, for distances along the data Isomap."
)

AS_ISOMAP = (
    "No patches keep neighbors as well as geodesic distances between all points do, so the layout is that of Isomap "
    f"(of at most {MAX_WHOLE_POINTS:,} points, from which others are reconstructed): for a picture use TSNE or UMAP."
)

LAID_FLAT = (
    "The layout was solved in n_components dimensions and is not proven: stretch_, certificate_ and error_certificate_ "
    "are of the program in all dimensions, whose solution the points contradict more."
)

PATCHES_DISAGREE = (
    "The patches do not agree with each other, so distances in the layout are not those along the surface: it is "
    "curved in every direction, or neighbors are joined across a gap. Use fewer neighbors, or more points."
)


def advice(
    layout: PatchLayout,
    n_components: int,
    dimension: IntrinsicDimension | None = None,
    chosen: Chosen[Any] | None = None,
    changes: FloatArray | None = None,
) -> tuple[str, ...]:
    """Return the findings about unfolded patches that are worth a warning, none if all is well.

    With the measured ``dimension`` of the data, data of more than n_components dimensions is told from closed and from
    badly covered surfaces; with the layout as it was ``chosen``, loops are found, and surfaces that are not unfolded
    though the placement is proven. The relative ``changes`` of the edges' lengths tell how much of them is torn.
    """
    charts, spectrum = layout.atlas.charts, layout.unfolded.spectrum
    found = [*_hanging(layout), *_in_pieces(layout.unfolded.stitched.n_components)]
    whole = _as_one_patch(charts)
    isomap = layout_kind(charts) == "Isomap"
    if dimension is not None and (isomap or _no_surface(charts.residuals, charts.width, spectrum, n_components)):
        shape = _shape(n_components, dimension, None if chosen is None else chosen.graph)
        if shape or isomap:
            return (*shape, *whole, *found)
    torn = _torn(layout.atlas)
    found += [*_not_flat(charts.residuals), *torn]
    unfitting = _unfitting(layout.atlas, spectrum, n_components, dimension)
    said = unfitting or torn or layout.unfolded.stitched.n_components > 1 or charts.n_patches == 1
    if said or chosen is None:
        return (*whole, *found, *unfitting)
    if _is_folded(chosen, MIN_FOLDED_CONTRADICTION):
        unfitting = (_folded(layout.unfolded.stitched.certificate.optimal, changes),)
    elif not chosen.agreed:
        unfitting = (PATCHES_DISAGREE,)
    return (*whole, *found, *unfitting)


def flatness_remarks(residuals: FloatArray) -> tuple[str, ...]:
    """Return how many patches are not flat, which noise explains too: worth a record, but not a warning."""
    return () if _not_flat(residuals) else tuple(_rough(residuals))


def chart_remarks(charts: Charts) -> tuple[str, ...]:
    """Return what is worth a record about charts: that they are not flat, or that Isomap's graph was in components."""
    if isinstance(charts, GeodesicCharts) and charts.joined:
        sentence = (
            f"The graph of Isomap has {charts.joined} connected components, which shortest edges join: distances "
            "between components mean little."
        )
        return (sentence,) if charts.joined > 1 else ()
    return flatness_remarks(charts.residuals)


def tessera_remarks(found: Tessellation) -> tuple[str, ...]:
    """Return what is worth a record about a tessellation: that the proof is not about a flat layout, and flatness."""
    return (*((LAID_FLAT,) if found.flat is not None else ()), *chart_remarks(found.charts))


def tessera_advice(
    found: Tessellation, graph: NeighborGraph, n_components: int, dimension: IntrinsicDimension, spectrum: Spectrum
) -> tuple[str, ...]:
    """Return the findings about a tessellation that are worth a warning, none if all is well."""
    whole, isomap = _as_one_patch(found.charts), layout_kind(found.charts) == "Isomap"
    shape: tuple[str, ...] = ()
    if isomap or _no_surface(found.residuals, found.tesserae.f.shape[1], spectrum, n_components):
        shape = _shape(n_components, dimension, graph)
    if shape or isomap:
        return (*shape, *whole)
    wide = _lost(spectrum, n_components) > MAX_LOST_VARIANCE
    return (*whole, *_not_flat(found.residuals), *((_too_wide(spectrum, n_components),) if wide else ()))


def charting_advice(chosen: Chosen[AlignedCharts], dimension: IntrinsicDimension) -> tuple[str, ...]:
    """Return the findings about aligned charts that are worth a warning, none if all is well."""
    aligned, graph = chosen.layout, chosen.graph
    atlas, n_components = aligned.atlas, aligned.coordinates.shape[1]
    found = [*aligned.notes.get("advice", ()), *_in_pieces(aligned.placed.n_components)]
    shape = _shape(n_components, dimension, graph) if atlas.no_surface else ()
    if shape:
        return (*shape, *_without_scale(aligned.notes, surface=False), *found)
    found += _without_scale(aligned.notes, surface=True)
    found += [*_not_flat(atlas.charts.residuals), *_torn(atlas)]
    if not found and _is_folded(chosen, MIN_FOLDED_CONTRADICTION):
        found.append(_folded(False, edge_ratios(graph, aligned.scaled) - 1))
    return tuple(found)


def _without_scale(notes: Mapping[str, Any], *, surface: bool) -> tuple[str, ...]:
    """Return why coordinates have unit variance, if the charts were to settle their scale and could not."""
    if notes["isometric"]:
        return ()
    if notes.get("misfit", 0.0) > MAX_SCALE_MISFIT:
        because = (
            "the surface may be closed, curved in every direction, or folded; IPA, which turns charts but does not "
        )
        return (
            "The charts agree on no common scale, so coordinates have unit variance"
            + (f": {because}stretch them, tells which." if surface else "."),
        )
    if notes.get("length_error", 0.0) > MAX_LENGTH_ERROR:
        return (
            f"At the scale of the charts one edge in four would be off by {notes['length_error']:.0%} or more, so "
            "coordinates have unit variance: width and height of the picture cannot be compared.",
        )
    return ()


def _no_surface(residuals: FloatArray, width: int, spectrum: Spectrum, n_components: int) -> bool:
    """Tell whether charts of n_components dimensions miss the points, or wider ones are cut."""
    cut = width > n_components and _lost(spectrum, n_components) > MAX_LOST_VARIANCE
    return bool(np.median(residuals) > MAX_SURFACE_RESIDUAL) or cut


def _shape(n_components: int, dimension: IntrinsicDimension, graph: NeighborGraph | None) -> tuple[str, ...]:
    """Say what data that is no surface is, if that is known."""
    if graph is not None and int(dimension) <= MAX_LOOP_DIMENSION and is_loop(graph):
        return (CLOSED_LOOP,)
    if dimension.value <= n_components + 0.5:
        return ()
    d = int(dimension)
    return (
        f"The data is about {d}-dimensional, so an embedding with n_components={n_components} cannot preserve "
        f"distances: use TSNE or UMAP for a picture, or n_components={d} for features.",
    )


def _unfitting(
    atlas: Atlas, spectrum: Spectrum, n_components: int, dimension: IntrinsicDimension | None
) -> tuple[str, ...]:
    """Say why patches do not fit together in n_components dimensions, if they do not."""
    width, residuals = atlas.charts.width, atlas.charts.residuals
    if dimension is not None and dimension.value <= n_components + 0.5:
        if _lost(spectrum, max(width, n_components)) <= MAX_FOLDED_VARIANCE:
            return ()
        lost, d = _lost(spectrum, n_components), _dimensions(spectrum, MAX_FOLDED_VARIANCE)
        if np.mean(residuals > MAX_CHART_RESIDUAL) > MAX_ROUGH_SHARE:
            return (
                f"The patches do not fit together in {n_components} dimensions, though the data have about "
                f"{int(dimension)}: neighbors may be joined across sheets. Use fewer neighbors, or more points.",
            )
        what = (
            "curve is a closed loop"
            if n_components == 1
            else "surface is closed (like a sphere, a torus or a tube) or curved in every direction"
        )
        return (
            f"The {what}: its patches fit together in {d} dimensions and not in {n_components}, which lose "
            f"{lost:.0%} of the variance. Take n_components={d} to keep it whole.",
        )
    return (_too_wide(spectrum, n_components),) if _lost(spectrum, n_components) > MAX_LOST_VARIANCE else ()


def _is_folded(chosen: Chosen[Any], contradiction: float) -> bool:
    """Tell whether the points contradict a layout at least so much, or are compressed by it."""
    return chosen.score >= contradiction or chosen.compression > MAX_COMPRESSION


def _folded(proven: bool, changes: FloatArray | None) -> str:
    share = float((changes > 0.5).mean()) if changes is not None and len(changes) else 0.0
    torn = f" and {share:.0%} of the neighbor pairs are torn apart" if share >= MIN_TOLD_SHARE else ""
    return (
        f"{'The placement of these patches is proven, but the' if proven else 'The'} surface is not unfolded: points "
        f"lie closer together than in the data{torn}. Use more points, fewer neighbors, or a larger n_init."
    )


def is_loop(graph: NeighborGraph) -> bool:
    """Tell whether the points lie around one loop: from an outermost point there are two ways to the farthest.

    The points halfway fall into two parts along the graph, each large, while those nearer and those farther do not.
    """
    lengths = csr_array((graph.lengths, graph.indices, graph.indptr), shape=(graph.n_points, graph.n_points))
    away = dijkstra(lengths, directed=False, indices=0)
    first = int(np.argmax(np.where(np.isfinite(away), away, -1.0)))
    away = dijkstra(lengths, directed=False, indices=first)
    reached = np.isfinite(away)
    thirds = np.where(reached, np.minimum(3 * away / max(away[reached].max(), np.finfo(float).tiny), 2.99), -1).astype(
        int
    )
    large = []
    for third in range(3):
        inside = np.flatnonzero(thirds == third)
        sizes = np.bincount(connected_components(lengths[inside][:, inside], directed=False)[1], minlength=1)
        large.append(int((sizes >= MIN_LOOP_SHARE * graph.n_points).sum()))
    return large[1] == 2 and large[0] == large[2] == 1


def _too_wide(spectrum: Spectrum, n_components: int) -> str:
    return (
        f"The unfolded patches need {_dimensions(spectrum)} dimensions and {n_components} lose "
        f"{_lost(spectrum, n_components):.0%} of their variance: the intrinsic dimension looks larger than asked."
    )


def _as_one_patch(charts: Charts) -> tuple[str, ...]:
    """Say that the layout is that of another method, if it is."""
    return {"patches": (), "PCA": (AS_PCA,), "Isomap": (AS_ISOMAP,)}[layout_kind(charts)]


def _rough(residuals: FloatArray) -> list[str]:
    rough = int((residuals > MAX_CHART_RESIDUAL).sum())
    if not rough:
        return []
    return [
        f"{rough} of {len(residuals)} patches {'is' if rough == 1 else 'are'} not flat enough (points are up to "
        f"{residuals.max():.0%} of the patch's spread away from its chart): use more patches, or more dimensions."
    ]


def _not_flat(residuals: FloatArray) -> list[str]:
    """Say that patches are not flat where most are so curved that it is not noise."""
    return _rough(residuals) if float(np.median(residuals)) > MAX_SURFACE_RESIDUAL else []


def _hanging(layout: PatchLayout) -> list[str]:
    overlaps, firm, n_patches = layout.overlaps, layout.firm, layout.atlas.charts.n_patches
    if firm.all() or n_patches < 2:
        return []
    joined = np.zeros(n_patches, dtype=bool)
    joined[overlaps.first[firm]] = joined[overlaps.second[firm]] = True
    if joined.all():
        return []
    loose = int((~joined).sum())
    share = "shares" if loose == 1 else "share"
    return [
        f"{loose} of {n_patches} patches {share} too little with any other (least spread below "
        f"{MIN_TIGHTNESS:g} of a typical overlap): raise overlap, or use fewer patches."
    ]


def _in_pieces(parts: int) -> list[str]:
    if parts < 2:
        return []
    return [
        f"The patch graph is in {parts} pieces, which are laid side by side and say nothing about each other: "
        "raise n_neighbors or overlap if they belong together."
    ]


def _torn(atlas: Atlas) -> list[str]:
    distortions = atlas.distortions
    torn = float((np.nan_to_num(distortions) > 0.5).mean()) if len(distortions) else 0.0
    if torn <= MAX_TORN_SHARE:
        return []
    return [f"{torn:.0%} of the neighbor pairs are torn apart: use more patches, or fewer neighbors."]


def _lost(spectrum: Spectrum, n_components: int) -> float:
    """Return the share of the variance beyond the first n_components axes."""
    total = float(spectrum.values.sum())
    return float(spectrum.values[n_components:].sum()) / total if total > 0 else 0.0


def _dimensions(spectrum: Spectrum, lost: float = MAX_LOST_VARIANCE) -> int:
    """Return how many dimensions hold all but that share of the variance."""
    held = np.cumsum(spectrum.values) / spectrum.values.sum()
    return int(np.argmax(held >= 1 - lost)) + 1


MIN_TESSERA_CONTRADICTION = 0.015
"""Contradiction (see `patches.restarts`) from which tesserae pass for not unfolded: it is up to 0.014 where eleven
surfaces and a noisy S-curve are, and 0.017 and more on sectors of cones that are not."""


def folded_tesserae(chosen: Chosen[Tessellation], n_components: int) -> tuple[str, ...]:
    """Say that a tessellation of a surface is contradicted by its points, if it is."""
    found = chosen.layout
    several = len(found.residuals) > 1 and np.median(found.residuals) <= MAX_SURFACE_RESIDUAL
    if not several or not _is_folded(chosen, MIN_TESSERA_CONTRADICTION):
        return ()
    changes = edge_ratios(found.graph, found.coordinates(n_components)) - 1
    return (_folded(False, changes),)
