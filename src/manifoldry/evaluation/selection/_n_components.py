"""The number of dimensions: the consensus of the estimators, what principal components lose, what a purpose needs."""

from __future__ import annotations

from typing import Any

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE, Suggestion
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry.data._chunked import sample_of_chunked
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation._input import checked_input, is_precomputed, without_copies
from manifoldry.evaluation.diagnosis._profile import take
from manifoldry.evaluation.diagnosis._shape import shape
from manifoldry.evaluation.dimension import UndecidedError, consensus
from manifoldry.evaluation.dimension._space import MAX_SEARCHED_POINTS
from manifoldry.evaluation.selection._objectives import PURPOSES
from manifoldry.methods._base._checks import by_dimension
from manifoldry.methods._base._wrapped import residual_variance_shares

MIN_AGREED_POINTS = 20  # least number of points for a consensus; with fewer, one estimator is used
PICTURE_DIMENSIONS = 2  # dimensions of a picture


@documented(DATA_TEXTS)
def suggest_n_components(
    X: Any, *, purpose: str | None = None, metric: Any = "euclidean", random_state: Any = 0, n_jobs: int | None = None
) -> Suggestion:
    """Return how many dimensions to embed the data in, and why.

    Without a purpose, and to keep distances or neighbors, to reconstruct, or for features, it is the dimension that the
    estimators of `manifoldry.dimension` agree on, since fewer coordinates cannot keep the neighborhoods of the
    data. The reason also says what as many principal components leave out, and whether a surface is closed, so that no
    plane shows all of it. Clusters are shown in two dimensions and an order along a path in one, whatever the data,
    and the reason says what that leaves out.

    Parameters
    ----------
    X : array, data frame, sparse matrix or chunked data of shape (n, p), or array (n, n) for precomputed distances
        The data; duplicates are dropped, and 20,000 rows of chunked data are drawn.
    purpose : str, optional
        One of those of `compare`.

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
    sample = sample_of_chunked(X, MAX_SEARCHED_POINTS, Run(random_state, n_jobs), metric)
    if sample is not None:
        suggestion = suggest_n_components(
            sample.rows, purpose=purpose, metric=metric, random_state=random_state, n_jobs=n_jobs
        )
        return Suggestion(suggestion.n_components, f"{suggestion.why} Measured on {sample.described}.")
    points, _ = without_copies(checked_input(X, metric), metric)
    suggestion = _measured(points, metric, random_state, n_jobs)
    linear = "" if is_precomputed(metric) else _linear(points, suggestion.n_components)
    if purpose == "see clusters" and suggestion.n_components > PICTURE_DIMENSIONS:
        lost = f"A picture has two dimensions; the data has more, so some neighbors are lost in it. {suggestion.why}"
        return Suggestion(PICTURE_DIMENSIONS, lost)
    if purpose == "order along a path":
        path = "but the data is not a path" if suggestion.n_components > 1 else "and the data is about a path"
        return Suggestion(1, f"An order is one coordinate, {path}. {suggestion.why}")
    closed = _closed(points, metric, random_state, n_jobs) if suggestion.n_components == PICTURE_DIMENSIONS else ""
    return Suggestion(suggestion.n_components, f"{suggestion.why}{linear}{closed}")


def _measured(points: Any, metric: Any, random_state: Any, n_jobs: int | None) -> Suggestion:
    """Return the consensus of the estimators; with few points, one estimate."""
    if points.shape[0] < MIN_AGREED_POINTS:
        return by_dimension(intrinsic_dimension(points, metric))
    try:
        agreed = consensus(points, metric=metric, random_state=random_state, n_jobs=n_jobs)
    except UndecidedError:
        return by_dimension(intrinsic_dimension(points, metric))
    text = f"The consensus of the estimators is {agreed.value} ({agreed.low:.1f} to {agreed.high:.1f}). "
    return Suggestion(agreed.value, text + " ".join(agreed.why))


def _closed(points: Any, metric: Any, random_state: Any, n_jobs: int | None) -> str:
    """Return what a diagnosis says about a surface that no plane can show; otherwise nothing."""
    seen = shape(take(points, "auto", metric, None, Run(random_state, n_jobs)))
    return f" {seen.sentence} So {seen.advice}." if seen is not None and seen.severity == "problem" else ""


def _linear(points: Any, d: int) -> str:
    """Return what principal components leave out."""
    residual = residual_variance_shares(points)
    if d > len(residual):
        return f" The first {len(residual)} principal components leave {_percent(residual[-1])} of the variance."
    text = f" As many principal components leave {_percent(residual[d - 1])} of the variance"
    if residual[d - 1] <= MAX_LOST_VARIANCE:
        return f"{text}: the data is nearly flat, and PCA may be enough."
    enough = next((m for m, share in enumerate(residual, 1) if share <= MAX_LOST_VARIANCE), None)
    more = f"{enough}" if enough else f"more than {len(residual)}"
    return (
        f"{text}, and {more} of them are needed to leave at most {MAX_LOST_VARIANCE:.0%}: the data is curved or noisy."
    )


def _percent(share: float) -> str:
    """Return a share as text, small ones to a tenth of a percent."""
    if share < 0.001:
        return "less than 0.1%"
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
