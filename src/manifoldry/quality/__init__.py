"""How good an embedding is; which of its points, refits and clusters can be believed; how good clusterings are."""

from __future__ import annotations

from manifoldry.quality.agreement import Agreement, agreement
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
    scaled_distance_error,
    stretch,
)
from manifoldry.quality.distortion import LocalDistortion, local_distortion
from manifoldry.quality.fit import Procrustes, procrustes
from manifoldry.quality.labels import label_accuracy, neighborhood_hit, silhouette
from manifoldry.quality.layout import Crowding, RuledAxis, crowding, distinct_places, ruled_axes
from manifoldry.quality.map_continuity import MapContinuity, map_continuity
from manifoldry.quality.neighborhoods import continuity, knn_error, knn_kept, mrre, trustworthiness
from manifoldry.quality.null_comparison import NullComparison, null_comparison
from manifoldry.quality.picture_clusters import picture_clusters
from manifoldry.quality.ranks import RankMeasures, rank_measures
from manifoldry.quality.reliability import Reliability, reliability
from manifoldry.quality.scoring import score
from manifoldry.quality.shepard import GeodesicCorrelation, Shepard, geodesic_correlation, shepard_diagram
from manifoldry.quality.stability import Stability, stability
from manifoldry.quality.stress import nonmetric_stress_1, normalized_stress, raw_stress, sammon_stress, stress_1
from manifoldry.quality.structureless import structureless
from manifoldry.quality.table import TABLE, Entry, Score
from manifoldry.quality.triplets import triplet_accuracy
from manifoldry.solve.spectrum import residual_variance

__all__ = [
    "TABLE",
    "Agreement",
    "Crowding",
    "Entry",
    "GeodesicCorrelation",
    "LocalDistortion",
    "LocalGlobal",
    "MapContinuity",
    "NullComparison",
    "Procrustes",
    "RankMeasures",
    "Reliability",
    "RuledAxis",
    "Score",
    "Shepard",
    "Stability",
    "agreement",
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
    "label_accuracy",
    "lcmc",
    "local_distortion",
    "local_global_quality",
    "map_continuity",
    "mrre",
    "neighborhood_hit",
    "nmi",
    "nonlocalized",
    "nonmetric_stress_1",
    "normalized_stress",
    "null_comparison",
    "picture_clusters",
    "procrustes",
    "purity",
    "q_nx",
    "r_nx",
    "r_nx_auc",
    "rank_measures",
    "raw_stress",
    "reliability",
    "residual_variance",
    "ruled_axes",
    "sammon_stress",
    "scaled_distance_error",
    "score",
    "shepard_diagram",
    "silhouette",
    "stability",
    "stress_1",
    "stretch",
    "structureless",
    "subspace_error",
    "triplet_accuracy",
    "trustworthiness",
]
