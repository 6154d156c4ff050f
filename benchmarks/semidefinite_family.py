"""MVU, MVE, ColoredMVU and SPE on the same rows: what each proves, keeps and costs, beside principal components.

    python benchmarks/semidefinite_family.py [--pictures FOLDER]

Every method has two dimensions and five neighbors. Labels of a third of the rows, drawn at random, are hidden from
ColoredMVU, and the label hit of every method is that of the hidden ones, by the five nearest of the others in the
layout. A roll is labeled by the quarters of its arc length. Seconds are those of the processor, one thread. Stores the
table row by row. The real sets need ``MANIFOLDRY_DATA``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import manifoldry
from manifoldry import datasets, metrics
from real_sets import SETS
from tables import Table

N_ROWS = 120
HIDDEN_SHARE = 1 / 3
K = 5
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "PCA": ("PCA", {}),
    "MVU": ("MVU", {"n_neighbors": K}),
    "MVE": ("MVE", {"n_neighbors": K}),
    "MVE, at most": ("MVE", {"n_neighbors": K, "constraints": "at most"}),
    "ColoredMVU": ("ColoredMVU", {"n_neighbors": K}),
    "ColoredMVU, at most": ("ColoredMVU", {"n_neighbors": K, "constraints": "at most"}),
    "SPE": ("SPE", {"n_neighbors": K}),
}
"""Classes and parameters, by the names in the table."""

REAL_SETS = ("wine", "olive_oil", "digits", "frey")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels; faces without labels are labeled by the quarters of their time."""
    if name == "noisy roll":
        roll = datasets.swiss_roll(N_ROWS, noise=0.5)
        return roll.X, np.digitize(roll.truth[:, 0], np.quantile(roll.truth[:, 0], [0.25, 0.5, 0.75]))
    found = SETS[name]()
    found = found.sample(min(N_ROWS, len(found.X)))
    color = np.asarray(found.color, dtype=float)
    few = len(np.unique(color)) <= 20
    labels = color.astype(int) if few else np.digitize(color, np.quantile(color, [0.25, 0.5, 0.75]))
    return np.asarray(found.X, dtype=float), labels


def label_hit(Y: np.ndarray, labels: np.ndarray, hidden: np.ndarray) -> float:
    """Return the share of hidden labels that the nearest of the others have."""
    known = KNeighborsClassifier(K).fit(Y[~hidden], labels[~hidden])
    return float(known.score(Y[hidden], labels[hidden]))


def cells(model: Any, X: np.ndarray, labels: np.ndarray, hidden: np.ndarray) -> dict[str, Any]:
    """Return a row of the table of a method, fitted here."""
    start = time.process_time()
    model.fit(X, np.where(hidden, -1, labels))
    seconds = time.process_time() - start
    proof, values = getattr(model, "certificate_", None), model.spectrum_.values
    row: dict[str, Any] = {
        "seconds": seconds,
        "share": float(values[:2].sum() / values.sum()),
        "trust": float(metrics.trustworthiness(X, model.embedding_, n_neighbors=10)),
        "hit": label_hit(model.embedding_, labels, hidden),
    }
    if isinstance(model, manifoldry.PCA):
        row["share"] = float(np.square(model.embedding_).sum() / np.square(X - X.mean(axis=0)).sum())
    if proof is not None:
        row |= {"verdict": proof.verdict, "gap": float(proof.gap), "rank": int(proof.rank)}
    return row


def draw(layouts: dict[str, np.ndarray], labels: np.ndarray, path: Path) -> None:
    """Write a picture of all layouts of a set side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(layouts), figsize=(3 * len(layouts), 3))
    for ax, (name, Y) in zip(axes, layouts.items(), strict=True):
        ax.scatter(Y[:, 0], Y[:, 1], c=labels, cmap="tab10", s=8)
        ax.set_title(name, fontsize=9)
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xticks([])
        ax.set_yticks([])
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each set")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    caption = (
        f"Up to {N_ROWS} rows of each set, {K} neighbors, two dimensions; a third of labels hidden. Share: variance "
        "in the two dimensions shown. Trust: trustworthiness of 10 neighbors. Hit: hidden labels found by 5 nearest "
        "points. Seconds are those of the processor."
    )
    columns = {"data": "", "method": "", "verdict": "", "gap": ".1e", "rank": "", "share": ".3f", "trust": ".3f"}
    table = Table("semidefinite_family", caption, {**columns, "hit": ".3f", "seconds": ".1f"})
    for name in ("noisy roll", *REAL_SETS):
        X, labels = load(name)
        hidden = np.random.default_rng(0).permutation(len(X)) < HIDDEN_SHARE * len(X)
        layouts = {}
        for label, (method, settings) in METHODS.items():
            model = getattr(manifoldry, method)(n_components=2, **settings)
            table.add(data=name, method=label, **cells(model, X, labels, hidden))
            layouts[label] = model.embedding_
        if options.pictures:
            options.pictures.mkdir(exist_ok=True, parents=True)
            draw(layouts, labels, options.pictures / f"{name.replace(' ', '_')}.png")


if __name__ == "__main__":
    main()
