"""How far a picture stays the same when it is made again: with other seeds, other rows, other settings."""

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
from manifoldry.evaluation.reliability._picture_clusters import join_noise, picture_clusters
from manifoldry.evaluation.reliability._refitting import as_labels, as_rows, check_estimator, embed, seed_if_none, shown
from manifoldry.graph._search import DEFAULT_N_NEIGHBORS, NeighborRule, neighbor_graph, shared_neighbors

# The refits of an estimator that `stability` compares: over seeds, over subsamples of the rows, over settings.

VARIATIONS = ("seed", "subsample", "settings")

SUBSAMPLE_SHARE = 0.8
"""Share of the rows in a subsample: enough to keep every cluster, and a fifth of everyone's neighbors are others."""

N_SAME_SEEDS = 2
"""Refits with other seeds that give the same picture bit for bit, after which the method is called deterministic. The
picture shown need not be that one: it may have been fitted to rows of single precision, or with another search."""

MAX_SETTING_FACTOR = 2.0
"""Settings are varied from one over this to this: the range in which users try."""

AUTO_PERPLEXITY, MIN_VARIED_SETTING = 30.0, 2
"""What "auto" is taken for, and the least value tried."""

Refit = tuple[IntArray, FloatArray]
"""The rows of a refit, ascending, and their picture."""


@dataclass
class Variations:
    """The refits of one estimator on one set of rows; ``auto_neighbors`` is what a fit has taken "auto" for."""

    estimator: Any
    X: Any
    n_refits: int
    run: Run
    settings: Mapping[str, Sequence[Any]] | None = None
    auto_neighbors: int = DEFAULT_N_NEIGHBORS

    def all(self, kinds: Sequence[str]) -> tuple[FloatArray, dict[str, list[Refit]]]:
        """Return the picture that is shown, and the refits of every kind asked for; fits of all rows share a search."""
        made: dict[str, list[Refit]] = {kind: [] for kind in kinds}
        # The first search finds what the shown picture asks for: a wider one may order equal distances otherwise.
        with shared_neighbors():
            Y, model = shown(self.estimator, self.X, self._seed(-1))
            if "seed" in made:
                made["seed"] = self._of_seeds(Y)
        self.auto_neighbors = getattr(model, "diagnostics_", {}).get("n_neighbors") or DEFAULT_N_NEIGHBORS
        if "settings" in made:
            with shared_neighbors(self._widest()):
                made["settings"] = self._of_settings()
        if "subsample" in made:
            made["subsample"] = [self._of_subsample(i) for i in range(self.n_refits)]
        return Y, made

    @property
    def grid(self) -> tuple[str, list[Any]]:
        """The parameter that is varied, and the values tried; no values if the estimator has none of the kind."""
        if self.settings is not None:
            if len(self.settings) != 1:
                raise ValueError(f"settings must hold the values of one parameter; got {list(self.settings)}.")
            name, values = next(iter(self.settings.items()))
            if name not in self.estimator.get_params() or not len(values):
                raise ValueError(
                    f"settings must hold values of a parameter of the estimator; got {name!r}: {values!r}."
                )
            return name, list(values)
        n = self.X.shape[0]
        params = self.estimator.get_params()
        factors = np.geomspace(1 / MAX_SETTING_FACTOR, MAX_SETTING_FACTOR, self.n_refits)
        usual = {"perplexity": (AUTO_PERPLEXITY, (n - 1) / 3), "n_neighbors": (self.auto_neighbors, n - 1)}
        for name, (auto, most) in usual.items():
            value = auto if params.get(name) == "auto" else params.get(name)
            if isinstance(value, numbers.Real):
                tried = np.clip(min(value, most) * factors, MIN_VARIED_SETTING, most)
                whole = name == "n_neighbors"
                return name, np.unique(np.round(tried).astype(int) if whole else tried.round(6)).tolist()
        return "", []

    @property
    def no_settings(self) -> str:
        """The sentence on an estimator without settings of the usual kind."""
        return f"{type(self.estimator).__name__} has neither perplexity nor n_neighbors to vary."

    def note(self, kind: str, made: list[Refit]) -> str:
        """Return in words what was varied."""
        if kind == "seed":
            if len(made) <= N_SAME_SEEDS and _same(made):
                return "every seed gives the same picture: the method is deterministic."
            return f"{len(made)} other seeds."
        if kind == "subsample":
            return f"{len(made)} times {SUBSAMPLE_SHARE:.0%} of the rows, without repeats."
        name, values = self.grid
        told = (
            f"{values[0]:.3g} to {values[-1]:.3g}"
            if isinstance(values[0], numbers.Real)
            else ", ".join(map(str, values))
        )
        return f"{name} {told} instead of {self.estimator.get_params()[name]}."

    def _seed(self, i: int) -> int:
        return int(self.run.rng(f"refit {i}").integers(2**31 - 1))

    def _fixed(self) -> dict[str, int]:
        """Return the seed of refits that vary something else: the estimator's own, or that of the shown picture."""
        return seed_if_none(self.estimator, self._seed(-1))

    def _widest(self) -> int:
        """Return how many neighbors the widest of the settings takes, so that one search serves all."""
        name, values = self.grid if self.settings is None else ("", [])
        return int((3 if name == "perplexity" else 1) * max(values, default=0)) + 1

    def _of_seeds(self, Y: FloatArray) -> list[Refit]:
        made: list[Refit] = []
        seeded = "random_state" in self.estimator.get_params()
        for i in range(self.n_refits):
            made.append(
                (
                    np.arange(len(Y)),
                    embed(self.estimator, self.X, **({"random_state": self._seed(i)} if seeded else {})),
                )
            )
            if len(made) == N_SAME_SEEDS and _same(made):
                break
        return made

    def _of_subsample(self, i: int) -> Refit:
        n = self.X.shape[0]
        rows = np.sort(self.run.rng(f"subsample {i}").permutation(n)[: int(np.ceil(SUBSAMPLE_SHARE * n))])
        return rows, embed(self.estimator, self.X[rows], **self._fixed())

    def _of_settings(self) -> list[Refit]:
        name, values = self.grid
        rows = np.arange(self.X.shape[0])
        return [(rows, embed(self.estimator, self.X, **{**self._fixed(), name: value})) for value in values]


