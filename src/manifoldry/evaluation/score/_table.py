"""The metrics of a score, each declared once with its range, best value and meaning; the result; and the options."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import TYPE_CHECKING, Any, Literal

from manifoldry._core import check, markup
from manifoldry._core.arrays import as_frame

if TYPE_CHECKING:
    from manifoldry.evaluation.score._statistics import Estimates

GROUPS = {
    "neighbors": "neighbors: who is near whom, whatever the scale",
    "distances": "distances: near by and along the data, at the best scale",
    "layout": "layout: straight distances, at the best scale; unfolding a bent sheet changes them, and rightly",
    "labels": "labels: are the classes apart in the embedding",
    "truth": "truth: the known coordinates",
    "units": "units: only for embeddings in the units of the data",
}
"""Groups of metrics, in the order in which they are shown, and their headings."""

Group = Literal["neighbors", "distances", "layout", "labels", "truth", "units"]


@dataclass(frozen=True)
class ScoreMetric:
    """A metric of a score: name, group, range, best value, meaning, and whether it depends on the embedding's unit."""

    name: str
    group: Group
    low: float
    high: float
    best: float
    meaning: str
    in_units: bool = False

    @property
    def range(self) -> str:
        """The range in words, such as "0 to 1"."""
        return f"{self.low:g} up" if isinf(self.high) else f"{self.low:g} to {self.high:g}"


_DECLARED: Mapping[Group, Sequence[tuple[str, float, float, float, str]]] = {
    "neighbors": (
        ("trustworthiness", 0, 1, 1, "neighbors in the embedding are near in the data; chance: 0.5"),
        ("continuity", 0, 1, 1, "neighbors in the data are near in the embedding; chance: 0.5"),
        ("knn_kept", 0, 1, 1, "share of the nearest neighbors that stay nearest (Q_NX)"),
        ("lcmc", -1, 1, 1, "the same, less what chance keeps"),
        ("r_nx_auc", -1, 1, 1, "neighborhoods of all sizes kept, the small ones most; chance: 0"),
        ("mrre_x", 0, 1, 0, "relative change of the ranks of neighbors in the data"),
        ("mrre_y", 0, 1, 0, "relative change of the ranks of neighbors in the embedding"),
    ),
    "distances": (
        ("distance_deviation", 0, inf, 0, "half of the distances to neighbors change by less"),
        ("geodesic_correlation", -1, 1, 1, "correlation with the lengths of paths along the data"),
        ("density_preservation", -1, 1, 1, "dense places stay dense; chance: 0"),
        ("conformality", 0, 1, 1, "angles around a point: its least stretch over its largest"),
        ("area_deviation", 0, inf, 0, "half of the areas around points change by less"),
        ("local_residual", 0, 1, 0, "share of a neighborhood that is no linear image of the data's"),
    ),
    "layout": (
        ("pearson", -1, 1, 1, "correlation of all distances, before and after"),
        ("spearman", -1, 1, 1, "correlation of their ranks"),
        ("triplet_accuracy", 0, 1, 1, "of two points, the nearer stays the nearer; chance: 0.5"),
        ("scaled_stress", 0, 1, 0, "change of all distances (normalized and Kruskal's stress)"),
        ("scaled_sammon_stress", 0, 1, 0, "the same, small distances counting more"),
    ),
    "labels": (
        ("neighborhood_hit", 0, 1, 1, "share of the nearest neighbors that have the point's label"),
        ("label_accuracy", 0, 1, 1, "share of points whose nearest neighbor has their label"),
        ("silhouette", -1, 1, 1, "classes are compact and apart; below 0: nearer to another class"),
    ),
    "truth": (
        ("procrustes_similarity", 0, 1, 0, "share of the truth missed, at the best scale"),
        ("procrustes_affine", 0, 1, 0, "the same, after the best linear map"),
    ),
    "units": (
        ("scale", 0, inf, 1, "median ratio of the distances to neighbors, after to before"),
        ("distance_error", 0, inf, 0, "mean of (squared ratio of distances to neighbors - 1)^2"),
        ("procrustes_rigid", 0, inf, 0, "share of the truth missed, in its units"),
    ),
}
"""By group: name, least and largest value, best value and meaning of each metric."""
TABLE: Mapping[str, ScoreMetric] = {
    row[0]: ScoreMetric(row[0], group, *row[1:], in_units=group == "units")
    for group, rows in _DECLARED.items()
    for row in rows
}
"""All metrics by name, in the order in which they are shown; those that depend on the embedding's unit come last."""
N_SHOWN = 3  # metrics in the one-line representation of a score


