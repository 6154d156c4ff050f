"""Diffusion maps: keep how easily a random walk gets from one point to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import Fraction, NonNegative, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import Embedding, FloatArray, Spectrum
from manifoldry._core.warnings import warn
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.eigen.linear_span import eigengap, walk_eigenpairs, within_largest
from manifoldry._numerics.eigen.localized import skip_localized
from manifoldry._numerics.elbow import Suggestion
from manifoldry._numerics.extension.affinity import DiffusionNystrom, embed_duplicates
from manifoldry._numerics.extension.components import embed_components
from manifoldry._numerics.extension.distances import FittedDistances, pairwise
from manifoldry._numerics.geometry.affinity import (
    Affinity,
    Bandwidth,
    Bandwidths,
    automatic_bandwidth,
    bandwidth_notes,
    complete_affinity,
    graph_affinity,
    local_bandwidths,
)
from manifoldry.graph._operations import Policy, components
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._texts import PARTICIPATION_TEXT

MAX_COMPLETE_POINTS = 3000  # up to this many points "auto" takes the complete kernel: 72 MB and about two seconds
N_ENTROPY_VALUES, MAX_ENTROPY_TIME = 50, 100
"""Eigenvalues and times over which the entropy of the spectrum is followed for t="auto"."""
ALTERNATION_TOL = 1e-3  # relative residual at which the lowest eigenvalue is known well enough to warn of it


@register(
    family="spectral",
    problem="eigen",
    papers=("bengio2004", "coifman2006", "moon2019", "zelnikmanor2005"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="diffusion distances: two points are near when many short paths join them",
    loses="what the walk has forgotten after t steps; distances within a long strip bend into a horseshoe",
    use_when="noise would short-circuit geodesics, or sampling is uneven (alpha = 1)",
    fails_when="the bandwidth is far off, or one direction is much longer than the others",
    cost="complete kernel: O(n^2), to 3,000 points by default; sparse: 200,000 points of a surface in seconds",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class DiffusionMaps(GraphEmbedder):
    r"""Embed points by the distances of a random walk, if noise would short-circuit geodesics or sampling is uneven.

    Diffusion maps are coordinates whose distances are those of a random walk after t steps:

    .. math:: y_i = (\lambda_1^t \psi_1(i), \dots, \lambda_d^t \psi_d(i)), \qquad P \psi_k = \lambda_k \psi_k ,

    where :math:`P = D^{-1} W` walks along the affinities
    :math:`w_{ij} = e^{-d_{ij}^2 / (2 s^2)} / (q_i q_j)^\alpha`, with the density estimate
    :math:`q_i = \sum_j e^{-d_{ij}^2 / (2 s^2)}`, and :math:`\sum_i \pi_i \psi_k(i)^2 = 1` for the stationary
    distribution :math:`\pi`; :math:`\psi_0 = 1` is left out. With all n - 1 coordinates,

    .. math:: \|y_i - y_j\|^2 = \sum_r \frac{(P^t_{ir} - P^t_{jr})^2}{\pi_r} .

    With t = 0 and the same affinities these are Laplacian eigenmaps.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Columns orthogonal in the weights :math:`\pi`, of squared norm :math:`\lambda^{2t}`, with weighted mean 0.
    spectrum_ : Spectrum
        The eigenvalues :math:`\lambda` of P, descending, and :math:`\psi`; the constant is in ``dropped``.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The edge weights W of the sparse kernel; the complete one is not kept.
    graph_ : NeighborGraph
        The neighbor graph.
    diagnostics_ : dict
        Seconds, memory, ``stationary``, ``bandwidth`` and how many ``isolated_points`` have their own, ``kernel``,
        ``t``, ``skipped_eigenvectors``, values chosen by "auto".

    See Also
    --------
    LaplacianEigenmaps : the same with t = 0.
    CommuteTime : walks of any length.
    Isomap : geodesic distances without noise.

    Notes
    -----
    A callback cannot shorten this fit. The complete kernel is always connected. With one bandwidth it has no negative
    eigenvalues. Other kernels may have some; coordinates are in the order of the signed eigenvalues, and a warning is
    issued when a negative one outweighs them (P then nearly alternates). With a fractional t negative eigenvalues count
    as 0.

    New points: :math:`\psi(x) = \lambda^{-1} \sum_j p(x, j) \psi_j`, over all points with the complete kernel, over
    the neighbors with the sparse one; a new point that coincides with a fitted one gets its coordinates.

    Examples
    --------
    >>> from manifoldry import DiffusionMaps, datasets
    >>> model = DiffusionMaps(alpha=1.0).fit(datasets.swiss_roll(500).X)
    >>> model.embedding_.shape
    (500, 2)
    >>> round(float(model.diagnostics_["stationary"].sum()), 12)
    1.0
    """

    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(
        'Number of neighbors of each point, which determine the bandwidth and the edges of the sparse kernel; "auto" '
        "is 10, unless a radius is given.",
        default="auto",
    )
    t: NonNegative | Literal["auto"] = parameter(
        r'Number of steps of the walk; "auto" is where the entropy of the spectrum :math:`\lambda^t` stops decreasing '
        "fast.",
        default=1,
    )
    alpha: Fraction = parameter(
        "Exponent of the density normalization, from 0 (none) to 1 (full: the limit is heat flow on the manifold "
        "however unevenly it is sampled).",
        default=0.0,
    )
    bandwidth: Positive | Literal["auto", "variable"] = parameter(
        'Standard deviation s of the Gaussian. With "auto", :math:`2 s^2` is the median over the points of the mean '
        "squared distance to their neighbors; a point more than 1.5 times as far from its neighbors gets an s of its "
        r'own. With "variable", :math:`2 s_i s_j` replaces :math:`2 s^2`, with :math:`\sqrt2 s_i` the mean distance '
        r"of i to its neighbors. The kernel :math:`e^{-d^2/\sigma}` has :math:`s = \sqrt{\sigma/2}`.",
        default="auto",
    )
    kernel: Literal["auto", "complete", "sparse"] = parameter(
        'Affinities between all pairs, or along the edges of the neighbor graph. "auto" is complete for up to 3,000 '
        "points whose graph is connected, and sparse with ``remove_short_circuits``. Every point is joined to itself.",
        default="auto",
    )
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    affinity_matrix_: csr_array = fitted()

    _invertible = _local_inverse = True

    def diffusion_distances(self, t: float | None = None) -> FloatArray:
        r"""Return the diffusion distances between all fitted points after ``t`` steps.

        .. math:: D_t^2(i, j) = \sum_r \frac{(P^t_{ir} - P^t_{jr})^2}{\pi_r}

        from all eigenpairs, not only those of the embedding: O(n^3) time and a few n x n matrices.

        Parameters
        ----------
        t : float, optional
            Number of steps; that of the embedding by default.

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
        """
        check_is_fitted(self, "embedding_")
        steps = self.diagnostics_["t"] if t is None else check.number("t", t, 0.0)
        walk = self._fitted_walk()
        n = len(walk.degrees)
        run = self._run()
        run.announce("diffusion distances", 4 * 8 * n * n, "fit fewer points")
        A = walk.symmetric
        with blas_threads_for(n):
            values, vectors = np.linalg.eigh(A.toarray() if issparse(A) else A)
        full = vectors * _power(values, steps) / np.sqrt(walk.stationary)[:, None]
        return pairwise(full, full, "euclidean", None, run)

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the number of eigenvectors before a clear gap of I - P, else the measured dimension, and why.

        Parameters
        ----------
        max_components : int
            The largest dimension considered.
        """
        check_is_fitted(self, "embedding_")
        sparse = hasattr(self, "affinity_matrix_")
        walk = Affinity(within_largest(self.graph_, self.affinity_matrix_)) if sparse else self._fitted_walk()
        run, n = self._run(), len(walk.degrees)
        return eigengap(
            lambda count: np.maximum(1.0 - walk_eigenpairs(walk, count, run).values, 0.0),
            n,
            max_components,
            self._measured(),
        )

    def _embed(self, X: Any, run: Run) -> Embedding:
        sample = self._sample(X, run)
        if self._is_complete(sample):
            embedding = self._unfold_complete(sample, run)
        else:
            embedding = embed_components(sample, self._unfold, self.n_components, self.disconnected, run)
        return replace(embedding, notes={**sample.index.notes, **embedding.notes})

    def _is_complete(self, sample: NeighborhoodData) -> bool:
        if self.kernel == "complete" and sample.X is None:
            raise ValueError("The complete kernel needs points or all distances; got a graph: use kernel='sparse'.")
        if self.kernel == "complete" and self.remove_short_circuits:
            raise ValueError("remove_short_circuits concerns the edges of a graph: use kernel='sparse'.")
        if self.kernel != "auto" or self.remove_short_circuits:
            return self.kernel == "complete"
        # A walk between far components is a walk in name only.
        few = sample.n_points <= MAX_COMPLETE_POINTS
        return few and sample.X is not None and len(components(sample.graph)) == 1

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        bandwidth = self._scales(sample)
        affinity = graph_affinity(sample.graph, bandwidth, loops=True)
        if copies := embed_duplicates(sample, n_components, affinity.matrix):
            return copies
        return self._diffuse(sample, affinity, bandwidth, n_components, None, run)

    def _unfold_complete(self, sample: NeighborhoodData, run: Run) -> Embedding:
        n = sample.n_points
        run.announce("kernel", 2 * 8 * n * n, "use kernel='sparse'")
        bandwidth = self._scales(sample)
        metric = "precomputed" if sample.pairwise else self.metric
        distances = FittedDistances(sample.X, metric, self.metric_params)
        with run.stage("kernel"):
            affinity = complete_affinity(distances(sample.X, run), bandwidth)
        return self._diffuse(sample, affinity, bandwidth, self.n_components, distances, run)

    def _diffuse(
        self,
        sample: NeighborhoodData,
        affinity: Affinity,
        bandwidth: Bandwidth,
        n_components: int,
        distances: FittedDistances | None,
        run: Run,
    ) -> Embedding:
        walk = affinity.without_density(self.alpha)
        spectrum, skipped = skip_localized(
            lambda count: walk_eigenpairs(walk, count, run),
            n_components,
            sample.n_points - 1,
            self.min_participation,
        )
        if distances is None or isinstance(bandwidth, Bandwidths):
            _warn_of_alternation(walk, spectrum, run)
        t = _entropy_knee(walk, run) if self.t == "auto" else float(self.t)
        coordinates = spectrum.vectors * _power(spectrum.values, t)
        extension = DiffusionNystrom(
            sample.index, bandwidth, affinity.degrees**-self.alpha, coordinates, spectrum.values, distances
        )
        notes = {
            **bandwidth_notes(bandwidth),
            **skipped,
            "kernel": "sparse" if distances is None else "complete",
            "stationary": walk.stationary,
            "t": t,
        }
        fitted = {"affinity_matrix_": walk.matrix} if distances is None else {}
        return Embedding(
            coordinates, graph=sample.graph, spectrum=spectrum, extension=extension, notes=notes, fitted=fitted
        )

    def _scales(self, sample: NeighborhoodData) -> Bandwidth:
        if self.bandwidth == "variable":
            return local_bandwidths(sample.graph)
        return automatic_bandwidth(sample.neighbors) if self.bandwidth == "auto" else float(self.bandwidth)

    def _fitted_walk(self) -> Affinity:
        """Return the walk of the fit once more; separate components had several."""
        fitted = self._extension
        if not isinstance(fitted, DiffusionNystrom):
            raise ValueError("Diffusion distances need one connected walk; fit with disconnected='bridge'.")
        if fitted.distances is None:
            return Affinity(self.affinity_matrix_)
        affinity = complete_affinity(fitted.distances(fitted.distances.X, self._run()), fitted.bandwidth)
        return affinity.without_density(self.alpha)


