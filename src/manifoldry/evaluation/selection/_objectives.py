"""Objectives of a comparison: the methods that are tried, the metrics that decide, and the time that fits take."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry._core import check
from manifoldry._core.registry import METHODS, Card, list_methods
from manifoldry._core.values import IntArray
from manifoldry.evaluation._input import is_precomputed, random_rows, some_points

SIMPLICITY = tuple("linear scaling kernel spectral geodesic local curve unfolding neighbor network".split())
"""Families from the simplest: linear maps, one eigenproblem, graphs, many neighborhoods, iterations."""
N_SHOWN_DIGITS = 4  # decimals of a metric in a printed ranking; smaller differences, such as rounding, decide nothing


@dataclass(frozen=True)
class Criterion:
    """A metric (``figure``) that decides between embeddings; ``says`` describes it.

    Embeddings within ``tolerance`` of the best, or within the share ``relative`` of it, are equal: the next criterion
    decides.
    """

    figure: str
    high: bool
    tolerance: float
    says: str
    relative: float = 0.0

    def equal(self, loss: float, best: float) -> bool:
        """Whether a loss is as good as the best one, within the tolerance."""
        return loss <= best or loss - best <= max(self.tolerance, self.relative * abs(best))

    @property
    def margin(self) -> str:
        """The tolerance in words."""
        return f"{self.tolerance:g}" + (f" or {self.relative:.0%}" if self.relative else "")

    def loss(self, figures: Mapping[str, float]) -> float:
        """Return the loss of an embedding, less is better; infinite if the metric is missing."""
        value = figures.get(self.figure, float("nan"))
        if isnan(value):
            return float("inf")
        return -value if self.high else value


@dataclass(frozen=True)
class Purpose:
    """A purpose: methods in the order of promise, and the criteria in the order in which they decide.

    ``needs`` is what a method must have besides coordinates: "transform", "inverse"; and "labels", if they must be
    given.
    """

    name: str
    methods: tuple[str, ...]
    criteria: tuple[Criterion, ...]
    n_components: int = 2
    needs: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule as text."""
        first, *others = self.criteria
        text = f"Ranked by {first.says}"
        for criterion in others:
            text += f"; where that differs by at most {first.margin}, by {criterion.says}"
            first = criterion
        return f"{text}. Ties go to the simplest method without warnings."


AREA = Criterion("r_nx_auc", True, 0.01, "the neighbors kept at all scales, the small ones most (area under R_NX)")
KEPT = Criterion("knn_kept", True, 0.01, "the share of nearest neighbors that stay nearest")
TRUST = Criterion("trustworthiness", True, 0.002, "trustworthiness: neighbors in the picture are neighbors in the data")
SEEN = Criterion("crowded", False, 0.2, "the share of points that lie on top of others in the plot")
HIT = Criterion("neighborhood_hit", True, 0.02, "the share of neighbors in the picture that have a point's own label")
DEVIATION = Criterion(
    "worse_deviation",
    False,
    0.005,
    "the median change of distances, to neighbors or along the data, whichever is worse",
    relative=0.1,
)
SCALE = Criterion("scale_error", False, 0.05, "how far the scale is from that of the data")
NEAR = Criterion("near_deviation", False, 0.001, "the median change of distances to neighbors", relative=0.1)
ORDER = Criterion("order_kept", True, 0.01, "the rank correlation of distances along the data and along the line")
LABEL_ORDER = Criterion("label_order", True, 0.01, "the rank correlation of the line and the given numbers")
ACCURACY = Criterion(
    "accuracy", True, 0.01, "the accuracy of a classifier of new points, the better of 5-NN and linear"
)
ERROR = Criterion(
    "reconstruction_error",
    False,
    0.005,
    "the share of the variance of new points that is not reconstructed",
    relative=0.05,
)

