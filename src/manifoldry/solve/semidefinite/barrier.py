"""Distances held within bands by a barrier, while the rest is stretched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.semidefinite.forms import Stretch
from manifoldry.values import FloatArray


@dataclass(frozen=True)
class Bands:
    r"""Squared lengths :math:`|b_e V|^2` that have to stay between two numbers.

    Parameters
    ----------
    differences : csr_array of shape (E, m)
        Row e gives the difference of two points, divided by the wanted distance, as a combination of the rows of V.
    lower, upper : ndarray of shape (E,)
        The band around 1; minus infinity where nothing holds from below.
    """

    differences: sp.csr_array
    lower: FloatArray
    upper: FloatArray

    def __len__(self) -> int:
        return len(self.upper)

    def lengths(self, V: FloatArray) -> FloatArray:
        """Return the squared relative lengths."""
        return np.square(self.differences @ V).sum(axis=1)

    def inside(self, V: FloatArray) -> bool:
        """Tell whether all lengths are strictly within their bands."""
        lengths = self.lengths(V)
        return bool((lengths < self.upper).all() and (lengths > self.lower).all())

    @cached_property
    def _products(self) -> tuple[sp.csr_array, sp.csr_array]:
        """Which entries of B'FB there are, and the matrix that takes the forces F to them."""
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
        return sp.csr_array(where, shape=(m, m)), sp.csr_array(parts, shape=(len(places), len(counts)))

    def springs(self, forces: FloatArray) -> sp.csr_array:
        """Return the matrix B'FB of springs with these forces."""
        pattern, parts = self._products
        return sp.csr_array((parts @ forces, pattern.indices, pattern.indptr), shape=pattern.shape)

    def stiffened(self, form: sp.csr_array, stiffness: FloatArray, ends: FloatArray) -> sp.csr_array:
        r"""Return :math:`F \otimes I_p + \sum_e s_e (b_e \otimes y_e)(b_e \otimes y_e)^\top` for ends y_e = b_e V."""
        pattern, parts = self._products
        p = ends.shape[1]
        squares = (stiffness[:, None, None] * ends[:, :, None] * ends[:, None, :]).reshape(len(ends), p * p)
        blocks = (np.reshape(parts @ squares, (-1, p, p)), pattern.indices, pattern.indptr)
        alike = (form.data[:, None, None] * np.eye(p), form.indices, form.indptr)
        shape = (p * form.shape[0], p * form.shape[1])
        return sp.csr_array(sp.bsr_array(blocks, shape=shape) + sp.bsr_array(alike, shape=shape))

    def narrowed(self, center: FloatArray, slack: float) -> Bands:
        """Return bands of half-width ``slack`` about ``center``."""
        return replace(self, lower=center - slack, upper=center + slack)


@dataclass(frozen=True)
class Local:
    """What a function is like at V: half its gradient, and the two parts of half its second derivative.

    Parameters
    ----------
    slope : ndarray of shape (m, p)
        Half the gradient.
    form : csr_array of shape (m, m)
        The part of half the second derivative that acts on all columns alike.
    stiffness : ndarray of shape (E,)
        Weights of the squares of changes of length: the other part.
    hidden : int
        Negative directions of the form that no move takes.
    """

    slope: FloatArray
    form: sp.csr_array
    stiffness: FloatArray
    hidden: int = 0


class Hill(Protocol):
    """A function of V to go down on: smooth in the squared lengths of its bands."""

    @property
    def bands(self) -> Bands:
        """The lengths that it sees."""
        ...

    def value(self, V: FloatArray) -> float:
        """Return the function at V; infinite where it is not defined."""
        ...

    def local(self, V: FloatArray) -> Local:
        """Return its derivatives at V."""
        ...


@dataclass(frozen=True)
class Barrier:
    r"""The barrier function :math:`-\langle V, W V\rangle - \nu \sum_e [\log(u_e - l_e) + \log(l_e - o_e)]`.

    It is convex in :math:`A = V V^\top`. Its forces :math:`\nu/(u - l) - \nu/(l - o)` are multipliers of the bands, and
    where it is smallest they prove that the stretch is within :math:`\nu` times the number of bounds of the best.

    Parameters
    ----------
    stretch : Stretch
        W.
    bands : Bands
        The distances to hold.
    nu : float
        The strength of the barrier.
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
        held = np.isfinite(below)
        walls = np.log(above).sum() + np.log(below[held]).sum()
        return -float(np.vdot(V, self.stretch.times(V))) - self.nu * float(walls)

    def pulls(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the multipliers of the upper and of the lower ends."""
        lengths = self.bands.lengths(V)
        return self.nu / (self.bands.upper - lengths), self.nu / (lengths - self.bands.lower)

    def local(self, V: FloatArray) -> Local:
        """Return the derivatives of the barrier function."""
        above, below = self.pulls(V)
        springs = self.laplacian(above - below)
        slope = springs @ V - self.stretch.times(V)
        stiffness = 2 * (above**2 + below**2) / self.nu
        return Local(slope, sp.csr_array(springs - self.stretch.matrix), stiffness, self.stretch.hidden)

    def laplacian(self, forces: FloatArray) -> sp.csr_array:
        """Return the matrix of springs with these forces."""
        return self.bands.springs(forces)

    @property
    def n_walls(self) -> int:
        """Number of bounds that hold."""
        return len(self.bands) + int(np.isfinite(self.bands.lower).sum())


@dataclass(frozen=True)
class Misfit:
    r"""Half the sum of squared errors of the squared lengths, :math:`\tfrac12 \sum_e (l_e - 1)^2`: what comes first.

    Parameters
    ----------
    bands : Bands
        The distances to keep; their widths do not matter here.
    """

    bands: Bands

    def value(self, V: FloatArray) -> float:
        """Return half the sum of squared errors."""
        return float(np.square(self.bands.lengths(V) - 1).sum()) / 2

    def local(self, V: FloatArray) -> Local:
        """Return the misfit's derivatives; springs that are too short do not push, so that steps go down."""
        errors = self.bands.lengths(V) - 1
        B = self.bands.differences
        slope = B.T @ (errors[:, None] * (B @ V))
        return Local(slope, self.bands.springs(np.maximum(errors, 0.0)), np.full(len(errors), 2.0))
