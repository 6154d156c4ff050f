"""Initial layouts: principal components, slow eigenvectors of the affinities, random, or a given one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.csgraph import connected_components
from manifoldry._core.parameters import Described
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.eigen import column_signs, smallest
from manifoldry._numerics.geometry.laplacian import laplacian
from manifoldry._numerics.scaling import classical_scaling, principal_scaling

Init = (
    Literal["auto", "ipa", "pca", "spectral", "random"]
    | Annotated[Any, Described("an array of shape (n, n_components)")]
)
EIGENVECTOR_TOL = 1e-3
"""Residual of the eigenvectors, relative to the largest possible eigenvalue: the descent bends them anyway. Not larger,
for it does not untangle neighbors: UMAP of a Swiss roll of 50,000 points has trustworthiness 0.994, with 1e-2 0.988,
and 0.971 from vectors of a sixteen times coarser graph."""
JITTER, MIN_SPREAD_SHARE = 1e-4, 1e-8
"""Random part, in units of the spread, that separates places which coincide; share of it that counts as none."""
PIECE_DISTANCE = 2.5
"""Distance of the centers of unconnected pieces, in half-widths of the larger."""
SCALE_STEPS = (16, 8, 4, 2, 1)
"""Steps of the search for a scale, in eighth powers of 2: to 9 percent, which a descent makes up for soon."""
MAX_SCALE_STEPS = 160
"""Eighth powers of 2 between which a scale is sought: a factor of a million and one over it."""

INITIAL_WIDTH, INITIAL_STEPS = 10.0, 2**14
"""Width of every column of an initial layout, and the steps to which it is rounded: negative sampling
magnifies the smallest difference, so the rounding errors of an eigenproblem are not to reach it."""


@dataclass(frozen=True)
class Start:
    """An initial layout (n, d), and what it is: "given", "ipa", "pca", "spectral" or "random".

    It is centered, with standard deviation 1 of the widest column; so is one that is given, whose shape counts and not
    its unit. Those of ``kind`` "ipa" have the shape of the data and want a scale only, others bring little more than
    an order.
    """

    kind: str
    places: FloatArray

    @property
    def shaped(self) -> bool:
        """Whether the layout has the shape of the data."""
        return self.kind == "ipa"


def check_init(init: Any, X: Any, n_components: int, pairwise: bool) -> None:
    """Refuse an ``init`` that is none for the points of ``X``: rows, distances if ``pairwise``, or a graph."""
    if isinstance(init, str):
        if init == "pca" and _is_graph(X, pairwise):
            raise ValueError(
                "init='pca' needs rows of features or all distances; of a graph take 'spectral' or 'random'."
            )
        if init == "ipa" and (pairwise or isinstance(X, NeighborGraph)):
            raise ValueError(
                "init='ipa' needs rows of features, which patches are made of; got distances, affinities or a graph: "
                "take 'spectral' or 'auto'."
            )
        return
    given = np.asarray(init)
    n_points = X.n_points if isinstance(X, NeighborGraph) else X.shape[0]
    if given.shape != (n_points, n_components) or given.dtype.kind not in "iuf":
        raise ValueError(
            f"A given init needs one row of real numbers for each of the {n_points} points and {n_components} columns; "
            f"got shape {given.shape} and type {given.dtype}."
        )
    if not np.isfinite(given).all():
        raise ValueError("A given init must be finite; got NaN or infinity in it.")


def given_layout(init: Any, run: Run) -> FloatArray:
    """Return a given layout centered, with standard deviation 1 of its widest column, in rounded steps.

    So the unit and the origin of the array do not matter: a descent would never leave a start in the unit of the data.
    Without rounding, the last bits of the same shape in another unit would become another layout.
    """
    Y = np.array(init, dtype=np.float64)
    largest = float(np.abs(Y).max())
    return unit_layout(rounded_layout(Y / largest if largest > 0 else Y, stretched=False), run)


def initial_layout(
    init: str, X: Any, affinities: csr_array, n_components: int, run: Run, *, pairwise: bool = False
) -> FloatArray:
    """Return a layout that is centered and has standard deviation 1 of its widest column.

    "auto" is "pca" where ``X`` holds rows or (if ``pairwise``) all distances, of which it is classical scaling; of a
    graph it is "spectral". ``affinities`` are symmetric and non-negative.
    """
    with run.stage("initialization"):
        if init == "auto":
            init = default_init(X, pairwise)
        if init == "spectral":
            Y = _spectral(affinities, n_components, run)
        elif init == "random":
            Y = np.zeros((affinities.shape[0], n_components))
        elif pairwise:
            Y = classical_scaling(np.array(X, dtype=np.float64), n_components, run, overwrite=True).coordinates
        else:
            Y = _principal_components(X, n_components, run)
        return unit_layout(Y, run)


def default_init(X: Any, pairwise: bool) -> str:
    """Return "spectral" for a graph, else "pca"."""
    return "spectral" if _is_graph(X, pairwise) else "pca"


def unit_layout(Y: FloatArray, run: Run) -> FloatArray:
    """Return the layout centered, with standard deviation 1 of its widest column, and no two points at one place."""
    Y = _separated(Y - Y.mean(axis=0), run)
    return Y - Y.mean(axis=0)


def best_scale(objective: Callable[[float], float]) -> float:
    """Return the scale at which the objective, a function of it with one minimum, is least: an eighth power of 2.

    Examples
    --------
    >>> best_scale(lambda scale: (scale - 64) ** 2)
    64.0
    """
    at = cache(lambda power: objective(2.0 ** (power / 8)))
    best = 0
    for step in SCALE_STEPS:
        while abs(best) < MAX_SCALE_STEPS:
            lower = min((best - step, best + step), key=at)
            if not at(lower) < at(best):
                break
            best = lower
    return float(2.0 ** (best / 8))


def rounded_layout(Y: FloatArray, stretched: bool) -> FloatArray:
    """Return an initial layout of a certain width about 0, of all columns or of the widest, in rounded steps."""
    low, high = Y.min(axis=0), Y.max(axis=0)
    width: Any = np.where(high > low, high - low, 1.0)
    if not stretched:
        width = float(width.max())
        low = (low + high - width) / 2
    share = (Y - low) / width
    return INITIAL_WIDTH * (np.round(INITIAL_STEPS * share) / INITIAL_STEPS - 0.5)


def _is_graph(X: Any, pairwise: bool) -> bool:
    return isinstance(X, NeighborGraph) or (pairwise and issparse(X))


def _separated(Y: FloatArray, run: Run) -> FloatArray:
    """Return the layout in units of its spread; places that coincide and columns without spread get some jitter."""
    noise = run.rng("start").standard_normal(Y.shape)
    spread = Y.std(axis=0)
    widest = float(spread.max())
    if widest == 0:
        return noise
    Y = Y / widest
    # Of different places one projection onto a line of its own is different too.
    _, first, copies = np.unique(Y @ np.sqrt(np.arange(2.0, Y.shape[1] + 2)), return_inverse=True, return_counts=True)
    jittered = (copies[first] > 1)[:, None] | (spread <= MIN_SPREAD_SHARE * widest)
    return np.where(jittered, Y + JITTER * noise, Y)


def _principal_components(X: Any, n_components: int, run: Run) -> FloatArray:
    if not issparse(X):
        return principal_scaling(X, n_components, run)[0].coordinates
    from sklearn.decomposition import PCA

    found = min(n_components, min(X.shape) - 1)
    seed = int(run.rng("sparse start").integers(2**31 - 1))
    scores = PCA(found, svd_solver="arpack", random_state=seed).fit_transform(X)
    return np.pad(scores * column_signs(scores), ((0, 0), (0, n_components - found)))


def _spectral(affinities: csr_array, n_components: int, run: Run) -> FloatArray:
    """Return slow eigenvectors of the affinities' random walk; unconnected pieces each by itself, on a lattice."""
    count, label = connected_components(affinities, directed=False)
    if count == 1:
        return _eigenmap(affinities, n_components, run)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
    Y = np.zeros((affinities.shape[0], n_components))
    for members, center in zip(groups, _lattice(np.bincount(label), n_components), strict=True):
        piece = _eigenmap(csr_array(affinities[members][:, members]), n_components, run)
        size = np.abs(piece).max(initial=0.0)
        Y[members] = center + (piece / size if size > 0 else piece) * len(members) ** (1 / n_components)
    return Y


def _eigenmap(affinities: csr_array, n_components: int, run: Run) -> FloatArray:
    """Return rough slow eigenvectors of connected affinities, all of one size."""
    n = affinities.shape[0]
    found = min(n_components, n - 1)
    if found == 0:
        return np.zeros((n, n_components))
    L = laplacian(csr_array(affinities, dtype=np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rough answer is what is asked for
        slow = smallest(L.matrix, found, B=L.degrees, null=L.null, tol=EIGENVECTOR_TOL, tolerable=np.inf, run=run)
    # Columns of one size: an eigenvector of a few outlying points would else leave the others in a heap.
    vectors = slow.vectors / np.maximum(slow.vectors.std(axis=0), np.finfo(float).tiny)
    return np.pad(vectors, ((0, 0), (0, n_components - found)))


def _lattice(sizes: IntArray, n_components: int) -> FloatArray:
    """Return places for pieces, the largest first, so far apart that none overlap."""
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    per_side = int(np.ceil(len(sizes) ** (1 / n_components) - 1e-9))
    places = np.stack(np.unravel_index(rank, (per_side,) * n_components), axis=1)
    return PIECE_DISTANCE * sizes.max() ** (1 / n_components) * places
