"""What Isomap's kin can tell after a fit, from the geodesic distances of its graph, which are computed again."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry.extend.nystrom import geodesic_residual_variances, suggest_by_geodesics
from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.solve.scaling import center_gram
from manifoldry.solve.spectrum import Suggestion
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


def residual_variances(self: Any, max_components: int = 10, *, sample: int = 1000) -> FloatArray:
    r"""Return the residual variance :math:`1 - R^2(d)` of geodesic and embedded distances for d = 1..max_components.

    The curve falls until d reaches the intrinsic dimension and then stays. With more than ``sample`` points it is
    measured on the geodesic distances among a random sample of them.

    Parameters
    ----------
    max_components : int
        The largest dimension tried.
    sample : int
        Maximum number of points whose geodesic distances are computed.
    """
    check_is_fitted(self, "graph_")
    return geodesic_residual_variances(self.graph_, max_components, sample, self._run())


def suggest_n_components(self: Any, max_components: int = 10, *, sample: int = 1000) -> Suggestion:
    """Return the dimension at a clear elbow of the `residual_variances`, else the measured dimension of the data."""
    check_is_fitted(self, "graph_")
    return suggest_by_geodesics(self.graph_, max_components, sample, self._run(), self._measured())
