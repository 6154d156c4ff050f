"""The values of the library: frozen objects that keep related data together and check themselves when built."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from manifoldry._core.run import Run


class OneLine:
    """Gives a dataclass (with ``repr=False``) a representation in one line: its fields, arrays by their shapes."""

    def __repr__(self) -> str:
        values = ((each.name, getattr(self, each.name)) for each in fields(cast(Any, self)))
        parts = (f"{name}={_brief(value)}" for name, value in values if value is not None)
        return f"{type(self).__name__}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"<{value.dtype} {' x '.join(map(str, value.shape))}>"
    if isinstance(value, (float, enum.Enum)):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return type(value).__name__ if isinstance(value, Mapping) or callable(value) else repr(value)


Array = NDArray[Any]
FloatArray = NDArray[np.float64]
"""Numbers in double precision; in single precision if the points are, or if a docstring says so."""
IntArray = NDArray[np.integer[Any]]
Extension = Callable[[Array, "Run"], FloatArray]
"""Maps new points (n_new, n_features) to coordinates (n_new, n_components), or the inverse; picklable."""


@dataclass(frozen=True, repr=False)
class NeighborGraph(OneLine):
    """Neighbors and distances in compressed rows.

    Row ``i`` lists the neighbors of point ``i``, never ``i`` itself: in ascending order of length after a search, in
    the order of their indices after symmetrization. A missing pair is *not* a pair of length zero: duplicates are
    listed with length 0.

    Parameters
    ----------
    indptr : ndarray of shape (n_points + 1,)
        Row ``i`` occupies ``indices[indptr[i]:indptr[i + 1]]``.
    indices : ndarray of shape (n_edges,)
        The neighbors, row after row.
    lengths : ndarray of shape (n_edges,)
        The distances to them, finite and non-negative.
    symmetric : bool
        Whether every listed pair is listed both ways with the same length.
    """

    indptr: IntArray
    indices: IntArray
    lengths: FloatArray
    symmetric: bool = False

    def __post_init__(self) -> None:
        n = len(self.indptr) - 1
        if n < 0 or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            raise ValueError("The row ends of a neighbor graph must begin with 0 and never decrease.")
        if len(self.indices) != len(self.lengths) or self.indptr[-1] != len(self.indices):
            raise ValueError(
                f"A neighbor graph needs one length per listed neighbor; got {len(self.indices)} indices, "
                f"{len(self.lengths)} lengths and row ends up to {self.indptr[-1]}."
            )
        if len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= n):
            raise ValueError(f"A neighbor graph of {n} points lists an index outside 0..{n - 1}.")
        if (self.indices == self.rows()).any():
            raise ValueError("A neighbor graph lists a point as its own neighbor; remove such pairs.")
        if len(self.lengths) and not (np.isfinite(self.lengths).all() and self.lengths.min() >= 0):
            raise ValueError("The lengths of a neighbor graph must be finite and non-negative.")

    @classmethod
    def from_rows(cls, indices: IntArray, distances: FloatArray) -> NeighborGraph:
        """Build the directed graph of a k-nearest-neighbor search: two arrays of shape (n, k)."""
        n, k = indices.shape
        return cls(np.arange(0, n * k + 1, k, dtype=np.int64), indices.reshape(-1), distances.reshape(-1))

    @classmethod
    def checked(
        cls, indptr: IntArray, indices: IntArray, lengths: FloatArray, symmetric: bool = False
    ) -> NeighborGraph:
        """Build from arrays that cannot contain what `__post_init__` looks for, such as parts of another graph."""
        graph = cls.__new__(cls)
        values = {"indptr": indptr, "indices": indices, "lengths": lengths, "symmetric": symmetric}
        for name, value in values.items():
            object.__setattr__(graph, name, value)
        return graph

    @classmethod
    def from_sparse(cls, matrix: Any, *, symmetric: bool = False) -> NeighborGraph:
        """Build from a sparse matrix of lengths; stored zeros are pairs of length 0, the diagonal is dropped."""
        from scipy.sparse import csr_array

        graph = csr_array(matrix)
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        lengths = graph.data.astype(np.result_type(graph.data, np.float32), copy=False)
        return cls.from_pairs(rows, graph.indices, lengths, graph.shape[0], symmetric=symmetric)

    @classmethod
    def from_pairs(
        cls, rows: IntArray, indices: IntArray, lengths: FloatArray, n_points: int, *, symmetric: bool = False
    ) -> NeighborGraph:
        """Build from a list of pairs in any order; pairs of a point with itself are dropped."""
        off = rows != indices
        rows, indices, lengths = rows[off], indices[off], lengths[off]
        order = np.lexsort((indices, lengths, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_points))])
        return cls(indptr.astype(np.int64), indices[order], lengths[order], symmetric)

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of listed pairs (each undirected pair of a symmetric graph counts twice)."""
        return len(self.indices)

    @property
    def degrees(self) -> IntArray:
        """Number of neighbors of each point."""
        return np.diff(self.indptr)

    @cached_property
    def connected(self) -> bool:
        """Whether the graph is symmetric and connected."""
        from manifoldry._core.csgraph import breadth_first_order

        # Taken as directed, a symmetric graph is not transposed, which takes longer than the search.
        return self.symmetric and len(breadth_first_order(self.to_sparse(), 0)[0]) == self.n_points

    def row(self, i: int) -> tuple[IntArray, FloatArray]:
        """Neighbors of point ``i`` and their distances."""
        span = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[span], self.lengths[span]

    def rows(self) -> IntArray:
        """Return the point that lists each neighbor: the first column of the edge list."""
        return np.repeat(np.arange(self.n_points, dtype=self.indices.dtype), self.degrees)

    def to_sparse(self) -> csr_array:
        """Return the lengths as a sparse matrix in which pairs of length 0 are stored."""
        from scipy.sparse import csr_array

        return csr_array((self.lengths, self.indices, self.indptr), shape=(self.n_points, self.n_points))

    def without_duplicates(self) -> NeighborGraph:
        """Return the graph without its pairs of length 0."""
        return self if self.lengths.min(initial=np.inf) > 0 else self.with_edges_where(self.lengths > 0)

    def with_edges_where(self, keep: Array) -> NeighborGraph:
        """Return the graph with the pairs of the mask ``keep``, which must be symmetric for a symmetric graph."""
        indptr = np.concatenate([[0], np.cumsum(keep)])[self.indptr]
        return NeighborGraph.checked(indptr, self.indices[keep], self.lengths[keep], self.symmetric)

    def subset(self, members: IntArray) -> NeighborGraph:
        """Return the graph among ``members`` (sorted indices), renumbered in their order."""
        new = np.full(self.n_points, -1, dtype=np.int64)
        new[members] = np.arange(len(members))
        rows, cols = new[self.rows()], new[self.indices]
        keep = (rows >= 0) & (cols >= 0)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=len(members)))])
        return NeighborGraph(
            indptr.astype(np.int64), cols[keep].astype(self.indices.dtype), self.lengths[keep], self.symmetric
        )


