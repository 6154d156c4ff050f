"""As many labeled rows as wanted, like real ones: points between MNIST's digits and their near neighbors.

A row is x_i + u (x_j - x_i) plus a little noise: i is any of the 70,000 digits (50 principal components of the pixels),
j one of its nearest ten of the same class, u uniform in [0, 1]. Block b is computed from the seed and b alone, so rows
are never in memory at once, and two passes see the same. Without MNIST (``MANIFOLDRY_DATA``) 70,000 points of ten
curved clusters stand in for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manifoldry import chunked_data, datasets
from manifoldry.data._chunked import ChunkedData

N_COLUMNS, N_NEAREST = 50, 10
BLOCK_ROWS = 65_536
NOISE_SHARE = 0.1
"""Noise of a row, as a share of the distance between a digit and its tenth neighbor."""


@dataclass(frozen=True)
class InterpolatedDigits:
    """Digits (m, 50), their classes, their near neighbors of the same class (m, 10), and the noise of a column."""

    X: np.ndarray
    labels: np.ndarray
    near: np.ndarray
    noise: float
    name: str
    seed: int = 0

    @classmethod
    def load(cls, seed: int = 0) -> InterpolatedDigits:
        """Return rows between the digits of MNIST, or of the set that stands in for it."""
        X, labels, name = _mnist() if "MANIFOLDRY_DATA" in os.environ else _stand_in()
        near = np.empty((len(X), N_NEAREST), dtype=np.int32)
        reach = []
        for label in np.unique(labels):
            (members,) = np.nonzero(labels == label)
            found, distances = _nearest(X[members])
            near[members] = members[found]
            reach.append(distances[:, -1])
        noise = NOISE_SHARE * float(np.concatenate(reach).mean()) / np.sqrt(X.shape[1])
        return cls(X, labels, near, noise, name, seed)

    @classmethod
    def cached(cls, path: Path) -> InterpolatedDigits:
        """Return the same from a file, which is made if there is none: the neighbors take some seconds."""
        if not path.exists():
            np.savez(path, **vars(cls.load()))
        with np.load(path) as held:
            return cls(held["X"], held["labels"], held["near"], float(held["noise"]), str(held["name"]))

    def block(self, b: int, n_rows: int = BLOCK_ROWS) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and labels of a block."""
        rng = np.random.default_rng([self.seed, b])
        i = rng.integers(len(self.X), size=n_rows)
        j = self.near[i, rng.integers(N_NEAREST, size=n_rows)]
        u = rng.random((n_rows, 1), dtype=np.float32)
        noise = rng.standard_normal((n_rows, self.X.shape[1]), dtype=np.float32)
        return self.X[i] + u * (self.X[j] - self.X[i]) + np.float32(self.noise) * noise, self.labels[i]

    def blocks(self, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield n rows with their labels in blocks; the first rows are the same whatever n is."""
        for b, lo in enumerate(range(0, n, BLOCK_ROWS)):
            rows, labels = self.block(b)
            yield rows[: n - lo], labels[: n - lo]

    def rows(self, n: int) -> ChunkedData:
        """Return n rows in blocks, made when they are read."""
        return chunked_data(lambda: (rows for rows, _ in self.blocks(n)), n_rows=n)


def _nearest(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest others of each row, and their distances."""
    from sklearn.neighbors import NearestNeighbors

    distances, found = NearestNeighbors(n_neighbors=N_NEAREST, algorithm="brute").fit(X).kneighbors()
    return found, distances


def _mnist() -> tuple[np.ndarray, np.ndarray, str]:
    mnist = datasets.load("mnist")
    return leading_columns(mnist.X), mnist.labels.astype(np.int64), "MNIST"


def leading_columns(X: np.ndarray) -> np.ndarray:
    """Return the 50 leading principal components of rows, in single precision; fewer columns as they are."""
    if X.shape[1] <= N_COLUMNS:
        return np.ascontiguousarray(X, dtype=np.float32)
    centered = X.astype(np.float32) - X.mean(axis=0, dtype=np.float32)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return np.ascontiguousarray(centered @ vectors[:, ::-1][:, :N_COLUMNS])


def _stand_in() -> tuple[np.ndarray, np.ndarray, str]:
    rng = np.random.default_rng(0)
    labels = np.arange(70_000) % 10
    inner = rng.standard_normal((len(labels), 8))
    turns = rng.standard_normal((10, 2, 8, N_COLUMNS)) / np.sqrt(8)
    centers = 4.0 * rng.standard_normal((10, N_COLUMNS)) / np.sqrt(N_COLUMNS)
    flat, bent = (np.einsum("ia,iac->ic", part, turns[labels, which]) for which, part in enumerate((inner, inner**2)))
    return (centers[labels] + flat + 0.3 * bent).astype(np.float32), labels, "ten curved clusters"
