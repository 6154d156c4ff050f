"""Four twisted strips joined at a center: stitched patches lie in the plane, stretched points do not."""

from __future__ import annotations

import numpy as np

from harness import Lab, experiment, main
from layouts import UNFOLDED, draw_layouts, error
from manifoldry import IPA, MVU, TesseraMap, datasets
from rules import at_least, at_most, equals

N_POINTS, N_NEIGHBORS = 600, 6
"""The source states neither."""
SEEN = 1e-3
"""Share of the variance from which a dimension counts."""


@experiment("The three-dimensional star has rank two", source="khajehpour2013, Fig. 5.6", quick=True)
def star(lab: Lab) -> None:
    data = datasets.star(N_POINTS)
    models = {
        "IPA": IPA(n_components=2),
        "TesseraMap": TesseraMap(n_components=2, n_neighbors=N_NEIGHBORS),
        "MVU": MVU(n_components=2, n_neighbors=N_NEIGHBORS),
    }
    shares = {}
    for name, model in models.items():
        values = model.fit(data.X).spectrum_.values
        shares[name] = np.append(values, np.zeros(3))[:3] / values.sum()
    third = {name: float(of[2]) for name, of in shares.items()}
    lab.claim("IPA: share of the third eigenvalue", third["IPA"], at_most(SEEN, "perfectly in r = 2"))
    off = error(models["IPA"].embedding_, data.truth)
    lab.claim("IPA: rigid error to the flat star", off, at_most(UNFOLDED, "preserves the length of the segments"))
    lab.claim("MVU: share of the third eigenvalue", third["MVU"], at_least(SEEN, "a three-dimensional star"))
    lab.claim("TesseraMap: share of the third eigenvalue", third["TesseraMap"], at_least(SEEN, "not of rank two"))
    ratio = third["TesseraMap"] / third["MVU"]
    lab.claim("third eigenvalue of TesseraMap over that of MVU", ratio, at_most(1.0, "smaller than that of MVU"))
    changed = error(models["MVU"].embedding_, data.truth) / off
    lab.claim("MVU: error in two dimensions over that of IPA", changed, at_least(1.0, "changes the length"))
    lab.target("IPA's certificate is optimal", models["IPA"].certificate_.optimal, equals(True))
    lab.note(f"{N_POINTS} points, {N_NEIGHBORS} neighbors: not stated.")
    with lab.figure(size=(9, 3)) as figure:
        draw_layouts(figure, {name: model.embedding_ for name, model in models.items()}, data.truth[:, 0])
    with lab.figure("spectra", size=(5, 3)) as figure:
        axes = figure.subplots()
        for place, (name, of) in enumerate(shares.items()):
            axes.bar(np.arange(1, 4) + 0.25 * (place - 1), of, 0.25, label=name)
        axes.set_xlabel("eigenvalue")
        axes.set_ylabel("share of variance")
        axes.legend()


if __name__ == "__main__":
    main(star)
