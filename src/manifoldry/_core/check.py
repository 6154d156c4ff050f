"""Validation of input, before any work. Errors state what was given, what was expected, and what to do."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array

ASYMMETRY = 1e-8  # relative difference of d_ij and d_ji that rounding alone explains (about 1e8 roundings of float64)
MAX_SCALE = 1e60
"""Maximum size of the data, and one over the minimum: sums of squared squares stay in the range of double precision."""
MAX_SINGLE_SCALE = 1e15
"""The same for squares that are summed in single precision, as scikit-learn does: over 1e8 entries."""
EXACT = 2.0**53  # integers below this are exact in double precision
MAX_ROUNDING_SHARE = 1e-4
"""Spacing of floating-point numbers at the data, as a share of their spread, above which distances have lost digits."""


def integer(name: str, value: Any, low: int, high: int | None = None, because: str = "") -> int:
    """Return ``value`` as an int in [low, high], or raise an error."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer; got {value!r}.")
    value = int(value)
    if value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {span}{because}; got {value}.")
    return value


def number(name: str, value: Any, low: float, *, open_low: bool = False) -> float:
    """Return ``value`` as a finite float at (or, if ``open_low``, above) ``low``, or raise an error."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number; got {value!r}.")
    if value < low or (open_low and value == low):
        raise ValueError(f"{name} must be {'above' if open_low else 'at least'} {low:g}; got {value}.")
    return float(value)


def choice(name: str, value: Any, options: Collection[str]) -> str:
    """Return ``value`` if it is one of ``options``, or raise an error."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")
    return value


def metric(name: Any, extra: Collection[str]) -> None:
    """Check that a metric is a function, or a name known to scikit-learn or to this package."""
    if callable(name):
        return
    if not isinstance(name, str):
        raise ValueError(f"metric must be a name or a function of two rows; got {name!r}.")
    if name == "euclidean" or name in extra:
        return
    from sklearn.neighbors import VALID_METRICS

    # "matching" is scipy's other name of "hamming": scikit-learn's distances accept it, its neighbors do not list it.
    known = ({*VALID_METRICS["brute"], "matching", "hellinger"} - {"precomputed"}) | {*extra}
    if name not in known:
        raise ValueError(f"metric must be one of {', '.join(sorted(known))}, or a function; got {name!r}.")


def metric_params(name: Any, params: Any) -> None:
    """Check the parameters of a metric given by name; those of a function are not checked."""
    if not isinstance(name, str) or not params:
        return
    known = {
        "minkowski": ("p",),
        "mahalanobis": ("V", "VI"),
        "seuclidean": ("V",),
        "nan_euclidean": ("missing_values",),
    }
    unknown = [repr(word) for word in params if word not in (*known.get(name, ()), "w")]
    if unknown:
        may = ", ".join(repr(word) for word in (*known.get(name, ()), "w"))
        raise ValueError(f"metric_params of metric={name!r} may hold {may}; got {', '.join(unknown)}.")


