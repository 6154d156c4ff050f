"""Real sets as a user would embed them: what is measured in several units is standardized, large sets are sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from manifoldry import datasets
from manifoldry._core.values import Array, FloatArray
from manifoldry.data.datasets import Dataset

SEED = 0


@dataclass(frozen=True)
class RealSet:
    """Rows to embed, and what is known about them.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The rows.
    labels : ndarray of shape (n,) or None
        Classes, to be predicted from the embedding.
    targets : ndarray of shape (n, q) or None
        Numbers, to be predicted from the embedding; where there are labels, they are None.
    """

    X: FloatArray
    labels: Array | None = None
    targets: FloatArray | None = None

    @property
    def color(self) -> Array:
        """One number per row to color a picture by: the label, else the first target, else the row's number."""
        if self.labels is not None:
            return np.unique(self.labels, return_inverse=True)[1]
        return np.arange(len(self.X)) if self.targets is None else self.targets[:, 0]

    def sample(self, n: int) -> RealSet:
        """Return n rows drawn at random, the same at every run, in their order; all rows if there are no more."""
        rows = np.sort(np.random.default_rng(SEED).permutation(len(self.X))[:n])
        return RealSet(*(None if part is None else part[rows] for part in (self.X, self.labels, self.targets)))

    def save(self, path: Path) -> None:
        """Write the set to an archive."""
        known = {"labels": self.labels, "targets": self.targets}
        np.savez(path, X=self.X, **{name: value for name, value in known.items() if value is not None})

    @classmethod
    def read(cls, path: Path) -> RealSet:
        """Return the set that `save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            return cls(stored["X"], stored.get("labels"), stored.get("targets"))


def standardized(X: FloatArray) -> FloatArray:
    """Return X with columns of mean 0 and standard deviation 1."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _labeled(name: str, n: int | None = None, scale: Callable[[FloatArray], FloatArray] | None = None) -> RealSet:
    data = datasets.load(name)
    found = RealSet(data.X, data.labels)
    found = found if n is None else found.sample(n)
    return found if scale is None else replace(found, X=scale(found.X))


def _wine_quality() -> RealSet:
    data = datasets.load("wine_quality")
    return RealSet(standardized(data.X), targets=_labels(data)[:, np.newaxis].astype(np.float64))


def _isomap_faces() -> RealSet:
    data = datasets.load("isomap_faces32")
    return RealSet(data.X, targets=data.parameters)


def _coil_object() -> RealSet:
    """Return the 72 views of the first object, a turn in steps of five degrees."""
    data = datasets.load("coil20_32")
    X = data.X[_labels(data) == 0]
    angle = 2 * np.pi * np.arange(len(X)) / len(X)
    return RealSet(X, targets=np.stack([np.cos(angle), np.sin(angle)], axis=1))


def _europe() -> RealSet:
    """Return 5,000 cities of Europe on the unit sphere; targets are latitude and longitude."""
    data = datasets.load("cities")
    rows = np.flatnonzero(np.asarray(data.extras["names"])[_labels(data)].astype(str) == "Europe")
    return RealSet(data.X[rows], targets=data.parameters[rows]).sample(5_000)


def _labels(data: Dataset) -> Array:
    if data.labels is None:
        raise ValueError(f"{data.name} needs labels.")
    return data.labels


SETS: dict[str, Callable[[], RealSet]] = {
    "coil_object": _coil_object,
    "iris": lambda: _labeled("iris"),
    "wine": lambda: _labeled("wine", scale=standardized),
    "olivetti": lambda: _labeled("olivetti_faces"),
    "breast_cancer": lambda: _labeled("breast_cancer", scale=standardized),
    "olive_oil": lambda: _labeled("olive_oil", scale=standardized),
    "umist": lambda: _labeled("umist_faces32"),
    "isomap_faces": _isomap_faces,
    "coil20": lambda: _labeled("coil20_32"),
    "digits": lambda: _labeled("digits"),
    "frey": lambda: _labeled("frey_faces"),
    "pbmc3k": lambda: _labeled("pbmc3k_pca50"),
    "flow": lambda: _labeled("flow_cytometry", 3_000),
    "citeseq": lambda: _labeled("citeseq_cbmc", 3_000),
    "europe": _europe,
    "fashion": lambda: _labeled("fashion_mnist", 5_000),
    "wine_quality": _wine_quality,
    "fashion_20000": lambda: _labeled("fashion_mnist", 20_000),
}
"""The sets, from few rows to many. Archives that are missing are left out by the benchmark, and it says so."""
