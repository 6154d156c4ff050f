r"""What the encoder of a parametric neighbor embedding is trained by: a layout to come near to, or the loss of layouts.

A loss of layouts is one of all places at once. A minibatch moves its own points, the others stay where the net last
placed them, in a table of all places: so one pass of the rows through the net serves all edges, from both ends.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import Fraction, NonNegative, Positive, PositiveInt, Sizes, parameter
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._numerics.descent.divergence import Divergence
from manifoldry._numerics.descent.negative_sampling import REPULSION_OFFSET, LayoutParameters
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._embedder import Embedder
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import ACTIVATION_TEXT, BACKEND_TEXT, BATCH_SIZE_TEXT, SEARCH_TEXT
from manifoldry.methods.networks._network import (
    NETWORK_ROWS_PER_TASK,
    Activation,
    BackendName,
    Network,
    NetworkInputs,
    NetworkMap,
    array_module,
    linear_network,
)
from manifoldry.methods.networks._training import Backend, Schedule, added, train

N_REPELLED = 64
"""Random points from which each point is repelled in a step, in place of all: the mean over so many is good to an
eighth of its spread, for about the time that a point's edges take."""


class LayoutLoss(Protocol):
    """A loss of a layout, as a mean over its points."""

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss of ``Y``, as far as ``rows`` know it, and n times its gradient by their places (m, d)."""

    def value(self, Y: FloatArray) -> float:
        """Return the loss."""


@dataclass
class FuzzyCrossEntropy:
    r"""UMAP's loss, as its negative sampling has it (`negative_sampling.NegativeSampling`), over n.

    .. math:: \frac1n \sum_{ij} r_{ij} \ln (1 + a s_{ij}^b) - \frac{m \gamma}{n (n - 1)} \sum_i \Big(\sum_j r_{ij}\Big)
        \sum_{k \ne i} \ln \frac{a s_{ik}^b}{1 + a s_{ik}^b}

    with s a squared distance plus 0.001, so that no slope is infinite. The sum over k is that over random points.

    Parameters
    ----------
    weights : csr_array of shape (n, n)
        Symmetric weights of the edges; r are their shares of the largest.
    parameters : LayoutParameters
        The kernel, m and :math:`\gamma`.
    order : ndarray of shape (n,)
        The points in the order in which random numbers choose among them.
    rng : Generator
        The source of these numbers.

    References: mcinnes2018, damrich2021, sainburg2021.
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
        """Return the loss by the pairs of ``rows``, and n times its gradient by their places."""
        a, b = self.parameters.a, self.parameters.b
        near = self.weights[rows]
        i = np.repeat(np.arange(len(rows)), np.diff(near.indptr))
        gaps = Y[rows[i]] - Y[near.indices]
        s = (gaps * gaps).sum(axis=1) + REPULSION_OFFSET
        power = a * s**b
        value = float(near.data @ np.log1p(power))
        pull = near.data * 2 * b * power / (s * (1 + power))
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
        apart = others != rows[:, None]
        return others, apart / np.maximum(apart.sum(axis=1, keepdims=True), 1)