PURPOSES: Mapping[str, Purpose] = {
    purpose.name: purpose
    for purpose in (
        Purpose(
            "keep distances", ("IPA", "LTSA", "Isomap", "TesseraMap", "MDS", "FastMVU", "MVU"), (DEVIATION, SCALE, NEAR)
        ),
        Purpose(
            "keep neighbors",
            ("TSNE", "UMAP", "IPA", "Isomap", "LTSA", "SymmetricSNE", "LaplacianEigenmaps"),
            (AREA, KEPT, TRUST),
        ),
        Purpose(
            "see clusters",
            ("TSNE", "UMAP", "LocalMAP", "SymmetricSNE", "LaplacianEigenmaps", "DiffusionMaps", "Isomap"),
            (SEEN, HIT, KEPT, TRUST),
        ),
        Purpose(
            "order along a path",
            ("Isomap", "PrincipalCurve", "LTSA", "PHATE", "DiffusionMaps", "LaplacianEigenmaps", "PaCMAP", "IPA"),
            (LABEL_ORDER, ORDER, AREA),
            n_components=1,
        ),
        Purpose(
            "features for a classifier",
            ("UMAP", "Isomap", "LaplacianEigenmaps", "KernelPCA", "LPP", "TSNE"),
            (ACCURACY, KEPT),
            needs=("transform", "labels"),
        ),
        Purpose(
            "reconstruct",
            ("IPA", "PrincipalSurface", "LTSA", "Isomap", "TSNE", "UMAP", "KernelPCA"),
            (ERROR, AREA),
            needs=("transform", "inverse"),
        ),
    )
}
"""All purposes by name. Methods are in the order in which they are tried while the budget lasts."""


def purpose_of(name: str, labels: bool) -> Purpose:
    """Return a purpose by name, with the criteria that apply with or without labels."""
    purpose = PURPOSES[check.choice("purpose", name, tuple(PURPOSES))]
    if "labels" in purpose.needs and not labels:
        raise ValueError(f"The purpose {name!r} is evaluated with labels; pass labels=..., or use 'keep neighbors'.")
    criteria = purpose.criteria if labels else tuple(c for c in purpose.criteria if c not in (HIT, LABEL_ORDER))
    return Purpose(purpose.name, purpose.methods, criteria, purpose.n_components, purpose.needs)


def ranked(criteria: Sequence[Criterion], figures: Sequence[Mapping[str, float]]) -> list[int]:
    """Return the indices of embeddings from the best to the worst; equal ones stay in their order.

    All within the tolerance of the best by the first criterion come first, ordered by the other criteria; the rest
    follows in the same way. The last criterion decides up to its shown digits, so that an embedding that is better by
    all criteria is never behind.

    Examples
    --------
    >>> high = Criterion("a", True, 0.1, ""), Criterion("b", True, 0.0, "")
    >>> ranked(high, [{"a": 0.95, "b": 1.0}, {"a": 1.0, "b": 0.0}, {"a": 0.5, "b": 2.0}])
    [0, 1, 2]
    """
    if not criteria:
        return list(range(len(figures)))
    first, *others = criteria
    shown = [[round(criterion.loss(each), N_SHOWN_DIGITS) for criterion in criteria] for each in figures]
    left, order = sorted(range(len(figures)), key=shown.__getitem__), []
    if not others:
        return left
    while left:
        best = min(first.loss(figures[i]) for i in left)
        equal = [i for i in left if first.equal(first.loss(figures[i]), best)]
        order += [equal[i] for i in ranked(others, [figures[i] for i in equal])]
        left = [i for i in left if i not in equal]
    return order


def simplest_first(
    criteria: Sequence[Criterion], figures: Sequence[Mapping[str, float]], effort: Sequence[tuple[int, ...]]
) -> list[int]:
    """Return the indices as `ranked` does, those that equal the best by all criteria ordered by their effort."""
    order = ranked(criteria, figures)
    best = figures[order[0]]
    tied = [i for i in order if all(each.equal(each.loss(figures[i]), each.loss(best)) for each in criteria)]
    return [*sorted(tied, key=lambda i: effort[i]), *(i for i in order if i not in tied)]


