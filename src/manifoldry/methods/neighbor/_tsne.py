"""t-SNE: probabilities of being neighbors, matched in the layout by a heavy-tailed kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from scipy.sparse import csr_array

from manifoldry._core.parameters import NonNegativeInt, Positive, PositiveInt, Range, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray
from manifoldry._numerics.descent.divergence import (
    TSNE_INITIAL_STD,
    ExaggerationSchedule,
    JointDivergence,
    minimize_divergence,
)
from manifoldry._numerics.descent.initialization import check_init
from manifoldry._numerics.extension.affinity import DivergencePlacement
from manifoldry._numerics.geometry.neighbor_affinity import (
    conditional_probabilities,
    joint_probabilities,
    negative_entropy,
    resolve_perplexities,
)
from manifoldry._numerics.patches.start import find_start
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
from manifoldry.graph._operations import list_neighbors
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._embedder import Metric, count_points
from manifoldry.methods._base._texts import DOF_TEXT, JOINT_METRIC_TEXT
from manifoldry.methods.neighbor._parameters import NeighborEmbedding

MAX_NEW_PERPLEXITY = 5.0
"""Of new points: one is to join its nearest neighbors, not the mean of many; heavy tails let it."""


@register(
    family="neighbor",
    problem="descent",
    papers=(
        "vandermaaten2008",
        "vandermaaten2014",
        "linderman2019",
        "belkina2019",
        "kobak2019",
        "lee2015",
        "policar2023",
    ),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a near neighbor of whom, better than any other map in the plane",
    loses="distances, densities and the arrangement of clusters: sizes and gaps in the picture mean little",
    use_when="clusters and fine structure should be visible in two dimensions",
    fails_when="distances in the map are read as distances, or more than three dimensions are wanted",
    cost="O(n) an iteration by FFT (1-D, 2-D), O(n log n) by Barnes-Hut (3-D): to a million points",
    test_params={"n_components": 2, "max_iter": 500},
)
@estimator
class TSNE(NeighborEmbedding):
    r"""Draw clusters and fine structure in two dimensions: neighbors stay neighbors, distances are lost.

    t-distributed stochastic neighbor embedding minimizes

    .. math:: \min_Y \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        p_{ij} = \frac{p_{j|i} + p_{i|j}}{2n}, \quad
        p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}, \quad
        q_{ij} \propto \left(1 + \frac{\|y_i - y_j\|^2}{\nu}\right)^{-(\nu + 1)/2} ,

    with :math:`\sigma_i` such that :math:`p_{\cdot|i}` has the given perplexity over the listed neighbors of i, and q
    normalized over all pairs.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered.
    kl_divergence_ : float
        The divergence reached, without exaggeration; ``diagnostics_["kl_divergence"]`` says whether it is exact or
        estimated by the approximate repulsion.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities p.
    bandwidths_
    learning_rate_ : float
        The learning rate of the main phase.
    graph_, trace_, n_iter_, diagnostics_

    See Also
    --------
    UMAP : faster for many points, supervised.
    SymmetricSNE : without heavy tails.
    ParametricTSNE : a small map for streams of new rows.
    IPA : true distances of a surface.

    Notes
    -----
    ``max_iter`` includes the iterations with exaggeration. Initial layouts other than "ipa" are scaled to a standard
    deviation of 1e-4 of the widest column. A new point minimizes its own divergence against the fixed layout, with a
    perplexity of at most 5; one that coincides with a fitted point gets its coordinates. Ctrl-C ends the descent, with
    a warning, and keeps the layout reached so far.

    Examples
    --------
    >>> from manifoldry import TSNE, datasets
    >>> blobs = datasets.gaussian_clusters(300, random_state=0)
    >>> model = TSNE(perplexity=20).fit(blobs.X)
    >>> model.embedding_.shape, model.diagnostics_["kl_divergence"]
    ((300, 2), 'exact')
    """

    n_components: PositiveInt = parameter(
        "Dimension of the embedding; 1, 2 and 3 are fast, more need all pairs at each step.", default=2, kw_only=False
    )
    metric: Metric = parameter(JOINT_METRIC_TEXT, default="euclidean")
    dof: Positive = parameter(DOF_TEXT, default=1.0)
    early_exaggeration: Annotated[float, Range(1)] = parameter(
        "Factor on the attraction in a first phase, in which clusters form; the phase ends early if the entire "
        "layout collapses into one point.",
        default=12.0,
    )
    early_exaggeration_iter: NonNegativeInt | Literal["auto"] = parameter(
        'Maximum number of iterations of that phase; "auto" is 250, or 0 with the initial layout "ipa", which '
        "already has its shape.",
        default="auto",
    )
    late_exaggeration: Annotated[float, Range(1)] = parameter(
        "Factor on the attraction in a last phase, which separates clusters more; 1 for none.", default=1.0
    )
    late_exaggeration_iter: NonNegativeInt = parameter("Number of iterations of that last phase.", default=250)

    _extra_metrics = ("affinity",)
    kl_divergence_: float = fitted()
    affinity_matrix_: csr_array = fitted()
    bandwidths_: FloatArray = fitted()
    learning_rate_: float = fitted()

    _blockwise = BlockFit(n_rows=50_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        if self.metric == "affinity":
            joint = joint_probabilities(X)
            return self._lay_out(joint, joint, run)[0]
        n = count_points(X)
        check_init(self.init, X, self.n_components, self._pairwise)
        graph, index = list_neighbors(X, self._rule(n), run)
        conditional = conditional_probabilities(graph, self.perplexity, self.bandwidth, run)
        joint, bandwidths, missed = conditional.joint(), conditional.bandwidths, conditional.missed
        del conditional  # as large as the graph
        embedding, kernel = self._lay_out(X, joint, run)
        perplexity = min(MAX_NEW_PERPLEXITY, *resolve_perplexities(self.perplexity, n))
        return replace(
            embedding,
            graph=graph,
            extension=DivergencePlacement.of(index, embedding.coordinates, kernel, perplexity, run),
            notes={**index.notes, "perplexity_missed": missed, **embedding.notes},
            fitted={**embedding.fitted, "bandwidths_": bandwidths},
        )

    def _lay_out(self, X: Any, joint: csr_array, run: Run) -> tuple[Embedding, LayoutKernel]:
        """Return the layout of joint probabilities, and its kernel."""
        n = joint.shape[0]
        check_init(self.init, X, self.n_components, self._pairwise)
        start = find_start(self.init, X, joint, self.n_components, run, metric=self.metric)
        places = start.places if start.shaped else TSNE_INITIAL_STD * start.places
        kernel = LayoutKernel.student_t(self.dof)
        repulsion = choose_repulsion(kernel, n, self.n_components, repulsion=self.repulsion, accuracy=self.accuracy)
        divergence = JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run)
        schedule = ExaggerationSchedule(
            self.max_iter,
            self.tol,
            self.early_exaggeration,
            self.early_exaggeration_iter,
            self.late_exaggeration,
            self.late_exaggeration_iter,
        )
        phases = schedule.phases(places, start.shaped)
        layout, trace = minimize_divergence(divergence, places, phases, self.learning_rate, run, rescale=start.shaped)
        value, how = divergence.final_value(layout)
        rate = n / 2 if self.learning_rate == "auto" else float(self.learning_rate)
        embedding = Embedding(
            layout,
            trace=trace,
            notes={"init": start.kind, "repulsion": repulsion.name, "kl_divergence": how, "stop": trace.stop.value},
            fitted={"kl_divergence_": value, "affinity_matrix_": joint, "learning_rate_": rate},
        )
        return embedding, kernel
