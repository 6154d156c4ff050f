"""Three digits: six ways to divide them, by time, purity and error of the subspaces."""

from __future__ import annotations

from sklearn.metrics import normalized_mutual_info_score

from clusterings import FASTEST, digits, fitted, mean_error, without_graph
from harness import Lab, experiment, main
from manifoldry import AffinityPropagation, metrics
from rules import about, at_least, at_most, greatest, in_order, least

SOURCE_SECONDS = {
    "LDLC": 3.7784,
    "APC": 19.2738,
    "k-means": 3.3733,
    "k-medoids": 0.0419,
    "MPPCA": 11.16,
    "VQPCA": 4.4502,
}
SOURCE_PURITY = {
    "LDLC": 0.9850,
    "APC": 0.9577,
    "k-means": 0.9740,
    "k-medoids": 0.9753,
    "MPPCA": 0.9547,
    "VQPCA": 0.9630,
}
SOURCE_NMI = {"LDLC": 0.5111, "APC": 0.4677, "k-means": 0.4872, "k-medoids": 0.4985, "MPPCA": 0.4964, "VQPCA": 0.4921}
N_INIT = 20
PREFERENCE = -1500.0
"""With it affinity propagation makes 19 clusters."""
SOURCE_ERROR = {
    "LDLC": 17.4234,
    "APC": 18.3383,
    "k-means": 17.7434,
    "k-medoids": 18.4624,
    "MPPCA": 17.4607,
    "VQPCA": 17.3032,
}
CHOSEN = (
    "of 5, 8 and 10 neighbors 8 come nearest to the table, with 5 the order of NMI fails; the preference of affinity "
    "propagation was set to give 19 clusters; gray values in [0, 1] and the error per image"
)

TRIED = (
    "LDLC connects its clusters in every start, which the source does not do, and the claim on the order of seconds "
    "failed since. Of six starts one takes 1.83 s of a core instead of 1.17 s, of which at most 0.19 s are spent on "
    "connecting and the rest on 23 descents instead of 6. Without that the order would be close: VQPCA takes 1.01 s."
)


@experiment("MNIST 3, 6, 9 in 19 clusters of rank 5", source="khajehpour2013, Table 4.5", needs=("mnist",))
def three_digits(lab: Lab) -> None:
    X, y = digits(lab, (3, 6, 9), 1000)
    models = {
        name: fitted(lab, name, X, n_clusters=19, n_components=5, n_neighbors=8, n_init=N_INIT, preference=PREFERENCE)
        for name in SOURCE_SECONDS
    }
    seconds = {name: lab.core_seconds[name] for name in models}
    error = {name: mean_error(model) for name, model in models.items()}
    purity = {name: metrics.purity(model.labels_, y) for name, model in models.items()}
    nmi = {name: normalized_mutual_info_score(model.labels_, y) for name, model in models.items()}
    for name, theirs in SOURCE_SECONDS.items():
        settings = {"n_clusters": 19, "n_components": 5, "n_neighbors": 8}
        once = without_graph(lab, name, X, theirs, **settings) if name == "k-medoids" else None
        lab.claim(f"seconds of a core, a start of {name}", seconds[name], at_most(theirs), reason=once)
    lab.claim("seconds of the methods, a start", seconds, FASTEST)
    at_median = AffinityPropagation(n_components=5, n_neighbors=8).fit(X).n_clusters_
    lab.claim("clusters of affinity propagation at the median preference", at_median, about(19))
    with lab.fitted(CHOSEN):
        lab.claim("purity of LDLC", purity["LDLC"], at_least(SOURCE_PURITY["LDLC"]))
        lab.claim("NMI of LDLC", nmi["LDLC"], at_least(SOURCE_NMI["LDLC"]))
        lab.claim("error of LDLC", error["LDLC"], at_most(SOURCE_ERROR["LDLC"]))
        lab.claim("purity of the methods: best", purity, greatest("LDLC", "LDLC has the highest quality"))
        lab.claim("NMI of the methods: best", nmi, greatest("LDLC", "LDLC has the highest quality"))
        lab.claim("purity of the methods", purity, in_order(SOURCE_PURITY))
        lab.claim("NMI of the methods", nmi, in_order(SOURCE_NMI))
        lab.claim("error of the methods", error, in_order(SOURCE_ERROR))
        lab.claim("error of the methods: least", error, least("VQPCA", "VQPCA has the lowest-rank clusters"))
        rest = {name: value for name, value in error.items() if name != "VQPCA"}
        lab.claim("error of the methods, without VQPCA", rest, least("LDLC", "LDLC has the second lowest"))
    lab.note(f"{N_INIT} starts. TesseraMap's rows of the table: tessera_clusters.")
    lab.note(TRIED)


if __name__ == "__main__":
    main(three_digits)
