"""The unknowns of a placement (a frame and a shift for every rigid patch), what is maximized, and bands of lengths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manifoldry._core.values import Array, FloatArray, IntArray


class FrameLayout:
    r"""Which rows of the unknowns V belong to which patch.

    Patch i has :math:`r_i` orthonormal rows :math:`R_i^\top`, its frame; below the frames of all patches it has one
    free row :math:`t_i^\top`, its shift. Its point f goes to :math:`R_i f + t_i`. ``sizes`` are the dimensions
    :math:`r_i`; 0 for an individual point.
    """

    def __init__(self, sizes: IntArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.n_patches = len(self.sizes)
        self.n_frame_rows = int(self.offsets[-1])
        self.n_rows = self.n_frame_rows + self.n_patches
        self.max_size = int(self.sizes.max(initial=0))

    @cached_property
    def groups(self) -> list[tuple[IntArray, IntArray]]:
        """For every positive size s: the patches of that size, and the rows of their frames, shape (patches, s)."""
        groups: list[tuple[IntArray, IntArray]] = []
        for size in np.unique(self.sizes[self.sizes > 0]):
            patches = np.flatnonzero(self.sizes == size)
            groups.append((patches, self.offsets[patches][:, None] + np.arange(size)))
        return groups

    @cached_property
    def is_frame_row(self) -> FloatArray:
        """One for the rows of frames, zero for shifts."""
        return (np.arange(self.n_rows) < self.n_frame_rows).astype(float)

    def orthonormal(self, V: FloatArray) -> FloatArray:
        """Return V with every frame replaced by the nearest orthonormal one: its polar factor."""
        nearest = V.copy()
        for _, rows in self.groups:
            left, _, right = np.linalg.svd(V[rows], full_matrices=False)
            nearest[rows] = left @ right
        return nearest

    def tangent(self, V: FloatArray, Z: FloatArray) -> FloatArray:
        r"""Return Z projected onto the tangent space at V: :math:`Z_i - \mathrm{sym}(Z_i V_i^\top) V_i`."""
        projected = Z.copy()
        for _, rows in self.groups:
            frames = V[rows]
            projected[rows] -= _symmetric(Z[rows] @ frames.transpose(0, 2, 1)) @ frames
        return projected

    def multipliers(self, V: FloatArray, G: FloatArray) -> sp.csc_array:
        r"""Return the block diagonal :math:`\Lambda_i = \mathrm{sym}(G_i V_i^\top)`, zero for the shifts."""
        parts = [_flat(rows, rows, _symmetric(G[rows] @ V[rows].transpose(0, 2, 1))) for _, rows in self.groups]
        shape = (self.n_rows, self.n_rows)
        if not parts:
            return sp.csc_array(shape)
        entries, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        return sp.csc_array(sp.coo_array((entries, (rows, columns)), shape=shape))

    def split(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the frames, padded with zeros to shape (c, max_size, p), and the shifts of shape (c, p)."""
        frames = np.zeros((self.n_patches, self.max_size, V.shape[1]))
        for patches, rows in self.groups:
            frames[patches, : rows.shape[1]] = V[rows]
        return frames, V[self.n_frame_rows :]

    def mean_diagonal(self, matrix: sp.csr_array) -> float:
        """Return the mean magnitude of the frames' diagonal entries (of all, if there are no frames), or 1 if zero."""
        return float(np.abs(matrix.diagonal()[: self.n_frame_rows or None]).mean()) or 1.0


def _symmetric(blocks: FloatArray) -> FloatArray:
    return (blocks + blocks.transpose(0, 2, 1)) / 2


