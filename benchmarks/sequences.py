"""Embeddings over time: how far shared rows move from map to map, with and without alignment; and rows that are added.

    MANIFOLDRY_DATA=folder OPENBLAS_NUM_THREADS=1 python benchmarks/sequences.py [--only TSNE]

``split``: six data sets of 2,400 rows in 20 columns, a random 80 percent of 3,000 rows in six clusters; the rows move
at random, and from the fourth set on one cluster splits in two. ``mnist``: six windows of 3,000 images in 50 principal
components, of which 1,000 are replaced from one to the next. Every method has 15 neighbors (umap-learn counts the point
itself) or a perplexity of 30, and one thread.

``shift`` is the root mean square distance of shared rows in consecutive maps, in units of the root mean square radius
of the maps; "superimposed" maps are rotated and shifted onto the one before (Procrustes). ``gap before`` and ``gap
after``: distance of the centers of the two halves of the cluster, in units of their spread, in the third and the last
map. ``labels``: share of images whose 15 nearest in the map vote for their digit.

The second table adds 1,000 images, 300 of them of a digit that the fit has not seen, to a map of 3,000: ``new digit``
is the share of the 15 nearest neighbors of the new digit's rows that show the digit too, ``moved`` the longest and
median move of fitted rows as a share of the map's width.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import pairwise

import numpy as np
from sklearn.neighbors import NearestNeighbors

from manifoldry import PCA, TSNE, UMAP, AlignedEmbedding, datasets, metrics
from manifoldry._numerics.procrustes import rigid_fit
from tables import RESULTS, Table

K = 15
N_SETS, FIRST_SPLIT = 6, 3
METHODS = {"UMAP": (UMAP(n_jobs=1), (0.03, 0.1, 0.3)), "TSNE": (TSNE(n_jobs=1), (0.003, 0.01, 0.03))}


def split_sequence(n: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the data sets, the numbers of their rows, and a class of each row: its cluster, or half of the first."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 6
    base = 3.0 * rng.normal(size=(6, 20))[labels] + rng.normal(size=(n, 20))
    way = rng.normal(size=20)
    half = np.where(labels == 0, rng.choice([-1.0, 1.0], n), 0.0)
    sets, rows = [], []
    for t in range(N_SETS):
        gap = 3.0 * max(0, t - FIRST_SPLIT + 1)
        X = base + 0.15 * t * rng.normal(size=base.shape) + gap * half[:, None] * way / np.linalg.norm(way)
        rows.append(np.sort(rng.choice(n, int(0.8 * n), replace=False)))
        sets.append(X[rows[-1]])
    return sets, rows, [np.where(half > 0, 6, labels)[each] for each in rows]


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a random part of MNIST in 50 principal components, and the digits."""
    found = datasets.load("mnist")
    rows = np.random.default_rng(0).permutation(len(found.X))[:n]
    X = PCA(n_components=50).fit_transform(np.asarray(found.X[rows], dtype=np.float32))
    return X, np.asarray(found.labels)[rows].astype(int)


