"""Fuzzy simplicial sets: local metrics put together by fuzzy union, and intersected with labels or targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import curve_fit
from scipy.sparse import csr_array, diags_array

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._search import NeighborRule, neighbor_graph

N_FUZZY_NEIGHBORS = 15
"""Neighbors of each point where nothing is said, as in umap-learn."""
LISTS_PER_TASK = 4096
MIN_SIGMA_SHARE = 1e-3
"""Least sigma, as a share of a mean distance."""
UNKNOWN_DISTANCE = 1.0
"""Distance, in units of the exponent, of a point whose label is unknown from every other."""
LABEL_DISTANCE, MAX_LABEL_DISTANCE = 2.5, 1e12
"""The same of two different labels, at a target weight of 0 and of 1; between it grows as 1 / (1 - weight)."""
MIN_ABSENT, MAX_ABSENT = 1e-8, 1e-4
"""Bounds of the membership that stands for an edge which one of two sets lacks, half its weakest else."""


@dataclass(frozen=True)
class MembershipStrengths:
    """Membership of the listed neighbors in the local fuzzy set of each point: ``values`` from 0 to 1, in float32.

    ``rho`` is the distance up to which membership is 1, ``sigma`` the scale of its decay beyond, shape (n,).
    """

    values: Array
    rho: FloatArray
    sigma: FloatArray


def membership_strengths(
    indptr: IntArray, lengths: FloatArray, run: Run, local_connectivity: float = 1.0, mean: float | None = None
) -> MembershipStrengths:
    r"""Return :math:`w_{ij} = \exp(-\max(0, d_{ij} - \rho_i) / \sigma_i)`, rows summing to :math:`\log_2(k_i + 1)`.

    Distances stand in compressed rows, ascending in each. :math:`\rho_i` is the distance to the
    ``local_connectivity``-th nearest neighbor that does not coincide with i, linear in between; copies of i have
    strength 1. Where it is 0, a thousandth of ``mean`` (by default `mean_length`) is the least :math:`\sigma_i`.

    References: mcinnes2018.
    """
    from manifoldry._numerics.kernels.fuzzy import membership_rows

    indptr = np.ascontiguousarray(indptr, dtype=np.int64)
    lengths = np.ascontiguousarray(lengths, dtype=np.float64)
    n = len(indptr) - 1
    values = np.empty(len(lengths), dtype=np.float32)
    rho, sigma = np.empty(n), np.empty(n)
    mean = mean_length(indptr, lengths) if mean is None else mean
    rows = indptr, lengths, float(local_connectivity), MIN_SIGMA_SHARE, mean, values, rho, sigma
    run.map(lambda lo, hi: membership_rows(*rows, lo, hi), run.ranges(n, LISTS_PER_TASK))
    return MembershipStrengths(values, rho, sigma)


def mean_length(indptr: IntArray, lengths: FloatArray) -> float:
    """Return the mean length, every point counted once at distance 0 from itself."""
    return float(lengths.sum(dtype=np.float64) / (len(lengths) + len(indptr) - 1))


def fuzzy_simplicial_set(
    graph: NeighborGraph, run: Run, local_connectivity: float = 1.0, set_op_mix_ratio: float = 1.0
) -> csr_array:
    """Return the fuzzy simplicial set of a neighbor graph: the `fuzzy_union` of its `membership_strengths`.

    Examples
    --------
    >>> import numpy as np
    >>> lists = NeighborGraph.from_rows(np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 3], [1, 2], [2, 3]]))
    >>> fuzzy_simplicial_set(lists, Run()).toarray().astype(float).round(2).tolist()
    [[0.0, 1.0, 0.83], [1.0, 0.0, 1.0], [0.83, 1.0, 0.0]]
    """
    graph = graph if _ascending(graph) else NeighborGraph.from_sparse(graph.to_sparse())
    values = membership_strengths(graph.indptr, graph.lengths, run, local_connectivity).values
    # Twice as many entries after the union; other libraries' clusterings take 32-bit row ends only.
    index = np.int32 if 2 * graph.n_edges < 2**31 else np.int64
    rows = values, graph.indices.astype(index), graph.indptr.astype(index)
    return fuzzy_union(csr_array(rows, shape=(graph.n_points,) * 2), set_op_mix_ratio)


def fuzzy_union(A: csr_array, mix: float = 1.0) -> csr_array:
    r"""Return :math:`m (A + A^T - A \circ A^T) + (1 - m) A \circ A^T`: the fuzzy union, intersection, or a mixture."""
    T = A.T.tocsr()
    both = A.multiply(T)
    union = (A + T) - both if mix == 1.0 else mix * (A + T) + (1.0 - 2.0 * mix) * both
    union = csr_array(union, dtype=A.dtype)
    union.eliminate_zeros()
    union.sort_indices()
    return union


def intersect_labels(fuzzy: csr_array, labels: Array, known: Array, weight: float) -> csr_array:
    """Return a fuzzy set weakened between different labels, and a little where a label is not ``known`` (mcinnes2018).

    With a ``weight`` of 0 the points count most, with 1 the labels alone.
    """
    rows = np.repeat(np.arange(fuzzy.shape[0]), np.diff(fuzzy.indptr))
    columns = fuzzy.indices
    unknown = ~(known[rows] & known[columns])
    different = ~unknown & (labels[rows] != labels[columns])
    far = LABEL_DISTANCE / (1.0 - weight) if weight < 1.0 else MAX_LABEL_DISTANCE
    factor = np.where(unknown, np.exp(-UNKNOWN_DISTANCE), np.where(different, np.exp(-far), 1.0))
    return _reset_local_connectivity(csr_array((fuzzy.data * factor, columns, fuzzy.indptr), shape=fuzzy.shape))


def intersect_targets(
    fuzzy: csr_array, targets: FloatArray, known: Array, weight: float, n_neighbors: int, run: Run
) -> csr_array:
    """Return the intersection with the fuzzy set of numeric targets (n, m), by powers of both that ``weight`` balances.

    A pair with an unknown end gets the factor exp(-1), as with labels (mcinnes2018).
    """
    members = np.flatnonzero(known)
    n = fuzzy.shape[0]
    rule = NeighborRule(min(n_neighbors, len(members) - 1), search="exact").resolve(len(members))
    found = fuzzy_simplicial_set(neighbor_graph(targets[members], rule, run)[0], run).tocoo()
    right = csr_array((found.data, (members[found.coords[0]], members[found.coords[1]])), shape=fuzzy.shape)
    # Every pair of either set; a stored value of one plus nothing of the other marks who has it.
    pattern = csr_array(abs(fuzzy.sign()) + abs(right.sign()))
    rows, columns = np.repeat(np.arange(n), np.diff(pattern.indptr)), pattern.indices
    mine = _values(fuzzy, rows, columns, max(float(fuzzy.data.min()) / 2, MIN_ABSENT))
    theirs = _values(right, rows, columns, min(max(float(right.data.min()) / 2, MIN_ABSENT), MAX_ABSENT))
    theirs = np.where(known[rows] & known[columns], theirs, np.exp(-UNKNOWN_DISTANCE))
    if weight < 0.5:
        met = mine * theirs ** (weight / (1.0 - weight))
    else:
        met = mine ** ((1.0 - weight) / weight) * theirs
    return _reset_local_connectivity(csr_array((met.astype(np.float32), columns, pattern.indptr), shape=fuzzy.shape))


def _values(matrix: csr_array, rows: Array, columns: Array, absent: float) -> FloatArray:
    """Return the entries at the given places, ``absent`` where nothing is stored."""
    found = np.asarray(matrix[rows, columns], dtype=np.float64).reshape(-1)
    return np.where(found > 0, found, absent)


def _reset_local_connectivity(fuzzy: csr_array) -> csr_array:
    """Return the union after each point's strongest membership is made 1 again: everyone has a certain neighbor."""
    strongest = np.asarray(fuzzy.max(axis=1).todense(), dtype=np.float64).reshape(-1)
    scale = np.divide(1.0, strongest, out=np.zeros_like(strongest), where=strongest > 0)
    return fuzzy_union(csr_array(diags_array(scale) @ fuzzy, dtype=np.float32))


