"""Spectral methods and MDS against scikit-learn and tapkee, same data, one run, as ratios.

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


OURS = {
    "isomap": ("Isomap", {"n_neighbors": K}),
    "landmark": ("LandmarkIsomap", {"n_neighbors": K, "n_landmarks": 200}),
    "mds": ("MDS", {}),
    "lle": ("LLE", {"n_neighbors": K}),
    "modified": ("ModifiedLLE", {"n_neighbors": K}),
    "ltsa": ("LTSA", {"n_neighbors": K}),
    "hessian": ("HessianEigenmaps", {"n_neighbors": K}),
    "laplacian": ("LaplacianEigenmaps", {"n_neighbors": K}),
    "diffusion": ("DiffusionMaps", {"n_neighbors": K, "kernel": "sparse"}),
}
THEIR_LLE = {"lle": "standard", "modified": "modified", "ltsa": "ltsa", "hessian": "hessian"}
THEIR_NAME = {
    "isomap": "isomap",
    "landmark": "l-isomap",
    "lle": "lle",
    "ltsa": "ltsa",
    "hessian": "hlle",
    "laplacian": "la",
}


def ours(method: str):
    import manifoldry

    name, settings = OURS[method]
    return lambda X: getattr(manifoldry, name)(**settings).fit_transform(X)


def sklearn(method: str):
    from sklearn.manifold import MDS, Isomap, LocallyLinearEmbedding, SpectralEmbedding

    if method == "isomap":
        return lambda X: Isomap(n_neighbors=K, n_jobs=2).fit_transform(X)
    if method == "mds":
        return lambda X: MDS(n_jobs=2, random_state=0).fit_transform(X)
    if method == "laplacian":  # its fastest solver
        return lambda X: SpectralEmbedding(
            2, affinity="nearest_neighbors", n_neighbors=K, eigen_solver="amg", n_jobs=2, random_state=0
        ).fit_transform(X)
    settings = {"n_neighbors": K, "method": THEIR_LLE[method], "n_jobs": 2, "random_state": 0}
    return lambda X: LocallyLinearEmbedding(**settings).fit_transform(X)


def tapkee(method: str):
    import tapkee as peer

    settings = {"method": THEIR_NAME[method], "num_neighbors": K, "target_dimension": 2}
    return lambda X: np.asarray(peer.embed(np.ascontiguousarray(X.T), **settings)).reshape(len(X), -1)


LIBRARIES = {"manifoldry": ours, "scikit-learn": sklearn, "tapkee": tapkee}
BOTH, THREE, ALONE = ("manifoldry", "scikit-learn"), ("manifoldry", "scikit-learn", "tapkee"), ("manifoldry",)
LOCAL = {"lle": THREE, "modified": BOTH, "ltsa": THREE, "hessian": THREE, "laplacian": THREE}
CELLS = [
    ("isomap", "roll", 2_000, THREE),
    ("isomap", "roll", 10_000, THREE),
    ("landmark", "roll", 10_000, ("manifoldry", "tapkee")),
    ("landmark", "roll", 1_000_000, ALONE),
    ("mds", "roll", 2_000, BOTH),
    *((method, "digits", 1_797, libraries) for method, libraries in LOCAL.items()),
    *((method, "holed", n, libraries) for n in (2_000, 10_000) for method, libraries in LOCAL.items()),
    *((method, "holed", 50_000, BOTH) for method in LOCAL),
    *((method, "roll", 200_000, ALONE) for method in (*LOCAL, "diffusion")),
    ("ltsa", "roll", 1_000_000, ALONE),
]


def load(data: str, n: int):
    """Return the digits, or a Swiss roll whole or holed (on the whole one scikit-learn's LTSA may fail)."""
    return datasets.load("digits") if data == "digits" else datasets.swiss_roll(n, hole=data == "holed")


def run_cell(library: str, method: str, data: str, n: int, save: str) -> None:
    repeats = 3 if n <= 2_000 else 1
    fill = min(4_000, 3 * 8 * n * n // 1_000_000) if n <= 20_000 else 2_000
    result = measure(LIBRARIES[library](method), load(data, n).X, repeats, fill)
    np.save(save, result.pop("Y"))
    print(json.dumps(result))


def stress(X: np.ndarray, Y: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    return float(((pdist(X) - pdist(Y)) ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=50_000, help="leave out larger data (default 50,000 points)")
    parser.add_argument("--methods", nargs="*", choices=sorted(OURS), help="only these")
    parser.add_argument("--cell", nargs=4, metavar=("LIBRARY", "METHOD", "DATA", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        library, method, data, n = options.cell
        run_cell(library, method, data, int(n), options.save)
        return
    head = f"{'method':9} {'data':6} {'n':>9} {'library':13} {'seconds':>8} {'ratio':>6} {'added MB':>9} {'ratio':>6}"
    print(f"{head} {'rigid':>9} {'affine':>9} {'stress':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for method, data, n, libraries in CELLS:
            if n > options.most or (options.methods and method not in options.methods):
                continue
            base = None
            for library in libraries:
                cell = in_own_process(__file__, [library, method, data, str(n)], Path(folder))
                lead = f"{method:9} {data:6} {n:9,} {library:13}"
                if "error" in cell:
                    print(f"{lead} {cell['error']}", flush=True)
                    continue
                base = base or cell
                print(f"{lead} {_figures(cell, base)} {_quality(method, load(data, n), cell['Y'])}", flush=True)


def _figures(cell: dict, base: dict) -> str:
    times, memory = cell["seconds"] / base["seconds"], cell["added_mb"] / max(base["added_mb"], 1.0)
    return f"{cell['seconds']:8.2f} {times:6.1f} {cell['added_mb']:9.0f} {memory:6.1f}"


def _quality(method: str, data: datasets.Dataset, Y: np.ndarray) -> str:
    loss = f"{stress(data.X, Y):10.4g}" if method == "mds" else ""
    if data.truth is None:
        return loss
    errors = [quality.procrustes(Y, data.truth, kind=kind).error for kind in ("rigid", "affine")]
    return f"{errors[0]:9.2g} {errors[1]:9.2g} {loss}"


if __name__ == "__main__":
    main()
