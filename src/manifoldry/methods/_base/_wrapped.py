"""What scikit-learn's decompositions leave behind beside their own attributes, so that all methods can be compared."""

from __future__ import annotations

import functools
import inspect
import numbers
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.run import Run
from manifoldry._core.threads import blas_threads_for
from manifoldry._core.values import FloatArray, Spectrum
from manifoldry._core.warnings import collects
from manifoldry._numerics.elbow import Suggestion, elbow
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry.data._chunked import BlockSample, RowBlocks, as_blocks
from manifoldry.data._models import save_estimator
from manifoldry.methods._base._advice import by_dimension, iterating, repr_with_advice, variance_left_over
from manifoldry.methods._base._checks import keep_advice
from manifoldry.methods._base._chunks import (
    BlockFit,
    bare,
    draw_sample,
    keep_sample,
    map_blocks,
    refuse_output,
    sampled_targets,
)
from manifoldry.methods._base._estimator import validated_places, validated_rows
from manifoldry.methods._base._notebook import embedding_html

NOT_FINITE_ERRORS = ("must not contain infs", "has a NaN entry", "float NaN to integer", "Input contains")
"""What numpy, scipy and scikit-learn say of numbers that overflowed on the way; of those given they give the name."""

DEFAULTS = {"n_components": 2, "random_state": 0}
"""Defaults that differ from scikit-learn's: those of all other methods, so that a fit draws a picture and repeats."""

ROW_METHODS = ("partial_fit", "score", "score_samples")
"""Methods of scikit-learn that would make one array of whatever they get."""


def _has_inverse(model: Any) -> bool:
    """Tell whether scikit-learn's class leads coordinates back."""
    return hasattr(super(Wrapped, model), "inverse_transform")


