"""The program: finding commands, what goes wrong, exit codes, what it writes where."""

import json
import os
import signal
import subprocess
import sys
import warnings

import click
import numpy as np
import pytest

import manifoldry
from helpers import in_new_process
from manifoldry.__main__ import run as run_program
from manifoldry.cli import _commands as cli
from manifoldry.cli._flow import demo
from manifoldry.cli._main import COMMANDS

MAIN = sys.modules["manifoldry.cli._main"]


def run(*arguments, cwd=None, stdin=None, **variables):
    """Run the program as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "manifoldry", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        env={**os.environ, **variables},
        check=False,
    )


@pytest.fixture
def command(monkeypatch):
    """Replace the command ``demo`` by a function."""

    def replace(function):
        made = click.Command("demo", callback=function)
        monkeypatch.setattr(sys.modules["manifoldry.cli._main"].LazyGroup, "get_command", lambda *_: made)

    return replace


def test_the_help_lists_every_command_and_no_arguments_are_the_help(capsys):
    assert cli.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in COMMANDS)
    assert cli.main([]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_a_help(name, capsys):
    assert cli.main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: manifoldry {name}")
    assert err == ""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["mehods"], "There is no command 'mehods'; did you mean methods? See manifoldry --help."),
        (["xyzzy"], f"There is no command 'xyzzy'; choose from {', '.join(COMMANDS)}. See manifoldry --help."),
        (["demo", "--points", "5"], "There is no option --points. See manifoldry demo --help."),
        (
            ["diagnose", "--modl", "x"],
            "There is no option --modl; did you mean --model? See manifoldry diagnose --help.",
        ),
        (["dimension"], "Missing argument 'FILE'. See manifoldry dimension --help."),
        (["cite", "isomp"], "There is no method 'isomp'; did you mean Isomap?"),
        (["dimension", "no-such-file.csv"], "There is no file 'no-such-file.csv' here."),
        (["demo", "--n", "49"], "n must be at least 50; got 49."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_asked_wrongly_gives_one_sentence_and_code_2(given, told, capsys):
    assert cli.main(given) == 2
    assert capsys.readouterr() == ("", f"manifoldry: {told}\n")


def test_a_file_instead_of_a_command_is_understood(tmp_path, capsys):
    assert cli.main([str(tmp_path)]) == 2
    assert f"did you mean manifoldry embed {tmp_path}?" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_gives_one_sentence_and_code_1(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["demo", "--out", str(tmp_path / "file" / "folder")]) == 1
    assert capsys.readouterr().err == f"manifoldry: Not a directory: '{tmp_path / 'file' / 'folder'}'.\n"


def test_a_missing_matplotlib_gives_one_sentence_and_code_1(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith('run pip install "manifoldry[plot]".\n')


def test_the_demo_gets_its_options(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(demo, "demo", lambda out, n: asked.append((out, n)))
    assert cli.main(["demo", "--out", str(tmp_path), "--n", "123"]) == 0
    assert asked == [(tmp_path, 123)]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ValueError("One\n  two."), 2, "One two."),
        (FileExistsError("It exists."), 2, "It exists."),
        (PermissionError(13, "Permission denied", "out.csv"), 1, "Permission denied: 'out.csv'."),
        (MemoryError(), 1, "Not enough memory; use fewer rows or another method."),
        (
            KeyError("x"),
            1,
            "This is a bug in manifoldry; please report it: KeyError: 'x' (traceback: MANIFOLDRY_TRACEBACK=1).",
        ),
        (
            AssertionError(),
            1,
            "This is a bug in manifoldry; please report it: AssertionError (traceback: MANIFOLDRY_TRACEBACK=1).",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_become_sentences_and_codes(error, code, told, command, capsys):
    def fail():
        raise error

    command(fail)
    assert cli.main(["demo"]) == code
    assert capsys.readouterr() == ("", f"manifoldry: {told}\n")


def test_the_traceback_is_shown_if_asked_for(command, monkeypatch, capsys):
    command(lambda: [][0])
    monkeypatch.setenv("MANIFOLDRY_TRACEBACK", "1")
    assert cli.main(["demo"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.splitlines()[-1].startswith("manifoldry: This is a bug in manifoldry; please report it: IndexError")


def test_an_interrupt_ends_with_code_130_in_silence(command, capsys):
    def interrupt():
        raise KeyboardInterrupt

    command(interrupt)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr() == ("", "")


def test_warnings_are_notes_each_once_and_those_for_programmers_are_not_shown(command, capsys):
    def warn():
        for message in ("The graph is\nin two pieces.", "The graph is\nin two pieces.", "Another."):
            warnings.warn(message, manifoldry.EmbeddingWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    command(warn)
    assert cli.main(["demo"]) == 0
    assert capsys.readouterr().err == "manifoldry: note: The graph is in two pieces.\nmanifoldry: note: Another.\n"


def test_color_is_for_terminals_only_and_no_color_turns_it_off(command, monkeypatch, capsys):
    shown = []

    def show():
        shown.append(click.get_current_context().color)
        click.echo(click.style("bold", bold=True))

    command(show)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert cli.main(["demo"]) == 0
    assert capsys.readouterr().out == "bold\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main(["demo"]) == 0
    assert shown == [None, False]


def test_the_module_runs_as_a_program_and_tells_its_version():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"manifoldry {manifoldry.__version__}\n")


def test_the_environment_is_json_with_what_a_bug_report_needs(capsys):
    assert cli.main(["--version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["manifoldry"] == manifoldry.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert {"system", "cpu", "cores", "memory_bytes", "blas", "gpu", "compiled_code", "variables"} <= set(found)
    assert 1 <= found["cores"]["usable"] <= found["cores"]["machine"]
    assert any(library["user_api"] == "blas" for library in found["blas"])


def test_names_that_the_encoding_of_a_pipe_lacks_are_escaped(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{1e4 * a:.1f},{b:.3f},{c:.3f},{d:.3f}" for a, b, c, d in rng.random((40, 4))]
    (tmp_path / "units.csv").write_text("\n".join(["\u91cd\u3055,b,c,d", *rows]), encoding="utf-8")
    done = run("diagnose", "units.csv", "--scale", "none", cwd=tmp_path, PYTHONIOENCODING="cp1252")
    assert done.returncode == 0, done.stderr
    assert r"\u91cd\u3055" in done.stdout


@pytest.mark.parametrize("arguments", [["--json"], ["--json", "methods"]])
def test_json_without_a_command_belongs_to_the_version(arguments, capsys):
    assert cli.main(arguments) == 2
    assert "--json goes after the command, or with --version." in capsys.readouterr().err


def test_a_broken_file_gives_no_traceback_and_code_2(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 not an archive")
    done = run("dimension", "broken.npz", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("manifoldry: broken.npz")


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no SIGPIPE on this system")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_closes_the_pipe_ends_the_program_in_silence(unbuffered):
    """As ``| head``: of output that is written only when the program ends, or at once."""
    done = _into_closed_pipe(["cite"], "stdout", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no SIGPIPE on this system")
def test_a_closed_error_stream_ends_the_program_in_silence():
    done = _into_closed_pipe(["cite", "isomp"], "stderr")
    assert (done.returncode, done.stdout) == (128 + signal.SIGPIPE, b"")


def _into_closed_pipe(arguments, stream, **variables):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "manifoldry", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer},
        env={**os.environ, **variables},
        check=False,
    )
    os.close(writer)
    return done


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_gives_one_sentence_and_code_1():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "manifoldry", "cite"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "manifoldry: No space left on device.\n")


def test_help_version_completion_and_citation_load_no_numerics():
    asked = [["--help"], ["--version"], ["methods", "--help"], ["completion", "zsh"], ["cite"], ["compare", "--help"]]
    script = f"""
import sys
from manifoldry.cli._commands import main
for arguments in {asked!r}:
    assert main(arguments) == 0
print(sorted(set(sys.modules) & {{"numpy", "scipy", "sklearn", "pandas", "matplotlib", "pyarrow", "rich"}}))
"""
    assert in_new_process(script).splitlines()[-1] == "[]"


def test_an_interrupt_while_the_program_is_loaded_ends_it_in_silence(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert run_program() == 130
    assert capsys.readouterr() == ("", "")
