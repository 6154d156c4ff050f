"""Linear methods: the span of the data, a quadratic form restricted to it, and the explicit map that comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base.estimator import estimator
from manifoldry.base.graph import GraphEmbedder
from manifoldry.extend.kernel_projection import Kernel
from manifoldry.extend.pieces import Piece
from manifoldry.extend.placement import Distances
from manifoldry.neighbors.sample import Sample
from manifoldry.run import Run
from manifoldry.solve.eigen import column_signs, smallest
from manifoldry.solve.scaling import center_gram
from manifoldry.solve.spectrum import Suggestion, gap
from manifoldry.values import Array, Embedding, FloatArray, Spectrum

RANK = 1e-8
"""Share of the largest standard deviation below which a direction of the rows is rounding: a unit coordinate along
it would magnify the rounding of the data, 1e-16, to more than 1e-8."""
RANGE = 1e-6
"""Share of a kernel's largest eigenvalue below which its range ends: kernels whose eigenvalues fall without a gap
leave the eigenvectors at a cut uncertain by 1e-16 over that share."""
GRAM_RANK = 1e-10
"""The same for the Gram matrix of distances between points, whose eigenvalues end at a gap."""
LOOKED_AT = 10
"""Eigenvalues found at least, so that there is a gap to see."""

Features = Callable[[Array, Run], FloatArray]
"""New points to the rows that a linear map takes: kernel values, where the map is linear in those."""


@dataclass(frozen=True)
class Rows:
    """What a linear map is applied to: the points themselves, or their rows of a kernel.

    Parameters
    ----------
    table : ndarray of shape (n, f)
        One row per point.
    loadings : ndarray of shape (f, q), optional
        ``table @ loadings`` are, up to a shift, coordinates with the right inner products; None: the table itself.
    features : callable, optional
        Makes the rows of new points; None: they are the points.
    least : float
        Share of the largest standard deviation below which a direction counts as rounding.
    """

    table: FloatArray
    loadings: FloatArray | None = None
    features: Features | None = None
    least: float = RANK


@dataclass(frozen=True)
class SquaredDistances:
    r"""Rows :math:`-\frac12 d^2` of given distances: the linear kernel up to terms that centering removes."""

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the rows of new points by their distances to the fitted ones."""
        return -0.5 * np.asarray(X, dtype=np.float64) ** 2


@dataclass(frozen=True)
class KernelRows:
    r"""Kernel values of points to the fitted ones, from their distances.

    Parameters
    ----------
    distances : Distances
        To the fitted points.
    kernel : Kernel
        A function is called with rows; inner products of the others are those about the mean of the fitted points,
        :math:`-\frac12` of squared distances centered.
    means : ndarray of shape (n,)
        Mean squared distance of each fitted point to all fitted ones.
    """

    distances: Distances
    kernel: Kernel
    means: FloatArray

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the kernel values, shape (m, n)."""
        rows, kernel = X if self.distances.X is None else dense(X), self.kernel
        if not isinstance(kernel.rule, str):
            return kernel(rows, self.distances.X, run)
        squares = self.distances(rows, run) ** 2
        if kernel.rule == "rbf":
            return np.exp(-kernel.gamma * squares)
        if kernel.rule == "linear":
            return -0.5 * squares
        own = squares.mean(axis=1, keepdims=True)
        inner = -0.5 * (squares - own - self.means + self.means.mean())
        if kernel.rule != "cosine":
            return kernel.of_products(inner)
        # The squared norm about the mean is the mean squared distance less half of the mean of all.
        norms = np.sqrt(np.maximum((own - self.means.mean() / 2) * (self.means - self.means.mean() / 2), 0.0))
        return np.divide(inner, norms, out=np.zeros_like(inner), where=norms > 0)


@dataclass(frozen=True)
class GramRows:
    """Given kernel values k(x, x_i), as the linear kernel of the distances that they imply."""

    half_norms: FloatArray

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return -1/2 of the squared distances, but for k(x, x), the same in the whole row, which the map ignores."""
        return np.asarray(X, dtype=np.float64) - self.half_norms


