"""Stability of a picture over refits: with other seeds, other rows, other settings."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.procrustes import rigid_fit
from manifoldry._numerics.ranks import chosen_neighbors
from manifoldry.evaluation._docs import REFIT_TEXTS, documented
from manifoldry.evaluation._input import n_common, neighbor_lists, random_rows
from manifoldry.evaluation.reliability._picture_clusters import (
    checked_refit,
    cluster_labels,
    embed,
    picture_clusters,
    seed_if_none,
    shown,
)
from manifoldry.graph._search import DEFAULT_N_NEIGHBORS, shared_neighbors

VARIATIONS = ("seed", "subsample", "settings")

SUBSAMPLE_SHARE = 0.8  # of the rows: every cluster is kept, and a fifth of each point's neighbors change
N_SAME_SEEDS = 2  # bit-identical refits with other seeds after which the method is called deterministic
MAX_SETTING_FACTOR = 2.0  # settings are varied by factors from 1 over this to this: the range that users try
AUTO_PERPLEXITY, MIN_VARIED_SETTING = 30.0, 2  # the value used for "auto", and the least value tried

Refit = tuple[IntArray, FloatArray]  # the rows of a refit, ascending, and their picture


@dataclass
class Variations:
    """The refits of one estimator on one set of rows; ``auto_neighbors`` is the value that "auto" had in a fit."""

    estimator: Any
    X: Any
    n_refits: int
    run: Run
    settings: Mapping[str, Sequence[Any]] | None = None
    auto_neighbors: int = DEFAULT_N_NEIGHBORS

    def all(self, kinds: Sequence[str]) -> tuple[FloatArray, dict[str, list[Refit]]]:
        """Return the shown picture and the refits of every kind; fits of all rows share a search."""
        refits: dict[str, list[Refit]] = {kind: [] for kind in kinds}
        # The first search is that of the shown picture: a wider one may order equal distances differently.
        with shared_neighbors():
            Y, model = shown(self.estimator, self.X, self._seed(-1))
            if "seed" in refits:
                refits["seed"] = self._of_seeds(Y)
        self.auto_neighbors = getattr(model, "diagnostics_", {}).get("n_neighbors") or DEFAULT_N_NEIGHBORS
        # Refits that vary something else have the estimator's seed, or that of the shown picture.
        fixed = seed_if_none(self.estimator, self._seed(-1))
        n = self.X.shape[0]
        if "settings" in refits:
            name, values = self.grid
            widest = max(values, default=0) if self.settings is None else 0  # one search serves all
            with shared_neighbors(int((3 if name == "perplexity" else 1) * widest) + 1):
                pictures = (embed(self.estimator, self.X, **{**fixed, name: value}) for value in values)
                refits["settings"] = [(np.arange(n), picture) for picture in pictures]
        if "subsample" in refits:
            for i in range(self.n_refits):
                rows = random_rows(n, int(np.ceil(SUBSAMPLE_SHARE * n)), self.run.rng(f"subsample {i}"))
                refits["subsample"].append((rows, embed(self.estimator, self.X[rows], **fixed)))
        return Y, refits

    @property
    def grid(self) -> tuple[str, list[Any]]:
        """The varied parameter and the values tried; no values if the estimator has no such parameter."""
        if self.settings is not None:
            if len(self.settings) != 1:
                raise ValueError(f"settings must hold the values of one parameter; got {list(self.settings)}.")
            name, values = next(iter(self.settings.items()))
            if name not in self.estimator.get_params() or not len(values):
                raise ValueError(f"settings must hold values of a parameter of the estimator; got {name!r}: {values!r}")
            return name, list(values)
        n = self.X.shape[0]
        params = self.estimator.get_params()
        factors = np.geomspace(1 / MAX_SETTING_FACTOR, MAX_SETTING_FACTOR, self.n_refits)
        usual = {"perplexity": (AUTO_PERPLEXITY, (n - 1) / 3), "n_neighbors": (self.auto_neighbors, n - 1)}
        for name, (auto, most) in usual.items():
            value = auto if params.get(name) == "auto" else params.get(name)
            if isinstance(value, numbers.Real):
                tried = np.clip(min(value, most) * factors, MIN_VARIED_SETTING, most)
                integer = name == "n_neighbors"
                return name, np.unique(np.round(tried).astype(int) if integer else tried.round(6)).tolist()
        return "", []

    @property
    def no_settings(self) -> str:
        """The text on an estimator without such a parameter."""
        return f"{type(self.estimator).__name__} has neither perplexity nor n_neighbors to vary."

    def note(self, kind: str, refits: list[Refit]) -> str:
        """Return what was varied as text."""
        if kind == "seed":
            if len(refits) <= N_SAME_SEEDS and _same(refits):
                return "every seed gives the same picture: the method is deterministic."
            return f"{len(refits)} other seeds."
        if kind == "subsample":
            return f"{len(refits)} times {SUBSAMPLE_SHARE:.0%} of the rows, without replacement."
        name, values = self.grid
        numeric = isinstance(values[0], numbers.Real)
        text = f"{values[0]:.3g} to {values[-1]:.3g}" if numeric else ", ".join(map(str, values))
        return f"{name} {text} instead of {self.estimator.get_params()[name]}."

    def _seed(self, i: int) -> int:
        return int(self.run.rng(f"refit {i}").integers(2**31 - 1))

    def _of_seeds(self, Y: FloatArray) -> list[Refit]:
        refits: list[Refit] = []
        seeded = "random_state" in self.estimator.get_params()
        for i in range(self.n_refits):
            seed = {"random_state": self._seed(i)} if seeded else {}
            refits.append((np.arange(len(Y)), embed(self.estimator, self.X, **seed)))
            if len(refits) == N_SAME_SEEDS and _same(refits):
                break
        return refits


def _same(refits: list[Refit]) -> bool:
    """Whether all refits gave the same picture."""
    return bool(refits) and all(np.array_equal(picture, refits[0][1]) for _, picture in refits)


MIN_STABLE_JACCARD, MAX_DISSOLVED_JACCARD = 0.75, 0.5  # mean Jaccard similarities (hennig2007)
MIN_REFITTED_POINTS = 10  # least number of points with neighborhoods to compare


@dataclass(frozen=True)
class Refits:
    """The refits of one kind, compared with the shown picture; NaN for a point in no refit.

    ``spread`` (n,) is the root mean square distance of each point's aligned positions from their mean, relative to the
    picture's extent; ``neighbors_kept`` (n,) the mean share of its nearest points that are nearest in a refit;
    ``survival`` (n_clusters,) the mean largest Jaccard similarity of each cluster with one of the refit.
    """

    n_refits: int
    spread: FloatArray
    neighbors_kept: FloatArray
    survival: FloatArray
    note: str


@dataclass(frozen=True, repr=False)
class Stability:
    """Stability of a picture, its points and its clusters over refits, by `stability`; printed, a table.

    Parameters
    ----------
    embedding : ndarray of shape (n, p)
        The shown picture.
    labels : ndarray of shape (n,)
        The cluster of each point, from 0; -1 if no clusters are seen.
    kinds : dict of str to Refits
        The results of each kind of variation.
    left_out : tuple of str
        Texts on kinds of variation that the method does not have.
    """

    embedding: FloatArray
    labels: IntArray
    kinds: Mapping[str, Refits]
    left_out: tuple[str, ...] = ()

    @property
    def spread(self) -> FloatArray:
        """Each point's spread, root mean square over the kinds of variation."""
        return np.sqrt(_mean(np.array([np.square(refits.spread) for refits in self.kinds.values()])))

    @property
    def neighbors_kept(self) -> FloatArray:
        """Each point's share of neighbors kept, the mean over the kinds of variation."""
        return _mean(np.array([refits.neighbors_kept for refits in self.kinds.values()]))

    @property
    def survival(self) -> FloatArray:
        """Each cluster's survival, the least over the kinds of variation."""
        return np.min([refits.survival for refits in self.kinds.values()], axis=0)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """For each cluster "stable" (survival above 0.75), "dissolved" (below 0.5) or "undecided"."""
        return tuple(
            "stable" if value > MIN_STABLE_JACCARD else "dissolved" if value < MAX_DISSOLVED_JACCARD else "undecided"
            for value in self.survival
        )

    @property
    def sentences(self) -> list[str]:
        """The conclusions as text."""
        notes = [f"{kind}: {refits.note}" for kind, refits in self.kinds.items()]
        notes.extend(self.left_out)
        if not len(self.survival):
            return [*notes, "No clusters are seen in the picture."]
        counts = {verdict: self.verdicts.count(verdict) for verdict in ("stable", "undecided", "dissolved")}
        text = f"{counts['stable']} stable, {counts['undecided']} undecided, {counts['dissolved']} dissolved"
        notes.append(f"Of {len(self.survival)} clusters {text}, by the worst variation of each.")
        if counts["dissolved"]:
            notes.append(
                "Refits cut dissolved clusters elsewhere; null_comparison decides whether a gap is in the data."
            )
        return notes

    def __repr__(self) -> str:
        return " ".join(self.sentences)

    def __str__(self) -> str:
        """Return the medians over the points per kind, the survival of each cluster, and conclusions."""
        lines = [f"{'':12}{'refits':>7}{'spread':>9}{'neighbors kept':>16}   medians over the points"]
        for kind, refits in self.kinds.items():
            middle = np.nanmedian(refits.spread), np.nanmedian(refits.neighbors_kept)
            lines.append(f"{kind:12}{refits.n_refits:>7}{middle[0]:>9.3f}{middle[1]:>16.3f}")
        if len(self.survival):
            lines.append(f"{'cluster':>7}{'points':>8}" + "".join(f"{kind:>11}" for kind in self.kinds) + "  survival")
        for i, size in enumerate(np.bincount(self.labels[self.labels >= 0])):
            values = "".join(f"{refits.survival[i]:>11.2f}" for refits in self.kinds.values())
            lines.append(f"{i:>7}{size:>8}{values}  {self.verdicts[i]}")
        return "\n".join([*lines, *self.sentences])


