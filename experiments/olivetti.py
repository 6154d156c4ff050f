"""Faces of three people, and a fourth: who is told apart in two dimensions, and where the fourth goes."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import kneighbors_graph

from harness import Lab, Reason, experiment, main
from layouts import reconstructed
from manifoldry import EAT, LLE, MVU, PCA, Isomap, KernelPCA
from rules import at_least, at_most, no_less, no_more

SETS = {"Olivetti": "olivetti_faces", "UMIST": "umist_faces32"}
N_FOURS = 5
"""Which persons is not stated: means over the first fours of the set, three of them old and one new."""
WITH_A_MAP = ("EAT", "PCA", "KernelPCA")
WIDTHS = (1, 2, 5, 20)
CUTOFFS = (1e-3, 1e-2, 1e-1)
SEPARATE_SHARE = 0.9
APART = at_least(0.9, "separated along different chains")
MIXED = at_most(0.9, "not interpretable even for the training set")
SEPARATE = at_least(SEPARATE_SHARE, "a separate cluster")
SUPERIMPOSED = at_most(0.5, "superimposed on the most similar person")
SMOOTH = at_most(0.5, "a smooth change between the side view and the frontal view")
CHOSEN = (
    "for all methods as many neighbors as connect the graph, and the nearest of all other images. Neither a number of "
    "neighbors nor a measure is stated, but without bridges the stretch is unbounded if the graph is not connected. "
    "Before, 3 neighbors and the nearest image of other folds (without the adjacent views of an image) gave EAT 0.913 "
    "and 0.799, MVU 0.880 and 0.766, LLE 0.967 and 0.954, Isomap 0.973 and 0.976, PCA 0.907 and 0.790, KernelPCA 0.927 "
    "and 0.728 of the images next to the same person; connected graphs with those folds gave EAT 0.913 and 0.871"
)


@experiment(
    "Three people, and a fourth", source="khajehpour2013, Fig. 2.5", needs=("olivetti_faces", "umist_faces32"), seeds=5
)
def olivetti(lab: Lab) -> None:
    means = {}
    for title, name in SETS.items():
        data = lab.load(name)
        n_persons = int(np.max(data.labels)) + 1
        order = np.random.default_rng(lab.seed).permutation(n_persons) if lab.seed else np.arange(n_persons)
        fours = [_measured(lab, title, data, order[4 * four : 4 * four + 4]) for four in range(N_FOURS)]
        means[title] = {key: float(np.mean([found[key] for found in fours])) for key in fours[0]}
        if not lab.seed:
            _tell_kernels(lab, title, data)
    with lab.fitted(CHOSEN):
        for title, mean in means.items():
            _judge(lab, title, mean)
    lab.note(
        f"Means over {N_FOURS} times three persons and a fourth: which is not stated. Olivetti is the set cited, but "
        "its ten images of a person are near-frontal; UMIST has the chains from side to front that the source "
        "describes. All kernels of full rank give the same layout of the three; an rbf kernel tends to the linear one, "
        "which the source uses for images, as it gets wider, and where it is narrow the fourth's images shrink "
        "together."
    )


def _judge(lab: Lab, title: str, mean: dict) -> None:
    in_full = Reason(
        "the images alone tell these people apart, before any method: share in all dimensions",
        lambda: mean["in full"],
        no_less(0.9),
    )
    fitted_too = Reason(
        "the fourth person's images are not separate in two dimensions even if EAT is fitted to all four people: share",
        lambda: mean["fitted too"],
        no_more(SEPARATE_SHARE),
    )
    for word in ("EAT", "LLE", "Isomap", "MVU"):
        lab.claim(f"{title}: share of images next to the same person, {word}", mean["apart", word], APART)
    for word in ("PCA", "KernelPCA"):
        what = f"{title}: share of images next to the same person, {word}"
        lab.claim(what, mean["apart", word], MIXED, reason=in_full)
    for word in ("EAT", "MVU", "Isomap", "LLE", "PCA", "KernelPCA"):
        what = f"{title}: share of the fourth person's images next to their own, {word}"
        reason = fitted_too if word == "EAT" else None
        lab.claim(what, mean["new", word], SEPARATE if word == "EAT" else SUPERIMPOSED, reason=reason)
    if title == "UMIST":
        # Its rows follow each other from the profile to the front; those of Olivetti have no order.
        for words in ("old", "new"):
            what = f"{title}: step to the next view over any two views, {words} person, EAT"
            lab.claim(what, mean["step", words], SMOOTH)


def _measured(lab: Lab, title: str, data, persons: np.ndarray) -> dict:
    X, labels, new = _split(data, persons)
    found: dict = {"in full": _own_share(X, labels), "fitted too": _fitted_share(X, new)}
    models = {word: model.fit(X) for word, model in _models(_connecting(X)).items()}
    placed = {word: _placed(word, model, X, new) for word, model in models.items()}
    for word, model in models.items():
        found["apart", word] = _own_share(model.embedding_, labels)
        found["new", word] = _own_kind(model.embedding_, placed[word])
    found["step", "old"] = _step(models["EAT"].embedding_[labels == persons[0]])
    found["step", "new"] = _step(placed["EAT"])
    if persons[0] == 0:
        with lab.figure(title.lower(), size=(14, 3)) as figure:
            for axes, (word, model) in zip(figure.subplots(1, len(models)), models.items(), strict=True):
                axes.scatter(*model.embedding_.T, c=labels, cmap="tab10", s=10)
                axes.plot(*placed[word].T, "k+")
                axes.set_title(word, fontsize=9)
    return found


def _split(data, persons: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the images of the first three persons, who they are of, and the images of the fourth."""
    labels = np.asarray(data.labels)
    old = np.isin(labels, persons[:3])
    return data.X[old], labels[old], data.X[labels == persons[3]]


