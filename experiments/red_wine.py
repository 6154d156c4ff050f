"""Red wine: the error of affine subspaces, and the time to find them, over their dimension."""

from __future__ import annotations

import numpy as np

from clusterings import draw_lines, fitted, mean_error, single_starts, standard
from harness import Lab, experiment, main
from rules import at_least, at_most, falling, least

METHODS = ("MPPCA", "VQPCA", "LDLC")
RANKS = tuple(range(1, 11))
LOW, HIGH = slice(0, 3), slice(6, None)
"""Ranks 1 to 3 and 7 to 10: where the source speaks of small and high target dimensions."""
NEIGHBORS = (5, 8, 15, 30)
N_STARTS = 10
"""Of the source's hundred: enough for a mean."""
N_REDS = 1599
"""The red wines are the first rows."""

TRIED = (
    "LDLC connects its clusters in every start, which the source does not do, and two claims failed since. With ten "
    "starts, one takes 0.21 s of a core at rank 2 and 0.20 s at rank 8, of Algorithm 4 alone 0.040 s and 0.039 s, of "
    "VQPCA 0.020 s and 0.024 s. Over 5 to 30 neighbors the errors of Algorithm 4 alone differ by 1.067, not 1.136."
)


@experiment("Red wine over the rank", source="khajehpour2013, Fig. 4.8 and 4.9", needs=("wine_quality",))
def red_wine(lab: Lab) -> None:
    X = standard(lab.load("wine_quality").X[:N_REDS])
    error: dict[str, list[float]] = {name: [] for name in METHODS}
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    for rank in RANKS:
        for name in METHODS:
            settings = {"n_clusters": 10, "n_components": rank, "n_neighbors": 8}
            models = single_starts(lab, name, X, N_STARTS, **settings)
            error[name].append(float(np.mean([mean_error(model) for model in models])))
            # Neighbors and geodesics are found once for all starts, so seconds are those of several at once.
            fitted(lab, name, X, n_init=N_STARTS, **settings)
            seconds[name].append(lab.core_seconds[name])
    with lab.fitted(
        "columns of variance one, a scaling that the source does not state: as measured, two of eleven columns hold "
        "nearly all the variance, and LDLC's error is 3.6 times MPPCA's at ranks 7 to 10"
    ):
        for name in METHODS:
            lab.claim(f"mean error of {name} as the rank grows", error[name], falling("decreases"))
        last = {name: values[-1] for name, values in error.items()}
        lab.claim("mean error at rank 10", last, least("VQPCA", "the performance of VQPCA is superior"))
        for other in ("MPPCA", "LDLC"):
            ratio = float(np.divide(error[other], error["VQPCA"])[LOW].mean())
            lab.claim(f"error of {other} over that of VQPCA, ranks 1 to 3", ratio, at_most(1.0, "lower errors"))
            faster = float(np.divide(seconds[other], seconds["VQPCA"])[LOW].mean())
            lab.claim(f"seconds of {other} over those of VQPCA, ranks 1 to 3", faster, at_most(1.0, "faster"))
        ratio = float(np.divide(error["LDLC"], error["MPPCA"])[HIGH].mean())
        lab.claim("error of LDLC over that of MPPCA, ranks 7 to 10", ratio, at_most(1.0, "outperforms"))
        faster = float(np.divide(seconds["MPPCA"], seconds["LDLC"])[HIGH].mean())
        lab.claim("seconds of MPPCA over those of LDLC, ranks 7 to 10", faster, at_least(1.0, "outperforms"))
        alike = [_error(lab, X, k) for k in NEIGHBORS]
        words = f"{NEIGHBORS[0]} to {NEIGHBORS[-1]} neighbors: largest error of LDLC over least, rank 5"
        lab.claim(words, max(alike) / min(alike), at_most(1.1, "similar results"))
    lab.note(f"Means over {N_STARTS} single starts.")
    lab.note(TRIED)
    with lab.figure(size=(10, 4)) as figure:
        left, right = figure.subplots(1, 2)
        draw_lines(left, RANKS, error, ("rank", "error per point, mean of starts"))
        left.set_yscale("log")
        draw_lines(right, RANKS, seconds, ("rank", "seconds of a core, a start"))


def _error(lab: Lab, X: np.ndarray, n_neighbors: int) -> float:
    models = single_starts(lab, "LDLC", X, N_STARTS, n_clusters=10, n_components=5, n_neighbors=n_neighbors)
    return float(np.mean([mean_error(model) for model in models]))


if __name__ == "__main__":
    main(red_wine)
