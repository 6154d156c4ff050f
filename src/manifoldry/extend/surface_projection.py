"""Projection onto a fitted surface: the nearest of its points, by damped descent from the nearest candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.geometry.neighborhoods import dense
from manifoldry.run import Run
from manifoldry.solve.thin_plate import ThinPlate
from manifoldry.values import Array, FloatArray

PROJECTION_BLOCK = 1_000_000
"""Pairs of points and knots, or of points and candidates, held at a time."""

MAX_CANDIDATES = 2000
"""Places from which the projection of a point may start."""

MAX_PROJECTION_STEPS = 50
"""Steps of one projection: about ten, more where a point is as far away as its radius of curvature."""

PROJECTION_TOL = 1e-12
"""Step, relative to the unit of the coordinates, below which a point has arrived."""

FIRST_DAMPING, MORE_DAMPING, LESS_DAMPING = 1e-3, 10.0, 0.2
"""Damping of the first step relative to the squared slopes, and its factors after steps that fail and succeed."""


@dataclass(frozen=True)
class SurfaceProjection:
    """New points to the coordinates of the nearest point of a surface about ``origin``.

    Among ``candidates`` (k, d) the one with the nearest point is where the descent begins.
    """

    surface: ThinPlate
    candidates: FloatArray
    origin: FloatArray

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        surface, basis = self.surface.compressed()
        n, d = X.shape[0], self.candidates.shape[1]
        placed, images = np.empty((n, d)), surface.at(self.candidates)
        squares = np.square(images).sum(axis=1)

        def block(lo: int, hi: int) -> None:
            rows = (dense(X[lo:hi]) - self.origin) @ basis
            nearest = (squares - 2 * (rows @ images.T)).argmin(axis=1)
            placed[lo:hi] = descend(surface, rows, self.candidates[nearest], MAX_PROJECTION_STEPS)

        wide = max(len(self.candidates), len(surface.knots) * (d + 1), X.shape[1])
        run.map(block, run.ranges(n, max(1, PROJECTION_BLOCK // wide)), blas=True)
        return placed


@dataclass(frozen=True)
class SurfacePoint:
    """Coordinates to points of a surface about ``origin``."""

    surface: ThinPlate
    origin: FloatArray

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points of given coordinates."""
        places, found = np.asarray(Y, dtype=np.float64), np.empty((len(Y), len(self.origin)))
        for lo, hi in run.ranges(len(places), max(1, PROJECTION_BLOCK // len(self.surface.knots))):
            found[lo:hi] = self.surface.at(places[lo:hi]) + self.origin
        return found


def descend(surface: ThinPlate, X: FloatArray, t: FloatArray, n_steps: int) -> FloatArray:
    """Return coordinates (n, d) whose points are no farther from the rows X than those of ``t``, nearest as a rule.

    Newton's steps, or those of Gauss and Newton beyond a center of curvature, damped as by Levenberg and Marquardt: one
    that leads away is not taken.
    """
    t, d = t.copy(), t.shape[1]
    active, damping = np.arange(len(t)), np.full(len(t), FIRST_DAMPING)
    values = np.square(X - surface.at(t)).sum(axis=1)
    for _ in range(n_steps):
        if not len(active):
            break
        slopes, residuals = surface.slopes(t[active]), X[active] - surface.at(t[active])
        forces = np.einsum("ndp,np->nd", slopes, residuals)
        squares = slopes @ slopes.transpose(0, 2, 1)
        newton = squares - surface.curvatures(t[active], residuals)
        convex = np.linalg.eigvalsh(newton)[:, 0] > 0
        sizes = np.maximum(np.einsum("ndd->n", squares), np.finfo(float).tiny)
        hessians = np.where(convex[:, None, None], newton, squares)
        hessians = hessians + (damping[active] * sizes)[:, None, None] * np.eye(d)
        steps = np.linalg.solve(hessians, forces[:, :, None])[:, :, 0]
        found = np.square(X[active] - surface.at(t[active] + steps)).sum(axis=1)
        better = found < values[active]
        moved = active[better]
        t[moved] += steps[better]
        values[moved] = found[better]
        damping[active] *= np.where(better, LESS_DAMPING, MORE_DAMPING)
        active = active[np.abs(steps).max(axis=1) > PROJECTION_TOL * surface.unit]
    return t
