"""The parameters that SNE, symmetric SNE and t-SNE share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from manifoldry._core.parameters import Described, NonNegative, Positive, PositiveInt
from manifoldry._numerics.descent.initialization import Init
from manifoldry._numerics.geometry.entropic import NEIGHBORS_PER_PERPLEXITY, check_list_length, resolve_perplexities
from manifoldry._numerics.repulsion import RepulsionName, resolve_repulsion
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base._embedder import Embedder
from manifoldry.methods._base._estimator import estimator


@estimator
class NeighborEmbedding(Embedder):
    """Parameters of SNE and its kin, and what of them depends on the data.

    Their layouts need no connected graph: pieces without edges between them repel each other.
    """

    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: Literal["auto", "exact", "approximate"] = "auto"
    init: Init = "auto"
    # At least 1, by `resolve_perplexities`: scikit-learn's checks give 0.5 to any TSNE of one sample.
    perplexity: Positive | Literal["auto"] | Annotated[Any, Described("several numbers")] = "auto"
    bandwidth: Positive | Annotated[Any, Described("an array of shape (n_samples,)")] | None = None
    n_neighbors: PositiveInt | Literal["auto"] = "auto"
    learning_rate: Positive | Literal["auto"] = "auto"
    max_iter: PositiveInt = 1000
    tol: NonNegative = 5e-3
    repulsion: RepulsionName = "auto"
    accuracy: Positive | None = None

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
