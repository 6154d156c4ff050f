"""Draw the figures of the page on plots: digits, a holed roll and their curves, by `manifoldry.plot`.

Run ``python docs/plot_figures.py`` after changing a plot.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "figures"
DPI = 72


def save(figure: Any, name: str) -> None:
    """Write a figure without what would change from day to day."""
    figure.savefig(FOLDER / f"{name}.png", dpi=DPI, metadata={"Software": None})


def main() -> None:
    """Draw all of them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_digits

    from manifoldry import IPA, PCA, TSNE, Isomap, datasets, plot

    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    tsne, pca, isomap = TSNE().fit(X), PCA(n_components=8).fit(X), Isomap(n_components=8).fit(X)

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    plot.scatter(tsne, y, annotate=True, ax=axes[0])
    plot.reliability(X, tsne, ax=axes[1])
    plot.distortion(X, tsne, ax=axes[2])
    save(figure, "plot_points")

    figure, axes = plt.subplots(1, 4, figsize=(17, 4), layout="constrained")
    plot.eigenvalues(isomap, ax=axes[0])
    plot.residual_variance({"Isomap": isomap, "PCA": pca}, ax=axes[1])
    plot.shepard(X, tsne, ax=axes[2])
    flat = {"TSNE": tsne, "Isomap": isomap.embedding_[:, :2], "PCA": pca.embedding_[:, :2]}
    plot.rnx(X, flat, ax=axes[3])
    save(figure, "plot_curves")

    roll = datasets.swiss_roll(2000, hole=True)
    ipa = IPA().fit(roll.X)
    figure = plt.figure(figsize=(13, 3.6), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1, 1.5, 1.2))
    plot.patches(ipa, roll, ax=left.add_subplot(projection="3d"))
    plot.patches(ipa, ax=middle.add_subplot())
    plot.charts(ipa, 6, axes=right.subplots(2, 3))
    save(figure, "plot_patches")

    save(plot.compare({"TSNE": tsne, "Isomap": isomap, "PCA": pca}, y)[0].figure, "plot_compare")


if __name__ == "__main__":
    main()