@dataclass
class DivergenceLoss:
    """t-SNE's loss, its divergence, by its own sums over all pairs: exact, by Barnes-Hut or by FFT.

    The value that `slopes` tells is computed once for as many rows as there are.

    References: vandermaaten2009b.
    """

    divergence: Divergence
    _told: float = field(default=np.nan, init=False)
    _rows: int = field(default=0, init=False)

    def slopes(self, Y: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the loss when it was last computed, and n times its gradient by the places of ``rows``."""
        if self._rows <= 0:
            self._told, self._rows = self.value(Y), len(Y)
        self._rows -= len(rows)
        return self._told, len(Y) * self.divergence.gradient(Y)[rows]

    def value(self, Y: FloatArray) -> float:
        """Return the divergence."""
        return self.divergence.value(Y)


@dataclass(frozen=True)
class NoisyRows:
    """Rows of which a training sees others near by at every step, so that the net does not learn them by heart.

    The losses below are means over the noise, each value a sample of them.

    Parameters
    ----------
    rows : ndarray or tensor of shape (n, p)
        The rows as they are.
    lengths : ndarray of shape (n,)
        Root of the mean squared length of the Gaussian noise of each.
    rng : Generator
        Its source.
    backend : Backend
        The library of the rows.

    References: bishop1995.
    """

    rows: Any
    lengths: FloatArray
    rng: np.random.Generator
    backend: Backend

    def draw(self, chosen: IntArray) -> Any:
        """Return rows with new noise."""
        exact = self.rows[self.backend.index(chosen)]
        if not self.lengths.any():
            return exact
        # In single precision for both: the same numbers, and half the time.
        noise = self.rng.standard_normal(tuple(exact.shape), dtype=np.float32)
        noise *= (self.lengths[chosen] / np.sqrt(exact.shape[1])).astype(np.float32)[:, None]
        return exact + self.backend.array(noise)


@dataclass
class EncoderLoss:
    r"""The loss of the layout that an encoder makes, and what large weights cost.

    Outputs of the net are places in a ``unit`` about a ``center``. ``table`` (n, d) holds the places of all points as
    the net last made them.
    """

    encoder: Network
    inputs: NoisyRows
    layout: LayoutLoss
    table: FloatArray
    center: FloatArray
    unit: float
    weight_decay: float
    backend: Backend

    def __call__(self, parameters: Any, rows: IntArray) -> tuple[float, Any]:
        """Return the objective, as far as the rows know it, and its gradient by the parameters."""
        encoder = replace(self.encoder, parameters=parameters)
        outputs, kept = encoder.forward(self.inputs.draw(rows))
        self.table[rows] = self.center + self.unit * self.backend.host(outputs)
        value, slopes = self.layout.slopes(self.table, rows)
        gradient = array_module(parameters).empty_like(parameters)
        by_outputs = (self.unit / len(rows) * slopes).astype(self.backend.host(outputs).dtype)
        encoder.backward(kept, self.backend.array(by_outputs), gradient)
        return value + encoder.decay(self.weight_decay, gradient), gradient

    def value(self, parameters: Any, rows: IntArray) -> float:
        """Return the objective of all points; those of ``rows`` are placed anew for it."""
        encoder = replace(self.encoder, parameters=parameters)
        for lo in range(0, len(rows), NETWORK_ROWS_PER_TASK):
            part = rows[lo : lo + NETWORK_ROWS_PER_TASK]
            outputs, _ = encoder.forward(self.inputs.draw(part))
            self.table[part] = self.center + self.unit * self.backend.host(outputs)
        return self.layout.value(self.table) + encoder.decay(self.weight_decay)


@dataclass(frozen=True)
class TargetLoss:
    """The mean squared distance of a net's outputs to ``targets`` (n, d), and what large weights cost."""

    encoder: Network
    inputs: NoisyRows
    targets: Any
    weight_decay: float
    backend: Backend
    run: Run

    def __call__(self, parameters: Any, rows: IntArray) -> tuple[float, Any]:
        """Return the objective of some rows, and its gradient by the parameters."""
        encoder = replace(self.encoder, parameters=parameters)
        seen = self.inputs.draw(rows)

        def task(lo: int, hi: int) -> tuple[float, Any]:
            outputs, kept = encoder.forward(seen[lo:hi])
            outputs -= self.targets[self.backend.index(rows[lo:hi])]
            value = float((outputs * outputs).sum()) / len(rows)
            outputs *= 2.0 / len(rows)
            gradient = array_module(parameters).empty_like(parameters)
            encoder.backward(kept, outputs, gradient)
            return value, gradient

        value, gradient = added(self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True))
        return value + encoder.decay(self.weight_decay, gradient), gradient

    def value(self, parameters: Any, rows: IntArray) -> float:
        """Return the objective of some rows."""
        encoder = replace(self.encoder, parameters=parameters)
        total = 0.0
        for lo, hi in self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK):
            part = rows[lo:hi]
            gaps = encoder.forward(self.inputs.draw(part))[0] - self.targets[self.backend.index(part)]
            total += float((gaps * gaps).sum())
        return total / len(rows) + encoder.decay(self.weight_decay)


