"""Locally linear embedding, tangent space alignment and their variants: sums over neighborhoods as eigenproblems."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

from scipy.sparse import csr_array

from manifoldry._core.parameters import Fraction, NonNegative, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph
from manifoldry._numerics.eigen import GramMatrix
from manifoldry._numerics.eigen.localized import Aligned, aligned_eigenvectors
from manifoldry._numerics.extension.local import embed_aligned, embed_principal
from manifoldry._numerics.geometry.affinity import automatic_bandwidth, graph_affinity
from manifoldry._numerics.geometry.neighborhoods import sum_outer
from manifoldry._numerics.geometry.tangent import (
    MAX_LENGTH_ERROR,
    MAX_SCALE_MISFIT,
    Tangents,
    affine_basis,
    assemble,
    hessian_basis,
    holding_duplicates,
    is_surface,
    length_error,
    tangents,
    true_scale,
)
from manifoldry._numerics.geometry.weights import alignment, misfit_map, modified_misfits, reconstruction
from manifoldry.graph._operations import Policy, closed_groups
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import (
    DISTANCES_METRIC_TEXT,
    PARTICIPATION_TEXT,
    TARGET_METRIC_TEXT,
    TARGET_WEIGHT_TEXT,
    TRUE_SCALE_TEXT,
    WEIGHT_REG_TEXT,
)

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 6}


@estimator
class AlignmentMixin(GraphEmbedder):
    """What locally linear embedding, tangent space alignment and their variants share."""

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    reconstruction_error_: float = fitted()

    _invertible = _local_inverse = True

    @abstractmethod
    def _align(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        """Embed a sample with a connected graph and enough points."""

    def _min_neighbors(self, n_components: int) -> int:
        """Return the number of neighbors that a neighborhood needs."""
        return n_components + 1

    def _rule(self, n_points: int) -> NeighborRule:
        return super()._rule(n_points).at_least(self._min_neighbors(self.n_components), n_points)

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        if sample.n_points <= self._min_neighbors(n_components):
            return embed_principal(sample, n_components, run)
        return self._align(sample, n_components, run)

    def _aligned(self, sample: NeighborhoodData, matrix: Any, n_components: int, run: Run) -> Aligned:
        """Return the coordinates by an alignment matrix."""

        def affinities() -> csr_array:
            return graph_affinity(sample.graph, automatic_bandwidth(sample.neighbors)).matrix

        return aligned_eigenvectors(matrix, affinities, n_components, self.min_participation, run)


def _reconstructible(sample: NeighborhoodData, run: Run) -> tuple[NeighborhoodData, int]:
    """Return the sample with the neighbor lists that reconstruct its points, and the number of closed groups of lists.

    Several closed groups of directed lists would collapse to points, and a duplicate would take all the weight.
    """
    closed = closed_groups(sample.neighbors, run)
    lists = sample.neighbors if closed == 1 else sample.graph
    return replace(sample, neighbors=lists.without_duplicates()), closed


def _alignment_matrix(W: csr_array, graph: NeighborGraph, run: Run) -> Any:
    """Return (I - W)'(I - W) with its factor, or the sum with what holds duplicates together."""
    with run.stage("alignment"):
        M = alignment(W, run)
        held = holding_duplicates(M, graph)
        return GramMatrix(M, misfit_map(W, run)) if held is M else held


