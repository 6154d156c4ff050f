"""The principal surface: a smooth sheet through the middle of the data, and the coordinates of each point on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from manifoldry._core.parameters import NonNegative, Positive, PositiveInt, Range, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.patches.restarts import shrinkage
from manifoldry._numerics.patches.start import surface_layout
from manifoldry._numerics.scaling import principal_scaling
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._texts import MAX_ITER_TEXT

SURFACE_VARIANCE_TOL = 1e-28  # mean squared distance, relative to the variance, that is rounding
N_ANNEALING_STEPS = 4
"""Iterations from principal components in which the sheet is stiffer, tenfold each: it bends before it buckles."""
N_PROJECTION_STEPS = 10  # steps towards the nearest point of the surface per iteration
MAX_LITTLE_GAIN = 0.1  # share of the error of principal components that a surface must save to be useful
MAX_SHEET_SHRINKAGE, MAX_SHEET_RESIDUAL = 0.007, 0.05
"""Maximum mean share by which pairs of points are closer on an unrolled sheet, and the unexplained variance up to which
it is measured. On eleven surfaces unrolled ones have up to 0.006, folded or closed ones 0.02 to 0.16."""


@register(
    family="curve",
    problem="alternation",
    papers=("hastie1989", "leblanc1994", "chang2001", "duchon1977"),
    gives=("transform", "inverse", "trace"),
    keeps="coordinates on one bent sheet, which is nearer to the points than any plane",
    loses="everything across the sheet; lengths along it where it is bent, unless it was unrolled at the start",
    use_when="the data is a sheet or a curve with noise, and points on it are needed: to denoise or to fill in",
    fails_when="the sheet closes or crosses itself, or is rolled up and too noisy for patches to unroll it",
    cost="O(n knots (knots + features)) per step, about twenty steps: 2,000 points in 3 s",
    test_params={"n_components": 2, "n_knots": 9, "init": "pca", "max_iter": 5},
)
@estimator
class PrincipalSurface(Embedder):
    r"""Fit one smooth sheet or curve to noisy data, to denoise points or to fill in new ones on it.

    Every point of a principal surface is the smoothed mean of the data that project onto it:

    .. math:: f(t) = E\left( x \mid t_f(x) = t \right), \qquad t_f(x) = \operatorname{argmin}_t |x - f(t)|

    Two steps alternate: smooth the points against their coordinates t with a thin-plate spline; and project the points
    onto it. Both lower one objective,

    .. math:: \frac{1}{n} \sum_i |x_i - f(t_i)|^2 + \alpha\, J(f),

    with the bending energy J, so that it never rises. As planes have J = 0, a sheet that starts from principal
    components is never farther from the points than their plane.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates on the sheet, in the units of the data: those of the start, moved as far as projections require.
    trace_ : Trace
        The objective: of the plane of principal components if they are the start, and after every iteration.
    reconstruction_error_ : float
        Mean squared distance of the points to the sheet.
    diagnostics_ : dict
        Seconds, ``distances`` of the points to the sheet, ``init``: the start that was used; ``unexplained``: the error
        as a share of the variance, and ``pca_unexplained`` that of principal components; ``self_consistency``: root
        mean square distance of f from the smoothed mean at the final coordinates, relative to the spread of the data;
        ``shrinkage``: mean share by which pairs of points are closer together on the sheet than in the data, where it
        leaves at most 5 % of the variance unexplained.

    See Also
    --------
    PrincipalCurve : a curve by local lines.
    IPA : unrolls a sheet without fitting it.
    Autoencoder : a bent surface by a neural network.

    Notes
    -----
    Data of more dimensions becomes a crumpled sheet: fitted to half of the digits in two dimensions, it leaves 30 % of
    the variance of the other half unexplained (PCA 72 %), and 5 neighbors on the sheet classify 95 % of them correctly.
    Distances on such a sheet mean nothing beyond neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import PrincipalSurface
    >>> rng = np.random.default_rng(0)
    >>> angle, height = rng.uniform(0, 3, 200), rng.uniform(0, 2, 200)
    >>> model = PrincipalSurface(n_knots=25).fit(np.column_stack([np.cos(angle), np.sin(angle), height]))
    >>> model.diagnostics_["unexplained"] < 0.1 * model.diagnostics_["pca_unexplained"]
    True
    """

    n_components: Literal[1, 2, 3] = parameter("Dimension d of the sheet.", default=2, kw_only=False)
    smoothing: Positive = parameter(
        r"Factor :math:`\alpha` of the bending energy, in which lengths along the sheet are in units of their root "
        "mean square: larger values give flatter sheets.",
        default=1e-3,
    )
    n_knots: Annotated[int, Range(4)] = parameter(
        "Approximate number of knots of the spline; they lie on a lattice.", default=100
    )
    init: Literal["auto", "pca"] = parameter(
        'Coordinates at the start: with "pca" those of principal components, from which the sheet bends while its '
        'stiffness decreases tenfold in each of four steps; with "auto" those of aligned patches as in `IPA` if the '
        'data is a flat surface, otherwise "pca".',
        default="auto",
    )
    max_iter: PositiveInt = parameter(MAX_ITER_TEXT, default=50)
    tol: NonNegative = parameter(
        "The iteration stops when the objective decreases by less than this share.", default=0.005
    )

    reconstruction_error_: float = fitted()

    _invertible = True

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        origin = rows.mean(axis=0)
        rows = rows - origin
        scores, plane = self._plane(rows, run)
        (start, agreed), init = self._start(rows, scores, run), "ipa"
        with run.stage("surface"), run.stoppable():
            if start is not None:
                surface, t, trace = self._alternate(rows, start, None, run)
            if start is None or _error(rows, surface, t) > plane:
                surface, t, trace = self._alternate(rows, scores, plane, run)
                init = "pca"
        with run.stage("projection"):
            extension = SurfaceProjection(surface, t[:: -(-len(t) // MAX_CANDIDATES)], origin)
            coordinates = extension(rows + origin, run)
        distances = np.linalg.norm(rows - surface.at(coordinates), axis=1)
        variance = float(rows.var(axis=0).sum())
        error = float(np.square(distances).mean())
        shrunk = shrinkage(rows, coordinates, run) if error <= MAX_SHEET_RESIDUAL * variance else 0.0
        return Embedding(
            coordinates,
            trace=trace,
            extension=extension,
            inverse=SurfacePoint(surface, origin),
            notes={
                "distances": distances,
                "init": init,
                "unexplained": error / variance,
                "pca_unexplained": plane / variance,
                "self_consistency": self._inconsistency(rows, surface, coordinates) / np.sqrt(variance),
                "shrinkage": shrunk,
                "advice": (*_gain_advice(error, plane, variance), *_fold_advice(shrunk, agreed or init == "pca")),
            },
            fitted={"reconstruction_error_": error},
        )

    def _plane(self, rows: FloatArray, run: Run) -> tuple[FloatArray, float]:
        """Return principal scores (n, d), and the mean squared distance of the points from their plane."""
        d = min(self.n_components, *rows.shape)
        scaling, directions = principal_scaling(rows, d, run)
        scores = scaling.coordinates
        error = float(np.square(rows - scores @ directions.T).sum(axis=1).mean())
        return np.pad(scores, ((0, 0), (0, self.n_components - d))), error

    def _start(self, rows: FloatArray, scores: FloatArray, run: Run) -> tuple[FloatArray | None, bool]:
        """Return coordinates by patches, None unless the data is a curved surface, and whether the patches agree."""
        if self.init == "pca" or np.square(scores).sum() >= (1 - SURFACE_VARIANCE_TOL**0.5) * np.square(rows).sum():
            return None, True
        return surface_layout(rows, self.n_components, run, only_surfaces=True)

    def _alternate(
        self, X: FloatArray, t: FloatArray, plane: float | None, run: Run
    ) -> tuple[ThinPlate, FloatArray, Trace]:
        """Smooth and project in turn; ``plane`` is the error of a start with principal components, which anneals."""
        problem = PlateProblem.over(t, self.n_knots)
        n_softening = 0 if plane is None else N_ANNEALING_STEPS
        rounding = SURFACE_VARIANCE_TOL * float(X.var(axis=0).sum())
        surface = problem.fit(X, t, self.smoothing * 10.0**n_softening)
        objective = [self._objective(X, surface, t, n_softening) if plane is None else plane]
        stop = Stop.CONVERGED if objective[0] <= rounding else Stop.LIMIT
        while stop is Stop.LIMIT and len(objective) <= self.max_iter:
            left = max(0, n_softening - len(objective) + 1)
            smoothed = problem.fit(X, t, self.smoothing * 10.0**left)
            moved = _projected(X, smoothed, t)
            reached = self._objective(X, smoothed, moved, left)
            if reached < objective[-1]:
                surface, t = smoothed, moved
            objective.append(min(reached, objective[-1]))
            little = objective[-2] - objective[-1] <= self.tol * objective[-2]
            if (left == 0 and little) or objective[-1] <= rounding:
                stop = Stop.CONVERGED
            elif not run.step(len(objective) - 1, self.max_iter):
                stop = Stop.ASKED
        return surface, t, Trace(np.array(objective), stop)

    def _objective(self, X: FloatArray, surface: ThinPlate, t: FloatArray, softening: int) -> float:
        return _error(X, surface, t) + self.smoothing * 10.0**softening * surface.bending()

    def _inconsistency(self, X: FloatArray, surface: ThinPlate, t: FloatArray) -> float:
        """Return the root mean square distance of the surface from the smoothed mean at the same coordinates."""
        again = PlateProblem.on(surface.knots, surface.unit).fit(X, t, self.smoothing)
        return float(np.sqrt(np.square(again.at(t) - surface.at(t)).sum(axis=1).mean()))


def _error(X: FloatArray, surface: ThinPlate, t: FloatArray) -> float:
    """Return the mean squared distance of the points to those of the surface at their coordinates."""
    return float(np.square(X - surface.at(t)).sum(axis=1).mean())


def _projected(X: FloatArray, surface: ThinPlate, t: FloatArray) -> FloatArray:
    """Return coordinates closer to the points, from the present ones or those of other points if they are closer."""
    flat, basis = surface.compressed()
    rows, images = X @ basis, flat.at(t)
    starts = t.copy()
    squares = np.square(images).sum(axis=1)
    step = -(-len(X) // MAX_CANDIDATES)
    for lo in range(0, len(X), MAX_CANDIDATES):
        block = slice(lo, lo + MAX_CANDIDATES)
        others = squares[::step] - 2 * (rows[block] @ images[::step].T)
        present = squares[block] - 2 * np.einsum("nq,nq->n", rows[block], images[block])
        nearest = others.argmin(axis=1)
        better = others[np.arange(len(present)), nearest] < present
        starts[block] = np.where(better[:, None], t[::step][nearest], t[block])
    return descend(flat, rows, starts, N_PROJECTION_STEPS)


def _gain_advice(error: float, plane: float, variance: float) -> tuple[str, ...]:
    """Return a sentence if the sheet explains hardly more than a plane."""
    if plane <= SURFACE_VARIANCE_TOL**0.5 * variance or error <= (1 - MAX_LITTLE_GAIN) * plane:
        return ()
    return (
        f"The sheet leaves {error / variance:.0%} of the variance unexplained and the plane of principal components "
        f"{plane / variance:.0%}: it is hardly bent, and PCA does as well.",
    )


def _fold_advice(shrunk: float, agreed: bool) -> tuple[str, ...]:
    """Return a sentence if the coordinates are not those of an unrolled sheet."""
    if shrunk > MAX_SHEET_SHRINKAGE:
        return (
            f"The sheet passes through the points, but its coordinates are not unrolled: pairs of points are "
            f"{shrunk:.0%} closer together than in the data on average. Distances and neighbors on the sheet are not "
            "those along the surface; try IPA, or more points.",
        )
    if not agreed:
        return (
            "The patches that the sheet began with do not agree with each other, so distances on it are not those "
            "along the surface: it is curved in every direction, or neighbors are joined across a gap.",
        )
    return ()


# Thin-plate splines: over d coordinates a surface is an affine map and a combination of the kernels of a bent plate,
# f(t) = A' [1, t] + sum_j w_j phi(|t - c_j|) with sum_j w_j = 0, sum_j w_j c_j = 0. Its bending energy is, up to a
# factor, tr w' Phi w, which is zero only for planes (duchon1977).

MAX_PLATE_DIMENSION = 3
"""Maximum number of coordinates for which the bending energy bounds a surface (duchon1977): 2 m > d with m = 2."""
PLATE_RANK_TOL = 1e-10  # singular values below this share of the largest are rounding


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
        offsets = (t[:, None] - self.knots) / self.unit
        rates = _kernel_rates(np.linalg.norm(offsets, axis=2), t.shape[1])
        curved = np.matmul((offsets * rates[:, :, None]).transpose(0, 2, 1), self.weights)
        return (curved + self.affine[1:]) / self.unit

    def curvatures(self, t: FloatArray, residuals: FloatArray) -> FloatArray:
        """Return the second derivatives (n, d, d) of the points by the coordinates, along residuals (n, p)."""
        d, offsets = t.shape[1], (t[:, None] - self.knots) / self.unit
        r = np.linalg.norm(offsets, axis=2)
        along = residuals @ self.weights.T
        curved = np.matmul((offsets * (along * _kernel_bends(r, d))[:, :, None]).transpose(0, 2, 1), offsets)
        return (curved + (along * _kernel_rates(r, d)).sum(axis=1)[:, None, None] * np.eye(d)) / self.unit**2

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
    """The knots of a surface and its unit, and combinations (m, k) of kernels without affine part: ``modes``.

    Modes have unit bending energy and are orthogonal in it.
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
        bends = energies > PLATE_RANK_TOL * energies.max(initial=0.0)
        return cls(knots, unit, free @ (turns[:, bends] / np.sqrt(energies[bends])))

    def fit(self, X: FloatArray, t: FloatArray, smoothing: float) -> ThinPlate:
        r"""Return the minimizer of :math:`\frac1n \sum_i |x_i - f(t_i)|^2` plus ``smoothing`` times the bending."""
        n, k = len(X), self.modes.shape[1]
        features = _features(t, self.knots, self.unit)
        m = len(self.knots)
        rows = np.column_stack([features[:, :m] @ self.modes, features[:, m:]]) / np.sqrt(n)
        penalty = np.sqrt(smoothing) * np.eye(k, rows.shape[1])
        targets = np.concatenate([X / np.sqrt(n), np.zeros((k, X.shape[1]))])
        solution = np.linalg.lstsq(np.concatenate([rows, penalty]), targets, rcond=None)[0]
        return ThinPlate(self.knots, self.unit, self.modes @ solution[:k], solution[k:])


