"""Low-rank semidefinite programs over frames and shifts, with a proof of how far from the optimum a solution is.

`place` minimizes a quadratic form of rigid patches; `stretch_out` maximizes the stretch of points or patches whose
distances are kept. Both are solved by the same Newton method on the same unknowns, as factors V of A = V V'.
"""

from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.solve.semidefinite.barrier_path import Stretched, StretchOptions, stretch_out
from manifoldry.solve.semidefinite.forms import PairStretch, Variance
from manifoldry.solve.semidefinite.frames import FrameLayout
from manifoldry.solve.semidefinite.lagrangian import DistanceConstraints
from manifoldry.solve.semidefinite.pairs import PairDistances
from manifoldry.solve.semidefinite.points import unfold_points
from manifoldry.solve.semidefinite.staircase import Placement, place, spectral_start

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