@estimator
class ReconstructionMixin(AlignmentMixin):
    """Locally linear embedding and its variants: coordinates with the weights of each point's neighbors.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    spectrum_ : Spectrum
        The eigenpairs, ascending; their sum times n is the reconstruction error of the embedding.
    reconstruction_error_ : float
        The sum of the eigenvalues, as in scikit-learn.
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice; ``local_variances``: the share of the variance of neighborhoods
        that 1, 2, ... dimensions do not explain; ``held_points``: the number of points that ``min_participation``
        replaced by weighted means of their neighbors.
    """

    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)

    @abstractmethod
    def _misfit_matrix(self, lists: NeighborhoodData, n_components: int, run: Run) -> Any:
        """Return the matrix M of the error tr(Y'MY), by lists without duplicates."""

    def _align(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        lists, closed = _reconstructible(sample, run)
        M = self._misfit_matrix(lists, n_components, run)
        return embed_aligned(sample, self._aligned(sample, M, n_components, run), run, closed_groups=closed)


@register(
    problem="eigen",
    papers=("roweis2000", "saul2003", "deridder2003"),
    gives=_GIVES,
    keeps="how each point lies among its neighbors, up to rotation, shift and scale",
    loses="sizes: coordinates are scaled to unit variance",
    use_when="the data is a smooth, evenly sampled sheet whose domain need not be convex",
    fails_when="uneven sampling, closed surfaces, noise; regularization bends flat sheets",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params=_TEST_PARAMS,
)
@estimator
class LLE(ReconstructionMixin):
    r"""Embed a smooth, evenly sampled sheet so that each point stays the same combination of its neighbors.

    Locally linear embedding solves

    .. math:: \min_Y \sum_i \Big\| y_i - \sum_{j \in N(i)} w_{ij} y_j \Big\|^2, \quad
              \tfrac1n Y^T Y = I,\; \sum_i y_i = 0 ,

    with the weights that reconstruct the points themselves best, :math:`\sum_j w_{ij} = 1`: the bottom eigenvectors of
    :math:`(I - W)^T (I - W)` after the constant. With a small ``reg`` a flat sheet is recovered exactly. Targets ``y``
    change only who is a neighbor: the weights are those of the points.

    Attributes
    ----------
    embedding_, spectrum_, reconstruction_error_, graph_, diagnostics_

    See Also
    --------
    ModifiedLLE : weights that are not unique.
    NonnegativeLLE : weights that are shares.
    LTSA : true to scale, the first local method to try.
    NPP : a linear map.

    Examples
    --------
    >>> from manifoldry import LLE, datasets
    >>> LLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    def _misfit_matrix(self, lists: NeighborhoodData, n_components: int, run: Run) -> Any:  # noqa: ARG002
        return _alignment_matrix(reconstruction(lists, self.reg, run), lists.graph, run)


@register(
    problem="eigen",
    papers=("roweis2000", "saul2003"),
    gives=_GIVES,
    keeps="how each point lies within the convex hull of its neighbors",
    loses="sizes; what lies outside the hulls, so the rim of a sheet bends inwards",
    use_when="weights must be shares (mixtures, concentrations), or LLE's large opposite weights are noise",
    fails_when="points at the rim, which no neighbors surround; otherwise as LLE",
    cost="a few times LLE",
    test_params=_TEST_PARAMS,
)
@estimator
class NonnegativeLLE(ReconstructionMixin):
    r"""Embed a sheet by locally linear embedding with weights that are shares, as of mixtures.

    With weights :math:`w_{ij} \ge 0`, :math:`\sum_j w_{ij} = 1` each point is projected onto the convex hull of its
    neighbors; the embedding then follows from the weights like that of `LLE`.

    Attributes
    ----------
    embedding_, spectrum_, reconstruction_error_, graph_, diagnostics_

    See Also
    --------
    LLE : weights of any sign.
    ModifiedLLE : several weight vectors per point.

    Examples
    --------
    >>> from manifoldry import NonnegativeLLE, datasets
    >>> NonnegativeLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    def _misfit_matrix(self, lists: NeighborhoodData, n_components: int, run: Run) -> Any:  # noqa: ARG002
        return _alignment_matrix(reconstruction(lists, self.reg, run, nonnegative=True), lists.graph, run)


@register(
    problem="eigen",
    papers=("zhang2006",),
    gives=_GIVES,
    keeps="several independent reconstructions of each point at once",
    loses="sizes: coordinates are scaled to unit variance",
    use_when="LLE distorts because its weights are not unique (more neighbors than dimensions)",
    fails_when="uneven sampling, closed surfaces, strong noise",
    cost="as LTSA",
    test_params=_TEST_PARAMS,
)
@estimator
class ModifiedLLE(ReconstructionMixin):
    r"""Embed a sheet with several weight vectors per point, if the weights of LLE are not unique.

    Each point has as many weight vectors as its neighborhood has directions without variance:

    .. math:: \min_Y \sum_i \sum_{l=1}^{s_i} \Big\| y_i - \sum_j w^{(l)}_{ij} y_j \Big\|^2, \quad \tfrac1n Y^T Y = I .

    The weights of point i span the :math:`s_i` directions in which its neighborhood hardly varies, shifted by the
    regularized weights of `LLE`; where LLE's weights are one choice among many, these are all of them.

    Attributes
    ----------
    embedding_, spectrum_, reconstruction_error_, graph_, diagnostics_

    See Also
    --------
    LLE : one weight vector per point.
    LTSA : true to scale, by tangent planes.

    Examples
    --------
    >>> from manifoldry import ModifiedLLE, datasets
    >>> ModifiedLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    def _misfit_matrix(self, lists: NeighborhoodData, n_components: int, run: Run) -> Any:
        misfits = modified_misfits(lists, n_components, self.reg, run)
        return holding_duplicates(sum_outer(misfits, lists.n_points, run), lists.graph)


@estimator
class TangentMixin(AlignmentMixin):
    """Tangent space alignment and Hessian eigenmaps: coordinates that are flat in every tangent plane.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered coordinates.
    reconstruction_error_ : float
        The sum of the eigenvalues.
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, ``local_variances`` and ``held_points`` as of `LLE`.
        ``isometric``: whether the scale is true, that is, ``misfit``, how far one map is from explaining all
        neighborhoods, is at most 0.5, and ``length_error``, which three of four edges do not exceed, at most 0.15.
    """

    isometric: bool = parameter(TRUE_SCALE_TEXT, default=True)

    _basis: ClassVar[Callable[..., FloatArray]]
    _complement: ClassVar[bool] = False

    def _align(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        planes = tangents(sample, n_components, run)
        # Duplicates have the same coordinates, which no form of their neighbors enforces.
        M = assemble(planes, self._basis, sample.n_points, run, complement=self._complement)
        affine = self._aligned(sample, holding_duplicates(M, sample.graph), n_components, run)
        return embed_aligned(sample, self._at_true_scale(sample, planes, affine, run), run)

    def _at_true_scale(self, sample: NeighborhoodData, planes: list[Tangents], affine: Aligned, run: Run) -> Aligned:
        """Return coordinates to scale, if that is required and lengths then agree, and notes on it."""
        with run.stage("true scale"):
            to_scale, misfit = true_scale(planes, affine.coordinates, run)
            scaled = affine.coordinates @ to_scale
            error = length_error(sample.graph, scaled, run)
        well = bool(self.isometric and misfit <= MAX_SCALE_MISFIT and error <= MAX_LENGTH_ERROR)
        notes = {**affine.notes, "isometric": well, "misfit": misfit, "length_error": error}
        if error > MAX_LENGTH_ERROR:
            surface = is_surface(sample, affine.coordinates.shape[1])
            kind, message = ("advice", _not_flat(error)) if surface else ("remarks", _without_scale(error))
            notes[kind] = (*notes.get(kind, ()), message)
        return replace(affine, coordinates=scaled if well else affine.coordinates, notes=notes)


def _not_flat(error: float) -> str:
    return (
        f"The layout does not keep the distances between neighbors: at the best scale of the axes a quarter of them "
        f"are off by {error:.0%} or more. The points are noisy or few, or neighbors lie on different sheets: use IPA, "
        "or remove_short_circuits=True."
    )


def _without_scale(error: float) -> str:
    return (
        f"The layout is not to scale: a quarter of the distances between neighbors would be off by {error:.0%} or "
        "more, so coordinates have unit variance."
    )


@register(
    problem="eigen",
    papers=("zhang2004",),
    gives=_GIVES,
    keeps="local distances: neighborhoods up to rigid motions, true to scale",
    loses="accuracy where neighborhoods are strongly curved or noisy",
    use_when="the data is a locally flat sheet of any shape, with holes or not; the first local method to try",
    fails_when="fewer neighbors than the dimension needs, noise as large as the neighborhoods, closed surfaces",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params=_TEST_PARAMS,
)
@estimator
class LTSA(TangentMixin):
    r"""Unfold a locally flat sheet of any shape, with holes too, by aligning tangent planes; true to scale.

    Local tangent space alignment finds coordinates that are affine in every tangent plane:

    .. math:: \min_Y \sum_i \left\| H Y_i - V_i V_i^T H Y_i \right\|_F^2 , \quad Y^T Y = nI,

    where :math:`Y_i` are the coordinates of point i and its neighbors and :math:`V_i` their unit tangent coordinates
    (local principal components). The minimizer is the truth up to an affine map; the least-squares map from it to
    the tangent coordinates of all neighborhoods makes that map a rigid one.

    Attributes
    ----------
    embedding_
    spectrum_ : Spectrum
        Eigenpairs of the alignment matrix, ascending; zero for a flat sheet.
    reconstruction_error_, graph_, diagnostics_

    See Also
    --------
    HessianEigenmaps : functions without curvature, for clean samples.
    LLE : keeps combinations of neighbors.
    IPA : noisy or large samples.
    LinearLTSA : a linear map.

    Examples
    --------
    >>> from manifoldry import LTSA, datasets, metrics
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> Y = LTSA(n_neighbors=10).fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    _basis = staticmethod(affine_basis)
    _complement = True


@register(
    problem="eigen",
    papers=("donoho2003",),
    gives=_GIVES,
    keeps="local distances of any sheet isometric to an open connected domain, holes or not",
    loses="robustness: it estimates second derivatives",
    use_when="the data is a clean, well-sampled sheet of two or three dimensions, not convex",
    fails_when="sparse or noisy samples; more than about four dimensions",
    cost="as LTSA, with at least (d + 1)(d + 2) / 2 neighbors",
    test_params={"n_components": 2, "n_neighbors": 7},
)
@estimator
class HessianEigenmaps(TangentMixin):
    r"""Unfold a clean, well-sampled sheet of two or three dimensions, of any shape, by second derivatives.

    Hessian eigenmaps are functions without curvature in every tangent plane:

    .. math:: \min_Y \sum_i \left\| H_i Y_i \right\|_F^2, \quad Y^T Y = nI,

    where the rows of :math:`H_i` are the quadratic functions of the tangent coordinates, made orthogonal to the
    constant and linear ones. On a sheet isometric to a connected open domain, the null space of the functional is
    spanned by the constant and the true coordinates.

    Attributes
    ----------
    embedding_
    spectrum_ : Spectrum
        Eigenpairs of the sum of squared Hessians, ascending; zero for a flat sheet.
    reconstruction_error_, graph_, diagnostics_

    See Also
    --------
    LTSA : more robust, with fewer neighbors.
    ModifiedLLE : several weight vectors per point.

    Examples
    --------
    >>> from manifoldry import HessianEigenmaps, datasets, metrics
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> Y = HessianEigenmaps(n_neighbors=10).fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    _basis = staticmethod(hessian_basis)

    def _min_neighbors(self, n_components: int) -> int:
        # The dimension of the polynomials of degree at most 2.
        return (n_components + 1) * (n_components + 2) // 2
