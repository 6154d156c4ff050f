"""The parameters that SNE, symmetric SNE and t-SNE share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from manifoldry._core.parameters import Described, NonNegative, Positive, PositiveInt, parameter
from manifoldry._numerics.descent.initialization import Init
from manifoldry._numerics.geometry.neighbor_affinity import (
    NEIGHBORS_PER_PERPLEXITY,
    check_list_length,
    resolve_perplexities,
)
from manifoldry._numerics.repulsion import RepulsionName, resolve_repulsion
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base._embedder import Embedder, Metric
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import MAX_ITER_TEXT, METRIC_PARAMS_TEXT, METRIC_TEXT, SEARCH_TEXT


@estimator
class NeighborEmbedding(Embedder):
    """Parameters of SNE, symmetric SNE and t-SNE, and their checks against the data.

    Their layouts need no connected graph: components without edges between them repel each other.

    Attributes
    ----------
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

    _takes_graphs: ClassVar[bool] = True
    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True

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
        resolve_repulsion(self.repulsion, n_points, self.n_components, self.accuracy)

    def _rule(self, n_points: int) -> NeighborRule:
        """Return which neighbors are listed: by default three times the largest perplexity."""
        largest = max(resolve_perplexities(self.perplexity, n_points))
        rule = NeighborRule(self.n_neighbors, None, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points, int(np.ceil(NEIGHBORS_PER_PERPLEXITY * largest)))
