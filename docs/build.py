"""Write the pages that say what methods and clusterings are, from their cards, docstrings and references.bib.

Pages also include the tables that the benchmarks have stored.

Run ``make pages``. A test compares the committed pages with what `pages` returns, so they cannot grow old.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import click

import manifoldry
from manifoldry._core.docstrings import advice_text, bibliography, entries, sections
from manifoldry._core.parameters import declared, describe
from manifoldry._core.registry import CLUSTERINGS, METHODS, Card, list_clusterings, list_methods
from manifoldry.cli._commands.cite import LIBRARY
from manifoldry.methods._base._synonyms import CONVERSIONS, absent, our_word

ROOT = Path(__file__).resolve().parent.parent
REFERENCE, DEVELOPMENT = ROOT / "docs" / "reference", ROOT / "docs" / "development"
sys.path.append(str(ROOT / "benchmarks"))
from tables import render  # noqa: E402

BENCHMARK = re.compile(r"(<!-- benchmark: (\w+) -->).*?(<!-- benchmark end -->)", flags=re.DOTALL)
"""Where a page includes a table of benchmarks/results, by its name."""
WHERE = re.compile(r"(<!-- chunked data -->).*?(<!-- chunked data end -->)", flags=re.DOTALL)
"""Where a page includes what every method and clustering does with chunked data."""
OPTIONS = re.compile(r"(<!-- options: (\w+) -->).*?(<!-- options end -->)", flags=re.DOTALL)
"""Where a page includes the options of a command, by its name, or those by which all commands read data."""
THEIRS = re.compile(r"(<!-- parameters: (\w+): ([\w ]+) -->).*?(<!-- parameters end -->)", flags=re.DOTALL)
"""Where a page shows what the parameters of a class in another library are called here: our class, their parameters."""
ADVICE = {
    "Keeps": "keeps",
    "Loses": "loses",
    "Use when": "use_when",
    "Fails when": "fails_when",
    "Cost": "cost",
    "[Chunked data](../../howto/large_data.md)": "blocks",
    "Family": "family",
    "Problem": "problem",
}


def pages() -> dict[Path, str]:
    """Return the text of every generated file by its path.

    A page per card, their indices, the pages that include tables of benchmarks or the help of the command line, and
    the copy of the references that is installed with the package.
    """
    bibtex = (ROOT / "references.bib").read_text(encoding="utf-8")
    cards, references = list_methods(), bibliography(bibtex)
    texts = {REFERENCE / "methods" / f"{card.name}.md": page(card, references, _figure(card)) for card in cards}
    texts[REFERENCE / "methods" / "index.md"] = "\n".join(
        [
            "# Methods",
            "",
            *overview(cards, ""),
            "",
            "The same table on the command line: `manifoldry methods`.",
            "",
            *_toctree(cards),
        ]
    )
    texts[ROOT / "src" / "manifoldry" / "data" / "references.bib"] = bibtex
    clusters = list_clusterings()
    texts |= {REFERENCE / "clusterings" / f"{card.name}.md": page(card, references) for card in clusters}
    texts[REFERENCE / "clusterings" / "index.md"] = "\n".join(
        ["# Clusterings", "", *overview(clusters, "", "clustering"), "", *_toctree(clusters)]
    )
    texts[DEVELOPMENT / "coverage.md"] = coverage_page()
    texts[ROOT / "CITATION.cff"] = citation_file()
    texts[REFERENCE / "api.md"] = api_page()
    texts[REFERENCE / "references.md"] = references_page(references)
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if any(marker.search(text) for marker in (BENCHMARK, OPTIONS, WHERE, THEIRS)):
            texts[path] = with_synonyms(with_blocks(with_options(with_benchmarks(text))))
    return texts


def _toctree(cards: Sequence[Card]) -> list[str]:
    """Return the navigation to the pages of cards, in the order of the alphabet."""
    return ["```{toctree}", ":hidden:", "", *sorted((card.name for card in cards), key=str.casefold), "```", ""]


def citation_file() -> str:
    """Return CITATION.cff: what ``manifoldry cite`` prints, in the format that GitHub and Zenodo read."""
    lines = [
        "cff-version: 1.2.0",
        "message: If you use manifoldry, please cite it as below, and the papers that `manifoldry cite METHOD` lists.",
        "type: software",
        f"title: {json.dumps(LIBRARY['title'])}",
        "authors:",
        f"  - name: {LIBRARY['author']}",
        f"version: {LIBRARY['version']}",
        f'date-released: "{manifoldry.__released__}"',
        f"repository-code: {LIBRARY['url']}",
        f"license: {LIBRARY['license']}",
        "",
    ]
    return "\n".join(lines)


def api_page() -> str:
    """Return the API reference: exactly the names in ``manifoldry.__all__`` and in that of each public module."""
    modules = {f"manifoldry.{name}": getattr(manifoldry, name) for name in manifoldry._MODULES}
    lines = [
        "# API reference",
        "",
        "These names are stable. Everything else is private and may change: modules whose path has a component that "
        "starts with an underscore, and attributes that start with one. On the site each name is a link to its page; "
        "`help(manifoldry.UMAP)` shows the same text.",
        "",
    ]
    for path, module in {"manifoldry": manifoldry, **modules}.items():
        names = sorted(module.__all__, key=str.casefold)
        lines += [f"## `{path}`", ""]
        if module is manifoldry:
            groups = {"Methods": METHODS, "Clusterings": CLUSTERINGS}
            for title, group in groups.items():
                lines += [f"### {title}", "", *_autosummary(path, [name for name in names if name in group])]
            names = [name for name in names if name not in METHODS and name not in CLUSTERINGS]
            lines += ["### Functions and classes", ""]
            lines += _autosummary(path, [name for name in names if name not in manifoldry._MODULES])
            lines += ["### Modules", "", *(_module_entry(name) for name in names if name in manifoldry._MODULES), ""]
        else:
            shared = [name for name in names if name in manifoldry.__all__]
            own = _autosummary(path, [name for name in names if name not in shared])
            lines += [_first_paragraph(module), "", *own]
            lines += [*(f"- `{name}`: the same as `manifoldry.{name}`" for name in shared), ""]
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def _autosummary(path: str, names: Sequence[str]) -> list[str]:
    """Return the table of names of a module, of which Sphinx writes a page each."""
    head = ["```{eval-rst}", f".. currentmodule:: {path}", "", ".. autosummary::", "   :toctree: generated/"]
    return [*head, "   :nosignatures:", "", *(f"   {name}" for name in names), "```", ""]


def _module_entry(name: str) -> str:
    return f"- [`{name}`](#manifoldry{name}): {_first_paragraph(getattr(manifoldry, name))}"


def _first_paragraph(value: Any) -> str:
    """Return the first paragraph of a docstring as a line of Markdown."""
    return markdown(" ".join(sections(inspect.getdoc(value) or "")[""].split("\n\n")[0].split()))


def references_page(references: Mapping[str, dict[str, str]]) -> str:
    """Return the page of all papers, by the keys that the source cites."""
    lines = [f"- {citation(entry)} `{key}`" for key, entry in references.items()]
    return "\n".join(["# References", "", "The papers, by the keys that the source cites.", "", *lines, ""])


def coverage() -> tuple[dict[str, dict[str, str]], list[dict[str, Any]]]:
    """Return the source documents by their keys, and what they name: where, and what does it here."""
    stored = tomllib.loads((DEVELOPMENT / "coverage.toml").read_text(encoding="utf-8"))
    return stored["sources"], stored["method"]


def coverage_titles() -> list[str]:
    """Return what only titles in the bibliographies of the source documents name, and is not here."""
    titles: list[str] = tomllib.loads((DEVELOPMENT / "coverage.toml").read_text(encoding="utf-8"))["titles"]
    return titles


def coverage_page() -> str:
    """Return the page of every method that the source documents name."""
    sources, named = coverage()
    rows = []
    for entry in named:
        where = [entry.get(key, "") for key in sources]
        done_by = ", ".join(_linked(name, "../reference/") for name in entry["does"])
        rows.append(f"| {entry['name']} | {done_by} | {' | '.join(where)} |")
    return "\n".join(
        [
            "# What the source documents name, and what does it",
            "",
            f"Five texts stand at the beginning of this library; they name {len(named)} methods and forms of methods.",
            "A column says in which section a text names one; none is missing. Not here are those that "
            f"only titles in the bibliographies name: {', '.join(coverage_titles())}.",
            "",
            *(f"- {source['cited']}" for source in sources.values()),
            "",
            f"| named | here | {' | '.join(source['short'] for source in sources.values())} |",
            "|---" * (2 + len(sources)) + "|",
            *rows,
            "",
            *(f"- {entry['name']}: {entry['note']}" for entry in named if "note" in entry),
            "",
            "## Beyond them",
            "",
            ", ".join(_linked(name, "../reference/") for name in beyond(named)) + ".",
            "",
        ]
    )


def beyond(named: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the methods and clusterings here that no source document names."""
    done = {name for entry in named for name in entry["does"]}
    return [card.name for card in (*list_methods(), *list_clusterings()) if card.name not in done]


