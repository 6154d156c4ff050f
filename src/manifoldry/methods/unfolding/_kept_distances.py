"""What MVU, ColoredMVU and MVE have in common: distances between neighbors that a Gram matrix keeps."""

from __future__ import annotations

from typing import Any, Literal

from manifoldry._core.parameters import Positive, ProperShare, parameter
from manifoldry._core.values import Certificate
from manifoldry._numerics.extension.local import check_pair_count, distances_fit
from manifoldry._numerics.semidefinite.pairs import PairDistances
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import CONSTRAINTS_TEXT, GAP_TEXT, SLACK_TEXT


@estimator
class KeptDistancesMixin(GraphEmbedder):
    """Base of the methods that optimize over all Gram matrices that keep the distances between neighbors.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their first principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the unfolded Gram matrix, in all dimensions used.
    error_certificate_ : Certificate
        Certificate of the smallest mean squared relative error of the squared distances to keep: zero if they fit.
    error_ : float
        Mean squared relative error of the squared distances, in all dimensions used.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    """

    constraints: Literal["equal", "at most"] = parameter(CONSTRAINTS_TEXT, default="equal")
    slack: ProperShare = parameter(SLACK_TEXT, default=1e-2)
    tol: Positive = parameter(GAP_TEXT, default=1e-4)

    error_: float = fitted()
    error_certificate_: Certificate = fitted()

    _invertible = _local_inverse = True
    _chunk_support = ChunkSupport(
        "no",
        instead="its semidefinite program is for one or two thousand points. IPA unfolds all rows, also with targets.",
    )

    def _kept_distances(self, sample: NeighborhoodData) -> tuple[PairDistances, dict[str, Any]]:
        """Return the distances to keep, and the options of `unfold_points` for them."""
        pairs = PairDistances.of_graph(sample.graph)
        check_pair_count(type(self).__name__, pairs)
        fits = distances_fit(sample, pairs, self)
        at_most = self.constraints == "at most"
        return pairs, {"slack": self.slack, "tol": self.tol, "fits": fits, "at_most": at_most}
