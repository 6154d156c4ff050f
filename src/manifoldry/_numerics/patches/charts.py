"""Charts: local coordinates of the patches; `fit_charts` says which kinds there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.extension.local import LocalInverse, LocalReconstruction, forward
from manifoldry._numerics.geometry.principal import n_principal, principal_directions
from manifoldry._numerics.patches.cover import Membership, entries_by_patch
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import bridge, symmetrize
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex, NeighborRule


class Charts(Protocol):
    """The charts of c patches: coordinates of points in them, and points at coordinates."""

    @property
    def n_patches(self) -> int:
        """Number of patches."""

    @property
    def width(self) -> int:
        """Largest dimension of a patch."""

    @property
    def means(self) -> FloatArray:
        """Mean of each patch's points, shape (c, d)."""

    @property
    def sizes(self) -> IntArray:
        """The dimension of each patch, shape (c,); coordinates beyond it are zero."""

    @property
    def spread(self) -> FloatArray:
        """Variances of each patch along its first axes, the chart's and some beyond, shape (c, q)."""

    @property
    def residuals(self) -> FloatArray:
        """Error of each chart relative to the spread of its patch, shape (c,)."""

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points at coordinates f of the charts, shape (M, d)."""


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

    ``kind`` is "curved" (principal directions and, where the points give evidence of it, the second fundamental form),
    "flat" (principal directions alone), "geodesic" (classical scaling of geodesic distances inside the patch) or
    "isomap" (the same of one patch of all points, see `fit_geodesic_charts`). With a ``share``, a patch
    gets only as many dimensions as leave at most this share of its variance.
    """
    if kind in ("geodesic", "isomap"):
        return fit_geodesic_charts(X, members, n_patches, width, run, share, whole=kind == "isomap")
    return fit_curved_charts(X, members, n_patches, width, run, curved=kind == "curved", share=share)


def layout_kind(charts: Charts) -> Literal["patches", "PCA", "Isomap"]:
    """Return what a layout is: one flat patch of all points is PCA, one by geodesic distances may be Isomap."""
    if charts.n_patches == 1 and isinstance(charts, CurvedCharts) and not charts.curved.any():
        return "PCA"
    return "Isomap" if isinstance(charts, GeodesicCharts) and charts.joined else "patches"


# Curved charts: a patch in its principal directions, corrected by its second fundamental form.

MAX_FIT_POINTS = 500
"""Points that a chart is fitted to: more change it by less than its own residual."""

MAX_FIT_POINTS_OF_ALL = 8_000
"""Points that the charts of few patches are fitted to together: one patch is principal components of so many."""

MIN_F_RATIO = 4.0
"""F-ratio of the quadratic terms from which on a patch counts as curved and not as noisy."""

MAX_CHART_NEWTON_STEPS, CHART_NEWTON_TOL = 30, 1e-14
"""For the inverse of the arc-length correction; the tolerance is relative to the largest coordinate."""


@dataclass(frozen=True)
class CurvedCharts:
    r"""Charts of c patches: :math:`u = U^\top (x - b)`, then arc length instead of chord.

    A patch deviates from its tangent plane by :math:`\tfrac12 \sum_{kl} B_{kl} u_k u_l`, B the second fundamental
    form with normal vectors as values. Measured along the surface the chart is
    :math:`f = u + \tfrac16 \sum G_{klmn} u_l u_m u_n` with :math:`G_{klmn} = B_{kl} \cdot B_{mn}`, isometric to fourth
    order for a developable surface.

    b are the ``means``, U the ``frames`` (c, d, r), with zero columns beyond a patch's own dimension, and B the
    ``second_forms`` (c, r, r, d), zero for a flat chart. ``offsets`` (c, d) are the points of the surfaces over the
    means, relative to these; ``residuals`` measure distances from the surfaces. All else is as in `Charts`.
    """

    means: FloatArray
    frames: FloatArray
    sizes: IntArray
    second_forms: FloatArray
    offsets: FloatArray
    spread: FloatArray
    residuals: FloatArray

    def _check_loaded(self) -> None:
        """Refuse curvatures in another space than that of the means; flat charts have none."""
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

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        placed = np.empty((len(members.points), self.width))
        arc_tensors, curved = self.arc_tensors, self.curved

        def work(patch: int, entries: IntArray) -> None:
            u = (X[members.points[entries]] - self.means[patch]) @ self.frames[patch]
            placed[entries] = u + _arc_correction(arc_tensors[patch], u) if curved[patch] else u

        run.map(work, entries_by_patch(members.patches, self.n_patches), blas=True)
        return placed

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points of the charts' surfaces at coordinates f, shape (M, d)."""
        found = np.empty((len(f), self.means.shape[1]))
        arc_tensors, curved = self.arc_tensors, self.curved

        def work(patch: int, entries: IntArray) -> None:
            u = _invert_arc(arc_tensors[patch], f[entries]) if curved[patch] else f[entries]
            found[entries] = self.means[patch] + self.offsets[patch] + u @ self.frames[patch].T
            if curved[patch]:
                found[entries] += _products(u) @ self.second_forms[patch].reshape(u.shape[1] ** 2, -1) / 2

        run.map(work, entries_by_patch(patches, self.n_patches), blas=True)
        return found


