"""A holed sheet rolled up at both ends, by ten methods: single points stretched apart, and maps for new ones."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from harness import Lab, experiment, main
from layouts import UNFOLDED, draw_layouts, error, onto, scales_changed
from manifoldry import LLE, LPP, LTSA, MVU, PCA, Isomap, KernelLPP, KernelPCA, LinearLTSA, TesseraMap, datasets, metrics
from rules import about, at_least, at_most

WIDTH, SIGMA = 2.0, 0.5
GRAPH = {"n_neighbors": 6, "radius": 0.55}
"""The sheets of the spirals are 0.6 apart: no neighbor may be farther."""
COLLAPSED = 0.1
"""Neighbors nearer than this share of the median, in units of their true distance, have collapsed."""
CHOSEN = (
    "350 points taken evenly of 5000, farthest first, and no neighbor beyond 0.55 were chosen to show the picture: "
    "drawn at random they leave gaps as wide as the distance between sheets"
)
FAILED = {
    "PCA": "failed to unfold",
    "LinearLTSA": "failed to unfold",
    "LPP": "failed to unfold",
    "KernelPCA": "not a proper embedding",
    "KernelLPP": "not a proper embedding",
}
CANNOT_BE = "cannot be appropriate"


@experiment("The dual spiral keeps its width around a hole", source="khajehpour2013, Fig. 3.1-3.2", seeds=5)
def dual_spiral(lab: Lab) -> None:
    X, truth = _even(datasets.dual_spiral(5000, random_state=2 * lab.seed), 350)
    test = datasets.dual_spiral(5000, random_state=2 * lab.seed + 1)
    models = {
        "TesseraMap": TesseraMap(clustering="none", gamma=SIGMA**-2, **GRAPH),
        "MVU": MVU(**GRAPH),
        "Isomap": Isomap(**GRAPH),
        "LTSA": LTSA(isometric=False, **GRAPH),
        "LLE": LLE(**GRAPH),
        "PCA": PCA(n_components=2),
        "LPP": LPP(**GRAPH),
        "LinearLTSA": LinearLTSA(**GRAPH),
        "KernelPCA": KernelPCA(gamma=SIGMA**-2),
        "KernelLPP": KernelLPP(gamma=SIGMA**-2, **GRAPH),
    }
    for name, model in models.items():
        with lab.time(name):
            model.fit(X)
    layouts = {name: model.embedding_ for name, model in models.items()}
    with lab.fitted(CHOSEN):
        _judge(lab, layouts, truth)
        placed = onto(layouts["TesseraMap"], truth)(models["TesseraMap"].transform(test.X))
        _judge_new(lab, models, placed, test)
    lab.claim("seconds of a core", lab.core_seconds["TesseraMap"], at_most(57))
    certificate = models["TesseraMap"].certificate_
    lab.note(f"TesseraMap: gap of the certificate {certificate.gap:.2g}, rank {certificate.rank}.")
    lab.note("Rigid errors: " + ", ".join(f"{name} {error(Y, truth):.3g}" for name, Y in layouts.items()))
    with lab.figure("training", size=(16, 2.4)) as figure:
        draw_layouts(figure, layouts, truth[:, 0], "turbo")
    with lab.figure("new", size=(6, 3)) as figure:
        draw_layouts(figure, {"TesseraMap, new points": placed}, test.truth[:, 0], "turbo")


def _judge(lab: Lab, layouts: dict, truth: np.ndarray) -> None:
    for name, said in (("TesseraMap", "completely conformal"), ("MVU", "has unfolded the manifold as well")):
        lab.claim(f"rigid error of {name}", error(layouts[name], truth), at_most(UNFOLDED, said))
    lab.claim("width of TesseraMap", _width(layouts["TesseraMap"], truth), about(WIDTH))
    alike = error(layouts["MVU"], layouts["TesseraMap"])
    lab.claim("rigid distance of MVU's layout to TesseraMap's", alike, at_most(UNFOLDED, "a similar result"))
    for name, said in FAILED.items():
        lab.claim(f"affine error of {name}", error(layouts[name], truth, "affine"), at_least(UNFOLDED, said))
    lab.claim("width of Isomap", _width(layouts["Isomap"], truth), about(4.0, "4 instead of 2", within=0.25))
    better = error(layouts["Isomap"], truth, "affine") / error(layouts["LLE"], truth, "affine")
    lab.claim("affine error of Isomap over that of LLE", better, at_most(1.0, "relatively better"))
    collapsed = _collapsed(layouts["LLE"], truth)
    lab.claim("share of points collapsed by LLE", collapsed, at_least(0.05, "collapsed segments of the manifold"))
    kept = metrics.trustworthiness(truth, layouts["LTSA"], n_neighbors=6)
    lab.claim("trustworthiness of LTSA on the sheet", kept, at_least(0.95, "meaningful"))
    changed = scales_changed(layouts["LTSA"], truth)
    lab.claim("scales of LTSA, one axis over the other", changed, at_least(1.25, "has not preserved the scales"))


def _judge_new(lab: Lab, models: dict, placed: np.ndarray, test: datasets.Dataset) -> None:
    lab.claim("width of TesseraMap, new points", float(np.ptp(placed[:, 1])), about(WIDTH))
    same = at_most(UNFOLDED, "the same quality as the training set")
    lab.claim("rigid error of TesseraMap, new points", error(placed, test.truth), same)
    lab.claim("share of new points in the inner half of the hole", _in_hole(placed, test.truth), at_most(0.0, "a hole"))
    for name in ("PCA", "LPP", "LinearLTSA", "KernelPCA", "KernelLPP"):
        off = error(models[name].transform(test.X), test.truth, "affine")
        lab.claim(f"affine error of {name}, new points", off, at_least(UNFOLDED, CANNOT_BE))


def _width(Y: np.ndarray, truth: np.ndarray) -> float:
    return float(np.ptp(onto(Y, truth)(Y)[:, 1]))


def _collapsed(Y: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of points whose neighbors on the sheet lie much nearer in Y than neighbors do in the median."""
    lengths, near = cKDTree(truth).query(truth, k=7)
    ratios = (np.linalg.norm(Y[near[:, 1:]] - Y[:, None], axis=2) / lengths[:, 1:]).mean(axis=1)
    return float((ratios < COLLAPSED * np.median(ratios)).mean())


def _in_hole(placed: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of points within half of the hole's half-widths of its center, which the truth leaves empty."""
    center = (truth.max(axis=0) + truth.min(axis=0)) / 2
    away = np.abs(truth - center)
    half = np.array([away[away[:, 1 - axis] < 0.05 * np.ptp(truth[:, 1 - axis]), axis].min() for axis in (0, 1)])
    return float((np.abs(placed - center) < half / 2).all(axis=1).mean())


def _even(data: datasets.Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and truth of a subset, each point the farthest from those before."""
    chosen, away = [0], np.linalg.norm(data.X - data.X[0], axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, np.linalg.norm(data.X - data.X[chosen[-1]], axis=1))
    return data.X[chosen], data.truth[chosen]


if __name__ == "__main__":
    main(dual_spiral)
