"""Every method on real sets at its defaults: what it keeps, what it shows, what it says about itself.

    MANIFOLDRY_DATA=folder python benchmarks/real.py [--jobs 2] [--methods IPA,TSNE] [--sets digits,frey] [--resume]

Stores two tables row by row; with ``--methods`` or ``--sets`` the other rows of the stored tables stay as they are,
with ``--resume`` only rows that are missing are measured. Draws all pictures of a set on one sheet, in the folder that
``--pictures`` names, to be looked at.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

import numpy as np

import manifoldry
import tables
from contact_sheet import Panel, draw
from manifoldry import metrics
from manifoldry._core.registry import METHODS
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.geometry.scales import PLOT_CELLS, axis_moments, plot_cells
from manifoldry._numerics.ranks import rank_measures
from real_sets import SEED, SETS, RealSet
from tables import Table

CONTEXT = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
"""A server that has imported everything once and forks a clean process for each fit, where the system can fork."""
BELOW = 0.005
"""Less trustworthiness than PCA's by more than this is called below PCA: a smaller difference cannot be seen."""
MAX_SECONDS = 60
"""A fit, with loading and judging its data, that takes more processor time is ended, and the table says so."""
MAX_WAIT = 20
"""A process on a busy machine is waited for as many times as long."""
N_JUDGED = 2_000
"""Rows whose neighborhoods are compared with all others, at most."""
MAX_NEIGHBORS = 15
N_FOLDS = 5
MAX_ROWS = {
    "EAT": 200,
    "MVU": 200,
    "LandmarkMVU": 500,
    "NonmetricMDS": 500,
    "SparsePCA": 1_000,
    "KernelLPP": 1_500,
    "FastMVU": 2_000,
    "KernelIsomap": 2_000,
    "ConformalIsomap": 3_000,
    "MDS": 3_000,
    "SNE": 3_000,
    "Isomap": 6_500,
    "KernelPCA": 6_500,
    "SymmetricSNE": 6_500,
    "PrincipalCurve": 6_500,
    "ProjectionPursuit": 6_500,
}
"""Rows that a slow method gets, drawn at random from a larger set; every other method gets all of them."""
Cell = tuple[str, str, int]
"""Set, method and number of rows of one fit."""
COLUMNS = {
    "set": "",
    "method": "",
    "rows": ",",
    "trust": ".3f",
    "PCA": ".3f",
    "below PCA": "",
    "continuity": ".3f",
    "predicted": ".3f",
    "places": ".2f",
    "seconds": ".2f",
    "commit": "",
    "warnings": "",
}
CAPTION = (
    "Every method at its defaults in two dimensions (PrincipalCurve in one), random_state=0, each fit in a process of "
    f"its own with one thread. Trust and continuity with {MAX_NEIGHBORS} neighbors, or a tenth of the rows; PCA is "
    "PCA's trust on the same rows in as many dimensions, and "
    f"below it by more than {BELOW} is *said* by a warning or *silent*. Predicted: "
    f"accuracy of the labels (R² of numbers) by 5 neighbors in the embedding, {N_FOLDS}-fold. Places: cells of a grid "
    f"of {PLOT_CELLS} x {PLOT_CELLS} over the bounding box that hold a point, relative to the number expected of as "
    "many points falling uniformly. Seconds of processor time."
)


def share_of_places(Y: FloatArray) -> float:
    """Return the distinct places of a plot of Y, relative to those of as many uniform points."""
    n_cells = PLOT_CELLS ** min(2, Y.shape[1])
    expected = -n_cells * np.expm1(len(Y) * np.log1p(-1 / n_cells))
    return len(np.unique(plot_cells(Y, axis_moments(Y, Run(0, 1))))) / expected


def predicted(Y: FloatArray, data: RealSet) -> float | None:
    """Return how well neighbors in Y predict the labels (share) or the targets (R², their mean), cross-validated."""
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    spread = Y / max(
        float(Y.std()), np.finfo(np.float64).tiny
    )  # so that tiny coordinates do not underflow when squared
    if data.labels is not None:
        folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes with fewer members than folds
            found = cross_val_predict(KNeighborsClassifier(), spread, data.labels, cv=folds)
        return float((found == data.labels).mean())
    if data.targets is None:
        return None
    folds = KFold(N_FOLDS, shuffle=True, random_state=SEED)
    found = cross_val_predict(KNeighborsRegressor(), spread, data.targets, cv=folds)
    left = ((found - data.targets) ** 2).sum(axis=0) / ((data.targets - data.targets.mean(axis=0)) ** 2).sum(axis=0)
    return float((1 - left).mean())


