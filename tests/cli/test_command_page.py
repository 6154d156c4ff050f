"""docs/reference/command_line.md says what the commands do."""

import re
import shlex
from pathlib import Path

from manifoldry.cli import _commands as cli
from manifoldry.cli._main import COMMANDS

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "command_line.md").read_text(
    encoding="utf-8"
)


def test_every_command_has_a_section_with_its_options():
    headings = {line.removeprefix("## ").lower() for line in PAGE.splitlines() if line.startswith("## ")}
    assert set(COMMANDS) <= headings
    assert {name for name in re.findall(r"<!-- options: (\w+) -->", PAGE)} == {*COMMANDS, "reading"}


def test_what_the_page_shows_of_errors_is_what_is_said(capsys):
    shown = re.findall(r"^    \$ manifoldry (.*)\n    (manifoldry: .*)$", PAGE, flags=re.MULTILINE)
    assert len(shown) >= 2
    for line, told in shown:
        assert cli.main(shlex.split(line)) == 2
        assert capsys.readouterr().err == f"{told}\n"


def test_every_option_in_an_example_is_one_of_its_command(capsys):
    lines = re.findall(r"^    manifoldry (\w+) ([^#|>\n]*)", PAGE, flags=re.MULTILINE)
    assert len(lines) > 10
    for name, rest in lines:
        assert cli.main([name, *(word for word in shlex.split(rest) if word != "--help"), "--help"]) == 0, (name, rest)
    capsys.readouterr()
