"""The full score of large embeddings: seconds and peak memory of the whole process, beside scikit-learn and ZADU.

    MANIFOLDRY_DATA=folder python benchmarks/scoring.py [--quick] [--zadu PYTHON]

MNIST with all 784 columns and with 50 principal components, laid out by UMAP of the components: 70,000 rows, and the
first of them; with ``--quick`` 2,000 rows. scikit-learn's trustworthiness and ZADU's trustworthiness, stress and
neighborhood hit are run at sizes that they can do: they compare all points with all. Each in a process of its own,
whose peak memory includes the interpreter, the libraries and the data. ``--zadu`` is a Python that has zadu installed.
Stores the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

MAX_SECONDS = 900
"""Seconds after which a measurement is given up."""

SIZES = {
    "manifoldry": (2000, 10_000, 70_000),
    "manifoldry, sample=None": (10_000,),
    "scikit-learn": (2000, 10_000),
    "ZADU": (2000, 10_000),
}
"""Rows at which each is run: without a sample the time, and scikit-learn's memory, grow with the square of n."""

WHAT = {
    "manifoldry": "all figures, and PCA's",
    "manifoldry, sample=None": "all figures, and PCA's",
    "scikit-learn": "trustworthiness",
    "ZADU": "trustworthiness, continuity, stress, neighborhood hit",
}


def manifoldry_score(X: np.ndarray, Y: np.ndarray, labels: np.ndarray) -> float:
    from manifoldry import score

    return score(X, Y, labels)["trustworthiness"]


def manifoldry_whole(X: np.ndarray, Y: np.ndarray, labels: np.ndarray) -> float:
    from manifoldry import score

    return score(X, Y, labels, sample=None)["trustworthiness"]


def sklearn_trustworthiness(X: np.ndarray, Y: np.ndarray, labels: np.ndarray) -> float:  # noqa: ARG001
    from sklearn.manifold import trustworthiness

    return float(trustworthiness(X, Y, n_neighbors=15))


def zadu_measures(X: np.ndarray, Y: np.ndarray, labels: np.ndarray) -> float:
    from zadu import zadu

    spec = [
        {"id": "tnc", "params": {"k": 15}},
        {"id": "stress", "params": {}},
        {"id": "nh", "params": {"k": 15}},
    ]
    return float(zadu.ZADU(spec, X).measure(Y, label=labels)[0]["trustworthiness"])


RUNS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], float]] = {
    "manifoldry": manifoldry_score,
    "manifoldry, sample=None": manifoldry_whole,
    "scikit-learn": sklearn_trustworthiness,
    "ZADU": zadu_measures,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 rows only")
    parser.add_argument("--zadu", metavar="PYTHON", help="a Python with zadu; left out if not given")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        cell(options.cell[0], options.cell[1:])
        return
    # Not above: the Python of a peer need not have us.
    from manifoldry import UMAP, datasets
    from tables import Table

    caption = (
        "The score of a layout of MNIST, 15 neighbors: seconds by the clock and of the processor, imports and the "
        "loading of compiled loops included, and the peak memory of the whole process, the data in double precision. "
        "The first compares 1,000 points with all where there are more than 3,000; the others compare all with all."
    )
    columns = {"library": "", "computes": "", "rows": ",", "columns": ",", "seconds": ".1f", "processor": ".1f"}
    table = Table("scoring", caption, {**columns, "peak GB": ".2f", "trustworthiness": ".4f"})
    data = datasets.load("mnist")
    n = 2000 if options.quick else len(data.X)
    small = components(data.X[:n])
    Y = UMAP(random_state=0).fit_transform(small)
    with tempfile.TemporaryDirectory() as folder:
        for X in (data.X[:n].astype(np.float64), small.astype(np.float64)):
            paths = [Path(folder) / f"{name}.npy" for name in ("X", "Y", "labels")]
            for library, sizes in SIZES.items():
                for size in (size for size in sizes if size <= n):
                    for path, array in zip(paths, (X, Y, data.labels), strict=True):
                        np.save(path, array[:size])
                    python = options.zadu if library == "ZADU" else sys.executable
                    if python:
                        found = measured(python, library, paths)
                        named = {"library": library, "computes": WHAT[library], "rows": size, "columns": X.shape[1]}
                        table.add(**named, **found)


def components(X: np.ndarray) -> np.ndarray:
    """Return the first 50 principal components."""
    centered = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return centered @ vectors[:, ::-1][:, :50]


def measured(python: str, library: str, paths: list[Path]) -> dict[str, object]:
    """Return seconds, peak memory and trustworthiness that a new process found."""
    command = [python, "-W", "ignore", __file__, "--cell", library, *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {MAX_SECONDS} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1][:120]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def cell(library: str, paths: list[str]) -> None:
    """Measure one run in this process, and print it."""
    X, Y, labels = (np.load(path) for path in paths)
    began, spent = time.perf_counter(), time.process_time()
    value = RUNS[library](X, Y, labels)
    seconds, processor = time.perf_counter() - began, time.process_time() - spent
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({"seconds": seconds, "processor": processor, "peak_GB": peak / 1e9, "trustworthiness": value}))


if __name__ == "__main__":
    main()
