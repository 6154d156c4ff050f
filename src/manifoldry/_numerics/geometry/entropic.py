"""Entropic affinities: the conditional probabilities of SNE, with a given perplexity or bandwidth."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph

DEFAULT_PERPLEXITY = 30.0
NEIGHBORS_PER_PERPLEXITY = 3.0
"""Listed neighbors per unit of perplexity: beyond, the probabilities are below a few thousandths."""
ENTROPY_TOL = 1e-7
"""Error of a row's entropy in nats, which is the relative error of its perplexity."""
LISTS_PER_TASK = 4096
MAX_FLOAT64_PAIRS = 10_000_000
"""Listed pairs beyond which probabilities are kept in single precision."""


@dataclass(frozen=True)
class ConditionalProbabilities:
    r"""Conditional probabilities :math:`p_{j|i}` along the lists of a neighbor graph: rows of ``matrix``, with sum 1.

    ``bandwidths`` are the :math:`\sigma_i` of :math:`e^{-d_{ij}^2 / (2 \sigma_i^2)}`, a column for each of several
    perplexities. Of ``missed`` rows it could not be reached: too many equal distances, or too few neighbors.
    """

    matrix: csr_array
    bandwidths: FloatArray
    missed: int = 0

    def joint(self) -> csr_array:
        r"""Return :math:`p_{ij} = (p_{j|i} + p_{i|j}) / (2n)`: symmetric, with sum 1.

        Examples
        --------
        >>> import numpy as np
        >>> pair = NeighborGraph(np.array([0, 1, 2]), np.array([1, 0]), np.ones(2))
        >>> fixed_bandwidth_probabilities(pair, 1.0).joint().toarray().tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        both = csr_array(self.matrix + self.matrix.T)
        both.sort_indices()
        both.data /= 2 * both.shape[0]
        return both


def joint_probabilities(affinities: Any) -> csr_array:
    """Return given symmetric affinities as joint probabilities: without the diagonal, with sum 1.

    Examples
    --------
    >>> joint_probabilities(np.array([[5.0, 3.0], [3.0, 0.0]])).toarray().tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    joint = csr_array(affinities, dtype=np.float64, copy=True)
    joint.setdiag(0.0)
    joint.eliminate_zeros()
    joint.sort_indices()
    joint.data /= joint.sum()
    return joint


def resolve_perplexities(perplexity: Any, n_points: int) -> list[float]:
    """Return the perplexities for so many points; refuse those that no choice among all the others can have."""
    if isinstance(perplexity, str):
        return [max(1.0, min(DEFAULT_PERPLEXITY, (n_points - 1) / NEIGHBORS_PER_PERPLEXITY))]
    single = isinstance(perplexity, numbers.Real)
    wanted = [perplexity] if single else list(perplexity) if isinstance(perplexity, (Sequence, np.ndarray)) else []
    if not wanted:
        raise ValueError(f"perplexity must be a number, several, or 'auto'; got {perplexity!r}.")
    for value in wanted:
        if check.number("perplexity", value, 1.0) > n_points - 1:
            raise ValueError(
                f"perplexity must be at most n - 1 = {n_points - 1}, that of choosing among all other points; got "
                f"{value:g}: a third of it is the most that is useful."
            )
    return [float(value) for value in wanted]


def check_list_length(perplexity: Any, n_neighbors: int, n_points: int) -> None:
    """Refuse lists of neighbors that are shorter than a given perplexity."""
    wanted = max(resolve_perplexities(perplexity, n_points))
    if not isinstance(perplexity, str) and n_neighbors < wanted:
        raise ValueError(
            f"perplexity {wanted:g} needs lists of at least that many neighbors; got {n_neighbors}: list about three "
            "times as many."
        )


def conditional_probabilities(
    graph: NeighborGraph, perplexity: Any, bandwidth: Any, run: Run
) -> ConditionalProbabilities:
    """Return the probabilities of a perplexity (a number, several or "auto"), or of a bandwidth if one is given.

    With "auto" the perplexity is what short lists, as a given graph may have, admit.
    """
    if bandwidth is not None:
        return fixed_bandwidth_probabilities(graph, bandwidth)
    wanted = resolve_perplexities(perplexity, graph.n_points)
    listed = int(np.median(graph.degrees))
    check_list_length(perplexity, listed, graph.n_points)
    if isinstance(perplexity, str):
        wanted = [max(1.0, min(wanted[0], listed / NEIGHBORS_PER_PERPLEXITY))]
    return perplexity_probabilities(graph, wanted, run)


