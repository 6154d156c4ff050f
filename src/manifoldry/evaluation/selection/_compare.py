"""Several methods on one shared graph, ranked for a purpose within a time budget; as a function and as an estimator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry._core import check
from manifoldry._core.parameters import Described, Positive, PositiveInt, parameter
from manifoldry._core.registry import list_methods as registered
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.scales import column_labels, dominating_columns
from manifoldry.data._chunked import chunked_data, is_chunked, sample_of_chunked, sampled_entries
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation._input import MIN_POINTS_CHOSEN, checked_input, is_precomputed, random_rows, some_points
from manifoldry.evaluation.dimension import Consensus, consensus
from manifoldry.evaluation.reliability._null_comparison import MIN_COMPARED_POINTS, null_comparison
from manifoldry.evaluation.selection._comparison import ComparedMethod, Comparison, DataFacts, reasons, verdicts
from manifoldry.evaluation.selection._evaluate import (
    N_DENSITY_NEIGHBORS,
    Fold,
    LayoutEvaluator,
    accuracies,
    folds,
    n_dense_groups,
    reconstruction,
)
from manifoldry.evaluation.selection._neighbors import suggest_neighbors
from manifoldry.evaluation.selection._objectives import (
    PURPOSES,
    SIMPLICITY,
    Candidate,
    Clock,
    Purpose,
    SkippedMethod,
    baseline_name,
    candidates,
    checked_methods,
    growth,
    purpose_of,
    simplest_first,
    skip_reason,
)
from manifoldry.graph._search import shared_neighbors
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._checks import problems
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT

MAX_RANKED_ROWS, N_RANKED_ROWS = 10_000, 5_000  # with more rows a sample ranks methods equally well
WIDEST_SHARED_LIST = 91  # neighbors of the shared search: as many as t-SNE needs at a perplexity of 30
RANKING_SHARE = 0.6  # share of the budget for the ranking where the best method is fitted to more rows afterwards
FIT_ERRORS = (ValueError, MemoryError, ArithmeticError, np.linalg.LinAlgError)  # on data that a method cannot embed


@documented(DATA_TEXTS)
def compare(  # noqa: PLR0913
    X: Any,
    purpose: str = "keep neighbors",
    budget: float | None = 60.0,
    *,
    labels: Any = None,
    methods: Sequence[Any] | None = None,
    n_components: int | None = None,
    metric: Any = "euclidean",
    random_state: Any = 0,
    n_jobs: int | None = None,
    callback: Callable[..., Any] | None = None,
) -> Comparison:
    """Fit several methods to the same data, rank them for a purpose, and say why.

    Parameters
    ----------
    X : array, data frame, sparse matrix or chunked data of shape (n, p), or array (n, n) for precomputed distances
        The data. With more than 10,000 points, a random sample of 5,000 is ranked, and the best method is then fitted
        to all if the budget allows. With chunked data, 5,000 rows are drawn and only these are used.
    purpose : str
        "keep distances", "keep neighbors", "see clusters", "order along a path", "features for a classifier" or
        "reconstruct".
    budget : float, optional
        Seconds. A method is not started if it would take more than is left, estimated from fits to a few hundred rows,
        and a running one is stopped when no time is left. None for no limit: all methods of the purpose that are fast
        enough for that many points are run, and the result is reproducible.
    labels : array-like of shape (n,), optional
        Classes for the evaluation of "see clusters" and "features for a classifier", or numbers that "order along a
        path" should follow.
    methods : list of str or estimators, optional
        Methods instead of those of the purpose; PCA is always among them. An estimator keeps its settings; a second
        one of a class is called "Isomap 2".
    n_components : int, optional
        Target dimension; 2 if None, for the order along a path 1.
    n_jobs : int, optional
        Number of threads, None for all; the result depends on it only through the budget.
    callback : callable, optional
        Called with a `Progress` at each step of all fits; a true return value ends the comparison with the methods so
        far.

    Returns
    -------
    Comparison
        With ``ranking``, ``best``, ``skipped``, ``verdicts``, ``table`` and ``embeddings``; ``print`` shows a report.

    Examples
    --------
    >>> from manifoldry import datasets
    >>> comparison = compare(datasets.swiss_roll(300).X, "keep distances", None, methods=["Isomap"])
    >>> list(comparison.embeddings)
    ['Isomap', 'PCA']
    """
    chosen = purpose_of(purpose, labels is not None)
    if budget is not None:
        budget = check.number("budget", budget, 0.0, open_low=True)
    run = Run(random_state, n_jobs, callback=callback)
    X = chunked_data(X) if is_chunked(X) else X
    sample, names = sample_of_chunked(X, N_RANKED_ROWS, run, metric), getattr(X, "columns", None)
    if sample is not None:
        names = X.feature_names
        X, labels = sample.rows, sampled_entries(labels, sample, "labels")
    points = checked_input(X, metric)
    d = target_dimension(chosen, n_components, points.shape[0])
    labels = checked_labels(labels, points.shape[0])
    task = ComparisonTask(points, chosen, labels, checked_methods(methods, chosen), d, metric, names)
    if sample is None:
        return run_comparison(task, Clock(budget), run)
    with shared_neighbors(WIDEST_SHARED_LIST):
        return _ranked(task, Clock(budget), run, sample.numbers, sample.n_rows)


@dataclass(frozen=True)
class ComparisonTask:
    """Valid points and labels, purpose, methods, dimension, metric and names of columns of a comparison."""

    X: Any
    purpose: Purpose
    labels: Array | None
    methods: list[Any]
    n_components: int
    metric: Any
    names: Sequence[str] | None = None


def target_dimension(purpose: Purpose, n_components: int | None, n: int) -> int:
    """Return the valid number of components, by default that of the purpose."""
    d = check.n_components(purpose.n_components if n_components is None else n_components, n)
    if purpose.name == "order along a path" and d != 1:
        raise ValueError(f"An order along a path is one coordinate; got n_components={d}: pass n_components=1.")
    return d


def checked_labels(labels: Any, n: int) -> Array | None:
    """Return labels as a valid array with an entry per point."""
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.shape != (n,):
        raise ValueError(f"labels must have one entry for each of the {n} points; got shape {values.shape}.")
    if any(value is None or value != value for value in values.tolist()):
        raise ValueError("labels must be known for every point; got None or NaN: pass the rows that have one.")
    if len(np.unique(values)) < 2:
        raise ValueError("labels must name at least two classes; all of them are the same: leave them out.")
    return values


def run_comparison(task: ComparisonTask, clock: Clock, run: Run) -> Comparison:
    """Return the ranking of a task; ``run`` has the seed and reports every finished method."""
    n = task.X.shape[0]
    sampled = n > MAX_RANKED_ROWS
    rows = ranked_rows(n, run)
    part = task
    if sampled:
        labels = None if task.labels is None else task.labels[rows]
        part = replace(task, X=some_points(task.X, rows, task.metric), labels=labels)
    ranking_clock = Clock(RANKING_SHARE * clock.budget) if sampled and clock.budget is not None else clock
    with shared_neighbors(WIDEST_SHARED_LIST):
        comparison = _ranked(part, ranking_clock, run, rows, n)
    return _fitted_to_all(comparison, task, clock) if sampled else comparison


def ranked_rows(n: int, run: Run) -> IntArray:
    """Return the rows that methods are ranked on: all, or a sample of many."""
    if n <= MAX_RANKED_ROWS:
        return np.arange(n)
    return random_rows(n, N_RANKED_ROWS, run.rng("ranked rows"))


def _ranked(task: ComparisonTask, clock: Clock, run: Run, rows: IntArray, n_points: int) -> Comparison:
    suggestion = suggest_neighbors(task.X, metric=task.metric, random_state=0, n_jobs=run.n_jobs)
    evaluator = LayoutEvaluator(task.X, task.metric, int(suggestion), task.labels, Run(0, run.n_jobs))
    seed = int(run.rng("compared fits").integers(2**31 - 1))
    settings = {
        "n_components": task.n_components,
        "metric": task.metric,
        "n_neighbors": int(suggestion),
        "random_state": seed,
        "n_jobs": run.n_jobs,
        "callback": _stopping(clock, run),
    }
    tried, skipped = candidates(task.methods, task.purpose, task.X, settings)
    entries: list[tuple[Candidate, ComparedMethod]] = []
    for position, candidate in enumerate(tried):
        reason = "the fit was asked to stop" if run.stopped else _skip_reason(candidate, task, clock, position)
        entry = SkippedMethod(candidate.name, reason) if reason else _fitted(candidate, task, evaluator, seed)
        if isinstance(entry, SkippedMethod):
            skipped.append(entry)
        else:
            entries.append((candidate, entry))
            run.step(position + 1, len(tried), candidate.name)
    if not entries:
        reasons_text = "; ".join(f"{each.name}: {each.reason}" for each in skipped)
        raise ValueError(f"No method could be fitted: {reasons_text}")
    effort = [_effort(candidate, entry, task.metric) for candidate, entry in entries]
    order = simplest_first(task.purpose.criteria, [entry.score for _, entry in entries], effort)
    ranking = [entries[i] for i in order]
    figures = [(replace(candidate.card, name=candidate.name), entry.score) for candidate, entry in ranking]
    explained = (
        replace(entry, reasons=reasons(task.purpose, figures, position)) for position, (_, entry) in enumerate(ranking)
    )
    texts = verdicts(task.purpose, figures, _facts(task, evaluator, seed, run))
    texts = [*_scale_verdict(task), *texts, *_cluster_evidence(task, ranking[0][1], clock, run)]
    if len(evaluator.bridges):
        n_components = len(evaluator.bridges) + 1
        texts.append(
            f"The graph of {int(suggestion)} neighbors has {n_components} connected components, which were joined by "
            "shortest bridges."
        )
    return Comparison(task.purpose, tuple(explained), tuple(skipped), tuple(texts), int(suggestion), rows, n_points)


def _stopping(clock: Clock, run: Run) -> Callable[..., Any] | None:
    """Return the callback of the fits: it stops them when no time is left, or when the caller's callback does."""
    if clock.budget is None and run.callback is None:
        return None
    return lambda progress: clock.over(progress) or bool(run.callback is not None and run.callback(progress))


