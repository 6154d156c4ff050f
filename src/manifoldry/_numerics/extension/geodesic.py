"""Embeddings by geodesic distances, and new points by their path lengths to fitted points or landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.elbow import Suggestion, elbow, residual_variance
from manifoldry._numerics.geometry.neighborhoods import map_rows
from manifoldry._numerics.geometry.tangent import MIN_SHEET_POINTS, is_surface
from manifoldry._numerics.scaling import Scaling, center_gram, embed_from_landmarks, landmark_scaling
from manifoldry.graph._geodesics import geodesic_lengths, geodesics_from_outside
from manifoldry.graph._operations import components
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex
from manifoldry.graph._short_circuits import short_circuits

GEODESIC_BLOCK = 20_000_000  # Path lengths held at a time


@dataclass(frozen=True)
class GeodesicNystrom:
    """New points by the squared lengths of paths through their neighbors, projected; NaN without paths."""

    index: NeighborIndex
    graph: NeighborGraph
    scaling: Scaling
    shift: float = 0.0  # the constant of kernel Isomap, added to every path between different points
    scale: FloatArray | None = None  # mean neighbor distances (n,), by whose roots conformal Isomap divides edges

    def __call__(self, X: Array, run: Run) -> FloatArray:
        neighbors, offsets = _neighbor_offsets(X, self.index, self.scale, run)
        coordinates = np.full((len(neighbors), len(self.scaling.spectrum)), np.nan)
        for lo, hi in run.ranges(len(neighbors), max(1, GEODESIC_BLOCK // self.graph.n_points)):
            lengths = geodesics_from_outside(self.graph, neighbors[lo:hi], offsets[lo:hi], run)
            lengths[lengths > 0] += self.shift
            # Row by row, not one product for the batch: coordinates must not depend on the rest of the batch.
            for i, row in enumerate(lengths):
                if np.isfinite(row).all():
                    coordinates[lo + i] = self.scaling.place(row[None] ** 2)[0]
        return coordinates


def _neighbor_offsets(
    X: Array, index: NeighborIndex, scale: FloatArray | None, run: Run
) -> tuple[IntArray, FloatArray]:
    """Return neighbors and distances of new points, over the roots of both ends' mean distances if these are given."""
    neighbors, offsets = index.query(X, run)
    if scale is None:
        return neighbors, offsets
    listed = neighbors >= 0
    mean = np.where(listed, offsets, 0.0).sum(axis=1) / np.maximum(listed.sum(axis=1), 1)
    mean = np.where(mean > 0, mean, scale.min())
    return neighbors, np.where(listed, offsets / np.sqrt(mean[:, None] * scale[neighbors]), np.inf)


@dataclass(frozen=True)
class LandmarkExtension:
    """New points by their path lengths to the landmarks, through their fitted neighbors."""

    index: NeighborIndex
    lengths: FloatArray
    scaling: Scaling
    scale: FloatArray | None = None

    def __call__(self, X: Array, run: Run) -> FloatArray:
        neighbors, offsets = _neighbor_offsets(X, self.index, self.scale, run)

        def block(lo: int, hi: int) -> FloatArray:
            through = self.lengths[:, neighbors[lo:hi]] + offsets[lo:hi]  # (landmarks, points, width)
            paths = through.min(axis=2).T.astype(np.float64)
            return np.concatenate([self.scaling.place(row[None] ** 2) for row in paths])

        return map_rows(block, (len(neighbors), len(self.scaling.spectrum)), 256, run, blas=True)


def embed_by_scaling(extension: GeodesicNystrom, **notes: Any) -> Embedding:
    """Return the embedding by the classical scaling of ``extension``."""
    scaling, graph = extension.scaling, extension.graph
    return Embedding(scaling.coordinates, graph=graph, spectrum=scaling.spectrum, extension=extension, notes=notes)


def embed_by_landmarks(
    index: NeighborIndex,
    lengths: FloatArray,
    landmarks: IntArray,
    n_components: int,
    run: Run,
    scale: FloatArray | None = None,
) -> Embedding:
    """Return the embedding of all points by their geodesic distances (l, n) from the landmarks (desilva2004)."""
    scaling = landmark_scaling(lengths, landmarks, min(n_components, len(landmarks) - 1), run)
    with run.stage("placement"):
        coordinates = embed_from_landmarks(scaling, lengths, run)
    extension = LandmarkExtension(index, lengths, scaling, scale)
    return Embedding(coordinates, spectrum=scaling.spectrum, extension=extension, notes={"landmarks": landmarks})


