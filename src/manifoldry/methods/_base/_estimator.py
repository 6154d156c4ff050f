"""The base class of all methods and clusterings, and the decorator that declares their parameters."""

from __future__ import annotations

import functools
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast, dataclass_transform

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from manifoldry._core import check
from manifoldry._core.arrays import as_table, check_finite, named_entry_error, owned
from manifoldry._core.chunks import ChunkedData, ChunkSample
from manifoldry._core.docstrings import compose
from manifoldry._core.parameters import parameter
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import IntArray, NeighborGraph
from manifoldry._core.warnings import DisconnectedWarning, EmbeddingWarning, collecting, issue, pop_collected
from manifoldry.methods._base._chunks import ChunkSupport, PortableMap, bounded_size, contiguous, seen_size
from manifoldry.methods._base._synonyms import unknown_parameter

C = TypeVar("C", bound=type)
MAX_SHOWN = 4  # findings shown below the representation of a fitted estimator


def fitted(*, init: Literal[False] = False) -> Any:  # noqa: ARG001
    """Declare an attribute that `fit` leaves behind, with its type; it is no parameter and absent before."""
    return field(init=False)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(fitted, parameter, field))
def estimator(cls: C) -> C:
    """Make the annotated names of a class the parameters of its constructor, which only stores them.

    The annotation defines the valid values of a parameter (see `manifoldry._core.parameters`); a ``ClassVar`` is not a
    parameter. Its text is written into the docstring of the class. Parameters are given by name. Only one declared with
    ``kw_only=False`` may be given by position: ``n_components`` of a method and ``n_clusters`` of a clustering. If
    another library has another name for a parameter, the error names ours.
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

    signature = inspect.signature(store)
    construct.__signature__ = signature.replace(  # type: ignore[attr-defined]  # types are in the docstring, in words
        parameters=[each.replace(annotation=each.empty) for each in signature.parameters.values()],
        return_annotation=signature.empty,
    )
    cls.__init__ = construct  # type: ignore[misc]
    compose(cls)
    return cls


# scikit-learn's base classes, and for type checkers what they have.
#
# scikit-learn has no types. To a checker a class of unknown bases may have any attribute and take any parameter, so
# that a misspelled one would not be seen.

if TYPE_CHECKING:
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

        def __getstate__(self) -> Any: ...
        def __repr__(self, N_CHAR_MAX: int = 700) -> str: ...
        def __sklearn_tags__(self) -> Any: ...
        def _html_repr(self) -> str: ...
        def _validate_params(self) -> None: ...

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


class NotConvergedWarning(EmbeddingWarning, ConvergenceWarning):
    """An iteration ended at its limit, before the tolerance; the category of scikit-learn's warnings of that."""


