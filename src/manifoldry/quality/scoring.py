"""The score: every measure of an embedding in one call, beside those of principal components."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry import check
from manifoldry.neighbors.pairwise import as_pair, as_points, sample_rows
from manifoldry.quality.correlation import jackknife_error
from manifoldry.quality.distances import scale_and_deviation, squared_ratios
from manifoldry.quality.fit import FITS, procrustes
from manifoldry.quality.jackknife import group_jackknife_errors
from manifoldry.quality.labels import Labeled, label_rows, read_labels
from manifoldry.quality.ranks import (
    NeighborRanks,
    nearness,
    neighbor_ranks,
    relative_error,
    require_below_half,
    share_kept,
)
from manifoldry.quality.table import TABLE, Score
from manifoldry.run import Run
from manifoldry.solve.scaling import classical_scaling
from manifoldry.values import FloatArray, IntArray

MAX_SCORED_POINTS = 3000
"""Points up to which a score uses all of them by default: a second or two."""

N_SCORED_POINTS = 1000
"""Points sampled beyond: each is compared with all others, and a share comes with a standard error below 0.016."""

Figures = dict[str, tuple[float, float]]
"""Value and standard error by name."""


@dataclass(frozen=True)
class Task:
    """What is scored: the data, where it is sampled, and what is asked for."""

    X: Any
    metric: str
    rows: IntArray
    n_neighbors: int
    truth: FloatArray | None
    known: Labeled | None
    wanted: frozenset[str]
    run: Run


def score(  # noqa: PLR0913
    X: Any,
    Y: Any,
    labels: Any = None,
    truth: Any = None,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | str | None = "auto",
    figures: Collection[str] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Score:
    """Return the quality measures of an embedding, and those of PCA beside them; printed, they are a table.

    For any embedding, also one made by another library.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding, compared by Euclidean distance.
    labels : array-like of shape (n,), optional
        Classes, numbers or strings; adds neighborhood_hit, label_accuracy and silhouette. None and NaN mark points
        without a label, which these leave out.
    truth : array-like of shape (n, q), optional
        Known coordinates; adds the three Procrustes errors, over all points.
    n_neighbors : int
        Number of neighbors, below n / 2.
    metric : str
        Metric of X, as in scikit-learn.
    sample : int, "auto" or None
        Number of points whose neighborhoods and distances are compared, each with all n points; None for all. "auto"
        is all up to 3,000 points and 1,000 beyond.
    figures : collection of str, optional
        Names of the figures to compute, of `quality.table.TABLE`; all by default.
    random_state : None, int, numpy Generator or RandomState
        Seed of the sample.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Returns
    -------
    Score
        A dict of str to float, in groups: neighbors, distances, labels, truth, and units: those that only say
        something about an embedding in the units of X. ``errors`` has the standard errors of the sample, ``pca`` the
        same figures of the first p principal components (of the classical scaling of precomputed distances).
        ``to_frame()`` and ``to_dict()`` add the range, best value and meaning of each.

    Notes
    -----
    Figures that the data do not define (all neighbors are duplicates) are NaN. Standard errors are those of samples
    without repeats, by the jackknife over the sampled points.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> found = score(X, X, n_neighbors=5)
    >>> found["trustworthiness"], round(found.pca["trustworthiness"], 12), found.errors["trustworthiness"]
    (1.0, 1.0, 0.0)
    """
    X, Y = as_pair(X, Y, metric)
    n, p = Y.shape
    k = check.integer("n_neighbors", n_neighbors, 1)
    require_below_half(k, n)
    rows = sample_rows(n, _sample_size(sample, n), random_state)
    known = None if labels is None else read_labels(labels, n)
    truth = None if truth is None else as_points("truth", truth)
    task = Task(
        X,
        metric,
        rows,
        k,
        truth,
        known,
        _wanted(figures, known is not None, truth is not None),
        Run(random_state, n_jobs),
    )
    ours, pca = (_figures(task, layout) for layout in (Y, _baseline(X, p, metric, task.run)))
    values, baseline = ({name: figure[0] for name, figure in found.items()} for found in (ours, pca))
    return Score(values, baseline, {name: figure[1] for name, figure in ours.items()}, _heading(rows, Y, k))


def _figures(task: Task, Y: FloatArray) -> Figures:
    """Return the figures of one layout."""
    found = _rank_figures(task, Y)
    if task.known is not None:
        found |= _label_figures(task, task.known, Y)
    if task.truth is not None:
        found |= {f"procrustes_{kind}": (procrustes(Y, task.truth, kind=kind).error, 0.0) for kind in FITS}
    return {name: figure for name, figure in found.items() if name in task.wanted}


def _rank_figures(task: Task, Y: FloatArray) -> Figures:
    n = len(Y)
    found = neighbor_ranks(task.X, Y, task.rows, task.n_neighbors, metric=task.metric, n_jobs=task.run.n_jobs)
    columns = {
        "trustworthiness": nearness(n, found.y_in_x),
        "continuity": nearness(n, found.x_in_y),
        "knn_kept": share_kept(found.x_in_y),
        "mrre_x": relative_error(n, found.x_in_y),
        "mrre_y": relative_error(n, found.y_in_x),
    }
    return {name: _mean(column, n) for name, column in columns.items()} | _ratio_figures(task, Y, found)


def _ratio_figures(task: Task, Y: FloatArray, found: NeighborRanks) -> Figures:
    """Return the figures of the ratios of distances to neighbors, NaN if all of them are duplicates."""
    n, m = len(Y), len(found.rows)
    squares = squared_ratios(Y, found.rows[:, None], found.x_neighbors, found.x_lengths)

    def medians(kept: IntArray) -> FloatArray:
        some = squares[kept]
        some = some[~np.isnan(some)]
        return np.array(scale_and_deviation(some) if some.size else (np.nan, np.nan))

    misses = np.column_stack([np.nansum((squares - 1.0) ** 2, axis=1), np.sum(~np.isnan(squares), axis=1)])
    values = medians(np.arange(m))
    errors = group_jackknife_errors(medians, m, n, task.run.rng("jackknife groups"))
    return {
        "scale": (float(values[0]), float(errors[0])),
        "distance_deviation": (float(values[1]), float(errors[1])),
        "distance_error": _of_means(_ratio, misses, n),
    }


def _label_figures(task: Task, known: Labeled, Y: FloatArray) -> Figures:
    rows, n = task.rows, len(known.points)
    if n < len(Y):
        rows = sample_rows(n, len(task.rows), task.run.rng("labeled rows"))
    k = min(task.n_neighbors, n - 1)
    found = label_rows(Y[known.points], known, rows, k, task.run.n_jobs)
    names = "neighborhood_hit", "label_accuracy", "silhouette"
    return {name: _mean(column, n) for name, column in zip(names, found.T, strict=True)}


def _mean(column: FloatArray, n: int) -> tuple[float, float]:
    return _of_means(_ratio, np.column_stack([column, np.ones(len(column))]), n)


def _of_means(figure: Any, sums: FloatArray, n: int) -> tuple[float, float]:
    return float(figure(sums.mean(axis=0))), jackknife_error(figure, sums, n)


def _ratio(means: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return means[..., 0] / means[..., 1]


def _baseline(X: Any, n_components: int, metric: str, run: Run) -> FloatArray:
    """Return as many principal components, or coordinates of classical scaling where X holds distances."""
    if metric != "precomputed":
        return principal_components(X, n_components)
    found = classical_scaling(np.asarray(X, dtype=np.float64), min(n_components, len(X) - 1), run).coordinates
    return np.pad(found, ((0, 0), (0, n_components - found.shape[1])))


def principal_components(X: Any, n_components: int) -> FloatArray:
    """Return the scores of rows, dense or sparse, on the first principal components; zeros beyond their number."""
    from sklearn.decomposition import PCA

    sparse = issparse(X)
    count = min(n_components, min(X.shape) - sparse)
    scores = PCA(count, svd_solver="arpack" if sparse else "auto", random_state=0).fit_transform(X)
    return np.pad(scores, ((0, 0), (0, n_components - count)))


def _sample_size(sample: int | str | None, n: int) -> int | None:
    if sample is None or not isinstance(sample, str):
        return sample
    check.choice("sample", sample, ("auto",))
    return N_SCORED_POINTS if n > MAX_SCORED_POINTS else None


def _wanted(figures: Collection[str] | None, labeled: bool, true: bool) -> frozenset[str]:
    """Return the names of the figures asked for, of those that can be computed, or refuse them."""
    lacking = {"labels": not labeled, "truth": not true}
    possible = [name for name, entry in TABLE.items() if not lacking.get(entry.group, False)]
    possible = [name for name in possible if true or not name.startswith("procrustes")]
    if figures is None:
        return frozenset(possible)
    for name in figures:
        check.choice("figures", name, TABLE)
        if name not in possible:
            raise ValueError(f"The figure {name!r} needs labels or truth; pass them, or leave it out.")
    return frozenset(figures)


def _heading(rows: IntArray, Y: FloatArray, k: int) -> str:
    n = len(Y)
    which = (
        "all points compared" if len(rows) == n else f"{len(rows):,} sampled points compared with all, ± standard error"
    )
    return f"{n:,} points in {Y.shape[1]} dimension{'s' * (Y.shape[1] > 1)}, {k} neighbors; {which}."
