"""Two sheets in V form: a linear map that unfolds them, learned from 28 points."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, at_most, equals, experiment, main
from manifoldry import EAT, PCA, KernelPCA, datasets, quality
from manifoldry.clusters.wrapped import KMeans

N_TRAIN, N_NEIGHBORS = 28, 4


@experiment("A linear map unfolds two sheets in V form", source="khajehpour2013, Fig. 2.2", quick=True)
def v_shape(lab: Lab) -> None:
    data = datasets.v_shape(1000)
    train = thinned(data.X, N_TRAIN)
    test = np.setdiff1d(np.arange(len(data.X)), train)
    X, truth = data.X[train], data.truth
    eat = EAT(n_components=3, kernel="linear", keep=pairs_of_sheets(X, truth[train, 0] > 0)).fit(X)
    shares = eat.spectrum_.values / eat.spectrum_.values.sum()
    lab.claim("training points", len(train), equals(N_TRAIN))
    lab.claim("share of the third coordinate", float(shares[2]), at_most(1e-3, within=0, said="no information"))
    moved = eat.transform(data.X[test])
    lab.claim(
        "rigid error of the 972 others", error(moved[:, :2], truth[test]), at_most(0.02, within=0, said="unfolded")
    )
    pca = PCA(n_components=2).fit_transform(data.X)
    kernel = KernelPCA(n_components=2).fit_transform(data.X)
    lab.claim("rigid error of PCA", error(pca, truth), at_least(0.3, within=0, said="folded"))
    lab.claim("rigid error of kernel PCA", error(kernel, truth), at_least(0.3, within=0, said="not satisfactory"))
    locked = EAT(n_components=3, kernel="linear", n_neighbors=N_NEIGHBORS).fit(X)
    lab.note(
        "Kept pairs are neighbors in the same sheet. One pair across the fold, kept at its length, fixes the angle of "
        f"a linear map: with those pairs the stretch is {locked.stretch_:.3f} instead of {eat.stretch_:.3f}. Angle, "
        "sizes and neighbors are not stated by the source."
    )
    with lab.figure(size=(9.6, 3.0)) as figure:
        panels = {
            "EAT, first and third": moved[:, [0, 2]],
            "EAT": moved[:, :2],
            "PCA": pca[test],
            "kernel PCA": kernel[test],
        }
        for axes, (name, Y) in zip(figure.subplots(1, 4), panels.items(), strict=True):
            axes.scatter(*Y.T, c=truth[test, 0], s=3, linewidths=0)
            axes.set_title(name)
            axes.set_aspect("equal")


def thinned(X: np.ndarray, n_points: int) -> np.ndarray:
    """Return the points nearest to the means of as many clusters."""
    labels = KMeans(n_clusters=n_points, random_state=0).fit_predict(X)
    means = np.stack([X[labels == label].mean(axis=0) for label in range(n_points)])
    return np.unique(np.square(X[:, None] - means).sum(axis=2).argmin(axis=0))


def pairs_of_sheets(X: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the pairs of neighbors among the points of each sheet."""
    distances = np.linalg.norm(X[:, None] - X, axis=2) + np.where(right[:, None] != right, np.inf, 0.0)
    near = np.argsort(distances, axis=1)[:, 1 : N_NEIGHBORS + 1]
    return np.column_stack([np.repeat(np.arange(len(X)), N_NEIGHBORS), near.ravel()])


def error(Y: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(quality.procrustes(Y, truth).error))


if __name__ == "__main__":
    main(v_shape)
