"""UMAP: neighborhoods measured each by its own ruler, and a layout that keeps their affinities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry import check
from manifoldry.base.embedder import count_points
from manifoldry.base.estimator import estimator
from manifoldry.base.neighbors import NeighborEmbedder
from manifoldry.extend.sampled import SampledPlacement
from manifoldry.geometry.fuzzy import curve, fuzzy_set, meet_labels, meet_targets, typical_length
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.sampled import Forces, sampled_layout
from manifoldry.values import Array, Embedding, FloatArray, IntArray, NeighborGraph

AUTO_NEIGHBORS = 15
FEW_POINTS, MANY_EPOCHS, EPOCHS = 10_000, 500, 200
"""Up to so many points the first number of epochs, beyond the second."""
SIZE, GRID = 10.0, 2**14
"""Width of every column of a start that is not given, and the steps to which it is rounded: chance magnifies the
smallest difference, so the rounding errors of an eigenproblem are not to reach it."""
NEW_SWEEPS, NEW_RATE = 30, 0.25
"""How long, and with what share of the learning rate, new points are led."""


@register(
    family="neighbor",
    problem="descent",
    papers=("mcinnes2018", "damrich2021"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a neighbor of whom, and more of the arrangement of clusters than t-SNE",
    loses="distances and densities: a layout is drawn as if the points were spread evenly over the manifold",
    use_when="clusters of many points are to be seen, or made ready for a clustering, quickly and with labels if any",
    fails_when="distances or densities are read off the map, or neighborhoods are mostly noise",
    cost="O(n k) an epoch, 200 to 500 epochs, after the neighbor search: to millions of points",
    test_params={"n_components": 2, "n_neighbors": 5, "n_epochs": 200},
)
@estimator
class UMAP(NeighborEmbedder):
    r"""Uniform manifold approximation and projection.

    .. math:: \min_Y -\sum_{ij} w_{ij} \ln q_{ij} + (1 - w_{ij}) \ln (1 - q_{ij}), \qquad
        w = A + A^T - A \circ A^T, \quad A_{ij} = e^{-\max(0, d_{ij} - \rho_i) / \sigma_i}, \quad
        q_{ij} = \frac{1}{1 + a \|y_i - y_j\|^{2b}} ,

    with :math:`\rho_i` the distance of i to its nearest neighbor and :math:`\sigma_i` such that over the k listed
    neighbors :math:`\sum_j A_{ij} = \log_2 (k + 1)`. The descent visits affinities in proportion to their strength, and
    a few random points repel in place of all.

    Every point moves itself, among the others as they were half an epoch before, with random numbers of its own; so one
    seed gives the same bits on any number of threads.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Listed neighbors, the point itself not counted; "auto" is 15, or n - 1 for fewer points. (Programs that count
        the point itself need one more for the same affinities.)
    min_dist : float
        How near to each other joined points may lie in the layout; at most ``spread``.
    spread : float
        Scale of the layout: affinities fade over this distance.
    n_epochs : int or "auto"
        Times that the strongest affinities are visited; "auto" is 500, or 200 for more than 10,000 points.
    learning_rate : float
        First step length; it falls to 0.
    negative_sample_rate : int
        Random points that repel, for each visit of an edge.
    repulsion_strength : float
        Factor of their repulsion.
    set_op_mix_ratio : float
        1 for the fuzzy union of the two ends' strengths, 0 for their product, between for a mixture.
    local_connectivity : float
        :math:`\rho` is the distance to the so-many-th nearest neighbor, linear in between.
    target_metric : {"categorical", "numeric"}
        What ``y`` holds, if it is given: classes, or numbers whose differences matter.
    target_weight : float
        0 for the points alone to count (nearly), 1 for the targets alone.
    metric, metric_params
        As in scikit-learn, or "precomputed": ``X`` holds pairwise distances, or a sparse graph of lengths.
    search : {"auto", "exact", "approximate"}
        How neighbors are found; approximate searches report their recall in ``diagnostics_``.
    init : {"auto", "spectral", "pca", "random"} or array of shape (n_samples, n_components)
        Where to begin: slow eigenvectors of the affinities, principal components, chance, or a given layout, which is
        taken as it is. "auto" is "pca" where there are rows or distances, else "spectral".
    random_state : int, Generator or None
        Seed of the search, the start and the layout.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Tell the stages on the standard error stream.
    callback : callable, optional
        Called with a `Progress`; if it returns true the layout reached so far is the result.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout.
    graph_ : NeighborGraph
        The listed neighbors.
    affinity_ : csr_array of shape (n_samples, n_samples)
        The symmetric affinities w, met with the targets if any: ready for a clustering of precomputed affinities.
    a_, b_ : float
        The layout's kernel.
    trace_ : Trace
        What the descent lowers, at its start and end: estimated from random pairs.
    diagnostics_ : dict
        Seconds, memory, what "auto" chose, the recall of an approximate search.

    Notes
    -----
    References: mcinnes2018, damrich2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manifoldry import UMAP
    >>> X, y = load_iris(return_X_y=True)
    >>> model = UMAP().fit(X)
    >>> model.embedding_.shape, model.affinity_.shape
    ((150, 2), (150, 150))
    >>> UMAP().fit(X, y).transform(X[:3]).shape
    (3, 2)
    """

    n_neighbors: int | str = "auto"
    min_dist: float = 0.1
    spread: float = 1.0
    init: Any = "spectral"
    n_epochs: int | str = "auto"
    learning_rate: float = 1.0
    negative_sample_rate: int = 5
    repulsion_strength: float = 1.0
    set_op_mix_ratio: float = 1.0
    local_connectivity: float = 1.0
    target_metric: str = "categorical"
    target_weight: float = 0.5

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_neighbors", self._k(n_points), 1, n_points - 1, f" for {n_points} points")
        check.number("spread", self.spread, 0.0, open_low=True)
        if check.number("min_dist", self.min_dist, 0.0) > self.spread:
            raise ValueError(f"min_dist must be at most spread = {self.spread:g}; got {self.min_dist:g}.")
        check.integer("n_epochs", self._epochs(n_points), 0)
        check.number("learning_rate", self.learning_rate, 0.0, open_low=True)
        check.integer("negative_sample_rate", self.negative_sample_rate, 0)
        check.number("repulsion_strength", self.repulsion_strength, 0.0)
        check.number("local_connectivity", self.local_connectivity, 0.0)
        check.choice("target_metric", self.target_metric, ("categorical", "numeric"))
        for name in ("set_op_mix_ratio", "target_weight"):
            if check.number(name, getattr(self, name), 0.0) > 1.0:
                raise ValueError(f"{name} must be between 0 and 1; got {getattr(self, name)}.")

    def _k(self, n_points: int) -> Any:
        return min(AUTO_NEIGHBORS, n_points - 1) if self.n_neighbors == "auto" else self.n_neighbors

    def _epochs(self, n_points: int) -> Any:
        if self.n_epochs == "auto":
            return MANY_EPOCHS if n_points <= FEW_POINTS else EPOCHS
        return self.n_epochs

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        n = count_points(X)
        graph, index = self._lists(X, self._k(n), run)
        with run.stage("affinities"):
            affinities = fuzzy_set(graph, run, self.local_connectivity, self.set_op_mix_ratio)
            if y is not None:
                affinities = self._met(affinities, y, run)
        a, b = curve(self.min_dist, self.spread)
        forces = Forces(a, b, self.negative_sample_rate, self.repulsion_strength, self.learning_rate, self._epochs(n))
        start = self._start(X, affinities, run)
        if isinstance(self.init, str):
            start = _stretched(start)
        layout, trace = sampled_layout(start, affinities, forces, run)
        return Embedding(
            layout,
            graph=graph,
            trace=trace,
            extension=self._placement(layout, forces, graph, index, run),
            notes={**index.notes, "n_epochs": forces.n_epochs},
            fitted={"affinity_": affinities, "a_": a, "b_": b},
        )

    def _met(self, affinities: csr_array, y: Any, run: Run) -> csr_array:
        """Return the affinities met with the targets that are known, if any are."""
        n = affinities.shape[0]
        if self.target_metric == "categorical":
            labels, known = _classes(y, n)
            return meet_labels(affinities, labels, known, self.target_weight) if known.any() else affinities
        numbers, known = _numbers(y, n)
        if known.sum() < 2:
            return affinities
        return meet_targets(affinities, numbers, known, self.target_weight, self._k(n), run)

    def _placement(
        self, layout: FloatArray, forces: Forces, graph: NeighborGraph, index: NeighborIndex, run: Run
    ) -> SampledPlacement:
        rng = run.rng("new points")
        return SampledPlacement(
            index,
            layout,
            replace(forces, learning_rate=NEW_RATE * forces.learning_rate),
            self.local_connectivity,
            typical_length(graph.indptr, graph.lengths),
            int(rng.integers(2**32)),
            rng.integers(2**64, size=NEW_SWEEPS, dtype=np.uint64),
        )


def _stretched(Y: FloatArray) -> FloatArray:
    """Return a start whose columns all span the same width about 0, on a grid."""
    low, high = Y.min(axis=0), Y.max(axis=0)
    share = (Y - low) / np.where(high > low, high - low, 1.0)
    return SIZE * (np.round(GRID * share) / GRID - 0.5)


def _classes(y: Any, n_points: int) -> tuple[IntArray, Array]:
    """Return classes as numbers, and which are known: not -1, NaN or None."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_points,):
        raise ValueError(
            f"Categorical targets need one class for each of the {n_points} points; got shape {labels.shape}."
        )
    known: Array = np.asarray((labels == labels) & (labels != -1) & (labels != np.array(None)), dtype=bool)
    numbers = np.zeros(n_points, dtype=np.int64)
    numbers[known] = np.unique(labels[known], return_inverse=True)[1]
    return numbers, known


def _numbers(y: Any, n_points: int) -> tuple[FloatArray, Array]:
    """Return numeric targets in columns, and which rows are known: finite in all of them."""
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("Numeric targets must be numbers; use target_metric='categorical' for classes.") from None
    targets = targets.reshape(len(targets), -1) if targets.ndim else targets
    if targets.ndim != 2 or len(targets) != n_points:
        raise ValueError(f"Numeric targets need one row for each of the {n_points} points; got shape {np.shape(y)}.")
    return targets, np.asarray(np.isfinite(targets).all(axis=1))
