"""PHATE: distances between the logarithms of diffusion probabilities, embedded by metric scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array

from manifoldry._core.parameters import NonNegative, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.scaling import classical_scaling
from manifoldry._numerics.smacof import guttman_transform, majorize
from manifoldry.graph._pairwise import distance_rows
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.methods._base import Embedder, Metric, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import count_points
from manifoldry.methods._base._texts import METRIC_PARAMS_TEXT, METRIC_TEXT, SEARCH_TEXT

MIN_AFFINITY = 1e-4  # affinities below count as 0, as in the authors' implementation
MIN_PROBABILITY = 1e-7  # added to probabilities before their logarithm
MAX_LOG_REACH = 300.0  # logarithm of the most bandwidths that neighbors are searched within: a small decay reaches all
LEAST_POTENTIAL = 1e-9  # potential distances below are rounding: logarithms of probabilities that have all mixed
MAX_TIME = 100  # steps of the walk among which the knee of the entropy is searched
SKETCH_COLUMNS, SKETCH_POWER = 50, 8
"""Columns and power of the random sketch of the walk, whose rows are clustered into landmarks."""
LANDMARK_ROUNDS = 10  # rounds of k-means for the landmarks


@register(
    problem="majorization",
    papers=("moon2019", "deleeuw1977"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="trajectories and branches: how probable walks of t steps are, far and near",
    loses="distances in the data and noise within neighborhoods, which the diffusion removes",
    use_when="cells or other samples progress along branches, and a smooth tree should be visible",
    fails_when="there are separate clusters without a path between them, which it draws as if they were joined",
    cost="O(m^3) for m landmarks, at most 2,000, after the neighbor search: 20,000 points in seconds",
    test_params={"n_components": 2, "n_neighbors": 4},
)
@estimator
class PHATE(Embedder):
    r"""Draw trajectories and branches by potential distances: those between logarithms of diffusion probabilities.

    Potential of heat diffusion for affinity-based transition embedding walks along the affinities

    .. math:: k_{ij} = \tfrac12 e^{-(d_{ij} / \sigma_i)^\alpha} + \tfrac12 e^{-(d_{ij} / \sigma_j)^\alpha} , \qquad
        P = D^{-1} K ,

    with :math:`\sigma_i` the distance to the k-th neighbor, and embeds the potential distances

    .. math:: \Delta_{ij} = \| \ln P^t_{i \cdot} - \ln P^t_{j \cdot} \|

    by metric multidimensional scaling. The number t of steps is where the von Neumann entropy of
    :math:`|\lambda|^t / \sum |\lambda|^t` stops falling fast, with the eigenvalues :math:`\lambda` of P.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The coordinates.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The affinities K.
    t_ : int
        The number of steps.
    graph_ : NeighborGraph
        The lists of neighbors on which the affinities are based.
    trace_ : Trace
        The stress of the potential distances after each iteration.
    diagnostics_ : dict
        Seconds, memory, ``n_landmarks``, values chosen by "auto", the recall of an approximate search.

    See Also
    --------
    DiffusionMaps : the eigenvectors of the walk, with diffusion distances.
    UMAP : clusters of many points.

    Notes
    -----
    With more points than ``n_landmarks``, points from which walks lead to the same others are clustered into landmarks,
    and the walk goes from landmarks to points and back. Potential distances are those between landmarks, and a point
    gets the mean of their coordinates, weighted by its probabilities of a step to them. New points are embedded in the
    same way, without landmarks among the fitted points; one that coincides with a fitted point gets its coordinates.

    Examples
    --------
    >>> from manifoldry import PHATE, datasets
    >>> roll = datasets.swiss_roll(300)
    >>> PHATE().fit_transform(roll.X).shape
    (300, 2)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'The neighbor whose distance is the bandwidth of a point; "auto" is 5.', default="auto"
    )
    decay: Positive = parameter(
        r"Exponent :math:`\alpha` of the affinities: a large one makes them nearly 1 up to the bandwidth and 0 beyond.",
        default=40.0,
    )
    t: PositiveInt | Literal["auto"] = parameter(
        'Number of steps of the walk; "auto" is the knee of the von Neumann entropy, up to 100.', default="auto"
    )
    n_landmarks: PositiveInt = parameter(
        "Maximum number of landmarks; fewer points are their own landmarks.", default=2000
    )
    metric: Metric = parameter(METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    max_iter: PositiveInt = parameter("Maximum number of iterations of the scaling.", default=300)
    tol: NonNegative = parameter(
        "The scaling stops when the stress decreases by less than this share in two consecutive iterations.",
        default=1e-6,
    )

    affinity_matrix_: csr_array = fitted()
    t_: int = fitted()

    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True
    _chunk_support = ChunkSupport(n_rows=20_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._rule(n_points)
        if self.n_landmarks <= self.n_components and self.n_landmarks < n_points:
            raise ValueError(
                f"n_landmarks must be above n_components = {self.n_components}; got {self.n_landmarks}: fewer "
                "landmarks span fewer dimensions."
            )

    def _rule(self, n_points: int) -> NeighborRule:
        rule = NeighborRule(self.n_neighbors, None, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points, 5)

    def _embed(self, X: Any, run: Run) -> Embedding:
        n, rule = count_points(X), self._rule(count_points(X))
        graph, index = decaying_neighbors(X, rule, self.decay, run)
        with run.stage("affinities"):
            affinities = decaying_affinities(graph, int(rule.n_neighbors or 1), self.decay)
        with run.stage("landmarks"):
            landmark = np.arange(n) if n <= self.n_landmarks else landmarks(affinities, self.n_landmarks, run)
        with run.stage("diffusion"):
            steps = landmark_steps(affinities, landmark)
            t = entropy_knee(steps) if self.t == "auto" else int(self.t)
            distances = potential_distances(steps, t)
        with run.stage("scaling"), run.stoppable():
            start = classical_scaling(distances, self.n_components, run).coordinates
            step = guttman_transform(distances, None, run)
            Y, trace = majorize(step, start, run, self.max_iter, self.tol)
        targets = Y[landmark]
        coordinates = targets if len(Y) == n else row_means(affinities, targets)
        return Embedding(
            coordinates,
            graph=graph,
            trace=trace,
            extension=DiffusionMean(index, targets, coordinates, float(self.decay), int(rule.n_neighbors or 1)),
            notes={
                **index.notes,
                "n_neighbors": rule.n_neighbors,
                "t": t,
                "n_landmarks": len(Y),
                **mixed(distances, t),
            },
            fitted={"affinity_matrix_": affinities, "t_": t},
        )


def decaying_neighbors(X: Any, rule: NeighborRule, decay: float, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
    """Return lists of neighbors so long that all affinities above the threshold are in them."""
    n, k = X.shape[0], int(rule.n_neighbors or 1)
    reach = np.exp(min(MAX_LOG_REACH, np.log(-np.log(MIN_AFFINITY)) / decay))
    length = min(n - 1, 2 * k)
    while True:
        graph, index = neighbor_graph(X, rule.at_least(length, n), run)
        lengths = graph.lengths.reshape(n, -1)
        if length == n - 1 or (lengths[:, -1] > reach * lengths[:, k - 1]).all():
            return graph, index
        length = min(n - 1, 2 * length)


def decaying_affinities(graph: NeighborGraph, n_neighbors: int, decay: float) -> csr_array:
    """Return the symmetric affinities K (n, n), with 1 on the diagonal."""
    n = graph.n_points
    strengths = alpha_decay(graph.lengths.reshape(n, -1), n_neighbors, decay)
    one_way = csr_array((strengths.reshape(-1), graph.indices, graph.indptr), shape=(n, n), copy=True)
    one_way.eliminate_zeros()
    both = csr_array(0.5 * (one_way + one_way.T) + eye_array(n))
    both.sort_indices()
    return both


def alpha_decay(lengths: FloatArray, n_neighbors: int, decay: float) -> FloatArray:
    r"""Return :math:`e^{-(d / \sigma)^\alpha}` of ascending distances (n, m), 0 below the threshold."""
    lengths = lengths.astype(np.float64)
    widths = lengths[:, [min(n_neighbors, lengths.shape[1]) - 1]]
    ratios = np.divide(lengths, widths, out=np.where(lengths > 0, np.inf, 0.0), where=widths > 0)
    with np.errstate(over="ignore"):
        strengths = np.exp(-(ratios**decay))
    return np.where(strengths >= MIN_AFFINITY, strengths, 0.0)


def landmarks(affinities: csr_array, count: int, run: Run) -> IntArray:
    """Return the landmark (n,) of each point: a cluster of points from which walks of some steps lead to the same."""
    n, rng = affinities.shape[0], run.rng("landmarks")
    sketch = rng.standard_normal((n, SKETCH_COLUMNS))
    for _ in range(SKETCH_POWER):
        sketch, _ = np.linalg.qr(row_means(affinities, sketch))
    centers = sketch[np.sort(rng.choice(n, count, replace=False))]
    for _ in range(LANDMARK_ROUNDS):
        nearest = np.concatenate(
            run.map(
                lambda lo, hi, centers=centers: np.argmin(
                    np.square(centers).sum(axis=1) - 2.0 * sketch[lo:hi] @ centers.T, axis=1
                ),
                run.ranges(n, max(1, 2**21 // count)),
                blas=True,
            )
        )
        _, label = np.unique(nearest, return_inverse=True)
        members = csr_array((np.ones(n), (label, np.arange(n))))
        centers = (members @ sketch) / np.asarray(members.sum(axis=1)).reshape(-1, 1)
    return label


def landmark_steps(affinities: csr_array, landmark: IntArray) -> FloatArray:
    """Return symmetric weights (m, m) of walks from landmarks to points and back; without landmarks the affinities."""
    n = affinities.shape[0]
    if landmark.max() + 1 == n:
        return affinities.toarray()
    joint = csr_array(affinities @ csr_array((np.ones(n), landmark, np.arange(n + 1))))
    by_point = np.asarray(joint.sum(axis=1)).reshape(-1)
    return (joint.T @ csr_array(diags_array(1.0 / by_point) @ joint)).toarray()


def row_means(affinities: csr_array, values: FloatArray) -> FloatArray:
    """Return P times values (n, q): the means over the neighbors, weighted by affinity."""
    return (affinities @ values) / np.asarray(affinities.sum(axis=1)).reshape(-1, 1)


def entropy_knee(steps: FloatArray) -> int:
    r"""Return the knee of the entropy of :math:`|\lambda|^t / \sum |\lambda|^t`: where two lines fit it best."""
    root = 1.0 / np.sqrt(steps.sum(axis=1))
    with blas_threads_for(len(steps)):
        values = np.abs(np.linalg.eigvalsh(steps * root[:, None] * root))
    times = np.arange(1, MAX_TIME + 1)
    powers = values ** times[:, None]
    shares = powers / powers.sum(axis=1, keepdims=True)
    entropy = -np.sum(shares * np.log(np.where(shares > 0, shares, 1.0)), axis=1)
    errors = [line_error(times[: k + 1], entropy[: k + 1]) + line_error(times[k:], entropy[k:]) for k in times[1:-2]]
    return int(times[1:-2][int(np.argmin(errors))]) + 1


def line_error(x: Array, y: FloatArray) -> float:
    """Return the sum of absolute residuals of the line of least squares, as in the authors' implementation."""
    centered, values = x - x.mean(), y - y.mean()
    return float(np.abs(values - (centered @ values) / (centered @ centered) * centered).sum())


def potential_distances(steps: FloatArray, t: int) -> FloatArray:
    """Return the distances (m, m) between the logarithms of the probabilities after t steps."""
    walk = steps / steps.sum(axis=1, keepdims=True)
    with blas_threads_for(len(walk), len(walk)):
        potentials = -np.log(np.linalg.matrix_power(walk, t) + MIN_PROBABILITY)
        distances = distance_rows(potentials)(np.arange(len(walk)))
    return (distances + distances.T) / 2


def mixed(distances: FloatArray, t: int) -> dict[str, list[str]]:
    """Return advice if walks of t steps end at the same points wherever they begin."""
    if distances.max() > LEAST_POTENTIAL:
        return {}
    return {"advice": [f"Walks of t = {t} steps end at the same points wherever they begin: choose a smaller t."]}


@dataclass(frozen=True)
class DiffusionMean:
    """A new point gets the mean of the ``targets`` of its neighbors, weighted by affinity, as the fitted points do."""

    index: NeighborIndex
    targets: FloatArray
    coordinates: FloatArray
    decay: float
    n_neighbors: int

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        neighbors, lengths = self.index.query(X, run)
        order = np.argsort(lengths, axis=1, kind="stable")
        neighbors, lengths = np.take_along_axis(neighbors, order, 1), np.take_along_axis(lengths, order, 1)
        weights = alpha_decay(lengths, self.n_neighbors, self.decay)
        means = np.einsum("ij,ijc->ic", weights, self.targets[neighbors]) / weights.sum(axis=1)[:, None]
        return np.where(lengths[:, :1] == 0, self.coordinates[neighbors[:, 0]], means)
