"""Classical scaling: Euclidean distances are preserved exactly, inner products of others as well as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry._core.parameters import parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding
from manifoldry._numerics.eigen import largest
from manifoldry._numerics.elbow import Suggestion, elbow
from manifoldry._numerics.extension.distances import GramExtension, ScalingExtension, fitted_distances
from manifoldry._numerics.extension.linear import LinearMap
from manifoldry._numerics.scaling import Scaling, center_gram, classical_scaling, negative_part, principal_scaling
from manifoldry.methods._base import Embedder, Metric, estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import METRIC_PARAMS_TEXT

N_ELBOW_EIGENVALUES = 10  # minimum number of eigenvalues that classical scaling computes, to suggest a dimension


@register(
    problem="eigen",
    papers=("torgerson1952", "gower1966"),
    gives=("transform", "inverse", "spectrum"),
    keeps="inner products: exactly, if enough dimensions are kept",
    loses="curvature: it projects, it does not unfold",
    use_when="distances or similarities are given and are close to Euclidean",
    fails_when="distances far from Euclidean (large negative eigenvalues)",
    cost="Euclidean points: as PCA; otherwise O(n^2) memory, a few products with the n x n matrix",
)
@estimator
class ClassicalMDS(Embedder):
    r"""Embed given distances or inner products that are close to Euclidean, by eigenvectors.

    Classical (Torgerson) scaling solves

    .. math:: \min_Y \| B - Y Y^T \|_F, \qquad B = -\tfrac12 H D^{(2)} H \text{ or } H G H,

    by the top eigenpairs of B: columns :math:`\sqrt{\lambda_j}\, v_j`. For Euclidean distances it gives the scores of
    PCA, and is then computed without any n x n matrix.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, orthogonal columns with squared norms equal to the eigenvalues.
    spectrum_ : Spectrum
        The eigenpairs of B.
    diagnostics_ : dict
        ``negative`` holds the most negative eigenvalue and, up to 1000 points, the share of negative ones in
        the sum of all magnitudes: how far the distances are from Euclidean. ``left_over`` is the share of the
        variance not explained by 1, 2, ... dimensions.

    See Also
    --------
    MDS : least squares of the distances themselves.
    NonmetricMDS : only the order of dissimilarities.
    PCA : the same for Euclidean points.
    Isomap : geodesic distances.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ClassicalMDS
    >>> D = np.abs(np.subtract.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]))
    >>> ClassicalMDS(n_components=1, metric="precomputed").fit_transform(D).ravel().round(3).tolist()
    [-1.333, -0.333, 1.667]
    """

    metric: Metric = parameter(
        'Name of a metric of scikit-learn, or a function of two rows; or "precomputed": ``X`` holds pairwise '
        'distances; or "gram": ``X`` holds inner products or kernel values.',
        default="euclidean",
    )
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)

    _invertible = _local_inverse = True
    _extra_metrics = ("gram",)
    _chunk_support = ChunkSupport(n_rows=5_000)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension at a clear elbow of the variance that 1 to 10 leave, else the measured one, and why.

        Without a clear elbow it is the first that leaves at most a twentieth, if one of the ten does.
        """
        check_is_fitted(self, "embedding_")
        return elbow(
            self.diagnostics_["left_over"][:N_ELBOW_EIGENVALUES], "share of the variance left over", self._measured()
        )

    def _embed(self, X: Any, run: Run) -> Embedding:
        d, n_pairs = self.n_components, max(self.n_components, min(N_ELBOW_EIGENVALUES, X.shape[0] - 1))
        if self.metric == "euclidean" and not issparse(X):
            scaling, directions = principal_scaling(X, n_pairs, run)
            extension: Any = LinearMap(X.mean(axis=0, dtype=np.float64), np.ascontiguousarray(directions[:, :d].T))
            total = float(np.square(X - X.mean(axis=0, dtype=np.float64)).sum())
            return _scaled(scaling, d, extension, total, {})
        if self.metric == "gram":
            gram = center_gram(X, run)
            scaling = Scaling(largest(gram, n_pairs, run=run), -2.0 * X.mean(axis=1))
            extension = GramExtension(scaling.head(d))
        else:
            lengths, distances = fitted_distances(self, X, run)
            gram = lengths if issparse(X) or not np.shares_memory(lengths, X) else lengths.copy()
            scaling = classical_scaling(gram, n_pairs, run, overwrite=True)
            extension = ScalingExtension(distances, scaling.head(d))
        return _scaled(scaling, d, extension, float(np.trace(gram)), {"negative": negative_part(gram, run)})


def _scaled(scaling: Scaling, d: int, extension: Any, total: float, notes: dict[str, Any]) -> Embedding:
    """Return the embedding of the first d pairs; all pairs give the unexplained shares of the variance."""
    explained = np.cumsum(np.maximum(scaling.spectrum.values, 0.0))
    left = np.clip(1.0 - explained / max(total, float(explained[-1])), 0.0, 1.0)
    first = scaling.head(d)
    return Embedding(
        first.coordinates, spectrum=first.spectrum, extension=extension, notes={**notes, "left_over": left}
    )
