"""Checks of the shape of the data: its dimension, noise, loops, and whether a surface is closed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE
from manifoldry._numerics.geometry.dimension import N_DIMENSION_NEIGHBORS
from manifoldry._numerics.patches.advice import MAX_LOOP_DIMENSION, is_loop
from manifoldry.evaluation.diagnosis._finding import Finding
from manifoldry.evaluation.diagnosis._outline import Outline, Sheet
from manifoldry.evaluation.diagnosis._subject import Subject
from manifoldry.evaluation.dimension import UndecidedError, local
from manifoldry.methods._base._advice import variance_left_over

MAX_NOISE_DIMENSION = 4
"""Maximum dimension at which noise is distinguished from more dimensions: 20 neighbors span only few dimensions."""
N_NOISE_NEIGHBORS = 5
"""The neighbor whose distance noise is compared with."""
MAX_NOISE_RATIO = 0.5
"""Distance off the tangent plane, over that of neighbors, without a note."""
MAX_CLOSED_BORDER, MIN_OPEN_BORDER = 0.1, 0.2
"""Border points, relative to a disk, up to which a surface is closed, and from which it is open: 0 to 0.02 on
spheres and tori, noisy ones too, 0.04 to 0.2 where their density jumps by a factor of 5; 0.24 for normal numbers in two
columns, 0.3 on a tube three times as long as wide, 0.5 on a hemisphere."""
PLACE_QUANTILES = (0.1, 0.9)
"""Regions of low and of high dimension."""
MIN_PLACES_RATIO = 1.8
"""Ratio of the dimensions in such regions from which they differ: 1.2 on rolls, 1.6 for digits, 2.3 for images of
turned objects, some with texture and some without."""
KIND_WORDS = {
    "curved": ", and neighborhoods are curved",
    "falling": ", more at the scale of near neighbors, as with noise",
    "apart": ", and neighborhoods are curved or uneven at every scale",
}
"""What the scales of a `dimension.Consensus` show, in short."""


def dimension(profile: Subject) -> Iterator[Finding]:
    """Measure the dimension of the data."""
    if not profile.enough:
        return
    estimate = profile.dimension
    if estimate is None:
        yield Finding(
            "dimension", "The dimension cannot be estimated: too few neighbors are at different distances.", np.nan
        )
        return
    yield Finding(
        "dimension",
        f"The data has about {estimate.value} dimension{'s' if estimate.value != 1 else ''} ({estimate.low:.1f} to "
        f"{estimate.high:.1f}){KIND_WORDS.get(estimate.kind, '')}{profile.where}.",
        estimate.measured,
        _as_components(profile, estimate.value),
        "note",
    )


def _as_components(profile: Subject, d: int) -> str:
    if d <= 2:
        if any(finding.severity == "problem" for finding in shape(profile)):
            return f"n_components={d} is enough for parts of it; no map of {d} dimensions keeps the shape of the whole"
        return f"a faithful map needs n_components={d} at least"
    residual = _variance_off_plane(profile)
    if residual <= MAX_LOST_VARIANCE:
        kept = f"2 principal components keep {1 - residual:.0%} of the variance"
        return f"{kept}; to keep near neighbors use n_components={d}"
    return f"a picture of 2 dimensions cannot keep distances; as features use n_components={d}"


def _variance_off_plane(profile: Subject) -> float:
    """Return the share of the variance off the best plane; 1 for metrics other than Euclidean."""
    plain = isinstance(profile.metric, str) and profile.metric == "euclidean"
    return float(variance_left_over(profile.points)[:2][-1]) if plain else 1.0


def varying(profile: Subject) -> Iterator[Finding]:
    """Find parts of different dimensions."""
    if not profile.enough:
        return
    width = min(N_DIMENSION_NEIGHBORS, profile.neighbors.shape[1])
    lists = NeighborGraph.from_rows(profile.neighbors[:, :width], profile.lengths[:, :width])
    try:
        estimate = local(lists)
    except UndecidedError:
        return
    low, high = np.nanquantile(estimate.values, PLACE_QUANTILES)
    ratio = float(high / low)
    if not estimate.varies or ratio < MIN_PLACES_RATIO:
        yield Finding("dimension by place", "The dimension is about the same everywhere.", ratio)
        return
    yield Finding(
        "dimension by place",
        f"The dimension differs between regions: 10% of the points lie where it is {low:.1f} or less, 10% "
        f"where it is {high:.1f} or more{profile.where}.",
        ratio,
        "look at the parts one by one; no single n_components suits all",
        "note",
    )


def flatness(profile: Subject) -> Iterator[Finding]:
    """How far points lie off the tangent planes, relative to the distance of neighbors: by noise, or by curvature."""
    sheet = profile.outline.sheet if profile.enough else None
    if sheet is None or sheet.dimension > MAX_NOISE_DIMENSION or sheet.dimension >= sheet.points.shape[1]:
        return
    ratio = float(np.median(sheet.off_plane) / np.median(sheet.lengths[:, N_NOISE_NEIGHBORS - 1]))
    curved = profile.dimension is not None and profile.dimension.kind == "curved"
    what = "a line" if sheet.dimension == 1 else f"a plane of {sheet.dimension} dimensions"
    off = f"Points are {ratio:.1f} neighbor distances off {what} in their neighborhoods{profile.outline.where}"
    if ratio <= MAX_NOISE_RATIO:
        yield Finding("noise", f"Neighborhoods are flat (points are off by {ratio:.2f} of a neighbor distance).", ratio)
    elif curved:
        advice = "use fewer neighbors or more points; methods with flat neighborhoods (LTSA, IPA) miss the curvature"
        yield Finding("curvature", f"{off}: they are curved.", ratio, advice, "note")
    else:
        advice = "raise n_neighbors until neighborhoods are wider than the noise, or denoise first (PCA)"
        yield Finding("noise", f"{off}: noise decides which points are near.", ratio, advice, "note")


def shape(profile: Subject) -> Iterator[Finding]:
    """Rings, closed surfaces, tubes, holes and one-sided strips."""
    if not profile.enough or profile.dimension is None or profile.dimension.value > MAX_LOOP_DIMENSION:
        return
    outline, d = profile.outline, profile.dimension.value
    rings = _rings(outline)
    if rings is not None:
        yield rings
    elif outline.n_loops == 1 and is_loop(outline.graph) and not _turns_over(outline, d) and not _closed(outline, d):
        yield _ring(outline, d)
    elif d == 2 and outline.sheet is not None and not outline.cut:
        yield _surface(outline, outline.sheet)
    elif outline.n_loops:
        what = "parts that short circuits join, or a hole" if outline.cut else "something that turns around, or a hole"
        yield _looped(outline, f"{_count(outline.n_loops)}: {what}")
    else:
        yield Finding("shape", "No loop or hole was found, larger than the gaps between points.", 0)


def _turns_over(outline: Outline, d: int) -> bool:
    """Whether a ring is a surface with one side only."""
    return d == 2 and not outline.cut and outline.sheet is not None and outline.sheet.one_sided


def _closed(outline: Outline, d: int) -> bool:
    """Whether a surface has no border: a thin torus goes around one long loop, as a ring does."""
    return d == 2 and not outline.cut and outline.sheet is not None and outline.sheet.border_share <= MAX_CLOSED_BORDER


def _rings(outline: Outline) -> Finding | None:
    """Report how many of several components are rings, if any is."""
    components = (outline.graph, *outline.others)
    count = sum(map(is_loop, components)) if len(components) > 1 else 0
    if not count:
        return None
    return Finding(
        "shape",
        f"{count} of {len(components)} components {'is a closed ring' if count == 1 else 'are closed rings'}"
        f"{outline.where}.",
        count,
        "show each in two dimensions or more; one dimension has to cut them",
        "note",
    )


def _ring(outline: Outline, d: int) -> Finding:
    advice = "use n_components=2 or more; one dimension has to cut it"
    what = "form a closed ring" if d == 1 else "lie around one large loop, as a ring does, or a sheet with a large hole"
    return Finding("shape", f"The points {what}{outline.where}.", 1, advice, "note")


def _one_sided(outline: Outline) -> Finding:
    return Finding(
        "shape",
        f"The surface has only one side, like a Moebius strip, with {_count(outline.n_loops)}{outline.where}.",
        outline.n_loops,
        "no map of 2 dimensions is faithful: use n_components=3 or more, or leave out a strip to cut it",
        "problem",
    )


def _surface(outline: Outline, sheet: Sheet) -> Finding:
    """Distinguish closed surfaces from open ones, and describe the latter by their borders, loops and sides."""
    share, count, borders = sheet.border_share, outline.n_loops, sheet.n_borders
    if share <= MAX_CLOSED_BORDER:
        like = "a sphere or a torus" if count == 0 else "a torus" if count == 2 else f"a torus, with {_count(count)}"
        return Finding(
            "shape",
            f"The surface is closed, like {like}: hardly any of its points is at a border "
            f"({int(sheet.border.sum())} of "
            f"{len(sheet.border):,}){outline.where}.",
            share,
            "no map of 2 dimensions is faithful: use n_components=3, or cut it open (IPA, TSNE)",
            "problem",
        )
    if count and sheet.one_sided:
        return _one_sided(outline)
    if share < MIN_OPEN_BORDER:
        return Finding(
            "shape",
            f"It is not clear whether the surface is closed: few points are at a border ({int(sheet.border.sum())} of "
            f"{len(sheet.border):,}){outline.where}.",
            share,
            "use more points to decide, or try both n_components=2 and 3",
            "note",
        )
    if not count:
        sampled_text = f"No hole and no closed surface was seen{outline.where}."
        open_text = "The surface is open, without holes larger than the gaps between points."
        return Finding("shape", sampled_text if outline.where else open_text, share)
    if borders == count + 1:
        what = "a hole in a sheet, or a tube" if count == 1 else "holes in a sheet"
        return _looped(outline, f"{_count(count)} and {borders} borders: {what}")
    return _looped(outline, f"{_count(count)}: a hole, a tube, or parts that short circuits join")


def _looped(outline: Outline, what: str) -> Finding:
    return Finding(
        "shape",
        f"There {'is' if outline.n_loops == 1 else 'are'} {what}{outline.where}.",
        outline.n_loops,
        "geodesic methods stretch holes (Isomap), IPA and neighbor embeddings do not; a tube needs one dimension "
        "more or a cut",
        "note",
    )


def _count(n_loops: int) -> str:
    return "one loop" if n_loops == 1 else f"{n_loops} loops"
