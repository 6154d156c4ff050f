"""What the documentation says is what the code does."""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import os
import re
from pathlib import Path

import pytest

import manifoldry
from manifoldry._core.registry import list_methods

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "manifoldry"
CARDS = list_methods()
CITED = re.compile(r"\b[a-z]+(?:1[89]|20)\d\d[a-z]?\b")
"""A key: surname and year."""
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = _load(ROOT / "docs" / "build.py")
REFERENCES = BUILD.bibliography((ROOT / "references.bib").read_text(encoding="utf-8"))


def _modules_with_examples():
    for path in sorted(SOURCE.rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _parameter_entries(card):
    """Return, per documented parameter, the type and description of its entry."""
    text = BUILD.sections(inspect.getdoc(card.cls))["Parameters"]
    return {name: (kind, description) for names, kind, description in BUILD.fields(text) for name in names}


def _parameters(cls):
    return inspect.signature(cls).parameters


@pytest.mark.parametrize("name", list(_modules_with_examples()))
def test_examples_in_docstrings_run(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_docstrings_describe_every_parameter_once_and_no_other(card):
    text = BUILD.sections(inspect.getdoc(card.cls))["Parameters"]
    described = [name for names, _, _ in BUILD.fields(text) for name in names]
    assert sorted(described) == sorted(_parameters(card.cls))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_documented_types_agree_with_the_defaults(card):
    for name, (kind, _) in _parameter_entries(card).items():
        default = _parameters(card.cls)[name].default
        stated = re.search(r"default[:= ]+(.+)$", kind)
        if stated:
            assert ast.literal_eval(stated[1]) == default, name
        if kind:
            assert ("optional" in kind) == (default is None), name
        choices = re.findall(r'"(\w+)"', kind)
        if choices and isinstance(default, str):
            assert default in choices, name


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_parameters_described_as_in_another_method_have_its_default(card):
    classes = {other.name: other.cls for other in CARDS}
    for name, (_, description) in _parameter_entries(card).items():
        pointed = re.match(r"As in `(\w+)`", description)
        if pointed:
            assert _parameters(card.cls)[name].default == _parameters(classes[pointed[1]])[name].default, name


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_fitted_attributes_that_a_card_promises_are_documented(card):
    text = BUILD.sections(inspect.getdoc(card.cls))["Attributes"]
    described = {name for names, _, _ in BUILD.fields(text) for name in names}
    promised = {f"{gift}_" for gift in card.gives if gift not in ("transform", "inverse")}
    assert promised | {"embedding_", "diagnostics_"} <= described


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_papers_of_cards_exist_and_cover_what_the_docstring_cites(card):
    assert set(card.papers) <= set(REFERENCES)
    assert set(CITED.findall(inspect.getdoc(card.cls))) <= set(card.papers)


def test_source_and_references_cite_each_other():
    cited = {key for path in SOURCE.rglob("*.py") for key in CITED.findall(path.read_text(encoding="utf-8"))}
    assert cited - set(REFERENCES) == set()
    assert set(REFERENCES) - cited == set()


def test_keys_in_the_documentation_exist():
    cited = {key for path in TEXTS for key in CITED.findall(path.read_text(encoding="utf-8"))}
    assert cited <= set(REFERENCES)


def test_every_reference_is_read_whole():
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    assert list(REFERENCES) == re.findall(r"^@\w+\{(.+),$", text, flags=re.MULTILINE)
    assert list(REFERENCES) == sorted(REFERENCES)
    for key, entry in REFERENCES.items():
        assert {"author", "title", "year"} <= set(entry), key
        assert entry["year"] == re.search(r"\d{4}", key)[0], key
        assert entry["title"] in BUILD.citation(entry), key
    assert sum(map(len, REFERENCES.values())) == len(re.findall(r"^  \w+ *= \{", text, flags=re.MULTILINE))


def test_pages_say_what_is_true_now():
    made = BUILD.pages()
    stale = [str(path) for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert stale == [], "run make docs"
    assert set((ROOT / "docs" / "methods").glob("*.md")) <= set(made)


def test_what_the_sources_name_is_here():
    sources, named = BUILD.coverage()
    for entry in named:
        assert set(entry) & set(sources), f"{entry['name']} is named nowhere"
        assert set(entry) <= {"name", "does", "note", *sources}
        assert entry["does"], entry["name"]
        assert set(entry["does"]) <= set(manifoldry.__all__), entry["name"]
    names = [entry["name"] for entry in named]
    assert len(names) == len(set(names))


def test_pages_include_every_table_that_a_benchmark_stores_and_no_other():
    named = {name for path in TEXTS for _, name, _ in BUILD.BENCHMARK.findall(path.read_text(encoding="utf-8"))}
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")]
    assert named == {name for script in scripts for name in re.findall(r'Table\("(\w+)"', script)}
    assert {path.stem for path in (ROOT / "benchmarks" / "results").iterdir()} <= named


def test_a_stored_table_replaces_what_stood_between_its_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(BUILD, "ROOT", tmp_path)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "benchmarks" / "results" / "one.md").write_text("| a |\n", encoding="utf-8")
    begin, end = "<!-- benchmark: {} -->", "<!-- benchmark end -->"
    text = f"Before\n{begin.format('one')}\nold\n{end}\n{begin.format('two')}\n{end}\nAfter\n"
    new = (
        f"Before\n{begin.format('one')}\n\n| a |\n\n{end}\n"
        f"{begin.format('two')}\n\n*Not measured yet.*\n\n{end}\nAfter\n"
    )
    assert BUILD.with_benchmarks(text) == new
    assert BUILD.with_benchmarks(new) == new


def test_markdown_keeps_formulas():
    text = "A ``word``, :math:`a_1\nb`.\n\n.. math:: x = 1,\n          y\n\nEnd."
    assert BUILD.markdown(text) == "A `word`, $`a_1 b`$.\n\n```math\nx = 1,\ny\n```\n\nEnd."


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_python_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block, "README.md", "exec"), {})
        assert "trustworthiness" in said.getvalue()


def test_the_readme_counts_the_methods():
    tens, _, ones = re.search(r"(\w+ty)(-?)(\w*) methods", (ROOT / "README.md").read_text(encoding="utf-8")).groups()
    digits = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    assert {"fifty": 50, "sixty": 60, "seventy": 70}[tens] + digits.index(ones) == len(CARDS)


def test_a_callback_is_described_without_the_ways_of_another_method():
    from manifoldry.cli._parameters import parameter_entries

    for card in CARDS:
        text = parameter_entries(card.cls).get("callback", ("", ""))[1]
        assert "geodesic" not in text or card.family == "geodesic", card.name


def test_the_readme_takes_a_minute():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 90, "tables of methods and of speed belong to the docs"
    assert lines[-1].strip()


def test_targets_named_in_texts_are_in_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    command = re.compile(r"(?:`|^    |run: |entry: )make ([a-z]+)", flags=re.MULTILINE)
    callers = [*TEXTS, ROOT / ".pre-commit-config.yaml", *(ROOT / ".github").rglob("*.yml")]
    named = {word for path in callers for word in command.findall(path.read_text(encoding="utf-8"))}
    assert {"demo", "test"} <= named
    assert named <= targets


def test_the_check_of_every_change_is_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "make test"
