"""Metrics against what is known: labels in an embedding, classes of a clustering, coordinates (Procrustes)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.arrays import check_in_memory, on_host
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, OneLine
from manifoldry._numerics.procrustes import Alignment, affine_fit, rigid_fit, similarity_fit
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.graph._pairwise import (
    as_points,
    chunk_rows,
    distance_rows,
    distances_without_self,
    nearest,
    sample_rows,
)

LABEL_TEXTS = SHARED_TEXTS | {
    "Y": ("array-like of shape (n, p)", "The embedding (or any points), compared by Euclidean distance."),
    "labels": (
        "array-like of shape (n,)",
        "The class of each point, numbers or strings, two classes at least. Points without one (None, NaN, NaT) are "
        "left out, as points and as neighbors. -1 is a label like any other: noise of a clustering is left out by "
        "``np.where(labels == -1, np.nan, labels)``.",
    ),
    "n_neighbors": ("int", "Number of neighbors, below the number of labeled points."),
}
"""Parameters of metrics with labels."""


@dataclass(frozen=True)
class Labeled:
    """The labeled points and their classes as integers from 0; points without a label (None, NaN, NaT) are left out."""

    points: IntArray
    classes: IntArray

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1


@documented(LABEL_TEXTS)
def neighborhood_hit(
    Y: Any,
    labels: Any,
    *,
    n_neighbors: int = 15,
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the neighborhood hit: the mean share of a point's nearest neighbors that have its label.

    .. math:: \frac{1}{k n} \sum_i |\{j \in N_Y(i) : \ell_j = \ell_i\}|

    Between 0 and 1; labels dealt at random reach the sum of the squared shares of the classes.

    Notes
    -----
    A point is not its own neighbor, its duplicate is.

    References: paulovich2008

    Examples
    --------
    >>> neighborhood_hit([[0.0], [1.0], [2.0], [9.0], [10.0]], ["a", "a", "a", "b", "b"], n_neighbors=1)
    1.0
    """
    points, labeled, rows = _prepared(Y, labels, sample, random_state)
    k = check.integer("n_neighbors", n_neighbors, 1, len(points) - 1, f" for {len(points)} labeled points")
    return float(label_rows(points, labeled, rows, k, n_jobs)[:, 0].mean())


@documented(LABEL_TEXTS)
def silhouette(
    Y: Any, labels: Any, *, sample: int | None = None, random_state: Any = 0, n_jobs: int | None = None
) -> float:
    r"""Return the mean silhouette of the classes: 1 if they are compact and far apart, negative if they are mixed.

    .. math:: s_i = \frac{b_i - a_i}{\max(a_i, b_i)}

    with a the mean distance of point i to the others of its class and b the least mean distance to another class; 0 for
    the only point of a class. O(n) memory. There must be fewer classes than points.

    Notes
    -----
    It rewards round classes of one size: long or ring-shaped classes score low however clean they are.

    References: rousseeuw1987

    Examples
    --------
    >>> round(silhouette([[0.0], [1.0], [10.0], [11.0]], ["a", "a", "b", "b"]), 4)
    0.8997
    """
    points, labeled, rows = _prepared(Y, labels, sample, random_state)
    return float(label_rows(points, labeled, rows, 1, n_jobs)[:, 2].mean())


def read_labels(labels: Any, n: int) -> Labeled:
    """Return the labeled points and their classes, from valid labels."""
    names = _as_array(labels)
    if names.shape != (n,):
        raise ValueError(f"labels must be one label for each of {n} points; got shape {names.shape}.")
    points = np.flatnonzero([not _missing(name) for name in names.tolist()])
    labeled = names[points]
    try:
        classes = np.unique(labeled, return_inverse=True)[1]
    except TypeError:  # strings and numbers mixed
        classes = np.unique([f"{type(name).__name__} {name}" for name in labeled], return_inverse=True)[1]
    n_classes = len(np.unique(classes))
    if not 2 <= n_classes < len(points):
        raise ValueError(
            f"labels must name at least two classes, and fewer than there are points; got {n_classes} for "
            f"{len(points)} labeled points: leave labels out to score the embedding without them."
        )
    return Labeled(points, classes)


