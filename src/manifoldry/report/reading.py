"""How an embedding may be read, in sentences: places, distances, crowding; and the line below its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from manifoldry.quality.reliability import Reliability
from manifoldry.quality.table import Score
from manifoldry.report.layouts import GivenLayout

MOST_TRUSTED, HALF_TRUSTED = 0.9, 0.5
"""Shares of trustworthy points from which places of a picture are to be believed, and most of them."""

READABLE, ROUGH = 0.8, 0.5
"""Correlations of distances, or of densities, from which they can be read off a picture, and roughly: squared, they
explain two thirds and a quarter of the variation."""

UNFOLDED = 0.1
"""By how much distances must follow the paths along the data better than straight ones to be called unfolded."""

CLEARLY_FEWER = 0.02
"""Share of the neighbors kept by which PCA must be ahead to say so; twice the standard error of a sample."""


def reading(score: Score | None, trust: Reliability | None, name: str) -> tuple[str, ...]:
    """Return how the picture may be read, in sentences."""
    found: list[str] = []
    if trust is not None:
        found.append(_places(trust))
    if score is not None:
        found += [*_distances(score), *_crowding(score), *_beside_pca(score, name)]
    return tuple(found)


def _places(trust: Reliability) -> str:
    n, counts = len(trust.score), trust.counts
    good = trust.share_trustworthy
    shares = (
        f"{_share(good)} of the {n:,} points have so many of their neighbors in the data around them that their place can be "
        f"believed, {_share(counts['dubious'] / n)} are dubious"
    )
    if good >= MOST_TRUSTED:
        return f"Who is near whom can be read: {shares}."
    if good >= HALF_TRUSTED:
        return f"Who is near whom can be read for most points: {shares} (color by reliability to see which)."
    return f"Who is near whom cannot be read for single points, at most for groups: {shares}."


def _share(value: float) -> str:
    """Return a share in percent that is none only if it is 0, and all only if it is 1."""
    if value in (0.0, 1.0):
        return "none" if value == 0 else "all"
    return "under 1%" if value < 0.005 else "over 99%" if value > 0.995 else f"{value:.0%}"


def _distances(score: Score) -> Iterator[str]:
    straight, along = score.get("spearman", float("nan")), score.get("geodesic_correlation", float("nan"))
    known = [value for value in (straight, along) if value == value]
    if not known:
        return
    figures = f"correlation {straight:.2f} with straight distances, {along:.2f} with paths along the data"
    if along >= READABLE and along > straight + UNFOLDED:
        yield f"Distances can be read along the data, not straight through space: something bent was unfolded ({figures})."
    elif max(known) >= READABLE:
        yield f"What is far apart in the picture is far apart in the data ({figures})."
    elif max(known) >= ROUGH:
        yield (f"Which groups are near each other can be read roughly, how far they are apart cannot ({figures}).")
    else:
        yield f"Do not read which groups are near each other, nor how far they are apart ({figures})."


def _crowding(score: Score) -> Iterator[str]:
    density = score.get("density_preservation", float("nan"))
    if density != density:
        return
    if density >= READABLE:
        yield f"Crowded places are crowded in the data too (correlation of densities {density:.2f})."
    elif density >= ROUGH:
        yield f"Crowding and sizes of groups follow the data roughly (correlation of densities {density:.2f})."
    else:
        yield (
            f"Crowding and sizes of groups mean little here (correlation of densities {density:.2f}): a dense or small "
            "group may be wide in the data; color by the density of the data to see."
        )


def _beside_pca(score: Score, name: str) -> Iterator[str]:
    kept, linear = score.get("knn_kept"), score.pca.get("knn_kept")
    if name != "PCA" and kept is not None and linear is not None and kept < linear - CLEARLY_FEWER:
        yield (
            f"PCA keeps more neighbors ({linear:.0%} against {kept:.0%}): look at that picture first, or change the "
            "settings of this one."
        )


def caption(layout: GivenLayout, score: Score | None, trust: Reliability | None, pca: Mapping[str, float]) -> str:
    """Return the line below a panel: seconds, key figures beside those of PCA, what is not shown."""
    parts = []
    if score is not None and score.get("knn_kept") == score.get("knn_kept"):
        against = "" if layout.name == "PCA" else f" (PCA: {pca['knn_kept']:.0%})"
        parts.append(f"{score['knn_kept']:.0%} of the nearest neighbors kept{against}")
    if trust is not None:
        parts.append(f"{trust.share_trustworthy:.0%} of the points trustworthy")
    if layout.seconds is not None:
        parts.append(f"{_seconds(layout.seconds)} s")
    line = ", ".join(parts)
    sentences = [line + "."] if line else []
    sentences += [layout.cut] * bool(layout.cut)
    if layout.Y.shape[1] == 1:
        sentences.append("One dimension, from left to right; up and down only makes room, wide where points are many.")
    return " ".join(sentences)


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
