"""Growth of processor time with the number of points: CPU seconds on one thread, and the exponent at the end.

    MANIFOLDRY_DATA=folder python benchmarks/growth.py [--quick] [--former src] [--data roll] [--only LLE] [--limit 60]

A Swiss roll, which has separators, and images in 50 columns, which have none. Every fit runs in a process of its own
that has fitted 60,000 points of the roll and 10,000 of the same data before, so that all loops are compiled; a fit that
would take more than ``--limit`` seconds is stopped, and larger ones are left out. ``--former`` is the source folder of
another version, which is measured alternately. ``--quick`` ends at 10,000 points. Stores the table.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SIZES = (5_000, 10_000, 20_000, 40_000, 80_000)
METHODS = ("LLE", "LTSA", "HessianEigenmaps", "LaplacianEigenmaps", "DiffusionMaps")
DATA = ("roll", "mnist50")
N_WARM, N_WARM_ROLL = 10_000, 60_000  # the latter use all compiled loops


def load(data: str, n: int) -> np.ndarray:
    if data == "roll":
        from manifoldry import datasets

        return datasets.swiss_roll(n, random_state=0).X
    from neighbor_embeddings import load as load_mnist

    return load_mnist(data)[0][:n]


def cell(method: str, data: str, n: int, limit: float) -> float:
    """Return the processor seconds of a fit; the process is ended by the system beyond the limit."""
    import manifoldry

    X = load(data, n)
    model = getattr(manifoldry, method)(n_jobs=1, verbose=0)
    for warm in (load("roll", N_WARM_ROLL), load(data, N_WARM)):
        model.fit(warm)
    start = time.process_time()
    most = int(start + limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    model.fit(X)
    return time.process_time() - start


def seconds(source: str, arguments: list[str]) -> float | None:
    """Measure a cell in a process of its own with the package of a source folder; None beyond the limit."""
    folders = os.pathsep.join([source, str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": folders, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--cell", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode < 0:  # ended by a signal: SIGXCPU or SIGKILL
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--former", help="source folder of another version")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--cell", nargs=4)
    options = parser.parse_args()
    if options.cell:
        method, data, n, limit = options.cell
        print(cell(method, data, int(n), float(limit)))
        return
    from tables import Table

    sizes = SIZES[:2] if options.quick else SIZES
    columns = {"data": "", "method": "", "version": "", **{f"{n:,}": ".2f" for n in sizes}, "exponent": ".2f"}
    caption = (
        "Processor seconds of a fit on one thread, by the number of points, and the exponent of growth between the "
        f"last two sizes; larger fits took more than {options.limit:.0f} s or, of mnist50, do not exist."
    )
    versions = {"now": str(Path(__file__).resolve().parent.parent / "src")}
    if options.former:
        versions = {"former": options.former, **versions}
    table = Table("growth", caption, columns)
    for data in options.data:
        for method in options.only:
            rows: dict[str, list[float]] = {version: [] for version in versions}
            for i, n in enumerate(sizes if data == "roll" else [n for n in sizes if n <= 70_000]):
                for version, found in rows.items():
                    if len(found) == i:
                        spent = seconds(versions[version], [method, data, str(n), str(options.limit)])
                        found.extend([] if spent is None else [spent])
            for version, found in rows.items():
                grown = float(np.log2(found[-1] / found[-2])) if len(found) > 1 else float("nan")
                cells = {f"{n:,}": value for n, value in zip(sizes, found, strict=False)}
                table.add(data=data, method=method, version=version, exponent=grown, **cells)


if __name__ == "__main__":
    main()
