"""The neighbor graph, and the number of neighbors for which neither its components nor its distances change much."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.arrays import as_frame
from manifoldry._core.csgraph import connected_components
from manifoldry._core.parameters import check_value
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.elbow import REASON_WIDTH
from manifoldry._numerics.geometry.edges import EdgeLengths, measured_lists
from manifoldry.data._chunked import sample_of_chunked
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation._input import checked_input, is_precomputed, random_rows, without_copies
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import MAX_GAP_RATIO, MAX_SMALL_SHARE, local_scale, symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import MIN_AFFECTED_SHARE, short_circuits

NEIGHBOR_CANDIDATES = (4, 5, 6, 8, 10, 12, 15, 20, 25, 30)  # each a fifth to a third more than the previous
MANY_POINTS_CANDIDATES = (5, 8, 12, 20, 30)  # those tried with many points, where each takes seconds
MANY_POINTS, MAX_SHORT_CIRCUIT_POINTS = 10_000, 3_000  # each candidate, and short circuits, take seconds
MAX_PATH_LENGTHS, MIN_PATH_SOURCES, MAX_PATH_SOURCES = 1_000_000, 8, 64
"""Geodesic distances compared per number of neighbors, and limits of the number of sources."""
TORN_RATIO = 0.8  # share of the median fall below which a distance has found a shortcut
MIN_TORN_EDGES = 1.0  # median edges that it must also lose without short circuits: one is the resolution of the graph
MAX_THIN_CHANGE = 0.1
"""Fall of half of the distances, for a quarter more neighbors, from which a graph is too thin (digits with 4: 0.12)."""
MAX_THIN_AFFECTED = 0.15  # share of distances affected after a thin graph: up to 0.12 on holed sheets, 0.2 on rolls
MAX_SPARSE_SHARE = 0.1  # largest n_neighbors / n_points at which detours around a short circuit are still long
PERSISTENT_RATIO = 3.0  # components separate while k grows by this factor are separate in the data (iris: 4 to 20)
SCALE_NEIGHBORS = 4  # nearest neighbors whose mean distance is the local scale of gaps between components


@documented(DATA_TEXTS)
def suggest_neighbors(
    X: Any,
    *,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    candidates: Sequence[int] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> NeighborSuggestion:
    r"""Return the number of neighbors for which the graph is the same as for a little fewer and a little more.

    One search at the largest number serves all smaller ones. With too few neighbors the graph is disconnected; with too
    many it jumps across folds, and some geodesic distances :math:`d_k(i, j)` from a sample of points fall at once. For
    each k it counts the connected components, the short circuits and the distances that fall by a fifth more than the
    median,

    .. math:: d_k(i, j) < \min(0.8 \, m, \, m - e_k), \qquad m = d_{k'}(i, j) \, \mathrm{median}
        \frac{d_k}{d_{k'}}, \qquad k' < k \text{ the candidate before,}

    and, if there is no short circuit, by the median length :math:`e_k` of an edge; otherwise :math:`e_k = 0`.

    The range of k ends where a tenth of the distances do, unless that was the end of a thin graph: no larger k tears
    distances or has short circuits that affect 15 % of them, and a k three times as large is still at most a tenth of
    the points. Then the range begins there.
    It also ends where connected components are joined across a gap of three times the distance between neighbors, or
    that had stayed apart while k grew threefold. It begins with the first k that has as few components, in which short
    circuits affect less than a tenth of the distances, and from which half of them no longer fall by a tenth. The
    suggestion is the middle of the range on a logarithmic scale, or the next k there without any short circuit.

    Parameters
    ----------
    X : array, data frame, sparse matrix or chunked data of shape (n, p), or array (n, n) for precomputed distances
        The data; duplicates are dropped, and 10,000 rows of chunked data are drawn.
    metric, metric_params
        As in scikit-learn, or "precomputed".
    candidates : sequence of int, optional
        Numbers of neighbors to try; if None, 4 to 30 in ten steps, with more than 10,000 points in five. Short circuits
        are searched among up to 3,000 points.

    Returns
    -------
    NeighborSuggestion
        The number (also by ``int``), ``why``, the range from ``low`` to ``high``, and the table ``rows``.

    Notes
    -----
    References: tenenbaum2000, balasubramanian2002

    Examples
    --------
    >>> from manifoldry import datasets
    >>> suggestion = suggest_neighbors(datasets.swiss_roll(1000).X)
    >>> suggestion.low <= int(suggestion) <= suggestion.high < 30
    True
    """
    if (sample := sample_of_chunked(X, MANY_POINTS, Run(random_state, n_jobs), metric)) is not None:
        settings = {"metric": metric, "metric_params": metric_params, "candidates": candidates}
        suggestion = suggest_neighbors(sample.rows, **settings, random_state=random_state, n_jobs=n_jobs)
        return replace(suggestion, why=f"{suggestion.why} Measured on {sample.described}, for a fit to as many rows.")
    points, n_copies = without_copies(checked_input(X, metric, metric_params), metric)
    sizes = _candidate_sizes(candidates, points.shape[0])
    run = Run(random_state, n_jobs)
    rule = NeighborRule(int(sizes[-1]), None, metric, metric_params).resolve(points.shape[0])
    rows = _table(neighbor_graph(points, rule, run)[0], sizes, run)
    return _decide(rows, points.shape[0], n_copies)


def _candidate_sizes(candidates: Sequence[int] | None, n: int) -> IntArray:
    """Return the numbers to try, ascending and below n; with few points those below n / 2."""
    if candidates is None:
        usual = MANY_POINTS_CANDIDATES if n > MANY_POINTS else NEIGHBOR_CANDIDATES
        return np.array([k for k in usual if 2 * k < n] or [max(1, (n - 1) // 2)])
    if np.ndim(candidates) != 1 or not len(candidates):
        raise ValueError(f"candidates must be a list of numbers of neighbors; got {candidates!r}.")
    because = f" for {n} distinct points"
    return np.unique([check.integer("candidates", k, 1, n - 1, because) for k in candidates])


def _table(lists: NeighborGraph, sizes: IntArray, run: Run) -> tuple[NeighborRow, ...]:
    """Return the graph's properties for each number of neighbors; ``lists`` are sorted and as long as the largest."""
    n = lists.n_points
    rank = np.arange(lists.n_edges) - lists.indptr[lists.rows()]
    scale = local_scale(lists, SCALE_NEIGHBORS)
    n_sources = int(np.clip(MAX_PATH_LENGTHS // n, MIN_PATH_SOURCES, MAX_PATH_SOURCES))
    sources = random_rows(n, n_sources, run.rng("suggest neighbors"))
    rows: list[NeighborRow] = []
    before, components = None, None
    for k in sizes:
        graph = symmetrize(lists.with_edges_where(rank < k))
        n_pieces, labels = connected_components(graph.to_sparse(), directed=False)
        jumps, affected = _short_circuits(graph, run)
        lengths, _ = geodesic_lengths(graph, Run(0, run.n_jobs), sources)
        least = 0.0 if jumps else MIN_TORN_EDGES * float(np.median(graph.lengths))
        change, torn = (np.nan, np.nan) if before is None else _fall(before, lengths, least)
        gap = 0.0 if components is None else _gap(graph, components, scale)
        thin = bool(rows and change >= MAX_THIN_CHANGE * np.log(k / rows[-1].n_neighbors) / np.log(1.25))
        n_large = int(np.count_nonzero(np.bincount(labels) > MAX_SMALL_SHARE * n))
        rows.append(NeighborRow(int(k), n_pieces, n_large, gap, jumps, affected, change, torn, thin))
        before, components = lengths, labels
    return tuple(rows)


def _short_circuits(graph: NeighborGraph, run: Run) -> tuple[int | None, float]:
    """Return the number of short circuits and the share of distances they shorten; nothing for many points."""
    if graph.n_points > MAX_SHORT_CIRCUIT_POINTS:
        return None, np.nan
    shorts = short_circuits(graph, run)
    return len(shorts), shorts.affected


def _fall(before: FloatArray, after: FloatArray, least: float) -> tuple[float, float]:
    """Return the median relative fall of finite distances, and the share that falls by a fifth and ``least`` more."""
    mask = np.isfinite(before) & np.isfinite(after) & (before > 0)
    if not mask.any():
        return 0.0, 0.0
    typical = float(np.median(after[mask] / before[mask]))
    expected, actual = typical * before[mask], after[mask]
    torn = actual < np.minimum(TORN_RATIO * expected, expected - least)
    return 1.0 - typical, float(np.mean(torn))


def _gap(graph: NeighborGraph, components: IntArray, scale: FloatArray) -> float:
    """Return the largest gap, in local scales, across which large components of the previous graph are joined."""
    rows, columns = graph.rows(), graph.indices
    across = np.flatnonzero(components[rows] != components[columns])
    large = np.bincount(components) > MAX_SMALL_SHARE * len(components)
    across = across[large[components[rows[across]]] & large[components[columns[across]]]]
    if not len(across):
        return 0.0
    wide = graph.lengths[across] / np.maximum(scale[rows[across]], scale[columns[across]])
    narrowest = np.full(len(large), np.inf)
    np.minimum.at(narrowest, components[rows[across]], wide)
    joined = np.isfinite(narrowest)
    return float(np.sort(narrowest[joined])[1:].max(initial=0.0) or narrowest[joined].max())


def _decide(rows: tuple[NeighborRow, ...], n: int, n_copies: int) -> NeighborSuggestion:
    """Return the middle of the range before the graph changes, among the sizes with the fewest components."""
    begin = _end_of_thinness(rows, n)
    end = next((i for i in range(1, len(rows)) if _breaks(rows, i, begin)), len(rows))
    begin = begin if begin < end else 0
    thin = [place for place, row in enumerate(rows[:end]) if row.thin_before]
    before = rows[max([begin, *thin]) : end]
    fewest = min(row.n_large_pieces for row in before)
    candidates = [row for row in before if row.n_large_pieces == fewest]
    sound = [row for row in candidates if not row.short_circuited]
    best = _middle(sound) if sound else min(candidates, key=lambda row: (row.affected, row.n_neighbors))
    around = sound or [best]
    hidden = _hidden_short_circuits(rows[begin + 1 :] if begin else rows, best)
    why = _reason(rows, end, best, hidden if sound else None)
    if n_copies:
        why += f" {n_copies:,} {'copy' if n_copies == 1 else 'copies'} of other rows left out."
    return NeighborSuggestion(best.n_neighbors, why, around[0].n_neighbors, around[-1].n_neighbors, rows)


def _end_of_thinness(rows: tuple[NeighborRow, ...], n: int) -> int:
    """Return the last row at which distances fall because the previous graph was too thin, 0 if there is none.

    A short circuit is followed by others; a thin graph becomes dense once, and k grows threefold without another event.
    """
    sparse = max((row.n_neighbors for row in rows if row.n_neighbors <= MAX_SPARSE_SHARE * n), default=0)
    last = 0
    for index in reversed(range(1, len(rows))):
        if not rows[index].tears:
            continue
        lasting = sparse >= PERSISTENT_RATIO * rows[index].n_neighbors
        if not lasting or not all(row.affected < MAX_THIN_AFFECTED for row in rows[index + 1 :]):
            return 0
        last = last or index
    return last


def _breaks(rows: tuple[NeighborRow, ...], index: int, thin_until: int) -> bool:
    """Whether the graph changes here by a short circuit, across a gap, or by joining what stayed separate for long."""
    if rows[index].joins_across_gap or (rows[index].tears and index > thin_until):
        return True
    separate = rows[index - 1].n_large_pieces
    if rows[index].n_large_pieces >= separate:
        return False
    first = next(row for row in rows if row.n_large_pieces == separate)
    return rows[index - 1].n_neighbors >= PERSISTENT_RATIO * first.n_neighbors


def _middle(sound: list[NeighborRow]) -> NeighborRow:
    """Return the row in the middle on a logarithmic scale, or the nearest without short circuits or small groups."""
    middle = 0.5 * np.log(sound[0].n_neighbors * sound[-1].n_neighbors)

    def away(row: NeighborRow) -> tuple[float, int]:
        return round(abs(float(np.log(row.n_neighbors)) - middle), 9), -row.n_neighbors  # more neighbors zigzag less

    fewest = min(row.n_pieces for row in sound)
    clean = [row for row in sound if not row.n_short_circuits]
    return min([row for row in clean if row.n_pieces == fewest] or clean or sound, key=away)


def _reason(rows: tuple[NeighborRow, ...], end: int, best: NeighborRow, hidden: list[NeighborRow] | None) -> str:
    """Return the reason for this number; ``hidden`` is None if every number has short circuits."""
    parts: list[str] = []
    if hidden is None:
        parts.append(
            f"No number tried is without short circuits: with {best.n_neighbors} neighbors they shorten "
            f"{best.affected:.0%} of the distances, with others more; there are too few points for the folds."
        )
    elif best.n_large_pieces == 1:
        searched = best.n_short_circuits is not None and not hidden
        remark = ", without short circuits that would dominate its distances" if searched else ""
        parts.append(f"The graph is connected there{remark}.")
    if best.n_large_pieces > 1:
        parts.append(_pieces_reason(rows, end, best))
    if hidden:
        parts.append(_hidden_reason(hidden))
    if end < len(rows) and rows[end].tears:
        parts.append(
            f"With {rows[end].n_neighbors} neighbors {rows[end].torn:.0%} of the geodesic distances fall at once, as "
            "with a short circuit."
        )
    elif end == len(rows):
        parts.append(f"Up to {rows[-1].n_neighbors} neighbors the geodesic distances change only gradually.")
    if best.n_pieces > best.n_large_pieces:
        parts.append(f"{best.n_pieces - best.n_large_pieces} small groups of points stay separate.")
    return " ".join(parts)


def _hidden_short_circuits(rows: tuple[NeighborRow, ...], best: NeighborRow) -> list[NeighborRow]:
    """Return the smaller numbers with short circuits, if one of these tears distances but does not end the range.

    Short circuits that join most parts lower the median too, and once all are joined no detour around an edge is long.
    """
    hidden = [row for row in rows if row.n_neighbors < best.n_neighbors and row.short_circuited]
    return hidden if any(row.torn >= MIN_TORN_SHARE for row in hidden) else []


def _hidden_reason(hidden: list[NeighborRow]) -> str:
    """Return the text on short circuits that are still in the graph but can no longer be found."""
    first, last = hidden[0].n_neighbors, hidden[-1].n_neighbors
    which = f"{first} to {last}" if first < last else f"{first}"
    worst = max(row.affected for row in hidden)
    return (
        f"With {which} neighbors there are short circuits, which shorten {'up to ' if first < last else ''}{worst:.0%} "
        "of the distances; with more, the same edges are there, but can no longer be detected."
    )


def _pieces_reason(rows: tuple[NeighborRow, ...], end: int, best: NeighborRow) -> str:
    """Return the text on a graph with several large components."""
    text = f"The graph has {best.n_large_pieces} large components"
    if end < len(rows) and rows[end].n_large_pieces < best.n_large_pieces:
        row = rows[end]
        return (
            f"{text}, which are separate in the data: the first number to join some is {row.n_neighbors}, by edges "
            f"{row.gap:.1f} times as long as those to the nearest neighbors."
        )
    if all(row.n_large_pieces >= best.n_large_pieces for row in rows):
        return f"{text}, and no number of neighbors up to {rows[-1].n_neighbors} connects them."
    return f"{text}."


MIN_TORN_SHARE = 0.1  # of the distances: on rolls 0.14 at the first short circuit, 0.04 before


@dataclass(frozen=True)
class NeighborRow:
    """Properties of the graph with one number of neighbors; NaN or None where they are not measured.

    Large components have more than a hundredth of the points. ``gap`` is how many times longer than neighbor distances
    the edges are that join large components of the previous graph: above 3 it is a gap in the data. ``affected`` is the
    share of the geodesic distances that short circuits shorten by a fifth or more, ``change`` the median fall from the
    previous number of neighbors, ``torn`` the share that falls by a fifth more than that, ``thin_before`` whether the
    previous graph was too thin.
    """

    n_neighbors: int
    n_pieces: int
    n_large_pieces: int
    gap: float
    n_short_circuits: int | None
    affected: float
    change: float
    torn: float
    thin_before: bool = False

    @property
    def joins_across_gap(self) -> bool:
        """Whether large components of the previous graph are joined across a gap in the data."""
        return self.gap > MAX_GAP_RATIO

    @property
    def tears(self) -> bool:
        """Whether many distances fall at once, but not most of them."""
        return self.torn >= MIN_TORN_SHARE and not self.thin_before

    @property
    def short_circuited(self) -> bool:
        """Whether short circuits dominate the distances, as in the advice of the fits."""
        return self.affected >= MIN_AFFECTED_SHARE


@dataclass(frozen=True, repr=False)
class NeighborSuggestion:
    """A number of neighbors and the reason for it (``why``); ``print`` also shows a table of all numbers tried.

    Numbers tried from ``low`` to ``high`` are as good; ``rows`` has the properties of the graph for each.
    """

    n_neighbors: int
    why: str
    low: int
    high: int
    rows: tuple[NeighborRow, ...]

    def __int__(self) -> int:
        return self.n_neighbors

    def row(self, n_neighbors: int | None = None) -> NeighborRow:
        """Return the row of one number of neighbors, the suggested one if None."""
        number = self.n_neighbors if n_neighbors is None else n_neighbors
        for row in self.rows:
            if row.n_neighbors == number:
                return row
        tried = ", ".join(str(row.n_neighbors) for row in self.rows)
        raise ValueError(f"n_neighbors={number} was not tried; tried were {tried}: add it to candidates.")

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row per number of neighbors."""
        names = [field.name for field in fields(NeighborRow)]
        return as_frame([{name: getattr(row, name) for name in names} for row in self.rows], "n_neighbors")

    def __repr__(self) -> str:
        others = (
            f"{self.low} to {self.high} are as good" if self.low < self.high else "no other number tried is as good"
        )
        return f"n_neighbors={self.n_neighbors} ({others}). {self.why}"

    def __str__(self) -> str:
        """Return the suggestion, the reason and the table."""
        lines = textwrap.wrap(repr(self), REASON_WIDTH)
        lines.append(f"{'k':>6}{'pieces':>8}{'short circuits':>16}{'affected':>10}{'change':>8}{'torn':>7}")
        for row in self.rows:
            k, mark = row.n_neighbors, " "
            if self.low <= k <= self.high:
                mark = ">" if k == self.n_neighbors else "|"
            shares = ("" if np.isnan(value) else f"{value:.1%}" for value in (row.affected, row.change, row.torn))
            count = "" if row.n_short_circuits is None else str(row.n_short_circuits)
            lines.append(f"{mark}{k:>5}{row.n_pieces:>8}{count:>16}" + "{:>10}{:>8}{:>7}".format(*shares))
        return "\n".join(lines)


def neighborhood_graph(  # noqa: PLR0913
    X: Any,
    *,
    n_neighbors: int | str | None = "auto",
    radius: float | None = None,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    edge_lengths: EdgeLengths = "distance",
    remove_short_circuits: bool = False,
    n_components: int = 2,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> NeighborGraph:
    r"""Return each point's list of neighbors, with other edge lengths or without short circuits.

    Methods that need only a graph accept the result in `fit`: the Isomap family, `LaplacianEigenmaps`, `DiffusionMaps`,
    `CommuteTime`, `MVU`, `FastMVU`, `ColoredMVU`, `MVE`, `SPE`, `SNE`, `SymmetricSNE`, `TSNE` and `UMAP`.

    Parameters
    ----------
    X : array, data frame or sparse matrix of shape (n, p), or array (n, n) for precomputed distances
        The data.
    n_neighbors, radius, metric, metric_params, remove_short_circuits
        As in `Isomap`.
    edge_lengths : {"distance", "means", "local_linearity", "kl", "bhattacharyya", "hellinger"}
        Length of an edge: "distance" is the distance between its ends. "means" is the distance between the means of
        their neighborhoods, each a point with its neighbors; neighbors are those with the nearest means, and points
        with the same neighborhood have distance 0.
        "local_linearity" divides the distance by the fourth power of the cosines of its angles to the tangent planes at
        both ends, so that edges that leave the surface count as longer. "kl", "bhattacharyya" and "hellinger" compare
        the Gaussians of the two neighborhoods: the root of the symmetrized Kullback-Leibler or of the Bhattacharyya
        divergence, or the Hellinger distance. They also choose the neighbors, among twice as many nearest points.
    n_components : int
        Dimension of the tangent planes, where they are used.
    random_state : int, Generator or None
        Seed of an approximate search.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    NeighborGraph
        Directed: row i lists the neighbors of point i. `UMAP` raises an error if a point has lost all of its edges.

    Notes
    -----
    References: levada2023, saxena2004, balasubramanian2002.

    Examples
    --------
    >>> from manifoldry import Isomap, datasets, neighborhood_graph
    >>> X = datasets.swiss_roll(300).X
    >>> graph = neighborhood_graph(X, n_neighbors=10, remove_short_circuits=True)
    >>> graph.n_points, graph.n_edges < 3000
    (300, True)
    >>> Isomap().fit_transform(neighborhood_graph(X, n_neighbors=10, edge_lengths="means")).shape
    (300, 2)
    """
    check_value("edge_lengths", edge_lengths, EdgeLengths)
    check_value("remove_short_circuits", remove_short_circuits, bool)
    points = checked_input(X, metric, metric_params)
    n, run = points.shape[0], Run(random_state, n_jobs)
    dimension = check.n_components(n_components, n)
    rule = NeighborRule(n_neighbors, radius, metric, metric_params).resolve(n)
    lists, lengths = measured_lists(points, rule, edge_lengths, dimension, is_precomputed(metric), run)
    graph = replace(lists, lengths=lengths)
    # Short circuits are detected by distances.
    return short_circuits(symmetrize(lists), run).removed_from(graph) if remove_short_circuits else graph