class Estimator(BaseEstimator, ABC):
    """Base of all methods and clusterings: the steps of a fit, checks of input, chunked data, findings.

    A fit checks the parameters and the input, computes in ``_fit_points``, and reports what it found. Chunked data is
    fitted by a sample, unless the class takes account of all rows in ``_fit_chunked``.
    """

    _chunk_support: ClassVar[ChunkSupport] = ChunkSupport()
    _for_visualization: ClassVar[bool] = True
    """Whether the method is meant for pictures; its card decides."""

    @property
    def diagnostics_(self) -> dict[str, Any]:
        """What the fit found out about itself; entries that no finding needs are computed when it is first read."""
        notes = self._notes
        notes |= {name: entry() for name, entry in notes.items() if isinstance(entry, partial)}
        return notes

    @diagnostics_.setter
    def diagnostics_(self, notes: dict[str, Any]) -> None:
        vars(self)["diagnostics_"] = notes

    @property
    def _notes(self) -> dict[str, Any]:
        """``diagnostics_`` in which entries may be functions without arguments that compute them."""
        if "diagnostics_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no diagnostics_ before it is fitted.")
        return cast(dict[str, Any], vars(self)["diagnostics_"])

    def __getstate__(self) -> Any:
        getattr(self, "diagnostics_", None)  # a function is not stored, but what it computes
        return super().__getstate__()

    @property
    def _ignores_units(self) -> bool:
        """Whether the result does not depend on the units of the columns."""
        return False

    @property
    def _metric(self) -> Any:
        return getattr(self, "metric", "euclidean")

    @property
    def _pairwise(self) -> bool:
        """Whether ``X`` holds distances, inner products or affinities instead of rows of features."""
        return isinstance(self._metric, str) and self._metric in ("precomputed", "gram", "affinity")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to the rows of ``X``.

        Parameters
        ----------
        X : array, data frame, sparse matrix or chunked data, of shape (n_samples, n_features)
            One point per row; or what ``metric`` says: pairwise distances or a graph. With chunked data
            (`chunked_data`, Dask collections) ``embedding_`` or ``labels_`` belong to the rows ``sampled_rows_``;
            ``transform`` or ``predict`` maps all rows.
        y : array of shape (n_samples,), optional
            Targets, used by methods that have a ``target_weight`` above 0; otherwise ignored, for pipelines.

        Returns
        -------
        self : estimator
            With ``embedding_`` or ``labels_``, ``diagnostics_`` and what else the method has.
        """
        with collecting(self):
            run = self._run()
            self._check_declared()
            chunks = as_chunked(X)
            if chunks is not None:
                return self._fit_chunks(chunks, y, run)
            points = self._validated(X, reset=True)
            self._check_parameters(count_points(points))
            self.__dict__.pop("sampled_rows_", None)  # of an earlier fit
            with run.on_gpu(X, points):
                return self._fit_points(points, y, run)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the estimator to a file that `manifoldry.load` reads: arrays and JSON, no pickle.

        Parameters
        ----------
        path : str or path
            The file to write, by convention with the suffix ``.mfy``.
        overwrite : bool
            Whether an existing file may be replaced.
        """
        from manifoldry.data._models import save_model

        save_model(self, path, overwrite=overwrite)

    @abstractmethod
    def _check_declared(self) -> None:
        """Check the parameters against their declared limits, whatever the data."""

    @abstractmethod
    def _check_parameters(self, n_points: int) -> None:
        """Check the parameters against the data."""

    @abstractmethod
    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Return checked input: that of a fit if ``reset``, else new points."""

    @abstractmethod
    def _fit_points(self, points: Any, y: Any, run: Run) -> Self:
        """Fit to checked input, and keep and report the result."""

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        """Return columns (0 for one number per row), type and names of the output of a method that maps rows."""
        model: Any = self
        if method == "transform":
            return model.embedding_.shape[1], model.embedding_.dtype, list(model.get_feature_names_out())
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return self.n_features_in_, model.embedding_.dtype, list(names)

    @abstractmethod
    def _strip_for_transform(self, method: str) -> Self:
        """Return a fitted estimator that holds only what a method needs to map rows."""

    @abstractmethod
    def _run(self) -> Run:
        """Return seed, threads and progress of a call."""

    # Input

    def _validated_rows(self, X: Any, *, reset: bool, sparse: bool, own: bool = False, missing: bool = False) -> Any:
        """Return ``X`` as finite numbers in two dimensions, in single or double precision.

        ``reset`` is for the points of a fit, whose columns the model remembers; new points must have the same columns.
        The result never shares memory with the caller if ``own``. ``missing`` admits NaN.
        """
        table = as_table(X)
        try:
            rows = validate_data(
                self,
                table,
                reset=reset,
                accept_sparse="csr" if sparse else False,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
            )
        except (ValueError, TypeError, OverflowError) as error:
            raise named_entry_error(table, error, "X") from None
        entries = rows.data if issparse(rows) else rows
        entries = entries[~np.isnan(entries)] if missing else entries
        if missing and np.isinf(entries).any():
            raise ValueError(
                f"X contains infinity in {np.isinf(entries).sum()} of its entries; {type(self).__name__} takes NaN for "
                "entries that are missing: put it in their place."
            )
        extent = check_finite(entries, "X", type(self).__name__, getattr(self, "n_jobs", None))
        if reset and (extent is None or extent.size >= check.EXACT):
            check.check_integer_precision(table, rows)
        if not reset:  # new points may be as close as they like
            check.representable_scale(entries, spread=0.0, size=None if extent is None else extent.size)
        return owned(rows, X) if own else rows

    # Chunked data

    def _fit_chunks(self, chunks: ChunkedData, y: Any, run: Run) -> Self:
        """Fit to chunked data: to all rows where the method can, otherwise to a sample."""
        from manifoldry.data._chunked import sampled_entries

        sample = self._chunk_sample(chunks, run)
        points, targets = self._validated(sample.rows, reset=True), sampled_entries(y, sample, "y")
        self._check_parameters(count_points(points))
        if sample.whole or self._chunk_support.kind == "sample":
            self._fit_points(points, targets, run)
        else:
            self._fit_chunked(chunks, replace(sample, rows=points, targets=targets), run)
        self._keep_sample(chunks, sample)
        return self

    def _fit_chunked(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> None:
        """Fit to all rows and keep the result of a validated sample, if ``_chunk_support.kind`` is "whole"."""
        raise NotImplementedError

    def _sample_size(self) -> int:
        """Return the maximum number of rows that a fit to chunked data samples."""
        return self._chunk_support.n_rows

    def _chunk_sample(self, chunks: ChunkedData, run: Run | None = None) -> ChunkSample:
        """Return the sample of a fit to chunked data: the rows of ``sampled_rows_``.

        Of very wide rows there are fewer, so that memory is bounded.
        """
        from manifoldry.data._chunked.local import LocalChunks

        run = self._run() if run is None else run
        self._check_chunkable()
        size, fit = bounded_size(self._sample_size(), chunks.n_features), self._chunk_support
        if fit.kind == "whole" and fit.sums and isinstance(chunks, LocalChunks) and chunks.once:
            chunks.most_rows = size  # more rows are an error as soon as they appear, not after all have been read
        with run.stage("sample"):
            return chunks.sample(size, run.rng("sampled rows"), run)

    def _check_chunkable(self) -> None:
        """Raise an error if the method cannot be fitted to chunked data."""
        name, model = type(self).__name__, cast(Any, self)
        if self._pairwise:
            kernel = getattr(self, "kernel", "") == "precomputed"
            pairs = "kernel='precomputed'" if kernel else f"metric={model.metric!r}"
            raise ValueError(f"{name} with {pairs} needs all pairs in memory, which chunked data does not have.")
        if self._chunk_support.kind == "no":
            raise ValueError(
                f"{name} cannot be fitted to chunked data: {self._chunk_support.instead} Or fit a sample and "
                "transform the others: model.fit(manifoldry.chunked_data(X).sample(300, "
                "numpy.random.default_rng(0)).rows), then model.transform(X)."
            )

    def _keep_sample(self, chunks: ChunkedData, sample: ChunkSample) -> None:
        """Keep which rows a fit sampled, and state it in ``diagnostics_``."""
        self.sampled_rows_: IntArray = sample.numbers
        if chunks.feature_names is not None:
            self.feature_names_in_ = np.asarray(chunks.feature_names, dtype=object)
        m, n = len(sample.numbers), sample.n_rows
        if sample.whole:
            text = f"all {n:,} rows"
        elif self._chunk_support.kind == "whole":
            text = f"all {n:,} rows; attributes of single rows are those of a sample of {m:,}"
        else:
            rest = "transform embeds" if hasattr(self, "transform") else "predict labels"
            text = (
                f"a sample of {m:,} of {n:,} rows; {rest} the others. Neighbors are those in the sample, and a group "
                f"of fewer than {seen_size(m, n):,} rows may have none there"
            )
        self._notes["fitted_to"] = text

    def _map_chunks(self, method: str, chunks: ChunkedData) -> Any:
        """Return the output of a fitted estimator's method for every chunk, in the form of the input.

        Only what the map needs is sent along with the chunks.
        """
        n_columns, dtype, names = self._output_of(method)
        self._check_chunk_columns(method, chunks)
        self._check_output_form()
        task = PortableMap(self._strip_for_transform(method), method, np.dtype(dtype))
        return chunks.mapped(task, n_columns, dtype, names, self._run())

    def _check_chunk_columns(self, method: str, chunks: ChunkedData) -> None:
        """Raise an error if the columns are not those of the fit."""
        inverse = method == "inverse_transform"
        expected = self._output_of("transform")[0] if inverse else self.n_features_in_
        if chunks.n_features != expected:
            raise ValueError(
                f"{type(self).__name__}.{method} needs chunks of {expected} columns; these have {chunks.n_features}."
            )
        names = getattr(self, "feature_names_in_", None)
        if inverse or names is None or chunks.feature_names is None or list(names) == list(chunks.feature_names):
            return
        raise ValueError(
            "The columns of these chunks are not those of the fit, or in another order: "
            f"{chunks.feature_names[:5]} instead of {tuple(names[:5])}."
        )

    def _check_output_form(self) -> None:
        """Raise an error if the output would have to be gathered in a data frame."""
        config = getattr(self, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
        if config not in (None, "default"):
            raise ValueError(
                f"set_output(transform={config!r}) would gather all rows in memory, and chunked data stays chunked: "
                "set_output(transform='default')."
            )

    def _stripped(self, names: Iterable[str], **replaced: Any) -> Self:
        """Return an estimator with only these attributes, which reports no progress and returns arrays."""
        copy, kept = object.__new__(type(self)), set(names)
        attributes = {name: contiguous(value) for name, value in vars(self).items() if name in kept}
        quiet: dict[str, Any] = {"callback": None, "n_jobs": 1, "_sklearn_output_config": {}}
        attributes.update({name: value for name, value in quiet.items() if hasattr(self, name)})
        vars(copy).update({**attributes, **replaced})
        return copy

    # Findings

    def _check_layout(self, X: Any, run: Run) -> None:
        """Check ``embedding_``, keep what is wrong with it or proven of it in ``diagnostics_``, and warn once.

        The text of a certificate is always kept; it is a reason for a warning only if it proves nothing.
        """
        from manifoldry.methods._base._checks import check_layout

        with run.stage("look"), one_blas_thread():
            report = check_layout(X, cast(Any, self).embedding_, self, run)
        notes = self._notes
        notes |= {} if report.figures is None else {"figures": report.figures}
        notes["seconds"]["look"] = run.seconds["look"]
        notes["remarks"] = (*notes.get("remarks", ()), *report.remarks)
        self._report(X, report.causes, report.symptoms)

    def _report(self, X: Any, causes: Iterable[str] = (), symptoms: Iterable[str] = ()) -> None:
        """Keep all findings of a fit in ``diagnostics_``, the most important first, and warn of the first.

        Where few columns dominate all distances, that is the finding, and what follows from it is a remark. Otherwise
        causes come before consequences.
        """
        from manifoldry.methods._base._checks import certificates_of, ranked

        notes, collected = self._notes, pop_collected(self)
        unfolded = notes.pop("surface_advice", ())
        remarks = [*notes.get("remarks", ()), *collected.remarks]
        measured = self.diagnostics_.get("dimension") if unfolded else None
        # Data of more dimensions than the layout cannot be unfolded anyway.
        if measured is None or round(measured.value) <= cast(Any, self).embedding_.shape[1]:
            notes["advice"] = (*notes.get("advice", ()), *unfolded)
        else:
            remarks += unfolded
        certificates = certificates_of(self)
        unproven = [each.sentence for each in certificates if each.verdict == "bound only"]
        first, second = ranked(collected.warnings, causes, notes.get("advice", ()), symptoms, unproven)
        if second and not self._for_visualization and np.isfinite(getattr(self, "embedding_", np.nan)).all():
            # A linear map or features of a joined graph are what they would be of a connected one.
            remarks += [text for text, category in second if category is DisconnectedWarning]
            second = [(text, category) for text, category in second if category is not DisconnectedWarning]
        findings = [*first, *second]
        dominating = self._dominating_columns_finding(X)
        if dominating:
            remarks = [text for text, _ in second] + remarks
            findings = [*dominating, *first]
        texts = tuple(text for text, _ in findings)
        notes["remarks"] = tuple(text for text in dict.fromkeys(remarks) if text not in texts)
        notes["advice"] = tuple(dict.fromkeys((*texts, *notes["remarks"], *(each.sentence for each in certificates))))
        if findings:
            others = len(set(texts)) + len(notes["remarks"]) - 1
            more = f' ({others} more finding{"" if others == 1 else "s"} in diagnostics_["advice"])' if others else ""
            issue(f"{type(self).__name__}: {texts[0]}{more}", findings[0][1])

    def _dominating_columns_finding(self, X: Any) -> list[tuple[str, type[Warning]]]:
        """Note the columns that dominate the distances, unless units do not matter, and return the finding."""
        from manifoldry._numerics.geometry.scales import dominating_columns
        from manifoldry.methods._base._checks import plain, scale_sentence

        no_units = isinstance(X, NeighborGraph) or self._ignores_units
        if no_units or (columns := dominating_columns(X, self._metric)) is None:
            return []
        self._notes["dominating_columns"] = {"columns": columns.columns, "share": columns.share}
        return plain([scale_sentence(columns, type(self).__name__, getattr(self, "feature_names_in_", None))])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the call that makes the estimator, with the findings of its fit below."""
        notes = getattr(self, "_notes", {})
        texts = [*([f"Fitted to {notes['fitted_to']}."] if "fitted_to" in notes else []), *notes.get("advice", ())]
        if len(texts) > MAX_SHOWN + 1:
            texts[MAX_SHOWN:] = [f'{len(texts) - MAX_SHOWN} more in diagnostics_["advice"].']
        return "\n".join([super().__repr__(N_CHAR_MAX), *(f"  # {text}" for text in texts)])

    def _html_repr(self) -> str:
        """Return what scikit-learn's ``_repr_html_`` and ``_repr_mimebundle_`` show in a notebook."""
        from manifoldry.methods._base._notebook import NotebookView

        return NotebookView(self).html() if hasattr(self, "_notes") else str(super()._html_repr())


def as_chunked(X: Any) -> ChunkedData | None:
    """Return the input of an estimator as chunked data, None for tables in memory."""
    if isinstance(X, (np.ndarray, list, tuple)):  # most input: the readers of chunked data stay unloaded
        return None
    from manifoldry.data import _chunked

    return _chunked.as_chunked(X)


def count_points(X: Any) -> int:
    """Return the number of points of validated input, rows or a graph."""
    return int(X.n_points if isinstance(X, NeighborGraph) else X.shape[0])
