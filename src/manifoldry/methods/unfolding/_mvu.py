"""Maximum variance unfolding: the largest variance with the distances between neighbors kept."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from manifoldry._core import check
from manifoldry._core.parameters import Fraction, Positive, PositiveInt, ProperShare, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, Embedding, FloatArray, NeighborGraph
from manifoldry._numerics.extension.local import distances_fit, embed_unfolded, refuse_long
from manifoldry._numerics.geometry.neighborhoods import gather
from manifoldry._numerics.geometry.tangent import (
    MAX_LENGTH_ERROR,
    MAX_UNFOLDED_PATH_ERROR,
    is_surface,
    length_error,
    with_bend,
    with_path_error,
)
from manifoldry._numerics.scaling import landmark_scaling, place_columns
from manifoldry._numerics.semidefinite import (
    FrameLayout,
    PairDistances,
    Stretched,
    StretchOptions,
    Variance,
    stretch_out,
    unfold_points,
)
from manifoldry._numerics.semidefinite.pairs import MAX_GRAM_PAIRS
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._texts import (
    CONSTRAINTS_TEXT,
    GAP_TEXT,
    SLACK_TEXT,
    TARGET_METRIC_TEXT,
    TARGET_WEIGHT_TEXT,
)

N_START_LANDMARKS = 300
"""Landmarks of the Isomap that initializes the program, in well under a second."""

EXTRA_DIMENSIONS = 2
"""Dimensions beyond n_components, through which the points can unfold."""

MAX_GROWN_RANK = 10
"""Dimensions up to which a program of upper bounds alone may grow, where its dual asks for more than it has; 178 wines
need five, and most data four."""

MIN_VARIANCE_SHARE = 1e-8
"""Columns of the initialization with less than this share of the largest variance are left out."""

SURFACE_SECONDS, SURFACE_GROWTH = 13.0, 1.5
"""Seconds for a thousand points of a surface in low rank, and the power of the number of points by which they grow: 300
points of a roll took 3 s, 1,000 13 s."""

OTHER_SECONDS, OTHER_GROWTH = 110.0, 2.7
"""The same for other data, whose graphs have no small separators: 300 digits took 4 s, 500 images of a face 17 s."""

MAX_GATHERED = 2_000_000
"""Numbers of rows fetched at a time for distances beyond the graph's."""


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2004", "weinberger2006", "sun2006", "khajehpour2013", "deridder2003"),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="distances between neighbors, exactly, or as upper bounds",
    loses="nothing of a sheet that can be unrolled; branches are spread into more dimensions than they need",
    use_when="distances must stay true and holes stay holes, for up to a few thousand points",
    fails_when="short circuits hold folds together; noise and many neighbors leave nothing to unfold",
    cost="1,000 points of a roll in 4 s (at most) or 10 s (equal), 2,000 in 90 s (equal); 300 digits in 1 s",
    test_params={"n_components": 2, "n_neighbors": 5, "constraints": "at most"},
)
@estimator
class MVU(GraphEmbedder):
    r"""Unfold up to a few thousand points with true distances between neighbors; holes stay holes.

    Maximum variance unfolding, also called semidefinite embedding, solves

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \operatorname{tr} G \quad \text{with} \quad
              G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\; \text{for neighbors } i, j .

    Equalities keep sheets open around holes. Up to 9,000 of them the program is solved over all Gram matrices G, by a
    primal-dual interior-point method, until its dual proves the variance optimal to ``tol``. Inequalities need few
    dimensions: :math:`G = Y Y^\top` is factored with few columns, and the variance maximized by Newton's method with a
    logarithmic barrier; their dual is as tight. More than 9,000 equalities, or a given ``max_rank``, are solved in the
    same way, with a bound that is valid but loose: on a surface the variance is then within 1 % of the optimum, on data
    of more dimensions it may be half of it.

    If the distances contradict each other, as given ones may, their squared errors are minimized first and the
    resulting distances are kept: there is always a solution. ``error_`` is its error, and ``error_certificate_`` bounds
    how much better any other could be. With targets ``y``, distances between different classes are kept at their larger
    value; if all targets are known, points with such distances exist, with the classes along axes of their own.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their first principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the unfolded Gram matrix, in all dimensions used.
    certificate_ : Certificate
        Certificate of minus the variance with these distances; ``gap`` is relative, ``violation`` is by how much a
        squared relative distance is farther than ``slack`` from those to keep.
    error_certificate_ : Certificate
        Certificate of the smallest mean squared relative error of the squared distances to keep: zero if they fit.
    stretch_ : float
        The variance: the sum of squared distances from the mean, tr G.
    error_ : float
        Mean squared relative error of the squared distances, in all dimensions used.
    trace_ : Trace
        Minus the variance from step to step, or from barrier parameter to barrier parameter in low rank.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    diagnostics_ : dict
        Seconds, components, bridges, ``n_constraints``: the number of distances, and ``advice``: what to do if the
        points need more dimensions. For a curve or surface whose distances between neighbors are not kept in the
        layout, ``path_error``: the relative root mean square difference between distances in the layout and geodesic
        distances; above 0.085 there is advice. If they are kept, ``bend``: the share of their spread by which unfolded
        points bend away from the layout; above 0.05 there is advice.

    See Also
    --------
    FastMVU : more than a few thousand points.
    LandmarkMVU : the same for surfaces.
    ColoredMVU : shows targets.
    MVE : flattens dimensions that are not shown.
    IPA : patches of a surface of any size.

    Notes
    -----
    A fit that would take more than half an hour raises an error unless there is a callback, which can end it. Distances
    below a thousandth of their median (duplicates) are set to that. New points are mapped by the weights that
    reconstruct them from their neighbors; a model fitted on a given graph has no `transform`.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import MVU
    >>> angle = np.linspace(0, np.pi, 20)
    >>> arc = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> mvu = MVU(n_components=1, radius=0.2, constraints="at most").fit(arc)
    >>> bool(abs(np.ptp(mvu.embedding_) - 19 * np.linalg.norm(arc[1] - arc[0])) < 1e-3)
    True
    """

    constraints: Literal["equal", "at most"] = parameter(CONSTRAINTS_TEXT, default="equal")
    slack: ProperShare = parameter(SLACK_TEXT, default=1e-2)
    common_neighbors: bool = parameter(
        "Whether to keep also the distances between neighbors of the same point, and so the angles.", default=False
    )
    max_rank: PositiveInt | None = parameter(
        "Maximum dimension of a program in low rank. None needs no low rank for up to 9,000 equalities, and is "
        "n_components + 2 for more; for inequalities it is 10, of which as many are used as their dual requires.",
        default=None,
    )
    tol: Positive = parameter(GAP_TEXT, default=1e-4)
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    stretch_: float = fitted()
    error_: float = fitted()
    error_certificate_: Certificate = fitted()

    _invertible = _local_inverse = True

    _blockwise = BlockFit(
        "no",
        instead="its semidefinite program takes a thousand or two points. IPA unfolds all rows, and is certified too.",
    )

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.max_rank is not None:
            check.integer("max_rank", self.max_rank, self.n_components, None, " (n_components)")
        if self.common_neighbors and self.edge_lengths != "distance":
            raise ValueError(
                "common_neighbors keeps distances of pairs that are no edges, which have no other length; "
                f"got edge_lengths={self.edge_lengths!r}."
            )
        if self.common_neighbors and self.metric not in ("euclidean", "precomputed"):
            raise ValueError(
                "common_neighbors needs distances beyond the graph's, which are known for metric 'euclidean' or "
                f"'precomputed'; got {self.metric!r}."
            )

        refuse_long("MVU", n_points, SURFACE_SECONDS * (n_points / 1000) ** SURFACE_GROWTH, self.callback)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        graph = sample.graph
        pairs = _with_common_neighbors(sample, run) if self.common_neighbors else PairDistances.of_graph(graph)
        if self.constraints == "equal" and self.max_rank is None and len(pairs) <= MAX_GRAM_PAIRS:
            # Distances with targets fit too, which are one more coordinate, unless some are unknown.
            known = sample.targets is None or bool(sample.targets.known.all())
            fits = known and distances_fit(sample, pairs, self)
            with run.stage("semidefinite program"), run.stoppable():
                solution = unfold_points(pairs, run, slack=self.slack, tol=self.tol, fits=fits)
        else:
            solution = self._in_low_rank(sample, pairs, n_components, run)
        embedding = embed_unfolded(sample, solution, n_components, run, n_constraints=len(pairs))
        if self.constraints == "equal" and self.edge_lengths == "distance":
            embedding = with_bend(embedding, sample, run)
        # Equal distances keep holes open, around which paths are longer than distances: that is as it should be.
        kept = self.constraints == "equal" and length_error(graph, embedding.coordinates) <= MAX_LENGTH_ERROR
        if kept or run.stopped or self.edge_lengths != "distance":
            return embedding
        instead = "IPA, or constraints='equal'" if self.constraints == "at most" else "IPA"
        return with_path_error(embedding, sample, run, MAX_UNFOLDED_PATH_ERROR, instead)

    def _in_low_rank(self, sample: Sample, pairs: PairDistances, n_components: int, run: Run) -> Stretched:
        graph, n = sample.graph, sample.n_points
        if not is_surface(sample, n_components):
            refuse_long("MVU", n, OTHER_SECONDS * (n / 1000) ** OTHER_GROWTH, self.callback)
        rank = min(self._max_rank(n_components), n - 1)
        start = _landmark_isomap(graph, min(rank, n_components + EXTRA_DIMENSIONS), run)
        with run.stage("semidefinite program"), run.stoppable():
            bands = pairs.bands(self.slack if self.constraints == "equal" else None)
            options = StretchOptions(self.tol, self.slack, rank)
            return stretch_out(Variance(n), bands, FrameLayout.of_points(n), start, options, run)

    def _max_rank(self, n_components: int) -> int:
        grown = MAX_GROWN_RANK if self.constraints == "at most" else 0
        return self.max_rank or max(n_components + EXTRA_DIMENSIONS, grown)