def lattice(t: FloatArray, n_knots: int) -> FloatArray:
    """Return about ``n_knots`` points of a lattice over the box of coordinates (n, d), within a step of them."""
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
    return np.asarray(knots[cdist(knots, t, "chebyshev").min(axis=1) <= step * (1 + PLATE_RANK_TOL)])


def _features(t: FloatArray, knots: FloatArray, unit: float) -> FloatArray:
    """Return kernels at the knots, and 1 and the coordinates, in columns."""
    return np.column_stack([_kernel(cdist(t, knots) / unit, t.shape[1]), np.ones(len(t)), t / unit])


def _kernel(r: FloatArray, d: int) -> FloatArray:
    """Return the kernel of d coordinates: r^3, r^2 log r or -r, each positive definite up to affine functions."""
    if d == 1:
        return r**3
    if d == MAX_PLATE_DIMENSION:
        return -r
    return r**2 * np.log(np.maximum(r, np.finfo(float).tiny))


def _kernel_rates(r: FloatArray, d: int) -> FloatArray:
    """Return the derivative of the kernel divided by r; its limit, or 0 where it has none, at r = 0."""
    if d == 1:
        return 3.0 * r
    positive = np.where(r > 0, r, 1.0)
    if d == MAX_PLATE_DIMENSION:
        return np.where(r > 0, -1.0 / positive, 0.0)
    return np.where(r > 0, 2.0 * np.log(positive) + 1.0, 0.0)