N_PATH_SOURCES, MAX_PATH_TARGETS = 100, 10_000
"""Points from which shortest paths are compared with the layout, and to how many, evenly spaced among all."""
MAX_PATH_ERROR, DENSE_POINTS = 0.03, 400
"""Largest error of Isomap's distances relative to the paths (0.026 on good layouts), and points without zigzags."""
MAX_UNFOLDED_PATH_ERROR = 0.085  # the same if distances of neighbors may shrink, so that paths become straight
MAX_STRAIGHT_DIMENSION = 2
"""Dimensions up to which these limits hold: in a solid cube of 2,000 points paths are off by 0.034."""
Paths = tuple[IntArray, FloatArray]
"""Some points (m,), and the lengths (m, t) of the shortest paths from them to the points 0, s, 2 s, ..."""


def _stride(n_points: int) -> int:
    return -(-n_points // MAX_PATH_TARGETS)


def some_paths(sources: IntArray, lengths: FloatArray) -> Paths:
    """Return a copy of the paths with which a layout is compared, of lengths (m, n) from the sources to all points."""
    chosen = np.sort(Run(0).rng("path error").permutation(len(sources))[:N_PATH_SOURCES])
    return sources[chosen], lengths[chosen, :: _stride(lengths.shape[1])]


def paths_along(graph: NeighborGraph, run: Run) -> Paths:
    """Return the shortest paths along a graph with which a layout is compared."""
    chosen = np.sort(Run(0).rng("path error").permutation(graph.n_points)[:N_PATH_SOURCES])
    with run.stage("distances along the data"):
        return some_paths(chosen, geodesic_lengths(graph, Run(0, run.n_jobs), chosen)[0])


def path_error(coordinates: FloatArray, paths: Paths) -> float:
    """Return the root mean square difference of distances in a layout and shortest paths, relative to the paths."""
    sources, lengths = paths[0], paths[1].astype(np.float64)
    distances = cdist(coordinates[sources], coordinates[:: _stride(len(coordinates))])
    connected = np.isfinite(lengths)
    squares = np.square(distances[connected] - lengths[connected]).sum()
    total = float(np.square(lengths[connected]).sum())
    return float(np.sqrt(squares / total)) if total > 0 else 0.0


def with_path_error(
    embedding: Embedding,
    sample: NeighborhoodData,
    paths: Paths,
    limit: float = MAX_PATH_ERROR,
    instead: str = "IPA",
    find: Callable[[NeighborGraph], dict[str, Any]] | None = None,
) -> Embedding:
    """Return the embedding of a surface with the error of its distances along the data, and advice if it is large.

    ``find`` returns notes on the graph, and is called unless the error is small: a layout that keeps the lengths of the
    shortest paths has no short circuits that matter.
    """
    n, n_components = embedding.coordinates.shape
    straight = sample.targets is None and n_components <= MAX_STRAIGHT_DIMENSION and n >= MIN_SHEET_POINTS
    error = path_error(embedding.coordinates, paths) if straight else np.inf
    notes = dict(embedding.notes)
    if error > limit * max(1.0, (DENSE_POINTS / n) ** 0.5):
        notes |= {} if find is None else find(sample.graph)
        if not straight or not is_surface(sample, n_components):
            return replace(embedding, notes=notes)
        if not (notes.get("advice") or notes.get("surface_advice")):
            notes["advice"] = (
                f"The layout changes the distances along the data by {error:.0%} (root mean square): the data has a "
                f"hole, a concave outline or short circuits, or cannot be laid flat. Use {instead}, which does not "
                "depend on such path lengths.",
            )
    return replace(embedding, notes={**notes, "path_error": error})


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
    run, part = self._run(), self.graph_.subset(np.sort(components(self.graph_)[0]))
    part = short_circuits(part, run).removed_from(part)  # with them a roll has four dimensions
    max_dimension = min(check.integer("max_components", max_components, 1), part.n_points - 1)
    left = _geodesic_residual_variances(part, max_dimension, sample, run)
    return elbow(left, "residual variance", self._measured())