def _landmark_isomap(graph: NeighborGraph, n_columns: int, run: Run) -> FloatArray:
    """Return the Isomap of the graph by random landmarks, without columns of zeros, in which no gradient acts."""
    n = graph.n_points
    chosen = np.sort(run.rng("start").choice(n, min(n, N_START_LANDMARKS), replace=False))
    lengths, landmarks = geodesic_lengths(graph, run, chosen, at_least=n_columns + 2)
    scaling = landmark_scaling(lengths, landmarks, n_columns, run)
    values = scaling.spectrum.values
    wide = max(1, int((values > MIN_VARIANCE_SHARE * values[0]).sum()))
    return place_columns(scaling.head(wide), lengths, run)


def _with_common_neighbors(sample: Sample, run: Run) -> PairDistances:
    """Return the graph's pairs and those of neighbors of the same point, with their distances."""
    if sample.X is None:
        raise ValueError("common_neighbors needs points or all pairwise distances; got a graph.")
    lists, n = sample.neighbors, sample.n_points
    listed = sp.csr_array((np.ones(lists.n_edges), lists.indices, lists.indptr), shape=(n, n))
    both = sp.coo_array(sp.triu(listed.T @ listed + listed + listed.T, k=1))
    i, j = both.row.astype(np.int64), both.col.astype(np.int64)
    if sample.pairwise:
        return _with_target_lengths(PairDistances.of(i, j, sample.X[i, j], n), sample)

    def distances(lo: int, hi: int) -> FloatArray:
        return np.linalg.norm(gather(sample.X, i[lo:hi]) - gather(sample.X, j[lo:hi]), axis=1)

    cuts = run.ranges(len(i), MAX_GATHERED // sample.X.shape[1])
    return _with_target_lengths(PairDistances.of(i, j, np.concatenate(run.map(distances, cuts)), n), sample)


def _with_target_lengths(pairs: PairDistances, sample: Sample) -> PairDistances:
    """Return the pairs at the lengths that the targets give them, without those infinitely long but for bridges."""
    if sample.targets is None:
        return pairs
    lengths = sample.targets.lengths(pairs.i, pairs.j, pairs.lengths)
    near = np.isfinite(lengths)
    joined = np.asarray(sample.graph.to_sparse()[pairs.i, pairs.j]).reshape(-1) > 0
    kept = near | joined
    return PairDistances(pairs.i[kept], pairs.j[kept], np.where(near, lengths, pairs.lengths)[kept], pairs.n_points)
