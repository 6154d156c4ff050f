"""The score of rows in blocks: sampled points against all rows, read three times, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from manifoldry._core import check
from manifoldry._core.arrays import refuse_blocks
from manifoldry._core.chunks import RowBlocks
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.ranks import chosen_neighbors, require_below_half
from manifoldry.data._chunked import BlockSample, as_blocks, row_blocks
from manifoldry.data._chunked.local import ArrayBlocks, LocalBlocks
from manifoldry.data._chunked.store import regrouped
from manifoldry.evaluation.metrics._distortion import LocalDistortion, distortions_of
from manifoldry.evaluation.metrics._labels import Labeled, draw_triplets, order_sums, read_labels, silhouettes
from manifoldry.evaluation.metrics._shepard import pair_columns
from manifoldry.evaluation.score._chunk_pass import (
    DATA,
    EMBEDDING,
    SCORED_LAYOUTS,
    FirstPass,
    FirstShare,
    SampledSpaces,
    SecondPass,
    SecondShare,
)
from manifoldry.evaluation.score._row_pass import N_RANKED_PAIRS, N_ROW_TRIPLETS, Statistics
from manifoldry.evaluation.score._statistics import DISTORTION_FIGURES, LABEL_FIGURES, TRUTH_FIGURES, Layout, Task
from manifoldry.evaluation.score._table import TABLE, Asked, Score, scored_size
from manifoldry.graph._pairwise import listed_distances, sample_rows

N_DRAWN_ROWS, MAX_DRAWN_ENTRIES = 20_000, 2**24
"""Rows that a score draws, to which principal components are fitted and among which are the scored points, and their
entries: 128 MB in double precision. A direction is then known to a hundredth or so of its length."""

WHOLE_FIGURES = frozenset({"r_nx_auc", "geodesic_correlation", *TRUTH_FIGURES})
"""Figures that need the ranks of all rows, a graph of all rows, or all rows of two tables at once."""

NO_PLACES: FloatArray = np.empty((0, 0))
"""The places of a layout that is not in memory."""

UNMEASURED = ("precomputed", "seuclidean", "mahalanobis", "hellinger")
"""Metrics that need all pairs, or a map of the rows before."""


def score_blocks(X: Any, Y: Any, asked: Asked, random_state: Any, n_jobs: int | None) -> Score:
    """Return the score of an embedding of rows in blocks."""
    _refuse(asked)
    run = Run(random_state, n_jobs)
    data, places = _opened(X), _opened(Y)
    known = None if asked.labels is None else _all_labeled(asked.labels)
    parts = [data, places] if known is None else [data, places, row_blocks(known.classes[:, None])]
    blocks = zipped_blocks(*parts)
    widths = data.n_features, places.n_features
    drawn = blocks.sample(_n_drawn(asked.sample, blocks.n_features), run.rng("drawn rows"))
    n = drawn.n_rows
    k = chosen_neighbors(asked.n_neighbors, n)
    require_below_half(k, n)
    if asked.sample is None and not drawn.whole:
        raise ValueError(f"sample=None compares all {n:,} rows with all; of rows in blocks, sample a number of them.")
    chosen = sample_rows(len(drawn.numbers), scored_size(asked.sample, n), random_state)
    spaces = _spaces(drawn, chosen, widths, asked.metric)
    wanted = _wanted(asked, k, widths, labeled=known is not None)
    task = Task(None, n, asked.metric, drawn.numbers[chosen], k, None, known, wanted, run)
    return BlockScore(blocks, drawn, chosen, spaces, task).score()


@dataclass(frozen=True)
class BlockScore:
    """What is scored: rows in blocks, those drawn, which of them are compared with all (``chosen``), and the task."""

    blocks: RowBlocks
    drawn: BlockSample
    chosen: IntArray
    spaces: SampledSpaces
    task: Task

    def score(self) -> Score:
        """Return the score, by two passes over all rows."""
        rows = self.spaces.split(self.drawn.rows)[0]
        near, ranks, bent = self._passes(rows)
        pairs = [self._drawn_pairs(rows[space], space) for space in range(len(rows))]
        data = {"lengths": near.near[DATA].lengths[:, :, DATA], "before": pairs[DATA][0]}
        found = []
        for i, layout in enumerate(SCORED_LAYOUTS):
            statistics = self._statistics(near, layout) | {"x_in_y": ranks[i], "y_in_x": ranks[len(SCORED_LAYOUTS) + i]}
            statistics |= {"after": pairs[layout][0], "triplets": order_sums(pairs[DATA][1], pairs[layout][1])}
            scored = Layout(self.task, NO_PLACES, data, statistics, None, bent[i], errors=layout == EMBEDDING)
            found.append(scored.figures())
        ours, pca = found
        values, errors = ({name: figure[i] for name, figure in ours.items()} for i in range(2))
        return Score(values, {name: figure[0] for name, figure in pca.items()}, errors, self._heading())

    def _passes(self, rows: tuple[Array, ...]) -> tuple[FirstShare, list[IntArray], list[LocalDistortion | None]]:
        """Return the nearest of the sampled points and sums; their ranks; and the distortions of both layouts."""
        task, run = self.task, self.task.run
        n_classes = 0 if task.known is None else task.known.n_classes
        first = FirstPass(self.spaces, task.n_neighbors, n_classes, [self._scales(rows, i) for i in SCORED_LAYOUTS])
        with run.stage("nearest rows"):
            near = self.blocks.reduce(first, first.merge, run)
        in_x = near.near[DATA]
        bends = bool(task.wanted & DISTORTION_FIGURES)
        wanted = np.unique(np.concatenate([task.rows, in_x.numbers.ravel()])) if bends else task.rows[:0]
        candidates = [(i, in_x) for i in SCORED_LAYOUTS] + [(DATA, near.near[i]) for i in SCORED_LAYOUTS]
        second = SecondPass(self.spaces, tuple(candidates), wanted)
        with run.stage("ranks"):
            total = self.blocks.reduce(second, SecondShare.merge, run)
        bent: list[LocalDistortion | None] = [None] * len(SCORED_LAYOUTS)
        if bends:
            bent = self._distortions(in_x.numbers, total)
        return near, second.ranks(total), bent

    def _scales(self, rows: tuple[Array, ...], layout: int) -> tuple[float, tuple[float, float]]:
        """Return numbers near which sums lose no digits: the scale of a layout, and mean distances; from one point."""
        first, all_drawn = self.chosen[:1], np.arange(len(self.drawn.numbers))[None]
        x, y = (
            listed_distances(rows[space], self._metric(space), first, all_drawn, self.task.run)[0]
            for space in (DATA, layout)
        )
        square, others = float(y @ y), max(1, len(x) - 1)
        pilot = float(x @ y) / square if square > 0 else 1.0
        return pilot, (float(x.sum() / others), float(y.sum() / others))

    def _drawn_pairs(self, points: Array, space: int) -> tuple[FloatArray, FloatArray]:
        """Return distances of the scored points to drawn ones, to be ranked, and those of triplets."""
        run, s, m = self.task.run, len(self.drawn.numbers), len(self.chosen)
        columns = pair_columns(s, self.chosen, -(-N_RANKED_PAIRS // m), run.rng("pairs"))
        triplets = draw_triplets(s, self.chosen, N_ROW_TRIPLETS, run.rng("triplets")).reshape(m, -1)
        metric = self._metric(space)
        ranked, ordered = (listed_distances(points, metric, self.chosen, listed, run) for listed in (columns, triplets))
        return ranked, ordered

    def _metric(self, space: int) -> str:
        return self.task.metric if space == DATA else "euclidean"

    def _statistics(self, near: FirstShare, layout: int) -> Statistics:
        """Return what the first pass found out about a layout, by the names of `Layout`."""
        own, known = near.near[layout], self.task.known
        sums = near.sums[layout - 1]
        found: Statistics = {
            "lengths": own.lengths[:, :, layout],
            "stretched": near.near[DATA].lengths[:, :, layout],
            "sums": sums.pairs,
            "products": sums.products,
        }
        if known is not None:
            mine = known.classes[self.task.rows]
            same = known.classes[own.numbers] == mine[:, None]
            apart = silhouettes(sums.classes, np.bincount(known.classes), mine)
            found["labels"] = np.column_stack([same.mean(axis=1), same[:, 0], apart])
        return found

    def _distortions(self, near: IntArray, total: SecondShare) -> list[LocalDistortion | None]:
        rows = self.spaces.split(total.rows)[0]
        own, others = (np.searchsorted(total.numbers, numbers) for numbers in (self.task.rows, near))
        layouts = [rows[layout] for layout in SCORED_LAYOUTS]
        return [*distortions_of(rows[DATA], layouts, own, others, self.task.metric, self.task.run)]

    def _heading(self) -> str:
        n, m, s, q = self.task.n_points, len(self.chosen), len(self.drawn.numbers), self.spaces.widths[1]
        which = "all compared" if m == n else f"{m:,} drawn and compared with all"
        fitted = "all" if s == n else f"{s:,}"
        return (
            f"{n:,} points in {q} dimension{'s' * (q > 1)}, {self.task.n_neighbors} neighbors; {which} (± standard "
            f"error), by blocks. PCA is that of {fitted} rows; left out are r_nx_auc and geodesic_correlation, which "
            "need all rows in memory."
        )


def _refuse(asked: Asked) -> None:
    """Refuse what is not known of rows in blocks, before anything is read."""
    check.metric(asked.metric, ("precomputed",))
    if asked.metric in UNMEASURED:
        raise ValueError(
            f"metric={asked.metric!r} needs more than single rows, and these come in blocks: map the rows so that "
            "distances are Euclidean, or score a sample (blocks.sample)."
        )
    if asked.truth is not None:
        raise ValueError("truth is compared with all rows in memory, and these come in blocks: score a sample of them.")


def _opened(table: Any) -> RowBlocks:
    """Return a table in blocks, also one in memory beside blocks."""
    blocks = as_blocks(table)
    if blocks is None:
        blocks = row_blocks(table if issparse(table) else np.asarray(table))
    if isinstance(blocks, LocalBlocks) and blocks.once:
        raise ValueError(
            "A score reads all rows three times, and an iterator of blocks can be read only once: pass a function that "
            "returns a new iterator to row_blocks, or a file."
        )
    return blocks


def _all_labeled(labels: Any) -> Labeled:
    if hasattr(labels, "__dask_graph__"):
        raise ValueError(
            "labels must be in memory, one for each row, also where the rows are in blocks; got a Dask "
            f"{type(labels).__name__}: pass labels.compute()."
        )
    refuse_blocks(labels, "labels")
    known = read_labels(labels, len(labels))
    missing = len(labels) - len(known.points)
    if missing:
        raise ValueError(
            f"Rows in blocks need a label each; {missing:,} of {len(labels):,} have none: leave these rows out."
        )
    return known


def _n_drawn(sample: Any, width: int) -> int:
    """Return how many rows are drawn: as many as are to be scored at least."""
    asked = 0 if sample is None or isinstance(sample, str) else check.integer("sample", sample, 1)
    return max(asked, min(N_DRAWN_ROWS, MAX_DRAWN_ENTRIES // width))


def _spaces(drawn: BlockSample, chosen: IntArray, widths: tuple[int, int], metric: str) -> SampledSpaces:
    """Return the scored points in the spaces of the data, of the embedding and of the principal components."""
    from sklearn.decomposition import PCA

    p, q = widths
    X = drawn.rows[:, :p]
    X = X.astype(np.float64) if issparse(X) else np.asarray(X, dtype=np.float64)
    check.distinct_points(X)
    check.representable_scale(X, spread=check.column_spread(X))
    count = min(q, min(X.shape) - issparse(X))
    fitted = PCA(count, svd_solver="arpack" if issparse(X) else "auto", random_state=0).fit(X)
    axes = np.pad(fitted.components_, ((0, q - count), (0, 0))).T.copy()
    empty = SampledSpaces(drawn.numbers[chosen], (), metric, widths, fitted.mean_, axes)
    points = empty.split(drawn.rows[chosen])[0]
    check.representable_scale(points[EMBEDDING], what="Y")
    return replace(empty, points=points)


def _wanted(asked: Asked, k: int, widths: tuple[int, int], *, labeled: bool) -> frozenset[str]:
    """Return the names of the figures asked for, or refuse them."""
    missing = set(WHOLE_FIGURES) | (set() if labeled else {*LABEL_FIGURES})
    if asked.metric != "euclidean" or k <= min(widths):
        missing |= DISTORTION_FIGURES
    possible = frozenset(TABLE) - missing
    if asked.figures is None:
        return possible
    for name in asked.figures:
        check.choice("figures", name, TABLE)
        if name in WHOLE_FIGURES:
            raise ValueError(f"The figure {name!r} needs all rows in memory, and these come in blocks: leave it out.")
        if name not in possible:
            required = "labels" if name in LABEL_FIGURES else "metric='euclidean' and more neighbors than dimensions"
            raise ValueError(f"The figure {name!r} needs {required}; pass that, or leave the figure out.")
    return frozenset(asked.figures)


# Tables of the same rows side by side, read in blocks together: data, embedding and labels of one row at once.


def zipped_blocks(*sources: RowBlocks) -> RowBlocks:
    """Return the columns of several tables of the same rows as one table.

    With a Dask collection among them the others must be collections too, or arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import row_blocks
    >>> zipped_blocks(row_blocks(np.ones((5, 3))), row_blocks(np.ones((5, 2), dtype=np.float32)))
    ZippedBlocks(5 rows, 5 columns, float64)
    """
    _refuse_lengths({source.n_rows for source in sources} - {None})
    local = [source for source in sources if isinstance(source, LocalBlocks)]
    if len(local) == len(sources):
        return ZippedBlocks(*local)
    return _zipped_collections(sources)


class ZippedBlocks(LocalBlocks):
    """Rows of several tables side by side; they are cut where those of one table of all these columns would be."""

    def __init__(self, *sources: LocalBlocks) -> None:
        self.sources = sources
        self.n_features = sum(source.n_features for source in sources)
        self.n_rows = next((source.n_rows for source in sources if source.n_rows is not None), None)
        self.dtype = np.result_type(*(source.dtype for source in sources))

        self.once = any(source.once for source in sources)
        self.checkpoint = next((source.checkpoint for source in sources if source.checkpoint is not None), None)

    def key(self) -> str | None:
        """Return what the rows of all tables are known by; None if that cannot be told."""
        keys = [source.key() for source in self.sources]
        return None if None in keys else " ".join(map(str, keys))

    def _read(self, first: int) -> Iterator[Array]:
        parts = [_from(source, first, self.block_rows) for source in self.sources]
        start = first
        for rows in zip_longest(*parts):
            lengths = {0 if part is None else part.shape[0] for part in rows}
            _refuse_lengths({start + length for length in lengths})
            start += lengths.pop()
            yield _beside(rows)


def _from(source: LocalBlocks, first: int, block_rows: int) -> Iterator[Array]:
    """Yield the rows of a table from row ``first`` on in blocks."""
    begin = first - first % source.block_rows
    rows = (rows[max(0, first - start) :] for start, rows in source.blocks(begin))
    return regrouped(rows, block_rows)


def _beside(parts: tuple[Array, ...]) -> Array:
    if any(issparse(part) for part in parts):
        return hstack([csr_array(part) for part in parts], format="csr")
    return np.hstack(parts)


def _zipped_collections(sources: tuple[RowBlocks, ...]) -> RowBlocks:
    import dask.array

    from manifoldry.data._chunked.dask import DaskBlocks

    arrays: list[Any] = []
    chunks: Any = None
    for source in sorted(sources, key=lambda source: not isinstance(source, DaskBlocks)):
        if isinstance(source, DaskBlocks):
            arrays.append((source, source.counted()))
            chunks = arrays[0][1].chunks[0]
        elif isinstance(source, ArrayBlocks):
            arrays.append((source, dask.array.from_array(source.X, chunks=(chunks, -1))))
        else:
            raise ValueError(
                f"Rows of a Dask collection and of {type(source).__name__} cannot be read side by side; pass both as "
                "Dask collections, or both as files, functions or arrays."
            )
    _refuse_lengths({array.shape[0] for _, array in arrays})
    by_source = {id(source): array.rechunk({0: chunks}) for source, array in arrays}
    return DaskBlocks(dask.array.concatenate([by_source[id(source)] for source in sources], axis=1))


def _refuse_lengths(lengths: set[Any]) -> None:
    if len(lengths) > 1:
        least, most = min(lengths), max(lengths)
        raise ValueError(
            f"Tables side by side must have the same rows; one has {least:,}, another at least {most:,}: pass those of "
            "the same data."
        )
