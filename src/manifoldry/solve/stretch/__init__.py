"""Stretching points whose distances are held, in low-rank form, with a proof of how far from the most it is."""

from manifoldry.solve.stretch.band import Bands
from manifoldry.solve.stretch.forms import Pairs, Stretch, Variance
from manifoldry.solve.stretch.path import Goal, Stretched, stretch_out

__all__ = ["Bands", "Goal", "Pairs", "Stretch", "Stretched", "Variance", "stretch_out"]
