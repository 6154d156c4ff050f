"""Linear local tangent space alignment: the linear maps that are closest to affine in every tangent plane."""

from __future__ import annotations

import numpy as np

from manifoldry.base import GraphEmbedder, estimator, fitted
from manifoldry.base.blockwise import BlockFit
from manifoldry.extend.linear import embed_linearly, feature_rows
from manifoldry.geometry.tangent import assemble, tangent_form, tangents
from manifoldry.neighbors.sample import Sample
from manifoldry.parameters import PositiveShare
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.linear_span import principal_span
from manifoldry.values import Embedding, FloatArray


@register(
    family="linear",
    problem="eigen",
    papers=("zhang2007", "zhang2004"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="tangent coordinates, up to one affine map, under an explicit linear map",
    loses="distances along a curved sheet; coordinates have unit variance",
    use_when="the sheet is nearly flat but buried in noisy or irrelevant features, and new points need a map",
    fails_when="curved sheets; nearly as many features as points, when it overfits (set variance)",
    cost="O(n k^3 + n m^2) time for k neighbors and m features: to millions of points of few features",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class LinearLTSA(GraphEmbedder):
    r"""Linear local tangent space alignment: `LTSA` restricted to linear maps.

    .. math:: X^T B X\, a = \lambda\, X^T X\, a, \qquad
              B = \sum_i S_i (I - G_i G_i^T) S_i^T, \quad G_i = [1/\sqrt{s}, V_i] ,

    where X is centered, :math:`V_i` are the unit tangent coordinates of the s points of neighborhood i (the point
    and its neighbors), and :math:`S_i` puts them at their places. The eigenvalue of a coordinate of unit norm is
    what of it no tangent plane explains.

    Parameters
    ----------
    n_components : int
        Target dimension, of the tangent planes too.
    n_neighbors, radius, variance, metric, metric_params, search, symmetry, disconnected
        As in `NPP`; more neighbors than dimensions are needed for tangent planes to say anything.
    edge_lengths, remove_short_circuits
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    components_ : ndarray of shape (n_components, n_features)
        The map: ``transform(X)`` is ``(X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        The mean of the points.
    spectrum_ : Spectrum
        Eigenvalues, ascending, zero for flat data; the vectors are the projected points.
    graph_, diagnostics_
        As in `NPP`.

    Notes
    -----
    References: zhang2007, zhang2004.

    Examples
    --------
    >>> from manifoldry import LinearLTSA, datasets
    >>> LinearLTSA(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    variance: PositiveShare = 1.0

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True
    _weighs_edges = False

    _blockwise = BlockFit(n_rows=50_000)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        planes = tangents(sample, n_components, run)
        B = assemble(planes, tangent_form, sample.n_points, run)
        spectrum, w = span.smallest_generalized(B, n_components, run)
        return embed_linearly(span, spectrum, w * np.sqrt(sample.n_points), n_components)
