"""The principal curve: a smooth curve through the middle of the data, and each point's place along it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry import check
from manifoldry.base import Embedder, estimator
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.scaling import principal_scaling
from manifoldry.values import Array, Embedding, FloatArray, Stop, Trace

BLOCK = 1_000_000
"""Pairs of points and segments, or of points and knots, worked on at a time."""
FEWEST = 5
"""Points that a local line is fitted to at the least: two parameters and something to average."""
WIDER = 1.001
"""The window reaches this much beyond its last point, so that a point alone in it keeps some weight."""
NARROWEST = 1e-6
"""Share of the whole length that a window has at the least, where many points share one place."""
SAME = 1e-9
"""Share of the whole length below which two knots are one."""
NOTHING = 1e-28
"""Share of the variance below which squared distances are rounding: the curve passes through all points."""


@dataclass(frozen=True)
class Curve:
    """A polygon through ``knots`` (m, p), its first and last edges prolonged without end."""

    knots: FloatArray

    @property
    def lengths(self) -> FloatArray:
        """Arc length from the first knot to each knot."""
        edges = np.linalg.norm(np.diff(self.knots, axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(edges)])

    def project(self, X: Array, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return, for each row, the arc length of the nearest point of the curve and the distance to it."""
        rows = np.asarray(X, dtype=np.float64)
        places, away = np.empty(len(rows)), np.empty(len(rows))
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
            away[lo:hi] = np.linalg.norm(x - starts[j] - t[:, None] * edges[j], axis=1)
            places[lo:hi] = lengths[j] + t * np.sqrt(squares[j])

        run.map(block, run.ranges(len(rows), max(1, BLOCK // len(edges))), blas=True)
        return places, away

    def at(self, places: FloatArray) -> FloatArray:
        """Return the points of the curve at the given arc lengths."""
        lengths = self.lengths
        j = np.clip(np.searchsorted(lengths, places) - 1, 0, len(lengths) - 2)
        share = (places - lengths[j]) / (lengths[j + 1] - lengths[j])
        return self.knots[j] + share[:, None] * (self.knots[j + 1] - self.knots[j])


@dataclass(frozen=True)
class CurveProjection:
    """New points to their arc length."""

    curve: Curve

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        return self.curve.project(X.toarray() if issparse(X) else X, run)[0][:, None]


@dataclass(frozen=True)
class CurvePoint:
    """Arc lengths to points of the curve."""

    curve: Curve

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Lead coordinates back to points."""
        return self.curve.at(np.asarray(Y, dtype=np.float64)[:, 0])


@register(
    family="curve",
    problem="alternation",
    papers=("hastie1989",),
    gives=("transform", "inverse", "trace"),
    keeps="the order of the points along one bent line, and lengths along it",
    loses="everything across the curve",
    use_when="the data follow one open curve with noise: a trajectory, an ageing, a gradient",
    fails_when="the curve closes, crosses itself or turns more sharply than the span of its smoother",
    cost="O(n p knots) per step, about ten steps",
    test_params={"n_components": 1},
)
@estimator
class PrincipalCurve(Embedder):
    r"""Principal curve of Hastie and Stuetzle: every point of the curve is the mean of the data that project there.

    .. math:: f(\lambda) = E\left( x \mid \lambda_f(x) = \lambda \right)

    From the first principal component on, two steps alternate: project the points onto the curve, which gives
    arc lengths :math:`\lambda`; smooth each coordinate against them by local lines with tricube weights.

    Parameters
    ----------
    n_components : int
        1: a curve has one parameter.
    span : float
        Share of the points in the window of the smoother: more is smoother, and rounds bends off.
    n_knots : int
        Corners of the polygon that stands for the curve, at the most.
    max_iter : int
        Steps.
    tol : float
        The iteration ends when a step lowers the mean squared distance by less than this share.
    random_state : int, Generator or None
        Unused; kept so that all methods take the same words.
    n_jobs, verbose, callback
        As in `Isomap`; stopping keeps the curve reached so far.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, 1)
        Arc length of each point's projection, from the first knot; outside the knots the curve goes straight on.
    curve_ : ndarray of shape (n_knots, n_features)
        The knots in order.
    trace_ : Trace
        Mean squared distance of the points to the curve, of the principal line and after every step.
    diagnostics_ : dict
        Seconds, ``distances`` of the points to the curve and its ``length`` between the outer knots.

    Notes
    -----
    A window of half-width h draws a bend of radius R inwards, to about :math:`R (1 - 0.072\, h^2/R^2)`.

    References: hastie1989.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import PrincipalCurve
    >>> t = np.linspace(0, 2, 200)
    >>> model = PrincipalCurve().fit(np.column_stack([np.cos(t), np.sin(t)]))
    >>> bool(np.all(np.diff(model.embedding_[:, 0]) > 0) or np.all(np.diff(model.embedding_[:, 0]) < 0))
    True
    """

    n_components: int = field(default=1, kw_only=False)
    span: float = 0.3
    n_knots: int = 100
    max_iter: int = 50
    tol: float = 0.0001

    _invertible = True

    @property
    def curve_(self) -> FloatArray:
        """The knots of the curve, in order."""
        return self._extension.curve.knots

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.n_components != 1:
            raise ValueError(f"n_components must be 1, as a curve has one parameter; got {self.n_components}.")
        if check.number("span", self.span, 0.0, open_low=True) > 1:
            raise ValueError(f"span must be a share of the points, at most 1; got {self.span}.")
        check.integer("n_knots", self.n_knots, 2)
        check.integer("max_iter", self.max_iter, 1)
        check.number("tol", self.tol, 0.0)

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
        with run.stage("curve"):
            curve, trace = self._alternate(rows, run)
            places, away = curve.project(rows, run)
        return Embedding(
            places[:, None],
            trace=trace,
            extension=CurveProjection(curve),
            inverse=CurvePoint(curve),
            notes={"distances": away, "length": float(curve.lengths[-1])},
        )

    def _alternate(self, X: FloatArray, run: Run) -> tuple[Curve, Trace]:
        """Project and smooth in turn from the principal line on; a step that leads away is not taken."""
        curve = _principal_line(X, run)
        places, away = curve.project(X, run)
        objective = [float((away**2).mean())]
        rounding = NOTHING * float(X.var(axis=0).sum())
        stop = Stop.LIMIT if objective[0] > rounding else Stop.CONVERGED
        while stop is Stop.LIMIT and len(objective) <= self.max_iter:
            smoothed = smooth(X, places, self.span, self.n_knots, run)
            if len(smoothed.knots) < 2:  # everything was averaged into one point
                stop = Stop.CONVERGED
                break
            places, away = smoothed.project(X, run)
            objective.append(min(float((away**2).mean()), objective[-1]))
            if objective[-1] < objective[-2]:
                curve = smoothed
            if objective[-2] - objective[-1] <= self.tol * objective[-2] or objective[-1] <= rounding:
                stop = Stop.CONVERGED
            elif not run.step(len(objective) - 1, self.max_iter):
                stop = Stop.ASKED
        return curve, Trace(np.array(objective), stop)


def _principal_line(X: FloatArray, run: Run) -> Curve:
    """Return the first principal component between its outermost scores."""
    scaling, directions = principal_scaling(X, 1, run)
    scores = scaling.coordinates[:, 0]
    ends = np.array([scores.min(), scores.max()])
    return Curve(X.mean(axis=0) + ends[:, None] * directions[:, 0])


def smooth(X: FloatArray, places: FloatArray, span: float, n_knots: int, run: Run) -> Curve:
    r"""Return the local lines of ``X`` (n, p) against ``places`` (n,), read off at evenly spread ranks of the places.

    With weights w around a knot and moments :math:`S_k = \sum w u^k`, :math:`T_k = \sum w u^k x` of the offsets u, the
    line's value at the knot is :math:`(S_2 T_0 - S_1 T_1) / (S_0 S_2 - S_1^2)`.
    """
    n = len(places)
    window = min(n, max(FEWEST, int(np.ceil(span * n)))) - 1
    at = np.unique(np.quantile(places, np.linspace(0, 1, min(n_knots, n))))
    knots = np.empty((len(at), X.shape[1]))
    origin = X.mean(axis=0)
    centered = X - origin
    narrowest = NARROWEST * float(np.ptp(places))

    def block(lo: int, hi: int) -> None:
        offsets = places - at[lo:hi, None]
        reach = WIDER * np.partition(np.abs(offsets), window, axis=1)[:, [window]]
        u = offsets / np.maximum(reach, narrowest)
        weights = np.maximum(1 - np.abs(u) ** 3, 0.0) ** 3
        weights /= weights.sum(axis=1, keepdims=True)
        mean_u = (weights * u).sum(axis=1, keepdims=True)
        spread = (weights * (u - mean_u) ** 2).sum(axis=1, keepdims=True)
        slopes = weights * (u - mean_u) / np.where(spread > 0, spread, 1.0)
        knots[lo:hi] = (weights - mean_u * slopes) @ centered

    run.map(block, run.ranges(len(at), max(1, BLOCK // n)), blas=True)
    edges = np.linalg.norm(np.diff(knots, axis=0), axis=1)
    distinct = np.concatenate([[True], edges > SAME * edges.sum()])
    return Curve(knots[distinct] + origin)
