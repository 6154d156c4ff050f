"""Embedding by affine transformations: a linear map of the kernel that keeps some distances and stretches others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import ArrayLike, Described, Positive, PositiveInt, parameter
from manifoldry._core.registry import announce_fit, register
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Certificate, Embedding, FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._numerics.elbow import Suggestion, enough, lost_variance_advice, unexplained
from manifoldry._numerics.extension.distances import pairwise
from manifoldry._numerics.extension.kernel import Kernel, KernelImage
from manifoldry._numerics.geometry.neighborhoods import dense_rows
from manifoldry._numerics.linalg import dense_array
from manifoldry._numerics.scaling import principal_axes
from manifoldry._numerics.semidefinite.interior import GramSolution, unfold_gram
from manifoldry.graph._operations import components, connect, raise_for_components, symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import DEGREE_TEXT, RADIUS_TEXT

N_AUTO_NEIGHBORS = 6
RANK_TOL = 1e-6  # dimensions with less than this share of the largest variance do not count towards the rank
FREE_DIRECTION_TOL = 1e-12
"""Share of the largest eigenvalue below which the kept pairs do not constrain a direction of the map."""
FITTING_SHARE = 0.1
"""Errors of the kept distances below this share of the slack, in the kernel's coordinates, need no minimization."""
SECONDS_PER_CUBE = 3e-10  # of the number of kept pairs: 3,500 of 1,000 points took 13 s
NOTHING_TO_STRETCH = "There is nothing to stretch, as all pairs are kept: lower n_neighbors, or use ClassicalMDS."

PairArray = Annotated[Any, Described("an array of shape (n_pairs, 2)")]


