"""Low-rank semidefinite programs over frames and shifts, with a proof of how far from the optimum a solution is."""

from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.solve.semidefinite.barrier_path import Goal, Stretched, stretch_out
from manifoldry.solve.semidefinite.forms import Pairs, Stretch, Variance
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.lagrangian import Distances, Energy
from manifoldry.solve.semidefinite.staircase import Placement, place, spectral_start

__all__ = [
    "Bands",
    "Distances",
    "Energy",
    "Goal",
    "Layout",
    "Pairs",
    "Placement",
    "Stretch",
    "Stretched",
    "Variance",
    "place",
    "spectral_start",
    "stretch_out",
]
