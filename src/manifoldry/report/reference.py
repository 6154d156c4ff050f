"""Principal components beside every embedding: the picture and the figures that others have to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.choosing.candidates import baseline_name
from manifoldry.report.charts import MAX_SPECTRUM_VALUES
from manifoldry.run import Run
from manifoldry.solve.scaling import classical_scaling
from manifoldry.values import FloatArray

MAX_FITTED_ENTRIES, MAX_FITTED_STORED = 20_000_000, 2_000_000
"""Entries of the rows to which the components are fitted, and stored ones of sparse rows; of more a sample, which
changes the components little."""

MIN_FITTED_ROWS = 1000
"""Rows to which they are fitted however wide these are."""


@dataclass(frozen=True, eq=False)
class Reference:
    """Principal components of all rows, or the classical scaling of distances.

    Parameters
    ----------
    name : str
        "PCA" or "ClassicalMDS".
    Y : ndarray of shape (n, p)
        Coordinates; zeros beyond their number.
    variances : ndarray
        The leading variances, descending.
    """

    name: str
    Y: FloatArray
    variances: FloatArray


def reference_of(X: Any, n_components: int, metric: str, run: Run) -> Reference:
    """Return the principal components of rows, or the classical scaling of distances."""
    n = X.shape[0]
    if metric == "precomputed":
        count = max(1, min(n - 1, max(n_components, min(n - 1, MAX_SPECTRUM_VALUES))))
        found = classical_scaling(np.array(X, dtype=np.float64), count, run, overwrite=True)
        Y, variances = found.coordinates, np.maximum(found.spectrum.values, 0.0)
    else:
        Y, variances = _components(X, n_components, run)
    return Reference(baseline_name(metric), _padded(Y, n_components), variances)


def _components(X: Any, n_components: int, run: Run) -> tuple[FloatArray, FloatArray]:
    from sklearn.decomposition import PCA

    n, d = X.shape
    sparse = issparse(X)
    most = n * MAX_FITTED_STORED // max(1, X.nnz) if sparse else MAX_FITTED_ENTRIES // d
    rows = X
    if n > (most := max(most, MIN_FITTED_ROWS)):
        rows = X[np.sort(run.rng("rows of the components").choice(n, most, replace=False))]
    count = max(1, min(max(n_components, MAX_SPECTRUM_VALUES), min(rows.shape) - sparse))
    model = PCA(count, svd_solver="arpack" if sparse else "auto", random_state=0).fit(rows)
    shown = min(n_components, count)
    weights = model.components_[:shown].T
    Y = np.asarray(X @ weights - model.mean_ @ weights, dtype=np.float64)
    return Y, model.explained_variance_


def _padded(Y: FloatArray, n_components: int) -> FloatArray:
    Y = Y[:, :n_components]
    return np.pad(Y, ((0, 0), (0, n_components - Y.shape[1])))