def rows_of(sample: Sample, run: Run) -> Rows:
    """Return the points as dense rows, or the kernel rows of Euclidean points of which only distances are given."""
    if sample.X is None:
        raise ValueError("A linear projection needs points or all pairwise distances; got only a graph.")
    if sample.pairwise:
        announce_kernel(sample.n_points, run)
        features = SquaredDistances()
        return kernel_rows(features(sample.X, run), features, run, max(GRAM_RANK, 100 * _rounding(sample.X)))
    run.announce("rows of the data", 8 * sample.X.shape[0] * sample.X.shape[1], "reduce the columns by TruncatedSVD")
    return Rows(dense(sample.X), least=max(RANK, 10 * _rounding(sample.X)))


def announce_kernel(n: int, run: Run) -> None:
    """Tell what a kernel and its decomposition will take: nine matrices of its size at the peak."""
    run.announce(f"kernel {n} x {n} and its range", 9 * 8 * n * n, "use fewer points, or rows instead of a kernel")


def _rounding(X: Any) -> float:
    return float(np.finfo(X.dtype).eps)


def kernel_rows(K: FloatArray, features: Features, run: Run, least: float = RANGE) -> Rows:
    r"""Return kernel rows with the loadings :math:`V \Lambda^{-1/2}` of kernel PCA, in the range of H K H.

    The range are the eigenvectors whose eigenvalues are at least the share ``least`` of the largest.
    """
    with run.stage("range"):
        centered = center_gram((K + K.T) / 2, run)
        values, vectors = np.linalg.eigh(centered)
        kept = values > least * values[-1]
        return Rows(K, vectors[:, kept] / np.sqrt(values[kept]), features)


def dense(X: Any) -> FloatArray:
    """Return rows as a dense array of float64."""
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)


@dataclass(frozen=True)
class Span:
    r"""The directions that the points have: principal coordinates with respect to masses of the points.

    Parameters
    ----------
    mean : ndarray of shape (f,)
        Mean of the rows, weighted by the masses.
    directions : ndarray of shape (f, r)
        ``(rows - mean) @ directions`` are the coordinates; orthonormal where the rows are the points.
    coordinates : ndarray of shape (n, r)
        Of the fitted points, :math:`P^T D P = \mathrm{diag}(lengths^2)`.
    lengths : ndarray of shape (r,)
        Descending, none of them rounding.
    features : callable, optional
        As in `Rows`.
    """

    mean: FloatArray
    directions: FloatArray
    coordinates: FloatArray
    lengths: FloatArray
    features: Features | None = None

    @property
    def rank(self) -> int:
        """Number of directions."""
        return len(self.lengths)

    def smallest(self, form: Any, count: int, run: Run) -> tuple[Spectrum, FloatArray]:
        r"""Return the lowest eigenpairs of :math:`P^T M P` and their orthonormal combinations of the directions."""
        return self._lowest(self.coordinates, form, count, run)

    def smallest_unit(self, form: Any, count: int, run: Run) -> tuple[Spectrum, FloatArray]:
        r"""Return the lowest pairs of :math:`P^T M P w = \lambda P^T D P w` with :math:`w^T P^T D P w = 1`.

        The lengths turn it into an ordinary eigenproblem, without the squared condition of the generalized one.
        """
        spectrum, mix = self._lowest(self.coordinates / self.lengths, form, count, run)
        return spectrum, mix / self.lengths[:, None]

    def _lowest(self, frame: FloatArray, form: Any, count: int, run: Run) -> tuple[Spectrum, FloatArray]:
        small = frame.T @ (form @ frame)
        spectrum = smallest((small + small.T) / 2, min(max(count, LOOKED_AT), self.rank), run=run)
        return spectrum, spectrum.vectors

    def embedding(self, spectrum: Spectrum, mix: FloatArray, n_components: int, **notes: Any) -> Embedding:
        """Return the projection by the first ``n_components`` columns of ``mix`` (r, k), zeros where there are fewer.

        The vectors of the spectrum become the projected points, the entry of largest magnitude positive.
        """
        projected = self.coordinates @ mix
        signs = column_signs(projected)
        signed, mix = projected * signs, mix * signs
        missing = max(0, n_components - mix.shape[1])
        components = np.pad((self.directions @ mix[:, :n_components]).T, ((0, missing), (0, 0)))
        projection = Projection(self.mean, components, self.features)
        return Embedding(
            np.pad(signed[:, :n_components], ((0, 0), (0, missing))),
            spectrum=replace(spectrum, vectors=signed),
            extension=projection,
            inverse=BackProjection.of(projection) if self.features is None else None,
            notes={"rank": self.rank, **notes},
        )


