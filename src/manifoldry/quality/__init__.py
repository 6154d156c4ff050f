"""Quality of embeddings, by ranks, distances and known coordinates, and of clusterings."""

from __future__ import annotations

from typing import Any

from manifoldry import check
from manifoldry.neighbors.pairwise import as_pair, sample_rows
from manifoldry.quality.clusters import nmi, nonlocalized, purity, subspace_error
from manifoldry.quality.distances import (
    distance_error,
    graph_distance_error,
    pair_error,
    scaled_distance_error,
    stretch,
)
from manifoldry.quality.fit import FITS, Procrustes, procrustes
from manifoldry.quality.layout import Crowding, RuledAxis, crowding, distinct_places, ruled_axes
from manifoldry.quality.neighborhoods import continuity, knn_error, knn_kept, mrre, trustworthiness
from manifoldry.quality.ranks import RankMeasures, measures_of, neighbor_ranks, rank_measures, require_below_half
from manifoldry.solve.spectrum import residual_variance

__all__ = [
    "Crowding",
    "Procrustes",
    "RankMeasures",
    "RuledAxis",
    "continuity",
    "crowding",
    "distance_error",
    "distinct_places",
    "graph_distance_error",
    "knn_error",
    "knn_kept",
    "mrre",
    "nmi",
    "nonlocalized",
    "procrustes",
    "purity",
    "rank_measures",
    "residual_variance",
    "ruled_axes",
    "scaled_distance_error",
    "score",
    "stretch",
    "subspace_error",
    "trustworthiness",
]


def score(
    X: Any,
    Y: Any,
    *,
    truth: Any = None,
    n_neighbors: int = 15,
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> dict[str, float]:
    """Return the main quality measures of an embedding, with one neighbor search for all of them.

    Parameters
    ----------
    X : array-like of shape (n, d)
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
    dict of str to float
        trustworthiness, continuity, knn_kept (1 is best); mrre_x, mrre_y, distance_error and, with a
        truth, procrustes_rigid, procrustes_similarity, procrustes_affine (0 is best).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> score(X, X, n_neighbors=5)["trustworthiness"]
    1.0
    """
    X, Y = as_pair(X, Y, "euclidean")
    k = check.integer("n_neighbors", n_neighbors, 1)
    require_below_half(k, len(X))
    rows = sample_rows(len(X), sample, random_state)
    found = neighbor_ranks(X, Y, rows, k, metric="euclidean", n_jobs=n_jobs)
    measures = measures_of(found, k, len(X))
    names = ("trustworthiness", "continuity", "knn_kept", "mrre_x", "mrre_y")
    figures = {name: float(getattr(measures, name)) for name in names}
    pairs = rows.repeat(k), found.x_neighbors.ravel(), found.x_lengths.ravel()
    figures["distance_error"] = pair_error(Y, *pairs)
    if truth is not None:
        figures |= {f"procrustes_{kind}": procrustes(Y, truth, kind=kind).error for kind in FITS}
    return figures
