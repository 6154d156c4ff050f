"""The dimension of data: estimators with intervals, local and by scale, and a consensus that says why."""

from __future__ import annotations

from manifoldry.dimension.angles import simplex_skewness
from manifoldry.dimension.correlation import correlation_dimension
from manifoldry.dimension.elbow import residual_variance_elbow
from manifoldry.dimension.estimate import Consensus, DimensionEstimate, UndecidedError
from manifoldry.dimension.likelihood import maximum_likelihood, two_nn
from manifoldry.dimension.linear import local_pca
from manifoldry.dimension.patchwise import charts
from manifoldry.dimension.pointwise import LocalDimension, local
from manifoldry.dimension.scale import DimensionByScale, by_scale
from manifoldry.dimension.verdict import consensus

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
