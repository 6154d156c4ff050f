"""Measure one fit in a process of its own: seconds of the best repeat and the memory that the fit added.

Every (library, method, data) cell runs in a fresh process with the same number of threads: a warm-up on 1,500 points
first (imports, compiled loops), then the fit, repeated. What a virtual machine's first touch of fresh memory costs
is paid before, by another process that fills as much.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

MAX_SECONDS = 400
N_WARM_UP = 1500


def measure(fit: Callable[[np.ndarray], np.ndarray], X: np.ndarray, repeats: int, fill_mb: int = 0) -> dict[str, Any]:
    """Return seconds and CPU seconds of the best repeat, added memory in MB (peak over before) and coordinates."""
    import psutil

    if fill_mb:
        code = f"import numpy; numpy.empty({fill_mb * 1_000_000 // 8}).fill(1.0)"
        subprocess.run([sys.executable, "-c", code], check=True)
    with suppress(Exception):  # a peer may fail on these points and not on all
        fit(X[:: max(1, len(X) // N_WARM_UP)][:N_WARM_UP])
    before = psutil.Process().memory_info().rss
    best = np.inf, np.inf
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        Y = fit(X)
        best = min(best, (time.perf_counter() - start[0], time.process_time() - start[1]))
    return {"seconds": best[0], "cpu_seconds": best[1], "added_mb": (peak_memory() - before) / 1e6, "Y": Y}


def peak_memory() -> int:
    """Return the most bytes that this process has held; on Linux ``ru_maxrss`` would begin with the parent's."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_own_process(script: str, cell: list[str], folder: Path) -> dict[str, Any]:
    """Run ``script --cell ...`` and return its JSON line, or what went wrong; coordinates come by file."""
    path = folder / ("-".join(cell).replace("/", "_") + ".npy")
    command = [sys.executable, "-W", "ignore", script, "--cell", *cell, "--save", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {MAX_SECONDS} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    result["Y"] = np.load(path)
    return result
