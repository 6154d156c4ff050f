"""Laplacian eigenmaps and commute times: coordinates by the lowest eigenvectors of a graph Laplacian."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import splu
from sklearn.utils.validation import check_is_fitted

from manifoldry._core.parameters import Fraction, Positive, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, Spectrum
from manifoldry._numerics.eigen.linear_span import eigengap, laplacian_eigenpairs, within_largest
from manifoldry._numerics.eigen.localized import skip_localized
from manifoldry._numerics.elbow import Suggestion
from manifoldry._numerics.extension.affinity import LaplacianNystrom, embed_affinities, embed_duplicates
from manifoldry._numerics.geometry.affinity import (
    Affinity,
    LaplacianKind,
    bandwidth_notes,
    edge_affinity,
    laplacian,
    weakened,
)
from manifoldry.graph._operations import Policy, components
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, count_points, estimator, fitted
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._targets import given_targets
from manifoldry.methods._base._texts import (
    AFFINITY_METRIC_TEXT,
    BANDWIDTH_TEXT,
    EDGE_WEIGHTS_TEXT,
    PARTICIPATION_TEXT,
    TARGET_METRIC_TEXT,
    TARGET_WEIGHT_TEXT,
)

N_RIGHT_HAND_SIDES = 256  # right-hand sides solved at a time

_GIVES = ("transform", "inverse", "spectrum", "graph")
_COST = "a sparse eigenproblem: 200,000 points of a surface in seconds"
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 5}


@estimator
class LaplacianMixin(GraphEmbedder):
    r"""What Laplacian eigenmaps and the commute-time embedding share.

    Attributes
    ----------
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The edge weights W.
    graph_ : NeighborGraph
        The undirected graph; given affinities w are stored as the lengths :math:`\sqrt{-2 \ln (w / w_{max})}`.
    """

    metric: Metric = parameter(AFFINITY_METRIC_TEXT, default="euclidean")
    weights: Literal["heat", "binary"] = parameter(EDGE_WEIGHTS_TEXT, default="heat")
    bandwidth: Positive | Literal["auto"] = parameter(BANDWIDTH_TEXT, default="auto")
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    affinity_matrix_: csr_array = fitted()

    _invertible = _local_inverse = True
    _extra_metrics = ("affinity",)

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the number of eigenvectors before a clear gap of the spectrum, else the measured dimension, and why.

        Before the gap there is one eigenvector of a small eigenvalue for each cluster but the first. Without clusters
        there is none, as each direction has its harmonics. Of a disconnected graph the largest component is taken.

        Parameters
        ----------
        max_components : int
            The largest dimension considered.
        """
        check_is_fitted(self, "embedding_")
        W, run = within_largest(self.graph_, vars(self).get("affinity_matrix_")), self._run()
        return eigengap(
            lambda count: laplacian_eigenpairs(W, count, self._laplacian_kind, run).values,
            W.shape[0],
            max_components,
            self._measured(),
        )

    @property
    def _laplacian_kind(self) -> LaplacianKind:
        return "unnormalized"

    def _scaled(self, spectrum: Spectrum, affinity: Affinity) -> tuple[FloatArray, dict[str, Any]]:  # noqa: ARG002
        """Return the coordinates, and notes on their scale."""
        return spectrum.vectors, {}

    def _embed(self, X: Any, run: Run) -> Embedding:
        if self.metric != "affinity":
            return super()._embed(X, run)
        rule = self._rule(count_points(X))
        return embed_affinities(X, rule, self._unfold, self.n_components, self.disconnected, run)

    def _unfold(
        self, sample: NeighborhoodData, n_components: int, run: Run, strongest: float | None = None
    ) -> Embedding:
        affinity, s = edge_affinity(sample, self.weights, self.bandwidth, strongest)
        if copies := embed_duplicates(sample, n_components, affinity.matrix):
            return copies
        kind = self._laplacian_kind
        spectrum, skipped = skip_localized(
            lambda count: laplacian_eigenpairs(affinity.matrix, count, kind, run),
            n_components,
            sample.n_points - 1,
            self.min_participation,
        )
        Y, notes = self._scaled(spectrum, affinity)
        extension = LaplacianNystrom(
            sample.index, s, strongest or 1.0, Y, spectrum.values, kind, affinity.degrees, coincide=strongest is None
        )
        return Embedding(
            Y,
            spectrum=spectrum,
            extension=extension,
            notes={**bandwidth_notes(s), **notes, **skipped},
            fitted={"affinity_matrix_": affinity.matrix},
        )


