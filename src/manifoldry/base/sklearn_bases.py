"""scikit-learn's base classes, and for type checkers what they have.

scikit-learn has no types. To a checker a class of unknown bases may have any attribute and take any parameter, so that
a misspelled one would not be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

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
