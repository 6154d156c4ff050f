"""How good an embedding is; which of its points, refits and clusters can be believed; how good clusterings are."""

from __future__ import annotations

from manifoldry._numerics.elbow import residual_variance
from manifoldry._numerics.plot_checks import Crowding, RuledAxis, crowding, distinct_places, ruled_axes
from manifoldry._numerics.ranks import (
    RankMeasures,
    continuity,
    knn_error,
    knn_kept,
    mrre,
    rank_measures,
    trustworthiness,
)
from manifoldry.evaluation.metrics._clusters import nmi, nonlocalized, purity, subspace_error
from manifoldry.evaluation.metrics._coranking import (
    LocalGlobal,
    coranking_matrix,
    lcmc,
    local_global_quality,
    q_nx,
    r_nx,
    r_nx_auc,
)
from manifoldry.evaluation.metrics._distances import (
    distance_deviation,
    distance_error,
    graph_distance_error,
    scaled_distance_error,
    stretch,
)
from manifoldry.evaluation.metrics._distortion import LocalDistortion, density_preservation, local_distortion
from manifoldry.evaluation.metrics._labels import label_accuracy, neighborhood_hit, silhouette, triplet_accuracy
from manifoldry.evaluation.metrics._procrustes import Procrustes, procrustes
from manifoldry.evaluation.metrics._shepard import GeodesicCorrelation, Shepard, geodesic_correlation, shepard_diagram
from manifoldry.evaluation.metrics._stress import (
    nonmetric_stress_1,
    normalized_stress,
    raw_stress,
    sammon_stress,
    stress_1,
)
from manifoldry.evaluation.reliability._agreement import Agreement, agreement
from manifoldry.evaluation.reliability._map_continuity import MapContinuity, map_continuity
from manifoldry.evaluation.reliability._null_comparison import NullComparison, null_comparison, structureless
from manifoldry.evaluation.reliability._picture_clusters import picture_clusters
from manifoldry.evaluation.reliability._points import Reliability, reliability
from manifoldry.evaluation.reliability._stability import Stability, stability
from manifoldry.evaluation.score._score import score
from manifoldry.evaluation.score._table import TABLE, Entry, Score

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
