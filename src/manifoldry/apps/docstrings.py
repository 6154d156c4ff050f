"""What the docstring of an estimator says, in pieces: for the pages of the documentation and the command line."""

from __future__ import annotations

import inspect
import re

AS_ELSEWHERE = re.compile(r"^As in (?:`(\w+)`|scikit-learn)")
"""A description that refers to the same parameter of another class, or of scikit-learn's."""


def sections(docstring: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading; what stands before the first has the heading ''."""
    pieces = re.split(r"^(\w+)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return {"": pieces[0].strip()} | {h: body.strip("\n") for h, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def fields(section: str) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the entries of a numpydoc list: the names that share an entry, their type, their description."""
    entries = re.findall(r"^(\S.*)\n((?:(?:[ ]+.*)?\n?)*)", section + "\n", flags=re.MULTILINE)
    found = []
    for head, body in entries:
        names, _, kind = head.partition(" : ")
        found.append((tuple(name.strip() for name in names.split(",")), kind, " ".join(body.split())))
    return found


def parameter_entries(cls: type) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each parameter, in plain text; references to other classes are followed.

    Examples
    --------
    >>> from manifoldry import Isomap
    >>> parameter_entries(Isomap)["n_components"]
    ('int', 'Target dimension.')
    """
    known = _entries(cls)
    for name, (_, text) in known.items():
        place = AS_ELSEWHERE.match(text)
        found = _followed(cls, name, place[1]) if place else None
        if place and found:
            rest = text[place.end() :].strip("., ;:")
            known[name] = found[0], f"{found[1]} {rest[:1].upper()}{rest[1:]}{'.' if rest else ''}".strip()
    return {name: (kind, _plain(text)) for name, (kind, text) in known.items()}


def _followed(cls: type, name: str, other: str | None) -> tuple[str, str] | None:
    """Return what another class of the package, or the class of scikit-learn that this one wraps, says of a name."""
    if other is not None:
        from manifoldry import __getattr__ as public

        return _entries(public(other)).get(name)
    theirs = (_entries(base).get(name) for base in cls.__mro__ if base.__module__.startswith("sklearn."))
    entry = next((found for found in theirs if found is not None), None)
    return None if entry is None else (entry[0].partition(", default=")[0], _first_sentence(entry[1]))


def _entries(cls: type) -> dict[str, tuple[str, str]]:
    listed = sections(inspect.getdoc(cls) or "").get("Parameters", "")
    return {name: (kind, text) for names, kind, text in fields(listed) for name in names}


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _plain(text: str) -> str:
    """Return reStructuredText without its marks."""
    return re.sub(r":\w+:(?=`)|`+", "", text)
