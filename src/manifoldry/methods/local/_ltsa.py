"""Local tangent space alignment, and Hessian eigenmaps: the two that know what flat means."""

from __future__ import annotations

from dataclasses import replace

from manifoldry._core.parameters import Fraction, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding
from manifoldry._numerics.eigen.localized import Aligned, aligned_eigenvectors
from manifoldry._numerics.extension.local import embed_aligned, embed_principal
from manifoldry._numerics.geometry.affinity import automatic_bandwidth, graph_affinity
from manifoldry._numerics.geometry.tangent import (
    MAX_LENGTH_ERROR,
    MAX_SCALE_MISFIT,
    Tangents,
    assemble,
    duplicates_laplacian,
    hessian_form,
    is_surface,
    length_error,
    tangent_form,
    tangents,
    true_scale,
)
from manifoldry.graph._operations import Policy
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, PARTICIPATION_TEXT, TRUE_SCALE_TEXT

_GIVES = ("transform", "inverse", "spectrum", "graph")


def _at_true_scale(sample: Sample, planes: list[Tangents], affine: Aligned, isometric: bool, run: Run) -> Aligned:
    """Return coordinates, made isometric where that is asked for and lengths then agree, and notes of it.

    Where no affine map makes lengths agree, a surface is not unfolded; other data cannot be, and that is a remark.
    """
    with run.stage("true scale"):
        to_scale, misfit = true_scale(planes, affine.coordinates)
        scaled = affine.coordinates @ to_scale
        error = length_error(sample.graph, scaled)
    well = bool(isometric and misfit <= MAX_SCALE_MISFIT and error <= MAX_LENGTH_ERROR)
    notes = {**affine.notes, "isometric": well, "misfit": misfit, "length_error": error}
    if error > MAX_LENGTH_ERROR:
        surface = is_surface(sample, affine.coordinates.shape[1])
        kind, sentence = ("advice", _bent(error)) if surface else ("remarks", _without_scale(error))
        notes[kind] = (*notes.get(kind, ()), sentence)
    return replace(affine, coordinates=scaled if well else affine.coordinates, notes=notes)


def _bent(error: float) -> str:
    return (
        f"The layout does not keep the distances between neighbors: at the best scale of the axes a quarter of them "
        f"are off by {error:.0%} or more. The points are noisy or few, or neighbors lie on different sheets: use IPA, "
        "or remove_short_circuits='tangents'."
    )


def _without_scale(error: float) -> str:
    return (
        f"The layout is not to scale: a quarter of the distances between neighbors would be off by {error:.0%} or "
        "more, so coordinates have unit variance."
    )


@register(
    family="local",
    problem="eigen",
    papers=("zhang2004",),
    gives=_GIVES,
    keeps="local distances: neighborhoods up to rigid motions, true to scale",
    loses="accuracy where neighborhoods are strongly curved or noisy",
    use_when="the data is a locally flat sheet of any shape, with holes or not; the first local method to try",
    fails_when="fewer neighbors than the dimension needs, noise as large as the neighborhoods, closed surfaces",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class LTSA(GraphEmbedder):
    r"""Unfold a locally flat sheet of any shape, with holes too, by aligning tangent planes; true to scale.

    Local tangent space alignment finds coordinates that are affine in every tangent plane:

    .. math:: \min_Y \sum_i \left\| H Y_i - V_i V_i^T H Y_i \right\|_F^2 , \quad Y^T Y = nI,

    where :math:`Y_i` are the coordinates of point i and its neighbors and :math:`V_i` their unit tangent coordinates
    (local principal components). The minimizer is the truth up to an affine map; the least-squares map from it to
    the tangent coordinates of all neighborhoods makes that map a rigid one.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered coordinates.
    spectrum_ : Spectrum
        Eigenpairs of the alignment matrix, ascending; zero for a flat sheet.
    reconstruction_error_ : float
        The sum of the eigenvalues.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, ``local_variances`` and ``held_points`` as of `LLE`.
        ``isometric``: whether the scale is true, that is, ``misfit``, how far one map is from explaining all
        neighborhoods, is at most 0.5, and ``length_error``, which three of four edges do not exceed, at most 0.15.

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

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    isometric: bool = parameter(TRUE_SCALE_TEXT, default=True)
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    reconstruction_error_: float = fitted()

    _invertible = _local_inverse = True
    _weighs_edges = False

    def _rule(self, n_points: int) -> NeighborRule:
        return super()._rule(n_points).at_least(self.n_components + 1, n_points)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.n_points <= n_components + 1:
            return embed_principal(sample, n_components, run)
        planes = tangents(sample, n_components, run)
        # Duplicates lie at one place, and a form of their neighbors does not see them apart: hold them together.
        B = assemble(planes, tangent_form, sample.n_points, run) + duplicates_laplacian(sample.graph)
        affinities = graph_affinity(sample.graph, automatic_bandwidth(sample.neighbors)).matrix
        affine = aligned_eigenvectors(B, affinities, n_components, self.min_participation, run)
        return embed_aligned(sample, _at_true_scale(sample, planes, affine, self.isometric, run), run)


@register(
    family="local",
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
class HessianEigenmaps(GraphEmbedder):
    r"""Unfold a clean, well-sampled sheet of two or three dimensions, of any shape, by second derivatives.

    Hessian eigenmaps are functions without curvature in every tangent plane:

    .. math:: \min_Y \sum_i \left\| H_i Y_i \right\|_F^2, \quad Y^T Y = nI,

    where the rows of :math:`H_i` are the quadratic functions of the tangent coordinates, made orthogonal to the
    constant and linear ones. On a sheet isometric to a connected open domain, the null space of the functional is
    spanned by the constant and the true coordinates.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered coordinates.
    spectrum_ : Spectrum
        Eigenpairs of the sum of squared Hessians, ascending; zero for a flat sheet.
    reconstruction_error_ : float
        The sum of the eigenvalues.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, ``local_variances`` and ``held_points`` as of `LLE`.
        ``isometric``: whether the scale is true, that is, ``misfit``, how far one map is from explaining all
        neighborhoods, is at most 0.5, and ``length_error``, which three of four edges do not exceed, at most 0.15.

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

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    isometric: bool = parameter(TRUE_SCALE_TEXT, default=True)
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    reconstruction_error_: float = fitted()

    _invertible = _local_inverse = True
    _weighs_edges = False

    def _rule(self, n_points: int) -> NeighborRule:
        return super()._rule(n_points).at_least(_quadratics(self.n_components), n_points)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.n_points <= _quadratics(n_components):
            return embed_principal(sample, n_components, run)
        planes = tangents(sample, n_components, run)
        H = assemble(planes, hessian_form, sample.n_points, run) + duplicates_laplacian(sample.graph)
        affinities = graph_affinity(sample.graph, automatic_bandwidth(sample.neighbors)).matrix
        affine = aligned_eigenvectors(H, affinities, n_components, self.min_participation, run)
        return embed_aligned(sample, _at_true_scale(sample, planes, affine, self.isometric, run), run)


def _quadratics(d: int) -> int:
    """Return the dimension of the polynomials of degree at most 2 in d variables."""
    return (d + 1) * (d + 2) // 2
