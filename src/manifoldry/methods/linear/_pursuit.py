"""Directions found one after the other: those least like a Gaussian, and those of largest absolute deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs, fix_signs
from manifoldry._numerics.eigen.linear_span import FeatureRows, principal_span
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import centered_rows, whitened_rows
from manifoldry.methods._base import Embedder, estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import STEPS_TEXT
from manifoldry.methods.linear._base import LinearMixin, linear_embedding

GAUSSIAN_LOGCOSH = 0.37456720749143  # E log cosh of a standard Gaussian, by quadrature
INDEX_TOL = 1e-12  # share of the index by which rounding may lower it in an accepted step
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


def pursue_directions(
    points: FloatArray, n_components: int, ascend: Callable[[FloatArray, FloatArray], tuple[FloatArray, Trace]]
) -> tuple[FloatArray, FloatArray, list[Trace]]:
    """Return orthonormal directions (r, n_components), their objectives, the largest first, and the trace of each.

    ``ascend`` finds a direction of the points without the earlier directions; it also gets them in the order of their
    distance from the center, for random starts that do not depend on the order of the rows.
    """
    order = np.argsort((points**2).sum(axis=1), kind="stable")
    rank = points.shape[1]
    directions, values = np.zeros((rank, n_components)), np.zeros(n_components)
    free, traces = np.eye(rank), []
    for k in range(min(n_components, rank)):
        rest = points @ free
        w, trace = ascend(rest, rest[order])
        directions[:, k], values[k] = free @ w, trace.objective[-1]
        traces.append(trace)
        free = free @ np.linalg.qr(w[:, None], mode="complete")[0][:, 1:]
    ranking = np.argsort(-values, kind="stable")
    return directions[:, ranking], values[ranking], traces


def _worst_stop(traces: list[Trace]) -> Stop:
    return max((trace.stop for trace in traces), key=(Stop.CONVERGED, Stop.LIMIT, Stop.ASKED).index)


@register(
    problem="descent",
    papers=("friedman1974", "huber1985", "hyvarinen1999"),
    gives=("transform", "inverse", "trace"),
    keeps="clusters, gaps and tails that a linear view can show",
    loses="variance as a guide: every direction is brought to the same spread first",
    use_when="interesting structure hides in directions of small variance",
    fails_when="there are few points per column: then every projection can be made to look interesting",
    cost="a decomposition as for PCA, then O(n p starts) per step and component",
)
@estimator
class ProjectionPursuit(LinearMixin, Embedder):
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
    mean_
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

    _ignores_units = True
    _chunk_support = ChunkSupport(n_rows=50_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        centered, mean = centered_rows(dense(X))
        with run.stage("whitening"):
            whitened, whiten, color = whitened_rows(centered)
        with run.stage("pursuit"), run.stoppable():
            directions, values, traces = self._pursue(whitened, run)
        scores = fix_signs(whitened @ directions)
        signs = np.where((scores * (whitened @ directions)).sum(axis=0) < 0, -1.0, 1.0)
        directions = directions * signs
        components = np.ascontiguousarray((whiten @ directions).T)
        longest = max(len(trace.objective) for trace in traces)
        # A direction that converges earlier keeps its index.
        total = sum(np.pad(trace.objective, (0, longest - len(trace.objective)), mode="edge") for trace in traces)
        trace, inverse = Trace(np.asarray(total), _worst_stop(traces)), directions.T @ color
        return linear_embedding(scores, mean, components, trace, {"index": values}, inverse=inverse)

    def _pursue(self, Z: FloatArray, run: Run) -> tuple[FloatArray, FloatArray, list[Trace]]:
        contrast, rng = CONTRASTS[self.index], run.rng("starts")

        def ascend(rest: FloatArray, ordered: FloatArray) -> tuple[FloatArray, Trace]:
            starts = ordered.T @ rng.standard_normal((len(Z), self.n_init))
            return _maximize_index(rest, starts, contrast, run, self.max_iter, self.tol)

        return pursue_directions(Z, self.n_components, ascend)


def _maximize_index(
    Z: FloatArray, starts: FloatArray, contrast: Contrast, run: Run, max_iter: int, tol: float
) -> tuple[FloatArray, Trace]:
    """Raise the index from all starts (r, s) together; return the best direction, and the trace of the index."""
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


FLIP_TOL = 1e-12  # share by which a change of sign must raise the squared dispersion to count as more than rounding
MEDIAN_TOL = 1e-13  # length of a step, as a share of the rows' mean distance, at which the iteration has converged
MAX_MEDIAN_STEPS = 1000  # maximum number of steps; some dozens are usual


@register(
    problem="alternation",
    papers=("kwak2008", "markopoulos2014", "choulakian2006", "vardi2000"),
    gives=("transform", "inverse", "trace"),
    keeps="the directions along which most points spread",
    loses="everything curved; the proof of being best that PCA has",
    use_when="PCA fits but a few rows lie far away from the others",
    fails_when="outliers are many or extreme: a direction's spread still counts them, only not squared",
    cost="a decomposition as for PCA, then O(n p n_init) per step and component",
    test_params={"n_components": 2, "n_init": 3},
)
@estimator
class L1PCA(LinearMixin, Embedder):
    r"""Find principal directions by absolute deviations, if a few rows lie far away from the others.

    Directions are found one after the other:

    .. math:: \max_{\|w\| = 1} \sum_i |w^T (x_i - m)|, \qquad w \perp \text{previous ones},

    about the spatial median m. The best direction is :math:`w = X^T b / \|X^T b\|` for signs b that make
    :math:`\|X^T b\|` largest. Signs follow the projections, :math:`b \leftarrow \operatorname{sign} X w`, until they
    agree; then the one whose change raises the norm most is changed, until there is none. Neither step lowers the
    dispersion; the best of several starts is kept.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        ``(X - mean_) @ components_.T``, largest dispersion first; columns of zeros beyond the rank.
    components_ : ndarray of shape (n_components, n_features)
        The directions, orthonormal.
    mean_ : ndarray of shape (n_features,)
        The median or mean.
    trace_ : Trace
        Sum of the mean absolute deviations along the directions found so far after each step; never falling.
    diagnostics_ : dict
        Seconds, and ``dispersion``: the mean absolute deviation along each direction.

    See Also
    --------
    PCA : squared deviations, with a proven optimum.
    RobustPCA : individual corrupted entries.

    Notes
    -----
    Finding the best signs is NP-hard, so the result is a maximum that no single change of sign improves, the best of
    the starts. Rotations and shifts of the data do not change the result.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import L1PCA, PCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) * [5.0, 0.5]
    >>> X[:5] = [0.0, 40.0]
    >>> [int(abs(cls(n_components=1).fit(X).components_[0]).argmax()) for cls in (L1PCA, PCA)]
    [0, 1]
    """

    n_components: PositiveInt = parameter("Number of directions.", default=2, kw_only=False)
    center: Literal["median", "mean"] = parameter(
        "Point from which deviations are measured: the spatial median, or the mean, which outliers move.",
        default="median",
    )
    n_init: PositiveInt = parameter(
        "Number of starts per direction: the first principal component, then random combinations of the points.",
        default=10,
    )
    max_iter: PositiveInt = parameter("Maximum number of steps per direction.", default=1000)

    _chunk_support = ChunkSupport(n_rows=20_000)

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        mean = rows.mean(axis=0)
        span = principal_span(FeatureRows(rows - mean), run)  # about the mean of rows, which is rounded far away
        points, center = span.coordinates, span.mean
        if self.center == "median":
            with run.stage("median"):
                middle = spatial_median(points)
            points, center = points - middle, center + span.directions @ middle
        with run.stage("directions"), run.stoppable():
            directions, dispersion, traces = self._pursue(points, run)
        directions = directions * column_signs(points @ directions)
        components = np.ascontiguousarray((span.directions @ directions).T)
        reached = np.array([trace.objective[-1] for trace in traces])
        heights = [float(reached[:k].sum()) + trace.objective for k, trace in enumerate(traces)]
        trace = Trace(np.maximum.accumulate(np.concatenate([[0.0], *heights])), _worst_stop(traces))
        return linear_embedding(points @ directions, mean + center, components, trace, {"dispersion": dispersion})

    def _pursue(self, points: FloatArray, run: Run) -> tuple[FloatArray, FloatArray, list[Trace]]:
        rng = run.rng("starts")
        needed = 8 * self.n_init * sum(points.shape)
        run.announce(f"{self.n_init:,} starts for {len(points):,} points", needed, "lower n_init")

        def ascend(rest: FloatArray, ordered: FloatArray) -> tuple[FloatArray, Trace]:
            randoms = ordered.T @ rng.standard_normal((len(rest), self.n_init - 1))
            return _maximize_dispersion(
                rest, np.column_stack([np.eye(rest.shape[1])[:, :1], randoms]), self.max_iter, run
            )

        return pursue_directions(points, self.n_components, ascend)


def _maximize_dispersion(points: FloatArray, starts: FloatArray, max_iter: int, run: Run) -> tuple[FloatArray, Trace]:
    """Return the best direction of all starts, and its mean absolute deviation after each step."""
    squares = (points**2).sum(axis=1)[:, None]
    signs = _signs(points @ starts)
    heights: list[float] = []
    stop = Stop.LIMIT
    for step in range(max_iter):
        sums = points.T @ signs
        heights.append(float(np.sqrt((sums**2).sum(axis=0)).max()) / len(points))
        if not run.step(step, max_iter):
            stop = Stop.ASKED
            break
        signs, moved = _better(points @ sums, signs, squares)
        if not moved:
            stop = Stop.CONVERGED
            break
    sums = points.T @ signs
    lengths = np.sqrt((sums**2).sum(axis=0))
    best = int(lengths.argmax())
    heights.append(float(lengths[best]) / len(points))
    return sums[:, best] / lengths[best], Trace(np.array(heights), stop)


def _better(products: FloatArray, signs: FloatArray, squares: FloatArray) -> tuple[FloatArray, bool]:
    r"""Return signs with a larger :math:`\|X^T b\|`, and whether any changed; ``products`` are :math:`X X^T b`."""
    # A change of b_i adds 4 |x_i|^2 - 4 b_i x_i' X' b to the square.
    following = _signs(products)
    agree = (following == signs).all(axis=0)
    gains = squares - signs * products
    single = gains.argmax(axis=0)
    columns = np.arange(signs.shape[1])
    flips = agree & (gains[single, columns] > FLIP_TOL * np.abs(products).sum(axis=0))
    flipped = signs.copy()
    flipped[single[flips], columns[flips]] *= -1
    return np.where(agree, flipped, following), bool((~agree | flips).any())


def _signs(projections: FloatArray) -> FloatArray:
    return np.where(projections < 0, -1.0, 1.0)


def spatial_median(rows: FloatArray) -> FloatArray:
    r"""Return :math:`\arg\min_m \sum_i \|x_i - m\|` of rows (n, p), by reweighted means.

    At a row the sum has no gradient: the row is the median if the pull of the others does not exceed its weight;
    otherwise the step is shortened by that weight (vardi2000).
    """
    center = rows.mean(axis=0)
    for _ in range(MAX_MEDIAN_STEPS):
        offsets = rows - center
        lengths = np.sqrt((offsets**2).sum(axis=1))
        distinct = lengths > MEDIAN_TOL * lengths.mean()
        weights = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=distinct)
        pull = weights @ offsets
        size = np.sqrt((pull**2).sum())
        step = pull / weights.sum() * max(0.0, 1.0 - np.count_nonzero(~distinct) / size) if size > 0 else 0.0 * pull
        center = center + step
        if np.sqrt((step**2).sum()) <= MEDIAN_TOL * lengths.mean():
            break
    return np.asarray(center)
