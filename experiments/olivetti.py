"""Faces of three people, and a fourth: who is told apart in two dimensions, and where the fourth goes."""

from __future__ import annotations

import numpy as np

from harness import Lab, Reason, experiment, main
from layouts import reconstructed, told_apart
from manifoldry import EAT, LLE, MVU, PCA, Isomap, KernelPCA
from rules import at_least, at_most, no_less

SETS = {"Olivetti": "olivetti_faces", "UMIST": "umist_faces32"}
N_NEIGHBORS = 3
N_FOURS = 5
"""Which persons is not stated: means over the first fours of the set, three of them old and one new."""
WITH_A_MAP = ("EAT", "PCA", "KernelPCA")
APART = at_least(0.9, "separated along different chains")
MIXED = at_most(0.9, "not interpretable even for the training set")
SEPARATE = at_least(0.9, "a separate cluster")
SUPERIMPOSED = at_most(0.5, "superimposed on the most similar person")
SMOOTH = at_most(0.5, "a smooth change between the side view and the frontal view")


@experiment("Three people, and a fourth", source="khajehpour2013, Fig. 2.5", needs=("olivetti_faces", "umist_faces32"))
def olivetti(lab: Lab) -> None:
    for title, name in SETS.items():
        data = lab.load(name)
        fours = [_measured(lab, title, data, 4 * four) for four in range(N_FOURS)]
        mean = {key: float(np.mean([found[key] for found in fours])) for key in fours[0]}
        in_full = Reason(
            "the images alone tell these people apart, before any method: share in all dimensions",
            lambda mean=mean: mean["in full"],
            no_less(0.9),
        )
        for word in ("EAT", "LLE", "Isomap", "MVU"):
            lab.claim(f"{title}: share of images next to the same person, {word}", mean["apart", word], APART)
        for word in ("PCA", "KernelPCA"):
            what = f"{title}: share of images next to the same person, {word}"
            lab.claim(what, mean["apart", word], MIXED, reason=in_full)
        for word in ("EAT", "MVU", "Isomap", "LLE", "PCA", "KernelPCA"):
            what = f"{title}: share of the fourth person's images next to their own, {word}"
            lab.claim(what, mean["new", word], SEPARATE if word == "EAT" else SUPERIMPOSED)
        if title == "UMIST":
            # Its rows follow each other from the profile to the front; those of Olivetti have no order.
            for words in ("old", "new"):
                what = f"{title}: step to the next view over any two views, {words} person, EAT"
                lab.claim(what, mean["step", words], SMOOTH)
    lab.note(
        f"Means over {N_FOURS} times three persons and a fourth, {N_NEIGHBORS} neighbors: neither is stated. Olivetti "
        "is the set cited, but its ten images of a person are near-frontal; UMIST has the chains from side to front "
        "that the source describes."
    )


def _measured(lab: Lab, title: str, data, first: int) -> dict:
    labels = np.asarray(data.labels) - first
    old, new = (labels >= 0) & (labels < 3), labels == 3
    found: dict = {"in full": told_apart(data.X[old], labels[old])}
    models = {word: model.fit(data.X[old]) for word, model in _models().items()}
    placed = {word: _placed(word, model, data.X[old], data.X[new]) for word, model in models.items()}
    for word, model in models.items():
        found["apart", word] = told_apart(model.embedding_, labels[old])
        found["new", word] = _own_kind(model.embedding_, placed[word])
    found["step", "old"] = _step(models["EAT"].embedding_[labels[old] == 0])
    found["step", "new"] = _step(placed["EAT"])
    if first == 0:
        with lab.figure(title.lower(), size=(14, 3)) as figure:
            for axes, (word, model) in zip(figure.subplots(1, len(models)), models.items(), strict=True):
                axes.scatter(*model.embedding_.T, c=labels[old], cmap="tab10", s=10)
                axes.plot(*placed[word].T, "k+")
                axes.set_title(word, fontsize=9)
    return found


def _models() -> dict:
    return {
        "EAT": EAT(n_components=2, kernel="linear", n_neighbors=N_NEIGHBORS),
        "MVU": MVU(n_components=2, n_neighbors=N_NEIGHBORS),
        "Isomap": Isomap(n_components=2, n_neighbors=N_NEIGHBORS),
        "LLE": LLE(n_components=2, n_neighbors=N_NEIGHBORS),
        "PCA": PCA(n_components=2),
        "KernelPCA": KernelPCA(n_components=2),
    }


def _placed(word: str, model, X: np.ndarray, new: np.ndarray) -> np.ndarray:
    if word in WITH_A_MAP:
        return model.transform(new)
    return reconstructed(X, model.embedding_, new, N_NEIGHBORS)


def _own_kind(old: np.ndarray, new: np.ndarray) -> float:
    """Return the share of new images whose nearest image is a new one too."""
    among = np.linalg.norm(new[:, None] - new, axis=2) + np.diag(np.full(len(new), np.inf))
    return float(np.mean(among.min(axis=1) < np.linalg.norm(new[:, None] - old, axis=2).min(axis=1)))


def _step(Y: np.ndarray) -> float:
    """Return the mean distance of images that follow each other over that of all pairs."""
    pairs = np.linalg.norm(Y[:, None] - Y, axis=2)[np.triu_indices(len(Y), 1)]
    return float(np.linalg.norm(np.diff(Y, axis=0), axis=1).mean() / pairs.mean())


if __name__ == "__main__":
    main(olivetti)
