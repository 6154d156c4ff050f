"""Low-rank semidefinite programs over frames and shifts, with a proof of how far from the optimum a solution is.

`place` minimizes a quadratic form of rigid patches; `stretch_out` maximizes the stretch of points or patches with
preserved distances. Both are solved by the same Newton method on the same unknowns, as factors V of A = V V'.
"""

from manifoldry._numerics.semidefinite.barrier_path import Stretched, StretchOptions, stretch_out
from manifoldry._numerics.semidefinite.frames import Bands, FrameLayout, PairStretch, Variance
from manifoldry._numerics.semidefinite.pairs import PairDistances, unfold_points
from manifoldry._numerics.semidefinite.staircase import Placement, place, spectral_start
from manifoldry._numerics.semidefinite.systems import DistanceConstraints

__all__ = [
    "Bands",
    "DistanceConstraints",
    "FrameLayout",
    "PairDistances",
    "PairStretch",
    "Placement",
    "StretchOptions",
    "Stretched",
    "Variance",
    "place",
    "spectral_start",
    "stretch_out",
    "unfold_points",
]
