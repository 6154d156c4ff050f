"""Progress of a command: named stages with their seconds, and a bar at a terminal that shows how far each is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from manifoldry._core.run import Progress

REFRESHES_PER_SECOND = 8
"""How often the bar is drawn: often enough for a spinner, too seldom to cost anything."""

MIN_RATED_SECONDS = 0.2
"""Seconds of a stage from which on its rate is told: the clock begins when its first step is done."""

COMPARISON_STAGE = "compare"
"""The stage whose steps are whole fits, each with stages of its own."""


class Watch:
    """The stages of one command and their seconds; says nothing. A subclass that shows them overrides the three hooks.

    Attributes
    ----------
    seconds : dict of str to float
        Seconds of each stage that has ended, in the order in which they began.
    asked_to_stop : bool
        Whether a running fit shall end with the result reached so far; it hears of it at its next step.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.asked_to_stop = False

    @contextmanager
    def stage(self, name: str, text: str = "") -> Iterator[None]:
        """Time a stage under its name; ``text`` is what is shown, the name if empty."""
        began = time.perf_counter()
        self.begin(text or name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
            self.end(text or name)

    def callback(self, progress: Progress) -> bool:
        """Hear a step of a fit: the ``callback`` of an estimator."""
        self.show(progress)
        return self.asked_to_stop

    def begin(self, text: str) -> None:
        """Show that a stage begins."""

    def show(self, progress: Progress) -> None:
        """Show a step of a fit inside the current stage."""

    def end(self, text: str) -> None:
        """Show that a stage has ended."""

    def tell(self, sentence: str) -> None:
        """Tell what is worth knowing before the command ends."""


class Teller(Watch):
    """The same, which writes what is worth knowing as notes on the standard error stream."""

    def tell(self, sentence: str) -> None:
        """Write a note; a bar moves out of its way."""
        from manifoldry.cli._errors import tell

        tell(sentence)


class Bar(Teller):
    """The same on the standard error stream: stage, bar, steps, rate and time left; gone when the command ends."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = _rich_progress()
        self._task: Any = None
        self._text = self._inner = self._compared = ""
        self._began = 0.0

    def __enter__(self) -> Bar:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def begin(self, text: str) -> None:
        """Show a spinner, until the first step with a known total comes."""
        self._text, self._inner, self._compared = text, "", ""
        self._task = self._shown.add_task(text, total=None, steps="")

    def show(self, progress: Progress) -> None:
        """Move the bar; it begins anew when the fit has come to another of its own stages."""
        if self._task is None:
            return
        if progress.stage == COMPARISON_STAGE and progress.total:
            self._compared = f", {progress.done} of {progress.total} done"
            self._describe(f"{self._text}{self._compared}")
            return
        if progress.stage != self._inner:
            self._inner = progress.stage
            self._describe(f"{self._text}{self._compared}: {self._inner}")
        if progress.total:
            done = min(progress.done, progress.total)
            steps = steps_text(done, progress.total, time.perf_counter() - self._began)
            self._shown.update(self._task, completed=done, total=progress.total, steps=steps)

    def end(self, text: str) -> None:  # noqa: ARG002
        """Take the bar away."""
        if self._task is not None:
            self._shown.remove_task(self._task)
            self._task = None

    def _describe(self, text: str) -> None:
        self._began = time.perf_counter()
        self._shown.update(self._task, description=text, completed=0, total=None, steps="")


@contextmanager
def watching(shown: bool = True) -> Iterator[Watch]:
    """Yield who watches the stages of a command: a bar where the standard error stream is a terminal, else notes only.

    Parameters
    ----------
    shown : bool
        False for silence.

    Examples
    --------
    >>> with watching(shown=False) as watch, watch.stage("read"):
    ...     rows = list(range(3))
    >>> list(watch.seconds)
    ['read']
    """
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield Teller() if shown else Watch()
        return
    with Bar() as bar:
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
        TimeElapsedColumn(table_column=Column(min_width=7)),  # 0:00:00 also where the rest is cut
        TextColumn("{task.fields[steps]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=REFRESHES_PER_SECOND,
    )


def steps_text(done: int, total: int, seconds: float) -> str:
    """Return how far a stage is after so many seconds, its rate and the time left.

    Examples
    --------
    >>> steps_text(50, 200, 2.0)
    '50 of 200, 25/s, 6 s left'
    >>> steps_text(65_536, 2_000_000, 3e-5)
    '65,536 of 2,000,000'
    """
    share = f"{done:,} of {total:,}"
    if not done or seconds <= MIN_RATED_SECONDS:
        return share
    rate = done / seconds
    return f"{share}, {rate:,.{0 if rate >= 10 else 1}f}/s, {(total - done) / rate:.0f} s left"
