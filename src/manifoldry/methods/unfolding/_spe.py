"""Structure preserving embedding: points whose nearest ones are the neighbors in a graph."""

from __future__ import annotations

from typing import Literal

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph
from manifoldry._numerics.extension.local import forward
from manifoldry._numerics.scaling import principal_axes
from manifoldry.graph._operations import distinct_rows, group_means
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods.unfolding._spe_program import GraphStructure, preserve_structure

MAX_STRUCTURE_POINTS = 600
"""Points up to which a fit ends in some minutes; a round costs the cube of its comparisons, several per point."""
MIN_KEPT_SHARE = 0.95  # share of the graph's neighbors that are nearest in the embedding, below which there is a remark
MAX_JOINED_SHARE = 0.5
"""Share of all pairs that are neighbors, above which the advice is that the graph has little structure."""


@register(
    problem="semidefinite",
    papers=("shaw2009",),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="who is whose neighbor, and nothing else: in all dimensions used the graph is read off exactly",
    loses="all lengths; in n_components dimensions also neighbors, of real data more than half",
    use_when="a network without lengths should be drawn, or turned into features from which it can be read again",
    fails_when="a graph of data in two dimensions: 150 digits need twelve, and the plane keeps four of ten neighbors",
    cost="rounds of small programs: 40 points in 0.2 s, 150 digits in 3 s, 178 wines in 11 s; up to 600 points",
    test_params={"n_components": 2, "n_neighbors": 5, "max_iter": 1},
)
@estimator
class SPE(GraphEmbedder):
    r"""Draw a network without lengths, or turn it into features from which its edges can be read again.

    Structure preserving embedding uses only the connectivity A of a graph:

    .. math:: \max_{K \succeq 0,\; K 1 = 0,\; \operatorname{tr} K = n} \operatorname{tr}(K A) - C \xi \quad
              \text{with} \quad D_{ij} \ge (1 - A_{ij}) \max_m (A_{im} D_{im}) + \mu - \xi ,
              \qquad D_{ij} = K_{ii} - 2 K_{ij} + K_{jj} :

    every point that is not a neighbor of i is farther from i than all of its neighbors. Then the graph can be read from
    the points, by as many nearest ones as each has neighbors. ``structure="radius"`` requires one radius instead, which
    contains the neighbors of all points. Such points exist for every graph, so that no slack :math:`\xi` is needed; C
    allows it.

    The most violated of the :math:`n^3` constraints are added in rounds. The bound of every round holds for the full
    program, so the certificate covers all constraints.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The points in their first principal axes; in all axes their variance is 1.
    spectrum_ : Spectrum
        Eigenpairs of K, in all dimensions used: ``spectrum_.scaled(0.5)`` are the points that have the structure.
    certificate_ : Certificate
        Certificate of minus tr(K A) - C xi of the full program, relative to the smallest tr(K A) of points with this
        trace.
    alignment_ : float
        tr(K A) / n.
    xi_ : float
        By how much the structure is violated: 0 without C.
    kept_ : float
        Share of the graph's neighbors that are among the nearest in ``embedding_``.
    trace_, graph_
    diagnostics_ : dict
        Seconds, components, bridges, ``n_constraints`` in the last round, and ``advice`` if ``embedding_`` has lost the
        structure that all dimensions have, or if the graph joins most pairs and has little structure.

    See Also
    --------
    MVU : keeps lengths.
    CommuteTime : a graph by its random walks.
    LaplacianEigenmaps : large graphs.

    Notes
    -----
    Lengths of edges do not matter, nor does the unit of the data. Equal rows, which may have different neighbors in the
    graph, share their mean coordinates in ``embedding_``. New points are mapped by the weights that
    reconstruct them from their neighbors among the rows; a model fitted on a given graph has no `transform`.

    Examples
    --------
    A ring of eight, as a list of edges, becomes a regular octagon.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from manifoldry import SPE, NeighborGraph
    >>> i, j = np.arange(8), (np.arange(8) + 1) % 8
    >>> ring = sp.csr_array((np.ones(16), (np.r_[i, j], np.r_[j, i])))
    >>> spe = SPE().fit(NeighborGraph.from_sparse(ring, symmetric=True))
    >>> spe.kept_
    1.0
    >>> bool(np.ptp(np.linalg.norm(spe.embedding_, axis=1)) < 1e-2)
    True
    """

    structure: Literal["neighbors", "radius"] = parameter(
        'What can be read from the points: the neighbors of each as its nearest points ("neighbors"), or all '
        'neighbors by one radius ("radius").',
        default="neighbors",
    )
    C: Positive | None = parameter("Price of violating the structure; None does not allow it.", default=None)
    margin: Positive = parameter(
        r"Minimum difference :math:`\mu` between squared distances, as a share of the squared distance of n points "
        "that are evenly spaced on a line with the same variance.",
        default=0.1,
    )
    tol: Positive = parameter("Relative gap, proven by the dual, at which the optimization stops.", default=1e-3)
    max_iter: PositiveInt = parameter("Maximum number of rounds.", default=50)

    alignment_: float = fitted()
    xi_: float = fitted()
    kept_: float = fitted()

    _invertible = _local_inverse = True

    _chunk_support = ChunkSupport(
        "no", instead="its semidefinite program is for a few hundred points. UMAP lays out graphs of all rows."
    )

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if n_points > MAX_STRUCTURE_POINTS:
            raise ValueError(
                f"SPE takes up to {MAX_STRUCTURE_POINTS} points, whose program is solved in minutes; got {n_points:,}: "
                "fit a sample and transform the rest, or use UMAP or LaplacianEigenmaps, which take graphs too."
            )

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        A = connectivity(sample.graph)
        with run.stage("semidefinite program"), run.stoppable():
            structure = GraphStructure(A, self.structure, self.margin)
            fit = preserve_structure(structure, run, C=self.C, tol=self.tol, max_iter=self.max_iter)
        coordinates, spectrum = principal_axes(fit.V, n_components)
        if sample.X is not None and not sample.pairwise:
            first, group = distinct_rows(sample.X)
            coordinates = group_means(coordinates, group) if len(first) < len(group) else coordinates
        preserved = preserved_share(A, coordinates)
        return Embedding(
            coordinates,
            spectrum=spectrum,
            trace=fit.trace,
            certificate=fit.certificate,
            extension=forward(sample, coordinates) if sample.X is not None else None,
            notes={
                "n_constraints": fit.n_constraints,
                "advice": _density_advice(A),
                "remarks": _remarks(preserved, n_components, fit.certificate.rank, fit.xi),
            },
            fitted={"alignment_": float(np.vdot(fit.V, A @ fit.V)) / len(A), "xi_": fit.xi, "kept_": preserved},
        )