def _same(made: list[Refit]) -> bool:
    """Tell whether all refits gave the same picture."""
    return bool(made) and all(np.array_equal(picture, made[0][1]) for _, picture in made)


MIN_STABLE_JACCARD, MAX_DISSOLVED_JACCARD = 0.75, 0.5
"""Mean Jaccard similarity above which a cluster is called stable, and below which dissolved (hennig2007)."""

MIN_REFITTED_POINTS = 10
"""Fewer points have no neighborhoods to compare."""


@dataclass(frozen=True)
class Refits:
    """The picture and its refits of one kind.

    Parameters
    ----------
    n_refits : int
        How many pictures were compared.
    spread : ndarray of shape (n,)
        Root mean square distance of each point's places from their mean, over the picture's own root mean square
        distance from its center, after the pictures were laid on the shown one. NaN for a point in no refit, and so
        below.
    neighbors_kept : ndarray of shape (n,)
        Mean share of each point's nearest points in the shown picture that are nearest in a refit.
    survival : ndarray of shape (n_clusters,)
        Mean over the refits of the largest Jaccard similarity of each cluster with a cluster of the refit.
    note : str
        What was varied.
    """

    n_refits: int
    spread: FloatArray
    neighbors_kept: FloatArray
    survival: FloatArray
    note: str


