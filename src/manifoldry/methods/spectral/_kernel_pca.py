"""Kernel PCA: principal components of the points' images under a kernel's feature map."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Spectrum
from manifoldry._numerics.eigen import column_signs, largest, smallest
from manifoldry._numerics.elbow import Suggestion, elbow
from manifoldry._numerics.extension.distances import pairwise
from manifoldry._numerics.extension.kernel import Kernel, KernelFunction, KernelName, KernelProjection, LocalPreimage
from manifoldry._numerics.extension.linear import LinearInverse
from manifoldry.methods._base import Embedder, estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import COEF0_TEXT, DEGREE_TEXT, GAMMA_TEXT, KERNEL_TEXT

MAX_GAMMA_POINTS = 1000
"""Points among which the median distance is taken: their half million pairs settle it to a fraction of a percent."""
POSITIVE_KERNELS = ("rbf", "linear", "cosine")
"""Kernels without negative eigenvalues, whatever the points; neither has poly if coef0 is not negative."""
LOWEST_TOL = 1e-3  # relative residual at which the lowest eigenvalue is accurate enough
MIN_NEGATIVE_SHARE = 1e-6  # share of the largest eigenvalue below which a negative one counts as rounding


@register(
    family="kernel",
    problem="eigen",
    papers=("scholkopf1998", "williams2001", "mika1999"),
    gives=("transform", "inverse", "spectrum"),
    keeps="inner products in the feature space of the kernel: similar points stay close",
    loses="distances beyond the reach of a local kernel",
    use_when="a kernel says what similar means (strings, graphs, histograms), or components must bend a little",
    fails_when="gamma is far off: too large isolates every point, too small gives PCA",
    cost="O(n^2) memory, a few products with the n x n kernel; with m landmarks O(n m^2) time, n x m memory",
    test_params={"n_components": 2},
)
@estimator
class KernelPCA(Embedder):
    r"""Find principal components in the feature space of a kernel, if a kernel defines what similar means.

    Kernel principal component analysis solves

    .. math:: K_c u_k = \mu_k u_k, \qquad K_c = H K H, \qquad
              y_k(x) = \frac{1}{\sqrt{\mu_k}} \sum_i u_k(i)\, k_c(x, x_i)

    The scores of the fitted points are :math:`\sqrt{\mu_k}\, u_k`; new points are centered with the means of the
    fitted ones. The linear kernel gives PCA. Only the required eigenpairs are computed.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, orthogonal columns with squared norms equal to the eigenvalues; components that the kernel does
        not have (eigenvalue zero or below) are zero.
    spectrum_ : Spectrum
        Eigenpairs of the centered kernel, or of its approximation.
    diagnostics_ : dict
        Seconds, memory, the ``gamma`` used, and ``kept``: the share of the trace of the centered kernel. For a kernel
        that may be indefinite (sigmoid, poly, given or a function), ``lowest``: the lowest eigenvalue over the largest.

    See Also
    --------
    PCA : the linear kernel.
    PolynomialPCA : the poly kernel with explicit monomials.
    LaplacianEigenmaps : local similarity.

    Notes
    -----
    `inverse_transform` searches points with given scores. For the linear kernel it is the inverse of PCA. For
    others a pre-image need not exist; the answer is a linear regression of the fitted points on their scores,
    weighted towards the scores nearest to the given ones. It needs dense points.

    Examples
    --------
    >>> from manifoldry import KernelPCA, datasets
    >>> model = KernelPCA(n_components=2, kernel="rbf").fit(datasets.s_curve(300).X)
    >>> model.embedding_.shape, len(model.spectrum_)
    ((300, 2), 2)
    """

    kernel: KernelName | KernelFunction = parameter(KERNEL_TEXT, default="rbf")
    gamma: Positive | Literal["auto"] | None = parameter(GAMMA_TEXT, default="auto")
    degree: PositiveInt = parameter(DEGREE_TEXT, default=3)
    coef0: float = parameter(COEF0_TEXT, default=1.0)
    n_landmarks: PositiveInt | None = parameter(
        "Number of random points of a Nyström approximation of the kernel, which needs no n x n matrix; with all "
        "points nothing changes. None is no approximation.",
        default=None,
    )

    _invertible = True

    _chunk_support = ChunkSupport(n_rows=5_000)

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the dimension at a clear elbow of the kernel's variance left out, else the measured one, and why.

        Parameters
        ----------
        max_components : int
            The largest dimension tried. Beyond the fitted ones the kernel of the fitted points (of the landmarks)
            is taken again; that needs more than a precomputed matrix, whose fit must have them already.
        """
        check_is_fitted(self, "embedding_")
        n_fitted, model = len(self.spectrum_), self
        if max_components > n_fitted:
            if self._pairwise:
                raise ValueError(
                    f"A precomputed kernel was fitted with {n_fitted} components, so no more can be evaluated; "
                    f"got max_components = {max_components}: fit with n_components={max_components}."
                )
            settings = {**self.get_params(), "n_components": max_components, "n_landmarks": None}
            model = type(self)(**settings).fit(self._extension.anchors)
        shares = np.cumsum(np.maximum(model.spectrum_.values[:max_components], 0.0)) / model.diagnostics_["variance"]
        return elbow(1.0 - shares, "share of the kernel's variance left out", self._measured())

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.n_landmarks is not None:
            check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, n_points)
            if self._pairwise:
                raise ValueError("n_landmarks needs points, and kernel='precomputed' has none; leave one of them out.")

    def _embed(self, X: Any, run: Run) -> Embedding:
        kernel = self._resolved(X, run)
        if self.n_landmarks is None:
            scores, spectrum, extension, variance = _exact(X, kernel, self.n_components, run)
        else:
            scores, spectrum, extension, variance = _nystrom(X, kernel, self.n_components, self.n_landmarks, run)
        notes: dict[str, Any] = {"variance": variance, "kept": float(np.maximum(spectrum.values, 0).sum() / variance)}
        if self.n_landmarks is None and not (isinstance(kernel.rule, str) and kernel.rule in POSITIVE_KERNELS):
            notes.update(_negative_part(X, kernel, spectrum, run))
        if kernel.rule in ("rbf", "poly", "sigmoid"):
            notes["gamma"] = kernel.gamma
        return Embedding(scores, spectrum=spectrum, extension=extension, inverse=self._preimage(scores, X), notes=notes)

    def _resolved(self, X: Any, run: Run) -> Kernel:
        gamma = self.gamma
        if gamma is None or isinstance(gamma, str):
            gamma = 0.5 / median_distance(X, run) ** 2 if self.kernel == "rbf" else 1.0
        return Kernel(self.kernel, float(gamma), self.degree, self.coef0)

    def _preimage(self, scores: FloatArray, X: Any) -> LinearInverse | LocalPreimage | None:
        if self._pairwise or issparse(X):
            return None
        if self.kernel == "linear":
            return LinearInverse.fit(scores, X)
        return LocalPreimage.of(scores, X)

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_degenerate(self, X: Any) -> None:
        if not self._pairwise:
            check.distinct_points(X)
        elif issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix of kernel values; got a sparse one.")
        else:
            check.square_gram(X, "kernel='precomputed'")
            if not np.diagonal(X).any() and X.min() >= 0:
                raise ValueError(
                    "kernel='precomputed' needs kernel values, which are largest on the diagonal; got zeros there, as "
                    "of distances: pass np.exp(-gamma * D**2), or use ClassicalMDS(metric='precomputed')."
                )


