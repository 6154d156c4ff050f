"""What a fit to rows in blocks costs, for every method and clustering that takes a sample: seconds and peak memory.

    MANIFOLDRY_DATA=folder python benchmarks/sample_fits.py [--quick] [--only Isomap ...]

Each fits the sample that it takes by itself (`Card.blocks`) of 200,000 rows of `interpolated_digits` in a process of
its own, after a warm-up on 300 rows; clusterings look for ten clusters. ``--quick`` takes 1,000 rows and stores no
table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from interpolated_digits import InterpolatedDigits
from manifoldry._core.registry import list_clusterings, list_methods
from peers import peak_memory
from tables import Table

N_ROWS, QUICK_ROWS, N_WARM_UP = 200_000, 1_000, 300
MAX_STAGE_SECONDS = 900


def fit(name: str, n: int, path: Path) -> None:
    """Fit a method to a sample of n rows here, and print what it took."""
    card = next(card for card in (*list_methods(), *list_clusterings()) if card.name == name)
    wanted = {"n_components": card.test_params.get("n_components", 2), "n_clusters": 10}
    settings = {key: value for key, value in wanted.items() if key in card.cls().get_params()}
    blocks = InterpolatedDigits.cached(path).rows(n)
    some = np.abs(blocks.sample(N_WARM_UP, np.random.default_rng(1)).rows)
    card.cls(**settings).fit(some)
    model = card.cls(**settings)
    rows = blocks.sample(model._chunk_support.n_rows, np.random.default_rng(0)).rows
    rows = np.abs(rows) if name == "NMF" else rows
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(rows)
    found = {"rows": len(rows), "seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - cpu}
    print(json.dumps({**found, "peak GB": peak_memory() / 1e9}))


def measured(name: str, n: int, path: Path) -> dict[str, float | str]:
    """Fit a method in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--fit", name, str(n), "--digits", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_STAGE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {MAX_STAGE_SECONDS} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--digits", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fit:
        fit(asked.fit[0], int(asked.fit[1]), asked.digits)
        return
    n = QUICK_ROWS if asked.quick else N_ROWS
    sampled = [card.name for card in (*list_methods(), *list_clusterings()) if card.cls._chunk_support.kind == "sample"]
    columns = {"method": "", "rows": ",", "seconds": ".1f", "CPU seconds": ".1f", "peak GB": ".2f"}
    caption = (
        f"Fits to the sample of rows in blocks that a method takes, of {n:,} rows of 50 columns in single precision."
    )
    table = None if asked.quick or asked.only else Table("sample_fits", caption, columns)
    with tempfile.TemporaryDirectory() as folder:
        path = asked.digits or Path(folder) / "digits.npz"
        InterpolatedDigits.cached(path)
        for name in asked.only or sampled:
            found = measured(name, n, path)
            if table is None:
                print({"method": name, **found}, flush=True)
            else:
                table.add(**{"method": name, **found})


if __name__ == "__main__":
    main()