def _skip_reason(candidate: Candidate, task: ComparisonTask, clock: Clock, position: int) -> str:
    """Return why a candidate is not run; the baseline, which comes first, always is."""
    n_fits = 4 if task.purpose.needs else 1
    if position == 0:
        return ""
    try:
        return skip_reason(candidate.card, candidate.model, task.X, clock, n_fits)
    except FIT_ERRORS as error:
        return f"it failed on a sample of the points: {error}"


def _fitted(
    candidate: Candidate, task: ComparisonTask, evaluator: LayoutEvaluator, seed: int
) -> ComparedMethod | SkippedMethod:
    """Return a candidate fitted and evaluated, or why that failed."""
    began, model = time.perf_counter(), candidate.model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice is stored in the entry
        try:
            model.fit(task.X)
            seconds = time.perf_counter() - began
            metrics = evaluator.metrics(model.embedding_)
            metrics |= _held_out(candidate, task, seed)
        except FIT_ERRORS as error:
            return SkippedMethod(candidate.name, f"it failed: {error}")
    if "callback" in model.get_params():
        model.set_params(callback=None)
    return ComparedMethod(candidate.name, model, model.embedding_, metrics, seconds, warnings=_warnings(model))


def _held_out(candidate: Candidate, task: ComparisonTask, seed: int) -> dict[str, float]:
    """Return the metrics on held-out rows, if the purpose has any."""
    if not task.purpose.needs or is_precomputed(task.metric):
        return {}
    parts: list[Fold] = folds(task.X.shape[0], task.labels, seed)
    if task.purpose.name == "reconstruct":
        return reconstruction(candidate.model, task.X, parts)
    assert task.labels is not None
    return accuracies(candidate.model, task.X, task.labels, parts)


