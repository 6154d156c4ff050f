"""What embedders and clusterers share: the constructor that stores declared parameters, and the checks of ``X``."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, cast, dataclass_transform

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from manifoldry.base.synonyms import unknown_parameter

C = TypeVar("C", bound=type)


def fitted(*, init: Literal[False] = False) -> Any:  # noqa: ARG001
    """Declare an attribute that `fit` leaves behind, with its type; it is no parameter and absent before."""
    return field(init=False)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(fitted,))
def estimator(cls: C) -> C:
    """Make the annotated names of a class the keyword-only parameters of its constructor, which only stores them.

    The annotation says what a parameter may be (see `manifoldry.parameters`); a ``ClassVar`` is no parameter. A word
    that another library has for a parameter gets an error with ours.
    """
    cls = cast(C, dataclass(eq=False, repr=False, kw_only=True)(cls))
    store, names = cls.__init__, [each.name for each in fields(cls) if each.init]  # type: ignore[misc]

    @functools.wraps(store)
    def construct(self: Any, *args: Any, **parameters: Any) -> None:
        if args:
            raise TypeError(f"{cls.__name__} takes its parameters by name, for example {names[0]}={args[0]!r}.")
        for name in parameters:
            if name not in names:
                raise TypeError(unknown_parameter(cls.__name__, name, names))
        store(self, **parameters)

    cls.__init__ = construct  # type: ignore[misc]
    return cls


def validated_rows(model: Any, X: Any, *, reset: bool, sparse: bool, min_points: int = 2) -> Any:
    """Return ``X`` as finite numbers in two dimensions, in single or double precision."""
    _refuse_shapes_and_text(X)
    try:
        X = validate_data(
            model,
            X,
            reset=reset,
            accept_sparse="csr" if sparse else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=min_points if reset else 1,
        )
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"X must hold numbers; {error}: encode or drop such columns.") from None
    entries = X.data if issparse(X) else X
    bad = entries.size - int(np.count_nonzero(np.isfinite(entries)))
    if bad:
        raise ValueError(
            f"X contains NaN or infinity in {bad} of its entries; {type(model).__name__} needs finite numbers: "
            "drop or impute those rows."
        )
    return X


def _refuse_shapes_and_text(X: Any) -> None:
    if issparse(X):
        return
    array = X if hasattr(X, "ndim") and hasattr(X, "shape") else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"X must be two-dimensional, one row per point; got shape {tuple(array.shape)}. "
            "Reshape your data with X.reshape(-1, 1) for one column or X.reshape(1, -1) for one row."
        )
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers; pass real and imaginary columns.")
    if kind and kind in "USmM":
        raise ValueError(f"X must hold numbers; got entries of type {array.dtype}: encode them first.")
