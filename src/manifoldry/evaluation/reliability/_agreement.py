"""Agreement of two embeddings of the same points, overall and point by point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.evaluation.metrics._distortion import LocalDistortion, distortions_of
from manifoldry.graph._pairwise import as_points
from manifoldry.graph._search import NeighborRule, neighbor_graph

AGREEMENT_LEVEL = 0.05
"""A point agrees if unrelated embeddings would share as many of its neighbors less often than this."""


N_RATIO_PAIRS = 20_000
"""Pairs of points whose distances give the scale: their median ratio is known to about 1 %."""
MIN_DISPLACEMENT = 0.01
"""Displacements below this share of the spread have equal weight in the alignment: they cannot be seen."""
N_ALIGNMENT_STARTS = 50
"""Fits of a few random points from which the alignment may start: if half of the points moved, six are right."""
MAX_ALIGNMENT_STEPS, ALIGNMENT_TOL = 100, 1e-6
"""Maximum number of steps of the alignment, and the relative gain at which it ends; 10 to 30 steps are usual."""


@dataclass(frozen=True, repr=False)
class Agreement:
    """How far two embeddings of n points agree, overall and point by point; printed, a short text.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbors compared.
    first, second : ndarray of shape (n, q)
        The first embedding centered, the second aligned to it, in units of their spread (root mean squared distance
        from the mean): to be drawn on top of each other.
    correlation : float
        Procrustes correlation, 0 to 1: 1 if they are the same up to rotation, reflection, scale and shift.
    displacements : ndarray of shape (n,)
        Distance of each point's two positions, as a share of the spread.
    common : ndarray of shape (n,)
        Share of each point's nearest neighbors in the one that are nearest neighbors in the other.
    p_values : ndarray of shape (n,)
        Probability that unrelated embeddings share as many neighbors of this point, or more.
    distortion : LocalDistortion or None
        The local distortion of the map from the first to the second; None if there are too few neighbors for it.
    """

    n_neighbors: int
    first: FloatArray
    second: FloatArray
    correlation: float
    displacements: FloatArray
    common: FloatArray
    p_values: FloatArray
    distortion: LocalDistortion | None

    @property
    def disagree(self) -> Array:
        """Points (n,) whose common neighbors are no more than by chance, at a level of 5 %."""
        return self.p_values > AGREEMENT_LEVEL

    @property
    def chance(self) -> float:
        """The share of common neighbors in unrelated embeddings."""
        return self.n_neighbors / (len(self.common) - 1)

    def __repr__(self) -> str:
        return str(self).replace("\n", " ")

    def __str__(self) -> str:
        """Return the overall agreement, the common neighbors, and the points that disagree."""
        n, disagree = len(self.common), self.disagree
        lines = [
            f"Two embeddings of {n:,} points, {self.n_neighbors} neighbors compared.",
            f"As a whole they agree with correlation {self.correlation:.3f} (1: the same up to rotation and scale); "
            f"half of the points move by less than {np.median(self.displacements):.2f} of the spread.",
            f"A point shares {self.common.mean():.0%} of its neighbors; by chance it would be {self.chance:.1%}.",
        ]
        if disagree.any():
            lines.append(
                f"{disagree.sum():,} points ({disagree.mean():.1%}) have other neighbors in the one than in the other, "
                "no more alike than by chance: see disagree."
            )
        else:
            lines.append("Every point shares more of its neighbors than by chance.")
        return "\n".join(lines)


def agreement(Y1: Any, Y2: Any, *, n_neighbors: int = 15, n_jobs: int | None = None) -> Agreement:
    r"""Compare two embeddings of the same points, such as two methods, two seeds, or ours and another library's.

    The second is scaled, rotated or mirrored, and shifted onto the first so that the sum of the displacements is least,
    not that of their squares: points that stayed in place are aligned, and those that moved stand out. The scale is the
    median ratio of distances. The overall correlation is that of least squares: with both embeddings centered and of
    norm 1, the sum of the singular values of :math:`Y_1^T Y_2`. Neighbors are compared without any alignment: for
    unrelated embeddings the number of common neighbors is hypergeometric with mean :math:`k^2 / (n - 1)`.

    Parameters
    ----------
    Y1 : array-like of shape (n, p)
        An embedding.
    Y2 : array-like of shape (n, q)
        Another one, with the same points in the same order; q may differ from p.
    n_neighbors : int
        Number of neighbors, below n.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Returns
    -------
    Agreement
        Overall ``correlation``; per point ``displacements``, ``common`` neighbors, ``p_values`` and ``distortion``; and
        ``disagree``, the points whose neighbors are no more alike than by chance.

    Notes
    -----
    Exchanging the two changes nothing but the frame of the aligned points and the direction of the distortion.
    A cluster that moved as a whole keeps its neighbors and has large displacements; a point that moved to another
    cluster has lost both.

    References: schonemann1966, peresneto2001

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.random.default_rng(0).normal(size=(100, 2))
    >>> result = agreement(Y, 3.0 - 2.0 * Y[:, ::-1])
    >>> round(result.correlation, 12), float(result.common.mean()), int(result.disagree.sum())
    (1.0, 1.0, 0)
    """
    pair = as_points("Y1", Y1), as_points("Y2", Y2)
    n = len(pair[0])
    if len(pair[1]) != n:
        raise ValueError(
            f"Y1 and Y2 must have one row per point; got {n} and {len(pair[1])} rows: pass the same points in both."
        )
    check.enough_points(n, 3)
    because = f" for {n} points (a point is not its own neighbor)"
    k = check.integer("n_neighbors", n_neighbors, 1, n - 1, because)
    first, second = (_standard(name, Y) for name, Y in zip(("Y1", "Y2"), pair, strict=True))
    run = Run(0, n_jobs)
    near, also_near = (_neighbors(Y, k, run) for Y in (first, second))
    shared = _common(near, also_near, n)
    width = max(first.shape[1], second.shape[1])
    planes = [np.pad(Y, ((0, 0), (0, width - Y.shape[1]))) for Y in (first, second)]
    correlation = float(np.linalg.svd(planes[0].T @ planes[1] / n, compute_uv=False).sum())
    before, after = _aligned(planes[0], planes[1], run.rng("pairs"))
    distortion = None
    if k > min(first.shape[1], second.shape[1]):
        distortion = distortions_of(before[:, : first.shape[1]], [after], np.arange(n), near, "euclidean", run)[0]
    return Agreement(
        k,
        before,
        after,
        min(correlation, 1.0),
        np.linalg.norm(before - after, axis=1),
        shared / k,
        _chances(shared, k, n),
        distortion,
    )


def _aligned(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return both in one unit and frame, the sum of displacements least over rotations, reflections and shifts."""
    ratio = _median_ratio(first, second, rng)
    # Both have a spread of 1; in a unit between them, neither is preferred.
    first, second = first * np.sqrt(ratio), second / np.sqrt(ratio)
    n, width = first.shape
    # A distant group that moved can rotate the fit of all points the wrong way: also start from fits of a few points.
    subsets = np.zeros((1 + N_ALIGNMENT_STARTS, n))
    subsets[0] = 1.0
    for i in range(1, len(subsets)):
        subsets[i, rng.choice(n, min(n, width + 1), replace=False)] = 1.0
    starts = (_turned(first, second, weights) for weights in subsets)
    moved = min(starts, key=lambda Y: float(np.linalg.norm(first - Y, axis=1).sum()))
    total = np.inf
    for _ in range(MAX_ALIGNMENT_STEPS):
        distances = np.linalg.norm(first - moved, axis=1)
        before, total = total, float(distances.sum())
        if before - total <= ALIGNMENT_TOL * total:
            break
        moved = _turned(first, second, 1.0 / np.maximum(distances, MIN_DISPLACEMENT))
    return first, moved


