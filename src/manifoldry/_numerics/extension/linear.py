"""Linear maps of points or of their kernel rows, their inverses, and the embeddings they define."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, Extension, FloatArray, Spectrum
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.eigen.linear_span import SPAN_RANK_TOL, FeatureRows, PrincipalSpan, kernel_feature_rows
from manifoldry._numerics.extension.distances import FittedDistances
from manifoldry._numerics.extension.kernel import Kernel
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, dense
from manifoldry.graph._sample import NeighborhoodData

DISTANCE_RANK_TOL = 1e-10  # share of the largest eigenvalue of the Gram matrix of distances at which its range ends


@dataclass(frozen=True)
class LinearMap:
    """The linear map ``components @ (row - mean)``; ``features`` computes the rows of new points, None: the points."""

    mean: FloatArray
    components: FloatArray
    features: Extension | None = None

    def __call__(self, X: Any, run: Run) -> FloatArray:
        blocks = [np.empty((0, len(self.components)))]
        for lo, hi in run.ranges(X.shape[0], max(1, MAX_STACK_ENTRIES // len(self.mean))):
            rows = dense(X[lo:hi]) if self.features is None else self.features(X[lo:hi], run)
            # A stack of products, not one for the batch: coordinates must not depend on the rest of the batch.
            blocks.append(np.matmul(self.components, (rows - self.mean)[:, :, None])[:, :, 0])
        return np.concatenate(blocks)


@dataclass(frozen=True)
class LinearInverse:
    """Inverse transform: ``mean + Y @ directions``."""

    mean: FloatArray
    directions: FloatArray

    @classmethod
    def of(cls, forward: LinearMap) -> LinearInverse:
        """Return the pseudo-inverse of a map: the point nearest to the mean with the given coordinates."""
        return cls(forward.mean, np.asarray(np.linalg.pinv(forward.components).T, dtype=np.float64))

    @classmethod
    def fit(cls, scores: FloatArray, X: FloatArray) -> LinearInverse:
        """Return the least-squares regression of the rows of ``X`` (n, p) on centered scores (n, d)."""
        mean = X.mean(axis=0, dtype=np.float64)
        return cls(mean, np.linalg.pinv(scores) @ (X - mean))

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        return np.asarray(self.mean + np.asarray(Y, dtype=np.float64) @ self.directions)


@dataclass(frozen=True)
class DistanceFeatures:
    r"""Rows :math:`-\frac12 d^2` of given distances: the linear kernel up to terms that centering removes."""

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        return -0.5 * np.asarray(X, dtype=np.float64) ** 2


@dataclass(frozen=True)
class GramFeatures:
    """Given kernel values k(x, x_i), as the linear kernel of the distances they imply."""

    half_norms: FloatArray

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return -1/2 of the squared distances, up to k(x, x), constant in a row, which the map ignores."""
        return np.asarray(X, dtype=np.float64) - self.half_norms


@dataclass(frozen=True)
class KernelFeatures:
    """Kernel values to the fitted points, from distances: inner products are about the mean. Functions get rows."""

    distances: FittedDistances
    kernel: Kernel
    means: FloatArray  # mean squared distances (n,) of the fitted points

    def __call__(self, X: Array, run: Run) -> FloatArray:
        rows, kernel = X if self.distances.X is None else dense(X), self.kernel
        if not isinstance(kernel.rule, str):
            return kernel(rows, self.distances.X, run)
        squares = self.distances(rows, run) ** 2
        if kernel.rule == "rbf":
            return np.exp(-kernel.gamma * squares)
        if kernel.rule == "linear":
            return -0.5 * squares
        row_means = squares.mean(axis=1, keepdims=True)
        inner = -0.5 * (squares - row_means - self.means + self.means.mean())
        if kernel.rule != "cosine":
            return kernel.of_products(inner)
        # The squared norm about the mean is the mean squared distance less half of the mean of all.
        norms = np.sqrt(np.maximum((row_means - self.means.mean() / 2) * (self.means - self.means.mean() / 2), 0.0))
        return np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0)


def feature_rows(sample: NeighborhoodData, run: Run) -> FeatureRows:
    """Return the points as dense rows, or the kernel rows of Euclidean points given by distances."""
    if sample.X is None:
        raise ValueError("A linear projection needs points or all pairwise distances; got only a graph.")
    rounding = float(np.finfo(sample.X.dtype).eps)
    if sample.pairwise:
        announce_kernel(sample.n_points, run)
        features = DistanceFeatures()
        return kernel_feature_rows(features(sample.X, run), features, run, max(DISTANCE_RANK_TOL, 100 * rounding))
    run.announce("rows of the data", 8 * sample.X.shape[0] * sample.X.shape[1], "reduce the columns with TruncatedSVD")
    return FeatureRows(dense(sample.X), rank_tol=max(SPAN_RANK_TOL, 10 * rounding))


def announce_kernel(n: int, run: Run) -> None:
    """Announce the memory of a kernel and its decomposition: nine matrices of its size at the peak."""
    run.announce(f"kernel {n} x {n} and its range", 9 * 8 * n * n, "use fewer points, or rows instead of a kernel")


def embed_linearly(
    span: PrincipalSpan, spectrum: Spectrum, w: FloatArray, n_components: int, **notes: Any
) -> Embedding:
    """Return the projection onto the first ``n_components`` columns of ``w`` (r, k), padded with zeros."""
    projected = span.coordinates @ w
    signs = column_signs(projected)
    signed, w = projected * signs, w * signs
    missing = max(0, n_components - w.shape[1])
    components = np.pad((span.directions @ w[:, :n_components]).T, ((0, missing), (0, 0)))
    forward, explicit = LinearMap(span.mean, components, span.features), span.features is None
    return Embedding(
        np.pad(signed[:, :n_components], ((0, 0), (0, missing))),
        spectrum=replace(spectrum, vectors=signed),
        extension=forward,
        inverse=LinearInverse.of(forward) if explicit else None,
        notes={"rank": span.rank, **notes},
        fitted={"components_": components, "mean_": span.mean} if explicit else {},
    )
