"""L1-PCA: the directions of largest mean absolute deviation, which outliers pull less than variance."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.eigen.linear_span import FeatureRows, principal_span
from manifoldry._numerics.extension.linear import LinearInverse, LinearMap
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit

FLIP_TOL = 1e-12
"""Share of the squared dispersion by which a change of sign must raise it to count as more than rounding."""


@register(
    family="linear",
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
class L1PCA(Embedder):
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

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True

    _blockwise = BlockFit(n_rows=20_000)

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
            found, dispersion, trace = self._directions(points, run)
        found = found * column_signs(points @ found)
        components = np.ascontiguousarray((span.directions @ found).T)
        return Embedding(
            points @ found,
            trace=trace,
            extension=LinearMap(mean + center, components),
            inverse=LinearInverse(mean + center, components),
            notes={"dispersion": dispersion},
            fitted={"components_": components, "mean_": mean + center},
        )

    def _directions(self, points: FloatArray, run: Run) -> tuple[FloatArray, FloatArray, Trace]:
        """Return orthonormal directions (r, n_components), their dispersion, and how it grew."""
        rng, d, rank = run.rng("starts"), self.n_components, points.shape[1]
        needed = 8 * self.n_init * (len(points) + rank)
        run.announce(f"{self.n_init:,} starts for {len(points):,} points", needed, "lower n_init")
        order = np.argsort((points**2).sum(axis=1), kind="stable")
        directions, dispersion = np.zeros((rank, d)), np.zeros(d)
        free, heights, stop = np.eye(rank), [0.0], Stop.CONVERGED
        for k in range(min(d, rank)):
            rest = points @ free
            randoms = rest[order].T @ rng.standard_normal((len(rest), self.n_init - 1))
            w, risen, ended = _ascend(rest, np.column_stack([np.eye(rank - k)[:, :1], randoms]), self.max_iter, run)
            directions[:, k], dispersion[k] = free @ w, risen[-1]
            heights += [float(dispersion[:k].sum()) + height for height in risen]
            stop = ended if ended is not Stop.CONVERGED else stop
            free = free @ np.linalg.qr(w[:, None], mode="complete")[0][:, 1:]
        ranking = np.argsort(-dispersion, kind="stable")
        return directions[:, ranking], dispersion[ranking], Trace(np.maximum.accumulate(heights), stop)


def _ascend(points: FloatArray, starts: FloatArray, max_iter: int, run: Run) -> tuple[FloatArray, list[float], Stop]:
    """Return the best direction of all starts, its mean absolute deviation after each step, and why it ended."""
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
    return sums[:, best] / lengths[best], heights, stop


def _better(products: FloatArray, signs: FloatArray, squares: FloatArray) -> tuple[FloatArray, bool]:
    r"""Return signs with a larger :math:`\|X^T b\|`, and whether any changed; ``products`` are :math:`X X^T b`.

    A change of :math:`b_i` adds :math:`4 \|x_i\|^2 - 4 b_i x_i^T X^T b` to the square.
    """
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


# The spatial median: the point with the least sum of distances to the rows, which few far rows cannot move far.

MEDIAN_TOL = 1e-13
"""Length of a step, as a share of the rows' mean distance, at which the iteration has converged."""
MAX_MEDIAN_STEPS = 1000
"""Steps at most: some dozens are usual, hundreds where rows crowd around the median."""


def spatial_median(rows: FloatArray) -> FloatArray:
    r"""Return :math:`\arg\min_m \sum_i \|x_i - m\|` of rows (n, p), by reweighted means.

    At a row the sum has no gradient: it is the median there if the pull of the others does not exceed its own weight,
    and else the step is shortened by that weight. Reference: vardi2000

    Examples
    --------
    >>> import numpy as np
    >>> spatial_median(np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])) + 0.0
    array([0., 0.])
    """
    center = rows.mean(axis=0)
    for _ in range(MAX_MEDIAN_STEPS):
        away = rows - center
        lengths = np.sqrt((away**2).sum(axis=1))
        apart = lengths > MEDIAN_TOL * lengths.mean()
        weights = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=apart)
        pull = weights @ away
        size = np.sqrt((pull**2).sum())
        step = pull / weights.sum() * max(0.0, 1.0 - np.count_nonzero(~apart) / size) if size > 0 else 0.0 * pull
        center = center + step
        if np.sqrt((step**2).sum()) <= MEDIAN_TOL * lengths.mean():
            break
    return np.asarray(center)
