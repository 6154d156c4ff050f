"""Semidefinite programs over frames and shifts in low rank, with a proof of how far from the optimum a solution is."""

from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.solve.semidefinite.barrier_path import Stretched, StretchOptions, stretch_out
from manifoldry.solve.semidefinite.forms import PairStretch, Stretch, Variance
from manifoldry.solve.semidefinite.frames import FrameLayout
from manifoldry.solve.semidefinite.lagrangian import AugmentedLagrangian, DistanceConstraints
from manifoldry.solve.semidefinite.pairs import PairDistances
from manifoldry.solve.semidefinite.staircase import Placement, place, spectral_start

__all__ = [
    "AugmentedLagrangian",
    "Bands",
    "DistanceConstraints",
    "FrameLayout",
    "PairDistances",
    "PairStretch",
    "Placement",
    "Stretch",
    "StretchOptions",
    "Stretched",
    "Variance",
    "place",
    "spectral_start",
    "stretch_out",
]
