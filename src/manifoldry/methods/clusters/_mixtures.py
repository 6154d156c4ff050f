"""Soft clusterings by likelihood: mixtures of probabilistic PCA and of factor analyzers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.utils.validation import check_is_fitted

from manifoldry._core.parameters import NonNegative, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._estimator import as_chunked, estimator, fitted
from manifoldry.methods._base._texts import STEPS_TEXT
from manifoldry.methods.clusters._alternation import finished_starts
from manifoldry.methods.clusters._em import (
    MAX_DENSE_COLUMNS,
    EMResult,
    MaximumPosterior,
    NoiseModel,
    OrthonormalReduction,
    fit_mixture,
    initial_mixture,
)
from manifoldry.methods.clusters._subspaces import AffineSubspaces


@estimator
class MixtureClusterer(Clusterer):
    r"""Parameters of the mixtures, EM from several starts, and the posterior probabilities of new points.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The most probable component of each point; ``predict`` returns the same.
    weights_ : ndarray of shape (n_clusters,)
        Mixing proportions :math:`\pi_\ell`.
    means_ : ndarray of shape (n_clusters, n_features)
        Means :math:`\mu_\ell`.
    subspaces_ : AffineSubspaces
        The subspaces of the model: means, bases of the spans of the factors, variances along them with the noise.
    log_likelihood_ : float
        Mean log-likelihood of a point.
    reconstruction_errors_ : ndarray of shape (n_samples,)
        Squared distance of each point to the principal subspace of the points with its label.
    reconstruction_error_ : float
        Sum of these squared distances.
    objective_ : float
        Minus the mean log-likelihood, for the start that was kept.
    objectives_ : ndarray of shape (n_init,)
        The same for all starts.
    trace_ : Trace
        Minus the mean log-likelihood after each iteration of the start that was kept.
    diagnostics_ : dict
        Seconds and memory, components moved and dropped, the lower bound of the noise variances.
    """

    n_components: PositiveInt = parameter(
        "Dimension r of the subspaces; d - 1 or more give full covariances.", default=2
    )
    n_clusters: PositiveInt = parameter(
        "Number of components; components that are the most probable of no point are dropped.", default=8, kw_only=False
    )
    n_init: PositiveInt = parameter(
        "Number of random starts. The likeliest is kept among those with the fewest components that were dropped or "
        "have the weight of fewer than r + 2 points, which an affine subspace fits without error.",
        default=10,
    )
    max_iter: PositiveInt = parameter(STEPS_TEXT, default=200)
    tol: NonNegative = parameter("Increase of the mean log-likelihood per feature at which a start ends.", default=1e-5)
    min_variance: Positive = parameter("Minimum noise variance, relative to the mean of the features.", default=1e-6)

    weights_: FloatArray = fitted()
    means_: FloatArray = fitted()
    noise_variances_: FloatArray = fitted()
    log_likelihood_: float = fitted()

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the posterior probability of each component given each point, shape (n, n_clusters).

        Parameters
        ----------
        X : array or chunked data of shape (n, n_features)
            Points.
        """
        return self._probabilities(X, "predict_proba")

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log-density of the mixture at each point, shape (n,).

        Parameters
        ----------
        X : array or chunked data of shape (n, n_features)
            Points.
        """
        return self._probabilities(X, "score_samples")

    def _probabilities(self, X: Any, method: str) -> FloatArray:
        chunks = as_chunked(X)
        if chunks is not None:
            check_is_fitted(self, "labels_")
            mapped: FloatArray = self._map_chunks(method, chunks)
            return mapped
        points = self._new_points(X)
        posterior, density = cast(MaximumPosterior, self._assign).probabilities(points, self._run())
        return posterior if method == "predict_proba" else density

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        if method == "predict_proba":
            names = [f"{type(self).__name__.lower()}{number}" for number in range(self.n_clusters_)]
            return self.n_clusters_, np.dtype(np.float64), names
        if method == "score_samples":
            return 0, np.dtype(np.float64), "log_density"
        return super()._output_of(method)

    def _fit_mixture(self, X: FloatArray, reduction: OrthonormalReduction, noise: NoiseModel, run: Run) -> Clustering:
        """Return the clustering by the best start of EM in the reduced coordinates."""
        rank, center = self._rank(X), X.mean(axis=0)
        results = self._starts(reduction.reduce(X - center), X.shape[1], noise, run)
        # Any r + 1 points lie in an affine subspace, so the likelihood of a component of fewer than r + 2 is bounded
        # by the minimum variance only.
        masses = [len(X) * result.mixture.weights for result in results]
        degenerate = [r.dropped + np.count_nonzero(mass < rank + 2) for r, mass in zip(results, masses, strict=True)]
        objectives = np.array([result.trace.objective[-1] for result in results])
        best = results[np.lexsort((objectives, degenerate))[0]]
        posterior = MaximumPosterior(reduction.lift(best.mixture), center)
        # A tie that rounding breaks otherwise in the space of the features could leave a component without points.
        posterior = MaximumPosterior(posterior.mixture.take(np.unique(posterior(X, run))), center)
        mixture, labels, objective = posterior.mixture, posterior(X, run), float(best.trace.objective[-1])
        return Clustering(
            labels,
            AffineSubspaces.of_clusters(X, labels, len(mixture), rank),
            posterior,
            objective,
            objectives,
            best.trace,
            notes={"moved": best.relocated, "dropped": best.dropped, "least_variance": noise.min_variance},
            fitted={
                "weights_": mixture.weights,
                "means_": mixture.means + center,
                "noise_variances_": noise.variances(mixture),
                "log_likelihood_": -objective,
                "subspaces_": AffineSubspaces(mixture.means + center, *mixture.subspaces()),
            },
        )

    def _starts(self, Z: FloatArray, dimension: int, noise: NoiseModel, run: Run) -> list[EMResult]:
        """Return the results of EM from k-means++ seeds."""
        rank = min(self.n_components, dimension)
        entries = len(Z) * self.n_clusters * min(Z.shape[1], max(MAX_DENSE_COLUMNS, 3 * rank))
        at_once = min(run.n_jobs, self.n_init)
        run.announce("coordinates in subspaces", 16 * entries * at_once, "ask for fewer clusters or n_jobs=1")

        def start(seed: int) -> EMResult:
            seeds, _ = kmeans_plusplus(Z, self.n_clusters, random_state=seed)
            labels = (0.5 * np.einsum("cm,cm->c", seeds, seeds) - Z @ seeds.T).argmin(axis=1)
            first = initial_mixture(Z, labels, seeds, dimension, rank, noise)
            return fit_mixture(Z, first, noise, self.max_iter, self.tol, run)

        tasks = [(int(seed),) for seed in run.rng("mixtures").integers(2**31 - 1, size=self.n_init)]
        return finished_starts(start, tasks, run, "mixtures")


@register(
    family="mixtures",
    problem="expectation maximization",
    papers=("tipping1999b", "tipping1999", "khajehpour2013"),
    gives=("predict", "trace"),
    keeps="low rank and distance as one likelihood: a point belongs to each component with a probability",
    loses="connectedness: pieces that lie in one affine subspace are joined; directions of noise, which is isotropic",
    use_when="clusters overlap, or you need their densities and probabilities",
    fails_when="clusters hold fewer than r + 2 points, or the noise differs from feature to feature: use MFA",
    cost="O(n d c r) per iteration and start; about a second per start for 3,000 images of 784 pixels",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class MPPCA(MixtureClusterer):
    r"""Cluster with a mixture of probabilistic PCA models, for overlapping clusters and their probabilities.

    .. math:: p(x) = \sum_\ell \pi_\ell\, N(x;\, \mu_\ell,\, W_\ell W_\ell^T + \sigma_\ell^2 I),
              \qquad W_\ell \in \mathbb{R}^{d \times r}

    is fitted by expectation maximization: responsibilities from the mixture; then, per component, mean and eigenvectors
    of the covariance weighted by them, :math:`\sigma_\ell^2` the mean of the eigenvalues after the r-th. Each start is
    initialized from hard clusters around k-means++ seeds. With many features the eigenvectors are improved and not
    solved for in each step, which has the same fixed points. A rotation of the data rotates the result.

    The likelihood of the trace never falls: noise variances have a lower bound; a component left with less than half a
    point is moved to the least likely point if that raises the likelihood; a component that is the most probable of no
    point is dropped, and EM starts again.

    Attributes
    ----------
    labels_
    noise_variances_ : ndarray of shape (n_clusters,)
        Variances :math:`\sigma_\ell^2`.
    n_clusters_, weights_, means_, subspaces_, log_likelihood_, objective_, objectives_, trace_
    reconstruction_errors_, reconstruction_error_, localized_, n_nonlocalized_, graph_, diagnostics_

    See Also
    --------
    MFA : noise that differs between features.
    VQPCA : hard assignments by distance.
    ProbabilisticPCA : one such Gaussian.

    Examples
    --------
    >>> from manifoldry import MPPCA, datasets
    >>> roll = datasets.swiss_roll(500).X
    >>> model = MPPCA(n_clusters=8, n_init=3).fit(roll)
    >>> model.predict_proba(roll).shape, bool((model.predict(roll) == model.labels_).all())
    ((500, 8), True)
    """

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        noise = NoiseModel(self.min_variance * float(X.var(axis=0).mean()))
        return self._fit_mixture(X, OrthonormalReduction.of_points(X, self._rank(X)), noise, run)


@register(
    family="mixtures",
    problem="expectation maximization",
    papers=("ghahramani1996", "barber2012"),
    gives=("predict", "trace"),
    keeps="what features have in common within each cluster; their units do not matter",
    loses="variance that a single feature has to itself, however large",
    use_when="features are measured in different units or with different noise",
    fails_when="clusters hold few points, or the directions of a rotated space mean nothing: use MPPCA",
    cost="O(n d c r) per iteration and start: twice that of MPPCA, and more iterations",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class MFA(MixtureClusterer):
    r"""Cluster with a mixture of factor analyzers, for features with different units or different noise.

    .. math:: p(x) = \sum_\ell \pi_\ell\, N(x;\, \mu_\ell,\, \Lambda_\ell \Lambda_\ell^T + \Psi),
              \qquad \Psi \text{ diagonal}

    is fitted by expectation maximization. In each step :math:`\Lambda_\ell` maximizes the expected likelihood for the
    old :math:`\Psi` (eigenvectors of the weighted covariance in units of :math:`\Psi`), then :math:`\Psi` follows from
    the expected factors. Starts and lower bounds are those of `MPPCA`, and the likelihood never falls.

    Attributes
    ----------
    noise_variances_ : ndarray of shape (n_features,) or (n_clusters, n_features)
        The diagonal of :math:`\Psi`, or those of the components.
    labels_, n_clusters_, weights_, means_, subspaces_, log_likelihood_, objective_, objectives_, trace_
    reconstruction_errors_, reconstruction_error_, localized_, n_nonlocalized_, graph_, diagnostics_

    See Also
    --------
    MPPCA : isotropic noise, which a rotation does not change.
    FactorAnalysis : one such Gaussian.

    Examples
    --------
    >>> from manifoldry import MFA, datasets
    >>> model = MFA(n_clusters=8, n_init=3).fit(datasets.swiss_roll(500).X)
    >>> model.noise_variances_.shape
    (3,)
    """

    shared_noise: bool = parameter(r"Whether components share one :math:`\Psi`, as in the paper.", default=True)

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        noise = NoiseModel(self.min_variance * float(X.var(axis=0).mean()), diagonal=True, shared=self.shared_noise)
        return self._fit_mixture(X, OrthonormalReduction.identity(X.shape[1]), noise, run)
