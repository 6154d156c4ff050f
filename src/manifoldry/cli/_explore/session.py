"""The session of a live page: the data, its embeddings so far, and the one that is being computed."""

from __future__ import annotations

import csv
import json
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.files import new_file
from manifoldry._core.parameters import choices
from manifoldry._core.registry import list_methods
from manifoldry._core.run import Progress
from manifoldry._core.values import Array, IntArray
from manifoldry.cli._flow.fitting import new_estimator
from manifoldry.cli._flow.results import row_columns
from manifoldry.cli._flow.tables import MixedUnits, diagnose_table
from manifoldry.cli._methods import MethodParameter, method_class, method_name, method_parameters
from manifoldry.cli._progress import ProgressReporter
from manifoldry.cli._text import bug_text, error_text, is_bug
from manifoldry.data._tables import Table
from manifoldry.data._tables.assemble import unique
from manifoldry.viz._report import Report, build_report
from manifoldry.viz._report.page import payload, render

FIRST_METHOD = "PCA"  # the first panel: fast, and the baseline for all others

MAX_KEPT_PANELS = 8  # maximum number of panels; a new one replaces the oldest except PCA

FIXED_PARAMETERS = ("n_components", "n_jobs", "metric", "metric_params")
"""Parameters without a field: the page has a control for the first, the command sets the others."""


class BusyError(ValueError):
    """Another embedding is running."""


@dataclass(frozen=True)
class Job:
    """State of an embedding, as sent to the page."""

    name: str = ""
    stage: str = ""
    done: int = 0
    total: int | None = None
    seconds: float = 0.0
    running: bool = False
    error: str = ""
    remarks: tuple[str, ...] = ()


