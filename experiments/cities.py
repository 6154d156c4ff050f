"""Cities of Europe, Asia and Africa: from the globe to a flat map, without being told that it is a globe."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from harness import Lab, at_most, experiment, main
from manifoldry import TesseraMap, quality

N_TRAIN, N_TEST = 15_000, 30_000
N_TESSERAE, SIGMA = 84, 1.0
SOURCE_SECONDS = 32.0
CONTINENTS = ("Africa", "Asia", "Europe")


@experiment("45,000 cities by TesseraMap", source="khajehpour2013, Fig. 3.4", needs=("cities",))
def cities(lab: Lab) -> None:
    data = lab.load("cities")
    rows = np.flatnonzero(np.isin(np.asarray(data.extras["names"])[data.labels].astype(str), CONTINENTS))
    rows = np.random.default_rng(0).choice(rows, N_TRAIN + N_TEST, replace=False)
    X = data.X[rows]
    with lab.time("fit"):
        model = TesseraMap(n_components=2, n_patches=N_TESSERAE, n_neighbors=8, kernel="rbf", gamma=SIGMA**-2).fit(
            X[:N_TRAIN]
        )
    with lab.time("new"):
        placed = model.transform(X[N_TRAIN:])
    lab.claim("seconds for 15,000 cities", lab.seconds["fit"], at_most(SOURCE_SECONDS))
    error = quality.distance_error(X[:N_TRAIN], model.embedding_, n_neighbors=8, sample=2000)
    lab.claim("local distance error of the cities", error, at_most(0.05, within=0))
    off = _off(X, model.embedding_, placed)
    lab.claim("new cities off their old neighbors, median", float(np.median(off)), at_most(0.02, within=0))
    lab.note(
        f"{N_TEST:,} new cities in {lab.seconds['new']:.1f} s; 95 % of them less than {np.quantile(off, 0.95):.2g} "
        f"off, islands more; certificate gap {model.certificate_.gap:.1e}"
    )
    with lab.figure(size=(8, 8)) as figure:
        axes = figure.subplots()
        axes.scatter(*placed.T, s=0.5, c=np.arctan2(X[N_TRAIN:, 1], X[N_TRAIN:, 0]), cmap="viridis")
        axes.set_aspect("equal")
        axes.set_axis_off()


def _off(X: NDArray, old: NDArray, new: NDArray) -> NDArray:
    """Return how far new cities lie from the mean of their three nearest old ones, in units of the map's spread."""
    _, near = cKDTree(X[:N_TRAIN]).query(X[N_TRAIN:], k=3)
    return np.linalg.norm(new - old[near].mean(axis=1), axis=1) / np.sqrt(old.var(axis=0).sum())


if __name__ == "__main__":
    main(cities)
