"""Plots with matplotlib: embeddings, diagnostic curves, reliability, patches and graphs.

Every function returns the axes it has drawn on: those given as ``ax``, or those of a new figure. Nothing is shown or
saved; use ``ax.figure.savefig("map.png")``. Matplotlib is imported by the first plot.
"""

from __future__ import annotations

from manifoldry.viz.plot._curves import eigenvalues, residual_variance, rnx, shepard
from manifoldry.viz.plot._maps import charts, compare, distortion, graph, patches, reliability
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
