"""Advice in the words of the command line, and what is worth telling before a fit that takes long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from manifoldry.apps.text import wrapped

MIN_FOREWARNED_ROWS = 2000
"""Rows from which a fit takes so long that what speaks against it is told before it begins."""

OPTION_WORDS = {
    "(StandardScaler)": "(--scale standard)",
    "(SimpleImputer)": "(--missing impute)",
    "give targets, fit(X, y)": "name their column by --label",
    " (numpy.unique(X, axis=0))": "",
    "(for example 10,000 times it)": "(for example 10,000 times it); --scale log1p takes the logarithms only",
}
"""What the library advises in Python, and what does the same here."""

ASSIGNMENT = re.compile(r"\b([a-z]\w*)=('?)([\w.]+)\2")
"""A parameter and its value, as in disconnected='apart'."""


def as_options(advice: str) -> str:
    """Return advice of the library with options in place of Python.

    Examples
    --------
    >>> as_options("raise n_neighbors, or look at each by itself (disconnected='apart')")
    'raise n_neighbors, or look at each by itself (--disconnected apart)'
    """
    for python, option in OPTION_WORDS.items():
        advice = advice.replace(python, option)
    return ASSIGNMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[3]}", advice)


def advice_lines(advice: str) -> list[str]:
    """Return the lines below a finding that say what to do; none if there is nothing to do."""
    return wrapped(as_options(advice), "     ", "  -> ") if advice else []


def forewarnings(X: Any, names: Sequence[str], metric: Any = "euclidean") -> Iterator[str]:
    """Yield sentences on columns that rule all distances, by their units or as counts; of few rows nothing.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Complete rows, as they are going to be embedded.
    names : sequence of str
        Their columns.
    metric : str or callable
        Of the method.
    """
    from manifoldry.diagnosis import columns
    from manifoldry.diagnosis.subject import Subject
    from manifoldry.run import Run

    if X.shape[0] < MIN_FOREWARNED_ROWS:
        return
    subject = Subject(X, metric, 0, tuple(f"column {name!r}" for name in names), None, Run(0))
    for check in (columns.scales, columns.counts):
        for found in check(subject):
            if found.severity == "problem":
                yield f"{found.sentence} You may want to {as_options(found.advice)}."
