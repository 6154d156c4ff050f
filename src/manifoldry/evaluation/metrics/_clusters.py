"""Quality of clusterings: agreement with classes, error of affine subspaces, connected clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import svdvals
from scipy.special import xlogy

from manifoldry._core import check
from manifoldry._core.arrays import on_host, refuse_blocks
from manifoldry._core.values import Array, FloatArray, NeighborGraph
from manifoldry.graph._operations import label_pieces
from manifoldry.graph._pairwise import as_points


def purity(labels: Any, classes: Any) -> float:
    r"""Return the purity: the share of points in the most frequent class of their cluster.

    .. math:: \frac1n \sum_{\ell} \max_g |C_\ell \cap L_g|

    1 if every cluster holds one class only; never below the share of the largest class.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The cluster of each point, numbers or strings.
    classes : array-like of shape (n,)
        The class of each point; there may be more or fewer classes than clusters.

    Notes
    -----
    References: khajehpour2013 (equation 4.18), manning2008

    Examples
    --------
    >>> purity([0, 0, 0, 1, 1], ["a", "a", "b", "b", "b"])
    0.8
    """
    counts = _contingency(labels, classes)
    return float(counts.max(axis=1).sum() / counts.sum())


def nmi(labels: Any, classes: Any) -> float:
    r"""Return the normalized mutual information of clusters and classes.

    .. math:: \frac{2\, I(C; L)}{H(C) + H(L)}, \qquad
        I(C; L) = \sum_{\ell, g} \frac{|C_\ell \cap L_g|}{n} \log \frac{n\, |C_\ell \cap L_g|}{|C_\ell|\, |L_g|}

    Between 0 (independent) and 1 (the same partition). For one cluster and one class it is 1.

    Parameters
    ----------
    labels, classes
        As in `purity`; the measure is symmetric in them.

    Notes
    -----
    References: khajehpour2013 (equations 4.19 to 4.21), manning2008

    Examples
    --------
    >>> nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    shares = _contingency(labels, classes)
    shares = shares / shares.sum()
    joint, of_labels, of_classes = (_entropy(part) for part in (shares, shares.sum(axis=1), shares.sum(axis=0)))
    if of_labels + of_classes == 0:
        return 1.0
    # I = H(C) + H(L) - H(C, L); rounding may leave it some eps outside its bounds.
    return float(np.clip(2.0 * (of_labels + of_classes - joint) / (of_labels + of_classes), 0.0, 1.0))


def subspace_error(X: Any, labels: Any, n_components: int, *, per_point: bool = False) -> float:
    r"""Return the sum of squared distances of all points to the best affine subspace of their cluster.

    .. math:: \phi_{rec} = \sum_{\ell} \min_{b,\, U^T U = I} \sum_{i \in C_\ell} |(I - U U^T)(x_i - b)|^2

    The best affine subspace of r dimensions passes through the cluster's mean along its first r principal directions,
    so each term is the sum of squares of the singular values after the r-th. With r = 0 it is the objective of k-means.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points.
    labels : array-like of shape (n,)
        The cluster of each point.
    n_components : int
        Dimension r of the subspaces.
    per_point : bool
        Divide by n.

    Notes
    -----
    References: khajehpour2013 (equation 4.7)

    Examples
    --------
    >>> import numpy as np
    >>> line = np.arange(6.0)[:, None] * [1.0, 2.0]
    >>> round(subspace_error(line, [0, 0, 0, 1, 1, 1], 1), 12)
    0.0
    >>> round(subspace_error(line, [0, 0, 0, 1, 1, 1], 0), 12)
    20.0
    """
    points = as_points("X", X)
    names = _partition("labels", labels, len(points), "the points of X")
    r = check.integer("n_components", n_components, 0)
    clusters = (points[names == name] for name in range(names.max() + 1))
    error = sum(_left_out(members - members.mean(axis=0), r) for members in clusters)
    return float(error / len(points) if per_point else error)


def nonlocalized(labels: Any, graph: Any) -> Array:
    """Return the labels of the clusters that are not connected in the neighbor graph.

    A cluster is localized if the subgraph of its points is connected.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The cluster of each point.
    graph : NeighborGraph or sparse matrix of shape (n, n)
        The neighbor graph; directions of edges are ignored, stored zeros are edges.

    Returns
    -------
    ndarray
        The labels, ascending.

    Notes
    -----
    References: khajehpour2013 (section 4.3.5)

    Examples
    --------
    >>> from scipy.sparse import diags_array
    >>> path = diags_array([1.0, 1.0, 1.0], offsets=1, shape=(4, 4))
    >>> nonlocalized([0, 1, 1, 0], path).tolist()
    [0]
    """
    refuse_blocks(graph, "graph")
    graph = graph if isinstance(graph, NeighborGraph) else NeighborGraph.from_sparse(graph)
    names = _partition("labels", labels, graph.n_points, "the points of the graph")
    _, owners = label_pieces(names, graph)
    return np.unique(np.asarray(labels))[np.bincount(owners) > 1]


def _left_out(centered: FloatArray, r: int) -> float:
    return float(np.sum(svdvals(centered, overwrite_a=True)[r:] ** 2))


def _entropy(shares: FloatArray) -> float:
    return float(-xlogy(shares, shares).sum())


def _contingency(labels: Any, classes: Any) -> Array:
    """Return the contingency table of clusters (rows) and classes (columns)."""
    refuse_blocks(classes, "classes")
    n = np.size(classes)
    rows, columns = _partition("labels", labels, n, "classes"), _partition("classes", classes, n, "itself")
    width = columns.max() + 1
    return np.bincount(rows * width + columns, minlength=(rows.max() + 1) * width).reshape(-1, width)


def _partition(name: str, labels: Any, n: int, alike: str) -> Array:
    """Return labels as integers from 0, or refuse them."""
    labels = np.asarray(on_host(labels, name))
    if labels.ndim != 1 or not labels.size:
        raise ValueError(f"{name} must be a list of n > 0 labels, one per point; got shape {labels.shape}.")
    if len(labels) != n:
        raise ValueError(f"{name} must have one entry for each of {alike}; got {len(labels)} for {n}.")
    return np.unique(labels, return_inverse=True)[1]
