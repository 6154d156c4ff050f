"""Maximum variance unfolding: the largest variance with the distances between neighbors kept."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from manifoldry._core import check
from manifoldry._core.parameters import Fraction, PositiveInt, parameter
from manifoldry._core.registry import announce_fit, register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph
from manifoldry._numerics.extension.geodesic import MAX_UNFOLDED_PATH_ERROR, paths_along, with_path_error
from manifoldry._numerics.extension.local import distances_fit, embed_unfolded
from manifoldry._numerics.geometry.neighborhoods import gather
from manifoldry._numerics.geometry.tangent import MAX_LENGTH_ERROR, is_surface, length_error, with_bend
from manifoldry._numerics.scaling import embed_from_landmarks, landmark_scaling
from manifoldry._numerics.semidefinite.barrier_path import Stretched, StretchOptions, stretch_out
from manifoldry._numerics.semidefinite.frames import FrameLayout, Stretch
from manifoldry._numerics.semidefinite.pairs import MAX_GRAM_PAIRS, PairDistances, unfold_points
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._texts import TARGET_METRIC_TEXT, TARGET_WEIGHT_TEXT
from manifoldry.methods.unfolding._kept_distances import KeptDistancesMixin

N_START_LANDMARKS = 300  # landmarks of the Isomap that initializes the program, in well under a second
EXTRA_DIMENSIONS = 2  # dimensions beyond n_components, through which the points can unfold
MAX_BOUNDS_RANK = 10
"""Maximum dimension of a program of upper bounds, used as far as its dual requires: 178 wines need five."""
MIN_VARIANCE_SHARE = 1e-8
"""Columns of the initialization with less than this share of the largest variance are left out."""
OTHER_SECONDS, OTHER_GROWTH = 110.0, 2.7
"""Seconds for a thousand points in low rank that are no surface, whose graphs have no small separators, and the power
of the number of points by which they grow: 300 digits took 4 s, 500 images of a face 17 s."""
MAX_GATHERED = 2_000_000  # numbers of rows fetched at a time for distances beyond the graph's


@register(
    problem="semidefinite",
    papers=("weinberger2004", "weinberger2006", "sun2006", "khajehpour2013", "deridder2003"),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="distances between neighbors, exactly, or as upper bounds",
    loses="nothing of a sheet that can be unrolled; branches are spread into more dimensions than they need",
    use_when="distances must stay true and holes stay holes, for up to a few thousand points",
    fails_when="short circuits hold folds together; noise and many neighbors leave nothing to unfold",
    cost="1,000 points of a roll in 4 s (at most) or 8 s (equal), 2,000 in 30 s (equal); 300 digits in 1 s",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class MVU(KeptDistancesMixin):
    r"""Unfold up to a few thousand points with true distances between neighbors; holes stay holes.

    Maximum variance unfolding, also called semidefinite embedding, solves

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \operatorname{tr} G \quad \text{with} \quad
              G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\; \text{for neighbors } i, j .

    Equalities keep sheets open around holes. Up to 9,000 of them the program is solved over all
    Gram matrices G, by a primal-dual interior-point method, until its dual proves the variance optimal to ``tol``.
    Inequalities need few dimensions: :math:`G = Y Y^\top` is factored with few columns, and the variance maximized by
    Newton's method with a logarithmic barrier; their dual is as tight. More equalities, or a given ``max_rank``, are
    solved in the same way, with a loose bound: on a surface the variance is within 2 % of the optimum, on other data
    perhaps half.

    If the distances contradict each other, as given ones may, their squared errors are minimized first and the
    resulting distances are kept. With targets ``y``, distances between different classes are kept at their larger
    value.

    Attributes
    ----------
    certificate_ : Certificate
        Certificate of minus the variance with these distances; ``gap`` is relative, ``violation`` is by how much a
        squared relative distance is farther than ``slack`` from those to keep.
    stretch_ : float
        The variance: the sum of squared distances from the mean, tr G.
    trace_ : Trace
        Minus the variance from step to step, or from barrier parameter to barrier parameter in low rank.
    embedding_, spectrum_, error_, error_certificate_, graph_
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
    A fit that would take more than half an hour raises an error unless there is a callback or ``verbose``. Distances
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

    common_neighbors: bool = parameter("Whether to keep distances between neighbors of a point too.", default=False)
    max_rank: PositiveInt | None = parameter(
        "Maximum dimension of a program in low rank. None needs no low rank for up to 9,000 equalities, and is "
        "n_components + 2 for more; for inequalities it is 10, of which as many are used as their dual requires.",
        default=None,
    )
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    stretch_: float = fitted()

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.max_rank is not None:
            check.integer("max_rank", self.max_rank, self.n_components, None, " (n_components)")
        if self.common_neighbors and self.metric not in ("euclidean", "precomputed"):
            raise ValueError(
                "common_neighbors needs distances beyond the graph's, which are known for metric 'euclidean' or "
                f"'precomputed'; got {self.metric!r}."
            )

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        graph = sample.graph
        pairs = _with_common_neighbors(sample, run) if self.common_neighbors else PairDistances.of_graph(graph)
        if self.constraints == "equal" and self.max_rank is None and len(pairs) <= MAX_GRAM_PAIRS:
            # Distances with targets fit too, which are one more coordinate, unless some are unknown.
            complete = sample.targets is None or bool(sample.targets.known.all())
            fits = complete and distances_fit(sample, pairs, self)
            with run.stage("semidefinite program"), run.stoppable():
                solution = unfold_points(pairs, run, slack=self.slack, tol=self.tol, fits=fits)
        else:
            solution = self._in_low_rank(sample, pairs, n_components, run)
        embedding = embed_unfolded(sample, solution, n_components, run, n_constraints=len(pairs))
        if self.constraints == "equal":
            embedding = with_bend(embedding, sample, run)
        # Equal distances keep holes open, around which paths are longer than distances: that is as it should be.
        keeps = self.constraints == "equal" and length_error(graph, embedding.coordinates, run) <= MAX_LENGTH_ERROR
        if keeps or run.stopped:
            return embedding
        instead = "IPA, or constraints='equal'" if self.constraints == "at most" else "IPA"
        return with_path_error(embedding, sample, paths_along(graph, run), MAX_UNFOLDED_PATH_ERROR, instead)

    def _in_low_rank(self, sample: NeighborhoodData, pairs: PairDistances, n_components: int, run: Run) -> Stretched:
        graph, n = sample.graph, sample.n_points
        if not is_surface(sample, n_components):
            announce_fit("MVU", n, run, OTHER_SECONDS * (n / 1000) ** OTHER_GROWTH)
        usual = n_components + EXTRA_DIMENSIONS
        most = max(usual, MAX_BOUNDS_RANK) if self.constraints == "at most" else usual
        rank = min(self.max_rank or most, n - 1)
        start = _landmark_isomap(graph, min(rank, usual), run)
        with run.stage("semidefinite program"), run.stoppable():
            bands = pairs.bands(self.slack if self.constraints == "equal" else None)
            options = StretchOptions(self.tol, self.slack, rank)
            return stretch_out(Stretch.variance(n), bands, FrameLayout(np.zeros(n, dtype=int)), start, options, run)


