"""A Swiss roll learned from 50 points: the map of EAT against reconstruction by neighbors."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_most, equals, experiment, main
from manifoldry import EAT, MVU, Isomap, datasets
from v_shape import error, thinned

N_NEIGHBORS, WIDTH = 3, 2.5
HEIGHT = 8.0


@experiment("The Swiss roll from 50 points, and 950 others mapped", source="khajehpour2013, Fig. 2.3", quick=True)
def eat_roll(lab: Lab) -> None:
    roll = datasets.swiss_roll(1000, height=HEIGHT)
    train = thinned(roll.X, 50)
    test = np.setdiff1d(np.arange(1000), train)
    lab.claim("training points", len(train), equals(50))
    X = roll.X[train]
    local = EAT(n_neighbors=N_NEIGHBORS).fit(X).diagnostics_["gamma"]
    models = {
        "EAT": EAT(gamma=local / WIDTH**2, n_neighbors=N_NEIGHBORS),
        "MVU": MVU(n_neighbors=N_NEIGHBORS),
        "Isomap": Isomap(n_neighbors=N_NEIGHBORS),
    }
    fitted = {name: model.fit(X) for name, model in models.items()}
    placed = {name: model.transform(roll.X[test]) for name, model in fitted.items()}
    learned = {name: error(model.embedding_, roll.truth[train]) for name, model in fitted.items()}
    others = {name: error(Y, roll.truth[test]) for name, Y in placed.items()}
    lab.claim("rigid error of EAT's training points", learned["EAT"], at_most(0.15, within=0, said="unfolded"))
    lab.claim("rigid error of its new points", others["EAT"], at_most(0.15, within=0, said="faithful"))
    lab.claim("the same over Isomap's", others["EAT"] / others["Isomap"], at_most(1.0))
    if not lab.quick:
        lab.claim(
            "the same over MVU's",
            others["EAT"] / others["MVU"],
            at_most(1.0),
            reason="MVU's layout of the 50 points is nearer to the truth here, and new points follow it",
        )
    lab.claim("EAT's gap to the most stretch", fitted["EAT"].certificate_.gap, at_most(1e-5, within=0, said="global"))
    for name in models:
        lab.note(f"{name}: rigid error {learned[name]:.3f} of the 50, {others[name]:.3f} of the 950.")
    lab.note(
        f"A roll of height {HEIGHT:g}, {N_NEIGHBORS} neighbors, gamma = 1/s^2, s {WIDTH:g} mean neighbor distances: "
        "none is stated, and on a higher roll 50 points have neighbors across the windings."
    )
    with lab.figure(size=(9.6, 4.8)) as figure:
        for column, name in zip(figure.subplots(2, 3).T, models, strict=True):
            rows = ((fitted[name].embedding_, train), (placed[name], test))
            for axes, (Y, which) in zip(column, rows, strict=True):
                axes.scatter(*Y.T, c=roll.truth[which, 0], s=6, linewidths=0)
                axes.set_aspect("equal")
            column[0].set_title(name)


if __name__ == "__main__":
    main(eat_roll)