@register(
    family="spectral",
    problem="eigen",
    papers=("belkin2003", "bengio2004", "luxburg2007", "deridder2003", "raducanu2012"),
    gives=_GIVES,
    keeps="closeness: strongly joined points stay together, clusters stand apart",
    loses="distances and the aspect ratio: for a long strip the second coordinate repeats the first",
    use_when="there are very many points, in clusters or on one sheet about as wide as long",
    fails_when="sampling is uneven, or one direction is much longer than the others",
    cost=_COST,
    test_params=_TEST_PARAMS,
)
@estimator
class LaplacianEigenmaps(LaplacianMixin):
    r"""Embed very many points by the coordinates that vary least along the edges of their neighbor graph.

    Laplacian eigenmaps solve

    .. math:: \min_Y \tfrac12 \sum_{ij} w_{ij} \|y_i - y_j\|^2 = \operatorname{tr} Y^T L Y
        \quad \text{subject to} \quad Y^T D Y = I, \; Y^T D 1 = 0 ,

    with affinities :math:`w_{ij} = e^{-d_{ij}^2 / (2 s^2)}` along the edges, degrees D and :math:`L = D - W`: the
    eigenvectors 2, ..., d + 1 of :math:`L v = \lambda D v`. The least sum is that of their eigenvalues.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Columns orthonormal in the weights D, with weighted mean 0.
    spectrum_ : Spectrum
        Eigenvalues between 0 and 2, ascending; the constant, with eigenvalue 0, is in ``dropped``. If
        components are embedded apart, that of the largest.
    affinity_matrix_, graph_
    diagnostics_ : dict
        Seconds, components, ``bandwidth`` and how many ``isolated_points`` have their own, ``skipped_eigenvectors``,
        values chosen by "auto".

    See Also
    --------
    DiffusionMaps : corrects uneven sampling.
    CommuteTime : distances with a meaning.
    LPP : a linear map.
    SpectralClustering : labels instead of coordinates.

    Notes
    -----
    A callback cannot shorten this fit. Written :math:`e^{-\gamma d^2}` the heat kernel has :math:`s =
    1/\sqrt{2\gamma}`, written :math:`e^{-d^2/t}` it has :math:`s = \sqrt{t/2}`, written :math:`e^{-d^2/(4t)}` it has
    :math:`s = \sqrt{2t}`. Given affinities between different classes are multiplied by :math:`e^{-(w / (1 - w))^2}`
    with the target weight w.

    New points follow the eigenvector equation,
    :math:`v(x) = \frac{1}{1 - \lambda} \sum_j p(x, j) v_j`, over their neighbors; a new point that coincides
    with a fitted one gets its coordinates. Affinities below 1e-10 of the strongest are raised to it.

    Examples
    --------
    >>> from manifoldry import LaplacianEigenmaps, datasets
    >>> roll = datasets.swiss_roll(1000)
    >>> model = LaplacianEigenmaps(n_neighbors=10).fit(roll.X)
    >>> model.embedding_.shape
    (1000, 2)
    """

    laplacian: LaplacianKind = parameter(
        'Normalization: "random_walk" for v as above; "symmetric" for :math:`u = D^{1/2} v`, with :math:`Y^T Y = I`; '
        '"unnormalized" for the eigenvectors of L itself, also with :math:`Y^T Y = I`, in which all points have the '
        "same weight.",
        default="random_walk",
    )
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    @property
    def _laplacian_kind(self) -> LaplacianKind:
        return self.laplacian

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        if self.metric != "affinity":
            return super()._embed_with(X, y, run)
        targets = given_targets(y, count_points(X), self.target_weight, self.target_metric)
        return self._embed(X if targets is None else weakened(X, targets), run)