@dataclass(frozen=True, repr=False)
class Spectrum(OneLine):
    """Eigenpairs in order, with their residuals and the eigenvalues that were dropped.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Eigenvalues, ascending for ``order="smallest"`` and descending for ``order="largest"``.
    vectors : ndarray of shape (n, m)
        Eigenvectors in columns; the entry of largest magnitude in each column is positive.
    residuals : ndarray of shape (m,)
        ``|A v - lambda B v|`` of each pair, in the norm and units of A.
    order : {"smallest", "largest"}
        Which end of the spectrum this is.
    solver : str
        Name of the solver that found the pairs.
    dropped : ndarray
        Eigenvalues of known vectors that were removed, such as the constant of a Laplacian.
    """

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    order: str = "largest"
    solver: str = "dense"
    dropped: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if self.vectors.shape[1] != len(self.values) or len(self.residuals) != len(self.values):
            raise ValueError(
                f"A spectrum needs one vector and one residual per value; got {len(self.values)} values, "
                f"{self.vectors.shape[1]} vectors and {len(self.residuals)} residuals."
            )
        steps = np.diff(self.values)
        slack = 1e-9 * float(np.max(np.abs(self.values), initial=0.0))
        if (self.order == "largest" and (steps > slack).any()) or (self.order == "smallest" and (steps < -slack).any()):
            raise ValueError(f"The values of a spectrum must be in order, {self.order} first.")

    def __len__(self) -> int:
        return len(self.values)

    def head(self, m: int) -> Spectrum:
        """Return the first ``m`` pairs."""
        return Spectrum(self.values[:m], self.vectors[:, :m], self.residuals[:m], self.order, self.solver, self.dropped)

    def scaled(self, power: float) -> FloatArray:
        """Vectors times ``max(values, 0) ** power``: the coordinates of classical scaling at 0.5."""
        return self.vectors * np.maximum(self.values, 0.0) ** power

    @property
    def gaps(self) -> FloatArray:
        """Differences of consecutive values, all non-negative."""
        return np.abs(np.diff(self.values))


class Stop(enum.Enum):
    """Why an iteration ended, with advice."""

    CONVERGED = "The iteration converged to the requested tolerance."
    COMPLETED = "The iteration did all the steps that were asked for; this method does not end earlier."
    LIMIT = "The iteration reached its limit before the tolerance; raise max_iter or tol."
    ASKED = "The callback asked to stop; the result is the best one reached so far."
    INTERRUPTED = "The fit was interrupted; the result is the one reached so far."