def _ascending(graph: NeighborGraph) -> bool:
    inside = np.ones(graph.n_edges, dtype=bool)
    inside[graph.indptr[:-1][graph.degrees > 0]] = False
    return not (inside[1:] & (np.diff(graph.lengths) < 0)).any()


def find_ab_params(min_dist: float, spread: float) -> tuple[float, float]:
    r"""Return a, b for which :math:`1 / (1 + a x^{2b})` is nearest to a step of width ``min_dist`` and its decay.

    The least squares fit, at 300 places up to 3 spreads, to 1 below ``min_dist`` and
    :math:`e^{-(x - \mathrm{min\_dist}) / \mathrm{spread}}` beyond, over the logarithms of a and b.

    Examples
    --------
    >>> [round(value, 3) for value in find_ab_params(0.1, 1.0)]
    [1.577, 0.895]
    """
    x = np.linspace(0, 3 * spread, 300)[1:]
    wanted = np.where(x < min_dist, 1.0, np.exp(-(x - min_dist) / spread))

    def kernel(x: FloatArray, log_a: float, log_b: float) -> FloatArray:
        return 1 / (1 + np.exp(log_a + 2 * np.exp(log_b) * np.log(x)))

    logs, _ = curve_fit(kernel, x, wanted, (-2 * np.log(spread), 0.0), ftol=1e-12, xtol=1e-12)
    a, b = np.exp(logs)
    return float(a), float(b)
