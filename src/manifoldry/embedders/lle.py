"""Locally linear embedding: keep the weights by which neighbors reconstruct each point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scipy.sparse import csr_array

from manifoldry import check
from manifoldry.base import estimator
from manifoldry.base.local import LocalEmbedder, bottom
from manifoldry.geometry.neighborhoods import sum_blocks
from manifoldry.geometry.tangent import duplicates_laplacian
from manifoldry.geometry.weights import alignment, modified_blocks, reconstruction
from manifoldry.neighbors.graph import closed_groups
from manifoldry.neighbors.sample import Sample
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.values import FloatArray, Spectrum

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 6}


@register(
    family="local",
    problem="eigen",
    papers=("roweis2000", "saul2003"),
    gives=_GIVES,
    keeps="how each point lies among its neighbors, up to rotation, shift and scale",
    loses="sizes: coordinates are scaled to unit variance",
    use_when="a smooth, evenly sampled sheet whose domain need not be convex",
    fails_when="uneven sampling, closed surfaces, noise; regularization bends flat sheets",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params=_TEST_PARAMS,
)
@estimator
class LLE(LocalEmbedder):
    r"""Locally linear embedding.

    .. math:: \min_Y \sum_i \Big\| y_i - \sum_{j \in N(i)} w_{ij} y_j \Big\|^2, \quad
              \tfrac1n Y^T Y = I,\; \sum_i y_i = 0 ,

    with the weights that reconstruct the points themselves best, :math:`\sum_j w_{ij} = 1`: the bottom eigenvectors of
    :math:`(I - W)^T (I - W)` beside the constant.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Neighbors of each point; "auto" is 10, unless a radius is given. Fewer than the method needs are raised.
    radius : float, optional
        Neighbors are all points at most this far; with ``n_neighbors`` too, at most that many of them.
    reg : float
        Regularization of the weights, relative to the trace of the local Gram matrix. Towards 0 a flat sheet is
        recovered exactly.
    metric, metric_params
        As in scikit-learn, or "precomputed" for pairwise distances.
    search : {"auto", "exact", "approximate"}
        How neighbors are found.
    disconnected : {"bridge", "apart", "largest", "raise"}
        What to do with a graph in pieces; apart by default, so that each piece keeps its shape.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    spectrum_ : Spectrum
        The eigenpairs, ascending; their sum times n is the reconstruction error of the embedding.
    graph_, diagnostics_
        As in `Isomap`; ``local_variances`` tells what 1, 2, ... dimensions leave of a neighborhood's variance.

    Notes
    -----
    References: roweis2000, saul2003.

    Examples
    --------
    >>> from manifoldry import LLE, datasets
    >>> LLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    reg: float = 0.001

    _nonnegative = False

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.number("reg", self.reg, 0.0)

    def _align(self, sample: Sample, n_components: int, run: Run) -> tuple[Spectrum, FloatArray, dict[str, Any]]:
        # Where lists lead into several groups that none leads out of, each group would collapse to a point; the
        # undirected graph, which is connected, has no such groups.
        closed = closed_groups(sample.neighbors)
        lists = sample.neighbors if closed == 1 else sample.graph
        # A duplicate would take all the weight and tell nothing: it is left out, and held in place instead.
        M = self._matrix(replace(sample, neighbors=lists.without_duplicates()), n_components, run)
        return *bottom(M + duplicates_laplacian(sample.graph), n_components, run), {"closed_groups": closed}

    def _matrix(self, sample: Sample, n_components: int, run: Run) -> csr_array:  # noqa: ARG002
        return alignment(reconstruction(sample, self.reg, run, nonnegative=self._nonnegative))


@register(
    family="local",
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
class NonnegativeLLE(LLE):
    r"""Locally linear embedding with weights that are shares: :math:`w_{ij} \ge 0`, :math:`\sum_j w_{ij} = 1`.

    Each point is projected onto the convex hull of its neighbors; then as `LLE`.

    Parameters
    ----------
    n_components, n_neighbors, radius, reg, metric, metric_params, search, disconnected
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_, spectrum_, graph_, diagnostics_
        As in `LLE`.

    Notes
    -----
    References: roweis2000, saul2003.

    Examples
    --------
    >>> from manifoldry import NonnegativeLLE, datasets
    >>> NonnegativeLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    _nonnegative = True


@register(
    family="local",
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
class ModifiedLLE(LLE):
    r"""Modified locally linear embedding: as many weight vectors per point as its neighborhood has spare directions.

    .. math:: \min_Y \sum_i \sum_{l=1}^{s_i} \Big\| y_i - \sum_j w^{(l)}_{ij} y_j \Big\|^2, \quad \tfrac1n Y^T Y = I .

    The weights of point i span the :math:`s_i` directions in which its neighborhood hardly varies, shifted by the
    regularized weights of `LLE`; where LLE's weights are one choice among many, these are all of them.

    Parameters
    ----------
    n_components, n_neighbors, radius, reg, metric, metric_params, search, disconnected
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_, spectrum_, graph_, diagnostics_
        As in `LLE`.

    Notes
    -----
    References: zhang2006.

    Examples
    --------
    >>> from manifoldry import ModifiedLLE, datasets
    >>> ModifiedLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    def _matrix(self, sample: Sample, n_components: int, run: Run) -> csr_array:
        return sum_blocks(modified_blocks(sample, n_components, self.reg, run), sample.n_points)
