"""UMAP with densMAP's term against umap-learn's densMAP: radii, neighbors, labels, and seconds of the processor.

    MANIFOLDRY_DATA=folder OPENBLAS_NUM_THREADS=1 python benchmarks/densmap.py [--data digits ...] [--picture file.png]

One thread each (umap-learn with a seed), after a fit to 200 rows that compiles. ``radii``: correlation of log radii in
data and layout (`metrics.density_preservation`, 15 neighbors); ``fuzzy radii``: the same as the libraries define
``rad_orig_`` and ``rad_emb_``; ``trust``: trustworthiness (15 neighbors, 1,000 sampled points); ``labels``: share of
points whose 15 nearest in the layout vote for their label. ``--picture`` draws all layouts; ``--data`` stores no table.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.neighbors import NearestNeighbors

from manifoldry import UMAP, datasets, metrics
from tables import Table

SETS = ("digits", "mnist 5,000", "pbmc3k", "flow_cytometry 10,000")
FILES = {"pbmc3k": "pbmc3k_pca50"}
N_VOTERS = 15


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (float32) and labels; a random part where a number is named."""
    name, _, count = name.partition(" ")
    found = datasets.load(FILES.get(name, name))
    X, labels = np.asarray(found.X, dtype=np.float32), np.unique(found.labels, return_inverse=True)[1]
    if count:
        rows = np.random.default_rng(0).permutation(len(X))[: int(count.replace(",", ""))]
        X, labels = X[rows], labels[rows]
    return X, labels


def peer(**settings):
    import umap

    return umap.UMAP(random_state=0, n_jobs=1, **settings)


WAYS = {
    "UMAP": lambda: UMAP(n_jobs=1),
    "UMAP, densmap": lambda: UMAP(n_jobs=1, densmap=True),
    "umap-learn": peer,
    "umap-learn, densmap": lambda: peer(densmap=True, output_dens=True),
}


def hits(Y: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of points whose nearest others vote for their label."""
    near = NearestNeighbors(n_neighbors=N_VOTERS).fit(Y).kneighbors(return_distance=False)
    votes = np.stack([(labels[near] == label).sum(axis=1) for label in range(labels.max() + 1)], axis=1)
    return float(np.mean(votes.argmax(axis=1) == labels))


def draw(layouts: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]], path: str) -> None:
    """Write a picture of all layouts, a row per set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in layouts))
    figure, axes = plt.subplots(len(names), len(WAYS), figsize=(3 * len(WAYS), 3 * len(names)), squeeze=False)
    for (name, way), (Y, labels) in layouts.items():
        panel = axes[names.index(name), list(WAYS).index(way)]
        panel.scatter(*Y.T, c=labels, s=2, cmap="tab20", linewidths=0)
        panel.set_title(f"{name}: {way}", fontsize=8)
        panel.set_aspect("equal", adjustable="datalim")
        panel.tick_params(labelsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=70, metadata={"Software": None})


def main() -> None:
    """Measure every way on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=SETS, default=None)
    parser.add_argument("--picture")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    caption = (
        "densMAP's term: correlation of log radii in data and layout (equal weights; as each library defines them), "
        "trustworthiness, labels by 15 neighbors in the layout; seconds of the processor, one thread, compiled before."
    )
    columns = {"data": "", "points": ",", "way": "", "radii": ".3f", "fuzzy radii": ".3f", "trust": ".3f"}
    table = Table("densmap", caption, {**columns, "labels": ".3f", "seconds": ".1f"}, ("umap-learn",))
    if options.data:
        table._store = lambda: None
    layouts = {}
    warm = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    for make in WAYS.values():
        make().fit(warm)
    for name in options.data or SETS:
        try:
            X, labels = load(name)
        except (OSError, ValueError) as error:
            print(f"{name} is left out: {error}")
            continue
        for way, make in WAYS.items():
            began = time.process_time()
            model = make().fit(X)
            seconds = time.process_time() - began
            Y = np.asarray(model.embedding_)
            layouts[name, way] = Y, labels
            fuzzy = float(np.corrcoef(model.rad_orig_, model.rad_emb_)[0, 1]) if "densmap" in way else None
            table.add(
                data=name,
                points=len(X),
                way=way,
                radii=metrics.density_preservation(X, Y),
                fuzzy_radii=fuzzy,
                trust=float(metrics.trustworthiness(X, Y, n_neighbors=15, sample=1000)),
                labels=hits(Y, labels),
                seconds=seconds,
            )
    if options.picture:
        draw(layouts, options.picture)


if __name__ == "__main__":
    main()
