"""Draw the figure of every method's page: a holed Swiss roll, its embedding, and the figures of quality.

Run ``make figures`` after adding a method; a test wants a figure for every card.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

from manifoldry import datasets, metrics
from manifoldry._core.registry import Card, list_methods
from manifoldry._core.run import Run
from manifoldry.cli._flow import demo
from manifoldry.methods.clusters._spectral import spectral_values

FOLDER = Path(__file__).resolve().parent / "figures"
POINTS = 800
FEWER = {"MVE": 400, "SPE": 200}
"""Points of methods that would take long for as many as others have; they have six neighbors each."""

OVERVIEW = ("PCA", "Isomap", "LLE", "LTSA", "TSNE", "UMAP", "MVU", "IPA")


def embed(card: Card, roll: datasets.Dataset) -> np.ndarray:
    """Return a method's coordinates: ten neighbors where it has neighbors, two dimensions where it can."""
    known = card.cls().get_params()
    wanted = {"n_components": 2, "random_state": 0}
    if card.family != "neighbor":  # whose lists are longer
        wanted["n_neighbors"] = 6 if card.name in FEWER else 10
    settings = {name: value for name, value in wanted.items() if name in known}
    if known["n_components"] == 1:  # a curve
        settings["n_components"] = 1
    return card.cls(**settings).fit_transform(roll.X - roll.X.min(axis=0))


def draw(card: Card, roll: datasets.Dataset) -> None:
    """Write the figure of one method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    Y = embed(card, roll)
    figure = plt.figure(figsize=(7.2, 2.9))
    style = {"c": roll.color, "cmap": "turbo", "s": 5, "linewidths": 0}
    left = figure.add_subplot(1, 2, 1, projection="3d")
    left.scatter(*roll.X[:, [0, 2, 1]].T, **style)
    left.view_init(12, -78)
    left.set_axis_off()
    left.set_title("the data", fontsize=9)
    right = figure.add_subplot(1, 2, 2)
    if Y.shape[1] == 1:
        right.scatter(roll.color, Y[:, 0], **style)
        right.set_xlabel("arc length", fontsize=8)
    else:
        right.scatter(Y[:, 0], Y[:, 1], **style)
        right.set_aspect("equal", adjustable="datalim")
    right.tick_params(labelsize=7)
    trust = metrics.trustworthiness(roll.X, Y, n_neighbors=10)
    right.set_title(f"{card.name}: trustworthiness {float(trust):.3f}", fontsize=9)
    figure.tight_layout()
    figure.savefig(FOLDER / f"{card.name}.png", dpi=80, metadata={"Software": None})
    plt.close(figure)


def draw_overview() -> None:
    """Write the README's picture: a holed roll, unfolded by eight methods."""
    roll = datasets.swiss_roll(1500, height=demo.ROLL_HEIGHT, hole=True)
    cards = {card.name: card for card in list_methods()}
    results = list(demo.unfold(roll, [cards[name] for name in OVERVIEW]))
    demo.draw("Swiss roll with a hole", roll, results, FOLDER / "holed_roll.png")


def draw_cuts() -> None:
    """Write the picture of spectral clustering: clusters above, below the eigenvalues and the gap that counts them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.datasets import make_blobs, make_circles, make_moons

    from manifoldry import SpectralClustering

    sets = {
        "two moons": make_moons(400, noise=0.06, random_state=0)[0],
        "two rings": make_circles(400, factor=0.5, noise=0.05, random_state=0)[0],
        "five blobs": make_blobs(400, centers=5, random_state=3)[0],
        "one square": np.random.default_rng(0).uniform(size=(400, 2)),
    }
    figure, axes = plt.subplots(2, len(sets), figsize=(10, 4.6))
    for (name, X), (above, below) in zip(sets.items(), axes.T, strict=True):
        model = SpectralClustering(n_clusters="auto").fit(X)
        found = model.suggest_n_clusters()
        above.scatter(*X.T, c=model.labels_, s=4, cmap="tab10", vmax=9, linewidths=0)
        above.set_aspect("equal", adjustable="datalim")
        above.set_title(name, fontsize=9)
        values = spectral_values(model.affinity_matrix_, 10, "symmetric", Run(0, 1))[0]
        below.bar(
            1 + np.arange(len(values)), values, color=["C3" if i < int(found) else "0.7" for i in range(len(values))]
        )
        below.set_title(f"n_clusters = {int(found)}" + ("" if found.clear else ": no gap"), fontsize=9)
        below.set_xlabel("eigenvalue", fontsize=8)
        for panel in (above, below):
            panel.tick_params(labelsize=6)
    figure.tight_layout()
    figure.savefig(FOLDER / "spectral_clustering.png", dpi=80, metadata={"Software": None})
    plt.close(figure)


def draw_flats() -> None:
    """Write the picture of GPCA: crossing lines by it, by one start of VQPCA, and under noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from manifoldry import GPCA, VQPCA

    rng = np.random.default_rng(5)
    angles = np.array([0.2, 0.9, 1.5, 2.4])
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    X = np.concatenate([rng.uniform(-1, 1, (80, 1)) * direction for direction in directions])
    noisy = X + 0.04 * rng.normal(size=X.shape)
    settings = {"n_clusters": 4, "n_components": 1, "n_init": 1}
    fits = {
        "GPCA": (X, GPCA(**settings).fit(X)),
        "VQPCA, one start": (X, VQPCA(**settings).fit(X)),
        "GPCA under noise": (noisy, GPCA(**settings).fit(noisy)),
    }
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2))
    for panel, (name, (points, model)) in zip(axes, fits.items(), strict=True):
        panel.scatter(*points.T, c=model.labels_, s=5, cmap="tab10", vmax=9, linewidths=0)
        panel.set_aspect("equal")
        panel.set_title(f"{name}: error {model.reconstruction_error_:.2g}", fontsize=9)
        panel.tick_params(labelsize=6)
    figure.tight_layout()
    figure.savefig(FOLDER / "gpca.png", dpi=80, metadata={"Software": None})
    plt.close(figure)


def main(names: list[str]) -> None:
    """Draw the named methods, or all and the overview."""
    FOLDER.mkdir(exist_ok=True)
    roll = datasets.swiss_roll(POINTS, hole=True)
    warnings.simplefilter("ignore")
    for card in list_methods():
        if not names or card.name in names:
            draw(card, datasets.swiss_roll(FEWER[card.name], hole=True) if card.name in FEWER else roll)
    if not names or "overview" in names:
        draw_overview()
    if not names or "cuts" in names:
        draw_cuts()
    if not names or "flats" in names:
        draw_flats()


if __name__ == "__main__":
    main(sys.argv[1:])