class Score(dict[str, float]):
    """Metrics of an embedding by name, in the order of `metrics.TABLE`; printed, a table next to those of PCA.

    Attributes
    ----------
    errors : dict of str to float
        Standard errors: how far a value from the sampled points lies from that of all points; 0.0 where all were used.
    pca : dict of str to float
        The same metrics of as many principal components, at the same points.
    heading : str
        What was scored.
    """

    def __init__(
        self,
        figures: Mapping[str, float],
        pca: Mapping[str, float],
        errors: Mapping[str, float] | None = None,
        heading: str = "",
    ) -> None:
        super().__init__({name: figures[name] for name in TABLE if name in figures})
        self.pca = {name: pca[name] for name in self}
        self.errors = {name: (errors or {}).get(name, 0.0) for name in self}
        self.heading = heading

    @classmethod
    def of(cls, embedding: Estimates, pca: Estimates, heading: str) -> Score:
        """Return the score from the estimates of an embedding and of PCA."""
        values, errors = ({name: estimate[i] for name, estimate in embedding.items()} for i in range(2))
        return cls(values, {name: value for name, (value, _) in pca.items()}, errors, heading)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return, by name, a dict of value, error, value of PCA and declaration; an infinite bound is None."""
        rows = {}
        for name, value in self.items():
            entry = asdict(TABLE[name]) | {"high": None if isinf(TABLE[name].high) else TABLE[name].high}
            del entry["name"]
            rows[name] = {"value": value, "error": self.errors[name], "pca": self.pca[name], **entry}
        return rows

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: a row per metric, with value, error, pca, low, high, best, meaning, group."""
        columns = ("value", "error", "pca", "low", "high", "best", "meaning", "group")
        rows = self.to_dict().items()
        frame = as_frame([{"figure": name, **{c: row[c] for c in columns}} for name, row in rows], "figure")
        return frame.astype(dict.fromkeys(columns[:6], float)).fillna({"high": inf})

    def __repr__(self) -> str:
        first = ", ".join(f"{name}={format_score(self[name])}" for name in list(self)[:N_SHOWN])
        return f"Score({first}{', ...' if len(self) > N_SHOWN else ''})"

    def __str__(self) -> str:
        """Return a line per metric, in groups: its name, the embedding, PCA, best value, range and meaning."""
        sampled = any(self.errors.values())
        width = 20 if sampled else 9
        lines = [f"{'':24}{'this':>9}{' ± error' if sampled else '':{width - 9}}{'PCA':>9}  best   range"]
        lines = [self.heading, *lines] if self.heading else lines
        for title, names in self._groups():
            lines += [title, *(self._line(name, sampled) for name in names)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same as a table, for notebooks."""
        rows: list[list[str]] = []
        for title, names in self._groups():
            rows += [[title], *(self._cells(name) for name in names)]
        head = ["", "this", "PCA", "best", "range", "meaning"]
        return markup.page_part(markup.paragraph(self.heading), markup.table(head, rows, (5,)))

    def _groups(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the heading of each group that has metrics, and their names."""
        for group, title in GROUPS.items():
            if names := [name for name in self if TABLE[name].group == group]:
                yield title, names

    def _cells(self, name: str) -> list[str]:
        entry, error = TABLE[name], self.errors[name]
        value = format_score(self[name]) + (f" ± {format_score(error)}" if error else "")
        return [name, value, format_score(self.pca[name]), f"{entry.best:g}", entry.range, entry.meaning]

    def _line(self, name: str, sampled: bool) -> str:
        entry = TABLE[name]
        error = f"{f' ± {format_score(self.errors[name])}' if self.errors[name] else '':11}" if sampled else ""
        values = f"{format_score(self[name]):>9}{error}{format_score(self.pca[name]):>9}"
        return f"  {name:22}{values}  {entry.best:4g}   {entry.range:8} {entry.meaning}"


def format_score(value: float) -> str:
    """Return a number in at most eight characters."""
    return f"{value:.4f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.1e}"


MAX_WHOLE_SCORE, N_SCORED_POINTS = 3000, 1000  # points scored by default: a share is known to 0.016


@dataclass(frozen=True)
class ScoreOptions:
    """The options of a score, by the names of the arguments of `score`."""

    labels: Any = None
    truth: Any = None
    n_neighbors: int | Literal["auto"] = "auto"
    metric: str = "euclidean"
    sample: int | str | None = "auto"
    figures: Collection[str] | None = None


def checked_metrics(names: Collection[str] | None, undefined: Mapping[str, str]) -> frozenset[str]:
    """Return the metrics to compute: the valid ``names``, or all that are not ``undefined`` (by what each requires)."""
    if names is None:
        return frozenset(TABLE) - frozenset(undefined)
    for name in names:
        check.choice("figures", name, TABLE)
        if name in undefined:
            raise ValueError(f"The metric {name!r} needs {undefined[name]}; pass that, or leave the metric out.")
    return frozenset(names)


def scored_size(sample: int | str | None, n: int) -> int | None:
    """Return how many of n points are scored, None for all."""
    if sample is None or not isinstance(sample, str):
        return sample
    check.choice("sample", sample, ("auto",))
    return N_SCORED_POINTS if n > MAX_WHOLE_SCORE else None
