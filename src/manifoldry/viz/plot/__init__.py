"""Pictures by matplotlib: embeddings, their curves, where they can be believed, what they were made of.

Every function returns the axes that it drew on: those given as ``ax``, or those of a new figure. None shows or saves
anything; ``ax.figure.savefig("map.png")`` does. Matplotlib is loaded by the first plot.
"""

from __future__ import annotations

from manifoldry.viz.plot._curves import eigenvalues, residual_variance, rnx, shepard
from manifoldry.viz.plot._maps import compare, distortion, reliability
from manifoldry.viz.plot._patches import charts, graph, patches
from manifoldry.viz.plot._points import scatter, scatter3d

__all__ = [
    "charts",
    "compare",
    "distortion",
    "eigenvalues",
    "graph",
    "patches",
    "reliability",
    "residual_variance",
    "rnx",
    "scatter",
    "scatter3d",
    "shepard",
]
