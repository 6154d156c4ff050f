"""Isomap, landmark Isomap and MDS against scikit-learn and tapkee, same data, one run, as ratios.

    python benchmarks/spectral.py [--quick]

Prints tables; needs the extra ``peers`` (psutil, tapkee).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from manifoldry import datasets, quality
from peers import in_own_process, measure

K = 10


def ours(method: str):
    import manifoldry

    settings = {
        "isomap": lambda: manifoldry.Isomap(n_neighbors=K),
        "landmark": lambda: manifoldry.LandmarkIsomap(n_neighbors=K, n_landmarks=200),
        "mds": lambda: manifoldry.MDS(),
    }
    return lambda X: settings[method]().fit_transform(X)


def sklearn(method: str):
    from sklearn.manifold import MDS, Isomap

    if method == "isomap":
        return lambda X: Isomap(n_neighbors=K, n_jobs=2).fit_transform(X)
    return lambda X: MDS(n_jobs=2, random_state=0).fit_transform(X)


def tapkee(method: str):
    import tapkee as peer

    name = {"isomap": "isomap", "landmark": "l-isomap"}[method]
    return lambda X: np.asarray(
        peer.embed(np.ascontiguousarray(X.T), method=name, num_neighbors=K, target_dimension=2)
    ).reshape(len(X), -1)


LIBRARIES = {"manifoldry": ours, "scikit-learn": sklearn, "tapkee": tapkee}
CELLS = [
    ("isomap", 2_000, ("manifoldry", "scikit-learn", "tapkee")),
    ("isomap", 10_000, ("manifoldry", "scikit-learn", "tapkee")),
    ("landmark", 10_000, ("manifoldry", "tapkee")),
    ("landmark", 1_000_000, ("manifoldry",)),
    ("mds", 2_000, ("manifoldry", "scikit-learn")),
]


def run_cell(library: str, method: str, n: int, save: str) -> None:
    roll = datasets.swiss_roll(n)
    repeats = 3 if n <= 2_000 else 1
    fill = min(4_000, 3 * 8 * n * n // 1_000_000) if n <= 20_000 else 2_000
    result = measure(LIBRARIES[library](method), roll.X, repeats, fill)
    np.save(save, result.pop("Y"))
    print(json.dumps(result))


def stress(X: np.ndarray, Y: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    return float(((pdist(X) - pdist(Y)) ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out what takes longer than a few seconds")
    parser.add_argument("--cell", nargs=3, metavar=("LIBRARY", "METHOD", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(options.cell[0], options.cell[1], int(options.cell[2]), options.save)
        return
    head = f"{'method':9} {'n':>9} {'library':13} {'seconds':>8} {'ratio':>6} {'added MB':>9} {'ratio':>6}"
    print(f"{head} {'rigid':>9} {'stress':>10} {'vs ours':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for method, n, libraries in CELLS:
            if options.quick and n > 2_000:
                continue
            roll = datasets.swiss_roll(n)
            base = None
            for library in libraries:
                cell = in_own_process(__file__, [library, method, str(n)], Path(folder))
                if "error" in cell:
                    print(f"{method:9} {n:9,} {library:13} {cell['error']}")
                    continue
                base = base or cell
                error = quality.procrustes(cell["Y"], roll.truth).error
                apart = np.sqrt(quality.procrustes(cell["Y"], base["Y"]).error)
                loss = f"{stress(roll.X, cell['Y']):10.4g}" if method == "mds" else f"{'':10}"
                print(
                    f"{method:9} {n:9,} {library:13} {cell['seconds']:8.2f} {cell['seconds'] / base['seconds']:6.1f} "
                    f"{cell['added_mb']:9.0f} {cell['added_mb'] / max(base['added_mb'], 1e-9):6.1f} {error:9.2g} "
                    f"{loss} {apart:9.1e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
