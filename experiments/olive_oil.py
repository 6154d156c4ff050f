"""Olive oil: the error of affine subspaces falls with their number, and locality costs LDLC little of it."""

from __future__ import annotations

import numpy as np

from clusterings import draw_lines, fitted, mean_error, standard
from harness import Lab, at_least, at_most, experiment, falling, main

METHODS = ("k-means", "k-medoids", "MPPCA", "VQPCA", "LDLC")
MOST = at_least(0.5, within=0, said="the majority")
NEARLY = at_most(1.1, within=0, said="almost as low")
N_CLUSTERS = tuple(range(1, 21))


@experiment(
    "Olive oil over the number of clusters", source="khajehpour2013, Fig. 4.7", needs=("olive_oil",), quick=True
)
def olive_oil(lab: Lab) -> None:
    X = standard(lab.load("olive_oil").X)
    counts = lab.pick(N_CLUSTERS, (2, 6, 12))
    error = {
        name: np.array([mean_error(fitted(lab, name, X, n_clusters=c, n_neighbors=10)) for c in counts])
        for name in METHODS
    }
    others = np.min([error[name] for name in METHODS if name not in ("VQPCA", "LDLC")], axis=0)
    lab.claim("error of LDLC as clusters grow in number", error["LDLC"], falling())
    lowest = np.mean(error["VQPCA"] <= np.minimum(error["LDLC"], others))
    lab.claim("share of counts at which VQPCA has the lowest error", lowest, MOST)
    second = np.mean(error["LDLC"] <= others)
    lab.claim("share of counts at which only VQPCA is below LDLC", second, MOST)
    lab.claim("error of LDLC over that of VQPCA, mean", np.mean(error["LDLC"] / error["VQPCA"]), NEARLY)
    lab.note(
        "Columns have variance one. In percent two claims fail: LDLC has 1.4 times VQPCA's error, MPPCA no more "
        "than LDLC."
    )
    with lab.figure() as figure:
        axes = figure.subplots()
        draw_lines(axes, counts, error, ("number of clusters", "error per point, best start"))
        axes.set_yscale("log")


if __name__ == "__main__":
    main(olive_oil)
