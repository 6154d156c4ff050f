"""Neighbor searches shared by several fits: one search over the same points, cut to what each fit needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.values import NeighborGraph

if TYPE_CHECKING:
    from manifoldry.neighbors.search import NeighborIndex, NeighborRule

    Found = tuple[NeighborGraph, NeighborIndex]


@contextmanager
def shared_neighbors(n_neighbors: int = 1) -> Iterator[None]:
    """Let all fits inside find the neighbors of the same rows by one search.

    Every fit gets the nearest of the widest list so far, and its own map for new points as without. The lists of an
    exact search are the same as without sharing, up to the order of equal distances; those of an approximate search
    are at least as good. Given graphs, radii and metrics with parameters are not shared. Threads that a program starts
    inside do not take part.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbors that the first search over any rows finds at least, so that a fit that needs more than an
        earlier one does not search again.

    Examples
    --------
    >>> from manifoldry import Isomap, LaplacianEigenmaps, datasets
    >>> X = datasets.s_curve(200).X
    >>> with shared_neighbors(n_neighbors=15):
    ...     models = [Isomap(n_neighbors=8).fit(X), LaplacianEigenmaps(n_neighbors=15).fit(X)]
    >>> [model.diagnostics_["n_neighbors"] for model in models]
    [8, 15]
    """
    token = _current.set(_SharedSearches(n_neighbors))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def known_neighbors(X: Any, found: Found) -> Iterator[None]:
    """Let fits to the rows ``X`` inside take the neighbors and the index that were found for them."""
    searches = _SharedSearches(1)
    searches.done.append((X, found))
    token = _current.set(searches)
    try:
        yield
    finally:
        _current.reset(token)


def shared_or_new(X: Any, rule: NeighborRule, search: Callable[[NeighborRule], Found]) -> Found:
    """Return the neighbor graph and index that ``rule`` asks for: by ``search``, or cut from one done before."""
    shared = _current.get()
    return search(rule) if shared is None or not _shareable(rule) else shared.find(X, rule, search)


@dataclass
class _SharedSearches:
    """The searches done inside one `shared_neighbors`, the widest over each set of rows."""

    n_neighbors: int

    def __post_init__(self) -> None:
        self.done: list[tuple[Any, Found]] = []

    def find(self, X: Any, rule: NeighborRule, search: Callable[[NeighborRule], Found]) -> Found:
        place = next((i for i, (rows, found) in enumerate(self.done) if _alike(rows, found[1].rule, X, rule)), None)
        if place is None or _width(self.done[place][1][1].rule) < _width(rule):
            wide = rule.at_least(self.n_neighbors, X.shape[0])
            place = len(self.done) if place is None else place
            self.done[place : place + 1] = [(X, search(wide))]
        graph, index = self.done[place][1]
        return _nearest_of(graph, _width(rule)), index.widened(_width(rule))


_current: ContextVar[_SharedSearches | None] = ContextVar("shared_searches", default=None)


def _shareable(rule: NeighborRule) -> bool:
    return (
        rule.n_neighbors is not None
        and rule.radius is None
        and rule.metric_params is None
        and rule.metric != "precomputed"
    )


def _width(rule: NeighborRule) -> int:
    return int(rule.n_neighbors or 0)


def _alike(rows: Any, done: NeighborRule, X: Any, rule: NeighborRule) -> bool:
    """Tell whether a search over ``rows`` serves for ``X``: entries are equal (each fit owns a copy), kinds too."""
    if done.metric != rule.metric or done.search != rule.search or rows.shape != X.shape or rows.dtype != X.dtype:
        return False
    if issparse(rows) or issparse(X):
        parts = ("indptr", "indices", "data")
        return type(rows) is type(X) and all(np.array_equal(getattr(rows, p), getattr(X, p)) for p in parts)
    return np.array_equal(rows, X)


def _nearest_of(graph: NeighborGraph, k: int) -> NeighborGraph:
    """Return the first k of the equally many neighbors that a search lists for every point, nearest first."""
    width = graph.n_edges // graph.n_points
    return NeighborGraph.from_rows(graph.indices.reshape(-1, width)[:, :k], graph.lengths.reshape(-1, width)[:, :k])
