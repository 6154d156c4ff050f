"""Frey faces: how many clusters fall into several parts of the neighbor graph."""

from __future__ import annotations

import numpy as np

from clusterings import draw_lines, fitted
from harness import Lab, at_least, at_most, experiment, main

N_CLUSTERS = tuple(range(2, 11))
SOURCE_NONLOCALIZED = {
    "MPPCA": (1, 0, 1, 0, 1, 0, 1, 1, 2),
    "VQPCA": (1, 2, 0, 1, 2, 2, 0, 5, 5),
    "rho 0.01": (0, 0, 0, 0, 0, 1, 1, 1, 0),
    "rho 0.05": (0, 0, 0, 0, 0, 1, 0, 1, 0),
    "rho 0.10": (0, 0, 0, 0, 0, 0, 0, 0, 0),
}

WHY_OTHER_COUNTS = (
    "it hangs on which 500 images and how many neighbors: four random draws have 4 to 9 in all at rho 0.01, 1 to 2 at "
    "0.05 and 0 to 1 at 0.10; with 8 neighbors instead of 6 one of them has none at 0.01"
)


@experiment("Frey faces: clusters in several parts", source="khajehpour2013, Table 4.3", needs=("frey_faces",))
def frey_locality(lab: Lab) -> None:
    faces = lab.load("frey_faces").X
    X = faces[np.sort(np.random.default_rng(0).choice(len(faces), 500, replace=False))]
    parts = {}
    for row in SOURCE_NONLOCALIZED:
        method, rho = ("LDLC", float(row.split()[1])) if row.startswith("rho") else (row, None)
        models = [fitted(lab, method, X, n_clusters=c, n_components=2, n_neighbors=6, rho=rho) for c in N_CLUSTERS]
        parts[row] = [model.n_nonlocalized_ for model in models]
    for row, source in SOURCE_NONLOCALIZED.items():
        rule = at_most(sum(source), within=0) if row.startswith("rho") else at_least(sum(source), within=0)
        lab.claim(
            f"{row}: clusters in several parts, over 2 to 10 clusters", sum(parts[row]), rule, reason=WHY_OTHER_COUNTS
        )
    with lab.figure() as figure:
        draw_lines(figure.subplots(), N_CLUSTERS, parts, ("number of clusters", "of them in several parts"))


if __name__ == "__main__":
    main(frey_locality)