class CheckedMetric:
    """A metric that is a function: every result must be a distance, because searches fail silently otherwise."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, a: Any, b: Any, **params: Any) -> float:
        """Return the distance of two rows, or raise an error."""
        answer = self.function(a, b, **params)
        number = isinstance(answer, numbers.Real) or (isinstance(answer, np.ndarray) and answer.size == 1)
        distance = float(np.asarray(answer).reshape(-1)[0]) if number else float("nan")
        if not 0 <= distance < float("inf"):
            raise ValueError(
                f"metric must return a finite number of at least 0 for any two rows; the function returned {answer!r}."
            )
        return distance


def n_components(value: Any, n_points: int) -> int:
    """Return the target dimension; n points span at most n - 1 dimensions."""
    return integer("n_components", value, 1, max(1, n_points - 1), f" for {n_points} points (at most n - 1)")


def enough_points(n_points: int, least: int = 2, purpose: str = "an embedding") -> None:
    """Check that there are enough points for an embedding or another ``purpose``."""
    if n_points < least:
        noun = "sample" if n_points == 1 else "samples"
        raise ValueError(f"At least {least} samples are needed for {purpose}; got {n_points} {noun}.")


def check_unmasked(name: str, X: Any) -> None:
    """Check that a masked array has no masked entries: no method can ignore entries."""
    masked = int(np.ma.count_masked(X))
    if masked:
        raise ValueError(
            f"{name} is a masked array with {masked} of its {X.size} entries masked; no method can ignore entries: "
            f"fill them ({name}.filled(...)) or drop their rows or columns."
        )


def sparse_format(name: str, X: Any) -> None:
    """Check the indices of a sparse matrix: scipy and scikit-learn use them unchecked."""
    if len(X.shape) != 2:
        return  # reported elsewhere
    rows, columns = X.shape
    if X.format in ("csr", "csc", "bsr"):
        block = getattr(X, "blocksize", (1, 1))
        lines, width = rows // block[0], columns // block[1]
        lines, width = (width, lines) if X.format == "csc" else (lines, width)
        ends = X.indptr
        sound = ends.dtype.kind == "i" and ends.shape == (lines + 1,) and ends[0] == 0 and (np.diff(ends) >= 0).all()
        sound = sound and ends[-1] <= min(len(X.indices), len(X.data))
        parts: tuple[Any, ...] = (X.indices[: ends[-1]],) if sound else ()
        limits: tuple[int, ...] = (width,)
    elif X.format == "dok":
        parts, limits = tuple(np.array(list(X.keys()), dtype=np.int64).reshape(-1, 2).T), (rows, columns)
        sound = True
    elif X.format == "lil":
        sound = [len(row) for row in X.rows] == [len(row) for row in X.data]
        parts, limits = (np.array([column for row in X.rows for column in row], dtype=np.int64),), (columns,)
    else:
        parts, limits = (X.row, X.col) if X.format == "coo" else (), (rows, columns)
        sound = all(len(part) == len(X.data) for part in parts) and len(getattr(X, "offsets", X.data)) == len(X.data)
    for part, limit in zip(parts, limits, strict=False):
        if part.size and (part.dtype.kind != "i" or part.min() < 0 or part.max() >= limit):
            wrong = part.min() if part.min() < 0 else part.max()
            raise ValueError(
                f"{name} is a sparse matrix of shape {X.shape} with the index {wrong}, where indices from 0 to "
                f"{limit - 1} are expected: build it again from its rows, columns and entries."
            )
    if not sound:
        raise ValueError(
            f"{name} is a sparse matrix of shape {X.shape} whose arrays do not have the lengths that this shape needs: "
            "build it again from its rows, columns and entries."
        )


def distinct_points(X: Any) -> None:
    """Check that the rows are not all the same point."""
    first = X[:1]
    if hasattr(X, "tocsr"):
        same = abs(X - first[np.zeros(X.shape[0], dtype=int)]).max() == 0
    else:
        same = not (np.any(X[:10] != first) or np.any(X != first))  # mostly, a few rows decide
    if same:
        raise ValueError(
            f"All {X.shape[0]} points are identical, so there is no shape to embed; check the columns of X."
        )


def check_integer_precision(table: Any, X: Any, names: Sequence[Any] | None = None) -> None:
    """Check that different integers in a column of the original table are not rounded to one number in ``X``.

    Missing entries do not count. ``names`` are the column names; a data frame has its own. Partial loss of digits is
    reported by `rounding_message`.
    """
    exact = getattr(getattr(table, "dtype", None), "kind", "") == "f"  # no integers
    if exact or hasattr(X, "tocsr") or not X.size or max(np.fmax.reduce(X, None), -np.fmin.reduce(X, None)) < EXACT:
        return
    high, low = np.fmax.reduce(X, axis=0), np.fmin.reduce(X, axis=0)
    for j in np.flatnonzero((high == low) & (abs(high) >= EXACT)).tolist():
        integers = [int(each) for each in _column(table, j) if isinstance(each, (int, np.integer))]
        if not integers or max(integers) == min(integers):
            continue
        columns = getattr(table, "columns", None) if names is None else names
        name = j if columns is None else repr(str(columns[j]))
        raise ValueError(
            f"The integers of column {name} of X differ by at most {max(integers) - min(integers):,} and are near "
            f"{high[j]:.2g}, where numbers of type {X.dtype} are {np.spacing(abs(high[j])):,.0f} apart, so that all of "
            f"them become one number: subtract the offset ({min(integers)}) first, or drop the column."
        )


def _column(table: Any, j: int) -> Any:
    """Return the original entries of a column of a data frame, array or list of rows."""
    if hasattr(table, "iloc"):
        return table.iloc[:, j].tolist()
    return table.to_series(j).to_list() if hasattr(table, "to_series") else np.asarray(table, dtype=object)[:, j]


def representable_scale(
    X: Any,
    *,
    spread: float | None = None,
    squares: bool = False,
    limit: float = MAX_SCALE,
    what: str = "X",
    size: float | None = None,
) -> None:
    """Check that powers of the numbers and of their differences neither overflow nor vanish.

    ``spread`` is the extent of the rows (by default the largest entry, as for distances); ``squares`` means that the
    numbers are squares of lengths, such as inner products. ``size`` is the largest magnitude, if it is known.
    """
    entries = X.data if hasattr(X, "tocsr") else X
    if size is None:
        size = max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))
    spread = size if spread is None else spread
    limit = limit**2 if squares else limit
    if size > limit:
        raise ValueError(
            f"{what} holds values up to {size:.0e}, and powers of them overflow; divide it by {size:.0e}, or choose "
            "another unit."
        )
    if 0 < spread < 1 / limit:
        raise ValueError(
            f"The values of {what} differ by at most {spread:.0e}, and powers of that vanish; divide {what} by "
            f"{spread:.0e}, or choose another unit."
        )


def wrapped_parameters(estimator: Any) -> None:
    """Check that the parameters of a scikit-learn class are not truth values or arrays where these make no sense.

    Its own checks count True as 1, and compare an array with each of the strings that a parameter may be.
    """
    for name, value in estimator.get_params(deep=False).items():
        admitted = estimator._parameter_constraints.get(name, [])
        words = {one for one in admitted if isinstance(one, str)}
        if isinstance(value, (bool, np.bool_)) and not words & {"boolean", "verbose"} and not _lists(admitted, value):
            raise ValueError(f"{name} must not be a truth value; got {value}: pass a number, or omit it.")
        if isinstance(value, np.ndarray) and value.ndim and "array-like" not in words and np.ndarray not in admitted:
            raise ValueError(f"{name} must not be an array; got one of shape {value.shape}.")


def _lists(admitted: Any, value: Any) -> bool:
    """Return whether the value is one of the listed options of a scikit-learn constraint."""
    return any(value is option for one in admitted for option in getattr(one, "options", ()))


COLUMNS_AT_ONCE = 1024
"""Entries of consecutive rows whose extremes are taken side by side: along few columns numpy is far slower."""
MAX_TRANSPOSED_ENTRIES = 2**15  # entries up to which a transposed copy is faster: 2,000 x 3 take 6 instead of 45 us
ENTRIES_AT_ONCE = 2**19  # entries that a thread looks at between two turns, which the cache of a core holds


@dataclass(frozen=True)
class Extent:
    """The least and the largest entry of each column, NaN where one is NaN."""

    low: Array
    high: Array

    @property
    def finite(self) -> bool:
        """Whether all entries are finite."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(float(self.high.max(initial=0.0)), -float(self.low.min(initial=0.0)))

    @property
    def spread(self) -> float:
        """The largest range of a column, in double precision."""
        return float((self.high.astype(np.float64) - self.low).max())


