"""Fits on a GPU, on all cores and on one core of the same machine, against TorchDR on the same card: one run.

    MANIFOLDRY_DATA=folder python benchmarks/gpu.py [--quick] [--warm] [--only UMAP ...] [--device cuda ...]

Every cell runs in a process of its own. On a GPU it fits the same rows twice: "first" is the first call of the process,
after the "imports" of the libraries for the GPU, with compiled loops from the cache (after ``--warm``, which runs every
cell once before, unmeasured), "seconds" the second, from rows of the host to a result on the host. On the CPU a few
rows come first. A cell that takes longer than ``--limit`` seconds ends. The table is stored after every row. Rows of
an earlier run that are not measured again stay, with their commit. ``--quick`` takes a hundredth of the rows, which
tests the script.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import manifoldry
import tables
from interpolated_digits import BLOCK_ROWS, InterpolatedDigits
from large_fits import sheet_quality
from manifoldry._core.device import missing_gpu
from manifoldry._core.run import Run
from manifoldry._numerics.geometry.neighbor_affinity import host_matrix
from manifoldry._numerics.ranks import rank_measures
from neighbor_embeddings import label_score
from tables import Table

N_JUDGED, N_SAMPLED, N_LABELED = 200_000, 1000, 20_000
"""Rows that quality is measured among, those at which trustworthiness and recall are, and those at which labels are."""
N_WARM = {"cores": 100_000, "core": 2000}  # rows of a call of the CPU before the measured one, which loads the loops
ROLL_WARM = 400_000  # of the roll, because IPA has further loops for data of this size
ROLL_ROWS = 2**20  # rows of a block of the sheet
DEVICES = ("cuda", "cores", "core", "torchdr")
IMPORTS = {"cuda": ("cupy", "numba.cuda"), "torchdr": ("torchdr",)}
TORCHDR = {"UMAP": ("UMAP",), "TSNE": ("TSNE", "InfoTSNE")}


@dataclass(frozen=True)
class Task:
    """A call: its kind ("fit", "transform" or "search"), the estimator or number of neighbors, data, rows, devices."""

    kind: str
    what: str
    data: str
    n_rows: int
    devices: tuple[str, ...] = ("cuda", "cores", "core")


TASKS = {
    "UMAP": Task("fit", "UMAP", "digits", 1_000_000, DEVICES),
    "UMAP 10M": Task("fit", "UMAP", "digits", 10_000_000, ("cuda", "cores")),
    "UMAP MNIST": Task("fit", "UMAP", "MNIST", 70_000, DEVICES),
    "TSNE": Task("fit", "TSNE", "digits", 1_000_000, DEVICES),
    "TSNE MNIST": Task("fit", "TSNE", "MNIST", 70_000, DEVICES),
    "IPA": Task("fit", "IPA", "roll", 1_000_000),
    "IPA 100M": Task("fit", "IPA", "roll", 100_000_000),
    "LTSA": Task("fit", "LTSA", "roll", 200_000, ("cores", "core")),
    "PCA": Task("fit", "PCA", "digits", 1_000_000),
    "search 15": Task("search", "15", "digits", 1_000_000),
    "search 90": Task("search", "90", "digits", 1_000_000),
    "transform UMAP": Task("transform", "UMAP", "digits", 1_000_000),
    "transform TSNE": Task("transform", "TSNE", "digits", 1_000_000),
    "transform IPA": Task("transform", "IPA", "roll", 1_000_000),
}


# Data, made by threads and kept in files for the processes of the cells


def roll_block(b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a Swiss roll, and their coordinates on the sheet: arc length and height."""
    u, v = np.random.default_rng([1, b]).random((2, ROLL_ROWS), dtype=np.float32)
    t, height = 1.5 * np.pi * (1 + 2 * u), 21 * v
    arc = (t * np.sqrt(1 + t * t) + np.arcsinh(t)) / 2
    return np.column_stack([t * np.cos(t), height, t * np.sin(t)]).astype(np.float32), np.column_stack([arc, height])


