"""Several methods on one shared graph, ranked for a purpose within a budget of seconds, with reasons."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry._core import check
from manifoldry._core.registry import list_methods as registered
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.scales import dominating_columns
from manifoldry.data._chunked import entries_of, in_blocks, row_blocks, some_rows
from manifoldry.evaluation.dimension import Consensus, consensus
from manifoldry.evaluation.reliability._null_comparison import MIN_JUDGED_POINTS, null_comparison
from manifoldry.evaluation.selection._candidates import (
    Candidate,
    Clock,
    baseline_name,
    candidates,
    checked_methods,
    growth,
    refusal,
)
from manifoldry.evaluation.selection._comparison import ComparedMethod, Comparison, SkippedMethod
from manifoldry.evaluation.selection._evaluate import (
    N_DENSITY_NEIGHBORS,
    Fold,
    LayoutJudge,
    accuracies,
    density_peaks,
    folds,
    reconstruction,
)
from manifoldry.evaluation.selection._input import checked_input, is_precomputed, some_points
from manifoldry.evaluation.selection._neighbors import suggest_neighbors
from manifoldry.evaluation.selection._objectives import SIMPLICITY, Purpose, purpose_of, simplest_first
from manifoldry.evaluation.selection._reasons import (
    DataFacts,
    bridge_verdict,
    cluster_verdict,
    reasons,
    scale_verdict,
    verdicts,
)
from manifoldry.graph._search import shared_neighbors
from manifoldry.methods._base._advice import problems

MAX_RANKED_ROWS, N_RANKED_ROWS = 10_000, 5_000
"""With more rows than the first, a sample of the second size ranks methods as well as all rows do, in seconds each."""
WIDEST_SHARED_LIST = 91
"""Neighbors of the one search: as many as t-SNE takes at its usual perplexity of 30."""
RANKING_SHARE = 0.6
"""Share of the budget for the ranking where the best is to be fitted to more rows afterwards."""
FIT_ERRORS = (ValueError, MemoryError, ArithmeticError, np.linalg.LinAlgError)
"""What a method may raise on data that it cannot embed."""


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
    X : array, data frame, sparse matrix or rows in blocks of shape (n, p), or array (n, n) for precomputed distances
        The data. Of more than 10,000 points, 5,000 are drawn to rank by, and the best is then fitted to all if the
        budget allows; of rows in blocks 5,000 are drawn, and that is all.
    purpose : str
        "keep distances", "keep neighbors", "see clusters", "order along a path", "features for a classifier" or
        "reconstruct".
    budget : float, optional
        Seconds. A method is not begun if it would take more than is left, as far as fits to some hundred rows tell, and
        a running one is asked to stop when nothing is left. None for no clock: the methods of the purpose that are fast
        enough for that many points, however long they take, and always the same result.
    labels : array-like of shape (n,), optional
        Classes, by which "see clusters" and "features for a classifier" are judged, or numbers that "order along a
        path" should follow.
    methods : list of str or estimators, optional
        Methods instead of those of the purpose; PCA is always among them. An estimator keeps its settings; a second
        one of a class is called "Isomap 2".
    n_components : int, optional
        Target dimension; 2 if None, for the order along a path 1.
    metric : str or callable
        As in scikit-learn, or "precomputed".
    random_state : None, int, numpy Generator or RandomState
        Seed of all fits and samples.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it, but what a budget allows does.
    callback : callable, optional
        Hears the steps of all fits, a `Progress` each; a true answer ends the comparison with the methods done so far.

    Returns
    -------
    Comparison
        With ``ranking``, ``best``, ``skipped``, ``verdicts``, ``table`` and ``embeddings``; ``print`` shows a report.

    Examples
    --------
    >>> from manifoldry import datasets
    >>> found = compare(datasets.swiss_roll(300).X, "keep distances", None, methods=["Isomap"])
    >>> list(found.embeddings)
    ['Isomap', 'PCA']
    """
    chosen = purpose_of(purpose, labels is not None)
    if budget is not None:
        budget = check.number("budget", budget, 0.0, open_low=True)
    run = Run(random_state, n_jobs, callback=callback)
    X = row_blocks(X) if in_blocks(X) else X
    sample, names = some_rows(X, N_RANKED_ROWS, run, metric), getattr(X, "columns", None)
    if sample is not None:
        names = X.feature_names
        X, labels = sample.rows, entries_of(labels, sample, "labels")
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
    """What is to be compared: checked points and labels, purpose, methods, dimension, metric, names of columns."""

    X: Any
    purpose: Purpose
    labels: Array | None
    methods: list[Any]
    n_components: int
    metric: Any
    names: Sequence[str] | None = None


