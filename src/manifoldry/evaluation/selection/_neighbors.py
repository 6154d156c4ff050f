"""How many neighbors: the sizes for which neither the pieces of the graph nor the distances along it change much."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.arrays import as_frame
from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.elbow import REASON_WIDTH
from manifoldry.data._chunked import some_rows
from manifoldry.evaluation.selection._input import checked_input, without_copies
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import MAX_GAP_RATIO, MAX_SMALL_SHARE, local_scale, symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import MIN_AFFECTED_SHARE, short_circuits

NEIGHBOR_CANDIDATES = (4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
"""Numbers of neighbors tried: each a fifth to a third more than the one before, so that the steps are comparable."""
MANY_POINTS_CANDIDATES = (5, 8, 12, 20, 30)
"""Those tried of many points, where each costs seconds."""
MANY_POINTS, MAX_SHORT_CIRCUIT_POINTS = 10_000, 3_000
"""More points get fewer candidates; and of more points short circuits are not sought, which takes seconds for each
candidate and minutes for 70,000 images. The geodesic distances show them too."""
MAX_PATH_LENGTHS, MIN_PATH_SOURCES, MAX_PATH_SOURCES = 1_000_000, 8, 64
"""Geodesic distances compared per number of neighbors, as far as the limits of the number of sources allow."""
TORN_RATIO = 0.8
"""A distance that falls below this share of its fall in the median has found a shorter way: a short circuit lets many
fall so at once, while a graph that becomes denser shortens all of them alike."""
MIN_TORN_EDGES = 1.0
"""Where no short circuit was found, it has to fall by more than this many median edges beyond that, too: a path of
three edges that becomes one of two loses a third, which is no more than the graph resolves. Paths through counts of
words or Gaussian noise in 50 dimensions are so short that 10 to 19% of them lose an edge in each step; 3% lose more."""
MAX_THIN_CHANGE = 0.1
"""A graph is too thin to measure along if a quarter more neighbors shorten half of its distances by this share or more:
then paths are straightened everywhere, and no short circuit was found. Digits with 4 neighbors: 0.12."""
MAX_THIN_AFFECTED = 0.15
"""Share of the distances that short circuits may affect after a tear that was the end of a thin graph: 0 to 0.12 on
holed S-curves, cones, waves and cut cylinders of 400 to 1,200 points; 0.2 to 0.5 on rolls whose layers are joined."""
MAX_SPARSE_SHARE = 0.1
"""Maximum of n_neighbors over n_points at which detours around a short circuit are still long. A loop of 72 images is
joined across at 5 to 10 neighbors, and with more no short circuit is found."""
PERSISTENT_RATIO = 3.0
"""Pieces that stay apart while the number of neighbors grows by this factor are apart in the data. The two of iris stay
from 4 to 20; of digits, 27 points from 4 to 6."""
SCALE_NEIGHBORS = 4
"""Nearest neighbors whose mean distance is the local scale that a gap between pieces is measured by."""


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

    One search at the largest number is cut for each smaller one. With too few neighbors the graph falls apart, with
    too many it jumps across folds: geodesic distances from some points,
    :math:`d_k(i, j)`, then fall at once, and only some of them. For each k it counts the connected components,
    the short circuits and the distances that fall by a fifth more than the median one,

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
    X : array, data frame, sparse matrix or rows in blocks of shape (n, p), or array (n, n) for precomputed distances
        The data; of identical rows one is taken, of rows in blocks a sample of 10,000.
    metric, metric_params
        As in scikit-learn, or "precomputed".
    candidates : sequence of int, optional
        Numbers of neighbors to try; if None, 4 to 30 in ten steps, of more than 10,000 points in five. Short circuits
        are sought among up to 3,000 points.
    random_state : None, int, numpy Generator or RandomState
        Seed of the points from which distances are measured.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

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
    >>> found = suggest_neighbors(datasets.swiss_roll(1000).X)
    >>> found.low <= int(found) <= found.high < 30
    True
    """
    sample = some_rows(X, MANY_POINTS, Run(random_state, n_jobs), metric)
    if sample is not None:
        settings = {"metric": metric, "metric_params": metric_params, "candidates": candidates}
        found = suggest_neighbors(sample.rows, **settings, random_state=random_state, n_jobs=n_jobs)
        meant = f"Measured on {sample.described}, and meant for a fit to as many."
        return replace(found, why=f"{found.why} {meant}")
    points, n_copies = without_copies(checked_input(X, metric, metric_params), metric)
    sizes = _candidate_sizes(candidates, points.shape[0])
    run = Run(random_state, n_jobs)
    rule = NeighborRule(int(sizes[-1]), None, metric, metric_params).resolve(points.shape[0])
    rows = _table(neighbor_graph(points, rule, run)[0], sizes, run)
    return _decide(rows, points.shape[0], n_copies)


