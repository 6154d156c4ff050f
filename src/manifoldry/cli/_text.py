"""Text for a terminal: wrapped lines, tables, JSON, errors and notes, and advice with options in place of Python."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

PIPED_WIDTH = 100  # Line width if the output is not a terminal
MIN_WIDTH, MAX_WIDTH = 40, 120  # limits of the line width: shorter lines break tables, longer ones are hard to read
MIN_LAST_COLUMN = 24  # width below which the last column of a table is not wrapped
SIDES = {"l": "<", "r": ">"}  # Alignment of a column as a letter, and as Python's format character


def terminal_width() -> int:
    """Return the width of the terminal, within limits; the environment variable COLUMNS overrides it."""
    return min(max(shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, MIN_WIDTH), MAX_WIDTH)


def wrapped(text: str, indent: str = "", first: str = "") -> list[str]:
    """Return a text as lines; the first begins with ``first``, the others with ``indent``."""
    return textwrap.wrap(
        text,
        terminal_width(),
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Return a table as lines; ``sides`` has a letter per column: "l" for text, "r" for numbers."""
    return [line for lines in aligned_rows(rows, sides) for line in lines]


def aligned_rows(rows: Sequence[Sequence[str]], sides: str) -> list[list[str]]:
    """Return the lines of each row of a table; the last column is wrapped if it is text and the line is too long."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    start = sum(width + 2 for width in widths[:-1])
    lines = []
    for row in rows:
        cells = [f"{cell:{SIDES[side]}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        fits = sides[-1] == "r" or len(line) <= terminal_width() or start > terminal_width() - MIN_LAST_COLUMN
        lines.append([line] if fits else wrapped(row[-1], " " * start, "  ".join([*cells[:-1], ""])))
    return lines


def json_text(value: Any) -> str:
    """Return a value as one JSON document."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value as JSON types: numbers that are not finite become None, and other objects their text."""
    if isinstance(value, (str, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (Set, Path)):
        return str(value) if isinstance(value, Path) else sorted(map(plain, value), key=str)
    if hasattr(value, "tolist"):  # numpy arrays and scalars, without importing numpy
        return plain(value.tolist())
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)


BUG = "This is a bug in manifoldry; please report it"  # begins the message of an error that the user cannot fix

WRONG_CALL = re.compile(r"[\w.<>]+\(\) (?:missing|got|takes) ")
"""Python's message for a call with wrong arguments, a `TypeError` that is a bug and not a user error."""

USER_ERRORS = (FileExistsError, FileNotFoundError, IsADirectoryError, ValueError, TypeError)
"""Errors whose message tells the user what to change."""

ENVIRONMENT_ERRORS = (ImportError, OSError, MemoryError)
"""Errors of the environment: a missing library, too little memory, a full disk."""


def error_text(error: BaseException) -> str:
    """Return the message of an error in one line, without the number of an operating system error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename!r}' if error.filename is not None else ''}."
    if isinstance(error, MemoryError) and not str(error):
        return "Not enough memory; use fewer rows or another method."
    return " ".join(str(error).split())


def is_bug(error: BaseException) -> bool:
    """Return whether an error is caused neither by the user nor by the environment."""
    return not isinstance(error, (*USER_ERRORS, *ENVIRONMENT_ERRORS)) or bool(WRONG_CALL.match(str(error)))


def bug_text(error: BaseException) -> str:
    """Return the message for an error that is a bug."""
    return f"{BUG}: {type(error).__name__}: {error_text(error)}".rstrip(": ")


def print_note(text: str) -> None:
    """Print a note to standard error."""
    click.echo(f"manifoldry: note: {as_options(' '.join(text.split()))}", err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each `UserWarning` once, as a note; hide other warnings, which are meant for programmers."""
    printed: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            print_note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
        yield


