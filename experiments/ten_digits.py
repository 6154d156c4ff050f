"""Each of the ten digits alone by TesseraMap."""

from __future__ import annotations

import numpy as np

from harness import Lab, experiment, main
from manifoldry import PCA, TesseraMap, metrics
from rules import equals, shown

N_PER_DIGIT = 600


@experiment("Ten digits, each alone, by TesseraMap", source="khajehpour2013, Fig. 3.6", needs=("mnist",))
def ten_digits(lab: Lab) -> None:
    data = lab.load("mnist")
    labels = np.asarray(data.labels)
    kept, linear, layouts = [], [], []
    for digit in range(10):
        X = data.X[np.flatnonzero(labels == digit)[:N_PER_DIGIT]] / 255
        layouts.append(TesseraMap(n_components=2, n_patches=10, n_neighbors=6).fit_transform(X))
        kept.append(metrics.trustworthiness(X, layouts[-1], n_neighbors=12))
        linear.append(metrics.trustworthiness(X, PCA(n_components=2).fit_transform(X), n_neighbors=12))
    better = sum(ours >= flat for ours, flat in zip(kept, linear, strict=True))
    lab.claim("digits whose neighbors are kept at least as well as by PCA", better, equals(10, "all ten are unfolded"))
    lab.note(f"Trustworthiness: {shown(kept)}; of PCA: {shown(linear)}. The source shows pictures and states no sizes.")
    with lab.figure(size=(10, 4)) as figure:
        for digit, axes in enumerate(figure.subplots(2, 5).ravel()):
            axes.scatter(*layouts[digit].T, s=2, linewidths=0)
            axes.set_title(str(digit), fontsize=9)
            axes.set_axis_off()


if __name__ == "__main__":
    main(ten_digits)
