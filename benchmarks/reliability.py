"""Reliability of the points of t-SNE's and UMAP's maps of labeled sets, and whether it finds those in foreign clusters.

    python benchmarks/reliability.py [--quick]

A point is in a foreign cluster if most of its 15 neighbors in the map have another label than it. Some of these are
misplaced by the map only: most of their 15 neighbors in the data have their label. The areas under the ROC curve tell
how well a low score separates both kinds from the points that are not in a foreign cluster. ``--quick`` leaves out all
70,000 digits of MNIST. Stores the table row by row. Needs ``MANIFOLDRY_DATA``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

import manifoldry
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry.evaluation.metrics import reliability
from manifoldry.graph._search import NeighborRule, neighbor_graph
from real_sets import RealSet, standardized
from tables import Table

N_VOTES, N_COLUMNS = 15, 50
METHODS = ("TSNE", "UMAP")


def load(name: str, n: int | None = None, scale: Callable[[FloatArray], FloatArray] | None = None) -> RealSet:
    """Return n rows, scaled, on their first 50 principal components if they have more columns."""
    data = manifoldry.datasets.load(name)
    rows = RealSet(np.asarray(data.X, dtype=np.float64), data.labels).sample(n or len(data.X))
    X = rows.X if scale is None else scale(rows.X)
    X = X if X.shape[1] <= N_COLUMNS else PCA(N_COLUMNS, random_state=0).fit_transform(X)
    return RealSet(X, np.unique(rows.labels, return_inverse=True)[1])


SETS: dict[str, Callable[[], RealSet]] = {
    "digits": lambda: load("digits"),
    "olive oil": lambda: load("olive_oil", scale=standardized),
    "COIL-20": lambda: load("coil20_32"),
    "PBMC 3k": lambda: load("pbmc3k_pca50"),
    "CITE-seq": lambda: load("citeseq_cbmc"),
    "Fashion MNIST": lambda: load("fashion_mnist", 5_000),
    "MNIST, 5,000": lambda: load("mnist", 5_000),
    "MNIST": lambda: load("mnist"),
}
LARGE = ("MNIST",)


def outvoted(points: FloatArray, labels: Array) -> Array:
    """Return whether most of a point's neighbors have another label than it."""
    graph, _ = neighbor_graph(points, NeighborRule(N_VOTES).resolve(len(points)), Run(0))
    votes = np.zeros((len(points), int(labels.max()) + 1))
    np.add.at(votes, (graph.rows(), labels[graph.indices]), 1)
    winner: Array = votes.argmax(axis=1) != labels
    return winner


def area(wrong: Array, right: Array, score: FloatArray) -> float | None:
    """Return the area under the curve of a low score for ``wrong`` against ``right``."""
    if not wrong.any():
        return None
    judged = wrong | right
    return float(roc_auc_score(right[judged], score[judged]))


def row(data: RealSet, method: str) -> dict[str, object]:
    """Return the cells of one map."""
    Y = getattr(manifoldry, method)(random_state=0).fit_transform(data.X)
    start = time.process_time()
    found = reliability(data.X, Y)
    seconds = time.process_time() - start
    foreign = outvoted(Y, data.labels)
    thrown = foreign & ~outvoted(data.X, data.labels)
    shares = {name: 100 * count / len(Y) for name, count in found.counts.items()}
    return {
        **shares,
        "in_foreign": int(foreign.sum()),
        "area": area(foreign, ~foreign, found.score),
        "by_the_map": int(thrown.sum()),
        "their_area": area(thrown, ~foreign, found.score),
        "CPU_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the 70,000 digits")
    options = parser.parse_args()
    warnings.simplefilter("ignore", manifoldry.EmbeddingWarning)
    caption = (
        "Verdicts of `metrics.reliability` in percent of the points, default settings throughout; the points in a "
        "foreign cluster of the map and the area under the ROC curve of a low score for them; of these the ones that "
        "only the map has put there, and their area."
    )
    columns = {"data": "", "points": ",", "method": "", "trustworthy": ".1f", "undecided": ".1f", "dubious": ".1f"}
    areas = {"in foreign": ",", "area": ".3f", "by the map": ",", "their area": ".3f", "CPU seconds": ".1f"}
    table = Table("reliability", caption, {**columns, **areas})
    for name, make in SETS.items():
        if options.quick and name in LARGE:
            continue
        data = make()
        for method in METHODS:
            table.add(data=name, points=len(data.X), method=method, **row(data, method))


if __name__ == "__main__":
    main()
