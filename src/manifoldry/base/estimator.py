"""What every estimator is: stored words, one run per fit, input checked in one place."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from manifoldry import check
from manifoldry.run import Run
from manifoldry.values import NeighborGraph

C = TypeVar("C", bound=type)
PAIRWISE = ("precomputed", "gram")


@dataclass_transform(eq_default=False, kw_only_default=True)
def stores(cls: C) -> C:
    """Make the annotated names of an estimator class its constructor's parameters, which it stores and nothing else.

    A dataclass, in other words, so that a method declares a parameter once. All are keywords but the one that a base
    class says is not.
    """
    return cast(C, dataclass(eq=False, repr=False, kw_only=True)(cls))


@stores
class Estimator(BaseEstimator, ABC):
    """Base of embedders and clusterers: seed, threads and progress of a fit, and the checks of its input."""

    random_state: Any = 0
    n_jobs: int | None = None
    verbose: bool = False
    callback: Any = None

    metric = "euclidean"

    _takes_graphs = False
    _takes_sparse = True
    _least_points = 2
    _extra_metrics: ClassVar[tuple[str, ...]] = ()

    def _check_metric(self) -> None:
        if isinstance(self.metric, str):
            check.metric(self.metric, ("precomputed", *self._extra_metrics))
        elif not callable(self.metric):
            raise ValueError(f"metric must be a name or a function of two rows; got {self.metric!r}.")

    def _run(self) -> Run:
        return Run(self.random_state, self.n_jobs, self.verbose, self.callback)

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.metric, str) and self.metric in PAIRWISE

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Return ``X`` checked: finite numbers in two dimensions, square where it must be, not all the same."""
        if isinstance(X, NeighborGraph):
            if not self._takes_graphs:
                raise ValueError(f"{type(self).__name__} needs points or distances; got a neighbor graph.")
            self.n_features_in_ = X.n_points
            return X
        _refuse_shapes_and_text(X)
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if self._takes_sparse else False,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=self._least_points if reset else 1,
            )
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise ValueError(f"X must hold numbers; {error}: encode or drop such columns.") from None
        entries = X.data if issparse(X) else X
        bad = entries.size - int(np.count_nonzero(np.isfinite(entries)))
        if bad:
            raise ValueError(
                f"X contains NaN or infinity in {bad} of its entries; {type(self).__name__} needs finite numbers: "
                "drop or impute those rows."
            )
        if reset:
            self._refuse_degenerate(X)
        return X

    def _refuse_degenerate(self, X: Any) -> None:
        if not self._pairwise:
            check.distinct_points(X)
        elif issparse(X):
            if not self._takes_graphs:
                raise ValueError(
                    f"{type(self).__name__} needs all pairwise distances; got a sparse graph: pass X.toarray() only "
                    "if every distance is stored."
                )
            check.square_graph(X)
        elif self.metric == "precomputed":
            check.square_distances(X)
        else:
            check.square_gram(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._pairwise
        tags.input_tags.sparse = self._takes_sparse
        return tags


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
