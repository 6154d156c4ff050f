"""Why a method is where it is in a ranking: sentences from figures and cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from manifoldry.choosing.purposes import Purpose
from manifoldry.registry import Card

Figures = Mapping[str, float]

MAX_FAITHFUL_DEVIATION = 0.15
"""Above this change of half of the distances no map is called one that keeps distances."""
MIN_NEIGHBORS_KEPT = 0.3
"""Below this share of neighbors kept by the best, the data have more dimensions than the picture."""
MIN_ORDER_KEPT = 0.8
"""Below this rank correlation with the best line, the data do not follow one path."""


def _percent(value: float) -> str:
    return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def _distances(f: Figures) -> str:
    return (
        f"keeps half of the distances to neighbors to {_percent(f['near_deviation'])} and half of those along the data "
        f"to {_percent(f['far_deviation'])}"
    )


def _neighbors(f: Figures) -> str:
    return f"keeps {f['knn_kept']:.0%} of the nearest neighbors (area under R_NX {f['r_nx_auc']:.2f})"


def _clusters(f: Figures) -> str:
    hit = f"shows {f['neighborhood_hit']:.0%} neighbors of a point's own label and " if "neighborhood_hit" in f else ""
    return f"{hit}keeps {f['knn_kept']:.0%} of the nearest neighbors, trustworthiness {f['trustworthiness']:.3f}"


def _path(f: Figures) -> str:
    given = f"follows the given numbers with rank correlation {f['label_order']:.2f} and " if "label_order" in f else ""
    return f"{given}orders distances along the data with rank correlation {f['order_kept']:.2f}"


def _classifier(f: Figures) -> str:
    kind = "its neighbors" if f["accuracy_neighbors"] >= f["accuracy_linear"] else "a linear classifier"
    return f"tells the labels of {f['accuracy']:.1%} of new points by {kind}"


def _back(f: Figures) -> str:
    return f"loses {_percent(f['reconstruction_error'])} of the variance of new points there and back"


PHRASES: Mapping[str, Callable[[Figures], str]] = {
    "keep distances": _distances,
    "keep neighbors": _neighbors,
    "see clusters": _clusters,
    "order along a path": _path,
    "features for a classifier": _classifier,
    "reconstruct": _back,
}
"""What a method does for a purpose, as a clause with its figures."""


def reasons(purpose: Purpose, ranking: Sequence[tuple[Card, Figures]], place: int) -> tuple[str, ...]:
    """Return what speaks for and against the method at a place of the ranking."""
    card, figures = ranking[place]
    if not figures:
        return ("It left points without coordinates, so it has no figures.",)
    phrase = PHRASES[purpose.name]
    return f"It {phrase(figures)}.", f"It is known to keep {card.keeps}, and to lose {card.loses}."


def verdicts(purpose: Purpose, ranking: Sequence[tuple[Card, Figures]], baseline: str, dimension: float) -> list[str]:
    """Return what the comparison says of the data and the purpose."""
    best, figures = ranking[0]
    linear = next((theirs for card, theirs in ranking if card.name == baseline), {})
    first = purpose.criteria[0]
    said = []
    if best.name == baseline or first.loss(linear) - first.loss(figures) <= first.tolerance:
        said.append(f"Nothing tried is clearly better than {baseline} for this purpose.")
    else:
        said.append(f"{best.name} {PHRASES[purpose.name](figures)}; {baseline} {_short(purpose, linear)}.")
    said += _limits(purpose, figures, dimension)
    return said


def _short(purpose: Purpose, figures: Figures) -> str:
    return PHRASES[purpose.name](figures) if figures else "has no figures"


def _limits(purpose: Purpose, best: Figures, dimension: float) -> list[str]:
    """Return what even the best does not do."""
    about = f"around its points the data have about {dimension:.1f} dimensions"
    if purpose.name == "keep distances" and best.get("worse_deviation", 0.0) > MAX_FAITHFUL_DEVIATION:
        return [
            f"No map tried keeps the distances; {about}: do not read them off any of these, or take more dimensions."
        ]
    if purpose.name in ("keep neighbors", "see clusters") and best.get("knn_kept", 1.0) < MIN_NEIGHBORS_KEPT:
        return [f"Even the best loses most of the neighbors; {about}."]
    if purpose.name == "order along a path" and best.get("order_kept", 1.0) < MIN_ORDER_KEPT:
        return [f"The data do not follow one path, or the path closes; {about}."]
    return []
