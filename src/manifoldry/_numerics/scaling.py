"""Classical scaling: coordinates whose inner products match the doubly centered squared distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import Array, FloatArray, IntArray, Spectrum
from manifoldry._numerics.eigen import column_signs, largest, smallest
from manifoldry._numerics.extension.components import padded
from manifoldry._numerics.geometry.neighborhoods import map_rows
from manifoldry._numerics.geometry.principal import column_means, descending_eigh

MAX_ADDITIVE_STEPS = 50
ADDITIVE_ROUNDING_TOL = 1e-12
"""A negative v'K(c)v below this share of v'K(D^2)v is rounding: a sum of n^2 products, each accurate to 1e-16."""
MAX_FULL_SPECTRUM = 1000
SCALING_BLOCK_ENTRIES = 2_000_000  # entries worked on at a time, so that no second n x n array is needed


@dataclass(frozen=True)
class Scaling:
    """The eigenpairs of -1/2 H D2 H, and the column means of D2, which are needed to embed new points."""

    spectrum: Spectrum
    mean_squares: FloatArray

    @property
    def coordinates(self) -> FloatArray:
        """Columns sqrt(lambda_j) v_j; a non-positive eigenvalue gives a column of zeros."""
        return self.spectrum.scaled(0.5)

    def head(self, m: int) -> Scaling:
        """Return the scaling of the first ``m`` pairs."""
        return Scaling(self.spectrum.head(m), self.mean_squares)

    def place(self, squares: Array) -> FloatArray:
        r"""Embed points by their squares (m, n): :math:`y = \frac12 \Lambda^{-1/2} V^T (\overline{D2} - \delta)`."""
        spectrum = self.spectrum
        # Values that are rounding errors of the largest belong to directions in which the points do not extend.
        positive = spectrum.values > max(spectrum.values[0], 0.0) * len(spectrum.vectors) * np.finfo(float).eps
        inverse = np.zeros(len(spectrum))
        inverse[positive] = 0.5 / np.sqrt(spectrum.values[positive])
        weights = spectrum.vectors * inverse
        return self.mean_squares @ weights - squares @ weights


def classical_scaling(lengths: FloatArray, n_components: int, run: Run, *, overwrite: bool = False) -> Scaling:
    r"""Return the top eigenpairs of :math:`B = -\frac12 H D^{(2)} H`, H = I - 11'/n, from symmetric distances (n, n).

    With ``overwrite``, B overwrites ``lengths`` (torgerson1952, gower1966).
    """
    with run.stage("double centering"):
        gram = lengths if overwrite else lengths.copy()
        ranges = run.ranges(len(gram), max(1, SCALING_BLOCK_ENTRIES // len(gram)))

        def square(lo: int, hi: int) -> FloatArray:
            block = gram[lo:hi]
            np.multiply(block, block, out=block)
            return block.mean(axis=1, dtype=np.float64)

        means = np.concatenate(run.map(square, ranges))
        _center(gram, means, -0.5, run)
    return Scaling(largest(gram, n_components, run=run), means)


def center_gram(gram: FloatArray, run: Run) -> FloatArray:
    """Return the centered Gram matrix H G H."""
    centered = np.array(gram, dtype=np.float64)
    _center(centered, centered.mean(axis=1), 1.0, run)
    return centered


def _center(matrix: FloatArray, means: FloatArray, factor: float, run: Run) -> None:
    """Turn the symmetric ``matrix`` with row means ``means`` into factor * H matrix H, in place."""
    offset = means.mean()

    def block(lo: int, hi: int) -> None:
        part: Any = matrix[lo:hi]
        part -= means.astype(part.dtype)
        part -= (means[lo:hi, None] - offset).astype(part.dtype)
        part *= factor

    run.map(block, run.ranges(len(matrix), max(1, SCALING_BLOCK_ENTRIES // len(matrix))))


def landmark_scaling(lengths: FloatArray, landmarks: IntArray, n_components: int, run: Run) -> Scaling:
    """Return the classical scaling of the landmarks (desilva2004), from their distances (l, n) to all points."""
    among = lengths[:, landmarks].astype(np.float64)
    return classical_scaling((among + among.T) / 2, n_components, run, overwrite=True)


def embed_from_landmarks(scaling: Scaling, lengths: FloatArray, run: Run) -> FloatArray:
    """Embed all points, given their distances from the landmarks, the columns of ``lengths`` (l, n)."""

    def block(lo: int, hi: int) -> FloatArray:
        return scaling.place(lengths[:, lo:hi].T.astype(np.float64) ** 2)

    shape, grain = (lengths.shape[1], len(scaling.spectrum)), SCALING_BLOCK_ENTRIES // len(lengths)
    return map_rows(block, shape, grain, run, blas=True)


def principal_scaling(X: Array, n_components: int, run: Run) -> tuple[Scaling, FloatArray]:
    """Return PCA's scores as the scaling of Euclidean distances between rows of ``X``, without forming these.

    Also return the directions (features, n_components) that project new points, zero beyond the rank of X.
    """
    n, features = X.shape
    centered = np.asarray(X, dtype=np.float64) - X.mean(axis=0, dtype=np.float64)
    wide = features > n
    with blas_threads_for(min(centered.shape), max(centered.shape)):
        product = centered @ centered.T if wide else centered.T @ centered
    k = min(n_components, len(product))
    pairs = largest(product, k, run=run)
    norms = np.sqrt(np.maximum(pairs.values, 0.0))
    # Values that are rounding errors of the largest belong to directions in which the data does not extend.
    real = norms > norms[0] * np.sqrt(len(product) * np.finfo(float).eps)
    inverse = np.where(real, 1.0 / np.where(real, norms, 1.0), 0.0)
    directions = np.zeros((features, n_components))
    directions[:, :k] = (centered.T @ pairs.vectors) * inverse if wide else pairs.vectors * real
    directions *= column_signs(centered @ directions)
    scores = centered @ directions
    values, residuals = np.zeros(n_components), np.zeros(n_components)
    values[:k], residuals[:k] = np.where(real, pairs.values, 0.0), pairs.residuals
    unit = scores / np.where(values > 0, np.sqrt(np.where(values > 0, values, 1.0)), 1.0)
    squares = (centered**2).sum(axis=1)
    spectrum = Spectrum(values, unit, residuals, "largest", pairs.solver)
    return Scaling(spectrum, squares + squares.mean()), directions


def principal_rotation(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return centered points in their principal axes, the axes in columns, and the mean."""
    mean = column_means(points)
    centered = points - mean
    _, axes = descending_eigh(centered.T @ centered)
    turned = centered @ axes
    signs = column_signs(turned)
    return turned * signs, axes * signs, mean


