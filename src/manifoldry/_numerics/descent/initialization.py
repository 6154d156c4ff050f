"""Initial layouts: principal components, low eigenvectors of the affinities' Laplacian, random, or a given one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse
from scipy.sparse.linalg import eigsh

from manifoldry._core.csgraph import breadth_first_order, connected_components
from manifoldry._core.parameters import Described
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.eigen import column_signs, fix_signs
from manifoldry._numerics.eigen.davidson import Tolerance
from manifoldry._numerics.eigen.pencil import Pencil
from manifoldry._numerics.eigen.solvers import MAX_LAPACK_SIZE, N_GUARD_VECTORS, lowest
from manifoldry._numerics.eigen.two_level import MIN_WIDTH
from manifoldry._numerics.geometry.neighbor_affinity import JointRows, host_matrix
from manifoldry._numerics.scaling import classical_scaling, principal_scaling

if TYPE_CHECKING:
    from manifoldry._core.device import Device

Init = (
    Literal["auto", "ipa", "pca", "spectral", "random"]
    | Annotated[Any, Described("an array of shape (n, n_components)")]
)
EIGENVECTOR_TOL = 1e-3
"""Residual of the eigenvectors, relative to the largest possible eigenvalue, 2: the descent changes them anyway."""
MAX_ARPACK_POINTS, ARPACK_TOL = 2000, 1e-4
"""Number of points up to which ARPACK finds them, in the 4 to 12 ms of two levels, whose loops compile for 2 s at their
first use. It sees no long waves in advance, so that residuals are smaller."""
FURTHER_SHARE, LONG_RATIO = 0.1, 3.0
"""Long thin data has its second eigenvalue at least 3 times as large as the first (on a rectangle of sides 1 and r the
ratio is min(4, r^2)), and its first eigenvectors are functions of each other (cos x, cos 2x): a layout would begin as a
curve. So a share of further ones with eigenvalues below the tolerance is added: UMAP's trustworthiness on a roll of
20,000 points is 0.997 with them and 0.989 without. A million digits, whose eigenvalues are all small, would lose 0.01
in trustworthiness and labels."""
JITTER, MIN_SPREAD_SHARE = 1e-4, 1e-8
"""Random part, in units of the spread, that separates coinciding points; share of the spread that counts as zero."""
LARGEST_EIGENVALUE = 2.0  # of 1 - D^-1 W
SCALED_ROWS = 8192  # rows of affinities that a task scales
MIN_DEVICE_ROWS = 400
"""Rows of a component from which its eigenvectors are computed on a GPU; those of fewer take the CPU milliseconds."""
COMPONENT_DISTANCE = 2.5  # distance between the centers of connected components, in half-widths of the larger
SCALE_STEPS = (16, 8, 4, 2, 1)
"""Steps of the search for a scale, in eighth powers of 2: to 9 percent, which a descent soon corrects."""
MAX_SCALE_STEPS = 160
"""Range of the search for a scale, in eighth powers of 2: a factor of a million in both directions."""

INITIAL_WIDTH, INITIAL_STEPS = 10.0, 2**14
"""Width of the columns of an initial layout, and the number of steps to which it is rounded: negative sampling
magnifies the rounding errors of an eigenproblem."""


@dataclass(frozen=True)
class Start:
    """An initial layout (n, d), centered, its widest column of standard deviation 1, and its kind, such as "pca"."""

    kind: str
    places: FloatArray

    @property
    def shaped(self) -> bool:
        """Whether the layout has the shape of the data."""
        return self.kind == "ipa"


def check_init(init: Any, X: Any, n_components: int, pairwise: bool) -> None:
    """Check ``init`` for the points of ``X``: rows, distances if ``pairwise``, or a graph."""
    if isinstance(init, str):
        if init == "pca" and _is_graph(X, pairwise):
            raise ValueError(
                "init='pca' needs rows of features or all distances; for a graph use 'spectral' or 'random'."
            )
        if init == "ipa" and (pairwise or isinstance(X, NeighborGraph)):
            raise ValueError(
                "init='ipa' needs rows of features, from which patches are built; got distances, affinities or a "
                "graph: use 'spectral' or 'auto'."
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
    """Return a given layout centered, its widest column with standard deviation 1, in rounded steps."""
    Y = np.array(init, dtype=np.float64)
    largest = float(np.abs(Y).max())
    return unit_layout(rounded_layout(Y / largest if largest > 0 else Y, stretched=False), run)


def initial_layout(
    init: str, X: Any, affinities: csr_array | JointRows, n_components: int, run: Run, *, pairwise: bool = False
) -> FloatArray:
    """Return a centered layout whose widest column has standard deviation 1, from affinities or rows."""
    with run.stage("initialization"):
        if init == "auto":
            init = default_init(X, pairwise)
        if init == "spectral":
            Y = _spectral(host_matrix(affinities, run), n_components, run)
        elif init == "random":
            Y = np.zeros((affinities.shape[0], n_components))
        elif pairwise:
            Y = classical_scaling(np.array(X, dtype=np.float64), n_components, run, overwrite=True).coordinates
        else:
            Y = _principal_components(X, n_components, run)
        return unit_layout(Y, run)


def default_init(X: Any, pairwise: bool) -> str:
    """Return "spectral" for a graph, otherwise "pca"."""
    return "spectral" if _is_graph(X, pairwise) else "pca"


def unit_layout(Y: FloatArray, run: Run) -> FloatArray:
    """Return the layout centered, its widest column with standard deviation 1, and coinciding points separated."""
    noise = run.rng("start").standard_normal(Y.shape)
    if run.gpu is None:
        return _unit_layout(Y, noise, np)
    layout: FloatArray = run.gpu.host(_unit_layout(run.gpu.array(Y, np.float64), run.gpu.array(noise), run.gpu.xp))
    return layout


def _unit_layout(Y: Any, noise: Any, xp: Any) -> Any:
    Y = Y - Y.mean(axis=0)
    spread = Y.std(axis=0)
    widest = float(spread.max())
    if widest == 0:
        return noise - noise.mean(axis=0)
    Y = Y / widest
    # One generic projection distinguishes different positions.
    generic = Y @ xp.sqrt(xp.arange(2.0, Y.shape[1] + 2))
    _, first, copies = xp.unique(generic, return_inverse=True, return_counts=True)
    jittered = (copies[first] > 1)[:, None] | (spread <= MIN_SPREAD_SHARE * widest)
    Y = xp.where(jittered, Y + JITTER * noise, Y)
    return Y - Y.mean(axis=0)


def best_scale(objective: Callable[[float], float]) -> float:
    """Return the scale, an eighth power of 2, that minimizes an objective with one minimum."""
    at = cache(lambda power: objective(2.0 ** (power / 8)))
    best = 0
    for step in SCALE_STEPS:
        while abs(best) < MAX_SCALE_STEPS:
            lower = min((best - step, best + step), key=at)
            if not at(lower) < at(best):
                break
            best = lower
    return float(2.0 ** (best / 8))


def rounded_layout(Y: FloatArray, stretched: bool, gpu: Device | None = None) -> FloatArray:
    """Return a layout in rounded steps, scaled to `INITIAL_WIDTH`: every column if ``stretched``, or the widest."""
    if gpu is not None:
        layout: FloatArray = gpu.host(_rounded_layout(gpu.array(Y), stretched, gpu.xp))
        return layout
    return _rounded_layout(Y, stretched, np)


def _rounded_layout(Y: Any, stretched: bool, xp: Any) -> Any:
    low, high = Y.min(axis=0), Y.max(axis=0)
    width = xp.where(high > low, high - low, 1.0)
    if not stretched:
        width = width.max()
        low = (low + high - width) / 2
    share = (Y - low) / width
    return INITIAL_WIDTH * (xp.round(INITIAL_STEPS * share) / INITIAL_STEPS - 0.5)


def in_order(places: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return an initial layout sorted by its columns, each in rounded steps of its own, and the points in this order.

    Points numbered in this order get the same random partners however the rows of the data are permuted.
    """
    spread = places.std(axis=0)
    steps = np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0)))) / INITIAL_STEPS
    rounded = steps * np.round(places / steps)
    order = np.lexsort(rounded.T[::-1])
    return rounded[order], order


