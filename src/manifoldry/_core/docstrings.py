"""Docstrings of estimators: read by section, and composed from what is written once elsewhere.

`compose` writes the section of parameters from their declarations, and fills in attributes that a base describes;
`add_card` adds the advice and the papers of a card.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from manifoldry._core.parameters import parameter_text, plain_type

LINE_LENGTH = 100  # maximum length of a composed line: narrow enough for a terminal that indents it
_HEADING = re.compile(r"^(\w+(?: \w+)?)\n-{3,}\n", flags=re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n((?:(?:[ ]+.*)?\n)*)", flags=re.MULTILINE)
_composed: dict[dataclasses.Field[Any], str] = {}
"""Entries by field: subclasses share the fields that they inherit, and with them the text."""


def sections(docstring: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading; the text before the first has the heading ''."""
    parts = _HEADING.split(docstring)
    return {"": parts[0].strip()} | {
        head: body.strip("\n") for head, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def entries(section: str) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the entries of a numpydoc list: the names that share an entry, their type, their description."""
    return [(*_head(head), " ".join(body.split())) for head, body in _ENTRY.findall(section + "\n")]


def compose(cls: type) -> None:
    """Write the parameters of a dataclass into its docstring, unless it lists them itself, and complete attributes."""
    text = sections(inspect.cleandoc(cls.__doc__ or ""))
    summary = text.pop("")
    if "Parameters" not in text:
        declared = sorted((each for each in dataclasses.fields(cls) if each.init), key=lambda each: bool(each.kw_only))
        parameters = [_entry(cls, each) for each in declared]
        text = {"Parameters": "\n".join(parameters)} | text if parameters else text
    if "Attributes" in text:
        text["Attributes"] = "\n".join(_attributes(cls, text["Attributes"]))
    cls.__doc__ = _joined({"": summary} | text)


def add_card(cls: type, advice: Mapping[str, str], papers: Iterable[str]) -> None:
    """Insert advice after the first sentence of the docstring of a class, and a section of references."""
    if not cls.__doc__:  # with python -OO, unless `compose` has listed parameters
        return
    text = sections(inspect.cleandoc(cls.__doc__))
    summary, _, rest = text.pop("").partition("\n\n")
    text = {"": "\n\n".join(part for part in (summary, advice_text(advice), rest) if part)} | text
    examples = {"Examples": text.pop("Examples")} if "Examples" in text else {}
    text["References"] = "\n".join(wrap(short_citation(key), "- ", "  ") for key in papers)
    cls.__doc__ = _joined(text | examples)


def advice_text(advice: Mapping[str, str]) -> str:
    """Return advice as a list: heading and text of each item."""
    return "\n".join(wrap(f"{heading}: {text}.", "- ", "  ") for heading, text in advice.items())


def bibtex_entries(text: str) -> dict[str, str]:
    """Return every entry of a BibTeX file as it is written there, by its key."""
    return {match[1]: match[0] for match in re.finditer(r"^@\w+\{(\w+),\n.*?^\}", text, flags=re.MULTILINE | re.DOTALL)}


def bibliography(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of every BibTeX entry by its key, without the marks of LaTeX."""
    return {key: _bibtex_fields(entry) for key, entry in bibtex_entries(text).items()}


def short_citation(key: str) -> str:
    """Return authors, year and title of a paper in references.bib; the key if that file is not there."""
    if key not in _references():
        return key
    entry = _bibtex_fields(_references()[key])
    names = [person.partition(",")[0] for person in entry["author"].split(" and ")]
    authors = f"{names[0]} et al." if len(names) > 3 else re.sub(", (?=[^,]*$)", " and ", ", ".join(names))
    return f"{authors} ({entry['year']}). {entry['title']}."


@cache
def _references() -> dict[str, str]:
    with contextlib.suppress(OSError):
        return bibtex_entries((files("manifoldry") / "data" / "references.bib").read_text(encoding="utf-8"))
    return {}


def _bibtex_fields(entry: str) -> dict[str, str]:
    pattern = r"^\s*(\w+)\s*=\s*\{(.*)\},?$"
    return {name: _without_latex(value) for name, value in re.findall(pattern, entry, flags=re.MULTILINE)}


def _without_latex(text: str) -> str:
    """Return text with letters in place of LaTeX's accents, without the braces that protect capitals."""
    accents = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "~": "\u0303", "v": "\u030c", "c": "\u0327"}
    text = re.sub(r"\\(['`\"~]|[vc](?![a-z]))[ {]*(\w)", lambda match: match[2] + accents[match[1]], text)
    text = re.sub(r"[{}]|\\(?=&)", "", text).replace("--", "–")
    return unicodedata.normalize("NFC", text)


def wrap(text: str, first: str = "    ", indent: str = "    ") -> str:
    """Return a text in lines of at most `LINE_LENGTH` characters; `textwrap` is too slow for an import."""
    lines, line = [], first
    for word in text.split():
        if len(line) + len(word) > LINE_LENGTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += f"{word} "
    return "\n".join([*lines, line.rstrip()])


def _joined(text: Mapping[str, str]) -> str:
    return "\n\n".join(f"{head}\n{'-' * len(head)}\n{body}" if head else body for head, body in text.items())


def _head(head: str) -> tuple[tuple[str, ...], str]:
    names, _, kind = head.partition(" : ")
    return tuple(name.strip() for name in names.split(",")), kind


def _entry(cls: type, field: dataclasses.Field[Any]) -> str:
    """Return a parameter as numpydoc has it: name, type, default and text."""
    if field not in _composed:
        head = f"{field.name} : {_type_text(cls, field)}"
        if field.default is not dataclasses.MISSING:
            default = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
            head += f", default={default}"
        text = parameter_text(cls, field.name)
        if not text:
            return head  # of a mixin: the classes that use it have the text
        _composed[field] = f"{head}\n{wrap(text)}"
    return _composed[field]


def _type_text(cls: type, field: dataclasses.Field[Any]) -> str:
    """Return the type of a field in plain words; as it was written if its names are not known where it was declared."""
    if not isinstance(field.type, str):
        return plain_type(field.type)
    owner = next(base for base in cls.__mro__ if field.name in vars(base).get("__annotations__", ()))
    with contextlib.suppress(NameError):
        return plain_type(eval(field.type, vars(sys.modules[owner.__module__])))
    return field.type


def _attributes(cls: type, section: str) -> Iterator[str]:
    """Yield the entries of a section as they are; one that has neither type nor text as a base describes it."""
    for head, body in _ENTRY.findall(section + "\n"):
        names, kind = _head(head)
        if kind or body.strip():
            yield f"{head}\n{body.rstrip()}".rstrip()
        else:
            yield from (_inherited(cls, name) for name in names)


def _inherited(cls: type, name: str) -> str:
    for base in cls.__mro__[1:]:
        described = sections(base.__doc__ or "").get("Attributes", "")
        for head, body in _ENTRY.findall(described + "\n"):
            if name in _head(head)[0]:
                return f"{head}\n{body.rstrip()}"
    return name
