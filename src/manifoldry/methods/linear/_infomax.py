"""Infomax: independent components by maximum likelihood, of sources sharper or flatter than Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import centered_rows, whitened_rows
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import MAX_ITER_TEXT
from manifoldry.methods.linear._base import LinearMixin, linear_embedding

GAUSSIAN_ERRORS = 2.5
"""Standard errors of a Gaussian's kurtosis within which a source counts as Gaussian: 99 of 100 Gaussians do."""


@register(
    problem="likelihood",
    papers=("bell1995", "amari1996", "lee1999b", "ablin2018"),
    gives=("transform", "inverse", "trace"),
    keeps="directions along which the data is independent, sharp or flat sources alike",
    loses="the size of the sources; everything that is not a linear mixture",
    use_when="signals were mixed linearly and must be separated",
    fails_when="more than one source is Gaussian, or rows are few for the number of sources",
    cost="a decomposition as for PCA, then O(n k^2) per iteration, tens of them",
)
@estimator
class InfomaxICA(LinearMixin, Embedder):
    r"""Separate linearly mixed signals into independent sources, sharp or flat ones alike, by extended Infomax.

    .. math:: \max_W \log |\det W| + \sum_k E \log p_k(y_k), \qquad y = W z, \qquad
              p_k(y) \propto e^{-y^2/2} \cosh(y)^{-\kappa_k}

    for whitened leading principal components z. The kind :math:`\kappa_k` of a source is 1 for a sharp
    (super-Gaussian) and -1 for a flat (sub-Gaussian) one, by the rule that makes the solution stable. Steps are
    relative to W, :math:`W \leftarrow (I + D) W`, along the natural gradient :math:`I - E\, \varphi(y) y^T` times
    the inverse of the Hessian for independent sources; none lowers the likelihood of given kinds.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The sources, of mean 0 and variance 1, by their part in the variance of the data; zeros beyond the rank.
    components_ : ndarray of shape (n_components, n_features)
        The matrix that unmixes: ``embedding_ = (X - mean_) @ components_.T``.
    mixing_ : ndarray of shape (n_features, n_components)
        The matrix that mixes sources to rows.
    mean_
    trace_ : Trace
        Mean log-likelihood of a whitened row after each iteration; falls only where a kind changes.
    diagnostics_ : dict
        Seconds, ``kinds`` (1 or -1) and ``kurtosis`` (0 for a Gaussian) of the sources.

    See Also
    --------
    FastICA : fixed-point iteration of scikit-learn.
    ProjectionPursuit : single directions far from Gaussian.

    Notes
    -----
    The start is the principal components, so nothing is random. Up to a constant the negative likelihood is the mutual
    information of the sources plus the divergences of their true densities from those of the model. It is also the
    entropy transmitted by a network of sigmoid units with these densities as slopes, hence the name. Unlike those of
    FastICA, sources are exactly uncorrelated only if that is likeliest.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import InfomaxICA
    >>> rng = np.random.default_rng(0)
    >>> S = np.column_stack([rng.laplace(size=2000), rng.uniform(-1, 1, 2000)])
    >>> sources = InfomaxICA(n_components=2).fit_transform(S @ [[1.0, 0.5], [-0.3, 1.0]])
    >>> abs(np.corrcoef(S.T, sources.T)[:2, 2:]).max(axis=1).round(2)
    array([1., 1.])
    """

    n_components: PositiveInt = parameter("Number of sources.", default=2, kw_only=False)
    max_iter: PositiveInt = parameter(MAX_ITER_TEXT, default=500)
    tol: Positive = parameter(
        r"The iteration stops when no entry of :math:`I - E\, \varphi(y) y^T` exceeds this.", default=1e-10
    )

    mixing_: FloatArray = fitted()

    _chunk_support = ChunkSupport(n_rows=100_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        centered, mean = centered_rows(dense(X))
        with run.stage("whitening"):
            scores, whiten, color = whitened_rows(centered)
            k = self.n_components
            scores, whiten, color = scores[:, :k], whiten[:, :k], color[:k].T
        with run.stage("likelihood"), run.stoppable():
            optimum, trace = maximize_likelihood(scores, self.max_iter, self.tol, run)
        sizes = np.sqrt((optimum.rows**2).mean(axis=0))
        parts = np.linalg.norm(color @ np.linalg.inv(optimum.unmixing), axis=0) * sizes
        order = np.argsort(-parts, kind="stable")
        unmixing = (optimum.unmixing / sizes[:, None])[order]
        sources = scores @ unmixing.T
        signs, missing = column_signs(sources), self.n_components - len(order)
        components = np.pad(signs[:, None] * (unmixing @ whiten.T), ((0, missing), (0, 0)))
        mixing = np.pad(color @ np.linalg.inv(unmixing) * signs, ((0, 0), (0, missing)))
        coordinates = np.pad(sources * signs, ((0, 0), (0, missing)))
        notes, inverse = _notes(sources, optimum.kinds[order]), np.ascontiguousarray(mixing.T)
        return linear_embedding(coordinates, mean, components, trace, notes, inverse=inverse, mixing_=mixing)


def _notes(sources: FloatArray, kinds: FloatArray) -> dict[str, Any]:
    """Return kinds and kurtosis, and advice if several sources look Gaussian, which cannot be separated."""
    kurtosis = (sources**4).mean(axis=0) - 3
    notes: dict[str, Any] = {"kinds": tuple(int(kind) for kind in kinds), "kurtosis": kurtosis}
    gaussian = np.flatnonzero(np.abs(kurtosis) < GAUSSIAN_ERRORS * np.sqrt(24 / len(sources)))
    if len(gaussian) > 1:
        which = ", ".join(str(k) for k in gaussian[:5])
        notes["advice"] = (
            f"{len(gaussian)} sources (columns {which}) have a kurtosis that {len(sources):,} rows do not distinguish "
            "from a Gaussian's, and Gaussians cannot be separated: any rotation of these columns is about as good; "
            "ask for fewer sources, or fit more rows.",
        )
    return notes


LOG_SHARP = 0.619540461179252
"""Log of the integral of exp(-y^2 / 2) / cosh y, by quadrature: the sharp (super-Gaussian) density."""
LOG_FLAT = 0.5 * np.log(2 * np.pi) + 0.5
"""Log of the integral of exp(-y^2 / 2) cosh y: the flat (sub-Gaussian) one, half of each N(-1, 1) and N(1, 1)."""
MIN_CURVATURE = 1e-2  # minimum eigenvalue of the approximate Hessian, where the likelihood is not concave
RISE_TOL = 1e-13  # share by which rounding may lower the log-likelihood in an accepted step
MAX_HALVINGS = 12  # maximum number of halvings of a step that does not raise the likelihood


@dataclass(frozen=True)
class Sources:
    """The sources (n, k) of an unmixing matrix, their kinds (1 or -1), and the mean log-likelihood of a row."""

    unmixing: FloatArray
    rows: FloatArray
    kinds: FloatArray
    height: float

    @classmethod
    def of(cls, Z: FloatArray, unmixing: FloatArray, kinds: FloatArray | None = None) -> Sources:
        """Return the sources of a matrix, with given kinds or those that make its solution stable."""
        y = Z @ unmixing.T
        kinds = stable_kinds(y) if kinds is None else kinds
        size = np.abs(y)
        log_cosh = size + np.log1p(np.exp(-2 * size)) - np.log(2)
        constants = np.where(kinds > 0, LOG_SHARP, LOG_FLAT)
        densities = -(y**2).mean(axis=0) / 2 - kinds * log_cosh.mean(axis=0) - constants
        return cls(unmixing, y, kinds, float(np.linalg.slogdet(unmixing)[1] + densities.sum()))

    def gradient(self) -> FloatArray:
        r"""Return :math:`I - E\, \varphi(y) y^T`, the relative gradient; :math:`\varphi(y) = y + \kappa \tanh y`."""
        slopes = self.rows + self.kinds * np.tanh(self.rows)
        return np.asarray(np.eye(len(self.kinds)) - slopes.T @ self.rows / len(self.rows))

    def newton(self, gradient: FloatArray) -> FloatArray:
        """Return the step for the Hessian of independent sources, which couples entries ij and ji only."""
        # Its blocks have a_ij = E phi_i'(y_i) E y_j^2 on the diagonal and 1 off it.
        bends = 1 + self.kinds * (1 - np.tanh(self.rows) ** 2)
        squares = self.rows**2
        a = np.outer(bends.mean(axis=0), squares.mean(axis=0))
        np.fill_diagonal(a, (bends * squares).mean(axis=0))
        least = (a + a.T - np.sqrt((a - a.T) ** 2 + 4)) / 2  # the lower eigenvalue of a block
        a = a + np.maximum(0.0, MIN_CURVATURE - least)
        step = (a.T * gradient - gradient.T) / (a * a.T - 1)
        np.fill_diagonal(step, np.diag(gradient) / (1 + np.maximum(np.diag(a), 0.0)))
        return np.asarray(step)


def stable_kinds(y: FloatArray) -> FloatArray:
    r"""Return 1 where :math:`E \operatorname{sech}^2 y\, E y^2 \geq E\, y \tanh y` (equal of a Gaussian), else -1."""
    slopes = np.tanh(y)
    excess = (1 - slopes**2).mean(axis=0) * (y**2).mean(axis=0) - (y * slopes).mean(axis=0)
    return np.where(excess < 0, -1.0, 1.0)


def maximize_likelihood(Z: FloatArray, max_iter: int, tol: float, run: Run) -> tuple[Sources, Trace]:
    """Return the sources of largest likelihood, starting from the whitened rows, and the trace.

    Kinds follow the sources in the first half of the iterations. With given kinds no step lowers the likelihood.
    """
    sources = Sources.of(Z, np.eye(Z.shape[1]))
    heights, stop = [sources.height], Stop.LIMIT
    for step in range(1, max_iter + 1):
        gradient = sources.gradient()
        if np.abs(gradient).max(initial=0.0) <= tol:
            stop = Stop.CONVERGED
            break
        if not run.step(step, max_iter, f"log-likelihood {sources.height:.6g}"):
            stop = Stop.ASKED
            break
        risen = _climbed(Z, sources, (sources.newton(gradient), gradient))
        if risen is None:
            stop = Stop.CONVERGED
            break
        kinds = stable_kinds(risen.rows)
        changed = step <= max_iter // 2 and not np.array_equal(kinds, risen.kinds)
        sources = Sources.of(Z, risen.unmixing, kinds) if changed else risen
        heights.append(sources.height)
    return sources, Trace(np.array(heights), stop)


def _climbed(Z: FloatArray, sources: Sources, directions: tuple[FloatArray, ...]) -> Sources | None:
    """Return the sources after the longest step that raises the likelihood, along the first direction with one."""
    identity = np.eye(len(sources.kinds))
    for direction in directions:
        for halvings in range(MAX_HALVINGS):
            trial = Sources.of(Z, (identity + 0.5**halvings * direction) @ sources.unmixing, sources.kinds)
            if trial.height >= sources.height - RISE_TOL * max(1.0, abs(sources.height)):
                return trial
    return None
