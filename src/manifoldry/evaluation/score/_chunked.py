"""The score of chunked data: sampled points against all rows, read three times, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from manifoldry._core import check
from manifoldry._core.arrays import check_in_memory
from manifoldry._core.chunks import ChunkedData
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.ranks import check_below_half, chosen_neighbors
from manifoldry.data._chunked import ChunkSample, as_chunked, chunked_data
from manifoldry.data._chunked.local import ArrayChunks, LocalChunks
from manifoldry.data._chunked.store import regrouped
from manifoldry.evaluation._metrics._distortion import LocalDistortion, distortions_of
from manifoldry.evaluation._metrics._shepard import order_sums, pair_columns
from manifoldry.evaluation._metrics._truth import Labeled, read_labels, silhouettes
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
from manifoldry.evaluation.score._statistics import (
    DISTORTION_METRICS,
    LABEL_METRICS,
    N_RANKED_PAIRS,
    N_ROW_TRIPLETS,
    TRUTH_METRICS,
    LayoutMetrics,
    ScoreTask,
    Statistics,
    baseline_pca,
)
from manifoldry.evaluation.score._table import Score, ScoreOptions, checked_metrics, scored_size
from manifoldry.graph._pairwise import distances_to_listed, draw_triplets, sample_rows

N_DRAWN_ROWS, MAX_DRAWN_ENTRIES = 20_000, 2**24  # rows drawn, and entries (128 MB), for PCA
WHOLE_METRICS = frozenset({"r_nx_auc", "geodesic_correlation", *TRUTH_METRICS})
"""Metrics that need the ranks of all rows, a graph of all rows, or all rows of two tables at once."""
UNSUPPORTED_METRICS = ("precomputed", "seuclidean", "mahalanobis", "hellinger")
"""Distances that need all pairs, or a map of the rows before."""


def score_chunked(X: Any, Y: Any, options: ScoreOptions, random_state: Any, n_jobs: int | None) -> Score:
    """Return the score of an embedding of chunked data."""
    _check_options(options)
    run = Run(random_state, n_jobs)
    data, coordinates = _opened(X), _opened(Y)
    labels = None if options.labels is None else _all_labeled(options.labels)
    parts = [data, coordinates] if labels is None else [data, coordinates, chunked_data(labels.classes[:, None])]
    blocks = zip_chunks(*parts)
    widths = data.n_features, coordinates.n_features
    drawn = blocks.sample(_n_drawn(options.sample, blocks.n_features), run.rng("drawn rows"))
    n = drawn.n_rows
    k = chosen_neighbors(options.n_neighbors, n)
    check_below_half(k, n)
    if options.sample is None and not drawn.whole:
        raise ValueError(f"sample=None compares all {n:,} rows with all; with chunked data, pass a number of rows.")
    chosen = sample_rows(len(drawn.numbers), scored_size(options.sample, n), random_state)
    spaces = _spaces(drawn, chosen, widths, options.metric)
    names = _metrics(options, k, widths, labeled=labels is not None)
    task = ScoreTask(None, n, options.metric, drawn.numbers[chosen], k, None, labels, names, run)
    return ChunkedScore(blocks, drawn, chosen, spaces, task).score()


@dataclass(frozen=True)
class ChunkedScore:
    """Chunked data, the rows drawn from it, which of these are compared with all (``chosen``), and the task."""

    blocks: ChunkedData
    drawn: ChunkSample
    chosen: IntArray
    spaces: SampledSpaces
    task: ScoreTask

    def score(self) -> Score:
        """Return the score, by two passes over all rows."""
        rows = self.spaces.split(self.drawn.rows)[0]
        first, ranks, distortions = self._passes(rows)
        pairs = [self._drawn_pairs(rows[space], space) for space in range(len(rows))]
        data = Statistics(first.near[DATA].lengths[:, :, DATA], pairs[DATA][0])
        estimates = []
        for i, layout in enumerate(SCORED_LAYOUTS):
            pair_sums, products, by_class = first.of(layout)
            statistics = Statistics(
                first.near[layout].lengths[:, :, layout],
                pairs[layout][0],
                x_in_y=ranks[i],
                y_in_x=ranks[len(SCORED_LAYOUTS) + i],
                sums=pair_sums,
                products=products,
                triplets=order_sums(pairs[DATA][1], pairs[layout][1]),
                neighbor_distances=first.near[DATA].lengths[:, :, layout],
                label_columns=self._label_columns(first.near[layout].numbers, by_class),
            )
            metrics = LayoutMetrics(
                self.task, np.empty((0, 0)), data, statistics, None, distortions[i], errors=layout == EMBEDDING
            )
            estimates.append(metrics.estimates())
        embedding, pca = estimates
        return Score.of(embedding, pca, self._heading())

    def _passes(self, rows: tuple[Array, ...]) -> tuple[FirstShare, list[IntArray], list[LocalDistortion | None]]:
        """Return the nearest of the sampled points and sums; their ranks; and the distortions of both layouts."""
        task, run = self.task, self.task.run
        n_classes = 0 if task.labels is None else task.labels.n_classes
        first = FirstPass(self.spaces, task.n_neighbors, n_classes, [self._scales(rows, i) for i in SCORED_LAYOUTS])
        with run.stage("nearest rows"):
            near = self.blocks.reduce(first, first.merge, run)
        in_x = near.near[DATA]
        distorted = task.needs(DISTORTION_METRICS)
        needed = np.unique(np.concatenate([task.rows, in_x.numbers.ravel()])) if distorted else task.rows[:0]
        candidates = [(i, in_x) for i in SCORED_LAYOUTS] + [(DATA, near.near[i]) for i in SCORED_LAYOUTS]
        second = SecondPass(self.spaces, tuple(candidates), needed)
        with run.stage("ranks"):
            total = self.blocks.reduce(second, SecondShare.merge, run)
        distortions: list[LocalDistortion | None] = [None] * len(SCORED_LAYOUTS)
        if distorted:
            distortions = self._distortions(in_x.numbers, total)
        return near, second.ranks(total), distortions

    def _scales(self, rows: tuple[Array, ...], layout: int) -> tuple[float, tuple[float, float]]:
        """Return the scale of a layout and mean distances, from one point: sums about these lose no digits."""
        first, all_drawn = self.chosen[:1], np.arange(len(self.drawn.numbers))[None]
        x, y = (
            distances_to_listed(rows[space], self._metric(space), first, all_drawn, self.task.run)[0]
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
        ranked, ordered = (
            distances_to_listed(points, metric, self.chosen, listed, run) for listed in (columns, triplets)
        )
        return ranked, ordered

    def _metric(self, space: int) -> str:
        return self.task.metric if space == DATA else "euclidean"

    def _label_columns(self, near: IntArray, by_class: FloatArray) -> FloatArray | None:
        """Return the columns of `label_rows`, from the nearest rows and the sums by class."""
        labels = self.task.labels
        if labels is None:
            return None
        classes = labels.classes[self.task.rows]
        same = labels.classes[near] == classes[:, None]
        separation = silhouettes(by_class, np.bincount(labels.classes), classes)
        return np.column_stack([same.mean(axis=1), same[:, 0], separation])

    def _distortions(self, near: IntArray, total: SecondShare) -> list[LocalDistortion | None]:
        rows = self.spaces.split(total.rows)[0]
        points, neighbors = (np.searchsorted(total.numbers, numbers) for numbers in (self.task.rows, near))
        layouts = [rows[layout] for layout in SCORED_LAYOUTS]
        return [*distortions_of(rows[DATA], layouts, points, neighbors, self.task.metric, self.task.run)]

    def _heading(self) -> str:
        n, m, s, q = self.task.n_points, len(self.chosen), len(self.drawn.numbers), self.spaces.widths[1]
        which = "all compared" if m == n else f"{m:,} drawn and compared with all"
        fitted = "all" if s == n else f"{s:,}"
        return (
            f"{n:,} points in {q} dimension{'s' * (q > 1)}, {self.task.n_neighbors} neighbors; {which} (± standard "
            f"error), by chunks. PCA is fitted to {fitted} rows; r_nx_auc and geodesic_correlation need all rows in "
            "memory and are left out."
        )


def _check_options(options: ScoreOptions) -> None:
    """Raise an error for options that chunked data does not have, before anything is read."""
    check.metric(options.metric, ("precomputed",))
    if options.metric in UNSUPPORTED_METRICS:
        raise ValueError(
            f"metric={options.metric!r} needs more than individual rows, and X is chunked: map the rows so that "
            "distances are Euclidean, or score a sample (blocks.sample)."
        )
    if options.truth is not None:
        raise ValueError("truth is compared with all rows in memory, and X is chunked: score a sample of the rows.")


def _opened(table: Any) -> ChunkedData:
    """Return a table as chunked data, also one in memory next to a chunked one."""
    blocks = as_chunked(table)
    if blocks is None:
        blocks = chunked_data(table if issparse(table) else np.asarray(table))
    if isinstance(blocks, LocalChunks) and blocks.once:
        raise ValueError(
            "A score reads all rows three times, and an iterator of blocks can be read only once: pass a function that "
            "returns a new iterator to chunked_data, or a file."
        )
    return blocks


def _all_labeled(labels: Any) -> Labeled:
    if hasattr(labels, "__dask_graph__"):
        raise ValueError(
            "labels must be in memory, one for each row, also where the rows are chunked; got a Dask "
            f"{type(labels).__name__}: pass labels.compute()."
        )
    check_in_memory(labels, "labels")
    labeled = read_labels(labels, len(labels))
    missing = len(labels) - len(labeled.points)
    if missing:
        raise ValueError(
            f"Every row of chunked data needs a label; {missing:,} of {len(labels):,} have none: leave these rows out."
        )
    return labeled


def _n_drawn(sample: Any, width: int) -> int:
    """Return how many rows are drawn: at least those that are scored."""
    scored = 0 if sample is None or isinstance(sample, str) else check.integer("sample", sample, 1)
    return max(scored, min(N_DRAWN_ROWS, MAX_DRAWN_ENTRIES // width))


def _spaces(drawn: ChunkSample, chosen: IntArray, widths: tuple[int, int], metric: str) -> SampledSpaces:
    """Return the scored points in the spaces of the data, of the embedding and of the principal components."""
    p, q = widths
    X = drawn.rows[:, :p]
    X = X.astype(np.float64) if issparse(X) else np.asarray(X, dtype=np.float64)
    check.distinct_points(X)
    check.representable_scale(X, spread=check.column_spread(X))
    pca, missing = baseline_pca(X, q)
    pca.fit(X)
    axes = np.pad(pca.components_, ((0, missing), (0, 0))).T.copy()
    empty = SampledSpaces(drawn.numbers[chosen], (), metric, widths, pca.mean_, axes)
    points = empty.split(drawn.rows[chosen])[0]
    check.representable_scale(points[EMBEDDING], what="Y")
    return replace(empty, points=points)


def _metrics(options: ScoreOptions, k: int, widths: tuple[int, int], *, labeled: bool) -> frozenset[str]:
    """Return the valid names of the metrics to compute."""
    undefined = dict.fromkeys(WHOLE_METRICS, "all rows in memory, and X is chunked")
    if not labeled:
        undefined |= dict.fromkeys(LABEL_METRICS, "labels")
    if options.metric != "euclidean" or k <= min(widths):
        undefined |= dict.fromkeys(DISTORTION_METRICS, "metric='euclidean' and more neighbors than dimensions")
    return checked_metrics(options.figures, undefined)


def zip_chunks(*sources: ChunkedData) -> ChunkedData:
    """Return the columns of several tables of the same rows as one table."""
    _check_lengths({source.n_rows for source in sources} - {None})
    local = [source for source in sources if isinstance(source, LocalChunks)]
    if len(local) == len(sources):
        return ZippedChunks(*local)
    return _zipped_collections(sources)


class ZippedChunks(LocalChunks):
    """Rows of several tables side by side; they are cut where those of one table of all these columns would be."""

    def __init__(self, *sources: LocalChunks) -> None:
        self.sources = sources
        self.n_features = sum(source.n_features for source in sources)
        self.n_rows = next((source.n_rows for source in sources if source.n_rows is not None), None)
        self.dtype = np.result_type(*(source.dtype for source in sources))

        self.once = any(source.once for source in sources)
        self.checkpoint = next((source.checkpoint for source in sources if source.checkpoint is not None), None)

    def key(self) -> str | None:
        """Return what identifies the rows of all tables; None if one of them has nothing."""
        keys = [source.key() for source in self.sources]
        return None if None in keys else " ".join(map(str, keys))

    def _read(self, first: int) -> Iterator[Array]:
        parts = [_from(source, first, self.chunk_rows) for source in self.sources]
        start = first
        for rows in zip_longest(*parts):
            lengths = {0 if part is None else part.shape[0] for part in rows}
            _check_lengths({start + length for length in lengths})
            start += lengths.pop()
            sparse = any(issparse(part) for part in rows)
            yield hstack([csr_array(part) for part in rows], format="csr") if sparse else np.hstack(rows)


def _from(source: LocalChunks, first: int, chunk_rows: int) -> Iterator[Array]:
    """Yield the rows of a table from row ``first`` on in blocks."""
    begin = first - first % source.chunk_rows
    rows = (rows[max(0, first - start) :] for start, rows in source.blocks(begin))
    return regrouped(rows, chunk_rows)


def _zipped_collections(sources: tuple[ChunkedData, ...]) -> ChunkedData:
    import dask.array

    from manifoldry.data._chunked.dask import DaskChunks

    arrays: list[Any] = []
    chunks: Any = None
    for source in sorted(sources, key=lambda source: not isinstance(source, DaskChunks)):
        if isinstance(source, DaskChunks):
            arrays.append((source, source.counted()))
            chunks = arrays[0][1].chunks[0]
        elif isinstance(source, ArrayChunks):
            arrays.append((source, dask.array.from_array(source.X, chunks=(chunks, -1))))
        else:
            raise ValueError(
                f"Rows of a Dask collection and of {type(source).__name__} cannot be read side by side; pass both as "
                "Dask collections, or both as files, functions or arrays."
            )
    _check_lengths({array.shape[0] for _, array in arrays})
    by_source = {id(source): array.rechunk({0: chunks}) for source, array in arrays}
    return DaskChunks(dask.array.concatenate([by_source[id(source)] for source in sources], axis=1))


def _check_lengths(lengths: set[Any]) -> None:
    if len(lengths) > 1:
        least, most = min(lengths), max(lengths)
        raise ValueError(
            f"Tables side by side must have the same rows; one has {least:,}, another at least {most:,}: pass those of "
            "the same data."
        )
