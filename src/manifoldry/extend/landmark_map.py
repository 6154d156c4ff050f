"""A kernel map of new points, fitted to a sample through landmarks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manifoldry.extend.kernel_image import ShiftedProjection, fit_kernel_map
from manifoldry.extend.kernel_projection import Kernel
from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.values import FloatArray

MAP_POINTS_PER_LANDMARK = 10
"""Points per landmark to which the map is fitted: it is smooth, and more change it by less than its error."""

AUTO_SIGMA_RATIO = 3.0
"""Sigma of an automatic rbf kernel, gamma = 1/sigma^2, over the mean distance between neighboring landmarks."""


def fit_landmark_map(
    X: FloatArray, Y: FloatArray, kernel: Kernel, gamma: float | None, n_landmarks: int, reg: float | None, run: Run
) -> tuple[ShiftedProjection, float, float]:
    """Return the map (3.22) of new points, fitted to a sample, its error, and its ``reg``.

    Without a ``gamma`` that of an rbf kernel is from the distances of landmarks, and that of others is 1. Without a
    ``reg`` it is that of least error at points left out.
    """
    drawn = run.rng("landmarks of the map").permutation(len(X))
    rows = np.sort(drawn[: MAP_POINTS_PER_LANDMARK * n_landmarks])
    origin = X.mean(axis=0) if isinstance(kernel.rule, str) else np.zeros(X.shape[1])
    points, landmarks = X[rows] - origin, X[np.sort(drawn[:n_landmarks])] - origin
    if gamma is None:
        gamma = 1.0
        if kernel.rule == "rbf":
            near = neighbor_graph(landmarks, NeighborRule("auto").resolve(len(landmarks)), run)[0]
            gamma = 1.0 / (AUTO_SIGMA_RATIO * float(near.lengths.mean()) or 1.0) ** 2
    projection, error, reg = fit_kernel_map(points, Y[rows], replace(kernel, gamma=gamma), landmarks, reg, run)
    return ShiftedProjection(origin, projection), error, reg
