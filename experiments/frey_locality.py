"""Frey faces: how many clusters fall into several parts of the neighbor graph."""

from __future__ import annotations

import numpy as np

from clusterings import draw_lines, fitted
from harness import Lab, experiment, main
from rules import Rule, at_least, at_most, equals

N_CLUSTERS = tuple(range(2, 11))
SOURCE = {
    "MPPCA": (1, 0, 1, 0, 1, 0, 1, 1, 2),
    "VQPCA": (1, 2, 0, 1, 2, 2, 0, 5, 5),
    "rho 0.01": (0, 0, 0, 0, 0, 1, 1, 1, 0),
    "rho 0.05": (0, 0, 0, 0, 0, 1, 0, 1, 0),
    "rho 0.10": (0, 0, 0, 0, 0, 0, 0, 0, 0),
}
WEIGHTS = ("rho 0.01", "rho 0.05", "rho 0.10")
NEIGHBORS = (5, 8, 10)
N_INIT = 10
"""Of the source's hundred starts. With all of them Algorithm 4 alone leaves 4, 1, 1 clusters in several parts."""


@experiment("Frey faces: clusters in several parts", source="khajehpour2013, Table 4.3", needs=("frey_faces",))
def frey_locality(lab: Lab) -> None:
    faces = lab.load("frey_faces").X
    X = faces[np.sort(np.random.default_rng(0).choice(len(faces), 500, replace=False))]
    parts = {row: _parts(lab, X, row) for row in SOURCE}
    early = sum(sum(parts[row][: N_CLUSTERS.index(7)]) for row in ("rho 0.01", "rho 0.05"))
    alike = [sum(parts["rho 0.10"]), *(sum(_parts(lab, X, "rho 0.10", n_neighbors=k)) for k in NEIGHBORS)]
    with lab.fitted(_by_construction(lab, X)):
        for row in WEIGHTS:
            lab.claim(f"{row}: in several parts, all", sum(parts[row]), at_most(sum(SOURCE[row])))
        most = max(max(parts[row]) for row in WEIGHTS)
        lab.claim("LDLC: most in several parts of one division", most, at_most(1, "at most one", within=0))
        lab.claim("LDLC: in several parts, up to 6 clusters", early, equals(0, "appear for 7 to 9 clusters"))
        near = at_most(1, "similar results", within=0)
        lab.claim("5 to 10 neighbors, rho 0.10: most in several parts less the fewest", max(alike) - min(alike), near)
        more = Rule(
            "always more than LDLC", "MPPCA is largest", lambda ours: all(ours["MPPCA"] >= n for n in ours.values())
        )
        totals = {row: sum(parts[row]) for row in parts if row != "VQPCA"}
        lab.claim("in several parts, all divisions", totals, more)
    for row in ("MPPCA", "VQPCA"):
        lab.claim(f"{row}: in several parts, all", sum(parts[row]), at_least(sum(SOURCE[row])))
    some = sum(count > 0 for count in parts["VQPCA"])
    lab.claim("VQPCA: divisions with some in several parts", some, at_least(7, "almost always"))
    lab.note(f"{N_INIT} starts instead of 100.")
    with lab.figure() as figure:
        draw_lines(figure.subplots(), N_CLUSTERS, parts, ("number of clusters", "of them in several parts"))


def _by_construction(lab: Lab, X: np.ndarray) -> str:
    """Return what was chosen, with the numbers of Algorithm 4 alone: the clusters that ``split`` would divide."""
    alone = {row: _parts(lab, X, row, split=True) for row in WEIGHTS}
    counts = ", ".join(f"{row}: {' '.join(map(str, alone[row]))}" for row in WEIGHTS)
    return (
        "LDLC connects its clusters at the end, so its zeros hold by construction. Algorithm 4 of the source does not: "
        f"alone, it leaves this many of 2 to 10 clusters in several parts ({counts})"
    )


def _parts(lab: Lab, X: np.ndarray, row: str, **settings: object) -> list[int]:
    method, rho = ("LDLC", float(row.split()[1])) if row in WEIGHTS else (row, None)
    asked = {"n_components": 2, "n_neighbors": 6, "rho": rho, "n_init": N_INIT, **settings}
    models = [fitted(lab, method, X, n_clusters=c, **asked) for c in N_CLUSTERS]
    return [int(model.diagnostics_.get("split", model.n_nonlocalized_)) for model in models]


if __name__ == "__main__":
    main(frey_locality)
