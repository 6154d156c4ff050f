"""Warnings as plain notes: a line each on the standard error stream, once, without paths of Python files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from manifoldry.apps.advice import as_options


def tell(sentence: str) -> None:
    """Write a note."""
    click.echo(f"manifoldry: note: {as_options(' '.join(sentence.split()))}", err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings meant for users, ours and scikit-learn's, as notes; those for programmers are left out."""
    told: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            tell(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
        yield
