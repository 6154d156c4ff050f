"""Fuzzy simplicial sets: neighborhoods measured each by its own ruler, put together, and met with labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array

from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

ROWS = 4096
FLOOR = 1e-3
"""Least bandwidth, as a share of a mean distance."""
UNKNOWN = 1.0
"""Distance, in units of the exponent, of a point whose label is unknown from every other."""
FAR = 2.5
"""The same of two different labels, at a target weight of 0; it grows as 1 / (1 - weight)."""
BEYOND = 1e12
FAINTEST, FAINT = 1e-8, 1e-4


@dataclass(frozen=True)
class Strengths:
    """How strongly each point holds on to its listed neighbors.

    Parameters
    ----------
    values : ndarray of float32
        One for each listed neighbor, from 0 to 1.
    rho, sigma : ndarray of shape (n,)
        Distance that counts as none, and the unit of what is beyond.
    """

    values: FloatArray
    rho: FloatArray
    sigma: FloatArray


def strengths(
    indptr: IntArray, lengths: FloatArray, run: Run, local_connectivity: float = 1.0, typical: float | None = None
) -> Strengths:
    r"""Return :math:`w_{ij} = \exp(-\max(0, d_{ij} - \rho_i) / \sigma_i)`, rows summing to :math:`\log_2(k_i + 1)`.

    Parameters
    ----------
    indptr, lengths : ndarray
        Distances to the listed neighbors in compressed rows, ascending in each.
    run : Run
        Threads.
    local_connectivity : float
        :math:`\rho_i` is the distance to the so-many-th nearest neighbor that does not coincide with i, linear in
        between; 0 for :math:`\rho_i = 0`. Copies of i are held with strength 1.
    typical : float, optional
        A usual distance, a thousandth of which is the least :math:`\sigma_i` where :math:`\rho_i = 0`; by default
        `typical_length`.

    Notes
    -----
    References: mcinnes2018.
    """
    from manifoldry.compiled.fuzzy import strength_rows

    indptr = np.ascontiguousarray(indptr, dtype=np.int64)
    lengths = np.ascontiguousarray(lengths, dtype=np.float64)
    n = len(indptr) - 1
    values = np.empty(len(lengths), dtype=np.float32)
    rho, sigma = np.empty(n), np.empty(n)
    usual = typical_length(indptr, lengths) if typical is None else typical
    rows = indptr, lengths, float(local_connectivity), FLOOR, usual, values, rho, sigma
    run.map(lambda lo, hi: strength_rows(*rows, lo, hi), run.ranges(n, ROWS))
    return Strengths(values, rho, sigma)


def typical_length(indptr: IntArray, lengths: FloatArray) -> float:
    """Return the mean length, every point counted once at distance 0 from itself."""
    return float(lengths.sum(dtype=np.float64) / (len(lengths) + len(indptr) - 1))


def fuzzy_set(
    graph: NeighborGraph, run: Run, local_connectivity: float = 1.0, set_op_mix_ratio: float = 1.0
) -> csr_array:
    """Return the symmetric affinities of a neighbor graph: the `fuzzy_union` of its points' own `strengths`.

    Examples
    --------
    >>> import numpy as np
    >>> lists = NeighborGraph.from_rows(np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 3], [1, 2], [2, 3]]))
    >>> fuzzy_set(lists, Run()).toarray().astype(float).round(2).tolist()
    [[0.0, 1.0, 0.83], [1.0, 0.0, 1.0], [0.83, 1.0, 0.0]]
    """
    graph = graph if _ascending(graph) else NeighborGraph.from_sparse(graph.to_sparse())
    values = strengths(graph.indptr, graph.lengths, run, local_connectivity).values
    # Twice as many entries after the union; other people's clusterings take 32-bit row ends only.
    index = np.int32 if 2 * graph.n_edges < 2**31 else np.int64
    rows = values, graph.indices.astype(index), graph.indptr.astype(index)
    return fuzzy_union(csr_array(rows, shape=(graph.n_points,) * 2), set_op_mix_ratio)


def fuzzy_union(A: csr_array, mix: float = 1.0) -> csr_array:
    r"""Return :math:`m (A + A^T - A \circ A^T) + (1 - m) A \circ A^T`: joined if either end says so, or both."""
    T = A.T.tocsr()
    both = A.multiply(T)
    union = (A + T) - both if mix == 1.0 else mix * (A + T) + (1.0 - 2.0 * mix) * both
    union = csr_array(union, dtype=A.dtype)
    union.eliminate_zeros()
    union.sort_indices()
    return union


def meet_labels(affinities: csr_array, labels: Array, known: Array, weight: float) -> csr_array:
    """Return the affinities loosened between different labels, and a little where a label is not known.

    Parameters
    ----------
    affinities : csr_array of shape (n, n)
        A fuzzy set.
    labels, known : ndarray of shape (n,)
        Classes, and of which points they are known.
    weight : float
        0 for the affinities to count most, 1 for the labels alone.

    Notes
    -----
    References: mcinnes2018.
    """
    rows = np.repeat(np.arange(affinities.shape[0]), np.diff(affinities.indptr))
    columns = affinities.indices
    unsure = ~(known[rows] & known[columns])
    apart = ~unsure & (labels[rows] != labels[columns])
    far = FAR / (1.0 - weight) if weight < 1.0 else BEYOND
    factor = np.where(unsure, np.exp(-UNKNOWN), np.where(apart, np.exp(-far), 1.0))
    return _reconnected(csr_array((affinities.data * factor, columns, affinities.indptr), shape=affinities.shape))


def meet_targets(
    affinities: csr_array, targets: FloatArray, known: Array, weight: float, n_neighbors: int, run: Run
) -> csr_array:
    """Return the intersection with the fuzzy set of numeric targets (n, m), by powers of both that ``weight`` balances.

    A pair with an unknown end is met with exp(-1), as with labels.

    Notes
    -----
    References: mcinnes2018.
    """
    members = np.flatnonzero(known)
    n = affinities.shape[0]
    rule = NeighborRule(min(n_neighbors, len(members) - 1), search="exact").resolve(len(members))
    found = fuzzy_set(neighbor_graph(targets[members], rule, run)[0], run).tocoo()
    right = csr_array((found.data, (members[found.coords[0]], members[found.coords[1]])), shape=affinities.shape)
    # Every pair of either set; a stored value of one plus nothing of the other marks who has it.
    pattern = csr_array(abs(affinities.sign()) + abs(right.sign()))
    rows, columns = np.repeat(np.arange(n), np.diff(pattern.indptr)), pattern.indices
    mine = _values(affinities, rows, columns, max(float(affinities.data.min()) / 2, FAINTEST))
    theirs = _values(right, rows, columns, min(max(float(right.data.min()) / 2, FAINTEST), FAINT))
    theirs = np.where(known[rows] & known[columns], theirs, np.exp(-UNKNOWN))
    if weight < 0.5:
        met = mine * theirs ** (weight / (1.0 - weight))
    else:
        met = mine ** ((1.0 - weight) / weight) * theirs
    return _reconnected(csr_array((met.astype(np.float32), columns, pattern.indptr), shape=affinities.shape))


def _values(matrix: csr_array, rows: Array, columns: Array, absent: float) -> FloatArray:
    """Return the entries at the given places, ``absent`` where nothing is stored."""
    found = np.asarray(matrix[rows, columns], dtype=np.float64).reshape(-1)
    return np.where(found > 0, found, absent)


def _reconnected(affinities: csr_array) -> csr_array:
    """Return the union after each point's strongest affinity is made 1 again: none is left without a sure neighbor."""
    strongest = np.asarray(affinities.max(axis=1).todense(), dtype=np.float64).reshape(-1)
    scale = np.divide(1.0, strongest, out=np.zeros_like(strongest), where=strongest > 0)
    return fuzzy_union(csr_array(diags_array(scale) @ affinities, dtype=np.float32))


