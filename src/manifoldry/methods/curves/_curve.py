"""The principal curve: a smooth curve through the middle of the data, and the position of each point along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from manifoldry._core.parameters import NonNegative, PositiveInt, PositiveShare, Range, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.scaling import principal_scaling
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._texts import MAX_ITER_TEXT

CURVE_BLOCK = 1_000_000  # pairs of points and segments, or of points and knots, in memory at a time
MIN_WINDOW_POINTS = 5  # minimum number of points that a local line is fitted to
WINDOW_MARGIN = 1.001
"""Factor by which the window exceeds its farthest point, so that a point alone in it keeps some weight."""
MIN_WINDOW_SHARE = 1e-6
"""Minimum width of a window relative to the length of the curve, if many points share one position."""
KNOT_DISTANCE_TOL = 1e-9  # distance of two knots, relative to the length of the curve, below which they are one
CURVE_VARIANCE_TOL = 1e-28  # mean squared distance, relative to the variance, that is rounding


@dataclass(frozen=True)
class Polyline:
    """A polygonal curve through ``knots`` (m, p), its first and last edges extended to infinity."""

    knots: FloatArray

    def _check_loaded(self) -> None:
        """Raise an error for a curve without an edge."""
        if len(self.knots) < 2:
            raise ValueError("A curve needs two knots.")

    @property
    def lengths(self) -> FloatArray:
        """Arc length from the first knot to each knot."""
        edges = np.linalg.norm(np.diff(self.knots, axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(edges)])

    def project(self, X: Array, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return, for each row, the arc length of the nearest point of the curve and the distance to it."""
        rows = np.asarray(X, dtype=np.float64)
        positions, distances = np.empty(len(rows)), np.empty(len(rows))
        origin = self.knots.mean(axis=0)  # inner products of small vectors keep the digits of small distances
        starts, edges = self.knots[:-1] - origin, np.diff(self.knots, axis=0)
        squares = (edges**2).sum(axis=1)
        lowest, highest = np.zeros(len(edges)), np.ones(len(edges))
        lowest[0], highest[-1] = -np.inf, np.inf
        lengths = self.lengths

        def block(lo: int, hi: int) -> None:
            x = rows[lo:hi] - origin
            along = x @ edges.T - (starts * edges).sum(axis=1)
            share = np.clip(along / squares, lowest, highest)
            gap = (starts**2).sum(axis=1) - 2 * x @ starts.T - 2 * share * along + share**2 * squares
            j = gap.argmin(axis=1)
            t = share[np.arange(len(x)), j]
            distances[lo:hi] = np.linalg.norm(x - starts[j] - t[:, None] * edges[j], axis=1)
            positions[lo:hi] = lengths[j] + t * np.sqrt(squares[j])

        run.map(block, run.ranges(len(rows), max(1, CURVE_BLOCK // len(edges))), blas=True)
        return positions, distances

    def at(self, positions: FloatArray) -> FloatArray:
        """Return the points of the curve at the given arc lengths."""
        lengths = self.lengths
        j = np.clip(np.searchsorted(lengths, positions) - 1, 0, len(lengths) - 2)
        share = (positions - lengths[j]) / (lengths[j + 1] - lengths[j])
        return self.knots[j] + share[:, None] * (self.knots[j + 1] - self.knots[j])


@dataclass(frozen=True)
class CurveProjection:
    """New points to the arc length of a curve about ``origin``."""

    curve: Polyline
    origin: FloatArray

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        return self.curve.project(dense(X) - self.origin, run)[0][:, None]


@dataclass(frozen=True)
class CurvePoint:
    """Arc lengths to points of a curve about ``origin``."""

    curve: Polyline
    origin: FloatArray

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the points of given coordinates."""
        return self.curve.at(np.asarray(Y, dtype=np.float64)[:, 0]) + self.origin


@register(
    family="curve",
    problem="alternation",
    papers=("hastie1989",),
    gives=("transform", "inverse", "trace"),
    keeps="the order of the points along one bent line, and lengths along it",
    loses="everything across the curve",
    use_when="the data follows one open curve with noise: a trajectory, aging, a gradient",
    fails_when="the curve closes, crosses itself or turns more sharply than the span of its smoother",
    cost="O(n p knots) per step, about ten steps",
    test_params={"n_components": 1},
)
@estimator
class PrincipalCurve(Embedder):
    r"""Fit one smooth curve through the middle of the data, for a trajectory or a gradient with noise.

    Every point of the principal curve of Hastie and Stuetzle is the mean of the data that project onto it:

    .. math:: f(\lambda) = E\left( x \mid \lambda_f(x) = \lambda \right)

    Starting from the first principal component, two steps alternate: project the points onto the curve, which gives arc
    lengths :math:`\lambda`; smooth each coordinate against them by local lines with tricube weights. A callback that
    stops the fit keeps the curve reached so far.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, 1)
        Arc length of each point's projection, from the first knot; the curve is extended beyond the outer knots.
    curve_ : ndarray of shape (n_knots, n_features)
        The knots in order.
    trace_ : Trace
        Mean squared distance of the points to the principal line and to the curve after every iteration.
    diagnostics_ : dict
        Seconds, ``distances`` of the points to the curve and its ``length`` between the outer knots.

    See Also
    --------
    PrincipalSurface : sheets of one to three dimensions, by splines.
    Isomap : coordinates along a curve without a smooth fit.

    Notes
    -----
    A window of half-width h draws a bend of radius R inwards, to about :math:`R (1 - 0.072\, h^2/R^2)`.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import PrincipalCurve
    >>> t = np.linspace(0, 2, 200)
    >>> model = PrincipalCurve().fit(np.column_stack([np.cos(t), np.sin(t)]))
    >>> bool(np.all(np.diff(model.embedding_[:, 0]) > 0) or np.all(np.diff(model.embedding_[:, 0]) < 0))
    True
    """

    n_components: Literal[1] = parameter("Must be 1: a curve has one parameter.", default=1, kw_only=False)
    span: PositiveShare = parameter(
        "Share of the points in the window of the smoother; larger values give smoother curves with flatter bends.",
        default=0.3,
    )
    n_knots: Annotated[int, Range(2)] = parameter("Maximum number of knots of the polygonal curve.", default=100)
    max_iter: PositiveInt = parameter(MAX_ITER_TEXT, default=50)
    tol: NonNegative = parameter(
        "The iteration stops when the mean squared distance decreases by less than this share.", default=0.0001
    )

    curve_: FloatArray = fitted()

    _invertible = True

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        origin = rows.mean(axis=0)
        rows = rows - origin  # about it knots are not rounded as the rows are, far from zero
        with run.stage("curve"), run.stoppable():
            curve, trace = self._alternate(rows, run)
            positions, distances = curve.project(rows, run)
        return Embedding(
            positions[:, None],
            trace=trace,
            extension=CurveProjection(curve, origin),
            inverse=CurvePoint(curve, origin),
            notes={"distances": distances, "length": float(curve.lengths[-1])},
            fitted={"curve_": curve.knots + origin},
        )

    def _alternate(self, X: FloatArray, run: Run) -> tuple[Polyline, Trace]:
        """Project and smooth in turn, from the principal line; a curve farther from the points is not taken."""
        scaling, directions = principal_scaling(X, 1, run)
        ends = np.array([scaling.coordinates[:, 0].min(), scaling.coordinates[:, 0].max()])
        curve = Polyline(X.mean(axis=0) + ends[:, None] * directions[:, 0])
        positions, distances = curve.project(X, run)
        objective = [float((distances**2).mean())]
        rounding = CURVE_VARIANCE_TOL * float(X.var(axis=0).sum())
        stop = Stop.LIMIT if objective[0] > rounding else Stop.CONVERGED
        while stop is Stop.LIMIT and len(objective) <= self.max_iter:
            smoothed = smooth(X, positions, self.span, self.n_knots, run)
            if len(smoothed.knots) < 2:  # everything was averaged into one point
                stop = Stop.CONVERGED
                break
            positions, distances = smoothed.project(X, run)
            objective.append(min(float((distances**2).mean()), objective[-1]))
            if objective[-1] < objective[-2]:
                curve = smoothed
            if objective[-2] - objective[-1] <= self.tol * objective[-2] or objective[-1] <= rounding:
                stop = Stop.CONVERGED
            elif not run.step(len(objective) - 1, self.max_iter):
                stop = Stop.ASKED
        return curve, Trace(np.array(objective), stop)


def smooth(X: FloatArray, positions: FloatArray, span: float, n_knots: int, run: Run) -> Polyline:
    r"""Return the local lines of ``X`` (n, p) against ``positions`` (n,), at evenly spread ranks of these.

    With weights w around a knot and moments :math:`S_k = \sum w u^k`, :math:`T_k = \sum w u^k x` of the offsets u, the
    line's value at the knot is :math:`(S_2 T_0 - S_1 T_1) / (S_0 S_2 - S_1^2)`.
    """
    n = len(positions)
    window = min(n, max(MIN_WINDOW_POINTS, int(np.ceil(span * n)))) - 1
    at = np.unique(np.quantile(positions, np.linspace(0, 1, min(n_knots, n))))
    knots = np.empty((len(at), X.shape[1]))
    origin = X.mean(axis=0)
    centered = X - origin
    narrowest = MIN_WINDOW_SHARE * float(np.ptp(positions))

    def block(lo: int, hi: int) -> None:
        offsets = positions - at[lo:hi, None]
        reach = WINDOW_MARGIN * np.partition(np.abs(offsets), window, axis=1)[:, [window]]
        u = offsets / np.maximum(reach, narrowest)
        weights = np.maximum(1 - np.abs(u) ** 3, 0.0) ** 3
        weights /= weights.sum(axis=1, keepdims=True)
        mean_u = (weights * u).sum(axis=1, keepdims=True)
        spread = (weights * (u - mean_u) ** 2).sum(axis=1, keepdims=True)
        slopes = weights * (u - mean_u) / np.where(spread > 0, spread, 1.0)
        knots[lo:hi] = (weights - mean_u * slopes) @ centered

    run.map(block, run.ranges(len(at), max(1, CURVE_BLOCK // n)), blas=True)
    edges = np.linalg.norm(np.diff(knots, axis=0), axis=1)
    distinct = np.concatenate([[True], edges > KNOT_DISTANCE_TOL * edges.sum()])
    return Polyline(knots[distinct] + origin)
