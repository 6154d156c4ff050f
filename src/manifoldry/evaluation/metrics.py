"""How good an embedding is; which of its points, refits and clusters can be believed; how good clusterings are."""

from __future__ import annotations

from manifoldry._numerics.elbow import residual_variance
from manifoldry._numerics.ranks import continuity, mrre, trustworthiness
from manifoldry.evaluation._metrics._coranking import coranking_matrix, lcmc, q_nx, r_nx, r_nx_auc
from manifoldry.evaluation._metrics._distances import nonmetric_stress_1, normalized_stress, sammon_stress
from manifoldry.evaluation._metrics._distortion import LocalDistortion, density_preservation, local_distortion
from manifoldry.evaluation._metrics._shepard import Shepard, shepard_diagram, triplet_accuracy
from manifoldry.evaluation._metrics._truth import Procrustes, neighborhood_hit, procrustes, purity, silhouette
from manifoldry.evaluation.reliability._map_continuity import MapContinuity, map_continuity
from manifoldry.evaluation.reliability._null_comparison import NullComparison, null_comparison
from manifoldry.evaluation.reliability._points import Agreement, Reliability, agreement, reliability
from manifoldry.evaluation.reliability._stability import Stability, stability
from manifoldry.evaluation.score._score import score
from manifoldry.evaluation.score._table import TABLE, Score

__all__ = [
    "TABLE",
    "Agreement",
    "LocalDistortion",
    "MapContinuity",
    "NullComparison",
    "Procrustes",
    "Reliability",
    "Score",
    "Shepard",
    "Stability",
    "agreement",
    "continuity",
    "coranking_matrix",
    "density_preservation",
    "lcmc",
    "local_distortion",
    "map_continuity",
    "mrre",
    "neighborhood_hit",
    "nonmetric_stress_1",
    "normalized_stress",
    "null_comparison",
    "procrustes",
    "purity",
    "q_nx",
    "r_nx",
    "r_nx_auc",
    "reliability",
    "residual_variance",
    "sammon_stress",
    "score",
    "shepard_diagram",
    "silhouette",
    "stability",
    "triplet_accuracy",
    "trustworthiness",
]
