"""The shape of the data: its dimension, noise about it, loops, and whether a surface is closed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE
from manifoldry._numerics.geometry.dimension import N_DIMENSION_NEIGHBORS
from manifoldry._numerics.patches.advice import MAX_LOOP_DIMENSION, is_loop
from manifoldry.evaluation.diagnosis._finding import Finding
from manifoldry.evaluation.diagnosis._outline import Outline
from manifoldry.evaluation.diagnosis._sheet import Sheet
from manifoldry.evaluation.diagnosis._subject import Subject
from manifoldry.evaluation.dimension import UndecidedError, local
from manifoldry.methods._base._advice import variance_left_over

MAX_NOISE_DIMENSION = 4
"""Maximum dimension at which noise is told from more dimensions: 20 neighbors span planes of few dimensions only."""

N_NOISE_NEIGHBORS = 5
"""The neighbor whose distance noise is compared with."""

MAX_NOISE_RATIO = 0.5
"""Distance off the tangent plane, over that of neighbors, without a note."""

MAX_CLOSED_BORDER, MIN_OPEN_BORDER = 0.1, 0.2
"""Border points, over those of a disk, up to which a surface is closed, and from which on it is open: 0 to 0.02 on
spheres and tori, noisy ones too, 0.04 to 0.2 where their density jumps by a factor of 5; 0.24 for normal numbers in two
columns, 0.3 on a tube three times as long as wide, 0.5 on a hemisphere."""

PLACE_QUANTILES = (0.1, 0.9)
"""Places of low and of high dimension."""

MIN_PLACES_RATIO = 1.8
"""Ratio of the dimensions at such places from which on they differ: 1.2 on rolls, 1.6 for digits, 2.3 for turned
objects, of which some have texture and some do not."""

KIND_WORDS = {
    "curved": ", and neighborhoods are curved",
    "falling": ", more at the scale of near neighbors, as with noise",
    "apart": ", and neighborhoods are curved or uneven at every scale",
}
"""What the scales of a `dimension.Consensus` show, in short."""


def dimension(subject: Subject) -> Iterator[Finding]:
    """Measure the dimension of the data."""
    if not subject.enough:
        return
    found = subject.dimension
    if found is None:
        yield Finding(
            "dimension", "The dimension cannot be told: too few neighbors are at different distances.", np.nan
        )
        return
    yield Finding(
        "dimension",
        f"The data have about {found.value} dimension{'s' if found.value != 1 else ''} ({found.low:.1f} to "
        f"{found.high:.1f}){KIND_WORDS.get(found.kind, '')}{subject.where}.",
        found.measured,
        _as_components(subject, found.value),
        "note",
    )


def _as_components(subject: Subject, d: int) -> str:
    if d <= 2:
        if any(found.severity == "problem" for found in shape(subject)):
            return f"n_components={d} does for parts of it; the whole has a shape that no map of {d} dimensions keeps"
        return f"a faithful map needs n_components={d} at least"
    left = _left_of_the_plane(subject)
    if left <= MAX_LOST_VARIANCE:
        return (
            f"2 principal components keep {1 - left:.0%} of the variance; to keep near neighbors take n_components={d}"
        )
    return f"a picture of 2 dimensions cannot keep distances; as features take n_components={d}"


def _left_of_the_plane(subject: Subject) -> float:
    """Return the share of the variance off the best plane; 1 where distances are no straight ones."""
    plain = isinstance(subject.metric, str) and subject.metric == "euclidean"
    return float(variance_left_over(subject.points)[:2][-1]) if plain else 1.0


def varying(subject: Subject) -> Iterator[Finding]:
    """Find parts of different dimensions."""
    if not subject.enough:
        return
    width = min(N_DIMENSION_NEIGHBORS, subject.neighbors.shape[1])
    lists = NeighborGraph.from_rows(subject.neighbors[:, :width], subject.lengths[:, :width])
    try:
        found = local(lists)
    except UndecidedError:
        return
    low, high = np.nanquantile(found.values, PLACE_QUANTILES)
    ratio = float(high / low)
    if not found.varies or ratio < MIN_PLACES_RATIO:
        yield Finding("dimension by place", "The dimension is about the same everywhere.", ratio)
        return
    yield Finding(
        "dimension by place",
        f"The dimension differs from place to place: a tenth of the points lie where it is {low:.1f} or less, a tenth "
        f"where it is {high:.1f} or more{subject.where}.",
        ratio,
        "look at the parts one by one; one n_components does not suit all",
        "note",
    )


def flatness(subject: Subject) -> Iterator[Finding]:
    """How far points lie off the tangent planes, beside the distance of neighbors: by noise, or because they bend."""
    sheet = subject.outline.sheet if subject.enough else None
    if sheet is None or sheet.dimension > MAX_NOISE_DIMENSION or sheet.dimension >= sheet.points.shape[1]:
        return
    ratio = float(np.median(sheet.off_plane) / np.median(sheet.lengths[:, N_NOISE_NEIGHBORS - 1]))
    curved = subject.dimension is not None and subject.dimension.kind == "curved"
    what = "a line" if sheet.dimension == 1 else f"a plane of {sheet.dimension} dimensions"
    off = f"Points are {ratio:.1f} neighbor distances off {what} in their neighborhoods{subject.outline.where}"
    if ratio <= MAX_NOISE_RATIO:
        yield Finding("noise", f"Neighborhoods are flat (points are off by {ratio:.2f} of a neighbor distance).", ratio)
    elif curved:
        advice = "take fewer neighbors or more points; methods that need flat neighborhoods (LTSA, IPA) miss the bends"
        yield Finding("curvature", f"{off}: these are bent.", ratio, advice, "note")
    else:
        advice = "raise n_neighbors until neighborhoods are wider than the noise, or denoise first (PCA)"
        yield Finding("noise", f"{off}: noise decides who is near.", ratio, advice, "note")


def shape(subject: Subject) -> Iterator[Finding]:
    """Rings, closed surfaces, tubes, holes and one-sided strips."""
    if not subject.enough or subject.dimension is None or subject.dimension.value > MAX_LOOP_DIMENSION:
        return
    outline, d = subject.outline, subject.dimension.value
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
    """Tell whether a ring is a surface with one side only."""
    return d == 2 and not outline.cut and outline.sheet is not None and outline.sheet.one_sided


def _closed(outline: Outline, d: int) -> bool:
    """Tell whether a surface has no border: a thin torus goes around one long loop, as a ring does."""
    return d == 2 and not outline.cut and outline.sheet is not None and outline.sheet.border_share <= MAX_CLOSED_BORDER


def _rings(outline: Outline) -> Finding | None:
    """Say how many of several pieces are rings, if any is."""
    pieces = (outline.graph, *outline.others)
    count = sum(map(is_loop, pieces)) if len(pieces) > 1 else 0
    if not count:
        return None
    return Finding(
        "shape",
        f"{count} of {len(pieces)} pieces {'is a closed ring' if count == 1 else 'are closed rings'}{outline.where}.",
        count,
        "show each in two dimensions or more; one dimension has to cut them",
        "note",
    )


def _ring(outline: Outline, d: int) -> Finding:
    advice = "take n_components=2 or more; one dimension has to cut it"
    what = "form a closed ring" if d == 1 else "lie around one large loop, as a ring does, or a sheet with a large hole"
    return Finding("shape", f"The points {what}{outline.where}.", 1, advice, "note")


def _one_sided(outline: Outline) -> Finding:
    return Finding(
        "shape",
        f"The surface has only one side, like a Moebius strip, with {_count(outline.n_loops)}{outline.where}.",
        outline.n_loops,
        "no map of 2 dimensions is faithful: take n_components=3 or more, or leave out a strip to cut it",
        "problem",
    )


def _surface(outline: Outline, sheet: Sheet) -> Finding:
    """Tell closed surfaces from open ones, and what is known of the latter by their borders, loops and sides."""
    share, count, borders = sheet.border_share, outline.n_loops, sheet.n_borders
    if share <= MAX_CLOSED_BORDER:
        like = "a sphere or a torus" if count == 0 else "a torus" if count == 2 else f"a torus, with {_count(count)}"
        return Finding(
            "shape",
            f"The surface is closed, like {like}: hardly any of its points is at a border "
            f"({int(sheet.border.sum())} of "
            f"{len(sheet.border):,}){outline.where}.",
            share,
            "no map of 2 dimensions is faithful: take n_components=3, or cut it open (IPA, TSNE)",
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
            "take more points to tell, or try n_components=3 beside 2",
            "note",
        )
    if not count:
        seen = f"No hole and no closed surface was seen{outline.where}."
        whole = "The surface is open, without holes larger than the gaps between points."
        return Finding("shape", seen if outline.where else whole, share)
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
