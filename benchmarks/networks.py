"""Nets as maps: parametric UMAP and t-SNE, autoassociative nets, and the same for new rows without a net.

    python benchmarks/networks.py [digits mnist] [--peer PYTHON]

Fits to five sixths of the rows (mnist: 10,000 of 12,000) and places the others. Of every method: CPU seconds of the fit
and of placing 1,000 new rows, trustworthiness of the fitted and of the new rows among themselves (2,000 of each), the
share of labels that the five nearest fitted places guess right, of fitted rows (by the other half) and of new ones, and
the bytes of the map that goes to rows in blocks. With --peer, the interpreter of an environment with umap-learn and
tensorflow, its ParametricUMAP too. Results are kept in results/networks.json.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

STORED = Path(__file__).parent / "results" / "networks.json"
N_JUDGED = 2000
CAPTION = (
    "Maps for new rows: fits to 1,497 digits or 10,000 rows of mnist, in single precision, and 300 or 2,000 new rows. "
    "CPU seconds of the fit, and milliseconds of CPU to place 1,000 new rows; trustworthiness of fitted and new rows; "
    "share of labels that the five nearest fitted places guess; kilobytes of the map that goes to rows in blocks."
)
COLUMNS = {
    "data": "",
    "method": "",
    "fit CPU s": ".1f",
    "place CPU ms": ".1f",
    "trust fitted": ".3f",
    "trust new": ".3f",
    "labels fitted": ".3f",
    "labels new": ".3f",
    "map kB": ",.0f",
    "variance lost": ".3f",
}


def split(name):
    """Return fitted rows, new rows and the labels of both."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        n_fitted = 1497
    else:
        from manifoldry import datasets

        found = datasets.load(name)
        X, y, n_fitted = np.asarray(found.X[:12_000]) / 255, np.asarray(found.labels[:12_000]), 10_000
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float32), y[order]
    return X[:n_fitted], X[n_fitted:], y[:n_fitted], y[n_fitted:]


def judged(data, fitted, new):
    """Return the figures of the places of fitted and of new rows."""
    from sklearn.neighbors import KNeighborsClassifier

    from manifoldry.evaluation.metrics import trustworthiness

    X, Q, y, z = data
    half = KNeighborsClassifier(5).fit(fitted[::2], y[::2])
    return {
        "trust fitted": float(trustworthiness(X, fitted, sample=min(N_JUDGED, len(X)))),
        "trust new": float(trustworthiness(Q, new, sample=min(N_JUDGED, len(Q)))),
        "labels fitted": float(half.score(fitted[1::2], y[1::2])),
        "labels new": float(KNeighborsClassifier(5).fit(fitted, y).score(new, z)),
    }


def ours(make, data):
    """Fit one of ours, and place the new rows."""
    X, Q, _, _ = data
    began = time.process_time()
    model = make().fit(X)
    fit = time.process_time() - began
    began = time.process_time()
    new = model.transform(Q)
    place = time.process_time() - began
    size = (
        len(pickle.dumps(model._strip_for_transform("transform"))) / 1000
        if hasattr(model, "_strip_for_transform")
        else None
    )
    lost = getattr(model, "reconstruction_error_", None)
    return {**seconds(fit, place, Q), "map kB": size, "variance lost": lost, **judged(data, model.embedding_, new)}


def seconds(fit, place, Q):
    """Return the cells of the time taken."""
    return {"fit CPU s": fit, "place CPU ms": 1e6 * place / len(Q)}


def peer(python, data, epochs):
    """Fit umap-learn's ParametricUMAP in its own environment; by default the strongest edge is sampled 200 times."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", X=data[0], Q=data[1])
        subprocess.run(
            [python, __file__, "--as-peer", folder, *(["--epochs", str(epochs)] if epochs else [])], check=True
        )
        found = np.load(Path(folder) / "places.npz")
        taken = seconds(float(found["fit"]), float(found["place"]), data[1])
        return {**taken, **judged(data, found["fitted"], found["new"])}


def as_peer(folder, epochs):
    """Run in the environment of the peer: its defaults, but perhaps for the epochs."""
    from umap.parametric_umap import ParametricUMAP

    rows = np.load(Path(folder) / "rows.npz")
    began = time.process_time()
    model = ParametricUMAP(n_epochs=epochs)
    fitted = model.fit_transform(rows["X"])
    fit = time.process_time() - began
    began = time.process_time()
    new = model.transform(rows["Q"])
    place = time.process_time() - began
    np.savez(Path(folder) / "places.npz", fitted=fitted, new=new, fit=fit, place=place)


def methods():
    """Return what is compared, by name."""
    from manifoldry import PCA, TSNE, UMAP, Autoencoder, ParametricTSNE, ParametricUMAP

    return {
        "PCA": lambda: PCA(n_components=2),
        "UMAP": UMAP,
        "ParametricUMAP": ParametricUMAP,
        "ParametricUMAP, layout only": lambda: ParametricUMAP(fine_tuning=0),
        "ParametricUMAP, loss only": lambda: ParametricUMAP(fine_tuning=1),
        "TSNE": TSNE,
        "ParametricTSNE": ParametricTSNE,
        "ParametricTSNE, layout only": lambda: ParametricTSNE(fine_tuning=0),
        "ParametricTSNE, loss only": lambda: ParametricTSNE(fine_tuning=1),
        "Autoencoder": Autoencoder,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["digits", "mnist"])
    parser.add_argument("--peer")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--epochs", type=int, help="of the peer")
    parser.add_argument("--as-peer", metavar="FOLDER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.as_peer:
        return as_peer(asked.as_peer, asked.epochs)
    warnings.simplefilter("ignore")
    from tables import Table

    stored = json.loads(STORED.read_text(encoding="utf-8"))["rows"] if STORED.exists() else []
    rows = {(row["data"], row["method"]): row for row in stored}
    table = Table("networks", CAPTION, COLUMNS)
    for name in asked.sets:
        data = split(name)
        compared = {label: partial(ours, make, data) for label, make in methods().items()}
        if asked.peer:
            label = "umap-learn ParametricUMAP" + (f", {asked.epochs} epochs" if asked.epochs else "")
            compared[label] = partial(peer, asked.peer, data, asked.epochs)
        for label, compute in compared.items():
            if not asked.only or label in asked.only:
                rows[name, label] = {"data": name, "method": label, **compute()}
                table.put(rows.values())
                print(rows[name, label], flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