def _warnings(model: Any) -> tuple[str, ...]:
    """Return the findings of the fit, without certificates, and without scales, which are reported once for all."""
    diagnostics = getattr(model, "diagnostics_", {})
    advice = list(problems(model))[("dominating_columns" in diagnostics) :]  # that is a verdict on the data
    if diagnostics.get("stopped"):
        advice.insert(0, "It was stopped when the budget was used up: more time would improve it.")
    return tuple(dict.fromkeys(advice))


def _effort(candidate: Candidate, entry: ComparedMethod, metric: Any) -> tuple[int, ...]:
    """Return what decides between equal methods: warnings, then whether it is the baseline, then the family."""
    warned = any(sentence in entry.warnings for sentence in problems(candidate.model))
    plain = candidate.card.name == baseline_name(metric)
    return int(warned), int(not plain), SIMPLICITY.index(candidate.card.family)


def _facts(task: ComparisonTask, evaluator: LayoutEvaluator, seed: int, run: Run) -> DataFacts:
    """Return properties of the data that the purpose needs, in addition to the metrics of the embeddings."""
    dimension, columns, n_groups = float(intrinsic_dimension(task.X, task.metric).value), {}, None
    if task.purpose.name == "see clusters":
        n_groups = n_dense_groups(evaluator.nearest(N_DENSITY_NEIGHBORS), dimension)
    if task.purpose.name == "features for a classifier" and task.labels is not None:
        columns = accuracies(None, task.X, task.labels, folds(task.X.shape[0], task.labels, seed))
    return DataFacts(baseline_name(task.metric), dimension, n_groups, columns, _consensus(task, run))


