"""The parameters that the parametric neighbor embeddings share, and how their encoder is trained."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from manifoldry.base.blockwise import BlockFit
from manifoldry.base.embedder import Embedder
from manifoldry.base.estimator import estimator
from manifoldry.extend.network_map import NetworkInputs, NetworkMap
from manifoldry.parameters import Fraction, NonNegative, Positive, PositiveInt, Sizes
from manifoldry.run import Run
from manifoldry.solve.network import Activation, BackendName, linear_network
from manifoldry.solve.parametric import EncoderLoss, LayoutLoss, NoisyRows, TargetLoss
from manifoldry.solve.training import Backend, Schedule, train
from manifoldry.values import Embedding, FloatArray, NeighborGraph, Trace

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
    """Parameters of parametric UMAP and t-SNE, and the training of their net."""

    hidden_layer_sizes: Sizes = (100, 100, 100, 100)
    activation: Activation = "relu"
    weight_decay: NonNegative = 1e-4
    noise: NonNegative = 1.0
    fine_tuning: Fraction = 0.1
    n_epochs: PositiveInt | Literal["auto"] = "auto"
    batch_size: PositiveInt = 200
    learning_rate: Positive = 3e-3
    search: Literal["auto", "exact", "approximate"] = "auto"
    backend: BackendName = "numpy"

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
