"""What embedders and clusterers share: the constructor that stores declared parameters, and the checks of ``X``."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, dataclass_transform

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, validate_data

from manifoldry._core import check
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._input import as_table, name_bad_entry, owned
from manifoldry.methods._base._synonyms import unknown_parameter

C = TypeVar("C", bound=type)

CONVERSION_ERRORS = ("could not convert", "float() argument", "setting an array element", "too large to convert")
"""How numpy and pandas begin to say that an entry is no number."""


def fitted(*, init: Literal[False] = False) -> Any:  # noqa: ARG001
    """Declare an attribute that `fit` leaves behind, with its type; it is no parameter and absent before."""
    return field(init=False)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(fitted, field))
def estimator(cls: C) -> C:
    """Make the annotated names of a class the parameters of its constructor, which only stores them.

    The annotation says what a parameter may be (see `manifoldry._core.parameters`); a ``ClassVar`` is not a parameter.
    Parameters are given by name. Only one declared as ``field(default=2, kw_only=False)`` may be given by position:
    ``n_components`` of a method and ``n_clusters`` of a clustering. If another library has another name for a
    parameter, the error gives ours.
    """
    cls = cast(C, dataclass(eq=False, repr=False, kw_only=True)(cls))
    store, names = cls.__init__, [each.name for each in fields(cls) if each.init]  # type: ignore[misc]
    positional = [each.name for each in fields(cls) if each.init and not each.kw_only]

    @functools.wraps(store)
    def construct(self: Any, *args: Any, **parameters: Any) -> None:
        if len(args) > len(positional):
            allowed = f"only {positional[0]}" if positional else "none"
            raise TypeError(
                f"{cls.__name__} takes parameters by name, and {allowed} by position; got {len(args)} positional "
                f"arguments: write name=value, with the names {', '.join(names)}."
            )
        for name in parameters:
            if name not in names:
                raise TypeError(unknown_parameter(cls.__name__, name, names))
        store(self, *args, **parameters)

    cls.__init__ = construct  # type: ignore[misc]
    return cls


def validated_rows(
    model: Any, X: Any, *, reset: bool, sparse: bool, own: bool = False, min_points: int = 2, missing: bool = False
) -> Any:
    """Return ``X`` as finite numbers in two dimensions, in single or double precision; if ``own``, never the caller's.

    ``reset`` is for the points of a fit, whose columns the model remembers; else those must be the same. ``missing``
    admits NaN.
    """
    table = as_table(X)
    try:
        rows = validate_data(
            model,
            table,
            reset=reset,
            accept_sparse="csr" if sparse else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=min_points if reset else 1,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise _in_words(table, error, "X") from None
    entries = rows.data if issparse(rows) else rows
    entries = entries[~np.isnan(entries)] if missing else entries
    if missing and np.isinf(entries).any():
        raise ValueError(
            f"X contains infinity in {np.isinf(entries).sum()} of its entries; {type(model).__name__} takes NaN for "
            "entries that are missing: put it in their place."
        )
    _refuse_not_finite(entries, "X", type(model).__name__)
    if reset:
        check.integers_kept(table, rows)
    else:  # of new points it does not matter how close they are
        check.representable_scale(entries, spread=0.0)
    return owned(rows, X) if own else rows


def validated_places(Y: Any, n_columns: int, *, sparse: bool = False) -> Any:
    """Return places in an embedding of ``n_columns`` as finite numbers, in single or double precision."""
    table = as_table(Y, "Y")
    try:
        places = check_array(
            table, accept_sparse="csr" if sparse else False, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise _in_words(table, error, "Y") from None
    if places.shape[1] != n_columns:
        raise ValueError(f"Coordinates need the embedding's {n_columns} columns; got {places.shape[1]}.")
    _refuse_not_finite(places.data if issparse(places) else places, "Y", "inverse_transform")
    check.representable_scale(places, spread=0.0, what="Y")
    return places


def _in_words(table: Any, error: Exception, name: str) -> Exception:
    """Return an error about an entry that is no number in our words, any other as it is."""
    convertible = not any(words in str(error) for words in CONVERSION_ERRORS)
    return error if convertible else name_bad_entry(table, error, name)


def _refuse_not_finite(entries: FloatArray, name: str, who: str) -> None:
    bad = entries.size - int(np.count_nonzero(np.isfinite(entries)))
    if bad:
        raise ValueError(
            f"{name} contains NaN or infinity in {bad} of its entries; {who} needs finite numbers: "
            "drop or impute those rows."
        )


# scikit-learn's base classes, and for type checkers what they have.
#
# scikit-learn has no types. To a checker a class of unknown bases may have any attribute and take any parameter, so
# that a misspelled one would not be seen.

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    F = TypeVar("F", bound=Callable[..., Any])

    class BaseEstimator:
        """Parameters by name, and what a fit has seen of its input."""

        n_features_in_: int
        feature_names_in_: NDArray[Any]

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters by name."""

        def set_params(self, **params: Any) -> Self:
            """Set parameters by name."""

        def __repr__(self, N_CHAR_MAX: int = 700) -> str: ...
        def __sklearn_tags__(self) -> Any: ...
        def _html_repr(self) -> str: ...

    class TransformerMixin:
        """Output as arrays or as data frames."""

        def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
            """Set the kind of output."""

    class ClassNamePrefixFeaturesOutMixin:
        """Names of the columns of the output."""

        def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
            """Return the names of the columns."""

    class ClusterMixin:
        """Labels of the points of a fit."""

        def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:
            """Fit and return the labels."""

    def available_if(check: Callable[[Any], bool]) -> Callable[[F], F]:
        """Make a method available where the check says so."""

else:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
    from sklearn.utils.metaestimators import available_if

__all__ = ["BaseEstimator", "ClassNamePrefixFeaturesOutMixin", "ClusterMixin", "TransformerMixin", "available_if"]
