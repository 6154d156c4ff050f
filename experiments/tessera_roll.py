"""Thirty thousand points of a Swiss roll as a mosaic of a hundred tesserae, and twenty thousand new ones."""

from __future__ import annotations

import numpy as np

from harness import Lab, Reason, experiment, main
from layouts import UNFOLDED, error, onto
from manifoldry import FastMVU, TesseraMap, datasets
from rules import Rule, about, at_least, at_most, no_less, no_more

WIDTH, N_TESSERAE = 20.0, 108
SECONDS = {"TesseraMap": 118.0, "FastMVU": 174.0}
SLICES = 20
"""Parts of the length of the roll of which the width is measured."""


@experiment("A large Swiss roll as a mosaic", source="khajehpour2013, Fig. 3.3 and Table 3.1", quick=True)
def tessera_roll(lab: Lab) -> None:
    train = datasets.swiss_roll(lab.pick(30_000, 3000), height=WIDTH)
    test = datasets.swiss_roll(lab.pick(20_000, 2000), height=WIDTH, random_state=1)
    with lab.time("TesseraMap"):
        model = TesseraMap(n_patches=lab.pick(N_TESSERAE, 30)).fit(train.X)
    placed = model.transform(test.X)
    move = onto(model.embedding_, train.truth)
    for name, Y, truth in (("training", model.embedding_, train.truth), ("new", placed, test.truth)):
        lab.claim(f"width of the {name} points", float(np.ptp(move(Y)[:, 1])), about(WIDTH))
        lab.claim(f"rigid error of the {name} points", error(Y, truth), at_most(UNFOLDED, "a rolled rectangle"))
    with lab.time("FastMVU"):
        fast = FastMVU(n_components=2).fit(train.X)
    _judge_fast(lab, fast.embedding_, model.embedding_, train)
    if not lab.quick:
        for name, taken in lab.core_seconds.items():
            lab.claim(f"seconds of a core, {name}", taken, at_most(SECONDS[name]))
        ratio = lab.core_seconds["FastMVU"] / lab.core_seconds["TesseraMap"]
        lab.claim("seconds of FastMVU over those of TesseraMap", ratio, at_least(1.0, "longer"))
        lab.target("seconds of a core, TesseraMap", lab.core_seconds["TesseraMap"], no_more(10.0))
        _flat_and_larger(lab, train)
    lab.note(
        f"{model.n_patches_} tesserae of k-means; stretch {model.stretch_:.4g}, rank {model.certificate_.rank}, "
        f"certificate gap {model.certificate_.gap:.2g}; rigid error {error(model.embedding_, train.truth):.2g}, of "
        f"FastMVU {error(fast.embedding_, train.truth):.2g}."
    )
    _draw(lab, train, model, move(model.embedding_), move(placed), test)


def _judge_fast(lab: Lab, Y: np.ndarray, tesserae: np.ndarray, train: datasets.Dataset) -> None:
    widths = _widths(Y, train.truth)
    between = Rule("between 2 and 8", "all within 2 and 8", lambda ours: min(ours) >= 2 and max(ours) <= 8)
    coarse = Reason(
        "the source's Fast MVU did not fine-tune its result; rigid error of ours without the descent that ends it",
        lambda: error(FastMVU(n_components=2, max_iter=0).fit(train.X).embedding_, train.truth),
        no_less(UNFOLDED),
    )
    lab.claim("FastMVU: width along the roll, least and most", [min(widths), max(widths)], between, reason=coarse)
    off = error(Y, train.truth)
    lab.claim("FastMVU: rigid error", off, at_least(UNFOLDED, "has not captured its rectangular shape"), reason=coarse)
    ratio = off / error(tesserae, train.truth)
    lab.claim("FastMVU: rigid error over that of TesseraMap", ratio, at_least(1.0, "superiority of TesseraMap"))


def _widths(Y: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return the widths of the layout in slices across the length of the roll."""
    aligned = onto(Y, truth)(Y)
    place = np.minimum((SLICES * (truth[:, 0] - truth[:, 0].min()) / np.ptp(truth[:, 0])).astype(int), SLICES - 1)
    return [float(np.ptp(aligned[place == part, 1])) for part in range(SLICES)]


def _flat_and_larger(lab: Lab, train: datasets.Dataset) -> None:
    """Tell what principal directions alone leave, as in the source, and the time of fifty thousand points."""
    flat = TesseraMap(n_patches=N_TESSERAE, chart="flat").fit(train.X)
    off = error(flat.embedding_, train.truth)
    lab.claim("rigid error with flat tesserae, as the source's", off, at_most(UNFOLDED, "a rolled rectangle"))
    larger = datasets.swiss_roll(50_000, height=WIDTH)
    with lab.time("larger"):
        TesseraMap(n_patches=N_TESSERAE).fit(larger.X)
    lab.claim("seconds of a core, 50,000 points", lab.core_seconds["larger"], at_most(600, "less than ten minutes"))
    lab.target("seconds of a core, 50,000 points", lab.core_seconds["larger"], no_more(20.0))


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
