"""IPA of a stream that is never in memory: time, peak of memory and error, up to 100,000,000 points.

    python benchmarks/stream_ipa.py [--quick] [--sizes 1e6 3e6 1e7 3e7 1e8] [--in-memory 1e6 3e6]

The points of a Swiss roll with a hole, three columns in single precision, are made block by block whenever they are
read, each block from the stream of its own number. ``fit`` reads them twice, ``transform`` once. Every size runs in a
process of its own, whose largest resident set is its peak of memory; the smaller sizes run in memory too, as an array.
CPU seconds are without those of making the points. The error is that of the rigid fit of all places to the known flat
coordinates, relative to their spread, and that of the first million alone, which are the same points in all sizes;
``placement`` is a digest of the motions of all patches, to the last bit.
``--quick`` takes some ten thousand points and stores neither table nor figure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry import IPA, chunked_data
from manifoldry._core.chunks import TreeReduction, rows_per_chunk
from manifoldry._core.run import Run
from manifoldry.data._chunked.sampling import RowMoments, merged_moments, row_moments
from manifoldry.data.datasets._flat import ROLL_HOLE, ROLL_TURNS, archimedean_length
from peers import peak_memory
from tables import ROOT, Table

SEED, HEIGHT = 16, 21.0
N_ANGLES = 100_000
"""Angles between which that of an arc length is interpolated: the truth is computed from the angle, so it is exact."""

FIRST_ROWS = 1_000_000
"""Rows that every size has in common, and whose error is told apart."""

SIZES, IN_MEMORY = (1e6, 3e6, 1e7, 3e7, 1e8), (1e6, 3e6)
QUICK_SIZES, QUICK_IN_MEMORY = (3e4, 2e5), (3e4,)
FIGURE = ROOT / "docs" / "figures" / "stream_ipa.png"
COLUMNS = {"rows": ",", "held": "", "fit s": ".0f", "fit CPU us/row": ".2f", "fit rows/s of a core": ",.0f"}
COLUMNS |= {"transform s": ".0f", "transform rows/s of a core": ",.0f", "peak MB": ",.0f"}
COLUMNS |= {"patches": "", "rigid error": ".3e", "error of first million": ".3e", "placement": ""}


class RollStream:
    """A holed Swiss roll of n points in blocks, made when they are read, and the flat coordinates of the last one."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.step = rows_per_chunk(3)
        self.truth = np.empty((0, 2))
        self.seconds = 0.0
        turns = np.linspace(*ROLL_TURNS, N_ANGLES)
        self.turns, self.lengths = turns, archimedean_length(turns)

    def __call__(self) -> Iterator[np.ndarray]:
        """Yield the blocks from the first on."""
        for number, start in enumerate(range(0, self.n, self.step)):
            began = time.thread_time()
            rows = self.block(number, min(self.step, self.n - start))
            self.seconds += time.thread_time() - began
            yield rows

    def block(self, number: int, m: int) -> np.ndarray:
        """Return the first m points of a block, and keep their flat coordinates."""
        rng = np.random.Generator(np.random.Philox(key=SEED, counter=[0, 0, number, 0]))
        u = rng.random((2 * self.step, 2))  # the hole takes 12 % of them
        away = np.abs(u - 0.5) >= ROLL_HOLE
        u = u[away.any(axis=1)][:m]
        first, last = self.lengths[[0, -1]]
        t = np.interp(first + (last - first) * u[:, 0], self.lengths, self.turns)
        h = HEIGHT * u[:, 1]
        self.truth = np.column_stack([archimedean_length(t) - first, h])
        return np.column_stack([t * np.cos(t), h, t * np.sin(t)]).astype(np.float32)


def rigid_error(total: RowMoments) -> float:
    """Return the root of the rigid Procrustes error of places to the truth, from the moments of both side by side."""
    places, truth, across = total.scatter[:2, :2], total.scatter[2:, 2:], total.scatter[:2, 2:]
    left = np.trace(places) + np.trace(truth) - 2 * np.linalg.svd(across, compute_uv=False).sum()
    return float(np.sqrt(max(left, 0.0) / np.trace(truth)))


