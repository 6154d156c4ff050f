"""Embedding by affine transformations: a linear map of images that keeps some distances and stretches others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base import Embedder, estimator
from manifoldry.extend.kernel_image import KernelImage
from manifoldry.extend.kernel_projection import Kernel
from manifoldry.extend.placement import pairwise
from manifoldry.neighbors.graph import components, symmetrize
from manifoldry.neighbors.pieces import connect, raise_disconnected
from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import column_signs
from manifoldry.solve.semidefinite.interior import GramSolution, unfold_gram
from manifoldry.solve.spectrum import Suggestion, enough
from manifoldry.values import Array, Certificate, Embedding, FloatArray, IntArray, NeighborGraph, Spectrum, Trace

KERNELS = ("auto", "linear", "poly", "rbf", "precomputed")
AUTO_NEIGHBORS = 6
PRESENT = 1e-6
"""Share of the largest variance from which on a dimension counts as used."""
LOOSE = 1e-12
"""Share of the stiffest direction below which the kept pairs do not hold one."""


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("khajehpour2013",),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="the distances of neighbors, or those asked for, as well as a map of the kernel can",
    loses="dimensions beyond n_components; all distances that are neither kept nor stretched",
    use_when="there are few points, a smooth map for new ones is wanted, or distances to be reached are given",
    fails_when="neighbors cut through the folds, or the kernel is so narrow that it knows nothing between the points",
    cost="O(E^3) time and O(E^2) memory for E kept pairs: 300 points in 2 s, 1,000 in a minute",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class EAT(Embedder):
    r"""Embedding by affine transformations.

    Looks for a linear map :math:`Y = K \Omega` of the centered kernel matrix K. With
    :math:`A = \Omega \Omega^\top` the squared distances :math:`|y_i - y_j|^2 = (k_i - k_j)^\top A (k_i - k_j)` are
    linear in A, and

    .. math:: \min_{A \succeq 0} \sum_{(i,j) \in S} \Big(\frac{|y_i - y_j|^2}{\tau_{ij}^2} - 1\Big)^2 , \qquad
              \text{then} \quad \max \sum_{(i,j) \in O} \frac{|y_i - y_j|^2}{\tau_{ij}^2}

    among the matrices with the least error: pairs S are kept, pairs O are stretched, others are left free. The
    principal components of Y are the embedding, and the same map takes new points. Both steps are semidefinite
    programs, solved over the range of K by an interior-point method whose dual proves how good the solution is.

    Parameters
    ----------
    n_components : int
        Target dimension.
    kernel : {"auto", "linear", "poly", "rbf", "precomputed"} or callable
        :math:`x^\top y`, :math:`(x^\top y + 1)^p`, :math:`\exp(-|x - y|^2 / \sigma^2)`, the last three for points
        about their mean; a matrix of kernel values in place of points; or a function of two arrays of rows. "auto" is
        linear for at least as many columns as points, else rbf.
    sigma : float or "auto"
        Of the rbf kernel; "auto" is the mean distance of the kept pairs.
    degree : int
        p of the polynomial kernel.
    n_neighbors : int, "auto" or None
        Neighbors whose distances are kept; "auto" is 6 unless a radius is given.
    radius : float, optional
        Neighbors are within this distance; with n_neighbors too, at most that many.
    distances : array of shape (n_samples, n_samples), optional
        The distances wanted, positive between different points; else those of the points, or those that the kernel
        matrix implies.
    keep : array of shape (n_pairs, 2), optional
        Pairs to keep in place of neighbors.
    stretch : array of shape (n_pairs, 2), optional
        Pairs to stretch; else all that are not kept.
    disconnected : {"bridge", "raise"}
        Whether a neighbor graph in pieces, which could be stretched without end, is joined by its shortest bridges.
    slack : float
        Half-width of the band in which squared relative distances are held while the others are stretched.
    tol : float
        Relative gap at which to stop.
    random_state : None, int or numpy generator
        For uniformity; nothing is drawn.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Report the stages.
    callback : callable, optional
        Told of progress; a true answer stops the search.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Principal components of Y, at the scale of the distances.
    error_ : float
        Mean over the kept pairs of :math:`(|y_i - y_j|^2/\tau_{ij}^2 - 1)^2`, Y in all its dimensions.
    stretch_ : float
        Mean over the stretched pairs of :math:`|y_i - y_j|^2/\tau_{ij}^2`.
    rank_ratio_ : float
        Rank of the centered kernel over n - 1: 1 if any shape of the points can be reached.
    certificate_ : Certificate
        Of minus ``stretch_``: ``gap`` says how much more the best map could stretch; ``violation`` is the largest error
        of a kept pair.
    spectrum_ : Spectrum
        Variances of Y (times n): beyond the first n_components there is what was lost.
    trace_ : Trace
        Minus the stretch from step to step.
    graph_ : NeighborGraph
        The kept pairs.
    diagnostics_ : dict
        ``kernel`` and ``sigma`` used, ``bridges``, and ``advice``: what there is to worry about, in sentences.

    Examples
    --------
    >>> from manifoldry import EAT, datasets
    >>> eat = EAT(n_components=2, n_neighbors=4).fit(datasets.s_curve(60).X)
    >>> eat.certificate_.gap < 1e-4
    True

    Notes
    -----
    References: khajehpour2013
    """

    kernel: Any = "auto"
    sigma: float | str = "auto"
    degree: int = 3
    n_neighbors: int | str | None = "auto"
    radius: float | None = None
    distances: Any = None
    keep: Any = None
    stretch: Any = None
    disconnected: str = "bridge"
    slack: float = 1e-4
    tol: float = 1e-5

    _invertible = True
    _local_inverse = True

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _refuse_degenerate(self, X: Any) -> None:
        if not self._pairwise:
            check.distinct_points(X)
        elif sp.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix of kernel values; got a sparse one.")
        else:
            check.square_gram(X, "kernel='precomputed'")

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if not callable(self.kernel):
            check.choice("kernel", self.kernel, KERNELS)
        if self.sigma != "auto":
            check.number("sigma", self.sigma, 0.0, open_low=True)
        check.integer("degree", self.degree, 1)
        self._rule(n_points)
        check.choice("disconnected", self.disconnected, ("bridge", "raise"))
        check.number("slack", self.slack, 0.0, open_low=True)
        check.number("tol", self.tol, 0.0, open_low=True)
        if self.distances is not None:
            _check_distances(np.asarray(self.distances), n_points)
        for name in ("keep", "stretch"):
            if getattr(self, name) is not None:
                _pairs(name, getattr(self, name), n_points)

    def _rule(self, n_points: int) -> NeighborRule:
        k = self.n_neighbors
        if k == "auto" and self.radius is None:
            k = min(AUTO_NEIGHBORS, n_points - 1)
        return NeighborRule(k, self.radius, "precomputed").resolve(n_points)

    def _embed(self, X: Any, run: Run) -> Embedding:
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        n = len(X)
        run.announce(f"distances and kernel {n} x {n}", 40 * n * n, "fit a sample and transform the rest")
        wanted = self._wanted(X, run)
        graph, bridges = self._kept(wanted, run)
        i, j = _each_once(graph)
        run.announce(f"forces of {len(i)} pairs", 24 * len(i) ** 2, "fit a sample, or take fewer neighbors")
        with run.stage("kernel"):
            image = KernelImage.of(self._kernel(X, i, j), X, wanted, run)
        with run.stage("unfolding"):
            B = image.differences(i, j) / wanted[i, j][:, None]
            _refuse_loose(B)
            W = image.stretch(self._stretched(wanted, i, j))
            fits = self.distances is None and (image.full or image.kernel.rule in ("linear", "precomputed"))
            found = unfold_gram(W, B, run, slack=self.slack, tol=self.tol, fits=fits)
        spectrum = _principal(image.basis @ found.root, self.n_components)
        coordinates = spectrum.scaled(0.5)[:, : self.n_components]
        return Embedding(
            coordinates,
            graph=graph,
            spectrum=spectrum,
            trace=Trace(found.objective, found.stop),
            certificate=_certificate(found, spectrum),
            extension=image.projection(coordinates),
            notes={
                "kernel": image.kernel.rule,
                "sigma": image.kernel.gamma**-0.5,
                "components": 1,
                "bridges": bridges,
                "advice": image.advice(i, j, _left(spectrum.values)[self.n_components - 1]),
            },
            fitted={
                "error_": float(np.mean((found.lengths - 1) ** 2)),
                "stretch_": found.stretch,
                "rank_ratio_": image.rank_ratio,
            },
        )

    def _wanted(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the distances tau; those of a kernel from its values, with rounding taken for zero."""
        if self.distances is not None:
            return np.asarray(self.distances, dtype=float)
        if not self._pairwise:
            return pairwise(X, X, "euclidean", None, run)
        own = np.diagonal(X)
        squares = own[:, None] + own - X - X.T
        return np.sqrt(np.where(squares > 1e-14 * np.abs(own).max(), squares, 0.0))

    def _kept(self, wanted: FloatArray, run: Run) -> tuple[NeighborGraph, FloatArray]:
        """Return the graph of the pairs to keep, and the bridges that it needed."""
        n = len(wanted)
        if self.keep is not None:
            i, j = _pairs("keep", self.keep, n).T
            lengths = sp.csr_array((wanted[i, j], (i, j)), shape=(n, n))
            return symmetrize(NeighborGraph.from_sparse(lengths)), np.empty((0, 3))
        graph = symmetrize(neighbor_graph(wanted, self._rule(n), run)[0])
        parts = components(graph)
        if len(parts) == 1:
            return graph, np.empty((0, 3))
        if self.disconnected == "raise":
            raise_disconnected(parts, ("bridge",), ", which could be stretched apart without end")
        return connect(graph, wanted, parts, "precomputed")

    def _kernel(self, X: FloatArray, i: IntArray, j: IntArray) -> Kernel:
        if not isinstance(self.kernel, str):
            return Kernel(self.kernel)
        rule: Any = self.kernel
        if rule == "auto":
            rule = "linear" if X.shape[1] >= len(X) else "rbf"
        if rule != "rbf":
            return Kernel(rule, degree=self.degree)
        sigma = self.sigma
        if isinstance(sigma, str):
            sigma = float(np.linalg.norm(X[i] - X[j], axis=1).mean()) or 1.0
        return Kernel("rbf", gamma=1.0 / sigma**2)

    def _stretched(self, wanted: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        """Return the weights 1/tau^2 of the pairs to stretch, divided by their number."""
        chosen = np.full(wanted.shape, self.stretch is None)
        if self.stretch is not None:
            a, b = _pairs("stretch", self.stretch, len(wanted)).T
            chosen[a, b] = chosen[b, a] = True
        else:
            chosen[i, j] = chosen[j, i] = False
        chosen &= wanted > 0
        weights = np.divide(1.0, wanted**2, out=np.zeros_like(wanted), where=chosen)
        return weights / max(1, np.count_nonzero(chosen) // 2)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the unfolded points' variance, and why."""
        check_is_fitted(self, "embedding_")
        return enough(_left(self.spectrum_.values), "variance of the unfolded points")


def _each_once(graph: NeighborGraph) -> tuple[IntArray, IntArray]:
    """Return the ends of the edges of positive length, each once."""
    rows = graph.rows()
    once = (rows < graph.indices) & (graph.lengths > 0)
    return rows[once], graph.indices[once]


def _principal(Y: FloatArray, n_components: int) -> Spectrum:
    """Return the principal components of the rows of Y, of which at least n_components."""
    left, sizes, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
    short = max(0, n_components - len(sizes))
    values, vectors = np.pad(sizes**2, (0, short)), np.pad(left, ((0, 0), (0, short)))
    used = max(n_components, int((values > PRESENT * values[0]).sum()))
    vectors = vectors[:, :used]
    return Spectrum(values[:used], vectors * column_signs(vectors), np.zeros(used))


def _certificate(found: GramSolution, spectrum: Spectrum) -> Certificate:
    rank = int((spectrum.values > PRESENT * spectrum.values[0]).sum())
    worst = float(np.abs(found.lengths - 1).max(initial=0.0))
    return Certificate(-found.stretch, -found.bound, found.stretch or 1.0, 0.0, rank, worst)


def _left(values: FloatArray) -> FloatArray:
    return np.maximum(1 - np.cumsum(values) / values.sum(), 0.0)


def _refuse_loose(B: Any) -> None:
    """Refuse pairs that do not hold every direction, along which stretch would have no end."""
    even = B.T @ B
    sizes = np.linalg.eigvalsh(even.toarray() if sp.issparse(even) else even)
    if sizes[0] <= LOOSE * sizes[-1]:
        free = int((sizes <= LOOSE * sizes[-1]).sum())
        raise ValueError(
            f"The kept pairs leave {free} directions of the map free, so stretch would have no end; keep more pairs, "
            "such as a connected graph of all points."
        )


def _check_distances(wanted: Array, n_points: int) -> None:
    if wanted.shape != (n_points, n_points):
        raise ValueError(f"distances must have shape ({n_points}, {n_points}), a row per point; got {wanted.shape}.")
    if not np.isfinite(wanted).all():
        raise ValueError("distances must be finite; got NaN or infinity among them.")
    check.square_distances(wanted, "distances")
    zeros = (np.count_nonzero(wanted == 0) - n_points) // 2
    if zeros > 0:
        raise ValueError(
            f"distances must be positive between different points; got {zeros} pairs at 0: keep one point of each pair."
        )


def _pairs(name: str, pairs: Any, n_points: int) -> IntArray:
    ends = np.asarray(pairs)
    if ends.ndim != 2 or ends.shape[1] != 2 or not len(ends) or ends.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be pairs of indices, shape (n_pairs, 2); got {ends.dtype} of shape {ends.shape}."
        )
    if ends.min() < 0 or ends.max() >= n_points or (ends[:, 0] == ends[:, 1]).any():
        raise ValueError(f"{name} must join different points with indices below {n_points}; got others among them.")
    return np.unique(np.sort(ends.astype(np.int64), axis=1), axis=0)