def judge(data: RealSet, Y: FloatArray, sentences: Sequence[str]) -> dict[str, Any]:
    """Return the cells of a row that speak about the embedding."""
    k = min(MAX_NEIGHBORS, len(Y) // 10)  # of few rows, 15 are no neighborhood: 72 views of a turn would be called torn
    measured = {"n_neighbors": k, "sample": min(N_JUDGED, len(Y)), "random_state": SEED, "n_jobs": 1}
    ranks = rank_measures(data.X, Y, **measured)
    plane = manifoldry.PCA(n_components=Y.shape[1], random_state=SEED).fit_transform(data.X)
    pca = float(metrics.trustworthiness(data.X, plane, **measured))
    below = float(ranks.trustworthiness) < pca - BELOW
    said = any("PCA" in sentence for sentence in sentences)
    return {
        "trust": float(ranks.trustworthiness),
        "PCA": pca,
        "below PCA": ("said" if said else "silent") if below else "",
        "continuity": float(ranks.continuity),
        "predicted": predicted(Y, data),
        "places": share_of_places(Y),
        "warnings": shortened(sentences),
    }


def shortened(sentences: Sequence[str]) -> str:
    """Return the number of sentences and the first words of the first."""
    if not sentences:
        return ""
    words = " ".join(sentences[0].split()).replace("|", "/")
    return f"{len(sentences)}: {words if len(words) <= 60 else words[:57].rsplit(' ', 1)[0] + ' ...'}"


def settings(cls: type) -> dict[str, Any]:
    """Return the parameters set: two columns, one thread and the seed, where the method has the parameter."""
    wanted = {"n_components": 1 if cls.__name__ == "PrincipalCurve" else 2, "random_state": SEED, "n_jobs": 1}
    return {name: value for name, value in wanted.items() if name in cls().get_params()}


def run_cell(cell: Cell, folder: Path, max_seconds: int) -> None:
    """Fit and judge; leave the coordinates and the cells of the row, or what went wrong, in the folder."""
    resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, max_seconds + 1))
    name, method, rows = cell
    stem = folder / f"{name}-{method}-{rows}"
    try:
        Y, found = fit(RealSet.read(folder / f"{name}.npz").sample(rows), getattr(manifoldry, method))
        np.save(stem.with_suffix(".npy"), Y)
    except Exception as error:  # which is what the row then says
        found = {"error": shortened([f"{type(error).__name__}: {error}"]).removeprefix("1: ")}
    stem.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")


def fit(data: RealSet, cls: type) -> tuple[FloatArray, dict[str, Any]]:
    """Return the embedding of the data, and what there is to say about it."""
    model = cls(**settings(cls))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        model.fit(data.X)
        seconds = time.process_time() - began
    Y = np.asarray(model.embedding_, dtype=np.float64)
    if not np.isfinite(Y).all():
        raise ValueError(f"{len(Y) - np.isfinite(Y).all(axis=1).sum()} of {len(Y)} rows have no place.")
    warned = [str(w.message) for w in caught if w.category.__name__ != "EmbeddingWarning"]  # which repeats the advice
    advice = [str(sentence) for sentence in model.diagnostics_.get("advice", ())]
    return Y, {**judge(data, Y, list(dict.fromkeys([*advice, *warned]))), "seconds": seconds}


def prepare(names: Iterable[str], folder: Path) -> dict[str, int]:
    """Write the sets to the folder, and return their numbers of rows; say which are left out for want of a file."""
    sizes = {}
    for name in names:
        try:
            data = SETS[name]()
        except FileNotFoundError as missing:
            print(f"{name} is left out: {missing}")
            continue
        data.save(folder / f"{name}.npz")
        sizes[name] = len(data.X)
    return sizes


def cells(sizes: dict[str, int], methods: Sequence[str]) -> list[Cell]:
    """Return set, method and number of rows of every fit; the second, larger sample of a set is for fast methods."""
    return [
        (name, method, min(n, MAX_ROWS.get(method, n)))
        for name, n in sizes.items()
        for method in methods
        if not (name == "fashion_20000" and method in MAX_ROWS)
    ]


def measure(cell: Cell, folder: Path, max_seconds: int) -> dict[str, Any]:
    """Return the row of one fit, made in a process of its own that is ended when its time is over."""
    name, method, rows = cell
    row = {"set": name, "method": method, "rows": rows}
    left = folder / f"{name}-{method}-{rows}.json"
    left.unlink(missing_ok=True)
    process = CONTEXT.Process(target=run_cell, args=(cell, folder, max_seconds))
    process.start()
    process.join(MAX_WAIT * max_seconds)
    if process.is_alive():
        process.kill()
        process.join()
    if process.exitcode in (-signal.SIGKILL, -signal.SIGXCPU):
        return {**row, "error": f"not finished after {max_seconds} s"}
    if not left.exists():
        return {**row, "error": f"ended with exit code {process.exitcode}"}
    return {**row, **json.loads(left.read_text(encoding="utf-8"))}


