"""Each of the ten digits alone by TesseraMap."""

from __future__ import annotations

import numpy as np

from harness import Lab, equals, experiment, main
from manifoldry import PCA, TesseraMap, quality

N_PER_DIGIT = 600


@experiment("Ten digits, each alone, by TesseraMap", source="khajehpour2013, Fig. 3.6", needs=("mnist",))
def ten_digits(lab: Lab) -> None:
    data = lab.load("mnist")
    labels = np.asarray(data.labels)
    kept, linear, layouts = [], [], []
    for digit in range(10):
        X = data.X[np.flatnonzero(labels == digit)[:N_PER_DIGIT]] / 255
        Y = TesseraMap(n_components=2, n_patches=10, n_neighbors=6).fit_transform(X)
        layouts.append(Y)
        kept.append(quality.trustworthiness(X, Y, n_neighbors=12))
        linear.append(quality.trustworthiness(X, PCA(n_components=2).fit_transform(X), n_neighbors=12))
    finite = all(np.isfinite(Y).all() for Y in layouts)
    lab.claim("digits unfolded", 10 if finite else 0, equals(10))
    lab.note("trustworthiness: " + " ".join(f"{value:.3f}" for value in kept))
    lab.note("of PCA: " + " ".join(f"{value:.3f}" for value in linear))
    with lab.figure(size=(10, 4)) as figure:
        for digit, axes in enumerate(figure.subplots(2, 5).ravel()):
            axes.scatter(*layouts[digit].T, s=2, linewidths=0)
            axes.set_title(str(digit), fontsize=9)
            axes.set_axis_off()


if __name__ == "__main__":
    main(ten_digits)