def _consensus(task: ComparisonTask, run: Run) -> Consensus | None:
    """Return the consensus of the dimension estimators, as in a diagnosis; None if there is none."""
    try:
        return consensus(task.X, metric=task.metric, random_state=run.seed, n_jobs=run.n_jobs)
    except ValueError:
        return None


def _scale_verdict(task: ComparisonTask) -> list[str]:
    """Report that a few columns dominate all distances, with their names, and what to do about it."""
    dominating = dominating_columns(task.X, task.metric)
    if dominating is None:
        return []
    text = dominating.sentence(None if task.names is None else column_labels(task.names)).rstrip(".")
    return [
        f"{text}, so all methods show little else: compare scaled columns, as with "
        "StandardScaler().fit_transform(X), unless all have the same unit."
    ]


def _cluster_evidence(task: ComparisonTask, best: ComparedMethod, clock: Clock, run: Run) -> list[str]:
    """Return whether clusters of the best picture are in the data, by fits to null data, if time allows."""
    plain = not issparse(task.X) and isinstance(task.metric, str) and task.metric == "euclidean"
    if task.purpose.name != "see clusters" or not plain or task.X.shape[0] < MIN_COMPARED_POINTS or run.stopped:
        return []
    if 2 * best.seconds > clock.left:  # one Gaussian set and one cube
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = null_comparison(best.estimator, task.X, n_nulls=1, random_state=0, n_jobs=run.n_jobs)
        except FIT_ERRORS:
            return []
    text = f"In the picture by {best.name}: {result.sentence}"
    return [text if len(result.real) else f"{text} There is no evidence of clusters in the data."]


