"""The widget that ``model.explore()`` returns: the linked panels of a report, live in a notebook."""

from __future__ import annotations

import json
from difflib import get_close_matches
from importlib import import_module
from itertools import chain, count
from typing import Any

import numpy as np

from manifoldry._core.arrays import check_in_memory
from manifoldry._core.registry import METHODS
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry.data._tables.errors import needs
from manifoldry.evaluation.reliability._points import reliability
from manifoldry.viz._report.evaluated import SHARES, as_data, check_data, data_of_rows, metric_of, spread
from manifoldry.viz._report.inputs import (
    ReportEmbedding,
    as_column,
    displayed,
    evaluation_rows,
    method_name,
    report_embeddings,
)
from manifoldry.viz._report.page import MAX_FIELD_CHARACTERS, SCRIPTS, Blocks, asset, encode_column, encode_coordinates
from manifoldry.viz.plot._axes import fitted_model, last_step

try:
    import anywidget
    import traitlets
except ImportError:
    raise needs("anywidget", "The notebook widget", "notebook") from None

WIDGET_STYLES = ("page.css", "parts.css", "widget.css")
PAGE_SCRIPTS = ("charts.js", "steps.js", "toolbar.js", "names.js", "page.js")  # of the page around the panels

LABELS, RELIABILITY, GIVEN = "labels", "reliability", "color"
"""Names of the colors that are not columns of the data; the last is that of an array without a name."""

METRIC = ("metric", "metric_params")  # parameters that a method fitted by the widget shares with the first model


def script() -> str:
    """Return the JavaScript module of the widget: the scripts of a report's panels, and what connects them."""
    style = json.dumps("\n".join(map(asset, WIDGET_STYLES)))
    names = [*(name for name in SCRIPTS if name not in PAGE_SCRIPTS), "widget.js"]
    return "\n".join([f"const WIDGET_STYLE = {style};", *map(asset, names)])


class RawBlocks(Blocks):
    """Arrays as binary buffers of a message."""

    def _pack(self, raw: bytes) -> bytes:
        return raw


def row_mask_bytes(rows: IntArray, widget: EmbeddingWidget) -> bytes:
    """Return selected rows for the browser: one bit per row, the lowest of a byte first; nothing if there are none."""
    mask = np.zeros(widget.n_rows if len(rows) else 0, dtype=bool)
    mask[rows] = True
    return np.packbits(mask, bitorder="little").tobytes()