def _ascending(graph: NeighborGraph) -> bool:
    inside = np.ones(graph.n_edges, dtype=bool)
    inside[graph.indptr[:-1][graph.degrees > 0]] = False
    return not (inside[1:] & (np.diff(graph.lengths) < 0)).any()


def curve(min_dist: float, spread: float) -> tuple[float, float]:
    r"""Return a, b for which :math:`1 / (1 + a x^{2b})` is nearest to a step of width ``min_dist`` and its decay.

    The least squares fit, at 300 places up to 3 spreads, to 1 below ``min_dist`` and
    :math:`e^{-(x - \mathrm{min\_dist}) / \mathrm{spread}}` beyond, by Levenberg's method on the logarithms of a and b.

    Examples
    --------
    >>> [round(value, 3) for value in curve(0.1, 1.0)]
    [1.577, 0.895]
    """
    x = np.linspace(0, 3 * spread, 300)[1:]
    wanted = np.where(x < min_dist, 1.0, np.exp(-(x - min_dist) / spread))
    logs = np.log(x)

    def fit(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        power = np.exp(p[0] + 2 * np.exp(p[1]) * logs)
        value = 1 / (1 + power)
        slope = -power * value**2
        return value - wanted, np.column_stack([slope, slope * 2 * np.exp(p[1]) * logs])

    p = np.array([-2 * np.log(spread), 0.0])
    damping = 1e-3
    off, J = fit(p)
    for _ in range(200):
        H = J.T @ J
        step = np.linalg.solve(H + damping * np.diag(H.diagonal()), -J.T @ off)
        trial, slope = fit(p + step)
        if not trial @ trial < off @ off:
            damping *= 4
            if damping > 1e12:
                break
            continue
        p, off, J, damping = p + step, trial, slope, damping / 4
        if np.abs(step).max() < 1e-12:
            break
    a, b = np.exp(p)
    return float(a), float(b)
