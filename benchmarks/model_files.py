"""Size and CPU seconds of saving and loading models: `manifoldry.save` against pickle and compressed joblib.

    MANIFOLDRY_DATA=folder python benchmarks/model_files.py [--quick]

UMAP of 10,000 digits (left out when the folder has no mnist.npz), IPA of 100,000 points of a Swiss roll, PCA, Isomap;
with ``--quick`` a tenth of the rows. Every loaded model must place new rows to the same bits. Stores the table.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import manifoldry
from manifoldry import datasets
from tables import Table


def write_pickle(model: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL))


WAYS: dict[str, tuple[Callable[[Any, Path], Any], Callable[[Path], Any]]] = {
    "manifoldry": (lambda model, path: manifoldry.save(model, path, overwrite=True), manifoldry.load),
    "pickle": (write_pickle, lambda path: pickle.loads(path.read_bytes())),
    "joblib, compress=1": (lambda model, path: joblib.dump(model, path, compress=1), joblib.load),
}


def fits(share: int) -> dict[str, tuple[Any, Any]]:
    """Return estimators and their rows by name."""
    roll = datasets.swiss_roll(100_000 // share, random_state=0).X
    found = {
        f"IPA, {len(roll):,} x 3": (manifoldry.IPA(), roll),
        f"PCA, {len(roll):,} x 3": (manifoldry.PCA(), roll),
        f"Isomap, {2000 // share:,} x 3": (manifoldry.Isomap(), roll[: 2000 // share]),
    }
    if "mnist" in datasets.available():
        digits = np.asarray(datasets.load("mnist").X[: 10_000 // share], dtype=np.float64)
        found = {f"UMAP, {len(digits):,} x 784": (manifoldry.UMAP(n_epochs=50), digits), **found}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    caption = "Size of the file and CPU seconds to write and to read it; the loaded model transforms to the same bits."
    columns = {"model": "", "file": "", "MB": ".1f", "save": ".2f", "load": ".2f"}
    table = Table("model_files", caption, columns, ("joblib",))
    with tempfile.TemporaryDirectory() as folder:
        for name, (estimator, X) in fits(10 if options.quick else 1).items():
            model = estimator.fit(X)
            placed = model.transform(X[:50] + 1e-3)
            for way, (save, load) in WAYS.items():
                path = Path(folder) / "model"
                began = time.process_time()
                save(model, path)
                saved = time.process_time()
                again = load(path)
                loaded = time.process_time()
                assert way != "manifoldry" or np.array_equal(again.transform(X[:50] + 1e-3), placed)
                size = path.stat().st_size / 1e6
                table.add(model=name, file=way, MB=size, save=saved - began, load=loaded - saved)


if __name__ == "__main__":
    main()