def _is_graph(X: Any, pairwise: bool) -> bool:
    return isinstance(X, NeighborGraph) or (pairwise and issparse(X))


def _principal_components(X: Any, n_components: int, run: Run) -> FloatArray:
    if not issparse(X):
        if run.gpu is not None and X.shape[1] <= len(X):
            from manifoldry._numerics.gpu.principal import MAX_COLUMNS, principal_scores

            if X.shape[1] <= MAX_COLUMNS:
                return principal_scores(X, n_components, run)
        return principal_scaling(X, n_components, run)[0].coordinates
    from sklearn.decomposition import PCA

    n_found = min(n_components, min(X.shape) - 1)
    seed = int(run.rng("sparse start").integers(2**31 - 1))
    scores = PCA(n_found, svd_solver="arpack", random_state=seed).fit_transform(X)
    return np.pad(scores * column_signs(scores), ((0, 0), (0, n_components - n_found)))


def _spectral(affinities: csr_array, n_components: int, run: Run) -> FloatArray:
    """Return the lowest nonconstant eigenvectors of the affinities; connected components are arranged on a lattice."""
    n, levels = affinities.shape[0], None
    if run.gpu is not None and n > MIN_DEVICE_ROWS:
        from manifoldry._numerics.gpu.spectral import Levels

        levels = Levels(affinities, run.gpu)
        count, label = levels.components()
    elif len(breadth_first_order(affinities, 0, directed=True, return_predecessors=False)) == n:
        count, label = 1, np.empty(0, dtype=np.int32)
    else:
        count, label = connected_components(affinities, directed=False)
    if count == 1:
        return _eigenmap(affinities, n_components, run, levels)
    del levels  # gives back its memory
    sizes = np.bincount(label, minlength=count)
    order, ends = np.argsort(label, kind="stable"), np.cumsum(sizes)
    position = np.empty(n, dtype=affinities.indices.dtype)  # of a point in its component
    position[order] = np.arange(n) - np.repeat(ends - sizes, sizes)
    Y = np.zeros((n, n_components))
    for members, center in zip(np.split(order, ends[:-1]), _lattice(sizes, n_components), strict=True):
        rows = affinities[members]
        part = csr_array((rows.data, position[rows.indices], rows.indptr), shape=(len(members),) * 2)
        component = _eigenmap(part, n_components, run)
        size = np.abs(component).max(initial=0.0)
        Y[members] = center + (component / size if size > 0 else component) * len(members) ** (1 / n_components)
    return Y


