"""The clusterings that scikit-learn already does well, wrapped so that they can be chosen and compared."""

from __future__ import annotations

import warnings
from typing import Annotated

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning

from manifoldry._core.parameters import NonNegative, PositiveInt, Range, parameter
from manifoldry._core.registry import announce_fit, register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._core.warnings import warn
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._embedder import DeviceMixin
from manifoldry.methods._base._estimator import NotConvergedWarning, estimator
from manifoldry.methods._base._texts import MAX_ITER_TEXT, STARTS_TEXT, STEPS_TEXT
from manifoldry.methods.clusters._alternation import NearestCenter, kmeans_starts, nearest_used
from manifoldry.methods.clusters._subspaces import AffineSubspaces, squared_distances


@register(
    family="centers",
    problem="alternation",
    papers=("lloyd1982", "arthur2007"),
    gives=("predict",),
    keeps="squared distances to the means: round clusters of about equal width",
    loses="shape: a curved or long cluster is cut, close folds are joined",
    use_when="clusters are blobs, or a manifold is smooth and wide against the width of a cluster",
    fails_when="clusters are long, curved, of different widths, or folds come close to each other",
    cost="O(n d c) per iteration: to millions of points",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
    wrapped=True,
)
@estimator
class KMeans(DeviceMixin, Clusterer):
    r"""Cluster points around their means with scikit-learn's k-means, for round clusters of similar width.

    It starts from k-means++ seeds:

    .. math:: \min \sum_i \min_\ell |x_i - b_\ell|^2

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` returns the same.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_, objective_, objectives_
    localized_, n_nonlocalized_, graph_, diagnostics_

    See Also
    --------
    SpectralClustering : curved or long clusters.
    AffinityPropagation : an unknown number of clusters.
    VQPCA : subspaces in place of means.

    Examples
    --------
    >>> from manifoldry import KMeans, datasets
    >>> KMeans(n_clusters=5).fit(datasets.swiss_roll(300).X).n_clusters_
    5
    """

    n_clusters: PositiveInt = parameter(
        "Number of clusters; there are fewer if there are fewer distinct points.", default=8, kw_only=False
    )
    n_init: PositiveInt = parameter(STARTS_TEXT, default=10)
    max_iter: PositiveInt = parameter(STEPS_TEXT, default=300)
    tol: NonNegative = parameter("Relative movement of the centers at which the iteration ends.", default=1e-4)

    _chunk_support = ChunkSupport(n_rows=100_000)

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        done = kmeans_starts(X, self.n_clusters, self.n_init, run, self.max_iter, self.tol)
        objectives = np.array([float(means.inertia_) for means in done])
        best = done[int(np.argmin(objectives))]
        used, labels = nearest_used(X, best.cluster_centers_)
        centers = best.cluster_centers_[used]
        subspaces = AffineSubspaces.of_clusters(X, labels, len(used), self._rank(X))
        objective = float(np.square(X - centers[labels]).sum())
        return Clustering(labels, subspaces, NearestCenter(centers), objective, objectives, n_iter=int(best.n_iter_))


@register(
    family="medoids",
    problem="message passing",
    papers=("frey2007",),
    gives=("predict", "medoids"),
    keeps="squared distances to exemplars, points of the data that stand for the others",
    loses="shape, as k-means",
    use_when="the number of clusters is unknown and there are at most a few thousand points",
    fails_when="there are many points (n x n memory and hundreds of iterations), or messages oscillate: raise damping",
    cost="O(n^2) per iteration, four n x n matrices: to about 5,000 points",
    test_params={"n_components": 1, "n_neighbors": 6},
    wrapped=True,
)
@estimator
class AffinityPropagation(Clusterer):
    r"""Cluster up to a few thousand points around exemplars, whose number is found by scikit-learn's algorithm.

    Exemplars are chosen by passing messages between points:

    .. math:: \max \sum_i s(x_i, x_{\ell_i}) + \sum_{\ell} p, \qquad s(x, y) = -|x - y|^2

    A callback cannot shorten this fit.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` returns the same.
    medoids_ : ndarray of shape (n_clusters,)
        Indices of the exemplars.
    objective_, objectives_
        Minus the objective above.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_
    localized_, n_nonlocalized_, graph_
    diagnostics_ : dict
        Seconds and memory, the preference, and whether the iterations converged (``n_iter_`` of them).

    See Also
    --------
    KMeans : a given number of clusters, or many points.
    GeodesicKMedoids : medoids along a curved manifold.

    Examples
    --------
    >>> from manifoldry import AffinityPropagation, datasets
    >>> model = AffinityPropagation().fit(datasets.swiss_roll(300).X)
    >>> bool((model.labels_[model.medoids_] == range(model.n_clusters_)).all())
    True
    """

    preference: float | None = parameter(
        "Preference p of a point as an exemplar, lower for fewer clusters; None is the median similarity.", default=None
    )
    damping: Annotated[float, Range(0.5, 1)] = parameter(
        "Weight of the last message in the next one, from 0.5 to below 1. Below 0.9 messages often oscillate, even "
        "between blobs that are far apart.",
        default=0.9,
    )
    max_iter: PositiveInt = parameter(MAX_ITER_TEXT, default=500)
    convergence_iter: PositiveInt = parameter("Iterations without change after which the fit ends.", default=15)

    _chunk_support = ChunkSupport(n_rows=3_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.damping == 1:
            raise ValueError(f"damping must be below 1, or no message would ever change; got {self.damping}.")

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        n = len(X)
        announce_fit("AffinityPropagation", n, run)
        run.announce(f"similarities and messages, 4 x {n} x {n}", 4 * 8 * n * n, "use KMeans or LDLC")
        with run.stage("clusters"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a warning with advice follows below
            similarities = -squared_distances(X, X)
            preference = float(np.median(similarities) if self.preference is None else self.preference)
            exemplars, _, n_iter = cluster.affinity_propagation(
                similarities,
                preference=preference,
                convergence_iter=self.convergence_iter,
                max_iter=self.max_iter,
                damping=self.damping,
                return_n_iter=True,
                random_state=int(run.rng("ties").integers(2**31 - 1)),
            )
            # Without any exemplar the points are one cluster around their medoid.
            exemplars = np.asarray(exemplars if len(exemplars) else [np.argmax(similarities.sum(axis=1))])
            used, labels = nearest_used(X, X[exemplars])
        medoids = exemplars[used]
        if n_iter >= self.max_iter:
            warn(
                f"The messages had not converged after max_iter={self.max_iter} iterations, so the clusters are "
                f"arbitrary: raise max_iter or damping (now {self.damping:g}).",
                NotConvergedWarning,
            )
        return Clustering(
            labels,
            AffineSubspaces.of_clusters(X, labels, len(used), self._rank(X)),
            NearestCenter(X[medoids]),
            float(np.square(X - X[medoids][labels]).sum()) - len(medoids) * preference,
            n_iter=n_iter,
            medoids=medoids,
            notes={"preference": preference, "converged": n_iter < self.max_iter},
        )
