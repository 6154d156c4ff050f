"""Progress of a command: named stages with their seconds, and a progress bar at a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from manifoldry.cli._text import print_note

if TYPE_CHECKING:
    from manifoldry._core.run import Progress

REFRESHES_PER_SECOND = 8  # how often the bar is redrawn: often enough for a spinner, too rarely to cost anything

MIN_SECONDS_FOR_RATE = 0.2
"""The rate of a stage is shown after this many seconds: its clock starts when the first step is done."""

COMPARISON_STAGE = "compare"  # the stage whose steps are complete fits, each with stages of its own


class ProgressReporter:
    """Times the stages of one command; subclasses override the hooks to show progress.

    A running fit reads ``stop_requested`` at its next step, and stops with its current result.
    """

    def __init__(self, *, prints_notes: bool = False) -> None:
        self.prints_notes = prints_notes
        self.seconds: dict[str, float] = {}
        self.stop_requested = False

    @contextmanager
    def stage(self, name: str, text: str = "") -> Iterator[None]:
        """Time a stage under its name and show ``text``, or the name if it is empty."""
        start = time.perf_counter()
        self.begin(text or name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            self.end(text or name)

    def callback(self, progress: Progress) -> bool:
        """Handle a step of a fit, as the ``callback`` of an estimator; a long time that it predicts is a note."""
        if progress.total is None and "would take about" in progress.message:
            self.note(f"{progress.message}; Ctrl-C ends the fit with the result reached.")
        self.show(progress)
        return self.stop_requested

    def begin(self, text: str) -> None:
        """Show that a stage begins."""

    def show(self, progress: Progress) -> None:
        """Show a step of a fit within the current stage."""

    def end(self, text: str) -> None:
        """Show that a stage has ended."""

    def note(self, text: str) -> None:
        """Show a note before the command ends."""
        if self.prints_notes:
            print_note(text)


class ProgressBar(ProgressReporter):
    """Shows stage, bar, steps, rate and remaining time on standard error; removed when the command ends."""

    def __init__(self) -> None:
        super().__init__(prints_notes=True)
        self.display = _rich_progress()
        self._task: Any = None
        self._text = self._inner_stage = self._compared = ""
        self._stage_start = 0.0

    def begin(self, text: str) -> None:
        """Show a spinner until the first step with a known total."""
        self._text, self._inner_stage, self._compared = text, "", ""
        self._task = self.display.add_task(text, total=None, steps="")

    def show(self, progress: Progress) -> None:
        """Advance the bar; it restarts with each stage of the fit itself."""
        if self._task is None:
            return
        if progress.stage == COMPARISON_STAGE and progress.total:
            self._compared = f", {progress.done} of {progress.total} done"
            self._restart(f"{self._text}{self._compared}")
            return
        if progress.stage != self._inner_stage:
            self._inner_stage = progress.stage
            self._restart(f"{self._text}{self._compared}: {self._inner_stage}")
        if progress.total:
            done = min(progress.done, progress.total)
            steps = steps_text(done, progress.total, time.perf_counter() - self._stage_start)
            self.display.update(self._task, completed=done, total=progress.total, steps=steps)

    def end(self, text: str) -> None:  # noqa: ARG002
        """Remove the bar."""
        if self._task is not None:
            self.display.remove_task(self._task)
            self._task = None

    def _restart(self, text: str) -> None:
        self._stage_start = time.perf_counter()
        self.display.update(self._task, description=text, completed=0, total=None, steps="")


@contextmanager
def progress_reporter(shown: bool = True) -> Iterator[ProgressReporter]:
    """Yield the reporter of a command: a bar at a terminal, otherwise notes only; nothing unless ``shown``."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield ProgressReporter(prints_notes=shown)
        return
    bar = ProgressBar()
    with bar.display:
        yield bar


def _rich_progress() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column

    return RichProgress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(table_column=Column(min_width=7)),  # keeps 0:00:00 readable when the line is cut
        TextColumn("{task.fields[steps]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=REFRESHES_PER_SECOND,
    )


def steps_text(done: int, total: int, seconds: float) -> str:
    """Return the steps done, their rate and the remaining time."""
    from manifoldry._core.run import duration

    count = f"{done:,} of {total:,}"
    if not done or seconds <= MIN_SECONDS_FOR_RATE:
        return count
    rate = done / seconds
    return f"{count}, {rate:,.{0 if rate >= 10 else 1}f}/s, {duration((total - done) / rate)} left"
