"""PaCMAP and LocalMAP: near, mid-near and further pairs in three phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import Described, NonNegative, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray
from manifoldry._numerics.descent.initialization import check_init, in_order
from manifoldry._numerics.descent.optimizer import Phase, descend
from manifoldry._numerics.extension.near_pairs import N_EXTRA, NearPairExtension, near_pairs
from manifoldry._numerics.patches.start import find_start
from manifoldry.graph._operations import list_neighbors
from manifoldry.graph._pairwise import distances_to_listed
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import Embedder, Metric, count_points
from manifoldry.methods._base._texts import METRIC_PARAMS_TEXT, METRIC_TEXT, SEARCH_TEXT

N_NEAR = 10
"""Near pairs of a point. The rule of the paper, 15 more for each factor of ten beyond 10,000 points, takes twice as
long for 70,000 digits, and preserves fewer of their neighbors."""
N_DRAWN = 6  # random points of which the second nearest is a mid-near one
FIRST_MID_WEIGHT, MID_WEIGHT = 1000.0, 3.0
PHASES = (("global", 100), ("middle", 100), ("local", 250))
"""Names and shares of the iterations of the phases."""
INITIAL_STD = 0.01  # standard deviation of the widest column of an initial layout
NEAR_SCALE = 10.0  # of d / (10 + d), the cost of a near pair, as in the compiled loop
ROWS_PER_BLOCK, ROWS_PER_TASK = 128, 2048
PAIRS_PER_CALL = 2**25  # pairs times iterations in a compiled call: Ctrl-C waits for its end
DECAYS = 0.9, 0.999  # of the moments of Adam, as in the compiled loop
REDRAW_EVERY = 10  # iterations between two draws of LocalMAP's further pairs


@dataclass
class PairDescent:
    """Steps of Adam along three kinds of pairs, in one phase of weights (steps, 3).

    ``radius`` is LocalMAP's distance within which further pairs are drawn again in this phase, 0 for PaCMAP.
    """

    pairs: Pairs
    weights: FloatArray
    first_step: int
    learning_rate: float
    run: Run
    radius: float = 0.0

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:
        """Move ``Y`` (float32) by one to ``limit`` iterations."""
        from manifoldry._numerics.kernels.pair_descent import descend_pairs

        if self.radius > 0 and step % REDRAW_EVERY == 0 and step > 0:
            self.pairs.redraw(Y, self.radius, self.first_step + step)
        limit = min(limit, REDRAW_EVERY - step % REDRAW_EVERY) if self.radius > 0 else limit
        n_steps = max(1, min(limit, PAIRS_PER_CALL // self.pairs.n_pairs))
        t = self.first_step + np.arange(step, step + n_steps) + 1
        lengths = self.learning_rate * np.sqrt(1 - DECAYS[1] ** t) / (1 - DECAYS[0] ** t)
        steps = np.column_stack([self.weights[step : step + n_steps], lengths]).astype(np.float32)
        other = np.empty_like(Y)
        moments = self.pairs.moments(Y)
        loop = *self.pairs.lists, Y, other, *moments, steps, np.float32(self.radius / 2)
        self.run.team(descend_pairs, *loop, ROWS_PER_BLOCK)
        if n_steps % 2:
            Y[:] = other
        return n_steps

    def objective(self, Y: FloatArray) -> float:
        """Return the cost of all pairs per point, with the last weights of the phase."""
        from manifoldry._numerics.kernels.pair_descent import loss_rows

        losses = np.empty(len(Y))
        rows = *self.pairs.lists, Y, np.ascontiguousarray(self.weights[-1]), losses
        self.run.map(lambda lo, hi: loss_rows(*rows, lo, hi), self.run.shares(len(Y), ROWS_PER_TASK))
        return float(losses.mean())


class Pairs:
    """The pairs of all points, (n, k) each: near, mid-near and further ones; and the moments of Adam."""

    def __init__(self, near: IntArray, mid: IntArray, n_far: int, run: Run) -> None:
        self.near, self.run = np.ascontiguousarray(near, dtype=np.int32), run
        self._seed = int(run.rng("further pairs").integers(2**63))
        self._far = np.zeros((len(near), n_far), dtype=np.int32)
        self._fixed = [both_ways(self.near), both_ways(mid)]
        self._moments: tuple[FloatArray, FloatArray] | None = None
        self.redraw(np.zeros((len(near), 1), dtype=np.float32), 0.0, 0)

    def redraw(self, Y: FloatArray, radius: float, number: int) -> None:
        """Draw the further pairs, if ``radius`` is above 0 within it in the layout ``Y``."""
        from manifoldry._numerics.kernels.pair_descent import draw_further

        rows = self.near, Y, np.float32(radius), np.uint64(self._seed + number), self._far
        self.run.map(lambda lo, hi: draw_further(*rows, lo, hi), self.run.shares(len(Y), ROWS_PER_TASK))
        indptr, indices = zip(*self._fixed, both_ways(self._far), strict=True)
        self.lists = tuple(indptr), tuple(indices)
        self.n_pairs = max(1, sum(map(len, indices)))

    def moments(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the moments, which change in place."""
        if self._moments is None:
            self._moments = np.zeros_like(Y), np.zeros_like(Y)
        return self._moments


