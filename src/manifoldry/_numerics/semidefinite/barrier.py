"""Squared distances held within bands by a logarithmic barrier, and their least-squares misfit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.semidefinite.frames import Stretch

MIN_DENSE_SHARE = 0.5
"""Share of nonzero entries from which on a product is faster dense: of combinations of landmarks all are nonzero."""


@dataclass(frozen=True)
class Bands:
    """Squared lengths :math:`|b_e V|^2` that have to stay between two bounds, their band.

    Row e of ``differences`` gives the difference of two points, divided by the wanted distance, as a combination of the
    rows of V. ``lower`` is minus infinity where there is no lower bound.
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

    @property
    def n_bounds(self) -> int:
        """Number of finite bounds."""
        return len(self) + int(self.bounded_below.sum())

    def lengths(self, V: FloatArray) -> FloatArray:
        """Return the squared relative lengths."""
        return np.square(self.differences @ V).sum(axis=1)

    def violation(self, V: FloatArray) -> float:
        """Return by how much a length is farthest outside its band; 0 if all are inside."""
        lengths = self.lengths(V)
        return float(np.maximum(lengths - self.upper, self.lower - lengths).max(initial=0.0))

    @cached_property
    def _products(self) -> tuple[sp.csr_array, Any]:
        """The pattern of B'FB, and the matrix that takes the diagonal F to its entries; dense where it is full."""
        B = sp.csr_array(self.differences)
        counts = np.diff(B.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        first = np.repeat(np.arange(B.nnz), counts[row])
        begins = np.repeat(np.cumsum(counts[row]) - counts[row], counts[row])
        second = B.indptr[row[first]] + np.arange(len(first)) - begins
        m = B.shape[1]
        places, entry = np.unique(B.indices[first].astype(np.int64) * m + B.indices[second], return_inverse=True)
        where = (np.ones(len(places)), (places // m, places % m))
        parts = (B.data[first] * B.data[second], (entry, row[first]))
        taking = sp.csr_array(parts, shape=(len(places), len(counts)))
        full = taking.nnz > MIN_DENSE_SHARE * taking.shape[0] * taking.shape[1]
        return sp.csr_array(where, shape=(m, m)), taking.toarray() if full else taking

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

    def narrowed(self, center: FloatArray, slack: float) -> Bands:
        """Return bands of half-width ``slack`` about ``center``."""
        return replace(self, lower=center - slack, upper=center + slack)


class LengthDerivatives(NamedTuple):
    """Derivatives of a function of squared lengths at V.

    Half the gradient; the part of half the Hessian that acts on all columns alike; the weights of the outer products of
    the lengths' gradients, its other part; and whether all that holds for centered V only.
    """

    gradient: FloatArray
    form: sp.csr_array
    weights: FloatArray
    centered: bool = False


@dataclass(frozen=True)
class Barrier:
    r"""The barrier function :math:`-\langle V, W V\rangle - \nu \sum_e [\log(u_e - l_e) + \log(l_e - o_e)]`.

    It is convex in :math:`A = V V^\top`. The multipliers of the bounds are :math:`\nu/(u - l)` and
    :math:`\nu/(l - o)`; at its minimum they prove that the stretch is within :math:`\nu` times the number of bounds of
    the largest.
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
        """Return the derivatives of the barrier function."""
        above, below = self.multipliers(V)
        laplacian = self.bands.laplacian(above - below)
        gradient = laplacian @ V - self.stretch.times(V)
        form = sp.csr_array(laplacian - self.stretch.matrix)
        return LengthDerivatives(gradient, form, 2 * (above**2 + below**2) / self.nu, self.stretch.centered)

    @property
    def gap(self) -> float:
        """How far from the largest the stretch is at the minimum, at the most."""
        return self.nu * self.bands.n_bounds


@dataclass(frozen=True)
class Misfit:
    r"""Half the sum of squared errors of the squared lengths, :math:`\tfrac12 \sum_e (l_e - 1)^2`."""

    bands: Bands

    def value(self, V: FloatArray) -> float:
        """Return half the sum of squared errors."""
        return float(np.square(self.bands.lengths(V) - 1).sum()) / 2

    def derivatives(self, V: FloatArray) -> LengthDerivatives:
        """Return the derivatives, in the form without the negative terms of lengths that are too short."""
        errors = self.bands.lengths(V) - 1
        B = self.bands.differences
        gradient = B.T @ (errors[:, None] * (B @ V))
        return LengthDerivatives(gradient, self.bands.laplacian(np.maximum(errors, 0.0)), np.full(len(errors), 2.0))