# The parameters that the parametric neighbor embeddings share, and how their encoder is trained.

ENCODER_STEPS, MIN_ENCODER_EPOCHS, MAX_ENCODER_EPOCHS = 3000, 30, 160
"""Minibatches of a training, as far as that is not fewer or more epochs than these."""
TUNING_SHARE = 1 / 3
"""Share of the learning rate with which a net is tuned that has learned a layout: Adam's first steps, with no running
means yet, at the full rate threw a layout of digits back from a loss of 5 to 9."""
LINEAR_START_STD = 2.5
"""Standard deviation of the first coordinate where a net begins as principal components: UMAP's start is 10 wide."""
MAX_ENCODER_INPUTS = 100
"""Principal components that an encoder is given at most. With all of those of 5,000 rows of mnist new rows were
placed no better (trustworthiness 0.868 and 0.871, labels 0.775 and 0.768), for nearly three times the time."""
RIDGE = 1e-3
"""Regularization of the linear part with which a net starts towards a layout, in units of the largest variance."""
MAX_MISSED_SHARE = 0.1
"""Share of a layout's variance that a net may miss without a word."""


@dataclass(frozen=True)
class EncoderProblem:
    """What an encoder is to minimize: a loss of layouts, with the neighbors, and what the fitted estimator keeps."""

    loss: LayoutLoss
    graph: NeighborGraph
    affinities: Any
    notes: dict[str, Any]
    fitted: dict[str, Any]


