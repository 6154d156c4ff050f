"""The dimension of data: estimators with intervals, local and by scale, and a consensus with reasons."""

from __future__ import annotations

from manifoldry.evaluation.dimension._components import local_pca, residual_variance_elbow, simplex_skewness
from manifoldry.evaluation.dimension._consensus import consensus
from manifoldry.evaluation.dimension._likelihood import correlation_dimension, maximum_likelihood, two_nn
from manifoldry.evaluation.dimension._pointwise import DimensionByScale, LocalDimension, by_scale, charts, local
from manifoldry.evaluation.dimension._space import Consensus, DimensionEstimate, UndecidedError

__all__ = [
    "Consensus",
    "DimensionByScale",
    "DimensionEstimate",
    "LocalDimension",
    "UndecidedError",
    "by_scale",
    "charts",
    "consensus",
    "correlation_dimension",
    "local",
    "local_pca",
    "maximum_likelihood",
    "residual_variance_elbow",
    "simplex_skewness",
    "two_nn",
]
