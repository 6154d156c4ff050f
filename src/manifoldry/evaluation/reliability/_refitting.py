"""An estimator fitted again: its picture as it is, or that of a clone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry.graph._pairwise import as_points


def embed(estimator: Any, X: Any, **settings: Any) -> FloatArray:
    """Return the embedding that a clone of the estimator makes of X; what our methods advise is about the first fit."""
    return refit(estimator, X, **settings)[0]


def refit(estimator: Any, X: Any, **settings: Any) -> tuple[FloatArray, Any]:
    """Return the embedding of X and the fitted clone that made it."""
    from sklearn.base import clone

    model = clone(estimator).set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)
        return as_points("The embedding", model.fit_transform(X)), model


def shown(estimator: Any, X: Any, seed: int) -> tuple[FloatArray, Any]:
    """Return the picture to be judged and the fitted estimator: the given one if it has as many rows, else a clone."""
    known = getattr(estimator, "embedding_", None)
    if known is not None and np.ndim(known) == 2 and len(known) == X.shape[0]:
        return as_points("The embedding", known), estimator
    return refit(estimator, X, **seed_if_none(estimator, seed))


def seed_if_none(estimator: Any, seed: int) -> dict[str, int]:
    """Return the seed as a parameter, if the estimator has one and it is None."""
    params = estimator.get_params()
    return {"random_state": seed} if "random_state" in params and params["random_state"] is None else {}


def check_estimator(estimator: Any) -> None:
    """Refuse what cannot be cloned and fitted again."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit_transform") and hasattr(estimator, "get_params")):
        raise ValueError(
            f"An estimator with fit_transform and get_params is needed, such as TSNE(); got {estimator!r:.80}."
        )
    if estimator.get_params().get("metric") in ("precomputed", "affinity", "gram"):
        raise ValueError(
            "The estimator takes distances or a graph (metric='precomputed'), of which no new ones can be made; "
            "fit it on the rows themselves."
        )


def as_rows(X: Any, n_least: int) -> Any:
    """Return finite rows, dense in double precision or sparse as they are, at least so many and not all the same."""
    if issparse(X):
        X = X.tocsr()
        if not np.isfinite(X.data).all():
            raise ValueError("X holds NaN or infinity; leave such rows out or fill them.")
    else:
        X = as_points("X", X)
    check.enough_points(X.shape[0], n_least, "a judgment by refits")
    check.distinct_points(X)
    return X


def as_labels(labels: Any, n: int) -> IntArray:
    """Return labels as integers from 0, negative numbers as -1, or refuse them."""
    labels = np.asarray(on_host(labels, "clusters"))
    if labels.shape != (n,):
        raise ValueError(f"clusters must be 'auto' or one label for each of the {n} points; got shape {labels.shape}.")
    none = labels < 0 if labels.dtype.kind in "if" else np.zeros(n, dtype=bool)
    if none.all():
        raise ValueError("clusters holds no label of 0 or more, so there is no cluster to judge.")
    names = np.full(n, -1)
    names[~none] = np.unique(labels[~none], return_inverse=True)[1]
    return names
