"""The score: every quality metric of an embedding in one call, next to those of principal components."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.ranks import check_below_half, chosen_neighbors
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.data._chunked import is_chunked
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.evaluation._metrics._distortion import LocalDistortion, distortions_of, tangent_dimension
from manifoldry.evaluation._metrics._shepard import geodesic_rows
from manifoldry.evaluation._metrics._truth import read_labels
from manifoldry.evaluation.score._chunked import score_chunked
from manifoldry.evaluation.score._statistics import (
    DISTORTION_METRICS,
    LABEL_METRICS,
    TRUTH_METRICS,
    LayoutMetrics,
    PathLengths,
    ScoreTask,
    Statistics,
    baseline_pca,
    row_statistics,
)
from manifoldry.evaluation.score._table import Score, ScoreOptions, checked_metrics, scored_size
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._pairwise import as_pair, as_points, sample_rows

MAX_GEODESIC_SOURCES, MAX_SCORED_LENGTHS = 200, 7_000_000  # 60 MB: 100 sources of 70,000 points


@documented(SHARED_TEXTS)
def score(  # noqa: PLR0913
    X: Any,
    Y: Any,
    labels: Any = None,
    truth: Any = None,
    *,
    n_neighbors: int | Literal["auto"] = "auto",
    metric: str = "euclidean",
    sample: int | str | None = "auto",
    figures: Collection[str] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Score:
    """Return the quality metrics of an embedding, next to those of PCA; printed, they are a table.

    The embedding may come from any library.

    Parameters
    ----------
    X : array-like, sparse matrix or chunked data of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like or chunked data of shape (n, p)
        The embedding, compared by Euclidean distance.
    labels : array-like of shape (n,), optional
        Classes, numbers or strings; adds neighborhood_hit, label_accuracy (vandermaaten2009) and silhouette. Points
        whose label is None or NaN are left out of these.
    truth : array-like of shape (n, q), optional
        Known coordinates; adds the three Procrustes errors, over all points.
    n_neighbors : int or "auto"
        Number of neighbors, below n / 2; "auto" is 15, or with fewer than 31 points the largest number below n / 2.
    sample : int, "auto" or None
        Number of points whose neighborhoods and distances are compared, each with all n points; None for all. "auto"
        uses all up to 3,000 points, and 1,000 of more.
    figures : collection of str, optional
        Names of the metrics to compute, from `metrics.TABLE`; all by default.

    Returns
    -------
    Score
        A dict of str to float, in groups: neighbors, distances, layout, labels, truth, and units, which are meaningful
        only for an embedding in the units of X. ``errors`` has the standard errors of the sample, ``pca`` the same
        metrics of the first p principal components (for precomputed distances, of classical scaling).
        ``to_frame()`` and ``to_dict()`` add the range, best value and meaning of each.

    Notes
    -----
    Metrics that the data does not define (all neighbors are duplicates) are NaN. Standard errors are those of samples
    without replacement, by the jackknife over the sampled points.

    Chunked data (`chunked_data`, Dask collections) is never held in memory as a whole: it is read three times, to draw
    points, to find their neighbors and to count ranks, each point against all rows. Metrics that need all rows at once
    are left out, and the heading names them. Ranked pairs and triplets come from 20,000 rows, to which PCA is fitted.
    Write an embedding that is computed when it is read (``model.transform(blocks)``) to a file first.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> result = score(X, X, n_neighbors=5)
    >>> result["trustworthiness"], round(result.pca["trustworthiness"], 12), result.errors["trustworthiness"]
    (1.0, 1.0, 0.0)
    """
    options = ScoreOptions(labels, truth, n_neighbors, metric, sample, figures)
    if is_chunked(X) or is_chunked(Y):
        return score_chunked(X, Y, options, random_state, n_jobs)
    return score_layouts(X, [Y], options, random_state, n_jobs)[0]


def score_layouts(
    X: Any, layouts: Sequence[Any], options: ScoreOptions, random_state: Any = 0, n_jobs: int | None = None
) -> list[Score]:
    """Return the scores of several embeddings of the same rows, each as `score` would, by one pass over the data."""
    checked = [_checked(X, Y, options.truth, options.metric) for Y in layouts]
    X, truth = checked[0][0], checked[0][2]
    Ys = [Y for _, Y, _ in checked]
    n, metric = len(Ys[0]), options.metric
    k = chosen_neighbors(options.n_neighbors, n)
    check_below_half(k, n)
    rows = sample_rows(n, scored_size(options.sample, n), random_state)
    labels = None if options.labels is None else read_labels(options.labels, n)
    run = Run(random_state, n_jobs)
    tasks: dict[int, ScoreTask] = {}
    baselines: dict[int, FloatArray] = {}
    for p in sorted({Y.shape[1] for Y in Ys}):
        baselines[p] = _baseline(X, p, metric, run)
        undefined = _undefined(X, p, metric, k, labeled=labels is not None, true=truth is not None)
        names = checked_metrics(options.figures, undefined)
        tasks[p] = ScoreTask(X, n, metric, rows, k, truth, labels, names, run)
    return _scores(tasks, Ys, baselines)


def _scores(
    tasks: Mapping[int, ScoreTask], Ys: Sequence[FloatArray], baselines: Mapping[int, FloatArray]
) -> list[Score]:
    """Return the scores of layouts by the tasks and the baselines of their dimensions."""
    task = next(iter(tasks.values()))
    layouts = [*baselines.values(), *Ys]
    data, *statistics = row_statistics(task, layouts)
    paths = _geodesics(task, data) if "geodesic_correlation" in task.metrics else None
    assert data.neighbors is not None
    distortions = _distortions(tasks, layouts, data.neighbors)
    m = len(baselines)
    estimates = [
        LayoutMetrics(tasks[Y.shape[1]], Y, data, statistics[i], paths, distortions[i], errors=i >= m).estimates()
        for i, Y in enumerate(layouts)
    ]
    pca = dict(zip(baselines, estimates, strict=False))
    scored = zip(Ys, estimates[m:], strict=True)
    return [Score.of(embedding, pca[Y.shape[1]], _heading(task, Y, paths)) for Y, embedding in scored]


def _checked(X: Any, Y: Any, truth: Any, metric: str) -> tuple[Any, FloatArray, FloatArray | None]:
    """Return the input as valid arrays."""
    check.metric(metric, ("precomputed",))
    X, Y = as_pair(X, Y, metric)
    if metric != "precomputed":
        check.distinct_points(X)
        check.representable_scale(X, spread=check.column_spread(X))
    check.representable_scale(Y, what="Y")
    if truth is None:
        return X, Y, None
    truth = as_points("truth", truth)
    if len(truth) != len(Y):
        raise ValueError(f"truth must have one row per point; got {len(truth)} rows for {len(Y)} points.")
    if not np.any(truth != truth[:1]):
        raise ValueError(f"All {len(truth)} points of the truth coincide, so no error can be relative to it.")
    return X, Y, truth


def _distortions(
    tasks: Mapping[int, ScoreTask], layouts: Sequence[FloatArray], neighbors: IntArray
) -> list[LocalDistortion | None]:
    """Return the distortions of each layout, those of one dimension together; None where they are not needed."""
    distortions: list[LocalDistortion | None] = [None] * len(layouts)
    for p, task in tasks.items():
        if task.needs(DISTORTION_METRICS):
            of_dimension = [i for i, Y in enumerate(layouts) if Y.shape[1] == p]
            Ys = [layouts[i] for i in of_dimension]
            local = distortions_of(task.X, Ys, task.rows, neighbors, task.metric, task.run)
            for i, distortion in zip(of_dimension, local, strict=True):
                distortions[i] = distortion
    return distortions


def _geodesics(task: ScoreTask, data: Statistics) -> PathLengths:
    n = task.X.shape[0]
    most = min(len(task.rows), MAX_GEODESIC_SOURCES, max(2, MAX_SCORED_LENGTHS // n))
    sources = task.rows[sample_rows(len(task.rows), most, task.run.rng("geodesic sources"))]
    if len(task.rows) == n and data.neighbors is not None:  # the neighbors of all points are known
        graph = NeighborGraph.from_rows(data.neighbors, data.lengths)
        return PathLengths(sources, geodesic_lengths(symmetrize(graph), task.run, sources)[0])
    return PathLengths(sources, geodesic_rows(task.X, sources, task.n_neighbors, task.metric, task.run))


def _baseline(X: Any, n_components: int, metric: str, run: Run) -> FloatArray:
    """Return principal components, or classical scaling of distances; columns beyond the rank are zeros."""
    if metric == "precomputed":
        Y = classical_scaling(np.asarray(X, dtype=np.float64), min(n_components, len(X) - 1), run).coordinates
        return np.pad(Y, ((0, 0), (0, n_components - Y.shape[1])))
    pca, missing = baseline_pca(X, n_components)
    return np.pad(pca.fit_transform(X), ((0, 0), (0, missing)))


def _undefined(X: Any, p: int, metric: str, k: int, *, labeled: bool, true: bool) -> dict[str, str]:
    """Return the metrics that this input does not define, and what each of them requires."""
    missing: dict[str, str] = {}
    if not labeled:
        missing |= dict.fromkeys(LABEL_METRICS, "labels")
    if not true:
        missing |= dict.fromkeys(TRUTH_METRICS, "truth")
    if metric not in ("euclidean", "precomputed") or k <= tangent_dimension(X, p, metric):
        required = "metric='euclidean' or 'precomputed', and more neighbors than dimensions"
        missing |= dict.fromkeys(DISTORTION_METRICS, required)
    return missing


def _heading(task: ScoreTask, Y: FloatArray, paths: PathLengths | None) -> str:
    n, p = Y.shape
    m = len(task.rows)
    which = (
        "all compared (± where pairs or paths were drawn)"
        if m == n
        else f"{m:,} drawn and compared with all (± standard error)"
    )
    joined = 1.0 if paths is None else paths.joined
    separate = f" Paths join {joined:.0%} of the pairs: geodesic_correlation is theirs." if joined < 1 else ""
    return f"{n:,} points in {p} dimension{'s' * (p > 1)}, {task.n_neighbors} neighbors; {which}.{separate}"
