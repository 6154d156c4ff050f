"""Charts: local coordinates of the patches, of the kinds that `fit_charts` lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.extension.local import LocalInverse, LocalReconstruction, forward
from manifoldry._numerics.geometry.principal import n_principal, principal_directions
from manifoldry._numerics.patches.cover import (
    MAX_CACHED_ENTRIES,
    MIN_SWEPT_ROWS,
    Membership,
    entries_by_patch,
)
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import bridge, symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex, NeighborRule


def fit_charts(
    X: Array,
    members: Membership,
    n_patches: int,
    width: int,
    run: Run,
    *,
    kind: str = "curved",
    share: float | None = None,
) -> Charts:
    """Fit a chart of at most ``width`` dimensions to each patch.

    ``kind`` is "curved" (principal directions and a second fundamental form), "flat" (principal directions), "geodesic"
    (classical scaling of geodesic distances inside the patch) or "isomap" (the same for one patch of all points). With
    a ``share``, a patch has as many dimensions as leave at most this share of its variance.
    """
    if kind in ("geodesic", "isomap"):
        return _fit_geodesic_charts(X, members, n_patches, width, run, share, all_points=kind == "isomap")
    return fit_curved_charts(X, members, n_patches, width, run, curved=kind == "curved", share=share)


def layout_kind(charts: Charts) -> Literal["patches", "PCA", "Isomap"]:
    """Return what a layout is: one flat patch of all points is PCA, one of geodesic distances is Isomap."""
    if charts.n_patches == 1 and isinstance(charts, CurvedCharts) and not charts.curved.any():
        return "PCA"
    return "Isomap" if isinstance(charts, GeodesicCharts) and charts.joined else "patches"


MAX_FIT_POINTS = 500  # points that a chart is fitted to: more change it by less than its own residual
MAX_FIT_POINTS_OF_ALL = 8_000  # points that the charts of few patches are fitted to together
MAX_STACKED_POINTS = 4096  # points of the patches whose charts one task fits, a millisecond
MIN_F_RATIO = 4.0  # F-ratio of the quadratic terms from which a patch counts as curved and not as noisy
MAX_CHART_NEWTON_STEPS, CHART_NEWTON_TOL = 30, 1e-14
"""Limits of the inverse arc-length correction; the tolerance is relative to the largest coordinate."""


@dataclass(frozen=True)
class CurvedCharts:
    r"""Charts of c patches: :math:`u = U^\top (x - b)`, then arc length instead of chord.

    A patch deviates from its tangent plane by :math:`\tfrac12 \sum_{kl} B_{kl} u_k u_l`, B the second fundamental form.
    Along the surface the chart is :math:`f = u + \tfrac16 \sum G_{klmn} u_l u_m u_n` with :math:`G_{klmn} = B_{kl}
    \cdot B_{mn}`, isometric to fourth order for a developable surface.
    """

    means: FloatArray  # b (c, d)
    frames: FloatArray  # U (c, d, r)
    sizes: IntArray  # dimensions of the patches (c,), beyond which coordinates are zero
    second_forms: FloatArray  # B (c, r, r, d)
    offsets: FloatArray  # points of the surfaces over the means, relative to these (c, d)
    spread: FloatArray  # variances along the first axes (c, q)
    residuals: FloatArray  # errors relative to the spread (c,)

    def _check_loaded(self) -> None:
        """Check that curvatures and means are in the same space; flat charts have no curvatures."""
        if self.second_forms.shape[3] not in (0, self.means.shape[1]):
            raise ValueError("Charts have curvatures in another space than their points.")

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.means)

    @property
    def width(self) -> int:
        """Largest dimension of a patch."""
        return int(self.frames.shape[2])

    @property
    def curved(self) -> Array:
        """Which patches have a second fundamental form, shape (c,)."""
        return np.asarray(self.second_forms.any(axis=(1, 2, 3)))

    @property
    def arc_tensors(self) -> FloatArray:
        """The tensors G of the arc-length correction, shape (c, r, r, r, r)."""
        return np.einsum("ckld,cmnd->cklmn", self.second_forms, self.second_forms)

    @property
    def tables(self) -> tuple[Any, ...]:
        """The charts as compiled loops read them: means, frames, cubic terms, which are curved.

        The terms are the products of three coordinates, by the numbers of these (t, 3), and their factors (c, t, r).
        """
        cubes = np.array(list(combinations_with_replacement(range(self.width), 3)), dtype=np.int32)
        sixth = self.arc_tensors / 6
        bends = np.zeros((self.n_patches, len(cubes), self.width))
        for number, cube in enumerate(cubes):
            for order in set(permutations(cube.tolist())):
                bends[:, number] += sixth[(slice(None), slice(None), *order)]
        return self.means, self.frames, cubes, bends, self.curved

    def sample_coordinates(self, X: FloatArray, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of the entries of a large sample, by compiled loops."""
        from manifoldry._numerics.kernels.patch_rows import chart_entries

        coordinates, tables = np.empty((len(members.points), self.width)), self.tables
        run.map(
            lambda lo, hi: chart_entries(X, members.points, members.patches, tables, lo, hi, coordinates),
            run.shares(len(coordinates), MIN_SWEPT_ROWS),
        )
        return coordinates

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        coordinates = np.empty((len(members.points), self.width))
        arc_tensors, curved = self.arc_tensors, self.curved

        def work(patch: int, entries: IntArray) -> None:
            u = (X[members.points[entries]] - self.means[patch]) @ self.frames[patch]
            coordinates[entries] = u + _arc_correction(arc_tensors[patch], u) if curved[patch] else u

        run.map(work, entries_by_patch(members.patches, self.n_patches), blas=True)
        return coordinates

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points of the charts' surfaces at coordinates f, shape (M, d)."""
        points = np.empty((len(f), self.means.shape[1]))
        arc_tensors, curved = self.arc_tensors, self.curved

        def work(patch: int, entries: IntArray) -> None:
            u = _invert_arc(arc_tensors[patch], f[entries]) if curved[patch] else f[entries]
            points[entries] = self.means[patch] + self.offsets[patch] + u @ self.frames[patch].T
            if curved[patch]:
                points[entries] += _products(u) @ self.second_forms[patch].reshape(u.shape[1] ** 2, -1) / 2

        run.map(work, entries_by_patch(patches, self.n_patches), blas=True)
        return points


