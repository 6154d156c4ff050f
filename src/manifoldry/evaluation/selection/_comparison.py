"""The result of a comparison: ranked methods, the reasons for their rank, and a readable report."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import TYPE_CHECKING, Any

from manifoldry._core import markup
from manifoldry._core.arrays import as_frame
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation.selection._objectives import SEEN, Purpose, SkippedMethod

if TYPE_CHECKING:
    from manifoldry._core.registry import Card
    from manifoldry.evaluation.dimension import Consensus


REPORT_WIDTH = 110  # columns of the printed report
MAX_THUMBNAIL_POINTS = 600  # points in each of the small pictures that a notebook shows


@dataclass(frozen=True, eq=False, repr=False)
class ComparedMethod:
    """One fitted method of a comparison: its coordinates of the ranked rows, metrics, and reasons for and against it.

    ``warnings`` are the findings of the fit about itself.
    """

    name: str
    estimator: Any
    embedding: FloatArray
    score: Mapping[str, float]
    seconds: float
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.name}: {' '.join(self.reasons)}>"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Methods ranked for a purpose. Its representation is one line; ``print`` shows the whole report.

    Parameters
    ----------
    purpose : Purpose
        The purpose of the ranking; its ``rule`` describes it.
    ranking : tuple of ComparedMethod
        The best first.
    skipped : tuple of SkippedMethod
        What was not run.
    verdicts : tuple of str
        Conclusions about the data and the purpose.
    n_neighbors : int
        Neighbors of the graph that the methods shared.
    rows : ndarray of int
        The ranked rows, a sample of large data.
    n_points : int
        Number of all rows.
    """

    purpose: Purpose
    ranking: tuple[ComparedMethod, ...]
    skipped: tuple[SkippedMethod, ...]
    verdicts: tuple[str, ...]
    n_neighbors: int
    rows: IntArray
    n_points: int

    @property
    def best(self) -> ComparedMethod:
        """The first of the ranking."""
        return self.ranking[0]

    @property
    def embeddings(self) -> dict[str, FloatArray]:
        """The coordinates of the ranked rows by method, the best first."""
        return {entry.name: entry.embedding for entry in self.ranking}

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row per method, the best first: its name, all its metrics and the seconds."""
        names = list(dict.fromkeys(name for entry in self.ranking for name in entry.score))
        return [
            {"method": entry.name, **{name: entry.score.get(name) for name in names}, "seconds": entry.seconds}
            for entry in self.ranking
        ]

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row per method."""
        return as_frame(self.table, "method")

    def __getitem__(self, name: str) -> ComparedMethod:
        for entry in self.ranking:
            if entry.name == name:
                return entry
        raise KeyError(f"{name} is not in the ranking; it has {', '.join(self.embeddings)}.")

    def __repr__(self) -> str:
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Comparison({self.purpose.name!r}: {', '.join(self.embeddings)}{skipped})"

    def __str__(self) -> str:
        """Return the ranking, why the first is first, what each loses, what was skipped."""
        lines = [self._title, *self._figures(), *_wrapped(self.purpose.rule), ""]
        for sentence in self.verdicts:
            lines += _wrapped(sentence)
        for rank, entry in enumerate(self.ranking, 1):
            lines += _wrapped(f"{rank}. {entry.name}: {' '.join(entry.reasons)}", "   ")
            lines += [line for warning in entry.warnings for line in _wrapped(f"   ! {warning}", "     ")]
        for skipped in self.skipped:
            lines += _wrapped(f"-  {skipped.name} was left out: {skipped.reason}", "   ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same with a small picture of each embedding, for notebooks."""
        names = [criterion.figure for criterion in self.purpose.criteria]
        rows = [
            [f"{rank}. {entry.name}", *(_number(entry.score.get(name)) for name in names), f"{entry.seconds:.1f}"]
            for rank, entry in enumerate(self.ranking, 1)
        ]
        step = -(-len(self.best.embedding) // MAX_THUMBNAIL_POINTS)  # some points, evenly chosen
        pictures = [markup.dots(entry.embedding[::step], entry.name, 200, 150) for entry in self.ranking]
        texts = [f"{entry.name}: {' '.join((*entry.reasons, *entry.warnings))}" for entry in self.ranking]
        texts += [f"{skipped.name} was left out: {skipped.reason}" for skipped in self.skipped]
        return markup.page_part(
            markup.heading(self._title, self.purpose.rule),
            *(markup.paragraph(sentence) for sentence in self.verdicts),
            markup.side_by_side(markup.table(["", *names, "seconds"], rows)),
            markup.side_by_side(*pictures),
            markup.bullets(texts),
        )

    @property
    def _title(self) -> str:
        """What was compared: purpose, points and dimensions."""
        sample = "" if len(self.rows) == self.n_points else f" (a sample of {self.n_points:,})"
        d = self.best.embedding.shape[1]
        purpose = self.purpose.name.capitalize()
        return f"{purpose}: {len(self.rows):,} points{sample}, {d} dimension{'' if d == 1 else 's'}"

    def _figures(self) -> list[str]:
        """Return the table of the deciding metrics."""
        names = [criterion.figure for criterion in self.purpose.criteria]
        lines = [f"   {'':20}" + "".join(f"{name:>22}" for name in names) + f"{'seconds':>10}"]
        for rank, entry in enumerate(self.ranking, 1):
            values = "".join(f"{_number(entry.score.get(name)):>22}" for name in names)
            lines.append(f"{rank:>2} {entry.name:20}{values}{entry.seconds:>10.1f}")
        return lines


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, REPORT_WIDTH, subsequent_indent=indent, drop_whitespace=True)


Figures = Mapping[str, float]

MAX_FAITHFUL_DEVIATION = 0.15  # largest median change of distances at which a map is said to keep them
MIN_NEIGHBORS_KEPT = 0.3  # by the best, below which the data has more dimensions than the picture
SAME_FIGURES = 1e-6  # relative difference of all metrics up to which two layouts are the same, rotated or mirrored
MAX_DENSITY_DIMENSION = 4.5  # in more dimensions the density of a few thousand points is too rough to exclude groups
MAX_PATH_DIMENSION = 1.5  # dimension above which the data is wider than a path
MAX_KEPT_DEVIATION = 0.5  # median change of distances above which they are not called kept
MIN_ORDER_KEPT = 0.8  # rank correlation with the best line below which the data does not follow one path


def _percent(value: float) -> str:
    return f"{value:.1%}" if value < 0.1 or 0.99 < value < 1.0 else f"{value:.0%}"


def _distances(f: Figures) -> str:
    near, far = f["near_deviation"], f["far_deviation"]
    if max(near, far) > MAX_KEPT_DEVIATION:
        return (
            f"changes half of the distances to neighbors by {_percent(near)} or more and half of those along the data "
            f"by {_percent(far)} or more"
        )
    shares = _percent(near), _percent(far)
    return f"keeps half of the distances to neighbors to {shares[0]} and half of those along the data to {shares[1]}"


def _clusters(f: Figures) -> str:
    same = f.get("neighborhood_hit")
    hit = "" if same is None else f"shows {_percent(same)} neighbors of a point's own label and "
    return f"{hit}keeps {_percent(f['knn_kept'])} of the nearest neighbors, trustworthiness {f['trustworthiness']:.3f}"


def _path(f: Figures) -> str:
    given = f"follows the given numbers with rank correlation {f['label_order']:.2f} and " if "label_order" in f else ""
    return f"{given}orders distances along the data with rank correlation {f['order_kept']:.2f}"


PHRASES: Mapping[str, Callable[[Figures], str]] = {
    "keep distances": _distances,
    "keep neighbors": lambda f: (
        f"keeps {_percent(f['knn_kept'])} of the nearest neighbors (area under R_NX {f['r_nx_auc']:.2f})"
    ),
    "see clusters": _clusters,
    "order along a path": _path,
    "features for a classifier": lambda f: (
        f"predicts the labels of {f['accuracy']:.1%} of new points with "
        + ("its neighbors" if f["accuracy_neighbors"] >= f["accuracy_linear"] else "a linear classifier")
    ),
    "reconstruct": lambda f: (
        f"loses {_percent(f['reconstruction_error'])} of the variance of new points after the inverse transform"
    ),
}
"""What a method achieves for a purpose, as a clause with its metrics."""


def reasons(purpose: Purpose, ranking: Sequence[tuple[Card, Figures]], rank: int) -> tuple[str, ...]:
    """Return the reasons for and against the method at one rank."""
    card, figures = ranking[rank]
    if not figures:
        return ("It left points without coordinates, so it could not be evaluated.",)
    phrase = PHRASES[purpose.name]
    twin = next((other.name for other, others in ranking[:rank] if _alike(others, figures)), None)
    if twin is not None:
        return f"It {phrase(figures)}.", f"Its layout is that of {twin} here."
    return f"It {phrase(figures)}.", f"It is known to keep {card.keeps}, and to lose {card.loses}."


def _alike(one: Figures, other: Figures) -> bool:
    """Whether metrics are those of the same layout, up to rounding."""
    return one.keys() == other.keys() and all(isclose(one[name], other[name], rel_tol=SAME_FIGURES) for name in one)


@dataclass(frozen=True)
class DataFacts:
    """Properties of the data: linear baseline, dimension, dense groups, accuracies of the ``columns`` themselves."""

    baseline: str
    dimension: float
    n_groups: int | None = None
    columns: Figures = field(default_factory=dict)
    consensus: Consensus | None = None

    @property
    def about(self) -> str:
        """The dimension in words."""
        if self.consensus is None:
            return f"around its points the data has about {self.dimension:.1f} dimensions"
        value, low, high = self.consensus.value, self.consensus.low, self.consensus.high
        return f"the data has about {value} dimension{'s' if value != 1 else ''}, {low:.1f} to {high:.1f}"


def verdicts(purpose: Purpose, ranking: Sequence[tuple[Card, Figures]], facts: DataFacts) -> list[str]:
    """Return conclusions about the data and the purpose."""
    best, figures = ranking[0]
    if not figures:
        return ["No method tried could be evaluated."]
    phrase, baseline = PHRASES[purpose.name], facts.baseline
    linear = next((others for card, others in ranking if card.name == baseline), {})
    first = next(criterion for criterion in purpose.criteria if criterion is not SEEN)
    better = not first.equal(first.loss(linear), first.loss(figures))
    if len(ranking) == 1:
        texts = [f"Only {best.name} was run, so nothing is compared: it {phrase(figures)}."]
    elif not linear:
        texts = [f"{best.name} {phrase(figures)}; {baseline} could not be evaluated."]
    elif best.name == baseline:
        texts = [f"Nothing tried is better than {baseline} for this purpose: it {phrase(figures)}."]
    elif better:
        texts = [f"{best.name} {phrase(figures)}; {baseline} {phrase(linear)}."]
    else:
        texts = [
            f"Nothing tried is clearly better than {baseline} for this purpose: {best.name} {phrase(figures)}, and "
            f"{baseline} {phrase(linear)}."
        ]
    return [*texts, *_limits(purpose, figures, facts)]


def _limits(purpose: Purpose, best: Figures, facts: DataFacts) -> Iterator[str]:
    """Yield what even the best does not achieve, and what the data shows about the purpose."""
    about = facts.about
    if purpose.name == "keep distances" and best["worse_deviation"] > MAX_FAITHFUL_DEVIATION:
        yield (
            f"No map tried keeps the distances ({about}): do not read distances in any of these, or use more "
            "dimensions."
        )
    if purpose.name in ("keep neighbors", "see clusters") and best["knn_kept"] < MIN_NEIGHBORS_KEPT:
        yield f"Even the best loses most of the neighbors ({about})."
    if purpose.name == "order along a path":
        if best["order_kept"] < MIN_ORDER_KEPT:
            yield f"The data does not follow one path, or the path closes ({about})."
        elif facts.dimension > MAX_PATH_DIMENSION:
            yield f"The data is wider than a path ({about}): the order is that along its longest direction."
    if facts.n_groups is not None and facts.n_groups > 1:
        yield f"The data itself has {facts.n_groups} dense groups or more, with sparse regions between them."
    elif facts.n_groups is not None and facts.dimension <= MAX_DENSITY_DIMENSION:
        yield (
            "The data shows no dense groups of 30 points or more with sparse regions between them: gaps in a picture "
            "may be artifacts of the method, and clusters need other evidence, such as labels."
        )
    if facts.columns:
        better = facts.columns["accuracy"] >= best["accuracy"]
        yield (
            f"Without any embedding, the columns predict the labels of {facts.columns['accuracy']:.1%} of new points"
            + (": for accuracy alone, keep them or use more dimensions." if better else ".")
        )