@register(
    family="spectral",
    problem="eigen",
    papers=("bengio2004", "chandra1996", "klein1993", "luxburg2014", "qiu2007"),
    gives=_GIVES,
    keeps="commute times: the expected steps of a random walk there and back",
    loses="geodesic distances; with few coordinates, the times between neighbors",
    use_when="the graph itself is the data: affinities, resistances, clusters joined by few edges",
    fails_when="the graph is large and dense: commute times then depend only on the degrees of their ends",
    cost=_COST,
    test_params=_TEST_PARAMS,
)
@estimator
class CommuteTime(LaplacianMixin):
    r"""Embed a graph so that squared distances are the round-trip times of a random walk.

    The commute-time embedding is

    .. math:: z_i = \sqrt{\mathrm{vol}} \left( \frac{u_1(i)}{\sqrt{\lambda_1}}, \dots,
        \frac{u_d(i)}{\sqrt{\lambda_d}} \right), \qquad L u_k = \lambda_k u_k ,

    with the unnormalized Laplacian :math:`L = D - W` of the affinities, its constant left out, and the sum of degrees
    :math:`\mathrm{vol}`. With all n - 1 coordinates

    .. math:: \|z_i - z_j\|^2 = c_{ij} = \mathrm{vol}\, (e_i - e_j)^T L^+ (e_i - e_j) ,

    the expected number of steps from i to j and back. Divided by vol it is the resistance between i and j in a
    network whose conductances are the affinities.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, orthogonal columns of squared norm vol over the eigenvalue.
    spectrum_ : Spectrum
        Eigenpairs of L, ascending; the constant is in ``dropped``.
    affinity_matrix_, graph_
    diagnostics_ : dict
        Seconds, components, ``bandwidth``, ``volume``, values chosen by "auto".

    See Also
    --------
    LaplacianEigenmaps : coordinates without the scale of times.
    DiffusionMaps : a walk of a given number of steps.
    SPE : the connectivity of a graph.

    Notes
    -----
    A callback cannot shorten this fit. No path joins two components: the time is infinite. New points follow
    the eigenvector equation,
    :math:`u(x) = \sum_j w(x, j) u_j / (d(x) - \lambda)`, over their neighbors; where their degree is not well above
    the eigenvalue, the plain average of the neighbors. One that coincides with a fitted point gets its coordinates.

    In large dense graphs :math:`c_{ij}` tends to :math:`\mathrm{vol}(1/d_i + 1/d_j)`, which does not depend on the
    paths between i and j; the first few coordinates still do.

    Examples
    --------
    A triangle of unit resistors: 1 parallel to 1 + 1 is two thirds, and a round trip takes four steps.

    >>> import numpy as np
    >>> from manifoldry import CommuteTime
    >>> model = CommuteTime(n_components=2, metric="affinity").fit(1.0 - np.eye(3))
    >>> model.commute_times().round(6)
    array([[0., 4., 4.],
           [4., 0., 4.],
           [4., 4., 0.]])
    """

    def commute_times(self, pairs: Any = None) -> FloatArray:
        """Return the commute times between fitted points, by all eigenvectors: the squared commute distances.

        Parameters
        ----------
        pairs : array of int of shape (m, 2), optional
            Pairs of points; all pairs by default, which takes an n x n matrix. Given pairs need only a sparse
            factorization, also of large graphs.

        Returns
        -------
        ndarray of shape (n_samples, n_samples), or (m,)
            Expected steps there and back.
        """
        check_is_fitted(self, "embedding_")
        if len(components(self.graph_)) > 1:
            raise ValueError("Commute times need a connected graph; fit with disconnected='bridge'.")
        affinity = Affinity(self.affinity_matrix_)
        if pairs is None:
            return _all_times(affinity, self._run())
        return _pair_times(affinity, _checked_pairs(pairs, self.graph_.n_points))

    def commute_distances(self, pairs: Any = None) -> FloatArray:
        """Return the roots of `commute_times`: the distances of the full embedding."""
        return np.sqrt(self.commute_times(pairs))

    def _scaled(self, spectrum: Spectrum, affinity: Affinity) -> tuple[FloatArray, dict[str, Any]]:
        # Faint bridges between large parts bring an eigenvalue down to rounding, of either sign.
        values = np.maximum(spectrum.values, np.finfo(float).eps * affinity.degrees.max())
        return np.sqrt(affinity.volume) * spectrum.vectors / np.sqrt(values), {"volume": affinity.volume}


def _all_times(affinity: Affinity, run: Run) -> FloatArray:
    """Return vol (G_ii + G_jj - 2 G_ij) with the inverse G of L + a 11'/n, for a the mean degree (any will do)."""
    n = len(affinity.degrees)
    run.announce("commute times", 3 * 8 * n * n, "ask for pairs")
    inverse = np.linalg.inv(laplacian(affinity.matrix).matrix.toarray() + affinity.degrees.mean() / n)
    diagonal = np.diagonal(inverse)
    times = affinity.volume * np.maximum(diagonal[:, None] + diagonal - (inverse + inverse.T), 0.0)
    np.fill_diagonal(times, 0.0)
    return times


def _pair_times(affinity: Affinity, pairs: IntArray) -> FloatArray:
    """Return vol (e_i - e_j)' x with L x = e_i - e_j, one point of which is held at 0."""
    n = len(affinity.degrees)
    factor = splu(laplacian(affinity.matrix).matrix[1:, 1:].tocsc(), permc_spec="MMD_AT_PLUS_A")
    times = np.empty(len(pairs))
    for lo in range(0, len(pairs), N_RIGHT_HAND_SIDES):
        block = slice(lo, lo + N_RIGHT_HAND_SIDES)
        i, j = pairs[block].T
        column = np.arange(len(i))
        potential = np.zeros((n, len(i)))
        potential[i, column] += 1.0
        potential[j, column] -= 1.0
        potential[1:] = factor.solve(potential[1:])
        potential[0] = 0.0
        times[block] = affinity.volume * np.maximum(potential[i, column] - potential[j, column], 0.0)
    return times


def _checked_pairs(pairs: Any, n: int) -> IntArray:
    ends = np.asarray(pairs)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu" or not ((ends >= 0) & (ends < n)).all():
        raise ValueError(f"pairs must be an array of indices below {n} with two columns; got {pairs!r:.60}.")
    return ends
