"""What every method can suggest: the dimension of the data, measured at the fit, or what principal components leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.blas import one_blas_thread
from manifoldry.geometry.dimension import IntrinsicDimension
from manifoldry.run import Run
from manifoldry.solve.eigen import largest
from manifoldry.solve.scaling import center_gram
from manifoldry.solve.spectrum import Suggestion
from manifoldry.values import FloatArray

N_CURVE_DIMENSIONS = 10
"""Dimensions among which an elbow is sought: more components would not be looked at one by one."""
MAX_VARIANCE_ROWS = 2000
"""Rows of which principal components are computed for a suggestion."""


def variance_left_over(rows: Any) -> FloatArray:
    """Return the shares of the variance that 1, 2, ..., 10 principal components leave out, of a sample of the rows."""
    run = Run(0, 1)
    chosen = np.sort(run.rng("variance").permutation(rows.shape[0])[:MAX_VARIANCE_ROWS])
    sample = rows[chosen].astype(float)
    with one_blas_thread():
        if issparse(sample):
            product = center_gram((sample @ sample.T).toarray(), run)
        else:
            centered = sample - sample.mean(axis=0)
            product = centered @ centered.T if centered.shape[1] > len(centered) else centered.T @ centered
        values = np.maximum(largest(product, min(N_CURVE_DIMENSIONS, len(product)), run=run).values, 0.0)
    return np.maximum(1.0 - np.cumsum(values) / (np.trace(product) or 1.0), 0.0)


def by_dimension(measured: IntrinsicDimension) -> Suggestion:
    """Return the measured dimension as a suggestion."""
    if not measured.n_measured:
        return Suggestion(1, "No point has three neighbors at different distances, as more dimensions would give it.")
    return Suggestion(
        int(measured),
        f"Around its points the data have about {measured.value:.1f} dimensions (half of the points between "
        f"{measured.low:.1f} and {measured.high:.1f}), by how the number of neighbors grows with their distance.",
    )
