"""A plan for a billion rows: what a row costs here, at a size that fits here, and what that comes to.

    MANIFOLDRY_DATA=folder python benchmarks/billion.py [--quick]

Every step runs on one thread and is measured in seconds of the processor, over 1,000,000 rows (placing: 100,000), once
without what it costs at the start. What a billion rows would take is **extrapolated**: the cost of a row times their
number, shared by workers of one thread without loss, and the fixed part once. Reading the rows is not in it. Rows are
those of `interpolated_digits`, 50 columns in single precision; of IPA those of a Swiss roll. ``--quick`` takes a
fiftieth of the rows and stores no table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from interpolated_digits import InterpolatedDigits
from manifoldry import IPA, PCA, UMAP, chunked_data, datasets
from manifoldry._core.run import Run
from manifoldry.graph._search import NeighborIndex, NeighborRule
from tables import Table

N_BILLION, N_WORKERS = 1_000_000_000, 64
N_STREAMED, N_PLACED, N_ASKED = 1_000_000, 100_000, 500
SHARD_ROWS = 262_144
"""Rows of 50 columns that are searched as one, where the graph of rows in blocks is sought."""
COLUMNS = {"step": "", "passes": "", "fixed, CPU s": ".0f", "a row, CPU µs": ",.2f", "read, GB": ",.0f"}
COLUMNS |= {"2 cores, hours": ",.2f", f"{N_WORKERS} workers, minutes": ",.1f", "what leaves a worker": ""}


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def read(blocks) -> None:
    for _ in blocks:
        pass


def line(step: str, fixed: float, a_row: float, columns: int, passes: int, sent: str) -> dict[str, object]:
    """Return a row of the table from the seconds of the processor at the start and of one row."""
    total = a_row * N_BILLION
    return {
        "step": step,
        "passes": f"{passes:,}",
        "fixed, CPU s": fixed,
        "a row, CPU µs": 1e6 * a_row,
        "read, GB": passes * 4 * columns * N_BILLION / 1e9,
        "2 cores, hours": (fixed + total / 2) / 3600,
        f"{N_WORKERS} workers, minutes": (fixed + total / N_WORKERS) / 60,
        "what leaves a worker": sent,
    }


def linear(X: np.ndarray, n: int) -> list[dict[str, object]]:
    fit = cpu_seconds(lambda: PCA(n_components=2).fit(chunked_data(X)))
    small = cpu_seconds(lambda: PCA(n_components=2).fit(chunked_data(X[: n // 10])))
    model = PCA(n_components=2).fit(X[:1000])
    place = cpu_seconds(lambda: read(model.transform(chunked_data(X))))
    a_row = (fit - small) / (0.9 * n)
    return [
        line("PCA, fit to all rows", max(0.0, fit - a_row * n), a_row, X.shape[1], 2, "sums, 20 kB"),
        line("PCA, place", 0.0, place / n, X.shape[1], 1, "nothing"),
    ]


def patches(n: int) -> list[dict[str, object]]:
    X = datasets.swiss_roll(n).X.astype(np.float32)
    fit = cpu_seconds(lambda: IPA(n_components=2, n_jobs=1).fit(chunked_data(X)))
    model = IPA(n_components=2, n_jobs=1)
    small = cpu_seconds(lambda: model.fit(chunked_data(X[: n // 10])))
    place = cpu_seconds(lambda: read(model.transform(chunked_data(X))))
    a_row = (fit - small) / (0.9 * n)
    return [
        line("IPA, fit to all rows", max(0.0, fit - a_row * n), a_row, 3, 2, "overlaps of patches"),
        line("IPA, place", 0.0, place / n, 3, 1, "nothing"),
    ]


def landmarks(X: np.ndarray, n: int, n_placed: int) -> list[dict[str, object]]:
    blocks = chunked_data(lambda: iter(np.array_split(X, 16)), n_rows=len(X))
    size = min(UMAP._chunk_support.n_rows, n // 5)
    draw = cpu_seconds(lambda: blocks.sample(size, np.random.default_rng(0)))
    model = UMAP(n_jobs=1)
    fit = cpu_seconds(lambda: model.fit(X[:size]))
    model.transform(X[-100:])
    new = X[-n_placed:]
    place = cpu_seconds(lambda: read(model.transform(chunked_data(new))))
    run = Run(0, 1)
    search = cpu_seconds(lambda: model._extension.index.query(new, run))
    return [
        line(f"UMAP, {size:,} landmarks drawn and fitted", fit, draw / n, X.shape[1], 1, "the landmarks, once"),
        line("UMAP, place", 0.0, place / n_placed, X.shape[1], 1, "nothing; the map comes, 60 MB"),
        line(f"15 nearest of {size:,} landmarks", 0.0, search / n_placed, X.shape[1], 1, "nothing"),
    ]


def graphs(X: np.ndarray, n: int, n_asked: int) -> list[dict[str, object]]:
    """Measure the graph of all rows, by an index of every shard and exactly: a row is sought in each of the shards."""
    asked, run = X[-n_asked:], Run(0, 1)
    rows = min(SHARD_ROWS, n // 2)
    built: list[NeighborIndex] = []
    rule = NeighborRule(15, search="approximate").resolve(rows)
    build = cpu_seconds(lambda: built.append(NeighborIndex(X[:rows], rule, run)))
    query = cpu_seconds(lambda: built[0].query(asked, run))
    exact = cpu_seconds(lambda: nearest_points(asked, X))
    by_index = build / rows + query / n_asked * (N_BILLION / rows)
    sent, passes = "every block, to every worker", -(-N_BILLION // rows)
    return [
        line(f"15 nearest of all rows, by an index of each {rows:,}", 0.0, by_index, X.shape[1], passes, sent),
        line("15 nearest of all rows, exact", 0.0, exact / n_asked * (N_BILLION / n), X.shape[1], passes, sent),
    ]


def nearest_points(Q: np.ndarray, X: np.ndarray) -> None:
    """Find the nearest of all rows by blocks of them, as a pass does."""
    from sklearn.neighbors import NearestNeighbors

    for lo in range(0, len(X), 65_536):
        NearestNeighbors(n_neighbors=15, algorithm="brute", n_jobs=1).fit(X[lo : lo + 65_536]).kneighbors(Q)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    share = 50 if asked.quick else 1
    n, n_placed = N_STREAMED // share, N_PLACED // share
    X = np.concatenate(list(InterpolatedDigits.load().rows(n)))
    caption = (
        f"A billion rows, extrapolated from {n:,} (50 columns; IPA: 3) in seconds of one core. Hours and minutes are "
        "the cost of a row times a billion, shared without loss, and the fixed part; reading is not in them."
    )
    table = None if asked.quick else Table("billion", caption, COLUMNS)
    for part in (
        lambda: linear(X, n),
        lambda: patches(n),
        lambda: landmarks(X, n, n_placed),
        lambda: graphs(X, n, N_ASKED),
    ):
        for row in part():
            print(row) if table is None else table.add(**row)


if __name__ == "__main__":
    main()
