"""Seconds to the first result in a new process: import and first fit, against openTSNE and umap-learn.

    MANIFOLDRY_DATA=folder python benchmarks/first_fit.py [--quick]

Iris and 10,000 digits of 50 columns (left out with ``--quick``, or when the folder has no mnist.npz); with an empty
cache of compiled loops, then with a filled one, the best of two. Stores the table. Needs the extra ``peers``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from manifoldry import datasets
from neighbor_embeddings import PACKAGES, load
from tables import Table

CODE = """
import time; begin = time.perf_counter()
import numpy as np
X = np.load({path!r})
{imports}
{fit}
print(time.perf_counter() - begin)
"""
FITS = {
    "import manifoldry": ("import manifoldry", ""),
    "Isomap": ("from manifoldry import Isomap", "Isomap().fit(X)"),
    "TSNE": ("from manifoldry import TSNE", "TSNE().fit(X)"),
    "UMAP": ("from manifoldry import UMAP", "UMAP().fit(X)"),
    "openTSNE": ("from openTSNE import TSNE", "TSNE().fit(X)"),
    "umap-learn": ("from umap import UMAP", "UMAP().fit(X)"),
}
NEIGHBOR_EMBEDDINGS = ("TSNE", "UMAP", "openTSNE", "umap-learn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="iris only")
    options = parser.parse_args()
    caption = (
        "Seconds of import and first fit in a new process, with an empty cache of compiled loops and with a filled one "
        "(best of two)."
    )
    table = Table("first_fit", caption, {"data": "", "fit": "", "empty cache": ".2f", "filled cache": ".2f"}, PACKAGES)
    sets = {"iris": tuple(FITS)}
    if not options.quick and "mnist" in datasets.available():
        sets["mnist10k"] = NEIGHBOR_EMBEDDINGS
    with tempfile.TemporaryDirectory() as folder:
        for name, fits in sets.items():
            path = Path(folder) / f"{name}.npy"
            np.save(path, load(name)[0])
            for fit in fits:
                cache = Path(folder) / f"{fit}-{name}"
                seconds = [timed(fit, path, cache) for _ in range(3)]
                table.add(data=name, fit=fit, empty_cache=seconds[0], filled_cache=min(seconds[1:]))


def timed(fit: str, path: Path, cache: Path) -> float:
    """Return the seconds that a new process took, with numba's cache in this folder."""
    imports, call = FITS[fit]
    command = [sys.executable, "-W", "ignore", "-c", CODE.format(path=str(path), imports=imports, fit=call)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


if __name__ == "__main__":
    main()
