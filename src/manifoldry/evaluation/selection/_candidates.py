"""The methods that a comparison tries, their settings, and the time that they take."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry._core.registry import METHODS, Card, list_methods
from manifoldry._core.values import IntArray
from manifoldry.evaluation._input import is_precomputed, random_rows, some_points
from manifoldry.evaluation.selection._comparison import SkippedMethod
from manifoldry.evaluation.selection._objectives import Purpose

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
    """Return the linear method that all others are compared with: PCA, or classical scaling of distances."""
    return "ClassicalMDS" if is_precomputed(metric) else "PCA"


def checked_methods(methods: Sequence[Any] | None, purpose: Purpose) -> list[Any]:
    """Return valid names and estimators to try, those of the purpose if none are given."""
    if methods is None:
        return list(purpose.methods)
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not len(methods):
        raise ValueError(
            f"methods must be a list of names or estimators; got {methods!r}: use names from manifoldry.list_methods()."
        )
    for method in methods:
        name = method if isinstance(method, str) else type(method).__name__
        if name not in METHODS:
            raise ValueError(
                f"methods must name methods of this library; got {name!r}: use names from manifoldry.list_methods()."
            )
    return list(methods)


def candidates(
    methods: Sequence[Any], purpose: Purpose, X: Any, settings: Mapping[str, Any]
) -> tuple[list[Candidate], list[SkippedMethod]]:
    """Return the methods that can be run on X, the baseline first, and those that cannot.

    ``settings`` are given to those that have them: n_components, metric, n_neighbors, random_state, n_jobs, callback.
    """
    cards = {card.name: card for card in list_methods()}
    tried: list[Candidate] = []
    skipped: list[SkippedMethod] = []
    seen: Counter[str] = Counter()
    baseline = baseline_name(settings["metric"])
    for method in dict.fromkeys([baseline, *methods]):
        card = cards[method if isinstance(method, str) else type(method).__name__]
        model = _configured(card, settings) if isinstance(method, str) else _own(method, settings)
        seen[card.name] += 1
        name = card.name if seen[card.name] == 1 else f"{card.name} {seen[card.name]}"
        reason = _unfit(card, model, purpose, X, settings)
        if reason:
            skipped.append(SkippedMethod(name, reason))
        else:
            tried.append(Candidate(card, model, name))
    return tried, skipped


def _configured(card: Card, settings: Mapping[str, Any]) -> Any:
    """Return the method with those of the settings that it has."""
    parameters = set(inspect.signature(card.cls).parameters)
    if not (card.family in SHARED_GRAPH_FAMILIES or card.name in SHARED_GRAPH_METHODS):
        parameters.discard("n_neighbors")
    return card.cls(**{name: value for name, value in settings.items() if name in parameters})


def _own(model: Any, settings: Mapping[str, Any]) -> Any:
    """Return a copy of a given estimator with the callback that stops it."""
    copy = clone(model)
    return copy.set_params(callback=settings["callback"]) if "callback" in copy.get_params() else copy


def _unfit(card: Card, model: Any, purpose: Purpose, X: Any, settings: Mapping[str, Any]) -> str:
    """Return why a method cannot be run for this purpose on this data; empty if it can."""
    for gift in purpose.needs:
        if gift != "labels" and gift not in card.gives:
            return f"it has no {'inverse_transform' if gift == 'inverse' else gift}"
    metric, tags = settings["metric"], model.__sklearn_tags__().input_tags
    if metric != "euclidean" and "metric" not in model.get_params() and (card.name != "PCA" or is_precomputed(metric)):
        return "it needs rows and supports Euclidean distances only"
    if issparse(X) and not tags.sparse:
        return "it does not accept sparse rows"
    if tags.positive_only and X.min() < 0:
        return "it accepts non-negative data only"
    return ""


MIN_ESTIMATED_ROWS = 2000
"""Fewer rows are fitted without an estimate, which would take as long as most fits."""
PILOT_ROWS = 300, 600
"""Rows of the two small fits that an estimate uses; the first also loads and compiles what is needed."""
GROWTH: Mapping[str, float] = {"EAT": 3.0, "MVU": 2.5, "SNE": 1.5}
"""Powers of n for the methods whose card gives seconds instead of an order."""
LINEAR_GROWTH = 1.2
"""Power of n for orders of n, n k or n log n."""
LOG_GROWTH = 0.2
"""What a logarithm adds to the power."""
ROWS_WITHOUT_CLOCK: Mapping[str, int] = {
    "EAT": 200,
    "KernelIsomap": 2_000,
    "KernelLPP": 1_500,
    "LandmarkMVU": 2_000,
    "MDS": 3_000,
    "MVU": 500,
    "NonmetricMDS": 500,
    "SNE": 3_000,
    "SparsePCA": 1_000,
    "TesseraMap": 5_000,
}
"""Largest number of rows for slow methods without a budget: half a minute or less on one core."""


class Clock:
    """Seconds of a comparison: all of them, or an unlimited number if the budget is None."""

    def __init__(self, budget: float | None) -> None:
        self.budget, self._began = budget, time.perf_counter()
        self._until = np.inf if budget is None else self._began + budget

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._until - time.perf_counter()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def over(self, _: Any = None) -> bool:
        """Whether no time is left; as a callback it stops a fit."""
        return self.left <= 0


def growth(card: Card) -> float:
    """Return the power of n with which the time of a method grows, by the order that its card gives.

    Examples
    --------
    >>> import manifoldry
    >>> {card.name: growth(card) for card in manifoldry.list_methods() if card.name in ("PCA", "Isomap", "MDS")}
    {'MDS': 2.0, 'Isomap': 2.2, 'PCA': 1.2}
    """
    if card.name in GROWTH:
        return GROWTH[card.name]
    orders = re.findall(r"O\(n\^(\d)( log)?", card.cost)
    return max([LINEAR_GROWTH, *(float(power) + (LOG_GROWTH if log else 0.0) for power, log in orders)])


def skip_reason(card: Card, model: Any, X: Any, clock: Clock, n_fits: int) -> str:
    """Return why a method is not fitted to X within the rest of the budget; empty if it is."""
    n = X.shape[0]
    if clock.budget is None:
        most = ROWS_WITHOUT_CLOCK.get(card.name, n)
        return "" if n <= most else f"too slow for {n:,} points without a budget: {card.cost}"
    if clock.over():
        return "the budget was used up"
    if n < MIN_ESTIMATED_ROWS:
        return ""
    seconds = n_fits * estimate(model, X, growth(card))
    if seconds <= clock.left:
        return ""
    left = max(clock.left, 0.0)
    return (
        f"about {_seconds_text(seconds)} s for {n:,} points, more than the {_seconds_text(left)} s left of the budget"
    )


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"


def estimate(model: Any, X: Any, power: float) -> float:
    """Return about how many seconds a fit to X takes, from fits to some of its rows and the power of growth.

    Seconds are a + b n^power; a, what does not grow, is what the second small fit takes beyond b n^power.
    """
    few, more = (_seconds(model, X, _some_rows(X.shape[0], m)) for m in PILOT_ROWS)
    sizes = np.array(PILOT_ROWS, dtype=float) ** power
    slope = max(more - min(few, more), 0.25 * more) / (sizes[1] - sizes[0])
    return float(max(more, more + slope * (X.shape[0] ** power - sizes[1])))


def _some_rows(n: int, m: int) -> IntArray:
    return random_rows(n, m, np.random.default_rng(m))


def _seconds(model: Any, X: Any, rows: IntArray) -> float:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).fit(some_points(X, rows, getattr(model, "metric", "euclidean")))
    return time.perf_counter() - began
