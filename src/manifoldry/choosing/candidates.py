"""Which methods a comparison runs, with which settings, and which it cannot."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry.choosing.comparison import SkippedMethod
from manifoldry.choosing.input import is_precomputed
from manifoldry.choosing.purposes import Purpose
from manifoldry.registry import METHODS, Card, methods

SHARED_GRAPH_FAMILIES = ("geodesic", "local", "spectral")
"""Families whose number of neighbors is the suggested one; the others weigh or choose their neighbors themselves."""
SHARED_GRAPH_METHODS = ("MVU", "FastMVU", "LandmarkMVU", "EAT")
"""Methods of other families that take the graph as it is."""


@dataclass(frozen=True)
class Candidate:
    """A method to try: its card, an estimator that is not fitted, and its name, with a number if there are several."""

    card: Card
    model: Any
    name: str


def baseline_name(metric: Any) -> str:
    """Return the linear method that all others are compared with: PCA, of distances classical scaling."""
    return "ClassicalMDS" if is_precomputed(metric) else "PCA"


def checked_methods(wanted: Sequence[Any] | None, purpose: Purpose) -> list[Any]:
    """Return names and estimators to try, those of the purpose if none are given, or refuse them."""
    if wanted is None:
        return list(purpose.methods)
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or not len(wanted):
        raise ValueError(
            f"methods must be a list of names or estimators; got {wanted!r}: take some of manifoldry.methods()."
        )
    for each in wanted:
        name = each if isinstance(each, str) else type(each).__name__
        if name not in METHODS:
            raise ValueError(
                f"methods must name methods of this library; got {name!r}: take some of manifoldry.methods()."
            )
    return list(wanted)


def candidates(
    wanted: Sequence[Any], purpose: Purpose, X: Any, settings: Mapping[str, Any]
) -> tuple[list[Candidate], list[SkippedMethod]]:
    """Return the methods that can be run on X, the baseline first, and those that cannot.

    ``settings`` are given to those that have them: n_components, metric, n_neighbors, random_state, n_jobs, callback.
    """
    cards = {card.name: card for card in methods()}
    found: list[Candidate] = []
    skipped: list[SkippedMethod] = []
    seen: Counter[str] = Counter()
    baseline = baseline_name(settings["metric"])
    for each in dict.fromkeys([baseline, *wanted]):
        card = cards[each if isinstance(each, str) else type(each).__name__]
        model = _configured(card, settings) if isinstance(each, str) else _own(each, settings)
        seen[card.name] += 1
        name = card.name if seen[card.name] == 1 else f"{card.name} {seen[card.name]}"
        reason = _unfit(card, model, purpose, X, settings)
        if reason:
            skipped.append(SkippedMethod(name, reason))
        else:
            found.append(Candidate(card, model, name))
    return found, skipped


def _configured(card: Card, settings: Mapping[str, Any]) -> Any:
    """Return the method with those of the settings that it has."""
    known = set(inspect.signature(card.cls).parameters)
    if not (card.family in SHARED_GRAPH_FAMILIES or card.name in SHARED_GRAPH_METHODS):
        known.discard("n_neighbors")
    return card.cls(**{name: value for name, value in settings.items() if name in known})


def _own(model: Any, settings: Mapping[str, Any]) -> Any:
    """Return a copy of a given estimator that hears when to stop."""
    copy = clone(model)
    return copy.set_params(callback=settings["callback"]) if "callback" in copy.get_params() else copy


def _unfit(card: Card, model: Any, purpose: Purpose, X: Any, settings: Mapping[str, Any]) -> str:
    """Return why a method cannot be run for this purpose on this data; nothing if it can."""
    for gift in purpose.needs:
        if gift != "labels" and gift not in card.gives:
            return f"it has no {'inverse_transform' if gift == 'inverse' else gift}"
    metric, tags = settings["metric"], model.__sklearn_tags__().input_tags
    if metric != "euclidean" and "metric" not in model.get_params() and (card.name != "PCA" or is_precomputed(metric)):
        return "it needs rows and knows Euclidean distances only"
    if issparse(X) and not tags.sparse:
        return "it does not take sparse rows"
    if tags.positive_only and X.min() < 0:
        return "it takes non-negative data only"
    return ""