def extent(X: Array, n_jobs: int | None = 1) -> Extent:
    """Return the extremes of the columns of dense rows, in one pass shared by threads."""
    n, p = X.shape
    if X.size <= MAX_TRANSPOSED_ENTRIES and p < n:
        columns = np.ascontiguousarray(X.T)
        return Extent(columns.min(axis=1), columns.max(axis=1))
    side_by_side = max(1, COLUMNS_AT_ONCE // p)

    def work(lo: int, hi: int) -> tuple[Array, Array]:
        full = hi - (hi - lo) % side_by_side
        parts = [part for part in (X[lo:full].reshape(-1, side_by_side, p), X[None, full:hi]) if part.size]
        wide = [part.reshape(len(part), -1) for part in parts]
        low, high = zip(*((part.min(axis=0), part.max(axis=0)) for part in wide), strict=True)
        return _folded(np.minimum, low, p), _folded(np.maximum, high, p)

    extremes = Run(0, n_jobs).map(work, Run(0, 1).ranges(n, side_by_side * max(1, ENTRIES_AT_ONCE // COLUMNS_AT_ONCE)))
    low, high = zip(*extremes, strict=True)
    return Extent(np.minimum.reduce(low), np.maximum.reduce(high))


def _folded(extreme: np.ufunc, parts: Sequence[Array], n_columns: int) -> Array:
    """Return the extremes of the columns of consecutive rows that stand side by side."""
    folded: Array = extreme.reduce(np.concatenate(parts).reshape(-1, n_columns))
    return folded


def column_spread(X: Any) -> float:
    """Return the largest range of a column, in double precision; for sparse rows, the largest magnitude."""
    return float(abs(X).max()) if hasattr(X, "tocsr") else extent(X).spread


def rounding_message(X: Any, n_jobs: int | None = 1) -> str | None:
    """Return a message if rows are so far from the origin that their differences have lost digits to rounding."""
    if hasattr(X, "tocsr") or X.dtype.kind != "f":
        return None
    size, spread = (whole := extent(X, n_jobs)).size, whole.spread
    lost = float(np.finfo(X.dtype).eps) * size
    if lost <= MAX_ROUNDING_SHARE * spread:
        return None
    cure = "pass X in double precision" if X.dtype == np.float32 else "subtract the offset where the data is created"
    return (
        f"The rows of X differ by at most {spread:.2g} and are {size:.2g} from the origin, where numbers of type "
        f"{X.dtype} are {lost:.2g} apart, so that distances are rounded: {cure}."
    )


def pairwise(method: str, X: Any, metric: str, *, graphs: bool) -> None:
    """Check a matrix of affinities, edge lengths, distances or inner products, depending on the metric.

    Sparse lengths are those of a graph, for methods that accept ``graphs``.
    """
    if metric == "affinity":
        square_affinities(X)
    elif issparse(X):
        if not graphs:
            raise ValueError(
                f"{method} needs all pairwise distances; got a sparse graph: pass X.toarray() only if every distance "
                "is stored."
            )
        square_graph(X)
    elif metric == "precomputed":
        square_distances(X)
    else:
        square_gram(X)


def square_gram(G: Array, what: str = "metric='gram'") -> None:
    """Check that a matrix of inner products is square, symmetric and not constant."""
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"{what} needs a square matrix of inner products; got shape {G.shape}.")
    scale = float(np.abs(G).max())
    if np.abs(G - G.T).max() > ASYMMETRY * scale:
        raise ValueError(f"{what} needs a symmetric matrix; pass (G + G.T) / 2 if that is what you mean.")
    if np.ptp(G) <= ASYMMETRY * scale:
        raise ValueError("All inner products are equal, so there is no shape to embed; check the matrix.")


def square_distances(D: Array, what: str = "metric='precomputed'") -> None:
    """Check that a matrix of distances is square, non-negative and symmetric, with a diagonal of zeros."""
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        raise ValueError(f"{what} needs a square matrix of pairwise distances; got shape {D.shape}.")
    scale = 0.0
    worst = 0.0
    step = max(1, 10_000_000 // max(1, len(D)))
    for lo in range(0, len(D), step):
        block = D[lo : lo + step]
        if block.min() < 0:
            raise ValueError(f"{what} needs non-negative distances; got {block.min():g} among them.")
        scale = max(scale, float(block.max()))
        worst = max(worst, float(np.abs(block - D[:, lo : lo + step].T).max()))
    if worst > ASYMMETRY * scale:
        raise ValueError(
            f"{what} needs symmetric distances; entries differ from their transposes by up to {worst:g}: "
            "pass (D + D.T) / 2 if that is what you mean."
        )
    if np.abs(np.diagonal(D)).max() > ASYMMETRY * scale:
        raise ValueError(
            f"{what} needs zeros on the diagonal; got {np.abs(np.diagonal(D)).max():g}: "
            "for similarities use ClassicalMDS(metric='gram')."
        )
    if scale == 0:
        raise ValueError("All distances are zero, so there is no shape to embed; check the matrix.")


def square_graph(graph: Any) -> None:
    """Check that a sparse graph of lengths is square and non-negative, with equal lengths both ways."""
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(f"A precomputed graph needs a square sparse matrix; got shape {graph.shape}.")
    if graph.nnz == 0:
        raise ValueError("The precomputed graph has no edges; pass distances or a kneighbors_graph.")
    if graph.data.min() < 0:
        raise ValueError(f"A precomputed graph needs non-negative lengths; got {graph.data.min():g}.")
    pattern = graph.copy()
    pattern.data = np.ones_like(graph.data)
    two_way = pattern.multiply(pattern.T)
    difference = abs((graph - graph.T).multiply(two_way))
    if difference.nnz and difference.max() > ASYMMETRY * graph.data.max():
        raise ValueError(
            f"A precomputed graph needs the same length both ways; some pairs differ by up to {difference.max():g}."
        )


def square_affinities(W: Any) -> None:
    """Check that a matrix of affinities is square, non-negative and symmetric, with at least one edge."""
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"metric='affinity' needs a square matrix of affinities; got shape {W.shape}.")
    if W.min() < 0:
        raise ValueError(f"Affinities must be non-negative; got {W.min():g} among them.")
    if not abs(W - W.T).max() <= ASYMMETRY * W.max():
        raise ValueError("Affinities must be the same both ways; pass (W + W.T) / 2 if that is what you mean.")
    if not W.sum() > W.diagonal().sum():
        raise ValueError("All affinities between different points are zero, so there is no graph; check the matrix.")


def weights(W: Array, n_points: int) -> None:
    """Check that weights of pairs are a symmetric, non-negative, connected n x n matrix."""
    from manifoldry._core.csgraph import connected_components

    if W.shape != (n_points, n_points):
        raise ValueError(f"weights must have shape ({n_points}, {n_points}); got {W.shape}.")
    if not np.isfinite(W).all() or W.min() < 0 or np.abs(W - W.T).max() > ASYMMETRY * W.max():
        raise ValueError("weights must be finite, non-negative and symmetric.")
    n_groups = connected_components(W, directed=False)[0]
    if n_groups > 1:
        raise ValueError(
            f"weights leave the points in {n_groups} groups without any weighted pair between them; "
            "scale each group separately or add weights."
        )


MAX_MATRIX_NORM = 1e140  # maximum norm of a matrix: its square stays in the range of double precision


def symmetric_form(form: Array, scale: float, eps: float) -> None:
    """Check that a form V'HV of images HV of this scale is finite, symmetric and in range."""
    if not np.isfinite(form).all():
        raise np.linalg.LinAlgError(
            "A product with A gave NaN or infinite numbers; check A and the data it was computed from."
        )
    if scale > 0 and not 1 / MAX_MATRIX_NORM < scale < MAX_MATRIX_NORM:
        raise ValueError(f"A has a norm of about {scale:.0e}, whose square is out of range; multiply A by a constant.")
    skew = float(np.abs(form - form.T).max(initial=0.0))
    if skew > 10 * np.sqrt(eps) * scale:
        raise ValueError(f"A must be symmetric; x'Ay and y'Ax differ by {skew:.3g}: try (A + A') / 2.")