def both_ways(partners: IntArray) -> tuple[IntArray, IntArray]:
    """Return row ends and other ends of the pairs (i, partners[i]), each listed by both of its ends."""
    n, k = partners.shape
    ends = partners.reshape(-1)
    if k == 0:
        return np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    forward = csr_array((np.ones(n * k, np.int8), ends, np.arange(0, n * k + 1, k)), shape=(n, n))
    reverse = forward.tocsc()
    indptr = np.concatenate([[0], np.cumsum(k + np.diff(reverse.indptr), dtype=np.int64)])
    forward_entries = (indptr[:-1, None] + np.arange(k)).reshape(-1)
    reverse_entries = np.ones(2 * n * k, dtype=bool)
    reverse_entries[forward_entries] = False
    indices = np.empty(2 * n * k, dtype=np.int32)
    indices[forward_entries] = ends
    indices[reverse_entries] = reverse.indices
    return indptr, indices


def mid_near_pairs(
    X: Any, metric: Any, metric_params: dict[str, Any] | None, order: IntArray, n_mid: int, run: Run
) -> IntArray:
    """Return mid-near points (n, n_mid): of six random ones the second nearest; points are numbered by ``order``."""
    n, rng = len(order), run.rng("mid-near pairs")
    pairs = np.empty((n, n_mid), dtype=np.int32)
    rows = np.arange(n)
    for m in range(n_mid):
        drawn = rng.integers(n - 1, size=(n, N_DRAWN))
        drawn += drawn >= rows[:, None]
        distances = distances_to_listed(X, metric, order, order[drawn], run, metric_params)
        second = np.argsort(distances, axis=1, kind="stable")[:, 1]
        pairs[:, m] = drawn[rows, second]
    return pairs


_GIVES = ("transform", "inverse", "trace", "graph")


