"""Time the same fits by two source trees, in alternating processes, and compare their results.

    python benchmarks/before_after.py BEFORE AFTER [--rounds 3] [--only TSNE ...]
    python benchmarks/before_after.py BEFORE AFTER --results

The trees are clones or work trees of this repository (folders with ``src/manifoldry``). Every measurement is the
second call in a process of its own, so that imports and compiled loops are not in it; processes of the two trees
alternate, and the median of the rounds is printed, with the ratio after / before and the relative difference of the
results (0 if they are bit-identical). Only parameters that keep their names are used, and data that no tree makes.

With ``--results`` every method and clustering is fitted once per tree to a small roll with one thread, by default and
with its parameters for tests. Coordinates, labels, new points and the inverse transform are compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("methods", "clusterings")
"""Cards of a tree; ``manifoldry.methods()`` was the name of ``list_methods`` before the package had folders."""
IMPORT_CODE = "import time; t = time.perf_counter(); import manifoldry; {first}; print(time.perf_counter() - t)"
IMPORTS = {
    "import": "manifoldry.Isomap",
    "import and Isomap of iris": (
        "import sklearn.datasets; manifoldry.Isomap().fit(sklearn.datasets.load_iris().data)"
    ),
}


def roll(n: int) -> np.ndarray:
    """Return points of a Swiss roll, evenly spread along its arc."""
    rng = np.random.default_rng(0)
    t = 1.5 * np.pi * np.sqrt(1 + 8 * rng.uniform(size=n))
    return np.column_stack([t * np.cos(t), 21 * rng.uniform(size=n), t * np.sin(t)])


def clusters(n: int) -> np.ndarray:
    """Return ten curved clusters of five dimensions in 50 columns."""
    rng = np.random.default_rng(0)
    inner, label = rng.standard_normal((n, 5)), rng.integers(10, size=n)
    turns, centers = rng.standard_normal((10, 5, 50)), 6 * rng.standard_normal((10, 50))
    bent = np.einsum("nk,nkc->nc", inner + 0.3 * inner**2, turns[label])
    return (bent + centers[label]).astype(np.float32)


def digits(n: int) -> np.ndarray:
    from sklearn.datasets import load_digits

    return load_digits().data[:n].astype(np.float32)


CELLS: dict[str, tuple[str, Callable[[int], np.ndarray], int, dict[str, Any]]] = {
    "Isomap": ("Isomap", roll, 2_000, {"n_neighbors": 10}),
    "LTSA": ("LTSA", roll, 10_000, {"n_neighbors": 10}),
    "LLE": ("LLE", roll, 10_000, {"n_neighbors": 10}),
    "LaplacianEigenmaps": ("LaplacianEigenmaps", roll, 10_000, {"n_neighbors": 10}),
    "DiffusionMaps": ("DiffusionMaps", roll, 2_000, {}),
    "MDS": ("MDS", roll, 1_000, {}),
    "LandmarkIsomap": ("LandmarkIsomap", roll, 20_000, {"n_neighbors": 10}),
    "TSNE": ("TSNE", clusters, 5_000, {}),
    "TSNE of digits": ("TSNE", digits, 1_797, {}),
    "UMAP": ("UMAP", clusters, 10_000, {}),
    "UMAP of digits": ("UMAP", digits, 1_797, {}),
    "IPA": ("IPA", roll, 50_000, {}),
    "TesseraMap": ("TesseraMap", roll, 5_000, {}),
    "MVU": ("MVU", roll, 300, {"n_neighbors": 6}),
    "EAT": ("EAT", roll, 150, {"n_neighbors": 6}),
    "LDLC": ("LDLC", roll, 2_000, {}),
    "transform of Isomap": ("Isomap", roll, 2_000, {"n_neighbors": 10}),
    "transform of TSNE": ("TSNE", clusters, 5_000, {}),
    "transform of UMAP": ("UMAP", clusters, 10_000, {}),
}


def run_cell(name: str, save: str) -> None:
    """Print the seconds of the second call and save its result."""
    import manifoldry

    method, make, n, settings = CELLS[name]
    X = make(n)

    def fit() -> Any:
        return getattr(manifoldry, method)(random_state=0, **settings).fit(X)

    call: Callable[[], Any] = fit
    if name.startswith("transform"):
        model, new = fit(), X + 0.01 * np.abs(X).mean()

        def call() -> Any:
            return model.transform(new)

    call()
    begin = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - begin
    result = found if isinstance(found, np.ndarray) else getattr(found, "embedding_", None)
    np.save(save, found.labels_ if result is None else result)
    print(seconds)


def save_results(save: str) -> None:
    """Fit every method and clustering to a small roll and save all arrays that they give."""
    import manifoldry

    X, new = np.abs(roll(150)), np.abs(roll(170)[150:])  # nonnegative, so that NMF takes them too
    arrays: dict[str, np.ndarray] = {}
    listed = [getattr(manifoldry, f"list_{kind}", None) or getattr(manifoldry, kind) for kind in KINDS]
    for card in (card for cards in listed for card in cards()):
        for kind, settings in (("", {}), (" (test)", dict(card.test_params))):
            settings |= {"n_jobs": 1} if "n_jobs" in card.cls().get_params() else {}
            name = f"{card.name}{kind}"
            try:
                model = card.cls(**settings).fit(X)
            except ValueError as error:  # a method for graphs or targets only; both trees must agree on that
                arrays[f"{name} error"] = np.array([type(error).__name__])
                continue
            fitted = {key: getattr(model, key, None) for key in ("embedding_", "labels_")}
            fitted |= {key: getattr(model, key)(new) for key in ("transform", "predict") if hasattr(model, key)}
            if hasattr(model, "inverse_transform"):
                fitted["inverse_transform"] = model.inverse_transform(model.embedding_[:20])
            arrays |= {f"{name} {key}": np.asarray(value) for key, value in fitted.items() if value is not None}
    np.savez(save, **arrays)
    print(len(arrays))


def compare_results(trees: list[Path], folder: Path) -> None:
    """Print every result that differs between the trees, and how many are bit-identical."""
    files = [folder / f"results{side}.npz" for side in range(2)]
    for tree, file in zip(trees, files, strict=True):
        timed(tree, [__file__, "--save-results", str(file)])
    before, after = (dict(np.load(file)) for file in files)
    for name in sorted(before.keys() ^ after.keys()):
        print(f"{name:45} only {'before' if name in before else 'after'}")
    common = before.keys() & after.keys()
    differing = [name for name in sorted(common) if before[name].tobytes() != after[name].tobytes()]
    for name in differing:
        print(f"{name:45} {relative_difference(before[name], after[name]):10.1e}")
    print(f"{len(common) - len(differing)} of {len(common)} results are bit-identical.")


def timed(tree: Path, words: list[str]) -> float:
    """Run a command with a tree's package and return the number that it prints."""
    return float(last_line(tree, words))


