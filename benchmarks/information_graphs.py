"""Edges between neighborhoods instead of points: whether the labels of neighbors agree more often.

    python benchmarks/information_graphs.py [--rows 1000] [--sets digits] [--lengths kl] [--neighbors 10] [--json J]

For each real set and length of the edges (the distance, the divergences of local Gaussians, and the distance of the
means of neighborhoods) the share of points whose label differs from that

- of their nearest neighbor in the graph, the one of the shortest edge (leave-one-out nearest neighbor error),
- of their neighbors in the graph on average (10 of each point unless told),
- of their nearest neighbor in the embedding in two dimensions by Isomap, LaplacianEigenmaps and UMAP of that graph.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from manifoldry import UMAP, Isomap, LaplacianEigenmaps, datasets, neighborhood_graph

LENGTHS = ("distance", "kl", "bhattacharyya", "hellinger", "means")
SETS = (
    "digits",
    "mnist",
    "olive_oil",
    "wine_type",
    "coil20_32",
    "umist_faces32",
    "pbmc3k_pca50",
    "flow_cytometry",
    "olivetti_faces",
)
SCALED = ("olive_oil", "wine_type")
"""Sets whose columns have units of their own; they are scaled to unit variance."""


def rows_of(name: str, n_rows: int) -> tuple[Any, Any]:
    """Return some rows and their labels; those without one are left out."""
    data = datasets.load(name)
    labels = np.unique(np.asarray(data.labels).astype(str), return_inverse=True)[1]
    chosen = np.sort(np.random.default_rng(0).permutation(len(data.X))[:n_rows])
    X = np.asarray(data.X)[chosen].astype(float)
    if name in SCALED:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, labels[chosen]


def nearest(Y: Any) -> Any:
    """Return the nearest other row of each."""
    from scipy.spatial import cKDTree

    return cKDTree(Y).query(Y, 2)[1][:, 1]


def errors_of(X: Any, labels: Any, lengths: str, k: int) -> dict[str, float]:
    """Return label errors of the graph and of the embeddings, and the CPU seconds of the graph."""
    D = cdist(X, X)  # distances give the same lengths as rows, and sooner where these are wide
    began = time.process_time()
    graph = neighborhood_graph(D, metric="precomputed", n_neighbors=k, edge_lengths=lengths)
    found = {"seconds": time.process_time() - began}
    order = np.lexsort((graph.lengths, graph.rows()))
    first = graph.indices[order][graph.indptr[:-1]]
    found["nearest"] = float(np.mean(labels[first] != labels))
    found["neighbors"] = float(np.mean(labels[graph.indices] != labels[graph.rows()]))
    for model in (Isomap(disconnected="apart"), LaplacianEigenmaps(disconnected="apart")):
        Y = model.fit_transform(graph)
        found[type(model).__name__] = float(np.mean(labels[nearest(Y)] != labels))
    Y = UMAP(init="spectral").fit_transform(graph)
    found["UMAP"] = float(np.mean(labels[nearest(Y)] != labels))
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--lengths", nargs="+", default=LENGTHS)
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    for name in given.sets:
        X, labels = rows_of(name, given.rows)
        for lengths in given.lengths:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                errors = errors_of(X, labels, lengths, given.neighbors)
            row = {"data": name, "n": len(X), "D": X.shape[1], "lengths": lengths, "k": given.neighbors, **errors}
            found.append(row)
            print(*(f"{v:.4f}" if isinstance(v, float) else f"{v}" for v in row.values()), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