def digest(model: IPA) -> str:
    """Return what tells motions of patches apart that differ in a bit."""
    stitched = model._extension.stitched
    return hashlib.sha256(stitched.frames.tobytes() + stitched.shifts.tobytes()).hexdigest()[:8]


def measure(n: int, held: bool) -> dict[str, Any]:
    """Fit and place n points, in memory or as a stream, and return what it took."""
    stream, run = RollStream(n), Run(0, 1)
    blocks = chunked_data(stream, n_rows=n)
    X: Any = np.concatenate(list(blocks)) if held else blocks
    stream.seconds, began, cpu = 0.0, time.perf_counter(), time.process_time()
    model = IPA(n_components=2).fit(X)
    fit_s, fit_cpu = time.perf_counter() - began, time.process_time() - cpu - stream.seconds
    stream.seconds, began, cpu = 0.0, time.perf_counter(), time.process_time()
    total, first, judging = TreeReduction(merged_moments), TreeReduction(merged_moments), 0.0
    for start, placed in model.transform(chunked_data(stream, n_rows=n)).pieces():
        paused, both = time.thread_time(), np.column_stack([placed, stream.truth])
        total.add(row_moments(both, start, run))
        if start < FIRST_ROWS:
            first.add(row_moments(both[: FIRST_ROWS - start], start, run))
        judging += time.thread_time() - paused
    place_s, place_cpu = time.perf_counter() - began, time.process_time() - cpu - stream.seconds - judging
    return {
        "rows": n,
        "held": "array in memory" if held else "stream",
        "fit s": fit_s,
        "fit CPU us/row": 1e6 * fit_cpu / n,
        "fit rows/s of a core": n / fit_cpu,
        "transform s": place_s,
        "transform rows/s of a core": n / place_cpu,
        "peak MB": peak_memory() / 1e6,
        "patches": model.n_patches_,
        "rigid error": rigid_error(total.total()),
        "error of first million": rigid_error(first.total()),
        "placement": digest(model),
    }


def measured_apart(n: int, held: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--only", str(n), *(["--held"] if held else [])]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(told.splitlines()[-1]))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the peak of memory over the number of rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    for held, marker, color in (("stream", "o", "tab:blue"), ("array in memory", "s", "tab:orange")):
        mine = [row for row in rows if row["held"] == held]
        ax.plot([r["rows"] for r in mine], [r["peak MB"] for r in mine], marker=marker, color=color, label=held)
    most = max(row["rows"] for row in rows)
    n = np.geomspace(min(row["rows"] for row in rows), most, 50)
    ax.plot(n, 12e-6 * n, color="gray", linestyle=":", label="the rows alone, float32")
    ax.set(xscale="log", yscale="log", xlabel="rows of 3 columns", ylabel="peak of memory of the process, MB")
    ax.set_title("IPA, fit and transform")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", nargs="+", type=float)
    parser.add_argument("--in-memory", nargs="*", type=float)
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--held", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given.only, given.held)))
        return
    sizes = given.sizes or (QUICK_SIZES if given.quick else SIZES)
    held = (QUICK_IN_MEMORY if given.quick else IN_MEMORY) if given.in_memory is None else given.in_memory
    runs = [(int(n), kept) for n in sizes for kept in (False, True) if not kept or n in held]
    if given.quick:
        for n, kept in runs:
            print(measured_apart(n, kept), flush=True)
        return
    caption = (
        "IPA of a Swiss roll with a hole, three columns in single precision, as a stream made block by block and as an "
        "array. CPU seconds are without making the points; the error is the root of the rigid Procrustes error of all "
        "places; placement is a digest of the motions of the patches."
    )
    table = Table("stream_ipa", caption, COLUMNS)
    for n, kept in runs:
        table.add(**measured_apart(n, kept))
    draw(table.rows, FIGURE)


if __name__ == "__main__":
    main()
