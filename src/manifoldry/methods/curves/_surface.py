"""The principal surface: a smooth sheet through the middle of the data, and each point's place on it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from manifoldry._core.parameters import NonNegative, Positive, PositiveInt, Range, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.patches.restarts import shrinkage
from manifoldry._numerics.patches.start import agreed_places
from manifoldry._numerics.scaling import principal_scaling
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._texts import MAX_ITER_TEXT
from manifoldry.methods.curves._thin_plate import (
    MAX_CANDIDATES,
    PlateProblem,
    SurfacePoint,
    SurfaceProjection,
    ThinPlate,
    descend,
)

SURFACE_VARIANCE_TOL = 1e-28
"""Mean squared distance, relative to the variance, that is rounding: the surface passes through all points."""

N_ANNEALING_STEPS = 4
"""Iterations from principal components on in which the sheet is stiffer, tenfold each: it bends before it buckles."""

N_PROJECTION_STEPS = 10
"""Steps towards the nearest point of the surface per iteration; the next goes on where they end."""

MAX_LITTLE_GAIN = 0.1
"""Share of the error of principal components that a surface must save, for it not to be said that they do as well."""

MAX_SHEET_SHRINKAGE, MAX_SHEET_RESIDUAL = 0.007, 0.05
"""Mean share by which pairs of points are closer together on the sheet than they are, above which a sheet that leaves
no more than the second share of the variance unexplained passes for folded. On eleven surfaces it is up to 0.006 where
they are unrolled, noisy or not, 0.007 to 0.013 on helicoids, 0.02 where a cone is closed, 0.08 on a half globe and 0.16
where a roll is folded."""


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
        Coordinates on the sheet, in the units of the data. They are those of the start, moved only as far as the
        projections require.
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
                surface, places, trace = self._alternate(rows, start, None, run)
            if start is None or _error(rows, surface, places) > plane:
                surface, places, trace = self._alternate(rows, scores, plane, run)
                init = "pca"
        with run.stage("projection"):
            candidates = places[:: -(-len(places) // MAX_CANDIDATES)]
            extension = SurfaceProjection(surface, candidates, origin)
            placed = extension(rows + origin, run)
        away = np.linalg.norm(rows - surface.at(placed), axis=1)
        variance = float(rows.var(axis=0).sum())
        error = float(np.square(away).mean())
        shrunk = shrinkage(rows, placed, run) if error <= MAX_SHEET_RESIDUAL * variance else 0.0
        return Embedding(
            placed,
            trace=trace,
            extension=extension,
            inverse=SurfacePoint(surface, origin),
            notes={
                "distances": away,
                "init": init,
                "unexplained": error / variance,
                "pca_unexplained": plane / variance,
                "self_consistency": self._inconsistency(rows, surface, placed) / np.sqrt(variance),
                "shrinkage": shrunk,
                "advice": (*_advice(error, plane, variance), *_bent(shrunk, agreed or init == "pca")),
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
        """Return places by patches, and whether these agree with each other.

        None where they are not asked for, or the data is a plane, or not a flat surface.
        """
        if self.init == "pca" or np.square(scores).sum() >= (1 - SURFACE_VARIANCE_TOL**0.5) * np.square(rows).sum():
            return None, True
        return agreed_places(rows, self.n_components, run, only_surfaces=True) or (None, True)

    def _alternate(
        self, X: FloatArray, places: FloatArray, plane: float | None, run: Run
    ) -> tuple[ThinPlate, FloatArray, Trace]:
        """Smooth and project in turn; ``plane`` is the error of a start with principal components, which anneals."""
        problem = PlateProblem.over(places, self.n_knots)
        n_softening = 0 if plane is None else N_ANNEALING_STEPS
        rounding = SURFACE_VARIANCE_TOL * float(X.var(axis=0).sum())
        surface = problem.fit(X, places, self.smoothing * 10.0**n_softening)
        objective = [self._objective(X, surface, places, n_softening) if plane is None else plane]
        stop = Stop.CONVERGED if objective[0] <= rounding else Stop.LIMIT
        while stop is Stop.LIMIT and len(objective) <= self.max_iter:
            left = max(0, n_softening - len(objective) + 1)
            smoothed = problem.fit(X, places, self.smoothing * 10.0**left)
            moved = _projected(X, smoothed, places)
            reached = self._objective(X, smoothed, moved, left)
            if reached < objective[-1]:
                surface, places = smoothed, moved
            objective.append(min(reached, objective[-1]))
            little = objective[-2] - objective[-1] <= self.tol * objective[-2]
            if (left == 0 and little) or objective[-1] <= rounding:
                stop = Stop.CONVERGED
            elif not run.step(len(objective) - 1, self.max_iter):
                stop = Stop.ASKED
        return surface, places, Trace(np.array(objective), stop)

    def _objective(self, X: FloatArray, surface: ThinPlate, places: FloatArray, softening: int) -> float:
        return _error(X, surface, places) + self.smoothing * 10.0**softening * surface.bending()

    def _inconsistency(self, X: FloatArray, surface: ThinPlate, places: FloatArray) -> float:
        """Return the root mean square distance of the surface from the smoothed mean at the same places."""
        again = PlateProblem.on(surface.knots, surface.unit).fit(X, places, self.smoothing)
        return float(np.sqrt(np.square(again.at(places) - surface.at(places)).sum(axis=1).mean()))


def _error(X: FloatArray, surface: ThinPlate, places: FloatArray) -> float:
    """Return the mean squared distance of the points to the points of the surface at their places."""
    return float(np.square(X - surface.at(places)).sum(axis=1).mean())


def _projected(X: FloatArray, surface: ThinPlate, places: FloatArray) -> FloatArray:
    """Return places nearer to the points, from the present ones or those of other points if they are nearer."""
    flat, basis = surface.compressed()
    rows, images = X @ basis, flat.at(places)
    chosen = places.copy()
    squares = np.square(images).sum(axis=1)
    for lo in range(0, len(X), MAX_CANDIDATES):
        some = slice(lo, lo + MAX_CANDIDATES)
        step = -(-len(X) // MAX_CANDIDATES)
        found = squares[::step] - 2 * (rows[some] @ images[::step].T)
        own = squares[some] - 2 * np.einsum("nq,nq->n", rows[some], images[some])
        nearest = found.argmin(axis=1)
        better = found[np.arange(len(own)), nearest] < own
        chosen[some] = np.where(better[:, None], places[::step][nearest], places[some])
    return descend(flat, rows, chosen, N_PROJECTION_STEPS)


def _advice(error: float, plane: float, variance: float) -> tuple[str, ...]:
    if plane <= SURFACE_VARIANCE_TOL**0.5 * variance or error <= (1 - MAX_LITTLE_GAIN) * plane:
        return ()
    return (
        f"The sheet leaves {error / variance:.0%} of the variance unexplained and the plane of principal components "
        f"{plane / variance:.0%}: it is hardly bent, and PCA does as well.",
    )


def _bent(shrunk: float, agreed: bool) -> tuple[str, ...]:
    """Say that coordinates are not those of an unrolled sheet."""
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