def _eigenmap(affinities: csr_array, n_components: int, run: Run, levels: Any = None) -> FloatArray:
    """Return approximate lowest eigenvectors of connected affinities, all of one size; on a GPU from its levels."""
    n = affinities.shape[0]
    n_found = min(n_components, n - 1)
    if n_found == 0:
        return np.zeros((n, n_components))
    with run.stage("eigenproblem"):
        if run.gpu is not None and n > MIN_DEVICE_ROWS:
            from manifoldry._numerics.gpu.spectral import Levels

            width = max(n_found + N_GUARD_VECTORS, MIN_WIDTH)
            levels = levels or Levels(affinities, run.gpu)
            vectors, values = levels.lowest(n_found, width, EIGENVECTOR_TOL * LARGEST_EIGENVALUE)
            layout: FloatArray = run.gpu.host(_columns(vectors, values / LARGEST_EIGENVALUE, n_found, n_components))
            return layout
        root = np.sqrt(np.asarray(affinities.sum(axis=1), dtype=np.float64).reshape(-1))
        scale = 1.0 / root
        ends, between = affinities.indptr, np.empty(affinities.nnz)

        def scaled(lo: int, hi: int) -> None:
            own = slice(ends[lo], ends[hi])
            rows = np.repeat(scale[lo:hi], np.diff(ends[lo : hi + 1]))
            between[own] = affinities.data[own] * (rows * scale[affinities.indices[own]])

        run.map(scaled, run.shares(n, SCALED_ROWS))
        moves = csr_array((between, affinities.indices, ends), shape=(n, n))
        if MAX_LAPACK_SIZE < n <= MAX_ARPACK_POINTS:
            values, vectors = _arpack(moves, n_found)
        else:
            pencil = Pencil.of(csr_array(eye_array(n) - moves), None, 1.0, root, run)
            del between, moves  # as large as the affinities
            ritz, _ = lowest(pencil, n_found, replace(Tolerance.of(EIGENVECTOR_TOL, pencil.eps), tolerable=np.inf), run)
            values, vectors = ritz.values / LARGEST_EIGENVALUE, ritz.vectors
    return _columns(fix_signs(vectors * scale[:, None]), values, n_found, n_components)


def _columns(vectors: Any, values: FloatArray, n_found: int, n_components: int) -> Any:
    """Return the columns of a layout, on the CPU or the GPU, from eigenvectors and shares of the largest eigenvalue."""
    # Columns of one size: otherwise an eigenvector of a few outliers would compress all other points.
    vectors = vectors / np.maximum(vectors.std(axis=0), np.finfo(float).tiny)
    if n_found > 1 and values[1] > LONG_RATIO * values[0]:
        for j in range(n_found, vectors.shape[1]):
            if values[j] < EIGENVECTOR_TOL:
                vectors[:, j % n_found] += FURTHER_SHARE * vectors[:, j]
    return np.pad(vectors[:, :n_found], ((0, 0), (0, n_components - n_found)))


def _arpack(moves: csr_array, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the lowest nonzero eigenvalues of a normalized Laplacian, halved, and vectors; ``moves`` is 1 minus it."""
    v0 = np.random.Generator(np.random.Philox(key=0)).standard_normal(moves.shape[0])
    with one_blas_thread():
        values, vectors = eigsh(moves, k + 1 + N_GUARD_VECTORS, which="LA", tol=ARPACK_TOL, v0=v0)
    order = np.argsort(-values)[1:]
    return (1.0 - values[order]) / 2.0, vectors[:, order]


def _lattice(sizes: IntArray, n_components: int) -> FloatArray:
    """Return centers for connected components, the largest first, far enough apart not to overlap."""
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    per_side = int(np.ceil(len(sizes) ** (1 / n_components) - 1e-9))
    cells = np.stack(np.unravel_index(rank, (per_side,) * n_components), axis=1)
    return COMPONENT_DISTANCE * sizes.max() ** (1 / n_components) * cells
