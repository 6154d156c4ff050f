"""The shape of the data: its dimension, noise about it, loops, and whether a surface is closed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manifoldry.diagnosis.finding import Finding
from manifoldry.diagnosis.outline import Outline
from manifoldry.diagnosis.sheet import Sheet
from manifoldry.diagnosis.subject import Subject
from manifoldry.patches.advice import MAX_LOOP_DIMENSION, is_loop

MAX_NOISE_DIMENSION = 4
"""Maximum dimension at which noise is told from more dimensions: 20 neighbors span planes of few dimensions only."""

N_NOISE_NEIGHBORS = 5
"""The neighbor whose distance noise is compared with."""

MAX_NOISE_RATIO = 0.5
"""Distance off the tangent plane, over that of neighbors, without a note."""

MAX_CLOSED_BORDER, MIN_OPEN_BORDER = 0.1, 0.2
"""Border points, over those of a disk, up to which a surface is closed, and from which on it is open: 0 to 0.02 on spheres
and tori, noisy ones too, 0.04 to 0.2 where their density jumps by a factor of 5; 0.24 for normal numbers in two columns,
0.3 on a tube of length 6, 0.5 on a hemisphere."""


def dimension(subject: Subject) -> Iterator[Finding]:
    """The dimension of the data, with its interval and the reason."""
    if not subject.enough:
        return
    found = subject.dimension
    if found is None:
        yield Finding("dimension", "The dimension cannot be told: too few neighbors are at different distances.", np.nan)
        return
    yield Finding(
        "dimension",
        f"The data has about {found.value} dimension{'s' if found.value != 1 else ''} ({found.low:.1f} to {found.high:.1f})"
        f"{subject.where}. {found.why[0]}",
        found.measured,
        _as_components(found.value),
        "note",
    )


def _as_components(d: int) -> str:
    if d <= 2:
        return f"n_components={d} can keep distances"
    return f"a picture of 2 dimensions cannot keep distances; as features take n_components={d}"


def noise(subject: Subject) -> Iterator[Finding]:
    """How far points lie off the surface that they form, beside the distance of neighbors."""
    sheet = subject.outline.sheet if subject.enough else None
    if sheet is None or sheet.dimension > MAX_NOISE_DIMENSION or sheet.dimension >= sheet.points.shape[1]:
        return
    off = float(np.median(sheet.off_plane))
    near = float(np.median(sheet.lengths[:, N_NOISE_NEIGHBORS - 1]))
    ratio = off / near
    if ratio <= MAX_NOISE_RATIO:
        yield Finding("noise", f"Points lie close to a surface (off it by {ratio:.2f} of a neighbor distance).", ratio)
        return
    d = sheet.dimension
    yield Finding(
        "noise",
        f"Points lie {ratio:.1f} neighbor distances off the {'curve' if d == 1 else f'surface of {d} dimensions'} that they "
        f"form{subject.outline.where}: neighbors are chosen by noise.",
        ratio,
        "raise n_neighbors until neighborhoods are wider than the noise, or denoise first (PCA)",
        "note",
    )


def shape(subject: Subject) -> Iterator[Finding]:
    """Rings, closed surfaces, tubes, holes and one-sided strips."""
    if not subject.enough or subject.dimension is None:
        return
    outline, d = subject.outline, subject.dimension.value
    rings = _rings(outline)
    if rings is not None:
        yield rings
    elif d == 2 and outline.sheet is not None and outline.n_loops and outline.sheet.one_sided:
        yield _one_sided(outline)
    elif d <= MAX_LOOP_DIMENSION and outline.n_loops == 1 and is_loop(outline.graph):
        yield _ring(outline, d)
    elif d == 2 and outline.sheet is not None:
        yield _surface(outline, outline.sheet)
    elif outline.n_loops:
        yield _looped(outline, f"{_count(outline.n_loops)}: something that turns around, or a hole")
    else:
        yield Finding("shape", "No loop or hole was found, larger than the gaps between points.", 0)


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
    advice = "take n_components=2 or more, and no radius that closes it; one dimension has to cut it"
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
            f"The surface is closed, like {like}: hardly any of its points is at a border ({int(sheet.border.sum())} of "
            f"{len(sheet.border):,}){outline.where}.",
            share,
            "no map of 2 dimensions is faithful: take n_components=3, or cut it open (IPA, TSNE)",
            "problem",
        )
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
        return Finding("shape", "The surface is open, without holes larger than the gaps between points.", share)
    if borders == count + 1:
        what = "a hole in a sheet, or a tube" if count == 1 else "holes in a sheet"
        return _looped(outline, f"{_count(count)} and {borders} borders: {what}")
    return _looped(outline, f"{_count(count)}: a hole, a tube, or parts that short circuits join")


def _looped(outline: Outline, what: str) -> Finding:
    return Finding(
        "shape",
        f"There {'is' if outline.n_loops == 1 else 'are'} {what}{outline.where}.",
        outline.n_loops,
        "geodesic methods stretch holes (Isomap), IPA and neighbor embeddings do not; a tube needs one dimension more or a cut",
        "note",
    )


def _count(n_loops: int) -> str:
    return "one loop" if n_loops == 1 else f"{n_loops} loops"
