"""The command line on a file of a million rows: seconds and peak memory of `manifoldry embed`, from CSV to report.

    python benchmarks/embed_file.py [--rows 1000000] [--methods PCA IPA]

The file, a noisy Swiss roll turned into 20 dimensions (about 200 MB), is made in a temporary folder; every run is a
process of its own with all outputs. Seconds are wall-clock, memory is the largest resident set.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import csv as arrow_csv
from pyarrow import table as arrow_table

from manifoldry import datasets
from tables import Table

N_COLUMNS = 20
NOISE = 0.01
STAGES = ("read", "fit", "write", "save", "evaluate", "report")


def make_file(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    roll = datasets.swiss_roll(n).X
    turned = roll @ np.linalg.qr(rng.standard_normal((N_COLUMNS, 3)))[0].T
    X = np.round(turned + NOISE * rng.standard_normal((n, N_COLUMNS)), 6)
    arrow_csv.write_csv(arrow_table({f"c{j}": X[:, j] for j in range(N_COLUMNS)}), path)


def run(path: Path, method: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "manifoldry", "embed", path.name, "--method", method, "--json", "--force"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=path.parent, stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    record = json.loads(told)
    spent = record["seconds"]
    return {
        "method": method,
        "rows": record["source"]["rows"],
        "file MB": path.stat().st_size / 1e6,
        "seconds": seconds,
        "CPU seconds": usage.ru_utime + usage.ru_stime,
        "peak MB": usage.ru_maxrss / 1024,
        **{stage: spent[stage] for stage in STAGES},
        "report MB": record["outputs"]["report"]["bytes"] / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--methods", nargs="+", default=["PCA", "IPA"])
    given = parser.parse_args()
    caption = (
        "`manifoldry embed rows.csv --method ...` as a process of its own, from the text file to coordinates, model, "
        "report and record; seconds of each stage behind those of the whole."
    )
    numbers = {"file MB": ".0f", "seconds": ".1f", "CPU seconds": ".1f", "peak MB": ",.0f"}
    columns = {"method": "", "rows": ",", **numbers, **dict.fromkeys(STAGES, ".1f"), "report MB": ".1f"}
    table = Table("embed_file", caption, columns, ("pyarrow",))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        make_file(path, given.rows)
        for method in given.methods:
            table.add(**run(path, method))


if __name__ == "__main__":
    main()
