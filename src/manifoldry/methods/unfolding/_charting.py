"""Manifold charting: local charts with soft memberships, aligned by affine maps in closed form."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Fraction, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import dense_rows
from manifoldry._numerics.patches.advice import chart_remarks, charting_advice
from manifoldry._numerics.patches.affine import AlignedCharts, align_charts
from manifoldry._numerics.patches.atlas import ChartOptions
from manifoldry._numerics.patches.layout import CenteredPatchInverse, CenteredPatchMap, PatchMap
from manifoldry._numerics.patches.overlaps import check_connected_patches
from manifoldry._numerics.patches.restarts import SelectedLayout, Trial, best_restart, resolve_n_init, sample_graph
from manifoldry.data._chunked.sampling import drawn_rows
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport, bounded_size
from manifoldry.methods._base._texts import PARTICIPATION_TEXT, TRUE_SCALE_TEXT
from manifoldry.methods.unfolding._patches import PatchEmbedder

MAX_CHARTED_SAMPLE = 20_000  # points from which charts are fitted and aligned; the others are only mapped by them


@register(
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
class ManifoldCharting(PatchEmbedder):
    r"""Unfold a surface with little noise by local charts and affine maps, with a smooth map for new points.

    Manifold charting aligns local charts with soft memberships by affine maps:

    .. math:: \min_G \tfrac12 \sum_i \sum_{jk} p_j(x_i)\, p_k(x_i)
              \left\| G_j \tilde u_j(x_i) - G_k \tilde u_k(x_i) \right\|^2,
              \qquad y(x) = \sum_k p_k(x)\, G_k \tilde u_k(x), \quad Y^T Y = nI

    where :math:`\tilde u_k = [u_k; 1]` are the coordinates of a point in chart k and :math:`p_k` its memberships, which
    sum to 1. With functions :math:`\phi_{ka}` that span the affine ones on each chart and are orthonormal under
    :math:`p_k`, and :math:`B = [p_k(x_i)\, \phi_{ka}(x_i)]`, the solution is an eigenproblem of the number of charts
    times d + 1: the lowest eigenvectors of :math:`I - B^T B` after the constant, on which all charts agree. On a flat
    sheet the eigenvalues of the constant and of d coordinates are zero.

    The charts are the patches of `IPA`: Voronoi cells, expanded over their borders, with memberships that fall to zero
    at the border; coordinates are principal components, corrected for curvature. The posterior probabilities of the
    paper's mixture of Gaussians are nearly 0 or 1 on a surface with little noise, so that hardly any points would
    connect charts. The layout is determined up to an affine map, which the scale of the charts settles if they agree.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The coordinates, in their principal axes if they are to scale.
    spectrum_ : Spectrum
        Eigenvalues of the alignment, ascending, without the constant; vectors are the coordinates of unit length.
    alignment_error_ : float
        The minimum of the sum above, per point, with Y'Y = nI: :math:`\sum_j \lambda_j / (1 - \lambda_j)`.
    patches_, mean_, n_patches_, sample_, residuals_, disagreement_, graph_
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

    alignment_error_: float = fitted()

    _chunk_support = ChunkSupport("sample", MAX_CHARTED_SAMPLE)

    def _embed(self, X: Any, run: Run) -> Embedding:
        X = dense_rows(X, run)
        sample = drawn_rows(len(X), bounded_size(MAX_CHARTED_SAMPLE, X.shape[1]), run.rng("sampled rows"))
        rows = np.asarray(X[sample], dtype=float)
        origin = rows.mean(axis=0)
        rows = rows - origin
        dimension = intrinsic_dimension(rows)
        chosen = self._search(rows, dimension.value, run)
        aligned, atlas = chosen.layout, chosen.layout.atlas
        charts, placed = atlas.charts, aligned.maps
        check_connected_patches(placed.n_components, self.disconnected)
        extension = CenteredPatchMap(origin, PatchMap(atlas.cover, charts, placed))
        odds = aligned.spectrum.values / np.maximum(1 - aligned.spectrum.values, np.finfo(float).tiny)
        return Embedding(
            aligned.coordinates if len(sample) == len(X) else extension(X, run),
            graph=chosen.graph,
            spectrum=aligned.spectrum,
            extension=extension,
            inverse=CenteredPatchInverse(origin, aligned.inverse(self.overlap)),
            notes={
                **aligned.notes,
                "dimension": dimension,
                "components": placed.n_components,
                "memberships": atlas.members.mean_number(),
                "contradictions": chosen.scores,
                "advice": charting_advice(chosen, dimension),
                "remarks": chart_remarks(charts),
            },
            fitted={
                "patches_": atlas,
                "mean_": origin,
                "n_patches_": charts.n_patches,
                "sample_": sample,
                "residuals_": charts.residuals,
                "disagreement_": aligned.disagreement,
                "alignment_error_": float(np.maximum(odds, 0.0).sum()),
            },
        )

    def _search(self, rows: FloatArray, dimension: float, run: Run) -> SelectedLayout[AlignedCharts]:
        """Return the alignment that the points contradict least."""
        participation, isometric = self.min_participation, self.isometric
        charts = ChartOptions(min(self.n_components, rows.shape[1]), self.chart, None, self.overlap, even=False)
        with run.stage("patches"):
            graph, index = sample_graph(rows, self._neighbor_rule(len(rows)), None, run)

        def make(trial: Trial) -> AlignedCharts:
            with run.stage("patches"):
                atlas, _ = self._patch_rule.atlas(rows, trial, index, dimension, charts, run)
            with run.stage("alignment"):
                return align_charts(atlas, trial.graph, self.n_components, run, participation, isometric)

        first = make(Trial(0, graph))
        n_init = 1 if first.atlas.no_surface else resolve_n_init(self.n_init, len(rows))
        return best_restart(first, make, lambda aligned: aligned.scaled, rows, graph, n_init, run)
