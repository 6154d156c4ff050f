"""The input of a report: embeddings from estimators, pipelines or arrays, and the columns of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manifoldry._core.arrays import check_in_memory
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.evaluation.diagnosis import diagnose
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.graph._pairwise import as_points
from manifoldry.viz.plot._axes import fitted_model

OMITTED_SETTINGS = frozenset({"callback", "verbose", "n_jobs"})  # parameters that do not change a result

MAX_PANEL_DIMENSION = 3


@dataclass(frozen=True, eq=False)
class ReportEmbedding:
    """One embedding of all rows; ``Y`` has at most three coordinates, NaN for rows without."""

    name: str
    Y: FloatArray
    n_components: int
    seconds: float | None = None
    sentences: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None

    @property
    def omission(self) -> str:
        """A note if not all components are shown, otherwise empty."""
        shown = self.Y.shape[1]
        if shown == self.n_components:
            return ""
        return f"The first {shown} of {self.n_components} components are shown and scored."


def report_embeddings(X: Any, embeddings: Any, n: int) -> list[ReportEmbedding]:
    """Return the embeddings in the given order."""
    layouts = [_layout(name, given, X, n) for name, given in _named(embeddings)]
    if not layouts:
        raise ValueError("A report needs at least one embedding: a fitted estimator or an array of coordinates.")
    return layouts


def compared_embeddings(comparison: Comparison) -> list[ReportEmbedding]:
    """Return the embeddings of a comparison, the best first, with the reasons for their rank."""
    return [
        _of_model(entry.name, as_points(entry.name, entry.embedding), entry.estimator, entry.seconds, entry.reasons)
        for entry in comparison.ranking
    ]


def _of_model(
    name: str, Y: FloatArray, model: Any, seconds: float | None, reasons: Sequence[str] = ()
) -> ReportEmbedding:
    messages = (*reasons, *_messages_of(model))
    return ReportEmbedding(name, _evaluated_axes(Y), Y.shape[1], seconds, messages, resolved_parameters(model), model)


def _named(embeddings: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(embeddings, Mapping):
        yield from ((str(name), given) for name, given in embeddings.items())
    elif isinstance(embeddings, (list, tuple)) and embeddings and all(hasattr(model, "fit") for model in embeddings):
        names = [method_name(model) for model in embeddings]
        for i, (name, model) in enumerate(zip(names, embeddings, strict=True)):
            earlier = names[:i].count(name)
            yield (name if not earlier else f"{name} {earlier + 1}"), model
    else:
        yield (method_name(embeddings) if hasattr(embeddings, "fit") else "embedding"), embeddings


def _layout(name: str, given: Any, X: Any, n: int) -> ReportEmbedding:
    model = fitted_model(given) if hasattr(given, "fit") else None
    Y = _coordinates(name, given, X, n)
    if not np.isfinite(Y).all(axis=1).any():
        raise ValueError(f"{name} has no finite coordinates: fit it again, or leave it out.")
    if model is None:
        return ReportEmbedding(name, _evaluated_axes(Y), Y.shape[1])
    seconds = getattr(model, "diagnostics_", {}).get("seconds")
    return _of_model(name, Y, model, sum(seconds.values()) if seconds else None)


def _coordinates(name: str, given: Any, X: Any, n: int) -> FloatArray:
    check_in_memory(given, name)
    coordinates = getattr(fitted_model(given), "embedding_", None) if hasattr(given, "fit") else given
    if coordinates is None or np.ndim(coordinates) == 0 or len(coordinates) != n:
        if not hasattr(given, "transform"):
            raise ValueError(f"{name} has no coordinates for these {n:,} rows: fit it to X, or pass an array.")
        coordinates = given.transform(X)
    Y = np.asarray(coordinates)
    if Y.ndim == 1:
        Y = Y[:, None]
    if Y.ndim != 2 or Y.dtype.kind not in "iuf" or not Y.shape[1]:
        raise ValueError(
            f"{name} must be a fitted estimator or an array of coordinates (n, p); got {Y.dtype} of shape {Y.shape}."
        )
    return Y.astype(np.float64, copy=False)


def _evaluated_axes(Y: FloatArray) -> FloatArray:
    Y = Y if Y.shape[1] <= MAX_PANEL_DIMENSION else Y[:, :2]
    # A row with one missing coordinate has none.
    return np.where(np.isfinite(Y).all(axis=1, keepdims=True), Y, np.nan)


def method_name(model: Any) -> str:
    """Return the name of the method of an estimator or pipeline."""
    return type(fitted_model(model)).__name__


def resolved_parameters(model: Any) -> dict[str, Any]:
    """Return the settings of a fitted estimator that are not None, with the values of "auto", as plain values."""
    diagnostics = getattr(model, "diagnostics_", {})
    settings: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        chosen = diagnostics.get(name) if value is None or (isinstance(value, str) and value == "auto") else None
        resolved = value if chosen is None else chosen
        if name not in OMITTED_SETTINGS and resolved is not None:
            settings[name] = _plain_value(resolved)
    return settings


def _plain_value(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    return getattr(value, "__name__", None) or type(value).__name__


def _messages_of(model: Any) -> tuple[str, ...]:
    """Return the advice of a fit, and the findings of its diagnosis that the advice does not repeat."""
    advice = tuple(map(str, getattr(model, "diagnostics_", {}).get("advice", ())))
    try:
        findings = [*diagnose(model).problems, *diagnose(model).notes]
    except ValueError:  # an estimator without embedding_
        return advice
    text = " ".join(advice)
    more = [finding for finding in findings if finding.sentence.rstrip(".") not in text]
    return advice + tuple(
        f"{each.sentence} {each.advice[0].upper()}{each.advice[1:]}." if each.advice else each.sentence for each in more
    )


def displayed(Y: FloatArray) -> FloatArray:
    """Return coordinates to draw; a single one gets a second axis that spreads the points by their density."""
    if Y.shape[1] > 1:
        return Y
    from scipy.ndimage import gaussian_filter1d
    from scipy.stats.qmc import Halton

    finite = np.flatnonzero(np.isfinite(Y[:, 0]))
    t = Y[finite, 0]
    counts, edges = np.histogram(t, bins=200)
    smooth = gaussian_filter1d(counts.astype(float), 4.0, mode="constant")
    height = np.interp(t, (edges[:-1] + edges[1:]) / 2, smooth / smooth.max())
    rank = np.empty(len(t), dtype=np.int64)
    rank[np.argsort(t, kind="stable")] = np.arange(len(t))
    heights = np.full(len(Y), np.nan)
    # The point of rank i is at the height of the van der Corput number of i times the local density.
    van_der_corput = Halton(1, scramble=False).random(len(t))[:, 0]
    heights[finite] = (van_der_corput[rank] - 0.5) * height * np.ptp(t) / 4
    return np.column_stack([Y[:, 0], heights])


MAX_SHOWN_ROWS = 500_000  # rows that a browser draws smoothly; larger data is sampled

MAX_EVALUATED_ROWS, N_EVALUATED_ROWS = 10_000, 5_000
"""Above the first number of rows, a sample of the second is evaluated: 11 and 5 CPU seconds for 50 columns."""

MAX_EVALUATED_POINTS = 30_000
"""Rows times panels up to which all rows are evaluated: three panels of 10,000 rows take about 15 CPU seconds."""

MAX_EVALUATED_ENTRIES, MIN_EVALUATED_ROWS = 5_000_000, 1000
"""Rows times columns up to which all rows are evaluated (20 CPU seconds for MNIST), and rows that always are."""

MAX_PAGE_BYTES, MAX_SAMPLED_BYTES = 60_000_000, 18_000_000
"""Bytes of a page that shows all rows, and of one with a sample otherwise; as text they take 70 MB and 22 MB."""

MAX_LABEL_CLASSES = 50  # distinct integers up to which a label holds classes rather than quantities

N_INSPECTED = 1000  # entries from which the size of a text column is estimated


@dataclass(frozen=True, eq=False)
class RowData:
    """Names, columns and images of all n rows: numbers with NaN, or text with "", where entries are missing."""

    ids: Array
    id_name: str
    columns: Mapping[str, Array]
    label: str | None
    thumbnails: Array | None

    def take(self, rows: IntArray) -> RowData:
        """Return the data of these rows."""
        if len(rows) == len(self.ids):
            return self
        columns = {name: column[rows] for name, column in self.columns.items()}
        thumbnails = None if self.thumbnails is None else self.thumbnails[rows]
        return replace(self, ids=self.ids[rows], columns=columns, thumbnails=thumbnails)

    @property
    def bytes_per_row(self) -> float:
        """Estimated bytes of a row in a page, without its coordinates."""
        columns = [column for name, column in self.columns.items() if name != self.id_name]
        image = 0.0 if self.thumbnails is None else self.thumbnails[0].size / 2
        return image + sum(map(_entry_bytes, [self.ids, *columns]))

    @property
    def classes(self) -> Array | None:
        """The label if it holds classes: text, or few distinct integers."""
        if self.label is None:
            return None
        column = self.columns[self.label]
        return None if column.dtype.kind == "f" else column


def row_data(n: int, ids: Any, id_name: str, columns: Any, label: Any, thumbnails: Any) -> RowData:
    """Return the validated names, columns and images of n rows."""
    table = {str(name): as_column(str(name), column, n) for name, column in _items(columns)}
    if label is not None and not isinstance(label, str):
        name = str(getattr(label, "name", None) or "label")
        table = {name: as_column(name, label, n), **{other: c for other, c in table.items() if other != name}}
        label = name
    if label is not None and label not in table:
        raise ValueError(
            f"The label {label!r} is not one of the columns ({', '.join(table) or 'there are none'}): pass its entries."
        )
    if label is not None:
        table[label] = _as_classes(table[label])
    names = np.arange(n) if ids is None else as_column(id_name, ids, n)
    return RowData(names, id_name, table, label, _images(thumbnails, n))


def as_column(name: str, entries: Any, n: int) -> Array:
    """Return a column as integers, numbers with NaN, or text with "", where entries are missing."""
    check_in_memory(entries, name)
    # Keeps the types of a list: NumPy would turn all entries into text if one is text.
    array = np.asarray(entries) if hasattr(entries, "__array__") else np.array([*entries, None], dtype=object)[:-1]
    if array.shape != (n,):
        raise ValueError(f"{name!r} needs one entry for each of the {n:,} rows; got shape {array.shape}.")
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "f":
        numbers = array.astype(np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    if array.dtype.kind == "O" and (converted := _numbers_of(array)) is not None:
        return converted
    return _as_text(array)


def shown_rows(n: int, bytes_per_row: float, run: Run) -> IntArray:
    """Return the rows to show: all, or a uniform sample if they do not fit into a page."""
    limit = min(MAX_SHOWN_ROWS, int(MAX_PAGE_BYTES / bytes_per_row))
    if n <= limit:
        return np.arange(n)
    limit = max(min(limit, int(MAX_SAMPLED_BYTES / bytes_per_row)), N_EVALUATED_ROWS)
    return _sample(np.arange(n), limit, run.rng("shown rows"))


def evaluation_rows(candidates: IntArray, n_panels: int, width: int, run: Run) -> IntArray:
    """Return the rows with ``width`` columns to evaluate: all candidates, or a uniform sample of them."""
    n, limit = len(candidates), max(MIN_EVALUATED_ROWS, MAX_EVALUATED_ENTRIES // width)
    if n <= min(limit, MAX_EVALUATED_ROWS) and n * n_panels <= MAX_EVALUATED_POINTS:
        return candidates
    return _sample(candidates, min(N_EVALUATED_ROWS, limit), run.rng("judged rows"))


def _sample(rows: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.choice(rows, min(count, len(rows)), replace=False))


def _items(columns: Any) -> Any:
    """Return the names and entries of a mapping or a data frame."""
    if columns is None:
        return ()
    if not hasattr(columns, "items") and hasattr(columns, "to_dict"):
        columns = columns.to_dict()  # a polars data frame
    if not hasattr(columns, "items"):
        raise ValueError(f"columns must map names to entries, or be a data frame; got {type(columns).__name__}.")
    return columns.items()


def _numbers_of(entries: Array) -> Array | None:
    """Return objects as integers, or as numbers with NaN where missing; None if that is impossible."""
    if any(isinstance(entry, (str, bytes, bool, np.bool_)) for entry in entries):
        return None
    if all(isinstance(entry, (int, np.integer)) for entry in entries):
        return np.array(entries.tolist(), dtype=np.int64)
    try:
        numbers = np.array([np.nan if _is_missing(entry) else float(entry) for entry in entries])
    except (TypeError, ValueError):
        return None
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _as_text(entries: Array) -> Array:
    """Return entries as text, with "" where missing; times as days, or as seconds if some are not full days."""
    if entries.dtype.kind == "U":
        return entries
    if entries.dtype.kind in "mM":
        missing = np.isnat(entries)
        if entries.dtype.kind == "M":
            days = (entries.astype("datetime64[D]") == entries) | missing
            entries = entries.astype("datetime64[D]" if days.all() else "datetime64[s]")
        return np.where(missing, "", entries.astype(str))
    return np.array(["" if _is_missing(entry) else _text(entry) for entry in entries.tolist()], dtype=str)


def _text(entry: Any) -> str:
    return entry.decode("utf-8", "replace") if isinstance(entry, bytes) else str(entry)


def _is_missing(entry: Any) -> bool:
    # None, NaN, and NA and NaT of pandas
    return (
        entry is None or type(entry).__name__ in ("NAType", "NaTType") or (isinstance(entry, float) and entry != entry)
    )


def _as_classes(column: Array) -> Array:
    """Return a label of few distinct integers as classes (integers, or text if some are missing); others unchanged."""
    if column.dtype.kind not in "iuf":
        return column
    finite = np.isfinite(column)
    values = np.unique(column[finite])
    if not len(values) or len(values) > min(MAX_LABEL_CLASSES, finite.sum() / 2) or (values != np.round(values)).any():
        return column.astype(np.float64)
    if finite.all():
        return column.astype(np.int64)
    return np.array([str(int(entry)) if entry == entry else "" for entry in column])


def _images(thumbnails: Any, n: int) -> Array | None:
    if thumbnails is None:
        return None
    images = np.asarray(thumbnails)
    valid = images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
    if not valid or len(images) != n or images.dtype != np.uint8:
        raise ValueError(
            f"thumbnails must be {n:,} images of type uint8, shape (n, height, width) or (n, height, width, 3); got "
            f"{images.dtype} of shape {images.shape}: scale them to 0..255 and use .astype('uint8')."
        )
    return images


def _entry_bytes(column: Array) -> float:
    if column.dtype.kind in "iuf":
        consecutive = column.dtype.kind in "iu" and len(column) > 1 and bool((np.diff(column[:N_INSPECTED]) == 1).all())
        return 1.0 if consecutive else 4.0
    inspected = column[:: max(1, len(column) // N_INSPECTED)]
    if len(np.unique(inspected)) <= len(inspected) / 2:
        return 2.0
    return float(np.mean(np.char.str_len(inspected.astype(str)))) + 1.0
