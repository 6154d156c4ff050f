"""Growth of processor time with the number of points: CPU seconds on one thread, and the exponent at the end.

    MANIFOLDRY_DATA=folder python benchmarks/growth.py [--quick] [--former src] [--data roll] [--only LLE] [--limit 60]

A Swiss roll, which has separators, and images in 50 columns, which have none. The fits of a row follow each other in a
process of its own that has fitted 60,000 points of the roll and 10,000 of the same data before (LDLC, which takes
minutes for them: 2,000 of the same data), so that all loops are compiled. A fit that would take more than ``--limit``
seconds is stopped, and larger ones are left out. ``--former`` is the source folder of another version, whose rows
alternate; folders of packages that only it needs may follow, after a colon. ``--quick`` ends at 10,000 points. Stores
the table.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZES = {"roll": (5_000, 10_000, 20_000, 40_000, 80_000), "mnist50": (5_000, 10_000, 20_000, 40_000, 70_000)}
METHODS = ("LLE", "LTSA", "HessianEigenmaps", "LaplacianEigenmaps", "DiffusionMaps", "LDLC")
N_WARM, N_WARM_ROLL, N_WARM_LDLC = 10_000, 60_000, 2_000  # the second use all compiled loops


def load(data: str) -> Callable[[int], np.ndarray]:
    """Return the function that returns so many rows."""
    if data == "roll":
        from manifoldry import datasets

        return lambda n: datasets.swiss_roll(n, random_state=0).X
    from neighbor_embeddings import load as load_mnist

    X = load_mnist(data)[0]
    return lambda n: X[:n]


def measure(method: str, data: str, limit: float, sizes: list[int]) -> None:
    """Print the processor seconds of fits; the process is ended by the system when one of them exceeds the limit."""
    import manifoldry

    rows = load(data)
    model = getattr(manifoldry, method)(n_jobs=1, verbose=0)
    for warm in [rows(N_WARM_LDLC)] if method == "LDLC" else [load("roll")(N_WARM_ROLL), rows(N_WARM)]:
        model.fit(warm)
    for n in sizes:
        X, start = rows(n), time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(start + limit) + 1, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        model.fit(X)
        print(time.process_time() - start, flush=True)


def seconds(source: str, arguments: list[str]) -> tuple[list[float], str]:
    """Measure a row in a process of its own with the package of a source folder; return it and why it ended early."""
    folders = os.pathsep.join([source, str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": folders, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--cell", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = [float(line) for line in done.stdout.split()]
    if done.returncode < 0:  # ended by a signal: SIGXCPU or SIGKILL
        return found, f"next over {float(arguments[2]):g} s" if done.returncode == -signal.SIGXCPU else "killed"
    return found, done.stderr.strip().splitlines()[-1][:100] if done.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--former", help="source folder of another version")
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--cell", nargs="+")
    options = parser.parse_args()
    if options.cell:
        method, data, limit, *sizes = options.cell
        measure(method, data, float(limit), [int(n) for n in sizes])
        return
    from tables import Table

    sizes = {data: SIZES[data][: 2 if options.quick else None] for data in options.data}
    columns = {"data": "", "method": "", "version": ""}
    columns |= {f"{n:,}": ".2f" for n in sorted({n for row in sizes.values() for n in row})}
    caption = (
        "Processor seconds of a fit on one thread, by the number of points, and the exponent of growth between the "
        f"last two sizes. A row ends before the first fit of more than {options.limit:g} s, or that failed."
    )
    versions = {"now": str(Path(__file__).resolve().parent.parent / "src")}
    if options.former:
        if not any((Path(folder) / "manifoldry").is_dir() for folder in options.former.split(os.pathsep)):
            parser.error(f"{options.former} has no folder manifoldry.")
        versions = {"former": options.former, **versions}
    table = Table("growth", caption, {**columns, "exponent": ".2f", "end": ""})
    for data in options.data:
        for method in options.only:
            for version, source in versions.items():
                found, end = seconds(source, [method, data, str(options.limit), *map(str, sizes[data])])
                cells = {f"{n:,}": value for n, value in zip(sizes[data], found, strict=False)}
                if len(found) > 1:
                    last = slice(len(found) - 2, len(found))
                    cells["exponent"] = float(np.diff(np.log(found[last]))[0] / np.diff(np.log(sizes[data][last]))[0])
                table.add(data=data, method=method, version=version, **cells, end=end)


if __name__ == "__main__":
    main()
