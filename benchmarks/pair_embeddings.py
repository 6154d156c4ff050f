"""PaCMAP, LocalMAP, TriMap and PHATE against the packages of their authors, with PCA as the reference.

    MANIFOLDRY_DATA=folder python benchmarks/pair_embeddings.py [--quick] [--part fits sets]

``fits``: MNIST, 70,000 rows of 50 columns, and 20,000 of them for PHATE; each library in a process of its own that has
fitted 1,500 points before, two threads. ``sets``: real sets of up to 4,000 rows. The quality is that of the same
metrics for all. ``--quick`` takes a tenth of the rows. Stores both tables, in about five minutes. Needs the extra
``peers``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import manifoldry
import peers
from manifoldry import datasets, metrics
from manifoldry._numerics.ranks import rank_measures
from neighbor_embeddings import label_score
from neighbor_embeddings import load as load_mnist
from tables import Table

N_THREADS, N_LABEL_NEIGHBORS = 2, 10
PACKAGES = ("pacmap", "trimap", "phate")
SETS = ("mnist", "fashion_mnist", "pbmc3k_pca50", "coil20_32", "flow_cytometry", "mammoth")
N_ROWS, N_COLUMNS = 4_000, 50
QUALITY = {"trust": ".4f", "kept": ".3f", "labels": ".4f", "triplets": ".4f", "distances": ".3f"}
QUALITY_TEXT = (
    "trust, kept: trustworthiness and share of neighbors kept (k = 15, 1,000 sampled points); labels: share of points "
    "whose 10 nearest in the layout vote for their label; triplets: share of random triplets whose order of distances "
    "is kept; distances: rank correlation of the distances of random pairs"
)


def own(name: str) -> Callable[[np.ndarray, int], np.ndarray]:
    def fit(X: np.ndarray, seed: int) -> np.ndarray:
        return getattr(manifoldry, name)(n_jobs=N_THREADS, random_state=seed).fit_transform(X)

    return fit


def pca(X: np.ndarray, _: int) -> np.ndarray:
    return manifoldry.PCA(n_components=2).fit_transform(X)


def pacmap(name: str) -> Callable[[np.ndarray, int], np.ndarray]:
    def fit(X: np.ndarray, seed: int) -> np.ndarray:
        import pacmap

        return getattr(pacmap, name)(random_state=seed).fit_transform(X)

    return fit


def trimap(X: np.ndarray, seed: int) -> np.ndarray:
    from trimap import TRIMAP

    np.random.seed(seed)  # noqa: NPY002  # the package has no other seed
    return TRIMAP(verbose=False).fit_transform(X.copy())


def phate(X: np.ndarray, seed: int) -> np.ndarray:
    from phate import PHATE

    return PHATE(n_jobs=N_THREADS, verbose=0, random_state=seed).fit_transform(X)


LIBRARIES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "PCA": pca,
    "TSNE": own("TSNE"),
    "UMAP": own("UMAP"),
    "PaCMAP": own("PaCMAP"),
    "pacmap": pacmap("PaCMAP"),
    "LocalMAP": own("LocalMAP"),
    "pacmap, LocalMAP": pacmap("LocalMAP"),
    "TriMap": own("TriMap"),
    "trimap": trimap,
    "PHATE": own("PHATE"),
    "phate": phate,
}
FITS = {
    70_000: ("PCA", "TSNE", "UMAP", "PaCMAP", "pacmap", "LocalMAP", "pacmap, LocalMAP", "TriMap", "trimap"),
    20_000: ("PCA", "PHATE", "phate"),
}


def quality(X: np.ndarray, Y: np.ndarray, labels: np.ndarray | None) -> dict[str, float | None]:
    Y = np.asarray(Y, dtype=np.float64)
    ranks = rank_measures(X, Y, n_neighbors=15, sample=1000)
    known = None if labels is None else np.unique(labels, return_inverse=True)[1]
    return {
        "trust": float(ranks.trustworthiness),
        "kept": float(ranks.knn_kept),
        "labels": None if known is None else label_score(Y, known, k=N_LABEL_NEIGHBORS),
        "triplets": metrics.triplet_accuracy(X, Y),
        "distances": metrics.shepard_diagram(X, Y).spearman,
    }


def load(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return random rows of a set, at most 50 principal components of them, and their labels."""
    data = datasets.load(name)
    X, labels = np.asarray(data.X, dtype=np.float64), data.labels
    if name == "flow_cytometry":
        known = np.flatnonzero(labels)  # 0: no type of cell was recognized
        X, labels = X[known], labels[known]
    rows = np.random.default_rng(0).permutation(len(X))[:n_rows]
    if X.shape[1] > N_COLUMNS:
        centered = X - X.mean(axis=0)
        X = centered @ np.linalg.eigh(centered.T @ centered)[1][:, : -N_COLUMNS - 1 : -1]
    return np.ascontiguousarray(X[rows], dtype=np.float32), None if labels is None else np.asarray(labels)[rows]


def fits(quick: bool) -> None:
    """Compare fits of many rows, each library in a process of its own."""
    columns = {"rows": ",", "library": "", "seconds": ".2f", "CPU s": ".2f", "added MB": ".0f", **QUALITY}
    caption = f"MNIST, 50 columns, two threads, after a fit of 1,500 points; {QUALITY_TEXT}."
    table = Table("pair_embeddings", caption, columns, PACKAGES)
    X, labels = load_mnist("mnist50")
    with tempfile.TemporaryDirectory() as folder:
        for n_rows, libraries in FITS.items():
            n = n_rows // 10 if quick else n_rows
            path = Path(folder) / f"{n}.npy"
            np.save(path, X[:n])
            for library in libraries:
                cell = peers.in_own_process(__file__, [library, str(path)], Path(folder))
                if "error" in cell:
                    table.add(rows=n, library=library, error=cell["error"])
                    continue
                found = {"seconds": cell["seconds"], "CPU s": cell["cpu_seconds"], "added MB": cell["added_mb"]}
                table.add(rows=n, library=library, **found, **quality(X[:n], cell["Y"], labels[:n]))


def sets(quick: bool) -> None:
    """Compare the quality of all libraries on real sets."""
    caption = f"Real sets of up to {N_ROWS:,} rows and {N_COLUMNS} columns; {QUALITY_TEXT}."
    table = Table("pair_embeddings_sets", caption, {"data": "", "library": "", **QUALITY}, PACKAGES)
    for name in SETS:
        if name not in datasets.available():
            continue
        X, labels = load(name, N_ROWS // (10 if quick else 1))
        for library, fit in LIBRARIES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table.add(data=name, library=library, **quality(X, fit(X, 0), labels))


PARTS = {"fits": fits, "sets": sets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        library, path = options.cell
        result = peers.measure(lambda X: LIBRARIES[library](X, 0), np.load(path), 1)
        np.save(options.save, result.pop("Y"))
        print(json.dumps(result))
        return
    for part in options.part:
        PARTS[part](options.quick)


if __name__ == "__main__":
    main()