def stored_rows() -> list[dict[str, Any]]:
    path = tables.RESULTS / "real.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def in_order(rows: Iterable[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of known sets and methods by set, PCA before the other methods."""
    order = [(name, method) for name in SETS for method in methods]
    known = {(row["set"], row["method"]): row for row in rows}
    return [known[key] for key in order if key in known]


def matrix(rows: Sequence[dict[str, Any]], methods: Sequence[str]) -> Table:
    """Store trustworthiness, a row per method and a column per set."""
    names = [name for name in SETS if any(row["set"] == name for row in rows)]
    caption = (
        "Trustworthiness of every method (rows) on real sets (columns) at its defaults. ↓ less "
        f"than PCA's on the same rows by more than {BELOW}; ! a warning was given; – no result, and the long table "
        "says why. At most: rows given to a slow method."
    )
    table = Table("real_trustworthiness", caption, {"method": "", "at most": "", **dict.fromkeys(names, "")})
    found = {(row["set"], row["method"]): row for row in rows}
    table.put(
        {
            "method": method,
            "at most": f"{MAX_ROWS[method]:,}" if method in MAX_ROWS else "",
            **{name: marked(found.get((name, method))) for name in names},
        }
        for method in methods
    )
    return table


def marked(row: dict[str, Any] | None) -> str:
    """Return the trustworthiness of a row with its marks."""
    if row is None:
        return ""
    if "error" in row:
        return "–"
    return f"{row['trust']:.3f}{'↓' if row['below PCA'] else ''}{'!' if row['warnings'] else ''}"


def sheet(name: str, rows: Sequence[dict[str, Any]], folder: Path) -> Path:
    """Draw all methods on one set, and return where."""
    data = RealSet.read(folder / f"{name}.npz")
    panels = []
    for row in (row for row in rows if row["set"] == name):
        path = folder / f"{name}-{row['method']}-{row['rows']}.npy"
        drawn = "error" not in row and path.exists()
        title = f"{row['method']} {marked(row)}" + ("" if row["rows"] == len(data.X) else f" ({row['rows']})")
        color = data.sample(row["rows"]).color
        panels.append(Panel(title, np.load(path) if drawn else None, color, row.get("error", "not measured here")))
    path = folder / f"{name}.png"
    draw(panels, path, f"{name}: {len(data.X):,} rows, {data.X.shape[1]:,} columns")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="", help="only these, separated by commas")
    parser.add_argument("--sets", default="", help=f"only these of {', '.join(SETS)}")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time (1)")
    parser.add_argument("--max-seconds", type=int, default=MAX_SECONDS, help=f"time limit of a fit ({MAX_SECONDS})")
    parser.add_argument("--resume", action="store_true", help="leave out what the stored table has")
    parser.add_argument("--pictures", type=Path, default=tables.ROOT / "build" / "real", help="folder of the pictures")
    options = parser.parse_args()
    methods = sorted((card.name for card in manifoldry.list_methods()), key=lambda name: name != "PCA")
    options.pictures.mkdir(parents=True, exist_ok=True)
    sizes = prepare(chosen(options.sets, SETS), options.pictures)
    wanted = cells(sizes, chosen(options.methods, methods))
    old = {(row["set"], row["method"]): row for row in stored_rows()}
    wanted = [cell for cell in wanted if not (options.resume and cell[:2] in old)]
    kept = [row for key, row in old.items() if key not in {cell[:2] for cell in wanted}]
    CONTEXT.set_forkserver_preload([*set(METHODS.values()), "sklearn.model_selection", "real"])
    table = Table("real", CAPTION, COLUMNS)
    table.put(kept)
    commit = tables.circumstances(())["commit"]  # of each row, since some may be older
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda cell: measure(cell, options.pictures, options.max_seconds), wanted):
            table.add(**row, commit=commit)
    rows = in_order(table.rows, methods)
    table.put(rows)
    matrix(rows, methods)
    for name in sizes:
        print(sheet(name, rows, options.pictures))
    silent = [f"{row['method']} on {row['set']}" for row in rows if row.get("below PCA") == "silent"]
    print(f"Below PCA without a word: {', '.join(silent) or 'none'}.")


def chosen(asked: str, known: Iterable[str]) -> list[str]:
    """Return what was asked for, in the order known; all if nothing was."""
    names = [name for name in asked.split(",") if name]
    unknown = set(names) - set(known)
    if unknown:
        raise SystemExit(f"Unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}.")
    return [name for name in known if not names or name in names]


if __name__ == "__main__":
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"  # read by the processes of the fits
    main()