def last_line(tree: Path, words: list[str]) -> str:
    """Run a command with a tree's package and return the last line that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-W", "ignore", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return done.stdout.strip().splitlines()[-1]


def compare(name: str, trees: list[Path], rounds: int, folder: Path) -> None:
    """Print the line of one measurement."""
    seconds: list[list[float]] = [[], []]
    files = [folder / f"{side}.npy" for side in range(2)]
    for number in range(rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):  # neither tree always follows the other
            words = [__file__, "--cell", name, str(files[side])]
            if name in IMPORTS:
                words = ["-c", IMPORT_CODE.format(first=IMPORTS[name])]
            try:
                seconds[side].append(timed(trees[side], words))
            except RuntimeError as error:
                print(f"{name:28} {('before', 'after')[side]}: {error}", flush=True)
                return
    before, after = (statistics.median(values) for values in seconds)
    difference = "" if name in IMPORTS else f"{relative_difference(*map(np.load, files)):10.1e}"
    print(f"{name:28} {before:8.3f} {after:8.3f} {after / before:6.2f} {difference}", flush=True)


def relative_difference(A: np.ndarray, B: np.ndarray) -> float:
    """Return |A - B| / |A|, for labels the share that differs."""
    if A.shape != B.shape:
        return np.inf
    if A.dtype.kind != "f":
        return float((A != B).mean())
    return float(np.linalg.norm(A - B) / np.linalg.norm(A))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", help="before, after")
    parser.add_argument("--rounds", type=int, default=3, help="processes per tree and fit (3)")
    parser.add_argument("--only", nargs="*", choices=[*IMPORTS, *CELLS], default=[*IMPORTS, *CELLS], metavar="NAME")
    parser.add_argument("--results", action="store_true", help="compare the results of every method, without times")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--save-results", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(*options.cell)
        return
    if options.save_results:
        save_results(options.save_results)
        return
    if len(options.trees) != 2:
        parser.error("name two trees, before and after")
    missing = [str(tree) for tree in options.trees if not (tree / "src" / "manifoldry").is_dir()]
    if missing:
        parser.error(f"no src/manifoldry in {', '.join(missing)}")
    trees = [tree.resolve() for tree in options.trees]
    with tempfile.TemporaryDirectory() as folder:
        if options.results:
            compare_results(trees, Path(folder))
            return
        print(f"{'':28} {'before':>8} {'after':>8} {'ratio':>6} {'difference':>10}")
        for name in options.only:
            compare(name, trees, options.rounds, Path(folder))


if __name__ == "__main__":
    main()
