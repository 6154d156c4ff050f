"""Neighbor search against pynndescent, FAISS, scipy and scikit-learn, k = 15, same data, one run, as ratios.

    MANIFOLDRY_DATA=folder python benchmarks/search.py [--quick]

MNIST with 50 principal columns and with all 784 (left out when the folder has no mnist.npz), and a million points of
the holed Swiss roll; with ``--quick`` only 50,000 points of the roll. Recall is measured on 1,000 rows against an
exact search. Two threads each; compiled loops are warm, and the processor's seconds stand beside those of the clock.
Stores the table. Needs the extra ``peers`` (psutil, pynndescent).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from manifoldry import datasets
from peers import in_own_process, measure
from tables import Table

N_NEIGHBORS = 15


def manifoldry(X):
    from manifoldry._core.run import Run
    from manifoldry.graph._search import NeighborRule, neighbor_graph

    graph, _ = neighbor_graph(X, NeighborRule(N_NEIGHBORS).resolve(len(X)), Run(0, 2))
    return graph.indices.reshape(len(X), -1)


def pynndescent(X):
    from pynndescent import NNDescent

    # The point itself is in its list.
    return NNDescent(X, n_neighbors=N_NEIGHBORS + 1, random_state=0, n_jobs=2).neighbor_graph[0]


def faiss_ivf(X):
    import faiss

    index = faiss.index_factory(X.shape[1], f"IVF{int(np.sqrt(len(X)))},Flat")
    index.train(X)
    index.add(X)
    index.nprobe = 8
    return index.search(X, N_NEIGHBORS + 1)[1]


def faiss_hnsw(X):
    import faiss

    index = faiss.IndexHNSWFlat(X.shape[1], 16)
    index.add(X)
    index.hnsw.efSearch = 64
    return index.search(X, N_NEIGHBORS + 1)[1]


def faiss_flat(X):
    import faiss

    return faiss.knn(X, X, N_NEIGHBORS + 1)[1]


def sklearn_brute(X):
    from sklearn.neighbors import NearestNeighbors

    return (
        NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute", n_jobs=2).fit(X).kneighbors(X, N_NEIGHBORS + 1)[1]
    )


def scipy_tree(X):
    from scipy.spatial import cKDTree

    return cKDTree(X).query(X, N_NEIGHBORS + 1, workers=2)[1]


ENGINES = {
    f.__name__: f for f in (manifoldry, pynndescent, faiss_ivf, faiss_hnsw, faiss_flat, sklearn_brute, scipy_tree)
}
CELLS = [
    ("mnist50", ("manifoldry", "pynndescent", "faiss_ivf", "faiss_hnsw", "faiss_flat", "sklearn_brute")),
    ("mnist784", ("manifoldry", "pynndescent", "faiss_ivf", "faiss_hnsw")),
    ("roll1m", ("manifoldry", "scipy_tree", "faiss_ivf")),
]
QUICK = [("roll50k", ("manifoldry", "scipy_tree", "faiss_ivf", "pynndescent"))]
COLUMNS = {"data": "", "engine": "", "seconds": ".2f", "times ours": ".1f", "processor": ".2f", "recall": ".4f"}


def load(name: str) -> np.ndarray:
    if name.startswith("roll"):
        return datasets.swiss_roll({"roll1m": 1_000_000, "roll50k": 50_000}[name], hole=True).X.astype(np.float32)
    X = datasets.load("mnist").X.astype(np.float32)
    if name == "mnist784":
        return X
    centered = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return np.ascontiguousarray(centered @ vectors[:, ::-1][:, :50])


def recall(X: np.ndarray, found: np.ndarray) -> float:
    from scipy.spatial import cKDTree
    from sklearn.neighbors import NearestNeighbors

    rows = np.random.default_rng(0).choice(len(X), 1000, replace=False)
    if X.shape[1] <= 8:
        truth = cKDTree(X).query(X[rows], N_NEIGHBORS + 1)[1]
    else:
        truth = NearestNeighbors(algorithm="brute").fit(X).kneighbors(X[rows], N_NEIGHBORS + 1)[1]
    hits = [len((set(found[row]) & set(true)) - {row}) for row, true in zip(rows, truth, strict=True)]
    return float(np.mean(hits)) / N_NEIGHBORS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small set")
    parser.add_argument("--cell", nargs=2, metavar=("ENGINE", "DATA"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(*options.cell, options.save)
        return
    caption = (
        f"Neighbor search, k = {N_NEIGHBORS}, two threads, best of three once loops are compiled. Recall is measured "
        "on 1,000 rows."
    )
    table = Table("search", caption, COLUMNS, ("pynndescent",))
    with tempfile.TemporaryDirectory() as folder:
        for data, engines in QUICK if options.quick else CELLS:
            if data.startswith("mnist") and "mnist" not in datasets.available():
                print(f"{data} is left out: set MANIFOLDRY_DATA to a folder with mnist.npz")
                continue
            compare(table, data, engines, Path(folder))


def run_cell(engine: str, data: str, save: str) -> None:
    X = load(data)
    processor = []

    def search(rows):
        start = time.process_time()
        found = ENGINES[engine](rows)
        processor.append(time.process_time() - start)
        return found

    result = measure(search, X, 3, 1000)
    result["processor"] = min(processor[1:])  # the first was the warm-up
    result["recall"] = recall(X, result["Y"])
    np.save(save, result.pop("Y")[:10])
    print(json.dumps(result))


def compare(table: Table, data: str, engines: tuple[str, ...], folder: Path) -> None:
    """Add a row per engine; the first is ours."""
    base = None
    for engine in engines:
        cell = in_own_process(__file__, [engine, data], folder)
        if "error" in cell:
            table.add(data=data, engine=engine, error=cell["error"])
            continue
        base = base or cell["seconds"]
        measured = {key: cell[key] for key in ("seconds", "processor", "recall")}
        table.add(data=data, engine=engine, times_ours=cell["seconds"] / base, **measured)


if __name__ == "__main__":
    main()
