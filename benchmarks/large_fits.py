"""Large fits on two threads against umap-learn, openTSNE, PaCMAP, pynndescent and scikit-learn: one run, as ratios.

    MANIFOLDRY_DATA=folder python benchmarks/large_fits.py [--quick] [--only TSNE ...]

Every fit runs in a process of its own that has fitted 1,500 points before, with two threads for every library. The
quality is that of the same metric for each library: trustworthiness and label accuracy of pictures, the error after a
rigid motion of unfolded sheets, recall of neighbors (1,000 rows against an exact search). ``--quick`` takes a tenth of
the points. Stores the table. Needs the extra ``peers``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import manifoldry
import peers
from manifoldry import datasets, metrics
from manifoldry._numerics.ranks import rank_measures
from neighbor_embeddings import label_score, layout, opentsne, pacmap, umap_learn, umap_seeded
from neighbor_embeddings import load as load_mnist
from tables import Table

peers.MAX_SECONDS = 1200
N_THREADS, N_NEIGHBORS = 2, 15
Rows = tuple[np.ndarray, np.ndarray]
Quality = Callable[[np.ndarray, np.ndarray, np.ndarray], dict[str, float]]


def own(name: str, **settings: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: getattr(manifoldry, name)(n_jobs=N_THREADS, **settings).fit(X).embedding_


def sklearn_manifold(name: str, **settings: Any) -> Callable[[np.ndarray], np.ndarray]:
    def fit(X: np.ndarray) -> np.ndarray:
        from sklearn import manifold

        return getattr(manifold, name)(n_jobs=N_THREADS, **settings).fit_transform(X)

    return fit


def own_search(X: np.ndarray) -> np.ndarray:
    from manifoldry._core.run import Run
    from manifoldry.graph._search import NeighborRule, neighbor_graph

    graph, _ = neighbor_graph(X, NeighborRule(N_NEIGHBORS).resolve(len(X)), Run(0, N_THREADS))
    return graph.indices.reshape(len(X), -1)


def pynndescent(X: np.ndarray) -> np.ndarray:
    from pynndescent import NNDescent

    # The point itself is in its list.
    return NNDescent(X, n_neighbors=N_NEIGHBORS + 1, random_state=0, n_jobs=N_THREADS).neighbor_graph[0]


def sklearn_search(X: np.ndarray) -> np.ndarray:
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute", n_jobs=N_THREADS).fit(X)
    return search.kneighbors(return_distance=False)


def picture_quality(X: np.ndarray, Y: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    ranks = rank_measures(X, Y, n_neighbors=15, sample=1000)
    return {"trust": float(ranks.trustworthiness), "labels": label_score(Y, labels)}


def sheet_quality(X: np.ndarray, Y: np.ndarray, truth: np.ndarray) -> dict[str, float]:  # noqa: ARG001
    some = np.random.default_rng(0).permutation(len(Y))[:20_000]
    return {"rigid_error": float(metrics.procrustes(Y[some], truth[some]).error)}


def recall(X: np.ndarray, Y: np.ndarray, _: np.ndarray) -> dict[str, float]:
    some = np.random.default_rng(0).permutation(len(X))[:1000]
    squares = np.square(X).sum(axis=1)
    away = squares - 2 * X[some] @ X.T
    away[np.arange(len(some)), some] = np.inf
    exact = np.argpartition(away, N_NEIGHBORS, axis=1)[:, :N_NEIGHBORS]
    hits = [len(np.intersect1d(mine, theirs)) for mine, theirs in zip(exact, Y[some], strict=True)]
    return {"recall": float(np.mean(hits) / N_NEIGHBORS)}


def roll(n: int) -> Rows:
    sheet = datasets.swiss_roll(n, random_state=0)
    return sheet.X, sheet.truth


@dataclass(frozen=True)
class Task:
    """Data by number of rows, its quality, and the libraries, ours first."""

    data: str
    load: Callable[[int], Rows]
    n_rows: int
    quality: Quality
    libraries: dict[str, Callable[[np.ndarray], np.ndarray]]


def mnist(name: str) -> Callable[[int], Rows]:
    def load(n: int) -> Rows:
        X, labels = load_mnist(name)
        return X[:n], labels[:n]

    return load


TASKS = {
    "UMAP": Task("mnist50", mnist("mnist50"), 70_000, picture_quality, {
        "manifoldry": own("UMAP"),
        "umap-learn": lambda X: layout(umap_learn(), X),
        "umap-learn, seeded": lambda X: layout(umap_seeded(), X),
        "PaCMAP": lambda X: layout(pacmap(), X),
    }),
    "TSNE": Task("mnist50", mnist("mnist50"), 70_000, picture_quality, {
        "manifoldry": own("TSNE"),
        "openTSNE": lambda X: layout(opentsne(), X),
    }),
    "IPA": Task("roll", roll, 1_000_000, sheet_quality, {"manifoldry": own("IPA")}),
    "LTSA": Task("roll", roll, 200_000, sheet_quality, {
        "manifoldry": own("LTSA"),
        "scikit-learn": sklearn_manifold("LocallyLinearEmbedding", method="ltsa", n_neighbors=10),
    }),
    "LandmarkIsomap": Task("roll", roll, 1_000_000, sheet_quality, {"manifoldry": own("LandmarkIsomap")}),
    "neighbor search": Task("mnist784", mnist("mnist784"), 70_000, recall, {
        "manifoldry": own_search,
        "pynndescent": pynndescent,
        "scikit-learn": sklearn_search,
    }),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--cell", nargs=3)
    parser.add_argument("--save")
    options = parser.parse_args()
    if options.cell:
        task, library, path = options.cell
        cell = peers.measure(TASKS[task].libraries[library], np.load(path), repeats=2)
        np.save(options.save, cell.pop("Y"))
        print(json.dumps(cell))
        return
    columns = {"fit": "", "data": "", "rows": ",", "library": "", "seconds": ".2f", "times ours": ".2f"}
    columns |= {"added MB": ".0f", "trust": ".4f", "labels": ".4f", "rigid error": ".1e", "recall": ".4f"}
    caption = (
        "Large fits with two threads: the better of two fits in a process that has fitted 1,500 points before. Rigid "
        "error: root mean square distance to the true sheet after a rigid motion, relative to its size."
    )
    table = Table("large_fits", caption, columns, ("umap-learn", "openTSNE", "pacmap", "pynndescent"))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            compare(table, name, TASKS[name].n_rows // (10 if options.quick else 1), Path(folder))


def compare(table: Table, name: str, n_rows: int, folder: Path) -> None:
    """Add a row for each library."""
    task, base = TASKS[name], None
    X, truth = task.load(n_rows)
    path = folder / f"{task.data}.npy"
    np.save(path, X)
    for library in task.libraries:
        cell = peers.in_own_process(__file__, [name, library, str(path)], folder)
        row = {"fit": name, "data": task.data, "rows": len(X), "library": library}
        if "error" in cell:
            table.add(**row, error=cell["error"])
            continue
        base = base or cell["seconds"]
        quality = task.quality(X, cell["Y"], truth)
        table.add(
            **row, seconds=cell["seconds"], times_ours=cell["seconds"] / base, added_MB=cell["added_mb"], **quality
        )


if __name__ == "__main__":
    main()
