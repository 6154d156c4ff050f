"""Infomax: independent components by maximum likelihood, of sources sharper or flatter than Gaussians."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.base import Embedder, estimator, fitted
from manifoldry.base.blockwise import BlockFit
from manifoldry.extend.linear import LinearInverse, LinearMap
from manifoldry.geometry.neighborhoods import dense
from manifoldry.geometry.principal import centered_rows, whitened_rows
from manifoldry.parameters import Positive, PositiveInt
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import column_signs
from manifoldry.solve.infomax import Sources, maximize_likelihood
from manifoldry.values import Embedding, FloatArray

GAUSSIAN_ERRORS = 2.5
"""Standard errors of a Gaussian's kurtosis within which a source counts as one: of a Gaussian in 99 of 100 cases."""


@register(
    family="linear",
    problem="likelihood",
    papers=("bell1995", "amari1996", "lee1999b", "ablin2018"),
    gives=("transform", "inverse", "trace"),
    keeps="directions along which the data are independent, sharp or flat sources alike",
    loses="the size of the sources; everything that is not a linear mixture",
    use_when="signals were mixed linearly and must be told apart",
    fails_when="more than one source is Gaussian, or rows are few for the number of sources",
    cost="a decomposition as for PCA, then O(n k^2) per iteration, some tens of them",
    test_params={"n_components": 2},
)
@estimator
class InfomaxICA(Embedder):
    r"""Independent component analysis by extended Infomax.

    .. math:: \max_W \log |\det W| + \sum_k E \log p_k(y_k), \qquad y = W z, \qquad
              p_k(y) \propto e^{-y^2/2} \cosh(y)^{-\kappa_k}

    for whitened leading principal components z. The kind :math:`\kappa_k` of a source is 1 for a sharp
    (super-Gaussian) and -1 for a flat (sub-Gaussian) one, by the rule that makes the solution stable. Steps are
    relative to W, :math:`W \leftarrow (I + D) W`, along the natural gradient :math:`I - E\, \varphi(y) y^T` times
    the inverse of the Hessian for independent sources; none lowers the likelihood of given kinds.

    Parameters
    ----------
    n_components : int
        Number of sources.
    max_iter : int
        Maximum number of iterations.
    tol : float
        The iteration stops when no entry of :math:`I - E\, \varphi(y) y^T` exceeds this.
    random_state
        Ignored: the start is the principal components.
    n_jobs, verbose, callback
        As in `Isomap`; stopping keeps the sources reached so far.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The sources, of mean 0 and variance 1; those first that have the largest part in the variance of the data.
        Columns of zeros beyond the rank.
    components_ : ndarray of shape (n_components, n_features)
        The matrix that unmixes: ``embedding_ = (X - mean_) @ components_.T``.
    mixing_ : ndarray of shape (n_features, n_components)
        The matrix that mixes sources to rows.
    mean_ : ndarray of shape (n_features,)
    trace_ : Trace
        Mean log-likelihood of a whitened row after each iteration; falls only where a kind changes.
    diagnostics_ : dict
        Seconds, ``kinds`` (1 or -1) and ``kurtosis`` (0 of a Gaussian) of the sources.

    Notes
    -----
    Maximizing the likelihood minimizes the mutual information of the sources as far as the model's densities are
    theirs: up to a constant the negative likelihood is the mutual information plus the divergences of the sources' true
    densities from those of the model. It is also the entropy that a net of sigmoid units with these densities as slopes
    transmits, hence the name. Unlike those of FastICA, sources are exactly uncorrelated only if that is likeliest.

    References: bell1995, amari1996, lee1999b, ablin2018.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import InfomaxICA
    >>> rng = np.random.default_rng(0)
    >>> S = np.column_stack([rng.laplace(size=2000), rng.uniform(-1, 1, 2000)])
    >>> found = InfomaxICA(n_components=2).fit_transform(S @ [[1.0, 0.5], [-0.3, 1.0]])
    >>> abs(np.corrcoef(S.T, found.T)[:2, 2:]).max(axis=1).round(2)
    array([1., 1.])
    """

    max_iter: PositiveInt = 500
    tol: Positive = 1e-10

    components_: FloatArray = fitted()
    mixing_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True

    _blockwise = BlockFit(n_rows=100_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        centered, mean = centered_rows(dense(X))
        with run.stage("whitening"):
            scores, whiten, color = (part[..., : self.n_components] for part in _turned(whitened_rows(centered)))
        with run.stage("likelihood"), run.stoppable():
            found, trace = maximize_likelihood(scores, self.max_iter, self.tol, run)
        sizes, order = _ordered(found, color)
        unmixing = (found.unmixing / sizes[:, None])[order]
        sources = scores @ unmixing.T
        signs, missing = column_signs(sources), self.n_components - len(order)
        components = np.pad(signs[:, None] * (unmixing @ whiten.T), ((0, missing), (0, 0)))
        mixing = np.pad(color @ np.linalg.inv(unmixing) * signs, ((0, 0), (0, missing)))
        places = np.pad(sources * signs, ((0, 0), (0, missing)))
        return Embedding(
            places,
            trace=trace,
            extension=LinearMap(mean, components),
            inverse=LinearInverse(mean, np.ascontiguousarray(mixing.T)),
            notes=_notes(sources, found.kinds[order]),
            fitted={"components_": components, "mixing_": mixing, "mean_": mean},
        )


def _turned(parts: tuple[FloatArray, FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows (n, r), the map to them (p, r) and the map back, all with directions in columns."""
    rows, whiten, color = parts
    return rows, whiten, color.T


def _ordered(found: Sources, color: FloatArray) -> tuple[FloatArray, Any]:
    """Return the standard deviations of the sources, and their order by variance in the data, largest first."""
    sizes = np.sqrt((found.rows**2).mean(axis=0))
    parts = np.linalg.norm(color @ np.linalg.inv(found.unmixing), axis=0) * sizes
    return sizes, np.argsort(-parts, kind="stable")


def _notes(sources: FloatArray, kinds: FloatArray) -> dict[str, Any]:
    """Return kinds and kurtosis, and a sentence where sources look Gaussian and so cannot be told apart."""
    kurtosis = (sources**4).mean(axis=0) - 3
    notes: dict[str, Any] = {"kinds": tuple(int(kind) for kind in kinds), "kurtosis": kurtosis}
    gaussian = np.flatnonzero(np.abs(kurtosis) < GAUSSIAN_ERRORS * np.sqrt(24 / len(sources)))
    if len(gaussian) > 1:
        which = ", ".join(str(k) for k in gaussian[:5])
        notes["advice"] = (
            f"{len(gaussian)} sources (columns {which}) have a kurtosis that {len(sources):,} rows do not tell from a "
            "Gaussian's, and Gaussians cannot be told apart: any rotation of these columns is about as good; ask for "
            "fewer sources, or fit more rows.",
        )
    return notes