def _arc_correction(arc: FloatArray, u: FloatArray) -> FloatArray:
    """Return the difference of arc length and tangent coordinates u, shape (m, r)."""
    width = u.shape[1]
    forms = (_products(u) @ arc.reshape(width * width, -1).T).reshape(len(u), width, width)
    return np.einsum("mkl,ml->mk", forms, u) / 6


def _invert_arc(arc: FloatArray, f: FloatArray) -> FloatArray:
    """Return the tangent coordinates u of the chart coordinates f, by Newton's method."""
    u, width = f, f.shape[1]
    square = width * width
    # The derivative of G u u u / 6, by the symmetry of G in its first and in its last two indices.
    tangent = (arc.reshape(square, square) + 2 * arc.transpose(0, 2, 1, 3).reshape(square, square)) / 6
    for _ in range(MAX_CHART_NEWTON_STEPS):
        slopes = np.eye(width) + (_products(u) @ tangent.T).reshape(-1, width, width)
        step = np.linalg.solve(slopes, (f - u - _arc_correction(arc, u))[:, :, None])[:, :, 0]
        u = u + step
        if np.abs(step).max(initial=0.0) <= CHART_NEWTON_TOL * np.abs(f).max(initial=0.0):
            break
    return u


def _products(u: FloatArray) -> FloatArray:
    """Return the products of coordinates in pairs, shape (m, r * r)."""
    return np.asarray((u[:, :, None] * u[:, None, :]).reshape(len(u), -1))


