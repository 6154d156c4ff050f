"""Faces of three people, and a fourth: who is told apart in two dimensions."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from harness import Lab, at_least, experiment, main
from manifoldry import EAT, LLE, MVU, PCA, Isomap

SETS = {"Olivetti": "olivetti_faces", "UMIST": "umist_faces32"}
WHY_OLIVETTI_DIFFERS = (
    "the ten images of a person are near-frontal and not the chain from side to front that the source describes, and "
    "PCA already tells these three people apart; UMIST has such chains"
)


@experiment("Three people, and a fourth", source="khajehpour2013, Fig. 2.5", needs=("olivetti_faces", "umist_faces32"))
def olivetti(lab: Lab) -> None:
    for title, name in SETS.items():
        data = lab.load(name)
        labels = np.asarray(data.labels)
        train, test = labels < 3, labels == 3
        models = {
            "EAT": EAT(n_components=2, kernel="linear", n_neighbors=3),
            "MVU": MVU(n_components=2, n_neighbors=3),
            "Isomap": Isomap(n_components=2, n_neighbors=3),
            "LLE": LLE(n_components=2, n_neighbors=3),
            "PCA": PCA(n_components=2),
        }
        apart = {word: _apart(model.fit(data.X[train]).embedding_, labels[train]) for word, model in models.items()}
        lab.claim(
            f"{title}: EAT's share of images next to the same person, over PCA's",
            apart["EAT"] / apart["PCA"],
            at_least(1.0),
            reason=WHY_OLIVETTI_DIFFERS if title == "Olivetti" else "",
        )
        lab.claim(f"{title}: Isomap's share", apart["Isomap"], at_least(0.9, within=0, said="separated"))
        new = models["EAT"].transform(data.X[test])
        lab.note(f"{title}: " + ", ".join(f"{word} {share:.2f}" for word, share in apart.items()))
        with lab.figure(title.lower(), size=(5, 5)) as figure:
            axes = figure.subplots()
            axes.scatter(*models["EAT"].embedding_.T, c=labels[train], cmap="tab10")
            axes.plot(*new.T, "k+", label="a fourth person")
            axes.legend()


def _apart(Y: np.ndarray, labels: np.ndarray) -> float:
    """Return how often the nearest image of the other folds is of the same person."""
    return float(cross_val_score(KNeighborsClassifier(1), Y, labels, cv=5).mean())


if __name__ == "__main__":
    main(olivetti)
