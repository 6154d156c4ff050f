"""Tables of measurements: printed and stored row by row, in benchmarks/results, with machine, versions and commit.

A run that ends early leaves the rows that it has measured.

``docs/build.py`` renders the stored tables in the pages that name them, so no number of a page is typed by hand.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import manifoldry
from manifoldry._core.memory import physical_memory

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BASE_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


class Table:
    """One table of a benchmark.

    Parameters
    ----------
    name : str
        File name in ``benchmarks/results``, and what pages call it.
    caption : str
        A sentence on what was measured and how.
    columns : dict
        Format of the cells by heading: "" for text, ".2f" for seconds.
    packages : sequence of str
        Packages compared with, whose versions are stored beside those of the base.
    """

    def __init__(self, name: str, caption: str, columns: Mapping[str, str], packages: Sequence[str] = ()) -> None:
        self.name, self.caption, self.columns = name, caption, columns
        self.packages = (*BASE_PACKAGES, *packages)
        self.rows: list[dict[str, Any]] = []
        self.load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        print(f"\n{name}: {caption}\n\n{_line(columns)}\n{_line(['---'] * len(columns))}", flush=True)

    def add(self, error: str = "", **cells: Any) -> None:
        """Append a row, cells by heading (an underscore for a space), and print it; an error fills the last cell."""
        row = {heading.replace("_", " "): cell for heading, cell in cells.items()}
        unknown = set(row) - set(self.columns)
        if unknown:
            raise ValueError(f"{self.name} has no column {sorted(unknown)}.")
        self.rows.append({**row, "error": error} if error else row)
        print(_line(row_cells(self.columns, self.rows[-1])), flush=True)
        self._store()

    def put(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Store these rows, by heading, in place of all others: those of an earlier run, or all in a new order."""
        self.rows = [dict(row) for row in rows]
        self._store()

    def _store(self) -> None:
        """Write the table as JSON; ``docs/build.py`` renders it."""
        RESULTS.mkdir(exist_ok=True)
        stored = {
            "caption": self.caption,
            **circumstances(self.packages),
            "load_before": self.load,
            "columns": dict(self.columns),
            "rows": self.rows,
        }
        (RESULTS / f"{self.name}.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def render(stored: Mapping[str, Any]) -> str:
    """Return a stored table as Markdown: caption, rows, and a sentence on the circumstances."""
    columns = stored["columns"]
    body = [_line(row_cells(columns, row)) for row in stored["rows"]]
    lines = [_line(columns), _line(["---"] * len(columns)), *body]
    return "\n".join([stored["caption"], "", *lines, "", f"*{describe(stored)}*", ""])


def row_cells(columns: Mapping[str, str], row: Mapping[str, Any]) -> list[str]:
    """Return the texts of one row; an error fills the last cell."""
    cells = [_text(row.get(heading), spec) for heading, spec in columns.items()]
    if "error" in row:
        cells[-1] = row["error"].replace("|", "/")
    return cells


def describe(found: Mapping[str, Any]) -> str:
    """Return the circumstances as a sentence."""
    machine, load = found["machine"], found["load_before"]
    versions = ", ".join(f"{package} {number}" for package, number in found["versions"].items())
    return (
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, {machine['system']}; "
        f"Python {found['python']}, {versions}; commit {found['commit']}, {found['date']}"
        + ("." if load is None else f"; load average {load:.1f} before the run.")
    )


def circumstances(packages: Sequence[str]) -> dict[str, Any]:
    """Return what a measurement depends on: machine, versions, commit, day."""
    versions = {"manifoldry": manifoldry.__version__}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gb": round(physical_memory() / 1e9),
            "cpu": _cpu(),
            "system": platform.system(),
        },
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Any, spec: str) -> str:
    return "" if cell is None else format(cell, spec)


def _cpu() -> str:
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # macOS, Windows
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in listed if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """Return the short name of the commit, and whether the source differs from it; "unknown" outside of a clone."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name} with changes" if changed else name


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