def perplexity_probabilities(graph: NeighborGraph, perplexities: Sequence[float], run: Run) -> ConditionalProbabilities:
    r"""Return probabilities of perplexity :math:`2^{H_i}`, :math:`H_i = -\sum_j p_{j|i} \log_2 p_{j|i}`, as wanted.

    The lists must be several times longer than the perplexity. Of several perplexities the probabilities are averaged,
    so that near and far neighbors both count.

    References: hinton2002, lee2015.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry._core.run import Run
    >>> ends = np.arange(0, 13, 3)
    >>> square = NeighborGraph(ends, np.array([1, 3, 2, 0, 2, 3, 1, 3, 0, 0, 2, 1]), np.tile([1, 1, 2**0.5], 4))
    >>> conditional = perplexity_probabilities(square, [2.5], Run())
    >>> p = conditional.matrix.data[:3]
    >>> round(float(np.exp(-(p * np.log(p)).sum())), 5)
    2.5
    """
    with run.stage("affinities"):
        mean, sigmas, missed = np.zeros(graph.n_edges), [], np.zeros(graph.n_points, dtype=bool)
        for wanted in perplexities:
            p, sigma, reached = probability_rows(graph.indptr, graph.lengths, wanted, run)
            mean += p / len(perplexities)
            sigmas.append(sigma)
            missed |= ~reached
        bandwidths = sigmas[0] if len(sigmas) == 1 else np.column_stack(sigmas)
        return ConditionalProbabilities(_rows(graph, mean), bandwidths, int(np.count_nonzero(missed)))


def probability_rows(
    indptr: IntArray, lengths: FloatArray, perplexity: float, run: Run
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return probabilities along compressed rows of distances, bandwidths, and which rows reached the perplexity."""
    from manifoldry._numerics.kernels.entropic import perplexity_rows

    n = len(indptr) - 1
    ends = np.ascontiguousarray(indptr, dtype=np.int64)
    distances = np.ascontiguousarray(lengths, dtype=np.float64)
    p, precision, reached = np.empty(len(distances)), np.empty(n), np.empty(n, dtype=np.uint8)
    results = p, precision, reached

    def block(lo: int, hi: int) -> None:
        perplexity_rows(ends, distances, float(perplexity), ENTROPY_TOL, *results, lo, hi)

    run.map(block, run.ranges(n, LISTS_PER_TASK))
    return p, np.sqrt(0.5 / precision), reached == 1


def fixed_bandwidth_probabilities(graph: NeighborGraph, bandwidth: float | FloatArray) -> ConditionalProbabilities:
    r"""Return :math:`p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}` with given bandwidths, one or one each.

    Of a row whose neighbors are all too far for its bandwidth, the nearest have all the probability.
    """
    sigma = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (graph.n_points,))
    rows = graph.rows()
    exponent = 0.5 * (graph.lengths / sigma[rows]) ** 2
    starts = graph.indptr[:-1]
    exponent -= np.minimum.reduceat(exponent, starts)[rows]
    p = np.exp(-exponent)
    return ConditionalProbabilities(_rows(graph, p / np.add.reduceat(p, starts)[rows]), np.array(sigma))


def negative_entropy(p: FloatArray) -> float:
    """Return the sum of p ln p.

    Examples
    --------
    >>> round(negative_entropy(np.array([0.5, 0.5, 0.0])), 4)
    -0.6931
    """
    return float((p * np.log(p, where=p > 0, out=np.zeros_like(p))).sum())


def _rows(graph: NeighborGraph, p: FloatArray) -> csr_array:
    n = graph.n_points
    index = np.int32 if max(n, graph.n_edges) < 2**31 else np.int64
    p = p.astype(np.float32) if len(p) > MAX_FLOAT64_PAIRS else p
    return csr_array((p, graph.indices.astype(index), graph.indptr.astype(index)), shape=(n, n))