@register(
    problem="semidefinite",
    papers=("khajehpour2013",),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="the distances of neighbors, or given ones, as well as a linear map of the kernel can",
    loses="dimensions beyond n_components; all distances that are neither kept nor stretched",
    use_when="there are few points, new ones need a smooth map, or target distances are given",
    fails_when="neighbors are across folds, or the kernel is so narrow that it is zero between the points",
    cost="O(E^3) time and O(E^2) memory for E kept pairs: 400 points of a roll in 2 s, 1,000 in 13 s",
    test_params={"n_components": 2, "n_neighbors": 6},
)
@estimator
class EAT(Embedder):
    r"""Embed few points by a linear map of a kernel that keeps the distances of neighbors, or given distances.

    Embedding by affine transformations finds a linear map :math:`Y = K \Omega` of the centered kernel matrix K. With
    :math:`A = \Omega \Omega^\top` the squared distances :math:`|y_i - y_j|^2 = (k_i - k_j)^\top A (k_i - k_j)` are
    linear in A, and

    .. math:: \min_{A \succeq 0} \sum_{(i,j) \in S} \Big(\frac{|y_i - y_j|^2}{\tau_{ij}^2} - 1\Big)^2 , \qquad
              \text{then} \quad \max \sum_{(i,j) \in O} \frac{|y_i - y_j|^2}{\tau_{ij}^2}

    among the matrices with the smallest error: the distances of pairs S are kept, those of pairs O are maximized,
    others are free. The principal components of Y are the embedding, and the same map embeds new points. Both steps are
    semidefinite programs over the range of K, solved by an interior-point method with a certificate from the dual.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Principal components of Y, at the scale of the distances.
    error_ : float
        Mean over the kept pairs of :math:`(|y_i - y_j|^2/\tau_{ij}^2 - 1)^2`, Y in all its dimensions.
    stretch_ : float
        Mean over the stretched pairs of :math:`|y_i - y_j|^2/\tau_{ij}^2`.
    rank_ratio_ : float
        Rank of the centered kernel over n - 1; with 1 any coordinates can be reached.
    certificate_ : Certificate
        Certificate of minus ``stretch_``: ``gap`` bounds the relative distance from the largest stretch with the kept
        squared distances within ``slack`` of those with the smallest error; ``violation`` is by how much they leave
        these bounds.
    error_certificate_ : Certificate
        Certificate of that smallest error, the mean of :math:`(|y_i - y_j|^2/\tau_{ij}^2 - 1)^2` before the stretch.
        Errors as small as the slack count as none.
    spectrum_ : Spectrum
        Variances of Y (times n); those beyond the first n_components are lost.
    trace_
    graph_ : NeighborGraph
        The kept pairs.
    diagnostics_ : dict
        ``kernel`` and ``gamma`` used, ``bridges``, and ``advice`` on problems.

    See Also
    --------
    MVU : all Gram matrices instead of a kernel map.
    TesseraMap : the same idea for many points.
    KernelPCA : keeps inner products of the kernel.

    Examples
    --------
    >>> from manifoldry import EAT, datasets
    >>> eat = EAT(n_components=2, n_neighbors=4).fit(datasets.s_curve(60).X)
    >>> eat.certificate_.gap < 1e-4
    True
    """

    kernel: Literal["auto", "linear", "poly", "rbf", "precomputed"] | Callable[[Any, Any], Any] = parameter(
        r"Kernel of points about their mean: :math:`x^\top y`, :math:`(\gamma x^\top y + c)^p` or :math:`\exp(-\gamma "
        '|x - y|^2)`; "precomputed": ``X`` holds kernel values; or a function of two arrays of rows. "auto" is '
        "linear if there are at least as many columns as points, otherwise rbf.",
        default="auto",
    )
    gamma: Positive | Literal["auto"] | None = parameter(
        r'Coefficient of the rbf and poly kernels; "auto" and None are :math:`1/\sigma^2` for rbf, with '
        r":math:`\sigma` the mean distance of the kept pairs, and 1 for poly.",
        default="auto",
    )
    degree: PositiveInt = parameter(DEGREE_TEXT, default=3)
    coef0: float = parameter("Constant c of the poly kernel.", default=1.0)
    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(
        'Number of neighbors whose distances are kept; "auto" is 6, unless a radius is given.', default="auto"
    )
    radius: Positive | None = parameter(RADIUS_TEXT, default=None)
    distances: ArrayLike | None = parameter(
        r"Target distances :math:`\tau`, positive between distinct points; None uses those of the points, or those "
        "that the kernel matrix implies.",
        default=None,
    )
    keep: PairArray | None = parameter("Pairs S whose distances are kept; None keeps those of neighbors.", default=None)
    stretch: PairArray | None = parameter("Pairs O whose distances are maximized; None is all others.", default=None)
    disconnected: Literal["bridge", "raise"] = parameter(
        "A neighbor graph with several components, for which the stretch is unbounded, is joined by its shortest "
        "bridges or raises an error.",
        default="bridge",
    )
    slack: Positive = parameter("Relative slack of kept squared distances during the stretch.", default=1e-4)
    tol: Positive = parameter("Relative duality gap at which the optimization stops.", default=1e-4)

    error_: float = fitted()
    error_certificate_: Certificate = fitted()
    stretch_: float = fitted()
    rank_ratio_: float = fitted()

    _invertible = _local_inverse = True
    _chunk_support = ChunkSupport(
        "no", instead="its semidefinite program is for a few hundred points. IPA unfolds all rows with a certificate."
    )

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_degenerate(self, X: Any) -> None:
        if not self._pairwise:
            check.distinct_points(X)
        elif sp.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix of kernel values; got a sparse one.")
        else:
            check.square_gram(X, "kernel='precomputed'")

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._neighbor_rule(n_points)
        if self.distances is not None:
            _check_distances(np.asarray(self.distances), n_points)
        for name in ("keep", "stretch"):
            if getattr(self, name) is not None:
                _pairs(name, getattr(self, name), n_points)

    def _neighbor_rule(self, n_points: int) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius, "precomputed").resolve(n_points, N_AUTO_NEIGHBORS)

    def _embed(self, X: Any, run: Run) -> Embedding:
        X = np.asarray(dense_rows(X, run), dtype=float)
        n = len(X)
        run.announce(f"distances and kernel {n} x {n}", 40 * n * n, "fit a sample and transform the rest")
        tau = self._target_distances(X, run)
        graph, bridges = self._kept_pairs(tau, run)
        once = (graph.rows() < graph.indices) & (graph.lengths > 0)
        i, j = graph.rows()[once], graph.indices[once]
        announce_fit("EAT", n, run, SECONDS_PER_CUBE * float(len(i)) ** 3)
        run.announce(f"multipliers of {len(i)} pairs", 24 * len(i) ** 2, "fit a sample, or take fewer neighbors")
        with run.stage("kernel"):
            image = KernelImage.of(self._kernel(X, i, j), X, tau, run)
        with run.stage("unfolding"), run.stoppable():
            solution = self._maximize_stretch(image, tau, i, j, run)
        coordinates, spectrum = principal_axes(solution.root, self.n_components)
        rank = int((spectrum.values > RANK_TOL * spectrum.values[0]).sum())
        spectrum = spectrum.head(max(self.n_components, rank))
        lost, idle = unexplained(spectrum.values)[: self.n_components][-1], not (solution.stretch or solution.bound)
        return Embedding(
            coordinates,
            graph=graph,
            spectrum=spectrum,
            trace=Trace(solution.objective, solution.stop),
            certificate=solution.certificate(rank, self.tol),
            extension=image.projection(coordinates),
            notes={
                "kernel": image.kernel.rule,
                "gamma": image.kernel.gamma,
                "components": 1,
                "bridges": bridges,
                "advice": tuple(image.advice(i, j, lost)),
                "surface_advice": lost_variance_advice(spectrum.values, self.n_components, run.stopped),
                "remarks": (NOTHING_TO_STRETCH,) if idle else (),
            },
            fitted={
                "error_": float(np.mean((solution.lengths - 1) ** 2)),
                "error_certificate_": solution.error_certificate(rank, self.tol, self.slack),
                "stretch_": solution.stretch,
                "rank_ratio_": image.rank_ratio,
            },
        )

    def _target_distances(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the distances tau; those of a kernel matrix from its values, with rounding set to zero."""
        if self.distances is not None:
            return np.asarray(self.distances, dtype=float)
        if not self._pairwise:
            return pairwise(X, X, "euclidean", None, run)
        diagonal = np.diagonal(X)
        squares = diagonal[:, None] + diagonal - X - X.T
        return np.sqrt(np.where(squares > 1e-14 * np.abs(diagonal).max(), squares, 0.0))

    def _kept_pairs(self, tau: FloatArray, run: Run) -> tuple[NeighborGraph, FloatArray]:
        """Return the graph of the pairs to keep, and the bridges added to it."""
        if self.keep is not None:
            i, j = _pairs("keep", self.keep, len(tau)).T
            lengths = sp.csr_array((tau[i, j], (i, j)), shape=tau.shape)
            return symmetrize(NeighborGraph.from_sparse(lengths)), np.empty((0, 3))
        graph = symmetrize(neighbor_graph(tau, self._neighbor_rule(len(tau)), run)[0])
        parts = components(graph)
        if len(parts) == 1:
            return graph, np.empty((0, 3))
        if self.disconnected == "raise":
            raise_for_components(parts, ("bridge",), ", for which the stretch is unbounded")
        return connect(graph, tau, parts, "precomputed")

    def _kernel(self, X: FloatArray, i: IntArray, j: IntArray) -> Kernel:
        rule: Any = self.kernel
        if rule == "auto":
            rule = "linear" if X.shape[1] >= len(X) else "rbf"
        gamma = self.gamma
        if gamma is None or isinstance(gamma, str):
            sigma = float(np.linalg.norm(X[i] - X[j], axis=1).mean()) if rule == "rbf" else 1.0
            gamma = 1.0 / (sigma or 1.0) ** 2
        return Kernel(rule, gamma, self.degree, self.coef0)

    def _maximize_stretch(
        self, image: KernelImage, tau: FloatArray, i: IntArray, j: IntArray, run: Run
    ) -> GramSolution:
        pairs, scales = np.arange(len(i)), 1 / tau[i, j]
        B = sp.csr_array((np.r_[scales, -scales], (np.r_[pairs, pairs], np.r_[i, j])), shape=(len(i), len(tau)))
        _check_bounded(B, image.basis)
        weights = self._stretch_weights(tau, i, j)
        # With nothing to stretch, the variance is maximized: a form of zeros would lead nowhere.
        pulled = weights if weights.any() else 1 - np.eye(len(tau))
        W = np.diag(pulled.sum(axis=1)) - pulled
        fits = (image.full and self.distances is None) or image.keeps(i, j, tau[i, j], FITTING_SHARE * self.slack)
        try:
            solution = unfold_gram(W, B, run, slack=self.slack, tol=self.tol, fits=fits, basis=image.basis)
            return solution if weights.any() else replace(solution, stretch=0.0, bound=0.0, noise=0.0)
        except np.linalg.LinAlgError:
            raise ValueError(
                "Linear maps of the kernel hardly tell the points of some kept pairs apart, whose distances go from "
                f"{tau[i, j].min():.2g} to {tau[i, j].max():.2g}: raise gamma, or leave out points far from all others."
            ) from None

    def _stretch_weights(self, tau: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
        """Return the weights 1/tau^2 of the pairs to stretch, divided by their number."""
        chosen = np.full(tau.shape, self.stretch is None)
        if self.stretch is not None:
            a, b = _pairs("stretch", self.stretch, len(tau)).T
            chosen[a, b] = chosen[b, a] = True
        else:
            chosen[i, j] = chosen[j, i] = False
        chosen &= tau > 0
        weights = np.divide(1.0, tau**2, out=np.zeros_like(tau), where=chosen)
        return weights / max(1, np.count_nonzero(chosen) // 2)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the unfolded points' variance, and why."""
        check_is_fitted(self, "embedding_")
        return enough(unexplained(self.spectrum_.values), "variance of the unfolded points")


def _check_bounded(B: Any, basis: Any) -> None:
    """Raise an error if the pairs leave a direction of the map unconstrained, along which the stretch is unbounded."""
    form = dense_array(basis.T @ (B.T @ B @ basis))
    # Each coordinate in its own unit: an outlier is in as many pairs as others.
    unit = np.sqrt(np.maximum(np.diagonal(form), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(form / unit / unit[:, None])
    free = int((values <= FREE_DIRECTION_TOL * values[-1]).sum())
    if free:
        raise ValueError(
            f"The kept pairs leave {free} directions of the map free, so stretch would have no end; keep more pairs, "
            "such as a connected graph of all points."
        )


def _check_distances(tau: Array, n_points: int) -> None:
    if tau.shape != (n_points, n_points):
        raise ValueError(f"distances must have shape ({n_points}, {n_points}), a row per point; got {tau.shape}.")
    if not np.isfinite(tau).all():
        raise ValueError("distances must be finite; got NaN or infinity among them.")
    check.square_distances(tau, "distances")
    zeros = (np.count_nonzero(tau == 0) - n_points) // 2
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
