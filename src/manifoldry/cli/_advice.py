"""Advice in the words of the command line, and what is worth telling before a fit that takes long."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from manifoldry.cli._text import wrapped

MIN_FOREWARNED_ROWS = 2000
"""Rows from which a fit takes so long that what speaks against it is told before it begins."""

OPTION_WORDS = {
    "(StandardScaler)": "(--scale standard)",
    "(SimpleImputer)": "(--missing impute)",
    "give targets, fit(X, y)": "name their column with --label",
    " (numpy.unique(X, axis=0))": "",
    "(for example 10,000 times it)": "(for example 10,000 times it); --scale log1p takes the logarithms only",
    "overwrite=True": "--force",
    "whole (read_table)": "whole (--no-blocks)",
    "Or fit a sample and place the others: model.fit(manifoldry.row_blocks(X).sample(300, "
    "numpy.random.default_rng(0)).rows), then model.transform(X).": "Or leave --blocks out.",
}
"""What the library advises in Python, and what does the same here."""

OPTION_NAMES = {"random_state": "seed", "labels": "label"}
"""Parameters whose option has another name."""

PARAMETER_NAMES = """
accuracy activation algorithm alpha backend bandwidth batch_size beta_loss blend center chart clustering coef0
common_neighbors compute_inverse_components constraints degree dens_frac dens_lambda dens_var_shift
dense_output density densmap disconnected dof early_exaggeration early_exaggeration_iter edge_lengths eps
fine_tuning fun fun_args gamma hidden_layer_sizes index init isometric iterated_power kernel l1_ratio
laplacian late_exaggeration late_exaggeration_iter learning_rate local_connectivity margin max_iter max_rank
method metric metric_params min_dist min_participation min_variance n_basis n_border_pairs n_components
n_epochs n_init n_iter_no_change n_jobs n_knots n_landmarks n_neighbors n_nodes n_oversamples n_pairs
n_patches negative_sample_rate noise overlap patch_components perplexity power_iteration_normalizer radius
ranks reg remove_short_circuits repulsion repulsion_strength ridge_alpha rotation search set_op_mix_ratio
shape shuffle skip_first slack smoothing solver span spread structure svd_method svd_solver symmetry
target_metric target_n_neighbors target_weight tol unique validation_fraction variance weight weight_decay
weights whiten whiten_solver pca scale random_state
""".split()
"""Parameters of methods and of the preparation; said here again so that an error message does not load all methods."""

READING_NAMES = "color delimiter drop features format header id key label labels missing resume".split()
"""Parameters by which a table is read and rows are written."""

ASSIGNMENT = re.compile(
    rf"""(?<![\w.'"/-])({"|".join([*PARAMETER_NAMES, *READING_NAMES])})=(?:\.\.\.|(['"])(.*?)\2|([\w.]*\w))"""
)
"""A parameter and its value, as in disconnected='apart', or any value, as in key=...."""

BARE_NAME = re.compile(
    rf"""(?<![\w.'"/-])({"|".join(name for name in PARAMETER_NAMES if "_" in name)})(?![\w('"/-]|\.\w)"""
)
"""A parameter alone, where it cannot be taken for another word."""

FIRST_NAME = re.compile(rf"({'|'.join(PARAMETER_NAMES)})(?= (?:must|needs) )")
"""Any parameter at the beginning of an error about it."""


def as_options(advice: str) -> str:
    """Return what the library says with options in place of Python.

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
    advice = FIRST_NAME.sub(lambda found: _option(found[1]), advice, count=1) if FIRST_NAME.match(advice) else advice
    return BARE_NAME.sub(lambda found: _option(found[1]), advice)


def _option(name: str) -> str:
    return f"--{OPTION_NAMES.get(name, name).replace('_', '-')}"


def _assigned(found: re.Match[str]) -> str:
    """Return an option with the value that a parameter has."""
    option, value = _option(found[1]), found[3] if found[2] else found[4]
    if value in (None, "True"):
        return option
    if value == "False":
        return f"--no-{option[2:]}"
    return f"{option} {shlex.quote(value)}"


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
    from manifoldry._core.run import Run
    from manifoldry.evaluation.diagnosis import _columns as columns
    from manifoldry.evaluation.diagnosis._subject import Subject

    if X.shape[0] < MIN_FOREWARNED_ROWS:
        return
    subject = Subject(X, metric, 0, tuple(f"column {name!r}" for name in names), None, Run(0))
    for check in (columns.scales, columns.counts):
        for found in check(subject):
            if found.severity == "problem":
                yield f"{found.sentence} You may want to {as_options(found.advice)}."
