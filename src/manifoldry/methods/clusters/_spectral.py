"""Spectral clustering: cut the neighbor graph where little holds it together, by the eigenvectors of its Laplacian."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import qr, svd
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.csgraph import connected_components
from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, Spectrum
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.elbow import MIN_CLUSTER_GAP, MIN_CURVE_SHARE, REASON_WIDTH
from manifoldry._numerics.extension.affinity import LaplacianNystrom
from manifoldry._numerics.geometry.affinity import LaplacianKind, bandwidth_notes, edge_affinity, laplacian
from manifoldry.graph._operations import components, connect, group_means, symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import neighbor_graph
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._clusterer import Assign, Clusterer, Clustering
from manifoldry.methods._base._estimator import estimator, fitted
from manifoldry.methods._base._texts import BANDWIDTH_TEXT, EDGE_WEIGHTS_TEXT, SEARCH_METRIC_TEXT
from manifoldry.methods.clusters._alternation import NearestCenter, kmeans_starts, nearest_used
from manifoldry.methods.clusters._subspaces import AffineSubspaces

MAX_SUGGESTED_CLUSTERS = 20
"""Clusters up to which n_clusters="auto" looks for a gap: later eigenvalues lie close together."""
MAX_CLUMP_SHARE = 0.1  # share of the mean size of the clusters below which a remark calls one a clump


@register(
    family="spectral",
    problem="eigen",
    papers=("shi2000", "ng2002", "luxburg2007", "damle2019", "bengio2004"),
    gives=("predict", "spectrum"),
    keeps="connectedness: clusters of any shape, cut where the neighbor graph is weakest",
    loses="distances between clusters, and everything within them",
    use_when="clusters are curved or long but dense within, or their number should follow from a gap",
    fails_when="outliers are weakly connected (clumps become clusters), clusters overlap, or dense and thin ones touch",
    cost="a sparse eigenproblem and k-means in n_clusters columns: 5,000 images in seconds, to about 200,000 points",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class SpectralClustering(Clusterer):
    r"""Cluster points by cutting their neighbor graph where it is weakest, for clusters of any shape.

    The normalized cut of the graph is relaxed to eigenvectors:

    .. math:: \mathrm{Ncut}(A_1, \dots, A_c) = \sum_\ell \frac{\mathrm{cut}(A_\ell, \bar A_\ell)}{\mathrm{vol}\, A_\ell}
        = \operatorname{tr} H^T L H, \qquad H_{i\ell} = \frac{[i \in A_\ell]}{\sqrt{\mathrm{vol}\, A_\ell}},
        \quad H^T D H = I ,

    with edge weights W by the heat kernel, degrees D and :math:`L = D - W`. Over all H with :math:`H^T D H = I` the
    least trace is the sum of the c lowest eigenvalues of :math:`L v = \lambda D v`, so no cut is below it (``bound_``).
    The rows of the eigenvectors are divided into clusters by k-means, from several starts, of which the one of least
    cut is kept; or by a pivoted QR factorization. On a graph of c components the clusters are the components.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` returns the same.
    n_clusters_
    spectrum_ : Spectrum
        The lowest eigenpairs, as many as clusters, those of eigenvalue 0 included.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The edge weights W.
    bound_ : float
        Sum of the lowest ``n_clusters_`` eigenvalues less their residuals: no division into that many clusters has a
        lower cut.
    objective_, objectives_
        The normalized (or ratio) cut of the start that was kept, and of all starts.
    subspaces_, reconstruction_errors_, reconstruction_error_, localized_, n_nonlocalized_, graph_
    diagnostics_ : dict
        Seconds and memory, ``bandwidth``, ``components`` of the graph, the ``bridges`` that joined components beyond
        the number of clusters, ``why`` "auto" chose the number, ``advice``.

    See Also
    --------
    LaplacianEigenmaps : coordinates instead of labels, also of given affinities.
    KMeans : round clusters, or millions of points.

    Notes
    -----
    A new point gets its row of the eigenvectors from those of its neighbors, by the eigenvector equation, and its
    cluster by the rule of the fitted points. For affinities instead of points, use
    ``LaplacianEigenmaps(metric="affinity")`` and then `KMeans`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from manifoldry import SpectralClustering
    >>> X, moon = make_moons(400, noise=0.05, random_state=0)
    >>> model = SpectralClustering(n_clusters="auto").fit(X)
    >>> model.n_clusters_, len(set(zip(moon, model.labels_)))
    (2, 2)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of neighbors in the graph that is cut; "auto" is 10.', default="auto"
    )
    n_clusters: PositiveInt | Literal["auto"] = parameter(
        'Number of clusters; there are fewer if there are fewer distinct points. "auto" is the number of '
        "`suggest_n_clusters`: 1 if the eigenvalues have no clear gap, with a warning.",
        default=8,
        kw_only=False,
    )
    weights: Literal["heat", "binary"] = parameter(EDGE_WEIGHTS_TEXT, default="heat")
    bandwidth: Positive | Literal["auto"] = parameter(BANDWIDTH_TEXT, default="auto")
    laplacian: LaplacianKind = parameter(
        'Matrix whose eigenvectors are used: "symmetric" is :math:`D^{-1/2} L D^{-1/2}`, with rows scaled to length '
        r'1 (Ng, Jordan and Weiss); "random_walk" is :math:`L v = \lambda D v` (Shi and Malik); "unnormalized" is L '
        "itself, for the ratio cut, which has the number of points in place of the volume.",
        default="symmetric",
    )
    assign_labels: Literal["kmeans", "cluster_qr"] = parameter(
        "How rows of the eigenvectors become clusters: by k-means or a pivoted QR factorization.", default="kmeans"
    )
    metric: str | Callable[..., Any] = parameter(SEARCH_METRIC_TEXT, default="euclidean")
    n_init: PositiveInt = parameter("Number of starts of k-means.", default=10)

    spectrum_: Spectrum = fitted()
    affinity_matrix_: csr_array = fitted()
    bound_: float = fitted()

    _chunk_support = ChunkSupport(n_rows=10_000)

    def suggest_n_clusters(self, max_clusters: int = MAX_SUGGESTED_CLUSTERS) -> SuggestedClusters:
        """Return the number of eigenvalues before the last clear gap, why, and whether there is such a gap.

        Parameters
        ----------
        max_clusters : int
            The largest number considered; all components of the graph are counted.
        """
        check_is_fitted(self, "labels_")
        W, most = self.affinity_matrix_, check.integer("max_clusters", max_clusters, 1)
        return suggest_clusters(*spectral_values(W, most, self.laplacian, self._run()))

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        neighbors, index = neighbor_graph(X, self._neighbor_rule().resolve(len(X)), run)
        graph = symmetrize(neighbors)
        parts = components(graph)
        notes: dict[str, Any] = {**index.notes, "components": len(parts)}
        if self.n_clusters != "auto" and len(parts) > self.n_clusters:
            instead = f"raise n_neighbors, or n_clusters (now {self.n_clusters})"
            graph, notes["bridges"] = connect(graph, X, parts, self.metric, advice=instead)
        affinity, s = edge_affinity(NeighborhoodData(X, neighbors, graph, index), self.weights, self.bandwidth)
        W = affinity.matrix
        count, advice = self._count(W, notes, run)
        spectrum = low_eigenpairs(W, count, self.laplacian, run)
        V, copies = spectrum.vectors, graph.lengths == 0
        if copies.any():
            V = group_means(V, connected_components(graph.with_edges_where(copies).to_sparse(), directed=False)[1])
        rule, labels, cuts = self._divide(V, W, count, run)
        extension = LaplacianNystrom(index, s, 1.0, V, spectrum.values, self.laplacian, affinity.degrees)
        n_clusters = int(labels.max()) + 1
        return Clustering(
            labels,
            AffineSubspaces.of_clusters(X, labels, n_clusters, self._rank(X)),
            SpectralAssignment(extension, self.laplacian == "symmetric", rule),
            float(cuts.min()),
            cuts,
            graph=graph,
            notes={**notes, **bandwidth_notes(s), "advice": advice, "remarks": _clump_remarks(labels)},
            fitted={
                "spectrum_": spectrum.head(n_clusters),
                "affinity_matrix_": W,
                "bound_": float(np.maximum(spectrum.values - spectrum.residuals, 0.0)[:n_clusters].sum()),
            },
        )

    def _count(self, W: csr_array, notes: dict[str, Any], run: Run) -> tuple[int, tuple[str, ...]]:
        """Return the number of clusters, and what to say if "auto" found none that stands out."""
        if self.n_clusters != "auto":
            return int(self.n_clusters), ()
        suggested = suggest_clusters(*spectral_values(W, MAX_SUGGESTED_CLUSTERS, self.laplacian, run))
        notes["why"] = suggested.why
        if suggested.clear:
            return int(suggested), ()
        left = "All points are left in one cluster: " if int(suggested) == 1 else ""
        return int(suggested), (f"{left}{suggested.why} Say how many clusters you want by n_clusters.",)

    def _divide(self, V: FloatArray, W: csr_array, count: int, run: Run) -> tuple[Assign, IntArray, FloatArray]:
        """Return the rule that divides rows of eigenvectors, the labels of all, and the cuts of all starts."""
        rows = unit_rows(V) if self.laplacian == "symmetric" else V
        rules: list[Assign]
        if self.assign_labels == "cluster_qr":
            with run.stage("clusters"):
                turned = pivoted_rotation(rows)
                rules = [LargestCoordinate(turned.rotation[:, np.unique(turned(rows, run))])]
        else:
            centers = [means.cluster_centers_ for means in kmeans_starts(rows, count, self.n_init, run)]
            rules = [NearestCenter(each[nearest_used(rows, each)[0]]) for each in centers]
        labels = [rule(rows, run) for rule in rules]
        cuts = np.array([cut_value(W, divided, self.laplacian) for divided in labels])
        best = int(np.argmin(cuts))
        return rules[best], labels[best], cuts


def _clump_remarks(labels: IntArray) -> tuple[str, ...]:
    sizes = np.bincount(labels)
    small = int(np.count_nonzero(sizes < MAX_CLUMP_SHARE * sizes.mean()))
    if not small:
        return ()
    return (
        f"{small} of {len(sizes)} clusters {'has' if small == 1 else 'have'} less than a tenth of the mean size, the "
        f"smallest {sizes.min()} of {len(labels)} points: a rare kind, or a clump that hangs on to the others by few "
        "edges. Inspect its rows; if they are outliers, raise n_neighbors.",
    )


# Cuts of graphs into clusters: their value, the eigenvalues that bound it, and the number these suggest.

LOW_PAIR_TOL = 1e-6
"""Residual of eigenpairs, relative to the norm; clusters need no more (5,000 images: 0.4 s, 2.7 for all digits)."""
N_NAMED_STEPS = 3  # steps of the eigenvalues that are named where none is clear


def cut_value(W: csr_array, labels: IntArray, kind: LaplacianKind) -> float:
    """Return the normalized cut of weights W without loops, or the ratio cut ("unnormalized"); all labels occur."""
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    crosses = labels[rows] != labels[W.indices]
    cuts = np.bincount(labels[rows], np.where(crosses, W.data, 0.0))
    if kind == "unnormalized":
        return float(np.sum(cuts / np.bincount(labels)))
    volumes = np.bincount(labels[rows], W.data)
    return float(np.sum(np.divide(cuts, volumes, out=np.zeros_like(cuts), where=volumes > 0)))


def low_eigenpairs(W: csr_array, count: int, kind: LaplacianKind, run: Run) -> Spectrum:
    """Return the ``count`` lowest eigenpairs of a Laplacian, and at least the null vectors of all components."""
    L = laplacian(W, "symmetric" if kind == "random_walk" else kind)
    zeros, n_others = np.zeros(L.n_components), count - L.n_components
    spectrum = Spectrum(zeros, L.null, zeros, "smallest", "components")
    if n_others > 0:
        others = smallest(L.matrix, n_others, null=L.null, tol=LOW_PAIR_TOL, run=run)
        values = np.concatenate([zeros, np.maximum(others.values, 0.0)])
        vectors = np.concatenate([L.null, others.vectors], axis=1)
        spectrum = Spectrum(values, vectors, np.concatenate([zeros, others.residuals]), "smallest", others.solver)
    if kind == "random_walk":
        return replace(spectrum, vectors=spectrum.vectors / np.sqrt(L.degrees)[:, None])
    return spectrum


@dataclass(frozen=True, repr=False)
class SuggestedClusters:
    """A number of clusters, why, and whether a gap of the eigenvalues speaks for it; printed, lines of text."""

    n_clusters: int
    why: str
    clear: bool

    def __int__(self) -> int:
        return self.n_clusters

    def __repr__(self) -> str:
        return f"n_clusters={self.n_clusters}. {self.why}"

    def __str__(self) -> str:
        """Return the number and the reason, in lines of text."""
        return textwrap.fill(repr(self), REASON_WIDTH)


def suggest_clusters(values: FloatArray, n_components: int) -> SuggestedClusters:
    """Return how many of the lowest eigenvalues of a Laplacian stand before its last clear gap.

    A gap is clear if the next eigenvalue is eight times as large: without clusters they are harmonics, the second of
    which is four times the first. The zeros of the components end with a gap, and finer clusters may follow.

    Examples
    --------
    >>> suggest_clusters(np.array([0.0, 1e-3, 2e-3, 0.2, 0.3]), 1)
    n_clusters=3. Eigenvalue 4 (0.2) is 100 times the one before; no later step is clear.
    """
    floor = MIN_CURVE_SHARE * float(np.max(values, initial=0.0)) or 1.0
    sizes = np.maximum(values, floor)
    steps = sizes[1:] / sizes[:-1]
    steps[0] = 1.0  # every graph has one eigenvalue 0
    clear = np.flatnonzero(steps >= MIN_CLUSTER_GAP)
    parts = f"The graph has {n_components} components, and " if n_components > 1 else ""
    if len(clear) and clear[-1] + 1 > n_components:
        c = int(clear[-1]) + 1
        step = f"Eigenvalue {c + 1} ({sizes[c]:.2g}) is {steps[c - 1]:.3g} times the one before"
        finer = f"{parts}finer clusters. " if parts else ""
        return SuggestedClusters(c, f"{finer}{step}; no later step is clear.", True)
    if parts:
        why = f"{parts}no clear gap of the eigenvalues divides them further."
        return SuggestedClusters(n_components, why, True)
    widest = [int(step) + 1 for step in np.argsort(-steps, kind="stable")[:N_NAMED_STEPS] if steps[step] > 1]
    named = ", ".join(f"{c} (by a factor of {steps[c - 1]:.2g})" for c in widest)
    why = (
        f"No eigenvalue is {MIN_CLUSTER_GAP:.0f} times the one before, as between clusters: the graph hangs together, "
        "and no number of clusters stands out." + (f" The widest steps are after {named}." if named else "")
    )
    return SuggestedClusters(1, why, False)


def spectral_values(W: Any, count: int, kind: LaplacianKind, run: Run) -> tuple[FloatArray, int]:
    """Return at least one eigenvalue more than ``count`` and the components, and the number of components."""
    n_components = int(laplacian(W).n_components)
    return low_eigenpairs(W, min(max(count, n_components) + 1, W.shape[0]), kind, run).values, n_components


# From eigenvectors to clusters: k-means of their rows, or a pivoted QR factorization.


@dataclass(frozen=True)
class LargestCoordinate:
    """Points to the column in which their rotated coordinates are largest."""

    rotation: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> IntArray:  # noqa: ARG002
        """Return labels of shape (n,)."""
        # Not a matrix product, whose rounding would depend on how many points are labeled together.
        return np.argmax(np.abs(np.einsum("nk,kc->nc", X, self.rotation)), axis=1)


@dataclass(frozen=True)
class SpectralAssignment:
    """New points to clusters: eigenvectors at the points by Nystrom's formula, then the rule of the fitted ones."""

    extension: LaplacianNystrom
    normalized: bool
    rule: Assign

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        rows = self.extension(X, run)
        return self.rule(unit_rows(rows) if self.normalized else rows, run)


def unit_rows(V: FloatArray) -> FloatArray:
    """Return the rows divided by their lengths, zeros as they are."""
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    return V / np.where(lengths > 0, lengths, 1.0)


def pivoted_rotation(V: FloatArray) -> LargestCoordinate:
    """Return the rotation (damle2019) that brings c rows of eigenvectors (n, c), the pivots, nearest to the axes."""
    chosen = qr(V.T, mode="r", pivoting=True)[1][: V.shape[1]]
    left, _, right = svd(V[chosen].T, full_matrices=False)
    return LargestCoordinate(left @ right)
