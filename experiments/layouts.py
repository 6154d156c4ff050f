"""What the experiments with embeddings share: errors to known coordinates, places of new points, pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from manifoldry import KMeans, metrics
from manifoldry._numerics.ranks import rank_measures

MEASURES = {"knn_error": "KNN intersection error", "mrre_x": "MRRE of X", "mrre_y": "MRRE of Y"}

UNFOLDED = 0.1
"""Error, in units of the truth's spread, up to which a layout shows a surface unfolded; above it, it does not."""


def error(Y: NDArray[Any], truth: NDArray[Any], kind: str = "rigid") -> float:
    """Return the root mean square error after the best map of a kind, in units of the truth's spread."""
    return float(np.sqrt(metrics.procrustes(Y, truth, kind=kind).error))


def onto(Y: NDArray[Any], truth: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the rigid map that lays Y on the truth, for other points too."""
    fit = metrics.procrustes(Y, truth)
    return lambda Z: Z @ fit.matrix + fit.shift


def scales_changed(Y: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return how much more one direction of the truth is stretched in Y than another."""
    away = truth - truth.mean(axis=0)
    matrix = np.linalg.lstsq(away, Y - Y.mean(axis=0), rcond=None)[0]
    widths = np.linalg.svd(matrix, compute_uv=False)
    return float(widths[0] / widths[-1])


def thinned(X: NDArray[Any], n_points: int) -> NDArray[Any]:
    """Return the points nearest to the means of as many clusters: how the source draws well-sampled points."""
    labels = KMeans(n_clusters=n_points, random_state=0).fit_predict(X)
    means = np.stack([X[labels == label].mean(axis=0) for label in range(n_points)])
    return np.unique(cKDTree(X).query(means)[1])


def reconstructed(X: NDArray[Any], Y: NDArray[Any], new: NDArray[Any], n_neighbors: int) -> NDArray[Any]:
    """Return places of new points as the source finds them for methods without a map.

    The weights that sum to one and best rebuild a new point from its nearest fitted ones are applied to their places.
    """
    near = cKDTree(X).query(new, k=n_neighbors)[1]
    away = X[near] - new[:, None]
    gram = away @ away.transpose(0, 2, 1)
    # More neighbors than dimensions leave the weights open: the regularization of LLE closes them.
    gram += 1e-3 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(n_neighbors) / n_neighbors
    weights = np.linalg.solve(gram, np.ones((len(new), n_neighbors, 1)))[:, :, 0]
    return np.einsum("nk,nkr->nr", weights / weights.sum(axis=1, keepdims=True), Y[near])


def told_apart(Y: NDArray[Any], labels: NDArray[Any], n_neighbors: int = 1) -> float:
    """Return how often the nearest points of the other folds have the same label."""
    return float(cross_val_score(KNeighborsClassifier(n_neighbors), Y, labels, cv=5).mean())


def curves(X: NDArray[Any], Y: NDArray[Any], sizes: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the three errors of neighborhoods over their size."""
    found = rank_measures(X, Y, n_neighbors=sizes)
    return {measure: np.asarray(getattr(found, measure)) for measure in MEASURES}


def draw_layouts(figure: Any, layouts: Mapping[str, NDArray[Any]], colors: Any, cmap: str | None = None) -> None:
    """Draw layouts side by side, each with its name."""
    panels = np.atleast_1d(figure.subplots(1, len(layouts)))
    for axes, (name, Y) in zip(panels, layouts.items(), strict=True):
        axes.scatter(*Y[:, :2].T, c=colors, cmap=cmap, s=4, linewidths=0)
        axes.set_title(name, fontsize=9)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_axis_off()


def draw_curves(figure: Any, sizes: NDArray[Any], found: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    """Draw the errors of neighborhoods over their size, one panel for each measure, one line for each method."""
    for axes, (measure, words) in zip(figure.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        for name, curve in found.items():
            axes.plot(sizes, curve[measure], label=name)
        axes.set_title(words, fontsize=9)
        axes.set_xlabel("neighbors")
    axes.legend(fontsize=8)
