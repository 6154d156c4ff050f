"""Diffusion maps: keep how easily a random walk gets from one point to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base import estimator
from manifoldry.base.affinities import AffinityEmbedder
from manifoldry.extend.kernel import DiffusionNystrom
from manifoldry.extend.placement import FittedDistances, pairwise
from manifoldry.geometry.affinity import Affinity, complete_affinity, graph_affinity, local_bandwidths, mean_bandwidth
from manifoldry.neighbors.graph import components
from manifoldry.neighbors.sample import Sample
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import largest, smallest
from manifoldry.values import Embedding, FloatArray, NeighborGraph, Spectrum
from manifoldry.warnings import warn

COMPLETE_POINTS = 3000
"""Up to this many points "auto" takes the complete kernel: 72 MB and about two seconds."""
ENTROPY_VALUES, ENTROPY_STEPS = 50, 100
"""Eigenvalues and times over which the entropy of the spectrum is followed for t="auto"."""
LOOSE = 1e-3
"""Relative residual at which the lowest eigenvalue is known well enough to warn of it."""


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
class DiffusionMaps(AffinityEmbedder):
    r"""Diffusion maps: coordinates whose distances are those of a random walk after t steps.

    .. math:: y_i = (\lambda_1^t \psi_1(i), \dots, \lambda_d^t \psi_d(i)), \qquad P \psi_k = \lambda_k \psi_k ,

    where :math:`P = D^{-1} W` walks along the affinities
    :math:`w_{ij} = e^{-d_{ij}^2 / (2 s^2)} / (q_i q_j)^\alpha`, with the density estimate
    :math:`q_i = \sum_j e^{-d_{ij}^2 / (2 s^2)}`, and :math:`\sum_i \pi_i \psi_k(i)^2 = 1` for the stationary
    distribution :math:`\pi`; :math:`\psi_0 = 1` is left out. With all n - 1 coordinates,

    .. math:: \|y_i - y_j\|^2 = \sum_r \frac{(P^t_{ir} - P^t_{jr})^2}{\pi_r} .

    With t = 0 and the same affinities these are Laplacian eigenmaps.

    Parameters
    ----------
    n_components : int
        Target dimension.
    t : float or "auto"
        Steps of the walk; "auto" is where the entropy of the spectrum :math:`\lambda^t` stops falling fast.
    alpha : float
        How much of the sampling density is divided out, from 0 (none) to 1 (all: the limit is heat flow on the
        manifold however unevenly it is sampled).
    bandwidth : "auto", "variable" or float
        The s of the Gaussian; "auto": :math:`2 s^2` is the mean squared length of the edges of the neighbor graph.
        "variable": :math:`2 s_i s_j` stands for it, with :math:`\sqrt2 s_i` the mean distance of i to its neighbors.
        Written :math:`e^{-d^2/\sigma}` the kernel has :math:`s = \sqrt{\sigma/2}`.
    kernel : {"auto", "complete", "sparse"}
        Affinities between all pairs, or along the edges of the neighbor graph; "auto" is complete up to 3,000
        points whose graph is connected.
        Every point is joined to itself.
    n_neighbors : int or "auto"
        Neighbors of each point; "auto" is 10, unless a radius is given. They set the bandwidth, and the edges of
        the sparse kernel.
    radius : float, optional
        Neighbors are all points at most this far; with ``n_neighbors`` too, at most that many of them.
    metric, metric_params
        As in scikit-learn, or "precomputed": ``X`` holds pairwise distances, or a sparse graph of lengths.
    search : {"auto", "exact", "approximate"}
        How neighbors are found; approximate searches report their recall in ``diagnostics_``.
    symmetry : {"or", "and"}
        Whether a pair needs to be listed by one end or by both.
    disconnected : {"apart", "bridge", "largest", "raise"}
        What to do with a graph in pieces: embed each piece apart, join by shortest bridges (with a warning), keep
        the largest (the other points get NaN), or refuse. The complete kernel has no pieces.
    random_state : int, Generator or None
        Seed; used only for approximate search.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Tell the stages on the standard error stream.
    callback : callable, optional
        Called with a `Progress`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Columns orthogonal in the weights :math:`\pi`, of squared norm :math:`\lambda^{2t}`, with weighted mean 0.
    spectrum_ : Spectrum
        The eigenvalues :math:`\lambda` of P, descending, and :math:`\psi`; the constant is in ``dropped``.
    graph_ : NeighborGraph
        The neighbor graph.
    diagnostics_ : dict
        Seconds, memory, ``stationary``, ``bandwidth``, ``kernel``, ``t``, what "auto" chose.

    Notes
    -----
    The complete kernel of one bandwidth has no negative eigenvalues. Others may; coordinates are in the order of the
    eigenvalues with their signs, and a warning tells when a negative one outweighs them (P then nearly alternates).
    With a fractional t negative eigenvalues count as 0.

    New points: :math:`\psi(x) = \lambda^{-1} \sum_j p(x, j) \psi_j`, over everyone with the complete kernel, over
    the neighbors with the sparse one; a new point that coincides with a fitted one takes its place.

    References: coifman2006, bengio2004, zelnikmanor2005, moon2019.

    Examples
    --------
    >>> from manifoldry import DiffusionMaps, datasets
    >>> model = DiffusionMaps(alpha=1.0).fit(datasets.swiss_roll(500).X)
    >>> model.embedding_.shape
    (500, 2)
    >>> round(float(model.diagnostics_["stationary"].sum()), 12)
    1.0
    """

    t: float | str = 1
    alpha: float = 0.0
    kernel: str = "auto"

    _extra_metrics = ()
    _bandwidth_words = ("auto", "variable")

    def diffusion_distances(self, t: float | None = None) -> FloatArray:
        r"""Return the diffusion distances between all fitted points after ``t`` steps.

        .. math:: D_t^2(i, j) = \sum_r \frac{(P^t_{ir} - P^t_{jr})^2}{\pi_r}

        from all eigenpairs, not only those of the embedding: O(n^3) time and a few n x n matrices.

        Parameters
        ----------
        t : float, optional
            Steps; those of the embedding by default.

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
        values, vectors = np.linalg.eigh(A.toarray() if issparse(A) else A)
        full = vectors * _power(values, steps) / np.sqrt(walk.stationary)[:, None]
        return pairwise(full, full, "euclidean", None, run)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.t != "auto":
            check.number("t", self.t, 0.0)
        if check.number("alpha", self.alpha, 0.0) > 1:
            raise ValueError(f"alpha must be between 0 and 1; got {self.alpha}.")
        check.choice("kernel", self.kernel, ("auto", "complete", "sparse"))

    def _embed(self, X: Any, run: Run) -> Embedding:
        graph_given = isinstance(X, NeighborGraph) or (self._pairwise and issparse(X))
        if self.kernel == "complete" and graph_given:
            raise ValueError("The complete kernel needs points or all distances; got a graph: use kernel='sparse'.")
        if self.kernel == "sparse" or graph_given or (self.kernel == "auto" and X.shape[0] > COMPLETE_POINTS):
            return super()._embed(X, run)
        sample = self._sample(X, run)
        if self.kernel == "auto" and len(components(sample.graph)) > 1:
            return super()._embed(X, run)  # a walk between far pieces is a walk in name only
        embedding = self._follow_complete(sample, run)
        return replace(embedding, notes={**sample.index.notes, **embedding.notes})

    def _follow(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        bandwidth = self._scales(sample.graph)
        affinity = graph_affinity(sample.graph, bandwidth, loops=True)
        return self._diffuse(sample, affinity, bandwidth, n_components, None, run)

    def _follow_complete(self, sample: Sample, run: Run) -> Embedding:
        n = sample.n_points
        run.announce("kernel", 2 * 8 * n * n, "use kernel='sparse'")
        bandwidth = self._scales(sample.graph)
        metric = "precomputed" if sample.pairwise else self.metric
        distances = FittedDistances(sample.X, metric, self.metric_params)
        with run.stage("kernel"):
            affinity = complete_affinity(distances(sample.X, run), bandwidth)
        return self._diffuse(sample, affinity, bandwidth, self.n_components, distances, run)

    def _diffuse(
        self,
        sample: Sample,
        affinity: Affinity,
        bandwidth: float | FloatArray,
        n_components: int,
        distances: FittedDistances | None,
        run: Run,
    ) -> Embedding:
        walk = affinity.without_density(self.alpha)
        spectrum = _walk_pairs(walk, n_components, run)
        if distances is None or np.ndim(bandwidth):
            _warn_of_alternation(walk, spectrum, run)
        t = _entropy_knee(walk, run) if self.t == "auto" else float(self.t)
        coordinates = spectrum.vectors * _power(spectrum.values, t)
        extension = DiffusionNystrom(
            sample.index, bandwidth, affinity.degrees**-self.alpha, coordinates, spectrum.values, distances
        )
        notes = {
            "bandwidth": bandwidth,
            "kernel": "sparse" if distances is None else "complete",
            "stationary": walk.stationary,
            "t": t,
        }
        return Embedding(coordinates, graph=sample.graph, spectrum=spectrum, extension=extension, notes=notes)

    def _scales(self, graph: NeighborGraph) -> float | FloatArray:
        if self.bandwidth == "variable":
            return local_bandwidths(graph)
        return mean_bandwidth(graph) if self.bandwidth == "auto" else float(self.bandwidth)

    def _fitted_walk(self) -> Affinity:
        """Return the walk of the fit once more; an embedding in pieces had several."""
        fitted = self._extension
        if not isinstance(fitted, DiffusionNystrom):
            raise ValueError("Diffusion distances need one connected walk; fit with disconnected='bridge'.")
        if fitted.distances is None:
            affinity = graph_affinity(self.graph_, fitted.bandwidth, loops=True)
        else:
            affinity = complete_affinity(fitted.distances(fitted.distances.X, self._run()), fitted.bandwidth)
        return affinity.without_density(self.alpha)

    def _leading_values(self, graph: NeighborGraph, count: int, run: Run) -> FloatArray:
        if isinstance(self._extension, DiffusionNystrom):
            walk = self._fitted_walk()
        else:
            walk = graph_affinity(graph, self._scales(graph), loops=True).without_density(self.alpha)
        return np.maximum(1.0 - _walk_pairs(walk, min(count, len(walk.degrees) - 1), run).values, 0.0)


def _walk_pairs(walk: Affinity, count: int, run: Run) -> Spectrum:
    r"""Return the leading eigenpairs of P after the constant, with :math:`\sum_i \pi_i \psi(i)^2 = 1`.

    They are those of :math:`D^{-1/2} W D^{-1/2}`; a sparse one is turned over, :math:`I - D^{-1/2} W D^{-1/2}`, for
    the low end of a Laplacian is where sparse solvers are at home.
    """
    A, roots = walk.symmetric, np.sqrt(walk.stationary)
    if issparse(A):
        flipped = smallest(diags_array(np.ones(len(roots))) - A, count, null=roots, run=run)
        found = replace(flipped, values=1.0 - flipped.values, order="largest", dropped=1.0 - flipped.dropped)
    else:
        found = largest(A, count, known=roots, run=run)
    return replace(found, vectors=found.vectors / roots[:, None])


def _power(values: FloatArray, t: float) -> FloatArray:
    """Return eigenvalues to the power t; negative ones have no fractional power and count as 0."""
    whole = float(t).is_integer()
    return (values if whole else np.maximum(values, 0.0)) ** t


def _warn_of_alternation(walk: Affinity, spectrum: Spectrum, run: Run) -> None:
    # P >= 2 min p_ii - 1 (Gershgorin): mostly that is enough to know.
    stay = float((walk.matrix.diagonal() / walk.degrees).min())
    last = float(spectrum.values[-1])
    if 1 - 2 * stay <= last:
        return
    lowest = float(smallest(walk.symmetric, 1, tol=LOOSE, run=run).values[0])
    if -lowest > max(last, 0.0) + LOOSE:
        warn(
            f"The walk has an eigenvalue {lowest:.2g}, larger in magnitude than the {last:.2g} of the last coordinate; "
            "use a larger bandwidth or more neighbors, or fewer components."
        )


def _entropy_knee(walk: Affinity, run: Run) -> float:
    r"""Return the time at which the entropy of :math:`|\lambda|^t / \sum |\lambda|^t` bends from fast to slow decay.

    That is the time farthest below the straight line from the curve's beginning to its end.

    References: moon2019
    """
    count = min(ENTROPY_VALUES, len(walk.degrees) - 1)
    values = np.concatenate([[1.0], np.clip(np.abs(_walk_pairs(walk, count, run).values), 0.0, 1.0)])
    times = np.arange(1, ENTROPY_STEPS + 1)
    powers = values ** times[:, None].astype(np.float64)
    shares = powers / powers.sum(axis=1, keepdims=True)
    entropy = -np.sum(shares * np.log(np.where(shares > 0, shares, 1.0)), axis=1)
    chord = np.linspace(entropy[0], entropy[-1], len(times))
    return float(times[np.argmax(chord - entropy)])
