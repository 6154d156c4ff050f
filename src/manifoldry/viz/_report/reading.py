"""How to read an embedding: sentences on positions, distances and densities, and the caption of its panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any

from manifoldry.evaluation.reliability._points import Reliability
from manifoldry.evaluation.score._table import Score
from manifoldry.viz._report.inputs import ReportEmbedding

MOST_TRUSTED, HALF_TRUSTED = 0.9, 0.5
"""Shares of trustworthy points from which on nearly all positions, or most of them, can be trusted."""

READABLE, ROUGH = 0.8, 0.5
"""Correlations of distances or densities from which on they can be read off the plot, exactly or roughly: they explain
two thirds and a quarter of the variance."""

UNFOLDED = 0.1
"""How much better distances must correlate with geodesic than with straight distances to count as unfolded."""

CLEARLY_FEWER = 0.02
"""Difference in the share of preserved neighbors that counts; twice the standard error of a sample."""

NOTABLE_CHANCE = 0.02
"""Chance level of preserved neighbors from which on the caption states it; it is high for few rows."""


def reading(
    score: Score | None, trust: Reliability | None, names: tuple[str, str], label_chance: float
) -> tuple[str, ...]:
    """Return how to read an embedding, in sentences.

    Parameters
    ----------
    score, trust
        Scores and reliability of the embedding.
    names : pair of str
        The panel, and the baseline.
    label_chance : float
        Chance level of neighbors with the same label.
    """
    sentences: list[str] = []
    if trust is not None:
        sentences.append(_positions(trust))
    if score is not None:
        sentences += [
            *_distances(score),
            *_densities(score),
            *_labels(score, label_chance),
            *_against_baseline(score, *names),
        ]
    return tuple(sentences)


def summary(
    scores: Mapping[str, Score],
    trusts: Mapping[str, Reliability],
    reference: str,
    findings: Sequence[Mapping[str, Any]],
) -> tuple[str, ...]:
    """Return which panel to look at first, how far to trust it, and problems with the data."""
    sentences: list[str] = []
    shares = {name: score.get("knn_kept", nan) for name, score in scores.items()}
    shares = {name: value for name, value in shares.items() if value == value}
    if shares:
        linear = {name: score.pca.get("knn_kept", nan) for name, score in scores.items()}
        sentences += _neighbors(shares, linear, trusts, reference)
    correlations = {name: _correlation(score) for name, score in scores.items()}
    correlations = {name: value for name, value in correlations.items() if value == value}
    if len(correlations) > 1:
        first = _first(correlations, reference)
        sentences.append(
            f"{first} preserves distances best ({_best_correlation(scores[first])}): {_grade(correlations[first])}."
        )
    problems = [finding for finding in findings if finding["severity"] == "problem"]
    if problems:
        text = " ".join(str(finding["sentence"]) for finding in problems[:2])
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        sentences.append(f"The data has {count}: {text}")
    return tuple(sentences)


def _neighbors(
    shares: Mapping[str, float], linear: Mapping[str, float], trusts: Mapping[str, Reliability], reference: str
) -> Iterator[str]:
    """Yield which panel preserves neighbors best: the baseline unless another is clearly better.

    It is compared with a baseline of the same dimension (``linear``), which may differ from the baseline panel.
    """
    first = _first(shares, reference)
    if first == reference:
        others = "" if len(shares) == 1 else "; no other method preserves clearly more"
        yield f"{reference} preserves {shares[reference]:.0%} of the nearest neighbors{others}."
    else:
        baseline = f" ({reference}: {linear[first]:.0%})" if linear[first] == linear[first] else ""
        yield f"Look at {first} first: it preserves {shares[first]:.0%} of the nearest neighbors{baseline}."
    if first in trusts:
        share = trusts[first].share_trustworthy
        advice = "" if share >= HALF_TRUSTED else ": read coarse groups, not individual points"
        yield f"The positions of {_share(share)} of its points can be trusted{advice}."


def _first(values: Mapping[str, float], reference: str) -> str:
    """Return the name of the largest value; in a tie the baseline, then the first."""
    enough = [name for name, value in values.items() if value >= max(values.values()) - CLEARLY_FEWER]
    return reference if reference in enough else enough[0]


def _correlation(score: Score) -> float:
    """Return the better correlation with straight or geodesic distances; NaN if neither is known."""
    known = [score[name] for name in ("spearman", "geodesic_correlation") if score.get(name, nan) == score.get(name)]
    return max(known, default=nan)


def _best_correlation(score: Score) -> str:
    """Return the better correlation of distances as text."""
    best = _correlation(score)
    path = "" if score.get("spearman", nan) > best - CLEARLY_FEWER else " with geodesic distances"
    return f"correlation {best:.2f}{path}"


def _grade(value: float) -> str:
    if value >= READABLE:
        return "points that are far apart in the plot are far apart in the data"
    return "read distances only roughly" if value >= ROUGH else "do not read distances between groups in any panel"


def _positions(trust: Reliability) -> str:
    n, counts = len(trust.score), trust.counts
    good = trust.share_trustworthy
    dubious = _share(counts["dubious"] / n)
    shares = f"the positions of {_share(good)} of the {n:,} points can be trusted, {dubious} are dubious"
    if good >= MOST_TRUSTED:
        return f"Neighbors in the plot are neighbors in the data: {shares}."
    if good >= HALF_TRUSTED:
        return f"Neighbors in the plot are mostly neighbors in the data: {shares} (color by reliability to see which)."
    return f"Read groups, not individual points: {shares}."


def _share(value: float) -> str:
    """Return a share as a percentage, "none" only for 0 and "all" only for 1."""
    if value in (0.0, 1.0):
        return "none" if value == 0 else "all"
    return "under 1%" if value < 0.01 else "over 99%" if value > 0.99 else f"{value:.0%}"


def _distances(score: Score) -> Iterator[str]:
    straight, along, best = score.get("spearman", nan), score.get("geodesic_correlation", nan), _correlation(score)
    if best != best:
        return
    scores = f"correlation {straight:.2f} with straight, {along:.2f} with geodesic distances"
    if along >= READABLE and along > straight + UNFOLDED:
        yield f"Distances follow geodesics, as when a curved sheet is unfolded ({scores})."
    elif best >= READABLE:
        yield f"Points that are far apart in the plot are far apart in the data ({scores})."
    elif best >= ROUGH:
        yield f"Which groups are close can be read roughly, but not how far apart they are ({scores})."
    else:
        yield f"Do not read which groups are close, or how far apart they are ({scores})."


def _densities(score: Score) -> Iterator[str]:
    density = score.get("density_preservation", nan)
    if density != density:
        return
    text = f"correlation of densities {density:.2f}"
    if density >= READABLE:
        yield f"Dense regions are dense in the data too ({text})."
    elif density >= ROUGH:
        yield f"Densities and sizes of groups follow the data roughly ({text})."
    else:
        yield f"Densities and sizes of groups mean little: color by the density of the data instead ({text})."


def _labels(score: Score, chance: float) -> Iterator[str]:
    hit = score.get("neighborhood_hit", nan)
    if hit == hit:
        share = _capitalized(_share(hit))
        yield f"{share} of the nearest neighbors in the plot have the same label ({chance:.0%} by chance)."


def _against_baseline(score: Score, name: str, reference: str) -> Iterator[str]:
    share, linear = score.get("knn_kept", nan), score.pca.get("knn_kept", nan)
    if name != reference and share < linear - CLEARLY_FEWER:
        yield (
            f"{reference} preserves more neighbors ({linear:.0%} instead of {share:.0%}): look at it first, or change "
            "the settings of this method."
        )


def caption(
    layout: ReportEmbedding,
    score: Score | None,
    trust: Reliability | None,
    baseline: Mapping[str, float],
    reference: str,
) -> str:
    """Return the caption of a panel: key scores and those of the baseline, seconds, components not shown."""
    parts = []
    if score is not None and (share := score.get("knn_kept", nan)) == share:
        known = {} if layout.name == reference else {reference: baseline["knn_kept"]}
        chance = share - score["lcmc"]
        known |= {"chance": chance} if chance >= NOTABLE_CHANCE else {}
        others = ", ".join(f"{name}: {value:.0%}" for name, value in known.items())
        parts.append(f"{share:.0%} of the nearest neighbors preserved" + (f" ({others})" if others else ""))
    if trust is not None:
        parts.append(f"{_share(trust.share_trustworthy)} of the points trustworthy")
    if layout.seconds is not None:
        parts.append(f"{_seconds(layout.seconds)}\N{NO-BREAK SPACE}s")
    sentences = [", ".join(parts) + "."] * bool(parts) + [layout.omission] * bool(layout.omission)
    if layout.Y.shape[1] == 1:
        sentences.append("One dimension, from left to right; the height shows the density and has no other meaning.")
    return " ".join(sentences)


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
