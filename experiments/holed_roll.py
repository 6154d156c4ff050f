"""The holed Swiss roll on a grid of 700 points, by seven methods: the shape of the hole, and neighborhoods kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Lab, Reason, experiment, main
from layouts import MEASURES, UNFOLDED, curves, draw_curves, draw_layouts, error, scales_changed
from manifoldry import IPA, LLE, LTSA, MVU, TSNE, Isomap, TesseraMap, datasets
from rules import Rule, at_least, at_most, least

SIZES = np.arange(1, 101)
ORDER = ("IPA", "TesseraMap", "t-SNE", "Isomap", "MVU", "LLE", "LTSA")
"""From best to worst by the source."""
FEW = 4
FEWER = f"the source states no neighbors, and {FEW} of them leave the squares of the grid loose to MVU; with them"
STRAIGHT = 0.1
"""A side of the hole bulging by this share of its length: half of what the quarter of a circle has."""


@experiment("Neighborhoods kept on the holed roll, k = 1..100", source="khajehpour2013, Fig. 5.2-5.3")
def holed_roll(lab: Lab) -> None:
    roll = datasets.swiss_roll(700, hole=True, grid=True)
    methods = {
        "IPA": IPA(),
        "TesseraMap": TesseraMap(),
        "t-SNE": TSNE(),
        "Isomap": Isomap(n_neighbors=8),
        "MVU": MVU(n_neighbors=8),
        "LLE": LLE(n_neighbors=8),
        "LTSA": LTSA(n_neighbors=8, isometric=False),
    }
    layouts = {name: method.fit_transform(roll.X) for name, method in methods.items()}
    found = {name: curves(roll.X, Y, SIZES) for name, Y in layouts.items()}
    loose = MVU(n_neighbors=FEW).fit_transform(roll.X)
    _judge_shapes(lab, layouts, loose, np.asarray(roll.truth))
    of_loose = curves(roll.X, loose, SIZES)
    for measure, words in MEASURES.items():
        means = {name: float(curve[measure].mean()) for name, curve in found.items()}
        _judge_errors(lab, words, means, means | {"MVU": float(of_loose[measure].mean())})
    knn = found["IPA"]["knn_error"]
    lab.claim("KNN intersection error of IPA, k = 100 over k = 50", float(knn[99] / knn[49]), at_least(1.0, "increase"))
    scaled = curves(roll.X, LTSA(n_neighbors=8).fit_transform(roll.X), SIZES)
    values = ", ".join(f"{words} {scaled[measure].mean():.4f}" for measure, words in MEASURES.items())
    lab.note(f"LTSA brought to true scale, which the source does not have: {values}. Eight neighbors, not stated.")
    with lab.figure("layouts", size=(16, 2.6)) as figure:
        draw_layouts(figure, layouts, roll.truth[:, 0])
    with lab.figure("measures", size=(12, 3.2)) as figure:
        draw_curves(figure, SIZES, found)


def _judge_shapes(lab: Lab, layouts: dict, loose: np.ndarray, truth: np.ndarray) -> None:
    for name in ("MVU", "Isomap", "t-SNE"):
        round_hole = at_least(STRAIGHT, "circular or elliptical hole")
        few = Reason(FEWER, lambda: _bulge(loose, truth), round_hole) if name == "MVU" else None
        lab.claim(f"{name}: bulge of the hole's sides", _bulge(layouts[name], truth), round_hole, reason=few)
    for name in ("LTSA", "LLE"):
        lab.claim(f"{name}: bulge of the hole's sides", _bulge(layouts[name], truth), at_most(STRAIGHT, "rectangular"))
        changed = scales_changed(layouts[name], truth)
        lab.claim(f"{name}: one axis stretched over the other", changed, at_least(1.25, "changed the scales"))
    lab.claim("IPA: bulge of the hole's sides", _bulge(layouts["IPA"], truth), at_most(STRAIGHT, "rectangular hole"))
    lab.claim("IPA: rigid error", error(layouts["IPA"], truth), at_most(UNFOLDED, "preserving the pattern"))


def _judge_errors(lab: Lab, words: str, means: dict[str, float], with_few: dict[str, float]) -> None:
    """Judge a measure, by method; ``with_few`` has the same numbers and MVU's with few neighbors."""

    def claim(what: str, of: Callable[[dict[str, float]], Any], rule: Rule) -> None:
        lab.claim(f"{words}: {what}", of(means), rule, reason=Reason(FEWER, lambda: of(with_few), rule))

    in_this_order = Rule(
        ", ".join(ORDER), "the same order", lambda ours: sorted(ours, key=lambda name: ours[name]) == list(ORDER)
    )
    claim("the order of all, mean over k", lambda of: of, in_this_order)
    claim("best", lambda of: of, least("IPA", "IPA (best)"))
    less = at_most(0.9, "significantly less than the errors of the other methods")
    claim("worse of IPA and TesseraMap over the best of the others", _over_others, less)
    claim("t-SNE, Isomap and MVU, largest over least", _spread, at_most(1.25, "very similar"))
    ratio = means["IPA"] / means["TesseraMap"]
    slightly, similar = at_most(1.0, "IPA slightly better"), Rule("similar qualities", "0.8 to 1.25", _similar)
    lab.claim(f"{words}: IPA over TesseraMap", ratio, slightly if words.startswith("KNN") else similar)


def _similar(ratio: float) -> bool:
    return 0.8 <= ratio <= 1.25


def _over_others(means: dict[str, float]) -> float:
    others = min(value for name, value in means.items() if name not in ("IPA", "TesseraMap"))
    return max(means["IPA"], means["TesseraMap"]) / others


def _spread(means: dict[str, float]) -> float:
    alike = [means[name] for name in ("t-SNE", "Isomap", "MVU")]
    return max(alike) / min(alike)


def _bulge(Y: np.ndarray, truth: np.ndarray) -> float:
    """Return by how much the sides of the hole bulge, the mean of the four: largest deviation from a chord over it."""
    return float(np.mean([_off_chord(Y[side]) for side in _sides(truth)]))


def _sides(truth: np.ndarray) -> list[np.ndarray]:
    """Return the grid's points along each side of the hole, in order: those next to the gap in a row or a column."""
    columns, rows = (np.unique(truth[:, axis].round(6)) for axis in (0, 1))
    a, b = (np.searchsorted(v, truth[:, axis].round(6)) for axis, v in ((0, columns), (1, rows)))
    place = np.full((len(columns), len(rows)), -1)
    place[a, b] = np.arange(len(truth))
    empty = np.argwhere(place < 0)
    (a0, b0), (a1, b1) = empty.min(axis=0), empty.max(axis=0)
    across, along = slice(b0 - 1, b1 + 2), slice(a0 - 1, a1 + 2)
    return [place[a0 - 1, across], place[a1 + 1, across], place[along, b0 - 1], place[along, b1 + 1]]


def _off_chord(points: np.ndarray) -> float:
    chord = points[-1] - points[0]
    away = points - points[0]
    off = np.abs(away[:, 0] * chord[1] - away[:, 1] * chord[0]) / np.linalg.norm(chord)
    return float(off.max() / np.linalg.norm(chord))


if __name__ == "__main__":
    main(holed_roll)
