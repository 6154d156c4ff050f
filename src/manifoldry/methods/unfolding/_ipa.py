"""Isometric patch alignment: overlapping patches in flat charts, aligned by rigid motions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np

from manifoldry._core.parameters import ClusterEstimator, Described, Fraction, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray
from manifoldry._core.warnings import EmbeddingWarning, warn
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import dense, dense_rows
from manifoldry._numerics.patches.atlas import Atlas, ChartOptions, History, PatchRule
from manifoldry._numerics.patches.layout import (
    BlockOverlaps,
    PatchLayout,
    chart_points,
    lay_out,
    layout_without_surface,
    place_points,
)
from manifoldry._numerics.patches.overlaps import merged_overlaps, refuse_apart
from manifoldry._numerics.patches.restarts import Trial, least_contradicted, resolve_n_init, sample_graph
from manifoldry.data._chunked import BlockSample, RowBlocks
from manifoldry.data._chunked.sampling import drawn_rows
from manifoldry.graph._sample import Targets
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit, bounded_size
from manifoldry.methods._base._incremental import IncrementalMixin
from manifoldry.methods._base._targets import given_targets
from manifoldry.methods._base._texts import PATCH_NEIGHBORS_TEXT, RADIUS_TEXT, TARGET_METRIC_TEXT, TARGET_WEIGHT_TEXT
from manifoldry.methods.unfolding._ipa_growth import (
    FoundLayout,
    PatchGrowth,
    agrees,
    can_grow,
    cell_radii,
    coordinates_of,
    grown_layout,
)

MAX_SAMPLE = 20_000
"""Points from which patches and charts are estimated; the others are only mapped by them."""

N_AUTO_NEIGHBORS = 6
"""Fewer neighbors than elsewhere, and so fewer short circuits: the graph only tells what is connected."""

SAMPLE_PER_PATCH = 50
"""Points of the sample per patch, where many patches are asked for."""

AUTO_RESIDUAL_SHARE = 0.05
"""Share of a patch's variance that its chart may leave out with ``patch_components="auto"``."""


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("khajehpour2013", "deridder2003"),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="all distances inside every patch, at their true scale",
    loses="what n_components dimensions leave out; components of the patch graph are unrelated",
    use_when="the data is a surface of any size that can be unrolled, also with holes, noise or uneven sampling",
    fails_when="patches cannot be flat (spheres), or there are too few points for overlapping patches",
    cost="O(n) time beyond a sample of 20,000 points, a million points in seconds; memory for points and result",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class IPA(IncrementalMixin, Embedder):
    r"""Unroll a surface of any size, also one with holes or noise, by rigid motions of overlapping flat patches.

    Isometric patch alignment covers the data by overlapping patches. Each patch gets flat coordinates from its own
    chart :math:`f_i`, and rigid motions of the patches minimize the distances between the images of shared points:

    .. math:: \min_{R_i^\top R_i = I,\; t_i} \sum_{i \sim j} \frac{1}{n_{ij}} \sum_{x \in C_i \cap C_j}
              |R_i f_i(x) + t_i - R_j f_j(x) - t_j|^2 .

    With :math:`A = R^\top R` and the translations eliminated this is a semidefinite program,
    :math:`\min \operatorname{tr}(A K),\; A \succeq 0,\; A_{ii} = I`. It is solved in low rank by Newton's method
    from the lowest eigenvectors of K; the rank is raised while the dual matrix has a negative eigenvalue, and the dual
    value bounds the distance from the global optimum. The embedding of a point is the mean of its images.

    It is proven that no other alignment of these patches matches better, not that the surface is unfolded: patches that
    contain points of two sheets match best in a folded layout. If the points contradict the layout, other patches are
    tried; see ``n_init``. Overlaps too thin to distinguish the two sides of a hinge are left out of the sum if other
    overlaps determine both patches, which the paper does not do; patches that no overlap determines are widened, or
    follow their neighbors.

    With more than 20,000 points (or 50 per patch, if that is more), patches, charts, axes and spectrum are computed
    from a random sample, and the overlaps that align the patches from all points. Chunked data is fitted in the same
    way, with one pass for the sample and one for the overlaps: the result is the same as in memory. Targets ``y``
    change who is a neighbor, so that patches are divided between known classes; distances inside a patch remain those
    of the points.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The coordinates, at the scale of the data; for chunked data those of the sample.
    certificate_ : Certificate
        Certificate of the matching error: no alignment of these patches has a smaller one, if ``optimal``. It does not
        prove that the surface is unfolded, which depends on the patches. Missing with one patch.
    trace_ : Trace
        Matching error per iteration, of the largest component of the patch graph.
    spectrum_ : Spectrum
        Spectrum of the unfolded sample in all dimensions of the alignment; those beyond the first n_components are
        lost.
    patches_ : Atlas
        Cover, charts and overlaps, of the rows about ``mean_``.
    mean_ : ndarray of shape (n_features,)
        Mean of the rows that patches were fitted to.
    disagreement_ : ndarray of shape (n_samples,)
        Root mean square distance of a point's images from their mean; for chunked data those of the sample.
    residuals_ : ndarray of shape (n_patches_,)
        Root mean square distance of each patch's points from its chart, relative to the patch's spread.
    graph_ : NeighborGraph
        The graph of the points ``sample_``, without the edges that restarts removed.
    distortion_ : ndarray of shape (graph_.n_edges,)
        Relative change of the length of each edge of ``graph_`` in the embedding.
    n_patches_ : int
        Number of patches.
    sample_ : ndarray
        Rows of ``embedding_`` from which patches and charts were estimated; for chunked data all of them, and
        ``sampled_rows_`` are their numbers among all rows.
    diagnostics_ : dict
        ``advice`` on problems; ``dimension``: the measured dimension of the data; ``patch_components``: the dimension
        of the charts; ``edge_changes``: the numbers of patches tried and the root mean square change of edge lengths
        with each; ``contradictions``: how much each layout tried was contradicted, see ``n_init``; ``cut_edges``: the
        number of edges removed from ``graph_`` for that reason; ``layout``: see ``patch_components``.

    See Also
    --------
    TesseraMap : disjoint rigid clusters, and a kernel map for new points.
    ManifoldCharting : affine maps of patches, by one eigenproblem.
    Isomap : one convex, evenly sampled sheet.
    LDLC : a clustering into such patches.

    Examples
    --------
    >>> from manifoldry import IPA, datasets
    >>> roll = datasets.swiss_roll(2000, hole=True)
    >>> ipa = IPA(n_components=2).fit(roll.X)
    >>> ipa.certificate_.optimal
    True
    """

    n_components: PositiveInt = parameter("Dimension r of the embedding.", default=2, kw_only=False)
    n_patches: PositiveInt | Literal["auto"] = parameter(
        'Number of patches; "auto" doubles it until the charts keep the distances between neighbors. Patches that '
        "are not connected in the neighbor graph are divided, so there may be more.",
        default="auto",
    )
    clustering: Literal["kmeans"] | ClusterEstimator = parameter(
        "Clustering of the data into patches: Voronoi cells of k-means centers, or the labels of an estimator's "
        "``fit_predict`` (`LDLC` for complex data), expanded over their borders along the neighbor graph. For "
        "chunked data it clusters the sample, and other rows belong to the patches of the nearest sampled row.",
        default="kmeans",
    )
    patches: Annotated[Any, Described("labels of all points, or the members of each patch")] | None = parameter(
        "Given patches: a label per point, expanded over the borders; or the members of each patch, which must "
        "overlap and cover all points. Not for chunked data.",
        default=None,
    )
    chart: Literal["curved", "flat", "geodesic"] = parameter(
        "Local coordinates: principal components corrected for curvature to arc length; principal components; or "
        "classical scaling of geodesic distances inside the patch.",
        default="curved",
    )
    patch_components: PositiveInt | Literal["auto"] | None = parameter(
        'Dimension of the charts; "auto" chooses it for each patch from its variance, up to twice n_components. None '
        "is n_components if patches are flat in that many dimensions. If they are not, and no patches are given, it "
        "is compared with the measured dimension of the data (at most 8) and with one patch of all points, by "
        "principal components or by geodesic distances (Isomap of at most 1,000 points with 10 neighbors, from which "
        "all others are reconstructed). The layout that keeps neighbors best (trustworthiness of 1,000 points) is "
        'returned, and ``diagnostics_["layout"]`` is "patches", "PCA" or "Isomap".',
        default=None,
    )
    overlap: Positive = parameter(
        "Width of the overlap, as a fraction of the squared distance between centers; it is increased where patches "
        "would not be connected.",
        default=0.3,
    )
    blend: Literal["smooth", "mean"] = parameter(
        "Weights of the images of a point: decreasing to zero at the border of a patch, which makes the map "
        "continuous, or equal, as in the paper.",
        default="smooth",
    )
    n_init: PositiveInt | Literal["auto"] = parameter(
        'Maximum number of fits; "auto" is 16 for up to 5,000 points, otherwise 1. A layout is contradicted if it '
        "brings points closer together than they are in the data, tears neighbors apart, or changes the lengths "
        "between neighbors of a patch. Then patches are computed again without the short circuits of the graph, from "
        "other centers and in other numbers. Given patches, and data that is not a surface, are laid out once.",
        default="auto",
    )
    tol: Positive = parameter(
        "Gap, relative to the matching error, up to which the alignment of the patches counts as proven optimal.",
        default=1e-4,
    )
    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(PATCH_NEIGHBORS_TEXT, default="auto")
    radius: Positive | None = parameter(RADIUS_TEXT, default=None)
    disconnected: Literal["apart", "raise"] = parameter(
        "Components of the patch graph are laid out side by side, or raise an error.", default="apart"
    )
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    patches_: Atlas = fitted()
    mean_: FloatArray = fitted()
    n_patches_: int = fitted()
    sample_: IntArray = fitted()
    residuals_: FloatArray = fitted()
    disagreement_: FloatArray = fitted()
    distortion_: FloatArray = fitted()

    _invertible = True
    _blockwise = BlockFit("whole", MAX_SAMPLE)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._neighbor_rule(n_points)
        self._patch_rule.refuse_too_many(self.n_components, n_points)

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        targets = given_targets(y, X.shape[0], self.target_weight, self.target_metric)
        X = dense_rows(X, run)
        sample = self._draw_sample(X.shape, run)
        part = None if targets is None else targets.part(sample)
        found = self._search(np.asarray(X[sample], dtype=float), part, len(X), run)
        if len(sample) == len(X):
            return self._pack(sample, found, targets)
        with run.stage("charts"):
            charted, overlaps = chart_points(X, found.atlas, found.origin, run)
        found = found.stitched_by(overlaps, self.n_components, run)
        with run.stage("unfolding"):
            places, disagreement = place_points(charted, found.layout.unfolded.stitched, run)
        packed = self._pack(sample, found, targets)
        return replace(packed, coordinates=places, fitted={**packed.fitted, "disagreement_": disagreement})

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Add rows: those near a patch enter its overlaps, others form new patches; then all patches are placed again.

        Old charts stay as they are. What cannot grow so (see the page on rows that come later) is fitted again.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_new, n_features)
            The rows to add; the first call is a fit. All rows are kept.
        y : ignored
            For pipelines.

        Returns
        -------
        self : estimator
            With the coordinates of all rows so far, in the order they came.
        """
        return self._update(X)

    def _kept_rows(self) -> Any:
        growth = getattr(self, "_growth", None)
        if growth is None and hasattr(self, "embedding_"):
            warn(
                f"{type(self).__name__}.fit kept none of its {len(self.embedding_)} rows, so partial_fit begins anew "
                "with these: to join all of them call it with every batch, from the first on.",
                EmbeddingWarning,
            )
        return None if growth is None else growth.rows

    def _embed_grown(self, X: Any, before: PatchGrowth | None, run: Run) -> Embedding:
        rows, options = np.asarray(dense_rows(X, run), dtype=float), self._chart_options(X.shape[1])
        found = None
        small = not self._patch_rule.given and len(rows) <= bounded_size(self._sample_size(), rows.shape[1])
        if before is not None and small and can_grow(self.patches_, options) and not self.diagnostics_["cut_edges"]:
            centered = rows - self.mean_
            graph, _ = sample_graph(centered, self._neighbor_rule(len(rows)), None, run)
            found = grown_layout(self, before, centered, graph, options, run)
        if found is None:
            embedding = self._embed(X, run)
            radii = cell_radii(rows - embedding.fitted["mean_"], embedding.fitted["patches_"].cover, run)
        else:
            embedding, radii = self._pack(np.arange(len(rows)), found[0]), found[1]
        growth = PatchGrowth(rows, radii, self._settings())
        return replace(embedding, fitted={**embedding.fitted, "_growth": growth})

    def _embed_blocks(self, blocks: RowBlocks, sample: BlockSample, run: Run) -> Embedding:
        targets = given_targets(sample.targets, len(sample.numbers), self.target_weight, self.target_metric)
        found = self._search(dense(sample.rows), targets, sample.n_rows, run)
        with run.stage("charts"):
            work = BlockOverlaps(found.atlas.cover, found.atlas.charts, found.origin)
            overlaps = blocks.reduce(work, merged_overlaps, run)
        return self._pack(np.arange(len(sample.numbers)), found.stitched_by(overlaps, self.n_components, run), targets)

    def _pack(self, sample: IntArray, found: FoundLayout, targets: Targets | None = None) -> Embedding:
        refuse_apart(found.layout.unfolded.stitched.n_components, self.disconnected)
        packed = found.embedding(sample, self.n_components, self.overlap, self.tol)
        known = {} if targets is None else {"known_targets": int(targets.known.sum())}
        return replace(packed, notes={**packed.notes, **known})

    def _search(self, rows: FloatArray, targets: Targets | None, n_points: int, run: Run) -> FoundLayout:
        """Return the patches of the sample that its points contradict least, laid out by themselves."""
        origin = rows.mean(axis=0)
        rows = rows - origin  # far from zero, distances to centers would lose their digits
        with run.stage("patches"):
            graph, index = sample_graph(rows, self._neighbor_rule(len(rows)), targets, run)
            dimension = intrinsic_dimension(rows)
        rule, options = self._patch_rule, self._chart_options(rows.shape[1])

        def make(trial: Trial) -> tuple[PatchLayout, History]:
            with run.stage("patches"):
                atlas, history = rule.atlas(rows, trial, index, dimension.value, options, run)
            return lay_out(atlas, self.n_components, run), history

        first, history = make(Trial(0, graph))
        no_surface = first.atlas.no_surface
        if no_surface and rule.free and self.patch_components is None:
            first = layout_without_surface(rows, graph, int(dimension), first, options, run, whole=targets is None)
        n_init = 1 if no_surface or rule.given else resolve_n_init(self.n_init, n_points)
        chosen = least_contradicted((first, history), make, coordinates_of, rows, graph, n_init, run, agrees)
        return FoundLayout(graph, dimension, chosen, origin)

    @property
    def _patch_rule(self) -> PatchRule:
        return PatchRule(self.n_patches, self.clustering, self.patches)

    def _draw_sample(self, shape: tuple[int, int], run: Run) -> IntArray:
        """Return the rows from which patches and charts are estimated, the same as for chunked data."""
        if self._patch_rule.given:
            return np.arange(shape[0])
        return drawn_rows(shape[0], bounded_size(self._sample_size(), shape[1]), run.rng("sampled rows"))

    def _sample_size(self) -> int:
        if self.patches is not None:  # asked before anything is read
            raise ValueError(
                "patches of single points cannot be given for chunked data: give a cluster estimator as clustering, "
                "which clusters a sample of them, or fit an array."
            )
        return MAX_SAMPLE if isinstance(self.n_patches, str) else max(MAX_SAMPLE, SAMPLE_PER_PATCH * self.n_patches)

    def _neighbor_rule(self, n_points: int) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius).resolve(n_points, N_AUTO_NEIGHBORS)

    def _chart_options(self, n_features: int) -> ChartOptions:
        width, share = self.patch_components or self.n_components, None
        if isinstance(width, str):
            width, share = 2 * self.n_components, AUTO_RESIDUAL_SHARE
        return ChartOptions(min(width, n_features), self.chart, share, self.overlap, self.blend == "mean")
