"""Frey faces: how many clusters fall into several parts of the neighbor graph."""

from __future__ import annotations

import numpy as np

from clusterings import draw_lines, fitted
from harness import Lab, Reason, experiment, main
from rules import Rule, at_least, at_most, equals, no_more

N_CLUSTERS = tuple(range(2, 11))
SOURCE = {
    "MPPCA": (1, 0, 1, 0, 1, 0, 1, 1, 2),
    "VQPCA": (1, 2, 0, 1, 2, 2, 0, 5, 5),
    "rho 0.01": (0, 0, 0, 0, 0, 1, 1, 1, 0),
    "rho 0.05": (0, 0, 0, 0, 0, 1, 0, 1, 0),
    "rho 0.10": (0, 0, 0, 0, 0, 0, 0, 0, 0),
}
NEIGHBORS = (5, 8, 10)
N_INIT = 10
"""Of the source's hundred starts."""
N_DRAWS = 3
"""Random draws of 500 images besides the first, in the test of the reason."""


@experiment("Frey faces: clusters in several parts", source="khajehpour2013, Table 4.3", needs=("frey_faces",))
def frey_locality(lab: Lab) -> None:
    faces = lab.load("frey_faces").X
    parts = {row: _parts(lab, _drawn(faces, 0), row) for row in SOURCE}
    for row in ("rho 0.01", "rho 0.05", "rho 0.10"):
        lab.claim(
            f"{row}: in several parts, all",
            sum(parts[row]),
            at_most(sum(SOURCE[row])),
            reason=_by_draw(lab, faces, row),
        )
    for row in ("MPPCA", "VQPCA"):
        lab.claim(f"{row}: in several parts, all", sum(parts[row]), at_least(sum(SOURCE[row])))
    most = max(max(parts[row]) for row in SOURCE if row.startswith("rho"))
    lab.claim("LDLC: most in several parts of one division", most, at_most(1, "at most one", within=0))
    early = sum(sum(parts[row][: N_CLUSTERS.index(7)]) for row in ("rho 0.01", "rho 0.05"))
    lab.claim("LDLC: in several parts, up to 6 clusters", early, equals(0, "appear for 7 to 9 clusters"))
    lab.claim("VQPCA: divisions with some in several parts", _some(parts["VQPCA"]), at_least(7, "almost always"))
    more = Rule(
        "always more than LDLC", "MPPCA is largest", lambda ours: all(ours["MPPCA"] >= n for n in ours.values())
    )
    totals = {row: sum(parts[row]) for row in parts if row != "VQPCA"}
    lab.claim("in several parts, all divisions", totals, more)
    alike = [sum(parts["rho 0.10"]), *(sum(_parts(lab, _drawn(faces, 0), "rho 0.10", k)) for k in NEIGHBORS)]
    near = at_most(1, "similar results", within=0)
    lab.claim("5 to 10 neighbors, rho 0.10: most in several parts less the fewest", max(alike) - min(alike), near)
    lab.note(f"{N_INIT} starts instead of 100. With 6, 5, 8, 10 neighbors at rho 0.10: {' '.join(map(str, alike))}.")
    with lab.figure() as figure:
        draw_lines(figure.subplots(), N_CLUSTERS, parts, ("number of clusters", "of them in several parts"))


def _by_draw(lab: Lab, faces: np.ndarray, row: str) -> Reason:
    return Reason(
        f"it hangs on which 500 images, which is not stated: fewest of {N_DRAWS} other draws",
        lambda: min(sum(_parts(lab, _drawn(faces, seed), row)) for seed in range(1, N_DRAWS + 1)),
        no_more(sum(SOURCE[row])),
    )


def _drawn(faces: np.ndarray, seed: int) -> np.ndarray:
    return faces[np.sort(np.random.default_rng(seed).choice(len(faces), 500, replace=False))]


def _parts(lab: Lab, X: np.ndarray, row: str, n_neighbors: int = 6) -> list[int]:
    method, rho = ("LDLC", float(row.split()[1])) if row.startswith("rho") else (row, None)
    settings = {"n_components": 2, "n_neighbors": n_neighbors, "rho": rho, "n_init": N_INIT}
    return [int(fitted(lab, method, X, n_clusters=c, **settings).n_nonlocalized_) for c in N_CLUSTERS]


def _some(counts: list[int]) -> int:
    return sum(count > 0 for count in counts)


if __name__ == "__main__":
    main(frey_locality)
