"""Parametric UMAP and t-SNE: a network from rows to coordinates, trained by the layout and the loss."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import NonNegative, NonNegativeInt, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.descent.divergence import (
    TSNE_INITIAL_STD,
    Divergence,
    ExaggerationSchedule,
    JointDivergence,
    minimize_divergence,
)
from manifoldry._numerics.descent.initialization import rounded_layout
from manifoldry._numerics.descent.negative_sampling import LayoutParameters, optimize_layout
from manifoldry._numerics.geometry.neighbor_affinity import (
    N_FUZZY_NEIGHBORS,
    NEIGHBORS_PER_PERPLEXITY,
    check_list_length,
    conditional_probabilities,
    find_ab_params,
    fuzzy_simplicial_set,
    negative_entropy,
    resolve_perplexities,
)
from manifoldry._numerics.patches.start import find_start
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
from manifoldry.graph._operations import list_neighbors
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base._estimator import estimator, fitted
from manifoldry.methods._base._texts import (
    DOF_TEXT,
    MIN_DIST_TEXT,
    NEGATIVE_SAMPLES_TEXT,
    REPULSION_STRENGTH_TEXT,
    SPREAD_TEXT,
    UMAP_NEIGHBORS_TEXT,
)
from manifoldry.methods.networks._network import NetworkInputs
from manifoldry.methods.networks._parametric import (
    DivergenceLoss,
    EncoderProblem,
    FuzzyCrossEntropy,
    ParametricEmbedding,
)

TARGET_EPOCHS, SHAPED_TARGET_EPOCHS, SHAPED_TARGET_RATE = 200, 100, 0.25
"""Epochs of the layout that the network learns, and those and the learning rate from a start that has its shape."""


@register(
    family="neighbor",
    problem="descent",
    papers=("sainburg2021", "mcinnes2018", "carreira2015", "bishop1995", "kingma2015"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a neighbor of whom, as UMAP does, as far as a smooth map of the features can",
    loses="distances and densities, as UMAP, and clusters that no smooth map separates",
    use_when="a stream of rows must be embedded by a small map that needs none of the fitted rows",
    fails_when="there are few rows: the network memorizes them, and UMAP.transform embeds new ones better",
    cost="that of UMAP and O(n p w) an epoch, w the width of the hidden layers; new rows O(p w) each",
    test_params={"n_components": 2, "n_neighbors": 5, "hidden_layer_sizes": (8,), "n_epochs": 12},
)
@estimator
class ParametricUMAP(ParametricEmbedding):
    r"""Train a small neural network to compute the UMAP layout, for a stream of rows without the fitted ones.

    The coordinates are the output of a network, :math:`y_i = f(x_i)`:

    .. math:: \min_f -\sum_{ij} w_{ij} \ln q_{ij} + (1 - w_{ij}) \ln (1 - q_{ij}), \qquad
        q_{ij} = \frac{1}{1 + a \|f(x_i) - f(x_j)\|^{2b}} ,

    with the fuzzy set w of `UMAP`, and the sum over pairs without an edge estimated from random points, as there. The
    network first learns the layout of UMAP, by squared error, and is then tuned by the loss itself; a minibatch moves
    its own points relative to the latest coordinates of the others.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates of the fitted points, computed by the network.
    graph_ : NeighborGraph
        The list of neighbors of each point.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The fuzzy simplicial set w.
    a_, b_ : float
        Parameters of the layout's kernel q.
    trace_ : Trace
        The loss per point at the start of the tuning and in each of its epochs (without tuning, the squared
        error to the layout), including weight decay and noise.
    diagnostics_ : dict
        Seconds, ``layout_missed``: share of the layout's variance that the network had not learned before the tuning.

    See Also
    --------
    UMAP : few rows, or new rows close to fitted ones.
    ParametricTSNE : the same for t-SNE.
    Autoencoder : keeps variance instead of neighbors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manifoldry import ParametricUMAP
    >>> X = load_iris().data
    >>> model = ParametricUMAP(n_epochs=20).fit(X[::2])
    >>> model.transform(X[1::2]).shape
    (75, 2)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(UMAP_NEIGHBORS_TEXT, default="auto")
    min_dist: NonNegative = parameter(MIN_DIST_TEXT, default=0.1)
    spread: Positive = parameter(SPREAD_TEXT, default=1.0)
    negative_sample_rate: NonNegativeInt = parameter(NEGATIVE_SAMPLES_TEXT, default=5)
    repulsion_strength: NonNegative = parameter(REPULSION_STRENGTH_TEXT, default=1.0)

    affinity_matrix_: csr_array = fitted()
    a_: float = fitted()
    b_: float = fitted()

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._rule(n_points)
        if self.min_dist > self.spread:
            raise ValueError(f"min_dist must be at most spread = {self.spread:g}; got {self.min_dist:g}.")

    def _rule(self, n_points: int) -> NeighborRule:
        return NeighborRule(self.n_neighbors, None, search=self.search).resolve(n_points, N_FUZZY_NEIGHBORS)

    def _problem(self, X: Any, inputs: NetworkInputs, run: Run) -> EncoderProblem:
        graph, index = list_neighbors(X, self._rule(len(X)), run)
        with run.stage("affinities"):
            fuzzy = fuzzy_simplicial_set(graph, run)
        parameters = self._parameters(shaped=False)
        loss = FuzzyCrossEntropy(fuzzy, parameters, inputs.order, run.rng("repelled"))
        kernel = {"a_": parameters.a, "b_": parameters.b}
        return EncoderProblem(loss, graph, index.notes, {"affinity_matrix_": fuzzy, **kernel})

    def _layout(self, X: Any, problem: EncoderProblem, run: Run) -> FloatArray:
        start = find_start("auto", X, problem.affinities, self.n_components, run, otherwise="spectral")
        coordinates = rounded_layout(start.places, stretched=not start.shaped)
        parameters = self._parameters(start.shaped)
        return optimize_layout(coordinates, problem.affinities, parameters, run, rescale=start.shaped)[0]

    def _parameters(self, shaped: bool) -> LayoutParameters:
        return LayoutParameters(
            *find_ab_params(self.min_dist, self.spread),
            negative_sample_rate=self.negative_sample_rate,
            repulsion_strength=self.repulsion_strength,
            learning_rate=SHAPED_TARGET_RATE if shaped else 1.0,
            n_epochs=SHAPED_TARGET_EPOCHS if shaped else TARGET_EPOCHS,
        )


