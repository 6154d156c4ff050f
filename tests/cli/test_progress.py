"""Who watches a command: seconds of its stages, a bar at a terminal only, and no rubbish left there."""

import io
import re

import pytest

from manifoldry import TSNE
from manifoldry._core.run import Progress
from manifoldry.cli._progress import Bar, Watch, watching


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
    watch = Watch()
    with watch.stage("read"):
        pass
    with pytest.raises(ValueError, match="broken"), watch.stage("fit"):
        raise ValueError("broken")
    assert list(watch.seconds) == ["read", "fit"]
    assert all(seconds >= 0 for seconds in watch.seconds.values())


def test_a_subclass_hears_everything_and_can_stop_a_fit():
    heard = []

    class Ear(Watch):
        def begin(self, text):
            heard.append(f"begin {text}")

        def show(self, progress):
            heard.append(progress.stage)
            self.asked_to_stop = progress.stage == "descent" and progress.done == 3

        def end(self, text):
            heard.append(f"end {text}")

    watch = Ear()
    with watch.stage("fit", "fitting"):
        model = TSNE(callback=watch.callback).fit([[float(i), i % 7] for i in range(40)])
    assert (heard[0], heard[-1]) == ("begin fitting", "end fitting")
    assert model.n_iter_ == heard.count("descent") == 3


def test_a_terminal_sees_stage_bar_steps_rate_and_time_left(monkeypatch):
    terminal = attach(monkeypatch)
    monkeypatch.setattr("manifoldry.cli._progress.MIN_RATED_SECONDS", 0.0)
    with watching() as watch:
        assert isinstance(watch, Bar)
        with watch.stage("fit", "fitting TSNE"):
            watch.callback(Progress("neighbors", 0, None, 0.0))
            for done in (1, 50):
                watch.callback(Progress("descent", done, 200, 0.1))
            watch._shown.refresh()
        with watch.stage("choose", "comparing methods"):
            watch.callback(Progress("compare", 3, 8, 0.2, "UMAP"))
            watch._shown.refresh()
    text = shown(terminal)
    assert re.search(r"fitting TSNE: descent .*50 of 200, [\d,]+/s, \d+ s left", text)
    assert "comparing methods, 3 of 8 done" in text
    left = terminal.getvalue().rpartition("\x1b[2K")[2]  # after the line was erased
    assert left.replace("\r", "") == "\x1b[?25h"  # the cursor is shown again


def test_brackets_in_a_name_are_no_markup(monkeypatch):
    terminal = attach(monkeypatch)
    with watching() as watch, watch.stage("read", "reading [red]data[/red].csv"):
        watch._shown.refresh()
    assert "reading [red]data[/red].csv" in shown(terminal)


def test_nothing_is_shown_where_there_is_no_terminal_or_silence_is_asked_for(monkeypatch):
    terminal = attach(monkeypatch)
    with watching(shown=False) as watch, watch.stage("fit"):
        watch.callback(Progress("descent", 1, 2, 0.1))
    assert terminal.getvalue() == ""
    monkeypatch.setattr("sys.stderr", pipe := io.StringIO())
    with watching() as watch, watch.stage("fit"):
        watch.callback(Progress("descent", 1, 2, 0.1))
    assert pipe.getvalue() == ""