@dataclass(frozen=True, repr=False)
class Trace(OneLine):
    """What an iteration did and why it stopped.

    Parameters
    ----------
    objective : ndarray of shape (n_iter + 1,), or of the shape of ``steps``
        The objective at the start and after each iteration.
    stop : Stop
        Why the iteration ended.
    steps : ndarray, optional
        Iterations after which the objective was computed, if not after each.
    """

    objective: FloatArray
    stop: Stop
    steps: IntArray | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and len(self.steps) != len(self.objective):
            raise ValueError(f"A trace needs one step per objective; got {len(self.steps)} and {len(self.objective)}.")

    def interrupted(self) -> Trace:
        """Return the trace with the stop of Ctrl-C instead of a callback's; unchanged if the iteration had ended."""
        return replace(self, stop=Stop.INTERRUPTED) if self.stop is Stop.ASKED else self

    @property
    def n_iter(self) -> int:
        """Number of iterations done."""
        return len(self.objective) - 1 if self.steps is None else int(self.steps[-1])


@dataclass(frozen=True, repr=False)
class Certificate(OneLine):
    """How far from the global optimum of its program a semidefinite solution can be.

    Parameters
    ----------
    objective : float
        The value reached; smaller is better, so for a largest stretch it is minus the stretch.
    bound : float
        Proven by the dual: no feasible point has a smaller value. Minus infinity if nothing is proven.
    rank : int
        Number of dimensions used.
    claim : str
        What is claimed to be best, as in "the stretch with these distances kept".
    tol : float
        The gap up to which the verdict is "proven optimal".
    noise : float
        Differences of objectives up to this are rounding.
    violation : float
        Violation of the constraints of the program, relative to their size.
    smallest : float, optional
        A proven lower bound of the dual matrix's smallest eigenvalue; zero or more would be exactly optimal.

    A value below the bound without a violated constraint is a contradiction and raises a `ValueError`.
    """

    objective: float
    bound: float
    rank: int
    claim: str
    tol: float
    noise: float = 0.0
    violation: float = 0.0
    smallest: float | None = None
    MAX_VIOLATION: ClassVar[float] = 1e-5

    def __post_init__(self) -> None:
        if self._passes_bound() and self.violation == 0:
            got = f"{self.objective!r} below {self.bound!r} for {self.claim}, with rounding of {self.noise:.1g}"
            raise ValueError(
                f"A certificate cannot have a value below its bound; got {got}: they belong to two programs."
            )

    @property
    def gap(self) -> float:
        """The maximum possible improvement of the value, relative to it, or to the noise if that is larger."""
        return self._relative(self.objective - self.bound)

    @property
    def verdict(self) -> str:
        """What is proven: "proven optimal", "within 3e-4" or, for gaps of 1 and violations, "bound only"."""
        if self.violation > self.MAX_VIOLATION or self._passes_bound() or not self.gap < 1:
            return "bound only"
        return "proven optimal" if self.gap <= self.tol else f"within {self.gap:.1g}"

    @property
    def optimal(self) -> bool:
        """Whether the gap is at most ``tol`` and the constraints hold to `MAX_VIOLATION`."""
        return self.verdict == "proven optimal"

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.optimal:
            return f"Proven optimal to {f'{self.gap:.1g}' if self.gap else 'rounding'}: {self.claim}."
        if self.verdict.startswith("within"):
            return f"Proven to be {self.verdict} of the optimum (tol is {self.tol:g}): {self.claim}."
        if self.violation > 0:
            return f"Not proven, because constraints are violated by up to {self.violation:.1g}: {self.claim}."
        return f"Not proven, because the bound of the optimum is too loose: {self.claim}."

    def _passes_bound(self) -> bool:
        return self._relative(self.bound - self.objective) > self.tol

    def _relative(self, difference: float) -> float:
        size = max(abs(self.objective), self.noise, np.finfo(float).tiny)
        return float(difference / size) if difference > self.noise else 0.0


@dataclass(frozen=True, repr=False)
class Embedding(OneLine):
    """Coordinates, and everything that the method provides with them.

    ``extension`` and ``inverse`` map new points to coordinates and back. ``notes`` are entries of ``diagnostics_``,
    ``fitted`` further attributes of the estimator by name. Coordinates to which nothing else refers are ``unshared``.
    """

    coordinates: FloatArray
    graph: NeighborGraph | None = None
    spectrum: Spectrum | None = None
    trace: Trace | None = None
    certificate: Certificate | None = None
    extension: Extension | None = None
    inverse: Extension | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    fitted: Mapping[str, Any] = field(default_factory=dict)
    unshared: bool = False
