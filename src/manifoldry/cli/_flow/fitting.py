"""The fit of ``embed``: its task, the choice of a method if none is named, and the fitted result."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from manifoldry._core.parameters import check_parameters
from manifoldry._core.registry import list_methods
from manifoldry._core.run import Run
from manifoldry._core.values import Array
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry.cli._flow.tables import Reading, class_labels
from manifoldry.cli._methods import AUTO_CLASS, method_class
from manifoldry.cli._outputs import Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.cli._text import as_options
from manifoldry.data._chunked import ChunkedData
from manifoldry.data._tables import Table
from manifoldry.evaluation.selection._compare import MAX_RANKED_ROWS, AutoEmbedding, ranked_rows
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.evaluation.selection._objectives import PURPOSES, growth

PATH_PURPOSE = "order along a path"  # the purpose whose result is one coordinate

MAX_QUADRATIC_ROWS = MAX_RANKED_ROWS
"""Rows up to which methods of quadratic cost are compared: seconds, and less than a gigabyte."""

MAX_LINEAR_ROWS = 100_000  # rows up to which other methods are compared: a minute or two on two cores

MAX_ROWS_OF: Mapping[str, float] = {
    "IPA": np.inf,
    "LPP": np.inf,
    "PrincipalCurve": 1_000_000,
    "TSNE": 200_000,
    "UMAP": 500_000,
}
"""Rows up to which methods for large data are compared: at most a few minutes on two cores."""

ALWAYS_POSSIBLE = "IPA"
"""The method that is compared with PCA if there are too many rows for all methods of the purpose."""

MIN_ROWS_FOR_EARLY_NOTES = 2000
"""Rows from which on a fit takes so long that problems with the columns are reported before it."""


@dataclass(frozen=True)
class EmbedTask:
    """What to embed, how, and where the results go.

    The source is a file, a folder of images, a built-in data set or "-". The dimension is 2 by default, or 1 for a
    curve or an order along a path. By default the size of the source decides whether it is ``chunked``.
    """

    source: str
    outputs: Outputs
    method: str = AUTO_CLASS[0]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    n_components: int | None = None
    seed: int = 0
    n_jobs: int | None = None
    chunked: bool | None = None
    resume: bool = False
    command: Sequence[str] = ()

    @property
    def dimension(self) -> int:
        """The target dimension."""
        if self.n_components is not None:
            return self.n_components
        line = self.parameters.get("purpose") == PATH_PURPOSE or self.method == "PrincipalCurve"
        return 1 if line else 2

    def scaled(self, X: Array, names: Sequence[str]) -> EmbedTask:
        """Return the task with "auto" replaced by the scaling of these rows, which may be a sample."""
        model = self.estimator()
        nonnegative = get_tags(model).input_tags.positive_only
        metric = getattr(model, "metric", "euclidean")
        return replace(self, reading=self.reading.scaled(X, names, metric, nonnegative=nonnegative))

    def estimator(self) -> Any:
        """Return the unfitted estimator; parameters are checked as far as possible without data."""
        model = new_estimator(self.method, self.parameters, self.dimension, self.seed, self.n_jobs)
        if hasattr(model, "callback"):
            check_parameters(model)
        if self.reading.options.missing == "keep":
            self._check_missing_values(model)
        return model

    def _check_missing_values(self, model: Any) -> None:
        """Raise if the method or the preparation does not accept missing values."""
        if not get_tags(model).input_tags.allow_nan:
            method = "a comparison" if self.method == AUTO_CLASS[0] else self.method
            raise ValueError(
                f"--missing keep needs a method that accepts missing values, --method probabilisticpca; {method} "
                "needs complete rows: use --missing drop or impute."
            )
        if self.reading.pca is not None or self.reading.scale == "unit":
            option = "--scale unit" if self.reading.pca is None else "--pca"
            raise ValueError(f"{option} needs complete rows; leave it out, or use --missing drop or impute.")


def new_estimator(method: str, parameters: Mapping[str, Any], n_components: int, seed: int, n_jobs: int | None) -> Any:
    """Return an unfitted method by its class name, with those of dimension, seed and threads that it has."""
    cls: Any = method_class(method)
    names = cls().get_params()
    common = {"n_components": n_components, "random_state": seed, "n_jobs": n_jobs}
    return cls(**{**{name: value for name, value in common.items() if name in names}, **parameters})


@dataclass(frozen=True)
class Choice:
    """The best method, not fitted, the comparison behind the choice, and the methods that are too slow for it."""

    model: Any
    comparison: Comparison
    left_out: tuple[str, ...]
    all_rows: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return purpose, rows, ranking with the decisive scores, and reasons, for a record."""
        comparison = self.comparison
        names = [criterion.figure for criterion in comparison.purpose.criteria]
        return {
            "purpose": comparison.purpose.name,
            "rule": comparison.purpose.rule,
            "rows": len(comparison.rows),
            "whole": self.all_rows,
            "n_neighbors": comparison.n_neighbors,
            "ranking": [
                {"method": entry.name, **{name: entry.score.get(name) for name in names}, "seconds": entry.seconds}
                for entry in comparison.ranking
            ],
            "reasons": [*comparison.best.reasons, *comparison.verdicts],
            "skipped": {each.name: each.reason for each in comparison.skipped},
            "left_out": list(self.left_out),
        }


