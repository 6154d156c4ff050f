"""A Swiss roll learned from 50 points: the map of EAT against reconstruction by neighbors."""

from __future__ import annotations

import numpy as np

from harness import Lab, experiment, main
from layouts import UNFOLDED, error, onto, reconstructed, thinned
from manifoldry import EAT, LLE, MVU, Isomap, KernelPCA, datasets
from rules import at_least, at_most, equals, no_more

N_NEIGHBORS, WIDTH = 3, 2.5
HEIGHT = 8.0
BORDER = 0.1
"""Share of the length and of the height, at either end, that counts as border."""
CHOSEN = (
    f"a roll of height {HEIGHT:g}, {N_NEIGHBORS} neighbors and gamma = 1/s^2 with s {WIDTH:g} mean neighbor distances "
    "were chosen to show the picture; on a higher roll 50 points have neighbors across the windings"
)


@experiment(
    "The Swiss roll from 50 points, and 950 others mapped", source="khajehpour2013, Fig. 2.3", quick=True, seeds=5
)
def eat_roll(lab: Lab) -> None:
    roll = datasets.swiss_roll(1000, height=HEIGHT, random_state=lab.seed)
    train = thinned(roll.X, 50)
    test = np.setdiff1d(np.arange(1000), train)
    lab.claim("training points", len(train), equals(50))
    X, truth, others = roll.X[train], roll.truth[train], roll.X[test]
    local = EAT(n_neighbors=N_NEIGHBORS).fit(X).diagnostics_["gamma"]
    models = {
        "EAT": EAT(gamma=local / WIDTH**2, n_neighbors=N_NEIGHBORS).fit(X),
        "MVU": MVU(n_neighbors=N_NEIGHBORS).fit(X),
        "Isomap": Isomap(n_neighbors=N_NEIGHBORS).fit(X),
    }
    placed = {name: reconstructed(X, model.embedding_, others, N_NEIGHBORS) for name, model in models.items()}
    placed["EAT"] = models["EAT"].transform(others)
    off = {name: _off(models[name].embedding_, truth, Y, roll.truth[test]) for name, Y in placed.items()}
    border = _border(roll.truth[test])
    with lab.fitted(CHOSEN):
        learned = error(models["EAT"].embedding_, truth)
        lab.claim("rigid error of EAT's training points", learned, at_most(UNFOLDED, "unfolded"))
        lab.claim(
            "rigid error of EAT's new points", error(placed["EAT"], roll.truth[test]), at_most(UNFOLDED, "faithful")
        )
        for name in ("MVU", "Isomap"):
            more = {"at the border": border, "away from it": ~border}
            for words, rows in more.items():
                ratio = float(np.median(off[name][rows]) / np.median(off["EAT"][rows]))
                said = "not faithful, especially along its border" if rows is border else "not faithful"
                lab.claim(f"median error of {name}'s new points {words}, over EAT's", ratio, at_least(1.0, said))
    kernel = KernelPCA(n_components=2).fit_transform(roll.X)
    lab.claim(
        "affine error of kernel PCA, 1000 points", error(kernel, roll.truth, "affine"), at_least(UNFOLDED, "fails")
    )
    few, many = (LLE(n_neighbors=8).fit_transform(part) for part in (X, roll.X))
    lab.claim(
        "affine error of LLE, 50 points", error(few, truth, "affine"), at_least(UNFOLDED, "not on small data sets")
    )
    lab.claim(
        "affine error of LLE, 1000 points", error(many, roll.truth, "affine"), at_most(UNFOLDED, "generally good")
    )
    lab.target("EAT's gap to the most stretch", models["EAT"].certificate_.gap, no_more(1e-4))
    for name, model in models.items():
        words = (
            f"{error(model.embedding_, truth):.3f} of the 50, {error(placed[name], roll.truth[test]):.3f} of the 950"
        )
        lab.note(f"{name}: rigid error {words}.")
    with lab.figure(size=(9.6, 4.8)) as figure:
        for column, name in zip(figure.subplots(2, 3).T, models, strict=True):
            rows = ((models[name].embedding_, train), (placed[name], test))
            for axes, (Y, which) in zip(column, rows, strict=True):
                axes.scatter(*Y.T, c=roll.truth[which, 0], s=6, linewidths=0)
                axes.set_aspect("equal")
            column[0].set_title(name)


def _off(Y: np.ndarray, truth: np.ndarray, placed: np.ndarray, new_truth: np.ndarray) -> np.ndarray:
    """Return how far new points are from where they belong, after the fitted ones are laid on the truth."""
    return np.linalg.norm(onto(Y, truth)(placed) - new_truth, axis=1)


def _border(truth: np.ndarray) -> np.ndarray:
    share = (truth - truth.min(axis=0)) / np.ptp(truth, axis=0)
    return (np.minimum(share, 1 - share) < BORDER).any(axis=1)


if __name__ == "__main__":
    main(eat_roll)