def _turned(first: FloatArray, second: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the second, rotated or mirrored and shifted onto the first by weighted least squares."""
    one, other = (Y - weights @ Y / weights.sum() for Y in (first, second))
    left, _, right = np.linalg.svd(other.T @ (weights[:, None] * one))
    return other @ (left @ right) + (first - one)


def _median_ratio(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> float:
    """Return the median ratio of distances of random pairs, second to first; 1 if no pair is distinct in both."""
    one, other = rng.integers(len(first), size=(2, N_RATIO_PAIRS))
    lengths, other_lengths = (np.linalg.norm(Y[one] - Y[other], axis=1) for Y in (first, second))
    both = (lengths > 0) & (other_lengths > 0)
    return float(np.exp(np.median(np.log(other_lengths[both] / lengths[both])))) if both.any() else 1.0


def _standard(name: str, Y: FloatArray) -> FloatArray:
    """Return the points centered, at root mean squared distance 1 from their mean."""
    centered = Y - Y[:1]
    centered = centered - centered.mean(axis=0)
    largest = float(np.abs(centered).max())
    if largest == 0:
        raise ValueError(f"All {len(Y)} points of {name} coincide, so there is nothing to compare; check it.")
    centered = centered / largest  # squares of very small or large numbers leave the range
    return centered / np.sqrt(np.mean(np.square(centered).sum(axis=1)))


def _neighbors(Y: FloatArray, k: int, run: Run) -> IntArray:
    graph, _ = neighbor_graph(Y, NeighborRule(k, search="exact").resolve(len(Y)), run)
    return graph.indices.reshape(len(Y), k).astype(np.int64)


def _common(first: IntArray, second: IntArray, n: int) -> IntArray:
    """Return the number of points that both lists (n, k) of a row hold."""
    rows = np.arange(n)[:, None] * n
    both = np.isin(first + rows, second + rows)
    return np.count_nonzero(both, axis=1)


def _chances(common: IntArray, k: int, n: int) -> FloatArray:
    """Return the probability that two draws of k of n - 1 others have as many in common, or more."""
    from scipy.stats import hypergeom

    return hypergeom.sf(np.arange(k + 1) - 1, n - 1, k, k)[common]
