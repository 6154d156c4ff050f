"""Tables as arrays: those of PyTorch, CuPy, JAX, pandas and polars; errors name what was given."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray

CONVERSION_ERRORS = ("could not convert", "float() argument", "setting an array element", "too large to convert")
"""How errors of numpy and pandas about entries that are not numbers begin."""
N_NAMES_SHOWN = 3  # names of columns that an error lists: enough to find them
TEXT_TYPES = ("String", "Categorical", "Enum")  # types of polars for text, which all have to be encoded


def check_in_memory(X: Any, name: str) -> None:
    """Raise an error for Dask collections and chunked data if all rows are needed: they are not gathered silently."""
    lazy = hasattr(X, "__dask_graph__")
    if lazy or (hasattr(X, "chunk_rows") and hasattr(X, "reduce")):
        gathered = f"{name}.compute()" if lazy else f"numpy.concatenate(list({name}))"
        raise ValueError(
            f"{name} is not in memory, and is not gathered silently; got a {type(X).__name__} of {_module(X)}: pass a "
            f"sample, manifoldry.chunked_data({name}).sample(2000, numpy.random.default_rng(0)).rows, or {gathered} if "
            "it fits."
        )


def check_not_iterator(X: Any, name: str) -> None:
    """Raise an error for an iterator where a table is needed."""
    if hasattr(X, "__next__"):
        raise ValueError(
            f"{name} must be a table of numbers, one row per point; got a {type(X).__name__}, which is read only once: "
            f"pass numpy.concatenate(list({name})) if it yields chunks of rows and all of them fit in memory."
        )


def on_host(X: Any, name: str = "X") -> Any:
    """Return a tensor of another library as a numpy array or scipy matrix; anything else is returned unchanged.

    Tensors on a GPU are copied to the host, those that record gradients are detached, and half precision becomes single
    precision. A tensor on the host is not copied. Tables that are not in memory and sparse matrices with invalid
    indices raise an error that mentions ``name``.
    """
    if isinstance(X, (np.ndarray, list, tuple)):
        return X
    if issparse(X):
        check.sparse_format(name, X)
        return X
    check_in_memory(X, name)
    if hasattr(X, "detach") and hasattr(X, "cpu"):
        return _of_torch(X.detach().cpu())
    if hasattr(X, "get") and (hasattr(X, "__cuda_array_interface__") or _module(X).startswith("cupy")):
        return _single(X.get())
    if hasattr(X, "__dlpack__"):
        return _single(np.asarray(X) if hasattr(X, "__array__") else _of_dlpack(X))
    return X


def returned_like(values: Any, X: Any) -> Any:
    """Return a result where the input ``X`` is: on the GPU for its arrays of CuPy or tensors of PyTorch."""
    kind = _module(X)
    if kind == "cupy" and hasattr(X, "__cuda_array_interface__"):
        return importlib.import_module("cupy").asarray(values)
    if kind == "torch" and X.device.type == "cuda":
        return importlib.import_module("torch").as_tensor(values, device=X.device)
    return values


def _of_torch(tensor: Any) -> Any:
    if "sparse" in str(getattr(tensor, "layout", "")):
        from scipy.sparse import coo_matrix

        pairs = tensor.to_sparse_coo().coalesce()
        rows, columns = (_of_torch(part) for part in pairs.indices())
        return coo_matrix((_of_torch(pairs.values()), (rows, columns)), shape=tuple(tensor.shape)).tocsr()
    try:
        return _single(tensor.numpy())
    except TypeError:  # numpy does not have this type: bfloat16
        return tensor.float().numpy()


def _of_dlpack(X: Any) -> Array:
    try:
        return np.from_dlpack(X)
    except (BufferError, RuntimeError, TypeError):  # not in the memory of the host
        try:
            return np.from_dlpack(X, device="cpu", copy=True)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"A {type(X).__name__} of {_module(X) or 'an unknown library'} could not be copied to the memory of "
                f"the host ({error}); pass it as a numpy array."
            ) from None


def _single(table: Any) -> Any:
    """Return half precision as single precision, others unchanged; bfloat16 has no kind in numpy."""
    half = table.dtype.kind == "f" and table.dtype.itemsize < 4
    return table.astype(np.float32) if half or str(table.dtype) == "bfloat16" else table


def _module(X: Any) -> str:
    return type(X).__module__.split(".")[0]


def as_frame(rows: Sequence[Mapping[str, Any]], index: str) -> Any:
    """Return rows as a pandas DataFrame with one of their entries as the index."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        raise ImportError(
            "to_frame() needs pandas, which is not installed: run pip install pandas, or read the fields of the object."
        ) from None
    return pandas.DataFrame(list(rows)).set_index(index)


