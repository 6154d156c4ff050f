"""Conversion of arrays of other libraries: PyTorch, CuPy, JAX, and everything that supports DLPack."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.values import Array


def refuse_blocks(X: Any, name: str) -> None:
    """Raise an error for Dask collections and chunked data if all rows are needed: they are not gathered silently."""
    lazy = hasattr(X, "__dask_graph__")
    if lazy or (hasattr(X, "block_rows") and hasattr(X, "reduce")):
        gathered = f"{name}.compute()" if lazy else f"numpy.concatenate(list({name}))"
        raise ValueError(
            f"{name} is not in memory, and is not gathered silently; got a {type(X).__name__} of {_module(X)}: pass a "
            f"sample, manifoldry.row_blocks({name}).sample(2000, numpy.random.default_rng(0)).rows, or {gathered} if "
            "it fits."
        )


def refuse_iterator(X: Any, name: str) -> None:
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
    refuse_blocks(X, name)
    if hasattr(X, "detach") and hasattr(X, "cpu"):
        return _of_torch(X.detach().cpu())
    if hasattr(X, "get") and (hasattr(X, "__cuda_array_interface__") or _module(X).startswith("cupy")):
        return _single(X.get())
    if hasattr(X, "__dlpack__"):
        return _single(np.asarray(X) if hasattr(X, "__array__") else _of_dlpack(X))
    return X


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
            "to_frame() needs pandas, which is not installed; the fields of the object hold the same values."
        ) from None
    return pandas.DataFrame(list(rows)).set_index(index)
