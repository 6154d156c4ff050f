"""Placing rigid pieces by low-rank semidefinite programming, with a proof of how good the placement is."""

from manifoldry.solve.lowrank.energy import Distances, Energy
from manifoldry.solve.lowrank.layout import Layout
from manifoldry.solve.lowrank.staircase import Placement, place, spectral_start

__all__ = ["Distances", "Energy", "Layout", "Placement", "place", "spectral_start"]