@register(
    problem="descent",
    papers=("wang2021",),
    gives=_GIVES,
    keeps="neighbors, and the arrangement of clusters by pairs of points that are neither near nor far",
    loses="distances and densities; fine neighborhoods are kept less well than by t-SNE or UMAP",
    use_when="the arrangement of clusters counts as much as neighborhoods, with few parameters to choose",
    fails_when="neighborhoods have to be kept as well as possible, or distances are read off the map",
    cost="O(n) an iteration, 450 iterations, after the neighbor search: to millions of points",
    test_params={"n_components": 2, "n_neighbors": 5, "max_iter": 90},
)
@estimator
class PaCMAP(Embedder):
    r"""Draw clusters and their arrangement from three kinds of pairs: near, mid-near and further ones.

    Pairwise controlled manifold approximation minimizes, with :math:`d_{ij} = 1 + \|y_i - y_j\|^2`,

    .. math:: w_N \sum_{near} \frac{d_{ij}}{10 + d_{ij}} + w_M \sum_{mid} \frac{d_{ij}}{10000 + d_{ij}}
        + w_F \sum_{far} \frac{1}{1 + d_{ij}}

    in three phases. First the weight of mid-near pairs falls from 1,000 to 3 and arranges the clusters; then it is 3;
    in the last phase it is 0, and neighborhoods are refined. The near pairs of a point are its neighbors of least
    scaled distance :math:`\|x_i - x_j\|^2 / (\sigma_i \sigma_j)`, with :math:`\sigma` the mean distance to the
    fourth to sixth neighbor. A mid-near point is the second nearest of six random ones, and further points are random.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout.
    graph_ : NeighborGraph
        The list of neighbors from which the near pairs were taken.
    trace_ : Trace
        The cost per point at the start, with the weights at the end of the first phase, and after each phase.
    diagnostics_ : dict
        Seconds, memory, values chosen by "auto", the recall of an approximate search.

    See Also
    --------
    LocalMAP : separates clusters more sharply.
    UMAP : keeps more neighbors, and takes labels.
    TSNE : finer neighborhoods.

    Notes
    -----
    Columns are not scaled, and rows with many columns are not reduced first. A new point moves from the mean of its
    neighbors to a minimum of the cost of its near pairs, with the fitted points fixed; one that coincides with a fitted
    point gets its coordinates.

    Examples
    --------
    >>> from manifoldry import PaCMAP, datasets
    >>> blobs = datasets.gaussian_clusters(300, random_state=0)
    >>> PaCMAP().fit_transform(blobs.X).shape
    (300, 2)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of near pairs of each point; "auto" is 10, or n - 1 for fewer points.', default="auto"
    )
    mid_near_ratio: NonNegative = parameter("Number of mid-near pairs as a multiple of the near ones.", default=0.5)
    further_ratio: NonNegative = parameter("Number of further pairs as a multiple of the near ones.", default=2.0)
    metric: Metric = parameter(METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    init: Literal["pca"] | Annotated[Any, Described("an array of shape (n, n_components)")] = parameter(
        'Initial layout: "pca" for principal components (classical scaling for distances), or a given array, whose '
        "shape matters, not its unit.",
        default="pca",
    )
    learning_rate: Positive = parameter("Step length of Adam.", default=1.0)
    max_iter: PositiveInt = parameter(
        "Number of iterations, of which the three phases take 2/9, 2/9 and 5/9.", default=450
    )

    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True
    _chunk_support = ChunkSupport(n_rows=100_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._rule(n_points)

    def _rule(self, n_points: int) -> NeighborRule:
        rule = NeighborRule(self._n_near(n_points), None, self.metric, self.metric_params, self.search).resolve(
            n_points
        )
        return rule.at_least(int(rule.n_neighbors or 0) + N_EXTRA, n_points)

    def _n_near(self, n_points: int) -> int:
        return min(n_points - 1, N_NEAR) if self.n_neighbors == "auto" else int(self.n_neighbors)

    def _embed(self, X: Any, run: Run) -> Embedding:
        n = count_points(X)
        check_init(self.init, X, self.n_components, self._pairwise)
        graph, index = list_neighbors(X, self._rule(n), run)
        start = find_start(self.init, X, csr_array((n, n)), self.n_components, run, metric=self.metric)
        initial, order = in_order(start.places)
        with run.stage("pairs"):
            pairs = self._pairs(X, graph.indices.reshape(n, -1), graph.lengths.reshape(n, -1), order, run)
        with run.stage("layout"):
            moving: Any = np.ascontiguousarray(INITIAL_STD * initial, dtype=np.float32)
            trace = descend(moving, self._phases(pairs, run), run)
        layout = np.empty_like(moving)
        layout[order] = moving
        n_near = pairs.near.shape[1]
        return Embedding(
            layout,
            graph=graph,
            trace=trace,
            extension=NearPairExtension(index.narrowed(n_near), layout, NEAR_SCALE),
            notes={**index.notes, "n_neighbors": n_near, "init": start.kind},
        )

    def _pairs(self, X: Any, neighbors: IntArray, distances: FloatArray, order: IntArray, run: Run) -> Pairs:
        """Return the pairs of the points, numbered by ``order``; among few points there are fewer of each kind."""
        n = len(order)
        per_near = np.array([1.0, self.mid_near_ratio, self.further_ratio])
        n_near = self._n_near(n)
        n_near = min(n_near, max(1, int((n - 1) / per_near.sum())))
        n_mid, n_far = (min(n - 1, round(n_near * ratio)) for ratio in per_near[1:])
        n_far = max(0, min(n_far, n - 1 - n_near))
        number = np.empty(n, dtype=np.int32)
        number[order] = np.arange(n, dtype=np.int32)
        near = number[near_pairs(neighbors, distances, n_near)[0][order]]
        return Pairs(near, mid_near_pairs(X, self.metric, self.metric_params, order, n_mid, run), n_far, run)

    def _phases(self, pairs: Pairs, run: Run) -> list[Phase]:
        total, begin, phases = sum(share for _, share in PHASES), 0, []
        done = 0
        for name, share in PHASES:
            done += share
            end = round(self.max_iter * done / total)
            weights = self._weights(name, end - begin)
            radius = self._radius() if name == "local" else 0.0
            optimizer = PairDescent(pairs, weights, begin, float(self.learning_rate), run, radius)
            if end > begin:
                phases.append(Phase(name, optimizer, end - begin, measure="cost"))
            begin = end
        return phases

    def _weights(self, phase: str, n_steps: int) -> FloatArray:
        """Return the weights of near, mid-near and further pairs in every step of a phase."""
        weights = np.ones((n_steps, 3))
        share = np.arange(n_steps) / max(1, n_steps)
        if phase == "global":
            weights[:, 0], weights[:, 1] = 2.0, (1 - share) * FIRST_MID_WEIGHT + share * MID_WEIGHT
        elif phase == "middle":
            weights[:, :2] = 3.0, MID_WEIGHT
        else:
            weights[:, 1] = 0.0
        return weights

    def _radius(self) -> float:
        return 0.0


@register(
    problem="descent",
    papers=("wang2025", "wang2021"),
    gives=_GIVES,
    keeps="neighbors within clusters, which it separates more sharply than PaCMAP",
    loses="distances and densities; a cluster that is one in the data may be divided",
    use_when="clusters run into each other in the picture of PaCMAP or UMAP and are expected to be separate",
    fails_when="the data is one continuous cloud, in which gaps mislead",
    cost="as PaCMAP, with further pairs drawn again every ten iterations",
    test_params={"n_components": 2, "n_neighbors": 5, "max_iter": 90},
)
@estimator
class LocalMAP(PaCMAP):
    r"""Draw clusters separated more sharply than by `PaCMAP`, by adjusting its pairs in the last phase.

    In the last phase of `PaCMAP` the pull of a near pair is multiplied by :math:`r / (2 \sqrt{d_{ij}})`, so that long
    near pairs, which often join different clusters, pull less; and further pairs are drawn again every ten iterations
    among the points within the distance r in the layout, so that clusters that touch repel each other.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout.
    graph_, trace_, diagnostics_
        Those of `PaCMAP`.

    See Also
    --------
    PaCMAP : without the adjustment.

    Examples
    --------
    >>> from manifoldry import LocalMAP, datasets
    >>> blobs = datasets.gaussian_clusters(300, random_state=0)
    >>> LocalMAP().fit_transform(blobs.X).shape
    (300, 2)
    """

    low_distance: Positive = parameter(
        "Distance r in the layout within which further pairs are drawn in the last phase.", default=10.0
    )

    def _radius(self) -> float:
        return float(self.low_distance)