def windows(n: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    X, labels = digits(n + (N_SETS - 1) * n // 3)
    rows = [np.arange(t * n // 3, t * n // 3 + n) for t in range(N_SETS)]
    return [X[each] for each in rows], rows, [labels[each] for each in rows]


def relations_of(rows: list[np.ndarray]) -> list[dict[int, int]]:
    relations = []
    for before, after in pairwise(rows):
        shared = np.intersect1d(before, after)
        pairs = zip(np.searchsorted(before, shared).tolist(), np.searchsorted(after, shared).tolist(), strict=True)
        relations.append(dict(pairs))
    return relations


def shift(maps: list[np.ndarray], relations: list[dict[int, int]]) -> float:
    moves = [Y[[*each]] - Z[[*each.values()]] for (Y, Z), each in zip(pairwise(maps), relations, strict=True)]
    spread = np.mean([np.square(Y - Y.mean(axis=0)).sum(axis=1).mean() for Y in maps])
    return float(np.sqrt(np.square(np.concatenate(moves)).sum(axis=1).mean() / spread))


def superimposed(maps: list[np.ndarray], relations: list[dict[int, int]]) -> list[np.ndarray]:
    done = [maps[0]]
    for Y, each in zip(maps[1:], relations, strict=True):
        done.append(rigid_fit(Y[[*each.values()]], done[-1][[*each]])(Y))
    return done


def gap(Y: np.ndarray, labels: np.ndarray) -> float:
    first, second = Y[labels == 0], Y[labels == 6]
    spread = np.sqrt((first.var(axis=0).sum() + second.var(axis=0).sum()) / 2)
    return float(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)) / spread)


def votes(Y: np.ndarray, labels: np.ndarray) -> float:
    near = NearestNeighbors(n_neighbors=K).fit(Y).kneighbors(return_distance=False)
    counts = np.stack([(labels[near] == label).sum(axis=1) for label in range(labels.max() + 1)], axis=1)
    return float(np.mean(counts.argmax(axis=1) == labels))


def peer(sets, relations):
    import umap

    model = umap.AlignedUMAP(n_neighbors=K + 1, random_state=0)
    return [np.asarray(Y) for Y in model.fit(sets, relations=relations).embeddings_]


def ways():
    """Return functions of data sets and relations that return maps, by name."""
    table = {}
    for name, (method, weights) in METHODS.items():
        for weight in (0.0, *weights):
            model = AlignedEmbedding(method, alignment_weight=weight)
            named = f"{name}, weight {weight:g}" if weight else f"{name}, separate fits"
            table[named] = lambda sets, relations, model=model: model.fit(sets, relations=relations).embeddings_
    return {**table, "umap-learn AlignedUMAP": peer}


def measure_sequences(only: str) -> None:
    columns = {"data": "", "method": "", "shift": ".3f", "superimposed": ".3f", "trustworthiness": ".4f"}
    columns |= {"gap before": ".2f", "gap after": ".2f", "labels": ".3f", "CPU s": ".1f"}
    caption = (
        "Six data sets with shared rows: shift of shared rows from map to map, in radii of the maps, as they are and "
        "superimposed by Procrustes; mean trustworthiness; gap between the halves of the cluster that splits; labels."
    )
    stored = RESULTS / "sequences.json"
    kept = json.loads(stored.read_text())["rows"] if only and stored.exists() else []
    table = Table("sequences", caption, columns, ("umap-learn",))
    measured = {way: method for way, method in ways().items() if way.startswith(only)}
    table.put(row for row in kept if row["method"] in ways() and row["method"] not in measured)
    data = {"split": split_sequence(3000), "mnist": windows(3000)}
    for method in measured.values():  # compiled here
        tiny = split_sequence(120)
        method(tiny[0], relations_of(tiny[1]))
    for name, (sets, rows, labels) in data.items():
        relations = relations_of(rows)
        for way, method in measured.items():
            begun = time.process_time()
            maps = method(sets, relations)
            seconds = time.process_time() - begun
            trust = [float(metrics.trustworthiness(X, Y, n_neighbors=K)) for X, Y in zip(sets, maps, strict=True)]
            cells = {"shift": shift(maps, relations), "superimposed": shift(superimposed(maps, relations), relations)}
            if name == "split":
                cells |= {"gap before": gap(maps[2], labels[2]), "gap after": gap(maps[-1], labels[-1])}
            else:
                cells["labels"] = np.mean([votes(Y, each) for Y, each in zip(maps, labels, strict=True)])
            table.add(data=name, method=way, trustworthiness=np.mean(trust), CPU_s=seconds, **cells)
    order = list(ways())
    table.put(sorted(table.rows, key=lambda row: (list(data).index(row["data"]), order.index(row["method"]))))


def measure_updates() -> None:
    columns = {"method": "", "new rows by": "", "new digit": ".3f", "labels": ".3f", "trustworthiness": ".4f"}
    columns |= {"longest move": ".4f", "median move": ".4f", "CPU s": ".1f"}
    caption = (
        "1,000 images added to a map of 3,000, 300 of them of a digit that is not in the map: neighbors of the new "
        "digit in the map, labels, trustworthiness, and moves of the fitted rows as shares of the map's width."
    )
    table = Table("sequences_update", caption, columns)
    X, labels = digits(9000)
    n, m, k = 3000, 1000, 300
    seen, unseen = np.flatnonzero(labels != 7), np.flatnonzero(labels == 7)[:k]
    rows = np.concatenate([seen[: n + m - k], unseen])
    X, labels = X[rows], labels[rows]
    for name, (method, _) in METHODS.items():
        for way in ("transform", "update", "a new fit"):
            model = type(method)(**method.get_params()).fit(X[:n])
            before, begun = model.embedding_.copy(), time.process_time()
            if way == "transform":
                Y = np.concatenate([before, model.transform(X[n:])])
            else:
                Y = (model.update(X[n:]) if way == "update" else model.fit(X)).embedding_
            seconds = time.process_time() - begun
            placed = rigid_fit(Y[:n], before)(Y[:n]) if way == "a new fit" else Y[:n]
            moves = np.linalg.norm(placed - before, axis=1) / np.ptp(before, axis=0).max()
            near = NearestNeighbors(n_neighbors=K + 1).fit(Y).kneighbors(Y[-k:], return_distance=False)[:, 1:]
            table.add(
                method=name,
                new_rows_by=way,
                new_digit=float((labels[near] == 7).mean()),
                labels=votes(Y, labels),
                trustworthiness=float(metrics.trustworthiness(X, Y, n_neighbors=K)),
                longest_move=float(moves.max()),
                median_move=float(np.median(moves)),
                CPU_s=seconds,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure the methods whose names begin so, and keep the other rows")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    measure_sequences(arguments.only)
    if not arguments.only:
        measure_updates()
