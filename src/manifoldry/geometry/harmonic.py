"""Harmonic functions on a graph: what is known at some points, spread to the others as smoothly as it can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import cg

from manifoldry.csgraph import connected_components
from manifoldry.neighbors.targets import Targets
from manifoldry.values import Array, FloatArray

HARMONIC_TOL, MAX_HARMONIC_STEPS = 1e-10, 2_000
"""Relative residual of the linear system at which conjugate gradients end, and steps after which they do anyway."""


def harmonic(W: Any, values: FloatArray, known: Array) -> tuple[FloatArray, Array]:
    r"""Return values (n, m) with the unknown ones set to :math:`\arg\min \sum_{ij} w_{ij} |f_i - f_j|^2`.

    Each is then the mean of its neighbors', weighted by W; also returned is which points have a value: all that a path
    joins with a known one.

    Notes
    -----
    References: zhu2003.

    Examples
    --------
    >>> path = diags_array([1.0, 1.0, 1.0, 1.0], offsets=1, shape=(5, 5))
    >>> ends = np.array([True, False, False, False, True])
    >>> harmonic(csr_array(path + path.T), np.array([[0.0], [0], [0], [0], [8]]), ends)[0].T.round(6)
    array([[0., 2., 4., 6., 8.]])
    """
    W = csr_array(W)
    _, part = connected_components(W, directed=False)
    reached = np.isin(part, np.unique(part[known]))
    asked, told = np.flatnonzero(reached & ~known), np.flatnonzero(known)
    degrees = np.asarray(W.sum(axis=1)).reshape(-1)[asked]
    rows = W[asked]
    laplacian = csr_array(diags_array(degrees) - rows[:, asked])
    jacobi = diags_array(1.0 / degrees) if len(asked) else None
    sources = rows[:, told] @ values[told]
    found = np.array(values, dtype=np.float64)
    for column in range(values.shape[1]):
        solution = cg(laplacian, sources[:, column], rtol=HARMONIC_TOL, maxiter=MAX_HARMONIC_STEPS, M=jacobi)
        found[asked, column] = solution[0]
    return found, reached


def with_unknown_filled(targets: Targets, W: Any) -> Targets:
    """Return targets whose unknown ones are those of the harmonic function on a graph of affinities.

    Classes become shares of each class, in columns; with a weight of 1, which knows no shares, the largest.
    """
    if not targets.categorical:
        values, reached = harmonic(W, targets.values, targets.known)
        return replace(targets, values=values, known=reached)
    labels = targets.values[:, 0]
    members = (labels[:, None] == np.arange(labels.max() + 1)) & targets.known[:, None]
    shares, reached = harmonic(W, members.astype(np.float64), targets.known)
    if targets.weight == 1:
        return replace(targets, values=np.argmax(shares, axis=1)[:, None], known=reached)
    return replace(targets, values=shares / np.sqrt(2.0), known=reached, categorical=False)


def weakened(W: Any, targets: Targets) -> csr_array:
    r"""Return affinities with the factor :math:`e^{-(w / (1 - w))^2 \Lambda}` of targets of weight w.

    It is what lengths would have become under the automatic bandwidth, for which :math:`2 s^2 = h^2`. Unknown targets
    are those of the harmonic function on the affinities.
    """
    affinities = csr_array(W, dtype=np.float64, copy=True)
    if not targets.known.all():
        targets = with_unknown_filled(targets, affinities)
    rows = np.repeat(np.arange(affinities.shape[0]), np.diff(affinities.indptr))
    squares = targets.squares(rows, affinities.indices)
    ratio = targets.weight / (1.0 - targets.weight) if targets.weight < 1 else np.inf
    affinities.data *= np.exp(-(ratio**2) * squares, out=np.ones_like(squares), where=squares > 0)
    affinities.eliminate_zeros()
    return affinities
