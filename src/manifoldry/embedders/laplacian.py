"""Laplacian eigenmaps: keep near points near, by the slowest vibrations of the neighbor graph."""

from __future__ import annotations

from typing import cast, get_args

from manifoldry import check
from manifoldry.base import estimator
from manifoldry.base.affinities import AffinityEmbedder
from manifoldry.extend.kernel import LaplacianNystrom
from manifoldry.geometry.affinity import Affinity
from manifoldry.geometry.laplacian import LaplacianKind, laplacian
from manifoldry.neighbors.sample import Sample
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.values import Embedding, FloatArray, NeighborGraph, Spectrum


@register(
    family="spectral",
    problem="eigen",
    papers=("belkin2003", "bengio2004", "luxburg2007"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="nearness: strongly joined points stay together, clusters stand apart",
    loses="distances and the aspect ratio: of a long strip the second coordinate repeats the first",
    use_when="the data fall into clusters or one sheet about as wide as long, and there are very many of them",
    fails_when="sampling is uneven, or one direction is much longer than the others",
    cost="a sparse eigenproblem: 200,000 points of a surface in seconds",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class LaplacianEigenmaps(AffinityEmbedder):
    r"""Laplacian eigenmaps: the coordinates that vary least along the edges of the neighbor graph.

    .. math:: \min_Y \tfrac12 \sum_{ij} w_{ij} \|y_i - y_j\|^2 = \operatorname{tr} Y^T L Y
        \quad \text{subject to} \quad Y^T D Y = I, \; Y^T D 1 = 0 ,

    with affinities :math:`w_{ij} = e^{-d_{ij}^2 / (2 s^2)}` along the edges, degrees D and :math:`L = D - W`: the
    eigenvectors 2, ..., d + 1 of :math:`L v = \lambda D v`. The least sum is that of their eigenvalues.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Neighbors of each point; "auto" is 10, unless a radius is given.
    radius : float, optional
        Neighbors are all points at most this far; with ``n_neighbors`` too, at most that many of them.
    weights : {"heat", "binary"}
        Affinities by the heat kernel, or all of them 1.
    bandwidth : "auto" or float
        The s of the heat kernel; with "auto" :math:`2 s^2` is the mean squared length of the edges. Written
        :math:`e^{-d^2/t}` the kernel has :math:`s = \sqrt{t/2}`, written :math:`e^{-d^2/(4t)}` it has
        :math:`s = \sqrt{2t}`.
    laplacian : {"random_walk", "symmetric", "unnormalized"}
        The scaling of one problem: v as above; :math:`u = D^{1/2} v`, with :math:`Y^T Y = I`; or the eigenvectors
        of L itself, also with :math:`Y^T Y = I`, in which every point counts the same.
    metric, metric_params
        As in scikit-learn; or "precomputed": ``X`` holds pairwise distances, or a sparse graph of lengths; or
        "affinity": ``X`` holds the affinities themselves, dense or sparse, 0 for none, and no neighbors are searched;
        what a point affinities to itself is left out.
    search : {"auto", "exact", "approximate"}
        How neighbors are found; approximate searches report their recall in ``diagnostics_``.
    symmetry : {"or", "and"}
        Whether a pair needs to be listed by one end or by both.
    disconnected : {"apart", "bridge", "largest", "raise"}
        What to do with a graph in pieces: embed each piece apart, join by shortest bridges (with a warning), keep
        the largest (the other points get NaN), or refuse.
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
        Columns orthonormal in the weights D, with weighted mean 0.
    spectrum_ : Spectrum
        Eigenvalues between 0 and 2, ascending; the constant, with eigenvalue 0, is in ``dropped``. Of a graph
        embedded in pieces, that of the largest.
    graph_ : NeighborGraph
        The undirected graph. Given affinities w have become the lengths :math:`\sqrt{-2 \ln (w / w_{max})}`.
    diagnostics_ : dict
        Seconds, components, ``bandwidth``, what "auto" chose.

    Notes
    -----
    New points follow the eigenvector's own equation,
    :math:`v(x) = \frac{1}{1 - \lambda} \sum_j p(x, j) v_j`, over their neighbors; a new point that coincides
    with a fitted one takes its place. Affinities below 1e-10 of the strongest are raised to it.

    References: belkin2003, bengio2004, luxburg2007.

    Examples
    --------
    >>> from manifoldry import LaplacianEigenmaps, datasets
    >>> roll = datasets.swiss_roll(1000)
    >>> model = LaplacianEigenmaps(n_neighbors=10).fit(roll.X)
    >>> model.embedding_.shape
    (1000, 2)
    """

    weights: str = "heat"
    laplacian: str = "random_walk"

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.choice("laplacian", self.laplacian, get_args(LaplacianKind))

    def _follow(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        affinity = self._affinity(sample.graph)
        spectrum = self._pairs(affinity, n_components, run)
        bandwidth = self._bandwidth(sample.graph)
        extension = LaplacianNystrom(
            sample.index,
            bandwidth,
            self._strength,
            spectrum.vectors,
            spectrum.values,
            cast(LaplacianKind, self.laplacian),
            affinity.degrees,
            coincide=not self._affinities_given,
        )
        return Embedding(
            spectrum.vectors, graph=sample.graph, spectrum=spectrum, extension=extension, notes={"bandwidth": bandwidth}
        )

    def _pairs(self, affinity: Affinity, count: int, run: Run) -> Spectrum:
        if self.laplacian == "random_walk":
            L = laplacian(affinity.matrix)
            return smallest(L.matrix, count, B=L.degrees, null=L.null, run=run)
        L = laplacian(affinity.matrix, cast(LaplacianKind, self.laplacian))
        return smallest(L.matrix, count, null=L.null, run=run)

    def _leading_values(self, graph: NeighborGraph, count: int, run: Run) -> FloatArray:
        return self._pairs(self._affinity(graph), count, run).values
