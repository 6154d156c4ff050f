"""UMAP of many real points from eigenvectors and from the layout of groups of neighbors: three seeds of each.

    MANIFOLDRY_DATA=folder python benchmarks/umap_starts.py [--quick]

Sets whose file is missing are left out; ``--quick`` takes one seed of 12,000 rows of each.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from interpolated_digits import InterpolatedDigits, leading_columns
from manifoldry import UMAP, datasets
from manifoldry._numerics.ranks import rank_measures
from neighbor_embeddings import label_score
from real_sets import standardized
from tables import Table

N_ROWS, N_SAMPLED, N_LABELED = 70_000, 2000, 20_000
SETS = {
    "mnist": leading_columns,
    "fashion_mnist": leading_columns,
    "covertype": standardized,
    "flow_cytometry": np.asarray,
    "cities": np.asarray,
    "mammoth": np.asarray,
}


def rows(name: str, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return up to n rows of a set in single precision, and their labels if there are any."""
    data = datasets.load(name)
    some = np.random.default_rng(0).permutation(len(data.X))[:n]
    X = np.ascontiguousarray(SETS[name](data.X.astype(np.float32))[some], dtype=np.float32)
    return X, None if data.labels is None else np.asarray(data.labels)[some]


def million() -> tuple[np.ndarray, np.ndarray]:
    parts = list(InterpolatedDigits.load().blocks(1_000_000))
    return np.concatenate([X for X, _ in parts]), np.concatenate([labels for _, labels in parts])


def measured(X: np.ndarray, labels: np.ndarray | None, init: str, seeds: range) -> dict[str, object]:
    """Return the means of several seeds."""
    found = []
    for seed in seeds:
        began = time.process_time()
        model = UMAP(init=init, random_state=seed, n_jobs=2).fit(X)
        seconds, Y = time.process_time() - began, model.embedding_
        some = np.random.default_rng(0).permutation(len(X))[:200_000]
        ranks = rank_measures(X[some], Y[some], n_neighbors=15, sample=N_SAMPLED)
        objective = model.trace_.objective[-1]
        row = [seconds, objective, ranks.trustworthiness, ranks.continuity, ranks.knn_kept, np.nan]
        if labels is not None:
            m, known = min(N_LABELED, len(some) // 2), labels[some]
            row[-1] = label_score(Y[some[m:]], known[m:], Y[some[:m]], known[:m])
        found.append(row)
    names = ("CPU s", "objective", "trust", "continuity", "kept", "labels")
    means = dict(zip(names, np.mean(np.array(found, dtype=float), axis=0), strict=True))
    return {"init": model.diagnostics_["init"]} | {k: None if np.isnan(v) else float(v) for k, v in means.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    n, seeds = (12_000, range(1)) if quick else (N_ROWS, range(3))
    columns = {"data": "", "rows": ",", "init": "", "CPU s": ".1f", "objective": ".3f", "trust": ".4f"}
    columns |= {"continuity": ".4f", "kept": ".3f", "labels": ".4f"}
    caption = (
        f"UMAP by its start, means of {len(seeds)} seeds; trust, continuity, kept: neighbors at {N_SAMPLED:,} sampled "
        "points (k = 15); labels: share of points whose 10 nearest in the layout vote for their label; of a million "
        "rows 200,000 are compared."
    )
    table = Table("umap_starts", caption, columns)
    given = {name: rows(name, n) for name in SETS if name in datasets.available()}
    if not quick:
        given["digits, interpolated"] = million()
    for name, (X, labels) in given.items():
        UMAP(n_jobs=2).fit(X[:11_000])
        for init in ("spectral", "auto"):
            few = seeds if len(X) <= N_ROWS else range(1)
            table.add(data=name, rows=len(X), **measured(X, labels, init, few))


if __name__ == "__main__":
    main()
