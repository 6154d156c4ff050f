"""Texts of parameters that many functions share, written into the docstrings that leave them out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from manifoldry._core.docstrings import sections, wrap

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

SHARED_TEXTS = {
    "X": (
        'array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``',
        "The data, or the distances between the points.",
    ),
    "Y": ("array-like of shape (n, p)", "The embedding, compared by Euclidean distance."),
    "n_neighbors": ("int", "Number of neighbors, below n; a point is not its own neighbor."),
    "metric": ("str", 'Metric of X, as in scikit-learn, or "precomputed".'),
    "sample": (
        "int, optional",
        "Number of points to evaluate, each with all n points, drawn without replacement: an unbiased estimate; None "
        "for all points.",
    ),
    "random_state": ("None, int, numpy Generator or RandomState", "Seed of all random draws."),
    "n_jobs": ("int, optional", "Number of threads, None for all; the result does not depend on it."),
}
"""Type and meaning by parameter, of the metrics."""
DATA_TEXTS = SHARED_TEXTS | {
    "X": ("array-like or sparse matrix of shape (n, D), distances of shape (n, n), or NeighborGraph", "The data."),
    "n_neighbors": ("int, optional", "Number of neighbors k; None for 20, or half of the points if they are fewer."),
    "metric": ("str or callable", 'As in scikit-learn, or "precomputed".'),
    "sample": ("int, optional", "Number of points at which it is measured; None for all."),
}
"""The same for functions of data alone."""
REFIT_TEXTS = SHARED_TEXTS | {
    "estimator": (
        "estimator with fit_transform",
        "The method with its settings, of this library or any other in the style of scikit-learn. The ``embedding_`` "
        "of one that is fitted on X is the shown picture; otherwise a clone is fitted.",
    ),
    "clusters": (
        '"auto" or array-like of shape (n,)',
        'The clusters to evaluate; "auto" uses those seen in the picture (by HDBSCAN). Negative labels are noise, '
        "which joins the nearest cluster; names are numbered in their order.",
    ),
    "n_jobs": ("int, optional", "Threads of the searches, not of the fits; None for all; no result depends on it."),
}
"""The same for functions that fit an estimator again."""


def documented(texts: Mapping[str, tuple[str, str]]) -> Callable[[AnyFunction], AnyFunction]:
    """Return a decorator that adds the parameters that a docstring leaves out, in the order of the signature."""

    def complete(function: AnyFunction) -> AnyFunction:
        if not function.__doc__:  # python -OO
            return function
        parts = sections(inspect.cleandoc(function.__doc__))
        summary, own = parts.pop(""), parts.pop("Parameters", "")
        described = {}
        for head, body in re.findall(r"^(\S.*)\n((?:[ ]+.*\n)*)", own + "\n", flags=re.MULTILINE):
            for name in head.partition(" : ")[0].split(", "):
                described[name] = f"{head}\n{body}".rstrip()
        entries = (
            described.get(name) or f"{name} : {texts[name][0]}\n{wrap(texts[name][1])}"
            for name in inspect.signature(function).parameters
        )
        parts = {"Parameters": "\n".join(dict.fromkeys(entries))} | parts
        body = (f"{head}\n{'-' * len(head)}\n{text}" for head, text in parts.items())
        function.__doc__ = "\n\n".join([summary, *body])
        return function

    return complete
