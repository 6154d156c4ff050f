"""Spectral methods and MDS against scikit-learn and tapkee, same data, one run, as ratios.

    python benchmarks/spectral.py [--max-points N] [--methods isomap ...]

Stores the table unless ``--methods`` chooses a part of it. Needs the extra ``peers`` (psutil, tapkee).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from manifoldry import datasets, metrics
from peers import in_own_process, measure
from tables import Table

N_NEIGHBORS = 10

OURS = {
    "isomap": ("Isomap", {"n_neighbors": N_NEIGHBORS}),
    "landmark": ("LandmarkIsomap", {"n_neighbors": N_NEIGHBORS, "n_landmarks": 200}),
    "mds": ("MDS", {}),
    "lle": ("LLE", {"n_neighbors": N_NEIGHBORS}),
    "modified": ("ModifiedLLE", {"n_neighbors": N_NEIGHBORS}),
    "ltsa": ("LTSA", {"n_neighbors": N_NEIGHBORS}),
    "hessian": ("HessianEigenmaps", {"n_neighbors": N_NEIGHBORS}),
    "laplacian": ("LaplacianEigenmaps", {"n_neighbors": N_NEIGHBORS}),
    "diffusion": ("DiffusionMaps", {"n_neighbors": N_NEIGHBORS, "kernel": "sparse"}),
}
SKLEARN_LLE = {"lle": "standard", "modified": "modified", "ltsa": "ltsa", "hessian": "hessian"}
TAPKEE_METHODS = {
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
        return lambda X: Isomap(n_neighbors=N_NEIGHBORS, n_jobs=2).fit_transform(X)
    if method == "mds":
        return lambda X: MDS(n_jobs=2, random_state=0).fit_transform(X)
    if method == "laplacian":  # its fastest solver
        return lambda X: SpectralEmbedding(
            2, affinity="nearest_neighbors", n_neighbors=N_NEIGHBORS, eigen_solver="amg", n_jobs=2, random_state=0
        ).fit_transform(X)
    settings = {"n_neighbors": N_NEIGHBORS, "method": SKLEARN_LLE[method], "n_jobs": 2, "random_state": 0}
    return lambda X: LocallyLinearEmbedding(**settings).fit_transform(X)


def tapkee(method: str):
    import tapkee as peer

    settings = {"method": TAPKEE_METHODS[method], "num_neighbors": N_NEIGHBORS, "target_dimension": 2}
    return lambda X: np.asarray(peer.embed(np.ascontiguousarray(X.T), **settings)).reshape(len(X), -1)


LIBRARIES = {"manifoldry": ours, "scikit-learn": sklearn, "tapkee": tapkee}
ALONE, BOTH, THREE = ("manifoldry",), ("manifoldry", "scikit-learn"), ("manifoldry", "scikit-learn", "tapkee")
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


COLUMNS = {
    "method": "",
    "data": "",
    "points": ",",
    "library": "",
    "seconds": ".2f",
    "times ours": ".1f",
    "added MB": ".0f",
    "rigid error": ".1e",
    "affine error": ".1e",
    "stress": ".4g",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-points", type=int, default=1_000_000, help="leave out larger data (1,000,000 points)")
    parser.add_argument("--methods", nargs="*", choices=sorted(OURS), help="only these")
    parser.add_argument("--cell", nargs=4, metavar=("LIBRARY", "METHOD", "DATA", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        library, method, data, n = options.cell
        run_cell(library, method, data, int(n), options.save)
        return
    caption = (
        f"Spectral methods and MDS, k = {N_NEIGHBORS}, on a Swiss roll whole or holed and on the digits; each fit in a "
        "process of its own, best of three up to 2,000 points. Errors are against the true coordinates, after the "
        "best rigid or affine motion."
    )
    table = Table("spectral", caption, COLUMNS, ("pyamg", "tapkee"))
    with tempfile.TemporaryDirectory() as folder:
        for method, data, n, libraries in CELLS:
            if n > options.max_points or (options.methods and method not in options.methods):
                continue
            compare(table, method, data, n, libraries, Path(folder))


def compare(table: Table, method: str, data: str, n: int, libraries: tuple[str, ...], folder: Path) -> None:
    """Add a row per library; the first is ours."""
    base = None
    for library in libraries:
        cell = in_own_process(__file__, [library, method, data, str(n)], folder)
        lead = {"method": OURS[method][0], "data": data, "points": n, "library": library}
        if "error" in cell:
            table.add(**lead, error=cell["error"])
            continue
        base = base or cell["seconds"]
        table.add(
            **lead,
            seconds=cell["seconds"],
            times_ours=cell["seconds"] / base,
            added_MB=cell["added_mb"],
            **_quality(method, load(data, n), cell["Y"]),
        )


def _quality(method: str, data: datasets.Dataset, Y: np.ndarray) -> dict[str, float]:
    found = {"stress": stress(data.X, Y)} if method == "mds" else {}
    if data.truth is not None:
        for kind in ("rigid", "affine"):
            found[f"{kind}_error"] = metrics.procrustes(Y, data.truth, kind=kind).error
    return found


if __name__ == "__main__":
    main()
