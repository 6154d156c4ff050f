"""How good an embedding is; which of its points, refits and clusters can be believed; how good clusterings are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manifoldry._numerics.elbow import residual_variance
    from manifoldry._numerics.ranks import RankMeasures, continuity, knn_kept, mrre, rank_measures, trustworthiness
    from manifoldry.evaluation.metrics._coranking import coranking_matrix, lcmc, q_nx, r_nx, r_nx_auc
    from manifoldry.evaluation.metrics._distances import (
        distance_deviation,
        distance_error,
        nonmetric_stress_1,
        normalized_stress,
        sammon_stress,
        stretch,
    )
    from manifoldry.evaluation.metrics._distortion import LocalDistortion, density_preservation, local_distortion
    from manifoldry.evaluation.metrics._labels import (
        label_accuracy,
        neighborhood_hit,
        nmi,
        nonlocalized,
        purity,
        silhouette,
        subspace_error,
    )
    from manifoldry.evaluation.metrics._procrustes import Procrustes, procrustes
    from manifoldry.evaluation.metrics._shepard import (
        GeodesicCorrelation,
        Shepard,
        geodesic_correlation,
        shepard_diagram,
        triplet_accuracy,
    )
    from manifoldry.evaluation.reliability._agreement import Agreement, agreement
    from manifoldry.evaluation.reliability._map_continuity import MapContinuity, map_continuity
    from manifoldry.evaluation.reliability._null_comparison import NullComparison, null_comparison
    from manifoldry.evaluation.reliability._picture_clusters import picture_clusters
    from manifoldry.evaluation.reliability._points import Reliability, reliability
    from manifoldry.evaluation.reliability._stability import Stability, stability
    from manifoldry.evaluation.score._score import score
    from manifoldry.evaluation.score._table import TABLE, Score

__all__ = [
    "TABLE",
    "Agreement",
    "GeodesicCorrelation",
    "LocalDistortion",
    "MapContinuity",
    "NullComparison",
    "Procrustes",
    "RankMeasures",
    "Reliability",
    "Score",
    "Shepard",
    "Stability",
    "agreement",
    "continuity",
    "coranking_matrix",
    "density_preservation",
    "distance_deviation",
    "distance_error",
    "geodesic_correlation",
    "knn_kept",
    "label_accuracy",
    "lcmc",
    "local_distortion",
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
    "reliability",
    "residual_variance",
    "sammon_stress",
    "score",
    "shepard_diagram",
    "silhouette",
    "stability",
    "stretch",
    "subspace_error",
    "triplet_accuracy",
    "trustworthiness",
]

_PLACES = {
    "_numerics.elbow": ("residual_variance",),
    "_numerics.ranks": ("RankMeasures", "continuity", "knn_kept", "mrre", "rank_measures", "trustworthiness"),
    "evaluation.metrics._coranking": ("coranking_matrix", "lcmc", "q_nx", "r_nx", "r_nx_auc"),
    "evaluation.metrics._distances": (
        "distance_deviation",
        "distance_error",
        "nonmetric_stress_1",
        "normalized_stress",
        "sammon_stress",
        "stretch",
    ),
    "evaluation.metrics._distortion": ("LocalDistortion", "density_preservation", "local_distortion"),
    "evaluation.metrics._labels": (
        "label_accuracy",
        "neighborhood_hit",
        "nmi",
        "nonlocalized",
        "purity",
        "silhouette",
        "subspace_error",
    ),
    "evaluation.metrics._procrustes": ("Procrustes", "procrustes"),
    "evaluation.metrics._shepard": (
        "GeodesicCorrelation",
        "Shepard",
        "geodesic_correlation",
        "shepard_diagram",
        "triplet_accuracy",
    ),
    "evaluation.reliability._agreement": ("Agreement", "agreement"),
    "evaluation.reliability._map_continuity": ("MapContinuity", "map_continuity"),
    "evaluation.reliability._null_comparison": ("NullComparison", "null_comparison"),
    "evaluation.reliability._picture_clusters": ("picture_clusters",),
    "evaluation.reliability._points": ("Reliability", "reliability"),
    "evaluation.reliability._stability": ("Stability", "stability"),
    "evaluation.score._score": ("score",),
    "evaluation.score._table": ("TABLE", "Score"),
}
"""Modules below ``manifoldry`` and the public names in them. They are loaded on first use: modules of `score` and of
reliability use the metrics, and importing one of them must not import all others."""


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"manifoldry.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
