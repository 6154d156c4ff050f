"""Quality of embeddings, by ranks, distances and known coordinates, and of clusterings."""

from __future__ import annotations

from manifoldry.quality.clusters import nmi, nonlocalized, purity, subspace_error
from manifoldry.quality.distances import (
    distance_deviation,
    distance_error,
    graph_distance_error,
    scaled_distance_error,
    stretch,
)
from manifoldry.quality.fit import Procrustes, procrustes
from manifoldry.quality.labels import label_accuracy, neighborhood_hit, silhouette
from manifoldry.quality.layout import Crowding, RuledAxis, crowding, distinct_places, ruled_axes
from manifoldry.quality.neighborhoods import continuity, knn_error, knn_kept, mrre, trustworthiness
from manifoldry.quality.ranks import RankMeasures, rank_measures
from manifoldry.quality.scoring import score
from manifoldry.quality.table import TABLE, Entry, Score
from manifoldry.solve.spectrum import residual_variance

__all__ = [
    "TABLE",
    "Crowding",
    "Entry",
    "Procrustes",
    "RankMeasures",
    "RuledAxis",
    "Score",
    "continuity",
    "crowding",
    "distance_deviation",
    "distance_error",
    "distinct_places",
    "graph_distance_error",
    "knn_error",
    "knn_kept",
    "label_accuracy",
    "mrre",
    "neighborhood_hit",
    "nmi",
    "nonlocalized",
    "procrustes",
    "purity",
    "rank_measures",
    "residual_variance",
    "ruled_axes",
    "scaled_distance_error",
    "score",
    "silhouette",
    "stretch",
    "subspace_error",
    "trustworthiness",
]
