"""Rows that come later: CPU time of `partial_fit` against a fit to all rows, and how far the results are apart.

    MANIFOLDRY_DATA=folder python benchmarks/incremental.py [--quick] [--methods IPA PCA] [--sizes 1000 3000]

A model of n rows takes 1, 10 and 100 more; a new model is fitted to all of them; both in turn, three times, in one
process with one thread, and the median is stored. Rows come in random order, those of "roll by arc length" in the order
of the roll. Stored rows of other methods stay in the table: those of Isomap and LLE were measured before their
``partial_fit`` was removed. ``--quick`` takes 500 rows once and stores no table. The last part draws
docs/figures/growing_roll.png.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from copy import deepcopy
from typing import Any

import numpy as np

from manifoldry import IPA, PCA, datasets, metrics
from tables import RESULTS, ROOT, Table

SIZES, BATCHES, N_REPEATS = (1000, 3000, 5000), (1, 10, 100), 3
COLUMNS = {"method": "", "rows": "", "n": ",", "new": ",", "fit CPU s": ".3f", "partial CPU s": ".3f"}
COLUMNS |= {"ratio": ".2f", "difference": ".0e"}
CAPTION = (
    "CPU seconds of `partial_fit` with new rows beside a `fit` to all of them (median of three in turn, one thread), "
    "their ratio, and the difference of the results: the largest of a coordinate (of PCA: of a component) relative to "
    "the size of all, of IPA the Procrustes error."
)


def rows_of(name: str, n: int) -> Any:
    """Return n rows by name."""
    if name == "mnist":
        return np.asarray(datasets.load("mnist").X[:n], dtype=np.float64)
    roll = datasets.swiss_roll(n, random_state=0)
    return roll.X[np.argsort(roll.truth[:, 0], kind="stable")] if "arc" in name else roll.X


def seconds_of(work: Any) -> float:
    """Return the CPU seconds of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def difference(grown: Any, whole: Any) -> float:
    """Return how far two fitted models are apart."""
    if isinstance(grown, IPA):
        return metrics.procrustes(grown.embedding_, whole.embedding_).error
    name = "components_" if isinstance(grown, PCA) else "embedding_"
    one, other = getattr(grown, name), getattr(whole, name)
    return float(np.abs(one - other).max() / np.abs(other).max())


def measure(table: Any, model: Any, name: str, n: int, repeats: int) -> None:
    """Add rows of the table: one for each batch."""
    X = rows_of(name, n + max(BATCHES))
    before = type(model)(**model.get_params()).partial_fit(X[:n])
    for m in BATCHES:
        took: list[tuple[float, float]] = []
        for _ in range(repeats):
            grown, whole = deepcopy(before), type(model)(**model.get_params())
            batch, rows = X[n : n + m], X[: n + m]
            took.append(
                (seconds_of(lambda w=whole, r=rows: w.fit(r)), seconds_of(lambda g=grown, b=batch: g.partial_fit(b)))
            )
        fit, partial = np.median(took, axis=0)
        cells = {"method": type(model).__name__, "rows": name, "n": n, "new": m, "difference": difference(grown, whole)}
        cells |= {"fit CPU s": fit, "partial CPU s": partial, "ratio": partial / fit}
        if table is None:
            print(cells)
        else:
            table.add(**{heading.replace(" ", "_"): cell for heading, cell in cells.items()})


def draw() -> None:
    """Draw a roll that grows, rows in the order of arc length: the layout after each batch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    roll = datasets.swiss_roll(3000, hole=True, random_state=1)
    order = np.argsort(roll.truth[:, 0], kind="stable")
    figure, axes = plt.subplots(5, 1, figsize=(7, 7), sharex=True, sharey=True, layout="constrained")
    model = IPA()
    for ax, batch in zip(axes, np.array_split(order, 5), strict=True):
        model.partial_fit(roll.X[batch])
        n = len(model.embedding_)
        placed = metrics.procrustes(model.embedding_, roll.truth[order[:n]])
        Y = np.asarray(placed.aligned)
        ax.scatter(
            Y[:, 0], Y[:, 1], c=roll.truth[order[:n], 0], s=3, cmap="viridis", vmin=0, vmax=roll.truth[:, 0].max()
        )
        ax.set_aspect("equal")
        ax.set_title(f"{n:,} rows, {model.n_patches_} patches, error {placed.error:.0e}", fontsize=9)
        ax.tick_params(labelsize=7)
    figure.savefig(ROOT / "docs" / "figures" / "growing_roll.png", dpi=72, metadata={"Software": None})


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", nargs="+", default=["IPA", "PCA"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    options = parser.parse_args()
    quick = options.quick
    warnings.simplefilter("ignore")
    IPA(n_jobs=1).partial_fit(rows_of("roll", 600)[:500]).partial_fit(rows_of("roll", 600)[500:])  # loads all
    stored = RESULTS / "incremental.json"
    known = json.loads(stored.read_text(encoding="utf-8"))["rows"] if stored.exists() else []
    table = None if quick else Table("incremental", CAPTION, COLUMNS)
    if table is not None:
        table.put(row for row in known if row["method"] not in options.methods)
    models = [
        (IPA(n_jobs=1), ("roll", "roll by arc length")),
        (PCA(n_components=10, svd_solver="covariance_eigh"), ("mnist",)),
    ]
    for model, names in models:
        for name in names if type(model).__name__ in options.methods else ():
            for n in (500,) if quick else options.sizes:
                measure(table, model, name, n, 1 if quick else N_REPEATS)
    draw()


if __name__ == "__main__":
    main()
