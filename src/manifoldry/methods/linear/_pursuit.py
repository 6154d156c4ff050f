"""Projection pursuit: the directions along which the data look least like a Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.eigen import fix_signs
from manifoldry._numerics.extension.linear import LinearInverse, LinearMap
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import centered_rows, whitened_rows
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._texts import STEPS_TEXT

GAUSSIAN_LOGCOSH = 0.37456720749143
"""E log cosh of a standard Gaussian, by quadrature."""
INDEX_TOL = 1e-12
"""Share of the index by which rounding may lower it in a step that is accepted nevertheless."""

Contrast = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
"""Projections (n, s) to E G - E G(gaussian) of each column, g = G' of each entry, and E g' of each column."""


def _log_cosh(projections: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    size = np.abs(projections)
    excess = (size + np.log1p(np.exp(-2 * size))).mean(axis=0) - np.log(2) - GAUSSIAN_LOGCOSH
    slope = np.tanh(projections)
    return excess, slope, 1 - (slope**2).mean(axis=0)


def _fourth_power(projections: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    squares = projections**2
    return (squares**2).mean(axis=0) / 4 - 0.75, squares * projections, 3 * squares.mean(axis=0)


CONTRASTS: Mapping[str, Contrast] = {"negentropy": _log_cosh, "kurtosis": _fourth_power}


@register(
    family="linear",
    problem="descent",
    papers=("friedman1974", "huber1985", "hyvarinen1999"),
    gives=("transform", "inverse", "trace"),
    keeps="clusters, gaps and tails that a linear view can show",
    loses="variance as a guide: every direction is brought to the same spread first",
    use_when="interesting structure hides in directions of small variance",
    fails_when="there are few points per column: then every projection can be made to look interesting",
    cost="a decomposition as for PCA, then O(n p starts) per step and component",
    test_params={"n_components": 2},
)
@estimator
class ProjectionPursuit(Embedder):
    r"""Find the linear views farthest from Gaussian, if structure hides in directions of small variance.

    Directions are found one after the other:

    .. math:: \max_{\|w\| = 1} \left( E\, G(w^T z) - E\, G(\nu) \right)^2, \qquad w \perp \text{previous ones},

    for whitened points z and a Gaussian :math:`\nu`; G is log cosh (an approximation of negentropy) or the fourth
    power (kurtosis). A fixed-point step, :math:`w \leftarrow E\, z g(w^T z) - w\, E\, g'(w^T z)` with :math:`g = G'`,
    is taken where it raises the index, a step along the gradient elsewhere. The best of several starts is kept.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Uncorrelated columns of mean 0 and variance 1, most interesting first; columns of zeros beyond the rank.
    components_ : ndarray of shape (n_components, n_features)
        ``embedding_ = (X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        The mean of the rows.
    trace_ : Trace
        Sum of the indices of all columns after each iteration; never falling.
    diagnostics_ : dict
        Seconds, and the ``index`` of each column.

    See Also
    --------
    FastICA : independent sources of a mixture.
    PCA : directions of large variance.

    Notes
    -----
    Affine maps of the data do not change the result: the starts are random combinations of the points themselves,
    in the order of their distance from the mean after whitening.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ProjectionPursuit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 5)) * 10
    >>> X[:, 3] = np.where(rng.random(500) < 0.5, -1, 1) + 0.1 * rng.standard_normal(500)
    >>> direction = ProjectionPursuit(n_components=1).fit(X).components_[0]
    >>> int(np.abs(direction).argmax())
    3
    """

    n_components: PositiveInt = parameter("Number of directions.", default=2, kw_only=False)
    index: Literal["negentropy", "kurtosis"] = parameter(
        "What is maximized: negentropy is robust, kurtosis is dominated by the tails.", default="negentropy"
    )
    n_init: PositiveInt = parameter("Number of random starts per direction.", default=20)
    max_iter: PositiveInt = parameter(STEPS_TEXT, default=200)
    tol: Positive = parameter("The iteration stops when the direction turns by less than this angle.", default=1e-08)

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True
    _ignores_units = True

    _blockwise = BlockFit(n_rows=50_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        centered, mean = centered_rows(dense(X))
        with run.stage("whitening"):
            whitened, whiten, color = whitened_rows(centered)
        with run.stage("pursuit"), run.stoppable():
            found, values, traces = self._pursue(whitened, run)
        scores = fix_signs(whitened @ found)
        signs = np.where((scores * (whitened @ found)).sum(axis=0) < 0, -1.0, 1.0)
        found = found * signs
        components = np.ascontiguousarray((whiten @ found).T)
        return Embedding(
            scores,
            extension=LinearMap(mean, components),
            inverse=LinearInverse(mean, found.T @ color),
            trace=_together(traces),
            notes={"index": values},
            fitted={"components_": components, "mean_": mean},
        )

    def _pursue(self, Z: FloatArray, run: Run) -> tuple[FloatArray, FloatArray, list[Trace]]:
        """Return orthonormal directions (r, n_components), their index, and how each was found."""
        contrast, rng = CONTRASTS[self.index], run.rng("starts")
        order = np.argsort((Z**2).sum(axis=1), kind="stable")
        rank, d = Z.shape[1], self.n_components
        directions, values = np.zeros((rank, d)), np.zeros(d)
        free, traces = np.eye(rank), []
        for k in range(min(d, rank)):
            rest = Z @ free
            starts = rest[order].T @ rng.standard_normal((len(Z), self.n_init))
            w, trace = _ascend(rest, starts, contrast, run, self.max_iter, self.tol)
            directions[:, k], values[k] = free @ w, trace.objective[-1]
            traces.append(trace)
            free = free @ np.linalg.qr(w[:, None], mode="complete")[0][:, 1:]
        ranking = np.argsort(-values, kind="stable")
        return directions[:, ranking], values[ranking], traces


def _together(traces: list[Trace]) -> Trace:
    """Return the sum of the indices after each step; a direction that was found sooner keeps its value."""
    longest = max(len(trace.objective) for trace in traces)
    total = sum(np.pad(trace.objective, (0, longest - len(trace.objective)), mode="edge") for trace in traces)
    worst = max((trace.stop for trace in traces), key=(Stop.CONVERGED, Stop.LIMIT, Stop.ASKED).index)
    return Trace(np.asarray(total), worst)


def _ascend(
    Z: FloatArray, starts: FloatArray, contrast: Contrast, run: Run, max_iter: int, tol: float
) -> tuple[FloatArray, Trace]:
    """Climb the index from all starts (r, s) together; return where the best one is, and how high it was by then."""
    w = _unit(starts)
    height = contrast(Z @ w)[0] ** 2
    pace, active = np.ones(w.shape[1]), np.ones(w.shape[1], dtype=bool)
    heights = [float(height.max())]
    while active.any() and len(heights) <= max_iter and run.step(len(heights) - 1, max_iter):
        trial, risen, turned = _step(Z, w[:, active], pace[active], contrast)
        climbs = risen >= height[active] * (1 - INDEX_TOL)
        w[:, active] = np.where(climbs, trial, w[:, active])
        height[active] = np.where(climbs, risen, height[active])
        pace[active] = np.where(climbs, pace[active], pace[active] / 2)
        active[active] = (turned > tol) & (pace[active] > tol)
        heights.append(float(height.max()))
    best = int(height.argmax())
    stop = Stop.ASKED if run.stopped else Stop.LIMIT if active[best] else Stop.CONVERGED
    return w[:, best], Trace(np.maximum.accumulate(heights), stop)


def _step(
    Z: FloatArray, w: FloatArray, pace: FloatArray, contrast: Contrast
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the next directions to try from ``w`` (r, s), their index, and the angles to them."""
    excess, slope, bend = contrast(Z @ w)
    pull = Z.T @ slope / len(Z)
    fixed = pull - w * bend
    newton = _unit(fixed * np.where((fixed * w).sum(axis=0) < 0, -1.0, 1.0))
    by_newton = contrast(Z @ newton)[0] ** 2
    uphill = _unit(w + pace * np.sign(excess) * _unit(pull - w * (w * pull).sum(axis=0)))
    by_gradient = contrast(Z @ uphill)[0] ** 2
    climbs = by_newton >= excess**2 * (1 - INDEX_TOL)
    trial = np.where(climbs, newton, uphill)
    return trial, np.where(climbs, by_newton, by_gradient), np.linalg.norm(trial - w, axis=0)


def _unit(columns: FloatArray) -> FloatArray:
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms > 0, norms, 1.0)
