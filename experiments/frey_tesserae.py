"""Frey faces by TesseraMap with a linear kernel: half of the images, then the other half as new ones."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, at_most, experiment, main
from manifoldry import TesseraMap, quality

TRAIN, TESSERAE = 965, 36


@experiment("Frey faces by TesseraMap", source="khajehpour2013, Fig. 3.5", needs=("frey_faces",))
def frey_tesserae(lab: Lab) -> None:
    X = lab.load("frey_faces").X
    X = X[np.random.default_rng(0).permutation(len(X))]
    with lab.time("fit"):
        model = TesseraMap(n_components=2, n_patches=TESSERAE, n_neighbors=6, kernel="linear").fit(X[:TRAIN])
    placed = model.transform(X[TRAIN:])
    lab.claim("seconds for 965 images", lab.seconds["fit"], at_most(4.0))
    both = np.vstack([model.embedding_, placed])
    shuffled = both[np.random.default_rng(1).permutation(len(both))]
    kept, chance = (quality.trustworthiness(X, Y, n_neighbors=12) for Y in (both, shuffled))
    lab.claim("trustworthiness of all, over that of shuffled places", kept / chance, at_least(1.3, within=0))
    lab.note(f"trustworthiness {kept:.3f}; error {model.error_:.3g}, certificate gap {model.certificate_.gap:.1e}")
    with lab.figure(size=(6, 6)) as figure:
        axes = figure.subplots()
        axes.scatter(*model.embedding_.T, s=5, label="old")
        axes.scatter(*placed.T, s=5, label="new")
        axes.legend()


if __name__ == "__main__":
    main(frey_tesserae)
