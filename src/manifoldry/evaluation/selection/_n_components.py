"""How many dimensions: what the estimators agree on, what principal components leave out, and what a purpose needs."""

from __future__ import annotations

from typing import Any

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE, Suggestion
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry.data._chunked import some_rows
from manifoldry.evaluation.diagnosis._shape import shape
from manifoldry.evaluation.diagnosis._subject import take
from manifoldry.evaluation.dimension import UndecidedError, consensus
from manifoldry.evaluation.dimension._space import MAX_SEARCHED_POINTS
from manifoldry.evaluation.selection._input import checked_input, is_precomputed, without_copies
from manifoldry.evaluation.selection._objectives import PURPOSES
from manifoldry.methods._base._advice import by_dimension, variance_left_over

MIN_AGREED_POINTS = 20
"""Fewer points have no neighborhoods on which several estimators could agree: one of them is asked."""
PICTURE_DIMENSIONS = 2
"""What can be looked at."""


def suggest_n_components(
    X: Any,
    *,
    purpose: str | None = None,
    metric: Any = "euclidean",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Suggestion:
    """Return how many dimensions to embed the data in, and why.

    Without a purpose, and to keep distances or neighbors, to reconstruct, or for features, it is the dimension that the
    estimators of `manifoldry.dimension` agree on, since fewer coordinates cannot keep what the data have around their
    points; the reason also tells what as many principal components leave out, and whether a surface is closed, so that
    no plane shows it whole. Clusters are looked at in two
    dimensions and an order along a path is one, whatever the data have, and the reason says what that leaves out.

    Parameters
    ----------
    X : array, data frame, sparse matrix or rows in blocks of shape (n, p), or array (n, n) for precomputed distances
        The data; of identical rows one is taken, of rows in blocks a sample of 20,000.
    purpose : str, optional
        One of those of `compare`.
    metric : str or callable
        As in scikit-learn, or "precomputed".
    random_state : None, int, numpy Generator or RandomState
        Seed of the samples.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Returns
    -------
    Suggestion
        ``n_components`` (also by ``int``) and ``why``.

    Examples
    --------
    >>> from manifoldry import datasets
    >>> int(suggest_n_components(datasets.swiss_roll(1000).X))
    2
    """
    if purpose is not None:
        check.choice("purpose", purpose, tuple(PURPOSES))
    sample = some_rows(X, MAX_SEARCHED_POINTS, Run(random_state, n_jobs), metric)
    if sample is not None:
        found = suggest_n_components(
            sample.rows, purpose=purpose, metric=metric, random_state=random_state, n_jobs=n_jobs
        )
        return Suggestion(found.n_components, f"{found.why} Measured on {sample.described}.")
    points, _ = without_copies(checked_input(X, metric), metric)
    found = _measured(points, metric, random_state, n_jobs)
    linear = "" if is_precomputed(metric) else _linear(points, found.n_components)
    if purpose == "see clusters" and found.n_components > PICTURE_DIMENSIONS:
        lost = f"A picture has two dimensions; the data have more, so some neighbors are lost in it. {found.why}"
        return Suggestion(PICTURE_DIMENSIONS, lost)
    if purpose == "order along a path":
        if found.n_components > 1:
            return Suggestion(1, f"An order is one coordinate, but the data are no path. {found.why}")
        return Suggestion(1, f"An order is one coordinate, and the data are about a path. {found.why}")
    closed = _closed(points, metric, random_state, n_jobs) if found.n_components == PICTURE_DIMENSIONS else ""
    return Suggestion(found.n_components, f"{found.why}{linear}{closed}")


def _measured(points: Any, metric: Any, random_state: Any, n_jobs: int | None) -> Suggestion:
    """Return the dimension that the estimators agree on; of few points that of one estimator."""
    if points.shape[0] < MIN_AGREED_POINTS:
        return by_dimension(intrinsic_dimension(points, metric))
    try:
        agreed = consensus(points, metric=metric, random_state=random_state, n_jobs=n_jobs)
    except UndecidedError:
        return by_dimension(intrinsic_dimension(points, metric))
    text = f"The consensus of the estimators is {agreed.value} ({agreed.low:.1f} to {agreed.high:.1f}). "
    return Suggestion(agreed.value, text + " ".join(agreed.why))


def _closed(points: Any, metric: Any, random_state: Any, n_jobs: int | None) -> str:
    """Return what a diagnosis says of a surface that no plane can show whole, in sentences; else nothing."""
    seen = shape(take(points, "auto", metric, None, Run(random_state, n_jobs)))
    return "".join(f" {found.sentence} So {found.advice}." for found in seen if found.severity == "problem")


def _linear(points: Any, d: int) -> str:
    """Return what principal components leave out, in a sentence."""
    left = variance_left_over(points)
    if d > len(left):
        return f" The first {len(left)} principal components leave {_percent(left[-1])} of the variance."
    text = f" As many principal components leave {_percent(left[d - 1])} of the variance"
    if left[d - 1] <= MAX_LOST_VARIANCE:
        return f"{text}: the data are nearly flat, and PCA may do."
    enough = next((m for m, share in enumerate(left, 1) if share <= MAX_LOST_VARIANCE), None)
    more = f"{enough}" if enough else f"more than {len(left)}"
    return (
        f"{text}, and it takes {more} of them to leave at most {MAX_LOST_VARIANCE:.0%}: the data are curved, or have "
        "noise around them."
    )


def _percent(share: float) -> str:
    """Return a share in words that tell it from nothing, and small ones to a tenth of a percent."""
    if share < 0.001:
        return "less than 0.1%"
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
