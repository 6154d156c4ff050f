"""The score: every measure of an embedding in one call, beside those of principal components."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.ranks import chosen_neighbors, require_below_half
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.data._chunked import in_blocks
from manifoldry.evaluation.metrics._distortion import LocalDistortion, distortions_of, tangent_dimension
from manifoldry.evaluation.metrics._labels import read_labels
from manifoldry.evaluation.metrics._shepard import geodesic_rows
from manifoldry.evaluation.score._chunked import score_blocks
from manifoldry.evaluation.score._row_pass import RowPass, Statistics
from manifoldry.evaluation.score._statistics import (
    DISTORTION_FIGURES,
    LABEL_FIGURES,
    TRUTH_FIGURES,
    Layout,
    PathLengths,
    Task,
)
from manifoldry.evaluation.score._table import TABLE, Asked, Score, scored_size
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._pairwise import as_pair, as_points, sample_rows

MAX_GEODESIC_SOURCES, MAX_SCORED_LENGTHS = 200, 7_000_000
"""Points from which paths are followed, and lengths of paths: 100 points of 70,000, whose lengths take 60 MB."""


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
    """Return the quality measures of an embedding, and those of PCA beside them; printed, they are a table.

    For any embedding, also one made by another library.

    Parameters
    ----------
    X : array-like, sparse matrix or rows in blocks of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like or rows in blocks of shape (n, p)
        The embedding, compared by Euclidean distance.
    labels : array-like of shape (n,), optional
        Classes, numbers or strings; adds neighborhood_hit, label_accuracy and silhouette. None and NaN mark points
        without a label, which these leave out.
    truth : array-like of shape (n, q), optional
        Known coordinates; adds the three Procrustes errors, over all points.
    n_neighbors : int or "auto"
        Number of neighbors, below n / 2; "auto" is 15, or of fewer than 31 points as many as are fewer than half.
    metric : str
        Metric of X, as in scikit-learn.
    sample : int, "auto" or None
        Number of points whose neighborhoods and distances are compared, each with all n points; None for all. "auto"
        is all up to 3,000 points and 1,000 beyond.
    figures : collection of str, optional
        Names of the figures to compute, of `metrics.table.TABLE`; all by default.
    random_state : None, int, numpy Generator or RandomState
        Seed of the sample.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Returns
    -------
    Score
        A dict of str to float, in groups: neighbors, distances, layout, labels, truth, and units, which only say
        something about an embedding in the units of X. ``errors`` has the standard errors of the sample, ``pca`` the
        same figures of the first p principal components (of the classical scaling of precomputed distances).
        ``to_frame()`` and ``to_dict()`` add the range, best value and meaning of each.

    Notes
    -----
    Figures that the data do not define (all neighbors are duplicates) are NaN. Standard errors are those of samples
    without repeats, by the jackknife over the sampled points.

    Rows in blocks (`row_blocks`, Dask collections) are never held together: they are read three times, to draw points,
    to find their neighbors and to count ranks, each point against all rows. Figures that need all rows at once are left
    out, and the heading says which; ranked pairs and triplets are those of 20,000 rows, which PCA is fitted to. Write
    an embedding that is computed when it is read (``model.transform(blocks)``) to a file first.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> found = score(X, X, n_neighbors=5)
    >>> found["trustworthiness"], round(found.pca["trustworthiness"], 12), found.errors["trustworthiness"]
    (1.0, 1.0, 0.0)
    """
    asked = Asked(labels, truth, n_neighbors, metric, sample, figures)
    if in_blocks(X) or in_blocks(Y):
        return score_blocks(X, Y, asked, random_state, n_jobs)
    return score_layouts(X, [Y], asked, random_state, n_jobs)[0]


def score_layouts(
    X: Any, layouts: Sequence[Any], asked: Asked, random_state: Any = 0, n_jobs: int | None = None
) -> list[Score]:
    """Return the scores of several embeddings of the same rows, each as `score` would, by one pass over the data."""
    checked = [_checked(X, Y, asked.truth, asked.metric) for Y in layouts]
    X, truth = checked[0][0], checked[0][2]
    Ys = [Y for _, Y, _ in checked]
    n = len(Ys[0])
    k = chosen_neighbors(asked.n_neighbors, n)
    require_below_half(k, n)
    rows = sample_rows(n, scored_size(asked.sample, n), random_state)
    known = None if asked.labels is None else read_labels(asked.labels, n)
    run = Run(random_state, n_jobs)
    dimensions = sorted({Y.shape[1] for Y in Ys})
    baselines = {p: _baseline(X, p, asked.metric, run) for p in dimensions}
    tasks = {
        p: Task(
            X,
            n,
            asked.metric,
            rows,
            k,
            truth,
            known,
            _wanted(asked.figures, _possible(X, p, asked.metric, k, labeled=known is not None, true=truth is not None)),
            run,
        )
        for p in dimensions
    }
    return _scores(tasks, Ys, baselines)


def _scores(tasks: Mapping[int, Task], Ys: Sequence[FloatArray], baselines: Mapping[int, FloatArray]) -> list[Score]:
    """Return the scores of layouts by the tasks and the baselines of their dimensions."""
    task = next(iter(tasks.values()))
    everything = [*baselines.values(), *Ys]
    data, *found = RowPass.draw(len(Ys[0]), task.rows, task.n_neighbors, task.needs, task.run)(
        task.X, everything, task.metric, task.run
    )
    paths = _geodesics(task, data) if "geodesic_correlation" in task.wanted else None
    bent = _distortions(tasks, everything, data["neighbors"])
    m = len(baselines)
    figures = [
        Layout(tasks[Y.shape[1]], Y, data, found[i], paths, bent[i], errors=i >= m).figures()
        for i, Y in enumerate(everything)
    ]
    pca = {p: {name: figure[0] for name, figure in figures[i].items()} for i, p in enumerate(baselines)}
    return [
        Score(
            {name: figure[0] for name, figure in ours.items()},
            pca[Y.shape[1]],
            {name: figure[1] for name, figure in ours.items()},
            _heading(task, Y, paths),
        )
        for Y, ours in zip(Ys, figures[m:], strict=True)
    ]


def _checked(X: Any, Y: Any, truth: Any, metric: str) -> tuple[Any, FloatArray, FloatArray | None]:
    """Return the input as arrays, or refuse it."""
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
    tasks: Mapping[int, Task], layouts: Sequence[FloatArray], near: IntArray
) -> list[LocalDistortion | None]:
    """Return the distortions of each layout, those of one dimension together; None where they are not wanted."""
    found: list[LocalDistortion | None] = [None] * len(layouts)
    for p, task in tasks.items():
        mine = [i for i, Y in enumerate(layouts) if Y.shape[1] == p]
        if task.wanted & DISTORTION_FIGURES:
            bent = distortions_of(task.X, [layouts[i] for i in mine], task.rows, near, task.metric, task.run)
            for i, one in zip(mine, bent, strict=True):
                found[i] = one
    return found


def _geodesics(task: Task, data: Statistics) -> PathLengths:
    n = task.X.shape[0]
    most = min(len(task.rows), MAX_GEODESIC_SOURCES, max(2, MAX_SCORED_LENGTHS // n))
    sources = task.rows[sample_rows(len(task.rows), most, task.run.rng("geodesic sources"))]
    if len(task.rows) == n:  # all neighbors are known
        graph = NeighborGraph.from_rows(data["neighbors"], data["lengths"])
        return PathLengths(sources, geodesic_lengths(symmetrize(graph), task.run, sources)[0])
    return PathLengths(sources, geodesic_rows(task.X, sources, task.n_neighbors, task.metric, task.run))


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


def _possible(X: Any, p: int, metric: str, k: int, *, labeled: bool, true: bool) -> frozenset[str]:
    """Return the names of the figures that this input defines."""
    missing: set[str] = set()
    if not labeled:
        missing.update(LABEL_FIGURES)
    if not true:
        missing.update(TRUTH_FIGURES)
    if metric not in ("euclidean", "precomputed") or k <= tangent_dimension(X, p, metric):
        missing.update(DISTORTION_FIGURES)
    return frozenset(TABLE) - missing


def _wanted(figures: Collection[str] | None, possible: frozenset[str]) -> frozenset[str]:
    """Return the names of the figures asked for, or refuse them."""
    if figures is None:
        return possible
    for name in figures:
        check.choice("figures", name, TABLE)
        if name not in possible:
            raise ValueError(f"The figure {name!r} needs {_required(name)}; pass that, or leave the figure out.")
    return frozenset(figures)


def _required(name: str) -> str:
    if name in LABEL_FIGURES:
        return "labels"
    if name in TRUTH_FIGURES:
        return "truth"
    return "metric='euclidean' or 'precomputed', and more neighbors than dimensions"


def _heading(task: Task, Y: FloatArray, paths: PathLengths | None) -> str:
    n, p = Y.shape
    m = len(task.rows)
    which = (
        "all compared (± where pairs or paths were drawn)"
        if m == n
        else f"{m:,} drawn and compared with all (± standard error)"
    )
    joined = 1.0 if paths is None else paths.joined
    apart = f" Paths join {joined:.0%} of the pairs: geodesic_correlation is theirs." if joined < 1 else ""
    return f"{n:,} points in {p} dimension{'s' * (p > 1)}, {task.n_neighbors} neighbors; {which}.{apart}"
