"""Cities of Europe, Asia and Africa: from the globe to a flat map, without being told that it is a globe."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from harness import Lab, Reason, experiment, main
from layouts import draw_layouts
from manifoldry import FastMVU, TesseraMap, metrics
from rules import at_least, at_most, no_less

N_TRAIN, N_TEST = 15_000, 30_000
N_TESSERAE, SIGMA, N_NEIGHBORS = 84, 1.0, 8
SECONDS = {"TesseraMap": 32.0, "FastMVU": 128.0}
CONTINENTS = ("Africa", "Asia", "Europe")
FAITHFUL = 0.1
"""Change of the distances to neighbors, in the median, up to which a map is taken as faithful."""


@experiment("45,000 cities by TesseraMap", source="khajehpour2013, Fig. 3.4 and Table 3.1", needs=("cities",))
def cities(lab: Lab) -> None:
    data = lab.load("cities")
    rows = np.flatnonzero(np.isin(np.asarray(data.extras["names"])[data.labels].astype(str), CONTINENTS))
    rows = np.random.default_rng(0).choice(rows, N_TRAIN + N_TEST, replace=False)
    X, new = data.X[rows[:N_TRAIN]], data.X[rows[N_TRAIN:]]
    models = {
        "TesseraMap": TesseraMap(
            n_components=2, n_patches=N_TESSERAE, n_neighbors=N_NEIGHBORS, kernel="rbf", gamma=SIGMA**-2
        ),
        "FastMVU": FastMVU(n_components=2, n_neighbors=N_NEIGHBORS),
    }
    for name, model in models.items():
        with lab.time(name):
            model.fit(X)
        lab.claim(f"seconds of a core, {name}", lab.core_seconds[name], at_most(SECONDS[name]))
    ratio = lab.core_seconds["FastMVU"] / lab.core_seconds["TesseraMap"]
    lab.claim("seconds of FastMVU over those of TesseraMap", ratio, at_least(1.0, "96 seconds more"))
    layouts = {name: model.embedding_ for name, model in models.items()}
    layouts["new cities"] = models["TesseraMap"].transform(new)
    changes = {name: _change(new if name == "new cities" else X, Y) for name, Y in layouts.items()}
    coarse = Reason(
        "the source's Fast MVU did not fine-tune its result; change by ours without the descent that ends it",
        lambda: _change(X, FastMVU(n_components=2, n_neighbors=N_NEIGHBORS, max_iter=0).fit_transform(X)),
        no_less(max(FAITHFUL, changes["TesseraMap"])),
    )
    kept = at_most(FAITHFUL, "faithful to the original map")
    lab.claim("change of distances to neighbors, TesseraMap", changes["TesseraMap"], kept)
    lab.claim("change of distances to neighbors, its new cities", changes["new cities"], kept)
    bent = at_least(FAITHFUL, "visibly distorted")
    lab.claim("change of distances to neighbors, FastMVU", changes["FastMVU"], bent, reason=coarse)
    ratio = changes["TesseraMap"] / changes["FastMVU"]
    lab.claim("change by TesseraMap over that by FastMVU", ratio, at_most(1.0, "a better result"), reason=coarse)
    off = _off(X, layouts["TesseraMap"], new, layouts["new cities"])
    lab.note(
        f"New cities lie {np.median(off):.2g} of the map's spread off the mean of their three nearest old ones in the "
        f"median, 95 % of them less than {np.quantile(off, 0.95):.2g}, islands more; certificate gap "
        f"{models['TesseraMap'].certificate_.gap:.1e}, of FastMVU {models['FastMVU'].certificate_.gap:.1e}."
    )
    with lab.figure("training", size=(12, 6)) as figure:
        shown = {name: layouts[name] for name in models}
        draw_layouts(figure, shown, np.arctan2(X[:, 1], X[:, 0]), "viridis")
    with lab.figure("new", size=(8, 8)) as figure:
        shown = {"new cities": layouts["new cities"]}
        draw_layouts(figure, shown, np.arctan2(new[:, 1], new[:, 0]), "viridis")


def _change(X: NDArray, Y: NDArray) -> float:
    options = {"n_neighbors": N_NEIGHBORS, "sample": 2000, "figures": ["distance_deviation"]}
    return metrics.score(X, Y, **options)["distance_deviation"]


def _off(X: NDArray, old: NDArray, cities: NDArray, placed: NDArray) -> NDArray:
    """Return how far new cities lie from the mean of their three nearest old ones, in units of the map's spread."""
    _, near = cKDTree(X).query(cities, k=3)
    return np.linalg.norm(placed - old[near].mean(axis=1), axis=1) / np.sqrt(old.var(axis=0).sum())


if __name__ == "__main__":
    main(cities)
