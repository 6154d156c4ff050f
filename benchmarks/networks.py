"""Nets as maps: parametric UMAP and t-SNE, autoassociative nets, and the same for new rows without a net.

    python benchmarks/networks.py [digits mnist] [--peer PYTHON]

Fits to five sixths of the rows (mnist: 10,000 of 12,000) and places the others. Of every method: CPU seconds of the fit
and of placing 1,000 new rows, trustworthiness of the fitted and of the new rows among themselves (2,000 of each), the
share of labels that the five nearest fitted places guess right, of fitted rows (by the other half) and of new ones, and
the bytes of the map that goes to rows in blocks. With --peer, the interpreter of an environment with umap-learn and
tensorflow, its ParametricUMAP too; with --torch our nets trained by torch. Results are kept in results/networks.json.
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

RESULTS = Path(__file__).parent / "results" / "networks.json"
N_JUDGED = 2000


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

    from manifoldry.quality import trustworthiness

    X, Q, y, z = data
    half = KNeighborsClassifier(5).fit(fitted[::2], y[::2])
    return {
        "trust fitted": float(trustworthiness(X, fitted, sample=min(N_JUDGED, len(X)))),
        "trust new": float(trustworthiness(Q, new, sample=min(N_JUDGED, len(Q)))),
        "hit fitted": float(half.score(fitted[1::2], y[1::2])),
        "hit new": float(KNeighborsClassifier(5).fit(fitted, y).score(new, z)),
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
    size = len(pickle.dumps(model._map_alone("transform"))) if hasattr(model, "_map_alone") else 0
    row = {"fit": fit, "place": 1000 * place / len(Q), "bytes": size, **judged(data, model.embedding_, new)}
    if hasattr(model, "reconstruction_error_"):
        row["lost"], row["pca lost"] = model.reconstruction_error_, model.diagnostics_["pca_error"]
        row["held-out lost"] = model.diagnostics_.get("held_out_error")
    return row


def peer(python, data):
    """Fit umap-learn's ParametricUMAP in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", X=data[0], Q=data[1])
        subprocess.run([python, __file__, "--as-peer", folder], check=True)
        found = np.load(Path(folder) / "places.npz")
        seconds = {"fit": float(found["fit"]), "place": 1000 * float(found["place"]) / len(data[1]), "bytes": 0}
        return {**seconds, **judged(data, found["fitted"], found["new"])}


def as_peer(folder):
    """Run in the environment of the peer: its defaults."""
    from umap.parametric_umap import ParametricUMAP

    rows = np.load(Path(folder) / "rows.npz")
    began = time.process_time()
    model = ParametricUMAP(verbose=False)
    fitted = model.fit_transform(rows["X"])
    fit = time.process_time() - began
    began = time.process_time()
    new = model.transform(rows["Q"])
    place = time.process_time() - began
    np.savez(Path(folder) / "places.npz", fitted=fitted, new=new, fit=fit, place=place)


def methods(with_torch):
    """Return what is compared, by name."""
    from manifoldry import PCA, TSNE, UMAP, Autoencoder, ParametricTSNE, ParametricUMAP

    compared = {
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
    if with_torch:
        compared["ParametricUMAP, torch"] = lambda: ParametricUMAP(backend="torch")
        compared["Autoencoder, torch"] = lambda: Autoencoder(backend="torch")
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["digits", "mnist"])
    parser.add_argument("--peer")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--as-peer", metavar="FOLDER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.as_peer:
        return as_peer(asked.as_peer)
    warnings.simplefilter("ignore")
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in asked.sets:
        data = split(name)
        compared = {label: partial(ours, make, data) for label, make in methods(asked.torch).items()}
        if asked.peer:
            compared["umap-learn ParametricUMAP"] = partial(peer, asked.peer, data)
        for label, compute in compared.items():
            if asked.only and label not in asked.only:
                continue
            row = compute()
            stored.setdefault(name, {})[label] = row
            print(name, label, {key: None if v is None else round(v, 4) for key, v in row.items()}, flush=True)
            RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main())
