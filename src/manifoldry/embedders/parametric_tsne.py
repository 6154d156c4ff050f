"""Parametric t-SNE: a net from rows to places, trained by t-SNE's divergence."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry.base.estimator import estimator, fitted
from manifoldry.base.parametric import EncoderProblem, ParametricEmbedding
from manifoldry.extend.network_map import NetworkInputs
from manifoldry.geometry.entropic import (
    NEIGHBORS_PER_PERPLEXITY,
    check_list_length,
    conditional_probabilities,
    negative_entropy,
    resolve_perplexities,
)
from manifoldry.neighbors.lists import list_neighbors
from manifoldry.neighbors.search import NeighborRule
from manifoldry.parameters import Positive, PositiveInt
from manifoldry.patches.start import find_start
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.divergence import TSNE_INITIAL_STD, ExaggerationSchedule, JointDivergence, minimize_divergence
from manifoldry.solve.parametric import DivergenceLoss
from manifoldry.solve.repulsion import LayoutKernel, choose_repulsion
from manifoldry.values import FloatArray


@register(
    family="neighbor",
    problem="descent",
    papers=("vandermaaten2009b", "vandermaaten2008", "carreira2015", "bishop1995", "kingma2015"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a near neighbor of whom, as t-SNE does, as far as a smooth map of the features can",
    loses="distances, densities and the arrangement of clusters, and clusters that no smooth map tells apart",
    use_when="a stream of rows is to be placed in a t-SNE map by a small map that needs none of the fitted rows",
    fails_when="rows are few: the net learns them by heart, and TSNE.transform places new ones better",
    cost="that of t-SNE, and O(n p w) and a gradient of t-SNE for each minibatch; new rows O(p w) each",
    test_params={"n_components": 2, "hidden_layer_sizes": (8,), "n_epochs": 12, "fine_tuning": 1.0},
)
@estimator
class ParametricTSNE(ParametricEmbedding):
    r"""t-SNE by an encoder: the places are the values of a net, :math:`y_i = f(x_i)`, whose weights are sought.

    .. math:: \min_f \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        q_{ij} \propto \left(1 + \frac{\|f(x_i) - f(x_j)\|^2}{\nu}\right)^{-(\nu + 1)/2} ,

    with the probabilities p of `TSNE`. The net first learns the layout that t-SNE finds, by squared error, and is then
    tuned by the divergence itself; a minibatch moves its own points among the others where the net last placed them,
    by the gradient over all pairs. (Van der Maaten's minibatches know only their own pairs, p and q made to sum to 1
    over these.)

    Parameters
    ----------
    n_components : int
        Target dimension; 1, 2 or 3 are fast, more need all pairs at each step.
    perplexity : float or "auto"
        Effective number of neighbors of each point; "auto" is 30, or a third of n - 1 for fewer points.
    n_neighbors : int or "auto"
        Number of listed neighbors; "auto" is three times the perplexity.
    dof : float
        Degrees of freedom :math:`\nu` of the layout's kernel.
    hidden_layer_sizes, activation, weight_decay, noise, fine_tuning
        As in `ParametricUMAP`, with t-SNE's layout in place of UMAP's.
    n_epochs, batch_size, learning_rate, search, backend
        As in `ParametricUMAP`.
    random_state : int, Generator or None
        Seed of the layout, the weights, the minibatches and the noise.
    n_jobs, verbose, callback
        As in `TSNE`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Where the net places the fitted points.
    kl_divergence_ : float
        The divergence reached.
    graph_ : NeighborGraph
        Each point's list of neighbors.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities p.
    trace_ : Trace
        The divergence at the start of the tuning and at the beginning of each of its epochs (the squared error towards
        the layout where there is no tuning); weights and noise counted in.
    diagnostics_ : dict
        Seconds, ``perplexity_missed`` (points with too many equal distances), ``layout_missed``: share of the layout's
        variance that the net had not learned before the tuning.

    Notes
    -----
    As in `ParametricUMAP`.

    References: vandermaaten2009b, vandermaaten2008, carreira2015, bishop1995, kingma2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manifoldry import ParametricTSNE
    >>> X = load_iris().data
    >>> model = ParametricTSNE(n_epochs=20).fit(X[::2])
    >>> model.transform(X[1::2]).shape
    (75, 2)
    """

    perplexity: Positive | Literal["auto"] = "auto"
    n_neighbors: PositiveInt | Literal["auto"] = "auto"
    dof: Positive = 1.0

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
        joint = conditional.joint()
        kernel = LayoutKernel.student_t(self.dof)
        repulsion = choose_repulsion(kernel, len(X), self.n_components)
        divergence = JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run)
        notes = {**index.notes, "perplexity_missed": conditional.missed, "repulsion": repulsion.name}
        return EncoderProblem(DivergenceLoss(divergence), graph, joint, notes, {"affinity_matrix_": joint})

    def _layout(self, X: Any, problem: EncoderProblem, run: Run) -> FloatArray:
        divergence = problem.loss.divergence  # type: ignore[attr-defined]
        start = find_start("auto", X, problem.affinities, self.n_components, run)
        places = start.places if start.shaped else TSNE_INITIAL_STD * start.places
        phases = ExaggerationSchedule().phases(places, start.shaped)
        return minimize_divergence(divergence, places, phases, "auto", run, rescale=start.shaped)[0]

    def _reached(self, Y: FloatArray, problem: EncoderProblem) -> dict[str, Any]:
        return {"kl_divergence_": problem.loss.divergence.final_value(Y)[0]}  # type: ignore[attr-defined]