def span(rows: Rows, run: Run, *, mass: FloatArray | None = None, variance: float = 1.0) -> Span:
    """Return the span of the rows, cut where the leading directions hold the share ``variance`` of all variance.

    Parameters
    ----------
    rows : Rows
        Of the points.
    run : Run
        Gets the stage "span".
    mass : ndarray of shape (n,), optional
        Non-negative; equal if not given.
    variance : float
        At 1, all directions above rounding.
    """
    with run.stage("span"):
        weights = np.ones(len(rows.table)) if mass is None else mass
        mean = weights @ rows.table / weights.sum()
        centered = rows.table - mean
        inner = centered if rows.loadings is None else centered @ rows.loadings
        weighted = inner if mass is None else inner * np.sqrt(weights)[:, None]
        _, lengths, axes = np.linalg.svd(np.linalg.qr(weighted, mode="r"), full_matrices=False)
        left = 1.0 - np.cumsum(lengths**2) / (lengths**2).sum()
        before = np.concatenate([[1.0], left[:-1]])  # what the directions before this one leave
        kept = (lengths > rows.least * lengths[0]) & ((before > 1.0 - variance) | (variance == 1.0))
        axes = axes[kept].T
        directions = axes if rows.loadings is None else rows.loadings @ axes
        return Span(mean, directions, inner @ axes, lengths[kept], rows.features)


@dataclass(frozen=True)
class Projection:
    """The explicit linear map ``components @ (row - mean)``."""

    mean: FloatArray
    components: FloatArray
    features: Features | None = None

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        rows = dense(X) if self.features is None else self.features(X, run)
        # A stack of products, not one for the batch: a point's place must not depend on its company.
        return np.matmul(self.components, (rows - self.mean)[:, :, None])[:, :, 0]


@dataclass(frozen=True)
class BackProjection:
    """The shortest way back: the point of ``mean`` + row space that has the given coordinates."""

    mean: FloatArray
    directions: FloatArray

    @classmethod
    def of(cls, projection: Projection) -> BackProjection:
        """Return the pseudo-inverse of a projection."""
        return cls(projection.mean, np.linalg.pinv(projection.components).T)

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Lead coordinates back."""
        return self.mean + np.asarray(Y, dtype=np.float64) @ self.directions


@estimator
class LinearEmbedder(GraphEmbedder):
    """What the linear projections share: the constructor, the matrix, and reading the spectrum."""

    variance: float = 1.0

    _invertible = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if check.number("variance", self.variance, 0.0, open_low=True) > 1.0:
            raise ValueError(f"variance must be a share above 0 and at most 1; got {self.variance}.")

    def _span(self, sample: Sample, run: Run, mass: FloatArray | None = None) -> Span:
        return span(rows_of(sample, run), run, mass=mass, variance=self.variance)

    @property
    def components_(self) -> FloatArray:
        """The matrix, shape (n_components, n_features): ``transform`` is ``(X - mean_) @ components_.T``."""
        return self._projection.components

    @property
    def mean_(self) -> FloatArray:
        """The point that is sent to the origin, shape (n_features,)."""
        return self._projection.mean

    @property
    def _projection(self) -> Projection:
        extension = getattr(self, "_extension", None)
        if isinstance(extension, Piece):
            extension = extension.extension
        if not isinstance(extension, Projection) or extension.features is not None:
            raise AttributeError(
                f"This {type(self).__name__} has no single matrix: it is not fitted, was given distances or a kernel, "
                "or has one matrix per component (disconnected='apart')."
            )
        return extension

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension before the widest gap of the spectrum, and why."""
        check_is_fitted(self, "embedding_")
        return gap(self.spectrum_.values, "eigenvalue of the projected form")
