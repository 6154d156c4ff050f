"""Valid input, random rows and lists of neighbors for the package."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import IntArray
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._pairwise import as_points
from manifoldry.graph._search import NeighborRule, neighbor_graph

MIN_POINTS_CHOSEN = 3  # two points have no neighborhoods, and no ranks to keep


def checked_input(X: Any, metric: Any, params: dict[str, Any] | None = None) -> Any:
    """Return ``X`` as finite numbers in two dimensions: rows, or distances where ``metric`` says so."""
    from manifoldry._core.arrays import as_table

    check.metric(metric, ("precomputed",))
    check.metric_params(metric, params)
    table = as_table(X)
    if issparse(table):
        if is_precomputed(metric):
            raise ValueError(
                "metric='precomputed' needs all pairwise distances; got a sparse graph, which leaves pairs out: "
                "pass rows, or a dense matrix."
            )
        table = csr_array(table, dtype=np.float64)
        as_points("X", table.data[:, None] if table.nnz else np.zeros((table.shape[0], 1)))
    else:
        table = as_points("X", given := table)
        check.check_integer_precision(given, table)
    check.enough_points(table.shape[0], MIN_POINTS_CHOSEN)
    if is_precomputed(metric):
        check.square_distances(table)
    else:
        check.distinct_points(table)
        check.representable_scale(table, spread=check.column_spread(table))
    return table


def is_precomputed(metric: Any) -> bool:
    """Whether the data is a matrix of distances."""
    return isinstance(metric, str) and metric == "precomputed"


def some_points(X: Any, points: IntArray, metric: Any) -> Any:
    """Return the data of some points: their rows, or the distances among them."""
    return X[np.ix_(points, points)] if is_precomputed(metric) else X[points]


def without_copies(X: Any, metric: Any) -> tuple[Any, int]:
    """Return the data of the distinct points, and how many copies were left out."""
    first, _ = distinct_rows(X)
    n_copies = X.shape[0] - len(first)
    return (some_points(X, first, metric) if n_copies else X), n_copies


def random_rows(n: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return ``size`` of n rows, drawn without replacement and ascending; all of them if there are fewer."""
    return np.sort(rng.permutation(n)[:size])


def neighbor_lists(points: Any, k: int, run: Run, metric: Any = "euclidean", search: str = "auto") -> IntArray:
    """Return the k nearest neighbors of each point, nearest first, shape (n, k)."""
    rule = NeighborRule(k, metric=metric, search=search).resolve(points.shape[0])
    return neighbor_graph(points, rule, run)[0].indices.reshape(-1, k)


def n_common(first: IntArray, second: IntArray) -> IntArray:
    """Return how many points both lists (n, k) of a row hold."""
    both = np.sort(np.hstack([first, second]), axis=1)
    return np.count_nonzero(both[:, 1:] == both[:, :-1], axis=1)
