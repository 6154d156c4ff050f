r"""Thin-plate splines: smooth surfaces over one to three coordinates, fitted by penalized least squares.

Over d coordinates a surface is an affine map and a combination of the kernels that solve the equation of a bent plate,
:math:`f(t) = A^T [1, t] + \sum_j w_j \phi(|t - c_j|)` with :math:`\sum_j w_j = 0,\; \sum_j w_j c_j = 0`. Its bending
energy is, up to a factor, :math:`\operatorname{tr} w^T \Phi w`, which is zero for planes alone. References: duchon1977.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.geometry.neighborhoods import dense

MAX_PLATE_DIMENSION = 3
"""Coordinates over which the bending energy bounds a surface at its points (duchon1977): 2 m > d with m = 2."""

PLATE_RANK_TOL = 1e-10
"""Singular values below this share of the largest are rounding: knots in a line bend in one direction only."""


@dataclass(frozen=True)
class ThinPlate:
    """A surface in p dimensions over d coordinates, with ``knots`` (m, d) and kernels in units of ``unit``.

    ``weights`` (m, p) are those of the kernels, ``affine`` (1 + d, p) the constant and the slopes per ``unit``.
    """

    knots: FloatArray
    unit: float
    weights: FloatArray
    affine: FloatArray

    def at(self, t: FloatArray) -> FloatArray:
        """Return the points (n, p) over coordinates (n, d)."""
        return _features(t, self.knots, self.unit) @ np.concatenate([self.weights, self.affine])

    def slopes(self, t: FloatArray) -> FloatArray:
        """Return the derivatives (n, d, p) of the points by the coordinates."""
        away = (t[:, None] - self.knots) / self.unit
        rates = _kernel_rates(np.linalg.norm(away, axis=2), t.shape[1])
        bent = np.matmul((away * rates[:, :, None]).transpose(0, 2, 1), self.weights)
        return (bent + self.affine[1:]) / self.unit

    def curvatures(self, t: FloatArray, residuals: FloatArray) -> FloatArray:
        """Return the second derivatives (n, d, d) of the points by the coordinates, along residuals (n, p)."""
        d, away = t.shape[1], (t[:, None] - self.knots) / self.unit
        r = np.linalg.norm(away, axis=2)
        along = residuals @ self.weights.T
        bent = np.matmul((away * (along * _kernel_bends(r, d))[:, :, None]).transpose(0, 2, 1), away)
        return (bent + (along * _kernel_rates(r, d)).sum(axis=1)[:, None, None] * np.eye(d)) / self.unit**2

    def bending(self) -> float:
        """Return the bending energy, in squared units of the points."""
        kernels = _kernel(cdist(self.knots, self.knots) / self.unit, self.knots.shape[1])
        return float(np.einsum("jp,jk,kp->", self.weights, kernels, self.weights))

    def compressed(self) -> tuple[ThinPlate, FloatArray]:
        """Return the surface in an orthonormal basis (p, q) of the space that it spans, and this basis."""
        stacked = np.concatenate([self.weights, self.affine])
        basis, triangle = np.linalg.qr(stacked.T)
        m = len(self.knots)
        return replace(self, weights=triangle.T[:m], affine=triangle.T[m:]), basis


@dataclass(frozen=True)
class PlateProblem:
    """The knots of a surface and its unit, and the combinations (m, k) of kernels that affine maps are no part of.

    They are scaled to have unit bending energy and none between each other.
    """

    knots: FloatArray
    unit: float
    modes: FloatArray

    @classmethod
    def over(cls, t: FloatArray, n_knots: int) -> PlateProblem:
        """Return the problem with about ``n_knots`` knots over the box of coordinates (n, d), where points are."""
        unit = float(np.sqrt(np.square(t - t.mean(axis=0)).mean())) or 1.0
        return cls.on(lattice(t, min(n_knots, len(t))), unit)

    @classmethod
    def on(cls, knots: FloatArray, unit: float) -> PlateProblem:
        """Return the problem of given knots."""
        left, values, _ = np.linalg.svd(np.column_stack([np.ones(len(knots)), knots / unit]), full_matrices=True)
        free = left[:, int((values > PLATE_RANK_TOL * values[0]).sum()) :]
        kernels = _kernel(cdist(knots, knots) / unit, knots.shape[1])
        energies, turns = np.linalg.eigh(free.T @ kernels @ free)
        kept = energies > PLATE_RANK_TOL * energies.max(initial=0.0)
        return cls(knots, unit, free @ (turns[:, kept] / np.sqrt(energies[kept])))

    def fit(self, X: FloatArray, t: FloatArray, smoothing: float) -> ThinPlate:
        r"""Return the minimizer of :math:`\frac1n \sum_i |x_i - f(t_i)|^2` plus ``smoothing`` times the bending energy.

        As one least-squares problem, the penalty as further rows.
        """
        n, k = len(X), self.modes.shape[1]
        features = _features(t, self.knots, self.unit)
        m = len(self.knots)
        rows = np.column_stack([features[:, :m] @ self.modes, features[:, m:]]) / np.sqrt(n)
        penalty = np.sqrt(smoothing) * np.eye(k, rows.shape[1])
        targets = np.concatenate([X / np.sqrt(n), np.zeros((k, X.shape[1]))])
        found = np.linalg.lstsq(np.concatenate([rows, penalty]), targets, rcond=None)[0]
        return ThinPlate(self.knots, self.unit, self.modes @ found[:k], found[k:])


def lattice(t: FloatArray, n_knots: int) -> FloatArray:
    """Return about ``n_knots`` points of a lattice over the box of coordinates (n, d), within a step of one of these.

    Examples
    --------
    >>> import numpy as np
    >>> lattice(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]]), 6).shape
    (6, 2)
    """
    low, spans = t.min(axis=0), np.ptp(t, axis=0)
    wide = spans > PLATE_RANK_TOL * spans.max()
    step = float(spans.max()) or 1.0
    counts: IntArray = np.ones(len(spans), dtype=np.int64)
    for _ in range(n_knots):  # the step that gives so many
        counts = np.where(wide, np.ceil(spans / step - PLATE_RANK_TOL).astype(np.int64) + 1, 1)
        if counts.prod() >= n_knots:
            break
        step *= 0.9
    axes = [low[a] + spans[a] * np.linspace(0.0, 1.0, counts[a]) for a in range(len(spans))]
    knots = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(spans))
    near = cdist(knots, t, "chebyshev").min(axis=1) <= step * (1 + PLATE_RANK_TOL)
    return np.asarray(knots[near])


def _features(t: FloatArray, knots: FloatArray, unit: float) -> FloatArray:
    """Return kernels at the knots, and 1 and the coordinates, in columns."""
    return np.column_stack([_kernel(cdist(t, knots) / unit, t.shape[1]), np.ones(len(t)), t / unit])


def _kernel(r: FloatArray, d: int) -> FloatArray:
    """Return the kernel of d coordinates: r^3, r^2 log r or -r, each positive definite beside affine functions."""
    if d == 1:
        return r**3
    if d == MAX_PLATE_DIMENSION:
        return -r
    return r**2 * np.log(np.maximum(r, np.finfo(float).tiny))


def _kernel_rates(r: FloatArray, d: int) -> FloatArray:
    """Return the derivative of the kernel divided by r; its limit, or 0 where it has none, at r = 0."""
    if d == 1:
        return 3.0 * r
    apart = np.where(r > 0, r, 1.0)
    if d == MAX_PLATE_DIMENSION:
        return np.where(r > 0, -1.0 / apart, 0.0)
    return np.where(r > 0, 2.0 * np.log(apart) + 1.0, 0.0)


def _kernel_bends(r: FloatArray, d: int) -> FloatArray:
    """Return the derivative of `_kernel_rates` divided by r, 0 at r = 0."""
    apart = np.where(r > 0, r, 1.0)
    return np.where(r > 0, {1: 3.0, 2: 2.0, 3: 1.0}[d] / apart**d, 0.0)


# Projection onto a fitted surface: the nearest of its points, by damped descent from the nearest candidate.

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
