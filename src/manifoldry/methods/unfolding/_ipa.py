"""Isometric patch alignment: overlapping patches in flat charts, aligned by rigid motions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.arrays import taken
from manifoldry._core.chunks import ChunkedData, ChunkSample
from manifoldry._core.parameters import ClusterEstimator, Described, Fraction, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._core.warnings import EmbeddingWarning, collecting, warn
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import dense, dense_rows
from manifoldry._numerics.geometry.principal import column_means
from manifoldry._numerics.patches.advice import advice, chart_remarks
from manifoldry._numerics.patches.atlas import Atlas, ChartOptions, History, PatchRule
from manifoldry._numerics.patches.charts import layout_kind
from manifoldry._numerics.patches.cover import VoronoiCover
from manifoldry._numerics.patches.layout import (
    CenteredPatchInverse,
    CenteredPatchMap,
    ChunkOverlaps,
    PatchInverse,
    PatchLayout,
    PatchMap,
    PlaceRows,
    chart_points,
    fallback_layout,
    lay_out,
    map_charted_points,
)
from manifoldry._numerics.patches.overlaps import Overlaps, check_connected_patches, merged_overlaps
from manifoldry._numerics.patches.restarts import Trial, best_restart, resolve_n_init, sample_graph
from manifoldry.data._chunked.sampling import drawn_rows
from manifoldry.graph._operations import edge_ratios
from manifoldry.graph._sample import Targets
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport, bounded_size
from manifoldry.methods._base._embedder import DeviceMixin
from manifoldry.methods._base._estimator import as_chunked
from manifoldry.methods._base._targets import given_targets
from manifoldry.methods._base._texts import CHART_TEXT, TARGET_METRIC_TEXT, TARGET_WEIGHT_TEXT
from manifoldry.methods.unfolding._patches import (
    PatchEmbedder,
    PatchGrowth,
    PatchSearch,
    can_update,
    cell_radii,
    updated_layout,
)

MAX_SAMPLE = 20_000  # points from which patches and charts are estimated; the others are only mapped by them
SAMPLE_PER_PATCH = 50  # points of the sample per patch, if n_patches is large
AUTO_RESIDUAL_SHARE = 0.05  # share of a patch's variance that its chart may leave out with patch_components="auto"


@register(
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
class IPA(DeviceMixin, PatchEmbedder):
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
    overlaps determine both patches, which the paper does not do.

    With more than 20,000 points (or 50 per patch, if that is more), patches, charts, axes and spectrum are computed
    from a random sample, and the overlaps that align the patches from all points. Chunked data is fitted in the same
    way, with the same result. Targets ``y`` change who is a neighbor, so that patches are divided between known
    classes; distances inside a patch remain those of the points.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The coordinates, at the scale of the data; for chunked data those of the sample.
    certificate_ : Certificate
        Certificate of the matching error of these patches; missing with one patch.
    trace_
    spectrum_ : Spectrum
        Spectrum of the unfolded sample in all dimensions of the alignment, of which n_components are kept.
    distortion_ : ndarray of shape (n_edges,)
        Relative change of the length of each edge of ``graph_`` in the embedding.
    patches_, mean_, n_patches_, sample_, residuals_, disagreement_, graph_
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
    chart: Literal["curved", "flat", "geodesic"] = parameter(CHART_TEXT, default="curved")
    patch_components: PositiveInt | Literal["auto"] | None = parameter(
        'Dimension of the charts; "auto" chooses it for each patch from its variance, up to twice n_components. None '
        "is n_components if patches are flat in that many dimensions. If they are not, and no patches are given, it "
        "is compared with the measured dimension of the data (at most 8) and with one patch of all points, by PCA or "
        "Isomap (of at most 1,000 points, from which all others are reconstructed). The layout that keeps neighbors "
        'best (trustworthiness of 1,000 points) is returned: ``diagnostics_["layout"]`` names it.',
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
    tol: Positive = parameter("Relative gap up to which the alignment is proven optimal.", default=1e-4)
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    distortion_: FloatArray = fitted()

    _chunk_support = ChunkSupport("whole", MAX_SAMPLE)
    _keeps_rows = False

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        targets = given_targets(y, X.shape[0], self.target_weight, self.target_metric)
        X = dense_rows(X, run)
        size = len(X) if self._patch_rule.given else bounded_size(self._sample_size(), X.shape[1])
        sample = drawn_rows(len(X), size, run.rng("sampled rows"), run)  # the same rows as for chunked data
        part = None if targets is None else targets.part(sample)
        rows, charted = np.asarray(taken(X, sample, run), dtype=float), list[PlaceRows]()
        if len(sample) == len(X):
            return self._pack(sample, self._search(rows, part, len(X), run), run, targets)

        def overlaps_of_all(atlas: Atlas, origin: FloatArray) -> Overlaps:
            charted[:], overlaps = chart_points(X, atlas, origin, run)
            return overlaps

        search = self._search(rows, part, len(X), run, overlaps_of_all)
        with run.stage("unfolding"):
            stitched = search.layout.unfolded.stitched
            coordinates, disagreement = map_charted_points(charted, X.shape, stitched, run)
        packed = self._pack(sample, search, run, targets)
        fitted = {**packed.fitted, "disagreement_": disagreement}
        return replace(packed, coordinates=coordinates, fitted=fitted, unshared=True)

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Add rows: those near a patch enter its overlaps, others form new patches; then all patches are aligned again.

        Old charts stay as they are. Models that cannot be updated (see the page on incremental fits) are fitted again.

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
        before = self._earlier_rows()
        self._check_new_rows(X)
        self._check_declared()
        rows = self._validated(X, reset=True) if before is None else self._stacked(before.rows, X)
        run = self._run()
        with collecting(self):
            self._check_parameters(rows.shape[0])
            with one_blas_thread(openmp=False):
                unchanged = before if before is not None and self._has_settings(before) else None
                self._finish(rows, self._embed_updated(rows, unchanged, run), run)
        return self

    def _earlier_rows(self) -> PatchGrowth | None:
        """Return what the last call kept; a model that was fitted at once has kept no rows, which is a warning."""
        growth: PatchGrowth | None = getattr(self, "_growth", None)
        if growth is None and hasattr(self, "embedding_"):
            warn(
                f"{type(self).__name__}.fit kept none of its {len(self.embedding_)} rows, so partial_fit begins anew "
                "with these: to join all of them call it with every batch, from the first on.",
                EmbeddingWarning,
            )
        return growth

    def _settings(self) -> dict[str, Any]:
        """Return the parameters on which the result depends."""
        ignored = ("n_jobs", "verbose", "callback")
        return {name: value for name, value in self.get_params(deep=False).items() if name not in ignored}

    def _has_settings(self, growth: PatchGrowth) -> bool:
        try:
            return bool(growth.settings == self._settings())
        except ValueError:  # arrays among the parameters have no single truth value
            return False

    def _check_new_rows(self, X: Any) -> None:
        """Raise an error for what ``partial_fit`` cannot use: chunked data, graphs and targets."""
        name = type(self).__name__
        if as_chunked(X) is not None:
            raise ValueError(
                f"{name}.partial_fit takes rows in memory; got chunked data: call it with one chunk after the other, "
                "or fit all of them at once."
            )
        if isinstance(X, NeighborGraph):
            raise ValueError(f"{name}.partial_fit needs rows of features; got a neighbor graph.")
        if self.target_weight:
            raise ValueError(
                f"{name}.partial_fit takes no targets, and target_weight={self.target_weight} asks for them: fit all "
                "rows with their y again, or set target_weight=0."
            )
        if hasattr(self, "sampled_rows_"):
            raise ValueError(
                f"This {name} was fitted to chunked data, of which it holds a sample: more rows would count "
                "differently from those. Call partial_fit with every chunk instead of fit, or fit all rows again."
            )

    def _stacked(self, old: FloatArray, X: Any) -> FloatArray:
        """Return the old rows above the new ones, checked."""
        new = self._validated_rows(X, reset=False, sparse=self._accepts_sparse, own=True)
        rows = np.concatenate([old, new.toarray() if issparse(new) else new])
        self._check_representable(rows)
        return rows

    def _embed_updated(self, X: Any, before: PatchGrowth | None, run: Run) -> Embedding:
        rows, options = np.array(dense_rows(X, run), dtype=float), self._chart_options(X.shape[1])
        updated = None
        small = not self._patch_rule.given and len(rows) <= bounded_size(self._sample_size(), rows.shape[1])
        if before is not None and small and can_update(self.patches_, options) and not self.diagnostics_["cut_edges"]:
            centered = rows - self.mean_
            graph, _ = sample_graph(centered, self._neighbor_rule(len(rows)), None, run)
            updated = updated_layout(self, before, centered, graph, options, run)
        if updated is None:
            embedding = self._embed(X, run)
            cover, centered = embedding.fitted["patches_"].cover, rows - embedding.fitted["mean_"]
            cells = isinstance(cover, VoronoiCover)
            radii = cell_radii(centered, cover.centers, run) if cells else np.empty(0)
        else:
            embedding, radii = self._pack(np.arange(len(rows)), updated[0], run), updated[1]
        growth = PatchGrowth(rows, radii, self._settings())
        return replace(embedding, fitted={**embedding.fitted, "_growth": growth})

    def _embed_chunks(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> Embedding:
        targets = given_targets(sample.targets, len(sample.numbers), self.target_weight, self.target_metric)

        def overlaps_of_all(atlas: Atlas, origin: FloatArray) -> Overlaps:
            return chunks.reduce(ChunkOverlaps.of(atlas, origin, sample.n_rows), merged_overlaps, run)

        search = self._search(dense(sample.rows), targets, sample.n_rows, run, overlaps_of_all)
        return self._pack(np.arange(len(sample.numbers)), search, run, targets)

    def _pack(self, sample: IntArray, search: PatchSearch, run: Run, targets: Targets | None = None) -> Embedding:
        """Return the embedding of the sample, the rows with these numbers, with its maps."""
        chosen, layout, charts = search.chosen, search.layout, search.atlas.charts
        unfolded, stitched = layout.unfolded, layout.unfolded.stitched
        check_connected_patches(stitched.n_components, self.disconnected)
        active = layout.overlaps[layout.active]
        changes = edge_ratios(chosen.graph, unfolded.coordinates, run) - 1
        return Embedding(
            unfolded.coordinates,
            graph=chosen.graph,
            spectrum=unfolded.spectrum,
            trace=stitched.trace,
            certificate=replace(stitched.certificate, tol=self.tol) if charts.n_patches > 1 else None,
            extension=CenteredPatchMap(search.origin, PatchMap(search.atlas.cover, charts, stitched)),
            inverse=CenteredPatchInverse(search.origin, PatchInverse.of(charts, stitched, active, self.overlap)),
            notes={
                "n_patches": charts.n_patches,
                "layout": layout_kind(charts),
                "patch_components": charts.width,
                "dimension": search.dimension,
                "components": stitched.n_components,
                "edge_changes": chosen.layout[1],
                "contradictions": chosen.scores,
                "cut_edges": (search.graph.n_edges - chosen.graph.n_edges) // 2,
                "overlaps": len(layout.overlaps),
                "thin_overlaps": int((~layout.well_conditioned).sum()),
                "advice": advice(layout, self.n_components, search.dimension, chosen, changes),
                "remarks": chart_remarks(charts),
                **({} if targets is None else {"known_targets": int(targets.known.sum())}),
            },
            fitted={
                "patches_": search.atlas,
                "mean_": search.origin,
                "sample_": sample,
                "residuals_": charts.residuals,
                "disagreement_": unfolded.disagreement,
                "distortion_": changes,
                "n_patches_": charts.n_patches,
            },
        )

    def _search(
        self,
        rows: FloatArray,
        targets: Targets | None,
        n_points: int,
        run: Run,
        overlaps_of_all: Callable[[Atlas, FloatArray], Overlaps] | None = None,
    ) -> PatchSearch:
        """Return the patches of the sample that its points contradict least.

        They are laid out by the overlaps of all points, if the sample are not all. Several layouts are compared by the
        overlaps of the sample, so that there is one pass over all points.
        """
        origin = column_means(rows)
        rows = rows - origin  # far from zero, distances to centers would lose their digits
        with run.stage("patches"):
            graph, index = sample_graph(rows, self._neighbor_rule(len(rows)), targets, run)
            dimension = intrinsic_dimension(rows, run=run)
        rule, options = self._patch_rule, self._chart_options(rows.shape[1])
        once = rule.given or resolve_n_init(self.n_init, n_points) == 1

        def of_all(atlas: Atlas) -> Overlaps | None:
            with run.stage("charts"):
                return None if overlaps_of_all is None else overlaps_of_all(atlas, origin)

        def make(trial: Trial) -> tuple[PatchLayout, History]:
            with run.stage("patches"):
                atlas, history = rule.atlas(rows, trial, index, dimension.value, options, run)
            overlaps = of_all(atlas) if once and not atlas.no_surface else None
            return lay_out(atlas, self.n_components, run, overlaps=overlaps), history

        first, history = make(Trial(0, graph))
        no_surface = first.atlas.no_surface
        if no_surface and rule.free and self.patch_components is None:
            first = fallback_layout(rows, graph, int(dimension), first, options, run, single=targets is None)
        n_init = 1 if no_surface or once else resolve_n_init(self.n_init, n_points)
        chosen = best_restart(
            (first, history),
            make,
            lambda made: made[0].unfolded.coordinates,
            rows,
            graph,
            n_init,
            run,
            agrees=lambda made, cut: made[0].agrees_with(cut, run),
        )
        search = PatchSearch(graph, dimension, chosen, origin)
        compared = overlaps_of_all is not None and (no_surface or not once)
        return search.stitched_by(of_all(search.atlas), self.n_components, run) if compared else search

    @property
    def _patch_rule(self) -> PatchRule:
        return PatchRule(self.n_patches, self.clustering, self.patches)

    def _sample_size(self) -> int:
        if self.patches is not None:  # raised before anything is read
            raise ValueError(
                "patches of single points cannot be given for chunked data: give a cluster estimator as clustering, "
                "which clusters a sample of them, or fit an array."
            )
        return MAX_SAMPLE if isinstance(self.n_patches, str) else max(MAX_SAMPLE, SAMPLE_PER_PATCH * self.n_patches)

    def _chart_options(self, n_features: int) -> ChartOptions:
        width, share = self.patch_components or self.n_components, None
        if isinstance(width, str):
            width, share = 2 * self.n_components, AUTO_RESIDUAL_SHARE
        return ChartOptions(min(width, n_features), self.chart, share, self.overlap, self.blend == "mean")