def _fitted_to_all(comparison: Comparison, task: ComparisonTask, clock: Clock) -> Comparison:
    """Return the comparison with its best method fitted to all rows, if there is time for that."""
    best = comparison.best
    card = next(card_ for card_ in registered() if card_.cls is type(best.estimator))
    n, m = task.X.shape[0], len(comparison.rows)
    seconds = best.seconds * (n / m) ** growth(card)
    text = f"The ranking is based on {m:,} of the {n:,} points"
    if clock.budget is not None and seconds > clock.left:
        text += (
            f"; fitting {best.name} to all would take about {seconds:.0f} s, and {max(clock.left, 0):.0f} s were left: "
            "best.estimator.transform embeds the others."
        )
        return replace(comparison, verdicts=(*comparison.verdicts, text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(best.estimator).fit(task.X)
    text += f"; best.estimator, {best.name}, is fitted to all of them."
    ranking = (replace(best, estimator=fitted), *comparison.ranking[1:])
    return replace(comparison, ranking=ranking, verdicts=(*comparison.verdicts, text))


PurposeName = Literal[
    "keep distances", "keep neighbors", "see clusters", "order along a path", "features for a classifier", "reconstruct"
]
LABEL_PURPOSES = ("see clusters", "features for a classifier")  # use the targets of a fit as labels


@estimator
class AutoEmbedding(Embedder):
    """Fit several methods and keep the best for a stated purpose, as `compare` ranks them.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates by the best method.
    best_estimator_ : estimator
        The best method, fitted.
    comparison_ : Comparison
        The ranking with metrics and reasons, all fitted methods, and what was left out.
    diagnostics_ : dict
        Seconds, ``method`` (the name of the best), ``n_neighbors`` of the shared graph, and ``reasons`` in sentences.

    Notes
    -----
    `transform` and `inverse_transform` are those of the best method. Targets given to `fit` are the labels of the
    purposes "see clusters" and "features for a classifier", which needs them; other purposes ignore them.

    Examples
    --------
    >>> from manifoldry import AutoEmbedding, datasets
    >>> roll = datasets.swiss_roll(300)
    >>> model = AutoEmbedding(purpose="keep distances", methods=["Isomap", "LTSA"]).fit(roll.X)
    >>> model.embedding_.shape, model.transform(roll.X[:5]).shape
    ((300, 2), (5, 2))
    """

    n_components: PositiveInt = parameter(
        'Dimension of the embedding; 1 for the purpose "order along a path".', default=2, kw_only=False
    )
    purpose: PurposeName = parameter("What the embedding is for.", default="keep neighbors")
    budget: Positive | None = parameter(
        "Maximum seconds for all fits. None sets no limit; only then does a seed give bit-identical results.",
        default=None,
    )
    methods: Annotated[Any, Described("a list of names or estimators")] | None = parameter(
        "Methods to compare; None uses those of the purpose. PCA is always among them.", default=None
    )
    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")

    best_estimator_: Any = fitted()
    comparison_: Comparison = fitted()

    _invertible = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.enough_points(n_points, MIN_POINTS_CHOSEN)
        purpose = PURPOSES[self.purpose]
        target_dimension(purpose, self.n_components, n_points)
        checked_methods(self.methods, purpose)

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        labels = self._labels(y, X.shape[0])
        purpose = purpose_of(self.purpose, labels is not None)
        methods = checked_methods(self.methods, purpose)
        names = getattr(self, "feature_names_in_", None)
        task = ComparisonTask(X, purpose, labels, methods, self.n_components, self.metric, names)
        with run.stage("compare"):
            comparison = run_comparison(task, Clock(self.budget), run)
            best = comparison.best.estimator
            coordinates = best.embedding_ if len(best.embedding_) == X.shape[0] else best.transform(X)
        return Embedding(
            coordinates,
            extension=BestMap(best),
            inverse=BestInverse(best) if hasattr(best, "inverse_transform") else None,
            notes={
                "method": comparison.best.name,
                "n_neighbors": comparison.n_neighbors,
                "reasons": (*comparison.verdicts, *comparison.best.reasons, *comparison.best.warnings),
            },
            fitted={"best_estimator_": best, "comparison_": comparison},
        )

    def _labels(self, y: Any, n_points: int) -> Array | None:
        """Return the targets as labels, for the purposes that are evaluated with them."""
        if y is None or self.purpose not in LABEL_PURPOSES or len(np.unique(y)) < 2:
            return None
        return checked_labels(y, n_points)


@dataclass(frozen=True)
class BestMap:
    """New points to the coordinates of the best method."""

    model: Any

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return coordinates (n_new, n_components)."""
        coordinates: FloatArray = self.model.transform(X)
        return coordinates


@dataclass(frozen=True)
class BestInverse:
    """Coordinates of the best method back to points."""

    model: Any

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return points (n_new, n_features)."""
        points: FloatArray = self.model.inverse_transform(Y)
        return points
