"""Why a method is where it is in a ranking: sentences from figures and cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose

from manifoldry._core.registry import Card
from manifoldry._numerics.geometry.scales import DominatingColumns, in_sentences
from manifoldry.evaluation.dimension import Consensus
from manifoldry.evaluation.reliability._null_comparison import NullComparison
from manifoldry.evaluation.selection._objectives import SEEN, Purpose

Figures = Mapping[str, float]

MAX_FAITHFUL_DEVIATION = 0.15
"""Above this change of half of the distances no map is called one that keeps distances."""
MIN_NEIGHBORS_KEPT = 0.3
"""Below this share of neighbors kept by the best, the data have more dimensions than the picture."""
SAME_FIGURES = 1e-6
"""Layouts whose figures all agree so far are the same, turned or mirrored."""
MAX_DENSITY_DIMENSION = 4.5
"""In more dimensions the density of some thousand points is too rough to say that there are no groups: those of MNIST,
of 11 dimensions, are not found."""
MAX_PATH_DIMENSION = 1.5
"""Above this dimension points lie beside each other, not only one behind the other."""
MAX_KEPT_DEVIATION = 0.5
"""Distances of which half change by more are not called kept."""
MIN_ORDER_KEPT = 0.8
"""Below this rank correlation with the best line, the data do not follow one path."""


def _percent(value: float) -> str:
    return f"{value:.1%}" if value < 0.1 or 0.99 < value < 1.0 else f"{value:.0%}"


def _distances(f: Figures) -> str:
    near, far = f["near_deviation"], f["far_deviation"]
    if max(near, far) > MAX_KEPT_DEVIATION:
        return (
            f"changes half of the distances to neighbors by {_percent(near)} or more and half of those along the data "
            f"by {_percent(far)} or more"
        )
    return (
        f"keeps half of the distances to neighbors to {_percent(near)} and half of those along the data to "
        f"{_percent(far)}"
    )


def _neighbors(f: Figures) -> str:
    return f"keeps {_percent(f['knn_kept'])} of the nearest neighbors (area under R_NX {f['r_nx_auc']:.2f})"


def _clusters(f: Figures) -> str:
    hit = (
        f"shows {_percent(f['neighborhood_hit'])} neighbors of a point's own label and "
        if "neighborhood_hit" in f
        else ""
    )
    return f"{hit}keeps {_percent(f['knn_kept'])} of the nearest neighbors, trustworthiness {f['trustworthiness']:.3f}"


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
    same = next((other.name for other, theirs in ranking[:place] if _alike(theirs, figures)), None)
    if same is not None:
        return f"It {phrase(figures)}.", f"Its layout is that of {same} here."
    return f"It {phrase(figures)}.", f"It is known to keep {card.keeps}, and to lose {card.loses}."


def _alike(one: Figures, other: Figures) -> bool:
    """Tell whether figures are those of the same layout, up to rounding."""
    return one.keys() == other.keys() and all(isclose(one[name], other[name], rel_tol=SAME_FIGURES) for name in one)


@dataclass(frozen=True)
class DataFacts:
    """What is known of the data beside the figures of the embeddings.

    Parameters
    ----------
    baseline : str
        The linear method.
    dimension : float
        Dimension around the points.
    n_groups : int, optional
        Dense groups that valleys of the density part.
    columns : mapping of str to float
        Accuracies of classifiers of the columns themselves, where the purpose asks for them.
    consensus : Consensus, optional
        What the estimators of the dimension say together, which is what a diagnosis tells; sentences name it if given.
    """

    baseline: str
    dimension: float
    n_groups: int | None = None
    columns: Figures = field(default_factory=dict)
    consensus: Consensus | None = None

    @property
    def about(self) -> str:
        """The dimension in words."""
        if self.consensus is None:
            return f"around their points the data have about {self.dimension:.1f} dimensions"
        value, low, high = self.consensus.value, self.consensus.low, self.consensus.high
        return f"the data have about {value} dimension{'s' if value != 1 else ''}, {low:.1f} to {high:.1f}"


def verdicts(purpose: Purpose, ranking: Sequence[tuple[Card, Figures]], known: DataFacts) -> list[str]:
    """Return what the comparison says of the data and the purpose."""
    best, figures = ranking[0]
    if not figures:
        return ["No method tried could be judged."]
    phrase, baseline = PHRASES[purpose.name], known.baseline
    linear = next((theirs for card, theirs in ranking if card.name == baseline), {})
    better = _beaten(purpose, linear, figures)
    if len(ranking) == 1:
        said = [f"Only {best.name} was run, so nothing is compared: it {phrase(figures)}."]
    elif not linear:
        said = [f"{best.name} {phrase(figures)}; {baseline} could not be judged."]
    elif best.name == baseline:
        said = [f"Nothing tried is better than {baseline} for this purpose: it {phrase(figures)}."]
    elif better:
        said = [f"{best.name} {phrase(figures)}; {baseline} {phrase(linear)}."]
    else:
        said = [
            f"Nothing tried is clearly better than {baseline} for this purpose: {best.name} {phrase(figures)}, and "
            f"{baseline} {phrase(linear)}."
        ]
    return said + [sentence for sentence in _limits(purpose, figures, known) if sentence]


def _beaten(purpose: Purpose, linear: Figures, best: Figures) -> bool:
    """Tell whether the best is better than the baseline by more than the tolerance of a criterion of quality."""
    first = next(criterion for criterion in purpose.criteria if criterion is not SEEN)
    return not first.equal(first.loss(linear), first.loss(best))


def _limits(purpose: Purpose, best: Figures, known: DataFacts) -> Iterator[str]:
    """Yield what even the best does not do, and what the data themselves say of the purpose."""
    about = known.about
    if purpose.name == "keep distances" and best["worse_deviation"] > MAX_FAITHFUL_DEVIATION:
        yield f"No map tried keeps the distances ({about}): do not read them off any of these, or take more dimensions."
    if purpose.name in ("keep neighbors", "see clusters") and best["knn_kept"] < MIN_NEIGHBORS_KEPT:
        yield f"Even the best loses most of the neighbors ({about})."
    if purpose.name == "order along a path":
        yield _path_limit(best, about, known.dimension)
    if known.n_groups is not None:
        yield _groups(known.n_groups, known.dimension)
    if known.columns:
        better = known.columns["accuracy"] >= best["accuracy"]
        yield (
            f"Without any embedding, the columns tell the labels of {known.columns['accuracy']:.1%} of new points"
            + (": for accuracy alone, keep them or take more dimensions." if better else ".")
        )


def _path_limit(best: Figures, about: str, dimension: float) -> str:
    if best["order_kept"] < MIN_ORDER_KEPT:
        return f"The data do not follow one path, or the path closes ({about})."
    if dimension > MAX_PATH_DIMENSION:
        return f"The data are wider than a path ({about}): the order is that along their longest direction."
    return ""


def _groups(n_groups: int, dimension: float) -> str:
    if n_groups > 1:
        return f"The data themselves have {n_groups} dense groups or more, with sparse regions between them."
    if dimension > MAX_DENSITY_DIMENSION:
        return ""
    return (
        "The data show no dense groups of 30 points or more with sparse regions between them: gaps in a picture may be "
        "the method's own, and clusters need other evidence, such as labels."
    )


def scale_verdict(found: DominatingColumns | None, names: Sequence[str] | None) -> list[str]:
    """Return that few columns dominate all distances, by their names if they have any, and what to do about it."""
    if found is None:
        return []
    told = found.sentence(None if names is None else in_sentences(names)).rstrip(".")
    return [
        f"{told}, so all methods show little else: compare scaled columns, as by "
        "StandardScaler().fit_transform(X), unless all have the same unit."
    ]


def cluster_verdict(name: str, found: NullComparison) -> str:
    """Return what is known of the clusters that the best picture shows."""
    said = f"In the picture by {name}: {found.sentence}"
    return said if len(found.real) else f"{said} There is no evidence of clusters in the data."


def bridge_verdict(n_bridges: int, n_neighbors: int) -> list[str]:
    """Return what to know of the graph on which all methods were compared."""
    if not n_bridges:
        return []
    return [
        f"The graph of {n_neighbors} neighbors has {n_bridges + 1} connected components, which were joined by shortest "
        "bridges."
    ]
