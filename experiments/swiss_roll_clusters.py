"""Swiss roll: six ways to divide it, by time, error of the subspaces and locality."""

from __future__ import annotations

import numpy as np

from clusterings import draw_clusters, fitted, mean_error
from harness import Lab, at_least, at_most, equals, experiment, in_order, main
from manifoldry import datasets

SOURCE_SECONDS = {
    "LDLC": 0.5458,
    "APC": 50.8374,
    "k-means": 0.0535,
    "k-medoids": 0.0128,
    "MPPCA": 8.7535,
    "VQPCA": 1.0328,
}
SOURCE_ERROR = {"LDLC": 0.0168, "APC": 0.0612, "k-means": 0.0532, "k-medoids": 0.0680, "MPPCA": 0.0248, "VQPCA": 0.0072}
HEIGHT = 11.0
PREFERENCE = -1050.0
SOME = at_least(1, within=0, said="some")
WHY_SLOWER = {"k-medoids": "ours holds neighbors and geodesics, without which a start takes 0.012"}
WHY_OTHER_ORDER = (
    "our MPPCA starts from clusters around seeds far apart: of 25 single starts the median error is 0.0094, below "
    "LDLC, and the best 0.0075; k-means, affinity propagation and k-medoids change places with the roll's height "
    "(k-means 0.021, k-medoids 0.026 at height 8)"
)
WHY_IN_ONE_PIECE = (
    "from those starts 20 subspaces tile the roll in strips along its axis, most of them whole; single starts tear 0 "
    "to 2"
)


@experiment("Swiss roll of 2000 points in 20 clusters of rank 2", source="khajehpour2013, Table 4.4")
def swiss_roll_clusters(lab: Lab) -> None:
    roll = datasets.swiss_roll(2000, height=HEIGHT, random_state=0)
    X = roll.X
    models = {
        name: fitted(lab, name, X, n_clusters=20, n_components=2, preference=PREFERENCE) for name in SOURCE_SECONDS
    }
    error = {name: mean_error(model) for name, model in models.items()}
    for name, seconds in SOURCE_SECONDS.items():
        lab.claim(
            f"seconds of a core, a start of {name}",
            lab.core_seconds[name],
            at_most(seconds),
            reason=WHY_SLOWER.get(name, ""),
        )
    lab.claim("error of LDLC", error["LDLC"], at_most(SOURCE_ERROR["LDLC"]))
    lab.claim("error of LDLC over that of APC", error["LDLC"] / error["APC"], at_most(1 / 3, said="less than a third"))
    lab.claim("error of the methods", error, in_order(SOURCE_ERROR), reason=WHY_OTHER_ORDER)
    lab.claim("LDLC: clusters in several parts", models["LDLC"].n_nonlocalized_, equals(0))
    lab.claim("VQPCA: clusters in several parts", models["VQPCA"].n_nonlocalized_, SOME)
    lab.claim("MPPCA: clusters in several parts", models["MPPCA"].n_nonlocalized_, SOME, reason=WHY_IN_ONE_PIECE)
    lab.note(
        f"A roll of height {HEIGHT:g}: the source states no size, and of 8 to 40 this one fits its errors best. At 21 "
        "LDLC's error is 0.059 and 2 of its clusters are torn. Affinity "
        f"propagation makes {models['APC'].n_clusters_} clusters; at the median preference it makes 40, not 20 as the "
        "source's. TesseraMap's rows of the table: tessera_clusters."
    )
    with lab.figure(size=(12, 4)) as figure:
        for axes, (name, model) in zip(figure.subplots(3, 2).ravel(), models.items(), strict=True):
            title = f"{name}: {model.n_nonlocalized_} in several parts"
            draw_clusters(axes, np.asarray(roll.truth), model.labels_, title)


if __name__ == "__main__":
    main(swiss_roll_clusters)