class JobReporter(ProgressReporter):
    """Stores the latest step of a fit for requests of the page."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._start = time.perf_counter()
        self._text = ""
        self.job = Job(name, running=True)

    def begin(self, text: str) -> None:
        """Store the beginning of a stage."""
        self._text = text
        self.job = replace(self.job, stage=text, done=0, total=None)

    def show(self, progress: Progress) -> None:
        """Store a step."""
        stage = f"{self._text}: {progress.stage}" if progress.stage else self._text
        self.job = replace(self.job, stage=stage, done=progress.done, total=progress.total)

    def current(self) -> Job:
        """Return the latest step and the seconds since the job began."""
        return replace(self.job, seconds=time.perf_counter() - self._start)


class Session:
    """The data and embeddings of one live page; public methods answer its requests. ``X`` are prepared rows."""

    def __init__(
        self,
        table: Table,
        X: Any = None,
        *,
        units: MixedUnits | None = None,
        folder: Path = Path(),
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.table, self.folder, self.seed, self.n_jobs = table, folder, seed, n_jobs
        self.X = table.X if X is None else X
        self.diagnosis = diagnose_table(table, self.X, units=units, random_state=seed, n_jobs=n_jobs)
        self.models: dict[str, Any] = {}
        self.version = 0
        self._lock = threading.RLock()
        self._reporter = JobReporter("")
        self._reporter.job = Job()
        self._thread: threading.Thread | None = None
        self._report: Report | None = None
        self._run(FIRST_METHOD, self._estimator(FIRST_METHOD, {}, 2), JobReporter(FIRST_METHOD))
        if self._reporter.job.error:
            raise ValueError(self._reporter.job.error)

    @property
    def report(self) -> Report:
        """The current content of the page."""
        with self._lock:
            if self._report is None:
                raise ValueError("There is no embedding yet.")
            return self._report

    def page(self) -> str:
        """Return the page with its live controls."""
        with self._lock:
            return render(self.report, live=live_script(self.methods(), self.version))

    def payload(self) -> dict[str, Any]:
        """Return the data of the page, without the page."""
        with self._lock:
            return {"version": self.version, **payload(self.report)}

    def methods(self) -> list[dict[str, Any]]:
        """Return the methods with their parameters, for the controls."""
        return [
            {
                **{name: getattr(card, name) for name in ("name", "family", "use_when")},
                "parameters": [_description(each) for each in _fields(card.cls).values()],
            }
            for card in list_methods()
        ]

    def progress(self) -> dict[str, Any]:
        """Return the state of the running embedding, and the version of the content."""
        with self._lock:
            job = self._reporter.current() if self._reporter.job.running else self._reporter.job
            return {"version": self.version, "panels": list(self.models), **vars(job)}

    def embed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Start an embedding with ``method``, ``n_components`` and ``parameters``, a mapping of names to text."""
        name = method_name(_text(body, "method"), auto=False)
        given = body.get("parameters", {})
        if not isinstance(given, dict):
            raise ValueError("parameters must map names to text.")
        n_components = body.get("n_components", 2)
        if n_components not in (2, 3) or isinstance(n_components, (bool, float)):
            raise ValueError(f"n_components must be 2 or 3 on this page; got {n_components!r}.")
        fields = _fields(method_class(name))
        unknown = [str(key) for key in given if key not in fields]
        if unknown:
            raise ValueError(f"{name} has no parameter {unknown[0]!r} that can be set here.")
        values = {key: fields[key].from_text(str(text)) for key, text in given.items() if str(text).strip()}
        model = self._estimator(name, values, n_components)
        changed = {key: value for key, value in values.items() if value != fields[key].default}
        with self._lock:
            self._check_idle()
            self._reporter = JobReporter(_panel_name(name, changed, n_components))
            arguments = (self._reporter.job.name, model, self._reporter)
            self._thread = threading.Thread(target=self._run, args=arguments, name="manifoldry-explore", daemon=True)
            self._thread.start()
        return self.progress()

    def stop(self) -> dict[str, Any]:
        """Request that the running fit stops with its current result."""
        self._reporter.stop_requested = True
        return self.progress()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the running embedding."""
        if self._thread is not None:
            self._thread.join(seconds)

    def remove(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Remove a panel from the page."""
        name = _text(body, "panel")
        with self._lock:
            self._check_idle()
            if name not in self.models or len(self.models) == 1:
                raise ValueError(f"There is no panel {name!r} that can be removed.")
            del self.models[name]
            self._show(self._build_report(self.models))
        return self.progress()

    def save(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Write selected rows, given by their indices, to a new CSV file in the folder of the session."""
        rows = _rows(body.get("rows"), len(self.report.ids))
        path = write_selection(self.report, self.table, rows, self.folder)
        return {"path": str(path), "rows": len(rows)}

    def _estimator(self, name: str, values: Mapping[str, Any], n_components: int) -> Any:
        """Return an unfitted estimator with the session's seed and threads."""
        d = 1 if name == "PrincipalCurve" else n_components
        return new_estimator(name, values, d, self.seed, self.n_jobs)

    def _check_idle(self) -> None:
        if self._reporter.job.running:
            raise BusyError(f"{self._reporter.job.name} is still running: wait for it or stop it.")

    def _run(self, name: str, model: Any, reporter: JobReporter) -> None:
        """Fit a model and update the page, in the thread of a job; errors are sent to the page."""
        error, remarks = "", []
        try:  # the job must always end: until then the page accepts no other
            with warnings.catch_warnings(record=True) as caught, reporter.stage(name):
                warnings.simplefilter("always")
                if "callback" in model.get_params():
                    model.set_params(callback=reporter.callback)
                model.fit(self.X)
            remarks = [str(each.message) for each in caught]
            with reporter.stage("scores and report"):
                models = self._with(name, model)
                self._show(self._build_report(models), models)
        except Exception as problem:
            error = bug_text(problem) if is_bug(problem) else error_text(problem) or type(problem).__name__
        finally:
            with self._lock:
                reporter.job = replace(reporter.current(), running=False, error=error, remarks=tuple(remarks))
                self._reporter = reporter

    def _with(self, name: str, model: Any) -> dict[str, Any]:
        """Return the models to show, the new one first."""
        others = {key: value for key, value in self.models.items() if key != name}
        while len(others) >= MAX_KEPT_PANELS:
            del others[next(key for key in reversed(others) if key != FIRST_METHOD)]
        return {name: model, **others}

    def _build_report(self, models: Mapping[str, Any]) -> Report:
        settings: dict[str, Any] = {"title": self.table.source, "random_state": self.seed, "diagnosis": self.diagnosis}
        return build_report(self.X, models, **row_columns(self.table), **settings)

    def _show(self, report: Report, models: dict[str, Any] | None = None) -> None:
        with self._lock:
            if models is not None:
                self.models = models
            self._report = report
            self.version += 1


def _fields(cls: type) -> dict[str, MethodParameter]:
    """Return the parameters of a method that have a field on the page."""
    return {name: each for name, each in method_parameters(cls).items() if name not in FIXED_PARAMETERS}


def _description(parameter: MethodParameter) -> dict[str, Any]:
    """Return the description of a field."""
    options = [str(choice) for choice in choices(parameter.annotation)] if parameter.is_choice else []
    return {
        "name": parameter.name,
        "default": parameter.default_text,
        "allowed": parameter.allowed,
        "choices": ["true", "false"] if parameter.is_flag else options,
        "text": parameter.text,
    }


def _panel_name(method: str, changed: Mapping[str, Any], n_components: int) -> str:
    """Return the name of a panel: the method and the settings that differ from their defaults."""
    settings = [f"{key}={value}" for key, value in changed.items()]
    settings += ["3-D"] if n_components == 3 else []
    return f"{method} ({', '.join(settings)})" if settings else method


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ValueError(f"The request needs a text {key!r}; got {value!r}.")
    return value


def _rows(rows: Any, n: int) -> IntArray:
    """Return validated indices of rows on the page."""
    if not isinstance(rows, list) or not rows or not all(type(row) is int and 0 <= row < n for row in rows):
        raise ValueError(f"The request needs a list of rows from 0 to {n - 1}; select some first.")
    return np.unique(np.array(rows, dtype=np.int64))


def live_script(choices: Sequence[Mapping[str, Any]], version: int) -> str:
    """Return the JavaScript of the live controls, with the methods and the version of the page."""
    methods = json.dumps(choices, separators=(",", ":")).replace("<", "\\u003c")
    source = files("manifoldry.cli._explore").joinpath("live.js").read_text(encoding="utf-8")
    return f"const LIVE_CHOICES = {methods}, LIVE_VERSION = {version:d};\n{source}"


ROWS_AT_ONCE = 1000  # rows written at a time, which bounds the memory for dense copies of sparse rows


def write_selection(report: Report, table: Table, rows: IntArray, folder: Path) -> Path:
    """Write rows of a page, with their coordinates in every panel, to a new CSV file and return its path."""
    stem = Path(table.source).stem or "data"
    path = next(free for i in count(1) if not (free := folder / f"{stem}_selection_{i}.csv").exists())
    axes = {
        f"{panel.name} {axis + 1}": panel.coordinates[:, axis]
        for panel in report.panels
        for axis in range(panel.coordinates.shape[1])
    }
    names = unique([report.id_name, *report.columns, *table.features, *axes])[0]
    with new_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chunk = rows[start : start + ROWS_AT_ONCE]
            before = [column[chunk].tolist() for column in (report.ids, *report.columns.values())]
            after = [column[chunk].tolist() for column in axes.values()]
            writer.writerows(zip(*before, *_features(table, chunk), *after, strict=True))
    return path


def _features(table: Table, rows: IntArray) -> Iterator[list[str]]:
    """Yield each feature of some rows as the shortest exact text, empty where missing."""
    X = table.X[rows]
    values: Array = X.toarray() if hasattr(X, "tocsr") else X
    for column in values.T:
        yield np.where(np.isfinite(column), column.astype(str), "").tolist()
