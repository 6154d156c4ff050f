r"""Entropic affinities: how likely a point would choose each neighbor, with as many real choices as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph

REACH = 3.0
"""Listed neighbors per unit of perplexity: beyond, the probabilities are below a few thousandths."""
TOLERANCE = 1e-7
"""Error of a row's entropy in nats, which is the relative error of its perplexity."""
ROWS = 4096
SINGLE_ABOVE = 10_000_000
"""Listed pairs beyond which probabilities are kept in single precision."""


@dataclass(frozen=True)
class Choices:
    r"""Conditional probabilities :math:`p_{j|i}` along the lists of a neighbor graph.

    Parameters
    ----------
    matrix : csr_array of shape (n, n)
        Row i holds the probabilities of point i's neighbors; rows sum to 1.
    bandwidths : ndarray of shape (n,) or (n, m)
        The :math:`\sigma_i` of :math:`e^{-d_{ij}^2 / (2 \sigma_i^2)}`, a column for each perplexity.
    missed : int
        Rows whose perplexity could not be reached: too many equal distances, or too few neighbors.
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
        >>> fixed_choices(pair, 1.0).joint().toarray().tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        both = csr_array(self.matrix + self.matrix.T)
        both.sort_indices()
        both.data /= 2 * both.shape[0]
        return both


def perplexity_choices(graph: NeighborGraph, perplexities: Sequence[float], run: Run) -> Choices:
    r"""Return choices whose perplexity :math:`2^{H_i}`, :math:`H_i = -\sum_j p_{j|i} \log_2 p_{j|i}`, is as wanted.

    Of several perplexities the probabilities are averaged, so that near and far neighbors both count.

    Parameters
    ----------
    graph : NeighborGraph
        Lists of neighbors, several times longer than the perplexity.
    perplexities : sequence of float
        At least 1 each.
    run : Run
        Gets the stage "affinities".

    Notes
    -----
    References: hinton2002, lee2015.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry.run import Run
    >>> ends = np.arange(0, 13, 3)
    >>> square = NeighborGraph(ends, np.array([1, 3, 2, 0, 2, 3, 1, 3, 0, 0, 2, 1]), np.tile([1, 1, 2**0.5], 4))
    >>> choices = perplexity_choices(square, [2.5], Run())
    >>> p = choices.matrix.data[:3]
    >>> round(float(np.exp(-(p * np.log(p)).sum())), 5)
    2.5
    """
    with run.stage("affinities"):
        mean, sigmas, missed = np.zeros(graph.n_edges), [], np.zeros(graph.n_points, dtype=bool)
        for wanted in perplexities:
            p, sigma, reached = choice_rows(graph.indptr, graph.lengths, wanted, run)
            mean += p / len(perplexities)
            sigmas.append(sigma)
            missed |= ~reached
        bandwidths = sigmas[0] if len(sigmas) == 1 else np.column_stack(sigmas)
        return Choices(_rows(graph, mean), bandwidths, int(np.count_nonzero(missed)))


def choice_rows(
    indptr: IntArray, lengths: FloatArray, perplexity: float, run: Run
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return probabilities along compressed rows of distances, bandwidths, and which rows reached the perplexity."""
    from manifoldry.compiled.entropic import perplexity_rows

    n = len(indptr) - 1
    ends = np.ascontiguousarray(indptr, dtype=np.int64)
    distances = np.ascontiguousarray(lengths, dtype=np.float64)
    p, precision, reached = np.empty(len(distances)), np.empty(n), np.empty(n, dtype=np.uint8)
    results = p, precision, reached

    def block(lo: int, hi: int) -> None:
        perplexity_rows(ends, distances, float(perplexity), TOLERANCE, *results, lo, hi)

    run.map(block, run.ranges(n, ROWS))
    return p, np.sqrt(0.5 / precision), reached == 1


def fixed_choices(graph: NeighborGraph, bandwidth: float | FloatArray) -> Choices:
    r"""Return choices :math:`p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}` with given bandwidths, one or one each.

    A row whose neighbors are all too far for its bandwidth chooses among the nearest of them.
    """
    sigma = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (graph.n_points,))
    rows = graph.rows()
    exponent = 0.5 * (graph.lengths / sigma[rows]) ** 2
    starts = graph.indptr[:-1]
    exponent -= np.minimum.reduceat(exponent, starts)[rows]
    p = np.exp(-exponent)
    return Choices(_rows(graph, p / np.add.reduceat(p, starts)[rows]), np.array(sigma))


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
    p = p.astype(np.float32) if len(p) > SINGLE_ABOVE else p
    return csr_array((p, graph.indices.astype(index), graph.indptr.astype(index)), shape=(n, n))
