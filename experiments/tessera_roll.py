"""Thirty thousand points of a Swiss roll as a mosaic of a hundred tesserae, and twenty thousand new ones."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, at_most, experiment, main
from manifoldry import TesseraMap, datasets, quality
from manifoldry.solve.alignment import rigid_fit

WIDTH = 20.0


@experiment("A large Swiss roll as a mosaic", source="khajehpour2013, Fig. 3.3 and Table 3.1", quick=True)
def tessera_roll(lab: Lab) -> None:
    train = datasets.swiss_roll(lab.pick(30_000, 3000), height=WIDTH)
    test = datasets.swiss_roll(lab.pick(20_000, 2000), height=WIDTH, random_state=1)
    with lab.time("fit"):
        model = TesseraMap(n_patches=lab.pick(100, 30)).fit(train.X)
    with lab.time("transform"):
        placed = model.transform(test.X)
    move = rigid_fit(model.embedding_, train.truth)
    for name, Y, truth in (("training", model.embedding_, train.truth), ("new", placed, test.truth)):
        width = float(np.ptp(move(Y)[:, 1]))
        lab.claim(f"width of the {name} points, at least", width, at_least(WIDTH))
        lab.claim(f"width of the {name} points, at most", width, at_most(WIDTH))
        error = float(np.sqrt(np.square(move(Y) - truth).sum(axis=1).mean()))
        lab.claim(f"error of the {name} points in units of the roll", error, at_most(0.2, said="faithful"))
    lab.claim("seconds with clustering", lab.seconds["fit"], at_most(lab.pick(10, 118), within=0, said="118"))
    relative = np.sqrt(quality.procrustes(model.embedding_, train.truth).error)
    lab.note(
        f"{model.n_patches_} tesserae (source 108), fit {lab.seconds['fit']:.1f} s "
        f"({lab.core_seconds['fit']:.1f} s on a core), new points "
        f"{lab.seconds['transform']:.2f} s; rigid error {relative:.2g}; "
        f"stretch {model.stretch_:.4g} within {model.certificate_.gap:.2g} of the most, rank {model.certificate_.rank}."
    )
    if not lab.quick:
        _flat_and_larger(lab, train)
    _draw(lab, train, model, move(model.embedding_), move(placed), test)


def _flat_and_larger(lab: Lab, train: datasets.Dataset) -> None:
    """Tell what principal directions alone leave, as in the source, and the time of fifty thousand points."""
    flat = TesseraMap(n_patches=100, chart="flat").fit(train.X)
    error = np.sqrt(quality.procrustes(flat.embedding_, train.truth).error)
    lab.note(f"Tesserae by principal directions alone: rigid error {error:.2g}, chords instead of arcs.")
    larger = datasets.swiss_roll(50_000, height=WIDTH)
    with lab.time("larger"):
        TesseraMap(n_patches=100).fit(larger.X)
    lab.claim("seconds for 50,000 points", lab.seconds["larger"], at_most(20, within=0, said="below 600"))


def _draw(
    lab: Lab, train: datasets.Dataset, model: TesseraMap, Y: np.ndarray, placed: np.ndarray, test: datasets.Dataset
) -> None:
    shades = np.random.default_rng(0).permutation(model.n_patches_)[model.labels_]
    with lab.figure(size=(9, 5)) as figure:
        roll = figure.add_subplot(1, 2, 1, projection="3d")
        roll.scatter(*train.X[:, [0, 2, 1]].T, c=shades, cmap="prism", s=1, linewidths=0)
        roll.view_init(12, -78)
        roll.set_axis_off()
        for row, (points, colors, title) in enumerate(
            ((Y, shades, "training points"), (placed, test.truth[:, 0], "new points"))
        ):
            axes = figure.add_subplot(2, 2, 2 + 2 * row)
            axes.scatter(*points.T, c=colors, cmap="turbo" if row else "prism", s=1, linewidths=0)
            axes.set_aspect("equal")
            axes.set_title(title, fontsize=9)


if __name__ == "__main__":
    main(tessera_roll)
