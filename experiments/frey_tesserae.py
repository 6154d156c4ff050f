"""Frey faces by TesseraMap with a linear kernel: half of the images, then the other half as new ones."""

from __future__ import annotations

import numpy as np

from harness import Lab, Reason, experiment, main
from layouts import draw_layouts
from manifoldry import PCA, FastMVU, TesseraMap, metrics
from rules import at_least, at_most, no_more

TRAIN, TESSERAE, N_NEIGHBORS = 965, 36, 6
SECONDS = {"TesseraMap": 4.0, "FastMVU": 59.0}


@experiment("Frey faces by TesseraMap", source="khajehpour2013, Fig. 3.5 and Table 3.1", needs=("frey_faces",))
def frey_tesserae(lab: Lab) -> None:
    X = lab.load("frey_faces").X
    X = X[np.random.default_rng(0).permutation(len(X))]
    old, new = X[:TRAIN], X[TRAIN:]
    models = {
        "TesseraMap": TesseraMap(n_components=2, n_patches=TESSERAE, n_neighbors=N_NEIGHBORS, kernel="linear"),
        "FastMVU": FastMVU(n_components=2, n_neighbors=N_NEIGHBORS),
    }
    for name, model in models.items():
        with lab.time(name):
            model.fit(old)
        lab.claim(f"seconds of a core, {name}", lab.core_seconds[name], at_most(SECONDS[name]))
    ratio = lab.core_seconds["FastMVU"] / lab.core_seconds["TesseraMap"]
    lab.claim("seconds of FastMVU over those of TesseraMap", ratio, at_least(1.0, "59 against 4"))
    pca = PCA(n_components=2).fit(old)
    kept = {
        "TesseraMap": _kept(old, models["TesseraMap"].embedding_),
        "FastMVU": _kept(old, models["FastMVU"].embedding_),
        "PCA": _kept(old, pca.embedding_),
        "TesseraMap, new": _kept(new, models["TesseraMap"].transform(new)),
        "PCA, new": _kept(new, pca.transform(new)),
    }
    for name in ("TesseraMap", "TesseraMap, new"):
        baseline = kept[name.replace("TesseraMap", "PCA")]
        bundled = at_least(baseline, "similar expressions are bundled together")
        lab.claim(f"trustworthiness of {name} (asked: that of PCA)", kept[name], bundled)
    coarse = Reason(
        "the source's Fast MVU did not fine-tune its result; trustworthiness of ours without the descent that ends it",
        lambda: _kept(old, FastMVU(n_components=2, n_neighbors=N_NEIGHBORS, max_iter=0).fit_transform(old)),
        no_more(min(kept["PCA"], kept["TesseraMap"])),
    )
    failed = at_most(kept["PCA"], "has failed to provide an interpretable structure")
    lab.claim("trustworthiness of FastMVU (asked: that of PCA)", kept["FastMVU"], failed, reason=coarse)
    ratio = kept["TesseraMap"] / kept["FastMVU"]
    better = at_least(1.0, "whereas Fast MVU has failed")
    lab.claim("trustworthiness of TesseraMap over that of FastMVU", ratio, better, reason=coarse)
    certificate = models["TesseraMap"].certificate_
    lab.note(f"Regularization of the map, chosen at images left out: {models['TesseraMap'].diagnostics_['reg']:g}.")
    lab.note(f"Error of the kept distances {models['TesseraMap'].error_:.3g}, certificate gap {certificate.gap:.1e}.")
    with lab.figure(size=(12, 4)) as figure:
        layouts = {name: model.embedding_ for name, model in models.items()} | {"PCA": pca.embedding_}
        draw_layouts(figure, layouts, old.mean(axis=1))


def _kept(X: np.ndarray, Y: np.ndarray) -> float:
    return metrics.trustworthiness(X, Y, n_neighbors=12)


if __name__ == "__main__":
    main(frey_tesserae)
