"""Charts: a patch laid out flat; here by its principal directions and by the way it bends away from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manifoldry.patches.cover import Membership
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray

FIT_POINTS = 500
"""Points a chart is fitted to: more change it by less than its own residual."""

FLAT = 1e-10
"""Directions with less than this share of a patch's variance are not there."""

EVIDENCE = 4.0
"""F-ratio from which on a patch counts as bent and not as noisy."""

INVERSE_STEPS, EXACT = 30, 1e-14
NORMAL = 1e-12


class Charts(Protocol):
    """What charts of c patches know and do; `fit_charts` says which kinds there are."""

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        ...

    @property
    def width(self) -> int:
        """Largest dimension of a patch."""
        ...

    @property
    def means(self) -> FloatArray:
        """Mean of each patch's points, shape (c, d)."""
        ...

    @property
    def sizes(self) -> IntArray:
        """The dimension of each patch, shape (c,); coordinates beyond it are zero."""
        ...

    @property
    def spread(self) -> FloatArray:
        """Variances of each patch along its first axes, the chart's and some beyond, shape (c, q)."""
        ...

    @property
    def residuals(self) -> FloatArray:
        """How much of each patch its chart misses, relative to its spread, shape (c,)."""
        ...

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        ...

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points of the charts' surfaces at coordinates f, shape (M, d)."""
        ...


@dataclass(frozen=True)
class BentCharts:
    r"""Charts of c patches: :math:`u = U^\top (x - b)`, then arc length instead of chord.

    A patch bends away from its flat by :math:`\tfrac12 \sum_{kl} B_{kl} u_k u_l`, vectors normal to it. Measured along
    the surface the chart is :math:`f = u + \tfrac16 \sum G_{klmn} u_l u_m u_n` with
    :math:`G_{klmn} = B_{kl} \cdot B_{mn}`, isometric to fourth order for a surface that can be rolled flat.

    Parameters
    ----------
    means : ndarray of shape (c, d)
        b.
    frames : ndarray of shape (c, d, r)
        U, orthonormal columns; zero columns beyond a patch's own dimension.
    sizes : ndarray of shape (c,)
        The dimension of each patch.
    bends : ndarray of shape (c, r, r, d)
        B; zero for a flat chart.
    rises : ndarray of shape (c, d)
        Where the bent patch passes above its mean.
    spread : ndarray of shape (c, q)
        Variances of each patch along its first principal directions, the flat's and some beyond.
    residuals : ndarray of shape (c,)
        Root mean square distance of the points from the chart's surface, relative to their spread in it.
    """

    means: FloatArray
    frames: FloatArray
    sizes: IntArray
    bends: FloatArray
    rises: FloatArray
    spread: FloatArray
    residuals: FloatArray

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.means)

    @property
    def width(self) -> int:
        """Largest dimension of a patch."""
        return int(self.frames.shape[2])

    @property
    def bent(self) -> Array:
        """Which patches bend, shape (c,)."""
        return np.asarray(self.bends.any(axis=(1, 2, 3)))

    @property
    def arcs(self) -> FloatArray:
        """The tensors G, shape (c, r, r, r, r)."""
        return np.einsum("ckld,cmnd->cklmn", self.bends, self.bends)

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        placed = np.empty((len(members.points), self.width))
        arcs, bent = self.arcs, self.bent

        def work(patch: int, entries: IntArray) -> None:
            u = (X[members.points[entries]] - self.means[patch]) @ self.frames[patch]
            placed[entries] = u + _arc(arcs[patch], u) if bent[patch] else u

        run.map(work, patch_tasks(members.patches, self.n_patches), blas=True)
        return placed

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points of the charts' surfaces at coordinates f, shape (M, d)."""
        found = np.empty((len(f), self.means.shape[1]))
        arcs, bent = self.arcs, self.bent

        def work(patch: int, entries: IntArray) -> None:
            u = _chord(arcs[patch], f[entries]) if bent[patch] else f[entries]
            found[entries] = self.means[patch] + self.rises[patch] + u @ self.frames[patch].T
            if bent[patch]:
                found[entries] += _products(u) @ self.bends[patch].reshape(u.shape[1] ** 2, -1) / 2

        run.map(work, patch_tasks(patches, self.n_patches), blas=True)
        return found


def patch_tasks(patches: IntArray, n_patches: int) -> list[tuple[int, IntArray]]:
    """Return every patch that occurs, with the places where it does."""
    order = np.argsort(patches, kind="stable")
    entries = np.split(order, np.cumsum(np.bincount(patches, minlength=n_patches))[:-1])
    return [(patch, mine) for patch, mine in enumerate(entries) if len(mine)]


def _arc(arc: FloatArray, u: FloatArray) -> FloatArray:
    """Return what the way along the surface adds to the coordinates u, shape (m, r)."""
    width = u.shape[1]
    turned = (_products(u) @ arc.reshape(width * width, -1).T).reshape(len(u), width, width)
    return np.einsum("mkl,ml->mk", turned, u) / 6


