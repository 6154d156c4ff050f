"""Methods that scale geodesics: their constructor, their residual variance, and what they return."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base.estimator import estimator
from manifoldry.base.graph import GraphEmbedder
from manifoldry.extend.nystrom import GeodesicNystrom, LandmarkPlacement
from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.solve.scaling import landmark_scaling, place_columns
from manifoldry.solve.spectrum import Suggestion, elbow, residual_variance
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph


@estimator
class GeodesicEmbedder(GraphEmbedder):
    """What the Isomaps share: the constructor, and the residual variance of their geodesics."""

    _invertible = _local_inverse = True

    def residual_variances(self, max_components: int = 10, *, sample: int = 1000) -> FloatArray:
        r"""Return :math:`1 - R^2(d)` between geodesic and embedded distances for d = 1..max_components.

        The curve falls until d reaches the intrinsic dimension and then stays. With more than ``sample``
        points it is measured on landmarks: the geodesics from a random sample among themselves.

        Parameters
        ----------
        max_components : int
            The largest dimension tried.
        sample : int
            Number of points whose geodesics are taken.

        Returns
        -------
        ndarray of shape (max_components,)
        """
        check_is_fitted(self, "graph_")
        graph: NeighborGraph = self.graph_
        run = self._run()
        count = min(check.integer("sample", sample, 3), graph.n_points)
        check.integer("max_components", max_components, 1, count - 1)
        chosen = np.sort(run.rng("residual variance").permutation(graph.n_points)[:count])
        lengths, _ = geodesic_lengths(graph, run, chosen)
        among = lengths[:, chosen].astype(np.float64)
        if not np.isfinite(among).all():
            raise ValueError("Residual variances need a connected graph; fit with disconnected='bridge'.")
        coordinates = landmark_scaling(lengths, chosen, max_components, run).coordinates
        return np.array([residual_variance(among, coordinates[:, :d]) for d in range(1, max_components + 1)])

    def suggest_n_components(self, max_components: int = 10, *, sample: int = 1000) -> Suggestion:
        """Return the dimension at the elbow of the residual variances, and why.

        Parameters
        ----------
        max_components, sample : int
            As in `residual_variances`.
        """
        return elbow(self.residual_variances(max_components, sample=sample), "residual variance")


def from_scaling(extension: GeodesicNystrom, **notes: Any) -> Embedding:
    """Return the embedding of a scaling that its extension carries; the graph is the one that the paths ran on."""
    scaling = extension.scaling
    return Embedding(
        scaling.coordinates, graph=extension.graph, spectrum=scaling.spectrum, extension=extension, notes=notes
    )


def from_landmarks(
    index: NeighborIndex,
    lengths: FloatArray,
    landmarks: IntArray,
    n_components: int,
    run: Run,
    scale: FloatArray | None = None,
) -> Embedding:
    """Return the embedding of everyone by the path lengths (l, n) from the landmarks."""
    scaling = landmark_scaling(lengths, landmarks, min(n_components, len(landmarks) - 1), run)
    with run.stage("placement"):
        coordinates = place_columns(scaling, lengths, run)
    extension = LandmarkPlacement(index, lengths, scaling, scale)
    return Embedding(coordinates, spectrum=scaling.spectrum, extension=extension, notes={"landmarks": landmarks})
