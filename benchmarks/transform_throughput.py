"""New rows placed by one core: rows per second of ``transform`` of every method, ``predict`` of every clustering.

    MANIFOLDRY_DATA=folder python benchmarks/transform_throughput.py [--quick] [--methods UMAP TSNE ...]

Each method is fitted in a process of its own to 5,000 rows of 50 principal components of MNIST in single precision
(of images of digits that come with scikit-learn, with noise, when the folder has no mnist.npz), or to fewer where that
takes more than 30 seconds of the processor. Only the map goes on, as it would to a worker: a second process reads it
and places other rows in pieces, with one thread, for some seconds of the processor. ``--quick`` fits 500 rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import manifoldry
from manifoldry import datasets
from manifoldry._core.run import Run
from manifoldry.methods._base._chunks import PortableMap
from peers import peak_memory
from tables import Table

N_COLUMNS = 50
FITTED_ROWS = 5_000, 1_000, 300
"""Rows of the fit, and what is tried after a fit that does not end."""
SMALL_FITS = {
    **dict.fromkeys(("EAT", "MVU"), 300),
    **dict.fromkeys(("FastMVU", "LandmarkMVU", "NonmetricMDS", "SNE"), 1_000),
    "MDS": 2_000,
}
"""Rows with which those begin of which it is known that more take minutes."""
SETTINGS = {name: {"n_components": 2} for name in ("GaussianRandomProjection", "SparsePCA", "SparseRandomProjection")}
"""By themselves projections want more dimensions than there are columns, and SparsePCA fits all 50 for minutes."""
MAX_FIT_SECONDS = 30
"""Seconds of the processor, also for placing."""
MAX_PLACING_SECONDS = 2.0
"""Seconds of the processor after which no further piece is placed."""
MIN_PIECE, MAX_PIECE = 32, 4096
COLUMNS = {
    "method": "",
    "call": "",
    "fitted rows": ",",
    "rows per second": ",.0f",
    "µs per row": ",.1f",
    "map, MB": ".2f",
    "peak, MB": ",.0f",
}


def write_rows(folder: Path) -> dict[str, Any]:
    """Write shuffled rows of the leading columns of images of digits; return what they are."""
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
    np.save(folder / "rows.npy", Z[rng.permutation(len(Z))])
    return {"source": name}


def rows_for(name: str, folder: Path) -> np.ndarray:
    """Return the rows; those of a method that takes no negative numbers are moved."""
    rows = np.load(folder / "rows.npy")
    return rows - rows.min() if name == "NMF" else rows


def fit(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Fit a method to n rows, and write its map."""
    model = getattr(manifoldry, name)(**SETTINGS.get(name, {}))
    model.fit(rows_for(name, folder)[:n])
    call = "transform" if hasattr(model, "transform") and name in _names(manifoldry.list_methods()) else "predict"
    if not hasattr(model, call):
        return {"error": "has no map of new rows"}
    shipped = pickle.dumps(PortableMap(model._strip_for_transform(call), call, model._output_of(call)[1]))
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


def in_new_process(part: Callable[..., dict[str, Any]], *words: Any) -> dict[str, Any]:
    """Run a part in a process that has imported all and computed nothing, on one thread; return what went wrong too."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, part, words))
    process.start()
    theirs.close()
    try:
        answer: dict[str, Any] = ours.recv()
    except EOFError:
        answer = {"error": f"not finished after {MAX_FIT_SECONDS} s of the processor"}
    process.join()
    return answer


def _answer(pipe: Any, part: Callable[..., dict[str, Any]], words: tuple[Any, ...]) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_FIT_SECONDS, MAX_FIT_SECONDS))
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        try:
            pipe.send(part(*words))
        except Exception as error:  # whatever a method says of these rows belongs into the table
            pipe.send({"error": f"{type(error).__name__}: {error}"[:120]})


def measured(name: str, sizes: tuple[int, ...], folder: Path) -> dict[str, Any]:
    """Return what one method does, fitted to the first number of rows that it takes."""
    found: dict[str, Any] = {}
    most = SMALL_FITS.get(name, sizes[0])
    for n in dict.fromkeys(min(n, most) for n in sizes):
        found = in_new_process(fit, name, n, folder)
        if "error" not in found:
            return found | in_new_process(place, name, folder)
        if "has no map" in found["error"]:
            break
    return found


def main() -> None:
    """Measure all methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", nargs="+")
    options = parser.parse_args()
    names = options.methods or [*_names(manifoldry.list_methods()), *_names(manifoldry.list_clusterings())]
    run(names, (500, *FITTED_ROWS[2:]) if options.quick else FITTED_ROWS)


def run(names: list[str], sizes: tuple[int, ...]) -> None:
    """Store the table of these methods, the fastest first."""
    with tempfile.TemporaryDirectory() as place_of_maps:
        folder = Path(place_of_maps)
        source = in_new_process(write_rows, folder)["source"]
        caption = (
            f"New rows placed by one core: methods fitted to rows of {N_COLUMNS} principal components of {source} in "
            "single precision, then only the map, read by another process, whose peak memory (with the imports) is "
            "given. Seconds are those of the processor."
        )
        table = Table("transform_throughput", caption, COLUMNS)
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