def rows_of_mask(data: Any, widget: EmbeddingWidget) -> IntArray:  # noqa: ARG001
    """Return the selected rows from the bits of the browser."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little"))


def encoded_colors(name: str, columns: list[Array], *, classes: bool = False) -> dict[str, Any]:
    """Return a color for the browser, with one column for all panels, or none for a uniform color."""
    blocks = RawBlocks()
    entries = [encode_column(name, each, blocks, names=classes, limit=MAX_FIELD_CHARACTERS) for each in columns]
    if any(entry["kind"] == "text" for entry in entries):
        raise ValueError(
            f"{name!r} has {len(np.unique(columns[0])):,} distinct texts, too many for colors: group them."
        )
    return {"name": name, "own": False, "meaning": "", "columns": entries, "data": blocks.packed}


def omission(layout: ReportEmbedding) -> str:
    """Return a note if not all components are shown, otherwise nothing."""
    shown = layout.Y.shape[1]
    return "" if shown == layout.n_components else f"The first {shown} of {layout.n_components} components are shown."


class Checked(traitlets.TraitType):
    """A trait whose values pass through a method of the widget, which shows them or raises an error."""

    def __init__(self, method: str) -> None:
        super().__init__(default_value=None)
        self._method = method

    def validate(self, obj: Any, value: Any) -> Any:
        """Return the value to store."""
        return getattr(obj, self._method)(value)


class EmbeddingWidget(anywidget.AnyWidget):
    """Linked panels of embeddings of the same rows in a notebook, created by ``model.explore()``.

    A brush, a lasso or a legend entry selects rows in all panels. Every trait can be set, observed with
    ``widget.observe(function, "selection")``, and linked to other widgets.

    Attributes
    ----------
    selection : ndarray of shape (n_selected,)
        The selected rows, ascending. Set it to row numbers or to a boolean mask of all rows; None selects nothing.
    color : str or None
        What the points are colored by: "labels", "reliability" (whether the position of a point can be trusted), the
        name of a column of a data frame X, or None for one color. An array with an entry per row can be set; its name
        is "color", or that of a pandas Series.
    method : str or list of str
        The panels. Set it to the name of a method, a fitted estimator, or a list of them. The name of a panel that was
        shown before shows it again. The name of another method fits it to X with default parameters and with the metric
        of the first model.
    n_rows : int
        The number of rows.

    Examples
    --------
    >>> from manifoldry import PCA, datasets
    >>> roll = datasets.swiss_roll(300)
    >>> widget = PCA().fit(roll.X).explore(roll.X, labels=roll.X[:, 1])
    >>> widget.selection = roll.X[:, 2] > 0
    >>> widget.method = ["PCA", "Isomap"]
    """

    _esm = script()
    selection = Checked("_selected_rows").tag(sync=True, to_json=row_mask_bytes, from_json=rows_of_mask)
    color = Checked("_shown_color")
    method = Checked("_shown_panels")
    _panels = traitlets.Dict().tag(sync=True)
    _coloring = traitlets.Dict().tag(sync=True)
    _colors: Any = traitlets.List().tag(sync=True)

    def __init__(self, model: Any, X: Any = None, labels: Any = None, color: Any = None) -> None:
        check_in_memory(X, "X")
        self._first, self._X = model, X
        self._data: Any = None if X is None else as_data(X)
        self.n_rows: int = len(model.embedding_) if self._data is None else self._data.shape[0]
        self._columns: dict[str, Array] = {}
        self._models: dict[str, Any] = {}
        self._layouts: dict[str, ReportEmbedding] = {}
        self._verdicts: dict[str, Array] = {}
        if labels is not None:
            self._columns[LABELS] = as_column(LABELS, labels, self.n_rows)
        self.selection = None
        self.method = model
        self.color = LABELS if color is None and labels is not None else color
        super().__init__()  # sends the state, all of it in one message
        self.on_msg(self._on_message)

    def _selected_rows(self, value: Any) -> IntArray:
        """Return the rows of a selection."""
        rows = np.asarray(() if value is None else value)
        if rows.dtype == bool and rows.shape == (self.n_rows,):
            rows = np.flatnonzero(rows)
        rows = rows.astype(np.int64) if rows.size == 0 else rows
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise ValueError(
                f"selection must be row numbers or a boolean mask of {self.n_rows:,} rows; got {rows.dtype} of shape "
                f"{rows.shape}."
            )
        wrong = rows[(rows < 0) | (rows >= self.n_rows)]
        if len(wrong):
            raise ValueError(f"selection must hold row numbers from 0 to {self.n_rows - 1}; got {wrong[0]}.")
        rows = np.unique(rows).astype(np.int64)
        rows.flags.writeable = False  # a change in place would not reach the browser
        return rows

    def _shown_color(self, value: Any) -> str | None:
        """Color the points and return the name of the color."""
        if value is None or isinstance(value, str):
            name, coloring = value, self._coloring_of(value)
        else:
            name = str(getattr(value, "name", None) or GIVEN)
            column = as_column(name, value, self.n_rows)
            coloring = encoded_colors(name, [column], classes=True)
            self._columns[name] = column
        with self.hold_sync():
            self._colors, self._coloring = self._color_names(), coloring
        return name

    def _shown_panels(self, value: Any) -> str | list[str]:
        """Show panels and return their names."""
        names = list(dict.fromkeys(map(self._panel_name, value if isinstance(value, (list, tuple)) else [value])))
        if not names:
            raise ValueError("method must name at least one panel; got an empty list.")
        blocks = RawBlocks()
        panels = [
            {
                **{"name": name, "caption": omission(self._layouts[name])},
                **{"reading": [], "sentences": [], "parameters": {}},
                **encode_coordinates(displayed(self._layouts[name].Y), blocks),
            }
            for name in names
        ]
        own = self._coloring.get("own", False)
        coloring = self._reliability_of(names) if own else self._coloring
        with self.hold_sync():
            self._panels = {"n": self.n_rows, "panels": panels, "data": blocks.packed}
            self._coloring = coloring
        return names[0] if len(names) == 1 else names

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:  # noqa: ARG002
        """Apply the color that was chosen in the browser, which shows what is wrong with it."""
        try:
            self.color = content["color"] or None
        except ValueError as error:
            self.send({"problem": str(error)})

    def _color_names(self) -> list[str]:
        columns = map(str, getattr(self._X, "columns", ()))
        return list(dict.fromkeys([*self._columns, *columns, *([] if self._X is None else [RELIABILITY])]))

    def _coloring_of(self, name: str | None) -> dict[str, Any]:
        if name is None:
            return encoded_colors("", [])
        if name in self._columns:
            return encoded_colors(name, [self._columns[name]], classes=True)
        for column in getattr(self._X, "columns", ()):
            if str(column) == name:
                return encoded_colors(name, [as_column(name, self._X[column], self.n_rows)])
        if name == RELIABILITY and self._X is not None:
            return self._reliability_of([panel["name"] for panel in self._panels["panels"]])
        cure = "; reliability compares with the data: create the widget with model.explore(X)"
        raise ValueError(
            f"color must be {'one of ' * bool(self._color_names())}{', '.join(map(repr, self._color_names()))}"
            f"{' or ' * bool(self._color_names())}an array with an entry for each of the {self.n_rows:,} rows; "
            f"got {name!r}{cure if name == RELIABILITY else ''}."
        )

    def _reliability_of(self, names: list[str]) -> dict[str, Any]:
        columns = [self._verdict(name) for name in names]
        n_evaluated = int(np.sum(columns[0] != ""))
        sample = f" Evaluated on {n_evaluated:,} of the rows." if n_evaluated < self.n_rows else ""
        coloring = encoded_colors(RELIABILITY, columns, classes=True)
        return {**coloring, "own": True, "meaning": f"{SHARES[RELIABILITY]}{sample}"}

    def _verdict(self, name: str) -> Array:
        """Return whether each position in a panel can be trusted, "" for rows that are not evaluated."""
        if name not in self._verdicts:
            Y, metric = self._layouts[name].Y, metric_of(None, self._models[name])
            check_data(self._data, metric)
            width = 1 if metric == "precomputed" else self._data.shape[1]
            rows = evaluation_rows(np.flatnonzero(np.isfinite(Y[:, 0])), 1, width, Run(0))
            trust = reliability(data_of_rows(self._data, rows, metric), Y[rows], metric=metric)
            self._verdicts[name] = spread(trust.verdict, rows, self.n_rows)
        return self._verdicts[name]

    def _panel_name(self, entry: Any) -> str:
        """Return the name of a panel; a fitted estimator, or a method that has none yet, gets one."""
        if isinstance(entry, str):
            if entry in self._models:
                return entry
            name, entry = entry, self._fitted(entry)
        else:
            base = method_name(entry)
            names = chain([base], (f"{base} {i}" for i in count(2)))
            name = next(name for name in names if self._models.get(name, entry) is entry)
        layout = self._layout(name, entry)
        self._models[name], self._layouts[name] = entry, layout
        self._verdicts.pop(name, None)
        return name

    def _layout(self, name: str, model: Any) -> ReportEmbedding:
        Y = getattr(last_step(model), "embedding_", None)
        if Y is None:
            raise ValueError(
                f"method must be the name of a method, a fitted estimator or a list of them; got {model!r}."
            )
        if len(Y) != self.n_rows:
            if self._X is None:
                raise ValueError(
                    f"{name} has {len(Y):,} points and the widget {self.n_rows:,}: fit it to the same rows, or create "
                    "the widget with model.explore(X)."
                )
            Y = model.transform(self._X)
        return report_embeddings(None, {name: Y}, self.n_rows)[0]

    def _fitted(self, name: str) -> Any:
        if name not in METHODS:
            close = get_close_matches(name, [*METHODS, *self._models], 1)
            advice = f"did you mean {close[0]!r}?" if close else "see manifoldry.list_methods()."
            raise ValueError(f"method must be the name of a method or of a panel; got {name!r}: {advice}")
        if self._X is None:
            raise ValueError(f"Fitting {name} needs the data: create the widget with model.explore(X).")
        model, first = getattr(import_module(METHODS[name]), name)(), fitted_model(self._first)
        shared = {key: getattr(first, key) for key in METRIC if hasattr(first, key) and key in model.get_params()}
        if getattr(first, "_pairwise", False) and "metric" not in shared:
            raise ValueError(f"{name} needs rows of features; X holds pairwise values ({first.metric!r}).")
        return model.set_params(**shared).fit(self._X)
