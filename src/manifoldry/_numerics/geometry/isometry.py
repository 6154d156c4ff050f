"""Whether the layout of a surface keeps distances along the data, the lengths of shortest paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph, Spectrum
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._sample import Sample

SURFACE_SLACK = 0.5
"""Measured dimension beyond the asked one up to which the data passes for a surface: noisy rolls have up to 2.35."""

MIN_SHEET_POINTS = 30
"""Points from which on the dimension is measured well enough; fewer are seen one by one."""

N_PATH_SOURCES = 100
"""Points from which shortest paths are compared with the layout: 100 n pairs."""

MAX_PATH_ERROR, DENSE_POINTS = 0.03, 400
"""Root mean square error of Isomap's distances, relative to theirs, without a finding; of fewer points the paths are
more crooked, and the limit grows as one over the root of their number. On 140 surfaces of 150 to 1,200 points layouts
with a rigid error up to 0.09 have at most 0.026 (0.036 for 300 points, 0.037 for 150), those above 0.1 at least 0.032
(a small hole), 0.07 (a sector of a cone) and 0.1 (short circuits)."""

MAX_UNFOLDED_PATH_ERROR = 0.085
"""The same where distances of neighbors may shrink, so that paths become straight: at most 0.077 for layouts with a
rigid error up to 0.1 (but 0.12 around a hole of a sixth of the surface), at least 0.086 (a sector of a cone) and 0.16
(short circuits) for the others. The two overlap: a large hole gives advice though the layout is right."""

MAX_BEND = 0.05
"""Share of their spread by which unfolded points may bend away from the layout, half the error of a wrong one. On 60
surfaces of 150 to 700 points it is up to 0.049 where the rigid error is below 0.08, also with noise, 0.06 to 0.065 for
errors of 0.08 to 0.1, and 0.054 and more for larger ones, sectors of cones held together by neighbors across a gap."""

MAX_STRAIGHT_DIMENSION = 2
"""Dimensions up to which these limits hold: shortest paths in a solid cube of 2,000 points are off by 0.034."""


def is_surface(sample: Sample, n_components: int) -> bool:
    """Tell whether the data, as measured, has about the dimension asked for, so that its distances can be kept."""
    if sample.n_points < MIN_SHEET_POINTS:
        return False
    rule = sample.index.rule
    points = sample.neighbors if sample.X is None else sample.X
    metric = "precomputed" if sample.pairwise else rule.metric
    return intrinsic_dimension(points, metric, rule.metric_params).value <= n_components + SURFACE_SLACK


def path_error(graph: NeighborGraph, coordinates: FloatArray, run: Run) -> float:
    """Return by how much distances differ from shortest paths, as root mean squares relative to the paths."""
    quiet = Run(0, run.n_jobs)
    sources = np.sort(quiet.rng("path error").permutation(graph.n_points)[:N_PATH_SOURCES])
    with run.stage("distances along the data"):
        paths = geodesic_lengths(graph, quiet, sources)[0].astype(np.float64)
        squares = total = 0.0
        for source, lengths in zip(sources, paths, strict=True):
            found = np.isfinite(lengths)
            away = np.linalg.norm(coordinates[found] - coordinates[source], axis=1)
            squares += float(((away - lengths[found]) ** 2).sum())
            total += float((lengths[found] ** 2).sum())
    return float(np.sqrt(squares / total)) if total > 0 else 0.0


def bend(graph: NeighborGraph, spectrum: Spectrum, n_components: int) -> float:
    r"""Return how far unfolded points leave their first n_components dimensions smoothly, relative to their spread.

    .. math:: \Bigl(\sum_i \langle w_i, \bar w_i \rangle / \operatorname{tr} G\Bigr)^{1/2}

    Here w are the other coordinates of the unfolded points, and the mean is that of a point's neighbors. It is zero for
    a sheet that lies flat. Noise differs from neighbor to neighbor and does not count, a bend of the sheet does.
    """
    beyond, total = spectrum.scaled(0.5)[:, n_components:], float(spectrum.values.sum())
    joined = csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(graph.n_points, graph.n_points))
    means = (joined @ beyond) / np.maximum(graph.degrees, 1)[:, None]
    return float(np.sqrt(max(0.0, float((beyond * means).sum())) / total)) if total > 0 else 0.0


def with_bend(embedding: Embedding, sample: Sample, run: Run) -> Embedding:
    """Return the embedding of a surface with its bend, and advice if that is too large and there is no other.

    Distances between neighbors are kept in all dimensions: if the unfolded sheet leaves the layout, this shortens them.
    """
    n_components, spectrum = embedding.coordinates.shape[1], embedding.spectrum
    if spectrum is None or sample.targets is not None or run.stopped or not is_surface(sample, n_components):
        return embedding
    size, advice = bend(sample.graph, spectrum, n_components), embedding.notes.get("advice", ())
    if size > MAX_BEND and not (advice or embedding.notes.get("surface_advice")):
        advice = (
            f"The unfolded points do not lie flat: they bend away from the layout by {size:.0%} of their spread, "
            "so its distances are too short. Neighbors across a gap may hold the surface together (lower n_neighbors), "
            "or it is curved in every direction. IPA leaves out such neighbors.",
        )
    return replace(embedding, notes={**embedding.notes, "bend": size, "advice": advice})


def with_path_error(
    embedding: Embedding, sample: Sample, run: Run, limit: float = MAX_PATH_ERROR, instead: str = "IPA"
) -> Embedding:
    """Return the embedding of a surface with the error of its distances along the data, and advice if it is too large.

    Other data, and distances that targets change, are left alone. Other advice says why.
    """
    n, n_components = embedding.coordinates.shape
    if sample.targets is not None or n_components > MAX_STRAIGHT_DIMENSION or not is_surface(sample, n_components):
        return embedding
    error, advice = path_error(sample.graph, embedding.coordinates, run), embedding.notes.get("advice", ())
    if error > limit * max(1.0, (DENSE_POINTS / n) ** 0.5) and not (advice or embedding.notes.get("surface_advice")):
        advice = (
            f"The layout changes the distances along the data by {error:.0%} (root mean square): the data has a hole, "
            f"a concave outline or short circuits, or cannot be laid flat. Use {instead}, which does not need them.",
        )
    return replace(embedding, notes={**embedding.notes, "path_error": error, "advice": advice})
