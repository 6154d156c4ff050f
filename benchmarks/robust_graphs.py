"""Noisy Swiss rolls with too many neighbors: how often Isomap unfolds them with each option of the graph.

    python benchmarks/robust_graphs.py [--seeds 8] [--real] [--json FILE]

Unfolded is an error below 0.1 after a rigid motion: a fold puts a fifth of the variance at the wrong place, and
weights of edges that differ from distances bend a sheet by up to 0.08. ``--real`` fits real data at the defaults, where
nothing is to be removed, and prints the trustworthiness of the embedding and, of labels, the share of nearest neighbors
in it that have another one.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry import Isomap, datasets, metrics, neighborhood_graph

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "local_linearity": {"edge_lengths": "local_linearity"},
    "detours": {"remove_short_circuits": True},
    "kl": {"edge_lengths": "kl"},
}
ROLLS = [
    (300, 0.0, 8),
    (300, 0.0, 12),
    (300, 0.5, 10),
    (500, 0.5, 12),
    (500, 0.7, 12),
    (1000, 0.5, 12),
    (1000, 0.7, 15),
]
MAX_ROLL_ERROR = 0.1
REAL = ("isomap_faces32", "frey_faces", "digits", "mammoth", "coil20_32")
MAX_REAL_ROWS = 700


def fit(X: Any, n_neighbors: int | str = "auto", edge_lengths: str | None = None, **options: Any) -> tuple[Any, float]:
    """Return the embedding and its CPU seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if edge_lengths is not None:
            X = neighborhood_graph(X, n_neighbors=n_neighbors, edge_lengths=edge_lengths)
            options["disconnected"] = "apart"  # a graph has no distances for bridges
        model = Isomap(n_neighbors=n_neighbors, **options).fit(X)
    return model, time.process_time() - began


def rolls(seeds: int) -> list[dict[str, Any]]:
    """Print and return the share of unfolded rolls."""
    rows = []
    print(f"{'n':>5}{'noise':>7}{'k':>4}", *(f"{name:>16}" for name in OPTIONS))
    for n, noise, k in ROLLS:
        row: dict[str, Any] = {"n": n, "noise": noise, "k": k}
        for name, options in OPTIONS.items():
            errors = []
            for seed in range(seeds):
                roll = datasets.swiss_roll(n, noise=noise, random_state=seed)
                errors.append(metrics.procrustes(fit(roll.X, n_neighbors=k, **options)[0].embedding_, roll.truth).error)
            row[name] = {"unfolded": sum(e < MAX_ROLL_ERROR for e in errors), "median": float(np.median(errors))}
        rows.append(row)
        shown = (f"{row[name]['unfolded']:>7}/{seeds} {row[name]['median']:.3f}" for name in OPTIONS)
        print(f"{n:>5}{noise:>7}{k:>4}", *(f"{text:>16}" for text in shown), flush=True)
    return rows


def real() -> list[dict[str, Any]]:
    """Print and return what the options do to real data."""
    rows = []
    for name in REAL:
        data = datasets.load(name)
        chosen = np.sort(np.random.default_rng(0).permutation(len(data.X))[:MAX_REAL_ROWS])
        X = np.asarray(data.X)[chosen].astype(float)
        labels = None if data.labels is None else np.asarray(data.labels)[chosen]
        for option, settings in OPTIONS.items():
            model, seconds = fit(X, **settings)
            Y = model.embedding_
            row = {
                "data": name,
                "option": option,
                "trustworthiness": float(metrics.trustworthiness(X, Y, n_neighbors=10)),
                "removed": model.diagnostics_.get("removed_short_circuits", 0),
                "seconds": seconds,
            }
            if labels is not None:
                row["label error"] = float(np.mean(labels[nearest(Y)] != labels))
            rows.append(row)
            print(*(f"{v:.4f}" if isinstance(v, float) else f"{v}" for v in row.values()), flush=True)
    return rows


def nearest(Y: Any) -> Any:
    """Return the nearest other row of each."""
    from scipy.spatial import cKDTree

    return cKDTree(Y).query(Y, 2)[1][:, 1]


def main() -> None:
    """Fit, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = real() if given.real else rolls(given.seeds)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