def _power(values: FloatArray, t: float) -> FloatArray:
    """Return eigenvalues to the power t; negative ones have no fractional power and count as 0."""
    return (values if float(t).is_integer() else np.maximum(values, 0.0)) ** t


def _warn_of_alternation(walk: Affinity, spectrum: Spectrum, run: Run) -> None:
    # P >= 2 min p_ii - 1 (Gershgorin): mostly that is enough to know.
    stay = float((walk.matrix.diagonal() / walk.degrees).min())
    last = float(spectrum.values[-1])
    if 1 - 2 * stay <= last:
        return
    lowest = float(smallest(walk.symmetric, 1, tol=ALTERNATION_TOL, run=run).values[0])
    if -lowest > max(last, 0.0) + ALTERNATION_TOL:
        warn(
            f"The walk has an eigenvalue {lowest:.2g}, larger in magnitude than the {last:.2g} of the last coordinate; "
            "use a larger bandwidth or more neighbors, or fewer components."
        )


def _entropy_knee(walk: Affinity, run: Run) -> float:
    r"""Return the time at which the entropy of :math:`|\lambda|^t / \sum |\lambda|^t` bends (moon2019)."""
    count = min(N_ENTROPY_VALUES, len(walk.degrees) - 1)
    values = np.concatenate([[1.0], np.clip(np.abs(walk_eigenpairs(walk, count, run).values), 0.0, 1.0)])
    times = np.arange(1, MAX_ENTROPY_TIME + 1)
    powers = values ** times[:, None].astype(np.float64)
    shares = powers / powers.sum(axis=1, keepdims=True)
    entropy = -np.sum(shares * np.log(np.where(shares > 0, shares, 1.0)), axis=1)
    chord = np.linspace(entropy[0], entropy[-1], len(times))
    return float(times[np.argmax(chord - entropy)])
