"""What the documentation says is what the code does."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

import manifoldry
from helpers import in_new_process
from manifoldry._core.registry import CLUSTERINGS, METHODS, list_clusterings, list_methods

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
    return {name: (kind, description) for names, kind, description in BUILD.entries(text) for name in names}


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
    described = [name for names, _, _ in BUILD.entries(text) for name in names]
    assert sorted(described) == sorted(_parameters(card.cls))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_documented_types_agree_with_the_defaults(card):
    for name, (kind, _) in _parameter_entries(card).items():
        default = _parameters(card.cls)[name].default
        assert ast.literal_eval(re.search(r", default=(.+)$", kind)[1]) == default, name
        choices = re.search(r"\{(.*)\}", kind)
        if choices and isinstance(default, str):
            assert f'"{default}"' in choices[1], name


@pytest.mark.parametrize("card", [*CARDS, *list_clusterings()], ids=lambda card: card.name)
def test_help_explains_every_parameter_without_sending_the_reader_away(card):
    text = BUILD.sections(inspect.getdoc(card.cls))
    standard = ("", "Parameters", "Attributes", "See Also", "Notes", "References", "Examples")
    assert list(text) == [heading for heading in standard if heading in text]
    described = _parameter_entries(card)
    assert list(described) == list(_parameters(card.cls))
    for name, (kind, description) in described.items():
        assert re.match(r"(int|float|bool|str|\{|\"|tuple|dict|callable|array|sequence|estimator|labels)", kind), (
            name,
            kind,
        )
        assert len(description) >= 15, name
    assert not re.search(r"as in `\w+`\.?$", inspect.getdoc(card.cls), flags=re.IGNORECASE | re.MULTILINE)
    for names, kind, description in BUILD.entries(text["Attributes"]):
        assert kind or description, names
    related = [name for names, _, _ in BUILD.entries(text["See Also"]) for name in names]
    assert set(related) <= {*METHODS, *CLUSTERINGS} - {card.name}
    assert all(REFERENCES[key]["title"] in " ".join(text["References"].split()) for key in card.papers)


def test_help_explains_parameters_without_docstrings():
    """As with ``python -OO``, but of the package alone: nothing has to compile numpy, scipy and scikit-learn again."""
    script = """
from importlib.machinery import SourceFileLoader as Loader

def get_code(self, name, of_others=Loader.get_code):
    if not name.startswith("manifoldry"):
        return of_others(self, name)
    return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True, optimize=2)

