"""Spectral clustering against scikit-learn's: labels found again, the cut, and seconds of the processor.

    MANIFOLDRY_DATA=folder OPENBLAS_NUM_THREADS=1 python benchmarks/spectral_clustering.py [--data digits ...]

As many clusters as labels, ten neighbors, ten starts of k-means, one thread. ``scikit-learn`` is the best way in to it
that its guide names: ``affinity="nearest_neighbors"``, with its default solver; the second row of it gets our affinity.
Sets without their file are left out. ``--data`` stores no table.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn import cluster
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from manifoldry import KMeans, SpectralClustering, datasets
from manifoldry.methods.clusters._spectral import cut_value
from tables import Table

N_NEIGHBORS = 10
SETS = ("moons", "olive_oil", "digits", "coil20", "pbmc3k", "mnist 5,000", "mnist 10,000")
FILES = {"coil20": "coil20_32", "pbmc3k": "pbmc3k_pca50"}


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels; oils standardized, digits drawn at random."""
    if name == "moons":
        return make_moons(1000, noise=0.08, random_state=0)
    name, _, count = name.partition(" ")
    found = datasets.load(FILES.get(name, name))
    X, labels = np.asarray(found.X, dtype=np.float64), np.unique(found.labels, return_inverse=True)[1]
    if count:
        rows = np.random.default_rng(0).permutation(len(X))[: int(count.replace(",", ""))]
        X, labels = X[rows], labels[rows]
    return ((X - X.mean(axis=0)) / X.std(axis=0) if name == "olive_oil" else X), labels


def ours(**settings):
    return lambda X, c, _: (
        SpectralClustering(n_clusters=c, n_neighbors=N_NEIGHBORS, n_jobs=1, **settings).fit(X).labels_
    )


def sklearn(**settings):
    def run(X, c, W):
        kind = {"affinity": "precomputed"} if "ours" in settings else {"affinity": "nearest_neighbors"}
        model = cluster.SpectralClustering(c, n_neighbors=N_NEIGHBORS, random_state=0, n_jobs=1, **kind)
        return model.fit(W if "ours" in settings else X).labels_

    return run


WAYS = {
    "SpectralClustering": ours(),
    "... random_walk": ours(laplacian="random_walk"),
    "... cluster_qr": ours(assign_labels="cluster_qr"),
    "scikit-learn": sklearn(),
    "scikit-learn, our affinity": sklearn(ours=True),
    "KMeans": lambda X, c, _: KMeans(n_clusters=c, n_jobs=1).fit(X).labels_,
}


def main() -> None:
    """Measure every way on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=SETS, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    caption = (
        "Clusters against labels: adjusted Rand index (ARI), normalized mutual information (NMI), normalized cut of "
        "our graph, and the number that the eigengap suggests; seconds of the processor, one thread."
    )
    columns = {
        "data": "",
        "points": ",",
        "classes": "",
        "way": "",
        "ARI": ".3f",
        "NMI": ".3f",
        "cut": ".3f",
        "seconds": ".2f",
        "gap": "",
    }
    table = Table("spectral_clustering", caption, columns)
    if options.data:
        table._store = lambda: None
    for name in options.data or SETS:
        try:
            X, labels = load(name)
        except (OSError, ValueError) as error:
            print(f"{name} is left out: {error}")
            continue
        c = int(labels.max()) + 1
        fitted = SpectralClustering(n_clusters=c, n_neighbors=N_NEIGHBORS, n_jobs=1).fit(X)
        W, gap = fitted.affinity_matrix_, fitted.suggest_n_clusters()
        W.indptr, W.indices = W.indptr.astype(np.int32), W.indices.astype(np.int32)  # scikit-learn takes no others
        for way, divide in WAYS.items():
            began = time.process_time()
            found = np.asarray(divide(X, c, W))
            seconds = time.process_time() - began
            told = f"{int(gap)}" if gap.clear else "none"
            table.add(
                data=name,
                points=len(X),
                classes=c,
                way=way,
                ARI=adjusted_rand_score(labels, found),
                NMI=float(normalized_mutual_info_score(labels, found)),
                cut=cut_value(W, found.astype(np.int64), "random_walk"),
                seconds=seconds,
                gap=told if way == "SpectralClustering" else "",
            )


if __name__ == "__main__":
    main()