@dataclass(frozen=True, repr=False)
class Stability:
    """How a picture, its points and its clusters last when it is made again, by `stability`; printed, a table.

    Parameters
    ----------
    embedding : ndarray of shape (n, p)
        The shown picture.
    labels : ndarray of shape (n,)
        The cluster of each point, from 0; -1 if no clusters are seen.
    kinds : dict of str to Refits
        What came of each kind of variation.
    left_out : tuple of str
        Sentences on kinds of variation that the method does not have.
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
        """What the figures say."""
        notes = [f"{kind}: {refits.note}" for kind, refits in self.kinds.items()]
        notes.extend(self.left_out)
        if not len(self.survival):
            return [*notes, "No clusters are seen in the picture."]
        counts = {verdict: self.verdicts.count(verdict) for verdict in ("stable", "undecided", "dissolved")}
        told = f"{counts['stable']} stable, {counts['undecided']} undecided, {counts['dissolved']} dissolved"
        notes.append(f"Of {len(self.survival)} clusters {told}, by the variation that each stands least.")
        if counts["dissolved"]:
            notes.append(
                "Refits cut dissolved clusters elsewhere; whether a gap is in the data, null_comparison tells."
            )
        return notes

    def __repr__(self) -> str:
        return " ".join(self.sentences)

    def __str__(self) -> str:
        """Return the medians over the points per kind, the survival of each cluster, and sentences."""
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
    r"""Make a picture again and tell which points and which clusters stay as they were shown.

    Every refit is compared with the shown picture over the points that both have. For the spread it is
    brought to the same size and laid on the shown one by the rotation or reflection and shift of least squares. (A free
    scale would shrink a picture that does not fit, and its spread with it.) The neighbors kept need no such map:
    clusters that move as wholes do not count against their points. The survival of a cluster C is

    .. math:: \frac1R \sum_r \max_{D \in r} \frac{|C \cap D|}{|C \cup D|}

    over the clusters D found in refit r in the same way; above 0.75 it is stable, below 0.5 dissolved.

    Parameters
    ----------
    estimator : estimator with fit_transform
        The method with its settings, of this library or any other in the style of scikit-learn. The ``embedding_`` of
        one that is fitted on X is the shown picture; otherwise a clone is fitted.
    X : array-like or sparse matrix of shape (n, D)
        The data, in the form in which the estimator takes it.
    n_refits : int
        Number of refits of each kind.
    vary : {"seed", "subsample", "settings"} or several of them
        "seed": another ``random_state`` each. "subsample": 80 % of the rows each, drawn without repeats (a bootstrap
        repeats rows, and repeated rows are each other's nearest neighbors: heaps that are not in the data).
        "settings": values from half to double of ``perplexity``, else of ``n_neighbors``.
    settings : mapping of str to sequence, optional
        Values of a parameter to try instead, one name.
    clusters : "auto" or array-like of shape (n,)
        The clusters whose survival is asked; "auto" takes those seen in the picture (`picture_clusters`). Negative
        labels are noise, which joins the nearest cluster; names are numbered in their order.
    n_neighbors : int or "auto"
        Number of nearest points in the picture that are compared; "auto" is 15, or of few points as many as are fewer
        than half of a subsample.
    random_state : None, int, numpy Generator or RandomState
        Source of the seeds and of the subsamples.
    n_jobs : int, optional
        Threads of the searches, None for all; the estimator has its own. The result does not depend on it.

    Returns
    -------
    Stability
        Per point and per cluster, by kind of variation, with a table and sentences.

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
    >>> found = stability(PCA(2), X, vary="seed")
    >>> float(found.spread.max()), float(found.neighbors_kept.min())
    (0.0, 1.0)
    """
    check_estimator(estimator)
    X = as_rows(X, MIN_REFITTED_POINTS)
    n = X.shape[0]
    kinds = [vary] if isinstance(vary, str) else list(vary)
    for kind in kinds or [""]:
        check.choice("vary", kind, VARIATIONS)
    fewest = int(SUBSAMPLE_SHARE * n)
    k = chosen_neighbors(n_neighbors, fewest)
    check.integer("n_neighbors", k, 1, fewest - 1, " for the points of a subsample")
    n_refits = check.integer("n_refits", n_refits, 2)
    given = None if isinstance(clusters, str) and clusters == "auto" else as_labels(clusters, n)
    run = Run(random_state, n_jobs)
    plan = Variations(estimator, X, n_refits, run, settings)
    if kinds == ["settings"] and not plan.grid[1]:
        raise ValueError(f"{plan.no_settings} Give settings={{name: values}}, or vary='seed' or 'subsample'.")
    Y, refits = plan.all(kinds)
    labels = picture_clusters(Y) if given is None else join_noise(Y, given)
    known = {kind: made for kind, made in refits.items() if made}
    found = {kind: _compare(Y, labels, made, k, plan.note(kind, made), run) for kind, made in known.items()}
    return Stability(Y, labels, found, tuple(plan.no_settings for kind in refits if kind not in known))


def _compare(Y: FloatArray, labels: IntArray, refits: list[Refit], k: int, note: str, run: Run) -> Refits:
    """Return what became of points and clusters in the refits of one kind."""
    n, count = len(Y), int(labels.max()) + 1
    moves = np.full((len(refits) + 1, n, Y.shape[1]), np.nan)
    moves[0] = 0.0
    kept = np.full((len(refits), n), np.nan)
    survival = np.full((len(refits), count), np.nan)
    whole = _nearest(Y, k, run)
    for r, (rows, picture) in enumerate(refits):
        shown = Y[rows]
        moves[r + 1, rows] = _laid_on(picture, shown) - shown
        before = whole if len(rows) == n else _nearest(shown, k, run)
        kept[r, rows] = _overlaps(before, _nearest(picture, k, run))
        survival[r] = _best_jaccard(labels[rows], picture_clusters(picture), count)
    extent = np.sqrt(np.mean(np.square(Y - Y.mean(axis=0)).sum(axis=1))) or 1.0
    away = np.square(moves - np.nanmean(moves, axis=0)).sum(axis=2)
    spread = np.where(np.isfinite(away[1:]).any(axis=0), np.sqrt(np.nanmean(away, axis=0)) / extent, np.nan)
    return Refits(len(refits), spread, _mean(kept), _mean(survival), note)


def _mean(values: FloatArray) -> FloatArray:
    """Return the means of the columns over their known entries, NaN where there are none."""
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    return np.where(counts, np.where(known, values, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _laid_on(picture: FloatArray, shown: FloatArray) -> FloatArray:
    """Return the picture at the size of the shown one, on which it is laid by rotation or reflection and shift."""
    if np.array_equal(picture, shown):
        return picture
    centered = picture - picture.mean(axis=0)
    size = float(np.linalg.norm(centered))
    scaled = centered * (float(np.linalg.norm(shown - shown.mean(axis=0))) / size if size > 0 else 1.0)
    return rigid_fit(scaled, shown)(scaled)


def _nearest(Y: FloatArray, k: int, run: Run) -> IntArray:
    return neighbor_graph(Y, NeighborRule(k), run)[0].indices.reshape(len(Y), k)


def _overlaps(before: IntArray, after: IntArray) -> FloatArray:
    """Return the share of each point's neighbors in one list that are in the other."""
    both = np.sort(np.hstack([before, after]), axis=1)
    return np.sum(both[:, 1:] == both[:, :-1], axis=1) / before.shape[1]


def _best_jaccard(labels: IntArray, found: IntArray, count: int) -> FloatArray:
    """Return for each cluster the largest Jaccard similarity with one of those found; NaN for one without points."""
    if found.max() < 0:
        return np.where(np.bincount(labels[labels >= 0], minlength=count) > 0, 0.0, np.nan)
    table = np.zeros((count, int(found.max()) + 1))
    inside = labels >= 0
    np.add.at(table, (labels[inside], found[inside]), 1)
    sizes, others = table.sum(axis=1, keepdims=True), np.bincount(found)
    return np.where(sizes[:, 0] > 0, (table / np.maximum(1, sizes + others - table)).max(axis=1), np.nan)
