"""Seconds and peak memory of reading a large CSV, in new processes: `read_table` against pandas and polars.

    python benchmarks/reading.py [--rows 1000000] [--columns 20]

Normal numbers of ten characters. Everyone ends with one C-ordered array of double precision, which is what an embedding
takes. Stores the table unless the size is another. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tables import Table

N_ROWS, N_COLUMNS = 1_000_000, 20
PIECE = 20_000
"""Rows that are written at once."""

REPEATS = 2
"""Runs of each reader, of which the faster is stored."""

CODE = """
import json, resource, time
begin, used = time.perf_counter(), time.process_time()
import numpy as np
{imports}
X = {read}
assert X.flags.c_contiguous and X.dtype == np.float64, X.dtype
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([X.shape, X[-1, -1], time.perf_counter() - begin, time.process_time() - used, peak / 1e6]))
"""
READERS = {
    "manifoldry": ("from manifoldry import read_table", "read_table({path!r}).X"),
    "pandas": ("import pandas", "np.ascontiguousarray(pandas.read_csv({path!r}).to_numpy())"),
    "polars": ("import polars", "np.ascontiguousarray(polars.read_csv({path!r}).to_numpy())"),
    "numpy": ("", "np.loadtxt({path!r}, delimiter=',', skiprows=1)"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--columns", type=int, default=N_COLUMNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        expected = write(path, options.rows, options.columns)
        size = path.stat().st_size / 1e6
        found = [name for name in READERS if importlib.util.find_spec(name)]
        rows = [{"reader": name, **measure(name, path, expected)} for name in found]
    columns = {"reader": "", "seconds": ".1f", "CPU seconds": ".1f", "peak memory (GB)": ".2f"}
    if (options.rows, options.columns) != (N_ROWS, N_COLUMNS):
        print(*rows, sep="\n")
        return
    caption = (
        f"A CSV of {options.rows:,} x {options.columns} numbers ({size:.0f} MB) read into one array in a new process, "
        f"import of the library counted; the better of {REPEATS} runs."
    )
    Table("reading", caption, columns, ("pyarrow", "pandas", "polars")).put(rows)


def write(path: Path, n_rows: int, n_columns: int) -> float:
    """Write normal numbers to a CSV and return the last one, in pieces: a process begins with its parent's peak."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(n_columns)]
    with arrow_csv.CSVWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for begin in range(0, n_rows, PIECE):
            X = rng.normal(size=(min(PIECE, n_rows - begin), n_columns)).round(7)
            writer.write_table(pa.table(dict(zip(names, X.T.copy(), strict=True))))
    return float(X[-1, -1])


def measure(name: str, path: Path, expected: float) -> dict[str, float]:
    """Return the figures of one reader, and check what it has read."""
    imports, read = READERS[name]
    code = CODE.format(imports=imports, read=read.format(path=str(path)))
    runs = []
    for _ in range(REPEATS):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
        _, last, seconds, used, peak = json.loads(done.stdout)
        if last != expected:
            raise ValueError(f"{name} read {last!r} in place of {expected!r}.")
        runs.append({"seconds": seconds, "CPU seconds": used, "peak memory (GB)": peak})
    return min(runs, key=lambda run: run["seconds"])


if __name__ == "__main__":
    main()