def as_table(X: Any, name: str = "X") -> Any:
    """Return ``X`` as an array, data frame or sparse matrix with one row per point, or raise an error.

    Errors call it by ``name``. A masked array comes back without its mask if nothing is masked; frames and sparse
    matrices come back as they are, tensors of other libraries as arrays (`arrays.on_host`).
    """
    table = _as_array(X, name)
    if len(table.shape) != 2:
        _check_shape(table, name)
    kinds = _column_kinds(table, name)
    if "c" in kinds.values():
        raise ValueError(f"Complex data not supported: {name} must hold real numbers; pass real and imaginary columns.")
    other = {column: kind for column, kind in kinds.items() if kind and kind in "USmM"}
    if other:
        what = "dates or times" if set(other.values()) <= {"m", "M"} else "text"
        where = "" if None in other else f" in {_listed('column', list(other))}"
        raise ValueError(f"{name} must hold numbers; got {what}{where}: encode or drop such columns.")
    return table


def owned(table: Any, X: Any) -> Any:
    """Return validated rows in memory that nobody else writes to: a copy if ``table`` is the caller's array ``X``.

    A fitted model keeps its rows for new points, and must not follow what the caller does to ``X`` later. Arrays that
    cannot be written to (files mapped for reading) are kept as they are.
    """
    if issparse(table):
        return table.copy() if _is_lent(table.data, getattr(X, "data", None)) else table
    return np.array(table, order="K") if _is_lent(table, X) else table


def bad_entry_error(table: Any, error: Exception, name: str) -> Exception:
    """Return the error for a table with an entry that is not a number: what it is, and where."""
    objects = np.empty((0, 0)) if issparse(table) else np.asarray(table, dtype=object)
    position = next((index for index, entry in np.ndenumerate(objects) if not _is_number(entry)), None)
    if position is None:
        return ValueError(f"{name} must hold numbers; {error}: encode or drop such columns.")
    entry, where = objects[position], f"row {position[0]}, column {position[1]}"
    kind = type(entry).__name__
    if kind in ("NAType", "NaTType"):
        return ValueError(f"{name} has a missing entry ({entry}) in {where}: drop or impute such rows.")
    if isinstance(error, TypeError):
        return TypeError(
            f"{name} must hold numbers; an entry of this argument must be a number or a string of a number, and there "
            f"is a {kind} in {where}: encode or drop such columns."
        )
    return ValueError(
        f"{name} must hold numbers; got {str(entry)[:40]!r} ({kind}) in {where}: encode or drop such columns."
    )


def _as_array(X: Any, name: str) -> Any:
    """Return a table with rows and columns as it is, anything else as an array."""
    X = _stacked(X, name) if isinstance(X, (list, tuple)) else on_host(X, name)
    if isinstance(X, np.ma.MaskedArray):
        check.check_unmasked(name, X)
        return X.data
    if hasattr(X, "shape") and (hasattr(X, "ndim") or _is_frame(X)) and not isinstance(X, type):
        return X
    scalar = isinstance(X, (str, bytes, dict, set, frozenset, type)) or callable(X)
    if scalar or not (hasattr(X, "__array__") or hasattr(X, "__len__")):
        raise _not_a_table(X, name)
    return np.asarray(X)


