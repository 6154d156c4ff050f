"""Soft clusterings by likelihood: mixtures of probabilistic PCA and of factor analyzers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import numpy as np
from sklearn.cluster import kmeans_plusplus

from manifoldry import check
from manifoldry.base.estimator import estimator
from manifoldry.clusters.clusterer import Clustering, RestartedClusterer
from manifoldry.clusters.em import DENSE_COLUMNS, Fit, Rule, ascend, hard_start
from manifoldry.clusters.gaussians import Frame, Likeliest, Mixture
from manifoldry.clusters.subspaces import Subspaces
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.values import FloatArray, NeighborGraph


@estimator
class MixtureClusterer(RestartedClusterer):
    """Base of the mixtures: starts, the best of them, probabilities of new points."""

    max_iter: int = 200
    tol: float = 1e-5
    min_variance: float = 1e-6

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each component given each point, shape (n, n_clusters_).

        Parameters
        ----------
        X : array of shape (n, n_features)
            Points.
        """
        return self._probabilities(X)[0]

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log-density of the mixture at each point, shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
            Points.
        """
        return self._probabilities(X)[1]

    def _probabilities(self, X: Any) -> tuple[FloatArray, FloatArray]:
        points = self._new_points(X)
        return self._likeliest.probabilities(points, self._run())

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.number("min_variance", self.min_variance, 0.0, open_low=True)

    @abstractmethod
    def _noise(self, mixture: Mixture) -> FloatArray:
        """Return the noise variances in the form they are told in."""

    def _best(self, X: FloatArray, frame: Frame, noise: Rule, run: Run) -> Clustering:
        """Return the best of the starts."""
        n, d = X.shape
        rank, center = self._rank(X), X.mean(axis=0)
        points = frame.inside(X - center)
        entries = n * self.n_clusters * min(points.shape[1], max(DENSE_COLUMNS, 3 * rank))
        at_once = min(run.n_jobs, self.n_init)
        run.announce("coordinates in flats", 16 * entries * at_once, "ask for fewer clusters or n_jobs=1")

        def start(seed: int) -> Fit:
            seeds, _ = kmeans_plusplus(points, self.n_clusters, random_state=seed)
            labels = (0.5 * np.einsum("cm,cm->c", seeds, seeds) - points @ seeds.T).argmin(axis=1)
            first = hard_start(points, labels, seeds, d, rank, noise)
            return ascend(points, first, noise, self.max_iter, self.tol, run)

        with run.stage("mixtures"):
            tasks = [(int(seed),) for seed in run.rng("mixtures").integers(2**31 - 1, size=self.n_init)]
            fits = [fit for fit in run.map(start, tasks, blas=True, stoppable=True) if fit is not None]
            fits = fits or run.map(start, tasks[:1], blas=True)  # a callback that asks to stop at once gets a step
        # Any r + 1 points lie in a flat, so a component of fewer than r + 2 is as likely as the floor lets it be.
        spoilt = [fit.dropped + np.count_nonzero(n * fit.mixture.weights < rank + 2) for fit in fits]
        levels = np.array([fit.trace.objective[-1] for fit in fits])
        best = fits[np.lexsort((levels, spoilt))[0]]
        likeliest = Likeliest(frame.lifted(best.mixture), center)
        # A tie that rounding breaks otherwise in the space of the data could leave a component without points.
        likeliest = Likeliest(likeliest.mixture.chosen(np.unique(likeliest(X, run))), center)
        labels = likeliest(X, run)
        return Clustering(
            labels,
            Subspaces.of_clusters(X, labels, len(likeliest.mixture), rank),
            likeliest,
            float(best.trace.objective[-1]),
            levels,
            best.trace,
            notes={"moved": best.moved, "dropped": best.dropped, "least_variance": noise.floor},
        )

    def _keep(self, X: FloatArray, clustering: Clustering, graph: NeighborGraph, run: Run) -> None:
        super()._keep(X, clustering, graph, run)
        self._likeliest = cast(Likeliest, clustering.assign)
        mixture = self._likeliest.mixture
        self.weights_: FloatArray = mixture.weights
        self.means_: FloatArray = mixture.means + self._likeliest.center
        self.noise_variances_: FloatArray = self._noise(mixture)
        self.log_likelihood_ = -self.objective_
        bases, variances = mixture.flats()
        self.subspaces_ = Subspaces(self.means_, bases, variances)


@register(
    family="mixtures",
    problem="expectation maximization",
    papers=("tipping1999b", "tipping1999", "khajehpour2013"),
    gives=("predict", "trace"),
    keeps="flatness and nearness as one likelihood: a point belongs to each flat with a probability",
    loses="pieces of a sheet that happen to share a flat; directions of noise, which is the same in all",
    use_when="clusters overlap, or their densities and probabilities are wanted",
    fails_when="clusters hold fewer than r + 2 points, or the noise differs from column to column: use MFA",
    cost="O(n d c r) per step and start; about a second per start for 3,000 images of 784 pixels",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class MPPCA(MixtureClusterer):
    r"""Mixture of probabilistic principal component analyzers: Gaussians around flats.

    .. math:: p(x) = \sum_\ell \pi_\ell\, N(x;\, \mu_\ell,\, W_\ell W_\ell^T + \sigma_\ell^2 I),
              \qquad W_\ell \in \mathbb{R}^{d \times r}

    by expectation maximization: responsibilities from the mixture; then, per component, mean and eigenvectors of the
    covariance weighted by them, :math:`\sigma_\ell^2` the mean of the eigenvalues after the r-th. Each start is
    fitted to hard clusters around seeds that are far apart. With many columns the eigenvectors are improved and not
    solved for in each step, which has the same fixed points. A turn of the data turns the result.

    The likelihood of the trace never falls, without exception: variances have a floor, at which the constrained
    maximum is taken; a component left with less than half a point is moved to the least likely point only if that
    raises the likelihood; a component that is no point's likeliest is dropped, and the trace begins anew.

    Parameters
    ----------
    n_clusters : int
        Components to fit; fewer come out where some are no point's likeliest.
    n_components : int
        Dimension r of the flats; with d - 1 or more the covariances are full.
    n_neighbors : int or "auto"
        Neighbors in the graph on which ``localized_`` is judged; "auto" is 10.
    n_init : int
        Random starts. Kept is the likeliest of those with the fewest components that were dropped or have the weight
        of fewer than r + 2 points, which any flat fits.
    max_iter : int
        Steps at the most, per start.
    tol : float
        A step that raises the mean log-likelihood of a point by no more than this per column is the last.
    min_variance : float
        Least noise variance, as a share of the mean variance of the columns.
    random_state, n_jobs, verbose, callback
        Seed, threads (the result does not depend on them), progress; a callback can end the starts early.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The likeliest component of each point; ``predict`` gives them back.
    n_clusters_ : int
        Number of components.
    weights_ : ndarray of shape (n_clusters_,)
        Shares :math:`\pi_\ell`.
    means_ : ndarray of shape (n_clusters_, n_features)
        Means :math:`\mu_\ell`.
    noise_variances_ : ndarray of shape (n_clusters_,)
        Variances :math:`\sigma_\ell^2`.
    subspaces_ : Subspaces
        The flats of the model: means, bases of the spans of :math:`W_\ell`, variances along them with the noise.
    reconstruction_errors_, reconstruction_error_
        Squared distance of each point to the principal flat of the points with its label, and their sum.
    log_likelihood_ : float
        Mean log-likelihood of a point.
    objective_, objectives_
        Minus that, for the start that was kept and for all of them.
    trace_ : Trace
        Minus the mean log-likelihood after each step of the start that was kept.
    localized_, n_nonlocalized_
        Whether each cluster is one connected piece of the neighbor graph, and how many are not.
    graph_ : NeighborGraph
        The undirected neighbor graph.
    diagnostics_ : dict
        Seconds and memory, components moved and dropped, the least variance.

    Notes
    -----
    References: tipping1999b, tipping1999; as a clustering of sheets khajehpour2013.

    Examples
    --------
    >>> from manifoldry import MPPCA, datasets
    >>> roll = datasets.swiss_roll(500).X
    >>> model = MPPCA(n_clusters=8, n_init=3).fit(roll)
    >>> model.predict_proba(roll).shape, bool((model.predict(roll) == model.labels_).all())
    ((500, 8), True)
    """

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        noise = Rule(self.min_variance * float(X.var(axis=0).mean()))
        return self._best(X, Frame.around(X, self._rank(X)), noise, run)

    def _noise(self, mixture: Mixture) -> FloatArray:
        return mixture.noise


@register(
    family="mixtures",
    problem="expectation maximization",
    papers=("ghahramani1996", "barber2012"),
    gives=("predict", "trace"),
    keeps="what columns have in common within each cluster; units of the columns do not matter",
    loses="variance that a single column has to itself, however large",
    use_when="columns are measured in different units or with different noise",
    fails_when="clusters hold few points, or the directions of a rotated space mean nothing: use MPPCA",
    cost="O(n d c r) per step and start: twice that of MPPCA, and more steps",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class MFA(MixtureClusterer):
    r"""Mixture of factor analyzers: Gaussians around flats, with noise of its own in every column.

    .. math:: p(x) = \sum_\ell \pi_\ell\, N(x;\, \mu_\ell,\, \Lambda_\ell \Lambda_\ell^T + \Psi),
              \qquad \Psi \text{ diagonal}

    by expectation maximization. In each step :math:`\Lambda_\ell` maximizes the expected likelihood for the old
    :math:`\Psi` (eigenvectors of the weighted covariance in units of :math:`\Psi`), then :math:`\Psi` follows from
    the expected factors. Starts, floor and the likelihood that never falls are as in `MPPCA`.

    Parameters
    ----------
    n_clusters, n_components, n_neighbors
        As in `MPPCA`.
    shared_noise : bool
        One :math:`\Psi` for all components, as in the source; otherwise each has its own.
    n_init, max_iter, tol
        As in `MPPCA`.
    min_variance : float
        Least entry of :math:`\Psi`, as a share of the mean variance of the columns.
    random_state, n_jobs, verbose, callback
        As in `MPPCA`.

    Attributes
    ----------
    noise_variances_ : ndarray of shape (n_features,) or (n_clusters_, n_features)
        The diagonal of :math:`\Psi`, or those of the components.
    subspaces_ : Subspaces
        The flats of the model: means, bases of the spans of :math:`\Lambda_\ell`, variances along them with the noise.
    labels_, n_clusters_, weights_, means_, reconstruction_errors_, reconstruction_error_
        As in `MPPCA`.
    log_likelihood_, objective_, objectives_, trace_, localized_, n_nonlocalized_, graph_, diagnostics_
        As in `MPPCA`.

    Notes
    -----
    References: ghahramani1996; the eigenvectors for a given :math:`\Psi` barber2012.

    Examples
    --------
    >>> from manifoldry import MFA, datasets
    >>> model = MFA(n_clusters=8, n_init=3).fit(datasets.swiss_roll(500).X)
    >>> model.noise_variances_.shape
    (3,)
    """

    shared_noise: bool = True

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        noise = Rule(self.min_variance * float(X.var(axis=0).mean()), factors=True, shared=self.shared_noise)
        return self._best(X, Frame.whole(X.shape[1]), noise, run)

    def _noise(self, mixture: Mixture) -> FloatArray:
        return mixture.columns[0] if self.shared_noise else mixture.columns
