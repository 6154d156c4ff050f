"""Digits 3, 6, 9 by TesseraMap: 3000 images without labels, then all 20,975."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from harness import Lab, experiment, main
from layouts import draw_layouts, told_apart
from manifoldry import TesseraMap
from rules import at_least, at_most, equals

DIGITS = (3, 6, 9)
N_EACH, N_TESSERAE, N_NEIGHBORS = 1000, 19, 15
CLEAR = at_least(0.9, "clearly separated, only a few misplaced")


@experiment("MNIST 3, 6, 9 by TesseraMap", source="khajehpour2013, Fig. 3.7-3.8 and Table 3.1", needs=("mnist",))
def digits_tesserae(lab: Lab) -> None:
    data = lab.load("mnist")
    rows = np.flatnonzero(np.isin(data.labels, DIGITS))
    images, labels = data.X / 255, np.asarray(data.labels)
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.choice(np.flatnonzero(labels == digit), N_EACH, replace=False) for digit in DIGITS])
    X, y = images[chosen], labels[chosen]
    lab.claim("images of the three digits", len(rows), equals(20_975))
    models = {}
    for r in (2, 3):
        with lab.time(f"{r}-D"):
            models[r] = _fitted(X, r)
        share = told_apart(models[r].embedding_, y, N_NEIGHBORS)
        lab.claim(f"{r}-D: share of images told apart by {N_NEIGHBORS} neighbors", share, CLEAR)
    lab.claim("seconds of a core, 2-D", lab.core_seconds["2-D"], at_most(6.0))
    placed = models[2].transform(images[rows])
    share = KNeighborsClassifier(N_NEIGHBORS).fit(models[2].embedding_, y).score(placed, labels[rows])
    lab.claim("2-D: all 20,975 told apart by the 3000", share, CLEAR)
    lab.note(f"Certificate gap {models[2].certificate_.gap:.1e} in 2-D, {models[3].certificate_.gap:.1e} in 3-D.")
    with lab.figure("training", size=(10, 4)) as figure:
        draw_layouts(figure, {f"{r}-D": model.embedding_ for r, model in models.items()}, y, "tab10")
    with lab.figure("all", size=(6, 5)) as figure:
        draw_layouts(figure, {"all images": placed}, labels[rows], "tab10")


def _fitted(X: np.ndarray, n_components: int) -> TesseraMap:
    return TesseraMap(n_components=n_components, n_patches=N_TESSERAE, n_neighbors=8, kernel="rbf").fit(X)


if __name__ == "__main__":
    main(digits_tesserae)
