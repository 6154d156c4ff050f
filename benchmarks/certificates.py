"""The certificates of the unfolding family, ours alone: verdict, gap, rank, broken constraints and seconds.

    python benchmarks/certificates.py [--quick]

Holed Swiss rolls and real sets, at the default settings (six neighbors on rolls); each fit in a process of its own that
has fitted 300 points before. ``--quick`` leaves out what is larger than 1,000 points. Methods of two stages have a row
for each. Stores the table row by row. The real sets need ``MANIFOLDRY_DATA``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import peers
from manifoldry import datasets
from manifoldry._core.values import Certificate
from peers import in_own_process
from real_sets import SETS
from tables import Table

peers.MAX_SECONDS = 900
N_FIRST, N_QUICK = 300, 1_000
LARGE, MIDDLE, SMALL = (300, 1_000, 2_000, 10_000), (300, 1_000, 2_000), (300, 1_000)
METHODS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "IPA": ("IPA", {}, LARGE),
    "TesseraMap": ("TesseraMap", {}, LARGE),
    "MVU, equal": ("MVU", {"constraints": "equal"}, MIDDLE),
    "MVU, at most": ("MVU", {"constraints": "at most"}, MIDDLE),
    "EAT": ("EAT", {}, SMALL),
    "FastMVU": ("FastMVU", {}, LARGE),
    "LandmarkMVU": ("LandmarkMVU", {}, LARGE),
}
"""Classes, parameters and sizes of the rolls, by the names in the table."""

REAL_SETS = {"frey": 500, "digits": 300}
"""Rows drawn from the real sets."""

PATCHED = ("IPA", "TesseraMap")
"""Methods that have no need of few neighbors on a roll."""

STAGES = {"certificate_": "result", "error_certificate_": "kept distances"}
"""What the attributes prove, in a word: of the result, or of the errors that its first stage left."""


def load(name: str, n: int) -> np.ndarray:
    return datasets.swiss_roll(n, hole=True).X if name == "roll" else SETS[name]().sample(n).X


def certificates(model: Any) -> list[dict[str, Any]]:
    """Return the cells of each certificate that a fitted model has."""
    found = {stage: getattr(model, attribute, None) for attribute, stage in STAGES.items()}
    return [{"stage": stage, **_cells(proof)} for stage, proof in found.items() if proof is not None]


def _cells(proof: Certificate) -> dict[str, Any]:
    return {
        "verdict": proof.verdict,
        "gap": float(proof.gap) if np.isfinite(proof.gap) else None,
        "rank": int(proof.rank),
        "violation": float(proof.violation),
    }


def run_cell(label: str, name: str, n: int, save: str) -> None:
    import manifoldry

    method, settings, _ = METHODS[label]
    if name == "roll" and method not in PATCHED:
        settings = {**settings, "n_neighbors": 6}
    model, X = getattr(manifoldry, method)(n_components=2, **settings), load(name, n)
    model.fit(X[:: max(1, n // N_FIRST)])
    start = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - start
    np.save(save, model.embedding_)
    print(json.dumps({"seconds": seconds, "certificates": certificates(model)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="at most 1,000 points")
    parser.add_argument("--cell", nargs=3, metavar=("METHOD", "SET", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        label, name, n = options.cell
        run_cell(label, name, int(n), options.save)
        return
    caption = (
        "What the certificates prove at default settings (on rolls with six neighbors), each fit in a process of its "
        "own. The gap is relative to the value reached; the rank is that before the projection to two dimensions."
    )
    columns = {"method": "", "data": "", "points": ",", "stage": "", "verdict": "", "gap": ".1e", "rank": ""}
    table = Table("certificates", caption, {**columns, "violation": ".1e", "seconds": ".2f"})
    with tempfile.TemporaryDirectory() as folder:
        for label, (_, _, sizes) in METHODS.items():
            for name, n in [*(("roll", n) for n in sizes), *REAL_SETS.items()]:
                if options.quick and n > N_QUICK:
                    continue
                cell = in_own_process(__file__, [label, name, str(n)], Path(folder))
                for row in cell.get("certificates", []):
                    table.add(method=label, data=name, points=n, seconds=cell["seconds"], **row)
                if "error" in cell:
                    table.add(method=label, data=name, points=n, error=cell["error"])


if __name__ == "__main__":
    main()