def _landmark_isomap(graph: NeighborGraph, n_columns: int, run: Run) -> FloatArray:
    """Return the Isomap of the graph by random landmarks, without columns of zeros, in which no gradient acts."""
    n = graph.n_points
    chosen = np.sort(run.rng("start").choice(n, min(n, N_START_LANDMARKS), replace=False))
    lengths, landmarks = geodesic_lengths(graph, run, chosen, at_least=n_columns + 2)
    scaling = landmark_scaling(lengths, landmarks, n_columns, run)
    values = scaling.spectrum.values
    n_wide = max(1, int((values > MIN_VARIANCE_SHARE * values[0]).sum()))
    return embed_from_landmarks(scaling.head(n_wide), lengths, run)


def _with_common_neighbors(sample: NeighborhoodData, run: Run) -> PairDistances:
    """Return the graph's pairs and those of neighbors of the same point, at the lengths that targets give them."""
    if sample.X is None:
        raise ValueError("common_neighbors needs points or all pairwise distances; got a graph.")
    lists, n = sample.neighbors, sample.n_points
    listed = sp.csr_array((np.ones(lists.n_edges), lists.indices, lists.indptr), shape=(n, n))
    both = sp.coo_array(sp.triu(listed.T @ listed + listed + listed.T, k=1))
    i, j = both.row.astype(np.int64), both.col.astype(np.int64)

    def distances(lo: int, hi: int) -> FloatArray:
        return np.linalg.norm(gather(sample.X, i[lo:hi]) - gather(sample.X, j[lo:hi]), axis=1)

    if sample.pairwise:
        pairs = PairDistances.of(i, j, sample.X[i, j], n)
    else:
        cuts = run.ranges(len(i), MAX_GATHERED // sample.X.shape[1])
        pairs = PairDistances.of(i, j, np.concatenate(run.map(distances, cuts)), n)
    if sample.targets is None:
        return pairs
    lengths = sample.targets.lengths(pairs.i, pairs.j, pairs.lengths)
    finite = np.isfinite(lengths)
    joined = np.asarray(sample.graph.to_sparse()[pairs.i, pairs.j]).reshape(-1) > 0  # also bridges between classes
    used = finite | joined
    return PairDistances(pairs.i[used], pairs.j[used], np.where(finite, lengths, pairs.lengths)[used], pairs.n_points)