SHARED_GRAPH_FAMILIES = ("geodesic", "local", "spectral")  # get the suggested number of neighbors
SHARED_GRAPH_METHODS = ("MVU", "FastMVU", "LandmarkMVU", "EAT")  # and methods of other families


@dataclass(frozen=True)
class SkippedMethod:
    """A method that was not compared, and why."""

    name: str
    reason: str


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
        if name not in METHODS or not (isinstance(method, str) or type(method).__module__ == METHODS[name]):
            raise ValueError(
                f"methods must name methods of this library; got {method!r}: see manifoldry.list_methods()."
            )
    return list(methods)


def candidates(
    methods: Sequence[Any], purpose: Purpose, X: Any, settings: Mapping[str, Any]
) -> tuple[list[Candidate], list[SkippedMethod]]:
    """Return the methods that can be run on X with the given settings, the baseline first, and those that cannot."""
    cards = {card.name: card for card in list_methods()}
    tried: list[Candidate] = []
    skipped: list[SkippedMethod] = []
    seen: Counter[str] = Counter()
    baseline = baseline_name(settings["metric"])
    for method in dict.fromkeys([baseline, *methods]):
        card = cards[method if isinstance(method, str) else type(method).__name__]
        model = _configured(card, settings) if isinstance(method, str) else clone(method)
        if not isinstance(method, str) and "callback" in model.get_params():
            model.set_params(callback=settings["callback"])
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


MIN_ESTIMATED_ROWS = 2000  # fewer rows are fitted without an estimate, which would take as long as most fits
PILOT_ROWS = 300, 600  # of two small fits; the first also loads and compiles what is needed
GROWTH: Mapping[str, float] = {"EAT": 3.0, "MVU": 2.5, "SNE": 1.5}  # powers of n where a card gives seconds
LINEAR_GROWTH = 1.2  # power of n for orders of n, n k or n log n
LOG_GROWTH = 0.2  # what a logarithm adds to the power
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
        self.budget = budget
        self._until = np.inf if budget is None else time.perf_counter() + budget

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._until - time.perf_counter()

    def over(self, _: Any = None) -> bool:
        """Whether no time is left; as a callback it stops a fit."""
        return self.left <= 0


def growth(card: Card) -> float:
    """Return the power of n with which the time of a method grows, by the order that its card gives."""
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
    seconds = n_fits * estimate(model, X, growth(card), clock.left / n_fits)
    if seconds <= clock.left:
        return ""
    times = [f"{each:.0f}" if each >= 10 else f"{each:.1f}" for each in (seconds, max(clock.left, 0.0))]
    return f"about {times[0]} s for {n:,} points, more than the {times[1]} s left of the budget"


def estimate(model: Any, X: Any, power: float, available: float = 0.0) -> float:
    """Return about how many seconds a fit to X takes: a + b n^power, from two fits to some of its rows.

    One fit suffices if all of its time may grow and still fit into the ``available`` seconds.
    """
    n = X.shape[0]
    pilots = (_seconds(model, X, random_rows(n, m, np.random.default_rng(m))) for m in PILOT_ROWS)
    few = next(pilots)
    if few * (n / PILOT_ROWS[0]) ** power <= available:
        return few * (n / PILOT_ROWS[0]) ** power
    more = next(pilots)
    sizes = np.array(PILOT_ROWS, dtype=float) ** power
    slope = max(more - min(few, more), 0.25 * more) / (sizes[1] - sizes[0])
    return float(max(more, more + slope * (n**power - sizes[1])))


def _seconds(model: Any, X: Any, rows: IntArray) -> float:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).fit(some_points(X, rows, getattr(model, "metric", "euclidean")))
    return time.perf_counter() - began
