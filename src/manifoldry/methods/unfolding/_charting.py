"""Manifold charting: local charts with soft memberships, aligned by affine maps in closed form."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Fraction, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import dense_rows
from manifoldry._numerics.patches.advice import charting_advice, flatness_remarks
from manifoldry._numerics.patches.affine import AlignedCharts, AlignmentOptions, align_charts
from manifoldry._numerics.patches.atlas import Atlas, ChartOptions, PatchRule
from manifoldry._numerics.patches.layout import CenteredPatchInverse, CenteredPatchMap, PatchMap
from manifoldry._numerics.patches.overlaps import refuse_apart
from manifoldry._numerics.patches.restarts import Chosen, Trial, least_contradicted, resolve_n_init, sample_graph
from manifoldry.data._chunked.sampling import drawn_rows
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit, bounded_size
from manifoldry.methods._base._texts import PARTICIPATION_TEXT, PATCH_NEIGHBORS_TEXT, RADIUS_TEXT, TRUE_SCALE_TEXT

MAX_CHARTED_SAMPLE = 20_000
"""Points from which charts are fitted and aligned; the others are only mapped by them."""

N_CHARTING_NEIGHBORS = 6
"""Fewer neighbors than elsewhere, and so fewer short circuits: the graph only tells what is connected."""


@register(
    family="unfolding",
    problem="eigen",
    papers=("brand2003", "teh2003"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="a flat sheet up to an affine map, and true to scale where charts agree on one",
    loses="what single charts do not hold: gaps, and directions beyond n_components",
    use_when="the data is a surface with little noise, and new points need a smooth map in closed form",
    fails_when="the data is closed or not a surface of n_components dimensions (digits), or charts join two sheets",
    cost="O(n d) per number of charts tried, and one eigenproblem of charts (d + 1) columns: rolls of 20,000 in 2 s",
    test_params={"n_components": 2, "n_neighbors": 6, "n_init": 1},
)
@estimator
class ManifoldCharting(Embedder):
    r"""Unfold a surface with little noise by local charts and affine maps, with a smooth map for new points.

    Manifold charting aligns local charts with soft memberships by affine maps:

    .. math:: \min_G \tfrac12 \sum_i \sum_{jk} p_j(x_i)\, p_k(x_i)
              \left\| G_j \tilde u_j(x_i) - G_k \tilde u_k(x_i) \right\|^2,
              \qquad y(x) = \sum_k p_k(x)\, G_k \tilde u_k(x), \quad Y^T Y = nI

    where :math:`\tilde u_k = [u_k; 1]` are the coordinates of a point in chart k and :math:`p_k` its memberships, which
    sum to 1. With functions :math:`\phi_{ka}` that span the affine ones on each chart and are orthonormal under
    :math:`p_k`, and :math:`B = [p_k(x_i)\, \phi_{ka}(x_i)]`, the solution is an eigenproblem of the number of charts
    times d + 1: the lowest eigenvectors of :math:`I - B^T B` after the constant, on which all charts agree. On a flat
    sheet d + 1 eigenvalues are zero, the constant and d coordinates; those of other surfaces are small as long as
    charts are flat.

    The charts are the patches of `IPA`: Voronoi cells, expanded over their borders, with memberships that fall to zero
    at the border; coordinates are principal components, corrected for curvature. Brand's memberships are the posterior
    probabilities of a mixture of Gaussians. On a surface with little noise these are nearly 0 or 1 (a point of a roll
    is in 1.03 charts on average, here in 2), so that hardly any points connect charts, and whether a roll is unfolded
    is left to chance. Gaussians also ignore the neighbor graph, which keeps charts on one sheet.

    `IPA` moves charts rigidly, which needs a semidefinite program and keeps scale. Affine maps need one eigenproblem
    and leave the layout undetermined up to an affine map, which the scale of the charts settles if they agree on one.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The coordinates, in their principal axes if they are to scale.
    spectrum_ : Spectrum
        Eigenvalues of the alignment, ascending, without the constant; vectors are the coordinates of unit length.
    alignment_error_ : float
        The minimum of the sum above, per point, with Y'Y = nI: :math:`\sum_j \lambda_j / (1 - \lambda_j)`.
    disagreement_ : ndarray of shape (n_samples,)
        Root mean square distance of a point's images in its charts from their mean, in the units of the embedding.
    residuals_ : ndarray of shape (n_patches_,)
        Root mean square distance of each chart's points from it, relative to the chart's spread.
    patches_ : Atlas
        Memberships, charts and overlaps, of the rows about ``mean_``.
    mean_ : ndarray of shape (n_features,)
        Mean of the rows that charts were fitted to.
    n_patches_ : int
        Number of charts.
    graph_ : NeighborGraph
        The graph of the points ``sample_``, without the edges that restarts removed.
    sample_ : ndarray
        Rows to which charts were fitted, at most 20,000.
    diagnostics_ : dict
        ``isometric``: whether the scale is true: ``misfit``, how far one map is from explaining all charts, is at most
        0.5, and ``length_error``, which three of four edges do not exceed, at most 0.15; ``memberships``: the mean
        number of charts of a point, as the exponential of the entropy; ``dimension``, ``contradictions``, ``advice``.

    See Also
    --------
    IPA : rigid motions of patches, true to scale.
    LTSA : one tangent plane per point.

    Examples
    --------
    >>> from manifoldry import ManifoldCharting, datasets, metrics
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> Y = ManifoldCharting().fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    n_components: PositiveInt = parameter("Dimension d of charts and embedding.", default=2, kw_only=False)
    n_patches: PositiveInt | Literal["auto"] = parameter(
        'Number of charts; "auto" doubles it until charts keep the distances between neighbors. Patches that are not '
        "connected in the neighbor graph are divided, so there may be more.",
        default="auto",
    )
    chart: Literal["curved", "flat"] = parameter(
        "Local coordinates: principal components corrected for curvature to arc length, or principal components "
        r"alone, :math:`u_k(x) = W_k^T (x - \mu_k)`.",
        default="curved",
    )
    overlap: Positive = parameter(
        "Width of the overlap of charts, as a fraction of the squared distance between their centers; it is "
        "increased where charts would not be connected. Wide overlaps average noise, but make charts less flat.",
        default=0.8,
    )
    isometric: bool = parameter(TRUE_SCALE_TEXT, default=True)
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    n_init: PositiveInt | Literal["auto"] = parameter(
        'Maximum number of fits: charts are computed again if the points contradict the layout. "auto" is 16 for up '
        "to 5,000 points, otherwise 1.",
        default="auto",
    )
    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(PATCH_NEIGHBORS_TEXT, default="auto")
    radius: Positive | None = parameter(RADIUS_TEXT, default=None)
    disconnected: Literal["apart", "raise"] = parameter(
        "Components of the graph of charts are laid out side by side, or raise an error.", default="apart"
    )

    patches_: Atlas = fitted()
    mean_: FloatArray = fitted()
    n_patches_: int = fitted()
    sample_: IntArray = fitted()
    residuals_: FloatArray = fitted()
    disagreement_: FloatArray = fitted()
    alignment_error_: float = fitted()

    _invertible = True
    _blockwise = BlockFit("sample", MAX_CHARTED_SAMPLE)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._neighbor_rule(n_points)
        PatchRule(self.n_patches).refuse_too_many(self.n_components, n_points)

    def _embed(self, X: Any, run: Run) -> Embedding:
        X = dense_rows(X, run)
        sample = drawn_rows(len(X), bounded_size(MAX_CHARTED_SAMPLE, X.shape[1]), run.rng("sampled rows"))
        rows = np.asarray(X[sample], dtype=float)
        origin = rows.mean(axis=0)
        rows = rows - origin
        dimension = intrinsic_dimension(rows)
        chosen = self._search(rows, dimension.value, run)
        aligned = chosen.layout
        charts, placed, members = aligned.atlas.charts, aligned.placed, aligned.atlas.members
        refuse_apart(placed.n_components, self.disconnected)
        place = CenteredPatchMap(origin, PatchMap(aligned.atlas.cover, charts, placed))
        whole = len(sample) == len(X)
        odds = aligned.spectrum.values / np.maximum(1 - aligned.spectrum.values, np.finfo(float).tiny)
        return Embedding(
            aligned.coordinates if whole else place(X, run),
            graph=chosen.graph,
            spectrum=aligned.spectrum,
            extension=place,
            inverse=CenteredPatchInverse(origin, aligned.inverse(self.overlap)),
            notes={
                **aligned.notes,
                "dimension": dimension,
                "components": placed.n_components,
                "memberships": members.mean_number(),
                "contradictions": chosen.scores,
                "advice": charting_advice(chosen, dimension),
                "remarks": flatness_remarks(charts.residuals),
            },
            fitted={
                "patches_": aligned.atlas,
                "mean_": origin,
                "n_patches_": charts.n_patches,
                "sample_": sample,
                "residuals_": charts.residuals,
                "disagreement_": aligned.disagreement,
                "alignment_error_": float(np.maximum(odds, 0.0).sum()),
            },
        )

    def _search(self, rows: FloatArray, dimension: float, run: Run) -> Chosen[AlignedCharts]:
        """Return the alignment that the points contradict least."""
        options = AlignmentOptions(self.n_components, self.min_participation, self.isometric)
        charts = ChartOptions(min(self.n_components, rows.shape[1]), self.chart, None, self.overlap, even=False)
        with run.stage("patches"):
            graph, index = sample_graph(rows, self._neighbor_rule(len(rows)), None, run)

        def make(trial: Trial) -> AlignedCharts:
            with run.stage("patches"):
                atlas, _ = PatchRule(self.n_patches).atlas(rows, trial, index, dimension, charts, run)
            with run.stage("alignment"):
                return align_charts(atlas, trial.graph, options, run)

        first = make(Trial(0, graph))
        n_init = 1 if first.atlas.no_surface else resolve_n_init(self.n_init, len(rows))
        return least_contradicted(first, make, lambda aligned: aligned.scaled, rows, graph, n_init, run)

    def _neighbor_rule(self, n_points: int) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius).resolve(n_points, N_CHARTING_NEIGHBORS)
