"""The base of SNE, symmetric SNE and t-SNE: probabilities of being neighbors, matched in the layout by a kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import (
    Described,
    NonNegative,
    Positive,
    PositiveInt,
    parameter,
)
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph, Trace
from manifoldry._numerics.descent.divergence import (
    Divergence,
    ExaggerationPhase,
    JointDivergence,
    minimize_divergence,
    prepare_divergence,
)
from manifoldry._numerics.descent.initialization import Init, Start, check_init
from manifoldry._numerics.descent.optimizer import Descent
from manifoldry._numerics.extension.affinity import DivergenceExtension
from manifoldry._numerics.geometry.neighbor_affinity import (
    NEIGHBORS_PER_PERPLEXITY,
    JointRows,
    check_list_length,
    conditional_probabilities,
    host_matrix,
    negative_entropy,
    resolve_perplexities,
)
from manifoldry._numerics.patches.start import find_start
from manifoldry._numerics.repulsion import LayoutKernel, RepulsionName, choose_repulsion, resolve_repulsion
from manifoldry.graph._operations import list_neighbors
from manifoldry.graph._search import NeighborIndex, NeighborRule
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._embedder import Embedder, Metric, count_points
from manifoldry.methods._base._texts import (
    MAX_ITER_TEXT,
    METRIC_PARAMS_TEXT,
    METRIC_TEXT,
    SEARCH_TEXT,
)
from manifoldry.methods.neighbor._update import LayoutProblem, UpdateMixin

SNE_INITIAL_STD = 0.1  # Standard deviation of an initial layout of SNE that is not given


@dataclass(frozen=True)
class ListedProbabilities:
    """The neighbors of points, and their probabilities with negative entropy and bandwidths."""

    graph: NeighborGraph
    index: NeighborIndex
    joint: csr_array | JointRows
    information: float
    bandwidths: FloatArray
    missed: int  # points with too many equal distances


@estimator
class NeighborEmbedding(UpdateMixin, Embedder):
    """Base of SNE, symmetric SNE and t-SNE: they differ in the divergence, the kernel and the phases of the descent.

    Their layouts need no connected graph: components without edges between them repel each other.

    Attributes
    ----------
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities p.
    bandwidths_ : ndarray
        The standard deviations of the points, with a column for each perplexity if there are several; not for given
        affinities.
    graph_ : NeighborGraph
        The list of neighbors of each point; not for given affinities.
    trace_ : Trace
        The divergence every 50 iterations, and why the descent ended.
    n_iter_ : int
        Number of iterations.
    diagnostics_ : dict
        Seconds, ``init``, ``repulsion``, ``kl_divergence``, and ``perplexity_missed``: the number of points with too
        many equal distances.
    """

    metric: Metric = parameter(METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    init: Init = parameter(
        'Initial layout. "ipa" aligns overlapping patches in n_components dimensions, as `IPA` does, scaled to where '
        'the divergence is smallest. "auto" is "ipa" if patches of rows (dense, Euclidean metric) fit together as a '
        'flat surface of n_components dimensions, which takes up to a second to test; otherwise "pca" for rows, '
        'classical scaling for distances, "spectral" for graphs. These, and a given array, are centered and scaled: '
        "the shape of an array matters, not its unit.",
        default="auto",
    )
    # At least 1, by `resolve_perplexities`: scikit-learn's checks give 0.5 to any TSNE of one sample.
    perplexity: Positive | Literal["auto"] | Annotated[Any, Described("several numbers")] = parameter(
        "Effective number of neighbors of each point, at least 1; the probabilities of several perplexities are "
        'averaged. "auto" is 30, or a third of n - 1 for fewer points, or a third of the neighbors that a given '
        "graph lists.",
        default="auto",
    )
    bandwidth: Positive | Annotated[Any, Described("an array of shape (n_samples,)")] | None = parameter(
        r"Fixed :math:`\sigma` of all points or of each point; then the perplexity only sets the number of listed "
        "neighbors.",
        default=None,
    )
    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of listed neighbors; "auto" is three times the largest perplexity.', default="auto"
    )
    learning_rate: Positive | Literal["auto"] = parameter(
        'Step length for the gradient of the divergence; "auto" is n / 2, divided by the exaggeration if there is '
        "one, and less for points of high degree.",
        default="auto",
    )
    max_iter: PositiveInt = parameter(MAX_ITER_TEXT, default=1000)
    tol: NonNegative = parameter(
        "The descent has converged when 50 iterations lower the divergence by less than this share; 0 runs all "
        "``max_iter`` iterations.",
        default=5e-3,
    )
    repulsion: RepulsionName = parameter(
        "Method that sums the repulsion: over all pairs, by Barnes-Hut (up to 3-D) or by FFT on a grid (up to 2-D).",
        default="auto",
    )
    accuracy: Positive | None = parameter("Relative error allowed to Barnes-Hut and FFT; None is 1e-2.", default=None)

    kl_divergence_: float = fitted()
    bandwidths_: FloatArray = fitted()

    _accepts_graphs: ClassVar[bool] = True
    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True
    _divergence: ClassVar[type[Divergence]] = JointDivergence
    _initial_std: ClassVar[float] = SNE_INITIAL_STD
    _max_new_perplexity: ClassVar[float] = inf

    @property
    def affinity_matrix_(self) -> csr_array:
        """The joint probabilities p; after a fit on a GPU they are computed when they are first read."""
        if "affinity_matrix_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no affinity_matrix_ before it is fitted.")
        if callable(joint := vars(self)["affinity_matrix_"]):
            vars(self)["affinity_matrix_"] = joint()
        return vars(self)["affinity_matrix_"]

    def __getstate__(self) -> Any:
        getattr(self, "affinity_matrix_", None)  # a function is not stored, but what it computes
        return super().__getstate__()

    @abstractmethod
    def _layout_kernel(self) -> LayoutKernel:
        """Return the kernel of the layout's probabilities."""

    @abstractmethod
    def _phases(self, initial: FloatArray, shaped: bool) -> list[ExaggerationPhase]:
        """Return the phases of the descent from an initial layout."""

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        rule = self._rule(n_points)
        if self.n_neighbors != "auto" and self.bandwidth is None:
            check_list_length(self.perplexity, int(rule.n_neighbors or 0), n_points)
        if self.bandwidth is not None:
            sigma = np.asarray(self.bandwidth, dtype=np.float64)
            if sigma.shape not in ((), (n_points,)) or not np.isfinite(sigma).all() or sigma.min() <= 0:
                raise ValueError(
                    f"bandwidth must be a positive number, or one for each of the {n_points} points; got "
                    f"{self.bandwidth!r}."
                )
        resolve_repulsion(self._layout_kernel(), self.repulsion, n_points, self.n_components, self.accuracy)

    def _rule(self, n_points: int) -> NeighborRule:
        """Return which neighbors are listed: by default three times the largest perplexity."""
        largest = max(resolve_perplexities(self.perplexity, n_points))
        rule = NeighborRule(self.n_neighbors, None, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points, int(np.ceil(NEIGHBORS_PER_PERPLEXITY * largest)))

    def _embed(self, X: Any, run: Run) -> Embedding:
        check_init(self.init, X, self.n_components, self._pairwise)
        listed = self._listed(X, run)
        return self._extended(listed, self._lay_out(X, listed.joint, listed.information, run), run)

    def _listed(self, X: Any, run: Run) -> ListedProbabilities:
        graph, index = list_neighbors(X, self._rule(count_points(X)), run)
        conditional = conditional_probabilities(graph, self.perplexity, self.bandwidth, run)
        with run.stage("affinities"):
            joint = conditional.joint(run)
        of_joint = self._divergence is JointDivergence
        p, found = joint.data if of_joint else conditional.matrix.data, (conditional.bandwidths, conditional.missed)
        del conditional  # as much memory as the next line takes
        information = negative_entropy(p, run) / (1 if of_joint else count_points(X))
        return ListedProbabilities(graph, index, joint, information, *found)

    def _extended(self, listed: ListedProbabilities, embedding: Embedding, run: Run) -> Embedding:
        layout, of_joint = embedding.coordinates, self._divergence is JointDivergence
        perplexity = min(self._max_new_perplexity, *resolve_perplexities(self.perplexity, len(layout)))
        return replace(
            embedding,
            graph=listed.graph,
            extension=DivergenceExtension.of(
                listed.index, layout, self._layout_kernel(), perplexity, run, joint=of_joint
            ),
            notes={**listed.index.notes, "perplexity_missed": listed.missed, **embedding.notes},
            fitted={**embedding.fitted, "bandwidths_": listed.bandwidths},
        )

    def _lay_out(self, X: Any, joint: csr_array | JointRows, information: float, run: Run) -> Embedding:
        """Return the layout of joint probabilities, whose negative entropy is ``information``."""
        start = self._start(X, joint, run)
        initial = start.places if start.shaped else self._initial_std * start.places
        divergence = self._divergence_of(joint, information, run)
        phases = self._phases(initial, start.shaped)
        reached = minimize_divergence(divergence, initial, phases, self.learning_rate, run, rescale=start.shaped)
        return self._laid_out(divergence, *reached, start.kind)

    def _divergence_of(self, joint: csr_array | JointRows, information: float, run: Run) -> Divergence:
        kernel = self._layout_kernel()
        size = joint.shape[0], self.n_components
        repulsion = choose_repulsion(kernel, *size, repulsion=self.repulsion, accuracy=self.accuracy)
        return self._divergence(joint, information, kernel, repulsion, run)

    def _laid_out(self, divergence: Divergence, layout: FloatArray, trace: Trace, init: str) -> Embedding:
        value, how = divergence.final_value(layout, float(trace.objective[-1]))
        repulsion, joint = divergence.repulsion.name, divergence.joint
        return Embedding(
            layout,
            trace=trace,
            notes={"init": init, "repulsion": repulsion, "kl_divergence": how, "stop": trace.stop.value},
            fitted={
                "kl_divergence_": value,
                "affinity_matrix_": joint.later if isinstance(joint, JointRows) else joint,
            },
        )

    def _problem(self, X: Any, n_largest: int, run: Run) -> LayoutProblem:  # noqa: ARG002
        listed = self._listed(X, run)
        joint = host_matrix(listed.joint, run)
        divergence = self._divergence_of(joint, listed.information, run)

        def descent(initial: FloatArray) -> Descent:
            phases = self._phases(initial, shaped=False)
            return prepare_divergence(divergence, initial, phases, self.learning_rate, run, alone=False)

        return LayoutProblem(
            joint,
            otherwise="pca",
            centered=True,
            alignment_weight=0.01,
            initial=lambda start: self._initial_std * start.places,
            descent=descent,
            embedding=lambda Y, trace, init: self._extended(listed, self._laid_out(divergence, Y, trace, init), run),
        )

    def _start(self, X: Any, joint: csr_array | JointRows, run: Run) -> Start:
        return find_start(self.init, X, joint, self.n_components, run, metric=self.metric)