OPTION_WORDS = {
    "(StandardScaler)": "(--scale standard)",
    "(SimpleImputer)": "(--missing impute)",
    "give targets, fit(X, y)": "name their column with --label",
    " (numpy.unique(X, axis=0))": "",
    "(for example 10,000 times it)": "(for example 10,000 times it); --scale log1p applies only the logarithm",
    "overwrite=True": "--force",
    "whole (read_table)": "whole (--no-chunked)",
    "Or fit a sample and transform the others: model.fit(manifoldry.chunked_data(X).sample(300, "
    "numpy.random.default_rng(0)).rows), then model.transform(X).": "Or leave --chunked out.",
}
"""Advice of the library in Python, and its equivalent on the command line."""

OPTION_NAMES = {"random_state": "seed", "labels": "label"}  # options that are named differently from their parameter

PARAMETER_NAMES = """
accuracy activation algorithm alpha bandwidth batch_size beta_loss blend center chart clustering coef0
common_neighbors compute_inverse_components constraints decay degree dens_frac dens_lambda dens_var_shift
dense_output density densmap device disconnected dof early_exaggeration early_exaggeration_iter eps
fine_tuning fun fun_args further_ratio gamma hidden_layer_sizes index init isometric iterated_power kernel
l1_ratio laplacian late_exaggeration late_exaggeration_iter learning_rate local_connectivity low_distance
margin max_iter max_rank method metric metric_params mid_near_ratio min_dist min_participation min_variance
n_basis n_border_pairs n_components n_epochs n_farther n_init n_iter_no_change n_jobs n_knots n_landmarks
n_neighbors n_nodes n_oversamples n_pairs n_patches n_random negative_sample_rate noise overlap
patch_components perplexity power_iteration_normalizer radius ranks reg remove_short_circuits repulsion
repulsion_strength ridge_alpha rotation search set_op_mix_ratio shape shuffle skip_first slack smoothing
solver span spread structure svd_method svd_solver symmetry target_metric target_n_neighbors target_weight
temperature tol unique validation_fraction variance weight weight_decay weights whiten whiten_solver pca scale
random_state
""".split()
"""Parameters of methods and of the preparation, repeated here so that an error message does not import all methods."""

READING_NAMES = "color delimiter drop features format header id key label labels missing resume".split()
"""Parameters of reading tables and writing rows."""

ASSIGNMENT = re.compile(
    rf"""(?<![\w.'"/-])({"|".join([*PARAMETER_NAMES, *READING_NAMES])})=(?:\.\.\.|(['"])(.*?)\2|([\w.]*\w))"""
)
"""A parameter with a value, as in disconnected='apart', or with any value, as in key=...."""

BARE_NAME = re.compile(
    rf"""(?<![\w.'"/-])({"|".join(name for name in PARAMETER_NAMES if "_" in name)})(?![\w('"/-]|\.\w)"""
)
"""A parameter without a value whose name cannot be mistaken for a word."""

FIRST_NAME = re.compile(rf"({'|'.join(PARAMETER_NAMES)})(?= (?:must|needs) )")
"""Any parameter at the start of an error about it."""


def as_options(advice: str) -> str:
    """Return a message of the library with options in place of Python.

    Examples
    --------
    >>> as_options("raise n_neighbors, or look at each by itself (disconnected='apart')")
    'raise --n-neighbors, or look at each by itself (--disconnected apart)'
    >>> as_options("perplexity must be a number above 0; got -1.")
    '--perplexity must be a number above 0; got -1.'
    """
    for python, option in OPTION_WORDS.items():
        advice = advice.replace(python, option)
    advice = ASSIGNMENT.sub(_assigned, advice)
    advice = FIRST_NAME.sub(lambda match: _option(match[1]), advice, count=1) if FIRST_NAME.match(advice) else advice
    return BARE_NAME.sub(lambda match: _option(match[1]), advice)


def _option(name: str) -> str:
    return f"--{OPTION_NAMES.get(name, name).replace('_', '-')}"


def _assigned(match: re.Match[str]) -> str:
    """Return the option that sets a parameter to its value."""
    option, value = _option(match[1]), match[3] if match[2] else match[4]
    if value in (None, "True"):
        return option
    if value == "False":
        return f"--no-{option[2:]}"
    return f"{option} {shlex.quote(value)}"
