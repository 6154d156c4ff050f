"""Isomap's geodesic distances of a fitted graph, and how well the embedding reproduces their kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.solve.scaling import center_gram
from manifoldry.values import FloatArray


def geodesic_matrix(model: Any) -> FloatArray:
    """Return the lengths of shortest paths on the fitted graph, computed again: no n x n matrix is kept in a model."""
    check_is_fitted(model, "graph_")
    return geodesic_lengths(model.graph_, model._run(), at_least=model.graph_.n_points)[0]


def reconstruction_error(self: Any) -> float:
    r"""Return the misfit of the geodesic kernel, :math:`\|-\frac12 H D_G^{(2)} H - Y Y^T\|_F / n`, as in scikit-learn.

    The geodesic distances are computed again.
    """
    lengths = geodesic_matrix(self)
    if not np.isfinite(lengths).all():
        raise ValueError("The graph is in pieces, which have no geodesic distances between them: fit one piece.")
    lengths **= 2
    lengths *= -0.5
    kernel, Y = center_gram(lengths, self._run()), np.asarray(self.embedding_, dtype=np.float64)
    kernel -= Y @ Y.T
    return float(np.linalg.norm(kernel)) / len(Y)
