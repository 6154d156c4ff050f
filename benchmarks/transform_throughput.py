"""New rows placed by one core: rows per second of ``transform`` of every method, ``predict`` of every clustering.

    MANIFOLDRY_DATA=folder python benchmarks/transform_throughput.py [--quick] [--methods UMAP TSNE ...]

Each method is fitted in a process of its own to 5,000 rows of 50 principal components of MNIST in single precision
(of images of digits that come with scikit-learn, with noise, when the folder has no mnist.npz), or to fewer where that
takes more than 90 seconds of the processor. Only the map goes on, as it would to a worker: a second process reads it and places other
rows in pieces, with one thread, for some seconds of the processor. ``--quick`` fits 500 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import manifoldry
from manifoldry import datasets
from manifoldry.base.blockwise import ShippedMap
from manifoldry.run import Run
from peers import peak_memory
from tables import Table

N_COLUMNS = 50
FITTED_ROWS = 5_000, 1_000, 300
"""Rows of the fit, and what is tried after a fit that does not end."""
SMALL_FITS = {"MDS": 2_000, "NonmetricMDS": 1_000, "EAT": 300, "MVU": 300}
"""Rows with which those begin of which it is known that more take minutes."""
MAX_FIT_SECONDS = 90
"""Seconds of the processor; a machine that is shared may take ten times as long."""
MAX_PLACING_SECONDS = 4.0
"""Seconds of the processor after which no further piece is placed."""
MIN_PIECE, MAX_PIECE = 32, 4096
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
COLUMNS = {
    "method": "",
    "call": "",
    "fitted rows": ",",
    "rows per second": ",.0f",
    "µs per row": ",.1f",
    "map, MB": ".2f",
    "peak, MB": ",.0f",
}


def rows_of_digits() -> tuple[np.ndarray, str]:
    """Return shuffled rows of the leading columns of images of digits, and what they are."""
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    if "mnist" in datasets.available():
        X, name = datasets.load("mnist").X.astype(np.float32), "MNIST"
    else:
        few = datasets.load("digits").X
        X, name = (
            few[rng.integers(len(few), size=20_000)] + rng.normal(size=(20_000, few.shape[1])),
            "digits with noise",
        )
    Z = PCA(N_COLUMNS, random_state=0).fit_transform(X).astype(np.float32)
    return Z[rng.permutation(len(Z))], name


def rows_for(name: str, folder: Path) -> np.ndarray:
    """Return the rows; those of a method that takes no negative numbers are moved."""
    rows = np.load(folder / "rows.npy")
    return rows - rows.min() if name == "NMF" else rows


def fit(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Fit a method to n rows, and write its map."""
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_FIT_SECONDS, MAX_FIT_SECONDS))
    model = getattr(manifoldry, name)()
    model.fit(rows_for(name, folder)[:n])
    call = "transform" if hasattr(model, "transform") and name in _names(manifoldry.methods()) else "predict"
    if not hasattr(model, call):
        return {"error": "has no map of new rows"}
    shipped = pickle.dumps(ShippedMap(model._map_alone(call), call))
    (folder / f"{name}.map").write_bytes(shipped)
    return {"call": call, "n": n, "bytes": len(shipped)}


def place(name: str, folder: Path) -> dict[str, Any]:
    """Read a map and place rows that were not fitted, one piece after the other."""
    shipped = pickle.loads((folder / f"{name}.map").read_bytes())
    rows = rows_for(name, folder)[FITTED_ROWS[0] :]
    run = Run(0, 1)
    shipped(rows[:MIN_PIECE], run)
    began = time.process_time()
    shipped(rows[:MIN_PIECE], run)
    per_row = (time.process_time() - began) / MIN_PIECE
    piece = int(np.clip(1.0 / max(per_row, 1e-9), MIN_PIECE, MAX_PIECE))
    done, spent, at = 0, 0.0, 0
    while spent < MAX_PLACING_SECONDS:
        part = rows[at : at + piece]
        began = time.process_time()
        shipped(part, run)
        spent, done = spent + time.process_time() - began, done + len(part)
        at = at + piece if at + 2 * piece <= len(rows) else 0
    return {"rows": done, "seconds": spent, "peak": peak_memory()}


def _names(cards: Any) -> list[str]:
    return [card.name for card in cards]


def in_new_process(*words: str) -> dict[str, Any]:
    """Run a part of this script on one thread; return what it prints, or what went wrong."""
    command = [sys.executable, "-W", "ignore", __file__, *words]
    settings = {"capture_output": True, "text": True, "timeout": 10 * MAX_FIT_SECONDS, "check": False}
    try:
        done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, **settings)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {10 * MAX_FIT_SECONDS} s"}
    if done.returncode:
        return {
            "error": (done.stderr.strip().splitlines() or [f"not finished after {MAX_FIT_SECONDS} s of the processor"])[
                -1
            ][:120]
        }
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def measured(name: str, sizes: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """Return what one method does, fitted to the first number of rows that it takes."""
    found: dict[str, Any] = {}
    most = SMALL_FITS.get(name, sizes[0])
    for n in dict.fromkeys(min(n, most) for n in sizes):
        found = in_new_process("--fit", name, str(n), str(folder))
        if "error" not in found:
            return found | in_new_process("--place", name, str(folder))
        if "has no map" in found["error"]:
            break
    return found


def main() -> None:
    """Measure all methods, or run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--fit", nargs=3)
    parser.add_argument("--place", nargs=2)
    options = parser.parse_args()
    if options.fit:
        name, n, folder = options.fit
        print(json.dumps(fit(name, int(n), Path(folder))))
    elif options.place:
        print(json.dumps(place(options.place[0], Path(options.place[1]))))
    else:
        names = options.methods or [*_names(manifoldry.methods()), *_names(manifoldry.clusterings())]
        run(names, (500, *FITTED_ROWS[2:]) if options.quick else FITTED_ROWS)


def run(names: list[str], sizes: tuple[int, ...]) -> None:
    """Store the table of these methods, the fastest first."""
    with tempfile.TemporaryDirectory() as place_of_maps:
        folder = Path(place_of_maps)
        Z, source = rows_of_digits()
        np.save(folder / "rows.npy", Z)
        table = Table(
            "transform_throughput",
            f"New rows placed by one core: methods fitted to rows of {N_COLUMNS} principal components of {source} in "
            "single precision, then only the map, read by another process, whose peak memory (with the imports) is "
            "given. Seconds are those of the processor.",
            COLUMNS,
        )
        for name in names:
            found = measured(name, sizes, folder)
            if "error" in found:
                table.add(method=name, error=found["error"])
                continue
            seconds = found["seconds"] / found["rows"]
            table.add(
                method=name,
                call=found["call"],
                fitted_rows=found["n"],
                rows_per_second=1 / seconds,
                **{"µs per row": 1e6 * seconds, "map, MB": found["bytes"] / 1e6, "peak, MB": found["peak"] / 1e6},
            )
    table.put(sorted(table.rows, key=lambda row: -row.get("rows per second", 0.0)))


if __name__ == "__main__":
    main()
