"""Parametric neighbor embeddings: the losses of their encoder, and its training towards a layout and by the loss.

The loss of a layout depends on all coordinates. A minibatch moves its own points; the others stay where the network
last embedded them, in a table, so that one pass of the rows serves all edges from both ends.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import Fraction, NonNegative, Positive, PositiveInt, Sizes, parameter
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._numerics.descent.divergence import Divergence
from manifoldry._numerics.descent.negative_sampling import REPULSION_OFFSET, LayoutParameters
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import Embedder
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import ACTIVATION_TEXT, BATCH_SIZE_TEXT, SEARCH_TEXT
from manifoldry.methods.networks._network import (
    NETWORK_ROWS_PER_TASK,
    Activation,
    Network,
    NetworkInputs,
    NetworkMap,
    Schedule,
    linear_network,
    summed,
    train,
)

N_REPELLED = 64  # Random points that repel each point in a step: their mean is good to an eighth of its spread


@dataclass
class FuzzyCrossEntropy:
    r"""UMAP's loss, as its negative sampling has it (`negative_sampling.NegativeSampling`), over n.

    .. math:: \frac1n \sum_{ij} r_{ij} \ln (1 + a s_{ij}^b) - \frac{m \gamma}{n (n - 1)} \sum_i \Big(\sum_j r_{ij}\Big)
        \sum_{k \ne i} \ln \frac{a s_{ik}^b}{1 + a s_{ik}^b}

    with s a squared distance plus 0.001, so that no slope is infinite; the sum over k is that over random points. r are
    the symmetric ``weights`` as shares of the largest; random numbers choose among the points in their ``order``
    (mcinnes2018, damrich2021, sainburg2021).
    """

    weights: csr_array
    parameters: LayoutParameters
    order: IntArray
    rng: np.random.Generator
    degrees: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.weights = self.weights / self.weights.data.max()
        self.degrees = np.asarray(self.weights.sum(axis=1)).reshape(-1)

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss by the pairs of ``rows``, and n times its gradient by their coordinates (m, d)."""
        a, b = self.parameters.a, self.parameters.b
        edges = self.weights[rows]
        i = np.repeat(np.arange(len(rows)), np.diff(edges.indptr))
        gaps = Y[rows[i]] - Y[edges.indices]
        s = (gaps * gaps).sum(axis=1) + REPULSION_OFFSET
        power = a * s**b
        value = float(edges.data @ np.log1p(power))
        pull = edges.data * 2 * b * power / (s * (1 + power))
        # Each pair is in the sum twice, from both ends.
        attraction = [np.bincount(i, pull * gap, minlength=len(rows)) for gap in gaps.T]
        slopes: FloatArray = 2.0 * np.stack(attraction, axis=1).astype(np.float64)
        others, share = self._others(rows)
        gaps = Y[rows][:, None] - Y[others]
        s = (gaps * gaps).sum(axis=2) + REPULSION_OFFSET
        power = a * s**b
        factor = self.parameters.negative_sample_rate * self.parameters.repulsion_strength * share
        value += float(self.degrees[rows] @ (factor * np.log1p(1 / power)).sum(axis=1))
        push = factor * (self.degrees[rows][:, None] + self.degrees[others]) * 2 * b / (s * (1 + power))
        slopes -= (push[:, :, None] * gaps).sum(axis=1)
        return value / len(rows), slopes

    def value(self, Y: FloatArray) -> float:
        """Return the loss."""
        parts = np.array_split(self.order, max(1, len(Y) // NETWORK_ROWS_PER_TASK))
        return float(sum(len(rows) * self.slopes(Y, rows)[0] for rows in parts) / len(Y))

    def _others(self, rows: IntArray) -> tuple[IntArray, float | FloatArray]:
        """Return points that repel the rows, (m, k), and the share of each in the mean over all."""
        n = len(self.order)
        if n - 1 <= N_REPELLED:
            everyone: IntArray = np.broadcast_to(np.arange(n), (len(rows), n))
            return everyone, (everyone != rows[:, None]) / (n - 1)
        others: IntArray = self.order[self.rng.integers(n, size=(len(rows), N_REPELLED))]
        different = others != rows[:, None]
        return others, different / np.maximum(different.sum(axis=1, keepdims=True), 1)


@dataclass
class DivergenceLoss:
    """t-SNE's divergence over all pairs (vandermaaten2009b); `slopes` computes its value once per epoch."""

    divergence: Divergence
    _latest: float = field(default=np.nan, init=False)
    _rows: int = field(default=0, init=False)

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss when it was last computed, and n times its gradient by the coordinates of ``rows``."""
        if self._rows <= 0:
            self._latest, self._rows = self.value(Y), len(Y)
        self._rows -= len(rows)
        return self._latest, len(Y) * self.divergence.gradient(Y)[rows]

    def value(self, Y: FloatArray) -> float:
        """Return the divergence."""
        return self.divergence.value(Y)


LayoutLoss = FuzzyCrossEntropy | DivergenceLoss


@dataclass(frozen=True)
class NoisyRows:
    """Rows with new Gaussian noise of given root mean square lengths (n,), against memorizing them (bishop1995)."""

    rows: FloatArray
    lengths: FloatArray
    rng: np.random.Generator

    def draw(self, chosen: IntArray) -> FloatArray:
        """Return rows with new noise."""
        exact = self.rows[chosen]
        if not self.lengths.any():
            return exact
        # In single precision also for float64: the same numbers, in half the time.
        noise = self.rng.standard_normal(exact.shape, dtype=np.float32)
        noise *= (self.lengths[chosen] / np.sqrt(exact.shape[1])).astype(np.float32)[:, None]
        return exact + noise


@dataclass
class EncoderLoss:
    """The loss of an encoder's layout, plus the penalty of large weights.

    Outputs are coordinates in a ``unit`` about a ``center``; ``table`` (n, d) holds the latest ones of all points.
    """

    encoder: Network
    inputs: NoisyRows
    layout: LayoutLoss
    table: FloatArray
    center: FloatArray
    unit: float
    weight_decay: float

    def __call__(self, parameters: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the objective, estimated from the rows, and its gradient by the parameters."""
        encoder = replace(self.encoder, parameters=parameters)
        outputs, activations = encoder.forward(self.inputs.draw(rows))
        self.table[rows] = self.center + self.unit * outputs
        value, slopes = self.layout.slopes(self.table, rows)
        gradient = np.empty_like(parameters)
        encoder.backward(activations, (self.unit / len(rows) * slopes).astype(outputs.dtype), gradient)
        return value + encoder.decay(self.weight_decay, gradient), gradient

    def value(self, parameters: FloatArray, rows: IntArray) -> float:
        """Return the objective of all points, after an update of the coordinates of ``rows``."""
        encoder = replace(self.encoder, parameters=parameters)
        for lo in range(0, len(rows), NETWORK_ROWS_PER_TASK):
            part = rows[lo : lo + NETWORK_ROWS_PER_TASK]
            outputs, _ = encoder.forward(self.inputs.draw(part))
            self.table[part] = self.center + self.unit * outputs
        return self.layout.value(self.table) + encoder.decay(self.weight_decay)


@dataclass(frozen=True)
class TargetLoss:
    """The mean squared distance of a network's outputs to ``targets`` (n, d), plus the penalty of large weights."""

    encoder: Network
    inputs: NoisyRows
    targets: FloatArray
    weight_decay: float
    run: Run

    def __call__(self, parameters: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the objective of some rows, and its gradient by the parameters."""
        encoder = replace(self.encoder, parameters=parameters)
        noisy = self.inputs.draw(rows)

        def task(lo: int, hi: int) -> tuple[float, FloatArray]:
            outputs, activations = encoder.forward(noisy[lo:hi])
            outputs -= self.targets[rows[lo:hi]]
            value = float((outputs * outputs).sum()) / len(rows)
            outputs *= 2.0 / len(rows)
            gradient = np.empty_like(parameters)
            encoder.backward(activations, outputs, gradient)
            return value, gradient

        value, gradient = summed(task, rows, self.run)
        return value + encoder.decay(self.weight_decay, gradient), gradient

    def value(self, parameters: FloatArray, rows: IntArray) -> float:
        """Return the objective of some rows."""
        encoder = replace(self.encoder, parameters=parameters)
        total = 0.0
        for lo, hi in self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK):
            errors = encoder.forward(self.inputs.draw(rows[lo:hi]))[0] - self.targets[rows[lo:hi]]
            total += float((errors * errors).sum())
        return total / len(rows) + encoder.decay(self.weight_decay)


ENCODER_STEPS, MIN_ENCODER_EPOCHS, MAX_ENCODER_EPOCHS = 3000, 30, 160
"""Number of minibatches of a training, within these numbers of epochs."""
TUNING_SHARE = 1 / 3
"""Share of the learning rate for fine-tuning: at the full rate Adam's first steps raise a loss of 5 to 9 (digits)."""
LINEAR_START_STD = 2.5
"""Standard deviation of the first coordinate of a network that starts as PCA: UMAP's start is 10 wide."""
MAX_ENCODER_INPUTS = 100
"""Maximum number of principal components of an encoder: all of mnist's are no better, in three times the time."""
RIDGE = 1e-3
"""Regularization of the linear part with which a network starts towards a layout, relative to the largest variance."""
MAX_MISSED_SHARE = 0.1  # share of a layout's variance that a network may miss without advice


@dataclass(frozen=True)
class EncoderProblem:
    """The loss of layouts that an encoder minimizes, its neighbors, notes, and fitted attributes of the estimator."""

    loss: LayoutLoss
    graph: NeighborGraph
    notes: dict[str, Any]
    fitted: dict[str, Any]

    @property
    def affinities(self) -> Any:
        """The affinities of the points."""
        return self.fitted["affinity_matrix_"]


@estimator
class ParametricEmbedding(Embedder):
    """Parameters of parametric UMAP and t-SNE, and the training of their neural network."""

    hidden_layer_sizes: Sizes = parameter(
        "Widths of the hidden layers; () for a linear map. The inputs are at most 100 principal components, in the "
        "unit of the largest, so rotation, shift and unit of the data do not change the result; for float32 rows the "
        "training is in float32.",
        default=(100, 100, 100, 100),
    )
    activation: Activation = parameter(ACTIVATION_TEXT, default="relu")
    weight_decay: NonNegative = parameter(
        "Factor of the sum of squared weights, without those of the linear connection past the hidden layers.",
        default=1e-4,
    )
    noise: NonNegative = parameter(
        "Length of the Gaussian noise added to a row in training, drawn anew in every epoch, in units of the "
        "distance to its nearest neighbor: so the network does not memorize rows, and embeds new ones better. 0 fits "
        "the training rows most closely.",
        default=1.0,
    )
    fine_tuning: Fraction = parameter(
        "Share of the epochs trained on the loss itself, after those on the layout of the non-parametric method. 1 "
        "trains on the loss alone, starting from principal components; 0 only on the layout.",
        default=0.1,
    )
    n_epochs: PositiveInt | Literal["auto"] = parameter(
        'Number of epochs; "auto" is the number that 3,000 minibatches make, between 30 and 160.', default="auto"
    )
    batch_size: PositiveInt = parameter(BATCH_SIZE_TEXT, default=200)
    learning_rate: Positive = parameter(
        "Learning rate of Adam, which decreases linearly to 0; a third of it is used for fine-tuning.", default=3e-3
    )
    search: Literal["auto", "exact", "approximate"] = parameter(
        f"{SEARCH_TEXT} The metric is Euclidean.", default="auto"
    )

    _accepts_sparse: ClassVar[bool] = False
    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True
    _chunk_support = ChunkSupport(n_rows=20_000)

    @abstractmethod
    def _problem(self, X: Any, inputs: NetworkInputs, run: Run) -> EncoderProblem:
        """Return the loss of layouts of the rows."""

    @abstractmethod
    def _layout(self, X: Any, problem: EncoderProblem, run: Run) -> FloatArray:
        """Return the layout of the non-parametric method."""

    def _final_attributes(self, Y: FloatArray, problem: EncoderProblem) -> dict[str, Any]:  # noqa: ARG002
        """Return the fitted attributes: those of the problem, and what the coordinates reach."""
        return problem.fitted

    def _embed(self, X: Any, run: Run) -> Embedding:
        inputs = NetworkInputs.of(X, run, MAX_ENCODER_INPUTS)
        problem = self._problem(X, inputs, run)
        target = self._layout(X, problem, run) if self.fine_tuning < 1 else None
        extension, trace, missed = self._encoder(inputs, target, problem, X.dtype, run)
        epochs = sum(schedule.n_epochs for schedule in self._schedules(X.shape[0]))
        coordinates = extension(X, run)
        return Embedding(
            coordinates,
            graph=problem.graph,
            trace=trace,
            extension=extension,
            notes={**problem.notes, "n_epochs": epochs, "layout_missed": missed, "advice": _missed_advice(missed, run)},
            fitted=self._final_attributes(coordinates, problem),
        )

    def _encoder(
        self, inputs: NetworkInputs, target: FloatArray | None, problem: EncoderProblem, dtype: Any, run: Run
    ) -> tuple[NetworkMap, Trace, float]:
        """Train the network towards the target, if given, then by the loss; return also the missed share of it."""
        precision: Any = np.float32 if dtype == np.float32 else np.float64
        center, unit, linear, targets = _frame(inputs, target, self.n_components)
        rng = run.rng("weights")
        network = linear_network(linear, self.hidden_layer_sizes, self.activation, np.sqrt(inputs.variance), rng)
        lengths = self.noise / inputs.unit * _nearest_distances(problem.graph)
        rows = NoisyRows(inputs.rows.astype(precision), lengths, run.rng("noise"))
        parameters = network.parameters.astype(precision)
        trace, missed = None, 0.0
        towards_layout, by_loss = self._schedules(len(inputs.rows))
        if targets is not None:
            to_target = TargetLoss(network, rows, targets.astype(precision), self.weight_decay, run)
            parameters, trace = train(parameters, to_target, inputs.order, towards_layout, run)
            exact = replace(rows, lengths=0.0 * lengths)
            error = replace(to_target, inputs=exact, weight_decay=0.0).value(parameters, inputs.order)
            missed = error / float((targets**2).sum(axis=1).mean())
        if trace is None or by_loss.n_epochs:
            table = np.zeros((len(inputs.rows), self.n_components))
            loss = EncoderLoss(network, rows, problem.loss, table, center, unit, self.weight_decay)
            parameters, trace = train(parameters, loss, inputs.order, by_loss, run)
        trained = replace(network, parameters=np.asarray(parameters, dtype=np.float64))
        return inputs.encoder(trained, unit, center), trace, missed

    def _schedules(self, n_points: int) -> tuple[Schedule, Schedule]:
        """Return the schedules of the training towards a layout, and by the loss."""
        needed = int(np.ceil(ENCODER_STEPS * self.batch_size / n_points))
        usual = int(np.clip(needed, MIN_ENCODER_EPOCHS, MAX_ENCODER_EPOCHS))
        total = usual if self.n_epochs == "auto" else int(self.n_epochs)
        tuning = round(self.fine_tuning * total)
        rate = self.learning_rate
        towards_layout = Schedule(total - tuning, self.batch_size, rate)
        return towards_layout, Schedule(tuning, self.batch_size, rate if self.fine_tuning == 1 else TUNING_SHARE * rate)


def _frame(
    inputs: NetworkInputs, target: FloatArray | None, d: int
) -> tuple[FloatArray, float, FloatArray, FloatArray | None]:
    """Return center and unit of the layout, the linear map of the start, and the target in these units."""
    R = inputs.rows
    if target is None:
        return np.zeros(d), LINEAR_START_STD, np.eye(R.shape[1], d), None
    center = target.mean(axis=0, dtype=np.float64)
    unit = float(target.std(axis=0, dtype=np.float64).max()) or 1.0
    targets = (target - center) / unit
    linear = np.linalg.solve(R.T @ R + RIDGE * len(R) * np.eye(R.shape[1]), R.T @ targets)
    return center, unit, linear, targets


def _nearest_distances(graph: NeighborGraph) -> FloatArray:
    """Return each point's distance to its nearest neighbor; 0 of one that has none."""
    lengths = np.full(len(graph.indptr) - 1, np.inf)
    np.minimum.at(lengths, graph.rows(), graph.lengths)
    return np.where(np.isfinite(lengths), lengths, 0.0)


def _missed_advice(missed: float, run: Run) -> tuple[str, ...]:
    """Return a sentence if the network is too small, or was trained too little, for its layout."""
    if run.stopped or missed <= MAX_MISSED_SHARE:
        return ()
    return (
        f"The network misses {missed:.2g} of the variance of the layout that it learns: use larger hidden_layer_sizes, "
        "more n_epochs or less weight_decay; or UMAP or TSNE, which embed new points without a network.",
    )
