"""Objectives of a comparison: which methods are tried for a purpose, and which metrics decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from manifoldry._core import check

SIMPLICITY = (
    "linear",
    "scaling",
    "kernel",
    "spectral",
    "geodesic",
    "local",
    "curve",
    "unfolding",
    "neighbor",
    "network",
)
"""Families from the simplest: linear maps, one eigenproblem, graphs, many neighborhoods, iterations."""
N_SHOWN_DIGITS = 4
"""Decimals of a metric in a printed ranking; smaller differences, such as rounding, decide nothing."""


@dataclass(frozen=True)
class Criterion:
    """A metric that decides between embeddings.

    Parameters
    ----------
    figure : str
        Its name.
    high : bool
        Whether more is better.
    tolerance, relative : float
        Embeddings that miss the best by no more, or by no more than this share of it, count as equally good, and the
        next criterion orders them.
    says : str
        What it measures, in words.
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

    Parameters
    ----------
    name : str
        As in `compare`.
    methods : tuple of str
        Methods to try, the baseline not among them.
    criteria : tuple of Criterion
        The first decides; where embeddings are equal by it, the next.
    n_components : int
        Default target dimension.
    needs : tuple of str
        What a method must have besides coordinates: "transform", "inverse"; and "labels", if they must be given.
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
            "keep distances",
            ("IPA", "LTSA", "Isomap", "TesseraMap", "MDS", "FastMVU", "MVU"),
            (DEVIATION, SCALE, NEAR),
        ),
        Purpose(
            "keep neighbors",
            ("TSNE", "UMAP", "IPA", "Isomap", "LTSA", "SymmetricSNE", "LaplacianEigenmaps"),
            (AREA, KEPT, TRUST),
        ),
        Purpose(
            "see clusters",
            ("TSNE", "UMAP", "SymmetricSNE", "LaplacianEigenmaps", "DiffusionMaps", "Isomap"),
            (SEEN, HIT, KEPT, TRUST),
        ),
        Purpose(
            "order along a path",
            ("Isomap", "PrincipalCurve", "LTSA", "DiffusionMaps", "LaplacianEigenmaps", "IPA"),
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
        raise ValueError(
            f"The purpose {name!r} is evaluated with labels of new points; pass labels=..., or use 'keep neighbors'."
        )
    criteria = purpose.criteria if labels else tuple(c for c in purpose.criteria if c not in (HIT, LABEL_ORDER))
    return Purpose(purpose.name, purpose.methods, criteria, purpose.n_components, purpose.needs)


def ranked(criteria: Sequence[Criterion], figures: Sequence[Mapping[str, float]]) -> list[int]:
    """Return the indices of embeddings from the best to the worst.

    All within the tolerance of the best by the first criterion are ranked first, ordered by the other criteria; the
    rest follows in the same way. The last criterion decides up to its shown digits, so that an embedding that is
    better by all criteria is never behind. The order depends on the metrics alone; equal ones stay in their order.

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
    """Return the indices as `ranked` does, those that equal the best by all criteria ordered by their effort.

    Examples
    --------
    >>> high = Criterion("a", True, 0.1, ""), Criterion("b", True, 0.1, "")
    >>> simplest_first(high, [{"a": 1.0, "b": 1.0}, {"a": 0.95, "b": 1.0}, {"a": 0.95, "b": 0.5}], [(2,), (1,), (0,)])
    [1, 0, 2]
    """
    order = ranked(criteria, figures)
    best = figures[order[0]]
    tied = [i for i in order if all(each.equal(each.loss(figures[i]), each.loss(best)) for each in criteria)]
    return [*sorted(tied, key=lambda i: effort[i]), *(i for i in order if i not in tied)]
