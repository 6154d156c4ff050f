"""Maximum variance unfolding: pull all points apart, and hold the distances between neighbors."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base import GraphEmbedder, estimator
from manifoldry.extend.local import forward
from manifoldry.geometry.neighborhoods import gather
from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.neighbors.sample import Sample
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.scaling import landmark_scaling, place_columns, principal_axes
from manifoldry.solve.semidefinite import FrameLayout, PairDistances, StretchOptions, Variance, stretch_out
from manifoldry.solve.spectrum import Suggestion, enough
from manifoldry.values import Embedding, FloatArray, NeighborGraph

START_LANDMARKS = 300
"""Points whose geodesics lay out the start: Isomap by landmarks, in well under a second."""

SMALL, SMALL_RANK = 60, 10
"""Up to that many points the whole problem is cheap in that many dimensions, which make the proof tight."""

ROOM = 2
"""Dimensions beside those wanted, through which folds turn over."""

FLAT = 1e-8
"""Share of the largest eigenvalue below which a column of the start is flat."""

GATHERED = 2_000_000
"""Numbers of rows fetched at a time for distances beyond the graph's."""


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2004", "weinberger2006", "sun2006", "khajehpour2013"),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="distances between neighbors, exactly or at the most",
    loses="nothing of a sheet that can be unrolled; branches are spread into more dimensions than they need",
    use_when="distances are to stay true and holes should stay holes, for up to some thousand points",
    fails_when="short circuits hold folds together; noise and many neighbors leave nothing to unfold",
    cost="thousand points in seconds (at most) to half a minute (equal); sparse matrices only",
    test_params={"n_components": 2, "n_neighbors": 5, "constraints": "at most"},
)
@estimator
class MVU(GraphEmbedder):
    r"""Maximum variance unfolding, also called semidefinite embedding.

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \operatorname{tr} G \quad \text{with} \quad
              G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\; \text{for neighbors } i, j .

    The Gram matrix is kept as :math:`G = Y Y^\top` with few columns and pushed from within the bounds by ever weaker
    barriers. Their forces are the multipliers of the distances, and prove at the end how far from the best it can be.
    "At most" is the easier problem, solved to the proof in seconds; "equal" holds sheets open around holes, and needs
    more dimensions than given for a tight proof.

    Where distances contradict each other (noise, few dimensions), they are first fitted by least squares and then kept:
    there is always an answer, and ``error_`` tells how good it is.

    Parameters
    ----------
    n_components : int
        Target dimension.
    constraints : {"equal", "at most"}
        Whether distances are kept, or only not exceeded.
    slack : float
        By how much kept squared distances may differ, relative; wider bands are found faster.
    common_neighbors : bool
        Hold also the pairs that are neighbors of the same point, and with them the angles.
    max_rank : int, optional
        Most dimensions to unfold in; by default two more than n_components, and up to 10 for at most 60 points.
    gap : float
        Strength of the last barrier: the relative gap at which the stretch counts as largest.
    n_neighbors, radius, metric, metric_params, search, disconnected
        As in `Isomap`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`; a true answer of the callback ends the stretching.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their first principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the unfolded Gram matrix, in all the dimensions used.
    certificate_ : Certificate
        Of minus the stretch; ``gap`` is relative, ``violation`` the largest relative error of a squared distance.
    stretch_ : float
        Sum of squared distances from the mean, tr G.
    error_ : float
        Mean squared relative error of the squared distances, in all the dimensions used.
    trace_ : Trace
        Minus the stretch from barrier to barrier.
    graph_ : NeighborGraph
        The graph whose distances are held.
    diagnostics_ : dict
        Seconds, components, bridges, ``held``: the number of distances.

    Notes
    -----
    Distances below a thousandth of their median (duplicates) are held at that. New points follow the local rule: the
    weights that reconstruct them from their neighbors.

    References: weinberger2004, weinberger2006, sun2006, khajehpour2013.

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

    constraints: str = "equal"
    slack: float = 1e-2
    common_neighbors: bool = False
    max_rank: int | None = None
    gap: float = 1e-5

    _invertible = _local_inverse = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.choice("constraints", self.constraints, ("equal", "at most"))
        check.number("gap", self.gap, 0.0, open_low=True)
        if check.number("slack", self.slack, 0.0, open_low=True) >= 1:
            raise ValueError(f"slack must be below 1, a share of squared distances; got {self.slack}.")
        if self.max_rank is not None:
            check.integer("max_rank", self.max_rank, self.n_components, None, " (n_components)")
        if self.common_neighbors and self.metric not in ("euclidean", "precomputed"):
            raise ValueError(
                "common_neighbors needs distances beyond the graph's, which are known for metric 'euclidean' or "
                f"'precomputed'; got {self.metric!r}."
            )

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        n = sample.n_points
        pairs = _with_common(sample, run) if self.common_neighbors else PairDistances.of_graph(sample.graph)
        columns = min(self._columns(n, n_components), n - 1)
        start = _geodesic_layout(sample.graph, min(columns, n_components + ROOM), run)
        kept = self.constraints == "equal"
        options = StretchOptions(self.gap, self.slack, columns)
        with run.stage("stretching"):
            bands, layout = pairs.bands(self.slack if kept else None), FrameLayout.of_points(n)
            found = stretch_out(Variance(n), bands, layout, start, options, run)
        coordinates, spectrum = principal_axes(found.V, n_components)
        return Embedding(
            coordinates,
            spectrum=spectrum,
            trace=found.trace,
            certificate=found.certificate,
            extension=forward(sample, coordinates) if sample.X is not None else None,
            notes={"held": len(pairs)},
            fitted={"stretch_": -found.certificate.objective, "error_": found.error},
        )

    def _columns(self, n_points: int, n_components: int) -> int:
        if self.max_rank is not None:
            return self.max_rank
        return max(n_components + ROOM, SMALL_RANK if n_points <= SMALL else 0)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the stretch, and why."""
        check_is_fitted(self, "embedding_")
        values = self.spectrum_.values
        return enough(1 - np.cumsum(values) / values.sum(), "stretch")


