import os
import signal
import subprocess
import sys

import pytest

import manifoldry
from manifoldry.apps import cli, demo
from manifoldry.registry import methods

CARDS = methods()


def test_methods_lists_every_card_with_its_facts_and_advice(capsys):
    assert cli.main(["methods"]) == 0
    blocks = capsys.readouterr().out.rstrip("\n").split("\n\n")
    assert blocks[0].split() == ["method", "family", "problem", "gives"]
    assert len(blocks) == 1 + len(CARDS)
    for block, card in zip(blocks[1:], CARDS, strict=True):
        assert block.split("\n")[0].split(None, 3) == [card.name, card.family, card.problem, ", ".join(card.gives)]
        said = " ".join(block.split())
        assert f"keeps {card.keeps}" in said
        assert f"use when {card.use_when}" in said


def test_the_columns_of_the_table_are_aligned(capsys):
    cli.main(["methods"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith(" ")]
    place = lines[0].index("gives")
    assert all(line[place - 2 : place] == "  " and line[place] != " " for line in lines)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_name_in_any_case_gives_the_whole_card(card, capsys):
    assert cli.main(["methods", card.name.upper()]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for text in (card.name, card.keeps, card.loses, card.use_when, card.fails_when, card.cost, ", ".join(card.papers)):
        assert text in said


@pytest.mark.parametrize(("name", "hint"), [("Isomp", "did you mean Isomap?"), ("xyzzy", "there are ClassicalMDS")])
def test_an_unknown_name_gives_one_sentence_and_code_2(name, hint, capsys):
    assert cli.main(["methods", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"manifoldry: There is no method '{name}'; {hint}")


def test_too_few_points_give_one_sentence_and_code_2(tmp_path, capsys):
    assert cli.main(["demo", "--n", "49", "--out", str(tmp_path / "new")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "manifoldry: n must be at least 50; got 49.\n"
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_gives_one_sentence_and_code_1(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["demo", "--out", str(tmp_path / "file" / "folder")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_missing_matplotlib_gives_one_sentence_and_code_1(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("install manifoldry[app].\n")


def test_an_option_that_is_not_known_ends_with_code_2(capsys):
    assert cli.main(["demo", "--points", "5"]) == 2
    assert "No such option '--points'" in capsys.readouterr().err


def test_the_demo_gets_its_options(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(demo, "demo", lambda out, n: asked.append((out, n)))
    assert cli.main(["demo", "--out", str(tmp_path), "--n", "123"]) == 0
    assert asked == [(tmp_path, 123)]


def test_the_module_runs_as_a_program_and_tells_its_version():
    done = subprocess.run(
        [sys.executable, "-m", "manifoldry", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"manifoldry {manifoldry.__version__}\n")


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no SIGPIPE on this system")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["methods"], ["methods", "Isomap"], ["demo", "--n", "50"]], ids=" ".join)
def test_a_reader_that_closes_the_pipe_ends_the_program_in_silence(arguments, unbuffered, tmp_path):
    """As ``| head``: of output that fills the buffer, or is written only when the program ends, or at once."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "manifoldry", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