def connectivity(graph: NeighborGraph) -> FloatArray:
    """Return the dense 0/1 adjacency of a symmetric graph; edges of length zero are edges too."""
    A = np.zeros((graph.n_points, graph.n_points))
    A[graph.rows(), graph.indices] = 1.0
    np.fill_diagonal(A, 0.0)
    return np.maximum(A, A.T)


def preserved_share(A: FloatArray, Y: FloatArray) -> float:
    """Return the share of neighbors in the graph that are among as many nearest points in the layout."""
    squares = np.square(Y[:, None] - Y).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    order = np.argsort(squares, axis=1, kind="stable")
    degrees = A.sum(axis=1).astype(int)
    nearest = np.arange(len(A)) < degrees[:, None]
    return float(np.take_along_axis(A, order, axis=1)[nearest].mean()) if degrees.any() else 1.0


def _density_advice(A: FloatArray) -> tuple[str, ...]:
    share = float(A.sum() / max(A.size - len(A), 1))
    if share <= MAX_JOINED_SHARE:
        return ()
    return (
        f"{share:.0%} of all pairs are neighbors in the graph, which leaves little structure to keep (where all are, "
        "the points are a simplex, all of whose planes are alike): lower n_neighbors or radius.",
    )


def _remarks(preserved: float, n_components: int, rank: int, xi: float) -> tuple[str, ...]:
    if preserved >= MIN_KEPT_SHARE or rank <= n_components:
        return ()
    others = "all are" if xi == 0 else f"the structure is broken by up to {xi:.2g}"
    return (
        f"In {n_components} dimensions {preserved:.0%} of the graph's neighbors are among the nearest points; in the "
        f"{rank} that the points use {others} (spectrum_.scaled(0.5)). For features take n_components={rank}; for a "
        "picture of a graph that needs more than two dimensions use UMAP or TSNE.",
    )
