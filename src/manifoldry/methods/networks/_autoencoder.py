"""Autoassociative networks: a net that reproduces its input through a narrow layer, whose values are coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from manifoldry._core.parameters import NonNegative, Positive, PositiveInt, Range, Sizes, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, IntArray, Trace
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._texts import ACTIVATION_TEXT, BACKEND_TEXT, BATCH_SIZE_TEXT
from manifoldry.methods.networks._network import (
    NETWORK_ROWS_PER_TASK,
    Activation,
    BackendName,
    Network,
    NetworkInputs,
    array_module,
    linear_network,
)
from manifoldry.methods.networks._training import Backend, Schedule, added, minimize_loss, train

MAX_LBFGS_ROWS = 5000
"""Points up to which all are taken at every step, by L-BFGS; of more, minibatches go further in the same time."""
MIN_HELD_OUT = 10
"""Least number of held-out points by which a training is ended: fewer say little. Ten are enough to keep a net from
learning a hundred rows by heart, and then losing twice as much of new ones as PCA does."""
ADAM_ITER, LBFGS_ITER = 100, 300
ADAM_PATIENCE, LBFGS_PATIENCE = 20, 100
"""Iterations without a better reconstruction of held-out points that end a training: from the saddle point that
principal components of a circle are, L-BFGS takes up to a hundred through worse ones."""
OFF_PCA = 0.03
"""How far off principal components the nets start, in units of the first: of symmetric data they are a saddle point,
and nothing would lead away from it."""
MIN_GAIN_OVER_PCA = 0.02
"""Share of PCA's error by which a net must be better for its map to be worth the trouble."""


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

    Notes
    -----
    Networks are trained on principal components in the unit of the largest, so rotation, shift and unit of the data do
    not change the result. Rows in float32 are trained in float32, in about half the time.

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
        "Widths of the encoder's hidden layers; () for a linear network.", default=(64, 32)
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
    batch_size: PositiveInt = parameter(BATCH_SIZE_TEXT, default=200)
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
    backend: BackendName = parameter(BACKEND_TEXT, default="numpy")

    reconstruction_error_: float = fitted()

    _takes_sparse: ClassVar[bool] = False
    _invertible: ClassVar[bool] = True

    _blockwise = BlockFit(n_rows=20_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.backend == "torch" and self.solver == "lbfgs":
            raise ValueError("solver='lbfgs' is numpy's: take backend='numpy', or solver='adam'.")
        Backend(self.backend).require()

    def _embed(self, X: Any, run: Run) -> Embedding:
        inputs = NetworkInputs.of(X, run)
        trained, held = self._parts(inputs.order, run)
        lbfgs = self._uses_lbfgs(len(trained))
        loss, pca, start = self._start(inputs, np.float32 if X.dtype == np.float32 and not lbfgs else np.float64, run)
        found, trace = self._train(start, loss, trained, held, lbfgs, run)
        before, after = (loss.lost(net, inputs.order) for net in (pca, found))
        if not after <= before:
            found, after = pca, before
        encoder, decoder = loss.split(np.asarray(loss.backend.host(found), dtype=np.float64))
        extension = inputs.encoder(encoder, inputs.unit)
        notes: dict[str, Any] = {"solver": "lbfgs" if lbfgs else "adam", "pca_error": inputs.of_all(before)}
        if len(held):
            linear, bent = (inputs.of_all(loss.lost(net, held)) for net in (pca, found))
            notes |= {"held_out_error": bent, "advice": _advice(linear, bent, run)}
        elif after < before and len(start) > inputs.rows.size:
            notes["advice"] = _by_heart(len(trained), len(start))
        return Embedding(
            extension(X, run),
            trace=trace,
            extension=extension,
            inverse=inputs.decoder(decoder),
            notes=notes,
            fitted={"reconstruction_error_": inputs.of_all(after)},
        )

    def _start(self, inputs: NetworkInputs, precision: Any, run: Run) -> tuple[Autoassociation, Any, Any]:
        """Return what is minimized, parameters that make the nets principal components, and the start near."""
        rng, d = run.rng("weights"), self.n_components
        hidden, kept = tuple(self.hidden_layer_sizes), np.eye(inputs.rows.shape[1], d)
        encoder = linear_network(kept, hidden, self.activation, np.sqrt(inputs.variance), rng)
        code_spread = np.sqrt((inputs.rows[:, :d] ** 2).sum() / len(inputs.rows))  # at least 1: that of the first
        decoder = linear_network(kept.T, hidden[::-1], self.activation, code_spread, rng)
        backend = Backend(self.backend)
        rows = backend.array(inputs.rows.astype(precision))
        pca = np.concatenate([encoder.parameters, decoder.parameters]).astype(precision)
        nets = [net.stirred(OFF_PCA, rng).parameters for net in (encoder, decoder)]
        loss = Autoassociation(encoder, decoder, rows, inputs.variance, self.weight_decay, backend, run)
        return loss, backend.array(pca), backend.array(np.concatenate(nets).astype(precision))

    def _uses_lbfgs(self, n_rows: int) -> bool:
        few = self.backend == "numpy" and n_rows <= MAX_LBFGS_ROWS
        return self.solver == "lbfgs" or (self.solver == "auto" and few)

    def _parts(self, order: IntArray, run: Run) -> tuple[IntArray, IntArray]:
        """Return the points that are trained on and those held out."""
        n_held = int(self.validation_fraction * len(order))
        if n_held < MIN_HELD_OUT:
            return order, order[:0]
        shuffled = order[run.rng("held out").permutation(len(order))]
        return shuffled[n_held:], shuffled[:n_held]

    def _train(
        self, start: Any, loss: Autoassociation, trained: IntArray, held: IntArray, lbfgs: bool, run: Run
    ) -> tuple[Any, Trace]:
        usual, patience = (LBFGS_ITER, LBFGS_PATIENCE) if lbfgs else (ADAM_ITER, ADAM_PATIENCE)
        schedule = Schedule(
            usual if self.max_iter == "auto" else int(self.max_iter),
            self.batch_size,
            self.learning_rate,
            patience if self.n_iter_no_change == "auto" else int(self.n_iter_no_change),
            self.tol,
        )
        judge = (lambda parameters: loss.lost(parameters, held)) if len(held) else None
        optimize = minimize_loss if lbfgs else train
        return optimize(start, loss, trained, schedule, run, judge)


def _by_heart(n_points: int, n_weights: int) -> tuple[str, ...]:
    """Return a sentence about a net of more weights than numbers to learn, with too few points to hold any out."""
    return (
        f"{n_points} points are too few to hold any out, and the net has {n_weights:,} weights: it can learn them by "
        "heart, and lose more of new points than PCA does. Take PCA or PrincipalSurface, or more points.",
    )


def _advice(linear: float, bent: float, run: Run) -> tuple[str, ...]:
    """Return a sentence where the net reconstructs held-out points hardly better than PCA does."""
    if run.stopped or bent < (1 - MIN_GAIN_OVER_PCA) * linear:
        return ()
    return (
        f"Of held-out points the net loses {bent:.3g} of the variance, and PCA {linear:.3g}: the data is about as "
        "flat as PCA takes them, or too few for a net. Take PCA, or more points, or other hidden_layer_sizes.",
    )


# What an autoassociative net minimizes: the squared error of its reconstruction through a bottleneck.


@dataclass(frozen=True)
class Autoassociation:
    r"""The share of the variance that is lost on the way through encoder and decoder, and what large weights cost.

    .. math:: \frac{1}{n \sigma^2} \sum_i \|x_i - g(f(x_i))\|^2 + \alpha \sum_l \|W_l\|^2

    Parameters
    ----------
    encoder, decoder : Network
        Their shapes; the parameters of both come in one vector.
    inputs : array of shape (n, p)
        The rows, of numpy or torch.
    variance : float
        The sum of variances :math:`\sigma^2`.
    weight_decay : float
        The factor :math:`\alpha`.
    """

    encoder: Network
    decoder: Network
    inputs: Any
    variance: float
    weight_decay: float
    backend: Backend
    run: Run

    def split(self, parameters: Any) -> tuple[Network, Network]:
        """Return encoder and decoder with these parameters."""
        cut = self.encoder.n_parameters
        return replace(self.encoder, parameters=parameters[:cut]), replace(self.decoder, parameters=parameters[cut:])

    def __call__(self, parameters: Any, rows: Any) -> tuple[float, Any]:
        """Return the objective of some rows, and its gradient by the parameters."""
        encoder, decoder = self.split(parameters)
        factor = 1.0 / (len(rows) * self.variance)
        cut = encoder.n_parameters

        def task(lo: int, hi: int) -> tuple[float, Any]:
            X = self.inputs[self.backend.index(rows[lo:hi])]
            code, kept = encoder.forward(X)
            error, decoded = decoder.forward(code)
            error -= X
            value = factor * float((error * error).sum())
            error *= 2 * factor
            gradient = array_module(parameters).empty_like(parameters)
            encoder.backward(kept, decoder.backward(decoded, error, gradient[cut:], inputs=True), gradient[:cut])
            return value, gradient

        value, gradient = added(self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True))
        if self.weight_decay > 0:
            value += encoder.decay(self.weight_decay, gradient[:cut])
            value += decoder.decay(self.weight_decay, gradient[cut:])
        return value, gradient

    def value(self, parameters: Any, rows: Any) -> float:
        """Return the objective of some rows."""
        return self.lost(parameters, rows) + sum(net.decay(self.weight_decay) for net in self.split(parameters))

    def lost(self, parameters: Any, rows: Any) -> float:
        """Return the share of the variance that is lost of some rows, without the cost of weights."""
        encoder, decoder = self.split(parameters)

        def task(lo: int, hi: int) -> float:
            X = self.inputs[self.backend.index(rows[lo:hi])]
            error = decoder.forward(encoder.forward(X)[0])[0] - X
            return float((error * error).sum())

        squares = self.run.map(task, self.run.ranges(len(rows), NETWORK_ROWS_PER_TASK), blas=True)
        return float(np.sum(squares)) / (len(rows) * self.variance)
