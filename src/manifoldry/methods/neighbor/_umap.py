"""UMAP: a fuzzy simplicial set of neighborhoods, each in its own metric, and a layout that keeps it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import Fraction, NonNegative, NonNegativeInt, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, NeighborGraph, Trace
from manifoldry._numerics.descent.initialization import Init, check_init, rounded_layout
from manifoldry._numerics.descent.leave_one_out import SampledLeftOut
from manifoldry._numerics.descent.negative_sampling import (
    DensityGoal,
    LayoutParameters,
    log_local_radii,
    multilevel_start,
    optimize_layout,
    prepare_layout,
    sampling_rates,
)
from manifoldry._numerics.geometry.neighbor_affinity import (
    N_FUZZY_NEIGHBORS,
    find_ab_params,
    fuzzy_simplicial_set,
    intersect_labels,
    intersect_targets,
    mean_length,
    membership_strengths,
)
from manifoldry._numerics.patches.start import find_start
from manifoldry.graph._operations import distinct_rows, list_neighbors
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import DeviceMixin, Embedder, Metric, count_points
from manifoldry.methods._base._estimator import estimator, fitted
from manifoldry.methods._base._targets import known_classes, known_numbers
from manifoldry.methods._base._texts import (
    METRIC_PARAMS_TEXT,
    METRIC_TEXT,
    MIN_DIST_TEXT,
    NEGATIVE_SAMPLES_TEXT,
    REPULSION_STRENGTH_TEXT,
    SEARCH_TEXT,
    SPREAD_TEXT,
)
from manifoldry.methods.neighbor._update import LayoutProblem, UpdateMixin

FEW_POINTS, FEW_POINTS_EPOCHS, MANY_POINTS_EPOCHS = 10_000, 500, 200
"""Up to so many points the first number of epochs, beyond the second."""
LEARNING_RATE, SHAPED_LEARNING_RATE = 1.0, 0.25
"""Learning rate, and that from a start with the shape of the data. From there a lower one ends at a lower objective (on
a roll of 2,000 points 2.93, 2.80, 2.78, 2.76 with 1, 0.5, 0.25, 0.1: the highest bends it at random first), and half
the epochs keep as many neighbors."""


@dataclass(frozen=True)
class FuzzySet:
    """The neighbors of points, their fuzzy simplicial set, and the density that a layout should have."""

    graph: NeighborGraph
    index: NeighborIndex
    weights: csr_array
    goal: DensityGoal | None
    notes: dict[str, str]


@register(
    problem="descent",
    papers=("mcinnes2018", "damrich2021", "narayan2021", "walshaw2003"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a neighbor of whom, and more of the arrangement of clusters than t-SNE",
    loses="distances, and densities unless densmap: a layout is drawn as if points lay evenly on the manifold",
    use_when="clusters of many points should be visible quickly, with labels if any, or prepared for a clustering",
    fails_when="distances, or densities without densmap, are read off the map, or neighborhoods are mostly noise",
    cost="O(n k) an epoch, 200 to 500 epochs, after the neighbor search: to millions of points",
    test_params={"n_components": 2, "n_neighbors": 5, "n_epochs": 200},
)
@estimator
class UMAP(UpdateMixin, DeviceMixin, Embedder):
    r"""Draw clusters of many points quickly, with labels if there are any, or prepare them for a clustering.

    Uniform manifold approximation and projection minimizes

    .. math:: \min_Y -\sum_{ij} w_{ij} \ln q_{ij} + (1 - w_{ij}) \ln (1 - q_{ij}), \qquad
        w = A + A^T - A \circ A^T, \quad A_{ij} = e^{-\max(0, d_{ij} - \rho_i) / \sigma_i}, \quad
        q_{ij} = \frac{1}{1 + a \|y_i - y_j\|^{2b}} ,

    with :math:`\rho_i` the distance of i to its nearest neighbor and :math:`\sigma_i` such that over the k listed
    neighbors :math:`\sum_j A_{ij} = \log_2 (k + 1)`. The descent samples edges in proportion to their weight, and a few
    negative samples repel in place of all points.

    Every point moves on its own, relative to the others as they were half an epoch before, with random numbers of its
    own; so results are bit-identical for any number of threads. On a GPU all stages run there but targets, the layout
    with ``densmap`` and the inverse transform; the random numbers are the CPU's, and rounding differs.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout.
    graph_ : NeighborGraph
        The list of neighbors of each point.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The fuzzy simplicial set w, intersected with the targets if any: ready for a clustering of precomputed
        affinities.
    a_, b_ : float
        Parameters of the layout's kernel q.
    rad_orig_, rad_emb_ : ndarray of shape (n_samples,)
        With ``densmap``: log squared local radii of the points in the data, and in the layout by a fuzzy set of its own
        neighbors, as in umap-learn.
    trace_ : Trace
        The objective at the start and end of the descent, estimated from random pairs.
    diagnostics_ : dict
        Seconds, memory, what "auto" chose (``init``, ``n_epochs``), the recall of an approximate search.

    See Also
    --------
    TSNE : finer neighborhoods.
    ParametricUMAP : a small map for streams of new rows.
    LaplacianEigenmaps : the spectral start alone.
    IPA : true distances of a surface.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manifoldry import UMAP
    >>> X, y = load_iris(return_X_y=True)
    >>> model = UMAP().fit(X)
    >>> model.embedding_.shape, model.affinity_matrix_.shape
    ((150, 2), (150, 150))
    >>> UMAP().fit(X, y).transform(X[:3]).shape
    (3, 2)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of neighbors, not counting the point itself; "auto" is 15, or n - 1 for fewer points, or the number '
        "that a given graph lists, whose shortest edges are used if it lists more. (umap-learn counts the point "
        "itself, so it needs one more for the same result.)",
        default="auto",
    )
    min_dist: NonNegative = parameter(MIN_DIST_TEXT, default=0.1)
    spread: Positive = parameter(SPREAD_TEXT, default=1.0)
    metric: Metric = parameter(METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    init: Init = parameter(
        'Initial layout: "ipa" aligns overlapping patches in n_components dimensions, as `IPA` does, scaled to where '
        'the objective is smallest; "spectral" uses the eigenvectors of the smallest nonzero eigenvalues of the '
        'graph; "pca" principal components; or a given array, whose shape matters, not its unit. All but "ipa" are '
        'scaled to a width of 10. "auto" is "ipa" if patches of rows (dense, Euclidean metric, no targets) fit '
        "together as a flat surface of n_components dimensions, which takes up to a second to test; otherwise "
        '"spectral", or for more than 10,000 points "multilevel": groups of neighbors are laid out first, and '
        "each point starts at its group.",
        default="auto",
    )
    n_epochs: NonNegativeInt | Literal["auto"] | None = parameter(
        'Number of epochs; "auto" and None are 500, or 200 for more than 10,000 points, halved if the initial layout '
        'is "ipa".',
        default="auto",
    )
    learning_rate: Positive | Literal["auto"] = parameter(
        'Initial learning rate, which decreases linearly to 0; "auto" is 1, or 0.25 if the initial layout is "ipa", '
        "which already has its shape.",
        default="auto",
    )
    negative_sample_rate: NonNegativeInt = parameter(NEGATIVE_SAMPLES_TEXT, default=5)
    repulsion_strength: NonNegative = parameter(REPULSION_STRENGTH_TEXT, default=1.0)
    set_op_mix_ratio: Fraction = parameter(
        "1 for the fuzzy union of the memberships of the two ends of an edge, 0 for their intersection, and a "
        "mixture in between.",
        default=1.0,
    )
    local_connectivity: NonNegative = parameter(
        r"Number of neighbors with membership 1: :math:`\rho` is the distance to that nearest neighbor, linear in "
        "between.",
        default=1.0,
    )
    target_metric: Literal["categorical", "numeric"] = parameter(
        "What ``y`` holds, if it is given: classes, or numbers whose differences matter.", default="categorical"
    )
    target_weight: Fraction = parameter(
        "Weight of the targets: 0 for (nearly) the points alone, 1 for the targets alone.", default=0.5
    )
    target_n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of neighbors among numeric targets; "auto" is ``n_neighbors``.', default="auto"
    )
    a: Positive | None = parameter(
        "Parameter a of the layout's kernel q, given together with b; None follows from ``min_dist`` and ``spread``.",
        default=None,
    )
    b: Positive | None = parameter(
        "Parameter b of the layout's kernel q, given together with a; None follows from ``min_dist`` and ``spread``.",
        default=None,
    )
    unique: bool = parameter(
        "Whether equal rows are embedded once, at the same coordinates; ``graph_`` and ``affinity_matrix_`` are then "
        "those of the distinct rows, in the order of their first occurrence, and the first of their targets counts.",
        default=False,
    )
    densmap: bool = parameter(
        "Whether local radii in the layout follow those in the data, as in densMAP: the objective gets the term "
        r":math:`-\lambda \sum_{ij} w_{ij}\, \mathrm{corr}(r^{data}, r)`, with :math:`r_i` the logarithms of the mean "
        "squared distances along the edges, weighted by w in the data and by q in the layout. Neighbors are kept "
        "less well, and outliers are drawn far out; new points are embedded without the term.",
        default=False,
    )
    dens_lambda: NonNegative = parameter(
        r"Weight :math:`\lambda` of the density term; with 0 the layout is bit-identical to that of UMAP. Use 0.1 to "
        "0.5 if outliers dominate the picture.",
        default=2.0,
    )
    dens_frac: Fraction = parameter("Share of the epochs, the last ones, with the density term.", default=0.3)
    dens_var_shift: Positive = parameter(
        "Constant added to the variance of the layout's log radii in the correlation, so that they do not all become "
        "equal.",
        default=0.1,
    )

    affinity_matrix_: csr_array = fitted()
    a_: float = fitted()
    b_: float = fitted()
    rad_orig_: FloatArray = fitted()
    rad_emb_: FloatArray = fitted()

    _accepts_graphs: ClassVar[bool] = True
    _invertible: ClassVar[bool] = True
    _local_inverse: ClassVar[bool] = True

    _chunk_support = ChunkSupport(n_rows=100_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._rule(n_points)
        if self.min_dist > self.spread:
            raise ValueError(f"min_dist must be at most spread = {self.spread:g}; got {self.min_dist:g}.")
        if (self.a is None) != (self.b is None):
            raise ValueError(f"a and b belong together: give both or none; got a={self.a!r} and b={self.b!r}.")

    def _rule(self, n_points: int) -> NeighborRule:
        rule = NeighborRule(self.n_neighbors, None, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points, N_FUZZY_NEIGHBORS)

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        check_init(self.init, X, self.n_components, self._pairwise)
        if not self.unique or not self._has_rows(X):
            return self._lay_out(X, y, self.init, run)
        first, inverse = distinct_rows(X)
        init = self.init if isinstance(self.init, str) else np.asarray(self.init)[first]
        embedding = self._lay_out(X[first], None if y is None else np.asarray(y)[first], init, run)
        spread = {
            name: value[inverse] if name in ("rad_orig_", "rad_emb_") else value
            for name, value in embedding.fitted.items()
        }
        return replace(embedding, coordinates=embedding.coordinates[inverse], fitted=spread)

    def _lay_out(self, X: Any, y: Any, init: Any, run: Run) -> Embedding:
        fuzzy, n = self._fuzzy_set(X, y, run), count_points(X)
        otherwise: Any = "spectral"
        if n > FEW_POINTS:
            problem = fuzzy.weights, self.n_components, self._layout_parameters(n, shaped=False)
            otherwise = partial(multilevel_start, *problem, run)
        if y is not None and isinstance(init, str) and init == "auto":
            init = otherwise  # patches of the points do not know the targets
        where = fuzzy.weights, self.n_components, run, self.metric, otherwise
        start = init() if callable(init) else find_start(init, X, *where)
        parameters, rescale = self._layout_parameters(n, start.shaped), start.kind in ("ipa", "multilevel")
        initial = rounded_layout(start.places, not (rescale or start.kind == "given"), run.gpu)
        reached = optimize_layout(initial, fuzzy.weights, parameters, run, rescale=rescale, density=fuzzy.goal)
        return self._embedding(fuzzy, parameters, *reached, start.kind, run)

    def _fuzzy_set(self, X: Any, y: Any, run: Run) -> FuzzySet:
        graph, index = list_neighbors(X, self._rule(count_points(X)), run)
        with run.stage("affinities"):
            fuzzy = fuzzy_simplicial_set(graph, run, self.local_connectivity, self.set_op_mix_ratio)
            goal = None
            if self.densmap:  # log radii of the points, whatever their targets
                radii = log_local_radii(graph, fuzzy)
                goal = DensityGoal(radii, self.dens_lambda, self.dens_frac, self.dens_var_shift)
            if y is not None:
                fuzzy = self._intersected(fuzzy, y, run)
        return FuzzySet(graph, index, fuzzy, goal, {} if y is None else {"target_metric": self.target_metric})

    def _problem(self, X: Any, n_largest: int, run: Run) -> LayoutProblem:
        if self.unique:
            raise ValueError("Sequences and update need unique=False: they embed every row.")
        fuzzy, parameters = self._fuzzy_set(X, None, run), self._layout_parameters(n_largest, shaped=False)
        return LayoutProblem(
            fuzzy.weights,
            otherwise="spectral",
            centered=False,
            alignment_weight=0.1,
            initial=lambda start: rounded_layout(start.places, stretched=True),
            descent=lambda Y: prepare_layout(Y, fuzzy.weights, parameters, run, density=fuzzy.goal),
            embedding=lambda Y, trace, init: self._embedding(fuzzy, parameters, Y, trace, init, run),
        )

    def _embedding(
        self, fuzzy: FuzzySet, parameters: LayoutParameters, layout: FloatArray, trace: Trace, init: str, run: Run
    ) -> Embedding:
        graph, index = fuzzy.graph, fuzzy.index
        return Embedding(
            layout,
            graph=graph,
            trace=trace,
            extension=UMAPExtension.of(index, layout, parameters, self.local_connectivity, graph, run),
            notes={**index.notes, **fuzzy.notes, "init": init, "n_epochs": parameters.n_epochs},
            fitted={
                "affinity_matrix_": fuzzy.weights,
                "a_": parameters.a,
                "b_": parameters.b,
                **self._radii(fuzzy.goal, layout, run),
            },
        )

    def _radii(self, goal: DensityGoal | None, layout: FloatArray, run: Run) -> dict[str, FloatArray]:
        if goal is None:
            return {}
        with run.stage("radii"):
            rule = replace(self._rule(len(layout)), metric="euclidean", metric_params=None, search="exact")
            graph, _ = neighbor_graph(layout.astype(np.float64), rule, run)
            fuzzy = fuzzy_simplicial_set(graph, run, self.local_connectivity, self.set_op_mix_ratio)
            return {"rad_orig_": goal.log_radii, "rad_emb_": log_local_radii(graph, fuzzy)}

    def _layout_parameters(self, n_points: int, shaped: bool) -> LayoutParameters:
        epochs = FEW_POINTS_EPOCHS if n_points <= FEW_POINTS else MANY_POINTS_EPOCHS
        rate = SHAPED_LEARNING_RATE if shaped else LEARNING_RATE
        epochs = epochs // 2 if shaped else epochs
        kernel = find_ab_params(self.min_dist, self.spread)
        if self.a is not None and self.b is not None:
            kernel = float(self.a), float(self.b)
        return LayoutParameters(
            *kernel,
            negative_sample_rate=self.negative_sample_rate,
            repulsion_strength=self.repulsion_strength,
            learning_rate=rate if self.learning_rate == "auto" else float(self.learning_rate),
            n_epochs=epochs if self.n_epochs in ("auto", None) else int(self.n_epochs),
        )

    def _intersected(self, fuzzy: csr_array, y: Any, run: Run) -> csr_array:
        """Return the intersection of the fuzzy set with the targets that are known, if any are."""
        n = fuzzy.shape[0]
        if self.target_metric == "categorical":
            labels, known = known_classes(y, n)
            return intersect_labels(fuzzy, labels, known, self.target_weight, run) if known.any() else fuzzy
        targets, known = known_numbers(y, n)
        if known.sum() < 2:
            return fuzzy
        k = self._rule(n).n_neighbors if self.target_n_neighbors == "auto" else self.target_n_neighbors
        return intersect_targets(fuzzy, targets, known, self.target_weight, int(k or 1), run)


# New points in UMAP's layout: each is moved by negative sampling among the fitted points, which stay.

NEW_ROWS_PER_TASK = 512
N_SWEEPS, LEARNING_RATE_SHARE = 30, 0.25
"""Sweeps of a new point, and the share of the learning rate with which they begin."""
MAX_SAMPLE_RATE = 10_000
"""Negative samples per edge in a model file; 5 are usual, and with these a point takes about a second."""
MAX_EXTENT = 1e15  # coordinates of a loaded layout: the squares of their differences are finite in single precision


@dataclass(frozen=True)
class UMAPExtension:
    """A new point begins at the mean of its neighbors, weighted by membership, and moves as the fitted ones did.

    The fitted points stay, and all new ones have the same random numbers (``seeds`` of sweeps from ``first_sweep``), so
    coordinates do not depend on the batch. A point that coincides with a fitted one gets its coordinates (mcinnes2018).
    The nearest neighbor of a new point need not have membership 1, so one less than ``local_connectivity`` is taken.
    """

    index: NeighborIndex
    layout: FloatArray
    parameters: LayoutParameters
    local_connectivity: float
    mean: float
    first_sweep: int
    seeds: IntArray

    @classmethod
    def of(
        cls,
        index: NeighborIndex,
        layout: FloatArray,
        parameters: LayoutParameters,
        local_connectivity: float,
        graph: NeighborGraph,
        run: Run,
    ) -> UMAPExtension:
        """Return the extension of a finished layout of the points of ``graph``."""
        rng = run.rng("new points")
        parameters = replace(parameters, learning_rate=LEARNING_RATE_SHARE * parameters.learning_rate)
        mean = mean_length(graph.indptr, graph.lengths)
        first_sweep, seeds = int(rng.integers(2**32)), rng.integers(2**64, size=N_SWEEPS, dtype=np.uint64)
        return cls(index, layout, parameters, local_connectivity, mean, first_sweep, seeds)

    def _check_loaded(self) -> None:
        """Check the numbers that compiled loops use as indices."""
        tables = np.concatenate([np.ravel(table) for table in self.parameters.tables()])
        extent = float(np.abs(self.layout).max(initial=0.0))
        steps = (self.parameters.learning_rate, self.parameters.negative_sample_rate, self.mean)
        counts = 0 <= self.first_sweep < 2**32 and self.parameters.negative_sample_rate <= MAX_SAMPLE_RATE
        sound = counts and all(0 <= step < MAX_EXTENT for step in steps)
        if not (sound and np.isfinite(tables).all() and extent < MAX_EXTENT):
            raise ValueError("A layout of UMAP has finite coordinates and parameters; got others.")

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        from manifoldry._numerics.kernels.umap_layout import place_rows

        neighbors, distances = self.index.query(X, run)
        if (distances[:, 1:] < distances[:, :-1]).any():
            order = np.argsort(distances, axis=1, kind="stable")
            neighbors, distances = np.take_along_axis(neighbors, order, 1), np.take_along_axis(distances, order, 1)
        p, certain = self.parameters, max(0.0, self.local_connectivity - 1.0)
        if run.gpu is not None:
            from manifoldry._numerics.gpu.umap_layout import NewPoints

            moves = p.forces(), p.learning_rate, self.first_sweep, self.seeds
            return NewPoints(self.layout, certain, self.mean, *moves).place(neighbors, distances, run.gpu)
        listed = np.isfinite(distances)
        indptr = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
        weights = np.zeros(distances.shape)
        weights[listed] = membership_strengths(indptr, distances[listed], run, certain, self.mean)[0]
        fitted = self.layout[np.maximum(neighbors, 0)]
        coordinates = (np.einsum("ij,ijc->ic", weights, fitted) / weights.sum(axis=1)[:, None]).astype(np.float32)
        rates = sampling_rates(weights[listed], np.repeat(weights.max(axis=1), listed.sum(axis=1)))
        edges = indptr, neighbors[listed].astype(np.int32), rates
        how = p.tables(), p.negative_sample_rate, np.float32(p.learning_rate), np.uint32(self.first_sweep)
        # Compiled for arrays that may be written, which those of a memory-mapped pickle may not.
        layout, seeds = np.require(self.layout, requirements="W"), np.require(self.seeds, requirements="W")
        run.map(
            lambda lo, hi: place_rows(*edges, layout, coordinates, *how, seeds, lo, hi),
            run.ranges(len(coordinates), NEW_ROWS_PER_TASK),
        )
        coincident = distances[:, 0] == 0
        coordinates[coincident] = self.layout[neighbors[coincident, 0]]
        return coordinates

    def left_out(self, run: Run) -> SampledLeftOut:
        """Return the loss of a fitted point left out of the frozen layout."""
        return SampledLeftOut.of(self.layout, self.parameters, run)