def _arc_correction(arc: FloatArray, u: FloatArray) -> FloatArray:
    """Return the difference of arc length and tangent coordinates u, shape (m, r)."""
    width = u.shape[1]
    turned = (_products(u) @ arc.reshape(width * width, -1).T).reshape(len(u), width, width)
    return np.einsum("mkl,ml->mk", turned, u) / 6


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
    most = max(MAX_FIT_POINTS, MAX_FIT_POINTS_OF_ALL // n_patches)
    means, offsets = np.zeros((n_patches, d)), np.zeros((n_patches, d))
    frames, sizes = np.zeros((n_patches, d, width)), np.zeros(n_patches, dtype=np.int64)
    second_forms = np.zeros((n_patches, width, width, d if curved else 0))
    spread, residuals = np.zeros((n_patches, min(d, 2 * width + 1))), np.zeros(n_patches)

    def work(patch: int, entries: IntArray) -> None:
        mine = members.points[entries]
        rows = np.asarray(X[mine[:: max(1, len(mine) // most)]], dtype=float)
        means[patch] = rows.mean(axis=0)
        away = rows - means[patch]
        values, directions = principal_directions(away)
        variances = values / len(rows)
        size = sizes[patch] = n_principal(variances, float(variances.sum()), width, share)
        spread[patch, : len(variances)] = variances[: 2 * width + 1]
        frame = directions[:, :size]
        rest = away - (away @ frame) @ frame.T
        found = _fit_second_form(away, frame) if curved and size else None
        if found is not None:
            frame, offsets[patch], second_forms[patch, :size, :size], rest = found
        frames[patch, :, :size] = frame
        inside = np.square(away @ frame).sum()
        residuals[patch] = np.sqrt(np.square(rest).sum() / inside) if inside > 0 else 0.0

    run.map(work, entries_by_patch(members.patches, n_patches), blas=True)
    return CurvedCharts(means, frames, sizes, second_forms, offsets, spread, residuals)


def _fit_second_form(
    away: FloatArray, frame: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Fit a quadratic surface; return its tangent frame, offset, second fundamental form and residual vectors.

    None where there are too few points, or the quadratic terms are not significant.
    """
    n, size = len(away), frame.shape[1]
    k, m = np.triu_indices(size)
    unknowns = 1 + size + len(k)
    scale = np.sqrt(np.square(away).mean()) if n else 0.0
    if n < 2 * unknowns or scale == 0:
        return None
    # At unit scale: the columns 1, u and u u of the design differ by the unit of the data, and small ones get lost.
    away = away / scale
    for _ in range(2):
        u = away @ frame
        rest = away - u @ frame.T
        squares = u[:, k] * u[:, m] * np.where(k == m, 0.5, 1.0)
        design = np.column_stack([np.ones(n), u, squares])
        found = np.linalg.lstsq(design, rest, rcond=None)[0]
        left = rest - design @ found
        noise = np.square(left).sum() / (n - unknowns)
        linear = design[:, : 1 + size]
        plain = rest - linear @ np.linalg.lstsq(linear, rest, rcond=None)[0]
        gain = (np.square(plain).sum() - np.square(left).sum()) / len(k)
        if gain <= MIN_F_RATIO * noise:
            return None
        # Towards the tangent plane at the mean, which the principal directions of an asymmetric patch do not span.
        frame = np.linalg.qr(frame + found[1 : 1 + size].T)[0]
    u = away @ frame
    rest = away - u @ frame.T
    squares = u[:, k] * u[:, m] * np.where(k == m, 0.5, 1.0)
    design = np.column_stack([np.ones(n), squares])
    found = np.linalg.lstsq(design, rest, rcond=None)[0]
    # Noise adds to the squares of the fitted coefficients: shrink them by its expected share.
    shrinkage = np.sqrt(1 - noise / gain)
    second_form = np.zeros((size, size, away.shape[1]))
    second_form[k, m] = second_form[m, k] = shrinkage * found[1:] / scale
    return frame, scale * found[0], second_form, scale * (rest - design @ found)


# Geodesic charts: a patch embedded by classical scaling of the geodesic distances inside it.

MAX_LAYOUT_POINTS = 400
"""Maximum number of points of a patch that are embedded; the others are reconstructed from neighbors among them."""

NEIGHBORS_PER_ROOT = 2.0
"""Neighbors in the graph of a patch, per root of its points: with fewer, paths zigzag, with more they cut corners.
On half cylinders of 40, 100, 200 and 400 points 12, 16, 24 and 30 neighbors were best, on quarter cylinders 20 to
40."""

MAX_WHOLE_POINTS, WHOLE_NEIGHBORS = 1000, 10
"""The same two numbers for one chart of all points of data that is not a surface: Isomap's neighbors, as with more of
them paths cut across what is between clusters. Digits, trustworthiness: .872 with 10 neighbors, .837 with 40."""

MAX_MAPPED_ENTRIES = 4096
"""Members that one thread maps to a chart at a time."""

_Chart = tuple[FloatArray, int, FloatArray, float, LocalReconstruction, LocalInverse, int]
"""Mean, dimension, spread and residual of one patch, the maps to its coordinates and back, components of its graph."""


@dataclass(frozen=True)
class GeodesicCharts:
    """Charts of c patches, each embedded by classical scaling of the geodesic distances inside it.

    Other members, and new points, are reconstructed from neighbors that were embedded: ``inward`` and ``outward`` map
    points to coordinates and back. ``residuals`` are the root mean square errors of the distances in the chart,
    relative to the geodesic distances. All else is as in `Charts`. Of a whole (see `fit_geodesic_charts`)
    ``joined`` is the number of components of its graph, which shortest edges join; of other charts it is 0.
    """

    means: FloatArray
    width: int
    sizes: IntArray
    spread: FloatArray
    residuals: FloatArray
    inward: Sequence[LocalReconstruction]
    outward: Sequence[LocalInverse]
    joined: int = 0

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.means)

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        placed = np.empty((len(members.points), self.width))

        def work(patch: int, entries: IntArray) -> None:
            placed[entries] = self.inward[patch](np.asarray(X[members.points[entries]], dtype=float), Run(0, 1))

        listed = entries_by_patch(members.patches, self.n_patches)
        parts = [(patch, each[lo:hi]) for patch, each in listed for lo, hi in run.ranges(len(each), MAX_MAPPED_ENTRIES)]
        run.map(work, parts, blas=True)
        return placed

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points at coordinates f of the charts, shape (M, d)."""
        found = np.empty((len(f), self.means.shape[1]))

        def work(patch: int, entries: IntArray) -> None:
            found[entries] = self.outward[patch](f[entries], Run(0, 1))

        run.map(work, entries_by_patch(patches, self.n_patches), blas=True)
        return found


def fit_geodesic_charts(
    X: Array,
    members: Membership,
    n_patches: int,
    width: int,
    run: Run,
    share: float | None = None,
    whole: bool = False,
) -> GeodesicCharts:
    """Embed each patch by its geodesic distances (tenenbaum2000, khajehpour2013); parameters as in `fit_charts`.

    A ``whole`` is one patch of all points of data that is not a surface, with the coordinates of Isomap: those of at
    most `MAX_WHOLE_POINTS` points, at the scale of their paths.
    """
    width = min(width, X.shape[1])
    most = MAX_WHOLE_POINTS if whole else MAX_LAYOUT_POINTS
    listed = dict(entries_by_patch(members.patches, n_patches))

    def work(patch: int) -> _Chart:
        mine = members.points[listed[patch]]
        rows = np.asarray(X[mine[:: -(-len(mine) // most)]], dtype=float)
        return _fit_chart(rows, width, share, whole)

    found = run.map(work, [(patch,) for patch in range(n_patches)], blas=True)
    means, sizes, spread, residuals, inward, outward, parts = zip(*found, strict=True)
    joined = parts[0] if whole else 0
    return GeodesicCharts(
        np.array(means), width, np.array(sizes), np.array(spread), np.array(residuals), inward, outward, joined
    )


def _fit_chart(rows: FloatArray, width: int, share: float | None, whole: bool) -> _Chart:
    n, run = len(rows), Run(0, 1)
    k = WHOLE_NEIGHBORS if whole else max(2 * width + 2, round(NEIGHBORS_PER_ROOT * np.sqrt(n)))
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
    if not whole:
        f *= _true_scale(graph, f)
    spread = np.zeros(2 * width + 1)
    spread[:extra] = values / n
    sample = Sample(rows, neighbors, graph, index)
    maps = forward(sample, f), LocalInverse(rows, f)
    return rows.mean(axis=0), size, spread, _misfit(lengths, f), *maps, len(bridges) + 1


def _true_scale(graph: NeighborGraph, f: FloatArray) -> float:
    """Return the scale at which edges have their lengths: paths zigzag, so the embedding is too large."""
    spans = np.linalg.norm(f[graph.rows()] - f[graph.indices], axis=1)
    return float(spans @ graph.lengths / (spans @ spans)) if spans.any() else 1.0


def _misfit(lengths: FloatArray, f: FloatArray) -> float:
    norm = np.linalg.norm(lengths)
    return float(np.linalg.norm(cdist(f, f) - lengths) / norm) if norm > 0 else 0.0
