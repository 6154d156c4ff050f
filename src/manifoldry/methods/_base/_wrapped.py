"""Methods that scikit-learn already does well: estimators whose fit delegates to scikit-learn's."""

from __future__ import annotations

import functools
import inspect
import numbers
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.arrays import returned_like, sample_of, validated_coordinates
from manifoldry._core.chunks import ChunkedData, ChunkSample
from manifoldry._core.run import Run, blas_threads_for, one_blas_thread
from manifoldry._core.values import FloatArray, Spectrum
from manifoldry._core.warnings import warn
from manifoldry.methods._base._embedder import TransformMixin
from manifoldry.methods._base._estimator import NotConvergedWarning, as_chunked, available_if

if TYPE_CHECKING:
    from manifoldry._numerics.elbow import Suggestion

NOT_FINITE_ERRORS = ("must not contain infs", "has a NaN entry", "float NaN to integer", "Input contains")
"""Errors of numpy, scipy and scikit-learn about numbers that overflowed; errors about X itself give its name."""
DEFAULTS = {"n_components": 2, "random_state": 0}
"""Defaults that differ from scikit-learn's: those of all other methods, so that a fit draws a picture and repeats."""
ROW_ATTRIBUTES = {"embedding_", "spectrum_", "diagnostics_", "sampled_rows_", "feature_names_in_"}
"""What a fit keeps of individual rows, or only for messages: maps of new rows do not need it."""
N_CURVE_DIMENSIONS = 10
"""Dimensions among which an elbow is searched: more components would not be examined individually."""
MAX_VARIANCE_ROWS = 2000  # maximum number of rows whose principal components are computed for a suggestion


def residual_variance_shares(rows: Any) -> FloatArray:
    """Return the shares of the variance that 1, 2, ..., 10 principal components leave out, of a sample of the rows."""
    run = Run(0, 1)
    sample = sample_of(rows, MAX_VARIANCE_ROWS).astype(float)
    with one_blas_thread():
        if issparse(sample):
            from manifoldry._numerics.scaling import center_gram

            product = center_gram((sample @ sample.T).toarray(), run)
        else:
            centered = sample - sample.mean(axis=0)
            product = centered @ centered.T if centered.shape[1] > len(centered) else centered.T @ centered
        # All eigenvalues of at most 2,000 rows by LAPACK take no longer than a few by iteration.
        values = np.maximum(np.linalg.eigvalsh(product)[::-1][:N_CURVE_DIMENSIONS], 0.0)
    return np.maximum(1.0 - np.cumsum(values) / (np.trace(product) or 1.0), 0.0)


def _has_inverse(model: Wrapped) -> bool:
    """Tell whether scikit-learn's class has an inverse transform."""
    return hasattr(model._wraps, "inverse_transform")