def _kernel_bends(r: FloatArray, d: int) -> FloatArray:
    """Return the derivative of `_kernel_rates` divided by r, 0 at r = 0."""
    positive = np.where(r > 0, r, 1.0)
    return np.where(r > 0, {1: 3.0, 2: 2.0, 3: 1.0}[d] / positive**d, 0.0)


PROJECTION_BLOCK = 1_000_000  # pairs of points and knots, or of points and candidates, in memory at a time
MAX_CANDIDATES = 2000  # maximum number of coordinates from which the projection of a point may start
MAX_PROJECTION_STEPS = 50  # maximum number of steps of one projection; about ten are usual
PROJECTION_TOL = 1e-12  # step, relative to the unit of the coordinates, below which a point has converged
FIRST_DAMPING, MORE_DAMPING, LESS_DAMPING = 1e-3, 10.0, 0.2
"""Damping of the first step relative to the squared slopes, and its factors after steps that fail and succeed."""


@dataclass(frozen=True)
class SurfaceProjection:
    """New points to the coordinates of the nearest point of a surface about ``origin``.

    The descent begins at the one of ``candidates`` (k, d) with the nearest point.
    """

    surface: ThinPlate
    candidates: FloatArray
    origin: FloatArray

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        surface, basis = self.surface.compressed()
        n, d = X.shape[0], self.candidates.shape[1]
        coordinates, images = np.empty((n, d)), surface.at(self.candidates)
        squares = np.square(images).sum(axis=1)

        def block(lo: int, hi: int) -> None:
            rows = (dense(X[lo:hi]) - self.origin) @ basis
            nearest = (squares - 2 * (rows @ images.T)).argmin(axis=1)
            coordinates[lo:hi] = descend(surface, rows, self.candidates[nearest], MAX_PROJECTION_STEPS)

        wide = max(len(self.candidates), len(surface.knots) * (d + 1), X.shape[1])
        run.map(block, run.ranges(n, max(1, PROJECTION_BLOCK // wide)), blas=True)
        return coordinates


@dataclass(frozen=True)
class SurfacePoint:
    """Coordinates to points of a surface about ``origin``."""

    surface: ThinPlate
    origin: FloatArray

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points of given coordinates."""
        coordinates, points = np.asarray(Y, dtype=np.float64), np.empty((len(Y), len(self.origin)))
        for lo, hi in run.ranges(len(points), max(1, PROJECTION_BLOCK // len(self.surface.knots))):
            points[lo:hi] = self.surface.at(coordinates[lo:hi]) + self.origin
        return points


def descend(surface: ThinPlate, X: FloatArray, t: FloatArray, n_steps: int) -> FloatArray:
    """Return coordinates (n, d) of the points nearest to the rows X, usually, and never farther than those of ``t``."""
    # Damped Newton steps, or Gauss-Newton steps beyond a center of curvature (Levenberg-Marquardt).
    t, d = t.copy(), t.shape[1]
    active, damping = np.arange(len(t)), np.full(len(t), FIRST_DAMPING)
    values = np.square(X - surface.at(t)).sum(axis=1)
    # Near the minimum a step changes less than rounding does, and it still makes the coordinates more accurate.
    rounding = 4 * np.finfo(float).eps * np.square(X).sum(axis=1)
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
        trial = np.square(X[active] - surface.at(t[active] + steps)).sum(axis=1)
        better = trial < values[active] + rounding[active]
        moved = active[better]
        t[moved] += steps[better]
        values[moved] = trial[better]
        damping[active] *= np.where(better, LESS_DAMPING, MORE_DAMPING)
        active = active[np.abs(steps).max(axis=1) > PROJECTION_TOL * surface.unit]
    return t
