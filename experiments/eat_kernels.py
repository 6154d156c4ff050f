"""What the kernel does to EAT: ten polynomial degrees and ten widths, from full rank to hardly any."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, at_most, experiment, main, shown
from manifoldry import EAT, datasets
from v_shape import error

DEGREES = range(1, 11)
WIDTHS = (1 / 3, 1 / 2, 2 / 3, 1, 2, 3, 5, 10, 20, 50)
N_NEIGHBORS = 3
HEIGHT, UNIT = 8.0, 10.0


@experiment("Kernels of EAT on the Swiss roll", source="khajehpour2013, Fig. 2.7-2.8", quick=True)
def eat_kernels(lab: Lab) -> None:
    roll, new = datasets.swiss_roll(102, grid=True, height=HEIGHT), datasets.swiss_roll(1000, height=HEIGHT)
    X, truth, others, places = (rows / UNIT for rows in (roll.X, roll.truth, new.X, new.truth))
    unit = EAT(n_neighbors=N_NEIGHBORS).fit(X).diagnostics_["gamma"] ** -0.5
    poly = [EAT(kernel="poly", degree=p, n_neighbors=N_NEIGHBORS).fit(X) for p in DEGREES]
    rbf = [EAT(kernel="rbf", gamma=(w * unit) ** -2, n_neighbors=N_NEIGHBORS).fit(X) for w in WIDTHS]
    errors = {}
    for name, models in (("poly", poly), ("rbf", rbf)):
        learned = np.array([error(model.embedding_, truth) for model in models])
        placed = np.array([error(model.transform(others), places) for model in models])
        errors[name] = learned, placed
        ratios = [round(model.rank_ratio_, 2) for model in models]
        lab.note(f"{name}: rank over n - 1 {shown(ratios)}; errors {shown(learned)}; of new points {shown(placed)}.")
    learned, placed = errors["poly"]
    lab.claim("rigid error with degree 1", float(learned[0]), at_least(0.5, within=0, said="not unfolded"))
    if not lab.quick:
        variances = poly[1].spectrum_.values / poly[1].spectrum_.values.sum()
        lab.claim(
            "error with degree 2",
            float(learned[1]),
            at_most(0.1, within=0, said="proper"),
            reason=f"a kernel of rank {round(poly[1].rank_ratio_ * (len(X) - 1))}: the stretch reaches the bound of "
            f"its dual with {variances[2:].sum():.0%} of the variance beyond the plane",
        )
    lab.claim("largest error, degrees 3 to 10", float(learned[2:].max()), at_most(0.1, within=0, said="proper"))
    lab.claim("the same of new points", float(placed[2:].max()), at_most(0.1, within=0, said="proper"))
    learned, placed = errors["rbf"]
    lab.claim("largest error, widths below 1", float(learned[:3].max()), at_most(0.1, within=0, said="faithful"))
    lab.claim("error of new points at width 1/3", float(placed[0]), at_least(0.5, within=0, said="failed"))
    lab.claim("largest error, widths 1 to 10", float(learned[3:8].max()), at_most(0.1, within=0, said="proper"))
    lab.claim("the same of new points", float(placed[3:8].max()), at_most(0.15, within=0, said="proper"))
    if not lab.quick:
        lab.claim(
            "least error, widths 20 and 50",
            float(learned[8:].min()),
            at_least(0.3, within=0, said="not unfolded"),
            reason="directions of the kernel count down to 1e-10 of the largest; a quarter of them unfold the roll",
        )
    lab.note(
        f"A grid on a roll of height {HEIGHT:g}, {N_NEIGHBORS} neighbors, lengths divided by {UNIT:g}: none is "
        "stated, and high degrees need numbers about 1."
    )
    for name, models in (("poly", poly), ("rbf", rbf)):
        with lab.figure(name, size=(14, 3.2)) as figure:
            for (top, bottom), model in zip(figure.subplots(2, 10).T, models, strict=True):
                top.scatter(*model.embedding_.T, c=truth[:, 0], s=4, linewidths=0)
                bottom.scatter(*model.transform(others).T, c=places[:, 0], s=1, linewidths=0)
                top.set_title(f"{model.rank_ratio_:.2f}")
                for axes in (top, bottom):
                    axes.set_xticks([])
                    axes.set_yticks([])


if __name__ == "__main__":
    main(eat_kernels)
