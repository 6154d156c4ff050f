"""TriMap: triplets of a point, a near one and a farther one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core import check
from manifoldry._core.parameters import Described, NonNegative, NonNegativeInt, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray
from manifoldry._numerics.descent.initialization import check_init, in_order
from manifoldry._numerics.descent.optimizer import Phase, descend
from manifoldry._numerics.extension.near_pairs import N_EXTRA, NearPairExtension, near_pairs, neighbor_scales
from manifoldry._numerics.patches.start import find_start
from manifoldry.graph._operations import list_neighbors
from manifoldry.graph._pairwise import distances_to_listed, draw_triplets
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import Embedder, Metric, count_points
from manifoldry.methods._base._texts import METRIC_PARAMS_TEXT, METRIC_TEXT, SEARCH_TEXT

N_NEIGHBORS = 12
RANDOM_SHARE = 0.1  # factor of the weights of random triplets
FIRST_MOMENTUM, MOMENTUM, SWITCH = 0.5, 0.8, 5 / 8  # the second momentum begins after this share of the iterations
INITIAL_STD = 0.01  # standard deviation of the widest column of an initial layout
N_SUMS, ROWS_PER_SUM, ROWS_PER_BLOCK = 16, 256, 1024
"""Blocks of triplets whose forces are added in arrays of their own, their least number of points; points of a move."""
TRIPLETS_PER_CALL = 2**25  # triplets times iterations in a compiled call: Ctrl-C waits for its end
STEPS_PER_CHECK = 100  # iterations between two entries of the trace


@dataclass
class Triplets:
    """Points j and k of each point i, (n, m, 1 + q), and the weights (n, m, q) of its triplets (i, j, k)."""

    partners: IntArray
    weights: FloatArray

    def __post_init__(self) -> None:
        self.partners = np.ascontiguousarray(self.partners, dtype=np.int32)
        self.weights = np.ascontiguousarray(self.weights, dtype=np.float32)

    def losses(self, Y: FloatArray, rows: slice) -> FloatArray:
        """Return the cost of the triplets of some points i."""
        d = 1.0 + np.square(Y[self.partners[rows]] - Y[rows, None, None], dtype=np.float64).sum(axis=3)
        return (self.weights[rows] * d[:, :, :1] / (d[:, :, :1] + d[:, :, 1:])).sum(axis=(1, 2))


@dataclass
class TripletDescent:
    """Gradient descent with momentum and gains along near and random triplets."""

    triplets: tuple[Triplets, Triplets]
    momenta: FloatArray
    learning_rate: float
    run: Run
    state: tuple[FloatArray, ...] = field(default=(), init=False)

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:
        """Move ``Y`` (float32) by one to ``limit`` iterations."""
        from manifoldry._numerics.kernels.triplet_descent import descend_triplets

        n = len(Y)
        n_steps = max(1, min(limit, TRIPLETS_PER_CALL // sum(each.weights.size for each in self.triplets)))
        self.state = self.state or (
            *(Y.copy(), np.zeros_like(Y), np.ones_like(Y)),
            np.empty((min(N_SUMS, -(-n // ROWS_PER_SUM)), *Y.shape), dtype=np.float32),
        )
        lists = tuple(each.partners for each in self.triplets), tuple(each.weights for each in self.triplets)
        momenta = self.momenta[step : step + n_steps + 1].astype(np.float32)
        self.run.team(descend_triplets, *lists, Y, *self.state, momenta, np.float32(self.learning_rate), ROWS_PER_BLOCK)
        return n_steps

    def objective(self, Y: FloatArray) -> float:
        """Return the cost of all triplets per point."""
        tasks = self.run.ranges(len(Y), ROWS_PER_BLOCK)
        losses = self.run.map(lambda lo, hi: [each.losses(Y, slice(lo, hi)) for each in self.triplets], tasks)
        return float(np.concatenate([part for parts in losses for part in parts]).sum() / len(Y))


def triplet_descent(near: Triplets, further: Triplets, learning_rate: float, max_iter: int, run: Run) -> Phase:
    """Return the descent; the momentum is larger in its last part."""
    momenta = np.where(np.arange(max_iter + 1) <= SWITCH * max_iter, FIRST_MOMENTUM, MOMENTUM)
    descent = TripletDescent((near, further), momenta, learning_rate, run)
    return Phase("triplets", descent, max_iter, check_every=STEPS_PER_CHECK, measure="cost")


def farther_points(near: IntArray, n_farther: int, run: Run) -> IntArray:
    """Return random points (n, m, n_farther) for ``near`` (n, m): not the point itself nor those up to the near one."""
    n, m = near.shape
    rng, listed = run.rng("farther points"), np.column_stack([np.arange(n), near])
    farther = np.empty((n, m, n_farther), dtype=np.int32)
    for a in range(m):
        excluded = np.sort(listed[:, : a + 2], axis=1)
        farther[:, a] = rng.integers(n - a - 2, size=(n, n_farther))
        for column in excluded.T:  # a number among those left becomes one among all
            farther[:, a] += farther[:, a] >= column[:, None]
    return farther


def tempered(weights: FloatArray, temperature: float) -> FloatArray:
    r"""Return the tempered logarithm :math:`((1 + w)^{1 - t} - 1) / (1 - t)`, for t = 1 :math:`\ln (1 + w)`."""
    if temperature == 1.0:
        return np.log1p(weights)
    return np.expm1((1.0 - temperature) * np.log1p(weights)) / (1.0 - temperature)


@register(
    problem="descent",
    papers=("amid2019",),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="neighbors, the shape of one connected body as a whole, and outliers, which it draws far out",
    loses="distances, densities, and the arrangement of separate clusters, for which PCA is better",
    use_when="a body with limbs or branches should be seen as a whole, or outliers should stand out",
    fails_when="neighborhoods have to be kept as well as possible, or clusters that touch should be separated",
    cost="O(n) an iteration, 400 iterations, after the neighbor search: to millions of points",
    test_params={"n_components": 2, "n_neighbors": 5, "max_iter": 90},
)
@estimator
class TriMap(Embedder):
    r"""Draw a body and its parts as a whole, by triplets: a point, a near one, and one that is farther.

    With :math:`d_{ij} = 1 + \|y_i - y_j\|^2`, the layout minimizes

    .. math:: \sum_{(i, j, k)} \omega_{ijk} \frac{d_{ij}}{d_{ij} + d_{ik}} , \qquad
        \omega_{ijk} = \ln_t (1 + \tilde\omega_{ijk} - \min \tilde\omega) , \qquad
        \tilde\omega_{ijk} = \frac{\|x_i - x_k\|^2}{\sigma_i \sigma_k} - \frac{\|x_i - x_j\|^2}{\sigma_i \sigma_j} ,

    with :math:`\sigma` the mean distance to the fourth to sixth neighbor and, at the temperature t, the logarithm
    :math:`\ln_t u = (u^{1 - t} - 1) / (1 - t)`. For each of the neighbors j of least scaled distance, some points k are
    random ones that are not nearer than j. In a few more triplets both points are random, and :math:`\tilde\omega` is a
    tenth of the above.
    The descent has momentum and a gain for each coordinate (delta-bar-delta).

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout.
    graph_ : NeighborGraph
        The list of neighbors from which the near points were taken.
    trace_ : Trace
        The cost per point at the start and every 100 iterations.
    diagnostics_ : dict
        Seconds, memory, values chosen by "auto", the recall of an approximate search.

    See Also
    --------
    PaCMAP : pairs instead of triplets; keeps more neighbors.
    UMAP : keeps more neighbors, and takes labels.
    PCA : the linear map from which the descent begins.

    Notes
    -----
    Columns are not scaled, and rows with many columns are not reduced first. A new point moves from the mean of its
    neighbors to a minimum of :math:`\sum_j d_j / (s + d_j)` over them, with the fitted points fixed and s the median of
    :math:`d_{ik}` over the triplets; one that coincides with a fitted point gets its coordinates.

    Examples
    --------
    >>> from manifoldry import TriMap, datasets
    >>> blobs = datasets.gaussian_clusters(300, random_state=0)
    >>> TriMap().fit_transform(blobs.X).shape
    (300, 2)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of near points j of each point; "auto" is 12, or a third of fewer than 36 points.', default="auto"
    )
    n_farther: PositiveInt = parameter("Number of farther points k for each near one.", default=4)
    n_random: NonNegativeInt = parameter("Number of triplets of each point with two random others.", default=3)
    temperature: NonNegative = parameter(
        "Temperature t of the logarithm of weights: 0 leaves them, and larger ones make the layout more compact.",
        default=0.5,
    )
    metric: Metric = parameter(METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    init: Literal["pca"] | Annotated[Any, Described("an array of shape (n, n_components)")] = parameter(
        'Initial layout: "pca" for principal components (classical scaling for distances), or a given array, whose '
        "shape matters, not its unit.",
        default="pca",
    )
    learning_rate: Positive = parameter("Step length of the descent, times half the gradient.", default=0.1)
    max_iter: PositiveInt = parameter("Number of iterations.", default=400)

    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True
    _chunk_support = ChunkSupport(n_rows=100_000)

    def _check_parameters(self, n_points: int) -> None:
        check.enough_points(n_points, 3, "triplets")
        super()._check_parameters(n_points)
        self._rule(n_points)

    def _rule(self, n_points: int) -> NeighborRule:
        rule = NeighborRule(self.n_neighbors, None, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points).at_least(self._n_near(n_points) + N_EXTRA, n_points)

    def _n_near(self, n_points: int) -> int:
        if self.n_neighbors == "auto":
            return min(N_NEIGHBORS, n_points // 3)
        return min(int(self.n_neighbors), n_points - 2)  # no point is farther than the last of all

    def _embed(self, X: Any, run: Run) -> Embedding:
        n = count_points(X)
        check_init(self.init, X, self.n_components, self._pairwise)
        graph, index = list_neighbors(X, self._rule(n), run)
        start = find_start(self.init, X, csr_array((n, n)), self.n_components, run, metric=self.metric)
        initial, order = in_order(start.places)
        with run.stage("triplets"):
            near, further = self._triplets(X, graph.indices.reshape(n, -1), graph.lengths.reshape(n, -1), order, run)
        with run.stage("layout"):
            moving: Any = np.ascontiguousarray(INITIAL_STD * initial, dtype=np.float32)
            phase = triplet_descent(near, further, float(self.learning_rate), int(self.max_iter), run)
            trace = descend(moving, [phase], run)
        layout = np.empty_like(moving)
        layout[order] = moving
        n_near = self._n_near(n)
        between = 1.0 + np.square(moving[near.partners[:, 0, 1]] - moving).sum(axis=1)
        return Embedding(
            layout,
            graph=graph,
            trace=trace,
            extension=NearPairExtension(index.narrowed(n_near), layout, float(np.median(between))),
            notes={**index.notes, "n_neighbors": n_near, "init": start.kind},
        )

    def _triplets(
        self, X: Any, neighbors: IntArray, distances: FloatArray, order: IntArray, run: Run
    ) -> tuple[Triplets, Triplets]:
        """Return near and random triplets of the points, numbered by ``order``."""
        n, scales = len(order), neighbor_scales(distances)[order]
        number = np.empty(n, dtype=np.int32)
        number[order] = np.arange(n, dtype=np.int32)
        near, to_near = (rows[order] for rows in near_pairs(neighbors, distances, self._n_near(n)))
        near = number[near]
        farther = farther_points(near, int(self.n_farther), run)
        pairs = draw_triplets(n, np.arange(n), int(self.n_random), run.rng("random triplets"))

        def scaled(points: IntArray) -> FloatArray:
            columns = points.reshape(n, -1)
            lengths = distances_to_listed(X, self.metric, order, order[columns], run, self.metric_params)
            return ((lengths / scales[:, None]) * (lengths / scales[columns])).reshape(points.shape)

        to_pairs = scaled(pairs)
        nearest_first = np.argsort(to_pairs, axis=2, kind="stable")
        pairs = np.take_along_axis(pairs, nearest_first, axis=2)
        near_weights = scaled(farther) - to_near[:, :, None]
        random_weights = RANDOM_SHARE * np.abs(np.diff(to_pairs, axis=2))
        least = min(near_weights.min(), random_weights.min(initial=np.inf))
        lists = np.concatenate([near[:, :, None], farther], axis=2)
        return (
            Triplets(lists, tempered(near_weights - least, self.temperature)),
            Triplets(pairs, tempered(random_weights - least, self.temperature)),
        )
