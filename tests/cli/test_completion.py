"""Shell completion, by the protocol that the scripts of the shells use."""

import os
import shutil
import subprocess
import sys

import pytest

from helpers import in_new_process
from manifoldry._core.registry import METHODS
from manifoldry.cli import _commands as cli
from manifoldry.cli._main import COMMANDS
from manifoldry.cli._options import DATASET_NAMES, FORMAT_CHOICES, PURPOSE_NAMES, SCALE_CHOICES
from manifoldry.data._tables.preparation import Scale
from manifoldry.data._tables.source import FORMATS
from manifoldry.data.datasets import GENERATORS
from manifoldry.evaluation.selection._objectives import PURPOSES

MAIN = sys.modules["manifoldry.cli._main"]


@pytest.fixture
def complete(monkeypatch, capsys):
    """Return a function that answers what could come at the end of a line, by type and value."""

    def answer(line):
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv(MAIN.COMPLETION_VARIABLE, "bash_complete")
        assert MAIN.main() == 0
        return capsys.readouterr().out.split()

    return answer


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("manifoldry dim", ["plain,dimension"]),
        ("manifoldry ", [f"plain,{name}" for name in COMMANDS]),
        ("manifoldry --ver", ["plain,--version"]),
        ("manifoldry embed x --method lapl", ["plain,laplacianeigenmaps"]),
        ("manifoldry embed x --method isomap --disc", ["plain,--disconnected"]),
        ("manifoldry embed x --method isomap --symmetry ", ["plain,or", "plain,and"]),
        ("manifoldry embed x --method nonsense --sca", ["plain,--scale"]),
        ("manifoldry embed x --missing ", ["plain,refuse", "plain,drop", "plain,impute", "plain,keep"]),
        ("manifoldry compare x --purpose see", ["plain,see-clusters"]),
        ("manifoldry methods umap tess", ["plain,tesseramap"]),
        ("manifoldry cite ", [f"plain,{name.lower()}" for name in METHODS]),
        ("manifoldry diagnose ", ["file,"]),
        ("manifoldry diagnose swi", ["plain,swiss-roll"]),
        ("manifoldry completion z", ["plain,zsh"]),
    ],
)
def test_lines_are_completed(line, expected, complete):
    assert complete(line) == expected


def test_a_file_goes_before_a_data_set_of_the_same_name(complete, tmp_path, monkeypatch):
    (tmp_path / "swiss.csv").write_text("")
    monkeypatch.chdir(tmp_path)
    assert complete("manifoldry diagnose swi") == ["file,swi"]


def test_parameters_of_the_default_method_are_completed_only_once_a_method_is_named(complete):
    assert "plain,--n-patches" not in complete("manifoldry embed x --n-")
    assert "plain,--n-patches" in complete("manifoldry embed x --method ipa --n-")


def test_an_error_while_completing_says_nothing(complete, monkeypatch, capsys):
    monkeypatch.setattr(MAIN, "shell_complete", lambda *_: [][0])
    monkeypatch.setenv(MAIN.COMPLETION_VARIABLE, "bash_complete")
    assert MAIN.main() == 1
    assert capsys.readouterr() == ("", "")


def test_the_program_answers_the_variable_without_numerics():
    script = """
import os, sys
sys.argv = ["manifoldry"]
os.environ.update(COMP_WORDS="manifoldry embed x --method umap --seed 3 --scale st", COMP_CWORD="8")
os.environ["_MANIFOLDRY_COMPLETE"] = "bash_complete"
from manifoldry.cli._commands import main
assert main() == 0
print(sorted(set(sys.modules) & {"numpy", "scipy", "sklearn"}))
"""
    assert in_new_process(script).split() == ["plain,standard", "[]"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_name_the_program_and_the_variable(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_MANIFOLDRY_COMPLETE={shell}_complete" in script
    assert script.startswith("# ")


@pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_the_script(tmp_path):
    """A real bash sources the script and asks it for a completion of a program called manifoldry."""
    program = tmp_path / "manifoldry"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m manifoldry "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(manifoldry completion bash)"
COMP_WORDS=(manifoldry embed x --method hess) COMP_CWORD=4
_manifoldry_completion manifoldry
echo "${COMPREPLY[@]}"
"""
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=variables)
    assert done.stdout == "hessianeigenmaps\n", done.stderr


def test_names_said_again_for_speed_are_those_of_the_library():
    assert sorted(DATASET_NAMES) == sorted(GENERATORS)
    assert set(FORMAT_CHOICES) == set(FORMATS)
    assert set(PURPOSE_NAMES) == set(PURPOSES)
    assert set(SCALE_CHOICES) == {"auto", *Scale.__args__}
