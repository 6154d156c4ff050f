"""Isometric patch alignment: flat patches moved rigidly until they fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base.embedder import Embedder
from manifoldry.base.estimator import estimator
from manifoldry.neighbors.graph import symmetrize
from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.patches.advice import advice
from manifoldry.patches.atlas import (
    Atlas,
    ChartOptions,
    History,
    build_atlas,
    choose_atlas,
    cluster_atlas,
    voronoi_atlas,
)
from manifoldry.patches.cover import ListedCover
from manifoldry.patches.overlaps import find_overlaps
from manifoldry.patches.stitch import stitch
from manifoldry.patches.unfold import PatchInverse, PatchMap, unfold
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.spectrum import Suggestion, enough
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph

SAMPLE = 20_000
"""Points from which patches and charts are found; the rest only pass through them."""

AUTO_NEIGHBORS = 6
"""The graph only says what hangs together: fewer neighbors than elsewhere, and fewer short circuits."""

PER_PATCH = 50
"""Points of the sample per patch, where many patches are asked for."""

AUTO_SHARE = 0.05
"""Share of its variance that a patch's chart may leave when it chooses its own dimension."""


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("khajehpour2013",),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="all distances inside every patch, at their true scale",
    loses="what patches in n_components dimensions leave out; pieces of the patch graph are unrelated",
    use_when="the data is a surface that can be unrolled, holed, noisy or unevenly sampled, of any size",
    fails_when="patches cannot be flat (spheres), or there are too few points for overlapping patches",
    cost="O(n) time beyond a sample of 20,000 points, a million points in seconds; memory for points and result",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class IPA(Embedder):
    r"""Isometric patch alignment.

    The data is covered by overlapping patches, each is laid out flat by its own chart :math:`f_i`, and the patches
    are moved as rigid pieces until the points they share lie on each other:

    .. math:: \min_{R_i^\top R_i = I,\; t_i} \sum_{i \sim j} \frac{1}{n_{ij}} \sum_{x \in C_i \cap C_j}
              |R_i f_i(x) + t_i - R_j f_j(x) - t_j|^2 .

    With :math:`A = R^\top R` and the shifts eliminated this is a semidefinite program,
    :math:`\min \operatorname{tr}(A K),\; A \succeq 0,\; A_{ii} = I`. It is solved in few dimensions by Newton's method
    from the lowest eigenvectors of K, dimensions are added while the dual says that they would help, and the dual
    proves at the end how good the solution is. Each point goes to the mean of what its patches say.

    Parameters
    ----------
    n_components : int
        Dimension r of the embedding, and of the patches.
    n_patches : int or "auto"
        Number of patches; "auto" doubles it until the patches keep the distances of neighbors. A patch that would
        hold two separate pieces of the neighbor graph is divided, so there may be more.
    clustering : "kmeans" or cluster estimator
        What divides the data: cells around k-means centers, or the labels that an estimator's ``fit_predict``
        gives (`LDLC` for complex data), grown over their borders along the neighbor graph.
    patches : array of labels, or sequence of index arrays, optional
        Patches given: a label per point, grown over their borders; or the members of each patch, which have
        to overlap and to cover all points.
    chart : {"curved", "flat", "geodesic"}
        How a patch is laid out: by its principal directions and the way it bends away from them, along the arc;
        by the principal directions alone; or by geodesics along the patch's own graph.
    patch_components : int or "auto", optional
        Dimension of the patches if not n_components; "auto" lets each have what its variance asks for, up to twice
        n_components.
    overlap : float
        How far cells reach over their borders, as a share of the squared distance between centers. Widened by itself
        where patches would not hold together.
    blend : {"smooth", "mean"}
        Whether a patch counts less towards its border, which makes the map continuous, or all the same.
    n_neighbors : int, "auto" or None
        Neighbors in the graph of the sample; "auto" is 6 unless a radius is given.
    radius : float, optional
        Neighbors are within this distance; with n_neighbors too, at most that many.
    disconnected : {"apart", "raise"}
        Pieces of the patch graph are laid out side by side, or refused.
    random_state : None, int or numpy generator
        Draws the sample and the first centers.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Report the stages.
    callback : callable, optional
        Told of progress; a true answer stops the search for patches or the descent.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The coordinates, at the data's own scale.
    certificate_ : Certificate
        ``optimal`` and ``gap``: how far from the global optimum the placement can be.
    trace_ : Trace
        The matching error from step to step, of the largest piece of the patch graph.
    spectrum_ : Spectrum
        Of the unfolded points in all the dimensions used; beyond the first n_components there is what was lost.
    patches_ : Atlas
        Cover, charts and overlaps.
    disagreement_ : ndarray of shape (n_samples,)
        How far apart the patches of a point put it.
    residuals_ : ndarray of shape (n_patches_,)
        Distance of each patch's points from its chart, relative to the patch's spread.
    graph_ : NeighborGraph
        Of the points ``sample_``.
    distortion_ : ndarray of shape (graph_.n_edges,)
        Relative change of the length of each edge of ``graph_`` in the embedding.
    n_patches_ : int
        Number of patches.
    sample_ : ndarray
        Rows from which patches and charts were found.
    diagnostics_ : dict
        ``advice`` holds what there is to worry about, in sentences; ``edge_changes`` the numbers of patches tried and
        the change of neighbor lengths with each.

    Examples
    --------
    >>> from manifoldry import IPA, datasets
    >>> roll = datasets.swiss_roll(2000, hole=True)
    >>> ipa = IPA(n_components=2).fit(roll.X)
    >>> ipa.certificate_.optimal
    True

    Notes
    -----
    References: khajehpour2013
    """

    n_patches: int | str = "auto"
    clustering: Any = "kmeans"
    patches: Any = None
    chart: str = "curved"
    patch_components: int | str | None = None
    overlap: float = 0.3
    blend: str = "smooth"
    n_neighbors: int | str | None = "auto"
    radius: float | None = None
    disconnected: str = "apart"

    _invertible = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.choice("chart", self.chart, ("curved", "flat", "geodesic"))
        check.choice("blend", self.blend, ("smooth", "mean"))
        check.choice("disconnected", self.disconnected, ("apart", "raise"))
        self._rule(n_points)
        check.number("overlap", self.overlap, 0.0, open_low=True)
        if isinstance(self.n_patches, str):
            check.choice("n_patches", self.n_patches, ("auto",))
        else:
            most = max(1, n_points // (self.n_components + 1))
            because = f" (each patch needs {self.n_components + 1} of the {n_points} points)"
            check.integer("n_patches", self.n_patches, 1, most, because)
        if isinstance(self.patch_components, str):
            check.choice("patch_components", self.patch_components, ("auto",))
        elif self.patch_components is not None:
            check.integer("patch_components", self.patch_components, 1)
        if isinstance(self.clustering, str):
            check.choice("clustering", self.clustering, ("kmeans",))
        elif not hasattr(self.clustering, "fit_predict"):
            raise ValueError(f"clustering must be 'kmeans' or have fit_predict; got {self.clustering!r}.")

    def _embed(self, X: Any, run: Run) -> Embedding:
        if sp.issparse(X):
            run.announce("dense rows", 8 * X.shape[0] * X.shape[1])
            X = X.toarray()
        with run.stage("patches"):
            sample = self._sample(len(X), run)
            rows = np.asarray(X[sample], dtype=float)
            neighbors, index = neighbor_graph(rows, self._rule(len(rows)), run)
            graph = symmetrize(neighbors, "or")
            survey, history = self._survey(rows, graph, index, run)
        with run.stage("charts"):
            whole = len(sample) == len(X)
            members = survey.members if whole else survey.cover.members(X, run)
            f = survey.coordinates if whole else survey.charts.coordinates(X, members, run)
            overlaps = survey.overlaps if whole else find_overlaps(members, f, survey.charts.n_patches)
            firm = overlaps.firm(survey.charts.sizes)
        stitched = stitch(overlaps[firm], survey.charts.sizes, run)
        if stitched.n_components > 1 and self.disconnected == "raise":
            raise ValueError(
                f"The patch graph is in {stitched.n_components} pieces; raise n_neighbors or overlap, or set "
                "disconnected='apart'."
            )
        with run.stage("unfolding"):
            unfolded = unfold(members, f, stitched, self.n_components)
        Y = unfolded.coordinates
        spans = np.linalg.norm(Y[sample][graph.rows()] - Y[sample][graph.indices], axis=1)
        lengths = np.where(graph.lengths > 0, graph.lengths, 1.0)
        findings = advice(survey, overlaps, firm, self.n_components, stitched.n_components, unfolded.spectrum)
        return Embedding(
            Y,
            graph=graph,
            spectrum=unfolded.spectrum,
            trace=stitched.trace,
            certificate=stitched.certificate,
            extension=PatchMap(survey.cover, survey.charts, unfolded.stitched),
            inverse=PatchInverse.of(survey.charts, unfolded.stitched, overlaps[firm], self.overlap),
            notes={
                "n_patches": survey.charts.n_patches,
                "components": stitched.n_components,
                "edge_changes": history,
                "overlaps": len(overlaps),
                "thin_overlaps": int((~firm).sum()),
                "advice": findings,
            },
            fitted={
                "patches_": survey,
                "sample_": sample,
                "residuals_": survey.charts.residuals,
                "disagreement_": unfolded.disagreement,
                "distortion_": np.where(graph.lengths > 0, spans / lengths - 1, 0.0),
                "n_patches_": survey.charts.n_patches,
            },
        )

    def _rule(self, n_points: int) -> NeighborRule:
        k = self.n_neighbors
        if k == "auto" and self.radius is None:
            k = min(AUTO_NEIGHBORS, n_points - 1)
        return NeighborRule(k, self.radius).resolve(n_points)

    def _sample(self, n_points: int, run: Run) -> IntArray:
        wanted = SAMPLE if isinstance(self.n_patches, str) else max(SAMPLE, PER_PATCH * self.n_patches)
        listed = self.patches is not None or not isinstance(self.clustering, str)
        if listed or n_points <= wanted:
            return np.arange(n_points)
        return np.sort(run.rng("patch sample").choice(n_points, wanted, replace=False))

    def _survey(self, rows: FloatArray, graph: NeighborGraph, index: NeighborIndex, run: Run) -> tuple[Atlas, History]:
        how = self._charting(rows.shape[1])
        if self.patches is not None:
            given = _given_patches(self.patches, len(rows))
            if isinstance(given, np.ndarray):
                survey = cluster_atlas(rows, graph, given, index, how, run)
            else:
                survey = build_atlas(rows, graph, ListedCover(given, index), how, run)
        elif not isinstance(self.clustering, str):
            labels = np.unique(self.clustering.fit_predict(rows), return_inverse=True)[1]
            survey = cluster_atlas(rows, graph, labels, index, how, run)
        elif isinstance(self.n_patches, str):
            return choose_atlas(rows, graph, how, run)
        else:
            survey = voronoi_atlas(rows, graph, self.n_patches, how, run)
        return survey, [(survey.charts.n_patches, survey.distortion)]

    def _charting(self, n_features: int) -> ChartOptions:
        auto = self.patch_components == "auto"
        width = self.n_components if self.patch_components is None else self.patch_components
        width = 2 * self.n_components if isinstance(width, str) else width
        share = AUTO_SHARE if auto else None
        return ChartOptions(min(width, n_features), self.chart, share, self.overlap, self.blend == "mean")

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the patches' variance, and why.

        Charts look at patches one by one, so this is the dimension of the surface and not of its folds.
        """
        check_is_fitted(self, "embedding_")
        spread = self.patches_.charts.spread
        total = np.maximum(spread.sum(axis=1), np.finfo(float).tiny)
        left = 1 - np.cumsum(spread, axis=1) / total[:, None]
        return enough(np.median(left, axis=0), "variance inside patches")


def _given_patches(patches: Any, n_points: int) -> Any:
    """Return labels as an array, or listed members as weights (n, c)."""
    if not isinstance(patches, np.ndarray) and len(patches) and np.ndim(patches[0]) == 1:
        sizes = [len(members) for members in patches]
        rows = np.concatenate([np.asarray(members, dtype=np.int64) for members in patches])
        if rows.min() < 0 or rows.max() >= n_points or len(np.unique(rows)) < n_points:
            raise ValueError(
                f"patches must list each of the {n_points} points at least once; got {len(np.unique(rows))} of them, "
                f"from {rows.min()} to {rows.max()}."
            )
        columns = np.repeat(np.arange(len(patches)), sizes)
        weights = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_points, len(patches)))
        weights.data[:] = 1.0
        return weights
    labels = np.asarray(patches)
    if labels.shape != (n_points,):
        raise ValueError(f"patches must be {n_points} labels or lists of members; got an array of {labels.shape}.")
    return np.unique(labels, return_inverse=True)[1]
