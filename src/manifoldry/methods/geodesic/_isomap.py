"""Isomap: keep the geodesic distances."""

from __future__ import annotations

from typing import Any, Literal, Self

from manifoldry._core.parameters import Fraction, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray
from manifoldry._numerics.extension.geodesic import (
    GeodesicNystrom,
    embed_by_landmarks,
    embed_by_scaling,
    geodesic_matrix,
    grown_eigenvectors,
    reconstruction_error,
    residual_variances,
    suggest_n_components,
)
from manifoldry._numerics.geometry.tangent import with_path_error
from manifoldry._numerics.scaling import Scaling, classical_scaling, scaling_by_products
from manifoldry.graph._geodesics import geodesic_lengths, grown_geodesics
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, estimator
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._incremental import Growth, IncrementalMixin
from manifoldry.methods._base._texts import TARGET_METRIC_TEXT, TARGET_WEIGHT_TEXT


@register(
    family="geodesic",
    problem="eigen",
    papers=("tenenbaum2000", "deridder2003", "geng2005", "zhu2003"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="geodesic distances, near and far",
    loses="the insides of holes, which it widens",
    use_when="the data is one sheet, evenly sampled, whose parameters fill a convex region",
    fails_when="short circuits (n_neighbors too large, noise), holes, closed or strongly curved surfaces",
    cost="O(n^2 log n) time, one n x n matrix: to about 20,000 points",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class Isomap(IncrementalMixin, GraphEmbedder):
    r"""Unfold a sheet by classical scaling of shortest-path distances, if it is one evenly sampled, convex piece.

    Isometric feature mapping solves

    .. math:: Y = \arg\min_Y \left\| -\tfrac12 H D_G^{(2)} H - Y Y^T \right\|_F ,

    where :math:`D_G` are the lengths of shortest paths on the neighbor graph. It is kernel PCA with the
    kernel :math:`-\frac12 D_G^{(2)}`; with all points neighbors of each other it is PCA.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, orthogonal columns with squared norms equal to the eigenvalues.
    spectrum_ : Spectrum
        Eigenpairs of the doubly centered squared geodesics.
    graph_ : NeighborGraph
        The graph on which shortest paths are computed.
    dist_matrix_ : ndarray of shape (n_samples, n_samples)
        The geodesic distances, computed on access; infinite between components that are embedded apart.
    diagnostics_ : dict
        Seconds, memory, components, bridges, ``short_circuits``, advice, the values chosen by "auto". If the data
        looks like a curve or surface of ``n_components`` dimensions, ``path_error``: the root mean square difference
        between distances in the layout and geodesic distances, relative to the latter; above 0.03 there is advice.

    See Also
    --------
    LandmarkIsomap : more than 20,000 points.
    ConformalIsomap : a sheet that is stretched unevenly.
    KernelIsomap : exact projection of new points, noise.
    IPA : sheets with holes, of any size.
    LTSA : local geometry only; holes stay holes.

    Notes
    -----
    If a callback ends the fit, the points whose geodesic distances are known by then serve as landmarks.

    Examples
    --------
    >>> from manifoldry import Isomap, datasets, metrics
    >>> roll = datasets.swiss_roll(1000)
    >>> Y = Isomap(n_neighbors=10).fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    _invertible = _local_inverse = True

    dist_matrix_ = property(geodesic_matrix)
    reconstruction_error = reconstruction_error
    residual_variances = residual_variances
    suggest_n_components = suggest_n_components

    _blockwise = BlockFit(n_rows=5_000)

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Add rows to the sample; the model becomes that of a fit to all rows so far, in the order they came.

        Neighbor lists, and geodesic distances where few of them change, are updated; those are kept from the
        first call on, n x n numbers. The eigenvectors start from the old ones.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_new, n_features)
            The rows to add; the first call is a fit.
        y : ignored
            For pipelines.

        Returns
        -------
        self : estimator
            Graph and geodesic distances are those of the fit to the last bit, eigenpairs to the solver's tolerance.
        """
        return self._update(X)

    def _unfold_grown(
        self, sample: Sample, n_components: int, run: Run, before: Growth | None
    ) -> tuple[Embedding, FloatArray]:
        lengths = None
        if before is not None and before.graph is not None:
            lengths = grown_geodesics(before.computed, before.graph, sample.graph, run)
        if lengths is None:
            lengths, _ = geodesic_lengths(sample.graph, run, at_least=sample.n_points)
        guess = None if before is None else grown_eigenvectors(self._extension.scaling, lengths)
        scaling = scaling_by_products(lengths, n_components, run, guess)
        return self._checked(sample, scaling, run), lengths

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        lengths, sources = geodesic_lengths(sample.graph, run, at_least=n_components + 2)
        if len(sources) < sample.n_points:  # stopped by the callback
            return embed_by_landmarks(sample.index, lengths, sources, n_components, run)
        scaling = classical_scaling(lengths, n_components, run, overwrite=True)
        return self._checked(sample, scaling, run)

    def _checked(self, sample: Sample, scaling: Scaling, run: Run) -> Embedding:
        embedding = embed_by_scaling(GeodesicNystrom(sample.index, sample.graph, scaling), run)
        return with_path_error(embedding, sample, run) if self.edge_lengths == "distance" else embedding