def _flat(rows: IntArray, columns: IntArray, blocks: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the entries of blocks (c, a, b), their rows, given as (c, a), and their columns, given as (c, b)."""
    every_row = np.broadcast_to(rows[:, :, None], blocks.shape)
    return blocks.ravel(), every_row.ravel(), np.broadcast_to(columns[:, None, :], blocks.shape).ravel()


# The stretch <V, W V> is maximized: a positive semidefinite form W of the rows of V.


@dataclass(frozen=True)
class Stretch:
    """A form W >= 0 that does not change with shifts, as a sparse matrix that equals it on all (or centered) V."""

    matrix: sp.csr_array
    centered: bool = False

    @classmethod
    def variance(cls, n_points: int) -> Stretch:
        """Return the total variance of points (weinberger2006): W = I - 11'/n, kept as I because steps are centered."""
        return cls(sp.eye_array(n_points, format="csr"), centered=True)

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        return V - V.mean(axis=0) if self.centered else np.asarray(self.matrix @ V)

    def total(self, V: FloatArray) -> float:
        """Return the stretch <V, W V>."""
        return float(np.vdot(V, self.times(V)))


# An orthonormal basis of the tangent space of frames and shifts, and Newton's matrix in it.


def tangent_dimensions(layout: FrameLayout, p: int) -> IntArray:
    """Return the dimension of each patch's tangent space, frame and shift, in p columns."""
    return layout.sizes * p - layout.sizes * (layout.sizes + 1) // 2 + p


def tangent_basis(layout: FrameLayout, V: FloatArray) -> sp.csr_array:
    r"""Return an orthonormal basis of the tangent space at V, shape (n_rows * p, dimension), V taken row by row.

    The tangents of a frame are :math:`\Omega V_i + W V_i^\perp` with skew :math:`\Omega`; a shift is free. The columns
    of a patch are adjacent, so that Newton's matrix has the pattern of the patch graph.
    """
    p = V.shape[1]
    first = np.concatenate([[0], np.cumsum(tangent_dimensions(layout, p))])
    parts = []
    for patches, frame_rows in layout.groups:
        blocks = _frame_tangents(V[frame_rows])
        flat_rows = (frame_rows[:, :, None] * p + np.arange(p)).reshape(len(patches), -1)
        parts.append(_flat(flat_rows, first[patches][:, None] + np.arange(blocks.shape[2]), blocks))
    shifts = np.arange(layout.n_patches * p)
    shift_columns = (first[1:, None] - p + np.arange(p)).ravel()
    parts.append((np.ones(len(shifts)), layout.n_frame_rows * p + shifts, shift_columns))
    entries, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    basis = sp.csr_array((entries, (rows, columns)), shape=(layout.n_rows * p, int(first[-1])))
    basis.eliminate_zeros()
    return basis


def _frame_tangents(frames: FloatArray) -> FloatArray:
    """Return orthonormal tangents of frames of shape (c, r, p), shape (c, r * p, dimension)."""
    c, r, p = frames.shape
    complement = np.linalg.svd(frames, full_matrices=True)[2][:, r:]
    tangents = []
    for a in range(r):
        for b in range(a):
            tangent = np.zeros((c, r, p))
            tangent[:, a], tangent[:, b] = frames[:, b] / np.sqrt(2), -frames[:, a] / np.sqrt(2)
            tangents.append(tangent.reshape(c, -1))
    for a in range(r):
        for b in range(p - r):
            tangent = np.zeros((c, r, p))
            tangent[:, a] = complement[:, b]
            tangents.append(tangent.reshape(c, -1))
    return np.stack(tangents, axis=2) if tangents else np.zeros((c, r * p, 0))


def reduced_outer_products(
    differences: sp.csr_array, ends: FloatArray, weights: FloatArray, basis: sp.csr_array
) -> sp.csc_array:
    r"""Return :math:`\sum_e w_e g_e g_e^\top` in the basis, with :math:`g_e = b_e \otimes y_e` for ends y_e = b_e V."""
    p = ends.shape[1]
    pairs = sp.coo_array(differences)
    rows = np.repeat(pairs.row, p)
    columns = (pairs.col[:, None] * p + np.arange(p)).ravel()
    entries = (pairs.data[:, None] * ends[pairs.row]).ravel()
    gradients = sp.csr_array((entries, (rows, columns)), shape=(differences.shape[0], differences.shape[1] * p))
    along = gradients @ basis
    return sp.csc_array(along.T @ sp.diags_array(weights) @ along)


# Squared distances kept within bands by a logarithmic barrier, and their least-squares misfit.

MIN_DENSE_SHARE = 0.5  # share of nonzero entries above which a dense product is faster


@dataclass(frozen=True)
class Bands:
    """Squared lengths :math:`|b_e V|^2` that must stay between two bounds, their band.

    Row e of ``differences`` is the difference of two points over the target distance, as a combination of rows of V.
    ``lower`` is minus infinity if there is no lower bound.
    """

    differences: sp.csr_array
    lower: FloatArray
    upper: FloatArray

    def __len__(self) -> int:
        return len(self.upper)

    @property
    def bounded_below(self) -> Array:
        """Which lengths have a lower bound."""
        return np.isfinite(self.lower)

    def lengths(self, V: FloatArray) -> FloatArray:
        """Return the squared relative lengths."""
        return np.square(self.differences @ V).sum(axis=1)

    def violation(self, V: FloatArray) -> float:
        """Return the largest violation of a band; 0 if all lengths are inside."""
        lengths = self.lengths(V)
        return float(np.maximum(lengths - self.upper, self.lower - lengths).max(initial=0.0))

    @cached_property
    def _products(self) -> tuple[sp.csr_array, Any]:
        """The pattern of B'FB, and the matrix that maps the diagonal F to its entries; dense if mostly nonzero."""
        B = sp.csr_array(self.differences)
        counts = np.diff(B.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        first = np.repeat(np.arange(B.nnz), counts[row])
        begins = np.repeat(np.cumsum(counts[row]) - counts[row], counts[row])
        second = B.indptr[row[first]] + np.arange(len(first)) - begins
        m = B.shape[1]
        keys, entry = np.unique(B.indices[first].astype(np.int64) * m + B.indices[second], return_inverse=True)
        pattern = (np.ones(len(keys)), (keys // m, keys % m))
        parts = (B.data[first] * B.data[second], (entry, row[first]))
        collect = sp.csr_array(parts, shape=(len(keys), len(counts)))
        full = collect.nnz > MIN_DENSE_SHARE * collect.shape[0] * collect.shape[1]
        return sp.csr_array(pattern, shape=(m, m)), collect.toarray() if full else collect

    def laplacian(self, weights: FloatArray) -> sp.csr_array:
        """Return B' diag(weights) B, the weighted Laplacian of the pairs."""
        pattern, parts = self._products
        return sp.csr_array((parts @ weights, pattern.indices, pattern.indptr), shape=pattern.shape)

    def hessian(self, form: sp.csr_array, weights: FloatArray, ends: FloatArray) -> sp.csr_array:
        r"""Return :math:`F \otimes I_p + \sum_e w_e (b_e \otimes y_e)(b_e \otimes y_e)^\top` for ends y_e = b_e V."""
        pattern, parts = self._products
        p = ends.shape[1]
        squares = (weights[:, None, None] * ends[:, :, None] * ends[:, None, :]).reshape(len(ends), p * p)
        blocks = (np.reshape(parts @ squares, (-1, p, p)), pattern.indices, pattern.indptr)
        alike = (form.data[:, None, None] * np.eye(p), form.indices, form.indptr)
        shape = (p * form.shape[0], p * form.shape[1])
        return sp.csr_array(sp.bsr_array(blocks, shape=shape) + sp.bsr_array(alike, shape=shape))


class LengthDerivatives(NamedTuple):
    """Derivatives of a function of squared lengths at V; ``centered`` if they hold for centered V only.

    They are half the gradient, the part of half the Hessian that acts on each column, and the weights of the outer
    products of the lengths' gradients, its other part.
    """

    gradient: FloatArray
    form: sp.csr_array
    weights: FloatArray
    centered: bool = False


@dataclass(frozen=True)
class Barrier:
    r"""The barrier function :math:`-\langle V, W V\rangle - \nu \sum_e [\log(u_e - l_e) + \log(l_e - o_e)]`.

    It is convex in :math:`A = V V^\top`. At its minimum the multipliers :math:`\nu/(u - l)` and :math:`\nu/(l - o)`
    prove that the stretch is within :math:`\nu` times the number of bounds of the largest.
    """

    stretch: Stretch
    bands: Bands
    nu: float

    def value(self, V: FloatArray) -> float:
        """Return the barrier function at V; infinite outside the bands."""
        lengths = self.bands.lengths(V)
        above, below = self.bands.upper - lengths, lengths - self.bands.lower
        if above.min(initial=np.inf) <= 0 or below.min(initial=np.inf) <= 0:
            return np.inf
        logarithms = np.log(above).sum() + np.log(below[np.isfinite(below)]).sum()
        return -self.stretch.total(V) - self.nu * float(logarithms)

    def multipliers(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the multipliers of the upper and of the lower bounds."""
        lengths = self.bands.lengths(V)
        return self.nu / (self.bands.upper - lengths), self.nu / (lengths - self.bands.lower)

    def derivatives(self, V: FloatArray) -> LengthDerivatives:
        above, below = self.multipliers(V)
        laplacian = self.bands.laplacian(above - below)
        gradient = laplacian @ V - self.stretch.times(V)
        form = sp.csr_array(laplacian - self.stretch.matrix)
        return LengthDerivatives(gradient, form, 2 * (above**2 + below**2) / self.nu, self.stretch.centered)

    @property
    def gap(self) -> float:
        """Maximum distance of the stretch from the largest, at the minimum of the barrier function."""
        return self.nu * (len(self.bands) + int(self.bands.bounded_below.sum()))


@dataclass(frozen=True)
class Misfit:
    r"""Half the sum of squared errors of the squared lengths, :math:`\tfrac12 \sum_e (l_e - 1)^2`."""

    bands: Bands

    def value(self, V: FloatArray) -> float:
        return float(np.square(self.bands.lengths(V) - 1).sum()) / 2

    def derivatives(self, V: FloatArray) -> LengthDerivatives:
        """Return the derivatives; the form omits the negative terms of lengths that are too short."""
        errors = self.bands.lengths(V) - 1
        B = self.bands.differences
        gradient = B.T @ (errors[:, None] * (B @ V))
        return LengthDerivatives(gradient, self.bands.laplacian(np.maximum(errors, 0.0)), np.full(len(errors), 2.0))