def label_rows(Y: FloatArray, labeled: Labeled, rows: IntArray, k: int, n_jobs: int | None) -> FloatArray:
    """Return, for some rows of the labeled points ``Y``, the columns hit, nearest-neighbor accuracy and silhouette."""
    order = np.argsort(labeled.classes, kind="stable")
    counts = np.bincount(labeled.classes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    in_y = distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> FloatArray:
        classes = labeled.classes[rows[lo:hi]]
        distances = distances_without_self(in_y, rows[lo:hi])
        same = labeled.classes[nearest(distances, k)] == classes[:, None]
        distances[np.arange(hi - lo), rows[lo:hi]] = 0.0
        sums = np.add.reduceat(np.take(distances, order, axis=1), starts, axis=1)
        return np.column_stack([same.mean(axis=1), same[:, 0], silhouettes(sums, counts, classes)])

    return np.concatenate(run.map(block, run.ranges(len(rows), chunk_rows(len(Y))), blas=True))


def silhouettes(sums: FloatArray, counts: IntArray, classes: IntArray) -> FloatArray:
    """Return silhouettes from the sums of distances (b, c) to each class; 0 for the only point of its class."""
    at = np.arange(len(classes)), classes
    inside = sums[at] / np.maximum(counts[classes] - 1, 1)
    means = sums / counts
    means[at] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    values = (outside - inside) / np.where(larger > 0, larger, 1.0)
    return np.where(counts[classes] > 1, values, 0.0)


def _prepared(Y: Any, labels: Any, sample: int | None, random_state: Any) -> tuple[FloatArray, Labeled, IntArray]:
    Y = as_points("Y", Y)
    labeled = read_labels(labels, len(Y))
    return Y[labeled.points], labeled, sample_rows(len(labeled.points), sample, random_state)


def _missing(name: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA: not equal to itself, or not comparable."""
    try:
        return name is None or bool(name != name)
    except TypeError:
        return True


def _as_array(labels: Any) -> Array:
    """Return labels as an array that keeps their types: mixed lists become arrays of objects."""
    check_in_memory(labels, "labels")
    if isinstance(labels, (list, tuple)) and len({type(name) for name in labels}) > 1:
        objects = np.empty(len(labels), dtype=object)
        objects[:] = labels
        return objects
    return np.asarray(labels)


# Clusterings: agreement with classes, error of affine subspaces, connected clusters.


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
    from sklearn.metrics.cluster import contingency_matrix

    check_in_memory(classes, "classes")
    n = np.size(classes)
    counts = contingency_matrix(_partition("labels", labels, n, "classes"), _partition("classes", classes, n, "itself"))
    return float(counts.max(axis=1).sum() / counts.sum())


def _partition(name: str, labels: Any, n: int, alike: str) -> Array:
    """Return valid labels as integers from 0."""
    labels = np.asarray(on_host(labels, name))
    if labels.ndim != 1 or not labels.size:
        raise ValueError(f"{name} must be a list of n > 0 labels, one per point; got shape {labels.shape}.")
    if len(labels) != n:
        raise ValueError(f"{name} must have one entry for each of {alike}; got {len(labels)} for {n}.")
    return np.unique(labels, return_inverse=True)[1]


FitKind = Literal["rigid", "similarity", "affine"]

FITS: dict[FitKind, Callable[[Array, Array], Alignment]] = {
    "rigid": rigid_fit,
    "similarity": similarity_fit,
    "affine": affine_fit,
}
"""The kinds of maps, each a subset of the next."""


@dataclass(frozen=True, repr=False)
class Procrustes(OneLine):
    """The least-squares map ``aligned = scale * Y @ matrix + shift`` of an embedding onto the truth, and its error.

    Parameters
    ----------
    error : float
        Residual sum of squares divided by the centered sum of squares of the truth.
    matrix : ndarray of shape (p, q)
        Rotation or reflection; any matrix for ``kind="affine"``.
    scale : float
        1 unless ``kind="similarity"``.
    shift : ndarray of shape (q,)
        The image of the origin.
    aligned : ndarray of shape (n, q)
        The image of the embedding.
    """

    error: float
    matrix: FloatArray
    scale: float
    shift: FloatArray
    aligned: FloatArray


def procrustes(Y: Any, truth: Any, *, kind: FitKind = "rigid") -> Procrustes:
    r"""Return the least-squares map of Y onto the truth, and its relative error.

    .. math:: \frac{\sum_i |f(y_i) - z_i|^2}{\sum_i |z_i - \bar z|^2}

    minimized over maps f of one kind: rigid (rotation, reflection, translation), similarity (and one scale) or
    affine (any linear map and translation). Similarity and affine errors are at most 1, reached by a collapsed
    embedding; none exceeds the one before it.

    Parameters
    ----------
    Y : array-like of shape (n, p)
        The embedding.
    truth : array-like of shape (n, q)
        The known coordinates of the same points.
    kind : {"rigid", "similarity", "affine"}
        The maps allowed. For the first two, if p and q differ, the narrower set is padded with columns of
        zeros: directions of the truth that Y lacks, and directions of Y that the truth lacks,
        count as error. ``aligned`` then has max(p, q) columns.

    Notes
    -----
    Time and memory grow with n.

    References: schonemann1966, schonemann1970

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.random.default_rng(0).normal(size=(50, 2))
    >>> mirrored = 3.0 - 2.0 * truth[:, ::-1]
    >>> round(procrustes(mirrored, truth, kind="similarity").error, 12)
    0.0
    """
    Y, truth = as_points("Y", Y), as_points("truth", truth)
    if len(Y) != len(truth):
        raise ValueError(f"Y and truth must have one row per point; got {len(Y)} and {len(truth)} rows: pass the same.")
    spread = float(np.sum((truth - truth.mean(axis=0)) ** 2))
    if spread == 0:
        raise ValueError(f"All {len(truth)} points of the truth coincide, so no error can be relative to it.")
    check.choice("kind", kind, FITS)
    fit = FITS[kind](Y, truth)
    aligned = fit(Y)
    inside, beyond = aligned[:, : truth.shape[1]] - truth, aligned[:, truth.shape[1] :]
    error = (float(np.vdot(inside, inside)) + float(np.vdot(beyond, beyond))) / spread
    return Procrustes(error, fit.matrix, fit.scale, fit.shift, aligned)
