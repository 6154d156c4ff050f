"""Swiss roll: six ways to divide it, by time, error of the subspaces and locality."""

from __future__ import annotations

import numpy as np

from clusterings import FASTEST, draw_clusters, fitted, mean_error, without_graph
from harness import Lab, experiment, main
from manifoldry import AffinityPropagation, datasets
from rules import about, at_least, at_most, equals, in_order, least

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
SOME = at_least(1, "failed to produce localized clusters")
CHOSEN = (
    f"a roll of height {HEIGHT:g}: the source states no size, and of 8 to 40 this one comes nearest to its errors; at "
    "21 LDLC's error is 0.059 and 2 of its clusters are torn"
)

TRIED = (
    "LDLC connects its clusters in every start, which the source does not do: a start takes 0.083 s of a core instead "
    "of 0.038 s, with the same labels, and two claims on seconds failed since. That none of its clusters is in several "
    "parts holds by construction with other seeds; with the first, Algorithm 4 alone leaves none either."
)


@experiment("Swiss roll of 2000 points in 20 clusters of rank 2", source="khajehpour2013, Table 4.4", seeds=5)
def swiss_roll_clusters(lab: Lab) -> None:
    roll = datasets.swiss_roll(2000, height=HEIGHT, random_state=lab.seed)
    X = roll.X
    models = {
        name: fitted(lab, name, X, n_clusters=20, n_components=2, preference=PREFERENCE) for name in SOURCE_SECONDS
    }
    seconds = {name: lab.core_seconds[name] for name in models}
    error = {name: mean_error(model) for name, model in models.items()}
    torn = {name: int(model.n_nonlocalized_) for name, model in models.items()}
    for name, theirs in SOURCE_SECONDS.items():
        once = without_graph(lab, name, X, theirs, n_clusters=20, n_components=2) if name == "k-medoids" else None
        lab.claim(f"seconds of a core, a start of {name}", seconds[name], at_most(theirs), reason=once)
    lab.claim("seconds of the methods, a start", seconds, FASTEST)
    slower = at_least(50.0, "roughly one hundred times slower")
    lab.claim("seconds of APC over those of LDLC", seconds["APC"] / seconds["LDLC"], slower)
    at_median = AffinityPropagation(n_components=2).fit(X).n_clusters_
    lab.claim("clusters of affinity propagation at the median preference", at_median, about(20))
    with lab.fitted(CHOSEN):
        lab.claim("error of LDLC", error["LDLC"], at_most(SOURCE_ERROR["LDLC"]))
        lab.claim("error of LDLC over that of APC", error["LDLC"] / error["APC"], at_most(1 / 3, "less than a third"))
        lab.claim("error of the methods", error, in_order(SOURCE_ERROR))
        lab.claim("error of the methods: least", error, least("VQPCA", "VQPCA has the lowest"))
        rest = {name: value for name, value in error.items() if name != "VQPCA"}
        second = least("LDLC", "after that, LDLC has the minimum")
        lab.claim("error of the methods, without VQPCA", rest, second)
        lab.claim("LDLC: clusters in several parts", torn["LDLC"], equals(0, "localized"))
        lab.claim("VQPCA: clusters in several parts", torn["VQPCA"], SOME)
        lab.claim("MPPCA: clusters in several parts", torn["MPPCA"], SOME)
    lab.note(
        f"Affinity propagation was made to give {models['APC'].n_clusters_} clusters by its preference. TesseraMap's "
        "rows of the table: tessera_clusters."
    )
    lab.note(TRIED)
    with lab.figure(size=(12, 4)) as figure:
        for axes, (name, model) in zip(figure.subplots(3, 2).ravel(), models.items(), strict=True):
            draw_clusters(axes, np.asarray(roll.truth), model.labels_, f"{name}: {torn[name]} in several parts")


if __name__ == "__main__":
    main(swiss_roll_clusters)
