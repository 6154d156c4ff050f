"""Draw the figure of networks.md: what nets make of digits, fitted and new, and of a parabola and a circle.

``PYTHONPATH=src python docs/network_figures.py``
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits

from manifoldry import UMAP, Autoencoder, ParametricTSNE, ParametricUMAP

mpl.use("Agg")
import matplotlib.pyplot as plt

FIGURES = Path(__file__).resolve().parent / "figures"


def draw_digits() -> None:
    """Draw fitted digits as dots and new ones as crosses, by UMAP and by nets."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    fitted, new = order[:1497], order[1497:]
    figure, panels = plt.subplots(1, 4, figsize=(14, 3.7))
    for panel, method in zip(panels, (UMAP, ParametricUMAP, ParametricTSNE, Autoencoder), strict=True):
        model = method().fit(X[fitted])
        style = {"cmap": "tab10", "vmin": 0, "vmax": 9}
        panel.scatter(*model.embedding_.T, c=y[fitted], s=4, alpha=0.35, linewidths=0, **style)
        panel.scatter(*model.transform(X[new]).T, c=y[new], s=16, marker="x", linewidths=1, **style)
        panel.set_title(method.__name__, fontsize=10)
        panel.set_xticks([])
        panel.set_yticks([])
    figure.suptitle("1,497 digits (dots), and 300 new ones (crosses)", fontsize=10)
    figure.tight_layout()
    figure.savefig(FIGURES / "networks_digits.png", dpi=80, metadata={"Software": None})
    plt.close(figure)


def draw_curves() -> None:
    """Draw what one number rebuilds of a parabola and a circle."""
    rng, t = np.random.default_rng(0), np.linspace(-1, 1, 200)
    angle = 2 * np.pi * np.arange(200) / 200
    curves = {
        "parabola": np.column_stack([t, t**2]),
        "circle": np.column_stack([np.cos(angle), 1.1 * np.sin(angle)]),
    }
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.6))
    for panel, (name, curve) in zip(panels, curves.items(), strict=True):
        X = curve + 0.03 * rng.standard_normal(curve.shape)
        model = Autoencoder(n_components=1, hidden_layer_sizes=(16, 16)).fit(X)
        rebuilt = model.inverse_transform(np.sort(model.embedding_, axis=0))
        panel.scatter(*X.T, c=model.embedding_[:, 0], s=8, cmap="turbo")
        panel.plot(*rebuilt.T, color="0.2", lw=1.2)
        lost = f"{model.reconstruction_error_:.3f} of the variance lost, by PCA {model.diagnostics_['pca_error']:.2f}"
        panel.set_title(f"{name}: {lost}", fontsize=9)
        panel.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(FIGURES / "networks_curves.png", dpi=80, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    draw_curves()
    draw_digits()
