"""Affinities of neighbor embeddings: the conditional probabilities of SNE, and the fuzzy simplicial sets of UMAP."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit
from scipy.sparse import csr_array, diags_array

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._search import NeighborRule, neighbor_graph

DEFAULT_PERPLEXITY = 30.0
NEIGHBORS_PER_PERPLEXITY = 3.0
"""Listed neighbors per unit of perplexity: beyond, probabilities are below a few thousandths."""
ENTROPY_TOL = 1e-7  # error of a row's entropy in nats, which is the relative error of its perplexity
LISTS_PER_TASK, ENTRIES_PER_TASK = 4096, 2**17
N_MERGED_PARTS = 8  # parts of the rows of a union that are merged one after the other
MAX_FLOAT64_PAIRS = 10_000_000  # Listed pairs beyond which probabilities are in single precision


MAX_SERIAL_EDGES = 1_000_000
"""Number of edges up to which probabilities are merged by scipy: 40 ms, where loops compile for half a second."""


@dataclass(frozen=True)
class ConditionalProbabilities:
    r"""Conditional probabilities :math:`p_{j|i}` along the lists of a neighbor graph; rows sum to 1."""

    matrix: csr_array
    bandwidths: FloatArray  # sigma_i of exp(-d_ij^2 / (2 sigma_i^2)), a column for each of several perplexities
    missed: int = 0  # number of rows that could not reach the perplexity

    def joint(self, run: Run | None = None) -> csr_array:
        """Return :math:`p_{ij} = (p_{j|i} + p_{i|j}) / (2n)`: symmetric, with sum 1."""
        if self.matrix.nnz <= MAX_SERIAL_EDGES:
            mean = csr_array(0.5 * (self.matrix + self.matrix.T))
            mean.sort_indices()
        else:
            mean = fuzzy_union(self.matrix, run or Run(0), 0.5)
        mean.data /= mean.shape[0]
        return mean


@dataclass(frozen=True, eq=False)
class JointRows:
    """Joint probabilities on a GPU, in compressed rows; ``later`` computes those of a fitted model on the host."""

    indptr: Any
    indices: Any
    data: Any
    degrees: FloatArray  # sums of the rows, on the host
    later: Callable[[], csr_array]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return len(self.indptr) - 1, len(self.indptr) - 1


def host_matrix(joint: csr_array | JointRows, run: Run) -> csr_array:
    """Return joint probabilities as a matrix of the host."""
    if not isinstance(joint, JointRows):
        return joint
    gpu: Any = run.gpu
    return csr_array(tuple(gpu.host(part) for part in (joint.data, joint.indices, joint.indptr)), shape=joint.shape)


def joint_probabilities(affinities: Any) -> csr_array:
    """Return symmetric affinities as joint probabilities: without the diagonal, with sum 1."""
    joint = csr_array(affinities, dtype=np.float64, copy=True)
    joint.setdiag(0.0)
    joint.eliminate_zeros()
    joint.sort_indices()
    joint.data /= joint.sum()
    return joint


def resolve_perplexities(perplexity: Any, n_points: int) -> list[float]:
    """Return the perplexities for this number of points; raise an error for impossible ones."""
    if isinstance(perplexity, str):
        return [max(1.0, min(DEFAULT_PERPLEXITY, (n_points - 1) / NEIGHBORS_PER_PERPLEXITY))]
    single = isinstance(perplexity, numbers.Real)
    perplexities = (
        [perplexity] if single else list(perplexity) if isinstance(perplexity, (Sequence, np.ndarray)) else []
    )
    if not perplexities:
        raise ValueError(f"perplexity must be a number, several, or 'auto'; got {perplexity!r}.")
    for value in perplexities:
        if check.number("perplexity", value, 1.0) > n_points - 1:
            raise ValueError(
                f"perplexity must be at most n - 1 = {n_points - 1}, that of choosing among all other points; got "
                f"{value:g}: a third of it is the most that is useful."
            )
    return [float(value) for value in perplexities]


def check_list_length(perplexity: Any, n_neighbors: int, n_points: int) -> None:
    """Raise an error for lists of neighbors that are shorter than a given perplexity."""
    largest = max(resolve_perplexities(perplexity, n_points))
    if not isinstance(perplexity, str) and n_neighbors < largest:
        raise ValueError(
            f"perplexity {largest:g} needs lists of at least that many neighbors; got {n_neighbors}: list about three "
            "times as many."
        )


def conditional_probabilities(
    graph: NeighborGraph, perplexity: Any, bandwidth: Any, run: Run
) -> ConditionalProbabilities:
    """Return the probabilities of a perplexity (a number, several or "auto"), or of a bandwidth if one is given."""
    if bandwidth is not None:
        return fixed_bandwidth_probabilities(graph, bandwidth)
    perplexities = resolve_perplexities(perplexity, graph.n_points)
    listed = int(np.median(graph.degrees))
    check_list_length(perplexity, listed, graph.n_points)
    if isinstance(perplexity, str):
        perplexities = [max(1.0, min(perplexities[0], listed / NEIGHBORS_PER_PERPLEXITY))]
    return perplexity_probabilities(graph, perplexities, run)


def perplexity_probabilities(graph: NeighborGraph, perplexities: Sequence[float], run: Run) -> ConditionalProbabilities:
    r"""Return probabilities of perplexity :math:`2^{H_i}`, :math:`H_i = -\sum_j p_{j|i} \log_2 p_{j|i}`.

    Those of several perplexities are averaged, so that near and far neighbors both count (hinton2002, lee2015).
    """
    if run.gpu is not None:
        from manifoldry._numerics.gpu import affinities

        resident: Any = affinities.perplexity_probabilities(graph, perplexities, run)
        return cast(ConditionalProbabilities, resident)
    with run.stage("affinities"):
        mean, sigmas, missed = np.zeros(1), [], np.zeros(graph.n_points, dtype=bool)
        for perplexity in perplexities:
            p, sigma, reached = probability_rows(graph.indptr, graph.lengths, perplexity, run)
            p /= len(perplexities)
            mean = np.add(mean, p, out=p)
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
    r"""Return :math:`p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}` with one given bandwidth, or one per point."""
    sigma = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (graph.n_points,))
    rows = graph.rows()
    exponent = 0.5 * (graph.lengths / sigma[rows]) ** 2
    starts = graph.indptr[:-1]
    exponent -= np.minimum.reduceat(exponent, starts)[rows]
    p = np.exp(-exponent)
    return ConditionalProbabilities(_rows(graph, p / np.add.reduceat(p, starts)[rows]), np.array(sigma))


def joint_of_bandwidths(graph: NeighborGraph, bandwidths: FloatArray) -> csr_array:
    """Return the joint probabilities of bandwidths, the mean over their columns if there are several."""
    several = [fixed_bandwidth_probabilities(graph, sigma).matrix for sigma in np.atleast_2d(bandwidths.T)]
    mean = sum(matrix.data for matrix in several) / len(several)
    matrix = csr_array((mean, several[0].indices, several[0].indptr), shape=several[0].shape)
    return ConditionalProbabilities(matrix, bandwidths).joint()


def negative_entropy(p: Any, run: Run | None = None) -> float:
    """Return the sum of p ln p, of an array of any device."""

    def block(lo: int, hi: int) -> float:
        terms = np.maximum(p[lo:hi], float(np.finfo(p.dtype).tiny))
        return float(np.multiply(p[lo:hi], np.log(terms, out=terms), out=terms).sum(dtype=np.float64))

    run = run or Run(0, 1)
    return sum(run.map(block, run.ranges(len(p), ENTRIES_PER_TASK if isinstance(p, np.ndarray) else len(p))))


def _rows(graph: NeighborGraph, p: FloatArray) -> csr_array:
    n = graph.n_points
    index = np.int32 if max(n, graph.n_edges) < 2**31 else np.int64
    p = p.astype(np.float32) if len(p) > MAX_FLOAT64_PAIRS else p
    return csr_array((p, graph.indices.astype(index), graph.indptr.astype(index)), shape=(n, n))


N_FUZZY_NEIGHBORS = 15  # default number of neighbors, as in umap-learn
UNKNOWN_DISTANCE = 1.0  # distance of a point with an unknown label to every other, in units of the exponent
LABEL_DISTANCE, MAX_LABEL_DISTANCE = 2.5, 1e12
"""Distance of two different labels at a target weight of 0 and of 1; in between it grows as 1 / (1 - weight)."""
MIN_ABSENT, MAX_ABSENT = 1e-8, 1e-4
"""Bounds of the membership that replaces an edge missing in one of two sets, by default half its weakest."""


def membership_strengths(
    indptr: IntArray, lengths: FloatArray, run: Run, local_connectivity: float = 1.0, mean: float | None = None
) -> tuple[Array, FloatArray, FloatArray]:
    r"""Return :math:`w_{ij} = \exp(-\max(0, d_{ij} - \rho_i) / \sigma_i)` of the lists, rho and sigma (mcinnes2018).

    Rows sum to :math:`\log_2(k_i + 1)`. :math:`\rho_i` is the distance to the ``local_connectivity``-th nearest
    neighbor that does not coincide with i, linear in between; if it is 0, a thousandth of ``mean`` is the least
    :math:`\sigma_i`.
    """
    from manifoldry._numerics.kernels.fuzzy import MIN_SIGMA_SHARE, membership_rows

    indptr = np.ascontiguousarray(indptr, dtype=np.int64)
    lengths = np.ascontiguousarray(lengths, dtype=np.float64)
    n = len(indptr) - 1
    values = np.empty(len(lengths), dtype=np.float32)
    rho, sigma = np.empty(n), np.empty(n)
    mean = mean_length(indptr, lengths) if mean is None else mean
    rows = indptr, lengths, float(local_connectivity), MIN_SIGMA_SHARE, mean, values, rho, sigma
    run.map(lambda lo, hi: membership_rows(*rows, lo, hi), run.ranges(n, LISTS_PER_TASK))
    return values, rho, sigma


def mean_length(indptr: IntArray, lengths: FloatArray) -> float:
    """Return the mean length, including a distance of 0 from every point to itself."""
    return float(lengths.sum(dtype=np.float64) / (len(lengths) + len(indptr) - 1))


def fuzzy_simplicial_set(
    graph: NeighborGraph, run: Run, local_connectivity: float = 1.0, set_op_mix_ratio: float = 1.0
) -> csr_array:
    """Return the fuzzy simplicial set of a neighbor graph: the `fuzzy_union` of its `membership_strengths`."""
    if run.gpu is not None:
        from manifoldry._numerics.gpu import fuzzy

        return fuzzy.fuzzy_simplicial_set(graph, run.gpu, local_connectivity, set_op_mix_ratio)
    inside = np.ones(graph.n_edges, dtype=bool)
    inside[graph.indptr[:-1][graph.degrees > 0]] = False
    if (inside[1:] & (np.diff(graph.lengths) < 0)).any():  # lists that are not in ascending order
        graph = NeighborGraph.from_sparse(graph.to_sparse())
    values = membership_strengths(graph.indptr, graph.lengths, run, local_connectivity)[0]
    index = np.int32 if graph.n_edges < 2**31 else np.int64
    rows = values, graph.indices.astype(index), graph.indptr.astype(index)
    return fuzzy_union(csr_array(rows, shape=(graph.n_points,) * 2), run, set_op_mix_ratio)


def fuzzy_union(A: csr_array, run: Run, mix: float = 1.0) -> csr_array:
    r"""Return :math:`m (A + A^T - A \circ A^T) + (1 - m) A \circ A^T`: the fuzzy union, intersection, or a mixture.

    With m = 1/2 it is the mean of A and its transpose.
    """
    if run.gpu is not None and A.dtype == np.float32:
        from manifoldry._numerics.gpu import fuzzy

        return fuzzy.fuzzy_union(A, run.gpu, mix)
    from manifoldry._numerics.kernels.fuzzy import pack_rows, union_rows
    from manifoldry.graph._kernels.reversal import count_lists, reverse_lists

    n, real = A.shape[0], A.dtype.type
    lists = A.indptr.astype(np.int64), A.indices.astype(np.int32, copy=False), A.data
    factors, (degrees, ends) = (real(mix), real(1.0 - 2.0 * mix)), np.zeros((2, n + 1), dtype=np.int64)
    run.map(count_lists, [(lists[1], degrees, *rows) for rows in run.ranges(n, -(-n // run.n_jobs))])
    # Only what is used takes memory: some rows at a time are merged behind the last ones, with gaps, and packed.
    columns, union = np.empty(2 * A.nnz, dtype=np.int32), np.empty(2 * A.nnz, dtype=real)
    for lo, hi in run.ranges(n, -(-n // N_MERGED_PARTS)):
        to = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(degrees[lo:hi], out=to[lo + 1 : hi + 1])
        reverse = to, *np.empty((2, to[hi]), dtype=np.int32)
        own = [(lo + a, lo + b) for a, b in run.ranges(hi - lo, -(-(hi - lo) // run.n_jobs))]
        run.map(reverse_lists, [(*lists[:2], *reverse, *rows) for rows in own])
        room = ends[lo : hi + 1], columns[ends[lo] :], union[ends[lo] :]
        arguments = *lists, *reverse, *factors, *room, lo
        run.map(union_rows, [(*arguments, *rows) for rows in run.shares(hi - lo, LISTS_PER_TASK // 4)])
        pack_rows(lists[0][lo : hi + 1], to[lo : hi + 1], *room)
    for array in (columns, union):
        array.resize(ends[-1], refcheck=False)
    # Clusterings of other libraries need 32-bit row ends.
    index = np.int32 if ends[-1] < 2**31 else np.int64
    return csr_array((union, columns.astype(index, copy=False), ends.astype(index)), shape=A.shape)


def intersect_labels(fuzzy: csr_array, labels: Array, known: Array, weight: float, run: Run) -> csr_array:
    """Return a fuzzy set weakened between different labels; with a ``weight`` of 1 only these count (mcinnes2018)."""
    rows = np.repeat(np.arange(fuzzy.shape[0]), np.diff(fuzzy.indptr))
    columns = fuzzy.indices
    unknown = ~(known[rows] & known[columns])
    different = ~unknown & (labels[rows] != labels[columns])
    far = LABEL_DISTANCE / (1.0 - weight) if weight < 1.0 else MAX_LABEL_DISTANCE
    factor = np.where(unknown, np.exp(-UNKNOWN_DISTANCE), np.where(different, np.exp(-far), 1.0))
    weakened = csr_array((fuzzy.data * factor, columns, fuzzy.indptr), shape=fuzzy.shape)
    return _reset_local_connectivity(weakened, run)


def intersect_targets(
    fuzzy: csr_array, targets: FloatArray, known: Array, weight: float, n_neighbors: int, run: Run
) -> csr_array:
    """Return the intersection with the fuzzy set of numeric targets (n, m), by powers that ``weight`` balances."""
    members = np.flatnonzero(known)
    n = fuzzy.shape[0]
    rule = NeighborRule(min(n_neighbors, len(members) - 1), search="exact").resolve(len(members))
    target_set = fuzzy_simplicial_set(neighbor_graph(targets[members], rule, run)[0], run).tocoo()
    targets_fuzzy = csr_array(
        (target_set.data, (members[target_set.coords[0]], members[target_set.coords[1]])), shape=fuzzy.shape
    )
    # Every pair of either set.
    pattern = csr_array(abs(fuzzy.sign()) + abs(targets_fuzzy.sign()))
    rows, columns = np.repeat(np.arange(n), np.diff(pattern.indptr)), pattern.indices
    strengths = _values(fuzzy, rows, columns, max(float(fuzzy.data.min()) / 2, MIN_ABSENT))
    target_strengths = _values(
        targets_fuzzy, rows, columns, min(max(float(targets_fuzzy.data.min()) / 2, MIN_ABSENT), MAX_ABSENT)
    )
    target_strengths = np.where(known[rows] & known[columns], target_strengths, np.exp(-UNKNOWN_DISTANCE))
    if weight < 0.5:
        intersection = strengths * target_strengths ** (weight / (1.0 - weight))
    else:
        intersection = strengths ** ((1.0 - weight) / weight) * target_strengths
    both = csr_array((intersection.astype(np.float32), columns, pattern.indptr), shape=fuzzy.shape)
    return _reset_local_connectivity(both, run)


def _values(matrix: csr_array, rows: Array, columns: Array, absent: float) -> FloatArray:
    """Return the entries at the given positions, ``absent`` where nothing is stored."""
    values = np.asarray(matrix[rows, columns], dtype=np.float64).reshape(-1)
    return np.where(values > 0, values, absent)


def _reset_local_connectivity(fuzzy: csr_array, run: Run) -> csr_array:
    """Return the union after each point's strongest membership is set to 1."""
    strongest = np.asarray(fuzzy.max(axis=1).todense(), dtype=np.float64).reshape(-1)
    scale = np.divide(1.0, strongest, out=np.zeros_like(strongest), where=strongest > 0)
    return fuzzy_union(csr_array(diags_array(scale) @ fuzzy, dtype=np.float32), run)


def find_ab_params(min_dist: float, spread: float) -> tuple[float, float]:
    r"""Return a, b for which :math:`1 / (1 + a x^{2b})` is nearest to a step of width ``min_dist`` and its decay.

    Least squares over the logarithms of a and b, at 300 distances up to 3 spreads; the decay is :math:`e^{-(x -
    \mathrm{min\_dist}) / \mathrm{spread}}`.
    """
    x = np.linspace(0, 3 * spread, 300)[1:]
    target = np.where(x < min_dist, 1.0, np.exp(-(x - min_dist) / spread))

    def kernel(x: FloatArray, log_a: float, log_b: float) -> FloatArray:
        return 1 / (1 + np.exp(log_a + 2 * np.exp(log_b) * np.log(x)))

    logs, _ = curve_fit(kernel, x, target, (-2 * np.log(spread), 0.0), ftol=1e-12, xtol=1e-12)
    a, b = np.exp(logs)
    return float(a), float(b)
