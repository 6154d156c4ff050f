"""``manifoldry methods`` and ``manifoldry cite``."""

import json
import re
from pathlib import Path

import pytest

import manifoldry
from manifoldry._core.registry import CLUSTERINGS, list_clusterings, list_methods
from manifoldry.cli import _commands as cli
from manifoldry.cli._commands.cite import bibtex_entries, references
from manifoldry.cli._methods import matching

CARDS = list_methods()


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_the_list_has_every_method_with_what_it_keeps_and_when_to_use_it(capsys):
    assert cli.main(["methods"]) == 0
    text = said(capsys)
    for card in CARDS:
        assert f"{card.name} keeps {card.keeps}; use when {card.use_when}" in text
    assert f"{len(CARDS)} of {len(CARDS)} methods" in text


@pytest.mark.parametrize("columns", [64, 80, 120])
def test_lines_fit_the_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in (["methods"], ["methods", "show", "umap"]):
        assert cli.main(arguments) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


@pytest.mark.parametrize("card", [*CARDS, *list_clusterings()], ids=lambda card: card.name)
def test_a_name_in_any_case_gives_the_whole_card(card, capsys):
    assert cli.main(["methods", card.name.upper()]) == 0
    text = said(capsys)
    for part in (card.name, card.keeps, card.loses, card.use_when, card.fails_when, card.cost, ", ".join(card.papers)):
        assert part in text
    parameters = card.cls().get_params()
    assert all(f" {name}=" in text for name in parameters)


def test_show_is_the_same_as_the_name_alone(capsys):
    assert cli.main(["methods", "show", "t-sne", "ipa"]) == 0
    shown = capsys.readouterr().out
    assert cli.main(["methods", "tsne", "IPA"]) == 0
    assert capsys.readouterr().out == shown
    assert cli.main(["methods", "show"]) == 2


def test_filters_and_words_find_methods(capsys):
    assert cli.main(["methods", "--family", "unfolding", "--gives", "inverse", "--gives", "certificate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = [c for c in CARDS if c.family == "unfolding" and {"inverse", "certificate"} <= set(c.gives)]
    assert [entry["name"] for entry in found] == [card.name for card in wanted]
    assert found[0]["parameters"]["n_components"]["default"] == 2
    assert cli.main(["methods", "holes", "noise"]) == 0
    assert "IPA" in capsys.readouterr().out
    assert {card.problem for card in matching(CARDS, [], problem="eigen")} == {"eigen"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["Isomp"], "There is no method 'Isomp'; did you mean Isomap?"),
        (["xyzzy"], "There is no method 'xyzzy'; choose from ClassicalMDS"),
        (["hole", "xyzzy"], "No method matches; manifoldry methods lists all of them."),
        (["isomap", "--family", "linear"], "No method matches"),
    ],
)
def test_what_is_not_found_gives_one_sentence_and_code_2(words, told, capsys):
    assert cli.main(["methods", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"manifoldry: {told}")


def test_cite_prints_the_papers_of_each_method_once_and_the_library(capsys):
    assert cli.main(["cite", "umap", "IPA", "umap"]) == 0
    text = capsys.readouterr().out
    keys = [key for name in ("UMAP", "IPA") for card in CARDS if card.name == name for key in card.papers]
    assert re.findall(r"^@\w+\{(\w+),", text, flags=re.MULTILINE) == ["manifoldry", *keys]
    assert f"version = {{{manifoldry.__version__}}}" in text
    assert text.count("{") == text.count("}")


def test_cite_knows_every_paper_of_every_card(capsys):
    assert cli.main(["cite", *(card.name for card in CARDS), *CLUSTERINGS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["papers"]) == {key for card in (*CARDS, *list_clusterings()) for key in card.papers}
    assert all(entry["year"] in entry["bibtex"] for entry in found["papers"].values())


def test_the_installed_references_are_those_of_the_repository():
    root = Path(__file__).resolve().parent.parent.parent / "references.bib"
    assert references() == root.read_text(encoding="utf-8")
    assert len(bibtex_entries(references())) == references().count("\n@")