@register(
    family="neighbor",
    problem="descent",
    papers=("vandermaaten2009b", "vandermaaten2008", "carreira2015", "bishop1995", "kingma2015"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a near neighbor of whom, as t-SNE does, as far as a smooth map of the features can",
    loses="distances, densities and the arrangement of clusters, and clusters that no smooth map separates",
    use_when="a stream of rows must be added to a t-SNE map by a small map that needs none of the fitted rows",
    fails_when="there are few rows: the network memorizes them, and TSNE.transform embeds new ones better",
    cost="that of t-SNE, and O(n p w) and a gradient of t-SNE for each minibatch; new rows O(p w) each",
    test_params={"n_components": 2, "hidden_layer_sizes": (8,), "n_epochs": 12, "fine_tuning": 1.0},
)
@estimator
class ParametricTSNE(ParametricEmbedding):
    r"""Train a small neural network to compute the t-SNE layout, for a stream of rows without the fitted ones.

    The coordinates are the output of a network, :math:`y_i = f(x_i)`:

    .. math:: \min_f \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        q_{ij} \propto \left(1 + \frac{\|f(x_i) - f(x_j)\|^2}{\nu}\right)^{-(\nu + 1)/2} ,

    with the probabilities p of `TSNE`. The network first learns the layout of t-SNE, by squared error, and is then
    tuned by the divergence itself; a minibatch moves its own points relative to the latest coordinates of the others,
    by the gradient over all pairs. (In van der Maaten's method a minibatch uses and normalizes only its own pairs.)

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates of the fitted points, computed by the network.
    kl_divergence_ : float
        The divergence reached.
    graph_ : NeighborGraph
        The list of neighbors of each point.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities p.
    trace_ : Trace
        The divergence at the start of the tuning and at the beginning of each of its epochs (without tuning,
        the squared error to the layout), including weight decay and noise.
    diagnostics_ : dict
        Seconds, ``perplexity_missed`` (points with too many equal distances), ``layout_missed``: share of the layout's
        variance that the network had not learned before the tuning.

    See Also
    --------
    TSNE : few rows, or new rows close to fitted ones.
    ParametricUMAP : the same for UMAP.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manifoldry import ParametricTSNE
    >>> X = load_iris().data
    >>> model = ParametricTSNE(n_epochs=20).fit(X[::2])
    >>> model.transform(X[1::2]).shape
    (75, 2)
    """

    n_components: PositiveInt = parameter(
        "Dimension of the embedding; 1, 2 and 3 are fast, more need all pairs at each step.", default=2, kw_only=False
    )
    perplexity: Positive | Literal["auto"] = parameter(
        'Effective number of neighbors of each point; "auto" is 30, or a third of n - 1 for fewer points.',
        default="auto",
    )
    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of listed neighbors; "auto" is three times the perplexity.', default="auto"
    )
    dof: Positive = parameter(DOF_TEXT, default=1.0)

    kl_divergence_: float = fitted()
    affinity_matrix_: csr_array = fitted()

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        rule = self._rule(n_points)
        if self.n_neighbors != "auto":
            check_list_length(self.perplexity, int(rule.n_neighbors or 0), n_points)

    def _rule(self, n_points: int) -> NeighborRule:
        largest = max(resolve_perplexities(self.perplexity, n_points))
        rule = NeighborRule(self.n_neighbors, None, search=self.search)
        return rule.resolve(n_points, int(np.ceil(NEIGHBORS_PER_PERPLEXITY * largest)))

    def _problem(self, X: Any, inputs: NetworkInputs, run: Run) -> EncoderProblem:  # noqa: ARG002
        graph, index = list_neighbors(X, self._rule(len(X)), run)
        conditional = conditional_probabilities(graph, self.perplexity, None, run)
        joint = conditional.joint(run)
        kernel = LayoutKernel(self.dof)
        repulsion = choose_repulsion(kernel, len(X), self.n_components)
        divergence = JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run)
        notes = {**index.notes, "perplexity_missed": conditional.missed, "repulsion": repulsion.name}
        return EncoderProblem(DivergenceLoss(divergence), graph, notes, {"affinity_matrix_": joint})

    def _layout(self, X: Any, problem: EncoderProblem, run: Run) -> FloatArray:
        divergence = problem.loss.divergence  # type: ignore[union-attr]
        start = find_start("auto", X, problem.affinities, self.n_components, run)
        coordinates = start.places if start.shaped else TSNE_INITIAL_STD * start.places
        phases = ExaggerationSchedule().phases(coordinates, start.shaped)
        return minimize_divergence(divergence, coordinates, phases, "auto", run, rescale=start.shaped)[0]

    def _final_attributes(self, Y: FloatArray, problem: EncoderProblem) -> dict[str, Any]:
        divergence: Divergence = problem.loss.divergence  # type: ignore[union-attr]
        return {**problem.fitted, "kl_divergence_": divergence.final_value(Y)[0]}
