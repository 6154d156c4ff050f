"""Measure one fit in a process of its own: seconds of the best repeat and the memory that the fit added.

Every (library, method, data) cell runs in a fresh process with the same number of threads: a warm-up on 1,500 points
first (imports, compiled kernels), then the fit, repeated; the peak of resident memory is sampled by a thread. What
a machine's first touch of fresh memory costs is paid by an untimed fill before.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TIMEOUT = 400
WARM_UP = 1500


def measure(fit: Callable[[np.ndarray], np.ndarray], X: np.ndarray, repeats: int, fill_mb: int = 0) -> dict[str, Any]:
    """Return seconds (best of the repeats), added memory in MB (largest) and the last coordinates."""
    import psutil

    process = psutil.Process()
    if fill_mb:
        np.empty(fill_mb * 1_000_000 // 8).fill(1.0)
    fit(X[:: max(1, len(X) // WARM_UP)][:WARM_UP])
    best, added = np.inf, 0.0
    for _ in range(repeats):
        before, peak, done = process.memory_info().rss, [0], threading.Event()

        def watch(peak: list[int] = peak, done: threading.Event = done) -> None:
            while not done.wait(0.005):
                peak[0] = max(peak[0], process.memory_info().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        Y = fit(X)
        best = min(best, time.perf_counter() - start)
        done.set()
        watcher.join()
        added = max(added, (max(peak[0], process.memory_info().rss) - before) / 1e6)
    return {"seconds": best, "added_mb": added, "Y": Y}


def in_own_process(script: str, cell: list[str], folder: Path) -> dict[str, Any]:
    """Run ``script --cell ...`` and return its JSON line, or what went wrong; coordinates come by file."""
    path = folder / ("-".join(cell).replace("/", "_") + ".npy")
    command = [sys.executable, "-W", "ignore", script, "--cell", *cell, "--save", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {TIMEOUT} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    result["Y"] = np.load(path)
    return result
