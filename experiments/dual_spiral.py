"""A holed sheet rolled up at both ends: single points stretched apart, and a kernel map for new ones."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, at_most, experiment, main
from manifoldry import Isomap, TesseraMap, datasets, quality
from manifoldry.solve.alignment import rigid_fit

WIDTH = 2.0
GRAPH = {"n_neighbors": 6, "radius": 0.55}
"""The sheets of the spirals are 0.6 apart: no neighbor may be farther."""


@experiment("The dual spiral keeps its width around a hole", source="khajehpour2013, Fig. 3.1-3.2")
def dual_spiral(lab: Lab) -> None:
    train, test = _even(datasets.dual_spiral(5000), 350), datasets.dual_spiral(5000, random_state=1)
    X, truth = train
    with lab.time("fit"):
        model = TesseraMap(clustering="none", gamma=4.0, **GRAPH).fit(X)
    isomap = Isomap(**GRAPH).fit(X)
    move = rigid_fit(model.embedding_, truth)
    placed = move(model.transform(test.X))
    widths = {
        "TesseraMap": float(np.ptp(move(model.embedding_)[:, 1])),
        "TesseraMap, new points": float(np.ptp(placed[:, 1])),
        "Isomap": float(np.ptp(rigid_fit(isomap.embedding_, truth)(isomap.embedding_)[:, 1])),
    }
    for name in ("TesseraMap", "TesseraMap, new points"):
        lab.claim(f"width, {name}: at least", widths[name], at_least(WIDTH))
        lab.claim(f"width, {name}: at most", widths[name], at_most(WIDTH))
    lab.claim("width, Isomap", widths["Isomap"], at_least(4.0))
    errors = {
        name: float(np.sqrt(quality.procrustes(found.embedding_, truth).error))
        for name, found in {"TesseraMap": model, "Isomap": isomap}.items()
    }
    lab.claim("rigid error of TesseraMap", errors["TesseraMap"], at_most(0.01, said="completely conformal"))
    lab.claim("rigid error of Isomap", errors["Isomap"], at_least(0.05, said="affected by the hole"))
    away = np.linalg.norm(placed - test.truth, axis=1)
    lab.claim(
        "median error of new points, in widths", float(np.median(away)) / WIDTH, at_most(0.01, said="same quality")
    )
    lab.claim("seconds", lab.seconds["fit"], at_most(57, within=0))
    lab.note(
        "350 points taken evenly of 5000, farthest first: drawn at random they leave gaps as wide as the distance "
        f"between sheets, and no graph is right. Gap of the certificate {model.certificate_.gap:.2g} with rank "
        f"{model.certificate_.rank}."
    )
    _draw(lab, X, truth, {"TesseraMap": move(model.embedding_), "Isomap": isomap.embedding_}, placed, test.truth)


def _even(data: datasets.Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and truth of a subset, each point the farthest from those before."""
    chosen, away = [0], np.linalg.norm(data.X - data.X[0], axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, np.linalg.norm(data.X - data.X[chosen[-1]], axis=1))
    return data.X[chosen], data.truth[chosen]


def _draw(
    lab: Lab, X: np.ndarray, truth: np.ndarray, layouts: dict, placed: np.ndarray, placed_truth: np.ndarray
) -> None:
    with lab.figure(size=(9, 5)) as figure:
        scroll = figure.add_subplot(1, 2, 1, projection="3d")
        scroll.scatter(*X[:, [0, 2, 1]].T, c=truth[:, 0], cmap="turbo", s=6, linewidths=0)
        scroll.set_axis_off()
        shown = [*((name, Y, truth) for name, Y in layouts.items()), ("TesseraMap, new points", placed, placed_truth)]
        for row, (name, Y, colors) in enumerate(shown):
            axes = figure.add_subplot(3, 2, 2 + 2 * row)
            axes.scatter(*Y.T, c=colors[:, 0], cmap="turbo", s=4, linewidths=0)
            axes.set_aspect("equal")
            axes.set_title(name, fontsize=9)


if __name__ == "__main__":
    main(dual_spiral)
