"""What the experiments with clusterings share: the methods by their names in the tables, digits, pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldry
from harness import Lab, Reason
from rules import Rule, no_more

CLASSES = {
    "LDLC": "LDLC",
    "APC": "AffinityPropagation",
    "k-means": "KMeans",
    "k-medoids": "GeodesicKMedoids",
    "MPPCA": "MPPCA",
    "VQPCA": "VQPCA",
}
COLORS = "tab20"

FASTEST = Rule(
    "k-medoids and k-means, then LDLC",
    "in this order",
    lambda ours: (
        max(ours["k-medoids"], ours["k-means"]) <= ours["LDLC"] <= min(ours["MPPCA"], ours["VQPCA"], ours["APC"])
    ),
)
"""Which methods of Tables 4.4 and 4.5 take least time; ours maps their names to seconds."""


def standard(X: NDArray[Any]) -> NDArray[Any]:
    """Return the columns with mean zero and variance one."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def fitted(lab: Lab, method: str, X: NDArray[Any], **settings: Any) -> Any:
    """Return a method fitted to ``X``, the best of the lab's starts; ``lab.core_seconds[method]`` is the mean of one.

    A setting that the method does not have, such as LDLC's ``rho``, is left out.
    """
    cls = getattr(manifoldry, CLASSES[method])
    asked = {"n_init": lab.starts, "random_state": lab.seed, **settings}
    known = {name: value for name, value in asked.items() if name in cls().get_params()}
    with lab.time(method):
        model = cls(**known).fit(X)
    lab.core_seconds[method] /= known.get("n_init", 1)
    return model


def single_starts(lab: Lab, method: str, X: NDArray[Any], n_starts: int, **settings: Any) -> list[Any]:
    """Return a method fitted from each of ``n_starts`` starts; ``lab.core_seconds[method]`` is the mean of one."""
    models, seconds = [], 0.0
    for seed in range(lab.seed * n_starts, (lab.seed + 1) * n_starts):
        models.append(fitted(lab, method, X, n_init=1, random_state=seed, **settings))
        seconds += lab.core_seconds[method]
    lab.core_seconds[method] = seconds / n_starts
    return models


def without_graph(lab: Lab, method: str, X: NDArray[Any], limit: float, **settings: Any) -> Reason:
    """Return the reason that a start has a share of the neighbors and geodesics: measured is one start more."""

    def measure() -> float:
        few, many = 5, 25
        taken = {}
        for n_init in (few, many):
            fitted(lab, method, X, n_init=n_init, **settings)
            taken[n_init] = lab.core_seconds[method] * n_init
        return (taken[many] - taken[few]) / (many - few)

    return Reason("ours holds a share of neighbors and geodesics; one start more takes", measure, no_more(limit))


def mean_error(model: Any) -> float:
    """Return the reconstruction error of a fitted method per point: what the tables give as their error."""
    return model.reconstruction_error_ / len(model.labels_)


def digits(lab: Lab, which: Iterable[int], each: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ``each`` random images of every digit in ``which``, gray values in [0, 1], and the digits."""
    data = lab.load("mnist")
    rng = np.random.default_rng(lab.seed)
    labels = np.asarray(data.labels)
    rows = np.concatenate([rng.choice(np.flatnonzero(labels == digit), each, replace=False) for digit in which])
    images = data.X[rows] / 255
    # Pixels that are the same in all images add nothing to any distance.
    return images[:, np.ptp(images, axis=0) > 0], labels[rows]


def draw_clusters(axes: Any, X: NDArray[Any], labels: NDArray[Any], title: str) -> None:
    """Draw points of two or three dimensions, colored by cluster."""
    axes.scatter(*X.T, c=labels, cmap=COLORS, s=5, linewidths=0)
    axes.set_title(title, fontsize=9)
    axes.set_axis_off()
    axes.set_aspect("equal")


def draw_lines(axes: Any, x: Iterable[float], lines: dict[str, Any], words: tuple[str, str]) -> None:
    """Draw one line per method over ``x``, with the words for both axes."""
    for name, values in lines.items():
        axes.plot(list(x), values, marker="o", markersize=3, label=name)
    axes.set_xlabel(words[0])
    axes.set_ylabel(words[1])
    axes.legend(fontsize=8)