def target_dimension(purpose: Purpose, n_components: int | None, n: int) -> int:
    """Return the dimension asked for, or that of the purpose; or refuse it."""
    d = check.n_components(purpose.n_components if n_components is None else n_components, n)
    if purpose.name == "order along a path" and d != 1:
        raise ValueError(f"An order along a path is one coordinate; got n_components={d}: pass n_components=1.")
    return d


def checked_labels(labels: Any, n: int) -> Array | None:
    """Return labels as an array with an entry per point, or refuse them."""
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
    """Return the ranking of a task; ``run`` has the seed, and hears of every method that is done."""
    n = task.X.shape[0]
    sampled = n > MAX_RANKED_ROWS
    rows = ranked_rows(n, run)
    part = replace(task, X=some_points(task.X, rows, task.metric), labels=_some(task.labels, rows)) if sampled else task
    ranking_clock = Clock(RANKING_SHARE * clock.budget) if sampled and clock.budget is not None else clock
    with shared_neighbors(WIDEST_SHARED_LIST):
        found = _ranked(part, ranking_clock, run, rows, n)
    return _fitted_to_all(found, task, clock) if sampled else found


def ranked_rows(n: int, run: Run) -> IntArray:
    """Return the rows that methods are ranked by: all, or of many a sample."""
    if n <= MAX_RANKED_ROWS:
        return np.arange(n)
    return np.sort(run.rng("ranked rows").permutation(n)[:N_RANKED_ROWS])


def _some(labels: Array | None, rows: IntArray) -> Array | None:
    return None if labels is None else labels[rows]


def _ranked(task: ComparisonTask, clock: Clock, run: Run, rows: IntArray, n_points: int) -> Comparison:
    suggestion = suggest_neighbors(task.X, metric=task.metric, random_state=0, n_jobs=run.n_jobs)
    judge = LayoutJudge(task.X, task.metric, int(suggestion), task.labels, Run(0, run.n_jobs))
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
    for place, candidate in enumerate(tried):
        reason = "the fit was asked to stop" if run.stopped else _refused(candidate, task, clock, place)
        entry = SkippedMethod(candidate.name, reason) if reason else _fitted(candidate, task, judge, seed)
        if isinstance(entry, SkippedMethod):
            skipped.append(entry)
        else:
            entries.append((candidate, entry))
            run.step(place + 1, len(tried), candidate.name)
    if not entries:
        told = "; ".join(f"{each.name}: {each.reason}" for each in skipped)
        raise ValueError(f"No method could be fitted: {told}")
    effort = [_effort(candidate, entry, task.metric) for candidate, entry in entries]
    order = simplest_first(task.purpose.criteria, [entry.score for _, entry in entries], effort)
    ranking = [entries[i] for i in order]
    figures = [(replace(candidate.card, name=candidate.name), entry.score) for candidate, entry in ranking]
    explained = (
        replace(entry, reasons=reasons(task.purpose, figures, place)) for place, (_, entry) in enumerate(ranking)
    )
    said = [
        *scale_verdict(dominating_columns(task.X, task.metric), task.names),
        *verdicts(task.purpose, figures, _facts(task, judge, seed, run)),
        *_clusters_seen(task, ranking[0][1], clock, run),
        *bridge_verdict(len(judge.bridges), int(suggestion)),
    ]
    return Comparison(task.purpose, tuple(explained), tuple(skipped), tuple(said), int(suggestion), rows, n_points)


def _stopping(clock: Clock, run: Run) -> Callable[..., Any] | None:
    """Return the callback of the fits: it asks to stop when no time is left, or when the caller's own has."""
    if clock.budget is None and run.callback is None:
        return None
    return lambda progress: clock.over(progress) or bool(run.callback is not None and run.callback(progress))


def _refused(candidate: Candidate, task: ComparisonTask, clock: Clock, place: int) -> str:
    """Return why a candidate is not run; the baseline, which is the first, always is."""
    n_fits = 4 if task.purpose.needs else 1
    if place == 0:
        return ""
    try:
        return refusal(candidate.card, candidate.model, task.X, clock, n_fits)
    except FIT_ERRORS as error:
        return f"it failed on some of the points: {error}"