def _chord(arc: FloatArray, f: FloatArray) -> FloatArray:
    """Return the coordinates u in the flat whose way along the surface is f, by Newton's method."""
    u, width = f, f.shape[1]
    square = width * width
    # The derivative of G u u u / 6: a third along the bend, two thirds along its turn.
    tangent = (arc.reshape(square, square) + 2 * arc.transpose(0, 2, 1, 3).reshape(square, square)) / 6
    for _ in range(INVERSE_STEPS):
        slopes = np.eye(width) + (_products(u) @ tangent.T).reshape(-1, width, width)
        step = np.linalg.solve(slopes, (f - u - _arc(arc, u))[:, :, None])[:, :, 0]
        u = u + step
        if np.abs(step).max(initial=0.0) <= EXACT * np.abs(f).max(initial=0.0):
            break
    return u


def _products(u: FloatArray) -> FloatArray:
    """Return the products of coordinates in pairs, shape (m, r * r)."""
    return np.asarray((u[:, :, None] * u[:, None, :]).reshape(len(u), -1))


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

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The points.
    members : Membership
        Who belongs to which patch.
    n_patches, width : int
        Number of patches, and the largest dimension.
    run : Run
        Threads.
    kind : {"curved", "flat", "geodesic"}
        Principal directions and, where the points give evidence of them, bends; principal directions alone; or the
        lengths of paths inside the patch.
    share : float, optional
        Give each patch only as many dimensions as leave at most this share of its variance.

    Returns
    -------
    Charts
    """
    if kind == "geodesic":
        from manifoldry.patches.geodesic import fit_geodesic_charts

        return fit_geodesic_charts(X, members, n_patches, width, run, share)
    d = X.shape[1]
    width = min(width, d)
    curved = kind == "curved"
    extra = min(d, 2 * width + 1)
    charts = BentCharts(
        np.zeros((n_patches, d)),
        np.zeros((n_patches, d, width)),
        np.zeros(n_patches, dtype=np.int64),
        np.zeros((n_patches, width, width, d if curved else 0)),
        np.zeros((n_patches, d)),
        np.zeros((n_patches, extra)),
        np.zeros(n_patches),
    )

    def work(patch: int, entries: IntArray) -> None:
        mine = members.points[entries]
        rows = np.asarray(X[mine[:: max(1, len(mine) // FIT_POINTS)]], dtype=float)
        _fit_one(charts, patch, rows, curved, share)

    run.map(work, patch_tasks(members.patches, n_patches), blas=True)
    return charts


def _fit_one(charts: BentCharts, patch: int, rows: FloatArray, curved: bool, share: float | None) -> None:
    charts.means[patch] = rows.mean(axis=0)
    away = rows - charts.means[patch]
    variances, directions = _principal(away)
    total = variances.sum()
    extra = min(charts.spread.shape[1], len(variances))
    charts.spread[patch, :extra] = variances[:extra]
    size = chart_size(variances, float(total), charts.width, share)
    frame = directions[:, :size]
    rest = away - (away @ frame) @ frame.T
    if curved and size:
        bent = _bend(away, frame, rest)
        if bent is not None:
            frame, charts.rises[patch], bends, rest = bent
            charts.bends[patch, :size, :size] = bends
    charts.sizes[patch] = size
    charts.frames[patch, :, :size] = frame
    inside = np.square(away @ frame).sum() if size else 0.0
    charts.residuals[patch] = np.sqrt(np.square(rest).sum() / inside) if inside > 0 else 0.0


def chart_size(variances: FloatArray, total: float, width: int, share: float | None) -> int:
    """Return the dimension of a chart: all directions that are there, or as many as leave ``share`` of the total."""
    size = min(width, int((variances > FLAT * variances[0]).sum())) if total > 0 else 0
    if share is None or size == 0:
        return size
    enough = 1 - np.cumsum(variances[:size]) / total <= share
    return 1 + int(np.argmax(enough)) if enough.any() else size


def _principal(away: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return variances, descending, and directions in columns, from the smaller of the two Gram matrices."""
    n, d = away.shape
    if n >= d:
        values, vectors = np.linalg.eigh(away.T @ away / n)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    values, vectors = np.linalg.eigh(away @ away.T / n)
    values = np.maximum(values[::-1], 0.0)
    there = values > NORMAL * values[0] if values[0] > 0 else np.zeros(n, dtype=bool)
    directions = away.T @ (vectors[:, ::-1][:, there] / np.sqrt(n * values[there]))
    return values, directions


def _bend(
    away: FloatArray, frame: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Fit how the points leave the flat; the frame turned to touch the surface, rise, bends, and what is left.

    None where there are too few points, or no evidence beyond that of noise.
    """
    n, size = len(away), frame.shape[1]
    k, m = np.triu_indices(size)
    unknowns = 1 + size + len(k)
    if n < 2 * unknowns:
        return None
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
        if gain <= EVIDENCE * noise:
            return None
        # Towards the tangent at the middle, which the principal directions of a lopsided patch are not.
        frame = np.linalg.qr(frame + found[1 : 1 + size].T)[0]
    u = away @ frame
    rest = away - u @ frame.T
    squares = u[:, k] * u[:, m] * np.where(k == m, 0.5, 1.0)
    design = np.column_stack([np.ones(n), squares])
    found = np.linalg.lstsq(design, rest, rcond=None)[0]
    # Noise adds to the squares of fitted bends: less by what it alone would give.
    certain = np.sqrt(1 - noise / gain)
    bends = np.zeros((size, size, away.shape[1]))
    bends[k, m] = bends[m, k] = certain * found[1:]
    return frame, found[0], bends, rest - design @ found
