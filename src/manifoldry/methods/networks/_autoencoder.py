"""Autoencoders: networks that reproduce their input through a narrow layer, whose values are coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from manifoldry._core.parameters import NonNegative, Positive, PositiveInt, Range, Sizes, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, Trace
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import ACTIVATION_TEXT, BATCH_SIZE_TEXT
from manifoldry.methods.networks._network import (
    NETWORK_ROWS_PER_TASK,
    Activation,
    Network,
    NetworkInputs,
    Schedule,
    linear_network,
    minimize_loss,
    summed,
    train,
)

MAX_LBFGS_ROWS = 5000  # maximum number of points for L-BFGS; with more, minibatches reach a lower loss in the same time
MIN_HELD_OUT = 10
"""Minimum number of held-out points that end a training: enough to keep a network from memorizing a hundred rows."""
ADAM_ITER, LBFGS_ITER = 100, 300
ADAM_PATIENCE, LBFGS_PATIENCE = 20, 100
"""Iterations without a better validation: L-BFGS takes up to a hundred away from the saddle point of a circle."""
OFF_PCA = 0.03  # distance of the start from principal components, which are a saddle point for symmetric data
MIN_GAIN_OVER_PCA = 0.02  # share of PCA's error by which a network must be better to be useful


@register(
    family="network",
    problem="descent",
    papers=("kramer1991", "baldi1989", "demers1993", "kingma2015"),
    gives=("transform", "inverse", "trace"),
    keeps="as much of the data as a bent surface of n_components dimensions can hold, in squared error",
    loses="distances and neighbors: the network may lay out the surface in any way",
    use_when="rows should be reconstructed from few numbers, by a small explicit map in both directions",
    fails_when="rows are few for the number of weights, or the surface closes or folds back",
    cost="O(n p w) an epoch, w the width of the hidden layers: to millions of rows by minibatches",
    test_params={"n_components": 2, "hidden_layer_sizes": (8,), "max_iter": 15},
)
@estimator
class Autoencoder(Embedder):
    r"""Compress rows by a small neural network that maps to few numbers and back, with an explicit map both ways.

    An encoder f and a decoder g have as many values between them as there are coordinates:

    .. math:: \min_{f, g} \frac{1}{n \sigma^2} \sum_i \|x_i - g(f(x_i))\|^2 + \alpha \sum_l \|W_l\|^2 ,

    with f and g multilayer networks, the hidden layers of g those of f in reverse, each with a linear connection past
    them, and :math:`\sigma^2` the variance of the data. The networks start close to principal components, and the
    result is never worse: if training left more variance unexplained, the start is returned. Without hidden layers the
    optimum is the subspace of PCA (Baldi and Hornik).

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The values of the bottleneck, in the unit of the data.
    reconstruction_error_ : float
        Share of the variance that the reconstruction loses, of all fitted points.
    trace_ : Trace
        The objective at the start and after each iteration.
    diagnostics_ : dict
        Seconds, ``solver``, ``pca_error``: what as many principal components lose; ``held_out_error`` if points were
        held out; ``advice`` if the network is not useful, or there are too few points to say.

    See Also
    --------
    PCA : the linear case.
    PrincipalSurface : a smooth sheet for few dimensions.
    ParametricUMAP : a network that keeps neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import Autoencoder
    >>> t = np.linspace(-1, 1, 60)
    >>> parabola = np.column_stack([t, t**2])
    >>> model = Autoencoder(n_components=1, hidden_layer_sizes=(8,), max_iter=50).fit(parabola)
    >>> bool(model.reconstruction_error_ < 0.1 * model.diagnostics_["pca_error"])
    True
    """

    n_components: PositiveInt = parameter(
        "Dimension of the embedding: the width of the bottleneck, which is linear.", default=2, kw_only=False
    )
    hidden_layer_sizes: Sizes = parameter(
        "Widths of the encoder's hidden layers; () for a linear network. The inputs are principal components in the "
        "unit of the largest, so rotation, shift and unit of the data do not change the result.",
        default=(64, 32),
    )
    activation: Activation = parameter(ACTIVATION_TEXT, default="tanh")
    weight_decay: NonNegative = parameter(
        r"Factor :math:`\alpha` of the squared weights; linear connections and biases are not penalized.", default=1e-6
    )
    solver: Literal["auto", "lbfgs", "adam"] = parameter(
        'Optimizer: L-BFGS on all points, or Adam on minibatches; "auto" is L-BFGS for up to 5,000 points.',
        default="auto",
    )
    max_iter: PositiveInt | Literal["auto"] = parameter(
        'Maximum number of iterations of L-BFGS, or of epochs of Adam; "auto" is 300 iterations or 100 epochs.',
        default="auto",
    )
    batch_size: PositiveInt = parameter(f"{BATCH_SIZE_TEXT} For float32 rows Adam computes in float32.", default=200)
    learning_rate: Positive = parameter("Learning rate of Adam, which decreases linearly to 0.", default=2e-3)
    tol: NonNegative = parameter("L-BFGS has converged when no derivative exceeds this.", default=1e-6)
    validation_fraction: Annotated[float, Range(0, 0.5)] = parameter(
        "Share of the points that is held out to stop the training: after ``n_iter_no_change`` iterations without a "
        "better reconstruction of them, the best network so far is returned. No points are held out if they would be "
        "fewer than 10.",
        default=0.1,
    )
    n_iter_no_change: PositiveInt | Literal["auto"] = parameter(
        'Patience of the held-out test; "auto" is 100 iterations of L-BFGS, or 20 epochs of Adam.', default="auto"
    )

    reconstruction_error_: float = fitted()

    _accepts_sparse: ClassVar[bool] = False
    _invertible: ClassVar[bool] = True
    _chunk_support = ChunkSupport(n_rows=20_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        inputs = NetworkInputs.of(X, run)
        trained, held_out = self._split(inputs.order, run)
        lbfgs = self.solver == "lbfgs" or (self.solver == "auto" and len(trained) <= MAX_LBFGS_ROWS)
        loss, pca, start = self._start(inputs, np.float32 if X.dtype == np.float32 and not lbfgs else np.float64, run)
        parameters, trace = self._train(start, loss, trained, held_out, lbfgs, run)
        before, after = (loss.lost(each, inputs.order) for each in (pca, parameters))
        if not after <= before:
            parameters, after = pca, before
        encoder, decoder = loss.split(np.asarray(parameters, dtype=np.float64))
        extension = inputs.encoder(encoder, inputs.unit)
        notes: dict[str, Any] = {"solver": "lbfgs" if lbfgs else "adam", "pca_error": inputs.of_all(before)}
        if len(held_out):
            linear, curved = (inputs.of_all(loss.lost(each, held_out)) for each in (pca, parameters))
            notes |= {"held_out_error": curved, "advice": _gain_advice(linear, curved, run)}
        elif after < before and len(start) > inputs.rows.size:
            notes["advice"] = (
                f"{len(trained)} points are too few to hold any out, and the network has {len(start):,} weights: it "
                "can learn them by heart, and lose more of new points than PCA does. Use PCA or PrincipalSurface, or "
                "more points.",
            )
        return Embedding(
            extension(X, run),
            trace=trace,
            extension=extension,
            inverse=inputs.decoder(decoder),
            notes=notes,
            fitted={"reconstruction_error_": inputs.of_all(after)},
        )

    def _start(
        self, inputs: NetworkInputs, precision: Any, run: Run
    ) -> tuple[ReconstructionLoss, FloatArray, FloatArray]:
        """Return the loss, the parameters of principal components, and the start close to them."""
        rng, d = run.rng("weights"), self.n_components
        hidden, leading = tuple(self.hidden_layer_sizes), np.eye(inputs.rows.shape[1], d)
        encoder = linear_network(leading, hidden, self.activation, np.sqrt(inputs.variance), rng)
        code_spread = np.sqrt((inputs.rows[:, :d] ** 2).sum() / len(inputs.rows))  # at least 1: that of the first
        decoder = linear_network(leading.T, hidden[::-1], self.activation, code_spread, rng)
        pca = np.concatenate([encoder.parameters, decoder.parameters])
        start = np.concatenate([network.perturbed(OFF_PCA, rng).parameters for network in (encoder, decoder)])
        rows = inputs.rows.astype(precision)
        loss = ReconstructionLoss(encoder, decoder, rows, inputs.variance, self.weight_decay, run)
        return loss, pca.astype(precision), start.astype(precision)

    def _split(self, order: IntArray, run: Run) -> tuple[IntArray, IntArray]:
        """Return the points that are trained on and those held out."""
        n_held_out = int(self.validation_fraction * len(order))
        if n_held_out < MIN_HELD_OUT:
            return order, order[:0]
        shuffled = order[run.rng("held out").permutation(len(order))]
        return shuffled[n_held_out:], shuffled[:n_held_out]

    def _train(
        self, start: FloatArray, loss: ReconstructionLoss, trained: IntArray, held_out: IntArray, lbfgs: bool, run: Run
    ) -> tuple[FloatArray, Trace]:
        usual, patience = (LBFGS_ITER, LBFGS_PATIENCE) if lbfgs else (ADAM_ITER, ADAM_PATIENCE)
        schedule = Schedule(
            usual if self.max_iter == "auto" else int(self.max_iter),
            self.batch_size,
            self.learning_rate,
            patience if self.n_iter_no_change == "auto" else int(self.n_iter_no_change),
            self.tol,
        )
        validation = (lambda parameters: loss.lost(parameters, held_out)) if len(held_out) else None
        optimize = minimize_loss if lbfgs else train
        return optimize(start, loss, trained, schedule, run, validation)


def _gain_advice(linear: float, curved: float, run: Run) -> tuple[str, ...]:
    """Return a sentence if the network reconstructs held-out points hardly better than PCA."""
    if run.stopped or curved < (1 - MIN_GAIN_OVER_PCA) * linear:
        return ()
    return (
        f"The network loses {curved:.3g} of the variance of held-out points, and PCA {linear:.3g}: the data is nearly "
        "flat, or the points are too few for a network. Use PCA, more points, or other hidden_layer_sizes.",
    )


@dataclass(frozen=True)
class ReconstructionLoss:
    r"""The share of the variance that encoder and decoder lose, plus the penalty of large weights.

    .. math:: \frac{1}{n \sigma^2} \sum_i \|x_i - g(f(x_i))\|^2 + \alpha \sum_l \|W_l\|^2

    ``encoder`` and ``decoder`` give the layers; the parameters of both come in one vector.
    """

    encoder: Network
    decoder: Network
    inputs: FloatArray
    variance: float
    weight_decay: float
    run: Run

    def split(self, parameters: FloatArray) -> tuple[Network, Network]:
        """Return encoder and decoder with these parameters."""
        cut = self.encoder.n_parameters
        return replace(self.encoder, parameters=parameters[:cut]), replace(self.decoder, parameters=parameters[cut:])

    def __call__(self, parameters: FloatArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Return the objective of some rows, and its gradient by the parameters."""
        encoder, decoder = self.split(parameters)
        factor, cut = 1.0 / (len(rows) * self.variance), encoder.n_parameters

        def task(lo: int, hi: int) -> tuple[float, FloatArray]:
            X = self.inputs[rows[lo:hi]]
            code, encoding = encoder.forward(X)
            error, decoding = decoder.forward(code)
            error -= X
            value = factor * float((error * error).sum())
            error *= 2 * factor
            gradient = np.empty_like(parameters)
            by_code = decoder.backward(decoding, error, gradient[cut:])()
            encoder.backward(encoding, by_code, gradient[:cut])
            return value, gradient

        value, gradient = summed(task, rows, self.run)
        if self.weight_decay > 0:
            value += encoder.decay(self.weight_decay, gradient[:cut])
            value += decoder.decay(self.weight_decay, gradient[cut:])
        return value, gradient

    def value(self, parameters: FloatArray, rows: IntArray) -> float:
        """Return the objective of some rows."""
        return self.lost(parameters, rows) + sum(net.decay(self.weight_decay) for net in self.split(parameters))

    def lost(self, parameters: FloatArray, rows: IntArray) -> float:
        """Return the share of the variance of some rows that is lost, without the penalty of weights."""
        encoder, decoder = self.split(parameters)

        def task(lo: int, hi: int) -> float:
            X = self.inputs[rows[lo:hi]]
            error = decoder.forward(encoder.forward(X)[0])[0] - X
            return float((error * error).sum())

        squares = self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True)
        return float(np.sum(squares)) / (len(rows) * self.variance)
