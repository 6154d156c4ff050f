"""Neighbor search against pynndescent, FAISS, scipy and scikit-learn, k = 15, same data, one run, as ratios.

    MANIFOLDRY_DATA=folder python benchmarks/search.py

MNIST with 50 principal columns and with all 784 (left out when the folder has no mnist.npz), and a million points of
the holed Swiss roll. Recall is measured on 1,000 rows against an exact search. Two threads each; compiled loops are
warm, and the processor's seconds stand beside those of the clock. Needs the extra ``peers`` (psutil, pynndescent).
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

K = 15


def manifoldry(X):
    from manifoldry.neighbors.search import NeighborRule, neighbor_graph
    from manifoldry.run import Run

    graph, _ = neighbor_graph(X, NeighborRule(K).resolve(len(X)), Run(0, 2))
    return graph.indices.reshape(len(X), -1)


def pynndescent(X):
    from pynndescent import NNDescent

    # The point itself is in its list.
    return NNDescent(X, n_neighbors=K + 1, random_state=0, n_jobs=2).neighbor_graph[0]


def faiss_ivf(X):
    import faiss

    index = faiss.index_factory(X.shape[1], f"IVF{int(np.sqrt(len(X)))},Flat")
    index.train(X)
    index.add(X)
    index.nprobe = 8
    return index.search(X, K + 1)[1]


def faiss_hnsw(X):
    import faiss

    index = faiss.IndexHNSWFlat(X.shape[1], 16)
    index.add(X)
    index.hnsw.efSearch = 64
    return index.search(X, K + 1)[1]


def faiss_flat(X):
    import faiss

    return faiss.knn(X, X, K + 1)[1]


def sklearn_brute(X):
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=2).fit(X).kneighbors(X, K + 1)[1]


def scipy_tree(X):
    from scipy.spatial import cKDTree

    return cKDTree(X).query(X, K + 1, workers=2)[1]


ENGINES = {
    f.__name__: f for f in (manifoldry, pynndescent, faiss_ivf, faiss_hnsw, faiss_flat, sklearn_brute, scipy_tree)
}
CELLS = [
    ("mnist50", ("manifoldry", "pynndescent", "faiss_ivf", "faiss_hnsw", "faiss_flat", "sklearn_brute")),
    ("mnist784", ("manifoldry", "pynndescent", "faiss_ivf", "faiss_hnsw")),
    ("roll1m", ("manifoldry", "scipy_tree", "faiss_ivf")),
]


def load(name: str) -> np.ndarray:
    if name == "roll1m":
        return datasets.swiss_roll(1_000_000, hole=True).X.astype(np.float32)
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
        truth = cKDTree(X).query(X[rows], K + 1)[1]
    else:
        truth = NearestNeighbors(algorithm="brute").fit(X).kneighbors(X[rows], K + 1)[1]
    hits = [len((set(found[row]) & set(true)) - {row}) for row, true in zip(rows, truth, strict=True)]
    return float(np.mean(hits)) / K


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", nargs=2, metavar=("ENGINE", "DATA"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        X = load(options.cell[1])
        cpu = []

        def search(rows):
            start = time.process_time()
            found = ENGINES[options.cell[0]](rows)
            cpu.append(time.process_time() - start)
            return found

        result = measure(search, X, 3, 1000)
        result["cpu"] = min(cpu[1:])  # the first was the warm-up
        result["recall"] = recall(X, result["Y"])
        np.save(options.save, result.pop("Y")[:10])
        print(json.dumps(result))
        return
    print(f"{'data':9} {'engine':14} {'seconds':>8} {'ratio':>6} {'cpu':>7} {'recall':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for data, engines in CELLS:
            if data.startswith("mnist") and "mnist" not in datasets.available():
                print(f"{data:9} left out: set MANIFOLDRY_DATA to a folder with mnist.npz")
                continue
            base = None
            for engine in engines:
                cell = in_own_process(__file__, [engine, data], Path(folder))
                if "error" in cell:
                    print(f"{data:9} {engine:14} {cell['error']}")
                    continue
                base = base or cell["seconds"]
                print(
                    f"{data:9} {engine:14} {cell['seconds']:8.2f} {cell['seconds'] / base:6.1f} {cell['cpu']:7.2f} "
                    f"{cell['recall']:7.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