class Wrapped(TransformMixin):
    """Base of the methods that delegate to a class of scikit-learn: ``class PCA(Wrapped, wraps=decomposition.PCA)``.

    Parameters, fitted attributes and further methods are those of scikit-learn. By default there are two components,
    and the seed is 0, which may be a numpy Generator. Results are checked and reported as those of all methods.
    """

    n_components: Any
    random_state: Any

    _wraps: ClassVar[type[Any]]
    _parameter_constraints: ClassVar[dict[str, Any]]

    _spans_rows: ClassVar[bool] = True
    """Whether the components come from the rows, so that there are at most as many as rows or columns."""

    _own_parameters: ClassVar[dict[str, Any]] = {}
    """Parameters that scikit-learn's class does not have, with their defaults."""

    _unit_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    """Standard deviations of the data for which absolute numbers inside scikit-learn's iteration do no harm."""

    if TYPE_CHECKING:

        def __init__(self, n_components: Any = 2, **parameters: Any) -> None: ...

    def __init_subclass__(cls, wraps: type[Any] | None = None, **kwargs: Any) -> None:
        if wraps is not None:
            cls._wraps, cls._parameter_constraints = wraps, wraps._parameter_constraints
            cls.__init__ = _constructor(wraps, cls._own_parameters)  # type: ignore[method-assign]
            for name in dir(wraps):
                if not name.startswith(("_", "set_")) and callable(getattr(wraps, name)) and not hasattr(cls, name):
                    setattr(cls, name, _delegated(getattr(wraps, name)))
        super().__init_subclass__(**kwargs)

    def _map_rows(self, rows: Any) -> Any:
        with self._computing():
            return self._transform_rows(self._delegate(), rows)

    @available_if(_has_inverse)
    def inverse_transform(self, X: Any) -> Any:
        """Map coordinates back to points.

        Parameters
        ----------
        X : array or chunked data, of shape (n_new, n_components)
            Coordinates in the embedding.

        Returns
        -------
        ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self)
        chunks = as_chunked(X)
        if chunks is not None:
            return self._map_chunks("inverse_transform", chunks)
        coordinates = validated_coordinates(X, self._n_features_out, sparse=self._accepts_sparse)
        with self._computing():
            return returned_like(self._invert_rows(coordinates), X)

    def _invert_rows(self, coordinates: Any) -> Any:
        """Return the points at validated coordinates."""
        return self._delegate().inverse_transform(coordinates)

    @property
    def _n_features_out(self) -> int:
        """The number of columns that scikit-learn's mixin makes names for."""
        return int(self._delegate()._n_features_out)

    def _delegate(self, *, named: bool = False) -> Any:
        """Return scikit-learn's estimator with the parameters and the fitted attributes of this one.

        It knows the names of the columns only if it is ``named``: validated rows have none.
        """
        delegate, left_out = object.__new__(self._wraps), {"_sklearn_output_config"}
        left_out |= set() if named else {"feature_names_in_"}
        vars(delegate).update({name: value for name, value in vars(self).items() if name not in left_out})
        return delegate

    def _adopt(self, delegate: Any) -> None:
        """Take over the fitted attributes of scikit-learn's estimator."""
        parameters = self.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(delegate).items() if name not in parameters})

    def _fit_on_gpu(self, points: Any, run: Run) -> bool:  # noqa: ARG002
        """Fit on the GPU of the run, and return whether the method has loops for these points."""
        return False

    def _fit_points(self, points: Any, y: Any, run: Run) -> Self:  # noqa: ARG002
        if run.gpu is not None and self._fit_on_gpu(points, run):
            return self
        began = time.perf_counter()
        with self._computing(), self._iterating(), blas_threads_for(min(points.shape), max(points.shape)):
            delegate = self._delegate()
            delegate.fit(points)
            self._adopt(delegate)
        fitted = time.perf_counter()
        with self._computing():
            scores = self._transform_rows(delegate, points)
        self._keep(points, scores, {"fit": fitted - began, "transform": time.perf_counter() - fitted}, run.device)
        self._check_layout(points, Run(0))
        return self

    def _transform_rows(self, delegate: Any, rows: Any) -> Any:
        """Return the coordinates of validated rows."""
        return delegate.transform(rows)

    def _run(self) -> Run:
        seed = getattr(self, "random_state", 0)
        # A generator must not be drawn from before scikit-learn does, nor a bad seed be refused in other words.
        return Run(int(seed) if isinstance(seed, (int, np.integer)) and seed >= 0 else 0)

    def _fit_chunks(self, chunks: ChunkedData, y: Any, run: Run) -> Self:  # noqa: ARG002
        return super()._fit_chunks(chunks, y, Run(getattr(self, "random_state", 0)))

    def _strip_for_transform(self, method: str) -> Self:  # noqa: ARG002
        return self._stripped(set(vars(self)) - ROW_ATTRIBUTES)

    @property
    def _accepts_sparse(self) -> bool:
        return bool(self.__sklearn_tags__().input_tags.sparse)

    def __sklearn_tags__(self) -> Any:
        return self._delegate().__sklearn_tags__()

    def _check_declared(self) -> None:
        check.wrapped_parameters(self)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        rows = self._validated_rows(X, reset=reset, sparse=self._accepts_sparse)
        if reset:
            check.distinct_points(rows)
            limit = check.MAX_SINGLE_SCALE if rows.dtype.itemsize <= 4 else check.MAX_SCALE
            if issparse(rows):
                check.representable_scale(rows, spread=check.column_spread(rows), limit=limit)
            else:
                extent = check.extent(rows, None)
                check.representable_scale(rows, spread=extent.spread, size=extent.size, limit=limit)
            self._check_components(rows)
        return rows

    def _check_parameters(self, n_points: int) -> None:
        """Leave the other parameters to scikit-learn, which checks them when it fits."""

    def _check_components(self, rows: Any) -> None:
        if isinstance(self.n_components, numbers.Integral):
            most, because = None, ""
            if self._spans_rows:
                most, because = min(rows.shape), f" for {rows.shape[0]} points with {rows.shape[1]} columns"
            check.integer("n_components", self.n_components, 1, most, because)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Replace a numpy Generator, which scikit-learn does not accept, by a number from it, and explain failures."""
        seed = getattr(self, "random_state", None)
        if isinstance(seed, np.random.Generator):
            self.random_state = int(seed.integers(2**32))
        try:
            with np.errstate(all="ignore"):  # coordinates that are not finite are detected at the end
                yield
        except (np.linalg.LinAlgError, OverflowError, ValueError) as error:
            numerical = isinstance(error, (np.linalg.LinAlgError, OverflowError))
            if numerical or any(words in str(error) for words in NOT_FINITE_ERRORS):
                raise self._no_answer() from None
            raise
        finally:
            if isinstance(seed, np.random.Generator):
                self.random_state = seed

    @contextmanager
    def _iterating(self) -> Iterator[None]:
        """Report as a finding of the fit that an iteration of scikit-learn has not converged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield
        model: Any = self
        most = getattr(self, "max_iter", None)
        if most is not None and getattr(self, "n_iter_", 0) >= most and model.tol > 0:
            warn(
                f"The iteration ended after max_iter={most} steps, before the tolerance tol={model.tol:g} was reached: "
                "raise max_iter or tol.",
                NotConvergedWarning,
            )

    def _check_in_memory(self, method: str, X: Any) -> None:
        """Raise an error for chunked data, of which scikit-learn's method would make one array."""
        if as_chunked(X) is not None:
            raise ValueError(
                f"{type(self).__name__}.{method} takes rows in memory; got chunked data: fit and transform take "
                "them; or pass a sample, manifoldry.chunked_data(X).sample(2000, numpy.random.default_rng(0)).rows."
            )

    def _no_answer(self) -> ValueError:
        return ValueError(
            f"{type(self).__name__} found no finite coordinates: columns of X are constant, multiples of each other or "
            "of very different size; drop or scale them (StandardScaler), or ask for fewer components."
        )

    def _keep(self, rows: Any, scores: Any, seconds: dict[str, float], device: str = "cpu") -> None:
        """Set the attributes that a fit adds to scikit-learn's."""
        from manifoldry.methods._base._checks import dimension_later

        self.embedding_ = scores.toarray() if issparse(scores) else np.asarray(scores)
        if not np.isfinite(self.embedding_).all():
            raise self._no_answer()
        self.diagnostics_ = {
            "seconds": seconds,
            "dimension": dimension_later(rows),
            "advice": tuple(self._unit_advice(rows)),
            **({"device": device} if "device" in self._own_parameters else {}),
        }

    def _unit_advice(self, X: Any) -> Iterator[str]:
        if self._unit_range == (0.0, np.inf):
            return
        size = np.sqrt(X.multiply(X).mean()) if issparse(X) else np.sqrt(X.var(axis=0).mean())
        low, high = self._unit_range
        if not low <= size <= high:
            yield (
                f"scikit-learn's {type(self).__name__} compares X with absolute numbers, and X varies by {size:.2g}: "
                "the result depends on the unit, so divide X by its standard deviation."
            )

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        if method == "score_samples":
            return 0, np.dtype(np.float64), "log_likelihood"
        return super()._output_of(method)


