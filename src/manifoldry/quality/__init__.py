"""Quality of embeddings, by ranks, distances and known coordinates, and of clusterings."""

from __future__ import annotations

from typing import Any

from manifoldry import check
from manifoldry.neighbors.pairwise import as_pair, sample_rows
from manifoldry.quality.beside import MEANINGS, Score, principal_components
from manifoldry.quality.clusters import nmi, nonlocalized, purity, subspace_error
from manifoldry.quality.coranking import (
    LocalGlobal,
    coranking_matrix,
    lcmc,
    local_global_quality,
    q_nx,
    r_nx,
    r_nx_auc,
)
from manifoldry.quality.density import density_preservation
from manifoldry.quality.distances import (
    distance_deviation,
    distance_error,
    graph_distance_error,
    pair_error,
    scale_and_deviation,
    scaled_distance_error,
    stretch,
)
from manifoldry.quality.fit import FITS, Procrustes, procrustes
from manifoldry.quality.layout import Crowding, RuledAxis, crowding, distinct_places, ruled_axes
from manifoldry.quality.neighborhoods import continuity, knn_error, knn_kept, mrre, trustworthiness
from manifoldry.quality.ranks import RankMeasures, measures_of, neighbor_ranks, rank_measures, require_below_half
from manifoldry.quality.shepard import GeodesicCorrelation, Shepard, geodesic_correlation, shepard
from manifoldry.quality.stress import nonmetric_stress_1, normalized_stress, raw_stress, sammon_stress, stress_1
from manifoldry.quality.triplets import triplet_accuracy
from manifoldry.solve.spectrum import residual_variance

__all__ = [
    "Crowding",
    "GeodesicCorrelation",
    "LocalGlobal",
    "Procrustes",
    "RankMeasures",
    "RuledAxis",
    "Score",
    "Shepard",
    "continuity",
    "coranking_matrix",
    "crowding",
    "density_preservation",
    "distance_deviation",
    "distance_error",
    "distinct_places",
    "geodesic_correlation",
    "graph_distance_error",
    "knn_error",
    "knn_kept",
    "lcmc",
    "local_global_quality",
    "mrre",
    "nmi",
    "nonlocalized",
    "nonmetric_stress_1",
    "normalized_stress",
    "procrustes",
    "purity",
    "q_nx",
    "r_nx",
    "r_nx_auc",
    "rank_measures",
    "raw_stress",
    "residual_variance",
    "ruled_axes",
    "sammon_stress",
    "scaled_distance_error",
    "score",
    "shepard",
    "stress_1",
    "stretch",
    "subspace_error",
    "triplet_accuracy",
    "trustworthiness",
]


RANK_FIGURES = ("trustworthiness", "continuity", "knn_kept", "mrre_x", "mrre_y")
"""The measures of ranks that `score` shows."""


def score(
    X: Any,
    Y: Any,
    *,
    truth: Any = None,
    n_neighbors: int = 15,
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Score:
    """Return the main quality measures of an embedding, and those of PCA beside them; printed, they are a table.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        The data.
    Y : array-like of shape (n, p)
        The embedding.
    truth : array-like of shape (n, q), optional
        Known coordinates; adds the three Procrustes errors, over all points.
    n_neighbors : int
        Number of neighbors, below n / 2.
    sample : int, optional
        Number of points whose neighborhoods are compared, among all n points; None for all points.
    random_state : None, int, numpy Generator or RandomState
        Seed of the sample.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Returns
    -------
    Score
        A dict of str to float. First what can be acted on, whatever the scale of Y: trustworthiness, continuity,
        knn_kept (1 is best), distance_deviation (0 is best) and, with a truth, procrustes_similarity and
        procrustes_affine (0 is best). Then scale, the median ratio of distances to neighbors, and what is only for
        methods that keep the units of X: distance_error, procrustes_rigid (0 is best). Then mrre_x, mrre_y (0 is
        best). Its ``pca`` has the same figures of the first p principal components.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> figures = score(X, X, n_neighbors=5)
    >>> figures["trustworthiness"], round(figures.pca["trustworthiness"], 12)
    (1.0, 1.0)
    """
    X, Y = as_pair(X, Y, "euclidean")
    k = check.integer("n_neighbors", n_neighbors, 1)
    require_below_half(k, len(Y))
    rows = sample_rows(len(Y), sample, random_state)
    baseline = principal_components(X, Y.shape[1])
    ours, pca = (_figures(X, layout, rows, k, truth, n_jobs) for layout in (Y, baseline))
    return Score(ours, pca)


def _figures(X: Any, Y: Any, rows: Any, k: int, truth: Any, n_jobs: int | None) -> dict[str, float]:
    """Return the measures of one embedding in the order in which they are shown."""
    found = neighbor_ranks(X, Y, rows, k, metric="euclidean", n_jobs=n_jobs)
    measures = measures_of(found, k, len(Y))
    pairs = rows.repeat(k), found.x_neighbors.ravel(), found.x_lengths.ravel()
    figures: dict[str, float] = {name: getattr(measures, name) for name in RANK_FIGURES}
    figures["scale"], figures["distance_deviation"] = scale_and_deviation(Y, *pairs)
    figures["distance_error"] = pair_error(Y, *pairs)
    if truth is not None:
        figures |= {f"procrustes_{kind}": procrustes(Y, truth, kind=kind).error for kind in FITS}
    return {name: float(figures[name]) for name in MEANINGS if name in figures}