def _linked(name: str, reference: str = "") -> str:
    """Return a public name, with a link to its page, below the path of the reference, if it has one."""
    folders = {"methods": METHODS, "clusterings": CLUSTERINGS}
    folder = next((folder for folder, table in folders.items() if name in table), None)
    return f"[{name}]({reference}{folder}/{name}.md)" if folder else f"`{name}`"


def with_benchmarks(text: str) -> str:
    """Return the text with the tables that its comments name, as the benchmarks have stored them."""

    def table(found: re.Match[str]) -> str:
        stored = ROOT / "benchmarks" / "results" / f"{found[2]}.json"
        lines = render(json.loads(stored.read_text("utf-8"))) if stored.exists() else "*Not measured yet.*\n"
        return f"{found[1]}\n\n{lines}\n{found[3]}"

    return BENCHMARK.sub(table, text)


def with_blocks(text: str) -> str:
    """Return the text with the table of what a fit to chunked data uses: methods and clusterings by their rule."""
    rules: dict[str, list[str]] = {}
    for folder, cards in (("methods", list_methods()), ("clusterings", list_clusterings())):
        for card in cards:
            rules.setdefault(card.blocks, []).append(f"[{card.name}](../reference/{folder}/{card.name}.md)")
    order = sorted(rules, key=lambda rule: (rule.startswith("no"), rule != "all rows", -_number(rule), rule))
    lines = ["| a fit uses | methods |", "|---|---|", *(f"| {rule} | {', '.join(rules[rule])} |" for rule in order)]
    return WHERE.sub(lambda found: "\n".join([found[1], "", *lines, "", found[2]]), text)