def _stacked(rows: Any, name: str) -> Any:
    """Return a list of rows as an array."""
    if any(issparse(row) for row in rows):
        raise ValueError(f"{name} came as a list of sparse rows; stack them first: scipy.sparse.vstack({name}).")
    lengths = sorted({len(row) for row in rows if hasattr(row, "__len__") and not isinstance(row, (str, dict))})
    if len(lengths) > 1:
        raise ValueError(
            f"The rows of {name} have different lengths, from {lengths[0]} to {lengths[-1]} entries; the same columns "
            "are needed in every row."
        )
    if any(isinstance(row, np.ma.MaskedArray) for row in rows):
        return np.ma.stack(rows)
    try:
        return np.asarray(rows)
    except ValueError:  # numpy's word for lists among the entries is an inhomogeneous shape
        raise ValueError(
            f"{name} must hold one number per row and column; got lists of different lengths in it."
        ) from None


def _not_a_table(X: Any, name: str) -> ValueError:
    kind = "None" if X is None else f"a {type(X).__name__}"
    advice = ""
    if hasattr(X, "X"):
        advice = ": pass its .X"
    elif hasattr(X, "collect"):
        advice = f": pass {name}.collect()"
    elif isinstance(X, dict):
        advice = f": pass pandas.DataFrame({name})"
    elif hasattr(X, "__next__"):
        advice = f": pass list({name})"
    return ValueError(f"{name} must be a table of numbers, one row per point; got {kind}{advice}.")


def _check_shape(table: Any, name: str) -> None:
    names = getattr(getattr(table, "dtype", None), "names", None)
    if names:
        raise ValueError(
            f"{name} must be two-dimensional, one row per point; got records of {_listed('', list(names))}: "
            f"pass numpy.lib.recfunctions.structured_to_unstructured({name})."
        )
    if table.ndim == 0:
        raise _not_a_table(table.item() if hasattr(table, "item") else table, name)
    if isinstance(table, np.ndarray) and table.size and isinstance(table.flat[0], dict):
        raise ValueError(
            f"{name} must be a table of numbers; got a list of dictionaries: pass pandas.DataFrame({name})."
        )
    if table.ndim > 2:
        raise ValueError(
            f"{name} must be two-dimensional, one row per point; got shape {tuple(table.shape)}. "
            f"Reshape your data with {name}.reshape({table.shape[0]}, -1), one image or tensor per row."
        )
    raise ValueError(
        f"{name} must be two-dimensional, one row per point; got shape {tuple(table.shape)}. "
        f"Reshape your data with {name}.reshape(-1, 1) for one column or {name}.reshape(1, -1) for one row."
    )


def _column_kinds(table: Any, name: str) -> dict[Any, str]:
    """Return the kind of numbers in each column of a frame by its name; of anything else under None."""
    if not _is_frame(table):
        return {None: getattr(getattr(table, "dtype", None), "kind", "")}
    labels, dtypes = list(table.columns), table.dtypes
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise ValueError(f"{name} has several columns of the same name: {_listed('', repeated)}; rename or drop them.")
    return {label: _kind(dtype) for label, dtype in zip(labels, dtypes, strict=True)}