def rotated_spectrum(turned: FloatArray) -> Spectrum:
    """Return the eigenpairs of the Gram matrix of points given in their principal axes, the longest first."""
    values = np.einsum("ij,ij->j", turned, turned)
    vectors = turned / np.sqrt(np.where(values > 0, values, 1.0))
    return Spectrum(values, vectors, np.zeros(len(values)), "largest", "lowrank")


def principal_axes(points: FloatArray, n_components: int) -> tuple[FloatArray, Spectrum]:
    """Return points (n, p) in principal axes, padded with zeros, and all p eigenpairs of the Gram matrix."""
    turned = principal_rotation(points)[0]
    return padded(turned, n_components)[:, :n_components], rotated_spectrum(turned)


def negative_part(gram: FloatArray, run: Run) -> dict[str, float | None]:
    """Return the lowest eigenvalue, and the share of negative ones in the sum of magnitudes (None for many points)."""
    if len(gram) <= MAX_FULL_SPECTRUM:
        values = np.linalg.eigvalsh(gram)
        return {"lowest": float(values[0]), "share": float(-values[values < 0].sum() / np.abs(values).sum())}
    return {"lowest": float(smallest(gram, 1, run=run).values[0]), "share": None}


def additive_constant(lengths: FloatArray, run: Run) -> float:
    r"""Return the smallest c >= 0 for which the distances plus c (between different points) are Euclidean.

    The kernel is :math:`K(c) = K(D^2) + 2c K(D) + \frac{c^2}{2} H`, and c the largest root of its lowest eigenvalue,
    approached from below by the larger roots of :math:`v^T K(c) v` with the current lowest eigenvectors v, as in
    Newton's method. Points at distance 0 from each other count once (cailliez1983, choi2007).
    """
    with run.stage("additive constant"):
        first = np.unique(np.argmax(lengths == 0, axis=1))
        D = np.array(lengths if len(first) == len(lengths) else lengths[np.ix_(first, first)], dtype=np.float64)
        squares = D**2
        _center(squares, squares.mean(axis=1), -0.5, run)
        _center(D, D.mean(axis=1), -0.5, run)
        ones = np.full((len(D), 1), 1 / np.sqrt(len(D)))
        c, kernel = 0.0, squares.copy()
        for _ in range(MAX_ADDITIVE_STEPS):
            lowest = smallest(kernel, 1, null=ones, run=run)
            v = lowest.vectors[:, 0]
            fixed, slope = float(v @ squares @ v), float(v @ D @ v)
            if fixed + 2 * c * slope + c * c / 2 >= -ADDITIVE_ROUNDING_TOL * abs(fixed):
                break
            c = -2 * slope + np.sqrt(4 * slope**2 - 2 * fixed)
            kernel = squares + 2 * c * D
            kernel[np.diag_indices_from(kernel)] += c * c / 2
        return c