def _number(text: str) -> int:
    """Return the first number in a text, such as 5,000; 0 if there is none."""
    found = re.search(r"\d[\d,]*", text)
    return int(found[0].replace(",", "")) if found else 0


def with_synonyms(text: str) -> str:
    """Return the text with tables of what parameters of other libraries are called here, or why they do not exist."""

    def table(marker: re.Match[str]) -> str:
        ours = set(inspect.signature(getattr(manifoldry, marker[2])).parameters)
        others = [name for name in marker[3].split() if name not in ours]
        same = ", ".join(f"`{name}`" for name in marker[3].split() if name in ours)
        answers: dict[str, list[str]] = {}
        for name in others:
            answers.setdefault(_here(marker[2], name, ours), []).append(f"`{name}`")
        rows = [f"| {', '.join(names)} | {answer} |" for answer, names in answers.items()]
        lines = [f"The same name: {same}.", "", *(["| there | here |", "|---|---|", *rows, ""] if rows else [])]
        return "\n".join([marker[1], "", *lines, marker[4]])

    return THEIRS.sub(table, text)


def _here(estimator: str, name: str, names: Collection[str]) -> str:
    """Return our name for a parameter of another library, or why there is none."""
    reason = absent(estimator, name)
    if reason is not None:
        return f"none; {reason}"
    ours = our_word(name, names)
    if ours is None:
        raise ValueError(f"{estimator}: nothing is known about {name!r}; add it to methods/_base/_synonyms.py")
    conversion = CONVERSIONS.get((name, ours))
    return f"`{ours}`" + (f", `{conversion}`" if conversion else "")


def with_options(text: str) -> str:
    """Return the text with what the commands that its comments name say of themselves, and their options."""
    from manifoldry.cli._options import reading_options

    shared = click.Command("reading", params=list(reading_options(lambda: None).__click_params__[::-1]))

    def listed(found: re.Match[str]) -> str:
        said = option_lines(shared, ()) if found[2] == "reading" else command_lines(found[2], shared)
        return "\n".join([found[1], "", *said, "", found[3]])

    return OPTIONS.sub(listed, text)


def command_lines(name: str, shared: click.Command) -> list[str]:
    """Return the usage of a command and its options, those for reading data left to their own list."""
    from manifoldry.cli._main import program

    command = program.get_command(click.Context(program), name)
    assert command is not None
    context = click.Context(command, info_name=f"manifoldry {name}")
    names = {param.name for param in shared.params}
    usage = " ".join(piece for param in command.params for piece in param.get_usage_pieces(context))
    lines = [f"`manifoldry {name} {usage} [OPTIONS]`".replace("  ", " "), ""]
    return lines + option_lines(command, names & {param.name for param in command.params})


def option_lines(command: click.Command, left_out: Collection[str | None]) -> list[str]:
    """Return a line of Markdown for each option of a command."""
    context = click.Context(command)
    records = [param.get_help_record(context) for param in command.params if isinstance(param, click.Option)]
    kept = [param.name not in left_out for param in command.params if isinstance(param, click.Option)]
    lines = [
        f"- `{' '.join(record[0].split())}`: {' '.join(record[1].split())}"
        for record, keep in zip(records, kept, strict=True)
        if keep and record is not None
    ]
    return [*lines, "- and the options for [the data](#the-data)"] if left_out else lines


