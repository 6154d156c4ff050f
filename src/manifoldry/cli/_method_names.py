"""Methods by name: found in any case, with or without hyphens, without an import of all of them."""

from __future__ import annotations

import importlib
import re
from difflib import get_close_matches

from manifoldry._core.registry import CLUSTERINGS, METHODS

AUTO_METHOD = "auto"
"""The word for `AutoEmbedding`, which chooses among the methods and is none of the table."""
AUTO_CLASS = ("AutoEmbedding", "manifoldry.evaluation.selection._auto")
"""What the word stands for, and where it lives."""


def method_name(name: str, *, auto: bool = True) -> str:
    """Return the name of a method's class, or say which names there are; "auto" is one of them unless not wanted.

    Examples
    --------
    >>> method_name("t-sne"), method_name("auto")
    ('TSNE', 'AutoEmbedding')
    """
    names = {_bare(each): each for each in METHODS}
    if auto:
        names |= {AUTO_METHOD: AUTO_CLASS[0], _bare(AUTO_CLASS[0]): AUTO_CLASS[0]}
    word = _bare(name)
    if word in {_bare(each) for each in CLUSTERINGS}:
        raise ValueError(
            f"{name} is a clustering: it groups rows and gives no coordinates; take a method, such as ipa or umap, and "
            "cluster what it gives."
        )
    if word not in names:
        close = [names[each] for each in get_close_matches(word, names, n=1)]
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}."
        raise ValueError(f"There is no method {name!r}; {hint}")
    return names[word]


def is_method(name: str) -> bool:
    """Tell whether a name is that of a method, in any case."""
    return _bare(name) in {_bare(each) for each in METHODS}


def method_class(name: str) -> type:
    """Return the class of a method by its name; only its own module is imported."""
    found = method_name(name)
    places = {**METHODS, AUTO_CLASS[0]: AUTO_CLASS[1]}
    cls: type = getattr(importlib.import_module(places[found]), found)
    return cls


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
