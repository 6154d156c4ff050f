"""Curved charts: a patch in its principal directions, corrected by its second fundamental form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.geometry.principal import n_principal, principal_directions
from manifoldry.patches.cover import Membership, entries_by_patch
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray

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
