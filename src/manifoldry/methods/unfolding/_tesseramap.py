"""TesseraMap: rigid clusters (tesserae) unfolded by a semidefinite program, and a kernel map for new points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.parameters import ClusterEstimator, Described, NonNegative, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.extension.components import embed_components
from manifoldry._numerics.extension.kernel import Kernel, ShiftedProjection, fit_kernel_map
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.edges import without_off_surface_edges
from manifoldry._numerics.geometry.neighborhoods import dense_rows
from manifoldry._numerics.patches.advice import (
    MIN_TESSERA_INCONSISTENCY,
    folded_tesserae,
    tessera_advice,
    tessera_remarks,
)
from manifoldry._numerics.patches.atlas import MAX_SURFACE_RESIDUAL
from manifoldry._numerics.patches.cover import find_cells
from manifoldry._numerics.patches.restarts import InconsistencyScore, Trial, best_restart, resolve_n_init
from manifoldry._numerics.patches.tessellation import (
    Tessellation,
    TessellationOptions,
    align_tesserae,
    connected_tesserae,
    laid_flat,
    reconnected_graph,
    root_mean_square,
    wider_tessellation,
)
from manifoldry._numerics.scaling import principal_scaling
from manifoldry.graph._operations import Policy, symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._texts import CHART_TEXT, DEGREE_TEXT, RADIUS_TEXT, SEARCH_TEXT, SYMMETRY_TEXT

MAX_AUTO_PATCHES = 100
"""Maximum number of tesserae with "auto": 100 of a surface take 4 s, and time grows with the cube of their number."""
TRIAL_SINES = {1: 0.5, 0: 0.3}
"""Sines above which edges leave the surface, in every fourth fit by the remainder: higher where the first fit may have
torn a sheet, lower where it may have left two joined."""


@register(
    problem="semidefinite",
    papers=("khajehpour2013",),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="all distances inside tesserae, and of neighbors across their borders, at their true scale",
    loses="what tesserae in n_components dimensions leave out",
    use_when="a surface, with holes or not, should be unrolled, and new points need one smooth map from a kernel",
    fails_when="clusters are not flat, or sheets lie closer together than the landmarks of the map do",
    cost="50,000 points in seconds; time grows with the cube of the number of tesserae, not of points",
    test_params={"n_components": 2, "n_neighbors": 6, "n_init": 1},
)
@estimator
class TesseraMap(Embedder):
    r"""Unroll a surface by the maximum stretch of rigid clusters, with one smooth kernel map for new points.

    Each cluster :math:`\ell` of the points, a tessera, gets coordinates :math:`P_\ell` of at most n_components
    dimensions, and is moved by a rotation and a translation, with the distances across borders kept:

    .. math:: \max_{R_\ell^\top R_\ell = I,\; t_\ell} \;
              \frac{1}{|O|} \sum_{(i,j) \in O} \frac{|y_i - y_j|^2}{\tau_{ij}^2}
              \quad\text{with}\quad |y_i - y_j| = \tau_{ij} \text{ across borders},
              \qquad y_i = R_\ell\, p_i + t_\ell ,

    where :math:`\tau` are distances of the data and O are pairs that are not neighbors. If the distances across borders
    cannot all be kept, their squared relative error is minimized first. Both are semidefinite programs in
    :math:`[R\; t]^\top [R\; t]`, solved in any number of dimensions and proven by their duals; 200 tesserae or more in
    few dimensions. The tessellation is projected to its principal axes. If a surface needs more than n_components of
    them, as noisy ones do, the program is also solved in n_components dimensions, without proof, and that layout is
    returned if the points contradict it less (``diagnostics_["flattened"]``). New points are mapped by

    .. math:: y(x) = Y^\top K^\dagger \kappa(X, x), \qquad K \text{ and } \kappa \text{ centered.}

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The tessellation in its principal axes, at the scale of the data.
    labels_ : ndarray of shape (n_samples,)
        The tessera of each point; of the largest component if components are embedded apart.
    n_patches_ : int
        Number of tesserae.
    stretch_ : float
        The mean over O of :math:`|y_i - y_j|^2/\tau_{ij}^2` in all dimensions; NaN with one tessera.
    error_ : float
        Mean squared relative error of the squared distances kept across borders.
    map_error_ : float
        Root mean square distance of the mapped fitted points from the embedding, relative to its spread.
    certificate_ : Certificate
        Certificate of minus the stretch in all dimensions, before the projection; missing with one tessera.
    error_certificate_ : Certificate
        Certificate of the smallest mean squared error in all dimensions, before the stretch; missing with one tessera.
    spectrum_ : Spectrum
        Spectrum of the tessellation in all dimensions used; those beyond the first n_components are lost.
    trace_, graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, numbers of ``border_pairs`` and ``pairs``, ``gamma`` and ``reg``
        of the map, ``residuals``: the distance of each tessera's points from its chart relative to its spread;
        ``dimension``: the measured one; ``contradictions`` of all fits; ``cut_edges``: the number of removed edges;
        ``flattened``: whether the layout was solved in n_components dimensions; ``layout``: "patches", "PCA" or
        "Isomap"; and ``advice``.

    See Also
    --------
    IPA : overlapping patches, for larger or noisy data.
    EAT : few points and given distances.
    MVU : keeps the distances of neighbors, without tesserae.

    Examples
    --------
    >>> from manifoldry import TesseraMap, datasets, metrics
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> model = TesseraMap(n_components=2).fit(roll.X)
    >>> bool(metrics.procrustes(model.embedding_, roll.truth).error < 1e-3)
    True
    >>> model.transform(datasets.swiss_roll(5, random_state=1).X).shape
    (5, 2)
    """

    n_components: PositiveInt = parameter("Dimension r of the embedding.", default=2, kw_only=False)
    n_patches: PositiveInt | Literal["auto"] = parameter(
        'Number of tesserae; "auto" is the root of the number of points, at most 100 and such that they have 3 (r + '
        "1) points on average. Clusters that are not connected in the neighbor graph are divided.",
        default="auto",
    )
    clustering: Literal["kmeans", "none"] | ClusterEstimator = parameter(
        "Clustering of the data into tesserae: Voronoi cells of k-means centers, labels of an estimator's "
        "``fit_predict``, or none: every point is a tessera.",
        default="kmeans",
    )
    patches: Annotated[Any, Described("labels of all points")] | None = parameter(
        "Given tesserae: a label per point.", default=None
    )
    patch_components: PositiveInt | None = parameter(
        "Maximum dimension of a tessera; None is n_components. If tesserae are not flat in that many dimensions, and "
        "no patches are given, there are fewer of the measured dimension of the data (at most 8), or one of all "
        "points (PCA or Isomap, as in `IPA`) if that keeps neighbors as well.",
        default=None,
    )
    chart: Literal["curved", "flat", "geodesic"] = parameter(CHART_TEXT, default="curved")
    n_border_pairs: PositiveInt | None = parameter(
        "Maximum number of distances kept between two tesserae, of neighbors spread out along their border. None is "
        "3 r² for a surface, or fewer if that would be more than 1,500 in total, and r² for other data (the paper).",
        default=None,
    )
    n_pairs: PositiveInt = parameter("Number of pairs O, drawn at random if there are more.", default=50_000)
    n_init: PositiveInt | Literal["auto"] = parameter(
        'Maximum number of fits, if the points contradict the layout; "auto" is 16 for up to 5,000 points, otherwise '
        "1. With more than one, edges that jump between sheets are removed first.",
        default="auto",
    )
    slack: Positive | Literal["auto"] = parameter(
        'Relative slack of the kept squared distances, about 1 or about those of smallest error; "auto" is 1e-3 for '
        "a surface and 1e-2 for other data.",
        default="auto",
    )
    tol: Positive = parameter("Relative gap at which the stretch is proven to be the largest.", default=1e-3)
    max_rank: PositiveInt | None = parameter(
        "Maximum dimension before the projection; None is as many as the optimum has.", default=None
    )
    kernel: Literal["rbf", "linear", "poly"] | Callable[[Any, Any], Any] = parameter(
        r"Kernel of the map for new points, of points about their mean: :math:`\exp(-\gamma |x-y|^2)`, :math:`x^\top "
        r"y`, :math:`(\gamma x^\top y + c)^p`; or a function of two arrays of rows that returns the values (m, n).",
        default="rbf",
    )
    gamma: Positive | Literal["auto"] | None = parameter(
        r'Coefficient of the rbf and poly kernels; "auto" and None are :math:`1/\sigma^2` for rbf, with '
        r":math:`\sigma` three times the mean distance between neighboring landmarks, and 1 for poly.",
        default="auto",
    )
    degree: PositiveInt = parameter(DEGREE_TEXT, default=3)
    coef0: float = parameter("Constant c of the poly kernel.", default=1.0)
    n_landmarks: PositiveInt = parameter("Number of random points that approximate the kernel.", default=1000)
    reg: NonNegative | Literal["auto"] = parameter(
        "Regularization of the map: added to the eigenvalues of the centered kernel, in units of the largest. "
        '"auto" is the power of ten from 1e-10 to 0.1 of least squared error at points left out one at a time.',
        default="auto",
    )
    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(
        'Number of neighbors of each point in the graph; "auto" is 10, unless a radius is given.', default="auto"
    )
    radius: Positive | None = parameter(RADIUS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    symmetry: Literal["or", "and"] = parameter(SYMMETRY_TEXT, default="or")
    disconnected: Policy = parameter(
        'Treatment of a disconnected graph: "bridge" joins its components by their shortest bridges, with a warning; '
        '"apart" embeds each component separately; "largest" embeds only the largest one, and the other points get '
        'NaN; "raise" raises an error. Given patches need one connected graph, so neither "apart" nor "largest".',
        default="bridge",
    )

    labels_: IntArray = fitted()
    n_patches_: int = fitted()
    stretch_: float = fitted()
    error_: float = fitted()
    error_certificate_: Certificate = fitted()
    map_error_: float = fitted()

    _invertible = _local_inverse = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._neighbor_rule(n_points)
        if not isinstance(self.n_patches, str):
            check.integer("n_patches", self.n_patches, 1, n_points)
        if self.max_rank is not None:
            least = max(self.n_components, self.patch_components or 0)
            check.integer("max_rank", self.max_rank, least, None, " (n_components and patch_components)")
        check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")
        if self.patches is None:
            return
        if np.shape(self.patches) != (n_points,):
            raise ValueError(f"patches must be {n_points} labels; got an array of shape {np.shape(self.patches)}.")
        if self.disconnected in ("apart", "largest"):
            raise ValueError(
                f"Given patches need one connected graph, which disconnected={self.disconnected!r} does not; "
                "use 'bridge' or 'raise'."
            )

    def _embed(self, X: Any, run: Run) -> Embedding:
        X = np.asarray(dense_rows(X, run), dtype=float)
        neighbors, index = neighbor_graph(X, self._neighbor_rule(len(X)), run)
        sample = NeighborhoodData(X, neighbors, symmetrize(neighbors, self.symmetry), index)
        embedding = embed_components(sample, self._unfold, self.n_components, self.disconnected, run)
        return replace(embedding, notes={**index.notes, **embedding.notes})

    def _neighbor_rule(self, n_points: int) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius, search=self.search).resolve(n_points)

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        # In units of the spread, so that tolerances do not depend on the scale of the data.
        centered, n = sample.X - sample.X.mean(axis=0), sample.n_points
        unit = root_mean_square(centered)
        X, joined = centered / unit, replace(sample.graph, lengths=sample.graph.lengths / unit)
        dimension, options = intrinsic_dimension(X), self._options(n_components, n)
        n_init = resolve_n_init(self.n_init, n) if self._patches_are_cells else 1
        graph = without_off_surface_edges(X, joined, n_components, run) if n_init > 1 else joined
        measure = InconsistencyScore.of(X, graph, run)

        def make(trial: Trial) -> Tessellation:
            # Without the edges that leave the surface; bridges keep all points in one tessellation.
            sine = TRIAL_SINES.get(trial.number % 4) if trial.number else None
            cut = trial.graph if sine is None else without_off_surface_edges(X, joined, n_components, run, sine)
            connected = reconnected_graph(cut, joined)
            with run.stage("tesserae"):
                labels = self._tesserae(X, connected, n_components, trial, run)
            with run.stage("unfolding"):
                return laid_flat(X, align_tesserae(X, connected, labels, options, run), options, measure, run)

        first = make(Trial(0, graph))
        if np.median(first.charts.residuals) > MAX_SURFACE_RESIDUAL:
            n_init = 1  # no surface: other tesserae of this dimension would not be flat either
            free = isinstance(self.n_patches, str) and self.patch_components is None and self.max_rank is None
            if free and self._patches_are_cells:
                with run.stage("unfolding"):
                    first = wider_tessellation(X, graph, int(dimension), options, run)
        elif first.flat is not None and measure(first.coordinates(n_components)) < MIN_TESSERA_INCONSISTENCY:
            n_init = 1  # other tesserae do not help against noise
        chosen = best_restart(first, make, lambda layout: layout.coordinates(n_components), X, graph, n_init, run)
        notes = {
            "dimension": dimension,
            "contradictions": chosen.scores,
            "advice": folded_tesserae(chosen, n_components),
        }
        return self._pack(sample, unit, n_components, chosen.layout, notes, run)

    def _options(self, n_components: int, n_points: int) -> TessellationOptions:
        width = min(self.patch_components or n_components, n_points - 1)
        slack = None if isinstance(self.slack, str) else self.slack
        return TessellationOptions(
            n_components, width, self.chart, self.n_border_pairs, self.n_pairs, slack, self.tol, self.max_rank
        )

    def _pack(
        self,
        sample: NeighborhoodData,
        unit: float,
        n_components: int,
        layout: Tessellation,
        notes: dict[str, Any],
        run: Run,
    ) -> Embedding:
        images, several = layout.images(n_components), layout.tesserae.n_patches > 1
        spectrum = principal_scaling(unit * images, images.shape[1], run)[0].spectrum
        Y = spectrum.scaled(0.5)[:, :n_components]
        graph = replace(layout.graph, lengths=unit * layout.graph.lengths)
        with run.stage("map"):
            kernel = Kernel(self.kernel, 1.0, self.degree, self.coef0)
            gamma = None if isinstance(self.gamma, str) else self.gamma
            reg = None if isinstance(self.reg, str) else self.reg
            extension, map_error, reg = fit_landmark_map(sample.X, Y, kernel, gamma, self.n_landmarks, reg, run)
        return Embedding(
            Y,
            graph=graph,
            spectrum=spectrum,
            trace=layout.stretched.trace,
            certificate=layout.stretched.certificate if several else None,
            extension=extension,
            notes={
                **notes,
                "cut_edges": (sample.graph.n_edges - graph.n_edges) // 2,
                **layout.notes,
                "gamma": extension.projection.kernel.gamma,
                "reg": reg,
                "remarks": tessera_remarks(layout),
                "advice": tessera_advice(layout.charts, graph, n_components, notes["dimension"], spectrum)
                + notes["advice"],
            },
            fitted={
                "labels_": layout.labels,
                "n_patches_": layout.tesserae.n_patches,
                "stretch_": -layout.stretched.certificate.objective if several else np.nan,
                "error_": layout.solution.error,
                "map_error_": map_error,
                **({"error_certificate_": layout.stretched.error_certificate} if several else {}),
            },
        )

    @property
    def _patches_are_cells(self) -> bool:
        """Whether the tesserae are Voronoi cells."""
        return self.patches is None and self.clustering == "kmeans"

    def _tesserae(self, X: FloatArray, graph: NeighborGraph, n_components: int, trial: Trial, run: Run) -> IntArray:
        """Return the tessera of each point, 0, 1, ..."""
        if self.patches is not None:
            return np.unique(self.patches, return_inverse=True)[1].astype(np.int64)
        if not isinstance(self.clustering, str):
            labels = np.asarray(self.clustering.fit_predict(X))
        elif self.clustering == "none":
            # Coincident points are one: there is no direction between them to stretch.
            return np.unique(X, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        else:
            n = len(X)
            auto = min(round(np.sqrt(n)), n // (3 * (n_components + 1)), MAX_AUTO_PATCHES)
            count = auto if isinstance(self.n_patches, str) else self.n_patches
            count = max(1, min(round(trial.scale * count), n))
            labels = find_cells(X, graph, count, n_components, run, trial.number).labels
        return connected_tesserae(labels, graph, n_components + 2)


# A kernel map of new points, fitted to a sample through landmarks.

MAP_POINTS_PER_LANDMARK = 10
"""Points per landmark to which the map is fitted: it is smooth, and more change it by less than its error."""
AUTO_SIGMA_RATIO = 3.0
"""Sigma of an automatic rbf kernel, gamma = 1/sigma^2, over the mean distance between neighboring landmarks."""


def fit_landmark_map(
    X: FloatArray, Y: FloatArray, kernel: Kernel, gamma: float | None, n_landmarks: int, reg: float | None, run: Run
) -> tuple[ShiftedProjection, float, float]:
    """Return the map (3.22) of new points, fitted to a sample, its error, and its ``reg``."""
    drawn = run.rng("landmarks of the map").permutation(len(X))
    rows = np.sort(drawn[: MAP_POINTS_PER_LANDMARK * n_landmarks])
    origin = X.mean(axis=0) if isinstance(kernel.rule, str) else np.zeros(X.shape[1])
    points, landmarks = X[rows] - origin, X[np.sort(drawn[:n_landmarks])] - origin
    if gamma is None:
        gamma = 1.0
        if kernel.rule == "rbf":
            neighbors = neighbor_graph(landmarks, NeighborRule("auto").resolve(len(landmarks)), run)[0]
            gamma = 1.0 / (AUTO_SIGMA_RATIO * float(neighbors.lengths.mean()) or 1.0) ** 2
    projection, error, reg = fit_kernel_map(points, Y[rows], replace(kernel, gamma=gamma), landmarks, reg, run)
    return ShiftedProjection(origin, projection), error, reg