def _connecting(X: np.ndarray) -> int:
    """Return the smallest number of neighbors with which the graph is connected."""
    k = 2
    while connected_components(kneighbors_graph(X, k), directed=False)[0] > 1:
        k += 1
    return k


def _models(n_neighbors: int) -> dict:
    return {
        "EAT": EAT(n_components=2, kernel="linear", n_neighbors=n_neighbors),
        "MVU": MVU(n_components=2, n_neighbors=n_neighbors),
        "Isomap": Isomap(n_components=2, n_neighbors=n_neighbors),
        "LLE": LLE(n_components=2, n_neighbors=n_neighbors),
        "PCA": PCA(n_components=2),
        "KernelPCA": KernelPCA(n_components=2),
    }


def _placed(word: str, model, X: np.ndarray, new: np.ndarray) -> np.ndarray:
    if word in WITH_A_MAP:
        return model.transform(new)
    return reconstructed(X, model.embedding_, new, model.n_neighbors)


def _tell_kernels(lab: Lab, title: str, data) -> None:
    """Note what other kernels, cutoffs of their rank and persons do to EAT's share of the fourth person's images."""
    lines: dict[str, list] = {}
    for four in range(N_FOURS):
        X, labels, new = _split(data, np.arange(4 * four, 4 * four + 4))
        k = _connecting(X)
        mean, unit = X.mean(axis=0), EAT(kernel="rbf", n_neighbors=k).fit(X).diagnostics_["gamma"] ** -0.5
        _, sizes, axes = np.linalg.svd(X - mean, full_matrices=False)
        for width in WIDTHS:
            model = EAT(n_components=2, kernel="rbf", gamma=(width * unit) ** -2, n_neighbors=k).fit(X)
            lines.setdefault(f"rbf of {width} neighbor distances", []).append(_told(model, labels, new))
        for cutoff in CUTOFFS:
            kept = axes[: int((sizes**2 > cutoff * sizes[0] ** 2).sum())].T
            model = EAT(n_components=2, kernel="linear", n_neighbors=k).fit((X - mean) @ kept)
            lines.setdefault(f"linear, cut at {cutoff:g}", []).append(_told(model, labels, (new - mean) @ kept))
    told = ["{}: {:.2f}, {:.2f}, {:.2f}".format(words, *np.mean(rows, axis=0)) for words, rows in lines.items()]
    n_persons = int(np.max(data.labels)) + 1
    shares = [_fourth_share(data, person) for person in range(n_persons)]
    lab.note(
        f"{title}, EAT with other kernels (share next to the same person; of the fourth's images next to their own; "
        f"spread of the fourth over that of an old person): {'; '.join(told)}. With each person of each four as the "
        f"fourth, {sum(share >= SEPARATE_SHARE for share in shares)} of {n_persons} have at least {SEPARATE_SHARE:g}."
    )


def _told(model: EAT, labels: np.ndarray, new: np.ndarray) -> tuple[float, float, float]:
    Y, placed = model.embedding_, model.transform(new)
    usual = np.mean([_spread(Y[labels == label]) for label in np.unique(labels)])
    return _own_share(Y, labels), _own_kind(Y, placed), _spread(placed) / float(usual)


def _fourth_share(data, person: int) -> float:
    """Return the share of a person's images next to their own, where the other three of the four are the old ones."""
    others = np.setdiff1d(np.arange(person // 4 * 4, person // 4 * 4 + 4), person)
    X, _, new = _split(data, np.append(others, person))
    model = EAT(n_components=2, kernel="linear", n_neighbors=_connecting(X)).fit(X)
    return _own_kind(model.embedding_, model.transform(new))


def _fitted_share(X: np.ndarray, new: np.ndarray) -> float:
    """Return the share of the new images next to their own where EAT is fitted to all images."""
    images = np.concatenate([X, new])
    Y = EAT(n_components=2, kernel="linear", n_neighbors=_connecting(images)).fit_transform(images)
    return _own_kind(Y[: len(X)], Y[len(X) :])


def _spread(Y: np.ndarray) -> float:
    return float(np.sqrt(np.square(Y - Y.mean(axis=0)).sum(axis=1).mean()))


def _own_share(Y: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of images whose nearest other image is of the same person."""
    distances = np.linalg.norm(Y[:, None] - Y, axis=2) + np.diag(np.full(len(Y), np.inf))
    return float(np.mean(labels[distances.argmin(axis=1)] == labels))


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
