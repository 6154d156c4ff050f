"""Neighbor search against pynndescent and FAISS: processor seconds of one thread, recall and memory.

    MANIFOLDRY_DATA=folder python benchmarks/search.py [--quick]

MNIST and Fashion-MNIST with all columns or their leading principal ones (left out when the folder lacks them),
clusters, one Gaussian, and the Swiss roll; with ``--quick`` only the last two, and fewer rows. Lists of all rows, and
of new rows against an index. FAISS visits as many cells as it needs for a recall of 0.99 on a sample, if 256 suffice.
Recall is measured on 1,000 rows against an exact search. Compiled loops are warm. Stores the table. Needs the extra
``peers`` (faiss-cpu, psutil, pynndescent).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from manifoldry import datasets
from peers import in_own_process, measure
from tables import Table

TARGET_RECALL, FAISS_CELLS = 0.99, (4, 8, 16, 32, 64, 128, 256)
N_SAMPLED = 1000


def manifoldry(X, Q, k, search="auto"):
    from manifoldry._core.run import Run
    from manifoldry.graph._search import NeighborRule, neighbor_graph

    run = Run(0, 1)
    graph, index = neighbor_graph(X, NeighborRule(k, search=search).resolve(len(X)), run)
    return graph.indices.reshape(len(X), -1) if Q is None else index.query(Q, run)[0]


def manifoldry_exact(X, Q, k):
    return manifoldry(X, Q, k, "exact")


def pynndescent(X, Q, k):
    from pynndescent import NNDescent

    index = NNDescent(X, n_neighbors=k + 1, random_state=0, n_jobs=1)  # the point itself is in its list
    return index.neighbor_graph[0] if Q is None else index.query(Q, k)[0]


def faiss_ivf(X, Q, k):
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.index_factory(X.shape[1], f"IVF{int(2 * np.sqrt(len(X)))},Flat")
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = 6, 40, 1
    index.train(X)
    index.add(X)
    queries, k = (X, k + 1) if Q is None else (Q, k)
    sample = queries[:: max(1, len(queries) // 200)]
    truth = faiss.knn(sample, X, k)[0][:, -1:] * (1 + 1e-5)
    for cells in FAISS_CELLS:
        index.nprobe = cells
        if np.mean(index.search(sample, k)[0] <= truth) >= TARGET_RECALL:
            break
    return index.search(queries, k)[1]


def faiss_flat(X, Q, k):
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss.knn(X if Q is None else Q, X, k + (Q is None))[1]


ENGINES = {f.__name__: f for f in (manifoldry, manifoldry_exact, pynndescent, faiss_ivf, faiss_flat)}
CELLS = [
    ("mnist 70000 x 50", 15, "manifoldry pynndescent faiss_ivf manifoldry_exact faiss_flat"),
    ("fashion_mnist 70000 x 784", 15, "manifoldry pynndescent faiss_ivf"),
    ("mnist 70000 x 784", 15, "manifoldry pynndescent faiss_ivf"),
    ("clusters 200000 x 50", 15, "manifoldry faiss_ivf"),
    ("gaussian 40000 x 50", 15, "manifoldry faiss_ivf"),
    ("mnist 70000 x 50", 90, "manifoldry faiss_ivf"),
    ("mnist new 70000 x 50", 15, "manifoldry faiss_ivf"),
    ("mnist cosine 70000 x 50", 15, "manifoldry faiss_ivf"),
    ("mnist 10000 x 100", 15, "manifoldry faiss_ivf faiss_flat"),
    ("roll 1000000 x 3", 15, "manifoldry"),
]
QUICK = [("gaussian 20000 x 20", 15, "manifoldry faiss_ivf"), ("roll 50000 x 3", 15, "manifoldry faiss_ivf")]
COLUMNS = {"data": "", "k": "", "engine": "", "processor": ".2f", "times ours": ".1f", "recall": ".4f", "MB": ".0f"}


def load(name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows, and new rows where these are asked for: every seventh of them, which are then no fitted ones."""
    kind, *ways, n, _, columns = name.split()
    n, columns = int(n), int(columns)
    rng = np.random.default_rng(0)
    if kind == "roll":
        X = datasets.swiss_roll(n, hole=True).X
    elif kind in ("gaussian", "clusters"):
        X = rng.standard_normal((n, columns))
        if kind == "clusters":
            X += 3 * rng.standard_normal((100, columns))[rng.integers(100, size=n)]
    else:
        X = datasets.load(kind).X.astype(np.float32)
        if columns < X.shape[1]:
            X -= X.mean(axis=0)
            X = X @ np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :columns]
        X = X[rng.permutation(len(X))[:n]]
    if "cosine" in ways:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = np.ascontiguousarray(X, dtype=np.float32)
    return (np.delete(X, np.s_[::7], axis=0), X[::7]) if "new" in ways else (X, None)


