"""What is done to features before an embedding, as steps of a scikit-learn pipeline: impute, scale, project."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from manifoldry._core import check

Scale = Literal["none", "standard", "robust", "unit", "log1p"]
"""How features are scaled: not at all, to variance 1, to quartile distance 1, to rows of length 1, to log(1 + x)."""


def preparation(
    scale: Scale = "none", pca: int | None = None, impute: bool = False, random_state: Any = 0, *, X: Any = None
) -> list[tuple[str, Any]]:
    """Return the steps that prepare features for an embedding: impute, then scale, then project.

    Parameters
    ----------
    scale : {"none", "standard", "robust", "unit", "log1p"}
        Columns less their mean over their standard deviation; less their median over the distance of their quartiles;
        rows over their length; or log(1 + x) of every entry.
    pca : int, optional
        Number of principal components to project to.
    impute : bool
        Whether missing values become the median of their column.
    random_state : None, int or RandomState
        Seed of the randomized projection.
    X : ndarray or sparse array of shape (n, d), optional
        The features, if they are known: what cannot be done to them is refused now, and sparse ones stay sparse up to
        the projection (they are scaled, but not shifted).

    Returns
    -------
    list of (str, transformer)
        Steps for `sklearn.pipeline.Pipeline`, to be followed by an estimator; none if there is nothing to do.

    Examples
    --------
    >>> [name for name, _ in preparation("standard", pca=10)]
    ['scale', 'pca']
    """
    check.choice("scale", scale, get_args(Scale))
    if pca is not None:
        pca = check.integer("pca", pca, 1)
    if X is not None:
        _refuse(scale, pca, X)
    steps = [("impute", _imputer())] if impute else []
    if scale != "none":
        steps.append(("scale", _scaler(scale, sparse=hasattr(X, "tocsr"))))
    if pca is not None:
        from sklearn.decomposition import PCA

        steps.append(("pca", PCA(n_components=pca, random_state=random_state)))
    return steps


def _imputer() -> Any:
    from sklearn.impute import SimpleImputer

    return SimpleImputer(strategy="median")


def _scaler(scale: str, *, sparse: bool) -> Any:
    """Return the transformer; a sparse matrix would no longer be one if its columns were shifted."""
    from sklearn.preprocessing import FunctionTransformer, Normalizer, RobustScaler, StandardScaler

    if scale == "standard":
        return StandardScaler(with_mean=not sparse)
    if scale == "robust":
        return RobustScaler(with_centering=not sparse)
    if scale == "unit":
        return Normalizer()
    return FunctionTransformer(np.log1p, accept_sparse=True, feature_names_out="one-to-one")


def _refuse(scale: str, pca: int | None, X: Any) -> None:
    """Refuse what these features cannot be prepared by."""
    n, d = X.shape
    if pca is not None and pca > min(n, d):
        raise ValueError(
            f"pca must be at most {min(n, d)} for {n} rows of {d} features, as there are no more components; got {pca}."
        )
    if scale != "log1p":
        return
    values = X.data if hasattr(X, "tocsr") else X
    least = float(np.nanmin(values)) if values.size and not np.isnan(values).all() else 0.0
    if least <= -1:
        raise ValueError(
            f"scale='log1p' needs values above -1, and the least is {least:.6g}; it is meant for counts, so try "
            "scale='standard' or scale='robust'."
        )
