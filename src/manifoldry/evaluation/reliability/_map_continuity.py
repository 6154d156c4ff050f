"""Map continuity: how far a point's image moves when the point does, and where the loss tears the map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.descent.leave_one_out import LeftOut, LeftOutLoss, embed_left_out
from manifoldry._numerics.geometry.neighbor_affinity import membership_strengths
from manifoldry._numerics.geometry.principal import principal_directions
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.evaluation._input import neighbor_lists
from manifoldry.graph._pairwise import as_points

N_LOCAL_NEIGHBORS = 30  # neighbors that give the principal directions along which a point is moved
LENGTH_IN_DEVIATIONS = 2.0  # shorter moves find fewer of the points between two Gaussians, longer ones move all
MAX_LENGTH_POINTS = 1000  # points whose neighborhoods give the default length
CONTINUITY_BLOCK = 4_000_000  # numbers that a block of points holds at a time
MAX_MISMATCH = 1e-3  # largest relative difference between the lengths of the graph and the distances of the rows


@dataclass(frozen=True, repr=False)
class MapContinuity:
    """Perturbation and singularity scores of points; printed, a short text.

    Parameters
    ----------
    points : ndarray of shape (m,)
        Indices of the evaluated points.
    perturbation : ndarray of shape (m,)
        The longest move of a point's image, in the units of the map, for moves of ``length`` in the data.
    singularity : ndarray of shape (m,), or None
        1 over the least eigenvalue of the loss's Hessian at the point's position; infinite where that is not positive.
        None for methods that do not minimize a loss over positions.
    length : float
        Length of the moves in the data.
    extent : float
        Root mean square distance of the map's points from their mean, to compare moves with.
    """

    points: IntArray
    perturbation: FloatArray
    singularity: FloatArray | None
    length: float
    extent: float

    def __repr__(self) -> str:
        half, most = np.quantile(self.perturbation, [0.5, 0.95])
        text = (
            f"Moved by {self.length:.3g} in the data, half of {len(self.points):,} points move by {half:.3g} or less "
            f"in the map ({half / self.extent:.0%} of its extent), and one in twenty by more than {most:.3g} "
            f"({most / self.extent:.0%})."
        )
        if self.singularity is None:
            return f"{text} There is no singularity score: the method does not minimize a loss over positions."
        middle, high = np.quantile(self.singularity, [0.5, 0.95], method="lower")
        return (
            f"{text} Singularity: median {middle:.3g}, and above {high:.3g} for one point in twenty, where almost "
            "nothing determines the position."
        )


@documented(SHARED_TEXTS)
def map_continuity(
    model: Any,
    X: Any,
    *,
    points: Any = None,
    length: float | Literal["auto"] = "auto",
    n_directions: int = 3,
    n_jobs: int | None = None,
) -> MapContinuity:
    r"""Return how continuous the map is at each point: its perturbation score and its singularity score.

    The leave-one-out map finds the position of one point by the loss :math:`L_i` of the fit, with all others fixed. The
    *perturbation score* is the longest move of the image when the point moves by a small length e along the leading
    principal directions :math:`v` of its neighborhood, to either side,

    .. math:: \max_{v, \pm} \| \hat y(x_i \pm e v) - \hat y_i \| ,

    and also when it does not move but a better position is elsewhere. It is large for points between clusters that the
    map has drawn to one of them: the gap around them is not in the data. The *singularity score* is
    :math:`1 / \lambda_{\min}(\nabla^2 L_i(y_i))`. It is large where the loss is so flat that almost nothing
    determines a point's position: along fractures that the loss itself causes, as with small perplexities.

    Parameters
    ----------
    model : fitted estimator
        `TSNE`, `SymmetricSNE` or `UMAP`, fitted to rows with the Euclidean metric: both scores. Any other with
        ``transform``: the perturbation score of that map, which has no point left out.
    X : array-like of shape (n, d)
        The rows that the model was fitted to.
    points : array-like of int, optional
        Points to evaluate; None for all.
    length : float or "auto"
        Length of the moves; "auto" is the median, over the points, of twice the standard deviation of the 30 nearest
        neighbors along the direction in which it is largest: as far as the farthest of them in that direction.
    n_directions : int
        Number of directions, each taken both ways.

    Returns
    -------
    MapContinuity
        With ``perturbation``, ``singularity`` (None where the method has no such loss), ``points``, ``length`` and
        the ``extent`` of the map.

    Notes
    -----
    A moved point keeps its list of neighbors and all bandwidths are those of the fit, so the length should not exceed
    distances to neighbors. Compare scores within one map, or between maps of the same data.

    References: liu2025

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import PCA, datasets
    >>> X = datasets.swiss_roll(200).X
    >>> result = map_continuity(PCA(n_components=2).fit(X), X, length=0.1)
    >>> result.singularity is None, bool(result.perturbation.max() <= 0.1 + 1e-12)
    (True, True)
    """
    X = as_points("X", X)
    if getattr(model, "metric", None) == "precomputed":
        raise ValueError("The model was fitted to distances, in which no point can be moved: fit it to the rows.")
    layout = _layout(model, X)
    rows = _chosen(points, len(X))
    n_directions = check.integer("n_directions", n_directions, 1)
    if length != "auto":
        length = check.number("length", length, 0.0, open_low=True)
    run = Run(getattr(model, "random_state", 0), n_jobs)
    near = neighbor_lists(X, min(N_LOCAL_NEIGHBORS, len(X) - 1), run)
    if isinstance(length, str):  # it does not depend on the evaluated points
        some = run.rng("length of moves").permutation(len(X))[:MAX_LENGTH_POINTS]
        length = LENGTH_IN_DEVIATIONS * float(np.median(_local_directions(X, near[some], 1, run)[1]))
    if length == 0:
        raise ValueError("Half of the points have 30 duplicates, so no length of a move follows from X; pass length.")
    directions, _ = _local_directions(X, near[rows], min(n_directions, X.shape[1]), run)
    extent = float(np.sqrt(((layout - layout.mean(axis=0)) ** 2).sum(axis=1).mean()))
    loss = _loss(model, len(X), run)
    if loss is None:
        moves = _moves_by_transform(model, X, rows, length * directions)
        return MapContinuity(rows, moves, None, length, extent)
    moves, curvature = _left_out_scores(model, loss, X, rows, length, directions, run)
    least = np.linalg.eigvalsh(curvature)[:, 0]
    singularity = np.divide(1.0, least, out=np.full(len(least), np.inf), where=least > 0)
    return MapContinuity(rows, moves, singularity, length, extent)


def _layout(model: Any, X: FloatArray) -> FloatArray:
    """Return the coordinates of a fitted model that can transform."""
    if not hasattr(model, "embedding_") or not hasattr(model, "transform"):
        raise ValueError(f"model must be fitted and have transform; got {type(model).__name__}: fit it to rows.")
    if len(model.embedding_) != len(X) or getattr(model, "n_features_in_", X.shape[1]) != X.shape[1]:
        raise ValueError(
            f"X must be the rows that the model was fitted to, {len(model.embedding_)} of {model.n_features_in_} "
            f"columns; got shape {X.shape}."
        )
    return np.asarray(model.embedding_, dtype=np.float64)


def _chosen(points: Any, n: int) -> IntArray:
    if points is None:
        return np.arange(n)
    chosen = np.asarray(points)
    integers = chosen.ndim == 1 and chosen.dtype.kind in "iu"
    if not integers or not len(chosen) or chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"points must be indices from 0 to {n - 1}, in one dimension; got {points!r}.")
    return chosen


def _local_directions(X: FloatArray, near: IntArray, count: int, run: Run) -> tuple[FloatArray, FloatArray]:
    """Return principal directions (m, count, d), zeros beyond the rank, and the deviation (m,) along the first."""
    m, k = near.shape
    directions, spread = np.zeros((m, count, X.shape[1])), np.empty(m)

    def block(lo: int, hi: int) -> None:
        rows = X[near[lo:hi]]
        rows -= rows.mean(axis=1, keepdims=True)
        squares, axes = principal_directions(rows)
        axes = axes[..., :count]
        directions[lo:hi, : axes.shape[2]] = axes.swapaxes(1, 2)
        spread[lo:hi] = np.sqrt(np.maximum(squares[:, 0], 0.0) / k)

    run.map(block, run.ranges(m, max(1, CONTINUITY_BLOCK // (k * X.shape[1]))), blas=True)
    return directions, spread


def _moves_by_transform(model: Any, X: FloatArray, points: IntArray, moves: FloatArray) -> FloatArray:
    """Return the longest move of the image by ``transform``."""
    images = model.transform(X[points])
    longest = np.zeros(len(points))
    for direction in range(moves.shape[1]):
        for sign in (1.0, -1.0):
            moved = model.transform(X[points] + sign * moves[:, direction])
            longest = np.maximum(longest, np.linalg.norm(moved - images, axis=1))
    return longest


def _loss(model: Any, n: int, run: Run) -> LeftOutLoss | None:
    """Return the loss of a point left out; None for a method without one, an error where it is not defined."""
    left_out = getattr(getattr(model, "_extension", None), "left_out", None)
    if left_out is None:
        return None
    name = type(model).__name__
    if getattr(model, "metric", "euclidean") != "euclidean":
        raise ValueError(f"A point is moved along rows by Euclidean distances; {name} has metric={model.metric!r}.")
    loss: LeftOutLoss | None = left_out(run)
    if loss is None:
        raise ValueError(f"{name} compares conditional probabilities, whose loss is not supported; try SymmetricSNE.")
    if np.ndim(getattr(model, "bandwidths_", 0.0)) == 2:
        raise ValueError(f"{name} was fitted with several perplexities; fit it with one.")
    if len(loss.layout) != n:
        raise ValueError(f"{name} was fitted to distinct rows only; fit it with unique=False.")
    return loss


def _left_out_scores(
    model: Any, loss: LeftOutLoss, X: FloatArray, points: IntArray, step: float, directions: FloatArray, run: Run
) -> tuple[FloatArray, FloatArray]:
    """Return the longest moves (m,) of points left out, and the Hessians of their loss there (m, p, p)."""
    affinities, perturbed = model.affinity_matrix_, _perturbed(model, X, run)
    degrees = np.diff(affinities.indptr)[points]
    order = np.argsort(degrees, kind="stable")  # so that few rows are padded by much
    moves, curvature = np.empty(len(points)), np.empty((len(points), *2 * loss.layout.shape[1:]))

    def block(lo: int, hi: int) -> None:
        part = order[lo:hi]
        around = Neighborhoods.of(affinities, X, points[part], directions[part])
        start = loss.layout[points[part]].astype(np.float64)
        still = perturbed(around, np.zeros(around.near.shape))
        base = embed_left_out(loss, still, start, anywhere=False)
        curvature[part] = loss.hessian(base, still)
        longest = np.linalg.norm(embed_left_out(loss, still, base) - base, axis=1)
        for shift in np.concatenate([around.along, -around.along]):
            # |o - e v|^2 - |o|^2 = e^2 - 2 e <o, v> for an offset o and a direction v, which may be 0
            moved = perturbed(around, step * (step - 2.0 * shift))
            longest = np.maximum(longest, np.linalg.norm(embed_left_out(loss, moved, base) - base, axis=1))
        moves[part] = longest

    width = max(int(degrees.max()), loss.layout.size)  # a Hessian sums over the whole layout
    run.map(block, run.ranges(len(points), max(1, min(256, CONTINUITY_BLOCK // width))), blas=True)
    return moves, curvature


def _perturbed(model: Any, X: FloatArray, run: Run) -> PerturbedProbabilities | PerturbedMemberships:
    """Return a callable for the affinities of moved points; X must be the rows of the graph."""
    graph = model.graph_
    rows, columns = graph.rows()[:1000], graph.indices[:1000]
    lengths = np.linalg.norm(X[rows] - X[columns], axis=1)
    if np.abs(lengths - graph.lengths[:1000]).max() > MAX_MISMATCH * lengths.max():
        raise ValueError("X must be the rows that the model was fitted to; their distances differ from its graph's.")
    if hasattr(model, "bandwidths_"):
        bandwidths = np.broadcast_to(model.bandwidths_, (len(X),))
        factor = float(getattr(model, "late_exaggeration", 1.0))
        return PerturbedProbabilities(model.affinity_matrix_, graph, bandwidths, factor)
    return PerturbedMemberships(model.affinity_matrix_, graph, model.local_connectivity, run)


# Affinities of fitted points, each moved a little in the data while all others stay: t-SNE's and UMAP's.

OFFSETS_BLOCK = 1_000_000  # numbers in the differences of rows that are held at a time


@dataclass(frozen=True)
class Neighborhoods:
    """Points (m,) with all others that they have an affinity to, padded to (m, k).

    ``entries`` are positions in the affinity matrix, ``squares`` squared distances, ``along`` (r, m, k) offsets along
    directions.
    """

    own: IntArray
    near: IntArray
    listed: Array
    entries: IntArray
    squares: FloatArray
    along: FloatArray

    @classmethod
    def of(cls, affinities: csr_array, X: Array, own: IntArray, directions: FloatArray | None = None) -> Neighborhoods:
        """Gather the rows ``own`` of the affinities; ``directions`` have shape (m, r, d)."""
        first = affinities.indptr[own].astype(np.int64)
        counts = affinities.indptr[own + 1] - first
        positions = np.arange(counts.max())
        listed = positions < counts[:, None]
        entries = np.where(listed, first[:, None] + positions, first[:, None])
        near = affinities.indices[entries]
        if directions is None:
            directions = np.zeros((len(own), 0, X.shape[1]))
        squares, along = np.empty(near.shape), np.empty((directions.shape[1], *near.shape))
        step = max(1, OFFSETS_BLOCK // (near.shape[1] * X.shape[1]))  # few rows at a time if they are wide
        for lo in range(0, len(own), step):
            part = slice(lo, lo + step)
            offsets = X[near[part]] - X[own[part]][:, None]
            squares[part] = np.einsum("ijc,ijc->ij", offsets, offsets)
            along[:, part] = np.einsum("ikc,irc->rik", offsets, directions[part])
        return cls(own, near, listed, entries, squares, along)


class PerturbedProbabilities:
    r"""Joint probabilities of SNE's kind for points that have moved; the bandwidths are those of the fit.

    With the move :math:`d_{ij} \to d'_{ij}`, :math:`p'_{j|i} \propto p_{j|i} e^{-(d'^2 - d^2) / 2 \sigma_i^2}` and, as
    only one member of j's row has moved, :math:`p'_{i|j} = q f / (1 - q + q f)` with :math:`q = p_{i|j}` and
    :math:`f = e^{-(d'^2 - d^2) / 2 \sigma_j^2}`.
    """

    def __init__(self, joint: csr_array, graph: NeighborGraph, bandwidths: FloatArray, factor: float) -> None:
        self.n, self.factor = joint.shape[0], factor
        self.precision = 0.5 / bandwidths**2
        rows = graph.rows()
        exponent = self.precision[rows] * graph.lengths**2
        exponent -= np.minimum.reduceat(exponent, graph.indptr[:-1])[rows]
        values = np.exp(-exponent)
        values /= np.add.reduceat(values, graph.indptr[:-1])[rows]
        self.forward, self.backward = _along(joint, graph, values)

    def __call__(self, around: Neighborhoods, change: FloatArray) -> LeftOut:
        """Return the probabilities after the squared distances have changed by ``change`` (m, k)."""
        exponent = np.where(around.listed, -self.precision[around.own][:, None] * change, -np.inf)
        ours = self.forward[around.entries] * np.exp(exponent - exponent.max(axis=1, keepdims=True))
        ours /= ours.sum(axis=1, keepdims=True)
        q = self.backward[around.entries]
        odds = q * np.exp(np.minimum(-self.precision[around.near] * change, 50.0))
        theirs = odds / (1.0 - q + odds)
        weights = self.factor * np.where(around.listed, ours + theirs, 0.0) / (2 * self.n)
        return LeftOut(around.own, around.near, weights)


class PerturbedMemberships:
    """UMAP's affinities of moved points by the scales of the fit, weakened in proportion where it weakened them."""

    def __init__(self, fuzzy: csr_array, graph: NeighborGraph, local_connectivity: float, run: Run) -> None:
        _, self.rho, self.sigma = membership_strengths(graph.indptr, graph.lengths, run, local_connectivity)
        ones = np.ones(graph.n_edges)
        listed = _along(fuzzy, graph, ones)
        self.listed_forward, self.listed_backward = listed[0] > 0, listed[1] > 0
        self.weights = np.asarray(fuzzy.data, dtype=np.float64)

    def __call__(self, around: Neighborhoods, change: FloatArray) -> LeftOut:
        """Return the affinities after the squared distances have changed by ``change`` (m, k)."""
        before = around.squares
        unions = [self._union(around, np.sqrt(np.maximum(squares, 0.0))) for squares in (before, before + change)]
        ratio = np.divide(unions[1], unions[0], out=np.zeros_like(before), where=unions[0] > 0)
        weights = np.where(around.listed, self.weights[around.entries] * ratio, 0.0)
        return LeftOut(around.own, around.near, weights)

    def _union(self, around: Neighborhoods, lengths: FloatArray) -> FloatArray:
        ends = around.own[:, None], around.near
        ours, theirs = (np.exp(-np.maximum(lengths - self.rho[i], 0.0) / self.sigma[i]) for i in ends)
        ours = np.where(self.listed_forward[around.entries], ours, 0.0)
        theirs = np.where(self.listed_backward[around.entries], theirs, 0.0)
        return ours + theirs - ours * theirs


def _along(affinities: Any, graph: NeighborGraph, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values of a graph's edges along the entries (i, j) of an affinity matrix: of i -> j and of j -> i."""
    n = graph.n_points
    keys = graph.rows().astype(np.int64) * n + graph.indices
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(affinities.indptr))
    columns = affinities.indices.astype(np.int64)

    def value_at(queries: IntArray) -> FloatArray:
        positions = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
        return np.where(keys[positions] == queries, values[positions], 0.0)

    return value_at(rows * n + columns), value_at(columns * n + rows)