def fit_curved_charts(
    X: Array, members: Membership, n_patches: int, width: int, run: Run, *, curved: bool, share: float | None = None
) -> CurvedCharts:
    """Fit principal directions and, if ``curved``, a second fundamental form to each patch; see `fit_charts`."""
    d = X.shape[1]
    width = min(width, d)
    max_points = max(MAX_FIT_POINTS, MAX_FIT_POINTS_OF_ALL // n_patches)
    means, offsets = np.zeros((n_patches, d)), np.zeros((n_patches, d))
    frames, sizes = np.zeros((n_patches, d, width)), np.zeros(n_patches, dtype=np.int64)
    second_forms = np.zeros((n_patches, width, width, d if curved else 0))
    spread, residuals = np.zeros((n_patches, min(d, 2 * width + 1))), np.zeros(n_patches)

    def work(patches: IntArray, points: list[IntArray]) -> None:
        rows, mask = _padded_rows(X, points)
        counts = mask.sum(axis=1)
        means[patches] = rows.sum(axis=1) / counts
        centered = (rows - means[patches, None]) * mask
        values, directions = principal_directions(centered)
        variances = values / counts
        sizes[patches] = [n_principal(one, float(one.sum()), width, share) for one in variances]
        spread[patches, : variances.shape[1]] = variances[:, : 2 * width + 1]
        for size in np.unique(sizes[patches]):
            chosen = sizes[patches] == size
            group, mine = patches[chosen], centered[chosen]
            frame = np.ascontiguousarray(directions[chosen, :, :size])
            residual = mine - (mine @ frame) @ frame.swapaxes(1, 2)
            if curved and size:
                bent, fit = _fit_second_forms(mine, mask[chosen], frame)
                frame[bent], offsets[group[bent]], second_forms[group[bent], :size, :size], residual[bent] = fit
            frames[group, :, :size] = frame
            inside = np.square(mine @ frame).sum(axis=(1, 2))
            residuals[group] = np.sqrt(np.square(residual).sum(axis=(1, 2)) / np.where(inside > 0, inside, np.inf))

    groups = [(patch, members.points[entries]) for patch, entries in entries_by_patch(members.patches, n_patches)]
    chosen = [(patch, points[:: max(1, len(points) // max_points)]) for patch, points in groups]
    run.map(work, _stacks_of_patches(chosen, d), blas=True)
    return CurvedCharts(means, frames, sizes, second_forms, offsets, spread, residuals)


def _stacks_of_patches(patches: list[tuple[int, IntArray]], n_columns: int) -> list[tuple[IntArray, list[IntArray]]]:
    """Return numbers and points of patches in stacks of similar numbers of points, which the cache of a core holds."""
    stacks: list[tuple[list[int], list[IntArray]]] = []
    most = min(MAX_STACKED_POINTS, MAX_CACHED_ENTRIES // n_columns)
    for patch, points in sorted(patches, key=lambda item: -len(item[1])):
        longest = len(stacks[-1][1][0]) if stacks else 0
        if not stacks or (len(stacks[-1][0]) + 1) * longest > most:
            stacks.append(([], []))
        stacks[-1][0].append(patch)
        stacks[-1][1].append(points)
    return [(np.array(numbers), points) for numbers, points in stacks]


def _padded_rows(X: Array, points: list[IntArray]) -> tuple[FloatArray, FloatArray]:
    """Return the rows (s, m, d) at lists of points, the longest first, zeros below, and where they are (s, m, 1)."""
    rows, mask = np.zeros((len(points), len(points[0]), X.shape[1])), np.zeros((len(points), len(points[0]), 1))
    for number, mine in enumerate(points):
        rows[number, : len(mine)], mask[number, : len(mine)] = X[mine], 1.0
    return rows, mask


def _fit_second_forms(
    centered: FloatArray, mask: FloatArray, frames: FloatArray
) -> tuple[IntArray, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Return which patches are significantly curved, and their tangent frames, offsets, second forms and residuals."""
    size, counts = frames.shape[2], mask.sum(axis=(1, 2))
    k, m = np.triu_indices(size)
    unknowns = 1 + size + len(k)
    # At unit scale: the columns 1, u and u u of the design scale differently, and small ones would be lost.
    scale = np.sqrt(np.square(centered).sum(axis=(1, 2)) / (counts * centered.shape[2]))
    bent = np.flatnonzero((counts >= 2 * unknowns) & (scale > 0))

    def local_terms(frames: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        unit = centered[bent] / scale[bent, None, None]
        u = unit @ frames
        return u, unit - u @ frames.swapaxes(1, 2), u[:, :, k] * u[:, :, m] * np.where(k == m, 0.5, 1.0)

    frames = frames[bent]
    noise = gain = np.empty(len(bent))
    for _ in range(2):
        u, normal, squares = local_terms(frames)
        solution, gains, residual = _least_squares(np.concatenate([mask[bent], u, squares], axis=2), normal)
        noise = np.square(residual).sum(axis=(1, 2)) / (counts[bent] - unknowns)
        gain = gains[:, 1 + size :].sum(axis=1) / len(k)
        significant = gain > MIN_F_RATIO * noise
        bent, noise, gain = bent[significant], noise[significant], gain[significant]
        # Turn to the tangent plane at the mean, which the principal directions of an asymmetric patch do not span.
        frames = np.linalg.qr(frames[significant] + solution[significant, 1 : 1 + size].swapaxes(1, 2))[0]
    _, normal, squares = local_terms(frames)
    solution, _, residual = _least_squares(np.concatenate([mask[bent], squares], axis=2), normal)
    # Noise adds to the squares of the fitted coefficients: shrink them by its expected share.
    shrinkage, unit = np.sqrt(1 - noise / gain)[:, None, None], scale[bent, None, None]
    second_forms = np.zeros((len(bent), size, size, centered.shape[2]))
    second_forms[:, k, m] = second_forms[:, m, k] = shrinkage * solution[:, 1:] / unit
    return bent, (frames, unit[:, 0] * solution[:, 0], second_forms, unit * residual)


def _least_squares(design: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return solutions of least norm, how much each column reduces the squares beyond those before, and residuals."""
    Q, R = np.linalg.qr(design)
    parts = Q.swapaxes(1, 2) @ values
    solution = np.linalg.pinv(R, rcond=np.finfo(float).eps * design.shape[1]) @ parts
    return solution, np.square(parts).sum(axis=2), values - design @ solution


MAX_LAYOUT_POINTS = 400  # points of a patch that are embedded; the others are reconstructed from neighbors among them
NEIGHBORS_PER_ROOT = 2.0
"""Neighbors in the graph of a patch, per root of its points: with fewer, paths zigzag; with more, they cut corners."""
MAX_WHOLE_POINTS, WHOLE_NEIGHBORS = 1000, 10
"""The same for one chart of all points, with Isomap's neighbors: more would cut across gaps between clusters."""
MAX_MAPPED_ENTRIES = 4096  # members that one thread maps to a chart at a time
_Chart = tuple[FloatArray, int, FloatArray, float, LocalReconstruction, LocalInverse, int]
"""Mean, dimension, spread and residual of one patch, its map and inverse map, components of its graph."""


@dataclass(frozen=True)
class GeodesicCharts:
    """Charts of c patches by classical scaling of the geodesic distances inside each.

    Points that were not embedded are reconstructed from embedded neighbors.
    """

    means: FloatArray
    width: int
    sizes: IntArray
    spread: FloatArray
    residuals: FloatArray  # errors of distances relative to geodesic ones
    inward: Sequence[LocalReconstruction]  # from points to coordinates
    outward: Sequence[LocalInverse]  # from coordinates to points
    joined: int = 0  # components of the graph if one patch has all points, else 0

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.means)

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        coordinates = np.empty((len(members.points), self.width))

        def work(patch: int, entries: IntArray) -> None:
            coordinates[entries] = self.inward[patch](np.asarray(X[members.points[entries]], dtype=float), Run(0, 1))

        groups = entries_by_patch(members.patches, self.n_patches)
        parts = [
            (patch, indices[lo:hi])
            for patch, indices in groups
            for lo, hi in run.ranges(len(indices), MAX_MAPPED_ENTRIES)
        ]
        run.map(work, parts, blas=True)
        return coordinates

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points at coordinates f of the charts, shape (M, d)."""
        points = np.empty((len(f), self.means.shape[1]))

        def work(patch: int, entries: IntArray) -> None:
            points[entries] = self.outward[patch](f[entries], Run(0, 1))

        run.map(work, entries_by_patch(patches, self.n_patches), blas=True)
        return points


Charts = CurvedCharts | GeodesicCharts


def _fit_geodesic_charts(
    X: Array, members: Membership, n_patches: int, width: int, run: Run, share: float | None, all_points: bool
) -> GeodesicCharts:
    """Embed each patch by its geodesic distances (tenenbaum2000, khajehpour2013), or all points as Isomap does."""
    width = min(width, X.shape[1])
    max_points = MAX_WHOLE_POINTS if all_points else MAX_LAYOUT_POINTS
    groups = dict(entries_by_patch(members.patches, n_patches))

    def work(patch: int) -> _Chart:
        points = members.points[groups[patch]]
        rows = np.asarray(X[points[:: -(-len(points) // max_points)]], dtype=float)
        return _fit_chart(rows, width, share, all_points)

    fitted = run.map(work, [(patch,) for patch in range(n_patches)], blas=True)
    means, sizes, spread, residuals, inward, outward, parts = zip(*fitted, strict=True)
    joined = parts[0] if all_points else 0
    return GeodesicCharts(
        np.array(means), width, np.array(sizes), np.array(spread), np.array(residuals), inward, outward, joined
    )


def _fit_chart(rows: FloatArray, width: int, share: float | None, all_points: bool) -> _Chart:
    n, run = len(rows), Run(0, 1)
    k = WHOLE_NEIGHBORS if all_points else max(2 * width + 2, round(NEIGHBORS_PER_ROOT * np.sqrt(n)))
    index = NeighborIndex(rows, NeighborRule(max(1, min(k, n - 1)), search="exact"), run)
    neighbors = index.graph(rows, run) if n > 1 else NeighborGraph.from_sparse(csr_array((1, 1)))
    graph, bridges = bridge(symmetrize(neighbors), rows, "euclidean")
    lengths, _ = geodesic_lengths(graph, run)
    extra = min(2 * width + 1, n)
    scaling = classical_scaling(lengths, extra, run)
    values = np.maximum(scaling.spectrum.values, 0.0)
    size = n_principal(values, float(scaling.mean_squares.sum()) / 2, width, share)
    f = np.zeros((n, width))
    f[:, :size] = scaling.coordinates[:, :size]
    spans = np.linalg.norm(f[graph.rows()] - f[graph.indices], axis=1)
    if not all_points and spans.any():  # paths zigzag: edges get their lengths again
        f *= float(spans @ graph.lengths / (spans @ spans))
    spread = np.zeros(2 * width + 1)
    spread[:extra] = values / n
    sample = NeighborhoodData(rows, neighbors, graph, index)
    maps = forward(sample, f), LocalInverse(rows, f)
    norm = np.linalg.norm(lengths)
    misfit = float(np.linalg.norm(cdist(f, f) - lengths) / norm) if norm > 0 else 0.0
    return rows.mean(axis=0), size, spread, misfit, *maps, len(bridges) + 1