def choose(X: Any, labels: Array | None, auto: AutoEmbedding, reporter: ProgressReporter) -> Choice:
    """Compare the methods of a purpose on the rows or a sample; Ctrl-C ends it after the current method."""
    n = X.shape[0]
    labels = usable_labels(labels)
    if labels is None and "labels" in PURPOSES[auto.purpose].needs:
        raise ValueError(
            f'Methods for "{auto.purpose}" are scored with the class of every row: name its column with --label. '
            "It needs at least two classes, no missing entries, and fewer classes than rows."
        )
    methods, left_out = methods_for(auto.purpose, n)
    if n > MAX_RANKED_ROWS:
        rows = ranked_rows(n, Run(auto.random_state))
        X, labels = X[rows], None if labels is None else labels[rows]
    model = clone(auto).set_params(methods=methods, callback=reporter.callback)
    with stopping(reporter):
        model.fit(X, labels)
    best = clone(model.best_estimator_)
    settings = {"random_state": auto.random_state, "n_jobs": auto.n_jobs}
    best.set_params(**{name: value for name, value in settings.items() if name in best.get_params()})
    return Choice(best, model.comparison_, left_out, all_rows=n <= MAX_RANKED_ROWS)


def usable_labels(labels: Array | None) -> Array | None:
    """Return the labels if there are at least two classes and no missing entries, otherwise None."""
    if labels is None or len(np.unique(labels)) < 2:
        return None
    missing = np.isnan(labels) if labels.dtype.kind == "f" else labels == ""
    return None if np.any(missing) else labels