Loader.get_code = get_code
import manifoldry
manifoldry.PCA()
assert manifoldry.PCA.fit.__doc__ is None
print(manifoldry.UMAP.__doc__)
"""
    printed = in_new_process(script)
    assert "Distance in the layout up to which points count as neighbors" in printed


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_fitted_attributes_that_a_card_promises_are_documented(card):
    text = BUILD.sections(inspect.getdoc(card.cls))["Attributes"]
    described = {name for names, _, _ in BUILD.entries(text) for name in names}
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
    assert stale == [], "run make pages"
    assert set((ROOT / "docs" / "reference" / "methods").glob("*.md")) <= set(made)


def test_what_the_sources_name_is_here():
    sources, named = BUILD.coverage()
    for entry in named:
        assert set(entry) & set(sources), f"{entry['name']} is named nowhere"
        assert set(entry) <= {"name", "does", "note", *sources}
        assert entry["does"], entry["name"]
        assert set(entry["does"]) <= set(manifoldry.__all__), entry["name"]
    names = [entry["name"] for entry in named]
    assert len(names) == len(set(names))


def test_pages_include_only_tables_of_benchmarks():
    """Stored tables that were not measured again before a release are kept, but not published."""
    named = {name for path in TEXTS for _, name, _ in BUILD.BENCHMARK.findall(path.read_text(encoding="utf-8"))}
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")]
    declared = {name for script in scripts for name in re.findall(r'Table\("(\w+)"', script)}
    assert named
    assert named <= declared
    assert {path.stem for path in (ROOT / "benchmarks" / "results").iterdir()} <= declared


def test_the_check_of_a_built_site_finds_broken_links(tmp_path):
    (tmp_path / "other.html").write_text('<h2 id="here">x</h2>', encoding="utf-8")
    good = ["other.html#here", "other.html", "#top", "https://example.org/a?b=c#d", "mailto:a@example.org"]
    bad = ["other.html#gone", "gone.html", "#gone", "http://example.org", "https://no host", "gone.png"]
    lines = "".join(f'<a href="{link}">x</a>' for link in [*good, *bad])
    (tmp_path / "index.html").write_text(f'<body id="top">{lines}</body>', encoding="utf-8")
    found = list(_load(ROOT / "docs" / "links.py").broken(tmp_path))
    assert [line.split(": ")[1] for line in found] == bad


def test_plots_of_benchmarks_are_those_of_the_stored_tables():
    plots = _load(ROOT / "docs" / "benchmark_plots.py")
    drawn = {path.stem.removeprefix("benchmark_") for path in (ROOT / "docs" / "figures").glob("benchmark_*.png")}
    assert drawn == set(plots.PLOTS)
    for name in drawn:
        with Image.open(ROOT / "docs" / "figures" / f"benchmark_{name}.png") as picture:
            assert picture.text["Description"] == plots.digest(name), f"{name}: run make figures"


CIRCUMSTANCES = {
    "machine": {"cores": 2, "cpu": "A", "memory_gb": 4, "system": "B"},
    "python": "3.11",
    "versions": {"numpy": "2.0"},
    "commit": "abc",
    "date": "2026-01-01",
    "load_before": None,
}
DESCRIBED = "2 cores of A, 4 GB, B; Python 3.11, numpy 2.0; commit abc, 2026-01-01."


def test_a_stored_table_replaces_what_stood_between_its_comments(tmp_path, monkeypatch):
    monkeypatch.setattr(BUILD, "ROOT", tmp_path)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    stored = {"caption": "One.", "columns": {"a": ".1f"}, "rows": [{"a": 1.04}], **CIRCUMSTANCES}
    (tmp_path / "benchmarks" / "results" / "one.json").write_text(json.dumps(stored), encoding="utf-8")
    table = f"One.\n\n| a |\n| --- |\n| 1.0 |\n\n*{DESCRIBED}*\n"
    begin, end = "<!-- benchmark: {} -->", "<!-- benchmark end -->"
    text = f"Before\n{begin.format('one')}\nold\n{end}\n{begin.format('two')}\n{end}\nAfter\n"
    new = (
        f"Before\n{begin.format('one')}\n\n{table}\n{end}\n"
        f"{begin.format('two')}\n\n*Not measured yet.*\n\n{end}\nAfter\n"
    )
    assert BUILD.with_benchmarks(text) == new
    assert BUILD.with_benchmarks(new) == new


def test_markdown_keeps_formulas():
    text = "A ``word``, :math:`a_1\nb`.\n\n.. math:: x = 1,\n          y\n\nEnd."
    assert BUILD.markdown(text) == "A `word`, $`a_1 b`$.\n\n```math\nx = 1,\ny\n```\n\nEnd."


SITE = [*(ROOT / "docs").rglob("*.md")]
BUILT = ("docs/gallery/index", "docs/reference/generated")
"""What only a build of the site writes."""


def _prose(path):
    """Return the text of a page without its blocks and pieces of code."""
    text = re.sub(r"^(```+|:::+).*?^\1`*:*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[\[\]()]", "_", code[0]), text)


def _anchors(path):
    """Return the anchors of the headings of a page, as GitHub and the site make them, and those set by hand."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#{1,4} (.+)$", text, flags=re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {*slugs, *re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE)}


def test_links_and_anchors_of_pages_lead_somewhere():
    lost = []
    for path in TEXTS:
        for link in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
            if re.match(r"https://|mailto:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            built = str(target.relative_to(ROOT)).startswith(BUILT)
            if not (target.exists() or built) or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
                lost.append(f"{path.relative_to(ROOT)}: {link}")
    assert lost == []


def _toctree(path):
    """Return the pages that the navigation of a page names, without suffix."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = [name for block in blocks for name in block.split() if not name.startswith(":")]
    return [str((path.parent / name).resolve().relative_to(ROOT)) for name in names]


def test_the_navigation_of_the_site_names_every_page_once():
    named = Counter(name for path in SITE for name in _toctree(path))
    pages = {str(path.relative_to(ROOT).with_suffix("")) for path in SITE} - {"docs/index"}
    pages = {name for name in pages if not name.startswith(BUILT)} | {"docs/gallery/index"}
    assert named == Counter(pages)


def test_an_index_describes_every_page_of_its_navigation():
    for path in SITE:
        if path.name == "index.md" and path.parent.parent == ROOT / "docs":
            linked = {
                str((path.parent / link).resolve().relative_to(ROOT))
                for link in re.findall(r"\]\(([^)#\s]+)\.md\)", path.read_text(encoding="utf-8"))
            }
            assert set(_toctree(path)) <= linked, path


def test_the_readme_counts_the_methods():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f": {len(CARDS)} methods and {len(list_clusterings())} clusterings" in readme


def test_a_callback_is_described_without_the_ways_of_another_method():
    from manifoldry.cli._methods import parameter_entries

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


def test_the_quick_tests_exist_and_cover_every_package():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    paths = (
        re.search(r"^QUICK := \\\n(.*?)\n\n", makefile, flags=re.MULTILINE | re.DOTALL)[1].replace("\\", " ").split()
    )
    for path in paths:
        file, _, test = path.partition("::")
        assert (ROOT / file).exists(), path
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), path
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert packages | {"contract"} <= {path.split("/")[1] for path in paths}