class Wrapped(TransformerMixin):
    """Mixed into a class of scikit-learn: the same computation, our checks, and the fitted attributes of our contract.

    By default there are two components, and the seed is 0, which may be a numpy Generator.
    """

    embedding_: FloatArray
    diagnostics_: dict[str, Any]
    n_components: Any
    random_state: Any
    _n_features_out: int
    n_features_in_: int

    _blockwise: ClassVar[BlockFit] = BlockFit()

    _spans_rows: ClassVar[bool] = True
    """Whether the components come from the rows: then there are no more than rows or columns."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = inspect.signature(cls).parameters
        if defaults := {name: value for name, value in DEFAULTS.items() if name in known}:
            cls.__init__ = _with_defaults(cls.__init__, defaults)  # type: ignore[method-assign]
        for name in ROW_METHODS:
            if hasattr(cls, name):
                setattr(cls, name, _told_of_blocks(getattr(cls, name)))

    _unit_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    """Standard deviations of the data for which absolute numbers inside scikit-learn's iteration do no harm."""

    @collects
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit as scikit-learn does and keep the coordinates of the rows in ``embedding_``."""
        blocks = as_blocks(X)
        if blocks is not None:
            return self._fit_blocks(blocks, y)
        X = on_host(X)
        rows = self._checked(X)
        X = rows if isinstance(X, (list, tuple)) else X  # scikit-learn does not convert entries such as Decimal there
        began = time.perf_counter()
        with self._computing(), iterating(self), blas_threads_for(min(rows.shape), max(rows.shape)):
            super().fit(X)
        fitted = time.perf_counter()
        scores = self.transform(rows if issparse(X) else X)  # some slice rows, which not all sparse formats can
        self._keep(rows, scores, {"fit": fitted - began, "transform": time.perf_counter() - fitted})
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr_with_advice(super().__repr__(N_CHAR_MAX), self)

    def _html_repr(self) -> str:
        """Return what scikit-learn's ``_repr_html_`` and ``_repr_mimebundle_`` show in a notebook."""
        return embedding_html(self) if hasattr(self, "diagnostics_") else str(super()._html_repr())

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Fit and return the coordinates of the rows, shape (n_samples, n_components)."""
        blocks = as_blocks(X)
        if blocks is not None:
            refuse_output(self)
            return self.fit(blocks, y).transform(blocks)
        return self.fit(X, y).embedding_

    def _fit_blocks(self, blocks: RowBlocks, y: Any) -> Self:
        """Fit to rows in blocks: to all of them where the method can, else to a sample."""
        run = self._run()
        sample = draw_sample(self, blocks, self._blockwise.n_rows, run)
        if sample.whole or self._blockwise.kind == "sample":
            self.fit(sample.rows, sampled_targets(y, sample))
        else:
            self._fit_whole(blocks, sample, run)
        keep_sample(self, blocks, sample)
        return self

    def _fit_whole(self, blocks: RowBlocks, sample: BlockSample, run: Run) -> None:
        """Fit to all rows, and keep the coordinates of a sample: of methods whose ``_blockwise`` says "whole"."""
        raise NotImplementedError

    def _run(self) -> Run:
        seed = getattr(self, "random_state", 0)
        return Run(seed)

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        """Return columns, type and names of what a method makes of rows."""
        if method == "transform":
            return self.embedding_.shape[1], self.embedding_.dtype, list(self.get_feature_names_out())
        if method == "score_samples":
            return 0, np.dtype(np.float64), "log_likelihood"
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return self.n_features_in_, self.embedding_.dtype, list(names)

    def _map_alone(self, method: str) -> Self:  # noqa: ARG002
        """Return a fitted estimator without what it knows of single rows."""
        kept = set(vars(self)) - {"embedding_", "spectrum_", "diagnostics_", "sampled_rows_", "feature_names_in_"}
        alone: Self = bare(self, kept)
        return alone

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows as scikit-learn does, once they are checked."""
        check_is_fitted(self)
        blocks = as_blocks(X)
        if blocks is not None:
            return map_blocks(self, "transform", blocks)
        X = on_host(X)
        rows = self._validated(X, reset=False)
        with self._computing():
            return super().transform(rows if isinstance(X, (list, tuple)) else X)

    @available_if(_has_inverse)
    def inverse_transform(self, X: Any) -> Any:
        """Lead coordinates back to points as scikit-learn does, once they are checked."""
        check_is_fitted(self)
        blocks = as_blocks(X)
        if blocks is not None:
            return map_blocks(self, "inverse_transform", blocks)
        places = validated_places(X, self._n_features_out, sparse=get_tags(self).input_tags.sparse)
        with self._computing():
            return super().inverse_transform(places)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        return validated_rows(self, X, reset=reset, sparse=get_tags(self).input_tags.sparse)

    def _checked(self, X: Any) -> Any:
        """Return the rows of a fit; refuse what is no numbers or all the same, and more components than there are."""
        self.__dict__.pop("sampled_rows_", None)  # of an earlier fit
        check.wrapped_parameters(self)
        rows = self._validated(X, reset=True)
        check.distinct_points(rows)
        limit = check.MAX_SINGLE_SCALE if rows.dtype.itemsize <= 4 else check.MAX_SCALE
        check.representable_scale(rows, spread=check.column_spread(rows), limit=limit)
        if isinstance(self.n_components, numbers.Integral):
            most, because = None, ""
            if self._spans_rows:
                most, because = min(rows.shape), f" for {rows.shape[0]} points with {rows.shape[1]} columns"
            check.integer("n_components", self.n_components, 1, most, because)
        return rows

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Give scikit-learn, which takes no numpy Generator, a number drawn from it, and say its failures in words."""
        seed = getattr(self, "random_state", None)
        if isinstance(seed, np.random.Generator):
            self.random_state = int(seed.integers(2**32))
        try:
            with np.errstate(all="ignore"):  # what is not finite in the end is refused
                yield
        except (np.linalg.LinAlgError, OverflowError, ValueError) as error:
            numerical = isinstance(error, (np.linalg.LinAlgError, OverflowError))
            if numerical or any(words in str(error) for words in NOT_FINITE_ERRORS):
                raise self._no_answer() from None
            raise
        finally:
            if isinstance(seed, np.random.Generator):
                self.random_state = seed

    def _no_answer(self) -> ValueError:
        return ValueError(
            f"{type(self).__name__} found no finite coordinates: columns of X are constant, multiples of each other or "
            "of very different size; drop or scale them (StandardScaler), or ask for fewer components."
        )

    def _keep(self, rows: Any, scores: Any, seconds: dict[str, float]) -> None:
        """Set what a fit leaves behind, and look at the layout: the last step of every fit."""
        self.embedding_ = scores.toarray() if issparse(scores) else np.asarray(scores)
        if not np.isfinite(self.embedding_).all():
            raise self._no_answer()
        self.diagnostics_ = {
            "seconds": seconds,
            "dimension": intrinsic_dimension(rows),
            "advice": tuple(self._unit_advice(rows)),
        }
        keep_advice(self, rows, Run(0))

    def _unit_advice(self, X: Any) -> Iterator[str]:
        size = np.sqrt(X.multiply(X).mean()) if issparse(X) else np.sqrt(X.var(axis=0).mean())
        low, high = self._unit_range
        if not low <= size <= high:
            yield (
                f"scikit-learn's {type(self).__name__} compares X with absolute numbers, and X varies by {size:.2g}: "
                "the result depends on the unit, so divide X by its standard deviation."
            )

    save = save_estimator

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension of the data, measured from distances to neighbors, and why.

        It does not depend on the ``n_components`` asked for.
        """
        check_is_fitted(self, "diagnostics_")
        return by_dimension(self.diagnostics_["dimension"])


