"""Preparation of features for an embedding, as steps of a scikit-learn pipeline: impute, scale, project."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from manifoldry._core import check

Scale = Literal["none", "standard", "robust", "unit", "log1p"]
"""Scaling of features: none, variance 1, interquartile range 1, rows of length 1, log(1 + x)."""


def preparation(
    scale: Scale = "none", pca: int | None = None, impute: bool = False, random_state: Any = 0, *, X: Any = None
) -> list[tuple[str, Any]]:
    """Return the steps that prepare features for an embedding: impute, then scale, then project.

    Parameters
    ----------
    scale : {"none", "standard", "robust", "unit", "log1p"}
        Columns centered at their mean and divided by their standard deviation; centered at their median and divided
        by their interquartile range; rows divided by their length; or log(1 + x) of every entry.
    pca : int, optional
        Number of principal components to project onto.
    impute : bool
        Whether missing values are replaced by the median of their column.
    random_state : None, int or RandomState
        Seed of the randomized projection.
    X : ndarray or sparse array of shape (n, d), optional
        The features, if they are known: impossible steps raise an error now, and sparse features stay sparse up to
        the projection (they are scaled, but not centered).

    Returns
    -------
    list of (str, transformer)
        Steps for `sklearn.pipeline.Pipeline` before an estimator; empty if there is nothing to do.
    """
    check.choice("scale", scale, get_args(Scale))
    if pca is not None:
        pca = check.integer("pca", pca, 1)
    if X is not None:
        _check_steps(scale, pca, X)
    steps: list[tuple[str, Any]] = []
    if impute:
        from sklearn.impute import SimpleImputer

        steps.append(("impute", SimpleImputer(strategy="median")))
    if scale != "none":
        steps.append(("scale", _scaler(scale, sparse=hasattr(X, "tocsr"))))
    if pca is not None:
        from sklearn.decomposition import PCA

        steps.append(("pca", PCA(n_components=pca, random_state=random_state)))
    return steps


def _scaler(scale: str, *, sparse: bool) -> Any:
    """Return the transformer; centering would make a sparse matrix dense."""
    from sklearn.preprocessing import FunctionTransformer, Normalizer, RobustScaler, StandardScaler

    if scale == "standard":
        return StandardScaler(with_mean=not sparse)
    if scale == "robust":
        return RobustScaler(with_centering=not sparse)
    if scale == "unit":
        return Normalizer()
    return FunctionTransformer(np.log1p, accept_sparse=True, feature_names_out="one-to-one")


def _check_steps(scale: str, pca: int | None, X: Any) -> None:
    """Raise an error for steps that are impossible with these features."""
    n, d = X.shape
    if pca is not None and pca > min(n, d):
        raise ValueError(
            f"pca must be at most {min(n, d)}, the number of components of {n} rows of {d} features; got {pca}."
        )
    if scale != "log1p":
        return
    values = X.data if hasattr(X, "tocsr") else X
    smallest = float(np.nanmin(values)) if values.size and not np.isnan(values).all() else 0.0
    if smallest <= -1:
        raise ValueError(
            f"scale='log1p' needs values above -1, but the smallest is {smallest:.6g}; it is meant for counts, so try "
            "scale='standard' or scale='robust'."
        )