def overview(cards: Sequence[Card], folder: str, noun: str = "method") -> list[str]:
    """Return the table of cards as lines of Markdown, with links into ``folder``."""
    rows = [f"| [{c.name}]({folder}{c.name}.md) | {c.keeps} | {c.use_when} | {c.cost} |" for c in cards]
    return [f"| {noun} | keeps | use when | cost |", "|---|---|---|---|", *rows]


def page(card: Card, references: dict[str, dict[str, str]], figure: Sequence[str] = ()) -> str:
    """Return the page of one card."""
    text = sections(inspect.getdoc(card.cls) or "")
    advice = [f"| {heading} | {getattr(card, field)} |" for heading, field in ADVICE.items()]
    parts = [
        f"# {card.name}",
        markdown(text[""].replace(f"{advice_text(card.advice)}\n\n", "")),
        *figure,
        *([markdown(text["Notes"])] if "Notes" in text else []),
        "\n".join(["| | |", "|---|---|", *advice, f"| Gives | {', '.join(card.gives)} |"]),
        "## Parameters",
        _fields(text["Parameters"], inspect.signature(card.cls).parameters, _allowed(card)),
        "## After fit",
        _fields(text["Attributes"], {}, {}),
        "## See also",
        _related(text["See Also"]),
        "## Example",
        f"```python\n{text['Examples']}\n```",
        "## Papers",
        "\n".join(f"- {citation(references[key])} `{key}`" for key in card.papers),
    ]
    return "\n\n".join(parts) + "\n"


def _figure(card: Card) -> list[str]:
    return [f"![{card.name} of a Swiss roll with a hole](../../figures/{card.name}.png)"]


def _allowed(card: Card) -> dict[str, str]:
    """Return what each declared parameter may be, in words."""
    return {name: describe(kind) for name, kind in declared(card.cls).items()} if is_dataclass(card.cls) else {}


def _fields(section: str, parameters: Mapping[str, inspect.Parameter], allowed: Mapping[str, str]) -> str:
    lines = []
    for names, kind, description in entries(section):
        shown = ", ".join(f"`{name}{_default(parameters.get(name))}`" for name in names)
        kind = re.sub(r", default=.*$", "", allowed.get(names[0], kind) if len(names) == 1 else kind)
        kind = f" ({kind})" if kind else ""
        lines.append(f"- {shown}{kind}: {markdown(description)}" if description else f"- {shown}{kind}")
    return "\n".join(lines)


def _related(section: str) -> str:
    """Return methods to consider instead as a list of links."""
    return "\n".join(
        f"- [{names[0]}]({'../clusterings/' if names[0] in CLUSTERINGS else '../methods/'}{names[0]}.md): {reason}"
        for names, reason, _ in entries(section)
    )


def _default(parameter: inspect.Parameter | None) -> str:
    return "" if parameter is None else f"={parameter.default!r}"


def markdown(text: str) -> str:
    r"""Return reStructuredText as Markdown: ``literals``, inline and displayed mathematics."""
    displayed = re.compile(r"^\.\. math:: ?(.*(?:\n[ ]+.*)*)", flags=re.MULTILINE)
    text = re.sub(r"``([^`]*)``", r"`\1`", text)
    text = re.sub(r":math:`([^`]*)`", lambda m: f"$`{' '.join(m[1].split())}`$", text)
    return displayed.sub(lambda m: f"```math\n{_flush(m[1])}\n```", text)


def _flush(formula: str) -> str:
    return "\n".join(line.strip() for line in formula.splitlines())


def citation(entry: dict[str, str]) -> str:
    """Return one entry as a line: authors, title, where, year."""
    people = [" ".join(reversed(person.split(", "))) for person in entry["author"].split(" and ")]
    names = people[0] if len(people) == 1 else f"{', '.join(people[:-1])} and {people[-1]}"
    places = ("journal", "booktitle", "publisher", "school", "institution")
    where = next(entry[field] for field in places if field in entry)
    where = f"PhD thesis, {where}" if "school" in entry else where
    volume = f" {entry['volume']}" if "journal" in entry else ""
    issue = f"({entry['number']})" if "number" in entry else ""
    leaves = f":{entry['pages']}" if volume and "pages" in entry else ""
    link = f" [doi](https://doi.org/{entry['doi']})." if "doi" in entry else ""
    return f"{names}. {entry['title']}. *{where}*{volume}{issue}{leaves}, {entry['year']}.{link}"


def main() -> None:
    """Write every page, and remove the pages of what no longer exists."""
    texts = pages()
    for folder in ("methods", "clusterings"):
        (REFERENCE / folder).mkdir(exist_ok=True)
        for old in set((REFERENCE / folder).glob("*.md")) - set(texts):
            old.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