def _candidate_sizes(candidates: Sequence[int] | None, n: int) -> IntArray:
    """Return the numbers to try, ascending and below n; of few points those below half of them."""
    if candidates is None:
        usual = MANY_POINTS_CANDIDATES if n > MANY_POINTS else NEIGHBOR_CANDIDATES
        return np.array([k for k in usual if 2 * k < n] or [max(1, (n - 1) // 2)])
    if np.ndim(candidates) != 1 or not len(candidates):
        raise ValueError(f"candidates must be a list of numbers of neighbors; got {candidates!r}.")
    because = f" for {n} distinct points"
    return np.unique([check.integer("candidates", k, 1, n - 1, because) for k in candidates])


def _table(lists: NeighborGraph, sizes: IntArray, run: Run) -> tuple[NeighborRow, ...]:
    """Return what each number of neighbors gives; ``lists`` are ascending and as long as the largest."""
    n = lists.n_points
    place = np.arange(lists.n_edges) - lists.indptr[lists.rows()]
    scale = local_scale(lists, SCALE_NEIGHBORS)
    n_sources = int(np.clip(MAX_PATH_LENGTHS // n, MIN_PATH_SOURCES, MAX_PATH_SOURCES))
    sources = np.sort(run.rng("suggest neighbors").permutation(n)[:n_sources])
    rows: list[NeighborRow] = []
    before, pieces = None, None
    for k in sizes:
        graph = symmetrize(lists.with_only(place < k))
        n_pieces, labels = connected_components(graph.to_sparse(), directed=False)
        jumps, affected = _short_circuits(graph, run)
        lengths, _ = geodesic_lengths(graph, Run(0, run.n_jobs), sources)
        least = 0.0 if jumps else MIN_TORN_EDGES * float(np.median(graph.lengths))
        change, torn = (np.nan, np.nan) if before is None else _fall(before, lengths, least)
        gap = 0.0 if pieces is None else _gap(graph, pieces, scale)
        thin = bool(rows and change >= MAX_THIN_CHANGE * np.log(k / rows[-1].n_neighbors) / np.log(1.25))
        n_large = int(np.count_nonzero(np.bincount(labels) > MAX_SMALL_SHARE * n))
        rows.append(NeighborRow(int(k), n_pieces, n_large, gap, jumps, affected, change, torn, thin))
        before, pieces = lengths, labels
    return tuple(rows)


def _short_circuits(graph: NeighborGraph, run: Run) -> tuple[int | None, float]:
    """Return the number of short circuits and the share of distances they shorten, unless the points are many."""
    if graph.n_points > MAX_SHORT_CIRCUIT_POINTS:
        return None, np.nan
    found = short_circuits(graph, run)
    return len(found), found.affected


def _fall(before: FloatArray, after: FloatArray, least: float) -> tuple[float, float]:
    """Return the median relative fall of finite distances, and the share that falls by a fifth and ``least`` more."""
    known = np.isfinite(before) & np.isfinite(after) & (before > 0)
    if not known.any():
        return 0.0, 0.0
    typical = float(np.median(after[known] / before[known]))
    expected, found = typical * before[known], after[known]
    torn = found < np.minimum(TORN_RATIO * expected, expected - least)
    return 1.0 - typical, float(np.mean(torn))


def _gap(graph: NeighborGraph, pieces: IntArray, scale: FloatArray) -> float:
    """Return the largest of the gaps, in local scales, across which large pieces of the graph before are joined."""
    rows, columns = graph.rows(), graph.indices
    across = np.flatnonzero(pieces[rows] != pieces[columns])
    large = np.bincount(pieces) > MAX_SMALL_SHARE * len(pieces)
    across = across[large[pieces[rows[across]]] & large[pieces[columns[across]]]]
    if not len(across):
        return 0.0
    wide = graph.lengths[across] / np.maximum(scale[rows[across]], scale[columns[across]])
    narrowest = np.full(len(large), np.inf)
    np.minimum.at(narrowest, pieces[rows[across]], wide)
    joined = np.isfinite(narrowest)
    return float(np.sort(narrowest[joined])[1:].max(initial=0.0) or narrowest[joined].max())


def _decide(rows: tuple[NeighborRow, ...], n: int, n_copies: int) -> NeighborSuggestion:
    """Return the middle of the range before the graph changes, among the sizes with the fewest pieces there."""
    begin = _end_of_thinness(rows, n)
    ends = (place for place in range(1, len(rows)) if _breaks(rows, place, begin) or _joins_late(rows, place))
    end = next(ends, len(rows))
    begin = begin if begin < end else 0
    thin = [place for place, row in enumerate(rows[:end]) if row.thin_before]
    before = rows[max([begin, *thin]) : end]
    fewest = min(row.n_large_pieces for row in before)
    whole = [row for row in before if row.n_large_pieces == fewest]
    sound = [row for row in whole if not row.short_circuited]
    best = _middle(sound) if sound else min(whole, key=lambda row: (row.affected, row.n_neighbors))
    around = sound or [best]
    hidden = _hidden_short_circuits(rows[begin + 1 :] if begin else rows, best)
    why = _reason(rows, end, best, hidden if sound else None)
    if n_copies:
        why += f" {n_copies:,} {'copy' if n_copies == 1 else 'copies'} of other rows left out."
    return NeighborSuggestion(best.n_neighbors, why, around[0].n_neighbors, around[-1].n_neighbors, rows)


def _end_of_thinness(rows: tuple[NeighborRow, ...], n: int) -> int:
    """Return the last place at which distances fall because the graph before was too thin, 0 if there is none.

    A short circuit is followed by others with more neighbors. A thin graph becomes dense once: then nothing else
    happens while the number of neighbors grows threefold, in graphs that are sparse enough to show it.
    """
    sparse = max((row.n_neighbors for row in rows if row.n_neighbors <= MAX_SPARSE_SHARE * n), default=0)
    last = 0
    for place in reversed(range(1, len(rows))):
        if not rows[place].tears:
            continue
        lasting = sparse >= PERSISTENT_RATIO * rows[place].n_neighbors
        if not lasting or not all(row.affected < MAX_THIN_AFFECTED for row in rows[place + 1 :]):
            return 0
        last = last or place
    return last


def _breaks(rows: tuple[NeighborRow, ...], place: int, thin_until: int) -> bool:
    """Tell whether the graph changes at a place by a short circuit or across a gap."""
    return rows[place].joins_across_gap or (rows[place].tears and place > thin_until)


def _joins_late(rows: tuple[NeighborRow, ...], place: int) -> bool:
    """Tell whether a number of neighbors joins large pieces that had stayed apart for a long range of them."""
    apart = rows[place - 1].n_large_pieces
    if rows[place].n_large_pieces >= apart:
        return False
    first = next(row for row in rows if row.n_large_pieces == apart)
    return rows[place - 1].n_neighbors >= PERSISTENT_RATIO * first.n_neighbors


def _middle(sound: list[NeighborRow]) -> NeighborRow:
    """Return the row in the middle on a logarithmic scale, or the nearest without short circuits or stray pieces."""
    middle = 0.5 * np.log(sound[0].n_neighbors * sound[-1].n_neighbors)

    def away(row: NeighborRow) -> tuple[float, int]:
        return round(abs(float(np.log(row.n_neighbors)) - middle), 9), -row.n_neighbors  # more neighbors zigzag less

    fewest = min(row.n_pieces for row in sound)
    clean = [row for row in sound if not row.n_short_circuits]
    return min([row for row in clean if row.n_pieces == fewest] or clean or sound, key=away)


def _reason(rows: tuple[NeighborRow, ...], end: int, best: NeighborRow, hidden: list[NeighborRow] | None) -> str:
    """Return why this number, in sentences; ``hidden`` is None if no number is sound."""
    parts = []
    if hidden is None:
        parts.append(
            f"No number tried is without short circuits: with {best.n_neighbors} neighbors they shorten "
            f"{best.affected:.0%} of the distances, with others more; there are too few points for the folds."
        )
    elif best.n_large_pieces == 1:
        sought = best.n_short_circuits is not None and not hidden
        found = ", without short circuits that would dominate its distances" if sought else ""
        parts.append(f"The graph holds together there{found}.")
    if best.n_large_pieces > 1:
        parts.append(_pieces_reason(rows, end, best))
    if hidden:
        parts.append(_hidden_reason(hidden))
    if end < len(rows) and rows[end].tears:
        parts.append(
            f"With {rows[end].n_neighbors} neighbors {rows[end].torn:.0%} of the geodesic distances fall at once, as "
            "by a short circuit."
        )
    elif end == len(rows):
        parts.append(f"Up to {rows[-1].n_neighbors} neighbors the geodesic distances change only gradually.")
    if best.n_pieces > best.n_large_pieces:
        parts.append(f"{best.n_pieces - best.n_large_pieces} small groups of points stay apart.")
    return " ".join(parts)


def _hidden_short_circuits(rows: tuple[NeighborRow, ...], best: NeighborRow) -> list[NeighborRow]:
    """Return the smaller numbers with short circuits, if one of these tears distances but does not end the range.

    So it is if the median distance falls as well, as of a thin graph. But short circuits that join most parts let it
    fall too, and once all are joined no way around an edge is long: then none is found.
    """
    found = [row for row in rows if row.n_neighbors < best.n_neighbors and row.short_circuited]
    return found if any(row.torn >= MIN_TORN_SHARE for row in found) else []


def _hidden_reason(hidden: list[NeighborRow]) -> str:
    """Return what to say of short circuits that are still in the graph but can no longer be found."""
    first, last = hidden[0].n_neighbors, hidden[-1].n_neighbors
    which = f"{first} to {last}" if first < last else f"{first}"
    worst = max(row.affected for row in hidden)
    return (
        f"With {which} neighbors there are short circuits, which shorten {'up to ' if first < last else ''}{worst:.0%} "
        "of the distances; with more, the same edges are there, but can no longer be told from others."
    )


def _pieces_reason(rows: tuple[NeighborRow, ...], end: int, best: NeighborRow) -> str:
    """Return what to say of a graph in several large pieces."""
    text = f"The graph is in {best.n_large_pieces} large pieces"
    if end < len(rows) and rows[end].n_large_pieces < best.n_large_pieces:
        row = rows[end]
        return (
            f"{text}, which are apart in the data: the first number to join some is {row.n_neighbors}, by edges "
            f"{row.gap:.1f} times as long as those to the nearest neighbors."
        )
    if all(row.n_large_pieces >= best.n_large_pieces for row in rows):
        return f"{text}, and no number of neighbors up to {rows[-1].n_neighbors} connects them."
    return f"{text}."


# The suggested number of neighbors as a value: the table that it was read from, and the reason.

MIN_TORN_SHARE = 0.1
"""Share of such distances at which geodesics count as changed. Rolls: 0.14 and more at the first short circuit, 0.04
and less before; found there, and kept for real sets."""


@dataclass(frozen=True)
class NeighborRow:
    """What the graph of one number of neighbors is like.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbors k.
    n_pieces : int
        Connected components of the graph.
    n_large_pieces : int
        Those with more than a hundredth of the points.
    gap : float
        How many times the distance to their nearest neighbors the shortest edges are that join large components of
        the graph before; 0 if none are joined. More than 3 is a gap in the data, not in the sampling.
    n_short_circuits : int or None
        Edges that jump across a gap, found by their long detours; None if not searched, with more than 3,000 points.
    affected : float
        Share of the geodesic distances that these edges shorten by a fifth or more; NaN if not searched.
    change : float
        Median relative fall of the geodesic distances against the number of neighbors before; NaN for the first.
    torn : float
        Share of the distances that fall by a fifth more than the median, and by an edge more if there is no short
        circuit; NaN for the first.
    thin_before : bool
        Whether the median fall is so large, a tenth for a quarter more neighbors, that the graph before was too thin.
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
    def breaks(self) -> bool:
        """Whether the graph has changed at this number of neighbors, by a short circuit or across a gap."""
        return self.tears or self.joins_across_gap

    @property
    def joins_across_gap(self) -> bool:
        """Whether large components of the graph before are joined across a gap in the data."""
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
    """A number of neighbors and the reason for it; ``print`` also shows what was found for each number tried.

    Parameters
    ----------
    n_neighbors : int
        The suggested number of neighbors.
    why : str
        The reason, in a sentence or two.
    low, high : int
        The least and the largest number tried that would do as well.
    rows : tuple of NeighborRow
        One per number tried.
    """

    n_neighbors: int
    why: str
    low: int
    high: int
    rows: tuple[NeighborRow, ...]

    def __int__(self) -> int:
        return self.n_neighbors

    def row(self, n_neighbors: int | None = None) -> NeighborRow:
        """Return what was found for one number of neighbors, the suggested one if None."""
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        for row in self.rows:
            if row.n_neighbors == wanted:
                return row
        tried = ", ".join(str(row.n_neighbors) for row in self.rows)
        raise ValueError(f"n_neighbors={wanted} was not tried; tried were {tried}: name it in candidates.")

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row per number of neighbors."""
        names = [field.name for field in fields(NeighborRow)]
        return as_frame([{name: getattr(row, name) for name in names} for row in self.rows], "n_neighbors")

    def __repr__(self) -> str:
        others = f"{self.low} to {self.high} would do" if self.low < self.high else "no other number tried would do"
        return f"n_neighbors={self.n_neighbors} ({others}). {self.why}"

    def __str__(self) -> str:
        """Return the suggestion, the reason and the table."""
        lines = textwrap.wrap(repr(self), REASON_WIDTH)
        lines.append(f"{'k':>6}{'pieces':>8}{'short circuits':>16}{'affected':>10}{'change':>8}{'torn':>7}")
        for row in self.rows:
            k, mark = row.n_neighbors, " "
            if self.low <= k <= self.high:
                mark = ">" if k == self.n_neighbors else "|"
            lines.append(
                f"{mark}{k:>5}{row.n_pieces:>8}{_count(row.n_short_circuits):>16}{_share(row.affected):>10}"
                f"{_share(row.change):>8}{_share(row.torn):>7}"
            )
        return "\n".join(lines)


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1%}"