def recall(X: np.ndarray, Q: np.ndarray | None, found: np.ndarray, k: int) -> float:
    """Return the share of the nearest neighbors found, on a sample of the rows; ties are hits."""
    rows = np.random.default_rng(0).choice(len(found), N_SAMPLED, replace=False)
    center = X.mean(axis=0, dtype=np.float64)
    points = X - center
    squares, hits = np.einsum("ij,ij->i", points, points), []
    for some in np.array_split(rows, 10):
        queries = (X if Q is None else Q)[some] - center
        distances = np.einsum("ij,ij->i", queries, queries)[:, None] + squares - 2 * queries @ points.T
        if Q is None:
            distances[np.arange(len(some)), some] = np.inf
        kth = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        hits.append(np.sum(np.take_along_axis(distances, found[some], 1) <= kth * (1 + 1e-6)))
    return float(np.sum(hits)) / (N_SAMPLED * k)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small sets")
    parser.add_argument("--cell", nargs=3, metavar=("ENGINE", "DATA", "K"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(*options.cell, options.save)
        return
    caption = (
        "Neighbor search, processor seconds of one thread once loops are compiled. Recall is measured on 1,000 rows; "
        "MB is the memory that the search added."
    )
    table = Table("search", caption, COLUMNS, ("pynndescent", "faiss-cpu"))
    with tempfile.TemporaryDirectory() as folder:
        for data, k, engines in QUICK if options.quick else CELLS:
            if "mnist" in data and data.split()[0] not in datasets.available():
                print(f"{data} is left out: set MANIFOLDRY_DATA to a folder that has it")
                continue
            compare(table, data, k, engines.split(), Path(folder))


def run_cell(engine: str, data: str, k: str, save: str) -> None:
    X, Q = load(data)
    processor = []

    def search(rows):
        start = time.process_time()
        found = ENGINES[engine](rows, Q, int(k))
        processor.append(time.process_time() - start)
        return found

    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # on Linux: forget the peak of loading
    result = measure(search, X, 2 if engine == "manifoldry" else 1)
    result["processor"] = min(processor[1:])  # the first was the warm-up
    result["recall"] = recall(X, Q, result["Y"], int(k))
    np.save(save, result.pop("Y")[:10])
    print(json.dumps(result))


def compare(table: Table, data: str, k: int, engines: list[str], folder: Path) -> None:
    """Add a row per engine; the first is ours."""
    base = None
    for engine in engines:
        cell = in_own_process(__file__, [engine, data, str(k)], folder)
        if "error" in cell:
            table.add(data=data, k=k, engine=engine, error=cell["error"])
            continue
        base = base or cell["processor"]
        measured = {"processor": cell["processor"], "recall": cell["recall"], "MB": cell["added_mb"]}
        table.add(data=data, k=k, engine=engine, times_ours=cell["processor"] / base, **measured)


if __name__ == "__main__":
    main()