@estimator
class ParametricEmbedding(Embedder):
    """Parameters of parametric UMAP and t-SNE, and the training of their neural network."""

    hidden_layer_sizes: Sizes = parameter(
        "Widths of the hidden layers; () for a linear map.", default=(100, 100, 100, 100)
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
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    backend: BackendName = parameter(BACKEND_TEXT, default="numpy")

    _takes_sparse: ClassVar[bool] = False
    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True

    _blockwise = BlockFit(n_rows=20_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        Backend(self.backend).require()

    @abstractmethod
    def _problem(self, X: Any, inputs: NetworkInputs, run: Run) -> EncoderProblem:
        """Return the loss of layouts of the rows."""

    @abstractmethod
    def _layout(self, X: Any, problem: EncoderProblem, run: Run) -> FloatArray:
        """Return the layout of lowest loss, of which no map is asked."""

    def _reached(self, Y: FloatArray, problem: EncoderProblem) -> dict[str, Any]:  # noqa: ARG002
        """Return further attributes of the fitted estimator that say what was reached."""
        return {}

    def _embed(self, X: Any, run: Run) -> Embedding:
        inputs = NetworkInputs.of(X, run, MAX_ENCODER_INPUTS)
        problem = self._problem(X, inputs, run)
        target = self._layout(X, problem, run) if self.fine_tuning < 1 else None
        extension, trace, missed = self._encoder(inputs, target, problem, X.dtype, run)
        epochs = sum(schedule.n_epochs for schedule in self._schedules(X.shape[0]))
        notes = {**problem.notes, "n_epochs": epochs, "layout_missed": missed, "advice": _advice(missed, run)}
        places = extension(X, run)
        return Embedding(
            places,
            graph=problem.graph,
            trace=trace,
            extension=extension,
            notes=notes,
            fitted={**problem.fitted, **self._reached(places, problem)},
        )

    def _encoder(
        self, inputs: NetworkInputs, target: FloatArray | None, problem: EncoderProblem, dtype: Any, run: Run
    ) -> tuple[NetworkMap, Trace, float]:
        """Train the net towards the target, if there is one, then by the loss; tell what share of it was missed."""
        backend, precision = Backend(self.backend), np.float32 if dtype == np.float32 else np.float64
        center, unit, linear, targets = _frame(inputs, target, self.n_components)
        rng = run.rng("weights")
        network = linear_network(linear, self.hidden_layer_sizes, self.activation, np.sqrt(inputs.variance), rng)
        lengths = self.noise / inputs.unit * _nearest(problem.graph)
        rows = NoisyRows(backend.array(inputs.rows.astype(precision)), lengths, run.rng("noise"), backend)
        parameters = backend.array(network.parameters.astype(precision))
        trace, missed = None, 0.0
        towards, by_loss = self._schedules(len(inputs.rows))
        if targets is not None:
            aim = TargetLoss(network, rows, backend.array(targets.astype(precision)), self.weight_decay, backend, run)
            parameters, trace = train(parameters, aim, inputs.order, towards, run)
            exact = replace(rows, lengths=0.0 * lengths)
            left = replace(aim, inputs=exact, weight_decay=0.0).value(parameters, inputs.order)
            missed = left / float((targets**2).sum(axis=1).mean())
        if trace is None or by_loss.n_epochs:
            table = np.zeros((len(inputs.rows), self.n_components))
            tuned = EncoderLoss(network, rows, problem.loss, table, center, unit, self.weight_decay, backend)
            parameters, trace = train(parameters, tuned, inputs.order, by_loss, run)
        trained = replace(network, parameters=np.asarray(backend.host(parameters), dtype=np.float64))
        return inputs.encoder(trained, unit, center), trace, missed

    def _schedules(self, n_points: int) -> tuple[Schedule, Schedule]:
        """Return how the net is trained towards a layout, and by the loss."""
        wanted = int(np.ceil(ENCODER_STEPS * self.batch_size / n_points))
        usual = int(np.clip(wanted, MIN_ENCODER_EPOCHS, MAX_ENCODER_EPOCHS))
        total = usual if self.n_epochs == "auto" else int(self.n_epochs)
        tuning = round(self.fine_tuning * total)
        rate = self.learning_rate
        towards = Schedule(total - tuning, self.batch_size, rate)
        return towards, Schedule(tuning, self.batch_size, rate if self.fine_tuning == 1 else TUNING_SHARE * rate)


def _frame(
    inputs: NetworkInputs, target: FloatArray | None, d: int
) -> tuple[FloatArray, float, FloatArray, FloatArray | None]:
    """Return center and unit of the layout, the linear map that the net begins as, and the target in these units."""
    R = inputs.rows
    if target is None:
        return np.zeros(d), LINEAR_START_STD, np.eye(R.shape[1], d), None
    center = target.mean(axis=0, dtype=np.float64)
    unit = float(target.std(axis=0, dtype=np.float64).max()) or 1.0
    targets = (target - center) / unit
    linear = np.linalg.solve(R.T @ R + RIDGE * len(R) * np.eye(R.shape[1]), R.T @ targets)
    return center, unit, linear, targets


def _nearest(graph: NeighborGraph) -> FloatArray:
    """Return each point's distance to its nearest neighbor; 0 of one that has none."""
    lengths = np.full(len(graph.indptr) - 1, np.inf)
    np.minimum.at(lengths, graph.rows(), graph.lengths)
    return np.where(np.isfinite(lengths), lengths, 0.0)


def _advice(missed: float, run: Run) -> tuple[str, ...]:
    """Return a sentence where the net is too small, or was trained too little, for its layout."""
    if run.stopped or missed <= MAX_MISSED_SHARE:
        return ()
    return (
        f"The net misses {missed:.2g} of the variance of the layout it was to learn: take larger hidden_layer_sizes, "
        "more n_epochs or less weight_decay; or UMAP or TSNE, which place new points without a net.",
    )
