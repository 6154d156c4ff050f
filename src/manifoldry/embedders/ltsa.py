"""Local tangent space alignment, and Hessian eigenmaps: the two that know what flat means."""

from __future__ import annotations

from typing import Any

from manifoldry.base import estimator
from manifoldry.base.local import LocalEmbedder, bottom
from manifoldry.geometry.tangent import (
    Tangents,
    assemble,
    duplicates_laplacian,
    hessian_form,
    tangent_form,
    tangents,
    true_scale,
)
from manifoldry.neighbors.sample import Sample
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.values import FloatArray, Spectrum

WELL_DETERMINED = 0.5
"""Misfit of the local scales up to which one affine map explains them, and the coordinates are set to true scale."""

_GIVES = ("transform", "inverse", "spectrum", "graph")


@estimator
class _TangentEmbedder(LocalEmbedder):
    """What the two share: tangent planes, a form on each, the bottom of their sum, and true scale."""

    isometric: bool = True

    def _form(self, plane: Tangents) -> FloatArray:
        return tangent_form(plane)

    def _align(self, sample: Sample, n_components: int, run: Run) -> tuple[Spectrum, FloatArray, dict[str, Any]]:
        n = sample.n_points
        planes = tangents(sample, n_components, run)
        # Duplicates lie at one place, and a form of their neighbors does not see them apart: hold them together.
        matrix = assemble(planes, self._form, n, run) + duplicates_laplacian(sample.graph)
        spectrum, affine = bottom(matrix, n_components, run)
        with run.stage("true scale"):
            to_scale, misfit = true_scale(planes, affine)
        well = bool(self.isometric and misfit <= WELL_DETERMINED)
        return spectrum, affine @ to_scale if well else affine, {"isometric": well, "misfit": misfit}


@register(
    family="local",
    problem="eigen",
    papers=("zhang2004",),
    gives=_GIVES,
    keeps="local distances: neighborhoods up to rigid motions, true to scale",
    loses="accuracy where neighborhoods are strongly curved or noisy",
    use_when="a sheet that is locally flat, with holes or of any shape; the first local method to try",
    fails_when="fewer neighbors than the dimension needs, noise as large as the neighborhoods, closed surfaces",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class LTSA(_TangentEmbedder):
    r"""Local tangent space alignment: coordinates that are affine in every tangent plane.

    .. math:: \min_Y \sum_i \left\| H Y_i - V_i V_i^T H Y_i \right\|_F^2 , \quad Y^T Y = nI,

    where :math:`Y_i` are the coordinates of point i and its neighbors and :math:`V_i` their unit tangent coordinates
    (local principal components). The minimizer is the truth up to an affine map; the least-squares map from it to
    the tangent coordinates of all neighborhoods makes that map a rigid one.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Neighbors of each point; "auto" is 10, unless a radius is given. Fewer than the method needs are raised.
    radius : float, optional
        Neighbors are all points at most this far; with ``n_neighbors`` too, at most that many of them.
    isometric : bool
        Set the coordinates to true scale where that is well determined; False leaves Y'Y = nI.
    metric, metric_params
        As in scikit-learn, or "precomputed" for pairwise distances.
    search, disconnected
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered coordinates.
    spectrum_ : Spectrum
        Eigenpairs of the alignment matrix, ascending; zero for a flat sheet.
    graph_, diagnostics_
        As in `LLE`; ``isometric`` tells whether the scale is true, ``misfit`` how well one map explains all
        neighborhoods.

    Notes
    -----
    References: zhang2004.

    Examples
    --------
    >>> from manifoldry import LTSA, datasets, quality
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> Y = LTSA(n_neighbors=10).fit_transform(roll.X)
    >>> bool(quality.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    def _least_neighbors(self, d: int) -> int:
        return d + 1


@register(
    family="local",
    problem="eigen",
    papers=("donoho2003",),
    gives=_GIVES,
    keeps="local distances of any sheet isometric to an open connected domain, holes or not",
    loses="robustness: it estimates second derivatives",
    use_when="a clean, well-sampled sheet of two or three dimensions, not convex",
    fails_when="sparse or noisy samples; more than about four dimensions",
    cost="as LTSA, with at least (d + 1)(d + 2) / 2 neighbors",
    test_params={"n_components": 2, "n_neighbors": 7},
)
@estimator
class HessianEigenmaps(_TangentEmbedder):
    r"""Hessian eigenmaps: functions without curvature in every tangent plane.

    .. math:: \min_Y \sum_i \left\| H_i Y_i \right\|_F^2, \quad Y^T Y = nI,

    where the rows of :math:`H_i` are the quadratic functions of the tangent coordinates, made orthogonal to the
    constant and linear ones. On a sheet isometric to a connected open domain, the null space of the functional is
    spanned by the constant and the true coordinates.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Neighbors of each point; "auto" is 10 or as many as the dimension needs, (d + 1)(d + 2) / 2.
    radius : float, optional
        Neighbors are all points at most this far; with ``n_neighbors`` too, at most that many of them.
    isometric, metric, metric_params, search, disconnected
        As in `LTSA`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_, spectrum_, graph_, diagnostics_
        As in `LTSA`.

    Notes
    -----
    References: donoho2003.

    Examples
    --------
    >>> from manifoldry import HessianEigenmaps, datasets, quality
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> Y = HessianEigenmaps(n_neighbors=10).fit_transform(roll.X)
    >>> bool(quality.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    def _least_neighbors(self, d: int) -> int:
        return (d + 1) * (d + 2) // 2

    def _form(self, plane: Tangents) -> FloatArray:
        return hessian_form(plane)
