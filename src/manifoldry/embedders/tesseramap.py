"""TesseraMap: clusters as tiles of a mosaic, unfolded as a whole, and a kernel map for new points."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base.estimator import estimator
from manifoldry.base.graph import GraphEmbedder
from manifoldry.base.linear import dense
from manifoldry.extend.kernel_image import ShiftedProjection, fit_kernel_map
from manifoldry.extend.kernel_projection import Kernel
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.patches.cells import find_cells
from manifoldry.patches.rigid import RigidPatches
from manifoldry.patches.tesserae import (
    border_pairs,
    far_pairs,
    geodesic_start,
    lay_tesserae,
    tessellate,
    whole_tesserae,
)
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.scaling import principal_scaling
from manifoldry.solve.semidefinite import Stretched, StretchOptions
from manifoldry.solve.spectrum import Suggestion, enough
from manifoldry.values import Embedding, FloatArray, IntArray

KERNELS = ("rbf", "linear", "poly")

GAP = 1e-3
"""Share of the stretch at which the barrier ends; coarser ones save a third of the time and stop before the most."""

AUTO_CLUSTERS = 100
"""Most tesserae that "auto" takes: the form to stretch is dense, 100 of them take 4 s and 150 take 11."""

MAP_POINTS = 10
"""Points per landmark that the map is fitted to: it is smooth, and more of them change it by less than its error."""

SIGMA = 3.0
"""An automatic sigma in units of the mean distance between neighboring landmarks."""


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("khajehpour2013",),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="all distances inside tesserae, and of neighbors across their borders, at their true scale",
    loses="what tesserae in n_components dimensions leave out",
    use_when="a surface, holed or not, is to be unrolled and new points need one smooth map from a kernel",
    fails_when="clusters are not flat, or sheets lie closer together than the landmarks of the map do",
    cost="50,000 points in seconds; time grows with the cube of the number of tesserae, not of points",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class TesseraMap(GraphEmbedder):
    r"""TesseraMap: rigid tesserae pulled apart as far as the distances across their borders allow.

    The points are clustered, each cluster :math:`\ell` is laid out in coordinates :math:`P_\ell` of at most
    n_components dimensions and becomes a rigid tile, placed by a rotation and a shift:

    .. math:: \max_{R_\ell^\top R_\ell = I,\; t_\ell} \;
              \frac{1}{|O|} \sum_{(i,j) \in O} \frac{|y_i - y_j|^2}{\tau_{ij}^2}
              \quad\text{with}\quad |y_i - y_j| = \tau_{ij} \text{ across borders},
              \qquad y_i = R_\ell\, p_i + t_\ell ,

    where :math:`\tau` are distances of the data and O are pairs that are no neighbors. Where the borders
    contradict each other their squared relative error is made least first. It is a semidefinite program in
    :math:`[R\; t]^\top [R\; t]`, solved in few dimensions; its dual proves how far from the most the stretch is.
    The tessellation is projected to its principal axes, and new points follow by the kernel map

    .. math:: y(x) = Y^\top K^\dagger \kappa(X, x), \qquad K \text{ and } \kappa \text{ centered.}

    Parameters
    ----------
    n_components : int
        Dimension r of the embedding, and the most of a tessera.
    n_clusters : int or "auto"
        Number of tesserae; "auto" is the root of the number of points, at most 100 and such that they keep
        3 (r + 1) points on average. A cluster in several pieces of the neighbor graph is divided.
    clustering : {"kmeans", "none"} or cluster estimator
        What divides the data: cells around k-means centers, labels of an estimator's ``fit_predict``, or nothing:
        with "none" every point is a tessera of its own.
    tesserae : array of labels, optional
        Tesserae given; they are taken as they are.
    chart : {"curved", "flat", "geodesic"}
        How a tessera is laid out: along the arc, by its principal directions and the way it bends away from them;
        by the principal directions alone; or by geodesics along its own graph.
    n_border_pairs : int, optional
        Most distances held between two tesserae, of neighbors spread out along their border; None for r squared.
        Many would fasten tesserae to each other where they should turn.
    n_pairs : int
        Pairs to stretch, drawn at random where there are more.
    slack : float
        How far the squares of held distances may be from what they should be, or from their least error, relative.
    max_rank : int, optional
        Most dimensions that the tessellation may use before it is projected; None for r + 1.
    kernel : {"rbf", "linear", "poly"} or callable
        Of the map of new points: :math:`\exp(-|x-y|^2/\sigma^2)`, :math:`x^\top y`, :math:`(x^\top y + 1)^p`, for
        points about their mean; or a function of two arrays of rows, (m, D) and (n, D), that returns the values (m, n).
        The embedding of the fitted points does not depend on it.
    sigma : float or "auto"
        Of the rbf kernel; "auto" is three times the mean distance between neighboring landmarks.
    degree : int
        p of the polynomial kernel.
    n_landmarks : int
        Random points through which the kernel is approximated; all, if there are no more.
    ridge : float
        Added to the eigenvalues of the centered kernel, in units of the largest; 0 for the exact pseudo-inverse.
    n_neighbors : int or "auto"
        Neighbors of each point; "auto" is 10, unless a radius is given.
    radius : float, optional
        Neighbors are all points at most this far; with ``n_neighbors`` too, at most that many of them.
    search : {"auto", "exact", "approximate"}
        As in `Isomap`.
    disconnected : {"bridge", "apart", "largest", "raise"}
        As in `Isomap`; given tesserae need one connected graph, so no "apart" and no "largest".
    random_state : int, Generator or None
        Seed of centers, pairs and landmarks.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Tell the stages on the standard error stream.
    callback : callable, optional
        Called with a `Progress`; if it returns true the tessellation is left as stretched as it is.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The tessellation in its principal axes, at the data's own scale.
    labels_ : ndarray of shape (n_samples,)
        The tessera of each point; of the largest component where components are embedded apart.
    n_clusters_ : int
        Number of tesserae.
    stretch_ : float
        The mean over O of :math:`|y_i - y_j|^2/\tau_{ij}^2` before the projection.
    error_ : float
        Mean squared relative error of the squared distances held across borders.
    map_error_ : float
        How far the map takes the fitted points from their places, relative to their spread: rounding for a kernel
        matrix of full rank with all points as landmarks.
    certificate_ : Certificate
        Objective and bound are of minus the stretch; ``gap`` is relative to it, and ``rank`` the dimensions used.
    trace_ : Trace
        Minus the stretch from stage to stage.
    spectrum_ : Spectrum
        Of the tessellation in all the dimensions used; beyond the first n_components there is what was lost.
    graph_ : NeighborGraph
        The neighbor graph.
    diagnostics_ : dict
        Seconds, memory, components, bridges, ``border_pairs`` and ``pairs`` counted, ``sigma`` and ``residuals``, the
        distance of each tessera's points from its chart relative to its spread.

    Notes
    -----
    References: khajehpour2013.

    Examples
    --------
    >>> from manifoldry import TesseraMap, datasets, quality
    >>> roll = datasets.swiss_roll(1000, hole=True)
    >>> model = TesseraMap(n_components=2).fit(roll.X)
    >>> bool(quality.procrustes(model.embedding_, roll.truth).error < 1e-3)
    True
    >>> model.transform(datasets.swiss_roll(5, random_state=1).X).shape
    (5, 2)
    """

    n_clusters: int | str = "auto"
    clustering: Any = "kmeans"
    tesserae: Any = None
    chart: str = "curved"
    n_border_pairs: int | None = None
    n_pairs: int = 50_000
    slack: float = 1e-2
    max_rank: int | None = None
    kernel: Any = "rbf"
    sigma: float | str = "auto"
    degree: int = 3
    n_landmarks: int = 1000
    ridge: float = 1e-10
    metric: ClassVar[str] = "euclidean"  # type: ignore[misc]
    metric_params: ClassVar[None] = None  # type: ignore[misc]

    _takes_graphs = False
    _invertible = _local_inverse = True

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a hundredth of the tessellation's variance, and why."""
        check_is_fitted(self, "embedding_")
        shares = np.cumsum(self.spectrum_.values) / (self.spectrum_.values.sum() or 1.0)
        return enough(1 - shares, "variance of the tessellation", share=0.01)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if isinstance(self.n_clusters, str):
            check.choice("n_clusters", self.n_clusters, ("auto",))
        else:
            check.integer("n_clusters", self.n_clusters, 1, n_points)
        if isinstance(self.clustering, str):
            check.choice("clustering", self.clustering, ("kmeans", "none"))
        elif not hasattr(self.clustering, "fit_predict"):
            raise ValueError(f"clustering must be 'kmeans', 'none' or have fit_predict; got {self.clustering!r}.")
        check.choice("chart", self.chart, ("curved", "flat", "geodesic"))
        if self.n_border_pairs is not None:
            check.integer("n_border_pairs", self.n_border_pairs, 1)
        check.integer("n_pairs", self.n_pairs, 1)
        check.number("slack", self.slack, 0.0, open_low=True)
        if self.max_rank is not None:
            check.integer("max_rank", self.max_rank, self.n_components, None, " (n_components)")
        self._check_map()
        if self.tesserae is not None:
            self._check_tesserae(n_points)

    def _check_map(self) -> None:
        if not callable(self.kernel):
            check.choice("kernel", self.kernel, KERNELS)
        if self.sigma != "auto":
            check.number("sigma", self.sigma, 0.0, open_low=True)
        check.integer("degree", self.degree, 1)
        check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")
        check.number("ridge", self.ridge, 0.0)

    def _check_tesserae(self, n_points: int) -> None:
        if np.shape(self.tesserae) != (n_points,):
            raise ValueError(f"tesserae must be {n_points} labels; got an array of shape {np.shape(self.tesserae)}.")
        if self.disconnected in ("apart", "largest"):
            raise ValueError(
                f"Given tesserae need one connected graph, which disconnected={self.disconnected!r} does not; "
                "use 'bridge' or 'raise'."
            )

    def _embed(self, X: Any, run: Run) -> Embedding:
        if sp.issparse(X):
            run.announce("dense rows", 8 * X.shape[0] * X.shape[1])
        return super()._embed(dense(X), run)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        with run.stage("tesserae"):
            labels = self._labels(sample, n_components, run)
            pieces, residuals = lay_tesserae(sample.X, labels, n_components, self.chart, run)
        with run.stage("unfolding"):
            stretched, counts = self._stretched(sample, pieces, labels, n_components, run)
            wide = pieces.images @ stretched.V
            spectrum = principal_scaling(wide, wide.shape[1], run)[0].spectrum
        Y = spectrum.scaled(0.5)[:, :n_components]
        with run.stage("map"):
            projection, missed = self._map(sample.X, Y, run)
        return Embedding(
            Y,
            spectrum=spectrum,
            trace=stretched.trace,
            certificate=stretched.certificate,
            extension=projection,
            notes={**counts, "residuals": residuals, "sigma": projection.projection.kernel.gamma**-0.5},
            fitted={
                "labels_": labels,
                "n_clusters_": pieces.n_patches,
                "stretch_": -stretched.certificate.objective,
                "error_": stretched.error,
                "map_error_": missed,
            },
        )

    def _labels(self, sample: Sample, n_components: int, run: Run) -> IntArray:
        if self.tesserae is not None:
            return np.unique(np.asarray(self.tesserae), return_inverse=True)[1].astype(np.int64)
        if isinstance(self.clustering, str) and self.clustering == "none":
            # Coincident points are one: there is no direction between them to stretch.
            return np.unique(sample.X, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        cells = isinstance(self.clustering, str)
        found = self._cells(sample, n_components, run) if cells else self.clustering.fit_predict(sample.X)
        return whole_tesserae(np.asarray(found), sample.graph, n_components + 2)

    def _cells(self, sample: Sample, n_components: int, run: Run) -> IntArray:
        n, wanted = sample.n_points, self.n_clusters
        if isinstance(wanted, str):
            wanted = max(1, min(round(np.sqrt(n)), n // (3 * (n_components + 1)), AUTO_CLUSTERS))
        return find_cells(sample.X, sample.graph, min(wanted, n), n_components, run).labels

    def _stretched(
        self, sample: Sample, pieces: RigidPatches, labels: IntArray, n_components: int, run: Run
    ) -> tuple[Stretched, dict[str, Any]]:
        borders = border_pairs(sample.X, sample.graph, labels, self.n_border_pairs or n_components**2)
        far = far_pairs(sample.X, sample.graph, labels, self.n_pairs, run)
        start = geodesic_start(pieces, sample.graph, n_components, run)
        options = StretchOptions(GAP, self.slack, self.max_rank or n_components + 1)
        return tessellate(pieces, borders, far, start, options, run), {"border_pairs": len(borders), "pairs": len(far)}

    def _map(self, X: FloatArray, Y: FloatArray, run: Run) -> tuple[ShiftedProjection, float]:
        drawn = run.rng("landmarks of the map").permutation(len(X))
        rows = np.sort(drawn[: MAP_POINTS * self.n_landmarks])
        origin = X.mean(axis=0) if isinstance(self.kernel, str) else np.zeros(X.shape[1])
        points, anchors = X[rows] - origin, X[np.sort(drawn[: self.n_landmarks])] - origin
        sigma = self.sigma
        if isinstance(sigma, str):
            near = neighbor_graph(anchors, NeighborRule("auto").resolve(len(anchors)), run)[0]
            sigma = SIGMA * float(near.lengths.mean()) or 1.0
        kernel = Kernel(self.kernel, 1.0 / sigma**2 if self.kernel == "rbf" else 1.0, self.degree)
        projection, missed = fit_kernel_map(points, Y[rows], kernel, anchors, self.ridge, run)
        return ShiftedProjection(origin, projection), missed