@documented(REFIT_TEXTS)
def stability(  # noqa: PLR0913 -- keyword-only settings of one question
    estimator: Any,
    X: Any,
    *,
    n_refits: int = 10,
    vary: str | Sequence[str] = VARIATIONS,
    settings: Mapping[str, Sequence[Any]] | None = None,
    clusters: Any = "auto",
    n_neighbors: int | Literal["auto"] = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Stability:
    r"""Refit an embedding and report which points and clusters stay as they were shown.

    Every refit is compared with the shown picture over the points that both have. For the spread it is
    scaled to the same size and aligned with the shown one by rotation or reflection and shift. (A free
    scale would shrink a picture that does not fit, and its spread with it.) The neighbors kept need no such map:
    clusters that move as a whole do not count against their points. The survival of a cluster C is

    .. math:: \frac1R \sum_r \max_{D \in r} \frac{|C \cap D|}{|C \cup D|}

    over the clusters D found in refit r in the same way; above 0.75 it is stable, below 0.5 dissolved.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, D)
        The data, as the estimator accepts it.
    n_refits : int
        Number of refits of each kind.
    vary : {"seed", "subsample", "settings"} or several of them
        "seed": another ``random_state`` each. "subsample": 80 % of the rows each, without replacement (a bootstrap
        repeats rows, and repeated rows are each other's nearest neighbors).
        "settings": values from half to double of ``perplexity``, or of ``n_neighbors``.
    settings : mapping of str to sequence, optional
        Values of a parameter to try instead, one name.
    n_neighbors : int or "auto"
        Number of nearest points in the picture that are compared; "auto" is 15, or with few points the largest number
        below half of a subsample.
    random_state : None, int, numpy Generator or RandomState
        Source of the seeds and of the subsamples.

    Returns
    -------
    Stability
        Per point and per cluster, by kind of variation, with a table and conclusions.

    Notes
    -----
    Takes the time of ``n_refits`` fits for each kind; fits over the same rows share one neighbor search. Two refits
    with other seeds that equal each other end the refits of this kind: the method is deterministic. A picture
    can be stable and false: see `null_comparison`.

    References: hennig2007, campello2013, schonemann1966

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> result = stability(PCA(2), X, vary="seed")
    >>> float(result.spread.max()), float(result.neighbors_kept.min())
    (0.0, 1.0)
    """
    X, given = checked_refit(estimator, X, clusters, MIN_REFITTED_POINTS)
    n = X.shape[0]
    kinds = [vary] if isinstance(vary, str) else list(vary)
    for kind in kinds or [""]:
        check.choice("vary", kind, VARIATIONS)
    fewest = int(SUBSAMPLE_SHARE * n)
    k = chosen_neighbors(n_neighbors, fewest)
    check.integer("n_neighbors", k, 1, fewest - 1, " for the points of a subsample")
    n_refits = check.integer("n_refits", n_refits, 2)
    run = Run(random_state, n_jobs)
    plan = Variations(estimator, X, n_refits, run, settings)
    if kinds == ["settings"] and not plan.grid[1]:
        raise ValueError(f"{plan.no_settings} Give settings={{name: values}}, or vary='seed' or 'subsample'.")
    Y, refits = plan.all(kinds)
    labels = cluster_labels(Y, given)
    refitted = {kind: pictures for kind, pictures in refits.items() if pictures}
    notes = {kind: plan.note(kind, pictures) for kind, pictures in refitted.items()}
    compared = {kind: _compare(Y, labels, refitted[kind], k, notes[kind], run) for kind in refitted}
    return Stability(Y, labels, compared, tuple(plan.no_settings for kind in refits if kind not in refitted))


def _compare(Y: FloatArray, labels: IntArray, refits: list[Refit], k: int, note: str, run: Run) -> Refits:
    """Return the stability of points and clusters over the refits of one kind."""
    n, count = len(Y), int(labels.max()) + 1
    moves = np.full((len(refits) + 1, n, Y.shape[1]), np.nan)
    moves[0] = 0.0
    overlaps = np.full((len(refits), n), np.nan)
    survival = np.full((len(refits), count), np.nan)
    neighbors = neighbor_lists(Y, k, run)
    for r, (rows, picture) in enumerate(refits):
        shown = Y[rows]
        moves[r + 1, rows] = _align(picture, shown) - shown
        before = neighbors if len(rows) == n else neighbor_lists(shown, k, run)
        overlaps[r, rows] = n_common(before, neighbor_lists(picture, k, run)) / k
        survival[r] = _best_jaccard(labels[rows], picture_clusters(picture), count)
    extent = np.sqrt(np.mean(np.square(Y - Y.mean(axis=0)).sum(axis=1))) or 1.0
    squares = np.square(moves - np.nanmean(moves, axis=0)).sum(axis=2)
    spread = np.where(np.isfinite(squares[1:]).any(axis=0), np.sqrt(np.nanmean(squares, axis=0)) / extent, np.nan)
    return Refits(len(refits), spread, _mean(overlaps), _mean(survival), note)


def _mean(values: FloatArray) -> FloatArray:
    """Return the means of the columns over their finite entries, NaN where there are none."""
    finite = np.isfinite(values)
    counts = finite.sum(axis=0)
    return np.where(counts, np.where(finite, values, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _align(picture: FloatArray, shown: FloatArray) -> FloatArray:
    """Return the picture scaled to the size of the shown one and aligned by rotation or reflection and shift."""
    if np.array_equal(picture, shown):
        return picture
    centered = picture - picture.mean(axis=0)
    size = float(np.linalg.norm(centered))
    scaled = centered * (float(np.linalg.norm(shown - shown.mean(axis=0))) / size if size > 0 else 1.0)
    return rigid_fit(scaled, shown)(scaled)


def _best_jaccard(labels: IntArray, refit_labels: IntArray, count: int) -> FloatArray:
    """Return for each cluster the largest Jaccard similarity with one of those found; NaN for one without points."""
    if refit_labels.max() < 0:
        return np.where(np.bincount(labels[labels >= 0], minlength=count) > 0, 0.0, np.nan)
    table = np.zeros((count, int(refit_labels.max()) + 1))
    inside = labels >= 0
    np.add.at(table, (labels[inside], refit_labels[inside]), 1)
    sizes, others = table.sum(axis=1, keepdims=True), np.bincount(refit_labels)
    return np.where(sizes[:, 0] > 0, (table / np.maximum(1, sizes + others - table)).max(axis=1), np.nan)
