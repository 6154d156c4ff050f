"""How an embedding may be read, in sentences: places, distances, crowding; and the line below its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any

from manifoldry.evaluation.reliability._points import Reliability
from manifoldry.evaluation.score._table import Score
from manifoldry.viz._report.layouts import GivenLayout

MOST_TRUSTED, HALF_TRUSTED = 0.9, 0.5
"""Shares of trustworthy points from which places of a picture are to be believed, and most of them."""

READABLE, ROUGH = 0.8, 0.5
"""Correlations of distances, or of densities, from which they can be read off a picture, and roughly: squared, they
explain two thirds and a quarter of the variation."""

UNFOLDED = 0.1
"""By how much distances must follow the paths along the data better than straight ones to be called unfolded."""

CLEARLY_FEWER = 0.02
"""Share of the neighbors kept by which PCA must be ahead to say so; twice the standard error of a sample."""

NOTABLE_CHANCE = 0.02
"""Share of the neighbors kept by chance from which a caption tells it: of few rows, many are neighbors anyway."""


def reading(
    score: Score | None, trust: Reliability | None, names: tuple[str, str], label_chance: float
) -> tuple[str, ...]:
    """Return how the picture may be read, in sentences.

    Parameters
    ----------
    score, trust
        What is known of it.
    names : pair of str
        The panel, and the reference that it has to beat.
    label_chance : float
        Share of neighbors that have the same label by chance.
    """
    found: list[str] = []
    if trust is not None:
        found.append(_places(trust))
    if score is not None:
        found += [
            *_distances(score),
            *_crowding(score),
            *_labels(score, label_chance),
            *_beside_reference(score, *names),
        ]
    return tuple(found)


def summary(
    scores: Mapping[str, Score],
    trusts: Mapping[str, Reliability],
    reference: str,
    findings: Sequence[Mapping[str, Any]],
) -> tuple[str, ...]:
    """Return what to look at first and whether to believe it, and what is wrong with the data."""
    found: list[str] = []
    kept = {name: score.get("knn_kept", nan) for name, score in scores.items()}
    kept = {name: value for name, value in kept.items() if value == value}
    if kept:
        linear = {name: score.pca.get("knn_kept", nan) for name, score in scores.items()}
        found += _most_kept(kept, linear, trusts, reference)
    far = {name: _correlation(score) for name, score in scores.items()}
    far = {name: value for name, value in far.items() if value == value}
    if len(far) > 1:
        first = _first(far, reference)
        found.append(f"{first} keeps distances best ({_of_which(scores[first])}): {_grade(far[first])}.")
    problems = [finding for finding in findings if finding["severity"] == "problem"]
    if problems:
        told = " ".join(str(finding["sentence"]) for finding in problems[:2])
        count = "A problem" if len(problems) == 1 else f"{len(problems)} problems"
        found.append(f"{count} of the data to mind first: {told}")
    return tuple(found)


def _most_kept(
    kept: Mapping[str, float], linear: Mapping[str, float], trusts: Mapping[str, Reliability], reference: str
) -> Iterator[str]:
    """Yield which picture keeps neighbors best, the reference unless another is clearly ahead.

    It is compared with the reference in as many dimensions (``linear``), whatever the panel of the reference shows.
    """
    first = _first(kept, reference)
    if first == reference:
        others = "" if len(kept) == 1 else "; no other picture here keeps clearly more"
        yield f"{reference} keeps {kept[reference]:.0%} of the nearest neighbors{others}."
    else:
        beside = f" ({reference}: {linear[first]:.0%})" if linear[first] == linear[first] else ""
        yield f"Look at {first} first: it keeps {kept[first]:.0%} of the nearest neighbors{beside}."
    if first in trusts:
        share = trusts[first].share_trustworthy
        then = "" if share >= HALF_TRUSTED else ": read coarse groups, not single points"
        yield f"In it the places of {_share(share)} of the points can be believed{then}."


def _first(values: Mapping[str, float], reference: str) -> str:
    """Return the name of the largest value: the reference, then the earlier, unless another is clearly ahead."""
    enough = [name for name, value in values.items() if value >= max(values.values()) - CLEARLY_FEWER]
    return reference if reference in enough else enough[0]


def _correlation(score: Score) -> float:
    """Return how well distances are kept, straight or along the data, whichever is better; NaN if not known."""
    known = [score[name] for name in ("spearman", "geodesic_correlation") if score.get(name, nan) == score.get(name)]
    return max(known, default=nan)


def _of_which(score: Score) -> str:
    """Return the better correlation of distances, and of which."""
    best = _correlation(score)
    path = "" if score.get("spearman", nan) > best - CLEARLY_FEWER else " with distances along the data"
    return f"correlation {best:.2f}{path}"


def _grade(value: float) -> str:
    if value >= READABLE:
        return "what is far apart in it is far apart in the data"
    return "read them roughly" if value >= ROUGH else "do not read how far apart groups are in any of these pictures"


def _places(trust: Reliability) -> str:
    n, counts = len(trust.score), trust.counts
    good = trust.share_trustworthy
    shares = (
        f"the places of {_share(good)} of the {n:,} points can be believed, {_share(counts['dubious'] / n)} are dubious"
    )
    if good >= MOST_TRUSTED:
        return f"Near points are near in the data: {shares}."
    if good >= HALF_TRUSTED:
        return f"Near points are mostly near in the data: {shares} (color by reliability to see which)."
    return f"Read groups, not single points: {shares}."


def _share(value: float) -> str:
    """Return a share in percent that is none only if it is 0, and all only if it is 1."""
    if value in (0.0, 1.0):
        return "none" if value == 0 else "all"
    return "under 1%" if value < 0.01 else "over 99%" if value > 0.99 else f"{value:.0%}"


def _distances(score: Score) -> Iterator[str]:
    straight, along, best = score.get("spearman", nan), score.get("geodesic_correlation", nan), _correlation(score)
    if best != best:
        return
    figures = f"correlation {straight:.2f} straight, {along:.2f} along the data"
    if along >= READABLE and along > straight + UNFOLDED:
        yield f"Distances follow paths along the data, as when a bend is unfolded ({figures})."
    elif best >= READABLE:
        yield f"Far apart in the picture is far apart in the data ({figures})."
    elif best >= ROUGH:
        yield f"Which groups are near each other can be read roughly, how far apart cannot ({figures})."
    else:
        yield f"Do not read which groups are near each other or how far apart ({figures})."


def _crowding(score: Score) -> Iterator[str]:
    density = score.get("density_preservation", nan)
    if density != density:
        return
    figure = f"correlation of densities {density:.2f}"
    if density >= READABLE:
        yield f"Crowded places are crowded in the data too ({figure})."
    elif density >= ROUGH:
        yield f"Crowding and sizes of groups follow the data roughly ({figure})."
    else:
        yield f"Crowding and sizes of groups mean little: color by the density of the data instead ({figure})."


def _labels(score: Score, chance: float) -> Iterator[str]:
    hit = score.get("neighborhood_hit", nan)
    if hit == hit:
        yield f"Of the nearest neighbors in the picture {_share(hit)} have the same label, {chance:.0%} by chance."


def _beside_reference(score: Score, name: str, reference: str) -> Iterator[str]:
    kept, linear = score.get("knn_kept", nan), score.pca.get("knn_kept", nan)
    if name != reference and kept < linear - CLEARLY_FEWER:
        yield (
            f"{reference} keeps more neighbors ({linear:.0%} against {kept:.0%}): look at that picture first, or "
            "change the settings of this one."
        )


def caption(
    layout: GivenLayout, score: Score | None, trust: Reliability | None, beside: Mapping[str, float], reference: str
) -> str:
    """Return the line below a panel: seconds, key figures ``beside`` those of the reference, what is not shown."""
    parts = []
    if score is not None and (kept := score.get("knn_kept", nan)) == kept:
        known = {} if layout.name == reference else {reference: beside["knn_kept"]}
        chance = kept - score["lcmc"]
        known |= {"chance": chance} if chance >= NOTABLE_CHANCE else {}
        others = ", ".join(f"{name}: {value:.0%}" for name, value in known.items())
        parts.append(f"{kept:.0%} of the nearest neighbors kept" + (f" ({others})" if others else ""))
    if trust is not None:
        parts.append(f"{_share(trust.share_trustworthy)} of the points trustworthy")
    if layout.seconds is not None:
        parts.append(f"{_seconds(layout.seconds)}\N{NO-BREAK SPACE}s")
    sentences = [", ".join(parts) + "."] * bool(parts) + [layout.cut] * bool(layout.cut)
    if layout.Y.shape[1] == 1:
        sentences.append("One dimension, from left to right; up and down only makes room, wide where points are many.")
    return " ".join(sentences)


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