def median_distance(X: Any, run: Run) -> float:
    """Return the median of the positive distances between rows, of at most 1000 rows taken at random."""
    n = X.shape[0]
    few = X if n <= MAX_GAMMA_POINTS else X[np.sort(run.rng("bandwidth").permutation(n)[:MAX_GAMMA_POINTS])]
    lengths = pairwise(few, few, "euclidean", None, run)
    positive = lengths[lengths > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def _exact(X: Any, kernel: Kernel, d: int, run: Run) -> tuple[FloatArray, Spectrum, KernelProjection, float]:
    """Return scores, eigenpairs of H K H, the projection of new points, and the trace."""
    n = X.shape[0]
    run.announce(f"kernel {n} x {n}", 8 * n * n, "set n_landmarks")
    with run.stage("kernel"):
        centered, means = _centered(kernel, X, run)
    spectrum = largest(centered, d, run=run)
    weights = spectrum.vectors * _inverse_roots(spectrum.values, n)
    weights -= weights.mean(axis=0)
    projection = KernelProjection(None if kernel.rule == "precomputed" else X, kernel, weights, means @ weights)
    return spectrum.scaled(0.5), spectrum, projection, float(np.trace(centered))


def _centered(kernel: Kernel, X: Any, run: Run) -> tuple[FloatArray, FloatArray]:
    """Return the kernel of all pairs with centered rows and columns, and its means."""
    centered = kernel(X, X, run)
    if not kernel.allocates_result:
        centered = centered.copy()
    means = centered.mean(axis=0)
    centered -= means
    centered -= (means - means.mean())[:, None]
    return centered, means


def _nystrom(
    X: Any, kernel: Kernel, d: int, n_landmarks: int, run: Run
) -> tuple[FloatArray, Spectrum, KernelProjection, float]:
    """Return the same for :math:`K_{nm} K_{mm}^{-1} K_{mn}`, the linear kernel of :math:`K_{nm} K_{mm}^{-1/2}`."""
    n = X.shape[0]
    landmarks = X[np.sort(run.rng("landmarks").permutation(n)[:n_landmarks])]
    run.announce(f"kernel and features {n} x {n_landmarks}", 16 * n * n_landmarks, "take fewer landmarks")
    with run.stage("kernel"):
        among = kernel(landmarks, landmarks, run)
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        whiten = vectors * _inverse_roots(values, n_landmarks)
        features = kernel(X, landmarks, run) @ whiten
        mean = features.mean(axis=0)
        features -= mean
        covariance = features.T @ features
    pairs = largest(covariance, d, run=run)
    scores = features @ pairs.vectors
    signs = column_signs(scores)
    directions, scores = pairs.vectors * signs, scores * signs
    spectrum = Spectrum(
        pairs.values, scores * _inverse_roots(pairs.values, n), pairs.residuals, "largest", pairs.solver
    )
    projection = KernelProjection(landmarks, kernel, whiten @ directions, mean @ directions)
    return scores, spectrum, projection, float(np.trace(covariance))


def _negative_part(X: Any, kernel: Kernel, spectrum: Spectrum, run: Run) -> dict[str, Any]:
    """Return the lowest eigenvalue over the largest, and advice if the kernel is indefinite."""
    centered, _ = _centered(kernel, X, run)
    lowest = float(smallest(centered, 1, tol=LOWEST_TOL, run=run).values[0])
    top = max(float(np.abs(spectrum.values).max(initial=0.0)), -lowest, np.finfo(float).tiny)
    notes: dict[str, Any] = {"lowest": lowest / top}
    if lowest < -MIN_NEGATIVE_SHARE * top:
        missing = int(np.count_nonzero(spectrum.values <= 0))
        zero = f"; {missing} of {len(spectrum)} components are zero" if missing else ""
        notes["advice"] = (
            f"The kernel is indefinite: its lowest eigenvalue is {lowest / top:.2g} of the largest in magnitude, and "
            f"what it describes is in no component{zero}.",
        )
    return notes


def _inverse_roots(values: FloatArray, n: int) -> FloatArray:
    """Return values ** -1/2, and 0 for values at the rounding of the largest: directions that are not there."""
    real = values > max(float(values.max()), 0.0) * n * np.finfo(float).eps
    return np.where(real, 1.0 / np.sqrt(np.where(real, values, 1.0)), 0.0)
