"""The holed Swiss roll on a grid of 700 points: which method keeps neighborhoods best."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_most, equals, experiment, main
from manifoldry import IPA, LLE, LTSA, TSNE, Isomap, datasets, quality

SIZES = np.arange(1, 101)
MEASURES = {"knn_error": "KNN intersection error", "mrre_x": "MRRE of X", "mrre_y": "MRRE of Y"}


@experiment("Neighborhoods kept on the holed roll, k = 1..100", source="khajehpour2013, Fig. 5.2-5.3", quick=True)
def holed_roll(lab: Lab) -> None:
    roll = datasets.swiss_roll(700, hole=True, grid=True)
    methods = {
        "IPA": IPA(),
        "t-SNE": TSNE(),
        "Isomap": Isomap(n_neighbors=8),
        "LLE": LLE(n_neighbors=8),
        "LTSA": LTSA(n_neighbors=8, isometric=False),
    }
    layouts = {name: method.fit_transform(roll.X) for name, method in methods.items()}
    curves = {name: _curves(roll.X, Y) for name, Y in layouts.items()}
    for measure, words in MEASURES.items():
        means = {name: float(curve[measure].mean()) for name, curve in curves.items()}
        lab.claim(f"{words}: best", min(means, key=means.get), equals("IPA"))
        lab.note(f"{words}, mean over k: " + ", ".join(f"{name} {value:.4f}" for name, value in means.items()))
    error = float(np.sqrt(quality.procrustes(layouts["IPA"], roll.truth).error))
    lab.claim("rigid error of IPA to the true coordinates", error, at_most(0.01, within=0))
    _draw(lab, roll, layouts, curves)


def _curves(X: np.ndarray, Y: np.ndarray) -> dict:
    found = quality.rank_measures(X, Y, n_neighbors=SIZES)
    return {measure: np.asarray(getattr(found, measure)) for measure in MEASURES}


def _draw(lab: Lab, roll: datasets.Dataset, layouts: dict, curves: dict) -> None:
    with lab.figure("layouts", size=(12, 2.6)) as figure:
        for axes, (name, Y) in zip(figure.subplots(1, len(layouts)), layouts.items(), strict=True):
            axes.scatter(*Y.T, c=roll.truth[:, 0], s=4, linewidths=0)
            axes.set_title(name, fontsize=9)
            axes.set_axis_off()
    with lab.figure("measures", size=(12, 3.2)) as figure:
        for axes, (measure, words) in zip(figure.subplots(1, 3), MEASURES.items(), strict=True):
            for name, curve in curves.items():
                axes.plot(SIZES, curve[measure], label=name)
            axes.set_title(words, fontsize=9)
            axes.set_xlabel("neighbors")
        axes.legend(fontsize=8)


if __name__ == "__main__":
    main(holed_roll)
