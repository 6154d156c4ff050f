"""The unfolding methods, ours alone: seconds, memory, proven gap and error against the true coordinates.

    python benchmarks/unfolding.py [--quick]

Swiss rolls, IPA's holed; each fit in a process of its own that has fitted 1,500 points before (the smaller methods
300). ``--quick`` leaves out what takes more than a few seconds. Stores the table. Needs psutil.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

import peers
from manifoldry import datasets, metrics
from peers import in_own_process, measure
from tables import Table

peers.MAX_SECONDS = 900
CELLS = [
    ("IPA", 50_000, {}),
    ("IPA", 1_000_000, {}),
    ("IPA", 10_000_000, {}),
    ("TesseraMap", 5_000, {}),
    ("TesseraMap", 30_000, {"n_patches": 100}),
    ("TesseraMap", 50_000, {"n_patches": 100}),
    ("MVU", 300, {"n_neighbors": 6}),
    ("MVU", 1_000, {"n_neighbors": 6}),
    ("MVU", 2_000, {"n_neighbors": 6}),
    ("FastMVU", 2_000, {"n_neighbors": 6}),
    ("FastMVU", 50_000, {"n_neighbors": 6}),
    ("EAT", 150, {"n_neighbors": 6}),
    ("EAT", 1_000, {"n_neighbors": 6}),
]
QUICK = {("IPA", 50_000), ("TesseraMap", 5_000), ("MVU", 300), ("FastMVU", 2_000), ("EAT", 150)}
N_SMALL_WARM_UP = {"MVU": 300, "EAT": 100}
"""Points of the warm-up where 1,500 would take as long as the fit."""
N_JUDGED = 100_000
"""Points that the errors are taken of, at most."""


def load(method: str, n: int) -> datasets.Dataset:
    return datasets.swiss_roll(n, hole=True) if method == "IPA" else datasets.swiss_roll(n, height=20.0)


def run_cell(method: str, n: int, save: str) -> None:
    import manifoldry

    settings = next(given for name, size, given in CELLS if (name, size) == (method, n))
    peers.N_WARM_UP = min(N_SMALL_WARM_UP.get(method, peers.N_WARM_UP), n)
    gaps = []

    def fit(X: np.ndarray) -> np.ndarray:
        model = getattr(manifoldry, method)(n_components=2, **settings).fit(X)
        gaps.append(float(model.certificate_.gap))
        return model.embedding_

    result = measure(fit, load(method, n).X, 1)
    np.save(save, result.pop("Y")[:: max(1, n // N_JUDGED)])
    print(json.dumps({**result, "gap": gaps[-1]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sets only")
    parser.add_argument("--cell", nargs=2, metavar=("METHOD", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(options.cell[0], int(options.cell[1]), options.save)
        return
    caption = (
        "Unfolding methods on a Swiss roll (IPA: holed), ours alone, each fit in a process of its own. The gap is what "
        "the certificate proves of the semidefinite program; errors are against the true coordinates."
    )
    columns = {"method": "", "points": ",", "seconds": ".2f", "added MB": ".0f", "gap": ".1e", "rigid error": ".1e"}
    table = Table("unfolding", caption, columns)
    with tempfile.TemporaryDirectory() as folder:
        for method, n, _ in CELLS:
            if options.quick and (method, n) not in QUICK:
                continue
            cell = in_own_process(__file__, [method, str(n)], Path(folder))
            if "error" in cell:
                table.add(method=method, points=n, error=cell["error"])
                continue
            truth = load(method, n).truth[:: max(1, n // N_JUDGED)]
            table.add(
                method=method,
                points=n,
                seconds=cell["seconds"],
                added_MB=cell["added_mb"],
                gap=cell["gap"],
                rigid_error=metrics.procrustes(cell["Y"], truth).error,
            )


if __name__ == "__main__":
    main()