def made(block: Callable[[int], tuple[np.ndarray, np.ndarray]], size: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows, and what is known of them, from blocks of a size, made by all threads."""
    rows, truth = block(0)
    X, known = np.empty((n, rows.shape[1]), np.float32), np.empty((n, *truth.shape[1:]), truth.dtype)

    def fill(b: int) -> None:
        here = slice(b * size, min(n, (b + 1) * size))
        rows, truth = block(b)
        X[here], known[here] = rows[: here.stop - here.start], truth[: here.stop - here.start]

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(-(-n // size))))
    return X, known


def load(data: str, n: int, folder: Path, skip: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows after the first ``skip``, and their labels or coordinates on the sheet, from files made once."""
    path = folder / f"{data}-{n + skip}"
    if not path.with_suffix(".rows.npy").exists():
        if data == "roll":
            X, known = made(roll_block, ROLL_ROWS, n + skip)
        else:
            digits = InterpolatedDigits.cached(folder / "digits.npz")
            given = digits.X[: n + skip], digits.labels[: n + skip]
            X, known = given if data == "MNIST" else made(digits.block, BLOCK_ROWS, n + skip)
        np.save(path.with_suffix(".rows.npy"), X)
        np.save(path.with_suffix(".known.npy"), known)
    return np.load(path.with_suffix(".rows.npy"))[skip:], np.load(path.with_suffix(".known.npy"))[skip:]


# One cell, in a process of its own


@contextmanager
def peak_memory(library: str) -> Iterator[Callable[[], float]]:
    """Measure the most memory that CuPy's pool or PyTorch holds on the GPU, in MB; 0 on the CPU."""
    if library == "torchdr":
        import torch

        yield lambda: torch.cuda.max_memory_reserved() / 1e6
        return
    if library != "cuda":
        yield lambda: 0.0
        return
    import cupy

    pool, most = cupy.get_default_memory_pool(), [0]

    class Watch(cupy.cuda.MemoryHook):
        name = "watch"

        def alloc_postprocess(self, **_: Any) -> None:
            most[0] = max(most[0], pool.total_bytes())

    with Watch():
        yield lambda: most[0] / 1e6


def calls(task: Task, device: str, folder: Path, n: int) -> tuple[Callable[[np.ndarray], Any], np.ndarray]:
    """Return the call that is measured, of rows to (result, stages, other numbers), and the rows."""
    place: dict[str, Any] = {"device": "cuda"} if device == "cuda" else {"n_jobs": 1 if device == "core" else None}
    X, _ = load(task.data, n, folder)
    if task.kind == "search":
        return lambda rows: searched(rows, int(task.what), **place), X
    if device.startswith("torchdr"):
        return lambda rows: torchdr_fit(device.partition(" ")[2], rows), X
    method = getattr(manifoldry, task.what)
    place = {name: value for name, value in place.items() if name in method().get_params()}
    if task.kind == "transform":
        model = method(**place).set_params(n_jobs=None).fit(X).set_params(**place)
        new, _ = load(task.data, n, folder, skip=n)
        return lambda rows: (model.transform(rows), {}, {}), new

    def fit(rows: np.ndarray) -> Any:
        model = method(**place).fit(rows)
        return model.embedding_, model.diagnostics_["seconds"], {}

    return fit, X


def searched(X: np.ndarray, k: int, **place: Any) -> Any:
    from manifoldry.graph._search import NeighborRule, neighbor_graph

    run = Run(0, **place)
    with run.on_gpu():
        graph, _ = neighbor_graph(X, NeighborRule(k).resolve(len(X)), run)
    return graph.indices.reshape(len(X), -1), run.seconds, {}


def torchdr_fit(name: str, X: np.ndarray) -> Any:
    import torchdr

    settings: dict[str, Any] = {"n_neighbors": 15} if name == "UMAP" else {}
    settings["backend"] = "faiss" if find_spec("faiss") else None
    Y = getattr(torchdr, name)(device="cuda", random_state=0, **settings).fit_transform(X)
    return np.asarray(Y.cpu() if hasattr(Y, "cpu") else Y), {}, {}


def measure(name: str, device: str, n: int, folder: Path, save: str) -> dict[str, Any]:
    """Return the numbers of a cell; the result of the second call goes to a file."""
    gpu, begin = on_gpu(device), time.perf_counter()
    for module in IMPORTS.get(device.partition(" ")[0], ()):
        importlib.import_module(module)
    cell: dict[str, Any] = {"imports": time.perf_counter() - begin if gpu else None}
    call, X = calls(TASKS[name], device, folder, n)
    if device == "core":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with peak_memory(device.partition(" ")[0]) as peak:
        begin = time.perf_counter()
        first = call(X if gpu else X[: ROLL_WARM if TASKS[name].data == "roll" else N_WARM[device]])
        cell["first"] = time.perf_counter() - begin if gpu else None
        cell["GPU_MB"] = peak() or None
    begin = time.perf_counter()
    result, stages, other = call(X)
    cell |= {"seconds": time.perf_counter() - begin, **other}
    cell["same_bits"] = ("yes" if np.array_equal(first[0], result) else "no") if gpu else None
    longest = sorted(stages.items(), key=lambda item: -item[1])[:6]
    cell["stages"] = ", ".join(f"{stage} {spent:.2f}" for stage, spent in longest if spent >= 0.01)
    np.save(save, result)
    return cell


# Quality, and the table


def quality(task: Task, X: np.ndarray, known: np.ndarray, result: np.ndarray) -> dict[str, float]:
    """Return what a result is worth, by the same measures for all libraries."""
    if task.kind == "search":
        return {"recall": recall(X, result)}
    if task.data == "roll":
        return sheet_quality(X, result, known)
    some = np.random.default_rng(0).permutation(len(X))[:N_JUDGED]
    X, Y, labels = X[some], result[some], known[some]
    trust, m = rank_measures(X, Y, n_neighbors=15, sample=N_SAMPLED).trustworthiness, min(N_LABELED, len(X) // 2)
    return {"trust": float(trust), "labels": label_score(Y[m:], labels[m:], Y[:m], labels[:m])}


@cache
def exact_divergence(data: str, n: int, folder: Path) -> Any:
    """Return the divergence of layouts from the probabilities of all true neighbors, which a GPU finds in seconds."""
    X = np.ascontiguousarray(load(data, n, folder)[0])
    model, run = manifoldry.TSNE(search="exact"), Run(0, device="auto")
    with run.on_gpu():
        listed = model._listed(X, run)
        joint = host_matrix(listed.joint, run)
    return model._divergence_of(joint, listed.information, Run(0))


def recall(X: np.ndarray, found: np.ndarray) -> float:
    """Return the share of the nearest others of sampled rows that were found."""
    k, squares = found.shape[1], np.square(X).sum(axis=1)

    def share(i: int) -> float:
        away = squares - 2 * (X @ X[i])
        away[i] = np.inf
        return len(np.intersect1d(np.argpartition(away, k)[:k], found[i])) / k

    with ThreadPoolExecutor() as pool:
        return float(np.mean(list(pool.map(share, np.random.default_rng(0).permutation(len(X))[:N_SAMPLED]))))


def run_cell(name: str, device: str, n: int, folder: Path, limit: float) -> dict[str, Any]:
    """Run a cell in its own process: its numbers and result, or what went wrong."""
    if on_gpu(device) and missing_gpu():
        return {"error": "no GPU"}
    path = folder / f"{name}-{device}.npy"
    command = [sys.executable, "-W", "ignore", __file__, "--cell", name, device, str(n), str(folder), str(path)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"} if device == "core" else dict(os.environ)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {limit:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "result": np.load(path)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--warm", action="store_true", help="run every cell of the GPU once before it is measured")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--device", nargs="+", choices=DEVICES, default=list(DEVICES))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a cell may take")
    parser.add_argument("--folder", type=Path, help="where data stays for further runs")
    parser.add_argument("--cell", nargs=5)
    options = parser.parse_args()
    if options.cell:
        name, device, n, folder, save = options.cell
        print(json.dumps(measure(name, device, int(n), Path(folder), save)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        compare(options, options.folder or Path(temporary))


def gpu_name() -> str:
    """Return the name of the GPU, or that there is none."""
    return "no GPU" if missing_gpu() else Run(0, device="cuda").device.removeprefix("cuda ").strip("()")


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Measure the chosen cells; the table holds them and those of earlier runs, in the order of the tasks."""
    folder.mkdir(exist_ok=True)
    if options.quick:
        tables.RESULTS = folder  # the stored table stays
    path = tables.RESULTS / "gpu.json"
    earlier = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    columns = {"call": "", "data": "", "rows": ",", "device": "", "imports": ".2f", "first": ".2f", "seconds": ".2f"}
    columns |= {"GPU MB": ",.0f", "trust": ".4f", "labels": ".4f", "divergence": ".4f", "rigid error": ".1e"}
    columns |= {"recall": ".4f", "same bits": "", "commit": "", "stages": ""}
    caption = (
        f"Calls on a GPU ({gpu_name()}), on all cores and on one, from rows on the host to the result there: the "
        "imports of a process, its first call with cached loops, and the second. Trustworthiness "
        f"at {N_SAMPLED:,} and labels at {N_LABELED:,} of {N_JUDGED:,} rows; divergence from the probabilities of all "
        "true neighbors; stages are the longest, in seconds."
    )
    table = Table("gpu", caption, columns, ("cupy-cuda13x", "numba-cuda", "torch", "torchdr"))
    rows = {(row["call"], row["device"]): row for row in earlier}
    for call in options.only:
        task, n = TASKS[call], TASKS[call].n_rows // (100 if options.quick else 1)
        X, known = load(task.data, n, folder, skip=n if task.kind == "transform" else 0)
        for device in libraries(task, options.device):
            if options.warm and on_gpu(device):
                run_cell(call, device, n, folder, options.limit)
            cell = run_cell(call, device, n, folder, options.limit)
            if "result" in cell:
                result = cell.pop("result")
                cell |= quality(task, X, known, result)
                if task.what == "TSNE" and task.kind == "fit":
                    layout = np.ascontiguousarray(result, dtype=np.float64)
                    cell["divergence"] = exact_divergence(task.data, n, folder).value(layout)
            cell |= {"call": call, "data": task.data, "rows": n, "device": device, "commit": tables.commit()}
            table.add(cell.pop("error", ""), **cell)
            rows[call, device] = table.rows[-1]
            table.put(sorted(rows.values(), key=lambda row: list(TASKS).index(row["call"])))


def libraries(task: Task, chosen: list[str]) -> list[str]:
    """Return the chosen devices of a task, with each method of TorchDR that competes with it."""
    devices = [device for device in task.devices if device in chosen]
    peers = [f"torchdr {name}" for name in TORCHDR.get(task.what, ())] if "torchdr" in devices else []
    return [device for device in devices if device != "torchdr"] + peers


def on_gpu(device: str) -> bool:
    return device == "cuda" or device.startswith("torchdr")


if __name__ == "__main__":
    main()
