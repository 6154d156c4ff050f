"""Embeddings by geodesic distances, and new points by their path lengths to fitted points or landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.elbow import Suggestion, elbow, residual_variance
from manifoldry._numerics.scaling import Scaling, center_gram, landmark_scaling, place_columns
from manifoldry.graph._geodesics import geodesic_lengths, geodesics_from_outside
from manifoldry.graph._operations import components, rescaled
from manifoldry.graph._search import NeighborIndex
from manifoldry.graph._short_circuits import short_circuit_notes, short_circuits

GEODESIC_BLOCK = 20_000_000
"""Path lengths held at a time."""


@dataclass(frozen=True)
class GeodesicNystrom:
    """Paths from a new point go through its neighbors; their squared lengths are projected.

    Paths are recomputed on the connected ``graph`` of the fitted points, so that no n x n matrix is stored. ``shift``
    is the constant of kernel Isomap, added to every path between different points. ``scale`` (n,) has conformal
    Isomap's mean neighbor distances: an edge is divided by the root of its ends' scales.
    """

    index: NeighborIndex
    graph: NeighborGraph
    scaling: Scaling
    shift: float = 0.0
    scale: FloatArray | None = None

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        neighbors, offsets = self.index.query(X, run)
        if self.scale is not None:
            offsets = _conformal_offsets(neighbors, offsets, self.scale)
        blocks = [np.empty((0, len(self.scaling.spectrum)))]
        for lo, hi in run.ranges(len(neighbors), max(1, GEODESIC_BLOCK // self.graph.n_points)):
            lengths = geodesics_from_outside(self.graph, neighbors[lo:hi], offsets[lo:hi], run)
            lengths[lengths > 0] += self.shift
            # Row by row, not one product for the batch: coordinates must not depend on the rest of the batch.
            blocks.append(np.concatenate([self._place(row[None]) for row in lengths]))
        return np.concatenate(blocks)

    def _place(self, paths: FloatArray) -> FloatArray:
        """Return the coordinates of one point; NaN without a path to all fitted points."""
        if not np.isfinite(paths).all():
            return np.full((1, len(self.scaling.spectrum)), np.nan)
        return self.scaling.place(paths**2)


def _conformal_offsets(neighbors: IntArray, offsets: FloatArray, scale: FloatArray) -> FloatArray:
    """Divide a new point's distances by the roots of its own mean distance and its neighbors' scales."""
    listed = neighbors >= 0
    mean = np.where(listed, offsets, 0.0).sum(axis=1) / np.maximum(listed.sum(axis=1), 1)
    mean = np.where(mean > 0, mean, scale.min())
    return np.where(listed, offsets / np.sqrt(mean[:, None] * scale[neighbors]), np.inf)


@dataclass(frozen=True)
class LandmarkPlacement:
    """New points by their path lengths to the landmarks, through their fitted neighbors."""

    index: NeighborIndex
    lengths: FloatArray
    scaling: Scaling
    scale: FloatArray | None = None

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        neighbors, offsets = self.index.query(X, run)
        if self.scale is not None:
            offsets = _conformal_offsets(neighbors, offsets, self.scale)
        coordinates = np.empty((len(neighbors), len(self.scaling.spectrum)))

        def block(lo: int, hi: int) -> None:
            through = self.lengths[:, neighbors[lo:hi]] + offsets[lo:hi]  # (landmarks, points, width)
            paths = through.min(axis=2).T.astype(np.float64)
            for i, row in enumerate(paths):
                coordinates[lo + i] = self.scaling.place(row[None] ** 2)[0]

        run.map(block, run.ranges(len(neighbors), 256), blas=True)
        return coordinates


def embed_by_scaling(extension: GeodesicNystrom, run: Run, **notes: Any) -> Embedding:
    """Return the embedding by the classical scaling of ``extension``, with notes on short circuits of its graph."""
    scaling, graph, scale = extension.scaling, extension.graph, extension.scale
    # In conformal lengths edges across a gap are not long, because they contribute to the scale of their ends.
    notes |= short_circuit_notes(graph if scale is None else rescaled(graph, 1.0 / scale), run)
    return Embedding(scaling.coordinates, graph=graph, spectrum=scaling.spectrum, extension=extension, notes=notes)


def grown_eigenvectors(scaling: Scaling, lengths: FloatArray) -> FloatArray:
    """Return approximate eigenvectors of an extended sample: the old ones, and those of new points (Nystrom).

    ``lengths`` are the geodesic distances (n, n) of all points, the old ones first.
    """
    old, values = len(scaling.mean_squares), scaling.spectrum.values
    new = scaling.place(lengths[old:, :old].astype(np.float64) ** 2)
    new /= np.sqrt(np.where(values > 0, values, 1.0))
    return np.concatenate([scaling.spectrum.vectors, new])


def embed_by_landmarks(
    index: NeighborIndex,
    lengths: FloatArray,
    landmarks: IntArray,
    n_components: int,
    run: Run,
    scale: FloatArray | None = None,
    graph: NeighborGraph | None = None,
) -> Embedding:
    """Return the embedding of all points by their geodesic distances (l, n) from the landmarks (desilva2004).

    If the ``graph`` of the distances is given, its short circuits are noted.
    """
    scaling = landmark_scaling(lengths, landmarks, min(n_components, len(landmarks) - 1), run)
    with run.stage("placement"):
        coordinates = place_columns(scaling, lengths, run)
    extension = LandmarkPlacement(index, lengths, scaling, scale)
    notes = {"landmarks": landmarks, **({} if graph is None else short_circuit_notes(graph, run))}
    return Embedding(coordinates, spectrum=scaling.spectrum, extension=extension, notes=notes)


def _geodesic_residual_variances(graph: NeighborGraph, max_components: int, sample: int, run: Run) -> FloatArray:
    """Return the residual variances of 1..max_components dimensions, from geodesics among at most ``sample`` points."""
    count = min(check.integer("sample", sample, 3), graph.n_points)
    check.integer("max_components", max_components, 1, count - 1)
    chosen = np.sort(run.rng("residual variance").permutation(graph.n_points)[:count])
    lengths, _ = geodesic_lengths(graph, run, chosen)
    among = lengths[:, chosen].astype(np.float64)
    if not np.isfinite(among).all():
        raise ValueError("Residual variances need a connected graph; fit with disconnected='bridge'.")
    coordinates = landmark_scaling(lengths, chosen, max_components, run).coordinates
    return np.array([residual_variance(among, coordinates[:, :d]) for d in range(1, max_components + 1)])


def _suggest_by_geodesics(
    graph: NeighborGraph, max_components: int, sample: int, run: Run, otherwise: Suggestion | None
) -> Suggestion:
    """Return the dimension at the elbow of the residual variances of the largest component, else ``otherwise``.

    Short circuits are removed: with them a roll has four dimensions.
    """
    part = graph.subset(np.sort(components(graph)[0]))
    part = short_circuits(part, run).removed_from(part)
    max_dimension = min(check.integer("max_components", max_components, 1), part.n_points - 1)
    return elbow(_geodesic_residual_variances(part, max_dimension, sample, run), "residual variance", otherwise)


def geodesic_matrix(model: Any) -> FloatArray:
    """Return the shortest path lengths on the fitted graph, recomputed: a model stores no n x n matrix."""
    check_is_fitted(model, "graph_")
    return geodesic_lengths(model.graph_, model._run(), at_least=model.graph_.n_points)[0]


def reconstruction_error(self: Any) -> float:
    r"""Return the misfit of the geodesic kernel, :math:`\|-\frac12 H D_G^{(2)} H - Y Y^T\|_F / n`, as in scikit-learn.

    The geodesic distances are computed again.
    """
    lengths = geodesic_matrix(self)
    if not np.isfinite(lengths).all():
        raise ValueError("The graph is disconnected, so some geodesic distances are infinite: fit one component.")
    lengths **= 2
    lengths *= -0.5
    kernel, Y = center_gram(lengths, self._run()), np.asarray(self.embedding_, dtype=np.float64)
    kernel -= Y @ Y.T
    return float(np.linalg.norm(kernel)) / len(Y)


def residual_variances(self: Any, max_components: int = 10, *, sample: int = 1000) -> FloatArray:
    r"""Return the residual variance :math:`1 - R^2(d)` of geodesic and embedded distances for d = 1..max_components.

    The curve falls until d reaches the intrinsic dimension and then stays. With more than ``sample`` points it is
    measured on the geodesic distances among a random sample of them.

    Parameters
    ----------
    max_components : int
        The largest dimension tried.
    sample : int
        Maximum number of points whose geodesic distances are computed.
    """
    check_is_fitted(self, "graph_")
    return _geodesic_residual_variances(self.graph_, max_components, sample, self._run())


def suggest_n_components(self: Any, max_components: int = 10, *, sample: int = 1000) -> Suggestion:
    """Return the dimension at a clear elbow of the `residual_variances`, else the measured dimension of the data."""
    check_is_fitted(self, "graph_")
    return _suggest_by_geodesics(self.graph_, max_components, sample, self._run(), self._measured())
