"""Who watches a command: seconds of its stages, a bar at a terminal only, and no rubbish left there."""

import io
import re

import pytest

from manifoldry import TSNE
from manifoldry._core.run import Progress, Run
from manifoldry.cli._progress import ProgressBar, ProgressReporter, progress_reporter


class Terminal(io.StringIO):
    def isatty(self):
        return True


def attach(monkeypatch):
    """Make the standard error stream a terminal; not in a fixture, as pytest sets the stream again before a test."""
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return made


def shown(terminal):
    """What was written, without the codes of the terminal."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())


def test_a_stage_is_timed_also_if_it_fails():
    reporter = ProgressReporter()
    with reporter.stage("read"):
        pass
    with pytest.raises(ValueError, match="broken"), reporter.stage("fit"):
        raise ValueError("broken")
    assert list(reporter.seconds) == ["read", "fit"]
    assert all(seconds >= 0 for seconds in reporter.seconds.values())


def test_a_subclass_hears_everything_and_can_stop_a_fit():
    heard = []

    class Ear(ProgressReporter):
        def begin(self, text):
            heard.append(f"begin {text}")

        def show(self, progress):
            heard.append(progress.stage)
            self.stop_requested = progress.stage == "descent" and progress.done == 3

        def end(self, text):
            heard.append(f"end {text}")

    reporter = Ear()
    with reporter.stage("fit", "fitting"):
        model = TSNE(callback=reporter.callback).fit([[float(i), i % 7] for i in range(40)])
    assert (heard[0], heard[-1]) == ("begin fitting", "end fitting")
    assert model.n_iter_ == heard.count("descent") == 3


def test_a_long_time_is_noted_before_the_fit(capsys):
    run = Run(0, callback=ProgressReporter(prints_notes=True).callback)
    run.announce_time("MVU of 9 points", 1700.0, "use IPA")
    assert capsys.readouterr().err == ""
    run.announce_time("MVU of 9 points", 7200.0, "use IPA")
    assert "MVU of 9 points would take about 2 hours; Ctrl-C ends the fit" in capsys.readouterr().err


def test_a_terminal_sees_stage_bar_steps_rate_and_time_left(monkeypatch):
    terminal = attach(monkeypatch)
    monkeypatch.setattr("manifoldry.cli._progress.MIN_SECONDS_FOR_RATE", 0.0)
    with progress_reporter() as reporter:
        assert isinstance(reporter, ProgressBar)
        with reporter.stage("fit", "fitting TSNE"):
            reporter.callback(Progress("neighbors", 0, None, 0.0))
            for done in (1, 50):
                reporter.callback(Progress("descent", done, 200, 0.1))
            reporter.display.refresh()
        with reporter.stage("choose", "comparing methods"):
            reporter.callback(Progress("compare", 3, 8, 0.2, "UMAP"))
            reporter.display.refresh()
    text = shown(terminal)
    assert re.search(r"fitting TSNE: descent .*50 of 200, [\d,]+/s, \d+ s left", text)
    assert "comparing methods, 3 of 8 done" in text
    left = terminal.getvalue().rpartition("\x1b[2K")[2]  # after the line was erased
    assert left.replace("\r", "") == "\x1b[?25h"  # the cursor is shown again


def test_brackets_in_a_name_are_no_markup(monkeypatch):
    terminal = attach(monkeypatch)
    with progress_reporter() as reporter, reporter.stage("read", "reading [red]data[/red].csv"):
        reporter.display.refresh()
    assert "reading [red]data[/red].csv" in shown(terminal)


def test_nothing_is_shown_where_there_is_no_terminal_or_silence_is_asked_for(monkeypatch):
    terminal = attach(monkeypatch)
    with progress_reporter(shown=False) as reporter, reporter.stage("fit"):
        reporter.callback(Progress("descent", 1, 2, 0.1))
    assert terminal.getvalue() == ""
    monkeypatch.setattr("sys.stderr", pipe := io.StringIO())
    with progress_reporter() as reporter, reporter.stage("fit"):
        reporter.callback(Progress("descent", 1, 2, 0.1))
    assert pipe.getvalue() == ""