def _geodesic_layout(graph: NeighborGraph, n_columns: int, run: Run) -> FloatArray:
    """Return where Isomap by landmarks puts the points; flat columns are left out, for nothing would move them."""
    n = graph.n_points
    chosen = np.sort(run.rng("start").choice(n, min(n, START_LANDMARKS), replace=False))
    lengths, landmarks = geodesic_lengths(graph, run, chosen, at_least=n_columns + 2)
    scaling = landmark_scaling(lengths, landmarks, n_columns, run)
    values = scaling.spectrum.values
    wide = max(1, int((values > FLAT * values[0]).sum()))
    return place_columns(scaling.head(wide), lengths, run)


def _with_common(sample: Sample, run: Run) -> PairDistances:
    """Return the graph's pairs and those of neighbors of one point, with their distances."""
    if sample.X is None:
        raise ValueError("common_neighbors needs points or all pairwise distances; got a graph.")
    lists, n = sample.neighbors, sample.n_points
    listed = sp.csr_array((np.ones(lists.n_edges), lists.indices, lists.indptr), shape=(n, n))
    both = sp.coo_array(sp.triu(listed.T @ listed + listed + listed.T, k=1))
    i, j = both.row.astype(np.int64), both.col.astype(np.int64)
    if sample.pairwise:
        return PairDistances.of(i, j, sample.X[i, j], n)

    def distances(lo: int, hi: int) -> FloatArray:
        return np.linalg.norm(gather(sample.X, i[lo:hi]) - gather(sample.X, j[lo:hi]), axis=1)

    cuts = run.ranges(len(i), GATHERED // sample.X.shape[1])
    return PairDistances.of(i, j, np.concatenate(run.map(distances, cuts)), n)