def _fitted(
    candidate: Candidate, task: ComparisonTask, judge: LayoutJudge, seed: int
) -> ComparedMethod | SkippedMethod:
    """Return a candidate fitted and judged, or why it could not be."""
    began, model = time.perf_counter(), candidate.model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice is kept with the entry
        try:
            model.fit(task.X)
            seconds = time.perf_counter() - began
            figures = judge.figures(model.embedding_)
            figures |= _held_out(candidate, task, seed)
        except FIT_ERRORS as error:
            return SkippedMethod(candidate.name, f"it failed: {error}")
    if "callback" in model.get_params():
        model.set_params(callback=None)
    return ComparedMethod(
        candidate.name,
        model,
        model.embedding_,
        figures,
        seconds,
        warnings=_warnings(model),
    )


def _held_out(candidate: Candidate, task: ComparisonTask, seed: int) -> dict[str, float]:
    """Return the figures by rows left out of the fit, if the purpose has any."""
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
    advice = list(problems(model))[("dominating_columns" in diagnostics) :]  # that is a verdict, said once for all
    if diagnostics.get("stopped"):
        advice.insert(0, "It was stopped when the budget was used up: more time would improve it.")
    return tuple(dict.fromkeys(advice))


def _effort(candidate: Candidate, entry: ComparedMethod, metric: Any) -> tuple[int, ...]:
    """Return what decides between equal methods: warnings, then whether it is the baseline, then the family."""
    warned = any(sentence in entry.warnings for sentence in problems(candidate.model))
    plain = candidate.card.name == baseline_name(metric)
    return int(warned), int(not plain), SIMPLICITY.index(candidate.card.family)


def _facts(task: ComparisonTask, judge: LayoutJudge, seed: int, run: Run) -> DataFacts:
    """Return what is known of the data beside the figures of the embeddings, as far as the purpose needs it."""
    dimension, columns, n_groups = float(intrinsic_dimension(task.X, task.metric).value), {}, None
    if task.purpose.name == "see clusters":
        n_groups = density_peaks(judge.nearest(N_DENSITY_NEIGHBORS), dimension).n_groups
    if task.purpose.name == "features for a classifier" and task.labels is not None:
        columns = accuracies(None, task.X, task.labels, folds(task.X.shape[0], task.labels, seed))
    return DataFacts(baseline_name(task.metric), dimension, n_groups, columns, _consensus(task, run))


def _consensus(task: ComparisonTask, run: Run) -> Consensus | None:
    """Return what the estimators of the dimension say together, as a diagnosis does, if that can be told."""
    try:
        return consensus(task.X, metric=task.metric, random_state=run.seed, n_jobs=run.n_jobs)
    except ValueError:
        return None


def _clusters_seen(task: ComparisonTask, best: ComparedMethod, clock: Clock, run: Run) -> list[str]:
    """Return whether clusters of the best picture are in the data, by fits to structureless data, if time allows."""
    plain = not issparse(task.X) and isinstance(task.metric, str) and task.metric == "euclidean"
    if task.purpose.name != "see clusters" or not plain or task.X.shape[0] < MIN_JUDGED_POINTS or run.stopped:
        return []
    if 2 * best.seconds > clock.left:  # one Gaussian set and one cube
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = null_comparison(best.estimator, task.X, n_nulls=1, random_state=0, n_jobs=run.n_jobs)
        except FIT_ERRORS:
            return []
    return [cluster_verdict(best.name, found)]


def _fitted_to_all(found: Comparison, task: ComparisonTask, clock: Clock) -> Comparison:
    """Return the comparison with its best method fitted to all rows, if there is time for that."""
    best = found.best
    card = next(each for each in registered() if each.cls is type(best.estimator))
    n, m = task.X.shape[0], len(found.rows)
    seconds = best.seconds * (n / m) ** growth(card)
    said = f"The ranking is by {m:,} of the {n:,} points"
    if clock.budget is not None and seconds > clock.left:
        said += (
            f"; fitting {best.name} to all would take about {seconds:.0f} s, and {max(clock.left, 0):.0f} s were left: "
            "best.estimator.transform places the others."
        )
        return replace(found, verdicts=(*found.verdicts, said))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = clone(best.estimator).fit(task.X)
    said += f"; best.estimator, {best.name}, is fitted to all of them."
    ranking = (replace(best, estimator=whole), *found.ranking[1:])
    return replace(found, ranking=ranking, verdicts=(*found.verdicts, said))
