"""The dimension of data: estimators with intervals, local and by scale, and a consensus that says why."""

from __future__ import annotations

from manifoldry.dimension.angles import simplex_skewness
from manifoldry.dimension.consensus import Consensus, consensus
from manifoldry.dimension.estimate import DimensionEstimate, UndecidedError
from manifoldry.dimension.likelihood import maximum_likelihood, two_nn
from manifoldry.dimension.linear import local_pca

__all__ = [
    "Consensus",
    "DimensionEstimate",
    "UndecidedError",
    "consensus",
    "local_pca",
    "maximum_likelihood",
    "simplex_skewness",
    "two_nn",
]