def _is_frame(table: Any) -> bool:
    """Tell whether a table has columns of their own names and types, as those of pandas and polars do."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


def _kind(dtype: Any) -> str:
    """Return numpy's letter for the kind of a column; polars's types have words instead."""
    if hasattr(dtype, "is_temporal") and dtype.is_temporal():
        return "M"
    if str(dtype) in TEXT_TYPES:
        return "U"
    return str(getattr(dtype, "kind", ""))


def _listed(noun: str, names: list[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:N_NAMES_SHOWN])
    more = f" and {len(names) - N_NAMES_SHOWN} more" if len(names) > N_NAMES_SHOWN else ""
    return f"{noun}{'s' if noun and len(names) > 1 else ''} {shown}{more}".strip()


def _is_number(entry: Any) -> bool:
    """Tell whether an entry becomes a number; None becomes NaN, and is counted with those."""
    if entry is None:
        return True
    try:
        float(entry)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_lent(array: Any, X: Any) -> bool:
    """Tell whether an array is, or is part of, memory that another can write to."""
    if array is not X and array.flags.owndata:
        return False
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def validated_coordinates(Y: Any, n_columns: int, *, sparse: bool = False) -> Any:
    """Return coordinates in an embedding of ``n_columns`` as finite numbers, in single or double precision."""
    from sklearn.utils.validation import check_array

    table = as_table(Y, "Y")
    try:
        coordinates = check_array(
            table, accept_sparse="csr" if sparse else False, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise named_entry_error(table, error, "Y") from None
    if coordinates.shape[1] != n_columns:
        raise ValueError(f"Coordinates need the embedding's {n_columns} columns; got {coordinates.shape[1]}.")
    check_finite(coordinates.data if issparse(coordinates) else coordinates, "Y", "inverse_transform")
    check.representable_scale(coordinates, spread=0.0, what="Y")
    return coordinates


def named_entry_error(table: Any, error: Exception, name: str) -> Exception:
    """Return an error about an entry that is not a number with its position, any other error as it is."""
    convertible = not any(words in str(error) for words in CONVERSION_ERRORS)
    return error if convertible else bad_entry_error(table, error, name)


def check_finite(entries: Any, name: str, who: str, n_jobs: int | None = 1) -> check.Extent | None:
    """Raise an error if entries are NaN or infinite; return the extent of rows, None of a list of entries."""
    extent = check.extent(entries, n_jobs) if entries.ndim == 2 else None
    if extent is not None and extent.finite:
        return extent
    bad = entries.size - int(np.count_nonzero(np.isfinite(entries)))
    if bad:
        raise ValueError(
            f"{name} contains NaN or infinity in {bad} of its entries; {who} needs finite numbers: "
            "drop or impute those rows."
        )
    return None


def sample_numbers(n: int, most: int) -> IntArray:
    """Return the numbers of at most ``most`` of n rows, in order; the same for every measurement of the data."""
    return np.sort(Run(0).rng("dimension").permutation(n)[:most]) if n > most else np.arange(n)


def sample_of(rows: Any, most: int) -> Any:
    """Return the rows of `sample_numbers`; all of few rows are not copied."""
    return rows[sample_numbers(rows.shape[0], most)] if rows.shape[0] > most else rows


def taken(X: Array, rows: IntArray, run: Run) -> Array:
    """Return ``X[rows]``, whose memory threads read."""
    result = np.empty((len(rows), *X.shape[1:]), X.dtype)
    run.map(lambda lo, hi: np.take(X, rows[lo:hi], 0, result[lo:hi], "clip"), run.shares(len(rows), 4096))
    return result


MIN_SHARED_BYTES = 2**21  # size of arrays from which threads fill them: a third of a millisecond


def joined(groups: Iterable[Sequence[Any]], run: Run, dtype: Any = None) -> list[Any]:
    """Return the concatenation of each group of arrays, the first in this type, whose memory threads fill."""
    results, tasks = [], []
    for parts in groups:
        ends = np.cumsum([0, *map(len, parts)]).tolist()
        results.append(np.empty((ends[-1], *parts[0].shape[1:]), dtype or parts[0].dtype))
        tasks += [(results[-1][lo:hi], part) for lo, hi, part in zip(ends, ends[1:], parts, strict=False)]
        dtype = None
    if sum(result.nbytes for result in results) >= MIN_SHARED_BYTES:
        run.map(np.copyto, tasks)
    else:
        for task in tasks:
            np.copyto(*task)
    return results