def _constructor(wraps: type[Any], others: dict[str, Any]) -> Callable[..., None]:
    """Return a constructor that stores scikit-learn's parameters, with our defaults, and the ``others``."""
    signature = inspect.signature(wraps.__init__)
    parameters = [
        each.replace(default=DEFAULTS[name]) if name in DEFAULTS else each
        for name, each in signature.parameters.items()
    ]
    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters += [inspect.Parameter(name, by_name, default=default) for name, default in others.items()]
    signature = signature.replace(parameters=parameters)

    def __init__(self: Any, *args: Any, **parameters: Any) -> None:  # noqa: N807
        given = signature.bind(self, *args, **parameters)
        given.apply_defaults()
        vars(self).update(list(given.arguments.items())[1:])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _delegated(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of scikit-learn that is called on the delegate; ``score_samples`` also maps chunked data."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = args[0] if args else kwargs.get("X")
        if name == "score_samples" and (chunks := as_chunked(X)) is not None:
            check_is_fitted(self)
            return self._map_chunks(name, chunks)
        self._check_in_memory(name, X)
        return getattr(self._delegate(named=True), name)(*args, **kwargs)

    return call


SPECTRUM_ROWS = 8192  # rows of a block from which residuals are computed


class WrappedSpectral(Wrapped):
    """Base of scikit-learn's principal components, whose eigenpairs are kept in ``spectrum_``."""

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
        from manifoldry._numerics.elbow import elbow

        check_is_fitted(self)
        if not hasattr(self, "spectrum_"):
            raise ValueError(
                f"{type(self).__name__}.partial_fit keeps no rows to measure a dimension from: read "
                "explained_variance_ratio_, or ask suggest_n_components(X) of a sample."
            )
        left = self.diagnostics_["left_over"][: check.integer("max_components", max_components, 1)]
        return elbow(left, "share of the variance left out", super().suggest_n_components())

    def _keep(self, rows: Any, scores: Any, seconds: dict[str, float], device: str = "cpu") -> None:
        with np.errstate(all="ignore"):  # coordinates that are not finite are detected below
            self.spectrum_ = self._gram_spectrum(rows, Run(0))
        from manifoldry.methods._base._checks import measured_later

        super()._keep(rows, scores, seconds, device)
        self._notes["left_over"] = measured_later(residual_variance_shares, rows)

    def _gram_spectrum(self, rows: Any, run: Run) -> Spectrum:
        """Return the eigenpairs of the Gram matrix of the centered rows, read twice in blocks, and their residuals."""
        n, axes, mean = rows.shape[0], self.components_.astype(np.float64).T, self.mean_.astype(np.float64)
        values = (n - 1) * self.explained_variance_.astype(np.float64)
        vectors, blocks = np.empty((n, len(values))), run.ranges(n, n if issparse(rows) else SPECTRUM_ROWS)

        def block(lo: int, hi: int) -> Any:
            return rows[lo:hi] if issparse(rows) else np.asarray(rows[lo:hi], dtype=np.float64)

        def projected(lo: int, hi: int) -> FloatArray:
            X, own = block(lo, hi), vectors[lo:hi]
            own[:] = X @ axes - mean @ axes
            return np.vstack([X.T @ own, own.sum(axis=0), np.square(own).sum(axis=0)])

        def defects(lo: int, hi: int) -> FloatArray:
            vectors[lo:hi] /= norms
            return np.square(block(lo, hi) @ back - mean @ back - values * vectors[lo:hi]).sum(axis=0)

        *back, total, squares = functools.reduce(np.add, run.map(projected, blocks, blas=True))
        norms = np.sqrt(np.where(squares > 0, squares, 1.0))
        # X_c X_c' v without the n x n matrix; the row of means carries the centering.
        back = (back - np.outer(mean, total)) / norms
        residuals = np.sqrt(functools.reduce(np.add, run.map(defects, blocks, blas=True)))
        return Spectrum(values, vectors, residuals, "largest")

    def _forget_rows(self) -> None:
        """Remove what a fit has kept of individual rows."""
        for name in ("embedding_", "spectrum_", "diagnostics_"):
            self.__dict__.pop(name, None)

    def _keep_chunked(
        self, sample: ChunkSample, values: FloatArray, residuals: FloatArray, left_over: FloatArray, run: Run
    ) -> None:
        """Set the fitted attributes of a fit to all rows; coordinates and entries of vectors are those of the sample.

        ``values`` and ``residuals`` are those of the Gram matrix of all centered rows.
        """
        from manifoldry._numerics.geometry.neighborhoods import dense

        values = values[: len(residuals)]
        centered = dense(sample.rows) - self.mean_.astype(np.float64)
        vectors = centered @ self.components_.astype(np.float64).T / np.sqrt(np.where(values > 0, values, 1.0))
        spectrum = Spectrum(values, vectors, residuals, "largest")
        self._keep_spectrum(sample.rows, self.transform(sample.rows), spectrum, left_over, run)

    def _keep_spectrum(self, rows: Any, scores: Any, spectrum: Spectrum, left_over: FloatArray, run: Run) -> None:
        """Set the fitted attributes and check the layout of these rows."""
        self.spectrum_ = spectrum
        super()._keep(rows, scores, dict(run.seconds), run.device)
        self._notes["left_over"] = left_over
        self._check_layout(rows, Run(0))