def methods_for(purpose: str, n: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the methods of a purpose to compare on n rows, and those that would take too long."""
    cards = {card.name: card for card in list_methods()}

    def max_rows(name: str) -> float:
        default = MAX_LINEAR_ROWS if growth(cards[name]) < 2 else MAX_QUADRATIC_ROWS
        return MAX_ROWS_OF.get(name, default)

    candidates = PURPOSES[purpose].methods
    methods = [name for name in candidates if n <= max_rows(name)]
    return methods or [ALWAYS_POSSIBLE], tuple(name for name in candidates if name not in methods)


@contextmanager
def stopping(reporter: ProgressReporter) -> Iterator[None]:
    """Let Ctrl-C request a stop from the running fit; a second one raises. Has no effect outside the main thread."""
    default = signal.default_int_handler
    installed = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is default

    def request(*_: Any) -> None:
        if reporter.stop_requested:
            raise KeyboardInterrupt
        reporter.stop_requested = True

    if installed:
        signal.signal(signal.SIGINT, request)
    try:
        yield
    finally:
        if installed:
            signal.signal(signal.SIGINT, default)
        reporter.stop_requested = False


@dataclass(frozen=True, eq=False)
class Prepared:
    """Prepared rows, the fitted steps, and all rows as chunked data if ``X`` is a sample of them."""

    X: Any
    steps: list[tuple[str, Any]]
    chunks: ChunkedData | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """Prepared rows (n, d), the fitted steps of the preparation, and the method fitted to the rows."""

    X: Any
    steps: list[tuple[str, Any]]
    model: Any
    choice: Choice | None = None
    warnings: tuple[str, ...] = ()
    targets: bool = False

    @property
    def pipeline(self) -> Any:
        """The estimator for rows as they are read: a pipeline, or the method itself if nothing is prepared."""
        return Pipeline([*self.steps, ("embedding", self.model)]) if self.steps else self.model

    @property
    def panels(self) -> dict[str, Any]:
        """The embeddings of the report: the result, and the methods it was compared with on all rows."""
        panels = {type(self.model).__name__: self.model}
        if self.choice is not None and self.choice.all_rows:
            for entry in self.choice.comparison.ranking:
                panels.setdefault(entry.name, entry.estimator)
        return panels


def prepare(task: EmbedTask, table: Table, reporter: ProgressReporter) -> Prepared:
    """Fit the preparation of the rows, and apply it."""
    if not task.reading.changes:
        return Prepared(table.X, [])
    with reporter.stage("prepare", "preparing the columns"):
        return Prepared(*task.reading.prepare(table.X, task.seed))


def fit(task: EmbedTask, table: Table, prepared: Prepared, reporter: ProgressReporter) -> Fitted:
    """Choose the method if none is named, and fit it to prepared rows, whose labels and names are in ``table``."""
    X = prepared.X
    if X.shape[1] == 1 and task.n_components is None and "n_components" not in task.parameters:
        task = replace(task, n_components=1)  # one column has no second dimension
    model, choice = task.estimator(), None
    targets = _targets(task, table, prepared)
    reading = task.reading
    if reading.units is not None and X.shape[0] >= MIN_ROWS_FOR_EARLY_NOTES:
        reporter.note(reading.units.message)
    if reading.scale == "none" and reading.pca is None and reading.options.missing != "keep":
        for note in early_notes(X, table.features, getattr(model, "metric", "euclidean")):
            reporter.note(note)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if task.method == AUTO_CLASS[0]:
            with reporter.stage("choose", "comparing methods"):
                choice = choose(X, class_labels(table), model, reporter)
            model = choice.model
        if "callback" in model.get_params():
            model.set_params(callback=reporter.callback)
        with reporter.stage("fit", f"fitting {type(model).__name__}"):
            model.fit(X if prepared.chunks is None else prepared.chunks, targets)
    if "callback" in model.get_params():
        model.set_params(callback=None)
    messages = (
        str(each.message)
        for each in caught
        # an EmbeddingWarning repeats the advice of the fit, which the record has
        if issubclass(each.category, UserWarning) and not issubclass(each.category, EmbeddingWarning)
    )
    if reading.options.missing == "keep":
        X = model.impute(X)  # missing values are scored and shown at the values that the method expects there
    return Fitted(X, prepared.steps, model, choice, tuple(dict.fromkeys(messages)), targets is not None)


def _targets(task: EmbedTask, table: Table, prepared: Prepared) -> Any:
    """Return the labels as targets if ``target_weight`` is set, otherwise None.

    A method whose default weight is 1 exists only for its targets, so it uses the labels if there are any.
    """
    weight = task.parameters.get("target_weight")
    if weight is None:
        weight = table.labels is not None and getattr(task.estimator(), "target_weight", 0) == 1
    if not weight:
        return None
    if prepared.chunks is not None:
        raise ValueError("--target-weight needs a table in memory; leave it out, or embed a part of the rows.")
    if table.labels is None:
        raise ValueError("--target-weight is the weight of labels: name their column with --label.")
    labels = table.labels.astype(object)
    labels[[isinstance(label, str) and not label for label in labels]] = None
    return labels


def early_notes(X: Any, names: Sequence[str], metric: Any = "euclidean") -> Iterator[str]:
    """Yield notes on columns that dominate all distances, by their units or as counts, if there are many rows."""
    from manifoldry.evaluation.diagnosis import _columns as columns
    from manifoldry.evaluation.diagnosis._profile import DataProfile

    if X.shape[0] < MIN_ROWS_FOR_EARLY_NOTES:
        return
    subject = DataProfile(X, metric, 0, tuple(f"column {name!r}" for name in names), None, Run(0))
    for finding in (columns.scales(subject), columns.counts(subject)):
        if finding is not None and finding.severity == "problem":
            yield f"{finding.sentence} You may want to {as_options(finding.advice)}."