def _told_of_blocks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of scikit-learn that maps rows in blocks where it gives a number a row, and else refuses them."""

    @functools.wraps(method)
    def of_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        blocks = as_blocks(X)
        if blocks is None:
            return method(self, X, *args, **kwargs)
        if method.__name__ == "score_samples":
            check_is_fitted(self)
            return map_blocks(self, "score_samples", blocks)
        raise ValueError(
            f"{type(self).__name__}.{method.__name__} takes rows in memory; got rows in blocks: fit and "
            "transform take them; or pass a sample, manifoldry.row_blocks(X).sample(2000, "
            "numpy.random.default_rng(0)).rows."
        )

    return of_rows


def _with_defaults(construct: Callable[..., None], defaults: dict[str, Any]) -> Callable[..., None]:
    """Return a constructor with other default values."""
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def construct_ours(self: Any, *args: Any, **parameters: Any) -> None:
        given = signature.bind(self, *args, **parameters)
        for name, value in defaults.items():
            given.arguments.setdefault(name, value)
        construct(*given.args, **given.kwargs)

    parameters = [
        known.replace(default=defaults[name]) if name in defaults else known
        for name, known in signature.parameters.items()
    ]
    construct_ours.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return construct_ours


class WrappedSpectral(Wrapped):
    """The same for principal components, whose eigenpairs are left in ``spectrum_``."""

    spectrum_: Spectrum
    components_: FloatArray
    mean_: FloatArray
    explained_variance_: FloatArray
    explained_variance_ratio_: FloatArray

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the dimension at a clear elbow of the variance left out, else the measured one, and why.

        Without a clear elbow it is the first that leaves at most a twentieth, if one of those tried does. All that
        does not depend on the ``n_components`` asked for.

        Parameters
        ----------
        max_components : int
            The largest dimension tried, up to 10.
        """
        check_is_fitted(self)
        if not hasattr(self, "spectrum_"):
            raise ValueError(
                f"{type(self).__name__}.partial_fit keeps no rows to measure a dimension from: read "
                "explained_variance_ratio_, or ask suggest_n_components(X) of a sample."
            )
        left = self.diagnostics_["left_over"][: check.integer("max_components", max_components, 1)]
        return elbow(left, "share of the variance left out", super().suggest_n_components())

    def _keep(self, rows: Any, scores: Any, seconds: dict[str, float]) -> None:
        with np.errstate(all="ignore"):  # coordinates that are not finite are refused below
            X = rows if issparse(rows) else np.asarray(rows, dtype=np.float64)
            values = (rows.shape[0] - 1) * self.explained_variance_.astype(np.float64)
            projected = X @ self.components_.T - self.mean_ @ self.components_.T
            norms = np.linalg.norm(projected, axis=0)
            vectors = projected / np.where(norms > 0, norms, 1.0)
            # X_c X_c' v without the n x n matrix; the row of means carries the centering.
            back = X.T @ vectors - np.outer(self.mean_, vectors.sum(axis=0))
            images = X @ back - self.mean_ @ back
            self.spectrum_ = Spectrum(values, vectors, np.linalg.norm(images - values * vectors, axis=0), "largest")
        super()._keep(rows, scores, seconds)
        self.diagnostics_["left_over"] = variance_left_over(rows)

    def _keep_whole(
        self, sample: BlockSample, values: FloatArray, residuals: FloatArray, left_over: FloatArray, run: Run
    ) -> None:
        """Set what a fit to all rows in blocks leaves behind: places, and entries of vectors, of the sample.

        ``values`` and ``residuals`` are those of the Gram matrix of all centered rows.
        """
        values = values[: len(residuals)]
        centered = dense(sample.rows) - self.mean_.astype(np.float64)
        vectors = centered @ self.components_.astype(np.float64).T / np.sqrt(np.where(values > 0, values, 1.0))
        self.spectrum_ = Spectrum(values, vectors, residuals, "largest")
        super()._keep(sample.rows, self.transform(sample.rows), dict(run.seconds))
        self.diagnostics_["left_over"] = left_over
